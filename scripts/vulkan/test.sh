#!/usr/bin/env bash
# Runs tests with the feature `vulkan` on Mesa's driver lavapipe, which computes on the CPU: faults, golden cases, logits, sessions,
# undo, a question on two GPUs. On a Debian 12; nothing is installed.
#
#     scripts/vulkan/test.sh            # all of it
#     scripts/vulkan/test.sh gpus       # a part: gpus, golden, engine or question
#
# The driver compiles each shader when it is first used, which takes most of the time of the first run. It keeps them in
# target/tools/vulkan.
set -euo pipefail
cd "$(dirname "$0")/../.."
VULKAN_SDK=$(scripts/vulkan/fetch.sh)
export VULKAN_SDK LONGHAND_TEST_DEVICE=vulkan
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER=$PWD/scripts/vulkan/lavapipe.sh
build=(--profile "${PROFILE:-release}" --workspace --features longhand-cli/vulkan,tests/vulkan)

# Tests of Vulkan alone.
gpus() {
    GGML_VK_VISIBLE_DEVICES=0,0,0 cargo test "${build[@]}" --test graphs --test engine -- vulkan::
}

golden() {
    cargo run "${build[@]}" --bin golden -- tests/golden/policies/cases
}

# As CI does on a device without kernels of ours.
engine() {
    cargo test "${build[@]}" --test engine --test store -- logits:: device:: session:: undone restored_session \
        errors_of_a_device planned_bytes --skip a_long_text_begins_with_a_piece_of_embeddings \
        --skip a_restored_session_continues_like_the_saved_one
}

# The built-in model on two GPUs.
question() {
    local answer
    answer=$(GGML_VK_VISIBLE_DEVICES=0,0 cargo run "${build[@]}" --bin longhand -- ask --device vulkan:0,vulkan:1 \
        "Mary's favorite number is 34251. What is Mary's favorite number?")
    echo "$answer"
    grep -q 34251 <<< "$answer"
}

[ $# -gt 0 ] || set -- gpus golden engine question
for part; do
    started=$SECONDS
    "$part"
    echo "== $part: $((SECONDS - started)) s"
done

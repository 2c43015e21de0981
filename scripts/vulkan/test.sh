#!/usr/bin/env bash
# Runs tests with the feature `vulkan` on Mesa's driver lavapipe, which computes on the CPU: faults, golden cases, sessions, undo,
# logits beside those of the CPU, a question on two GPUs. On a Debian 12; nothing is installed.
#
#     scripts/vulkan/test.sh            # all of it
#     scripts/vulkan/test.sh gpus       # a part: gpus, golden, engine or question
#     scripts/vulkan/test.sh --windows  # the program for Windows, in Wine
#
# The driver compiles each shader when it is first used, which takes most of the time of the first run. It keeps them in
# target/tools/vulkan.
set -euo pipefail
# What is called within $(...) ends at its first error, too.
shopt -s inherit_errexit
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}
VULKAN_SDK=$(scripts/vulkan/fetch.sh)
export VULKAN_SDK LONGHAND_TEST_DEVICE=vulkan
if [ "${1:-}" = --windows ]; then
    shift
    cargo=scripts/windows/cargo.sh profile=${PROFILE:-mutants} runner=$PWD/scripts/windows/lavapipe.sh suffix=.exe
    programs=$target/windows/x86_64-pc-windows-gnu/$profile
    export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=$runner
else
    cargo=cargo profile=${PROFILE:-release} runner=$PWD/scripts/vulkan/lavapipe.sh suffix=
    programs=$target/$profile
    export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER=$runner
fi
options=(--profile "$profile" --workspace --features longhand-cli/vulkan,tests/vulkan)

# run PROGRAM ARGUMENTS...
run() {
    "$cargo" build "${options[@]}" --bin "$1"
    "$runner" "$programs/$1$suffix" "${@:2}"
}

# Tests of Vulkan alone.
gpus() {
    GGML_VK_VISIBLE_DEVICES=0,0,0 "$cargo" test "${options[@]}" --test graphs --test engine -- vulkan::
}

golden() {
    run golden tests/golden/policies/cases
}

# Some of the tests that CI runs on a device without kernels of ours; all of them would be hours of compiling shaders.
engine() {
    "$cargo" test "${options[@]}" --test engine --test store -- a_bounded_session_undoes_a_turn a_changed_text_reuses \
        an_undone_turn_leaves_windows a_piece_is_a_chunk errors_of_a_device reach::
}

# The built-in model on two GPUs.
question() {
    local answer
    answer=$(GGML_VK_VISIBLE_DEVICES=0,0 run longhand ask --draft 0 -n 16 --device vulkan:0,vulkan:1 \
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

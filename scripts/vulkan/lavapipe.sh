#!/usr/bin/env bash
# Runs a command where Vulkan has one GPU, Mesa's lavapipe, which computes on the CPU.
#
#     scripts/vulkan/lavapipe.sh target/release/longhand devices
#     GGML_VK_VISIBLE_DEVICES=0,0 scripts/vulkan/lavapipe.sh target/release/longhand demo --device vulkan:0,vulkan:1
#
# The second command has two GPUs, the same driver twice. Without f16: the driver needs half a minute to compile one shader of
# attention with it.
set -euo pipefail
tools=$(dirname "$("$(dirname "$0")/fetch.sh")")
export LD_LIBRARY_PATH=$tools/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export VK_DRIVER_FILES=$tools/lavapipe.json VK_LOADER_LAYERS_DISABLE='~all~'
export GGML_VK_DISABLE_F16=1 GGML_VK_VISIBLE_DEVICES=${GGML_VK_VISIBLE_DEVICES:-0}
exec "$@"

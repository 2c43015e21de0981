#!/usr/bin/env bash
# Runs a command where Vulkan has one GPU, Mesa's lavapipe, which computes on the CPU.
#
#     scripts/vulkan/lavapipe.sh target/release/longhand devices
#     GGML_VK_VISIBLE_DEVICES=0,0 scripts/vulkan/lavapipe.sh target/release/longhand demo --device vulkan:0,vulkan:1
#
# The second command has two GPUs, the same driver twice. Shaders are compiled without f16, with which one of attention takes half a
# minute, and without optimisation. Compiled ones are kept in target/tools/vulkan.
set -euo pipefail
tools=$(dirname "$("$(dirname "$0")/fetch.sh")")
export LD_LIBRARY_PATH=$tools/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export VK_DRIVER_FILES=$tools/lavapipe.json VK_LOADER_LAYERS_DISABLE='~all~'
export GALLIVM_PERF=nopt MESA_SHADER_CACHE_DIR=$tools/shaders
export GGML_VK_DISABLE_F16=1 GGML_VK_VISIBLE_DEVICES=${GGML_VK_VISIBLE_DEVICES:-0}
exec "$@"

#!/usr/bin/env bash
# Runs the tests, or another command, with the mock of a GPU (ggml/mock) as the GPU: everything that is said to CUDA is checked, and
# the CPU computes what is launched. To be run by hand after changes around devices: the first time about twenty minutes of CPU time
# go into compiling ggml-cuda, which is too much for .ci/run.
#
#     scripts/mock-gpu.sh                 # golden cases and integration tests
#     scripts/mock-gpu.sh cargo run --release --features mock-cuda -- devices
#
# LONGHAND_CUDA_ARCHS (default 89) is the mock's architecture; NVCC and CUDA_HOME as in ggml/build/cuda.rs, without them the toolkit
# is put into target/cuda-toolkit. What the mock itself reads is in ggml/mock/machine.h.
set -euo pipefail
cd "$(dirname "$0")/.."

export LONGHAND_CUDA_ARCHS=${LONGHAND_CUDA_ARCHS:-89} LONGHAND_TEST_DEVICE=cuda
if [ -z "${NVCC:-}${CUDA_HOME:-}" ]; then
    NVCC=$(scripts/cuda-toolkit.sh target/cuda-toolkit)/bin/nvcc
    export NVCC
fi
target=${CARGO_TARGET_DIR:-target}
library=$target/mock-cuda
mkdir -p "$library"
cc -shared -fPIC -o "$library/libcublas.so.13" ggml/mock/cublas.c
LD_LIBRARY_PATH=$(cd "$library" && pwd)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH

if [ $# -gt 0 ]; then
    exec "$@"
fi
cargo build --release -p tests --features mock-cuda --bin golden
for eager in 0 1; do
    LONGHAND_MOCK_EAGER=$eager "$target/release/golden" tests/golden/policies/cases
done
cargo test --release -p tests -p cli -p kernels --features mock-cuda --test logits --test session --test device --test mock_gpu \
    --test device_attend --test device_rows --test device_scores

#!/usr/bin/env bash
# Runs the tests, or another command, with a mock of a GPU (tests/mock-cuda): all CUDA calls are checked, and the CPU
# computes what is launched. To be run by hand after changes around devices: the first run takes about twenty minutes
# of CPU time to compile ggml-cuda, too much for .ci/run.
#
#     scripts/mock-gpu.sh                 # golden cases and integration tests
#     scripts/mock-gpu.sh cargo run --release -p longhand-cli --features cuda,ggml/external-cudart -- devices
#
# LONGHAND_CUDA_ARCHS (default 89) is the mock's architecture. NVCC and CUDA_HOME are as in ggml/sys/build/cuda.rs;
# without them the toolkit is put into target/cuda-toolkit. The mock's own variables are in tests/mock-cuda/machine.h.
set -euo pipefail
cd "$(dirname "$0")/.."

export LONGHAND_CUDA_ARCHS=${LONGHAND_CUDA_ARCHS:-89} LONGHAND_TEST_DEVICE=cuda
if [ -z "${NVCC:-}${CUDA_HOME:-}" ]; then
    NVCC=$(scripts/cuda-toolkit.sh target/cuda-toolkit)/bin/nvcc
    export NVCC
fi
CARGO_BUILD_TARGET=$(rustc -vV | sed -n 's/^host: //p')
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target/mock-cuda"
library=$(cd "$target/mock-cuda" && pwd)
# With a target named, these flags are for programs alone, not for build scripts.
export CARGO_BUILD_TARGET RUSTFLAGS="--cfg mock_cuda -C link-arg=@$library/link.args"

out=$(cargo build --release -p mock-cuda --features external-cudart --message-format json-render-diagnostics |
    grep -o '"out_dir":"[^"]*/mock-cuda-[^"]*"' | cut -d'"' -f4)
emulator=$(grep liblonghand_emulated "$out/link.args") || { echo "$out/link.args names no emulator" >&2; exit 1; }
linked=$(cat "$out/link.args" "$out/libmock_cuda.a" "$emulator" | sha256sum)
if [ "$linked" != "$(cat "$library/linked" 2> /dev/null)" ]; then
    # Cargo does not know that programs depend on the libraries.
    cargo clean --quiet --release -p ggml -p kernels -p tests -p longhand-cli
    cp "$out/libmock_cuda.a" "$out/link.args" "$library"
    echo "$linked" > "$library/linked"
fi
cc -shared -fPIC -o "$library/libcublas.so.13" tests/mock-cuda/cublas.c
export LD_LIBRARY_PATH="$library${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

if [ $# -gt 0 ]; then
    exec "$@"
fi
features=cuda,ggml/external-cudart
cargo build --release -p tests --features "$features" --bin golden
for eager in 0 1; do
    LONGHAND_MOCK_EAGER=$eager "$target/$CARGO_BUILD_TARGET/release/golden" tests/golden/policies/cases
done
for eager in 0 1; do
    LONGHAND_MOCK_EAGER=$eager cargo test --release -p ggml --features cuda,external-cudart --test graphs -- device::
done
cargo test --release -p tests -p longhand-cli -p kernels --features "$features" --test engine --test store --test program \
    --test device_kernels -- logits:: session:: device:: placements:: mock_gpu:: device_attend:: device_rows:: device_scores::

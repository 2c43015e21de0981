#!/usr/bin/env bash
# Packs the tests for a machine that has an NVIDIA GPU and no Cargo: dist/gpu-pack.tar.xz holds the tests, the golden
# runner with its cases, longhand itself and run.sh, all built with CUDA for one architecture. There:
#
#     tar -xf gpu-pack.tar.xz && gpu-pack/run.sh report.txt
#
# It needs xz, glibc of this machine's version or later, and a driver for the toolkit's CUDA: 580 or later for CUDA 13.
#
#     scripts/gpu-pack.sh         # LONGHAND_CUDA_ARCHS is 90 (H100, H200) where it is not set
set -euo pipefail
cd "$(dirname "$0")/.."

export LONGHAND_CUDA_ARCHS=${LONGHAND_CUDA_ARCHS:-90}
if [ -z "${NVCC:-}${CUDA_HOME:-}" ]; then
    NVCC=$(scripts/cuda-toolkit.sh target/cuda-toolkit)/bin/nvcc
    export NVCC
fi

pack=dist/gpu-pack
rm -rf "$pack" "$pack.tar.xz"
mkdir -p "$pack/tests"

# Only tests that ask on which device to run travel; the others have run here.
cargo test --release --locked --no-run --features portable,cuda -p longhand-cli -p ggml -p kernels -p tests \
    --message-format json-render-diagnostics |
    grep -o '"executable":"[^"]*/deps/[^"]*"' | cut -d'"' -f4 |
    while read -r test; do
        if grep -q LONGHAND_TEST_DEVICE "$test"; then
            strip -o "$pack/tests/$(basename "$test")" "$test"
        fi
    done
for program in longhand golden; do
    strip -o "$pack/$program" "${CARGO_TARGET_DIR:-target}/release/$program"
done

mkdir -p "$pack/data"
cp -r tests/golden "$pack/data/golden"
cp scripts/gpu-run.sh "$pack/run.sh"
cp scripts/gpu-memory.py "$pack"

# The executables hold the same GPU code: with a dictionary longer than one of them it is packed once.
tar -C dist -cf - gpu-pack | xz -T1 --lzma2=preset=6,dict=256MiB > "$pack.tar.xz"
printf '%s: %s MiB\n' "$pack.tar.xz" "$(($(stat -c %s "$pack.tar.xz") / 1048576))"

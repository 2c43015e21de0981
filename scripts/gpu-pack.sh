#!/usr/bin/env bash
# Packs the tests for a machine that has an NVIDIA GPU and no Cargo: dist/gpu-pack.tar.xz holds the test executables, the
# golden runner with its cases, longhand itself and run.sh, all built with CUDA for one architecture. There:
#
#     tar -xf gpu-pack.tar.xz && gpu-pack/run.sh report.txt
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

features=(--release --locked --features portable,cuda)
cargo build "${features[@]}" -p cli -p tests
for program in longhand golden; do
    strip -o "$pack/$program" "${CARGO_TARGET_DIR:-target}/release/$program"
done
cargo test "${features[@]}" -p ggml -p kernels -p engine -p tests --no-run --message-format json-render-diagnostics |
    grep -o '"executable":"[^"]*/deps/[^"]*"' | cut -d'"' -f4 |
    while read -r test; do
        strip -o "$pack/tests/$(basename "$test")" "$test"
    done

mkdir -p "$pack/data"
cp -r tests/golden "$pack/data/golden"
cp scripts/gpu-run.sh "$pack/run.sh"

# The executables hold the same GPU code: with a dictionary longer than one of them it is packed once.
tar -C dist -cf - gpu-pack | xz -T1 --lzma2=preset=6,dict=256MiB > "$pack.tar.xz"
ls -l "$pack" "$pack/tests" >&2
printf '%s: %s MiB\n' "$pack.tar.xz" "$(($(stat -c %s "$pack.tar.xz") / 1048576))"

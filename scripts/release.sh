#!/usr/bin/env bash
# Makes the file for others, dist/longhand-<version>-x86_64-linux, with its SHA-256: runs on any x86-64 CPU since
# Haswell, uses NVIDIA GPUs where there are some, and starts where there is neither GPU nor driver. Then looks at what it
# needs, and runs it where there is nothing else.
#
#     scripts/release.sh          # with CUDA: the first time two and a half hours of CPU time, later minutes
#     scripts/release.sh --cpu    # without
#
# LONGHAND_CUDA_ARCHS (default 86,89,90,120), NVCC and CUDA_HOME as in ggml/sys/build/cuda.rs; without the latter two the
# toolkit is put into target/cuda-toolkit.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { printf 'release.sh: %s\n' "$*" >&2; exit 1; }

features=portable,cuda
case "${1:-}" in
    "") ;;
    --cpu) features=portable ;;
    *) fail "unknown argument $1" ;;
esac
target=${CARGO_TARGET_DIR:-target}

if [[ $features == *cuda* ]]; then
    export LONGHAND_CUDA_ARCHS=${LONGHAND_CUDA_ARCHS:-86,89,90,120}
    if [ -z "${NVCC:-}${CUDA_HOME:-}" ]; then
        NVCC=$(scripts/cuda-toolkit.sh target/cuda-toolkit)/bin/nvcc
        export NVCC
    fi
    echo "compiling CUDA code for $LONGHAND_CUDA_ARCHS; progress in ${LONGHAND_CUDA_OBJECTS:-$target/cuda-objects}/build.log"
fi
cargo build --release --locked --package longhand-cli --features "$features"

version=$(cargo metadata --format-version 1 --no-deps | grep -o '"name":"longhand-cli","version":"[^"]*"' | cut -d'"' -f8)
mkdir -p dist
file=dist/longhand-$version-x86_64-linux
strip -o "$file" "$target/release/longhand"
(cd dist && sha256sum "${file#dist/}" > "${file#dist/}.sha256")

# The highest version of a library's symbols that the file refers to.
highest() { objdump -T "$file" | grep -o "${1}_[0-9.]*" | sort -uV | tail -n 1; }

printf '\n%s\n' "$file"
printf 'size      %s MiB\n' "$(($(stat -c %s "$file") / 1048576))"
printf 'needs     %s %s\n' "$(highest GLIBC)" "$(highest GLIBCXX)"
needed=$(objdump -p "$file" | awk '$1 == "NEEDED" { print $2 }')
printf 'libraries %s\n' "$(echo $needed)"
for library in $needed; do
    case $library in
        # What every Linux with glibc has.
        ld-linux-x86-64.so.2 | libc.so.6 | libm.so.6 | libgcc_s.so.1) ;;
        libdl.so.2 | libpthread.so.0 | librt.so.1) ;;
        *) fail "the file needs $library, which is not on every machine" ;;
    esac
done

scripts/bare-root.sh "$file"

if [[ $features == *cuda* ]]; then
    # A driver that knows nothing after CUDA 12.2 must be refused by name, and the CPU compute.
    driver=$(mktemp -d)
    trap 'rm -rf "$driver"' EXIT
    echo 'int cuDriverGetVersion(int *version) { *version = 12020; return 0; }' |
        cc -shared -fPIC -x c - -o "$driver/libcuda.so.1"
    printf '\nwith an old driver:\n'
    LD_LIBRARY_PATH=$driver "$file" devices | tee "$driver/output"
    grep -q 'knows CUDA 12.2 at most' "$driver/output" || fail "the old driver was not refused"
    LD_LIBRARY_PATH=$driver "$file" demo --tokens 2000
fi

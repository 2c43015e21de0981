#!/usr/bin/env bash
# Makes the file for others, dist/longhand-<version>-<target> (with CUDA -cuda at the end), its SHA-256 and its packages
# (packaging/README.md). It runs on x86-64 CPUs since 2008 and uses what they have, on any Linux with glibc 2.28 (2018) or
# later. It uses NVIDIA GPUs where there are some, and starts where there is neither GPU nor driver. Then this looks at what
# the file needs, and runs it where there is nothing else, on emulated CPUs, and from each package.
#
#     scripts/release.sh            # with CUDA and Vulkan: the first time two and a half hours of CPU time, later minutes
#     scripts/release.sh --vulkan   # without CUDA: the first time ten minutes more than without both
#     scripts/release.sh --cpu      # without GPUs
#
# Needs Python with pip, for the linker; on x86-64 qemu-user. LONGHAND_CUDA_ARCHS (default 86,89,90,120), NVCC and CUDA_HOME
# as in ggml/sys/build/cuda.rs; without the latter two the toolkit is put into target/cuda-toolkit. VULKAN_SDK as in
# ggml/sys/vulkan/build/main.rs; without it the headers are put into target/tools, on a Debian 12. Elsewhere scripts/vulkan/headers.sh
# fetches them.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { printf 'release.sh: %s\n' "$*" >&2; exit 1; }

features=portable,vulkan,cuda
# Bytes of a package at most.
limit=60000000
case "${1:-}" in
    "") ;;
    --vulkan) features=portable,vulkan ;;
    --cpu) features=portable limit=20000000 ;;
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

if [[ $features == *vulkan* ]]; then
    VULKAN_SDK=${VULKAN_SDK:-$(scripts/vulkan/fetch.sh)}
    export VULKAN_SDK
fi

# The linker, see scripts/glibc/cc.sh.
zig=target/tools/ziglang==0.17.1
if ! [ -e "$zig/.complete" ]; then
    python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --upgrade --target "$zig" ziglang==0.17.1
    touch "$zig/.complete"
fi
export OLD_GLIBC=2.28 ZIG=$PWD/$zig/ziglang/zig
LONGHAND_COMMIT=$(git describe --always --dirty --abbrev=12 --exclude='*')
export LONGHAND_COMMIT
cargo rustc --release --locked --package longhand-cli --bin longhand --features "$features" -- -C linker="$PWD/scripts/glibc/cc.sh"

about=$("$target/release/longhand" --version)
mkdir -p dist
file=dist/longhand-$(awk 'NR == 1 { print $2 }' <<< "$about")-$(awk '$1 == "target:" { print $2 }' <<< "$about")
if [[ $features == *cuda* ]]; then file=$file-cuda; fi
strip -o "$file" "$target/release/longhand"
(cd dist && sha256sum "${file#dist/}" > "${file#dist/}.sha256")

# The highest version of a library's symbols that the file refers to.
highest() { objdump -T "$file" | grep -o "${1}_[0-9.]*" | sort -uV | tail -n 1; }

printf '\n%s\n' "$file"
printf 'size      %s MiB\n' "$(($(stat -c %s "$file") / 1048576))"
newest=$(highest GLIBC)
printf 'needs     %s\n' "$newest"
[ "$(printf '%s\n' "$newest" "GLIBC_$OLD_GLIBC" | sort -V | tail -n 1)" = "GLIBC_$OLD_GLIBC" ] ||
    fail "the file needs a newer glibc than $OLD_GLIBC"
needed=$(objdump -p "$file" | awk '$1 == "NEEDED" { print $2 }')
printf 'libraries %s\n' "$(echo $needed)"
for library in $needed; do
    case $library in
        # The C library and its parts.
        ld-linux-x86-64.so.2 | ld-linux-aarch64.so.1 | libc.so.6 | libm.so.6 | libdl.so.2 | libpthread.so.0 | librt.so.1) ;;
        *) fail "the file needs $library, which is not on every machine" ;;
    esac
done

scripts/bare-root.sh "$file"
if [ "$(uname -m)" = x86_64 ]; then
    printf '\non CPUs of several levels:\n'
    scripts/levels.sh "$file"
fi

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

printf '\npackages:\n'
packages=dist/packages
rm -rf "$packages"
packaging/build.sh "$file" "$packages"
if [[ $features != *cuda* ]]; then
    large=$(find "$packages" -type f -size "+${limit}c")
    [ -z "$large" ] || fail "larger than $((limit / 1000000)) MB: $large"
    printf '\ninstalled:\n'
    packaging/try.sh "$packages"
fi

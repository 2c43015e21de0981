#!/usr/bin/env bash
# Cargo for Linux on ARM (aarch64-unknown-linux-gnu) on a Debian 12, with GCC and QEMU of Debian.
#
#     scripts/arm/cargo.sh build --profile mutants -p longhand-cli --bin longhand
#     scripts/arm/cargo.sh run --profile mutants -p longhand-cli --bin longhand -- demo --tokens 1k --facts 1
#     QEMU_CPU=cortex-a72 scripts/arm/cargo.sh test --profile mutants -p kernels --features ggml/portable --test cpu
#     scripts/arm/cargo.sh check --profile mutants --workspace
#
# Programs run in QEMU's user mode, on the CPU that QEMU_CPU names (`qemu-aarch64 -cpu help` lists them); without it on one that
# has everything. Without the feature `portable`, ggml needs a CPU with dot products, such as the cortex-a76. QEMU may name
# another qemu-aarch64 than the one that is fetched. Cargo's files lie in target/arm, what is fetched in target/tools. The first
# build takes about 10 minutes on 2 cores. `check` compiles no C++, only the C of the cryptography.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}
tools=$target/tools/aarch64
mkdir -p "$tools"

# Two may start at once.
exec 3> "$tools/.lock"
flock 3
if ! [ -e "$tools/.complete" ]; then
    scripts/unpack.sh "$tools" {cpp,gcc,g++}-12-aarch64-linux-gnu binutils-aarch64-linux-gnu linux-libc-dev-arm64-cross \
        libc6{,-dev}-arm64-cross lib{gcc,stdc++}-12-dev-arm64-cross libgcc-s1-arm64-cross libstdc++6-arm64-cross qemu-user-static
    # The script by which the linker finds the C library names files of an installed package.
    sed -i 's#/usr/aarch64-linux-gnu/lib/##g' "$tools/usr/aarch64-linux-gnu/lib/libc.so"
    touch "$tools/.complete"
fi
exec 3>&-

export CC_aarch64_unknown_linux_gnu=$tools/usr/bin/aarch64-linux-gnu-gcc-12
export CXX_aarch64_unknown_linux_gnu=$tools/usr/bin/aarch64-linux-gnu-g++-12
export AR_aarch64_unknown_linux_gnu=$tools/usr/bin/aarch64-linux-gnu-ar
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$CC_aarch64_unknown_linux_gnu
# For the tools beside the compiler. All libraries there are for ARM, with names that say so.
export LD_LIBRARY_PATH=$tools/usr/lib/x86_64-linux-gnu
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=${QEMU:-$tools/usr/bin/qemu-aarch64-static}
export QEMU_CPU=${QEMU_CPU:-max} QEMU_LD_PREFIX=$tools/usr/aarch64-linux-gnu
exec scripts/build-std.sh aarch64-unknown-linux-gnu "$target/arm" "$@"

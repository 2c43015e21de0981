#!/usr/bin/env bash
# Cargo for Windows (x86_64-pc-windows-gnu) on a Debian 12, with GCC and Wine of Debian.
#
#     scripts/windows/cargo.sh build --profile mutants -p longhand-cli --bin longhand
#     scripts/windows/cargo.sh check --profile mutants --workspace
#
# Cargo's files lie in target/windows, the compiler in target/tools. What `rustup target add` would fetch is made from sources
# (scripts/build-std.sh). The first build takes about 15 minutes on 2 cores. `check` compiles no C++, only the C of the
# cryptography, and takes 5 minutes.
# If linking fails after a build was interrupted, remove the folders `incremental` there.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}/windows
mkdir -p "$target"

# Two may start at once.
exec 3> "$target/.lock"
flock 3

compiler=x86_64-w64-mingw32
missing=()
command -v $compiler-g++-posix > /dev/null || missing+=(g++-mingw-w64-x86-64-posix)
[ "$1" = check ] || command -v wine > /dev/null || missing+=(wine64 wine)
if [ ${#missing[@]} -gt 0 ]; then
    DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 -y --no-install-recommends "${missing[@]}" > /dev/null
fi
exec 3>&-

export CC_x86_64_pc_windows_gnu=$compiler-gcc-posix CXX_x86_64_pc_windows_gnu=$compiler-g++-posix
export AR_x86_64_pc_windows_gnu=$compiler-ar CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=$compiler-gcc-posix
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=${CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER:-$PWD/scripts/windows/wine.sh}
exec scripts/build-std.sh x86_64-pc-windows-gnu "$target" "$@"

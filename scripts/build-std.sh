#!/usr/bin/env bash
# Cargo for a system whose standard library rustup cannot fetch here: it is built from its sources (scripts/rust-sources.sh).
#
#     scripts/build-std.sh TRIPLE FOLDER COMMAND [ARGUMENTS]
#
# Cargo's files lie in FOLDER, those of `check` in FOLDER/check: it compiles no C++.
set -euo pipefail
triple=$1
folder=$2
shift 2
RUSTC=$("$(dirname "$0")/rust-sources.sh")
export RUSTC RUSTFLAGS= CARGO_TARGET_DIR=$folder
if [ "$1" = check ]; then
    export LONGHAND_CHECK=1 CARGO_TARGET_DIR=$folder/check
fi
# The flag that builds the standard library is one of nightly compilers.
export RUSTC_BOOTSTRAP=1
exec cargo "$1" -Zbuild-std=std,panic_unwind,test --target "$triple" "${@:2}"

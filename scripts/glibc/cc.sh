#!/usr/bin/env bash
# A linker for programs that start with glibc 2.28 (2018: RHEL 8, Debian 10, Ubuntu 18.10) and later, on a machine with a
# newer one. It is called by rustc in place of `cc` (scripts/release.sh).
#
# `zig cc` links against the symbols that a given glibc has. Zig brings its own C++ library under the name libstdc++; the
# objects were compiled for GCC's. That is linked statically, with what it misses in an old glibc (missing.c).
#
# OLD_GLIBC is the version. ZIG is the command, `python3 -m ziglang` with the package `ziglang` of PyPI.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
arguments=() missing=()
for argument; do
    case $argument in
        # Once for each crate with C++.
        -lstdc++) arguments+=("$(c++ -print-file-name=libstdc++.a)") missing=("$here/missing.c") ;;
        # Of GCC, in which Zig's own library has all that is needed; of another linker.
        -lgcc_s | -lgcc | -lgcc_eh | -fuse-ld=*) ;;
        *) arguments+=("$argument") ;;
    esac
done
# shellcheck disable=SC2086
exec ${ZIG:?} cc -target "$(uname -m)-linux-gnu.${OLD_GLIBC:?}" "${arguments[@]}" "${missing[@]}" -lunwind

#!/usr/bin/env bash
# Cargo for macOS on ARM (aarch64-apple-darwin) on a Debian 12.
#
#     scripts/macos.sh check --profile mutants -p longhand -p darwin
#     SDKROOT=~/MacOSX.sdk scripts/macos.sh build --release -p longhand-cli --features metal
#
# check compares types. The C of the cryptography is not compiled: build scripts get a compiler that writes empty files. clippy does not
# work here: Debian's rustc has none.
#
# build also compiles ggml and links, by Zig's clang and linker from PyPI. It needs an SDK of macOS, whose licence lets it be used with
# Xcode: the folders Frameworks, include and lib of one, or System/Library/Frameworks and usr. Nothing here runs what is built.
#
# Rust's standard library is compiled from its sources. Cargo's files lie in target/macos.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}/macos
mkdir -p "$target"
case ${1:-} in
    check)
        SDKROOT=$target/sdk
        mkdir -p "$SDKROOT"
        # Asked which compiler it is, it says clang, and that it is not the one of Windows.
        cat > "$target/cc" << 'END'
#!/bin/sh
case " $* " in *' -E '*) echo '"clang"' ;; *' -? '*) exit 1 ;; esac
while [ $# -gt 0 ]; do
    if [ "$1" = -o ]; then : > "$2"; fi
    shift
done
END
        chmod +x "$target/cc"
        export CC_aarch64_apple_darwin=$target/cc SDKROOT
        ;;
    *)
        echo "$0: give check" >&2
        exit 2
        ;;
esac
exec scripts/build-std.sh aarch64-apple-darwin "$target" "$@"

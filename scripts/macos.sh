#!/usr/bin/env bash
# Cargo for macOS on ARM (aarch64-apple-darwin) on a Debian 12, as far as types are checked.
#
#     scripts/macos.sh check --profile mutants -p longhand -p darwin
#
# There is no linker for macOS here and nothing to run programs with. Rust's standard library is checked from its sources. The C of
# the cryptography is not compiled: build scripts get a compiler that writes empty files. Cargo's files lie in target/macos.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" != check ]; then
    echo "$0: only check is possible here" >&2
    exit 2
fi
target=${CARGO_TARGET_DIR:-$PWD/target}/macos
mkdir -p "$target/sdk"
cat > "$target/cc" << 'END'
#!/bin/sh
while [ $# -gt 0 ]; do
    if [ "$1" = -o ]; then : > "$2"; fi
    shift
done
END
chmod +x "$target/cc"
export CC_aarch64_apple_darwin=$target/cc SDKROOT=$target/sdk
exec scripts/build-std.sh aarch64-apple-darwin "$target" "$@"

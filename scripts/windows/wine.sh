#!/usr/bin/env bash
# Runs a program for Windows in Wine, with a Windows of its own in target/windows/wine.
#
#     scripts/windows/wine.sh target/windows/x86_64-pc-windows-gnu/mutants/longhand.exe demo
#
# `scripts/windows/cargo.sh run` and `test` call it. LONGHAND_WINE_LIMIT ends a program after that many seconds.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
target=${CARGO_TARGET_DIR:-$(cd "$here/../.." && pwd)/target}
target=${target%/windows}/windows
export WINEPREFIX=$target/wine WINEDEBUG=${WINEDEBUG:--all}

mkdir -p "$target"
exec 3> "$target/.wine-lock"
flock 3
if ! [ -e "$WINEPREFIX/.complete" ]; then
    # Without a desktop, and without the browser engine and .NET that it would ask for.
    WINEDLLOVERRIDES="mscoree,mshtml=" wine wineboot --init > /dev/null 2>&1
    wineserver --wait 2> /dev/null || true
    x86_64-w64-mingw32-gcc-posix -shared -O2 -o "$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll" \
        "$here/bcryptprimitives.c" -ladvapi32
    touch "$WINEPREFIX/.complete"
fi
exec 3>&-
exec timeout --foreground --kill-after=10 "${LONGHAND_WINE_LIMIT:-0}" wine "$@"

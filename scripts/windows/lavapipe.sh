#!/usr/bin/env bash
# Runs a program for Windows in Wine where Vulkan has one GPU, Mesa's lavapipe, which computes on the CPU.
#
#     scripts/windows/lavapipe.sh target/windows/x86_64-pc-windows-gnu/mutants/longhand.exe devices
#
# Wine shows Vulkan only where there is a screen, so this installs an X server without one. `scripts/vulkan/test.sh --windows`
# runs tests by it.
set -euo pipefail
scripts=$(cd "$(dirname "$0")/.." && pwd)
if ! command -v xvfb-run > /dev/null; then
    DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 -y --no-install-recommends xvfb xauth > /dev/null
fi
target=${CARGO_TARGET_DIR:-$scripts/../target}
export CARGO_TARGET_DIR=${target%/windows}
export WINEPREFIX=$CARGO_TARGET_DIR/windows/wine
# Programs of one Wine share a screen, or have none. So this waits for those before it, and for Wine's own before the screen goes.
timeout 60 wineserver --wait 2> /dev/null || true
exec "$scripts/vulkan/lavapipe.sh" xvfb-run --auto-servernum bash -c \
    'status=0; "$@" || status=$?; timeout 60 wineserver --wait; exit "$status"' -- "$scripts/windows/wine.sh" "$@"

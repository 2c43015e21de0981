#!/usr/bin/env bash
# Fetches what builds and tests of the feature `vulkan` need into a folder, on a Debian 12, and prints the value of VULKAN_SDK.
# Nothing is installed.
#
#     export VULKAN_SDK=$(scripts/vulkan/fetch.sh)
#
# The C++ headers are those of Debian 13 (1.4.309), which know the matrix units of today's GPUs. libvulkan and Mesa's driver
# lavapipe, which computes on the CPU, are for scripts/vulkan/lavapipe.sh. Mesa is 25.0 of Debian's backports: with the one of
# Debian 12 (22.3) tests crash in the driver. 160 MB are downloaded, once.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools=${CARGO_TARGET_DIR:-$PWD/target}/tools/vulkan
mkdir -p "$tools"

# Two may start at once.
exec 3> "$tools/.lock"
flock 3
if ! [ -e "$tools/.complete" ]; then
    scripts/unpack.sh --suites "bookworm bookworm-backports trixie" "$tools" {libvulkan-dev,spirv-headers}/trixie libvulkan1/bookworm \
        {mesa-vulkan-drivers,libdrm2,libdrm-amdgpu1}/bookworm-backports \
        {libllvm15,libz3-4,libedit2,libbsd0,libmd0,libxml2,libicu72,libelf1,libexpat1,libwayland-client0,libxshmfence1}/bookworm \
        {libx11-xcb1,libxcb1,libxau6,libxdmcp6,libxcb-{dri3-0,present0,randr0,shm0,sync1,xfixes0}}/bookworm
    # The driver's own description names a folder of the system.
    cat > "$tools/lavapipe.json" <<END
{ "file_format_version": "1.0.0",
  "ICD": { "library_path": "$tools/usr/lib/x86_64-linux-gnu/libvulkan_lvp.so", "api_version": "1.4.305" } }
END
    touch "$tools/.complete"
fi
echo "$tools/usr"

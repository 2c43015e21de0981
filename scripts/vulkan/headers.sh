#!/usr/bin/env bash
# Puts the headers of Vulkan and SPIR-V into a folder, from the repositories of their makers, and prints the value of VULKAN_SDK. For
# machines other than a Debian 12 (fetch.sh); needs Git.
#
#     export VULKAN_SDK=$(scripts/vulkan/headers.sh FOLDER)
set -euo pipefail
mkdir -p "$1"
for name in Vulkan-Headers SPIRV-Headers; do
    rm -rf "${1:?}/$name"
    git -c advice.detachedHead=false clone --quiet --depth 1 --branch vulkan-sdk-1.4.309.0 "https://github.com/KhronosGroup/$name" "$1/$name"
    cp -r "$1/$name/include" "$1"
done
echo "$1"

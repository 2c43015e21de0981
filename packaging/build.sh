#!/usr/bin/env bash
# Makes all packages of a program for its system, with their SHA-256.
#
#     build.sh PROGRAM DIST       # what scripts/release.sh made, and a folder
#
# A program with CUDA becomes an archive only. The program is asked for its version and target, so it must run here; RUN as in stage.sh.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
program=$1 dist=$2
mkdir -p "$dist"
about=$(${RUN:-} "$program" --version)
version=$(awk 'NR == 1 { print $2 }' <<< "$about")
target=$(awk '$1 == "target:" { print $2 }' <<< "$about")

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
"$here/stage.sh" "$program" "$root"
formats=(tarball.py wheel.py npm.py)
case $target in *-linux-gnu) formats+=(deb.sh oci.py) ;; esac
if grep -q '^backends: .*, CUDA' <<< "$about"; then
    # Too large for the registries.
    target=$target-cuda
    formats=(tarball.py)
fi
for format in "${formats[@]}"; do
    run=()
    case $format in *.py) run=(python3) ;; esac
    for file in $("${run[@]}" "$here/$format" "$root" "$version" "$target" "$dist"); do
        size=$(wc -c < "$file")
        printf '%6.1f MB  %s\n' "$(awk "BEGIN { print $size / 1e6 }")" "$file"
        (cd "$dist" && { sha256sum "${file##*/}" 2> /dev/null || shasum -a 256 "${file##*/}"; } > "${file##*/}.sha256")
    done
done

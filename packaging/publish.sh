#!/usr/bin/env bash
# What one release has beside the packages of each system: the install script, Homebrew's formula, winget's files.
#
#     publish.sh VERSION URL DIST       # DIST holds the packages of all systems, URL is where they will be
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
version=$1 url=$2 dist=$3
sed -e "s|^VERSION='@VERSION@'|VERSION='$version'|" -e "s|^URL='@URL@'|URL='$url'|" "$here/install.sh" > "$dist/install.sh"
chmod +x "$dist/install.sh"
python3 "$here/homebrew.py" "$version" "$url" "$dist"
if [ -e "$dist/longhand-$version-x86_64-pc-windows-gnu.zip.sha256" ]; then
    python3 "$here/winget.py" "$version" "$url" "$dist"
fi

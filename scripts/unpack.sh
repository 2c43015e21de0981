#!/usr/bin/env bash
# Fetches packages of Debian and unpacks them into a folder, without installing them.
#
#     scripts/unpack.sh FOLDER PACKAGE...
set -euo pipefail
folder=$1
rm -rf "$folder/usr"
mkdir -p "$folder/packages"
cd "$folder/packages"
# The warning that is left out: the download is not done by a user without rights, who cannot write here.
apt-get download --quiet=2 "${@:2}" 2> >(grep -v '^W: Download is performed unsandboxed' >&2)
for package in *.deb; do dpkg-deb -x "$package" ..; done
rm -r "$folder/packages"

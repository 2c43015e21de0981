#!/usr/bin/env bash
# Fetches packages of Debian and unpacks them into a folder, without installing them.
#
#     scripts/unpack.sh FOLDER PACKAGE...
#     scripts/unpack.sh --suites "trixie forky" FOLDER PACKAGE...    # those of other releases than the system's
set -euo pipefail
if [ "$1" = --suites ]; then
    suites=$2
    shift 2
    # apt with lists of its own: the system's stay as they are.
    apt=$(mktemp -d)
    trap 'rm -r "$apt"' EXIT
    # apt downloads as a user of its own.
    chmod 755 "$apt"
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
    # The archive that the system uses.
    archive=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m 1 '/debian/$')
    for suite in $suites; do
        echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive $suite main"
    done > "$apt/sources.list"
    cat > "$apt/apt.conf" <<END
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "$apt/lists";
Dir::Cache "$apt/cache";
END
    export APT_CONFIG=$apt/apt.conf
    apt-get update --quiet=2 >&2
fi
folder=$1
rm -rf "$folder/usr"
mkdir -p "$folder/packages"
cd "$folder/packages"
# The warning that is left out: the download is not done by a user without rights, who cannot write here.
apt-get download --quiet=2 "${@:2}" 2> >(grep -v '^W: Download is performed unsandboxed' >&2)
for package in *.deb; do dpkg-deb -x "$package" ..; done
rm -r "$folder/packages"

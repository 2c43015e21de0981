#!/bin/sh
# Installs longhand for this user, without root:
#
#     curl -fsSL URL/install.sh | sh
#     sh install.sh --to DIRECTORY      # instead of ~/.local
#     sh install.sh --cuda              # with code for NVIDIA GPUs (Linux on x86-64)
#     sh install.sh ARCHIVE             # an archive that is here already, with its .sha256 beside it
#
# It downloads the archive for this system from the release that it belongs to, checks its SHA-256 and says where it put
# what. Nothing is changed before the sum is right. To remove longhand, delete the files that it names.
set -eu

VERSION='@VERSION@'
# Where the archives are. The release puts it in.
URL='@URL@'

fail() { printf 'install.sh: %s\n' "$*" >&2; exit 1; }
has() { command -v "$1" > /dev/null 2>&1; }

archive= cuda= to=${HOME:-}/.local
while [ $# -gt 0 ]; do
    case $1 in
        --to) [ $# -gt 1 ] || fail "--to needs a folder"; to=$2; shift ;;
        --cuda) cuda=-cuda ;;
        -*) fail "unknown option $1" ;;
        *) archive=$1 ;;
    esac
    shift
done
case $to in /.local) [ -n "${HOME:-}" ] || fail "there is no HOME; use --to DIRECTORY" ;; esac

case $(uname -s)-$(uname -m) in
    Linux-x86_64) target=x86_64-unknown-linux-gnu ;;
    Linux-aarch64 | Linux-arm64) target=aarch64-unknown-linux-gnu ;;
    Darwin-arm64) target=aarch64-apple-darwin ;;
    *) fail "there is no archive for $(uname -s) on $(uname -m); build from the sources" ;;
esac
name=longhand-$VERSION-$target$cuda

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -n "$archive" ]; then
    [ -f "$archive" ] || fail "there is no file $archive"
    [ -f "$archive.sha256" ] || fail "there is no file $archive.sha256 with its sum"
    name=$(basename "$archive" .tar.gz)
    cp "$archive" "$work/$name.tar.gz"
    cp "$archive.sha256" "$work/sum"
else
    for file in "$name.tar.gz" "$name.tar.gz.sha256"; do
        printf 'downloading %s\n' "$URL/$file"
        if has curl; then
            curl --proto '=https' -fSL -o "$work/$file" "$URL/$file" || fail "the download failed"
        elif has wget; then
            wget -q -O "$work/$file" "$URL/$file" || fail "the download failed"
        else
            fail "curl or wget is needed"
        fi
    done
    mv "$work/$name.tar.gz.sha256" "$work/sum"
fi

expected=$(cut -d ' ' -f 1 < "$work/sum")
if has sha256sum; then
    found=$(sha256sum "$work/$name.tar.gz" | cut -d ' ' -f 1)
elif has shasum; then
    found=$(shasum -a 256 "$work/$name.tar.gz" | cut -d ' ' -f 1)
else
    fail "sha256sum or shasum is needed, to check the download"
fi
[ ${#expected} -eq 64 ] || fail "the file with the sum has none"
[ "$found" = "$expected" ] || fail "the archive has another SHA-256 than it should: $found instead of $expected; nothing was installed"

tar -xzf "$work/$name.tar.gz" -C "$work"
"$work/$name/bin/longhand" --version > "$work/version" || fail "the program does not run here; nothing was installed"
# The program last and by renaming: one that runs may be replaced.
(cd "$work/$name" && find share -type f) > "$work/files"
while read -r file; do
    mkdir -p "$to/$(dirname "$file")"
    cp "$work/$name/$file" "$to/$file"
done < "$work/files"
mkdir -p "$to/bin"
cp "$work/$name/bin/longhand" "$to/bin/.longhand.new"
mv "$to/bin/.longhand.new" "$to/bin/longhand"

head -n 1 "$work/version"
printf 'program       %s\n' "$to/bin/longhand"
printf 'manual pages  %s\n' "$to/share/man/man1/longhand*.1"
printf 'completions   %s\n' "$to/share/bash-completion/completions/longhand" \
    "$to/share/zsh/site-functions/_longhand" "$to/share/fish/vendor_completions.d/longhand.fish"
printf 'licence       %s\n' "$to/share/doc/longhand/LICENSE"
case :$PATH: in
    *:"$to/bin":*) ;;
    *) printf 'note: %s is not in PATH\n' "$to/bin" ;;
esac

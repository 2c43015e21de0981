#!/usr/bin/env bash
# Installs each package of a folder where that can be undone, runs the program there, and says what it did. No root, no
# network. What is not on this machine (npm, uv, dpkg, skopeo) is said to be not tried.
#
#     try.sh DIST       # for the packages of this system, made by build.sh
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dist=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
export HOME=$work/home XDG_CACHE_HOME=$work/home/cache XDG_CONFIG_HOME=$work/home/config XDG_STATE_HOME=$work/home/state
mkdir -p "$HOME"
printf "Mary's favorite number is 34251.\n" > "$work/note.txt"
cd "$work"
only() { compgen -G "$dist/$1" | head -n 1; }
fail() { printf 'try.sh: %s\n' "$*" >&2; exit 1; }

# The program answers, and knows its version.
works() {
    local what=$1
    shift
    "$@" --version | grep '^commit: ' > /dev/null || fail "$what: no version"
    "$@" ask -f "$work/note.txt" "What is Mary's favorite number?" 2> "$work/notes" | grep 34251 > /dev/null ||
        { cat "$work/notes"; fail "$what: another answer"; }
    printf '%-8s installed, ran and answered: %s\n' "$what" "$*"
}
has() { command -v "$1" > /dev/null || { printf '%-8s not tried: no %s here\n' "$2" "$1"; return 1; }; }

archive=$(only 'longhand-*-unknown-linux-gnu.tar.gz')
for part in bin/longhand share/man/man1/longhand-ask.1 share/bash-completion/completions/longhand \
    share/zsh/site-functions/_longhand share/fish/vendor_completions.d/longhand.fish share/doc/longhand/LICENSE; do
    tar -tzf "$archive" | grep "/$part$" > /dev/null || fail "tarball: no $part"
done
sh "$here/install.sh" --to "$work/local" "$archive" > "$work/said"
while read -r file; do [ -f "$file" ] || [ -f "${file/\*.1/.1}" ] || fail "install.sh named $file, which is not there"; done \
    < <(awk '$NF ~ /^\// { print $NF }' "$work/said")
works tarball "$work/local/bin/longhand"
# A changed archive is refused, and changes nothing.
cp "$archive" changed.tar.gz
cp "$archive.sha256" changed.tar.gz.sha256
printf x >> changed.tar.gz
if sh "$here/install.sh" --to "$work/other" changed.tar.gz > "$work/said" 2>&1 || [ -e "$work/other" ]; then
    fail "install.sh took an archive with a wrong sum"
fi
grep -q 'another SHA-256' "$work/said" || { cat "$work/said"; fail "install.sh: another error"; }
echo "tarball  a changed archive was refused"

wheel=$(only '*.whl')
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --no-index --disable-pip-version-check "$wheel"
works wheel "$work/venv/bin/longhand"
[ -f "$work/venv/share/man/man1/longhand-ask.1" ] || fail "wheel: no manual pages"
if has uvx uvx; then works uvx uvx --offline --no-index --find-links "$dist" --from longhand-cli longhand; fi

if has dpkg-deb deb; then
    dpkg-deb -x "$(only '*.deb')" "$work/deb"
    [ -f "$work/deb/usr/share/man/man1/longhand-ask.1.gz" ] || fail "deb: no manual pages"
    works deb "$work/deb/usr/bin/longhand"
fi

if has npm npm; then
    # As npm does it from its registry: the package that fits is one of those that longhand-cli names.
    npm install --offline --no-audit --no-fund --silent --prefix "$work/npm" "$(only 'longhand-cli-linux-*.tgz')" > /dev/null
    npm install --offline --no-audit --no-fund --silent --prefix "$work/npm" --omit=optional "$(only 'longhand-cli-[0-9]*.tgz')" > /dev/null
    works npm "$work/npm/node_modules/.bin/longhand"
    # It ends as the program ends.
    status=0
    "$work/npm/node_modules/.bin/longhand" ask -f "$work/nothing.txt" x > /dev/null 2>&1 || status=$?
    [ "$status" = 1 ] || fail "npm: exit code $status instead of 1"
fi

image=$(only '*.oci.tar')
if has skopeo skopeo; then skopeo inspect "oci-archive:$image" > /dev/null && echo "oci      skopeo reads the image"; fi
if ! unshare --user --map-root-user --net true 2> /dev/null; then
    echo "oci      not run: this system lets nobody make namespaces"
    exit
fi
mkdir "$work/image" "$work/root"
tar -xf "$image" -C "$work/image"
digest() { python3 -c 'import json, sys; print(json.load(sys.stdin)'"$1"'.replace(":", "/"))'; }
manifest=$work/image/blobs/$(digest '["manifests"][0]["digest"]' < "$work/image/index.json")
layer=$work/image/blobs/$(digest '["layers"][0]["digest"]' < "$manifest")
# Users may not make files of others; the image's home belongs to the only user that there is here.
tar -xzf "$layer" -C "$work/root" --no-same-owner
cp "$work/note.txt" "$work/root/home/longhand/note.txt"
# As an engine starts it: its root, its environment, process 1 of its own.
contained=(env -i HOME=/home/longhand PATH=/usr/bin unshare --user --map-root-user --net --pid --fork --kill-child
    --root="$work/root" --wd=/home/longhand /usr/bin/longhand)
"${contained[@]}" ask -f note.txt "What is Mary's favorite number?" 2> "$work/notes" | grep 34251 > /dev/null ||
    { cat "$work/notes"; fail "oci: another answer"; }
echo "oci      its root was entered, and the program answered as process 1"
# What `docker stop` sends; after ten seconds it kills.
for line in {1..20000}; do echo "Line $line of a text that takes minutes to read."; done > "$work/root/home/longhand/long.txt"
"${contained[@]}" ask -f long.txt "What is in line 7?" > "$work/said" 2>&1 &
engine=$!
until grep tokens "$work/said" > /dev/null; do
    kill -0 "$engine" 2> /dev/null || { cat "$work/said"; fail "oci: the program ended by itself"; }
    sleep 0.1
done
kill -TERM "$(cat "/proc/$engine/task/$engine/children")"
for _ in {1..100}; do kill -0 "$engine" 2> /dev/null || break; sleep 0.1; done
if kill -9 "$engine" 2> /dev/null; then fail "oci: SIGTERM was not answered in ten seconds"; fi
status=0
wait "$engine" || status=$?
[ "$status" = 143 ] || { cat "$work/said"; fail "oci: exit code $status after SIGTERM"; }
echo "oci      SIGTERM ended the program"

#!/usr/bin/env bash
# Runs a program in a root folder with nothing but the program, its libraries and /tmp: no driver, no /proc, no /dev, no home,
# no network.
#
#     scripts/bare-root.sh target/release/longhand
#
# Needs a system that lets users make namespaces (`unshare --user`); without, it says so and succeeds.
set -euo pipefail

program=${1:?the program}
if ! unshare --user --map-root-user --net true 2> /dev/null; then
    echo "bare-root.sh: not run: this system lets nobody make namespaces"
    exit 0
fi
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cp "$program" "$root/longhand"
ldd "$program" | grep -o '/[^ ]*' | while read -r library; do
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
done
mkdir "$root/tmp"
bare() { env -i unshare --user --map-root-user --net --root="$root" /longhand "$@"; }

printf '\nin a bare root:\n'
bare --version
bare devices
printf 'Mary'"'"'s favorite number is 34251.\n' > "$root/note.txt"
bare ask -f /note.txt "What is Mary's favorite number?" | tee "$root/answer"
grep -q 34251 "$root/answer"
bare demo --tokens 2k

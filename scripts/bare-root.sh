#!/usr/bin/env bash
# Runs a program in a root folder with nothing but the program, its libraries and /tmp: no driver, no /proc, no /dev, no home,
# no network. Then as containers run it: with a read-only root, as a user without a name, and with a config folder that this
# user may not read. Then with a small stack, and as process 1, which must answer SIGTERM.
#
#     scripts/bare-root.sh target/release/longhand
#
# Needs a system that lets users make namespaces (`unshare --user`); without, it says so and succeeds.
set -euo pipefail

program=${1:?the program}
if ! unshare --user --map-root-user --net --mount --pid --fork true 2> /dev/null; then
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

question="What is Mary's favorite number?"
answers() { "$@" /longhand ask -f /note.txt "$question" | grep -q 34251; }

printf '\nwith a read-only root, as user 54321:\n'
read_only='mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && cd "$0" && exec unshare --user --map-user=54321 --root="$0" "$@"'
as_user() { env -i PATH="$PATH" "$@" unshare --user --map-root-user --net --mount sh -c "$read_only" "$root" /longhand ask -f /note.txt "$question"; }
as_user | grep -q 34251

printf '\nwith a config folder that the user may not read:\n'
mkdir -m 000 "$root/closed"
as_user XDG_CONFIG_HOME=/closed 2> "$root/notes" | grep -q 34251
grep 'Permission denied' "$root/notes" || { cat "$root/notes"; echo "bare-root.sh: no note about the config folder"; exit 1; }

printf '\nwith a stack of 64 KiB:\n'
(ulimit -s 64 && answers env -i unshare --user --map-root-user --net --root="$root")

printf '\nas process 1:\n'
mkfifo "$root/silent"
exec 3<> "$root/silent"
env -i unshare --user --map-root-user --net --pid --fork --root="$root" /longhand ask -f - "$question" <&3 &
parent=$!
# The document never comes: SIGTERM must end the wait.
first=
for _ in {1..100}; do
    first=$(pgrep -P "$parent") && break
    sleep 0.1
done
test -n "$first" || { echo "bare-root.sh: process 1 did not start"; exit 1; }
sleep 1
kill -TERM "$first"
code=0
wait "$parent" || code=$?
test "$code" = 143 || { echo "bare-root.sh: SIGTERM to process 1 gave exit code $code"; exit 1; }

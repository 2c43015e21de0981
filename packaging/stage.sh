#!/usr/bin/env bash
# Lays out what every package holds: the program, its manual pages, its completions, the licence.
#
#     stage.sh PROGRAM ROOT
#
# The program writes its pages and completions itself, so it must run here. RUN is put before it where it needs help, such
# as RUN="qemu-aarch64 -L /usr/aarch64-linux-gnu".
set -euo pipefail
program=$1 root=$2
here=$(cd "$(dirname "$0")" && pwd)
case $program in *.exe) name=longhand.exe ;; *) name=longhand ;; esac
run() { ${RUN:-} "$program" "$@"; }

mkdir -p "$root"/bin "$root"/share/{man,doc/longhand,bash-completion/completions,zsh/site-functions,fish/vendor_completions.d}
cp "$program" "$root/bin/$name"
chmod 755 "$root/bin/$name"
run man "$root/share/man" 2> /dev/null
run completions bash > "$root/share/bash-completion/completions/longhand"
run completions zsh > "$root/share/zsh/site-functions/_longhand"
run completions fish > "$root/share/fish/vendor_completions.d/longhand.fish"
cp "$here/../LICENSE" "$root/share/doc/longhand/LICENSE"

#!/usr/bin/env bash
# Runs a portable program on CPUs of several levels, which QEMU emulates, and on this machine: each takes its level of
# ggml's code (ggml/sys/cpu/levels.rs), and all give the same answers.
#
#     scripts/levels.sh target/release/longhand
#     QEMU_LD_PREFIX=target/tools/aarch64/usr/aarch64-linux-gnu scripts/levels.sh target/arm/aarch64-unknown-linux-gnu/mutants/longhand
#
# Needs qemu-user; a minute or two, for ARM on another machine some more. There the CPU that has everything takes the place of
# this machine. QEMU 7 emulates no AVX-512: the levels with it run only where this machine has it.
set -euo pipefail

program=$(realpath "${1:?the program}")
fail() { printf 'levels.sh: %s\n' "$*" >&2; exit 1; }
# The architecture, in the header of the program. Some of its CPUs, each with its level.
case $(od -An -tu2 -j18 -N2 "$program" | tr -d ' ') in
    62)
        architecture=x86_64
        # The last one has all of x86-64-v3 but an instruction.
        cases=(Nehalem=x86-64-v2 SandyBridge=x86-64-v2 Haswell=x86-64-v3 Haswell,-movbe=x86-64-v2)
        ;;
    183)
        architecture=aarch64
        cases=(cortex-a72=armv8.0 "cortex-a76=armv8.2 with dot products" "max=armv8.2 with dot products and integer matrices")
        ;;
    *) fail "$program is for neither x86-64 nor ARM" ;;
esac
emulator=qemu-$architecture
command -v "$emulator" > /dev/null || fail "$emulator is needed (Debian: apt-get install qemu-user)"
[ -z "${QEMU_LD_PREFIX:-}" ] || QEMU_LD_PREFIX=$(realpath "$QEMU_LD_PREFIX")
here=(env) name="this machine"
[ "$(uname -m)" = "$architecture" ] || here=("$emulator" -cpu max) name="the best CPU"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOME=$work XDG_CACHE_HOME=$work/cache XDG_CONFIG_HOME=$work/config XDG_STATE_HOME=$work/state

{
    printf "Mary's favorite number is 34251.\n"
    for line in {1..6}; do printf 'Line %s of the note says that the boat of the harbour is painted green.\n' "$line"; done
    printf "Peter's favorite number is 90817.\n"
} > "$work/note.txt"
# Nothing that was read on another CPU is found again. The answers with quantised keys and values too, whose code differs most between levels.
answers() {
    local person
    for person in Mary Peter; do
        "$@" "$program" ask --disk-cache 0 -f "$work/note.txt" "What is $person's favorite number?" -n 12 2> "$work/notes" ||
            { cat "$work/notes" >&2; return 1; }
    done
    "$@" "$program" ask --disk-cache 0 -f "$work/note.txt" -ctk q8_0 -ctv iq4_nl "What is Mary's favorite number?" -n 12 2> "$work/notes" ||
        { cat "$work/notes" >&2; return 1; }
}
# QEMU warns of features that do not matter.
level() { "$@" "$program" --version 2> /dev/null | sed -n 's/^CPU level: //p' | sed 's/, the best of this file.*//'; }

answers "${here[@]}" > "$work/here"
grep -q 34251 "$work/here" && grep -q 90817 "$work/here" || { cat "$work/here"; fail "wrong answers on $name"; }
printf '%-18s %s\n' "$name" "$(level "${here[@]}")"
for case in "${cases[@]}"; do
    cpu=${case%=*} expected=${case##*=}
    found=$(level "$emulator" -cpu "$cpu")
    [ "$found" = "$expected" ] || fail "$cpu takes the level $found instead of $expected"
    answers "$emulator" -cpu "$cpu" > "$work/there" || fail "$cpu: the program failed"
    diff "$work/here" "$work/there" || fail "$cpu gives other answers than $name"
    printf '%-18s %s: the same answers\n' "$cpu" "$found"
done
[ $architecture = x86_64 ] || exit 0
# A CPU below the lowest level gets a sentence.
code=0
qemu-x86_64 -cpu qemu64 "$program" ask -f "$work/note.txt" "Who?" > "$work/there" 2>&1 || code=$?
[ "$code" = 1 ] && grep -q 'x86-64-v2, which this one lacks' "$work/there" || { cat "$work/there"; fail "qemu64: exit code $code"; }
printf '%-18s none: it is told so\n' qemu64

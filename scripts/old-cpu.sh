#!/usr/bin/env bash
# Runs a program on emulated CPUs that lack what it was compiled for: it must say so, and not end at an instruction that the
# CPU does not know.
#
#     scripts/old-cpu.sh target/release/longhand
#
# Needs QEMU's user mode (`apt-get install qemu-user`).
set -euo pipefail

program=${1:?the program}
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
for cpu in Nehalem Westmere SandyBridge; do
    on_cpu() { qemu-x86_64 -cpu "$cpu" "$program" "$@"; }
    printf '\n%s:\n' "$cpu"
    on_cpu --version | tail -2
    on_cpu devices | grep 'no: it lacks'
    code=0
    on_cpu ask "The pass key is 9078648. What is the pass key?" 2> "$errors" || code=$?
    cat "$errors"
    grep -q 'which this one lacks' "$errors"
    test "$code" = 1
done

#!/usr/bin/env bash
# Runs longhand's tests on this machine's NVIDIA GPU; travels in the archive that scripts/gpu-pack.sh makes, as run.sh.
#
#     ./run.sh REPORT [PART...]     # parts: tests memory speed sanitizer; all of them unless named
#
# Everything that is printed also goes to REPORT; exit status 1 if something failed. Variables:
#   LONGHAND_TEST_DEVICE   cuda (the default), vulkan, or cpu, which checks the archive itself where there is no GPU
#   SECONDS_EACH           a test or command is stopped after so many (600; under the sanitizer most need minutes)
#   JOBS                   tests that run at once, each in a process of its own (the number of CPUs)
#   TESTS                  an extended regular expression; other tests are left out ("BINARY NAME" is matched)
#   LONGHAND_SHAPES        where models with synthetic weights are written: several GB (/dev/shm if it is there)
set -uo pipefail
report=$(realpath -m "${1:?usage: run.sh REPORT [tests] [memory] [speed] [sanitizer]}")
shift
parts=${*:-tests memory speed sanitizer}
cd "$(dirname "$0")" || exit 2
exec > >(tee "$report") 2>&1

export LONGHAND_TEST_DEVICE=${LONGHAND_TEST_DEVICE:-cuda}
export LONGHAND_TEST_DATA=$PWD/data
export SECONDS_EACH=${SECONDS_EACH:-600}
export RUST_BACKTRACE=1
# Tests compare with f32. cuBLAS would round matrices of f32 to TF32, which has 10 bits.
export NVIDIA_TF32_OVERRIDE=${NVIDIA_TF32_OVERRIDE:-0}
# Tests that run at once end with the script.
trap 'trap - TERM; kill 0' TERM INT
[ -d /dev/shm ] && shapes=/dev/shm || shapes=/tmp
export XDG_CACHE_HOME=${LONGHAND_SHAPES:-$shapes/longhand-shapes}
logs=$(mktemp -d)
export logs
summary=()
failures=0

# Runs a command under a name, with a limit of time; keeps how it ended.
try() {
    local name=$1 start=$SECONDS code=0 result=passed
    shift
    printf '\n== %s: %s\n' "$name" "$*"
    timeout --kill-after=10 "$SECONDS_EACH" "$@" || code=$?
    if [ "$code" != 0 ]; then
        failures=$((failures + 1))
        result="FAILED, status $code"
    fi
    summary+=("$(printf '%5d s  %-32s %s' $((SECONDS - start)) "$name" "$result")")
}

# Runs one test of a binary in a process of its own, behind the words of $WRAPPER; prints one line, and its output if it fails.
one() {
    local binary=$1 test=$2 code=0 started ended log
    log=$(mktemp -p "$logs")
    started=$(date +%s%N)
    # shellcheck disable=SC2086
    timeout --kill-after=10 "$SECONDS_EACH" ${WRAPPER:-} "$binary" --exact "$test" > "$log" 2>&1 || code=$?
    ended=$((($(date +%s%N) - started) / 100000000))
    if [ "$code" = 0 ]; then
        printf 'ok      %4d.%d s  %s %s\n' $((ended / 10)) $((ended % 10)) "$(basename "$binary")" "$test"
    else
        printf 'FAILED  %4d.%d s  %s %s, status %s\n%s\n' $((ended / 10)) $((ended % 10)) "$(basename "$binary")" "$test" \
            "$code" "$(tail -n 40 "$log" | sed 's/^/        /')"
        echo "$(basename "$binary") $test" >> "$logs/failed"
    fi
}
export -f one

# Runs the tests of binaries, each in a process of its own, several at once. A GPU that one of them breaks is whole for the next.
each() {
    local name=$1 start=$SECONDS count
    shift
    printf '\n== %s\n' "$name"
    for binary; do
        "$binary" --list 2> /dev/null | sed -n "s|^\(.*\): test\$|$binary \1|p"
    done | grep -E "${TESTS:-.}" > "$logs/tests"
    rm -f "$logs/failed"
    xargs -a "$logs/tests" -P "${JOBS:-$(nproc)}" -n 2 bash -c 'one "$@"' one
    count=$(wc -l 2> /dev/null < "$logs/failed" || echo 0)
    failures=$((failures + count))
    summary+=("$(printf '%5d s  %-32s %s' $((SECONDS - start)) "$name" "$(wc -l < "$logs/tests") tests, $count failed")")
}

nvidia-smi || echo "no nvidia-smi"
lscpu | grep -E '^(Model name|CPU\(s\))'

# libcublas, which F16 and F32 models need, may have come with a Python package.
if ! ldconfig -p | grep -q 'libcublas\.so\.1[23]' && ! compgen -G "${LD_LIBRARY_PATH:-/none}/libcublas.so.1[23]" > /dev/null; then
    found=$(find / -xdev -path /proc -prune -o -name 'libcublas.so.1[23]' -print 2> /dev/null | head -n 1)
    echo "libcublas: ${found:-not found}"
    [ -z "$found" ] || export LD_LIBRARY_PATH="$(dirname "$found")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
fi

try version ./longhand --version
try devices ./longhand devices

if [[ " $parts " == *" tests "* ]]; then
    try golden ./golden data/golden/policies/cases
    each tests tests/*
fi

if [[ " $parts " == *" memory "* ]]; then
    try memory ./gpu-memory.py ./longhand
fi

if [[ " $parts " == *" speed "* ]]; then
    for device in cpu "$LONGHAND_TEST_DEVICE"; do
        try "demo on $device" ./longhand demo --device "$device"
    done
    for policy in full razor; do
        try "speed of $policy" ./longhand bench --shape llama-3.2-1b --device "$LONGHAND_TEST_DEVICE" --policy "$policy" \
            -p 512 -n 64 -d 0,16384
    done
fi

if [[ " $parts " == *" sanitizer "* ]]; then
    if sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2> /dev/null); then
        # The golden cases attend with single tokens and rows in F32; these tests have the rest: chunks and all types.
        for tool in memcheck racecheck synccheck initcheck; do
            WRAPPER="$sanitizer --tool $tool --error-exitcode 9"
            export WRAPPER
            try "$tool" $WRAPPER ./golden data/golden/policies/cases
            each "$tool of kernels" tests/device_kernels-*
        done
    else
        echo "compute-sanitizer is not here"
    fi
fi

printf '\n== summary: %d failed\n' "$failures"
printf '%s\n' "${summary[@]}"
[ "$failures" = 0 ]

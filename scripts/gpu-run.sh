#!/usr/bin/env bash
# Runs longhand's tests on this machine's NVIDIA GPU; travels in the archive that scripts/gpu-pack.sh makes, as run.sh.
#
#     ./run.sh REPORT [PART...]     # parts: tests speed sanitizer; all of them unless named
#
# Everything that is printed also goes to REPORT; exit status 1 if something failed. A command that hangs is stopped after
# SECONDS_EACH (default 1200; the sanitizer may need more). LONGHAND_TEST_DEVICE=cpu or emulated checks the archive itself where there is no GPU.
set -uo pipefail
report=$(realpath -m "${1:?usage: run.sh REPORT [tests] [speed] [sanitizer]}")
shift
parts=${*:-tests speed sanitizer}
cd "$(dirname "$0")" || exit 2
exec > >(tee "$report") 2>&1

export LONGHAND_TEST_DEVICE=${LONGHAND_TEST_DEVICE:-cuda}
export LONGHAND_TEST_DATA=$PWD/data
export RUST_BACKTRACE=1
summary=()
failures=0

# Runs a command under a name, with a limit of time; keeps how it ended.
try() {
    local name=$1 start=$SECONDS code=0 result=passed
    shift
    printf '\n== %s: %s\n' "$name" "$*"
    timeout --kill-after=10 "${SECONDS_EACH:-1200}" "$@" || code=$?
    if [ "$code" != 0 ]; then
        failures=$((failures + 1))
        result="FAILED, status $code"
    fi
    summary+=("$(printf '%5d s  %-32s %s' $((SECONDS - start)) "$name" "$result")")
}

nvidia-smi || echo "no nvidia-smi"
lscpu | grep -E '^(Model name|CPU\(s\))'

# libcublas, which F16 and F32 models need, may have come with a Python package.
if ! ldconfig -p | grep -q 'libcublas\.so\.1[23]'; then
    found=$(find / -xdev -path /proc -prune -o -name 'libcublas.so.1[23]' -print 2> /dev/null | head -n 1)
    echo "libcublas: ${found:-not found}"
    [ -z "$found" ] || export LD_LIBRARY_PATH="$(dirname "$found")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
fi

try version ./longhand --version
try devices ./longhand devices

if [[ " $parts " == *" tests "* ]]; then
    # One test at a time: what ends the process is then the last one named.
    for test in tests/*; do
        try "$(basename "$test")" "$test" --test-threads=1
    done
    try golden ./golden data/golden/policies/cases
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
        kernels=(tests/device_kernels-*)
        for tool in memcheck racecheck synccheck initcheck; do
            check=("$sanitizer" --tool "$tool" --error-exitcode 9)
            try "$tool" "${check[@]}" ./golden data/golden/policies/cases
            for test in "${kernels[@]}"; do
                try "$tool $(basename "$test")" "${check[@]}" "$test" --test-threads=1
            done
        done
    else
        echo "compute-sanitizer is not here"
    fi
fi

printf '\n== summary: %d failed\n' "$failures"
printf '%s\n' "${summary[@]}"
[ "$failures" = 0 ]

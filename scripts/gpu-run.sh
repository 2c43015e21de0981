#!/usr/bin/env bash
# Runs longhand's tests on this machine's NVIDIA GPU; travels in the archive that scripts/gpu-pack.sh makes, as run.sh.
#
#     ./run.sh [REPORT]     # everything that is printed also goes to REPORT; exit status 1 if something failed
#
# A test that hangs is stopped after SECONDS_EACH (default 300). LONGHAND_TEST_DEVICE=cpu or emulated checks the archive
# itself where there is no GPU.
set -uo pipefail
report=$(realpath -m "${1:-report.txt}")
cd "$(dirname "$0")" || exit 2
exec > >(tee "$report") 2>&1

export LONGHAND_TEST_DEVICE=${LONGHAND_TEST_DEVICE:-cuda}
export LONGHAND_TEST_DATA=$PWD/data
export RUST_BACKTRACE=1
limit=${SECONDS_EACH:-300}
summary=()
failures=0

# Runs a command under a name, with a limit of time; keeps how it ended.
try() {
    local name=$1 start=$SECONDS code
    shift
    printf '\n== %s: %s\n' "$name" "$*"
    timeout --kill-after=10 "$limit" "$@"
    code=$?
    [ "$code" = 0 ] || failures=$((failures + 1))
    summary+=("$(printf '%-40s %-9s %4d s' "$name" "$([ "$code" = 0 ] && echo passed || echo "FAILED $code")" $((SECONDS - start)))")
}

# Whether longhand has this flag or command already.
knows() { ./longhand "$1" --help 2> /dev/null | grep -q -- "${2:-$1}"; }

nvidia-smi || echo "no nvidia-smi"
lscpu | grep -E '^(Model name|CPU\(s\))'

# libcublas, which F16 and F32 models need, may have come with a Python package.
if ! ldconfig -p | grep -q 'libcublas\.so\.1[23]'; then
    found=$(find / -xdev \( -path /proc -o -path /sys \) -prune -o -name 'libcublas.so.1[23]' -print 2> /dev/null | head -n 1)
    echo "libcublas: ${found:-not found}"
    [ -z "$found" ] || export LD_LIBRARY_PATH="$(dirname "$found")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
fi

try version ./longhand --version
if knows devices; then try devices ./longhand devices; fi

# One test at a time: what ends the process is then the last one named.
for test in tests/*; do
    try "$(basename "$test")" "$test" --test-threads=1
done
try golden ./golden data/golden/policies/cases

if knows demo --device; then
    try "demo, cpu" ./longhand demo --device cpu
    try "demo, cuda" ./longhand demo --device cuda
fi
if knows bench --device; then
    for policy in full razor; do
        try "bench $policy" ./longhand bench --shape llama-3.2-1b --device cuda --policy "$policy"
    done
fi

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2> /dev/null)
if [ -n "$sanitizer" ]; then
    for tool in memcheck racecheck synccheck initcheck; do
        try "$tool" "$sanitizer" --tool "$tool" --error-exitcode 9 ./golden data/golden/policies/cases
    done
else
    echo "compute-sanitizer: not here"
fi

printf '\n== summary\n'
printf '%s\n' "${summary[@]}"
[ "$failures" = 0 ]

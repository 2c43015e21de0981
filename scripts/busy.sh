#!/usr/bin/env bash
# Decode speed while the processors are not ours alone: quiet, beside one busy program on each processor, and with twice
# as many threads as processors. Programs are measured in turn, so that they can be compared although the machine's speed
# changes; on a machine with other work only the comparison means something.
#
#     scripts/busy.sh MODEL PROGRAM...                  # MODEL is a file, or "" for the embedded model
#     ROUNDS=5 TOKENS=64 scripts/busy.sh "" before/longhand target/release/longhand
#
# Prints tokens per second, one line for each condition and round, one column for each program. Wanted: beside busy
# programs at least a quarter of the quiet speed (the ideal share is half), with twice the threads at least half of it, and
# quiet as fast as before.
set -euo pipefail
model=$1
shift
processors=($(taskset -pc $$ | sed 's/.*: //' | tr ',' '\n' | while IFS=- read -r first last; do seq "$first" "${last:-$first}"; done))
count=${#processors[@]}

hogs=()
stop_hogs() {
    [ ${#hogs[@]} -eq 0 ] || kill "${hogs[@]}"
    hogs=()
}
trap stop_hogs EXIT

# Tokens per second of a program with so many threads; 0 where it takes more than two minutes.
speed() {
    local table
    table=$(timeout 120 "$1" bench ${model:+-m "$model"} -t "$2" -p 0 -n "${TOKENS:-64}" -r 1 2>/dev/null) || { echo 0; return; }
    sed -n 's/.*| *\([0-9.,]*\) ± .*/\1/p' <<<"$table" | tr -d ,
}

measure() {
    local condition=$1 threads=$2 program speeds=()
    shift 2
    for program; do speeds+=("$(speed "$program" "$threads")"); done
    printf '%-28s %s\n' "$condition" "$(printf '%12s' "${speeds[@]}")"
}

for ((round = 0; round < ${ROUNDS:-3}; round++)); do
    measure "quiet" "$count" "$@"
    for processor in "${processors[@]}"; do
        taskset -c "$processor" sh -c 'while :; do :; done' &
        hogs+=($!)
    done
    measure "a busy program each" "$count" "$@"
    stop_hogs
    measure "twice the threads" $((2 * count)) "$@"
done

#!/usr/bin/env bash
# What must work on every system, in about a minute. Prints one line for each step, and the output of those that fail.
#
#     scripts/windows/smoke.sh target/release/longhand
#     scripts/windows/smoke.sh scripts/windows/wine.sh target/windows/x86_64-pc-windows-gnu/mutants/longhand.exe
set -uo pipefail
program=()
for part; do
    if [ -e "$part" ]; then part=$(realpath "$part"); fi
    program+=("$part")
done
cd "$(dirname "$0")/../.."
fixtures=$PWD/cli/documents/tests/fixtures
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache XDG_STATE_HOME=$work/state XDG_CONFIG_HOME=$work/config
cd "$work"
passed=0 failed=0

# step NAME PATTERN ARGUMENTS...: with exit code EXPECT (0), and PATTERN in what is printed.
step() {
    local name=$1 pattern=$2 status=0
    shift 2
    timeout "${LIMIT:-180}" "${program[@]}" "$@" > output 2>&1 || status=$?
    if [ "$status" = "${EXPECT:-0}" ] && grep -qE "$pattern" output; then
        passed=$((passed + 1))
        echo "ok    $name"
    else
        failed=$((failed + 1))
        echo "FAIL  $name (exit code $status)"
        tail -n 15 output | cut -c 1-200 | sed 's/^/      /'
    fi
}

fact="Mary's favorite number is 34251."
question="What is Mary's favorite number?"
none=/dev/null
step version '^commit: ' --version < $none
step devices '^cpu .*yes' devices < $none
step plan 'full' plan -c 32k < $none
step policies 'razor' policies < $none
step demo '1 of 1' demo --tokens 1k --facts 1 -q < $none
for kind in md html pdf docx epub; do
    step "ask about $kind" 'decode steps' ask -f "$fixtures/boat.$kind" -n 8 "What is the name of the boat?" < $none
done
step 'a piped document' 34251 ask "$question" <<< "$fact"
step 'an empty pipe' 'decode steps' ask -n 4 "Why?" < <(true)
echo "$fact" > note.txt
step 'a chat by lines' 34251 chat -q -f note.txt <<< "$question"
step 'kept conversations' note sessions list < $none
step 'verify them' note sessions verify < $none
step 'go on with one' 34251 chat -q -n 16 --resume note <<< "$question"
step 'export it' 34251 sessions export note < $none
step 'remove it' '' sessions remove note < $none
EXPECT=1 step 'no such document' nowhere ask -f nowhere.md "What?" < $none
EXPECT=1 step 'an encrypted document' 'password|encrypt' ask -f "$fixtures/encrypted.pdf" "What?" < $none
printf '%d passed; %d failed\n' "$passed" "$failed"
[ "$failed" = 0 ]

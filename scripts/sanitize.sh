#!/usr/bin/env bash
# Runs tests with a sanitizer, ggml and the device kernels' emulator compiled with it too. To be run by hand after changes around
# unsafe code: each needs ten to thirty minutes of processor time and Rust's nightly compiler.
#
#     scripts/sanitize.sh address      # accesses outside memory or after it was freed, and leaks
#     scripts/sanitize.sh undefined    # undefined behaviour of C and C++; overflow and debug assertions of Rust
#     scripts/sanitize.sh thread       # data races
#     scripts/sanitize.sh miri         # undefined behaviour of Rust, where no C is called
#
# More arguments go to `cargo test` (or `cargo miri test`) instead of what is below: `scripts/sanitize.sh address -p ggml`.
set -euo pipefail
cd "$(dirname "$0")/.."

kind=${1:-}
shift || true
target=$(rustc -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/sanitize-$kind CARGO_TERM_COLOR=never

# The crates where C and C++ or our own unsafe code are, and the tests of several crates that use most of them.
crates=(-p ggml -p kernels -p longhand)
suites=(--test engine --test store --)
for suite in alibi device documents golden interrupts logits model_in_memory mutations not_finite session snapshots; do
    suites+=("$suite::")
done

# Runs `cargo test` for the given packages, else for all of the above. Fails in the end if a test failed.
test_all() {
    if [ $# -gt 0 ]; then
        test_with "$@"
        return
    fi
    local failed=0
    test_with "${crates[@]}" || failed=$?
    test_with -p tests "${suites[@]}" || failed=$?
    return "$failed"
}

# The tests, with these flags for all code but build scripts: `rust` for Rust's, `c` for C's and C++'s.
test_with() {
    local c_flags="-O1 -g1 -fno-omit-frame-pointer $c"
    RUSTFLAGS=$rust RUSTDOCFLAGS=$rust CFLAGS=$c_flags CXXFLAGS=$c_flags \
        cargo "${toolchain[@]}" test --release --target "$target" --no-fail-fast "${std[@]}" "$@"
}

toolchain=(+nightly) std=()
case $kind in
address)
    # Rust's own library of the sanitizer is linked; gcc's instructions call it too.
    export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:detect_odr_violation=0
    rust="-Zsanitizer=address -Cdebuginfo=line-tables-only" c=-fsanitize=address
    test_all "$@"
    ;;
undefined)
    # Rust has no such sanitizer: gcc's library is linked. Misaligned numbers are what ggml's formats are made of.
    toolchain=()
    export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
    rust="-Cdebug-assertions -Coverflow-checks -Clink-arg=-lubsan"
    c="-fsanitize=undefined -fno-sanitize=alignment,vptr -fno-sanitize-recover=all"
    test_all "$@"
    ;;
thread)
    # The standard library is compiled too: what its locks order would look like races.
    std=(-Zbuild-std)
    export TSAN_OPTIONS=halt_on_error=1:history_size=4
    rust="-Zsanitizer=thread -Cdebuginfo=line-tables-only -Cunsafe-allow-abi-mismatch=sanitizer" c=-fsanitize=thread
    test_all "$@"
    ;;
miri)
    export MIRIFLAGS="-Zmiri-deterministic-floats -Zmiri-disable-isolation"
    if [ $# -gt 0 ]; then
        cargo +nightly miri test "$@"
        exit
    fi
    # The kernels on the scalar instruction set, without what calls C (`graph`) and tests of very many numbers.
    cargo +nightly miri test -p kernels --lib -- --skip graph:: --skip speeds --skip every_bit_pattern --skip relative_error
    # What reads bytes of model files: not what forks or maps files, nor regular expressions and templates, which take hours.
    cargo +nightly miri test -p models --lib -- \
        chat::template::wire embedded:: error:: gguf:: random:: types:: tokenizer::bytes special::tests::a_token special::tests::control
    cargo +nightly miri test -p models --test gguf -- corrupt::{alignments,counts,damaged,integers,invalid,keys_with,missing_and}
    ;;
*)
    sed -n '2,10s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac

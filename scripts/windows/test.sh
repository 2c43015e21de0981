#!/usr/bin/env bash
# Runs the tests of all crates in Wine, as far as they can run there.
#
#     scripts/windows/test.sh                     # all: compiles for half an hour, runs for another one, on 2 cores
#     scripts/windows/test.sh -p kernels          # those of a crate
#
# Tests with terminals, signals, permissions, pipes in the file system, limits and control groups of Unix are not compiled
# for Windows. What is left out here in addition:
set -euo pipefail
cd "$(dirname "$0")/../.."

left_out=(
    # They expect the separators of paths, the quotes of shells and the words for errors that Unix has.
    arguments::each_document_is_asked_about_on_its_own
    arguments::paths_that_do_not_exist_are_errors
    arguments::words_of_other_programs_are_understood
    bad_input::files_that_are_not_models_are_rejected
    bad_input::models_and_questions_are_told_apart
    chat_changes::another_model_goes_on_with_the_documents_and_the_conversation
    config::config_shows_what_holds_and_where_it_comes_from
    documents::folders_and_patterns_are_read_with_one_note
    first_minute::completions_and_manual_pages_are_printed
    invisible::inspect_shows_keys_values_and_the_name_of_the_file

    # Wine 8 may count no memory of a process yet.
    memory::tests::memory_is_counted

    # Wine 8 does not tell the path of a file whose name has 255 characters.
    atomic_file::tests::long_names_have_temporary_files_too

    # In Wine 8 and before Windows 10, a file that is removed keeps its name until it is closed, and one that is open is not
    # replaced.
    chat_file::a_file_is_there_at_any_moment_of_a_save
    chat_file::a_file_that_another_program_changed_is_not_overwritten
    chat_file::a_file_that_is_gone_is_written_again
    reading_file::tests::one_process_owns_a_file
    sessions::a_failed_save_is_an_error_and_the_conversation_continues
    documents::an_unfinished_reading_makes_room_for_the_whole
    documents::cached_documents_are_listed_with_their_names
    kept::a_conversation_that_cannot_be_kept_is_saved_elsewhere
)

# A program that hangs must not keep the others from running. The longest takes ten minutes. Behind the last test the C++ runtime
# of MinGW may wait for ever for a thread that is gone (`longhand` itself ends without it): run that program again.
export LONGHAND_WINE_LIMIT=${LONGHAND_WINE_LIMIT:-1800}

run() {
    local skip=() test
    for test in "${left_out[@]}"; do skip+=(--skip "$test"); done
    scripts/windows/cargo.sh test --profile mutants --no-fail-fast "$@" -- "${skip[@]}"
}

if [ $# -gt 0 ]; then
    run --lib --bins --tests "$@"
    exit
fi
failed=0
run --lib --bins --tests --workspace --exclude documents || failed=1
# The others of this crate expect no note that a document was read without a worker: a program of tests cannot be one.
run --lib --package documents || failed=1
exit "$failed"

//! What costs tokens and says nothing: dots before the numbers of pages, empty lines, spaces.

use crate::parts::read;

#[track_caller]
fn check(name: &str, text: &str, expected: &str) {
    assert_eq!(read(name, text.as_bytes()).text, expected, "{name}");
}

#[test]
fn dots_that_lead_to_a_page_are_shortened() {
    check(
        "a.txt",
        "Contents\nChapter 1 ........................ 12\nA . . . . . . . . . . . 3\nB.......7\nC …………………… iv\n",
        "Contents\nChapter 1 ... 12\nA ... 3\nB ... 7\nC ... iv\n",
    );
    // Dots that are something else.
    for text in ["Wait .... what?\n", "Name: ..............\n", "a ... b\n", "0.1.2.3.4.5\n", "..... 5\n"] {
        check("a.txt", text, text);
    }
}

#[test]
fn empty_lines_and_spaces_that_say_nothing_are_left_out() {
    check("a.txt", "A.   \n\n\n\n\nB.\n \t \n\n\nC.\t\n", "A.\n\nB.\n\nC.\n");
    check(
        "a.txt",
        "A long   line of   prose that was\nset in  full width.\n",
        "A long line of prose that was\nset in full width.\n",
    );
    check("a.txt", "a\r\n\r\n\r\n\r\nb  \r\n", "a\r\n\r\nb\r\n");
}

/// Columns of tables, code, and what is drawn with characters.
#[test]
fn spaces_that_say_something_stay() {
    for text in [
        "Name      Age   City\nAnna       31   Rome\nBartholomew 7   Oslo\n",
        "Item          2023    2024\n",
        "    indented   code\n",
        "+----+\n|  a |\n+----+\n",
        "a\tb\t\tc\n",
        "poem\n  second line\n",
    ] {
        check("a.txt", text, text);
    }
    let code = "x = 1   # note   \n\n\n\ny = 2\n// ....... 5\n";
    for name in ["a.py", "a.rs", "a.c", "Makefile", "a.patch"] {
        check(name, code, code);
    }
}

#[test]
fn code_in_markdown_stays() {
    let text = "# A\n\n\n\nText.\n\n```\nx   = 1\n\n\n\ny = 2\n```\n";
    check("a.md", text, "# A\n\nText.\n\n```\nx   = 1\n\n\n\ny = 2\n```\n");
    // Two spaces at the end of a line are a line break.
    check("a.md", "a  \nb\n", "a  \nb\n");
}

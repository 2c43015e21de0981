//! Tables of office documents: values stay in their columns and rows, whatever is merged, hidden or split.

use crate::formats::odf;
use crate::parts::{notes, read};

#[track_caller]
fn check(name: &str, bytes: &[u8], wanted: &str, note: &str) {
    let document = read(name, bytes);
    assert_eq!((document.text.as_str(), notes(&document).as_str()), (wanted, note));
}

/// A cell and a row of OpenDocument.
fn cell(attributes: &str, text: &str) -> String {
    format!("<table:table-cell {attributes}><text:p>{text}</text:p></table:table-cell>")
}

fn row(attributes: &str, cells: &[String]) -> String {
    format!("<table:table-row {attributes}>{}</table:table-row>", cells.concat())
}

/// All before the table was lost, because the end of the inner one ended it.
#[test]
fn split_cells_are_tables_within_their_cell() {
    for kind in ["table:is-sub-table='true'", "table:name='Inner'", "table:is-sub-table='false'"] {
        let of = |texts: &[&str]| row("", &texts.iter().map(|text| cell("", text)).collect::<Vec<_>>());
        let inner = format!("<table:table {kind}>{}{}</table:table>", of(&["s1", "s2"]), of(&["s3", "s4"]));
        let split = format!("<table:table-cell>{inner}</table:table-cell>");
        let body = format!(
            "<text:p>The rent is 900.</text:p><table:table>{}{}{}</table:table><text:p>After.</text:p>",
            of(&["H1", "H2", "H3"]),
            row("", &[cell("", "x"), split, cell("", "y")]),
            of(&["a", "b", "c"]),
        );
        let wanted = "The rent is 900.\n\nH1 | H2 | H3\nx | s1, s2; s3, s4 | y\na | b | c\n\nAfter.\n";
        check("a.odt", &odf("text", "", &body), wanted, "");
    }
    // Tables in tables without end, and one without a table around it.
    let deep = "<table:table table:is-sub-table='true'><table:table-row><table:table-cell>".repeat(20_000);
    let body = format!("{deep}<text:p>x</text:p>");
    let _ = documents::read_bytes("a.odt", &odf("text", "", &body), &documents::Limits::default());
    let alone = format!("<table:table table:is-sub-table='true'>{}</table:table>", row("", &[cell("", "x")]));
    check("a.odt", &odf("text", "", &format!("<text:p>a</text:p>{alone}")), "a\n\nx\n", "");
}

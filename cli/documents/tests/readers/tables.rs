//! Tables of office documents: values stay in their columns and rows, whatever is merged, hidden or split.

use crate::formats::{check, odf, xlsx};
use crate::parts::read;

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

/// Programs that write reports leave out the text that the value of a cell is shown as.
#[test]
fn values_without_text_are_read() {
    let value = |attributes: &str| format!("<table:table-cell {attributes}/>");
    let rows = [
        row(
            "",
            &[
                cell("office:value-type='float' office:value='13'", "13,00"),
                value("office:value-type='float' office:value='13.5'"),
            ],
        ),
        row(
            "",
            &[
                value("office:value-type='percentage' office:value='0.07'"),
                value("office:value-type='currency' office:currency='EUR' office:value='-900'"),
            ],
        ),
        row(
            "",
            &[
                value("office:value-type='date' office:date-value='2024-03-05'"),
                value("office:value-type='date' office:date-value='2024-03-05T07:08:09'"),
            ],
        ),
        row(
            "",
            &[
                value("office:value-type='time' office:time-value='PT07H08M09S'"),
                value("office:value-type='time' office:time-value='PT36H00M00S'"),
            ],
        ),
        row(
            "",
            &[
                value("office:value-type='boolean' office:boolean-value='true'"),
                value("office:value-type='string' office:string-value='Olaf'"),
            ],
        ),
        row("", &[value("table:number-columns-repeated='2' office:value-type='float' office:value='7'")]),
        row(
            "",
            &[
                value("table:formula='of:=[.A1]+1' office:value-type='float' office:value='8'"),
                value("table:formula='of:=SUM([.A1:.A2])'"),
            ],
        ),
        row("", &[value("office:value-type='float' office:value='no'"), value("office:value-type='date'")]),
    ];
    let sheet = format!("<table:table table:name='S'>{}</table:table>", rows.concat());
    let wanted = "13,00 | 13.5\n7% | -900 EUR\n2024-03-05 | 2024-03-05 07:08:09\n07:08:09 | 36:00:00\nTRUE | Olaf\n7 | 7\n8 | =SUM([.A1:.A2])\nno\n";
    let note = "the file has no result for the formulas of 1 cell";
    check("a.ods", &odf("spreadsheet", "", &sheet), &format!("## S\n\n{wanted}"), note);
    check("a.odt", &odf("text", "", &sheet), wanted, note);
    // A format may show nothing, and a row of empty values is one.
    let empty = row("", &[cell("office:value-type='float' office:value='13'", ""), cell("", "x")]);
    let sheet = format!("<table:table>{empty}</table:table>");
    check(
        "a.odt",
        &odf("text", "", &sheet),
        "| x\n",
        "text that a reader does not see was left out in 1 place",
    );
}

/// Rows and columns that are not written counted for the cells that reach over them.
#[test]
fn merged_cells_of_open_documents_over_hidden_rows_and_columns() {
    let covered = || "<table:covered-table-cell/>".to_owned();
    let tall = |rows: usize, text: &str| cell(&format!("table:number-rows-spanned='{rows}'"), text);
    let wide = |columns: usize, text: &str| cell(&format!("table:number-columns-spanned='{columns}'"), text);
    let sheet = |columns: &str, rows: &[String]| {
        odf(
            "spreadsheet",
            "",
            &format!("<table:table table:name='S'>{columns}{}</table:table>", rows.concat()),
        )
    };
    let hidden = "text that a reader does not see was left out in 1 place";
    let filter = "table:visibility='filter'";
    let rest = || {
        [
            row("", &[covered(), cell("", "Trondheim"), cell("", "3")]),
            row("", &[cell("", ""), cell("", "Nowhere"), cell("", "4")]),
        ]
        .concat()
    };
    let first = |rows: usize| row("", &[tall(rows, "North"), cell("", "Oslo"), cell("", "1")]);
    // A hidden row, hidden rows that are one in the file, empty rows, and a hidden first row.
    let wanted = "## S\n\nNorth | Oslo | 1\nNorth | Trondheim | 3\n| Nowhere | 4\n";
    let second = |attributes: &str| row(attributes, &[covered(), cell("", "Bergen"), cell("", "2")]);
    check("a.ods", &sheet("", &[first(3), second(filter), rest()]), wanted, hidden);
    check(
        "a.ods",
        &sheet("", &[first(6), second(&format!("{filter} table:number-rows-repeated='4'")), rest()]),
        wanted,
        hidden,
    );
    check(
        "a.ods",
        &sheet("", &[first(6), row("table:number-rows-repeated='4'", &[covered(), cell("", "")]), rest()]),
        wanted,
        "",
    );
    let top = row(filter, &[tall(3, "North"), cell("", "Bergen"), cell("", "2")]);
    let more = row("", &[covered(), cell("", "Oslo"), cell("", "1")]);
    check("a.ods", &sheet("", &[top.clone(), more.clone(), rest()]), wanted, hidden);
    let long = "A region with a name that is much longer than the names of regions are, so that its beginning is repeated";
    let text = read("a.ods", &sheet("", &[top.replace("North", long), more, rest()])).text;
    assert!(text.starts_with(&format!("## S\n\n{long} | Oslo | 1\nA region with a name that is much longer than the names of regions are, so that … | Trondheim | 3\n")), "{text}");
    // Hidden columns within, at the beginning and behind wide cells.
    let columns = |hidden: usize| {
        (0..5)
            .map(|at| {
                if at == hidden {
                    "<table:table-column table:visibility='collapse'/>"
                } else {
                    "<table:table-column/>"
                }
            })
            .collect::<String>()
    };
    let rows = [
        row("", &[cell("", "Item"), wide(2, "2023"), covered(), wide(2, "2024"), covered()]),
        row("", &["", "Q1", "Q2", "Q1", "Q2"].map(|text| cell("", text))),
        row("", &["a", "1", "2", "3", "4"].map(|text| cell("", text))),
    ];
    let two = "text that a reader does not see was left out in 2 places";
    for at in [1, 2] {
        let (quarter, number) = if at == 1 { ("Q2", 2) } else { ("Q1", 1) };
        let wanted = format!("## S\n\nItem | 2023 | 2024\n| {quarter} | Q1 | Q2\na | {number} | 3 | 4\n");
        check("a.ods", &sheet(&columns(at), &rows), &wanted, two);
    }
    check(
        "a.ods",
        &sheet(&columns(4), &rows),
        "## S\n\nItem | 2023 | | 2024\n| Q1 | Q2 | Q1\na | 1 | 2 | 3\n",
        two,
    );
    // Values under a merged cell are not shown.
    let under = "<table:covered-table-cell><text:p>under</text:p></table:covered-table-cell>".to_owned();
    check(
        "a.ods",
        &sheet("", &[row("", &[wide(2, "a"), under, cell("", "b")])]),
        "## S\n\na | | b\n",
        hidden,
    );
    // Some files leave the covered cells out.
    check(
        "a.ods",
        &sheet(&columns(4), &[row("", &[wide(2, "a"), cell("", "b"), cell("", "c"), cell("", "no")])]),
        "## S\n\na | | b | c\n",
        hidden,
    );
}

/// A sheet of Excel: texts by their places, and what else is in it.
fn workbook(cells: &[(&str, &str)], before: &str, hidden_rows: &[usize], merged: &[&str]) -> Vec<u8> {
    let rows: String = (1..20)
        .map(|row| {
            let of_row = cells.iter().filter(|(place, _)| place[1..] == row.to_string());
            let cells: String =
                of_row.map(|(place, text)| format!("<c r='{place}' t='str'><v>{text}</v></c>")).collect();
            let hidden = if hidden_rows.contains(&row) { "hidden='1'" } else { "" };
            if cells.is_empty() && hidden.is_empty() {
                String::new()
            } else {
                format!("<row r='{row}' {hidden}>{cells}</row>")
            }
        })
        .collect();
    let merged: String = merged.iter().map(|area| format!("<mergeCell ref='{area}'/>")).collect();
    let sheet = format!(
        "<worksheet>{before}<sheetData>{rows}</sheetData><mergeCells>{merged}</mergeCells></worksheet>"
    );
    xlsx(&[("name='S'", &sheet)], &[])
}

#[test]
fn merged_cells_of_sheets_over_hidden_rows_and_columns() {
    let cells = [
        ("A1", "Region"),
        ("B1", "City"),
        ("A2", "North"),
        ("B2", "Oslo"),
        ("B3", "Bergen"),
        ("B4", "Trondheim"),
        ("B5", "Nowhere"),
        ("A6", "South"),
        ("B6", "Rome"),
    ];
    let hidden = "text that a reader does not see was left out in 1 place";
    let of = |cells: &[(&str, &str)], rows: &[usize]| workbook(cells, "", rows, &["A2:A4"]);
    let all = "Region | City\nNorth | Oslo\nNorth | Bergen\nNorth | Trondheim\n| Nowhere\nSouth | Rome\n";
    check("a.xlsx", &of(&cells, &[]), all, "");
    let wanted = all.replace("North | Bergen\n", "");
    check("a.xlsx", &of(&cells, &[3]), &wanted, hidden);
    // An empty row within, and a hidden first row.
    let without: Vec<_> = cells.into_iter().filter(|(_, text)| *text != "Bergen").collect();
    check("a.xlsx", &of(&without, &[]), &wanted, "");
    check("a.xlsx", &of(&cells, &[2]), &all.replace("North | Oslo\n", ""), hidden);
    check(
        "a.xlsx",
        &of(&cells, &[2, 3]),
        &all.replace("North | Oslo\nNorth | Bergen\n", ""),
        "text that a reader does not see was left out in 2 places",
    );
    check(
        "a.xlsx",
        &of(&cells, &[2, 3, 4]),
        "Region | City\n| Nowhere\nSouth | Rome\n",
        "text that a reader does not see was left out in 3 places",
    );
    // Columns.
    let cells = [
        ("A1", "Item"),
        ("B1", "2023"),
        ("D1", "2024"),
        ("B2", "Q1"),
        ("C2", "Q2"),
        ("D2", "Q1"),
        ("E2", "Q2"),
        ("A3", "a"),
        ("B3", "1"),
        ("C3", "2"),
        ("D3", "3"),
        ("E3", "4"),
    ];
    for (column, wanted) in [
        (2, "Item | 2023 | 2024\n| Q2 | Q1 | Q2\na | 2 | 3 | 4\n"),
        (3, "Item | 2023 | 2024\n| Q1 | Q1 | Q2\na | 1 | 3 | 4\n"),
        (5, "Item | 2023 | | 2024\n| Q1 | Q2 | Q1\na | 1 | 2 | 3\n"),
    ] {
        let before = format!("<cols><col min='{column}' max='{column}' hidden='1'/></cols>");
        check("a.xlsx", &workbook(&cells, &before, &[], &["B1:C1", "D1:E1"]), wanted, hidden);
    }
    // Values under a merged cell are not shown, and move no others.
    let cells = [("A1", "a"), ("B1", "b"), ("A2", "under"), ("B2", "c"), ("A3", "d"), ("B3", "under")];
    check(
        "a.xlsx",
        &workbook(&cells, "", &[], &["A1:A2", "A3:B3"]),
        "a | b\na | c\nd\n",
        "text that a reader does not see was left out in 2 places",
    );
    // Areas that overlap are those of no program.
    let cells = [("A1", "a"), ("B1", "b"), ("C2", "c")];
    let _ = read("a.xlsx", &workbook(&cells, "", &[1], &["A1:C2", "B1:B1048576", "A1:XFD1048576", "C2:C2"]));
}

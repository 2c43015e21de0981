//! Tables of PDFs as programs draw them: cell by cell, with lines around cells, with names and values at different ends of a
//! column, over two pages.

use crate::common::{self, at};
use crate::parts::read;

/// The text of pages with these contents.
fn text_of(pages: &[String]) -> String {
    read("made.pdf", &common::pages(pages)).text
}

/// Text in Helvetica of size 10 that ends at `x`. Digits are 5.56 points wide, points and commas half of it.
fn ending(x: f64, y: f64, text: &'static str) -> (f64, f64, &'static str) {
    let width = |c: char| if c.is_ascii_digit() { 5.56 } else { 2.78 };
    (x - text.chars().map(width).sum::<f64>(), y, text)
}

/// Texts in Helvetica of size 10.
type Texts = Vec<(f64, f64, &'static str)>;

/// Rows of texts that begin at these places. Cells without a text are not drawn.
fn rows<const N: usize>(xs: [f64; N], rows: &[(f64, [&'static str; N])]) -> Texts {
    let cells = rows.iter().flat_map(|(y, texts)| xs.into_iter().zip(texts).map(|(x, text)| (x, *y, *text)));
    cells.filter(|(.., text)| !text.is_empty()).collect()
}

/// A row of numbers that end at these places. Cells without a number are not drawn.
fn numbers<const N: usize>(xs: [f64; N], y: f64, numbers: [&'static str; N]) -> Texts {
    let numbers = xs.into_iter().zip(numbers).filter(|(_, number)| !number.is_empty());
    numbers.map(|(x, number)| ending(x, y, number)).collect()
}

/// The lines around all cells between these places.
fn grid(xs: &[f64], ys: &[f64]) -> String {
    let (left, right) = (xs[0], xs[xs.len() - 1]);
    let (top, bottom) = (ys[0], ys[ys.len() - 1]);
    let along = ys.iter().map(|y| format!("{left} {y} m {right} {y} l S\n"));
    let across = xs.iter().map(|x| format!("{x} {bottom} m {x} {top} l S\n"));
    along.chain(across).collect()
}

#[track_caller]
fn assert_table(content: String, rows: &[&str]) {
    let text = text_of(std::slice::from_ref(&content));
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines, rows, "{content}");
}

#[test]
fn names_on_the_left_stand_above_numbers_on_the_right() {
    let mut texts =
        vec![(50.0, 700.0, "Item"), (250.0, 700.0, "Qty"), (330.0, 700.0, "Unit"), (430.0, 700.0, "Amount")];
    for (y, item, of_item) in [
        (684.0, "Lamp", ["2", "10.00", "20.00"]),
        (668.0, "Chair", ["4", "2.00", "8.00"]),
        (652.0, "Door", ["10", "80.00", "800.00"]),
    ] {
        texts.push((50.0, y, item));
        texts.extend(numbers([300.0, 380.0, 500.0], y, of_item));
    }
    assert_table(
        at(&texts),
        &[
            "Item\tQty\tUnit\tAmount",
            "Lamp\t2\t10.00\t20.00",
            "Chair\t4\t2.00\t8.00",
            "Door\t10\t80.00\t800.00",
        ],
    );
    // Values that are nearly as far from one name as from another stay without a name.
    let unsure = at(&[
        (50.0, 700.0, "Item"),
        (200.0, 700.0, "Net"),
        (300.0, 700.0, "Tax"),
        (50.0, 686.0, "Lamp"),
        (250.0, 686.0, "20.00"),
        (50.0, 672.0, "Chair"),
        (250.0, 672.0, "30.00"),
    ]);
    assert_table(unsure, &["Item\tNet\t–\tTax", "Lamp\t–\t20.00", "Chair\t–\t30.00"]);
}

#[test]
fn a_header_of_several_lines_is_one_row() {
    let body = [
        (72.0, 660.0, "2021"),
        (172.0, 660.0, "1"),
        (272.0, 660.0, "2"),
        (72.0, 642.0, "2022"),
        (272.0, 642.0, "5"),
        (72.0, 624.0, "2023"),
        (172.0, 624.0, "7"),
    ];
    let rows = ["Year\tNet income\tGross income", "2021\t1\t2", "2022\t–\t5", "2023\t7"];
    for header in [
        // Line by line, and cell by cell; the first cell at the bottom, in the middle and at the top.
        [
            (172.0, 690.0, "Net"),
            (272.0, 690.0, "Gross"),
            (72.0, 678.0, "Year"),
            (172.0, 678.0, "income"),
            (272.0, 678.0, "income"),
        ],
        [
            (72.0, 678.0, "Year"),
            (172.0, 690.0, "Net"),
            (172.0, 678.0, "income"),
            (272.0, 690.0, "Gross"),
            (272.0, 678.0, "income"),
        ],
        [
            (72.0, 684.0, "Year"),
            (172.0, 690.0, "Net"),
            (172.0, 678.0, "income"),
            (272.0, 690.0, "Gross"),
            (272.0, 678.0, "income"),
        ],
        [
            (72.0, 690.0, "Year"),
            (172.0, 690.0, "Net"),
            (172.0, 678.0, "income"),
            (272.0, 690.0, "Gross"),
            (272.0, 678.0, "income"),
        ],
    ] {
        assert_table(at(&[&header[..], &body].concat()), &rows);
    }
}

#[test]
fn cells_of_several_lines_are_cells_wherever_their_lines_stand() {
    let rows = [
        "Item\tDescription\tPrice",
        "A1\ta long description that goes on over several lines of it\t100",
        "B2\tshort\t200",
    ];
    for (first, last) in [(676.0, 676.0), (664.0, 664.0), (652.0, 652.0)] {
        let texts = [
            (50.0, 700.0, "Item"),
            (110.0, 700.0, "Description"),
            (300.0, 700.0, "Price"),
            (50.0, first, "A1"),
            (110.0, 676.0, "a long description that"),
            (110.0, 664.0, "goes on over several"),
            (110.0, 652.0, "lines of it"),
            (300.0, last, "100"),
            (50.0, 630.0, "B2"),
            (110.0, 630.0, "short"),
            (300.0, 630.0, "200"),
        ];
        assert_table(at(&texts), &rows);
        // With lines around the cells, the order in which they are drawn does not matter.
        let mut texts = texts.to_vec();
        texts.reverse();
        texts.sort_by_key(|(x, _, _)| *x as i64);
        let lines = grid(&[45.0, 105.0, 295.0, 350.0], &[712.0, 690.0, 645.0, 620.0]);
        assert_table(at(&texts) + &lines, &rows);
    }
}

#[test]
fn cells_that_are_aligned_at_the_bottom() {
    let header = [(72.0, 700.0, "Item"), (200.0, 700.0, "Price"), (300.0, 700.0, "Qty")];
    let cells = [
        (72.0, 682.0, "A long description"),
        (72.0, 670.0, "that wraps over lines"),
        (72.0, 658.0, "of the cell"),
        (200.0, 658.0, "12.00"),
        (300.0, 658.0, "3"),
        (72.0, 640.0, "Short"),
        (200.0, 640.0, "1.50"),
        (300.0, 640.0, "10"),
    ];
    assert_table(
        at(&[&header[..], &cells].concat()),
        &[
            "Item\tPrice\tQty",
            "A long description that wraps over lines of the cell\t12.00\t3",
            "Short\t1.50\t10",
        ],
    );
    // A heading within a table is as far from its rows as they are from each other.
    let rows = [
        (72.0, 682.0, "Current assets of us"),
        (72.0, 664.0, "Cash and deposits"),
        (200.0, 664.0, "12.00"),
        (300.0, 664.0, "3"),
        (72.0, 646.0, "Shares"),
        (200.0, 646.0, "1.50"),
        (300.0, 646.0, "10"),
    ];
    let text = text_of(&[at(&[&header[..], &rows].concat())]);
    assert!(text.contains("Current assets of us\n"), "{text}");
    assert!(text.contains("Cash and deposits\t12.00\t3\n"), "{text}");
}

#[test]
fn a_cell_with_lines_may_be_the_last_one_of_its_row() {
    let content = at(&[
        (72.0, 700.0, "Item"),
        (200.0, 700.0, "Price"),
        (300.0, 700.0, "Qty"),
        (72.0, 682.0, "Short"),
        (300.0, 682.0, "10"),
        (72.0, 664.0, "A long description"),
        (72.0, 652.0, "that wraps over lines"),
        (72.0, 640.0, "of the cell"),
        (200.0, 652.0, "\\(7.25\\)"),
    ]);
    assert_table(
        content,
        &["Item\tPrice\tQty", "Short\t–\t10", "A long description that wraps over lines of the cell\t(7.25)"],
    );
}

#[test]
fn text_after_a_table_is_none_of_its_cells() {
    let content = at(&[
        (72.0, 700.0, "Month"),
        (200.0, 700.0, "Sold"),
        (72.0, 682.0, "January"),
        (200.0, 682.0, "1,000"),
        (72.0, 664.0, "Total"),
        (200.0, 664.0, "1,000"),
        (40.0, 651.0, "After the table."),
    ]);
    let text = text_of(&[content]);
    assert!(text.contains("Total\t1,000\n") && text.ends_with("After the table.\n"), "{text}");
}

/// Labels and numbers below each other are rows, also where no line is between them, and blocks of text are no cells.
#[test]
fn rows_without_lines_between_them_are_rows() {
    let texts = [
        (50.0, 700.0, "Item"),
        (150.0, 700.0, "Price"),
        (50.0, 684.0, "Lamp"),
        (50.0, 672.0, "Chair"),
        (50.0, 660.0, "Door"),
        (150.0, 684.0, "100"),
        (150.0, 660.0, "300"),
    ];
    let rows = ["Item\tPrice", "Lamp\t100", "Chair", "Door\t300"];
    assert_table(at(&texts) + &grid(&[45.0, 145.0, 200.0], &[712.0, 695.0, 650.0]), &rows);
    assert_table(at(&texts), &rows);
    let boxes = at(&[
        (50.0, 700.0, "Ida Lindqvist"),
        (50.0, 688.0, "7 Long Street"),
        (50.0, 676.0, "Oslo"),
        (300.0, 700.0, "Invoice 12"),
        (300.0, 688.0, "of 3 May"),
    ]);
    let text = text_of(&[boxes]);
    assert!(!text.contains("Ida Lindqvist 7 Long"), "{text}");
}

#[test]
fn cells_that_are_merged_between_lines() {
    let texts = at(&[
        (50.0, 700.0, "Region"),
        (90.0, 700.0, "City"),
        (150.0, 700.0, "Rent"),
        (50.0, 668.0, "North"),
        (90.0, 684.0, "Oslo"),
        (150.0, 684.0, "1"),
        (90.0, 668.0, "Hamar"),
        (150.0, 668.0, "2"),
        (90.0, 652.0, "Bergen"),
        (50.0, 636.0, "All of them"),
        (150.0, 636.0, "3"),
    ]);
    let along = [712.0, 696.0, 648.0, 632.0].map(|y| format!("45 {y} m 200 {y} l S\n")).concat();
    let within = [680.0, 664.0].map(|y| format!("85 {y} m 200 {y} l S\n")).concat();
    let across = "45 632 m 45 712 l S 85 648 m 85 712 l S 145 632 m 145 712 l S 200 632 m 200 712 l S\n";
    assert_table(
        texts + &along + &within + across,
        &["Region\tCity\tRent", "North\tOslo\t1", "North\tHamar\t2", "North\tBergen", "All of them\t–\t3"],
    );
}

/// Where only some lines are drawn, a label may stand in the middle of its rows. Amounts in the middle of a wrapped name or
/// address are not repeated, nor sums of the amounts beside them.
#[test]
fn a_label_in_the_middle_of_rows_is_of_each() {
    let mut texts = vec![(50.0, 700.0, "Layers"), (110.0, 700.0, "Language"), (190.0, 700.0, "Score")];
    for (y, layers, scores) in [(684.0, "6", ["0.965", "0.969"]), (656.0, "4", ["0.938", "0.952"])] {
        texts.push((110.0, y, "OTSL"));
        texts.push((190.0, y, scores[0]));
        texts.push((50.0, y - 6.0, layers));
        texts.push((110.0, y - 12.0, "HTML"));
        texts.push((190.0, y - 12.0, scores[1]));
    }
    assert_table(
        at(&texts) + &grid(&[45.0, 105.0, 185.0, 240.0], &[712.0, 695.0, 667.0, 639.0]),
        &["Layers\tLanguage\tScore", "6\tOTSL\t0.965", "6\tHTML\t0.969", "4\tOTSL\t0.938", "4\tHTML\t0.952"],
    );
    let header = [(50.0, 700.0, "Item"), (150.0, 700.0, "Qty"), (210.0, 700.0, "Price")];
    let lines = grid(&[45.0, 145.0, 205.0, 260.0], &[712.0, 695.0, 667.0, 639.0]);
    let lamps = [
        (50.0, 684.0, "Lamp"),
        (50.0, 672.0, "(red)"),
        (150.0, 678.0, "2"),
        (210.0, 678.0, "20.00"),
        (50.0, 656.0, "Chair"),
        (50.0, 644.0, "(oak)"),
        (150.0, 650.0, "4"),
        (210.0, 650.0, "80.00"),
    ];
    let sums = [
        (50.0, 678.0, "Lamp"),
        (150.0, 684.0, "10.00"),
        (150.0, 672.0, "12.00"),
        (210.0, 678.0, "22.00"),
        (50.0, 650.0, "Chair"),
        (150.0, 656.0, "30.00"),
        (150.0, 644.0, "36.00"),
        (210.0, 650.0, "66.00"),
    ];
    for (rows, amounts) in [(&lamps, ["20.00", "80.00"]), (&sums, ["22.00", "66.00"])] {
        let text = text_of(&[at(&[&header[..], rows].concat()) + &lines]);
        assert!(amounts.iter().all(|amount| text.matches(amount).count() == 1), "{text}");
    }
}

#[test]
fn a_table_keeps_its_columns_on_the_next_page() {
    let row = |y: f64, item: &'static str, numbers: [&'static str; 3]| {
        let numbers = numbers.into_iter().zip([200.0, 280.0, 360.0]).filter(|(number, _)| !number.is_empty());
        let numbers = numbers.map(|(number, x)| ending(x, y, number));
        std::iter::once((50.0, y, item)).chain(numbers).collect::<Vec<_>>()
    };
    let names = [(50.0, 100.0, "Item"), (182.0, 100.0, "Jan"), (262.0, 100.0, "Feb"), (342.0, 100.0, "Mar")];
    let first = [
        names.to_vec(),
        row(86.0, "Rent", ["900", "900", "900"]),
        row(72.0, "Heat", ["10", "", "30"]),
        vec![(300.0, 30.0, "Page 1")],
    ];
    let second = [
        row(750.0, "Gas", ["", "", "70"]),
        row(736.0, "Water", ["", "5", ""]),
        vec![(50.0, 700.0, "All of it was paid."), (300.0, 30.0, "Page 2")],
    ];
    let text = text_of(&[at(&first.concat()), at(&second.concat())]);
    assert!(text.contains("Rent\t900\t900\t900\nHeat\t10\t–\t30\n"), "{text}");
    assert!(text.contains("Gas\t–\t–\t70\nWater\t–\t5\n"), "{text}");
    // Another table there has its own columns.
    let other =
        at(&[(50.0, 750.0, "Gas"), (352.0, 750.0, "mild"), (50.0, 736.0, "Water"), (352.0, 736.0, "wet")]);
    let text = text_of(&[at(&first.concat()), other]);
    assert!(text.contains("Gas\tmild\nWater\twet\n"), "{text}");
}

#[test]
fn lines_are_read_from_top_to_bottom() {
    let mut lines: Vec<(f64, f64, String)> = (0..5)
        .map(|i| (50.0, 700.0 - 14.0 * f64::from(i), format!("Line {i} of the text of a page")))
        .collect();
    let expected: String = lines.iter().map(|(_, _, line)| format!("{line}\n")).collect();
    lines.reverse();
    let drawn: Vec<(f64, f64, &str)> = lines.iter().map(|(x, y, line)| (*x, *y, line.as_str())).collect();
    assert_eq!(text_of(&[at(&drawn)]), expected);
    // The header of a table is drawn last.
    let mut texts = Vec::new();
    for (y, name, numbers) in
        [(684.0, "Cash", ["10", "20"]), (670.0, "Stock", ["", "30"]), (656.0, "All", ["10", "50"])]
    {
        texts.push((50.0, y, name));
        let numbers = numbers.into_iter().zip([200.0, 300.0]).filter(|(number, _)| !number.is_empty());
        texts.extend(numbers.map(|(number, x)| ending(x, y, number)));
    }
    texts.extend([ending(200.0, 700.0, "2022"), ending(300.0, 700.0, "2023")]);
    assert_table(at(&texts), &["–\t2022\t2023", "Cash\t10\t20", "Stock\t–\t30", "All\t10\t50"]);
    // Words are drawn in any order.
    let words = at(&[
        (50.0, 700.0, "one"),
        (50.0, 686.0, "four"),
        (86.0, 700.0, "three"),
        (68.0, 700.0, "two"),
        (71.0, 686.0, "five"),
    ]);
    assert_eq!(text_of(&[words]), "one two three\nfour five\n");
    // Columns of text stay as they are drawn.
    let columns = at(&[
        (50.0, 700.0, "Left one"),
        (50.0, 688.0, "left two"),
        (300.0, 700.0, "Right one,"),
        (300.0, 688.0, "right two."),
    ]);
    let text = text_of(&[columns]);
    assert!(text.contains("Left one\nleft two\n"), "{text}");
}

/// Columns of long text look like those of a newspaper. But those of a table begin anew beside each other.
#[test]
fn rows_with_long_text_in_all_columns_are_rows() {
    let header = [(72.0, 700.0, "Condition"), (300.0, 700.0, "Treatment")];
    let rows: [[&[&str]; 2]; 3] = [
        [
            &["Pain in the lower back that", "lasts for longer than two", "weeks without a pause"],
            &["Rest and warm water on the", "place that hurts, for as long", "as the pain is there, and"],
        ],
        [
            &["Pain in the upper back that", "comes with a high fever and", "with a cough in the night"],
            &["Sleep and cold water on the", "neck, for an hour each day", "of the week but the last"],
        ],
        [
            &["Pain in the left knee after", "a long walk over the bridge", "or down from the mountain"],
            &["No walk for a week, and not", "a step on stairs for a month", "after that, with a bandage"],
        ],
    ];
    // How many lines each row has in each column.
    let table = |lengths: &[[usize; 2]]| {
        let (mut texts, mut expected, mut y) =
            (header.to_vec(), vec!["Condition\tTreatment".to_owned()], 680.0);
        for (row, lengths) in rows.iter().zip(lengths) {
            let cells = row.iter().zip(lengths).map(|(cell, length)| &cell[..*length]);
            expected.push(cells.clone().map(|cell| cell.join(" ")).collect::<Vec<_>>().join("\t"));
            for line in 0..3 {
                for (x, cell) in [72.0, 300.0].into_iter().zip(cells.clone()) {
                    texts.extend(cell.get(line).map(|text| (x, y - 12.0 * line as f64, *text)));
                }
            }
            y -= 44.0;
        }
        (at(&texts), expected)
    };
    for lengths in [&[[3, 3]; 3][..], &[[3, 2], [3, 3], [2, 3]], &[[3, 2], [3, 3]], &[[2, 3], [3, 3]]] {
        let (content, expected) = table(lengths);
        assert_table(content, &expected.iter().map(String::as_str).collect::<Vec<_>>());
    }
    // A piece of a line that is a little lower makes no row of it.
    let (content, expected) = table(&[[2, 3], [3, 3]]);
    let content = content + &at(&[(84.0, 653.0, "Again: each winter, it seems")]);
    let text = text_of(&[content]);
    assert!(text.contains(&expected[2]), "{text}");
    // Paragraphs of a newspaper that are as long as each other by accident.
    let (content, _) = table(&[[3, 3]; 2]);
    let lines: Vec<&str> = content.lines().collect();
    let text = text_of(&[lines[2..].join("\n")]);
    assert!(!text.contains('\t'), "{text}");
}

/// Text above a table and below it stands at other places than the first cells, or farther away than lines of a cell do.
#[test]
fn text_around_a_table_is_none_of_its_cells() {
    let table = |left: f64, around: f64, distance: f64| {
        let mut texts = vec![
            (around, 700.0 + distance, "Costs of all months"),
            (around, 628.0 - distance, "All sums are final."),
            (left, 700.0, "Account"),
            (left + 130.0, 700.0, "January"),
            (left + 180.0, 700.0, "March"),
        ];
        for (i, (name, january, march)) in
            [("Rent", "", "900"), ("Power", "80", "75"), ("", "12", ""), ("Total", "92", "975")]
                .into_iter()
                .enumerate()
        {
            let y = 682.0 - 18.0 * i as f64;
            let cells = [(left, y, name), (left + 130.0, y, january), (left + 180.0, y, march)];
            texts.extend(cells.into_iter().filter(|(.., text)| !text.is_empty()));
        }
        texts.sort_by(|a, b| b.1.total_cmp(&a.1));
        at(&texts)
    };
    for (left, around, distance) in
        [(120.0, 60.0, 15.0), (60.0, 60.0, 14.0), (60.0, 60.0, 16.5), (200.0, 120.0, 14.0)]
    {
        assert_table(
            table(left, around, distance),
            &[
                "Costs of all months",
                "Account\tJanuary\tMarch",
                "Rent\t–\t900",
                "Power\t80\t75",
                "–\t12",
                "Total\t92\t975",
                "All sums are final.",
            ],
        );
    }
}

/// With room between all lines, those of a name are still much nearer than rows are.
#[test]
fn lines_of_names_may_be_far_apart() {
    for value_line in [0, 1] {
        let mut texts = vec![(72.0, 720.0, "Item"), (300.0, 720.0, "2023"), (400.0, 720.0, "2024")];
        let mut y = 696.0;
        for (lines, before, now) in [
            (&["Revenue from contracts with", "Customers abroad"][..], "1,200", "1,300"),
            (&["Cost of goods sold and", "Transport of goods"], "800", "900"),
            (&["Result"], "440", "450"),
        ] {
            let values = y - 14.0 * value_line.min(lines.len() - 1) as f64;
            texts.extend(lines.iter().enumerate().map(|(i, line)| (72.0, y - 14.0 * i as f64, *line)));
            texts.extend([(300.0, values, before), (400.0, values, now)]);
            y -= 14.0 * (lines.len() - 1) as f64 + 24.0;
        }
        texts.sort_by(|a, b| b.1.total_cmp(&a.1));
        assert_table(
            at(&texts),
            &[
                "Item\t2023\t2024",
                "Revenue from contracts with Customers abroad\t1,200\t1,300",
                "Cost of goods sold and Transport of goods\t800\t900",
                "Result\t440\t450",
            ],
        );
    }
}

/// Headings and rows without values within a table leave each value in its column: those of a ledger on its next page, and of
/// one whose header is far above it.
#[test]
fn a_heading_within_a_table_changes_no_column() {
    let rows = |top: f64, rows: &[(&'static str, &'static str, &'static str)]| -> Vec<_> {
        let row = |(i, (label, debit, credit)): (usize, &(&'static str, &'static str, &'static str))| {
            let y = top - 14.0 * i as f64;
            [(72.0, y, *label), ending(352.0, y, debit), ending(452.0, y, credit)]
        };
        rows.iter().enumerate().flat_map(row).filter(|(.., text)| !text.is_empty()).collect()
    };
    let header = |y: f64| vec![(72.0, y, "Account"), (330.0, y, "Debit"), (425.0, y, "Credit")];
    let first =
        rows(706.0, &[("Rent", "900", ""), ("Sales", "", "1,200"), ("Fees", "", "75"), ("Water", "20", "")]);
    let ledger = rows(
        720.0,
        &[
            ("Cash", "310", ""),
            ("Stock", "450", ""),
            ("Land", "800", ""),
            ("Liabilities", "", ""),
            ("Loan", "", "500"),
            ("Tax due", "", "140"),
            ("Creditors", "", "220"),
        ],
    );
    for pages in [
        vec![at(&[header(720.0), first].concat()), at(&ledger)],
        vec![at(&[header(760.0), ledger.clone()].concat())],
    ] {
        let text = text_of(&pages);
        assert!(
            text.contains("Land\t800\nLiabilities\nLoan\t–\t500\nTax due\t–\t140\nCreditors\t–\t220\n"),
            "{text}"
        );
    }
    // A program may draw the labels of rows before their values.
    let texts = [
        (72.0, 720.0, "Item"),
        (280.0, 720.0, "2023"),
        (72.0, 706.0, "Sales"),
        ending(302.0, 706.0, "1,200"),
        (72.0, 692.0, "Land"),
        (72.0, 678.0, "Buildings"),
        ending(302.0, 692.0, "40"),
        (72.0, 664.0, "Total"),
        ending(302.0, 664.0, "580"),
    ];
    assert!(!text_of(&[at(&texts)]).contains("Land Buildings"));
}

/// A wrapped text goes on in its cell, even if it is nearer to the next row.
#[test]
fn a_wrapped_text_near_the_next_row_is_of_its_own() {
    let texts = [
        (72.0, 720.0, "No"),
        (110.0, 720.0, "Text"),
        (250.0, 720.0, "Sum"),
        (72.0, 700.0, "1"),
        (110.0, 700.0, "Lamp with a"),
        ending(270.0, 700.0, "80"),
        (110.0, 686.0, "shade of glass"),
        (72.0, 674.0, "2"),
        (110.0, 674.0, "Chair"),
        ending(270.0, 674.0, "700"),
        (72.0, 660.0, "3"),
        (110.0, 660.0, "Door"),
        ending(270.0, 660.0, "70"),
    ];
    assert_table(
        at(&texts),
        &["No\tText\tSum", "1\tLamp with a shade of glass\t80", "2\tChair\t700", "3\tDoor\t70"],
    );
}

/// Values may stand beside the middle of two lines of a label, which are two lines all the same.
#[test]
fn lines_of_a_label_are_not_mixed() {
    for distance in [14.0, 18.0] {
        let mut texts = vec![(72.0, 720.0, "Item"), (280.0, 720.0, "2023"), (380.0, 720.0, "2024")];
        let mut y = 720.0 - distance;
        for (first, second, before, now) in
            [("Sales", "", "1,200", "1,300"), ("Other", "Income", "80", "90"), ("Total", "", "580", "590")]
        {
            let down = if second.is_empty() { 0.0 } else { 12.0 };
            texts.push((72.0, y, first));
            texts.extend([ending(302.0, y - down / 2.0, before), ending(402.0, y - down / 2.0, now)]);
            texts.push((72.0, y - down, second));
            y -= down + distance;
        }
        texts.retain(|(.., text)| !text.is_empty());
        let wanted = ["Item\t2023\t2024", "Sales\t1,200\t1,300", "Other Income\t80\t90", "Total\t580\t590"];
        assert_table(at(&texts), &wanted);
    }
}

#[test]
fn rows_below_a_gap_stay_in_the_columns_of_the_table_above() {
    let mut texts = vec![(50.0, 700.0, "Assets"), ending(300.0, 700.0, "2024"), ending(400.0, 700.0, "2023")];
    texts.push((200.0, 700.0, "Note"));
    for (y, name, of_name) in [
        (686.0, "Goodwill", ["4", "100", "90"]),
        (672.0, "Cash", ["", "20", "10"]),
        (630.0, "Loans", ["", "70", "60"]),
        (588.0, "Reserves", ["7", "", "5"]),
        (574.0, "Hybrid", ["", "", "6"]),
    ] {
        texts.push((50.0, y, name));
        texts.extend(numbers([218.0, 300.0, 400.0], y, of_name));
    }
    texts.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.total_cmp(&b.0)));
    assert_table(
        at(&texts),
        &[
            "Assets\tNote\t2024\t2023",
            "Goodwill\t4\t100\t90",
            "Cash\t–\t20\t10",
            "Loans\t–\t70\t60",
            "Reserves\t7\t–\t5",
            "Hybrid\t–\t–\t6",
        ],
    );
    // A footer, a signature and a list below a table are none of it.
    for below in [["Page 1 of 2", "12.05.2024"], ["Date: 5 May", "Signature: Berg"], ["1. eat", "4. run"]] {
        let table = [
            (700.0, ["Assets", "Note", "Sum"]),
            (686.0, ["Cash", "1", "20"]),
            (672.0, ["Bank", "", "30"]),
            (630.0, [below[0], "", below[1]]),
        ];
        let last = below.join("\t");
        let table = at(&rows([50.0, 200.0, 300.0], &table));
        assert_table(table, &["Assets\tNote\tSum", "Cash\t1\t20", "Bank\t–\t30", &last]);
    }
    // A table with names of its own is another one.
    let other = [
        (700.0, ["Assets", "Note", "Sum"]),
        (686.0, ["Cash", "1", "20"]),
        (630.0, ["Name", "", "Age"]),
        (616.0, ["Ann", "", "30"]),
    ];
    let other = at(&rows([50.0, 200.0, 300.0], &other));
    assert_table(other, &["Assets\tNote\tSum", "Cash\t1\t20", "Name\tAge", "Ann\t30"]);
}

#[test]
fn tables_that_are_near_to_each_other_have_columns_of_their_own() {
    let first = [(700.0, ["Item", "Qty", "Sum"]), (686.0, ["Desk", "1", "300"]), (672.0, ["Lamp", "", "60"])];
    let second =
        [(644.0, ["Name", "Born", "Works"]), (630.0, ["Byron", "1788", "11"]), (616.0, ["Twain", "", "28"])];
    let mut texts = rows([50.0, 200.0, 300.0], &first);
    texts.extend(rows([50.0, 150.0, 250.0], &second));
    assert_table(
        at(&texts),
        &[
            "Item\tQty\tSum",
            "Desk\t1\t300",
            "Lamp\t–\t60",
            "Name\tBorn\tWorks",
            "Byron\t1788\t11",
            "Twain\t–\t28",
        ],
    );
}

#[test]
fn a_name_of_two_words_is_one_wherever_its_first_word_ends() {
    // Both `Unit` and `100` are 16.7 points wide.
    let table = [
        (700.0, ["Item", "Unit price", "Stock"]),
        (686.0, ["Desk", "100", "11"]),
        (672.0, ["Lamp", "200", "12"]),
    ];
    let table = at(&rows([50.0, 150.0, 250.0], &table));
    assert_table(table, &["Item\tUnit price\tStock", "Desk\t100\t11", "Lamp\t200\t12"]);
}

#[test]
fn numbers_that_are_drawn_behind_a_label_of_several_lines_are_of_its_row() {
    let table = [
        (700.0, ["Pos", "Description", "Qty", "Price", "Amount"]),
        (684.0, ["1", "Desk", "1", "300.00", "300.00"]),
        (668.0, ["2", "Delivery to the", "", "", ""]),
        (656.0, ["", "third floor", "", "", ""]),
        (668.0, ["", "", "", "50.00", "50.00"]),
        (640.0, ["3", "Lamp", "3", "", "60.00"]),
    ];
    assert_table(
        at(&rows([50.0, 90.0, 250.0, 330.0, 430.0], &table)),
        &[
            "Pos\tDescription\tQty\tPrice\tAmount",
            "1\tDesk\t1\t300.00\t300.00",
            "2\tDelivery to the third floor\t–\t50.00\t50.00",
            "3\tLamp\t3\t–\t60.00",
        ],
    );
}

#[test]
fn a_sum_without_lines_between_its_columns_is_in_its_columns() {
    let (xs, ys) = ([40.0, 120.0, 180.0, 240.0, 300.0], [712.0, 696.0, 680.0, 664.0]);
    let lines = format!(
        "{}40 664 m 300 664 l S\n40 648 m 300 648 l S\n40 664 m 40 648 l S\n300 664 m 300 648 l S\n",
        grid(&xs, &ys)
    );
    let mut texts =
        vec![(45.0, 700.0, "Item"), (130.0, 700.0, "2023"), (190.0, 700.0, "2024"), (250.0, 700.0, "2025")];
    for (y, name, of_name) in [
        (684.0, "Sales", ["100", "200", "300"]),
        (668.0, "Costs", ["50", "", "70"]),
        (652.0, "Total", ["", "200", "370"]),
    ] {
        texts.push((45.0, y, name));
        texts.extend(numbers([175.0, 235.0, 295.0], y, of_name));
    }
    assert_table(
        format!("{lines}{}", at(&texts)),
        &["Item\t2023\t2024\t2025", "Sales\t100\t200\t300", "Costs\t50\t–\t70", "Total\t–\t200\t370"],
    );
    // A text over all columns is one.
    texts.truncate(texts.len() - 3);
    texts.push((45.0, 652.0, "All numbers are in thousands of euros"));
    assert_table(
        format!("{lines}{}", at(&texts)),
        &[
            "Item\t2023\t2024\t2025",
            "Sales\t100\t200\t300",
            "Costs\t50\t–\t70",
            "All numbers are in thousands of euros",
        ],
    );
}

#[test]
fn columns_that_are_near_to_each_other_are_told_by_where_their_numbers_end() {
    // Helvetica: `Debit` is 23.9 points wide, `Credit` 26.1, `Balance` 35.6.
    let mut texts = vec![
        (50.0, 700.0, "Date"),
        (110.0, 700.0, "Text"),
        (236.1, 700.0, "Debit"),
        (265.0, 700.0, "Credit"),
        (300.4, 700.0, "Balance"),
    ];
    for (y, text, of_text) in
        [(686.0, "Insurance", ["9,654.06", "1,340.42"]), (672.0, "Interest", ["692.79", "3,680.31"])]
    {
        // The date ends 7 points before the text.
        texts.extend([(50.0, y, "11.03.2024"), (110.0, y, text)]);
        texts.extend(numbers([260.0, 336.0], y, of_text));
    }
    assert_table(
        at(&texts),
        &[
            "Date\tText\tDebit\tCredit\tBalance",
            "11.03.2024\tInsurance\t9,654.06\t–\t1,340.42",
            "11.03.2024\tInterest\t692.79\t–\t3,680.31",
        ],
    );
}

#[test]
fn headers_on_their_side_stand_above_their_columns() {
    let rows = at(&[
        (72.0, 700.0, "Skill"),
        (72.0, 660.0, "Ann"),
        (122.0, 660.0, "3"),
        (182.0, 660.0, "5"),
        (72.0, 646.0, "Bob"),
        (152.0, 646.0, "4"),
        (182.0, 646.0, "2"),
    ]);
    let expected = "Skill\tReading\tWriting\tSpeaking\nAnn\t3\t–\t5\nBob\t–\t4\t2\n";
    // Upwards and downwards, drawn before the other text and behind it.
    let up: String = [(128.0, "Reading"), (158.0, "Writing"), (188.0, "Speaking")]
        .map(|(x, text)| format!("BT /F 10 Tf 0 1 -1 0 {x} 675 Tm ({text}) Tj ET\n"))
        .concat();
    let down: String = [(121.0, "Reading"), (151.0, "Writing"), (181.0, "Speaking")]
        .map(|(x, text)| format!("BT /F 10 Tf 0 -1 1 0 {x} 716 Tm ({text}) Tj ET\n"))
        .concat();
    assert_eq!(text_of(&[rows.clone() + &up]), expected);
    assert_eq!(text_of(&[rows.clone() + &down]), expected);
    assert_eq!(text_of(&[up + &rows]), expected);
    // Lines of a text on its side are no headers.
    let lines: String = [(128.0, "A note"), (140.0, "of two lines")]
        .map(|(x, text)| format!("BT /F 10 Tf 0 1 -1 0 {x} 675 Tm ({text}) Tj ET\n"))
        .concat();
    let unchanged = "Skill\n\nAnn\t3\t–\t5\nBob\t–\t4\t2\n\nA note\nof two lines\n";
    assert_eq!(text_of(&[rows + &lines]), unchanged);
}

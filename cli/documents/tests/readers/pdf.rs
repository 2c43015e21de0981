//! What a person sees on a page of a PDF, and what is written of it. The PDFs are made here from text.

use documents::{Document, DocumentError, Limits, Note, Problem, read_bytes};

use crate::common::{CATALOGUE, FONT, at, pdf, stream};
use crate::parts::notes;

/// A document of one page: the first eight objects are the catalogue, pages, page, content, three fonts and a picture.
struct Made {
    catalogue: &'static str,
    page: &'static str,
    content: String,
    fonts: [String; 3],
    more: Vec<String>,
}

impl Made {
    fn new(content: impl Into<String>) -> Made {
        Made {
            catalogue: "",
            page: "",
            content: content.into(),
            fonts: [FONT.into(), FONT.into(), "null".into()],
            more: Vec::new(),
        }
    }

    /// Font `/G` shows these characters; the code of each is its place, from 1 on.
    fn with_characters(mut self, characters: &str) -> Made {
        let mut map = String::from("1 begincodespacerange <00> <ff> endcodespacerange\n");
        for (i, c) in characters.chars().enumerate() {
            let utf16: String =
                c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("{unit:04x}")).collect();
            map += &format!("1 beginbfchar <{:02x}> <{utf16}> endbfchar\n", i + 1);
        }
        let widths = "500 ".repeat(characters.chars().count());
        self.fonts[1] = format!(
            "<< /Type /Font /Subtype /Type1 /BaseFont /Made /FirstChar 1 /LastChar {} /Widths [{widths}] \
             /FontDescriptor << /Type /FontDescriptor /FontName /Made /Flags 4 >> /ToUnicode 7 0 R >>",
            characters.chars().count()
        );
        self.fonts[2] = stream("", &map);
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let picture = stream(
            "/Type /XObject /Subtype /Image /Width 1 /Height 1 /BitsPerComponent 8 /ColorSpace /DeviceGray",
            "x",
        );
        let mut objects = vec![
            CATALOGUE.replace(" >>", &format!(" {} >>", self.catalogue)),
            "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".into(),
            format!(
                "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources << /Font << /F 5 0 R \
                 /G 6 0 R >> /XObject << /X 8 0 R >> >> {} >>",
                self.page
            ),
            stream("", &self.content),
        ];
        objects.extend(self.fonts.iter().cloned());
        objects.push(picture);
        objects.extend(self.more.iter().cloned());
        pdf(&objects)
    }

    fn read(&self) -> Result<Document, DocumentError> {
        read_bytes("made.pdf", &self.bytes(), &Limits::default())
    }

    #[track_caller]
    fn text(&self) -> String {
        self.read().expect("a document").text
    }
}

/// Text for font `/G` that shows `characters`.
fn codes(characters: &str, text: &str) -> String {
    let code = |c| 1 + characters.chars().position(|other| other == c).expect("a character of the font");
    let codes: String = text.chars().map(|c| format!("{:02x}", code(c))).collect();
    format!("<{codes}>")
}

#[track_caller]
fn assert_text(content: &str, expected: &str) {
    assert_eq!(Made::new(content).text(), expected, "{content}");
}

// Tables.

#[test]
fn empty_cells_keep_their_place() {
    let table = at(&[
        (72.0, 700.0, "Account"),
        (172.0, 700.0, "January"),
        (272.0, 700.0, "February"),
        (372.0, 700.0, "March"),
        (72.0, 686.0, "Rent"),
        (372.0, 686.0, "900"),
        (72.0, 672.0, "Power"),
        (172.0, 672.0, "80"),
        (372.0, 672.0, "75"),
        (172.0, 658.0, "6"),
        (72.0, 644.0, "Total"),
        (172.0, 644.0, "86"),
        (272.0, 644.0, "0"),
        (372.0, 630.0, "961"),
    ]);
    assert_text(
        &table,
        "Account\tJanuary\tFebruary\tMarch\nRent\t–\t–\t900\nPower\t80\t–\t75\n–\t6\nTotal\t86\t0\n–\t–\t–\t961\n",
    );
}

#[test]
fn numbers_that_end_at_the_same_place_are_a_column() {
    let table = at(&[
        (150.0, 700.0, "2023"),
        (250.0, 700.0, "2024"),
        (72.0, 688.0, "Sales"),
        (139.0, 688.0, "1,250.00"),
        (250.0, 688.0, "1.50"),
        (72.0, 676.0, "Refunds"),
        (239.0, 676.0, "1,000.00"),
    ]);
    assert_text(&table, "–\t2023\t2024\nSales\t1,250.00\t1.50\nRefunds\t–\t1,000.00\n");
}

#[test]
fn a_table_that_is_drawn_column_by_column_is_read_by_rows() {
    let table = at(&[
        (72.0, 700.0, "Account"),
        (72.0, 688.0, "Rent"),
        (72.0, 676.0, "Power"),
        (172.0, 700.0, "January"),
        (172.0, 676.0, "80"),
        (272.0, 700.0, "March"),
        (272.0, 688.0, "900"),
        (272.0, 676.0, "75"),
    ]);
    assert_text(&table, "Account\tJanuary\tMarch\nRent\t–\t900\nPower\t80\t75\n");
}

#[test]
fn columns_of_a_newspaper_are_no_table() {
    let left =
        ["The left column of this page is", "read before the right one, as", "a person does it who reads"];
    let right =
        ["The right column is read when", "the left one has ended, and it", "has as many lines as that"];
    let mut texts = Vec::new();
    for (x, column) in [(72.0, left), (320.0, right)] {
        texts.extend(column.iter().enumerate().map(|(i, line)| (x, 700.0 - 12.0 * i as f64, *line)));
    }
    assert_text(&at(&texts), &format!("{}\n\n{}\n", left.join("\n"), right.join("\n")));
}

#[test]
fn dots_that_lead_to_a_number_are_no_column() {
    let contents = at(&[
        (72.0, 700.0, "1"),
        (92.0, 700.0, "The bridge"),
        (400.0, 700.0, "3"),
        (92.0, 688.0, "Its keeper"),
        (160.0, 688.0, ". . . . . . . . . . ."),
        (400.0, 688.0, "4"),
    ]);
    assert_text(&contents, "1\tThe bridge\t3\n–\tIts keeper\t4\n");
}

#[test]
fn values_that_are_drawn_after_all_labels_stand_beside_them() {
    let table = at(&[
        (72.0, 700.0, "Name:"),
        (72.0, 680.0, "Place of birth:"),
        (72.0, 660.0, "Number:"),
        (200.0, 700.0, "Ida Lindqvist"),
        (200.0, 660.0, "34251"),
    ]);
    assert_text(&table, "Name:\tIda Lindqvist\n\nPlace of birth:\n\nNumber:\t34251\n");
}

/// What is smaller than the row above is no part of it: the row is a heading.
#[test]
fn text_below_a_heading_is_not_a_part_of_it() {
    let heading = "BT /F 14 Tf 72 700 Td (2) Tj ET BT /F 14 Tf 110 700 Td (Related documents) Tj ET\n";
    let rest = at(&[
        (110.0, 682.0, "These files belong to it"),
        (110.0, 660.0, "Short guide"),
        (300.0, 660.0, "print version"),
        (110.0, 640.0, "Long guide"),
        (300.0, 640.0, "print version"),
    ]);
    let text = Made::new(format!("{heading}{rest}")).text();
    assert!(
        text.starts_with("2\tRelated documents\n") && text.contains("These files belong to it\n"),
        "{text}"
    );
}

#[test]
fn text_that_continues_a_cell_is_written_there() {
    let table = at(&[
        (72.0, 700.0, "Item"),
        (172.0, 700.0, "Note"),
        (372.0, 700.0, "Price"),
        (72.0, 686.0, "Lamp"),
        (172.0, 686.0, "with a long cable that"),
        (372.0, 686.0, "20"),
        (172.0, 674.0, "is wound on a drum"),
        (72.0, 660.0, "Chair for the"),
        (372.0, 660.0, "30"),
        (72.0, 648.0, "north room"),
        (172.0, 634.0, "old"),
        (372.0, 634.0, "40"),
        (172.0, 622.0, "oak"),
        (72.0, 608.0, "Table"),
        (172.0, 608.0, "new"),
        (372.0, 608.0, "90"),
        (372.0, 596.0, "95"),
    ]);
    assert_text(
        &table,
        "Item\tNote\tPrice\nLamp\twith a long cable that is wound on a drum\t20\nChair for the north room\t–\t30\n–\told oak\t40\n\
         Table\tnew\t90\n–\t–\t95\n",
    );
}

#[test]
fn a_header_over_several_columns_moves_none() {
    let body = [
        (72.0, 672.0, "North"),
        (180.0, 672.0, "10"),
        (280.0, 672.0, "100"),
        (380.0, 672.0, "12"),
        (480.0, 672.0, "130"),
        (72.0, 658.0, "South"),
        (180.0, 658.0, "20"),
        (380.0, 658.0, "22"),
        (480.0, 658.0, "230"),
        (72.0, 644.0, "West"),
        (180.0, 644.0, "30"),
        (280.0, 644.0, "300"),
        (380.0, 644.0, "32"),
        (480.0, 644.0, "330"),
    ];
    for (header, expected) in [
        (
            &[(72.0, 686.0, "Region"), (225.0, 686.0, "2023"), (425.0, 686.0, "2024")][..],
            "Region\t2023\t–\t2024\n",
        ),
        (&[(215.0, 686.0, "First half"), (415.0, 686.0, "Second half")], "–\tFirst half\t–\tSecond half\n"),
        (
            &[
                (72.0, 686.0, "Region"),
                (150.0, 686.0, "The first half of the year"),
                (350.0, 686.0, "The second half of the year"),
            ],
            "Region\tThe first half of the year\t–\tThe second half of the year\n",
        ),
    ] {
        let expected =
            format!("{expected}North\t10\t100\t12\t130\nSouth\t20\t–\t22\t230\nWest\t30\t300\t32\t330\n");
        assert_text(&at(&[header, &body].concat()), &expected);
    }
    // A column that few rows have is one.
    let sparse = at(&[
        (72.0, 700.0, "Rent"),
        (272.0, 700.0, "900"),
        (72.0, 686.0, "Power"),
        (172.0, 686.0, "80"),
        (372.0, 686.0, "75"),
        (72.0, 672.0, "Gas"),
        (172.0, 672.0, "60"),
        (272.0, 672.0, "65"),
    ]);
    assert_text(&sparse, "Rent\t–\t900\nPower\t80\t–\t75\nGas\t60\t65\n");
}

/// Names of columns may be nearer to each other than cells are: the gap between them is wider than those of words.
#[test]
fn names_that_are_near_each_other_are_apart() {
    let body = [
        (72.0, 686.0, "center"),
        (136.0, 686.0, "doctor"),
        (220.0, 686.0, "0.2"),
        (72.0, 672.0, "tab"),
        (136.0, 672.0, "dentist"),
        (220.0, 672.0, "0.15"),
    ];
    let header = |gap: f64| {
        // Two words of 500 and 222 thousandths each, with a space of 278.
        let second = 72.0 + 47.24 + gap;
        [(72.0, 700.0, "First head"), (second, 700.0, "Other head"), (220.0, 700.0, "Third")]
    };
    let rows = "center\tdoctor\t0.2\ntab\tdentist\t0.15\n";
    assert_text(&at(&[&header(10.0)[..], &body].concat()), &format!("First head\tOther head\tThird\n{rows}"));
    assert_text(&at(&[&header(6.0)[..], &body].concat()), &format!("First head\tOther head\tThird\n{rows}"));
    // Words of one name.
    let one = [(72.0, 700.0, "The first head of the two"), (220.0, 700.0, "Third")];
    assert_text(&at(&[&one[..], &body].concat()), &format!("The first head of the two\t–\tThird\n{rows}"));
}

#[test]
fn columns_of_text_that_are_drawn_line_by_line_are_read_one_after_the_other() {
    let left = [
        "The left column of this page is",
        "read before the right one, as",
        "a person does it who reads",
        "to the end.",
    ];
    let right =
        ["The right column is read when", "the left one has ended, and it", "has one line less than that."];
    let mut texts = vec![(72.0, 730.0, "A title")];
    for (i, line) in left.iter().enumerate() {
        let y = 700.0 - 12.0 * i as f64;
        texts.push((72.0, y, *line));
        texts.extend(right.get(i).map(|line| (320.0, y, *line)));
    }
    assert_text(&at(&texts), &format!("A title\n\n{}\n\n{}\n", left.join("\n"), right.join("\n")));
    // Terms and what they mean are a table.
    let table = at(&[
        (72.0, 700.0, "Bridge"),
        (172.0, 700.0, "the way over the river in the north"),
        (72.0, 688.0, "Keeper"),
        (172.0, 688.0, "the one who opens and closes the bridge"),
        (72.0, 676.0, "Toll"),
        (172.0, 676.0, "what a person pays to the keeper there"),
    ]);
    assert_text(
        &table,
        "Bridge\tthe way over the river in the north\nKeeper\tthe one who opens and closes the bridge\n\
         Toll\twhat a person pays to the keeper there\n",
    );
}

#[test]
fn listings_are_indented() {
    let expected = "fn main() {\n  if x > 1 {\n    print(1);\n  }\n}\n";
    let mut made = Made::new(at(&[
        (72.0, 700.0, "fn main\\(\\) {"),
        (84.0, 688.0, "if x > 1 {"),
        (96.0, 676.0, "print\\(1\\);"),
        (84.0, 664.0, "}"),
        (72.0, 652.0, "}"),
    ]));
    made.fonts[0] = FONT.replace("Helvetica", "Courier");
    assert_eq!(made.text(), expected);
    // With spaces.
    let lines: String = expected
        .lines()
        .map(|line| format!("({}) Tj T* ", line.replace('(', "\\(").replace(')', "\\)")))
        .collect();
    made.content = format!("BT /F 10 Tf 12 TL 72 700 Td {lines} ET");
    assert_eq!(made.text(), expected);
    // In other fonts, the place of a line means nothing.
    assert_text(
        &at(&[(72.0, 700.0, "The first line"), (84.0, 688.0, "and the second")]),
        "The first line\nand the second\n",
    );
}

// Exponents, indices, fractions and marks of notes.

/// Text with parts that are raised or lowered: `(size, rise, text)`.
fn risen(parts: &[(f64, f64, &str)]) -> String {
    let parts: String =
        parts.iter().map(|(size, rise, text)| format!("/F {size} Tf {rise} Ts ({text}) Tj ")).collect();
    format!("BT 72 700 Td {parts}ET")
}

#[test]
fn exponents_and_indices_are_told_from_the_text() {
    let small = 7.0;
    for (parts, expected) in [
        (
            &[(11.0, 0.0, "The limit is 10"), (small, 5.0, "5"), (11.0, 0.0, " units.")][..],
            "The limit is 10^5 units.",
        ),
        (&[(11.0, 0.0, "10"), (11.0, 5.0, "6"), (11.0, 0.0, " cells")], "10^6 cells"),
        (
            &[(11.0, 0.0, "2 mol s"), (small, 4.0, "-1"), (11.0, 0.0, " and 5 m"), (small, 4.0, "2")],
            "2 mol s^-1 and 5 m^2",
        ),
        (&[(11.0, 0.0, "e"), (small, 4.0, "x+1"), (11.0, 0.0, "=3")], "e^(x+1)=3"),
        (&[(11.0, 0.0, "log"), (small, -2.0, "10"), (11.0, 0.0, "5")], "log_10 5"),
        (&[(11.0, 0.0, "H"), (small, -2.0, "2"), (11.0, 0.0, "O and x"), (small, -2.0, "i")], "H_2O and x_i"),
        (
            &[
                (11.0, 0.0, "The dose is "),
                (small, 4.0, "1"),
                (11.0, 0.0, "/"),
                (small, 0.0, "2"),
                (11.0, 0.0, " tablet"),
            ],
            "The dose is 1/2 tablet",
        ),
        (
            &[
                (11.0, 0.0, "3"),
                (small, 4.0, "1"),
                (11.0, 0.0, "/"),
                (small, -1.0, "2"),
                (11.0, 0.0, " cups"),
            ],
            "3 1/2 cups",
        ),
        (&[(11.0, 0.0, "the bridge."), (small, 4.0, "12"), (11.0, 0.0, " It was")], "the bridge.[12] It was"),
        (&[(11.0, 0.0, "as Smith"), (small, 4.0, "3"), (11.0, 0.0, " says")], "as Smith[3] says"),
        (&[(small, 4.0, "3"), (9.0, 0.0, "Smith, page 7")], "[3] Smith, page 7"),
        (
            &[(10.0, 0.0, "ax"), (7.0, 4.0, "2"), (10.0, 0.0, " + z"), (7.0, 4.0, "p"), (5.0, 7.0, "2")],
            "ax^2 + z^(p^2)",
        ),
        (
            &[
                (10.0, 0.0, "in F"),
                (7.0, -1.5, "3"),
                (5.0, 1.5, "2"),
                (10.0, 0.0, " of L"),
                (7.0, 2.0, "A"),
                (10.0, 0.0, "TEX"),
            ],
            "in F_(3^2) of LATEX",
        ),
        (&[(11.0, 0.0, "the 5"), (small, 4.0, "th"), (11.0, 0.0, " of May")], "the 5th of May"),
        (
            &[(11.0, 0.0, "rose by 12.4"), (small, 4.0, "a"), (11.0, 0.0, " percent")],
            "rose by 12.4^a percent",
        ),
        // A slash makes a fraction only with small digits on both sides, the first of them higher.
        (&[(11.0, 0.0, "4.5 x 10"), (small, 4.0, "9"), (11.0, 0.0, "/l")], "4.5 x 10^9/l"),
        (&[(11.0, 0.0, "5 m"), (small, 4.0, "2"), (11.0, 0.0, "/s")], "5 m^2/s"),
        (&[(11.0, 0.0, "10"), (small, 4.0, "6"), (11.0, 0.0, "/10"), (small, 4.0, "3")], "10^6/10^3"),
        (&[(11.0, 0.0, "x"), (small, 4.0, "2"), (11.0, 0.0, "/2")], "x^2/2"),
        (&[(11.0, 0.0, "word"), (small, 4.0, "9"), (11.0, 0.0, "/other")], "word[9]/other"),
        (&[(11.0, 0.0, "10"), (small, 4.0, "2/3"), (11.0, 0.0, " of it")], "10^(2/3) of it"),
        (
            &[
                (11.0, 0.0, "add 2"),
                (small, 4.0, "1"),
                (9.0, 2.0, "/"),
                (small, -1.0, "2"),
                (11.0, 0.0, " cups"),
            ],
            "add 2 1/2 cups",
        ),
    ] {
        assert_text(&risen(parts), &format!("{expected}\n"));
    }
}

/// Texts in Helvetica of their own sizes, each at its place, and lines: `(from, to, y)`.
fn drawn(texts: &[(f64, f64, f64, &str)], lines: &[(f64, f64, f64)]) -> String {
    let texts = texts.iter().map(|(size, x, y, text)| format!("BT /F {size} Tf {x} {y} Td ({text}) Tj ET\n"));
    let lines = lines.iter().map(|(from, to, y)| format!("{from} {y} m {to} {y} l S\n"));
    texts.chain(lines).collect()
}

#[test]
fn fractions_above_each_other_are_written_with_a_slash() {
    // As TeX sets them: both parts smaller, one above the line of writing and one below it.
    for (above, below, from, to, at, expected) in [
        ("1", "2", 107.5, 111.4, 107.5, "the half 1/2 of it"),
        ("n+1", "2", 107.5, 119.4, 111.5, "the half (n+1)/2 of it"),
        ("10", "2x", 107.5, 115.3, 107.7, "the half 10/(2x) of it"),
    ] {
        let texts = [
            (10.0, 72.0, 700.0, "the half"),
            (7.0, 107.5, 703.9, above),
            (7.0, at, 696.5, below),
            (10.0, 123.0, 700.0, "of it"),
        ];
        assert_text(&drawn(&texts, &[(from, to, 702.5)]), &format!("{expected}\n"));
    }
    let both = "BT /F 10 Tf 72 700 Td (x) Tj ET BT /F 7 Tf 77 703.6 Td (2) Tj ET BT /F 7 Tf 77 697.5 Td (i) Tj ET BT /F 10 Tf 81 \
        700 Td ( = 5) Tj ET";
    // The index is said first, whichever is drawn first.
    assert_text(both, "x_i^2 = 5\n");
}

#[test]
fn fractions_may_be_as_large_as_the_text_and_contain_each_other() {
    // As LibreOffice draws them: what is below the lines first.
    let displayed = [
        (12.0, 72.0, 700.0, "y ="),
        (12.0, 102.0, 692.0, "2"),
        (12.0, 117.5, 700.0, ","),
        (12.0, 96.0, 707.0, "a+1"),
    ];
    assert_text(&drawn(&displayed, &[(95.0, 117.0, 703.4)]), "y = (a+1)/2,\n");
    // A formula alone; a fraction below another.
    let nested = [
        (10.0, 205.0, 712.0, "1"),
        (10.0, 200.0, 700.0, "1 +"),
        (7.0, 216.0, 704.0, "a"),
        (7.0, 216.0, 696.5, "b"),
    ];
    assert_text(&drawn(&nested, &[(200.0, 220.5, 709.5), (215.8, 220.1, 702.5)]), "1/(1 + a/b)\n");
    // Two beside each other, and a number before them.
    let two = [
        (10.0, 72.0, 700.0, "is 2"),
        (7.0, 87.0, 703.9, "1"),
        (7.0, 87.0, 696.5, "2"),
        (7.0, 93.0, 703.9, "c"),
        (7.0, 93.0, 696.5, "d"),
    ];
    assert_text(&drawn(&two, &[(86.9, 91.0, 702.5), (92.8, 96.7, 702.5)]), "is 2 1/2 c/d\n");
}

#[test]
fn other_lines_between_texts_are_no_fractions() {
    // Under a number, with text of another column near it; under a title.
    let index = [(9.0, 72.0, 735.0, "36"), (9.0, 72.0, 722.0, "99"), (9.0, 93.0, 730.0, "zero")];
    assert_text(&drawn(&index, &[(72.0, 82.0, 733.0)]), "36\n99\n\nzero\n");
    let title = [(10.0, 100.0, 700.0, "Report"), (10.0, 105.0, 688.0, "2024")];
    assert_text(&drawn(&title, &[(100.0, 131.0, 698.5)]), "Report\n2024\n");
}

#[test]
fn roots_are_written_with_what_is_under_their_line() {
    let made = |lines: &str| {
        let text = |text: &str| codes("√x+123 =", text);
        let content = format!(
            "BT /G 10 Tf 67 700 Td {} Tj ET BT /G 10 Tf 87 700 Td {} Tj ET BT /G 10 Tf 92.2 700 Td {} Tj ET {lines}",
            text("x ="),
            text("√"),
            text("x+1"),
        );
        Made::new(content).with_characters("√x+123 =").text()
    };
    assert_eq!(made("92 709 m 107.5 709 l S"), "x = √(x+1)\n");
    let degree = format!("BT /G 5 Tf 86 704 Td {} Tj ET 92 709 m 107.5 709 l S", codes("√x+123 =", "3"));
    assert_eq!(made(&degree), "x = ∛(x+1)\n");
}

#[test]
fn exponents_of_almost_the_same_size_are_told_by_their_height() {
    // As WeasyPrint draws them, in cells with fewer letters than exponents.
    let (size, rise) = (10.67, 5.33);
    for (base, exponent, expected) in
        [("10", "12", "10^12"), ("m", "2", "m^2"), ("10", "-3", "10^-3"), ("2", "n+1", "2^(n+1)")]
    {
        assert_text(&risen(&[(11.0, 0.0, base), (size, rise, exponent)]), &format!("{expected}\n"));
    }
    // A letter that is lowered by less is part of a name.
    assert_text(&risen(&[(11.0, 0.0, "the T"), (10.7, -2.4, "E"), (11.0, 0.0, "X book")]), "the TEX book\n");
}

#[test]
fn an_exponent_after_an_index_stays_on_the_line() {
    let stacked = |index: &str, exponent: &str, next: f64| {
        format!(
            "BT /F 10 Tf 72 700 Td (x) Tj ET BT /F 7 Tf 77 697.5 Td ({index}) Tj ET BT /F 7 Tf 77 703.6 Td ({exponent}) Tj ET \
             BT /F 10 Tf {next} 700 Td ( = 5) Tj ET"
        )
    };
    for (index, exponent, next, expected) in [
        ("i", "2", 81.0, "x_i^2 = 5"),
        ("i,j", "n+1", 91.0, "x_(i,j)^(n+1) = 5"),
        ("max", "2", 91.0, "x_max^2 = 5"),
        ("12", "3", 85.0, "x_12^3 = 5"),
    ] {
        assert_text(&stacked(index, exponent, next), &format!("{expected}\n"));
    }
}

#[test]
fn raised_cents_are_cents() {
    let small = 7.0;
    for (parts, expected) in [
        (&[(11.0, 0.0, "only 12"), (small, 4.0, "90"), (11.0, 0.0, " EUR each")][..], "only 12.90 EUR each"),
        (&[(11.0, 0.0, "$1,012"), (small, 4.0, "90"), (11.0, 0.0, " each")], "$1,012.90 each"),
        (&[(11.0, 0.0, "EUR 12,"), (small, 4.0, "90"), (11.0, 0.0, " each")], "EUR 12,90 each"),
        (&[(11.0, 0.0, "EUR 12"), (small, 4.0, "6")], "EUR 12^6"),
        (&[(11.0, 0.0, "in 10"), (small, 4.0, "12"), (11.0, 0.0, " years")], "in 10^12 years"),
    ] {
        assert_text(&risen(parts), &format!("{expected}\n"));
    }
    // The currency is as small as the cents, and lower.
    let price = "BT /F 22 Tf 72 700 Td (12) Tj ET BT /F 11 Tf 98 709 Td (90) Tj ET BT /F 11 Tf 114 700 Td (EUR) Tj ET";
    assert_text(price, "12.90 EUR\n");
}

/// With a gap before it, a raised number still is no number of the line.
#[test]
fn raised_numbers_behind_a_gap_are_marked() {
    for (text, end, raised, after, expected) in [
        ("Area 10", 92.0, "6", "m", "Area 10 [6] m"),
        ("only 12", 88.0, "99", "EUR", "only 12.99 EUR"),
        ("so x", 69.0, "2", "holds", "so x^2 holds"),
        ("pay $12", 93.0, "14", "each", "pay $12 [14] each"),
        ("120 km", 90.0, "2", "of land", "120 km^2 of land"),
        ("the log", 86.0, "2", "of it", "the log^2 of it"),
        ("the bridge", 103.5, "2", "of it", "the bridge [2] of it"),
        ("so as", 79.5, "3", "states", "so as [3] states"),
        ("3 x 10", 83.0, "8", "metres", "3 x 10^8 metres"),
        ("box 10", 86.0, "8", "is full", "box 10 [8] is full"),
    ] {
        let (small, next) = (end + 2.0, end + 13.0);
        assert_text(
            &format!(
                "BT /F 12 Tf 50 700 Td ({text}) Tj ET BT /F 7 Tf {small} 705 Td ({raised}) Tj ET BT /F 12 Tf {next} 700 Td ({after}) Tj ET"
            ),
            &format!("{expected}\n"),
        );
    }
}

#[test]
fn smaller_text_on_the_same_line_is_no_exponent() {
    assert_text(&risen(&[(11.0, 0.0, "Total 10"), (7.0, 0.0, "5")]), "Total 105\n");
    assert_text(&risen(&[(7.0, 0.0, "net"), (14.0, 0.0, " 450")]), "net 450\n");
}

// Letters.

#[test]
fn names_of_glyphs_with_several_letters_are_read() {
    let mut made = Made::new("BT /F 11 Tf 72 700 Td (ofAce: A B C D E H I J) Tj ET");
    made.fonts[0] =
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding << /Type /Encoding /Differences \
        [65 /f_i /f_f_l /uni20AC /u1F600 /g12 /a.sc /Euro /T_h /uni00660069 /eacute.alt] >> >>"
            .into();
    let document = made.read().expect("a document");
    assert_eq!(document.text, "office: fi ffl € 😀 � Th fi é\n");
    assert_eq!(document.notes, [Note::UnknownGlyphs { glyphs: 1 }]);
}

#[test]
fn names_of_glyphs_that_are_drawings_are_read() {
    let glyph = stream("", "500 0 0 0 400 700 d1 0 0 400 700 re f");
    let mut made = Made::new("BT /F 10 Tf 72 700 Td (ABA) Tj ET");
    made.fonts[0] = "<< /Type /Font /Subtype /Type3 /FontBBox [0 0 500 700] /FontMatrix [.001 0 0 .001 0 0] /FirstChar 65 \
        /LastChar 66 /Widths [500 500] /Encoding << /Differences [65 /n /o] >> /CharProcs << /n 9 0 R /o 9 0 R >> >>"
        .into();
    made.more = vec![glyph];
    assert_eq!(made.text(), "non\n");
}

/// Their widths differ, and only what they draw says how.
#[test]
fn glyphs_that_are_drawings_have_their_own_widths() {
    let glyph = |right: usize| stream("", &format!("{0} 0 0 0 {0} 70 d1 0 0 {1} 70 re f", right + 5, right));
    let picture = "90 0 0 0 85 70 d1 q 85 0 0 70 0 0 cm BI /W 8 /H 1 /IM true /BPC 1 ID \u{0} EI Q";
    let mut made =
        Made::new("BT /F 1 Tf 10 0 0 10 72 700 Tm (ABCAB) Tj 3.6 0 Td (BCB) Tj 1.8 0 Td (AA) Tj ET");
    made.fonts[0] = "<< /Type /Font /Subtype /Type3 /FontBBox [0 0 90 70] /FontMatrix [.01 0 0 .01 0 0] /FirstChar 65 \
        /LastChar 67 /Widths [90 25 90] /Encoding << /Differences [65 /m /i /w] >> /CharProcs << /m 9 0 R /i 10 0 R /w 11 0 R >> >>"
        .into();
    made.more = vec![glyph(85), glyph(20), stream("", picture)];
    assert_eq!(made.text(), "miwmi iwi mm\n");
}

/// A glyph may be narrower than its place, as the digit 1 in charts and a point of a typewriter.
#[test]
fn narrow_glyphs_that_are_drawings_have_the_widths_of_their_font() {
    let glyph = |right: usize| stream("", &format!("636 0 0 0 {right} 700 d1 0 0 {right} 700 re f"));
    let mut made = Made::new("BT /F 10 Tf 72 700 Td (baaB) Tj 40 0 Td (bBb) Tj ET");
    made.fonts[0] = "<< /Type /Font /Subtype /Type3 /FontBBox [0 0 636 700] /FontMatrix [.001 0 0 .001 0 0] /FirstChar 66 \
        /LastChar 98 /Widths [636 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 636 636] /Encoding << /Differences \
        [66 /K 97 /zero /one] >> /CharProcs << /K 9 0 R /zero 9 0 R /one 10 0 R >> >>"
        .into();
    made.more = vec![glyph(600), glyph(300)];
    assert_eq!(made.text(), "100K 1K1\n");
}

/// A font of glyphs that are drawings, with these codes and widths in thousandths. Their names are nothing but the codes.
fn coded_font(widths: &[(u8, usize)]) -> String {
    let width = |code: u8| widths.iter().find(|(known, _)| *known == code).map_or(0, |(_, width)| *width);
    let name = |code: u8| if width(code) == 0 { "/.notdef ".to_owned() } else { format!("/a{code} ") };
    let names: String = (0..=255).map(name).collect();
    let numbers: String = (0..=255).map(|code| format!("{} ", width(code))).collect();
    let programs: String = widths.iter().map(|(code, _)| format!("/a{code} 9 0 R ")).collect();
    format!(
        "<< /Type /Font /Subtype /Type3 /FontBBox [0 0 500 700] /FontMatrix [.001 0 0 .001 0 0] /FirstChar 0 /LastChar 255 \
         /Widths [{numbers}] /Encoding << /Differences [0 {names}] >> /CharProcs << {programs} >> >>"
    )
}

/// Fonts of TeX whose glyphs are pictures: their names are codes of TeX's encodings.
#[test]
fn names_that_are_codes_of_tex_are_read() {
    let roman = [
        (b'a', 500),
        (b'b', 556),
        (b'c', 444),
        (b'e', 444),
        (b'f', 306),
        (b'h', 556),
        (b'i', 278),
        (b'j', 306),
        (b'l', 278),
        (b'n', 556),
        (b'o', 500),
        (b'r', 392),
        (b's', 394),
        (b't', 389),
        (b'u', 556),
        (b'v', 528),
    ];
    let greek = [
        (b'a', 570),
        (b'e', 444),
        (b'g', 518),
        (b'h', 556),
        (b'i', 278),
        (b'k', 528),
        (b'l', 528),
        (b'n', 528),
        (b'o', 500),
        (b'p', 556),
        (b'r', 517),
        (b's', 500),
        (b't', 438),
    ];
    let shown = |letters: &[(u8, usize)], more: &[(u8, usize)], words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| format!("({word})")).collect();
        let mut made = Made::new(format!("BT /F 10 Tf 72 700 Td [{}] TJ ET", words.join("-333")));
        made.fonts[0] = coded_font(&[letters, more].concat());
        made.more = vec![stream("", "500 0 0 0 400 700 d1 0 0 400 700 re f")];
        made.read().map(|document| (notes(&document), document.text))
    };
    let read = |more: &[(u8, usize)], words: &[&str]| shown(&roman, more, words).expect("a text");
    let known = |text: &str| (String::new(), text.to_owned());
    assert_eq!(read(&[(28, 556)], &["then", "\\034n", "hint"]), known("then fin hint\n"));
    // The codes of ligatures in T1 are those of letters in OT1, and letters of OT1 are no ligatures.
    assert_eq!(read(&[(12, 556), (27, 722)], &["le", "c\\033ur", "\\014n"]), known("le cœur fin\n"));
    let danish = [(12, 556), (26, 722), (28, 500)];
    assert_eq!(read(&danish, &["\\014n", "h\\034j", "v\\032re"]), known("fin høj være\n"));
    let unknown = ("1 unknown character".to_owned(), "ben h\u{fffd}j\n".to_owned());
    assert_eq!(read(&[(28, 500)], &["ben", "h\\034j"]), unknown);
    // Russian, Greek and mathematical letters, some of which have the codes of Latin ones.
    let russian: Vec<(u8, usize)> =
        (192..=255).map(|code| (code, 500 + usize::from(code % 3) * 30)).collect();
    let maths = [
        (b'a', 529),
        (b'e', 466),
        (b'h', 576),
        (b'i', 345),
        (b'l', 298),
        (b'n', 600),
        (b'o', 485),
        (b't', 361),
        (b'u', 572),
    ];
    for shown in [
        shown(&roman, &russian, &["\\326\\345\\355\\340", "\\360\\340\\341\\356\\362\\373", "the"]),
        shown(&greek, &[], &["logos", "kai", "tropos"]),
        shown(&maths, &[], &["then", "hint"]),
    ] {
        let error = shown.expect_err("no text").to_string();
        assert!(error.contains("its fonts do not say which characters they show"), "{error}");
    }
}

/// Many fonts may share a long array of numbers. To read it for each of them takes minutes.
#[test]
fn shared_numbers_are_read_once() {
    const FONTS: usize = 3000;
    let font = "<< /Type /Font /Subtype /Type3 /FontBBox [0 0 500 700] /FontMatrix [.001 0 0 .001 0 0] /FirstChar 97 /LastChar 98 \
        /Widths 5 0 R /Encoding << /Differences [97 /a /b] >> /CharProcs << /a 6 0 R /b 6 0 R >> >>";
    let fonts: String = (0..FONTS).map(|i| format!("/F{i} {} 0 R ", 7 + i)).collect();
    let mut objects = vec![
        CATALOGUE.to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
        format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources << /Font << {fonts} >> >> >>"
        ),
        stream("", "BT /F0 10 Tf 72 700 Td (ab) Tj ET"),
        format!("[{}]", "500 ".repeat(1_000_000)),
        stream("", "500 0 0 0 400 700 d1 0 0 400 700 re f"),
    ];
    let other = font.replace("[.001 0 0 .001 0 0]", "5 0 R");
    objects.push(font.to_owned());
    objects.extend(std::iter::repeat_n(other, FONTS - 1));
    let read = read_bytes("made.pdf", &pdf(&objects), &Limits::default());
    assert_eq!(read.expect("a page").text, "ab\n");
}

#[test]
fn words_of_a_line_that_is_set_narrowly_are_apart() {
    for (content, expected) in [
        (
            "BT /F 11 Tf 72 700 Td [(provide)-120(the)-120(date)-110(on)-200(which)] TJ ET",
            "provide the date on which",
        ),
        // The gap is that of the letters.
        ("BT /F 11 Tf 1.3 Tc 72 700 Td (payment) Tj ET", "payment"),
        ("BT /F 11 Tf 72 700 Td [(p)-70(ay)-120(m)-80(ent)] TJ ET", "payment"),
    ] {
        assert_text(content, &format!("{expected}\n"));
    }
}

#[test]
fn spaced_letters_are_words() {
    for (content, expected) in [
        ("BT /F 14 Tf 4 Tc 72 700 Td (INVOICE 4471) Tj ET", "INVOICE 4471"),
        ("BT /F 11 Tf 0.8 Tc 72 700 Td (The payment is due.) Tj ET", "The payment is due."),
        ("BT /F 11 Tf 2.2 Tc 72 700 Td (The payment is due.) Tj ET", "The payment is due."),
        ("BT /F 11 Tf 72 700 Td [(I)-300(N)-300(V)-300(O)-300(I)-300(C)-300(E)] TJ ET", "INVOICE"),
        (
            "BT /F 11 Tf 72 700 Td (It is ) Tj 2 Tc (important) Tj 0 Tc ( to us) Tj ET",
            "It is important to us",
        ),
        ("BT /F 11 Tf 72 700 Td (I N V O I C E   D U E) Tj ET", "INVOICE DUE"),
        // Letters with the gaps of the words around them are words.
        (
            "BT /F 11 Tf 72 700 Td [(points)-300(A)-300(B)-300(C)-300(D)-300(E)-300(of)-300(it)] TJ ET",
            "points A B C D E of it",
        ),
        ("BT /F 11 Tf 72 700 Td (points A B C D E F G of it) Tj ET", "points A B C D E F G of it"),
        // Numbers that stand apart are numbers.
        ("BT /F 11 Tf 72 700 Td (1 0 0 1 0 0 1) Tj ET", "1 0 0 1 0 0 1"),
        ("BT /F 11 Tf 72 700 Td [(1)-400(0)-400(0)-400(1)-400(0)-400(1)] TJ ET", "1 0 0 1 0 1"),
    ] {
        assert_text(content, &format!("{expected}\n"));
    }
}

#[test]
fn text_that_is_drawn_twice_is_read_once() {
    for (dx, dy) in [(0.0, 0.0), (0.3, 0.0), (1.0, -1.0), (1.5, -1.2)] {
        let content = at(&[
            (72.0, 700.0, "Total amount due: little"),
            (72.0 + dx, 700.0 + dy, "Total amount due: little"),
            (72.0, 680.0, "450 euros"),
            (72.0 + dx, 680.0 + dy, "450 euros"),
            (72.0, 660.0, "Thank you."),
        ]);
        let text = Made::new(content).text();
        let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(lines, ["Total amount due: little", "450 euros", "Thank you."], "{dx} {dy}");
    }
    // First all shadows, then all text.
    let shadow = format!(
        "0.7 g {} 0 g {}",
        at(&[(73.0, 699.0, "One"), (73.0, 686.0, "Two")]),
        at(&[(72.0, 700.0, "One"), (72.0, 687.0, "Two")])
    );
    assert_text(&shadow, "One\nTwo\n");
    // Letters that are drawn as outlines too.
    assert_text("BT /F 10 Tf 2 Tr 72 700 Td (outlined ill) Tj ET", "outlined ill\n");
    // Dots are close together, and not the same.
    assert_text("BT /F 10 Tf 72 700 Td (1.......2 llll) Tj ET", "1.......2 llll\n");
}

#[test]
fn accents_are_put_on_their_letters() {
    let characters = "´ecaf¨un\u{301}";
    let text = codes(characters, "´");
    let content = format!(
        "BT /G 10 Tf 72 700 Td {} Tj 15.5 0 Td {text} Tj -0.5 0 Td {} Tj 7 0 Td {} Tj ET",
        codes(characters, "caf"),
        codes(characters, "e"),
        codes(characters, "n")
    );
    assert_eq!(Made::new(content).with_characters(characters).text(), "café n\n");
}

// Right to left.

const HEBREW: &str = "שלוםעקדתןחרב .,()-:0123456789abcdegilnospwrxC%₪–+=°";

/// A page with these texts in font `/G`.
fn right_to_left(texts: &[(f64, f64, String)]) -> String {
    let content: String =
        texts.iter().map(|(x, y, text)| format!("BT /G 10 Tf {x} {y} Td {text} Tj ET\n")).collect();
    Made::new(content).with_characters(HEBREW).text()
}

fn reversed(text: &str) -> String {
    text.chars().rev().collect()
}

#[test]
fn right_to_left_text_is_read_from_the_right() {
    let line = |visual: &str| right_to_left(&[(72.0, 700.0, codes(HEBREW, visual))]);
    for (visual, expected) in [
        ("םלוע םולש", "שלום עולם"),
        ("5521 דוק םלוע םולש", "שלום עולם קוד 5521"),
        ("12.50 דוק 34", "34 קוד 12.50"),
        ("םולש world 12 םלוע", "עולם world 12 שלום"),
        ("(םלוע) םולש", "שלום (עולם)"),
        (".םולש", "שלום."),
        ("50% דוק", "קוד 50%"),
        ("2024-05-12 דוק", "קוד 2024-05-12"),
        // Of two years with a dash the first stands at the right, as in the text.
        ("2005–1999 דוק", "קוד 1999–2005"),
        ("7=3+4 דוק", "קוד 3+4=7"),
        ("2x3=6 דוק", "קוד 2x3=6"),
        ("5°C דוק", "קוד 5°C"),
        ("a line is in latin, םלוע םולש, end", "a line is in latin, שלום עולם, end"),
        ("the code", "the code"),
    ] {
        let visual: String = visual.replace('t', "a").replace('h', "b").replace('m', "n").replace('f', "g");
        let expected = expected.replace('t', "a").replace('h', "b").replace('m', "n").replace('f', "g");
        assert_eq!(line(&visual), format!("{expected}\n"), "{visual}");
    }
}

#[test]
fn numbers_and_brackets_in_text_from_the_right() {
    let arabic = "السعرقیمتوהםולשא٠١٢٣٤٥٦۰۱۲۳۵٫٬٪،abcx0123456789.,/-–%()[] ";
    let line = |visual: &str| {
        let content = format!("BT /G 10 Tf 72 700 Td {} Tj ET", codes(arabic, visual));
        Made::new(content).with_characters(arabic).text()
    };
    let price = reversed("السعر");
    for (visual, expected) in [
        // Separators of Arabic numbers.
        (format!("١٢٣٫٥ {price}"), "السعر ١٢٣٫٥"),
        (format!("١٬٢٣٤٫٥٦ {price}"), "السعر ١٬٢٣٤٫٥٦"),
        (format!("۱۲۳٫۵ {}", reversed("قیمت")), "قیمت ۱۲۳٫۵"),
        (format!("123٫5 {price}"), "السعر 123٫5"),
        (format!("١٢٣,٥ {price}"), "السعر ١٢٣,٥"),
        (format!("١٢/٣ {price}"), "السعر ١٢/٣"),
        (format!("{} ،{}", reversed("قیمت"), price), "السعر، قیمت"),
        // Signs stand left of Arabic numbers, and as they are beside others.
        (format!("٪١٢ {price}"), "السعر ١٢٪"),
        (format!("%50 {price}"), "السعر 50%"),
        (format!("۵۰٪ {}", reversed("שלום")), "שלום ۵۰٪"),
        (format!("٢٠٢٤-٢٠٢٣ {price}"), "السعر ٢٠٢٣-٢٠٢٤"),
        ("١٢٣٫٥".to_owned(), "١٢٣٫٥"),
        // Brackets are pairs.
        (format!("(abc) 123 {}", reversed("שלום")), "שלום 123 (abc)"),
        (format!("{} (12 abc) 7 {}", reversed("אלה"), reversed("שלום")), "שלום 7 (12 abc) אלה"),
        (format!(")abc( 123 {}", reversed("שלום")), "שלום 123 (abc)"),
        (format!("abc (x) 12 {}", reversed("שלום שלום")), "שלום שלום abc (x) 12"),
        (format!("[a] [b] {}", reversed("שלום")), "שלום [b] [a]"),
    ] {
        assert_eq!(line(&visual), format!("{expected}\n"), "{visual}");
    }
}

#[test]
fn exponents_and_marks_of_notes_in_text_from_the_right() {
    let characters = "אבגד 0123456789m/";
    for (parts, expected) in [
        (&[(10.0, 0.0, "10"), (7.0, 4.0, "6"), (10.0, 0.0, " גבא")][..], "אבג 10^6"),
        (&[(10.0, 0.0, "10"), (7.0, 4.0, "12"), (10.0, 0.0, " גבא")], "אבג 10^12"),
        (&[(10.0, 0.0, "m"), (7.0, 4.0, "3"), (10.0, 0.0, " גבא")], "אבג m^3"),
        (&[(7.0, 4.0, "12"), (10.0, 0.0, "גבא")], "אבג[12]"),
        (&[(10.0, 0.0, "10"), (7.0, 0.0, "6"), (10.0, 0.0, " גבא")], "אבג 106"),
    ] {
        let parts: String = parts
            .iter()
            .map(|(size, rise, text)| format!("/G {size} Tf {rise} Ts {} Tj ", codes(characters, text)))
            .collect();
        let made = Made::new(format!("BT 72 700 Td {parts}ET")).with_characters(characters);
        assert_eq!(made.text(), format!("{expected}\n"), "{parts}");
    }
}

#[test]
fn right_to_left_text_may_be_drawn_by_glyph_or_by_word() {
    // In the order of reading, each glyph left of the one before.
    let mut texts = Vec::new();
    for (i, c) in "שלום עולם".chars().enumerate() {
        texts.push((300.0 - 5.0 * i as f64, 700.0, codes(HEBREW, &c.to_string())));
    }
    assert_eq!(right_to_left(&texts), "שלום עולם\n");
    // Each word from its left end, the words from the right.
    let words = [(280.0, "שלום"), (255.0, "1234"), (230.0, "עולם"), (200.0, "abcde")];
    let words: Vec<_> = words
        .iter()
        .map(|&(x, word)| {
            let is_latin = word.is_ascii();
            (x, 700.0, codes(HEBREW, &if is_latin { word.to_owned() } else { reversed(word) }))
        })
        .collect();
    assert_eq!(right_to_left(&words), "שלום 1234 עולם abcde\n");
}

#[test]
fn a_table_from_right_to_left_begins_at_the_right() {
    let cell = |x: f64, y: f64, visual: &str| (x, y, codes(HEBREW, visual));
    let text = right_to_left(&[
        cell(300.0, 700.0, &reversed("קוד")),
        cell(200.0, 700.0, &reversed("שלום")),
        cell(100.0, 700.0, &reversed("עולם")),
        cell(300.0, 686.0, &reversed("רחוב")),
        cell(100.0, 686.0, "900"),
    ]);
    assert_eq!(text, "קוד\tשלום\tעולם\nרחוב\t–\t900\n");
}

#[test]
fn presentation_forms_become_letters() {
    // "salam", "la ilaha": forms of Arabic letters, drawn from the left.
    let shaped = "ﻡﻼﺳ";
    let made =
        Made::new(format!("BT /G 10 Tf 72 700 Td {} Tj ET", codes(shaped, shaped))).with_characters(shaped);
    assert_eq!(made.text(), "سلام\n");
    let shaped = "שׁﬁ⼀︒";
    let made =
        Made::new(format!("BT /G 10 Tf 72 700 Td {} Tj ET", codes(shaped, "ﬁ⼀︒"))).with_characters(shaped);
    assert_eq!(made.text(), "fi一。\n");
}

#[test]
fn marks_stay_with_their_letters() {
    // A vowel is drawn over each letter, after it.
    let characters = "בגַ";
    let mut content = String::new();
    for (x, text) in [(80.0, "ב"), (82.0, "ַ"), (75.0, "ג"), (77.0, "ַ")] {
        let width = if text == "ַ" { "0.01" } else { "1" };
        content += &format!("BT /G 10 Tf {width} 0 0 1 {x} 700 Tm {} Tj ET\n", codes(characters, text));
    }
    assert_eq!(Made::new(content).with_characters(characters).text(), "בַגַ\n");
}

/// A line through text strikes it out, a line below it or beside it does not.
#[test]
fn text_with_a_line_through_it_is_struck_out() {
    let price = at(&[(72.0, 700.0, "The rent is"), (125.0, 700.0, "900"), (146.0, 700.0, "950 euros")]);
    for (line, expected) in [
        ("125 703 m 142 703 l S", "The rent is ~~900~~ 950 euros"),
        ("125 702.6 17 0.6 re f", "The rent is ~~900~~ 950 euros"),
        ("125 703 m 133 703 l S 133 703 m 142 703 l S", "The rent is ~~900~~ 950 euros"),
        ("72 703 m 142 703 l S", "~~The rent is 900~~ 950 euros"),
        ("125 698 m 142 698 l S", "The rent is 900 950 euros"),
        ("125 708 m 142 708 l S", "The rent is 900 950 euros"),
        // The line of a chart goes on behind the text.
        ("20 703 m 580 703 l S", "The rent is 900 950 euros"),
    ] {
        assert_text(&format!("{price}{line}"), &format!("{expected}\n"));
    }
    let turned = "BT /F 10 Tf 0 1 -1 0 300 100 Tm (Side 900) Tj ET 297 100 m 297 143 l S";
    assert_text(turned, "~~Side 900~~\n");
    let mut made = Made::new(price);
    made.page = "/Annots [<< /Type /Annot /Subtype /StrikeOut /Rect [125 697 142 709] /QuadPoints [125 709 142 709 125 697 \
        142 697] >>]";
    assert_eq!(made.text(), "The rent is ~~900~~ 950 euros\n");
}

// Directions.

#[test]
fn vertical_text_is_read_downwards() {
    let characters = "日本語の文章";
    let mut content = String::new();
    for (column, text) in [(200.0, "日本語"), (184.0, "の文章")] {
        for (i, c) in text.chars().enumerate() {
            let y = 700.0 - 10.0 * i as f64;
            content += &format!("BT /G 10 Tf {column} {y} Td {} Tj ET\n", codes(characters, &c.to_string()));
        }
    }
    assert_eq!(Made::new(content).with_characters(characters).text(), "日本語\nの文章\n");
}

#[test]
fn a_font_for_vertical_text_is_read_downwards() {
    let mut made = Made::new("BT /F 10 Tf 200 700 Td <65e5672c> Tj ET BT /F 10 Tf 184 700 Td <8a9e> Tj ET");
    made.fonts[0] = "<< /Type /Font /Subtype /Type0 /BaseFont /Made /Encoding /UniJIS-UTF16-V /DescendantFonts [<< /Type \
        /Font /Subtype /CIDFontType0 /BaseFont /Made /CIDSystemInfo << /Registry (Adobe) /Ordering (Japan1) /Supplement \
        6 >> /FontDescriptor << /Type /FontDescriptor /FontName /Made /Flags 4 >> >>] >>"
        .into();
    assert_eq!(made.text(), "日本\n語\n");
}

#[test]
fn numbers_in_vertical_text_are_numbers() {
    // Narrow digits have their own middle in such a font: the code is that of a character of half the width.
    let mut made = Made::new("BT /F 10 Tf 200 700 Td <5e74003200306708> Tj ET");
    made.fonts[0] = "<< /Type /Font /Subtype /Type0 /BaseFont /Made /Encoding /UniJIS-UCS2-HW-V /DescendantFonts [<< /Type \
        /Font /Subtype /CIDFontType0 /BaseFont /Made /DW 1000 /W [231 [500 500 500 500 500 500 500 500 500 500 500 500 500 \
        500 500 500 500 500 500 500 500 500 500 500 500 500 500 500]] /CIDSystemInfo << /Registry (Adobe) /Ordering (Japan1) \
        /Supplement 6 >> /FontDescriptor << /Type /FontDescriptor /FontName /Made /Flags 4 >> >>] >>"
        .into();
    assert_eq!(made.text(), "年20月\n");
    // Digits among signs that are drawn one below the other.
    let characters = "年度令和20";
    let drawn = |text: &str, widths: &[f64]| -> String {
        let glyphs = text.chars().zip(widths).enumerate();
        glyphs
            .map(|(i, (c, x))| {
                format!(
                    "BT /G 10 Tf {x} {} Td {} Tj ET\n",
                    700.0 - 10.0 * i as f64,
                    codes(characters, &c.to_string())
                )
            })
            .collect()
    };
    let column = drawn("令和20年度", &[200.0, 200.0, 202.5, 202.5, 200.0, 200.0]);
    assert_eq!(Made::new(column).with_characters(characters).text(), "令和20年度\n");
}

#[test]
fn turned_pages_and_turned_text_are_read() {
    let mut made = Made::new("BT /F 10 Tf 0 1 -1 0 300 100 Tm (One) Tj 0 -12 Td (Two) Tj ET");
    made.page = "/Rotate 90";
    assert_eq!(made.text(), "One\nTwo\n");
    assert_text("BT /F 10 Tf 0 1 -1 0 300 100 Tm (Side 1) Tj 100 0 Td (B) Tj ET", "Side 1\tB\n");
}

// What is not seen.

#[track_caller]
fn assert_hidden(content: &str, seen: &str, hidden: usize) {
    let document = Made::new(content).read().expect("a document");
    assert_eq!(document.text, format!("{seen}\n"), "{content}");
    let notes = if hidden == 0 { vec![] } else { vec![Note::HiddenCharacters { characters: hidden }] };
    assert_eq!(document.notes, notes, "{content}");
}

#[test]
fn hidden_text_is_left_out_and_counted() {
    let seen = at(&[(72.0, 700.0, "seen")]);
    for hidden in [
        "1 g BT /F 10 Tf 72 600 Td (not) Tj ET",
        "0.99 1 1 rg BT /F 10 Tf 72 600 Td (not) Tj ET",
        "0 0 1 rg 0 500 400 150 re f BT /F 10 Tf 72 600 Td (not) Tj ET",
        "BT /F 10 Tf 72 900 Td (not) Tj ET",
        "BT /F 10 Tf -300 700 Td (not) Tj ET",
        "q 100 100 20 20 re W n BT /F 10 Tf 72 600 Td (not) Tj ET Q",
        "BT 3 Tr /F 10 Tf 72 600 Td (not) Tj ET",
        "BT /F 10 Tf 72 600 Td (not) Tj ET 0.3 g 60 590 100 30 re f",
        "BT /F 0.2 Tf 72 600 Td (not) Tj ET",
    ] {
        assert_hidden(&format!("{seen}{hidden}"), "seen", 3);
    }
}

#[test]
fn text_on_a_background_is_seen() {
    for content in [
        "0 g 0 500 400 150 re f 1 g BT /F 10 Tf 72 600 Td (seen) Tj ET",
        "q 400 0 0 150 0 500 cm /X Do Q 1 g BT /F 10 Tf 72 600 Td (seen) Tj ET",
        "q 50 590 200 50 re W n BT /F 10 Tf 72 600 Td (seen) Tj ET Q",
        "1 g 0 0 600 800 re f 0 g BT /F 10 Tf 72 600 Td (seen) Tj ET",
        "BT /F 10 Tf 72 600 Td (seen) Tj ET 0 G 60 590 100 30 re S",
        "30 w 60 603 m 160 603 l S 1 g BT /F 10 Tf 72 600 Td (seen) Tj ET",
        "0 0 1 rg 60 590 m 160 590 l 160 630 l 110 640 l 60 630 l f 1 g BT /F 10 Tf 72 600 Td (seen) Tj ET",
        "BT 1 Tr 0 G 1 g /F 10 Tf 72 600 Td (seen) Tj ET",
        "BT 2 Tr 0 G 1 g /F 10 Tf 72 600 Td (seen) Tj ET",
    ] {
        assert_hidden(content, "seen", 0);
    }
}

#[test]
fn the_text_of_a_scanned_picture_is_kept() {
    let picture = "q 600 0 0 800 0 0 cm /X Do Q";
    let layer = "BT 3 Tr /F 10 Tf 72 600 Td (seen) Tj ET";
    assert_hidden(&format!("{picture} {layer}"), "seen", 0);
    assert_hidden(&format!("{layer} {picture}"), "seen", 0);
    assert_hidden(layer, "seen", 0);
    assert_hidden(&format!("BT /F 10 Tf 72 600 Td (seen) Tj ET {picture}"), "seen", 0);
    assert_hidden(&format!("{picture} q 0 0 1 1 re W n BT /F 10 Tf 72 600 Td (seen) Tj ET Q"), "seen", 0);
}

#[test]
fn lines_of_a_scanned_picture_that_overlap_are_not_mixed() {
    // The first line has room at its spaces.
    let content = "q 600 0 0 800 0 0 cm /X Do Q BT 3 Tr /F 12 Tf 72 600 Td (net a of all) Tj ET BT 3 Tr /F 12 Tf 89 597 Td (share of) Tj ET";
    assert_text(content, "net a of all\nshare of\n");
}

// Text that the file gives besides its glyphs.

#[test]
fn the_actual_text_is_used() {
    for (content, expected) in [
        ("/Span << /ActualText (first) >> BDC (f1) Tj EMC ( and more) Tj", "first and more"),
        ("/Span<</ActualText<FEFF00660066>>>BDC (X) Tj EMC (ect) Tj", "ffect"),
        ("(soft) Tj /Span << /MCID 3 /ActualText <FEFF00AD> >> BDC (-) Tj EMC 0 -12 Td (ly) Tj", "softly"),
        ("/Span /P0 BDC (X) Tj EMC ( and more) Tj", "named and more"),
        ("/Span << /ActualText () >> BDC (decoration) Tj EMC (text) Tj", "text"),
        ("/Span << /Lang (de) /ActualText (a \\(b\\) >>) >> BDC (X) Tj EMC (.) Tj", "a (b) >>."),
        ("(says /ActualText (x) BDC here) Tj", "says /ActualText (x) BDC here"),
        ("/Span << /MCID -5 >> BDC (text) Tj EMC", "text"),
    ] {
        let content = content.replace("(x) BDC here", "\\(x\\) BDC here");
        let mut made = Made::new(format!("BT /F 10 Tf 72 700 Td {content} ET"));
        made.page = "/Resources << /Font << /F 5 0 R >> /Properties << /P0 << /ActualText (named) >> >> >>";
        assert_eq!(made.text(), format!("{expected}\n"), "{content}");
    }
}

#[test]
fn the_actual_text_of_drawings_is_used() {
    let drawing = |text: &str| {
        stream(
            "/Type /XObject /Subtype /Form /BBox [0 0 600 800] /Resources << /Font << /F 5 0 R >> >>",
            &format!("BT /F 10 Tf 72 700 Td /Span << /ActualText (o{text}) >> BDC (oXce) Tj EMC ET"),
        )
    };
    let mut made = Made::new(
        "BT /F 10 Tf 72 720 Td /Span << /ActualText (first) >> BDC (f1) Tj EMC ET /A Do /B Do BT /F 10 Tf 72 660 Td /Span << \
         /ActualText (last) >> BDC (X) Tj EMC ET",
    );
    made.page = "/Resources << /Font << /F 5 0 R >> /XObject << /A 9 0 R /B 10 0 R >> >>";
    made.more = vec![drawing("ffice"), drawing("ther").replace("72 700", "72 680")];
    assert_eq!(made.text(), "first\n\noffice\n\nother\n\nlast\n");
}

#[test]
fn numbers_that_are_seen_are_read_if_the_actual_text_has_others() {
    for (content, expected, places) in [
        ("/Span << /ActualText (450) >> BDC (120) Tj EMC ( EUR) Tj", "120 EUR", 1),
        ("/Span << /ActualText (no price) >> BDC (120 EUR) Tj EMC", "120 EUR", 1),
        ("/Span << /ActualText () >> BDC (120) Tj EMC ( EUR) Tj", "120 EUR", 1),
        ("/Span << /ActualText (120) >> BDC (1 20) Tj EMC ( EUR) Tj", "120 EUR", 0),
        ("/Span << /ActualText <FEFF00310030207600200045> >> BDC (106 E) Tj EMC", "10\u{2076} E", 0),
    ] {
        let document = Made::new(format!("BT /F 10 Tf 72 700 Td {content} ET")).read().expect("a document");
        assert_eq!(document.text, format!("{expected}\n"), "{content}");
        let notes = if places == 0 { vec![] } else { vec![Note::OtherNumbers { places }] };
        assert_eq!(document.notes, notes, "{content}");
    }
}

#[test]
fn bookmarks_are_headings() {
    let mut made = Made::new(at(&[
        (72.0, 700.0, "1 The bridge"),
        (72.0, 680.0, "It is old."),
        (72.0, 660.0, "1.1 Its keeper"),
        (72.0, 640.0, "Its keeper is tired."),
        (72.0, 620.0, "The river"),
    ]));
    made.catalogue =
        "/Outlines 9 0 R /Names << /Dests << /Kids [<< /Names [(k) << /D [3 0 R /XYZ 0 0 0] >>] >>] >> >>";
    made.more = [
        "<< /Type /Outlines /First 10 0 R >>",
        "<< /Title (The Bridge) /Dest [3 0 R /Fit] /First 11 0 R /Next 12 0 R >>",
        "<< /Title (Its keeper) /A << /S /GoTo /D (k) >> /Next 11 0 R >>",
        "<< /Title (Elsewhere) /Dest [99 0 R /Fit] >>",
    ]
    .map(str::to_owned)
    .to_vec();
    let document = made.read().expect("a document");
    let parts = document.outline.parts(&document.text);
    let sections: Vec<&str> = parts.iter().filter_map(|part| part.location.section).collect();
    assert_eq!(sections.len(), 2, "{parts:?}");
    assert!(sections[0].contains("The bridge") && sections[1].contains("Its keeper"), "{sections:?}");
}

// Forms.

/// A page with labels and these fields, of which the first is object 9.
fn form(labels: &[(f64, f64, &str)], fields: &[&str]) -> Made {
    let mut made = Made::new(at(labels));
    made.catalogue = "/AcroForm << /DA (/F 0 Tf 0 g) /Fields [9 0 R] >>";
    made.page = "/Annots [9 0 R 10 0 R 11 0 R 12 0 R 13 0 R 14 0 R 15 0 R 16 0 R 17 0 R]";
    made.more =
        fields.iter().map(|field| format!("<< /Type /Annot /Subtype /Widget /F 4 {field} >>")).collect();
    made
}

#[test]
fn values_of_a_form_stand_beside_their_labels() {
    let mut made = form(
        &[
            (72.0, 700.0, "Name:"),
            (72.0, 680.0, "Country:"),
            (72.0, 660.0, "Languages:"),
            (90.0, 640.0, "Married"),
            (90.0, 620.0, "Children"),
            (72.0, 600.0, "Sex:"),
            (120.0, 600.0, "female"),
            (200.0, 600.0, "male"),
            (72.0, 580.0, "Remarks:"),
            (72.0, 540.0, "Password:"),
        ],
        &[
            "/FT /Tx /T (name) /V (Ida Lindqvist) /Rect [150 695 350 713]",
            "/FT /Ch /Ff 131072 /T (country) /V (se) /Opt [[(no) (Norway)] [(se) (Sweden)]] /Rect [150 675 350 693]",
            "/FT /Ch /Ff 2097152 /T (languages) /V [(Finnish) (Danish)] /Opt [(Danish) (Finnish) (German)] /Rect [150 655 350 673]",
            "/FT /Btn /T (married) /V /Yes /AS /Yes /Rect [72 638 84 650]",
            "/FT /Btn /T (children) /V /Off /AS /Off /Rect [72 618 84 630]",
            "/Parent 18 0 R /AS /f /Rect [105 598 117 610] /AP << /N << /f 19 0 R /Off 19 0 R >> >>",
            "/Parent 18 0 R /AS /Off /Rect [185 598 197 610] /AP << /N << /m 19 0 R /Off 19 0 R >> >>",
            "/FT /Tx /Ff 4096 /T (remarks) /V (first line\\rsecond line) /Rect [150 555 350 591]",
            "/FT /Tx /Ff 8192 /T (secret) /V (s3cret) /Rect [150 535 350 553]",
        ],
    );
    made.more.push("<< /FT /Btn /Ff 32768 /T (sex) /V /f >>".into());
    made.more.push(stream("/Type /XObject /Subtype /Form /BBox [0 0 12 12]", "BT /F 9 Tf 2 2 Td (4) Tj ET"));
    assert_eq!(
        made.text(),
        "Name:\tIda Lindqvist\n\nCountry:\tSweden\n\nLanguages:\tFinnish, Danish\n\n☒ Married\n\n☐ Children\n\n\
         Sex: ◉ female\t○ male\n\nRemarks:\tfirst line\nsecond line\n\nPassword:\t••••••\n"
    );
}

/// However long a value is, the next field is another one.
#[test]
fn values_of_fields_beside_each_other_are_apart() {
    let made = form(
        &[(72.0, 720.0, "Account and amount:")],
        &[
            "/FT /Tx /T (account) /V (1234567890123) /Rect [72 695 110 713]",
            "/FT /Tx /T (amount) /V (450) /Rect [111 695 160 713]",
        ],
    );
    assert_eq!(made.text(), "Account and amount:\n1234567890123 450\n");
}

#[test]
fn a_list_shows_what_can_be_chosen() {
    let made = form(
        &[(72.0, 700.0, "Colour:")],
        &[
            "/FT /Ch /T (a) /Opt [(red) [(g) (green)]] /DA (/F 10 Tf) /Rect [72 600 200 690]",
            "/FT /Ch /T (b) /Ff 131072 /Opt [(one) (two)] /Rect [72 560 200 580]",
        ],
    );
    assert_eq!(made.text(), "Colour:\n\n☐ red\n☐ green\n");
}

#[test]
fn a_value_that_is_drawn_too_is_read_once() {
    let mut made = form(
        &[(72.0, 700.0, "Name:"), (72.0, 680.0, "Fee:")],
        &[
            "/FT /Tx /T (name) /V (Ida) /Rect [150 695 350 713] /AP << /N 11 0 R >>",
            "/FT /Tx /T (fee) /Rect [150 675 350 693] /AP << /N 12 0 R >>",
        ],
    );
    let drawn = |text: &str| {
        stream(
            "/Type /XObject /Subtype /Form /BBox [0 0 200 18] /Resources << /Font << /F 5 0 R >> >>",
            &format!("/Tx BMC BT /F 10 Tf 2 5 Td ({text}) Tj ET EMC"),
        )
    };
    made.page = "/Annots [9 0 R 10 0 R]";
    made.more.extend([drawn("Ida"), drawn("450 euros")]);
    assert_eq!(made.text(), "Name:\tIda\n\nFee:\t450 euros\n");
}

#[test]
fn fields_that_are_not_shown_are_left_out() {
    let made = form(
        &[(72.0, 700.0, "Name:")],
        &[
            "/F 2 /FT /Tx /T (a) /V (hidden) /Rect [150 695 350 713]",
            "/F 6 /FT /Tx /V (too) /Rect [150 655 350 673]",
        ],
    );
    // The first /F of these wins in no reader; the dictionary is made so that the flags are those of the field.
    let text =
        Made { more: made.more.iter().map(|field| field.replace("/F 4 ", "")).collect(), ..made }.text();
    assert_eq!(text, "Name:\n");
}

#[test]
fn text_of_other_annotations_is_read() {
    let mut made = Made::new(at(&[(72.0, 700.0, "Draft")]));
    // Some were deleted.
    made.page = "/Annots [98 0 R 9 0 R null 11 0 R]";
    made.more = vec![
        "<< /Type /Annot /Subtype /FreeText /Rect [72 600 200 620] /Contents (unseen) /AP << /N 10 0 R >> >>"
            .into(),
        stream(
            "/Type /XObject /Subtype /Form /BBox [0 0 100 20] /Matrix [1 0 0 1 0 0] /Resources << /Font << /F 5 0 R >> >>",
            "BT /F 10 Tf 0 5 Td (Approved) Tj ET",
        ),
        "<< /Type /Annot /Subtype /Text /Rect [300 600 320 620] /Contents (Is this right?) >>".into(),
    ];
    assert_eq!(made.text(), "Draft\n\nApproved\n\n[Comment: Is this right?]\n");
    // Text that a program is to draw itself stands at its place; what is attached has a description.
    let mut made = Made::new(at(&[(72.0, 700.0, "Name:"), (72.0, 600.0, "End")]));
    made.more = vec![
        "<< /Type /Annot /Subtype /FreeText /Rect [120 696 300 710] /DA (/Helv 10 Tf) /Contents (Ann Smith) >>".into(),
        "<< /Type /Annot /Subtype /FreeText /Rect [120 500 300 510] /F 2 /Contents (hidden) >>".into(),
        "<< /Type /Annot /Subtype /FileAttachment /Rect [1 1 9 9] /Contents (The budget) >>".into(),
        "<< /Type /Annot /Subtype /FreeText /Rect [250 696 400 710] /IT /FreeTextCallout /Contents (Who is she?) >>".into(),
    ];
    made.page = "/Annots [9 0 R 10 0 R 11 0 R 12 0 R]";
    assert_eq!(made.text(), "Name: Ann Smith\n\nEnd\n\n[Comment: The budget]\n\n[Comment: Who is she?]\n");
    // One that is only drawn.
    made.more = vec![
        "<< /Type /Annot /Subtype /FreeText /Rect [72 500 200 520] /IT /FreeTextCallout /AP << /N 10 0 R >> >>".into(),
        stream("/Type /XObject /Subtype /Form /BBox [0 0 128 20] /Resources << /Font << /F 5 0 R >> >>", "BT /F 10 Tf 0 4 Td (Ann Smith) Tj ET"),
    ];
    made.page = "/Annots [9 0 R]";
    assert_eq!(made.text(), "Name:\n\nEnd\n\nAnn Smith\n");
}

// Lines.

#[test]
fn divided_words_are_joined() {
    assert_text(
        &at(&[(72.0, 700.0, "an exam-"), (72.0, 688.0, "ple of three-"), (72.0, 676.0, "4 and")]),
        "an example of three-\n4 and\n",
    );
}

#[test]
fn a_file_that_was_cut_off_has_a_note() {
    let whole = Made::new(at(&[(72.0, 700.0, "The rent is 900.")])).bytes();
    let notes = |bytes: &[u8]| read_bytes("made.pdf", bytes, &Limits::default()).expect("a document").notes;
    let incomplete = || vec![Note::Incomplete];
    assert_eq!(notes(&whole), vec![]);
    assert_eq!(notes(&[&whole[..], b"\r\n\0\0\0\n"].concat()), vec![]);
    let end = whole.windows(7).position(|part| part == b"trailer").expect("a trailer");
    assert_eq!(notes(&whole[..end]), incomplete());
    // A file for the web says how long it is.
    let linearized = |length: usize| {
        let first = format!("%PDF-1.7\n90 0 obj\n<< /Linearized 1 /L {length:06} /N 1 >>\nendobj\n");
        [first.as_bytes(), &whole[9..]].concat()
    };
    let length = linearized(1000).len();
    assert_eq!(notes(&linearized(length)), vec![]);
    assert_eq!(notes(&linearized(length * 2)), incomplete());
}

#[test]
fn a_password_is_asked_for() {
    let protected = include_bytes!("../fixtures/encrypted.pdf");
    let error = read_bytes("a.pdf", protected, &Limits::default()).expect_err("a password");
    assert!(matches!(error.problem, Problem::Encrypted), "{error}");
    assert!(error.hint().contains("password"), "{}", error.hint());
}

#[test]
fn names_of_mathematical_signs_are_read() {
    let widths: String = (32..=122)
        .map(|code| match code {
            65 => "0 ",
            67 => "1000 ",
            _ => "500 ",
        })
        .collect();
    let mut made = Made::new(
        "BT /F 10 Tf 72 700 Td (nA=B0) Tj 30 0 Td (c) Tj ET BT /F 10 Tf 99.5 700 Td (C) Tj 12 0 Td (DE1) Tj ET",
    );
    made.fonts[0] = format!(
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /FirstChar 32 /LastChar 122 /Widths [{widths}] /Encoding << \
         /Differences [65 /negationslash /lscript /circlecopyrt /parenleftbig /summationdisplay] >> >>"
    );
    assert_eq!(made.text(), "n≠ℓ0 © (∑1\n");
}

/// The symbol fonts that every reader has name no characters in the file.
#[test]
fn signs_of_symbol_fonts_are_read() {
    for (font, text, wanted) in [
        ("/BaseFont /ZapfDingbats", "4 8 o", "✔ ✘ ☐"),
        ("/BaseFont /ZapfDingbats /Encoding /WinAnsiEncoding", "3", "✓"),
        ("/BaseFont /Symbol", "a \\243 5", "α ≤ 5"),
        ("/BaseFont /ABCDEF+Wingdings-Regular", "\\376 o", "☒ ☐"),
        ("/BaseFont /Wingdings-2", "P \\243", "✓ ☐"),
        ("/BaseFont /Wingdings3", "g h", "→ ↑"),
        ("/BaseFont /Webdings", "4 5", "▶ ▲"),
        // A sign that is not known is no letter.
        ("/BaseFont /Webdings", "4R", "▶\u{fffd}"),
    ] {
        let page = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources << /Font << /F 5 0 R >> >> >>";
        let objects = [
            CATALOGUE.to_owned(),
            "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
            page.to_owned(),
            stream("", &format!("BT /F 12 Tf 50 700 Td ({text}) Tj ET")),
            format!("<< /Type /Font /Subtype /Type1 {font} >>"),
        ];
        let document = crate::parts::read("made.pdf", &pdf(&objects));
        assert_eq!(document.text.trim_end(), wanted, "{font}");
    }
}

/// A part of a font may have codes of its own, unless its program says that they are those of a symbol font.
#[test]
fn codes_of_embedded_symbol_fonts_are_read_where_they_are_known() {
    for (platform, encoding, wanted) in [('\u{3}', '\0', "✓"), ('\u{1}', '\0', "P"), ('\u{3}', '\u{1}', "P")]
    {
        let page = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources << /Font << /F 5 0 R >> >> >>";
        let program = format!(
            "\0\u{1}\0\0\0\u{1}\0\0\0\0\0\0cmap\0\0\0\0\0\0\0\u{1c}\0\0\0\u{c}\0\0\0\u{1}\0{platform}\0{encoding}\0\0\0\u{c}"
        );
        let objects = [
            CATALOGUE.to_owned(),
            "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
            page.to_owned(),
            stream("", "BT /F 12 Tf 50 700 Td (P) Tj ET"),
            "<< /Type /Font /Subtype /TrueType /BaseFont /ABCDEF+Wingdings2 /FontDescriptor 6 0 R >>"
                .to_owned(),
            "<< /Type /FontDescriptor /FontName /ABCDEF+Wingdings2 /Flags 4 /FontFile2 7 0 R >>".to_owned(),
            stream("", &program),
        ];
        let document = crate::parts::read("made.pdf", &pdf(&objects));
        assert_eq!(document.text.trim_end(), wanted, "{platform:?} {encoding:?}");
    }
}

#[test]
fn values_of_flattened_forms_stand_beside_their_labels() {
    // The values are drawn last, each marked as the value of a field, and boxes with and without ticks.
    let labels =
        at(&[(72.0, 700.0, "Name:"), (72.0, 686.0, "City:"), (100.0, 640.0, "Cat"), (100.0, 626.0, "Dog")]);
    let value = |y: f64, text: &str| format!("/Tx BMC q BT /F 12 Tf 150 {y} Td ({text}) Tj ET Q EMC\n");
    let boxes = "80 639 9 9 re S 82 644 m 84 641 l 91 648 l S 80 625 9 9 re S\n";
    let made = Made::new(labels + &value(686.5, "Oslo") + &value(701.0, "Ann Lee 42") + boxes);
    assert_eq!(made.text(), "Name:\tAnn Lee 42\nCity:\tOslo\n\nCat\nDog\n");
    assert_eq!(made.read().expect("a document").notes, [Note::DrawnBoxes { boxes: 2 }]);
}

//! Fonts of PDFs that do not say plainly which characters their glyphs are.

use documents::{Document, DocumentError, Limits, Note, Problem, read_bytes};

use crate::common::{CATALOGUE, pdf, stream};

/// Reads a page with this content and font, which may need more objects, numbered from 6 on.
fn read(content: &str, font: &str, more: &[String]) -> Result<Document, DocumentError> {
    read_with(CATALOGUE, content, font, more)
}

fn read_with(catalogue: &str, content: &str, font: &str, more: &[String]) -> Result<Document, DocumentError> {
    let page = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources << /Font << /F 5 0 R >> >> >>";
    let pages = "<< /Type /Pages /Kids [3 0 R] /Count 1 >>";
    let mut objects = [catalogue, pages, page, &stream("", content), font].map(str::to_owned).to_vec();
    objects.extend_from_slice(more);
    read_bytes("made.pdf", &pdf(&objects), &Limits::default())
}

/// The text of a document and how many characters are unknown; nothing where too few are known.
#[track_caller]
fn known(read: Result<Document, DocumentError>) -> Option<(String, usize)> {
    match read {
        Ok(document) => {
            let unknown = match document.notes[..] {
                [] | [Note::CharactersOfPrograms { .. }] => 0,
                [Note::UnknownGlyphs { glyphs }] => glyphs,
                [Note::UnknownGlyphs { glyphs }, Note::CharactersOfPrograms { .. }] => glyphs,
                _ => panic!("{:?}", document.notes),
            };
            Some((document.text.trim_end().to_owned(), unknown))
        }
        Err(error) => {
            assert!(matches!(error.problem, Problem::UnknownGlyphs), "{error}");
            None
        }
    }
}

#[track_caller]
fn assert_known(read: Result<Document, DocumentError>, text: &str, unknown: usize) {
    assert_eq!(known(read), Some((text.to_owned(), unknown)));
}

/// A code says something where the font has a glyph of the name that the encoding gives it.
#[test]
fn glyphs_that_are_drawings_are_read_by_a_named_encoding() {
    let shown = |encoding: &str, names: &[&str], text: &str| {
        let glyphs: String = names.iter().map(|name| format!("/{name} 6 0 R ")).collect();
        let font = format!(
            "<< /Type /Font /Subtype /Type3 /FontBBox [0 0 500 700] /FontMatrix [.001 0 0 .001 0 0] /FirstChar 0 /LastChar 255 \
             /Widths [{}] /Encoding {encoding} /CharProcs << {glyphs} >> >>",
            "500 ".repeat(256)
        );
        let glyph = stream("", "500 0 0 0 400 700 d1 0 0 400 700 re f");
        read(&format!("BT /F 10 Tf 72 700 Td ({text}) Tj ET"), &font, &[glyph])
    };
    let names = ["n", "o", "eacute", "Euro", "two", "Egrave"];
    assert_known(shown("/WinAnsiEncoding", &names, "noon\\351e\\2002"), "noon\u{e9}\u{fffd}€2", 1);
    assert_known(shown("/MacRomanEncoding", &names, "no\\216\\351"), "no\u{e9}\u{c8}", 0);
    assert_known(shown("<< /BaseEncoding /WinAnsiEncoding >>", &names, "noon"), "noon", 0);
    let differences = "<< /BaseEncoding /WinAnsiEncoding /Differences [65 /two /g12 110 /o] >>";
    assert_known(shown(differences, &["n", "o", "two", "g12"], "AnoooB"), "2oooo\u{fffd}", 1);
    assert_eq!(known(shown("/WinAnsiEncoding", &["g78", "a111", "char6e"], "noon")), None);
    assert_eq!(known(shown("/OwnEncoding", &names, "noon")), None);
}

/// Many fonts may share the list of their glyphs. To read a long one for each of them takes minutes.
#[test]
fn shared_glyphs_are_read_once() {
    const FONTS: usize = 4000;
    let fonts: String = (0..FONTS).map(|i| format!("/F{i} {} 0 R ", 7 + i)).collect();
    let glyphs: String = (0..300_000).map(|i| format!("/g{i} 6 0 R ")).collect();
    let mut objects = vec![
        CATALOGUE.to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
        format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources << /Font << {fonts} >> >> >>"
        ),
        stream("", "BT /F0 10 Tf 72 700 Td (no) Tj ET"),
        format!("<< /n 6 0 R /o 6 0 R {glyphs} >>"),
        stream("", "500 0 0 0 400 700 d1 0 0 400 700 re f"),
    ];
    let font = "<< /Type /Font /Subtype /Type3 /FontBBox [0 0 500 700] /FontMatrix [.001 0 0 .001 0 0] /FirstChar 110 /LastChar 111 \
        /Widths [500 500] /Encoding /WinAnsiEncoding /CharProcs 5 0 R >>";
    objects.extend(std::iter::repeat_n(font.to_owned(), FONTS));
    let read = read_bytes("made.pdf", &pdf(&objects), &Limits::default());
    assert_eq!(read.expect("a page").text, "no\n");
}

/// A TrueType program whose glyphs from 1 on are these, as they are in its table of characters; blank ones are white space.
struct Program {
    glyphs: &'static str,
    /// The characters and the glyphs that they have in the table.
    table: Vec<(u16, u16)>,
    /// The platform and the encoding of the table.
    kind: (u16, u16),
}

impl Program {
    fn new(glyphs: &'static str) -> Program {
        let table = (1..).zip(glyphs.chars()).map(|(glyph, c)| (c as u16, glyph)).collect();
        Program { glyphs, table, kind: (3, 1) }
    }

    fn bytes(&self) -> Vec<u8> {
        let words = |words: &[u16]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
        // A triangle: one contour, its box, its last point, no instructions, three points.
        let mut triangle = words(&[1, 0, 0, 500, 500, 2, 0]);
        triangle.extend([1; 3]);
        triangle.extend(words(&[0, 500, 0, 0, 0, 500]));
        triangle.push(0);
        let (mut shapes, mut places) = (triangle.clone(), vec![0, triangle.len() as u16 / 2]);
        for c in self.glyphs.chars() {
            if !c.is_whitespace() {
                shapes.extend(&triangle);
            }
            places.push(shapes.len() as u16 / 2);
        }
        let count = self.glyphs.chars().count() as u16 + 1;
        let mut head = vec![0; 54];
        head[18..20].copy_from_slice(&1000_u16.to_be_bytes());
        let mut hhea = vec![0; 36];
        hhea[34..].copy_from_slice(&count.to_be_bytes());
        let mut maxp = vec![0; 32];
        (maxp[1], maxp[4], maxp[5]) = (1, (count >> 8) as u8, count as u8);
        // Segments of one character.
        let mut table = self.table.clone();
        table.sort_unstable();
        table.push((0xffff, 0xffff));
        let segments = table.len() as u16;
        let (platform, encoding) = self.kind;
        let mut cmap =
            words(&[0, 1, platform, encoding, 0, 12, 4, 16 + 8 * segments, 0, 2 * segments, 0, 0, 0]);
        cmap.extend(words(&table.iter().map(|(c, _)| *c).collect::<Vec<_>>()));
        cmap.extend([0, 0]);
        cmap.extend(words(&table.iter().map(|(c, _)| *c).collect::<Vec<_>>()));
        cmap.extend(words(&table.iter().map(|(c, glyph)| glyph.wrapping_sub(*c)).collect::<Vec<_>>()));
        cmap.extend(words(&vec![0; table.len()]));
        let tables = [
            (b"cmap", cmap),
            (b"glyf", shapes),
            (b"head", head),
            (b"hhea", hhea),
            (b"hmtx", words(&[500, 0].repeat(usize::from(count)))),
            (b"loca", words(&places)),
            (b"maxp", maxp),
        ];
        let mut program = words(&[0, 1 << 8, tables.len() as u16, 0, 0, 0]);
        program[..4].copy_from_slice(&[0, 1, 0, 0]);
        let mut at = 12 + 16 * tables.len();
        for (name, table) in &tables {
            program.extend(*name);
            program.extend([0; 4]);
            program.extend([at, table.len()].iter().flat_map(|number| (*number as u32).to_be_bytes()));
            at += table.len().next_multiple_of(4);
        }
        for (_, table) in &tables {
            program.extend(table);
            program.resize(program.len().next_multiple_of(4), 0);
        }
        program
    }

    /// The objects 6 and 7: the description of the font and the program.
    fn objects(&self) -> Vec<String> {
        vec![
            "<< /Type /FontDescriptor /FontName /Made /Flags 4 /FontFile2 7 0 R >>".to_owned(),
            hex(&self.bytes()),
        ]
    }
}

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    stream("/Filter /ASCIIHexDecode", &(digits + ">"))
}

/// A font with codes of two bytes, with this encoding and more in its own dictionary and in that of its glyphs.
fn two_byte(encoding: &str, more: &str, of_glyphs: &str) -> String {
    format!(
        "<< /Type /Font /Subtype /Type0 /BaseFont /Made /Encoding /{encoding} {more} /DescendantFonts [<< /Type /Font /Subtype \
         /CIDFontType2 /BaseFont /Made /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> /DW 500 \
         /FontDescriptor 6 0 R {of_glyphs} >>] >>"
    )
}

fn show(codes: &[u16]) -> String {
    let codes: String = codes.iter().map(|code| format!("{code:04x}")).collect();
    format!("BT /F 10 Tf 72 700 Td <{codes}> Tj ET")
}

/// The codes are numbers of glyphs.
#[test]
fn glyphs_are_read_by_the_table_of_their_program() {
    let font = two_byte("Identity-H", "", "/CIDToGIDMap /Identity");
    let program = Program::new(" Rent90,\u{416}\u{4e00}");
    let content = show(&[2, 3, 4, 5, 1, 6, 7, 8, 7, 1, 9, 10]);
    let document = read(&content, &font, &program.objects()).expect("a page");
    assert_eq!(document.notes, [Note::CharactersOfPrograms { characters: 10 }]);
    assert_known(Ok(document), "Rent 90,0 \u{416}\u{4e00}", 0);
    assert_known(
        read(&content, &two_byte("Identity-H", "", ""), &program.objects()),
        "Rent 90,0 \u{416}\u{4e00}",
        0,
    );
    // A file that cannot be changed, because it is encrypted.
    let encrypted = CATALOGUE.replace(" >>", " /Note /Encrypt >>");
    assert_known(read_with(&encrypted, &content, &font, &program.objects()), "Rent 90,0 \u{416}\u{4e00}", 0);
    // Text that runs down.
    let vertical = two_byte("Identity-V", "", "/CIDToGIDMap /Identity");
    assert_known(read(&show(&[10, 9, 10]), &vertical, &program.objects()), "\u{4e00}\u{416}\u{4e00}", 0);
    // Tables that are not of Unicode, and fonts whose codes have one byte.
    for kind in [(3, 0), (1, 0), (0, 5)] {
        let other = Program { kind, ..Program::new(" Rent90,") };
        assert_eq!(known(read(&show(&[2, 3, 4, 5]), &font, &other.objects())), None, "{kind:?}");
    }
    let one_byte = "<< /Type /Font /Subtype /TrueType /BaseFont /Made /FontDescriptor 6 0 R >>";
    let codes = Program { table: vec![(1, 2), (0xd1, 3), (0xd2, 4)], ..Program::new("abc") };
    assert_eq!(known(read("BT /F 10 Tf 72 700 Td <d1d2> Tj ET", one_byte, &codes.objects())), None);
}

#[test]
fn fonts_that_only_annotations_have_are_read() {
    let page = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Annots [<< /Subtype /Stamp \
        /Rect [0 0 600 800] /AP << /N 8 0 R >> >>] >>";
    let pages = "<< /Type /Pages /Kids [3 0 R] /Count 1 >>";
    let font = two_byte("Identity-H", "", "/CIDToGIDMap /Identity");
    let mut objects = [CATALOGUE, pages, page, &stream("", ""), &font].map(str::to_owned).to_vec();
    objects.extend(Program::new(" Rent").objects());
    assert_eq!(objects.len(), 7);
    let form = "/Subtype /Form /BBox [0 0 600 800] /Resources << /Font << /F 5 0 R >> >>";
    objects.push(stream(form, &show(&[2, 3, 4, 5])));
    assert_known(read_bytes("made.pdf", &pdf(&objects), &Limits::default()), "Rent", 0);
}

/// The codes are characters, and a table says which glyphs they have.
#[test]
fn codes_that_are_characters_are_read() {
    let program = Program::new(" Saldo120");
    let mut glyphs = vec![0; 2 * 128];
    program.table.iter().for_each(|(c, glyph)| glyphs[2 * usize::from(*c) + 1] = *glyph as u8);
    let font = two_byte("Identity-H", "", "/CIDToGIDMap 8 0 R");
    let mut objects = program.objects();
    objects.push(hex(&glyphs));
    let codes: Vec<u16> = "Saldo 120".encode_utf16().collect();
    assert_known(read(&show(&codes), &font, &objects), "Saldo 120", 0);
    // The program does not say which characters its glyphs are.
    for other in [
        Program { kind: (1, 0), ..Program::new(" Saldo120") },
        Program { table: vec![], ..Program::new(" Saldo120") },
    ] {
        objects.splice(..2, other.objects());
        assert_eq!(known(read(&show(&codes), &font, &objects)), None);
    }
}

#[test]
fn gaps_in_the_table_of_a_font_are_filled_from_its_program() {
    let map = |entries: &str| {
        stream("", &format!("1 begincodespacerange <0000> <ffff> endcodespacerange {entries}"))
    };
    let font = two_byte("Identity-H", "/ToUnicode 8 0 R", "");
    for entries in [
        "",
        "1 beginbfchar <0002> <0052> endbfchar",
        "2 beginbfchar <0002> <fffd> <0003> <f065> endbfchar",
        "1 begincidrange <0000> <ffff> 0 endcidrange",
    ] {
        let mut objects = Program::new(" Rent").objects();
        objects.push(map(entries));
        assert_known(read(&show(&[2, 3, 4, 5]), &font, &objects), "Rent", 0);
    }
    // A space that the file gives a control character is nothing.
    let mut objects = Program { table: vec![], ..Program::new(" Rent") }.objects();
    objects.push(map("3 beginbfchar <0001> <0003> <0002> <0052> <0003> <0065> endbfchar"));
    assert_known(read(&show(&[2, 1, 3]), &font, &objects), "R e", 0);
    // What the file says counts.
    let mut objects = Program::new(" Rent").objects();
    objects.push(map("1 beginbfchar <0002> <0054> endbfchar"));
    assert_known(read(&show(&[2, 3, 4, 5]), &font, &objects), "Tent", 0);
}

/// The table of a font may be wrong: it says nothing against what the file gives in place of the glyphs.
#[test]
fn text_in_place_of_glyphs_counts_more_than_their_program() {
    let font = two_byte("Identity-H", "", "");
    let content = "BT /F 10 Tf 72 700 Td /Span << /ActualText (Rent) >> BDC <0002000300040005> Tj EMC ET";
    let document = read(content, &font, &Program::new(" 1234").objects()).expect("a page");
    assert_eq!((document.text.trim_end(), &document.notes[..]), ("Rent", &[][..]));
}

#[test]
fn what_the_program_of_a_font_cannot_say_is_counted() {
    let font = two_byte("Identity-H", "", "");
    let shown = |program: &Program, codes: &[u16]| known(read(&show(codes), &font, &program.objects()));
    let some = |text: &str, unknown: usize| Some((text.to_owned(), unknown));
    // A glyph without a character, and one that two letters have.
    let gap = Program { table: vec![(0x52, 2), (0x65, 3), (0x6e, 4)], ..Program::new(" Rent") };
    assert_eq!(shown(&gap, &[2, 3, 4, 5]), some("Ren\u{fffd}", 1));
    let alike = Program { table: vec![(0x52, 2), (0x65, 3), (0x435, 3), (0x6e, 4)], ..Program::new(" Ren") };
    assert_eq!(shown(&alike, &[2, 3, 4]), some("R\u{fffd}n", 1));
    // A space that is seen, and a letter that is not.
    let wrong = Program { table: vec![(0x20, 2), (0x65, 3), (0x6e, 4), (0x74, 1)], ..Program::new(" Ren") };
    assert_eq!(shown(&wrong, &[2, 3, 1, 4]), some("\u{fffd}e n", 1));
    // Numbers of glyphs in place of characters.
    let numbers = Program { table: (1..5).map(|glyph| (glyph, glyph)).collect(), ..Program::new(" Ren") };
    assert_eq!(shown(&numbers, &[2, 3, 4]), None);
    let glyphs = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz";
    let numbers = Program { table: (1..75).map(|glyph| (glyph, glyph)).collect(), ..Program::new(glyphs) };
    assert_eq!(shown(&numbers, &[65, 66, 67]), None);
    // The table of the whole font, where its glyphs are numbered anew.
    let whole =
        Program { table: (0x41..0x5b).map(|c| (c, c - 0x1d)).collect(), ..Program::new(&glyphs[..40]) };
    assert_eq!(shown(&whole, &[36, 37, 38]), None);
    // A font that is not in the file, and one whose table is damaged.
    let none = ["<< /Type /FontDescriptor >>".to_owned()];
    assert_eq!(known(read(&show(&[36, 37, 38]), &font, &none)), None);
    let mut damaged = Program::new(" Rent").bytes();
    let table = damaged.windows(4).rposition(|bytes| bytes == [0, 0, 0, 12]).expect("where the table is");
    damaged[table..table + 4].fill(0xff);
    let damaged = [Program::new("").objects()[0].clone(), hex(&damaged)];
    assert_eq!(known(read(&show(&[2, 3, 4, 5]), &font, &damaged)), None);
}

/// A font with this encoding whose glyphs are those of a collection, with more in its own dictionary and in that of its glyphs.
fn of_collection(encoding: &str, ordering: &str, more: &str, of_glyphs: &str) -> String {
    let font = two_byte(encoding, more, of_glyphs);
    font.replace("(Identity)", &format!("({ordering})")).replace("/DW 500", "/DW 1000")
}

/// The objects 6 and 7: the description of a font and a PostScript program whose glyphs have the numbers of a collection, or
/// names.
fn postscript_program(ordering: Option<&str>) -> Vec<String> {
    let list = |entries: &[&[u8]]| {
        let mut list = vec![0, entries.len() as u8];
        let ends = entries.iter().scan(1, |end, entry| {
            *end += entry.len() as u8;
            Some(*end)
        });
        if !entries.is_empty() {
            list.extend([1, 1].into_iter().chain(ends));
        }
        list.extend(entries.concat());
        list
    };
    // Its glyphs, and its fonts for numbered ones, are the list behind its head. Zeros at its end say which glyph is of which
    // font.
    let glyphs = [143, 17];
    let numbered = |zeros: usize| {
        let place = 139 + zeros as u8;
        [&[248, 27, 248, 28, 139, 12, 30][..], &glyphs, &[143, 12, 36, place, 12, 37]].concat()
    };
    let names = ordering.map_or(Vec::new(), |ordering| vec![b"Adobe".as_slice(), ordering.as_bytes()]);
    let parts = |places: &[u8]| {
        [&[1, 0, 4, 1][..], &list(&[&[139, 139, 18, 14]]), &list(&[places]), &list(&names)].concat()
    };
    let places = if ordering.is_some() { numbered(parts(&numbered(0)).len() + 2) } else { glyphs.to_vec() };
    let program = [&parts(&places)[..], &[0; 8]].concat();
    vec![
        "<< /Type /FontDescriptor /FontName /Made /Flags 4 /FontFile3 7 0 R >>".to_owned(),
        hex(&program).replacen("<<", "<< /Subtype /CIDFontType0C", 1),
    ]
}

const NO_PROGRAM: &str = "<< /Type /FontDescriptor /FontName /Made /Flags 4 >>";

#[test]
fn characters_of_a_collection_are_read() {
    for (ordering, codes, text) in [
        ("Japan1", &[3284, 1200, 843, 34][..], "\u{65e5}\u{4e00}\u{3042}A"),
        ("GB1", &[4559, 34], "\u{4e2d}A"),
        ("CNS1", &[595, 34], "\u{4e00}A"),
        ("Korea1", &[1086, 34], "\u{ac00}A"),
    ] {
        let shown = |encoding: &str, of_glyphs: &str, objects: &[String]| {
            read(&show(codes), &of_collection(encoding, ordering, "", of_glyphs), objects)
        };
        let numbered = postscript_program(Some(ordering));
        assert_known(shown("Identity-H", "", &numbered), text, 0);
        assert_known(shown("Identity-H", "", &[NO_PROGRAM.to_owned()]), text, 0);
        // The numbers of glyphs are those of another collection.
        for other in ["Identity", "Japan2"] {
            assert_eq!(known(shown("Identity-H", "", &postscript_program(Some(other)))), None, "{other}");
        }
        // A program that has characters itself is asked for them, also where a table says which glyphs have which numbers.
        let mut mapped = Program::new("abc").objects();
        mapped.push(hex(&[0, 0, 0, 3, 0, 2, 0, 1]));
        let font = of_collection("Identity-H", ordering, "", "/CIDToGIDMap 8 0 R");
        assert_known(read(&show(&[1, 2, 3]), &font, &mapped), "cba", 0);
        // The numbers of its glyphs are others, as are those of glyphs with names.
        let other = Program::new("abc").objects();
        let others = read(&show(&[1, 2, 3]), &of_collection("Identity-H", ordering, "", ""), &other);
        assert_known(others, "abc", 0);
        assert!(shown("Identity-H", "", &postscript_program(None)).is_err());
        assert_eq!(known(shown("Own-H", "", &numbered)), None);
    }
    // Other collections, and what the file says.
    let numbered = postscript_program(Some("Japan1"));
    let shown = |ordering: &str, more: &str, objects: &[String]| {
        read(&show(&[34, 35]), &of_collection("Identity-H", ordering, more, ""), objects)
    };
    assert!(shown("Identity", "", &numbered).is_err());
    assert!(shown("Japan2", "", &numbered).is_err());
    let map = stream("", "2 beginbfchar <0022> <0052> <0023> <0065> endbfchar");
    assert_known(shown("Japan1", "/ToUnicode 8 0 R", &[&numbered[..], &[map]].concat()), "Re", 0);
    assert_known(shown("Japan1", "/ToUnicode /Identity-H", &numbered), "AB", 0);
    // Text that runs down.
    let vertical = of_collection("Identity-V", "Japan1", "", "");
    assert_known(read(&show(&[843, 844]), &vertical, &numbered), "\u{3042}\u{3043}", 0);
}

/// The names of encodings say which characters codes are, whatever the numbers of glyphs in a program.
#[test]
fn encodings_of_collections_are_read() {
    let shown = |encoding: &str, ordering: &str, codes: &str, objects: &[String]| {
        let content = format!("BT /F 10 Tf 72 700 Td <{codes}> Tj ET");
        read(&content, &of_collection(encoding, ordering, "", ""), objects)
    };
    let objects =
        [vec![NO_PROGRAM.to_owned()], postscript_program(Some("Japan1")), Program::new("abc").objects()];
    for (encoding, ordering, codes, text) in [
        ("90ms-RKSJ-H", "Japan1", "93fa967b41", "\u{65e5}\u{672c}A"),
        ("H", "Japan1", "467c4b5c", "\u{65e5}\u{672c}"),
        ("EUC-H", "Japan1", "c6fccbdc41", "\u{65e5}\u{672c}A"),
        ("UniJIS-UTF16-H", "Japan1", "65e5d842dfb70041", "\u{65e5}\u{20bb7}A"),
        // Characters that the collection does not have, and tables that are not known.
        ("UniJIS-UCS2-H", "Japan1", "00414e6a0042", "A\u{4e6a}B"),
        ("UniJIS-UTF16-H", "Japan1", "0041d83dde000042", "A\u{1f600}B"),
        ("UniJIS2004-UTF16-H", "Japan1", "65e50041", "\u{65e5}A"),
        // Codes for private use that the collection has.
        ("UniCNS-UTF16-H", "CNS1", "0041e0010042", "A\u{92db}B"),
        ("UniCNS-UTF16-V", "CNS1", "e0014e00", "\u{92db}\u{4e00}"),
        ("GBK-EUC-H", "GB1", "d6d0cec441", "\u{4e2d}\u{6587}A"),
        ("UniGB-UCS2-H", "GB1", "4e2d65870041", "\u{4e2d}\u{6587}A"),
        ("ETen-B5-H", "CNS1", "a4a4a4e541", "\u{4e2d}\u{6587}A"),
        ("KSCms-UHC-H", "Korea1", "c7d1b1db41", "\u{d55c}\u{ae00}A"),
        ("UniKS-UTF16-V", "Korea1", "d55cae00", "\u{d55c}\u{ae00}"),
    ] {
        for objects in &objects {
            assert_known(shown(encoding, ordering, codes, objects), text, 0);
        }
    }
    // Glyphs of which a table says that they are certain ones of a character.
    assert_known(shown("90ms-RKSJ-H", "Japan1", "88ef8fe9", &objects[0]), "\u{8328}\u{57ce}", 0);
}

/// What is behind a code that its encoding does not have is read from the right place.
#[test]
fn unknown_codes_of_collections_are_counted() {
    let shown = |encoding: &str, ordering: &str, codes: &str, objects: &[String]| {
        let content = format!("BT /F 10 Tf 72 700 Td <{codes}> Tj ET");
        read(&content, &of_collection(encoding, ordering, "", ""), objects)
    };
    for objects in [vec![NO_PROGRAM.to_owned()], postscript_program(Some("Japan1"))] {
        for (encoding, codes, text, unknown) in [
            ("UniJIS-UCS2-H", "00410042e00000430044", "AB\u{fffd}CD", 1),
            ("90ms-RKSJ-H", "414243f0404445", "ABC\u{fffd}DE", 1),
            // Characters of Unicode that have two codes, which this encoding does not have.
            ("UniJIS-UCS2-H", "5409d842dfb75bb6", "\u{5409}\u{fffd}\u{fffd}\u{5bb6}", 2),
            ("H", "467c00414b5c", "\u{65e5}\u{fffd}\u{672c}", 1),
            ("Identity-H", "002200237fff75300024", "AB\u{fffd}\u{fffd}C", 2),
        ] {
            assert_known(shown(encoding, "Japan1", codes, &objects), text, unknown);
        }
    }
    // Text in an encoding that is not known is not left out.
    for encoding in ["78-RKSJ-H", "UniJIS-UTF32-H", "Own-V"] {
        assert_eq!(
            known(shown(encoding, "Japan1", "3021302230233024", &[NO_PROGRAM.to_owned()])),
            None,
            "{encoding}"
        );
    }
    // Nor are glyphs of a font that is not in the file.
    let glyphs = of_collection("Identity-H", "Identity", "", "");
    assert_eq!(known(read(&show(&[0x7530, 0x7531]), &glyphs, &[NO_PROGRAM.to_owned()])), None);
}

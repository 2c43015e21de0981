//! What of a PDF is not read, and the notes and errors that say so: pictures, attachments, forms that only one program shows.

use documents::{Document, DocumentError, Limits, Note, Problem, read_bytes};

use crate::common::{FONT, at, packed, pdf, stream};

/// A picture of so many pixels.
fn picture(width: usize, height: usize) -> String {
    let size = format!("/Width {width} /Height {height} /BitsPerComponent 8 /ColorSpace /DeviceGray");
    stream(&format!("/Type /XObject /Subtype /Image {size}"), "x")
}

/// A document of pages with these contents, and a catalogue with these entries. Pictures `/A` to `/D` are on all pages; `/S`
/// has a pixel, and `/M` is painted in a colour. Object 20 and those after it are `more`.
struct Made {
    catalogue: &'static str,
    page: &'static str,
    /// More drawings and properties that all pages have, by their names.
    x_objects: &'static str,
    properties: &'static str,
    pages: Vec<String>,
    more: Vec<String>,
}

impl Made {
    fn new<T: Into<String>>(pages: impl IntoIterator<Item = T>) -> Made {
        let pages = pages.into_iter().map(Into::into).collect();
        Made { catalogue: "", page: "", x_objects: "", properties: "", pages, more: Vec::new() }
    }

    fn read(&self) -> Result<Document, DocumentError> {
        read_bytes("made.pdf", &pdf(&self.objects()), &Limits::default())
    }

    /// Its objects. The first one is the catalogue.
    fn objects(&self) -> Vec<String> {
        let first = 20 + self.more.len();
        let kids: Vec<String> = (0..self.pages.len()).map(|i| format!("{} 0 R", first + 2 * i)).collect();
        let mut objects = vec![
            format!("<< /Type /Catalog /Pages 2 0 R {} >>", self.catalogue),
            format!("<< /Type /Pages /Kids [{}] /Count {} >>", kids.join(" "), kids.len()),
            FONT.to_owned(),
        ];
        objects.extend((4..8).map(|_| picture(600, 800)));
        objects.push(picture(1, 1));
        objects.push(picture(600, 800).replace("/ColorSpace /DeviceGray", "/ImageMask true"));
        objects.resize(19, "null".to_owned());
        objects.extend(self.more.iter().cloned());
        for (i, content) in self.pages.iter().enumerate() {
            objects.push(format!(
                "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {} 0 R /Resources << /Font << /F 3 0 R >> \
                 /XObject << /A 4 0 R /B 5 0 R /C 6 0 R /D 7 0 R /S 8 0 R /M 9 0 R {} >> /Properties << {} >> >> {} >>",
                first + 2 * i + 1,
                self.x_objects,
                self.properties,
                self.page
            ));
            objects.push(stream("", content));
        }
        objects
    }

    #[track_caller]
    fn notes(&self) -> Vec<Note> {
        self.read().expect("a document").notes
    }
}

/// A picture at a place, of this size.
fn drawn(name: &str, [x, y, width, height]: [f64; 4]) -> String {
    format!("q {width} 0 0 {height} {x} {y} cm /{name} Do Q\n")
}

const PAGE: [f64; 4] = [0.0, 0.0, 600.0, 800.0];

/// Lines of text, from this height downwards.
fn lines(top: f64, count: usize) -> String {
    let line =
        |i| (72.0, top - 14.0 * i as f64, "The keeper of the bridge has a lamp that burns all night long.");
    at(&(0..count).map(line).collect::<Vec<_>>())
}

#[test]
fn scans_with_a_stamp_are_counted() {
    let stamp = at(&[(480.0, 20.0, "ABC-000123")]);
    let scan = |name: &str| format!("{}{stamp}", drawn(name, PAGE));
    let pages = |pages| vec![Note::PicturePages { pages }];
    let text = lines(700.0, 40);
    assert_eq!(Made::new([scan("A"), text.clone(), scan("B")]).notes(), pages(2));
    // Painted in a colour, in strips, with a margin, with what a court prints on it.
    assert_eq!(Made::new([scan("M"), scan("M")]).notes(), pages(2));
    let strips: String = (0..100).map(|i| drawn("M", [0.0, 8.0 * f64::from(i), 600.0, 8.0])).collect();
    assert_eq!(Made::new([strips + &stamp]).notes(), pages(1));
    let header = at(&[(72.0, 780.0, "Case 1:20-cv-01234-ABC Document 56-1 Filed 01/02/21 Page 3 of 45")]);
    assert_eq!(Made::new([drawn("A", [60.0, 80.0, 480.0, 640.0]) + &header]).notes(), pages(1));
    // A page without a letter has its own note.
    let notes = Made::new([scan("A"), drawn("B", PAGE)]).notes();
    assert_eq!(notes, [Note::PagesWithoutText { pages: 1 }, Note::PicturePages { pages: 1 }]);
}

#[test]
fn pictures_with_text_and_backgrounds_are_not_counted() {
    let stamp = at(&[(480.0, 20.0, "ABC-000123")]);
    let text = lines(700.0, 6);
    for page in [
        // What an OCR program found; a slide with a picture behind its text.
        format!("{} 3 Tr {text} {stamp}", drawn("A", PAGE)),
        format!("{}{text}", drawn("A", PAGE)),
        // A colour, and a line.
        format!("{}{stamp}", drawn("S", PAGE)),
        format!("{}{text}", drawn("A", [0.0, 720.0, 600.0, 8.0])),
        // What is clipped away.
        format!("q 0 0 20 20 re W n {} Q {stamp}", drawn("A", PAGE)),
        // A sign.
        format!("{}{text}", drawn("A", [20.0, 720.0, 80.0, 60.0])),
    ] {
        assert_eq!(Made::new([page.clone()]).notes(), [], "{page}");
    }
    // The background of slides counts once.
    let slide = |title: &str| format!("{}{}", drawn("A", PAGE), at(&[(72.0, 500.0, title)]));
    assert_eq!(Made::new(["One", "Two", "Three"].map(slide)).notes(), [Note::PicturePages { pages: 1 }]);
}

#[test]
fn pictures_among_text_are_counted() {
    let table = drawn("A", [72.0, 100.0, 450.0, 200.0]);
    let paragraph = drawn("B", [72.0, 350.0, 450.0, 60.0]);
    let made = Made::new([
        format!("{}{table}", lines(700.0, 20)),
        format!("{}{paragraph}{table}", lines(700.0, 20)),
    ]);
    assert_eq!(made.notes(), [Note::Pictures { pictures: 2 }]);
    // Most of a page with half a page of text; the strips of a picture are one.
    let half = drawn("A", [0.0, 0.0, 600.0, 450.0]);
    assert_eq!(Made::new([lines(780.0, 20) + &half]).notes(), [Note::Pictures { pictures: 1 }]);
    let strips: String =
        (0..20).map(|i| drawn("M", [72.0, 100.0 + 10.0 * f64::from(i), 450.0, 10.0])).collect();
    assert_eq!(Made::new([lines(780.0, 20) + &strips]).notes(), [Note::Pictures { pictures: 1 }]);
    let apart = drawn("A", [20.0, 20.0, 200.0, 200.0]) + &drawn("B", [320.0, 20.0, 200.0, 200.0]);
    assert_eq!(Made::new([lines(780.0, 20) + &apart]).notes(), [Note::Pictures { pictures: 2 }]);
}

/// Letters as shapes, in these lines from this height downwards. Each line is a path.
fn shapes(top: usize, lines: usize) -> String {
    let shape =
        |x: usize, y: usize| format!("{x} {y} m {} {y} {} {} {x} {} c h ", x + 5, x + 5, y + 7, y + 7);
    let line = |i| (0..70).map(|column| shape(72 + 6 * column, top - 14 * i)).collect::<String>() + "f\n";
    (0..lines).map(line).collect()
}

#[test]
fn letters_that_are_drawn_as_shapes_are_pictures() {
    let stamp = at(&[(480.0, 20.0, "ABC-000123")]);
    assert_eq!(Made::new([shapes(760, 50) + &stamp]).notes(), [Note::PicturePages { pages: 1 }]);
    assert_eq!(Made::new([shapes(760, 20) + &lines(400.0, 20)]).notes(), [Note::Pictures { pictures: 1 }]);
    // A heading; bullets; letters that are text as well.
    assert_eq!(Made::new([shapes(760, 1) + &lines(700.0, 20)]).notes(), []);
    let bullets: String = (0..20)
        .map(|i| shapes(700 - 14 * i, 1).split_inclusive("h ").next().unwrap().to_owned() + "f\n")
        .collect();
    assert_eq!(Made::new([bullets + &lines(700.0, 20)]).notes(), []);
    assert_eq!(Made::new([shapes(700, 40) + "3 Tr " + &lines(700.0, 40)]).notes(), []);
}

#[test]
fn attachments_are_named() {
    let file = "<< /Type /EmbeddedFile /Length 1 >>\nstream\nx\nendstream";
    let mut made = Made::new(
        ["For the best experience, open this portfolio in Acrobat."].map(|text| at(&[(72.0, 700.0, text)])),
    );
    made.catalogue = "/Collection << /View /D >> /Names << /EmbeddedFiles << /Kids [<< /Names [(1) 20 0 R (2) 21 0 R] >> << /Names \
        [(3) << /F (outside.txt) >>] >>] >> >> /AF [20 0 R]";
    made.page = "/Annots [<< /Subtype /FileAttachment /Rect [0 0 9 9] /FS << /F (note.txt) /EF << /F 24 0 R >> >> >> << /Subtype \
        /FileAttachment /Rect [0 0 9 9] /FS 21 0 R >>]";
    made.more = vec![
        "<< /F (a.docx) /UF (\\344.docx) /EF << /F 22 0 R >> >>".into(),
        "<< /F (b.xlsx) /EF << /UF 23 0 R >> >>".into(),
        file.into(),
        file.into(),
        file.into(),
    ];
    let names = ["ä.docx", "b.xlsx", "note.txt"].map(str::to_owned).to_vec();
    let notes = [Note::SkippedFiles { count: 3, names }];
    assert_eq!(made.notes(), notes);
    // Lists that contain themselves.
    made.catalogue = "/Names << /EmbeddedFiles 25 0 R >>";
    made.more.push("<< /Names [(1) 20 0 R] /Kids [25 0 R 25 0 R] >>".into());
    assert_eq!(made.notes().len(), 1);
    // Without text, it is said why.
    made.pages = vec![String::new()];
    let problem = made.read().expect_err("no text").problem;
    assert!(
        matches!(&problem, Problem::NothingRead { left_out } if left_out.contains("b.xlsx")),
        "{problem}"
    );
}

#[test]
fn a_form_that_only_one_program_shows_is_an_error() {
    let wait = at(&[(72.0, 700.0, "Please wait... If this message is not replaced, get Adobe Reader.")]);
    let mut made = Made::new([wait.clone()]);
    for catalogue in [
        "/NeedsRendering true /AcroForm << /XFA [(template) 20 0 R] /Fields [21 0 R] >>",
        "/AcroForm << /XFA 20 0 R /Fields [] >>",
    ] {
        made.catalogue = catalogue;
        let error = made.read().expect_err("a form");
        assert!(matches!(error.problem, Problem::DynamicForm), "{error}");
        assert!(error.hint().contains("print it"), "{}", error.hint());
    }
    // Text of its own is read.
    made.pages = vec![at(&[(72.0, 700.0, "The rent is 900.")])];
    assert_eq!(made.notes(), [Note::DynamicForms { forms: 1 }]);
    made.pages = vec![wait.clone(), lines(700.0, 40)];
    assert_eq!(made.notes(), [Note::DynamicForms { forms: 1 }]);
    // Fields that are on the pages, too.
    made.pages = vec![wait];
    made.catalogue = "/AcroForm << /XFA 20 0 R /Fields [21 0 R] >>";
    made.more = vec!["null".into(), "<< /T (name) >>".into()];
    assert_eq!(made.notes(), []);
}

#[test]
fn what_stands_behind_a_missing_page_is_read() {
    let page = |content: &str| {
        format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {content} /Resources << /Font << /F 3 0 R >> >> >>"
        )
    };
    let text = |text: &str| stream("", &at(&[(72.0, 700.0, text)]));
    let read = |kids: &str, first: &str| {
        let objects = vec![
            "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
            format!("<< /Type /Pages /Kids [{kids}] /Count 4 >>"),
            FONT.to_owned(),
            page(first),
            page("8 0 R"),
            "<< /Type /Pages /Parent 2 0 R /Kids [null 98 0 R 5 0 R] /Count 2 >>".to_owned(),
            text("first"),
            text("second"),
            stream("/Filter /FlateDecode", &"not packed ".repeat(9)),
        ];
        read_bytes("made.pdf", &pdf(&objects), &Limits::default()).expect("a document")
    };
    let damaged = |pages| vec![Note::DamagedPages { pages }];
    let document = read("99 0 R 4 0 R 98 0 R 6 0 R", "7 0 R");
    assert_eq!((document.text.contains("first"), document.text.contains("second")), (true, true));
    assert_eq!((document.pages, document.notes), (Some(2), damaged(4)));
    // Parts of the content of a page.
    for first in ["[98 0 R 7 0 R]", "[null 7 0 R]", "[9 0 R 7 0 R]"] {
        let document = read("4 0 R", first);
        assert_eq!((document.text.as_str(), document.notes), ("first\n", damaged(1)), "{first}");
    }
    assert_eq!(read("4 0 R 5 0 R", "[]").notes, [Note::PagesWithoutText { pages: 1 }]);
}

/// Headings with a gradient are shapes through which something is painted.
#[test]
fn text_that_is_a_shape_is_read() {
    let seen = at(&[(72.0, 700.0, "seen")]);
    let shape = "q BT /F 20 Tf 7 Tr 72 600 Td (shape) Tj ET";
    for content in [
        format!("{seen} {shape} 0 0 1 rg 0 0 600 800 re f Q"),
        format!("{seen} {shape} {} Q", drawn("A", PAGE)),
        format!("{seen} {} 0.5 g 0 0 600 800 re f Q", shape.replace("7 Tr", "7 Tr%\n")),
    ] {
        assert_eq!(
            Made::new([content.clone()]).read().expect("a document").text,
            "seen\n\nshape\n",
            "{content}"
        );
    }
    // What only looks like the operator.
    let text = Made::new([at(&[(72.0, 700.0, "in 7 Tr of")])]).read().expect("a document").text;
    assert_eq!(text, "in 7 Tr of\n");
    let mut made = Made::new(["/E Do"]);
    made.page = "/Resources << /XObject << /E 20 0 R >> >>";
    let resources = "/Resources << /Font << /F 3 0 R >> >>";
    made.more = vec![stream(
        &format!("/Type /XObject /Subtype /Form /BBox [0 0 600 800] {resources}"),
        &format!("{shape} 0 0 600 800 re f Q"),
    )];
    assert_eq!(made.read().expect("a document").text, "shape\n");
}

#[test]
fn what_is_painted_through_a_shape_hides_no_text_beside_it() {
    let circle =
        "q 300 400 m 300 450 250 500 200 500 c 150 500 100 450 100 400 c W n 0 0 1 rg 0 0 600 800 re f Q";
    let made = Made::new([at(&[(101.0, 498.0, "corner")]) + circle]);
    let document = made.read().expect("a document");
    assert_eq!((document.text.as_str(), document.notes), ("corner\n", vec![]));
}

#[test]
fn characters_that_say_nothing_are_counted() {
    // The last three are an apostrophe, a bullet and three dots where Windows has them.
    let characters = ["0041", "0001", "0081", "0092", "0095", "00410085"];
    let map: String =
        characters.iter().zip(1..).map(|(character, code)| format!(" <{code:02x}> <{character}>")).collect();
    let mut made = Made::new(["BT /G 10 Tf 72 700 Td <01020103010401050106> Tj ET"]);
    made.page = "/Resources << /Font << /G 20 0 R >> >>";
    made.more = vec![
        "<< /Type /Font /Subtype /Type1 /BaseFont /Made /FirstChar 1 /LastChar 6 /Widths [500 500 500 500 500 500] /FontDescriptor << \
         /Type /FontDescriptor /FontName /Made /Flags 4 >> /ToUnicode 21 0 R >>"
            .into(),
        stream("", &format!("1 begincodespacerange <00> <ff> endcodespacerange 6 beginbfchar{map} endbfchar")),
    ];
    let document = made.read().expect("a document");
    assert_eq!(document.text, "A\u{fffd}A\u{fffd}A’A•AA…\n");
    assert_eq!(document.notes, [Note::UnknownGlyphs { glyphs: 2 }]);
}

/// The interpreter stops at these.
#[test]
fn text_behind_a_mistake_is_read() {
    let text = |y: f64, text: &str| at(&[(50.0, y, text)]);
    for mistake in [")", "}", "] >", "1 m", "(a) 2 l", "1 2 3 re", "1 2 3 4 5 6 7 8 9 10 11 sc", "[1 2"] {
        let content = text(700.0, "before") + mistake + "\n" + &text(600.0, "behind");
        let document = Made::new([content]).read().expect("a document");
        let is_noted = mistake == "[1 2";
        let notes = if is_noted { vec![Note::DamagedPages { pages: 1 }] } else { Vec::new() };
        assert_eq!((document.text.as_str(), document.notes), ("before\n\nbehind\n", notes), "{mistake}");
    }
    // Too many operands take no text with them, and in drawings it is the same.
    let many = text(700.0, "before").replace("(before)", "1 2 3 4 5 6 7 8 9 10 11 (before)");
    assert_eq!(Made::new([many]).read().expect("a document").text, "before\n");
    let mut drawing = Made::new(["/X Do "]);
    let font = "/Resources << /Font << /F 3 0 R >> >>";
    let form =
        |content: &str| stream(&format!("/Type /XObject /Subtype /Form /BBox [0 0 600 800] {font}"), content);
    drawing.more.push(form(&(text(700.0, "before") + ") " + &text(600.0, "behind"))));
    drawing.x_objects = "/X 20 0 R";
    let document = drawing.read().expect("a document");
    assert_eq!((document.text.as_str(), document.notes.len()), ("before\n\nbehind\n", 0));
    drawing.more[0] = form(&(text(700.0, "before") + "(a\n" + &text(600.0, "behind")));
    let document = drawing.read().expect("a document");
    assert_eq!(document.text, "before\n\nbehind\n");
    assert_eq!(document.notes, [Note::DamagedPages { pages: 1 }]);
}

/// A drawing with this content, which may draw others and has a font if it is said.
fn drawing(content: &str, resources: &str) -> String {
    let of_drawing = "/Type /XObject /Subtype /Form /BBox [0 0 600 800]";
    stream(&format!("{of_drawing} /Resources << {resources} >>"), content)
}

#[test]
fn damaged_drawings_are_counted_by_the_pages_that_draw_them() {
    let font = "/Font << /F 3 0 R >>";
    let damaged =
        |y: f64| drawing(&(at(&[(72.0, y, "before")]) + "(a\n" + &at(&[(72.0, y - 50.0, "behind")])), font);
    let mut made = Made::new(["/X Do /Y Do /X Do", &at(&[(72.0, 700.0, "plain")]), "/Z Do"]);
    made.x_objects = "/X 20 0 R /Y 21 0 R /Z 22 0 R /U 23 0 R";
    made.more = vec![
        damaged(700.0),
        damaged(600.0),
        // It has no font, but what it draws has one.
        drawing("q ) /X Do Q", "/XObject << /X 20 0 R >>"),
        // Nothing draws it.
        damaged(500.0),
    ];
    let document = made.read().expect("a document");
    assert_eq!(document.notes, [Note::DamagedPages { pages: 2 }]);
    assert_eq!(document.text.matches("behind").count(), 3, "{}", document.text);
    let second = documents::Options {
        selection: Some(documents::Selection::parse("2").expect("a page")),
        ..documents::Options::default()
    };
    let document =
        documents::read_bytes_with("made.pdf", &pdf(&made.objects()), &second).expect("a document");
    assert!(!document.notes.iter().any(|note| matches!(note, Note::DamagedPages { .. })));
    // Drawings of annotations may have the same name as others.
    let appearance = |of: &str| drawing("/X Do", &format!("/XObject << /X {of} 0 R >>"));
    made.pages = vec![at(&[(72.0, 780.0, "plain")])];
    made.page = "/Annots [<< /Subtype /Stamp /Rect [0 0 600 800] /AP << /N 25 0 R >> >> << /Subtype /Stamp \
        /Rect [0 0 600 800] /AP << /N 26 0 R >> >>]";
    made.more.extend([drawing("", ""), appearance("20"), appearance("24")]);
    assert_eq!(made.notes(), [Note::DamagedPages { pages: 1 }]);
    // An encrypted file cannot be changed, so what is behind a mistake is lost.
    let mended = drawing(&(at(&[(72.0, 700.0, "before")]) + ") " + &at(&[(72.0, 600.0, "behind")])), font);
    made = Made { x_objects: "/X 20 0 R", more: vec![mended], ..Made::new(["/X Do"]) };
    assert_eq!(made.notes(), []);
    made.catalogue = "/Note /Encrypt";
    assert_eq!(made.notes(), [Note::DamagedPages { pages: 1 }]);
}

/// Viewers do not show layers that are off.
#[test]
fn layers_that_are_off_are_left_out_with_a_note() {
    let layer = |name: &str, y: f64, text: &str| format!("/OC /{name} BDC {} EMC ", at(&[(50.0, y, text)]));
    let content =
        layer("On", 700.0, "shown") + &layer("Off", 600.0, "not shown") + &layer("Any", 500.0, "too");
    let read = |properties: &'static str| {
        let mut made = Made::new([content.as_str()]);
        made.catalogue = properties;
        made.more.extend(["<< /Type /OCG /Name (a) >>", "<< /Type /OCG /Name (b) >>"].map(str::to_owned));
        made.more.push("<< /Type /OCMD /OCGs [20 0 R 21 0 R] /P /AnyOn >>".to_owned());
        made.properties = "/On 20 0 R /Off 21 0 R /Any 22 0 R";
        made.read()
    };
    let all = "shown\n\nnot shown\n\ntoo\n";
    let hidden = vec![Note::HiddenCharacters { characters: 8 }];
    for (properties, text, notes) in [
        ("", all, Vec::new()),
        ("/OCProperties << /OCGs [20 0 R 21 0 R] /D << /OFF [] >> >>", all, Vec::new()),
        (
            "/OCProperties << /OCGs [20 0 R 21 0 R] /D << /OFF [21 0 R] >> >>",
            "shown\n\ntoo\n",
            hidden.clone(),
        ),
        (
            "/OCProperties << /OCGs [20 0 R 21 0 R] /D << /BaseState /OFF /ON [20 0 R] >> >>",
            "shown\n\ntoo\n",
            hidden,
        ),
    ] {
        let document = read(properties).expect("a document");
        assert_eq!((document.text.as_str(), document.notes), (text, notes), "{properties}");
    }
    // Nothing else is in the document.
    let none = read("/OCProperties << /OCGs [20 0 R 21 0 R] /D << /OFF [20 0 R 21 0 R] >> >>");
    let error = none.expect_err("nothing").to_string();
    assert!(error.contains("16 hidden characters left out"), "{error}");
}

#[test]
fn layers_are_in_drawings_and_packed_catalogues_too() {
    let layer = |name: &str, y: f64, text: &str| format!("/OC /{name} BDC {} EMC ", at(&[(50.0, y, text)]));
    let off = "/OCProperties << /OCGs [20 0 R] /D << /OFF [20 0 R] >> >>";
    let hidden = vec![Note::HiddenCharacters { characters: 8 }];
    let mut made = Made::new([layer("Off", 600.0, "not shown") + &layer("Not", 500.0, "instead")]);
    made.properties = "/Off 20 0 R /Not 21 0 R";
    made.more = vec![
        "<< /Type /OCG /Name (a) >>".to_owned(),
        // What is shown because the layer is off.
        "<< /Type /OCMD /OCGs 20 0 R /P /AllOff >>".to_owned(),
        drawing(&at(&[(50.0, 600.0, "not shown")]), "/Font << /F 3 0 R >>")
            .replace("/BBox", "/OC 20 0 R /BBox"),
    ];
    made.catalogue = off;
    let document = made.read().expect("a document");
    assert_eq!((document.text.as_str(), &document.notes), ("instead\n", &hidden));
    // A catalogue in a packed object, also where an older one is not packed.
    for older in ["null", "<< /Type /Catalog /Pages 2 0 R /OCProperties << >> >>"] {
        let mut objects = made.objects();
        objects[9] = older.to_owned();
        let document = read_bytes("made.pdf", &packed(&objects), &Limits::default()).expect("a document");
        assert_eq!((document.text.as_str(), &document.notes), ("instead\n", &hidden), "{older}");
    }
    made.x_objects = "/X 22 0 R";
    made.pages = vec!["/X Do ".to_owned() + &at(&[(50.0, 500.0, "instead")])];
    made.properties = "";
    let document = made.read().expect("a document");
    assert_eq!((document.text.as_str(), &document.notes), ("instead\n", &hidden));
}

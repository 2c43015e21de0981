//! PDFs that tests make from text.

/// The first object of every PDF here; the second is the list of pages.
pub const CATALOGUE: &str = "<< /Type /Catalog /Pages 2 0 R >>";

/// A font whose file is not in the PDF.
pub const FONT: &str = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>";

/// A PDF of these objects, numbered from 1 on, without a table of where they are. Object 1 is the catalogue.
pub fn pdf<T: AsRef<str>>(objects: &[T]) -> Vec<u8> {
    let mut pdf = b"%PDF-1.7\n".to_vec();
    for (i, object) in objects.iter().enumerate() {
        pdf.extend(format!("{} 0 obj\n{}\nendobj\n", i + 1, object.as_ref()).bytes());
    }
    pdf.extend(b"trailer\n<< /Root 1 0 R /Size 99 >>\n%%EOF\n");
    pdf
}

/// A PDF of these objects, the first of which is packed, with a table of where they are.
pub fn packed<T: AsRef<str>>(objects: &[T]) -> Vec<u8> {
    let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>() + ">";
    let (mut file, mut table) = (b"%PDF-1.7\n".to_vec(), String::new());
    let (pack, end) = (objects.len() + 1, objects.len() + 2);
    let place = |kind: u8, place: usize| format!("{kind:02x}{place:08x}00");
    table += &(place(0, 0) + &place(2, pack));
    let packed = stream(
        "/Type /ObjStm /N 1 /First 4 /Filter /ASCIIHexDecode",
        &hex(&format!("1 0 {}", objects[0].as_ref())),
    );
    let plain = objects.iter().skip(1).map(AsRef::as_ref).chain([packed.as_str()]);
    for (number, object) in (2..).zip(plain) {
        table += &place(1, file.len());
        file.extend(format!("{number} 0 obj\n{object}\nendobj\n").bytes());
    }
    let start = file.len();
    table += &(place(1, start) + ">");
    let of_table = format!("/Type /XRef /Size {} /W [1 4 1] /Root 1 0 R /Filter /ASCIIHexDecode", end + 1);
    file.extend(format!("{end} 0 obj\n{}\nendobj\n", stream(&of_table, &table)).bytes());
    file.extend(format!("startxref\n{start}\n%%EOF\n").bytes());
    file
}

pub fn stream(dictionary: &str, content: &str) -> String {
    format!("<< {dictionary} /Length {} >>\nstream\n{content}\nendstream", content.len())
}

/// A PDF of pages with these contents. Font `/F` is Helvetica.
pub fn pages<T: AsRef<str>>(contents: &[T]) -> Vec<u8> {
    let numbers: Vec<String> = (0..contents.len()).map(|i| format!("{} 0 R", 4 + 2 * i)).collect();
    let mut objects = vec![
        CATALOGUE.to_owned(),
        format!("<< /Type /Pages /Kids [{}] /Count {} >>", numbers.join(" "), contents.len()),
        FONT.to_owned(),
    ];
    for (i, content) in contents.iter().enumerate() {
        objects.push(format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {} 0 R /Resources << /Font << /F 3 0 R >> >> >>",
            5 + 2 * i
        ));
        objects.push(stream("", content.as_ref()));
    }
    pdf(&objects)
}

/// Texts in Helvetica of size 10, each at its place.
pub fn at(texts: &[(f64, f64, &str)]) -> String {
    texts.iter().map(|(x, y, text)| format!("BT /F 10 Tf {x} {y} Td ({text}) Tj ET\n")).collect()
}

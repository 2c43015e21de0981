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

pub fn stream(dictionary: &str, content: &str) -> String {
    format!("<< {dictionary} /Length {} >>\nstream\n{content}\nendstream", content.len())
}

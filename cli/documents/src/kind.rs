//! What a file is: from its content first, from its name where both could be text.

use std::path::Path;

use crate::office::encrypted;
use crate::plain::decode;
use crate::web::tnef;
use crate::{Kind, Problem};

/// Beginnings of files that are not text, with what they are. The first number is where they stand.
const SIGNATURES: &[(usize, &[u8], &str)] = &[
    (0, b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (0, b"\xff\xd8\xff", "a JPEG image"),
    (0, b"GIF8", "a GIF image"),
    (8, b"WEBP", "a WebP image"),
    (0, b"II*\0", "a TIFF image"),
    (0, b"MM\0*", "a TIFF image"),
    (0, b"BM", "a BMP image"),
    (8, b"WAVE", "a sound"),
    (8, b"AVI ", "a video"),
    (4, b"ftyp", "a video or a picture"),
    (0, b"\x1a\x45\xdf\xa3", "a video"),
    (0, b"OggS", "a sound or a video"),
    (0, b"ID3", "a sound"),
    (0, b"fLaC", "a sound"),
    (0, b"\x1f\x8b", "an archive (gzip)"),
    (0, b"BZh", "an archive (bzip2)"),
    (0, b"\xfd7zXZ\0", "an archive (xz)"),
    (0, b"\x28\xb5\x2f\xfd", "an archive (zstd)"),
    (0, b"7z\xbc\xaf\x27\x1c", "an archive (7z)"),
    (0, b"Rar!", "an archive (RAR)"),
    (257, b"ustar", "an archive (tar)"),
    (0, b"\x7fELF", "an executable"),
    (0, b"MZ", "an executable"),
    (0, b"\xcf\xfa\xed\xfe", "an executable"),
    (0, b"\xca\xfe\xba\xbe", "an executable"),
    (0, b"\0asm", "an executable (WebAssembly)"),
    (0, b"GGUF", "a model (GGUF)"),
    (0, b"SQLite format 3\0", "a database (SQLite)"),
    (0, tnef::SIGNATURE, "attachments that Outlook packed (winmail.dat)"),
    (0, encrypted::CONTAINER, OLD_OFFICE),
];

/// What Office wrote until 2003.
pub(crate) const OLD_OFFICE: &str = "an Office document of the old kind (.doc, .xls, .ppt)";

/// How ZIP archives begin.
const ARCHIVE: &[u8] = b"PK\x03\x04";

/// Whether a file has the name of a document that is an archive.
pub(crate) fn is_named_as_document(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    ["docx", "docm", "epub", "odt", "ods", "odp", "pptx", "xlsx", "xlsm"]
        .iter()
        .any(|known| extension.eq_ignore_ascii_case(known))
}

/// What the bytes are. `None` for an archive, also an encrypted one of an office program: what that is, its entries say.
///
/// # Errors
/// They are no document.
pub(crate) fn detect(name: &str, bytes: &[u8]) -> Result<Option<Kind>, Problem> {
    let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
    let extension = extension.unwrap_or_default().to_ascii_lowercase();
    let head = &bytes[..bytes.len().min(1024)];
    let find = |what: &[u8]| head.windows(what.len()).any(|window| window == what);
    if head.trim_ascii_start().starts_with(b"%PDF-") || (extension == "pdf" && find(b"%PDF-")) {
        return Ok(Some(Kind::Pdf));
    }
    if head.starts_with(ARCHIVE) {
        return Ok(None);
    }
    if head.starts_with(b"{\\rtf") {
        return Ok(Some(Kind::Rtf));
    }
    if decode::is_binary(bytes) {
        let known = SIGNATURES
            .iter()
            .find(|(at, signature, _)| bytes.get(*at..).is_some_and(|rest| rest.starts_with(signature)));
        // Office programs put what they encrypt into a file of the old kind.
        let name: Vec<u8> = encrypted::PACKAGE.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let is_old = encrypted::is_container(bytes);
        let is_new = is_old && is_named_as_document(Path::new(&format!("x.{extension}")));
        if is_new || (is_old && memchr::memmem::find(bytes, &name).is_some()) {
            return Ok(None);
        }
        return Err(binary(known.map_or("binary data", |(_, _, what)| what)));
    }
    Ok(Some(match extension.as_str() {
        "html" | "htm" | "xhtml" | "xht" => Kind::Html,
        // Templates and programs that contain a page are source code, so their names decide.
        "" | "txt" if begins_a_page(head) => Kind::Html,
        // Programs that export for Office write a page, or a saved page, under the names of its old files.
        "doc" | "xls" if begins_a_page(head) || begins_a_bare_page(head) => Kind::Html,
        "doc" | "xls" if begins_a_saved_page(head) => Kind::Mail,
        "md" | "markdown" => Kind::Markdown,
        "csv" | "tsv" => Kind::Csv,
        "ipynb" => Kind::Notebook,
        "fodt" | "fods" | "fodp" => Kind::OpenDocument,
        "srt" | "vtt" => Kind::Subtitles,
        "eml" | "mht" | "mhtml" => Kind::Mail,
        _ => Kind::Text,
    }))
}

pub(crate) fn binary(looks_like: &str) -> Problem {
    Problem::Binary { looks_like: looks_like.to_owned() }
}

/// Whether a text begins with what may begin a page of HTML that leaves out its first tags.
fn begins_a_bare_page(head: &[u8]) -> bool {
    let head = in_small_letters(head);
    let rest = head.trim_start();
    ["<table", "<meta", "<head", "<style", "<body"].iter().any(|tag| {
        let after = rest.strip_prefix(tag);
        after.is_some_and(|after| after.starts_with(|c: char| c == '>' || c.is_whitespace()))
    })
}

/// Whether a text begins with the headers of a message of several parts.
fn begins_a_saved_page(head: &[u8]) -> bool {
    let head = in_small_letters(head);
    let headers = || head.lines().take_while(|line| !line.trim().is_empty());
    let has = |name: &str| headers().any(|line| line.starts_with(name));
    has("mime-version:") && has("content-type: multipart/")
}

/// The beginning of a text in small letters, without a mark of its byte order.
fn in_small_letters(head: &[u8]) -> String {
    String::from_utf8_lossy(head).trim_start_matches('\u{feff}').to_ascii_lowercase()
}

/// Whether a text begins as a page of HTML does.
fn begins_a_page(head: &[u8]) -> bool {
    let head = in_small_letters(head);
    let mut rest = head.trim_start();
    if rest.starts_with("<?xml")
        && let Some((_, after)) = rest.split_once("?>")
    {
        rest = after.trim_start();
    }
    rest.starts_with("<!doctype html") || rest.starts_with("<html")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_decides_before_the_name() {
        for (name, bytes, kind) in [
            ("paper", &b"%PDF-1.7\n"[..], Kind::Pdf),
            ("paper.txt", b"%PDF-1.7\n", Kind::Pdf),
            ("paper.pdf", b"junk in front\n%PDF-1.7\n", Kind::Pdf),
            ("about.md", b"A file that begins with %PDF- is a PDF.", Kind::Markdown),
            ("page", b"\xef\xbb\xbf <!DOCTYPE HTML><p>x", Kind::Html),
            ("page", b"<?xml version='1.0'?>\n<html/>", Kind::Html),
            ("page.php", b"<!doctype html><?php ?>", Kind::Text),
            ("statement.xls", b"<html xmlns:x='urn:x'><table>", Kind::Html),
            ("statement.xls", b"\xef\xbb\xbf\n<table border=1><tr>", Kind::Html),
            ("statement.xls", b"Date\tAmount\n", Kind::Text),
            ("statement.xls", b"<tables> of text", Kind::Text),
            ("letter.doc", b"<!DOCTYPE HTML><p>x", Kind::Html),
            (
                "minutes.doc",
                b"MIME-Version: 1.0\nContent-Type: multipart/related; boundary=b\n\nx",
                Kind::Mail,
            ),
            ("minutes.doc", b"MIME-Version: 1.0\n\nContent-Type: multipart/related", Kind::Text),
            ("minutes.doc", b"Subject: x\nMIME-Version: 1.0 is a header.", Kind::Text),
            ("models.txt", b"GGUF is a format. BM, MZ and ID3 are words.", Kind::Text),
            ("main.rs", b"fn main() {}", Kind::Text),
            ("empty", b"", Kind::Text),
        ] {
            assert_eq!(detect(name, bytes).expect("a kind"), Some(kind), "{name}");
        }
    }

    #[test]
    fn archives_are_not_looked_into() {
        assert_eq!(detect("a.txt", ARCHIVE).expect("an archive"), None);
    }

    #[test]
    fn binary_files_are_named() {
        let mut tar = vec![0; 512];
        tar[257..262].copy_from_slice(b"ustar");
        for (bytes, part) in [
            (&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], "PNG image"),
            (b"GGUF\x03\0\0\0\x01\0\0\0\0\0\0\0", "model (GGUF)"),
            (b"\x7fELF\x02\x01\x01\0\0\0", "executable"),
            (b"\x1f\x8b\x08\0\0\0\0\0", "archive (gzip)"),
            (&tar, "archive (tar)"),
            (b"\x78\x9f\x3e\x22\x01\0\x01", "winmail.dat"),
            (b"\x01\x02\x03\x04\0\0\0\0", "binary data"),
        ] {
            let error = detect("notes.txt", bytes).expect_err("binary").to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}

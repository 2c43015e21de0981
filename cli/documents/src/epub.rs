//! EPUB: the chapters of a book in the order of its spine.

use std::collections::HashMap;

use crate::archive::Archive;
use crate::writer::Writer;
use crate::xml::{self, Piece};
use crate::{Converted, Problem, html};

const CONTAINER: &str = "META-INF/container.xml";
const ENCRYPTION: &str = "META-INF/encryption.xml";

/// Converts a book.
///
/// # Errors
/// It is damaged or encrypted, or has more than `max_bytes` of text.
pub(crate) fn convert(bytes: &[u8], max_bytes: u64) -> Result<Converted, Problem> {
    let mut archive = Archive::new(bytes)?;
    let package = package(&mut archive)?;
    let encrypted = encrypted_entries(&mut archive)?;
    let mut writer = Writer::default();
    for chapter in chapters(&mut archive, &package)? {
        if encrypted.contains(&chapter) {
            return Err(Problem::Encrypted);
        }
        // A book that names a missing chapter still has the others.
        if !archive.has(&chapter) {
            continue;
        }
        writer.table(); // a chapter ends whatever the one before left open
        html::write(&archive.text(&chapter)?, true, &mut writer);
        if writer.len() as u64 > max_bytes {
            return Err(Problem::TooLong { limit: max_bytes });
        }
    }
    Ok(Converted { text: writer.finish(), ..Converted::default() })
}

/// The name of the entry with the description of the book.
fn package(archive: &mut Archive) -> Result<String, Problem> {
    let mut path = None;
    xml::read(CONTAINER, &archive.text(CONTAINER)?, |piece| {
        if let Piece::Start(element) = piece
            && element.name == "rootfile"
            && path.is_none()
        {
            path = element.attribute("full-path");
        }
        Ok(())
    })?;
    path.ok_or_else(|| Problem::Damaged { what: format!("{CONTAINER} names no book") })
}

/// The entries with the chapters, in the order in which they are read.
fn chapters(archive: &mut Archive, package: &str) -> Result<Vec<String>, Problem> {
    let folder = package.rsplit_once('/').map_or("", |(folder, _)| folder);
    let (mut files, mut spine) = (HashMap::new(), Vec::new());
    xml::read(package, &archive.text(package)?, |piece| {
        let Piece::Start(element) = piece else { return Ok(()) };
        match element.name.as_str() {
            "item" if element.attribute("media-type").is_some_and(|kind| kind.contains("html")) => {
                files.extend(element.attribute("id").zip(element.attribute("href")));
            }
            "itemref" => spine.extend(element.attribute("idref")),
            _ => {}
        }
        Ok(())
    })?;
    Ok(spine.iter().filter_map(|id| files.get(id)).map(|href| resolve(folder, href)).collect())
}

/// The name of the entry that `href` means in a folder of the archive.
fn resolve(folder: &str, href: &str) -> String {
    let href = percent_decode(href.split('#').next().unwrap_or_default());
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in href.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code = (*first == b'%').then(|| after.get(..2)).flatten();
        let code = code.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Entries that are encrypted. Fonts may be, by an algorithm that only hides them.
fn encrypted_entries(archive: &mut Archive) -> Result<Vec<String>, Problem> {
    let mut entries = Vec::new();
    if archive.has(ENCRYPTION) {
        xml::read(ENCRYPTION, &archive.text(ENCRYPTION)?, |piece| {
            if let Piece::Start(element) = piece
                && element.name == "CipherReference"
            {
                entries.extend(element.attribute("URI").map(|uri| resolve("", &uri)));
            }
            Ok(())
        })?;
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved_in_the_archive() {
        assert_eq!(resolve("OEBPS", "text/ch%201.xhtml#top"), "OEBPS/text/ch 1.xhtml");
        assert_eq!(resolve("a/b", "../../../c.html"), "c.html");
        assert_eq!(resolve("", "./c%zz.html"), "c%zz.html");
    }
}

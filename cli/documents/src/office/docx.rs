//! DOCX (ECMA-376, WordprocessingML): paragraphs, headings, lists, tables and notes. Deleted text, comments, page
//! headers and footers are left out.

use std::collections::HashMap;

use crate::package::Archive;
use crate::package::xml::{self, Element, Piece};
use crate::writer::{Span, Writer};
use crate::{Converted, Problem};

const DOCUMENT: &str = "word/document.xml";
/// Elements whose content is not part of the text. A fallback repeats its alternative.
const SKIPPED: &[&str] =
    &["del", "moveFrom", "Fallback", "instrText", "delText", "rPr", "sectPr", "tblPr", "tblGrid"];

/// Converts a document.
///
/// # Errors
/// It is damaged, or has more than `max_bytes` of text.
pub(crate) fn convert(bytes: &[u8], max_bytes: u64) -> Result<Converted, Problem> {
    let mut archive = Archive::new(bytes)?;
    let document = main_part(&mut archive)?;
    let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    let sibling = |name: &str| if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
    let styles = paragraph_styles(&mut archive, &sibling("styles.xml"))?;
    let mut body = Body { styles, max_bytes, ..Body::default() };
    body.read(&mut archive, &document)?;
    for (part, element, prefix) in [("footnotes.xml", "footnote", ""), ("endnotes.xml", "endnote", "e")] {
        let part = sibling(part);
        if archive.has(&part) {
            body.notes = Some(Notes { element, prefix });
            body.read(&mut archive, &part)?;
        }
    }
    Ok(Converted { text: body.writer.finish(), ..Converted::default() })
}

/// The name of the entry with the text.
fn main_part(archive: &mut Archive) -> Result<String, Problem> {
    const RELATIONS: &str = "_rels/.rels";
    if archive.has(DOCUMENT) {
        return Ok(DOCUMENT.to_owned());
    }
    let mut target = None;
    xml::read(RELATIONS, &archive.text(RELATIONS)?, |piece| {
        if let Piece::Start(element) = piece
            && element.attribute("Type").is_some_and(|kind| kind.ends_with("/officeDocument"))
        {
            target = element.attribute("Target");
        }
        Ok(())
    })?;
    let target = target.map(|target| target.trim_start_matches('/').to_owned());
    target.ok_or_else(|| Problem::Damaged { what: "it has no document".to_owned() })
}

/// What a paragraph is.
#[derive(Clone, Copy, Debug, Default)]
struct Paragraph {
    /// The level of a heading, from 1 on.
    heading: Option<usize>,
    /// The depth in lists, from 0 on.
    list_depth: Option<usize>,
}

/// What the paragraph styles stand for, by their ids. Ids are in the language of the program that wrote the file,
/// names are in English.
fn paragraph_styles(archive: &mut Archive, part: &str) -> Result<HashMap<String, Paragraph>, Problem> {
    let (mut styles, mut id) = (HashMap::<String, Paragraph>::new(), None);
    if !archive.has(part) {
        return Ok(styles);
    }
    xml::read(part, &archive.text(part)?, |piece| {
        let Piece::Start(element) = piece else { return Ok(()) };
        if element.name == "style" {
            id = element.attribute("styleId");
        }
        let Some(id) = &id else { return Ok(()) };
        let value = || element.attribute("val");
        let level = match element.name.as_str() {
            "name" => value().and_then(|name| match name.to_lowercase().as_str() {
                "title" => Some(1),
                name => name.strip_prefix("heading ")?.parse().ok(),
            }),
            "outlineLvl" => value().and_then(|level| level.parse::<usize>().ok()).map(|level| level + 1),
            _ => None,
        };
        if let Some(level @ 1..=9) = level {
            styles.entry(id.clone()).or_default().heading.get_or_insert(level);
        }
        if element.name == "numPr" {
            styles.entry(id.clone()).or_default().list_depth = Some(0);
        }
        Ok(())
    })?;
    Ok(styles)
}

/// A part with notes: the element of one note, and what its number is preceded by.
struct Notes {
    element: &'static str,
    prefix: &'static str,
}

/// The text of a document while its parts are read.
#[derive(Default)]
struct Body {
    writer: Writer,
    styles: HashMap<String, Paragraph>,
    max_bytes: u64,
    notes: Option<Notes>,
    /// Depth within an element that is left out.
    skipping: usize,
    /// Whether the text belongs to an element of text, and is not white space of the file.
    in_text: bool,
    /// What the properties of the paragraph say, until its text begins.
    paragraph: Option<Paragraph>,
    /// The mark of the note whose first paragraph follows.
    note: Option<String>,
}

impl Body {
    fn read(&mut self, archive: &mut Archive, part: &str) -> Result<(), Problem> {
        let text = archive.text(part)?;
        self.skipping = 0;
        xml::read(part, &text, |piece| {
            match piece {
                Piece::Start(_) if self.skipping > 0 => self.skipping += 1,
                Piece::End(_) if self.skipping > 0 => self.skipping -= 1,
                Piece::Start(element) => self.start(&element),
                Piece::End(name) => self.end(&name),
                Piece::Text(text) if self.in_text && self.skipping == 0 => self.text(&text),
                Piece::Text(_) => {}
            }
            match self.writer.len() as u64 > self.max_bytes {
                true => Err(Problem::TooLong { limit: self.max_bytes }),
                false => Ok(()),
            }
        })
    }

    fn start(&mut self, element: &Element) {
        let number = |name: &str| element.attribute(name).and_then(|value| value.parse::<usize>().ok());
        match element.name.as_str() {
            name if SKIPPED.contains(&name) => self.skipping = 1,
            "t" => self.in_text = true,
            "p" => {
                self.begin_text();
                self.paragraph = Some(Paragraph::default());
            }
            "pStyle" => {
                let style = element.attribute("val").and_then(|id| self.styles.get(&id).copied());
                let style = style.unwrap_or_default();
                // Some programs write the style after what replaces it.
                let paragraph = self.paragraph.get_or_insert_default();
                paragraph.heading = paragraph.heading.or(style.heading);
                paragraph.list_depth = paragraph.list_depth.or(style.list_depth);
            }
            "outlineLvl" => {
                let level = number("val").filter(|level| *level < 9).map(|level| level + 1);
                self.paragraph.get_or_insert_default().heading = level;
            }
            "ilvl" => self.paragraph.get_or_insert_default().list_depth = number("val"),
            // Number 0 takes a paragraph out of its list.
            "numId" if number("val") == Some(0) => self.paragraph.get_or_insert_default().list_depth = None,
            "tab" | "ptab" => self.space(),
            "br" | "cr" => {
                self.begin_text();
                self.writer.line();
            }
            "noBreakHyphen" => self.text("-"),
            "tbl" => self.writer.begin_table(),
            "tr" => self.writer.row(),
            "tc" => self.writer.cell(Span::ONE),
            "footnoteReference" => self.reference(element, ""),
            "endnoteReference" => self.reference(element, "e"),
            name if self.notes.as_ref().is_some_and(|notes| notes.element == name) => {
                self.begin_note(element)
            }
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "t" => self.in_text = false,
            // The properties of a paragraph are complete, also those of its list.
            "pPr" => self.begin_text(),
            "p" => {
                self.paragraph = None;
                self.writer.line();
            }
            "tbl" => self.writer.end_table(),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        self.begin_text();
        self.writer.text(text);
    }

    /// A tab is a space, unless it indents the paragraph.
    fn space(&mut self) {
        if self.paragraph.is_none() {
            self.writer.text(" ");
        }
    }

    /// Begins the paragraph whose properties are known.
    fn begin_text(&mut self) {
        let Some(paragraph) = self.paragraph.take() else { return };
        self.writer.end_item();
        match (paragraph.heading, paragraph.list_depth) {
            (Some(level), _) => self.writer.heading(level),
            (None, Some(depth)) => self.writer.item(depth, "-"),
            (None, None) => self.writer.paragraph(),
        }
        if let Some(mark) = self.note.take() {
            self.writer.text(&mark);
        }
    }

    fn reference(&mut self, element: &Element, prefix: &str) {
        if let Some(id) = element.attribute("id") {
            self.text(&format!("[^{prefix}{id}]"));
        }
    }

    /// A note of the document; those with a type are separators.
    fn begin_note(&mut self, element: &Element) {
        let prefix = self.notes.as_ref().map_or("", |notes| notes.prefix);
        let id = element.attribute("id").filter(|_| element.attribute("type").is_none());
        match id {
            Some(id) => self.note = Some(format!("[^{prefix}{id}]: ")),
            None => self.skipping = 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;

    fn archive(entries: &[(&str, &str)]) -> Vec<u8> {
        let mut zip = ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for (name, content) in entries {
            zip.start_file(*name, SimpleFileOptions::default()).expect("an entry");
            zip.write_all(content.as_bytes()).expect("memory");
        }
        zip.finish().expect("an archive").into_inner()
    }

    fn check(body: &str, wanted: &str) {
        let document = format!("<w:document xmlns:w='x'><w:body>{body}</w:body></w:document>");
        let converted = convert(&archive(&[(DOCUMENT, &document)]), 1 << 20).expect("a document");
        assert_eq!(converted.text, wanted, "{body}");
    }

    #[test]
    fn paragraphs_become_readable_text() {
        check(
            "<w:p><w:r><w:t>One &amp; </w:t></w:r><w:r><w:t>two</w:t></w:r></w:p> <w:p><w:t>three</w:t></w:p>",
            "One & two\n\nthree\n",
        );
        check("<w:p><w:t>a</w:t><w:tab/><w:t>b</w:t><w:br/><w:t>c&#228;</w:t></w:p>", "a b\ncä\n");
        check(
            "<w:p><w:t>kept</w:t><w:del><w:r><w:delText>x</w:delText></w:r></w:del><w:ins><w:t>!</w:t></w:ins></w:p>",
            "kept!\n",
        );
        let item = |level: u8, text: &str| {
            format!(
                "<w:p><w:pPr><w:numPr><w:ilvl w:val='{level}'/><w:numId w:val='1'/></w:numPr></w:pPr><w:t>{text}</w:t></w:p>"
            )
        };
        check(&format!("{}{}", item(0, "a"), item(1, "b")), "- a\n  - b\n");
        let cell = |text: &str| format!("<w:tc><w:p><w:t>{text}</w:t></w:p><w:p/></w:tc>");
        check(
            &format!(
                "<w:tbl><w:tr>{}{}</w:tr><w:tr>{}{}</w:tr></w:tbl><w:p><w:t>x</w:t></w:p>",
                cell("a"),
                cell("b"),
                cell("c"),
                cell("d")
            ),
            "a | b\nc | d\n\nx\n",
        );
    }

    #[test]
    fn headings_follow_from_the_names_of_styles() {
        let styles =
            "<w:styles><w:style w:styleId='berschrift2'><w:name w:val='heading 2'/></w:style></w:styles>";
        let document = "<w:document><w:p><w:pPr><w:pStyle w:val='berschrift2'/></w:pPr><w:t>Head</w:t></w:p></w:document>";
        let file = archive(&[(DOCUMENT, document), ("word/styles.xml", styles)]);
        assert_eq!(convert(&file, 1 << 20).expect("a document").text, "## Head\n");
    }

    #[test]
    fn entities_are_not_expanded() {
        let bomb = "<!DOCTYPE d [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;'>]><d><w:p><w:t>x&b;y</w:t></w:p></d>";
        assert_eq!(convert(&archive(&[(DOCUMENT, bomb)]), 1 << 20).expect("a document").text, "xy\n");
    }
}

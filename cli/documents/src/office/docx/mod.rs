//! DOCX (ECMA-376, WordprocessingML): paragraphs, headings, lists, tables, formulas, notes, comments, page headers and
//! footers. What is marked as deleted or hidden is left out.

pub(super) mod auto_numbers;
mod body;
mod fields;
mod numbering;
mod styles;
mod table_styles;

use std::collections::HashMap;

use self::body::{Body, Kind};
use self::numbering::Numbering;
use self::styles::Styles;
use super::drawings::Drawings;
use super::fill::Scheme;
use super::page_texts::PageTexts;
use super::relations::{Relations, main_part};
use crate::convert::Parts;
use crate::package::Archive;
use crate::{Converted, Problem};

const DOCUMENT: &str = "word/document.xml";

/// Converts a document.
///
/// # Errors
/// It is damaged, or has too much text.
pub(crate) fn convert(bytes: &[u8], mut parts: Parts) -> Result<Converted, Problem> {
    let mut archive = Archive::new(bytes)?;
    let document = main_part(&mut archive, DOCUMENT)?;
    let relations = Relations::of(&mut archive, &document)?;
    // Some programs do not say which part is which.
    let folder = document.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
    let part = |archive: &Archive, kind: &str| {
        let usual = || Some(format!("{folder}{kind}.xml")).filter(|usual| archive.has(usual));
        relations.of_kind(kind).map(str::to_owned).or_else(usual)
    };
    let styles = part(&archive, "styles");
    let styles = Styles::read(&mut archive, styles.as_deref())?;
    let numbering = part(&archive, "numbering");
    let numbering = Numbering::read(&mut archive, numbering.as_deref())?;
    let mut body = Body::new(styles, numbering, parts.max_bytes());
    if let Some(settings) = part(&archive, "settings") {
        body.read_settings(&mut archive, &settings)?;
    }
    body.drawings = Drawings::of(&mut archive, &relations)?;
    body.scheme = Scheme::of(&mut archive, &relations)?;
    let mut known = HashMap::new();
    for header in relations.all("header").chain(relations.all("footer")) {
        // One that is damaged is an error where it is read.
        if let Ok(text) = archive.text(&header.target) {
            body.look_ahead(&text);
            known.insert(header.target.as_str(), text);
        }
    }
    for chunk in relations.all("aFChunk") {
        let text = match archive.bytes(&chunk.target) {
            Ok(bytes) => parts.within(&chunk.target, &bytes)?,
            Err(problem @ Problem::Unpacked { .. }) => return Err(problem),
            // Where it stands, it is counted.
            Err(_) => continue,
        };
        body.chunks.insert(chunk.id.clone(), text.unwrap_or_default());
    }
    body.read(&document, &archive.text(&document)?, Kind::Text)?;
    for (name, kind) in
        [("footnotes", Kind::Footnotes), ("endnotes", Kind::Endnotes), ("comments", Kind::Comments)]
    {
        if let Some(part) = part(&archive, name) {
            body.read(&part, &archive.text(&part)?, kind)?;
        }
    }
    let mut page_texts = PageTexts::default();
    for reference in body.take_headers() {
        let Some(part) = relations.target(&reference.id) else { continue };
        let text = match known.get(part) {
            Some(text) => body.read_apart(part, text)?,
            None => body.read_apart(part, &archive.text(part)?)?,
        };
        page_texts.add(text, reference.is_footer);
    }
    let (text, counts) = body.finish();
    parts.counts.add(counts);
    parts.push_text(&page_texts.around(text, Vec::new()))?;
    Ok(parts.finish())
}

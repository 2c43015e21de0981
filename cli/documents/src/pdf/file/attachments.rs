//! Files within a PDF: attachments, and the documents of a portfolio, of which the pages are only a cover. They are not
//! read; a note names them.

use std::collections::HashSet;

use hayro_interpret::hayro_syntax::Pdf;
use hayro_interpret::hayro_syntax::object::{Dict, Name, Object, ObjectIdentifier, String as PdfString};

use super::{arrays, name_tree, text_string};
use crate::counts::Names;

/// Files, and annotations of a page, that are looked at.
const MAX_FILES: usize = 20_000;
/// A file without a name.
const UNNAMED: &str = "a file without a name";

/// The names of the files.
pub(in crate::pdf) fn names(pdf: &Pdf, catalogue: &Dict<'_>) -> Names {
    let mut files = Files::default();
    let mut named = name_tree::names(catalogue, "EmbeddedFiles");
    named.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (_, file) in named {
        if let Object::Dict(file) = file {
            files.add(&file);
        }
    }
    arrays::dictionaries(catalogue.get("AF")).take(MAX_FILES).for_each(|file| files.add(&file));
    for page in pdf.pages().iter() {
        for annotation in arrays::dictionaries(page.raw().get("Annots")).take(MAX_FILES) {
            if annotation.get::<Name<'_>>("Subtype").as_deref() == Some(b"FileAttachment")
                && let Some(file) = annotation.get::<Dict<'_>>("FS")
            {
                files.add(&file);
            }
        }
    }
    files.names
}

/// Files by their streams: one file may be attached in several ways.
#[derive(Default)]
struct Files {
    seen: HashSet<ObjectIdentifier>,
    names: Names,
}

impl Files {
    /// Adds a file, if its content is in the PDF.
    fn add(&mut self, file: &Dict<'_>) {
        let Some(content) = file.get::<Dict<'_>>("EF") else { return };
        let stream = ["UF", "F"].into_iter().find_map(|key| content.get_ref(key));
        if stream.is_some_and(|stream| !self.seen.insert(stream.into())) {
            return;
        }
        let name = ["UF", "F"].into_iter().find_map(|key| file.get::<PdfString<'_>>(key));
        let name = name.map(|name| text_string::decode(&name)).filter(|name| !name.trim().is_empty());
        self.names.push(name.as_deref().unwrap_or(UNNAMED));
    }
}

//! PDF. The interpreter draws a page; what it draws is collected (`page.rs`), without what nobody sees (`canvas.rs`), and
//! with what a file says besides its drawings: the names of glyphs and programs of fonts (`fonts/`), texts in place of glyphs
//! (`actual_text.rs`), values of forms and comments (`fields.rs`), bookmarks and attachments (`file/`). `pictures.rs` finds
//! pictures without text.
//!
//! What the interpreter does not hand over is changed before: drawings that repeat each other without end (`forms.rs`), text
//! that is only a shape (`clip_text.rs`), mistakes at which it would stop (`repair.rs`), lists with pages that are missing
//! (`file/page_tree.rs`).
//!
//! Lines, words and tables follow from where glyphs are (`layout/`), which knows nothing of PDF.

mod actual_text;
mod boxes;
mod canvas;
mod clip_text;
mod fields;
mod file;
mod fonts;
mod forms;
mod layout;
mod page;
mod pictures;
mod repair;

use std::collections::HashMap;
use std::sync::Arc;

use hayro_interpret::InterpreterCache;
use hayro_interpret::hayro_syntax::object::Dict;
use hayro_interpret::hayro_syntax::page::Page;
use hayro_interpret::hayro_syntax::{DecryptionError, LoadPdfError, Pdf};
use memchr::memmem;

use self::file::bookmarks::Bookmarks;
use self::file::changes::Objects;
use self::file::page_tree::PageTree;
use self::file::{attachments, changes, contents, layers};
use self::fonts::programs::Programs;
use self::layout::tables::carried::Carried;
use self::layout::{PlacedText, letters};
use self::page::PageText;
use self::pictures::{FEW_LETTERS, Known};
use crate::counts::Counts;
use crate::selection::Chooser;
use crate::writer::tidy;
use crate::{Converted, Note, Options, Problem, Unit, marks};

/// In so many bytes at its end, a file has the mark of its end; in so many at its beginning, its length.
const TAIL: usize = 2048;
const HEAD: usize = 1024;
/// A form that only Adobe's programs show says so on one page with fewer letters and this name, in any language.
const FORM_LETTERS: usize = 1000;
const FORM_PROGRAM: &str = "Adobe";

/// Converts a document.
///
/// # Errors
/// It is damaged or encrypted, has no text or too much, or not the pages that are chosen.
pub(crate) fn convert(bytes: &[u8], options: &Options) -> Result<Converted, Problem> {
    let max_bytes = options.limits.bytes;
    let password = options.password.as_deref();
    let pdf = open(bytes.to_vec(), password)?;
    let page_tree = PageTree::of(&catalogue(&pdf));
    let pdf = changed(pdf, &page_tree.changed, password);
    let mut forms = forms::change(&pdf);
    let mut fonts = fonts::names::find(&pdf);
    let mut objects = match changes::are_possible(&pdf) {
        true => fonts.objects,
        false if forms.repeated > 0 => {
            return Err(Problem::Damaged { what: "its drawings contain each other too often".to_owned() });
        }
        false => Objects::new(),
    };
    objects.append(&mut forms.objects);
    let pdf = changed(pdf, &objects, password);
    fonts.two_byte.add_changed(&pdf);
    let catalogue = catalogue(&pdf);
    let without_layers = layers::without(&pdf, &catalogue, |file| open(file, password).ok());
    let mut hidden = without_layers.as_ref().map(|pdf| HiddenLayers::new(pdf, forms.texts.clone()));
    let bookmarks = Bookmarks::of(&catalogue);
    let cache = InterpreterCache::new();
    let mut text = String::new();
    let mut totals = Totals::default();
    totals.counts.damaged_pages = page_tree.pages.saturating_sub(pdf.pages().len());
    totals.counts.repeated_drawings = forms.repeated;
    totals.counts.skipped_files = attachments::names(&pdf, &catalogue);
    totals.counts.dynamic_forms = usize::from(fields::is_dynamic_form(&catalogue));
    let mut known_pictures = Known::default();
    let mut programs = Programs::new(fonts.two_byte);
    let mut chooser = Chooser::new(options.selection.as_ref(), Unit::Page);
    let mut carried = None;
    for (i, page) in pdf.pages().iter().enumerate() {
        if !chooser.takes_next() {
            carried = None;
            continue;
        }
        let mut read = page::read(page, &cache, &mut forms.texts, &mut known_pictures, &mut programs);
        read.is_damaged |= forms.damaged_pages.contains(&i);
        totals.add(&read);
        if let Some(hidden) = &mut hidden {
            totals.counts.hidden_characters += hidden.characters(i, &read, &mut programs);
        }
        let written = write(read, &mut carried);
        if !written.is_empty() && !text.is_empty() {
            text.push('\n');
        }
        if !written.is_empty() {
            text.push_str(&marks::page(i + 1));
            text.push_str(&bookmarks.mark(page, marks::without_marks(written)));
        }
        if text.len() as u64 > max_bytes {
            return Err(Problem::TooLong { limit: max_bytes });
        }
    }
    let (chosen, pages) = (chooser.note()?, chooser.chosen());
    let is_short = pdf.pages().len() == 1 && totals.known < FORM_LETTERS;
    if totals.counts.dynamic_forms > 0 && is_short && text.contains(FORM_PROGRAM) {
        return Err(Problem::DynamicForm);
    }
    totals.check(pages)?;
    let cut_off = is_cut_off(bytes).then_some(Note::Incomplete);
    let notes = chosen.into_iter().chain(cut_off).chain(totals.notes()).collect();
    Ok(Converted { text, pages: Some(pages), notes, ..Converted::default() })
}

/// Opens a document. Most that are encrypted have an empty password, and forbid something else than reading.
fn open(bytes: Vec<u8>, password: Option<&str>) -> Result<Pdf, Problem> {
    let bytes = Arc::new(bytes);
    let open = |password: &str| Pdf::new_with_password(bytes.clone(), password);
    let is_asked =
        |error: &LoadPdfError| matches!(error, LoadPdfError::Decryption(DecryptionError::PasswordProtected));
    let opened = match (open(""), password) {
        (Err(error), Some(password)) if is_asked(&error) => open(password),
        (opened, _) => opened,
    };
    opened.map_err(|error| match error {
        LoadPdfError::Decryption(DecryptionError::PasswordProtected) if password.is_some() => {
            Problem::WrongPassword
        }
        LoadPdfError::Decryption(DecryptionError::PasswordProtected) => Problem::Encrypted,
        LoadPdfError::Decryption(_) => Problem::UnknownEncryption,
        LoadPdfError::Invalid => Problem::Damaged { what: "no pages are found in it".to_owned() },
    })
}

/// A document with these objects, if it can be changed.
fn changed(pdf: Pdf, objects: &Objects, password: Option<&str>) -> Pdf {
    if objects.is_empty() || !changes::are_possible(&pdf) {
        return pdf;
    }
    match open(changes::add(&pdf, objects), password) {
        Ok(changed) if changed.pages().len() >= pdf.pages().len() => changed,
        _ => pdf,
    }
}

/// The dictionary that all of a document is found from.
fn catalogue(pdf: &Pdf) -> Dict<'_> {
    pdf.xref().get::<Dict<'_>>(pdf.xref().root_id()).unwrap_or_default()
}

/// A document with layers that are off, as one without layers.
struct HiddenLayers<'a> {
    pdf: &'a Pdf,
    cache: InterpreterCache<'a>,
    /// Texts in place of glyphs in drawings.
    texts: Vec<String>,
}

impl<'a> HiddenLayers<'a> {
    fn new(pdf: &'a Pdf, texts: Vec<String>) -> HiddenLayers<'a> {
        HiddenLayers { pdf, cache: InterpreterCache::new(), texts }
    }

    /// Characters on a page that are in layers which are off. `shown` is what the others have.
    fn characters(&mut self, page: usize, shown: &PageText, programs: &mut Programs) -> usize {
        let Some(page) = self.pdf.pages().get(page).filter(|page| may_have_layers(page)) else { return 0 };
        let all = page::read(page, &self.cache, &mut self.texts, &mut Known::default(), programs);
        // Without layers the interpreter leaves out what is shown because one is off. So places of texts are compared.
        let key = |drawn: &PlacedText| {
            let mut text = String::new();
            letters::write(&drawn.text, &mut text);
            (drawn.x.to_bits(), drawn.y.to_bits(), text)
        };
        let mut known = HashMap::<_, usize>::new();
        shown.drawn().for_each(|drawn| *known.entry(key(drawn)).or_default() += 1);
        let is_new = |drawn: &&PlacedText| match known.get_mut(&key(drawn)) {
            Some(count @ 1..) => {
                *count -= 1;
                false
            }
            _ => true,
        };
        all.drawn().filter(is_new).map(|drawn| letters::visible(&drawn.text)).sum()
    }
}

/// Whether something on a page may be in a layer: a part of its content, a drawing or an annotation.
fn may_have_layers(page: &Page<'_>) -> bool {
    let content = contents::of(page).bytes;
    let has = |sign: &str| memmem::find(&content, sign.as_bytes()).is_some();
    !page.resources().properties.is_empty() || has("/OC") || has("Do") || page.raw().contains_key("Annots")
}

/// Whether the end of a file is missing: the mark at its end, or bytes that it says it has.
fn is_cut_off(bytes: &[u8]) -> bool {
    let is_filling = |byte: &u8| *byte == 0 || byte.is_ascii_whitespace();
    let end = bytes.iter().rposition(|byte| !is_filling(byte)).map_or(0, |last| last + 1);
    let tail = &bytes[end.saturating_sub(TAIL)..end];
    let head = &bytes[..bytes.len().min(HEAD)];
    memmem::rfind(tail, b"%%EOF").is_none()
        || linearized_length(head).is_some_and(|length| length > bytes.len())
}

/// The length of a file that is arranged for the web, of which it says at its beginning.
fn linearized_length(head: &[u8]) -> Option<usize> {
    let dictionary = &head[memmem::find(head, b"/Linearized")?..];
    let dictionary = &dictionary[..memmem::find(dictionary, b">>")?];
    let text = String::from_utf8_lossy(&dictionary[memmem::find(dictionary, b"/L ")? + 3..]);
    text.split_ascii_whitespace().next()?.split('/').next()?.parse().ok()
}

/// The text of a page and the comments in its margin. A table may go on from the page before.
fn write(page: PageText, carried: &mut Option<Carried>) -> String {
    let text = layout::text(page.glyphs, page.values, &page.rules, carried);
    let mut text = tidy::without_leaders(&text).into_owned();
    for comment in page.comments {
        if !text.is_empty() {
            text.push('\n');
        }
        text += &format!("[Comment: {comment}]\n");
    }
    text
}

/// What the pages have.
#[derive(Default)]
struct Totals {
    known: usize,
    pictures: usize,
    empty_pages: usize,
    counts: Counts,
}

impl Totals {
    fn add(&mut self, page: &PageText) {
        let counts = &mut self.counts;
        self.known += page.known;
        self.pictures += page.pictures;
        counts.unknown_characters += page.unknown;
        counts.characters_of_programs += page.from_programs;
        counts.hidden_characters +=
            page.hidden.iter().map(|text| letters::visible(&text.text)).sum::<usize>();
        counts.other_numbers += page.other_numbers;
        counts.drawn_boxes += page.boxes;
        counts.damaged_pages += usize::from(page.is_damaged);
        if page.known == 0 {
            self.empty_pages += 1;
        } else if page.textless.are_most && page.known < FEW_LETTERS {
            counts.picture_pages += 1;
        } else {
            counts.pictures += page.textless.pictures;
        }
    }

    fn check(&self, pages: usize) -> Result<(), Problem> {
        let counts = &self.counts;
        // Notes say why there is no text.
        let is_explained =
            counts.hidden_characters > 0 || counts.damaged_pages > 0 || !counts.skipped_files.is_empty();
        match (self.known, counts.unknown_characters) {
            (0, 0) if self.pictures == 0 && is_explained => Ok(()),
            (0, 0) if self.pictures == 0 => Err(Problem::Empty),
            (0, 0) => Err(Problem::OnlyPictures { pages }),
            (known, unknown) if unknown > known => Err(Problem::UnknownGlyphs),
            _ => Ok(()),
        }
    }

    fn notes(self) -> Vec<Note> {
        let empty_pages =
            (self.empty_pages > 0).then_some(Note::PagesWithoutText { pages: self.empty_pages });
        empty_pages.into_iter().chain(self.counts.notes()).collect()
    }
}

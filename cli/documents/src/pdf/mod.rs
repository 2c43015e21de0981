//! PDF: the glyphs of its pages, in the order in which they are drawn, as lines of text.

mod lines;

use hayro_interpret::font::Glyph;
use hayro_interpret::hayro_cmap::BfString;
use hayro_interpret::hayro_syntax::{DecryptionError, LoadPdfError, Pdf};
use hayro_interpret::{
    BlendMode, ClipPath, Context, Device, GlyphDrawMode, Image, InterpreterCache, InterpreterSettings, Paint,
    PathDrawMode, SoftMask, interpret_page,
};
use kurbo::{Affine, BezPath, Point, Rect};

use self::lines::{Lines, PlacedText};
use crate::{Converted, Note, Problem};

/// Glyphs are drawn in units of a thousandth of the font's size.
const UNITS_PER_EM: f64 = 1000.0;

/// Converts a document.
///
/// # Errors
/// It is damaged or encrypted, has no text, or more than `max_bytes`.
pub(crate) fn convert(bytes: &[u8], max_bytes: u64) -> Result<Converted, Problem> {
    let pdf = Pdf::new(bytes.to_vec()).map_err(|error| match error {
        LoadPdfError::Decryption(DecryptionError::PasswordProtected) => Problem::Encrypted,
        LoadPdfError::Decryption(_) => Problem::Encrypted,
        LoadPdfError::Invalid => Problem::Damaged { what: "no pages are found in it".to_owned() },
    })?;
    let cache = InterpreterCache::new();
    let mut text = String::new();
    let mut totals = Totals::default();
    for page in pdf.pages().iter() {
        let settings = InterpreterSettings::default();
        let size = Rect::new(0.0, 0.0, 1.0, 1.0);
        let mut context = Context::new(Affine::IDENTITY, size, &cache, pdf.xref(), settings);
        let mut reader = PageReader::default();
        interpret_page(page, &mut context, &mut reader);
        totals.add(&reader);
        let page = reader.lines.finish();
        if !page.is_empty() && !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&page);
        if text.len() as u64 > max_bytes {
            return Err(Problem::TooLong { limit: max_bytes });
        }
    }
    let pages = pdf.pages().len();
    totals.check(pages)?;
    Ok(Converted { text, pages: Some(pages), notes: totals.notes() })
}

/// What the pages have.
#[derive(Default)]
struct Totals {
    known: usize,
    unknown: usize,
    pictures: usize,
    empty_pages: usize,
}

impl Totals {
    fn add(&mut self, page: &PageReader) {
        self.known += page.known;
        self.unknown += page.unknown;
        self.pictures += page.pictures;
        self.empty_pages += usize::from(page.known == 0);
    }

    fn check(&self, pages: usize) -> Result<(), Problem> {
        match (self.known, self.unknown) {
            (0, 0) if self.pictures == 0 => Err(Problem::Empty),
            (0, 0) => Err(Problem::OnlyPictures { pages }),
            (known, unknown) if unknown > known => Err(Problem::UnknownGlyphs),
            _ => Ok(()),
        }
    }

    fn notes(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        if self.empty_pages > 0 {
            notes.push(Note::PagesWithoutText { pages: self.empty_pages });
        }
        if self.unknown > 0 {
            notes.push(Note::UnknownGlyphs { glyphs: self.unknown });
        }
        notes
    }
}

/// Collects the glyphs of a page, and counts what else is drawn.
#[derive(Default)]
struct PageReader {
    lines: Lines,
    /// Glyphs whose characters are known, and others.
    known: usize,
    unknown: usize,
    /// Pictures and drawings.
    pictures: usize,
}

impl Device<'_> for PageReader {
    fn draw_glyph(
        &mut self,
        glyph: &Glyph<'_>,
        transform: Affine,
        glyph_transform: Affine,
        _: &Paint<'_>,
        _: &GlyphDrawMode,
    ) {
        let text = match glyph.as_unicode() {
            Some(BfString::Char(c)) => String::from(c),
            Some(BfString::String(text)) => text,
            None => {
                self.unknown += 1;
                return;
            }
        };
        self.known += text.chars().filter(|c| !c.is_whitespace()).count();
        let advance = match glyph {
            Glyph::Outline(glyph) => glyph.advance_width().map(f64::from),
            Glyph::Type3(_) => None,
        };
        let place = transform * glyph_transform;
        let at = |x: f64, y: f64| place * Point::new(x, y);
        self.lines.add(&PlacedText {
            text: &text,
            start: at(0.0, 0.0),
            end: advance.map(|advance| at(advance, 0.0)),
            em: at(UNITS_PER_EM, 0.0) - at(0.0, 0.0),
            up: at(0.0, UNITS_PER_EM) - at(0.0, 0.0),
        });
    }

    fn draw_path(&mut self, _: &BezPath, _: Affine, _: &Paint<'_>, _: &PathDrawMode) {
        self.pictures += 1;
    }

    fn draw_image(&mut self, _: Image<'_, '_>, _: Affine) {
        self.pictures += 1;
    }

    fn set_soft_mask(&mut self, _: Option<SoftMask<'_>>) {}
    fn set_blend_mode(&mut self, _: BlendMode) {}
    fn push_clip_path(&mut self, _: &ClipPath) {}
    fn push_transparency_group(&mut self, _: f32, _: Option<SoftMask<'_>>, _: BlendMode) {}
    fn pop_clip_path(&mut self) {}
    fn pop_transparency_group(&mut self) {}
}

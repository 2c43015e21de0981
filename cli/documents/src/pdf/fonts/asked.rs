//! What the interpreter knows of the names of glyphs. It does not hand over its lists, so it draws a document whose font has
//! these names.

use std::collections::{BTreeMap, HashMap};

use hayro_interpret::font::Glyph;
use hayro_interpret::hayro_cmap::BfString;
use hayro_interpret::hayro_syntax::Pdf;
use hayro_interpret::{
    BlendMode, ClipPath, Context, Device, GlyphDrawMode, Image, InterpreterCache, InterpreterSettings, Paint,
    PathDrawMode, SoftMask, interpret_page,
};
use kurbo::{Affine, BezPath, Rect};
use read_fonts::tables::post::DEFAULT_GLYPH_NAMES;

use super::type3::Widths;

/// Names that the interpreter is asked for at a time.
const NAMES_AT_ONCE: usize = 250;

/// Which characters these names stand for, as far as it knows them.
pub(super) fn characters(names: &[String]) -> HashMap<String, String> {
    let is_name = |name: &&String| name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let names: Vec<&String> = names.iter().filter(is_name).collect();
    let mut known = HashMap::new();
    for names in names.chunks(NAMES_AT_ONCE) {
        let list: String = names.iter().map(|name| format!("/{name} ")).collect();
        let font = format!("/Subtype /Type1 /BaseFont /Helvetica /Encoding << /Differences [1 {list}] >>");
        let codes = (1..=u8::MAX).take(names.len());
        let answers = names.iter().zip(drawn(&font, codes, &[]).characters);
        known.extend(answers.filter_map(|(name, text)| Some(((*name).clone(), text?))));
    }
    known
}

/// The names of glyphs by their codes in an encoding that has a name. Of two glyphs that are drawings of different widths, the
/// width tells which one is drawn.
pub(super) fn names_in_encoding(encoding: &str) -> BTreeMap<u8, &'static str> {
    // Standard names of glyphs; the currency is younger than their list.
    let names = || DEFAULT_GLYPH_NAMES.iter().copied().chain(["Euro"]);
    let glyphs: Vec<String> = (1..).zip(names()).map(|(width, _)| format!("0 0 {width} 1 re f")).collect();
    let list: String =
        (FIRST_GLYPH..).zip(names()).map(|(object, name)| format!("/{name} {object} 0 R ")).collect();
    let font = format!(
        "/Subtype /Type3 /FontBBox [0 0 999 1] /FontMatrix [.001 0 0 .001 0 0] /Encoding /{encoding} /CharProcs << {list} >>"
    );
    let widths = drawn(&font, 1..=u8::MAX, &glyphs).widths;
    let name = |width: f64| names().nth((width.round() as usize).checked_sub(1)?);
    (1..=u8::MAX).zip(widths).filter_map(|(code, width)| Some((code, name(width?)?))).collect()
}

/// The number of the first object that is a glyph in the document that is drawn.
const FIRST_GLYPH: usize = 5;

/// Draws these codes of a font, whose glyphs may be drawings with these contents.
fn drawn(font: &str, codes: impl Iterator<Item = u8>, glyphs: &[String]) -> Drawn {
    let stream = |number: usize, content: &str| {
        format!("{number} 0 obj\n<< /Length {} >>\nstream\n{content}\nendstream\nendobj\n", content.len())
    };
    let codes: String = codes.map(|code| format!("{code:02x}")).collect();
    let glyphs: String = (FIRST_GLYPH..).zip(glyphs).map(|(number, glyph)| stream(number, glyph)).collect();
    let document = format!(
        "%PDF-1.7\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n2 0 obj\n<< /Type /Pages /Kids [3 0 R] /Count 1 \
         >>\nendobj\n3 0 obj\n<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Resources << /Font << /F << /Type /Font {font} >> \
         >> >> >>\nendobj\n{}{glyphs}trailer\n<< /Root 1 0 R >>\n%%EOF\n",
        stream(FIRST_GLYPH - 1, &format!("BT /F 1 Tf <{codes}> Tj ET"))
    );
    let mut drawn = Drawn::default();
    if let Ok(pdf) = Pdf::new(document.into_bytes())
        && let Some(page) = pdf.pages().first()
    {
        let (cache, place) = (InterpreterCache::new(), Rect::new(0.0, 0.0, 1.0, 1.0));
        let settings = InterpreterSettings::default();
        interpret_page(
            page,
            &mut Context::new(Affine::IDENTITY, place, &cache, pdf.xref(), settings),
            &mut drawn,
        );
    }
    drawn
}

/// The characters of the glyphs that are drawn, and where those that are drawings end.
#[derive(Default)]
struct Drawn {
    characters: Vec<Option<String>>,
    widths: Vec<Option<f64>>,
    measured: Widths,
}

impl<'a> Device<'a> for Drawn {
    fn draw_glyph(&mut self, glyph: &Glyph<'a>, _: Affine, _: Affine, paint: &Paint<'a>, _: &GlyphDrawMode) {
        self.characters.push(glyph.as_unicode().map(|text| match text {
            BfString::Char(c) => c.to_string(),
            BfString::String(text) => text,
        }));
        if let Glyph::Type3(glyph) = glyph {
            self.widths.push(self.measured.of(glyph, paint));
        }
    }
    fn draw_path(&mut self, _: &BezPath, _: Affine, _: &Paint<'_>, _: &PathDrawMode) {}
    fn draw_image(&mut self, _: Image<'_, '_>, _: Affine) {}
    fn set_soft_mask(&mut self, _: Option<SoftMask<'_>>) {}
    fn set_blend_mode(&mut self, _: BlendMode) {}
    fn push_clip_path(&mut self, _: &ClipPath) {}
    fn push_transparency_group(&mut self, _: f32, _: Option<SoftMask<'_>>, _: BlendMode) {}
    fn pop_clip_path(&mut self) {}
    fn pop_transparency_group(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interpreter_knows_names_and_encodings() {
        let asked = characters(&["eacute", "unknown", "one", "uni20AC"].map(str::to_owned));
        assert_eq!(
            (asked["eacute"].as_str(), asked["one"].as_str(), asked["uni20AC"].as_str()),
            ("é", "1", "€")
        );
        assert!(!asked.contains_key("unknown"));
        let names = |code: u8| {
            ["WinAnsiEncoding", "MacRomanEncoding", "StandardEncoding", "Own"]
                .map(|encoding| names_in_encoding(encoding).get(&code).copied())
        };
        assert_eq!(names(b'A'), [Some("A"), Some("A"), Some("A"), None]);
        assert_eq!(names(0xe9), [Some("eacute"), Some("Egrave"), Some("Oslash"), None]);
        assert_eq!(names(0x80), [Some("Euro"), Some("Adieresis"), None, None]);
    }
}

//! The letters of the PNG, and how wide texts are. The fonts are those that hayro embeds for PDFs. They have
//! the widths of Helvetica, which Arial and Liberation Sans have too.

use std::collections::HashMap;
use std::sync::OnceLock;

use hayro_interpret::font::StandardFont;
use kurbo::{Affine, BezPath, Rect, Shape};
use skrifa::GlyphId;
use skrifa::outline::OutlinePen;
use skrifa::raw::ps::cff::CffFontRef;
use skrifa::raw::ps::encoding::PredefinedEncoding;
use unicode_width::UnicodeWidthChar;

/// Letters are read at this size of an em, which is that of their coordinates.
const UNITS: f32 = 1000.0;

/// Names of the glyphs from U+00A0 to U+00FF.
const LATIN_1: &str = "\
    space exclamdown cent sterling currency yen brokenbar section dieresis copyright ordfeminine \
    guillemotleft logicalnot hyphen registered macron degree plusminus twosuperior threesuperior acute \
    mu paragraph periodcentered cedilla onesuperior ordmasculine guillemotright onequarter onehalf \
    threequarters questiondown Agrave Aacute Acircumflex Atilde Adieresis Aring AE Ccedilla Egrave \
    Eacute Ecircumflex Edieresis Igrave Iacute Icircumflex Idieresis Eth Ntilde Ograve Oacute \
    Ocircumflex Otilde Odieresis multiply Oslash Ugrave Uacute Ucircumflex Udieresis Yacute Thorn \
    germandbls agrave aacute acircumflex atilde adieresis aring ae ccedilla egrave eacute ecircumflex \
    edieresis igrave iacute icircumflex idieresis eth ntilde ograve oacute ocircumflex otilde \
    odieresis divide oslash ugrave uacute ucircumflex udieresis yacute thorn ydieresis";

/// Names of more glyphs. The standard encoding has typographic quotation marks in place of the first two.
const MORE: [(char, &str); 11] = [
    ('\'', "quotesingle"),
    ('`', "grave"),
    ('–', "endash"),
    ('—', "emdash"),
    ('−', "minus"),
    ('…', "ellipsis"),
    ('‘', "quoteleft"),
    ('’', "quoteright"),
    ('“', "quotedblleft"),
    ('”', "quotedblright"),
    ('•', "bullet"),
];

/// Letters of one weight.
pub(crate) struct Font {
    glyphs: HashMap<char, Glyph>,
}

/// A letter. Lengths are in em; y points up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Glyph {
    pub outline: BezPath,
    pub width: f64,
}

impl Font {
    /// The regular or the bold font.
    pub(crate) fn get(bold: bool) -> &'static Font {
        static FONTS: [OnceLock<Font>; 2] = [OnceLock::new(), OnceLock::new()];
        let standard = if bold { StandardFont::HelveticaBold } else { StandardFont::Helvetica };
        FONTS[usize::from(bold)].get_or_init(|| Font::read(standard))
    }

    /// A font that cannot be read has no letters, so that all are boxes. A test makes sure that these can.
    fn read(standard: StandardFont) -> Font {
        let (data, _) = standard.get_font_data();
        Font { glyphs: read_glyphs((*data).as_ref()).unwrap_or_default() }
    }

    /// The letter for a character; a box where the font has none.
    pub(crate) fn glyph(&self, c: char) -> Glyph {
        self.glyphs.get(&c).cloned().unwrap_or_else(|| {
            let width = missing_width(c);
            let mut outline = BezPath::new();
            if width > 0.0 {
                let outer = Rect::new(0.08, 0.0, width - 0.08, 0.7);
                outline.extend(outer.to_path(0.1));
                outline.extend(outer.inset(-0.06).to_path(0.1).reverse_subpaths());
            }
            Glyph { outline, width }
        })
    }

    /// The width of a text of this size, in the unit of the size.
    pub(crate) fn width(&self, text: &str, size: f64) -> f64 {
        let em: f64 = text
            .chars()
            .map(|c| self.glyphs.get(&c).map_or_else(|| missing_width(c), |glyph| glyph.width))
            .sum();
        em * size
    }
}

/// The width in em of a character that the font lacks: that of common fonts for its script.
fn missing_width(c: char) -> f64 {
    match c.width() {
        None | Some(0) => 0.0,
        Some(1) => 0.6,
        Some(_) => 1.0,
    }
}

/// The letters of a font in the Compact Font Format.
fn read_glyphs(data: &[u8]) -> Option<HashMap<char, Glyph>> {
    let font = CffFontRef::new(data, 0, None).ok()?;
    let subfont = font.subfont(0, &[]).ok()?;
    let names = font.charset()?.iter().filter_map(|(id, name)| Some((font.string(name)?, id)));
    let ids: HashMap<&[u8], GlyphId> = names.collect();
    let ascii = (b' '..=b'~').map(|code| (char::from(code), PredefinedEncoding::Standard.name(code)));
    let latin_1 = ('\u{a0}'..).zip(LATIN_1.split_whitespace());
    // Later entries replace earlier ones.
    let glyphs = ascii.chain(latin_1).chain(MORE).filter_map(|(c, name)| {
        let id = *ids.get(name.as_bytes())?;
        let mut outline = Outline::default();
        let width = font.draw(&subfont, id, &[], Some(UNITS), &mut outline).ok()??;
        let em = 1.0 / f64::from(UNITS);
        Some((c, Glyph { outline: Affine::scale(em) * outline.0, width: em * f64::from(width) }))
    });
    Some(glyphs.collect())
}

#[derive(Default)]
struct Outline(BezPath);

impl OutlinePen for Outline {
    fn move_to(&mut self, x: f32, y: f32) {
        self.0.move_to((f64::from(x), f64::from(y)));
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.0.line_to((f64::from(x), f64::from(y)));
    }

    fn quad_to(&mut self, cx: f32, cy: f32, x: f32, y: f32) {
        self.0.quad_to((f64::from(cx), f64::from(cy)), (f64::from(x), f64::from(y)));
    }

    fn curve_to(&mut self, cx0: f32, cy0: f32, cx1: f32, cy1: f32, x: f32, y: f32) {
        let [first, second, end] =
            [(cx0, cy0), (cx1, cy1), (x, y)].map(|(x, y)| (f64::from(x), f64::from(y)));
        self.0.curve_to(first, second, end);
    }

    fn close(&mut self) {
        self.0.close_path();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_fonts_have_every_sign_that_charts_write() {
        let signs = (' '..='~').chain('\u{a1}'..='ÿ').chain(MORE.map(|(c, _)| c));
        for c in signs {
            for bold in [false, true] {
                let glyph =
                    Font::get(bold).glyphs.get(&c).unwrap_or_else(|| panic!("no {c:?}, bold: {bold}"));
                assert!(glyph.width > 0.1 && glyph.width < 1.1, "{c:?}: {}", glyph.width);
                assert!(c == ' ' || glyph.outline.area().abs() > 0.001, "{c:?} is empty");
            }
        }
    }

    #[test]
    fn widths_are_those_of_helvetica() {
        // From the metrics that Adobe published.
        assert!((Font::get(false).width("0123", 1000.0) - 4.0 * 556.0).abs() < 8.0);
        assert!((Font::get(false).width("Ai", 1000.0) - 889.0).abs() < 4.0);
        assert!((Font::get(false).width("-", 1000.0) - 333.0).abs() < 4.0);
        assert!((Font::get(false).width("−", 1000.0) - 584.0).abs() < 4.0);
        assert!((Font::get(false).width("ÿæ", 1000.0) - 1389.0).abs() < 8.0);
        assert!((Font::get(true).width("n", 1000.0) - 611.0).abs() < 4.0);
    }

    #[test]
    fn a_character_that_the_font_lacks_is_a_box() {
        let font = Font::get(false);
        let hanzi = font.glyph('船');
        assert_eq!(hanzi.width, 1.0);
        // A frame, not a filled area.
        let area = hanzi.outline.area().abs();
        assert!(area > 0.1 && area < 0.25, "{area}");
        assert_eq!(font.glyph('\u{301}').width, 0.0);
    }
}

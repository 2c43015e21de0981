//! Characters of glyphs in fonts with codes of two bytes, where the file does not say them: it has no table of characters
//! (`/ToUnicode`), or one with gaps. The codes of such a font are numbers of glyphs or anything else. Its program may still have
//! the table with which other programs find the glyph of a character (`cmap`), and that is read backwards. Where codes are
//! characters, that table says so, too.
//!
//! Codes of other fonts may stand in that table in place of characters, so it is not read there.

use std::collections::HashMap;
use std::sync::Arc;

use encoding_rs::WINDOWS_1252;
use hayro_interpret::font::OutlineGlyph;
use read_fonts::tables::cmap::{CmapIterLimits, PlatformId};
use read_fonts::{FontRef, TableProvider};
use unicode_normalization::UnicodeNormalization;

use super::codes::Tables;
use super::collections::TwoByteFonts;
use super::large_signs::LargeSigns;

/// Characters that are read from all tables of a document, and as how many a table counts at least.
const MAX_CHARACTERS: usize = 1 << 22;
const MIN_CHARACTERS: usize = 1 << 12;

/// What is known of a glyph of which the file says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pdf) enum GlyphText {
    Character(char),
    /// It draws nothing.
    Blank,
    Unknown,
}

/// The fonts of a document and their glyphs, by their keys.
#[derive(Debug)]
pub(in crate::pdf) struct Programs {
    fonts: TwoByteFonts,
    characters: HashMap<u128, HashMap<u32, char>>,
    glyphs: HashMap<(u128, u32), GlyphText>,
    /// Characters that may still be read.
    left: usize,
    pub(in crate::pdf) tables: Arc<Tables>,
    pub(in crate::pdf) signs: LargeSigns,
}

impl Programs {
    pub(in crate::pdf) fn new(fonts: TwoByteFonts) -> Programs {
        Programs {
            fonts,
            characters: HashMap::new(),
            glyphs: HashMap::new(),
            left: MAX_CHARACTERS,
            tables: Arc::new(Tables::new()),
            signs: LargeSigns::default(),
        }
    }

    /// What the program of its font says of a glyph. If it draws nothing, it is no character but a space.
    pub(in crate::pdf) fn read(&mut self, glyph: &OutlineGlyph) -> GlyphText {
        let key = (glyph.font_cache_key(), glyph.glyph_id().to_u32());
        if let Some(read) = self.glyphs.get(&key) {
            return *read;
        }
        let is_drawn = key.1 != 0 && !self.fonts.without_program.contains(&key.0);
        let is_blank = is_drawn && glyph.outline().is_empty();
        let read = match self.character(glyph) {
            Some(c) if c.is_whitespace() == is_blank => GlyphText::Character(c),
            _ if is_blank => GlyphText::Blank,
            _ => GlyphText::Unknown,
        };
        self.glyphs.insert(key, read);
        read
    }

    fn character(&mut self, glyph: &OutlineGlyph) -> Option<char> {
        let font = glyph.font_cache_key();
        if !self.fonts.with_program.contains(&font) {
            return None;
        }
        let left = &mut self.left;
        let characters = self.characters.entry(font).or_insert_with(|| {
            let data = glyph.font_data().map(|font| font.data);
            data.and_then(|data| characters((*data).as_ref(), left)).unwrap_or_default()
        });
        characters.get(&glyph.glyph_id().to_u32()).copied()
    }
}

/// The characters of the glyphs of a program by their numbers. `left` is how many may be read.
fn characters(program: &[u8], left: &mut usize) -> Option<HashMap<u32, char>> {
    let font = FontRef::new(program).ok()?;
    // Where outlines are those of PostScript, a glyph may have another number than the interpreter says.
    font.glyf().ok()?;
    let glyphs = u32::from(font.maxp().ok()?.num_glyphs());
    let cmap = font.cmap().ok()?;
    // The last ones have more characters, where several are of Unicode.
    let table = cmap.encoding_records().iter().rev().find_map(|record| {
        let is_unicode = match record.platform_id() {
            PlatformId::Unicode => record.encoding_id() != 5,
            PlatformId::Windows => matches!(record.encoding_id(), 1 | 10),
            _ => false,
        };
        is_unicode.then(|| record.subtable(cmap.offset_data()).ok()).flatten()
    })?;
    let pairs = table.iter_with_limits(CmapIterLimits::default()).take(*left);
    let mut pairs: Vec<(u32, u32)> = pairs.map(|(c, glyph)| (glyph.to_u32(), c)).collect();
    *left = left.saturating_sub(pairs.len().max(MIN_CHARACTERS));
    // A table ends with 0xffff, which is no character and may have any glyph.
    pairs.retain(|(glyph, c)| *glyph != 0 && *c != 0xffff);
    // Programs that make a part of a font may write numbers of glyphs for characters, or keep the table of the whole font when
    // they number its glyphs anew.
    if pairs.iter().all(|(glyph, c)| glyph == c) || pairs.iter().any(|(glyph, _)| *glyph >= glyphs) {
        return None;
    }
    pairs.sort_unstable();
    let glyphs = pairs.chunk_by(|a, b| a.0 == b.0);
    let one = |pairs: &[(u32, u32)]| one_of(pairs.iter().filter_map(|(_, c)| char::from_u32(*c)));
    Some(glyphs.filter_map(|pairs| Some((pairs[0].0, one(pairs)?))).collect())
}

/// The character that a glyph stands for which several characters have. Letters and digits that look alike are not told apart.
fn one_of(characters: impl Iterator<Item = char>) -> Option<char> {
    // The character that it is a form of.
    let plain = |c: char| {
        let mut plain = std::iter::once(c).nfkc();
        plain.next().filter(|_| plain.next().is_none()).unwrap_or(c)
    };
    // Small signs beside letters look like other signs.
    let is_letter = |c: &char| c.is_alphanumeric() && !matches!(c, '\u{2b0}'..='\u{2ff}');
    let is_private = |c: char| matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..);
    let characters: Vec<char> = characters.filter(|c| !c.is_control() && !is_private(*c)).collect();
    if let [only] = characters[..] {
        return Some(only);
    }
    let mut of_letters = characters.iter().map(|c| plain(*c)).filter(is_letter);
    if let Some(first) = of_letters.next()
        && of_letters.any(|c| c != first)
    {
        return None;
    }
    let is_common = |c: char| !WINDOWS_1252.encode(c.encode_utf8(&mut [0; 4])).2;
    characters.into_iter().min_by_key(|c| (plain(*c) != *c, !is_common(*c), !is_letter(c), *c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_several_characters_is_read() {
        let one = |characters: &str| one_of(characters.chars());
        for (characters, expected) in [
            ("a", 'a'),
            (" \u{a0}", ' '),
            ("-\u{ad}\u{2010}\u{2011}", '-'),
            ("\u{2bc}\u{2019}", '’'),
            ("\u{2f00}\u{4e00}", '一'),
            ("\u{b5}\u{3bc}", 'μ'),
            ("\u{394}\u{2206}", 'Δ'),
            ("\u{2012}\u{2013}", '–'),
            ("\u{fe8d}\u{627}", 'ا'),
            ("\u{f041}A\r", 'A'),
            ("ﬁ", 'ﬁ'),
        ] {
            assert_eq!(one(characters), Some(expected), "{characters}");
        }
        assert_eq!(
            (one("A\u{410}"), one("\u{d0}\u{110}"), one("\u{661}\u{6f1}"), one("\u{f041}"), one("\r\u{1}")),
            (None, None, None, None, None)
        );
    }

    /// Many fonts may have a small program with as many characters as there are.
    #[test]
    fn so_many_characters_are_read_from_all_programs() {
        let words = |words: &[u16]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
        // All characters from 1 on have the glyph of the number before.
        let cmap = words(&[0, 1, 3, 1, 0, 12, 4, 24, 0, 2, 0, 0, 0, 0xfffe, 0, 1, 0xffff, 0]);
        let size = words(&[0, 0x5000, 0xffff]);
        let mut program = words(&[1, 0, 3, 0, 0, 0]);
        let places = [(b"cmap", 66, cmap.len() as u16), (b"glyf", 66, 0), (b"maxp", 60, size.len() as u16)];
        for (name, start, length) in places {
            program.extend(name);
            program.extend(words(&[0, 0, 0, start, 0, length]));
        }
        program.extend(&size);
        program.extend(&cmap);
        let mut left = 100_000;
        let read = characters(&program, &mut left).expect("all characters");
        assert_eq!((read.get(&0x40), read.get(&0xf0ff), left), (Some(&'A'), None, 100_000 - 0xfffe));
        let read = characters(&program, &mut left).expect("some characters");
        assert_eq!((read.get(&0x40), read.get(&0x9000), left), (Some(&'A'), None, 0));
        assert_eq!(characters(&program, &mut left), None);
    }
}

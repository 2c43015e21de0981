//! Fonts whose glyphs have names that the interpreter does not know: `f_f_i`, `a.sc`, `uni00660069`, those of TeX for
//! mathematical signs, all names of fonts whose glyphs are drawings (Type 3), and symbol fonts that name none. Such a font gets
//! a table of its characters (`/ToUnicode`), which the interpreter reads. Names consist of parts, as Adobe's rules for names
//! say. Which character a part is, the interpreter is asked (`asked.rs`): it knows the list of names, so that no second list is
//! needed here. Names that are nothing but codes are read in `tex_codes.rs`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::iter;

use hayro_interpret::hayro_syntax::Pdf;
use hayro_interpret::hayro_syntax::object::{Array, Dict, Name, Number, Object, ObjectIdentifier, Stream};
use hayro_interpret::hayro_syntax::page::Resources;
use read_fonts::tables::cmap::PlatformId;
use read_fonts::{FontRef, TableProvider};

use super::super::fields;
use super::super::file::changes::{FIRST_OBJECT, MAX_OBJECTS, Objects};
use super::collections::{Collections, TwoByteFonts};
use super::{asked, tex_codes, tex_names, type3};
use crate::writer::symbols;

/// Forms in forms that are looked into for fonts.
const MAX_DEPTH: usize = 16;
/// Fonts that get a table.
const MAX_FONTS: usize = MAX_OBJECTS / 2;
/// A font has so many codes.
const CODES: usize = 256;
/// The names of a font's program are looked for in so many bytes.
const PROGRAM_HEAD: usize = 32 << 10;
/// Encodings that have a name.
const ENCODINGS: [&str; 3] = ["WinAnsiEncoding", "MacRomanEncoding", "StandardEncoding"];

/// The fonts of a document that the interpreter does not know enough of.
pub(in crate::pdf) struct Found {
    /// Those whose glyphs have such names, with their tables, and those whose glyphs are of a collection, without their programs.
    pub(in crate::pdf) objects: Objects,
    pub(in crate::pdf) two_byte: TwoByteFonts,
}

/// Looks at the fonts of a document.
pub(in crate::pdf) fn find(pdf: &Pdf) -> Found {
    let mut fonts = Fonts::default();
    for page in pdf.pages().iter() {
        // Parts of the tree of pages may have some for all of their pages.
        iter::successors(Some(page.resources()), |resources| resources.parent())
            .for_each(|resources| fonts.add(resources, 0));
        fields::resources_of_appearances(page).for_each(|resources| fonts.add(&resources, 0));
    }
    let mut objects = tables(&fonts);
    objects.extend(fonts.collections.objects);
    Found { objects, two_byte: fonts.collections.fonts }
}

/// The fonts with names, with their tables.
fn tables(fonts: &Fonts<'_>) -> Objects {
    if fonts.names.is_empty() {
        return Objects::new();
    }
    let all_parts = |name: &String| -> Vec<String> {
        parts(name)
            .flat_map(|part| [Some(part), tex_names::without_size(part)])
            .flatten()
            .map(str::to_owned)
            .collect()
    };
    let parts: BTreeSet<String> =
        fonts.names.iter().flat_map(|font| font.names.values()).flat_map(all_parts).collect();
    let characters = asked::characters(&parts.into_iter().collect::<Vec<_>>());
    let mut objects = Vec::new();
    for (i, font) in fonts.names.iter().enumerate() {
        let Some(table) = table(&font.names, &characters, &font.widths) else { continue };
        let number = FIRST_OBJECT + i;
        let Some(dictionary) = font.dictionary.data().strip_suffix(b">>") else { continue };
        let dictionary = [dictionary, format!(" /ToUnicode {number} 0 R >>").as_bytes()].concat();
        objects.push((font.id.obj_number as usize, dictionary));
        let stream = format!("<< /Length {} >>\nstream\n{table}\nendstream", table.len());
        objects.push((number, stream.into_bytes()));
    }
    objects
}

/// A font and the names of its glyphs by their codes.
struct NamedFont<'a> {
    id: ObjectIdentifier,
    dictionary: Dict<'a>,
    names: BTreeMap<u8, String>,
    /// The widths of glyphs that are drawings by their codes, in sizes of the font.
    widths: BTreeMap<u8, f64>,
}

/// The fonts of a document.
#[derive(Default)]
struct Fonts<'a> {
    /// Those that need a table.
    names: Vec<NamedFont<'a>>,
    collections: Collections,
    seen: BTreeSet<(i32, i32)>,
    /// The names of glyphs in encodings.
    encodings: HashMap<&'static str, BTreeMap<u8, &'static str>>,
    /// Numbers and glyphs that several fonts may have, by their objects.
    shared: HashMap<(i32, i32), Vec<f64>>,
    shared_glyphs: HashMap<(i32, i32), Option<Dict<'a>>>,
}

impl<'a> Fonts<'a> {
    fn is_new(&mut self, id: ObjectIdentifier) -> bool {
        self.seen.insert((id.obj_number, id.gen_number))
    }

    /// The widths of a font's glyphs that are drawings.
    fn widths(&mut self, font: &Dict<'_>) -> BTreeMap<u8, f64> {
        if font.get::<Name<'_>>("Subtype").as_deref() != Some(b"Type3") {
            return BTreeMap::new();
        }
        let (widths, matrix) = (self.numbers(font, "Widths"), self.numbers(font, "FontMatrix"));
        let first = font.get::<i64>("FirstChar").unwrap_or_default();
        let scale = matrix.first().copied().unwrap_or(0.001);
        let codes = (0..).map_while(|i| first.checked_add(i)).map(u8::try_from);
        codes.zip(widths).filter_map(|(code, width)| Some((code.ok()?, width * scale))).collect()
    }

    /// The numbers of an array of a font. Many fonts may share it, and to find the end of a long one takes time.
    fn numbers(&mut self, font: &Dict<'_>, key: &str) -> Vec<f64> {
        let read = || {
            let numbers = font.get::<Array<'_>>(key);
            numbers.map(|numbers| numbers.iter().take(CODES).collect()).unwrap_or_default()
        };
        match font.get_ref(key).map(ObjectIdentifier::from) {
            Some(id) => self.shared.entry((id.obj_number, id.gen_number)).or_insert_with(read).clone(),
            None => read(),
        }
    }

    /// The names of a font's glyphs by their codes, if it needs a table.
    fn names_of(&mut self, font: &Dict<'a>) -> Option<BTreeMap<u8, String>> {
        let are_drawings = match font.get::<Name<'_>>("Subtype")?.as_ref() {
            b"Type3" => true,
            b"Type1" | b"MMType1" | b"TrueType" => false,
            _ => return None,
        };
        if font.contains_key("ToUnicode") {
            return None;
        }
        if let Some(names) = names_of_symbols(font) {
            return Some(names);
        }
        let differences =
            font.get::<Dict<'_>>("Encoding").and_then(|encoding| encoding.get::<Array<'_>>("Differences"));
        let names = match differences.map(|differences| names_of_differences(&differences)) {
            differences if are_drawings => {
                let mut names = self.names_of_drawings(font);
                names.extend(differences.into_iter().flatten());
                names
            }
            Some(names) => names,
            None if font.contains_key("Encoding") => return None,
            None => {
                names_of_program(&font.get::<Dict<'_>>("FontDescriptor")?.get::<Stream<'_>>("FontFile")?)?
            }
        };
        let needs_table = are_drawings || names.values().any(|name| is_unknown(name));
        (needs_table && !names.is_empty()).then_some(names)
    }

    /// The names of a font's glyphs that are drawings, as far as its encoding has a name and it has these glyphs.
    fn names_of_drawings(&mut self, font: &Dict<'a>) -> BTreeMap<u8, String> {
        let base = || font.get::<Dict<'_>>("Encoding")?.get::<Name<'_>>("BaseEncoding");
        let encoding = font.get::<Name<'_>>("Encoding").or_else(base);
        let encoding = encoding.and_then(|name| ENCODINGS.into_iter().find(|known| *known == name.as_str()));
        let Some((encoding, glyphs)) = encoding.and_then(|encoding| Some((encoding, self.drawings(font)?)))
        else {
            return BTreeMap::new();
        };
        let names =
            self.encodings.entry(encoding).or_insert_with(|| asked::names_in_encoding(encoding)).iter();
        let has_glyph = |name: &str| glyphs.contains_key(name);
        names.filter(|(_, name)| has_glyph(name)).map(|(code, name)| (*code, (*name).to_owned())).collect()
    }

    /// The glyphs of a font that are drawings, by their names. Many fonts may share them, and to read many takes time.
    fn drawings(&mut self, font: &Dict<'a>) -> Option<Dict<'a>> {
        let read = || font.get::<Dict<'_>>("CharProcs");
        match font.get_ref("CharProcs").map(ObjectIdentifier::from) {
            Some(id) => self.shared_glyphs.entry((id.obj_number, id.gen_number)).or_insert_with(read).clone(),
            None => read(),
        }
    }

    /// Adds those of a page or a form, and of the forms that it draws.
    fn add(&mut self, resources: &Resources<'a>, depth: usize) {
        for key in resources.fonts.keys() {
            let Some(id) = resources.fonts.get_ref(&*key).map(ObjectIdentifier::from) else { continue };
            if !self.is_new(id) {
                continue;
            }
            let Some(dictionary) = resources.fonts.get::<Dict<'_>>(&*key) else { continue };
            if dictionary.get::<Name<'_>>("Subtype").as_deref() == Some(b"Type0") {
                self.collections.add(id, &dictionary);
            }
            if self.names.len() < MAX_FONTS
                && let Some(names) = self.names_of(&dictionary)
            {
                let widths = self.widths(&dictionary);
                let names = tex_codes::names(&names, &widths).unwrap_or(names);
                self.names.push(NamedFont { id, dictionary, names, widths });
            }
        }
        if depth == MAX_DEPTH {
            return;
        }
        for key in resources.x_objects.keys() {
            let Some(id) = resources.x_objects.get_ref(&*key).map(ObjectIdentifier::from) else { continue };
            if self.is_new(id)
                && let Some(form) = resources.x_objects.get::<Stream<'_>>(&*key)
                && form.dict().get::<Name<'_>>("Subtype").as_deref() == Some(b"Form")
                && let Some(inner) = form.dict().get::<Dict<'_>>("Resources")
            {
                self.add(&Resources::from_parent(inner, resources.clone()), depth + 1);
            }
        }
    }
}

/// The names of a symbol font's glyphs, if the font itself does not name them: by the character that each stands for.
fn names_of_symbols(font: &Dict<'_>) -> Option<BTreeMap<u8, String>> {
    let encoding = font.get::<Dict<'_>>("Encoding");
    let descriptor = font.get::<Dict<'_>>("FontDescriptor");
    let has_program =
        |kind: &str| descriptor.as_ref().is_some_and(|descriptor| descriptor.contains_key(kind));
    let program = descriptor.as_ref().and_then(|descriptor| descriptor.get::<Stream<'_>>("FontFile2"));
    if encoding.is_some_and(|encoding| encoding.contains_key("Differences"))
        || has_program("FontFile")
        || has_program("FontFile3")
        || program.is_some_and(|program| !has_symbol_codes(&program))
    {
        return None;
    }
    let base = font.get::<Name<'_>>("BaseFont")?;
    // A part of a font has six letters before its name.
    let base = base.as_str().split_once('+').map_or(base.as_str(), |(_, name)| name);
    let mut base = base.split([',', '-']);
    let family = match (base.next()?, base.next()) {
        ("Symbol" | "SymbolMT", _) => "Symbol",
        ("ZapfDingbats", _) => "ZapfDingbats",
        ("Wingdings2", _) | ("Wingdings", Some("2")) => "Wingdings 2",
        ("Wingdings3", _) | ("Wingdings", Some("3")) => "Wingdings 3",
        ("Wingdings", _) => "Wingdings",
        ("Webdings", _) => "Webdings",
        _ => return None,
    };
    let name = |code: u8| {
        let sign = match symbols::sign(family, u32::from(code)) {
            Some(sign) => u16::try_from(u32::from(sign)).ok()?,
            // A sign that is not known is no letter: as one of private use it is counted.
            None if family.contains("dings") => match code {
                b' ' => 0x20,
                _ => 0xe000 + u16::from(code),
            },
            None => return None,
        };
        Some((code, format!("uni{sign:04X}")))
    };
    Some((0x20..=0xff).filter_map(name).collect())
}

/// Whether a TrueType program says that its codes are those of a symbol font: its table `cmap` has one for Windows symbols
/// (3, 0). A part of a font may have codes of its own.
fn has_symbol_codes(program: &Stream<'_>) -> bool {
    let program = program.decoded().ok();
    let cmap = program.as_ref().and_then(|program| FontRef::new(program).ok()?.cmap().ok());
    cmap.is_some_and(|cmap| {
        let mut codes = cmap.encoding_records().iter();
        codes.any(|codes| codes.platform_id() == PlatformId::Windows && codes.encoding_id() == 0)
    })
}

fn names_of_differences(differences: &Array<'_>) -> BTreeMap<u8, String> {
    let mut names = BTreeMap::new();
    let mut code = 0;
    for entry in differences.iter::<Object<'_>>() {
        match entry {
            Object::Number(number) => code = Number::as_i64(&number),
            Object::Name(name) => {
                if let Ok(code) = u8::try_from(code) {
                    names.insert(code, name.as_str().to_owned());
                }
                code = code.saturating_add(1);
            }
            _ => {}
        }
    }
    names
}

/// The names that the program of a font begins with: `dup 65 /A put`.
fn names_of_program(program: &Stream<'_>) -> Option<BTreeMap<u8, String>> {
    let program = program.decoded().ok()?;
    let head = String::from_utf8_lossy(&program[..program.len().min(PROGRAM_HEAD)]).into_owned();
    let names = head.split("dup ").skip(1).filter_map(|entry| {
        let (code, name) = entry.split_once('/')?;
        let name = name.split_ascii_whitespace().next()?;
        Some((code.trim().parse().ok()?, name.to_owned()))
    });
    Some(names.collect())
}

/// Whether the interpreter does not know a name: because it has parts, or is one of TeX.
fn is_unknown(name: &str) -> bool {
    let has_parts =
        name.trim_start_matches('.').contains(['_', '.']) || (name.starts_with("uni") && name.len() > 7);
    has_parts || tex_names::characters(name).is_some() || tex_names::without_size(name).is_some()
}

/// The parts of a name. What comes after a dot tells how they look.
fn parts(name: &str) -> impl Iterator<Item = &str> {
    name.split('.').next().unwrap_or_default().split('_').filter(|part| !part.is_empty())
}

/// Several characters in one part: `uni` and four hexadecimal digits for each.
fn several(part: &str) -> Option<String> {
    let digits =
        part.strip_prefix("uni").filter(|digits| digits.len() > 4 && digits.len().is_multiple_of(4))?;
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let units: Option<Vec<u16>> =
        (0..digits.len()).step_by(4).map(|at| u16::from_str_radix(&digits[at..at + 4], 16).ok()).collect();
    String::from_utf16(&units?).ok()
}

/// The characters of a part of a name. `asked` has those that the interpreter knows.
fn characters_of(part: &str, asked: &HashMap<String, String>) -> Option<String> {
    let known =
        |name: &str| tex_names::characters(name).map(str::to_owned).or_else(|| asked.get(name).cloned());
    several(part).or_else(|| known(part)).or_else(|| known(tex_names::without_size(part)?))
}

/// The table of characters of a font; none if no name is known. It has the widths that are given, too.
fn table(
    names: &BTreeMap<u8, String>,
    characters: &HashMap<String, String>,
    widths: &BTreeMap<u8, f64>,
) -> Option<String> {
    let mut table = String::new();
    for (code, name) in names {
        let text: Option<String> = parts(name).map(|part| characters_of(part, characters)).collect();
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            let width = widths.get(code);
            let text = width.map_or_else(|| text.clone(), |width| type3::with_width(&text, *width));
            let utf16: String = text.encode_utf16().map(|unit| format!("{unit:04x}")).collect();
            table += &format!("1 beginbfchar <{code:02x}> <{utf16}> endbfchar\n");
        }
    }
    (!table.is_empty()).then(|| format!("1 begincodespacerange <00> <ff> endcodespacerange\n{table}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_parts() {
        for (name, expected) in
            [("f_f_i.alt", &["f", "f", "i"][..]), ("a.sc", &["a"]), ("space", &["space"]), (".notdef", &[])]
        {
            assert_eq!(parts(name).collect::<Vec<_>>(), expected);
        }
        assert_eq!(several("uni00660069").as_deref(), Some("fi"));
        assert_eq!((several("uni0066"), several("unimportant"), several("uniéé00")), (None, None, None));
        for (name, expected) in [
            ("f_i", true),
            ("a.sc", true),
            ("floorleftBig", true),
            ("prime", true),
            (".notdef", false),
            ("context", false),
        ] {
            assert_eq!(is_unknown(name), expected, "{name}");
        }
    }
}

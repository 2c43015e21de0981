//! Fonts whose glyphs have names that the interpreter does not know: `f_f_i`, `a.sc`, `uni00660069`, those of TeX for
//! mathematical signs, all names of fonts whose glyphs are drawings (Type 3), and symbol fonts that name none. Such a font gets
//! a table of its characters (`/ToUnicode`), which the interpreter reads. Names consist of parts, as Adobe's rules for names
//! say. Which character a part is, the interpreter is asked: it knows the list of names, so that no second list is needed here.
//! Names that are nothing but codes are read in `tex_codes.rs`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use hayro_interpret::font::Glyph;
use hayro_interpret::hayro_cmap::BfString;
use hayro_interpret::hayro_syntax::Pdf;
use hayro_interpret::hayro_syntax::object::{Array, Dict, Name, Number, Object, ObjectIdentifier, Stream};
use hayro_interpret::hayro_syntax::page::Resources;
use hayro_interpret::{
    BlendMode, ClipPath, Context, Device, GlyphDrawMode, Image, InterpreterCache, InterpreterSettings, Paint,
    PathDrawMode, SoftMask, interpret_page,
};
use kurbo::{Affine, BezPath, Rect};
use read_fonts::tables::cmap::PlatformId;
use read_fonts::{FontRef, TableProvider};

use super::super::file::changes::{FIRST_OBJECT, MAX_OBJECTS, Objects};
use super::{tex_codes, tex_names, type3};
use crate::writer::symbols;

/// Forms in forms that are looked into for fonts.
const MAX_DEPTH: usize = 16;
/// Fonts that get a table.
const MAX_FONTS: usize = MAX_OBJECTS / 2;
/// A font has so many codes.
const CODES: usize = 256;
/// The names of a font's program are looked for in so many bytes.
const PROGRAM_HEAD: usize = 32 << 10;
/// Parts of names that the interpreter is asked for at a time.
const PARTS_AT_ONCE: usize = 250;

/// Such fonts with their tables.
pub(in crate::pdf) fn tables(pdf: &Pdf) -> Objects {
    let mut fonts = Fonts::default();
    for page in pdf.pages().iter() {
        fonts.add(page.resources(), 0);
    }
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
    let characters = ask(&parts.into_iter().collect::<Vec<_>>());
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

/// The fonts of a document that need a table.
#[derive(Default)]
struct Fonts<'a> {
    names: Vec<NamedFont<'a>>,
    seen: BTreeSet<(i32, i32)>,
    /// Numbers that several fonts may have, by their objects.
    shared: HashMap<(i32, i32), Vec<f64>>,
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

    /// Adds those of a page or a form, and of the forms that it draws.
    fn add(&mut self, resources: &Resources<'a>, depth: usize) {
        for key in resources.fonts.keys() {
            let Some(id) = resources.fonts.get_ref(&*key).map(ObjectIdentifier::from) else { continue };
            if self.is_new(id)
                && self.names.len() < MAX_FONTS
                && let Some(dictionary) = resources.fonts.get::<Dict<'_>>(&*key)
                && let Some(names) = names(&dictionary)
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

/// The names of a font's glyphs by their codes, if it needs a table.
fn names(font: &Dict<'_>) -> Option<BTreeMap<u8, String>> {
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
    let names = match differences {
        Some(differences) => names_of_differences(&differences),
        None if font.contains_key("Encoding") => return None,
        None => names_of_program(&font.get::<Dict<'_>>("FontDescriptor")?.get::<Stream<'_>>("FontFile")?)?,
    };
    let needs_table = are_drawings || names.values().any(|name| is_unknown(name));
    (needs_table && !names.is_empty()).then_some(names)
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
    let units: Option<Vec<u16>> = (0..digits.len())
        .step_by(4)
        .map(|at| u16::from_str_radix(digits.get(at..at + 4)?, 16).ok())
        .collect();
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

/// Asks the interpreter which characters these names stand for, with a document whose font has them.
fn ask(names: &[String]) -> HashMap<String, String> {
    let is_name = |name: &&String| name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let names: Vec<&String> = names.iter().filter(is_name).collect();
    let mut known = HashMap::new();
    for names in names.chunks(PARTS_AT_ONCE) {
        let list: String = names.iter().map(|name| format!("/{name} ")).collect();
        let codes: String = (1..=names.len()).map(|code| format!("{code:02x}")).collect();
        let content = format!("BT /F 1 Tf <{codes}> Tj ET");
        let document = format!(
            "%PDF-1.7\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n2 0 obj\n<< /Type /Pages /Kids [3 0 R] /Count 1 \
             >>\nendobj\n3 0 obj\n<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Resources << /Font << /F << /Type /Font \
             /Subtype /Type1 /BaseFont /Helvetica /Encoding << /Differences [1 {list}] >> >> >> >> >>\nendobj\n4 0 \
             obj\n<< /Length {} >>\nstream\n{content}\nendstream\nendobj\ntrailer\n<< /Root 1 0 R >>\n%%EOF\n",
            content.len()
        );
        let Ok(pdf) = Pdf::new(document.into_bytes()) else { continue };
        let Some(page) = pdf.pages().first() else { continue };
        let (cache, mut asked) = (InterpreterCache::new(), Asked::default());
        let place = Rect::new(0.0, 0.0, 1.0, 1.0);
        let settings = InterpreterSettings::default();
        interpret_page(
            page,
            &mut Context::new(Affine::IDENTITY, place, &cache, pdf.xref(), settings),
            &mut asked,
        );
        let answers = names.iter().zip(asked.0).filter_map(|(name, text)| Some(((*name).clone(), text?)));
        known.extend(answers);
    }
    known
}

/// The characters of the glyphs that are drawn.
#[derive(Default)]
struct Asked(Vec<Option<String>>);

impl Device<'_> for Asked {
    fn draw_glyph(&mut self, glyph: &Glyph<'_>, _: Affine, _: Affine, _: &Paint<'_>, _: &GlyphDrawMode) {
        self.0.push(glyph.as_unicode().map(|text| match text {
            BfString::Char(c) => c.to_string(),
            BfString::String(text) => text,
        }));
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
        let asked = ask(&["eacute", "unknown", "one", "uni20AC"].map(str::to_owned));
        assert_eq!(
            (asked["eacute"].as_str(), asked["one"].as_str(), asked["uni20AC"].as_str()),
            ("é", "1", "€")
        );
        assert!(!asked.contains_key("unknown"));
    }
}

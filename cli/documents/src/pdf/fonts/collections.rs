//! Chinese, Japanese and Korean fonts that do not say their characters, but name an encoding or one of Adobe's collections.
//!
//! Codes of some encodings are those of Unicode. Such a font gets a table of its characters (`/ToUnicode`) that says so: it may
//! have more characters than its collection. For others the interpreter has tables of the collections, but reads them only where
//! the program of a font is not in the file. So programs are hidden from it: text needs no outlines.

use std::collections::{HashMap, HashSet};

use hayro_interpret::CacheKey;
use hayro_interpret::hayro_cmap::{BfString, CMap, CMapName, CidFamily, load_embedded};
use hayro_interpret::hayro_syntax::Pdf;
use hayro_interpret::hayro_syntax::object::{self, Array, Dict, Name, ObjectIdentifier, Stream};
use memchr::memmem;
use read_fonts::ps::cff::dict::{Entry, entries};
use read_fonts::ps::cff::v1::Cff;
use read_fonts::types::Tag;
use read_fonts::{FontData, FontRead, FontRef, TableProvider};

use super::super::file::changes::{self, FIRST_OBJECT, MAX_OBJECTS, Objects};

/// The number of the first table of Unicode; there are fewer encodings. The numbers before it are for other changes.
const FIRST_TABLE: usize = FIRST_OBJECT + MAX_OBJECTS / 2;
const MAX_TABLES: usize = 100;
/// The number of the first description of glyphs that is added.
const FIRST_DESCRIPTION: usize = FIRST_TABLE + MAX_TABLES;
const MAX_DESCRIPTIONS: usize = MAX_OBJECTS / 2 - MAX_TABLES;
/// Bytes of programs that are decoded to find the collections that they name; the last one may have more.
const MAX_DECODED: usize = 200 << 20;

/// What a font with codes of two bytes says of its glyphs.
#[derive(Clone, Default)]
struct Glyphs {
    has_program: bool,
    /// Which of the descriptions without a program is that of these glyphs, if they are of a collection that is known.
    description: Option<usize>,
    /// Whether the program itself says that its glyphs have the numbers of the collection.
    has_numbers: bool,
}

/// The fonts of a document with codes of two bytes, by their keys.
#[derive(Debug, Default)]
pub(in crate::pdf) struct TwoByteFonts {
    pub(super) with_program: HashSet<u128>,
    /// Those that have no program, or whose program is hidden: their glyphs are drawn with another font, which may have none.
    pub(super) without_program: HashSet<u128>,
    /// Those that are changed, and whether they have a program then.
    changed: Vec<(ObjectIdentifier, bool)>,
}

impl TwoByteFonts {
    fn keys(&mut self, has_program: bool) -> &mut HashSet<u128> {
        if has_program { &mut self.with_program } else { &mut self.without_program }
    }

    /// Adds the keys that fonts have in a document that is changed; in one that cannot be changed they have their own.
    pub(in crate::pdf) fn add_changed(&mut self, pdf: &Pdf) {
        for (id, has_program) in std::mem::take(&mut self.changed) {
            let key = pdf.xref().get::<Dict<'_>>(id).map(|font| font.cache_key());
            if let Some(key) = key.filter(|key| !self.with_program.contains(key)) {
                self.keys(has_program).insert(key);
            }
        }
    }
}

/// Finds the fonts of a document with codes of two bytes, and changes some.
#[derive(Default)]
pub(super) struct Collections {
    /// Fonts and descriptions of their glyphs in place of those that the file has.
    pub(super) objects: Objects,
    pub(super) fonts: TwoByteFonts,
    /// The encodings that have a table of Unicode.
    encodings: Vec<Vec<u8>>,
    /// Descriptions of glyphs without a program, until they are among the objects.
    descriptions: Vec<Vec<u8>>,
    /// What several fonts may have, by its object.
    glyphs: HashMap<ObjectIdentifier, Glyphs>,
    /// The collections that programs name, and how many bytes of programs were decoded for that.
    programs: HashMap<ObjectIdentifier, Option<Collection>>,
    decoded: usize,
}

/// A registry and the name of a collection there.
type Collection = [Vec<u8>; 2];

impl Collections {
    pub(super) fn add(&mut self, id: ObjectIdentifier, font: &Dict<'_>) {
        let glyphs = self.glyphs_of(font).unwrap_or_default();
        self.fonts.keys(glyphs.has_program).insert(font.cache_key());
        if font.get::<Stream<'_>>("ToUnicode").is_some() {
            return;
        }
        let encoding = font.get::<Name<'_>>("Encoding");
        let encoding = encoding.as_deref().unwrap_or_default();
        if is_unicode(encoding) {
            let table = self.unicode_table(encoding);
            self.fonts.changed.push((id, glyphs.has_program));
            self.change(id, font, &format!("/ToUnicode {table} 0 R"));
        } else if let Some(description) = glyphs.description
            && (glyphs.has_numbers || has_known_codes(encoding))
        {
            let number = FIRST_DESCRIPTION + description;
            self.fonts.changed.push((id, false));
            self.change(id, font, &format!("/DescendantFonts [{number} 0 R]"));
            let description = std::mem::take(&mut self.descriptions[description]);
            if !description.is_empty() {
                self.objects.push((number, description));
            }
        }
    }

    /// The number of the table of Unicode for an encoding. All that are not known have one.
    fn unicode_table(&mut self, encoding: &[u8]) -> usize {
        let is_known = !matches!(CMapName::from_bytes(encoding), CMapName::Custom(_));
        let encoding = if is_known { encoding } else { &[] };
        let known = self.encodings.iter().position(|known| known == encoding);
        let table = known.unwrap_or_else(|| {
            let table = unicode_table(encoding).into_bytes();
            self.objects.push((FIRST_TABLE + self.encodings.len(), table));
            self.encodings.push(encoding.to_vec());
            self.encodings.len() - 1
        });
        FIRST_TABLE + table
    }

    /// Gives a font this entry in place of its own, and of a name in place of a table of characters.
    fn change(&mut self, id: ObjectIdentifier, font: &Dict<'_>, entry: &str) {
        let key = entry.split(' ').next().unwrap_or_default();
        let mut changed = changes::without(font, &[key.as_bytes(), b"/ToUnicode"]);
        changed.extend(format!(" {entry} >>").bytes());
        self.objects.push((id.obj_number as usize, changed));
    }

    fn glyphs_of(&mut self, font: &Dict<'_>) -> Option<Glyphs> {
        let list = font.get_ref("DescendantFonts").map(ObjectIdentifier::from);
        if let Some(glyphs) = list.and_then(|id| self.glyphs.get(&id)) {
            return Some(glyphs.clone());
        }
        let descriptions = font.get::<Array<'_>>("DescendantFonts")?;
        let own = descriptions.raw_iter().next()?.as_obj_ref().map(ObjectIdentifier::from);
        let glyphs = match own.and_then(|id| self.glyphs.get(&id)) {
            Some(glyphs) => glyphs.clone(),
            None => self.read(&descriptions.iter::<Dict<'_>>().next()?),
        };
        self.glyphs.extend([list, own].into_iter().flatten().map(|id| (id, glyphs.clone())));
        Some(glyphs)
    }

    /// Reads the description of a font's glyphs.
    fn read(&mut self, glyphs: &Dict<'_>) -> Glyphs {
        let descriptor = glyphs.get::<Dict<'_>>("FontDescriptor").unwrap_or_default();
        let has = |key: &str| descriptor.contains_key(key);
        let has_program = has("FontFile") || has("FontFile2") || has("FontFile3");
        let collection = collection_of(glyphs);
        let Some(collection) =
            collection.filter(|_| has_program && self.descriptions.len() < MAX_DESCRIPTIONS)
        else {
            return Glyphs { has_program, ..Glyphs::default() };
        };
        let mut description = changes::without(glyphs, &[b"/FontDescriptor"]);
        description.extend(b" >>");
        self.descriptions.push(description);
        let has_numbers = !has("FontFile2") && self.collection_of_program(&descriptor) == Some(collection);
        Glyphs { has_program, description: Some(self.descriptions.len() - 1), has_numbers }
    }

    /// The collection whose numbers the glyphs of a font's PostScript program have.
    fn collection_of_program(&mut self, descriptor: &Dict<'_>) -> Option<Collection> {
        let id = descriptor.get_ref("FontFile3").map(ObjectIdentifier::from)?;
        if let Some(known) = self.programs.get(&id) {
            return known.clone();
        }
        if self.decoded > MAX_DECODED {
            return None;
        }
        let program = descriptor.get::<Stream<'_>>("FontFile3")?.decoded().ok()?;
        self.decoded += program.len();
        let read = || {
            let table = FontRef::new(&program).ok().and_then(|font| font.data_for_tag(Tag::new(b"CFF ")));
            let cff = Cff::read(table.unwrap_or(FontData::new(&program))).ok()?;
            let named = entries(cff.top_dicts().get(0).ok()?, None).find_map(|entry| match entry {
                Ok(Entry::Ros { registry, ordering, .. }) => Some([registry, ordering]),
                _ => None,
            });
            let [registry, ordering] = named?.map(|name| cff.string(name).map(<[u8]>::to_vec));
            Some([registry?, ordering?])
        };
        let collection = read();
        self.programs.insert(id, collection.clone());
        collection
    }
}

/// The collection that the glyphs of a font are of, if the interpreter knows it.
fn collection_of(glyphs: &Dict<'_>) -> Option<Collection> {
    let info = glyphs.get::<Dict<'_>>("CIDSystemInfo")?;
    let [registry, ordering] =
        ["Registry", "Ordering"].map(|key| Some(info.get::<object::String<'_>>(key)?.to_vec()));
    let (registry, ordering) = (registry?, ordering?);
    let is_known = CidFamily::from_registry_ordering(&registry, &ordering).ucs2_cmap().is_some();
    is_known.then_some([registry, ordering])
}

/// Whether the name of an encoding says that its codes are those of Unicode.
fn is_unicode(encoding: &[u8]) -> bool {
    let has = |form: &[u8]| memmem::find(encoding, form).is_some();
    encoding.starts_with(b"Uni") && (has(b"-UCS2-") || has(b"-UTF16-"))
}

/// Whether the name of an encoding says which characters of a collection its codes are.
fn has_known_codes(encoding: &[u8]) -> bool {
    let name = CMapName::from_bytes(encoding);
    !matches!(name, CMapName::IdentityH | CMapName::IdentityV | CMapName::Custom(_))
}

/// A table that says that codes of two and four bytes are characters of UTF-16. Those for private use are characters of the
/// collection, if it has them.
fn unicode_table(encoding: &[u8]) -> String {
    let mut table = "2 beginbfrange <0000> <dfff> <0000> <f900> <fffd> <f900> endbfrange\n".to_owned();
    for first in 0xd800..=0xdbff {
        table +=
            &format!("1 beginbfrange <{first:04x}dc00> <{first:04x}dfff> <{first:04x}dc00> endbfrange\n");
    }
    let read = |name| CMap::parse(load_embedded(name)?, load_embedded);
    let codes = read(CMapName::from_bytes(encoding));
    let collection = codes.as_ref().and_then(|codes| codes.metadata().character_collection.clone());
    let characters = collection.and_then(|collection| read(collection.family.ucs2_cmap()?));
    let character = |code| characters.as_ref()?.lookup_bf_string(codes.as_ref()?.lookup_cid_code(code, 2)?);
    for code in 0xe000..=0xf8ff {
        let text = match character(code) {
            Some(BfString::Char(c)) => c.to_string(),
            Some(BfString::String(text)) => text,
            None => continue,
        };
        let utf16: String = text.encode_utf16().map(|unit| format!("{unit:04x}")).collect();
        table += &format!("1 beginbfchar <{code:04x}> <{utf16}> endbfchar\n");
    }
    format!("<< /Length {} >>\nstream\n{table}\nendstream", table.len())
}

//! The state between the pieces of a file: groups, and where their text goes.

mod destinations;
mod formulas;
mod looks;
mod paragraphs;
mod tables;
mod tabs;

use std::collections::HashMap;
use std::mem;
use std::rc::Rc;

use encoding_rs::{Encoding, WINDOWS_1252};

use self::looks::{Colors, Ground, Look};
use self::tables::Table;
use super::Fonts;
use super::tokens::Token;
use crate::counts::Counts;
use crate::office::fields::Field;
use crate::office::omml::Omml;
use crate::office::page_texts::PageTexts;
use crate::plain::decode::of_code_page;
use crate::writer::symbols;
use crate::writer::{Align, Level, TabStops, Writer};

/// Deepest groups whose properties are kept.
const MAX_GROUPS: usize = 10_000;
/// Groups whose text is not part of the document.
const SKIPPED: &[&str] = &[
    "info",
    "nonshppict",
    "themedata",
    "colorschememapping",
    "datastore",
    "latentstyles",
    "listtable",
    "listoverridetable",
    "rsidtbl",
    "generator",
    "xmlnstbl",
    "filetbl",
    "revtbl",
    "datafield",
    "objdata",
    "pgptbl",
    "mmathPr",
    "mmathPict",
    "moMathParaPr",
    "atrfstart",
    "atrfend",
    "ffname",
    "ffentrymcr",
    "ffexitmcr",
    "ffhelptext",
    "ffstattext",
    "bkmkstart",
    "bkmkend",
    "pntxta",
    "pntxtb",
    "sp",
    "defchp",
    "defpap",
    "atnid",
    "atndate",
    "atnref",
    "atnparent",
    "private",
    "userprops",
    "xe",
    "tc",
    "blipuid",
    "picprop",
    "falt",
    "panose",
    "docvar",
    "keywords",
    "nonesttables",
];

/// Where the text of a group goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Destination {
    #[default]
    Text,
    Skipped,
    /// A text in the characters of one code page, and then the same in those of Unicode.
    Alternatives,
    Fonts,
    Colors,
    Styles,
    /// The mark of a list.
    Mark,
    Instruction,
    Note,
    Comment,
    Author,
    Header,
    Footer,
    /// A choice of a form.
    Choice,
    /// The kind of an object of another program.
    Class,
    /// A formula, a part of one, and text in it.
    Formula,
    Part,
    Run,
}

/// What a group may change until it ends.
#[derive(Clone, Debug, Default)]
struct Group {
    destination: Destination,
    look: Look,
    /// Whether it is in a shape, which may be of any colour.
    in_shape: bool,
    /// Whether it is in a formula that is an object of another program.
    is_formula: bool,
    is_deleted: bool,
    font: i32,
    /// Bytes that stand for a character after `\u`, if the file says it.
    fallback: Option<usize>,
    paragraph: Paragraph,
    /// Whether this group began its destination.
    begins: bool,
}

/// What a paragraph is.
#[derive(Clone, Debug, Default)]
struct Paragraph {
    style: i32,
    /// Its level, if it says that it is a heading.
    heading: Option<usize>,
    /// Its depth in a list.
    depth: usize,
    in_table: bool,
    /// Whether it is in a table within a cell.
    is_inner: bool,
    ground: Ground,
    /// Its indentation, and how much more the first line has, in twentieths of a point.
    left: i32,
    first: i32,
    /// Its tab stops, if it has any or is indented, and what stands at the one that is defined.
    tabs: Option<Rc<TabStops>>,
    align: Align,
}

/// What paragraphs of a style are.
#[derive(Debug, Default)]
struct Style {
    /// The level of a heading.
    heading: Option<usize>,
    tabs: Option<Rc<TabStops>>,
}

/// A field, and in how many groups it stands.
#[derive(Debug)]
struct OpenField {
    depth: usize,
    field: Field,
}

#[derive(Debug, Default)]
pub(super) struct Reader {
    group: Group,
    groups: Vec<Group>,
    too_deep: usize,
    /// Whether the group that begins may be passed over.
    is_optional: bool,
    begins_group: bool,
    encoding: Option<&'static Encoding>,
    fonts: Fonts,
    colors: Colors,
    /// Whether the pages have another colour than white, or a picture.
    has_background: bool,
    /// How far apart tab stops are that no paragraph sets, in twentieths of a point.
    tab_distance: Option<u32>,
    /// Styles by their numbers.
    styles: HashMap<i32, Style>,
    /// The style that is defined.
    defined: i32,
    /// Bytes that are not decoded yet, and half of a character beyond 16 bits.
    bytes: Vec<u8>,
    surrogate: Option<u32>,
    /// Bytes that stand for the last character.
    to_skip: usize,
    name: String,
    writer: Writer,
    /// Where text goes behind a note.
    outer: Vec<Writer>,
    notes: Vec<String>,
    note_count: usize,
    comment_count: usize,
    author: String,
    page_texts: PageTexts,
    fields: Vec<OpenField>,
    counts: Counts,
    /// Whether the hidden text is counted already, and the white text of the paragraph.
    is_counted: bool,
    has_white: bool,
    /// Whether the paragraph has text, and its mark in a list.
    has_begun: bool,
    mark: String,
    table: Table,
    /// The formula that is open, and its part that began last.
    math: Omml,
    part: String,
}

impl Reader {
    pub(super) fn len(&self) -> usize {
        self.writer.len() + self.table.len() + self.outer.iter().map(Writer::len).sum::<usize>()
    }

    /// Whether a group is open: the file would go on.
    pub(super) fn is_open(&self) -> bool {
        !self.groups.is_empty()
    }

    pub(super) fn finish(mut self) -> (String, Counts) {
        self.flush();
        self.end_open_formula();
        while !self.outer.is_empty() {
            // A note that does not end.
            (self.group.destination, self.group.begins) = (Destination::Note, true);
            self.close_destination();
        }
        self.end_table();
        self.counts.unfilled_rows += self.writer.unfilled_rows();
        let text = self.writer.finish();
        (self.page_texts.around(text, self.notes), self.counts)
    }

    pub(super) fn token(&mut self, token: Token) {
        let begins_group = mem::take(&mut self.begins_group);
        let is_optional = mem::take(&mut self.is_optional);
        match token {
            Token::Open => {
                self.flush();
                self.to_skip = 0;
                self.begins_group = true;
                match self.groups.len() < MAX_GROUPS {
                    true => {
                        self.groups.push(self.group.clone());
                        self.group.begins = false;
                    }
                    false => self.too_deep += 1,
                }
            }
            Token::Close => {
                self.flush();
                self.to_skip = 0;
                if self.too_deep > 0 {
                    self.too_deep -= 1;
                    return;
                }
                self.close_destination();
                if self.fields.last().is_some_and(|open| open.depth == self.groups.len()) {
                    self.end_field();
                }
                self.group = self.groups.pop().unwrap_or_default();
            }
            Token::Word("*", _) => (self.is_optional, self.begins_group) = (true, begins_group),
            Token::Word(word, number) => self.word(word, number, begins_group, is_optional),
            Token::Byte(_) | Token::Binary if self.to_skip > 0 => self.to_skip -= 1,
            Token::Byte(byte) => self.bytes.push(byte),
            Token::Text(text) => {
                let skipped = self.to_skip.min(text.len());
                self.to_skip -= skipped;
                self.bytes.extend(&text[skipped..]);
            }
            Token::Binary => {}
        }
    }

    fn word(&mut self, word: &str, number: Option<i32>, begins_group: bool, is_optional: bool) {
        let is_on = number != Some(0);
        if word == "u" {
            return self.character(number.unwrap_or(0));
        }
        if self.to_skip > 0 {
            self.to_skip -= 1;
            return;
        }
        self.flush();
        if begins_group && self.begin_destination(word, is_optional) {
            return;
        }
        match self.group.destination {
            Destination::Skipped | Destination::Alternatives => return,
            Destination::Fonts => return self.font_word(word, number),
            Destination::Colors => return self.colors.word(word, number),
            Destination::Styles => return self.style_word(word, number),
            _ => {}
        }
        if self.look(word, number) || self.group.paragraph.tab_word(word, number) {
            return;
        }
        match word {
            "deftab" => self.tab_distance = number.and_then(|distance| distance.try_into().ok()),
            "ansicpg" => self.encoding = number.and_then(|number| of_code_page(number.try_into().ok()?)),
            "uc" => {
                self.group.fallback =
                    number.and_then(|count| usize::try_from(count).ok()).map(|count| count.min(16))
            }
            "f" => self.group.font = number.unwrap_or(0),
            "plain" => self.group.look = Look::default(),
            "super" => self.group.look.level = if is_on { Level::Raised } else { Level::Normal },
            "sub" => self.group.look.level = if is_on { Level::Lowered } else { Level::Normal },
            "up" => {
                self.group.look.level = if number.unwrap_or(6) > 3 { Level::Raised } else { Level::Normal }
            }
            "dn" => {
                self.group.look.level = if number.unwrap_or(6) > 3 { Level::Lowered } else { Level::Normal }
            }
            "nosupersub" => self.group.look.level = Level::Normal,
            "strike" | "striked" => self.group.look.is_struck = is_on,
            "deleted" => {
                self.counts.deletions += usize::from(is_on && !self.group.is_deleted);
                self.group.is_deleted = is_on;
            }
            "pard" => self.group.paragraph = Paragraph::default(),
            "s" => self.group.paragraph.style = number.unwrap_or(0),
            "outlinelevel" => {
                self.group.paragraph.heading = number
                    .and_then(|level| usize::try_from(level).ok())
                    .filter(|level| *level < 9)
                    .map(|level| level + 1)
            }
            "itap" => self.group.paragraph.is_inner = number.is_some_and(|depth| depth > 1),
            "intbl" => self.group.paragraph.in_table = true,
            "par" | "sect" | "page" => self.end_paragraph(),
            "line" => {
                self.begin_text();
                self.writer.line();
            }
            "tab" => self.tab(),
            "emspace" | "enspace" | "qmspace" if self.has_begun => self.write(" "),
            "~" => self.write("\u{a0}"),
            "emdash" => self.write("—"),
            "endash" => self.write("–"),
            "lquote" => self.write("‘"),
            "rquote" => self.write("’"),
            "ldblquote" => self.write("“"),
            "rdblquote" => self.write("”"),
            "bullet" => self.write("•"),
            "chftn" => {}
            // The number of the first note.
            "ftnstart" if self.note_count == 0 => {
                self.note_count =
                    number.and_then(|first| usize::try_from(first.saturating_sub(1)).ok()).unwrap_or(0);
            }
            "trowd" => {
                self.table.define_row();
                // Some programs do not say so of each paragraph.
                self.group.paragraph.in_table = true;
            }
            "trleft" => self.table.set_left(number.unwrap_or(0)),
            "clmgf" | "clmrg" | "clvmgf" | "clvmrg" => self.table.merge(word),
            "cellx" => self.table.define_cell(number.unwrap_or(0)),
            "cell" | "row" => {
                self.group.paragraph.in_table = true;
                if word == "cell" { self.end_cell() } else { self.end_row() }
            }
            "fftype" | "ffdefres" | "ffres" => self.form(word, number.unwrap_or(0)),
            "ilvl" => {
                self.group.paragraph.depth = number.and_then(|level| usize::try_from(level).ok()).unwrap_or(0)
            }
            "nestcell" => self.end_inner(", "),
            _ => {}
        }
    }

    /// A character by its number.
    fn character(&mut self, number: i32) {
        self.flush();
        let number = if number < 0 { number + 0x1_0000 } else { number } as u32;
        self.to_skip = self.group.fallback.unwrap_or(1);
        let number = match (self.surrogate.take(), number) {
            (_, 0xd800..=0xdbff) => {
                self.surrogate = Some(number);
                return;
            }
            (Some(high), 0xdc00..=0xdfff) => 0x1_0000 + ((high - 0xd800) << 10) + (number - 0xdc00),
            (_, number) => number,
        };
        let font = self.fonts.get(&self.group.font).map_or("", |font| font.name.as_str());
        let known = match char::from_u32(number) {
            Some(c) if symbols::is_private(c) || symbols::is_symbol_font(font) && !c.is_whitespace() => {
                symbols::sign(font, number)
            }
            c => c,
        };
        let c = known.unwrap_or_else(|| {
            self.counts.unknown_characters += 1;
            char::REPLACEMENT_CHARACTER
        });
        self.write(c.encode_utf8(&mut [0; 4]));
    }

    /// Decodes the bytes so far.
    fn flush(&mut self) {
        if self.bytes.is_empty() {
            return;
        }
        let bytes = mem::take(&mut self.bytes);
        let font = self.fonts.get(&self.group.font).filter(|_| self.group.destination != Destination::Fonts);
        let name = font.map_or("", |font| font.name.as_str());
        let text = if symbols::is_symbol_font(name) {
            let numbers: String = bytes.iter().map(|byte| char::from(*byte)).collect();
            let (text, unknown) = symbols::text(name, &numbers);
            self.counts.unknown_characters += unknown;
            text
        } else {
            let encoding = font.and_then(|font| font.encoding).or(self.encoding).unwrap_or(WINDOWS_1252);
            encoding.decode_without_bom_handling(&bytes).0.into_owned()
        };
        self.write(&text);
    }

    /// Appends text where the group says.
    fn write(&mut self, text: &str) {
        match self.group.destination {
            Destination::Skipped | Destination::Alternatives => {}
            Destination::Fonts => {
                let name = text.split(';').next().unwrap_or_default().to_owned();
                let font = self.font();
                if font.name.is_empty() {
                    font.name = name;
                }
            }
            Destination::Colors => self.colors.text(text),
            Destination::Styles => self.style_name(text),
            Destination::Mark => self.mark.push_str(text),
            Destination::Instruction => {
                self.fields.iter_mut().last().into_iter().for_each(|open| open.field.instruction(text));
            }
            Destination::Author | Destination::Choice | Destination::Class => self.name.push_str(text),
            Destination::Formula | Destination::Part => self.math.value(&self.part, text),
            Destination::Run => {
                if !self.leaves_out(text) {
                    self.name.push_str(text);
                }
            }
            Destination::Text
            | Destination::Note
            | Destination::Comment
            | Destination::Header
            | Destination::Footer => self.document_text(text),
        }
    }

    fn document_text(&mut self, text: &str) {
        if self.leaves_out(text) {
            return;
        }
        let is_blank = text.trim().is_empty();
        self.is_counted &= is_blank;
        self.fields.iter_mut().last().into_iter().for_each(|open| open.field.has_text |= !is_blank);
        self.begin_text();
        let look = &self.group.look;
        self.writer.struck(look.is_struck, |writer| writer.text_at(look.level, text));
    }
}

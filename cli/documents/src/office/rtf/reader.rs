//! The state between the pieces of a file: groups, and where their text goes.

use std::collections::HashMap;
use std::mem;

use encoding_rs::{Encoding, WINDOWS_1252};

use super::tokens::Token;
use super::{Font, Fonts, of_charset, of_code_page};
use crate::counts::Counts;
use crate::writer::symbols::{self, EMPTY, TICKED};
use crate::writer::{Level, Rows, Span, Writer};

/// Deepest groups whose properties are kept.
const MAX_GROUPS: usize = 10_000;
/// Groups whose text is not part of the document.
const SKIPPED: &[&str] = &[
    "colortbl",
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
];

/// Where the text of a group goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Destination {
    #[default]
    Text,
    Skipped,
    Fonts,
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
}

/// What a group may change until it ends.
#[derive(Clone, Debug, Default)]
struct Group {
    destination: Destination,
    level: Level,
    is_struck: bool,
    is_hidden: bool,
    is_deleted: bool,
    font: i32,
    /// Bytes that stand for a character after `\u`, if the file says it.
    fallback: Option<usize>,
    /// Whether this group began its destination.
    begins: bool,
}

/// A field with its instruction.
#[derive(Debug, Default)]
struct Field {
    depth: usize,
    instruction: String,
    is_ticked: Option<i32>,
    chosen: Option<usize>,
    choices: Vec<String>,
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
    /// Levels of headings by the numbers of their styles.
    styles: HashMap<i32, usize>,
    style: i32,
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
    headers: Vec<String>,
    footers: Vec<String>,
    fields: Vec<Field>,
    counts: Counts,
    is_counted: bool,
    /// The paragraph: whether it has text, its heading, its mark and depth in a list, and whether it is in a table.
    has_begun: bool,
    heading: Option<usize>,
    mark: String,
    depth: usize,
    in_table: bool,
    in_row: bool,
    table_is_open: bool,
    /// The cells of the row as they are defined, and which one is read.
    cells: Vec<(bool, bool, bool, bool)>,
    cell: (bool, bool, bool, bool),
    cell_at: usize,
}

impl Reader {
    pub(super) fn len(&self) -> usize {
        self.writer.len() + self.outer.iter().map(Writer::len).sum::<usize>()
    }

    pub(super) fn finish(mut self) -> (String, Counts) {
        self.flush();
        while !self.outer.is_empty() {
            // A note that does not end.
            (self.group.destination, self.group.begins) = (Destination::Note, true);
            self.close_destination();
        }
        self.counts.unfilled_rows += self.writer.unfilled_rows();
        let text = self.writer.finish();
        let of = |parts: &[String], name: &str| -> Vec<String> {
            parts.iter().map(|part| format!("[page {name}]\n{part}")).collect()
        };
        let mut parts = of(&self.headers, "header");
        parts.push(text);
        parts.extend(self.notes);
        parts.extend(of(&self.footers, "footer"));
        parts.retain(|part| !part.trim().is_empty());
        (parts.join("\n"), self.counts)
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
                if self.fields.last().is_some_and(|field| field.depth == self.groups.len()) {
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
            Destination::Skipped => return,
            Destination::Fonts => return self.font_word(word, number),
            Destination::Styles => return self.style_word(word, number),
            _ => {}
        }
        match word {
            "ansicpg" => self.encoding = number.and_then(of_code_page),
            "uc" => {
                self.group.fallback =
                    number.and_then(|count| usize::try_from(count).ok()).map(|count| count.min(16))
            }
            "f" => self.group.font = number.unwrap_or(0),
            "plain" => {
                let Group { destination, font, fallback, begins, is_deleted, .. } = self.group;
                self.group = Group { destination, font, fallback, begins, is_deleted, ..Group::default() };
            }
            "super" => self.group.level = if is_on { Level::Raised } else { Level::Normal },
            "sub" => self.group.level = if is_on { Level::Lowered } else { Level::Normal },
            "up" => self.group.level = if number.unwrap_or(6) > 3 { Level::Raised } else { Level::Normal },
            "dn" => self.group.level = if number.unwrap_or(6) > 3 { Level::Lowered } else { Level::Normal },
            "nosupersub" => self.group.level = Level::Normal,
            "strike" | "striked" => self.group.is_struck = is_on,
            "v" => self.group.is_hidden = is_on,
            "deleted" => {
                self.counts.deletions += usize::from(is_on && !self.group.is_deleted);
                self.group.is_deleted = is_on;
            }
            // The mark of a list is no paragraph.
            "pard" if self.group.destination == Destination::Mark => {}
            "pard" => (self.heading, self.style, self.depth, self.in_table) = (None, 0, 0, false),
            "s" => self.style = number.unwrap_or(0),
            "outlinelevel" => {
                self.heading = number
                    .and_then(|level| usize::try_from(level).ok())
                    .filter(|level| *level < 9)
                    .map(|level| level + 1)
            }
            "intbl" => self.in_table = true,
            "par" | "sect" | "page" => self.end_paragraph(),
            "line" => {
                self.begin_text();
                self.writer.line();
            }
            "tab" | "emspace" | "enspace" | "qmspace" if self.has_begun => self.write(" "),
            "~" => self.write("\u{a0}"),
            "emdash" => self.write("—"),
            "endash" => self.write("–"),
            "lquote" => self.write("‘"),
            "rquote" => self.write("’"),
            "ldblquote" => self.write("“"),
            "rdblquote" => self.write("”"),
            "bullet" => self.write("•"),
            "chftn" => {}
            "trowd" => self.cells.clear(),
            "clmgf" | "clmrg" | "clvmgf" | "clvmrg" => {
                let (left, covered, top, below) = &mut self.cell;
                *[left, covered, top, below]
                    [["clmgf", "clmrg", "clvmgf", "clvmrg"].iter().position(|w| *w == word).unwrap_or(0)] =
                    true;
            }
            "cellx" if self.cells.len() < 1000 => self.cells.push(mem::take(&mut self.cell)),
            "cell" => self.end_cell(),
            "row" => self.end_row(),
            "fftype" | "ffdefres" | "ffres" => self.form(word, number.unwrap_or(0)),
            "ilvl" => self.depth = number.and_then(|level| usize::try_from(level).ok()).unwrap_or(0),
            "nestcell" => self.write(" "),
            "nestrow" => self.writer.line(),
            _ => {}
        }
    }

    /// Begins what a group is, if its first word says so.
    fn begin_destination(&mut self, word: &str, is_optional: bool) -> bool {
        let destination = match word {
            _ if self.group.destination == Destination::Skipped => return false,
            "fonttbl" => Destination::Fonts,
            "stylesheet" => Destination::Styles,
            "listtext" | "pntext" => Destination::Mark,
            "fldinst" => Destination::Instruction,
            "footnote" => Destination::Note,
            "annotation" => Destination::Comment,
            "atnauthor" => Destination::Author,
            "header" | "headerl" | "headerr" | "headerf" => Destination::Header,
            "footer" | "footerl" | "footerr" | "footerf" => Destination::Footer,
            "ffl" => Destination::Choice,
            "field" => {
                self.fields.push(Field { depth: self.groups.len(), ..Field::default() });
                return true;
            }
            "pict" => {
                self.counts.pictures += 1;
                Destination::Skipped
            }
            "fldrslt" | "formfield" | "shppict" | "shptxt" | "shpinst" | "shp" | "result" | "ud" => {
                return true;
            }
            word if SKIPPED.contains(&word) => Destination::Skipped,
            // Another program may know it.
            _ if is_optional => Destination::Skipped,
            _ => return false,
        };
        self.group.destination = destination;
        self.group.begins = true;
        let number = match destination {
            Destination::Note => {
                self.note_count += 1;
                format!("[^{}]", self.note_count)
            }
            Destination::Comment => {
                self.comment_count += 1;
                format!("[^c{}]", self.comment_count)
            }
            Destination::Header | Destination::Footer => String::new(),
            Destination::Fonts | Destination::Styles | Destination::Author | Destination::Choice => {
                self.name.clear();
                return true;
            }
            _ => return true,
        };
        if !number.is_empty() {
            self.group.destination = Destination::Text;
            self.write(&number);
            self.group.destination = destination;
        }
        self.outer.push(mem::take(&mut self.writer));
        self.has_begun = false;
        self.group = Group {
            destination,
            begins: true,
            font: self.group.font,
            fallback: self.group.fallback,
            ..Group::default()
        };
        true
    }

    fn close_destination(&mut self) {
        if !self.group.begins {
            return;
        }
        match self.group.destination {
            Destination::Note | Destination::Comment | Destination::Header | Destination::Footer => {
                let Some(outer) = self.outer.pop() else { return };
                let text = mem::replace(&mut self.writer, outer).finish();
                self.has_begun = true;
                match self.group.destination {
                    Destination::Note => self.notes.push(format!("[^{}]: {text}", self.note_count)),
                    Destination::Comment => {
                        let author = mem::take(&mut self.author);
                        let author = if author.trim().is_empty() {
                            String::new()
                        } else {
                            format!("{} comments: ", author.trim())
                        };
                        self.notes.push(format!("[^c{}]: {author}{text}", self.comment_count));
                    }
                    destination => {
                        let known = if destination == Destination::Header {
                            &mut self.headers
                        } else {
                            &mut self.footers
                        };
                        let is_number = text.chars().filter(|c| c.is_alphabetic()).count() <= 4;
                        if !is_number && !known.contains(&text) {
                            known.push(text);
                        }
                        self.has_begun = false;
                    }
                }
            }
            Destination::Author => self.author = mem::take(&mut self.name),
            Destination::Choice => {
                let choice = mem::take(&mut self.name);
                self.fields
                    .iter_mut()
                    .last()
                    .into_iter()
                    .for_each(|field| field.choices.push(choice.clone()));
            }
            _ => {}
        }
    }

    /// A word in the list of fonts.
    fn font_word(&mut self, word: &str, number: Option<i32>) {
        match word {
            "f" => {
                self.group.font = number.unwrap_or(0);
                self.fonts.insert(self.group.font, Font::default());
            }
            "fcharset" => self.font().encoding = number.and_then(of_charset),
            "cpg" => self.font().encoding = number.and_then(of_code_page),
            _ => {}
        }
    }

    fn font(&mut self) -> &mut Font {
        self.fonts.entry(self.group.font).or_default()
    }

    /// A word in the list of styles.
    fn style_word(&mut self, word: &str, number: Option<i32>) {
        match (word, number) {
            ("s", number) => {
                self.style = number.unwrap_or(0);
                self.name.clear();
            }
            ("outlinelevel", Some(level @ 0..9)) => {
                self.styles.insert(self.style, level as usize + 1);
            }
            _ => {}
        }
    }

    /// A property of a form.
    fn form(&mut self, word: &str, number: i32) {
        let Some(field) = self.fields.last_mut() else { return };
        match word {
            "fftype" => field.is_ticked = (number == 1).then_some(0),
            // 25 is for the default.
            "ffres" if number != 25 => {
                field.is_ticked = field.is_ticked.map(|_| number);
                field.chosen = usize::try_from(number).ok();
            }
            "ffdefres" if field.chosen.is_none() => {
                field.is_ticked = field.is_ticked.map(|_| number);
                field.chosen = usize::try_from(number).ok();
            }
            _ => {}
        }
    }

    fn end_field(&mut self) {
        let Some(field) = self.fields.pop() else { return };
        let instruction = field.instruction.trim().to_ascii_uppercase();
        let symbol = field.instruction.trim().strip_prefix("SYMBOL").and_then(|rest| {
            let number = rest.split_whitespace().next()?.parse().ok()?;
            let font = rest.split_once("\\f").map_or("", |(_, font)| font.trim());
            let end = font.trim_start_matches('"').find('"').map_or(font.len(), |end| end + 1);
            symbols::sign(font[..end.min(font.len())].trim_matches('"'), number)
        });
        let shown = match (instruction.as_str(), field.is_ticked, symbol) {
            (_, Some(is_ticked), _) if instruction.contains("CHECKBOX") => {
                Some((if is_ticked == 1 { TICKED } else { EMPTY }).to_owned())
            }
            (_, _, Some(sign)) => Some(sign.to_string()),
            _ if instruction.contains("DROPDOWN") => {
                field.chosen.and_then(|chosen| field.choices.get(chosen).cloned())
            }
            _ => None,
        };
        // The group of the instruction is closed.
        let group = mem::take(&mut self.group);
        self.group.destination = self.groups.last().map_or(Destination::Text, |group| group.destination);
        shown.iter().for_each(|text| self.write(text));
        self.group = group;
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
            Some(c) if symbols::is_private(c) => symbols::sign(font, number),
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
            Destination::Skipped => {}
            Destination::Fonts => {
                let name = text.split(';').next().unwrap_or_default().to_owned();
                let font = self.font();
                if font.name.is_empty() {
                    font.name = name;
                }
            }
            Destination::Styles => {
                self.name.push_str(text);
                let name = self.name.trim().to_lowercase();
                let level =
                    name.strip_prefix("heading ").and_then(|level| level.trim_end_matches(';').parse().ok());
                if let Some(level @ 1..=9) = level {
                    self.styles.insert(self.style, level);
                }
            }
            Destination::Mark => self.mark.push_str(text),
            Destination::Instruction => self.fields.iter_mut().last().into_iter().for_each(|field| {
                if field.instruction.len() < 4096 {
                    field.instruction.push_str(text);
                }
            }),
            Destination::Author | Destination::Choice => self.name.push_str(text),
            Destination::Text
            | Destination::Note
            | Destination::Comment
            | Destination::Header
            | Destination::Footer => {
                self.document_text(text);
            }
        }
    }

    fn document_text(&mut self, text: &str) {
        if self.group.is_deleted {
            return;
        }
        if self.group.is_hidden {
            if !text.trim().is_empty() {
                self.counts.hidden += usize::from(!mem::replace(&mut self.is_counted, true));
            }
            return;
        }
        self.is_counted &= text.trim().is_empty();
        self.begin_text();
        if self.group.is_struck {
            self.writer.begin_struck();
        }
        self.writer.text_at(self.group.level, text);
        if self.group.is_struck {
            self.writer.end_struck();
        }
    }

    fn begin_text(&mut self) {
        if mem::replace(&mut self.has_begun, true) {
            return;
        }
        self.begin_cell();
        let heading = self.heading.or_else(|| self.styles.get(&self.style).copied());
        let mark = mem::take(&mut self.mark);
        let mark = match mark.trim() {
            "" => String::new(),
            mark if mark.chars().any(char::is_alphanumeric) => mark.to_owned(),
            mark => symbols::bullet("", mark).to_owned(),
        };
        self.writer.end_item();
        match heading {
            Some(level) => {
                self.writer.heading(level);
                if !mark.is_empty() && mark != "-" {
                    self.writer.number(&mark);
                }
            }
            None if !mark.is_empty() => self.writer.item(self.depth, &mark),
            None => self.writer.paragraph(),
        }
    }

    fn end_paragraph(&mut self) {
        self.begin_cell();
        if !self.in_table && self.outer.is_empty() {
            self.end_table();
        }
        self.writer.end_item();
        self.mark.clear();
        self.has_begun = false;
        self.is_counted = false;
    }

    /// Begins the table, the row and the cell that text is in.
    fn begin_cell(&mut self) {
        if !self.in_table || !self.outer.is_empty() {
            if !self.in_table && self.outer.is_empty() {
                self.end_table();
            }
            return;
        }
        if !mem::replace(&mut self.table_is_open, true) {
            self.writer.begin_table();
        }
        if !mem::replace(&mut self.in_row, true) {
            self.writer.row();
            self.cell_at = 0;
            self.next_cell();
        }
    }

    /// Begins the cell that is next in the definition of the row.
    fn next_cell(&mut self) {
        let (is_left, is_covered, is_top, is_below) =
            self.cells.get(self.cell_at).copied().unwrap_or_default();
        if is_covered {
            return;
        }
        let following = self.cells.iter().skip(self.cell_at + 1).take_while(|cell| cell.1).count();
        let columns = if is_left { following + 1 } else { 1 };
        match is_below {
            true => self.writer.cell_below(columns),
            false => {
                self.writer.cell(Span { columns, rows: if is_top { Rows::Open } else { Rows::Count(1) } })
            }
        }
    }

    fn end_cell(&mut self) {
        self.in_table = true;
        self.begin_cell();
        self.has_begun = false;
        self.cell_at += 1;
        self.next_cell();
    }

    fn end_row(&mut self) {
        (self.in_row, self.has_begun) = (false, false);
        self.in_table = true;
    }

    fn end_table(&mut self) {
        self.in_row = false;
        if mem::take(&mut self.table_is_open) {
            self.writer.end_table();
        }
    }
}

//! Groups whose text goes elsewhere: fonts, styles, notes, headers, fields.

use std::mem;

use super::{Destination, Group, OpenField, Reader, SKIPPED, Style};
use crate::office::fields::{Field, Shown};
use crate::office::rtf::{Font, of_charset};
use crate::plain::decode::of_code_page;

/// Bytes of the name of a style that are read, at least.
const MAX_NAME: usize = 256;
/// The number of styles that have none, but for the first one.
const NO_STYLE: i32 = -1;

impl Reader {
    /// Begins what a group is, if its first word says so.
    pub(super) fn begin_destination(&mut self, word: &str, is_optional: bool) -> bool {
        if let Some(destination) = self.begin_formula(word) {
            (self.group.destination, self.group.begins) = (destination, true);
            return true;
        }
        let destination = match word {
            _ if self.group.destination == Destination::Skipped => return false,
            "upr" => Destination::Alternatives,
            "ud" => {
                self.group.destination =
                    self.destination_around(|destination| destination == Destination::Alternatives);
                return true;
            }
            _ if self.group.destination == Destination::Alternatives => return false,
            "fonttbl" => Destination::Fonts,
            "colortbl" => Destination::Colors,
            "stylesheet" => Destination::Styles,
            "listtext" | "pntext" => Destination::Mark,
            "fldinst" => Destination::Instruction,
            "footnote" => Destination::Note,
            "annotation" => Destination::Comment,
            "atnauthor" => Destination::Author,
            "header" | "headerl" | "headerr" | "headerf" => Destination::Header,
            "footer" | "footerl" | "footerr" | "footerf" => Destination::Footer,
            "ffl" => Destination::Choice,
            "objclass" => Destination::Class,
            "background" => {
                self.has_background = true;
                Destination::Skipped
            }
            "field" => {
                self.fields.push(OpenField { depth: self.groups.len(), field: Field::default() });
                return true;
            }
            "pict" => {
                self.counts.pictures += usize::from(!self.group.is_formula);
                Destination::Skipped
            }
            "shptxt" | "shpinst" | "shp" => {
                self.group.in_shape = true;
                return true;
            }
            "fldrslt" if self.fields.last().is_some_and(|open| !open.field.shows_result()) => {
                Destination::Skipped
            }
            "fldrslt" | "formfield" | "shppict" | "result" | "moMathPara" | "mmath" => return true,
            // It stands where a row of a table within a cell ends.
            "nesttableprops" => {
                self.end_inner("; ");
                Destination::Skipped
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
            Destination::Fonts
            | Destination::Styles
            | Destination::Author
            | Destination::Choice
            | Destination::Class => {
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

    /// Where the text around the groups of some destinations goes.
    pub(super) fn destination_around(&self, is_left: impl Fn(Destination) -> bool) -> Destination {
        let mut around = self.groups.iter().rev().map(|group| group.destination);
        around.find(|destination| !is_left(*destination)).unwrap_or_default()
    }

    pub(super) fn close_destination(&mut self) {
        if !self.group.begins {
            return;
        }
        match self.group.destination {
            Destination::Note | Destination::Comment | Destination::Header | Destination::Footer => {
                let Some(outer) = self.outer.pop() else { return };
                self.counts.unfilled_rows += self.writer.unfilled_rows();
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
                        self.page_texts.add(text, destination == Destination::Footer);
                        self.has_begun = false;
                    }
                }
            }
            Destination::Author => self.author = mem::take(&mut self.name),
            Destination::Class if self.name.contains("Equation") || self.name.contains("MathType") => {
                self.counts.formulas += 1;
                // Its picture follows.
                self.groups.iter_mut().last().into_iter().for_each(|object| object.is_formula = true);
            }
            Destination::Formula | Destination::Part | Destination::Run => self.end_formula(),
            Destination::Choice => {
                let choice = mem::take(&mut self.name);
                if let Some(open) = self.fields.last_mut() {
                    open.field.choice(choice);
                }
            }
            _ => {}
        }
    }

    /// A word in the list of fonts.
    pub(super) fn font_word(&mut self, word: &str, number: Option<i32>) {
        match word {
            "f" => {
                self.group.font = number.unwrap_or(0);
                self.fonts.insert(self.group.font, Font::default());
            }
            "fcharset" => self.font().encoding = number.and_then(of_charset),
            "cpg" => self.font().encoding = number.and_then(|number| of_code_page(number.try_into().ok()?)),
            _ => {}
        }
    }

    pub(super) fn font(&mut self) -> &mut Font {
        self.fonts.entry(self.group.font).or_default()
    }

    /// A word in the list of styles.
    pub(super) fn style_word(&mut self, word: &str, number: Option<i32>) {
        match (word, number) {
            ("s", number) => {
                self.defined = number.unwrap_or(0);
                self.name.clear();
            }
            ("outlinelevel", Some(level @ 0..9)) => self.style().heading = Some(level as usize + 1),
            _ => _ = self.group.paragraph.tab_word(word, number),
        }
    }

    /// The name of a style, which stands behind its properties.
    pub(super) fn style_name(&mut self, text: &str) {
        if self.name.len() < MAX_NAME {
            self.name.push_str(text);
        }
        let name = self.name.trim().to_lowercase();
        let level = name.strip_prefix("heading ").and_then(|level| level.trim_end_matches(';').parse().ok());
        if let Some(level @ 1..=9) = level {
            self.style().heading = Some(level);
        }
        if let Some(tabs) = self.group.paragraph.tabs.clone() {
            self.style().tabs = Some(tabs);
        }
        if text.ends_with(';') {
            self.name.clear();
            self.defined = NO_STYLE;
        }
    }

    fn style(&mut self) -> &mut Style {
        self.styles.entry(self.defined).or_default()
    }

    /// A property of a form.
    pub(super) fn form(&mut self, word: &str, number: i32) {
        let Some(OpenField { field, .. }) = self.fields.last_mut() else { return };
        match word {
            "fftype" => field.is_ticked = (number == 1).then_some(false),
            // 25 is for the default.
            "ffres" if number == 25 => {}
            "ffdefres" if field.chosen.is_some() => {}
            "ffres" | "ffdefres" => {
                field.is_ticked = field.is_ticked.map(|_| number == 1);
                field.chosen = usize::try_from(number).ok();
            }
            _ => {}
        }
    }

    pub(super) fn end_field(&mut self) {
        let Some(OpenField { field, .. }) = self.fields.pop() else { return };
        self.fields.iter_mut().last().into_iter().for_each(|outer| outer.field.has_text |= field.has_text);
        let shown = match field.finish() {
            Shown::Nothing => return,
            Shown::Text(text) => text,
            Shown::Unknown => {
                self.counts.unknown_characters += 1;
                "\u{fffd}".to_owned()
            }
            Shown::Formula => {
                self.counts.formulas += 1;
                return;
            }
            Shown::Number(..) => {
                self.counts.unknown_numbers += 1;
                return;
            }
        };
        // The group of the instruction is closed.
        let group = mem::take(&mut self.group);
        self.group.destination = self.groups.last().map_or(Destination::Text, |group| group.destination);
        self.write(&shown);
        self.group = group;
    }
}

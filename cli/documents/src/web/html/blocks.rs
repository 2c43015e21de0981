//! What elements write where they begin and end: headings, lists, tables, paragraphs.

use super::Tag;
use super::controls::Choices;
use super::css::{Declared, ListStyle, Stand};
use super::icons;
use super::page::Page;
use crate::writer::ordinal::Format;
use crate::writer::{Level, Span};

/// Browsers bound columns so.
const MAX_COLUMNS: i64 = 1000;

/// What an element is to the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Inline,
    Block,
    Heading,
    List,
    Item,
    /// A line of its own.
    Line,
    /// Words of its own, or a gap that divides numbers.
    Word,
    Gap,
    /// What is larger than the text around it and stands beside that. So many bytes were written before it.
    Initial(usize),
    Table,
    /// A table that only arranges its cells, which are blocks.
    Layout,
    Preformatted,
    Title,
    Quote,
    Reading,
    Choices,
    Svg,
}

/// A list whose items are counted.
#[derive(Clone, Debug)]
pub(super) struct List {
    style: ListStyle,
    next: i64,
    step: i64,
}

impl Page<'_> {
    /// Writes the beginning of an element.
    pub(super) fn begin(&mut self, tag: &Tag, declared: &Declared) -> Role {
        let name = match table_part(tag) {
            Some(part) if part == b"table" || self.is_in_role_table() => part,
            _ => tag.name.as_slice(),
        };
        match name {
            b"title" if self.titles == 0 => {
                self.titles += 1;
                Role::Title
            }
            b"title" => Role::Line,
            b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6" => {
                self.has_heading |= name == b"h1";
                self.writer.heading(usize::from(name[1] - b'0'));
                Role::Heading
            }
            b"ul" | b"ol" | b"menu" | b"dir" => {
                self.list_line();
                let list = self.list(tag, declared);
                self.lists.push(list);
                Role::List
            }
            b"li" => {
                self.item(tag, declared);
                Role::Item
            }
            b"dt" | b"dd" => {
                self.writer.line();
                Role::Line
            }
            b"table" if is_for_layout(tag) => {
                self.tables.push(true);
                self.writer.paragraph();
                Role::Layout
            }
            b"table" => {
                self.tables.push(false);
                if tag.name != b"table" {
                    self.role_tables.push(self.tables.len());
                }
                self.writer.begin_table();
                Role::Table
            }
            b"tr" | b"td" | b"th" if self.tables.last() == Some(&true) => {
                self.writer.paragraph();
                Role::Block
            }
            b"thead" | b"tbody" | b"tfoot" if self.tables.last() == Some(&false) => {
                if name == b"thead" {
                    self.writer.has_header();
                }
                self.writer.row_group();
                Role::Inline
            }
            b"tr" => {
                self.writer.row();
                Role::Inline
            }
            b"td" | b"th" => {
                if name == b"th" {
                    self.writer.has_header();
                }
                let number = |name, aria| tag.number(name).or(tag.number(aria)).unwrap_or(1);
                let columns = number("colspan", "aria-colspan").clamp(1, MAX_COLUMNS) as usize;
                // 0 is for all rows that follow.
                let rows = usize::try_from(number("rowspan", "aria-rowspan")).unwrap_or(1);
                self.writer.cell(Span::new(columns, if rows == 0 { usize::MAX } else { rows }));
                Role::Inline
            }
            b"pre" | b"listing" | b"xmp" | b"textarea" => {
                self.writer.paragraph();
                self.preformatted += 1;
                Role::Preformatted
            }
            b"select" => {
                self.choices = Some(Choices::new(tag));
                Role::Choices
            }
            b"option" => {
                self.choices.iter_mut().for_each(|choices| choices.begin(tag));
                Role::Inline
            }
            b"q" => {
                self.writer.text("“");
                Role::Quote
            }
            b"rp" => {
                self.has_brackets = true;
                Role::Inline
            }
            b"rt" if !self.has_brackets => {
                self.writer.text("(");
                Role::Reading
            }
            b"svg" => {
                self.svg += 1;
                Role::Svg
            }
            b"text" if self.svg > 0 => {
                self.svg_height = height(tag, "y").or(Some(0.0));
                self.writer.line();
                Role::Line
            }
            b"tspan" if self.svg > 0 && self.changes_height(tag) => {
                // A line begins, or it is moved up or down as an exponent is.
                if tag.has("x") || tag.has("y") {
                    self.writer.text(" ");
                    Role::Word
                } else {
                    self.has_gap = true;
                    Role::Gap
                }
            }
            b"div" if icons::is_box(tag) => Role::Inline,
            _ if is_block(name) => {
                self.writer.paragraph();
                Role::Block
            }
            _ => match declared.layout.stand(self.is_divided() || name == b"button") {
                Stand::Within => Role::Inline,
                Stand::Gap => {
                    self.has_gap = true;
                    Role::Gap
                }
                Stand::Word if self.is_larger(declared) && declared.layout.floats() => {
                    self.write(Level::Normal, " ");
                    Role::Initial(self.writer.len())
                }
                Stand::Word => {
                    self.write(Level::Normal, " ");
                    Role::Word
                }
                Stand::Line => {
                    self.line();
                    Role::Line
                }
            },
        }
    }

    /// Whether the innermost table is one by its role.
    fn is_in_role_table(&self) -> bool {
        self.role_tables.last() == Some(&self.tables.len())
    }

    /// Whether a piece of text in a drawing stands higher or lower than what is before it. Programs write pieces beside each
    /// other that are no words: each letter with its place.
    fn changes_height(&mut self, tag: &Tag) -> bool {
        let is_moved = tag.has("dy") && height(tag, "dy") != Some(0.0);
        if !tag.has("y") {
            return is_moved;
        }
        let (before, now) = (self.svg_height, height(tag, "y"));
        self.svg_height = now;
        is_moved || now.is_none() || before != now
    }

    /// Writes the end of an element.
    pub(super) fn end(&mut self, role: Role) {
        match role {
            Role::Inline | Role::Title => {}
            Role::Block => self.writer.paragraph(),
            Role::Heading => {
                self.writer.end_item();
                self.writer.paragraph();
            }
            Role::List => {
                self.lists.pop();
                self.list_line();
            }
            Role::Item => self.writer.end_item(),
            Role::Line => self.line(),
            Role::Word => self.write(Level::Normal, " "),
            Role::Initial(start) => match is_initial(self.writer.since(start)) {
                true => self.has_initial = true,
                false => self.write(Level::Normal, " "),
            },
            Role::Gap => self.has_gap = true,
            Role::Table => {
                if self.is_in_role_table() {
                    self.role_tables.pop();
                }
                self.tables.pop();
                self.writer.end_table();
            }
            Role::Layout => {
                self.tables.pop();
                self.writer.paragraph();
            }
            Role::Preformatted => {
                self.preformatted = self.preformatted.saturating_sub(1);
                self.writer.paragraph();
            }
            Role::Quote => self.writer.text("”"),
            Role::Reading => self.writer.text(")"),
            Role::Svg => self.svg = self.svg.saturating_sub(1),
            Role::Choices => {
                for choice in self.choices.take().map(Choices::finish).unwrap_or_default() {
                    self.writer.line();
                    self.writer.text(&choice);
                }
                self.writer.line();
            }
        }
    }

    /// A list within a list follows its item without an empty line.
    fn list_line(&mut self) {
        self.writer.end_item();
        match self.lists.is_empty() {
            true => self.writer.paragraph(),
            false => self.writer.line(),
        }
    }

    fn list(&mut self, tag: &Tag, declared: &Declared) -> List {
        let is_ordered = tag.name == b"ol";
        let usual = if is_ordered { Format::Decimal } else { Format::Bullet };
        let is_reversed = is_ordered && tag.has("reversed");
        let first = match tag.number("start").filter(|_| is_ordered) {
            Some(start) => start,
            None if is_reversed => self.known.reversed.pop().unwrap_or(1),
            None => 1,
        };
        List {
            style: own_style(tag, declared).unwrap_or(ListStyle::Format(usual)),
            next: first,
            step: if is_reversed { -1 } else { 1 },
        }
    }

    /// The number of an item that begins, if it is in a list.
    pub(super) fn next_item(&self, tag: &Tag) -> Option<i64> {
        let list = self.lists.last()?;
        Some(tag.number("value").unwrap_or(list.next))
    }

    fn item(&mut self, tag: &Tag, declared: &Declared) {
        let depth = self.lists.len().saturating_sub(1);
        let number = self.next_item(tag).unwrap_or_default();
        let mark = match self.lists.last_mut() {
            Some(list) => {
                list.next = number.saturating_add(list.step);
                let style = own_style(tag, declared).unwrap_or_else(|| list.style.clone());
                let styles = &self.known.sheet.counter_styles;
                // Browsers write numbers where the page names a style that it does not define.
                styles.marker(&style, number).unwrap_or_else(|| format!("{number}."))
            }
            None => String::new(),
        };
        let mark = self.marker.take().map_or(mark, |marker| marker.trim().to_owned());
        // The number that a style sheet makes takes the place of a sign, or stands behind the item's own number.
        let mark = match self.number.take_if(|_| mark.is_empty()) {
            Some(number) => number.trim_end().to_owned(),
            None if mark.is_empty() => "-".to_owned(),
            None => mark,
        };
        self.writer.item(depth, &mark);
    }
}

/// Whether a text is the first letter of a word, maybe with a quotation mark.
fn is_initial(text: &str) -> bool {
    let letter = text.trim().trim_start_matches(['“', '‘', '„', '«', '"', '\'']);
    letter.chars().count() == 1 && letter.chars().all(char::is_alphabetic)
}

/// How the items of a list are numbered, if it or its style says so.
fn own_style(tag: &Tag, declared: &Declared) -> Option<ListStyle> {
    let of_type = || tag.attribute("type").and_then(|kind| Format::of_example(kind.trim()));
    declared.list.clone().or_else(|| of_type().map(ListStyle::Format))
}

/// The part of a table that an element is by its role, as the name of the element that is such a part.
fn table_part(tag: &Tag) -> Option<&'static [u8]> {
    if matches!(&*tag.name, b"table" | b"thead" | b"tbody" | b"tfoot" | b"tr") {
        return None;
    }
    match tag.attribute("role")?.trim() {
        "table" | "grid" | "treegrid" => Some(b"table"),
        "rowgroup" => Some(b"tbody"),
        "row" => Some(b"tr"),
        "columnheader" | "rowheader" => Some(b"th"),
        "cell" | "gridcell" => Some(b"td"),
        _ => None,
    }
}

/// Tables that say of themselves that they are none.
fn is_for_layout(tag: &Tag) -> bool {
    tag.is("role", "presentation") || tag.is("role", "none")
}

/// The first number of an attribute, without its unit.
fn height(tag: &Tag, name: &str) -> Option<f64> {
    let numbers = tag.attribute(name)?;
    let number = numbers.split([' ', ',']).find(|number| !number.is_empty())?;
    number.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '%').parse().ok()
}

fn is_block(name: &[u8]) -> bool {
    const BLOCKS: &[&[u8]] = &[
        b"address",
        b"article",
        b"aside",
        b"blockquote",
        b"caption",
        b"center",
        b"details",
        b"dialog",
        b"div",
        b"dl",
        b"fieldset",
        b"figcaption",
        b"figure",
        b"footer",
        b"form",
        b"header",
        b"hgroup",
        b"legend",
        b"main",
        b"nav",
        b"p",
        b"search",
        b"section",
        b"summary",
    ];
    BLOCKS.contains(&name)
}

//! What elements write: text as its run looks, paragraphs with their numbers, marks of notes.

use super::{Body, Kind, Paragraph};
use crate::color::Color;
use crate::office::docx::auto_numbers::FieldPlace;
use crate::office::docx::styles::{RunLook, set_tabs, shading};
use crate::office::fields::Shown;
use crate::office::shape::ShapeLook;
use crate::office::sight::{self, Sight};
use crate::package::xml::Element;
use crate::writer::symbols::{EMPTY, TICKED};
use crate::writer::{Level, Writer, symbols};

impl Body {
    pub(super) fn run_property(&mut self, element: &Element) {
        if self.in_paragraph_properties {
            // Of the end of the paragraph.
            if let Some(paragraph) = self.paragraphs.last_mut() {
                let is_hidden = element.name == "vanish" && element.is_on();
                let is_deleted = matches!(element.name.as_str(), "del" | "moveFrom");
                paragraph.is_gone |= is_hidden || is_deleted;
                paragraph.is_joined |= is_deleted;
            }
            return;
        }
        if let Some(run) = self.runs.last_mut() {
            match element.name.as_str() {
                "rStyle" => {
                    let style = self.styles.get(element.attribute("val").as_deref());
                    *run = run.replaced_by(&style.run);
                }
                _ => run.set(element),
            }
        }
    }

    pub(super) fn paragraph_property(&mut self, element: &Element) {
        let Some(paragraph) = self.paragraphs.last_mut() else { return };
        match element.name.as_str() {
            "pStyle" => paragraph.style = element.attribute("val"),
            // Level 9 is that of the text.
            "outlineLvl" => {
                let level = element.attribute("val").and_then(|level| level.parse::<usize>().ok());
                paragraph.heading = level.map(|level| if level < 9 { level + 1 } else { 0 });
            }
            "shd" => paragraph.ground = Some(shading(element)),
            "tab" | "ind" => set_tabs(&mut paragraph.tabs, element),
            _ => paragraph.number.set(element),
        }
    }

    pub(super) fn text(&mut self, text: &str) {
        if self.fields.hide_text() {
            return;
        }
        let text = match self.show_control() {
            // What the control contains is its box, which may be any sign.
            true if text.chars().count() == 1 => "",
            true => text.trim_start_matches(['☐', '☑', '☒']),
            false => text,
        };
        if text.is_empty() {
            return;
        }
        if self.in_reading {
            return self.reading.iter_mut().for_each(|reading| reading.push_str(text));
        }
        let look = self.runs.last().cloned().unwrap_or_default();
        let sight = self.sight(&look);
        if self.is_below || sight == Sight::Hidden {
            if !text.trim().is_empty() {
                self.counts.hidden += usize::from(!std::mem::replace(&mut self.is_counted, true));
            }
            return;
        }
        self.is_counted = false;
        if let Some(paragraph) = self.paragraphs.last_mut()
            && sight == Sight::Uncertain
            && !text.trim().is_empty()
        {
            self.counts.white += usize::from(!std::mem::replace(&mut paragraph.has_white, true));
        }
        if !text.trim().is_empty() {
            self.fields.show_text();
        }
        self.begin_text();
        let known = match look.font.as_deref().filter(|font| symbols::is_symbol_font(font)) {
            Some(font) => symbols::text(font, text),
            None => (text.to_owned(), text.chars().filter(|c| symbols::is_private(*c)).count()),
        };
        self.counts.unknown_characters += known.1;
        self.out().struck(look.is_struck == Some(true), |out| match look.level.unwrap_or(Level::Normal) {
            Level::Normal if look.keeps_spaces() => out.preformatted(&known.0),
            level => out.text_at(level, &known.0),
        });
    }

    pub(super) fn set_control(&mut self, is_ticked: bool) {
        self.controls.iter_mut().last().into_iter().for_each(|last| *last = Some(is_ticked));
    }

    /// Writes the box of the innermost control, unless it is written. Returns whether it did so.
    pub(super) fn show_control(&mut self) -> bool {
        let control = self.controls.last_mut().filter(|_| !self.in_control_properties);
        let Some(is_ticked) = control.and_then(Option::take) else { return false };
        self.text(if is_ticked { TICKED } else { EMPTY });
        true
    }

    /// Whether a reader sees text that looks so.
    pub(super) fn sight(&self, look: &RunLook) -> Sight {
        if look.is_hidden == Some(true) || look.is_tiny == Some(true) {
            return Sight::Hidden;
        }
        let of_table = self.tables.last().filter(|_| self.text_boxes == 0).and_then(|table| table.color);
        let color = look.color.or(of_table).or(self.styles.color);
        // No other colour is lost on any ground.
        let Some(Color::Known(..) | Color::Transparent) = color else { return Sight::Seen };
        let paragraph = self.paragraphs.last();
        let style = self.styles.get(paragraph.and_then(|paragraph| paragraph.style.as_deref())).ground;
        let own = paragraph.and_then(|paragraph| paragraph.ground);
        let page = match (self.tables.last(), self.text_boxes) {
            (None, 0) => self.page,
            (Some(table), 0) => table.ground,
            // Boxes have colours and pictures of their own.
            (None, _) => {
                let ground = self.shapes.last().and_then(ShapeLook::ground);
                ground.filter(|color| *color != Color::Transparent).unwrap_or(Color::Unknown)
            }
            _ => Color::Unknown,
        };
        let grounds = [look.ground, own, style];
        let on = |color, page| sight::of_color(color, &grounds, page);
        let fill = sight::on_page(page, self.has_behind, |page| on(color, page));
        let sight = match look.outline {
            Some(outline) => fill.min(on(Some(outline), page)),
            None => fill,
        };
        match sight {
            // Who made the style chose a colour that fits its grounds.
            Sight::Uncertain if look.color.is_none() && of_table.is_some() => Sight::Seen,
            sight => sight,
        }
    }

    pub(super) fn tab(&mut self) {
        let look = self.runs.last().cloned().unwrap_or_default();
        if look.keeps_spaces() {
            return self.text("\t");
        }
        if self.fields.hide_text() || self.is_below || self.sight(&look) == Sight::Hidden {
            return;
        }
        self.begin_text();
        let Some(paragraph) = self.paragraphs.last() else { return };
        let stops = self.styles.get(paragraph.style.as_deref()).tabs.replaced_by(&paragraph.tabs);
        let distance = self.tab_distance;
        self.out().tab(&stops, distance);
    }

    pub(super) fn symbol(&mut self, font: &str, number: &str) {
        let number = u32::from_str_radix(number, 16).unwrap_or(0);
        match symbols::sign(font, number) {
            Some(sign) => self.text(sign.encode_utf8(&mut [0; 4])),
            None => self.show(Shown::Unknown),
        }
    }

    pub(super) fn show(&mut self, shown: Shown) {
        match shown {
            Shown::Nothing => {}
            Shown::Text(text) => self.text(&text),
            Shown::Unknown => {
                self.counts.unknown_characters += 1;
                self.text("\u{fffd}");
            }
            Shown::Formula => self.counts.formulas += 1,
            Shown::Number(name, arguments) => {
                let place = self.place();
                match self.auto_numbers.next(&name, &arguments, place) {
                    Some(number) => self.text(&number),
                    None => self.counts.unknown_numbers += 1,
                }
            }
        }
    }

    /// What the paragraph is to numbers that fields make.
    fn place(&self) -> FieldPlace {
        let Some(paragraph) = self.paragraphs.last() else { return FieldPlace::default() };
        let style = self.styles.get(paragraph.style.as_deref());
        let list = style.number.replaced_by(&paragraph.number).list;
        FieldPlace {
            heading: paragraph.heading.or(style.heading).filter(|level| *level > 0),
            is_numbered: list.is_some_and(|list| list != "0"),
            has_headings: self.has_headings,
        }
    }

    /// A chart is the numbers that it shows, a diagram is a list of its texts.
    pub(super) fn drawing(&mut self, element: &Element) {
        self.begin_text();
        let out = match &mut self.note {
            Some((_, writer)) => writer,
            None => &mut self.writer,
        };
        if !self.drawings.write(element, out) {
            self.picture();
        }
    }

    /// A picture is what its description says.
    pub(super) fn picture(&mut self) {
        match self.description.take() {
            Some(text) => self.text(&format!("[image: {}]", text.trim())),
            None => self.counts.pictures += 1,
        }
    }

    /// Begins the paragraph whose first text follows.
    pub(super) fn begin_text(&mut self) {
        let Some(paragraph) = self.paragraphs.last_mut().filter(|paragraph| !paragraph.has_begun) else {
            return;
        };
        paragraph.has_begun = true;
        let style = self.styles.get(paragraph.style.as_deref());
        let heading = paragraph.heading.or(style.heading).filter(|level| *level > 0);
        let number = style.number.replaced_by(&paragraph.number);
        // The number of both paragraphs is that of the first.
        if std::mem::take(&mut self.joins) {
            return;
        }
        let number = self.numbering.count(&number, paragraph.style.as_deref(), &self.styles);
        let is_code = style.run.is_code == Some(true);
        let behind_code = std::mem::replace(&mut self.is_code, is_code);
        self.has_headings |= heading.is_some();
        let out = self.out();
        out.end_item();
        match (heading, number) {
            (Some(level), number) => {
                out.heading(level);
                if let Some((_, mark)) = number.filter(|(_, mark)| !mark.is_empty() && mark != "-") {
                    out.number(&mark);
                }
            }
            (None, Some((level, mark))) if !mark.is_empty() => out.item(level, &mark),
            // The lines of a listing may be paragraphs.
            _ if is_code && behind_code => out.line(),
            _ => out.paragraph(),
        }
        let mark = std::mem::take(&mut self.note_mark);
        if !mark.is_empty() {
            self.out().text(&mark);
        }
    }

    /// Ends the line of a paragraph whose end is deleted, where no other goes on in it.
    pub(super) fn end_joined(&mut self) {
        if std::mem::take(&mut self.joins) {
            self.out().line();
        }
    }

    pub(super) fn end_paragraph(&mut self) {
        let is_joined = |paragraph: &Paragraph| paragraph.is_joined && (paragraph.has_begun || self.joins);
        if self.paragraphs.last().is_some_and(is_joined) {
            self.joins = true;
            self.paragraphs.pop();
            return;
        }
        if self.joins {
            self.paragraphs.pop();
            return self.end_joined();
        }
        // An empty paragraph of a list is counted, too.
        let is_counted = self.paragraphs.last().is_some_and(|paragraph| {
            let in_list = || self.styles.get(paragraph.style.as_deref()).number.list.is_some();
            !paragraph.has_begun && !paragraph.is_gone && (paragraph.number.list.is_some() || in_list())
        });
        if is_counted && self.note.is_none() {
            self.begin_text();
            self.out().end_item();
        }
        self.paragraphs.pop();
        self.out().line();
    }

    /// The mark of a note.
    pub(super) fn mark(&mut self, element: &Element, kind: Kind) {
        let Some(id) = element.attribute("id") else { return };
        let (marks, prefix) = match kind {
            Kind::Endnotes => (&mut self.endnotes, "e"),
            Kind::Comments => (&mut self.comments, "c"),
            _ => (&mut self.footnotes, ""),
        };
        let number = marks.number(id);
        self.begin_text();
        self.out().text(&format!("[^{prefix}{number}]"));
    }

    /// A note of the document; those with a type are separators, and the text refers to the others.
    pub(super) fn begin_note(&mut self, element: &Element) {
        let (marks, prefix, order) = match self.kind {
            Kind::Endnotes => (&self.endnotes, "e", 1),
            Kind::Comments => (&self.comments, "c", 2),
            _ => (&self.footnotes, "", 0),
        };
        let is_note = element.attribute("type").is_none_or(|kind| kind == "normal");
        let number = element.attribute("id").and_then(|id| marks.0.get(&id).copied()).filter(|_| is_note);
        let Some(number) = number else {
            self.skipping = 1;
            return;
        };
        let author = element.attribute("author").filter(|_| self.kind == Kind::Comments);
        let author = author.map_or(String::new(), |author| format!("{} comments: ", author.trim()));
        self.note_mark = format!("[^{prefix}{number}]: {author}");
        self.note = Some(((order, number), Writer::default()));
    }
}

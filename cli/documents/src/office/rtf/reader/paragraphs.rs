//! Paragraphs: headings, items of lists, and those in tables.

use std::mem;

use super::Reader;
use crate::writer::symbols;

impl Reader {
    pub(super) fn begin_text(&mut self) {
        if mem::replace(&mut self.has_begun, true) {
            return;
        }
        self.begin_cell();
        let paragraph = &self.group.paragraph;
        let heading = paragraph.heading.or_else(|| self.styles.get(&paragraph.style)?.heading);
        let heading = heading.filter(|_| !paragraph.in_table);
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
            None if !mark.is_empty() => self.writer.item(paragraph.depth, &mark),
            None => self.writer.paragraph(),
        }
    }

    pub(super) fn end_paragraph(&mut self) {
        self.begin_cell();
        self.writer.end_item();
        self.mark.clear();
        self.has_begun = false;
        (self.is_counted, self.has_white) = (false, false);
    }
}

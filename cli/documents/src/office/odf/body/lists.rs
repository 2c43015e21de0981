//! Paragraphs with the numbers of lists and headings.

use super::{Body, List};
use crate::office::odf::styles::LEVELS;
use crate::package::xml::Element;

impl Body<'_> {
    pub(super) fn begin_paragraph(&mut self, element: &Element) {
        self.paragraph_depth += 1;
        (self.is_counted, self.has_white) = (false, false);
        if let Some(cell) = self.tables.last_mut().and_then(|table| table.open.as_mut())
            && cell.notes == self.notes.len()
        {
            cell.has_paragraph = true;
        }
        let style = element.attribute("style-name");
        let own = self.styles.look(style.as_deref());
        let look = match self.cell().map(|cell| &cell.look).or(self.shapes.last()) {
            Some(around) => around.replaced_by(&own),
            None => own,
        };
        let level =
            element.attribute("outline-level").and_then(|level| level.parse::<usize>().ok()).unwrap_or(1);
        let is_heading = element.name == "h" || self.in_title > 0;
        let is_code = look.is_code == Some(true);
        let behind_code = std::mem::replace(&mut self.is_code, is_code);
        self.writer.end_item();
        let mark = self.item_mark(look.list.as_deref());
        let depth = self.lists.len().saturating_sub(1);
        match (is_heading, mark) {
            (true, mark) => {
                self.writer.heading(if self.in_title > 0 { 2 } else { level });
                let is_plain = element.attribute("is-list-header").is_some_and(|value| value == "true");
                let restarts = element.attribute("restart-numbering").is_some_and(|value| value == "true");
                let start = element.attribute("start-value").and_then(|start| start.parse().ok());
                let restart = restarts.then_some(start);
                let mark = mark.or_else(|| {
                    (element.name == "h" && !is_plain).then(|| self.heading_mark(level, restart))
                });
                mark.filter(|mark| !mark.is_empty() && mark != "-")
                    .iter()
                    .for_each(|mark| self.writer.number(mark));
            }
            (false, Some(mark)) if !mark.is_empty() => self.writer.item(depth, &mark),
            (false, _) if !self.lists.is_empty() => self.writer.line(),
            // The lines of a listing may be paragraphs.
            (false, _) if is_code && behind_code => self.writer.line(),
            (false, _) => self.writer.paragraph(),
        }
        self.looks.push(look);
    }

    /// The mark of the item that begins, if one does.
    pub(super) fn item_mark(&mut self, of_style: Option<&str>) -> Option<String> {
        let level = self.lists.len().checked_sub(1)?.min(LEVELS - 1);
        let list = self.lists.last_mut()?;
        if !std::mem::take(&mut list.is_item) {
            return None;
        }
        let name =
            if list.style.is_empty() { of_style.unwrap_or_default().to_owned() } else { list.style.clone() };
        let (start, id) = (list.start.take(), list.id.clone());
        let numbers = self.numbers.entry(name.clone()).or_insert([None; LEVELS]);
        let style = self.styles.list(&name).cloned().unwrap_or_default();
        numbers[level] = Some(match (start, numbers[level]) {
            (Some(start), _) => start,
            (None, Some(number)) => number.saturating_add(1),
            (None, None) => style.start(level),
        });
        numbers[level + 1..].fill(None);
        let mark = style.mark(level, numbers);
        let numbers = *numbers;
        self.counts.unknown_numerals += usize::from(style.is_unknown(level));
        if let Some(id) = id {
            self.numbers.insert(format!("#{id}"), numbers);
        }
        Some(mark)
    }

    /// The mark of the heading that begins. It may restart the numbers of its level, with a number that the file names.
    fn heading_mark(&mut self, level: usize, restart: Option<Option<i64>>) -> String {
        let at = level.saturating_sub(1).min(LEVELS - 1);
        let style = self.styles.headings.clone();
        self.headings[at] = Some(match (restart, self.headings[at]) {
            (Some(Some(start)), _) => start,
            (None, Some(number)) => number.saturating_add(1),
            (Some(None), _) | (None, None) => style.start(at),
        });
        self.headings[at + 1..].fill(None);
        self.counts.unknown_numerals += usize::from(style.is_unknown(at));
        style.mark(at, &self.headings)
    }

    pub(super) fn begin_list(&mut self, element: &Element) {
        let outer = self.lists.last().map(|list| list.style.clone());
        let style = element.attribute("style-name").or(outer.clone()).unwrap_or_default();
        if outer.is_none() {
            let continues = element.attribute("continue-numbering").is_some_and(|value| value == "true");
            let continued = element
                .attribute("continue-list")
                .and_then(|id| self.numbers.get(&format!("#{id}")).copied());
            match continued {
                Some(numbers) => _ = self.numbers.insert(style.clone(), numbers),
                None if continues => {}
                None => _ = self.numbers.remove(&style),
            }
        }
        let id = element.attribute_of("xml:id").or_else(|| element.attribute_of("text:id"));
        self.writer.end_item();
        self.lists.push(List { style, id, is_item: false, start: None });
    }
}

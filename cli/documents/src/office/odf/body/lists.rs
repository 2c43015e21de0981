//! Paragraphs with the numbers of lists and headings.

use super::{Body, List, Numbers, Outer};
use crate::office::odf::styles::{LEVELS, ListStyle};
use crate::package::xml::Element;

/// Counts an item of a level. It may restart its numbers, with one that the file names. In texts, an item that is within
/// no other one counts one without text above it.
fn count(
    numbers: &mut Numbers,
    level: usize,
    style: &ListStyle,
    restart: Option<Option<i64>>,
    counts_above: bool,
) {
    if counts_above {
        let above = numbers[..level].iter_mut().enumerate();
        above.for_each(|(at, number)| _ = number.get_or_insert_with(|| style.start(at)));
    }
    numbers[level] = Some(match (restart, numbers[level]) {
        (Some(Some(start)), _) => start,
        (None, Some(number)) => number.saturating_add(1),
        (Some(None), _) | (None, None) => style.start(level),
    });
    numbers[level + 1..].fill(None);
}

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
        if let Some(outer) = self.outer.last_mut() {
            outer.mark.get_or_insert_with(|| self.writer.take_mark());
        }
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
        let of_list = Some(list.style.as_str()).filter(|style| !style.is_empty());
        let name = list.item_style.as_deref().or(of_list).or(of_style).unwrap_or_default();
        let style = self.styles.list(name).cloned().unwrap_or_default();
        let numbers = &mut self.numbers[list.numbers];
        count(numbers, level, &style, list.start.take().map(Some), self.slides == 0);
        self.counts.unknown_numerals += usize::from(style.is_unknown(level));
        Some(style.mark(level, numbers))
    }

    /// The mark of the heading that begins. It may restart the numbers of its level, with a number that the file names.
    fn heading_mark(&mut self, level: usize, restart: Option<Option<i64>>) -> String {
        let at = level.saturating_sub(1).min(LEVELS - 1);
        let style = self.styles.headings.clone();
        count(&mut self.headings, at, &style, restart, true);
        self.counts.unknown_numerals += usize::from(style.is_unknown(at));
        style.mark(at, &self.headings)
    }

    pub(super) fn begin_list(&mut self, element: &Element) {
        let own_style = element.attribute("style-name");
        let level = self.lists.len().min(LEVELS);
        let (style, numbers) = match self.lists.last_mut() {
            Some(outer) => {
                outer.is_item = false;
                // The next list within an item begins anew.
                if std::mem::replace(&mut outer.has_list, true) {
                    self.numbers[outer.numbers][level..].fill(None);
                }
                (own_style.unwrap_or_else(|| outer.style.clone()), outer.numbers)
            }
            None => {
                let style = own_style.unwrap_or_default();
                let numbers = self.numbers_of_list(element, &style);
                self.last_list = Some((style.clone(), numbers));
                (style, numbers)
            }
        };
        self.writer.end_item();
        let (is_item, start, item_style, has_list) = (false, None, None, false);
        self.lists.push(List { style, numbers, is_item, start, item_style, has_list });
    }

    /// Which numbers an outermost list has: those of the list that it continues, or new ones.
    fn numbers_of_list(&mut self, element: &Element, style: &str) -> usize {
        let id = element.attribute_of("xml:id").or_else(|| element.attribute_of("text:id"));
        let continued = element.attribute("continue-list");
        // Slides have no such attribute.
        let continues = self.slides > 0
            || continued.is_none()
                && element.attribute("continue-numbering").is_some_and(|value| value == "true");
        let last = self.last_list.as_ref().filter(|(of_last, _)| continues && of_last == style);
        let known = |id: Option<&String>| id.and_then(|id| self.list_ids.get(id)).copied();
        let found = known(continued.as_ref()).or_else(|| known(id.as_ref())).or(last.map(|last| last.1));
        let numbers = found.unwrap_or_else(|| {
            self.numbers.push([None; LEVELS]);
            self.numbers.len() - 1
        });
        self.list_ids.extend(id.map(|id| (id, numbers)));
        numbers
    }

    /// An item begins, or the header of a list, which has no number.
    pub(super) fn begin_list_item(&mut self, element: &Element) {
        let Some(list) = self.lists.last_mut() else { return };
        list.is_item = element.name == "list-item";
        list.start = element.attribute("start-value").and_then(|start| start.parse().ok());
        list.item_style = element.attribute("style-override");
        list.has_list = false;
    }

    /// A note or a shape begins: lists around it are not around its text.
    pub(super) fn leave(&mut self) {
        self.outer.push(Outer { lists: std::mem::take(&mut self.lists), mark: None });
        // The text of each shape of a slide has numbers of its own.
        if self.slides > 0 {
            self.last_list = None;
        }
    }

    /// It ends.
    pub(super) fn come_back(&mut self) {
        let Some(outer) = self.outer.pop() else { return };
        self.lists = outer.lists;
        if let Some(mark) = outer.mark.filter(|mark| !mark.is_empty()) {
            self.writer.resume(mark);
        }
    }
}

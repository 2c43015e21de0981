//! The elements of a page that are open, as browsers see them: many need no end tag.

use std::collections::HashMap;

/// Elements without content.
const VOID: &[&[u8]] = &[
    b"area",
    b"base",
    b"basefont",
    b"bgsound",
    b"br",
    b"col",
    b"embed",
    b"frame",
    b"hr",
    b"img",
    b"input",
    b"keygen",
    b"link",
    b"meta",
    b"param",
    b"source",
    b"track",
    b"wbr",
];
/// Elements that end a paragraph when they begin.
const END_PARAGRAPHS: &[&[u8]] = &[
    b"address",
    b"article",
    b"aside",
    b"blockquote",
    b"center",
    b"dd",
    b"details",
    b"dialog",
    b"dir",
    b"div",
    b"dl",
    b"dt",
    b"fieldset",
    b"figcaption",
    b"figure",
    b"footer",
    b"form",
    b"h1",
    b"h2",
    b"h3",
    b"h4",
    b"h5",
    b"h6",
    b"header",
    b"hgroup",
    b"hr",
    b"li",
    b"listing",
    b"main",
    b"menu",
    b"nav",
    b"ol",
    b"p",
    b"pre",
    b"search",
    b"section",
    b"summary",
    b"table",
    b"ul",
    b"xmp",
];
/// Elements that other elements do not end from within.
const TABLES: &[&[u8]] = &[b"table"];
const CELLS: &[&[u8]] = &[b"table", b"td", b"th", b"caption", b"button", b"object"];
const LISTS: &[&[u8]] = &[b"table", b"td", b"th", b"ul", b"ol", b"menu", b"dir"];
const TERMS: &[&[u8]] = &[b"table", b"td", b"th", b"dl"];
const CHOICES: &[&[u8]] = &[b"select", b"datalist", b"table"];
/// Parts of tables.
const PARTS: &[&[u8]] =
    &[b"table", b"caption", b"colgroup", b"thead", b"tbody", b"tfoot", b"tr", b"td", b"th"];

/// Whether an element has no content.
pub(super) fn is_void(name: &[u8]) -> bool {
    VOID.contains(&name)
}

/// Whether an element is a part of a line of text, unless a style sheet says otherwise.
pub(super) fn is_inline(name: &[u8]) -> bool {
    const BOXES: &[&[u8]] = &[b"button", b"select", b"svg", b"text", b"textarea"];
    ![END_PARAGRAPHS, PARTS, BOXES].iter().any(|names| names.contains(&name))
}

/// The open elements with what the caller knows of each.
#[derive(Debug)]
pub(super) struct Elements<T> {
    open: Vec<(usize, T)>,
    /// Numbers of names, and where elements of each name are in `open`.
    names: HashMap<Vec<u8>, usize>,
    known: Vec<Vec<u8>>,
    places: Vec<Vec<usize>>,
}

impl<T> Default for Elements<T> {
    fn default() -> Elements<T> {
        Elements { open: Vec::new(), names: HashMap::new(), known: Vec::new(), places: Vec::new() }
    }
}

impl<T> Elements<T> {
    /// Elements that are open.
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether an element of this name is open.
    pub(super) fn is_within(&self, name: &[u8]) -> bool {
        !self.places(name).is_empty()
    }

    /// What the caller knows of the innermost element.
    pub(super) fn last(&self) -> Option<&T> {
        self.open.last().map(|(_, known)| known)
    }

    /// The name of the innermost element.
    pub(super) fn last_name(&self) -> &[u8] {
        self.open.last().map_or(&[], |(number, _)| &self.known[*number])
    }

    pub(super) fn push(&mut self, name: &[u8], known: T) {
        let number = match self.names.get(name) {
            Some(number) => *number,
            None => {
                self.places.push(Vec::new());
                self.names.insert(name.to_vec(), self.places.len() - 1);
                self.known.push(name.to_vec());
                self.places.len() - 1
            }
        };
        self.places[number].push(self.open.len());
        self.open.push((number, known));
    }

    /// Ends the innermost element.
    pub(super) fn pop(&mut self) -> Option<T> {
        let (number, known) = self.open.pop()?;
        self.places[number].pop();
        Some(known)
    }

    /// How many elements stay open when an element begins in HTML.
    pub(super) fn kept_by_start(&self, name: &[u8]) -> usize {
        let end = |names: &[&[u8]], within: &[&[u8]]| self.outermost(names, within);
        let ended = match name {
            b"li" => end(&[b"li"], LISTS),
            b"dt" | b"dd" => end(&[b"dt", b"dd"], TERMS),
            b"option" => end(&[b"option"], CHOICES),
            b"optgroup" => end(&[b"option", b"optgroup"], CHOICES),
            b"td" | b"th" => end(&[b"td", b"th", b"caption"], TABLES),
            b"tr" => end(&[b"tr", b"td", b"th", b"caption"], TABLES),
            b"thead" | b"tbody" | b"tfoot" | b"colgroup" => {
                end(&[b"thead", b"tbody", b"tfoot", b"tr", b"td", b"th", b"caption", b"colgroup"], TABLES)
            }
            b"rt" | b"rp" => end(&[b"rt", b"rp"], &[b"ruby"]),
            b"body" => end(&[b"head"], &[]),
            _ => None,
        };
        let paragraph = END_PARAGRAPHS.contains(&name).then(|| end(&[b"p"], CELLS)).flatten();
        ended.into_iter().chain(paragraph).min().unwrap_or(self.open.len())
    }

    /// How many elements stay open behind an end tag; all of them if nothing of this name is open.
    pub(super) fn kept_by_end(&self, name: &[u8], is_xml: bool) -> usize {
        let within: &[&[u8]] = match name {
            _ if is_xml => &[],
            b"table" => &[],
            name if PARTS.contains(&name) => TABLES,
            b"li" => LISTS,
            b"body" | b"html" => &[],
            _ => CELLS,
        };
        self.innermost(name, within).unwrap_or(self.open.len())
    }

    fn places(&self, name: &[u8]) -> &[usize] {
        self.names.get(name).map_or(&[], |number| &self.places[*number])
    }

    /// Where the innermost element is that nothing within it may be left from.
    fn barrier(&self, within: &[&[u8]]) -> usize {
        within.iter().filter_map(|name| self.places(name).last()).max().map_or(0, |place| place + 1)
    }

    fn innermost(&self, name: &[u8], within: &[&[u8]]) -> Option<usize> {
        let others: Vec<&[u8]> = within.iter().copied().filter(|other| *other != name).collect();
        let barrier = self.barrier(&others);
        self.places(name).last().copied().filter(|place| *place >= barrier)
    }

    /// The outermost element of these names behind a barrier.
    fn outermost(&self, names: &[&[u8]], within: &[&[u8]]) -> Option<usize> {
        let barrier = self.barrier(within);
        let first = |name: &&[u8]| {
            let places = self.places(name);
            places.get(places.partition_point(|place| *place < barrier)).copied()
        };
        names.iter().filter_map(first).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(names: &[&str]) -> Elements<()> {
        let mut elements = Elements::default();
        names.iter().for_each(|name| elements.push(name.as_bytes(), ()));
        elements
    }

    #[test]
    fn elements_end_where_others_begin() {
        assert_eq!(open(&["body", "p", "b"]).kept_by_start(b"div"), 1);
        assert_eq!(open(&["body", "p", "b"]).kept_by_start(b"i"), 3);
        assert_eq!(open(&["ul", "li", "div", "ul", "li"]).kept_by_start(b"li"), 4);
        assert_eq!(open(&["ul", "li", "p"]).kept_by_start(b"li"), 1);
        assert_eq!(open(&["p", "table", "tr", "td"]).kept_by_start(b"p"), 4);
        assert_eq!(open(&["table", "tbody", "tr", "td", "p"]).kept_by_start(b"tr"), 2);
        assert_eq!(open(&["table", "tr", "td", "table", "tr", "td"]).kept_by_start(b"td"), 5);
    }

    #[test]
    fn end_tags_end_what_is_open() {
        assert_eq!(open(&["div", "p", "b"]).kept_by_end(b"div", false), 0);
        assert_eq!(open(&["div", "table", "tr", "td"]).kept_by_end(b"div", false), 4);
        assert_eq!(open(&["div", "table", "tr", "td"]).kept_by_end(b"table", false), 1);
        assert_eq!(open(&["div"]).kept_by_end(b"p", false), 1);
        assert_eq!(open(&["td", "td"]).kept_by_end(b"td", false), 1);
    }
}

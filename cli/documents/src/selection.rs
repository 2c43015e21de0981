//! Which pages, chapters, slides or sheets of a document are read: `10-40`, `7`, `3,10-12`, `10-`.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Note, Problem};

/// Numbers of pages, chapters, slides or sheets, from 1 on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// First and last numbers; the last may be beyond the end.
    ranges: Vec<(usize, usize)>,
}

/// What a document is divided into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Pages of a PDF.
    Page,
    /// Files of an EPUB, in the order in which they are read.
    Chapter,
    /// Slides of a presentation.
    Slide,
    /// Sheets of a workbook.
    Sheet,
}

impl Unit {
    /// `page`, or `pages` for another number than 1.
    pub fn name(self, count: usize) -> String {
        let name = match self {
            Unit::Page => "page",
            Unit::Chapter => "chapter",
            Unit::Slide => "slide",
            Unit::Sheet => "sheet",
        };
        format!("{name}{}", if count == 1 { "" } else { "s" })
    }
}

impl Selection {
    /// Reads `3,10-12`.
    ///
    /// # Errors
    /// It is something else, or a range that ends before it begins.
    pub fn parse(text: &str) -> Result<Selection, Problem> {
        let invalid = || Problem::InvalidParts { text: text.to_owned() };
        let number = |text: &str| text.parse::<usize>().ok().filter(|number| *number > 0);
        let range = |text: &str| match text.split_once('-') {
            Some((first, "")) => Some((number(first)?, usize::MAX)),
            Some(("", last)) => Some((1, number(last)?)),
            Some((first, last)) => Some((number(first)?, number(last)?)),
            None => Some((number(text)?, number(text)?)),
        };
        let ranges = text.split(',').map(|part| range(part.trim()).filter(|(first, last)| first <= last));
        let ranges: Option<Vec<_>> = ranges.collect();
        Ok(Selection { ranges: ranges.ok_or_else(invalid)? })
    }

    fn contains(&self, number: usize) -> bool {
        self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&number))
    }

    /// The numbers up to a last one: `10-40`.
    fn up_to(&self, last: usize) -> String {
        let ranges = self.ranges.iter().filter(|(first, _)| *first <= last);
        let ranges = ranges.map(|(first, end)| match (*end).min(last) {
            end if end == *first => first.to_string(),
            end => format!("{first}-{end}"),
        });
        ranges.collect::<Vec<_>>().join(",")
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (i, (first, last)) in self.ranges.iter().enumerate() {
            f.write_str(if i > 0 { "," } else { "" })?;
            match *last {
                usize::MAX => write!(f, "{first}-")?,
                last if last == *first => write!(f, "{first}")?,
                last => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

/// Ends of the names of files that have such parts.
const PARTED: &[&str] = &[".pdf", ".epub", ".pptx", ".xlsx", ".odp", ".ods"];

/// A path without the numbers of parts behind it, and these numbers: `book.pdf` and `10-40` of `book.pdf:10-40`. `None`
/// for a path that has none, or that a file has as its name.
pub fn split_numbers(path: &Path) -> Option<(PathBuf, &str)> {
    let text = path.to_str()?;
    let (name, numbers) = text.rsplit_once(':')?;
    // The port of a server, or a part of an address that is no file.
    let is_file = |address: &str| {
        let path = address.split_once("://").and_then(|(_, rest)| rest.split_once('/'));
        let path =
            path.map(|(_, path)| path.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase());
        path.is_some_and(|path| PARTED.iter().any(|end| path.ends_with(end)))
    };
    if text.contains("://") && !is_file(name) {
        return None;
    }
    let is_numbers = numbers.starts_with(|c: char| c.is_ascii_digit() || c == '-')
        && numbers.contains(|c: char| c.is_ascii_digit())
        && numbers.chars().all(|c| c.is_ascii_digit() || matches!(c, '-' | ',' | ' '));
    if !is_numbers || name.is_empty() || path.symlink_metadata().is_ok() {
        return None;
    }
    // `3:4` is not numbers and a name with numbers: it is one text that is none.
    match split_numbers(Path::new(name)) {
        Some((path, _)) => {
            let numbers = &text[path.as_os_str().len() + 1..];
            Some((path, numbers))
        }
        None => Some((name.into(), numbers)),
    }
}

/// A path without the numbers of parts behind it.
pub fn without_numbers(path: &Path) -> PathBuf {
    split_numbers(path).map_or_else(|| path.to_owned(), |(path, _)| path)
}

/// Counts the parts of a document while it is converted, and chooses those that are read.
pub(crate) struct Chooser<'a> {
    selection: Option<&'a Selection>,
    unit: Unit,
    count: usize,
    chosen: usize,
}

impl<'a> Chooser<'a> {
    pub(crate) fn new(selection: Option<&'a Selection>, unit: Unit) -> Chooser<'a> {
        Chooser { selection, unit, count: 0, chosen: 0 }
    }

    /// Whether the next part is read.
    pub(crate) fn takes_next(&mut self) -> bool {
        self.count += 1;
        let is_chosen = self.selection.is_none_or(|selection| selection.contains(self.count));
        self.chosen += usize::from(is_chosen);
        is_chosen
    }

    /// Parts that are read.
    pub(crate) fn chosen(&self) -> usize {
        self.chosen
    }

    /// What was chosen, if not all was.
    ///
    /// # Errors
    /// There is no such part.
    pub(crate) fn note(&self) -> Result<Option<Note>, Problem> {
        let Some(selection) = self.selection else { return Ok(None) };
        let (unit, count) = (self.unit, self.count);
        match self.chosen {
            0 => Err(Problem::NoSuchPart { asked: selection.to_string(), unit, count }),
            _ => Ok(Some(Note::Chosen { numbers: selection.up_to(count), unit, count })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ranges_are_read() {
        for (text, shown, chosen) in [
            ("7", "7", &[7][..]),
            ("3,10-12", "3,10-12", &[3, 10, 11, 12]),
            ("11-", "11-12", &[11, 12]),
            ("-2", "1-2", &[1, 2]),
            ("2,2-3", "2,2-3", &[2, 3]),
            ("12-40,50", "12", &[12]),
        ] {
            let selection = Selection::parse(text).expect(text);
            let mut chooser = Chooser::new(Some(&selection), Unit::Page);
            let found: Vec<usize> = (1..=12).filter(|_| chooser.takes_next()).collect();
            assert_eq!(found, chosen, "{text}");
            assert_eq!(
                chooser.note().expect(text),
                Some(Note::Chosen { numbers: shown.into(), unit: Unit::Page, count: 12 })
            );
        }
        for text in ["", "0", "3-2", "a", "1-2-3", "1,,2", "--", "-", "99999999999999999999999"] {
            assert!(Selection::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_behind_a_path_are_split_off() {
        for (path, split) in [
            ("book.pdf:10-40", Some(("book.pdf", "10-40"))),
            ("a:b/c.epub:3,10-", Some(("a:b/c.epub", "3,10-"))),
            ("book.pdf", None),
            ("book.pdf:", None),
            ("book.pdf:x", None),
            (":3", None),
            ("book.pdf:-", None),
            ("https://example.com/book.pdf:3-", Some(("https://example.com/book.pdf", "3-"))),
            ("https://example.com:8080", None),
            ("book.pdf:3:4", Some(("book.pdf", "3:4"))),
            ("book.pdf:3:", None),
            ("book.pdf:x:4", Some(("book.pdf:x", "4"))),
            ("https://example.com:8080/Chapter:3", None),
        ] {
            let found = split_numbers(Path::new(path));
            assert_eq!(found, split.map(|(path, numbers)| (path.into(), numbers)), "{path}");
        }
    }
}

//! Where documents, pages and sections begin in a text, and which of them a range of the text is in. Knows nothing of
//! files, models and terminals.
//!
//! ```
//! use outline::{Begins, Outline};
//!
//! let text = "# Rent\nIt is 450 euros.\n## Deposit\nTwo months.\n";
//! let mut outline = Outline::default();
//! outline.push(0, Begins::Document("lease.docx".into()));
//! outline.push(0, Begins::Heading(1));
//! outline.push(24, Begins::Heading(2));
//! let location = outline.location(text, 40);
//! assert_eq!(location.to_string(), "lease.docx, Deposit");
//! ```

#![forbid(unsafe_code)]

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Marks of an outline. A text with more loses the deepest headings, then all pages.
const MAX_MARKS: usize = 100_000;
/// Longest name of a document and longest title that is shown, in bytes.
const MAX_NAME: usize = 300;

/// What begins somewhere in a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Begins {
    /// A document of this name.
    Document(String),
    /// A page or a slide with this number, counted from 1.
    Page(usize),
    /// A heading of a level from 1 on. Its line has the title.
    Heading(usize),
}

/// What begins at a byte of a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark(pub usize, pub Begins);

/// Where documents, pages and sections begin in a text, in the order of the text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Outline {
    marks: Vec<Mark>,
    /// What is not kept, because there was too much of it.
    #[serde(skip)]
    left_out: LeftOut,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LeftOut {
    #[default]
    Nothing,
    /// Headings of this level and of deeper ones.
    Headings(usize),
    Pages,
    Everything,
}

/// Where a byte of a text is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Location<'a> {
    /// The document.
    pub document: Option<&'a str>,
    /// The page or slide, counted from 1.
    pub page: Option<usize>,
    /// The title of the section.
    pub section: Option<&'a str>,
}

/// A part of a text in which nothing else begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutlinePart<'a> {
    /// Its bytes. Parts follow each other without gaps.
    pub range: Range<usize>,
    /// Where it is.
    pub location: Location<'a>,
    /// The level of the heading that it begins with.
    pub level: Option<usize>,
}

impl Outline {
    /// What begins where.
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// Whether nothing is known of the text.
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// Something begins at a byte, behind all that has begun before.
    pub fn push(&mut self, start: usize, begins: Begins) {
        if self.leaves_out(&begins) {
            return;
        }
        let begins = match begins {
            Begins::Document(name) => Begins::Document(cut(&name, MAX_NAME).to_owned()),
            begins => begins,
        };
        self.marks.push(Mark(start, begins));
        while self.marks.len() > MAX_MARKS {
            self.leave_more_out();
        }
    }

    /// The outline of a text that follows, `shift` bytes further on.
    pub fn append(&mut self, shift: usize, other: Outline) {
        other.marks.into_iter().for_each(|Mark(start, begins)| self.push(start + shift, begins));
    }

    /// Leaves out what begins where a shorter text has ended.
    pub fn truncate(&mut self, bytes: usize) {
        self.marks.truncate(self.marks.partition_point(|mark| mark.0 < bytes));
    }

    fn leaves_out(&self, begins: &Begins) -> bool {
        match (self.left_out, begins) {
            (LeftOut::Nothing, _) | (LeftOut::Pages, Begins::Document(_)) => false,
            (LeftOut::Headings(from), Begins::Heading(level)) => *level >= from,
            (LeftOut::Headings(_), _) => false,
            (LeftOut::Pages | LeftOut::Everything, _) => true,
        }
    }

    /// What stays is right: a text is never said to be in an earlier section or page than it is.
    fn leave_more_out(&mut self) {
        let level = |mark: &Mark| if let Begins::Heading(level) = mark.1 { Some(level) } else { None };
        let deepest = self.marks.iter().filter_map(level).max();
        self.left_out = match (deepest, self.left_out) {
            (Some(level), _) => LeftOut::Headings(level),
            (None, LeftOut::Pages | LeftOut::Everything) => LeftOut::Everything,
            (None, _) => LeftOut::Pages,
        };
        let marks = std::mem::take(&mut self.marks);
        self.marks = marks.into_iter().filter(|mark| !self.leaves_out(&mark.1)).collect();
    }

    /// Whether these can be the marks of a text. What comes from a file or another process may not be.
    pub fn is_of(&self, text: &str) -> bool {
        let ascends = self.marks.windows(2).all(|pair| pair[0].0 <= pair[1].0);
        ascends
            && self.marks.len() <= MAX_MARKS
            && self.marks.iter().all(|Mark(start, begins)| {
                let is_short = !matches!(begins, Begins::Document(name) if name.len() > MAX_NAME);
                is_short && text.is_char_boundary(*start)
            })
    }

    /// The outline of this text, of which it may be a longer one's; empty if it is another's.
    pub fn fitted_to(mut self, text: &str) -> Outline {
        self.truncate(text.len());
        if self.is_of(text) { self } else { Outline::default() }
    }

    /// The outline within a document of this name: `name` is before those of its documents.
    pub fn within(mut self, name: &str) -> Outline {
        for Mark(_, begins) in &mut self.marks {
            if let Begins::Document(own) = begins {
                *own = cut(&format!("{name}/{own}"), MAX_NAME).to_owned();
            }
        }
        self
    }

    /// Where a byte of the text is.
    pub fn location<'a>(&'a self, text: &'a str, at: usize) -> Location<'a> {
        let before = &self.marks[..self.marks.partition_point(|mark| mark.0 <= at)];
        let mut location = Location::default();
        for Mark(start, begins) in before.iter().rev() {
            match begins {
                Begins::Document(name) => {
                    location.document = Some(name);
                    break;
                }
                Begins::Page(number) => _ = location.page.get_or_insert(*number),
                Begins::Heading(_) => _ = location.section.get_or_insert_with(|| title(text, *start)),
            }
        }
        location.section = location.section.filter(|title| !title.is_empty());
        location
    }

    /// The whole text in parts.
    pub fn parts<'a>(&'a self, text: &'a str) -> Vec<OutlinePart<'a>> {
        let mut parts: Vec<OutlinePart> = Vec::new();
        let mut location = Location::default();
        let mut part = OutlinePart { range: 0..0, location, level: None };
        for Mark(start, begins) in &self.marks {
            if *start > part.range.start {
                parts.push(OutlinePart { range: part.range.start..*start, ..part });
                part = OutlinePart { range: *start..*start, location, level: None };
            }
            match begins {
                Begins::Document(name) => {
                    location = Location { document: Some(name), ..Location::default() };
                }
                Begins::Page(number) => location.page = Some(*number),
                Begins::Heading(level) => {
                    location.section = Some(title(text, *start)).filter(|title| !title.is_empty());
                    part.level = Some(*level);
                }
            }
            part.location = location;
        }
        if part.range.start < text.len() {
            parts.push(OutlinePart { range: part.range.start..text.len(), ..part });
        }
        parts
    }
}

/// The title of the heading that begins here: its line without marks.
fn title(text: &str, start: usize) -> &str {
    let line = text.get(start..).and_then(|rest| rest.lines().next()).unwrap_or_default();
    let line = line.trim_start_matches('#').trim_end_matches('#');
    cut(line.trim().trim_matches('*').trim(), MAX_NAME)
}

fn cut(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

impl fmt::Display for Location<'_> {
    /// `report.pdf p. 12`, `lease.docx, Deposit`. A page says more than its section.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let document = self.document.unwrap_or_default();
        let gap = if document.is_empty() { "" } else { " " };
        match (self.page, self.section) {
            (Some(page), _) => write!(f, "{document}{gap}p. {page}"),
            (None, Some(section)) if document.is_empty() => f.write_str(section),
            (None, Some(section)) => write!(f, "{document}, {section}"),
            (None, None) => f.write_str(document),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `# ` begins a heading, `=N` a page, `@` a document.
    fn outline(text: &str) -> Outline {
        let mut outline = Outline::default();
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            match line.chars().next() {
                Some('#') => {
                    outline.push(at, Begins::Heading(line.len() - line.trim_start_matches('#').len()))
                }
                Some('=') => outline.push(at, Begins::Page(line[1..].trim().parse().expect("a number"))),
                Some('@') => outline.push(at, Begins::Document(line[1..].trim().to_owned())),
                _ => {}
            }
            at += line.len();
        }
        outline
    }

    #[test]
    fn every_byte_has_its_location() {
        let text = "before\n@a.pdf\n=1\n# One\nx\n=2\ny\n## Two\nz\n@b.md\nplain\n# **Three** #\nend";
        let outline = outline(text);
        assert!(outline.is_of(text));
        for (word, expected) in [
            ("before", ""),
            ("x\n", "a.pdf p. 1"),
            ("y\n", "a.pdf p. 2"),
            ("plain", "b.md"),
            ("end", "b.md, Three"),
        ] {
            let at = text.find(word).expect("the word");
            assert_eq!(outline.location(text, at).to_string(), expected, "{word}");
        }
        let z = outline.location(text, text.find("z\n").expect("z"));
        assert_eq!((z.page, z.section), (Some(2), Some("Two")));
        let parts = outline.parts(text);
        assert_eq!(parts.iter().map(|part| &text[part.range.clone()]).collect::<String>(), text);
        for part in &parts {
            assert_eq!(part.location, outline.location(text, part.range.start));
        }
        assert_eq!(parts.iter().filter_map(|part| part.level).collect::<Vec<_>>(), [1, 2, 1]);
    }

    #[test]
    fn too_many_marks_leave_out_what_says_least() {
        let mut outline = Outline::default();
        for at in 0..70_000 {
            outline.push(at, Begins::Heading(1 + at % 2));
            if at % 2 == 0 {
                outline.push(at, Begins::Page(at));
            }
        }
        assert!(outline.marks.len() <= MAX_MARKS);
        assert!(outline.marks.iter().all(|mark| mark.1 != Begins::Heading(2)));
        assert_eq!(outline.location("", 69_999).page, Some(69_998));
        for at in 70_000..400_000 {
            outline.push(at, Begins::Page(at));
        }
        assert_eq!(outline.location("", 400_000), Location::default());
    }

    #[test]
    fn foreign_marks_are_checked() {
        assert!(of_pages("0 3").is_of("aé"));
        assert!(!of_pages("2").is_of("aé"));
        assert!(!of_pages("4").is_of("aé"));
        assert!(!of_pages("3 0").is_of("aé"));
    }

    fn of_pages(starts: &str) -> Outline {
        let starts = starts.split(' ').map(|start| start.parse().expect("a number"));
        let marks = starts.map(|start| Mark(start, Begins::Page(1))).collect();
        Outline { marks, left_out: LeftOut::Nothing }
    }
}

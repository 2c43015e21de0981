//! Lines of text from glyphs: where a word, a line and a paragraph end follows from where glyphs are.

use kurbo::{Point, Vec2};

/// All distances are shares of the size of the font.
/// A gap of this width is a space.
const SPACE: f64 = 0.15;
/// A gap of this width separates columns of a table.
const COLUMN: f64 = 2.0;
/// Going back by this much begins a line.
const BACK: f64 = 0.6;
/// A glyph that is so much higher or lower is in another line. Superscripts are in the same.
const OTHER_LINE: f64 = 0.6;
/// A line that is so much lower begins a paragraph.
const PARAGRAPH: f64 = 1.7;
/// The same glyph at the same place within this distance is drawn twice to make it bold.
const SAME_PLACE: f64 = 0.1;
/// Width of a glyph whose width is not known.
const UNKNOWN_WIDTH: f64 = 0.5;

/// The text of a glyph and where it is, in any coordinates.
pub(super) struct PlacedText<'a> {
    /// Its characters.
    pub(super) text: &'a str,
    /// Where it begins, on the baseline.
    pub(super) start: Point,
    /// Where the next glyph would begin; `None` if its width is not known.
    pub(super) end: Option<Point>,
    /// The size of the font in the direction of writing.
    pub(super) em: Vec2,
    /// The size of the font, upwards.
    pub(super) up: Vec2,
}

/// The lines of a page.
#[derive(Debug, Default)]
pub(super) struct Lines {
    text: String,
    last: Option<Last>,
}

/// The glyph that was added last.
#[derive(Debug)]
struct Last {
    text: String,
    start: Point,
    end: Point,
    em: Vec2,
}

/// What is between two glyphs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Gap {
    None,
    Space,
    Column,
    Line,
    Paragraph,
}

impl Lines {
    /// Adds the next glyph that is drawn.
    pub(super) fn add(&mut self, glyph: &PlacedText) {
        let size = glyph.em.hypot();
        if !size.is_finite() || size == 0.0 || !glyph.start.is_finite() {
            return;
        }
        let end = glyph.end.unwrap_or(glyph.start + glyph.em * UNKNOWN_WIDTH);
        if let Some(last) = &self.last {
            if last.text == glyph.text && last.start.distance(glyph.start) < SAME_PLACE * size {
                return;
            }
            let gap = gap(last, glyph, size);
            self.write_gap(gap);
        }
        self.write(glyph.text);
        self.last = Some(Last { text: glyph.text.to_owned(), start: glyph.start, end, em: glyph.em });
    }

    fn write_gap(&mut self, gap: Gap) {
        let ends_in_space = self.text.ends_with([' ', '\t', '\n']);
        match gap {
            Gap::None => {}
            Gap::Space if ends_in_space => {}
            Gap::Space => self.text.push(' '),
            Gap::Column => {
                self.trim_end();
                self.text.push('\t');
            }
            Gap::Line => self.end_line(),
            Gap::Paragraph => {
                self.end_line();
                self.text.push('\n');
            }
        }
    }

    fn trim_end(&mut self) {
        let end = self.text.trim_end_matches([' ', '\t']).len();
        self.text.truncate(end);
    }

    fn end_line(&mut self) {
        self.trim_end();
        self.text.push('\n');
    }

    fn write(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                c if c.is_whitespace() => {
                    if !self.text.is_empty() && !self.text.ends_with([' ', '\t', '\n']) {
                        self.text.push(' ');
                    }
                }
                c if c.is_control() => {}
                // What the fonts Symbol and Wingdings have as bullets.
                '\u{f0b7}' | '\u{f0a7}' => self.text.push('•'),
                'ﬀ' => self.text.push_str("ff"),
                'ﬁ' => self.text.push_str("fi"),
                'ﬂ' => self.text.push_str("fl"),
                'ﬃ' => self.text.push_str("ffi"),
                'ﬄ' => self.text.push_str("ffl"),
                'ﬅ' | 'ﬆ' => self.text.push_str("st"),
                c => self.text.push(c),
            }
        }
    }

    /// The text of the page; words that a line end divides are joined.
    pub(super) fn finish(mut self) -> String {
        self.end_line();
        let text = join_divided_words(self.text.trim_matches('\n'));
        if text.is_empty() { text } else { text + "\n" }
    }
}

/// What is between two glyphs. `size` is the font size of the second.
fn gap(last: &Last, glyph: &PlacedText, size: f64) -> Gap {
    let along = glyph.em / size;
    let across = perpendicular(along, glyph.up);
    let step = glyph.start - last.end;
    let (right, up) = (step.dot(along) / size, step.dot(across) / size);
    let last_size = last.em.hypot();
    let same_direction = along.dot(last.em) > 0.7 * last_size;
    // A superscript is small, and the text it belongs to is not.
    let larger = (last_size / size).max(1.0);
    if !same_direction || up.abs() > OTHER_LINE * larger {
        let down = -up / larger;
        return if (0.0..PARAGRAPH).contains(&down) && same_direction { Gap::Line } else { Gap::Paragraph };
    }
    match right {
        ..0.0 if right < -BACK * larger => Gap::Line,
        ..SPACE => Gap::None,
        ..COLUMN => Gap::Space,
        _ => Gap::Column,
    }
}

/// The direction upwards, at right angles to the direction of writing.
fn perpendicular(along: Vec2, up: Vec2) -> Vec2 {
    let turned = Vec2::new(-along.y, along.x);
    if turned.dot(up) < 0.0 { -turned } else { turned }
}

/// Joins words that a hyphen at the end of a line divides.
fn join_divided_words(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let begins_small = line.starts_with(char::is_lowercase);
        let stem =
            joined.strip_suffix('\n').and_then(|before| before.strip_suffix(['-', '\u{ad}', '\u{2010}']));
        match stem {
            Some(stem) if begins_small && stem.ends_with(char::is_alphabetic) => {
                let length = stem.len();
                joined.truncate(length);
            }
            _ => {}
        }
        joined.push_str(line);
    }
    joined.replace('\u{ad}', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of text in a font of size 10 whose glyphs are 5 wide, placed where `runs` say.
    fn lines(runs: &[(f64, f64, &str)]) -> String {
        let mut lines = Lines::default();
        for (x, y, text) in runs {
            for (i, c) in text.chars().enumerate() {
                let start = Point::new(x + 5.0 * i as f64, *y);
                let (em, up) = (Vec2::new(10.0, 0.0), Vec2::new(0.0, 10.0));
                let end = Some(start + Vec2::new(5.0, 0.0));
                lines.add(&PlacedText { text: &c.to_string(), start, end, em, up });
            }
        }
        lines.finish()
    }

    #[test]
    fn gaps_become_spaces_lines_and_paragraphs() {
        assert_eq!(lines(&[(0.0, 100.0, "old"), (18.0, 100.0, "boat")]), "old boat\n");
        assert_eq!(lines(&[(0.0, 100.0, "ri"), (10.4, 100.0, "ver")]), "river\n", "kerning");
        assert_eq!(lines(&[(0.0, 100.0, "one"), (0.0, 88.0, "two")]), "one\ntwo\n");
        assert_eq!(lines(&[(0.0, 100.0, "one"), (0.0, 70.0, "two")]), "one\n\ntwo\n");
        assert_eq!(lines(&[(0.0, 100.0, "name"), (100.0, 100.0, "34251")]), "name\t34251\n");
        assert_eq!(
            lines(&[(0.0, 100.0, "x"), (5.0, 104.0, "2"), (10.0, 100.0, "y")]),
            "x2y\n",
            "superscript"
        );
        assert_eq!(lines(&[(0.0, 10.0, "end"), (200.0, 100.0, "next")]), "end\n\nnext\n", "next column");
    }

    #[test]
    fn glyphs_that_are_drawn_twice_count_once() {
        assert_eq!(lines(&[(0.0, 100.0, "b"), (0.3, 100.0, "b"), (5.0, 100.0, "c")]), "bc\n");
    }

    #[test]
    fn divided_words_are_joined() {
        let joined = |text: &str| join_divided_words(text);
        assert_eq!(joined("an exam-\nple\n"), "an example\n");
        assert_eq!(joined("pages 3-\n4 of A-\nB\n"), "pages 3-\n4 of A-\nB\n");
        assert_eq!(joined("soft\u{ad}\nly, un\u{ad}divided"), "softly, undivided");
    }
}

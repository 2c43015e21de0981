//! Writes shapes and texts as SVG. Lengths are CSS pixels. The letters are those of whatever font a browser has for Helvetica,
//! so widths of texts are estimates, rather too wide.

use models::invisible::is_invisible;
use unicode_width::UnicodeWidthChar;

/// Sizes of letters: of titles, of names, and of numbers, labels and notes.
pub const TITLE: f64 = 16.0;
pub const NAME: f64 = 12.5;
pub const SMALL: f64 = 12.0;
/// Colours: of titles and names, of numbers and labels, of lines behind the data.
pub const DARK: &str = "#1f2328";
pub const DIM: &str = "#57606a";
pub const GRID: &str = "#d8dbdf";
pub const WHITE: &str = "#ffffff";
/// White space around the picture, and between two lines of a text.
pub const MARGIN: f64 = 18.0;
pub const LINE: f64 = 16.0;
/// Widest name in a legend, or beside a row.
pub const MAX_NAME: f64 = 200.0;
/// Most characters of a text.
const MAX_CHARS: usize = 200;

/// A picture that grows with what is drawn.
#[derive(Default)]
pub struct Svg {
    body: String,
    right: f64,
    pub bottom: f64,
}

impl Svg {
    /// Connected points. `dashes`: lengths of dashes and gaps; empty for a solid line.
    pub fn line(&mut self, points: &[(f64, f64)], color: &str, width: f64, dashes: &str) {
        let look = format!("stroke=\"{color}\" stroke-width=\"{width}\" stroke-dasharray=\"{dashes}\"");
        let look = look.replace(" stroke-dasharray=\"\"", "");
        self.body += &format!("<polyline points=\"{}\" fill=\"none\" {look}/>\n", list(points));
    }

    /// An area with an outline.
    pub fn polygon(&mut self, points: &[(f64, f64)], fill: &str, stroke: &str) {
        let look = format!("fill=\"{fill}\" stroke=\"{stroke}\" stroke-width=\"1.5\"");
        self.body += &format!("<polygon points=\"{}\" {look}/>\n", list(points));
    }

    /// A rectangle between two corners. `fill` and `stroke` may be `none`.
    pub fn rect(&mut self, (x0, y0): (f64, f64), (x1, y1): (f64, f64), fill: &str, stroke: &str) {
        let place = format!("x=\"{x0:.2}\" y=\"{y0:.2}\" width=\"{:.2}\" height=\"{:.2}\"", x1 - x0, y1 - y0);
        self.body += &format!("<rect {place} fill=\"{fill}\" stroke=\"{stroke}\"/>\n");
        self.reach(x1, y1);
    }

    /// A text whose baseline is at `y`. `anchor`: how much of it is left of `x`: 0, 0.5 or 1. An empty one draws nothing.
    pub fn text(&mut self, text: &str, (x, y): (f64, f64), anchor: f64, size: f64, color: &str) {
        if text.is_empty() {
            return;
        }
        let name = ["start", "middle", "end"][(2.0 * anchor) as usize];
        let bold = if size == TITLE { " font-weight=\"bold\"" } else { "" };
        let place = format!("x=\"{x:.2}\" y=\"{y:.2}\" text-anchor=\"{name}\" font-size=\"{size}\"");
        self.body += &format!("<text {place}{bold} fill=\"{color}\">{}</text>\n", escape(text));
        self.reach(x + (1.0 - anchor) * width(text, size), y + 0.25 * size);
    }

    /// The title in at most two lines. Returns where it ends.
    pub fn title(&mut self, title: &str, room: f64) -> f64 {
        let lines = wrapped(&clean(title), TITLE, room, 2);
        for (number, line) in lines.iter().enumerate() {
            self.text(line, (MARGIN, MARGIN + 13.0 + 21.0 * number as f64), 0.0, TITLE, DARK);
        }
        MARGIN + 4.0 + 21.0 * lines.len() as f64
    }

    /// Names side by side below `top`, each in at most three lines around its middle.
    pub fn names<'a>(&mut self, names: impl Iterator<Item = (f64, &'a String)>, room: f64, top: f64) {
        for (middle, name) in names {
            for (number, line) in wrapped(&clean(name), NAME, room, 3).iter().enumerate() {
                self.text(line, (middle, top + NAME + number as f64 * LINE), 0.5, NAME, DARK);
            }
        }
    }

    /// The picture must have room for this point.
    pub fn reach(&mut self, x: f64, y: f64) {
        (self.right, self.bottom) = (self.right.max(x), self.bottom.max(y));
    }

    /// The text of the file, with a note below all that says what is left out: of each kind all, the most that are drawn and its
    /// name. `title` and `description` are for those who cannot see it.
    pub fn finish(mut self, title: &str, description: &str, counts: &[(usize, usize, &str)]) -> String {
        let too_many = counts.iter().filter(|(count, limit, _)| count > limit);
        let parts = too_many.map(|(count, limit, what)| format!("{} of {count} {what}", count - limit));
        let note = parts.collect::<Vec<_>>().join(", ");
        if !note.is_empty() {
            self.text(&format!("not shown: {note}"), (MARGIN, self.bottom + LINE), 0.0, SMALL, DIM);
        }
        let (width, height) = ((self.right + MARGIN).ceil(), (self.bottom + MARGIN).ceil());
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\" font-family=\"Helvetica, Arial, 'Liberation Sans', sans-serif\">\n\
             <title>{}</title>\n<desc>{}</desc>\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"{WHITE}\"/>\n{}</svg>\n",
            escape(&clean(title)),
            escape(description),
            self.body
        )
    }
}

/// About the width of a text.
pub fn width(text: &str, size: f64) -> f64 {
    let of_char = |c: char| match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' => 0.28,
        ' ' | 'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '-' | '/' | 'I' => 0.36,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.95,
        'A'..='Z' => 0.74,
        c if c.is_ascii() => 0.58,
        c => c.width().unwrap_or(0).max(1) as f64,
    };
    let bold = if size == TITLE { 1.07 } else { 1.0 };
    size * bold * text.chars().map(of_char).sum::<f64>()
}

/// A text in one line without control and invisible characters, and no longer than 200 characters.
pub fn clean(text: &str) -> String {
    let is_shown = |c: &char| !c.is_control() && !is_invisible(*c) && !('\u{fffe}'..='\u{ffff}').contains(c);
    let read = text.chars().take(5 * MAX_CHARS).map(|c| if c.is_whitespace() { ' ' } else { c });
    let words: Vec<String> =
        read.filter(is_shown).collect::<String>().split_whitespace().map(str::to_owned).collect();
    let text = words.join(" ");
    let is_cut = text.chars().nth(MAX_CHARS).is_some();
    if is_cut { text.chars().take(MAX_CHARS - 1).chain(['…']).collect() } else { text }
}

/// Both ends of a name that is no wider than `room`, with `…` where something is missing. Names of policies often differ in
/// their last characters only.
pub fn shortened(name: &str, size: f64, room: f64) -> String {
    let chars: Vec<char> = name.chars().collect();
    let ends = |kept: usize| -> String {
        let tail = kept / 3;
        chars[..kept - tail].iter().chain(&['…']).chain(&chars[chars.len() - tail..]).collect()
    };
    if width(name, size) <= room {
        return name.to_owned();
    }
    (0..chars.len()).rev().map(ends).find(|cut| width(cut, size) <= room).unwrap_or_default()
}

/// A text in at most `lines` lines. It breaks after blanks and after signs between words.
fn wrapped(text: &str, size: f64, room: f64, lines: usize) -> Vec<String> {
    let (mut out, mut rest) = (Vec::new(), text);
    while out.len() + 1 < lines && width(rest, size) > room {
        let ends = rest.char_indices().filter(|(_, c)| " -_/+,=:".contains(*c)).map(|(at, _)| at + 1);
        let Some(end) = ends.take_while(|end| width(rest[..*end].trim_end(), size) <= room).last() else {
            break;
        };
        out.push(rest[..end].trim_end().to_owned());
        rest = rest[end..].trim_start();
    }
    out.push(shortened(rest, size, room));
    out
}

fn list(points: &[(f64, f64)]) -> String {
    points.iter().map(|(x, y)| format!("{x:.2},{y:.2}")).collect::<Vec<_>>().join(" ")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

//! Headers that stand on their side above narrow columns. Each becomes one glyph that is upright, above its column, on the
//! line of the other headers. Other text that is turned stays as it is: there are no two lines of it that are apart and have
//! upright text below them.

use hayro_interpret::hayro_cmap::BfString;

use super::{PlacedText, words};

/// How headers are turned: upwards and downwards.
const TURNS: [i16; 2] = [90, -90];
/// Distances in sizes of the font.
/// Glyphs of a header follow each other with such gaps.
const GAP: std::ops::Range<f64> = -0.5..1.0;
/// Text of the column is not farther below the header, and not farther to a side.
const BELOW: f64 = 4.0;
const ASIDE: f64 = 1.0;
/// From one header to the next.
const APART: std::ops::Range<f64> = 1.3..15.0;
/// The middle of a glyph is so much above its baseline.
const MIDDLE: f64 = 0.35;
/// A glyph that stands for a header is as wide.
const WIDTH: f64 = 0.5;
/// Sizes differ by less than this factor, baselines by less than this.
const SAME_SIZE: f64 = 0.1;
const SAME_BASELINE: f64 = 0.1;
/// A header has fewer glyphs.
const MAX_GLYPHS: usize = 60;
/// More headers of a page are not looked at.
const MAX_HEADERS: usize = 200;

/// A text on its side, with its place on the page.
struct Header {
    glyphs: std::ops::Range<usize>,
    turn: i16,
    size: f64,
    /// The middle of its letters.
    x: f64,
    low: f64,
    high: f64,
}

impl Header {
    /// The text of glyphs that follow each other.
    fn new(glyphs: &[PlacedText], range: std::ops::Range<usize>) -> Header {
        let part = &glyphs[range.clone()];
        let (first, last) = (&part[0], &part[part.len() - 1]);
        let side = f64::from(first.turn.signum());
        let x = -side * (first.y + MIDDLE * first.size);
        let ends = (side * first.x, side * last.end);
        let (low, high) = (ends.0.min(ends.1), ends.0.max(ends.1));
        Header { glyphs: range, turn: first.turn, size: first.size, x, low, high }
    }

    /// Whether the other is that of a column to the right.
    fn is_before(&self, other: &Header) -> bool {
        self.turn == other.turn
            && (self.size - other.size).abs() < SAME_SIZE * self.size
            && APART.contains(&((other.x - self.x) / self.size))
            && self.low < other.high
            && other.low < self.high
    }
}

/// Makes headers upright.
pub(super) fn make_upright(glyphs: &mut Vec<PlacedText>) {
    if !glyphs.iter().any(|glyph| TURNS.contains(&glyph.turn)) {
        return;
    }
    let mut end = 0;
    let is_next = |a: &PlacedText, b: &PlacedText| {
        a.is_beside(b) && GAP.contains(&((b.x - a.end) / a.size)) && TURNS.contains(&a.turn)
    };
    let runs = glyphs.chunk_by(is_next).map(|run| {
        end += run.len();
        end - run.len()..end
    });
    let is_header = |run: &std::ops::Range<usize>| {
        TURNS.contains(&glyphs[run.start].turn)
            && run.len() < MAX_GLYPHS
            && !glyphs[run.clone()].iter().all(PlacedText::is_space)
    };
    let mut headers: Vec<Header> =
        runs.filter(is_header).map(|run| Header::new(glyphs, run)).take(MAX_HEADERS).collect();
    headers.sort_by(|a, b| a.x.total_cmp(&b.x));
    // Lines that are nearer to each other, or parts of a line, are text on its side.
    let near: Vec<bool> =
        headers.windows(2).map(|two| two[1].x - two[0].x < APART.start * two[0].size).collect();
    let mut at = 0;
    headers.retain(|_| {
        at += 1;
        let is_near = |gap: Option<usize>| gap.and_then(|gap| near.get(gap)).is_some_and(|near| *near);
        !is_near(Some(at - 1)) && !is_near(at.checked_sub(2))
    });
    let mut upright: Vec<(usize, Vec<PlacedText>)> = Vec::new();
    let mut is_laid = vec![false; glyphs.len()];
    for row in headers.chunk_by(Header::is_before) {
        let low = row.iter().map(|header| header.low).fold(f64::MAX, f64::min);
        let is_above_text = |header: &&Header| glyphs.iter().any(|glyph| is_below(glyph, header, low));
        if row.len() < 2 || row.iter().filter(is_above_text).count() < 2 {
            continue;
        }
        upright.push(laid_down(glyphs, row, low));
        row.iter().for_each(|header| is_laid[header.glyphs.clone()].fill(true));
    }
    upright.sort_by_key(|(at, _)| *at);
    let mut upright = upright.into_iter().peekable();
    let mut kept = Vec::with_capacity(glyphs.len());
    for (i, glyph) in glyphs.drain(..).enumerate() {
        while let Some((_, row)) = upright.next_if(|(at, _)| *at <= i) {
            kept.extend(row);
        }
        if !is_laid[i] {
            kept.push(glyph);
        }
    }
    kept.extend(upright.flat_map(|(_, row)| row));
    *glyphs = kept;
}

/// Whether a glyph is upright text below a header, whose row has its lower end there.
fn is_below(glyph: &PlacedText, header: &Header, low: f64) -> bool {
    glyph.turn == 0
        && !glyph.is_space()
        && (0.0..BELOW * header.size).contains(&(low - glyph.y))
        && (glyph.x - ASIDE * header.size..glyph.end + ASIDE * header.size).contains(&header.x)
}

/// Headers of a row as upright glyphs at its lower end, and before which glyph they are drawn. That is behind the upright
/// header left of them, which is put on their line, or before what is below them.
fn laid_down(glyphs: &mut [PlacedText], row: &[Header], low: f64) -> (usize, Vec<PlacedText>) {
    let (size, left) = (row[0].size, row[0].x);
    let high = row.iter().map(|header| header.high).fold(f64::MIN, f64::max);
    let is_beside = |glyph: &PlacedText| {
        glyph.turn == 0
            && !glyph.is_space()
            && (0.0..APART.end * size).contains(&(left - glyph.end))
            && (low - size / 2.0..high).contains(&glyph.y)
    };
    let lowest = glyphs.iter().filter(|glyph| is_beside(glyph)).map(|glyph| glyph.y).min_by(f64::total_cmp);
    let is_label = |glyph: &PlacedText| {
        is_beside(glyph) && lowest.is_some_and(|y| (glyph.y - y).abs() < SAME_BASELINE * size)
    };
    let mut last = None;
    for (i, glyph) in glyphs.iter_mut().enumerate().filter(|(_, glyph)| is_label(glyph)) {
        glyph.y = low;
        last = Some(i + 1);
    }
    let first_below = glyphs.iter().position(|glyph| row.iter().any(|header| is_below(glyph, header, low)));
    let upright = row.iter().map(|header| {
        let part = &glyphs[header.glyphs.clone()];
        let text = BfString::String(words::on_one_line(part));
        let (x, end) = (header.x - WIDTH / 2.0 * size, header.x + WIDTH / 2.0 * size);
        PlacedText { text, x, end, y: low, turn: 0, ..part[0].clone() }
    });
    (last.or(first_below).unwrap_or_default(), upright.collect())
}

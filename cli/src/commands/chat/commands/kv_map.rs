//! `/kv`: how many rows each KV head keeps, as a map of layers and heads.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use longhand::store::{KvHeadRows, KvMap};
use longhand::{Chat, Session, Type};
use terminal::console::Console;
use terminal::format;

/// Columns of what is no terminal.
const PLAIN_COLUMNS: usize = 80;
/// Columns of a layer's number and the space behind it.
const LABEL: usize = 6;
/// Between parts of the map that stand side by side.
const GAP: usize = 3;
/// A map of more layers is drawn in parts side by side, where there is room.
const ROWS: usize = 20;

/// How something is drawn.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Columns of the screen.
    pub width: usize,
    /// Whether it may have characters beyond ASCII.
    pub is_terminal: bool,
    /// Whether it may have colours.
    pub has_color: bool,
}

impl View {
    /// As fits stdout.
    pub fn new(console: Console) -> View {
        let width = console.width();
        let width = if width == usize::MAX { PLAIN_COLUMNS } else { width };
        View { width, is_terminal: console.stdout_terminal(), has_color: console.color() }
    }

    /// The character of a share of rows.
    pub fn shade(self, part: usize, whole: usize) -> char {
        const BLOCKS: [char; 7] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇'];
        match (part, self.is_terminal) {
            (0, true) => '·',
            (0, false) => '.',
            (part, true) if part >= whole => '█',
            (part, false) if part >= whole => '#',
            (part, true) => BLOCKS[BLOCKS.len() * part / whole],
            (part, false) => char::from(b'0' + (10 * part / whole) as u8),
        }
    }

    fn mark(self, head: &KvHeadRows, tokens: usize) -> char {
        match (head.is_retrieval, self.is_terminal) {
            (true, true) => '◆',
            (true, false) => '@',
            (false, _) => self.shade(head.rows, tokens),
        }
    }
}

/// What `/kv` prints.
pub fn report(view: View, chat: &Chat) -> String {
    let map = chat.session().kv_map();
    if map.tokens == 0 {
        return "the KV cache is empty: nothing was read yet\n".to_owned();
    }
    format!("{}\n{}\n{}", draw(view, &map), legend(view, &map), totals(chat.session(), &map))
}

/// A row for each layer and a character for each KV head.
fn draw(view: View, map: &KvMap) -> String {
    let heads = map.layers.iter().map(Vec::len).max().unwrap_or(1).max(1);
    // A space between two characters where there is room.
    let pitch = if LABEL + 2 * heads <= view.width { 2 } else { 1 };
    let in_row = heads.min(view.width.saturating_sub(LABEL).max(8));
    let part = LABEL + pitch * in_row;
    let most = if in_row < heads { 1 } else { (view.width + GAP) / (part + GAP) };
    let parts = map.layers.len().div_ceil(ROWS).min(most).max(1);
    let rows = map.layers.len().div_ceil(parts);

    let mut lines = vec![String::new()];
    let numbers = header(in_row, pitch);
    for _ in 0..parts {
        lines[0] += &format!("{:width$}", format!("layer {numbers}"), width = part + GAP);
    }
    for row in 0..rows {
        let layers: Vec<usize> = (row..map.layers.len()).step_by(rows).collect();
        for start in (0..heads).step_by(in_row) {
            let mut line = String::new();
            for &layer in &layers {
                let label = if start == 0 { layer.to_string() } else { String::new() };
                line += &format!("{label:>5} ");
                for head in start..heads.min(start + in_row) {
                    let Some(head) = map.layers[layer].get(head) else {
                        line += &" ".repeat(pitch);
                        continue;
                    };
                    let mark = view.mark(head, map.tokens);
                    line += &match head.is_retrieval && view.has_color {
                        true => format!("\x1b[36m{mark}\x1b[0m"),
                        false => mark.to_string(),
                    };
                    line += &" ".repeat(pitch - 1);
                }
                line += &" ".repeat(GAP);
            }
            lines.push(line);
        }
    }
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    format!("KV heads (across) of each layer (down)\n{}\n", lines.join("\n"))
}

/// The numbers of KV heads, as many as have room.
fn header(heads: usize, pitch: usize) -> String {
    let step = if heads <= 10 && pitch == 2 { 1 } else { 4 };
    (0..heads).step_by(step).map(|head| format!("{head:<width$}", width = step * pitch)).collect()
}

/// What each character of the map stands for.
fn legend(view: View, map: &KvMap) -> String {
    let mut groups: BTreeMap<(bool, Option<usize>, usize, char), Vec<usize>> = BTreeMap::new();
    for head in map.heads() {
        let mark = view.mark(head, map.tokens);
        // Retrieval heads first, then those that keep most.
        let order = usize::MAX - 10 * head.rows / map.tokens;
        groups.entry((!head.is_retrieval, head.window, order, mark)).or_default().push(head.rows);
    }
    let mut text = String::new();
    for ((is_other, window, _, mark), rows) in &groups {
        let retrieval = if *is_other { "" } else { "retrieval " };
        let (number, range) = (format::count(rows.len()), range(rows));
        let (heads, keep) = if rows.len() == 1 { ("head", "keeps") } else { ("heads", "keep") };
        let kept = match *range.start() {
            rows if rows == map.tokens => "all rows".to_owned(),
            _ => format!("{} rows ({})", counts(&range), percents(&range, map.tokens)),
        };
        let window = window.map_or_else(String::new, |tokens| {
            format!(", all that the model sees in these layers: a window of {}", format::count(tokens))
        });
        text += &format!("{mark}: {number} {retrieval}{heads} {keep} {kept}{window}\n");
    }
    if map.layers.iter().any(Vec::is_empty) {
        text += "layers without marks keep a state of fixed size, or attend to rows of earlier layers\n";
    }
    text
}

/// Rows, bytes, and what was evicted, of all heads.
fn totals(session: &Session, map: &KvMap) -> String {
    let usage = session.kv_usage();
    let (seen, kept) = (map.heads().count() * map.tokens, map.heads().map(|head| head.rows).sum::<usize>());
    let mut text = format!("tokens   {}\n", format::count(map.tokens));
    text += &format!(
        "rows     {} of {} ({})\n",
        format::count(kept),
        format::count(seen),
        format::percent(format::share(kept, seen))
    );
    text += &format!(
        "bytes    {} ({})\n",
        format::bytes_of(usage.bytes, usage.full_bytes),
        format::percent(usage.share())
    );
    if session.options().types != (Type::F16, Type::F16) {
        let spec = session.engine().spec();
        let elements = map.layers.iter().enumerate();
        let elements = elements.map(|(layer, heads)| heads.len() * map.tokens * spec.kv_heads(layer).dim);
        let f16 = elements.sum::<usize>() * spec.rows_of_token() * Type::F16.row_bytes(1);
        text += &format!("         all rows in f16: {}\n", format::bytes(f16));
    }
    let evicting: Vec<usize> =
        map.heads().map(|head| map.tokens - head.rows).filter(|rows| *rows > 0).collect();
    let entries: Vec<usize> = map.heads().map(|head| head.compensated).filter(|rows| *rows > 0).collect();
    if evicting.is_empty() {
        return text + "evicted  nothing yet\n";
    }
    text += &format!("evicted  {} rows\n", format::count(evicting.iter().sum()));
    text += &match entries.is_empty() {
        true => "entries  none: nothing stands for them\n".to_owned(),
        false => format!(
            "entries  {}, each the mean of {} rows\n",
            format::count(entries.len()),
            counts(&range(&entries))
        ),
    };
    text
}

fn range(numbers: &[usize]) -> RangeInclusive<usize> {
    let (min, max) = (numbers.iter().min(), numbers.iter().max());
    min.copied().unwrap_or(0)..=max.copied().unwrap_or(0)
}

/// `820-1,204`
fn counts(range: &RangeInclusive<usize>) -> String {
    joined(format::count(*range.start()), format::count(*range.end()))
}

/// `6.1-9.0 %`
fn percents(range: &RangeInclusive<usize>, whole: usize) -> String {
    let percent = |rows: usize| format!("{:.1}", format::share(rows, whole) * 100.0);
    joined(percent(*range.start()), percent(*range.end())) + " %"
}

fn joined(from: String, to: String) -> String {
    if from == to { from } else { format!("{from}-{to}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIPED: View = View { width: 80, is_terminal: false, has_color: false };

    fn head(rows: usize) -> KvHeadRows {
        KvHeadRows {
            rows,
            compensated: 0,
            bytes: rows,
            is_bounded: rows < 1000,
            window: None,
            is_retrieval: false,
        }
    }

    /// Heads of 1000 tokens. Every seventh is a retrieval head.
    fn map(layers: usize, heads: usize) -> KvMap {
        let rows = |number: usize| match number % 7 {
            3 => KvHeadRows { is_retrieval: true, ..head(1000) },
            rest => head(100 + 10 * rest),
        };
        let layers = (0..layers).map(|layer| (0..heads).map(|head| rows(layer * heads + head)).collect());
        KvMap { tokens: 1000, layers: layers.collect() }
    }

    #[test]
    fn a_small_map_is_drawn() {
        assert_eq!(
            draw(PIPED, &map(3, 4)),
            "KV heads (across) of each layer (down)\n\
             layer 0 1 2 3\n\
             \x20   0 1 1 1 @\n\
             \x20   1 1 1 1 1\n\
             \x20   2 1 1 @ 1\n"
        );
        assert_eq!(
            legend(PIPED, &map(3, 4)),
            "@: 2 retrieval heads keep all rows\n1: 10 heads keep 100-160 rows (10.0-16.0 %)\n"
        );
        let terminal = View { is_terminal: true, ..PIPED };
        assert_eq!(draw(terminal, &map(1, 4)).lines().nth(2), Some("    0 ▁ ▁ ▁ ◆"));
    }

    #[test]
    fn layers_that_keep_a_state_have_no_marks() {
        let mut map = map(40, 2);
        map.layers[0].clear();
        let lines: Vec<String> = draw(PIPED, &map).lines().map(str::to_owned).collect();
        assert_eq!(lines[2], "    0           20 1 1");
        assert!(legend(PIPED, &map).ends_with(
            "\nlayers without marks keep a state of fixed size, or attend to rows of earlier layers\n"
        ));
    }

    #[test]
    fn shades_are_ordered_and_never_round_to_none_or_all() {
        for (is_terminal, none, all) in [(true, '·', '█'), (false, '.', '#')] {
            let view = View { is_terminal, ..PIPED };
            assert_eq!([view.shade(0, 1000), view.shade(1000, 1000)], [none, all]);
            let between: Vec<char> = (1..1000).map(|rows| view.shade(rows, 1000)).collect();
            assert!(between.is_sorted() && !between.contains(&none) && !between.contains(&all));
        }
    }

    #[test]
    fn maps_fit_the_screen() {
        for width in [40, 80, 120] {
            let view = View { width, ..PIPED };
            for layers in [1, 2, 19, 24, 32, 64, 126] {
                for heads in [1, 2, 4, 8, 16, 32, 40, 64] {
                    let (map, text) = (map(layers, heads), draw(view, &map(layers, heads)));
                    let widest = text.lines().map(|line| line.chars().count()).max();
                    assert!(widest <= Some(width), "{layers} x {heads} in {width}:\n{text}");
                    let drawn = text.lines().skip(2).flat_map(str::chars).filter(|c| *c == '@').count();
                    assert_eq!(drawn, map.heads().filter(|head| head.is_retrieval).count(), "{text}");
                    if layers <= 64 && heads <= 32 {
                        assert!(text.lines().count() <= 66, "{layers} x {heads} in {width}:\n{text}");
                    }
                }
            }
        }
    }

    #[test]
    fn many_heads_take_several_rows() {
        let text = draw(View { width: 40, ..PIPED }, &map(2, 40));
        let rows: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(rows[0], "layer 0   4   8   12  16  20  24  28  32");
        assert_eq!(rows[1].trim_start().split(' ').map(str::len).collect::<Vec<_>>(), [1, 34]);
        assert_eq!(rows[2].trim_start().len(), 6);
    }

    #[test]
    fn many_layers_stand_side_by_side() {
        let text = draw(PIPED, &map(64, 8));
        assert_eq!(text.lines().count(), 2 + 22);
        assert!(text.lines().nth(2).is_some_and(|line| {
            line.split_whitespace().filter(|word| word.len() > 1 || *word == "0").collect::<Vec<_>>()
                == ["0", "22", "44"]
        }));
    }
    #[test]
    fn the_legend_tells_windows_of_the_model_from_bounded_heads() {
        let windowed = |rows| KvHeadRows { is_bounded: false, window: Some(100), ..head(rows) };
        let map = KvMap { tokens: 1000, layers: vec![vec![windowed(100); 2], vec![head(1000), head(100)]] };
        assert_eq!(
            legend(PIPED, &map),
            "#: 1 head keeps all rows\n1: 1 head keeps 100 rows (10.0 %)\n\
             1: 2 heads keep 100 rows (10.0 %), all that the model sees in these layers: a window of 100\n"
        );
    }
}

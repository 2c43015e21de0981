//! `/kv LAYER.HEAD`: where in the conversation the rows of one KV head lie, and which words they are.

use std::ops::Range;

use anyhow::Result;
use longhand::store::KvHeadRows;
use longhand::{Chat, Session};
use models::tokenizer::Tokenizer;
use terminal::{console, format};

use crate::commands::chat::commands::kv_map::View;
use crate::failure::Failure;

/// Spans of which the words are shown: so many of the longest, and so many of those farthest from others.
const SHOWN: usize = 3;
/// Tokens shown before and behind a span, and of a span itself.
const AROUND: usize = 12;
const INSIDE: usize = 60;
/// Columns before the words.
const MARGIN: usize = 9;

/// What `/kv` prints of the head `LAYER.HEAD`.
///
/// # Errors
/// Where the model has no such head.
pub fn report(view: View, chat: &Chat, name: &str) -> Result<String> {
    let session = chat.session();
    let map = session.kv_map();
    let number = |text: &str| text.trim().parse::<usize>().ok();
    let found = name.split_once('.').and_then(|(layer, head)| {
        let (layer, head) = (number(layer)?, number(head)?);
        Some((layer, head, *map.layers.get(layer)?.get(head)?, session.kept_positions(layer, head)?))
    });
    let Some((layer, head, rows, positions)) = found else {
        let (layers, heads) = (map.layers.len(), map.layers.iter().map(Vec::len).max().unwrap_or(0));
        let has_rows = |layer: &usize| !map.layers[*layer].is_empty();
        let example = (layers / 2..layers).chain(0..layers / 2).find(has_rows).unwrap_or(0);
        let without = if (0..layers).all(|layer| has_rows(&layer)) { "" } else { " with rows of its own" };
        return Err(Failure::usage(
            format!("there is no head {name}"),
            format!(
                "give a layer{without} from 0 to {} and a KV head from 0 to {}, for example /kv {example}.0",
                layers.saturating_sub(1),
                heads.saturating_sub(1),
            ),
        )
        .into());
    };
    let window;
    let kind = match (rows.is_retrieval, rows.is_bounded, rows.window) {
        (_, _, Some(tokens)) => {
            window = format!("a window of {} tokens, all that the model sees here", format::count(tokens));
            &window
        }
        (true, ..) => "a retrieval head, which keeps all rows",
        (false, true, _) => "a bounded head",
        (false, false, _) => "keeps all rows",
    };
    let title = format!("layer {layer}, KV head {head} (both from 0): {kind}\n");
    if map.tokens == 0 {
        return Ok(title + "it holds no rows: nothing was read yet\n");
    }
    let spans = spans(&positions);
    let mut text = title + &numbers(&rows, &spans, map.tokens);
    text += &strip(view, &positions, map.tokens);
    text += &words(view, session, &spans)?;
    Ok(text)
}

/// Rows, and how they are spread.
fn numbers(head: &KvHeadRows, spans: &[Range<u32>], tokens: usize) -> String {
    let rows = [format::count(head.rows), format::count(tokens)];
    let mut text = format!(
        "rows     {} of {} ({})\n",
        rows[0],
        rows[1],
        format::percent(format::share(head.rows, tokens))
    );
    if head.compensated > 0 {
        text += &format!("entry    the mean of {} evicted rows\n", format::count(head.compensated));
    }
    let Parts { sinks, others, window } = Parts::of(spans, tokens);
    for (name, span) in [("sinks", sinks), ("window", window)] {
        if let Some(span) = span {
            let [from, to] = [span.start, span.end - 1].map(|position| format::count(position as usize));
            text += &format!("{name:<8} {} rows, {from} to {to}\n", format::count(span.len()));
        }
    }
    if !others.is_empty() {
        let rows = others.iter().map(Range::len).sum::<usize>();
        let longest = others.iter().map(Range::len).max().unwrap_or(0);
        let (rows, count) = (format::count(rows), format::count(others.len()));
        text += &format!("others   {rows} rows in {count} spans, the longest {}\n", format::count(longest));
    }
    text
}

/// Consecutive positions.
fn spans(positions: &[u32]) -> Vec<Range<u32>> {
    positions
        .chunk_by(|a, b| a + 1 == *b)
        .filter_map(|span| Some(*span.first()?..*span.last()? + 1))
        .collect()
}

/// The spans of a head, by where they lie. A head that keeps all rows has none of them.
#[derive(Debug, PartialEq)]
struct Parts<'a> {
    /// At the beginning.
    sinks: Option<&'a Range<u32>>,
    /// Between.
    others: &'a [Range<u32>],
    /// At the end.
    window: Option<&'a Range<u32>>,
}

impl Parts<'_> {
    fn of(spans: &[Range<u32>], tokens: usize) -> Parts<'_> {
        if spans.first().is_some_and(|span| span.len() == tokens) {
            return Parts { sinks: None, others: &[], window: None };
        }
        let (sinks, rest) = match spans {
            [first, rest @ ..] if first.start == 0 => (Some(first), rest),
            spans => (None, spans),
        };
        match rest {
            [others @ .., last] if last.end as usize == tokens => Parts { sinks, others, window: Some(last) },
            others => Parts { sinks, others, window: None },
        }
    }
}

/// The timeline in one line: each character is the share of some tokens that are kept.
fn strip(view: View, positions: &[u32], tokens: usize) -> String {
    let cells = view.width.min(tokens);
    let each = tokens.div_ceil(cells);
    let mut line = String::new();
    let mut rest = positions;
    for start in (0..tokens).step_by(each) {
        let end = tokens.min(start + each);
        let kept = rest.partition_point(|position| (*position as usize) < end);
        line.push(view.shade(kept, end - start));
        rest = &rest[kept..];
    }
    let last = format::count(tokens - 1);
    let space = line.chars().count().saturating_sub(1);
    let unit = if each == 1 { "1 token".to_owned() } else { format!("{} tokens", format::count(each)) };
    let shades = match view.is_terminal {
        true => "· none kept, █ all",
        false => ". none kept, 0-9 tenths, # all",
    };
    format!("\n{line}\n0{last:>space$}\na character is {unit}: {shades}\n")
}

/// The words of the longest spans and of those that are farthest from others, in the order of the text. What is kept is
/// in brackets.
fn words(view: View, session: &Session, spans: &[Range<u32>]) -> Result<String> {
    let chosen = notable(spans, session.tokens().len());
    if chosen.is_empty() {
        return Ok(String::new());
    }
    let tokenizer = session.engine().model().chat_format()?.tokenizer();
    let mut text = "\nspans, with what is kept in []\n".to_owned();
    for span in chosen {
        let words = excerpt(tokenizer, session.tokens(), &span, view.width.saturating_sub(MARGIN).max(16));
        text += &format!("{:>8} {words}\n", format::count(span.start as usize));
    }
    Ok(text)
}

/// The longest spans between sinks and window, and those that are farthest from other rows.
fn notable(spans: &[Range<u32>], tokens: usize) -> Vec<Range<u32>> {
    let others = Parts::of(spans, tokens).others;
    let distance = |span: &Range<u32>| {
        let at = spans.partition_point(|other| other.start < span.start);
        let before = at.checked_sub(1).map_or(u32::MAX, |before| span.start - spans[before].end);
        let behind = spans.get(at + 1).map_or(u32::MAX, |behind| behind.start - span.end);
        before.min(behind)
    };
    let mut by_length = others.to_vec();
    by_length.sort_by_key(|span| (usize::MAX - span.len(), span.start));
    let (longest, rest) = by_length.split_at(SHOWN.min(by_length.len()));
    let mut by_distance = rest.to_vec();
    by_distance.sort_by_key(|span| (u32::MAX - distance(span), span.start));
    let mut chosen: Vec<Range<u32>> = longest.iter().chain(by_distance.iter().take(SHOWN)).cloned().collect();
    chosen.sort_by_key(|span| span.start);
    chosen
}

/// A span and what is around it, in one line of at most `width` columns.
fn excerpt(tokenizer: &Tokenizer, tokens: &[u32], span: &Range<u32>, width: usize) -> String {
    let span = span.start as usize..(span.end as usize).min(tokens.len());
    let text = |range: Range<usize>| plain(tokenizer, &tokens[range]);
    let shown = span.end.min(span.start + INSIDE);
    let mut kept = text(span.start..shown);
    if shown < span.end {
        kept.push('…');
    }
    let kept = cut(&kept, width - 2);
    let room = width - 2 - format::columns(&kept);
    let before: String = text(span.start.saturating_sub(AROUND)..span.start).chars().rev().collect();
    let before: String = cut(&before, room / 2).chars().rev().collect();
    let behind = text(span.end..tokens.len().min(span.end + AROUND));
    format!("{before}[{kept}]{}", cut(&behind, room - format::columns(&before)))
}

/// The text of tokens in one line, without control and invisible characters.
fn plain(tokenizer: &Tokenizer, tokens: &[u32]) -> String {
    let bytes = tokens.iter().flat_map(|token| match tokenizer.is_control(*token) {
        true => tokenizer.token_text(*token).unwrap_or_default().as_bytes(),
        false => tokenizer.token_bytes(*token).unwrap_or_default(),
    });
    let bytes: Vec<u8> = bytes.copied().collect();
    let text = String::from_utf8_lossy(&bytes);
    // A character may be cut by the first and the last token.
    let text = text.trim_matches(char::REPLACEMENT_CHARACTER);
    let mut line = String::new();
    for c in text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }) {
        if c != ' ' || !line.ends_with(' ') {
            line.push(c);
        }
    }
    console::visible(&line)
}

/// The beginning of a text that takes at most `columns`. `…` stands for the rest.
fn cut(text: &str, columns: usize) -> String {
    if format::columns(text) <= columns {
        return text.to_owned();
    }
    let mut kept = String::new();
    for c in text.chars() {
        if format::columns(&kept) + format::columns(c.encode_utf8(&mut [0; 4])) + 1 > columns {
            break;
        }
        kept.push(c);
    }
    if columns > 0 { kept + "…" } else { String::new() }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use longhand::{Model, ModelSource};

    use super::*;

    const PIPED: View = View { width: 40, is_terminal: false, has_color: false };

    #[test]
    fn spans_are_told_from_sinks_and_window() {
        let spans = spans(&[0, 1, 2, 3, 10, 20, 21, 22, 40, 98, 99]);
        assert_eq!(spans, [0..4, 10..11, 20..23, 40..41, 98..100]);
        let parts = |spans, tokens| {
            let Parts { sinks, others, window } = Parts::of(spans, tokens);
            (sinks.cloned(), others.to_vec(), window.cloned())
        };
        assert_eq!(parts(&spans, 100), (Some(0..4), spans[1..4].to_vec(), Some(98..100)));
        assert_eq!(parts(&spans, 101), (Some(0..4), spans[1..].to_vec(), None));
        assert_eq!(parts(slice::from_ref(&(0..100)), 100), (None, vec![], None));
        assert_eq!(parts(slice::from_ref(&(90..100)), 100), (None, vec![], Some(90..100)));
        let head = KvHeadRows {
            rows: 11,
            compensated: 89,
            bytes: 0,
            is_bounded: true,
            window: None,
            is_retrieval: false,
        };
        assert_eq!(
            numbers(&head, &spans, 100),
            "rows     11 of 100 (11.0 %)\n\
             entry    the mean of 89 evicted rows\n\
             sinks    4 rows, 0 to 3\n\
             window   2 rows, 98 to 99\n\
             others   5 rows in 3 spans, the longest 3\n"
        );
    }

    #[test]
    fn the_strip_has_a_character_for_equally_many_tokens() {
        let strip = |positions: &[u32], tokens| strip(PIPED, positions, tokens);
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            lines(&strip(&[0, 1, 4], 5)),
            ["", "##..#", "0   4", "a character is 1 token: . none kept, 0-9 tenths, # all"]
        );
        let long = lines(&strip(&(0..500).chain(900..905).collect::<Vec<_>>(), 1000));
        assert_eq!(long[1], "####################................2...");
        assert_eq!((long[2].len(), long[2].ends_with(" 999")), (long[1].len(), true));
        assert!(long[3].starts_with("a character is 25 tokens: "));
    }

    #[test]
    fn the_longest_and_the_most_isolated_spans_are_shown_in_the_order_of_the_text() {
        // Sinks, three long spans, three isolated ones, close ones, window.
        let mut spans = vec![0..4, 10..20, 22..42, 50..62, 1000..1001, 2000..2001, 3000..3002];
        spans.extend((0..50).map(|number| 4000 + 3 * number..4001 + 3 * number));
        spans.push(5000..5100);
        assert_eq!(notable(&spans, 5100), [10..20, 22..42, 50..62, 1000..1001, 2000..2001, 3000..3002]);
        assert_eq!(notable(slice::from_ref(&(0..10)), 10), []);
        assert_eq!(notable(&spans[..2], 5100), spans[1..2]);
    }

    #[test]
    fn excerpts_are_one_safe_line_that_fits() {
        let model = Model::open(ModelSource::Embedded).expect("the embedded model");
        let tokenizer = model.chat_format().expect("a chat format").tokenizer();
        let text = "The old boat\x1b[2J crossed\n\n\tthe quiet river. Mary's favorite number is 34251. \u{202e}It rained.";
        let tokens = tokenizer.encode(text, false, false).expect("tokens");
        let n = tokens.len() as u32;
        for width in [16, 31, 40, 71, 200] {
            for span in [0..1, 0..n, 5..6, 5..20, n - 1..n] {
                let line = excerpt(tokenizer, &tokens, &span, width);
                assert!(format::columns(&line) <= width, "{line}");
                assert!(line.contains('[') && line.contains(']'), "{line}");
                assert!(!line.contains(['\n', '\t', '\x1b', '\u{202e}', '\u{fffd}']), "{line}");
            }
        }
        let all = excerpt(tokenizer, &tokens, &(0..n), 200);
        assert!(all.starts_with("[The old boat␛[2J crossed the quiet"), "{all}");
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("中文字", 5), "中文…");
        assert_eq!([cut("abc", 0), cut("abc", 1), cut("abc", 3)], ["", "…", "abc"]);
    }
}

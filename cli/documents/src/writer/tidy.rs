//! What costs tokens and says nothing is left out of text: dots that lead to the number of a page, runs of empty lines,
//! spaces that fill a line. Tables and code keep their spaces.

use std::borrow::Cow;
use std::path::Path;

/// Stands for dots that lead to a number.
const DOTS: &str = " ... ";
/// Fewer dots may be an omission.
const MIN_DOTS: usize = 4;
/// So many empty lines are one, in a text of paragraphs.
const MAX_EMPTY: usize = 2;
/// Spaces that only fill a line are at most so many at a place; more divide columns.
const MAX_FILLING: usize = 3;
/// Longest number of a page: `xxxviii`, `A-12`.
const MAX_NUMBER: usize = 8;

/// Extensions of texts of paragraphs.
const PROSE: &[&str] = &["txt", "text", "md", "markdown", "rst", "adoc", "asciidoc"];

/// Whether a text file of this name has paragraphs, and not source code or data.
pub(crate) fn is_prose(name: &str) -> bool {
    let path = Path::new(name);
    match path.extension().and_then(|extension| extension.to_str()) {
        Some(extension) => PROSE.iter().any(|known| extension.eq_ignore_ascii_case(known)),
        // README, LICENSE
        None => {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name == "stdin" || (!name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase()))
        }
    }
}

/// A line with its dots shortened, if they lead to a number: `Chapter 1 ..... 12`.
pub(crate) fn without_leader(line: &str) -> Option<String> {
    let (head, number) = split_number(line.trim_end())?;
    let is_dot = |c: char| matches!(c, '.' | '…' | '·' | '․');
    let rest = head.trim_end_matches(|c: char| is_dot(c) || c == ' ' || c == '\t' || c == '\u{a0}');
    let leader = &head[rest.len()..];
    let dots: usize = leader.chars().map(|c| if c == '…' { 3 } else { usize::from(is_dot(c)) }).sum();
    let has_words = rest.chars().any(char::is_alphanumeric);
    let is_leader = dots >= MIN_DOTS && leader.len() > DOTS.len() && has_words;
    is_leader.then(|| format!("{rest}{DOTS}{number}"))
}

/// A line before the number of a page at its end, and that number.
fn split_number(line: &str) -> Option<(&str, &str)> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '–');
    let head = line.trim_end_matches(is_part);
    let number = &line[head.len()..];
    let is_roman = number.chars().all(|c| "ivxlcdmIVXLCDM".contains(c));
    let is_number = number.chars().any(char::is_numeric) || is_roman;
    (!number.is_empty() && number.chars().count() <= MAX_NUMBER && is_number).then_some((head, number))
}

/// All lines of a text with their dots shortened.
pub(crate) fn without_leaders(text: &str) -> Cow<'_, str> {
    if !text.contains("....") && !text.contains(". . .") && !text.contains(['…', '·', '․']) {
        return Cow::Borrowed(text);
    }
    let lines = text.split_inclusive('\n').map(|line| {
        let end = line.len() - line.trim_end_matches(['\r', '\n']).len();
        match without_leader(line) {
            Some(short) => Cow::Owned(short + &line[line.len() - end..]),
            None => Cow::Borrowed(line),
        }
    });
    Cow::Owned(lines.collect())
}

/// A text of paragraphs without what says nothing. Code between fences is not changed.
pub(crate) fn prose(text: &str, is_markdown: bool) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut tidy = String::with_capacity(text.len());
    let (mut empty, mut fence) = (Vec::new(), None);
    for (i, line) in lines.iter().enumerate() {
        let content = line.trim_end_matches(['\r', '\n']);
        let end = &line[content.len()..];
        let words = content.trim_end_matches([' ', '\t']);
        let mark = ["```", "~~~"].into_iter().find(|mark| words.trim_start().starts_with(mark));
        let is_code = fence.is_some();
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            _ => {}
        }
        if words.is_empty() && !is_code {
            empty.push(*line);
            continue;
        }
        write_empty(&mut tidy, &mut empty);
        if is_code || fence.is_some() {
            tidy.push_str(line);
            continue;
        }
        match without_leader(words) {
            Some(short) => tidy.push_str(&short),
            None => {
                let around =
                    [i.checked_sub(1), i.checked_add(1)].map(|at| at.and_then(|at| lines.get(at)).copied());
                match fills_line(words, around) {
                    true => {
                        words.split(' ').filter(|word| !word.is_empty()).enumerate().for_each(|(i, word)| {
                            tidy.extend([if i > 0 { " " } else { "" }, word]);
                        })
                    }
                    false => tidy.push_str(words),
                }
                // A line break.
                if is_markdown && content.ends_with("  ") {
                    tidy.push_str("  ");
                }
            }
        }
        tidy.push_str(end);
    }
    write_empty(&mut tidy, &mut empty);
    tidy
}

/// Writes the empty lines that were found; many as one.
fn write_empty(text: &mut String, empty: &mut Vec<&str>) {
    let is_many = empty.len() > MAX_EMPTY;
    for line in empty.drain(..).take(if is_many { 1 } else { MAX_EMPTY }) {
        let end = line.trim_start_matches([' ', '\t']);
        // What stands on the last line without an end is nothing either.
        text.push_str(if is_many { end } else { line });
    }
}

/// Whether spaces within a line only make it as wide as others. Those that stand below or above others divide columns.
fn fills_line(line: &str, around: [Option<&str>; 2]) -> bool {
    let gaps = gaps(line);
    let is_filling = |(_, length): &(usize, usize)| *length <= MAX_FILLING;
    !gaps.is_empty()
        && !line.starts_with([' ', '\t'])
        && !line.contains(['\t', '|', '+', '─', '│'])
        && gaps.iter().all(is_filling)
        && !around.into_iter().flatten().any(|other| {
            let others = self::gaps(other);
            gaps.iter().any(|(end, _)| others.iter().any(|(other, _)| other == end))
        })
}

/// Runs of spaces within a line: where each ends, in characters, and how many they are.
fn gaps(line: &str) -> Vec<(usize, usize)> {
    let line = line.trim_end();
    let (mut gaps, mut run) = (Vec::new(), 0);
    for (at, c) in line.chars().enumerate() {
        if c == ' ' {
            run += 1;
            continue;
        }
        if run > 1 && at > run {
            gaps.push((at, run));
        }
        run = 0;
    }
    gaps
}

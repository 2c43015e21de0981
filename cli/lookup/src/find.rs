//! Where words stand in a text.

use std::ops::Range;

use crate::fold::folded;

/// Words that stand apart may be so many bytes apart.
const WINDOW: usize = 300;

/// Where the words stand together, in any case and with any accents; if they do so nowhere, where all of them are close
/// to each other. Words in quotation marks are looked for without these too, and only together. At most `limit` ranges,
/// and how many there are. Ranges do not overlap.
///
/// ```
/// let text = "The R\u{e9}sum\u{e9} of the boat.\nA boat has no resume.";
/// let (found, count) = lookup::find(text, "resume", 1);
/// assert_eq!((&text[found[0].clone()], count), ("R\u{e9}sum\u{e9}", 2));
/// assert_eq!(lookup::find(text, "the boat resume", 9).1, 1);
/// ```
pub fn find(text: &str, words: &str, limit: usize) -> (Vec<Range<usize>>, usize) {
    let (text_len, text) = (text.len(), folded(text));
    let mut asked = folded(words.trim()).text;
    let quoted = in_quotes(words.trim()).map(|words| folded(words).text);
    if let Some(quoted) = quoted.as_ref().filter(|_| !text.text.contains(&asked)) {
        asked.clone_from(quoted);
    }
    if asked.trim().is_empty() {
        return (Vec::new(), 0);
    }
    let (mut found, mut count) = (Vec::new(), 0);
    let mut push = |start: usize, end: usize| {
        count += 1;
        if found.len() < limit {
            let original = |at: usize| text.origins.get(at).copied().unwrap_or(text_len);
            found.push(original(start)..original(end));
        }
    };
    let mut at = 0;
    while let Some(next) = text.text[at..].find(&asked) {
        push(at + next, at + next + asked.len());
        at += next + asked.len();
    }
    let words: Vec<&str> = asked.split(' ').filter(|word| !word.is_empty()).collect();
    if at > 0 || words.len() < 2 || quoted.is_some() {
        return (found, count);
    }
    // The rarest word decides how many places are looked at.
    let Some(rarest) = words.iter().min_by_key(|word| (text.text.matches(**word).count(), word.len())) else {
        return (found, count);
    };
    let mut end = 0;
    for (hit, _) in text.text.match_indices(rarest) {
        if hit < end {
            continue;
        }
        let from = boundary(&text.text, hit.saturating_sub(WINDOW).max(end));
        let to = boundary(&text.text, (hit + WINDOW).min(text.text.len()));
        let window = &text.text[from..to];
        // The nearest of each word to the rarest one.
        let near = |word: &&str| {
            let hits = window.match_indices(*word).map(|(at, word)| (from + at, from + at + word.len()));
            hits.min_by_key(|(at, _)| at.abs_diff(hit))
        };
        let all: Option<Vec<_>> = words.iter().map(near).collect();
        if let Some(all) = all {
            let start = all.iter().map(|(start, _)| *start).min().unwrap_or(hit);
            end = all.iter().map(|(_, end)| *end).max().unwrap_or(hit);
            push(start, end);
        }
    }
    (found, count)
}

/// Words without the quotation marks around them; `None` where there are none.
fn in_quotes(words: &str) -> Option<&str> {
    let inner = |(open, close): &(char, char)| words.strip_prefix(*open)?.strip_suffix(*close);
    let pairs =
        [('"', '"'), ('\'', '\''), ('“', '”'), ('„', '“'), ('‘', '’'), ('«', '»'), ('»', '«'), ('「', '」')];
    pairs.iter().find_map(inner).map(str::trim).filter(|inner| !inner.is_empty())
}

fn boundary(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_any_form() {
        let text = "Der Café-\nbesitzer heißt MÜLLER.\nTwo  men\nin a boat. 東京タワー \u{fb01}ne";
        for (asked, expected) in [
            ("cafebesitzer", "Café-\nbesitzer"),
            ("muller", "MÜLLER"),
            ("heisst Müller", "heißt MÜLLER"),
            ("men in", "men\nin"),
            ("東京", "東京"),
            ("fine", "\u{fb01}ne"),
            ("boat men", "men\nin a boat"),
            ("\"men in\"", "men\nin"),
            ("„Men in“", "men\nin"),
        ] {
            let (found, count) = find(text, asked, 10);
            assert_eq!(count, 1, "{asked}");
            assert_eq!(&text[found[0].clone()], expected);
        }
        assert_eq!(find(text, " ", 10).1, 0);
        assert_eq!(find(text, "submarine boat", 10).1, 0);
        // Quoted words stand together, and the marks may be in the text.
        assert_eq!(find(text, "\"boat men\"", 10).1, 0);
        assert_eq!(find("say 'x' and x", "'x'", 10).1, 1);
        assert_eq!(find(text, "\"\"", 10).1, 0);
        assert_eq!(find("", "a", 10).1, 0);
    }

    #[test]
    fn what_is_found_is_bounded() {
        let text = "boat ".repeat(10_000);
        let (found, count) = find(&text, "BOAT", 50);
        assert_eq!((found.len(), count), (50, 10_000));
        assert_eq!(find(&text, "boat x", 50).1, 0);
    }
}

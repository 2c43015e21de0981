//! Foreign text in pictures: names may come from model files.

use crate::drawing::Face;

/// Maximum number of characters of a text.
const MAX_CHARS: usize = 200;
/// Maximum number of characters that are looked at.
const MAX_READ: usize = 1000;

/// A text in one line without control and invisible characters, with at most 200 characters.
pub(crate) fn clean(text: &str) -> String {
    let mut chars = text.chars();
    let read: String = chars
        .by_ref()
        .take(MAX_READ)
        .filter(|c| c.is_whitespace() || !is_invisible(*c))
        .map(|c| if c.is_whitespace() { ' ' } else { c })
        .collect();
    let words: Vec<&str> = read.split(' ').filter(|word| !word.is_empty()).collect();
    let text = words.join(" ");
    let is_cut = chars.next().is_some() || text.chars().nth(MAX_CHARS).is_some();
    if is_cut { text.chars().take(MAX_CHARS - 1).chain(['…']).collect() } else { text }
}

/// Whether a character changes how others are shown, shows nothing itself, or is not allowed in XML.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e0fff}')
}

/// The beginning of a text that is no wider than `width`, with `…` where something is missing.
pub(crate) fn fitted(text: &str, face: Face, width: f64) -> String {
    if face.width(text) <= width {
        return text.to_owned();
    }
    let mut kept: String = text.to_owned();
    while kept.pop().is_some() {
        let cut = format!("{}…", kept.trim_end());
        if face.width(&cut) <= width {
            return cut;
        }
    }
    String::new()
}

/// Both ends of a name that is no wider than `width`, with `…` where something is missing. Names of policies
/// often differ in their last characters only.
pub(crate) fn shortened(name: &str, face: Face, width: f64) -> String {
    let chars: Vec<char> = name.chars().collect();
    let ends = |kept: usize| -> String {
        let tail = kept / 3;
        chars[..kept - tail].iter().chain(&['…']).chain(&chars[chars.len() - tail..]).collect()
    };
    if face.width(name) <= width {
        return name.to_owned();
    }
    (0..chars.len()).rev().map(ends).find(|cut| face.width(cut) <= width).unwrap_or_default()
}

/// A text in at most `lines` lines of this width. It breaks after blanks and after signs between words.
pub(crate) fn wrapped(text: &str, face: Face, width: f64, lines: usize) -> Vec<String> {
    let mut rest = text.trim();
    let mut out = Vec::new();
    while !rest.is_empty() {
        let is_last = out.len() + 1 == lines;
        if is_last || face.width(rest) <= width {
            out.push(fitted(rest, face, width));
            break;
        }
        let breaks =
            rest.char_indices().filter(|(_, c)| " -_/+,=:".contains(*c)).map(|(at, c)| at + c.len_utf8());
        let fits = |end: &usize| face.width(rest[..*end].trim_end()) <= width;
        // A word that is too long for a line is cut, not broken.
        let end = breaks.take_while(fits).last();
        let Some(end) = end.filter(|end| *end < rest.len()) else {
            out.push(fitted(rest, face, width));
            break;
        };
        out.push(rest[..end].trim_end().to_owned());
        rest = rest[end..].trim_start();
    }
    out.retain(|line| !line.is_empty());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_invisible_characters_are_left_out() {
        assert_eq!(clean("  a\0b\x1b[31m\n\tc\u{202e}d\u{200b}e\u{ffff}\u{9b}  "), "ab[31m cde");
        assert_eq!(clean("Größe 船 é"), "Größe 船 é");
        assert_eq!(clean("\n\u{feff}"), "");
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(clean(&"x".repeat(200)), "x".repeat(200));
        assert_eq!(clean(&"x".repeat(201)), "x".repeat(199) + "…");
        assert_eq!(clean(&"x".repeat(10_000_000)), "x".repeat(199) + "…");
        // Also where little is left of what was read.
        assert_eq!(clean(&("a".to_owned() + &"\0".repeat(5000))), "a…");
    }

    #[test]
    fn a_fitted_text_is_no_wider_than_its_place() {
        let text = "razor:sinks=4,window=1024";
        assert_eq!(fitted(text, Face::NAME, 500.0), text);
        let cut = fitted(text, Face::NAME, 80.0);
        assert!(cut.starts_with("razor") && cut.ends_with('…'), "{cut}");
        assert!(Face::NAME.width(&cut) <= 80.0);
        assert_eq!(fitted(text, Face::NAME, 1.0), "");
    }

    #[test]
    fn a_shortened_name_keeps_both_ends() {
        let name = "razor:sinks=4,window=1024,heads=7";
        assert_eq!(shortened(name, Face::NAME, 500.0), name);
        let cut = shortened(name, Face::NAME, 120.0);
        assert!(cut.starts_with("razor:sink") && cut.contains('…') && cut.ends_with("ds=7"), "{cut}");
        assert!(Face::NAME.width(&cut) <= 120.0);
        assert_eq!(shortened(name, Face::NAME, 1.0), "");
    }

    #[test]
    fn texts_break_between_words() {
        let lines = |text, width| wrapped(text, Face::NAME, width, 2);
        assert_eq!(lines("one line", 100.0), ["one line"]);
        assert_eq!(lines("two lines", 40.0), ["two", "lines"]);
        assert_eq!(lines("multi-needle", 50.0), ["multi-", "needle"]);
        assert_eq!(lines("one two three four five", 45.0), ["one two", "three…"]);
        assert_eq!(lines("unbreakable", 45.0), ["unbre…"]);
        assert!(lines("", 45.0).is_empty());
        assert!(lines("x y", 0.5).is_empty());
    }
}

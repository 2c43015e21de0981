//! Marks of what begins where. Readers write a sign into the text before a heading, a page or a document within a document;
//! here the signs are taken out again, and become the outline. So no reader has to know where its text ends up.
//!
//! The sign is no character of Unicode, and nothing else writes it: where a document has it, it is replaced.

use outline::{Begins, Outline};

/// Stands before the `#` of a heading and the `==>` of a document, and around the number of a page.
pub(crate) const MARK: char = '\u{fdd0}';

/// The sign before a page.
pub(crate) fn page(number: usize) -> String {
    format!("{MARK}{number}{MARK}")
}

/// The signs before a heading of a level from 1 on, which are written.
pub(crate) fn heading(level: usize) -> String {
    format!("{MARK}{} ", "#".repeat(level))
}

/// The signs before a line that is a heading, though no `#` is written before it.
pub(crate) fn unwritten_heading(level: usize) -> String {
    format!("{MARK}{}{MARK}", "#".repeat(level))
}

/// A written text, whose headings are lines like others.
pub(crate) fn without_headings(text: &str) -> String {
    let (first, others) = text.split_once(MARK).unwrap_or((text, ""));
    let others = others.split(MARK).map(|heading| heading.trim_start_matches('#').trim_start());
    [first].into_iter().chain(others).collect()
}

/// The line before a document within another, with its name.
pub(crate) fn document(name: &str) -> String {
    let name: String =
        name.chars().map(|c| if c.is_control() || c == MARK { '\u{fffd}' } else { c }).collect();
    format!("{MARK}==> {name} <==\n")
}

/// A text of a document without the signs that it may have itself.
pub(crate) fn without_marks(text: String) -> String {
    if text.contains(MARK) { text.replace(MARK, "\u{fffd}") } else { text }
}

/// Takes the marks out of a text.
pub(crate) fn take(text: String) -> (String, Outline) {
    let mut outline = Outline::default();
    if !text.contains(MARK) {
        return (text, outline);
    }
    let mut plain = String::with_capacity(text.len());
    let mut pieces = text.split(MARK);
    plain.push_str(pieces.next().unwrap_or_default());
    while let Some(piece) = pieces.next() {
        if let Some(name) = document_of(piece) {
            outline.push(plain.len(), Begins::Document(name.to_owned()));
        } else if !piece.is_empty() && piece.bytes().all(|byte| byte == b'#') {
            outline.push(plain.len(), Begins::Heading(piece.len()));
            plain.push_str(pieces.next().unwrap_or_default());
            continue;
        } else if piece.starts_with('#') {
            let level = piece.bytes().take_while(|byte| *byte == b'#').count();
            outline.push(plain.len(), Begins::Heading(level));
        } else if let Ok(number) = piece.parse::<usize>() {
            outline.push(plain.len(), Begins::Page(number));
            plain.push_str(pieces.next().unwrap_or_default());
            continue;
        }
        plain.push_str(piece);
    }
    (plain, outline)
}

/// The name in the line before a document within another.
fn document_of(piece: &str) -> Option<&str> {
    piece.lines().next()?.strip_prefix("==> ")?.strip_suffix(" <==")
}

/// Marks the pages of a plain text, which form feeds separate.
pub(crate) fn form_feeds(text: String) -> String {
    if !text.contains('\u{c}') {
        return text;
    }
    // The form feed belongs to the page that it ends.
    let pages = text.split_inclusive('\u{c}').enumerate();
    pages.map(|(i, text)| page(i + 1) + text).collect()
}

/// Marks the headings of Markdown: `# Title`, and lines above `===` or `---`.
pub(crate) fn markdown(text: &str) -> String {
    let mut marked = String::with_capacity(text.len());
    let mut fence: Option<&str> = None;
    let mut lines = text.split_inclusive('\n').peekable();
    let mut is_paragraph = false;
    while let Some(line) = lines.next() {
        let trimmed = line.trim_end().trim_start_matches(' ');
        let indent = line.len() - line.trim_start_matches(' ').len();
        let begins = |sign: char| trimmed.chars().take_while(|c| *c == sign).count();
        let was_code = fence.is_some();
        let run = ['`', '~'].into_iter().map(begins).max().unwrap_or(0);
        match fence {
            Some(open) => {
                let closes = run >= open.len() && trimmed.starts_with(open) && trimmed.len() == run;
                fence = fence.filter(|_| !closes);
            }
            None if run >= 3 => fence = Some(&trimmed[..run]),
            None => {
                let level = begins('#');
                let is_heading = (1..=6).contains(&level)
                    && indent < 4
                    && trimmed[level..].chars().next().is_none_or(char::is_whitespace);
                if is_heading {
                    // The sign stands directly before `#`.
                    marked.push_str(&line[..indent]);
                    marked.push(MARK);
                    marked.push_str(&line[indent..]);
                    is_paragraph = false;
                    continue;
                }
                let underline = lines.peek().map_or("", |next| next.trim());
                let is_underlined = !trimmed.is_empty()
                    && !is_paragraph
                    && indent < 4
                    && underline.len() >= 3
                    && ['=', '-'].iter().any(|sign| underline.chars().all(|c| c == *sign))
                    // The first line of a block of settings, and rules.
                    && !trimmed.chars().all(|c| "-=*_|: ".contains(c));
                if is_underlined {
                    // `# ` is missing, so it stands between two signs.
                    marked.push_str(&unwritten_heading(if underline.starts_with('=') { 1 } else { 2 }));
                }
            }
        }
        is_paragraph = !trimmed.is_empty() && !was_code && fence.is_none();
        marked.push_str(line);
    }
    marked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown((text, outline): &(String, Outline)) -> Vec<String> {
        let part = |part: outline::OutlinePart| {
            format!("{}|{}|{}", part.location, part.level.unwrap_or(0), &text[part.range])
        };
        outline.parts(text).into_iter().map(part).collect()
    }

    #[test]
    fn markdown_has_sections() {
        let text =
            "intro\n\n# One #\na\n```sh\n# no heading\n```\nTwo\n===\nb\n#tag\n\n- x\n---\n   ### Three\nc";
        let taken = take(markdown(text));
        assert_eq!(taken.0, text);
        let found = shown(&taken);
        let titles: Vec<&str> = found.iter().map(|part| part.split('|').next().unwrap_or_default()).collect();
        assert_eq!(titles, ["", "One", "Two", "- x", "Three"]);
    }

    #[test]
    fn form_feeds_end_pages() {
        let taken = take(form_feeds("a\n\u{c}b\n".to_owned()));
        assert_eq!(taken.0, "a\n\u{c}b\n");
        assert_eq!(shown(&taken), ["p. 1|0|a\n\u{c}", "p. 2|0|b\n"]);
    }

    #[test]
    fn any_text_loses_nothing_but_the_signs() {
        for text in
            ["", "\u{fdd0}", "a\u{fdd0}7", "\u{fdd0}##\u{fdd0}", "\u{fdd0}99999999999999999999999\u{fdd0}x"]
        {
            let (plain, outline) = take(text.to_owned());
            assert!(outline.is_of(&plain), "{text:?}");
            assert!(!plain.contains(MARK));
        }
    }
}

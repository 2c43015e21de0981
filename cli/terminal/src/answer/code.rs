//! Colours code: comments, strings, numbers and keywords, as they arrive. What a language looks like is in
//! [`languages`](crate::answer::languages).

use crate::answer::languages::{Comment, Language};
use crate::answer::style::Style;

const COMMENT: Style = Style::DIM;
const STRING: Style = Style::color(32);
const NUMBER: Style = Style::color(33);
const KEYWORD: Style = Style::color(35);
const ADDED: Style = Style::color(32);
const REMOVED: Style = Style::color(31);

/// Colours the lines of a code block.
pub struct Colors {
    language: Option<&'static Language>,
    state: CodeState,
    /// The character before the text that comes next; `None` at the beginning of a line.
    before: Option<char>,
}

/// What the text is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CodeState {
    Code,
    /// A line of this style.
    Line(Style),
    /// A comment or a string up to this text.
    Until {
        end: &'static str,
        style: Style,
        escapes: bool,
        may_span_lines: bool,
    },
}

impl Colors {
    /// For code of a language as a code block names it. Code of an unknown language has no colours.
    pub fn new(language: &str) -> Colors {
        Colors { language: Language::find(language), state: CodeState::Code, before: None }
    }

    /// The first bytes of a line's text and their style. `None` if that depends on text that is not there yet, which is
    /// never so if the line `is_whole`.
    pub fn first(&mut self, text: &str, is_whole: bool) -> Option<(Style, usize)> {
        let found = match self.language {
            _ if text.is_empty() => None,
            None => Some((Style::PLAIN, text.len())),
            Some(language) => match self.state {
                CodeState::Code => self.code(language, text, is_whole),
                CodeState::Line(style) => Some((style, text.len())),
                CodeState::Until { end, style, escapes, .. } => {
                    let (bytes, ends) = until(text, end, escapes, is_whole)?;
                    if ends {
                        self.state = CodeState::Code;
                    }
                    Some((style, bytes))
                }
            },
        };
        if let Some((_, bytes)) = found {
            self.before = text[..bytes].chars().next_back();
        }
        found
    }

    /// A line has ended.
    pub fn end_line(&mut self) {
        self.before = None;
        if !matches!(self.state, CodeState::Until { may_span_lines: true, .. }) {
            self.state = CodeState::Code;
        }
    }

    fn code(&mut self, language: &Language, text: &str, is_whole: bool) -> Option<(Style, usize)> {
        if language.is_diff {
            let style = match text.as_bytes()[0] {
                _ if self.before.is_some() => Style::PLAIN,
                b'+' => ADDED,
                b'-' => REMOVED,
                b'@' => COMMENT,
                _ => Style::PLAIN,
            };
            self.state = CodeState::Line(style);
            return Some((style, text.len()));
        }
        // What begins a comment or a string may be incomplete.
        let begins = |start: &str| !is_whole && text.len() < start.len() && start.starts_with(text);
        for Comment { start, end } in language.comments {
            let is_comment = *start != "#" || self.before.is_none_or(|c| c.is_whitespace() || c == ';');
            if is_comment && text.starts_with(start) {
                self.state = match end {
                    Some(end) => {
                        CodeState::Until { end, style: COMMENT, escapes: false, may_span_lines: true }
                    }
                    None => CodeState::Line(COMMENT),
                };
                return Some((COMMENT, start.len()));
            }
            if is_comment && begins(start) {
                return None;
            }
        }
        for quotes in language.strings {
            if begins(quotes) {
                return None;
            }
            if text.starts_with(quotes) {
                let may_span_lines = quotes.len() > 1 || *quotes == "`";
                self.state = CodeState::Until { end: quotes, style: STRING, escapes: true, may_span_lines };
                return Some((STRING, quotes.len()));
            }
        }
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let first = text.chars().next()?;
        if !is_word(first) {
            return Some((Style::PLAIN, first.len_utf8()));
        }
        let is_number = first.is_ascii_digit();
        let is_inside = |c: char| is_word(c) || is_number && c == '.';
        let bytes = match text.find(|c| !is_inside(c)) {
            Some(bytes) => bytes,
            None if is_whole => text.len(),
            None => return None,
        };
        let style = match &text[..bytes] {
            _ if is_number => NUMBER,
            word if language.has_keyword(word) => KEYWORD,
            _ => Style::PLAIN,
        };
        Some((style, bytes))
    }
}

/// Bytes of a text up to and with `end`, and whether it ends there. `None` if more text is needed.
fn until(text: &str, end: &str, escapes: bool, is_whole: bool) -> Option<(usize, bool)> {
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        if rest.starts_with(end) {
            return Some((at + end.len(), true));
        }
        let is_escape = escapes && c == '\\';
        if !is_whole && (end.starts_with(rest) || is_escape && rest.len() == 1) {
            return (at > 0).then_some((at, false));
        }
        at += c.len_utf8();
        if is_escape {
            at += text[at..].chars().next().map_or(0, char::len_utf8);
        }
    }
    Some((at, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code with its colours: `k[fn]` for keywords, `s[…]` strings, `n[…]` numbers, `c[…]` comments.
    fn shown(language: &str, code: &str, step: usize) -> String {
        let mut colors = Colors::new(language);
        let mut out = String::new();
        let mut last = Style::PLAIN;
        let mut show = |style: Style, text: &str| {
            if style != last {
                out += if last == Style::PLAIN { "" } else { "]" };
                out += match style {
                    KEYWORD => "k[",
                    STRING => "s[",
                    NUMBER => "n[",
                    COMMENT => "c[",
                    REMOVED => "r[",
                    _ => "",
                };
                last = style;
            }
            out += text;
        };
        for line in code.split('\n') {
            let (mut pending, mut rest) = (String::new(), line);
            loop {
                let length =
                    rest.char_indices().map(|(at, _)| at).find(|at| *at >= step).unwrap_or(rest.len());
                pending += &rest[..length];
                rest = &rest[length..];
                while let Some((style, bytes)) = colors.first(&pending, rest.is_empty()) {
                    show(style, &pending[..bytes]);
                    pending.drain(..bytes);
                }
                if rest.is_empty() {
                    break;
                }
            }
            assert!(pending.is_empty(), "{pending}");
            show(Style::PLAIN, "\n");
            colors.end_line();
        }
        out.trim_end_matches('\n').to_owned()
    }

    #[test]
    fn comments_strings_numbers_and_keywords_have_colours_however_the_text_arrives() {
        for (language, code, expected) in [
            ("rust", "let x = \"a\\\"b\" // c\nfn", "k[let] x = s[\"a\\\"b\"] c[// c]\nk[fn]"),
            ("rs", "&'a str / 2.5", "&'a str / n[2.5]"),
            ("C++", "int a /* b\nc */ 'd'", "k[int] a c[/* b]\nc[c */] s['d']"),
            (
                "python",
                "\"\"\"a\nb\"\"\" # c\nif '' in x1",
                "s[\"\"\"a]\ns[b\"\"\"] c[# c]\nk[if] s[''] k[in] x1",
            ),
            ("bash", "echo $#a 'b'", "echo $#a s['b']"),
            ("sql", "SELECT 1 -- é", "k[SELECT] n[1] c[-- é]"),
            ("json", "{\"a\": true}", "{s[\"a\"]: k[true]}"),
            ("diff", "-a\n b", "r[-a]\n b"),
            ("unknown", "let x = 1", "let x = 1"),
            ("", "\"a", "\"a"),
            ("js", "`a\nb` \"open\nnext", "s[`a]\ns[b`] s[\"open]\nnext"),
        ] {
            for step in 1..8 {
                assert_eq!(shown(language, code, step), expected, "{language} in pieces of {step}");
            }
        }
    }
}

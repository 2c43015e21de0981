//! What Markdown marks within a line: emphasis, code, links. A subset of CommonMark that never spans lines. Text that
//! only looks like Markdown is plain text: `snake_case`, `2*3*4`, `**kwargs`.

/// Bytes in which a span must end. What does not is plain text: nobody should wait longer for it.
const MAX_SPAN: usize = 300;
/// Characters that a backslash makes plain. Not all that CommonMark has: `\(` and `\[` begin formulas.
const ESCAPABLE: &str = "*_`#~|<>";
/// Emphasis does not begin with these: `*.txt`, `*/`.
const NEVER_EMPHASISED: &str = ".,;:!?/)]}%=+";

/// The beginning of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span<'a> {
    /// Text as it is.
    Text(&'a str),
    /// The text between backquotes.
    Code(&'a str),
    /// Text between asterisks or underscores; it may have more spans.
    Emphasis { bold: bool, italic: bool, inner: &'a str },
    /// A link. The text may have more spans.
    Link { text: &'a str, url: &'a str },
}

/// The first span of a text that is not empty, with its bytes in the text. `before` is the character in front of it.
/// `None` if that depends on text that is not there yet, which is never so if the text `is_whole`.
pub fn first_span(text: &str, before: Option<char>, is_whole: bool) -> Option<(Span<'_>, usize)> {
    let special = text.find(['*', '_', '`', '[', '\\']).unwrap_or(text.len());
    if special > 0 {
        return Some((Span::Text(&text[..special]), special));
    }
    let window = Window::new(text, is_whole);
    let found = match text.as_bytes()[0] {
        b'\\' => window.escaped(),
        b'`' => window.code(),
        b'[' => window.link(),
        _ => window.emphasis(before),
    };
    match found {
        Found::Span(span, bytes) => Some((span, bytes)),
        Found::Plain(bytes) => Some((Span::Text(&text[..bytes]), bytes)),
        Found::Unknown => None,
    }
}

/// What a text begins with.
enum Found<'a> {
    Span(Span<'a>, usize),
    /// So many bytes of it are plain text.
    Plain(usize),
    /// More text is needed.
    Unknown,
}

/// The text in which a span must end.
#[derive(Clone, Copy)]
struct Window<'a> {
    text: &'a str,
    /// Whether nothing behind it counts.
    is_whole: bool,
}

impl<'a> Window<'a> {
    fn new(text: &'a str, is_whole: bool) -> Window<'a> {
        match text.char_indices().map(|(at, _)| at).find(|at| *at >= MAX_SPAN) {
            Some(end) => Window { text: &text[..end], is_whole: true },
            None => Window { text, is_whole },
        }
    }

    /// The first `bytes` are plain text, unless a span can still come.
    fn no_span_yet(self, bytes: usize) -> Found<'a> {
        if self.is_whole { Found::Plain(bytes) } else { Found::Unknown }
    }

    fn escaped(self) -> Found<'a> {
        match self.text[1..].chars().next() {
            Some(c) if ESCAPABLE.contains(c) => Found::Span(Span::Text(&self.text[1..2]), 2),
            Some(_) => Found::Plain(1),
            None => self.no_span_yet(1),
        }
    }

    fn code(self) -> Found<'a> {
        let ticks = run(self.text);
        match self.end_of_code(ticks) {
            Some(end) => {
                let inner = &self.text[ticks..end - ticks];
                let trimmed = inner.strip_prefix(' ').and_then(|inner| inner.strip_suffix(' '));
                Found::Span(
                    Span::Code(trimmed.filter(|inner| !inner.trim().is_empty()).unwrap_or(inner)),
                    end,
                )
            }
            None => self.no_span_yet(ticks),
        }
    }

    /// Where code ends that begins with so many backquotes.
    fn end_of_code(self, ticks: usize) -> Option<usize> {
        let mut at = ticks;
        while let Some(found) = self.text.get(at..)?.find('`') {
            at += found;
            let length = run(&self.text[at..]);
            if length == ticks && (self.is_whole || at + length < self.text.len()) {
                return Some(at + length);
            }
            at += length;
        }
        None
    }

    fn emphasis(self, before: Option<char>) -> Found<'a> {
        let length = run(self.text);
        let Some(next) = self.text[length..].chars().next() else { return self.no_span_yet(length) };
        // Not within a word or a product. Chinese and Japanese words have no spaces between them.
        let opens = !before.is_some_and(is_word) && !next.is_whitespace() && !NEVER_EMPHASISED.contains(next);
        if length > 3 || !opens {
            return Found::Plain(length);
        }
        match self.end_of_emphasis(length) {
            Some(end) => {
                let inner = &self.text[length..end - length];
                Found::Span(Span::Emphasis { bold: length > 1, italic: length != 2, inner }, end)
            }
            None => self.no_span_yet(length),
        }
    }

    /// Where emphasis ends that begins with so many marks.
    fn end_of_emphasis(self, length: usize) -> Option<usize> {
        let mark = self.text.as_bytes()[0];
        let mut at = length;
        while let Some(c) = self.text.get(at..)?.chars().next() {
            let rest = Window { text: &self.text[at..], ..self };
            at += match c {
                '\\' => 1 + self.text[at + 1..].chars().next().map_or(0, char::len_utf8),
                '`' => match rest.end_of_code(run(rest.text)) {
                    Some(end) => end,
                    None if self.is_whole => run(rest.text),
                    None => return None,
                },
                _ if c as u32 == u32::from(mark) => {
                    let found = run(rest.text);
                    let next = rest.text[found..].chars().next();
                    let is_known = self.is_whole || next.is_some();
                    let before = self.text[..at].chars().next_back();
                    let closes = before.is_some_and(|before| !before.is_whitespace())
                        && (mark == b'*' || !next.is_some_and(is_word));
                    if found == length && is_known && closes && at > length {
                        return Some(at + found);
                    }
                    found
                }
                _ => c.len_utf8(),
            };
        }
        None
    }

    fn link(self) -> Found<'a> {
        let Some(text_end) = closing(self.text, '[', ']') else { return self.no_span_yet(1) };
        let behind = &self.text[text_end + 1..];
        match behind.chars().next() {
            Some('(') => {}
            Some(_) => return Found::Plain(1),
            None => return self.no_span_yet(1),
        }
        let Some(url_end) = closing(behind, '(', ')') else { return self.no_span_yet(1) };
        let (text, target) = (&self.text[1..text_end], &behind[1..url_end]);
        // A title may follow the address.
        let url = target.split_whitespace().next().unwrap_or_default();
        let url = url.strip_prefix('<').and_then(|url| url.strip_suffix('>')).unwrap_or(url);
        match text.trim().is_empty() || url.is_empty() {
            true => Found::Plain(1),
            false => Found::Span(Span::Link { text, url }, text_end + 1 + url_end + 1),
        }
    }
}

/// Bytes of the run of equal ASCII characters that a text begins with.
fn run(text: &str) -> usize {
    let first = text.as_bytes().first();
    text.bytes().take_while(|byte| Some(byte) == first).count()
}

/// Where the bracket closes that a text begins with.
fn closing(text: &str, open: char, close: char) -> Option<usize> {
    let mut depth = 0;
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if c == open => depth += 1,
            _ if c == close => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// Whether a character belongs to a word that has spaces around it.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() && unicode_width::UnicodeWidthChar::width(c) == Some(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The spans of a line, nested ones included: `B(bold)`, `I(italic)`, `C(code)`, `L(text|url)`.
    fn shape(text: &str) -> String {
        let (mut out, mut at, mut before) = (String::new(), 0, None);
        while at < text.len() {
            let (span, bytes) = first_span(&text[at..], before, true).expect("the text is whole");
            out += &match span {
                Span::Text(text) => text.to_owned(),
                Span::Code(code) => format!("C({code})"),
                Span::Emphasis { bold: true, italic: true, inner } => format!("BI({})", shape(inner)),
                Span::Emphasis { bold: true, inner, .. } => format!("B({})", shape(inner)),
                Span::Emphasis { inner, .. } => format!("I({})", shape(inner)),
                Span::Link { text, url } => format!("L({}|{url})", shape(text)),
            };
            at += bytes;
            before = text[..at].chars().next_back();
        }
        out
    }

    #[test]
    fn marks_become_spans() {
        for (text, expected) in [
            ("a **b c** d", "a B(b c) d"),
            ("*a* _b_ ***c*** __d__", "I(a) I(b) BI(c) B(d)"),
            ("**a `b` *c* d**", "B(a C(b) I(c) d)"),
            ("(*a*), \"**b**\".", "(I(a)), \"B(b)\"."),
            ("重**点**内容", "重B(点)内容"),
            ("`a` ``b ` c`` `` `d` ``", "C(a) C(b ` c) C(`d`)"),
            ("[a *b*](https://c.d/(e)) [f](<g> \"h\")", "L(a I(b)|https://c.d/(e)) L(f|g)"),
            (r"\*a\* \_b", "*a* _b"),
            ("*`*`*", "I(C(*))"),
        ] {
            assert_eq!(shape(text), expected, "{text}");
        }
    }

    #[test]
    fn text_that_looks_like_markdown_stays_as_it_is() {
        for text in [
            "snake_case_name and _ and __init__x",
            "2*3*4 2 * 3 * 4 2**3**4",
            "a lone * and ** here",
            "use **kwargs and *args",
            "f(*args, **kwargs)",
            "*.txt and *.rs",
            "/* a */ and /* b */",
            "`open",
            "[a] (b) [c][d] [ ] x",
            "[](x) [a]()",
            r"\( x^2 \) \[ y \] C:\dir",
            "**** a ****",
            "~~a~~ <b> $x_1$",
        ] {
            assert_eq!(shape(text), text);
        }
        let far = format!("*a{}*", "b".repeat(MAX_SPAN));
        assert_eq!(shape(&far), far);
    }

    #[test]
    fn what_is_decided_early_stays_so() {
        let texts = [
            "_a `b_ c` d_ e",
            "**a `*` b** c",
            "`` a ` b`` c",
            "[a](b) c",
            "*a **b** c* d",
            "_a_b_ c",
            "***a** b* c",
            "\\*a",
        ];
        for text in texts {
            let whole = first_span(text, None, true);
            for end in 1..text.len() {
                let early = first_span(&text[..end], None, false);
                let is_text = matches!(early, Some((Span::Text(_), bytes)) if bytes == end);
                assert!(early.is_none() || is_text || early == whole, "{text:?} {end}: {early:?} {whole:?}");
            }
        }
    }
}

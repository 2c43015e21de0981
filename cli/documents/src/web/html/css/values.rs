//! Pieces of rules and values of CSS: what stands between signs, in brackets and in quotation marks.

/// Where the first sign stands that is in no quotation marks and no brackets.
pub(crate) fn find(text: &str, is_sign: impl Fn(char) -> bool) -> Option<usize> {
    let (mut depth, mut quotes) = (0_usize, Quotes::default());
    for (at, c) in text.char_indices() {
        match c {
            _ if quotes.contain(c) => {}
            c if depth == 0 && is_sign(c) => return Some(at),
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// Parts of a text between such signs.
pub(crate) fn split(text: &str, is_sign: impl Fn(char) -> bool) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some(at) = find(rest, &is_sign) {
        parts.push(&rest[..at]);
        rest = &rest[at..];
        rest = &rest[rest.chars().next().map_or(0, char::len_utf8)..];
    }
    parts.push(rest);
    parts
}

/// The declarations of a block or an attribute: names in small letters, and values.
pub(crate) fn declarations(text: &str) -> impl Iterator<Item = (String, &str)> {
    split(text, |c| c == ';').into_iter().filter_map(|declaration| {
        let (name, value) = declaration.split_once(':')?;
        Some((name.trim().to_ascii_lowercase(), value.trim()))
    })
}

/// The words of a value. What is in quotation marks or brackets is one.
pub(crate) fn words(value: &str) -> impl Iterator<Item = &str> {
    split(value, char::is_whitespace).into_iter().filter(|word| !word.is_empty())
}

/// Where the bracket closes that is open before a text.
pub(crate) fn closing(text: &str) -> Option<usize> {
    find(text, |c| c == ')')
}

/// What a text begins with in quotation marks, and what is behind it.
pub(crate) fn quoted(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let (mut out, mut rest) = (String::new(), &text[1..]);
    loop {
        let c = rest.chars().next()?;
        rest = &rest[c.len_utf8()..];
        match c {
            c if c == quote => return Some((out, rest)),
            '\\' => {
                let (escaped, after) = escaped(rest)?;
                out.extend(escaped);
                rest = after;
            }
            c => out.push(c),
        }
    }
}

/// The character that is written behind a backslash, and what is behind it.
pub(crate) fn escaped(text: &str) -> Option<(Option<char>, &str)> {
    let digits = text.bytes().take(6).take_while(u8::is_ascii_hexdigit).count();
    if digits == 0 {
        let escaped = text.chars().next()?;
        return Some((Some(escaped), &text[escaped.len_utf8()..]));
    }
    let rest = &text[digits..];
    let character = u32::from_str_radix(&text[..digits], 16).ok().and_then(char::from_u32);
    Some((character, rest.strip_prefix(' ').unwrap_or(rest)))
}

/// Bytes up to the end of the block that begins before a text, with its bracket.
pub(crate) fn block_length(text: &str) -> usize {
    let (mut depth, mut quotes) = (1, Quotes::default());
    for (at, c) in text.char_indices() {
        match c {
            _ if quotes.contain(c) => {}
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    text.len()
}

/// Whether characters that follow each other are in quotation marks, or escaped.
#[derive(Debug, Default)]
struct Quotes {
    open: Option<char>,
    is_escaped: bool,
}

impl Quotes {
    fn contain(&mut self, c: char) -> bool {
        if std::mem::take(&mut self.is_escaped) {
            return true;
        }
        match c {
            '\\' => self.is_escaped = true,
            // A line ends a text that is not closed.
            '\n' => self.open = None,
            '"' | '\'' if self.open == Some(c) => self.open = None,
            '"' | '\'' if self.open.is_none() => self.open = Some(c),
            _ => return self.open.is_some(),
        }
        c != '\n'
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_in_quotation_marks_and_brackets_are_passed_over() {
        assert_eq!(
            split("a 'b c' f(d e) \\  \"\\\" x\"", |c| c == ' '),
            ["a", "'b c'", "f(d e)", "\\ ", "\"\\\" x\""]
        );
        assert_eq!(words("  a  'b c' ").collect::<Vec<_>>(), ["a", "'b c'"]);
        assert_eq!(block_length("a{b:'}'}}c"), 9);
        assert_eq!(block_length("a:'x\n}b"), 6);
        assert_eq!(quoted("'a\\27 b\\'' c"), Some(("a'b'".to_owned(), " c")));
    }
}

//! What Python does with strings, where RULER's prompts and scores depend on it.

/// Whether Python's `str.split`, `str.strip` and `\s` take a character for white space.
pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}')
}

/// `text.strip()`.
pub(crate) fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// `text.split()`.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_space).filter(|word| !word.is_empty())
}

/// `str(list)`: `['Paris', "it's"]`.
///
/// Python writes characters that it cannot print as escapes. Which ones these are is known for control characters
/// and white space only.
pub(crate) fn list(items: &[String]) -> String {
    let items: Vec<String> = items.iter().map(|item| quoted(item)).collect();
    format!("[{}]", items.join(", "))
}

/// `repr(text)`.
fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut quoted = String::from(quote);
    for c in text.chars() {
        match c {
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            ' ' => quoted.push(c),
            _ if c == quote || c == '\\' => quoted.extend(['\\', c]),
            _ if c.is_control() || c.is_whitespace() => quoted.push_str(&escaped(c)),
            _ => quoted.push(c),
        }
    }
    quoted.push(quote);
    quoted
}

fn escaped(c: char) -> String {
    match u32::from(c) {
        code @ ..=0xff => format!("\\x{code:02x}"),
        code => format!("\\u{code:04x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_written_as_python_writes_them() {
        let items = ["Paris", "it's", "a \"b\"", "'\"", "a\\b\n\u{7}", "caf\u{e9}\u{a0}\u{2003}"];
        let written = r#"['Paris', "it's", 'a "b"', '\'"', 'a\\b\n\x07', 'café\xa0\u2003']"#;
        assert_eq!(list(&items.map(String::from)), written);
        assert_eq!(list(&[]), "[]");
    }

    #[test]
    fn separator_characters_are_white_space() {
        assert_eq!(strip("\u{1c}\u{a0} a b\n\u{1f}"), "a b");
    }
}

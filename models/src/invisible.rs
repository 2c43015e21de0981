//! Characters that are not seen but change what is seen: a hostile name could look like another one, or show
//! its parts in another order. What this project quotes shows them as escapes.

use std::borrow::Cow;

/// Whether a character is invisible or changes how others are shown. Such are what Unicode 16 calls
/// Default_Ignorable_Code_Point, format characters (Cf), and the line and paragraph separators.
pub fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{600}'..='\u{605}'
            | '\u{61c}'
            | '\u{6dd}'
            | '\u{70f}'
            | '\u{890}'..='\u{891}'
            | '\u{8e2}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{110bd}'
            | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// The text with escapes such as `\u{200b}` in place of invisible characters.
pub fn escape_invisible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_invisible) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_invisible(c) {
            true => out.extend(c.escape_unicode()),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// A name on a single line, with escapes in place of control and invisible characters, quotes and
/// backslashes.
pub fn escape_name(text: &str) -> String {
    escape_invisible(&text.escape_debug().to_string()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_escaped_and_others_kept() {
        assert!(matches!(escape_invisible("naïve 中 e\u{301} ✓ 😀"), Cow::Borrowed(_)));
        assert_eq!(escape_invisible("a\u{200b}b\u{e0041}"), "a\\u{200b}b\\u{e0041}");
        assert_eq!(escape_name("a\n\"\u{1b}\u{fe0f}"), "a\\n\\\"\\u{1b}\\u{fe0f}");
    }

    #[test]
    fn the_list_is_complete() {
        let unicode = r"^[\p{Cf}\p{Default_Ignorable_Code_Point}\p{Zl}\p{Zp}]$";
        let unicode = regex::Regex::new(unicode).expect("a pattern");
        for c in '\0'..=char::MAX {
            let expected = unicode.is_match(c.encode_utf8(&mut [0; 4]));
            assert_eq!(is_invisible(c), expected, "U+{:04X}", u32::from(c));
        }
    }
}

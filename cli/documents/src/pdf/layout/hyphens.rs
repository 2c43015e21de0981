//! Words that are divided at the end of a line.

/// Joins words that a hyphen at the end of a line divides.
pub(super) fn join(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let begins_small = line.starts_with(char::is_lowercase);
        let stem =
            joined.strip_suffix('\n').and_then(|before| before.strip_suffix(['-', '\u{ad}', '\u{2010}']));
        match stem {
            Some(stem) if begins_small && stem.ends_with(char::is_alphabetic) => {
                let length = stem.len();
                joined.truncate(length);
            }
            _ => {}
        }
        joined.push_str(line);
    }
    if joined.contains('\u{ad}') { joined.replace('\u{ad}', "") } else { joined }
}

/// Lines as one, with spaces between them.
pub(super) fn on_one_line<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    join(&lines.collect::<Vec<_>>().join("\n")).replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divided_words_are_joined() {
        assert_eq!(join("an exam-\nple\n"), "an example\n");
        assert_eq!(join("pages 3-\n4 of A-\nB\n"), "pages 3-\n4 of A-\nB\n");
        assert_eq!(join("soft\u{ad}\nly, un\u{ad}divided"), "softly, undivided");
    }
}

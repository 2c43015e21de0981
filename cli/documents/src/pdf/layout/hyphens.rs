//! Words that are divided at the end of a line.

/// Words before the second part of what a hyphen stands for: `on- and offline`.
const BETWEEN: [&str; 3] = ["and", "und", "oder"];

/// Joins words that a hyphen at the end of a line divides.
pub(super) fn join(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        if let Some(length) = length_before_join(&joined, line) {
            joined.truncate(length);
        }
        joined.push_str(line);
    }
    if joined.contains('\u{ad}') { joined.replace('\u{ad}', "") } else { joined }
}

/// How much of a text stays before the line that follows, if that continues its last word.
fn length_before_join(text: &str, line: &str) -> Option<usize> {
    let before = text.strip_suffix('\n')?;
    let stem = before.strip_suffix(['-', '\u{ad}', '\u{2010}'])?;
    if !line.starts_with(char::is_lowercase) || !stem.ends_with(char::is_alphabetic) {
        return None;
    }
    match before.ends_with('\u{ad}') {
        false if is_between(line) => None,
        // A hyphen after a capital is one of the word: `DNA-binding`.
        false if stem.ends_with(char::is_uppercase) => Some(before.len()),
        _ => Some(stem.len()),
    }
}

fn is_between(line: &str) -> bool {
    BETWEEN.contains(&line.split(char::is_whitespace).next().unwrap_or_default())
}

/// Lines as one, with spaces between them. What a hyphen ends and what follows it are one: `3-4`.
pub(super) fn on_one_line<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let joined = join(&lines.collect::<Vec<_>>().join("\n"));
    let mut line = String::with_capacity(joined.len());
    for (i, next) in joined.split('\n').enumerate() {
        let is_apart = |stem: &str| !stem.ends_with(char::is_alphanumeric) || is_between(next);
        if i > 0 && line.strip_suffix(['-', '\u{2010}']).is_none_or(is_apart) {
            line.push(' ');
        }
        line.push_str(next);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divided_words_are_joined() {
        assert_eq!(join("an exam-\nple\n"), "an example\n");
        assert_eq!(join("pages 3-\n4 of A-\nB\n"), "pages 3-\n4 of A-\nB\n");
        assert_eq!(join("in DNA-\nbinding\n"), "in DNA-binding\n");
        assert_eq!(join("on-\nund offline, an-\ndere"), "on-\nund offline, andere");
        let on_one_line = |text: &str| on_one_line(text.split('\n'));
        assert_eq!(
            on_one_line("pages 3-\n4 of an exam-\nple - or\n-\nless"),
            "pages 3-4 of an example - or - less"
        );
        assert_eq!(on_one_line("pre-\nand post-\nWorld"), "pre- and post-World");
        assert_eq!(join("soft\u{ad}\nly, un\u{ad}divided"), "softly, undivided");
    }
}

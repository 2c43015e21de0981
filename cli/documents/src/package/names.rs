//! Names of entries, as parts of a package refer to them.

use std::cmp::Ordering;
use std::path::Path;

/// The name of the entry that `href` means in a folder of the archive, without its fragment.
pub(crate) fn resolve(folder: &str, href: &str) -> String {
    let href = href.split(['#', '?']).next().unwrap_or_default();
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    if href.starts_with('/') {
        parts.clear();
    }
    for part in href.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// A text whose bytes may be written as `%20`.
pub(crate) fn percent_decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// The order of paths in which people count, folder by folder.
pub fn natural_path_order(a: &Path, b: &Path) -> Ordering {
    let names = |path: &Path| path.iter().map(|name| name.to_string_lossy().into_owned()).collect::<Vec<_>>();
    let (names_a, names_b) = (names(a), names(b));
    let pairs = names_a.iter().zip(&names_b).map(|(a, b)| natural_order(a, b));
    let first = pairs.fold(Ordering::Equal, Ordering::then);
    first.then(names_a.len().cmp(&names_b.len())).then_with(|| a.cmp(b))
}

/// The order in which people count: `chapter 2` before `chapter 10`.
pub(crate) fn natural_order(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a, b);
    loop {
        let (digits_a, digits_b) = (leading_digits(a), leading_digits(b));
        let order = match (digits_a, digits_b) {
            ("", "") => match (a.chars().next(), b.chars().next()) {
                (None, None) => return Ordering::Equal,
                (x, y) => x.cmp(&y),
            },
            (x, y) if x.is_empty() || y.is_empty() => a.cmp(b),
            (x, y) => {
                let number = |digits: &str| digits.trim_start_matches('0').to_owned();
                let (m, n) = (number(x), number(y));
                m.len().cmp(&n.len()).then_with(|| m.cmp(&n)).then_with(|| x.len().cmp(&y.len()))
            }
        };
        if order != Ordering::Equal {
            return order;
        }
        let rest = |text: &str, digits: &str| match digits.len() {
            0 => text.chars().next().map_or(0, char::len_utf8),
            length => length,
        };
        a = &a[rest(a, digits_a)..];
        b = &b[rest(b, digits_b)..];
    }
}

fn leading_digits(text: &str) -> &str {
    &text[..text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved_in_the_archive() {
        assert_eq!(resolve("OEBPS", "text/ch 1.xhtml#top"), "OEBPS/text/ch 1.xhtml");
        assert_eq!(resolve("a/b", "../../../c.html"), "c.html");
        assert_eq!(resolve("a/b", "/word/x.xml"), "word/x.xml");
        let mut names = ["b", "c10", "c2a", "c2", "c02", "a/10", "a/9"];
        names.sort_by(|a, b| natural_order(a, b));
        assert_eq!(names, ["a/9", "a/10", "b", "c2", "c2a", "c02", "c10"]);
        assert_eq!(percent_decode("./c%zz.html%20%C3%A4%+1"), "./c%zz.html ä%+1");
    }
}

//! Headers and footers of printed sheets, without the codes of how they look.

/// The text of a header: `&L&"Arial,Bold"Confidential&RPage &P` is `Confidential Page`.
pub(super) fn text(code: &str) -> String {
    let (mut text, mut rest) = (String::new(), code);
    while let Some((before, after)) = rest.split_once('&') {
        text.push_str(before);
        let first = after.chars().next().unwrap_or(' ');
        let behind = after.get(first.len_utf8()..).unwrap_or_default();
        rest = match first {
            '&' => {
                text.push('&');
                behind
            }
            // What stands on the left, in the middle and on the right.
            'L' | 'C' | 'R' => {
                text.push(' ');
                behind
            }
            // Font, size and colour.
            '"' => behind.split_once('"').map_or("", |(_, behind)| behind),
            '0'..='9' => after.trim_start_matches(|c: char| c.is_ascii_digit()),
            'K' => behind.get(6..).unwrap_or_default(),
            // The number of the page, the date, the name of the file; bold and other looks.
            _ => behind,
        };
    }
    text.push_str(rest);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn codes_are_no_text() {
        for (code, wanted) in [
            ("&L&\"Arial,Bold\"&12Confidential&RPage &P of &N", "Confidential Page of"),
            ("&CProfit && loss&KFF0000 2024", "Profit & loss 2024"),
            ("Plain text", "Plain text"),
            ("&CPage &P", "Page"),
            ("&", ""),
            ("&\"x", ""),
            ("&K12", ""),
            ("Überblick &é&", "Überblick"),
        ] {
            assert_eq!(super::text(code), wanted, "{code}");
        }
    }
}

//! Numbers that fields make: AUTONUM, AUTONUMLGL and LISTNUM (ECMA-376, part 1, 17.16.5). Word stores no results of them.

use crate::writer::ordinal::Format;

/// Levels of lists and headings.
const LEVELS: usize = 9;
/// The levels of the list that LISTNUM uses where it names none.
const LIST: [(&str, &str, &str); LEVELS] = [
    ("", "decimal", ")"),
    ("", "lowerLetter", ")"),
    ("", "lowerRoman", ")"),
    ("(", "decimal", ")"),
    ("(", "lowerLetter", ")"),
    ("(", "lowerRoman", ")"),
    ("", "decimal", "."),
    ("", "lowerLetter", "."),
    ("", "lowerRoman", "."),
];

/// How far the numbers of fields are counted.
#[derive(Debug, Default)]
pub(super) struct AutoNumbers {
    paragraphs: i64,
    headings: [i64; LEVELS],
    list: [i64; LEVELS],
}

/// The paragraph that a field is in.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FieldPlace {
    /// The level of a heading, from 1 on.
    pub(super) heading: Option<usize>,
    pub(super) is_numbered: bool,
    /// Whether a heading is before it.
    pub(super) has_headings: bool,
}

/// Whether a field makes a number, by its name.
pub(in crate::office) fn is_number(name: &str) -> bool {
    matches!(name, "AUTONUM" | "AUTONUMLGL" | "AUTONUMOUT" | "LISTNUM")
}

impl AutoNumbers {
    /// The number of a field with this name and these arguments. `None` if it is not certain.
    pub(super) fn next(&mut self, name: &str, arguments: &str, place: FieldPlace) -> Option<String> {
        let words: Vec<&str> = arguments.split_whitespace().collect();
        let switch = |name: &str| {
            let at = words.iter().position(|word| word.eq_ignore_ascii_case(name))?;
            Some(words.get(at + 1).map_or("", |word| word.trim_matches('"')))
        };
        match name {
            "LISTNUM" => self.item(&words, switch("\\l"), switch("\\s"), place),
            // Which numbers have other formats, and what headings count anew, is not certain.
            "AUTONUM" | "AUTONUMLGL" if switch("\\*").is_none_or(|format| format == "Arabic") => {
                let separator = switch("\\s").filter(|sign| !sign.is_empty()).unwrap_or(".");
                let end = if switch("\\e").is_some() { "" } else { separator };
                let number = match (name, place.heading) {
                    ("AUTONUMLGL", Some(level)) => self.heading(level)?.join(separator),
                    (_, None) if !place.has_headings => {
                        self.paragraphs += 1;
                        self.paragraphs.to_string()
                    }
                    _ => return None,
                };
                Some(number + end)
            }
            _ => None,
        }
    }

    /// The numbers of a heading and of those above it.
    fn heading(&mut self, level: usize) -> Option<Vec<String>> {
        count(&mut self.headings, level.checked_sub(1)?)?;
        let shown = self.headings.get(..level)?;
        shown.iter().all(|number| *number > 0).then(|| shown.iter().map(i64::to_string).collect())
    }

    fn item(
        &mut self,
        words: &[&str],
        level: Option<&str>,
        start: Option<&str>,
        place: FieldPlace,
    ) -> Option<String> {
        let list = words.first().filter(|word| !word.starts_with('\\')).map(|word| word.trim_matches('"'));
        if !list.is_none_or(|list| list.eq_ignore_ascii_case("NumberDefault")) {
            return None;
        }
        // In a numbered paragraph it goes on with the levels of that list.
        let is_alone = place.heading.is_none() && !place.is_numbered;
        let at = match level {
            Some(level) => level.parse::<usize>().ok()?.checked_sub(1)?,
            None if is_alone => 0,
            None => return None,
        };
        if let Some(start) = start {
            *self.list.get_mut(at)? = start.parse::<i64>().ok()?.checked_sub(1)?;
        } else if !is_alone {
            return None;
        }
        let number = count(&mut self.list, at)?;
        let (before, format, behind) = LIST[at];
        Some(format!("{before}{}{behind}", Format::of_word(format)?.write(number)))
    }
}

/// Counts a level; those below begin anew. `None` if there is no such level.
fn count(numbers: &mut [i64; LEVELS], at: usize) -> Option<i64> {
    let number = numbers.get_mut(at)?;
    *number = number.saturating_add(1);
    let number = *number;
    numbers[at + 1..].fill(0);
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_counted_where_they_are_certain() {
        let mut numbers = AutoNumbers::default();
        let heading =
            |level| FieldPlace { heading: Some(level), has_headings: true, ..FieldPlace::default() };
        let numbered = FieldPlace { is_numbered: true, ..FieldPlace::default() };
        let plain = FieldPlace::default();
        for (name, arguments, place, wanted) in [
            ("AUTONUM", "", plain, Some("1.")),
            ("AUTONUM", r"\* Arabic", plain, Some("2.")),
            ("AUTONUM", r"\s )", plain, Some("3)")),
            ("AUTONUM", r"\* ROMAN", plain, None),
            ("AUTONUMOUT", "", plain, None),
            ("AUTONUMLGL", "", heading(1), Some("1.")),
            ("AUTONUMLGL", "", heading(2), Some("1.1.")),
            ("AUTONUMLGL", r"\e", heading(2), Some("1.2")),
            ("AUTONUMLGL", r"\e", heading(1), Some("2")),
            ("AUTONUMLGL", r"\e", heading(2), Some("2.1")),
            ("AUTONUMLGL", "", heading(4), None),
            ("AUTONUM", "", heading(1), None),
            ("AUTONUM", "", FieldPlace { has_headings: true, ..plain }, None),
            ("LISTNUM", "", plain, Some("1)")),
            ("LISTNUM", r"\l 2", plain, Some("a)")),
            ("LISTNUM", r"NumberDefault \l 2", plain, Some("b)")),
            ("LISTNUM", r#""NumberDefault" \l 4 \s 7"#, plain, Some("(7)")),
            ("LISTNUM", "", plain, Some("2)")),
            ("LISTNUM", r"\l 2", plain, Some("a)")),
            ("LISTNUM", r"\l 2", numbered, None),
            ("LISTNUM", r"\l 2 \s 3", numbered, Some("c)")),
            ("LISTNUM", r"\l 10", plain, None),
            ("LISTNUM", r"\l 0", plain, None),
            ("LISTNUM", "LegalDefault", plain, None),
            ("LISTNUM", r"\s -9223372036854775808", plain, None),
        ] {
            assert_eq!(numbers.next(name, arguments, place).as_deref(), wanted, "{name} {arguments}");
        }
    }
}

//! Numbers as a sheet shows them: the codes of number formats, such as `#,##0.00 "€"` and `d mmm yyyy`.

mod code;
mod date;
mod number;

use std::collections::HashMap;

use self::code::{Section, Token, choose, split};
use self::date::date;
use self::number::{decimal, general};
use super::looks::Looks;
use crate::Problem;
use crate::package::xml::{self, Piece};

/// Longest code that is used, in bytes.
const MAX_CODE: usize = 512;

/// The formats of a workbook.
#[derive(Debug, Default)]
pub(super) struct Formats {
    /// Codes by their numbers.
    codes: HashMap<usize, String>,
    pub(super) looks: Looks,
    pub(super) is_1904: bool,
}

impl Formats {
    /// Reads the part with the styles.
    pub(super) fn read(&mut self, text: &str, part: &str) -> Result<(), Problem> {
        self.looks.has_own_list = text.contains("indexedColors");
        xml::read(part, text, |piece| {
            match piece {
                Piece::Start(element) => {
                    self.looks.start(&element);
                    let id = element.attribute("numFmtId").and_then(|id| id.parse().ok());
                    if element.name == "numFmt"
                        && let (Some(id), Some(code)) = (id, element.attribute("formatCode"))
                    {
                        self.codes.insert(id, code);
                    }
                }
                Piece::End(name) => self.looks.end(&name),
                Piece::Text(_) => {}
            }
            Ok(())
        })
    }

    /// A number as a cell of a style shows it.
    pub(super) fn show(&self, style: usize, number: f64) -> String {
        show(self.code(style), number, self.is_1904)
    }

    /// Whether cells of a style show no text: `;;;`.
    pub(super) fn hides_text(&self, style: usize) -> bool {
        matches!(split(self.code(style)).as_slice(), [_, _, _, text] if text.trim().is_empty())
    }

    fn code(&self, style: usize) -> &str {
        let id = self.looks.code(style);
        self.codes.get(&id).map_or_else(|| built_in(id), String::as_str)
    }
}

/// The codes that every workbook has. Dates whose order the system decides are in the order that all understand.
fn built_in(id: usize) -> &'static str {
    match id {
        1 => "0",
        2 => "0.00",
        3 => "#,##0",
        4 => "#,##0.00",
        5 | 6 => "$#,##0;($#,##0)",
        7 | 8 => "$#,##0.00;($#,##0.00)",
        9 => "0%",
        10 => "0.00%",
        11 => "0.00E+00",
        12 => "# ?/?",
        13 => "# ??/??",
        14 | 27..=31 | 36 | 50..=54 | 57 | 58 => "yyyy-mm-dd",
        15 => "d-mmm-yy",
        16 => "d-mmm",
        17 => "mmm-yy",
        18 => "h:mm AM/PM",
        19 => "h:mm:ss AM/PM",
        20 | 32..=35 | 55 | 56 => "h:mm",
        21 => "h:mm:ss",
        22 => "yyyy-mm-dd h:mm",
        37 | 38 => "#,##0;(#,##0)",
        39 | 40 => "#,##0.00;(#,##0.00)",
        41 | 42 => "#,##0;(#,##0);\"-\"",
        43 | 44 => "#,##0.00;(#,##0.00);\"-\"",
        45 => "mm:ss",
        46 => "[h]:mm:ss",
        47 => "mm:ss.0",
        48 => "##0.0E+0",
        49 => "@",
        _ => "General",
    }
}

/// A number as a code shows it.
pub(in crate::office) fn show(code: &str, number: f64, is_1904: bool) -> String {
    if !number.is_finite() || code.len() > MAX_CODE {
        return general(number);
    }
    let sections: Vec<Section> = split(code).iter().map(|section| Section::parse(section)).collect();
    let (section, has_sign) = choose(&sections, number);
    let Some(section) = section else { return general(number) };
    let is_date = section
        .tokens
        .iter()
        .any(|token| matches!(token, Token::Date(..) | Token::Elapsed(..) | Token::Half(_)));
    let shown = match is_date {
        true => match date(&section.tokens, number, is_1904) {
            Some(shown) => shown,
            None => return general(number),
        },
        false => decimal(&section.tokens, number.abs()),
    };
    let is_nothing = shown.chars().all(|c| !c.is_ascii_digit() || c == '0');
    let sign = if has_sign && !is_nothing { "-" } else { "" };
    format!("{sign}{}", shown.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_by_their_codes() {
        for (code, number, wanted) in [
            ("General", 0.1 + 0.2, "0.3"),
            ("General", 1_234_567.0, "1234567"),
            ("General", 4_006_381_333_931.0, "4006381333931"),
            ("General", 2.0 / 3.0, "0.666666667"),
            ("General", 1e20, "1E+20"),
            ("General", 1.5e-12, "1.5E-12"),
            ("General", -0.5, "-0.5"),
            ("0", 0.5, "1"),
            ("0.00", 1.005, "1.01"),
            ("0.00", -1.5, "-1.50"),
            ("0.00", -0.001, "0.00"),
            ("#,##0", 1_234_567.0, "1,234,567"),
            ("#,##0.00", 0.0, "0.00"),
            ("#,##0.00\\ \"€\"", 1234.5, "1,234.50 €"),
            ("[$€-407]\\ #,##0", 99.0, "€ 99"),
            ("#.##", 0.5, ".5"),
            ("0.0#", 2.5, "2.5"),
            ("00000", 123.0, "00123"),
            ("000-00-0000", 123_456_789.0, "123-45-6789"),
            ("0%", 0.256, "26%"),
            ("0.0%", -0.256, "-25.6%"),
            ("0.00E+00", 12_345.0, "1.23E+04"),
            ("##0.0E+0", 12_345.0, "12.3E+3"),
            ("0,", 12_345.0, "12"),
            ("0.0,,\"M\"", 12_345_678.0, "12.3M"),
            ("# ?/?", 1.75, "1 3/4"),
            ("# ??/??", 0.3125, "5/16"),
            ("0;(0);\"-\"", -5.0, "(5)"),
            ("0;(0);\"-\"", 0.0, "-"),
            ("[Red]0;[Blue]-0", -5.0, "-5"),
            ("[<1]0.00;[>=100]0;0.0", 0.5, "0.50"),
            ("[<1]0.00;[>=100]0;0.0", 50.0, "50.0"),
            ("_-* #,##0.00_-;-* #,##0.00_-", -3.0, "-3.00"),
            (";;;", 5.0, ""),
            ("\"Nr. \"0", 7.0, "Nr. 7"),
            ("@", 5.0, "5"),
            ("0.00;@", -5.0, "-5.00"),
            ("0;(0);@", 0.0, "0"),
            ("0;General", -5.0, "-5"),
            ("General;-General", -5.0, "-5"),
            ("0;(General)", -5.0, "(5)"),
            ("[<1]0.00;@", -5.0, "-5.00"),
            ("0 e", 5.0, "5 e"),
        ] {
            assert_eq!(show(code, number, false), wanted, "{code} {number}");
        }
    }

    #[test]
    fn dates_are_shown_by_their_codes() {
        let noon = 45_356.5 + 34.0 / 1440.0 + 56.0 / 86_400.0;
        for (code, number, wanted) in [
            ("yyyy-mm-dd", 45_356.0, "2024-03-05"),
            ("d-mmm-yy", 45_356.0, "5-Mar-24"),
            ("dddd, d. mmmm yyyy", 45_356.0, "Tuesday, 5. March 2024"),
            ("[$-409]m/d/yy h:mm AM/PM;@", noon, "3/5/24 12:34 PM"),
            ("dd/mm/yyyy hh:mm:ss", noon, "05/03/2024 12:34:56"),
            ("h:mm", 0.999_999, "0:00"),
            // Midnight is on the next day, also at the end of a month and of a year.
            ("yyyy-mm-dd hh:mm", 44_999.999_998, "2023-03-15 00:00"),
            ("dddd d mmm yyyy h:mm:ss AM/PM", 45_291.999_999, "Monday 1 Jan 2024 12:00:00 AM"),
            ("yyyy-mm-dd hh:mm:ss.000", 44_999.999_999_999, "2023-03-15 00:00:00.000"),
            ("yyyy-mm-dd hh:mm:ss.00", 44_999.999_998, "2023-03-14 23:59:59.83"),
            ("yyyy-mm-dd", 44_999.999_998, "2023-03-14"),
            ("[$-404]e/m/d", 45_000.0, "2023/3/15"),
            ("[$-411]ggge\"年\"m\"月\"d\"日\"", 45_000.0, "2023年3月15日"),
            ("ee.mm.dd", 45_000.0, "2023.03.15"),
            ("d mmm bbbb", 45_000.0, "15 Mar 2566"),
            ("m/d aaa", 45_000.0, "3/15 Wed"),
            ("yyyy/m/d aaaa 上午/下午h:mm", 45_000.75, "2023/3/15 Wednesday PM6:00"),
            ("mm:ss.0", 0.000_1, "00:08.6"),
            ("mm:ss.0", 423.36 / 86_400.0, "07:03.4"),
            ("ss.00", 46.599 / 86_400.0, "46.60"),
            ("[m]:ss.0", 59.96 / 86_400.0, "1:00.0"),
            ("[h]:mm", 1.5, "36:00"),
            ("[mm]:ss", 0.5, "720:00"),
            ("yyyy", -1.0, "-1"),
        ] {
            assert_eq!(show(code, number, false), wanted, "{code} {number}");
        }
        assert_eq!(show("yyyy", 0.0, true), "1904");
    }

    #[test]
    fn times_below_zero_have_a_sign() {
        for is_1904 in [false, true] {
            for (code, number, wanted) in [
                ("[h]:mm", -0.0625, "-1:30"),
                ("[h]:mm:ss", -1.5, "-36:00:00"),
                ("h:mm", -0.0625, "-1:30"),
                ("h:mm AM/PM", -0.0625, "-1:30 AM"),
                ("mm:ss.0", -0.000_1, "-00:08.6"),
                ("[h]:mm;-[h]:mm", -0.0625, "-1:30"),
                ("[h]:mm;([h]:mm)", -0.0625, "(1:30)"),
                ("[h]:mm:ss;@", -0.0625, "-1:30:00"),
                ("[h]:mm", -0.000_001, "0:00"),
            ] {
                assert_eq!(show(code, number, is_1904), wanted, "{code} {number}");
            }
        }
        // Dates only in the count from 1904.
        for (code, number, wanted) in
            [("yyyy-mm-dd", -1.0, "-1904-01-02"), ("d.m.yyyy h:mm", -1.5, "-2.1.1904 12:00")]
        {
            assert_eq!(show(code, number, true), wanted, "{code} {number}");
            assert_eq!(show(code, number, false), number.to_string(), "{code} {number}");
        }
    }

    #[test]
    fn codes_of_any_kind_end() {
        for code in [
            "",
            "[",
            "\"",
            "\\",
            "_",
            "E+",
            "/",
            "0/",
            "?/0",
            "....",
            ",,,,",
            "[h",
            "[>]",
            "%%%%%%%%%%",
            "0E+0E+0",
            "yE+0",
            "é_é*é",
        ] {
            for number in [0.0, -1.5, 1e300, 1e-300, 45_000.5, f64::NAN, f64::INFINITY] {
                let _ = show(code, number, false);
            }
        }
        let _ = show(&"0".repeat(500), 1.0, false);
    }
}

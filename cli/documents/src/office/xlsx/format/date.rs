//! Numbers as dates and times.

use super::code::Token;
use crate::office::xlsx::calendar::Moment;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A number as a date or a time, without its sign. `None` if spreadsheets do not show it. Below zero, Excel shows dates and
/// times in the count from 1904 only, and `####` else. A time is what people mean there (`-1:30`), and what others show.
pub(super) fn date(tokens: &[Token], number: f64, is_1904: bool) -> Option<String> {
    let has_half = tokens.iter().any(|token| matches!(token, Token::Half(_)));
    let is_elapsed = tokens.iter().any(|token| matches!(token, Token::Elapsed(..)));
    // Fractions of seconds are rounded as far as they are not shown. A day alone is not rounded.
    let fractions = tokens
        .iter()
        .skip_while(|token| !matches!(token, Token::Date('s', _) | Token::Elapsed('s', _)))
        .skip(1);
    let has_fractions = fractions.clone().next() == Some(&Token::Point);
    let digits = fractions.skip(1).take_while(|token| matches!(token, Token::Digit(_))).count();
    let step = match digits {
        _ if !has_fractions => 1000,
        0 | 1 => 100,
        2 => 10,
        _ => 1,
    };
    let has_time =
        has_half || is_elapsed || tokens.iter().any(|token| matches!(token, Token::Date('h' | 's', _)));
    let has_day = !has_time
        || tokens.iter().any(|token| {
            matches!(token, Token::Date('y' | 'd' | 'a' | 'e' | 'g' | 'b', _) | Token::Date('m', 3..))
        });
    if number < 0.0 && has_day && !is_1904 {
        return None;
    }
    let number = number.abs();
    let moment = Moment::of(number, is_1904, if has_time { step } else { 1 })?;
    let total = if is_elapsed {
        (number * 86_400_000.0 / step as f64).round() as i64 * step / 1000
    } else {
        moment.milliseconds / 1000
    };
    let seconds = moment.milliseconds / 1000;
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let mut written = String::new();
    let mut fraction_digits = 0;
    for (at, token) in tokens.iter().enumerate() {
        let time_before = || tokens[..at].iter().rev().find_map(letter) == Some('h');
        let time_after = || tokens[at + 1..].iter().find_map(letter) == Some('s');
        match token {
            Token::Text(text) => written.push_str(text),
            Token::Slash => written.push('/'),
            Token::Comma => written.push(','),
            Token::Point => written.push('.'),
            Token::Digit(_) => {
                let digit = moment.milliseconds % 1000
                    / [100, 10, 1].get(fraction_digits).copied().unwrap_or(1000)
                    % 10;
                written.push_str(&digit.to_string());
                fraction_digits += 1;
            }
            Token::Date('y', count) if *count <= 2 => written.push_str(&format!("{:02}", moment.year % 100)),
            // The year of an era as that which all understand, without the name of the era.
            Token::Date('y' | 'e', _) => written.push_str(&moment.year.to_string()),
            Token::Date('g', _) => {}
            // The years of Thailand.
            Token::Date('b', count) if *count <= 2 => {
                written.push_str(&format!("{:02}", (moment.year + 543) % 100))
            }
            Token::Date('b', _) => written.push_str(&(moment.year + 543).to_string()),
            Token::Date('m', count @ 1..=2) if time_before() || time_after() => {
                written.push_str(&format!("{minute:0count$}"))
            }
            Token::Date('m', count @ 1..=2) => written.push_str(&format!("{:0count$}", moment.month)),
            Token::Date('m', 3) => written.push_str(&MONTHS[moment.month - 1][..3]),
            Token::Date('m', 5) => written.push_str(&MONTHS[moment.month - 1][..1]),
            Token::Date('m', _) => written.push_str(MONTHS[moment.month - 1]),
            Token::Date('d', count @ 1..=2) => written.push_str(&format!("{:0count$}", moment.day)),
            Token::Date('d' | 'a', 3) => written.push_str(&WEEKDAYS[moment.weekday][..3]),
            Token::Date('d' | 'a', _) => written.push_str(WEEKDAYS[moment.weekday]),
            Token::Date('h', count) => {
                let hour = if has_half { (hour + 11) % 12 + 1 } else { hour };
                written.push_str(&format!("{hour:0width$}", width = (*count).min(2)));
            }
            Token::Date(_, count) => written.push_str(&format!("{second:0width$}", width = (*count).min(2))),
            Token::Elapsed(letter, count) => {
                let amount = match letter {
                    'h' => total / 3600,
                    'm' => total / 60,
                    _ => total,
                };
                written.push_str(&format!("{amount:0width$}", width = (*count).min(9)));
            }
            Token::Half(is_short) => {
                let half = if hour < 12 { "AM" } else { "PM" };
                written.push_str(if *is_short { &half[..1] } else { half });
            }
            Token::Percent => written.push('%'),
            Token::General | Token::Exponent(_) => {}
        }
    }
    Some(written)
}

fn letter(token: &Token) -> Option<char> {
    match token {
        Token::Date(letter, _) | Token::Elapsed(letter, _) => Some(*letter),
        _ => None,
    }
}

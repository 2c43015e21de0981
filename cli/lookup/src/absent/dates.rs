//! Dates and times, however they are written.

use super::numbers::{values, whole};
use crate::tokens::{Kind, Token};

/// A date. At least two of its parts are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Date {
    pub(super) year: Option<u32>,
    pub(super) month: u32,
    pub(super) day: Option<u32>,
}

/// Something that is written over several tokens, and how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Written<T> {
    /// What it may be.
    pub(super) readings: Vec<T>,
    pub(super) tokens: usize,
}

/// The months by the beginnings of their folded names in several languages.
const MONTHS: [&[&str]; 12] = [
    &[
        "january",
        "jan",
        "januar",
        "jaenner",
        "janvier",
        "janv",
        "enero",
        "ene",
        "gennaio",
        "gen",
        "janeiro",
        "januari",
        "января",
        "январь",
        "stycznia",
    ],
    &[
        "february",
        "feb",
        "februar",
        "fevrier",
        "fevr",
        "febrero",
        "febbraio",
        "fevereiro",
        "februari",
        "февраля",
        "февраль",
        "lutego",
    ],
    &["march", "mar", "marz", "mrz", "maerz", "mars", "marzo", "marco", "maart", "марта", "март", "marca"],
    &["april", "apr", "avril", "avr", "abril", "abr", "aprile", "апреля", "апрель", "kwietnia"],
    &["may", "mai", "mayo", "maggio", "mag", "maio", "mei", "мая", "май", "maja"],
    &["june", "jun", "juni", "juin", "junio", "giugno", "giu", "junho", "июня", "июнь", "czerwca"],
    &["july", "jul", "juli", "juillet", "juil", "julio", "luglio", "lug", "julho", "июля", "июль", "lipca"],
    &["august", "aug", "aout", "agosto", "ago", "augustus", "августа", "август", "sierpnia"],
    &[
        "september",
        "sept",
        "sep",
        "septembre",
        "septiembre",
        "settembre",
        "set",
        "setembro",
        "сентября",
        "сентябрь",
        "wrzesnia",
    ],
    &[
        "october",
        "oct",
        "oktober",
        "okt",
        "octobre",
        "octubre",
        "ottobre",
        "ott",
        "outubro",
        "октября",
        "октябрь",
        "pazdziernika",
    ],
    &["november", "nov", "novembre", "noviembre", "novembro", "ноября", "ноябрь", "listopada"],
    &[
        "december",
        "dec",
        "dezember",
        "dez",
        "decembre",
        "diciembre",
        "dic",
        "dicembre",
        "dezembro",
        "декабря",
        "декабрь",
        "grudnia",
    ],
];

/// The month that a folded word is, from 1 on.
pub(super) fn month(word: &str) -> Option<u32> {
    MONTHS.iter().position(|names| names.contains(&word)).map(|at| at as u32 + 1)
}

/// Years of two digits may be of either century.
pub(super) fn years(text: &str) -> Vec<u32> {
    match (text.len(), text.parse::<u32>()) {
        (4, Ok(year)) => vec![year],
        (2, Ok(year)) => vec![2000 + year, 1900 + year],
        _ => Vec::new(),
    }
}

/// The day of a month that a number is.
pub(super) fn day(text: &str) -> Option<u32> {
    text.parse().ok().filter(|day| text.len() <= 2 && (1..=31).contains(day))
}

/// The text of a number without signs between its digits, in ASCII.
fn digits(text: &str, token: &Token) -> Option<String> {
    let own = (token.kind == Kind::Number).then(|| &text[token.range.clone()])?;
    own.chars().map(|c| crate::tokens::digit(c).and_then(|digit| char::from_digit(digit, 10))).collect()
}

/// The date that begins with a token.
pub(super) fn date(text: &str, tokens: &[Token]) -> Option<Written<Date>> {
    let first = tokens.first()?;
    match first.kind {
        Kind::Number => {
            numeric(text, tokens).or_else(|| east_asian(text, tokens)).or_else(|| day_first(text, tokens))
        }
        Kind::Word => month_first(text, tokens),
        Kind::Sign(_) => None,
    }
}

/// `2024-03-05`, `05.03.2024`, `3/5/24`.
fn numeric(text: &str, tokens: &[Token]) -> Option<Written<Date>> {
    let own = &text[tokens[0].range.clone()];
    let (parts, count) = if own.matches('.').count() == 2 && !own.contains([',', '\'']) {
        (own.split('.').map(str::to_owned).collect::<Vec<_>>(), 1)
    } else {
        let [a, s, b, t, c] = tokens.get(..5)? else { return None };
        let sign = |token: &Token| match token.kind {
            Kind::Sign(sign @ ('-' | '/' | '\u{2010}' | '\u{2011}' | '\u{2013}')) if !token.is_spaced => {
                Some(sign)
            }
            _ => None,
        };
        if sign(s)? != sign(t)? || b.is_spaced || c.is_spaced {
            return None;
        }
        ([a, b, c].into_iter().map(|token| digits(text, token)).collect::<Option<Vec<_>>>()?, 5)
    };
    let [a, b, c] = &parts[..] else { return None };
    let mut readings = Vec::new();
    let mut add = |years: Vec<u32>, month: Option<u32>, day: Option<u32>| {
        if let (Some(month @ 1..=12), Some(day)) = (month, day) {
            readings.extend(years.iter().map(|year| Date { year: Some(*year), month, day: Some(day) }));
        }
    };
    match a.len() {
        4 => add(years(a), day(b), day(c)),
        _ => {
            add(years(c), day(b), day(a));
            if count == 5 {
                add(years(c), day(a), day(b));
            }
        }
    }
    (!readings.is_empty()).then_some(Written { readings, tokens: count })
}

/// `09/2023`, `9.2023` and `2023-09`, which in answers may be anything else.
pub(super) fn month_of_year(text: &str, tokens: &[Token]) -> Option<Date> {
    let own = &text[tokens.first().filter(|token| token.kind == Kind::Number)?.range.clone()];
    let (first, second) = match own.split_once('.') {
        Some((month, year)) => (month.to_owned(), year.to_owned()),
        None => {
            let [first, sign, second] = tokens.get(..3)? else { return None };
            let joins = matches!(sign.kind, Kind::Sign('/' | '-')) && !sign.is_spaced && !second.is_spaced;
            joins.then_some(())?;
            (digits(text, first)?, digits(text, second)?)
        }
    };
    let (month, year) = if first.len() == 4 { (second, first) } else { (first, second) };
    let (month, year): (u32, u32) =
        (month.parse().ok()?, Some(year).filter(|year| year.len() == 4)?.parse().ok()?);
    let is_date = (1..=12).contains(&month) && (1000..2200).contains(&year);
    is_date.then_some(Date { year: Some(year), month, day: None })
}

/// A time of day in minutes of half a day.
fn time_of_day(hours: u32, minutes: u32) -> Option<u32> {
    (hours < 25 && minutes < 60).then_some((hours % 12) * 60 + minutes)
}

/// A number that may be a time of day, in minutes of half a day: `9.30`.
pub(super) fn time_of_number(number: &str) -> Option<u32> {
    let (hours, minutes) =
        number.split_once('.').filter(|(hours, minutes)| hours.len() <= 2 && minutes.len() == 2)?;
    time_of_day(hours.parse().ok()?, minutes.parse().ok()?)
}

/// An hour without minutes: `at 10`, `from 9 to 17`, `17h`, `9–17h`, `Sat 10-14`.
pub(super) fn hour(text: &str, tokens: &[Token], at: usize) -> Option<u32> {
    let hour = |at: usize| {
        let token = tokens.get(at).filter(|token| token.kind == Kind::Number && token.range.len() <= 2)?;
        time_of_day(token.folded.parse().ok()?, 0)
    };
    let time = hour(at)?;
    let before = |at: usize| at.checked_sub(1).map_or("", |before| tokens[before].folded.as_str());
    let begins = |at: usize| BEFORE_HOURS.contains(&before(at));
    let ends = |at: usize| tokens.get(at + 1).is_some_and(|next| next.folded == "h" && !next.is_spaced);
    let joins =
        |at: usize| tokens.get(at).is_some_and(|token| ["-", "–", "—"].contains(&&text[token.range.clone()]));
    let is_first = joins(at + 1) && hour(at + 2).is_some() && ends(at + 2);
    let is_second = at >= 2 && joins(at - 1) && hour(at - 2).is_some() && begins(at - 2);
    (begins(at) || ends(at) || is_first || is_second).then_some(time)
}

/// Words before an hour.
const BEFORE_HOURS: &[&str] = &[
    "at", "from", "until", "till", "by", "to", "um", "ab", "bis", "von", "alle", "dalle", "las", "a", "om",
    "tot", "mon", "tue", "wed", "thu", "fri", "sat", "sun", "mo", "di", "mi", "do", "fr", "sa", "so",
];

/// `2024年3月5日`
fn east_asian(text: &str, tokens: &[Token]) -> Option<Written<Date>> {
    let unit = |at: usize, signs: &[char]| {
        let token = tokens.get(at)?;
        text[token.range.clone()].starts_with(signs).then_some(())
    };
    let number = |at: usize| digits(text, tokens.get(at)?)?.parse::<u32>().ok();
    let year_first = unit(1, &['\u{5e74}', '년']).and_then(|()| number(0)).filter(|year| *year > 999);
    let at = if year_first.is_some() { 2 } else { 0 };
    unit(at + 1, &['月', '월'])?;
    let month = number(at).filter(|month| (1..=12).contains(month))?;
    let day = unit(at + 3, &['日', '일', '号', '號']).and_then(|()| number(at + 2)).filter(|day| *day <= 31);
    (year_first.is_some() || day.is_some()).then_some(Written {
        readings: vec![Date { year: year_first, month, day }],
        tokens: at + if day.is_some() { 4 } else { 2 },
    })
}

/// `5 March 2024`, `5th of March`, `5. März 2024`, `5 de marzo de 2024`.
fn day_first(text: &str, tokens: &[Token]) -> Option<Written<Date>> {
    let day = day(&digits(text, tokens.first()?)?)?;
    let mut at = 1;
    let word = |at: usize| tokens.get(at).map(|token| token.folded.as_str());
    let is_small = |at: usize| {
        word(at).is_some_and(|word| ["st", "nd", "rd", "th", "er", "o", "of", "de", "di"].contains(&word))
    };
    for _ in 0..2 {
        let is_sign = tokens.get(at).is_some_and(|token| match token.kind {
            Kind::Sign('.' | 'º' | '°') => true,
            Kind::Sign('-') => !token.is_spaced,
            _ => false,
        });
        at += usize::from(is_sign || is_small(at));
    }
    let month = month(word(at)?)?;
    at += 1;
    let (year, end) = year_behind(text, tokens, at);
    Some(Written { readings: vec![Date { year, month, day: Some(day) }], tokens: end })
}

/// `March 5, 2024`, `Mar 5`, `March 2024`.
fn month_first(text: &str, tokens: &[Token]) -> Option<Written<Date>> {
    let name = &text[tokens[0].range.clone()];
    // Small letters make these other words in most languages.
    if ["may", "march", "mar", "set", "gen", "ago", "dec", "mag", "mai", "mars"].contains(&name) {
        return None;
    }
    let month = month(&tokens[0].folded)?;
    let dot = usize::from(tokens.get(1).is_some_and(|token| token.kind == Kind::Sign('.')));
    let of = tokens.get(1 + dot).map(|token| &text[token.range.clone()]);
    let of = usize::from(of.is_some_and(|word| ["de", "of", "the"].contains(&word)));
    let at = 1 + dot + of;
    let number = digits(text, tokens.get(at)?)?;
    if let [year] = years(&number)[..] {
        return Some(Written { readings: vec![Date { year: Some(year), month, day: None }], tokens: at + 1 });
    }
    let day = day(&number)?;
    let suffix = tokens.get(at + 1).map(|token| &text[token.range.clone()]);
    let suffix = usize::from(suffix.is_some_and(|word| ["st", "nd", "rd", "th"].contains(&word)));
    // `may 5` is no date where the word is the verb: a number has no more to it then.
    let (year, end) = year_behind(text, tokens, at + 1 + suffix);
    Some(Written { readings: vec![Date { year, month, day: Some(day) }], tokens: end })
}

/// The year behind a day and a month, and the token behind all.
fn year_behind(text: &str, tokens: &[Token], at: usize) -> (Option<u32>, usize) {
    let skip = |token: &Token| {
        matches!(token.kind, Kind::Sign(',' | '.'))
            || token.kind == Kind::Sign('-') && !token.is_spaced
            || ["de", "of", "del"].contains(&&text[token.range.clone()])
    };
    let behind = at + usize::from(tokens.get(at).is_some_and(skip));
    let year = tokens.get(behind).and_then(|token| digits(text, token));
    match year.map(|year| years(&year)).as_deref() {
        Some([year]) if (1000..2200).contains(year) => (Some(*year), behind + 1),
        _ => (None, at),
    }
}

/// The time of day that begins with a token, in minutes of half a day: `14:30` and `2.30 pm` are 150.
pub(super) fn time(text: &str, tokens: &[Token]) -> Option<Written<u32>> {
    let first = tokens.first().filter(|token| token.kind == Kind::Number)?;
    let own = &text[first.range.clone()];
    let word = |at: usize| tokens.get(at).map_or("", |token| token.folded.as_str());
    let half = |at: usize| match word(at) {
        "am" | "pm" => 1,
        "a" | "p" if word(at + 2) == "m" => 3 + usize::from(word(at + 3).is_empty() && tokens.len() > at + 3),
        "uhr" | "oclock" => 1,
        "o" if word(at + 2) == "clock" => 3,
        _ => 0,
    };
    // `14:30`, `14h30`, `14 h 30`
    let [sign, second] = [tokens.get(1), tokens.get(2)];
    if let (Some(sign), Some(second)) = (sign, second)
        && (sign.folded == "h" || sign.kind == Kind::Sign(':') && !sign.is_spaced && !second.is_spaced)
        && second.kind == Kind::Number
    {
        let (hours, parts) = (digits(text, first)?, digits(text, second)?);
        if parts.len() == 2 && hours.len() <= 2 {
            let reading = time_of_day(hours.parse().ok()?, parts.parse().ok()?)?;
            return Some(Written { readings: vec![reading], tokens: 3 + half(3) });
        }
        return None;
    }
    let suffix = half(1);
    if suffix == 0 {
        return None;
    }
    let (hours, parts) = own.split_once(['.', ':']).unwrap_or((own, "0"));
    let reading = time_of_day(hours.parse().ok()?, parts.parse().ok()?)?;
    Some(Written { readings: vec![reading], tokens: 1 + suffix })
}

/// The numbers within a date of digits only, which may stand alone elsewhere.
pub(super) fn parts(text: &str) -> impl Iterator<Item = String> {
    let is_date = text.matches('.').count() == 2;
    let parts = text.split('.').filter(move |_| is_date).map(whole);
    values(text).into_iter().chain(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::tokens;

    #[test]
    fn dates_are_the_same_in_any_form() {
        let full = Date { year: Some(2024), month: 3, day: Some(5) };
        for text in [
            "2024-03-05",
            "05.03.2024",
            "5.3.24",
            "3/5/2024",
            "5/3/2024",
            "5 March 2024",
            "5th of March, 2024",
            "March 5, 2024",
            "Mar. 5, 2024",
            "5. März 2024",
            "5 mars 2024",
            "5 de marzo de 2024",
            "2024年3月5日",
            "March 5th 2024",
            "5-Mar-2024",
        ] {
            let tokens = tokens(text);
            let found = date(text, &tokens).unwrap_or_else(|| panic!("{text}"));
            assert!(found.readings.contains(&full), "{text}: {found:?}");
            let whole = found.tokens == tokens.len();
            assert!(whole || text == "2024年3月5日", "{text}: {found:?}");
        }
        let september = Date { year: Some(2023), month: 9, day: None };
        for text in ["09/2023", "9.2023", "2023-09"] {
            assert_eq!(month_of_year(text, &tokens(text)), Some(september), "{text}");
        }
        for text in ["2024/0317", "13/2023", "9 / 2023", "9", "9.20", "/"] {
            assert_eq!(month_of_year(text, &tokens(text)), None, "{text}");
        }
        let month = |text: &str| date(text, &tokens(text)).map(|found| found.readings[0]);
        assert_eq!(month("March 2024"), Some(Date { year: Some(2024), month: 3, day: None }));
        assert_eq!(month("5 March"), Some(Date { year: None, month: 3, day: Some(5) }));
        for none in ["1.2.3", "March", "45 March", "2024-13-45", "7 apples", "1-2-3-4", "may be 5"] {
            assert_eq!(month(none), None, "{none}");
        }
    }

    #[test]
    fn times_are_the_same_in_any_form() {
        for text in ["14:30", "2:30 pm", "2.30 p.m.", "14.30 Uhr", "14h30", "14 h 30"] {
            assert_eq!(time(text, &tokens(text)).map(|found| found.readings), Some(vec![150]), "{text}");
        }
        assert_eq!(time("14.30", &tokens("14.30")), None);
        assert_eq!(time("99:99", &tokens("99:99")), None);
        assert_eq!(
            ["14.30", "2.5", "14.99", "1.2.3", "30"].map(time_of_number),
            [Some(150), None, None, None, None]
        );
    }
}

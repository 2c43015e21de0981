//! Numbers as values, however they are written: with separators of thousands, a decimal comma, as words, or with a word
//! such as `million` behind them.

use crate::tokens::digit;

/// What digits with signs between them may mean, without leading zeros and trailing zeros of decimals: `1.500` is 1500 and
/// 1.5. Several signs that are no separators stay: `1.2.3`.
pub(super) fn values(text: &str) -> Vec<String> {
    let mut plain = String::new();
    for c in text.chars() {
        match digit(c) {
            Some(value) => plain.extend(char::from_digit(value, 10)),
            None => plain.push(match c {
                '.' => '.',
                ',' | '\u{66b}' => ',',
                _ => '\'',
            }),
        }
    }
    let plain: String = plain.chars().filter(|c| *c != '\'').collect();
    let signs: Vec<(usize, char)> = plain.char_indices().filter(|(_, c)| !c.is_ascii_digit()).collect();
    let Some((last, sign)) = signs.last().copied() else { return vec![whole(&plain)] };
    let digits = |text: &str| -> String { text.chars().filter(char::is_ascii_digit).collect() };
    let decimal = || {
        let (before, after) = (digits(&plain[..last]), digits(&plain[last..]));
        let after = after.trim_end_matches('0');
        match after.is_empty() {
            true => whole(&before),
            false => format!("{}.{after}", whole(&before)),
        }
    };
    let are_groups = |text: &str| {
        let mut groups = text.split(['.', ',']);
        let first = groups.next().map_or(0, str::len);
        let others: Vec<usize> = groups.map(str::len).collect();
        // India writes 12,34,567.
        (1..=3).contains(&first)
            && others.last() == Some(&3)
            && others.iter().all(|length| (2..=3).contains(length))
    };
    let mixed = signs.iter().any(|(_, other)| *other != sign);
    let alone = signs.iter().filter(|(_, other)| *other == sign).count() == 1;
    if mixed {
        return match alone && are_groups(&plain[..last]) {
            true => vec![decimal()],
            false if are_groups(&plain) => vec![whole(&digits(&plain))],
            // `12,13.5` and the like.
            false => plain.split(['.', ',']).map(whole).collect(),
        };
    }
    match (alone, are_groups(&plain)) {
        (true, true) if plain.starts_with('0') => vec![decimal()],
        (true, true) => vec![whole(&digits(&plain)), decimal()],
        (true, false) => vec![decimal()],
        (false, true) => vec![whole(&digits(&plain))],
        (false, false) => vec![plain.split(['.', ',']).map(whole).collect::<Vec<_>>().join(".")],
    }
}

/// Digits without leading zeros.
pub(super) fn whole(digits: &str) -> String {
    let trimmed = digits.trim_start_matches('0');
    if trimmed.is_empty() { "0".to_owned() } else { trimmed.to_owned() }
}

/// A value with so many zeros behind it.
pub(super) fn scaled(value: &str, zeros: usize) -> String {
    let (before, after) = value.split_once('.').unwrap_or((value, ""));
    let mut digits = format!("{before}{after}");
    match after.len() <= zeros {
        true => digits.push_str(&"0".repeat(zeros - after.len())),
        false => digits.insert(before.len() + zeros, '.'),
    }
    let (before, after) = digits.split_once('.').unwrap_or((&digits, ""));
    let after = after.trim_end_matches('0');
    if after.is_empty() { whole(before) } else { format!("{}.{after}", whole(before)) }
}

/// How many zeros a word stands for.
pub(super) fn scale(word: &str) -> Option<usize> {
    Some(match word {
        "百" => 2,
        "k" | "thousand" | "tausend" | "tsd" | "mille" | "mil" | "mila" | "duizend" | "тысяч" | "тыс"
        | "千" => 3,
        "万" | "萬" => 4,
        "lakh" | "lakhs" => 5,
        "m" | "mn" | "mio" | "million" | "millions" | "millionen" | "millon" | "millones" | "milione"
        | "milioni" | "miljoen" | "milhao" | "milhoes" | "млн" | "миллионов" => 6,
        "crore" | "crores" => 7,
        "亿" | "億" => 8,
        "b"
        | "bn"
        | "billion"
        | "billions"
        | "mrd"
        | "milliarde"
        | "milliarden"
        | "milliard"
        | "milliards"
        | "miliardo"
        | "miliardi"
        | "miljard"
        | "млрд"
        | "миллиардов" => 9,
        "trillion" | "trillions" | "billionen" | "兆" => 12,
        _ => return None,
    })
}

const UNITS: &[(&str, u64)] = &[
    ("zero", 0),
    ("one", 1),
    ("two", 2),
    ("three", 3),
    ("four", 4),
    ("five", 5),
    ("six", 6),
    ("seven", 7),
    ("eight", 8),
    ("nine", 9),
    ("ten", 10),
    ("eleven", 11),
    ("twelve", 12),
    ("thirteen", 13),
    ("fourteen", 14),
    ("fifteen", 15),
    ("sixteen", 16),
    ("seventeen", 17),
    ("eighteen", 18),
    ("nineteen", 19),
    ("first", 1),
    ("second", 2),
    ("third", 3),
    ("fourth", 4),
    ("fifth", 5),
    ("sixth", 6),
    ("seventh", 7),
    ("eighth", 8),
    ("ninth", 9),
    ("tenth", 10),
    ("eleventh", 11),
    ("twelfth", 12),
    ("once", 1),
    ("twice", 2),
    ("dozen", 12),
    ("twentieth", 20),
    ("single", 1),
    ("both", 2),
    ("half", 50),
    ("quarter", 25),
    ("double", 2),
    ("null", 0),
    ("ein", 1),
    ("eine", 1),
    ("einen", 1),
    ("einem", 1),
    ("einer", 1),
    ("eins", 1),
    ("zwei", 2),
    ("drei", 3),
    ("vier", 4),
    ("funf", 5),
    ("sechs", 6),
    ("sieben", 7),
    ("acht", 8),
    ("neun", 9),
    ("zehn", 10),
    ("elf", 11),
    ("zwolf", 12),
    ("dreizehn", 13),
    ("vierzehn", 14),
    ("funfzehn", 15),
    ("sechzehn", 16),
    ("siebzehn", 17),
    ("achtzehn", 18),
    ("neunzehn", 19),
    ("erste", 1),
    ("ersten", 1),
    ("zweite", 2),
    ("zweiten", 2),
    ("dritte", 3),
    ("dritten", 3),
    ("un", 1),
    ("une", 1),
    ("deux", 2),
    ("trois", 3),
    ("quatre", 4),
    ("cinq", 5),
    ("sept", 7),
    ("huit", 8),
    ("neuf", 9),
    ("dix", 10),
    ("onze", 11),
    ("douze", 12),
    ("treize", 13),
    ("quatorze", 14),
    ("quinze", 15),
    ("seize", 16),
    ("premier", 1),
    ("premiere", 1),
    ("deuxieme", 2),
    ("troisieme", 3),
    ("uno", 1),
    ("una", 1),
    ("dos", 2),
    ("tres", 3),
    ("cuatro", 4),
    ("cinco", 5),
    ("seis", 6),
    ("siete", 7),
    ("ocho", 8),
    ("nueve", 9),
    ("diez", 10),
    ("once", 11),
    ("doce", 12),
    ("trece", 13),
    ("catorce", 14),
    ("quince", 15),
    ("dieciseis", 16),
    ("diecisiete", 17),
    ("dieciocho", 18),
    ("diecinueve", 19),
    ("veintiuno", 21),
    ("veinticinco", 25),
    ("primero", 1),
    ("primer", 1),
    ("segundo", 2),
    ("tercero", 3),
    ("tercer", 3),
    ("due", 2),
    ("tre", 3),
    ("quattro", 4),
    ("cinque", 5),
    ("sei", 6),
    ("sette", 7),
    ("otto", 8),
    ("nove", 9),
    ("dieci", 10),
    ("undici", 11),
    ("dodici", 12),
    ("tredici", 13),
    ("quattordici", 14),
    ("quindici", 15),
    ("sedici", 16),
    ("diciassette", 17),
    ("diciotto", 18),
    ("diciannove", 19),
    ("um", 1),
    ("uma", 1),
    ("dois", 2),
    ("duas", 2),
    ("quatro", 4),
    ("sete", 7),
    ("oito", 8),
    ("dez", 10),
    ("doze", 12),
    ("treze", 13),
    ("dezesseis", 16),
    ("dezessete", 17),
    ("dezoito", 18),
    ("dezenove", 19),
    ("een", 1),
    ("twee", 2),
    ("drie", 3),
    ("vijf", 5),
    ("zes", 6),
    ("zeven", 7),
    ("negen", 9),
    ("tien", 10),
    ("twaalf", 12),
    ("dertien", 13),
    ("veertien", 14),
    ("vijftien", 15),
    ("zestien", 16),
    ("zeventien", 17),
    ("achttien", 18),
    ("negentien", 19),
    ("一", 1),
    ("二", 2),
    ("两", 2),
    ("三", 3),
    ("四", 4),
    ("五", 5),
    ("六", 6),
    ("七", 7),
    ("八", 8),
    ("九", 9),
    ("十", 10),
];

const TENS: &[(&str, u64)] = &[
    ("twenty", 20),
    ("thirty", 30),
    ("forty", 40),
    ("fifty", 50),
    ("sixty", 60),
    ("seventy", 70),
    ("eighty", 80),
    ("ninety", 90),
    ("zwanzig", 20),
    ("dreissig", 30),
    ("vierzig", 40),
    ("funfzig", 50),
    ("sechzig", 60),
    ("siebzig", 70),
    ("achtzig", 80),
    ("neunzig", 90),
    ("vingt", 20),
    ("trente", 30),
    ("quarante", 40),
    ("cinquante", 50),
    ("soixante", 60),
    ("veinte", 20),
    ("treinta", 30),
    ("cuarenta", 40),
    ("cincuenta", 50),
    ("sesenta", 60),
    ("setenta", 70),
    ("ochenta", 80),
    ("noventa", 90),
    ("venti", 20),
    ("trenta", 30),
    ("quaranta", 40),
    ("cinquanta", 50),
    ("sessanta", 60),
    ("vinte", 20),
    ("trinta", 30),
    ("twintig", 20),
    ("dertig", 30),
    ("veertig", 40),
    ("vijftig", 50),
];

/// The number that a folded word is, below a hundred: `five`, `nineteenth`.
pub(super) fn of_word(word: &str) -> Option<u64> {
    cardinal(word).or_else(|| {
        let without = |ending: &&str| cardinal(word.strip_suffix(ending)?);
        let tens = || cardinal(&format!("{}y", word.strip_suffix("ieth")?));
        tens().or_else(|| ORDINALS.iter().find_map(without))
    })
}

/// Endings of ordinal numbers that are not in [`UNITS`].
const ORDINALS: &[&str] =
    &["th", "sten", "ste", "ster", "stes", "ten", "te", "ter", "tes", "ieme", "esimo", "esima"];

fn cardinal(word: &str) -> Option<u64> {
    let of = |list: &[(&str, u64)], word: &str| list.iter().find(|(name, _)| *name == word).map(|(_, n)| *n);
    if let Some(number) = of(UNITS, word).or_else(|| of(TENS, word)) {
        return Some(number);
    }
    // `twenty-five` is one word here; `fünfundzwanzig`, `vijfentwintig`.
    for (name, tens) in TENS {
        if let Some(unit) = word.strip_prefix(name).and_then(|rest| of(UNITS, rest)).filter(|unit| *unit < 10)
        {
            return Some(tens + unit);
        }
        let unit = word.strip_suffix(name);
        let unit = unit.and_then(|rest| rest.strip_suffix("und").or_else(|| rest.strip_suffix("en")));
        if let Some(unit) = unit.and_then(|unit| of(UNITS, unit)) {
            return Some(tens + unit);
        }
    }
    None
}

/// What a sign such as `¾` stands for: the number above the line, the one below it, and the value.
pub(super) fn fraction(sign: char) -> Option<[String; 3]> {
    let (above, below, value) = match sign {
        '½' => ("1", "2", "0.5"),
        '⅓' => ("1", "3", "0.33"),
        '⅔' => ("2", "3", "0.67"),
        '¼' => ("1", "4", "0.25"),
        '¾' => ("3", "4", "0.75"),
        '⅕' => ("1", "5", "0.2"),
        '⅖' => ("2", "5", "0.4"),
        '⅗' => ("3", "5", "0.6"),
        '⅘' => ("4", "5", "0.8"),
        '⅙' => ("1", "6", "0.17"),
        '⅚' => ("5", "6", "0.83"),
        '⅛' => ("1", "8", "0.125"),
        '⅜' => ("3", "8", "0.375"),
        '⅝' => ("5", "8", "0.625"),
        '⅞' => ("7", "8", "0.875"),
        _ => return None,
    };
    Some([above, below, value].map(str::to_owned))
}

/// The digit that a raised or lowered digit is.
pub(super) fn raised(sign: char) -> Option<char> {
    let value = match sign {
        '⁰' | '₀' => 0,
        '¹' | '₁' => 1,
        '²' | '₂' => 2,
        '³' | '₃' => 3,
        '⁴'..='⁹' => sign as u32 - '⁴' as u32 + 4,
        '₄'..='₉' => sign as u32 - '₄' as u32 + 4,
        _ => return None,
    };
    char::from_digit(value, 10)
}

/// The value of a Roman number in capital letters.
pub(super) fn roman(word: &str) -> Option<u64> {
    let value = |c: char| {
        Some(match c {
            'I' => 1,
            'V' => 5,
            'X' => 10,
            'L' => 50,
            'C' => 100,
            'D' => 500,
            'M' => 1000,
            _ => return None,
        })
    };
    if word.is_empty() || word.len() > 12 {
        return None;
    }
    let values: Option<Vec<i64>> = word.chars().map(value).collect();
    let values = values?;
    let signed = values.iter().enumerate().map(|(i, value)| match values.get(i + 1) {
        Some(next) if next > value => -value,
        _ => *value,
    });
    u64::try_from(signed.sum::<i64>()).ok().filter(|sum| *sum > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_values() {
        for (text, expected) in [
            ("007", &["7"][..]),
            ("1,234,567.50", &["1234567.5"]),
            ("1.234.567,50", &["1234567.5"]),
            ("1.500", &["1500", "1.5"]),
            ("0.125", &["0.125"]),
            ("3,50", &["3.5"]),
            ("12,34,567", &["1234567"]),
            ("1'234", &["1234"]),
            ("05.03.2024", &["5.3.2024"]),
            ("٤٥٠", &["450"]),
            ("1.0", &["1"]),
        ] {
            assert_eq!(values(text), expected, "{text}");
        }
        assert_eq!([scaled("2.5", 6), scaled("3", 3), scaled("1.2345", 3)], ["2500000", "3000", "1234.5"]);
        assert_eq!(
            ["nineteenth", "twentieth", "neunzehnten", "fourth"].map(of_word),
            [Some(19), Some(20), Some(19), Some(4)]
        );
        assert_eq!(["worth", "hate", "th", "ieth"].map(of_word), [None; 4]);
        assert_eq!(["funfundzwanzig", "twentyfive", "seven"].map(of_word), [Some(25), Some(25), Some(7)]);
        assert_eq!(["XIV", "MCMXC", "MIX", "A"].map(roman), [Some(14), Some(1990), Some(1009), None]);
    }
}

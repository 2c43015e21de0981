//! Numerals of scripts that are more than letters or digits in a row: Hebrew, Armenian, Georgian, Ethiopic, and numbers of
//! East Asia that are counted (CSS Counter Styles 3).

/// Units, tens, hundreds and so on of scripts that have a letter for each.
pub(crate) const ARMENIAN: &str = "ԱԲԳԴԵԶԷԸԹԺԻԼԽԾԿՀՁՂՃՄՅՆՇՈՉՊՋՌՍՎՏՐՑՒՓՔ";
pub(crate) const ARMENIAN_LOWER: &str = "աբգդեզէըթժիլխծկհձղճմյնշոչպջռսվտրցւփք";
pub(crate) const GEORGIAN: &str = "აბგდევზჱთიკლმნჲოპჟრსტჳფქღყშჩცძწჭხჴჯჰჵ";

/// Chinese digits from zero on.
pub(crate) const CHINESE_DIGITS: &str = "〇一二三四五六七八九";

/// Numbers of East Asia that are counted, below 10,000.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    /// From zero on.
    digits: &'static str,
    /// Of tens, hundreds and thousands.
    places: &'static str,
    negative: &'static str,
    ones: Ones,
    /// Whether zeros between other digits are said.
    has_zeros: bool,
}

/// Whether the digit one is said before a ten, a hundred or a thousand.
#[derive(Debug, PartialEq, Eq)]
enum Ones {
    Said,
    NotSaid,
    /// Not in numbers from 10 to 19.
    NotInTeens,
}

pub(crate) const TRADITIONAL: Counted = Counted {
    digits: "零一二三四五六七八九",
    places: "十百千",
    negative: "負",
    ones: Ones::NotInTeens,
    has_zeros: true,
};
pub(crate) const SIMPLIFIED: Counted = Counted { negative: "负", ..TRADITIONAL };
pub(crate) const TRADITIONAL_FORMAL: Counted =
    Counted {
        digits: "零壹貳參肆伍陸柒捌玖", places: "拾佰仟", ones: Ones::Said, ..TRADITIONAL
    };
pub(crate) const SIMPLIFIED_FORMAL: Counted =
    Counted { digits: "零壹贰叁肆伍陆柒捌玖", places: "拾佰仟", ones: Ones::Said, ..SIMPLIFIED };
pub(crate) const JAPANESE: Counted = Counted {
    digits: CHINESE_DIGITS,
    places: "十百千",
    negative: "マイナス",
    ones: Ones::NotSaid,
    has_zeros: false,
};
pub(crate) const JAPANESE_FORMAL: Counted =
    Counted { digits: "零壱弐参四伍六七八九", places: "拾百阡", ones: Ones::Said, ..JAPANESE };
pub(crate) const KOREAN_HANGUL: Counted = Counted {
    digits: "영일이삼사오육칠팔구",
    places: "십백천",
    negative: "마이너스 ",
    ones: Ones::Said,
    has_zeros: false,
};
pub(crate) const KOREAN: Counted = Counted { ones: Ones::NotSaid, ..KOREAN_HANGUL };
pub(crate) const KOREAN_HANJA: Counted =
    Counted {
        digits: "零一二三四五六七八九", places: "十百千", ones: Ones::NotSaid, ..KOREAN_HANGUL
    };
pub(crate) const KOREAN_HANJA_FORMAL: Counted =
    Counted { digits: "零壹貳參四五六七八九", places: "拾百仟", ..KOREAN_HANGUL };

impl Counted {
    /// `None` for numbers that are too large.
    pub(crate) fn write(&self, number: i64) -> Option<String> {
        if !(-9999..=9999).contains(&number) {
            return None;
        }
        let digit = |digit: i64| self.digits.chars().nth(digit as usize);
        let size = number.abs();
        let mut text = if number < 0 { self.negative.to_owned() } else { String::new() };
        let mut has_gap = false;
        for place in (0..4).rev() {
            let own = size / 10_i64.pow(place) % 10;
            if own == 0 {
                has_gap = true;
                continue;
            }
            let has_begun = size >= 10_i64.pow(place + 1);
            if std::mem::take(&mut has_gap) && has_begun && self.has_zeros {
                text.extend(digit(0));
            }
            let is_said = match self.ones {
                Ones::Said => true,
                Ones::NotSaid => place == 0,
                Ones::NotInTeens => place == 0 || size >= 20,
            };
            text.extend(digit(own).filter(|_| own > 1 || is_said));
            text.extend(place.checked_sub(1).and_then(|place| self.places.chars().nth(place as usize)));
        }
        if size == 0 {
            text.extend(digit(0));
        }
        Some(text)
    }
}

/// A number whose units, tens, hundreds and so on have letters. `None` for one that has none.
pub(crate) fn of_places(number: i64, letters: &str) -> Option<String> {
    let count = letters.chars().count() as i64;
    let letter = |place: u32| {
        let digit = number / 10_i64.pow(place) % 10;
        (digit > 0).then(|| letters.chars().nth((9 * i64::from(place) + digit - 1) as usize)).flatten()
    };
    // The letters of the last place may be for its first digits only.
    let (places, digits) = ((count / 9) as u32, count % 9);
    let max = (digits + 1) * 10_i64.pow(places) - 1;
    (1..=max).contains(&number).then(|| (0..=places).rev().filter_map(letter).collect())
}

/// Hebrew letters. `None` for a number that they do not have.
pub(crate) fn hebrew(number: i64) -> Option<String> {
    const ONES: &str = "אבגדהוזחט";
    const TENS: &str = "יכלמנסעפצ";
    const HUNDREDS: &str = "קרשת";
    if !(1..=10_999).contains(&number) {
        return None;
    }
    let letter =
        |letters: &str, digit: i64| letters.chars().nth((digit - 1).max(0) as usize).filter(|_| digit > 0);
    let mut text = String::new();
    match number / 1000 {
        0 => {}
        thousands => {
            text.extend(if thousands == 10 { letter(TENS, 1) } else { letter(ONES, thousands) });
            text.push('׳');
        }
    }
    let mut hundreds = number / 100 % 10;
    while hundreds > 0 {
        text.extend(letter(HUNDREDS, hundreds.min(4)));
        hundreds -= 4;
    }
    match number % 100 {
        // The letters of 15 and 16 otherwise are a name of God.
        rest @ 15..=16 => text.extend([letter(ONES, 9), letter(ONES, rest - 9)].into_iter().flatten()),
        rest => text.extend([letter(TENS, rest / 10), letter(ONES, rest % 10)].into_iter().flatten()),
    }
    Some(text)
}

/// Ethiopic numerals, which count by hundreds. `None` for a number that they do not have.
pub(crate) fn ethiopic(number: i64) -> Option<String> {
    if number < 1 {
        return None;
    }
    let sign = |first: u32, digit: i64| char::from_u32(first + digit as u32 - 1).filter(|_| digit > 0);
    if number == 1 {
        return Some(sign(0x1369, 1).into_iter().collect());
    }
    let mut groups = Vec::new();
    let mut rest = number;
    while rest > 0 {
        groups.push(rest % 100);
        rest /= 100;
    }
    let mut text = String::new();
    for (place, group) in groups.iter().enumerate().rev() {
        let is_odd = place % 2 == 1;
        if *group != 1 || !(is_odd || place + 1 == groups.len()) {
            text.extend([sign(0x1372, group / 10), sign(0x1369, group % 10)].into_iter().flatten());
        }
        match (is_odd, place) {
            (true, _) if *group > 0 => text.push('፻'),
            (false, 1..) => text.push('፼'),
            _ => {}
        }
    }
    Some(text)
}

/// A number in these digits, of which zero is the first. `None` for one below zero.
pub(crate) fn digits_of(number: i64, signs: &str) -> Option<String> {
    let digit = |c: char| signs.chars().nth(c.to_digit(10)? as usize);
    (number >= 0).then(|| number.to_string().chars().filter_map(digit).collect())
}

/// The native words of Korean. `None` for a number that they do not have.
pub(crate) fn korean_words(number: i64) -> Option<String> {
    const ONES: [&str; 9] = ["하나", "둘", "셋", "넷", "다섯", "여섯", "일곱", "여덟", "아홉"];
    const TENS: [&str; 9] = ["열", "스물", "서른", "마흔", "쉰", "예순", "일흔", "여든", "아흔"];
    let word = |words: [&'static str; 9], digit: i64| (digit > 0).then(|| words[digit as usize - 1]);
    let words = || [word(TENS, number / 10), word(ONES, number % 10)];
    (1..100).contains(&number).then(|| words().into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules and examples of CSS Counter Styles 3.
    #[test]
    fn numerals_are_those_of_their_script() {
        for (number, wanted) in [
            (1, "א"),
            (10, "י"),
            (11, "יא"),
            (15, "טו"),
            (16, "טז"),
            (17, "יז"),
            (20, "כ"),
            (115, "קטו"),
            (400, "ת"),
            (500, "תק"),
            (999, "תתקצט"),
            (1000, "א׳"),
            (5784, "ה׳תשפד"),
            (10_999, "י׳תתקצט"),
        ] {
            assert_eq!(hebrew(number).as_deref(), Some(wanted), "{number}");
        }
        assert_eq!((hebrew(0), hebrew(11_000)), (None, None));
        for (number, letters, wanted) in [
            (1, ARMENIAN, Some("Ա")),
            (10, ARMENIAN, Some("Ժ")),
            (11, ARMENIAN, Some("ԺԱ")),
            (1996, ARMENIAN, Some("ՌՋՂԶ")),
            (9999, ARMENIAN_LOWER, Some("քջղթ")),
            (10_000, ARMENIAN, None),
            (2011, GEORGIAN, Some("ცია")),
            (60, GEORGIAN, Some("ჲ")),
            (400, GEORGIAN, Some("ჳ")),
            (10_000, GEORGIAN, Some("ჵ")),
            (19_999, GEORGIAN, Some("ჵჰშჟთ")),
            (20_000, GEORGIAN, None),
            (0, GEORGIAN, None),
        ] {
            assert_eq!(of_places(number, letters).as_deref(), wanted, "{number}");
        }
        for (number, counted, wanted) in [
            (0, SIMPLIFIED, "零"),
            (10, SIMPLIFIED, "十"),
            (11, SIMPLIFIED, "十一"),
            (20, SIMPLIFIED, "二十"),
            (101, SIMPLIFIED, "一百零一"),
            (110, SIMPLIFIED, "一百一十"),
            (6001, TRADITIONAL, "六千零一"),
            (1010, TRADITIONAL, "一千零一十"),
            (-12, SIMPLIFIED, "负十二"),
            (10, TRADITIONAL_FORMAL, "壹拾"),
            (345, SIMPLIFIED_FORMAL, "叁佰肆拾伍"),
            (0, JAPANESE, "〇"),
            (1111, JAPANESE, "千百十一"),
            (2005, JAPANESE, "二千五"),
            (1111, JAPANESE_FORMAL, "壱阡壱百壱拾壱"),
            (15, KOREAN_HANGUL, "일십오"),
            (-15, KOREAN_HANJA, "마이너스 十五"),
            (15, KOREAN_HANJA_FORMAL, "壹拾五"),
        ] {
            assert_eq!(counted.write(number).as_deref(), Some(wanted), "{number}");
        }
        assert_eq!(JAPANESE.write(10_000), None);
        for (number, wanted) in [
            (1, "፩"),
            (10, "፲"),
            (100, "፻"),
            (101, "፻፩"),
            (200, "፪፻"),
            (10_000, "፼"),
            (78_010_092, "፸፰፻፩፼፺፪"),
            (780_100_000_092, "፸፰፻፩፼፼፺፪"),
        ] {
            assert_eq!(ethiopic(number).as_deref(), Some(wanted), "{number}");
        }
        assert_eq!(digits_of(120, CHINESE_DIGITS).as_deref(), Some("一二〇"));
        assert_eq!((digits_of(-1, CHINESE_DIGITS), korean_words(0), korean_words(100)), (None, None, None));
    }
}

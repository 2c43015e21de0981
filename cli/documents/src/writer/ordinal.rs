//! Numbers of lists and headings: 2, ii, B, 二, ②.

/// Largest number that is not written in digits whatever the format is.
const MAX: i64 = 4_999;
/// Longest number with letters that are repeated: `zzz` is 78.
const MAX_LETTERS: i64 = 26 * 30;

/// How a number is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    /// 1, 2, 3.
    #[default]
    Decimal,
    /// 01, 002: with so many digits at least.
    Padded(usize),
    /// i, ii, iii.
    LowerRoman,
    /// I, II, III.
    UpperRoman,
    /// Letters of an alphabet; behind the last one aa, ab.
    Letters(&'static str),
    /// Letters of an alphabet; behind the last one aa, bb.
    RepeatedLetters(&'static str),
    /// Decimal digits of a script, of which this is zero.
    Digits(char),
    /// 1st, 2nd, 3rd.
    Ordinal,
    /// one, two, three.
    Cardinal,
    /// first, second, third.
    OrdinalWord,
    /// 一, 二, 十一.
    Chinese,
    /// Digits, of which zero is the first: 一〇.
    DigitsOf(&'static str),
    /// Words for one to nine and for ten to ninety: 壹拾壹, 열하나.
    Words(&'static Words),
    /// Two letters of cycles that go on together: 甲子, 乙丑.
    Cycles(&'static str, &'static str),
    /// Upper-case digits and letters of the base 16.
    Hexadecimal,
    /// Signs that exist for the first numbers: ①, ⑴.
    Enclosed(char),
    /// Between dashes: - 1 -.
    Dashed,
    /// No number at all.
    None,
    /// The same sign for each.
    Bullet,
}

const LATIN: &str = "abcdefghijklmnopqrstuvwxyz";
const LATIN_UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const GREEK: &str = "αβγδεζηθικλμνξοπρστυφχψω";
const GREEK_UPPER: &str = "ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩ";
const RUSSIAN: &str = "абвгдежзиклмнопрстуфхцчшщыэюя";
const RUSSIAN_UPPER: &str = "АБВГДЕЖЗИКЛМНОПРСТУФХЦЧШЩЫЭЮЯ";
const HEBREW: &str = "אבגדהוזחטיכלמנסעפצקרשת";
const ARABIC: &str = "أبتثجحخدذرزسشصضطظعغفقكلمنهوي";
const ABJAD: &str = "أبجدهوزحطيكلمنسعفصقرشتثخذضظغ";
const HIRAGANA: &str =
    "あいうえおかきくけこさしすせそたちつてとなにぬねのはひふへほまみむめもやゆよらりるれろわをん";
const KATAKANA: &str =
    "アイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワヲン";
const IROHA: &str =
    "イロハニホヘトチリヌルヲワカヨタレソツネナラムウヰノオクヤマケフコエテアサキユメミシヱヒモセス";
const GANADA: &str = "가나다라마바사아자차카타파하";
const CHOSUNG: &str = "ㄱㄴㄷㄹㅁㅂㅅㅇㅈㅊㅋㅌㅍㅎ";
const THAI: &str = "กขคงจฉชซฌญฎฏฐฑฒณดตถทธนบปผฝพฟภมยรลวศษสหฬอฮ";
const HEAVENLY: &str = "甲乙丙丁戊己庚辛壬癸";
const EARTHLY: &str = "子丑寅卯辰巳午未申酉戌亥";

/// The words of a language for one to nine, and for ten to ninety. A number is two of them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Words([&'static str; 9], [&'static str; 9]);

const CHINESE_FORMAL: Words = Words(
    ["壹", "贰", "叁", "肆", "伍", "陆", "柒", "捌", "玖"],
    ["壹拾", "贰拾", "叁拾", "肆拾", "伍拾", "陆拾", "柒拾", "捌拾", "玖拾"],
);
const TAIWANESE_FORMAL: Words = Words(
    ["壹", "貳", "參", "肆", "伍", "陸", "柒", "捌", "玖"],
    ["壹拾", "貳拾", "參拾", "肆拾", "伍拾", "陸拾", "柒拾", "捌拾", "玖拾"],
);
const KOREAN: Words = Words(
    ["일", "이", "삼", "사", "오", "육", "칠", "팔", "구"],
    ["십", "이십", "삼십", "사십", "오십", "육십", "칠십", "팔십", "구십"],
);
const KOREAN_NATIVE: Words = Words(
    ["하나", "둘", "셋", "넷", "다섯", "여섯", "일곱", "여덟", "아홉"],
    ["열", "스물", "서른", "마흔", "쉰", "예순", "일흔", "여든", "아흔"],
);

impl Format {
    /// By its name in DOCX (ECMA-376, ST_NumberFormat). `None` for one that is not known.
    pub(crate) fn of_word(name: &str) -> Option<Format> {
        Some(match name {
            "decimal" | "decimalHalfWidth" | "decimalFullWidth2" => Format::Decimal,
            "decimalZero" => Format::Padded(2),
            "decimalFullWidth" => Format::Digits('０'),
            "upperRoman" => Format::UpperRoman,
            "lowerRoman" => Format::LowerRoman,
            "upperLetter" => Format::RepeatedLetters(LATIN_UPPER),
            "lowerLetter" => Format::RepeatedLetters(LATIN),
            "russianLower" => Format::RepeatedLetters(RUSSIAN),
            "russianUpper" => Format::RepeatedLetters(RUSSIAN_UPPER),
            "hebrew2" => Format::RepeatedLetters(HEBREW),
            "arabicAlpha" => Format::RepeatedLetters(ARABIC),
            "arabicAbjad" => Format::RepeatedLetters(ABJAD),
            "aiueo" | "aiueoFullWidth" => Format::RepeatedLetters(KATAKANA),
            "iroha" | "irohaFullWidth" => Format::RepeatedLetters(IROHA),
            "ganada" => Format::RepeatedLetters(GANADA),
            "chosung" => Format::RepeatedLetters(CHOSUNG),
            "thaiLetters" => Format::RepeatedLetters(THAI),
            "thaiNumbers" => Format::Digits('๐'),
            "hindiNumbers" => Format::Digits('०'),
            "ideographTraditional" => Format::RepeatedLetters(HEAVENLY),
            "ideographZodiac" => Format::RepeatedLetters(EARTHLY),
            "ordinal" => Format::Ordinal,
            "cardinalText" => Format::Cardinal,
            "ordinalText" => Format::OrdinalWord,
            "numberInDash" => Format::Dashed,
            "decimalEnclosedCircle" | "decimalEnclosedCircleChinese" => Format::Enclosed('①'),
            "decimalEnclosedParen" => Format::Enclosed('⑴'),
            "decimalEnclosedFullstop" => Format::Enclosed('⒈'),
            "chineseCounting"
            | "chineseCountingThousand"
            | "taiwaneseCounting"
            | "japaneseCounting"
            | "taiwaneseCountingThousand" => Format::Chinese,
            "ideographDigital" | "japaneseDigitalTenThousand" => Format::DigitsOf("〇一二三四五六七八九"),
            "taiwaneseDigital" => Format::DigitsOf("○一二三四五六七八九"),
            "koreanDigital2" => Format::DigitsOf("零一二三四五六七八九"),
            "koreanDigital" => Format::DigitsOf("영일이삼사오육칠팔구"),
            "chineseLegalSimplified" => Format::Words(&CHINESE_FORMAL),
            "ideographLegalTraditional" => Format::Words(&TAIWANESE_FORMAL),
            "koreanCounting" => Format::Words(&KOREAN),
            "koreanLegal" => Format::Words(&KOREAN_NATIVE),
            "ideographZodiacTraditional" => Format::Cycles(HEAVENLY, EARTHLY),
            "chicago" => Format::RepeatedLetters("*†‡§"),
            "hex" => Format::Hexadecimal,
            "hebrew1" => return Format::of_css("hebrew"),
            "bullet" => Format::Bullet,
            "none" => Format::None,
            // Leading zeros, from Word 2010 on.
            name => return zeros(name).map(Format::Padded),
        })
    }

    /// By its name in CSS. `None` for one that is not known.
    pub(crate) fn of_css(name: &str) -> Option<Format> {
        Some(match name {
            "decimal" => Format::Decimal,
            "decimal-leading-zero" => Format::Padded(2),
            "lower-roman" => Format::LowerRoman,
            "upper-roman" => Format::UpperRoman,
            "lower-alpha" | "lower-latin" => Format::Letters(LATIN),
            "upper-alpha" | "upper-latin" => Format::Letters(LATIN_UPPER),
            "lower-greek" => Format::Letters(GREEK),
            "hebrew" => Format::Letters(HEBREW),
            "hiragana" => Format::Letters(HIRAGANA),
            "katakana" => Format::Letters(KATAKANA),
            "katakana-iroha" => Format::Letters(IROHA),
            "cjk-decimal"
            | "cjk-ideographic"
            | "trad-chinese-informal"
            | "simp-chinese-informal"
            | "japanese-informal" => Format::Chinese,
            "cjk-heavenly-stem" => Format::Letters(HEAVENLY),
            "cjk-earthly-branch" => Format::Letters(EARTHLY),
            "arabic-indic" => Format::Digits('٠'),
            "persian" => Format::Digits('۰'),
            "devanagari" => Format::Digits('०'),
            "thai" => Format::Digits('๐'),
            "disc" | "circle" | "square" | "disclosure-open" | "disclosure-closed" => Format::Bullet,
            "none" => Format::None,
            _ => return None,
        })
    }

    /// By an example of it, as HTML and OpenDocument name it: `1`, `a`, `I`, `ア, イ, ウ, ...`. Nothing is no number.
    pub(crate) fn of_example(example: &str) -> Option<Format> {
        // The first sign says it; of Russian letters, the first two of which follow the last one.
        let mut signs = example.split(',').map(str::trim);
        let first = if example.ends_with("(ru)") { signs.nth(3) } else { signs.next() };
        Some(match first.unwrap_or_default() {
            "" => Format::None,
            "1" => Format::Decimal,
            "a" => Format::Letters(LATIN),
            "A" => Format::Letters(LATIN_UPPER),
            "i" => Format::LowerRoman,
            "I" => Format::UpperRoman,
            "01" => Format::Padded(2),
            "一" => Format::Chinese,
            "①" => Format::Enclosed('①'),
            "１" => Format::Digits('０'),
            "α" => Format::Letters(GREEK),
            "Α" => Format::Letters(GREEK_UPPER),
            "ア" => Format::RepeatedLetters(KATAKANA),
            "イ" => Format::RepeatedLetters(IROHA),
            "가" => Format::RepeatedLetters(GANADA),
            "ㄱ" => Format::RepeatedLetters(CHOSUNG),
            "甲" => Format::RepeatedLetters(HEAVENLY),
            "子" => Format::RepeatedLetters(EARTHLY),
            "壹" if example.contains('贰') => Format::Words(&CHINESE_FORMAL),
            "壹" if example.contains('貳') => Format::Words(&TAIWANESE_FORMAL),
            "일" => Format::Words(&KOREAN),
            // What follows the last letter of the Russian alphabet: Аа, Аб or Аа, Бб.
            "аа" if example.contains("бб") => Format::RepeatedLetters(RUSSIAN),
            "Аа" if example.contains("Бб") => Format::RepeatedLetters(RUSSIAN_UPPER),
            "аа" => Format::Letters(RUSSIAN),
            "Аа" => Format::Letters(RUSSIAN_UPPER),
            _ => return None,
        })
    }

    /// Letters that go on with aa, bb instead of aa, ab.
    pub(crate) fn repeated(self) -> Format {
        match self {
            Format::Letters(letters) => Format::RepeatedLetters(letters),
            format => format,
        }
    }

    /// A number in this format. Numbers that the format does not have are in digits. Bullets have none.
    pub(crate) fn write(self, number: i64) -> String {
        let letters = |alphabet: &str| alphabet.chars().count() as i64;
        match self {
            Format::Bullet | Format::None => String::new(),
            Format::Padded(digits) => format!("{number:0digits$}"),
            Format::Dashed => format!("- {number} -"),
            Format::Digits(zero) => {
                let digit = |c: char| c.to_digit(10).and_then(|digit| char::from_u32(zero as u32 + digit));
                number.to_string().chars().map(|c| digit(c).unwrap_or(c)).collect()
            }
            _ if !(1..=MAX).contains(&number) => number.to_string(),
            Format::Decimal => number.to_string(),
            Format::UpperRoman => roman(number),
            Format::LowerRoman => roman(number).to_lowercase(),
            Format::Letters(alphabet) => positional(number, letters(alphabet), alphabet),
            Format::RepeatedLetters(alphabet) if number <= MAX_LETTERS => {
                let (count, at) = ((number - 1) / letters(alphabet) + 1, (number - 1) % letters(alphabet));
                let letter = alphabet.chars().nth(at as usize);
                letter.map_or_else(String::new, |letter| letter.to_string().repeat(count as usize))
            }
            Format::RepeatedLetters(_) => number.to_string(),
            Format::Ordinal => format!("{number}{}", ending(number)),
            Format::Cardinal => words(number, false),
            Format::OrdinalWord => words(number, true),
            Format::Chinese => chinese(number),
            Format::DigitsOf(digits) => {
                let digit = |c: char| digits.chars().nth(c.to_digit(10)? as usize);
                number.to_string().chars().filter_map(digit).collect()
            }
            Format::Words(Words(ones, tens)) if number < 100 => {
                let word = |words: &[&'static str; 9], digit: i64| {
                    digit.checked_sub(1).and_then(|at| words.get(usize::try_from(at).ok()?).copied())
                };
                [word(tens, number / 10), word(ones, number % 10)].into_iter().flatten().collect()
            }
            Format::Words(_) => number.to_string(),
            Format::Cycles(first, second) => {
                let letter = |cycle: &str| cycle.chars().nth(((number - 1) % letters(cycle)) as usize);
                [letter(first), letter(second)].into_iter().flatten().collect()
            }
            Format::Hexadecimal => format!("{number:X}"),
            Format::Enclosed(first) if number <= 20 => {
                char::from_u32(first as u32 + number as u32 - 1).map_or_else(String::new, String::from)
            }
            Format::Enclosed(_) => format!("({number})"),
        }
    }
}

/// The digits of the last of the numbers that a format of Word begins with: `001, 002, 003, ...`.
fn zeros(name: &str) -> Option<usize> {
    let first = name.split(',').next()?.trim();
    (first.starts_with('0') && first.len() <= 9 && first.bytes().all(|b| b.is_ascii_digit()))
        .then_some(first.len())
}

fn roman(mut number: i64) -> String {
    const VALUES: [(i64, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    let mut text = String::new();
    for (value, letters) in VALUES {
        while number >= value {
            text.push_str(letters);
            number -= value;
        }
    }
    text
}

fn positional(mut number: i64, base: i64, alphabet: &str) -> String {
    let mut letters = Vec::new();
    while number > 0 {
        letters.extend(alphabet.chars().nth(((number - 1) % base) as usize));
        number = (number - 1) / base;
    }
    letters.iter().rev().collect()
}

fn ending(number: i64) -> &'static str {
    match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    }
}

/// A number below 1000 as English words, as Word writes it: with a capital letter.
fn words(number: i64, is_ordinal: bool) -> String {
    const ONES: [(&str, &str); 20] = [
        ("zero", "zeroth"),
        ("one", "first"),
        ("two", "second"),
        ("three", "third"),
        ("four", "fourth"),
        ("five", "fifth"),
        ("six", "sixth"),
        ("seven", "seventh"),
        ("eight", "eighth"),
        ("nine", "ninth"),
        ("ten", "tenth"),
        ("eleven", "eleventh"),
        ("twelve", "twelfth"),
        ("thirteen", "thirteenth"),
        ("fourteen", "fourteenth"),
        ("fifteen", "fifteenth"),
        ("sixteen", "sixteenth"),
        ("seventeen", "seventeenth"),
        ("eighteen", "eighteenth"),
        ("nineteen", "nineteenth"),
    ];
    const TENS: [&str; 10] = ["", "", "twent", "thirt", "fort", "fift", "sixt", "sevent", "eight", "ninet"];
    fn spelled(number: i64, is_ordinal: bool) -> String {
        let pick = |pair: (&str, &str)| (if is_ordinal { pair.1 } else { pair.0 }).to_owned();
        match (number, number % 10) {
            (0..20, _) => pick(ONES[number as usize]),
            (20..100, 0) => TENS[(number / 10) as usize].to_owned() + if is_ordinal { "ieth" } else { "y" },
            (20..100, ones) => format!("{}y-{}", TENS[(number / 10) as usize], spelled(ones, is_ordinal)),
            _ if number % 100 == 0 => {
                format!("{} hundred{}", spelled(number / 100, false), if is_ordinal { "th" } else { "" })
            }
            _ => format!("{} hundred {}", spelled(number / 100, false), spelled(number % 100, is_ordinal)),
        }
    }
    if number >= 1000 {
        return number.to_string();
    }
    let text = spelled(number, is_ordinal);
    text[..1].to_uppercase() + &text[1..]
}

/// A number below 100 as it is counted in Chinese and Japanese; digits of larger ones.
fn chinese(number: i64) -> String {
    const DIGITS: [char; 10] = ['〇', '一', '二', '三', '四', '五', '六', '七', '八', '九'];
    let digit = |digit: i64| DIGITS[digit as usize];
    match (number / 10, number % 10) {
        (0, ones) => digit(ones).to_string(),
        (10.., _) => number.to_string().bytes().map(|b| digit(i64::from(b - b'0'))).collect(),
        (tens, ones) => {
            let tens = (tens > 1).then(|| digit(tens));
            let ones = (ones > 0).then(|| digit(ones));
            tens.into_iter().chain(['十']).chain(ones).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_their_format() {
        for (name, number, wanted) in [
            ("decimal", 12, "12"),
            ("decimalZero", 7, "07"),
            ("001, 002, 003, ...", 7, "007"),
            ("upperRoman", 1994, "MCMXCIV"),
            ("lowerRoman", 4, "iv"),
            ("lowerLetter", 26, "z"),
            ("upperLetter", 28, "BB"),
            ("ordinal", 22, "22nd"),
            ("ordinal", 112, "112th"),
            ("cardinalText", 42, "Forty-two"),
            ("ordinalText", 20, "Twentieth"),
            ("ordinalText", 101, "One hundred first"),
            ("decimalEnclosedCircle", 3, "③"),
            ("chineseCounting", 12, "十二"),
            ("chineseCounting", 30, "三十"),
            ("hebrew2", 2, "ב"),
            ("ideographDigital", 11, "一一"),
            ("taiwaneseDigital", 10, "一○"),
            ("koreanDigital2", 20, "二零"),
            ("koreanDigital", 12, "일이"),
            ("chineseLegalSimplified", 12, "壹拾贰"),
            ("ideographLegalTraditional", 3, "參"),
            ("koreanCounting", 21, "이십일"),
            ("koreanLegal", 20, "스물"),
            ("koreanLegal", 100, "100"),
            ("ideographZodiacTraditional", 13, "丙子"),
            ("chicago", 5, "**"),
            ("hex", 28, "1C"),
            ("bullet", 3, ""),
            ("lowerRoman", 0, "0"),
            ("upperLetter", i64::MAX, "9223372036854775807"),
        ] {
            let format = Format::of_word(name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(format.write(number), wanted, "{name} {number}");
        }
        assert_eq!(Format::of_css("lower-alpha").expect("a name").write(28), "ab");
        assert_eq!(Format::of_css("persian").expect("a name").write(10), "۱۰");
        assert_eq!(Format::of_word("custom"), None);
        for (example, number, wanted) in [
            ("I", 4, "IV"),
            ("①, ②, ③, ...", 3, "③"),
            ("ア, イ, ウ, ...", 2, "イ"),
            ("α, β, γ, ... (gr)", 6, "ζ"),
            ("а, б, .., аа, аб, ... (ru)", 10, "к"),
            ("А, Б, .., Аа, Аб, ... (ru)", 31, "АБ"),
            ("А, Б, .., Аа, Бб, ... (ru)", 31, "ББ"),
            ("壹, 贰, 叁, ...", 11, "壹拾壹"),
            ("일, 이, 삼, ...", 10, "십"),
        ] {
            let format = Format::of_example(example).unwrap_or_else(|| panic!("{example}"));
            assert_eq!(format.write(number), wanted, "{example} {number}");
        }
        assert_eq!(Format::of_example("А, Б, .., Аа, Аб, ... (bg)"), None);
    }
}

//! Numbers of lists and headings: 2, ii, B, 二, ②.

use super::numerals::{self, Counted};

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
    /// Korean words: 열하나.
    KoreanWords,
    /// Two letters of cycles that go on together: 甲子, 乙丑.
    Cycles(&'static str, &'static str),
    /// Upper-case digits and letters of the base 16.
    Hexadecimal,
    /// The same as it is written in a language.
    Counted(&'static Counted),
    /// Signs of which there is one for each number; behind the last one digits of Chinese.
    Fixed(&'static str),
    /// Letters of units, tens, hundreds.
    Places(&'static str),
    /// א, י, יא.
    Hebrew,
    /// ፩, ፲, ፲፩.
    Ethiopic,
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
pub(crate) const LATIN_UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const GREEK: &str = "αβγδεζηθικλμνξοπρστυφχψω";
const GREEK_UPPER: &str = "ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩ";
const RUSSIAN: &str = "абвгдежзиклмнопрстуфхцчшщыэюя";
const RUSSIAN_UPPER: &str = "АБВГДЕЖЗИКЛМНОПРСТУФХЦЧШЩЫЭЮЯ";
const HEBREW: &str = "אבגדהוזחטיכלמנסעפצקרשת";
const ARABIC: &str = "أبتثجحخدذرزسشصضطظعغفقكلمنهوي";
const ABJAD: &str = "أبجدهوزحطيكلمنسعفصقرشتثخذضظغ";
const KATAKANA: &str =
    "アイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワヲン";
const HIRAGANA: &str =
    "あいうえおかきくけこさしすせそたちつてとなにぬねのはひふへほまみむめもやゆよらりるれろわゐゑをん";
const KATAKANA_OLD: &str =
    "アイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワヰヱヲン";
const HIRAGANA_IROHA: &str =
    "いろはにほへとちりぬるをわかよたれそつねならむうゐのおくやまけふこえてあさきゆめみしゑひもせす";
const IROHA: &str =
    "イロハニホヘトチリヌルヲワカヨタレソツネナラムウヰノオクヤマケフコエテアサキユメミシヱヒモセス";
const GANADA: &str = "가나다라마바사아자차카타파하";
const CHOSUNG: &str = "ㄱㄴㄷㄹㅁㅂㅅㅇㅈㅊㅋㅌㅍㅎ";
const THAI: &str = "กขคงจฉชซฌญฎฏฐฑฒณดตถทธนบปผฝพฟภมยรลวศษสหฬอฮ";
/// Scripts with decimal digits by their names in CSS, and their zeros.
const SCRIPTS: &[(&str, char)] = &[
    ("arabic-indic", '٠'),
    ("bengali", '০'),
    ("cambodian", '០'),
    ("devanagari", '०'),
    ("gujarati", '૦'),
    ("gurmukhi", '੦'),
    ("kannada", '೦'),
    ("khmer", '០'),
    ("lao", '໐'),
    ("malayalam", '൦'),
    ("mongolian", '᠐'),
    ("myanmar", '၀'),
    ("oriya", '୦'),
    ("persian", '۰'),
    ("tamil", '௦'),
    ("telugu", '౦'),
    ("thai", '๐'),
    ("tibetan", '༠'),
];
const HEAVENLY: &str = "甲乙丙丁戊己庚辛壬癸";
const EARTHLY: &str = "子丑寅卯辰巳午未申酉戌亥";

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
            "hebrew1" => Format::Hebrew,
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
            "ideographDigital" | "japaneseDigitalTenThousand" => Format::DigitsOf(numerals::CHINESE_DIGITS),
            "taiwaneseDigital" => Format::DigitsOf("○一二三四五六七八九"),
            "koreanDigital2" => Format::DigitsOf("零一二三四五六七八九"),
            "koreanDigital" => Format::DigitsOf("영일이삼사오육칠팔구"),
            "chineseLegalSimplified" => Format::Counted(&numerals::SIMPLIFIED_FORMAL),
            "ideographLegalTraditional" => Format::Counted(&numerals::TRADITIONAL_FORMAL),
            "koreanCounting" => Format::Counted(&numerals::KOREAN),
            "koreanLegal" => Format::KoreanWords,
            "ideographZodiacTraditional" => Format::Cycles(HEAVENLY, EARTHLY),
            "chicago" => Format::RepeatedLetters("*†‡§"),
            "hex" => Format::Hexadecimal,
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
            "hiragana" => Format::Letters(HIRAGANA),
            "hiragana-iroha" => Format::Letters(HIRAGANA_IROHA),
            "katakana" => Format::Letters(KATAKANA_OLD),
            "katakana-iroha" => Format::Letters(IROHA),
            "hebrew" => Format::Hebrew,
            "armenian" | "upper-armenian" => Format::Places(numerals::ARMENIAN),
            "lower-armenian" => Format::Places(numerals::ARMENIAN_LOWER),
            "georgian" => Format::Places(numerals::GEORGIAN),
            "ethiopic-numeric" => Format::Ethiopic,
            "cjk-decimal" => Format::DigitsOf(numerals::CHINESE_DIGITS),
            "cjk-ideographic" | "trad-chinese-informal" => Format::Counted(&numerals::TRADITIONAL),
            "trad-chinese-formal" => Format::Counted(&numerals::TRADITIONAL_FORMAL),
            "simp-chinese-informal" => Format::Counted(&numerals::SIMPLIFIED),
            "simp-chinese-formal" => Format::Counted(&numerals::SIMPLIFIED_FORMAL),
            "japanese-informal" => Format::Counted(&numerals::JAPANESE),
            "japanese-formal" => Format::Counted(&numerals::JAPANESE_FORMAL),
            "korean-hangul-formal" => Format::Counted(&numerals::KOREAN_HANGUL),
            "korean-hanja-informal" => Format::Counted(&numerals::KOREAN_HANJA),
            "korean-hanja-formal" => Format::Counted(&numerals::KOREAN_HANJA_FORMAL),
            "cjk-heavenly-stem" => Format::Fixed(HEAVENLY),
            "cjk-earthly-branch" => Format::Fixed(EARTHLY),
            "disc" | "circle" | "square" | "disclosure-open" | "disclosure-closed" => Format::Bullet,
            "none" => Format::None,
            name => {
                return SCRIPTS
                    .iter()
                    .find(|(known, _)| *known == name)
                    .map(|(_, zero)| Format::Digits(*zero));
            }
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
            "壹" if example.contains('贰') => Format::Counted(&numerals::SIMPLIFIED_FORMAL),
            "壹" if example.contains('貳') => Format::Counted(&numerals::TRADITIONAL_FORMAL),
            "일" => Format::Counted(&numerals::KOREAN),
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
        let digits = || number.to_string();
        let chinese_digits = || numerals::digits_of(number, numerals::CHINESE_DIGITS);
        match self {
            Format::Bullet | Format::None => String::new(),
            Format::Padded(digits) => format!("{number:0digits$}"),
            Format::Dashed => format!("- {number} -"),
            Format::Digits(zero) => {
                let digit = |c: char| c.to_digit(10).and_then(|digit| char::from_u32(zero as u32 + digit));
                number.to_string().chars().map(|c| digit(c).unwrap_or(c)).collect()
            }
            Format::Counted(counted) => counted.write(number).or_else(chinese_digits).unwrap_or_else(digits),
            Format::DigitsOf(signs) => numerals::digits_of(number, signs).unwrap_or_else(digits),
            Format::KoreanWords => numerals::korean_words(number).unwrap_or_else(digits),
            Format::Places(letters) => numerals::of_places(number, letters).unwrap_or_else(digits),
            Format::Hebrew => numerals::hebrew(number).unwrap_or_else(digits),
            Format::Ethiopic => numerals::ethiopic(number).unwrap_or_else(digits),
            Format::Fixed(signs) => {
                let at = number.checked_sub(1).and_then(|at| usize::try_from(at).ok());
                let sign = at.and_then(|at| signs.chars().nth(at)).map(String::from);
                sign.or_else(chinese_digits).unwrap_or_else(digits)
            }
            _ if !(1..=MAX).contains(&number) => digits(),
            Format::Decimal => number.to_string(),
            Format::UpperRoman => roman(number),
            Format::LowerRoman => roman(number).to_lowercase(),
            Format::Letters(alphabet) => positional(number, alphabet),
            Format::RepeatedLetters(alphabet) if number <= MAX_LETTERS => {
                let (count, at) = ((number - 1) / letters(alphabet) + 1, (number - 1) % letters(alphabet));
                let letter = alphabet.chars().nth(at as usize);
                letter.map_or_else(String::new, |letter| letter.to_string().repeat(count as usize))
            }
            Format::RepeatedLetters(_) => number.to_string(),
            Format::Ordinal => format!("{number}{}", ending(number)),
            Format::Cardinal => words(number, false),
            Format::OrdinalWord => words(number, true),
            Format::Chinese if number < 100 => numerals::TRADITIONAL.write(number).unwrap_or_else(digits),
            Format::Chinese => chinese_digits().unwrap_or_else(digits),
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

/// A number above 0 in letters of an alphabet: behind the last one aa, ab.
pub(crate) fn positional(mut number: i64, alphabet: &str) -> String {
    let base = alphabet.chars().count() as i64;
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
        for (name, number, wanted) in [
            ("persian", 10, "۱۰"),
            ("hebrew", 11, "יא"),
            ("hebrew", 11_000, "11000"),
            ("cjk-decimal", 11, "一一"),
            ("cjk-heavenly-stem", 10, "癸"),
            ("cjk-heavenly-stem", 11, "一一"),
            ("cjk-earthly-branch", -1, "-1"),
            ("katakana", 48, "ン"),
            ("lower-greek", 25, "αα"),
            ("japanese-informal", 10_000, "一〇〇〇〇"),
            ("cjk-ideographic", i64::MIN, "-9223372036854775808"),
        ] {
            assert_eq!(Format::of_css(name).expect(name).write(number), wanted, "{name} {number}");
        }
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

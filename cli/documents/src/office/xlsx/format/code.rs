//! The codes of number formats: sections, and the pieces of each.

/// AM and PM in Chinese.
const HALVES: &str = "上午/下午";

/// A piece of a code.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Text(String),
    /// `0`, `#` or `?`.
    Digit(char),
    Point,
    Comma,
    Percent,
    /// `E+` or `E-`.
    Exponent(bool),
    Slash,
    General,
    /// A part of a date or time, with its letters.
    Date(char, usize),
    /// Hours, minutes or seconds in all.
    Elapsed(char, usize),
    /// AM or PM; whether it is short.
    Half(bool),
}

/// A section of a code, for some numbers.
#[derive(Debug, Default)]
pub(super) struct Section {
    pub(super) condition: Option<(String, f64)>,
    pub(super) tokens: Vec<Token>,
    /// Whether it has the place of a text.
    is_of_text: bool,
}

/// The sections of a code.
pub(super) fn split(code: &str) -> Vec<String> {
    let (mut sections, mut quoted, mut escaped, mut in_brackets) = (vec![String::new()], false, false, false);
    for c in code.chars() {
        if c == ';' && !quoted && !escaped && !in_brackets {
            sections.push(String::new());
            continue;
        }
        match c {
            _ if escaped => escaped = false,
            '"' => quoted = !quoted,
            '\\' | '_' | '*' if !quoted => escaped = true,
            '[' if !quoted => in_brackets = true,
            ']' if !quoted => in_brackets = false,
            _ => {}
        }
        if let Some(last) = sections.last_mut() {
            last.push(c);
        }
    }
    sections
}

/// The section for a number, and whether the number keeps its sign.
pub(super) fn choose(sections: &[Section], number: f64) -> (Option<&Section>, bool) {
    // Behind those for numbers may be one for texts.
    let sections = match sections {
        [numbers @ .., text] if text.is_of_text && !numbers.is_empty() => numbers,
        all => all,
    };
    if sections.iter().any(|section| section.condition.is_some()) {
        let holds = |section: &&Section| match &section.condition {
            Some((sign, bound)) => match sign.as_str() {
                "<" => number < *bound,
                "<=" => number <= *bound,
                ">" => number > *bound,
                ">=" => number >= *bound,
                "<>" => number != *bound,
                _ => number == *bound,
            },
            None => true,
        };
        return (sections.iter().take(3).find(holds), number < 0.0);
    }
    match sections {
        [] => (None, false),
        [one] => (Some(one), number < 0.0),
        [_, negative, ..] if number < 0.0 => (Some(negative), negative.shows_signs()),
        [_, _, zero, ..] if number == 0.0 => (Some(zero), false),
        [positive, ..] => (Some(positive), false),
    }
}

impl Section {
    /// Whether a number keeps its sign in a section for negative ones: as it is without a format, with at most white space.
    fn shows_signs(&self) -> bool {
        let is_plain = |token: &Token| match token {
            Token::General => true,
            Token::Text(text) => text.trim().is_empty(),
            _ => false,
        };
        self.tokens.contains(&Token::General) && self.tokens.iter().all(is_plain)
    }

    pub(super) fn parse(code: &str) -> Section {
        let mut section = Section::default();
        let mut rest = code;
        while let Some(c) = rest.chars().next() {
            let mut length = c.len_utf8();
            let after = &rest[length..];
            let next = after.chars().next();
            let lower = rest.to_ascii_lowercase();
            match c {
                '"' => {
                    let end = after.find('"').unwrap_or(after.len());
                    section.text(&after[..end]);
                    length += (end + 1).min(after.len());
                }
                '\\' => {
                    section.text(next.map_or("", |next| &after[..next.len_utf8()]));
                    length += next.map_or(0, char::len_utf8);
                }
                // As wide as a character, and a character that fills the cell.
                '_' | '*' => {
                    section.text(if c == '_' { " " } else { "" });
                    length += next.map_or(0, char::len_utf8);
                }
                '[' => {
                    let end = after.find(']').unwrap_or(after.len());
                    section.bracket(&after[..end]);
                    length += (end + 1).min(after.len());
                }
                '0' | '#' | '?' => section.tokens.push(Token::Digit(c)),
                '.' => section.tokens.push(Token::Point),
                ',' => section.tokens.push(Token::Comma),
                '%' => section.tokens.push(Token::Percent),
                '/' => section.tokens.push(Token::Slash),
                'E' | 'e' if matches!(next, Some('+' | '-')) => {
                    section.tokens.push(Token::Exponent(next == Some('+')));
                    length += 1;
                }
                'G' | 'g' if lower.starts_with("general") => {
                    section.tokens.push(Token::General);
                    length = "general".len();
                }
                '@' => {
                    section.tokens.push(Token::General);
                    section.is_of_text = true;
                }
                'A' | 'a' if lower.starts_with("am/pm") || lower.starts_with("a/p") => {
                    let is_short = lower.starts_with("a/p");
                    section.tokens.push(Token::Half(is_short));
                    length = if is_short { 3 } else { 5 };
                }
                _ if rest.starts_with(HALVES) => {
                    section.tokens.push(Token::Half(false));
                    length = HALVES.len();
                }
                c if section.begins_date(&lower) => {
                    let letter = c.to_ascii_lowercase();
                    length = lower.find(|other| other != letter).unwrap_or(lower.len());
                    section.tokens.push(Token::Date(letter, length));
                }
                c => section.text(c.encode_utf8(&mut [0; 4])),
            }
            rest = &rest[length..];
        }
        section
    }

    /// Whether a code in small letters begins with a part of a date. Years of eras (`e`, `g`, `b`) and days of the week
    /// (`aaa`) stand in dates of East Asia. Behind digits such a letter is a text.
    fn begins_date(&self, code: &str) -> bool {
        let has_digits = || self.tokens.iter().any(|token| matches!(token, Token::Digit(_)));
        code.starts_with(['y', 'm', 'd', 'h', 's'])
            || (code.starts_with(['e', 'g', 'b']) || code.starts_with("aaa")) && !has_digits()
    }

    fn text(&mut self, text: &str) {
        match self.tokens.last_mut() {
            Some(Token::Text(before)) => before.push_str(text),
            _ => self.tokens.push(Token::Text(text.to_owned())),
        }
    }

    /// What is in brackets: a currency, a condition, elapsed time; colours say nothing.
    fn bracket(&mut self, inner: &str) {
        let lower = inner.to_ascii_lowercase();
        if let Some(currency) = inner.strip_prefix('$') {
            self.text(currency.split('-').next().unwrap_or_default());
        } else if let Some(letter) = lower.chars().next().filter(|c| "hms".contains(*c))
            && lower.chars().all(|c| c == letter)
        {
            self.tokens.push(Token::Elapsed(letter, lower.len()));
        } else if inner.starts_with(['<', '>', '=']) {
            let end = inner.find(|c| !"<>=".contains(c)).unwrap_or(inner.len());
            self.condition = inner[end..].trim().parse().ok().map(|bound| (inner[..end].to_owned(), bound));
        }
    }
}

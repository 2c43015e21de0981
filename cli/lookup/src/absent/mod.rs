//! What of an answer does not stand in the documents: numbers, dates, quotations, names, and addresses. Ordinary words are
//! left alone.
//!
//! It needs no model, and it knows no arithmetic: a sum of numbers that stand there does not stand there itself. What is
//! found is no proof of a mistake, and what is not found is no proof of the opposite. The same number written in another
//! way is the same (`1,500.00` and `1500`, `five` and `5`, `2024-03-05` and `5 March 2024`), and names may be inflected.

mod dates;
mod line;
mod numbers;
mod words;

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use self::dates::Date;
use self::words::Language;
use crate::fold;
use crate::tokens::{Kind as TokenKind, Token, digit, tokens};

/// Groups of digits that may be one number.
const MAX_GROUPS: usize = 8;
/// The language of documents is told from so many bytes.
const SAMPLE_BYTES: usize = 20_000;

/// What stands in the documents and in the questions.
#[derive(Clone, Debug, Default)]
pub struct Known {
    words: HashSet<String>,
    numbers: HashSet<String>,
    dates: HashSet<Date>,
    /// Days of months without a year.
    yearless: HashSet<(u32, Option<u32>)>,
    times: HashSet<u32>,
    /// Months and words such as `million` that are named.
    months: HashSet<u32>,
    scales: HashSet<usize>,
    /// Letters and digits of everything, without anything between them.
    compact: String,
    /// First letters of all words, and of words with a capital letter that follow each other.
    initials: String,
    capitals: String,
    documents: Option<Language>,
    questions: Option<Language>,
}

/// What kind of thing does not stand in the documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number, or a name with digits such as `A320`.
    Number,
    /// A date or a time of day.
    Date,
    /// Words in quotation marks.
    Quotation,
    /// A name.
    Name,
    /// An address: of e-mail, or of the web.
    Address,
}

impl Kind {
    /// Its name in data.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Number => "number",
            Kind::Date => "date",
            Kind::Quotation => "quotation",
            Kind::Name => "name",
            Kind::Address => "address",
        }
    }
}

/// A part of an answer that does not stand in the documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent {
    /// What it is.
    pub kind: Kind,
    /// Its bytes in the answer.
    pub range: Range<usize>,
}

impl Known {
    /// Nothing yet.
    pub fn new() -> Known {
        Known::default()
    }

    /// Takes the text of a document.
    pub fn add_document(&mut self, text: &str) {
        let sample = (0..=text.len().min(SAMPLE_BYTES)).rev().find(|at| text.is_char_boundary(*at));
        self.documents = self.documents.or_else(|| language_of(&text[..sample.unwrap_or(0)]));
        self.add(text);
    }

    /// Takes a question, in whose language the answer will be.
    pub fn add_question(&mut self, text: &str) {
        self.questions = language_of(text);
        self.add(text);
    }

    /// Takes any other text that an answer may repeat.
    pub fn add(&mut self, text: &str) {
        self.compact.push_str(&fold::compact(text));
        // Nothing reaches over the end of a text.
        self.compact.push(' ');
        self.initials.push(' ');
        self.capitals.push(' ');
        let tokens = tokens(text);
        for (at, token) in tokens.iter().enumerate() {
            let own = &text[token.range.clone()];
            match token.kind {
                TokenKind::Word => self.add_word(own, at, &tokens),
                TokenKind::Number => self.add_number(text, at, &tokens),
                TokenKind::Sign(sign) => self.add_sign(sign, &tokens[at + 1..]),
            }
            if let Some(month) = dates::month_of_year(text, &tokens[at..]) {
                self.add_date(month);
            }
            if let Some(found) = dates::date(text, &tokens[at..tokens.len().min(at + 12)]) {
                found.readings.iter().for_each(|date| self.add_date(*date));
                self.add_range(text, at, &tokens, found.readings[0]);
                self.add_range_behind(text, &tokens[at + found.tokens..], found.readings[0]);
            }
            if let Some(found) = dates::time(text, &tokens[at..tokens.len().min(at + 12)]) {
                self.times.extend(found.readings);
            }
        }
    }

    fn add_word(&mut self, own: &str, at: usize, tokens: &[Token]) {
        let word = &tokens[at].folded;
        let is_capital = own.chars().next().is_some_and(char::is_uppercase);
        if let Some(first) = word.chars().next() {
            self.initials.push(first);
            if is_capital {
                self.capitals.push(first);
            } else if word.chars().count() > 3 && !self.capitals.ends_with(' ') {
                self.capitals.push(' ');
            }
        }
        if let Some(number) = numbers::of_word(word) {
            let mut sum = number;
            // `twenty-five` and `twenty five`.
            let next = at
                + 1
                + usize::from(tokens.get(at + 1).is_some_and(|token| token.kind == TokenKind::Sign('-')));
            let unit = tokens.get(next).and_then(|token| numbers::of_word(&token.folded));
            if let Some(unit) = unit.filter(|unit| number >= 10 && number % 10 == 0 && (1..10).contains(unit))
            {
                sum += unit;
                self.numbers.insert(sum.to_string());
            }
            self.numbers.insert(number.to_string());
            self.add_words_behind(sum, at, tokens);
            self.add_day_in_words(sum, &tokens[next..]);
        } else if let Some(zeros) = numbers::scale(word).filter(|_| word.len() > 3) {
            // `thousand` alone.
            self.numbers.insert(numbers::scaled("1", zeros));
        } else if word == "hundred" || word == "hundert" || word == "cent" || word == "cien" {
            self.numbers.insert("100".to_owned());
        }
        // `one and a half million`
        if word == "half"
            && let Some([number, .., article]) = at.checked_sub(3).map(|from| &tokens[from..at])
            && article.folded == "a"
            && let Some(number) = numbers::of_word(&number.folded)
        {
            let value = format!("{number}.5");
            let zeros = tokens.get(at + 1).and_then(|next| numbers::scale(&next.folded));
            self.numbers.extend(zeros.map(|zeros| numbers::scaled(&value, zeros)));
            self.numbers.insert(value);
        }
        if let Some(number) = numbers::roman(own) {
            self.numbers.insert(number.to_string());
        }
        // Digits of Chinese and Japanese.
        if own.chars().next().is_some_and(crate::tokens::is_ideograph) {
            for c in own.chars() {
                let number = numbers::of_word(c.encode_utf8(&mut [0; 4]));
                self.numbers.extend(number.map(|number| number.to_string()));
            }
        }
        if !self.words.contains(word) {
            // `two thirds`
            let part = word.strip_suffix('s').and_then(numbers::of_word).filter(|part| *part > 2);
            self.numbers.extend(part.map(|part| part.to_string()));
            self.months.extend(dates::month(word));
            self.scales.extend(numbers::scale(word));
            self.words.insert(word.clone());
        }
    }

    /// A day in words, such as `twenty-third day of May`. `from`: the tokens from its last word on, or from the one behind it.
    fn add_day_in_words(&mut self, day: u64, from: &[Token]) {
        let mut behind = from.iter().take(4).map(|token| token.folded.as_str());
        let is_between =
            |word: &str| ["day", "of", "the"].contains(&word) || numbers::of_word(word).is_some();
        let month = behind.find(|word| !is_between(word)).and_then(dates::month);
        if let (Some(month), Ok(day @ 1..=31)) = (month, u32::try_from(day)) {
            self.add_date(Date { year: None, month, day: Some(day) });
        }
    }

    /// Numbers in words such as `two hundred and fifty thousand`, of which the first word is known.
    fn add_words_behind(&mut self, first: u64, at: usize, tokens: &[Token]) {
        let (mut sum, mut part) = (0u64, first);
        let mut is_larger = false;
        let words = tokens[at + 1..].iter().take(12).map(|token| token.folded.as_str());
        for word in words.filter(|word| !word.is_empty()) {
            if word == "and" || word == "und" {
                continue;
            } else if word == "hundred" || word == "hundert" {
                (part, is_larger) = (part.max(1).saturating_mul(100), true);
            } else if let Some(zeros) = numbers::scale(word).filter(|zeros| word.len() > 2 && *zeros >= 3) {
                sum = sum.saturating_add(part.saturating_mul(10u64.saturating_pow(zeros as u32)));
                (part, is_larger) = (0, true);
            } else if let Some(number) = numbers::of_word(word).filter(|_| is_larger || part % 10 == 0) {
                part = part.saturating_add(number);
            } else {
                break;
            }
            self.numbers.insert(sum.saturating_add(part).to_string());
        }
    }

    fn add_number(&mut self, text: &str, at: usize, tokens: &[Token]) {
        let own = &text[tokens[at].range.clone()];
        let values = numbers::values(own);
        // The word behind it, or the unit before that: `€2.5m`, `2.5 million`.
        if let Some(zeros) = tokens.get(at + 1).and_then(|next| numbers::scale(&next.folded)) {
            self.numbers.extend(values.iter().map(|value| numbers::scaled(value, zeros)));
        }
        if own.matches('.').count() == 2 {
            self.numbers.extend(dates::parts(own));
        }
        self.times.extend(dates::time_of_number(own));
        self.times.extend(dates::hour(text, tokens, at));
        let attached = |at: usize| tokens.get(at).filter(|token| !token.is_spaced);
        // `5½`
        if let Some(Token { kind: TokenKind::Sign(sign), .. }) = attached(at + 1)
            && let Some([.., value]) = numbers::fraction(*sign)
        {
            self.numbers
                .extend(values.iter().map(|whole| format!("{whole}{}", value.trim_start_matches('0'))));
        }
        // `'92`
        let is_short = at.checked_sub(1).is_some_and(|before| {
            tokens[before].kind == TokenKind::Sign('\'') || tokens[before].kind == TokenKind::Sign('\u{2019}')
        });
        if is_short && !tokens[at].is_spaced {
            self.numbers.extend(dates::years(own).iter().map(u32::to_string));
        }
        // `30_000`, as in source code.
        let mut code = digits_of(own);
        let mut group = at;
        while let (Some(Token { kind: TokenKind::Sign('_'), .. }), Some(next)) =
            (attached(group + 1), attached(group + 2))
            && next.kind == TokenKind::Number
            && next.folded.len() == 3
            && group < at + 2 * MAX_GROUPS
        {
            code += &next.folded;
            group += 2;
            self.numbers.insert(numbers::whole(&code));
        }
        // Parts of `1,2,3`.
        if own.contains([',', '.']) && values.len() == 1 {
            self.numbers.extend(own.split([',', '.']).map(numbers::whole));
        }
        self.numbers.extend(values);
        // `20 000 000`. Longer numbers of other groups, such as those of telephones, are found without what is between them.
        let mut digits = digits_of(own);
        let mut next = at;
        while digits.len() <= 3 * MAX_GROUPS
            && let Some((group, more)) = next_group(text, tokens, next).filter(|(_, more)| more.len() == 3)
            && (digits.len() <= 3 || next > at)
        {
            digits += &more;
            next = group;
            self.numbers.insert(numbers::whole(&digits));
        }
    }

    /// A sign that stands for numbers: `¾`, and the first of raised digits. `behind`: the tokens behind it.
    fn add_sign(&mut self, sign: char, behind: &[Token]) {
        self.numbers.extend(numbers::fraction(sign).into_iter().flatten());
        let Some(first) = numbers::raised(sign) else { return };
        let more = behind.iter().map_while(|token| match token.kind {
            TokenKind::Sign(sign) if !token.is_spaced => numbers::raised(sign),
            _ => None,
        });
        let digits: String = std::iter::once(first).chain(more.take(MAX_GROUPS)).collect();
        self.numbers.insert(numbers::whole(&digits));
    }

    fn add_date(&mut self, date: Date) {
        self.dates.insert(date);
        if date.year.is_none() {
            self.yearless.insert((date.month, date.day));
        }
        self.dates.insert(Date { year: None, ..date });
        self.dates.insert(Date { day: None, ..date });
        // In documents of digits only, a year is a part of a number.
        self.numbers
            .extend([date.year, Some(date.month), date.day].into_iter().flatten().map(|n| n.to_string()));
    }

    /// The first day of `3–5 March` and `3 to 5 March`.
    fn add_range(&mut self, text: &str, at: usize, tokens: &[Token], date: Date) {
        let Some([first, between]) = at.checked_sub(2).and_then(|from| tokens.get(from..at)) else { return };
        let word = &text[between.range.clone()];
        let joins =
            ["-", "–", "—", "to", "and", "bis", "und", "au", "et", "al", "y", "e", "&", ","].contains(&word);
        let day: Option<u32> = text[first.range.clone()].parse().ok().filter(|day| (1..=31).contains(day));
        if joins && day.is_some() && date.day.is_some() {
            self.add_date(Date { day, ..date });
        }
    }

    /// The last day of `March 3–5`. `behind`: the tokens behind the date.
    fn add_range_behind(&mut self, text: &str, behind: &[Token], date: Date) {
        let [between, last, ..] = behind else { return };
        let joins = ["-", "–", "—", "to"].contains(&&text[between.range.clone()]);
        let day = dates::day(&last.folded);
        if joins && day.is_some() && date.day.is_some() {
            self.add_date(Date { day, ..date });
        }
    }

    /// What of an answer does not stand in what is known, in the order of the answer.
    ///
    /// ```
    /// let mut known = lookup::absent::Known::new();
    /// known.add_document("The rent is EUR 1,450.00 from 1 March 2024 on, says Ms Miller.");
    /// known.add_question("What is the rent?");
    /// let answer = "Ms Miller asks for 1450 euros from 2024-03-01 on, and for 200 euros of Mr Baker.";
    /// let absent = known.absent_from(answer);
    /// let texts: Vec<&str> = absent.iter().map(|absent| &answer[absent.range.clone()]).collect();
    /// assert_eq!(texts, ["200", "Baker"]);
    /// ```
    pub fn absent_from(&self, answer: &str) -> Vec<Absent> {
        let (mut absent, mut at, mut fence) = (Vec::new(), 0, false);
        let is_only = answer.trim().lines().count() == 1;
        for line in answer.split_inclusive('\n') {
            let trimmed = line.trim_start();
            let is_fence = trimmed.starts_with("```") || trimmed.starts_with("~~~");
            fence ^= is_fence;
            // Code is written by the model, and nobody takes it for a part of a document.
            if !fence && !is_fence {
                let skipped = line::marker(line);
                let is_heading = trimmed.starts_with('#');
                let state =
                    line::LineState { ignores_names: is_heading, is_only, ..line::LineState::default() };
                let found = line::Reader::new(self, state).read(&line[skipped..]);
                absent.extend(found.into_iter().map(|absent| {
                    let range = absent.range.start + at + skipped..absent.range.end + at + skipped;
                    Absent { range, ..absent }
                }));
            }
            at += line.len();
        }
        absent
    }

    /// Reads a line of an answer while it is being written.
    pub fn line(self: &Arc<Self>) -> Line {
        Line { known: self.clone(), state: line::LineState::default(), pending: String::new() }
    }

    /// Whether answers are in the language of the documents, as far as that is known.
    fn is_one_language(&self) -> bool {
        match (self.documents, self.questions) {
            (Some(documents), Some(questions)) => documents == questions,
            _ => true,
        }
    }

    fn answers_in(&self) -> Option<Language> {
        self.questions.or(self.documents)
    }
}

/// A line of an answer that is being written.
pub struct Line {
    known: Arc<Known>,
    state: line::LineState,
    pending: String,
}

impl Line {
    /// The line is a heading, in which words have capital letters.
    pub fn is_heading(&mut self) {
        self.state.ignores_names = true;
    }

    /// The line is all of the answer: a single word may be a name.
    pub fn is_only(&mut self) {
        self.state.is_only = true;
    }

    /// Takes more of the line. Returns what more text cannot change: pieces of the text in order, and whether each stands
    /// in the documents. `is_whole`: the line ends.
    pub fn push(&mut self, text: &str, is_whole: bool) -> Vec<(String, bool)> {
        self.pending += text;
        let end = if is_whole { self.pending.len() } else { line::settled(&self.pending) };
        let rest = self.pending.split_off(end);
        let settled = std::mem::replace(&mut self.pending, rest);
        let mut pieces = Vec::new();
        let mut at = 0;
        let mut reader = line::Reader::new(&self.known, self.state);
        let absent = reader.read(&settled);
        self.state = reader.state();
        for absent in absent {
            pieces.push((settled[at..absent.range.start].to_owned(), true));
            pieces.push((settled[absent.range.clone()].to_owned(), false));
            at = absent.range.end;
        }
        pieces.push((settled[at..].to_owned(), true));
        pieces.retain(|(text, _)| !text.is_empty());
        pieces
    }
}

fn language_of(text: &str) -> Option<Language> {
    let words: Vec<String> =
        text.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty()).map(fold::word).collect();
    words::language(words.iter().map(String::as_str))
}

fn digits_of(text: &str) -> String {
    text.chars().filter_map(|c| digit(c).and_then(|digit| char::from_digit(digit, 10))).collect()
}

/// The number behind a number, if nothing but a space is between them: its token and its digits.
fn next_group(text: &str, tokens: &[Token], at: usize) -> Option<(usize, String)> {
    let token = tokens.get(at + 1).filter(|token| token.kind == TokenKind::Number)?;
    let own = &text[token.range.clone()];
    let between = &text[tokens[at].range.end..token.range.start];
    let is_group = between.chars().count() <= 1 && !between.contains('\n') && !own.contains(['.', ',']);
    is_group.then(|| (at + 1, digits_of(own)))
}

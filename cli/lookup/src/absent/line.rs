//! Reads a line of an answer from left to right. What is read may be a part of a line: [`settled`] says where one may end,
//! so that more text changes nothing before it.

use std::ops::Range;

use super::words::{Language, is_ordinary, is_title};
use super::{Absent, Date, Kind, Known, MAX_GROUPS, TokenKind, dates, digits_of, numbers};
use crate::fold;
use crate::tokens::{Token, is_ideograph, tokens};

/// Text that is held back until it is known what it is, in bytes. What is longer is taken as it is.
const MAX_HELD: usize = 300;
/// Longest quotation that is looked for, in bytes.
const MAX_QUOTATION: usize = 2000;
/// What e-mail and web addresses without `https://` end with.
const TOP_DOMAINS: &[&str] = &[
    "com", "org", "net", "edu", "gov", "int", "io", "info", "dev", "app", "de", "at", "ch", "fr", "es", "it",
    "pt", "nl", "be", "uk", "eu", "pl", "cz", "se", "no", "dk", "fi", "ru", "jp", "cn", "kr", "in", "br",
    "mx", "us", "ca", "au",
];
/// Words with which a name or a date may go on, or a number be one of an enumeration.
const CONNECTING: &[&str] = &[
    "of", "de", "di", "del", "della", "van", "von", "der", "den", "la", "le", "du", "da", "dos", "and",
    "und", "et", "y", "e", "to", "bis", "the", "for", "am", "pm", "a", "p", "m", "uhr", "h", "st", "nd",
    "rd", "th", "er", "o", "clock", "at", "step", "option", "point", "item", "part", "no", "nr", "question",
    "schritt", "punkt",
];
/// Numbers behind these may be those of an enumeration.
const ENUMERATED: &[&str] = &["step", "option", "point", "item", "part", "question", "schritt", "punkt"];

/// Reads a line, piece by piece.
pub(super) struct Reader<'a> {
    known: &'a Known,
    state: LineState,
}

/// Where in an answer a reader is.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineState {
    /// Whether a sentence begins.
    pub(super) starts: bool,
    /// Whether names are left alone, as in headings.
    pub(super) ignores_names: bool,
    /// Whether the line is all of the answer: a single word may be a name.
    pub(super) is_only: bool,
}

impl Default for LineState {
    fn default() -> LineState {
        LineState { starts: true, ignores_names: false, is_only: false }
    }
}

/// What is read at the moment.
struct Piece<'t> {
    text: &'t str,
    tokens: Vec<Token>,
    absent: Vec<Absent>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(known: &'a Known, state: LineState) -> Reader<'a> {
        Reader { known, state }
    }

    /// Where it is.
    pub(super) fn state(&self) -> LineState {
        self.state
    }

    /// What of a piece does not stand in what is known.
    pub(super) fn read(&mut self, text: &str) -> Vec<Absent> {
        let mut piece = Piece { text, tokens: tokens(text), absent: Vec::new() };
        let mut taken = self.addresses(&mut piece);
        taken.extend(self.quotations(&mut piece, &taken));
        taken.sort_by_key(|range| range.start);
        let mut at = 0;
        while let Some(Token { kind, range, .. }) = piece.tokens.get(at) {
            let (kind, start) = (*kind, range.start);
            if let Some(taken) = taken.iter().find(|range| range.contains(&start)) {
                at += piece.tokens[at..].iter().take_while(|token| token.range.start < taken.end).count();
                self.state.starts = false;
                continue;
            }
            at += match kind {
                TokenKind::Sign(sign) => {
                    self.sign(sign, &piece, at);
                    1
                }
                TokenKind::Number | TokenKind::Word => match self.date(&mut piece, at) {
                    0 if kind == TokenKind::Number => self.number(&mut piece, at),
                    0 => self.word(&mut piece, at),
                    read => read,
                },
            };
        }
        piece.absent.sort_by_key(|absent| absent.range.start);
        // A date may reach into a quotation.
        let mut end = 0;
        piece.absent.retain(|absent| {
            let is_behind = absent.range.start >= end;
            if is_behind {
                end = absent.range.end;
            }
            is_behind
        });
        piece.absent
    }

    /// A sign may end a sentence.
    fn sign(&mut self, sign: char, piece: &Piece, at: usize) {
        match sign {
            '.' => {
                let before = at.checked_sub(1).map(|before| piece.word(before)).unwrap_or_default();
                // `Dr. Miller`, `J. Smith`.
                let is_short = is_title(before) || before.chars().count() == 1;
                self.state.starts |= !is_short;
            }
            '!' | '?' | ':' | '|' | '\u{2026}' | '。' | '：' => self.state.starts = true,
            _ => {}
        }
    }

    /// A date or a time of day. Returns how many tokens it takes; 0 where none begins.
    fn date(&mut self, piece: &mut Piece, at: usize) -> usize {
        let rest = &piece.tokens[at..];
        let (read, is_known) = if let Some(found) = dates::date(piece.text, rest) {
            (found.tokens, found.readings.iter().any(|date| self.has_date(*date)))
        } else if let Some(found) = dates::time(piece.text, rest) {
            (found.tokens, found.readings.iter().any(|time| self.known.times.contains(time)))
        } else {
            return 0;
        };
        if !is_known {
            piece.push(Kind::Date, at, read);
        }
        self.state.starts = false;
        read
    }

    fn has_date(&self, date: Date) -> bool {
        let known = self.known;
        let has_year = |year: Option<u32>| year.is_some_and(|year| known.numbers.contains(&year.to_string()));
        known.dates.contains(&date)
            || known.yearless.contains(&(date.month, date.day)) && has_year(date.year)
            || date.day.is_none() && has_year(date.year) && known.months.contains(&date.month)
    }

    /// A number. Returns how many tokens it takes.
    fn number(&mut self, piece: &mut Piece, at: usize) -> usize {
        self.state.starts = false;
        let token = &piece.tokens[at];
        let own = &piece.text[token.range.clone()];
        if piece.is_enumeration(at) {
            return 1;
        }
        if let Some(from) = piece.code(at) {
            let end = at + 1 - from;
            let whole = fold::compact(&piece.text[piece.tokens[from].range.start..token.range.end]);
            if !self.known.compact.contains(&whole) && !self.is_period(piece, from, at) {
                piece.push(Kind::Number, from, end);
            }
            return 1;
        }
        let numbers = &self.known.numbers;
        // `1 234 567`, and numbers of telephones.
        let groups = piece.groups(at);
        if groups > 1 {
            let range = token.range.start..piece.tokens[at + groups - 1].range.end;
            let digits = digits_of(&piece.text[range]);
            if numbers.contains(&numbers::whole(&digits)) || self.known.compact.contains(&digits) {
                return groups;
            }
        }
        let values = numbers::values(own);
        let scale = piece.tokens.get(at + 1).and_then(|_| numbers::scale(piece.word(at + 1)));
        let has = |value: &String| numbers.contains(value);
        let is_known = match scale {
            None => {
                values.iter().any(has)
                    || own.len() >= 7 && self.known.compact.contains(&digits_of(own))
                    || dates::time_of_number(own).is_some_and(|time| self.known.times.contains(&time))
                    || self.is_decade(piece, at)
            }
            Some(zeros) => {
                let scaled = values.iter().any(|value| has(&numbers::scaled(value, zeros)));
                // A table may say `in millions` elsewhere, and the B of `44 B.C.` is no billion.
                let may_be_none = self.known.scales.contains(&zeros) || piece.word(at + 1).len() == 1;
                scaled || values.iter().any(has) && may_be_none
            }
        } || self.is_short_year(piece, at);
        if !is_known {
            piece.push(Kind::Number, at, 1);
        }
        1
    }

    /// Whether letters and digits name a known year or a part of one: `FY2023`, `FY23`, `Q3`, `H1`.
    fn is_period(&self, piece: &Piece, from: usize, at: usize) -> bool {
        let (letters, number) = (piece.word(from), piece.word(at));
        let has = |number: &str| self.known.numbers.contains(&numbers::whole(number));
        let has_word = |words: &[&str]| words.iter().any(|word| self.known.words.contains(*word));
        from + 1 == at
            && match letters {
                "fy" => has(number) || dates::years(number).iter().any(|year| has(&year.to_string())),
                "q" => has(number) && has_word(&["quarter", "quarters", "quartal", "trimestre", "kwartaal"]),
                "h" => has(number) && has_word(&["half", "halbjahr", "semestre"]),
                _ => false,
            }
    }

    /// Whether a number is the end of a known year: `'23`, `2023/24`.
    fn is_short_year(&self, piece: &Piece, at: usize) -> bool {
        piece.short_years(at).is_some_and(|years| years.iter().any(|year| self.known.numbers.contains(year)))
    }

    /// Whether a number is that of years, one of which is known: `1490s`, `1490er`.
    fn is_decade(&self, piece: &Piece, at: usize) -> bool {
        let ends = piece.tokens.get(at + 1).filter(|next| !next.is_spaced).map(|next| next.folded.as_str());
        let year: Option<u32> = piece.word(at).parse().ok().filter(|year| (1000..2200).contains(year));
        matches!(ends, Some("s" | "er" | "ern"))
            && year.is_some_and(|year| {
                (year..year + 10).any(|year| self.known.numbers.contains(&year.to_string()))
            })
    }

    /// A word, and those with capital letters that follow it. Returns how many tokens were read.
    fn word(&mut self, piece: &mut Piece, at: usize) -> usize {
        let starts = std::mem::take(&mut self.state.starts);
        let run = piece.capitals(at);
        if run.is_empty() {
            return 1;
        }
        let read = run.last().map_or(1, |last| last + 1 - at);
        if self.state.ignores_names || !self.known.is_one_language() {
            return read;
        }
        let is_unknown: Vec<bool> = run.iter().map(|at| !self.has_name(piece, *at)).collect();
        if !is_unknown.contains(&true) || self.has_run(piece, at, read) {
            return read;
        }
        let behind = piece.sign_behind(at + read);
        // `Key Points:` begins what is said, and is no name.
        let is_label = starts && behind == Some(':');
        let is_end = behind.is_none() || behind == Some('.') && at + read + 1 == piece.tokens.len();
        let is_alone =
            starts && (run.len() > 1 && (is_end || behind == Some('|')) || self.state.is_only && is_end);
        let all = is_unknown.iter().all(|unknown| *unknown);
        let has_title = at.checked_sub(1).is_some_and(|before| {
            is_title(piece.word(before)) || ["herr", "frau", "herrn"].contains(&piece.word(before))
        });
        let inner_title = run.iter().any(|at| ["herr", "frau", "herrn"].contains(&piece.word(*at)));
        let is_name = match (self.known.answers_in(), starts) {
            _ if is_label => false,
            _ if is_alone => all && !(run.len() == 1 && piece.word(at).chars().count() < 3),
            (Some(Language::German), _) => has_title || inner_title || run.len() > 1 && all,
            // The first word of a sentence has a capital letter whatever it is.
            (_, true) => is_unknown.iter().skip(1).any(|unknown| *unknown),
            (_, false) => true,
        };
        if is_name {
            // An ordinary word before the name is no part of it.
            let first = is_unknown.iter().position(|unknown| *unknown).unwrap_or(0);
            let is_part = |i: usize| (i > 0 || !starts) && !is_ordinary(piece.word(run[i]));
            let from = (0..=first).find(|i| *i == first || is_part(*i)).unwrap_or(first);
            let last = is_unknown.iter().rposition(|unknown| *unknown).unwrap_or(first);
            let (from, last) = (run[from], run[last]);
            piece.push(Kind::Name, from, last + 1 - from);
        }
        read
    }

    /// Whether a word with a capital letter stands in what is known, or need not.
    fn has_name(&self, piece: &Piece, at: usize) -> bool {
        let own = &piece.text[piece.tokens[at].range.clone()];
        let word = piece.word(at);
        let known = self.known;
        let length = word.chars().count();
        if length < 2 || own.chars().any(is_ideograph) || is_ordinary(word) {
            return true;
        }
        let has = |word: &str| {
            known.words.contains(word) || word.chars().count() >= 5 && known.compact.contains(word)
        };
        let endings = [("ies", "y"), ("es", ""), ("s", ""), ("n", ""), ("en", "")];
        let without = |(ending, other): &(&str, &str)| {
            word.strip_suffix(ending)
                .is_some_and(|stem| stem.len() > 2 && known.words.contains(&format!("{stem}{other}")))
        };
        // `Mueller` and `Müller`.
        let umlauts = || has(&word.replace("ae", "a").replace("oe", "o").replace("ue", "u"));
        let is_acronym = (2..=6).contains(&length) && own.chars().all(char::is_uppercase);
        let is_inflected = !matches!(
            known.answers_in(),
            Some(
                Language::English
                    | Language::French
                    | Language::Spanish
                    | Language::Italian
                    | Language::Portuguese
                    | Language::Dutch
            )
        );
        // `XIX` for the 19th.
        let is_number = || numbers::roman(own).is_some_and(|n| known.numbers.contains(&n.to_string()));
        let stem = || {
            let stem: String = word.chars().take(length.saturating_sub(3).max(4)).collect();
            length >= 4 && known.compact.contains(&stem)
        };
        has(word)
            || endings.iter().any(without)
            || umlauts()
            || is_acronym && (length > 3 && known.initials.contains(word) || known.capitals.contains(word))
            || is_inflected && stem()
            || is_number()
    }

    /// Whether words with capital letters stand there as one word, or as their first letters.
    fn has_run(&self, piece: &Piece, at: usize, read: usize) -> bool {
        let words: Vec<&str> = (at..at + read).map(|at| piece.word(at)).collect();
        let whole = words.concat();
        let initials: String = words.iter().filter_map(|word| word.chars().next()).collect();
        whole.len() >= 6 && self.known.compact.contains(&whole)
            || initials.len() >= 2 && self.known.words.contains(&initials)
    }

    /// Addresses. Returns where they are.
    fn addresses(&self, piece: &mut Piece) -> Vec<Range<usize>> {
        let is_end = |c: char| c.is_whitespace() || "()<>[]{}\"'“”‘’«»,;|`*".contains(c) || is_ideograph(c);
        let mut taken = Vec::new();
        let mut at = 0;
        for chunk in piece.text.split(is_end) {
            let start = at;
            at += chunk.len() + piece.text[at + chunk.len()..].chars().next().map_or(0, char::len_utf8);
            let chunk = chunk.trim_end_matches(|c: char| ".:!?_-/".contains(c));
            let Some(address) = address(chunk) else { continue };
            let range = start..start + chunk.len();
            if !self.known.compact.contains(&fold::compact(address)) {
                piece.absent.push(Absent { kind: Kind::Address, range: range.clone() });
            }
            taken.push(range);
        }
        taken
    }

    /// Quotations of more than one word. Returns where they are.
    fn quotations(&self, piece: &mut Piece, taken: &[Range<usize>]) -> Vec<Range<usize>> {
        if !self.known.is_one_language() {
            return Vec::new();
        }
        let mut found = Vec::new();
        for range in quotations(piece.text).0 {
            let inner = &piece.text[range.clone()];
            let is_short = inner.split_whitespace().count() < 2
                && inner.chars().filter(|c| is_ideograph(*c)).count() < 6;
            if is_short || taken.iter().any(|taken| taken.start < range.end && range.start < taken.end) {
                continue;
            }
            let has = |part: &str| self.known.compact.contains(&fold::compact(part));
            // Parts that are left out, and words that are put in.
            let parts = || inner.split(['\u{2026}', '[', ']']).flat_map(|part| part.split("...")).all(has);
            if !has(inner) && !parts() {
                piece.absent.push(Absent { kind: Kind::Quotation, range: range.clone() });
            }
            found.push(range);
        }
        found
    }
}

impl Piece<'_> {
    /// A word as it is compared; empty for a sign.
    fn word(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| token.folded.as_str())
    }

    fn push(&mut self, kind: Kind, at: usize, tokens: usize) {
        let last = self.tokens.len().min(at + tokens) - 1;
        let mut range = self.tokens[at].range.start..self.tokens[last].range.end;
        let end = self.text[self.tokens[last].range.clone()].chars().next();
        if let Some(end) = end.filter(|end| kind == Kind::Date && is_ideograph(*end)) {
            // `日`, without what follows it.
            range.end = self.tokens[last].range.start + end.len_utf8();
        }
        self.absent.push(Absent { kind, range });
    }

    /// The words with capital letters from here on that belong together.
    fn capitals(&self, at: usize) -> Vec<usize> {
        let is_capital = |at: usize| {
            self.tokens.get(at).is_some_and(|token| {
                token.kind == TokenKind::Word
                    && self.text[token.range.clone()].chars().next().is_some_and(char::is_uppercase)
                    // A name with digits is a number.
                    && self.tokens.get(at + 1).is_none_or(|next| next.is_spaced || next.kind != TokenKind::Number)
            })
        };
        let mut run = Vec::new();
        let mut next = at;
        while is_capital(next) {
            run.push(next);
            next += 1;
            // `Smith-Jones`, `J. Smith`.
            let joins = self.tokens.get(next).is_some_and(|token| {
                let is_initial = || self.word(next - 1).chars().count() == 1;
                match token.kind {
                    TokenKind::Sign('-' | '\u{2010}' | '\u{2011}') => !token.is_spaced,
                    TokenKind::Sign('.') => is_initial(),
                    _ => false,
                }
            });
            next += usize::from(joins && is_capital(next + 1));
        }
        run
    }

    /// The first sign behind a token, without those of Markdown; `None` at the end of the text and before a word.
    fn sign_behind(&self, at: usize) -> Option<char> {
        let behind = self.tokens[at.min(self.tokens.len())..].iter();
        let mut behind =
            behind.skip_while(|token| matches!(token.kind, TokenKind::Sign('*' | '_' | '`' | '"')));
        match behind.next() {
            None => None,
            Some(Token { kind: TokenKind::Sign(sign), .. }) => Some(*sign),
            Some(_) => Some('\0'),
        }
    }

    /// Whether a small number is that of a step or a note: `[1]`, `(2)`, `Step 3`.
    fn is_enumeration(&self, at: usize) -> bool {
        let sign = |at: Option<usize>| match at.and_then(|at| self.tokens.get(at)) {
            Some(Token { kind: TokenKind::Sign(sign), .. }) => Some(*sign),
            _ => None,
        };
        let pair = (sign(at.checked_sub(1)), sign(Some(at + 1)));
        let is_between = matches!(pair, (Some('['), Some(']')) | (Some('('), Some(')')));
        let is_first = at == 0 && matches!(pair.1, Some(')' | '.'));
        let is_named = at.checked_sub(1).is_some_and(|before| ENUMERATED.contains(&self.word(before)));
        self.tokens[at].range.len() <= 2 && (is_between || is_first || is_named)
    }

    /// Where a name with digits begins whose last part is this number: `A320`, `QX-1234`.
    fn code(&self, at: usize) -> Option<usize> {
        let mut from = at;
        while let Some(before) = from.checked_sub(1) {
            let is_part = match self.tokens[before].kind {
                TokenKind::Sign(sign) => {
                    matches!(sign, '-' | '_') && before > 0 && !self.tokens[before].is_spaced
                }
                _ => true,
            };
            if self.tokens[from].is_spaced || !is_part || at - from > MAX_GROUPS {
                break;
            }
            from = before;
        }
        let has_capital = |token: &Token| {
            token.kind == TokenKind::Word && self.text[token.range.clone()].chars().any(char::is_uppercase)
        };
        let is_currency = |word: &str| ["eur", "usd", "chf", "gbp", "us", "rs"].contains(&word);
        let is_code = from < at
            && self.tokens[from..at].iter().any(has_capital)
            && !(from..at).any(|at| is_currency(self.word(at)));
        is_code.then_some(from)
    }

    /// The years that a number of two digits may be the end of: behind an apostrophe, or behind a year of four digits.
    fn short_years(&self, at: usize) -> Option<Vec<String>> {
        let (own, before) = (&self.tokens[at], self.tokens.get(at.checked_sub(1)?)?);
        let TokenKind::Sign(sign) = before.kind else { return None };
        if own.folded.len() != 2 || own.is_spaced {
            return None;
        }
        match sign {
            '\'' | '\u{2019}' => Some(dates::years(&own.folded).iter().map(u32::to_string).collect()),
            '-' | '\u{2013}' | '/' => {
                let year = self.word(at.checked_sub(2)?);
                let century = year.get(..2).filter(|_| year.len() == 4)?;
                Some(vec![format!("{century}{}", own.folded)])
            }
            _ => None,
        }
    }

    /// Groups of digits that may be one number, with nothing but a space between them.
    fn groups(&self, at: usize) -> usize {
        let is_group = |token: &&Token| {
            token.kind == TokenKind::Number && !self.text[token.range.clone()].contains(['.', ','])
        };
        1 + self.tokens[at + 1..].iter().take(MAX_GROUPS).take_while(is_group).count()
    }
}

/// What an address is compared by; `None` for what is none.
fn address(chunk: &str) -> Option<&str> {
    let lower = chunk.to_ascii_lowercase();
    let without = |text: &str| {
        let rest = text.trim_start_matches("https://").trim_start_matches("http://");
        rest.trim_start_matches("www.").len()
    };
    let rest = chunk.get(chunk.len() - without(&lower)..)?;
    let is_web = rest.len() < chunk.len() && rest.contains('.');
    let host =
        lower.rsplit('@').next().unwrap_or_default().split(['/', ':', '?', '#']).next().unwrap_or_default();
    let mut labels = host.split('.');
    let is_label =
        |label: &str| !label.is_empty() && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    let is_host = host.contains('.')
        && labels.clone().all(is_label)
        && host.chars().any(|c| c.is_ascii_alphabetic())
        && labels.next_back().is_some_and(|last| lower.contains('@') || TOP_DOMAINS.contains(&last));
    let is_mail = lower.split_once('@').is_some_and(|(user, _)| !user.is_empty()) && is_host;
    // `e.g` and `i.e` are no hosts.
    (is_web || is_mail || is_host && host.len() > 5).then_some(rest)
}

/// The insides of quotation marks, and where one has begun that is not ended.
fn quotations(text: &str) -> (Vec<Range<usize>>, Option<usize>) {
    let (mut found, mut open) = (Vec::new(), None);
    let (mut at, mut before) = (0, None::<char>);
    while let Some(c) = text[at..].chars().next() {
        let start = at + c.len_utf8();
        let may_open = before.is_none_or(|before| before.is_whitespace() || "([{—–*_:„".contains(before));
        let follows = text[start..].chars().next().is_some_and(|next| !next.is_whitespace());
        let ends: &[char] = match c {
            '“' => &['”', '"'],
            '„' => &['“', '”', '"'],
            '«' => &['»'],
            '»' if may_open && follows => &['«'],
            '「' => &['」'],
            '『' => &['』'],
            '"' if may_open && follows => &['"', '”'],
            _ => &[],
        };
        let mut window = text[start..].char_indices().take_while(|(at, _)| *at < MAX_QUOTATION);
        let end = if ends.is_empty() { None } else { window.find(|(_, c)| ends.contains(c)) };
        match end {
            Some((end, sign)) => {
                found.push(start..start + end);
                (at, before) = (start + end + sign.len_utf8(), Some(sign));
            }
            None => {
                if !ends.is_empty() {
                    open.get_or_insert(at);
                }
                (at, before) = (start, Some(c));
            }
        }
    }
    (found, open)
}

/// How much of a line is what it is, whatever follows: up to a word that can be no part of a name, a date or a quotation.
pub(super) fn settled(text: &str) -> usize {
    let (quotations, open) = quotations(text);
    let open = open.unwrap_or(text.len());
    let mut end = 0;
    for token in tokens(text).iter().filter(|token| token.kind == TokenKind::Word) {
        let own = &text[token.range.clone()];
        let behind = &text[token.range.end..];
        let next = behind.strip_prefix(',').unwrap_or(behind).chars().next();
        let at = if own.chars().any(is_ideograph) {
            // Without spaces, the last letters may belong to what follows.
            match own.char_indices().rev().nth(2) {
                Some((at @ 1.., _)) => token.range.start + at,
                _ => end,
            }
        } else if own.chars().next().is_some_and(char::is_lowercase) && next.is_some_and(char::is_whitespace)
        {
            let word = token.folded.as_str();
            let is_part = CONNECTING.contains(&word)
                || dates::month(word).is_some()
                || numbers::scale(word).is_some()
                || is_title(word);
            let comma = usize::from(behind.starts_with(','));
            let space = next.map_or(0, char::len_utf8);
            if is_part { end } else { token.range.end + comma + space }
        } else {
            end
        };
        if at <= open && !quotations.iter().any(|range| (range.start..=range.end).contains(&at)) {
            end = end.max(at);
        }
    }
    // Whoever reads along should not wait longer.
    if end == 0 && text.len() > MAX_HELD { text.len() } else { end }
}

/// Bytes of what a line of Markdown begins with: signs of quotes, lists and headings, and numbers of lists.
pub(super) fn marker(line: &str) -> usize {
    let rest = line.trim_start_matches(|c: char| c.is_whitespace() || ">#-*+•".contains(c));
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let behind = &rest[digits..];
    let is_number = (1..=3).contains(&digits) && (behind.starts_with(". ") || behind.starts_with(") "));
    line.len() - rest.len() + if is_number { digits + 2 } else { 0 }
}

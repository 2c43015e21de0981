//! Exponents, indices, marks of notes and fractions: glyphs that are raised or lowered and mostly smaller. The main text
//! of a cell is its largest size that is not rare, on the baseline that most of it has.
//!
//! `10^6` and `x_i` are written as in plain formulas, `e^(x+1)` with brackets. A raised number after a word or after
//! punctuation is the mark of a note: `bridge.[12]`. Small numbers around a slash, of which the first is higher, are a
//! fraction: `3 1/2`. A raised number before another slash is an exponent: `10^9/l`. Raised cents of a price are cents:
//! `12.90 EUR`. Fractions with a line between their parts are made in `fractions.rs`.

use std::borrow::Cow;

use super::words::{Letter, write as write_plain};
use crate::writer::prices;

/// Distances and sizes in those of the main text.
/// What is not larger than this is small.
pub(super) const SMALL: f64 = 0.85;
/// Small glyphs that are so much higher or lower are raised or lowered.
pub(super) const RAISED: f64 = 0.12;
const LOWERED: f64 = 0.06;
/// The same for glyphs that are not small.
const RAISED_MAIN: f64 = 0.25;
const LOWERED_MAIN: f64 = 0.2;
/// The same for letters that are a little smaller. The `E` of TeX is lowered by less.
const RAISED_LETTER: f64 = 0.3;
/// Around a fraction's slash, digits are higher and lower than each other by this.
const SLASHED: f64 = 0.15;
/// A size that less of the glyphs have is rare.
const RARE: f64 = 0.1;
/// Sizes and baselines differ by less than this, in points or shares.
const SAME: f64 = 0.02;

/// A number with so many digits and points is hardly the base of an exponent.
const LONG_NUMBER: usize = 5;

/// Words of two letters after which a number is the mark of a note. After other two letters it is an exponent.
const SHORT_WORDS: [&str; 22] = [
    "EU", "US", "UN", "UK", "EC", "is", "it", "to", "us", "we", "so", "no", "on", "of", "by", "he", "as",
    "or", "an", "if", "be", "up",
];
/// Words after which a number is an exponent.
const FUNCTIONS: [&str; 14] =
    ["sin", "cos", "tan", "cot", "log", "exp", "mol", "min", "sec", "rad", "sinh", "cosh", "tanh", "bar"];
/// Endings of ordinal numbers, and other raised letters that are read as text.
const ENDINGS: [&str; 16] =
    ["st", "nd", "rd", "th", "er", "re", "e", "o", "a", "os", "as", "ème", "TM", "SM", "de", "ste"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Script {
    Main,
    Raised,
    Lowered,
    /// A fraction with a slash, of small digits.
    Slashed,
}

/// Writes the letters of a cell.
pub(super) fn write(letters: &[Letter<'_>], out: &mut String) {
    let first = letters[0].glyph;
    let is_flat =
        |letter: &Letter<'_>| (letter.glyph.y - first.y).abs() < LOWERED * letter.glyph.size.min(first.size);
    if letters.iter().all(is_flat) || letters.iter().any(|letter| letter.glyph.is_layer) {
        write_plain(letters, out);
        return;
    }
    let (size, baseline) = main_text(letters);
    let letters = &*in_order(letters, size, baseline);
    // Parts with their scripts, and whether a space is before them. A part may have scripts of its own.
    let mut scripts: Vec<(Script, f64)> = Vec::with_capacity(letters.len());
    for letter in letters {
        let own = (script(letter, size, baseline), letter.glyph.size);
        let nested = scripts.last().filter(|(before, size)| {
            *before != Script::Main && !letter.is_apart && letter.glyph.size <= SMALL * size
        });
        scripts.push(nested.copied().unwrap_or(own));
    }
    for (i, letter) in letters.iter().enumerate() {
        if let Some(fraction) = slashed(letters, &scripts, i, size) {
            scripts[fraction].fill((Script::Slashed, letter.glyph.size));
        }
    }
    let mut rest = letters;
    let parts: Vec<ScriptRun> = scripts
        .chunk_by(|a, b| a.0 == b.0)
        .map(|scripts| {
            let (part, after) = rest.split_at(scripts.len());
            rest = after;
            let mut text = String::new();
            match scripts[0].0 {
                Script::Raised | Script::Lowered if part.len() < letters.len() => write(part, &mut text),
                _ => write_plain(part, &mut text),
            }
            ScriptRun { script: scripts[0].0, text, is_apart: part[0].is_apart }
        })
        .collect();
    let mut last_script: Option<char> = None;
    let mut is_after_index = false;
    for (i, part) in parts.iter().enumerate() {
        let (before, after) = (i.checked_sub(1).map(|i| &parts[i]), parts.get(i + 1));
        let text = &part.text;
        if part.is_apart && i > 0 {
            out.push(' ');
            last_script = None;
            is_after_index = false;
        }
        let is_after_index = std::mem::replace(&mut is_after_index, part.script == Script::Lowered);
        match part.script {
            Script::Main => {
                if let (Some(last), Some(next)) = (last_script, text.chars().next())
                    && !part.is_apart
                    && are_one_word(last, next)
                {
                    out.push(' ');
                }
                out.push_str(&text.replace('⁄', "/"));
                last_script = None;
                continue;
            }
            Script::Slashed => {
                separate_number(out);
                out.push_str(&text.replace(['⁄', '∕'], "/"));
            }
            Script::Lowered if before.is_some_and(|before| before.text.ends_with(['/', '⁄'])) => {
                out.push_str(text)
            }
            // The name of the program LaTeX.
            Script::Raised if text == "A" && out.ends_with('L') => {
                out.push_str(text);
                continue;
            }
            Script::Raised if is_after_index => push_exponent(text, out),
            Script::Raised if is_cents(part, out.trim_end(), after) => {
                out.truncate(out.trim_end().len());
                let cents = prices::cents(out, text);
                out.push_str(&cents);
            }
            Script::Raised => raised(text, out, part.is_apart, after.is_some_and(|after| after.is_apart)),
            Script::Lowered if part.is_apart || out.is_empty() => out.push_str(text),
            Script::Lowered => {
                out.push('_');
                push_bracketed(text, out);
            }
        }
        last_script = out.chars().next_back();
    }
}

/// The letters with each index before the exponent that is above it.
fn in_order<'a, 'b>(letters: &'b [Letter<'a>], size: f64, baseline: f64) -> Cow<'b, [Letter<'a>]> {
    let script = |letter: &Letter<'_>| script(letter, size, baseline);
    let mut ordered = Cow::Borrowed(letters);
    let mut end = 0;
    // A word that is not small is no script of the one before it.
    let is_other_word = |letter: &Letter<'_>| letter.is_apart && letter.glyph.size > SMALL * size;
    let is_main = |letter: &Letter<'_>| script(letter) == Script::Main;
    for run in letters.chunk_by(|a, b| is_main(a) == is_main(b) && !is_other_word(b)) {
        let start = end;
        end += run.len();
        let raised = run.iter().filter(|letter| script(letter) == Script::Raised);
        let lowered = run.iter().filter(|letter| script(letter) == Script::Lowered);
        let (Some(above), Some(below)) = (raised.clone().next(), lowered.clone().next()) else { continue };
        let ends = |letters: &mut dyn Iterator<Item = &Letter<'a>>| {
            letters.map(|letter| letter.glyph.end).fold(f64::MIN, f64::max)
        };
        let slack = SAME * size;
        if above.glyph.x >= ends(&mut lowered.clone()) - slack
            || below.glyph.x >= ends(&mut raised.clone()) - slack
        {
            continue;
        }
        let run = &mut ordered.to_mut()[start..end];
        let is_apart = run[0].is_apart;
        run.sort_by_key(|letter| script(letter) != Script::Lowered);
        run[0].is_apart = is_apart;
        if let Some(second) = run.iter_mut().find(|letter| script(letter) != Script::Lowered) {
            second.is_apart = false;
        }
    }
    ordered
}

/// The letters of a fraction whose slash is letter `at`: small digits on both sides, the first of them raised and higher than
/// the others.
fn slashed(
    letters: &[Letter<'_>],
    scripts: &[(Script, f64)],
    at: usize,
    size: f64,
) -> Option<std::ops::Range<usize>> {
    letters[at].glyph.first().filter(|c| is_slash(*c))?;
    let is_digit = |i: &usize| letters[*i].glyph.first().is_some_and(|c| c.is_ascii_digit());
    let is_raised = |i: &usize| scripts[*i].0 == Script::Raised;
    let is_small = |i: &usize| letters[*i].glyph.size <= SMALL * size || scripts[*i].0 == Script::Lowered;
    let above =
        (0..at).rev().take_while(|i| is_digit(i) && is_raised(i) && !letters[i + 1].is_apart).last()?;
    let below =
        (at + 1..letters.len()).take_while(|i| is_digit(i) && is_small(i) && !letters[*i].is_apart).last()?;
    let is_alone = above == 0 || letters[above].is_apart || !is_raised(&(above - 1));
    let is_higher = letters[at - 1].glyph.y - letters[at + 1].glyph.y > SLASHED * size;
    (is_alone && is_higher).then_some(above..below + 1)
}

fn is_slash(c: char) -> bool {
    matches!(c, '/' | '⁄' | '∕')
}

/// Whether a raised part is the cents of the price that `out` ends with. Behind a gap it may be the mark of a note, unless the
/// currency follows.
fn is_cents(part: &ScriptRun, out: &str, after: Option<&ScriptRun>) -> bool {
    let after = after.map_or("", |after| after.text.trim_start());
    prices::may_be_cents(out, &part.text)
        && (prices::begins_with_currency(after) || !part.is_apart && prices::ends_with_price(out))
}

/// Letters that follow each other and are raised or lowered alike.
struct ScriptRun {
    script: Script,
    text: String,
    /// Whether a space is before it.
    is_apart: bool,
}

/// Puts a space after a number before a fraction: `3 1/2`.
fn separate_number(out: &mut String) {
    if out.ends_with(|c: char| c.is_ascii_digit()) {
        out.push(' ');
    }
}

/// The size and the baseline of the main text.
fn main_text(letters: &[Letter<'_>]) -> (f64, f64) {
    let mut sizes: Vec<f64> = letters.iter().map(|letter| letter.glyph.size).collect();
    sizes.sort_by(|a, b| b.total_cmp(a));
    let groups = sizes.chunk_by(|a, b| (a - b).abs() < SAME * a);
    let is_common = |group: &&[f64]| group.len() as f64 >= RARE * letters.len() as f64;
    let size = groups.into_iter().find(is_common).map_or(sizes[0], |group| group[0]);
    let is_main = |letter: &&Letter<'_>| (letter.glyph.size - size).abs() < SAME * size;
    let mut baselines: Vec<f64> = letters.iter().filter(is_main).map(|letter| letter.glyph.y).collect();
    baselines.sort_by(f64::total_cmp);
    let most = baselines.chunk_by(|a, b| (a - b).abs() < SAME * size).max_by_key(|group| group.len());
    (size, most.map_or(letters[0].glyph.y, |group| group[group.len() / 2]))
}

fn script(letter: &Letter<'_>, size: f64, baseline: f64) -> Script {
    let (relative, up) = (letter.glyph.size / size, (letter.glyph.y - baseline) / size);
    let is_number = letter.glyph.first().is_some_and(|c| c.is_numeric() || matches!(c, '+' | '-' | '−'));
    let (raised, lowered) = match relative {
        ..=SMALL => (RAISED, LOWERED),
        // A letter of the same size on another baseline may be a decoration; numbers mean something.
        _ if relative < 1.0 + SAME && is_number => (RAISED_MAIN, LOWERED_MAIN),
        _ if relative < 1.0 - SAME => (RAISED_LETTER, RAISED_LETTER),
        _ => return Script::Main,
    };
    match up {
        up if up >= raised => Script::Raised,
        up if up <= -lowered => Script::Lowered,
        _ => Script::Main,
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_digit())
}

/// Whether two characters would be read as one word or number.
fn are_one_word(last: char, next: char) -> bool {
    (last.is_numeric() && next.is_numeric()) || (last.is_alphabetic() && next.is_alphabetic())
}

/// A raised part after `out`. `is_apart` says whether a space is between them, `is_last` whether one follows.
fn raised(text: &str, out: &mut String, is_apart: bool, is_last: bool) {
    let is_list = text.chars().all(|c| c.is_ascii_digit() || matches!(c, ',' | ' ' | '–' | '-'))
        && text.starts_with(|c: char| c.is_ascii_digit());
    // With a gap before it, a raised number is still no number of the line.
    if is_apart && is_list {
        let base = out.trim_end();
        let word = trailing(base, char::is_alphabetic);
        let is_note = match base.chars().next_back() {
            Some(c) if c.is_ascii_digit() => !is_power_of_ten(base),
            Some(c) => is_after_text(c, &word, "", is_last),
            None => true,
        };
        if is_note {
            return push_note(text, out);
        }
        out.truncate(base.len());
        return push_exponent(text, out);
    }
    let before = out.chars().next_back();
    let word = trailing(out, char::is_alphabetic);
    let number = trailing(out, |c| c.is_ascii_digit() || matches!(c, '.' | ','));
    // After another number, a letter is the mark of a note.
    let is_whole = text.len() > 1 || !number.contains(['.', ',']);
    match before {
        None if is_list => {
            push_note(text, out);
            if !is_last {
                out.push(' ');
            }
        }
        None => out.push_str(text),
        Some(_) if is_apart => out.push_str(text),
        _ if text.chars().all(|c| !c.is_alphanumeric() && !matches!(c, '+' | '-' | '−')) => {
            out.push_str(text)
        }
        Some(c)
            if ENDINGS.contains(&text) && (is_whole && c.is_ascii_digit() || word.chars().count() > 1) =>
        {
            out.push_str(text)
        }
        Some(c) if is_list && is_after_text(c, &word, &number, is_last) => push_note(text, out),
        _ => push_exponent(text, out),
    }
}

/// The end of a text that has only such characters.
fn trailing(text: &str, is_one: impl Fn(char) -> bool) -> String {
    text[text.trim_end_matches(is_one).len()..].to_owned()
}

/// Whether a raised number after this is the mark of a note.
fn is_after_text(before: char, word: &str, number: &str, is_last: bool) -> bool {
    let is_year = number.len() == 4 && (number.starts_with("19") || number.starts_with("20"));
    match (before, word.chars().count()) {
        (_, 3..) => !FUNCTIONS.contains(&word),
        (_, 2) => SHORT_WORDS.contains(&word),
        (_, 1) => false,
        (c, _) if c.is_ascii_digit() => is_year && is_last || number.len() >= LONG_NUMBER,
        (')' | ']' | '}' | '|', _) => false,
        _ => true,
    }
}

/// Whether a text ends with `× 10`, which an exponent follows.
fn is_power_of_ten(text: &str) -> bool {
    let before = text.strip_suffix("10").unwrap_or_default().trim_end();
    before.ends_with(['×', '·', '⋅', '*']) || matches!(&*trailing(before, char::is_alphabetic), "x" | "X")
}

/// Writes the mark of a note.
fn push_note(text: &str, out: &mut String) {
    out.extend(["[", text, "]"]);
}

fn push_exponent(text: &str, out: &mut String) {
    out.push('^');
    push_bracketed(text, out);
}

/// Writes a part, in brackets if it has parts itself.
fn push_bracketed(text: &str, out: &mut String) {
    let unsigned = text.strip_prefix(['+', '-', '−']).unwrap_or(text);
    let is_simple = unsigned.chars().all(char::is_alphanumeric)
        || text.strip_suffix(['+', '-', '−']).is_some_and(is_number);
    if is_simple {
        out.push_str(text);
    } else {
        out.push('(');
        out.push_str(text);
        out.push(')');
    }
}

//! LongBench's scores, from 0 to 1, but for ROUGE.

use std::collections::HashMap;

use super::similar::ratio;
use crate::python::words;

/// What comes before the second line, without line breaks before it.
pub(super) fn first_line(text: &str) -> &str {
    text.trim_start_matches('\n').split('\n').next().unwrap_or_default()
}

/// F1 of the words of two texts, without articles and punctuation.
pub(super) fn word_f1(answer: &str, reference: &str) -> f64 {
    let (answer, reference) = (normalized(answer), normalized(reference));
    let (answer, reference): (Vec<&str>, Vec<&str>) = (words(&answer).collect(), words(&reference).collect());
    let mut open: HashMap<&str, usize> = HashMap::new();
    for word in &reference {
        *open.entry(word).or_default() += 1;
    }
    let mut common = 0;
    for word in &answer {
        if let Some(count) = open.get_mut(word).filter(|count| **count > 0) {
            *count -= 1;
            common += 1;
        }
    }
    if common == 0 {
        return 0.0;
    }
    let (precision, recall) =
        (f64::from(common) / answer.len() as f64, f64::from(common) / reference.len() as f64);
    2.0 * precision * recall / (precision + recall)
}

/// In lower case, without ASCII punctuation, with spaces in place of articles.
fn normalized(text: &str) -> String {
    let lower = text.to_lowercase();
    let kept: String = lower.chars().filter(|c| !c.is_ascii_punctuation()).collect();
    let mut normalized = String::new();
    let mut rest = kept.as_str();
    while let Some(first) = rest.chars().next() {
        let end = match first.is_alphanumeric() {
            true => rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        let (part, after) = rest.split_at(end);
        normalized += if matches!(part, "a" | "an" | "the") { " " } else { part };
        rest = after;
    }
    normalized
}

/// Whether the answer has the right class, by the number of classes that it has. Removing classes that are parts of the
/// right one skips the class after a removed one, as LongBench's loop does.
pub(super) fn class(answer: &str, reference: &str, classes: &[String]) -> f64 {
    let mut found: Vec<&str> =
        classes.iter().map(String::as_str).filter(|class| answer.contains(class)).collect();
    let mut index = 0;
    while let Some(class) = found.get(index).copied() {
        if reference.contains(class) && class != reference {
            // The first one of equal ones.
            let first = found.iter().position(|other| *other == class).unwrap_or(index);
            found.remove(first);
        }
        index += 1;
    }
    if found.contains(&reference) { 1.0 / found.len() as f64 } else { 0.0 }
}

/// The share of the answer's numbers that are the right one.
pub(super) fn count(answer: &str, reference: &str) -> f64 {
    let numbers: Vec<&str> = numbers(answer).collect();
    let right = numbers.iter().filter(|number| **number == reference).count();
    if numbers.is_empty() { 0.0 } else { right as f64 / numbers.len() as f64 }
}

/// The same for the number of a paragraph; 0 where the reference names none.
pub(super) fn paragraph(answer: &str, reference: &str) -> f64 {
    paragraph_number(reference).map_or(0.0, |number| count(answer, number))
}

/// `7` of `Paragraph 7`.
pub(super) fn paragraph_number(reference: &str) -> Option<&str> {
    const WORD: &str = "Paragraph ";
    let begins = reference.match_indices(WORD).map(|(at, _)| &reference[at + WORD.len()..]);
    begins.filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit())).find_map(|rest| numbers(rest).next())
}

/// Digits that follow each other. Only those of ASCII count.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_digit()).filter(|number| !number.is_empty())
}

/// Similarity, in hundredths, of the first line that is neither a comment nor a mark of code.
pub(super) fn code(answer: &str, reference: &str) -> f64 {
    let is_code = |line: &&str| !line.contains('`') && !line.contains('#') && !line.contains("//");
    let line = answer.trim_start_matches('\n').split('\n').find(is_code).unwrap_or_default();
    if line == reference {
        return 1.0;
    }
    if line.is_empty() || reference.is_empty() {
        return 0.0;
    }
    // As Python rounds: halves to the even number.
    (100.0 * ratio(line, reference)).round_ties_even() / 100.0
}

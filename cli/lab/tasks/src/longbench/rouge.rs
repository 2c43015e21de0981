//! ROUGE-L of whole summaries as the Python package `rouge` has it (Lin 2004). It counts the words that longest common
//! subsequences of sentences consist of, each word once.

use std::collections::HashSet;

use crate::python::words;

/// The F-score, from 0 to 1; 0 where one of the texts has no sentence.
pub(super) fn score(answer: &str, reference: &str) -> f64 {
    let (answer, reference) = (sentences(answer), sentences(reference));
    if answer.is_empty() || reference.is_empty() {
        return 0.0;
    }
    let mut common = HashSet::new();
    for wanted in &reference {
        for written in &answer {
            add_common(wanted, written, &mut common);
        }
    }
    let different = |sentences: &[Vec<&str>]| sentences.iter().flatten().collect::<HashSet<_>>().len();
    let recall = common.len() as f64 / different(&reference) as f64;
    let precision = common.len() as f64 / different(&answer) as f64;
    2.0 * ((precision * recall) / (precision + recall + 1e-8))
}

/// The words of each sentence. Sentences end at full stops. One of white space has an empty word.
fn sentences(text: &str) -> Vec<Vec<&str>> {
    let sentences = text.split('.').filter(|sentence| !sentence.is_empty());
    let words = sentences.map(|sentence| words(sentence).collect::<Vec<_>>());
    words.map(|words| if words.is_empty() { vec![""] } else { words }).collect()
}

/// Adds the words of a longest common subsequence. Where there are several, it is the one that the package finds.
fn add_common<'a>(a: &[&'a str], b: &[&str], common: &mut HashSet<&'a str>) {
    let width = b.len() + 1;
    // Lengths for all beginnings of `a` and of `b`.
    let mut lengths = vec![0u32; (a.len() + 1) * width];
    for (i, word) in a.iter().enumerate() {
        for (j, other) in b.iter().enumerate() {
            let [before, above, left] = [i * width + j, i * width + j + 1, (i + 1) * width + j];
            lengths[(i + 1) * width + j + 1] = match word == other {
                true => lengths[before] + 1,
                false => lengths[above].max(lengths[left]),
            };
        }
    }
    let (mut i, mut j) = (a.len(), b.len());
    while i > 0 && j > 0 {
        if a[i - 1] == b[j - 1] {
            common.insert(a[i - 1]);
            (i, j) = (i - 1, j - 1);
        } else if lengths[(i - 1) * width + j] > lengths[i * width + j - 1] {
            i -= 1;
        } else {
            j -= 1;
        }
    }
}

//! How RULER scores an answer.

use crate::python::strip;

/// The share of the references that are in the answer.
pub(super) fn share(answer: &str, references: &[String]) -> f64 {
    if references.is_empty() {
        return 0.0;
    }
    let answer = prepared(answer);
    let found = references.iter().filter(|reference| answer.contains(&reference.to_lowercase())).count();
    found as f64 / references.len() as f64
}

/// 1 if any of the references is in the answer, otherwise 0.
pub(super) fn any(answer: &str, references: &[String]) -> f64 {
    f64::from(share(answer, references) > 0.0)
}

/// What RULER's `evaluate.py` and its metrics make of an answer before they look into it.
fn prepared(answer: &str) -> String {
    let answer: String = strip(answer).chars().map(|c| if c < ' ' { '\n' } else { c }).collect();
    strip(&answer).to_lowercase()
}

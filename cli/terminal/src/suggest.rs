//! "Did you mean": the known word that is most like a mistyped one.

/// Similarity of words above which clap suggests one, from 0 to 1 (equal).
const SIMILAR: f64 = 0.7;

/// The word that is most like `found`, if one is similar.
pub fn closest<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let found = found.to_lowercase();
    let scored = known.into_iter().map(|word| (strsim::jaro(&found, &word.to_lowercase()), word));
    let (score, word) = scored.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (score > SIMILAR).then_some(word)
}

/// `did you mean `razor`? `; empty if nothing is similar.
pub fn did_you_mean<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    closest(found, known).map_or(String::new(), |word| format!("did you mean `{word}`? "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_word_is_suggested() {
        let known = ["razor", "streaming", "snapkv", "slimkv"];
        assert_eq!(closest("rasor", known), Some("razor"));
        assert_eq!(closest("SnapKV2", known), Some("snapkv"));
        assert_eq!(closest("window", known), None);
        assert_eq!(did_you_mean("steaming", known), "did you mean `streaming`? ");
        assert_eq!(did_you_mean("", known), "");
    }
}

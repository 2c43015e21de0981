//! The head profile: for each (layer, KV head) whether it keeps everything, the scores behind that, and where the
//! profile comes from.
//!
//! Only the model's head counts and fingerprint are needed, so that a profile can be checked before any
//! weight is loaded.

mod file;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub(super) use self::file::read_text;
use super::error::{HeadsError, shorten};
use super::row_predictors::RowPredictors;
use super::row_shares::RowShares;
use super::scores::{ScoreMap, ScoresPer};
use super::select::{SelectedHeads, SelectionRule, select};
use super::shape::HeadShape;

/// Where a profile comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// "calibration", "duo-attention", "retrieval-head", "uniform", …
    pub source: String,
    /// Fingerprint of the model it was made with, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// What it was made with: shares, seeds, thresholds, trained window.
    #[serde(default)]
    pub parameters: Map<String, Value>,
}

/// Which KV heads of a model keep everything.
///
/// ```
/// use longhand::heads::{HeadProfile, HeadShape, Provenance};
///
/// let shape = HeadShape::new(2, 8, 4)?; // layers, query heads, KV heads
/// let profile = HeadProfile::new(shape, vec![true, false, false, false, false, true, false, false], vec![], Provenance::default())?;
/// assert!(profile.is_retrieval(1, 1) && profile.retrieval_count() == 2);
/// # Ok::<(), longhand::heads::HeadsError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct HeadProfile {
    shape: HeadShape,
    /// `[layers, kv_heads]`
    retrieval: Vec<bool>,
    scores: Vec<ScoreMap>,
    row_shares: Option<RowShares>,
    /// Shared by all copies: of a model of 8B they are 200,000 numbers.
    row_predictors: Option<Arc<RowPredictors>>,
    provenance: Provenance,
}

/// What a policy needs of a profile that has it not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileGap {
    /// The share of its rows that each head keeps.
    RowShares,
    /// What predicts the scores of rows.
    RowPredictors,
}

impl fmt::Display for ProfileGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProfileGap::RowShares => "shares of rows",
            ProfileGap::RowPredictors => "row predictors",
        })
    }
}

/// The name of the score map with attention scopes in tokens.
const SCOPE: &str = "scope";

impl HeadProfile {
    /// A profile from flags `[layers, kv_heads]`, with the scores they were selected by, if any.
    ///
    /// # Errors
    /// Flags or scores that do not fit the shape, or scores that are not finite.
    pub fn new(
        shape: HeadShape,
        retrieval: Vec<bool>,
        scores: Vec<ScoreMap>,
        provenance: Provenance,
    ) -> Result<Self, HeadsError> {
        if retrieval.len() != shape.all_kv_heads() {
            return Err(HeadsError::Length {
                what: "retrieval flags".to_owned(),
                found: retrieval.len(),
                needed: shape.all_kv_heads(),
            });
        }
        for map in &scores {
            map.check(&shape)?;
        }
        Ok(Self { shape, retrieval, scores, row_shares: None, row_predictors: None, provenance })
    }

    /// The paper's profile: retrieval heads selected by `rule` from scores `[layers, heads]` of every query
    /// head.
    ///
    /// # Errors
    /// Those of [`select`].
    pub fn from_scores(
        shape: HeadShape,
        induction: Vec<f32>,
        echo: Vec<f32>,
        rule: &SelectionRule,
        mut provenance: Provenance,
    ) -> Result<Self, HeadsError> {
        let SelectedHeads { kv_heads, .. } = select(&shape, &induction, &echo, rule)?;
        let parameters = &mut provenance.parameters;
        parameters.insert("induction".to_owned(), rule.induction.into());
        parameters.insert("echo".to_owned(), rule.echo.into());
        parameters.insert("group_max".to_owned(), rule.group_max.into());
        let scores = [("induction", induction), ("echo", echo)]
            .map(|(name, values)| ScoreMap { name: name.to_owned(), per: ScoresPer::QueryHead, values })
            .to_vec();
        Self::new(shape, kv_heads, scores, provenance)
    }

    /// A profile without retrieval heads, with the attention scope of each head in tokens,
    /// `[layers][kv_heads]`. Heads with scope NaN keep everything.
    ///
    /// # Errors
    /// Scopes that do not fit the shape.
    pub fn from_scopes(
        shape: HeadShape,
        scopes: &[Vec<f64>],
        provenance: Provenance,
    ) -> Result<Self, HeadsError> {
        // `min` turns NaN into the largest number.
        let values = scopes.iter().flatten().map(|scope| scope.min(f64::from(f32::MAX)) as f32).collect();
        let map = ScoreMap { name: SCOPE.to_owned(), per: ScoresPer::KvHead, values };
        Self::new(shape, vec![false; shape.all_kv_heads()], vec![map], provenance)
    }

    /// A profile in which all KV heads are retrieval heads, or none is.
    pub fn uniform(shape: HeadShape, retrieval: bool) -> Self {
        Self {
            shape,
            retrieval: vec![retrieval; shape.all_kv_heads()],
            scores: Vec::new(),
            row_shares: None,
            row_predictors: None,
            provenance: Provenance { source: "uniform".to_owned(), ..Provenance::default() },
        }
    }

    /// A profile from as many flags as the shape has KV heads.
    pub(super) fn without_scores(shape: HeadShape, retrieval: Vec<bool>, provenance: Provenance) -> Self {
        debug_assert_eq!(retrieval.len(), shape.all_kv_heads());
        Self { shape, retrieval, scores: Vec::new(), row_shares: None, row_predictors: None, provenance }
    }

    /// The model's head counts.
    pub fn shape(&self) -> HeadShape {
        self.shape
    }

    /// Whether this KV head is a retrieval head. False for a head the model does not have.
    pub fn is_retrieval(&self, layer: usize, kv_head: usize) -> bool {
        self.layer(layer).get(kv_head).copied().unwrap_or(false)
    }

    /// The flags of a layer, `[kv_heads]`; empty for a layer the model does not have.
    pub fn layer(&self, layer: usize) -> &[bool] {
        let width = self.shape.kv_heads();
        self.retrieval.chunks_exact(width).nth(layer).unwrap_or_default()
    }

    /// All flags, `[layers, kv_heads]`.
    pub fn retrieval(&self) -> &[bool] {
        &self.retrieval
    }

    /// How many KV heads of the model are retrieval heads.
    pub fn retrieval_count(&self) -> usize {
        self.retrieval.iter().filter(|&&keeps| keeps).count()
    }

    /// The scores it was selected by, in the order given.
    pub fn scores(&self) -> &[ScoreMap] {
        &self.scores
    }

    /// The scores of that name.
    pub fn score(&self, name: &str) -> Option<&ScoreMap> {
        self.scores.iter().find(|map| map.name == name)
    }

    /// Attention scope of each KV head of a layer in tokens, if the profile has scopes (models with ALiBi).
    pub fn scopes(&self, layer: usize) -> Option<&[f32]> {
        let map = self.score(SCOPE).filter(|map| map.per == ScoresPer::KvHead)?;
        map.values.chunks_exact(self.shape.kv_heads()).nth(layer)
    }

    /// Whether heads keep the same rows with another profile: the same ones retrieve, and shares and predictors of rows are
    /// equal.
    pub fn keeps_as(&self, other: &HeadProfile) -> bool {
        self.retrieval == other.retrieval
            && self.row_shares == other.row_shares
            && self.row_predictors == other.row_predictors
    }

    /// The same profile with shares of rows, from the scores of each KV head's rows, `[layers * kv_heads][rows]`. Heads
    /// without rows get the share 0.
    pub(crate) fn with_row_shares(self, scores: &[Vec<f32>]) -> Self {
        Self { row_shares: Some(RowShares::of_scores(scores)), ..self }
    }

    /// The same profile with row predictors: the numbers of each KV head's map, `[layers * kv_heads]`, as
    /// [`kernels::predict`] has them; empty for heads whose rows all get the same score.
    ///
    /// # Errors
    /// Another number of maps than KV heads, or numbers that are not finite.
    pub fn with_row_predictors(self, maps: Vec<Vec<f32>>) -> Result<Self, HeadsError> {
        Ok(Self { row_predictors: Some(Arc::new(RowPredictors::new(maps, &self.shape)?)), ..self })
    }

    /// The same profile with the row predictors of another one of the model, or without any if that has none.
    pub(crate) fn with_row_predictors_of(self, other: Option<&HeadProfile>) -> Self {
        Self { row_predictors: other.and_then(|other| other.row_predictors.clone()), ..self }
    }

    /// Whether it predicts the scores of rows.
    pub fn predicts_rows(&self) -> bool {
        self.row_predictors.is_some()
    }

    /// The row predictors of a layer's KV heads, one after the other; empty where the layer has none.
    pub(crate) fn row_predictors(&self, layer: usize) -> Vec<f32> {
        self.row_predictors.as_ref().map_or_else(Vec::new, |all| all.of_layer(layer))
    }

    /// The share of its rows that each KV head keeps where the model keeps the share `kept` of all rows:
    /// `[layers * kv_heads]`. `None` where the profile has no such shares.
    pub fn row_shares(&self, kept: f64) -> Option<Vec<f64>> {
        self.row_shares.as_ref().map(|shares| shares.at(kept, self.shape.all_kv_heads()))
    }

    /// All numbers of heads: the scores, then the shares of rows.
    pub(super) fn maps(&self) -> impl Iterator<Item = &ScoreMap> {
        self.scores.iter().chain(self.row_shares.iter().flat_map(RowShares::maps))
    }

    /// The shares of rows that calibration measured where this share of all rows stays.
    pub(super) fn measured_row_shares(&self, kept: f64) -> Option<&ScoreMap> {
        self.row_shares.as_ref()?.measured(kept)
    }

    /// The same profile with its scores under other names.
    #[must_use]
    pub fn with_score_names(mut self, rename: impl Fn(&str) -> String) -> Self {
        self.scores.iter_mut().for_each(|map| map.name = rename(&map.name));
        self
    }

    /// Where it comes from.
    pub fn provenance(&self) -> &Provenance {
        &self.provenance
    }

    /// The same profile with heads selected from its own scores by another rule; `None` if it has no
    /// induction and echo scores.
    ///
    /// # Errors
    /// Those of [`select`].
    pub(crate) fn reselect(&self, rule: &SelectionRule) -> Result<Option<Self>, HeadsError> {
        let of = |name| {
            self.score(name).filter(|map| map.per == ScoresPer::QueryHead).map(|map| map.values.clone())
        };
        let (Some(induction), Some(echo)) = (of("induction"), of("echo")) else {
            return Ok(None);
        };
        let mut selected = Self::from_scores(self.shape, induction, echo, rule, self.provenance.clone())?;
        let others = self.scores.iter().filter(|map| selected.score(&map.name).is_none());
        let others: Vec<ScoreMap> = others.cloned().collect();
        selected.scores.extend(others);
        selected.row_shares = self.row_shares.clone();
        selected.row_predictors = self.row_predictors.clone();
        Ok(Some(selected))
    }

    /// Refuses a profile of another model: other head counts, or another fingerprint where both are known.
    ///
    /// # Errors
    /// [`HeadsError::Shape`], [`HeadsError::Fingerprint`].
    pub fn check(&self, model: HeadShape, fingerprint: Option<&str>) -> Result<(), HeadsError> {
        if self.shape != model {
            return Err(HeadsError::Shape { what: "the profile", found: self.shape.to_string(), model });
        }
        match (&self.provenance.fingerprint, fingerprint) {
            (Some(found), Some(model)) if found != model => {
                Err(HeadsError::Fingerprint { found: shorten(found), model: model.to_owned() })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use serde_json::Value;

    use super::*;
    use crate::Hint;

    fn shape() -> HeadShape {
        HeadShape::new(3, 4, 2).unwrap()
    }

    fn profile() -> HeadProfile {
        let provenance = Provenance {
            source: "calibration".to_owned(),
            fingerprint: Some("a1b2".to_owned()),
            parameters: Map::from_iter([("seed".to_owned(), 7.into())]),
        };
        let induction = (0..12).map(|i| i as f32 / 7.0).collect();
        let echo = (0..12).map(|i| 1.0 - i as f32 / 13.0).collect();
        let rule = SelectionRule { induction: 0.2, echo: 0.1, group_max: false };
        HeadProfile::from_scores(shape(), induction, echo, &rule, provenance).unwrap()
    }

    /// `tests/golden/policies/generate.py` makes the cases with a reference in NumPy.
    #[test]
    fn shares_of_rows_are_those_of_the_golden_cases() {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/policies/cases/row_shares.json");
        let golden: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let cases = golden["cases"].as_array().unwrap();
        assert_eq!(cases.len(), 4);
        for case in cases {
            let count = |name: &str| case[name].as_u64().unwrap() as usize;
            let shape = HeadShape::new(count("n_layer"), count("n_kv"), count("n_kv")).unwrap();
            let of_case = |group: &str, name: &str| case[group][name].clone();
            let scores: Vec<Vec<f32>> = serde_json::from_value(of_case("inputs", "scores")).unwrap();
            let kept: Vec<f64> = serde_json::from_value(of_case("params", "kept")).unwrap();
            let expected: Vec<Vec<f64>> = serde_json::from_value(of_case("expected", "shares")).unwrap();
            assert_eq!((scores.len(), kept.len()), (shape.all_kv_heads(), expected.len()));
            let profile = HeadProfile::uniform(shape, false).with_row_shares(&scores);
            for (kept, want) in kept.into_iter().zip(expected) {
                let have = profile.row_shares(kept).unwrap();
                let equal =
                    have.len() == want.len() && have.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-6);
                assert!(equal, "{} at {kept}: {have:?}, {want:?} expected", case["name"]);
            }
        }
    }

    #[test]
    fn shares_of_rows_stay_where_heads_are_selected_anew_and_in_the_file() {
        let shape = HeadShape::new(1, 2, 2).unwrap();
        assert_eq!(HeadProfile::uniform(shape, false).row_shares(0.5), None);
        let scored = HeadProfile::from_scores(
            shape,
            vec![0.1, 0.2],
            vec![0.0; 2],
            &SelectionRule::default(),
            Provenance::default(),
        );
        let scored = scored.unwrap().with_row_shares(&[vec![0.5; 10], vec![0.1; 10]]);
        let again = scored.reselect(&SelectionRule { induction: 0.5, ..SelectionRule::default() }).unwrap();
        assert_eq!(scored.row_shares(0.5), Some(vec![1.0, 0.0]));
        assert_eq!(again.expect("scores").row_shares(0.5), scored.row_shares(0.5));
        let read = HeadProfile::from_json(&scored.to_json()).expect("a profile");
        assert_eq!(read.row_shares(0.5), scored.row_shares(0.5));
    }

    #[test]
    fn json_round_trips_keep_the_profile() {
        let made = profile();
        assert_eq!(made.retrieval(), [true, false, false, false, false, true]);
        let read = HeadProfile::from_json(&made.to_json()).unwrap();
        assert_eq!(read, made);
        assert_eq!(read.provenance().parameters["induction"], 0.2);
        assert!(read.is_retrieval(2, 1) && !read.is_retrieval(2, 2) && !read.is_retrieval(9, 0));
    }

    #[test]
    fn saving_creates_the_folder_and_loading_reads_the_profile() {
        let folder = std::env::temp_dir().join(format!("longhand-heads-{}", std::process::id()));
        let path = folder.join("deep/profile.json");
        profile().save(&path).unwrap();
        assert_eq!(HeadProfile::load(&path).unwrap(), profile());
        let left: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(left.len(), 1, "the temporary file is gone");
        fs::remove_dir_all(&folder).unwrap();
        let error = HeadProfile::load(&path).unwrap_err().to_string();
        assert!(error.starts_with("cannot read") && error.contains("profile.json"));
    }

    #[test]
    fn what_killed_processes_have_left_of_cached_profiles_is_removed() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("heads");
        let path = folder.join("model.json");
        profile().save_own(&path).unwrap();
        // Nobody has this number.
        let left = |name: &str| folder.join(format!("{name}.longhand-{}-abcdefABCDEF.tmp", u32::MAX));
        fs::write(left("model.json"), "{\"format\"").unwrap();
        fs::write(left("other.json"), "").unwrap();
        fs::write(left("letter"), "a letter").unwrap();
        profile().save_own(&path).unwrap();
        assert_eq!(HeadProfile::load(&path).unwrap(), profile());
        let [ours, cut_off, letter] = ["model.json", "other.json", "letter"].map(|name| left(name).exists());
        assert!(!ours && !cut_off && letter);
    }

    #[test]
    fn a_profile_of_another_model_is_refused() {
        let made = profile();
        made.check(shape(), Some("a1b2")).unwrap();
        made.check(shape(), None).unwrap();
        let error = made.check(shape(), Some("c3d4")).unwrap_err();
        assert_eq!(error.hint(), Hint::MakeHeadProfile);
        let error = error.to_string();
        assert!(error.contains("a1b2") && error.contains("c3d4"));
        let other = HeadShape::new(3, 4, 4).unwrap();
        let error = made.check(other, Some("a1b2")).unwrap_err().to_string();
        assert!(error.contains("2 KV heads") && error.contains("4 KV heads"));
    }

    #[test]
    fn reselect_follows_the_new_rule() {
        let all = SelectionRule { induction: 1.0, ..SelectionRule::default() };
        let again = profile().reselect(&all).unwrap().unwrap();
        assert_eq!(again.retrieval_count(), 6);
        assert_eq!(again.provenance().fingerprint.as_deref(), Some("a1b2"));
        assert!(HeadProfile::uniform(shape(), true).reselect(&all).unwrap().is_none());
    }

    #[test]
    fn invalid_files_are_refused_with_a_reason() {
        let good = profile().to_json();
        let changed = |from: &str, to: &str| {
            assert!(good.contains(from), "{from} is in the file");
            good.replacen(from, to, 1)
        };
        let layers = 65536;
        let empty = format!("\"retrieval\":[{}]", vec!["[]"; layers].join(","));
        let huge = format!(
            "{{\"format\":\"longhand-heads\",\"version\":1,\"layers\":{layers},\"heads\":65536,\"kv_heads\":65536,{empty},\"provenance\":{{\"source\":\"me\"}}}}"
        );
        let deep = "[".repeat(100_000) + "7" + &"]".repeat(100_000);
        for (text, part) in [
            (String::new(), "EOF"),
            ("null".to_owned(), "invalid type"),
            ("[".repeat(100_000), "invalid type"),
            (changed("{\"seed\":7", &format!("{{\"seed\":{deep}")), "recursion"),
            (good[..good.len() / 2].to_owned(), "EOF"),
            (changed("longhand-heads", "other"), "\"format\""),
            (changed("\"version\":1", "\"version\":2"), "version 2"),
            (changed("\"layers\":3", "\"layers\":2"), "layers"),
            (changed("\"layers\":3", "\"layers\":0"), "0 layers"),
            (changed("\"layers\":3", "\"layers\":1e18"), "invalid type"),
            (changed("\"layers\":3", "\"layers\":1152921504606846976"), "no model"),
            (changed("\"heads\":4", "\"heads\":5"), "multiple"),
            (changed("\"kv_heads\":2", "\"kv_heads\":0"), "no model"),
            // Small, but flags for all its heads would take 4 GiB.
            (huge, "no model"),
            (changed("\"retrieval\":[[0]", "\"retrieval\":[[2]"), "KV head 2"),
            (changed("\"retrieval\":[[0]", "\"retrieval\":[[-1]"), "-1"),
            (changed("\"values\":[[0.0,", "\"values\":[["), "3 values"),
            (changed("\"values\":[[", "\"values\":[[0.0,0.0,0.0,0.0],["), "16 values"),
            (changed("\"values\":[[0.0,", "\"values\":[[1e39,"), "finite"),
            (changed("\"values\":[[0.0,", "\"values\":[[NaN,"), "expected"),
            (changed("\"provenance\"", "\"surprise\""), "surprise"),
        ] {
            let error = HeadProfile::from_json(&text).unwrap_err();
            let text = format!("{error}; {}", error.hint());
            assert!(text.contains(part), "expected {part:?} in: {text}");
        }
    }
}

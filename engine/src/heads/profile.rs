//! The head profile: for each (layer, KV head) whether it keeps everything, where the profile comes from, and
//! its JSON file.
//!
//! Only the model's head counts and fingerprint are needed, so that a profile can be checked before any
//! weight is loaded.

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use models::gguf::is_sample_fingerprint;
use models::regular_file;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::error::HeadsError;
use super::select::{SelectedHeads, SelectionRule, select};
use crate::Hint;
use crate::files::atomic_file::{self, Access};
use crate::files::folders;

/// Maximum query heads of a model, all layers together. No known model has 20,000.
pub(super) const MAX_QUERY_HEADS: usize = 1 << 20;

/// How many heads a model has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadShape {
    layers: usize,
    heads: usize,
    kv_heads: usize,
}

impl HeadShape {
    /// A model of `layers` layers with `heads` query heads each that share `kv_heads` KV heads.
    ///
    /// # Errors
    /// [`HeadsError::NoModel`] if a count is 0, the model has more than `MAX_QUERY_HEADS`, or the query heads
    /// are not a multiple of the KV heads.
    pub fn new(layers: usize, heads: usize, kv_heads: usize) -> Result<Self, HeadsError> {
        let all = layers.saturating_mul(heads);
        // A small file must not cause large allocations.
        if all == 0 || all > MAX_QUERY_HEADS || kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
            return Err(HeadsError::NoModel { layers, heads, kv_heads });
        }
        Ok(Self { layers, heads, kv_heads })
    }

    /// Layers of the model.
    pub fn layers(&self) -> usize {
        self.layers
    }

    /// Query heads of a layer.
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// KV heads of a layer.
    pub fn kv_heads(&self) -> usize {
        self.kv_heads
    }

    /// Query heads that share a KV head; query head h reads KV head h / group.
    pub fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// Query heads of the whole model.
    pub(crate) fn all_heads(&self) -> usize {
        self.layers * self.heads
    }

    /// KV heads of the whole model.
    pub fn all_kv_heads(&self) -> usize {
        self.layers * self.kv_heads
    }

    /// Columns of a map per query head or per KV head.
    pub fn columns(&self, per: ScoresPer) -> usize {
        match per {
            ScoresPer::QueryHead => self.heads,
            ScoresPer::KvHead => self.kv_heads,
        }
    }
}

impl fmt::Display for HeadShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} layers of {} query and {} KV heads", self.layers, self.heads, self.kv_heads)
    }
}

/// What a column of a [`ScoreMap`] stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScoresPer {
    /// A query head.
    QueryHead,
    /// A KV head.
    KvHead,
}

/// One number for each head of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoreMap {
    /// What the numbers are: "induction", "echo", or the name of a published map's values.
    pub name: String,
    /// Whether they are per query head or per KV head.
    pub per: ScoresPer,
    /// `[layers, columns]`, layer by layer.
    pub values: Vec<f32>,
}

impl ScoreMap {
    /// Checks length and finiteness against a shape.
    fn check(&self, shape: &HeadShape) -> Result<(), HeadsError> {
        check_scores(&self.name, &self.values, shape, self.per)
    }
}

/// Refuses scores of the wrong length and scores that are not finite.
pub(super) fn check_scores(
    name: &str,
    values: &[f32],
    shape: &HeadShape,
    per: ScoresPer,
) -> Result<(), HeadsError> {
    let columns = shape.columns(per);
    let needed = shape.layers * columns;
    if values.len() != needed {
        return Err(HeadsError::Length { what: shorten(name), found: values.len(), needed });
    }
    match values.iter().position(|value| !value.is_finite()) {
        Some(at) => {
            Err(HeadsError::NotFinite { what: shorten(name), layer: at / columns, head: at % columns })
        }
        None => Ok(()),
    }
}

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
    provenance: Provenance,
}

/// Shares of a model's rows. Where as many rows with the highest scores of the whole model stay, the map of this name
/// has the share of each KV head.
pub(super) const ROW_SHARES: [(f64, &str); 8] = [
    (0.05, "rows-5"),
    (0.1, "rows-10"),
    (0.15, "rows-15"),
    (0.2, "rows-20"),
    (0.3, "rows-30"),
    (0.4, "rows-40"),
    (0.5, "rows-50"),
    (0.7, "rows-70"),
];

/// The name of the score map with attention scopes in tokens.
const SCOPE: &str = "scope";
/// The value of `format` in the file.
const FORMAT: &str = "longhand-heads";
/// The version written; older ones do not exist yet.
const VERSION: u64 = 1;
/// Maximum bytes of a file. 65536 heads with two scores each are about 3 MB.
const MAX_FILE_BYTES: u64 = 64 << 20;

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
        Ok(Self { shape, retrieval, scores, provenance })
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
            provenance: Provenance { source: "uniform".to_owned(), ..Provenance::default() },
        }
    }

    /// A profile from as many flags as the shape has KV heads.
    pub(super) fn without_scores(shape: HeadShape, retrieval: Vec<bool>, provenance: Provenance) -> Self {
        debug_assert_eq!(retrieval.len(), shape.all_kv_heads());
        Self { shape, retrieval, scores: Vec::new(), provenance }
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
        let width = self.shape.kv_heads;
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
        map.values.chunks_exact(self.shape.kv_heads).nth(layer)
    }

    /// The same profile with shares of rows, from the scores of each KV head's rows, `[layers * kv_heads][rows]`. Heads
    /// without rows get the share 0.
    pub(crate) fn with_row_shares(mut self, scores: &[Vec<f32>]) -> Self {
        let mut all: Vec<f32> = scores.iter().flatten().copied().collect();
        all.sort_by(|a, b| b.total_cmp(a));
        for (share, name) in ROW_SHARES {
            let kept = (all.len() as f64 * share) as usize;
            let least = all.get(kept).copied().unwrap_or(f32::NEG_INFINITY);
            let of_head = |rows: &Vec<f32>| match rows.len() {
                0 => 0.0,
                n => rows.iter().filter(|score| **score > least).count() as f32 / n as f32,
            };
            let values = scores.iter().map(of_head).collect();
            self.scores.push(ScoreMap { name: name.to_owned(), per: ScoresPer::KvHead, values });
        }
        self
    }

    /// The share of its rows that each KV head keeps where the model keeps the share `kept` of all rows:
    /// `[layers * kv_heads]`. `None` where the profile has no such shares.
    pub fn row_shares(&self, kept: f64) -> Option<Vec<f64>> {
        let map = |name| self.score(name).filter(|map| map.per == ScoresPer::KvHead);
        let known = ROW_SHARES.iter().map(|(share, name)| Some((*share, Some(&map(name)?.values))));
        let known: Vec<_> = known.collect::<Option<_>>()?;
        let points: Vec<(f64, Option<&Vec<f32>>)> =
            [(0.0, None)].into_iter().chain(known).chain([(1.0, None)]).collect();
        let next = points.partition_point(|(share, _)| *share < kept).clamp(1, points.len() - 1);
        let ((from, lower), (to, upper)) = (points[next - 1], points[next]);
        let weight = (kept - from) / (to - from);
        let of_head = |head: usize| {
            let lower = lower.map_or(0.0, |values| f64::from(values[head]));
            let upper = upper.map_or(1.0, |values| f64::from(values[head]));
            (lower + weight * (upper - lower)).clamp(0.0, 1.0)
        };
        Some((0..self.shape.all_kv_heads()).map(of_head).collect())
    }

    /// Whether heads keep the same rows with another profile: the same ones retrieve, and shares of rows are equal.
    pub fn keeps_as(&self, other: &HeadProfile) -> bool {
        self.retrieval == other.retrieval
            && ROW_SHARES.iter().all(|(_, name)| self.score(name) == other.score(name))
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
        Ok(Some(selected))
    }

    /// Refuses a profile of another model: other head counts, or another fingerprint where both are known. Fingerprints
    /// of the kind before cannot be compared and count as unknown.
    ///
    /// # Errors
    /// [`HeadsError::Shape`], [`HeadsError::Fingerprint`].
    pub fn check(&self, model: HeadShape, fingerprint: Option<&str>) -> Result<(), HeadsError> {
        if self.shape != model {
            return Err(HeadsError::Shape { what: "the profile", found: self.shape.to_string(), model });
        }
        match (&self.provenance.fingerprint, fingerprint) {
            (Some(found), Some(model)) if found != model && !is_sample_fingerprint(found) => {
                Err(HeadsError::Fingerprint { found: shorten(found), model: model.to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// The text of the profile file. Retrieval heads are written as a list of KV head numbers for each layer.
    pub fn to_json(&self) -> String {
        let scores = self
            .scores
            .iter()
            .map(|map| FileScores {
                name: map.name.clone(),
                per: map.per,
                values: rows(&map.values, self.shape.columns(map.per)),
            })
            .collect();
        let retrieval = self
            .retrieval
            .chunks_exact(self.shape.kv_heads)
            .map(|layer| (0..layer.len()).filter(|&kv_head| layer[kv_head]).collect())
            .collect();
        let file = FileProfile {
            format: FORMAT.to_owned(),
            version: VERSION,
            layers: self.shape.layers,
            heads: self.shape.heads,
            kv_heads: self.shape.kv_heads,
            retrieval,
            scores,
            provenance: self.provenance.clone(),
        };
        // `to_string` fails only on maps whose keys are not strings, and there are none.
        serde_json::to_string(&file).unwrap_or_default() + "\n"
    }

    /// Reads [`to_json`](Self::to_json)'s text.
    ///
    /// # Errors
    /// [`HeadsError::Malformed`], [`HeadsError::Version`], and those of [`new`](Self::new).
    pub fn from_json(text: &str) -> Result<Self, HeadsError> {
        let malformed = |what: String| HeadsError::Malformed {
            format: "head profile",
            what,
            hint: Hint::MakeHeadProfile,
        };
        // Format and version are checked first, so that a newer file is reported as newer and not as
        // malformed.
        let head: FileHead = serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
        if head.format != FORMAT {
            return Err(malformed(format!("\"format\" is {:?}, not {FORMAT:?}", shorten(&head.format))));
        }
        if head.version != VERSION {
            return Err(HeadsError::Version { found: head.version, known: VERSION });
        }
        let file: FileProfile = serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
        let shape = HeadShape::new(file.layers, file.heads, file.kv_heads)?;
        if file.retrieval.len() != shape.layers {
            return Err(malformed(format!(
                "\"retrieval\" has {} layers, the profile {}",
                file.retrieval.len(),
                shape.layers
            )));
        }
        let mut retrieval = vec![false; shape.all_kv_heads()];
        for (layer, heads) in file.retrieval.iter().enumerate() {
            for &kv_head in heads {
                if kv_head >= shape.kv_heads {
                    return Err(malformed(format!(
                        "layer {layer} names KV head {kv_head}, but there are {}",
                        shape.kv_heads
                    )));
                }
                retrieval[layer * shape.kv_heads + kv_head] = true;
            }
        }
        let mut scores = Vec::with_capacity(file.scores.len());
        for map in file.scores {
            let columns = shape.columns(map.per);
            if let Some(layer) = map.values.iter().position(|row| row.len() != columns) {
                return Err(malformed(format!(
                    "{:?}: layer {layer} has {} values, not {columns}",
                    shorten(&map.name),
                    map.values[layer].len()
                )));
            }
            scores.push(ScoreMap { name: map.name, per: map.per, values: map.values.concat() });
        }
        Self::new(shape, retrieval, scores, file.provenance)
    }

    /// Reads a profile file. [`check`](Self::check) it against the model before use.
    ///
    /// # Errors
    /// The file cannot be read, or [`from_json`](Self::from_json) refuses it.
    pub fn load(path: &Path) -> Result<Self, HeadsError> {
        let read = || Self::from_json(&read_text(path, "head profile")?);
        read().map_err(|fault| fault.in_file(path))
    }

    /// Reads the profile file of a model.
    ///
    /// # Errors
    /// Those of [`load`](Self::load) and [`check`](Self::check), with the file's name.
    pub(crate) fn load_for(
        path: &Path,
        model: HeadShape,
        fingerprint: Option<&str>,
    ) -> Result<Self, HeadsError> {
        let profile = Self::load(path)?;
        profile.check(model, fingerprint).map_err(|fault| fault.in_file(path))?;
        Ok(profile)
    }

    /// Writes a profile file, and creates its folder if it is missing. The file is written completely or not
    /// at all.
    ///
    /// # Errors
    /// [`HeadsError::Io`].
    pub fn save(&self, path: &Path) -> Result<(), HeadsError> {
        let fails = |source| HeadsError::Io { action: "write", path: path.to_owned(), source };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(fails)?;
        }
        atomic_file::write(path, Access::Everyone, |file| file.write_all(self.to_json().as_bytes()))
            .map_err(fails)
    }

    /// Writes the file of a profile into one of the program's own folders, which is made if it is missing.
    ///
    /// # Errors
    /// [`HeadsError::Io`], also where others may write to the folder.
    pub(crate) fn save_own(&self, path: &Path) -> Result<(), HeadsError> {
        let fails = |source| HeadsError::Io { action: "write", path: path.to_owned(), source };
        if let Some(folder) = path.parent() {
            folders::make_private(folder).map_err(fails)?;
            // What killed processes have left: of the profiles of all models, which are JSON objects.
            atomic_file::remove_leftovers(folder, None, b"{");
        }
        atomic_file::write_own(path, Access::Owner, |file| file.write_all(self.to_json().as_bytes()))
            .map_err(fails)
    }
}

/// Reads a text file of at most [`MAX_FILE_BYTES`].
pub(super) fn read_text(path: &Path, format: &'static str) -> Result<String, HeadsError> {
    let bytes = regular_file::read(path, MAX_FILE_BYTES).map_err(|source| match source.kind() {
        io::ErrorKind::InvalidData => HeadsError::TooLarge { path: path.to_owned(), limit: MAX_FILE_BYTES },
        _ => HeadsError::Io { action: "read", path: path.to_owned(), source },
    })?;
    String::from_utf8(bytes).map_err(|error| HeadsError::Malformed {
        format,
        what: format!("byte {} is not UTF-8", error.utf8_error().valid_up_to()),
        hint: Hint::advice("give the file of the head map, not the model"),
    })
}

/// The beginning of a name from a file, short enough for an error message.
pub(super) fn shorten(text: &str) -> String {
    if text.chars().count() <= 40 {
        return text.to_owned();
    }
    text.chars().take(40).chain(['…']).collect()
}

fn rows(values: &[f32], columns: usize) -> Vec<Vec<f32>> {
    values.chunks_exact(columns).map(<[f32]>::to_vec).collect()
}

#[derive(Deserialize)]
struct FileHead {
    format: String,
    version: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileProfile {
    format: String,
    version: u64,
    layers: usize,
    heads: usize,
    kv_heads: usize,
    retrieval: Vec<Vec<usize>>,
    #[serde(default)]
    scores: Vec<FileScores>,
    provenance: Provenance,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileScores {
    name: String,
    per: ScoresPer,
    values: Vec<Vec<f32>>,
}

#[cfg(test)]
mod tests {
    use super::*;

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

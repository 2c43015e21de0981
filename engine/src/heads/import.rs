//! Head profiles from maps that others publish, in files or by name.
//!
//! - **DuoAttention** (Xiao et al. 2024): `full_attention_heads.tsv`, one row per layer, one column per KV
//!   head. Its values are trained gates from 0 (a window is enough) to 1 (needs everything). The
//!   `config.json` beside it has the sinks and the window of the training.
//! - **Retrieval_Head** (Wu et al. 2024): one JSON object `{"LAYER-HEAD": [score, …]}` with the retrieval
//!   scores of query heads over several trials. A head's score is their mean.

use std::path::Path;

use serde_json::{Map, Value};

use super::error::HeadsError;
use super::error::shorten;
use super::profile::{HeadProfile, Provenance, read_text};
use super::published::PublishedMap;
use super::scores::{ScoreMap, ScoresPer};
use super::select::{check_share, mark_top_share};
use super::shape::HeadShape;
use crate::Hint;

/// Which heads of a map are retrieval heads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HeadThreshold {
    /// Heads whose score is at least this.
    MinScore(f64),
    /// This share of the heads that the map lists (KV heads for DuoAttention, query heads for
    /// Retrieval_Head), those with the highest scores.
    TopShare(f64),
}

/// How a map is imported.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// Head counts of the model.
    pub shape: HeadShape,
    /// The model's fingerprint, which the profile stores.
    pub fingerprint: Option<String>,
    /// Which heads are retrieval heads; `None` for those of the authors' paper ([`duo_attention_threshold`],
    /// [`RETRIEVAL_HEAD_THRESHOLD`]).
    pub threshold: Option<HeadThreshold>,
}

/// The shares of KV heads with which DuoAttention's paper reports its results: a quarter on models without grouped
/// heads, else half. The threshold in its configuration, a gate of 0.5, marks 81 to 95 % of the KV heads of its maps
/// for models with grouped heads.
pub fn duo_attention_threshold(shape: HeadShape) -> HeadThreshold {
    HeadThreshold::TopShare(if shape.group() == 1 { 0.25 } else { 0.5 })
}

/// The retrieval score from which on the Retrieval_Head paper counts a head as a retrieval head.
pub const RETRIEVAL_HEAD_THRESHOLD: HeadThreshold = HeadThreshold::MinScore(0.1);

/// Name of DuoAttention's map inside its folder.
const DUO_MAP: &str = "full_attention_heads.tsv";
const DUO: &str = "DuoAttention map";
const DUO_HINT: &str = "give full_attention_heads.tsv: one row per layer, one number from 0 to 1 per KV head";
const RETRIEVAL: &str = "Retrieval_Head map";
const RETRIEVAL_HINT: &str = "give one JSON object {\"LAYER-HEAD\": [score, …], …}";

/// Imports a map of any format: DuoAttention's folder or TSV, Retrieval_Head's JSON, or a head profile. Where there is no
/// such file, the path may be the name of a [`PublishedMap`].
///
/// # Errors
/// The file cannot be read, has none of these formats, or belongs to a model with other head counts or
/// another fingerprint.
pub fn import(path: &Path, options: &ImportOptions) -> Result<HeadProfile, HeadsError> {
    if let Some(name) = path.to_str().filter(|name| PublishedMap::is_name(name) && !path.exists()) {
        return PublishedMap::of_name(name)?.import(options).map_err(|fault| fault.in_file(path));
    }
    let inside = path.join(DUO_MAP);
    let path = if path.is_dir() { &inside } else { path };
    import_file(path, options).map_err(|fault| fault.in_file(path))
}

fn import_file(path: &Path, options: &ImportOptions) -> Result<HeadProfile, HeadsError> {
    let text = read_text(path, "head map")?;
    if text.trim_start().starts_with('{') {
        return match text.contains("\"format\"") {
            true => {
                let profile = HeadProfile::from_json(&text)?;
                profile.check(options.shape, options.fingerprint.as_deref())?;
                Ok(profile)
            }
            false => retrieval_head(&text, options),
        };
    }
    let beside = path.with_file_name("config.json");
    // Where the file system does not tell whether there is one, reading it gives the error.
    let has_config = beside.try_exists().unwrap_or(true) && !beside.is_dir();
    let config = if has_config { Some(read_config(&beside)?) } else { None };
    duo_attention(&text, config.as_deref(), options)
}

/// DuoAttention's configuration as text. Errors name this file.
fn read_config(path: &Path) -> Result<String, HeadsError> {
    let read = || {
        let text = read_text(path, "DuoAttention configuration")?;
        trained_window(&text, &mut Map::new())?;
        Ok(text)
    };
    read().map_err(|fault: HeadsError| fault.in_file(path))
}

/// Imports the text of DuoAttention's `full_attention_heads.tsv`, with that of its `config.json` where there
/// is one.
///
/// Training leaves gates slightly outside 0 to 1; they are clamped.
///
/// # Errors
/// [`HeadsError::Malformed`] for a value that is not a gate or rows of unequal length, [`HeadsError::Shape`]
/// for another model's map.
pub fn duo_attention(
    tsv: &str,
    config: Option<&str>,
    options: &ImportOptions,
) -> Result<HeadProfile, HeadsError> {
    let malformed = |what: String| HeadsError::Malformed { format: DUO, what, hint: Hint::advice(DUO_HINT) };
    let shape = options.shape;
    let mut gates = Vec::new();
    let mut layers = 0;
    let mut columns = 0;
    for (line, row) in (1..).zip(tsv.lines()) {
        if row.trim().is_empty() {
            continue;
        }
        let before = gates.len();
        for cell in row.split_whitespace() {
            let gate: f32 = cell
                .parse()
                .ok()
                .filter(|gate| (-0.5..=1.5).contains(gate))
                .ok_or_else(|| malformed(format!("line {line}: {:?} is not a gate", shorten(cell))))?;
            gates.push(gate.clamp(0.0, 1.0));
        }
        let width = gates.len() - before;
        if layers == 0 {
            columns = width;
        } else if width != columns {
            return Err(malformed(format!("line {line} has {width} values, the first row {columns}")));
        }
        layers += 1;
    }
    if layers == 0 {
        return Err(malformed("no values".to_owned()));
    }
    if (layers, columns) != (shape.layers(), shape.kv_heads()) {
        return Err(HeadsError::Shape {
            what: "the map",
            found: format!("{layers} layers of {columns} KV heads"),
            model: shape,
        });
    }
    let mut parameters = Map::new();
    if let Some(config) = config {
        trained_window(config, &mut parameters)?;
    }
    let mut retrieval = vec![false; shape.all_kv_heads()];
    let threshold = options.threshold.unwrap_or_else(|| duo_attention_threshold(shape));
    mark(&mut retrieval, &gates, threshold, &mut parameters)?;
    let scores = vec![ScoreMap { name: "gate".to_owned(), per: ScoresPer::KvHead, values: gates }];
    let provenance = Provenance {
        source: "duo-attention".to_owned(),
        fingerprint: options.fingerprint.clone(),
        parameters,
    };
    HeadProfile::new(shape, retrieval, scores, provenance)
}

/// Reads sinks and window from DuoAttention's configuration: those for deployment, otherwise those of
/// training.
fn trained_window(config: &str, parameters: &mut Map<String, Value>) -> Result<(), HeadsError> {
    let malformed = |what: String| HeadsError::Malformed {
        format: "DuoAttention configuration",
        what,
        hint: Hint::advice(
            "use the config.json published with the map, or remove it to import the map alone",
        ),
    };
    let config: Map<String, Value> =
        serde_json::from_str(config).map_err(|error| malformed(error.to_string()))?;
    for (name, key) in [("sinks", "sink_size"), ("recent", "recent_size")] {
        let deployed = format!("deploy_{key}");
        let value = [deployed.as_str(), key]
            .into_iter()
            .filter_map(|key| config.get(key))
            .find(|value| !value.is_null());
        let Some(value) = value else { continue };
        let tokens = value.as_u64().ok_or_else(|| malformed(format!("{key} is not a number of tokens")))?;
        parameters.insert(name.to_owned(), tokens.into());
    }
    Ok(())
}

/// Imports the text of a Retrieval_Head score file. A head without scores has score 0. A KV head is a
/// retrieval head if any of its query heads is.
///
/// # Errors
/// [`HeadsError::Malformed`] for an invalid key or score, [`HeadsError::Shape`] for heads the model does not
/// have.
pub fn retrieval_head(json: &str, options: &ImportOptions) -> Result<HeadProfile, HeadsError> {
    let malformed =
        |what: String| HeadsError::Malformed { format: RETRIEVAL, what, hint: Hint::advice(RETRIEVAL_HINT) };
    let shape = options.shape;
    let file: Map<String, Value> =
        serde_json::from_str(json).map_err(|error| malformed(error.to_string()))?;
    let mut means: Vec<Option<f32>> = vec![None; shape.all_heads()];
    for (key, value) in &file {
        let head =
            key.split_once('-').and_then(|(layer, head)| Some((layer.parse().ok()?, head.parse().ok()?)));
        let Some((layer, head)): Option<(usize, usize)> = head else {
            return Err(malformed(format!("{:?} is not LAYER-HEAD", shorten(key))));
        };
        if layer >= shape.layers() || head >= shape.heads() {
            return Err(HeadsError::Shape {
                what: "the map",
                found: format!("a query head {head} in layer {layer} (both from 0)"),
                model: shape,
            });
        }
        let mean = mean(value)
            .ok_or_else(|| malformed(format!("{key:?} is not a list of scores that are finite numbers")))?;
        let mean_of_head = &mut means[layer * shape.heads() + head];
        if mean_of_head.replace(mean).is_some() {
            return Err(malformed(format!("{key:?} names a head a second time")));
        }
    }
    if means.iter().all(Option::is_none) {
        return Err(malformed("no heads".to_owned()));
    }
    let values: Vec<f32> = means.into_iter().map(Option::unwrap_or_default).collect();
    let mut parameters = Map::new();
    let threshold = options.threshold.unwrap_or(RETRIEVAL_HEAD_THRESHOLD);
    let mut query_heads = vec![false; shape.all_heads()];
    mark(&mut query_heads, &values, threshold, &mut parameters)?;
    let retrieval = query_heads.chunks_exact(shape.group()).map(|heads| heads.contains(&true)).collect();
    let scores = vec![ScoreMap { name: "retrieval".to_owned(), per: ScoresPer::QueryHead, values }];
    let provenance = Provenance {
        source: "retrieval-head".to_owned(),
        fingerprint: options.fingerprint.clone(),
        parameters,
    };
    HeadProfile::new(shape, retrieval, scores, provenance)
}

/// The mean of a list of scores or of a single score; 0 for an empty list.
fn mean(value: &Value) -> Option<f32> {
    let single = std::slice::from_ref(value);
    let scores = value.as_array().map_or(single, Vec::as_slice);
    let mut sum = 0.0;
    for score in scores {
        sum += score.as_f64()?;
    }
    let mean = (sum / scores.len().max(1) as f64) as f32;
    mean.is_finite().then_some(mean)
}

/// Sets the flags of the heads above the threshold and records the threshold in `parameters`.
fn mark(
    flags: &mut [bool],
    values: &[f32],
    threshold: HeadThreshold,
    parameters: &mut Map<String, Value>,
) -> Result<(), HeadsError> {
    match threshold {
        HeadThreshold::MinScore(min) => {
            check_share("the threshold", min)?;
            for (flag, &value) in flags.iter_mut().zip(values) {
                *flag = f64::from(value) >= min;
            }
            parameters.insert("threshold".to_owned(), min.into());
        }
        HeadThreshold::TopShare(share) => {
            check_share("the share of heads", share)?;
            mark_top_share(flags, values, share);
            parameters.insert("share".to_owned(), share.into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn options(layers: usize, heads: usize, kv_heads: usize) -> ImportOptions {
        ImportOptions {
            shape: HeadShape::new(layers, heads, kv_heads).unwrap(),
            fingerprint: Some("f00d".to_owned()),
            threshold: None,
        }
    }

    #[test]
    fn retrieval_head_scores_are_averaged_and_grouped() {
        let json = r#"{"0-0": [0.0, 0.3], "0-3": [0.05], "1-1": 0.1, "1-2": [], "0-1": [0.09, 0.1]}"#;
        let profile = retrieval_head(json, &options(2, 4, 2)).unwrap();
        assert_eq!(profile.retrieval(), [true, false, true, false]);
        let scores = &profile.score("retrieval").unwrap().values;
        assert_eq!(scores[..4], [0.15, 0.095, 0.0, 0.05]);
        let mut top = options(2, 4, 2);
        top.threshold = Some(HeadThreshold::TopShare(0.125));
        let profile = retrieval_head(json, &top).unwrap();
        assert_eq!(profile.retrieval(), [true, false, false, false]);
        assert_eq!(profile.provenance().fingerprint.as_deref(), Some("f00d"));
    }

    #[test]
    fn invalid_maps_are_refused_with_a_reason() {
        let options = options(2, 4, 2);
        let long = "9".repeat(100_000);
        for (tsv, part) in [
            ("", "no values"),
            ("\n \n\t\n", "no values"),
            ("0.1\t0.2", "1 layers of 2"),
            ("0.1\t0.2\n0.3", "line 2 has 1 values"),
            ("0.1\t0.2\n0.3\t0.4\n0.5\t0.6", "3 layers"),
            ("0.1\t0.2\nNaN\t0.4", "line 2: \"NaN\""),
            ("0.1\t0.2\ninf\t0.4", "not a gate"),
            ("0.1\t7\n0.1\t0.2", "\"7\" is not a gate"),
            ("a,b\nc,d", "not a gate"),
            (&long, "not a gate"),
        ] {
            let error = duo_attention(tsv, None, &options).unwrap_err().to_string();
            assert!(error.contains(part), "expected {part:?} in: {error}");
            assert!(error.len() < 500, "{error}");
        }
        let tsv = "0.1\t0.9\n0.8\t0.2\n";
        for (config, part) in [
            ("", "EOF"),
            ("[]", "invalid type"),
            (r#"{"sink_size": -1}"#, "sink_size"),
            (r#"{"recent_size": "all"}"#, "recent_size"),
        ] {
            let error = duo_attention(tsv, Some(config), &options).unwrap_err().to_string();
            assert!(error.contains(part), "expected {part:?} in: {error}");
        }
        let profile = duo_attention(tsv, Some(r#"{"sink_size": null}"#), &options).unwrap();
        assert_eq!(profile.retrieval(), [false, true, true, false]);
        assert_eq!(profile.provenance().parameters.keys().collect::<Vec<_>>(), ["share"]);

        let deep = format!("{{\"0-0\": {}", "[".repeat(100_000));
        for (json, part) in [
            ("{", "EOF"),
            ("{}", "no heads"),
            (r#"{"a": [1]}"#, "LAYER-HEAD"),
            (r#"{"1": [1]}"#, "LAYER-HEAD"),
            (r#"{"-1-2": [1]}"#, "LAYER-HEAD"),
            (r#"{"99999999999999999999-0": [1]}"#, "LAYER-HEAD"),
            (r#"{"2-0": [1]}"#, "layer 2"),
            (r#"{"0-4": [1]}"#, "query head 4"),
            (r#"{"0-0": ["x"]}"#, "finite"),
            (r#"{"0-0": [1e300]}"#, "finite"),
            (r#"{"0-0": {}}"#, "finite"),
            (r#"{"0-0": [1], "00-0": [1]}"#, "second time"),
            (&deep, "recursion"),
        ] {
            let error = retrieval_head(json, &options).unwrap_err().to_string();
            assert!(error.contains(part), "expected {part:?} in: {error}");
        }
        let mut options = options;
        options.threshold = Some(HeadThreshold::MinScore(f64::NAN));
        let error = duo_attention(tsv, None, &options).unwrap_err().to_string();
        assert!(error.contains("between 0 and 1"), "{error}");
    }

    #[test]
    fn formats_are_recognised_by_the_content_of_the_file() {
        let path: PathBuf = std::env::temp_dir().join(format!("longhand-import-{}", std::process::id()));
        let options = options(2, 4, 2);
        let with = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            import(&path, &options)
        };
        let duo = with(b"0.1\t0.9\n0.8\t0.2\n").unwrap();
        assert_eq!(duo.provenance().source, "duo-attention");
        let scores = with(br#" {"0-0": [0.5]}"#).unwrap();
        assert_eq!(scores.provenance().source, "retrieval-head");
        assert_eq!(with(duo.to_json().as_bytes()).unwrap(), duo);
        let other = duo.to_json().replace("f00d", "beef");
        let error = with(other.as_bytes()).unwrap_err();
        assert!(matches!(error.kind(), HeadsError::Fingerprint { .. }), "{error}");
        let error = with(b"GGUF\xff\xff").unwrap_err().to_string();
        assert!(error.contains("UTF-8") && error.starts_with(path.to_str().unwrap()), "{error}");
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(import(&path, &options), Err(HeadsError::Io { .. })));
    }
}

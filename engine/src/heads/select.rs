//! RazorAttention's choice of retrieval heads from induction and echo scores (section 3.3 and table 2 of the
//! paper).
//!
//! The query heads with the highest induction scores and those with the highest echo scores are selected.
//! Heads in both lists count in both; they are not replaced by others. A KV head is a retrieval head if any
//! of its query heads is selected.

use super::error::HeadsError;
use super::scores::{ScoresPer, check_scores};
use super::shape::HeadShape;

/// How many heads are selected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SelectionRule {
    /// Share of the model's query heads selected by induction score: 0.14 in the paper.
    pub induction: f64,
    /// Share selected by echo score: 0.01 in the paper. In models with fewer than 50 heads that is none.
    pub echo: f64,
    /// Scores each KV head by the maximum of its query heads, and takes the shares of the *KV heads*. This
    /// selects fewer KV heads where query heads share them.
    pub group_max: bool,
}

impl Default for SelectionRule {
    /// The paper's numbers.
    fn default() -> Self {
        Self { induction: 0.14, echo: 0.01, group_max: false }
    }
}

/// Which heads were selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectedHeads {
    /// `[layers, heads]`: the query heads; with `group_max` all those of a selected KV head.
    pub query_heads: Vec<bool>,
    /// `[layers, kv_heads]`: the retrieval heads.
    pub kv_heads: Vec<bool>,
}

/// Selects retrieval heads from scores `[layers, heads]`.
///
/// The counts are the shares of the model's heads, rounded half to even. Of equal scores the smaller (layer,
/// head) is selected. Layers in which all scores are 0 have a sliding window or a state: their heads do not count,
/// unless this is so in all layers.
///
/// # Errors
/// Scores that do not fit the shape or are not finite; shares outside 0 to 1.
pub fn select(
    shape: &HeadShape,
    induction: &[f32],
    echo: &[f32],
    rule: &SelectionRule,
) -> Result<SelectedHeads, HeadsError> {
    check_scores("induction", induction, shape, ScoresPer::QueryHead)?;
    check_scores("echo", echo, shape, ScoresPer::QueryHead)?;
    check_share("the share of induction heads", rule.induction)?;
    check_share("the share of echo heads", rule.echo)?;
    let group = shape.group();
    let [induction, echo] = &without_windows(shape, induction, echo);
    if rule.group_max {
        let mut kv_heads = vec![false; shape.all_kv_heads()];
        mark_top_share(&mut kv_heads, &group_max(induction, group), rule.induction);
        mark_top_share(&mut kv_heads, &group_max(echo, group), rule.echo);
        let query_heads =
            kv_heads.iter().flat_map(|&selected| std::iter::repeat_n(selected, group)).collect();
        return Ok(SelectedHeads { query_heads, kv_heads });
    }
    let mut query_heads = vec![false; shape.all_heads()];
    mark_top_share(&mut query_heads, induction, rule.induction);
    mark_top_share(&mut query_heads, echo, rule.echo);
    // A layer's heads are a whole number of groups, so groups never cross layers.
    let kv_heads = query_heads.chunks_exact(group).map(|heads| heads.contains(&true)).collect();
    Ok(SelectedHeads { query_heads, kv_heads })
}

/// The scores, `-inf` in layers that have a sliding window or a state.
fn without_windows(shape: &HeadShape, induction: &[f32], echo: &[f32]) -> [Vec<f32>; 2] {
    let counts = layers_that_count(shape, &[induction, echo]);
    let heads = shape.heads();
    [induction, echo].map(|scores| {
        let score = |(at, score): (usize, &f32)| if counts[at / heads] { *score } else { f32::NEG_INFINITY };
        scores.iter().enumerate().map(score).collect()
    })
}

/// `[layers]`: whether retrieval heads can be in a layer. They cannot where it has a sliding window or a state; all
/// its scores are then 0. Each of `scores` has equally many values for each layer.
pub(super) fn layers_that_count(shape: &HeadShape, scores: &[&[f32]]) -> Vec<bool> {
    let has_scores = |layer: usize| {
        scores.iter().any(|scores| {
            let values = scores.len() / shape.layers().max(1);
            scores[layer * values..(layer + 1) * values].iter().any(|score| *score != 0.0)
        })
    };
    let counts: Vec<bool> = (0..shape.layers()).map(has_scores).collect();
    if counts.contains(&true) { counts } else { vec![true; shape.layers()] }
}

/// Refuses values outside 0 to 1.
pub(super) fn check_share(what: &'static str, value: f64) -> Result<(), HeadsError> {
    if (0.0..=1.0).contains(&value) { Ok(()) } else { Err(HeadsError::Share { what, value }) }
}

/// Largest of every `group` consecutive values.
fn group_max(values: &[f32], group: usize) -> Vec<f32> {
    values.chunks_exact(group).map(|heads| heads.iter().copied().fold(f32::NEG_INFINITY, f32::max)).collect()
}

/// Sets the flags of the highest `share` of the finite values, rounded half to even; of equal values the
/// first ones.
pub(super) fn mark_top_share(flags: &mut [bool], values: &[f32], share: f64) {
    let finite = values.iter().filter(|value| value.is_finite()).count();
    let count = (share * finite as f64).round_ties_even() as usize;
    let mut order: Vec<usize> = (0..values.len()).collect();
    // Adding 0.0 makes -0.0 equal to 0.0. The sort is stable, so equal values stay in order.
    order.sort_by(|&a, &b| (values[b] + 0.0).total_cmp(&(values[a] + 0.0)));
    for &index in order.iter().take(count) {
        flags[index] = true;
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Value;

    use super::*;

    fn numbers(value: &Value) -> Vec<f32> {
        value
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|row| row.as_array().unwrap())
            .map(|x| x.as_f64().unwrap() as f32)
            .collect()
    }

    fn positions(flags: &[bool], columns: usize) -> Value {
        let found: Vec<Value> = (0..flags.len())
            .filter(|&index| flags[index])
            .map(|index| vec![index / columns, index % columns].into())
            .collect();
        found.into()
    }

    #[test]
    fn the_golden_cases_of_head_selection_pass() {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/policies/golden/head_selection.json");
        let Ok(text) = std::fs::read_to_string(&path) else {
            println!("skipped: there are no golden cases of head selection beside the project");
            return;
        };
        let golden: Value = serde_json::from_str(&text).unwrap();
        let cases = golden["cases"].as_array().unwrap();
        assert!(cases.len() >= 6);
        for case in cases {
            let params = &case["params"];
            let count = |name: &str| params[name].as_u64().unwrap() as usize;
            let shape = HeadShape::new(count("n_layer"), count("n_head"), count("n_kv")).unwrap();
            let rule = SelectionRule {
                induction: params["ind_frac"].as_f64().unwrap(),
                echo: params["echo_frac"].as_f64().unwrap(),
                group_max: params["per_kv_group"].as_bool().unwrap(),
            };
            let induction = numbers(&case["inputs"]["induction"]);
            let echo = numbers(&case["inputs"]["echo"]);
            let selected = select(&shape, &induction, &echo, &rule).unwrap();
            let name = &case["name"];
            let expected = &case["expected"];
            let heads = positions(&selected.query_heads, shape.heads());
            assert_eq!(heads, expected["heads"], "{name}: query heads");
            let kv = positions(&selected.kv_heads, shape.kv_heads());
            assert_eq!(kv, expected["kv"], "{name}: KV heads");
        }
    }

    #[test]
    fn ties_overlaps_and_rounding_are_those_computed_by_hand() {
        // 10 heads: 0.25 of them is 2.5, rounded to even 2; 0.35 is 3.5, rounded to 4.
        let shape = HeadShape::new(1, 10, 5).unwrap();
        let induction = [0.5, 0.5, 0.9, 0.5, 0.0, 0.0, 0.0, 0.0, -0.0, 0.0];
        let echo = [0.0, 0.0, 0.9, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        let rule = |induction, echo| SelectionRule { induction, echo, group_max: false };
        let selected = |rule| {
            let selection = select(&shape, &induction, &echo, &rule).unwrap();
            positions(&selection.query_heads, 10).to_string()
        };
        assert_eq!(selected(rule(0.25, 0.0)), "[[0,0],[0,2]]");
        // Both lists contain head 2, and no other head replaces it.
        assert_eq!(selected(rule(0.25, 0.1)), "[[0,0],[0,2]]");
        assert_eq!(selected(rule(0.35, 0.0)), "[[0,0],[0,1],[0,2],[0,3]]");
        assert_eq!(selected(rule(0.0, 0.0)), "[]");
        // The fifth head is one of several zeros of either sign: the smallest index.
        assert_eq!(selected(rule(0.5, 0.0)), "[[0,0],[0,1],[0,2],[0,3],[0,4]]");
    }

    #[test]
    fn invalid_scores_and_shares_are_refused() {
        let shape = HeadShape::new(2, 2, 1).unwrap();
        let rule = SelectionRule::default();
        let error = select(&shape, &[0.0; 3], &[0.0; 4], &rule).unwrap_err();
        assert!(error.to_string().contains("3 values"));
        let error = select(&shape, &[0.0; 4], &[0.0, 0.0, f32::NAN, 0.0], &rule).unwrap_err();
        assert!(error.to_string().contains("echo: layer 1, head 0"));
        for share in [-0.1, 1.1, f64::NAN] {
            let rule = SelectionRule { induction: share, ..rule };
            assert!(select(&shape, &[0.0; 4], &[0.0; 4], &rule).is_err());
        }
    }

    /// Half of the heads of the two layers that have scores, not of all four.
    #[test]
    fn heads_of_layers_without_scores_do_not_count() {
        let shape = HeadShape::new(4, 2, 2).unwrap();
        let induction = [0.0, 0.0, 0.1, 0.4, 0.0, 0.0, 0.3, 0.2];
        for group_max in [true, false] {
            let rule = SelectionRule { induction: 0.5, echo: 0.0, group_max };
            let selected = select(&shape, &induction, &[0.0; 8], &rule).unwrap().kv_heads;
            assert_eq!(selected, [false, false, false, true, false, false, true, false]);
        }
    }
}

//! How many rows each KV head keeps where heads keep unequal shares: those with the highest scores of the whole
//! model stay, and each head keeps the share of its rows that is among them.

use super::scores::{ScoreMap, ScoresPer};

/// The shares of all rows for which the shares of the heads are known, and the names of their maps in a profile's
/// file.
const KNOWN: [(f64, &str); 8] = [
    (0.05, "rows-5"),
    (0.1, "rows-10"),
    (0.15, "rows-15"),
    (0.2, "rows-20"),
    (0.3, "rows-30"),
    (0.4, "rows-40"),
    (0.5, "rows-50"),
    (0.7, "rows-70"),
];

/// The share of its rows that each KV head keeps, for several shares of all rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RowShares {
    /// One for each of `KNOWN`, `[layers * kv_heads]`.
    maps: Vec<ScoreMap>,
}

impl RowShares {
    /// Shares from the scores of each KV head's rows, `[layers * kv_heads][rows]`. Heads without rows get the share 0.
    pub(crate) fn of_scores(scores: &[Vec<f32>]) -> RowShares {
        let mut all: Vec<f32> = scores.iter().flatten().copied().collect();
        all.sort_by(|a, b| b.total_cmp(a));
        let map = |(share, name): (f64, &str)| {
            let kept = (all.len() as f64 * share) as usize;
            let bound = all.get(kept).copied().unwrap_or(f32::NEG_INFINITY);
            let of_head = |rows: &Vec<f32>| match rows.len() {
                0 => 0.0,
                n => rows.iter().filter(|score| **score > bound).count() as f32 / n as f32,
            };
            let values = scores.iter().map(of_head).collect();
            ScoreMap { name: name.to_owned(), per: ScoresPer::KvHead, values }
        };
        RowShares { maps: KNOWN.map(map).to_vec() }
    }

    /// Takes the shares out of the score maps of a file; `None`, and all maps stay, where one of them is missing.
    pub(super) fn take_from(maps: &mut Vec<ScoreMap>) -> Option<RowShares> {
        let is_known = |map: &ScoreMap, name: &str| map.name == name && map.per == ScoresPer::KvHead;
        let found = KNOWN.map(|(_, name)| maps.iter().find(|map| is_known(map, name)).cloned());
        let found: Vec<ScoreMap> = found.into_iter().collect::<Option<_>>()?;
        maps.retain(|map| !KNOWN.iter().any(|(_, name)| is_known(map, name)));
        Some(RowShares { maps: found })
    }

    /// As score maps of a file.
    pub(super) fn maps(&self) -> &[ScoreMap] {
        &self.maps
    }

    /// The share of each head where this share of all rows stays, `[layers * kv_heads]`; `None` for a share that was not
    /// measured.
    pub(super) fn measured(&self, share: f64) -> Option<&ScoreMap> {
        self.maps.get(KNOWN.iter().position(|(known, _)| *known == share)?)
    }

    /// The share of each of `heads` KV heads where the share `kept` of all rows stays, between the measured ones.
    pub(super) fn at(&self, kept: f64, heads: usize) -> Vec<f64> {
        let known = KNOWN.iter().zip(&self.maps).map(|((share, _), map)| (*share, Some(&map.values)));
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
        (0..heads).map(of_head).collect()
    }
}

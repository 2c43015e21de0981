//! What the next token's attention loses with the rows that a policy has evicted. Its measure is that of the L2 paper
//! (Devoto et al. 2024, arXiv 2406.11430, equations 5 to 7) at one number of rows. It is the attention that evicted
//! rows would receive with a full cache, less that of as many rows that receive least.

use std::collections::HashSet;

use longhand::Session;
use serde::{Deserialize, Serialize};

/// Attention of the next token that is lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AttentionLoss {
    /// Share, from 0 to 1, that the evicted rows would receive: the mean of all query heads.
    pub lost: f64,
    /// The smallest share that as many rows can receive.
    pub least: f64,
    /// `lost` - `least` of each query head, `[layers][heads]`. Layers with a sliding window or a state have none.
    pub by_head: Vec<Vec<f32>>,
}

impl AttentionLoss {
    /// What a session has lost. `attention` is `[layers][heads][tokens]` with a full cache.
    pub fn of_session(session: &Session, attention: &[Vec<Vec<f32>>]) -> AttentionLoss {
        let (mut loss, map) = (AttentionLoss::default(), session.kv_map());
        for (layer, heads) in attention.iter().enumerate() {
            let kv_heads = map.layers.get(layer).map_or(1, Vec::len).max(1);
            let kept: Vec<HashSet<u32>> = (0..kv_heads)
                .map(|head| session.kept_positions(layer, head).unwrap_or_default().into_iter().collect())
                .collect();
            let group = (heads.len() / kv_heads).max(1);
            let losses = heads.iter().enumerate().map(|(head, weights)| {
                let (lost, least) = lost_and_least(weights, &kept[(head / group).min(kv_heads - 1)]);
                loss.lost += lost;
                loss.least += least;
                // Enough for a picture.
                ((lost - least) * 1e5).round() as f32 / 1e5
            });
            loss.by_head.push(losses.collect());
        }
        let heads = attention.iter().map(Vec::len).sum::<usize>().max(1) as f64;
        AttentionLoss { lost: loss.lost / heads, least: loss.least / heads, ..loss }
    }

    /// The means of several; `None` of none.
    pub fn mean<'a>(losses: impl Iterator<Item = &'a AttentionLoss>) -> Option<AttentionLoss> {
        let all: Vec<&AttentionLoss> = losses.collect();
        let first = all.first()?;
        let mean = |value: &dyn Fn(&AttentionLoss) -> f64| {
            all.iter().map(|loss| value(loss)).sum::<f64>() / all.len() as f64
        };
        let head = |layer: usize, head: usize| {
            let of_loss =
                |loss: &AttentionLoss| loss.by_head.get(layer).and_then(|heads| heads.get(head)).copied();
            mean(&|loss| of_loss(loss).unwrap_or(0.0).into()) as f32
        };
        let heads =
            |layer: usize| (0..first.by_head[layer].len()).map(|number| head(layer, number)).collect();
        Some(AttentionLoss {
            lost: mean(&|loss| loss.lost),
            least: mean(&|loss| loss.least),
            by_head: (0..first.by_head.len()).map(heads).collect(),
        })
    }
}

/// The weight of the rows that are not kept, and the smallest that as many rows have.
fn lost_and_least(weights: &[f32], kept: &HashSet<u32>) -> (f64, f64) {
    let evicted = |(position, _): &(usize, &f32)| !kept.contains(&(*position as u32));
    let lost: Vec<f64> =
        weights.iter().enumerate().filter(evicted).map(|(_, weight)| f64::from(*weight)).collect();
    let mut smallest: Vec<f64> = weights.iter().map(|weight| f64::from(*weight)).collect();
    smallest.sort_by(f64::total_cmp);
    (lost.iter().sum(), smallest[..lost.len()].iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_those_worked_out_by_hand() {
        let weights = [0.5, 0.125, 0.25, 0.125];
        let of = |kept: &[u32]| lost_and_least(&weights, &kept.iter().copied().collect());
        assert_eq!(of(&[0, 1, 2, 3]), (0.0, 0.0));
        assert_eq!(of(&[0, 2]), (0.25, 0.25));
        assert_eq!(of(&[1, 3]), (0.75, 0.25));
        assert_eq!(of(&[]), (1.0, 1.0));
    }

    #[test]
    fn means_are_those_of_each_head() {
        let loss = |lost, head| AttentionLoss { lost, least: 0.0, by_head: vec![vec![0.0, head]] };
        let mean = AttentionLoss::mean([loss(0.5, 0.25), loss(0.25, 0.75)].iter()).expect("losses");
        assert_eq!((mean.lost, mean.by_head), (0.375, vec![vec![0.0, 0.5]]));
        assert_eq!(AttentionLoss::mean([].iter()), None);
    }
}

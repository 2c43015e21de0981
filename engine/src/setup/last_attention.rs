//! What the last token of a text attends to, with a full cache. With it one can tell what a policy loses.

use std::sync::{Arc, Mutex, PoisonError};

use ggml::InterruptFlag;

use crate::kv::policy::{
    AttentionNeeds, Candidates, Event, EvictionPlan, Gain, HeadMode, LaneStatus, Policy, PolicyChoice,
    PolicyEntry, ScoreInput, Scoring,
};
use crate::{Engine, EngineError, Progress, Session, SessionOptions};

/// Not in the list of policies: users cannot choose it.
static ENTRY: PolicyEntry = PolicyEntry {
    name: "last-attention",
    summary: "records the attention of the last token, and keeps every row",
    parameters: &[],
    default_heads: HeadMode::Off,
    default_compensation: false,
    factory: None,
};

/// A policy that keeps every row and records the numbers that others score rows by.
#[derive(Debug, Default)]
struct Recorder {
    /// For each layer the weights of each query head, `[heads][tokens]`.
    layers: Mutex<Vec<Vec<Vec<f32>>>>,
}

impl Policy for Recorder {
    fn budget(&self, context: usize) -> usize {
        context
    }

    fn needs(&self) -> AttentionNeeds {
        AttentionNeeds { queries: 1, ..AttentionNeeds::default() }
    }

    fn plan_eviction(&self, status: &LaneStatus) -> Option<EvictionPlan> {
        let all = 0..status.seen;
        let attention = ScoreInput::WindowAttention { queries: 1, gain: Gain::One };
        let scoring = Scoring::ordered(all.clone(), vec![attention]);
        (status.event == Event::ExactPrefill).then(|| EvictionPlan::single(all, status.live, Some(scoring)))
    }

    fn score(&self, candidates: Candidates) -> Vec<Vec<f32>> {
        let scores = candidates.map_heads(|head| vec![0.0; head.positions.len()]);
        let of_group =
            |head: &[f32], rows: usize| head.chunks(rows.max(1)).map(<[f32]>::to_vec).collect::<Vec<_>>();
        let heads = candidates.heads.iter().flat_map(|head| of_group(&head.inputs[0], head.positions.len()));
        self.layers.lock().unwrap_or_else(PoisonError::into_inner).push(heads.collect());
        scores
    }
}

/// What the last of `tokens` attends to, itself included, with a full cache in f16: the weights of each query head,
/// `[layers][heads][tokens]`. They add up to 1 for each head. Layers with a sliding window or a state have no heads
/// here: no policy changes what they keep.
///
/// # Errors
/// Those of [`Session::new`] and [`Session::sync`]; `interrupt` stops it.
///
/// ```
/// use longhand::store::last_attention;
/// use longhand::{Engine, EngineOptions, InterruptFlag, ModelSource};
///
/// let engine = Engine::open(&ModelSource::Embedded, &EngineOptions::default())?;
/// let layers = last_attention(&engine, &[5, 6, 7], &InterruptFlag::new(), &mut |_| ())?;
/// assert_eq!((layers.len(), layers[0].len(), layers[0][0].len()), (4, 8, 3));
/// # Ok::<(), longhand::EngineError>(())
/// ```
pub fn last_attention(
    engine: &Arc<Engine>,
    tokens: &[u32],
    interrupt: &InterruptFlag,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<Vec<Vec<f32>>>, EngineError> {
    let recorder = Arc::new(Recorder::default());
    let options = SessionOptions {
        context: tokens.len(),
        policy: PolicyChoice::internal(&ENTRY, recorder.clone()),
        ..SessionOptions::default()
    };
    Session::new(engine, options)?.with_interrupt(interrupt).sync(tokens, progress)?;
    let recorded = std::mem::take(&mut *recorder.layers.lock().unwrap_or_else(PoisonError::into_inner));
    let (mut recorded, spec) = (recorded.into_iter(), engine.spec());
    let of_layer = |layer| match spec.window(layer).is_some() || spec.recurrent_layer(layer).is_some() {
        true => Vec::new(),
        false => recorded.next().unwrap_or_default(),
    };
    Ok((0..spec.n_layers).map(of_layer).collect())
}

#[cfg(test)]
mod tests {
    use crate::{EngineOptions, ModelSource};

    use super::*;

    #[test]
    fn the_weights_of_each_head_add_up_to_one() {
        let engine = Engine::open(&ModelSource::Embedded, &EngineOptions::default()).unwrap();
        let tokens: Vec<u32> = (0..700).map(|index| 5 + index * 7 % 900).collect();
        let layers = last_attention(&engine, &tokens, &InterruptFlag::new(), &mut |_| ()).unwrap();
        assert_eq!(layers.len(), engine.spec().n_layers);
        for weights in layers.iter().flatten() {
            assert_eq!(weights.len(), tokens.len());
            let sum: f32 = weights.iter().sum();
            assert!((sum - 1.0).abs() < 1e-3 && weights.iter().all(|weight| *weight >= 0.0), "{sum}");
        }
        assert_eq!(layers[0].len(), engine.spec().n_heads);
        // Of the first of two equal texts nothing is left.
        assert_eq!(layers, last_attention(&engine, &tokens, &InterruptFlag::new(), &mut |_| ()).unwrap());
    }

    #[test]
    fn users_cannot_choose_it() {
        assert!("last-attention".parse::<PolicyChoice>().is_err());
    }
}

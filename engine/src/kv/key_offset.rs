//! What the keys of a head have in common. Quantised keys are stored without it.
//!
//! Some models add large biases to their keys: Qwen2.5 up to 456, where most elements are below 10. RoPE hardly turns
//! the elements with the largest ones, so nearly the same large numbers are in every row. In a block of 32 numbers that
//! share a scale they take the precision of all others.
//!
//! Softmax ignores a number that is added to all logits of a query. So a vector, the *key offset*, may be taken from
//! all keys of a head, and attention stays what it was. SageAttention (arXiv 2410.02367) takes the mean of all keys.
//! Here it is the mean of the bias with RoPE over the positions of the model's training. That is known before any key
//! is. A vector that fits worse would cost precision only.

use std::sync::Arc;

use ggml::{Tensor, Type};
use kernels::RowType;
use kernels::graph::row_type;
use models::arch::RopeStyle;
use models::spec::{LayerTensors, ModelSpec, Rope};

/// Whether rows of this type are stored without the offset.
pub fn is_used(keys: Type) -> bool {
    keys.block_elements() > 1
}

/// The type of a layer's keys where `asked` is asked for. Biases are largest in the first layer, also where RoPE turns
/// them, and no offset takes these away: four bits are too few there.
pub fn key_type(spec: &ModelSpec, layer: usize, asked: Type) -> Type {
    let has_four_bits = row_type(asked).is_some_and(RowType::has_four_bits);
    if layer == 0 && has_four_bits && spec.attention.qkv_bias { Type::Q8_0 } else { asked }
}

/// The offset of each layer, `[head_dim * kv_heads]`; `None` where the model adds no bias to keys, or where attention
/// would change. `read` gives the numbers of a bias.
pub fn of_layers<E>(
    spec: &ModelSpec,
    layers: &[LayerTensors<Tensor>],
    read: impl Fn(&Tensor) -> Result<Vec<f32>, E>,
) -> Result<Vec<Option<Arc<[f32]>>>, E> {
    // A softcap is no shift, and the logits of attention sinks are not shifted.
    if spec.attention.softcap.is_some() || spec.attention.sink_logits {
        return Ok(vec![None; layers.len()]);
    }
    let of_layer = |(number, layer): (usize, &LayerTensors<Tensor>)| {
        let attention = layer.mixer.attention().filter(|w| w.wk.is_some() && w.k_norm.is_none());
        let Some(bias) = attention.and_then(|w| w.bk.as_ref()) else { return Ok(None) };
        let mut offset = read(bias)?;
        for head in offset.chunks_mut(spec.kv_heads(number).dim) {
            mean_after_rope(head, spec.rope(number), spec.n_ctx_train);
        }
        // Such a model is refused when its logits are not finite.
        if offset.iter().any(|x| !x.is_finite()) {
            offset.fill(0.0);
        }
        Ok(Some(offset.into()))
    };
    layers.iter().enumerate().map(of_layer).collect()
}

/// Replaces `head` `[head_dim]` by the mean of what RoPE makes of it at the first `positions` positions. Scaled
/// frequencies count as if they were not.
fn mean_after_rope(head: &mut [f32], rope: Option<&Rope>, positions: usize) {
    // Where memory is planned, all numbers are 0.
    let Some(rope) = rope.filter(|_| head.iter().any(|x| *x != 0.0)) else { return };
    let pairs = rope.n_dims.min(head.len()) / 2;
    for pair in 0..pairs {
        let (i, j) = match rope.style {
            RopeStyle::Norm => (2 * pair, 2 * pair + 1),
            RopeStyle::Neox => (pair, pair + pairs),
        };
        let frequency = f64::from(rope.base).powf(-2.0 * pair as f64 / rope.n_dims as f64);
        let angle = (frequency * positions as f64).max(f64::MIN_POSITIVE);
        // The means of cos and sin from 0 to the last angle.
        let (cos, sin) = (angle.sin() / angle, 2.0 * (angle / 2.0).sin().powi(2) / angle);
        let (x, y) = (f64::from(head[i]), f64::from(head[j]));
        (head[i], head[j]) = ((x * cos - y * sin) as f32, (x * sin + y * cos) as f32);
    }
}

#[cfg(test)]
mod tests {
    use models::spec::RopeScaling;

    use super::*;

    fn rope(style: RopeStyle) -> Rope {
        Rope {
            style,
            n_dims: 4,
            base: 10_000.0,
            scaling: RopeScaling::None,
            has_factors: false,
            skipped_every: None,
        }
    }

    /// The mean of what RoPE makes of `head` at each position, by a loop over them.
    fn mean_of_all(head: [f32; 6], style: RopeStyle, positions: usize) -> [f64; 6] {
        let mut mean = head.map(f64::from);
        let pairs = match style {
            RopeStyle::Norm => [(0, 1), (2, 3)],
            RopeStyle::Neox => [(0, 2), (1, 3)],
        };
        for ((i, j), frequency) in pairs.into_iter().zip([1.0, 0.01]) {
            let (x, y) = (f64::from(head[i]), f64::from(head[j]));
            let angles = (0..positions).map(|position| frequency * position as f64);
            let turned = angles.map(|t: f64| [x * t.cos() - y * t.sin(), x * t.sin() + y * t.cos()]);
            let sum = turned.fold([0.0; 2], |[a, b], [x, y]| [a + x, b + y]);
            (mean[i], mean[j]) = (sum[0] / positions as f64, sum[1] / positions as f64);
        }
        mean
    }

    #[test]
    fn the_offset_is_the_mean_over_all_positions() {
        let head = [3.0f32, -70.0, 5.0, 100.0, 8.0, -9.0];
        for style in [RopeStyle::Norm, RopeStyle::Neox] {
            for positions in [50, 1000] {
                let mut have = head;
                mean_after_rope(&mut have, Some(&rope(style)), positions);
                for (have, want) in have.into_iter().zip(mean_of_all(head, style, positions)) {
                    assert!((f64::from(have) - want).abs() < 1.5, "{style:?} {positions}: {have} {want}");
                }
                assert_eq!(have[4..], head[4..], "elements without RoPE");
            }
        }
    }

    #[test]
    fn without_rope_the_offset_is_the_bias() {
        let mut head = [1.0, 2.0];
        mean_after_rope(&mut head, None, 100);
        assert_eq!(head, [1.0, 2.0]);
    }

    #[test]
    fn positions_and_bases_at_their_limits_give_numbers() {
        for (base, positions) in [(1.0, 0), (f32::MIN_POSITIVE, 1), (f32::MAX, usize::MAX)] {
            let mut head = [1.0f32; 4];
            mean_after_rope(&mut head, Some(&Rope { base, ..rope(RopeStyle::Neox) }), positions);
            assert!(head.iter().all(|x| x.is_finite()), "{base} {positions}: {head:?}");
        }
    }
}

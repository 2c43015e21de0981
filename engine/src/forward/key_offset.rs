//! What the keys of a head have in common. Some models add large biases to their keys (Qwen2.5), most of it where RoPE
//! hardly turns them, so nearly the same large numbers are in every row.

use models::arch::RopeStyle;
use models::spec::Rope;

/// The mean over `positions` of `bias` `[head_dim, heads]` with RoPE.
pub(super) fn mean_after_rope(bias: &[f32], head_dim: usize, rope: Option<&Rope>, positions: usize) -> Vec<f32> {
    let mut mean = bias.to_vec();
    let Some(rope) = rope else { return mean };
    for head in mean.chunks_mut(head_dim) {
        let pairs = rope.n_dims.min(head.len()) / 2;
        for pair in 0..pairs {
            let (i, j) = match rope.style {
                RopeStyle::Norm => (2 * pair, 2 * pair + 1),
                RopeStyle::Neox => (pair, pair + pairs),
            };
            let angle = f64::from(rope.base).powf(-2.0 * pair as f64 / rope.n_dims as f64) * positions as f64;
            // The mean of e^(i·t) for t from 0 to angle.
            let (cos, sin) = match angle < 1e-6 {
                true => (1.0, 0.0),
                false => (angle.sin() / angle, (1.0 - angle.cos()) / angle),
            };
            let (x, y) = (f64::from(head[i]), f64::from(head[j]));
            head[i] = (x * cos - y * sin) as f32;
            head[j] = (x * sin + y * cos) as f32;
        }
    }
    mean
}

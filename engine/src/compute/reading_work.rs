//! How much work it is to read a text. A token takes the products with the weights, which are the same everywhere, and
//! attention to the rows before it, which are more and more: the time of long texts grows with the square of their length.
//! Progress and estimates of time count work, not tokens.

use models::spec::{ModelSpec, ModelTensors};

use crate::kv::Layout;

/// How much longer a multiplication of attention takes than one with the weights. Measured on CPUs with four models: 1.6
/// to 2.4 (`tests/results/2026-11-23-depth.md`, `tests/results/2026-11-25-100k.md`).
const ATTENTION_COST: f64 = 2.0;

/// The work of reading, by layer. Its unit is a token that sees no other one, in all layers.
#[derive(Clone, Debug)]
pub(crate) struct ReadingWork {
    /// A layer's share of a token's weights.
    weights: f64,
    layers: Vec<LayerWork>,
}

#[derive(Clone, Debug)]
struct LayerWork {
    /// Attention of a token to a row.
    row: f64,
    /// Rows that a token sees at most.
    window: usize,
}

impl ReadingWork {
    pub(crate) fn new(spec: &ModelSpec) -> ReadingWork {
        let weights = weights_of_token(spec).max(1.0);
        let layers = (0..spec.n_layers).map(|layer| {
            // A product of queries and keys, and one of weights and values.
            let attention = 2 * spec.n_heads * spec.kv_heads(layer).dim;
            let attends = spec.recurrent_layer(layer).is_none();
            LayerWork {
                row: if attends { ATTENTION_COST * attention as f64 / weights } else { 0.0 },
                window: spec.window(layer).unwrap_or(usize::MAX),
            }
        });
        ReadingWork { weights: 1.0 / spec.n_layers.max(1) as f64, layers: layers.collect() }
    }

    /// The work of a layer with `tokens` tokens behind `at` others, where all rows are there.
    pub(crate) fn of_layer(&self, layer: usize, at: usize, tokens: usize) -> f64 {
        self.of_layer_with(layer, (at + tokens / 2) as f64, tokens)
    }

    /// The same where a token sees so many rows on average, if the layer has no window.
    fn of_layer_with(&self, layer: usize, rows: f64, tokens: usize) -> f64 {
        let LayerWork { row, window } = &self.layers[layer];
        tokens as f64 * (self.weights + row * rows.min(*window as f64))
    }

    /// The work of reading `tokens` tokens behind `before` others, layer by layer or against what a store of this layout
    /// keeps.
    pub(crate) fn of_text(&self, layout: &Layout, is_exact: bool, before: usize, tokens: usize) -> f64 {
        /// Tokens over which the number of rows hardly changes.
        const STEP: usize = 512;
        let of_layer = |layer: usize, at: usize, tokens: usize| match is_exact {
            true => self.of_layer(layer, at, tokens),
            false => self.of_layer_with(layer, kept_rows(layout, layer, at + tokens / 2), tokens),
        };
        let of_step = |at: usize| -> f64 {
            let step = STEP.min(before + tokens - at);
            (0..self.layers.len()).map(|layer| of_layer(layer, at, step)).sum()
        };
        let once = (before..before + tokens).step_by(STEP).map(of_step).sum::<f64>();
        // The second time every token sees the whole text.
        let again =
            || (0..self.layers.len()).map(|layer| self.of_layer_with(layer, tokens as f64, tokens)).sum();
        once + if is_exact && layout.reconstructs() { again() } else { 0.0 }
    }
}

/// Rows that a layer's heads keep on average when `seen` tokens were seen.
fn kept_rows(layout: &Layout, layer: usize, seen: usize) -> f64 {
    // A layer that attends to the rows of an earlier one sees as many.
    let source = (0..=layer).rev().find(|source| !layout.layers[*source].is_empty());
    let lanes = source.map_or(&[][..], |source| &layout.layers[source]);
    let heads: usize = lanes.iter().map(|lane| lane.kv_heads.len()).sum();
    let rows: usize = lanes.iter().map(|lane| lane.kv_heads.len() * lane.capacity.min(seen)).sum();
    rows as f64 / heads.max(1) as f64
}

/// Multiplications of a token with the weights of all layers.
fn weights_of_token(spec: &ModelSpec) -> f64 {
    let of_tensor = |tensor: &models::spec::TensorSpec| {
        let elements = tensor.dims.iter().map(|n| *n as f64).product::<f64>();
        let used = spec.experts.as_ref().filter(|_| tensor.name.contains("_exps"));
        elements * used.map_or(1.0, |experts| experts.used as f64 / experts.count.max(1) as f64)
    };
    let is_matrix =
        |tensor: &&models::spec::TensorSpec| tensor.name.starts_with("blk.") && tensor.dims.len() > 1;
    ModelTensors::in_file(spec).iter().filter(is_matrix).map(of_tensor).sum()
}

#[cfg(test)]
mod tests {
    use ggml::Type;
    use models::shapes::ModelShape;

    use super::*;
    use crate::kv::{PolicyChoice, StoreOptions};

    fn work(shape: &str, policy: &str, is_exact: bool, before: usize, tokens: usize) -> f64 {
        let spec = ModelShape::find(shape).expect("a shape").spec();
        let policy: PolicyChoice = policy.parse().expect("a policy");
        let options = StoreOptions { context: 1 << 20, types: (Type::F16, Type::F16), reserve: None };
        let layout = Layout::new(&spec, &policy, None, options).expect("a layout");
        ReadingWork::new(&spec).of_text(&layout, is_exact, before, tokens)
    }

    /// How much longer 512 tokens take at this depth than at the beginning.
    fn slower_at(shape: &str, depth: usize) -> f64 {
        work(shape, "full", false, depth, 512) / work(shape, "full", false, 0, 512)
    }

    #[test]
    fn the_work_of_long_texts_grows_with_the_square_of_their_length() {
        // Measured: 34 tokens a second at the beginning, 3.4 behind 100,000; 232 and 14.2.
        assert!(
            (7.0..12.0).contains(&slower_at("llama-3.1-8b", 100_000)),
            "{}",
            slower_at("llama-3.1-8b", 100_000)
        );
        assert!(
            (11.0..18.0).contains(&slower_at("llama-3.2-1b", 100_000)),
            "{}",
            slower_at("llama-3.2-1b", 100_000)
        );
        let text = |tokens| work("llama-3.1-8b", "full", true, 0, tokens);
        assert!((1000.0..1100.0).contains(&text(1000)), "a token is the unit: {}", text(1000));
        assert!(text(100_000) > 30.0 * text(10_000) && text(100_000) < 100.0 * text(10_000));
        // In parts it is as much.
        let parts = work("llama-3.1-8b", "full", false, 0, 40_000)
            + work("llama-3.1-8b", "full", false, 40_000, 60_000);
        assert!((parts / text(100_000) - 1.0).abs() < 1e-3);
    }

    #[test]
    fn rows_that_are_not_kept_are_no_work_later() {
        let streaming = |policy: &str| work("llama-3.1-8b", policy, false, 0, 100_000);
        assert!(streaming("streaming:window=1000") < 0.3 * streaming("full"));
        // Each layer reads the text with all of its rows.
        let exact = |policy: &str| work("llama-3.1-8b", policy, true, 0, 100_000);
        assert_eq!(exact("streaming:window=1000"), exact("full"));
        // Most layers of Gemma 3 have a window.
        let per_token =
            |shape: &str| work(shape, "full", true, 0, 100_000) / work(shape, "full", true, 0, 1000);
        assert!(per_token("gemma-3-4b") < 0.7 * per_token("llama-3.2-3b"));
    }
}

//! How much work it is to read a text. A token takes the products with the weights, which are the same everywhere, and
//! attention to the rows before it, which are more and more: the time of long texts grows with the square of their length.
//! Progress and estimates of time count work, not tokens.

use std::iter::Sum;
use std::ops::{Add, Mul, Sub};

use models::spec::{ModelSpec, ModelTensors, TensorSpec};

use crate::kv::Layout;

/// The work of reading, by kind: each takes a time of its own ([`Pace`](crate::reading::Pace)). Both count
/// multiplications; the unit is as many as a token has with the weights.
///
/// ```
/// use longhand::{Engine, EngineOptions, ModelSource, Session, SessionOptions};
///
/// let engine = Engine::open(&ModelSource::Embedded, &EngineOptions::default())?;
/// let session = Session::new(&engine, SessionOptions::default())?;
/// let (short, long) = (session.reading_work(0, 1000), session.reading_work(0, 2000));
/// assert!(long.weights < 2.01 * short.weights && long.attention > 3.9 * short.attention);
/// # Ok::<(), longhand::EngineError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Products with the weights: about the number of tokens.
    pub weights: f64,
    /// Attention: products of queries and keys, and of weights and values.
    pub attention: f64,
}

impl Add for Work {
    type Output = Work;

    fn add(self, other: Work) -> Work {
        Work { weights: self.weights + other.weights, attention: self.attention + other.attention }
    }
}

impl Sub for Work {
    type Output = Work;

    fn sub(self, other: Work) -> Work {
        self + other * -1.0
    }
}

impl Mul<f64> for Work {
    type Output = Work;

    fn mul(self, factor: f64) -> Work {
        Work { weights: self.weights * factor, attention: self.attention * factor }
    }
}

impl Sum for Work {
    fn sum<I: Iterator<Item = Work>>(all: I) -> Work {
        all.fold(Work::default(), Add::add)
    }
}

/// The work of reading, by layer.
#[derive(Clone, Debug)]
pub(crate) struct ReadingWork {
    layers: Vec<LayerWork>,
    /// Behind this layer none has rows of its own.
    last_rows: usize,
    /// A token's product with the output matrix.
    output: f64,
    /// Multiplications of a unit.
    unit: f64,
}

/// The layers whose outputs are computed of all tokens. Of another layer only the rows are, if it has any: nothing reads
/// the outputs of most tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NeededOutputs {
    /// All layers.
    All,
    /// All but the last one: a text is read chunk by chunk.
    ByChunk,
    /// Those before the last layer that has rows: a text is read layer by layer.
    ByLayer,
}

#[derive(Clone, Debug)]
struct LayerWork {
    /// A token's products with the weights.
    weights: f64,
    /// Those that its rows or its state need.
    weights_of_rows: f64,
    /// Attention of a token to a row.
    row: f64,
    /// Rows that a token sees at most.
    window: usize,
    /// Whether the layer has keys and values of its own.
    has_rows: bool,
    /// Whether it reads old rows in groups where a text is read layer by layer.
    has_groups: bool,
}

impl LayerWork {
    /// The work of tokens that see so many rows on average, if the layer has no window.
    fn of(&self, rows: f64, tokens: usize) -> Work {
        let attention = self.row * rows.min(self.window as f64);
        Work { weights: self.weights, attention } * tokens as f64
    }

    /// The work of tokens whose outputs nothing reads.
    fn of_rows(&self, tokens: usize) -> Work {
        Work { weights: self.weights_of_rows, attention: 0.0 } * tokens as f64
    }
}

impl ReadingWork {
    pub(crate) fn new(spec: &ModelSpec) -> ReadingWork {
        let layers = (0..spec.n_layers).map(|layer| {
            // A product of queries and keys, and one of weights and values.
            let attention = (2 * spec.n_heads * spec.kv_heads(layer).dim) as f64;
            let is_recurrent = spec.recurrent_layer(layer).is_some();
            LayerWork {
                weights: 0.0,
                weights_of_rows: 0.0,
                row: if is_recurrent { 0.0 } else { attention },
                window: spec.window(layer).unwrap_or(usize::MAX),
                has_rows: !spec.shares_kv(layer),
                has_groups: false,
            }
        });
        let mut layers: Vec<LayerWork> = layers.collect();
        for matrix in ModelTensors::in_file(spec).iter().filter(|tensor| tensor.dims.len() > 1) {
            let Some((layer, part)) = layer_and_part(&matrix.name) else { continue };
            // A recurrent layer computes its state with most of its weights.
            let is_of_rows = is_of_rows(part) || spec.recurrent_layer(layer).is_some();
            if let Some(layer) = layers.get_mut(layer) {
                let products = multiplications(spec, matrix);
                layer.weights += products;
                layer.weights_of_rows += if is_of_rows { products } else { 0.0 };
            }
        }
        let of_token = layers.iter().map(|layer| layer.weights).sum::<f64>().max(1.0);
        for layer in &mut layers {
            for products in [&mut layer.weights, &mut layer.weights_of_rows, &mut layer.row] {
                *products /= of_token;
            }
        }
        let last_rows = layers.iter().rposition(|layer| layer.has_rows).unwrap_or(0);
        let output = (spec.n_embd * spec.n_vocab) as f64 / of_token;
        ReadingWork { layers, last_rows, output, unit: of_token }
    }

    /// The same where these layers read old rows in groups.
    pub(crate) fn with_groups(mut self, has_groups: impl Fn(usize) -> bool) -> ReadingWork {
        self.layers.iter_mut().enumerate().for_each(|(layer, work)| work.has_groups = has_groups(layer));
        self
    }

    /// The rows that a token of a layer reads where a text is read layer by layer, and `seen` are there. How many groups are
    /// read row by row is not known: a sixteenth is assumed, and the means are another one.
    fn rows_of_text(&self, layer: usize, seen: f64) -> f64 {
        const RECENT: f64 = 512.0;
        match self.layers[layer].has_groups {
            true => seen.min(RECENT) + (seen - RECENT).max(0.0) / 8.0,
            false => seen,
        }
    }

    /// The work of a layer with `tokens` tokens behind `at` others, where all rows are there.
    pub(crate) fn of_layer(&self, layer: usize, outputs: NeededOutputs, at: usize, tokens: usize) -> Work {
        self.of_layer_with(layer, outputs, self.rows_of_text(layer, (at + tokens / 2) as f64), tokens)
    }

    /// The same where a token sees so many rows on average, if the layer has no window.
    fn of_layer_with(&self, layer: usize, outputs: NeededOutputs, rows: f64, tokens: usize) -> Work {
        let is_read = match outputs {
            NeededOutputs::All => true,
            NeededOutputs::ByChunk => layer + 1 < self.layers.len(),
            NeededOutputs::ByLayer => layer < self.last_rows,
        };
        match &self.layers[layer] {
            of_layer if is_read => of_layer.of(rows, tokens),
            of_layer => of_layer.of_rows(tokens),
        }
    }

    /// The work of reading `tokens` tokens behind `before` others, layer by layer or against what a store of this layout
    /// keeps.
    pub(crate) fn of_text(&self, layout: &Layout, is_by_layer: bool, before: usize, tokens: usize) -> Work {
        let outputs = if is_by_layer { NeededOutputs::ByLayer } else { NeededOutputs::ByChunk };
        let of_layer = |layer: usize, at: usize, tokens: usize| {
            let seen = at + tokens / 2;
            let rows = match is_by_layer {
                true => self.rows_of_text(layer, seen as f64),
                false => kept_rows(layout, layer, seen),
            };
            self.of_layer_with(layer, outputs, rows, tokens)
        };
        let once = self.of_steps(before, tokens, of_layer);
        // The second time every token sees the whole text, in the layers up to the last one with rows.
        let again = || -> Work {
            let layers = (0..self.layers.len()).filter(|layer| self.layers[*layer].has_rows);
            let rows = |layer| self.rows_of_text(layer, tokens as f64);
            layers.map(|layer| self.of_layer_with(layer, outputs, rows(layer), tokens)).sum()
        };
        once + if is_by_layer && layout.reconstructs() { again() } else { Work::default() }
    }

    /// The work of computing `tokens` tokens one after the other, behind `before` others in a store of this layout.
    pub(crate) fn of_answer(&self, layout: &Layout, before: usize, tokens: usize) -> Work {
        let of_layer = |layer: usize, at: usize, tokens: usize| {
            let rows = kept_rows(layout, layer, at + tokens / 2);
            self.of_layer_with(layer, NeededOutputs::All, rows, tokens)
        };
        let output = Work { weights: self.output * tokens as f64, attention: 0.0 };
        self.of_steps(before, tokens, of_layer) + output
    }

    /// The work of all layers, from that of a layer, a first token and a number of tokens, over which the number of rows
    /// hardly changes.
    fn of_steps(&self, before: usize, tokens: usize, of_layer: impl Fn(usize, usize, usize) -> Work) -> Work {
        const STEP: usize = 512;
        let of_step = |at: usize| -> Work {
            let step = STEP.min(before + tokens - at);
            (0..self.layers.len()).map(|layer| of_layer(layer, at, step)).sum()
        };
        (before..before + tokens).step_by(STEP).map(of_step).sum()
    }

    /// The multiplications of some work.
    pub(crate) fn multiplications(&self, work: Work) -> f64 {
        self.unit * (work.weights + work.attention)
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

/// `blk.3.attn_k.weight` is `attn_k.weight` of layer 3.
fn layer_and_part(name: &str) -> Option<(usize, &str)> {
    let (layer, part) = name.strip_prefix("blk.")?.split_once('.')?;
    Some((layer.parse().ok()?, part))
}

/// Whether keys or values are computed with a tensor.
fn is_of_rows(part: &str) -> bool {
    ["attn_k", "attn_v", "attn_qkv"].iter().any(|name| part.starts_with(name))
}

/// Multiplications of a token with a matrix.
fn multiplications(spec: &ModelSpec, matrix: &TensorSpec) -> f64 {
    let elements = matrix.dims.iter().map(|n| *n as f64).product::<f64>();
    let used = spec.experts.as_ref().filter(|_| matrix.name.contains("_exps"));
    elements * used.map_or(1.0, |experts| experts.used as f64 / experts.count.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use ggml::Type;
    use models::shapes::ModelShape;

    use super::*;
    use crate::kv::{PolicyChoice, StoreOptions};

    fn of_shape(shape: &str, policy: &str) -> (ReadingWork, Layout) {
        let spec = ModelShape::find(shape).expect("a shape").spec();
        let policy: PolicyChoice = policy.parse().expect("a policy");
        let options = StoreOptions { context: 1 << 20, types: (Type::F16, Type::F16), reserve: None };
        let layout = Layout::new(&spec, &policy, None, options).expect("a layout");
        (ReadingWork::new(&spec), layout)
    }

    fn work(shape: &str, policy: &str, is_exact: bool, before: usize, tokens: usize) -> f64 {
        let (work, layout) = of_shape(shape, policy);
        work.of_text(&layout, is_exact, before, tokens).usual()
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
        assert!((950.0..1050.0).contains(&text(1000)), "a token is the unit: {}", text(1000));
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

    #[test]
    fn a_token_multiplies_with_each_weight_and_with_each_row() {
        let (work, layout) = of_shape("llama-3.1-8b", "full");
        let answer = |before| work.multiplications(work.of_answer(&layout, before, 1));
        // 8.03 billion parameters, of which 0.53 are embeddings; 32 layers, 4,096 elements of queries.
        assert!((answer(0) / 7.50e9 - 1.0).abs() < 0.01, "{}", answer(0));
        let rows = (answer(100_000) - answer(0)) / (32.0 * 4096.0 * 2.0);
        assert!((rows / 100_000.0 - 1.0).abs() < 1e-3, "{rows}");
        // Of a text nobody reads the output matrix, nor most of the last layer.
        let text = work.multiplications(work.of_text(&layout, true, 0, 1000)) / 1000.0;
        assert!((0.9..0.95).contains(&(text / answer(500))), "{text}");
    }
}

//! Calibration: finds retrieval heads (RazorAttention section 3.3). The model reads P random tokens four
//! times. The *echo* score of a head is its attention to earlier occurrences of the current token. The
//! *induction* score is its attention to the tokens that followed them.
//!
//! The *shares of rows* come from a text that the model reads twice (KVzip). They say in which KV heads the rows are
//! that get the most attention in the second reading. Random tokens would do less well. With Qwen2.5-Coder 0.5B the
//! shares of other texts correlate with those of this text by 0.98, and with those of random tokens by 0.94.
//!
//! The tokens are computed layer by layer. The attention matrix is computed in blocks of rows, of which only
//! the few columns that count are used, so the whole matrix never exists.

mod needs;
mod predictors;
mod reading;
mod texts;

use std::sync::Arc;
use std::time::Instant;

use ggml::{Backend, Context, GraphAllocator, InterruptFlag, Tensor, Type};
use kernels::graph::AttentionShape;
use models::random::Random;
pub(super) use needs::{check_memory, fitting, least_needed};
use predictors::HeadRows;
use reading::Reading;

use crate::compute::layered_text::{LayeredText, Purpose};
use crate::devices::workspace::Workspace;
use crate::heads::{HeadProfile, Provenance, SelectionRule};
use crate::kv::PolicyChoice;
use crate::progress::Task;
use crate::session::not_finite;
use crate::{Engine, EngineError, Hint, Progress};

/// How many times the random tokens are read.
const REPEATS: usize = 4;

/// Types of the keys and values.
const CACHE_TYPES: (Type, Type) = (Type::F16, Type::F16);

/// How calibration is run.
#[derive(Clone, Copy, Debug)]
pub struct CalibrationOptions {
    /// P: random tokens (2500 in table 2; 512 find the same heads, see tests/results/2026-11-22-calibration.md).
    /// Fewer are used where four times P tokens do not fit the model's context.
    pub period: usize,
    /// Seed of the random tokens.
    pub seed: u64,
    /// Tokens computed at once.
    pub chunk: usize,
    /// Maximum bytes of the attention that is computed at once; a token's at least.
    pub block_bytes: usize,
    /// Whether row predictors are made, which the policy `kvzap` needs. For that ten texts are read twice, not one.
    pub row_predictors: bool,
}

impl Default for CalibrationOptions {
    fn default() -> Self {
        CalibrationOptions { period: 512, seed: 1, chunk: 512, block_bytes: 32 << 20, row_predictors: false }
    }
}

/// Which earlier occurrences of a token are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occurrences {
    /// All of them, summed, as in the authors' code.
    All,
    /// The last one only, as the text of the paper can be understood.
    Last,
}

/// A sequence of `prefix` tokens, followed by the same `period` tokens at least `REPEATS` times.
#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    /// Tokens before the repeated ones.
    pub prefix: usize,
    /// Tokens that repeat.
    pub period: usize,
    /// Which occurrences are counted.
    pub occurrences: Occurrences,
}

/// Mean attention of every query head of a layer to earlier tokens, from 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeadScores {
    /// `[heads]`: to the tokens that followed earlier occurrences.
    pub induction: Vec<f32>,
    /// `[heads]`: to the earlier occurrences.
    pub echo: Vec<f32>,
}

/// Scores every query head and selects retrieval heads by `rule`. Stops with an error when `interrupt` is set.
pub fn calibrate(
    engine: &Arc<Engine>,
    options: &CalibrationOptions,
    rule: &SelectionRule,
    interrupt: &InterruptFlag,
    progress: &mut dyn FnMut(Progress),
) -> Result<HeadProfile, EngineError> {
    let spec = engine.spec();
    if spec.position_encoding.is_alibi() {
        return Err(EngineError::Setting {
            what: "calibration of a model with ALiBi positions".into(),
            reason: "how far its heads see follows from their slopes; calibration finds nothing more".into(),
            hint: Hint::WindowsFromWeights,
        });
    }
    let bos = engine.file().u32("tokenizer.ggml.bos_token_id")?.filter(|bos| (*bos as usize) < spec.n_vocab);
    let prefix = usize::from(bos.is_some());
    let period = options.period.min((spec.n_ctx_train.saturating_sub(prefix)) / REPEATS);
    if period < 2 {
        return Err(EngineError::Setting {
            what: format!("calibration with {period} random tokens"),
            reason: "a period has at least 2 tokens, and four periods must fit the model's context".into(),
            hint: Hint::LongerPeriod,
        });
    }
    let candidates = ordinary_tokens(engine)?;
    let mut random = Random(options.seed);
    let block: Vec<u32> = (0..period).map(|_| candidates[random.below(candidates.len())]).collect();
    let tokens: Vec<u32> = bos.into_iter().chain(std::iter::repeat_n(block, REPEATS).flatten()).collect();
    let pattern = Pattern { prefix, period, occurrences: Occurrences::All };

    let last = tokens.last().copied().unwrap_or_default();
    not_finite::check_weights(engine, last, CACHE_TYPES, interrupt)?;
    let (mut induction, mut echo) = (Vec::new(), Vec::new());
    let texts = texts::to_read_twice(engine, options.row_predictors);
    // The texts are computed twice.
    let computed = [tokens.len(), 2 * texts.iter().map(Vec::len).sum::<usize>()];
    let started = Instant::now();
    let mut part = |before: usize, size: usize, share: f64| {
        let share = (before as f64 + size as f64 * share) / computed.iter().sum::<usize>() as f64;
        progress(Progress {
            task: Task::Calibrate,
            share,
            size: tokens.len(),
            elapsed: started.elapsed(),
            left: None,
        });
    };
    let of_pattern = &mut |share| part(0, computed[0], share);
    let scores = score_layers(engine, &tokens, pattern, options, interrupt, of_pattern);
    for scores in
        scores.map_err(|error| not_finite::with_origin(error, engine, &tokens, CACHE_TYPES, interrupt))?
    {
        induction.extend(scores.induction);
        echo.extend(scores.echo);
    }
    let mut provenance = Provenance {
        source: "calibration".into(),
        fingerprint: Some(engine.fingerprint().to_owned()),
        ..Provenance::default()
    };
    provenance.parameters.insert("period".into(), period.into());
    provenance.parameters.insert("repeats".into(), REPEATS.into());
    provenance.parameters.insert("seed".into(), options.seed.into());
    let profile = HeadProfile::from_scores(engine.head_shape()?, induction, echo, rule, provenance)?;
    if texts.is_empty() {
        return Ok(profile);
    }
    let of_texts = &mut |share| part(computed[0], computed[1], share);
    let scores = score_rows(engine, &texts, options, interrupt, of_texts)?;
    let profile = profile.with_row_shares(&scores.of_first);
    with_predictors(profile, scores)
}

/// The same profile with row predictors, for which texts are read twice. Its heads and shares of rows stay. Without them,
/// where the model cannot read these texts.
pub fn add_row_predictors(
    engine: &Arc<Engine>,
    profile: HeadProfile,
    options: &CalibrationOptions,
    interrupt: &InterruptFlag,
    progress: &mut dyn FnMut(Progress),
) -> Result<HeadProfile, EngineError> {
    let texts = texts::to_read_twice(engine, true);
    let (started, size) = (Instant::now(), texts.iter().map(Vec::len).sum());
    let of_texts = &mut |share| {
        progress(Progress { task: Task::Calibrate, share, size, elapsed: started.elapsed(), left: None });
    };
    let scores = score_rows(engine, &texts, options, interrupt, of_texts)?;
    with_predictors(profile, scores)
}

fn with_predictors(profile: HeadProfile, scores: RowScores) -> Result<HeadProfile, EngineError> {
    match scores.predictors {
        Some(maps) => Ok(profile.with_row_predictors(maps)?),
        None => Ok(profile),
    }
}

/// Tokens of ordinary text: without control tokens, bytes and unused tokens, where the file has token types.
fn ordinary_tokens(engine: &Engine) -> Result<Vec<u32>, EngineError> {
    const NORMAL: i64 = 1;
    let all = 0..engine.spec().n_vocab as u32;
    let types = engine.file().ints("tokenizer.ggml.token_type")?;
    let normal: Vec<u32> = match types {
        Some(types) => all.clone().filter(|token| types.int(*token as usize) == Some(NORMAL)).collect(),
        None => Vec::new(),
    };
    Ok(if normal.is_empty() { all.collect() } else { normal })
}

/// What is found in texts that are read twice.
struct RowScores {
    /// `[layers * kv_heads][rows]`: the largest attention that the rows of the first text get in the second reading. Layers
    /// with a sliding window or a state have no rows here.
    of_first: Vec<Vec<f32>>,
    /// `[layers * kv_heads]`: what predicts the scores of rows, if asked for; empty where there are no rows.
    predictors: Option<Vec<Vec<f32>>>,
}

/// Reads texts twice, each layer all of them before the next layer begins.
fn score_rows(
    engine: &Arc<Engine>,
    texts: &[Vec<u32>],
    options: &CalibrationOptions,
    interrupt: &InterruptFlag,
    progress: &mut dyn FnMut(f64),
) -> Result<RowScores, EngineError> {
    let (spec, backends) = (engine.spec(), &engine.backends);
    let (mut workspace, chunk) = (Workspace::new(backends), options.chunk.max(1));
    let mut readings = Vec::new();
    for tokens in texts {
        readings.push(Reading::new(engine, tokens, chunk, &mut workspace, interrupt)?);
    }
    let (mut of_first, mut predictors) = (Vec::new(), Vec::new());
    for layer in 0..spec.n_layers {
        // The heads of layers with a window may be others than the model's.
        let has_rows = spec.has_rows(layer) && spec.window(layer).is_none();
        let with_rows = options.row_predictors && has_rows;
        let mut scored = Vec::new();
        for number in 0..readings.len() {
            scored.extend(readings[number].read_layer(with_rows, &mut workspace, interrupt)?);
            progress(readings.iter().map(Reading::share).sum::<f64>() / readings.len() as f64);
        }
        for head in 0..spec.n_kv_heads {
            let of_head = scored.first().filter(|_| has_rows).and_then(|rows| rows.scores.get(head));
            of_first.push(of_head.cloned().unwrap_or_default());
            predictors.push(match with_rows {
                true => {
                    HeadRows::of_texts(&scored, head, spec.n_kv_heads, engine.forward.heads(layer).head_dim)
                        .fit(backends, &mut workspace, interrupt)?
                }
                false => Vec::new(),
            });
        }
    }
    let predicts = options.row_predictors && !texts.is_empty();
    Ok(RowScores { of_first, predictors: predicts.then_some(predictors) })
}

/// The policy of a text that is read twice, in a session of `context` tokens. It keeps every row.
fn second_reading(context: usize) -> Result<PolicyChoice, EngineError> {
    format!("kvzip:heads=off,capacity={}", context.max(100)).parse()
}

/// Computes `tokens` layer by layer and scores each layer's query heads.
fn score_layers(
    engine: &Arc<Engine>,
    tokens: &[u32],
    pattern: Pattern,
    options: &CalibrationOptions,
    interrupt: &InterruptFlag,
    progress: &mut dyn FnMut(f64),
) -> Result<Vec<HeadScores>, EngineError> {
    let chunk = options.chunk.max(1);
    let (spec, backends, n) = (engine.spec(), &engine.backends, tokens.len());
    let forward = engine.forward.for_context(n);
    let mut workspace = Workspace::new(backends);
    let mut text = LayeredText::without_store(engine, forward, tokens, chunk, Purpose::Rows, CACHE_TYPES)?;
    while text.embed_next(&mut workspace, interrupt)? {}
    let mut layers = Vec::new();
    while let Some(layer) = text.begin_layer()? {
        // Heads that see a window only are never retrieval heads: their scores stay 0. Recurrent layers have none, and
        // layers that attend to the rows of others have none that a policy could keep.
        let is_scored = spec.has_rows(layer) && spec.window(layer).is_none();
        let (rows, place) = (text.complete_rows(), backends.placement().of(layer));
        let mut scorer = Scorer {
            interrupt: interrupt.clone(),
            block_bytes: options.block_bytes,
            ..Scorer::new(engine.forward.heads(layer), engine.forward.sink_logits(layer), pattern)
        };
        while let Some(at) = text.next_chunk().map(|chunk| chunk.at) {
            let queries = if is_scored { text.queries(&mut workspace, interrupt)? } else { Vec::new() };
            text.read_chunk(&rows, &mut workspace, interrupt)?;
            if is_scored {
                scorer.add(&queries, at, &rows.lanes[0].k, backends.at(place), workspace.at(place))?;
            }
            progress(text.share());
        }
        layers.push(scorer.finish(n));
        text.end_layer();
    }
    Ok(layers)
}

/// Scores heads by their queries `[head_dim, heads, n]` and keys `[head_dim, n, kv_heads]` (f32, after RoPE)
/// of a whole sequence.
pub fn score_heads(
    shape: AttentionShape,
    pattern: Pattern,
    queries: &[f32],
    keys: &[f32],
    backend: &Backend,
) -> Result<HeadScores, EngineError> {
    let n = keys.len() / (shape.head_dim * shape.n_kv_heads).max(1);
    let ctx = Context::new(1);
    let k = ctx.tensor(Type::F32, [shape.head_dim, n, shape.n_kv_heads]);
    ctx.allocate(&backend.buffer_type())?;
    k.write(0, keys)?;
    let mut allocator = GraphAllocator::new(&backend.buffer_type());
    let mut scorer = Scorer::new(shape, None, pattern);
    scorer.add(queries, 0, &k, backend, &mut allocator)?;
    Ok(scorer.finish(n))
}

/// Sums attention over the queries of a sequence.
struct Scorer {
    shape: AttentionShape,
    /// `[heads]` f32: learned logits of the query heads, which take their share of attention.
    sink_logits: Option<Tensor>,
    pattern: Pattern,
    /// Stops the computation.
    interrupt: InterruptFlag,
    /// See [`CalibrationOptions::block_bytes`].
    block_bytes: usize,
    induction: Vec<f64>,
    echo: Vec<f64>,
}

impl Scorer {
    fn new(shape: AttentionShape, sink_logits: Option<Tensor>, pattern: Pattern) -> Scorer {
        let heads = shape.n_kv_heads * shape.group;
        let [induction, echo] = [(); 2].map(|()| vec![0.0; heads]);
        let block_bytes = CalibrationOptions::default().block_bytes;
        Scorer { shape, sink_logits, pattern, interrupt: InterruptFlag::new(), block_bytes, induction, echo }
    }

    /// Adds the attention of the tokens from position `at` on. Their queries are `[head_dim, heads, n]`; they
    /// see the rows of `k` `[head_dim, rows, kv_heads]` up to their own.
    fn add(
        &mut self,
        queries: &[f32],
        at: usize,
        k: &Tensor,
        backend: &Backend,
        allocator: &mut GraphAllocator,
    ) -> Result<(), EngineError> {
        let AttentionShape { head_dim, n_kv_heads, group, .. } = self.shape;
        let heads = n_kv_heads * group;
        let token = head_dim * heads;
        let n = queries.len() / token;
        let mut first = at;
        while first < at + n {
            let block = (self.block_bytes / (4 * heads * (at + n))).clamp(1, at + n - first);
            let queries = &queries[(first - at) * token..][..block * token];
            self.add_block(queries, first, block, k, backend, allocator)?;
            first += block;
        }
        Ok(())
    }

    fn add_block(
        &mut self,
        queries: &[f32],
        first: usize,
        n: usize,
        k: &Tensor,
        backend: &Backend,
        allocator: &mut GraphAllocator,
    ) -> Result<(), EngineError> {
        let AttentionShape { head_dim, n_kv_heads, group, scale, softcap, .. } = self.shape;
        let heads = n_kv_heads * group;
        let Pattern { prefix, period, occurrences } = self.pattern;
        let repeats = (first + n).saturating_sub(prefix + 1) / period;
        let repeats = if occurrences == Occurrences::Last { repeats.min(1) } else { repeats };
        if repeats == 0 {
            return Ok(()); // no token of this block has occurred before
        }
        let visible = first + n;
        backend.check_products(k.ty())?;
        let ctx = Context::new(16 + 16 * repeats);
        let q = ctx.input("q", Type::F32, [head_dim, heads, n]);
        let mask = ctx.input("mask", Type::F16, [visible, n]);
        // Logits, then attention: [visible, n, heads].
        let logits = ctx.mul_mat_precise(&ctx.rows(k, 0, visible), &ctx.permute(&q, [0, 2, 1, 3]));
        let (logits, scale) = match softcap {
            Some(cap) => (ctx.scale(&ctx.tanh(&ctx.scale(&logits, scale / cap)), cap), 1.0),
            None => (logits, scale),
        };
        let rows = ctx.soft_max_with_sink_logits(&logits, &mask, scale, self.sink_logits.as_ref());
        let [_, row, head, _] = rows.strides();

        // The attention of all rows i to the columns i - shift is a diagonal: one step along it is one row
        // and one column. Rows whose column is before the repeated tokens are not counted.
        let mut sums: [Option<Tensor>; 2] = [None, None];
        for repeat in 1..=repeats {
            for (which, shift) in [repeat * period - 1, repeat * period].into_iter().enumerate() {
                let skip = (prefix + repeat * period).saturating_sub(first);
                let column = first + skip - shift;
                let diagonal = ctx.view(
                    &rows,
                    [1, n - skip, heads],
                    [row + 4, head, head * heads],
                    skip * row + column * 4,
                );
                let diagonal = ctx.reshape(&ctx.cont(&diagonal), [n - skip, heads]);
                let sum = ctx.sum_rows(&diagonal); // [1, heads]
                sums[which] = Some(match &sums[which] {
                    Some(before) => ctx.add(before, &sum),
                    None => sum,
                });
            }
        }
        let [Some(induction), Some(echo)] = sums.map(|sum| sum.map(Tensor::output)) else { return Ok(()) };
        let graph = allocator.prepare(ctx.graph(&[&induction, &echo])?)?;
        q.write(0, queries)?;
        let mut bits = vec![0u16; visible * n];
        for (i, row) in bits.chunks_exact_mut(visible).enumerate() {
            row[first + i + 1..].fill(0xfc00); // -inf in f16
        }
        mask.write(0, &bits)?;
        backend.compute_until(&graph, &self.interrupt)?;
        for (total, part) in [(&mut self.induction, induction), (&mut self.echo, echo)] {
            for (total, part) in total.iter_mut().zip(part.to_vec::<f32>()?) {
                *total += f64::from(part);
            }
        }
        Ok(())
    }

    /// The means over all tokens, of a sequence of `n`, that have an earlier occurrence.
    fn finish(self, n: usize) -> HeadScores {
        let rows = n.saturating_sub(self.pattern.prefix + self.pattern.period).max(1) as f64;
        let mean = |sums: Vec<f64>| sums.into_iter().map(|sum| (sum / rows) as f32).collect();
        HeadScores { induction: mean(self.induction), echo: mean(self.echo) }
    }
}

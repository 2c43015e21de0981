//! A conversation: one timeline of tokens and the store that remembers them.
//!
//! The caller hands over the whole text so far as tokens ([`Session::sync`]); the session keeps what it has of it and computes
//! the rest. An empty session is filled layer by layer ([`Prefill::Exact`]): each layer sees all of the text before its rows are
//! thinned out, and only one layer's complete rows are held at a time. Everything later runs chunk by chunk through all layers
//! against the store as it is.

use crate::forward::{Inputs, Needed};
use crate::kv::{Layout, PolicyChoice, Store};
use crate::{Engine, EngineError, heads::HeadProfile};
use ggml::{Context, GraphAllocator, ReadyGraph, Tensor, Type};
use kernels::graph::{GraphLane, MAX_LANES, RowPositions};
use std::time::{Duration, Instant};

/// How the first text of a session is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefill {
    /// Layer by layer with full attention; rows leave when a layer is done.
    #[default]
    Exact,
    /// Chunk by chunk; bounded heads see only what they keep, from the beginning. Cheaper for long texts.
    Streaming,
}

/// What a session is made with.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Tokens it has room for.
    pub context: usize,
    /// What bounded heads keep.
    pub policy: PolicyChoice,
    /// Which heads keep everything, for policies that use a profile.
    pub profile: Option<HeadProfile>,
    /// Element types of keys and values.
    pub types: (Type, Type),
    /// How the first text is read.
    pub prefill: Prefill,
    /// Tokens computed at once while a text is read.
    pub chunk: usize,
}

impl Default for SessionOptions {
    fn default() -> Self {
        SessionOptions {
            context: 4096,
            policy: PolicyChoice::default(),
            profile: None,
            types: (Type::F16, Type::F16),
            prefill: Prefill::Exact,
            chunk: 512,
        }
    }
}

/// How far the reading of a text has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Work done, between 0 and 1.
    pub share: f64,
    /// Tokens that are being read.
    pub tokens: usize,
    /// Time since the reading began.
    pub elapsed: Duration,
}

impl Progress {
    /// Time that the rest will take at the pace so far.
    pub fn remaining(&self) -> Option<Duration> {
        (self.share > 0.0).then(|| self.elapsed.mul_f64((1.0 - self.share).max(0.0) / self.share))
    }
}

/// A conversation with a model.
pub struct Session<'e> {
    engine: &'e Engine,
    options: SessionOptions,
    store: Store,
    tokens: Vec<u32>,
    logits: Vec<f32>,
    /// For everything but decode steps.
    allocator: GraphAllocator,
    decode: Option<DecodeStep>,
}

/// The graph of a decode step, built once.
struct DecodeStep {
    graph: ReadyGraph,
    inputs: Inputs,
    logits: Tensor,
    allocator: GraphAllocator,
}

impl<'e> Session<'e> {
    /// An empty session; allocates the store.
    pub fn new(engine: &'e Engine, options: SessionOptions) -> Result<Session<'e>, EngineError> {
        let spec = engine.spec();
        if options.context == 0 || options.context > i32::MAX as usize {
            return Err(EngineError::Setting {
                what: format!("context of {} tokens", options.context),
                reason: format!("a session has room for 1 to {} tokens", i32::MAX),
                hint: format!("the model was trained for {}: -c {}", spec.n_ctx_train, spec.n_ctx_train),
            });
        }
        if let Some(profile) = &options.profile {
            profile.check(engine.head_shape()?, Some(&engine.file().fingerprint()))?;
        }
        let layout =
            Layout::new(spec, &options.policy, options.profile.as_ref(), options.context, options.types)?;
        let store = Store::new(layout, &engine.backend)?;
        let allocator = GraphAllocator::new(&engine.backend.buffer_type());
        Ok(Session {
            engine,
            options,
            store,
            tokens: Vec::new(),
            logits: Vec::new(),
            allocator,
            decode: None,
        })
    }

    /// The tokens so far.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// What it was made with.
    pub fn options(&self) -> &SessionOptions {
        &self.options
    }

    /// Logits `[n_vocab]` of the token that follows [`Session::tokens`]; empty before the first.
    pub fn logits(&self) -> &[f32] {
        &self.logits
    }

    /// Makes `tokens` the session's text: keeps the common beginning where it can, computes the rest, and leaves the
    /// logits of what follows. Returns how many tokens were computed. After an error the session is empty or holds a
    /// beginning of `tokens`.
    pub fn sync(&mut self, tokens: &[u32], progress: &mut dyn FnMut(Progress)) -> Result<usize, EngineError> {
        self.check(tokens)?;
        let common = self.tokens.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        if common < self.tokens.len() {
            // The last token is computed again where it is all that is left, for its logits.
            let keep = common.min(tokens.len().saturating_sub(1));
            if keep > 0 && self.store.can_truncate(keep) {
                self.store.truncate(keep);
                self.tokens.truncate(keep);
                self.logits.clear();
            } else {
                self.clear()?;
            }
        }
        if self.tokens.len() == tokens.len() && self.logits.is_empty() {
            // Held, but what follows is not known: the last token is computed again.
            let keep = tokens.len().saturating_sub(1);
            if keep > 0 && self.store.can_truncate(keep) {
                self.store.truncate(keep);
                self.tokens.truncate(keep);
            } else {
                self.clear()?;
            }
        }
        let rest = &tokens[self.tokens.len()..];
        match rest {
            [] => {}
            [token] if !self.tokens.is_empty() => self.push(*token)?,
            _ if self.tokens.is_empty() && self.options.prefill == Prefill::Exact => {
                self.read_exact(rest, progress)?;
            }
            _ => self.read_streaming(rest, progress)?,
        }
        Ok(rest.len())
    }

    /// Forgets everything.
    pub fn clear(&mut self) -> Result<(), EngineError> {
        self.tokens.clear();
        self.logits.clear();
        self.store.clear()
    }

    fn check(&self, tokens: &[u32]) -> Result<(), EngineError> {
        let vocabulary = self.engine.spec().n_vocab;
        if let Some(token) = tokens.iter().find(|token| **token as usize >= vocabulary) {
            return Err(EngineError::Token { token: *token, vocabulary });
        }
        if tokens.len() > self.options.context {
            return Err(EngineError::ContextFull { needed: tokens.len(), context: self.options.context });
        }
        Ok(())
    }

    /// Logits `[n_vocab]` after every token of a text, `[n, n_vocab]` in one vector: for checking a model, not for talking.
    /// The session must be empty and is left holding the text.
    pub fn all_logits(&mut self, tokens: &[u32]) -> Result<Vec<f32>, EngineError> {
        self.check(tokens)?;
        self.clear()?;
        let mut all = Vec::new();
        let mut at = 0;
        while at < tokens.len() {
            let n = self.room(tokens.len() - at)?;
            let logits = self.chunk(&tokens[at..at + n], Needed::All)?;
            all.extend(logits);
            at += n;
        }
        Ok(all)
    }

    /// Appends one token and computes the logits of what follows.
    pub fn push(&mut self, token: u32) -> Result<(), EngineError> {
        self.check(&[token])?;
        if self.tokens.len() == self.options.context {
            let context = self.options.context;
            return Err(EngineError::ContextFull { needed: context + 1, context });
        }
        self.room(1)?;
        if self.decode.is_none() {
            self.decode = Some(self.build_decode()?);
        }
        let Some(step) = &self.decode else { return Ok(()) };
        step.inputs.fill(&[token], self.store.seen(), &self.store.state())?;
        self.engine.backend.compute(&step.graph)?;
        self.logits.resize(self.engine.spec().n_vocab, 0.0);
        step.logits.read(0, &mut self.logits)?;
        self.tokens.push(token);
        self.store.advance(1);
        if self.store.is_due() {
            self.evict()?;
        }
        Ok(())
    }

    /// Lets rows leave; a failure leaves an empty session.
    fn evict(&mut self) -> Result<(), EngineError> {
        let done = self.store.evict(&self.engine.backend, &mut self.allocator);
        if done.is_err() {
            self.clear()?;
        }
        done
    }

    fn build_decode(&self) -> Result<DecodeStep, EngineError> {
        let (ctx, inputs, logits) =
            self.engine.forward.model(1, Needed::Last, |layer| self.store.lanes(layer));
        let mut allocator = GraphAllocator::new(&self.engine.backend.buffer_type());
        let graph = allocator.prepare(ctx.graph(&[&logits])?)?;
        Ok(DecodeStep { graph, inputs, logits, allocator })
    }

    /// Makes room for at most `wanted` tokens and says for how many there is.
    fn room(&mut self, wanted: usize) -> Result<usize, EngineError> {
        let wanted = wanted.min(self.options.chunk.max(1));
        if self.store.room() < wanted {
            self.evict()?;
        }
        match self.store.room().min(wanted) {
            0 => {
                let context = self.options.context;
                Err(EngineError::ContextFull { needed: self.tokens.len() + 1, context })
            }
            room => Ok(room),
        }
    }

    /// Computes a chunk against the store and gives the logits of the needed tokens.
    fn chunk(&mut self, tokens: &[u32], needed: Needed) -> Result<Vec<f32>, EngineError> {
        self.logits.clear();
        let (ctx, inputs, logits) =
            self.engine.forward.model(tokens.len(), needed, |layer| self.store.lanes(layer));
        let graph = self.allocator.prepare(ctx.graph(&[&logits])?)?;
        inputs.fill(tokens, self.store.seen(), &self.store.state())?;
        self.engine.backend.compute(&graph)?;
        let logits = if needed == Needed::None { Vec::new() } else { logits.to_vec()? };
        self.tokens.extend_from_slice(tokens);
        self.store.advance(tokens.len());
        if self.store.is_due() {
            self.evict()?;
        }
        Ok(logits)
    }

    fn read_streaming(
        &mut self,
        tokens: &[u32],
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), EngineError> {
        let done = self.read_chunks(tokens, progress);
        self.engine.release_all();
        done
    }

    fn read_chunks(&mut self, tokens: &[u32], progress: &mut dyn FnMut(Progress)) -> Result<(), EngineError> {
        let started = Instant::now();
        let mut at = 0;
        while at < tokens.len() {
            let n = self.room(tokens.len() - at)?;
            let needed = if at + n == tokens.len() { Needed::Last } else { Needed::None };
            self.logits = self.chunk(&tokens[at..at + n], needed)?;
            at += n;
            let share = at as f64 / tokens.len() as f64;
            progress(Progress { share, tokens: tokens.len(), elapsed: started.elapsed() });
        }
        Ok(())
    }

    /// Reads the first text layer by layer. What is interrupted leaves an empty session.
    fn read_exact(&mut self, tokens: &[u32], progress: &mut dyn FnMut(Progress)) -> Result<(), EngineError> {
        let read = self.layer_by_layer(tokens, progress);
        match read {
            Ok(logits) => {
                self.logits = logits;
                self.tokens = tokens.to_vec();
                self.store.finish_exact(tokens.len());
                Ok(())
            }
            Err(error) => {
                self.engine.release_all();
                self.clear()?;
                Err(error)
            }
        }
    }

    fn layer_by_layer(
        &mut self,
        tokens: &[u32],
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Vec<f32>, EngineError> {
        let started = Instant::now();
        let engine = self.engine;
        let (spec, n) = (engine.spec(), tokens.len());
        let layout = self.store.layout();
        let dense = (0..spec.n_layers).all(|layer| self.store.is_dense(layer));

        // The residual stream of all tokens and one layer's complete keys and values.
        let ctx = Context::new(5);
        let residual = ctx.tensor(Type::F32, [spec.n_embd, n]);
        let scratch = (!dense).then(|| GraphLane {
            k: ctx.tensor(layout.k_type, [spec.head_dim, n, spec.n_kv_heads]),
            v: ctx.tensor(layout.v_type, [spec.head_dim, n, spec.n_kv_heads]),
            kv_heads: (0..spec.n_kv_heads as u32).collect(),
            compensated: false,
            positions: layout
                .alibi
                .then(|| RowPositions { all: ctx.tensor(Type::I32, [n * spec.n_kv_heads]), first: 0 }),
        });
        ctx.allocate(&engine.backend.buffer_type())?;

        let chunks: Vec<(usize, usize)> = (0..n)
            .step_by(self.options.chunk.max(1))
            .map(|at| (at, self.options.chunk.max(1).min(n - at)))
            .collect();
        let mut logits = Vec::new();
        for layer in 0..spec.n_layers {
            let is_last = layer + 1 == spec.n_layers;
            let own_rows = self.store.is_dense(layer);
            let lanes = match &scratch {
                Some(scratch) if !own_rows => vec![scratch.clone()],
                _ => self.store.lanes(layer),
            };
            for (number, (at, len)) in chunks.iter().copied().enumerate() {
                let ends = is_last && at + len == n;
                let needed = match is_last {
                    true if ends => Needed::Last,
                    true => Needed::None,
                    false => Needed::All,
                };
                let (ctx, inputs, result) =
                    engine.forward.layer_of_text(layer, (&residual, at, len), &lanes, needed);
                let graph = self.allocator.prepare(ctx.graph(&[&result])?)?;
                let (mut rows, weights) = self.store.state();
                rows[layer * MAX_LANES..][..MAX_LANES].fill(at as i32);
                inputs.fill(&tokens[at..at + len], at, &(rows, weights))?;
                engine.backend.compute(&graph)?;
                if ends {
                    logits = result.to_vec()?;
                }
                let done = (layer * chunks.len() + number + 1) as f64 / (spec.n_layers * chunks.len()) as f64;
                progress(Progress { share: done, tokens: n, elapsed: started.elapsed() });
            }
            match &scratch {
                Some(scratch) if !own_rows => {
                    let complete = (&scratch.k, &scratch.v);
                    self.store.take_layer(layer, complete, n, &engine.backend, &mut self.allocator)?;
                }
                _ => self.store.grow_layer(layer, n),
            }
            engine.release(layer);
        }
        Ok(logits)
    }

    /// Puts the session into the state in which a text of `n` tokens has been read, with random keys and values: what
    /// reading costs nothing to measure decoding at a depth. The tokens are all zero.
    pub fn fill_random(&mut self, n: usize, seed: u64) -> Result<(), EngineError> {
        if n > self.options.context {
            return Err(EngineError::ContextFull { needed: n, context: self.options.context });
        }
        self.clear()?;
        self.store.fill_random(n, seed)?;
        self.tokens = vec![0; n];
        Ok(())
    }

    /// Bytes of compute buffers held now.
    pub fn compute_bytes(&self) -> usize {
        self.allocator.bytes() + self.decode.as_ref().map_or(0, |step| step.allocator.bytes())
    }
}

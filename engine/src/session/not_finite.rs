//! Numbers that are not finite: the model file is damaged, or a computation overflows.
//!
//! A product with quantised weights quantises its other operand too, which turns NaN into an arbitrary
//! number. So not all of them reach the logits. Three things are checked (`compute/finite.rs`):
//!
//! - Once for each engine, all weights ([`check_weights`]).
//! - The embeddings of every text, when they are looked up.
//! - After each computation, the logits and the residual stream before them, which carries what was added.
//!
//! Here is the search for where numbers stop being finite, which follows only then. The text is computed again with full
//! attention, layer by layer, and every intermediate is checked.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ggml::{InterruptFlag, Tensor, Type};

use crate::compute::finite::is_finite;
use crate::compute::forward::NextTokens;
use crate::compute::layered_text::{LayeredText, Purpose};
use crate::devices::placement::Place;
use crate::devices::workspace::Workspace;
use crate::error::NotFiniteOrigin;
use crate::kv::LaneValues;
use crate::{Engine, EngineError};

/// Tokens computed at a time: intermediates of a larger chunk would take much memory.
const CHUNK: usize = 64;

/// Tokens whose embeddings are computed at a time.
const EMBEDDINGS_CHUNK: usize = 512;

/// Checks the weights, once for each engine, by a token that passes all of them. NaN and infinity times any
/// number are not finite. Costs as much as a decode step.
pub(crate) fn check_weights(
    engine: &Arc<Engine>,
    token: u32,
    types: (Type, Type),
    interrupt: &InterruptFlag,
) -> Result<(), EngineError> {
    if engine.has_finite_weights.load(Ordering::Relaxed) {
        return Ok(());
    }
    match search(engine, &[token], types, interrupt) {
        Ok(None) => {
            engine.has_finite_weights.store(true, Ordering::Relaxed);
            Ok(())
        }
        Ok(origin) => Err(EngineError::NotFinite { origin }),
        Err(error) if error.is_interrupt() => Err(error),
        // Memory may be short for the check, but enough for the session.
        Err(_) => Ok(()),
    }
}

/// An error with the origin, where it lacks one. A session with keys and values of these `types` had read
/// `tokens`.
pub(crate) fn with_origin(
    error: EngineError,
    engine: &Arc<Engine>,
    tokens: &[u32],
    types: (Type, Type),
    interrupt: &InterruptFlag,
) -> EngineError {
    let EngineError::NotFinite { origin: None } = error else { return error };
    // A failed or interrupted search hides nothing but the origin.
    EngineError::NotFinite { origin: search(engine, tokens, types, interrupt).unwrap_or(None) }
}

fn search(
    engine: &Arc<Engine>,
    tokens: &[u32],
    types: (Type, Type),
    interrupt: &InterruptFlag,
) -> Result<Option<NotFiniteOrigin>, EngineError> {
    if let Some(table) = wrong_embeddings(engine, tokens, interrupt)? {
        return Ok(origin(engine, table));
    }
    // Other damaged weights show in any few tokens. Long texts take long.
    let sample = &tokens[tokens.len().saturating_sub(CHUNK)..];
    match search_layers(engine, sample, types, interrupt)? {
        None if sample.len() < tokens.len() => search_layers(engine, tokens, types, interrupt),
        found => Ok(found),
    }
}

/// The embeddings, by their name in [`origin`], of which some token has numbers that are not finite.
fn wrong_embeddings(
    engine: &Engine,
    tokens: &[u32],
    interrupt: &InterruptFlag,
) -> Result<Option<&'static str>, EngineError> {
    let (backends, mut workspace) = (&engine.backends, Workspace::new(&engine.backends));
    for tokens in tokens.chunks(EMBEDDINGS_CHUNK) {
        let of_model = engine.forward.embedding_graph(tokens.len());
        let of_layers = engine.forward.per_layer_embedding_graph(tokens.len());
        for (name, built) in [("embd", Some(of_model)), ("per_layer_embd", of_layers)] {
            let Some(built) = built else { continue };
            let graph = workspace.prepare(Place::Host, built.graph()?)?;
            built.inputs.fill(&[NextTokens { tokens, first: 0, lanes: &LaneValues::default() }])?;
            backends.compute(Place::Host, &graph, Some(interrupt))?;
            if !is_finite(&built.result.to_vec::<f32>()?) {
                return Ok(Some(name));
            }
        }
    }
    Ok(None)
}

/// Computes all layers and gives the origin of the first intermediate that is not finite.
fn search_layers(
    engine: &Arc<Engine>,
    tokens: &[u32],
    types: (Type, Type),
    interrupt: &InterruptFlag,
) -> Result<Option<NotFiniteOrigin>, EngineError> {
    let (forward, mut workspace) = (engine.forward.traced(), Workspace::new(&engine.backends));
    let mut text = LayeredText::without_store(engine, forward, tokens, CHUNK, Purpose::Intermediates, types)?;
    while text.embed_next(&mut workspace, interrupt)? {}
    while let Some(layer) = text.begin_layer()? {
        let (rows, mut stored) = (text.complete_rows(), StoredRange::default());
        while text.next_chunk().is_some() {
            let Some(pass) = text.read_chunk(&rows, &mut workspace, interrupt)? else { continue };
            for node in pass.nodes() {
                let name = node.name();
                let Some(mut origin) = origin(engine, &name) else { continue };
                let numbers: Vec<f32> = node.to_vec()?;
                if is_finite(&numbers) {
                    stored.add(&name, &numbers);
                    continue;
                }
                if name.starts_with("kqv_out") {
                    origin.tensor = stored.overflowing(engine, layer, types).name();
                }
                return Ok(Some(origin));
            }
        }
        text.end_layer();
    }
    Ok(None)
}

/// The largest absolute values of a layer's keys and values, which may overflow where they are stored.
#[derive(Default)]
struct StoredRange {
    key: f32,
    value: f32,
}

impl StoredRange {
    fn add(&mut self, name: &str, numbers: &[f32]) {
        let largest = match name.split('-').next() {
            Some("Kcur") => &mut self.key,
            Some("Vcur") => &mut self.value,
            _ => return,
        };
        *largest = numbers.iter().fold(*largest, |largest, x| largest.max(x.abs()));
    }

    /// The weight to name where attention is not finite although queries, keys and values are.
    fn overflowing<'e>(&self, engine: &'e Engine, layer: usize, types: (Type, Type)) -> &'e Tensor {
        /// The largest f16. Quantised rows have f16 scales.
        const LARGEST: f32 = 65504.0;
        let mixer = &engine.forward.weights().decode_layout.layers[layer].mixer;
        let Some(weights) = mixer.attention() else { return mixer.output() };
        match (types.0 != Type::F32 && self.key > LARGEST, types.1 != Type::F32 && self.value > LARGEST) {
            (true, _) => weights.wk.as_ref().unwrap_or(&weights.wq),
            (_, true) => weights.wv.as_ref().or(weights.wk.as_ref()).unwrap_or(&weights.wq),
            _ => &weights.wq,
        }
    }
}

/// The origin that an intermediate of this name stands for; `None` for other nodes of a graph.
fn origin(engine: &Engine, name: &str) -> Option<NotFiniteOrigin> {
    let weights = engine.forward.weights();
    let layers = weights.decode_layout.layers.len();
    let (what, layer) = match name.rsplit_once('-') {
        Some((what, number)) => (what, Some(number.parse::<usize>().ok().filter(|number| *number < layers)?)),
        None => (name, None),
    };
    let tensor = match (what, layer.map(|layer| &weights.decode_layout.layers[layer])) {
        ("embd", None) => &weights.decode_layout.input.token_embd,
        ("per_layer_embd", None) => weights.decode_layout.input.per_layer_embd.as_ref()?,
        ("result_norm", None) => &weights.decode_layout.output.norm,
        ("result_output", None) => &weights.output,
        ("attn_norm", Some(layer)) => layer.attn_norm.as_ref()?,
        ("Kcur", Some(layer)) => layer.mixer.attention()?.wk.as_ref()?,
        ("Vcur", Some(layer)) => {
            let weights = layer.mixer.attention()?;
            weights.wv.as_ref().or(weights.wk.as_ref())?
        }
        ("Qcur", Some(layer)) => &layer.mixer.attention()?.wq,
        ("kqv_out", Some(layer)) => layer.mixer.attention().map_or(layer.mixer.output(), |w| &w.wq),
        ("ffn_inp", Some(layer)) => layer.mixer.output(),
        ("ffn_norm", Some(layer)) => layer.ffn_norm.as_ref()?,
        ("ffn_act", Some(layer)) => layer.network.up(),
        ("ffn_out" | "l_out", Some(layer)) => layer.network.down(),
        // Named after the weight of a layer, `blk.`, its number and the weight's name.
        (_, None) => {
            let number = name.strip_prefix("blk.")?.split('.').next()?.parse().ok()?;
            let is_weight = name.ends_with(".weight") || name.ends_with(".bias");
            return is_weight.then(|| NotFiniteOrigin { tensor: name.into(), layer: Some(number), layers });
        }
        _ => return None,
    };
    Some(NotFiniteOrigin { tensor: tensor.name(), layer, layers })
}

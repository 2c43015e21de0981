//! What an answer attends to: the queries of decode steps are kept, and what they attend to is computed when it is asked for
//! (`paid`).
//!
//! A decode step stores its queries in rings beside the rows, as policies with window attention have it. So nothing else
//! changes in its graph, and nothing is read back more than once in [`SLOTS`] steps. Queries of an answer are small; its
//! attention would be a number for each of its tokens, heads and rows.
//!
//! Beside the queries of steps there are those of the last token of a text that is read in chunks: with them the first token
//! of an answer is chosen. Layers with a sliding window, a state, ALiBi or latent attention are left out.

mod paid;

pub use self::paid::PaidAttention;

use std::ops::Range;

use ggml::{Context, Tensor, Type};
use kernels::RowType;
use models::spec::ModelSpec;

use super::Session;
use crate::EngineError;
use crate::compute::engine::Engine;
use crate::compute::forward::OutputTokens;
use crate::devices::placement::PerPlace;
use crate::kv::{AttentionRecorder, LayerRows, attention_shape};

/// Tokens whose queries are kept beside the rows until they are read back.
const SLOTS: usize = 32;
/// Bytes of queries that are read back and kept. Of a longer answer every second token is kept, or every fourth, and so on.
const MAX_BYTES: usize = 64 << 20;

/// The queries of the last tokens.
pub(super) struct AttentionRecord {
    layers: Vec<RecordedLayer>,
    /// Positions of the tokens whose queries are kept, ascending.
    positions: Vec<usize>,
    /// Positions of the tokens whose queries are in the rings only.
    in_rings: Vec<usize>,
    /// Only tokens at multiples of it are kept.
    stride: usize,
    /// What the rings take in each place.
    bytes: PerPlace<usize>,
}

/// The queries of a layer.
struct RecordedLayer {
    layer: usize,
    /// Queries of decode steps, `[head_dim, n_heads, SLOTS]` f32: that of position p in slot p modulo `SLOTS`.
    steps: Tensor,
    /// Queries of the last token of a chunk, `[head_dim, n_heads, 1]` f32.
    last_of_chunk: Tensor,
    /// For each of the positions its queries `[head_dim, n_heads]` in f16.
    kept: Vec<u8>,
}

impl AttentionRecord {
    /// How many decode steps can be recorded at once.
    pub(super) const STEPS_AT_ONCE: usize = SLOTS;

    /// Room for the queries of a model's layers, each where it is computed.
    pub(super) fn boxed(engine: &Engine) -> Result<Box<AttentionRecord>, EngineError> {
        let (spec, placement) = (engine.spec(), engine.backends.placement());
        let layers: Vec<usize> = (0..spec.n_layers).filter(|layer| is_recorded(spec, *layer)).collect();
        let contexts = placement.per_place(|_| Context::new(2 * layers.len().max(1)));
        let recorded = |layer: &usize| {
            let (ctx, heads) = (&contexts[placement.of(*layer)], engine.forward.heads(*layer));
            let ring = |slots| ctx.tensor(Type::F32, [heads.head_dim, spec.n_heads, slots]);
            RecordedLayer { layer: *layer, steps: ring(SLOTS), last_of_chunk: ring(1), kept: Vec::new() }
        };
        let recorded = layers.iter().map(recorded).collect();
        let mut bytes = placement.per_place(|_| 0);
        for (place, ctx) in contexts.iter() {
            if layers.iter().any(|layer| placement.of(*layer) == place) {
                bytes[place] = ctx.allocate(&engine.backends.at(place).buffer_type())?;
            }
        }
        Ok(Box::new(AttentionRecord {
            layers: recorded,
            positions: Vec::new(),
            in_rings: Vec::new(),
            stride: 1,
            bytes,
        }))
    }

    /// Adds to the rows of a layer that the queries of a computation are stored: of a decode step, or of the last token of a
    /// chunk with logits.
    pub(super) fn record(&self, layer: usize, is_step: bool, outputs: OutputTokens, rows: &mut LayerRows) {
        let Some(recorded) = self.layers.iter().find(|recorded| recorded.layer == layer) else { return };
        let ring = match (is_step, outputs) {
            (true, _) => &recorded.steps,
            (false, OutputTokens::Last) => &recorded.last_of_chunk,
            // All queries of a chunk would be computed in the last layer for one of them.
            (false, _) => return,
        };
        rows.recorders
            .push(AttentionRecorder { queries: Some(ring.clone()), ..AttentionRecorder::default() });
    }

    /// Counts the queries of a computation of the tokens at `positions`.
    pub(super) fn computed(
        &mut self,
        positions: Range<usize>,
        is_step: bool,
        outputs: OutputTokens,
    ) -> Result<(), EngineError> {
        self.forget_from(positions.start);
        if is_step {
            self.in_rings.extend(positions);
            return if self.in_rings.len() == SLOTS { self.read_rings() } else { Ok(()) };
        }
        self.read_rings()?;
        if outputs == OutputTokens::Last {
            for recorded in &mut self.layers {
                let queries: Vec<f32> = recorded.last_of_chunk.to_vec()?;
                recorded.keep(&queries);
            }
            self.positions.push(positions.end - 1);
            self.thin();
        }
        Ok(())
    }

    /// Makes room in the rings for the queries of `n` steps that are computed at once.
    pub(super) fn make_room(&mut self, n: usize) -> Result<(), EngineError> {
        if self.in_rings.len() + n > SLOTS { self.read_rings() } else { Ok(()) }
    }

    /// Forgets the queries of the tokens from a position on.
    pub(super) fn forget_from(&mut self, position: usize) {
        self.in_rings.retain(|kept| *kept < position);
        let kept = self.positions.partition_point(|kept| *kept < position);
        self.positions.truncate(kept);
        self.layers.iter_mut().for_each(|recorded| recorded.truncate(kept));
    }

    /// Forgets the queries of the tokens before a position.
    fn forget_before(&mut self, position: usize) {
        self.retain(|kept| kept >= position);
        self.in_rings.retain(|kept| *kept >= position);
        // An answer begins with all of its tokens, however long the one before it was.
        if self.positions.len() <= 1 {
            self.stride = 1;
        }
    }

    /// Reads back what is in the rings only.
    fn read_rings(&mut self) -> Result<(), EngineError> {
        let stride = self.stride;
        let positions: Vec<usize> =
            self.in_rings.iter().copied().filter(|at| at.is_multiple_of(stride)).collect();
        if !positions.is_empty() {
            for recorded in &mut self.layers {
                let ring: Vec<f32> = recorded.steps.to_vec()?;
                let of_token = ring.len() / SLOTS;
                for position in &positions {
                    recorded.keep(&ring[position % SLOTS * of_token..][..of_token]);
                }
            }
            self.positions.extend(positions);
        }
        self.in_rings.clear();
        self.thin();
        Ok(())
    }

    /// Keeps every second token where the queries of all take too much memory.
    fn thin(&mut self) {
        while self.layers.iter().map(|recorded| recorded.kept.len()).sum::<usize>() > MAX_BYTES
            && self.positions.len() > 1
        {
            self.stride *= 2;
            let stride = self.stride;
            self.retain(|position| position.is_multiple_of(stride));
        }
    }

    fn retain(&mut self, is_kept: impl Fn(usize) -> bool) {
        for recorded in &mut self.layers {
            let of_token = recorded.bytes_of_token();
            let tokens = recorded.kept.chunks_exact(of_token).zip(&self.positions);
            recorded.kept =
                tokens.filter(|(_, at)| is_kept(**at)).flat_map(|(token, _)| token).copied().collect();
        }
        self.positions.retain(|position| is_kept(*position));
    }
}

impl RecordedLayer {
    fn keep(&mut self, queries: &[f32]) {
        let start = self.kept.len();
        self.kept.resize(start + RowType::F16.row_bytes(queries.len()), 0);
        RowType::F16.encode(queries, &mut self.kept[start..]);
    }

    /// The queries `[head_dim, n_heads]` of the token with this index.
    fn queries(&self, token: usize) -> Vec<f32> {
        let of_token = self.bytes_of_token();
        let mut queries = vec![0.0; self.last_of_chunk.shape().elements()];
        RowType::F16.decode(&self.kept[token * of_token..][..of_token], &mut queries);
        queries
    }

    fn truncate(&mut self, tokens: usize) {
        self.kept.truncate(tokens * self.bytes_of_token());
    }

    fn bytes_of_token(&self) -> usize {
        RowType::F16.row_bytes(self.last_of_chunk.shape().elements())
    }
}

/// Bytes that ggml aligns tensors to. It allocates as many besides where memory need not be aligned: on the host, and where
/// the host stands for a device.
const ALIGNMENT: usize = 32;

/// What is allocated for the rings of these layers.
pub(crate) fn ring_bytes(spec: &ModelSpec, layers: Range<usize>) -> usize {
    let of_layer = |layer| {
        let of_token = attention_shape(spec, layer).head_dim * spec.n_heads * size_of::<f32>();
        [SLOTS, 1].map(|slots| (slots * of_token).next_multiple_of(ALIGNMENT)).iter().sum::<usize>()
    };
    let bytes: usize = layers.filter(|layer| is_recorded(spec, *layer)).map(of_layer).sum();
    if bytes > 0 { bytes + ALIGNMENT } else { 0 }
}

/// Whether the heads of a layer can say where an answer comes from: they see the whole text, by content.
fn is_recorded(spec: &ModelSpec, layer: usize) -> bool {
    spec.has_rows(layer)
        && spec.window(layer).is_none()
        && spec.latent.is_none()
        && !spec.position_encoding.is_alibi()
}

impl Session {
    /// Records from now on what the tokens of answers attend to, for [`Session::attention_paid`], or stops recording and
    /// forgets what was recorded. A session records nothing at first, and then computes nothing for it. The logits are the
    /// same in both cases.
    ///
    /// # Errors
    /// Where there is no memory for the queries of 33 tokens. Nothing is recorded then.
    ///
    /// ```
    /// use longhand::{Model, ModelSource, Setup, SetupOptions};
    ///
    /// let model = Model::open(ModelSource::Embedded)?;
    /// let mut session = Setup::resolve(&model, &SetupOptions::default(), 0, &mut ())?.start(&mut ())?;
    /// session.sync(&[11, 12, 13, 14, 15, 16], &mut |_| ())?;
    /// session.record_attention(true)?;
    /// session.push(12)?;
    /// let attention = session.attention_paid(&[6, 7], 0..6, &[])?.expect("a model with heads that see the whole text");
    /// assert_eq!(attention[0].paid.len(), 6);
    /// # Ok::<(), longhand::EngineError>(())
    /// ```
    pub fn record_attention(&mut self, on: bool) -> Result<(), EngineError> {
        if on == self.attention.is_some() {
            return Ok(());
        }
        (self.attention, self.options.record_attention) = (None, false);
        // Its graphs store queries, or no longer do.
        (self.decode, self.number) = (None, super::next_number());
        if on {
            (self.attention, self.options.record_attention) =
                (Some(AttentionRecord::boxed(&self.engine)?), true);
        }
        Ok(())
    }

    /// Whether [`Session::record_attention`] is on.
    pub fn records_attention(&self) -> bool {
        self.attention.is_some()
    }

    /// What recording takes in each place, in bytes, without the queries that were read back; `None` without recording.
    #[doc(hidden)]
    pub fn recording_bytes(&self) -> Option<&PerPlace<usize>> {
        self.attention.as_ref().map(|attention| &attention.bytes)
    }

    /// Whether the model has layers whose attention is recorded, where it is.
    pub(crate) fn has_recorded_layers(&self) -> bool {
        self.attention.as_ref().is_some_and(|attention| !attention.layers.is_empty())
    }

    /// Forgets the queries of tokens that the session no longer has.
    pub(super) fn forget_attention(&mut self) {
        if let Some(attention) = &mut self.attention {
            attention.forget_from(self.tokens.len());
        }
    }
}

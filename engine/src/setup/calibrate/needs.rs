//! The main memory that calibration takes. It runs before the session is made, so it needs its memory instead of the
//! session's. Where there is less, smaller parts of the text and of the attention are computed at a time, which finds the
//! same heads and takes longer.

use models::spec::PositionEncoding;

use super::{CACHE_TYPES, CalibrationOptions, REPEATS, predictors, texts};
use crate::devices::placement::Place;
use crate::setup::plan::Placement;
use crate::setup::planner::{Planner, Precision};
use crate::{EngineError, Hint, SessionOptions};

/// Tokens computed at once, and bytes of a block of attention, the largest first.
const SIZES: [(usize, usize); 5] =
    [(512, 32 << 20), (512, 8 << 20), (512, 2 << 20), (128, 1 << 20), (32, 512 << 10)];

/// `asked`, with the largest parts that fit `free` bytes of main memory besides the weights; `None` for as many as it
/// takes. If that is possible, `beside` bytes are left: what calibration gives back may stay with the process.
///
/// # Errors
/// If they are not enough.
pub(in crate::setup) fn fitting(
    planner: &Planner,
    placement: Placement,
    free: Option<usize>,
    beside: usize,
    asked: CalibrationOptions,
) -> Result<CalibrationOptions, EngineError> {
    let Some(free) = free else { return Ok(asked) };
    let mut least = (0, asked);
    for (chunk, block_bytes) in SIZES {
        let options = CalibrationOptions { chunk, block_bytes, ..asked };
        least = (needed(planner, placement, &options)?, options);
        if least.0.saturating_add(beside) <= free {
            return Ok(options);
        }
    }
    let (needed, options) = least;
    check_memory(needed, free).map(|()| options)
}

/// Bytes of main memory besides the weights that a calibration with the default period takes at least.
pub(in crate::setup) fn least_needed(
    planner: &Planner,
    placement: Placement,
    row_predictors: bool,
) -> Result<usize, EngineError> {
    let [.., (chunk, block_bytes)] = SIZES;
    let options = CalibrationOptions { chunk, block_bytes, row_predictors, ..CalibrationOptions::default() };
    needed(planner, placement, &options)
}

/// Refuses a calibration that needs more than what is `free`.
pub(in crate::setup) fn check_memory(needed: usize, free: usize) -> Result<(), EngineError> {
    if needed <= free {
        return Ok(());
    }
    Err(EngineError::Setting {
        what: "calibration of the model's heads".into(),
        reason: format!("it needs {needed} bytes besides the weights, but only {free} are free"),
        hint: Hint::GiveHeadProfile,
    })
}

/// Bytes of main memory besides the weights that a calibration takes at its peak.
fn needed(
    planner: &Planner,
    placement: Placement,
    options: &CalibrationOptions,
) -> Result<usize, EngineError> {
    let spec = &planner.outline.spec;
    let plan = |session: SessionOptions| {
        let prepared = planner.prepare(&session)?;
        let planned = planner.plan(&prepared, session.context, placement, Precision::Graphs)?;
        Ok::<_, EngineError>((prepared.layout, planned.bytes))
    };
    // The random tokens: one layer's rows at a time, and a block of its attention.
    // Before them there may be one that begins the text.
    let tokens = options.period.saturating_mul(REPEATS).saturating_add(1).clamp(1, spec.n_ctx_train.max(1));
    let chunk = options.chunk.min(tokens);
    let (layout, bytes) =
        plan(SessionOptions { context: tokens, types: CACHE_TYPES, chunk, ..SessionOptions::default() })?;
    let layers = placement.layers(Place::Host);
    let rows = layers.map(|layer| layout.of_layers(layer..layer + 1).bytes()).max().unwrap_or(0);
    let heads = spec.n_heads * size_of::<f32>();
    // Logits and attention; queries, where they are computed and as they are read.
    let block = 2 * options.block_bytes.max(heads * tokens) + 2 * heads * spec.head_dim * chunk;
    let of_pattern = bytes.host.residual + bytes.host.compute + rows + block;
    if spec.position_encoding == PositionEncoding::Learned {
        return Ok(of_pattern);
    }
    // The texts that are read twice. A token has more than two characters.
    let context = (texts::MIXED.len() / 2).max(texts::MAX_TOKENS).min(spec.n_ctx_train / 2).max(1) + 1;
    let policy = super::second_reading(context)?;
    let chunk = options.chunk.min(context);
    let (_, bytes) =
        plan(SessionOptions { context, policy, types: CACHE_TYPES, chunk, ..SessionOptions::default() })?;
    let more_texts = match options.row_predictors {
        true => {
            let of_text = bytes.host.scratch + bytes.host.residual;
            let tokens = context + (texts::COUNT - 1) * texts::MAX_TOKENS;
            (texts::COUNT - 1) * of_text + predictors::needed(tokens, spec.n_kv_heads, spec.head_dim)
        }
        false => 0,
    };
    Ok(of_pattern.max(bytes.total() - bytes.weights.on_host() + more_texts))
}

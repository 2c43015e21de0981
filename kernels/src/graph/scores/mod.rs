//! Nodes for the numbers that policies score rows by. Attention is never stored, so it is computed again from queries
//! and keys ([`accumulate`](crate::accumulate)).
//!
//! - [`accumulated`]: what each row has received so far, added up while queries come;
//! - [`window`]: what each row receives from the last queries, which a ring has stored;
//! - [`measured`]: norms, maxima and spreads of keys and values;
//! - [`predicted`]: what a map says of new rows, by their keys and values.

mod accumulated;
mod measured;
mod predicted;
mod window;

use std::cell::RefCell;
use std::f32::consts::LOG2_E;
use std::ptr::{null, null_mut};
use std::sync::Arc;

use ggml::{CustomTask, DeviceTask, RawTensor};

pub use self::accumulated::{AccumulateAttention, AccumulatingLane, Accumulation, SeenPart, WeightFactors};
pub use self::measured::MeasureRows;
pub use self::predicted::PredictScores;
pub use self::window::{StoreQueries, WindowAttention, WindowQueries};
use super::AttentionShape;
use super::checks::{Check, check_rows, ensure};
use super::launch::device_type;
use super::operands::{DeviceHeads, NumbersAt};
pub use crate::accumulate::Combine;
use crate::device;
pub use crate::predict::predictor_len;

/// The factor on a query's logits before their softmax is added up (AhaKV eq. 12).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gain {
    /// 1.
    One,
    /// sqrt(2 ln(i / budget)) for the i-th token, which keeps the entropy of the weights near ln(budget); 1
    /// up to the budget.
    Entropy {
        /// Rows that the policy keeps.
        budget: usize,
    },
    /// The same divided by sqrt(head_dim): the algorithm as it is printed, which makes the weights more
    /// uniform.
    Literal {
        /// Rows that the policy keeps.
        budget: usize,
    },
}

impl Gain {
    /// The factor for the `seen`-th token, counted from 1.
    pub fn at(self, seen: usize, head_dim: usize) -> f64 {
        let entropy = |budget: usize| (2.0 * (seen as f64 / budget.max(1) as f64).ln()).sqrt();
        match self {
            Gain::Entropy { budget } if seen > budget => entropy(budget),
            Gain::Literal { budget } if seen > budget => entropy(budget) / (head_dim as f64).sqrt(),
            _ => 1.0,
        }
    }

    /// The number that device kernels have for it, and the budget.
    fn on_device(self) -> (i32, i32) {
        match self {
            Gain::One => (0, 0),
            Gain::Entropy { budget } => (1, i32::try_from(budget).unwrap_or(i32::MAX)),
            Gain::Literal { budget } => (2, i32::try_from(budget).unwrap_or(i32::MAX)),
        }
    }
}

/// Some heads of a K or V tensor, with a list of numbers for each.
#[derive(Clone, Debug)]
pub struct RowLists {
    /// Numbers of the heads in the tensor.
    pub heads: Vec<u32>,
    /// Per head: the rows to measure ([`MeasureRows`]), or the positions of its rows ([`WindowAttention`]).
    /// All lists have the same length.
    pub rows: Vec<Arc<Vec<u32>>>,
}

/// There is one list for each head, all of the same length, the heads are below `count`, and the rows below
/// `capacity`.
fn check_lists(lists: &RowLists, count: usize, capacity: usize) -> Check {
    let RowLists { heads, rows } = lists;
    let length = rows.first().map_or(0, |rows| rows.len());
    let alike = rows.len() == heads.len() && rows.iter().all(|rows| rows.len() == length);
    ensure(alike && length > 0, || {
        format!("the lists of rows of {} heads are not of one length", heads.len())
    })?;
    let fits = heads.iter().all(|head| (*head as usize) < count);
    ensure(fits, || format!("heads {heads:?} of a tensor with {count}"))?;
    check_rows(rows.iter().flat_map(|rows| rows.iter()), 0..capacity)
}

/// Splits of the rows in a device's first pass. With few queries, the tiles of queries alone would not fill
/// the device.
fn splits(queries: usize, heads: usize, capacity: usize) -> usize {
    const BLOCKS: usize = 512;
    let tiles = queries.div_ceil(8) * heads;
    (BLOCKS / tiles.max(1)).min(capacity / 64).clamp(1, 32)
}

/// The heads that are scored.
struct ScoredHeads<'a> {
    /// Their numbers in the tensor of the keys.
    tensor_heads: &'a [u32],
    /// Their KV heads in the model.
    kv_heads: &'a [u32],
}

/// The fields that accumulated attention and window attention have in common.
fn accumulate_call(
    shape: AttentionShape,
    q: DeviceHeads,
    k: RawTensor,
    gain: Gain,
    splits: usize,
    heads: ScoredHeads,
) -> Result<device::AccumulateCall, i32> {
    let (gain, budget) = gain.on_device();
    Ok(device::AccumulateCall {
        k: k.data,
        k_head_stride: k.strides[2] as u64,
        q: q.data,
        q_head_stride: q.head_stride,
        q_token_stride: q.token_stride,
        live: null(),
        log_weight: null(),
        last: null(),
        positions: null(),
        lists: null(),
        sink_logits: null(),
        row_factors: null(),
        token_factors: null(),
        stats: null_mut(),
        out: null_mut(),
        k_type: device_type(k)?,
        head_dim: shape.head_dim as i32,
        heads: heads.tensor_heads.len() as i32,
        n_query_heads: shape.n_heads() as i32,
        group: shape.group as i32,
        capacity: 0,
        added: 0,
        first: 0,
        q_tokens: q.tokens,
        tokens: 0,
        window_start: 0,
        replace: 0,
        max_alibi_bias: shape.max_alibi_bias.unwrap_or(0.0),
        gain,
        budget,
        splits: splits as i32,
        scale: shape.scale,
        window_log_weight: 0.0,
        softcap: shape.softcap.unwrap_or(0.0),
        maximum: 0,
        part_first: 0,
        part_from: 0,
        part_to: 0,
        part_last: 0,
        tensor_heads: device::head_numbers(heads.tensor_heads)?,
        kv_heads: device::head_numbers(heads.kv_heads)?,
    })
}

/// Adds the ALiBi bias to logits, which are in units of log 2: slope * (position of the row - position `own`
/// of the token).
fn add_alibi_bias(logits: &mut [f32], positions: impl Iterator<Item = f32>, own: usize, slope: f32) {
    for (logit, position) in logits.iter_mut().zip(positions) {
        *logit += slope * LOG2_E * (position - own as f32);
    }
}

/// The position of the last token, the last of the numbers. An error if `tokens` tokens cannot end there.
fn last_position(positions: NumbersAt, task: &CustomTask, tokens: usize) -> Result<usize, String> {
    let last = positions.read(task).last().copied().unwrap_or(-1);
    let fits = |last: &usize| *last < i32::MAX as usize && last + 1 >= tokens;
    let found = usize::try_from(last).ok().filter(fits);
    found.ok_or_else(|| format!("{tokens} tokens cannot end at position {last}"))
}

/// The address of the position of the last token on a device.
fn last_address(positions: NumbersAt, task: &DeviceTask) -> *const i32 {
    positions.address(task).wrapping_add(positions.count(task) - 1)
}

thread_local! {
    static SCRATCH: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

fn with_scratch<T>(work: impl FnOnce(&mut Vec<f32>) -> T) -> T {
    SCRATCH.with_borrow_mut(work)
}

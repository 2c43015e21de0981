//! Nodes by which policies learn about rows: attention gathered while the graph runs, queries kept for later, and rows measured
//! where they lie.

use super::launch::{device_column, device_type};
use super::lists::{self, Lists};
use super::{Appended, AttentionShape, GraphLane, LaneInputs, numbers, rows, state_column};
use crate::accumulate::{Keys, Watcher, add_received};
use crate::attention::alibi_slopes;
use crate::device;
use crate::measure::{Measure, measure};
use ggml::{Context, CustomTask, DeviceTask, RawTensor, Tensor, Type};
use std::cell::RefCell;
use std::f32::consts::LOG2_E;
use std::ops::Range;
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// How much sharper than the attention itself a query's row is taken (AhaKV eq. 12).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gain {
    /// Not at all.
    One,
    /// sqrt(2 ln(i / budget)) for the i-th token, which keeps the row's entropy near ln(budget); 1 up to the budget.
    Entropy {
        /// Rows kept.
        budget: usize,
    },
    /// The same divided by sqrt(head_dim): the algorithm as it is printed, which flattens rows.
    Literal {
        /// Rows kept.
        budget: usize,
    },
}

impl Gain {
    /// The factor on the scaled logits of the `seen`-th token (counted from 1).
    pub fn at(self, seen: usize, head_dim: usize) -> f64 {
        let entropy = |budget: usize| (2.0 * (seen as f64 / budget.max(1) as f64).ln()).sqrt();
        match self {
            Gain::Entropy { budget } if seen > budget => entropy(budget),
            Gain::Literal { budget } if seen > budget => entropy(budget) / (head_dim as f64).sqrt(),
            _ => 1.0,
        }
    }

    /// What device kernels call it: its number and the budget.
    fn on_device(self) -> (i32, i32) {
        match self {
            Gain::One => (0, 0),
            Gain::Entropy { budget } => (1, budget as i32),
            Gain::Literal { budget } => (2, budget as i32),
        }
    }
}

/// Which queries of a computation count for [`gather`], and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accumulation {
    /// The last so many of the computation's tokens.
    pub queries: usize,
    /// Whether what was gathered before is forgotten.
    pub replace: bool,
    /// Sharpness of the rows.
    pub gain: Gain,
}

/// The lane whose rows accumulate attention.
pub struct AccumulatingLane<'a> {
    /// The lane, with a tensor [`GraphLane::accumulated`]; without one nothing is computed.
    pub lane: &'a GraphLane,
    /// The lane's number in its layer: its row of the [`LaneInputs`].
    pub number: usize,
    /// The heads of the lane that accumulate, by their numbers in the lane.
    pub heads: Arc<[u32]>,
}

/// Gathers in `lane.received` what rows receive from the queries `q` `[head_dim, heads, n_q]` (f32) of the last tokens of `new`
/// whose rows were written before `stored` was computed: the mean over the query heads of each KV head. Only the lane's heads
/// number `watched` are looked at; `number` is the lane's place in its layer, `positions` `[new]` i32 those of the tokens.
/// Rows that the tokens wrote begin at 0. The result carries no data.
pub fn accumulate_attention(
    ctx: &Context,
    shape: AttentionShape,
    q: &Tensor,
    appended: Appended,
    to: AccumulatingLane,
    state: &LaneInputs,
    how: Accumulation,
) -> Option<Tensor> {
    let AccumulatingLane { lane, number, heads: watched } = to;
    let (received, new) = (lane.accumulated.as_ref()?, appended.rows);
    let mut operands =
        vec![q, appended.node, &state.rows, &state.log_weights, &state.positions, &lane.k, received];
    operands.extend(lane.positions.as_ref().map(|positions| &positions.all));
    let (kv_heads, compensated, layer) = (lane.kv_heads.clone(), lane.compensated, state.layer);
    let alibi = lane.positions.as_ref().map(|positions| (positions.first, slopes(shape)));
    let watching = how.queries.min(q.dim(2));
    let splits = splits(watching * shape.group, watched.len(), lane.k.dim(1));
    let (first_position, looked_at, of_model) =
        (alibi.as_ref().map(|(first, _)| *first), watched.clone(), kv_heads.clone());
    let gather = move |task: &CustomTask| {
        let live = state_column(task.operand(2), layer)[number] as usize;
        let log_weight = f32::from_bits(state_column(task.operand(3), layer)[number] as u32);
        let (keys, received) = (task.operand(5), task.operand(6));
        let queries = Queries::new(task.operand(0));
        let last = last_of(task.operand(4));
        let all = live + new;
        assert!(
            all <= keys.shape[1] && keys.shape[1] == received.shape[0],
            "rows beyond the lane, or not one number a row"
        );
        let counted = how.queries.min(queries.tokens);
        for at in (task.thread..watched.len()).step_by(task.threads) {
            let head = watched[at] as usize;
            // SAFETY: each head's column is touched by one thread; [capacity, heads] f32.
            let column = unsafe { column(received, head) };
            let fresh = if how.replace { 0 } else { live };
            column[fresh..all].fill(0.0);
            let first = queries.tokens - counted;
            let watchers: Vec<Watcher> = (first..queries.tokens)
                .flat_map(|t| (0..shape.group).map(move |member| (t, member)))
                .map(|(t, member)| {
                    let seen = last + 2 + t - queries.tokens;
                    Watcher {
                        query: queries.of(kv_heads[head] as usize * shape.group + member, t),
                        scale: shape.scale * how.gain.at(seen, shape.head_dim) as f32,
                        target: 0,
                    }
                })
                .collect();
            let hide = |watcher: usize, logits: &mut [f32]| {
                let later = queries.tokens - 1 - (first + watcher / shape.group);
                logits[all - later..].fill(f32::NEG_INFINITY);
                if let Some((at, slopes)) = &alibi {
                    // SAFETY: i32 without gaps, written before this node.
                    let places = unsafe { &numbers(task.operand(7))[at + head * keys.shape[1]..][..all] };
                    let member = kv_heads[head] as usize * shape.group + watcher % shape.group;
                    let gain = how.gain.at(last + 1 - later, shape.head_dim) as f32;
                    fall(
                        logits,
                        places.iter().map(|place| *place as f32),
                        last - later,
                        slopes[member] * gain,
                    );
                }
            };
            let keys = Keys {
                rows: rows(keys),
                head,
                live: all,
                log_weight: if compensated { log_weight } else { 0.0 },
                head_dim: shape.head_dim,
            };
            let out = (&mut column[..all], all);
            with_scratch(|scratch| {
                add_received(&keys, &watchers, 1.0 / shape.group as f32, hide, out, scratch);
            });
        }
    };
    // The result is what a device needs to remember between two passes.
    let stats = [2, splits, watching * shape.group, looked_at.len()];
    Some(ctx.custom_on(Type::F32, stats, &operands, gather, move |task| {
        let [q, k, received] = [0, 5, 6].map(|operand| task.operand(operand));
        let columns = [device_column(task.operand(2), layer)?, device_column(task.operand(3), layer)?];
        let [live, log_weight] = columns.map(|column| column.wrapping_add(4 * number));
        let models: Vec<u32> = looked_at.iter().map(|head| of_model[*head as usize]).collect();
        let call = device::ReceivedCall {
            live: live.cast(),
            log_weight: if compensated { log_weight.cast() } else { null() },
            last: last_address(task.operand(4)),
            positions: match first_position {
                Some(first) => task.operand(7).data.cast::<i32>().wrapping_add(first),
                None => null(),
            },
            stats: task.result().data.cast(),
            out: received.data.cast(),
            capacity: k.shape[1] as i32,
            added: new as i32,
            tokens: watching as i32,
            replace: how.replace.into(),
            alibi: first_position.is_some().into(),
            ..received_call(shape, (q, k), how.gain, splits, (&looked_at, &models))?
        };
        // SAFETY: the addresses are those of the operands and of the result, whose shapes are those of the call.
        unsafe { device::received(task, &call) }
    }))
}

/// Into how many parts the rows are taken for the first of a device's two passes: few watchers alone would not fill it.
fn splits(watchers: usize, heads: usize, capacity: usize) -> usize {
    const BLOCKS: usize = 512;
    let tiles = watchers.div_ceil(8) * heads;
    (BLOCKS / tiles.max(1)).min(capacity / 64).clamp(1, 32)
}

/// What both kinds of attention received have in common; the addresses of q and k are set.
fn received_call(
    shape: AttentionShape,
    (q, k): (RawTensor, RawTensor),
    gain: Gain,
    splits: usize,
    (which, kv_heads): (&[u32], &[u32]),
) -> Result<device::ReceivedCall, i32> {
    let (gain, budget) = gain.on_device();
    Ok(device::ReceivedCall {
        k: k.data,
        k_head_stride: k.strides[2] as u64,
        q: q.data.cast(),
        q_head_stride: (q.strides[1] / 4) as u64,
        q_token_stride: (q.strides[2] / 4) as u64,
        live: null(),
        log_weight: null(),
        last: null(),
        positions: null(),
        lists: null(),
        stats: null_mut(),
        out: null_mut(),
        k_type: device_type(k)?,
        head_dim: shape.head_dim as i32,
        heads: which.len() as i32,
        model_heads: (shape.n_kv_heads * shape.group) as i32,
        group: shape.group as i32,
        capacity: 0,
        added: 0,
        first: 0,
        all_tokens: q.shape[2] as i32,
        tokens: 0,
        start: 0,
        replace: 0,
        alibi: 0,
        gain,
        budget,
        splits: splits as i32,
        scale: shape.scale,
        row_weight: 0.0,
        which: device::heads(which)?,
        kv_heads: device::heads(kv_heads)?,
    })
}

/// Keeps the queries `q` `[head_dim, heads, n_q]` (f32) of a computation's last tokens in `ring` `[head_dim, heads, window]`
/// f32, the token at position p in slot p modulo `window`. The result carries no data.
pub fn store_queries(ctx: &Context, q: &Tensor, positions: &Tensor, ring: &Tensor) -> Tensor {
    let keep = |task: &CustomTask| {
        let (queries, ring) = (Queries::new(task.operand(0)), task.operand(2));
        let last = last_of(task.operand(1));
        let window = ring.shape[2];
        for t in
            (queries.tokens.saturating_sub(window)..queries.tokens).skip(task.thread).step_by(task.threads)
        {
            let position = last + 1 + t - queries.tokens;
            // SAFETY: slots are [head_dim, heads] f32 without gaps; each is written by one thread.
            let slot = unsafe {
                let at = ring.data.add(position % window * ring.strides[2]).cast::<f32>();
                std::slice::from_raw_parts_mut(at, ring.shape[0] * ring.shape[1])
            };
            for (head, slot) in slot.chunks_exact_mut(ring.shape[0]).enumerate() {
                slot.copy_from_slice(queries.of(head, t));
            }
        }
    };
    ctx.custom_on(Type::F32, [1], &[q, positions, ring], keep, |task| {
        let (q, ring) = (task.operand(0), task.operand(2));
        let call = device::RememberCall {
            q: q.data.cast(),
            q_head_stride: (q.strides[1] / 4) as u64,
            q_token_stride: (q.strides[2] / 4) as u64,
            last: last_address(task.operand(1)),
            ring: ring.data.cast(),
            head_dim: ring.shape[0] as i32,
            heads: ring.shape[1] as i32,
            tokens: q.shape[2] as i32,
            window: ring.shape[2] as i32,
        };
        // SAFETY: the addresses are those of the operands, whose shapes are those of the call.
        unsafe { device::remember(task, &call) }
    })
}

/// The heads of a K or V tensor that are looked at.
#[derive(Clone, Debug)]
pub struct RowLists {
    /// Per head its number in the tensor.
    pub heads: Vec<u32>,
    /// Per head the rows that are meant, or the positions of its live rows; as many for each.
    pub rows: Vec<Arc<Vec<u32>>>,
}

/// Measures rows of a K or V tensor `[head_dim, capacity, heads]`: `[rows, heads]`.
pub fn measure_rows(ctx: &Context, tensor: &Tensor, which: RowLists, what: Measure) -> Tensor {
    let RowLists { heads, rows: listed } = which;
    let shape = [listed.first().map_or(0, |rows| rows.len()), heads.len()];
    let lists = lists::pack(ctx, listed.iter().map(|rows| rows.as_slice()));
    let looked_at = heads.clone();
    let work = move |task: &CustomTask| {
        let tensor = task.operand(0);
        // SAFETY: packed above.
        let lists = unsafe { Lists::of(task.operand(1), heads.len()) };
        for at in (task.thread..heads.len()).step_by(task.threads) {
            // SAFETY: each head's column is written by one thread.
            let out = unsafe { column(task.result(), at) };
            let listed: Vec<u32> = lists.get(at).collect();
            measure(&rows(tensor), tensor.shape[0], heads[at] as usize, &listed, what, out);
        }
    };
    let launch = move |task: &DeviceTask| {
        let tensor = task.operand(0);
        let (what, lag) = match what {
            Measure::Norm => (0, 1),
            Measure::SquaredNorm => (1, 1),
            Measure::MaxAbs => (2, 1),
            Measure::Spread { lag, own } => (if own { 4 } else { 3 }, lag.max(1)),
        };
        let call = device::MeasureCall {
            rows: tensor.data,
            head_stride: tensor.strides[2] as u64,
            lists: task.operand(1).data.cast(),
            out: task.result().data.cast(),
            ty: device_type(tensor)?,
            head_dim: tensor.shape[0] as i32,
            heads: looked_at.len() as i32,
            count: shape[0] as i32,
            what,
            lag: lag as i32,
            which: device::heads(&looked_at)?,
        };
        // SAFETY: the addresses are those of the operands and of the result, whose shapes are those of the call.
        unsafe { device::measure(task, &call) }
    };
    ctx.custom_on(Type::F32, shape, &[tensor, &lists], work, launch).output()
}

/// Whose attention [`window`] takes: tokens whose queries [`remember`] kept.
#[derive(Clone, Debug)]
pub struct WindowQueries {
    /// Positions of the tokens.
    pub positions: Range<usize>,
    /// Sharpness of their rows.
    pub gain: Gain,
    /// KV heads of the model that the looked-at heads are.
    pub kv_heads: Vec<u32>,
    /// Rows before the first that has a position: 1 where row 0 is a compensation entry.
    pub first: usize,
    /// Natural-log weight of that row.
    pub log_weight: f32,
    /// Whether attention falls with the distance (ALiBi).
    pub alibi: bool,
}

/// What every live row of the looked-at heads of `k` receives from each query head of its group, added up over the tokens of
/// `window` whose queries lie in `ring`: `[first + rows, group, heads]`. A token sees the rows whose positions are not behind its
/// own, and the compensation entry.
pub fn window_attention(
    ctx: &Context,
    shape: AttentionShape,
    k: &Tensor,
    ring: &Tensor,
    which: RowLists,
    window: WindowQueries,
) -> Tensor {
    let RowLists { heads, rows: listed } = which;
    let with_position = listed.first().map_or(0, |rows| rows.len());
    let live = window.first + with_position;
    let slopes = window.alibi.then(|| slopes(shape));
    let lists = lists::pack(ctx, listed.iter().map(|rows| rows.as_slice()));
    let watchers = window.positions.len() * shape.group;
    let splits = splits(watchers, heads.len(), live);
    // What a device needs to remember between two passes; the CPU computes nothing here.
    let launch = |_: &DeviceTask| Ok(());
    let stats = ctx.custom_on(Type::F32, [2, splits, watchers, heads.len()], &[ring], |_| (), launch);
    let (looked_at, of_model, parts) = (heads.clone(), window.clone(), [live, shape.group, heads.len()]);
    let look = move |task: &CustomTask| {
        let (keys, ring, result) = (task.operand(0), task.operand(1), task.result());
        // SAFETY: packed above.
        let lists = unsafe { Lists::of(task.operand(2), heads.len()) };
        let queries = Queries::new(ring);
        for at in (task.thread..heads.len()).step_by(task.threads) {
            // SAFETY: each head's part of the result is written by one thread; [live, group, heads] f32 without gaps.
            let out = unsafe {
                let at = result.data.add(at * result.strides[2]).cast::<f32>();
                std::slice::from_raw_parts_mut(at, live * shape.group)
            };
            out.fill(0.0);
            let tokens: Vec<usize> = window.positions.clone().collect();
            let watchers: Vec<Watcher> = tokens
                .iter()
                .flat_map(|position| (0..shape.group).map(move |member| (*position, member)))
                .map(|(position, member)| Watcher {
                    query: queries
                        .of(window.kv_heads[at] as usize * shape.group + member, position % queries.tokens),
                    scale: shape.scale * window.gain.at(position + 1, shape.head_dim) as f32,
                    target: member,
                })
                .collect();
            let hide = |watcher: usize, logits: &mut [f32]| {
                let own = tokens[watcher / shape.group];
                for (logit, position) in logits[window.first..].iter_mut().zip(lists.get(at)) {
                    if position as usize > own {
                        *logit = f32::NEG_INFINITY;
                    }
                }
                if let Some(slopes) = &slopes {
                    let member = window.kv_heads[at] as usize * shape.group + watcher % shape.group;
                    let gain = window.gain.at(own + 1, shape.head_dim) as f32;
                    let places = lists.get(at).map(|position| position as f32);
                    fall(logits, places, own, slopes[member] * gain);
                }
            };
            let keys = Keys {
                rows: rows(keys),
                head: heads[at] as usize,
                live,
                log_weight: if window.first > 0 { window.log_weight } else { 0.0 },
                head_dim: shape.head_dim,
            };
            with_scratch(|scratch| add_received(&keys, &watchers, 1.0, hide, (&mut *out, live), scratch));
        }
    };
    let launch = move |task: &DeviceTask| {
        let [k, ring, lists, stats] = [0, 1, 2, 3].map(|operand| task.operand(operand));
        let call = device::ReceivedCall {
            lists: lists.data.cast(),
            stats: stats.data.cast(),
            out: task.result().data.cast(),
            capacity: k.shape[1] as i32,
            added: with_position as i32,
            first: of_model.first as i32,
            tokens: of_model.positions.len() as i32,
            start: of_model.positions.start as i32,
            alibi: of_model.alibi.into(),
            row_weight: of_model.log_weight,
            ..received_call(shape, (ring, k), of_model.gain, splits, (&looked_at, &of_model.kv_heads))?
        };
        // SAFETY: the addresses are those of the operands and of the result, whose shapes are those of the call.
        unsafe { device::received(task, &call) }
    };
    ctx.custom_on(Type::F32, parts, &[k, ring, &lists, &stats], look, launch).output()
}

/// The slopes of all query heads.
fn slopes(shape: AttentionShape) -> Vec<f32> {
    alibi_slopes(shape.n_kv_heads * shape.group).iter().map(|slope| *slope as f32).collect()
}

/// Lets logits (in units of log 2) fall with the distance of their rows from the token at position `own`.
fn fall(logits: &mut [f32], places: impl Iterator<Item = f32>, own: usize, slope: f32) {
    for (logit, place) in logits.iter_mut().zip(places) {
        *logit += slope * LOG2_E * (place - own as f32);
    }
}

/// Queries `[head_dim, heads, tokens]` of an operand.
struct Queries {
    raw: RawTensor,
    tokens: usize,
}

impl Queries {
    fn new(raw: RawTensor) -> Queries {
        assert!(raw.ty == Type::F32 && raw.strides[0] == 4, "queries are f32 without gaps in a head");
        Queries { raw, tokens: raw.shape[2] }
    }

    fn of<'a>(&self, head: usize, token: usize) -> &'a [f32] {
        assert!(head < self.raw.shape[1] && token < self.tokens);
        // SAFETY: inside the tensor; nothing writes to it while the node runs.
        unsafe {
            let at = self.raw.data.add(head * self.raw.strides[1] + token * self.raw.strides[2]);
            std::slice::from_raw_parts(at.cast::<f32>(), self.raw.shape[0])
        }
    }
}

/// The last number of an i32 vector: the position of the last token.
fn last_of(positions: RawTensor) -> usize {
    // SAFETY: inside the tensor, which has at least one element.
    unsafe { last_address(positions).read() as usize }
}

/// Where that number lies.
fn last_address(positions: RawTensor) -> *const i32 {
    positions.data.cast::<i32>().wrapping_add(positions.shape[0] - 1)
}

/// One head's numbers in `[rows, heads]` f32.
///
/// # Safety
/// No other reference to them may be in use.
unsafe fn column<'a>(tensor: RawTensor, head: usize) -> &'a mut [f32] {
    assert!(head < tensor.shape[1] && tensor.ty == Type::F32);
    // SAFETY: inside the tensor; exclusive by the caller's promise.
    unsafe {
        let at = tensor.data.add(head * tensor.strides[1]).cast::<f32>();
        std::slice::from_raw_parts_mut(at, tensor.shape[0])
    }
}

/// Moves a head's gathered numbers as its rows are moved.
pub(super) fn move_accumulated(task: &CustomTask, operand: usize, head: usize, moves: &[(u32, u32)]) {
    // SAFETY: each head's column is touched by one thread.
    let column = unsafe { column(task.operand(operand), head) };
    for (to, from) in moves {
        column[*to as usize] = column[*from as usize];
    }
}

thread_local! {
    static SCRATCH: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

fn with_scratch(work: impl FnOnce(&mut Vec<f32>)) {
    SCRATCH.with_borrow_mut(work);
}

//! Nodes for the numbers that policies score rows by: accumulated attention, the attention of the last
//! queries (a ring stores them), and measures of keys and values.

use std::cell::RefCell;
use std::f32::consts::LOG2_E;
use std::ops::Range;
use std::ptr::{null, null_mut};
use std::slice::from_ref;
use std::sync::Arc;

use ggml::{Context, CustomTask, DeviceTask, Operand, RawTensor, Tensor, Type};

use super::checks::{
    Check, check_distances, check_heads, check_inputs, check_lane, check_queries, check_rows, ensure, is,
    is_heads, is_rows, is_vector,
};
use super::launch::{device_column, device_type};
use super::lists::{self, Lists};
use super::{
    Appended, AttentionShape, GraphLane, LaneInputs, MAX_LANES, QueryHeads, column, input_column, numbers,
    read_sink_logits, rows, rows_after,
};
pub use crate::accumulate::Combine;
use crate::accumulate::{Keys, ScoringQuery, add_weights};
use crate::device;
use crate::measure::{Measure, measure};

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

/// Which queries of a computation [`accumulate_attention`] combines, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accumulation {
    /// Tokens whose queries count: the last of the computation.
    pub queries: usize,
    /// Whether the earlier numbers are overwritten.
    pub replace: bool,
    /// How the weights of the queries, and the earlier numbers, become one number for each row.
    pub combine: Combine,
    /// Factor on the logits.
    pub gain: Gain,
    /// The earlier rows that the queries see, where they do not see all.
    pub part: Option<SeenPart>,
}

/// Earlier rows that queries see: the first ones, those of a part, and the last ones. Only the part's rows get numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeenPart {
    /// How many of the first rows are seen, at most `from`.
    pub first: usize,
    /// The first row of the part.
    pub from: usize,
    /// The row behind its last one.
    pub to: usize,
    /// The first of the last rows that are seen, which are next to the appended ones. At least `to`.
    pub last: usize,
}

impl SeenPart {
    fn check(self, rows: usize) -> Check {
        let SeenPart { first, from, to, last } = self;
        let is_inside = first <= from && from < to && to <= last && last <= rows;
        ensure(is_inside, || {
            format!("the rows before {first}, from {from} to {to} and from {last} on of {rows}")
        })
    }
}

/// The lane whose rows accumulate attention.
pub struct AccumulatingLane<'a> {
    /// The lane. Nothing is computed where it has no tensor [`GraphLane::accumulated`].
    pub lane: &'a GraphLane,
    /// The lane's number in its layer: its row of the [`LaneInputs`].
    pub number: usize,
    /// The heads that accumulate, by their numbers in the lane.
    pub heads: Arc<[u32]>,
}

/// Combines the attention weights of queries with the accumulated attention of a lane without a window. For a sum each
/// row gets the mean over the query heads of its KV head, for a maximum that of the query heads. The queries belong to
/// the last tokens of `inputs.positions`. Without a part the numbers of the appended rows begin at 0. The result has no
/// data.
pub fn accumulate_attention<'a>(
    ctx: &Context,
    shape: AttentionShape,
    queries: impl Into<QueryHeads<'a>>,
    appended: Appended,
    to: AccumulatingLane,
    inputs: &LaneInputs,
    how: Accumulation,
) -> Option<Tensor> {
    let (accumulated, new) = (to.lane.accumulated.as_ref()?, appended.rows);
    let QueryHeads { q, sink_logits } = queries.into();
    if let Err(problem) = check_accumulation(shape, QueryHeads { q, sink_logits }, &to, inputs, how) {
        return Some(ctx.refuse("accumulate_attention", problem));
    }
    let AccumulatingLane { lane, number, heads } = to;
    let [q_operand, node, live, weights, positions, keys] =
        [q, appended.node, &inputs.rows, &inputs.log_weights, &inputs.positions, &lane.k].map(Operand::Read);
    let mut operands = vec![q_operand, node, live, weights, positions, keys, Operand::Write(accumulated)];
    operands.extend(lane.positions.as_ref().map(|positions| Operand::Read(&positions.all)));
    let sink_logits_operand = sink_logits.map(|_| operands.len());
    operands.extend(sink_logits.map(Operand::Read));
    let (compensated, layer) = (lane.compensated, inputs.layer);
    let first_position = lane.positions.as_ref().map(|positions| positions.first);
    let slopes = shape.alibi_slopes();
    let kv_heads: Vec<u32> = heads.iter().map(|head| lane.kv_heads[*head as usize]).collect();
    let tokens = how.queries.min(q.dim(2));
    let splits = splits(tokens * shape.group, heads.len(), lane.k.dim(1));
    let (lane_heads, model_heads) = (heads.clone(), kv_heads.clone());
    let accumulate = move |task: &CustomTask| {
        let live = input_column(task.operand(2), layer)[number];
        let log_weight = f32::from_bits(input_column(task.operand(3), layer)[number] as u32);
        let (keys, accumulated) = (task.operand(5), task.operand(6));
        let queries = QueryTensor::new(task.operand(0));
        let rows_and_last = rows_after(live, new, keys.shape[1]).and_then(|all| {
            ensure(all >= tokens, || format!("{all} rows are fewer than the {tokens} tokens that score"))?;
            how.part.map_or(Ok(()), |part| part.check(all - new))?;
            Ok((all, last_position(task.operand(4), tokens)?))
        });
        let (live, (all, last)) = match rows_and_last {
            Ok(found) => (live as usize, found),
            Err(problem) => return task.fail(format!("accumulate_attention: {problem}")),
        };
        let sink_logits = sink_logits_operand.map(|operand| read_sink_logits(task.operand(operand)));
        let seen = match how.part {
            Some(part) => [0..part.first, part.from..part.to, part.last..all],
            None => [0..all, all..all, all..all],
        };
        let first = queries.tokens - tokens;
        for at in (task.thread..heads.len()).step_by(task.threads) {
            let (head, first_query_head) = (heads[at] as usize, kv_heads[at] as usize * shape.group);
            // SAFETY: each head's column is used by one thread; [capacity, heads] f32.
            let column = unsafe { column(accumulated, head) };
            let cleared = match (how.part, how.replace) {
                (Some(part), true) => part.from..part.to,
                (Some(_), false) => 0..0,
                (None, true) => 0..all,
                (None, false) => live..all,
            };
            column[cleared].fill(0.0);
            let scoring: Vec<ScoringQuery> = (first..queries.tokens)
                .flat_map(|t| (0..shape.group).map(move |member| (t, member)))
                .map(|(t, member)| {
                    let seen = last + 2 - (queries.tokens - t);
                    ScoringQuery {
                        data: queries.get(first_query_head + member, t),
                        scale: shape.scale,
                        gain: how.gain.at(seen, shape.head_dim) as f32,
                        sink: sink_logits
                            .map_or(f32::NEG_INFINITY, |sink_logits| sink_logits[first_query_head + member]),
                        target: 0,
                    }
                })
                .collect();
            let adjust = |query: usize, logits: &mut [f32]| {
                let later = queries.tokens - 1 - (first + query / shape.group);
                let visible = logits.len() - later;
                logits[visible..].fill(f32::NEG_INFINITY);
                if let (Some(slopes), Some(first_position)) = (&slopes, first_position) {
                    let first = first_position + head * keys.shape[1];
                    // SAFETY: contiguous i32, written before this node.
                    let positions = unsafe { &numbers(task.operand(7))[first..first + all] };
                    let positions = seen.iter().flat_map(|range| &positions[range.clone()]);
                    let gain = how.gain.at(last + 1 - later, shape.head_dim) as f32;
                    let slope = slopes[first_query_head + query % shape.group] * gain;
                    let positions = positions.map(|position| *position as f32);
                    add_alibi_bias(logits, positions, last - later, slope);
                }
            };
            let keys = Keys {
                rows: rows(keys),
                head,
                seen: &seen,
                log_weight: if compensated { log_weight } else { 0.0 },
                head_dim: shape.head_dim,
                softcap: shape.softcap,
            };
            let combine = match how.combine {
                Combine::Sum => (Combine::Sum, 1.0 / shape.group as f32),
                Combine::Max => (Combine::Max, 1.0),
            };
            let mut of_part: Vec<f32> = match how.part {
                Some(_) => seen.iter().flat_map(|range| &column[range.clone()]).copied().collect(),
                None => Vec::new(),
            };
            let out = if how.part.is_some() { &mut of_part[..] } else { &mut column[..all] };
            let added = with_scratch(|scratch| add_weights(&keys, &scoring, combine, adjust, out, scratch));
            if let Some(SeenPart { first, from, to, .. }) = how.part {
                column[from..to].copy_from_slice(&of_part[first..first + to - from]);
            }
            if let Err(error) = added {
                task.fail(format!("accumulate_attention: {error}"));
            }
        }
    };
    // On devices the result has the statistics that the first pass writes and the second reads.
    let stats = [2, splits, tokens * shape.group, lane_heads.len()];
    Some(ctx.custom_on(Type::F32, stats, &operands, accumulate, move |task| {
        let [q, k, accumulated] = [0, 5, 6].map(|operand| task.operand(operand));
        let columns = [device_column(task.operand(2), layer)?, device_column(task.operand(3), layer)?];
        let [live, log_weight] = columns.map(|column| column.wrapping_add(4 * number));
        let heads = ScoredHeads { tensor_heads: &lane_heads, kv_heads: &model_heads };
        let call = device::AccumulateCall {
            live: live.cast(),
            log_weight: if compensated { log_weight.cast() } else { null() },
            last: last_address(task.operand(4)),
            positions: match first_position {
                Some(first) => task.operand(7).data.cast::<i32>().wrapping_add(first),
                None => null(),
            },
            sink_logits: sink_logits_operand
                .map_or(null(), |operand| task.operand(operand).data.cast::<f32>()),
            stats: task.result().data.cast(),
            out: accumulated.data.cast(),
            capacity: k.shape[1] as i32,
            added: new as i32,
            tokens: tokens as i32,
            replace: how.replace.into(),
            maximum: (how.combine == Combine::Max).into(),
            part_first: how.part.map_or(0, |part| part.first as i32),
            part_from: how.part.map_or(0, |part| part.from as i32),
            part_to: how.part.map_or(0, |part| part.to as i32),
            part_last: how.part.map_or(0, |part| part.last as i32),
            ..accumulate_call(shape, q, k, how.gain, splits, heads)?
        };
        // SAFETY: the addresses are those of the operands and of the result, whose shapes are those of the
        // call.
        unsafe { device::accumulate(task, &call) }
    }))
}

fn check_accumulation(
    shape: AttentionShape,
    queries: QueryHeads,
    to: &AccumulatingLane,
    inputs: &LaneInputs,
    how: Accumulation,
) -> Check {
    let AccumulatingLane { lane, number, heads } = to;
    let q = queries.q;
    check_queries(shape, "queries", queries)?;
    ensure(lane.window.is_none(), || "a lane with a window accumulates no attention".into())?;
    ensure(how.queries > 0, || "no queries count".into())?;
    check_lane(lane, shape.n_kv_heads)?;
    check_distances(lane, shape)?;
    ensure(lane.k.dim(0) == shape.head_dim, || format!("the keys are {:?}, the queries {q:?}", lane.k))?;
    ensure(*number < MAX_LANES, || format!("lane {number} of {MAX_LANES}"))?;
    // A head that is given twice would be written by two threads.
    check_heads("head", heads, lane.kv_heads.len())?;
    ensure(!heads.is_empty(), || "no heads accumulate".into())?;
    if let Some(part) = how.part {
        ensure(!lane.compensated, || "a part of a compensated lane".into())?;
        part.check(lane.k.dim(1))?;
    }
    check_inputs(inputs)?;
    is_vector("positions", &inputs.positions, 1)
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
    q: RawTensor,
    k: RawTensor,
    gain: Gain,
    splits: usize,
    heads: ScoredHeads,
) -> Result<device::AccumulateCall, i32> {
    let (gain, budget) = gain.on_device();
    Ok(device::AccumulateCall {
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
        sink_logits: null(),
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
        q_tokens: q.shape[2] as i32,
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

/// Stores the queries `q` `[head_dim, heads, n_q]` (f32) of the last tokens of `positions` in `ring`
/// `[head_dim, heads, window]` f32. The token at position p goes to slot p modulo `window`. The result has no
/// data.
pub fn store_queries(ctx: &Context, q: &Tensor, positions: &Tensor, ring: &Tensor) -> Tensor {
    let [head_dim, heads, n, _] = q.shape().0;
    let check = is_heads("queries", q, [head_dim, heads, n])
        .and_then(|()| is_vector("positions", positions, 1))
        .and_then(|()| is("queries in the ring", ring, Type::F32, [head_dim, heads, ring.dim(2), 1]));
    if let Err(problem) = check {
        return ctx.refuse("store_queries", problem);
    }
    let store = |task: &CustomTask| {
        let (queries, ring) = (QueryTensor::new(task.operand(0)), task.operand(2));
        let window = ring.shape[2];
        let stored = window.min(queries.tokens);
        let last = match last_position(task.operand(1), stored) {
            Ok(last) => last,
            Err(problem) => return task.fail(format!("store_queries: {problem}")),
        };
        let first = queries.tokens - stored;
        for t in (first..queries.tokens).skip(task.thread).step_by(task.threads) {
            let position = last + 1 - (queries.tokens - t);
            // SAFETY: slots are [head_dim, heads] f32, contiguous; each is written by one thread.
            let slot = unsafe {
                let at = ring.data.add(position % window * ring.strides[2]).cast::<f32>();
                std::slice::from_raw_parts_mut(at, ring.shape[0] * ring.shape[1])
            };
            for (head, slot) in slot.chunks_exact_mut(ring.shape[0]).enumerate() {
                slot.copy_from_slice(queries.get(head, t));
            }
        }
    };
    let operands = [Operand::Read(q), Operand::Read(positions), Operand::Write(ring)];
    ctx.custom_on(Type::F32, [1], &operands, store, |task| {
        let (q, ring) = (task.operand(0), task.operand(2));
        let call = device::StoreQueriesCall {
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
        unsafe { device::store_queries(task, &call) }
    })
}

/// Some heads of a K or V tensor, with a list of numbers for each.
#[derive(Clone, Debug)]
pub struct RowLists {
    /// Numbers of the heads in the tensor.
    pub heads: Vec<u32>,
    /// Per head: the rows to measure ([`measure_rows`]), or the positions of its rows ([`window_attention`]).
    /// All lists have the same length.
    pub rows: Vec<Arc<Vec<u32>>>,
}

/// Measures rows of a K or V tensor `[head_dim, capacity, heads]`, with `offset` `[head_dim, lists]` f32 added to the
/// rows of each list. Returns `[rows, lists]` f32.
pub fn measure_rows(
    ctx: &Context,
    tensor: &Tensor,
    offset: Option<&Tensor>,
    lists: RowLists,
    what: Measure,
) -> Tensor {
    // A spread is the same with an offset.
    let offset = offset.filter(|_| !matches!(what, Measure::Spread { .. }));
    let check = is_rows("keys or values", tensor)
        .and_then(|()| check_lists(&lists, tensor.dim(2), tensor.dim(1)))
        .and_then(|()| {
            let shape = [tensor.dim(0), lists.heads.len(), 1, 1];
            offset.map_or(Ok(()), |offset| is("offsets", offset, Type::F32, shape))
        });
    if let Err(problem) = check {
        return ctx.refuse("measure_rows", problem);
    }
    let RowLists { heads, rows: lists } = lists;
    let shape = [lists.first().map_or(0, |rows| rows.len()), heads.len()];
    let lists = lists::pack(ctx, lists.iter().map(|rows| rows.as_slice()));
    let (tensor_heads, has_offset) = (heads.clone(), offset.is_some());
    let work = move |task: &CustomTask| {
        let tensor = task.operand(0);
        // SAFETY: packed above.
        let lists = unsafe { Lists::of(task.operand(1), heads.len()) };
        for at in (task.thread..heads.len()).step_by(task.threads) {
            // SAFETY: each head's column is written by one thread.
            let out = unsafe { column(task.result(), at) };
            let list: Vec<u32> = lists.get(at).collect();
            // SAFETY: `[head_dim, heads]` f32, which no one writes.
            let offset = has_offset.then(|| &*unsafe { column(task.operand(2), at) });
            let measured =
                measure(&rows(tensor), tensor.shape[0], heads[at] as usize, &list, offset, what, out);
            if let Err(error) = measured {
                task.fail(format!("measure_rows: {error}"));
            }
        }
    };
    let launch = move |task: &DeviceTask| {
        let tensor = task.operand(0);
        let (number, lag) = match what {
            Measure::Norm => (0, 1),
            Measure::SquaredNorm => (1, 1),
            Measure::MaxAbs => (2, 1),
            // A partition of more rows than there are is as good as any larger one.
            Measure::Spread { lag, own } => (if own { 4 } else { 3 }, lag.clamp(1, shape[0] + 1)),
        };
        let call = device::MeasureCall {
            rows: tensor.data,
            head_stride: tensor.strides[2] as u64,
            lists: task.operand(1).data.cast(),
            offsets: if has_offset { task.operand(2).data.cast() } else { null() },
            out: task.result().data.cast(),
            row_type: device_type(tensor)?,
            head_dim: tensor.shape[0] as i32,
            heads: tensor_heads.len() as i32,
            count: shape[0] as i32,
            measure: number,
            lag: lag as i32,
            tensor_heads: device::head_numbers(&tensor_heads)?,
        };
        // SAFETY: the addresses are those of the operands and of the result, whose shapes are those of the
        // call.
        unsafe { device::measure(task, &call) }
    };
    let operands: Vec<Operand> = [tensor, &lists].into_iter().chain(offset).map(Operand::Read).collect();
    ctx.custom_on(Type::F32, shape, &operands, work, launch).output()
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

/// The tokens whose attention [`window_attention`] adds up, and the heads of the keys.
#[derive(Clone)]
pub struct WindowQueries {
    /// Positions of the tokens. [`store_queries`] has stored their queries.
    pub positions: Range<usize>,
    /// Factor on the logits.
    pub gain: Gain,
    /// KV heads of the model that the heads of the tensor are.
    pub kv_heads: Vec<u32>,
    /// Rows before the first that has a position: 1 where row 0 is a compensation entry, otherwise 0.
    pub first: usize,
    /// Log-weight (natural logarithm) of the compensation entry.
    pub log_weight: f32,
    /// `[heads]` f32: logits without rows, as in [`QueryHeads`].
    pub sink_logits: Option<Tensor>,
}

/// The attention weights that the rows of some heads of `k` get from each query head of their group, added up
/// over the tokens of `window`, whose queries are in `ring`. Returns `[first + rows, group, heads]` f32. A
/// token sees the rows with positions up to its own, and the compensation entry.
pub fn window_attention(
    ctx: &Context,
    shape: AttentionShape,
    k: &Tensor,
    ring: &Tensor,
    positions: RowLists,
    window: WindowQueries,
) -> Tensor {
    if let Err(problem) = check_window(shape, k, ring, &positions, &window) {
        return ctx.refuse("window_attention", problem);
    }
    let RowLists { heads, rows: lists } = positions;
    let with_position = lists.first().map_or(0, |rows| rows.len());
    let live = window.first + with_position;
    let slopes = shape.alibi_slopes();
    let lists = lists::pack(ctx, lists.iter().map(|rows| rows.as_slice()));
    let queries = window.positions.len() * shape.group;
    let splits = splits(queries, heads.len(), live);
    // On devices this node has the statistics that the first pass writes and the second reads. The node
    // itself computes nothing.
    let stats = ctx.custom_on(
        Type::F32,
        [2, splits, queries, heads.len()],
        &[Operand::Read(ring)],
        |_| (),
        |_| Ok(()),
    );
    let out = [live, shape.group, heads.len()];
    let (tensor_heads, device_window) = (heads.clone(), window.clone());
    let sink_logits = window.sink_logits.clone();
    let add_up = move |task: &CustomTask| {
        let (keys, ring, result) = (task.operand(0), task.operand(1), task.result());
        // SAFETY: packed above.
        let lists = unsafe { Lists::of(task.operand(2), heads.len()) };
        let queries = QueryTensor::new(ring);
        let sink_logits = window.sink_logits.as_ref().map(|_| read_sink_logits(task.operand(4)));
        let tokens: Vec<usize> = window.positions.clone().collect();
        for at in (task.thread..heads.len()).step_by(task.threads) {
            // SAFETY: each head's part of the result is written by one thread; [live, group, heads] f32,
            // contiguous.
            let out = unsafe {
                let at = result.data.add(at * result.strides[2]).cast::<f32>();
                std::slice::from_raw_parts_mut(at, live * shape.group)
            };
            out.fill(0.0);
            let first_query_head = window.kv_heads[at] as usize * shape.group;
            let scoring: Vec<ScoringQuery> = tokens
                .iter()
                .flat_map(|position| (0..shape.group).map(move |member| (*position, member)))
                .map(|(position, member)| ScoringQuery {
                    data: queries.get(first_query_head + member, position % queries.tokens),
                    scale: shape.scale,
                    gain: window.gain.at(position + 1, shape.head_dim) as f32,
                    sink: sink_logits
                        .map_or(f32::NEG_INFINITY, |sink_logits| sink_logits[first_query_head + member]),
                    target: member,
                })
                .collect();
            let adjust = |query: usize, logits: &mut [f32]| {
                let own = tokens[query / shape.group];
                for (logit, position) in logits[window.first..].iter_mut().zip(lists.get(at)) {
                    if position as usize > own {
                        *logit = f32::NEG_INFINITY;
                    }
                }
                if let Some(slopes) = &slopes {
                    let gain = window.gain.at(own + 1, shape.head_dim) as f32;
                    let slope = slopes[first_query_head + query % shape.group] * gain;
                    add_alibi_bias(logits, lists.get(at).map(|position| position as f32), own, slope);
                }
            };
            let seen = 0..live;
            let keys = Keys {
                rows: rows(keys),
                head: heads[at] as usize,
                seen: from_ref(&seen),
                log_weight: if window.first > 0 { window.log_weight } else { 0.0 },
                head_dim: shape.head_dim,
                softcap: shape.softcap,
            };
            let added = with_scratch(|scratch| {
                add_weights(&keys, &scoring, (Combine::Sum, 1.0), adjust, out, scratch)
            });
            if let Err(error) = added {
                task.fail(format!("window_attention: {error}"));
            }
        }
    };
    let launch = move |task: &DeviceTask| {
        let [k, ring, lists, stats] = [0, 1, 2, 3].map(|operand| task.operand(operand));
        let heads = ScoredHeads { tensor_heads: &tensor_heads, kv_heads: &device_window.kv_heads };
        let call = device::AccumulateCall {
            lists: lists.data.cast(),
            sink_logits: match device_window.sink_logits {
                Some(_) => task.operand(4).data.cast(),
                None => null(),
            },
            stats: stats.data.cast(),
            out: task.result().data.cast(),
            capacity: k.shape[1] as i32,
            added: with_position as i32,
            first: device_window.first as i32,
            tokens: device_window.positions.len() as i32,
            window_start: device_window.positions.start as i32,
            window_log_weight: device_window.log_weight,
            ..accumulate_call(shape, ring, k, device_window.gain, splits, heads)?
        };
        // SAFETY: the addresses are those of the operands and of the result, whose shapes are those of the
        // call.
        unsafe { device::accumulate(task, &call) }
    };
    let operands = [k, ring, &lists, &stats].into_iter().chain(&sink_logits).map(Operand::Read);
    let operands: Vec<Operand> = operands.collect();
    ctx.custom_on(Type::F32, out, &operands, add_up, launch).output()
}

fn check_window(
    shape: AttentionShape,
    k: &Tensor,
    ring: &Tensor,
    positions: &RowLists,
    window: &WindowQueries,
) -> Check {
    let queries = QueryHeads { q: ring, sink_logits: window.sink_logits.as_ref() };
    check_queries(shape, "queries in the ring", queries)?;
    is("queries in the ring", ring, Type::F32, ring.shape().0)?;
    is_rows("keys", k)?;
    ensure(k.dim(0) == shape.head_dim, || format!("the keys are {k:?}, the queries {ring:?}"))?;
    check_lists(positions, k.dim(2), usize::MAX)?;
    let rows = positions.rows[0].len().saturating_add(window.first);
    ensure(rows <= k.dim(1), || format!("{rows} rows of {k:?}"))?;
    let (heads, models) = (positions.heads.len(), &window.kv_heads);
    let fits = models.len() == heads && models.iter().all(|head| (*head as usize) < shape.n_kv_heads);
    ensure(fits, || format!("{heads} heads are heads {models:?} of {}", shape.n_kv_heads))?;
    let Range { start, end } = window.positions;
    let fits = start < end && i32::try_from(end).is_ok();
    ensure(fits, || format!("there are no tokens {start} to {end}"))
}

/// Adds the ALiBi bias to logits, which are in units of log 2: slope * (position of the row - position `own`
/// of the token).
fn add_alibi_bias(logits: &mut [f32], positions: impl Iterator<Item = f32>, own: usize, slope: f32) {
    for (logit, position) in logits.iter_mut().zip(positions) {
        *logit += slope * LOG2_E * (position - own as f32);
    }
}

/// An operand with queries `[head_dim, heads, tokens]`.
struct QueryTensor {
    raw: RawTensor,
    tokens: usize,
}

impl QueryTensor {
    fn new(raw: RawTensor) -> QueryTensor {
        assert!(raw.ty == Type::F32 && raw.strides[0] == 4, "queries are f32, heads contiguous");
        QueryTensor { raw, tokens: raw.shape[2] }
    }

    fn get<'a>(&self, head: usize, token: usize) -> &'a [f32] {
        assert!(head < self.raw.shape[1] && token < self.tokens);
        // SAFETY: inside the tensor; nothing writes to it while the node runs.
        unsafe {
            let at = self.raw.data.add(head * self.raw.strides[1] + token * self.raw.strides[2]);
            std::slice::from_raw_parts(at.cast::<f32>(), self.raw.shape[0])
        }
    }
}

/// The last number of an i32 vector: the position of the last token. An error if `tokens` tokens cannot end
/// there.
fn last_position(positions: RawTensor, tokens: usize) -> Result<usize, String> {
    // SAFETY: inside the tensor, which has at least one element.
    let last = unsafe { last_address(positions).read() };
    let fits = |last: &usize| *last < i32::MAX as usize && last + 1 >= tokens;
    let found = usize::try_from(last).ok().filter(fits);
    found.ok_or_else(|| format!("{tokens} tokens cannot end at position {last}"))
}

/// The address of the last number of an i32 vector.
fn last_address(positions: RawTensor) -> *const i32 {
    positions.data.cast::<i32>().wrapping_add(positions.shape[0] - 1)
}

thread_local! {
    static SCRATCH: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

fn with_scratch<T>(work: impl FnOnce(&mut Vec<f32>) -> T) -> T {
    SCRATCH.with_borrow_mut(work)
}

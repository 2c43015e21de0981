//! The kernels as nodes of a ggml graph, each twice: as the CPU computes it, and as the launch of a device kernel that does the same.
//!
//! A lane's tensors are operands of the nodes; what changes from step to step (how many rows are live, the
//! compensation entry's log-weight) comes in two small input tensors, so that a graph built once serves every step.
//! Here, and only here, tensors' memory becomes slices.

mod launch;
mod lists;
mod scores;

pub use scores::{
    AccumulatingLane, Accumulation, Gain, RowLists, WindowQueries, accumulate_attention, measure_rows,
    store_queries, window_attention,
};

use crate::attention::alibi_slopes;
use crate::device::{self, INVALID_VALUE};
use crate::rows::{Moves, add_rows, move_rows, write_mean};
use crate::{Alibi, Attention, LaneView, Queries, RowType, Rows, decode, prefill};
use ggml::{Context, CustomTask, DeviceTask, RawTensor, Tensor, Type};
use launch::{device_column, device_heads, device_lanes, device_type};
use lists::Lists;
use std::cell::RefCell;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most lanes that one attention call takes: a node has ten operands.
pub const MAX_LANES: usize = device::MAX_LANES;

/// Most KV heads of a layer that devices take.
pub const MAX_DEVICE_HEADS: usize = device::MAX_KV_HEADS;
/// Most elements of a head that devices take.
pub const MAX_DEVICE_HEAD_DIM: usize = device::MAX_HEAD_DIM;

/// The K and V tensors of some KV heads of one layer.
#[derive(Clone)]
pub struct GraphLane {
    /// Keys after RoPE `[head_dim, capacity, heads]`.
    pub k: Tensor,
    /// Values `[head_dim, capacity, heads]`.
    pub v: Tensor,
    /// Which KV head of the model each head is, `[heads]`.
    pub kv_heads: Arc<[u32]>,
    /// Whether row 0 is the compensation entry.
    pub compensated: bool,
    /// Accumulated attention of each row, `[capacity, heads]` f32, where a policy needs it (see [`accumulate_attention`]).
    pub accumulated: Option<Tensor>,
    /// The positions of the rows, for models with ALiBi: attention then takes distances into account. All lanes of a layer have
    /// them or none has, and lanes that have them are not compensated.
    pub positions: Option<RowPositions>,
}

/// Where the positions of a lane's rows are.
#[derive(Clone)]
pub struct RowPositions {
    /// Those of all lanes of the layer, i32: one tensor, since a node has ten operands.
    pub all: Tensor,
    /// Where those of this lane begin, `[capacity, heads]`.
    pub first: usize,
}

/// Shapes that all calls of a model share.
#[derive(Clone, Copy, Debug)]
pub struct AttentionShape {
    /// Elements of a head.
    pub head_dim: usize,
    /// KV heads.
    pub n_kv_heads: usize,
    /// Query heads per KV head.
    pub group: usize,
    /// Factor of q·k.
    pub scale: f32,
}

/// The lane state of a call: inputs that are filled before each computation.
#[derive(Clone)]
pub struct LaneInputs {
    /// Live rows before this step's are written, `[MAX_LANES, layers]` i32.
    pub rows: Tensor,
    /// Log-weights of the compensation entries, `[MAX_LANES, layers]` f32, `-inf` where there is none yet.
    pub log_weights: Tensor,
    /// Positions of the tokens whose rows are written, `[n]` i32; read for lanes with positions only.
    pub positions: Tensor,
    /// Which column of rows and log-weights is meant.
    pub layer: usize,
}

/// The row type of a tensor, if it is one that the kernels read.
pub fn row_type(ty: Type) -> Option<RowType> {
    RowType::ALL.into_iter().find(|row| row.name() == ty.name())
}

/// What the rows of attention are split over where the queries alone are too few to keep everything busy; the parts are merged
/// afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Threads of the CPU: the most that the graph is computed with.
    Threads(usize),
    /// Blocks of a device: the most, of which those are used that it holds at once.
    Blocks(usize),
}

/// The rows that [`append`] has written in this graph.
#[derive(Clone, Copy)]
pub struct Appended<'a> {
    /// The node that [`append`] returned. Nodes that read the new rows take it as an operand, so that they run after it.
    pub node: &'a Tensor,
    /// Rows written to every KV head: one per token.
    pub rows: usize,
}

/// Attends with the queries `q` `[head_dim, heads, n_q]` (f32) to the live rows of all lanes and to the appended rows. The queries
/// belong to the last `n_q` tokens. Returns `[head_dim * heads, n_q]`.
pub fn attend(
    ctx: &Context,
    shape: AttentionShape,
    q: &Tensor,
    appended: Appended,
    lanes: &[GraphLane],
    state: &LaneInputs,
    split: Split,
) -> Tensor {
    let n_q = q.dim(2);
    // Under ALiBi nothing is compensated: the positions take the place of the log-weights.
    let positions = positions_of(lanes);
    let mut operands = vec![q, appended.node, &state.rows, positions.unwrap_or(&state.log_weights)];
    operands.extend(lanes.iter().flat_map(|lane| [&lane.k, &lane.v]));
    let slopes =
        positions.map(|_| alibi_slopes(shape.n_kv_heads * shape.group).iter().map(|x| *x as f32).collect());
    let call = Call { shape, new: appended.rows, n_q, layer: state.layer, lanes: heads_of(lanes), slopes };
    let queries = shape.group * n_q;
    // How many threads, shares of a device, and partial results; 0 where there are none.
    let (threads, shares, partials) = match split {
        Split::Threads(_) if queries >= PREFILL_QUERIES => return attend_many(ctx, call, &operands),
        Split::Threads(threads) => {
            let len = decode::partials_len(shape.head_dim, shape.n_kv_heads, shape.group, n_q);
            (threads, 0, [len, threads, 1])
        }
        Split::Blocks(blocks) => {
            let shares = device_shares(shape, n_q, blocks);
            if shares == 0 && queries > device::FEW_QUERIES {
                return attend_many(ctx, call, &operands);
            }
            (0, shares, [shape.head_dim + 2, queries, shares + shape.n_kv_heads])
        }
    };
    let launch = if queries > device::FEW_QUERIES { device::attend_many } else { device::attend_few };
    let len = partials[0];
    let (first, launched) = (call.clone(), call.clone());
    let partials = ctx.custom_on(
        Type::F32,
        partials,
        &operands,
        move |task| {
            first.with(task, |attention| {
                let out = task.result();
                assert!(task.threads <= threads, "made for {threads} threads, run with {}", task.threads);
                // SAFETY: the result is [len, threads] f32; each thread has a column of its own.
                let own = unsafe {
                    let at = out.data.cast::<f32>().add(len * task.thread);
                    std::slice::from_raw_parts_mut(at, len)
                };
                decode::partial(attention, task.thread, task.threads, own).expect("shapes were checked");
            });
        },
        move |task| {
            if shares == 0 {
                return Err(INVALID_VALUE);
            }
            let call = device::AttendCall {
                partials: task.result().data.cast(),
                ..launched.on_device(task, shares)?
            };
            // SAFETY: the addresses are those of the operands and of the result, whose shapes are those of the call.
            unsafe { launch(task, &call) }
        },
    );
    operands[1] = &partials;
    let launched = call.clone();
    ctx.custom_on(
        Type::F32,
        [shape.head_dim * shape.n_kv_heads * shape.group, n_q],
        &operands,
        move |task| {
            call.with(task, |attention| {
                let share = decode::combine_range(attention, task.thread, task.threads);
                assert!(task.threads <= threads, "made for {threads} threads, run with {}", task.threads);
                let (partials, out) = (task.operand(1), task.result());
                // SAFETY: the partials are [len, threads] f32, complete since the node before; the shares of the
                // threads do not overlap in the result.
                let (partials, out) = unsafe {
                    (
                        std::slice::from_raw_parts(partials.data.cast::<f32>(), len * task.threads),
                        std::slice::from_raw_parts_mut(
                            out.data.cast::<f32>().add(share.start * shape.head_dim),
                            share.len() * shape.head_dim,
                        ),
                    )
                };
                decode::combine(attention, task.threads, partials, share, out, None)
                    .expect("shapes were checked");
            });
        },
        move |task| {
            let call = device::AttendCall {
                partials: task.operand(1).data.cast(),
                ..launched.on_device(task, shares)?
            };
            // SAFETY: as above, with the partials of the node before.
            unsafe { device::combine(task, &call) }
        },
    )
}

/// From how many queries of a KV head on the tiled kernel is the faster one.
const PREFILL_QUERIES: usize = 16;

/// How many shares the rows of all heads are split into on a device, at most, for `n_q` tokens: one a block for few queries. With more,
/// a block takes a tile of queries and a share, of which a multiprocessor holds half as many as of the others (of heads beyond 128
/// elements one only, so that these come in two waves); 0 where the tiles of all heads are enough to fill the device.
fn device_shares(shape: AttentionShape, n_q: usize, blocks: usize) -> usize {
    let queries = shape.group * n_q;
    if queries <= device::FEW_QUERIES {
        return blocks;
    }
    let shares = blocks / 2 / queries.div_ceil(device::TILE_QUERIES);
    if shares < 2 * shape.n_kv_heads { 0 } else { shares }
}

/// Of graphs of at most `chunk` tokens on a device the one whose attention leaves most to be merged: how many tokens it has, `None`
/// where rows are never split. Such a graph may take more memory than one of more tokens.
pub fn max_partials_tokens(shape: AttentionShape, split: Split, chunk: usize) -> Option<usize> {
    let Split::Blocks(blocks) = split else { return None };
    let of = |n: &usize| match device_shares(shape, *n, blocks) {
        0 => 0,
        shares => (shares + shape.n_kv_heads) * shape.group * n,
    };
    (1..=chunk).max_by_key(of).filter(|n| of(n) > 0)
}

/// [`attend`] for many queries: one node, whose threads share the work through a counter.
fn attend_many(ctx: &Context, call: Call, operands: &[&Tensor]) -> Tensor {
    thread_local! {
        static SCRATCH: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
    }
    let (shape, n_q) = (call.shape, call.n_q);
    // Counts the tiles that were taken and the threads that are done: the last one leaves it at 0 for the next computation.
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let launched = call.clone();
    let attend = move |task: &CustomTask| {
        call.with(task, |attention| {
            SCRATCH.with_borrow_mut(|scratch| {
                scratch.resize(prefill::scratch_len(shape.head_dim), 0.0);
                let out = task.result().data.cast::<f32>();
                // SAFETY: the result is [head_dim * heads, n_q] f32, written by this node's threads only, which share `next`.
                unsafe { prefill::prefill(attention, &next, scratch, out, std::ptr::null_mut()) }
                    .expect("shapes were checked");
            });
        });
        if done.fetch_add(1, Ordering::AcqRel) + 1 == task.threads {
            done.store(0, Ordering::Relaxed);
            next.store(0, Ordering::Release);
        }
    };
    let heads = shape.head_dim * shape.n_kv_heads * shape.group;
    ctx.custom_on(Type::F32, [heads, n_q], operands, attend, move |task| {
        let call = launched.on_device(task, 0)?;
        // SAFETY: the addresses are those of the operands and of the result, whose shapes are those of the call.
        unsafe { device::attend_many(task, &call) }
    })
}

/// Writes the rows `k` and `v` `[head_dim, n_kv_heads, n]` (f32) behind the live rows of the lanes. The result carries no data:
/// it stands for "the rows are written".
pub fn append(ctx: &Context, (k, v): (&Tensor, &Tensor), lanes: &[GraphLane], state: &LaneInputs) -> Tensor {
    assert!(lanes.len() <= MAX_LANES, "a layer has at most {MAX_LANES} lanes");
    let mut operands = vec![k, v, &state.rows];
    operands.extend(lanes.iter().flat_map(|lane| [&lane.k, &lane.v]));
    let (heads, layer) = (heads_of(lanes), state.layer);
    let launched = heads.clone();
    let write = move |task: &CustomTask| {
        let live = state_column(task.operand(2), layer);
        let mut item = 0;
        for (number, lane) in heads.iter().enumerate() {
            for (which, from) in [task.operand(0), task.operand(1)].into_iter().enumerate() {
                let to = task.operand(3 + 2 * number + which);
                let ty = row_type(to.ty).expect("lanes have row types");
                for (head, kv_head) in lane.kv_heads.iter().enumerate() {
                    for token in 0..from.shape[2] {
                        item += 1;
                        if item % task.threads != task.thread {
                            continue;
                        }
                        let row = live[number] as usize + token;
                        assert!(row < to.shape[1], "row {row} does not fit a lane of {}", to.shape[1]);
                        // SAFETY: the source is [head_dim, kv_heads, n] f32 with contiguous rows; the row is below
                        // the lane's capacity; every (head, row) is written by one thread.
                        unsafe {
                            let from =
                                from.data.add(*kv_head as usize * from.strides[1] + token * from.strides[2]);
                            let values = std::slice::from_raw_parts(from.cast::<f32>(), to.shape[0]);
                            let to = to.data.add(head * to.strides[2] + row * to.strides[1]);
                            let bytes = ty.row_bytes(values.len());
                            ty.encode(values, std::slice::from_raw_parts_mut(to, bytes));
                        }
                    }
                }
            }
        }
    };
    let stored = ctx.custom_on(Type::F32, [1], &operands, write, move |task| {
        let [k, v] = [task.operand(0), task.operand(1)];
        let call = device::AppendCall {
            to: device_lanes(task, &launched, 3)?,
            k: k.data.cast(),
            v: v.data.cast(),
            k_head_stride: (k.strides[1] / 4) as u64,
            k_token_stride: (k.strides[2] / 4) as u64,
            v_head_stride: (v.strides[1] / 4) as u64,
            v_token_stride: (v.strides[2] / 4) as u64,
            live: device_column(task.operand(2), layer)?.cast(),
            tokens: k.shape[2] as i32,
            unused: 0,
        };
        // SAFETY: the addresses are those of the operands, whose shapes are those of the call.
        unsafe { device::append(task, &call) }
    });
    match positions_of(lanes) {
        Some(all) => append_positions(ctx, &stored, all, lanes, state),
        None => stored,
    }
}

/// Writes the new tokens' positions behind those of the live rows, after `stored`. The result carries no data.
fn append_positions(
    ctx: &Context,
    stored: &Tensor,
    all: &Tensor,
    lanes: &[GraphLane],
    state: &LaneInputs,
) -> Tensor {
    let (heads, layer) = (heads_of(lanes), state.layer);
    let launched = heads.clone();
    let write = move |task: &CustomTask| {
        if task.thread != 0 {
            return;
        }
        let live = state_column(task.operand(2), layer);
        // SAFETY: both are contiguous i32 tensors, and only this thread touches them.
        let (all, new) = unsafe { (numbers_mut(task.operand(1)), numbers(task.operand(3))) };
        for (lane, live) in heads.iter().zip(live) {
            for head in 0..lane.kv_heads.len() {
                let row = lane.first_position + head * lane.capacity + live as usize;
                all[row..row + new.len()].copy_from_slice(new);
            }
        }
    };
    ctx.custom_on(Type::F32, [1], &[stored, all, &state.rows, &state.positions], write, move |task| {
        let positions = task.operand(3);
        let call = device::PositionsCall {
            to: device_heads(&launched)?,
            all: task.operand(1).data.cast(),
            tokens: positions.data.cast(),
            live: device_column(task.operand(2), layer)?.cast(),
            count: positions.shape[0] as i32,
            unused: 0,
        };
        // SAFETY: as for the rows.
        unsafe { device::append_positions(task, &call) }
    })
}

/// How the rows of a lane change when some leave; the same number for every head.
#[derive(Clone, Debug)]
pub struct Eviction {
    /// Per head: the rows to evict, ascending.
    pub evicted: Vec<Vec<u32>>,
    /// Per head: how the holes are filled.
    pub moves: Vec<Moves>,
    /// How many rows the compensation entry stands for afterwards.
    pub total_evicted: usize,
    /// Whether the node returns the bytes of the evicted rows.
    pub return_rows: bool,
}

/// Takes rows out of a lane, the same number for every head. `sums` `[head_dim, heads, 2]` f32 are the running sums of what left, K
/// then V, where the lane is compensated. The result is the rows that leave, byte for byte, where they are wanted: first K, then V,
/// each head after head; otherwise it carries no data.
pub fn evict_rows(ctx: &Context, lane: &GraphLane, sums: Option<&Tensor>, eviction: Eviction) -> Tensor {
    let Eviction { evicted: dropped, moves, total_evicted: count, return_rows: aside } = eviction;
    let gone = dropped.first().map_or(0, Vec::len);
    assert!(dropped.iter().all(|rows| rows.len() == gone), "heads of a lane keep equally many");
    let k_aside = dropped.len() * gone * lane.k.strides()[1];
    let bytes = k_aside + dropped.len() * gone * lane.v.strides()[1];
    let moves =
        moves.iter().map(|moves| moves.iter().flat_map(|(to, from)| [*to, *from]).collect::<Vec<_>>());
    let moves: Vec<Vec<u32>> = moves.collect();
    let lists = lists::pack(ctx, dropped.iter().chain(&moves).map(Vec::as_slice));
    let mut operands = vec![&lane.k, &lane.v, &lists];
    operands.extend(sums);
    let received = lane.accumulated.is_some().then_some(operands.len());
    operands.extend(&lane.accumulated);
    let heads = dropped.len();
    let launched = heads_of(std::slice::from_ref(lane));
    let compensated = lane.compensated;
    let take_out = move |task: &CustomTask| {
        // SAFETY: packed above.
        let lists = unsafe { Lists::of(task.operand(2), 2 * heads) };
        for item in (task.thread..2 * heads).step_by(task.threads) {
            let (which, head) = (item / heads, item % heads);
            let to = task.operand(which);
            let ty = row_type(to.ty).expect("lanes have row types");
            // SAFETY: each (tensor, head) is touched by one thread; heads are contiguous.
            let rows = unsafe { head_rows(to, head) };
            if aside {
                let of_head = gone * to.strides[1];
                // SAFETY: the result has `bytes` bytes, of which this head's of this tensor are written by this thread only.
                let kept = unsafe {
                    let at = task.result().data.add(which * k_aside + head * of_head);
                    std::slice::from_raw_parts_mut(at, of_head)
                };
                for (row, kept) in lists.get(head).zip(kept.chunks_exact_mut(to.strides[1])) {
                    kept.copy_from_slice(&rows[row as usize * to.strides[1]..][..to.strides[1]]);
                }
            }
            if compensated {
                // SAFETY: as above, [head_dim, heads, 2] f32.
                let sum = unsafe { sum_of(task.operand(3), head, which) };
                add_rows(rows, ty, lists.get(head), sum);
                write_mean(rows, ty, sum, count);
            }
            let (to_rows, from_rows) =
                (lists.get(heads + head).step_by(2), lists.get(heads + head).skip(1).step_by(2));
            let moves: Moves = to_rows.zip(from_rows).collect();
            move_rows(rows, to.strides[1], &moves);
            if let (Some(operand), 0) = (received, which) {
                scores::move_accumulated(task, operand, head, &moves);
            }
        }
    };
    let result = if aside { (Type::I8, [bytes]) } else { (Type::F32, [1]) };
    let node = ctx.custom_on(result.0, result.1, &operands, take_out, move |task| {
        let lanes = device_lanes(task, &launched, 0)?;
        let address = |operand: usize| task.operand(operand).data;
        let call = device::DepartCall {
            lane: lanes.lanes[0],
            lists: address(2).cast(),
            sums: if compensated { address(3).cast() } else { null_mut() },
            received: received.map_or(null_mut(), |operand| address(operand).cast()),
            aside: if aside { task.result().data } else { null_mut() },
            head_dim: lanes.head_dim,
            k_type: lanes.k_type,
            v_type: lanes.v_type,
            count: count as i32,
        };
        // SAFETY: the addresses are those of the operands, whose shapes are those of the call.
        unsafe { device::depart(task, &call) }
    });
    if aside { node.output() } else { node }
}

/// What a lane takes over from a layer's complete rows.
#[derive(Clone, Debug)]
pub struct RowSelection {
    /// Per head of the lane: the rows kept, in the order in which they will lie.
    pub kept: Vec<Vec<u32>>,
    /// Per head: the other rows, which the compensation entry stands for.
    pub evicted: Vec<Vec<u32>>,
}

/// Fills an empty lane from complete K and V `[head_dim, rows, n_kv_heads]` of the same types. The result carries no data.
pub fn select_rows(
    ctx: &Context,
    (k, v): (&Tensor, &Tensor),
    lane: &GraphLane,
    sums: Option<&Tensor>,
    selection: RowSelection,
) -> Tensor {
    let lists = lists::pack(ctx, selection.kept.iter().chain(&selection.evicted).map(Vec::as_slice));
    let most = selection.kept.iter().map(Vec::len).max().unwrap_or(0);
    let mut operands = vec![k, v, &lane.k, &lane.v, &lists];
    operands.extend(sums);
    let launched = heads_of(std::slice::from_ref(lane));
    let (compensated, kv_heads) = (lane.compensated, lane.kv_heads.clone());
    let fill = move |task: &CustomTask| {
        let heads = kv_heads.len();
        // SAFETY: packed above.
        let lists = unsafe { Lists::of(task.operand(4), 2 * heads) };
        for item in (task.thread..2 * heads).step_by(task.threads) {
            let (which, head) = (item / heads, item % heads);
            let (from, to) = (task.operand(which), task.operand(2 + which));
            assert_eq!(from.ty, to.ty, "rows are copied byte for byte");
            let ty = row_type(to.ty).expect("lanes have row types");
            let bytes = to.strides[1];
            // SAFETY: each (tensor, head) of the lane is touched by one thread; the source is only read.
            let (from, to) = unsafe { (&*head_rows(from, kv_heads[head] as usize), head_rows(to, head)) };
            let first = usize::from(compensated);
            for (row, at) in lists.get(head).zip(first..) {
                to[at * bytes..][..bytes].copy_from_slice(&from[row as usize * bytes..][..bytes]);
            }
            if compensated {
                // SAFETY: as above, [head_dim, heads, 2] f32.
                let sum = unsafe { sum_of(task.operand(5), head, which) };
                sum.fill(0.0);
                let dropped = lists.get(heads + head);
                let count = dropped.len();
                add_rows(from, ty, dropped, sum);
                write_mean(to, ty, sum, count);
            }
        }
    };
    ctx.custom_on(Type::F32, [1], &operands, fill, move |task| {
        let lanes = device_lanes(task, &launched, 2)?;
        let [k, v] = [task.operand(0), task.operand(1)];
        if (device_type(k)?, device_type(v)?) != (lanes.k_type, lanes.v_type) {
            return Err(INVALID_VALUE);
        }
        let call = device::SelectCall {
            to: lanes.lanes[0],
            k: k.data,
            v: v.data,
            k_head_stride: k.strides[2] as u64,
            v_head_stride: v.strides[2] as u64,
            lists: task.operand(4).data.cast(),
            sums: if compensated { task.operand(5).data.cast() } else { null_mut() },
            head_dim: lanes.head_dim,
            k_type: lanes.k_type,
            v_type: lanes.v_type,
            most: most as i32,
            kv_heads: lanes.kv_heads,
        };
        // SAFETY: as for rows that leave.
        unsafe { device::select(task, &call) }
    })
}

/// The heads of lanes, as closures keep them.
#[derive(Clone)]
struct LaneHeads {
    kv_heads: Arc<[u32]>,
    compensated: bool,
    capacity: usize,
    /// Where the lane's positions begin, under ALiBi.
    first_position: usize,
}

fn heads_of(lanes: &[GraphLane]) -> Vec<LaneHeads> {
    lanes
        .iter()
        .map(|lane| LaneHeads {
            kv_heads: lane.kv_heads.clone(),
            compensated: lane.compensated,
            capacity: lane.k.dim(1),
            first_position: lane.positions.as_ref().map_or(0, |positions| positions.first),
        })
        .collect()
}

/// The tensor of a layer's positions, under ALiBi.
fn positions_of(lanes: &[GraphLane]) -> Option<&Tensor> {
    let all = &lanes.first()?.positions.as_ref()?.all;
    assert!(lanes.iter().all(|lane| lane.positions.is_some() && !lane.compensated), "lanes of one kind");
    Some(all)
}

/// What an attention node knows when it is built.
#[derive(Clone)]
struct Call {
    shape: AttentionShape,
    new: usize,
    n_q: usize,
    layer: usize,
    lanes: Vec<LaneHeads>,
    /// `[heads]`: the slopes of ALiBi, for lanes with positions.
    slopes: Option<Arc<[f32]>>,
}

impl Call {
    /// Calls `work` with the attention call that the node's operands describe: q, anything, rows, log-weights (under ALiBi:
    /// positions), then K and V of each lane.
    fn with(&self, task: &CustomTask, work: impl FnOnce(&Attention)) {
        let live = state_column(task.operand(2), self.layer);
        let log_weights = match self.slopes {
            Some(_) => [0; MAX_LANES],
            None => state_column(task.operand(3), self.layer),
        };
        let weights: Vec<Vec<f32>> = self
            .lanes
            .iter()
            .enumerate()
            .map(|(number, lane)| vec![f32::from_bits(log_weights[number] as u32); lane.kv_heads.len()])
            .collect();
        let lanes: Vec<LaneView> = self
            .lanes
            .iter()
            .enumerate()
            .map(|(number, lane)| LaneView {
                k: rows(task.operand(4 + 2 * number)),
                v: rows(task.operand(5 + 2 * number)),
                rows: live[number] as usize + self.new,
                kv_heads: &lane.kv_heads,
                log_weight: lane.compensated.then_some(&weights[number][..]),
            })
            .collect();
        let positions = self.slopes.as_ref().map_or_else(Vec::new, |_| self.positions(task));
        let alibi = self.slopes.as_ref().map(|slopes| Alibi { slopes, positions: &positions });
        let q = task.operand(0);
        let floats = q.strides[2] / 4 * (q.shape[2] - 1) + q.strides[1] / 4 * (q.shape[1] - 1) + q.shape[0];
        work(&Attention {
            head_dim: self.shape.head_dim,
            n_kv_heads: self.shape.n_kv_heads,
            group: self.shape.group,
            n_q: self.n_q,
            scale: self.shape.scale,
            q: Queries {
                // SAFETY: f32 with the given strides; the last element is `floats - 1`.
                data: unsafe { std::slice::from_raw_parts(q.data.cast::<f32>(), floats) },
                head_stride: q.strides[1] / 4,
                token_stride: q.strides[2] / 4,
            },
            lanes: &lanes,
            alibi,
        });
    }

    /// The same for a device; whose memory the partials are, the caller says.
    fn on_device(&self, task: &DeviceTask, shares: usize) -> Result<device::AttendCall, i32> {
        let q = task.operand(0);
        let state = |operand| device_column(task.operand(operand), self.layer);
        Ok(device::AttendCall {
            from: device_lanes(task, &self.lanes, 4)?,
            q: q.data.cast(),
            q_head_stride: (q.strides[1] / 4) as u64,
            q_token_stride: (q.strides[2] / 4) as u64,
            live: state(2)?.cast(),
            log_weights: if self.slopes.is_some() { null() } else { state(3)?.cast() },
            positions: if self.slopes.is_some() { task.operand(3).data.cast() } else { null() },
            partials: null_mut(),
            out: task.result().data.cast(),
            added: self.new as i32,
            n_kv_heads: self.shape.n_kv_heads as i32,
            group: self.shape.group as i32,
            n_q: self.n_q as i32,
            shares: shares as i32,
            scale: self.shape.scale,
        })
    }

    /// The positions of each KV head's rows.
    fn positions<'a>(&self, task: &CustomTask) -> Vec<&'a [i32]> {
        // SAFETY: a contiguous i32 tensor, which nothing writes to while attention reads.
        let all: &[i32] = unsafe { numbers(task.operand(3)) };
        let mut positions: Vec<&[i32]> = vec![&[]; self.shape.n_kv_heads];
        for lane in &self.lanes {
            for (at, head) in lane.kv_heads.iter().enumerate() {
                positions[*head as usize] = &all[lane.first_position + at * lane.capacity..][..lane.capacity];
            }
        }
        positions
    }
}

/// Column `layer` of a `[MAX_LANES, layers]` tensor of 4-byte numbers, as bits.
fn state_column(state: RawTensor, layer: usize) -> [i32; MAX_LANES] {
    assert!(state.shape[0] == MAX_LANES && layer < state.shape[1], "lane state of the wrong shape");
    // SAFETY: inside the tensor (checked), 4-byte aligned.
    unsafe { state.data.add(layer * state.strides[1]).cast::<[i32; MAX_LANES]>().read() }
}

fn rows<'a>(tensor: RawTensor) -> Rows<'a> {
    let bytes = tensor.strides[2] * tensor.shape[2];
    Rows {
        // SAFETY: lanes are contiguous, [head_dim, capacity, heads]; nothing writes to them while attention reads.
        data: unsafe { std::slice::from_raw_parts(tensor.data, bytes) },
        ty: row_type(tensor.ty).expect("lanes have row types"),
        row_stride: tensor.strides[1],
        head_stride: tensor.strides[2],
    }
}

/// All rows of one head.
///
/// # Safety
/// No other reference to the head's rows may be in use.
unsafe fn head_rows<'a>(tensor: RawTensor, head: usize) -> &'a mut [u8] {
    assert!(head < tensor.shape[2]);
    // SAFETY: inside the tensor; exclusive by the caller's promise.
    unsafe {
        std::slice::from_raw_parts_mut(
            tensor.data.add(head * tensor.strides[2]),
            tensor.strides[1] * tensor.shape[1],
        )
    }
}

/// A tensor `[n]` of integers.
///
/// # Safety
/// It is a contiguous i32 tensor; nothing writes to it meanwhile.
unsafe fn numbers<'a>(tensor: RawTensor) -> &'a [i32] {
    // SAFETY: inside the tensor; the rest is the caller's promise.
    unsafe { std::slice::from_raw_parts(tensor.data.cast::<i32>(), tensor.shape[0]) }
}

/// As [`numbers`], to write to.
///
/// # Safety
/// It is a contiguous i32 tensor; no other reference to it may be in use.
unsafe fn numbers_mut<'a>(tensor: RawTensor) -> &'a mut [i32] {
    // SAFETY: as above.
    unsafe { std::slice::from_raw_parts_mut(tensor.data.cast::<i32>(), tensor.shape[0]) }
}

/// One head's sum in `[head_dim, heads, 2]`.
///
/// # Safety
/// No other reference to it may be in use.
unsafe fn sum_of<'a>(sums: RawTensor, head: usize, which: usize) -> &'a mut [f32] {
    assert!(head < sums.shape[1] && which < sums.shape[2]);
    // SAFETY: inside the tensor; exclusive by the caller's promise.
    unsafe {
        let at = sums.data.add(head * sums.strides[1] + which * sums.strides[2]);
        std::slice::from_raw_parts_mut(at.cast::<f32>(), sums.shape[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No graph of fewer tokens leaves more to be merged than the one that is planned with.
    #[test]
    fn the_most_partials_are_found() {
        let partials = |shape: AttentionShape, n: usize, blocks: usize| match device_shares(shape, n, blocks)
        {
            0 => 0,
            shares => (shares + shape.n_kv_heads) * shape.group * n,
        };
        for (n_kv_heads, group, blocks, chunk) in [
            (8, 4, 512, 20),
            (8, 4, 512, 100),
            (32, 1, 512, 200),
            (4, 2, 512, 100),
            (2, 6, 528, 512),
            (1, 1, 6, 512),
        ] {
            let shape = AttentionShape { head_dim: 128, n_kv_heads, group, scale: 1.0 };
            let most = max_partials_tokens(shape, Split::Blocks(blocks), chunk).expect("some are split");
            assert!(most <= chunk);
            for n in 1..=chunk {
                assert!(partials(shape, n, blocks) <= partials(shape, most, blocks), "{n} of {chunk}");
            }
        }
        let one = AttentionShape { head_dim: 64, n_kv_heads: 64, group: 32, scale: 1.0 };
        assert_eq!(max_partials_tokens(one, Split::Threads(4), 512), None);
        assert_eq!(max_partials_tokens(one, Split::Blocks(6), 512), None, "all heads together fill it");
    }
}

//! Nodes of attention. Few queries take two nodes, with ggml's barrier between them: partial results, then
//! their merge ([`decode`]). Many queries take one node ([`prefill`]), on devices two where rows are split.

use std::cell::RefCell;
use std::ptr::{null, null_mut};
use std::slice::{from_raw_parts, from_raw_parts_mut};
use std::sync::Arc;

use ggml::{Context, CustomTask, DeviceTask, Tensor, Type};

use super::checks::{Check, check_distances, check_inputs, check_lanes, check_queries, ensure, is};
use super::operands::{
    CpuNode, FloatsAt, HeadsAt, LaneAt, LaneColumnAt, Node, NumbersAt, Operands, TensorAt, address_or_null,
    device_lanes,
};
use super::progress::Progress;
use super::{
    Appended, AttentionShape, GraphLane, LaneHeads, LaneInputs, MAX_LANES, QueryHeads, row_positions,
    rows_after,
};
use crate::device::{self, INVALID_VALUE, MAX_DECODE_QUERIES, TILE_QUERIES};
use crate::form::Operation;
use crate::{
    Alibi, Attention, Groups, LaneView, Queries, RowTensor, ShapeError, Window, decode, portable, prefill,
};

/// From this number of queries per KV head on the CPU uses the tiled kernel, which is faster then.
const MIN_PREFILL_QUERIES: usize = 16;

/// Maximum number of threads or blocks that rows are split over.
const MAX_SPLIT: usize = 1 << 16;

/// What the rows are split over. The partial results are merged afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Threads of the CPU: the maximum that the graph is computed with.
    Threads(usize),
    /// Blocks of a device: the maximum. As many of them are used as are resident at the same time.
    Blocks(usize),
}

/// Attends with `n_q` queries of each head to the live rows of all lanes and to the appended rows. The queries
/// belong to the last `n_q` tokens. Returns `[head_dim * heads, n_q]`.
#[derive(Clone, Copy)]
pub struct Attend<'a> {
    /// The heads of the layer.
    pub shape: AttentionShape,
    /// The queries.
    pub queries: QueryHeads<'a>,
    /// The rows that were appended.
    pub appended: Appended<'a>,
    /// All lanes of the layer.
    pub lanes: &'a [GraphLane],
    /// Their state.
    pub inputs: &'a LaneInputs,
    /// For sparse prefill, in layers without ALiBi and windows: old rows in groups, where there are many queries. Only own
    /// kernels of the CPU do that, elsewhere all rows are read. `None` reads all rows.
    pub groups: Option<RowGroups<'a>>,
    /// Whether old rows may be multiplied in integers of 8 bits, where there are many queries: see [`prefill`]. Only own
    /// kernels of the CPU do that.
    pub int8: bool,
}

/// Old rows in groups: sparse [`prefill`]. With so many lanes that a node has no operand left, all rows are read.
#[derive(Clone, Copy)]
pub struct RowGroups<'a> {
    /// `[2 * head_dim, groups, n_kv_heads]` f32, for the means of so many groups of each KV head. They are computed anew: one
    /// tensor serves attention that is computed one after the other.
    pub means: &'a Tensor,
    /// The share of a query's softmax from which a group is read row by row.
    pub share: f32,
}

impl Operation for Attend<'_> {
    const NAME: &'static str = "attend";

    fn check(&self) -> Check {
        let Attend { shape, queries, lanes, inputs, .. } = *self;
        let AttentionShape { head_dim, n_kv_heads, .. } = shape;
        check_queries(shape, "queries", queries)?;
        check_lanes(lanes, head_dim, n_kv_heads)?;
        lanes.iter().try_for_each(|lane| check_distances(lane, shape))?;
        let heads: usize = lanes.iter().map(|lane| lane.kv_heads.len()).sum();
        ensure(heads == n_kv_heads, || format!("the lanes have {heads} of {n_kv_heads} KV heads"))?;
        check_inputs(inputs)
    }

    fn own(self, ctx: &Context, split: Split) -> Tensor {
        match check_split(&self, split) {
            Ok(()) => attend(ctx, self, split),
            Err(problem) => ctx.refuse(Self::NAME, problem),
        }
    }

    fn portable(self, ctx: &Context) -> Tensor {
        portable::attend(ctx, self)
    }
}

/// The nodes of own kernels.
fn attend(ctx: &Context, operands: Attend, split: Split) -> Tensor {
    let Attend { shape, queries: heads, appended, lanes, inputs, groups, int8 } = operands;
    let n_q = heads.q.dim(2);
    let call = |previous| Call::new(shape, heads, previous, appended.rows, lanes, inputs);
    let (operands, of_call) = call(appended.node);
    let queries = shape.group * n_q;
    // The maximum of threads, that of splits on a device, and the shape of the partials; 0 for the other kind
    // of backend.
    let (threads, max_splits, partials) = match split {
        Split::Threads(threads) if is_tiled(shape, n_q, threads) => {
            let Some(groups) = groups.filter(|_| has_room_for_means(lanes, heads)) else {
                return attend_many(ctx, (operands, of_call), None, int8);
            };
            let are_known = mean_groups(ctx, (operands, of_call), groups);
            return attend_many(ctx, call(&are_known), Some(groups), int8);
        }
        Split::Threads(threads) => {
            let len = decode::partials_len(shape.head_dim, shape.n_kv_heads, shape.group, n_q);
            (threads, 0, [len, threads, 1])
        }
        Split::Blocks(blocks) => {
            let splits = max_splits(shape, n_q, blocks);
            if splits == 0 && queries > MAX_DECODE_QUERIES {
                return attend_many(ctx, (operands, of_call), None, false);
            }
            (0, splits, [shape.head_dim + 2, queries, splits + shape.n_kv_heads])
        }
    };
    let len = partials[0];
    let node = AttendPartially { call: of_call, threads, len, max_splits };
    let partials = operands.node(ctx, Type::F32, partials, node);
    let (operands, of_call) = call(&partials);
    let out = [shape.head_dim * shape.n_heads(), n_q];
    operands.node(ctx, Type::F32, out, CombinePartials { call: of_call, threads, len, max_splits })
}

/// Whether a node of these lanes has an operand left for the means: beside them it has queries, the node before, live rows,
/// log-weights or positions, and sink logits.
fn has_room_for_means(lanes: &[GraphLane], queries: QueryHeads) -> bool {
    const MAX_OPERANDS: usize = 10;
    let of_lanes: usize = lanes.iter().map(|lane| lane.tensors().count()).sum();
    4 + of_lanes + usize::from(queries.sink_logits.is_some()) < MAX_OPERANDS
}

/// What own kernels ask besides.
fn check_split(Attend { shape, queries, lanes, groups, .. }: &Attend, split: Split) -> Check {
    // A node has ten operands.
    let fits = queries.sink_logits.is_none() || lanes.len() < MAX_LANES;
    ensure(fits, || {
        format!("{} lanes with sink logits, at most {} are possible", lanes.len(), MAX_LANES - 1)
    })?;
    if let Some(RowGroups { means, share }) = groups {
        is("means of groups", means, Type::F32, [2 * shape.head_dim, means.dim(1), shape.n_kv_heads, 1])?;
        ensure(lanes.iter().all(|lane| lane.window.is_none()) && shape.max_alibi_bias.is_none(), || {
            "groups of rows in a layer with a window or ALiBi".into()
        })?;
        ensure(*share >= 0.0, || format!("a share of {share} from which groups are read"))?;
    }
    let (Split::Threads(parts) | Split::Blocks(parts)) = split;
    ensure((1..=MAX_SPLIT).contains(&parts), || format!("{split:?} is not a split into 1 to {MAX_SPLIT}"))
}

/// [`attend`] for many queries: one node, whose threads share the work through a counter. With groups, the node before it is
/// [`mean_groups`].
fn attend_many<'a>(
    ctx: &Context,
    (mut operands, call): (Operands<'a>, Call),
    groups: Option<RowGroups<'a>>,
    int8: bool,
) -> Tensor {
    let out = [call.shape.head_dim * call.shape.n_heads(), call.n_q];
    let groups = groups.map(|RowGroups { means, share }| GroupsAt { means: operands.read(means), share });
    operands.node(ctx, Type::F32, out, AttendMany { call, groups, int8, progress: Progress::default() })
}

/// Computes the means of groups of rows. The result has no data.
fn mean_groups<'a>(
    ctx: &Context,
    (mut operands, call): (Operands<'a>, Call),
    groups: RowGroups<'a>,
) -> Tensor {
    let means = operands.write(groups.means);
    operands.cpu_node(ctx, Type::F32, [1], MeanGroups { call, means, progress: Progress::default() })
}

/// The node of [`mean_groups`].
struct MeanGroups {
    call: Call,
    /// `[2 * head_dim, groups, n_kv_heads]`
    means: TensorAt,
    progress: Progress,
}

impl CpuNode for MeanGroups {
    fn on_cpu(&self, task: &CustomTask) {
        let share = self.progress.share(task.threads);
        self.call.on_cpu(task, |attention| {
            let means = self.means.of(task);
            // SAFETY: the means are f32 of this shape (`check_split`), written by this node's threads only, which share
            // `next`.
            unsafe { prefill::mean_groups(attention, share.next(), means.shape[1], means.data.cast()) }
        });
    }
}

/// The node of [`attend_many`].
struct AttendMany {
    call: Call,
    /// On the CPU only.
    groups: Option<GroupsAt>,
    /// On the CPU only.
    int8: bool,
    progress: Progress,
}

/// Old rows in groups.
struct GroupsAt {
    /// `[2 * head_dim, groups, n_kv_heads]`
    means: TensorAt,
    share: f32,
}

impl GroupsAt {
    /// The groups, on the CPU.
    fn read<'a>(&self, task: &CustomTask) -> Groups<'a> {
        let means = self.means.of(task);
        let [floats, count, heads, _] = means.shape;
        // SAFETY: contiguous f32 (`check_split`), complete since the node before.
        let means = unsafe { from_raw_parts(means.data.cast::<f32>(), floats * count * heads) };
        Groups { means, count, share: self.share }
    }
}

impl Node for AttendMany {
    fn on_cpu(&self, task: &CustomTask) {
        thread_local! {
            static SCRATCH: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
        }
        let share = self.progress.share(task.threads);
        self.call.on_cpu(task, |attention| {
            let groups = self.groups.as_ref().map(|groups| groups.read(task));
            let attention = &Attention { groups, int8: self.int8, ..*attention };
            SCRATCH.with_borrow_mut(|scratch| {
                let len = prefill::scratch_len(attention);
                if scratch.len() < len {
                    scratch.resize(len, 0.0);
                }
                let out = task.result().data.cast::<f32>();
                // SAFETY: the result is [head_dim * heads, n_q] f32, written by this node's threads only,
                // which share `next`.
                unsafe { prefill::prefill(attention, share.next(), scratch, out, null_mut()) }
            })
        });
    }

    fn on_device(&self, task: &DeviceTask) -> Result<(), i32> {
        let call = self.call.on_device(task, 0)?;
        // SAFETY: the addresses are those of the operands and of the result, whose shapes are those of the
        // call.
        unsafe { device::attend_prefill(task, &call) }
    }
}

/// The first node for few queries: each thread or block attends to its part of the rows.
struct AttendPartially {
    call: Call,
    /// The CPU's threads: the maximum.
    threads: usize,
    /// Floats of the partials of a thread.
    len: usize,
    /// On devices: the maximum of splits.
    max_splits: usize,
}

impl Node for AttendPartially {
    fn on_cpu(&self, task: &CustomTask) {
        self.call.on_cpu(task, |attention| {
            let out = task.result();
            if task.threads > self.threads {
                task.fail(format!("attend: built for {} threads, run with {}", self.threads, task.threads));
                return Ok(());
            }
            // SAFETY: the result is [len, threads] f32; each thread has its own column.
            let own = unsafe {
                let at = out.data.cast::<f32>().add(self.len * task.thread);
                from_raw_parts_mut(at, self.len)
            };
            decode::partial(attention, task.thread, task.threads, own)
        });
    }

    fn on_device(&self, task: &DeviceTask) -> Result<(), i32> {
        if self.max_splits == 0 {
            return Err(INVALID_VALUE);
        }
        let call = self.call.on_device(task, self.max_splits)?;
        let call = device::AttendCall { partials: task.result().data.cast(), ..call };
        let queries = self.call.shape.group * self.call.n_q;
        let launch =
            if queries > MAX_DECODE_QUERIES { device::attend_prefill } else { device::attend_decode };
        // SAFETY: the addresses are those of the operands and of the result, whose shapes are those of
        // the call.
        unsafe { launch(task, &call) }
    }
}

/// The second node for few queries: merges the partials of the first.
struct CombinePartials {
    /// The node before it is that of the partials.
    call: Call,
    threads: usize,
    len: usize,
    max_splits: usize,
}

impl Node for CombinePartials {
    fn on_cpu(&self, task: &CustomTask) {
        self.call.on_cpu(task, |attention| {
            let range = decode::combine_range(attention, task.thread, task.threads);
            if task.threads > self.threads {
                return Ok(()); // the node before has reported it
            }
            let (partials, out, head_dim) = (self.call.previous.of(task), task.result(), attention.head_dim);
            // SAFETY: the partials are [len, threads] f32, complete since the node before. The ranges of
            // the threads do not overlap in the result.
            let (partials, out) = unsafe {
                let out = out.data.cast::<f32>().add(range.start * head_dim);
                (
                    from_raw_parts(partials.data.cast::<f32>(), self.len * task.threads),
                    from_raw_parts_mut(out, range.len() * head_dim),
                )
            };
            decode::combine(attention, task.threads, partials, range, out, None)
        });
    }

    fn on_device(&self, task: &DeviceTask) -> Result<(), i32> {
        let call = self.call.on_device(task, self.max_splits)?;
        let call = device::AttendCall { partials: self.call.previous.of(task).data.cast(), ..call };
        // SAFETY: as above, with the partials of the node before.
        unsafe { device::combine(task, &call) }
    }
}

/// Whether the CPU uses the tiled kernel, in which a thread computes whole tiles of queries. A decode step with fewer
/// tiles than threads does not: its rows are split, also for many query heads of a KV head.
fn is_tiled(shape: AttentionShape, n_q: usize, threads: usize) -> bool {
    let queries = shape.group * n_q;
    let tiles = shape.n_kv_heads * queries.div_ceil(prefill::TILE);
    queries >= MIN_PREFILL_QUERIES && (n_q > 1 || tiles >= threads)
}

/// Maximum number of splits of all rows on a device, for `n_q` tokens. Few queries have one split per block.
/// Many queries have one split per block and tile of queries. A multiprocessor holds half as many of these
/// blocks. With more than 128 elements a head it holds only one, so that the blocks run in two waves. Returns 0
/// where the tiles of all heads fill the device without splits.
fn max_splits(shape: AttentionShape, n_q: usize, blocks: usize) -> usize {
    let queries = shape.group.saturating_mul(n_q);
    if queries <= MAX_DECODE_QUERIES {
        return blocks;
    }
    let splits = blocks / 2 / queries.div_ceil(TILE_QUERIES);
    if splits < 2 * shape.n_kv_heads { 0 } else { splits }
}

/// The number of tokens, from 1 to `chunk`, whose attention on a device has the largest partials; `None`
/// where rows are never split. The graph of this many tokens may need more memory than a graph of more
/// tokens.
pub fn max_partials_tokens(shape: AttentionShape, split: Split, chunk: usize) -> Option<usize> {
    let Split::Blocks(blocks) = split else { return None };
    let partials = |n: &usize| match max_splits(shape, *n, blocks) {
        0 => 0,
        splits => (splits + shape.n_kv_heads) * shape.group * n,
    };
    // Splits become fewer with more tokens, so that a chunk may be of any size.
    (1..=chunk).take_while(|n| partials(n) > 0).max_by_key(partials)
}

/// What an attention node knows when it is built.
struct Call {
    /// `[head_dim, n_heads, n_q]`
    queries: HeadsAt,
    /// The node that must run before: that of the appended rows, or of the partials.
    previous: TensorAt,
    live: LaneColumnAt,
    bias: RowBias,
    lanes: Vec<LaneAt>,
    /// `[n_heads]`
    sink_logits: Option<FloatsAt>,
    shape: AttentionShape,
    /// Rows appended to every KV head.
    appended: usize,
    n_q: usize,
    /// `[n_heads]`: the ALiBi slopes, in layers that have them.
    slopes: Option<Arc<[f32]>>,
    window: Option<usize>,
}

/// What is known of the rows. Lanes with positions are not compensated, so that one operand is enough.
#[derive(Clone, Copy)]
enum RowBias {
    /// Log-weights of the compensation entries.
    LogWeights(LaneColumnAt),
    /// Positions of all rows of the layer.
    Positions(NumbersAt),
}

impl Call {
    /// The call and its operands.
    fn new<'a>(
        shape: AttentionShape,
        heads: QueryHeads<'a>,
        previous: &'a Tensor,
        appended: usize,
        lanes: &'a [GraphLane],
        inputs: &'a LaneInputs,
    ) -> (Operands<'a>, Call) {
        let mut operands = Operands::default();
        let call = Call {
            queries: operands.heads(heads.q),
            previous: operands.read(previous),
            live: operands.live_rows(inputs),
            bias: match row_positions(lanes) {
                Some(positions) => RowBias::Positions(operands.numbers(positions)),
                None => RowBias::LogWeights(operands.log_weights(inputs)),
            },
            lanes: lanes.iter().map(|lane| operands.read_lane(lane)).collect(),
            sink_logits: heads.sink_logits.map(|sink_logits| operands.floats(sink_logits)),
            shape,
            appended,
            n_q: heads.q.dim(2),
            slopes: shape.alibi_slopes(),
            window: lanes[0].window,
        };
        (operands, call)
    }

    /// Calls `work` with the attention call that the node's operands describe. Without a call where there are more
    /// rows than the lanes have room for: this fails the task, as an error of `work` does.
    fn on_cpu(&self, task: &CustomTask, work: impl FnOnce(&Attention) -> Result<(), ShapeError>) {
        let counts = (self.lanes.iter().zip(self.live.read(task)))
            .map(|(lane, live)| rows_after(live, self.appended, lane.heads.capacity))
            .collect::<Result<Vec<usize>, String>>();
        let counts = match counts {
            Ok(counts) => counts,
            Err(problem) => return task.fail(format!("attend: {problem}")),
        };
        let (log_weights, positions) = match self.bias {
            RowBias::LogWeights(log_weights) => (log_weights.read(task), None),
            RowBias::Positions(positions) => ([0; MAX_LANES], Some(self.positions(positions.read(task)))),
        };
        let weights: Vec<Vec<f32>> = (self.lanes.iter().zip(log_weights))
            .map(|(lane, log_weight)| vec![f32::from_bits(log_weight as u32); lane.heads.kv_heads.len()])
            .collect();
        let lanes: Vec<LaneView> = (self.lanes.iter().zip(counts).zip(&weights))
            .map(|((lane, count), weights)| {
                // Rows that no query sees are left out, so that threads share the others equally.
                let hidden = self.hidden_rows(count);
                LaneView {
                    k: skip(lane.k.rows(task), hidden),
                    v: skip(lane.v.rows(task), hidden),
                    rows: count - hidden,
                    kv_heads: &lane.heads.kv_heads,
                    log_weight: lane.heads.compensated.then_some(&weights[..]),
                }
            })
            .collect();
        let positions = positions.as_deref();
        let alibi = self.slopes.as_ref().map(|slopes| Alibi { slopes, positions: positions.unwrap_or(&[]) });
        let q = self.queries.of(task);
        let floats = q.strides[2] / 4 * (q.shape[2] - 1) + q.strides[1] / 4 * (q.shape[1] - 1) + q.shape[0];
        let result = work(&Attention {
            head_dim: self.shape.head_dim,
            n_kv_heads: self.shape.n_kv_heads,
            group: self.shape.group,
            n_q: self.n_q,
            scale: self.shape.scale,
            q: Queries {
                // SAFETY: f32 with these strides (`check`); the last element is `floats - 1`.
                data: unsafe { from_raw_parts(q.data.cast::<f32>(), floats) },
                head_stride: q.strides[1] / 4,
                token_stride: q.strides[2] / 4,
            },
            lanes: &lanes,
            alibi,
            window: self.window.map(|tokens| Window { tokens, positions }),
            softcap: self.shape.softcap,
            sink_logits: self.sink_logits.map(|sink_logits| sink_logits.read(task)),
            groups: None,
            int8: false,
        });
        if let Err(error) = result {
            task.fail(format!("attend: {error}"));
        }
    }

    /// The same call for a device. The caller sets the address of the partials.
    fn on_device(&self, task: &DeviceTask, max_splits: usize) -> Result<device::AttendCall, i32> {
        let q = self.queries.on_device(task);
        let (log_weights, positions) = match self.bias {
            RowBias::LogWeights(log_weights) => (log_weights.address(task)?.cast_const().cast(), null()),
            RowBias::Positions(positions) => (null(), positions.address(task)),
        };
        Ok(device::AttendCall {
            lanes: device_lanes(task, &self.lanes)?,
            q: q.data,
            q_head_stride: q.head_stride,
            q_token_stride: q.token_stride,
            live: self.live.address(task)?.cast(),
            log_weights,
            positions,
            sink_logits: address_or_null(self.sink_logits, task),
            partials: null_mut(),
            out: task.result().data.cast(),
            added: self.appended as i32,
            n_kv_heads: self.shape.n_kv_heads as i32,
            group: self.shape.group as i32,
            n_q: self.n_q as i32,
            max_splits: max_splits as i32,
            scale: self.shape.scale,
            softcap: self.shape.softcap.unwrap_or(0.0),
            window: self.window.map_or(0, |tokens| i32::try_from(tokens).unwrap_or(i32::MAX)),
            max_alibi_bias: self.shape.max_alibi_bias.unwrap_or(0.0),
            unused: 0,
        })
    }

    /// The first rows of a lane with `rows` rows that no query sees, where rows lie in order.
    fn hidden_rows(&self, rows: usize) -> usize {
        let is_ordered = matches!(self.bias, RowBias::LogWeights(_));
        let tokens = self.window.filter(|_| is_ordered);
        tokens.map_or(0, |tokens| rows.saturating_sub(self.n_q - 1).saturating_sub(tokens))
    }

    /// The positions of each KV head's rows, of those of all lanes.
    fn positions<'a>(&self, all: &'a [i32]) -> Vec<&'a [i32]> {
        let mut positions: Vec<&[i32]> = vec![&[]; self.shape.n_kv_heads];
        for LaneHeads { kv_heads, first_position, capacity, .. } in self.lanes.iter().map(|lane| &lane.heads)
        {
            for (at, head) in kv_heads.iter().enumerate() {
                positions[*head as usize] = &all[first_position + at * capacity..][..*capacity];
            }
        }
        positions
    }
}

/// The tensor without its first `n` rows.
fn skip(rows: RowTensor, n: usize) -> RowTensor {
    RowTensor { data: &rows.data[n * rows.row_stride..], ..rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decode_step_with_fewer_tiles_than_threads_splits_rows() {
        let shape = |n_kv_heads, group| AttentionShape::plain(n_kv_heads * group, n_kv_heads, 64);
        assert!(is_tiled(shape(1, 16), 1, 1));
        assert!(!is_tiled(shape(1, 16), 1, 2) && !is_tiled(shape(1, 128), 1, 2));
        assert!(is_tiled(shape(1, 16), 2, 2) && is_tiled(shape(2, 16), 1, 2));
        assert!(!is_tiled(shape(8, 4), 1, 1) && is_tiled(shape(8, 4), 4, 64));
    }

    /// No graph with at most as many tokens has larger partials than the one that the plan uses.
    #[test]
    fn max_partials_tokens_has_the_largest_partials() {
        let partials = |shape: AttentionShape, n: usize, blocks: usize| match max_splits(shape, n, blocks) {
            0 => 0,
            splits => (splits + shape.n_kv_heads) * shape.group * n,
        };
        for (n_kv_heads, group, blocks, chunk) in [
            (8, 4, 512, 20),
            (8, 4, 512, 100),
            (32, 1, 512, 200),
            (4, 2, 512, 100),
            (2, 6, 528, 512),
            (1, 1, 6, 512),
        ] {
            let shape = AttentionShape::plain(n_kv_heads * group, n_kv_heads, 128);
            let tokens = max_partials_tokens(shape, Split::Blocks(blocks), chunk).expect("rows are split");
            assert!(tokens <= chunk);
            for n in 1..=chunk {
                assert!(partials(shape, n, blocks) <= partials(shape, tokens, blocks), "{n} of {chunk}");
            }
        }
        // No token after the first that splits nothing splits again, and a chunk of any size is found at once.
        let shape = AttentionShape::plain(8, 4, 128);
        assert!((1..10_000).map(|n| max_splits(shape, n, 512)).is_sorted_by(|a, b| a >= b));
        let of_chunk = |chunk| max_partials_tokens(shape, Split::Blocks(512), chunk);
        assert_eq!(of_chunk(usize::MAX), of_chunk(10_000));
        let shape = AttentionShape::plain(64 * 32, 64, 64);
        assert_eq!(max_partials_tokens(shape, Split::Threads(4), 512), None);
        assert_eq!(max_partials_tokens(shape, Split::Blocks(6), 512), None, "the heads fill the device");
    }
}

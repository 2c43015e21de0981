//! Window attention: what each row receives from the last queries, which are stored in a ring as they come.

use std::ops::Range;
use std::slice::{from_raw_parts_mut, from_ref};
use std::sync::Arc;

use ggml::{Context, CustomTask, DeviceTask, Tensor, Type};

use super::{
    Gain, RowLists, ScoredHeads, accumulate_call, add_alibi_bias, check_lists, last_address, last_position,
    splits, with_scratch,
};
use crate::accumulate::{Combine, Keys, ScoringQuery, add_weights};
use crate::attention::ShapeError;
use crate::form::Operation;
use crate::graph::checks::{Check, check_queries, ensure, is, is_heads, is_rows, is_vector};
use crate::graph::lists::{self, Lists};
use crate::graph::operands::{
    FloatsAt, HeadVectors, HeadsAt, ListsAt, Node, NumbersAt, Operands, TensorAt, address_or_null,
};
use crate::graph::{AttentionShape, QueryHeads, Split};
use crate::{device, portable};

/// Stores the queries of the last tokens in a ring. The token at position p goes to slot p modulo `window`. The result has
/// no data.
pub struct StoreQueries<'a> {
    /// `[head_dim, heads, n_q]` f32: the queries.
    pub q: &'a Tensor,
    /// `[n]` i32: positions of tokens, of which the last have the queries.
    pub positions: &'a Tensor,
    /// `[head_dim, heads, window]` f32: the ring.
    pub ring: &'a Tensor,
}

impl Operation for StoreQueries<'_> {
    const NAME: &'static str = "store_queries";

    fn check(&self) -> Check {
        let StoreQueries { q, positions, ring } = *self;
        let [head_dim, heads, n, _] = q.shape().0;
        is_heads("queries", q, [head_dim, heads, n])?;
        is_vector("positions", positions, 1)?;
        is("queries in the ring", ring, Type::F32, [head_dim, heads, ring.dim(2), 1])
    }

    fn own(self, ctx: &Context, _: Split) -> Tensor {
        let mut operands = Operands::default();
        let node = StoreQueriesNode {
            queries: operands.heads(self.q),
            positions: operands.numbers(self.positions),
            ring: operands.write(self.ring),
        };
        operands.node(ctx, Type::F32, [1], node)
    }

    fn portable(self, ctx: &Context) -> Tensor {
        portable::store_queries(ctx, self)
    }
}

/// The node of [`StoreQueries`].
struct StoreQueriesNode {
    /// `[head_dim, heads, n_q]`
    queries: HeadsAt,
    /// Positions of the tokens.
    positions: NumbersAt,
    /// `[head_dim, heads, window]`
    ring: TensorAt,
}

impl Node for StoreQueriesNode {
    fn on_cpu(&self, task: &CustomTask) {
        let (queries, ring) = (self.queries.read(task), self.ring.of(task));
        let window = ring.shape[2];
        let stored = window.min(queries.tokens);
        let last = match last_position(self.positions, task, stored) {
            Ok(last) => last,
            Err(problem) => return task.fail(format!("store_queries: {problem}")),
        };
        let first = queries.tokens - stored;
        for t in (first..queries.tokens).skip(task.thread).step_by(task.threads) {
            let position = last + 1 - (queries.tokens - t);
            // SAFETY: slots are [head_dim, heads] f32, contiguous; each is written by one thread.
            let slot = unsafe {
                let at = ring.data.add(position % window * ring.strides[2]).cast::<f32>();
                from_raw_parts_mut(at, ring.shape[0] * ring.shape[1])
            };
            for (head, slot) in slot.chunks_exact_mut(ring.shape[0]).enumerate() {
                slot.copy_from_slice(queries.get(head, t));
            }
        }
    }

    fn on_device(&self, task: &DeviceTask) -> Result<(), i32> {
        let (q, ring) = (self.queries.on_device(task), self.ring.of(task));
        let call = device::StoreQueriesCall {
            q: q.data,
            q_head_stride: q.head_stride,
            q_token_stride: q.token_stride,
            last: last_address(self.positions, task),
            ring: ring.data.cast(),
            head_dim: ring.shape[0] as i32,
            heads: ring.shape[1] as i32,
            tokens: q.tokens,
            window: ring.shape[2] as i32,
        };
        // SAFETY: the addresses are those of the operands, whose shapes are those of the call.
        unsafe { device::store_queries(task, &call) }
    }
}

/// The tokens whose attention [`WindowAttention`] adds up, and the heads of the keys.
#[derive(Clone)]
pub struct WindowQueries {
    /// Positions of the tokens. [`StoreQueries`] has stored their queries.
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
pub struct WindowAttention<'a> {
    /// The heads of the layer.
    pub shape: AttentionShape,
    /// `[head_dim, capacity, heads]`: keys.
    pub k: &'a Tensor,
    /// `[head_dim, heads, window]` f32: stored queries.
    pub ring: &'a Tensor,
    /// The heads of `k`, and the positions of their rows.
    pub positions: RowLists,
    /// The tokens.
    pub window: WindowQueries,
}

impl Operation for WindowAttention<'_> {
    const NAME: &'static str = "window_attention";

    fn check(&self) -> Check {
        check(self.shape, self.k, self.ring, &self.positions, &self.window)
    }

    fn own(self, ctx: &Context, _: Split) -> Tensor {
        window_attention(ctx, self)
    }

    fn portable(self, ctx: &Context) -> Tensor {
        portable::window_attention(ctx, self)
    }
}

/// The nodes of own kernels.
fn window_attention(ctx: &Context, operands: WindowAttention) -> Tensor {
    let WindowAttention { shape, k, ring, positions, window } = operands;
    let RowLists { heads, rows: lists } = positions;
    let with_position = lists.first().map_or(0, |rows| rows.len());
    let live = window.first + with_position;
    let queries = window.positions.len() * shape.group;
    let splits = splits(queries, heads.len(), live);
    // On devices this node has the statistics that the first pass writes and the second reads. The node
    // itself computes nothing.
    let mut operands = Operands::default();
    operands.after(ring);
    let stats = operands.node(ctx, Type::F32, [2, splits, queries, heads.len()], Statistics);
    let lists = lists::pack(ctx, lists.iter().map(|rows| rows.as_slice()));
    let sink_logits = window.sink_logits.clone();
    let out = [live, shape.group, heads.len()];
    let mut operands = Operands::default();
    let node = WindowAttentionNode {
        keys: operands.read(k),
        ring: operands.heads(ring),
        lists: operands.lists(&lists, heads.len()),
        stats: operands.read(&stats),
        sink_logits: sink_logits.as_ref().map(|sink_logits| operands.floats(sink_logits)),
        shape,
        slopes: shape.alibi_slopes(),
        heads,
        with_position,
        window,
        splits,
    };
    operands.node(ctx, Type::F32, out, node).output()
}

fn check(
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

/// Memory of a device for statistics.
struct Statistics;

impl Node for Statistics {
    fn on_cpu(&self, _: &CustomTask) {}

    fn on_device(&self, _: &DeviceTask) -> Result<(), i32> {
        Ok(())
    }
}

/// The node of [`WindowAttention`].
struct WindowAttentionNode {
    /// `[head_dim, capacity, heads of the tensor]`
    keys: TensorAt,
    /// `[head_dim, n_heads, slots]`: the stored queries.
    ring: HeadsAt,
    /// Positions of the rows of each head.
    lists: ListsAt,
    /// On devices: statistics `[2, splits, queries, heads]`.
    stats: TensorAt,
    /// `[n_heads]`
    sink_logits: Option<FloatsAt>,
    shape: AttentionShape,
    /// `[n_heads]`: the ALiBi slopes, in layers that have them.
    slopes: Option<Arc<[f32]>>,
    /// The heads, by their numbers in the tensor.
    heads: Vec<u32>,
    /// Rows of a head that have a position.
    with_position: usize,
    window: WindowQueries,
    splits: usize,
}

impl Node for WindowAttentionNode {
    fn on_cpu(&self, task: &CustomTask) {
        let (queries, lists) = (self.ring.read(task), self.lists.read(task));
        for at in (task.thread..self.heads.len()).step_by(task.threads) {
            if let Err(error) = self.add_up_head(task, &queries, &lists, at) {
                task.fail(format!("window_attention: {error}"));
            }
        }
    }

    fn on_device(&self, task: &DeviceTask) -> Result<(), i32> {
        let (shape, window, k) = (self.shape, &self.window, self.keys.of(task));
        let heads = ScoredHeads { tensor_heads: &self.heads, kv_heads: &window.kv_heads };
        let call = device::AccumulateCall {
            lists: self.lists.address(task),
            sink_logits: address_or_null(self.sink_logits, task),
            stats: self.stats.of(task).data.cast(),
            out: task.result().data.cast(),
            capacity: k.shape[1] as i32,
            added: self.with_position as i32,
            first: window.first as i32,
            tokens: window.positions.len() as i32,
            window_start: window.positions.start as i32,
            window_log_weight: window.log_weight,
            ..accumulate_call(shape, self.ring.on_device(task), k, window.gain, self.splits, heads)?
        };
        // SAFETY: the addresses are those of the operands and of the result, whose shapes are those of the
        // call.
        unsafe { device::accumulate(task, &call) }
    }
}

impl WindowAttentionNode {
    /// Adds up the weights of head number `at` for all tokens of the window.
    fn add_up_head(
        &self,
        task: &CustomTask,
        queries: &HeadVectors,
        lists: &Lists,
        at: usize,
    ) -> Result<(), ShapeError> {
        let (shape, window, result) = (self.shape, &self.window, task.result());
        let live = window.first + self.with_position;
        // SAFETY: each head's part of the result is written by one thread; [live, group, heads] f32, contiguous.
        let out = unsafe {
            let at = result.data.add(at * result.strides[2]).cast::<f32>();
            from_raw_parts_mut(at, live * shape.group)
        };
        out.fill(0.0);
        let seen = 0..live;
        let keys = Keys {
            rows: self.keys.rows(task),
            head: self.heads[at] as usize,
            seen: from_ref(&seen),
            log_weight: if window.first > 0 { window.log_weight } else { 0.0 },
            head_dim: shape.head_dim,
            softcap: shape.softcap,
        };
        let scoring = self.scoring_queries(task, queries, at);
        let adjust = |query: usize, logits: &mut [f32]| self.adjust(lists, at, query, logits);
        with_scratch(|scratch| add_weights(&keys, &scoring, Combine::Sum, adjust, out, scratch))
    }

    /// The stored queries of head number `at`: token after token, each with all query heads of the group.
    fn scoring_queries<'a>(
        &self,
        task: &CustomTask,
        queries: &HeadVectors,
        at: usize,
    ) -> Vec<ScoringQuery<'a>> {
        let (AttentionShape { head_dim, group, scale, .. }, window) = (self.shape, &self.window);
        let first_query_head = window.kv_heads[at] as usize * group;
        let sink_logits = self.sink_logits.map(|sink_logits| sink_logits.read(task));
        let members = |position: usize| (0..group).map(move |member| (position, member));
        let query = |(position, member): (usize, usize)| {
            let head = first_query_head + member;
            ScoringQuery {
                data: queries.get(head, position % queries.tokens),
                scale,
                gain: window.gain.at(position + 1, head_dim) as f32,
                sink: sink_logits.map_or(f32::NEG_INFINITY, |sink_logits| sink_logits[head]),
                factor: 1.0,
                target: member,
            }
        };
        window.positions.clone().flat_map(members).map(query).collect()
    }

    /// Hides the rows of later tokens from query number `query` of head number `at`, and adds the biases of ALiBi.
    fn adjust(&self, lists: &Lists, at: usize, query: usize, logits: &mut [f32]) {
        let (AttentionShape { head_dim, group, .. }, window) = (self.shape, &self.window);
        let own = window.positions.start + query / group;
        for (logit, position) in logits[window.first..].iter_mut().zip(lists.get(at)) {
            if position as usize > own {
                *logit = f32::NEG_INFINITY;
            }
        }
        if let Some(slopes) = &self.slopes {
            let gain = window.gain.at(own + 1, head_dim) as f32;
            let slope = slopes[window.kv_heads[at] as usize * group + query % group] * gain;
            add_alibi_bias(logits, lists.get(at).map(|position| position as f32), own, slope);
        }
    }
}

//! Attention: in one operation of ggml for each lane, or as products, where biases differ from head to head or heads are large.

use ggml::{Context, Logits, Tensor, Type};

use super::heads::{head_rows, in_order, query_heads, runs, take_heads_of, take_numbers};
use super::seen::{
    Queries, alibi, distances, live_rows, log_weight, of_first_row, of_query_heads, outside_window,
    row_positions,
};
use super::weights::{Beside, logits, softmax};
use super::{MAX_ELEMENTS, in_a_row, parts};
use crate::graph::{Appended, Attend, AttentionShape, GraphLane, QueryHeads};

/// The largest heads for which all of ggml's GPUs have attention in one operation. Of larger ones they have a few sizes, and
/// under conditions.
const MAX_FLASH_HEAD_DIM: usize = 256;

/// The nodes of [`Attend`].
pub(crate) fn attend(ctx: &Context, operands: Attend) -> Tensor {
    let Attend { shape, queries: heads, appended, lanes, inputs, .. } = operands;
    let slopes = shape.alibi_slopes();
    let mut results = Vec::new();
    for (number, lane) in lanes.iter().enumerate() {
        let live = live_rows(ctx, inputs, number);
        let call = LaneCall {
            ctx,
            shape,
            heads,
            appended,
            lane,
            live: &live,
            log_weight: log_weight(ctx, lane, inputs, number),
            slopes: slopes.as_deref(),
        };
        let by_products = lane.positions.is_some() || shape.head_dim > MAX_FLASH_HEAD_DIM;
        results.extend(if by_products { call.by_products() } else { vec![call.at_once()] });
    }
    let attended = in_order(ctx, &results);
    let has_positions = lanes.iter().any(|lane| lane.positions.is_some());
    // An input that has memory, as in the other form, also where no lane is compensated.
    if has_positions { attended } else { ctx.after(&attended, &[&inputs.log_weights]) }
}

/// The attention of a lane.
struct LaneCall<'a> {
    ctx: &'a Context,
    shape: AttentionShape,
    heads: QueryHeads<'a>,
    appended: Appended<'a>,
    lane: &'a GraphLane,
    /// `[1]` i32
    live: &'a Tensor,
    /// `[1]`, in lanes with a compensation entry.
    log_weight: Option<Tensor>,
    /// `[n_heads]`, in layers with ALiBi.
    slopes: Option<&'a [f32]>,
}

/// A result `[head_dim, heads, n_q]` and the numbers of its query heads.
type OfHeads = (Tensor, Vec<u32>);

impl LaneCall<'_> {
    /// The keys or values that are read, after the appended rows: `[head_dim, reach, heads]`.
    fn rows(&self, tensor: &Tensor) -> Tensor {
        self.ctx.rows(&self.ctx.after(tensor, &[self.appended.node]), 0, self.lane.reach)
    }

    /// The queries of these heads and tokens: `[head_dim, n, heads]`.
    fn queries(&self, heads: &[u32], tokens: &Queries) -> Tensor {
        take_heads_of(self.ctx, self.heads.q, heads, &tokens.tokens)
    }

    /// The tokens in parts whose intermediate tensors have `elements` for each token, if the whole lane is read: as many parts
    /// and as much memory as were planned.
    fn token_parts(&self, elements: usize) -> Vec<Queries<'_>> {
        let n_q = self.heads.q.dim(2);
        let part = |tokens| Queries { live: self.live, added: self.appended.rows, n_q, tokens };
        parts(n_q, elements).map(part).collect()
    }

    fn sink_logits(&self, heads: &[u32]) -> Option<Tensor> {
        Some(take_numbers(self.ctx, self.heads.sink_logits?, heads))
    }

    /// Results `[head_dim, heads, n]` of parts of the tokens, as one.
    fn joined(&self, results: &[Tensor]) -> Tensor {
        match results {
            [result] => result.clone(),
            _ => {
                let [d, heads, ..] = results[0].shape().0;
                self.ctx.reshape(&in_a_row(self.ctx, results), [d, heads, self.heads.q.dim(2)])
            }
        }
    }

    /// Attention in one operation, whose mask is the same for all heads.
    fn at_once(&self) -> OfHeads {
        let (ctx, lane) = (self.ctx, self.lane);
        let heads = query_heads(&lane.kv_heads, self.shape.group);
        let rows = [&lane.k, &lane.v].map(|tensor| self.rows(tensor));
        let logits = Logits { scale: self.shape.scale, softcap: self.shape.softcap };
        let shift = self.log_weight.as_ref().map(|weight| Shift::new(ctx, weight));
        let sink_logits = self.sink_logits(&heads).map(|sink_logits| match &shift {
            Some(shift) => ctx.add(&sink_logits, &shift.of_others),
            None => sink_logits,
        });
        let attended: Vec<Tensor> = (self.token_parts(lane.k.dim(1)).iter())
            .map(|tokens| {
                let mask = tokens.hidden(ctx, lane.reach, lane.window);
                let mask = shift.as_ref().map_or(mask.clone(), |shift| shift.add_to(ctx, &mask));
                let q = self.queries(&heads, tokens);
                let mask = ctx.cast(&mask, Type::F16);
                ctx.flash_attention(&q, [&rows[0], &rows[1]], &mask, logits, sink_logits.as_ref())
            })
            .collect();
        (self.joined(&attended), heads)
    }

    /// Attention as products, with the positions of each head's rows. As many heads and tokens at a time as fit.
    fn by_products(&self) -> Vec<OfHeads> {
        let (ctx, lane, [d, capacity, count, _]) = (self.ctx, self.lane, self.lane.k.shape().0);
        let rows = [&lane.k, &lane.v].map(|tensor| self.rows(tensor));
        let numbers: Vec<u32> = (0..count as u32).collect();
        // Blocks are decoded where they lie without gaps, which there may be from head to head.
        let has_gaps = lane.positions.is_none() && lane.v.ty().block_elements() > 1;
        let most = if has_gaps { 1 } else { (MAX_ELEMENTS / (d * capacity)).max(1) };
        let of_run = |run: std::ops::Range<usize>| {
            let heads = query_heads(&lane.kv_heads[run.clone()], self.shape.group);
            let [k, v] = [&rows[0], &rows[1]].map(|rows| head_rows(ctx, rows, run.clone()));
            // f32, because the product would round the weights to the type of the values otherwise.
            let v = if v.ty() == Type::F32 { v } else { ctx.cast(&v, Type::F32) };
            let v = ctx.transposed(&v);
            let sink_logits = self.sink_logits(&heads);
            let attended: Vec<Tensor> = (self.token_parts(capacity * heads.len()).iter())
                .map(|tokens| {
                    let logits = logits(ctx, self.shape, &k, &self.queries(&heads, tokens));
                    let mask = self.mask_of_heads(&heads, run.clone(), tokens);
                    let beside = Beside { mask: &mask, sink_logits: sink_logits.as_ref(), gains: None };
                    let attended = ctx.mul_mat_precise(&v, &softmax(ctx, &logits, beside));
                    ctx.cont(&ctx.permute(&attended, [0, 2, 1, 3]))
                })
                .collect();
            (self.joined(&attended), heads)
        };
        runs(&numbers, most).into_iter().map(of_run).collect()
    }

    /// The mask of query heads `[reach, n, heads]`, those of the lane's KV heads `run`.
    fn mask_of_heads(&self, heads: &[u32], run: std::ops::Range<usize>, tokens: &Queries) -> Tensor {
        let (ctx, lane, reach) = (self.ctx, self.lane, self.lane.reach);
        let Some(positions) = &lane.positions else {
            let hidden = tokens.hidden(ctx, reach, lane.window);
            let log_weight = self.log_weight.as_ref();
            let of_entry = log_weight.map(|weight| of_first_row(ctx, weight, reach));
            return of_entry.map_or(hidden.clone(), |of_entry| ctx.add(&hidden, &of_entry));
        };
        let hidden = tokens.hidden(ctx, reach, None);
        let of_rows = row_positions(ctx, positions, reach, run, self.appended.node);
        // A query is where the last row is that it sees: in every head.
        let of_first = row_positions(ctx, positions, reach, 0..1, self.appended.node);
        let last = ctx.bounded_rows(&tokens.last_rows(ctx), reach);
        let of_queries = ctx.get_rows(&ctx.reshape(&of_first, [1, reach]), &last);
        let distances = distances(ctx, &of_rows, &of_queries);
        let biases = match (self.slopes, lane.window) {
            (Some(slopes), _) => alibi(ctx, &distances, slopes, heads, None),
            (None, Some(tokens)) => {
                of_query_heads(ctx, &outside_window(ctx, &distances, tokens), self.shape.group)
            }
            (None, None) => return hidden,
        };
        ctx.add(&biases, &hidden)
    }
}

/// A log-weight for masks of f16, which have 11 bits: the entry gets the nearest f16, and all other rows, and sink logits,
/// get by how much that is too large. The softmax only knows differences, and a small number has small errors: below
/// 2e-6, where the nearest f16 alone would be wrong by up to 4e-3.
struct Shift {
    /// `[1]`: what is added to the logits of other rows.
    of_others: Tensor,
    /// `[1]`: what is added to that of the entry. `-inf` where it is not used.
    of_entry: Tensor,
}

impl Shift {
    /// An f16 that is as good as `-inf`.
    const LOWEST: f32 = -49_152.0;

    fn new(ctx: &Context, log_weight: &Tensor) -> Shift {
        let weight = ctx.at_least(log_weight, Shift::LOWEST);
        let nearest = ctx.cast(&ctx.cast(&weight, Type::F16), Type::F32);
        let of_others = ctx.sub(&nearest, &weight);
        let unused = ctx.log(&ctx.step(&ctx.scale_add(&weight, 1.0, -Shift::LOWEST)));
        Shift { of_entry: ctx.add(&nearest, &unused), of_others }
    }

    /// Adds it to a mask `[capacity, n]`.
    fn add_to(&self, ctx: &Context, mask: &Tensor) -> Tensor {
        let of_entry = ctx.sub(&self.of_entry, &self.of_others);
        ctx.add(&ctx.add(mask, &self.of_others), &of_first_row(ctx, &of_entry, mask.dim(0)))
    }
}

//! Rows that are taken out of a lane, and lanes that are filled from complete rows. Rows are moved as words, so that they
//! stay what they are; where they are added up, they are decoded.

use std::collections::HashMap;

use ggml::{Context, Tensor, Type};

use super::{after_all, constant, in_a_row, parts};
use crate::graph::{EvictRows, Eviction, RowSelection, SelectRows};

/// Whether rows of `elements` elements are whole numbers of words of 4 bytes, without which they cannot be moved.
pub fn moves_rows(ty: Type, elements: usize) -> bool {
    elements.is_multiple_of(ty.block_elements()) && ty.row_bytes(elements).is_multiple_of(4)
}

/// An error where rows of a tensor cannot be moved.
fn check_words(tensor: &Tensor) -> Result<(), String> {
    let (ty, elements) = (tensor.ty(), tensor.dim(0));
    if moves_rows(ty, elements) {
        return Ok(());
    }
    Err(format!(
        "rows of {elements} elements in {ty} have {} bytes, which are no whole words of 4; f16 rows have",
        ty.row_bytes(elements)
    ))
}

/// The rows of all heads of a tensor `[d, rows, heads]`.
struct FlatRows<'a> {
    ctx: &'a Context,
    /// `[d, rows * heads]`
    values: Tensor,
    /// The same in words: `[words of a row, rows * heads]`.
    words: Tensor,
}

impl<'a> FlatRows<'a> {
    fn of(ctx: &'a Context, tensor: &Tensor) -> FlatRows<'a> {
        let ([d, rows, heads, _], bytes) = (tensor.shape().0, tensor.strides()[1]);
        let values = ctx.reshape(tensor, [d, rows * heads]);
        FlatRows { ctx, values, words: ctx.words(tensor, [bytes / 4, rows * heads]) }
    }

    /// The same rows, for what must come after `nodes`.
    fn after(self, nodes: &[Tensor]) -> FlatRows<'a> {
        let FlatRows { ctx, values, words } = self;
        let Some(last) = (!nodes.is_empty()).then(|| after_all(ctx, nodes)) else {
            return FlatRows { ctx, values, words };
        };
        FlatRows { ctx, values: ctx.after(&values, &[&last]), words: ctx.after(&words, &[&last]) }
    }

    /// The sums of some rows of each head, of all as many: `[d, heads]`. `None` where there are none.
    fn sums(&self, lists: &[Vec<usize>]) -> Option<Tensor> {
        let (ctx, d, heads) = (self.ctx, self.values.dim(0), lists.len());
        let of_part = |part: std::ops::Range<usize>| {
            let numbers = constant(ctx, lists.iter().flat_map(|list| list[part.clone()].iter().copied()));
            let rows = ctx.reshape(&ctx.get_rows(&self.values, &numbers), [d, part.len(), heads]);
            ctx.reshape(&ctx.sum_rows(&ctx.transposed(&rows)), [d, heads])
        };
        parts(lists[0].len(), d * heads).map(of_part).reduce(|sum, part| ctx.add(&sum, &part))
    }

    /// Writes `sums` `[d, heads]` divided by `count` to the first row of each of the heads, which have `rows` rows.
    fn write_means(&self, sums: &Tensor, count: usize, rows: usize) -> Tensor {
        let (ctx, [d, heads, ..]) = (self.ctx, sums.shape().0);
        let means = ctx.div(&ctx.reshape(sums, [d, heads]), &ctx.constant_f32(&[count.max(1) as f32]));
        ctx.set_rows(&self.values, &means, &constant(ctx, (0..heads).map(|head| head * rows)))
    }
}

/// The sums of the evicted keys, or values, of all heads, `[d, heads]`: a part of sums `[d, heads, 2]`.
fn part_of_sums(ctx: &Context, sums: &Tensor, part: usize) -> Tensor {
    let ([d, heads, ..], [_, of_head, of_part, _]) = (sums.shape().0, sums.strides());
    ctx.view(sums, [d, heads], [of_head, of_part, of_part], part * of_part)
}

/// The nodes of [`EvictRows`]. The bytes of evicted rows are the bytes of f32 words.
pub(crate) fn evict_rows(ctx: &Context, EvictRows { lane, sums, eviction }: EvictRows) -> Tensor {
    if let Err(problem) = lane.tensors().try_for_each(check_words) {
        return ctx.refuse("evict_rows", problem);
    }
    let capacity = lane.k.dim(1);
    let Eviction { evicted, moves, total_evicted, return_rows } = eviction;
    let in_tensor = |(head, rows): (usize, &Vec<u32>)| -> Vec<usize> {
        rows.iter().map(|row| head * capacity + *row as usize).collect()
    };
    let evicted: Vec<Vec<usize>> = evicted.iter().enumerate().map(in_tensor).collect();
    let moves: Vec<(usize, usize)> = (moves.iter().enumerate())
        .flat_map(|(head, moves)| {
            at_once(moves).into_iter().map(move |(to, from)| {
                let first = head * capacity;
                (first + to as usize, first + from as usize)
            })
        })
        .collect();
    let sums = sums.filter(|_| lane.compensated);
    let (mut returned, mut written) = (Vec::new(), Vec::new());
    let has_evicted = !evicted[0].is_empty();
    for (part, tensor) in lane.tensors().enumerate() {
        // All that is read, before anything is written.
        let rows = FlatRows::of(ctx, tensor);
        let mut read = Vec::new();
        if return_rows && has_evicted {
            returned.push(ctx.get_rows(&rows.words, &constant(ctx, evicted.iter().flatten().copied())));
            read.extend(returned.last().cloned());
        }
        let total = sums.map(|sums| {
            let before = part_of_sums(ctx, sums, part);
            rows.sums(&evicted).map_or(before.clone(), |added| ctx.copy(&ctx.add(&before, &added), &before))
        });
        read.extend(total.clone());
        let moved = (!moves.is_empty())
            .then(|| ctx.get_rows(&rows.words, &constant(ctx, moves.iter().map(|(_, from)| *from))));
        read.extend(moved.clone());
        let rows = rows.after(&read);
        if let Some(total) = total {
            written.push(rows.write_means(&total, total_evicted, capacity));
        }
        if let Some(moved) = moved {
            written.push(ctx.set_rows(&rows.words, &moved, &constant(ctx, moves.iter().map(|(to, _)| *to))));
        }
    }
    if let (Some(accumulated), false) = (&lane.accumulated, moves.is_empty()) {
        let numbers = ctx.reshape(accumulated, [1, accumulated.shape().elements()]);
        let moved = ctx.get_rows(&numbers, &constant(ctx, moves.iter().map(|(_, from)| *from)));
        written.push(ctx.set_rows(&numbers, &moved, &constant(ctx, moves.iter().map(|(to, _)| *to))));
    }
    if returned.is_empty() {
        // A node without data, also where nothing is evicted.
        written.push(ctx.arange(0, 1));
        return after_all(ctx, &written);
    }
    // A node of its own, whose memory is kept.
    let result = ctx.cont(&in_a_row(ctx, &returned)).output();
    written.insert(0, result);
    after_all(ctx, &written)
}

/// Moves `(to, from)` that come one after the other as moves that all read before one writes: each row is written once, by
/// what was in its last source before the first move.
fn at_once(moves: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let mut sources: HashMap<u32, u32> = HashMap::new();
    for (to, from) in moves {
        let source = sources.get(from).copied().unwrap_or(*from);
        sources.insert(*to, source);
    }
    let mut moves: Vec<(u32, u32)> = sources.into_iter().filter(|(to, from)| to != from).collect();
    moves.sort_unstable();
    moves
}

/// The nodes of [`SelectRows`].
pub(crate) fn select_rows(ctx: &Context, operands: SelectRows) -> Tensor {
    let SelectRows { k, v, lane, sums, selection } = operands;
    if let Err(problem) = lane.tensors().try_for_each(check_words) {
        return ctx.refuse("select_rows", problem);
    }
    let (complete, capacity) = (k.dim(1), lane.k.dim(1));
    let RowSelection { kept, evicted } = selection;
    let in_complete = |(head, rows): (&u32, &Vec<u32>)| -> Vec<usize> {
        rows.iter().map(|row| *head as usize * complete + *row as usize).collect()
    };
    let lists =
        |rows: &[Vec<u32>]| -> Vec<Vec<usize>> { lane.kv_heads.iter().zip(rows).map(in_complete).collect() };
    let (from, evicted) = (lists(&kept), lists(&evicted));
    let first = usize::from(lane.compensated);
    let to: Vec<usize> = (kept.iter().enumerate())
        .flat_map(|(head, rows)| (0..rows.len()).map(move |at| head * capacity + first + at))
        .collect();
    let sums = sums.filter(|_| lane.compensated);
    let mut written = vec![ctx.arange(0, 1)];
    for ((part, tensor), source) in lane.tensors().enumerate().zip([k, v]) {
        let (rows, source) = (FlatRows::of(ctx, tensor), FlatRows::of(ctx, source));
        if !to.is_empty() {
            let taken = ctx.get_rows(&source.words, &constant(ctx, from.iter().flatten().copied()));
            written.push(ctx.set_rows(&rows.words, &taken, &constant(ctx, to.iter().copied())));
        }
        let Some(sums) = sums else { continue };
        let of_lane = part_of_sums(ctx, sums, part);
        // Heads may keep unequally many rows.
        for (head, list) in evicted.iter().enumerate() {
            let [d, _, ..] = of_lane.shape().0;
            let of_head = ctx.rows(&of_lane, head, 1);
            let sum = source.sums(std::slice::from_ref(list));
            let sum = sum.unwrap_or_else(|| ctx.constant_f32(&vec![0.0; d]));
            let total = ctx.copy(&ctx.reshape(&sum, [d, 1]), &of_head);
            let means = ctx.div(&ctx.reshape(&total, [d, 1]), &ctx.constant_f32(&[list.len().max(1) as f32]));
            written.push(ctx.set_rows(&rows.values, &means, &constant(ctx, [head * capacity])));
        }
    }
    after_all(ctx, &written)
}

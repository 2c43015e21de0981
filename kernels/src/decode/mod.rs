//! Decode attention: a few query tokens against long caches. It has two phases with a barrier between them,
//! which the caller provides (in a graph: two nodes).
//!
//! 1. [`partial`]: the rows of all KV heads are laid end to end and cut into equal splits, one per thread.
//!    Each thread runs an online softmax over its rows. For each query it writes a *partial*: the largest
//!    logit m, the denominator l relative to m, and the weighted sum of values. Equal numbers of rows give
//!    all threads equal work whatever the lengths of the heads (one retrieval head of 100,000 rows beside
//!    seven of 4,000), also where there are fewer heads than threads.
//! 2. [`combine`]: merges the partials, query by query.
//!
//! Each K and V row is read from memory once, for all query heads of its group and all query tokens. Rows are
//! processed in blocks: the logits of the block for all queries, then one maximum, one rescaling and the
//! exponentials, then the values. Everything is f32, except products with quantised rows on x86-64 (see `integer.rs`).
//! Logits are in units of log 2 (see `exp.rs`).
//!
//! # History
//! On Zen 4 (AVX-512, 3.7 GHz, multiply-add peak 118 GFLOP/s per core) with f16. The first number is cycles per
//! row of K and V, with the rows in the second-level cache. The second is GB/s of one core from memory. In
//! brackets are the GB/s of a plain sum over the same memory.
//!
//! - First version: four rows at a time, blocks of 64 rows. MHA d64: 22, 29 (30). GQA x4 d64: 50, 16 (30).
//!   GQA x4 d128: 84, **9** (30). The times of memory and arithmetic added up instead of overlapping.
//! - Software prefetch 1 to 16 KB ahead, into either cache level: GQA x4 d128 at best 13 GB/s, MHA slower by
//!   a tenth. Each prefetch holds a miss buffer until the memory answers (about 24 buffers: 15 GB/s).
//!   Dropped.
//! - The cause was the *order* of first touches. Four rows of 256 bytes side by side, or half of each value
//!   row now and half later, defeat the processor's own prefetchers. Ascending reads overlap fully, and two
//!   ascending streams that alternate every 4 KB are even faster than one. So rows are processed in pairs and
//!   chunks of 4 KB, and where a tile uses only part of a value row it prefetches the rest at once. GQA x4
//!   d128: 17 to 18 GB/s (25), GQA x4 d64: 18 (25), MHA d64: 32 (26), faster than the sum.
//! - Tiles of up to 8 queries instead of 4: groups of 5 to 8 read K and V once. A running sum kept in vector
//!   lanes and a base that moves only when it must (SLACK): softmax from 5.4 to 3.8 cycles. The scalar
//!   kernels had been inlined into the driver, which grew to 360 KB; one `inline(never)` took GQA x4 d64 from
//!   54 to 47 cycles.
//! - One load of the scale for two vectors of a quantised block: q8_0 MHA d64 from 37 to 31 cycles.
//! - Without gain: other shuffles in the sums across lanes (the compiler rewrites blends into shuffles), row
//!   addresses without multiplications, aligned queries, blocks of 64 and 128 rows. Without its shuffles and
//!   conversions the logits kernel would still take 19.4 of 23 cycles (GQA x4 d64; multiply-adds alone: 16).
//!
//! Quantised rows on Zen 3 (AVX2), nanoseconds of one core per row of K and V, 16,384 rows from memory, on a shared
//! machine (f16: MHA d64 18, GQA x4 d64 24, GQA x4 d128 51, GQA x7 d128 84):
//!
//! - Unpacked to f32 in registers, once per tile of queries. GQA x4 d128: q8_0 47 to 55, four bits 58 to 63. GQA x7
//!   d128: 85 to 97 and 111 to 120. Unpacking costs more than the smaller reads save.
//! - A block unpacked to f32 in memory, once for all queries: q8_0 slower with two tiles of queries, and 1.4 times as
//!   fast with seven; four bits 1.2 to 1.35 and 1.8 times; f16 at 0.75 times. Replaced by integers.
//! - Integers (`integer.rs`), unpacked once for all queries. GQA x4 d128: q8_0 46 to 48, four bits 38. GQA x7 d128: 65
//!   and 55 to 62.
//! - Prefetch of the rows of the next block while a block is unpacked: GQA x4 d128: 40 and 36, GQA x7 d128: 58 and 52,
//!   GQA x4 d64: 20 and 19, MHA d64: 11. Here the multiplications that follow leave the memory idle.
//! - With the rows in the cache, GQA x4 d128 q8_0 has 32 % of its time in the sums of values, of which rounding the
//!   weights is a quarter. The logits have 22 %, unpacking has 26 %.

mod integer;

use std::f32::consts::{LN_2, LOG2_E};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

use crate::attention::{Attention, LaneView, RowTensor, ShapeError, Window};
use crate::exp::{SoftCap, exp2};
use crate::quant::RowType;
use crate::quant::load::{Load, with_loader};
use crate::simd::{Isa, Kernel, Loop, Simd};

/// Rows of a unit. Splits begin and end at units; the last unit of a head may have fewer rows.
const UNIT: usize = 32;
/// Rows of a block: their logits are computed before their values are read. A multiple of [`ROW_GROUP`].
const BLOCK: usize = 32;
/// Bytes of keys, then of values, that are processed for all queries before the next. They stay in the
/// first-level cache, and the length suits the processor's prefetchers (see the history).
const CHUNK_BYTES: usize = 4096;
/// Rows whose logits are stored together.
pub(crate) const ROW_GROUP: usize = 16;
/// Maximum number of queries of a tile: one pass over a block.
pub(crate) const MAX_TILE: usize = 8;
/// How far (in powers of two) a weight may exceed 1 before the base moves.
const SLACK: f32 = 8.0;

/// Floats of a slot, which has one partial: the weighted sum of the values, padded to whole vectors, then the
/// tail. The tail is the denominator, spread over 16 lanes, the base, the last rescaling factor, and padding.
fn slot_len(head_dim: usize) -> usize {
    padded(head_dim) + 32
}

/// Index of the base in the tail of a slot; a base of `-inf` marks an empty partial.
const BASE: usize = 16;
/// Index in the tail of the factor by which the weighted sum must still be multiplied.
const FACTOR: usize = 17;

/// Elements of a head, rounded up to whole vectors of any instruction set.
pub(crate) fn padded(head_dim: usize) -> usize {
    head_dim.next_multiple_of(16)
}

/// Floats of one thread's part of the partials buffer, for `n_q` query tokens and `n_kv_heads * group` query
/// heads. [`partial`] writes a buffer of this length, [`combine`] reads `nth` consecutive ones.
pub fn partials_len(head_dim: usize, n_kv_heads: usize, group: usize, n_q: usize) -> usize {
    let queries = group * n_q; // of one KV head
    let scratch = queries * (padded(head_dim) + BLOCK) + integer::scratch_len(head_dim, queries);
    n_kv_heads * queries * slot_len(head_dim) + scratch
}

fn call_partials_len(call: &Attention) -> usize {
    partials_len(call.head_dim, call.n_kv_heads, call.group, call.n_q)
}

/// Phase 1: thread `ith` of `nth` processes its split of the rows and writes its partials to `own`, a buffer
/// of at least [`partials_len`] floats of its own. The earlier content does not matter.
pub fn partial(call: &Attention, ith: usize, nth: usize, own: &mut [f32]) -> Result<(), ShapeError> {
    partial_on(Isa::best(), call, ith, nth, own)
}

/// [`partial`] on the given instruction set, or on the best one where the processor does not have it.
pub fn partial_on(
    isa: Isa,
    call: &Attention,
    ith: usize,
    nth: usize,
    own: &mut [f32],
) -> Result<(), ShapeError> {
    call.check()?;
    if ith >= nth {
        return Err(ShapeError::Thread { ith, nth });
    }
    let need = call_partials_len(call);
    if own.len() < need {
        return Err(ShapeError::Buffer { what: "partials", have: own.len(), need });
    }
    let isa = if isa.present() { isa } else { Isa::best() };
    let queries = call.group * call.n_q;
    let slot_len = slot_len(call.head_dim);
    let (slots, scratch) = own.split_at_mut(call.n_heads() * call.n_q * slot_len);
    for slot in slots.chunks_exact_mut(slot_len) {
        slot[padded(call.head_dim) + BASE] = f32::NEG_INFINITY;
    }

    let units = |lane: &LaneView| lane.rows.div_ceil(UNIT);
    let total: usize = call.lanes.iter().map(|lane| units(lane) * lane.kv_heads.len()).sum();
    let split = total * ith / nth..total * (ith + 1) / nth;
    let mut start = 0; // of this head, in units from the first row of the first head
    for lane in call.lanes {
        for (at, &kv_head) in lane.kv_heads.iter().enumerate() {
            let (from, to) = (split.start.max(start), split.end.min(start + units(lane)));
            if from < to {
                let rows = (from - start) * UNIT..((to - start) * UNIT).min(lane.rows);
                let slots = &mut slots[kv_head as usize * queries * slot_len..][..queries * slot_len];
                head_rows(isa, call, lane, at, rows, slots, scratch);
            }
            start += units(lane);
        }
    }
    Ok(())
}

/// Some rows of one KV head against all its queries. `slots` is `[slot_len, n_q, group]`. `scratch` has the
/// scaled queries `[padded, n_q, group]`, a block's logits and what integers need.
fn head_rows<'a>(
    isa: Isa,
    call: &Attention,
    lane: &LaneView<'a>,
    at: usize,
    rows: Range<usize>,
    slots: &mut [f32],
    scratch: &mut [f32],
) {
    let d = call.head_dim;
    let (d_padded, slot_len) = (padded(d), slot_len(d));
    let queries = call.group * call.n_q;
    let (q, scratch) = scratch.split_at_mut(queries * d_padded);
    let (logits, scratch) = scratch.split_at_mut(queries * BLOCK);
    for (i, (q, slot)) in q.chunks_exact_mut(d_padded).zip(slots.chunks_exact_mut(slot_len)).enumerate() {
        let head = lane.kv_heads[at] as usize * call.group + i / call.n_q;
        q.fill(0.0);
        for (q, x) in q.iter_mut().zip(call.query(head, i % call.n_q)) {
            *q = x * (call.scale * LOG2_E);
        }
        slot.fill(0.0);
        slot[d_padded + BASE] = f32::NEG_INFINITY;
    }
    // A row 0 that is not used may hold any bytes: it is not read.
    let unused = rows.start == 0 && lane.log_weight(at) == f32::NEG_INFINITY;
    let rows = rows.start + usize::from(unused)..rows.end;
    let rows = rows.start.max(call.first_seen(lane.rows, 0))..rows.end;
    let first_hidden = call.visible(lane.rows, 0); // some query token does not see the rows from here on

    let in_integers = |ty: RowType| isa.has_integers() && ty.is_quantised();
    // SAFETY: isa is present. It has integers where the scratch is used.
    let integers = unsafe { integer::Scratch::new(isa, scratch, d, queries) };
    if in_integers(lane.k.ty) {
        integers.round_queries(q, d_padded);
    }
    let rows_from = |rows: &RowTensor<'a>, block: usize, n: usize| integer::TileRows {
        ty: rows.ty,
        data: &rows.data[at * rows.head_stride + block * rows.row_stride..],
        row_stride: rows.row_stride,
        n,
    };
    let width = tile_width(isa, queries);
    let (k_chunk, v_chunk) = (chunk_rows(lane.k.row_stride), chunk_rows(lane.v.row_stride));
    for block in (rows.start..rows.end).step_by(BLOCK) {
        let n = BLOCK.min(rows.end - block);
        let rows_in_f32 = if in_integers(lane.k.ty) {
            integers.logits(rows_from(&lane.k, block, n), logits);
            0
        } else {
            n
        };
        for chunk in ranges(rows_in_f32, k_chunk) {
            let start = at * lane.k.head_stride + (block + chunk.start) * lane.k.row_stride;
            for tile in ranges(queries, width) {
                let args = DotArgs {
                    q: q[tile.start * d_padded..].as_ptr(),
                    d_padded,
                    head_dim: d,
                    k: lane.k.data[start..].as_ptr(),
                    row_stride: lane.k.row_stride,
                    n: chunk.len(),
                    logits: logits[tile.start * BLOCK + chunk.start..].as_mut_ptr(),
                    stride: BLOCK,
                };
                with_loader!(lane.k.ty, L => with_width!(tile.len(), QT => {
                    // SAFETY: isa is present; check() has proved that the lane's rows are inside its tensors;
                    // the tile's queries and logits are inside the scratch (chunks start at multiples of
                    // ROW_GROUP).
                    unsafe { isa.enter(Dot::<L, QT>(args, PhantomData)) }
                }));
            }
        }
        if let Some(cap) = call.softcap {
            // SAFETY: isa is present; the logits are whole vectors.
            unsafe { isa.enter(SoftCap { logits: &mut logits[..queries * BLOCK], cap: cap * LOG2_E }) };
        }
        for (i, logits) in logits.chunks_exact_mut(BLOCK).take(queries).enumerate() {
            if let Some(alibi) = &call.alibi {
                let kv_head = lane.kv_heads[at] as usize;
                let slope = alibi.slopes[kv_head * call.group + i / call.n_q] * LOG2_E;
                let own = call.position(alibi, lane.rows, kv_head, i % call.n_q);
                for (logit, position) in logits.iter_mut().zip(&alibi.positions[kv_head][block..block + n]) {
                    *logit += slope * position.wrapping_sub(own) as f32;
                }
            }
            if let Some(window) = &call.window {
                hide_before(
                    window,
                    call,
                    lane,
                    lane.kv_heads[at] as usize,
                    i % call.n_q,
                    block,
                    &mut logits[..n],
                );
            }
            logits[n..].fill(f32::NEG_INFINITY);
            if block == 0 {
                logits[0] += lane.log_weight(at) * LOG2_E;
            }
            if block + n > first_hidden {
                let visible = call.visible(lane.rows, i % call.n_q);
                logits[visible.saturating_sub(block).min(n)..n].fill(f32::NEG_INFINITY);
            }
        }
        // SAFETY: isa is present; the slices have `queries` queries with these strides.
        unsafe {
            isa.enter(Softmax {
                logits: logits.as_mut_ptr(),
                state: slots[d_padded..].as_mut_ptr(),
                slot_len,
                queries,
            });
        }
        let rows_in_f32 = if in_integers(lane.v.ty) {
            integers.accumulate(rows_from(&lane.v, block, n), logits, slots, slot_len);
            0
        } else {
            n
        };
        for chunk in ranges(rows_in_f32, v_chunk) {
            let start = at * lane.v.head_stride + (block + chunk.start) * lane.v.row_stride;
            for tile in ranges(queries, width) {
                let args = AccumulateArgs {
                    p: logits[tile.start * BLOCK + chunk.start..].as_ptr(),
                    v: lane.v.data[start..].as_ptr(),
                    row_stride: lane.v.row_stride,
                    n: chunk.len(),
                    rescale: chunk.start == 0,
                    head_dim: d,
                    slots: slots[tile.start * slot_len..].as_mut_ptr(),
                    slot_len,
                };
                with_loader!(lane.v.ty, L => with_width!(tile.len(), QT => {
                    // SAFETY: as above, with the tile's slots and weights.
                    unsafe { isa.enter(Accumulate::<L, QT>(args, PhantomData)) }
                }));
            }
        }
    }
}

/// Sets the logits of the rows from `block` on to `-inf` that are before the window of query token `t`.
fn hide_before(
    window: &Window,
    call: &Attention,
    lane: &LaneView,
    kv_head: usize,
    t: usize,
    block: usize,
    logits: &mut [f32],
) {
    let Some(positions) = window.positions else {
        let hidden = call.first_seen(lane.rows, t).saturating_sub(block).min(logits.len());
        return logits[..hidden].fill(f32::NEG_INFINITY);
    };
    let first = call.first_position(positions[kv_head], lane.rows, t);
    for (logit, position) in logits.iter_mut().zip(&positions[kv_head][block..]) {
        if *position < first {
            *logit = f32::NEG_INFINITY;
        }
    }
}

/// Queries of a tile. The tiles of a KV head are as few as the registers allow and about equal.
pub(crate) fn tile_width(isa: Isa, queries: usize) -> usize {
    let tiles = queries.div_ceil((isa.accumulators() / 2).min(MAX_TILE));
    queries.div_ceil(tiles)
}

/// Whether [`tile_width`] never gives this. What depends on it in a `const` block is compiled only where it is false: a
/// quarter of the time that this crate takes.
const fn is_too_wide<S: Simd>(queries: usize) -> bool {
    queries > S::ACCUMULATORS / 2
}

const TOO_WIDE: &str = "tiles are as wide as tile_width says";

/// Rows of a chunk: about [`CHUNK_BYTES`], a multiple of [`ROW_GROUP`].
fn chunk_rows(row_stride: usize) -> usize {
    (CHUNK_BYTES / row_stride.max(1)).clamp(ROW_GROUP, BLOCK) / ROW_GROUP * ROW_GROUP
}

/// `0 .. n` in ranges of `size`.
fn ranges(n: usize, size: usize) -> impl Iterator<Item = Range<usize>> {
    (0..n).step_by(size).map(move |start| start..n.min(start + size))
}

/// Evaluates an expression with the constant `$qt` set to the value of `$width`, 1 to [`MAX_TILE`].
macro_rules! with_width {
    ($width:expr, $qt:ident => $body:expr) => {
        $crate::decode::with_width!($width, $qt => $body; 1 2 3 4 5 6 7)
    };
    ($width:expr, $qt:ident => $body:expr; $($smaller:literal)*) => {
        match $width {
            $($smaller => {
                const $qt: usize = $smaller;
                $body
            })*
            _ => {
                const $qt: usize = $crate::decode::MAX_TILE;
                $body
            }
        }
    };
}
pub(crate) use with_width;

/// Logits of `n` rows for QT queries. Safety: `n` rows of `head_dim` elements at `k`; queries
/// `[d_padded, QT]`; logits `[stride, QT]` may be written, where `stride` is at least `n` rounded up to a
/// multiple of [`ROW_GROUP`].
pub(crate) struct Dot<L, const QT: usize>(pub DotArgs, pub PhantomData<L>);

pub(crate) struct DotArgs {
    pub q: *const f32,
    pub d_padded: usize,
    pub head_dim: usize,
    pub k: *const u8,
    pub row_stride: usize,
    pub n: usize,
    pub logits: *mut f32,
    pub stride: usize,
}

impl<L: Load, const QT: usize> Kernel for Dot<L, QT> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        if const { is_too_wide::<S>(QT) } {
            unreachable!("{TOO_WIDE}");
        }
        let a = self.0;
        // Offsets of the rows of a group. In the last, incomplete group the last row takes the place of the
        // missing ones (the caller overwrites their logits).
        let mut offsets = [0; ROW_GROUP];
        for j in Loop(0, ROW_GROUP) {
            offsets[j] = j * a.row_stride;
        }
        let mut group = 0;
        while group < a.n {
            if group + ROW_GROUP > a.n {
                for j in Loop(a.n - group, ROW_GROUP) {
                    offsets[j] = (a.n - 1 - group) * a.row_stride;
                }
            }
            // SAFETY: the offsets are of rows below n; the rest is the struct's contract.
            unsafe {
                let first = a.k.add(group * a.row_stride);
                // Not initialised: initialising costs one store per row.
                let mut quads = MaybeUninit::<[[S::V; 4]; QT]>::uninit();
                let quads = quads.as_mut_ptr();
                for quad in Loop(0, 4) {
                    let rows = |pair: usize| {
                        (first.add(offsets[quad * 4 + pair * 2]), first.add(offsets[quad * 4 + pair * 2 + 1]))
                    };
                    let low = Self::pair::<S>(&a, rows(0));
                    let high = Self::pair::<S>(&a, rows(1));
                    for i in Loop(0, QT) {
                        (*quads)[i][quad] = S::halve_again(low[i], high[i]);
                    }
                }
                for i in Loop(0, QT) {
                    S::store_sums(a.logits.add(i * a.stride + group), (*quads)[i]);
                }
            }
            group += ROW_GROUP;
        }
    }
}

impl<L: Load, const QT: usize> Dot<L, QT> {
    /// Two rows times all queries, as partial sums in vector lanes.
    #[inline(always)]
    unsafe fn pair<S: Simd>(a: &DotArgs, rows: (*const u8, *const u8)) -> [S::V; QT] {
        let whole = a.head_dim / S::LANES;
        // SAFETY: the struct's contract; the rows are two of its rows.
        unsafe {
            let mut sums = [[S::splat(0.0); 2]; QT];
            let mut q = a.q;
            for c in Loop(0, whole / 2) {
                let k0 = L::load2::<S>(rows.0, 2 * c);
                let k1 = L::load2::<S>(rows.1, 2 * c);
                for half in Loop(0, 2) {
                    for i in Loop(0, QT) {
                        let q = S::load(q.add(i * a.d_padded + half * S::LANES));
                        sums[i][0] = S::fma(q, k0[half], sums[i][0]);
                        sums[i][1] = S::fma(q, k1[half], sums[i][1]);
                    }
                }
                q = q.add(2 * S::LANES);
            }
            if whole % 2 == 1 {
                let k = [L::load::<S>(rows.0, whole - 1), L::load::<S>(rows.1, whole - 1)];
                for i in Loop(0, QT) {
                    let q = S::load(q.add(i * a.d_padded));
                    sums[i][0] = S::fma(q, k[0], sums[i][0]);
                    sums[i][1] = S::fma(q, k[1], sums[i][1]);
                }
                q = q.add(S::LANES);
            }
            if !a.head_dim.is_multiple_of(S::LANES) {
                let k = [L::load_half::<S>(rows.0, whole), L::load_half::<S>(rows.1, whole)];
                for i in Loop(0, QT) {
                    let q = S::load(q.add(i * a.d_padded));
                    sums[i][0] = S::fma(q, k[0], sums[i][0]);
                    sums[i][1] = S::fma(q, k[1], sums[i][1]);
                }
            }
            let mut halves = [S::splat(0.0); QT];
            for i in Loop(0, QT) {
                halves[i] = S::halve(sums[i][0], sums[i][1]);
            }
            halves
        }
    }
}

/// Turns a block's logits into weights relative to each query's base and adds them to its denominator.
///
/// The base is a logit near the largest so far, and moves only when a logit exceeds it by more than
/// [`SLACK`]: weights stay below 2^SLACK, and most blocks need neither a horizontal maximum nor a rescaling.
/// Safety: logits `[BLOCK, queries]`; `state` points at the tail of the first slot; the slots of the queries are `slot_len` floats apart.
struct Softmax {
    logits: *mut f32,
    state: *mut f32,
    slot_len: usize,
    queries: usize,
}

impl Kernel for Softmax {
    type Out = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let vectors = BLOCK / S::LANES;
        for i in Loop(0, self.queries) {
            // SAFETY: the struct's contract.
            unsafe {
                let logits = self.logits.add(i * BLOCK);
                let state = self.state.add(i * self.slot_len);
                let mut largest = S::load(logits);
                for c in Loop(1, vectors) {
                    largest = S::max(largest, S::load(logits.add(c * S::LANES)));
                }
                let mut sum = S::load(state);
                let mut base = *state.add(BASE);
                *state.add(FACTOR) = 1.0;
                if S::any_greater(largest, S::splat(base + SLACK)) {
                    let old = S::splat(base);
                    base = S::largest(largest).max(base);
                    let factor = exp2::<S>(S::sub(old, S::splat(base)));
                    sum = S::mul(sum, factor);
                    *state.add(FACTOR) = S::first(factor);
                    *state.add(BASE) = base;
                }
                // While every logit so far is -inf, a finite base keeps -inf - base from being NaN.
                let base = S::splat(base.max(f32::MIN));
                for c in Loop(0, vectors) {
                    let p = exp2::<S>(S::sub(S::load(logits.add(c * S::LANES)), base));
                    S::store(logits.add(c * S::LANES), p);
                    sum = S::add(sum, p);
                }
                S::store(state, sum);
                // A query with NaN only must differ from a query that sees no row.
                if *state.add(BASE) == f32::NEG_INFINITY && S::sum(sum).is_nan() {
                    *state.add(BASE) = 0.0;
                }
            }
        }
    }
}

/// Rescales QT weighted sums and adds `n` rows of values to them.
/// Safety: weights `[BLOCK, QT]`; `n` rows of `head_dim`
/// elements at `v`; slots `[slot_len, QT]` with their factors set.
struct Accumulate<L, const QT: usize>(AccumulateArgs, PhantomData<L>);

struct AccumulateArgs {
    p: *const f32,
    v: *const u8,
    row_stride: usize,
    n: usize,
    /// Whether these are the block's first rows: the sums are then rescaled to the block's base.
    rescale: bool,
    head_dim: usize,
    slots: *mut f32,
    slot_len: usize,
}

impl<L: Load, const QT: usize> Kernel for Accumulate<L, QT> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        if const { is_too_wide::<S>(QT) } {
            unreachable!("{TOO_WIDE}");
        }
        let whole = self.0.head_dim / S::LANES;
        let mut c = 0;
        // SAFETY: the struct's contract; c counts whole vectors.
        unsafe {
            if const { QT * 8 <= S::ACCUMULATORS } {
                while c + 8 <= whole {
                    self.tile::<S, 8, false>(c);
                    c += 8;
                }
            }
            if const { QT * 4 <= S::ACCUMULATORS } {
                while c + 4 <= whole {
                    self.tile::<S, 4, false>(c);
                    c += 4;
                }
            }
            while c + 2 <= whole {
                self.tile::<S, 2, false>(c);
                c += 2;
            }
            if c < whole {
                self.tile::<S, 1, false>(c);
            }
            if !self.0.head_dim.is_multiple_of(S::LANES) {
                self.tile::<S, 1, true>(whole);
            }
        }
    }
}

impl<L: Load, const QT: usize> Accumulate<L, QT> {
    /// Vectors `c .. c + DT` of the head, in registers for all rows of the block.
    #[inline(always)]
    unsafe fn tile<S: Simd, const DT: usize, const HALF: bool>(&self, c: usize) {
        let a = &self.0;
        // SAFETY: the struct's contract.
        unsafe {
            let mut sums = [[S::splat(0.0); DT]; QT];
            for i in Loop(0, QT) {
                let slot = a.slots.add(i * a.slot_len);
                let factor = S::splat(if a.rescale { *slot.add(padded(a.head_dim) + FACTOR) } else { 1.0 });
                for j in Loop(0, DT) {
                    sums[i][j] = S::mul(S::load(slot.add((c + j) * S::LANES)), factor);
                }
            }
            for r in Loop(0, a.n) {
                let row = a.v.add(r * a.row_stride);
                if c == 0 && DT * S::LANES < a.head_dim {
                    // The next tile uses the rest of the row: prefetch it now, in the order of the memory.
                    let mut at = a.row_stride * DT * S::LANES / a.head_dim;
                    while at < a.row_stride {
                        S::prefetch(row.wrapping_add(at));
                        at += 64;
                    }
                }
                let mut v = [S::splat(0.0); DT];
                if HALF {
                    v[0] = L::load_half::<S>(row, c);
                } else if DT == 1 {
                    v[0] = L::load::<S>(row, c);
                } else {
                    for j in Loop(0, DT / 2) {
                        let pair = L::load2::<S>(row, c + 2 * j);
                        v[2 * j] = pair[0];
                        v[2 * j + 1] = pair[1];
                    }
                }
                for i in Loop(0, QT) {
                    let p = S::splat(*a.p.add(i * BLOCK + r));
                    for j in Loop(0, DT) {
                        sums[i][j] = S::fma(p, v[j], sums[i][j]);
                    }
                }
            }
            for i in Loop(0, QT) {
                for j in Loop(0, DT) {
                    S::store(a.slots.add(i * a.slot_len + (c + j) * S::LANES), sums[i][j]);
                }
            }
        }
    }
}

/// The outputs that thread `ith` of `nth` merges, of all `n_heads * n_q` in the order of `out` (see
/// [`combine`]).
pub fn combine_range(call: &Attention, ith: usize, nth: usize) -> Range<usize> {
    let (total, nth) = (call.n_heads() * call.n_q, nth.max(1));
    total * ith / nth..total * (ith + 1) / nth
}

/// Phase 2: merges the partials of all `nth` threads of phase 1 for the outputs `range` (see
/// [`combine_range`]).
///
/// - `partials`: `[partials_len, nth]`, written by [`partial`].
/// - `out`: the range's part of `[head_dim, n_heads, n_q]`, that is `head_dim * range.len()` floats; zeros
///   where a query sees no row.
/// - `lse`: optional, the range's part of `[n_heads, n_q]`: the natural log of the softmax's denominator,
///   `-inf` where a query sees no row.
pub fn combine(
    call: &Attention,
    nth: usize,
    partials: &[f32],
    range: Range<usize>,
    out: &mut [f32],
    mut lse: Option<&mut [f32]>,
) -> Result<(), ShapeError> {
    call.check()?;
    let d = call.head_dim;
    let (partials_len, slot_len) = (call_partials_len(call), slot_len(d));
    let total = call.n_heads() * call.n_q;
    let lse_len = lse.as_ref().map_or(range.len(), |lse| lse.len());
    for (what, have, need) in [
        ("partials", partials.len(), partials_len.saturating_mul(nth)),
        ("output", out.len(), d.saturating_mul(range.len())),
        ("log-sum-exp", lse_len, range.len()),
        ("range", total, range.end),
    ] {
        if have < need {
            return Err(ShapeError::Buffer { what, have, need });
        }
    }
    for (nr, (query, out)) in range.zip(out.chunks_exact_mut(d)).enumerate() {
        let (head, t) = (query % call.n_heads(), query / call.n_heads());
        let at = (head * call.n_q + t) * slot_len;
        let slots = || partials.chunks_exact(partials_len).take(nth).map(|own| &own[at..][..slot_len]);
        let base = |slot: &[f32]| slot[padded(d) + BASE];
        let sink = call.sink_logit(head) * LOG2_E;
        let largest = slots().map(base).fold(sink, f32::max);
        out.fill(0.0);
        let mut total = 0.0;
        if largest > f32::NEG_INFINITY {
            for slot in slots().filter(|slot| base(slot) > f32::NEG_INFINITY) {
                let factor = (base(slot) - largest).exp2();
                total += factor * slot[padded(d)..][..16].iter().sum::<f32>();
                for (o, x) in out.iter_mut().zip(slot) {
                    *o += factor * x;
                }
            }
            total += (sink - largest).exp2();
            for o in out.iter_mut() {
                *o /= total;
            }
        }
        if let Some(lse) = lse.as_deref_mut() {
            lse[nr] = (largest + total.log2()) * LN_2;
        }
    }
    Ok(())
}

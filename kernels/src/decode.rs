//! Decode attention: a few query tokens against long caches, in two phases with a barrier between them that the caller
//! provides (in a graph: two nodes).
//!
//! 1. [`partial`]: all rows of all KV heads are laid end to end, cut into equal shares, one a thread. Each thread runs online
//!    softmax over its rows and leaves, for each query it touched, a *partial*: the largest logit m, the denominator l
//!    relative to it, and the weighted sum of values. Equal shares of *rows* keep the threads level whatever the lengths of
//!    the heads (one retrieval head of 100,000 rows beside seven of 4,000), also where there are fewer heads than threads.
//! 2. [`combine`]: merges the partials, query by query.
//!
//! Each K and V row is read from memory once for all query heads of its group and all query tokens. Rows are taken in
//! blocks: logits of the block for all queries, then one maximum, one rescaling and the exponentials, then the values.
//! Everything is f32; logits are kept in units of log 2 (see [`exp`](crate::exp)).
//!
//! # History
//! On Zen 4 (AVX-512, 3.7 GHz, multiply-add peak 118 GFLOP/s a core), f16, cycles per row of K and V ("cached": rows in the
//! second-level cache; else GB/s of one core from memory, beside a plain sum over the same memory in brackets).
//!
//! - First version, four rows at a time, blocks of 64 rows. MHA d64 22 cached, 29 (30) GB/s; GQA x4 d64 50, 16 (30);
//!   GQA x4 d128 84, **9** (30): time in memory and time in arithmetic added up instead of overlapping.
//! - Software prefetch of what comes next, 1 to 16 KB ahead, into either cache level: GQA x4 d128 13 at best, MHA slower by a
//!   tenth. Each prefetch holds a miss buffer for as long as the memory takes (some 24 of them: 15 GB/s). Dropped.
//! - What was wrong was the *order* of first touches. Four rows of 256 bytes side by side, or half of each value row now and half
//!   later, break the processor's own prefetchers; plain ascending reads overlap fully, and two ascending streams in turns of
//!   4 KB are even faster than one. So: rows in pairs, bites of 4 KB, and where a tile takes only part of a value row it asks for
//!   the rest at once. GQA x4 d128 17 to 18 (25), GQA x4 d64 18 (25), MHA d64 32 (26): ahead of the plain sum.
//! - Tiles of up to 8 queries instead of 4: groups of 5 to 8 read K and V once. A running sum kept in lanes and a base that
//!   moves only when it must (SLACK): softmax from 5.4 to 3.8 cycles. The scalar kernels had been inlined into the driver and
//!   bloated it to 360 KB: 54 to 47 cycles (GQA x4 d64) for one `inline(never)`.
//! - One scale load for two pieces of a quantised block: q8_0 MHA d64 37 to 31 cycles.
//! - Tried without gain: other shuffles in the sums across lanes (the compiler rewrites blends into shuffles), row addresses
//!   without multiplications, aligned queries, blocks of 64 and 128 rows. Without its shuffles and conversions the logits
//!   kernel would still take 19.4 of 23 cycles (GQA x4 d64; multiply-adds alone: 16).

use crate::attention::{Attention, LaneView, ShapeError};
use crate::exp::exp2;
use crate::quant::{Load, with_loader};
use crate::simd::{Isa, Kernel, Loop, Simd};
use std::f32::consts::{LN_2, LOG2_E};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Shares of rows are cut at multiples of this many rows of a head.
const CUT: usize = 32;
/// Rows whose logits are computed before their values are touched. A multiple of [`GROUP`].
const BLOCK: usize = 32;
/// Bytes of keys (then of values) that all queries are served from before the next are touched. Small enough to stay in the
/// first-level cache, and to keep the processor's prefetchers going (see the history).
const BITE: usize = 4096;
/// Rows whose logits leave the registers together.
pub(crate) const GROUP: usize = 16;
/// The most queries one pass over a block serves.
const MAX_TILE: usize = 8;
/// How far (in powers of two) a weight may exceed 1 before the base moves.
const SLACK: f32 = 8.0;

/// Floats of one partial: the weighted sum of the values, padded to whole vectors, then its tail: the denominator, spread
/// over 16 lanes, the base, the last rescaling factor, padding.
fn slot_len(head_dim: usize) -> usize {
    padded(head_dim) + 32
}

/// Where the base of the weights lies in the tail of a partial; `-inf` marks one that is empty.
const BASE: usize = 16;
/// Where the factor lies by which the weighted sum must still be multiplied.
const FACTOR: usize = 17;

/// Elements of a head in whole vectors of any instruction set.
pub(crate) fn padded(head_dim: usize) -> usize {
    head_dim.next_multiple_of(16)
}

/// Floats of one thread's part of the partials buffer, for calls of this shape (`n_q` query tokens, `n_kv_heads * group`
/// query heads). [`partial`] works in a buffer of this length, [`combine`] reads `nth` of them in a row.
pub fn partials_len(head_dim: usize, n_kv_heads: usize, group: usize, n_q: usize) -> usize {
    let queries = group * n_q; // of one KV head
    n_kv_heads * queries * slot_len(head_dim) + queries * (padded(head_dim) + BLOCK)
}

fn own_thread_len(call: &Attention) -> usize {
    partials_len(call.head_dim, call.n_kv_heads, call.group, call.n_q)
}

/// Phase 1: thread `ith` of `nth` works off its share of the rows and leaves its partials in `own`, a buffer of at least
/// [`partials_len`] floats that no one else writes (its content before does not matter).
pub fn partial(call: &Attention, ith: usize, nth: usize, own: &mut [f32]) -> Result<(), ShapeError> {
    partial_on(Isa::best(), call, ith, nth, own)
}

/// [`partial`] on an instruction set of the caller's choice; one that is not present falls back to the best there is.
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
    let need = own_thread_len(call);
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

    let cuts = |lane: &LaneView| lane.rows.div_ceil(CUT);
    let total: usize = call.lanes.iter().map(|lane| cuts(lane) * lane.kv_heads.len()).sum();
    let share = total * ith / nth..total * (ith + 1) / nth;
    let mut start = 0; // of this head, in cuts from the first row of the first head
    for lane in call.lanes {
        for (at, &kv_head) in lane.kv_heads.iter().enumerate() {
            let (from, to) = (share.start.max(start), share.end.min(start + cuts(lane)));
            if from < to {
                let rows = (from - start) * CUT..((to - start) * CUT).min(lane.rows);
                let slots = &mut slots[kv_head as usize * queries * slot_len..][..queries * slot_len];
                head_rows(isa, call, lane, at, rows, slots, scratch);
            }
            start += cuts(lane);
        }
    }
    Ok(())
}

/// Some rows of one KV head against all queries that read it.
/// `slots` `[slot_len, n_q, group]`; `scratch` holds the scaled queries `[padded, n_q, group]` and a block's logits.
fn head_rows(
    isa: Isa,
    call: &Attention,
    lane: &LaneView,
    at: usize,
    rows: Range<usize>,
    slots: &mut [f32],
    scratch: &mut [f32],
) {
    let d = call.head_dim;
    let (d_padded, slot_len) = (padded(d), slot_len(d));
    let queries = call.group * call.n_q;
    let (q, logits) = scratch.split_at_mut(queries * d_padded);
    for (i, (q, slot)) in q.chunks_exact_mut(d_padded).zip(slots.chunks_exact_mut(slot_len)).enumerate() {
        let head = lane.kv_heads[at] as usize * call.group + i / call.n_q;
        q.fill(0.0);
        for (q, x) in q.iter_mut().zip(call.query(head, i % call.n_q)) {
            *q = x * (call.scale * LOG2_E);
        }
        slot.fill(0.0);
        slot[d_padded + BASE] = f32::NEG_INFINITY;
    }
    // A row that is not used may hold anything: it is not even read.
    let unused = rows.start == 0 && lane.log_weight(at) == f32::NEG_INFINITY;
    let rows = rows.start + usize::from(unused)..rows.end;
    let first_hidden = call.visible(lane.rows, 0); // from here on some query token must not look

    let width = tile_width(isa, queries);
    let (k_bite, v_bite) = (bite_rows(lane.k.row_stride), bite_rows(lane.v.row_stride));
    for block in (rows.start..rows.end).step_by(BLOCK) {
        let n = BLOCK.min(rows.end - block);
        for bite in pieces(n, k_bite) {
            let start = at * lane.k.head_stride + (block + bite.start) * lane.k.row_stride;
            for tile in pieces(queries, width) {
                let args = DotArgs {
                    q: q[tile.start * d_padded..].as_ptr(),
                    d_padded,
                    head_dim: d,
                    k: lane.k.data[start..].as_ptr(),
                    row_stride: lane.k.row_stride,
                    n: bite.len(),
                    logits: logits[tile.start * BLOCK + bite.start..].as_mut_ptr(),
                    stride: BLOCK,
                };
                with_loader!(lane.k.ty, L => with_width!(tile.len(), QT => {
                    // SAFETY: isa is present; check() has proved that the lane's rows lie in its tensors; the tile's
                    // queries and logits lie in the scratch (bites start at multiples of GROUP).
                    unsafe { isa.enter(Dot::<L, QT>(args, PhantomData)) }
                }));
            }
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
            logits[n..n.next_multiple_of(GROUP)].fill(f32::NEG_INFINITY);
            if block == 0 {
                logits[0] += lane.log_weight(at) * LOG2_E;
            }
            if block + n > first_hidden {
                let visible = call.visible(lane.rows, i % call.n_q);
                logits[visible.saturating_sub(block).min(n)..n].fill(f32::NEG_INFINITY);
            }
        }
        // SAFETY: isa is present; the slices hold `queries` queries in the strides given.
        unsafe {
            isa.enter(Softmax {
                logits: logits.as_mut_ptr(),
                n: n.next_multiple_of(GROUP),
                state: slots[d_padded..].as_mut_ptr(),
                slot_len,
                queries,
            });
        }
        for bite in pieces(n, v_bite) {
            let start = at * lane.v.head_stride + (block + bite.start) * lane.v.row_stride;
            for tile in pieces(queries, width) {
                let args = AccumulateArgs {
                    p: logits[tile.start * BLOCK + bite.start..].as_ptr(),
                    v: lane.v.data[start..].as_ptr(),
                    row_stride: lane.v.row_stride,
                    n: bite.len(),
                    rescale: bite.start == 0,
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

/// Queries of a tile, such that the tiles of a KV head are as few as the registers allow and about equal.
pub(crate) fn tile_width(isa: Isa, queries: usize) -> usize {
    let tiles = queries.div_ceil((isa.accumulators() / 2).min(MAX_TILE));
    queries.div_ceil(tiles)
}

/// Rows of a bite: about [`BITE`] bytes, a multiple of [`GROUP`].
fn bite_rows(row_stride: usize) -> usize {
    (BITE / row_stride.max(1)).clamp(GROUP, BLOCK) / GROUP * GROUP
}

/// `0 .. n` in pieces of `size`.
fn pieces(n: usize, size: usize) -> impl Iterator<Item = Range<usize>> {
    (0..n).step_by(size).map(move |start| start..n.min(start + size))
}

/// Runs an expression with the constant `$qt` set to the value of `$width`, 1 to [`MAX_TILE`].
macro_rules! with_width {
    ($width:expr, $qt:ident => $body:expr) => {
        match $width {
            1 => {
                const $qt: usize = 1;
                $body
            }
            2 => {
                const $qt: usize = 2;
                $body
            }
            3 => {
                const $qt: usize = 3;
                $body
            }
            4 => {
                const $qt: usize = 4;
                $body
            }
            5 => {
                const $qt: usize = 5;
                $body
            }
            6 => {
                const $qt: usize = 6;
                $body
            }
            7 => {
                const $qt: usize = 7;
                $body
            }
            _ => {
                const $qt: usize = 8;
                $body
            }
        }
    };
}
pub(crate) use with_width;

/// Logits of `n` rows for QT queries.
/// Safety: `n` rows of `head_dim` elements at `k`; queries `[d_padded, QT]`; room for logits `[stride, QT]`, where `stride` is at
/// least `n` rounded up to a multiple of [`GROUP`].
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
        let a = self.0;
        // Where the rows of a group lie: in the last, unfinished group the last row stands in for those that are missing
        // (the caller overwrites their logits).
        let mut offsets = [0; GROUP];
        for j in Loop(0, GROUP) {
            offsets[j] = j * a.row_stride;
        }
        let mut group = 0;
        while group < a.n {
            if group + GROUP > a.n {
                for j in Loop(a.n - group, GROUP) {
                    offsets[j] = (a.n - 1 - group) * a.row_stride;
                }
            }
            // SAFETY: the offsets lead to rows below n; everything else is the struct's contract.
            unsafe {
                let first = a.k.add(group * a.row_stride);
                // Not initialised: clearing it costs a store a row.
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
            group += GROUP;
        }
    }
}

impl<L: Load, const QT: usize> Dot<L, QT> {
    /// Two rows times all queries, added up half way.
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
/// The base is a logit near the largest so far, and moves only when a logit exceeds it by more than [`SLACK`]: weights stay below
/// 2^SLACK, and most blocks need neither a horizontal maximum nor a rescaling.
/// Safety: logits `[BLOCK, queries]` of which `n` (a multiple of GROUP) are filled; `state` points at the tail of the first
/// slot, `slot_len` floats from one query to the next.
struct Softmax {
    logits: *mut f32,
    n: usize,
    state: *mut f32,
    slot_len: usize,
    queries: usize,
}

impl Kernel for Softmax {
    type Out = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let vectors = self.n / S::LANES;
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
                // NaN alone must not look like a query that sees nothing.
                if *state.add(BASE) == f32::NEG_INFINITY && S::sum(sum).is_nan() {
                    *state.add(BASE) = 0.0;
                }
            }
        }
    }
}

/// Rescales QT weighted sums and adds `n` rows of values to them.
/// Safety: weights `[BLOCK, QT]`; `n` rows of `head_dim` elements at `v`; slots `[slot_len, QT]` with the factor in place.
struct Accumulate<L, const QT: usize>(AccumulateArgs, PhantomData<L>);

struct AccumulateArgs {
    p: *const f32,
    v: *const u8,
    row_stride: usize,
    n: usize,
    /// Whether these are the block's first rows, so that the sums must be brought to its base.
    rescale: bool,
    head_dim: usize,
    slots: *mut f32,
    slot_len: usize,
}

impl<L: Load, const QT: usize> Kernel for Accumulate<L, QT> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let whole = self.0.head_dim / S::LANES;
        let mut c = 0;
        // SAFETY: the struct's contract; c counts whole pieces.
        unsafe {
            if QT * 8 <= S::ACCUMULATORS {
                while c + 8 <= whole {
                    self.tile::<S, 8, false>(c);
                    c += 8;
                }
            }
            if QT * 4 <= S::ACCUMULATORS {
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
    /// Pieces `c .. c + DT` of the head, in registers over all rows of the block.
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
                    // The rest of the row's turn comes with the next tile: ask for it in the order of the memory.
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

/// Which of the `n_heads * n_q` outputs (in the order of `out`, see [`combine`]) thread `ith` of `nth` merges.
pub fn combine_range(call: &Attention, ith: usize, nth: usize) -> Range<usize> {
    let total = call.n_heads() * call.n_q;
    total * ith / nth..total * (ith + 1) / nth
}

/// Phase 2: merges the partials of all `nth` threads of phase 1 for the outputs `share` (see [`combine_range`]).
///
/// - `partials`: `[partials_len, nth]`, what [`partial`] left.
/// - `out`: the share's part of `[head_dim, n_heads, n_q]`, that is `head_dim * share.len()` floats; zeros where a query
///   sees no row.
/// - `lse`: if wanted, the share's part of `[n_heads, n_q]`: the natural log of the softmax's denominator, `-inf` where a
///   query sees no row.
pub fn combine(
    call: &Attention,
    nth: usize,
    partials: &[f32],
    share: Range<usize>,
    out: &mut [f32],
    mut lse: Option<&mut [f32]>,
) -> Result<(), ShapeError> {
    call.check()?;
    let d = call.head_dim;
    let (partials_len, slot_len) = (own_thread_len(call), slot_len(d));
    let total = call.n_heads() * call.n_q;
    let lse_len = lse.as_ref().map_or(share.len(), |lse| lse.len());
    for (what, have, need) in [
        ("partials", partials.len(), partials_len * nth),
        ("output", out.len(), d * share.len()),
        ("log-sum-exp", lse_len, share.len()),
        ("share", total, share.end),
    ] {
        if have < need {
            return Err(ShapeError::Buffer { what, have, need });
        }
    }
    for (nr, (query, out)) in share.zip(out.chunks_exact_mut(d)).enumerate() {
        let (head, t) = (query % call.n_heads(), query / call.n_heads());
        let at = (head * call.n_q + t) * slot_len;
        let slots = || partials.chunks_exact(partials_len).take(nth).map(|own| &own[at..][..slot_len]);
        let base = |slot: &[f32]| slot[padded(d) + BASE];
        let largest = slots().map(base).fold(f32::NEG_INFINITY, f32::max);
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

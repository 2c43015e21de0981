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

use crate::attention::{Attention, Lane, ShapeError};
use crate::exp::exp2;
use crate::quant::{Load, with_loader};
use crate::simd::{Isa, Kernel, Loop, Simd};
use std::f32::consts::{LN_2, LOG2_E};
use std::marker::PhantomData;
use std::ops::Range;

/// Shares of rows are cut at multiples of this many rows of a head.
const CUT: usize = 32;
/// Rows whose logits are computed before their values are touched. A multiple of [`GROUP`].
const BLOCK: usize = 64;
/// Rows whose logits leave the registers together.
const GROUP: usize = 16;
/// The most queries one pass over a block serves.
const MAX_TILE: usize = 6;

/// Floats of one partial: the weighted sum, padded to whole vectors, then m, l, the last rescaling factor, padding.
fn slot_len(head_dim: usize) -> usize {
    padded(head_dim) + 16
}

/// Elements of a head in whole vectors of any instruction set.
fn padded(head_dim: usize) -> usize {
    head_dim.next_multiple_of(16)
}

/// Floats of one thread's part of the partials buffer, for calls of this shape (`n_q` query tokens, `n_kv_heads * group`
/// query heads). [`partial`] works in a buffer of this length, [`combine`] reads `nth` of them in a row.
pub fn thread_len(head_dim: usize, n_kv_heads: usize, group: usize, n_q: usize) -> usize {
    let queries = group * n_q; // of one KV head
    n_kv_heads * queries * slot_len(head_dim) + queries * (padded(head_dim) + BLOCK)
}

fn own_thread_len(call: &Attention) -> usize {
    thread_len(call.head_dim, call.n_kv_heads, call.group, call.n_q)
}

/// Phase 1: thread `ith` of `nth` works off its share of the rows and leaves its partials in `own`, a buffer of at least
/// [`thread_len`] floats that no one else writes (its content before does not matter).
pub fn partial(call: &Attention, ith: usize, nth: usize, own: &mut [f32]) -> Result<(), ShapeError> {
    partial_on(Isa::best(), call, ith, nth, own)
}

/// [`partial`] on an instruction set of the caller's choice; one that is not present falls back to the best there is.
pub fn partial_on(isa: Isa, call: &Attention, ith: usize, nth: usize, own: &mut [f32]) -> Result<(), ShapeError> {
    call.check()?;
    if ith >= nth {
        return Err(ShapeError::Thread { ith, nth });
    }
    let need = own_thread_len(call);
    if own.len() < need {
        return Err(ShapeError::Buffer {
            what: "partials",
            have: own.len(),
            need,
        });
    }
    let isa = if isa.present() { isa } else { Isa::best() };
    let queries = call.group * call.n_q;
    let slot_len = slot_len(call.head_dim);
    let (slots, scratch) = own.split_at_mut(call.n_heads() * call.n_q * slot_len);
    for slot in slots.chunks_exact_mut(slot_len) {
        slot[padded(call.head_dim)] = f32::NEG_INFINITY; // m: the mark of an empty partial
    }

    let cuts = |lane: &Lane| lane.rows.div_ceil(CUT);
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
    lane: &Lane,
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
        slot[d_padded] = f32::NEG_INFINITY;
    }
    let first_hidden = call.visible(lane.rows, 0); // from here on some query token must not look

    for block in (rows.start..rows.end).step_by(BLOCK) {
        let n = BLOCK.min(rows.end - block);
        // SAFETY: check() has proved that rows 0..lane.rows of the lane's heads lie in the tensors; the row after the block
        // is only an address to prefetch.
        let k = unsafe { lane.k.data.as_ptr().add(at * lane.k.head_stride + block * lane.k.row_stride) };
        // SAFETY: as above.
        let v = unsafe { lane.v.data.as_ptr().add(at * lane.v.head_stride + block * lane.v.row_stride) };

        for tile in tiles(isa, queries) {
            let dot = DotArgs {
                q: q[tile.start * d_padded..].as_ptr(),
                d_padded,
                head_dim: d,
                k,
                row_stride: lane.k.row_stride,
                n,
                logits: logits[tile.start * BLOCK..].as_mut_ptr(),
            };
            with_loader!(lane.k.ty, L => with_width!(tile.len(), QT => {
                // SAFETY: isa is present; n rows lie at k; the tile's queries and logits lie in the scratch.
                unsafe { isa.enter(Dot::<L, QT>(dot, PhantomData)) }
            }));
        }
        for (i, logits) in logits.chunks_exact_mut(BLOCK).take(queries).enumerate() {
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
        for tile in tiles(isa, queries) {
            let args = AccumulateArgs {
                p: logits[tile.start * BLOCK..].as_ptr(),
                v,
                row_stride: lane.v.row_stride,
                n,
                head_dim: d,
                slots: slots[tile.start * slot_len..].as_mut_ptr(),
                slot_len,
            };
            with_loader!(lane.v.ty, L => with_width!(tile.len(), QT => {
                // SAFETY: isa is present; n rows lie at v; the tile's slots and weights lie in their buffers.
                unsafe { isa.enter(Accumulate::<L, QT>(args, PhantomData)) }
            }));
        }
    }
}

/// Cuts the queries of a KV head into tiles as even as can be, as few as the registers allow.
fn tiles(isa: Isa, queries: usize) -> impl Iterator<Item = Range<usize>> {
    let count = queries.div_ceil((isa.accumulators() / 4).min(MAX_TILE));
    (0..count).map(move |i| queries * i / count..queries * (i + 1) / count)
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
            _ => {
                const $qt: usize = 6;
                $body
            }
        }
    };
}
use with_width;

/// Logits of `n` rows for QT queries.
/// Safety: `n` rows of `head_dim` elements at `k`; queries `[d_padded, QT]`; room for logits `[BLOCK, QT]`.
struct Dot<L, const QT: usize>(DotArgs, PhantomData<L>);

struct DotArgs {
    q: *const f32,
    d_padded: usize,
    head_dim: usize,
    k: *const u8,
    row_stride: usize,
    n: usize,
    logits: *mut f32,
}

impl<L: Load, const QT: usize> Kernel for Dot<L, QT> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let a = self.0;
        let whole = a.head_dim / S::LANES;
        let half = !a.head_dim.is_multiple_of(S::LANES);
        let mut group = 0;
        while group < a.n {
            // SAFETY: row numbers are cut off at the last row (its logit is computed again and overwritten by the caller's
            // padding); everything else is the struct's contract.
            unsafe {
                let mut quads = [[S::splat(0.0); 4]; QT];
                for quad in Loop(0, 4) {
                    let row = |j: usize| a.k.add((group + quad * 4 + j).min(a.n - 1) * a.row_stride);
                    let rows = [row(0), row(1), row(2), row(3)];
                    let mut sums = [[S::splat(0.0); 4]; QT];
                    for c in Loop(0, whole) {
                        let k = [
                            L::load::<S>(rows[0], c),
                            L::load::<S>(rows[1], c),
                            L::load::<S>(rows[2], c),
                            L::load::<S>(rows[3], c),
                        ];
                        for i in Loop(0, QT) {
                            let q = S::load(a.q.add(i * a.d_padded + c * S::LANES));
                            for j in Loop(0, 4) {
                                sums[i][j] = S::fma(q, k[j], sums[i][j]);
                            }
                        }
                    }
                    if half {
                        for i in Loop(0, QT) {
                            let q = S::load(a.q.add(i * a.d_padded + whole * S::LANES));
                            for j in Loop(0, 4) {
                                sums[i][j] = S::fma(q, L::load_half::<S>(rows[j], whole), sums[i][j]);
                            }
                        }
                    }
                    for i in Loop(0, QT) {
                        quads[i][quad] = S::sum4(sums[i]);
                    }
                }
                for i in Loop(0, QT) {
                    S::store_sums(a.logits.add(i * BLOCK + group), quads[i]);
                }
            }
            group += GROUP;
        }
    }
}

/// Turns a block's logits into weights relative to the new maximum, and brings m, l and the rescaling factor up to date.
/// Safety: logits `[BLOCK, queries]` of which `n` (a multiple of GROUP) are filled; `state` points at m, l, factor of the
/// first query, `slot_len` floats from one query to the next.
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
        for i in Loop(0, self.queries) {
            // SAFETY: the struct's contract.
            unsafe {
                let logits = self.logits.add(i * BLOCK);
                let state = self.state.add(i * self.slot_len);
                let vectors = self.n / S::LANES;
                let mut largest = S::load(logits);
                for c in Loop(1, vectors) {
                    largest = S::max(largest, S::load(logits.add(c * S::LANES)));
                }
                let old = *state;
                let new = old.max(S::largest(largest));
                // While every logit so far is -inf, a base of 0 keeps -inf - base from being NaN.
                let base = if new == f32::NEG_INFINITY { 0.0 } else { new };
                let base = S::splat(base);
                let mut sum = S::splat(0.0);
                for c in Loop(0, vectors) {
                    let p = exp2::<S>(S::sub(S::load(logits.add(c * S::LANES)), base));
                    S::store(logits.add(c * S::LANES), p);
                    sum = S::add(sum, p);
                }
                let factor = S::largest(exp2::<S>(S::sub(S::splat(old), base)));
                *state = new;
                *state.add(1) = *state.add(1) * factor + S::sum(sum);
                *state.add(2) = factor;
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
                let factor = S::splat(*slot.add(padded(a.head_dim) + 2));
                for j in Loop(0, DT) {
                    sums[i][j] = S::mul(S::load(slot.add((c + j) * S::LANES)), factor);
                }
            }
            for r in Loop(0, a.n) {
                let row = a.v.add(r * a.row_stride);
                let mut v = [S::splat(0.0); DT];
                for j in Loop(0, DT) {
                    v[j] = if HALF {
                        L::load_half::<S>(row, c + j)
                    } else {
                        L::load::<S>(row, c + j)
                    };
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
pub fn combine_share(call: &Attention, ith: usize, nth: usize) -> Range<usize> {
    let total = call.n_heads() * call.n_q;
    total * ith / nth..total * (ith + 1) / nth
}

/// Phase 2: merges the partials of all `nth` threads of phase 1 for the outputs `share` (see [`combine_share`]).
///
/// - `partials`: `[thread_len, nth]`, what [`partial`] left.
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
    let (thread_len, slot_len) = (own_thread_len(call), slot_len(d));
    let total = call.n_heads() * call.n_q;
    let lse_len = lse.as_ref().map_or(share.len(), |lse| lse.len());
    for (what, have, need) in [
        ("partials", partials.len(), thread_len * nth),
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
        let slots = || partials.chunks_exact(thread_len).take(nth).map(|own| &own[at..][..slot_len]);
        let m = |slot: &[f32]| slot[padded(d)];
        let largest = slots().map(m).fold(f32::NEG_INFINITY, f32::max);
        out.fill(0.0);
        let mut total = 0.0;
        if largest > f32::NEG_INFINITY {
            for slot in slots().filter(|slot| m(slot) > f32::NEG_INFINITY) {
                let factor = (m(slot) - largest).exp2();
                total += factor * slot[padded(d) + 1];
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

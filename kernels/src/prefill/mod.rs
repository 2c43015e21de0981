//! Prefill attention: many query tokens at once. Compute bound, so it is built like a matrix product.
//!
//! The unit of work is a *tile* of up to `TILE` queries of one KV head: all query heads of the group, token
//! after token. Queries are in the vector lanes throughout. The logits of a block of rows are `K · Qᵀ`, the
//! softmax runs down the columns without horizontal operations, and the output is accumulated as `Vᵀ · P` and
//! transposed once at the end. So K and V are only converted to f32, never rearranged, and one kernel
//! computes both products: it broadcasts a number of A and multiplies a row of B. The converted block serves
//! all queries of the tile.
//!
//! Rows that no query of the tile sees are not read; only the last blocks, on the causal diagonal, are
//! masked. Threads take tiles from a shared counter, the longest first, since causal tiles are unequal.
//!
//! In sparse prefill (`sparse.rs`) old rows are read in groups. Where [`Attention::int8`] is set and the processor multiplies
//! bytes, old rows are multiplied in integers of 8 bits (`int8.rs`), in larger tiles.
//!
//! [`decode`](crate::decode) is memory bound and reads every row once. Here a row is read once per tile,
//! which is faster from about 16 queries per KV head on.
//!
//! # History
//! On Zen 4 (AVX-512, multiply-add peak 118 GFLOP/s per core), 512 queries against 8192 rows, f16: 82 to 85 %
//! of the peak with head_dim 64, and 86 to 87 % with 128. Two threads (196 of 236 GFLOP/s) and rows of f32 and
//! q8_0 reach the same. AVX2 reaches at least 70 %.
//!
//! This is the first version, and nothing else was tried. With 6 rows by 4 vectors the multipliers idle only for
//! the exponentials (about 10 % with head_dim 64). Loads and stores of the sums cost once per block.

mod int8;
mod sparse;

use std::f32::consts::{LN_2, LOG2_E};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use self::sparse::{FIRST_ROWS, GROUP, RECENT_ROWS, groups_of, mean_groups};
use crate::attention::{Attention, LaneView, ShapeError};
use crate::decode::padded;
use crate::exp::{SoftCap, exp2};
use crate::quant::load::{Load, with_loader};
use crate::simd::{Isa, Kernel, Loop, Simd};

/// Queries side by side in one matrix: four vectors of 16, eight of 8.
const PANEL: usize = 64;
/// Queries of a tile. They share each conversion of K and V.
pub(crate) const TILE: usize = 2 * PANEL;
/// Rows of K and V of a block: 16 strips. The converted block stays in the second-level cache.
const BLOCK: usize = 96;
/// Rows of A that a product processes at a time.
const STRIP: usize = 6;

/// Whether this processor multiplies bytes, so that [`Attention::int8`] has an effect.
pub fn has_int8() -> bool {
    Isa::best().has_bytes()
}

/// Floats of scratch memory of each thread.
pub fn scratch_len(call: &Attention) -> usize {
    Isa::available().into_iter().map(|isa| scratch_len_on(isa, call)).max().unwrap_or(0)
}

/// [`scratch_len`] on the given instruction set.
fn scratch_len_on(isa: Isa, call: &Attention) -> usize {
    let (d, len) = (padded(call.head_dim), tile_len(isa, call));
    let bytes = if len == int8::TILE { int8::scratch_len(d) } else { 0 };
    // Queries and sums; keys and values; logits; maxima, denominators, factors; slopes and positions; windows.
    2 * len * d + 2 * BLOCK * d + BLOCK * PANEL + 3 * len + 2 * len + len + bytes + 16
}

/// Queries of a whole tile.
fn tile_len(isa: Isa, call: &Attention) -> usize {
    if int8::is_used(isa, call) { int8::TILE } else { TILE }
}

/// Computes the call together with the other threads, which pass the same arguments except `scratch`: each
/// has its own, of [`scratch_len`] floats. `next` starts at 0 and is shared. When every thread has returned,
/// the result is complete:
///
/// - `out` `[head_dim, n_heads, n_q]`; zeros where a query sees no row.
/// - `lse` `[n_heads, n_q]` or null: the natural log of the softmax's denominator, `-inf` where a query sees
///   no row.
///
/// # Safety
/// `out` and `lse` (unless null) are valid for writes of these shapes and not used by anything else
/// meanwhile. All threads that write there share `next`.
pub unsafe fn prefill(
    call: &Attention,
    next: &AtomicUsize,
    scratch: &mut [f32],
    out: *mut f32,
    lse: *mut f32,
) -> Result<(), ShapeError> {
    // SAFETY: the caller's promise.
    unsafe { prefill_on(Isa::best(), call, next, scratch, out, lse) }
}

/// [`prefill`] on the given instruction set, or on the best one where the processor does not have it.
///
/// # Safety
/// As for [`prefill`].
pub unsafe fn prefill_on(
    isa: Isa,
    call: &Attention,
    next: &AtomicUsize,
    scratch: &mut [f32],
    out: *mut f32,
    lse: *mut f32,
) -> Result<(), ShapeError> {
    call.check()?;
    let isa = if isa.present() { isa } else { Isa::best() };
    let need = scratch_len_on(isa, call);
    if scratch.len() < need {
        return Err(ShapeError::Buffer { what: "scratch", have: scratch.len(), need });
    }
    let len = tile_len(isa, call);
    let tiles = (call.group * call.n_q).div_ceil(len);
    loop {
        let item = next.fetch_add(1, Ordering::Relaxed);
        if item >= tiles * call.n_kv_heads {
            return Ok(());
        }
        // The last tiles of all heads come first: they see most rows.
        let (mut head, tile) = (item % call.n_kv_heads, tiles - 1 - item / call.n_kv_heads);
        for lane in call.lanes {
            if head < lane.kv_heads.len() {
                let output = Output { out, lse };
                // SAFETY: the shared counter gives each tile to one thread, and tiles are disjoint in the
                // output.
                unsafe { Tile { isa, call, lane, head, first: tile * len, len }.run(scratch, output) };
                break;
            }
            head -= lane.kv_heads.len();
        }
    }
}

/// The output buffers, see [`prefill`].
struct Output {
    out: *mut f32,
    lse: *mut f32,
}

/// Queries `first ..` of one head of a lane, numbered token after token, each token with all query heads of
/// the group.
struct Tile<'a> {
    isa: Isa,
    call: &'a Attention<'a>,
    lane: &'a LaneView<'a>,
    head: usize,
    first: usize,
    /// See [`tile_len`].
    len: usize,
}

/// The parts of a tile's scratch memory. `d` is the padded head_dim.
struct Scratch<'a> {
    d: usize,
    /// `[PANEL, d]` for each panel: the scaled queries.
    q: &'a mut [f32],
    /// `[PANEL, d]` for each panel: the weighted sums of values.
    sums: &'a mut [f32],
    /// `[d, BLOCK]`
    k: &'a mut [f32],
    /// `[d, BLOCK]`
    v: &'a mut [f32],
    /// `[PANEL, BLOCK]`
    logits: &'a mut [f32],
    /// `[PANEL, 3]` for each panel: maximum, denominator, factor.
    state: &'a mut [f32],
    /// `[PANEL, 2]` for each panel: slope and position, under ALiBi.
    distances: &'a mut [f32],
    /// `[PANEL]` for each panel: the first position of the window, where rows have positions.
    firsts: &'a mut [f32],
    /// Where old rows are multiplied in bytes.
    bytes: Option<int8::Bytes<'a>>,
}

impl<'a> Scratch<'a> {
    /// For tiles of `len` queries.
    fn new(scratch: &'a mut [f32], d: usize, len: usize) -> Scratch<'a> {
        // Aligned to cache lines: a row of a panel is a whole number of them.
        let offset = scratch.as_ptr().align_offset(64).min(16);
        let (q, rest) = scratch[offset..].split_at_mut(len * d);
        let (sums, rest) = rest.split_at_mut(len * d);
        let (k, rest) = rest.split_at_mut(BLOCK * d);
        let (v, rest) = rest.split_at_mut(BLOCK * d);
        let (logits, rest) = rest.split_at_mut(BLOCK * PANEL);
        let (state, rest) = rest.split_at_mut(3 * len);
        let (distances, rest) = rest.split_at_mut(2 * len);
        let (firsts, rest) = rest.split_at_mut(len);
        let bytes = (len == int8::TILE).then(|| int8::Bytes::new(rest, d));
        Scratch { d, q, sums, k, v, logits, state, distances, firsts, bytes }
    }
}

/// Some queries of a tile against a block of rows.
#[derive(Clone, Copy)]
struct Panel {
    /// The tile's number of the first query, a multiple of [`PANEL`].
    first: usize,
    /// Queries.
    columns: usize,
    /// The first row.
    start: usize,
    /// Rows.
    n: usize,
}

/// The positions of a KV head's rows, and the position that the tile's numbers are relative to.
struct RelativePositions<'a> {
    positions: &'a [i32],
    origin: i32,
}

impl Tile<'_> {
    /// Query head and token of the tile's query `i`.
    fn query(&self, i: usize) -> (usize, usize) {
        let kv_head = self.lane.kv_heads[self.head] as usize;
        let at = self.first + i;
        (kv_head * self.call.group + at % self.call.group, at / self.call.group)
    }

    /// The position of the tile's query `i`; 0 without ALiBi.
    fn position(&self, i: usize) -> i32 {
        let kv_head = self.lane.kv_heads[self.head] as usize;
        let t = self.query(i).1;
        self.call.alibi.map_or(0, |alibi| self.call.position(&alibi, self.lane.rows, kv_head, t))
    }

    /// The end of the rows that query `i` sees.
    fn sees(&self, i: usize) -> usize {
        self.call.visible(self.lane.rows, self.query(i).1)
    }

    /// The first row that query `i` sees, where rows lie in order.
    fn sees_from(&self, i: usize) -> usize {
        self.call.first_seen(self.lane.rows, self.query(i).1)
    }

    /// The first row that is read. A row 0 that is not used may hold any bytes.
    fn first_row(&self) -> usize {
        let unused = usize::from(self.lane.log_weight(self.head) == f32::NEG_INFINITY);
        unused.max(self.sees_from(0))
    }

    /// # Safety
    /// The tile's part of the output may be written, and no other thread writes it.
    unsafe fn run(&self, scratch: &mut [f32], output: Output) {
        let call = self.call;
        let queries = self.len.min(call.group * call.n_q - self.first);
        let mut scratch = Scratch::new(scratch, padded(call.head_dim), self.len);
        self.load_queries(queries, &mut scratch);
        match &call.groups {
            Some(groups) => self.attend_to_groups(queries, groups, &mut scratch),
            None => self.attend_to_rows(self.first_row()..self.sees(queries - 1), queries, &mut scratch),
        }
        // SAFETY: the caller's promise.
        unsafe { self.write(queries, &scratch, output) }
    }

    /// Attends to neighbouring rows.
    fn attend_to_rows(&self, rows: Range<usize>, queries: usize, scratch: &mut Scratch) {
        let in_bytes = self.rows_in_bytes(&rows, queries);
        self.attend_in_f32(rows.start..in_bytes.start, queries, scratch);
        self.attend_in_bytes(in_bytes.clone(), queries, scratch);
        self.attend_in_f32(in_bytes.end..rows.end, queries, scratch);
    }

    /// Attends to neighbouring rows, all in f32.
    fn attend_in_f32(&self, rows: Range<usize>, queries: usize, scratch: &mut Scratch) {
        if rows.is_empty() {
            return;
        }
        let lane = self.lane;
        let alibi = self.find_distances(queries, scratch);
        let window = self.find_windows(queries, scratch);
        let (all_see_from, all_see) = (self.sees_from(queries - 1), self.sees(0));
        for start in rows.clone().step_by(BLOCK) {
            let n = BLOCK.min(rows.end - start);
            self.convert(&lane.k, start, n, scratch.k);
            self.convert(&lane.v, start, n, scratch.v);
            for first in (0..queries).step_by(PANEL) {
                let panel = Panel { first, columns: PANEL.min(queries - first), start, n };
                self.multiply_keys(&panel, (scratch.k.as_ptr(), scratch.d), scratch);
                if let Some(alibi) = &alibi {
                    self.add_biases(&panel, alibi, scratch);
                }
                if let Some(window) = &window {
                    self.hide_before_windows(&panel, window, scratch);
                }
                if start < all_see_from {
                    self.hide_older_rows(&panel, scratch);
                }
                if start == 0 {
                    let weight = lane.log_weight(self.head) * LOG2_E;
                    scratch.logits[..PANEL].iter_mut().for_each(|x| *x += weight);
                }
                if start + n > all_see {
                    self.hide_later_rows(&panel, scratch);
                }
                self.add_values(&panel, (scratch.v.as_ptr(), scratch.d), scratch);
            }
        }
    }

    /// Scales the queries, and begins their sums and states.
    fn load_queries(&self, queries: usize, scratch: &mut Scratch) {
        let (call, d) = (self.call, scratch.d);
        let panels = queries.next_multiple_of(PANEL) * d;
        scratch.q[..panels].fill(0.0);
        scratch.sums[..panels].fill(0.0);
        for state in scratch.state.chunks_exact_mut(3 * PANEL) {
            state.fill(0.0);
            state[..PANEL].fill(f32::NEG_INFINITY);
        }
        for i in 0..queries {
            let (head, t) = self.query(i);
            let column = &mut scratch.q[i / PANEL * PANEL * d + i % PANEL..];
            for (to, x) in column.iter_mut().step_by(PANEL).zip(call.query(head, t)) {
                *to = x * (call.scale * LOG2_E);
            }
        }
    }

    /// Slopes and positions of the queries, under ALiBi. Positions are relative to the tile's first query, so that they
    /// are exact in f32.
    fn find_distances(&self, queries: usize, scratch: &mut Scratch) -> Option<RelativePositions<'_>> {
        let alibi = self.call.alibi?;
        let origin = self.position(0);
        scratch.distances.fill(0.0);
        for i in 0..queries {
            let column = &mut scratch.distances[i / PANEL * 2 * PANEL + i % PANEL..];
            column[0] = alibi.slopes[self.query(i).0] * LOG2_E;
            column[PANEL] = self.position(i).wrapping_sub(origin) as f32;
        }
        Some(RelativePositions { positions: alibi.positions[self.lane.kv_heads[self.head] as usize], origin })
    }

    /// The first positions of the queries' windows, where rows have positions.
    fn find_windows(&self, queries: usize, scratch: &mut Scratch) -> Option<RelativePositions<'_>> {
        let positions = self.call.window?.positions?[self.lane.kv_heads[self.head] as usize];
        let first = |i: usize| self.call.first_position(positions, self.lane.rows, self.query(i).1);
        let origin = first(0);
        scratch.firsts.fill(0.0);
        for (i, to) in scratch.firsts[..queries].iter_mut().enumerate() {
            *to = first(i).wrapping_sub(origin) as f32;
        }
        Some(RelativePositions { positions, origin })
    }

    /// logits `[PANEL, n]` = K `[n, head_dim]` · Qᵀ `[head_dim, PANEL]`, with the soft cap. There are n keys at this address,
    /// so many floats apart.
    #[inline(always)]
    fn multiply_keys(&self, panel: &Panel, (keys, distance): (*const f32, usize), scratch: &mut Scratch) {
        let (isa, d) = (self.isa, scratch.d);
        // SAFETY: isa is present; the shapes are those of the scratch parts; the callers have so many keys there.
        unsafe {
            isa.enter(Product {
                a: keys,
                a_row: distance,
                a_step: 1,
                b: scratch.q[panel.first * d..][..PANEL * d].as_ptr(),
                c: scratch.logits.as_mut_ptr(),
                factor: std::ptr::null(),
                rows: panel.n,
                steps: self.call.head_dim,
                columns: panel.columns,
            });
        }
        if let Some(cap) = self.call.softcap {
            let logits = &mut scratch.logits[..panel.n * PANEL];
            // SAFETY: isa is present; the logits are whole vectors.
            unsafe { isa.enter(SoftCap { logits, cap: cap * LOG2_E }) };
        }
    }

    /// Adds the biases of ALiBi.
    #[inline(always)]
    fn add_biases(&self, panel: &Panel, rows: &RelativePositions, scratch: &mut Scratch) {
        let (positions, origin) = (&rows.positions[panel.start..][..panel.n], rows.origin);
        let distances = &scratch.distances[2 * panel.first..][..2 * PANEL];
        let logits = scratch.logits.as_mut_ptr();
        // SAFETY: isa is present; n rows of logits, a panel's slopes and positions.
        unsafe { self.isa.enter(Bias { logits, positions, origin, distances }) };
    }

    /// Hides rows before the windows, where rows have positions.
    #[inline(always)]
    fn hide_before_windows(&self, panel: &Panel, rows: &RelativePositions, scratch: &mut Scratch) {
        let (positions, origin) = (&rows.positions[panel.start..][..panel.n], rows.origin);
        let firsts = &scratch.firsts[panel.first..][..PANEL];
        let logits = scratch.logits.as_mut_ptr();
        // SAFETY: as for the biases.
        unsafe { self.isa.enter(Hide { logits, positions, origin, firsts }) };
    }

    /// Hides rows before the windows, where rows lie in order.
    #[inline(always)]
    fn hide_older_rows(&self, panel: &Panel, scratch: &mut Scratch) {
        for column in 0..panel.columns {
            let hidden = self.sees_from(panel.first + column).saturating_sub(panel.start).min(panel.n);
            for row in 0..hidden {
                scratch.logits[row * PANEL + column] = f32::NEG_INFINITY;
            }
        }
    }

    /// Hides the rows of later tokens.
    #[inline(always)]
    fn hide_later_rows(&self, panel: &Panel, scratch: &mut Scratch) {
        for column in 0..panel.columns {
            let visible = self.sees(panel.first + column).saturating_sub(panel.start).min(panel.n);
            for row in visible..panel.n {
                scratch.logits[row * PANEL + column] = f32::NEG_INFINITY;
            }
        }
    }

    /// sums `[PANEL, head_dim]` = factor * sums + Vᵀ `[head_dim, n]` · softmax of the logits `[n, PANEL]`. There are n values
    /// at this address, so many floats apart.
    #[inline(always)]
    fn add_values(&self, panel: &Panel, (values, distance): (*const f32, usize), scratch: &mut Scratch) {
        let (isa, d, Panel { n, columns, .. }) = (self.isa, scratch.d, *panel);
        let state = &mut scratch.state[3 * panel.first..][..3 * PANEL];
        let logits = scratch.logits.as_mut_ptr();
        // SAFETY: isa is present; the shapes are those of the scratch parts; the callers have so many values there.
        unsafe {
            isa.enter(Softmax { logits, state: state.as_mut_ptr(), n, columns });
            isa.enter(Product {
                a: values,
                a_row: 1,
                a_step: distance,
                b: logits,
                c: scratch.sums[panel.first * d..][..PANEL * d].as_mut_ptr(),
                factor: state[2 * PANEL..].as_ptr(),
                rows: self.call.head_dim,
                steps: n,
                columns,
            });
        }
    }

    /// Writes the results of the queries.
    ///
    /// # Safety
    /// As for [`Tile::run`].
    unsafe fn write(&self, queries: usize, scratch: &Scratch, output: Output) {
        let (call, d) = (self.call, scratch.d);
        for i in 0..queries {
            let (head, t) = self.query(i);
            let (panel, column) = (i / PANEL, i % PANEL);
            let state = &scratch.state[panel * 3 * PANEL + column..];
            let (largest, total) = (state[0], state[PANEL]);
            let none = total == 0.0; // where a row was seen, at least 1 or NaN
            // Sums are relative to `largest`; with a sink they become relative to `base`.
            let sink = call.sink_logit(head) * LOG2_E;
            let base = largest.max(sink);
            let (factor, total) = match call.sink_logits {
                Some(_) if !none => {
                    let factor = (largest - base).exp2();
                    (factor, total * factor + (sink - base).exp2())
                }
                Some(_) => (1.0, (sink - base).exp2()),
                None => (1.0, total),
            };
            let at = t * call.n_heads() + head;
            // SAFETY: the caller's promise; head and t are below their counts.
            let out =
                unsafe { std::slice::from_raw_parts_mut(output.out.add(at * call.head_dim), call.head_dim) };
            let sums = &scratch.sums[panel * PANEL * d + column..];
            for (out, sum) in out.iter_mut().zip(sums.iter().step_by(PANEL)) {
                *out = if none { 0.0 } else { sum * factor / total };
            }
            if !output.lse.is_null() {
                // SAFETY: as above.
                unsafe {
                    *output.lse.add(at) =
                        if total == 0.0 { f32::NEG_INFINITY } else { (base + total.log2()) * LN_2 }
                };
            }
        }
    }

    /// Rows `start .. start + n` of the tile's head as f32, `[padded, n]`.
    fn convert(&self, rows: &crate::RowTensor, start: usize, n: usize, to: &mut [f32]) {
        let args = ConvertArgs {
            rows: rows.data[self.head * rows.head_stride + start * rows.row_stride..].as_ptr(),
            row_stride: rows.row_stride,
            n,
            head_dim: self.call.head_dim,
            to: to.as_mut_ptr(),
        };
        debug_assert!(to.len() >= n * padded(self.call.head_dim));
        // SAFETY: isa is present; check() has proved that the lane's rows are inside its tensors; `to` holds
        // a block.
        with_loader!(rows.ty, L => unsafe { self.isa.enter(Convert::<L>(args, PhantomData)) });
    }
}

/// Converts rows of any type to f32.
/// Safety: `n` rows of `head_dim` elements at `rows`; `[padded, n]` floats may be written at `to`.
struct Convert<L>(ConvertArgs, PhantomData<L>);

struct ConvertArgs {
    rows: *const u8,
    row_stride: usize,
    n: usize,
    head_dim: usize,
    to: *mut f32,
}

impl<L: Load> Kernel for Convert<L> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let a = self.0;
        let whole = a.head_dim / S::LANES;
        for r in Loop(0, a.n) {
            // SAFETY: the struct's contract.
            unsafe {
                let (row, to) = (a.rows.add(r * a.row_stride), a.to.add(r * padded(a.head_dim)));
                for c in Loop(0, whole) {
                    S::store(to.add(c * S::LANES), L::load::<S>(row, c));
                }
                if !a.head_dim.is_multiple_of(S::LANES) {
                    S::store(to.add(whole * S::LANES), L::load_half::<S>(row, whole));
                }
            }
        }
    }
}

/// C = A · B, or with `factor` C = factor * C + A · B. Rows of B and C have [`PANEL`] floats, of which the
/// first `columns` (rounded up to vectors) are computed: `c[i][x] = Σ_s a[i * a_row + s * a_step] * b[s][x]`,
/// `i < rows`, `s < steps`. `factor[x]` is one number per column, or null. Safety: the pointers cover these
/// shapes.
struct Product {
    a: *const f32,
    a_row: usize,
    a_step: usize,
    b: *const f32,
    c: *mut f32,
    factor: *const f32,
    rows: usize,
    steps: usize,
    columns: usize,
}

impl Kernel for Product {
    type Out = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: the struct's contract.
        unsafe { Strips::<S>::compute(&self) }
    }
}

/// A product of matrices that is computed in strips: some rows of some vectors of a panel's columns. Safety of all functions: the
/// instruction set is present, and the product's own contract.
trait Strips<S: Simd> {
    fn rows(&self) -> usize;
    /// Columns that are computed, rounded up to vectors.
    fn columns(&self) -> usize;
    /// M rows of N vectors, from this row and vector on.
    unsafe fn strip<const M: usize, const N: usize>(&self, row: usize, vector: usize);

    /// All of the product.
    #[inline(always)]
    unsafe fn compute(&self) {
        let vectors = self.columns().div_ceil(S::LANES);
        let mut x = 0;
        // SAFETY: the caller's promise; x counts vectors of a panel.
        unsafe {
            if const { STRIP * 4 <= S::ACCUMULATORS } {
                while x + 4 <= vectors {
                    self.all_rows::<4>(x);
                    x += 4;
                }
            }
            while x + 2 <= vectors {
                self.all_rows::<2>(x);
                x += 2;
            }
            if x < vectors {
                self.all_rows::<1>(x);
            }
        }
    }

    /// All rows of vectors `x .. x + N`.
    #[inline(always)]
    unsafe fn all_rows<const N: usize>(&self, x: usize) {
        let (rows, mut i) = (self.rows(), 0);
        // SAFETY: the caller's promise; i counts rows.
        unsafe {
            while i + STRIP <= rows {
                self.strip::<STRIP, N>(i, x);
                i += STRIP;
            }
            match rows - i {
                5 => self.strip::<5, N>(i, x),
                4 => self.strip::<4, N>(i, x),
                3 => self.strip::<3, N>(i, x),
                2 => self.strip::<2, N>(i, x),
                1 => self.strip::<1, N>(i, x),
                _ => {}
            }
        }
    }
}

impl<S: Simd> Strips<S> for Product {
    #[inline(always)]
    fn rows(&self) -> usize {
        self.rows
    }

    #[inline(always)]
    fn columns(&self) -> usize {
        self.columns
    }

    /// The sums are in registers for all steps.
    #[inline(always)]
    unsafe fn strip<const M: usize, const N: usize>(&self, i: usize, x: usize) {
        // SAFETY: the struct's contract.
        unsafe {
            let mut sums = [[S::splat(0.0); N]; M];
            let c = self.c.add(i * PANEL + x * S::LANES);
            if !self.factor.is_null() {
                for j in Loop(0, N) {
                    let factor = S::load(self.factor.add((x + j) * S::LANES));
                    for r in Loop(0, M) {
                        sums[r][j] = S::mul(S::load(c.add(r * PANEL + j * S::LANES)), factor);
                    }
                }
            }
            let mut a = self.a.add(i * self.a_row);
            let mut b = self.b.add(x * S::LANES);
            for _ in Loop(0, self.steps) {
                let mut row = [S::splat(0.0); N];
                for j in Loop(0, N) {
                    row[j] = S::load(b.add(j * S::LANES));
                }
                for r in Loop(0, M) {
                    let a = S::splat(*a.add(r * self.a_row));
                    for j in Loop(0, N) {
                        sums[r][j] = S::fma(a, row[j], sums[r][j]);
                    }
                }
                a = a.add(self.a_step);
                b = b.add(PANEL);
            }
            for r in Loop(0, M) {
                for j in Loop(0, N) {
                    S::store(c.add(r * PANEL + j * S::LANES), sums[r][j]);
                }
            }
        }
    }
}

/// Adds slope * (position of the row - position of the query) to logits `[PANEL, positions.len()]`. Safety: the logits
/// may be written; `distances` `[PANEL, 2]` has slopes and positions, the latter relative to `origin`.
struct Bias<'a> {
    logits: *mut f32,
    positions: &'a [i32],
    origin: i32,
    distances: &'a [f32],
}

impl Kernel for Bias<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        for r in Loop(0, self.positions.len()) {
            // SAFETY: the struct's contract.
            unsafe {
                let position = S::splat(self.positions[r].wrapping_sub(self.origin) as f32);
                for x in Loop(0, PANEL / S::LANES) {
                    let (slope, own) = (x * S::LANES, PANEL + x * S::LANES);
                    let distance = S::sub(position, S::load(self.distances.as_ptr().add(own)));
                    let slope = S::load(self.distances.as_ptr().add(slope));
                    let logits = self.logits.add(r * PANEL + x * S::LANES);
                    S::store(logits, S::fma(slope, distance, S::load(logits)));
                }
            }
        }
    }
}

/// Sets the logits `[PANEL, positions.len()]` of rows before the windows to `-inf`. Safety: the logits may be written;
/// `firsts` `[PANEL]` has the first position of each query's window, relative to `origin`.
struct Hide<'a> {
    logits: *mut f32,
    positions: &'a [i32],
    origin: i32,
    firsts: &'a [f32],
}

impl Kernel for Hide<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        for r in Loop(0, self.positions.len()) {
            // SAFETY: the struct's contract.
            unsafe {
                let position = S::splat(2.0 * self.positions[r].wrapping_sub(self.origin) as f32);
                for x in Loop(0, PANEL / S::LANES) {
                    let first = S::load(self.firsts.as_ptr().add(x * S::LANES));
                    let before = S::sub(position, S::add(first, first)); // 0 or more in the window, otherwise at most -2
                    let hidden = S::mul(S::min(before, S::splat(0.0)), S::splat(f32::MAX)); // 0 or -inf
                    let logits = self.logits.add(r * PANEL + x * S::LANES);
                    S::store(logits, S::add(S::load(logits), hidden));
                }
            }
        }
    }
}

/// Turns logits `[PANEL, n]` into weights relative to each column's new maximum, and updates the state:
/// maxima, denominators and rescaling factors `[PANEL, 3]`. Only the first `columns` (rounded up to vectors)
/// are computed. Safety: the pointers cover these shapes.
struct Softmax {
    logits: *mut f32,
    state: *mut f32,
    n: usize,
    columns: usize,
}

impl Kernel for Softmax {
    type Out = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        for x in Loop(0, self.columns.div_ceil(S::LANES)) {
            // SAFETY: the struct's contract.
            unsafe {
                let logits = self.logits.add(x * S::LANES);
                let state = self.state.add(x * S::LANES);
                let old = S::load(state);
                let mut new = old;
                for r in Loop(0, self.n) {
                    new = S::max(new, S::load(logits.add(r * PANEL)));
                }
                // A finite base where a column has seen no row yet: -inf - base must not be NaN.
                let base = S::max(new, S::splat(f32::MIN));
                let mut sum = S::splat(0.0);
                for r in Loop(0, self.n) {
                    let p = exp2::<S>(S::sub(S::load(logits.add(r * PANEL)), base));
                    S::store(logits.add(r * PANEL), p);
                    sum = S::add(sum, p);
                }
                let factor = exp2::<S>(S::sub(old, base));
                S::store(state, new);
                S::store(state.add(PANEL), S::fma(S::load(state.add(PANEL)), factor, sum));
                S::store(state.add(2 * PANEL), factor);
            }
        }
    }
}

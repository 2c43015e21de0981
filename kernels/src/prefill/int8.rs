//! Prefill in integers of few bits, for rows that all queries of a tile see, on processors that multiply bytes
//! ([`Isa::has_bytes`]). The first rows of a tile, to which most heads attend, and the last ones, up to the causal
//! diagonal, are multiplied in f32 as elsewhere.
//!
//! - Logits: queries have a scale each. So have keys, from which the mean of some keys is taken off first: a few elements
//!   are large in all keys of many models. What the mean gives for each query is added in f32.
//! - Weights are unsigned bytes relative to the largest of a block and query. So rows that matter little are not lost
//!   beside one that matters more, unless both are in the same block. Denominators are sums of the rounded weights.
//! - Values have a scale for each element and block of rows.
//! - ARM's dot products take signed bytes only ([`ByteSimd::SIGNED`]). There keys are signed, and weights have 128 taken off. Both
//!   changes cost no accuracy: what they change in a sum of products is known when it starts.
//! - AVX2 without VNNI adds up products of bytes in 16 bits before it widens them. With weights and values of 7 bits
//!   ([`ByteSimd::BITS`]) four products fit. Queries and keys have 11 bits there, since an error of a logit matters more.
//!
//! Sums of products have no rounding: those of a head's elements, or of a block's rows, fit 32 bits. Blocks with numbers that
//! are infinite, NaN or above 1e30 are left to f32.
//!
//! SageAttention (arXiv 2410.02367) does the same for GPUs, with weights relative to the largest of all rows so far, and a
//! scale of values for all rows.
//!
//! # History
//! On Zen 5, one thread, 512 queries, f16, beside f32 in the same run. With AVX-512: 1.8 to 2.3 times as fast behind 2,048
//! rows, 2.5 to 2.8 times behind 8,192, and 2.8 to 3.0 times behind 32,768 (head_dim 64, 80 and 128). There f32 reaches 77
//! to 83 % of its peak. AVX-VNNI beside AVX2: 2.6 to 2.85 times behind 8,192 rows.
//!
//! On Zen 3, with AVX2 alone: 1.5 to 1.6 times as fast as f32 behind 8,192 rows. The first version had queries and keys of 7 bits,
//! too. It was 1.74 to 1.9 times as fast, but predictions of a model in f16 had a KL of 0.0007, now less than 0.00005.
//!
//! Not tried: weights in 16 bits where there is VNNI, which need twice the products with values.

use std::ops::Range;

use super::{PANEL, Product, Scratch, Strips, Tile, sparse};
use crate::attention::Attention;
use crate::decode::padded;
use crate::exp::{exp2, rough_exp2};
use crate::simd::{ByteKernel, ByteSimd, Isa, Kernel, Loop, Simd, key_bytes};

/// Queries of a tile. They share the rounding of keys and values.
pub(super) const TILE: usize = 4 * PANEL;
/// Rows of a block, a multiple of four.
pub(super) const BLOCK: usize = 2 * super::BLOCK;
/// Blocks from which this way is taken.
const MIN_BLOCKS: usize = 2;
/// Tokens from which this way is taken: fewer would share the rounding of rows.
const MIN_TOKENS: usize = 32;
/// Sums of products of so many elements of queries and keys fit 32 bits.
const MAX_HEAD_DIM: usize = 2048;
/// Rows whose mean is taken off the keys.
const MEAN_ROWS: usize = 32;
/// Numbers are rounded to zero where none is above this one: its inverse times [`Rounding::LARGEST`] is finite.
const SMALLEST: f32 = 1e-30;
/// Larger numbers are left to f32: what becomes of their products may be infinite.
const TOO_LARGE: f32 = 1e30;
/// Ones in all bytes of a lane.
const ONES: [u8; 4] = [1; 4];

/// How numbers become integers of few bits.
trait Rounding: ByteSimd {
    /// The number of elements of queries and keys in a word.
    const KEYS: usize = 4 / key_bytes::<Self>();
    /// The largest absolute value of rounded queries and keys.
    const LARGEST_KEY: f32 = ((1 << (Self::KEY_BITS - 1)) - 1) as f32;
    /// What is added to rounded keys, so that they are not negative where they must not be.
    const KEY_OFFSET: f32 = if Self::SIGNED || Self::KEYS < 4 { 0.0 } else { Self::OFFSET as f32 };
    /// What is added to keys of 8 bits, or taken off weights where all bytes are signed.
    const OFFSET: i32 = 1 << (Self::BITS - 1);
    /// The largest absolute value of rounded values.
    const LARGEST: f32 = (Self::OFFSET - 1) as f32;
    /// The largest rounded weight, and its logarithm.
    const LARGEST_WEIGHT: f32 = (2 * Self::OFFSET - 1) as f32;
    const LOG2_LARGEST_WEIGHT: f32 = if Self::BITS == 8 { 7.994_353_4 } else { 6.988_684_7 };
    /// Offsets in all bytes of a lane.
    const OFFSETS: [u8; 4] = [Self::OFFSET as u8; 4];
    /// What the weights of a block have less in sum where all bytes are signed, as the integer of a lane.
    const OFFSETS_OF_BLOCK: [u8; 4] = (Self::OFFSET * BLOCK as i32).to_ne_bytes();
}

impl<S: ByteSimd> Rounding for S {}

/// Whether old rows of a call are multiplied in bytes: where there are so many tokens and old rows that it pays.
pub(super) fn is_used(isa: Isa, call: &Attention) -> bool {
    let has_positions = call.window.is_some_and(|window| window.positions.is_some());
    let old_rows = call.lanes.iter().map(|lane| lane.rows.saturating_sub(call.n_q)).max().unwrap_or(0);
    let seen =
        call.window.map_or(usize::MAX, |window| window.tokens.saturating_sub(TILE / call.group.max(1)));
    call.int8
        && call.n_q >= MIN_TOKENS
        && isa.has_bytes()
        && call.head_dim <= MAX_HEAD_DIM
        && call.alibi.is_none()
        && call.softcap.is_none()
        && !has_positions
        && old_rows.min(seen) >= super::BLOCK + MIN_BLOCKS * BLOCK
}

/// Floats of scratch memory.
pub(super) fn scratch_len(d: usize) -> usize {
    // Elements of queries and keys may have two bytes.
    let bytes = 2 * TILE * d + 2 * BLOCK * d + BLOCK * d + BLOCK * PANEL;
    bytes / 4 + BLOCK * d + BLOCK * PANEL + 3 * TILE + BLOCK + 3 * d + 2 * PANEL
}

/// Scratch memory for bytes. `d` is the padded head_dim.
pub(super) struct Bytes<'a> {
    /// `[4, PANEL, d / 4]` bytes, or `[2, PANEL, d / 2]` integers of 16 bits, for each panel: rounded queries.
    q: &'a mut [f32],
    /// `[PANEL, 3]` for each panel: scales of queries, integers at which sums of products with keys start, logits of the
    /// mean key.
    of_queries: &'a mut [f32],
    /// `[d, BLOCK]`: keys, then values, in f32.
    rows: &'a mut [f32],
    /// `[d, BLOCK]` bytes, or integers of 16 bits: rounded keys, plus [`Rounding::KEY_OFFSET`].
    k: &'a mut [f32],
    /// `[BLOCK]`
    k_scales: &'a mut [f32],
    /// `[4, d, BLOCK / 4]` bytes: rounded values.
    v: &'a mut [f32],
    /// `[d]`
    v_scales: &'a mut [f32],
    /// `[d]`: integers at which sums of products with values start where all bytes are signed.
    v_starts: &'a mut [f32],
    /// `[d]`: the mean key.
    mean: &'a mut [f32],
    /// `[PANEL, BLOCK]`: logits in units of the query's scale, without those of the mean key.
    logits: &'a mut [f32],
    /// `[4, PANEL, BLOCK / 4]` bytes: rounded weights, minus [`Rounding::OFFSET`] where all bytes are signed.
    weights: &'a mut [f32],
    /// `[PANEL]`: the largest logits of a block.
    largest: &'a mut [f32],
    /// `[PANEL]`: what rounded weights are multiplied with.
    weight_scales: &'a mut [f32],
}

impl<'a> Bytes<'a> {
    /// `scratch` has [`scratch_len`] floats.
    pub(super) fn new(scratch: &'a mut [f32], d: usize) -> Bytes<'a> {
        let mut rest = scratch;
        let mut part = |floats: usize| {
            let (part, others) = std::mem::take(&mut rest).split_at_mut(floats);
            rest = others;
            part
        };
        Bytes {
            q: part(TILE * d / 2),
            rows: part(BLOCK * d),
            k: part(BLOCK * d / 2),
            v: part(BLOCK * d / 4),
            logits: part(BLOCK * PANEL),
            weights: part(BLOCK * PANEL / 4),
            of_queries: part(3 * TILE),
            k_scales: part(BLOCK),
            v_scales: part(d),
            v_starts: part(d),
            mean: part(d),
            largest: part(PANEL),
            weight_scales: part(PANEL),
        }
    }

    /// Adds the weights to the logits of the panel from query `panel` on, while `attend` runs.
    pub(super) fn with_weights(
        &mut self,
        panel: usize,
        weights: &[f32; PANEL],
        attend: impl FnOnce(&mut Self),
    ) {
        let of_mean = 3 * panel + 2 * PANEL..3 * panel + 3 * PANEL;
        let mut without = [0.0; PANEL];
        without.copy_from_slice(&self.of_queries[of_mean.clone()]);
        self.of_queries[of_mean.clone()].iter_mut().zip(weights).for_each(|(logit, weight)| *logit += weight);
        attend(self);
        self.of_queries[of_mean].copy_from_slice(&without);
    }

    /// Hides the rows of a block that have a logit above the limit of its query, in the panel from query `panel` on. They are
    /// added to `chosen`, the first row of the block as `first`. Whether any row is left.
    pub(super) fn choose(
        &mut self,
        isa: Isa,
        panel: usize,
        limits: &[f32; PANEL],
        first: usize,
        chosen: &mut Vec<usize>,
    ) -> bool {
        // Logits are in units of the query's scale, without those of the mean key.
        let mut in_units = *limits;
        let (scales, rest) = self.of_queries[3 * panel..].split_at(PANEL);
        for ((limit, scale), of_mean) in in_units.iter_mut().zip(scales).zip(&rest[PANEL..]) {
            *limit = (*limit - of_mean) / scale;
        }
        let before = chosen.len();
        sparse::choose_rows(isa, self.logits, &in_units, first, chosen);
        if chosen.len() > before {
            // SAFETY: isa is present; a block of logits.
            unsafe {
                isa.enter(Largest { logits: self.logits.as_ptr(), largest: self.largest.as_mut_ptr() })
            };
        }
        chosen.len() - before < BLOCK
    }
}

impl Tile<'_> {
    /// Those of the rows that can be multiplied in bytes: whole blocks that all queries see, behind the first rows.
    pub(super) fn rows_in_bytes(&self, rows: &Range<usize>, queries: usize) -> Range<usize> {
        let start = (rows.start + super::BLOCK).max(self.sees_from(queries - 1));
        let blocks = self.sees(0).min(rows.end).saturating_sub(start) / BLOCK;
        if self.len == TILE && blocks >= MIN_BLOCKS {
            start..start + blocks * BLOCK
        } else {
            rows.end..rows.end
        }
    }

    /// Attends to [`rows_in_bytes`](Self::rows_in_bytes).
    pub(super) fn attend_in_bytes(&self, rows: Range<usize>, queries: usize, scratch: &mut Scratch) {
        if rows.is_empty() {
            return;
        }
        let Some(mut bytes) = scratch.bytes.take() else { return };
        self.find_mean(&rows, &mut bytes);
        let can_round = self.round_queries(queries, scratch, &mut bytes);
        let (k, v) = (&self.lane.k, &self.lane.v);
        for start in rows.step_by(BLOCK) {
            let keys = |to: &mut [f32]| self.convert(k, start, BLOCK, to);
            let values = |to: &mut [f32]| self.convert(v, start, BLOCK, to);
            if !(can_round && self.round_block(keys, values, &mut bytes)) {
                self.attend_in_f32(start..start + BLOCK, queries, scratch);
                continue;
            }
            for first in (0..queries).step_by(PANEL) {
                let columns = PANEL.min(queries - first);
                self.multiply_rounded_keys(first, columns, scratch.d, &mut bytes);
                self.add_rounded_values(first, columns, scratch, &mut bytes);
            }
        }
        scratch.bytes = Some(bytes);
    }

    /// The mean of some of the keys of these rows.
    pub(super) fn find_mean(&self, rows: &Range<usize>, bytes: &mut Bytes) {
        let Bytes { mean, rows: row, .. } = bytes;
        mean.fill(0.0);
        for i in 0..MEAN_ROWS {
            self.convert(&self.lane.k, rows.start + rows.len() * i / MEAN_ROWS, 1, row);
            for (mean, x) in mean[..self.call.head_dim].iter_mut().zip(&row[..]) {
                *mean += x * (1.0 / MEAN_ROWS as f32);
            }
        }
    }

    /// Rounds the queries, and multiplies them with the mean key. Whether all can be rounded.
    pub(super) fn round_queries(&self, queries: usize, scratch: &Scratch, bytes: &mut Bytes) -> bool {
        let (isa, d) = (self.isa, scratch.d);
        let Bytes { q, of_queries, mean, .. } = bytes;
        let key_floats = d * isa.key_bytes() / 4;
        let mut can_round = true;
        for first in (0..queries).step_by(PANEL) {
            let from = scratch.q[first * d..][..PANEL * d].as_ptr();
            let of_queries = of_queries[3 * first..][..3 * PANEL].as_mut_ptr();
            let kernel = RoundColumns {
                from,
                stride: PANEL,
                rows: self.call.head_dim,
                columns: PANEL,
                is_queries: true,
                to: q[key_floats * first..][..key_floats * PANEL].as_mut_ptr().cast(),
                scales: of_queries,
                starts: of_queries.wrapping_add(PANEL),
            };
            // SAFETY: isa has bytes where there is scratch memory for them; the shapes are those of its parts.
            unsafe {
                can_round &= isa.enter_with_bytes(kernel);
                isa.enter(Product {
                    a: mean.as_ptr(),
                    a_row: 0,
                    a_step: 1,
                    b: from,
                    c: of_queries.add(2 * PANEL),
                    factor: std::ptr::null(),
                    rows: 1,
                    steps: self.call.head_dim,
                    columns: PANEL,
                });
            }
        }
        can_round
    }

    /// Rounds a block of rows, which the functions write: `[d, BLOCK]` keys or values in f32. Whether all can be.
    pub(super) fn round_block(
        &self,
        keys: impl Fn(&mut [f32]),
        values: impl Fn(&mut [f32]),
        bytes: &mut Bytes,
    ) -> bool {
        let (isa, d) = (self.isa, self.call.head_dim);
        let Bytes { rows, k, k_scales, v, v_scales, v_starts, mean, .. } = bytes;
        keys(rows);
        let keys = RoundKeys {
            rows: rows.as_ptr(),
            mean: mean.as_ptr(),
            d,
            to: k.as_mut_ptr().cast(),
            scales: k_scales.as_mut_ptr(),
        };
        // SAFETY: as for the queries.
        let can_round = unsafe { isa.enter_with_bytes(keys) };
        values(rows);
        let values = RoundColumns {
            from: rows.as_ptr(),
            stride: padded(d),
            rows: BLOCK,
            columns: d,
            is_queries: false,
            to: v.as_mut_ptr().cast(),
            scales: v_scales.as_mut_ptr(),
            starts: v_starts.as_mut_ptr(),
        };
        // SAFETY: as for the queries.
        can_round && unsafe { isa.enter_with_bytes(values) }
    }

    /// The logits of the rounded block with the queries `first .. first + columns` of a panel.
    pub(super) fn multiply_rounded_keys(&self, first: usize, columns: usize, d: usize, bytes: &mut Bytes) {
        let key_bytes = self.isa.key_bytes();
        let key_floats = d * key_bytes / 4;
        bytes.largest.fill(f32::NEG_INFINITY);
        let product = ByteProduct {
            a: bytes.k.as_ptr().cast(),
            a_row: d * key_bytes,
            a_step: 4,
            b: bytes.q[key_floats * first..][..key_floats * PANEL].as_ptr().cast(),
            rows: BLOCK,
            steps: self.call.head_dim * key_bytes / 4,
            columns,
            epilogue: Logits {
                scales: bytes.k_scales.as_ptr(),
                starts: bytes.of_queries[3 * first + PANEL..][..PANEL].as_ptr(),
                logits: bytes.logits.as_mut_ptr(),
                largest: bytes.largest.as_mut_ptr(),
            },
        };
        // SAFETY: as for the queries.
        unsafe { self.isa.enter_with_bytes(product) };
    }

    /// Adds the values of the rounded block, weighted by the softmax of its logits, to the sums of the same queries.
    pub(super) fn add_rounded_values(
        &self,
        first: usize,
        columns: usize,
        scratch: &mut Scratch,
        bytes: &mut Bytes,
    ) {
        let (isa, d) = (self.isa, scratch.d);
        let state = scratch.state[3 * first..][..3 * PANEL].as_mut_ptr();
        // SAFETY: as for the queries.
        unsafe {
            isa.enter_with_bytes(Weigh {
                logits: bytes.logits.as_ptr(),
                largest: bytes.largest.as_ptr(),
                of_queries: bytes.of_queries[3 * first..][..3 * PANEL].as_ptr(),
                state,
                weights: bytes.weights.as_mut_ptr().cast(),
                scales: bytes.weight_scales.as_mut_ptr(),
                columns,
            });
            isa.enter_with_bytes(ByteProduct {
                a: bytes.v.as_ptr().cast(),
                a_row: 4,
                a_step: 4 * d,
                b: bytes.weights.as_ptr().cast(),
                rows: self.call.head_dim,
                steps: BLOCK / 4,
                columns,
                epilogue: Sums {
                    scales: bytes.v_scales.as_ptr(),
                    starts: bytes.v_starts.as_ptr(),
                    weight_scales: bytes.weight_scales.as_ptr(),
                    factors: state.add(2 * PANEL),
                    sums: scratch.sums[first * d..][..PANEL * d].as_mut_ptr(),
                },
            });
        }
    }
}

/// Rounds columns of `rows` numbers, a multiple of four, to bytes, four numbers of each column side by side, or to what queries
/// become. Whether all can be. Numbers of a column are `stride` apart, and words as many. Safety: the pointers cover these
/// shapes, with whole vectors of columns.
struct RoundColumns {
    from: *const f32,
    stride: usize,
    rows: usize,
    columns: usize,
    is_queries: bool,
    to: *mut u8,
    /// `[columns]`
    scales: *mut f32,
    /// `[columns]` integers: where sums of products with bytes start that have [`Rounding::OFFSET`] added, or taken off. Not
    /// written where there are no such bytes.
    starts: *mut f32,
}

impl ByteKernel for RoundColumns {
    type Out = bool;

    #[inline(always)]
    unsafe fn run<S: ByteSimd>(self) -> bool {
        let mut can_round = true;
        let (of_word, max) = if self.is_queries { (S::KEYS, S::LARGEST_KEY) } else { (4, S::LARGEST) };
        for x in Loop(0, self.columns.div_ceil(S::LANES)) {
            // SAFETY: the struct's contract.
            unsafe {
                let column = x * S::LANES;
                let from = self.from.add(column);
                let mut largest = S::splat(0.0);
                for r in Loop(0, self.rows) {
                    largest = S::larger_magnitude(largest, S::load(from.add(r * self.stride)));
                }
                can_round &= S::largest_magnitude(largest) < TOO_LARGE;
                let largest = S::max(largest, S::splat(SMALLEST));
                let inverse = S::div(S::splat(max), largest);
                let mut sums = S::zeros();
                for r in Loop(0, self.rows / of_word) {
                    let mut numbers = [S::zeros(); 4];
                    for j in Loop(0, of_word) {
                        let x = S::load(from.add((of_word * r + j) * self.stride));
                        numbers[j] = S::nearest(S::mul(x, inverse));
                    }
                    let words =
                        if self.is_queries { S::pack_queries(numbers) } else { S::pack_signed(numbers) };
                    S::store_integers(self.to.add(4 * (r * self.stride + column)), words);
                    if of_word == 4 {
                        // As a signed byte, the offset is negative: weights have it taken off.
                        sums = S::multiply_bytes(S::splat_word(S::OFFSETS.as_ptr()), words, sums);
                    }
                }
                S::store(self.scales.add(column), S::mul(largest, S::splat(1.0 / max)));
                if of_word == 4 {
                    S::store_integers(self.starts.add(column).cast(), S::subtract(S::zeros(), sums));
                }
            }
        }
        can_round
    }
}

/// Rounds keys `[d, BLOCK]`, without the mean, to integers of the same shape, plus [`Rounding::KEY_OFFSET`]. Whether all can be.
/// Safety: the pointers cover these shapes, with rows of a padded d; `scales` is `[BLOCK]`.
struct RoundKeys {
    rows: *const f32,
    mean: *const f32,
    d: usize,
    to: *mut u8,
    scales: *mut f32,
}

impl ByteKernel for RoundKeys {
    type Out = bool;

    #[inline(always)]
    unsafe fn run<S: ByteSimd>(self) -> bool {
        let mut can_round = true;
        let vectors = self.d.div_ceil(S::LANES);
        for r in Loop(0, BLOCK) {
            // SAFETY: the struct's contract.
            unsafe {
                let row = self.rows.add(r * padded(self.d));
                let to = self.to.add(r * padded(self.d) * key_bytes::<S>());
                let centred =
                    |c: usize| S::sub(S::load(row.add(c * S::LANES)), S::load(self.mean.add(c * S::LANES)));
                let mut largest = S::splat(0.0);
                for c in Loop(0, vectors) {
                    largest = S::larger_magnitude(largest, centred(c));
                }
                let largest = S::largest_magnitude(largest);
                can_round &= largest < TOO_LARGE;
                let largest = if largest > SMALLEST { largest } else { SMALLEST };
                let inverse = S::splat(S::LARGEST_KEY / largest);
                for c in Loop(0, vectors) {
                    let x = S::fma(centred(c), inverse, S::splat(S::KEY_OFFSET));
                    S::store_keys(to.add(c * S::LANES * key_bytes::<S>()), x);
                }
                *self.scales.add(r) = largest * (1.0 / S::LARGEST_KEY);
            }
        }
        can_round
    }
}

/// A product of matrices of integers: for each row, and each column of a panel, a sum of products, and what becomes of it. Safety:
/// the pointers cover the shapes.
struct ByteProduct<E> {
    /// Rows, in words: `a_row` bytes are from one row to the next, `a_step` from one word to the next.
    a: *const u8,
    a_row: usize,
    a_step: usize,
    /// `[4, PANEL, steps]` bytes: the columns, in words.
    b: *const u8,
    rows: usize,
    steps: usize,
    columns: usize,
    epilogue: E,
}

/// What becomes of the sums of a [`ByteProduct`].
trait Epilogue {
    /// Where a row's sums of a vector of columns start.
    unsafe fn start<S: ByteSimd>(&self, row: usize, column: usize) -> S::Integers;
    /// Adds the products of a word of a row with those of the columns.
    unsafe fn add<S: ByteSimd>(a: S::Integers, b: S::Integers, sum: S::Integers) -> S::Integers;
    /// The same of two words.
    #[inline(always)]
    unsafe fn add_two<S: ByteSimd>(
        a: [S::Integers; 2],
        b: [S::Integers; 2],
        sum: S::Integers,
    ) -> S::Integers {
        // SAFETY: the caller's promise.
        unsafe { Self::add::<S>(a[1], b[1], Self::add::<S>(a[0], b[0], sum)) }
    }
    /// Takes M rows of N vectors.
    unsafe fn finish<S: ByteSimd, const M: usize, const N: usize>(
        &self,
        row: usize,
        column: usize,
        sums: [[S::Integers; N]; M],
    );
}

impl<E: Epilogue> ByteKernel for ByteProduct<E> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<S: ByteSimd>(self) {
        // SAFETY: the struct's contract.
        unsafe { Strips::<S>::compute(&self) }
    }
}

impl<S: ByteSimd, E: Epilogue> Strips<S> for ByteProduct<E> {
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
            let mut sums = [[S::zeros(); N]; M];
            for j in Loop(0, N) {
                for r in Loop(0, M) {
                    sums[r][j] = self.epilogue.start::<S>(i + r, (x + j) * S::LANES);
                }
            }
            let mut a = self.a.add(i * self.a_row);
            let mut b = self.b.add(4 * x * S::LANES);
            let twos = if S::IN_TWOS { self.steps / 2 } else { 0 };
            for _ in Loop(0, twos) {
                let mut row = [[S::zeros(); 2]; N];
                for j in Loop(0, N) {
                    let b = b.add(4 * j * S::LANES);
                    row[j] = [S::load_words(b), S::load_words(b.add(4 * PANEL))];
                }
                for r in Loop(0, M) {
                    let a = a.add(r * self.a_row);
                    let a = [S::splat_word(a), S::splat_word(a.add(self.a_step))];
                    for j in Loop(0, N) {
                        sums[r][j] = E::add_two::<S>(a, row[j], sums[r][j]);
                    }
                }
                a = a.add(2 * self.a_step);
                b = b.add(2 * 4 * PANEL);
            }
            for _ in Loop(2 * twos, self.steps) {
                let mut row = [S::zeros(); N];
                for j in Loop(0, N) {
                    row[j] = S::load_words(b.add(4 * j * S::LANES));
                }
                for r in Loop(0, M) {
                    let a = S::splat_word(a.add(r * self.a_row));
                    for j in Loop(0, N) {
                        sums[r][j] = E::add::<S>(a, row[j], sums[r][j]);
                    }
                }
                a = a.add(self.a_step);
                b = b.add(4 * PANEL);
            }
            self.epilogue.finish::<S, M, N>(i, x * S::LANES, sums);
        }
    }
}

/// Products with keys become the logits `[PANEL, BLOCK]` of a block, in units of the query's scale, and the largest of each query.
/// Safety: the pointers cover the shapes in [`Bytes`].
struct Logits {
    /// Of the keys.
    scales: *const f32,
    starts: *const f32,
    logits: *mut f32,
    largest: *mut f32,
}

impl Epilogue for Logits {
    #[inline(always)]
    unsafe fn start<S: ByteSimd>(&self, _row: usize, column: usize) -> S::Integers {
        // SAFETY: the caller's promise.
        unsafe {
            if S::KEY_OFFSET == 0.0 { S::zeros() } else { S::load_words(self.starts.add(column).cast()) }
        }
    }
    #[inline(always)]
    unsafe fn add<S: ByteSimd>(a: S::Integers, b: S::Integers, sum: S::Integers) -> S::Integers {
        // SAFETY: the caller's promise.
        unsafe { S::multiply_keys(a, b, sum) }
    }
    #[inline(always)]
    unsafe fn finish<S: ByteSimd, const M: usize, const N: usize>(
        &self,
        row: usize,
        column: usize,
        sums: [[S::Integers; N]; M],
    ) {
        // SAFETY: the struct's contract.
        unsafe {
            let mut largest = [S::splat(0.0); N];
            for j in Loop(0, N) {
                largest[j] = S::load(self.largest.add(column + j * S::LANES));
            }
            for r in Loop(0, M) {
                let scale = S::splat(*self.scales.add(row + r));
                let logits = self.logits.add((row + r) * PANEL + column);
                for j in Loop(0, N) {
                    let x = S::mul(S::floats(sums[r][j]), scale);
                    S::store(logits.add(j * S::LANES), x);
                    largest[j] = S::max(largest[j], x);
                }
            }
            for j in Loop(0, N) {
                S::store(self.largest.add(column + j * S::LANES), largest[j]);
            }
        }
    }
}

/// The largest of the logits `[PANEL, BLOCK]` of each query. Safety: the pointers cover these shapes.
struct Largest {
    logits: *const f32,
    largest: *mut f32,
}

impl Kernel for Largest {
    type Out = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        for x in Loop(0, PANEL / S::LANES) {
            // SAFETY: the struct's contract.
            unsafe {
                let mut largest = S::splat(f32::NEG_INFINITY);
                for r in Loop(0, BLOCK) {
                    largest = S::max(largest, S::load(self.logits.add(r * PANEL + x * S::LANES)));
                }
                S::store(self.largest.add(x * S::LANES), largest);
            }
        }
    }
}

/// Rounds a block's weights to `[4, PANEL, BLOCK / 4]` bytes with a scale for each query, and updates the state `[PANEL, 3]`.
/// Safety: the pointers cover these shapes, and those in [`Bytes`].
struct Weigh {
    logits: *const f32,
    largest: *const f32,
    of_queries: *const f32,
    state: *mut f32,
    weights: *mut u8,
    scales: *mut f32,
    columns: usize,
}

impl ByteKernel for Weigh {
    type Out = ();

    #[inline(always)]
    unsafe fn run<S: ByteSimd>(self) {
        for x in Loop(0, self.columns.div_ceil(S::LANES)) {
            // SAFETY: the struct's contract.
            unsafe {
                let column = x * S::LANES;
                let q_scale = S::load(self.of_queries.add(column));
                let of_mean = S::load(self.of_queries.add(2 * PANEL + column));
                let largest = S::load(self.largest.add(column));
                let (logits, weights) = (self.logits.add(column), self.weights.add(4 * column));
                let ones = S::splat_word(ONES.as_ptr());
                let mut sum =
                    if S::SIGNED { S::splat_word(S::OFFSETS_OF_BLOCK.as_ptr()) } else { S::zeros() };
                for r in Loop(0, BLOCK / 4) {
                    let mut four = [S::zeros(); 4];
                    for j in Loop(0, 4) {
                        let logit = S::load(logits.add((4 * r + j) * PANEL));
                        // The difference first: the largest logit has the largest weight, however large it is.
                        let below = S::sub(logit, largest);
                        let x = S::fma(below, q_scale, S::splat(S::LOG2_LARGEST_WEIGHT));
                        four[j] = S::nearest(rough_exp2::<S>(x));
                    }
                    let four = S::pack_unsigned(four);
                    S::store_integers(weights.add(4 * r * PANEL), four);
                    sum = S::multiply_bytes(four, ones, sum);
                }
                let state = self.state.add(column);
                let (old, own) = (S::load(state), S::fma(largest, q_scale, of_mean));
                let new = S::max(old, own);
                let factor = exp2::<S>(S::sub(old, new));
                let scale = S::mul(exp2::<S>(S::sub(own, new)), S::splat(1.0 / S::LARGEST_WEIGHT));
                let total = S::mul(S::load(state.add(PANEL)), factor);
                S::store(state, new);
                S::store(state.add(PANEL), S::fma(S::floats(sum), scale, total));
                S::store(state.add(2 * PANEL), factor);
                S::store(self.scales.add(column), scale);
            }
        }
    }
}

/// Products with values are added to `sums` `[PANEL, rows]`, which are multiplied with the factors `[PANEL]` before. Safety: the
/// pointers cover these shapes, and those in [`Bytes`].
struct Sums {
    /// Of the values.
    scales: *const f32,
    /// `[rows]` integers, read where all bytes are signed: where a row's sums start.
    starts: *const f32,
    weight_scales: *const f32,
    factors: *const f32,
    sums: *mut f32,
}

impl Epilogue for Sums {
    #[inline(always)]
    unsafe fn start<S: ByteSimd>(&self, row: usize, _column: usize) -> S::Integers {
        // SAFETY: the caller's promise.
        unsafe { if S::SIGNED { S::splat_word(self.starts.add(row).cast()) } else { S::zeros() } }
    }
    #[inline(always)]
    unsafe fn add<S: ByteSimd>(a: S::Integers, b: S::Integers, sum: S::Integers) -> S::Integers {
        // SAFETY: the caller's promise.
        unsafe { S::multiply_bytes(b, a, sum) }
    }
    #[inline(always)]
    unsafe fn add_two<S: ByteSimd>(
        a: [S::Integers; 2],
        b: [S::Integers; 2],
        sum: S::Integers,
    ) -> S::Integers {
        // SAFETY: the caller's promise.
        unsafe { S::multiply_two(b, a, sum) }
    }
    #[inline(always)]
    unsafe fn finish<S: ByteSimd, const M: usize, const N: usize>(
        &self,
        row: usize,
        column: usize,
        sums: [[S::Integers; N]; M],
    ) {
        // SAFETY: the struct's contract.
        unsafe {
            for j in Loop(0, N) {
                let at = column + j * S::LANES;
                let (factor, scale) = (S::load(self.factors.add(at)), S::load(self.weight_scales.add(at)));
                for r in Loop(0, M) {
                    let sum = self.sums.add((row + r) * PANEL + at);
                    let own = S::mul(S::floats(sums[r][j]), S::splat(*self.scales.add(row + r)));
                    S::store(sum, S::fma(own, scale, S::mul(S::load(sum), factor)));
                }
            }
        }
    }
}

//! Decode attention over quantised rows in integers. A block of 32 rows is cut into *tiles* of 32 rows and 32 elements,
//! the blocks of the row types. Each is unpacked to 16-bit integers once for all queries. Then keys and values
//! are the same work: 16 pairs of integers for each of 32 lanes, times 16 pairs that all lanes share, added up in 32 bits.
//!
//! - Keys: a lane is a row, and a pair has two of its elements. The other factors are those of a query.
//! - Values: a lane is an element, and a pair has two rows. The other factors are a query's weights of the rows,
//!   times the rows' scales.
//!
//! Queries and weights are rounded to 16 bits, with one scale for the 32 of a tile. Sums have no rounding: 32 products of
//! 16 and 8 bits are below 2^27. Without a window, what a query gets from the rows of a thread does not depend on the other queries.
//!
//! For the instruction sets that multiply pairs of integers in one instruction ([`IntegerSimd`]). The others unpack
//! to f32 ([`Dot`](super::Dot) and [`Accumulate`](super::Accumulate)).

use std::marker::PhantomData;

use super::{BLOCK, FACTOR};
use crate::quant::RowType;
use crate::quant::load::{LoadIntegers, with_integers};
use crate::simd::{IntegerKernel, IntegerSimd, Isa, Loop, Simd};

/// Rows and elements of a tile.
const TILE: usize = 32;
const _: () = assert!(TILE == BLOCK);
/// Integers of a tile.
const TILE_LEN: usize = TILE * TILE;
/// Largest absolute value of rounded queries and weights.
const LARGEST: f32 = 32767.0;
/// Numbers are rounded to zero where none is above this one: its inverse times [`LARGEST`] is finite.
const SMALLEST: f32 = 1e-30;
/// Bytes of a cache line, at which the tiles begin.
const LINE: usize = 64;

/// Floats of scratch memory for heads of `head_dim` elements.
pub(super) fn scratch_len(head_dim: usize, queries: usize) -> usize {
    let d = head_dim.next_multiple_of(TILE);
    LINE / 4 + d * TILE / 2 + d + d / 2 + queries * (d / 2 + d / TILE + TILE / 2 + 1)
}

/// Scratch memory for the tiles of a block of rows and for the rounded queries.
#[derive(Clone, Copy)]
pub(super) struct Scratch {
    isa: Isa,
    tiles: usize,
    queries: usize,
    /// `[2, 32, 16, tiles]`: the pairs of each lane.
    pairs: *mut i16,
    /// `[32, tiles]`: the scales of the rows' blocks, 0 for missing rows; NaN for those that are infinite.
    scales: *mut f32,
    /// `[32, tiles]`: the same as halves.
    halves: *mut u16,
    /// `[32, tiles, queries]`
    q: *mut i16,
    /// `[tiles, queries]`
    q_scales: *mut f32,
    /// `[32, queries]`: the rounded weights of a tile.
    weights: *mut i16,
    /// `[queries]`
    weight_scales: *mut f32,
}

/// Some rows of one head, at most [`TILE`].
#[derive(Clone, Copy)]
pub(super) struct TileRows<'a> {
    pub ty: RowType,
    /// From the first row on, to the end of the last one at least.
    pub data: &'a [u8],
    pub row_stride: usize,
    pub n: usize,
}

impl Scratch {
    /// `scratch` has [`scratch_len`] floats. Safety: the instruction set is present, and has integers where another
    /// function is called. Nothing else uses `scratch` until then.
    pub(super) unsafe fn new(isa: Isa, scratch: &mut [f32], head_dim: usize, queries: usize) -> Scratch {
        assert!(scratch.len() >= scratch_len(head_dim, queries));
        let tiles = head_dim / TILE;
        let start = scratch.as_mut_ptr();
        // SAFETY: scratch_len is the sum of these lengths.
        unsafe {
            let pairs = start.add(start.align_offset(LINE).min(LINE / 4));
            let scales = pairs.add(tiles * TILE_LEN / 2);
            let halves = scales.add(tiles * TILE);
            let q = halves.add(tiles * TILE / 2);
            let weights = q.add(queries * tiles * TILE / 2);
            let q_scales = weights.add(queries * TILE / 2);
            let weight_scales = q_scales.add(queries * tiles);
            Scratch {
                isa,
                tiles,
                queries,
                pairs: pairs.cast(),
                scales,
                halves: halves.cast(),
                q: q.cast(),
                q_scales,
                weights: weights.cast(),
                weight_scales,
            }
        }
    }

    /// Rounds the queries, which are `stride` floats apart.
    pub(super) fn round_queries(&self, q: &[f32], stride: usize) {
        assert!(stride >= self.tiles * TILE && q.len() >= self.queries * stride);
        // SAFETY: the instruction set is present; the queries are inside the slice.
        unsafe { self.isa.enter_with_integers(RoundQueries { scratch: *self, q: q.as_ptr(), stride }) }
    }

    /// The logits `[32, queries]` of some rows. Those of missing rows are unspecified.
    pub(super) fn logits(&self, rows: TileRows, logits: &mut [f32]) {
        assert!(logits.len() >= self.queries * BLOCK);
        self.check(&rows);
        with_integers!(rows.ty, L => {
            // SAFETY: the instruction set is present, and the rows are inside their memory.
            unsafe { self.isa.enter_with_integers(UnpackKeys::<L>(*self, rows, PhantomData)) }
        });
        // SAFETY: the instruction set is present, and the logits have room for all queries.
        unsafe { self.isa.enter_with_integers(Logits { scratch: *self, logits: logits.as_mut_ptr() }) }
    }

    /// Rescales the weighted sums of the queries' slots, and adds some rows of values. The weights are `[32, queries]`, 0
    /// for missing rows.
    pub(super) fn accumulate(&self, rows: TileRows, weights: &[f32], slots: &mut [f32], slot_len: usize) {
        assert!(weights.len() >= self.queries * BLOCK && slots.len() >= self.queries * slot_len);
        assert!(slot_len > self.tiles * TILE + FACTOR);
        self.check(&rows);
        with_integers!(rows.ty, L => {
            // SAFETY: the instruction set is present, and the rows are inside their memory.
            unsafe { self.isa.enter_with_integers(UnpackValues::<L>(*self, rows, PhantomData)) }
        });
        let kernel =
            Values { scratch: *self, weights: weights.as_ptr(), slots: slots.as_mut_ptr(), slot_len };
        // SAFETY: the instruction set is present, and the slices have all queries.
        unsafe { self.isa.enter_with_integers(kernel) }
    }

    fn check(&self, rows: &TileRows) {
        let row_bytes = rows.ty.row_bytes(self.tiles * TILE);
        assert!(
            (1..=TILE).contains(&rows.n) && rows.data.len() >= (rows.n - 1) * rows.row_stride + row_bytes
        );
    }
}

/// Writes 32 numbers, rounded to integers of 16 bits, to `to` and returns their scale: NaN where one of the numbers is
/// infinite or NaN. Safety: the instruction set is present; `to` has room for them.
#[inline(always)]
unsafe fn round<S: IntegerSimd>(x: [S::V; 4], to: *mut i16) -> f32 {
    // SAFETY: the caller's promise.
    unsafe {
        let mut largest = S::splat(0.0);
        for j in Loop(0, TILE / S::LANES) {
            largest = S::larger_magnitude(largest, x[j]);
        }
        let largest = S::largest_magnitude(largest);
        let inverse = S::splat(if largest > SMALLEST { LARGEST / largest } else { 0.0 });
        for j in Loop(0, TILE / S::LANES) {
            S::store_i16(to.add(j * S::LANES), S::mul(x[j], inverse));
        }
        largest * (1.0 / LARGEST) + largest * 0.0
    }
}

/// See [`Scratch::round_queries`].
struct RoundQueries {
    scratch: Scratch,
    q: *const f32,
    stride: usize,
}

impl IntegerKernel for RoundQueries {
    #[inline(always)]
    unsafe fn run<S: IntegerSimd>(self) {
        let s = self.scratch;
        let mut rounded = [0i16; TILE];
        for i in Loop(0, s.queries) {
            for tile in Loop(0, s.tiles) {
                // SAFETY: the struct's contract.
                unsafe {
                    let from = self.q.add(i * self.stride + tile * TILE);
                    let mut x = [S::splat(0.0); 4];
                    for j in Loop(0, TILE / S::LANES) {
                        x[j] = S::load(from.add(j * S::LANES));
                    }
                    *s.q_scales.add(i * s.tiles + tile) = round::<S>(x, rounded.as_mut_ptr());
                    // The order of the pairs of keys, see there.
                    let to = s.q.add((i * s.tiles + tile) * TILE);
                    for at in Loop(0, TILE) {
                        let (word, pair, number) = (at / 4, at / 2 % 2, at % 2);
                        *to.add(at) = rounded[4 * word + pair + 2 * number];
                    }
                }
            }
        }
    }
}

/// Unpacks keys. The pairs of a tile are in the order of elements 0 and 2, 1 and 3, 4 and 6, 5 and 7, …
struct UnpackKeys<'a, L>(Scratch, TileRows<'a>, PhantomData<L>);

impl<L: LoadIntegers> IntegerKernel for UnpackKeys<'_, L> {
    #[inline(always)]
    unsafe fn run<S: IntegerSimd>(self) {
        let UnpackKeys(s, rows, _) = self;
        for group in Loop(0, TILE / 8) {
            let mut address = [rows.data.as_ptr(); 8];
            for j in Loop(0, 8) {
                // The last row takes the place of missing ones.
                address[j] =
                    rows.data.as_ptr().wrapping_add((group * 8 + j).min(rows.n - 1) * rows.row_stride);
            }
            // SAFETY: any address can be prefetched.
            unsafe { prefetch_ahead::<S>(&rows, 8 * group, 8, s.tiles * L::BLOCK_BYTES) };
            for tile in Loop(0, s.tiles) {
                // SAFETY: the addresses are those of rows.
                unsafe {
                    let block = |j: usize| address[j].add(tile * L::BLOCK_BYTES);
                    for j in Loop(0, 8) {
                        *s.halves.add(tile * TILE + group * 8 + j) = block(j).cast::<u16>().read_unaligned();
                    }
                    let two = [
                        L::load_two::<S>(block(0), block(4)),
                        L::load_two::<S>(block(1), block(5)),
                        L::load_two::<S>(block(2), block(6)),
                        L::load_two::<S>(block(3), block(7)),
                    ];
                    let to = s.pairs.add(tile * TILE_LEN + group * 16).cast::<u8>();
                    for half in Loop(0, 2) {
                        let words = S::transpose([two[0][half], two[1][half], two[2][half], two[3][half]]);
                        for word in Loop(0, 4) {
                            let pair = 2 * (4 * half + word);
                            S::store_bytes(to.add(4 * TILE * pair), S::even_bytes(words[word]));
                            S::store_bytes(to.add(4 * TILE * (pair + 1)), S::odd_bytes(words[word]));
                        }
                    }
                }
            }
        }
        // SAFETY: the scratch has these scales.
        unsafe { widen_scales::<S>(s, TILE) }
    }
}

/// Unpacks values: the pairs of a tile are neighbouring rows.
struct UnpackValues<'a, L>(Scratch, TileRows<'a>, PhantomData<L>);

impl<L: LoadIntegers> IntegerKernel for UnpackValues<'_, L> {
    #[inline(always)]
    unsafe fn run<S: IntegerSimd>(self) {
        let UnpackValues(s, rows, _) = self;
        for pair in Loop(0, rows.n.div_ceil(2)) {
            // SAFETY: any address can be prefetched.
            unsafe { prefetch_ahead::<S>(&rows, 2 * pair, 2, s.tiles * L::BLOCK_BYTES) };
            // SAFETY: these are rows, of which the last one takes the place of a missing one.
            unsafe {
                let a = rows.data.as_ptr().add(2 * pair * rows.row_stride);
                let b = rows.data.as_ptr().add((2 * pair + 1).min(rows.n - 1) * rows.row_stride);
                for tile in Loop(0, s.tiles) {
                    let (a, b) = (a.add(tile * L::BLOCK_BYTES), b.add(tile * L::BLOCK_BYTES));
                    let halves = s.halves.add(tile * TILE + 2 * pair);
                    *halves = a.cast::<u16>().read_unaligned();
                    *halves.add(1) = b.cast::<u16>().read_unaligned();
                    let to = s.pairs.add(tile * TILE_LEN + pair * 2 * TILE).cast::<u8>();
                    let two = L::load_two::<S>(a, b);
                    for half in Loop(0, 2) {
                        let pairs = S::interleave(two[half]);
                        S::store_bytes(to.add(64 * half), pairs[0]);
                        S::store_bytes(to.add(64 * half + 32), pairs[1]);
                    }
                }
            }
        }
        // SAFETY: the scratch has these scales.
        unsafe { widen_scales::<S>(s, rows.n) }
    }
}

/// Prefetches the rows of the next block that correspond to `n` rows of this one, from `first` on. Rows have `row_bytes`.
#[inline(always)]
unsafe fn prefetch_ahead<S: Simd>(rows: &TileRows, first: usize, n: usize, row_bytes: usize) {
    for row in Loop(first + TILE, first + TILE + n) {
        let start = rows.data.as_ptr().wrapping_add(row.wrapping_mul(rows.row_stride));
        let mut at = 0;
        while at < row_bytes {
            // SAFETY: any address can be prefetched.
            unsafe { S::prefetch(start.wrapping_add(at)) };
            at += LINE;
        }
    }
}

/// Writes the scales of `n` rows, which are there as halves. Safety: the instruction set is present.
#[inline(always)]
unsafe fn widen_scales<S: Simd>(s: Scratch, n: usize) {
    for tile in Loop(0, s.tiles) {
        // SAFETY: the scratch has these scales.
        unsafe {
            for row in Loop(n, TILE) {
                *s.halves.add(tile * TILE + row) = 0;
            }
            for j in Loop(0, TILE / S::LANES) {
                let at = tile * TILE + j * S::LANES;
                let scales = S::load_f16(s.halves.add(at).cast());
                // An infinite scale gives NaN or infinities; which of them depends on all elements. Here it is NaN.
                S::store(s.scales.add(at), S::fma(scales, S::splat(0.0), scales));
            }
        }
    }
}

/// The sums of the lanes of a tile for QT queries, whose 16 pairs are at `factors`. Safety: the instruction set is present;
/// the pointers have all pairs.
#[inline(always)]
unsafe fn multiply<S: IntegerSimd, const QT: usize>(
    pairs: *const i16,
    factors: [*const i16; QT],
) -> [[S::Integers; 4]; QT] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[S::zeros(); 4]; QT];
        for pair in Loop(0, TILE / 2) {
            let mut shared = [S::zeros(); QT];
            for i in Loop(0, QT) {
                shared[i] = S::splat_word(factors[i].add(2 * pair).cast());
            }
            for j in Loop(0, TILE / S::LANES) {
                let own = S::load_words(pairs.add(2 * (pair * TILE + j * S::LANES)).cast());
                for i in Loop(0, QT) {
                    sums[i][j] = S::multiply_pairs(own, shared[i], sums[i][j]);
                }
            }
        }
        sums
    }
}

/// See [`Scratch::logits`].
struct Logits {
    scratch: Scratch,
    logits: *mut f32,
}

impl IntegerKernel for Logits {
    #[inline(always)]
    unsafe fn run<S: IntegerSimd>(self) {
        let s = self.scratch;
        for tile in Loop(0, s.tiles) {
            let mut i = 0;
            // SAFETY: i counts queries.
            unsafe {
                while i + 2 <= s.queries {
                    self.query_tile::<S, 2>(tile, i);
                    i += 2;
                }
                if i < s.queries {
                    self.query_tile::<S, 1>(tile, i);
                }
            }
        }
    }
}

impl Logits {
    /// Queries `first .. first + QT`.
    #[inline(always)]
    unsafe fn query_tile<S: IntegerSimd, const QT: usize>(&self, tile: usize, first: usize) {
        let s = self.scratch;
        // SAFETY: the scratch has these queries and tiles, and the logits have room.
        unsafe {
            let mut q = [s.q.cast_const(); QT];
            for i in Loop(0, QT) {
                q[i] = s.q.add(((first + i) * s.tiles + tile) * TILE);
            }
            let sums = multiply::<S, QT>(s.pairs.add(tile * TILE_LEN), q);
            for i in Loop(0, QT) {
                let q_scale = S::splat(*s.q_scales.add((first + i) * s.tiles + tile));
                for j in Loop(0, TILE / S::LANES) {
                    let logits = self.logits.add((first + i) * BLOCK + j * S::LANES);
                    let scale = S::mul(S::load(s.scales.add(tile * TILE + j * S::LANES)), q_scale);
                    let before = if tile == 0 { S::splat(0.0) } else { S::load(logits) };
                    S::store(logits, S::fma(S::floats(sums[i][j]), scale, before));
                }
            }
        }
    }
}

/// See [`Scratch::accumulate`].
struct Values {
    scratch: Scratch,
    weights: *const f32,
    slots: *mut f32,
    slot_len: usize,
}

impl IntegerKernel for Values {
    #[inline(always)]
    unsafe fn run<S: IntegerSimd>(self) {
        let s = self.scratch;
        for tile in Loop(0, s.tiles) {
            // SAFETY: i counts queries.
            unsafe {
                for i in Loop(0, s.queries) {
                    let mut x = [S::splat(0.0); 4];
                    for j in Loop(0, TILE / S::LANES) {
                        let weights = S::load(self.weights.add(i * BLOCK + j * S::LANES));
                        x[j] = S::mul(weights, S::load(s.scales.add(tile * TILE + j * S::LANES)));
                    }
                    *s.weight_scales.add(i) = round::<S>(x, s.weights.add(i * TILE));
                }
                let mut i = 0;
                while i + 2 <= s.queries {
                    self.query_tile::<S, 2>(tile, i);
                    i += 2;
                }
                if i < s.queries {
                    self.query_tile::<S, 1>(tile, i);
                }
            }
        }
    }
}

impl Values {
    /// Queries `first .. first + QT`.
    #[inline(always)]
    unsafe fn query_tile<S: IntegerSimd, const QT: usize>(&self, tile: usize, first: usize) {
        let s = self.scratch;
        // SAFETY: the struct's contract.
        unsafe {
            let mut weights = [s.weights.cast_const(); QT];
            for i in Loop(0, QT) {
                weights[i] = s.weights.add((first + i) * TILE);
            }
            let sums = multiply::<S, QT>(s.pairs.add(tile * TILE_LEN), weights);
            for i in Loop(0, QT) {
                let slot = self.slots.add((first + i) * self.slot_len);
                let factor = S::splat(*slot.add(s.tiles * TILE + FACTOR));
                let scale = S::splat(*s.weight_scales.add(first + i));
                for j in Loop(0, TILE / S::LANES) {
                    let at = slot.add(tile * TILE + j * S::LANES);
                    S::store(at, S::fma(S::floats(sums[i][j]), scale, S::mul(S::load(at), factor)));
                }
            }
        }
    }
}

//! Products with few columns, for AVX2: drafts, answers that are computed together, and short texts.
//!
//! A panel is no use here: its transposition would take longer than the products. Instead two rows are unpacked at a time, one
//! slab of each, and every column is multiplied with both. So weights are read and unpacked once for all columns, and a column's
//! activations are loaded once for two rows. All columns are computed in the same way and order, so a column's results do
//! not depend on how many others there are.
//!
//! Blocks of 256 have integer scales. Products are multiplied with them where they are added up in pairs. So a slab has one vector
//! of integer sums for each row and column, which becomes floats once. The minima, or the offset of the codes, are floats that
//! are multiplied with the columns' sums, eight groups at a time.

use std::arch::x86_64::*;

use super::unpack::{self, Integers, VECTOR};
use super::{ColumnLayout, Format, MAX_FEW_COLUMNS as MAX_COLUMNS, Product, ResultPart, SLAB, WeightType};
use crate::quant::IQ4_VALUES;
use crate::simd::avx2::Avx2;
use crate::simd::{Loop, Simd};

/// Rows that a thread multiplies at a time.
pub(super) const ROWS: usize = 16;
/// Rows that are unpacked at a time.
const PAIR: usize = 2;
/// Columns whose sums are in registers.
const CHUNK: usize = 3;
/// Groups of a slab that have the same scale, at most.
const GROUPS: usize = SLAB / 16;
/// Bytes of columns that stay in the first-level cache beside what else is needed.
const COLUMN_BYTES: usize = 12 << 10;

/// A slab of a row.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Row {
    /// The codes, where there are several chunks of columns.
    codes: [u8; SLAB],
    /// The blocks, where there is one.
    blocks: *const u8,
    /// For blocks of 256 the scale of each group in 16 bits, twice.
    integers: [i32; GROUPS],
    /// For blocks of 256, what all sums of products are multiplied with.
    scale: f32,
    /// What the columns' sums are multiplied with: the minima of groups, or, for blocks of 256 with an offset, their scales.
    of_sums: [f32; GROUPS],
    /// For blocks of 32 their scales.
    scales: [f32; 8],
}

impl Row {
    const EMPTY: Row = Row {
        codes: [0; SLAB],
        blocks: std::ptr::null(),
        integers: [0; GROUPS],
        scale: 0.0,
        of_sums: [0.0; GROUPS],
        scales: [0.0; 8],
    };

    /// Unpacks the scales of a slab's blocks.
    #[target_feature(enable = "avx2,fma,f16c")]
    #[inline]
    fn unpack_scales<const T: usize>(&mut self, blocks: &[u8]) {
        if !Kind::<T>::BY_SLAB {
            self.scales = halves::<T>(blocks, 0);
            if Kind::<T>::FORMAT.minima {
                self.of_sums[..8].copy_from_slice(&halves::<T>(blocks, 2));
            }
            return;
        }
        // SAFETY: AVX2 is present, and vectors of eight are inside the arrays.
        unsafe {
            let Integers { scales, minima, scale, minimum } = unpack::integers::<Avx2>(Kind::<T>::TY, blocks);
            self.scale = scale;
            let (of_sums, factor) =
                if Kind::<T>::FORMAT.minima { (minima, minimum) } else { (scales, scale) };
            for at in (0..Kind::<T>::GROUPS).step_by(8) {
                let eight = _mm256_cvtepi8_epi32(_mm_loadl_epi64(scales.as_ptr().add(at).cast()));
                let low = _mm256_and_si256(eight, _mm256_set1_epi32(0xffff));
                let twice = _mm256_or_si256(low, _mm256_slli_epi32::<16>(low));
                _mm256_storeu_si256(self.integers.as_mut_ptr().add(at).cast(), twice);
                let numbers = Avx2::load_i8(of_sums.as_ptr().add(at));
                Avx2::store(self.of_sums.as_mut_ptr().add(at), Avx2::mul(numbers, Avx2::splat(factor)));
            }
        }
    }
}

/// The f16 at byte `at` of each of these blocks of 32, eight or fewer.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn halves<const T: usize>(blocks: &[u8], at: usize) -> [f32; 8] {
    let size = Kind::<T>::TY.block_bytes();
    let half = |block: usize| match blocks.get(block * size + at..block * size + at + 2) {
        Some(half) => i16::from_le_bytes([half[0], half[1]]),
        None => 0,
    };
    let halves = _mm_setr_epi16(half(0), half(1), half(2), half(3), half(4), half(5), half(6), half(7));
    let mut floats = [0.0; 8];
    // SAFETY: there is room for eight.
    unsafe { _mm256_storeu_ps(floats.as_mut_ptr(), _mm256_cvtph_ps(halves)) };
    floats
}

/// What a thread has in its cache.
#[repr(C, align(64))]
pub(super) struct Scratch {
    rows: [Row; PAIR],
    /// Eight sums for each row and column, whose sum is the result.
    totals: [[[f32; 8]; MAX_COLUMNS]; ROWS],
}

impl Scratch {
    pub(super) const EMPTY: Scratch =
        Scratch { rows: [Row::EMPTY; PAIR], totals: [[[0.0; 8]; MAX_COLUMNS]; ROWS] };
}

/// How the type with this number in [`WeightType::ALL`] is multiplied.
struct Kind<const T: usize>;

impl<const T: usize> Kind<T> {
    const TY: WeightType = WeightType::ALL[T];
    const FORMAT: Format = Self::TY.format();
    const BY_SLAB: bool = Self::TY.block_elements() == SLAB;
    /// Groups of a slab.
    const GROUPS: usize = SLAB / Self::FORMAT.group;
    /// Whether codes are bytes plus 128. They are too large for sums of two products in 16 bits, so they are taken as
    /// signed numbers, whose signs are moved to the activations. Nothing is left of their offset then.
    const SIGNED: bool = Self::FORMAT.offset == 128;
    /// Bytes of a slab, all of which are fetched ahead.
    const BYTES: usize = SLAB / Self::TY.block_elements() * Self::TY.block_bytes();
}

/// Computes a part of the result, of at most [`ROWS`] rows and `MAX_COLUMNS` columns.
///
/// # Safety
/// AVX2, FMA and F16C are present. `out` `[n_out, n]` is valid for writes, and nothing else uses the part meanwhile.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn multiply(product: &Product, part: ResultPart, scratch: &mut Scratch, out: *mut f32) {
    macro_rules! by_type {
        ($($ty:ident)*) => {
            match product.ty {
                // SAFETY: the caller's promise.
                $(WeightType::$ty => unsafe {
                    multiply_type::<{ WeightType::$ty as usize }>(product, part, scratch, out)
                },)*
            }
        };
    }
    by_type!(Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Iq4Nl Q4K Q5K Q6K Iq4Xs)
}

/// [`multiply`] for one type.
///
/// # Safety
/// As for [`multiply`].
#[target_feature(enable = "avx2,fma,f16c")]
#[inline(never)]
unsafe fn multiply_type<const T: usize>(
    product: &Product,
    part: ResultPart,
    scratch: &mut Scratch,
    out: *mut f32,
) {
    let ResultPart { rows: [first_row, end_row], columns: [first_column, end_column], .. } = part;
    // The type is a constant here, and so is what follows from it.
    let product = &Product { ty: Kind::<T>::TY, ..*product };
    let (n, n_in, n_out) = (end_column - first_column, product.n_in, product.n_out());
    let layout = ColumnLayout::of(Kind::<T>::FORMAT, n_in);
    assert!(n <= MAX_COLUMNS && end_row - first_row <= ROWS, "few rows and columns");
    let Scratch { rows, totals } = scratch;
    for row in totals.iter_mut().take((end_row - first_row).next_multiple_of(PAIR)) {
        row[..n].fill([0.0; 8]);
    }
    let columns = product.columns.as_ptr().wrapping_add(first_column * layout.words);
    let step = (COLUMN_BYTES / n.max(1) / SLAB).max(1) * SLAB;
    for start in (0..n_in).step_by(step) {
        for row in (first_row..end_row).step_by(PAIR) {
            let totals = totals.as_mut_ptr().wrapping_add(row - first_row).cast::<f32>();
            for first in (start..n_in.min(start + step)).step_by(SLAB) {
                for r in Loop(0, PAIR) {
                    // Where the number of rows is odd, the last one is computed twice.
                    let blocks = unpack::blocks(product, (row + r).min(end_row - 1), first);
                    for line in Loop(0, Kind::<T>::BYTES.div_ceil(64)) {
                        let of_next = blocks.as_ptr().wrapping_add(PAIR * product.row_bytes() + 64 * line);
                        // SAFETY: any address will do.
                        unsafe { Avx2::prefetch(of_next) };
                    }
                    rows[r].unpack_scales::<T>(blocks);
                    rows[r].blocks = blocks.as_ptr();
                    if n > CHUNK {
                        unpack::codes::<Avx2>(Kind::<T>::TY, blocks, &mut rows[r].codes);
                    }
                }
                let slab = Slab { rows, layout, first, elements: SLAB.min(n_in - first) };
                // SAFETY: the columns are there, and the totals of the pair are inside the scratch.
                unsafe {
                    match n {
                        0 => {}
                        1 => slab.add::<T, 1, false>(columns, totals),
                        2 => slab.add::<T, 2, false>(columns, totals),
                        CHUNK => slab.add::<T, CHUNK, false>(columns, totals),
                        _ => {
                            for c in (0..n).step_by(CHUNK) {
                                let columns = columns.wrapping_add(c * layout.words);
                                let totals = totals.wrapping_add(8 * c);
                                match n - c {
                                    1 => slab.add::<T, 1, true>(columns, totals),
                                    2 => slab.add::<T, 2, true>(columns, totals),
                                    _ => slab.add::<T, CHUNK, true>(columns, totals),
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    for row in first_row..end_row {
        for c in Loop(0, n) {
            // SAFETY: inside the result.
            unsafe {
                let total = Avx2::load(totals[row - first_row][c].as_ptr());
                out.add((first_column + c) * n_out + row).write(Avx2::sum(total));
            }
        }
    }
}

/// A slab of two rows.
struct Slab<'a> {
    rows: &'a [Row; PAIR],
    /// Of the columns.
    layout: ColumnLayout,
    /// The slab's first element.
    first: usize,
    elements: usize,
}

impl Slab<'_> {
    /// Adds the products with C columns to their totals `[8, MAX_COLUMNS, PAIR]`, of which `totals` is the first column's.
    ///
    /// # Safety
    /// The columns and their totals are there. The rows have the slab's scales, and its codes if they are UNPACKED, or else its
    /// blocks.
    #[target_feature(enable = "avx2,fma,f16c")]
    #[inline]
    unsafe fn add<const T: usize, const C: usize, const UNPACKED: bool>(
        &self,
        columns: *const u32,
        totals: *mut f32,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut of_columns = [columns; C];
            let mut of_pair = [[totals; C]; PAIR];
            for c in Loop(0, C) {
                of_columns[c] = columns.add(c * self.layout.words);
                for r in Loop(0, PAIR) {
                    of_pair[r][c] = totals.add(8 * (r * MAX_COLUMNS + c));
                }
            }
            if Kind::<T>::BY_SLAB {
                self.add_slab::<T, C, UNPACKED>(of_columns, of_pair);
            } else {
                self.add_blocks::<T, C, UNPACKED>(of_columns, of_pair);
            }
        }
    }

    /// [`add`](Self::add) for one block of 256.
    ///
    /// # Safety
    /// As for [`add`](Self::add).
    #[target_feature(enable = "avx2,fma,f16c")]
    #[inline]
    unsafe fn add_slab<const T: usize, const C: usize, const UNPACKED: bool>(
        &self,
        columns: [*const u32; C],
        totals: [[*mut f32; C]; PAIR],
    ) {
        let Slab { layout, first, .. } = *self;
        // SAFETY: the caller's promise: a whole slab is there.
        unsafe {
            let mut sums = [[_mm256_setzero_si256(); C]; PAIR];
            for v in Loop(0, SLAB / VECTOR) {
                let (mut w, mut scales) = ([_mm256_setzero_si256(); PAIR], [_mm256_setzero_si256(); PAIR]);
                for r in Loop(0, PAIR) {
                    w[r] = self.weights::<T, UNPACKED>(r, v);
                    let integers = &self.rows[r].integers;
                    scales[r] = match Kind::<T>::GROUPS {
                        8 => _mm256_set1_epi32(integers[v]),
                        _ => _mm256_set_m128i(
                            _mm_set1_epi32(integers[2 * v + 1]),
                            _mm_set1_epi32(integers[2 * v]),
                        ),
                    };
                }
                for c in Loop(0, C) {
                    let x = _mm256_loadu_si256(columns[c].add((first + v * VECTOR) / 4).cast());
                    for r in Loop(0, PAIR) {
                        let products = _mm256_madd_epi16(pairs::<T>(w[r], x), scales[r]);
                        sums[r][c] = _mm256_add_epi32(sums[r][c], products);
                    }
                }
            }
            for c in Loop(0, C) {
                let scale = Avx2::splat(columns[c].add(layout.scales + first / SLAB).cast::<f32>().read());
                for r in Loop(0, PAIR) {
                    let row = &self.rows[r];
                    let mut sum = Avx2::mul(_mm256_cvtepi32_ps(sums[r][c]), Avx2::splat(row.scale));
                    if !Kind::<T>::SIGNED {
                        for at in (0..Kind::<T>::GROUPS).step_by(8) {
                            let of_column =
                                columns[c].add(layout.sums + first / Kind::<T>::FORMAT.group + at);
                            let x = sums_as_floats::<T>(_mm256_loadu_si256(of_column.cast()));
                            sum = Avx2::fma(Avx2::load(row.of_sums.as_ptr().add(at)), x, sum);
                        }
                    }
                    Avx2::store(totals[r][c], Avx2::fma(sum, scale, Avx2::load(totals[r][c])));
                }
            }
        }
    }

    /// [`add`](Self::add) for blocks of 32, eight or fewer.
    ///
    /// # Safety
    /// As for [`add`](Self::add).
    #[target_feature(enable = "avx2,fma,f16c")]
    #[inline]
    unsafe fn add_blocks<const T: usize, const C: usize, const UNPACKED: bool>(
        &self,
        columns: [*const u32; C],
        totals: [[*mut f32; C]; PAIR],
    ) {
        let Slab { layout, first, elements, .. } = *self;
        let (block, blocks) = (first / VECTOR, elements / VECTOR);
        // SAFETY: the caller's promise: so many blocks are there.
        unsafe {
            let numbers = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            let is_there = _mm256_cmpgt_epi32(_mm256_set1_epi32(blocks as i32), numbers);
            let mut scales = [[[0f32; 8]; C]; PAIR];
            let mut sums = [[_mm256_setzero_ps(); C]; PAIR];
            for c in Loop(0, C) {
                let of_column = _mm256_maskload_ps(columns[c].add(layout.scales + block).cast(), is_there);
                let x = _mm256_maskload_epi32(columns[c].add(layout.sums + block).cast(), is_there);
                for r in Loop(0, PAIR) {
                    let row = &self.rows[r];
                    let both = Avx2::mul(of_column, Avx2::load(row.scales.as_ptr()));
                    Avx2::store(scales[r][c].as_mut_ptr(), both);
                    sums[r][c] = Avx2::load(totals[r][c]);
                    if !Kind::<T>::SIGNED {
                        let by =
                            if Kind::<T>::FORMAT.minima { Avx2::load(row.of_sums.as_ptr()) } else { both };
                        sums[r][c] = Avx2::fma(by, sums_as_floats::<T>(x), sums[r][c]);
                    }
                }
            }
            for v in Loop(0, blocks) {
                let mut w = [_mm256_setzero_si256(); PAIR];
                for r in Loop(0, PAIR) {
                    w[r] = self.weights::<T, UNPACKED>(r, v);
                }
                for c in Loop(0, C) {
                    let x = _mm256_loadu_si256(columns[c].add((first + v * VECTOR) / 4).cast());
                    for r in Loop(0, PAIR) {
                        let products = _mm256_madd_epi16(pairs::<T>(w[r], x), _mm256_set1_epi16(1));
                        let scale = Avx2::splat(scales[r][c].as_ptr().add(v).read());
                        sums[r][c] = Avx2::fma(_mm256_cvtepi32_ps(products), scale, sums[r][c]);
                    }
                }
            }
            for c in Loop(0, C) {
                for r in Loop(0, PAIR) {
                    Avx2::store(totals[r][c], sums[r][c]);
                }
            }
        }
    }

    /// The weights of a row's vector, as they are multiplied. Unless they are UNPACKED, that is done now: faster, where it is
    /// done once.
    ///
    /// # Safety
    /// As for [`add`](Self::add).
    #[target_feature(enable = "avx2,fma,f16c")]
    #[inline]
    unsafe fn weights<const T: usize, const UNPACKED: bool>(&self, row: usize, vector: usize) -> __m256i {
        let row = &self.rows[row];
        // SAFETY: the caller's promise.
        unsafe {
            let codes = match UNPACKED {
                true => _mm256_load_si256(row.codes.as_ptr().add(VECTOR * vector).cast()),
                false => unpack::vector::<Avx2>(Kind::<T>::TY, row.blocks, vector),
            };
            if unpack::has_table(Kind::<T>::TY) {
                let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(IQ4_VALUES.as_ptr().cast()));
                _mm256_shuffle_epi8(table, codes)
            } else if Kind::<T>::SIGNED {
                _mm256_xor_si256(codes, _mm256_set1_epi8(-128))
            } else {
                codes
            }
        }
    }
}

/// Sums of two products, of codes `w` and activations `x`.
#[target_feature(enable = "avx2")]
#[inline]
fn pairs<const T: usize>(w: __m256i, x: __m256i) -> __m256i {
    match Kind::<T>::SIGNED {
        true => _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w)),
        false => _mm256_maddubs_epi16(w, x),
    }
}

/// The sums of a column's groups: floats where the type has minima, integers where it has an offset.
#[target_feature(enable = "avx2")]
#[inline]
fn sums_as_floats<const T: usize>(sums: __m256i) -> __m256 {
    match Kind::<T>::FORMAT.minima {
        true => _mm256_castsi256_ps(sums),
        false => _mm256_cvtepi32_ps(sums),
    }
}

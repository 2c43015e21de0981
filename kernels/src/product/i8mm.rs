//! The product for ARM's matrix instructions (i8mm): tiles of 16 rows by 6 columns. One instruction multiplies eight bytes of two
//! rows with eight of two columns. A sum's vector has these rows and columns: the first row with both columns, then the second.
//! The floats are added up in the same places and moved apart at the end of a panel, so results have the bits of the other
//! products with NEON. Of the 32 registers the integer sums take 24; the sums of floats are in memory while a group is multiplied.
//! Instructions were counted, beside those of the other products with NEON; no time was measured.

use std::arch::aarch64::*;
use std::arch::{asm, is_aarch64_feature_detected};

use super::tile::{self, Tile, TileKernel};
use super::unpack::{self, IQ4_CODES};
use super::{Panel, Product, ROWS, ResultPart, SLAB, Slab};
use crate::Isa;
use crate::simd::Loop;
use crate::simd::neon::Neon;

/// Whether the processor can run it.
pub(crate) fn is_present() -> bool {
    Isa::Neon.present() && is_aarch64_feature_detected!("i8mm")
}

/// Computes a part of the result.
///
/// # Safety
/// [`is_present`] holds. `out` `[n_out, n]` is valid for writes, and nothing else uses the part meanwhile.
#[target_feature(enable = "neon,i8mm")]
pub(super) unsafe fn multiply(product: &Product, part: ResultPart, panel: &mut Panel, out: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe { tile::multiply::<Matrices>(product, part, panel, out) }
}

/// Elements of a row, or a column, that are multiplied at a time.
const RUN: usize = 8;
/// Pairs of rows of a tile.
const ROW_PAIRS: usize = 8;
/// Pairs of columns of a tile, at most.
const COLUMN_PAIRS: usize = 3;

/// Codes of any size.
#[derive(Clone, Copy)]
struct Matrices;

impl TileKernel for Matrices {
    type Floats = Neon;
    const COLUMNS: usize = 2 * COLUMN_PAIRS;
    const SIGNED: bool = false;

    #[inline(always)]
    unsafe fn fill(product: &Product, rows: [usize; 2], first: usize, _ahead: &[u8], panel: &mut Panel) {
        // SAFETY: the instruction set is present.
        unsafe { fill(product, rows, first, panel) }
    }

    #[inline(always)]
    unsafe fn enter<const C: usize, const GROUP: usize, const BY_SLAB: bool, const MINIMA: bool>(tile: Tile) {
        // SAFETY: the caller's promise.
        unsafe { multiply_tile::<C, GROUP, BY_SLAB, MINIMA>(tile) }
    }
}

/// `sum` and the products of two rows of unsigned bytes with two columns of signed ones. The library's intrinsic is not stable.
#[target_feature(enable = "neon,i8mm")]
#[inline]
pub(crate) fn add(mut sum: int32x4_t, rows: uint8x16_t, columns: uint8x16_t) -> int32x4_t {
    // SAFETY: the instruction is there; it reads and writes these registers only.
    unsafe {
        asm!("usmmla {0:v}.4s, {1:v}.16b, {2:v}.16b", inout(vreg) sum, in(vreg) rows, in(vreg) columns,
            options(pure, nomem, nostack, preserves_flags));
    }
    sum
}

/// Word `at` of two columns a and b as [a, b, a, b], which is how the four sums of a vector need it.
///
/// # Safety
/// The columns have it.
#[target_feature(enable = "neon")]
#[inline]
unsafe fn words(columns: [*const u32; 2], at: usize) -> uint32x4_t {
    // SAFETY: the caller's promise.
    unsafe {
        let [a, b] = [vld1q_dup_u32(columns[0].add(at)), vld1q_dup_u32(columns[1].add(at))];
        vzip1q_u32(a, b)
    }
}

/// C columns; scales for each GROUP; activations have a scale for each slab or each 32; with minima or without. An odd last
/// column takes the place of the second of its pair.
///
/// # Safety
/// The groups are in the slabs and the columns of the tile.
#[target_feature(enable = "neon,i8mm")]
#[inline(never)]
unsafe fn multiply_tile<const C: usize, const GROUP: usize, const BY_SLAB: bool, const MINIMA: bool>(
    tile: Tile,
) {
    let (layout, pairs) = (tile.layout, C.div_ceil(2));
    // SAFETY: the caller's promise.
    unsafe {
        let zero = vdupq_n_f32(0.0);
        let mut columns = [[tile.columns; 2]; COLUMN_PAIRS];
        for c in Loop(0, 2 * pairs) {
            columns[c / 2][c % 2] = tile.columns.add(c.min(C - 1) * layout.words);
        }
        let mut totals = [[zero; ROW_PAIRS]; COLUMN_PAIRS];
        for number in Loop(0, (tile.end - tile.first).div_ceil(SLAB)) {
            let slab = &*tile.slabs.as_ptr().add(number);
            let at = tile.first + number * SLAB;
            let mut sums = if BY_SLAB { [[zero; ROW_PAIRS]; COLUMN_PAIRS] } else { totals };
            for g in Loop(0, SLAB.min(tile.end - at) / GROUP) {
                let group = at / GROUP + g;
                let mut products = [[vdupq_n_s32(0); ROW_PAIRS]; COLUMN_PAIRS];
                if !MINIMA {
                    for p in Loop(0, pairs) {
                        let start = vreinterpretq_s32_u32(words(columns[p], layout.sums + group));
                        products[p] = [start; ROW_PAIRS];
                    }
                }
                let codes = slab.codes.as_ptr().cast::<u8>().add(g * GROUP * ROWS + RUN * tile.offset);
                for k in Loop(0, GROUP / RUN) {
                    let mut x = [vdupq_n_u8(0); COLUMN_PAIRS];
                    for p in Loop(0, pairs) {
                        let from = (group * GROUP + k * RUN) / 4;
                        let [a, b] = [columns[p][0].add(from).cast(), columns[p][1].add(from).cast()];
                        x[p] = vcombine_u8(vld1_u8(a), vld1_u8(b));
                    }
                    for r in Loop(0, ROW_PAIRS) {
                        let w = vld1q_u8(codes.add(RUN * (ROWS * k + 2 * r)));
                        for p in Loop(0, pairs) {
                            products[p][r] = add(products[p][r], w, x[p]);
                        }
                    }
                }
                // Four rows at a time.
                for quad in Loop(0, ROW_PAIRS / 2) {
                    let row = tile.offset + 4 * quad;
                    let scale = vld1q_f32(slab.scales.get_unchecked(g).as_ptr().add(row));
                    let scales = [vzip1q_f32(scale, scale), vzip2q_f32(scale, scale)];
                    for p in Loop(0, pairs) {
                        for half in Loop(0, 2) {
                            let by = if BY_SLAB {
                                scales[half]
                            } else {
                                let x = vreinterpretq_f32_u32(words(columns[p], layout.scales + group));
                                vmulq_f32(scales[half], x)
                            };
                            let r = 2 * quad + half;
                            sums[p][r] = vfmaq_f32(sums[p][r], vcvtq_f32_s32(products[p][r]), by);
                        }
                    }
                    if MINIMA {
                        let min = vld1q_f32(slab.minima.get_unchecked(g).as_ptr().add(row));
                        let minima = [vzip1q_f32(min, min), vzip2q_f32(min, min)];
                        for p in Loop(0, pairs) {
                            let x = vreinterpretq_f32_u32(words(columns[p], layout.sums + group));
                            for half in Loop(0, 2) {
                                let r = 2 * quad + half;
                                sums[p][r] = vfmaq_f32(sums[p][r], x, minima[half]);
                            }
                        }
                    }
                }
            }
            for p in Loop(0, pairs) {
                for r in Loop(0, ROW_PAIRS) {
                    totals[p][r] = if BY_SLAB {
                        let x = vreinterpretq_f32_u32(words(columns[p], layout.scales + at / SLAB));
                        vfmaq_f32(totals[p][r], sums[p][r], x)
                    } else {
                        sums[p][r]
                    };
                }
            }
        }
        for c in Loop(0, C) {
            let mut of_column = [float32x4x2_t(zero, zero); 2];
            for v in Loop(0, 2) {
                let at = |half: usize| {
                    let [a, b] = [totals[c / 2][4 * v + 2 * half], totals[c / 2][4 * v + 2 * half + 1]];
                    if c % 2 == 0 { vuzp1q_f32(a, b) } else { vuzp2q_f32(a, b) }
                };
                of_column[v] = float32x4x2_t(at(0), at(1));
            }
            tile.write::<Neon>(c, of_column);
        }
    }
}

/// [`TileKernel::fill`], row by row.
#[target_feature(enable = "neon")]
#[inline]
fn fill(product: &Product, rows: [usize; 2], first: usize, panel: &mut Panel) {
    let Panel { slabs, unpacked } = panel;
    for (slab, at) in slabs.iter_mut().zip((first..product.n_in).step_by(SLAB)) {
        unpack::slab::<Neon>(product, rows, at, unpacked, slab);
        interleave(unpacked, unpack::has_table(product.ty), slab);
    }
}

/// Writes the codes of a slab as the products read them: eight elements of each row, then the next eight.
#[target_feature(enable = "neon")]
#[inline]
fn interleave(unpacked: &[[u8; SLAB]; ROWS], has_table: bool, slab: &mut Slab) {
    // SAFETY: a table of 16 bytes.
    let table = unsafe { vld1q_u8(IQ4_CODES.as_ptr()) };
    let to = slab.codes.as_mut_ptr().cast::<u8>();
    for pair in Loop(0, ROWS / 2) {
        for sixteenth in Loop(0, SLAB / 16) {
            let mut v = [vdupq_n_u64(0); 2];
            for r in Loop(0, 2) {
                // SAFETY: 16 codes of a row.
                let mut codes = unsafe { vld1q_u8(unpacked[2 * pair + r].as_ptr().add(16 * sixteenth)) };
                if has_table {
                    codes = vqtbl1q_u8(table, codes);
                }
                v[r] = vreinterpretq_u64_u8(codes);
            }
            for (run, of_rows) in [vzip1q_u64(v[0], v[1]), vzip2q_u64(v[0], v[1])].into_iter().enumerate() {
                // SAFETY: eight elements of two rows, inside the slab's codes.
                unsafe { vst1q_u64(to.add(RUN * (ROWS * (2 * sixteenth + run) + 2 * pair)).cast(), of_rows) };
            }
        }
    }
}

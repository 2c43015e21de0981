//! The product for AVX-512 with VNNI. The sums of a tile, 32 rows by 6 columns, stay in registers: 12 integer sums of a
//! group and 12 of floats. The sums of a slab are scaled and added up where the whole panel's are.

use std::arch::x86_64::*;

use super::unpack::{self, IQ4_CODES};
use super::{COLUMNS, ColumnLayout, Format, PANEL_SLABS, Panel, Part, Product, ROWS, SLAB, Slab};
use crate::Isa;
use crate::simd::Loop;
use crate::simd::avx512::Avx512;

/// Whether the processor can run it.
pub(super) fn is_present() -> bool {
    Isa::Avx512.present() && is_x86_feature_detected!("avx512vnni")
}

/// Computes a part of the result.
///
/// # Safety
/// [`is_present`] holds. `out` `[n_out, n]` is valid for writes, and nothing else uses the part meanwhile.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
pub(super) unsafe fn multiply(product: &Product, part: Part, panel: &mut Panel, out: *mut f32) {
    let Format { group, minima, activations, .. } = product.ty.format();
    let layout = ColumnLayout::of(product.ty.format(), product.n_in);
    let (n_out, n_in) = (product.n_out(), product.n_in);
    for first in (0..n_in).step_by(PANEL_SLABS * SLAB) {
        let end = n_in.min(first + PANEL_SLABS * SLAB);
        let Panel { slabs, unpacked } = &mut *panel;
        for (number, slab) in slabs.iter_mut().enumerate() {
            let at = first + number * SLAB;
            if at < end {
                unpack::slab::<Avx512>(product, part.rows, at, unpacked, slab);
                interleave(unpacked, unpack::has_table(product.ty), slab);
            }
        }
        let mut column = part.columns[0];
        while column < part.columns[1] {
            let count = COLUMNS.min(part.columns[1] - column);
            // SAFETY: the column is inside the columns and the result.
            let tile = unsafe {
                Tile {
                    slabs,
                    first,
                    end,
                    columns: product.columns.as_ptr().add(column * layout.words),
                    layout,
                    out: out.add(column * n_out + part.rows[0]),
                    n_out,
                    rows: part.rows[1] - part.rows[0],
                }
            };
            // SAFETY: the tile has `count` columns.
            unsafe {
                match (activations, group, minima) {
                    (32, _, false) => tile.run::<32, false, false>(count),
                    (32, _, true) => tile.run::<32, false, true>(count),
                    (_, 16, _) => tile.run::<16, true, false>(count),
                    (_, _, false) => tile.run::<32, true, false>(count),
                    (_, _, true) => tile.run::<32, true, true>(count),
                }
            }
            column += count;
        }
    }
}

/// Writes the codes of a slab as the products read them: a transposition of groups of four bytes.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn interleave(unpacked: &[[u8; SLAB]; ROWS], has_table: bool, slab: &mut Slab) {
    // SAFETY: a table of 16 bytes.
    let table = unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(IQ4_CODES.as_ptr().cast())) };
    for half in Loop(0, ROWS / 16) {
        for quarter in Loop(0, SLAB / 64) {
            let mut v = [_mm512_setzero_si512(); 16];
            for r in Loop(0, 16) {
                // SAFETY: 64 codes of a row.
                v[r] =
                    unsafe { _mm512_loadu_si512(unpacked[16 * half + r].as_ptr().add(64 * quarter).cast()) };
                if has_table {
                    v[r] = _mm512_shuffle_epi8(table, v[r]);
                }
            }
            // Within lanes of 128 bits: v[r] becomes words r % 4 of rows 4 (r / 4) .. 4 (r / 4) + 4.
            for q in Loop(0, 4) {
                let [a, b, c, d] = [v[4 * q], v[4 * q + 1], v[4 * q + 2], v[4 * q + 3]];
                let (ab, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
                let (cd, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
                v[4 * q] = _mm512_unpacklo_epi64(ab, cd);
                v[4 * q + 1] = _mm512_unpackhi_epi64(ab, cd);
                v[4 * q + 2] = _mm512_unpacklo_epi64(ab_high, cd_high);
                v[4 * q + 3] = _mm512_unpackhi_epi64(ab_high, cd_high);
            }
            // Lane l of v[4 q + w] has word 4 l + w of the rows 4 q ..: lanes are transposed.
            for w in Loop(0, 4) {
                let [a, b, c, d] = [v[w], v[4 + w], v[8 + w], v[12 + w]];
                let (ab, ab_high) = (_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0xee>(a, b));
                let (cd, cd_high) = (_mm512_shuffle_i32x4::<0x44>(c, d), _mm512_shuffle_i32x4::<0xee>(c, d));
                let lanes = [
                    _mm512_shuffle_i32x4::<0x88>(ab, cd),
                    _mm512_shuffle_i32x4::<0xdd>(ab, cd),
                    _mm512_shuffle_i32x4::<0x88>(ab_high, cd_high),
                    _mm512_shuffle_i32x4::<0xdd>(ab_high, cd_high),
                ];
                for l in Loop(0, 4) {
                    let to = &mut slab.codes[16 * quarter + 4 * l + w][16 * half..][..16];
                    // SAFETY: 16 rows of four bytes.
                    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), lanes[l]) };
                }
            }
        }
    }
}

/// The rows of a panel times some columns.
#[derive(Clone, Copy)]
struct Tile<'a> {
    slabs: &'a [Slab; PANEL_SLABS],
    /// First element of the panel.
    first: usize,
    /// Element behind the panel's last.
    end: usize,
    /// The first of the columns.
    columns: *const u32,
    layout: ColumnLayout,
    /// The first row's result in the first column.
    out: *mut f32,
    n_out: usize,
    rows: usize,
}

impl Tile<'_> {
    /// Multiplies with `count` columns, which are there.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
    #[inline]
    unsafe fn run<const GROUP: usize, const BY_SLAB: bool, const MINIMA: bool>(self, count: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match count {
                1 => self.columns::<1, GROUP, BY_SLAB, MINIMA>(),
                2 => self.columns::<2, GROUP, BY_SLAB, MINIMA>(),
                3 => self.columns::<3, GROUP, BY_SLAB, MINIMA>(),
                4 => self.columns::<4, GROUP, BY_SLAB, MINIMA>(),
                5 => self.columns::<5, GROUP, BY_SLAB, MINIMA>(),
                _ => self.columns::<COLUMNS, GROUP, BY_SLAB, MINIMA>(),
            }
        }
    }

    /// C columns; scales for each GROUP; activations have a scale for each slab or each 32; with minima or without.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
    unsafe fn columns<const C: usize, const GROUP: usize, const BY_SLAB: bool, const MINIMA: bool>(self) {
        let zero = _mm512_setzero_ps();
        let column = |c: usize| self.columns.wrapping_add(c * self.layout.words);
        let columns: [*const u32; C] = std::array::from_fn(column);
        let mut totals = [[zero; 2]; C];
        for number in Loop(0, (self.end - self.first).div_ceil(SLAB)) {
            let slab = &self.slabs[number];
            let at = self.first + number * SLAB;
            let mut sums = if BY_SLAB { [[zero; 2]; C] } else { totals };
            for g in Loop(0, SLAB.min(self.end - at) / GROUP) {
                let group = at / GROUP + g;
                // SAFETY: the groups are in the slab and in the columns.
                unsafe {
                    let mut products = [[_mm512_setzero_si512(); 2]; C];
                    if !MINIMA {
                        for c in Loop(0, C) {
                            let start = columns[c].add(self.layout.sums + group).read().cast_signed();
                            products[c] = [_mm512_set1_epi32(start); 2];
                        }
                    }
                    let codes = slab.codes.as_ptr().add(g * GROUP / 4).cast::<u8>();
                    for k in Loop(0, GROUP / 4) {
                        let w = [load(codes.add(k * 4 * ROWS)), load(codes.add(k * 4 * ROWS + 64))];
                        for c in Loop(0, C) {
                            let x = columns[c].add(group * GROUP / 4 + k).read().cast_signed();
                            let x = _mm512_set1_epi32(x);
                            products[c][0] = _mm512_dpbusd_epi32(products[c][0], w[0], x);
                            products[c][1] = _mm512_dpbusd_epi32(products[c][1], w[1], x);
                        }
                    }
                    for v in Loop(0, 2) {
                        let scale = _mm512_loadu_ps(slab.scales.get_unchecked(g).as_ptr().add(16 * v));
                        for c in Loop(0, C) {
                            let by = if BY_SLAB {
                                scale
                            } else {
                                let x = columns[c].add(self.layout.scales + group).cast::<f32>().read();
                                _mm512_mul_ps(scale, _mm512_set1_ps(x))
                            };
                            sums[c][v] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(products[c][v]), by, sums[c][v]);
                        }
                        if MINIMA {
                            let min = _mm512_loadu_ps(slab.minima.get_unchecked(g).as_ptr().add(16 * v));
                            for c in Loop(0, C) {
                                let x = columns[c].add(self.layout.sums + group).cast::<f32>().read();
                                sums[c][v] = _mm512_fmadd_ps(_mm512_set1_ps(x), min, sums[c][v]);
                            }
                        }
                    }
                }
            }
            for c in Loop(0, C) {
                for v in Loop(0, 2) {
                    totals[c][v] = if BY_SLAB {
                        // SAFETY: the slab is in the columns.
                        let x =
                            unsafe { columns[c].add(self.layout.scales + at / SLAB).cast::<f32>().read() };
                        _mm512_fmadd_ps(sums[c][v], _mm512_set1_ps(x), totals[c][v])
                    } else {
                        sums[c][v]
                    };
                }
            }
        }
        for c in Loop(0, C) {
            for v in Loop(0, 2) {
                let rows = self.rows.saturating_sub(16 * v).min(16);
                let mask = ((1u32 << rows) - 1) as __mmask16;
                let to = self.out.wrapping_add(c * self.n_out + 16 * v);
                // SAFETY: the masked rows are in the result.
                unsafe {
                    let before = if self.first == 0 { zero } else { _mm512_maskz_loadu_ps(mask, to) };
                    _mm512_mask_storeu_ps(to, mask, _mm512_add_ps(before, totals[c][v]));
                }
            }
        }
    }
}

/// 64 bytes. Safety: they are there.
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn load(from: *const u8) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe { _mm512_loadu_si512(from.cast()) }
}

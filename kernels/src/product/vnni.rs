//! The product for AVX-512 with VNNI: tiles of 32 rows by 6 columns, whose integer and float sums stay in registers.

use std::arch::x86_64::*;

use super::tile::{self, multiplier};
use super::unpack::IQ4_CODES;
use super::{Panel, Product, ROWS, ResultPart, SLAB, Slab};
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
pub(super) unsafe fn multiply(product: &Product, part: ResultPart, panel: &mut Panel, out: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe { tile::multiply::<Vnni>(product, part, panel, out) }
}

type Floats = Avx512;
type Ints = __m512i;
const TILE_COLUMNS: usize = 6;

/// The bytes at `from`.
///
/// # Safety
/// There are 64.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
unsafe fn load(from: *const u8) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe { _mm512_loadu_si512(from.cast()) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn splat(x: i32) -> __m512i {
    _mm512_set1_epi32(x)
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn to_floats(x: __m512i) -> __m512 {
    _mm512_cvtepi32_ps(x)
}

multiplier!(
    /// Codes of any size.
    Vnni, 1, false, "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c",
    (sum, w, x) => _mm512_dpbusd_epi32(sum, w[0], x[0])
);

/// Writes the codes of a slab as the products read them: a transposition of groups of four bytes.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn interleave(unpacked: &[[u8; SLAB]; ROWS], has_table: bool, _is_signed: bool, slab: &mut Slab) {
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

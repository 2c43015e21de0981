//! The product for AVX2: tiles of 16 rows by 4 columns. Of the 16 registers the integer sums take half; the sums of
//! floats are in memory while a group is multiplied.
//!
//! AVX-VNNI multiplies and adds four bytes in one instruction. Without it two instructions multiply and add, and pairs
//! of products become 16 bits wide in between. Codes of up to 6 bits are small enough for that. Codes of 8 bits are
//! taken as signed numbers, and their signs are moved to the activations.

use std::arch::x86_64::*;

use super::tile::{self, multiplier};
use super::unpack::IQ4_CODES;
use super::{Panel, Product, ROWS, ResultPart, SLAB, Slab};
use crate::Isa;
use crate::simd::Loop;
use crate::simd::avx2::Avx2;

/// Whether the processor can run it without AVX-VNNI.
pub(super) fn is_present() -> bool {
    Isa::Avx2.present()
}

/// Whether the processor can run it with AVX-VNNI.
pub(super) fn has_vnni() -> bool {
    is_present() && is_x86_feature_detected!("avxvnni")
}

/// Computes a part of the result with AVX-VNNI.
///
/// # Safety
/// [`has_vnni`] holds. `out` `[n_out, n]` is valid for writes, and nothing else uses the part meanwhile.
#[target_feature(enable = "avxvnni,avx2,fma,f16c")]
pub(super) unsafe fn multiply_vnni(product: &Product, part: ResultPart, panel: &mut Panel, out: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe { tile::multiply::<Vnni>(product, part, panel, out) }
}

/// Computes a part of the result without AVX-VNNI.
///
/// # Safety
/// [`is_present`] holds. `out` `[n_out, n]` is valid for writes, and nothing else uses the part meanwhile.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn multiply(product: &Product, part: ResultPart, panel: &mut Panel, out: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe { tile::multiply_by_size::<Small, Signed>(product, part, panel, out) }
}

type Floats = Avx2;
type Ints = __m256i;
const TILE_COLUMNS: usize = 4;

/// The bytes at `from`.
///
/// # Safety
/// There are 32.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn load(from: *const u8) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_loadu_si256(from.cast()) }
}

#[target_feature(enable = "avx2")]
#[inline]
fn splat(x: i32) -> __m256i {
    _mm256_set1_epi32(x)
}

#[target_feature(enable = "avx2")]
#[inline]
fn to_floats(x: __m256i) -> __m256 {
    _mm256_cvtepi32_ps(x)
}

multiplier!(
    /// Codes of any size, with AVX-VNNI.
    Vnni, 1, false, "avxvnni,avx2,fma,f16c",
    (sum, w, x) => _mm256_dpbusd_avx_epi32(sum, w[0], x[0])
);

multiplier!(
    /// Codes of up to 6 bits: 4 * 63 * 127 fits 16 bits.
    Small, 2, false, "avx2,fma,f16c", (sum, w, x) => {
    let pairs = _mm256_add_epi16(_mm256_maddubs_epi16(w[0], x[0]), _mm256_maddubs_epi16(w[1], x[1]));
    _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
});

multiplier!(
    /// Codes of 8 bits, minus 128: 2 * 128 * 127 fits 16 bits.
    Signed, 1, true, "avx2,fma,f16c", (sum, w, x) => {
    let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w[0]), _mm256_sign_epi8(x[0], w[0]));
    _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
});

/// Writes the codes of a slab as the products read them: a transposition of groups of four bytes.
#[target_feature(enable = "avx2")]
#[inline]
fn interleave(unpacked: &[[u8; SLAB]; ROWS], has_table: bool, is_signed: bool, slab: &mut Slab) {
    // SAFETY: a table of 16 bytes.
    let table = unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(IQ4_CODES.as_ptr().cast())) };
    for rows in Loop(0, ROWS / 8) {
        for eighth in Loop(0, SLAB / 32) {
            let mut v = [_mm256_setzero_si256(); 8];
            for r in Loop(0, 8) {
                // SAFETY: 32 codes of a row.
                v[r] = unsafe { _mm256_loadu_si256(unpacked[8 * rows + r].as_ptr().add(32 * eighth).cast()) };
                if has_table {
                    v[r] = _mm256_shuffle_epi8(table, v[r]);
                }
                if is_signed {
                    v[r] = _mm256_xor_si256(v[r], _mm256_set1_epi8(-128));
                }
            }
            // Within lanes of 128 bits: v[4 q + w] becomes words w and 4 + w of the rows 4 q ..
            for q in Loop(0, 2) {
                let [a, b, c, d] = [v[4 * q], v[4 * q + 1], v[4 * q + 2], v[4 * q + 3]];
                let (ab, ab_high) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
                let (cd, cd_high) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
                v[4 * q] = _mm256_unpacklo_epi64(ab, cd);
                v[4 * q + 1] = _mm256_unpackhi_epi64(ab, cd);
                v[4 * q + 2] = _mm256_unpacklo_epi64(ab_high, cd_high);
                v[4 * q + 3] = _mm256_unpackhi_epi64(ab_high, cd_high);
            }
            for w in Loop(0, 4) {
                let words = [
                    _mm256_permute2x128_si256::<0x20>(v[w], v[4 + w]),
                    _mm256_permute2x128_si256::<0x31>(v[w], v[4 + w]),
                ];
                for l in Loop(0, 2) {
                    let to = &mut slab.codes[8 * eighth + 4 * l + w][8 * rows..][..8];
                    // SAFETY: 8 rows of four bytes.
                    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), words[l]) };
                }
            }
        }
    }
}

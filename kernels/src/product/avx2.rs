//! The product for AVX2: tiles of 16 rows by 4 columns. Of the 16 registers the integer sums take half; the sums of
//! floats are in memory while a group is multiplied.
//!
//! AVX-VNNI multiplies and adds four bytes in one instruction. Without it two instructions multiply and add, and pairs
//! of products become 16 bits wide in between. Codes of up to 6 bits are small enough for that. Codes of 8 bits are
//! taken as signed numbers, and their signs are moved to the activations.

use std::arch::x86_64::*;

use super::pack::{self, MAX_ROWS, Words};
use super::tile::{self, multiplier};
use super::{Panel, Product, ResultPart};
use crate::simd::avx2::Avx2;
use crate::simd::{IntegerSimd, Loop, ops};

/// Computes a part of the result with AVX-VNNI.
///
/// # Safety
/// [`Unit::AvxVnni`](super::Unit::AvxVnni) is present. `out` `[n_out, n]` is valid for writes, and nothing else uses the part meanwhile.
#[target_feature(enable = "avxvnni,avx2,fma,f16c")]
pub(super) unsafe fn multiply_vnni(product: &Product, part: ResultPart, panel: &mut Panel, out: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe { tile::multiply::<Vnni>(product, part, panel, out) }
}

/// Computes a part of the result without AVX-VNNI.
///
/// # Safety
/// [`Unit::Avx2`](super::Unit::Avx2) is present. `out` `[n_out, n]` is valid for writes, and nothing else uses the part meanwhile.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn multiply(product: &Product, part: ResultPart, panel: &mut Panel, out: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe { tile::multiply_by_size::<Small, Signed>(product, part, panel, out) }
}

type Floats = Avx2;
const TILE_COLUMNS: usize = 4;

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

pack::filler!(Words256, "avx2,fma,f16c");

/// Words of 8 rows.
#[derive(Clone, Copy)]
struct Words256;

impl Words for Words256 {
    type Floats = Avx2;
    type V = __m256i;
    const ROWS: usize = 8;

    ops! {
        load(rows: &[*const u8; MAX_ROWS], at: usize) -> [__m256i; 4] = {
            // Rows 4 l + j are in lane l of vector j.
            let mut v = [_mm256_setzero_si256(); 4];
            for j in Loop(0, 4) {
                let lane = |l: usize| _mm_loadu_si128(rows[4 * l + j].wrapping_add(at).cast());
                v[j] = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(lane(0)), lane(1));
            }
            Avx2::transpose(v)
        };
        load_eight(rows: &[*const u8; MAX_ROWS], at: usize) -> [__m256i; 8] = {
            let ([a, b, c, d], [e, f, g, h]) = (Self::load(rows, at), Self::load(rows, at + 16));
            [a, b, c, d, e, f, g, h]
        };
        store(to: *mut u8, v: __m256i) -> () = _mm256_storeu_si256(to.cast(), v);
        splat(word: u32) -> __m256i = _mm256_set1_epi32(word.cast_signed());
        and(a: __m256i, b: __m256i) -> __m256i = _mm256_and_si256(a, b);
        or(a: __m256i, b: __m256i) -> __m256i = _mm256_or_si256(a, b);
        xor(a: __m256i, b: __m256i) -> __m256i = _mm256_xor_si256(a, b);
        sub(a: __m256i, b: __m256i) -> __m256i = _mm256_sub_epi32(a, b);
        shift_left(v: __m256i, bits: usize) -> __m256i = _mm256_sll_epi32(v, _mm_cvtsi32_si128(bits as i32));
        shift_right(v: __m256i, bits: usize) -> __m256i = _mm256_srl_epi32(v, _mm_cvtsi32_si128(bits as i32));
        shift_signed(v: __m256i, bits: usize) -> __m256i = _mm256_sra_epi32(v, _mm_cvtsi32_si128(bits as i32));
        look_up(table: *const u8, codes: __m256i) -> __m256i =
            _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(table.cast())), codes);
        with_fifth_bits(codes: __m256i, bits: __m256i, w: usize) -> __m256i = {
            // The byte with the word's four bits four times, and in each of these another bit.
            let order = _mm256_broadcastsi128_si256(_mm_add_epi8(
                _mm_set_epi32(0x0c0c_0c0c, 0x0808_0808, 0x0404_0404, 0),
                _mm_set1_epi8((w / 2) as i8),
            ));
            let bit = _mm256_set1_epi32(0x0804_0201 << (4 * (w % 2)));
            let is_set = _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(bits, order), bit), bit);
            _mm256_or_si256(codes, _mm256_and_si256(is_set, _mm256_set1_epi8(16)))
        };
        halves(v: __m256i) -> __m256 = {
            // Signed saturation keeps the low halves, whose signs are copied first.
            let low = _mm256_srai_epi32::<16>(_mm256_slli_epi32::<16>(v));
            let low = _mm_packs_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256::<1>(low));
            _mm256_cvtph_ps(low)
        };
        to_floats(v: __m256i) -> __m256 = _mm256_cvtepi32_ps(v);
    }
}

//! The product for AVX-512 with VNNI: tiles of 32 rows by 6 columns, whose integer and float sums stay in registers.

use std::arch::x86_64::*;

use super::pack::{self, MAX_ROWS, Words};
use super::tile::{self, multiplier};
use super::{Panel, Product, ResultPart};
use crate::simd::avx512::Avx512;
use crate::simd::{Loop, ops};

/// Computes a part of the result.
///
/// # Safety
/// [`Unit::Avx512Vnni`](super::Unit::Avx512Vnni) is present. `out` `[n_out, n]` is valid for writes, and nothing else uses the part meanwhile.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
pub(super) unsafe fn multiply(product: &Product, part: ResultPart, panel: &mut Panel, out: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe { tile::multiply::<Vnni>(product, part, panel, out) }
}

type Floats = Avx512;
const TILE_COLUMNS: usize = 6;

multiplier!(
    /// Codes of any size.
    Vnni, 1, false, "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c",
    (sum, w, x) => _mm512_dpbusd_epi32(sum, w[0], x[0])
);

pack::filler!(Words512, "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c");

/// In each lane of 128 bits: word j of vector i becomes word i of vector j.
#[target_feature(enable = "avx512f")]
#[inline]
fn transpose([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let (ab, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let (cd, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    [
        _mm512_unpacklo_epi64(ab, cd),
        _mm512_unpackhi_epi64(ab, cd),
        _mm512_unpacklo_epi64(ab_high, cd_high),
        _mm512_unpackhi_epi64(ab_high, cd_high),
    ]
}

/// Words of 16 rows.
#[derive(Clone, Copy)]
struct Words512;

impl Words for Words512 {
    type Floats = Avx512;
    type V = __m512i;
    const ROWS: usize = 16;

    ops! {
        load(rows: &[*const u8; MAX_ROWS], at: usize) -> [__m512i; 4] = {
            // Rows 4 l + j are in lane l of vector j.
            let mut v = [_mm512_setzero_si512(); 4];
            for j in Loop(0, 4) {
                let lane = |l: usize| _mm_loadu_si128(rows[4 * l + j].wrapping_add(at).cast());
                let two = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(lane(0)), lane(1));
                v[j] = _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(two, lane(2)), lane(3));
            }
            transpose(v)
        };
        load_eight(rows: &[*const u8; MAX_ROWS], at: usize) -> [__m512i; 8] = {
            // Rows 8 s + j and 8 s + 4 + j are in the halves of vector j of s.
            let mut v = [[_mm512_setzero_si512(); 4]; 2];
            for s in Loop(0, 2) {
                for j in Loop(0, 4) {
                    let half = |h: usize| _mm256_loadu_si256(rows[8 * s + 4 * h + j].wrapping_add(at).cast());
                    v[s][j] = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(half(0)), half(1));
                }
                v[s] = transpose(v[s]);
            }
            let mut words = [_mm512_setzero_si512(); 8];
            for w in Loop(0, 4) {
                words[w] = _mm512_shuffle_i32x4::<0x88>(v[0][w], v[1][w]);
                words[4 + w] = _mm512_shuffle_i32x4::<0xdd>(v[0][w], v[1][w]);
            }
            words
        };
        store(to: *mut u8, v: __m512i) -> () = _mm512_storeu_si512(to.cast(), v);
        splat(word: u32) -> __m512i = _mm512_set1_epi32(word.cast_signed());
        and(a: __m512i, b: __m512i) -> __m512i = _mm512_and_si512(a, b);
        or(a: __m512i, b: __m512i) -> __m512i = _mm512_or_si512(a, b);
        xor(a: __m512i, b: __m512i) -> __m512i = _mm512_xor_si512(a, b);
        sub(a: __m512i, b: __m512i) -> __m512i = _mm512_sub_epi32(a, b);
        shift_left(v: __m512i, bits: usize) -> __m512i = _mm512_sll_epi32(v, _mm_cvtsi32_si128(bits as i32));
        shift_right(v: __m512i, bits: usize) -> __m512i = _mm512_srl_epi32(v, _mm_cvtsi32_si128(bits as i32));
        shift_signed(v: __m512i, bits: usize) -> __m512i = _mm512_sra_epi32(v, _mm_cvtsi32_si128(bits as i32));
        look_up(table: *const u8, codes: __m512i) -> __m512i =
            _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128(table.cast())), codes);
        with_fifth_bits(codes: __m512i, bits: __m512i, w: usize) -> __m512i = {
            // The byte with the word's four bits four times, and in each of these another bit.
            let order = _mm512_broadcast_i32x4(_mm_add_epi8(
                _mm_set_epi32(0x0c0c_0c0c, 0x0808_0808, 0x0404_0404, 0),
                _mm_set1_epi8((w / 2) as i8),
            ));
            let bit = _mm512_set1_epi32(0x0804_0201 << (4 * (w % 2)));
            let is_set = _mm512_test_epi8_mask(_mm512_shuffle_epi8(bits, order), bit);
            _mm512_mask_add_epi8(codes, is_set, codes, _mm512_set1_epi8(16))
        };
        halves(v: __m512i) -> __m512 = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v));
        to_floats(v: __m512i) -> __m512 = _mm512_cvtepi32_ps(v);
    }
}

//! AVX2 with FMA and F16C: 8 lanes, 16 registers. AVX-VNNI multiplies bytes faster.

use std::arch::x86_64::*;

use super::{
    ByteKernel, ByteSimd, IntegerKernel, IntegerSimd, Kernel, Simd, WordSimd, avx2_bytes, avx2_integers,
    every_fourth_byte,
};
use crate::quant::IQ4_VALUES;

/// AVX2, with AVX-VNNI or without.
#[derive(Clone, Copy)]
pub(crate) struct Avx2With<const VNNI: bool>;

pub(crate) type Avx2 = Avx2With<false>;

/// # Safety
/// The processor has these features, and the kernel's own requirements are met.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn enter<K: Kernel>(kernel: K) -> K::Out {
    // SAFETY: the caller's promise.
    unsafe { kernel.run::<Avx2>() }
}

/// # Safety
/// As for [`enter`].
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn enter_with_integers<K: IntegerKernel>(kernel: K) {
    // SAFETY: the caller's promise.
    unsafe { kernel.run::<Avx2>() }
}

/// # Safety
/// As for [`enter`].
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn enter_with_bytes<K: ByteKernel>(kernel: K) -> K::Out {
    // SAFETY: the caller's promise.
    unsafe { kernel.run::<Avx2>() }
}

/// # Safety
/// As for [`enter`], and the processor has AVX-VNNI.
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
pub(super) unsafe fn enter_with_vnni<K: ByteKernel>(kernel: K) -> K::Out {
    // SAFETY: the caller's promise.
    unsafe { kernel.run::<Avx2With<true>>() }
}

/// `IQ4_VALUES` of the low nibbles of 8 bytes.
#[target_feature(enable = "avx2")]
#[inline]
fn look_up(codes: __m128i) -> __m256 {
    // SAFETY: the table has 16 bytes.
    let table = unsafe { _mm_loadu_si128(IQ4_VALUES.as_ptr().cast()) };
    let values = _mm_shuffle_epi8(table, _mm_and_si128(codes, _mm_set1_epi8(15)));
    _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(values))
}

impl<const VNNI: bool> Simd for Avx2With<VNNI> {
    type V = __m256;
    type Bytes = __m256i;
    const LANES: usize = 8;
    const ACCUMULATORS: usize = 12;

    avx2_bytes!();

    ops! {
        splat(x: f32) -> __m256 = _mm256_set1_ps(x);
        load(p: *const f32) -> __m256 = _mm256_loadu_ps(p);
        store(p: *mut f32, v: __m256) -> () = _mm256_storeu_ps(p, v);
        load_half(p: *const f32) -> __m256 = _mm256_loadu_ps(p);
        add(a: __m256, b: __m256) -> __m256 = _mm256_add_ps(a, b);
        sub(a: __m256, b: __m256) -> __m256 = _mm256_sub_ps(a, b);
        mul(a: __m256, b: __m256) -> __m256 = _mm256_mul_ps(a, b);
        div(a: __m256, b: __m256) -> __m256 = _mm256_div_ps(a, b);
        min(a: __m256, b: __m256) -> __m256 = _mm256_min_ps(a, b);
        max(a: __m256, b: __m256) -> __m256 = _mm256_max_ps(a, b);
        fma(a: __m256, b: __m256, c: __m256) -> __m256 = _mm256_fmadd_ps(a, b, c);
        round(a: __m256) -> __m256 = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a);
        scale_by_exp2(p: __m256, n: __m256, x: __m256) -> __m256 = {
            let normal = _mm256_cmp_ps::<_CMP_NLT_UQ>(x, _mm256_set1_ps(-126.0));
            let shift = _mm256_slli_epi32::<23>(_mm256_cvtps_epi32(n));
            let scaled = _mm256_add_epi32(_mm256_castps_si256(p), shift);
            _mm256_and_ps(_mm256_castsi256_ps(scaled), normal)
        };
        load_f16(p: *const u8) -> __m256 = _mm256_cvtph_ps(_mm_loadu_si128(p.cast()));
        load_f16_half(p: *const u8) -> __m256 = _mm256_cvtph_ps(_mm_loadu_si128(p.cast()));
        splat_f16(p: *const u8) -> __m256 =
            _mm256_cvtph_ps(_mm_set1_epi16(p.cast::<i16>().read_unaligned()));
        load_i8(p: *const u8) -> __m256 =
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p.cast())));
        load_u4_low(p: *const u8) -> __m256 = {
            let nibbles = _mm_and_si128(_mm_loadl_epi64(p.cast()), _mm_set1_epi8(15));
            _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(nibbles))
        };
        load_u4_high(p: *const u8) -> __m256 = {
            let bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(p.cast()));
            _mm256_cvtepi32_ps(_mm256_srli_epi32::<4>(bytes))
        };
        load_iq4_low(p: *const u8) -> __m256 = look_up(_mm_loadl_epi64(p.cast()));
        load_iq4_high(p: *const u8) -> __m256 = look_up(_mm_srli_epi16::<4>(_mm_loadl_epi64(p.cast())));
        halve(a: __m256, b: __m256) -> __m256 =
            _mm256_add_ps(_mm256_shuffle_ps::<0x44>(a, b), _mm256_shuffle_ps::<0xee>(a, b));
        halve_again(a: __m256, b: __m256) -> __m256 =
            _mm256_add_ps(_mm256_shuffle_ps::<0x88>(a, b), _mm256_shuffle_ps::<0xdd>(a, b));
        store_sums(p: *mut f32, q: [__m256; 4]) -> () = {
            _mm256_storeu_ps(
                p,
                _mm256_add_ps(_mm256_permute2f128_ps::<0x20>(q[0], q[1]), _mm256_permute2f128_ps::<0x31>(q[0], q[1])),
            );
            _mm256_storeu_ps(
                p.add(8),
                _mm256_add_ps(_mm256_permute2f128_ps::<0x20>(q[2], q[3]), _mm256_permute2f128_ps::<0x31>(q[2], q[3])),
            )
        };
        sum(v: __m256) -> f32 = {
            let x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
            let x = _mm_add_ps(x, _mm_movehl_ps(x, x));
            _mm_cvtss_f32(_mm_add_ss(x, _mm_shuffle_ps::<1>(x, x)))
        };
        any_greater(a: __m256, b: __m256) -> bool = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(a, b)) != 0;
        first(v: __m256) -> f32 = _mm256_cvtss_f32(v);
        largest(v: __m256) -> f32 = {
            let x = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
            let x = _mm_max_ps(x, _mm_movehl_ps(x, x));
            _mm_cvtss_f32(_mm_max_ss(x, _mm_shuffle_ps::<1>(x, x)))
        };
        prefetch(p: *const u8) -> () = _mm_prefetch::<_MM_HINT_T0>(p.cast());
    }
}

impl<const VNNI: bool> WordSimd for Avx2With<VNNI> {
    type Integers = __m256i;

    ops! {
        zeros() -> __m256i = _mm256_setzero_si256();
        load_words(p: *const u8) -> __m256i = _mm256_loadu_si256(p.cast());
        splat_word(p: *const u8) -> __m256i = _mm256_set1_epi32(p.cast::<i32>().read_unaligned());
        floats(v: __m256i) -> __m256 = _mm256_cvtepi32_ps(v);
        larger_magnitude(a: __m256, b: __m256) -> __m256 = {
            let bits = _mm256_set1_epi32(i32::MAX);
            let (a, b) = (_mm256_castps_si256(a), _mm256_castps_si256(b));
            _mm256_castsi256_ps(_mm256_max_epi32(_mm256_and_si256(a, bits), _mm256_and_si256(b, bits)))
        };
        largest_magnitude(v: __m256) -> f32 = {
            let v = _mm256_castps_si256(v);
            let x = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
            let x = _mm_max_epi32(x, _mm_shuffle_epi32::<0x4e>(x));
            let x = _mm_max_epi32(x, _mm_shuffle_epi32::<0xb1>(x));
            f32::from_bits(_mm_cvtsi128_si32(x).cast_unsigned())
        };
    }
}

impl IntegerSimd for Avx2 {
    avx2_integers!();

    ops! {
        multiply_pairs(a: __m256i, b: __m256i, c: __m256i) -> __m256i =
            _mm256_add_epi32(_mm256_madd_epi16(a, b), c);
        store_i16(p: *mut i16, v: __m256) -> () = {
            let v = _mm256_cvtps_epi32(v);
            let v = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
            _mm_storeu_si128(p.cast(), v);
        };
    }
}

/// The sums of both products of the pairs of 16 bits, plus c.
#[target_feature(enable = "avx2")]
#[inline]
fn add_pairs(pairs: __m256i, c: __m256i) -> __m256i {
    _mm256_add_epi32(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)), c)
}

/// Without AVX-VNNI pairs of products become 16 bits wide in between. With bytes of 7 bits four products fit: 4 * 127 * 63.
/// Queries and keys have 11 bits: products of 16 bits take four multiplications where those of 7 bits take three. Sums of 2,048
/// products fit 32 bits.
impl<const VNNI: bool> ByteSimd for Avx2With<VNNI> {
    const BITS: u32 = if VNNI { 8 } else { 7 };
    const KEY_BITS: u32 = if VNNI { 8 } else { 11 };
    const IN_TWOS: bool = !VNNI;
    const SIGNED: bool = false;

    ops! {
        multiply_bytes(a: __m256i, b: __m256i, c: __m256i) -> __m256i =
            if VNNI { _mm256_dpbusd_avx_epi32(c, a, b) } else { add_pairs(_mm256_maddubs_epi16(a, b), c) };
        multiply_two(a: [__m256i; 2], b: [__m256i; 2], c: __m256i) -> __m256i =
            if VNNI {
                Self::multiply_bytes(a[1], b[1], Self::multiply_bytes(a[0], b[0], c))
            } else {
                let (first, second) = (_mm256_maddubs_epi16(a[0], b[0]), _mm256_maddubs_epi16(a[1], b[1]));
                add_pairs(_mm256_add_epi16(first, second), c)
            };
        multiply_keys(a: __m256i, b: __m256i, c: __m256i) -> __m256i =
            if VNNI { Self::multiply_bytes(a, b, c) } else { Avx2::multiply_pairs(a, b, c) };
        pack_queries(v: [__m256i; 4]) -> __m256i =
            if VNNI {
                Self::pack_signed(v)
            } else {
                _mm256_blend_epi16::<0xaa>(v[0], _mm256_slli_epi32::<16>(v[1]))
            };
        store_keys(p: *mut u8, v: __m256) -> () =
            if VNNI { Self::store_low_bytes(p, Self::nearest(v)) } else { Avx2::store_i16(p.cast(), v) };
        nearest(v: __m256) -> __m256i = _mm256_cvtps_epi32(v);
        subtract(a: __m256i, b: __m256i) -> __m256i = _mm256_sub_epi32(a, b);
        store_integers(p: *mut u8, v: __m256i) -> () = _mm256_storeu_si256(p.cast(), v);
        store_low_bytes(p: *mut u8, v: __m256i) -> () = {
            let order = _mm256_broadcastsi128_si256(_mm_set1_epi32(0x0c08_0400));
            let v = _mm256_shuffle_epi8(v, order);
            let both = _mm_unpacklo_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
            _mm_storel_epi64(p.cast(), both)
        };
        pack_signed(v: [__m256i; 4]) -> __m256i = {
            let bytes = _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
            _mm256_shuffle_epi8(bytes, _mm256_broadcastsi128_si256(every_fourth_byte()))
        };
        pack_unsigned(v: [__m256i; 4]) -> __m256i = {
            let bytes = _mm256_packus_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
            _mm256_shuffle_epi8(bytes, _mm256_broadcastsi128_si256(every_fourth_byte()))
        };
    }
}

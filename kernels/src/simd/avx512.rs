//! AVX-512 (F, BW, DQ, VL): 16 lanes, 32 registers.

use std::arch::x86_64::*;

use super::{
    ByteKernel, ByteSimd, IntegerKernel, IntegerSimd, Kernel, Simd, WordSimd, avx2_bytes, avx2_integers,
    every_fourth_byte,
};
use crate::quant::IQ4_VALUES;

#[derive(Clone, Copy)]
pub(crate) struct Avx512;

/// # Safety
/// The processor has these features, and the kernel's own requirements are met.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
pub(super) unsafe fn enter<K: Kernel>(kernel: K) -> K::Out {
    // SAFETY: the caller's promise.
    unsafe { kernel.run::<Avx512>() }
}

/// # Safety
/// As for [`enter`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
pub(super) unsafe fn enter_with_integers<K: IntegerKernel>(kernel: K) {
    // SAFETY: the caller's promise.
    unsafe { kernel.run::<Avx512>() }
}

/// # Safety
/// As for [`enter`], and the processor has VNNI.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
pub(super) unsafe fn enter_with_bytes<K: ByteKernel>(kernel: K) -> K::Out {
    // SAFETY: the caller's promise.
    unsafe { kernel.run::<Avx512>() }
}

/// `IQ4_VALUES` of the low four bits of 16 integers.
#[target_feature(enable = "avx512f")]
#[inline]
fn look_up(codes: __m512i) -> __m512 {
    const VALUES: [f32; 16] = {
        let mut values = [0.0; 16];
        let mut code = 0;
        while code < 16 {
            values[code] = IQ4_VALUES[code] as f32;
            code += 1;
        }
        values
    };
    // SAFETY: the table has 16 floats.
    unsafe { _mm512_permutexvar_ps(codes, _mm512_loadu_ps(VALUES.as_ptr())) }
}

impl Simd for Avx512 {
    type V = __m512;
    type Bytes = __m256i;
    const LANES: usize = 16;
    const ACCUMULATORS: usize = 24;

    avx2_bytes!();

    ops! {
        splat(x: f32) -> __m512 = _mm512_set1_ps(x);
        load(p: *const f32) -> __m512 = _mm512_loadu_ps(p);
        store(p: *mut f32, v: __m512) -> () = _mm512_storeu_ps(p, v);
        load_half(p: *const f32) -> __m512 = _mm512_maskz_loadu_ps(0xff, p);
        add(a: __m512, b: __m512) -> __m512 = _mm512_add_ps(a, b);
        sub(a: __m512, b: __m512) -> __m512 = _mm512_sub_ps(a, b);
        mul(a: __m512, b: __m512) -> __m512 = _mm512_mul_ps(a, b);
        div(a: __m512, b: __m512) -> __m512 = _mm512_div_ps(a, b);
        min(a: __m512, b: __m512) -> __m512 = _mm512_min_ps(a, b);
        max(a: __m512, b: __m512) -> __m512 = _mm512_max_ps(a, b);
        fma(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fmadd_ps(a, b, c);
        round(a: __m512) -> __m512 = _mm512_roundscale_ps::<8>(a);
        scale_by_exp2(p: __m512, n: __m512, x: __m512) -> __m512 = {
            let normal = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(x, _mm512_set1_ps(-126.0));
            _mm512_maskz_scalef_ps(normal, p, n)
        };
        load_f16(p: *const u8) -> __m512 = _mm512_cvtph_ps(_mm256_loadu_si256(p.cast()));
        load_f16_half(p: *const u8) -> __m512 =
            _mm512_cvtph_ps(_mm256_zextsi128_si256(_mm_loadu_si128(p.cast())));
        splat_f16(p: *const u8) -> __m512 = {
            _mm512_cvtph_ps(_mm256_set1_epi16(p.cast::<i16>().read_unaligned()))
        };
        load_i8(p: *const u8) -> __m512 =
            _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p.cast())));
        load_u4_low(p: *const u8) -> __m512 = {
            let nibbles = _mm_and_si128(_mm_loadu_si128(p.cast()), _mm_set1_epi8(15));
            _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(nibbles))
        };
        load_u4_high(p: *const u8) -> __m512 = {
            let bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(p.cast()));
            _mm512_cvtepi32_ps(_mm512_srli_epi32::<4>(bytes))
        };
        load_iq4_low(p: *const u8) -> __m512 = look_up(_mm512_cvtepu8_epi32(_mm_loadu_si128(p.cast())));
        load_iq4_high(p: *const u8) -> __m512 =
            look_up(_mm512_srli_epi32::<4>(_mm512_cvtepu8_epi32(_mm_loadu_si128(p.cast()))));
        halve(a: __m512, b: __m512) -> __m512 =
            _mm512_add_ps(_mm512_shuffle_ps::<0x44>(a, b), _mm512_shuffle_ps::<0xee>(a, b));
        halve_again(a: __m512, b: __m512) -> __m512 =
            _mm512_add_ps(_mm512_shuffle_ps::<0x88>(a, b), _mm512_shuffle_ps::<0xdd>(a, b));
        store_sums(p: *mut f32, q: [__m512; 4]) -> () = {
            // 0x88 takes groups 0 and 2 of both operands, 0xdd groups 1 and 3: two halvings add up four
            // groups.
            let x = _mm512_add_ps(
                _mm512_shuffle_f32x4::<0x88>(q[0], q[1]),
                _mm512_shuffle_f32x4::<0xdd>(q[0], q[1]),
            );
            let y = _mm512_add_ps(
                _mm512_shuffle_f32x4::<0x88>(q[2], q[3]),
                _mm512_shuffle_f32x4::<0xdd>(q[2], q[3]),
            );
            _mm512_storeu_ps(
                p,
                _mm512_add_ps(
                    _mm512_shuffle_f32x4::<0x88>(x, y),
                    _mm512_shuffle_f32x4::<0xdd>(x, y),
                ),
            )
        };
        sum(v: __m512) -> f32 = _mm512_reduce_add_ps(v);
        any_greater(a: __m512, b: __m512) -> bool = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(a, b) != 0;
        first(v: __m512) -> f32 = _mm512_cvtss_f32(v);
        largest(v: __m512) -> f32 = _mm512_reduce_max_ps(v);
        prefetch(p: *const u8) -> () = _mm_prefetch::<_MM_HINT_T0>(p.cast());
    }
}

impl WordSimd for Avx512 {
    type Integers = __m512i;

    ops! {
        zeros() -> __m512i = _mm512_setzero_si512();
        load_words(p: *const u8) -> __m512i = _mm512_loadu_si512(p.cast());
        splat_word(p: *const u8) -> __m512i = _mm512_set1_epi32(p.cast::<i32>().read_unaligned());
        floats(v: __m512i) -> __m512 = _mm512_cvtepi32_ps(v);
        larger_magnitude(a: __m512, b: __m512) -> __m512 = {
            let bits = _mm512_set1_epi32(i32::MAX);
            let (a, b) = (_mm512_castps_si512(a), _mm512_castps_si512(b));
            _mm512_castsi512_ps(_mm512_max_epi32(_mm512_and_si512(a, bits), _mm512_and_si512(b, bits)))
        };
        largest_magnitude(v: __m512) -> f32 =
            f32::from_bits(_mm512_reduce_max_epi32(_mm512_castps_si512(v)).cast_unsigned());
    }
}

impl IntegerSimd for Avx512 {
    avx2_integers!();

    ops! {
        multiply_pairs(a: __m512i, b: __m512i, c: __m512i) -> __m512i =
            _mm512_add_epi32(_mm512_madd_epi16(a, b), c);
        store_i16(p: *mut i16, v: __m512) -> () =
            _mm256_storeu_si256(p.cast(), _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(v)));
    }
}

impl ByteSimd for Avx512 {
    const BITS: u32 = 8;
    const KEY_BITS: u32 = 8;
    const IN_TWOS: bool = false;
    const SIGNED: bool = false;

    ops! {
        multiply_bytes(a: __m512i, b: __m512i, c: __m512i) -> __m512i = _mm512_dpbusd_epi32(c, a, b);
        nearest(v: __m512) -> __m512i = _mm512_cvtps_epi32(v);
        subtract(a: __m512i, b: __m512i) -> __m512i = _mm512_sub_epi32(a, b);
        store_integers(p: *mut u8, v: __m512i) -> () = _mm512_storeu_si512(p.cast(), v);
        store_low_bytes(p: *mut u8, v: __m512i) -> () = _mm_storeu_si128(p.cast(), _mm512_cvtepi32_epi8(v));
        pack_signed(v: [__m512i; 4]) -> __m512i = {
            let bytes = _mm512_packs_epi16(_mm512_packs_epi32(v[0], v[1]), _mm512_packs_epi32(v[2], v[3]));
            _mm512_shuffle_epi8(bytes, _mm512_broadcast_i32x4(every_fourth_byte()))
        };
        pack_unsigned(v: [__m512i; 4]) -> __m512i = {
            let bytes = _mm512_packus_epi16(_mm512_packs_epi32(v[0], v[1]), _mm512_packs_epi32(v[2], v[3]));
            _mm512_shuffle_epi8(bytes, _mm512_broadcast_i32x4(every_fourth_byte()))
        };
    }
}

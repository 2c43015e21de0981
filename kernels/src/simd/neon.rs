//! NEON, which all ARM processors of 64 bits have: 8 lanes in two registers each, of 32.

use std::arch::aarch64::*;
use std::arch::asm;

use super::{ByteKernel, ByteSimd, Kernel, Simd, WordSimd, bytes_in_words};
use crate::quant::IQ4_VALUES;

#[derive(Clone, Copy)]
pub(crate) struct Neon;

/// # Safety
/// The processor has this feature, and the kernel's own requirements are met.
#[target_feature(enable = "neon")]
#[inline(never)] // so that the callers stay small: they are compiled for NEON too
pub(super) unsafe fn enter<K: Kernel>(kernel: K) -> K::Out {
    // SAFETY: the caller's promise.
    unsafe { kernel.run::<Neon>() }
}

/// # Safety
/// As for [`enter`], and the processor has dot products.
#[target_feature(enable = "neon,dotprod")]
#[inline(never)]
pub(super) unsafe fn enter_with_bytes<K: ByteKernel>(kernel: K) -> K::Out {
    // SAFETY: the caller's promise.
    unsafe { kernel.run::<Neon>() }
}

/// `sum` and the products of four signed bytes for each. The library's intrinsic is not stable.
#[target_feature(enable = "neon,dotprod")]
#[inline]
pub(crate) fn dot(mut sum: int32x4x2_t, a: int32x4x2_t, b: int32x4x2_t) -> int32x4x2_t {
    for (sum, a, b) in [(&mut sum.0, a.0, b.0), (&mut sum.1, a.1, b.1)] {
        // SAFETY: the instruction is there; it reads and writes these registers only.
        unsafe {
            asm!("sdot {0:v}.4s, {1:v}.16b, {2:v}.16b", inout(vreg) *sum, in(vreg) a, in(vreg) b,
                options(pure, nomem, nostack, preserves_flags));
        }
    }
    sum
}

/// The absolute values, whose order is that of their bits.
#[target_feature(enable = "neon")]
#[inline]
fn magnitudes(v: float32x4x2_t) -> int32x4x2_t {
    int32x4x2_t(vreinterpretq_s32_f32(vabsq_f32(v.0)), vreinterpretq_s32_f32(vabsq_f32(v.1)))
}

/// The lowest byte of each lane of four vectors, side by side.
#[target_feature(enable = "neon")]
#[inline]
fn low_bytes(v: [int32x4_t; 4]) -> int32x4_t {
    vsliq_n_s32::<24>(vsliq_n_s32::<16>(vsliq_n_s32::<8>(v[0], v[1]), v[2]), v[3])
}

/// The first 4 of 8 halves as floats. The library's intrinsics for halves need a newer Rust.
#[target_feature(enable = "neon")]
#[inline]
fn widen_low(halves: uint16x8_t) -> float32x4_t {
    let low;
    // SAFETY: the instruction is NEON's; it reads and writes these registers only.
    unsafe {
        asm!("fcvtl {0:v}.4s, {1:v}.4h", out(vreg) low, in(vreg) halves, options(pure, nomem, nostack, preserves_flags));
    }
    low
}

/// The last 4 of 8 halves as floats.
#[target_feature(enable = "neon")]
#[inline]
fn widen_high(halves: uint16x8_t) -> float32x4_t {
    let high;
    // SAFETY: as above.
    unsafe {
        asm!("fcvtl2 {0:v}.4s, {1:v}.8h", out(vreg) high, in(vreg) halves, options(pure, nomem, nostack, preserves_flags));
    }
    high
}

/// 8 integers as floats.
#[target_feature(enable = "neon")]
#[inline]
fn floats(integers: int16x8_t) -> float32x4x2_t {
    let (low, high) = (vmovl_s16(vget_low_s16(integers)), vmovl_high_s16(integers));
    float32x4x2_t(vcvtq_f32_s32(low), vcvtq_f32_s32(high))
}

/// 8 bytes as floats.
#[target_feature(enable = "neon")]
#[inline]
fn unsigned_floats(bytes: uint8x8_t) -> float32x4x2_t {
    floats(vreinterpretq_s16_u16(vmovl_u8(bytes)))
}

/// `IQ4_VALUES` of 8 codes.
#[target_feature(enable = "neon")]
#[inline]
fn look_up(codes: uint8x8_t) -> float32x4x2_t {
    // SAFETY: the table has 16 bytes.
    let table = unsafe { vld1q_s8(IQ4_VALUES.as_ptr()) };
    floats(vmovl_s8(vqtbl1_s8(table, codes)))
}

/// The smaller number of each lane, b where either is NaN. The instruction for it gives NaN then.
#[target_feature(enable = "neon")]
#[inline]
fn smaller(a: float32x4_t, b: float32x4_t) -> float32x4_t {
    vbslq_f32(vcltq_f32(a, b), a, b)
}

/// The greater number of each lane, b where either is NaN.
#[target_feature(enable = "neon")]
#[inline]
fn greater(a: float32x4_t, b: float32x4_t) -> float32x4_t {
    vbslq_f32(vcgtq_f32(a, b), a, b)
}

/// 2^n * p, and 0 where x < -126.
#[target_feature(enable = "neon")]
#[inline]
fn scale_by_exp2(p: float32x4_t, n: float32x4_t, x: float32x4_t) -> float32x4_t {
    let scaled = vaddq_s32(vreinterpretq_s32_f32(p), vshlq_n_s32::<23>(vcvtq_s32_f32(n)));
    let tiny = vcltq_f32(x, vdupq_n_f32(-126.0));
    vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_s32(scaled), tiny))
}

/// The first two lanes of a and of b, plus their last two.
#[target_feature(enable = "neon")]
#[inline]
fn halve(a: float32x4_t, b: float32x4_t) -> float32x4_t {
    let (a, b) = (vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b));
    vaddq_f32(vreinterpretq_f32_f64(vzip1q_f64(a, b)), vreinterpretq_f32_f64(vzip2q_f64(a, b)))
}

/// Trait functions that do the same with both registers.
macro_rules! both {
    ($($name:ident($($arg:ident),*) = $call:path;)*) => {$(
        #[inline(always)]
        unsafe fn $name($($arg: float32x4x2_t),*) -> float32x4x2_t {
            // SAFETY: the trait's contract: the instruction set is present.
            unsafe { float32x4x2_t($call($($arg.0),*), $call($($arg.1),*)) }
        }
    )*};
}

impl Simd for Neon {
    type V = float32x4x2_t;
    const LANES: usize = 8;
    const ACCUMULATORS: usize = 12;

    bytes_in_words!();

    both! {
        add(a, b) = vaddq_f32;
        sub(a, b) = vsubq_f32;
        mul(a, b) = vmulq_f32;
        div(a, b) = vdivq_f32;
        min(a, b) = smaller;
        max(a, b) = greater;
        round(a) = vrndnq_f32;
        scale_by_exp2(p, n, x) = scale_by_exp2;
        halve(a, b) = halve;
        halve_again(a, b) = vpaddq_f32;
    }

    ops! {
        splat(x: f32) -> float32x4x2_t = float32x4x2_t(vdupq_n_f32(x), vdupq_n_f32(x));
        load(p: *const f32) -> float32x4x2_t = float32x4x2_t(vld1q_f32(p), vld1q_f32(p.add(4)));
        store(p: *mut f32, v: float32x4x2_t) -> () = {
            vst1q_f32(p, v.0);
            vst1q_f32(p.add(4), v.1);
        };
        load_half(p: *const f32) -> float32x4x2_t = Self::load(p);
        fma(a: float32x4x2_t, b: float32x4x2_t, c: float32x4x2_t) -> float32x4x2_t =
            float32x4x2_t(vfmaq_f32(c.0, a.0, b.0), vfmaq_f32(c.1, a.1, b.1));
        load_f16(p: *const u8) -> float32x4x2_t = {
            let halves = vreinterpretq_u16_u8(vld1q_u8(p));
            float32x4x2_t(widen_low(halves), widen_high(halves))
        };
        load_f16_half(p: *const u8) -> float32x4x2_t = Self::load_f16(p);
        splat_f16(p: *const u8) -> float32x4x2_t = {
            let four = widen_low(vdupq_n_u16(p.cast::<u16>().read_unaligned()));
            float32x4x2_t(four, four)
        };
        load_i8(p: *const u8) -> float32x4x2_t = floats(vmovl_s8(vld1_s8(p.cast())));
        load_u4_low(p: *const u8) -> float32x4x2_t = unsigned_floats(vand_u8(vld1_u8(p), vdup_n_u8(15)));
        load_u4_high(p: *const u8) -> float32x4x2_t = unsigned_floats(vshr_n_u8::<4>(vld1_u8(p)));
        load_iq4_low(p: *const u8) -> float32x4x2_t = look_up(vand_u8(vld1_u8(p), vdup_n_u8(15)));
        load_iq4_high(p: *const u8) -> float32x4x2_t = look_up(vshr_n_u8::<4>(vld1_u8(p)));
        store_sums(p: *mut f32, quads: [float32x4x2_t; 4]) -> () = {
            vst1q_f32(p, vaddq_f32(quads[0].0, quads[0].1));
            vst1q_f32(p.add(4), vaddq_f32(quads[1].0, quads[1].1));
            vst1q_f32(p.add(8), vaddq_f32(quads[2].0, quads[2].1));
            vst1q_f32(p.add(12), vaddq_f32(quads[3].0, quads[3].1));
        };
        sum(v: float32x4x2_t) -> f32 = vaddvq_f32(vaddq_f32(v.0, v.1));
        any_greater(a: float32x4x2_t, b: float32x4x2_t) -> bool =
            vmaxvq_u32(vorrq_u32(vcgtq_f32(a.0, b.0), vcgtq_f32(a.1, b.1))) != 0;
        first(v: float32x4x2_t) -> f32 = vgetq_lane_f32::<0>(v.0);
        largest(v: float32x4x2_t) -> f32 = vmaxnmvq_f32(vmaxnmq_f32(v.0, v.1));
        prefetch(p: *const u8) -> () =
            asm!("prfm pldl1keep, [{0}]", in(reg) p, options(readonly, nostack, preserves_flags));
    }
}

impl WordSimd for Neon {
    type Integers = int32x4x2_t;

    ops! {
        zeros() -> int32x4x2_t = int32x4x2_t(vdupq_n_s32(0), vdupq_n_s32(0));
        load_words(p: *const u8) -> int32x4x2_t =
            int32x4x2_t(vld1q_s32(p.cast()), vld1q_s32(p.add(16).cast()));
        splat_word(p: *const u8) -> int32x4x2_t = {
            let four = vdupq_n_s32(p.cast::<i32>().read_unaligned());
            int32x4x2_t(four, four)
        };
        floats(v: int32x4x2_t) -> float32x4x2_t = float32x4x2_t(vcvtq_f32_s32(v.0), vcvtq_f32_s32(v.1));
        larger_magnitude(a: float32x4x2_t, b: float32x4x2_t) -> float32x4x2_t = {
            let (a, b) = (magnitudes(a), magnitudes(b));
            let (low, high) = (vmaxq_s32(a.0, b.0), vmaxq_s32(a.1, b.1));
            float32x4x2_t(vreinterpretq_f32_s32(low), vreinterpretq_f32_s32(high))
        };
        largest_magnitude(v: float32x4x2_t) -> f32 = {
            let v = magnitudes(v);
            f32::from_bits(vmaxvq_s32(vmaxq_s32(v.0, v.1)).cast_unsigned())
        };
    }
}

impl ByteSimd for Neon {
    const BITS: u32 = 8;
    const KEY_BITS: u32 = 8;
    const IN_TWOS: bool = false;
    const SIGNED: bool = true;

    ops! {
        multiply_bytes(a: int32x4x2_t, b: int32x4x2_t, c: int32x4x2_t) -> int32x4x2_t = dot(c, a, b);
        nearest(v: float32x4x2_t) -> int32x4x2_t = int32x4x2_t(vcvtnq_s32_f32(v.0), vcvtnq_s32_f32(v.1));
        subtract(a: int32x4x2_t, b: int32x4x2_t) -> int32x4x2_t =
            int32x4x2_t(vsubq_s32(a.0, b.0), vsubq_s32(a.1, b.1));
        store_integers(p: *mut u8, v: int32x4x2_t) -> () = {
            vst1q_s32(p.cast(), v.0);
            vst1q_s32(p.add(16).cast(), v.1);
        };
        store_low_bytes(p: *mut u8, v: int32x4x2_t) -> () =
            vst1_s8(p.cast(), vmovn_s16(vuzp1q_s16(vreinterpretq_s16_s32(v.0), vreinterpretq_s16_s32(v.1))));
        pack_signed(v: [int32x4x2_t; 4]) -> int32x4x2_t =
            int32x4x2_t(low_bytes([v[0].0, v[1].0, v[2].0, v[3].0]), low_bytes([v[0].1, v[1].1, v[2].1, v[3].1]));
        pack_unsigned(v: [int32x4x2_t; 4]) -> int32x4x2_t = {
            let (packed, offset) = (Self::pack_signed(v), vdupq_n_s32(i32::from_ne_bytes([128; 4])));
            int32x4x2_t(veorq_s32(packed.0, offset), veorq_s32(packed.1, offset))
        };
    }
}

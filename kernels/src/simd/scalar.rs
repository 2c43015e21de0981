//! Portable Rust in groups of 8, in a form that the compiler can vectorise, as with SSE2. Used where the processor has none
//! of the other instruction sets.

use super::{Kernel, Simd, bytes_in_words};
use crate::quant::IQ4_VALUES;

#[derive(Clone, Copy)]
pub(crate) struct Scalar;

/// # Safety
/// The kernel's own requirements are met.
#[inline(never)] // so that the callers stay small, as with the other sets
pub(super) unsafe fn enter<K: Kernel>(kernel: K) -> K::Out {
    // SAFETY: the caller's promise.
    unsafe { kernel.run::<Scalar>() }
}

#[derive(Clone, Copy)]
#[repr(align(32))]
pub(crate) struct V8([f32; 8]);

/// A half as a float, without tables: shifts the 15 low bits into place and multiplies by 2^112 to correct
/// the exponent (exact, also for subnormals). Infinities and NaN get the maximum exponent.
#[inline(always)]
fn widen(bits: u16) -> f32 {
    let bits = u32::from(bits);
    let magnitude = f32::from_bits((bits & 0x7fff) << 13) * f32::from_bits(0x7780_0000);
    let special = if bits & 0x7c00 == 0x7c00 { 0x7f80_0000 } else { 0 };
    f32::from_bits(magnitude.to_bits() | special | (bits & 0x8000) << 16)
}

/// Trait functions that compute each of the 8 lanes from its index.
macro_rules! lanes {
    ($($name:ident($($arg:ident: $ty:ty),*) = |$i:ident| $body:expr;)*) => {$(
        #[inline(always)]
        unsafe fn $name($($arg: $ty),*) -> V8 {
            let mut out = [0f32; 8];
            let mut $i = 0;
            while $i < 8 {
                // SAFETY: the trait's contract: pointers cover the 8 elements that are read.
                #[allow(unused_unsafe, reason = "some bodies only compute")]
                { out[$i] = unsafe { $body } };
                $i += 1;
            }
            V8(out)
        }
    )*};
}

impl Simd for Scalar {
    type V = V8;
    const LANES: usize = 8;
    const ACCUMULATORS: usize = 8;

    bytes_in_words!();

    lanes! {
        splat(x: f32) = |i| x;
        load(p: *const f32) = |i| p.add(i).read_unaligned();
        load_half(p: *const f32) = |i| p.add(i).read_unaligned();
        add(a: V8, b: V8) = |i| a.0[i] + b.0[i];
        sub(a: V8, b: V8) = |i| a.0[i] - b.0[i];
        mul(a: V8, b: V8) = |i| a.0[i] * b.0[i];
        div(a: V8, b: V8) = |i| a.0[i] / b.0[i];
        min(a: V8, b: V8) = |i| if a.0[i] < b.0[i] { a.0[i] } else { b.0[i] };
        max(a: V8, b: V8) = |i| if a.0[i] > b.0[i] { a.0[i] } else { b.0[i] };
        // Two roundings: without the instruction, a fused multiply-add is a slow library call.
        fma(a: V8, b: V8, c: V8) = |i| a.0[i] * b.0[i] + c.0[i];
        // Adding 1.5 * 2^23 leaves no bits for a fraction. Correct for |a| below 2^22; exp2 limits larger
        // numbers.
        round(a: V8) = |i| (a.0[i] + 12_582_912.0) - 12_582_912.0;
        scale_by_exp2(p: V8, n: V8, x: V8) = |i| if x.0[i] < -126.0 {
            0.0
        } else {
            f32::from_bits(p.0[i].to_bits().wrapping_add(((n.0[i] as i32) << 23) as u32))
        };
        load_f16(p: *const u8) = |i| widen(p.cast::<u16>().add(i).read_unaligned());
        load_f16_half(p: *const u8) = |i| widen(p.cast::<u16>().add(i).read_unaligned());
        splat_f16(p: *const u8) = |i| widen(p.cast::<u16>().read_unaligned());
        load_i8(p: *const u8) = |i| f32::from(p.add(i).read() as i8);
        load_u4_low(p: *const u8) = |i| f32::from(p.add(i).read() & 15);
        load_u4_high(p: *const u8) = |i| f32::from(p.add(i).read() >> 4);
        load_iq4_low(p: *const u8) = |i| f32::from(IQ4_VALUES[usize::from(p.add(i).read() & 15)]);
        load_iq4_high(p: *const u8) = |i| f32::from(IQ4_VALUES[usize::from(p.add(i).read() >> 4)]);
        halve(a: V8, b: V8) = |i| {
            let (from, at) = (if i % 4 < 2 { a.0 } else { b.0 }, i / 4 * 4 + i % 2);
            from[at] + from[at + 2]
        };
        halve_again(a: V8, b: V8) = |i| {
            let (from, at) = (if i % 4 < 2 { a.0 } else { b.0 }, i / 4 * 4 + i % 2 * 2);
            from[at] + from[at + 1]
        };
    }

    #[inline(always)]
    unsafe fn store(p: *mut f32, v: V8) {
        // SAFETY: the trait's contract: 8 floats may be written at p.
        unsafe { p.cast::<[f32; 8]>().write_unaligned(v.0) }
    }

    #[inline(always)]
    unsafe fn store_sums(p: *mut f32, quads: [V8; 4]) {
        let mut i = 0;
        while i < 16 {
            let q = &quads[i / 4].0;
            // SAFETY: the trait's contract: 16 floats may be written at p.
            unsafe { p.add(i).write_unaligned(q[i % 4] + q[i % 4 + 4]) };
            i += 1;
        }
    }

    #[inline(always)]
    unsafe fn sum(v: V8) -> f32 {
        let x = v.0;
        ((x[0] + x[4]) + (x[1] + x[5])) + ((x[2] + x[6]) + (x[3] + x[7]))
    }

    #[inline(always)]
    unsafe fn any_greater(a: V8, b: V8) -> bool {
        let mut any = false;
        let mut i = 0;
        while i < 8 {
            any |= a.0[i] > b.0[i];
            i += 1;
        }
        any
    }

    #[inline(always)]
    unsafe fn first(v: V8) -> f32 {
        v.0[0]
    }

    #[inline(always)]
    unsafe fn largest(v: V8) -> f32 {
        let mut m = v.0[0];
        let mut i = 1;
        while i < 8 {
            m = if v.0[i] > m { v.0[i] } else { m };
            i += 1;
        }
        m
    }

    #[inline(always)]
    unsafe fn prefetch(_: *const u8) {}
}

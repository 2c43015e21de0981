//! 2^x of a vector, and the soft cap of logits, which follows from it. The kernels keep logits in units of log 2:
//! queries are multiplied by log2 e. So softmax needs only 2^x, whose range reduction is exact and one multiplication
//! shorter than that of e^x.

use crate::simd::{Kernel, Loop, Simd};

/// Near-minimax polynomial of 2^r on [-1/2, 1/2] with constant term 1 (interpolated at the Chebyshev nodes):
/// relative error 1e-8 in exact arithmetic, so that f32 rounding dominates (measured: at most 1.6e-7, below
/// 1.5 ulp).
const POLY: [f32; 6] =
    [std::f32::consts::LN_2, 0.240_226_5, 0.055_503_57, 0.009_618_083, 0.001_339_086_3, 0.000_154_531_63];

/// 2^x. Below -126 the result is 0 (never subnormal), above 127 it is 2^127. NaN stays NaN.
///
/// # Safety
/// `S`'s instruction set is present.
#[inline(always)]
pub(crate) unsafe fn exp2<S: Simd>(x: S::V) -> S::V {
    // SAFETY: the caller's promise.
    unsafe {
        let x = S::min(S::splat(127.0), x); // in this order: the result is the second operand where one is NaN
        let n = S::round(x);
        let r = S::sub(x, n);
        let mut p = S::splat(POLY[5]);
        p = S::fma(p, r, S::splat(POLY[4]));
        p = S::fma(p, r, S::splat(POLY[3]));
        p = S::fma(p, r, S::splat(POLY[2]));
        p = S::fma(p, r, S::splat(POLY[1]));
        p = S::fma(p, r, S::splat(POLY[0]));
        p = S::fma(p, r, S::splat(1.0));
        S::scale_by_exp2(p, n, x)
    }
}

/// Polynomial of 2^r on [-1/2, 1/2], interpolated at the Chebyshev nodes: relative error 1e-4.
const ROUGH_POLY: [f32; 4] = [0.999_924_56, 0.693_136_73, 0.242_639_48, 0.055_838_28];

/// 2^x with a relative error of 1e-4, for weights that are rounded to bytes. x is at most 127; below -126 the result is 0.
///
/// # Safety
/// `S`'s instruction set is present.
#[inline(always)]
pub(crate) unsafe fn rough_exp2<S: Simd>(x: S::V) -> S::V {
    // SAFETY: the caller's promise.
    unsafe {
        let n = S::round(x);
        let r = S::sub(x, n);
        let mut p = S::splat(ROUGH_POLY[3]);
        p = S::fma(p, r, S::splat(ROUGH_POLY[2]));
        p = S::fma(p, r, S::splat(ROUGH_POLY[1]));
        p = S::fma(p, r, S::splat(ROUGH_POLY[0]));
        S::scale_by_exp2(p, n, x)
    }
}

/// Replaces each logit x by cap * tanh(x / cap). Safety: the number of logits is a multiple of the lanes.
pub(crate) struct SoftCap<'a> {
    pub logits: &'a mut [f32],
    pub cap: f32,
}

impl Kernel for SoftCap<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let logits = self.logits.as_mut_ptr();
        for c in Loop(0, self.logits.len() / S::LANES) {
            // SAFETY: c counts whole vectors of the slice.
            unsafe {
                let at = logits.add(c * S::LANES);
                // tanh(y) = 1 - 2 / (e^2y + 1)
                let power = S::mul(S::load(at), S::splat(2.0 * std::f32::consts::LOG2_E / self.cap));
                let quotient = S::div(S::splat(-2.0 * self.cap), S::add(exp2::<S>(power), S::splat(1.0)));
                S::store(at, S::add(quotient, S::splat(self.cap)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Exp2<'a>(&'a mut [f32]);
    impl Kernel for Exp2<'_> {
        type Out = ();
        #[inline(always)]
        unsafe fn run<S: Simd>(self) {
            for c in Loop(0, self.0.len() / S::LANES) {
                // SAFETY: c counts whole vectors of the slice.
                unsafe {
                    let p = self.0.as_mut_ptr().add(c * S::LANES);
                    S::store(p, exp2::<S>(S::load(p)));
                }
            }
        }
    }

    fn exp2_of(isa: crate::Isa, x: &[f32]) -> Vec<f32> {
        let mut y = x.to_vec();
        // SAFETY: only available instruction sets are passed.
        unsafe { isa.enter(Exp2(&mut y)) };
        y
    }

    #[test]
    fn relative_error_is_below_1_7e_7() {
        for isa in crate::Isa::available() {
            let x: Vec<f32> = (0..1 << 18).map(|i| -126.0 + i as f32 * (226.0 / (1 << 18) as f32)).collect();
            let worst = exp2_of(isa, &x)
                .iter()
                .zip(&x)
                .map(|(y, x)| (f64::from(*y) / f64::from(*x).exp2() - 1.0).abs())
                .fold(0.0, f64::max);
            assert!(worst < 1.7e-7, "{isa:?}: relative error {worst:e}");
        }
    }

    #[test]
    fn special_values_and_ends_of_the_range() {
        let mut x = [0f32; 16];
        x[..8].copy_from_slice(&[f32::NEG_INFINITY, -126.1, -1e30, 0.0, -0.0, 1.0, 200.0, f32::INFINITY]);
        x[8] = f32::NAN;
        let top = 127f32.exp2();
        for isa in crate::Isa::available() {
            let y = exp2_of(isa, &x);
            assert_eq!(y[..8], [0.0, 0.0, 0.0, 1.0, 1.0, 2.0, top, top], "{isa:?}");
            assert!(y[8].is_nan(), "{isa:?}");
        }
    }
}

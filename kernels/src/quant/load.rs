//! Loads of rows of keys and values into vectors, generic over the instruction set ([`Simd`]). They give the
//! numbers of [`RowType::decode`](super::RowType::decode).

use std::marker::PhantomData;

use super::{BLOCK, FOUR_BITS_BYTES, IQ4_VALUES, Q8_0_BYTES};
use crate::simd::{IntegerSimd, Simd};

/// Loads a row as vectors of f32. Vector `c` has elements `c * LANES .. (c + 1) * LANES`.
pub(crate) trait Load: 'static {
    /// # Safety
    /// `S`'s instruction set is present; `row` points at a row with the whole vector.
    unsafe fn load<S: Simd>(row: *const u8, c: usize) -> S::V;

    /// Vectors `c` and `c + 1`, `c` even: they share a scale in the quantised types.
    /// # Safety
    /// As for [`load`](Self::load), for both vectors.
    #[inline(always)]
    unsafe fn load2<S: Simd>(row: *const u8, c: usize) -> [S::V; 2] {
        // SAFETY: the caller's promise.
        unsafe { [Self::load::<S>(row, c), Self::load::<S>(row, c + 1)] }
    }

    /// The last vector of a row where it has only 8 elements although `LANES` is 16. The other lanes are
    /// zero.
    /// # Safety
    /// As for [`load`](Self::load), with 8 elements instead of `LANES`.
    unsafe fn load_half<S: Simd>(row: *const u8, c: usize) -> S::V;
}

pub(crate) struct F32;
pub(crate) struct F16;
pub(crate) struct Q8_0;

impl Load for F32 {
    #[inline(always)]
    unsafe fn load<S: Simd>(row: *const u8, c: usize) -> S::V {
        // SAFETY: the caller's promise: LANES floats are at vector c.
        unsafe { S::load(row.add(c * S::LANES * 4).cast()) }
    }
    #[inline(always)]
    unsafe fn load_half<S: Simd>(row: *const u8, c: usize) -> S::V {
        // SAFETY: the caller's promise: 8 floats are at vector c.
        unsafe { S::load_half(row.add(c * S::LANES * 4).cast()) }
    }
}

impl Load for F16 {
    #[inline(always)]
    unsafe fn load<S: Simd>(row: *const u8, c: usize) -> S::V {
        // SAFETY: the caller's promise: LANES halves are at vector c.
        unsafe { S::load_f16(row.add(c * S::LANES * 2)) }
    }
    #[inline(always)]
    unsafe fn load_half<S: Simd>(row: *const u8, c: usize) -> S::V {
        // SAFETY: the caller's promise: 8 halves are at vector c.
        unsafe { S::load_f16_half(row.add(c * S::LANES * 2)) }
    }
}

impl Load for Q8_0 {
    #[inline(always)]
    unsafe fn load2<S: Simd>(row: *const u8, c: usize) -> [S::V; 2] {
        let at = c * S::LANES;
        // SAFETY: 2 * LANES divides BLOCK and c is even, so both vectors are inside the block whose scale is
        // read.
        unsafe {
            let block = row.add(at / BLOCK * Q8_0_BYTES);
            let (bytes, scale) = (block.add(2 + at % BLOCK), S::splat_f16(block));
            [S::mul(S::load_i8(bytes), scale), S::mul(S::load_i8(bytes.add(S::LANES)), scale)]
        }
    }
    #[inline(always)]
    unsafe fn load<S: Simd>(row: *const u8, c: usize) -> S::V {
        let at = c * S::LANES;
        // SAFETY: LANES divides BLOCK, so the vector is inside the block whose scale is read.
        unsafe {
            let block = row.add(at / BLOCK * Q8_0_BYTES);
            S::mul(S::load_i8(block.add(2 + at % BLOCK)), S::splat_f16(block))
        }
    }
    #[inline(always)]
    unsafe fn load_half<S: Simd>(row: *const u8, c: usize) -> S::V {
        // SAFETY: never called, because LANES divides BLOCK; a plain load keeps the behaviour defined.
        unsafe { Self::load::<S>(row, c) }
    }
}

/// Codes of four bits in blocks with one scale.
pub(crate) struct FourBits<C>(PhantomData<C>);
/// Code minus 8.
pub(crate) struct Linear;
/// `IQ4_VALUES` of the code.
pub(crate) struct Table;
pub(crate) type Q4_0 = FourBits<Linear>;
pub(crate) type Iq4Nl = FourBits<Table>;

/// The numbers of codes of four bits.
pub(crate) trait Codes: 'static {
    /// The numbers before they are multiplied by the scale.
    const VALUES: [i8; 16];
    /// The numbers of the codes in the low halves of `LANES` bytes, times `scale`.
    /// # Safety
    /// `S`'s instruction set is present; `LANES` bytes are at `bytes`.
    unsafe fn low<S: Simd>(bytes: *const u8, scale: S::V) -> S::V;
    /// As [`low`](Self::low), of the high halves.
    /// # Safety
    /// As for `low`.
    unsafe fn high<S: Simd>(bytes: *const u8, scale: S::V) -> S::V;
}

impl Codes for Linear {
    const VALUES: [i8; 16] = [-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7];

    #[inline(always)]
    unsafe fn low<S: Simd>(bytes: *const u8, scale: S::V) -> S::V {
        // SAFETY: the caller's promise. The product is exact, so the sum is rounded once.
        unsafe { S::fma(S::load_u4_low(bytes), scale, S::mul(scale, S::splat(-8.0))) }
    }
    #[inline(always)]
    unsafe fn high<S: Simd>(bytes: *const u8, scale: S::V) -> S::V {
        // SAFETY: as above.
        unsafe { S::fma(S::load_u4_high(bytes), scale, S::mul(scale, S::splat(-8.0))) }
    }
}

impl Codes for Table {
    const VALUES: [i8; 16] = IQ4_VALUES;

    #[inline(always)]
    unsafe fn low<S: Simd>(bytes: *const u8, scale: S::V) -> S::V {
        // SAFETY: the caller's promise.
        unsafe { S::mul(S::load_iq4_low(bytes), scale) }
    }
    #[inline(always)]
    unsafe fn high<S: Simd>(bytes: *const u8, scale: S::V) -> S::V {
        // SAFETY: the caller's promise.
        unsafe { S::mul(S::load_iq4_high(bytes), scale) }
    }
}

impl<C: Codes> Load for FourBits<C> {
    #[inline(always)]
    unsafe fn load2<S: Simd>(row: *const u8, c: usize) -> [S::V; 2] {
        let at = c * S::LANES;
        // SAFETY: 2 * LANES divides BLOCK and c is even, so both vectors are inside one block: with 16 lanes
        // the low and the high nibbles of all its bytes, with 8 lanes the low or the high nibbles of both
        // halves.
        unsafe {
            let block = row.add(at / BLOCK * FOUR_BITS_BYTES);
            let (bytes, scale) = (block.add(2), S::splat_f16(block));
            if S::LANES == 16 {
                [C::low::<S>(bytes, scale), C::high::<S>(bytes, scale)]
            } else if at % BLOCK < BLOCK / 2 {
                [C::low::<S>(bytes, scale), C::low::<S>(bytes.add(8), scale)]
            } else {
                [C::high::<S>(bytes, scale), C::high::<S>(bytes.add(8), scale)]
            }
        }
    }
    #[inline(always)]
    unsafe fn load<S: Simd>(row: *const u8, c: usize) -> S::V {
        let at = c * S::LANES;
        let within = at % BLOCK;
        // SAFETY: LANES divides BLOCK / 2, so the vector is LANES low or LANES high nibbles of one block.
        unsafe {
            let block = row.add(at / BLOCK * FOUR_BITS_BYTES);
            let (bytes, scale) = (block.add(2 + within % (BLOCK / 2)), S::splat_f16(block));
            if within < BLOCK / 2 { C::low::<S>(bytes, scale) } else { C::high::<S>(bytes, scale) }
        }
    }
    #[inline(always)]
    unsafe fn load_half<S: Simd>(row: *const u8, c: usize) -> S::V {
        // SAFETY: as for Q8_0.
        unsafe { Self::load::<S>(row, c) }
    }
}

/// The integers of a quantised row: its elements are these times the scales of their blocks. A block begins with its
/// scale, a half.
pub(crate) trait LoadIntegers: 'static {
    const BLOCK_BYTES: usize;

    /// The integers of two blocks: the first 16 of a and of b, then the last 16 of both.
    /// # Safety
    /// `S`'s instruction set is present; whole blocks are at `a` and `b`.
    unsafe fn load_two<S: IntegerSimd>(a: *const u8, b: *const u8) -> [S::Bytes; 2];
}

impl LoadIntegers for Q8_0 {
    const BLOCK_BYTES: usize = Q8_0_BYTES;

    #[inline(always)]
    unsafe fn load_two<S: IntegerSimd>(a: *const u8, b: *const u8) -> [S::Bytes; 2] {
        // SAFETY: the caller's promise: 32 bytes follow the scales.
        unsafe { [S::load_two(a.add(2), b.add(2)), S::load_two(a.add(18), b.add(18))] }
    }
}

impl<C: Codes> LoadIntegers for FourBits<C> {
    const BLOCK_BYTES: usize = FOUR_BITS_BYTES;

    #[inline(always)]
    unsafe fn load_two<S: IntegerSimd>(a: *const u8, b: *const u8) -> [S::Bytes; 2] {
        // SAFETY: the caller's promise: 16 bytes follow the scales.
        unsafe {
            let codes = S::load_two(a.add(2), b.add(2));
            [S::look_up(&C::VALUES, S::low_nibbles(codes)), S::look_up(&C::VALUES, S::high_nibbles(codes))]
        }
    }
}

/// Evaluates an expression with the type `$load` bound to the [`LoadIntegers`] of a quantised [`RowType`].
macro_rules! with_integers {
    ($ty:expr, $load:ident => $body:expr) => {
        $crate::quant::load::with_integers!($ty, $load => $body; Q8_0 Q4_0 Iq4Nl)
    };
    ($ty:expr, $load:ident => $body:expr; $($name:ident)*) => {
        match $ty {
            $($crate::quant::RowType::$name => {
                type $load = $crate::quant::load::$name;
                $body
            })*
            $crate::quant::RowType::F32 | $crate::quant::RowType::F16 => unreachable!("not quantised"),
        }
    };
}
pub(crate) use with_integers;

/// Evaluates an expression with the type `$load` bound to the [`Load`] of a [`RowType`].
macro_rules! with_loader {
    ($ty:expr, $load:ident => $body:expr) => {
        $crate::quant::load::with_loader!($ty, $load => $body; F32 F16 Q8_0 Q4_0 Iq4Nl)
    };
    ($ty:expr, $load:ident => $body:expr; $($name:ident)*) => {
        match $ty {
            $($crate::quant::RowType::$name => {
                type $load = $crate::quant::load::$name;
                $body
            })*
        }
    };
}
pub(crate) use with_loader;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RowType;
    use crate::simd::{Kernel, Loop};

    /// Reads a whole row with the vector loads.
    struct ReadRow<'a> {
        ty: RowType,
        row: &'a [u8],
        out: &'a mut [f32],
    }

    impl Kernel for ReadRow<'_> {
        type Out = ();
        #[inline(always)]
        unsafe fn run<S: Simd>(self) {
            let whole = self.out.len() / S::LANES;
            let mut buffer = [0f32; 16];
            // Pairs and single vectors must both equal the decoded row.
            let mut in_pairs = vec![0f32; whole / 2 * 2 * S::LANES];
            with_loader!(self.ty, L => for c in Loop(0, whole / 2) {
                // SAFETY: c counts whole pairs of vectors of the row.
                unsafe {
                    let pair = L::load2::<S>(self.row.as_ptr(), 2 * c);
                    S::store(in_pairs.as_mut_ptr().add(2 * c * S::LANES), pair[0]);
                    S::store(in_pairs.as_mut_ptr().add((2 * c + 1) * S::LANES), pair[1]);
                }
            });
            with_loader!(self.ty, L => for c in Loop(0, whole) {
                // SAFETY: c counts whole vectors of the row; the buffer holds any vector.
                unsafe { S::store(buffer.as_mut_ptr(), L::load::<S>(self.row.as_ptr(), c)) };
                self.out[c * S::LANES..][..S::LANES].copy_from_slice(&buffer[..S::LANES]);
            });
            for (a, b) in in_pairs.iter().zip(&*self.out) {
                assert!(a == b || a.is_nan() && b.is_nan());
            }
            if whole * S::LANES < self.out.len() {
                with_loader!(self.ty, L => {
                    // SAFETY: 8 elements are left (the row length is a multiple of 8).
                    unsafe { S::store(buffer.as_mut_ptr(), L::load_half::<S>(self.row.as_ptr(), whole)) };
                });
                self.out[whole * S::LANES..].copy_from_slice(&buffer[..8]);
                assert_eq!(buffer[8..], [0.0; 8]);
            }
        }
    }

    #[test]
    fn vector_loads_equal_decoded_rows() {
        for ty in RowType::ALL {
            for n in [32, 64, 96, 40, 72] {
                if n % ty.granule() != 0 {
                    continue;
                }
                let x: Vec<f32> = (0..n).map(|i| ((i * 37 % 101) as f32 - 50.0) / 9.0).collect();
                let mut row = vec![0; ty.row_bytes(n)];
                ty.encode(&x, &mut row);
                let mut plain = vec![0.0; n];
                ty.decode(&row, &mut plain);
                for isa in crate::Isa::available() {
                    let mut out = vec![f32::NAN; n];
                    // SAFETY: the instruction set is available; the row has n elements.
                    unsafe { isa.enter(ReadRow { ty, row: &row, out: &mut out }) };
                    assert_eq!(out, plain, "{isa:?} {} {n}", ty.name());
                }
            }
        }
    }

    #[test]
    fn f16_loads_are_exact_for_every_bit_pattern() {
        let all: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        let mut plain = vec![0f32; 1 << 16];
        RowType::F16.decode(&all, &mut plain);
        for isa in crate::Isa::available() {
            let mut out = vec![0f32; 1 << 16];
            // SAFETY: the instruction set is available; the row has 65536 halves.
            unsafe { isa.enter(ReadRow { ty: RowType::F16, row: &all, out: &mut out }) };
            for (i, (a, b)) in out.iter().zip(&plain).enumerate() {
                assert!(
                    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()),
                    "{isa:?} {i:#06x}: {a} is not {b}"
                );
            }
        }
    }
}

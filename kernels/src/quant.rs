//! The element types of rows of keys and values, in ggml's byte layouts: encoding, decoding, and loads into
//! vectors. The vector loads are generic over the instruction set (`Simd`).
//!
//! To add a type: a line in quant/types.rs, its encoding, decoding and `Load` here, and its reads and writes
//! in cuda/rows.h. Missing parts are compile errors. Everything else follows from [`RowType::ALL`].

use half::f16;

use crate::simd::Simd;

/// Makes [`RowType`] of the list in quant/types.rs.
macro_rules! row_types {
    ($($(#[$doc:meta])* $ty:ident: $name:literal, $elements:literal, $bytes:literal;)*) => {
        /// Element type of a K or V row. Device kernels use the numbers of the variants.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(i32)]
        pub enum RowType { $($(#[$doc])* $ty,)* }

        impl RowType {
            /// All types.
            pub const ALL: [RowType; [$($bytes),*].len()] = [$(RowType::$ty),*];

            /// The name in ggml and on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(RowType::$ty => $name),* }
            }

            /// Elements of a block; 1 for types without blocks.
            pub const fn block_elements(self) -> usize {
                match self { $(RowType::$ty => $elements),* }
            }

            /// Bytes of a block.
            pub const fn block_bytes(self) -> usize {
                match self { $(RowType::$ty => $bytes),* }
            }
        }
    };
}
include!("quant/types.rs");

/// Elements of a block of the quantised types.
const BLOCK: usize = 32;
const Q8_0_BYTES: usize = RowType::Q8_0.block_bytes();
const Q4_0_BYTES: usize = RowType::Q4_0.block_bytes();

impl RowType {
    /// The type with this name.
    pub fn from_name(name: &str) -> Option<RowType> {
        RowType::ALL.into_iter().find(|ty| ty.name() == name)
    }

    /// The names of all types for messages: `f32, f16, q8_0 or q4_0`.
    pub fn names() -> String {
        let names: Vec<&str> = RowType::ALL.iter().map(|ty| ty.name()).collect();
        let (last, others) = names.split_last().expect("there are types");
        format!("{} or {last}", others.join(", "))
    }

    /// Row lengths must be a multiple of this number of elements: a block, or the 8 elements of the smallest
    /// vector load.
    pub const fn granule(self) -> usize {
        if self.block_elements() == 1 { 8 } else { self.block_elements() }
    }

    /// Bytes of a row of `elements` (a multiple of [`granule`](Self::granule)).
    pub const fn row_bytes(self, elements: usize) -> usize {
        elements / self.block_elements() * self.block_bytes()
    }

    /// Writes `values` as one row, with the rounding of ggml's reference quantisers. Where the slices do not
    /// fit each other, only the shorter length is written.
    pub fn encode(self, values: &[f32], row: &mut [u8]) {
        match self {
            RowType::F32 => {
                for (v, out) in values.iter().zip(row.chunks_exact_mut(4)) {
                    out.copy_from_slice(&v.to_le_bytes());
                }
            }
            RowType::F16 => {
                for (v, out) in values.iter().zip(row.chunks_exact_mut(2)) {
                    out.copy_from_slice(&f16::from_f32(*v).to_le_bytes());
                }
            }
            RowType::Q8_0 => {
                for (x, out) in values.chunks_exact(BLOCK).zip(row.chunks_exact_mut(Q8_0_BYTES)) {
                    let largest = x.iter().fold(0f32, |m, v| m.max(v.abs()));
                    let scale = largest / 127.0;
                    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
                    out[..2].copy_from_slice(&f16::from_f32(scale).to_le_bytes());
                    for (v, byte) in x.iter().zip(&mut out[2..]) {
                        *byte = ((v * inverse).round() as i8) as u8;
                    }
                }
            }
            RowType::Q4_0 => {
                for (x, out) in values.chunks_exact(BLOCK).zip(row.chunks_exact_mut(Q4_0_BYTES)) {
                    // The element with the largest absolute value becomes exactly -8.
                    let extreme = x.iter().fold(0f32, |m, &v| if v.abs() > m.abs() { v } else { m });
                    let scale = extreme / -8.0;
                    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
                    out[..2].copy_from_slice(&f16::from_f32(scale).to_le_bytes());
                    let nibble = |v: f32| ((v * inverse + 8.5) as u8).min(15);
                    for j in 0..BLOCK / 2 {
                        out[2 + j] = nibble(x[j]) | nibble(x[j + BLOCK / 2]) << 4;
                    }
                }
            }
        }
    }

    /// Reads one row into `values`. The vector loads below give the same numbers.
    pub fn decode(self, row: &[u8], values: &mut [f32]) {
        let half_at = |b: &[u8]| f16::from_le_bytes([b[0], b[1]]).to_f32();
        match self {
            RowType::F32 => {
                for (b, v) in row.chunks_exact(4).zip(values) {
                    *v = f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
                }
            }
            RowType::F16 => {
                for (b, v) in row.chunks_exact(2).zip(values) {
                    *v = half_at(b);
                }
            }
            RowType::Q8_0 => {
                for (b, x) in row.chunks_exact(Q8_0_BYTES).zip(values.chunks_exact_mut(BLOCK)) {
                    let scale = half_at(b);
                    for (v, byte) in x.iter_mut().zip(&b[2..]) {
                        *v = scale * f32::from(*byte as i8);
                    }
                }
            }
            RowType::Q4_0 => {
                for (b, x) in row.chunks_exact(Q4_0_BYTES).zip(values.chunks_exact_mut(BLOCK)) {
                    let scale = half_at(b);
                    for j in 0..BLOCK / 2 {
                        x[j] = scale * (f32::from(b[2 + j] & 15) - 8.0);
                        x[j + BLOCK / 2] = scale * (f32::from(b[2 + j] >> 4) - 8.0);
                    }
                }
            }
        }
    }
}

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
pub(crate) struct Q4_0;

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

impl Load for Q4_0 {
    #[inline(always)]
    unsafe fn load2<S: Simd>(row: *const u8, c: usize) -> [S::V; 2] {
        let at = c * S::LANES;
        // SAFETY: 2 * LANES divides BLOCK and c is even, so both vectors are inside one block: with 16 lanes
        // the low and the high nibbles of all its bytes, with 8 lanes the low or the high nibbles of both
        // halves.
        unsafe {
            let block = row.add(at / BLOCK * Q4_0_BYTES);
            let (bytes, scale) = (block.add(2), S::splat_f16(block));
            let minus_8 = S::mul(scale, S::splat(-8.0)); // exact
            let pair = if S::LANES == 16 {
                [S::load_u4_low(bytes), S::load_u4_high(bytes)]
            } else if at % BLOCK < BLOCK / 2 {
                [S::load_u4_low(bytes), S::load_u4_low(bytes.add(8))]
            } else {
                [S::load_u4_high(bytes), S::load_u4_high(bytes.add(8))]
            };
            [S::fma(pair[0], scale, minus_8), S::fma(pair[1], scale, minus_8)]
        }
    }
    #[inline(always)]
    unsafe fn load<S: Simd>(row: *const u8, c: usize) -> S::V {
        let at = c * S::LANES;
        let within = at % BLOCK;
        // SAFETY: LANES divides BLOCK / 2, so the vector is LANES low or LANES high nibbles of one block.
        unsafe {
            let block = row.add(at / BLOCK * Q4_0_BYTES);
            let bytes = block.add(2 + within % (BLOCK / 2));
            let ints = if within < BLOCK / 2 { S::load_u4_low(bytes) } else { S::load_u4_high(bytes) };
            S::mul(S::add(ints, S::splat(-8.0)), S::splat_f16(block))
        }
    }
    #[inline(always)]
    unsafe fn load_half<S: Simd>(row: *const u8, c: usize) -> S::V {
        // SAFETY: as for Q8_0.
        unsafe { Self::load::<S>(row, c) }
    }
}

/// Evaluates an expression with the type `$load` bound to the [`Load`] of a [`RowType`].
macro_rules! with_loader {
    ($ty:expr, $load:ident => $body:expr) => {
        $crate::quant::with_loader!($ty, $load => $body; F32 F16 Q8_0 Q4_0)
    };
    ($ty:expr, $load:ident => $body:expr; $($name:ident)*) => {
        match $ty {
            $($crate::quant::RowType::$name => {
                type $load = $crate::quant::$name;
                $body
            })*
        }
    };
}
pub(crate) use with_loader;

#[cfg(test)]
mod tests {
    use super::*;
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

    #[test]
    fn encoding_error_is_at_most_half_a_step() {
        let x: Vec<f32> = (0..64).map(|i| (i as f32 * 0.37).sin() * 3.0).collect();
        for ty in RowType::ALL {
            let step = match ty {
                RowType::F32 => 0.0,
                RowType::F16 => 4.0 / 2048.0,
                RowType::Q8_0 => 3.0 / 127.0,
                RowType::Q4_0 => 3.0 / 8.0,
            };
            let mut row = vec![0; ty.row_bytes(64)];
            ty.encode(&x, &mut row);
            let mut back = vec![0.0; 64];
            ty.decode(&row, &mut back);
            for (a, b) in x.iter().zip(&back) {
                // q4_0 has no +8, so that its error is up to a whole step. The rounding of the scale adds a
                // tenth.
                let tolerance = if ty == RowType::Q4_0 { step } else { step / 2.0 };
                assert!((a - b).abs() <= tolerance * 1.1, "{} {a} {b}", ty.name());
            }
        }
    }

    #[test]
    fn encoded_blocks_have_the_expected_bytes() {
        let mut x = [0f32; 32];
        x[0] = -8.0;
        x[1] = 7.0;
        x[16] = 1.0;
        let mut row = [0u8; Q4_0_BYTES];
        RowType::Q4_0.encode(&x, &mut row);
        // scale 1.0 = 0x3c00; element 0 is 0, element 16 is 9; element 1 is 15, element 17 is 8.
        assert_eq!(row[..4], [0x00, 0x3c, 0x90, 0x8f]);
        x[0] = 127.0;
        let mut row = [0u8; Q8_0_BYTES];
        RowType::Q8_0.encode(&x, &mut row);
        assert_eq!(row[..4], [0x00, 0x3c, 127, 7]);
    }
}

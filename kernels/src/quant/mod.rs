//! The element types of rows of keys and values, in ggml's byte layouts: encoding and decoding.
//!
//! To add a type: a line in quant/types.rs, its encoding and decoding here, its `Load` in quant/load.rs, and
//! its reads and writes in cuda/rows.h. Missing parts are compile errors. Everything else follows from
//! [`RowType::ALL`].

use half::f16;

pub(crate) mod load;

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
include!("types.rs");

/// Elements of a block of the quantised types.
const BLOCK: usize = 32;
const Q8_0_BYTES: usize = RowType::Q8_0.block_bytes();
/// Of `Q4_0` and of `IQ4_NL`.
const FOUR_BITS_BYTES: usize = RowType::Q4_0.block_bytes();
const _: () = assert!(RowType::Iq4Nl.block_bytes() == FOUR_BITS_BYTES);

/// The values of the 16 codes of `IQ4_NL`.
pub(crate) const IQ4_VALUES: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// What the element with the largest absolute value becomes when a block of `IQ4_NL` is encoded, before the
/// scale is fitted to all elements. The best of the three is stored. For normally distributed numbers the
/// squared error is then 24 % below that of `Q4_0`; many more attempts give 27 %.
const IQ4_EXTREMES: [f32; 3] = [-133.0, -121.0, 113.0];

impl RowType {
    /// The type with this name.
    pub fn from_name(name: &str) -> Option<RowType> {
        RowType::ALL.into_iter().find(|ty| ty.name() == name)
    }

    /// The names of all types for messages: `f32, f16, q8_0, q4_0 or iq4_nl`.
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

    /// Whether elements are integers of few bits, in blocks with one scale.
    pub const fn is_quantised(self) -> bool {
        self.block_elements() > 1
    }

    /// Whether elements have four bits, beside the scale of their block.
    pub const fn has_four_bits(self) -> bool {
        matches!(self, RowType::Q4_0 | RowType::Iq4Nl)
    }

    /// Bytes of a row of `elements` (a multiple of [`granule`](Self::granule)).
    pub const fn row_bytes(self, elements: usize) -> usize {
        elements / self.block_elements() * self.block_bytes()
    }

    /// Writes `values` as one row, with the rounding of ggml's reference quantisers; for `IQ4_NL` with
    /// smaller errors. Where the slices do not fit each other, only the shorter length is written.
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
                for (x, out) in values.chunks_exact(BLOCK).zip(row.chunks_exact_mut(FOUR_BITS_BYTES)) {
                    // The element with the largest absolute value becomes exactly -8.
                    let scale = extreme(x) / -8.0;
                    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
                    out[..2].copy_from_slice(&f16::from_f32(scale).to_le_bytes());
                    let nibble = |v: f32| ((v * inverse + 8.5) as u8).min(15);
                    for j in 0..BLOCK / 2 {
                        out[2 + j] = nibble(x[j]) | nibble(x[j + BLOCK / 2]) << 4;
                    }
                }
            }
            RowType::Iq4Nl => {
                for (x, out) in values.as_chunks().0.iter().zip(row.chunks_exact_mut(FOUR_BITS_BYTES)) {
                    let (scale, codes) = iq4_nl(x);
                    out[..2].copy_from_slice(&f16::from_f32(scale).to_le_bytes());
                    for j in 0..BLOCK / 2 {
                        out[2 + j] = (codes[j] | codes[j + BLOCK / 2] << 4) as u8;
                    }
                }
            }
        }
    }

    /// Reads one row into `values`. The vector loads of `load.rs` give the same numbers.
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
                for (b, x) in row.chunks_exact(FOUR_BITS_BYTES).zip(values.chunks_exact_mut(BLOCK)) {
                    let scale = half_at(b);
                    for j in 0..BLOCK / 2 {
                        x[j] = scale * (f32::from(b[2 + j] & 15) - 8.0);
                        x[j + BLOCK / 2] = scale * (f32::from(b[2 + j] >> 4) - 8.0);
                    }
                }
            }
            RowType::Iq4Nl => {
                let value = |code: u8| f32::from(IQ4_VALUES[usize::from(code)]);
                for (b, x) in row.chunks_exact(FOUR_BITS_BYTES).zip(values.chunks_exact_mut(BLOCK)) {
                    let scale = half_at(b);
                    for j in 0..BLOCK / 2 {
                        x[j] = scale * value(b[2 + j] & 15);
                        x[j + BLOCK / 2] = scale * value(b[2 + j] >> 4);
                    }
                }
            }
        }
    }
}

/// The element with the largest absolute value; of equal ones the first.
fn extreme(x: &[f32]) -> f32 {
    x.iter().fold(0f32, |m, &v| if v.abs() > m.abs() { v } else { m })
}

/// The scale and the codes of a block of `IQ4_NL`. A block with an element that is no number becomes zeros.
fn iq4_nl(x: &[f32; BLOCK]) -> (f32, [u32; BLOCK]) {
    /// The sum of all elements, in the order of the device's kernel.
    fn sum(mut x: [f32; BLOCK]) -> f32 {
        for half in [16, 8, 4, 2, 1] {
            for i in 0..half {
                x[i] += x[i + half];
            }
        }
        x[0]
    }
    let extreme = extreme(x);
    let mut best = (0.0, nearest_codes(&[0.0; BLOCK]));
    let mut best_gain = 0.0;
    for becomes in IQ4_EXTREMES {
        let inverse = if extreme == 0.0 { 0.0 } else { becomes / extreme };
        let codes = nearest_codes(&x.map(|v| v * inverse));
        let values = codes.map(|code| f32::from(IQ4_VALUES[code as usize]));
        // The scale with the least squared error, and how much it reduces the error of all zeros.
        let products = sum(std::array::from_fn(|i| values[i] * x[i]));
        let scale = products / sum(values.map(|v| v * v));
        let gain = scale * products;
        if gain > best_gain {
            (best, best_gain) = ((scale, codes), gain);
        }
    }
    best
}

/// The codes of the values nearest to `x`.
fn nearest_codes(x: &[f32; BLOCK]) -> [u32; BLOCK] {
    let mut codes = [0; BLOCK];
    for pair in IQ4_VALUES.windows(2) {
        let middle = (f32::from(pair[0]) + f32::from(pair[1])) / 2.0;
        for (code, x) in codes.iter_mut().zip(x) {
            *code += u32::from(*x > middle);
        }
    }
    codes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_error_is_at_most_half_a_step() {
        let x: Vec<f32> = (0..64).map(|i| (i as f32 * 0.37).sin() * 3.0).collect();
        for ty in RowType::ALL {
            let step = match ty {
                RowType::F32 => 0.0,
                RowType::F16 => 4.0 / 2048.0,
                RowType::Q8_0 => 3.0 / 127.0,
                RowType::Q4_0 => 3.0 / 8.0,
                // The largest distance of two codes.
                RowType::Iq4Nl => 3.0 / 113.0 * 24.0,
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
        let mut row = [0u8; FOUR_BITS_BYTES];
        RowType::Q4_0.encode(&x, &mut row);
        // scale 1.0 = 0x3c00; element 0 is 0, element 16 is 9; element 1 is 15, element 17 is 8.
        assert_eq!(row[..4], [0x00, 0x3c, 0x90, 0x8f]);
        x[0] = 127.0;
        let mut row = [0u8; Q8_0_BYTES];
        RowType::Q8_0.encode(&x, &mut row);
        assert_eq!(row[..4], [0x00, 0x3c, 127, 7]);
        // Multiples of the values of codes come back as they were.
        for scale in [0.5, -2.0] {
            let x: [f32; 32] = std::array::from_fn(|i| scale * f32::from(IQ4_VALUES[i * 5 % 16]));
            let mut row = [0u8; FOUR_BITS_BYTES];
            RowType::Iq4Nl.encode(&x, &mut row);
            assert_eq!(row[..2], f16::from_f32(scale).to_le_bytes());
            let codes: [u8; 16] = std::array::from_fn(|i| ((i * 5 % 16) | (((i + 16) * 5 % 16) << 4)) as u8);
            assert_eq!(row[2..], codes);
        }
    }

    #[test]
    fn iq4_nl_is_more_exact_than_q4_0() {
        // Sums of twelve uniform numbers are nearly normally distributed.
        let mut state = 1u32;
        let mut uniform = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32
        };
        let x: Vec<f32> = (0..64 * BLOCK).map(|_| (0..12).map(|_| uniform()).sum::<f32>() - 6.0).collect();
        let error = |ty: RowType| {
            let (mut row, mut back) = (vec![0; ty.row_bytes(x.len())], vec![0.0; x.len()]);
            ty.encode(&x, &mut row);
            ty.decode(&row, &mut back);
            x.iter().zip(back).map(|(a, b)| (a - b).powi(2)).sum::<f32>() / x.len() as f32
        };
        let (q4_0, iq4_nl) = (error(RowType::Q4_0), error(RowType::Iq4Nl));
        assert!(iq4_nl < 0.8 * q4_0, "{iq4_nl} {q4_0}");
    }

    #[test]
    fn blocks_of_iq4_nl_without_numbers_are_zero() {
        let one_nan: [f32; BLOCK] = std::array::from_fn(|i| if i == 7 { f32::NAN } else { 1.0 });
        let constant = [0.0, -0.0, f32::MIN_POSITIVE / 4.0, f32::NAN].map(|x| [x; BLOCK]);
        for x in constant.into_iter().chain([one_nan]) {
            let (mut row, mut back) = ([0; FOUR_BITS_BYTES], [1.0f32; BLOCK]);
            RowType::Iq4Nl.encode(&x, &mut row);
            RowType::Iq4Nl.decode(&row, &mut back);
            assert_eq!(back, [0.0; BLOCK], "{x:?}");
        }
    }
}

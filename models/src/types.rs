//! The tensor types of ggml: ids, names and block sizes, the same as ggml 0.26 declares.

use std::fmt;

/// Declares the enum and its properties from one table.
macro_rules! tensor_types {
    ($($variant:ident = $id:literal, $name:literal, $elems:literal, $bytes:literal;)*) => {
        /// The element type of a tensor.
        #[allow(non_camel_case_types)] // ggml's names, which users know
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum TensorType {
            $(#[doc = concat!("`", $name, "`: blocks of ", stringify!($elems), " elements in ", stringify!($bytes), " bytes.")]
            $variant = $id,)*
        }

        impl TensorType {
            /// All types, sorted by id.
            pub const ALL: &'static [TensorType] = &[$(TensorType::$variant,)*];

            /// The type with this id in GGUF files and in ggml; `None` for ids that are unknown or were
            /// removed from ggml.
            pub fn from_id(id: u32) -> Option<TensorType> {
                match id {
                    $($id => Some(TensorType::$variant),)*
                    _ => None,
                }
            }

            /// Name as ggml prints it, such as `q4_K`.
            pub fn name(self) -> &'static str {
                match self {
                    $(TensorType::$variant => $name,)*
                }
            }

            /// Elements per block; 1 for types without blocks. A row is a whole number of blocks.
            pub fn block_elems(self) -> u64 {
                match self {
                    $(TensorType::$variant => $elems,)*
                }
            }

            /// Bytes per block.
            pub fn block_bytes(self) -> u64 {
                match self {
                    $(TensorType::$variant => $bytes,)*
                }
            }
        }
    };
}

tensor_types! {
    F32     = 0,  "f32",     1,   4;
    F16     = 1,  "f16",     1,   2;
    Q4_0    = 2,  "q4_0",    32,  18;
    Q4_1    = 3,  "q4_1",    32,  20;
    Q5_0    = 6,  "q5_0",    32,  22;
    Q5_1    = 7,  "q5_1",    32,  24;
    Q8_0    = 8,  "q8_0",    32,  34;
    Q8_1    = 9,  "q8_1",    32,  36;
    Q2_K    = 10, "q2_K",    256, 84;
    Q3_K    = 11, "q3_K",    256, 110;
    Q4_K    = 12, "q4_K",    256, 144;
    Q5_K    = 13, "q5_K",    256, 176;
    Q6_K    = 14, "q6_K",    256, 210;
    Q8_K    = 15, "q8_K",    256, 292;
    IQ2_XXS = 16, "iq2_xxs", 256, 66;
    IQ2_XS  = 17, "iq2_xs",  256, 74;
    IQ3_XXS = 18, "iq3_xxs", 256, 98;
    IQ1_S   = 19, "iq1_s",   256, 50;
    IQ4_NL  = 20, "iq4_nl",  32,  18;
    IQ3_S   = 21, "iq3_s",   256, 110;
    IQ2_S   = 22, "iq2_s",   256, 82;
    IQ4_XS  = 23, "iq4_xs",  256, 136;
    I8      = 24, "i8",      1,   1;
    I16     = 25, "i16",     1,   2;
    I32     = 26, "i32",     1,   4;
    I64     = 27, "i64",     1,   8;
    F64     = 28, "f64",     1,   8;
    IQ1_M   = 29, "iq1_m",   256, 56;
    BF16    = 30, "bf16",    1,   2;
    TQ1_0   = 34, "tq1_0",   256, 54;
    TQ2_0   = 35, "tq2_0",   256, 66;
    MXFP4   = 39, "mxfp4",   32,  17;
    NVFP4   = 40, "nvfp4",   64,  36;
    Q1_0    = 41, "q1_0",    128, 18;
    Q2_0    = 42, "q2_0",    64,  18;
}

impl TensorType {
    /// Id in GGUF files and in ggml.
    pub fn id(self) -> u32 {
        self as u32
    }

    /// The type of this name, in upper or lower case (`q4_k`, `Q4_K`).
    pub fn from_name(name: &str) -> Option<TensorType> {
        Self::ALL.iter().copied().find(|t| t.name().eq_ignore_ascii_case(name))
    }

    /// Bytes of a row of `ne0` elements; `None` if that is not a whole number of blocks, or on overflow.
    pub fn row_bytes(self, ne0: u64) -> Option<u64> {
        if !ne0.is_multiple_of(self.block_elems()) {
            return None;
        }
        (ne0 / self.block_elems()).checked_mul(self.block_bytes())
    }

    /// Bytes of a tensor of these dimensions (ggml order); `None` as for [`TensorType::row_bytes`], and if
    /// `dims` is empty.
    pub(crate) fn tensor_bytes(self, dims: &[u64]) -> Option<u64> {
        let (&ne0, rest) = dims.split_first()?;
        rest.iter().try_fold(self.row_bytes(ne0)?, |bytes, &ne| bytes.checked_mul(ne))
    }

    /// Whether ggml has matrix products and row lookup for this type. True for floats and block formats;
    /// false for integers, `f64`, and the two formats (`q8_1`, `q8_K`) that only exist inside a matrix
    /// product.
    pub(crate) fn is_weight(self) -> bool {
        use TensorType::*;
        !matches!(self, I8 | I16 | I32 | I64 | F64 | Q8_1 | Q8_K)
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_by_id_and_by_name() {
        for &t in TensorType::ALL {
            assert_eq!(TensorType::from_id(t.id()), Some(t));
            assert_eq!(TensorType::from_name(&t.name().to_uppercase()), Some(t));
        }
        // Removed formats, and ids beyond the newest.
        for id in [4, 5, 31, 32, 33, 36, 37, 38, 43, u32::MAX] {
            assert_eq!(TensorType::from_id(id), None, "{id}");
        }
        assert_eq!(TensorType::from_name("q9_9"), None);
    }

    #[test]
    fn sizes_in_bytes() {
        assert_eq!(TensorType::Q4_K.row_bytes(4096), Some(4096 / 256 * 144));
        assert_eq!(TensorType::Q4_K.row_bytes(4095), None);
        assert_eq!(TensorType::F32.tensor_bytes(&[3, 5, 7]), Some(3 * 5 * 7 * 4));
        assert_eq!(TensorType::F32.tensor_bytes(&[1 << 40, 1 << 40]), None);
        assert_eq!(TensorType::F32.tensor_bytes(&[]), None);
    }

    /// Checks the table against the published bits per weight of the formats.
    #[test]
    fn bits_per_weight_are_the_published_ones() {
        let bits = |t: TensorType| t.block_bytes() as f64 * 8.0 / t.block_elems() as f64;
        for (t, expected) in [
            (TensorType::Q2_K, 2.625),
            (TensorType::Q3_K, 3.4375),
            (TensorType::Q4_K, 4.5),
            (TensorType::Q5_K, 5.5),
            (TensorType::Q6_K, 6.5625),
            (TensorType::IQ2_XXS, 2.0625),
            (TensorType::IQ2_XS, 2.3125),
            (TensorType::IQ2_S, 2.5625),
            (TensorType::IQ3_XXS, 3.0625),
            (TensorType::IQ3_S, 3.4375),
            (TensorType::IQ1_S, 1.5625),
            (TensorType::IQ1_M, 1.75),
            (TensorType::IQ4_XS, 4.25),
            (TensorType::IQ4_NL, 4.5),
            (TensorType::TQ1_0, 1.6875),
            (TensorType::TQ2_0, 2.0625),
            (TensorType::MXFP4, 4.25),
            (TensorType::NVFP4, 4.5),
            (TensorType::Q8_0, 8.5),
        ] {
            assert_eq!(bits(t), expected, "{t}");
        }
    }
}

//! Element types of tensors.

use std::ffi::CStr;
use std::fmt;

use ggml_sys as sys;

/// A tensor's element type; the number is ggml's (and GGUF's) own.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Type(sys::ggml_type);

impl Type {
    /// 32-bit float.
    pub const F32: Type = Type(sys::GGML_TYPE_F32);
    /// 16-bit IEEE float.
    pub const F16: Type = Type(sys::GGML_TYPE_F16);
    /// The upper half of a 32-bit float.
    pub const BF16: Type = Type(sys::GGML_TYPE_BF16);
    /// 8-bit blocks of 32 with one f16 scale.
    pub const Q8_0: Type = Type(sys::GGML_TYPE_Q8_0);
    /// 4-bit blocks of 32 with one f16 scale.
    pub const Q4_0: Type = Type(sys::GGML_TYPE_Q4_0);
    /// 4-bit codes of a table in blocks of 32 with one f16 scale.
    pub const IQ4_NL: Type = Type(sys::GGML_TYPE_IQ4_NL);
    /// 32-bit integer.
    pub const I32: Type = Type(sys::GGML_TYPE_I32);
    /// 8-bit integers, for bytes.
    pub const I8: Type = Type(sys::GGML_TYPE_I8);
    /// 64-bit integer.
    pub const I64: Type = Type(sys::GGML_TYPE_I64);

    /// The type with ggml's number `id`, if this ggml has it and can store elements of it.
    pub fn from_id(id: u32) -> Option<Type> {
        if id >= sys::GGML_TYPE_COUNT {
            return None;
        }
        // SAFETY: `id` is below GGML_TYPE_COUNT, the length of the table that is read.
        let block = unsafe { sys::ggml_blck_size(id) };
        (block > 0).then_some(Type(id))
    }

    /// ggml's number for this type.
    pub fn id(self) -> u32 {
        self.0
    }

    /// ggml's name, e.g. `q8_0`.
    pub fn name(self) -> &'static str {
        // SAFETY: the type is valid by construction; the result is a static string.
        unsafe { CStr::from_ptr(sys::ggml_type_name(self.0)) }.to_str().unwrap_or("?")
    }

    /// Elements in a block (1 for plain types).
    pub fn block_elements(self) -> usize {
        // SAFETY: the type is valid by construction.
        unsafe { sys::ggml_blck_size(self.0) as usize }
    }

    /// Bytes of a block.
    pub fn block_bytes(self) -> usize {
        // SAFETY: the type is valid by construction.
        unsafe { sys::ggml_type_size(self.0) }
    }

    /// Bytes of a row of `elements`, which must be a whole number of blocks.
    pub fn row_bytes(self, elements: usize) -> usize {
        debug_assert_eq!(elements % self.block_elements(), 0);
        elements / self.block_elements() * self.block_bytes()
    }

    /// Converts whole blocks to floats. Returns `false` and writes nothing if the lengths do not fit each
    /// other or this ggml cannot convert the type.
    pub fn dequantize(self, blocks: &[u8], floats: &mut [f32]) -> bool {
        let count = blocks.len() / self.block_bytes();
        if !blocks.len().is_multiple_of(self.block_bytes()) || floats.len() != count * self.block_elements() {
            return false;
        }
        if self == Type::F32 {
            for (float, bytes) in floats.iter_mut().zip(blocks.as_chunks().0) {
                *float = f32::from_le_bytes(*bytes);
            }
            return true;
        }
        // SAFETY: the type is valid by construction; the result points into a static table.
        let Some(convert) = (unsafe { (*sys::ggml_get_type_traits(self.0)).to_float }) else { return false };
        // In C, blocks are structs with fields of up to 8 bytes; `blocks` may have any alignment.
        let padded = |bytes: &[u8]| {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            u64::from_ne_bytes(padded)
        };
        let aligned: Vec<u64> = blocks.chunks(8).map(padded).collect();
        // SAFETY: the blocks and the floats that they make are there (checked above), the former aligned.
        unsafe { convert(aligned.as_ptr().cast(), floats.as_mut_ptr(), floats.len() as i64) };
        true
    }

    /// Whether the CPU can multiply matrices of this type with vectors.
    pub(crate) fn has_products(self) -> bool {
        // SAFETY: the type is valid by construction; the result points into a static table.
        unsafe { (*sys::ggml_get_type_traits_cpu(self.0)).vec_dot }.is_some()
    }

    /// Whether the CPU can take rows out of tables of this type.
    pub(crate) fn has_rows(self) -> bool {
        // SAFETY: as above. Q8_K, in which ggml keeps activations, has a conversion that tables do not use.
        let converts = unsafe { (*sys::ggml_get_type_traits(self.0)).to_float }.is_some();
        matches!(self, Type::F32 | Type::I32) || converts && self.0 != sys::GGML_TYPE_Q8_K
    }

    /// Whether the CPU can convert floats to this type.
    pub(crate) fn takes_floats(self) -> bool {
        // SAFETY: as above.
        unsafe { (*sys::ggml_get_type_traits_cpu(self.0)).from_float }.is_some()
    }

    pub(crate) fn raw(self) -> sys::ggml_type {
        self.0
    }

    pub(crate) fn from_raw(raw: sys::ggml_type) -> Type {
        Type(raw)
    }
}

impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

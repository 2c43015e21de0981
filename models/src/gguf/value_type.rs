//! The types of metadata values. This is the one list of the types of numbers: values to read and values to write are made
//! from it.

/// Hands the types of numbers to a macro: the variant of each, and its type in Rust.
macro_rules! with_number_types {
    ($made:ident) => {
        $made! {
            integers: U8(u8), I8(i8), U16(u16), I16(i16), U32(u32), I32(i32), U64(u64), I64(i64);
            floats: F32(f32), F64(f64);
        }
    };
}

pub(super) use with_number_types;

/// The type of a metadata value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs)] // the names are the documentation
pub enum ValueType {
    U8 = 0,
    I8 = 1,
    U16 = 2,
    I16 = 3,
    U32 = 4,
    I32 = 5,
    F32 = 6,
    Bool = 7,
    String = 8,
    Array = 9,
    U64 = 10,
    I64 = 11,
    F64 = 12,
}

impl ValueType {
    /// The type with this id in GGUF files.
    pub fn from_id(id: u32) -> Option<ValueType> {
        use ValueType::*;
        [U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64].get(id as usize).copied()
    }

    /// Id in GGUF files.
    pub fn id(self) -> u32 {
        self as u32
    }
}

macro_rules! value_types {
    (integers: $($integer:ident($int:ty)),*; floats: $($float:ident($number:ty)),*;) => {
        impl ValueType {
            /// Short name, such as `u32` or `str`.
            pub fn name(self) -> &'static str {
                match self {
                    $(ValueType::$integer => stringify!($int),)*
                    $(ValueType::$float => stringify!($number),)*
                    ValueType::Bool => "bool",
                    ValueType::String => "str",
                    ValueType::Array => "array",
                }
            }

            /// Size of a value in bytes; the minimum for strings and arrays.
            pub(super) fn min_bytes(self) -> u64 {
                match self {
                    $(ValueType::$integer => size_of::<$int>() as u64,)*
                    $(ValueType::$float => size_of::<$number>() as u64,)*
                    ValueType::Bool => 1,
                    ValueType::String => 8,
                    ValueType::Array => 12,
                }
            }

            pub(super) fn is_integer(self) -> bool {
                matches!(self, $(ValueType::$integer)|*)
            }

            pub(super) fn is_float(self) -> bool {
                matches!(self, $(ValueType::$float)|*)
            }
        }
    };
}

with_number_types!(value_types);

//! Metadata values. Scalars are copied; strings and arrays stay in the file's bytes, so that a vocabulary of
//! 250,000 tokens costs only one offset per token. `read_value` checks every byte of a value before the value
//! exists.

use std::fmt;
use std::sync::Arc;

use super::blob::Blob;
use super::cursor::Cursor;
use super::value_type::{ValueType, with_number_types};
use crate::error::{LoadError, Text};

macro_rules! values {
    (integers: $($integer:ident($int:ty)),*; floats: $($float:ident($number:ty)),*;) => {
        /// One metadata value.
        #[derive(Clone)]
        #[allow(missing_docs)] // the names are the documentation
        pub enum Value {
            $($integer($int),)*
            $($float($number),)*
            Bool(bool),
            String(GgufStr),
            Array(Array),
        }

        impl Value {
            /// Type of this value.
            pub fn ty(&self) -> ValueType {
                match self {
                    $(Value::$integer(_) => ValueType::$integer,)*
                    $(Value::$float(_) => ValueType::$float,)*
                    Value::Bool(_) => ValueType::Bool,
                    Value::String(_) => ValueType::String,
                    Value::Array(_) => ValueType::Array,
                }
            }

            /// The value of any integer type.
            pub fn as_int(&self) -> Option<i128> {
                match *self {
                    $(Value::$integer(v) => Some(v.into()),)*
                    _ => None,
                }
            }

            /// The value of an f32 or f64.
            pub fn as_float(&self) -> Option<f64> {
                match *self {
                    $(Value::$float(v) => Some(v.into()),)*
                    _ => None,
                }
            }
        }

        /// Decodes a number or boolean. `None` if `bytes` has another length than the type, for a boolean other than
        /// 0 and 1, and for strings and arrays.
        fn scalar(ty: ValueType, bytes: &[u8]) -> Option<Value> {
            Some(match ty {
                $(ValueType::$integer => Value::$integer(<$int>::from_le_bytes(bytes.try_into().ok()?)),)*
                $(ValueType::$float => Value::$float(<$number>::from_le_bytes(bytes.try_into().ok()?)),)*
                ValueType::Bool => Value::Bool(match bytes {
                    [0] => false,
                    [1] => true,
                    _ => return None,
                }),
                ValueType::String | ValueType::Array => return None,
            })
        }
    };
}

with_number_types!(values);

impl Value {
    /// The type as text: `u32`, `array of str`.
    pub fn type_name(&self) -> String {
        match self {
            Value::Array(a) => format!("array of {}", a.elem_type().name()),
            other => other.ty().name().to_owned(),
        }
    }
}

/// Strings are quoted, escaped and shortened; arrays are shown as their first elements and their length.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::F32(v) => write!(f, "{v}"),
            Value::F64(v) => write!(f, "{v}"),
            Value::Bool(v) => write!(f, "{v}"),
            Value::String(s) => write!(f, "{s}"),
            Value::Array(a) => write!(f, "{a}"),
            other => write!(f, "{}", other.as_int().unwrap_or_default()),
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({self})", self.type_name())
    }
}

/// Equal if type and content are. Floats are compared by their bits, so that NaN in a copy of a file equals
/// the original.
impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::F32(a), Value::F32(b)) => a.to_bits() == b.to_bits(),
            (Value::F64(a), Value::F64(b)) => a.to_bits() == b.to_bits(),
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::String(a), Value::String(b)) => a.as_bytes() == b.as_bytes(),
            (Value::Array(a), Value::Array(b)) => {
                a.elem_type() == b.elem_type() && a.len() == b.len() && a.raw() == b.raw()
            }
            (a, b) => a.ty() == b.ty() && a.as_int() == b.as_int(),
        }
    }
}

/// A range of a file's bytes, which it keeps alive.
#[derive(Clone)]
struct ByteRange {
    blob: Blob,
    start: usize,
    len: usize,
}

impl ByteRange {
    fn bytes(&self) -> &[u8] {
        // Always inside the file: `read_value` made it from a range that the cursor has checked.
        self.blob.get(self.start..self.start + self.len).unwrap_or_default()
    }
}

/// A string in the file. UTF-8 is only checked by [`GgufStr::to_str`], because the tokens of a vocabulary may
/// be any bytes.
#[derive(Clone)]
pub struct GgufStr(ByteRange);

impl GgufStr {
    /// The bytes in the file.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    /// The text; `None` if it is not UTF-8.
    pub fn to_str(&self) -> Option<&str> {
        std::str::from_utf8(self.as_bytes()).ok()
    }
}

impl fmt::Display for GgufStr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Text(self.as_bytes()))
    }
}

/// An array, by the type of its elements.
#[derive(Clone)]
pub enum Array {
    /// Numbers or booleans.
    Numbers(NumberArray),
    /// Strings.
    Strings(StringArray),
}

impl Array {
    /// Type of the elements.
    pub(super) fn elem_type(&self) -> ValueType {
        match self {
            Array::Numbers(a) => a.ty,
            Array::Strings(_) => ValueType::String,
        }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Array::Numbers(a) => a.len(),
            Array::Strings(a) => a.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of all elements in the file.
    pub(crate) fn raw(&self) -> &[u8] {
        match self {
            Array::Numbers(a) => a.range.bytes(),
            Array::Strings(a) => a.range.bytes(),
        }
    }

    /// Element `i`; `None` past the end.
    pub fn get(&self, i: usize) -> Option<Value> {
        match self {
            Array::Numbers(a) => a.get(i),
            Array::Strings(a) => a.get_str(i).map(Value::String),
        }
    }
}

impl fmt::Display for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 6;
        f.write_str("[")?;
        for i in 0..self.len().min(SHOWN) {
            let comma = if i > 0 { ", " } else { "" };
            if let Some(v) = self.get(i) {
                write!(f, "{comma}{v}")?;
            }
        }
        if self.len() > SHOWN {
            write!(f, ", … {} in all", self.len())?;
        }
        f.write_str("]")
    }
}

/// An array of numbers or booleans of one type.
#[derive(Clone)]
pub struct NumberArray {
    ty: ValueType,
    range: ByteRange,
}

impl NumberArray {
    /// Type of the elements.
    pub fn ty(&self) -> ValueType {
        self.ty
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.range.len / self.ty.min_bytes() as usize
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the elements are integers.
    pub fn is_integer(&self) -> bool {
        self.ty.is_integer()
    }

    /// Whether the elements are floats.
    pub(super) fn is_float(&self) -> bool {
        self.ty.is_float()
    }

    /// Element `i`; `None` past the end.
    pub fn get(&self, i: usize) -> Option<Value> {
        let width = self.ty.min_bytes() as usize;
        let start = i.checked_mul(width)?;
        scalar(self.ty, self.range.bytes().get(start..start.checked_add(width)?)?)
    }

    /// Element `i`; `None` past the end, if the elements are not integers, and for a u64 that does not fit in
    /// i64.
    pub fn int(&self, i: usize) -> Option<i64> {
        self.get(i)?.as_int()?.try_into().ok()
    }

    /// Element `i`; `None` past the end and if the elements are not floats.
    pub fn float(&self, i: usize) -> Option<f64> {
        self.get(i)?.as_float()
    }
}

/// An array of strings with constant-time access by index.
#[derive(Clone)]
pub struct StringArray {
    range: ByteRange,
    /// Start of each string's bytes in the file. Takes 8 bytes per string, and every string takes at least 8
    /// in the file.
    starts: Arc<Vec<usize>>,
}

impl StringArray {
    /// Number of strings.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there are no strings.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    fn string_range(&self, i: usize) -> Option<(usize, usize)> {
        let start = *self.starts.get(i)?;
        // The strings follow each other: this one ends at the length (8 bytes) of the next.
        let end = match self.starts.get(i + 1) {
            Some(next) => next - 8,
            None => self.range.start + self.range.len,
        };
        Some((start, end))
    }

    /// The bytes of string `i`; `None` past the end.
    pub fn get(&self, i: usize) -> Option<&[u8]> {
        let (start, end) = self.string_range(i)?;
        self.range.blob.get(start..end)
    }

    /// String `i`; `None` past the end and if it is not UTF-8.
    pub fn text(&self, i: usize) -> Option<&str> {
        std::str::from_utf8(self.get(i)?).ok()
    }

    fn get_str(&self, i: usize) -> Option<GgufStr> {
        let (start, end) = self.string_range(i)?;
        Some(GgufStr(ByteRange { blob: self.range.blob.clone(), start, len: end - start }))
    }

    /// The bytes of each string.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + '_ {
        (0..self.len()).map(|i| self.get(i).unwrap_or_default())
    }
}

/// Reads and checks a value of type `ty`; `what` names it in errors.
pub(super) fn read_value(
    blob: &Blob,
    cursor: &mut Cursor<'_>,
    ty: ValueType,
    what: &dyn Fn() -> String,
) -> Result<Value, LoadError> {
    match ty {
        ValueType::String => {
            let len = cursor.string(what)?.len();
            Ok(Value::String(GgufStr(ByteRange { blob: blob.clone(), start: cursor.offset() - len, len })))
        }
        ValueType::Array => read_array(blob, cursor, what).map(Value::Array),
        number => {
            let offset = cursor.offset();
            let bytes = cursor.take(number.min_bytes(), what)?;
            scalar(number, bytes).ok_or_else(|| not_a_bool(offset, bytes, what))
        }
    }
}

/// Reads the type of a value; `what` names the value in errors.
pub(super) fn read_type(cursor: &mut Cursor<'_>, what: &dyn Fn() -> String) -> Result<ValueType, LoadError> {
    let offset = cursor.offset();
    let id = cursor.u32(&|| format!("the type of {}", what()))?;
    ValueType::from_id(id).ok_or_else(|| LoadError::Implausible {
        what: format!("the type of {}", what()),
        offset: offset as u64,
        found: id.into(),
        expected: "value types are numbered 0 to 12".into(),
    })
}

fn read_array(blob: &Blob, cursor: &mut Cursor<'_>, what: &dyn Fn() -> String) -> Result<Array, LoadError> {
    let elements = || format!("elements of {}", what());
    let offset = cursor.offset();
    let ty = read_type(cursor, &elements)?;
    let n = cursor.count(ty.min_bytes(), &elements)?;
    let start = cursor.offset();
    let range = |end: usize| ByteRange { blob: blob.clone(), start, len: end - start };
    match ty {
        ValueType::String => {
            let mut starts = Vec::with_capacity(n);
            for i in 0..n {
                let len = cursor.string(&|| format!("element {i} of {}", what()))?.len();
                starts.push(cursor.offset() - len);
            }
            Ok(Array::Strings(StringArray { range: range(cursor.offset()), starts: Arc::new(starts) }))
        }
        // As ggml's own reader.
        ValueType::Array => Err(LoadError::Implausible {
            what: format!("the type of the elements of {}", what()),
            offset: offset as u64,
            found: ty.id().into(),
            expected: "arrays of arrays are not supported".into(),
        }),
        number => {
            // The product cannot overflow: `count` has compared it with the remaining bytes.
            let bytes = cursor.take(n as u64 * number.min_bytes(), &elements)?;
            if number == ValueType::Bool
                && let Some(i) = bytes.iter().position(|&b| b > 1)
            {
                return Err(not_a_bool(start + i, &bytes[i..], &|| format!("element {i} of {}", what())));
            }
            Ok(Array::Numbers(NumberArray { ty: number, range: range(cursor.offset()) }))
        }
    }
}

fn not_a_bool(offset: usize, bytes: &[u8], what: &dyn Fn() -> String) -> LoadError {
    LoadError::Implausible {
        what: what(),
        offset: offset as u64,
        found: bytes.first().copied().unwrap_or_default().into(),
        expected: "booleans are 0 or 1".into(),
    }
}

//! Metadata values. Scalars are copied; strings and arrays stay in the file's bytes and are looked at there, so that a vocabulary
//! of 250,000 tokens costs one offset a token. Relies on `read_value` having walked, and thereby checked, every byte of a value.

use std::fmt;
use std::sync::Arc;

use super::blob::Blob;
use super::cursor::Cursor;
use crate::error::{LoadError, Text};

/// Arrays of arrays (of arrays …) may be nested this deep.
const MAX_DEPTH: usize = 4;

/// The type of a metadata value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs)] // the names say it
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

    /// Short name, as in `array of str`.
    pub fn name(self) -> &'static str {
        use ValueType::*;
        match self {
            U8 => "u8",
            I8 => "i8",
            U16 => "u16",
            I16 => "i16",
            U32 => "u32",
            I32 => "i32",
            F32 => "f32",
            Bool => "bool",
            String => "str",
            Array => "array",
            U64 => "u64",
            I64 => "i64",
            F64 => "f64",
        }
    }

    /// Bytes of a value; for strings and arrays the fewest they can take.
    fn min_bytes(self) -> u64 {
        use ValueType::*;
        match self {
            U8 | I8 | Bool => 1,
            U16 | I16 => 2,
            U32 | I32 | F32 => 4,
            U64 | I64 | F64 => 8,
            String => 8,
            Array => 12,
        }
    }

    fn is_integer(self) -> bool {
        use ValueType::*;
        matches!(self, U8 | I8 | U16 | I16 | U32 | I32 | U64 | I64)
    }

    fn is_float(self) -> bool {
        matches!(self, ValueType::F32 | ValueType::F64)
    }
}

/// One metadata value.
#[derive(Clone)]
#[allow(missing_docs)] // the names say it
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    U64(u64),
    I64(i64),
    F32(f32),
    F64(f64),
    Bool(bool),
    String(GgufStr),
    Array(Array),
}

impl Value {
    /// Type of this value.
    pub fn ty(&self) -> ValueType {
        match self {
            Value::U8(_) => ValueType::U8,
            Value::I8(_) => ValueType::I8,
            Value::U16(_) => ValueType::U16,
            Value::I16(_) => ValueType::I16,
            Value::U32(_) => ValueType::U32,
            Value::I32(_) => ValueType::I32,
            Value::U64(_) => ValueType::U64,
            Value::I64(_) => ValueType::I64,
            Value::F32(_) => ValueType::F32,
            Value::F64(_) => ValueType::F64,
            Value::Bool(_) => ValueType::Bool,
            Value::String(_) => ValueType::String,
            Value::Array(_) => ValueType::Array,
        }
    }

    /// The type in words: `u32`, `array of str`.
    pub fn type_name(&self) -> String {
        match self {
            Value::Array(a) => format!("array of {}", a.elem().name()),
            other => other.ty().name().to_owned(),
        }
    }

    /// An integer of any width.
    pub fn as_int(&self) -> Option<i128> {
        match *self {
            Value::U8(v) => Some(v.into()),
            Value::I8(v) => Some(v.into()),
            Value::U16(v) => Some(v.into()),
            Value::I16(v) => Some(v.into()),
            Value::U32(v) => Some(v.into()),
            Value::I32(v) => Some(v.into()),
            Value::U64(v) => Some(v.into()),
            Value::I64(v) => Some(v.into()),
            _ => None,
        }
    }

    /// A float of either width.
    pub fn as_float(&self) -> Option<f64> {
        match *self {
            Value::F32(v) => Some(v.into()),
            Value::F64(v) => Some(v),
            _ => None,
        }
    }
}

/// As `inspect` shows it: texts quoted, escaped and shortened, arrays as their first elements and their length.
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

/// Equal type and content; floats by their bits, so that a copy of a file always equals it.
impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::F32(a), Value::F32(b)) => a.to_bits() == b.to_bits(),
            (Value::F64(a), Value::F64(b)) => a.to_bits() == b.to_bits(),
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::String(a), Value::String(b)) => a.as_bytes() == b.as_bytes(),
            (Value::Array(a), Value::Array(b)) => {
                a.elem() == b.elem() && a.len() == b.len() && a.raw() == b.raw()
            }
            (a, b) => a.ty() == b.ty() && a.as_int() == b.as_int(),
        }
    }
}

/// A piece of a file, kept alive with it.
#[derive(Clone)]
struct Piece {
    blob: Blob,
    start: usize,
    len: usize,
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        // always inside: made by `read_value` from what the cursor handed out
        self.blob.get(self.start..self.start + self.len).unwrap_or_default()
    }
}

/// A string in the file. Meant as UTF-8, but only checked where text is needed: tokens of a vocabulary may be any bytes.
#[derive(Clone)]
pub struct GgufStr(Piece);

impl GgufStr {
    /// The bytes as they stand in the file.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    /// The text, where it is one.
    pub fn to_str(&self) -> Option<&str> {
        std::str::from_utf8(self.as_bytes()).ok()
    }
}

impl fmt::Display for GgufStr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Text(self.as_bytes()))
    }
}

/// An array, by the kind of its elements.
#[derive(Clone)]
pub enum Array {
    /// Numbers or booleans.
    Numbers(NumberArray),
    /// Strings.
    Strings(StringArray),
    /// Arrays.
    Arrays(NestedArray),
}

impl Array {
    /// Type of the elements.
    pub fn elem(&self) -> ValueType {
        match self {
            Array::Numbers(a) => a.ty,
            Array::Strings(_) => ValueType::String,
            Array::Arrays(_) => ValueType::Array,
        }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Array::Numbers(a) => a.len(),
            Array::Strings(a) => a.len(),
            Array::Arrays(a) => a.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements as they stand in the file.
    pub(crate) fn raw(&self) -> &[u8] {
        match self {
            Array::Numbers(a) => a.piece.bytes(),
            Array::Strings(a) => a.piece.bytes(),
            Array::Arrays(a) => a.piece.bytes(),
        }
    }

    /// Element `i` as a value of its own.
    pub fn get(&self, i: usize) -> Option<Value> {
        match self {
            Array::Numbers(a) => a.get(i),
            Array::Strings(a) => a.get_str(i).map(Value::String),
            Array::Arrays(a) => a.get(i).map(Value::Array),
        }
    }
}

impl fmt::Display for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // of arrays in arrays fewer, since each of them shows some again
        let shown = if self.elem() == ValueType::Array { 2 } else { 6 };
        f.write_str("[")?;
        for i in 0..self.len().min(shown) {
            let comma = if i > 0 { ", " } else { "" };
            if let Some(v) = self.get(i) {
                write!(f, "{comma}{v}")?;
            }
        }
        if self.len() > shown {
            write!(f, ", … {} in all", self.len())?;
        }
        f.write_str("]")
    }
}

/// An array of numbers or booleans of one type.
#[derive(Clone)]
pub struct NumberArray {
    ty: ValueType,
    piece: Piece,
}

impl NumberArray {
    /// Type of the elements.
    pub fn ty(&self) -> ValueType {
        self.ty
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.piece.len / self.ty.min_bytes() as usize
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
    pub fn is_float(&self) -> bool {
        self.ty.is_float()
    }

    /// Element `i` as a value.
    pub fn get(&self, i: usize) -> Option<Value> {
        let width = self.ty.min_bytes() as usize;
        let start = i.checked_mul(width)?;
        scalar(self.ty, self.piece.bytes().get(start..start.checked_add(width)?)?)
    }

    /// Element `i`; `None` past the end, for other elements than integers, and for a u64 beyond i64.
    pub fn int(&self, i: usize) -> Option<i64> {
        self.get(i)?.as_int()?.try_into().ok()
    }

    /// Element `i`; `None` past the end and for other elements than floats.
    pub fn float(&self, i: usize) -> Option<f64> {
        self.get(i)?.as_float()
    }

    /// The elements as i64, as [`NumberArray::int`] gives them.
    pub fn iter_ints(&self) -> impl ExactSizeIterator<Item = Option<i64>> + '_ {
        (0..self.len()).map(|i| self.int(i))
    }

    /// The elements as f64, as [`NumberArray::float`] gives them.
    pub fn iter_floats(&self) -> impl ExactSizeIterator<Item = Option<f64>> + '_ {
        (0..self.len()).map(|i| self.float(i))
    }
}

/// An array of strings, each found at once by its number.
#[derive(Clone)]
pub struct StringArray {
    piece: Piece,
    /// Where each string's bytes begin in the file. Eight bytes a string, and a string takes eight or more in the file.
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

    fn range(&self, i: usize) -> Option<(usize, usize)> {
        let start = *self.starts.get(i)?;
        // strings lie behind one another: this one ends where the length of the next begins
        let end = match self.starts.get(i + 1) {
            Some(next) => next - 8,
            None => self.piece.start + self.piece.len,
        };
        Some((start, end))
    }

    /// Bytes of string `i`.
    pub fn get(&self, i: usize) -> Option<&[u8]> {
        let (start, end) = self.range(i)?;
        self.piece.blob.get(start..end)
    }

    /// String `i` where it is UTF-8.
    pub fn text(&self, i: usize) -> Option<&str> {
        std::str::from_utf8(self.get(i)?).ok()
    }

    fn get_str(&self, i: usize) -> Option<GgufStr> {
        let (start, end) = self.range(i)?;
        Some(GgufStr(Piece { blob: self.piece.blob.clone(), start, len: end - start }))
    }

    /// The bytes of each string in turn.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + '_ {
        (0..self.len()).map(|i| self.get(i).unwrap_or_default())
    }
}

/// An array of arrays.
#[derive(Clone)]
pub struct NestedArray {
    piece: Piece,
    /// Where each element begins in the file. Eight bytes an element, and an element takes twelve or more in the file.
    starts: Arc<Vec<usize>>,
}

impl NestedArray {
    /// Number of arrays.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there are no arrays.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Element `i`, read anew from the file's bytes.
    pub fn get(&self, i: usize) -> Option<Array> {
        let mut cursor = Cursor::new(&self.piece.blob, *self.starts.get(i)?);
        read_array(&self.piece.blob, &mut cursor, 1, &|| "a nested array".to_owned()).ok()
    }
}

/// Reads one value of this type; `what` names it in errors.
pub(super) fn read_value(
    blob: &Blob,
    cursor: &mut Cursor<'_>,
    ty: ValueType,
    what: &dyn Fn() -> String,
) -> Result<Value, LoadError> {
    match ty {
        ValueType::String => {
            let len = cursor.string(what)?.len();
            Ok(Value::String(GgufStr(Piece { blob: blob.clone(), start: cursor.offset() - len, len })))
        }
        ValueType::Array => read_array(blob, cursor, 1, what).map(Value::Array),
        number => {
            let offset = cursor.offset();
            let bytes = cursor.take(number.min_bytes(), what)?;
            scalar(number, bytes).ok_or_else(|| not_a_bool(offset, bytes, what))
        }
    }
}

/// Reads the type of a value.
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

fn read_array(
    blob: &Blob,
    cursor: &mut Cursor<'_>,
    depth: usize,
    what: &dyn Fn() -> String,
) -> Result<Array, LoadError> {
    let elements = || format!("elements of {}", what());
    let offset = cursor.offset();
    let ty = read_type(cursor, &elements)?;
    let n = cursor.count(ty.min_bytes(), &elements)?;
    let start = cursor.offset();
    let piece = |end: usize| Piece { blob: blob.clone(), start, len: end - start };
    match ty {
        ValueType::String => {
            let mut starts = Vec::with_capacity(n);
            for i in 0..n {
                let len = cursor.string(&|| format!("element {i} of {}", what()))?.len();
                starts.push(cursor.offset() - len);
            }
            Ok(Array::Strings(StringArray { piece: piece(cursor.offset()), starts: Arc::new(starts) }))
        }
        ValueType::Array if depth == MAX_DEPTH => Err(LoadError::Implausible {
            what: format!("the nesting of {}", what()),
            offset: offset as u64,
            found: depth as u64 + 1,
            expected: format!("arrays are nested {MAX_DEPTH} deep at most"),
        }),
        ValueType::Array => {
            let mut starts = Vec::with_capacity(n);
            for i in 0..n {
                starts.push(cursor.offset());
                read_array(blob, cursor, depth + 1, &|| format!("element {i} of {}", what()))?;
            }
            Ok(Array::Arrays(NestedArray { piece: piece(cursor.offset()), starts: Arc::new(starts) }))
        }
        number => {
            // the product fits: `count` has compared it with the bytes left
            let bytes = cursor.take(n as u64 * number.min_bytes(), &elements)?;
            if number == ValueType::Bool
                && let Some(i) = bytes.iter().position(|&b| b > 1)
            {
                return Err(not_a_bool(start + i, &bytes[i..], &|| format!("element {i} of {}", what())));
            }
            Ok(Array::Numbers(NumberArray { ty: number, piece: piece(cursor.offset()) }))
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

/// A number or boolean from exactly its bytes; `None` for a boolean other than 0 and 1, and for types that are neither.
fn scalar(ty: ValueType, bytes: &[u8]) -> Option<Value> {
    Some(match ty {
        ValueType::U8 => Value::U8(u8::from_le_bytes(bytes.try_into().ok()?)),
        ValueType::I8 => Value::I8(i8::from_le_bytes(bytes.try_into().ok()?)),
        ValueType::U16 => Value::U16(u16::from_le_bytes(bytes.try_into().ok()?)),
        ValueType::I16 => Value::I16(i16::from_le_bytes(bytes.try_into().ok()?)),
        ValueType::U32 => Value::U32(u32::from_le_bytes(bytes.try_into().ok()?)),
        ValueType::I32 => Value::I32(i32::from_le_bytes(bytes.try_into().ok()?)),
        ValueType::U64 => Value::U64(u64::from_le_bytes(bytes.try_into().ok()?)),
        ValueType::I64 => Value::I64(i64::from_le_bytes(bytes.try_into().ok()?)),
        ValueType::F32 => Value::F32(f32::from_le_bytes(bytes.try_into().ok()?)),
        ValueType::F64 => Value::F64(f64::from_le_bytes(bytes.try_into().ok()?)),
        ValueType::Bool => Value::Bool(match bytes {
            [0] => false,
            [1] => true,
            _ => return None,
        }),
        ValueType::String | ValueType::Array => return None,
    })
}

//! Writes GGUF files, version 3: metadata and tensor descriptions first, then the data as a stream. So a
//! large model is never in memory as a whole. For the synthetic models of benchmarks, and for tests.

use std::io::{self, Read, Write};

use super::value_type::with_number_types;
use super::{Array, DEFAULT_ALIGNMENT, GgufFile, Value, ValueType};
use crate::types::TensorType;

macro_rules! meta_values {
    (integers: $($integer:ident($int:ty)),*; floats: $($float:ident($number:ty)),*;) => {
        /// A metadata value to write.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs)] // the names are the documentation
        pub enum MetaValue {
            $($integer($int),)*
            $($float($number),)*
            Bool(bool),
            /// Bytes, because the tokens of a vocabulary need not be text.
            String(Vec<u8>),
            /// Element type (so that an empty array has one too) and elements of that type.
            Array(ValueType, Vec<MetaValue>),
        }

        impl MetaValue {
            /// Type of this value.
            pub fn ty(&self) -> ValueType {
                match self {
                    $(MetaValue::$integer(_) => ValueType::$integer,)*
                    $(MetaValue::$float(_) => ValueType::$float,)*
                    MetaValue::Bool(_) => ValueType::Bool,
                    MetaValue::String(_) => ValueType::String,
                    MetaValue::Array(..) => ValueType::Array,
                }
            }

            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $(MetaValue::$integer(v) => out.extend(v.to_le_bytes()),)*
                    $(MetaValue::$float(v) => out.extend(v.to_le_bytes()),)*
                    MetaValue::Bool(v) => out.push(u8::from(*v)),
                    MetaValue::String(s) => put_string(out, s),
                    MetaValue::Array(ty, items) => {
                        out.extend(ty.id().to_le_bytes());
                        out.extend((items.len() as u64).to_le_bytes());
                        for item in items {
                            item.put(out);
                        }
                    }
                }
            }
        }

        /// Copies a value from a file.
        impl From<&Value> for MetaValue {
            fn from(v: &Value) -> MetaValue {
                match v {
                    $(Value::$integer(v) => MetaValue::$integer(*v),)*
                    $(Value::$float(v) => MetaValue::$float(*v),)*
                    Value::Bool(v) => MetaValue::Bool(*v),
                    Value::String(s) => MetaValue::String(s.as_bytes().to_vec()),
                    Value::Array(a) => MetaValue::from(a),
                }
            }
        }
    };
}

with_number_types!(meta_values);

impl MetaValue {
    /// An array of strings.
    pub fn strings<S: AsRef<[u8]>>(items: impl IntoIterator<Item = S>) -> MetaValue {
        MetaValue::Array(
            ValueType::String,
            items.into_iter().map(|s| MetaValue::String(s.as_ref().to_vec())).collect(),
        )
    }

    /// An array of f32.
    pub fn f32s(items: impl IntoIterator<Item = f32>) -> MetaValue {
        MetaValue::Array(ValueType::F32, items.into_iter().map(MetaValue::F32).collect())
    }

    /// An array of i32.
    pub fn i32s(items: impl IntoIterator<Item = i32>) -> MetaValue {
        MetaValue::Array(ValueType::I32, items.into_iter().map(MetaValue::I32).collect())
    }

    /// Whether it can be read: the elements of an array have the array's type and are no arrays.
    fn is_readable(&self) -> bool {
        match self {
            MetaValue::Array(ValueType::Array, _) => false,
            MetaValue::Array(ty, items) => items.iter().all(|item| item.ty() == *ty),
            _ => true,
        }
    }
}

impl From<&str> for MetaValue {
    fn from(v: &str) -> MetaValue {
        MetaValue::String(v.as_bytes().to_vec())
    }
}

impl From<u32> for MetaValue {
    fn from(v: u32) -> MetaValue {
        MetaValue::U32(v)
    }
}

impl From<f32> for MetaValue {
    fn from(v: f32) -> MetaValue {
        MetaValue::F32(v)
    }
}

impl From<bool> for MetaValue {
    fn from(v: bool) -> MetaValue {
        MetaValue::Bool(v)
    }
}

impl From<&Array> for MetaValue {
    fn from(a: &Array) -> MetaValue {
        MetaValue::Array(
            a.elem_type(),
            (0..a.len()).filter_map(|i| a.get(i)).map(|v| MetaValue::from(&v)).collect(),
        )
    }
}

/// Name, dimensions and type of a tensor to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorDecl {
    /// Name, such as `blk.0.attn_q.weight`.
    pub name: String,
    /// Elements per dimension in ggml order, row length first.
    pub dims: Vec<u64>,
    /// Element type.
    pub ty: TensorType,
}

impl TensorDecl {
    /// Size of the data in bytes; `None` if the rows are not whole blocks or the size overflows.
    pub fn bytes(&self) -> Option<u64> {
        self.ty.tensor_bytes(&self.dims)
    }
}

/// A file to write: metadata and tensor descriptions. The data are passed to [`GgufWriter::write`].
#[derive(Clone, Debug)]
pub struct GgufWriter {
    metadata: Vec<(String, MetaValue)>,
    tensors: Vec<TensorDecl>,
    alignment: usize,
}

impl Default for GgufWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl GgufWriter {
    /// An empty file with alignment 32.
    pub fn new() -> GgufWriter {
        GgufWriter { metadata: Vec::new(), tensors: Vec::new(), alignment: DEFAULT_ALIGNMENT }
    }

    /// A file with the metadata of another, and no tensors.
    pub fn with_metadata_of(file: &GgufFile) -> GgufWriter {
        let mut writer = GgufWriter::new();
        for (key, value) in file.metadata() {
            writer.set(key, MetaValue::from(value));
        }
        writer
    }

    /// Adds the tensors of another file.
    pub fn tensors_of(&mut self, file: &GgufFile) -> &mut Self {
        for tensor in file.tensors() {
            self.tensor(&tensor.name, &tensor.dims, tensor.ty);
        }
        self
    }

    /// Adds a metadata key, or replaces its value.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<MetaValue>) -> &mut Self {
        let (key, value) = (key.into(), value.into());
        match self.metadata.iter_mut().find(|(k, _)| *k == key) {
            Some(entry) => entry.1 = value,
            None => self.metadata.push((key, value)),
        }
        self
    }

    /// Removes a metadata key.
    pub fn unset(&mut self, key: &str) -> &mut Self {
        self.metadata.retain(|(k, _)| k != key);
        self
    }

    /// Adds a tensor. The data are written in the order of these calls.
    pub fn tensor(&mut self, name: impl Into<String>, dims: &[u64], ty: TensorType) -> &mut Self {
        self.tensors.push(TensorDecl { name: name.into(), dims: dims.to_vec(), ty });
        self
    }

    /// The tensors added so far, to change them before writing.
    pub fn tensors_mut(&mut self) -> &mut Vec<TensorDecl> {
        &mut self.tensors
    }

    /// Sets the alignment of the data in bytes, a power of two, and the key `general.alignment`.
    pub fn align(&mut self, alignment: u32) -> &mut Self {
        self.alignment = alignment.max(1) as usize;
        self.set("general.alignment", alignment)
    }

    /// Writes the file and returns its size in bytes. `data` is called once per tensor, in order, and writes
    /// exactly its bytes.
    ///
    /// # Errors
    /// `InvalidInput` for a tensor whose size is undefined and for an array of mixed types; `InvalidData` if
    /// `data` writes another number of bytes than the tensor has; errors of `out`.
    pub fn write(
        &self,
        out: &mut dyn Write,
        mut data: impl FnMut(&TensorDecl, &mut dyn Write) -> io::Result<()>,
    ) -> io::Result<u64> {
        let head = self.header()?;
        out.write_all(&head)?;
        let mut written = head.len() as u64;
        for tensor in &self.tensors {
            written += pad(out, written, self.alignment as u64)?;
            let mut counted = Counted { out, written: 0 };
            data(tensor, &mut counted)?;
            let (found, expected) = (counted.written, tensor_bytes(tensor)?);
            if found != expected {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("tensor {} has {expected} bytes, but {found} were written", tensor.name),
                ));
            }
            written += found;
        }
        written += pad(out, written, self.alignment as u64)?;
        out.flush()?;
        Ok(written)
    }

    /// The whole file, with the data that tensors of the same names have in another.
    ///
    /// # Errors
    /// Those of [`GgufWriter::write`]; `InvalidInput` where the other file lacks a tensor.
    pub fn to_bytes_with_data_of(&self, file: &GgufFile) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.write(&mut bytes, |tensor, out| {
            let same = file.tensor(&tensor.name);
            let same = same.ok_or_else(|| invalid(format!("there are no data of tensor {}", tensor.name)))?;
            out.write_all(file.data(same))
        })?;
        Ok(bytes)
    }

    /// The whole file with all-zero data, for tests.
    pub fn to_bytes_zeroed(&self) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        self.write(&mut out, |tensor, out| io::copy(&mut zeros(tensor_bytes(tensor)?), out).map(drop))?;
        Ok(out)
    }

    /// Everything before the data, without padding.
    fn header(&self) -> io::Result<Vec<u8>> {
        let mut head = Vec::new();
        head.extend(b"GGUF");
        head.extend(3u32.to_le_bytes());
        head.extend((self.tensors.len() as u64).to_le_bytes());
        head.extend((self.metadata.len() as u64).to_le_bytes());
        for (key, value) in &self.metadata {
            if !value.is_readable() {
                return Err(invalid(format!("metadata key {key} is an array of mixed types or of arrays")));
            }
            put_string(&mut head, key.as_bytes());
            head.extend(value.ty().id().to_le_bytes());
            value.put(&mut head);
        }
        let mut offset = 0u64;
        for tensor in &self.tensors {
            put_string(&mut head, tensor.name.as_bytes());
            head.extend((tensor.dims.len() as u32).to_le_bytes());
            for &d in &tensor.dims {
                head.extend(d.to_le_bytes());
            }
            head.extend(tensor.ty.id().to_le_bytes());
            head.extend(offset.to_le_bytes());
            offset = offset
                .checked_add(tensor_bytes(tensor)?)
                .and_then(|end| end.checked_next_multiple_of(self.alignment as u64))
                .ok_or_else(|| invalid("the tensors' sizes overflow".into()))?;
        }
        Ok(head)
    }
}

fn invalid(problem: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, problem)
}

fn tensor_bytes(tensor: &TensorDecl) -> io::Result<u64> {
    tensor.bytes().ok_or_else(|| {
        invalid(format!("tensor {} {:?} has no size as {}", tensor.name, tensor.dims, tensor.ty))
    })
}

fn put_string(out: &mut Vec<u8>, s: &[u8]) {
    out.extend((s.len() as u64).to_le_bytes());
    out.extend(s);
}

fn zeros(n: u64) -> impl io::Read {
    io::repeat(0).take(n)
}

/// Writes zeros up to the next multiple of `alignment` bytes and returns their number.
fn pad(out: &mut dyn Write, at: u64, alignment: u64) -> io::Result<u64> {
    let n = at.next_multiple_of(alignment) - at;
    io::copy(&mut zeros(n), out)
}

/// Counts the bytes written to `out`.
struct Counted<'a> {
    out: &'a mut dyn Write,
    written: u64,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.written += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

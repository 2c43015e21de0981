//! Reads GGUF files: versions 2 and 3, little-endian, in one file or split into several.
//!
//! Every count, length, type, dimension and offset in a file is checked against the size of the file before
//! it is used. After that, metadata and tensors are only looked up. Weights stay in the memory map. The
//! modules `spec` and `tokenizer` interpret the values.
//!
//! Layout of a file: `GGUF`, version u32, tensor count u64, key count u64; per key: name, type u32, value;
//! per tensor: name, rank u32, dimensions u64 each, type u32, offset u64; padding up to the alignment; tensor
//! data, each at an aligned offset.

mod blob;
mod cursor;
mod file_type;
mod fingerprint;
mod other_format;
mod split;
mod value;
mod value_type;
pub mod write;

use std::path::{Path, PathBuf};

pub use blob::Blob;
use cursor::Cursor;
pub(crate) use file_type::in_short_rows;
pub use fingerprint::is_fingerprint;
pub use other_format::OtherFormat;
pub use value::{Array, GgufStr, NumberArray, StringArray, Value};
pub use value_type::ValueType;

pub use crate::error::LoadError;
pub use crate::types::TensorType;

/// Alignment of tensor data in bytes in files without the key `general.alignment`.
const DEFAULT_ALIGNMENT: usize = 32;
/// Largest alignment accepted, in bytes. Files in use have 32.
const MAX_ALIGNMENT: usize = 1 << 16;
/// Maximum number of keys, and of tensors. Real files have fewer: a mixture of 256 experts in single tensors
/// has 46,000. Each costs a few hundred bytes of memory, so this bounds the memory that a hostile file can
/// take.
const MAX_ENTRIES: u64 = 1 << 17;
/// Maximum length of a metadata key, from the format's specification.
const MAX_KEY_BYTES: u64 = 65_535;
/// Maximum length of a tensor name in ggml.
const MAX_NAME_BYTES: u64 = 63;
/// Minimum size of a key with its value: length, one letter, type, one byte.
const MIN_KEY_ENTRY_BYTES: u64 = 8 + 1 + 4 + 1;
/// Minimum size of a tensor's description: length, one letter, rank, one dimension, type, offset.
const MIN_TENSOR_ENTRY_BYTES: u64 = 8 + 1 + 4 + 8 + 4 + 8;

/// An open, checked model file, or all parts of a split one.
pub struct GgufFile {
    /// The path given by the caller; `None` for a file in memory.
    path: Option<PathBuf>,
    shards: Vec<Blob>,
    version: u32,
    alignment: usize,
    /// In file order; of a split model, from the first part.
    metadata: Vec<(String, Value)>,
    /// Indices into `metadata`, sorted by key.
    by_key: Vec<u32>,
    /// In file order, part after part.
    tensors: Vec<TensorInfo>,
    /// Indices into `tensors`, sorted by name.
    by_name: Vec<u32>,
}

/// The description of a tensor in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Name, such as `blk.0.attn_q.weight`.
    pub name: String,
    /// Elements per dimension in ggml order: `dims[0]` is the length of a row. 1 to 4 dimensions, all at
    /// least 1.
    pub dims: Vec<u64>,
    /// Element type.
    pub ty: TensorType,
    /// Index of the file that holds the data; 0 unless the model is split.
    pub shard: usize,
    /// Start of the data, in bytes from the start of that file.
    pub offset: u64,
    /// Size of the data in bytes.
    pub bytes: u64,
}

impl TensorInfo {
    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.dims.iter().product() // cannot overflow: checked when the file was read
    }
}

impl GgufFile {
    /// Maps and checks a model file. The path of any part of a split model opens all parts, which must be in
    /// the same folder.
    pub fn open(path: &Path) -> Result<GgufFile, LoadError> {
        let paths = split::parts(path);
        let mut shards = Vec::with_capacity(paths.len());
        for (i, part) in paths.iter().enumerate() {
            let blob = Blob::map(part).map_err(|e| split::explain_missing(e, path, i, paths.len()))?;
            let shard = Shard::parse(blob.clone(), i);
            blob.check_complete()?; // before errors in the content, which may be zeros
            shards.push(shard.map_err(|e| e.in_file(part))?);
        }
        let file = Self::join(shards, split::Named::from(&paths)).map_err(|e| e.in_file(path))?;
        Ok(GgufFile { path: Some(path.to_owned()), ..file })
    }

    /// Checks a model file in memory. The bytes are used in place and not copied; [`Blob`] lists the types
    /// that convert to it.
    pub fn from_bytes(bytes: impl Into<Blob>) -> Result<GgufFile, LoadError> {
        Self::join(vec![Shard::parse(bytes.into(), 0)?], split::Named::Whole)
    }

    /// Joins the parts of a model: metadata of the first, tensors of all.
    fn join(shards: Vec<Shard>, named: split::Named) -> Result<GgufFile, LoadError> {
        split::check(&shards, named)?;
        let mut shards = shards.into_iter();
        let Some(first) = shards.next() else {
            return Err(LoadError::VocabularyOnly); // cannot happen: every caller passes at least one part
        };
        let mut file = GgufFile {
            path: None,
            shards: vec![first.blob],
            version: first.version,
            alignment: first.alignment,
            by_key: first.by_key,
            metadata: first.metadata,
            tensors: first.tensors,
            by_name: Vec::new(),
        };
        for shard in shards {
            file.shards.push(shard.blob);
            file.tensors.extend(shard.tensors);
        }
        file.by_name = sorted_index(&file.tensors, |t| &t.name, "tensor")?;
        Ok(file)
    }

    /// The path passed to [`GgufFile::open`]; `None` for a file in memory.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Adds the file's path, if it has one, to an error in the contents.
    pub(crate) fn with_path(&self, error: LoadError) -> LoadError {
        match &self.path {
            Some(path) => error.in_file(path),
            None => error,
        }
    }

    /// Version of the format, 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Alignment of tensor data in bytes, a power of two.
    pub fn alignment(&self) -> usize {
        self.alignment
    }

    /// Number of files of the model.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// The bytes of file `i`, shared; `None` if there is no such file.
    pub fn shard(&self, i: usize) -> Option<&Blob> {
        self.shards.get(i)
    }

    /// The bytes of file `i`; empty if there is no such file.
    pub fn shard_bytes(&self, i: usize) -> &[u8] {
        self.shards.get(i).map_or(&[], |blob| blob)
    }

    /// An error if a file of the model became shorter, or could not be read, since it was opened. What was
    /// read from it may then be zeros instead of its content: call this after reading and before using what
    /// follows from it. Costs a system call for each file.
    ///
    /// A file that was changed in place and is as long as before is not noticed.
    pub fn check_complete(&self) -> Result<(), LoadError> {
        self.shards.iter().try_for_each(Blob::check_complete)
    }

    /// Tells the operating system that it may drop the memory pages of a tensor's data, for example after
    /// copying it elsewhere. Reading the data still works.
    pub fn release_pages(&self, tensor: &TensorInfo) {
        if let Some(blob) = self.shards.get(tensor.shard) {
            let (offset, bytes) = (usize::try_from(tensor.offset), usize::try_from(tensor.bytes));
            if let (Ok(offset), Ok(bytes)) = (offset, bytes) {
                blob.release_pages(offset, bytes);
            }
        }
    }

    /// All metadata in file order.
    pub fn metadata(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.metadata.iter().map(|(k, v)| (k.as_str(), v))
    }

    /// The value of a metadata key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        find(&self.metadata, &self.by_key, |(k, _)| k, key).map(|i| &self.metadata[i].1)
    }

    /// All tensors in file order.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The tensor of this name.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.tensor_index(name).map(|i| &self.tensors[i])
    }

    /// Index of the tensor of this name in [`GgufFile::tensors`].
    pub(crate) fn tensor_index(&self, name: &str) -> Option<usize> {
        find(&self.tensors, &self.by_name, |t| &t.name, name)
    }

    /// The data of a tensor; empty if the description is of another file and points outside this one.
    pub fn data(&self, tensor: &TensorInfo) -> &[u8] {
        let range = || {
            let start = usize::try_from(tensor.offset).ok()?;
            let end = start.checked_add(usize::try_from(tensor.bytes).ok()?)?;
            self.shard_bytes(tensor.shard).get(start..end)
        };
        range().unwrap_or_default()
    }

    /// What its quantization is called: by llama.cpp's name, such as `Q4_K_M`, where the file states one that its tensors
    /// agree with, else by the type of most of its bytes. Empty where it has no tensors.
    pub fn file_type(&self) -> String {
        file_type::file_type(self)
    }

    /// Identifies the model by its content: the same for copies, renamed and split files, different where any byte of
    /// a tensor or a setting of the architecture differs. It is a file name, 37 characters long.
    ///
    /// This reads all weights, with up to `threads` threads. The caller's thread hands the bytes that are done to `go_on`
    /// after every few megabytes. Where that gives false, the result is `None`. Call [`GgufFile::check_complete`]
    /// afterwards.
    pub fn fingerprint(&self, threads: usize, go_on: &mut dyn FnMut(u64) -> bool) -> Option<String> {
        fingerprint::fingerprint(self, threads, go_on)
    }

    /// The value of a key as an unsigned integer, from any integer type; `None` if the key is missing.
    ///
    /// # Errors
    /// Here and in the methods below: the value is of another type or out of range.
    pub fn u64(&self, key: &str) -> Result<Option<u64>, LoadError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let int = value.as_int().ok_or_else(|| wrong_type(key, "an integer", value))?;
        u64::try_from(int).map(Some).map_err(|_| LoadError::BadValue {
            key: key.to_owned(),
            found: int.to_string(),
            expected: "cannot be negative".into(),
        })
    }

    /// An unsigned integer below 2³², from any integer type.
    pub fn u32(&self, key: &str) -> Result<Option<u32>, LoadError> {
        let Some(wide) = self.u64(key)? else {
            return Ok(None);
        };
        u32::try_from(wide).map(Some).map_err(|_| LoadError::BadValue {
            key: key.to_owned(),
            found: wide.to_string(),
            expected: "must be below 2^32".into(),
        })
    }

    /// A float, from f32 or f64.
    pub fn f32(&self, key: &str) -> Result<Option<f32>, LoadError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let float = value.as_float().ok_or_else(|| wrong_type(key, "a float", value))?;
        Ok(Some(float as f32))
    }

    /// A boolean.
    pub fn bool(&self, key: &str) -> Result<Option<bool>, LoadError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Bool(v)) => Ok(Some(*v)),
            Some(other) => Err(wrong_type(key, "a boolean", other)),
        }
    }

    /// A string. Bytes that are not UTF-8 are an error.
    pub fn str(&self, key: &str) -> Result<Option<&str>, LoadError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(s)) => {
                s.to_str().map(Some).ok_or_else(|| not_utf8(format!("metadata key {key}"), s.as_bytes()))
            }
            Some(other) => Err(wrong_type(key, "a text", other)),
        }
    }

    /// An array of strings.
    pub fn strings(&self, key: &str) -> Result<Option<&StringArray>, LoadError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(Array::Strings(a))) => Ok(Some(a)),
            Some(other) => Err(wrong_type(key, "an array of texts", other)),
        }
    }

    /// An array of integers of any integer type.
    pub fn ints(&self, key: &str) -> Result<Option<&NumberArray>, LoadError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(Array::Numbers(a))) if a.is_integer() => Ok(Some(a)),
            Some(other) => Err(wrong_type(key, "an array of integers", other)),
        }
    }

    /// An array of f32 or f64.
    pub fn floats(&self, key: &str) -> Result<Option<&NumberArray>, LoadError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(Array::Numbers(a))) if a.is_float() => Ok(Some(a)),
            Some(other) => Err(wrong_type(key, "an array of floats", other)),
        }
    }

    /// Like [`GgufFile::f32`], but a missing key is an error.
    pub(crate) fn required_f32(&self, key: &str) -> Result<f32, LoadError> {
        required(key, self.f32(key)?)
    }

    /// Like [`GgufFile::str`], but a missing key is an error.
    pub fn required_str(&self, key: &str) -> Result<&str, LoadError> {
        required(key, self.str(key)?)
    }
}

fn required<T>(key: &str, value: Option<T>) -> Result<T, LoadError> {
    value.ok_or_else(|| LoadError::MissingKey { key: key.to_owned() })
}

fn wrong_type(key: &str, expected: &'static str, found: &Value) -> LoadError {
    LoadError::WrongType { key: key.to_owned(), expected, found: format!("{} {found}", found.type_name()) }
}

fn not_utf8(what: String, bytes: &[u8]) -> LoadError {
    LoadError::NotUtf8 { what, found: bytes[..bytes.len().min(40)].to_vec() }
}

/// One file of a model, checked on its own.
struct Shard {
    blob: Blob,
    version: u32,
    alignment: usize,
    metadata: Vec<(String, Value)>,
    by_key: Vec<u32>,
    tensors: Vec<TensorInfo>,
}

impl Shard {
    fn parse(blob: Blob, shard: usize) -> Result<Shard, LoadError> {
        let mut cursor = Cursor::new(&blob, 0);
        let version = read_header(&blob, &mut cursor)?;
        let n_tensors = read_count(&mut cursor, MIN_TENSOR_ENTRY_BYTES, "tensors")?;
        let n_keys = read_count(&mut cursor, MIN_KEY_ENTRY_BYTES, "metadata keys")?;

        let mut metadata = Vec::with_capacity(n_keys);
        for i in 0..n_keys {
            metadata.push(read_key_value(&blob, &mut cursor, i)?);
        }
        let by_key = sorted_index(&metadata, |(k, _)| k, "metadata key")?;

        let mut tensors = Vec::with_capacity(n_tensors);
        for i in 0..n_tensors {
            tensors.push(read_tensor_info(&mut cursor, i, shard)?);
        }
        let mut parsed =
            Shard { version, alignment: DEFAULT_ALIGNMENT, metadata, by_key, tensors, blob: blob.clone() };
        parsed.alignment = parsed.read_alignment()?;
        parsed.place_tensors(cursor.offset())?;
        Ok(parsed)
    }

    fn get(&self, key: &str) -> Option<&Value> {
        find(&self.metadata, &self.by_key, |(k, _)| k, key).map(|i| &self.metadata[i].1)
    }

    /// The value of a key as an integer.
    fn int(&self, key: &str) -> Result<Option<i128>, LoadError> {
        match self.get(key) {
            None => Ok(None),
            Some(v) => v.as_int().map(Some).ok_or_else(|| wrong_type(key, "an integer", v)),
        }
    }

    fn read_alignment(&self) -> Result<usize, LoadError> {
        const KEY: &str = "general.alignment";
        let Some(found) = self.int(KEY)? else {
            return Ok(DEFAULT_ALIGNMENT);
        };
        usize::try_from(found).ok().filter(|a| a.is_power_of_two() && *a <= MAX_ALIGNMENT).ok_or_else(|| {
            LoadError::BadValue {
                key: KEY.to_owned(),
                found: found.to_string(),
                expected: format!("an alignment is a power of two up to {MAX_ALIGNMENT}"),
            }
        })
    }

    /// Converts offsets from the start of the data, as stored, to offsets from the start of the file. Checks
    /// that the data of each tensor are aligned, inside the file and do not overlap. `end` is the end of the
    /// tensor descriptions in bytes.
    fn place_tensors(&mut self, end: usize) -> Result<(), LoadError> {
        let alignment = self.alignment as u64;
        let len = self.blob.len() as u64;
        let start = (end as u64).next_multiple_of(alignment);
        for t in &mut self.tensors {
            let bad = |problem: String| LoadError::BadTensor { name: t.name.clone(), problem };
            if !t.offset.is_multiple_of(alignment) {
                return Err(bad(format!(
                    "its data begin at offset {}, which is not a multiple of the alignment {alignment}",
                    t.offset
                )));
            }
            let outside = || {
                bad(format!(
                    "its {} bytes at offset {} of the data, which begin at byte {start}, reach beyond the end of the file at byte {len}",
                    t.bytes, t.offset
                ))
            };
            let absolute = start.checked_add(t.offset).ok_or_else(outside)?;
            if absolute.checked_add(t.bytes).is_none_or(|end| end > len) {
                return Err(outside());
            }
            t.offset = absolute;
        }
        let mut order: Vec<u32> = (0..self.tensors.len() as u32).collect(); // fits in u32: at most MAX_ENTRIES
        order.sort_unstable_by_key(|&i| self.tensors[i as usize].offset);
        for pair in order.windows(2) {
            let (a, b) = (&self.tensors[pair[0] as usize], &self.tensors[pair[1] as usize]);
            if a.offset + a.bytes > b.offset {
                return Err(LoadError::BadTensor {
                    name: b.name.clone(),
                    problem: format!(
                        "its data begin at byte {}, inside those of tensor {}, which end at byte {}",
                        b.offset,
                        crate::error::Text(a.name.as_bytes()),
                        a.offset + a.bytes
                    ),
                });
            }
        }
        Ok(())
    }
}

/// Magic number and version.
fn read_header(file: &[u8], cursor: &mut Cursor<'_>) -> Result<u32, LoadError> {
    let magic = cursor.take(cursor.left().min(4) as u64, &|| "the magic number".into())?;
    if magic != b"GGUF" {
        return Err(LoadError::OtherFormat { found: OtherFormat::of(file) });
    }
    match cursor.u32(&|| "the version".into())? {
        version @ (2 | 3) => Ok(version),
        swapped if matches!(swapped.swap_bytes(), 1..=3) => Err(LoadError::BigEndian),
        found => Err(LoadError::Version { found }),
    }
}

fn read_count(cursor: &mut Cursor<'_>, min_bytes: u64, what: &'static str) -> Result<usize, LoadError> {
    let offset = cursor.offset() as u64;
    let n = cursor.count(min_bytes, &|| what.to_owned())?;
    if n as u64 > MAX_ENTRIES {
        return Err(LoadError::Implausible {
            what: format!("the number of {what}"),
            offset,
            found: n as u64,
            expected: format!("no model has more than {MAX_ENTRIES}"),
        });
    }
    Ok(n)
}

/// Reads a key or tensor name: UTF-8, 1 to `max_bytes` bytes.
fn read_name(
    cursor: &mut Cursor<'_>,
    max_bytes: u64,
    what: &dyn Fn() -> String,
) -> Result<String, LoadError> {
    let offset = cursor.offset() as u64;
    let bytes = cursor.string(what)?;
    if bytes.is_empty() || bytes.len() as u64 > max_bytes {
        return Err(LoadError::Implausible {
            what: format!("the length of {}", what()),
            offset,
            found: bytes.len() as u64,
            expected: format!("it has 1 to {max_bytes} bytes"),
        });
    }
    match std::str::from_utf8(bytes) {
        Ok(name) => Ok(name.to_owned()),
        Err(_) => Err(not_utf8(format!("at byte {offset}: {}", what()), bytes)),
    }
}

fn read_key_value(blob: &Blob, cursor: &mut Cursor<'_>, i: usize) -> Result<(String, Value), LoadError> {
    let key = read_name(cursor, MAX_KEY_BYTES, &|| format!("the name of metadata key {i}"))?;
    let what = || format!("the value of metadata key {}", crate::error::Text(key.as_bytes()));
    let ty = value::read_type(cursor, &what)?;
    let value = value::read_value(blob, cursor, ty, &what)?;
    Ok((key, value))
}

/// Reads a tensor's description. Its offset is from the start of the data, as stored.
fn read_tensor_info(cursor: &mut Cursor<'_>, i: usize, shard: usize) -> Result<TensorInfo, LoadError> {
    let name = read_name(cursor, MAX_NAME_BYTES, &|| format!("the name of tensor {i}"))?;
    let bad = |problem: String| LoadError::BadTensor { name: name.clone(), problem };
    let what = |part: &'static str| {
        let name = &name;
        move || format!("{part} of tensor {}", crate::error::Text(name.as_bytes()))
    };

    let rank = cursor.u32(&what("the rank"))?;
    if !(1..=4).contains(&rank) {
        return Err(bad(format!("it has {rank} dimensions, but tensors have 1 to 4")));
    }
    let mut dims = Vec::with_capacity(rank as usize);
    for _ in 0..rank {
        dims.push(cursor.u64(&what("a dimension"))?);
    }
    let id = cursor.u32(&what("the type"))?;
    let offset = cursor.u64(&what("the offset"))?;

    if dims.contains(&0) {
        return Err(bad(format!("a dimension of {} is zero", dims_text(&dims))));
    }
    let ty = TensorType::from_id(id)
        .ok_or_else(|| bad(format!("its type {id} is unknown or was removed from ggml")))?;
    if !dims[0].is_multiple_of(ty.block_elems()) {
        return Err(bad(format!(
            "its rows have {} elements, but {ty} is stored in blocks of {}",
            dims[0],
            ty.block_elems()
        )));
    }
    // ggml counts elements in i64
    let elements = dims.iter().try_fold(1u64, |n, &d| n.checked_mul(d)).filter(|&n| i64::try_from(n).is_ok());
    let bytes = elements.and_then(|_| ty.tensor_bytes(&dims)).filter(|&n| i64::try_from(n).is_ok());
    let Some(bytes) = bytes else {
        return Err(bad(format!("its size {} overflows", dims_text(&dims))));
    };
    Ok(TensorInfo { name, dims, ty, shard, offset, bytes })
}

/// Dimensions as text, in ggml order: `[4096, 32]`.
pub(crate) fn dims_text(dims: &[u64]) -> String {
    format!("{dims:?}")
}

/// Indices sorted by name. Equal names are an error; `what` says in it what the names are of.
fn sorted_index<T>(
    items: &[T],
    name: impl Fn(&T) -> &String,
    what: &'static str,
) -> Result<Vec<u32>, LoadError> {
    // Fits in u32 up to 32,768 parts of MAX_ENTRIES each. Beyond that, the last tensors would not be found by
    // name.
    let mut index: Vec<u32> = (0..items.len() as u32).collect();
    index.sort_unstable_by(|&a, &b| name(&items[a as usize]).cmp(name(&items[b as usize])));
    for pair in index.windows(2) {
        let (a, b) = (name(&items[pair[0] as usize]), name(&items[pair[1] as usize]));
        if a == b {
            return Err(LoadError::Duplicate { what, name: a.clone() });
        }
    }
    Ok(index)
}

fn find<T>(items: &[T], index: &[u32], name: impl Fn(&T) -> &String, wanted: &str) -> Option<usize> {
    let at = index.binary_search_by(|&i| name(&items[i as usize]).as_str().cmp(wanted)).ok()?;
    Some(index[at] as usize)
}

//! Identifies a model by its content, so that files made for one model (head profiles) can be told from those
//! of others. Not a checksum: it hashes only a sample of the weights.

use std::fmt::Write as _;

use super::{GgufFile, Value};

/// Maximum number of tensors whose data are sampled, spread evenly over the sorted names.
const SAMPLED_TENSORS: usize = 64;
/// Bytes hashed of each sampled tensor, from its middle.
const SAMPLE_BYTES: usize = 1024;

/// Hashes the keys of the architecture, the names, dimensions and types of all tensors, and a sample of their
/// data. The order does not depend on how the file was written or split.
pub(super) fn fingerprint(file: &GgufFile) -> String {
    let mut hash = Fnv128::new();
    let arch = file.str("general.architecture").ok().flatten().unwrap_or_default();
    let prefix = format!("{arch}.");
    hash.field(arch.as_bytes());
    for &i in &file.by_key {
        let (key, value) = &file.metadata[i as usize];
        if key.starts_with(&prefix) {
            hash.field(key.as_bytes());
            match value {
                Value::Array(array) => hash.field(array.raw()),
                scalar => hash.field(scalar.to_string().as_bytes()),
            }
        }
    }
    let step = file.by_name.len().div_ceil(SAMPLED_TENSORS).max(1);
    for (n, &i) in file.by_name.iter().enumerate() {
        let tensor = &file.tensors[i as usize];
        hash.field(tensor.name.as_bytes());
        let mut description = String::new();
        // Writing to a String cannot fail.
        let _ = write!(description, "{:?} {}", tensor.dims, tensor.ty);
        hash.field(description.as_bytes());
        if n % step == 0 {
            let data = file.data(tensor);
            let len = data.len().min(SAMPLE_BYTES);
            let start = (data.len() - len) / 2;
            hash.field(&data[start..start + len]);
        }
    }
    format!("{:032x}", hash.0)
}

/// FNV-1a with 128 bits: short code, the same result on every machine, and long enough to make collisions
/// unlikely.
struct Fnv128(u128);

impl Fnv128 {
    fn new() -> Fnv128 {
        Fnv128(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.0 = (self.0 ^ u128::from(b)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }

    /// Hashes the length of `bytes` and then the bytes, so that the boundaries between fields count.
    fn field(&mut self, bytes: &[u8]) {
        self.bytes(&(bytes.len() as u64).to_le_bytes());
        self.bytes(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A published test vector of FNV-1a with 128 bits.
    #[test]
    fn fnv_1a_gives_the_published_hash() {
        let mut h = Fnv128::new();
        h.bytes(b"a");
        assert_eq!(h.0, 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }
}

//! The metadata of a file to write.

use crate::arch::Arch;
use crate::gguf::ValueType;
use crate::gguf::write::MetaValue;

/// Collects metadata under an architecture's prefix.
pub struct KeyWriter {
    arch: Arch,
    keys: Vec<(String, MetaValue)>,
}

impl KeyWriter {
    /// The metadata of a model of this architecture and name, without settings.
    pub fn new(arch: Arch, name: &str) -> KeyWriter {
        let keys = vec![
            ("general.architecture".into(), arch.name().into()),
            ("general.type".into(), "model".into()),
            ("general.name".into(), name.into()),
        ];
        KeyWriter { arch, keys }
    }

    /// All keys with their prefix.
    pub fn into_keys(self) -> Vec<(String, MetaValue)> {
        self.keys
    }

    pub fn put(&mut self, key: &str, value: impl Into<MetaValue>) {
        self.keys.push((format!("{}.{key}", self.arch.name()), value.into()));
    }

    /// A setting that only some architectures have: left out in others, and where there is no value.
    pub fn setting(&mut self, key: &str, value: Option<impl Into<MetaValue>>) {
        if let Some(value) = value.filter(|_| self.arch.decl().settings.contains(&key)) {
            self.put(key, value);
        }
    }

    pub fn size(&mut self, key: &str, size: usize) {
        self.put(key, meta_size(size));
    }

    /// A size, where there is one.
    pub fn optional_size(&mut self, key: &str, size: Option<usize>) {
        if let Some(size) = size {
            self.size(key, size);
        }
    }

    /// A size of each layer: a list where they `differ`, or the one that all layers have.
    pub fn sizes(&mut self, key: &str, differ: bool, mut of_layers: impl Iterator<Item = usize>) {
        match differ {
            true => self.put(key, MetaValue::Array(ValueType::U32, of_layers.map(meta_size).collect())),
            false => self.optional_size(key, of_layers.next()),
        }
    }

    /// A flag for each layer.
    pub fn flags(&mut self, key: &str, flags: impl Iterator<Item = bool>) {
        let flags = flags.map(MetaValue::Bool).collect();
        self.put(key, MetaValue::Array(ValueType::Bool, flags));
    }
}

/// A size as files have it. Larger ones are refused on reading.
pub fn meta_size(size: usize) -> MetaValue {
    MetaValue::U32(u32::try_from(size).unwrap_or(u32::MAX))
}

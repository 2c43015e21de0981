//! The metadata keys of an architecture, with limits and errors: one value, a size, a factor, a list. Knows nothing of
//! what a setting means.

use super::ROPE_SECTIONS;
use crate::arch::{
    Arch, ArchDecl, EXPERT_KEYS, IGNORED_KEYS, LOCAL_KEYS, NEUTRAL_KEYS, Presence, READ_KEYS, RECURRENT_KEYS,
    RopeSections,
};
use crate::error::{LoadError, Text};
use crate::gguf::{Array, GgufFile, Value};

/// Maximum sizes, far above all known models: a file with larger ones is damaged. They also prevent overflow
/// in products.
pub(in crate::spec) mod limit {
    pub const LAYERS: u64 = 4096;
    pub const HEADS: u64 = 1 << 14;
    pub const HEAD_DIM: u64 = 1 << 12;
    pub const WIDTH: u64 = 1 << 24;
    pub const EXPERTS: u64 = 1 << 12;
    pub const USED_EXPERTS: u64 = 1 << 8;
    /// Positions and token ids are i32 in ggml.
    pub const TOKENS: u64 = i32::MAX as u64;
    /// With more, the slopes of some heads are below f32's precision.
    pub const ALIBI_BIAS: f32 = 100.0;
    /// Factors beyond these leave nothing of f32's precision.
    pub const FACTORS: (f32, f32) = (1e-6, 1e6);
}

/// The metadata keys under an architecture's prefix. Methods take keys without the prefix.
pub(super) struct Keys<'a> {
    pub(super) file: &'a GgufFile,
    pub(super) arch: Arch,
}

impl Keys<'_> {
    pub(super) fn full(&self, key: &str) -> String {
        format!("{}.{key}", self.arch.name())
    }

    pub(super) fn bad(&self, key: &str, found: impl ToString, expected: impl Into<String>) -> LoadError {
        LoadError::BadValue { key: self.full(key), found: found.to_string(), expected: expected.into() }
    }

    pub(super) fn missing(&self, key: &str) -> LoadError {
        LoadError::MissingKey { key: self.full(key) }
    }

    pub(super) fn unsupported(&self, key: &str, value: impl ToString, why: impl Into<String>) -> LoadError {
        LoadError::Unsupported { key: self.full(key), value: value.to_string(), why: why.into() }
    }

    /// An error for unsupported features that are switched on, and for unknown settings.
    pub(super) fn refuse_unknown(&self) -> Result<(), LoadError> {
        let prefix = self.full("");
        for (key, value) in self.file.metadata() {
            let Some(key) = key.strip_prefix(&prefix) else {
                continue;
            };
            let ArchDecl { settings, sliding_window, experts, recurrent, rope_sections, .. } =
                self.arch.decl();
            let is_local = sliding_window.local().is_some() && LOCAL_KEYS.contains(&key);
            let is_of_experts = experts.presence != Presence::Never && EXPERT_KEYS.contains(&key);
            let is_recurrent = recurrent.is_some() && RECURRENT_KEYS.contains(&key);
            let is_read = is_local
                || is_of_experts
                || is_recurrent
                || *rope_sections != RopeSections::Refused && key == ROPE_SECTIONS
                || READ_KEYS.contains(&key)
                || settings.contains(&key);
            if is_read || IGNORED_KEYS.contains(&key) {
                continue;
            }
            match NEUTRAL_KEYS.iter().find(|(known, ..)| *known == key) {
                Some((_, neutral, _)) if neutral.matches(value) => {}
                Some((_, _, meaning)) => {
                    return Err(self.unsupported(key, value, format!("it means {meaning}")));
                }
                None => {
                    // The key comes from the file, so it is escaped like other texts.
                    return Err(LoadError::Unsupported {
                        key: Text(self.full(key).as_bytes()).to_string(),
                        value: value.to_string(),
                        why: "its effect is unknown".into(),
                    });
                }
            }
        }
        Ok(())
    }

    /// A size from 1 to `max`.
    pub(super) fn checked(&self, key: &str, found: u64, max: u64) -> Result<usize, LoadError> {
        match usize::try_from(found) {
            Ok(n) if found >= 1 && found <= max => Ok(n),
            _ => Err(self.bad(key, found, format!("it has to be 1 to {max}"))),
        }
    }

    pub(super) fn size(&self, key: &str, max: u64) -> Result<usize, LoadError> {
        self.optional_size(key, max)?.ok_or_else(|| self.missing(key))
    }

    pub(super) fn optional_size(&self, key: &str, max: u64) -> Result<Option<usize>, LoadError> {
        self.file.u64(&self.full(key))?.map(|n| self.checked(key, n, max)).transpose()
    }

    /// A size that the file gives once, or once per layer with the same value for all layers.
    pub(super) fn uniform(&self, key: &str, n_layers: usize, max: u64) -> Result<Option<usize>, LoadError> {
        let [size, _] = self.two_sizes(key, n_layers, max, |_| false)?;
        Ok(size)
    }

    /// A size that the file gives once, or once per layer: that of the layers for which `is_second` is false, and that
    /// of the others. It has to be equal within each of these.
    pub(super) fn two_sizes(
        &self,
        key: &str,
        n_layers: usize,
        max: u64,
        is_second: impl Fn(usize) -> bool,
    ) -> Result<[Option<usize>; 2], LoadError> {
        let full = self.full(key);
        let Some(Value::Array(Array::Numbers(list))) = self.file.get(&full) else {
            return Ok([self.optional_size(key, max)?; 2]);
        };
        self.file.ints(&full)?; // an error if the elements are not integers
        if list.len() < n_layers {
            return Err(self.bad(
                key,
                format!("a list of {}", list.len()),
                format!("there are {n_layers} layers"),
            ));
        }
        let size_of = |second: bool| {
            let mut layers = (0..n_layers).filter(|layer| is_second(*layer) == second);
            let Some(first) = layers.next() else { return Ok(None) };
            let first = list.int(first).unwrap_or(-1);
            if layers.any(|layer| list.int(layer) != Some(first)) {
                return Err(self.unsupported(
                    key,
                    self.file.get(&full).map_or_else(String::new, Value::to_string),
                    "layers of unequal size",
                ));
            }
            match u64::try_from(first) {
                Ok(n) => self.checked(key, n, max).map(Some),
                Err(_) => Err(self.bad(key, first, format!("it has to be 1 to {max}"))),
            }
        };
        Ok([size_of(false)?, size_of(true)?])
    }

    pub(super) fn float(
        &self,
        key: &str,
        default: f32,
        allowed: impl Fn(f32) -> bool,
        expected: &str,
    ) -> Result<f32, LoadError> {
        let found = self.file.f32(&self.full(key))?.unwrap_or(default);
        if found.is_finite() && allowed(found) {
            return Ok(found);
        }
        Err(self.bad(key, found, expected))
    }

    /// A setting of the architecture that is a factor. 0 means the default.
    pub(super) fn factor(&self, key: &str, default: f32) -> Result<f32, LoadError> {
        if !self.arch.decl().settings.contains(&key) {
            return Ok(default);
        }
        self.factor_or_zero(key, default)
    }

    /// A factor. 0 means the default.
    pub(super) fn factor_or_zero(&self, key: &str, default: f32) -> Result<f32, LoadError> {
        let (least, most) = limit::FACTORS;
        let allowed = |x: f32| x == 0.0 || (least..=most).contains(&x);
        let found = self.float(key, default, allowed, &format!("it has to be {least} to {most}, or 0"))?;
        Ok(if found == 0.0 { default } else { found })
    }

    /// A setting of the architecture that bounds numbers. 0 means the default.
    pub(super) fn bound(&self, key: &str, default: Option<f32>) -> Result<Option<f32>, LoadError> {
        let bound = self.factor(key, default.unwrap_or(0.0))?;
        Ok((bound != 0.0).then_some(bound))
    }

    /// A list of `count` flags. `None` where the key has another type than a list, or is missing. `or` is what else
    /// it may be, for the error.
    pub(super) fn flags(&self, key: &str, count: usize, or: &str) -> Result<Option<Vec<bool>>, LoadError> {
        let Some(Value::Array(array)) = self.file.get(&self.full(key)) else { return Ok(None) };
        let flag = |number: usize| match array.get(number) {
            Some(Value::Bool(flag)) if array.len() == count => Some(flag),
            _ => None,
        };
        let flags: Option<Vec<bool>> = (0..count).map(flag).collect();
        flags.map(Some).ok_or_else(|| {
            let found = format!("a list of {}", array.len());
            self.bad(key, found, format!("it has to be {or}{count} times true or false"))
        })
    }
}

//! One value, a size, a factor, a list: with limits and errors.

use super::limit;
use crate::arch::{Arch, IGNORED_KEYS, NEUTRAL_KEYS};
use crate::error::{LoadError, Text};
use crate::gguf::{Array, GgufFile, Value};
use crate::spec::is_read;

/// Reads the metadata under an architecture's prefix, and asks which tensors there are.
pub struct KeyReader<'a> {
    pub file: &'a GgufFile,
    pub arch: Arch,
}

impl KeyReader<'_> {
    pub fn full(&self, key: &str) -> String {
        format!("{}.{key}", self.arch.name())
    }

    pub fn bad(&self, key: &str, found: impl ToString, expected: impl Into<String>) -> LoadError {
        LoadError::BadValue { key: self.full(key), found: found.to_string(), expected: expected.into() }
    }

    pub fn missing(&self, key: &str) -> LoadError {
        LoadError::MissingKey { key: self.full(key) }
    }

    pub fn unsupported(&self, key: &str, value: impl ToString, why: impl Into<String>) -> LoadError {
        LoadError::Unsupported { key: self.full(key), value: value.to_string(), why: why.into() }
    }

    /// An error for unsupported features that are switched on, and for unknown settings.
    pub fn refuse_unknown(&self) -> Result<(), LoadError> {
        let prefix = self.full("");
        for (key, value) in self.file.metadata() {
            let Some(key) = key.strip_prefix(&prefix) else {
                continue;
            };
            if is_read(self.arch.decl(), key) || IGNORED_KEYS.contains(&key) {
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

    /// Whether the file has a tensor of this name.
    pub fn has_tensor(&self, name: &str) -> bool {
        self.file.tensor(name).is_some()
    }

    /// Whether the first layer has a tensor of this name, without `blk.0.`.
    pub fn first_layer_has(&self, name: &str) -> bool {
        self.has_tensor(&format!("blk.0.{name}"))
    }

    /// Whether one of `n_layers` layers has a tensor of this name, without `blk.` and its number.
    pub fn a_layer_has(&self, n_layers: usize, name: &str) -> bool {
        (0..n_layers).any(|layer| self.has_tensor(&format!("blk.{layer}.{name}")))
    }

    /// Whether the key is a setting of the architecture: see [`ArchDecl::settings`](crate::arch::ArchDecl::settings).
    pub fn is_setting(&self, key: &str) -> bool {
        self.arch.decl().settings.contains(&key)
    }

    /// A size from 1 to `max`.
    pub fn checked(&self, key: &str, found: u64, max: u64) -> Result<usize, LoadError> {
        match usize::try_from(found) {
            Ok(n) if found >= 1 && found <= max => Ok(n),
            _ => Err(self.bad(key, found, format!("it has to be 1 to {max}"))),
        }
    }

    pub fn size(&self, key: &str, max: u64) -> Result<usize, LoadError> {
        self.optional_size(key, max)?.ok_or_else(|| self.missing(key))
    }

    pub fn optional_size(&self, key: &str, max: u64) -> Result<Option<usize>, LoadError> {
        self.file.u64(&self.full(key))?.map(|n| self.checked(key, n, max)).transpose()
    }

    /// A size that the file gives once, or once per layer with the same value for all layers.
    pub fn uniform(&self, key: &str, n_layers: usize, max: u64) -> Result<Option<usize>, LoadError> {
        let [size, _] = self.two_sizes(key, n_layers, max, |_| false)?;
        Ok(size)
    }

    /// A size that the file gives once, or once per layer: that of the layers for which `is_second` is false, and that
    /// of the others. It has to be equal within each of these.
    pub fn two_sizes(
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

    pub fn float(
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
    pub fn factor(&self, key: &str, default: f32) -> Result<f32, LoadError> {
        if !self.is_setting(key) {
            return Ok(default);
        }
        self.factor_or_zero(key, default)
    }

    /// A factor. 0 means the default.
    pub fn factor_or_zero(&self, key: &str, default: f32) -> Result<f32, LoadError> {
        let (least, most) = limit::FACTORS;
        let allowed = |x: f32| x == 0.0 || (least..=most).contains(&x);
        let found = self.float(key, default, allowed, &format!("it has to be {least} to {most}, or 0"))?;
        Ok(if found == 0.0 { default } else { found })
    }

    /// A setting of the architecture that bounds numbers. 0 means the default.
    pub fn bound(&self, key: &str, default: Option<f32>) -> Result<Option<f32>, LoadError> {
        let bound = self.factor(key, default.unwrap_or(0.0))?;
        Ok((bound != 0.0).then_some(bound))
    }

    /// A list of `count` flags. `None` where the key has another type than a list, or is missing. `or` is what else
    /// it may be, for the error.
    pub fn flags(&self, key: &str, count: usize, or: &str) -> Result<Option<Vec<bool>>, LoadError> {
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

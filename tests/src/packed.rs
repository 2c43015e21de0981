//! Packed files of `golden`. `golden/packed.py` writes them, and says what they look like. All functions panic where something
//! does not work.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use anyhow::{Context as _, Result};
use brotli_decompressor::Decompressor;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The sign of an f32.
const SIGN: u32 = 1 << 31;

/// Numbers, by name.
pub fn numbers<T: DeserializeOwned>(path: &str) -> BTreeMap<String, T> {
    serde_json::from_slice(&unpacked(path)).expect(path)
}

/// Logits, by name.
pub fn logits(path: &str) -> BTreeMap<String, Vec<f32>> {
    let bytes = unpacked(path);
    let (counts, planes): (Map<String, Value>, _) = header(path, &bytes);
    let n = planes.len() / 3;
    let number = |i: usize| i32::from_le_bytes([0, planes[i], planes[n + i], planes[2 * n + i]]) >> 8;
    let mut logits = (0..n).map(|i| (f64::from(number(i)) / 1e4) as f32);
    let mut of_name = |(name, count): (String, Value)| {
        let count = count.as_u64().expect(path) as usize;
        (name, logits.by_ref().take(count).collect())
    };
    counts.into_iter().map(&mut of_name).collect()
}

/// Files of models, by name.
pub fn models(path: &str) -> BTreeMap<String, Vec<u8>> {
    let bytes = unpacked(path);
    let (files, rest): (Vec<(String, usize, usize)>, _) = header(path, &bytes);
    let count: usize = files.iter().map(|(_, size, width)| size / width).sum();
    let (codes, others) = rest.split_at(count.div_ceil(4));
    let mut codes = codes.iter().flat_map(|four| [0, 2, 4, 6].map(|shift| four >> shift & 3));
    let files: Vec<(String, usize, Vec<u8>)> = (files.into_iter())
        .map(|(name, size, width)| (name, width, codes.by_ref().take(size / width).collect()))
        .collect();
    let is_other = |code: &&u8| **code == 3;
    let words = files.iter().filter(|(_, width, _)| *width == 4);
    let words: usize = words.map(|(.., codes)| codes.iter().filter(is_other).count()).sum();
    let (planes, single) = others.split_at(4 * words);
    let word = |i: usize| u32::from_le_bytes([0, 1, 2, 3].map(|plane| planes[plane * words + i]));
    let (mut words, mut single) = ((0..words).map(word), single.iter().copied());
    let mut unpack = |(name, width, codes): (String, usize, Vec<u8>)| {
        let bytes = match width {
            4 => {
                let mut scale = 0;
                let weights = codes.into_iter().map(|code| match code {
                    0 => 0,
                    1 => scale,
                    2 => scale ^ SIGN,
                    _ => {
                        let other = words.next().expect(path);
                        scale = other & !SIGN;
                        other
                    }
                });
                weights.flat_map(u32::to_le_bytes).collect()
            }
            _ => codes
                .into_iter()
                .map(|code| match code {
                    0 => 0,
                    1 => 127,
                    2 => 129,
                    _ => single.next().expect(path),
                })
                .collect(),
        };
        (name, bytes)
    };
    files.into_iter().map(&mut unpack).collect()
}

/// The first line, which is JSON, and what follows it.
fn header<'a, T: DeserializeOwned>(path: &str, bytes: &'a [u8]) -> (T, &'a [u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n').expect(path);
    (serde_json::from_slice(&bytes[..end]).expect(path), &bytes[end + 1..])
}

/// A packed file, unpacked.
pub fn unpacked(path: &str) -> Vec<u8> {
    file(&crate::data(path)).expect(path)
}

/// The same of any folder.
pub(crate) fn file(path: &Path) -> Result<Vec<u8>> {
    let packed = std::fs::read(path).with_context(|| path.display().to_string())?;
    let mut bytes = Vec::new();
    Decompressor::new(&packed[..], 4096).read_to_end(&mut bytes)?;
    Ok(bytes)
}

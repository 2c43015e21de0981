//! Arrays in NumPy's file format: little-endian float32 in C order. The references and `longhand logits`
//! write such files.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

/// An array of float32.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Extents in NumPy's order: the slowest dimension first.
    pub shape: Vec<usize>,
    /// Elements in C order: the last dimension is contiguous.
    pub data: Vec<f32>,
}

impl Array {
    /// Reads a file of format version 1 or 2 with elements `<f4` in C order.
    pub fn read(path: &Path) -> Result<Array> {
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Array::parse(&bytes).with_context(|| format!("{} is not a float32 .npy file", path.display()))
    }

    /// The array in the bytes of such a file.
    pub fn parse(bytes: &[u8]) -> Result<Array> {
        ensure!(bytes.len() > 12 && &bytes[..6] == b"\x93NUMPY", "no NumPy header");
        let (start, length) = match bytes[6] {
            1 => (10, usize::from(u16::from_le_bytes([bytes[8], bytes[9]]))),
            2 => (12, u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) as usize),
            version => bail!("version {version} of the format"),
        };
        let header = bytes.get(start..start + length).context("the header is truncated")?;
        let header = std::str::from_utf8(header)?;
        ensure!(header.contains("'<f4'"), "elements are not <f4: {header}");
        ensure!(header.contains("'fortran_order': False"), "not in C order: {header}");
        let shape =
            header.split_once("'shape': (").and_then(|(_, rest)| rest.split_once(')')).context("no shape")?.0;
        let shape: Vec<usize> = shape
            .split(',')
            .map(str::trim)
            .filter(|extent| !extent.is_empty())
            .map(|extent| extent.parse().context("an extent is not a number"))
            .collect::<Result<_>>()?;
        let data: Vec<f32> = bytes[start + length..]
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect();
        ensure!(data.len() == shape.iter().product::<usize>(), "{} elements for shape {shape:?}", data.len());
        Ok(Array { shape, data })
    }
}

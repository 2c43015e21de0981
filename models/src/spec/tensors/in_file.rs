//! Finds a model's tensors in a file, and checks their shapes and types.

use super::{ModelTensors, TensorKind, TensorPart, TensorSpec};
use crate::error::LoadError;
use crate::gguf::{GgufFile, TensorInfo, dims_text};
use crate::spec::ModelSpec;
use crate::spec::keys::limit;
use crate::types::TensorType;

impl ModelTensors<TensorInfo> {
    /// Finds all tensors of the model in the file and checks their shapes and types. The description of a part
    /// of a tensor is that of the part.
    ///
    /// # Errors
    /// A tensor is missing, or has the wrong shape or type; or the file has a tensor that the model does not
    /// use, because results without it would be wrong.
    pub fn from_gguf(file: &GgufFile, spec: &ModelSpec) -> Result<Self, LoadError> {
        ModelTensors::find(file, spec).map_err(|fault| file.with_path(fault))
    }

    fn find(file: &GgufFile, spec: &ModelSpec) -> Result<Self, LoadError> {
        let mut used = vec![false; file.tensors().len()];
        let found = ModelTensors::declare(spec).try_map(|expected| {
            let index = file.tensor_index(&expected.name).ok_or_else(|| LoadError::MissingTensor {
                shape: dims_text(&expected.dims_in_file()),
                name: expected.name.clone(),
            })?;
            let found = &file.tensors()[index];
            expected.check(file, found)?;
            used[index] = true;
            Ok(expected.place_in(found))
        })?;
        for (used, tensor) in used.iter_mut().zip(file.tensors()) {
            *used |= is_ignored(spec, &tensor.name);
        }
        if let (Some(width), Some(table)) = (spec.per_layer_width, &found.input.per_layer_embd) {
            let block = table.ty.block_elems();
            if !(width as u64).is_multiple_of(block) {
                return Err(LoadError::BadTensor {
                    name: table.name.clone(),
                    problem: format!(
                        "a layer has {width} elements of its rows, which are not whole blocks of {block}"
                    ),
                });
            }
        }
        match used.iter().position(|used| !used) {
            None => Ok(found),
            Some(unknown) => Err(LoadError::UnknownTensor {
                name: file.tensors()[unknown].name.clone(),
                arch: spec.arch.name(),
            }),
        }
    }
}

impl TensorSpec {
    /// Dimensions of the whole tensor in the file.
    pub(super) fn dims_in_file(&self) -> Vec<u64> {
        let mut dims = self.dims.clone();
        if let (Some(part), Some(last)) = (self.part, dims.last_mut()) {
            *last = part.of;
        }
        dims
    }

    /// The description of this tensor, given that of the whole one.
    fn place_in(&self, whole: &TensorInfo) -> TensorInfo {
        let Some(TensorPart { first, of }) = self.part else { return whole.clone() };
        let row = whole.bytes / of; // whole rows: checked with the shape
        let rows = self.dims.last().copied().unwrap_or(0);
        TensorInfo {
            dims: self.dims.clone(),
            offset: whole.offset + first * row,
            bytes: rows * row,
            ..whole.clone()
        }
    }

    fn check(&self, file: &GgufFile, found: &TensorInfo) -> Result<(), LoadError> {
        if !same_shape(&self.dims_in_file(), &found.dims) {
            return Err(LoadError::WrongShape {
                name: self.name.clone(),
                expected: dims_text(&self.dims_in_file()),
                found: dims_text(&found.dims),
            });
        }
        let expected = match self.kind {
            TensorKind::Matrix if found.ty.is_weight() => return Ok(()),
            TensorKind::Matrix => "a matrix is of a float or block type that can be multiplied with",
            TensorKind::Vector if found.ty == TensorType::F32 => return Ok(()),
            TensorKind::RopeFactors if found.ty == TensorType::F32 => return self.check_factors(file, found),
            TensorKind::Vector | TensorKind::RopeFactors => "norms, biases and RoPE factors are f32",
        };
        Err(LoadError::WrongTensorType { name: self.name.clone(), found: found.ty.name(), expected })
    }

    /// An error if a RoPE factor is negative, not finite or nearly zero: frequencies are divided by it. It may be as large
    /// as f32 allows, which stops the rotation (Gemma 4).
    fn check_factors(&self, file: &GgufFile, found: &TensorInfo) -> Result<(), LoadError> {
        let allowed = limit::FACTORS.0..=f32::MAX;
        let (factors, _) = file.data(found).as_chunks::<4>();
        match factors.iter().map(|&f| f32::from_le_bytes(f)).find(|f| !allowed.contains(f)) {
            None => Ok(()),
            Some(bad) => Err(LoadError::BadTensor {
                name: self.name.clone(),
                problem: format!(
                    "it contains {bad:?}, but factors of frequencies are at least {}",
                    allowed.start()
                ),
            }),
        }
    }
}

/// Whether a tensor may be in a file of a model that does not use it: those of layers that predict several tokens, and
/// the keys and values of layers that share those of others.
fn is_ignored(spec: &ModelSpec, name: &str) -> bool {
    let Some((number, part)) = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) else {
        return false;
    };
    let Ok(layer) = number.parse::<usize>() else { return false };
    let is_of_rows = matches!(part, "attn_k.weight" | "attn_v.weight" | "attn_k_norm.weight");
    (spec.n_layers..spec.n_layers + spec.ignored_layers).contains(&layer)
        || is_of_rows && layer < spec.n_layers && spec.shares_kv(layer)
}

/// Whether two shapes are equal except for trailing dimensions of 1, which some writers add.
fn same_shape(a: &[u64], b: &[u64]) -> bool {
    let at = |dims: &[u64], i: usize| dims.get(i).copied().unwrap_or(1);
    (0..a.len().max(b.len())).all(|i| at(a, i) == at(b, i))
}

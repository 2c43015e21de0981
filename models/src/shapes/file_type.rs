//! File types: the type of each tensor of a file, chosen as llama.cpp's quantization does without an
//! importance matrix.

use super::ModelShape;
use crate::gguf::in_short_rows;
use crate::types::TensorType;

/// The quantization of a whole file, named after its main tensor type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileType {
    /// All matrices f16.
    F16,
    /// All matrices q8_0.
    Q8_0,
    /// Matrices q4_0, output q6_K.
    Q4_0,
    /// Matrices q4_K; output, and attn_v and ffn_down of half the layers, q6_K.
    Q4KM,
    /// All matrices q6_K.
    Q6K,
    /// The matrices of experts mxfp4, all others q8_0.
    Mxfp4Moe,
}

/// How the name of an experts' router ends. It is f32 in all files.
pub(super) const ROUTER: &str = ".ffn_gate_inp.weight";

impl FileType {
    /// All file types, largest first.
    pub const ALL: &'static [FileType] =
        &[FileType::F16, FileType::Q8_0, FileType::Q6K, FileType::Q4KM, FileType::Q4_0, FileType::Mxfp4Moe];

    /// Name in lower case, as used in file names.
    pub fn name(self) -> &'static str {
        match self {
            FileType::F16 => "f16",
            FileType::Q8_0 => "q8_0",
            FileType::Q4_0 => "q4_0",
            FileType::Q4KM => "q4_k_m",
            FileType::Q6K => "q6_k",
            FileType::Mxfp4Moe => "mxfp4_moe",
        }
    }

    /// The file type of this name, in upper or lower case.
    pub fn from_name(name: &str) -> Option<FileType> {
        Self::ALL.iter().copied().find(|file_type| file_type.name().eq_ignore_ascii_case(name))
    }

    /// Value of the key `general.file_type`.
    pub fn id(self) -> u32 {
        match self {
            FileType::F16 => 1,
            FileType::Q4_0 => 2,
            FileType::Q8_0 => 7,
            FileType::Q4KM => 15,
            FileType::Q6K => 18,
            FileType::Mxfp4Moe => 38,
        }
    }

    /// Type of the matrix `name`, whose rows have `n_in` elements.
    pub(super) fn tensor_type(self, shape: &ModelShape, name: &str, n_in: u64) -> TensorType {
        let main = match self {
            _ if name.ends_with(ROUTER) => return TensorType::F32,
            FileType::Mxfp4Moe if name.ends_with("_exps.weight") => TensorType::MXFP4,
            FileType::Mxfp4Moe => TensorType::Q8_0,
            FileType::F16 => return TensorType::F16,
            FileType::Q8_0 => return with_whole_blocks(TensorType::Q8_0, n_in),
            FileType::Q4_0 => TensorType::Q4_0,
            FileType::Q4KM => TensorType::Q4_K,
            FileType::Q6K => TensorType::Q6_K,
        };
        // If the shape is tied, the embedding is also the output matrix.
        let output = if shape.tied { "token_embd.weight" } else { "output.weight" };
        let wanted = if name == output && self != FileType::Mxfp4Moe {
            match n_in.is_multiple_of(main.block_elems()) {
                true => TensorType::Q6_K,
                false => TensorType::Q8_0,
            }
        } else if self == FileType::Q4KM {
            q4_k_m(shape, name)
        } else {
            main
        };
        with_whole_blocks(wanted, n_in)
    }
}

/// Types of matrices in q4_k_m files, except for the output matrix.
fn q4_k_m(shape: &ModelShape, name: &str) -> TensorType {
    let values = name.ends_with(".attn_v.weight");
    if !values && !name.contains(".ffn_down") {
        return TensorType::Q4_K;
    }
    let layer = name.split('.').nth(1).and_then(|layer| layer.parse().ok()).unwrap_or(0);
    if has_more_bits(layer, shape.n_layers) {
        TensorType::Q6_K
    } else if values && shape.n_layers == 80 && shape.n_heads != shape.n_kv_heads {
        // 70B models: 8 query heads share the values, so more bits for them cost little.
        TensorType::Q5_K
    } else {
        TensorType::Q4_K
    }
}

/// Whether a layer gets more bits: the first and the last eighth of the layers do, and every third between.
fn has_more_bits(layer: usize, n_layers: usize) -> bool {
    let eighth = n_layers / 8;
    layer < eighth || layer >= 7 * n_layers / 8 || (layer - eighth) % 3 == 2
}

/// `ty` if a row of `n_in` elements is a whole number of its blocks, else what llama.cpp uses in its place, else f16.
fn with_whole_blocks(ty: TensorType, n_in: u64) -> TensorType {
    let mut types = [Some(ty), in_short_rows(ty)].into_iter().flatten();
    types.find(|ty| n_in.is_multiple_of(ty.block_elems())).unwrap_or(TensorType::F16)
}

#[cfg(test)]
mod tests {
    use TensorType::{Q4_0, Q4_K, Q5_0, Q5_K, Q6_K, Q8_0};

    use super::*;

    fn types(shape: &str, part: &str) -> Vec<TensorType> {
        let (shape, file_type) = ModelShape::parse(shape).unwrap();
        shape
            .tensors(file_type)
            .into_iter()
            .filter(|tensor| tensor.name.ends_with(part))
            .map(|tensor| tensor.ty)
            .collect()
    }

    #[test]
    fn q4_k_m_types_on_16_layers() {
        // An eighth is 2: layers 0, 1; then 4, 7, 10, 13 (every third after the second); then 14, 15.
        let layers_with_more_bits = [0, 1, 4, 7, 10, 13, 14, 15];
        let expected: Vec<_> =
            (0..16).map(|layer| if layers_with_more_bits.contains(&layer) { Q6_K } else { Q4_K }).collect();
        assert_eq!(types("llama-3.2-1b", ".attn_v.weight"), expected);
        assert_eq!(types("llama-3.2-1b", ".ffn_down.weight"), expected);
        assert_eq!(types("llama-3.2-1b", ".attn_q.weight"), [Q4_K; 16]);
        assert_eq!(types("llama-3.2-1b", "token_embd.weight"), [Q6_K]);
        assert_eq!(types("llama-3.1-8b", "token_embd.weight"), [Q4_K]);
        assert_eq!(types("llama-3.1-8b", "output.weight")[32..], [Q6_K]);
    }

    #[test]
    fn types_that_depend_on_model_or_row_size() {
        let values = types("llama-3.1-70b", ".attn_v.weight");
        assert!(values.contains(&Q5_K) && values.contains(&Q6_K) && !values.contains(&Q4_K));
        assert!(!types("llama-3.1-70b", ".ffn_down.weight").contains(&Q5_K));
        // 896 is not a multiple of 256; 4864 is.
        assert_eq!(types("qwen2.5-0.5b", ".attn_q.weight"), [Q5_0; 24]);
        assert_eq!(types("qwen2.5-0.5b", ".attn_v.weight")[0], Q8_0);
        assert_eq!(types("qwen2.5-0.5b", ".ffn_down.weight")[23], Q6_K);
        assert_eq!(types("qwen2.5-0.5b", "token_embd.weight"), [Q8_0]);
        assert_eq!(types("qwen2.5-0.5b:q4_0", "token_embd.weight"), [Q8_0]);
        assert_eq!(types("llama-3.1-8b:q4_0", ".attn_q.weight"), [Q4_0; 32]);
        assert_eq!(types("llama-3.1-8b:q4_0", "output.weight")[32..], [Q6_K]);
    }
}

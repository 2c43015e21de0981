//! What the quantization of a whole file is called. Most files have tensors of several types: a file of Q4_K_M may have
//! more matrices in q5_0 than in q4_K, because q4_K needs rows of 256 elements.

use std::collections::BTreeMap;

use super::GgufFile;
use crate::types::TensorType::{self, *};

/// llama.cpp's names, by the values of `general.file_type`, each with the type that gives the name.
const FILE_TYPES: &[(u64, &str, TensorType)] = &[
    (0, "F32", F32),
    (1, "F16", F16),
    (2, "Q4_0", Q4_0),
    (3, "Q4_1", Q4_1),
    (7, "Q8_0", Q8_0),
    (8, "Q5_0", Q5_0),
    (9, "Q5_1", Q5_1),
    (10, "Q2_K", Q2_K),
    (11, "Q3_K_S", Q3_K),
    (12, "Q3_K_M", Q3_K),
    (13, "Q3_K_L", Q3_K),
    (14, "Q4_K_S", Q4_K),
    (15, "Q4_K_M", Q4_K),
    (16, "Q5_K_S", Q5_K),
    (17, "Q5_K_M", Q5_K),
    (18, "Q6_K", Q6_K),
    (19, "IQ2_XXS", IQ2_XXS),
    (20, "IQ2_XS", IQ2_XS),
    (21, "Q2_K_S", Q2_K),
    (22, "IQ3_XS", IQ3_XXS),
    (23, "IQ3_XXS", IQ3_XXS),
    (24, "IQ1_S", IQ1_S),
    (25, "IQ4_NL", IQ4_NL),
    (26, "IQ3_S", IQ3_S),
    (27, "IQ3_M", IQ3_S),
    (28, "IQ2_S", IQ2_XS),
    (29, "IQ2_M", IQ2_S),
    (30, "IQ4_XS", IQ4_XS),
    (31, "IQ1_M", IQ1_M),
    (32, "BF16", BF16),
    (36, "TQ1_0", TQ1_0),
    (37, "TQ2_0", TQ2_0),
    (38, "MXFP4_MOE", MXFP4),
];

/// The name of `general.file_type`, where tensors of the file have its type or what takes the place of that in rows
/// that are too short. Otherwise the type of most bytes. Empty for a file without tensors.
pub(super) fn file_type(file: &GgufFile) -> String {
    let stated = file.u64("general.file_type").ok().flatten();
    if let Some((_, name, ty)) = FILE_TYPES.iter().find(|(id, ..)| Some(*id) == stated)
        && file.tensors.iter().any(|tensor| {
            let is_short = !tensor.dims[0].is_multiple_of(ty.block_elems());
            tensor.ty == *ty || is_short && in_short_rows(*ty) == Some(tensor.ty)
        })
    {
        return (*name).to_owned();
    }
    let mut bytes_of: BTreeMap<String, u64> = BTreeMap::new();
    for tensor in &file.tensors {
        *bytes_of.entry(tensor.ty.to_string()).or_default() += tensor.bytes;
    }
    bytes_of.into_iter().max_by_key(|(_, bytes)| *bytes).map_or(String::new(), |(name, _)| name)
}

/// What llama.cpp uses in place of a type with blocks of 256 elements, where rows are no multiple of them.
pub(crate) fn in_short_rows(ty: TensorType) -> Option<TensorType> {
    match ty {
        Q4_K => Some(Q5_0),
        Q5_K => Some(Q5_1),
        Q6_K => Some(Q8_0),
        _ if ty.block_elems() == 256 => Some(IQ4_NL),
        _ => None,
    }
}

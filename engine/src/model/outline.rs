//! The tensors of a model as far as memory is concerned. They need not be in a file: a plan can also be made
//! for a known shape.

use models::gguf::GgufFile;
use models::types::TensorType;

/// Name, extents and element type of a tensor.
#[derive(Clone, Debug)]
pub struct TensorOutline {
    /// Name in the file.
    pub name: String,
    /// Extents in ggml's order.
    pub dims: Vec<u64>,
    /// Element type.
    pub ty: TensorType,
}

/// The tensors of a file.
pub fn tensor_outlines(file: &GgufFile) -> Vec<TensorOutline> {
    let tensors = file.tensors().iter();
    tensors.map(|t| TensorOutline { name: t.name.clone(), dims: t.dims.clone(), ty: t.ty }).collect()
}

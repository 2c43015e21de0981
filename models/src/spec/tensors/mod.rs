//! The tensors of a model. [`ModelTensors`] is generic over what it holds for each tensor. That is its
//! expected name and shape (from a specification: `declare`), its place in a file (`in_file`), or the engine's tensor.
//!
//! Shapes are in ggml order, row length first: a matrix `[a, b]` maps a vector of `a` elements to one of `b`
//! elements. They stand at the fields of the `structures`.
//!
//! Some files hold several matrices in one tensor, one after the other. Their rows are apart, so each is a
//! tensor of its own here, and computation knows nothing of it.

mod declare;
mod in_file;
mod structures;

pub use structures::{
    AttentionTensors, DenseTensors, ExpertTensors, InputTensors, LatentTensors, LayerTensors, MixerTensors,
    ModelTensors, NetworkTensors, OutputTensors, PerLayerTensors, RecurrentTensors, SeparateNorms,
};

/// A tensor that a model has, as its specification requires it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Name in files.
    pub name: String,
    /// Dimensions in ggml order.
    pub dims: Vec<u64>,
    /// Decides which types are allowed.
    pub kind: TensorKind,
    /// Where it is in the tensor of this name, if that holds others too.
    pub part: Option<TensorPart>,
}

/// A part of a tensor: rows of a matrix, or elements of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorPart {
    /// The first row.
    pub first: u64,
    /// Rows of the whole tensor.
    pub of: u64,
}

/// The use of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorKind {
    /// Used in matrix products or row lookup; any float or block type.
    Matrix,
    /// Weights of a norm, or a bias; f32.
    Vector,
    /// Fixed factors of RoPE, not counted as parameters; f32.
    RopeFactors,
}

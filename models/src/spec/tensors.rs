//! The tensors of a model. [`ModelTensors`] is generic over what it holds for each tensor. That is its
//! expected name and shape (from a specification), its index in a file, or the engine's tensor.
//!
//! Shapes are in ggml order, row length first: a matrix `[a, b]` maps a vector of `a` elements to one of `b`
//! elements.

use super::ModelSpec;
use crate::error::LoadError;
use crate::gguf::{GgufFile, TensorInfo, dims_text};
use crate::types::TensorType;

/// All tensors of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelTensors<T> {
    /// `[n_embd, n_vocab]`: row i is token i.
    pub token_embd: T,
    /// `[n_embd]`: weights of the RMS norm before the output matrix.
    pub output_norm: T,
    /// `[n_embd, n_vocab]`; `None` if the token embedding is used instead.
    pub output: Option<T>,
    /// `[rope.n_dims / 2]`: divide RoPE's frequencies.
    pub rope_freqs: Option<T>,
    /// The layers from first to last.
    pub layers: Vec<LayerTensors<T>>,
}

/// The tensors of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerTensors<T> {
    /// `[n_embd]`: weights of the RMS norm before attention.
    pub attn_norm: T,
    /// `[n_embd, n_heads * head_dim]`.
    pub wq: T,
    /// `[n_embd, n_kv_heads * head_dim]`.
    pub wk: T,
    /// `[n_embd, n_kv_heads * head_dim]`.
    pub wv: T,
    /// `[n_heads * head_dim]`.
    pub bq: Option<T>,
    /// `[n_kv_heads * head_dim]`.
    pub bk: Option<T>,
    /// `[n_kv_heads * head_dim]`.
    pub bv: Option<T>,
    /// `[head_dim]`: weights of the RMS norm over each head of Q.
    pub q_norm: Option<T>,
    /// `[head_dim]`: weights of the RMS norm over each head of K.
    pub k_norm: Option<T>,
    /// `[n_heads * head_dim, n_embd]`.
    pub wo: T,
    /// `[n_embd]`.
    pub bo: Option<T>,
    /// `[n_embd]`: weights of the RMS norm before the feed-forward network.
    pub ffn_norm: T,
    /// `[n_embd, n_ff]`: the SiLU of its product multiplies that of `ffn_up`.
    pub ffn_gate: T,
    /// `[n_embd, n_ff]`.
    pub ffn_up: T,
    /// `[n_ff, n_embd]`.
    pub ffn_down: T,
}

/// A tensor that a model has, as its specification requires it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Name in files.
    pub name: String,
    /// Dimensions in ggml order.
    pub dims: Vec<u64>,
    /// Decides which types are allowed.
    pub kind: TensorKind,
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

impl ModelTensors<TensorSpec> {
    /// The tensors that a model of this specification has.
    pub fn declare(spec: &ModelSpec) -> Self {
        let tensor = |name: String, dims: &[usize], kind| TensorSpec {
            name,
            dims: dims.iter().map(|&d| d as u64).collect(),
            kind,
        };
        let matrix = |name: &str, a, b| tensor(name.to_owned(), &[a, b], TensorKind::Matrix);
        ModelTensors {
            token_embd: matrix("token_embd.weight", spec.n_embd, spec.n_vocab),
            output_norm: tensor("output_norm.weight".into(), &[spec.n_embd], TensorKind::Vector),
            output: (!spec.tied_output).then(|| matrix("output.weight", spec.n_embd, spec.n_vocab)),
            rope_freqs: spec
                .position_encoding
                .rope()
                .filter(|_| spec.rope_freqs)
                .map(|rope| tensor("rope_freqs.weight".into(), &[rope.n_dims / 2], TensorKind::RopeFactors)),
            layers: (0..spec.n_layers).map(|i| LayerTensors::declare(spec, i)).collect(),
        }
    }
}

impl LayerTensors<TensorSpec> {
    fn declare(spec: &ModelSpec, layer: usize) -> Self {
        let n_q = spec.n_heads * spec.head_dim;
        let n_kv = spec.n_kv_heads * spec.head_dim;
        let tensor = |part: &str, dims: &[usize], kind| TensorSpec {
            name: format!("blk.{layer}.{part}"),
            dims: dims.iter().map(|&d| d as u64).collect(),
            kind,
        };
        let matrix = |part: &str, a, b| tensor(part, &[a, b], TensorKind::Matrix);
        let vector = |part: &str, a| tensor(part, &[a], TensorKind::Vector);
        let vector_if = |present: bool, part: &str, a| present.then(|| vector(part, a));
        LayerTensors {
            attn_norm: vector("attn_norm.weight", spec.n_embd),
            wq: matrix("attn_q.weight", spec.n_embd, n_q),
            wk: matrix("attn_k.weight", spec.n_embd, n_kv),
            wv: matrix("attn_v.weight", spec.n_embd, n_kv),
            bq: vector_if(spec.qkv_bias, "attn_q.bias", n_q),
            bk: vector_if(spec.qkv_bias, "attn_k.bias", n_kv),
            bv: vector_if(spec.qkv_bias, "attn_v.bias", n_kv),
            q_norm: vector_if(spec.qk_norm, "attn_q_norm.weight", spec.head_dim),
            k_norm: vector_if(spec.qk_norm, "attn_k_norm.weight", spec.head_dim),
            wo: matrix("attn_output.weight", n_q, spec.n_embd),
            bo: vector_if(spec.attn_output_bias, "attn_output.bias", spec.n_embd),
            ffn_norm: vector("ffn_norm.weight", spec.n_embd),
            ffn_gate: matrix("ffn_gate.weight", spec.n_embd, spec.n_ff),
            ffn_up: matrix("ffn_up.weight", spec.n_embd, spec.n_ff),
            ffn_down: matrix("ffn_down.weight", spec.n_ff, spec.n_embd),
        }
    }
}

impl ModelTensors<usize> {
    /// Finds all tensors of the model in the file and checks their shapes and types. Holds indices into
    /// [`GgufFile::tensors`].
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
                shape: dims_text(&expected.dims),
                name: expected.name.clone(),
            })?;
            expected.check(file, &file.tensors()[index])?;
            used[index] = true;
            Ok(index)
        })?;
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
    fn check(&self, file: &GgufFile, found: &TensorInfo) -> Result<(), LoadError> {
        if !same_shape(&self.dims, &found.dims) {
            return Err(LoadError::WrongShape {
                name: self.name.clone(),
                expected: dims_text(&self.dims),
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

    /// An error if a RoPE factor is zero, negative or not finite: frequencies are divided by it.
    fn check_factors(&self, file: &GgufFile, found: &TensorInfo) -> Result<(), LoadError> {
        let (factors, _) = file.data(found).as_chunks::<4>();
        match factors.iter().map(|&f| f32::from_le_bytes(f)).find(|f| !(f.is_finite() && *f > 0.0)) {
            None => Ok(()),
            Some(bad) => Err(LoadError::BadTensor {
                name: self.name.clone(),
                problem: format!("it contains {bad}, but factors of frequencies are positive numbers"),
            }),
        }
    }
}

/// Whether two shapes are equal except for trailing dimensions of 1, which some writers add.
fn same_shape(a: &[u64], b: &[u64]) -> bool {
    let at = |dims: &[u64], i: usize| dims.get(i).copied().unwrap_or(1);
    (0..a.len().max(b.len())).all(|i| at(a, i) == at(b, i))
}

impl<T> ModelTensors<T> {
    /// Applies `f` to every tensor, in the order of computation. Returns the first error.
    pub fn try_map<U, E>(self, mut f: impl FnMut(T) -> Result<U, E>) -> Result<ModelTensors<U>, E> {
        Ok(ModelTensors {
            token_embd: f(self.token_embd)?,
            rope_freqs: self.rope_freqs.map(&mut f).transpose()?,
            layers: self.layers.into_iter().map(|l| l.try_map(&mut f)).collect::<Result<_, _>>()?,
            output_norm: f(self.output_norm)?,
            output: self.output.map(&mut f).transpose()?,
        })
    }

    /// Applies `f` to every tensor, in the order of computation.
    pub fn map<U>(self, mut f: impl FnMut(T) -> U) -> ModelTensors<U> {
        let mapped = self.try_map(|t| Ok::<U, std::convert::Infallible>(f(t)));
        match mapped {
            Ok(tensors) => tensors,
        }
    }

    /// Calls `f` with a reference to every tensor, in the order of computation.
    pub fn for_each(&self, f: impl FnMut(&T)) {
        self.as_ref().map(f);
    }

    /// The same structure with references.
    pub fn as_ref(&self) -> ModelTensors<&T> {
        ModelTensors {
            token_embd: &self.token_embd,
            output_norm: &self.output_norm,
            output: self.output.as_ref(),
            rope_freqs: self.rope_freqs.as_ref(),
            layers: self.layers.iter().map(LayerTensors::as_ref).collect(),
        }
    }
}

impl<T> LayerTensors<T> {
    /// Like [`ModelTensors::try_map`], for one layer.
    pub fn try_map<U, E>(self, f: &mut impl FnMut(T) -> Result<U, E>) -> Result<LayerTensors<U>, E> {
        Ok(LayerTensors {
            attn_norm: f(self.attn_norm)?,
            wq: f(self.wq)?,
            wk: f(self.wk)?,
            wv: f(self.wv)?,
            bq: self.bq.map(&mut *f).transpose()?,
            bk: self.bk.map(&mut *f).transpose()?,
            bv: self.bv.map(&mut *f).transpose()?,
            q_norm: self.q_norm.map(&mut *f).transpose()?,
            k_norm: self.k_norm.map(&mut *f).transpose()?,
            wo: f(self.wo)?,
            bo: self.bo.map(&mut *f).transpose()?,
            ffn_norm: f(self.ffn_norm)?,
            ffn_gate: f(self.ffn_gate)?,
            ffn_up: f(self.ffn_up)?,
            ffn_down: f(self.ffn_down)?,
        })
    }

    /// The matrices, in the order of computation.
    pub fn matrices(&self) -> [&T; 7] {
        [&self.wq, &self.wk, &self.wv, &self.wo, &self.ffn_gate, &self.ffn_up, &self.ffn_down]
    }

    /// The same structure with references.
    pub fn as_ref(&self) -> LayerTensors<&T> {
        LayerTensors {
            attn_norm: &self.attn_norm,
            wq: &self.wq,
            wk: &self.wk,
            wv: &self.wv,
            bq: self.bq.as_ref(),
            bk: self.bk.as_ref(),
            bv: self.bv.as_ref(),
            q_norm: self.q_norm.as_ref(),
            k_norm: self.k_norm.as_ref(),
            wo: &self.wo,
            bo: self.bo.as_ref(),
            ffn_norm: &self.ffn_norm,
            ffn_gate: &self.ffn_gate,
            ffn_up: &self.ffn_up,
            ffn_down: &self.ffn_down,
        }
    }
}

//! The tensors of a model, each with its shape. The declaration is generic over what stands in each place: names and shapes when
//! it is made from a specification, indices into a file once found there, the engine's own tensors after that.
//!
//! Shapes are in ggml order, row length first: a matrix `[a, b]` turns a vector of `a` elements into one of `b`.

use super::ModelSpec;
use crate::error::LoadError;
use crate::gguf::{GgufFile, TensorInfo, shape};
use crate::types::TensorType;

/// All tensors of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelTensors<T> {
    /// `[n_embd, n_vocab]`: row i is token i.
    pub token_embd: T,
    /// `[n_embd]`: weights of the RMS norm before the output matrix.
    pub output_norm: T,
    /// `[n_embd, n_vocab]`; `None` where the token embedding takes its place.
    pub output: Option<T>,
    /// `[rope.n_dims / 2]`: what RoPE's frequencies are divided by.
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
    /// `[n_embd, n_ff]`: its SiLU multiplies `ffn_up`.
    pub ffn_gate: T,
    /// `[n_embd, n_ff]`.
    pub ffn_up: T,
    /// `[n_ff, n_embd]`.
    pub ffn_down: T,
}

/// A tensor that a model needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Its name in files.
    pub name: String,
    /// Its dimensions in ggml order.
    pub dims: Vec<u64>,
    /// What it is, which decides about the types it may have.
    pub kind: TensorKind,
}

/// What a tensor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorKind {
    /// Multiplied with, or looked up in: any float or block type.
    Matrix,
    /// Weights of a norm, or a bias: f32.
    Vector,
    /// Fixed factors of RoPE, not counted as parameters: f32.
    RopeFactors,
}

impl ModelTensors<TensorSpec> {
    /// The tensors that a model of this specification has.
    pub fn declare(spec: &ModelSpec) -> Self {
        let need = |name: String, dims: &[usize], kind| TensorSpec {
            name,
            dims: dims.iter().map(|&d| d as u64).collect(),
            kind,
        };
        let matrix = |name: &str, a, b| need(name.to_owned(), &[a, b], TensorKind::Matrix);
        ModelTensors {
            token_embd: matrix("token_embd.weight", spec.n_embd, spec.n_vocab),
            output_norm: need("output_norm.weight".into(), &[spec.n_embd], TensorKind::Vector),
            output: (!spec.tied_output).then(|| matrix("output.weight", spec.n_embd, spec.n_vocab)),
            rope_freqs: spec
                .position_encoding
                .rope()
                .filter(|_| spec.rope_freqs)
                .map(|rope| need("rope_freqs.weight".into(), &[rope.n_dims / 2], TensorKind::RopeFactors)),
            layers: (0..spec.n_layers).map(|i| LayerTensors::declare(spec, i)).collect(),
        }
    }
}

impl LayerTensors<TensorSpec> {
    fn declare(spec: &ModelSpec, layer: usize) -> Self {
        let n_q = spec.n_heads * spec.head_dim;
        let n_kv = spec.n_kv_heads * spec.head_dim;
        let need = |part: &str, dims: &[usize], kind| TensorSpec {
            name: format!("blk.{layer}.{part}"),
            dims: dims.iter().map(|&d| d as u64).collect(),
            kind,
        };
        let matrix = |part: &str, a, b| need(part, &[a, b], TensorKind::Matrix);
        let vector = |part: &str, a| need(part, &[a], TensorKind::Vector);
        let vector_if = |is: bool, part: &str, a| is.then(|| vector(part, a));
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
    /// Finds every tensor of the model in the file, as an index into [`GgufFile::tensors`], and compares shape and type with what
    /// the specification asks for. A tensor of the file that the model does not know is an error too: without it the model would
    /// compute something else than its author meant.
    pub fn from_gguf(file: &GgufFile, spec: &ModelSpec) -> Result<Self, LoadError> {
        ModelTensors::find(file, spec).map_err(|fault| file.fault(fault))
    }

    fn find(file: &GgufFile, spec: &ModelSpec) -> Result<Self, LoadError> {
        let mut used = vec![false; file.tensors().len()];
        let found = ModelTensors::declare(spec).try_map(|need| {
            let index = file.tensor_index(&need.name).ok_or_else(|| LoadError::MissingTensor {
                shape: shape(&need.dims),
                name: need.name.clone(),
            })?;
            need.check(file, &file.tensors()[index])?;
            used[index] = true;
            Ok(index)
        })?;
        match used.iter().position(|used| !used) {
            None => Ok(found),
            Some(stranger) => Err(LoadError::UnknownTensor {
                name: file.tensors()[stranger].name.clone(),
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
                expected: shape(&self.dims),
                found: shape(&found.dims),
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

    /// RoPE divides by these few numbers, so one that is zero or no number would spoil every position.
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

/// Equal up to trailing dimensions of 1, which some writers add.
fn same_shape(a: &[u64], b: &[u64]) -> bool {
    let at = |dims: &[u64], i: usize| dims.get(i).copied().unwrap_or(1);
    (0..a.len().max(b.len())).all(|i| at(a, i) == at(b, i))
}

impl<T> ModelTensors<T> {
    /// Replaces every tensor by what `f` makes of it, in the order of computation; stops at the first error.
    pub fn try_map<U, E>(self, mut f: impl FnMut(T) -> Result<U, E>) -> Result<ModelTensors<U>, E> {
        Ok(ModelTensors {
            token_embd: f(self.token_embd)?,
            rope_freqs: self.rope_freqs.map(&mut f).transpose()?,
            layers: self.layers.into_iter().map(|l| l.try_map(&mut f)).collect::<Result<_, _>>()?,
            output_norm: f(self.output_norm)?,
            output: self.output.map(&mut f).transpose()?,
        })
    }

    /// Replaces every tensor by what `f` makes of it.
    pub fn map<U>(self, mut f: impl FnMut(T) -> U) -> ModelTensors<U> {
        let mapped = self.try_map(|t| Ok::<U, std::convert::Infallible>(f(t)));
        match mapped {
            Ok(tensors) => tensors,
        }
    }

    /// Shows every tensor to `f`, in the order of computation.
    pub fn for_each(&self, f: impl FnMut(&T)) {
        self.as_ref().map(f);
    }

    /// The same places, by reference.
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
    /// As [`ModelTensors::try_map`], for one layer.
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

    /// The same places, by reference.
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

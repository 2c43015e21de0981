//! The tensors of a model. [`ModelTensors`] is generic over what it holds for each tensor. That is its
//! expected name and shape (from a specification), its place in a file, or the engine's tensor.
//!
//! Shapes are in ggml order, row length first: a matrix `[a, b]` maps a vector of `a` elements to one of `b`
//! elements.
//!
//! Some files hold several matrices in one tensor, one after the other. Their rows are apart, so each is a
//! tensor of its own here, and computation knows nothing of it.

use super::{ModelSpec, PositionEncoding};
use crate::arch::QkNorm;
use crate::error::LoadError;
use crate::gguf::{GgufFile, TensorInfo, dims_text};
use crate::types::TensorType;

/// Gives a structure its maps over all tensors, in the order of computation. A field is always there (`one`) or
/// an `Option` (`maybe`).
macro_rules! maps {
    ($name:ident { $($field:ident: $kind:ident,)* }) => {
        impl<T> $name<T> {
            /// Applies `f` to every tensor, in the order of computation. Returns the first error.
            pub fn try_map<U, E>(self, f: &mut impl FnMut(T) -> Result<U, E>) -> Result<$name<U>, E> {
                Ok($name { $($field: maps!(@map $kind, self.$field, f),)* })
            }

            /// The same structure with references.
            pub fn as_ref(&self) -> $name<&T> {
                $name { $($field: maps!(@ref $kind, self.$field),)* }
            }
        }
    };
    (@map one, $field:expr, $f:ident) => { $f($field)? };
    (@map maybe, $field:expr, $f:ident) => { $field.map(&mut *$f).transpose()? };
    (@ref one, $field:expr) => { &$field };
    (@ref maybe, $field:expr) => { $field.as_ref() };
}

/// All tensors of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelTensors<T> {
    /// Those before the layers.
    pub input: InputTensors<T>,
    /// The layers from first to last.
    pub layers: Vec<LayerTensors<T>>,
    /// Those after the layers.
    pub output: OutputTensors<T>,
}

/// The tensors before the layers.
#[derive(Clone, Debug, PartialEq)]
pub struct InputTensors<T> {
    /// `[n_embd, n_vocab]`: row i is token i.
    pub token_embd: T,
    /// `[n_embd, n_ctx_train]`: row i is added to the embedding of the token at position i.
    pub position_embd: Option<T>,
    /// `[n_embd]`: weights of the norm of the embeddings.
    pub norm: Option<T>,
    /// `[n_embd]`: its bias.
    pub norm_bias: Option<T>,
    /// `[rope.n_dims / 2]`: divide RoPE's frequencies.
    pub rope_freqs: Option<T>,
    /// `[rope.n_dims / 2]`: the same, where the context is at most that of the original training.
    pub rope_short: Option<T>,
    /// `[rope.n_dims / 2]`: the same, for longer contexts.
    pub rope_long: Option<T>,
}

maps! {
    InputTensors {
        token_embd: one,
        position_embd: maybe,
        norm: maybe,
        norm_bias: maybe,
        rope_freqs: maybe,
        rope_short: maybe,
        rope_long: maybe,
    }
}

/// The tensors after the layers.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputTensors<T> {
    /// `[n_embd]`: weights of the norm before the output matrix.
    pub norm: T,
    /// `[n_embd]`: its bias.
    pub norm_bias: Option<T>,
    /// `[n_embd, n_vocab]`; `None` if the token embedding is used instead.
    pub matrix: Option<T>,
}

maps! {
    OutputTensors {
        norm: one,
        norm_bias: maybe,
        matrix: maybe,
    }
}

/// The tensors of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerTensors<T> {
    /// `[n_embd]`: weights of the norm before attention.
    pub attn_norm: Option<T>,
    /// `[n_embd]`: its bias.
    pub attn_norm_bias: Option<T>,
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
    /// `[head_dim]`, `[head_dim, n_heads]` or `[n_heads * head_dim]`: weights of the norm of Q.
    pub q_norm: Option<T>,
    /// `[head_dim]`, `[head_dim, n_kv_heads]` or `[n_kv_heads * head_dim]`: weights of the norm of K.
    pub k_norm: Option<T>,
    /// `[n_heads * head_dim, n_embd]`.
    pub wo: T,
    /// `[n_embd]`.
    pub bo: Option<T>,
    /// `[n_embd]`: weights of the norm after attention.
    pub attn_post_norm: Option<T>,
    /// `[n_embd]`: weights of the norm before the feed-forward network.
    pub ffn_norm: Option<T>,
    /// `[n_embd]`: its bias.
    pub ffn_norm_bias: Option<T>,
    /// `[n_embd, n_ff]`: its product, after the activation function, multiplies that of `ffn_up`.
    pub ffn_gate: Option<T>,
    /// `[n_ff]`.
    pub ffn_gate_bias: Option<T>,
    /// `[n_embd, n_ff]`.
    pub ffn_up: T,
    /// `[n_ff]`.
    pub ffn_up_bias: Option<T>,
    /// `[n_ff, n_embd]`.
    pub ffn_down: T,
    /// `[n_embd]`.
    pub ffn_down_bias: Option<T>,
    /// `[n_embd]`: weights of the norm after the feed-forward network.
    pub ffn_post_norm: Option<T>,
}

maps! {
    LayerTensors {
        attn_norm: maybe,
        attn_norm_bias: maybe,
        wq: one,
        wk: one,
        wv: one,
        bq: maybe,
        bk: maybe,
        bv: maybe,
        q_norm: maybe,
        k_norm: maybe,
        wo: one,
        bo: maybe,
        attn_post_norm: maybe,
        ffn_norm: maybe,
        ffn_norm_bias: maybe,
        ffn_gate: maybe,
        ffn_gate_bias: maybe,
        ffn_up: one,
        ffn_up_bias: maybe,
        ffn_down: one,
        ffn_down_bias: maybe,
        ffn_post_norm: maybe,
    }
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
    /// Where it is in the tensor of this name, if that holds others too.
    pub part: Option<Part>,
}

/// A part of a tensor: rows of a matrix, or elements of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
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

/// Makes the declarations of tensors whose names begin with `prefix`.
struct Declare {
    prefix: String,
}

impl Declare {
    fn tensor(&self, name: &str, dims: &[usize], kind: TensorKind) -> TensorSpec {
        TensorSpec {
            name: format!("{}{name}", self.prefix),
            dims: dims.iter().map(|&d| d as u64).collect(),
            kind,
            part: None,
        }
    }

    fn matrix(&self, name: &str, n_in: usize, n_out: usize) -> TensorSpec {
        self.tensor(&format!("{name}.weight"), &[n_in, n_out], TensorKind::Matrix)
    }

    fn bias(&self, name: &str, len: usize) -> TensorSpec {
        self.tensor(&format!("{name}.bias"), &[len], TensorKind::Vector)
    }

    fn norm(&self, name: &str, len: usize) -> TensorSpec {
        self.tensor(&format!("{name}.weight"), &[len], TensorKind::Vector)
    }

    fn rope_factors(&self, name: &str, len: usize) -> TensorSpec {
        self.tensor(&format!("{name}.weight"), &[len], TensorKind::RopeFactors)
    }
}

/// `whole`, whose last extent is the sum of `parts`, as that many tensors.
fn split<const N: usize>(whole: TensorSpec, parts: [usize; N]) -> [TensorSpec; N] {
    let of = parts.iter().sum::<usize>() as u64;
    let mut first = 0;
    parts.map(|rows| {
        let mut part = whole.clone();
        let last = part.dims.len() - 1;
        part.dims[last] = rows as u64;
        part.part = Some(Part { first, of });
        first += rows as u64;
        part
    })
}

impl ModelTensors<TensorSpec> {
    /// The tensors that a model of this specification has.
    pub fn declare(spec: &ModelSpec) -> Self {
        let declare = Declare { prefix: String::new() };
        let norm_bias =
            |present: bool, name| (present && spec.norm_bias).then(|| declare.bias(name, spec.n_embd));
        let rope = spec.position_encoding.rope();
        let factors = |present: bool, name| {
            rope.filter(|_| present).map(|rope| declare.rope_factors(name, rope.n_dims / 2))
        };
        let is_long = rope.is_some_and(|rope| rope.scaling.is_long_rope());
        ModelTensors {
            input: InputTensors {
                token_embd: declare.matrix("token_embd", spec.n_embd, spec.n_vocab),
                position_embd: (spec.position_encoding == PositionEncoding::Learned)
                    .then(|| declare.matrix("position_embd", spec.n_embd, spec.n_ctx_train)),
                norm: spec.embedding_norm.then(|| declare.norm("token_embd_norm", spec.n_embd)),
                norm_bias: norm_bias(spec.embedding_norm, "token_embd_norm"),
                rope_freqs: factors(spec.rope_freqs, "rope_freqs"),
                rope_short: factors(is_long, "rope_factors_short"),
                rope_long: factors(is_long, "rope_factors_long"),
            },
            layers: (0..spec.n_layers).map(|i| LayerTensors::declare(spec, i)).collect(),
            output: OutputTensors {
                norm: declare.norm("output_norm", spec.n_embd),
                norm_bias: norm_bias(true, "output_norm"),
                matrix: (!spec.tied_output).then(|| declare.matrix("output", spec.n_embd, spec.n_vocab)),
            },
        }
    }

    /// The tensors of a file of this specification. Each is whole, and there once.
    pub fn in_file(spec: &ModelSpec) -> Vec<TensorSpec> {
        let mut tensors = Vec::new();
        ModelTensors::declare(spec).for_each(|tensor| match tensor.part {
            Some(Part { first: 1.., .. }) => {}
            _ => tensors.push(TensorSpec { dims: tensor.dims_in_file(), part: None, ..tensor.clone() }),
        });
        tensors
    }
}

impl LayerTensors<TensorSpec> {
    fn declare(spec: &ModelSpec, layer: usize) -> Self {
        let declare = Declare { prefix: format!("blk.{layer}.") };
        let (n_embd, n_ff) = (spec.n_embd, spec.n_ff);
        let (n_q, n_kv) = (spec.n_heads * spec.head_dim, spec.n_kv_heads * spec.head_dim);
        let [wq, wk, wv] = match spec.fused_qkv {
            true => split(declare.matrix("attn_qkv", n_embd, n_q + 2 * n_kv), [n_q, n_kv, n_kv]),
            false => [("attn_q", n_q), ("attn_k", n_kv), ("attn_v", n_kv)]
                .map(|(name, rows)| declare.matrix(name, n_embd, rows)),
        };
        let [bq, bk, bv] = match (spec.qkv_bias, spec.fused_qkv) {
            (false, _) => [None, None, None],
            (true, true) => split(declare.bias("attn_qkv", n_q + 2 * n_kv), [n_q, n_kv, n_kv]).map(Some),
            (true, false) => [("attn_q", n_q), ("attn_k", n_kv), ("attn_v", n_kv)]
                .map(|(name, rows)| Some(declare.bias(name, rows))),
        };
        let is_gated = spec.feed_forward().is_gated();
        let [gate, up] = match is_gated && spec.fused_gate_up {
            true => split(declare.matrix("ffn_up", n_embd, 2 * n_ff), [n_ff, n_ff]),
            false => ["ffn_gate", "ffn_up"].map(|name| declare.matrix(name, n_embd, n_ff)),
        };
        let block = spec.block;
        let norm = |name: Option<&str>| name.map(|name| declare.norm(name, n_embd));
        let norm_bias =
            |name: Option<&str>| name.filter(|_| spec.norm_bias).map(|name| declare.bias(name, n_embd));
        let qk_norm = |name: &str, heads: usize| {
            let dims: &[usize] = match spec.qk_norm? {
                QkNorm::Head | QkNorm::HeadAfterRope => &[spec.head_dim],
                QkNorm::EachHead => &[spec.head_dim, heads],
                QkNorm::Whole => &[spec.head_dim * heads],
            };
            Some(declare.tensor(&format!("{name}.weight"), dims, TensorKind::Vector))
        };
        let ffn_bias = |present: bool, name: &str, len: usize| {
            (present && spec.ffn_bias).then(|| declare.bias(name, len))
        };
        LayerTensors {
            attn_norm: norm(block.attn_norm),
            attn_norm_bias: norm_bias(block.attn_norm),
            wq,
            wk,
            wv,
            bq,
            bk,
            bv,
            q_norm: qk_norm("attn_q_norm", spec.n_heads),
            k_norm: qk_norm("attn_k_norm", spec.n_kv_heads),
            wo: declare.matrix("attn_output", n_q, n_embd),
            bo: spec.attn_output_bias.then(|| declare.bias("attn_output", n_embd)),
            attn_post_norm: norm(block.attn_post_norm),
            ffn_norm: norm(block.ffn_norm),
            ffn_norm_bias: norm_bias(block.ffn_norm),
            ffn_gate: is_gated.then_some(gate),
            ffn_gate_bias: ffn_bias(is_gated, "ffn_gate", n_ff),
            ffn_up: up,
            ffn_up_bias: ffn_bias(true, "ffn_up", n_ff),
            ffn_down: declare.matrix("ffn_down", n_ff, n_embd),
            ffn_down_bias: ffn_bias(true, "ffn_down", n_embd),
            ffn_post_norm: norm(block.ffn_post_norm),
        }
    }
}

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
    fn dims_in_file(&self) -> Vec<u64> {
        let mut dims = self.dims.clone();
        if let (Some(part), Some(last)) = (self.part, dims.last_mut()) {
            *last = part.of;
        }
        dims
    }

    /// The description of this tensor, given that of the whole one.
    fn place_in(&self, whole: &TensorInfo) -> TensorInfo {
        let Some(Part { first, of }) = self.part else { return whole.clone() };
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
            input: self.input.try_map(&mut f)?,
            layers: self.layers.into_iter().map(|l| l.try_map(&mut f)).collect::<Result<_, _>>()?,
            output: self.output.try_map(&mut f)?,
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
            input: self.input.as_ref(),
            layers: self.layers.iter().map(LayerTensors::as_ref).collect(),
            output: self.output.as_ref(),
        }
    }
}

impl<T> LayerTensors<T> {
    /// The matrices, in the order of computation.
    pub fn matrices(&self) -> impl Iterator<Item = &T> {
        let LayerTensors { wq, wk, wv, wo, ffn_gate, ffn_up, ffn_down, .. } = self;
        [Some(wq), Some(wk), Some(wv), Some(wo), ffn_gate.as_ref(), Some(ffn_up), Some(ffn_down)]
            .into_iter()
            .flatten()
    }

    /// The matrices as places, in the order of [`LayerTensors::matrices`].
    pub fn matrices_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let LayerTensors { wq, wk, wv, wo, ffn_gate, ffn_up, ffn_down, .. } = self;
        [Some(wq), Some(wk), Some(wv), Some(wo), ffn_gate.as_mut(), Some(ffn_up), Some(ffn_down)]
            .into_iter()
            .flatten()
    }
}

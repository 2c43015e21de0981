//! Layers that keep a state of fixed size in place of keys and values.

use std::iter;

use super::keys::{KeyReader, KeyWriter, keys, limit};
use super::local::all_but_every;
use super::{ModelSpec, SpecPart};
use crate::arch::{ArchDecl, RecurrentDecl, ValueHeads};
use crate::error::LoadError;

keys! {
    /// Keys that are read where some layers are recurrent.
    KEYS;
    /// A flag for each layer.
    LIST = "attention.recurrent_layers";
    /// Every how many layers one attends, in files without these flags.
    ATTENTION_EVERY = "full_attention_interval";
    CONV_KERNEL = "ssm.conv_kernel";
    HEAD_DIM = "ssm.state_size";
    KEY_HEADS = "ssm.group_count";
    VALUE_HEADS = "ssm.time_step_rank";
    VALUE_DIM = "ssm.inner_size";
}

/// Recurrent layers. A convolution over the last tokens gives queries, keys and values, and the gated delta rule (Yang
/// et al. 2024, arXiv 2412.06464) updates a matrix for each value head.
#[derive(Clone, Debug, PartialEq)]
pub struct RecurrentLayers {
    /// `[n_layers]`: which layers are recurrent. The others attend.
    pub is_recurrent: Vec<bool>,
    /// Tokens that the convolution sees, its own included.
    pub conv_kernel: usize,
    /// Elements of a head, for queries, keys and values.
    pub head_dim: usize,
    /// Heads of queries and of keys; divides `value_heads`.
    pub key_heads: usize,
    /// Heads of values.
    pub value_heads: usize,
    /// Which value heads belong to a key head.
    pub order: ValueHeads,
}

/// What a recurrent layer keeps in place of rows: numbers in f32, as many for any text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateShape {
    /// `[conv_kernel - 1, channels]`: what the convolution needs of the last tokens.
    pub conv: [usize; 2],
    /// `[head_dim, head_dim, value_heads]`
    pub memory: [usize; 3],
}

impl StateShape {
    /// Bytes of a layer's state.
    pub fn bytes(&self) -> usize {
        4 * (self.conv.iter().product::<usize>() + self.memory.iter().product::<usize>())
    }
}

impl RecurrentLayers {
    /// The sizes for which the operations exist everywhere: tokens of a convolution.
    pub const CONV_KERNELS: [usize; 5] = [3, 4, 5, 9, 15];
    /// The sizes for which the operations exist everywhere: elements of a head.
    pub const HEAD_DIMS: [usize; 4] = [16, 32, 64, 128];

    /// The recurrent layers as the architecture declares them, with the smallest sizes. The last of a few layers
    /// attends.
    pub(crate) fn declared(decl: &RecurrentDecl, n_layers: usize) -> RecurrentLayers {
        RecurrentLayers {
            is_recurrent: all_but_every(decl.attention_every.min(n_layers), n_layers),
            conv_kernel: Self::CONV_KERNELS[1],
            head_dim: Self::HEAD_DIMS[0],
            key_heads: 1,
            value_heads: 1,
            order: decl.value_heads,
        }
    }

    /// Elements of all value heads.
    pub fn value_dim(&self) -> usize {
        self.value_heads * self.head_dim
    }

    /// Channels of the convolution: queries, keys and values.
    pub fn channels(&self) -> usize {
        2 * self.key_heads * self.head_dim + self.value_dim()
    }

    /// What a layer keeps.
    pub fn state(&self) -> StateShape {
        StateShape {
            conv: [self.conv_kernel - 1, self.channels()],
            memory: [self.head_dim, self.head_dim, self.value_heads],
        }
    }
}

impl ModelSpec {
    /// The recurrent layers, if a layer, counted from 0, is one of them. `None`: it attends.
    pub fn recurrent_layer(&self, layer: usize) -> Option<&RecurrentLayers> {
        let recurrent = self.recurrent.as_ref()?;
        recurrent.is_recurrent.get(layer).copied().unwrap_or(false).then_some(recurrent)
    }

    /// Layers that attend.
    pub fn attention_layers(&self) -> usize {
        (0..self.n_layers).filter(|layer| self.recurrent_layer(*layer).is_none()).count()
    }
}

impl SpecPart for Option<RecurrentLayers> {
    fn reads(decl: &ArchDecl, key: &str) -> bool {
        decl.recurrent.is_some() && KEYS.contains(&key)
    }

    fn read(keys: &KeyReader<'_>, spec: &ModelSpec) -> Result<Option<RecurrentLayers>, LoadError> {
        let Some(decl) = &keys.arch.decl().recurrent else { return Ok(None) };
        if keys.a_layer_has(spec.n_layers, "ssm_in.weight") {
            return Err(keys.unsupported(
                VALUE_DIM,
                "in an old file",
                "its ssm_in holds what newer files have as attn_qkv and attn_gate; convert the model again, or get a \
                 newer file",
            ));
        }
        let one_of = |key: &str, sizes: &[usize], found: usize| match sizes.contains(&found) {
            true => Ok(found),
            false => Err(keys.bad(key, found, format!("sizes that can be computed are {sizes:?}"))),
        };
        let conv_kernel = keys.size(CONV_KERNEL, limit::WIDTH)?;
        let head_dim = keys.size(HEAD_DIM, limit::HEAD_DIM)?;
        let layers = RecurrentLayers {
            is_recurrent: keys.recurrence_pattern(spec, decl.attention_every)?,
            conv_kernel: one_of(CONV_KERNEL, &RecurrentLayers::CONV_KERNELS, conv_kernel)?,
            head_dim: one_of(HEAD_DIM, &RecurrentLayers::HEAD_DIMS, head_dim)?,
            key_heads: keys.size(KEY_HEADS, limit::HEADS)?,
            value_heads: keys.size(VALUE_HEADS, limit::HEADS)?,
            order: decl.value_heads,
        };
        if !layers.value_heads.is_multiple_of(layers.key_heads) {
            return Err(keys.bad(
                KEY_HEADS,
                layers.key_heads,
                format!("it has to divide the {} heads of values", layers.value_heads),
            ));
        }
        match keys.size(VALUE_DIM, limit::WIDTH)? {
            size if size == layers.value_dim() => Ok(Some(layers)),
            size => Err(keys.bad(
                VALUE_DIM,
                size,
                format!("{} heads of {head_dim} elements are {}", layers.value_heads, layers.value_dim()),
            )),
        }
    }

    fn write(&self, spec: &ModelSpec, to: &mut KeyWriter) {
        let Some(layers) = self else { return };
        let ignored = iter::repeat_n(false, spec.ignored_layers);
        to.flags(LIST, layers.is_recurrent.iter().copied().chain(ignored));
        to.size(CONV_KERNEL, layers.conv_kernel);
        to.size(HEAD_DIM, layers.head_dim);
        to.size(KEY_HEADS, layers.key_heads);
        to.size(VALUE_HEADS, layers.value_heads);
        to.size(VALUE_DIM, layers.value_dim());
    }
}

impl KeyReader<'_> {
    /// Which layers are recurrent, `[n_layers]`. Files give a flag for each layer, also for the ignored ones, or
    /// every how many layers one attends.
    fn recurrence_pattern(&self, spec: &ModelSpec, every: usize) -> Result<Vec<bool>, LoadError> {
        let (key, value, pattern) = match self.flags(LIST, spec.n_layers + spec.ignored_layers, "")? {
            Some(mut flags) => {
                flags.truncate(spec.n_layers);
                (LIST, "true for all layers".to_owned(), flags)
            }
            None if self.file.get(&self.full(LIST)).is_some() => {
                return Err(self.bad(LIST, "one value", "it has to be a list with a flag for each layer"));
            }
            None => {
                let every = self.optional_size(ATTENTION_EVERY, limit::LAYERS)?.unwrap_or(every);
                (ATTENTION_EVERY, every.to_string(), all_but_every(every, spec.n_layers))
            }
        };
        match pattern.contains(&false) {
            true => Ok(pattern),
            false => Err(self.unsupported(key, value, "at least one layer has to attend")),
        }
    }
}

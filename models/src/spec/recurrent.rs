//! Layers that keep a state of fixed size in place of keys and values.

use super::ModelSpec;
use crate::arch::{RecurrentDecl, ValueHeads};
use crate::gguf::ValueType;
use crate::gguf::write::MetaValue;

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
            is_recurrent: super::local::all_but_every(decl.attention_every.min(n_layers), n_layers),
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

    /// The metadata of a file with these layers, without the architecture's prefix.
    pub(super) fn metadata(&self) -> Vec<(&'static str, MetaValue)> {
        // Larger sizes are refused on reading.
        let size = |n: usize| MetaValue::U32(u32::try_from(n).unwrap_or(u32::MAX));
        let flags = self.is_recurrent.iter().copied().map(MetaValue::Bool).collect();
        vec![
            ("attention.recurrent_layers", MetaValue::Array(ValueType::Bool, flags)),
            ("ssm.conv_kernel", size(self.conv_kernel)),
            ("ssm.state_size", size(self.head_dim)),
            ("ssm.group_count", size(self.key_heads)),
            ("ssm.time_step_rank", size(self.value_heads)),
            ("ssm.inner_size", size(self.value_dim())),
        ]
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

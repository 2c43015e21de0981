//! The feed-forward network that every token of a layer uses, where the layer has no experts.

use super::keys::{KeyReader, KeyWriter};
use super::{ModelSpec, SpecPart};
use crate::arch::ArchDecl;
use crate::error::LoadError;

/// A feed-forward network, beside its width. [`ModelSpec::feed_forward`] says its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DenseNetwork {
    /// Whether the gate and what it gates are one tensor in the file.
    pub fused_gate_up: bool,
    /// Whether it has biases.
    pub bias: bool,
}

impl DenseNetwork {
    /// The network as the architecture declares it. `is_fused` and `has_bias` are what the file says.
    pub(super) fn declared(decl: &ArchDecl, is_fused: bool, has_bias: bool) -> DenseNetwork {
        DenseNetwork {
            fused_gate_up: decl.fused_gate_up.resolve(is_fused),
            bias: decl.ffn_bias.resolve(has_bias),
        }
    }
}

impl SpecPart for DenseNetwork {
    fn read(keys: &KeyReader<'_>, _: &ModelSpec) -> Result<DenseNetwork, LoadError> {
        let is_fused = !keys.first_layer_has("ffn_gate.weight");
        Ok(DenseNetwork::declared(keys.arch.decl(), is_fused, keys.first_layer_has("ffn_up.bias")))
    }

    /// The names of tensors say it.
    fn write(&self, _: &ModelSpec, _: &mut KeyWriter) {}
}

//! Attention: its biases and norms, and how logits are scaled.

use super::keys::{KeyReader, KeyWriter};
use super::{AttentionTemperature, ModelSpec, SpecPart};
use crate::arch::{ArchDecl, AttentionScale, QkNorm};
use crate::error::LoadError;

// The keys are settings of the architecture.
const SCALE: &str = "attention.scale";
const SOFTCAP: &str = "attn_logit_softcapping";
const CLAMP: &str = "attention.clamp_kqv";

/// How the layers that attend do it, beside the number and the sizes of their heads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// Factor of q·k before the softmax.
    pub scale: f32,
    /// Logits l become c · tanh(l / c) for this c, before the softmax.
    pub softcap: Option<f32>,
    /// How queries are scaled by position, after RoPE.
    pub temperature: Option<AttentionTemperature>,
    /// Whether each query head has a learned logit that takes its share of attention.
    pub sink_logits: bool,
    /// Whether Q, K and V are one tensor in the file.
    pub fused_qkv: bool,
    /// Whether Q, K and V have biases.
    pub qkv_bias: bool,
    /// Whether the output has a bias.
    pub output_bias: bool,
    /// What the norms of Q and K are over.
    pub qk_norm: Option<QkNorm>,
    /// Bound on the absolute values of Q, K and V before RoPE.
    pub clamp_qkv: Option<f32>,
    /// Whether the values of global layers come from the projection of the keys.
    pub values_from_keys: bool,
}

impl Attention {
    /// Attention as the architecture declares it, with heads of `head_dim` elements. `in_file` says whether the first
    /// layer has a tensor.
    pub(super) fn declared(decl: &ArchDecl, head_dim: usize, in_file: impl Fn(&str) -> bool) -> Attention {
        let fused_qkv = decl.fused_qkv.resolve(in_file("attn_qkv.weight"));
        let bias_of_q = if fused_qkv { "attn_qkv.bias" } else { "attn_q.bias" };
        Attention {
            scale: match decl.attention_scale {
                AttentionScale::OfHead | AttentionScale::OfWidth(_) => attention_scale(head_dim),
                AttentionScale::One => 1.0,
            },
            softcap: decl.attention_softcap,
            temperature: None,
            sink_logits: decl.sink_logits.resolve(in_file("attn_sinks.weight")),
            fused_qkv,
            qkv_bias: decl.qkv_bias.resolve(in_file(bias_of_q)),
            output_bias: decl.attn_output_bias.resolve(in_file("attn_output.bias")),
            qk_norm: decl.qk_norm.resolve(in_file("attn_q_norm.weight")).then_some(decl.qk_norm_kind),
            clamp_qkv: None,
            values_from_keys: false,
        }
    }
}

impl SpecPart for Attention {
    fn read(keys: &KeyReader<'_>, spec: &ModelSpec) -> Result<Attention, LoadError> {
        let decl = keys.arch.decl();
        let declared = Attention::declared(decl, spec.head_dim, |name| keys.first_layer_has(name));
        let default_scale = match (decl.attention_scale, &spec.latent) {
            (AttentionScale::OfWidth(layers), _) if layers == spec.n_layers => {
                if spec.n_embd < spec.n_heads {
                    let expected = "it has to be at most the width";
                    return Err(keys.bad("attention.head_count", spec.n_heads, expected));
                }
                attention_scale(spec.n_embd / spec.n_heads)
            }
            (_, Some(latent)) => latent.scale(keys, spec)?,
            (_, None) => declared.scale,
        };
        let mut global = (0..spec.n_layers).filter(|layer| spec.window(*layer).is_none());
        let first_global = global.next().filter(|layer| !spec.shares_kv(*layer));
        Ok(Attention {
            scale: keys.factor(SCALE, default_scale)?,
            softcap: keys.bound(SOFTCAP, decl.attention_softcap)?,
            temperature: SpecPart::read(keys, spec)?,
            clamp_qkv: keys.bound(CLAMP, None)?,
            values_from_keys: decl.values_from_keys
                && first_global.is_some_and(|layer| !keys.has_tensor(&format!("blk.{layer}.attn_v.weight"))),
            ..declared
        })
    }

    fn write(&self, spec: &ModelSpec, to: &mut KeyWriter) {
        to.setting(SCALE, Some(self.scale));
        to.setting(SOFTCAP, self.softcap);
        to.setting(CLAMP, self.clamp_qkv);
        self.temperature.write(spec, to);
    }
}

/// 1 / sqrt(head_dim): the attention scale unless a file gives another.
pub fn attention_scale(head_dim: usize) -> f32 {
    1.0 / (head_dim as f32).sqrt()
}

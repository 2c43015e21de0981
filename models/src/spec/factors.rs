//! Factors of embeddings, of the residual stream and of logits.

use super::keys::{KeyReader, KeyWriter};
use super::{ModelSpec, SpecPart};
use crate::arch::{ArchDecl, Scales};
use crate::error::LoadError;

// The keys are settings of the architecture.
const EMBEDDING: &str = "embedding_scale";
const RESIDUAL: &str = "residual_scale";
const LOGITS: &str = "logit_scale";
const SOFTCAP: &str = "final_logit_softcapping";

/// Factors of what a model computes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factors {
    /// Factor of the embeddings.
    pub embedding: f32,
    /// Factor of what attention and feed-forward network add to the residual stream.
    pub residual: f32,
    /// Whether each layer has a tensor with a factor of the residual stream after it.
    pub of_layers: bool,
    /// Multiplies or divides the logits, as the architecture declares.
    pub logits: f32,
    /// Logits l become c · tanh(l / c) for this c.
    pub final_softcap: Option<f32>,
}

impl Factors {
    /// The factors as the architecture declares them, in a model of `n_layers` layers of width `n_embd`. `in_file` says
    /// whether the first layer has a tensor.
    pub(super) fn declared(
        decl: &ArchDecl,
        n_layers: usize,
        n_embd: usize,
        in_file: impl Fn(&str) -> bool,
    ) -> Factors {
        let one = Factors {
            embedding: 1.0,
            residual: 1.0,
            of_layers: decl.layer_scale.resolve(in_file("layer_output_scale.weight")),
            logits: 1.0,
            final_softcap: decl.final_softcap,
        };
        match decl.scales {
            Scales::One => one,
            Scales::SqrtWidth => Factors { embedding: (n_embd as f32).sqrt(), ..one },
            Scales::MiniCpm => Factors {
                embedding: 12.0,
                residual: 1.4 / (n_layers as f32).sqrt(),
                logits: n_embd as f32 / 256.0,
                ..one
            },
        }
    }
}

impl SpecPart for Factors {
    fn read(keys: &KeyReader<'_>, spec: &ModelSpec) -> Result<Factors, LoadError> {
        let first_layer_has = |name: &str| keys.first_layer_has(name);
        let declared = Factors::declared(keys.arch.decl(), spec.n_layers, spec.n_embd, first_layer_has);
        Ok(Factors {
            embedding: keys.factor(EMBEDDING, declared.embedding)?,
            residual: keys.factor(RESIDUAL, declared.residual)?,
            logits: keys.factor(LOGITS, declared.logits)?,
            final_softcap: keys.bound(SOFTCAP, declared.final_softcap)?,
            ..declared
        })
    }

    fn write(&self, _: &ModelSpec, to: &mut KeyWriter) {
        to.setting(EMBEDDING, Some(self.embedding));
        to.setting(RESIDUAL, Some(self.residual));
        to.setting(LOGITS, Some(self.logits));
        to.setting(SOFTCAP, self.final_softcap);
    }
}

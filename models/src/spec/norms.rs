//! The norms of a model, and how a layer's parts are connected.

use super::keys::{KeyReader, KeyWriter};
use super::{ModelSpec, SpecPart};
use crate::arch::{ArchDecl, Block, NormKind};
use crate::error::LoadError;

/// The key of the epsilon, by the kind of the norms.
const RMS_EPSILON: &str = "attention.layer_norm_rms_epsilon";
const LAYER_EPSILON: &str = "attention.layer_norm_epsilon";

/// Whether attention and the feed-forward network read the same. A setting of the architecture.
const PARALLEL: &str = "use_parallel_residual";

/// The norms of a model. [`Block`] says which a layer has, [`ModelSpec::norm`] their kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norms {
    /// Epsilon of every norm, added to the mean square or to the variance.
    pub epsilon: f32,
    /// Whether norms have biases; not those of Q and K, nor those after attention and feed-forward network.
    pub bias: bool,
    /// Whether embeddings are normalised.
    pub of_embeddings: bool,
}

impl Norms {
    /// The norms as the architecture declares them. `in_file` says whether there is a tensor.
    pub(super) fn declared(decl: &ArchDecl, in_file: impl Fn(&str) -> bool) -> Norms {
        Norms {
            epsilon: 1e-5,
            bias: decl.norm_bias.resolve(in_file("output_norm.bias")),
            of_embeddings: decl.embedding_norm.resolve(in_file("token_embd_norm.weight")),
        }
    }
}

impl SpecPart for Norms {
    fn reads(_: &ArchDecl, key: &str) -> bool {
        [RMS_EPSILON, LAYER_EPSILON].contains(&key)
    }

    fn read(keys: &KeyReader<'_>, _: &ModelSpec) -> Result<Norms, LoadError> {
        let decl = keys.arch.decl();
        let key = epsilon_key(decl.norm);
        keys.file.required_f32(&keys.full(key))?;
        Ok(Norms {
            epsilon: keys.float(key, 0.0, |eps| eps > 0.0 && eps < 1.0, "it has to lie between 0 and 1")?,
            ..Norms::declared(decl, |name| keys.has_tensor(name))
        })
    }

    fn write(&self, spec: &ModelSpec, to: &mut KeyWriter) {
        to.put(epsilon_key(spec.norm()), self.epsilon);
    }
}

impl SpecPart for Block {
    /// The first of the architecture's blocks whose norms are there.
    fn read(keys: &KeyReader<'_>, _: &ModelSpec) -> Result<Block, LoadError> {
        let blocks = keys.arch.decl().blocks;
        let has = |norm: &str| keys.first_layer_has(&format!("{norm}.weight"));
        let found = blocks.iter().find(|block| block.norms().all(has));
        // Without any, the missing tensors of the last one are named later.
        let block = *found.unwrap_or(&blocks[blocks.len() - 1]);
        if !keys.is_setting(PARALLEL) {
            return Ok(block);
        }
        let parallel = keys.file.bool(&keys.full(PARALLEL))?;
        match blocks {
            [_] => Ok(Block { parallel: parallel.ok_or_else(|| keys.missing(PARALLEL))?, ..block }),
            // Converters of StableLM write `true` where they do not know. The norms decide, as in llama.cpp.
            _ => Ok(block),
        }
    }

    fn write(&self, _: &ModelSpec, to: &mut KeyWriter) {
        to.setting(PARALLEL, Some(self.parallel));
    }
}

fn epsilon_key(kind: NormKind) -> &'static str {
    match kind {
        NormKind::Rms => RMS_EPSILON,
        NormKind::Layer => LAYER_EPSILON,
    }
}

//! How the positions of tokens enter: RoPE, ALiBi or learned vectors.

use super::keys::{KeyReader, KeyWriter, limit};
use super::{ModelSpec, Rope, SpecPart};
use crate::arch::{ArchDecl, PositionScheme, Positions};
use crate::error::LoadError;

/// The maximum bias of ALiBi in architectures without a setting for it.
const MAX_ALIBI_BIAS: f32 = 8.0;

/// The setting of that bias.
const ALIBI_BIAS: &str = "attention.max_alibi_bias";

/// How the positions of tokens are taken into account.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PositionEncoding {
    /// Queries and keys are rotated.
    Rope(Rope),
    /// Attention with linear biases (Press et al. 2022, arXiv 2108.12409): the distance in tokens times the
    /// query head's slope is subtracted from each logit. The slopes follow from the number of heads and this
    /// number.
    Alibi {
        /// B: the last of 2^n heads has the slope 2^-B, the first 2^(-B / 2^n).
        max_bias: f32,
    },
    /// A learned vector for each of the `n_ctx_train` positions is added to the embedding.
    Learned,
}

impl PositionEncoding {
    /// The parameters of RoPE, if it is used.
    pub fn rope(&self) -> Option<&Rope> {
        match self {
            PositionEncoding::Rope(rope) => Some(rope),
            PositionEncoding::Alibi { .. } | PositionEncoding::Learned => None,
        }
    }

    /// Whether it is ALiBi.
    pub fn is_alibi(&self) -> bool {
        self.max_alibi_bias().is_some()
    }

    /// The maximum bias of ALiBi, if it is used.
    pub fn max_alibi_bias(&self) -> Option<f32> {
        match self {
            PositionEncoding::Alibi { max_bias } => Some(*max_bias),
            PositionEncoding::Rope(_) | PositionEncoding::Learned => None,
        }
    }
}

impl PositionEncoding {
    /// The encoding as the architecture declares it, of `n_layers` layers with heads of `head_dim` elements.
    pub(super) fn declared(decl: &ArchDecl, n_layers: usize, head_dim: usize) -> PositionEncoding {
        let scheme = match decl.positions {
            Positions::All(scheme) => scheme,
            Positions::ByLayers(known) => known
                .iter()
                .find(|(layers, _)| *layers == n_layers)
                .map_or(PositionScheme::Rope, |(_, scheme)| *scheme),
        };
        match scheme {
            PositionScheme::Rope => PositionEncoding::Rope(Rope::declared(decl, head_dim)),
            PositionScheme::Alibi => PositionEncoding::Alibi { max_bias: MAX_ALIBI_BIAS },
            PositionScheme::Learned => PositionEncoding::Learned,
        }
    }
}

impl SpecPart for PositionEncoding {
    fn reads(decl: &ArchDecl, key: &str) -> bool {
        Rope::reads(decl, key)
    }

    fn read(keys: &KeyReader<'_>, spec: &ModelSpec) -> Result<PositionEncoding, LoadError> {
        keys.check_rope_switch()?;
        match keys.position_scheme(spec.n_layers)? {
            PositionScheme::Rope => {
                Rope::read(keys, spec.head_dim, spec.n_ctx_train).map(PositionEncoding::Rope)
            }
            PositionScheme::Alibi => keys.alibi(),
            PositionScheme::Learned => Ok(PositionEncoding::Learned),
        }
    }

    fn write(&self, spec: &ModelSpec, to: &mut KeyWriter) {
        to.setting(ALIBI_BIAS, self.max_alibi_bias());
        if let Some(rope) = self.rope() {
            rope.write(spec.arch.decl(), to);
        }
    }
}

impl KeyReader<'_> {
    /// The position encoding of a model with `n_layers` layers.
    fn position_scheme(&self, n_layers: usize) -> Result<PositionScheme, LoadError> {
        let known = match self.arch.decl().positions {
            Positions::All(scheme) => return Ok(scheme),
            Positions::ByLayers(known) => known,
        };
        known.iter().find(|(layers, _)| *layers == n_layers).map(|(_, scheme)| *scheme).ok_or_else(|| {
            let layers: Vec<String> = known.iter().map(|(layers, _)| layers.to_string()).collect();
            self.unsupported(
                "block_count",
                n_layers,
                format!(
                    "the position encoding is only known for models with {} layers",
                    layers.join(" and ")
                ),
            )
        })
    }

    /// ALiBi, with the maximum bias of the file where the architecture has one.
    fn alibi(&self) -> Result<PositionEncoding, LoadError> {
        if !self.is_setting(ALIBI_BIAS) {
            return Ok(PositionEncoding::Alibi { max_bias: MAX_ALIBI_BIAS });
        }
        self.file.required_f32(&self.full(ALIBI_BIAS))?;
        let expected = format!("it has to be above 0, for ALiBi, and at most {}", limit::ALIBI_BIAS);
        let max_bias =
            self.float(ALIBI_BIAS, 0.0, |bias| bias > 0.0 && bias <= limit::ALIBI_BIAS, &expected)?;
        Ok(PositionEncoding::Alibi { max_bias })
    }

    /// An error for Granite's switch of RoPE, which others ignore.
    fn check_rope_switch(&self) -> Result<(), LoadError> {
        const KEY: &str = "rope.scaling.finetuned";
        match self.is_setting(KEY) && self.file.bool(&self.full(KEY))? == Some(false) {
            true => Err(self.unsupported(KEY, false, "it switches RoPE off")),
            false => Ok(()),
        }
    }
}

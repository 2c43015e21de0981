//! Queries that grow with their position, so that attention stays sharp in long texts (Llama 4, Ministral 3).

use super::keys::{KeyReader, KeyWriter, limit};
use super::{ModelSpec, RopeScaling, SpecPart};
use crate::error::LoadError;

const SCALE: &str = "attention.temperature_scale";
const LENGTH: &str = "attention.temperature_length";

/// The factor of a query at position p is 1 + scale · ln(1 + floor(p / length)).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionTemperature {
    /// Weight of the logarithm.
    pub scale: f32,
    /// Tokens over which the factor stays the same, 1 or more.
    pub length: usize,
}

impl AttentionTemperature {
    /// The factor of a query at `position`.
    pub fn factor(&self, position: usize) -> f32 {
        let periods = (position / self.length) as f64;
        (1.0 + f64::from(self.scale) * periods.ln_1p()) as f32
    }
}

impl SpecPart for Option<AttentionTemperature> {
    /// Without a length in the file it is the context of the original training.
    fn read(keys: &KeyReader<'_>, spec: &ModelSpec) -> Result<Option<AttentionTemperature>, LoadError> {
        let Some(scale) = keys.bound(SCALE, None)? else { return Ok(None) };
        let original_ctx = match spec.position_encoding.rope().map(|rope| rope.scaling) {
            Some(RopeScaling::Yarn { original_ctx, .. }) => original_ctx,
            _ => spec.n_ctx_train,
        };
        let length = keys.optional_size(LENGTH, limit::TOKENS)?.unwrap_or(original_ctx);
        Ok(Some(AttentionTemperature { scale, length }))
    }

    fn write(&self, _: &ModelSpec, to: &mut KeyWriter) {
        if let Some(temperature) = self {
            to.put(SCALE, temperature.scale);
            to.size(LENGTH, temperature.length);
        }
    }
}

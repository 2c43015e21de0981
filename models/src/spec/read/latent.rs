//! Reads the sizes of latent attention, and its scale.

use super::{Keys, limit};
use crate::error::LoadError;
use crate::spec::{Latent, Rope, RopeScaling, attention_scale};

const KEY_LENGTH: &str = "attention.key_length_mla";

impl Keys<'_> {
    /// The sizes of latent attention, where the architecture has it.
    pub(super) fn latent(&self) -> Result<Option<Latent>, LoadError> {
        if !self.arch.decl().latent {
            return Ok(None);
        }
        let first_layer = |name: &str| self.file.tensor(&format!("blk.0.{name}.weight")).is_some();
        if self.file.get(&self.full(KEY_LENGTH)).is_none() && first_layer("attn_kv_b") {
            return Err(self.unsupported(
                "attention.kv_lora_rank",
                "in an old file",
                "attn_kv_b holds what newer files have as attn_k_b and attn_v_b; convert the model again, or get \
                 a newer file",
            ));
        }
        let rank = self.size("attention.kv_lora_rank", limit::HEAD_DIM)?;
        let rotated = self.size("rope.dimension_count", limit::HEAD_DIM)?;
        let query = self.size(KEY_LENGTH, limit::HEAD_DIM)?;
        if query <= rotated {
            return Err(self.bad(KEY_LENGTH, query, format!("it has to be more than the {rotated} rotated")));
        }
        let of_row = [
            ("attention.key_length", rank + rotated),
            ("attention.value_length", rank),
            ("attention.head_count_kv", 1),
        ];
        for (key, expected) in of_row {
            let found = self.optional_size(key, u64::MAX)?;
            if found.is_some_and(|found| found != expected) {
                return Err(self.bad(
                    key,
                    found.unwrap_or(0),
                    format!("it has to be {expected}, for a latent vector of {rank} and {rotated} rotated"),
                ));
            }
        }
        Ok(Some(Latent {
            rank,
            plain: query - rotated,
            value: self.size("attention.value_length_mla", limit::HEAD_DIM)?,
            query_rank: match first_layer("attn_q_a") {
                true => Some(self.size("attention.q_lora_rank", limit::WIDTH)?),
                false => None,
            },
        }))
    }

    /// The attention scale of such a model: 1 / sqrt(elements of a query), and with YaRN's log multiplier m also
    /// (1 + 0.1 m ln(factor))².
    pub(super) fn latent_scale(&self, latent: &Latent, rope: Option<&Rope>) -> Result<f32, LoadError> {
        let plain = attention_scale(latent.query(rope.map_or(0, |rope| rope.n_dims)));
        let magnitude = match rope.map(|rope| rope.scaling) {
            Some(RopeScaling::Yarn { factor, ext_factor, .. }) if ext_factor != 0.0 => {
                1.0 + 0.1 * self.latent_log_multiplier()? * factor.ln()
            }
            _ => 1.0,
        };
        Ok(plain * magnitude * magnitude)
    }

    /// YaRN's log multiplier, of which files of these models have a tenth. 0 without one.
    pub(super) fn latent_log_multiplier(&self) -> Result<f32, LoadError> {
        Ok(self.bound("rope.scaling.yarn_log_multiplier", None)?.unwrap_or(0.0) / 0.1)
    }
}

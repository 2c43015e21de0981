//! Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): the keys and values of all heads come from one vector
//! for each token.

use super::keys::{KeyReader, KeyWriter, limit};
use super::{ModelSpec, RopeScaling, SpecPart, attention_scale};
use crate::error::LoadError;

// The keys are settings of the architecture.
const RANK: &str = "attention.kv_lora_rank";
const QUERY: &str = "attention.key_length_mla";
const VALUE: &str = "attention.value_length_mla";
const QUERY_RANK: &str = "attention.q_lora_rank";

/// The sizes of latent attention, in elements.
///
/// The store keeps one KV head. Its row is the latent vector, and behind it a key that is rotated by position. The
/// matrix that makes a head's keys from the latent vector is applied to the query instead, and the matrix that makes
/// its values to what attention gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latent {
    /// The latent vector.
    pub rank: usize,
    /// The part of a head's query and key that is not rotated.
    pub plain: usize,
    /// A head's value.
    pub value: usize,
    /// The vector that the queries of all heads come from. `None`: they come from attention's input.
    pub query_rank: Option<usize>,
}

impl Latent {
    /// Sizes for a stored row of `row` elements, half of which are rotated. The caller gives others.
    pub(crate) fn declared(row: usize) -> Latent {
        let rank = row - row / 2;
        Latent { rank, plain: rank, value: rank, query_rank: None }
    }

    /// Elements of a head's query, where `rotated` of them are.
    pub fn query(&self, rotated: usize) -> usize {
        self.plain + rotated
    }

    /// The sizes in the file, where the architecture has latent attention.
    pub(super) fn stated(keys: &KeyReader<'_>) -> Result<Option<Latent>, LoadError> {
        if !keys.arch.decl().latent {
            return Ok(None);
        }
        if keys.file.get(&keys.full(QUERY)).is_none() && keys.first_layer_has("attn_kv_b.weight") {
            return Err(keys.unsupported(
                RANK,
                "in an old file",
                "attn_kv_b holds what newer files have as attn_k_b and attn_v_b; convert the model again, or get \
                 a newer file",
            ));
        }
        let rank = keys.size(RANK, limit::HEAD_DIM)?;
        let rotated = keys.size("rope.dimension_count", limit::HEAD_DIM)?;
        let query = keys.size(QUERY, limit::HEAD_DIM)?;
        if query <= rotated {
            return Err(keys.bad(QUERY, query, format!("it has to be more than the {rotated} rotated")));
        }
        let of_row = [
            ("attention.key_length", rank + rotated),
            ("attention.value_length", rank),
            ("attention.head_count_kv", 1),
        ];
        for (key, expected) in of_row {
            let found = keys.optional_size(key, u64::MAX)?;
            if found.is_some_and(|found| found != expected) {
                return Err(keys.bad(
                    key,
                    found.unwrap_or(0),
                    format!("it has to be {expected}, for a latent vector of {rank} and {rotated} rotated"),
                ));
            }
        }
        Ok(Some(Latent {
            rank,
            plain: query - rotated,
            value: keys.size(VALUE, limit::HEAD_DIM)?,
            query_rank: match keys.first_layer_has("attn_q_a.weight") {
                true => Some(keys.size(QUERY_RANK, limit::WIDTH)?),
                false => None,
            },
        }))
    }

    /// The attention scale: 1 / sqrt(elements of a query), and with YaRN's log multiplier m also
    /// (1 + 0.1 m ln(factor))².
    pub(super) fn scale(&self, keys: &KeyReader<'_>, spec: &ModelSpec) -> Result<f32, LoadError> {
        let rope = spec.position_encoding.rope();
        let plain = attention_scale(self.query(rope.map_or(0, |rope| rope.n_dims)));
        let magnitude = match rope.map(|rope| rope.scaling) {
            Some(RopeScaling::Yarn { factor, ext_factor, .. }) if ext_factor != 0.0 => {
                // Files of these models have a tenth of it.
                let multiplier = keys.bound("rope.scaling.yarn_log_multiplier", None)?.unwrap_or(0.0) / 0.1;
                1.0 + 0.1 * multiplier * factor.ln()
            }
            _ => 1.0,
        };
        Ok(plain * magnitude * magnitude)
    }
}

impl SpecPart for Option<Latent> {
    fn read(keys: &KeyReader<'_>, _: &ModelSpec) -> Result<Option<Latent>, LoadError> {
        Latent::stated(keys)
    }

    fn write(&self, spec: &ModelSpec, to: &mut KeyWriter) {
        let Some(latent) = self else { return };
        to.size(RANK, latent.rank);
        to.size(QUERY, latent.query(spec.head_dim - latent.rank));
        to.size(VALUE, latent.value);
        to.optional_size(QUERY_RANK, latent.query_rank);
    }
}

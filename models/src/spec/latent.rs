//! Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): the keys and values of all heads come from one vector
//! for each token.

use crate::gguf::write::MetaValue;

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

    /// The metadata of a file with these sizes, without the architecture's prefix.
    pub(super) fn metadata(&self, rotated: usize) -> Vec<(&'static str, MetaValue)> {
        // Larger sizes are refused on reading.
        let size = |n: usize| MetaValue::U32(u32::try_from(n).unwrap_or(u32::MAX));
        let mut all = vec![
            ("attention.kv_lora_rank", size(self.rank)),
            ("attention.key_length_mla", size(self.query(rotated))),
            ("attention.value_length_mla", size(self.value)),
        ];
        all.extend(self.query_rank.map(|rank| ("attention.q_lora_rank", size(rank))));
        all
    }
}

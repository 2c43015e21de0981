//! The tensors of latent attention.

use super::{Declare, TensorSpec};
use crate::spec::{Latent, ModelSpec};

/// The tensors that latent attention has beside those of other attention.
#[derive(Clone, Debug, PartialEq)]
pub struct LatentTensors<T> {
    /// `[n_embd, query_rank]`: what the queries come from.
    pub query_down: Option<T>,
    /// `[query_rank]`: weights of its norm.
    pub query_norm: Option<T>,
    /// `[rank]`: weights of the latent vector's norm.
    pub norm: T,
    /// `[plain, rank, n_heads]`: takes a head's query to the latent vectors.
    pub key_up: T,
}

maps! {
    LatentTensors {
        query_down: maybe,
        query_norm: maybe,
        norm: one,
        key_up: one,
    }
}

impl Declare {
    /// What queries, stored rows and values come from.
    pub(super) fn latent_qkv(&self, spec: &ModelSpec, latent: &Latent) -> [TensorSpec; 3] {
        let queries = spec.n_heads * latent.query(spec.head_dim - latent.rank);
        let of_queries = match latent.query_rank {
            Some(n) => self.matrix("attn_q_b", n, queries),
            None => self.matrix("attn_q", spec.n_embd, queries),
        };
        [
            of_queries,
            self.matrix("attn_kv_a_mqa", spec.n_embd, spec.head_dim),
            self.matrices("attn_v_b", latent.rank, latent.value, spec.n_heads),
        ]
    }

    pub(super) fn latent(&self, spec: &ModelSpec, latent: &Latent) -> LatentTensors<TensorSpec> {
        let Latent { rank, plain, query_rank, .. } = *latent;
        LatentTensors {
            query_down: query_rank.map(|n| self.matrix("attn_q_a", spec.n_embd, n)),
            query_norm: query_rank.map(|n| self.norm("attn_q_a_norm", n)),
            norm: self.norm("attn_kv_a_norm", rank),
            key_up: self.matrices("attn_k_b", plain, rank, spec.n_heads),
        }
    }
}

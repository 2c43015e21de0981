//! Policies that choose rows by their keys and values. The attention is not recorded.

pub(in crate::kv) mod l2;
pub(in crate::kv) mod lagkv;

//! Policies that choose rows by the attention that they received.

pub(super) mod ahakv;
mod best_and_recent;
pub(super) mod h2o;
pub(super) mod kvzap;
pub(super) mod kvzip;
pub(super) mod kvzip_plus;
pub(super) mod pool;
pub(super) mod slimkv;
pub(super) mod snapkv;
pub(super) mod tova;

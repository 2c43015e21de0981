//! Where a model is computed: the backends of host and device, which layers each has, memory for their graphs, how
//! much memory is free, and what of it is promised.

pub mod backends;
pub(crate) mod ledger;
pub(crate) mod memory;
pub mod placement;
pub mod workspace;

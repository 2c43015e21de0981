//! Where a model is computed: the backends of host and device, which layers each has, memory for their graphs, how
//! much memory is free, and what of it is promised.

pub(crate) mod backends;
pub(crate) mod ledger;
pub(crate) mod memory;
pub(crate) mod placement;
pub(crate) mod workspace;

//! Where a model is computed: the backends of host and device, which layers each has, memory for their graphs, and
//! how much memory is free.

pub(crate) mod backends;
pub(crate) mod memory;
pub(crate) mod placement;
pub(crate) mod workspace;

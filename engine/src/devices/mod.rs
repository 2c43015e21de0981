//! Where a model is computed: the backends of host and device, which layers each has, memory for their graphs, and
//! how much memory is free.

pub mod backends;
pub(crate) mod memory;
pub mod placement;
pub mod workspace;

//! Where a model is computed: the backends of host and device, which layers each has, and memory for their
//! graphs.

pub(crate) mod backends;
pub(crate) mod placement;
pub(crate) mod workspace;

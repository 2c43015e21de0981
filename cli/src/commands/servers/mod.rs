//! Commands that serve other programs: `serve` answers them, `rpc-server` lends them devices.

#[cfg(feature = "serve")]
pub mod http;
#[cfg(feature = "rpc")]
pub mod rpc;

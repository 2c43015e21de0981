//! (under construction)
pub mod embedded;

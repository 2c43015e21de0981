//! Packages: archives of XML parts, which office documents and books are. Knows their names and their XML, and nothing
//! of what they mean.

pub(crate) mod archive;
mod moved;
mod names;
pub(crate) mod xml;

pub(crate) use self::archive::{Archive, kind};
pub use self::names::natural_path_order;
pub(crate) use self::names::{natural_order, percent_decode, resolve};

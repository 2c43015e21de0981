//! The metadata keys of an architecture: [`KeyReader`] reads single settings of a file, [`KeyWriter`] collects those of a
//! file to write. Both take keys without the architecture's prefix, and know nothing of what a setting means.

mod reader;
mod writer;

pub(super) use reader::KeyReader;
pub(super) use writer::{KeyWriter, meta_size};

/// Names metadata keys, and lists them.
macro_rules! keys {
    ($(#[$doc:meta])* $list:ident; $($(#[$about:meta])* $vis:vis $name:ident = $key:literal;)*) => {
        $($(#[$about])* $vis const $name: &str = $key;)*

        $(#[$doc])*
        const $list: &[&str] = &[$($name),*];
    };
}

pub(super) use keys;

/// Maximum sizes, far above all known models: a file with larger ones is damaged. They also prevent overflow
/// in products.
pub(super) mod limit {
    pub const LAYERS: u64 = 4096;
    pub const HEADS: u64 = 1 << 14;
    pub const HEAD_DIM: u64 = 1 << 12;
    pub const WIDTH: u64 = 1 << 24;
    pub const EXPERTS: u64 = 1 << 12;
    pub const USED_EXPERTS: u64 = 1 << 8;
    /// Positions and token ids are i32 in ggml.
    pub const TOKENS: u64 = i32::MAX as u64;
    /// With more, the slopes of some heads are below f32's precision.
    pub const ALIBI_BIAS: f32 = 100.0;
    /// Factors beyond these leave nothing of f32's precision.
    pub const FACTORS: (f32, f32) = (1e-6, 1e6);
}

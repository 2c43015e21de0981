//! What the interpreter does not say of fonts: the characters of some names and glyphs, and the widths of glyphs that are
//! drawings.

mod asked;
pub(super) mod codes;
pub(super) mod collections;
mod large_signs;
pub(super) mod names;
pub(super) mod programs;
mod tex_codes;
mod tex_names;
pub(super) mod type3;

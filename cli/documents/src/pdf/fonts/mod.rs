//! What the interpreter does not say of fonts: the characters of some names, and the widths of glyphs that are drawings.

pub(super) mod names;
mod tex_codes;
mod tex_names;
pub(super) mod type3;

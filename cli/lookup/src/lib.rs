//! Looks things up in the text of documents: where words stand ([`find`](find())), and what of an answer stands nowhere
//! ([`absent`]). Knows no models, no files and no terminals.

#![forbid(unsafe_code)]

pub mod absent;
mod find;
mod fold;
mod tokens;

pub use self::find::find;

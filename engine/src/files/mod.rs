//! Files that longhand writes: replaced as a whole or not at all, and in folders that are the user's own. What the bytes
//! of saved sessions are made of is here too (`codec.rs`).

pub mod atomic_file;
pub(crate) mod codec;
pub(crate) mod fingerprints;
pub mod folders;

//! The library as programs use it.

mod chat_documents;
mod chat_file;
mod fingerprints;
mod memory;
mod profiles;
mod rooms;
mod threads;

//! The library as programs use it.

mod chat_documents;
mod chat_file;
mod fingerprints;
mod rooms;
mod threads;

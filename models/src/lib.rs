//! Model files as plain data: what a model is, and nothing of how it is computed. The engine computes with what this crate
//! has read and checked. Tensor types and shapes are only names and numbers here; ggml is not needed.
//!
//! A model goes through these rooms, each of which uses only those before it (and `tokenizer` one list of `chat`, the marks
//! of thinking):
//! - [`gguf`] opens a file, checks every count, length and offset in it, and gives values and ranges of bytes.
//! - [`arch`] declares the architectures, as data. No other room has code for a single architecture.
//! - [`spec`] reads a model's sizes and settings, and finds its tensors. It also writes them.
//! - [`tokenizer`] turns text into token ids and back, with the vocabulary of the file.
//! - [`chat`] renders conversations with the template of the file, as prompts that know which texts are from users.
//!
//! [`shapes`] makes well-known models without their weights, and [`embedded`] is the model inside the program.
//!
//! A file is untrusted input. What is damaged or hostile is an error that says what, where and what to do: never a panic, an
//! endless loop or a huge allocation. A setting that is not known is refused, because a model that ignores it would
//! answer, but wrongly. What has been read is not checked again.

pub mod arch;
pub mod chat;
pub mod embedded;
mod error;
pub mod file_lock;
pub mod gguf;
pub mod invisible;
mod mapped_file;
pub mod random;
pub mod regular_file;
pub mod shapes;
pub mod spec;
pub mod tokenizer;
pub mod types;

pub use error::LoadError;
pub use mapped_file::MappedFile;

#[cfg(test)]
mod tests {
    use super::LoadError;
    use super::chat::ChatTemplate;
    use super::gguf::GgufFile;
    use super::tokenizer::Tokenizer;

    /// Threads share a model, which consists of these.
    #[test]
    fn files_tokenizers_templates_and_errors_are_send_and_sync() {
        fn is_send_and_sync<T: Send + Sync>() {}
        is_send_and_sync::<GgufFile>();
        is_send_and_sync::<Tokenizer>();
        is_send_and_sync::<ChatTemplate>();
        is_send_and_sync::<LoadError>();
    }
}

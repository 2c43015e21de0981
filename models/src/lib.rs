//! Model files as plain data: the GGUF reader and writer, the supported architectures, tokenizers and chat
//! templates.
//!
//! Independent of ggml: tensor types and shapes are only numbers and names here. The engine computes with
//! them.

pub mod arch;
pub mod chat;
pub mod embedded;
mod error;
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

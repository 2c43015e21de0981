//! Model files as plain data: the GGUF reader and writer, the supported architectures, tokenizers and chat templates.
//!
//! Independent of ggml: tensor types and shapes are only numbers and names here. The engine computes with them.

pub mod arch;
pub mod chat;
pub mod embedded;
mod error;
pub mod gguf;
pub mod shapes;
pub mod spec;
pub mod tokenizer;
pub mod types;

pub use error::LoadError;

#[cfg(test)]
mod tests {
    use super::chat::ChatTemplate;
    use super::gguf::GgufFile;
    use super::tokenizer::Tokenizer;

    /// A model is shared by threads, and these are its parts.
    #[test]
    fn files_tokenizers_and_chat_templates_are_send_and_sync() {
        fn is_send_and_sync<T: Send + Sync>() {}
        is_send_and_sync::<GgufFile>();
        is_send_and_sync::<Tokenizer>();
        is_send_and_sync::<ChatTemplate>();
    }
}

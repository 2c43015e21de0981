//! What a model file says, as plain data: the GGUF reader and writer, the architectures known here, tokenizer and chat template.
//! Relies on nothing of ggml: types and shapes are numbers and names, and computing with them is the engine's business.

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

//! Chat templates and tokenizers. What looks at its whole process is a file beside this folder.

mod chat_templates;
mod lost_messages;
mod pretokenizers;
mod tokenizer_cases;
mod tokenizer_metadata;
mod tools;

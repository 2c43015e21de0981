//! Compiles arbitrary templates and renders conversations with them. Whatever the template does, this process
//! must go on. README.md has the command.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use models::chat::{ChatTemplate, Message};
use models::embedded;
use models::gguf::GgufFile;
use models::tokenizer::Tokenizer;

static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| {
    let file = GgufFile::from_bytes(embedded::needle()).expect("the embedded file");
    Tokenizer::from_gguf(&file).expect("its vocabulary")
});

fuzz_target!(|input: (&str, Vec<String>)| {
    let (source, contents) = input;
    let role = |i: usize| ["user", "assistant"][i % 2];
    let messages: Vec<Message> =
        contents.into_iter().enumerate().map(|(i, content)| Message::new(role(i), content)).collect();
    let used = ChatTemplate::new(Some(source), &TOKENIZER).and_then(|template| {
        let _ = template.next_turn(&messages);
        template.prompt(&messages, true)?.encode(&TOKENIZER)
    });
    if let Err(error) = used {
        assert!(!error.to_string().is_empty() && !error.hint().is_empty());
    }
});

//! Asks a question about a document:
//!
//!     cargo run --release -p longhand --example ask -- docs/policies.md "Which policies are there?" [model.gguf]

use std::error::Error;

use longhand::{Chat, ChatOptions, Model, ModelSource, Preamble, Setup, SetupOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(path), Some(question)) = (arguments.next(), arguments.next()) else {
        return Err("usage: ask DOCUMENT QUESTION [MODEL]".into());
    };
    let source = arguments.next().map_or(ModelSource::Embedded, |path| ModelSource::File(path.into()));

    // A model file is opened without its weights: enough to tokenise the document and to plan.
    let model = Model::open(source)?;
    let preamble = Preamble::new(model.chat_format()?, None, &std::fs::read_to_string(path)?)?;
    let options = SetupOptions { policy: Some("razor".parse()?), ..SetupOptions::default() };
    let setup = Setup::resolve(&model, &options, preamble.min_tokens(), &mut ())?;
    eprintln!("{} tokens, {} bytes of KV store", preamble.document_tokens(), setup.plan().host.store);

    // Now the weights are loaded, and the head profile is calibrated if the model has none yet.
    let session = setup.start(&mut ())?;
    let mut chat = Chat::new(session, ChatOptions { preamble, ..ChatOptions::default() })?;
    chat.ask(&question, &mut |piece| print!("{piece}"))?;
    println!();
    Ok(())
}

//! Saves a conversation with its KV cache, and continues it with nothing read again:
//!
//!     cargo run --release -p longhand --example save_and_resume

use std::error::Error;

use longhand::saved::SavedChat;
use longhand::{Chat, ChatOptions, Model, ModelSource, Preamble, Setup, SetupOptions};

const DOCUMENT: &str =
    "The old boat crossed the quiet river. Mary's favorite number is 34251. The pass key is 9078648.";

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::temp_dir().join(format!("longhand-example-{}.session", std::process::id()));
    let model = Model::open(ModelSource::Embedded)?;
    let options = SetupOptions::default();

    let preamble = Preamble::new(model.chat_format()?, None, DOCUMENT)?;
    let setup = Setup::resolve(&model, &options, preamble.min_tokens(), &mut ())?;
    let mut chat = Chat::new(setup.start(&mut ())?, ChatOptions { preamble, ..ChatOptions::default() })?;
    println!("{}", chat.ask("What is Mary's favorite number?", &mut |_| ())?.text);
    chat.save(&path)?;
    drop(chat);

    // Another process would begin here. The file knows how its session was made.
    let saved = SavedChat::open(&path)?;
    let setup = Setup::resume(&model, &options, saved.options().clone(), &mut ())?;
    let mut chat = saved.restore(&setup.load(&mut ())?, ChatOptions::default())?;
    let reading = chat.read("What is the pass key?", &mut |_| ())?;
    println!("{} tokens were read", reading.tokens);
    println!("{}", chat.answer(&mut |_| std::ops::ControlFlow::Continue(()))?.text);
    std::fs::remove_file(&path)?;
    Ok(())
}

//! A conversation, line by line, with progress, undo and another answer:
//!
//!     cargo run --release -p longhand --example chat -- [model.gguf]

use std::error::Error;
use std::io::{self, BufRead, Write};
use std::ops::ControlFlow;

use longhand::{Chat, ChatOptions, Model, ModelSource, Progress, Setup, SetupOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let source = std::env::args().nth(1).map_or(ModelSource::Embedded, |path| ModelSource::File(path.into()));
    let setup = Setup::resolve(&Model::open(source)?, &SetupOptions::default(), 0, &mut ())?;
    let session = setup.start(&mut |progress: Progress| show(progress))?;
    let mut chat = Chat::new(session, ChatOptions::default())?;
    println!("/again gives another answer, /undo takes a question back, an empty line ends");
    for line in io::stdin().lock().lines() {
        match line?.trim() {
            "" => break,
            "/undo" => println!("{}", if chat.undo() { "taken back" } else { "nothing to take back" }),
            "/again" => match chat.retract_answer(&mut show)? {
                Some(_) => answer(&mut chat)?,
                None => println!("there is no answer yet"),
            },
            question => {
                chat.read(question, &mut show)?;
                answer(&mut chat)?;
            }
        }
    }
    Ok(())
}

/// Prints an answer as it is generated.
fn answer(chat: &mut Chat) -> Result<(), Box<dyn Error>> {
    let answer = chat.answer(&mut |piece| {
        print!("{piece}");
        match io::stdout().flush() {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    })?;
    println!("\n[{:.1} tokens per second]", answer.steps_per_second());
    Ok(())
}

fn show(progress: Progress) {
    eprint!("\r{:?}: {:3.0} % ", progress.task, 100.0 * progress.share);
    if progress.share >= 1.0 {
        eprintln!();
    }
}

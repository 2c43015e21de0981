//! One turn of a conversation: the model reads a question and generates an answer. Ctrl-C stops either.

use std::io;
use std::ops::ControlFlow;

use anyhow::Result;
use longhand::{Chat, EngineError, Generated, Observer, Reading};

use crate::app::App;
use crate::crash_save;

/// Reads a question, with a progress bar.
pub fn read(app: &App, chat: &mut Chat, question: &str) -> Result<Reading, EngineError> {
    let mut reporter = app.reporter();
    // If the GPU is lost while the question is read, the question must be saved too.
    crash_save::set_messages(chat.messages());
    crash_save::append(&format!("[user]\n{}\n\n", question.trim_end()));
    let reading =
        app.interrupt.computing(|| chat.read(question, &mut |progress| reporter.progress(progress)));
    // After other errors the program ends, and the question is saved too.
    if reading.as_ref().map_or_else(EngineError::is_interrupt, |_| true) {
        crash_save::set_messages(chat.messages());
    }
    reading
}

/// Generates an answer to what was read. `print` receives its text piece by piece.
pub fn generate(
    app: &App,
    chat: &mut Chat,
    print: &mut dyn FnMut(&str) -> io::Result<()>,
) -> Result<Generated> {
    let mut printed = Ok(());
    let mut on_piece = |piece: &str| {
        crash_save::append(piece);
        if !piece.is_empty() {
            printed = print(piece);
        }
        match printed.is_err() || app.interrupt.is_pressed() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let generated = app.interrupt.generating(|| chat.answer(&mut on_piece))?;
    crash_save::set_messages(chat.messages());
    printed?;
    Ok(generated)
}

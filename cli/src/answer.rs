//! How answers are shown: on a terminal as formatted text, elsewhere as the model wrote them.

mod code;
pub mod fence;
mod inline;
mod languages;
mod markdown;
mod rows;
mod style;

use std::io;

use self::markdown::Markdown;
use crate::console::Console;

/// Shows one answer while it is generated.
pub struct AnswerView {
    console: Console,
    /// `None` where the text is shown as it is.
    markdown: Option<Markdown>,
}

impl AnswerView {
    /// Nothing is shown yet.
    pub fn new(console: Console) -> AnswerView {
        let markdown = console.formats_answers().then(|| Markdown::new(console.color()));
        AnswerView { console, markdown }
    }

    /// Shows a piece of the answer.
    pub fn push(&mut self, piece: &str) -> io::Result<()> {
        match &mut self.markdown {
            Some(markdown) => self.console.print(&markdown.push(piece, self.console.width())),
            None => self.console.print_answer(piece),
        }
    }

    /// Shows the rest, and ends the line.
    pub fn finish(&mut self) -> io::Result<()> {
        match &mut self.markdown {
            Some(markdown) => self.console.print(&markdown.finish(self.console.width())),
            None => self.console.print("\n"),
        }
    }
}

//! How answers are shown: on a terminal as formatted text, elsewhere as the model wrote them.

mod code;
pub mod fence;
mod inline;
mod languages;
mod markdown;
mod rows;
mod style;
mod table;
mod thoughts;

use std::io;

use longhand::text::{Split, ThinkingStream};

use self::markdown::Markdown;
use self::thoughts::Thoughts;
use crate::console::Console;

/// Shows one answer while it is generated.
pub struct AnswerView {
    console: Console,
    hides_thinking: bool,
    parts: ThinkingStream,
    /// `None` where the text is shown as it is.
    formatted: Option<(Thoughts, Markdown)>,
}

impl AnswerView {
    /// Nothing is shown yet.
    pub fn new(console: Console, hides_thinking: bool) -> AnswerView {
        let formatted = || (Thoughts::new(hides_thinking), Markdown::new(console.color()));
        AnswerView {
            console,
            hides_thinking,
            parts: ThinkingStream::default(),
            formatted: console.formats_answers().then(formatted),
        }
    }

    /// Goes on with an answer of which `shown` was shown. It begins on a new row.
    pub fn resume(console: Console, hides_thinking: bool, shown: &str) -> AnswerView {
        let mut view = AnswerView::new(console, hides_thinking);
        let split = view.parts.push(shown);
        if let Some((_, markdown)) = &mut view.formatted {
            markdown.resume(&split.answer);
        }
        view
    }

    /// Shows a piece of the answer.
    pub fn push(&mut self, piece: &str) -> io::Result<()> {
        if self.formatted.is_none() && !self.hides_thinking {
            return self.console.print_answer(piece);
        }
        let split = self.parts.push(piece);
        self.show(&split)
    }

    /// Shows what the model has thought.
    pub fn push_thinking(&mut self, text: &str) -> io::Result<()> {
        let columns = self.console.width();
        match &mut self.formatted {
            Some((thoughts, _)) => self.console.print(&thoughts.push(text, columns)),
            None => self.console.print_answer(text),
        }
    }

    /// Shows the rest, and ends the line.
    pub fn finish(&mut self) -> io::Result<()> {
        let rest = self.parts.finish();
        if self.formatted.is_some() || self.hides_thinking {
            self.show(&rest)?;
        }
        let columns = self.console.width();
        match &mut self.formatted {
            Some((thoughts, markdown)) => {
                self.console.print(&(thoughts.finish() + &markdown.finish(columns)))
            }
            None => self.console.print("\n"),
        }
    }

    fn show(&mut self, split: &Split) -> io::Result<()> {
        let columns = self.console.width();
        let Some((thoughts, markdown)) = &mut self.formatted else {
            return self.console.print_answer(&split.answer);
        };
        let mut out = String::new();
        if self.parts.is_thinking() || !split.thinking.is_empty() {
            out += &thoughts.push(&split.thinking, columns);
        }
        if !split.answer.is_empty() {
            out += &thoughts.finish();
            out += &markdown.push(&split.answer, columns);
        }
        self.console.print(&out)
    }
}

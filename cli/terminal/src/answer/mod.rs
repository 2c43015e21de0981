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
mod underline;

use std::io;
use std::sync::Arc;

use longhand::text::{Split, ThinkingStream};
use lookup::absent::Known;

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

    /// Underlines what of the answer does not stand in what is known; nothing if that is `None`.
    pub fn compared_with(mut self, known: Option<Arc<Known>>) -> AnswerView {
        if let (Some((_, markdown)), Some(known)) = (&mut self.formatted, known) {
            markdown.underline(known);
        }
        self
    }

    /// Goes on with an answer of which `shown` was shown. It begins on a new row.
    pub fn resume(mut self, shown: &str) -> AnswerView {
        let split = self.parts.push(shown);
        if let Some((_, markdown)) = &mut self.formatted {
            markdown.resume(&split.answer);
        }
        self
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

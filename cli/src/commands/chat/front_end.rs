//! Where messages come from and answers go to: a terminal with a line editor, or plain lines.

use std::collections::VecDeque;
use std::io::{self, BufRead};
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};
use longhand::text::sanitize_for_terminal;
use terminal::answer::AnswerView;
use terminal::interrupt::Event;
use terminal::{console, format, tty};

use crate::app::App;
use crate::commands::chat::commands::{Message, is_unfinished};
use crate::commands::chat::inbox::{End, Inbox, Next};
use crate::commands::chat::line::editing::Editing;
use crate::commands::chat::status::Status;

/// The user's side of a chat.
pub struct FrontEnd<'a> {
    app: &'a App,
    hides_thinking: bool,
    /// Questions of the command line that were not asked yet.
    first: VecDeque<Message>,
    input: Input,
}

enum Input {
    Keys(Box<Editing>),
    Lines(Arc<Inbox<Line>>),
}

/// A line with its end, or why it cannot be read.
type Line = io::Result<Vec<u8>>;

impl<'a> FrontEnd<'a> {
    /// Begins to read what the user types or pipes in. From now on signals end the chat in order. `private`: what is
    /// typed is not kept for the next chat.
    pub fn open(app: &'a App, private: bool) -> Result<FrontEnd<'a>> {
        #[cfg(unix)]
        app.interrupt.watch_signals();
        if tty::has_keys() {
            let editing = Editing::start(app, private).inspect_err(|_| tty::restore())?;
            let input = Input::Keys(Box::new(editing));
            return Ok(FrontEnd { app, hides_thinking: false, first: VecDeque::new(), input });
        }
        let inbox = Arc::new(Inbox::new());
        let (for_lines, for_events) = (inbox.clone(), inbox.clone());
        app.interrupt.listen(move |event| match event {
            Event::End(signal) => {
                for_events.end(End::Signal(signal));
                true
            }
            _ => false,
        });
        let reader = thread::Builder::new().name("lines".to_owned()).spawn(move || read_lines(&for_lines));
        reader.context("cannot start a thread")?;
        Ok(FrontEnd { app, hides_thinking: false, first: VecDeque::new(), input: Input::Lines(inbox) })
    }

    /// These questions are asked first.
    pub fn begin_with(&mut self, questions: Vec<Message>) {
        self.first.extend(questions);
    }

    /// Waits for the next message.
    pub fn next_message(&mut self) -> Result<Next> {
        let app = self.app;
        if let Some(message) = self.first.pop_front().filter(|message| !message.text().trim().is_empty()) {
            if app.console.stdout_terminal() {
                let shown = format!("> {}", sanitize_for_terminal(message.text().trim()));
                app.console.print(&format!("{}\n", app.console.paint(36, &shown)))?;
            }
            return Ok(Next::Message(message));
        }
        match &mut self.input {
            Input::Keys(editing) => app.interrupt.prompting(|| editing.next_message(app)),
            Input::Lines(inbox) => next_line(app, inbox),
        }
    }

    /// What the prompt shows of work that goes on behind it; `None` where there is no such prompt.
    pub fn status(&self) -> Option<Arc<Status>> {
        match &self.input {
            Input::Keys(editing) => Some(editing.status()),
            Input::Lines(_) => None,
        }
    }

    /// Lets the user change the last question with the next message. False if there is no line editor.
    pub fn revise(&mut self, question: &str) -> bool {
        if let Input::Keys(editing) = &mut self.input {
            editing.revise(question);
            return true;
        }
        false
    }

    /// Lets the user change a message that could not be sent, if nothing else was typed since. Without a line editor it is
    /// lost.
    pub fn put_back(&mut self, message: &str) {
        if let Input::Keys(editing) = &mut self.input {
            editing.put_back(message);
        }
    }

    /// Whether messages are typed on a terminal.
    pub fn is_typed(&self) -> bool {
        !matches!(self.input, Input::Lines(_))
    }

    /// Whether the message that came last is to replace the question before it.
    pub fn sent_revision(&self) -> bool {
        match &self.input {
            Input::Keys(editing) => editing.sent_revision(),
            Input::Lines(_) => false,
        }
    }

    /// The model works from now on: Ctrl-C and Ctrl-Z act at once.
    pub fn begin_work(&mut self) {
        match &mut self.input {
            Input::Keys(editing) => editing.begin_work(),
            Input::Lines(_) => {}
        }
    }

    /// The work is done: all keys are for the next message.
    pub fn end_work(&mut self) {
        match &mut self.input {
            Input::Keys(editing) => editing.end_work(),
            Input::Lines(_) => {}
        }
    }

    /// Shows an answer.
    pub fn answer_view(&self) -> AnswerView {
        AnswerView::new(self.app.console, self.hides_thinking)
    }

    /// Hides what the model thinks from now on, or shows it.
    pub fn hide_thinking(&mut self, hides: bool) {
        self.hides_thinking = hides;
    }

    /// Shows what the model has thought, also if that is hidden while it thinks.
    pub fn print_thinking(&self, text: &str) -> io::Result<()> {
        let mut view = AnswerView::new(self.app.console, false);
        view.push_thinking(text)?;
        view.finish()
    }

    /// Shows a text of the program itself, in lines that fit the terminal.
    pub fn print(&self, text: &str) -> io::Result<()> {
        self.app.console.print(&format::fitted(text, self.app.console.width()))
    }

    /// The same for a text that may quote foreign text.
    pub fn print_list(&self, text: &str) -> io::Result<()> {
        self.print(&console::visible(text))
    }

    /// Shows a line that is not part of the conversation.
    pub fn note(&self, text: &str) {
        self.app.console.note(text);
    }
}

impl Drop for FrontEnd<'_> {
    fn drop(&mut self) {
        tty::restore();
    }
}

/// Reads lines of stdin until it ends.
fn read_lines(inbox: &Inbox<Line>) {
    loop {
        let mut line = Vec::new();
        match io::stdin().lock().read_until(b'\n', &mut line) {
            Ok(0) => return inbox.end(End::Exit),
            Ok(_) => inbox.push_when_empty(Ok(line)),
            Err(error) => {
                inbox.push_when_empty(Err(error));
                return inbox.end(End::Exit);
            }
        }
    }
}

/// The next message of lines. Lines that are not UTF-8 are skipped with an error.
fn next_line(app: &App, inbox: &Inbox<Line>) -> Result<Next> {
    let mut text = String::new();
    loop {
        if app.console.stdout_terminal() && text.is_empty() {
            app.console.print(&app.console.paint(36, "> "))?;
        }
        let line = app.interrupt.prompting(|| inbox.next());
        console::line_ended();
        match line.map(|line| line.map(String::from_utf8)) {
            Ok(Ok(Ok(line))) => text += &line,
            Ok(Ok(Err(_))) => {
                app.console.note("error: the line is not UTF-8\nhint: check the terminal's encoding")
            }
            Ok(Err(error)) => return Err(error.into()),
            Err(end) => {
                if app.console.stdout_terminal() {
                    app.console.print("\n")?;
                }
                // Quotes whose end is missing end with the input.
                let message = Message::from_text(&text).filter(|_| end == End::Exit);
                return Ok(message.map_or(Next::End(end), Next::Message));
            }
        }
        if is_unfinished(&text) {
            continue;
        }
        if let Some(message) = Message::from_text(&std::mem::take(&mut text)) {
            return Ok(Next::Message(message));
        }
    }
}

//! The user's side of a chat in a terminal: reads keys, edits the message and draws it.

use std::io;
use std::sync::Arc;

use anyhow::Result;

use super::commands::{self, Message};
use super::editor::{Action, Editor, PROMPT};
use super::front_end::Next;
use super::history::History;
use super::inbox::End;
use super::keyboard::Keyboard;
use super::keys::Key;
use super::outside;
use super::screen::{self, Plain, Rows, Screen};
use super::status::Status;
use crate::app::App;
use crate::console::Console;
use crate::interrupt::Event;
use crate::{failure, terminal};

/// Edits messages.
pub struct Editing {
    keyboard: Keyboard,
    editor: Editor,
    screen: Screen,
    /// Whether the terminal understands control sequences.
    is_smart: bool,
    status: Arc<Status>,
    shows_status: bool,
    /// Whether the text is to replace the last question, and whether the message sent last is.
    is_revision: bool,
    sent_revision: bool,
}

impl Editing {
    /// Begins to read keys. `private`: what is sent is not kept in the history's file.
    pub fn start(app: &App, private: bool) -> Result<Editing> {
        let console = app.console;
        let (history, not_kept) = History::open(private);
        if let Some(reason) = not_kept {
            console.note(&format!("note: messages are not kept for the next chat: {reason}"));
        }
        let is_smart = console.control_sequences();
        terminal::enter(is_smart)?;
        let keyboard = Keyboard::start(&app.interrupt)?;
        let inbox = keyboard.inbox.clone();
        app.interrupt.listen(move |event| {
            match event {
                Event::Interrupt => inbox.push(Key::Ctrl('c')),
                Event::Continued | Event::Resized => inbox.push(Key::Redraw),
                Event::End(signal) => inbox.end(End::Signal(signal)),
            }
            true
        });
        let inbox = keyboard.inbox.clone();
        let status = Arc::new(Status::new(move || inbox.push(Key::Redraw)));
        let (editor, screen) = (Editor::new(history), screen_for(console));
        let shows_status = is_smart && !console.quiet();
        Ok(Editing {
            keyboard,
            editor,
            screen,
            is_smart,
            status,
            shows_status,
            is_revision: false,
            sent_revision: false,
        })
    }

    /// What the prompt shows of work that goes on behind it.
    pub fn status(&self) -> Arc<Status> {
        self.status.clone()
    }

    /// Puts the last question into the line, to be changed. Ctrl-C leaves it as it was.
    pub fn revise(&mut self, question: &str) {
        self.editor.set_text(&commands::typed(question));
        self.is_revision = true;
    }

    /// Whether the message sent last is to replace the question before it.
    pub fn sent_revision(&self) -> bool {
        self.sent_revision
    }

    /// The model works from now on.
    pub fn begin_work(&self) {
        self.keyboard.begin_work();
    }

    /// The work is done.
    pub fn end_work(&self) {
        self.keyboard.end_work();
    }

    /// Waits for the next message.
    pub fn next_message(&mut self, app: &App) -> Result<Next> {
        // A panic that was survived has restored the terminal. If the terminal is gone, the inbox has ended.
        let _ = terminal::enter(self.is_smart);
        self.end_work();
        self.screen.forget();
        let mut may_quit = false;
        loop {
            let key = match self.next_key(app)? {
                Ok(key) => key,
                Err(end) => return Ok(self.end(end)),
            };
            let quits = std::mem::take(&mut may_quit);
            match self.editor.press(key) {
                Action::Nothing => self.keep_plain(),
                Action::Send => {
                    self.sent_revision = std::mem::take(&mut self.is_revision);
                    if let Some(message) = self.send(app)? {
                        return Ok(Next::Message(message));
                    }
                }
                Action::Interrupt if self.is_revision || !self.editor.draft().is_empty() => {
                    self.is_revision = false;
                    self.editor.discard();
                }
                Action::Interrupt if self.status.line().is_some() => {
                    self.finish_line()?;
                    return Ok(Next::Stop);
                }
                Action::Interrupt if quits => return Ok(self.end(End::Interrupt)),
                Action::Interrupt => {
                    self.finish_line()?;
                    app.console.note("(to quit, press Ctrl-C again or Ctrl-D, or type /exit)");
                    may_quit = true;
                }
                Action::EndOfInput => return Ok(self.end(End::Exit)),
                Action::Suspend => {
                    self.finish_line()?;
                    self.keyboard.paused(terminal::suspend);
                }
                Action::EditElsewhere => self.edit_elsewhere(app)?,
                Action::ClearScreen => self.screen.clear_all()?,
                Action::List(texts) => {
                    self.finish_line()?;
                    app.console.print(&columns(&texts, terminal::size().0))?;
                }
            }
        }
    }

    /// Draws the text and waits for the next key, or for the end of the chat.
    fn next_key(&mut self, app: &App) -> io::Result<Result<Key, End>> {
        loop {
            for note in self.status.take_notes() {
                self.screen.clear(terminal::size())?;
                app.console.note(&note);
            }
            // What was typed in advance is drawn at once.
            if !self.keyboard.inbox.is_ready() {
                self.draw()?;
            }
            match self.keyboard.inbox.next() {
                Ok(Key::Redraw) => {}
                next => return Ok(next),
            }
        }
    }

    /// Without control sequences the text is changed at its end only.
    fn keep_plain(&mut self) {
        if !self.is_smart {
            self.editor.move_to_end();
        }
    }

    fn draw(&mut self) -> io::Result<()> {
        let (prompt, draft) = self.editor.view();
        let status = self.status.line().filter(|_| self.shows_status);
        self.screen.draw(status.as_deref(), &prompt, draft, terminal::size())
    }

    /// Leaves the text as it is, and begins a new line.
    fn finish_line(&mut self) -> io::Result<()> {
        let (prompt, draft) = self.editor.view();
        self.screen.finish(&prompt, draft, terminal::size())
    }

    fn end(&mut self, end: End) -> Next {
        // The terminal may be gone.
        let _ = self.finish_line();
        Next::End(end)
    }

    /// Takes the text as a message; `None` if it is empty.
    fn send(&mut self, app: &App) -> Result<Option<Message>> {
        let (draft, kept) = self.editor.take();
        self.screen.finish(PROMPT, &draft, terminal::size())?;
        if let Err(error) = kept {
            app.console.note(&format!("note: messages are no longer kept for the next chat: {error}"));
        }
        Ok(Message::from_draft(&draft))
    }

    /// Edits the text in the user's own editor. If that fails, the text stays.
    fn edit_elsewhere(&mut self, app: &App) -> Result<()> {
        self.screen.clear(terminal::size())?;
        terminal::restore();
        let (keyboard, before) = (&self.keyboard, self.editor.draft().text());
        let edited =
            app.interrupt.waiting_for_child(|| keyboard.paused(|| outside::edit(&before, &keyboard.inbox)));
        terminal::enter(self.is_smart)?;
        self.screen.forget();
        match edited {
            // Pastes stay folded.
            Ok(text) if text == before => {}
            Ok(text) => self.editor.set_text(&text),
            Err(error) => app.console.note(failure::report(&error).text.trim_end()),
        }
        Ok(())
    }
}

/// Where the text is drawn: on stdout, or else on stderr, so that a file behind stdout holds answers only.
fn screen_for(console: Console) -> Screen {
    if console.control_sequences() {
        return Screen::Rows(Rows::new(console));
    }
    Screen::Plain(Plain::new(match (console.stdout_terminal(), console.stderr_terminal()) {
        (true, _) => Box::new(io::stdout()),
        (false, true) => Box::new(io::stderr()),
        (false, false) => Box::new(io::sink()),
    }))
}

/// Texts in columns of equal width.
fn columns(texts: &[String], width: usize) -> String {
    let texts: Vec<String> = texts.iter().map(|text| screen::visible(text.trim_end())).collect();
    let cell = texts.iter().map(|text| screen::width(text)).max().unwrap_or(0) + 2;
    let per_row = (width / cell).max(1);
    let mut out = String::new();
    for (i, text) in texts.iter().enumerate() {
        out += text;
        match (i + 1) % per_row == 0 || i + 1 == texts.len() {
            true => out.push('\n'),
            false => out += &" ".repeat(cell - screen::width(text)),
        }
    }
    out
}

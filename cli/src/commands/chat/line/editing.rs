//! The user's side of a chat in a terminal: reads keys, edits the message and draws it.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Result;
use terminal::console::{self, Console};
use terminal::interrupt::Event;
use terminal::line::keys::Key;
use terminal::line::screen::{Plain, Screen, ScreenRows, columns};
use terminal::tty;

use crate::app::App;
use crate::commands::chat::commands::{self, Message};
use crate::commands::chat::inbox::{End, Next};
use crate::commands::chat::line::editor::{Action, Editor};
use crate::commands::chat::line::history::{History, not_kept};
use crate::commands::chat::line::input_line::{InputLine, Waiting};
use crate::commands::chat::line::keyboard::Keyboard;
use crate::commands::chat::outside;
use crate::commands::chat::status::Status;
use crate::failure;

/// Edits messages.
pub struct Editing {
    keyboard: Keyboard,
    line: Arc<InputLine>,
    /// Whether the terminal understands control sequences.
    is_smart: bool,
    /// Whether the line stays on the screen while the model works.
    stays: bool,
    /// The thread that edits the line while the model works.
    typing: Option<JoinHandle<()>>,
    console: Console,
    status: Arc<Status>,
    shows_status: bool,
    /// Whether the message sent last is to replace the last question.
    sent_revision: bool,
}

impl Editing {
    /// Begins to read keys. `private`: what is sent is not kept in the history's file.
    pub fn start(app: &App, private: bool) -> Result<Editing> {
        let console = app.console;
        let (history, problem) = History::open(private);
        if let Some(reason) = problem {
            console.note(&format!("note: messages are not kept for the next chat: {reason}"));
        }
        let is_smart = console.control_sequences();
        let stays = console.formats_answers();
        tty::enter(is_smart)?;
        let line = InputLine::new(Editor::new(history), screen_for(console), &app.interrupt, console);
        let line = Arc::new(line);
        let suspended = line.clone();
        // Where the line stays, what Esc does depends on it.
        let keyboard = Keyboard::start(&app.interrupt, is_smart && !stays, move || match stays {
            true => suspended.suspended(tty::suspend),
            false => tty::suspend(),
        })?;
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
        let shows_status = stays && !console.quiet();
        Ok(Editing {
            keyboard,
            line,
            is_smart,
            stays,
            typing: None,
            console,
            status,
            shows_status,
            sent_revision: false,
        })
    }

    /// What the prompt shows of work that goes on behind it.
    pub fn status(&self) -> Arc<Status> {
        self.status.clone()
    }

    /// Puts the last question into the line, to be changed. Ctrl-C leaves it as it was.
    pub fn revise(&mut self, question: &str) {
        let mut typed = self.line.lock();
        typed.editor.set_text(&commands::typed(question));
        typed.is_revision = true;
    }

    /// Puts a message back into the line, to be changed, unless something else is there.
    pub fn put_back(&mut self, message: &str) {
        let mut typed = self.line.lock();
        if typed.editor.draft().is_empty() {
            typed.editor.set_text(message);
        }
    }

    /// Whether the message sent last is to replace the question before it.
    pub fn sent_revision(&self) -> bool {
        self.sent_revision
    }

    /// The model works from now on.
    pub fn begin_work(&mut self) {
        self.keyboard.begin_work();
        if !self.stays {
            return;
        }
        let (line, inbox, console) = (self.line.clone(), self.keyboard.inbox.clone(), self.console);
        let typing = thread::Builder::new().name("typing".to_owned());
        // Without a thread, what is typed waits for the next prompt.
        let Ok(typing) = typing.spawn(move || line.take_keys(&inbox, console)) else { return };
        self.typing = Some(typing);
        console::set_below(Some(self.line.clone()));
        self.line.draw_in_work();
    }

    /// The work is done.
    pub fn end_work(&mut self) {
        let Some(typing) = self.typing.take() else { return self.keyboard.end_work() };
        let mut typed = self.line.lock();
        // No key is taken from here on.
        self.keyboard.end_work();
        // The terminal may be gone.
        let _ = typed.screen.clear(tty::size());
        drop(typed);
        console::set_below(None);
        let _ = typing.join();
    }

    /// Waits for the next message.
    pub fn next_message(&mut self, app: &App) -> Result<Next> {
        // A panic that was survived has restored the terminal. If the terminal is gone, the inbox has ended.
        let _ = tty::enter(self.is_smart);
        self.end_work();
        self.line.lock().screen.forget();
        if let Some(next) = self.next_waiting()? {
            return Ok(next);
        }
        let mut may_quit = false;
        loop {
            let key = match self.next_key(app)? {
                Ok(key) => key,
                Err(end) => return Ok(self.end(end)),
            };
            let quits = std::mem::take(&mut may_quit);
            let mut typed = self.line.lock();
            match typed.editor.press(key) {
                // Without control sequences the text is changed at its end only.
                Action::Nothing if !self.is_smart => typed.editor.move_to_end(),
                Action::Nothing => {}
                Action::Send => {
                    drop(typed);
                    if let Some(message) = self.send(app)? {
                        return Ok(Next::Message(message));
                    }
                }
                Action::Interrupt if typed.is_revision || !typed.editor.draft().is_empty() => {
                    typed.is_revision = false;
                    typed.editor.discard();
                }
                Action::Interrupt => {
                    drop(typed);
                    if self.status.line().is_some() {
                        self.line.finish()?;
                        return Ok(Next::Stop);
                    }
                    if quits {
                        return Ok(self.end(End::Interrupt));
                    }
                    self.line.finish()?;
                    app.console.note("(to quit, press Ctrl-C again or Ctrl-D, or type /exit)");
                    may_quit = true;
                }
                Action::EndOfInput => {
                    drop(typed);
                    return Ok(self.end(End::Exit));
                }
                Action::Suspend => {
                    drop(typed);
                    self.line.finish()?;
                    self.keyboard.paused(tty::suspend);
                }
                Action::EditElsewhere => {
                    drop(typed);
                    self.edit_elsewhere(app)?;
                }
                Action::ClearScreen => typed.screen.clear_all()?,
                Action::List(texts) => {
                    drop(typed);
                    self.line.finish()?;
                    app.console.print(&columns(&texts, tty::size().0))?;
                }
            }
        }
    }

    /// The message that was sent first while the model worked; `None` if there is none.
    fn next_waiting(&mut self) -> Result<Option<Next>> {
        // A signal ends the chat at once.
        while !self.keyboard.inbox.wait_for_end(Duration::ZERO) {
            let waiting = self.line.lock().next_waiting();
            match waiting {
                None => break,
                Some(Waiting::Exit) => return Ok(Some(Next::End(End::Exit))),
                Some(Waiting::Message { draft, is_revision }) => {
                    self.line.finish_message(&draft)?;
                    self.sent_revision = is_revision;
                    if let Some(message) = Message::from_draft(&draft) {
                        return Ok(Some(Next::Message(message)));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Draws the text and waits for the next key, or for the end of the chat.
    fn next_key(&mut self, app: &App) -> io::Result<Result<Key, End>> {
        loop {
            for note in self.status.take_notes() {
                self.line.lock().screen.clear(tty::size())?;
                app.console.note(&note);
            }
            // What was typed in advance is drawn at once.
            if !self.keyboard.inbox.is_ready() {
                let status = self.status.line().filter(|_| self.shows_status);
                self.line.lock().draw(status)?;
            }
            match self.keyboard.inbox.next() {
                Ok(Key::Redraw) => {}
                next => return Ok(next),
            }
        }
    }

    fn end(&mut self, end: End) -> Next {
        // The terminal may be gone.
        let _ = self.line.finish();
        Next::End(end)
    }

    /// Takes the text as a message; `None` if it is empty.
    fn send(&mut self, app: &App) -> Result<Option<Message>> {
        let mut typed = self.line.lock();
        let (draft, kept) = typed.editor.take();
        self.sent_revision = std::mem::take(&mut typed.is_revision);
        drop(typed);
        self.line.finish_message(&draft)?;
        if let Err(error) = kept {
            app.console.note(&not_kept(&error));
        }
        Ok(Message::from_draft(&draft))
    }

    /// Edits the text in the user's own editor. If that fails, the text stays.
    fn edit_elsewhere(&mut self, app: &App) -> Result<()> {
        let mut typed = self.line.lock();
        typed.screen.clear(tty::size())?;
        let before = typed.editor.draft().text();
        drop(typed);
        tty::restore();
        let keyboard = &self.keyboard;
        let edited =
            app.interrupt.waiting_for_child(|| keyboard.paused(|| outside::edit(&before, &keyboard.inbox)));
        tty::enter(self.is_smart)?;
        let mut typed = self.line.lock();
        typed.screen.forget();
        match edited {
            // Pastes stay folded.
            Ok(text) if text == before => {}
            Ok(text) => typed.editor.set_text(&text),
            Err(error) => app.console.note(failure::report(&error).text.trim_end()),
        }
        Ok(())
    }
}

impl Drop for Editing {
    fn drop(&mut self) {
        // An error may have ended the work.
        self.end_work();
    }
}

/// Where the text is drawn: on stdout, or else on stderr, so that a file behind stdout holds answers only.
fn screen_for(console: Console) -> Screen {
    if console.control_sequences() {
        return Screen::Rows(ScreenRows::new(console));
    }
    Screen::Plain(Plain::new(match (console.stdout_terminal(), console.stderr_terminal()) {
        (true, _) => Box::new(io::stdout()),
        (false, true) => Box::new(io::stderr()),
        (false, false) => Box::new(io::sink()),
    }))
}

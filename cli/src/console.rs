//! stdout and stderr: what kind of thing they lead to, and writing to them without ever panicking. Text of models, documents and
//! metadata is made harmless before it reaches a terminal; into a file or pipe it goes as it is.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use longhand::text::sanitize_for_terminal;
use serde::Serialize;

/// Whether the last line of stdout has no end yet.
static OPEN_LINE: AtomicBool = AtomicBool::new(false);

/// The user's Enter has ended the line of the prompt.
pub fn line_ended() {
    OPEN_LINE.store(false, Ordering::Relaxed);
}

/// Writes the text of an error to stderr, in a line of its own where an answer breaks off on the same terminal.
pub fn report(text: &str) {
    let mut err = io::stderr().lock();
    if OPEN_LINE.load(Ordering::Relaxed) && io::stdout().is_terminal() && err.is_terminal() {
        let _ = err.write_all(b"\n");
    }
    let _ = err.write_all(text.as_bytes());
}

/// Where output goes.
#[derive(Clone, Copy, Debug)]
pub struct Console {
    stdout_terminal: bool,
    stderr_terminal: bool,
    color: bool,
}

impl Console {
    /// Looks at the streams, `NO_COLOR` and `TERM`.
    pub fn detect() -> Console {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let stdout_terminal = io::stdout().is_terminal();
        Console {
            stdout_terminal,
            stderr_terminal: io::stderr().is_terminal(),
            color: stdout_terminal && !set("NO_COLOR") && !dumb,
        }
    }

    /// Whether colour on stdout is welcome.
    pub fn color(&self) -> bool {
        self.color
    }

    /// Whether stdout is a terminal.
    pub fn stdout_terminal(&self) -> bool {
        self.stdout_terminal
    }

    /// Whether stderr is a terminal.
    pub fn stderr_terminal(&self) -> bool {
        self.stderr_terminal
    }

    /// Foreign text as it may go to stdout.
    pub fn clean<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.stdout_terminal { sanitize_for_terminal(text) } else { Cow::Borrowed(text) }
    }

    /// Writes to stdout at once.
    pub fn print(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        if !text.is_empty() {
            OPEN_LINE.store(!text.ends_with('\n'), Ordering::Relaxed);
        }
        out.flush()
    }

    /// Writes foreign text to stdout at once.
    pub fn print_foreign(&self, text: &str) -> io::Result<()> {
        self.print(&self.clean(text))
    }

    /// Writes an indented JSON document to stdout. JSON escapes most control characters by itself, but not all of them.
    pub fn print_json(&self, value: &impl Serialize) -> anyhow::Result<()> {
        Ok(self.print_foreign(&(serde_json::to_string_pretty(value)? + "\n"))?)
    }

    /// Writes a line to stderr; that nobody reads it is no failure.
    pub fn note(&self, text: &str) {
        let text = sanitize_for_terminal(text);
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    /// `text` in a colour of the basic palette (31 red, 32 green, …) where colour is welcome.
    pub fn paint(&self, color: u8, text: &str) -> String {
        if self.color { format!("\x1b[{color}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

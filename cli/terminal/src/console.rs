//! Standard output and standard error. Writing to them never panics.
//!
//! Text of models, documents and files is foreign. In answers, and in questions that are shown again, control characters
//! are replaced if the output is a terminal; files and pipes receive the text unchanged. In everything else (reports,
//! notes, errors), control characters and invisible ones are always replaced.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use longhand::text::sanitize_for_terminal;
use models::invisible::{escape_invisible, is_invisible};
use serde::Serialize;

use crate::format;

/// Whether the last line on stdout is not ended yet.
static LINE_IS_OPEN: AtomicBool = AtomicBool::new(false);

/// What stays below everything that is printed.
static BELOW: Mutex<Option<Arc<dyn Below>>> = Mutex::new(None);

/// One of the two streams that a terminal shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// Writes and flushes.
    pub fn write(self, text: &str) -> io::Result<()> {
        let write = |mut to: Box<dyn Write>| to.write_all(text.as_bytes()).and_then(|()| to.flush());
        match self {
            Stream::Stdout => write(Box::new(io::stdout().lock())),
            Stream::Stderr => write(Box::new(io::stderr().lock())),
        }
    }
}

/// A line at the bottom of the terminal. While it is there, it writes what is printed, and goes down below it.
pub trait Below: Send + Sync {
    /// Writes a text of a stream above the line.
    fn print(&self, stream: Stream, text: &str) -> io::Result<()>;
    /// Removes the line, unless another thread writes just now.
    fn remove(&self);
}

/// From now on everything that is printed on a terminal goes above this line.
pub fn set_below(below: Option<Arc<dyn Below>>) {
    *BELOW.lock().unwrap_or_else(PoisonError::into_inner) = below;
}

/// The program ends or fails: what is printed next begins where the line was.
pub fn remove_below() {
    // The thread that fails may hold the lock.
    if let Some(below) = BELOW.try_lock().ok().and_then(|mut below| below.take()) {
        below.remove();
        line_ended();
    }
}

/// Writes text for a terminal, above the line at its bottom.
fn print_on_terminal(stream: Stream, text: &str) -> io::Result<()> {
    let below = BELOW.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match below {
        Some(below) => below.print(stream, text),
        None => stream.write(text),
    }
}

/// Writes to the terminal that stderr is, without a line break. Errors are ignored.
pub fn print_progress(text: &str) {
    let _ = print_on_terminal(Stream::Stderr, text);
}

/// Call this after the user has pressed Enter at a prompt, which ends the line on the terminal.
pub fn line_ended() {
    LINE_IS_OPEN.store(false, Ordering::Relaxed);
}

/// Text that may quote foreign text, with control and invisible characters replaced by visible ones.
pub fn visible(text: &str) -> String {
    sanitize_for_terminal(&escape_invisible(text)).into_owned()
}

/// The same on one line.
pub fn one_line(text: &str) -> String {
    visible(&text.replace(['\n', '\t'], " "))
}

/// The error of a write to stdout that says where it failed.
pub fn stdout_error(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write to standard output: {error}"))
}

/// Writes an error to stderr, on a new line if the terminal shows an unfinished answer.
pub fn print_error(text: &str) {
    remove_below();
    let mut err = io::stderr().lock();
    if LINE_IS_OPEN.load(Ordering::Relaxed) && io::stdout().is_terminal() && err.is_terminal() {
        let _ = err.write_all(b"\n");
    }
    let _ = err.write_all(text.as_bytes());
}

/// Whether the terminal obeys control sequences: on Windows since version 10, where it is told to.
fn understands_sequences() -> bool {
    #[cfg(windows)]
    return crossterm::ansi_support::supports_ansi();
    #[cfg(not(windows))]
    true
}

/// Standard output and standard error of this process.
#[derive(Clone, Copy, Debug)]
pub struct Console {
    stdout_terminal: bool,
    stderr_terminal: bool,
    dumb: bool,
    color: bool,
    quiet: bool,
    plain: bool,
}

impl Console {
    /// Checks which streams are terminals, and the environment variables `NO_COLOR` and `TERM`.
    pub fn detect() -> Console {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb") || !understands_sequences();
        let stdout_terminal = io::stdout().is_terminal();
        Console {
            stdout_terminal,
            stderr_terminal: io::stderr().is_terminal(),
            dumb,
            color: stdout_terminal && !set("NO_COLOR") && !dumb,
            quiet: false,
            plain: false,
        }
    }

    /// The same without notes and progress, if `quiet`.
    pub fn with_quiet(self, quiet: bool) -> Console {
        Console { quiet, ..self }
    }

    /// The same with answers as the model wrote them, if `plain`.
    pub fn with_plain(self, plain: bool) -> Console {
        Console { plain, ..self }
    }

    /// Whether answers are formatted.
    pub fn formats_answers(&self) -> bool {
        self.control_sequences() && !self.plain
    }

    /// Whether stdout may have colours.
    pub fn color(&self) -> bool {
        self.color
    }

    /// Whether stdout is a terminal.
    pub fn stdout_terminal(&self) -> bool {
        self.stdout_terminal
    }

    /// Whether stdout is a terminal that understands control sequences.
    pub fn control_sequences(&self) -> bool {
        self.stdout_terminal && !self.dumb
    }

    /// Whether stderr may have a progress bar.
    pub fn progress(&self) -> bool {
        self.stderr_terminal && !self.dumb && !self.quiet
    }

    /// Whether notes and progress are not wanted.
    pub fn quiet(&self) -> bool {
        self.quiet
    }

    /// Whether stderr is a terminal.
    pub fn stderr_terminal(&self) -> bool {
        self.stderr_terminal
    }

    /// Columns of the terminal that stdout is; no limit where it is none.
    pub fn width(&self) -> usize {
        let size = || crossterm::terminal::size().ok().map(|(columns, _)| usize::from(columns));
        let columns = self.stdout_terminal.then(size).flatten();
        columns.filter(|columns| *columns > 0).unwrap_or(usize::MAX)
    }

    /// Foreign text, made safe for stdout.
    pub fn sanitize<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.stdout_terminal { sanitize_for_terminal(text) } else { Cow::Borrowed(text) }
    }

    /// Writes to stdout and flushes it.
    pub fn print(&self, text: &str) -> io::Result<()> {
        let written = match self.stdout_terminal {
            true => print_on_terminal(Stream::Stdout, text),
            false => Stream::Stdout.write(text),
        };
        if !text.is_empty() {
            LINE_IS_OPEN.store(!text.ends_with('\n'), Ordering::Relaxed);
        }
        written.map_err(stdout_error)
    }

    /// Writes a piece of an answer to stdout and flushes it.
    pub fn print_answer(&self, text: &str) -> io::Result<()> {
        self.print(&self.sanitize(text))
    }

    /// Writes a report, which may quote foreign text, to stdout and flushes it.
    pub fn print_report(&self, text: &str) -> io::Result<()> {
        self.print(&visible(text))
    }

    /// Writes indented JSON to stdout.
    pub fn print_json(&self, value: &impl Serialize) -> anyhow::Result<()> {
        self.print_json_text(&(serde_json::to_string_pretty(value)? + "\n"))
    }

    /// Writes JSON, or a part of it, to stdout. Control and invisible characters become JSON's escapes, which are
    /// the same data.
    pub fn print_json_text(&self, text: &str) -> anyhow::Result<()> {
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            match c != '\n' && (c.is_control() || is_invisible(c)) {
                true => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out += &format!("\\u{unit:04x}")),
                false => out.push(c),
            }
        }
        Ok(self.print(&out)?)
    }

    /// Writes a line to stderr. Errors are ignored. With --quiet only errors are written.
    pub fn note(&self, text: &str) {
        if self.quiet && !text.starts_with("error: ") {
            return;
        }
        self.write_note(&visible(text));
    }

    /// Writes questions and answers to stderr. Their invisible characters stay: many scripts and emoji need them.
    pub fn note_conversation(&self, text: &str) {
        if !self.quiet {
            self.write_note(&sanitize_for_terminal(text));
        }
    }

    fn write_note(&self, text: &str) {
        let text = self.wrapped(text) + "\n";
        let _ = match self.stderr_terminal {
            true => print_on_terminal(Stream::Stderr, &text),
            false => Stream::Stderr.write(&text),
        };
    }

    /// The text in lines that fit the terminal on stderr.
    fn wrapped(&self, text: &str) -> String {
        let size = || crossterm::terminal::size().ok().filter(|(columns, _)| *columns > 0);
        let Some((columns, _)) = (self.stderr_terminal && !self.dumb).then(size).flatten() else {
            return text.to_owned();
        };
        let fits = |line: &str| format::columns(line) <= usize::from(columns);
        let wrap = |line| match fits(line) {
            true => line.to_owned(),
            false => format::wrapped(line, columns.into()),
        };
        text.lines().map(wrap).collect::<Vec<_>>().join("\n")
    }

    /// `text` dimmed, if stdout may have colours.
    pub fn dim(&self, text: &str) -> String {
        self.paint(2, text)
    }

    /// Writes a line to stderr about what is above it, less bright than that. Only where answers are formatted.
    pub fn status(&self, text: &str) {
        if self.formats_answers() && self.progress() {
            let text = self.wrapped(&visible(text));
            let _ = print_on_terminal(Stream::Stderr, &format!("\x1b[2m{text}\x1b[0m\n"));
        }
    }

    /// Sends a control sequence to the terminal on stdout. It shows nothing.
    pub fn send_sequence(&self, sequence: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(sequence.as_bytes()).and_then(|()| out.flush()).map_err(stdout_error)
    }

    /// `text` in an ANSI colour (31 is red, 32 green, 36 cyan), if stdout may have colours.
    pub fn paint(&self, ansi_color: u8, text: &str) -> String {
        if self.color { format!("\x1b[{ansi_color}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

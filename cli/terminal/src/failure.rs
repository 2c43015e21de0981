//! An error of a command: what was wrong, what to do about it, and the exit code (1 failure, 2 wrong usage, 3 and 4 answers
//! of a command, 130 interrupted).

use anyhow::Error;
use longhand::EngineError;

use crate::interrupt;

/// Exit code where the answer of a command is no.
pub const ANSWERED_NO: u8 = 3;

/// An error of the command line: what was wrong, what to do about it, and the exit code.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    message: String,
    hint: String,
    exit_code: u8,
}

impl Failure {
    /// An error that the arguments did not cause, with exit code 1.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure { message: message.into(), hint: hint.into(), exit_code: 1 }
    }

    /// An error in the arguments, with exit code 2.
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure { exit_code: 2, ..Failure::new(message, hint) }
    }

    /// The answer of a command is no; it has printed why.
    pub fn answered_no() -> Failure {
        Failure::silent(ANSWERED_NO)
    }

    /// The user pressed Ctrl-C.
    pub fn interrupted() -> Failure {
        let hint = "nothing was saved; run the command again to start over";
        Failure { exit_code: interrupt::EXIT_CODE, ..Failure::new("interrupted", hint) }
    }

    /// The user pressed Ctrl-C after this many of `total` questions were answered. `in_answer` says whether the
    /// next answer had begun.
    pub fn interrupted_after(answered: usize, total: usize, in_answer: bool) -> Failure {
        let place =
            if in_answer { format!(" in the answer to question {}", answered + 1) } else { String::new() };
        let message = format!("interrupted{place}; {answered} of {total} questions were answered");
        let hint = match total {
            1 => "ask again",
            _ => "ask the other questions in another run",
        };
        Failure { exit_code: interrupt::EXIT_CODE, ..Failure::new(message, hint) }
    }

    /// The user pressed Ctrl-C, which `message` says.
    pub fn interrupted_with(message: String, hint: &str) -> Failure {
        Failure { exit_code: interrupt::EXIT_CODE, ..Failure::new(message, hint) }
    }

    /// The same with another exit code.
    pub fn with_exit_code(self, exit_code: u8) -> Failure {
        Failure { exit_code, ..self }
    }

    /// The program ends with this exit code, and all has been said.
    pub fn silent(exit_code: u8) -> Failure {
        Failure { exit_code, ..Failure::new("", "") }
    }

    /// Puts a place before the message: `place: message`.
    pub fn found_in(self, place: &str) -> Failure {
        Failure { message: format!("{place}: {}", self.message), ..self }
    }

    /// The same with another hint.
    pub fn with_hint(self, hint: &str) -> Failure {
        Failure { hint: hint.to_owned(), ..self }
    }

    /// Puts a "did you mean" before the hint.
    pub fn with_suggestion(self, suggestion: &str) -> Failure {
        Failure { hint: format!("{suggestion}{}", self.hint), ..self }
    }

    /// What to do about it.
    pub fn hint(&self) -> &str {
        &self.hint
    }

    /// Whether all has been said already.
    pub fn is_silent(&self) -> bool {
        self.message.is_empty()
    }

    /// The exit code of the program.
    pub fn exit_code(&self) -> u8 {
        self.exit_code
    }
}

/// Whether an error is that the user has pressed Ctrl-C.
pub fn is_interrupt(error: &Error) -> bool {
    let of_engine = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<EngineError>().is_some_and(EngineError::is_interrupt)
    };
    error.downcast_ref::<Failure>().is_some_and(|failure| failure.exit_code == interrupt::EXIT_CODE)
        || error.chain().any(of_engine)
}

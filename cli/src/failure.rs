//! How a failure reaches the user: `error: what, where`, then `hint: what to do`, and an exit code (1 failure, 2 wrong usage,
//! 130 interrupted). Relies on errors of the library crates to carry their hint at the end of their text.

use std::io;

use engine::EngineError;
use engine::sampler::SamplerError;
use engine::text::sanitize_for_terminal;
use models::chat::ChatError;
use models::gguf::GgufFile;
use models::tokenizer::TokenizerError;

/// A failure with what to do about it and an exit code of its own.
#[derive(Debug, thiserror::Error)]
#[error("{message}\nhint: {hint}")]
pub struct Failure {
    message: String,
    hint: String,
    code: u8,
}

impl Failure {
    /// Something went wrong that is nobody's typing error.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure { message: message.into(), hint: hint.into(), code: 1 }
    }

    /// The arguments make no sense.
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure { code: 2, ..Failure::new(message, hint) }
    }

    /// The same failure with the file it was found in, where that is one on disk.
    pub fn found_in(self, file: &GgufFile) -> Failure {
        match file.path() {
            Some(path) => Failure { message: format!("{}: {}", path.display(), self.message), ..self },
            None => self,
        }
    }

    /// The user stopped it.
    pub fn interrupted() -> Failure {
        Failure { code: 130, ..Failure::new("interrupted", "nothing was kept; run it again to start over") }
    }

    /// A library's error about what was typed.
    pub fn typed(error: &dyn std::error::Error) -> Failure {
        let (message, hint) = split_hint(&error.to_string());
        Failure::usage(message, hint.unwrap_or_else(|| "see `longhand help`".into()))
    }
}

impl From<ChatError> for Failure {
    fn from(error: ChatError) -> Failure {
        Failure::new(error.to_string(), error.hint())
    }
}

impl From<TokenizerError> for Failure {
    fn from(error: TokenizerError) -> Failure {
        Failure::new(error.to_string(), error.hint())
    }
}

impl From<SamplerError> for Failure {
    fn from(error: SamplerError) -> Failure {
        Failure::typed(&error)
    }
}

/// What to print and the exit code; nothing to print where the reader of our output went away, which is success.
pub fn report(error: &anyhow::Error) -> (String, u8) {
    let broken_pipe = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(broken_pipe) {
        return (String::new(), 0);
    }
    let interrupted =
        error.chain().any(|cause| cause.downcast_ref::<EngineError>().is_some_and(EngineError::is_interrupt));
    if interrupted {
        return report(&Failure::interrupted().into());
    }
    let code = match error.downcast_ref::<Failure>() {
        Some(failure) => failure.code,
        None => match error.downcast_ref::<EngineError>() {
            Some(EngineError::Policy { .. }) => 2,
            _ => 1,
        },
    };
    // A cause that its effect has already told of is not told again.
    let (mut message, mut hint) = (String::new(), None);
    for cause in error.chain() {
        let (part, advice) = split_hint(&cause.to_string());
        if message.is_empty() {
            message = part;
        } else if !message.contains(&part) {
            message = format!("{message}: {part}");
        }
        hint = hint.or(advice);
    }
    let system = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>());
    let mut text = format!("error: {message}\n");
    if let Some(hint) = hint.or_else(|| system.map(|io| advice_on(io).to_owned())) {
        text.push_str(&format!("hint: {hint}\n"));
    }
    (sanitize_for_terminal(&text).into_owned(), code)
}

/// What to do where the system refused and nobody said more about it.
fn advice_on(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "check the path",
        io::ErrorKind::PermissionDenied => "check that this user may read or write there",
        io::ErrorKind::StorageFull => "make room there, or name another place",
        io::ErrorKind::IsADirectory => "name the file in it",
        _ => "check the path, and that it is an ordinary file",
    }
}

/// Parts a message from the hint at its end.
fn split_hint(text: &str) -> (String, Option<String>) {
    match text.rsplit_once("hint: ") {
        Some((message, hint)) => {
            let message = message.trim_end().trim_end_matches([';', ':']).trim_end();
            (message.to_owned(), Some(hint.trim().to_owned()))
        }
        None => (text.trim_end().to_owned(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn hints_of_every_style_end_on_their_own_line() {
        for text in ["bad\nhint: good", "bad\n  hint: good", "bad; hint: good"] {
            let (shown, code) = report(&anyhow::anyhow!("{text}").context("file x"));
            assert_eq!((shown.as_str(), code), ("error: file x: bad\nhint: good\n", 1));
        }
        assert_eq!(report(&anyhow::anyhow!("bad\x1b[2J")).0, "error: bad␛[2J\n");
    }

    #[test]
    fn exit_codes() {
        assert_eq!(report(&Failure::usage("a", "b").into()).1, 2);
        assert_eq!(report(&Failure::interrupted().into()).1, 130);
        let pipe = Err::<(), _>(io::Error::from(io::ErrorKind::BrokenPipe)).context("writing");
        assert_eq!(report(&pipe.expect_err("an error")), (String::new(), 0));
        let policy = "rasor".parse::<engine::kv::PolicyChoice>().expect_err("no such policy");
        let (text, code) = report(&policy.into());
        assert!(code == 2 && text.contains("\nhint: "), "{text}");
    }
}

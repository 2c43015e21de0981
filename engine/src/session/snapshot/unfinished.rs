//! First texts that are not read to their end, as files: so that a reading of hours goes on where it stopped, in another
//! process too.
//!
//! The format is that of a saved session. Behind the description there are the tokens of the whole text (u32) and what the
//! session has of it (`session/reading/unfinished.rs`). The tokens of the description are none: as a session it would be empty.

use std::io::Write;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Description, Snapshot, begin, check_rotation, settings, settings_of, with_path};
use crate::files::codec::{Output, SnapshotError};
use crate::session::Reached;
use crate::{EngineError, Session};

/// The longest time that a reading can have taken: more seconds than a file can have waited for its end.
const MAX_SECONDS: f64 = 1e9;

/// How far a text was read.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Unfinished {
    /// Tokens of the whole text.
    text: usize,
    /// How much of the work is done, from 0 to 1.
    share: f64,
    /// Time that it took.
    seconds: f64,
    reached: Reached,
}

/// A first text of which a session has read a part.
pub(crate) struct UnfinishedText<'a> {
    /// The whole text.
    pub tokens: &'a [u32],
    /// How much of the work is done, from 0 to 1.
    pub share: f64,
    /// Time that it took.
    pub elapsed: Duration,
}

impl UnfinishedText<'_> {
    /// Writes how far the session is in the text, with something of the caller's.
    ///
    /// # Errors
    /// Where the session has read nothing of the text, or all of it; where it cannot be written.
    pub(crate) fn write(
        &self,
        session: &Session,
        caller: &str,
        to: &mut dyn Write,
    ) -> Result<(), EngineError> {
        let nothing = || SnapshotError::new("there is no reading that could go on");
        let (text, seconds) = (self.tokens.len(), self.elapsed.as_secs_f64().min(MAX_SECONDS));
        let reached = session.reached(self.tokens).ok_or_else(nothing)?;
        let unfinished = Unfinished { text, share: self.share.clamp(0.0, 1.0), seconds, reached };
        let description =
            Description { unfinished: Some(unfinished), caller: caller.into(), ..Description::of(session) };
        let mut to = Output::new(to);
        begin(&description, &mut to)?;
        to.numbers(self.tokens.iter().copied())?;
        session.write_unfinished(&mut to)?;
        Ok(to.end()?)
    }
}

impl Snapshot {
    /// How much of its text is read, from 0 to 1, if it was not read to its end.
    pub fn unfinished_share(&self) -> Option<f64> {
        self.description.unfinished.map(|unfinished| unfinished.share.clamp(0.0, 1.0))
    }

    /// Tokens of its text: of the whole one, if it was not read to its end.
    pub(crate) fn text_tokens(&self) -> usize {
        self.description.unfinished.map_or(self.description.tokens, |unfinished| unfinished.text)
    }

    /// Brings a session of the same settings, whose context may differ, to where it can read on the first text `tokens`.
    /// Returns the time that was spent on it.
    ///
    /// # Errors
    /// Where the file is damaged, or of another text or other settings. The session is then empty.
    pub(crate) fn resume_into(self, session: &mut Session, tokens: &[u32]) -> Result<Duration, EngineError> {
        self.resume(session, tokens).map_err(|error| {
            // A session is cleared without computing anything on the host; on a device the first error counts.
            let _ = session.clear();
            with_path(error, &self.path)
        })
    }

    fn resume(&self, session: &mut Session, tokens: &[u32]) -> Result<Duration, EngineError> {
        let is_like = settings(session) == settings_of(&self.description, &self.options.policy)
            && chunk_of(session, tokens.len()) == self.description.chunk.clamp(1, tokens.len().max(1))
            && check_rotation(session.engine(), self.description.context, session.options().context).is_ok();
        let Some(Unfinished { text, seconds, reached, .. }) = self.description.unfinished.filter(|_| is_like)
        else {
            return Err(SnapshotError::new("it is of another model or of other settings").into());
        };
        if !(0.0..=MAX_SECONDS).contains(&seconds) {
            return Err(SnapshotError::new("it states a time that cannot be").into());
        }
        let mut from = self.behind_description();
        if text != tokens.len() || from.numbers(text)? != tokens {
            return Err(SnapshotError::new("it is of another text").into());
        }
        let elapsed = Duration::from_secs_f64(seconds);
        session.read_unfinished(tokens, reached, elapsed, &mut from)?;
        from.end()?;
        Ok(elapsed)
    }
}

/// Tokens that a session computes at once of a text of `n` tokens.
pub(crate) fn chunk_of(session: &Session, n: usize) -> usize {
    session.options().chunk.clamp(1, n.max(1))
}

/// Writes how far a session is in a text to a file.
pub fn save_unfinished(session: &Session, tokens: &[u32], path: &std::path::Path) -> Result<(), EngineError> {
    let text = UnfinishedText { tokens, share: 0.5, elapsed: Duration::from_secs(1) };
    super::save_with(path, |file| text.write(session, "", file))
}

/// Brings a session to where the reading in a file goes on.
pub fn resume(path: &std::path::Path, session: &mut Session, tokens: &[u32]) -> Result<(), EngineError> {
    Snapshot::open(path)?.resume_into(session, tokens).map(|_| ())
}

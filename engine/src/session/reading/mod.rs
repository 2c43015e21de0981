//! Reading a text in pieces. A piece is a bounded amount of work: embeddings, a chunk of a first text in one layer, a
//! chunk of a later text in all layers, or a decode step. Between two pieces a caller may do something else, also with
//! other sessions of the engine.
//!
//! What was read stays in the session: some layers of a first text, or whole chunks. So a reading that is dropped in the
//! middle is one that pauses. Reading the same text again goes on, in the same process or in another one
//! (`unfinished.rs`).

mod first_text;
mod unfinished;

use std::time::{Duration, Instant};

pub(crate) use self::first_text::FirstText;
pub use self::first_text::sync_all;
pub(crate) use self::unfinished::Reached;
use super::{Advance, LastText, not_finite};
use crate::compute::forward::OutputTokens;
use crate::compute::pace::{Pace, PieceTimes};
use crate::compute::pass::Pass;
use crate::compute::reading_work::Work;
use crate::progress::Task;
use crate::{EngineError, Progress, Session};

/// A text on its way into a session: see [`Session::read`].
pub struct TextReading<'a> {
    session: &'a mut Session,
    /// The whole text.
    tokens: &'a [u32],
    /// Tokens that the session had of it.
    before: usize,
    is_begun: bool,
    /// Time spent on chunks.
    elapsed: Duration,
}

impl Session {
    /// Begins to make `tokens` the session's text, as [`Session::sync`] does, piece by piece. Goes back to the common
    /// beginning, and computes nothing yet. A reading that was stopped in the middle of the same text goes on. So does one of a
    /// text that begins in the same way, where all rows are kept.
    ///
    /// ```
    /// use longhand::{Engine, EngineOptions, ModelSource, Session, SessionOptions};
    ///
    /// let engine = Engine::open(&ModelSource::Embedded, &EngineOptions::default())?;
    /// let mut answering = Session::new(&engine, SessionOptions::default())?;
    /// answering.sync(&[1, 2, 3], &mut |_| ())?;
    /// let mut session = Session::new(&engine, SessionOptions::default())?;
    /// let document = [7; 2000];
    /// let mut reading = session.read(&document)?;
    /// while let Some(progress) = reading.step()? {
    ///     println!("{:.0} %", 100.0 * progress.share);
    ///     answering.push(4)?; // a token of another session
    /// }
    /// drop(reading);
    /// assert_eq!(session.tokens(), document);
    /// # Ok::<(), longhand::EngineError>(())
    /// ```
    ///
    /// # Errors
    /// Where a token is outside the vocabulary, the text is longer than the context, or going back fails.
    pub fn read<'a>(&'a mut self, tokens: &'a [u32]) -> Result<TextReading<'a>, EngineError> {
        self.check(tokens)?;
        self.go_back(tokens)?;
        let before = self.tokens.len();
        Ok(TextReading { session: self, tokens, before, is_begun: false, elapsed: Duration::ZERO })
    }

    /// The work of reading `tokens` tokens behind `before` others. A text without others before it is a first text.
    pub fn reading_work(&self, before: usize, tokens: usize) -> Work {
        let is_by_layer = before == 0 && self.options.prefill.is_by_layer();
        self.work.of_text(self.store.layout(), is_by_layer, before, tokens)
    }

    /// The multiplications of reading `tokens` tokens behind `before` others, or of computing them one after the other where
    /// they are `answered`. Products with the output matrix count there alone.
    pub fn multiplications(&self, before: usize, tokens: usize, answered: bool) -> f64 {
        self.work.multiplications(match answered {
            true => self.work.of_answer(self.store.layout(), before, tokens),
            false => self.reading_work(before, tokens),
        })
    }

    /// How fast the last text was read, or is read until now; `None` where none was. How much longer attention takes is
    /// found from the times of the pieces. Where these say little, it is as `expected`, else as is usual on CPUs.
    pub fn reading_pace(&self, expected: Option<Pace>) -> Option<Pace> {
        self.first_text().map_or(&self.pieces, |text| &text.pieces).pace(expected)
    }

    /// How much of the work of reading `tokens` tokens behind `before` others is done when the first `read` of them are
    /// read, from 0 to 1.
    pub(crate) fn reading_share(&self, before: usize, read: usize, tokens: usize) -> f64 {
        match read {
            0 => 0.0,
            _ if read >= tokens => 1.0,
            _ => self.reading_work(before, read).share_of(self.reading_work(before, tokens)),
        }
    }
}

impl TextReading<'_> {
    /// Reads the next piece. Gives how much of what was missing is read; `None` if the session has the whole text.
    ///
    /// # Errors
    /// Where the computation fails, its numbers are not finite, or the session's interrupt flag is set. The session is
    /// then as [`Session::sync`] says. After an interrupt, calling this again goes on.
    pub fn step(&mut self) -> Result<Option<Progress>, EngineError> {
        let read = self.session.tokens.len();
        if read == self.tokens.len() {
            return Ok(None);
        }
        self.session.interrupt.check()?;
        // After an error the session may have less than it had.
        self.before = self.before.min(read);
        let progress = match &self.tokens[read..] {
            // The last token of a longer text is a chunk, as the tokens before it.
            [token] if self.before > 0 && self.missing() == 1 => self.read_token(*token)?,
            rest => {
                self.begin(rest)?;
                match self.session.first_text().is_some() {
                    true => {
                        let progress = self.session.read_first_text(self.tokens)?;
                        self.of_whole(progress)
                    }
                    false => self.read_chunk(rest)?,
                }
            }
        };
        if self.session.tokens.len() == self.tokens.len() {
            self.session.last_text = LastText::Whole;
            self.session.store.add_checkpoint(&self.session.logits)?;
        }
        Ok(Some(progress))
    }

    /// Waits for the last piece, which a GPU may still compute when [`TextReading::step`] returns: before others compute, and
    /// where its time is measured.
    ///
    /// # Errors
    /// Where the GPU failed.
    pub fn wait(&self) -> Result<(), EngineError> {
        let backends = &self.session.engine.backends;
        backends.placement().places().try_for_each(|place| backends.wait(place))
    }

    /// The session as it is between two pieces.
    pub fn session(&self) -> &Session {
        self.session
    }

    /// Tokens that the session lacked when the reading began.
    pub fn missing(&self) -> usize {
        self.tokens.len() - self.before
    }

    /// What comes before a piece: the first one checks the weights, and begins a first text.
    fn begin(&mut self, rest: &[u32]) -> Result<(), EngineError> {
        let session = &mut *self.session;
        if let Some(last) = rest.last().filter(|_| !self.is_begun) {
            not_finite::check_weights(&session.engine, *last, session.options.types, &session.interrupt)?;
        }
        let is_first = session.tokens.is_empty() && session.options.prefill.is_by_layer();
        let goes_on = match self.is_begun {
            true => session.first_text().is_some(),
            false => session.cut_first_text(self.tokens),
        };
        if !goes_on && !matches!(session.last_text, LastText::SomeChunks) {
            session.pieces = PieceTimes::default();
        }
        if is_first && !goes_on {
            session.begin_first_text(self.tokens)?;
        }
        self.is_begun = true;
        Ok(())
    }

    /// Reads the only token that is missing, by a decode step.
    fn read_token(&mut self, token: u32) -> Result<Progress, EngineError> {
        let (session, started) = (&mut *self.session, Instant::now());
        session.prepare_step(token)?;
        // Only now: an interrupt before this must leave what undoes the turn before.
        if !matches!(session.last_text, LastText::SomeChunks) {
            session.store.begin_turn(&session.logits)?;
        }
        session.step(token)?;
        Ok(self.progress(started))
    }

    /// Reads the next chunk against what the store keeps.
    fn read_chunk(&mut self, rest: &[u32]) -> Result<Progress, EngineError> {
        let (session, started) = (&mut *self.session, Instant::now());
        let before = session.tokens.len();
        let outputs = |n| Ok(if n == rest.len() { OutputTokens::Last } else { OutputTokens::None });
        let begins_turn = self.before > 0 && !matches!(session.last_text, LastText::SomeChunks);
        let how = Advance::Chunk { begins_turn };
        session.advance(rest, how, outputs, |session, tokens, outputs| {
            session.run(tokens, how, outputs, Pass::read_logits_into)
        })?;
        session.last_text = LastText::SomeChunks;
        let read = session.tokens.len();
        let work = session.work.of_text(session.store.layout(), false, before, read - before);
        session.pieces.add(work, started.elapsed());
        Ok(self.progress(started))
    }

    /// How far the reading is, where the first text may be only the beginning.
    fn of_whole(&mut self, progress: Progress) -> Progress {
        let (session, all) = (&self.session, self.tokens.len());
        let first = session.first_text().map_or(session.tokens.len(), FirstText::len);
        self.elapsed = progress.elapsed;
        if first == all {
            return progress;
        }
        let rest = session.reading_work(0, all) - session.reading_work(0, first);
        let left = progress.left.zip(session.reading_pace(None).and_then(|pace| pace.time(rest)));
        Progress {
            share: progress.share * session.reading_share(0, first, all),
            size: all,
            left: left.map(|(first, rest)| first + rest),
            ..progress
        }
    }

    /// How far the reading is after a piece that began at this time.
    fn progress(&mut self, started: Instant) -> Progress {
        self.elapsed += started.elapsed();
        let (session, size) = (&self.session, self.missing());
        let read = session.tokens.len() - self.before;
        let [done, all] = [read, size].map(|tokens| session.reading_work(self.before, tokens));
        let left = session.pieces.pace(None).and_then(|pace| pace.time(all - done));
        let share = done.share_of(all);
        Progress { task: Task::Prefill, share, size, elapsed: self.elapsed, left }
    }
}

impl Drop for TextReading<'_> {
    /// Gives the pages of weights that only reading needs back to the system.
    fn drop(&mut self) {
        match self.session.first_text() {
            Some(text) => text.release(),
            None if self.is_begun => self.session.engine.release_all(),
            None => {}
        }
    }
}

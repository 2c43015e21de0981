//! The generation loop: samples a token, hands out its text, computes the next logits, until the answer ends.
//!
//! Tokens that the text so far suggests are computed ahead, several at once (`drafts`). Each is sampled as if it were not: from
//! the logits after the tokens before it, with the same random numbers. So an answer is the same with and without drafts, but
//! for rounding: several tokens at once are added up in another order than one.
//!
//! Relies on a session that has just read a prompt, so that [`Session::logits`] are those of the answer's
//! first token.

pub(crate) mod batch;
pub(crate) mod constraint;
mod drafts;
pub(crate) mod logprobs;
pub(crate) mod sampler;

use std::ops::{AddAssign, ControlFlow};
use std::time::{Duration, Instant};

use models::tokenizer::Tokenizer;

use self::constraint::Constraint;
use self::constraint::state::ShapeState;
use self::drafts::Drafts;
use self::logprobs::TokenLogProbs;
use crate::session::generate::sampler::Sampler;
use crate::session::text::TextStream;
use crate::{EngineError, Hint, Session};

/// Why an answer ended.
///
/// ```
/// assert_eq!(longhand::generation::Stop::Length.name(), "length");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The model ended it with this token, which is not part of the answer.
    EndToken(u32),
    /// It has the shape that was asked for, and nothing could follow.
    Complete,
    /// This stop sequence came; it is not part of the text.
    Text(String),
    /// As many tokens as were allowed.
    Length,
    /// The session is full.
    Context,
    /// The caller, or the session's interrupt flag, stopped it.
    Interrupted,
}

impl Stop {
    /// One word for programs: `end`, `stop`, `length`, `context`, `interrupted`.
    pub fn name(&self) -> &'static str {
        match self {
            Stop::EndToken(_) | Stop::Complete => "end",
            Stop::Text(_) => "stop",
            Stop::Length => "length",
            Stop::Context => "context",
            Stop::Interrupted => "interrupted",
        }
    }
}

/// Tokens of an answer that were computed ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DraftCounts {
    /// How many were drafted.
    pub made: usize,
    /// How many of these became tokens of the answer.
    pub used: usize,
}

impl AddAssign for DraftCounts {
    fn add_assign(&mut self, more: DraftCounts) {
        self.made += more.made;
        self.used += more.used;
    }
}

/// What was generated.
///
/// ```
/// use longhand::generation::Stop;
/// use longhand::{Chat, ChatOptions, Model, ModelSource, Setup, SetupOptions};
///
/// let setup = Setup::resolve(&Model::open(ModelSource::Embedded)?, &SetupOptions::default(), 0, &mut ())?;
/// let mut chat = Chat::new(setup.start(&mut ())?, ChatOptions { answer_limit: Some(3), ..ChatOptions::default() })?;
/// let generated = chat.ask("Who is there?", &mut |_| ())?;
/// assert_eq!((generated.tokens.len(), generated.stop), (3, Stop::Length));
/// # Ok::<(), longhand::EngineError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    /// The tokens, without the one that ended the answer. The session may lack the last of them: it is
    /// computed together with what follows.
    pub tokens: Vec<u32>,
    /// How many of them come before the stop sequence; all where there was none.
    pub kept: usize,
    /// The text, without a stop sequence. In a chat it begins with the `<think>` that the prompt has ended with.
    pub text: String,
    /// Why it ended.
    pub stop: Stop,
    /// Whether it has the shape that was asked for; true where any text is right. Of a number, an answer that its limit has
    /// cut off may have the shape too.
    pub is_complete: bool,
    /// Tokens that were computed: one less than were sampled, because the first is sampled from the prompt's
    /// logits.
    pub steps: usize,
    /// Tokens to which its shape left no other choice. They are not sampled, and where the session allows, several are
    /// computed at once.
    pub forced: usize,
    /// What was drafted of it.
    pub drafts: DraftCounts,
    /// How likely the model found the token that ended it, where one did and that was asked for.
    pub end: Option<TokenLogProbs>,
    /// Time for all of it.
    pub elapsed: Duration,
}

impl Generated {
    /// Tokens computed per second; 0 where there was none.
    pub fn steps_per_second(&self) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if self.steps == 0 || seconds == 0.0 { 0.0 } else { self.steps as f64 / seconds }
    }
}

/// What an answer is generated with, besides its sampler.
///
/// ```
/// assert_eq!(longhand::generation::GenerateOptions::default().limit, usize::MAX);
/// ```
#[derive(Clone, Debug)]
pub struct GenerateOptions {
    /// Texts that end the answer. They are not part of it.
    pub stops: Vec<String>,
    /// Most tokens of the answer; [`usize::MAX`] for no limit but the session's context.
    pub limit: usize,
    /// How many of the most likely tokens come with each token's log-probability. With `None` no log-probabilities are
    /// computed.
    pub logprobs: Option<usize>,
    /// The shape of the answer. Where the model thinks before it answers, the thinking is free. An answer that ends early
    /// does not have the shape: see [`Generated::is_complete`].
    pub constraint: Option<Constraint>,
    /// Control tokens whose text is part of the answer's, such as the marks of calls of functions
    /// ([`ToolFormat::control_tokens`](crate::tools::ToolFormat::control_tokens)).
    pub shown_controls: Vec<u32>,
}

impl GenerateOptions {
    /// The bytes that a token adds to an answer's text.
    fn bytes<'a>(&self, tokenizer: &'a Tokenizer, token: u32) -> &'a [u8] {
        let bytes = match self.shown_controls.contains(&token) {
            true => tokenizer.written_bytes(token),
            false => tokenizer.token_bytes(token),
        };
        bytes.unwrap_or_default()
    }
}

impl Default for GenerateOptions {
    fn default() -> GenerateOptions {
        GenerateOptions {
            stops: Vec::new(),
            limit: usize::MAX,
            logprobs: None,
            constraint: None,
            shown_controls: Vec::new(),
        }
    }
}

/// What a token adds to an answer.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// The text that may be shown now. It is empty while a character or a possible stop sequence is incomplete.
    pub text: &'a str,
    /// The token; `None` with text that was held back when the answer ended.
    pub token: Option<u32>,
    /// How likely the model found the token, where that was asked for.
    pub logprobs: Option<&'a TokenLogProbs>,
}

/// Generates at most `limit` tokens from where the session stands. [`generate_with`] has more options.
///
/// `on_text` is called for every token with the text that may be shown now. That can be empty while a
/// character or a possible stop sequence is incomplete. It stops the answer by returning
/// [`ControlFlow::Break`].
///
/// # Errors
/// As [`generate_with`].
pub fn generate(
    session: &mut Session,
    tokenizer: &Tokenizer,
    sampler: &mut Sampler,
    stops: &[String],
    limit: usize,
    on_text: &mut dyn FnMut(&str) -> ControlFlow<()>,
) -> Result<Generated, EngineError> {
    let options = GenerateOptions { stops: stops.to_vec(), limit, ..GenerateOptions::default() };
    generate_with(session, tokenizer, sampler, &options, &mut |piece| on_text(piece.text))
}

/// Generates an answer from where the session stands.
///
/// `on_piece` is called for every token, and stops the answer by returning [`ControlFlow::Break`]. The sampler accepts the
/// generated tokens; those of the prompt are the caller's to accept.
///
/// ```
/// use std::ops::ControlFlow;
///
/// use longhand::generation::{GenerateOptions, Sampler, SamplerOptions, generate_with};
/// use longhand::{Model, ModelSource, Setup, SetupOptions};
///
/// let model = Model::open(ModelSource::Embedded)?;
/// let mut session = Setup::resolve(&model, &SetupOptions::default(), 0, &mut ())?.start(&mut ())?;
/// let format = model.chat_format()?;
/// session.sync(&format.encode_text("Mary's favorite number is")?, &mut |_| ())?;
///
/// let mut sampler = Sampler::new(SamplerOptions::greedy())?;
/// let options = GenerateOptions { limit: 4, logprobs: Some(2), ..GenerateOptions::default() };
/// generate_with(&mut session, format.tokenizer(), &mut sampler, &options, &mut |piece| {
///     if let Some(logprobs) = piece.logprobs {
///         assert_eq!(logprobs.top.len(), 2);
///         // The most likely token is taken.
///         assert_eq!(logprobs.token, logprobs.top[0]);
///         assert!(format.tokenizer().written_bytes(logprobs.token.token).is_some());
///     }
///     ControlFlow::Continue(())
/// })?;
/// # Ok::<(), longhand::EngineError>(())
/// ```
///
/// # Errors
/// If the session's logits are unknown, a bias is for a token that the model does not have, or all tokens are banned. If the
/// constraint is for another model, or takes too much time or memory.
/// What the computation fails with, except an interrupt, which ends the answer as [`Stop::Interrupted`].
pub fn generate_with(
    session: &mut Session,
    tokenizer: &Tokenizer,
    sampler: &mut Sampler,
    options: &GenerateOptions,
    on_piece: &mut dyn FnMut(Piece) -> ControlFlow<()>,
) -> Result<Generated, EngineError> {
    let begun = Begun { tokens: &[], unread: None };
    go_on(session, tokenizer, sampler, options, begun, on_piece)
}

/// An answer that was cut off.
pub(crate) struct Begun<'a> {
    /// Its tokens.
    pub tokens: &'a [u32],
    /// The last of them, if the session lacks it.
    pub unread: Option<u32>,
}

/// As [`generate_with`], for an answer that has begun. The result is the same as if it had not been cut off: all of its
/// tokens and its text, but only the steps and the time of this part. The limit is for all of it.
pub(crate) fn go_on(
    session: &mut Session,
    tokenizer: &Tokenizer,
    sampler: &mut Sampler,
    options: &GenerateOptions,
    begun: Begun,
    on_piece: &mut dyn FnMut(Piece) -> ControlFlow<()>,
) -> Result<Generated, EngineError> {
    let mut unread = begun.unread;
    if session.logits().is_empty() && unread.is_none() {
        return Err(EngineError::Setting {
            what: "an answer".into(),
            reason: "the session has read no text, or reading it was interrupted".into(),
            hint: Hint::advice("read the whole text first"),
        });
    }
    sampler.check_vocabulary(session.engine().spec().n_vocab)?;
    let started = Instant::now();
    let limit = options.limit;
    let mut stream = TextStream::new(options.stops.iter().cloned());
    let mut logits = Vec::new();
    let (mut tokens, mut text, mut steps) = (begun.tokens.to_vec(), String::new(), 0);
    // Bytes of text behind each token, to find those that a stop sequence consists of.
    let mut ends = Vec::new();
    for token in &tokens {
        let bytes = options.bytes(tokenizer, *token);
        ends.push(ends.last().copied().unwrap_or(0) + bytes.len());
        text += &stream.push(bytes);
    }
    // What was shown when the answer was cut off, and is held back again.
    let mut shown = stream.clone().finish();
    let mut shape = match &options.constraint {
        None => None,
        Some(constraint) => {
            let read = session.tokens().len() + usize::from(unread.is_some());
            let prompt = session.tokens().get(..read.saturating_sub(tokens.len()));
            let mut shape = ShapeState::new(constraint, tokenizer, prompt.unwrap_or_default())?;
            for token in &tokens {
                shape.accept(*token)?;
            }
            Some(shape)
        }
    };
    let (mut forced, mut end) = (0, None);
    let mut decoding = Decoding::new(session);
    let stop = loop {
        if tokens.len() >= limit {
            break Stop::Length;
        }
        let next = shape.as_ref().map(ShapeState::forced).unwrap_or_default();
        if let Some(token) = unread.take() {
            if decoding.is_full() {
                break Stop::Context;
            }
            match decoding.push(token, limit - tokens.len() - 1, &next) {
                Ok(()) => steps += 1,
                Err(error) if error.is_interrupt() => break Stop::Interrupted,
                Err(error) => return Err(error),
            }
        }
        let token = match next.first() {
            Some(token) => {
                forced += 1;
                *token
            }
            None => sample(sampler, decoding.logits(), &mut logits, shape.as_mut())?,
        };
        let logprobs = options.logprobs.map(|top| TokenLogProbs::new(decoding.logits(), token, top));
        if tokenizer.is_eog(token) {
            end = logprobs;
            break Stop::EndToken(token);
        }
        sampler.accept(token);
        tokens.push(token);
        let bytes = options.bytes(tokenizer, token);
        ends.push(ends.last().copied().unwrap_or(0) + bytes.len());
        let piece = stream.push(bytes);
        text.push_str(&piece);
        let mut new = piece.as_str();
        if !piece.is_empty() {
            let before = std::mem::take(&mut shown);
            new = piece.strip_prefix(&before).unwrap_or(new);
        }
        let flow = on_piece(Piece { text: new, token: Some(token), logprobs: logprobs.as_ref() });
        if let Some(shape) = &mut shape {
            shape.accept(token)?;
        }
        if let Some(stop) = stream.stopped_by() {
            break Stop::Text(stop.to_owned());
        }
        if shape.as_ref().is_some_and(ShapeState::is_over) {
            break Stop::Complete;
        }
        if flow.is_break() {
            break Stop::Interrupted;
        }
        unread = Some(token);
    };
    decoding.accept()?;
    let drafts = decoding.counts;
    let is_complete = shape.as_mut().is_none_or(ShapeState::is_complete);
    let rest = stream.finish();
    if !rest.is_empty() {
        text.push_str(&rest);
        // The answer is over; whether the caller wants more does not matter any longer.
        let text = rest.strip_prefix(&shown).unwrap_or(&rest);
        let _ = on_piece(Piece { text, token: None, logprobs: None });
    }
    let kept = match stop {
        Stop::Text(_) => ends.iter().take_while(|end| **end <= text.len()).count(),
        _ => tokens.len(),
    };
    let elapsed = started.elapsed();
    Ok(Generated { tokens, kept, text, stop, is_complete, steps, forced, drafts, end, elapsed })
}

/// Samples the next token from the logits before it, with memory for as many.
fn sample(
    sampler: &mut Sampler,
    logits: &[f32],
    memory: &mut Vec<f32>,
    mut shape: Option<&mut ShapeState>,
) -> Result<u32, EngineError> {
    // Tokens that hold the end of the thinking and already a part of the answer.
    let mut split = Vec::new();
    loop {
        memory.clear();
        memory.extend_from_slice(logits);
        if let Some(shape) = &mut shape {
            shape.ban(memory)?;
        }
        split.iter().for_each(|token| memory[*token as usize] = f32::NEG_INFINITY);
        let token = sampler.sample_allowed(memory).ok_or_else(all_banned)?;
        if !shape.as_ref().is_some_and(|shape| shape.splits(token)) {
            return Ok(token);
        }
        split.push(token);
    }
}

fn all_banned() -> EngineError {
    EngineError::Setting {
        what: "the next token of the answer".into(),
        reason: "biases ban all tokens that may come".into(),
        hint: Hint::advice("ban fewer tokens"),
    }
}

impl Drop for Decoding<'_> {
    fn drop(&mut self) {
        self.session.end_answer();
    }
}

/// A session that decodes an answer, and the drafted tokens that it has computed ahead.
struct Decoding<'a> {
    session: &'a mut Session,
    drafts: Drafts,
    /// How many of the session's verified tokens have come: the one that came last when they were verified, and those that
    /// were drafted to follow it. The session does not count them yet.
    came: usize,
    /// Whether the verified tokens were drafted; else the shape of the answer forces them.
    is_draft: bool,
    counts: DraftCounts,
}

impl<'a> Decoding<'a> {
    fn new(session: &'a mut Session) -> Decoding<'a> {
        let most = if session.allows_steps_at_once() { session.options().draft } else { 0 };
        let drafts = Drafts::new(session.tokens(), most);
        session.begin_answer();
        Decoding { session, drafts, came: 0, is_draft: false, counts: DraftCounts::default() }
    }

    fn is_full(&self) -> bool {
        self.session.tokens().len() + self.came >= self.session.options().context
    }

    /// The logits after the last token.
    fn logits(&self) -> &[f32] {
        match self.came {
            0 => self.session.logits(),
            came => self.session.verified_logits(came - 1),
        }
    }

    /// Appends a token, of which the logits after it may be known already. At most `room` tokens follow, and `forced` are
    /// the first of them.
    fn push(&mut self, token: u32, room: usize, forced: &[u32]) -> Result<(), EngineError> {
        self.drafts.push(token);
        if self.came > 0 && self.session.verified().get(self.came) == Some(&token) {
            self.came += 1;
            self.counts.used += usize::from(self.is_draft);
            return Ok(());
        }
        self.accept()?;
        self.is_draft = forced.is_empty();
        let draft = match self.is_draft {
            true => self.drafts.draft(room),
            false => forced[..forced.len().min(room)].to_vec(),
        };
        let most = if draft.is_empty() { 1 } else { self.session.steps_at_once(1 + draft.len()) };
        if most < 2 {
            return self.session.push(token);
        }
        match self.session.verify(&[&[token], &draft[..most - 1]].concat()) {
            Ok(_) => {
                self.came = 1;
                self.counts.made += if self.is_draft { most - 1 } else { 0 };
                Ok(())
            }
            Err(error) if error.is_interrupt() => Err(error),
            // A step needs less memory, and says better what is wrong.
            Err(_) => self.session.push(token),
        }
    }

    /// The session counts the tokens that have come.
    fn accept(&mut self) -> Result<(), EngineError> {
        if self.came > 0 && self.is_draft {
            self.drafts.learn(self.session.verified().len() - 1, self.came - 1);
        }
        self.session.accept(std::mem::take(&mut self.came))
    }
}

#[cfg(test)]
mod tests {
    use models::chat::{ChatTemplate, Message};

    use super::*;
    use crate::session::generate::sampler::SamplerOptions;
    use crate::{Engine, EngineOptions, ModelSource, SessionOptions};

    const DOCUMENT: &str = "The old boat crossed the quiet river. Mary's favorite number is 34251. \
                            Later that day the small bird left the garden.\n\nWhat is Mary's favorite number?";

    #[test]
    fn a_session_without_logits_gives_no_answer() {
        let engine = Engine::open(&ModelSource::Embedded, &EngineOptions::default()).expect("embedded model");
        let tokenizer = Tokenizer::from_gguf(engine.file()).expect("its tokenizer");
        let mut session = Session::new(&engine, SessionOptions::default()).expect("a session");
        let mut sampler = Sampler::new(SamplerOptions::greedy()).expect("a sampler");
        let mut on_token = |_: &str| panic!("it has read nothing");
        let error = generate(&mut session, &tokenizer, &mut sampler, &[], 5, &mut on_token).err();
        assert!(matches!(error, Some(EngineError::Setting { .. })), "{error:?}");
        assert!(session.tokens().is_empty());
    }

    /// Runs greedy generation on the embedded model after a question.
    fn ask(
        stops: &[&str],
        limit: usize,
        context: usize,
        on_token: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Generated {
        let engine = Engine::open(&ModelSource::Embedded, &EngineOptions::default()).expect("embedded model");
        let tokenizer = Tokenizer::from_gguf(engine.file()).expect("its tokenizer");
        let template = ChatTemplate::from_gguf(engine.file(), &tokenizer).expect("its template");
        let prompt = template.prompt(&[Message::user(DOCUMENT)], true).expect("prompt");
        let prompt = prompt.encode(&tokenizer).expect("tokens");
        let context = if context == 0 { prompt.len() + 64 } else { prompt.len() + context };
        let options = SessionOptions { context, ..SessionOptions::default() };
        let mut session = Session::new(&engine, options).expect("session");
        session.sync(&prompt, &mut |_| ()).expect("prefill");
        let mut sampler = Sampler::new(SamplerOptions::greedy()).expect("sampler");
        let stops: Vec<String> = stops.iter().map(|stop| (*stop).to_owned()).collect();
        generate(&mut session, &tokenizer, &mut sampler, &stops, limit, on_token).expect("answer")
    }

    #[test]
    fn the_answer_ends_with_the_models_own_token_and_was_shown_in_pieces() {
        let mut shown = String::new();
        let answer = ask(&[], 50, 0, &mut |piece| {
            shown.push_str(piece);
            ControlFlow::Continue(())
        });
        assert_eq!(answer.text.trim(), "Mary's favorite number is 34251.");
        assert_eq!(shown, answer.text);
        assert!(matches!(answer.stop, Stop::EndToken(_)), "{:?}", answer.stop);
        assert_eq!((answer.steps, answer.kept), (answer.tokens.len(), answer.tokens.len()));
    }

    #[test]
    fn limits_of_every_kind_end_it() {
        let go_on = &mut |_: &str| ControlFlow::Continue(());
        let answer = ask(&[], 3, 0, go_on);
        assert_eq!((answer.tokens.len(), answer.steps, answer.stop), (3, 2, Stop::Length));
        let answer = ask(&[], 0, 0, go_on);
        assert_eq!((answer.tokens.len(), answer.stop), (0, Stop::Length));
        let answer = ask(&[], 50, 2, go_on);
        assert_eq!((answer.tokens.len(), answer.steps, answer.stop), (3, 2, Stop::Context));
        let mut calls = 0;
        let answer = ask(&[], 50, 0, &mut |_| {
            calls += 1;
            if calls == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!((answer.tokens.len(), answer.stop), (2, Stop::Interrupted));
    }

    /// The reference samples every token among those that the shape allows, and computes one after the other.
    #[test]
    fn forced_tokens_are_those_that_sampling_would_choose() {
        let engine = Engine::open(&ModelSource::Embedded, &EngineOptions::default()).expect("embedded model");
        let format = engine.model().chat_format().expect("a chat format");
        let tokenizer = format.tokenizer();
        let prompt = tokenizer.encode(DOCUMENT, true, false).expect("tokens");
        let shape = r#"{"type": "object", "properties": {"favorite number": {"type": "integer", "minimum": 0, "maximum": 99999},
            "of whom": {"enum": ["Mary", "Martin"]}}, "required": ["favorite number", "of whom"], "additionalProperties": false}"#;
        let constraint = Constraint::json_schema(format, shape).expect("a constraint");
        let session = || {
            let mut session = Session::new(&engine, SessionOptions::default()).expect("a session");
            session.sync(&prompt, &mut |_| ()).expect("prefill");
            session
        };
        let mut sampler = Sampler::new(SamplerOptions::greedy()).expect("a sampler");
        let options = GenerateOptions { constraint: Some(constraint.clone()), ..GenerateOptions::default() };
        let go_on = &mut |_: Piece| ControlFlow::Continue(());
        let answer =
            generate_with(&mut session(), tokenizer, &mut sampler, &options, go_on).expect("an answer");
        assert!(answer.forced > 10 && answer.is_complete && answer.stop == Stop::Complete, "{answer:?}");

        let (mut session, mut tokens) = (session(), Vec::new());
        let mut state = ShapeState::new(&constraint, tokenizer, &prompt).expect("a state");
        while !state.is_over() {
            let mut logits = session.logits().to_vec();
            state.ban(&mut logits).expect("a mask");
            tokens.push(sampler.sample(&mut logits));
            state.accept(tokens[tokens.len() - 1]).expect("it is allowed");
            session.push(tokens[tokens.len() - 1]).expect("a step");
        }
        assert_eq!(answer.tokens, tokens);
    }

    #[test]
    fn control_tokens_are_text_where_that_is_wanted() {
        let model = crate::Model::open(ModelSource::Embedded).expect("embedded model");
        let tokenizer = model.chat_format().expect("its format").tokenizer();
        let engine = Engine::open(&ModelSource::Embedded, &EngineOptions::default()).expect("embedded model");
        let control = tokenizer.token_id("<|im_start|>").expect("has it");
        for (shown_controls, want) in [(vec![], ""), (vec![control], "<|im_start|><|im_start|>")] {
            let mut session = Session::new(&engine, SessionOptions::default()).expect("session");
            let prompt = tokenizer.encode("The boat", true, false).expect("tokens");
            session.sync(&prompt, &mut |_| ()).expect("prefill");
            let logit_bias = vec![(control, 1e6)];
            let sampling = SamplerOptions { logit_bias, ..SamplerOptions::greedy() };
            let mut sampler = Sampler::new(sampling).expect("sampler");
            let options = GenerateOptions { limit: 2, shown_controls, ..GenerateOptions::default() };
            let mut on_piece = |_: Piece| ControlFlow::Continue(());
            let answer = generate_with(&mut session, tokenizer, &mut sampler, &options, &mut on_piece);
            assert_eq!(answer.expect("an answer").text, want);
        }
    }

    #[test]
    fn a_stop_sequence_is_neither_shown_nor_counted_as_kept() {
        let answer = ask(&[" number"], 50, 0, &mut |_| ControlFlow::Continue(()));
        assert_eq!(answer.stop, Stop::Text(" number".into()));
        assert_eq!(answer.text.trim(), "Mary's favorite");
        assert!(answer.kept < answer.tokens.len());
    }
}

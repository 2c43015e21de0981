//! One request, answered in a session: what the session lacks of the text is read, then the answers are written. What happens
//! is told as events. A request that nobody waits for any more ends at its next piece of work.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use longhand::generation::{
    Constraint, GenerateOptions, Generated, Piece, Sampler, SamplerOptions, Stop, TokenLogProbs,
    generate_with,
};
use longhand::saved::DocumentCache;
use longhand::text::{Split, ThinkingStream};
use longhand::tools::{ToolCall, ToolFormat, ToolPiece, ToolStream, Tools};
use longhand::{EngineError, InterruptFlag, Progress, Session};
use tokio::sync::mpsc::UnboundedSender;

use super::Service;
use super::sources::{AnswerSources, SourceSearch};
use super::turns::Turn;

/// What is asked for.
pub(crate) struct Request {
    pub text: Text,
    pub wanted: Wanted,
    /// Set when nobody waits for the answer any more.
    pub stop: InterruptFlag,
}

/// A text that is to be answered.
pub(crate) struct Text {
    /// Up to where the answer begins.
    pub tokens: Vec<u32>,
    /// How many of these are documents that others may ask about, too.
    pub documents: usize,
    /// The names of these documents.
    pub names: Vec<String>,
    /// The mark of thinking that the text ends with.
    pub opening: String,
    /// Whether thinking is told from answers.
    pub has_thinking: bool,
    /// What tells calls of functions from text, where there are functions.
    pub calls: Option<CallReader>,
    /// Sequences that end an answer, whatever is asked for.
    pub stops: Vec<String>,
    /// What is told where answers come from, where that is asked for.
    pub sources: Option<SourceSearch>,
}

/// How an answer is to be. By default none is wanted.
#[derive(Default)]
pub(crate) struct Wanted {
    /// How many answers.
    pub answers: usize,
    /// How they are sampled. Each of several answers has a seed of its own.
    pub sampling: SamplerOptions,
    /// What ends them, and what is told of their tokens.
    pub options: GenerateOptions,
    /// Whether the same is told of the tokens of the text, too. It is then read anew, and not kept.
    pub scores: bool,
}

/// How calls of functions are told from the text of an answer.
#[derive(Clone)]
pub(crate) struct CallReader {
    pub format: ToolFormat,
    /// The control tokens whose texts are part of calls.
    pub controls: Vec<u32>,
    pub tools: Tools,
    /// Whether an answer ends with its first call.
    pub one_call: bool,
    /// The shape of an answer that must be a call.
    pub constraint: Option<Constraint>,
}

impl Request {
    /// Where readings of the text end: behind the documents, and at its own end.
    pub(super) fn ends(&self) -> impl Iterator<Item = usize> {
        [self.text.documents, self.text.tokens.len()].into_iter()
    }
}

/// A session and what its text has cost.
pub(super) struct Conversation {
    pub session: Session,
    /// The time in which it was read.
    pub spent: Duration,
    /// The names of documents in it.
    pub names: Vec<String>,
}

impl Conversation {
    /// Keeps it on the disk if it is not there yet, and took so long to read that it is worth it.
    pub(super) fn keep(&self, cache: Option<&DocumentCache>) {
        let tokens = self.session.tokens();
        let is_worth_it =
            |cache: &&DocumentCache| tokens.len() >= WORTH_KEEPING && !cache.has(&self.session, tokens);
        if let Some(cache) = cache.filter(is_worth_it) {
            // What is wrong with the disk does not matter to answers.
            let _ = cache.keep(&self.session, &self.names, self.spent);
        }
    }
}

/// A request, and where its events go.
pub(crate) struct Work {
    pub request: Request,
    pub events: UnboundedSender<Event>,
}

/// What happens to a request. Where the receiver is gone, the request's flag is to be set.
pub(crate) enum Event {
    /// A session has begun to read it, of which it had so many tokens already.
    Begun { cached: usize },
    /// How far the reading is: tokens of the text that are read, and the time for them.
    Reading { processed: usize, elapsed: Duration },
    /// How likely the model found the tokens of the text, without the first, if that was asked for.
    Scored(Vec<TokenLogProbs>),
    /// What a token adds to an answer, by the answer's number, and how likely the model found it, if that was asked for.
    Text { answer: usize, split: Split, logprobs: Option<TokenLogProbs> },
    /// An answer calls a function.
    Call { answer: usize, call: ToolCall },
    /// An answer is complete.
    Answered { answer: usize, result: Answer },
    /// All answers are complete.
    Done,
    /// The request failed. Nothing follows.
    Failed(EngineError),
}

impl Event {
    /// The end of a request that this flag has stopped.
    pub(crate) fn stopped(stop: &InterruptFlag) -> Event {
        match stop.check() {
            Ok(()) => Event::Done,
            Err(error) => Event::Failed(error.into()),
        }
    }
}

/// What an answer has cost, and how it ended.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub stop: Stop,
    /// How many functions it calls.
    pub calls: usize,
    /// Tokens of the answer, with the one that ended it.
    pub tokens: usize,
    /// How many of them the model has thought with.
    pub thinking: usize,
    pub elapsed: Duration,
    /// What was read for it: nothing, where it is not the first.
    pub read: usize,
    pub reading: Duration,
    /// Where it comes from, if that was asked for.
    pub sources: Option<AnswerSources>,
    /// How likely the model found the token that ended it, if one did and that was asked for.
    pub end: Option<TokenLogProbs>,
}

impl Answer {
    /// Whether it has come to its own end.
    pub(crate) fn is_whole(&self) -> bool {
        let is_ended_by_call = self.stop == Stop::Interrupted && self.calls > 0;
        is_ended_by_call || matches!(self.stop, Stop::EndToken(_) | Stop::Text(_) | Stop::Complete)
    }
}

/// Answers a request. Returns the last event, which is told when the session is idle again: who asks on then finds it.
pub(super) fn answer(service: &Service, conversation: &mut Conversation, work: &Work) -> Event {
    conversation.session.set_interrupt(&work.request.stop);
    let answered = try_answer(service, conversation, work);
    if work.request.wanted.scores {
        // It was not read as texts are that are answered.
        let _ = conversation.session.clear();
    }
    match answered {
        Ok(()) => Event::Done,
        Err(error) => {
            if !error.is_interrupt() {
                service.counts.failed();
            }
            Event::Failed(error)
        }
    }
}

fn try_answer(service: &Service, conversation: &mut Conversation, work: &Work) -> Result<(), EngineError> {
    let request = &work.request;
    let (read, reading) = match request.wanted.scores {
        true => score_text(service, conversation, work)?,
        false => read_text(service, conversation, work)?,
    };
    let session = &mut conversation.session;
    for answer in 0..request.wanted.answers {
        // Goes back to where the text ends.
        let end = request.text.tokens.len();
        let mut turn = service.turns.begin(&request.stop);
        read_until(session, request, end, &mut turn, &mut |_| ())?;
        drop(turn);
        let sampling = SamplerOptions {
            seed: request.wanted.sampling.seed.wrapping_add(answer as u64),
            ..request.wanted.sampling.clone()
        };
        request.text.sources.as_ref().map_or(Ok(()), |search| search.begin(session, end))?;
        let Written { generated, calls, thinking, text } =
            write_answer(service, session, work, answer, sampling)?;
        let ended = usize::from(matches!(generated.stop, Stop::EndToken(_)));
        let (tokens, elapsed) = (generated.tokens.len() + ended, generated.elapsed);
        service.counts.answered(tokens, elapsed);
        request.stop.check()?;
        let sources = match &request.text.sources {
            Some(search) => {
                let _turn = service.turns.begin(&request.stop);
                Some(search.find(session, service.format.tokenizer(), end, &text)?)
            }
            None => None,
        };
        let (read, reading) = if answer == 0 { (read, reading) } else { (0, Duration::ZERO) };
        let Generated { stop, end, .. } = generated;
        let result = Answer { stop, calls, tokens, thinking, elapsed, read, reading, sources, end };
        let _ = work.events.send(Event::Answered { answer, result });
    }
    Ok(())
}

/// So many tokens are read in less time than files are looked through.
const WORTH_LOOKING: usize = 256;
/// Shorter conversations are not kept on the disk.
pub(super) const WORTH_KEEPING: usize = 1024;

/// Reads the text, its documents first, as far as the session does not have it. Returns how many tokens were read, and the
/// time for them.
fn read_text(
    service: &Service,
    conversation: &mut Conversation,
    work: &Work,
) -> Result<(usize, Duration), EngineError> {
    let request = &work.request;
    let (size, cache) = (request.text.tokens.len(), service.options.cache.as_ref());
    let mut cached = conversation.session.kept_of(&request.text.tokens);
    let goes_on = request.ends().any(|end| conversation.session.is_reading(&request.text.tokens[..end]));
    // The beginning of another text that is half read.
    let begun = conversation.session.begun_of(&request.text.tokens);
    let had = cached.max(begun);
    // Who has the same to read may wait for it.
    let reading = cache.map(|_| service.readings.begin(&request.text));
    let lacks_much = size - had >= WORTH_LOOKING && !goes_on;
    if let (Some(cache), Some(reading), true) = (cache, &reading, lacks_much)
        && DocumentCache::is_faster_than_reading(&conversation.session, service.counts.read_per_second())
    {
        let found = || cache.longest(&conversation.session, &request.text.tokens);
        reading.wait_for_others(&request.text.tokens, had, found, &request.stop)?;
        request.stop.check()?;
    }
    let started = Instant::now();
    if cached < conversation.session.tokens().len() / 2 {
        make_room(service, conversation);
    }
    conversation.names.clone_from(&request.text.names);
    let session = &mut conversation.session;
    if let Some(cache) = cache.filter(|_| lacks_much)
        && (begun == 0 || cache.longest(session, &request.text.tokens)? > begun)
    {
        cache.restore_longest(session, &request.text.tokens)?;
        cached = session.kept_of(&request.text.tokens);
    }
    let mut turn = service.turns.begin(&request.stop);
    let _ = work.events.send(Event::Begun { cached });
    for end in request.ends().filter(|end| *end > cached) {
        let before = session.kept_of(&request.text.tokens[..end]);
        let begun = Instant::now();
        read_until(session, request, end, &mut turn, &mut |progress| {
            let processed = before + (progress.share * (end - before) as f64) as usize;
            let _ = work.events.send(Event::Reading { processed, elapsed: started.elapsed() });
        })?;
        conversation.spent += begun.elapsed();
        let is_documents = end == request.text.documents;
        if let (Some(cache), Some(reading), true) = (cache, &reading, is_documents || end >= WORTH_KEEPING) {
            let (max_share, elapsed) = match (is_documents, reading.is_awaited()) {
                // Documents are for everybody: they are kept however long writing takes.
                (true, _) => (f64::INFINITY, begun.elapsed()),
                // Others read all of it otherwise.
                (false, true) => (cache.max_share.max(1.0), conversation.spent),
                (false, false) => (cache.max_share, begun.elapsed()),
            };
            let cache = DocumentCache { max_share, ..cache.clone() };
            let _ = turn.aside(&request.stop, || cache.keep(session, &request.text.names, elapsed));
            reading.was_kept();
        }
    }
    service.counts.read(cached, size - cached, started.elapsed());
    Ok((size - cached, started.elapsed()))
}

/// Another conversation takes the place of this one.
fn make_room(service: &Service, conversation: &mut Conversation) {
    conversation.keep(service.options.cache.as_ref());
    conversation.spent = Duration::ZERO;
}

/// Reads the text anew, and tells how likely the model finds its tokens. Returns what [`read_text`] does.
fn score_text(
    service: &Service,
    conversation: &mut Conversation,
    work: &Work,
) -> Result<(usize, Duration), EngineError> {
    let (request, started) = (&work.request, Instant::now());
    make_room(service, conversation);
    conversation.names.clear();
    let mut turn = service.turns.begin(&request.stop);
    let _ = work.events.send(Event::Begun { cached: 0 });
    let (tokens, top) = (&request.text.tokens, request.wanted.options.logprobs.unwrap_or(0));
    let scores = conversation.session.score(tokens, top, &mut |processed| {
        let _ = work.events.send(Event::Reading { processed, elapsed: started.elapsed() });
        turn.piece_done(&request.stop);
    })?;
    let _ = work.events.send(Event::Scored(scores));
    service.counts.read(0, tokens.len(), started.elapsed());
    Ok((tokens.len(), started.elapsed()))
}

/// Reads the first `end` tokens of a request, piece by piece.
fn read_until(
    session: &mut Session,
    request: &Request,
    end: usize,
    turn: &mut Turn,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), EngineError> {
    let mut reading = session.read(&request.text.tokens[..end])?;
    while let Some(now) = reading.step()? {
        progress(now);
        if turn.is_wanted() {
            // Its time is the reading's, not that of who computes next.
            reading.wait()?;
        }
        turn.piece_done(&request.stop);
    }
    Ok(())
}

/// An answer that was written.
struct Written {
    generated: Generated,
    /// How many functions it calls.
    calls: usize,
    /// With how many tokens the model thinks.
    thinking: usize,
    /// Its text, without thinking and calls.
    text: String,
}

/// Writes one answer behind the text.
fn write_answer(
    service: &Service,
    session: &mut Session,
    work: &Work,
    answer: usize,
    sampling: SamplerOptions,
) -> Result<Written, EngineError> {
    let request = &work.request;
    let _answering = service.turns.begin_answer();
    let mut sampler = Sampler::new(sampling)?;
    request.text.tokens.iter().for_each(|token| sampler.accept(*token));
    let mut parts = Parts::new(request);
    let mut text = String::new();
    let mut tell = |parts: Vec<AnswerPart>, logprobs: Option<&TokenLogProbs>| {
        let mut logprobs = logprobs.cloned();
        for part in parts {
            if let AnswerPart::Text(split) = &part {
                text += &split.answer;
            }
            let _ = work.events.send(match part {
                AnswerPart::Text(split) => Event::Text { answer, split, logprobs: logprobs.take() },
                AnswerPart::Call(call) => Event::Call { answer, call },
            });
        }
        if logprobs.is_some() {
            let _ = work.events.send(Event::Text { answer, split: Split::default(), logprobs });
        }
    };
    tell(parts.push(&request.text.opening), None);
    let mut thinking = 0;
    let mut on_piece = |piece: Piece| {
        tell(parts.push(piece.text), piece.logprobs);
        thinking += usize::from(parts.thinking.is_thinking());
        let is_over = request.stop.is_set() || parts.is_over();
        if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let tokenizer = service.format.tokenizer();
    let generated = generate_with(session, tokenizer, &mut sampler, &request.wanted.options, &mut on_piece)?;
    if !parts.is_over() {
        tell(parts.finish(), None);
    }
    Ok(Written { generated, calls: parts.calls(), thinking, text })
}

/// The parts of an answer's text, while it is written.
struct Parts<'a> {
    request: &'a Request,
    thinking: ThinkingStream,
    calls: Option<ToolStream>,
}

enum AnswerPart {
    Text(Split),
    Call(ToolCall),
}

impl<'a> Parts<'a> {
    fn new(request: &'a Request) -> Parts<'a> {
        let calls =
            request.text.calls.as_ref().map(|calls| ToolStream::new(&calls.format, calls.tools.clone()));
        Parts { request, thinking: ThinkingStream::default(), calls }
    }

    fn push(&mut self, text: &str) -> Vec<AnswerPart> {
        let split = match self.request.text.has_thinking {
            true => self.thinking.push(text),
            false => Split { answer: text.to_owned(), ..Split::default() },
        };
        self.split(split)
    }

    fn finish(&mut self) -> Vec<AnswerPart> {
        let split = self.thinking.finish();
        let mut parts = self.split(split);
        if let Some(calls) = &mut self.calls {
            parts.extend(calls.finish().into_iter().map(part));
        }
        parts
    }

    fn split(&mut self, Split { thinking, answer }: Split) -> Vec<AnswerPart> {
        let mut parts = Vec::new();
        match &mut self.calls {
            None if thinking.is_empty() && answer.is_empty() => {}
            None => parts.push(AnswerPart::Text(Split { thinking, answer })),
            Some(calls) => {
                if !thinking.is_empty() {
                    parts.push(AnswerPart::Text(Split { thinking, answer: String::new() }));
                }
                parts.extend(calls.push(&answer).into_iter().map(part));
            }
        }
        parts
    }

    fn calls(&self) -> usize {
        self.calls.as_ref().map_or(0, ToolStream::calls)
    }

    /// Whether nothing may follow the call that was made.
    fn is_over(&self) -> bool {
        self.calls() > 0 && self.request.text.calls.as_ref().is_some_and(|calls| calls.one_call)
    }
}

fn part(piece: ToolPiece) -> AnswerPart {
    match piece {
        ToolPiece::Call(call) => AnswerPart::Call(call),
        // What is no call is text, as the model has written it.
        ToolPiece::Text(answer) | ToolPiece::Malformed { text: answer, .. } => {
            AnswerPart::Text(Split { thinking: String::new(), answer })
        }
    }
}

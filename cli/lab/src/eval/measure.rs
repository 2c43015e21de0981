//! Reads the texts, asks, scores and records.

use std::collections::HashSet;
use std::sync::Arc;

use anyhow::Result;
use longhand::setup::available_memory;
use longhand::store::KvUsage;
use longhand::{ChatFormat, Engine, EngineError, Session, SessionOptions, Type};
use terminal::failure::Failure;
use terminal::format;
use terminal::progress::ProgressBar;

use crate::Lab;
use crate::eval::EvalArgs;
use crate::eval::caches::{Cache, F16, Reading, full_bytes};
use crate::eval::compare::sources::SourceRanks;
use crate::eval::full_cache::FullCache;
use crate::eval::peer::{Peer, PeerCommand};
use crate::eval::results::records::{Key, Record, Records};
use crate::eval::texts::contents::exercises;
use crate::eval::texts::exercise::{Content, Exercise, Question};
use crate::examine::{Answer, examine, groups, read};

/// Most tokens that a chat template writes around a prompt.
pub const TEMPLATE_TOKENS: usize = 256;

/// Longest name of a model that is recorded, in characters.
const MAX_NAME: usize = 200;

/// An evaluation of one model.
pub struct Evaluation<'a> {
    lab: &'a Lab,
    args: &'a EvalArgs,
    engine: &'a Arc<Engine>,
    format: ChatFormat,
    caches: &'a [Cache],
}

impl<'a> Evaluation<'a> {
    /// What the arguments ask for.
    ///
    /// # Errors
    /// Where the model has no usable chat template.
    pub fn new(
        lab: &'a Lab,
        args: &'a EvalArgs,
        engine: &'a Arc<Engine>,
        caches: &'a [Cache],
    ) -> Result<Evaluation<'a>> {
        let format = engine.model().chat_format()?;
        // Thinking would use up the tokens of the answer, which has begun already.
        let format = format.with_thinking(false).unwrap_or_else(|_| format.clone());
        Ok(Evaluation { lab, args, engine, format, caches })
    }

    /// Asks what is not answered yet, and records it.
    ///
    /// # Errors
    /// Where texts cannot be made, the computation fails, results cannot be written, or Ctrl-C was pressed.
    pub fn run(&self, records: &mut Records) -> Result<()> {
        let (mut work, mut impossible) = (Vec::new(), HashSet::new());
        let exercises = exercises(self.lab, self.args, &self.format)?;
        for exercise in &exercises {
            let missing = self.missing(records, exercise)?;
            let sessions = self.sessions(exercise, &missing, &mut impossible);
            if !sessions.is_empty() {
                work.push((exercise, sessions));
            }
        }
        let all: usize =
            work.iter().map(|(exercise, sessions)| exercise.document().len() * sessions.len()).sum();
        let mut done = 0;
        let mut bar = ProgressBar::new(&self.lab.console, "evaluating");
        for (exercise, sessions) in work {
            let full = FullCache::new(self.lab, self.engine, &self.format, exercise)?;
            let free = available_memory().unwrap_or(usize::MAX);
            for group in groups(self.engine, sessions, exercise.context(), free)? {
                let cost = exercise.document().len() * group.len();
                let detail = format!("{}, {} tokens", exercise.task, format::count(exercise.length));
                let mut progress = |share: f64| {
                    bar.show_share((done as f64 + share * cost as f64) / all as f64, &detail);
                };
                match &exercise.content {
                    Content::Question(question) => {
                        self.ask(exercise, question, &group, records, &mut progress)?;
                    }
                    _ => self.compare(exercise, &full, &group, records, &mut progress)?,
                }
                done += cost;
            }
        }
        match &self.args.peer {
            Some(command) => self.ask_peer(command, &exercises, records),
            None => Ok(()),
        }
    }

    /// Has another program answer the same prompts, with a full cache of each type.
    fn ask_peer(&self, command: &PeerCommand, exercises: &[Exercise], records: &mut Records) -> Result<()> {
        let spec = self.engine.spec();
        let context = exercises.iter().map(Exercise::context).max().unwrap_or(0);
        let is_full = |cache: &&Cache| cache.budget.is_none() && cache.reading == Reading::Exact;
        let types: Vec<(Type, Type)> = self.caches.iter().filter(is_full).map(|cache| cache.types).collect();
        let all = types.len() * exercises.len();
        let mut bar = ProgressBar::new(&self.lab.console, format!("asking {}", command.name));
        for (number, types) in types.into_iter().enumerate() {
            let cache = Cache::full(&command.name, types);
            let mut peer: Option<Peer> = None;
            for (index, exercise) in exercises.iter().enumerate() {
                let Content::Question(Question { text, score, told: None }) = &exercise.content else {
                    continue;
                };
                let key = self.key(exercise, &cache);
                if records.contains(&key, &exercise.checksum())? {
                    continue;
                }
                let peer = match &mut peer {
                    Some(peer) => peer,
                    none => none.insert(Peer::start(command, context, types)?),
                };
                let detail = format!("{}, {} tokens", exercise.task, format::count(exercise.length));
                bar.show_share(format::share(number * exercises.len() + index, all), &detail);
                let prompt = [&text.document[..], &text.questions.concat()].concat();
                let answer = self
                    .lab
                    .interrupt
                    .computing(|| peer.answer(&prompt, text.answer_limit, spec.n_vocab))
                    // Ctrl-C ends the program, too.
                    .map_err(
                        |error| if self.lab.interrupt.is_pressed() { Failure::interrupted() } else { error },
                    )?;
                let answer = self.format.tokenizer().decode(&answer, false);
                let answer = String::from_utf8_lossy(&answer).into_owned();
                let bytes = full_bytes(spec, text.document.len(), types);
                let record = self.record(exercise, key, command.name.clone(), bytes);
                records.add(Record { score: score(&answer), answer, ..record })?;
            }
        }
        Ok(())
    }

    /// The caches that have not answered, by index.
    fn missing(&self, records: &Records, exercise: &Exercise) -> Result<Vec<usize>, Failure> {
        let checksum = exercise.checksum();
        let mut missing = Vec::new();
        for (index, cache) in self.caches.iter().enumerate() {
            if !records.contains(&self.key(exercise, cache), &checksum)? {
                missing.push(index);
            }
        }
        Ok(missing)
    }

    fn key(&self, exercise: &Exercise, cache: &Cache) -> Key {
        Key {
            task: exercise.task.to_string(),
            model: self.engine.model().name().chars().take(MAX_NAME).collect(),
            fingerprint: self.engine.fingerprint().to_owned(),
            cache: cache.name.clone(),
            heads: cache.heads(),
            budget: cache.budget_text(),
            type_k: cache.types.0.name().to_owned(),
            type_v: cache.types.1.name().to_owned(),
            prefill: cache.reading.name().to_owned(),
            context: exercise.length,
            seed: self.args.seed,
            sample: exercise.sample,
            query_aware: self.args.query_aware && exercise.has_question(),
        }
    }

    /// Caches with the options of their sessions. Where a budget is too small for a policy, that is said once for each
    /// length; `impossible` has those for which it was.
    fn sessions(
        &self,
        exercise: &Exercise,
        caches: &[usize],
        impossible: &mut HashSet<(usize, usize)>,
    ) -> Vec<(usize, SessionOptions)> {
        let spec = self.engine.spec();
        let options = |index: &usize| match self.caches[*index].options(exercise.context(), spec) {
            Ok(options) => Some((*index, options)),
            Err(error) => {
                if impossible.insert((*index, exercise.length)) {
                    self.lab.console.note(&format!("note: {error}"));
                }
                None
            }
        };
        caches.iter().filter_map(options).collect()
    }

    fn new_sessions(&self, group: &[(usize, SessionOptions)]) -> Result<Vec<Session>, EngineError> {
        group
            .iter()
            .map(|(_, options)| self.lab.interrupt.new_session(self.engine, options.clone()))
            .collect()
    }

    /// Reads a text, asks its question, and records the scores of the answers, and their sources where these are known.
    fn ask(
        &self,
        exercise: &Exercise,
        Question { text, score, told }: &Question,
        group: &[(usize, SessionOptions)],
        records: &mut Records,
        progress: &mut dyn FnMut(f64),
    ) -> Result<()> {
        let mut sessions = self.new_sessions(group)?;
        if told.is_some() {
            sessions.iter_mut().try_for_each(|session| session.record_attention(true))?;
        }
        examine(self.lab, &self.format, &mut sessions, text, progress, &mut |answer| {
            let Answer { session, usage, state, prompt, text, .. } = answer;
            let record = self.record_of(exercise, &group[session], usage);
            let ranks = told.as_ref().map(|told| {
                self.lab
                    .interrupt
                    .computing(|| SourceRanks::of_answer(state, self.format.tokenizer(), told, prompt, text))
            });
            let sources = ranks.transpose()?;
            Ok(records.add(Record { score: score(text), answer: text.to_owned(), sources, ..record })?)
        })
    }

    /// Reads a text, and records how each cache differs from a full one.
    fn compare(
        &self,
        exercise: &Exercise,
        full: &FullCache,
        group: &[(usize, SessionOptions)],
        records: &mut Records,
        progress: &mut dyn FnMut(f64),
    ) -> Result<()> {
        let mut sessions = self.new_sessions(group)?;
        read(self.lab, &mut sessions, exercise.document(), &mut |share| progress(share / 2.0))?;
        for (index, (session, cache)) in sessions.iter_mut().zip(group).enumerate() {
            let mut record = self.record_of(exercise, cache, session.kv_usage());
            full.compare(self.lab, exercise, session, &mut record)?;
            records.add(record)?;
            progress(0.5 + format::share(index + 1, group.len()) / 2.0);
        }
        Ok(())
    }

    /// A record without its result. `usage`: the cache after the text.
    fn record_of(
        &self,
        exercise: &Exercise,
        (index, options): &(usize, SessionOptions),
        usage: KvUsage,
    ) -> Record {
        let key = self.key(exercise, &self.caches[*index]);
        self.record(exercise, key, options.policy.to_string(), usage.bytes)
    }

    /// A record without its result. `bytes`: of the cache after the text.
    fn record(&self, exercise: &Exercise, key: Key, policy: String, bytes: usize) -> Record {
        let tokens = exercise.document().len();
        Record {
            key,
            text: exercise.checksum(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            depth: exercise.depth,
            policy,
            tokens,
            kv_bytes: bytes,
            kv_share: format::share(bytes, full_bytes(self.engine.spec(), tokens, F16)),
            score: 0.0,
            answer: String::new(),
            prediction: None,
            agreement: None,
            retention: None,
            attention_loss: None,
            sources: None,
        }
    }
}

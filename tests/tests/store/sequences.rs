//! Random sequences of reading, steps, interrupts, undo, saving and clearing, under every policy. After each of
//! them the store is what a simple model says. The model is the *history*: the texts and steps that survive.
//! Undone and interrupted ones never happened.
//!
//! - A new session replays the history. It has the same store and the same logits, bit for bit.
//! - Another session keeps everything. In the first layer it has computed the same keys and values for the
//!   positions that the store says, and the same running sums.
//! - The papers' rules for `streaming`, `razor` and `h2o` are applied to the history. They leave the positions
//!   and the accumulated attention that the store has.
//!
//! `PROPTEST_CASES=10000 cargo test --release -p tests --test store sequences::` runs ten thousand sequences.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use kernels::graph::AttentionShape;
use longhand::policy::AccumulatedAttention;
use longhand::reading::Prefill;
use longhand::testing::kv::PolicyChoice;
use longhand::testing::placement::Place;
use longhand::testing::snapshot::{self, Snapshot};
use longhand::{Engine, EngineOptions, ModelSource, Session, SessionOptions};
use proptest::prelude::*;
use tests::fixtures::{
    bounded_policies, max_difference, options, random_tokens, session, tiny_model, with_policy,
};
use tests::is_gpu;

const CONTEXT: usize = 150;

/// What can happen to a session. Numbers of tokens are cut to what the context still takes.
#[derive(Clone, Debug)]
enum Action {
    Read {
        tokens: usize,
    },
    Steps {
        tokens: usize,
    },
    /// A text that is interrupted after so many operations, if it takes as many.
    Interrupted {
        tokens: usize,
        operations: usize,
    },
    /// Goes back to this share of the text, in 256ths; the text continues differently afterwards.
    Undo {
        share: usize,
    },
    /// Goes back to where the last text ended.
    UndoSteps,
    SaveAndRestore,
    Clear,
}

#[derive(Clone, Debug)]
struct Case {
    policy: String,
    prefill: Prefill,
    chunk: usize,
    actions: Vec<Action>,
}

/// What survives. Texts are whole, from the first token.
#[derive(Clone, Debug)]
enum Event {
    Text(Vec<u32>),
    Step(u32),
    /// A text of which only one token was read, as a chunk. Handing over this token alone would be a step.
    FirstToken(Vec<u32>),
    /// Rows taken off the end until one token less than this text is left, then its last token.
    Cut(Vec<u32>),
}

/// A session and its model.
struct Trial {
    engine: Arc<Engine>,
    options: SessionOptions,
    session: Session,
    history: Vec<Event>,
    /// Where the session can go back to: number of tokens, and of events.
    checkpoints: Vec<(usize, usize)>,
    /// Whether a text was interrupted and not read on yet.
    is_mid_text: bool,
    /// Which of the two continuations is read.
    variant: usize,
}

/// The tokens of two texts, and the first layer's keys, values and queries of each.
struct Reference {
    shape: AttentionShape,
    texts: [Vec<u32>; 2],
    rows: [Vec<HeadRows>; 2],
    /// `[head_dim, heads, tokens]`
    queries: [Vec<f32>; 2],
}

/// Keys and values of a KV head, `[head_dim]` each, by position.
struct HeadRows {
    keys: Vec<Vec<f32>>,
    values: Vec<Vec<f32>>,
}

static ENGINE: LazyLock<Arc<Engine>> = LazyLock::new(tiny_model);

/// Trials share an engine, which they interrupt, and a file.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

static REFERENCE: LazyLock<Reference> = LazyLock::new(|| {
    let traced = EngineOptions { trace: true, ..tests::engine_options() };
    let file = tests::data("golden/models/llama-gqa-llama3rope-f32.gguf");
    let engine = Engine::open(&ModelSource::File(file), &traced).expect("the model opens");
    let texts = [1, 2].map(|seed| random_tokens(&engine, CONTEXT, 50 + seed));
    let computed = texts.each_ref().map(|text| {
        let options = SessionOptions { chunk: CONTEXT, ..options(CONTEXT, "full") };
        let mut session = session(&engine, options);
        let mut intermediates = session.intermediates(text).expect("intermediates").into_iter();
        let (_, queries) = intermediates.find(|(name, _)| name == "Qcur-0").expect("queries");
        let heads = first_layer(&session).into_iter().flat_map(|lane| lane.heads);
        (heads.map(|head| head.rows).collect(), queries, session.store().layout().heads[0])
    });
    let [(first, first_queries, shape), (second, second_queries, _)] = computed;
    Reference { shape, texts, rows: [first, second], queries: [first_queries, second_queries] }
});

/// A lane of the store, read from its bytes.
struct LaneContents {
    kv_heads: Vec<u32>,
    heads: Vec<HeadContents>,
    evicted: usize,
    /// `[head_dim]` of K and of V for each head, where the lane is compensated.
    sums: Vec<[Vec<f32>; 2]>,
}

struct HeadContents {
    positions: Vec<u32>,
    rows: HeadRows,
}

/// The lanes of the first layer. The format is that of session files.
fn first_layer(session: &Session) -> Vec<LaneContents> {
    let (store, bytes) = (session.store(), session.store().contents().expect("the store"));
    let head_dim = store.layout().heads[0].head_dim;
    let mut numbers = bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let mut take = |n: usize| -> Vec<u32> { numbers.by_ref().take(n).collect() };
    let mut lanes = Vec::new();
    for lane in &store.layout().layers[0] {
        let state = take(6);
        let (live, evicted) = (state[1] as usize, state[2] as usize);
        let first = usize::from(lane.compensated);
        let count = lane.kv_heads.len();
        let positions: Vec<Vec<u32>> = (0..count)
            .map(|_| match lane.policy {
                Some(_) => take(live - first),
                None => (0..live as u32).collect(),
            })
            .collect();
        let mut vectors = |n: usize| -> Vec<Vec<f32>> {
            (0..n).map(|_| take(head_dim).into_iter().map(f32::from_bits).collect()).collect()
        };
        let [keys, values] =
            [0, 1].map(|_| (0..count).map(|_| vectors(live).split_off(first)).collect::<Vec<_>>());
        let sums = if lane.compensated {
            let (keys, values) = (vectors(count), vectors(count));
            keys.into_iter().zip(values).map(|(keys, values)| [keys, values]).collect()
        } else {
            Vec::new()
        };
        if let Some(AccumulatedAttention::WhileRunning(_)) = lane.needs().accumulated {
            let accumulated = take(live * count);
            assert!(accumulated.into_iter().map(f32::from_bits).all(|x| x.is_finite() && x >= 0.0));
        }
        let rows = keys.into_iter().zip(values).map(|(keys, values)| HeadRows { keys, values });
        let heads = positions.into_iter().zip(rows).map(|(positions, rows)| HeadContents { positions, rows });
        lanes.push(LaneContents { kv_heads: lane.kv_heads.clone(), heads: heads.collect(), evicted, sums });
    }
    lanes
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (1..60usize).prop_map(|tokens| Action::Read { tokens }),
        4 => (1..12usize).prop_map(|tokens| Action::Steps { tokens }),
        3 => (1..60usize, 1..160usize)
            .prop_map(|(tokens, operations)| Action::Interrupted { tokens, operations }),
        3 => (1..=256usize).prop_map(|share| Action::Undo { share }),
        2 => Just(Action::UndoSteps),
        1 => Just(Action::SaveAndRestore),
        1 => Just(Action::Clear),
    ]
}

fn case() -> impl Strategy<Value = Case> {
    let policy = (16..48usize, any::<prop::sample::Index>(), any::<bool>(), any::<bool>()).prop_map(
        |(rows, index, heads, compensation)| {
            let mut all = bounded_policies(rows, CONTEXT);
            all.push(PolicyChoice::default());
            // With as few rows the default protects no more later tokens than recent ones.
            let later = format!("kvzip:capacity={rows},recent=4,later=8,slack=2");
            all.push(later.parse().expect("a policy"));
            let policy = index.get(&all).to_string();
            let more = [(heads, "heads=on"), (compensation, "compensation=on")];
            more.iter().filter(|(on, _)| *on).fold(policy, |policy, (_, parameter)| {
                let separator = if policy.contains(':') { ',' } else { ':' };
                let with = format!("{policy}{separator}{parameter}");
                // Not every policy has these parameters.
                if with.parse::<PolicyChoice>().is_ok() { with } else { policy }
            })
        },
    );
    let prefill = prop_oneof![Just(Prefill::Exact), Just(Prefill::Streaming)];
    let chunk = prop_oneof![Just(1usize), Just(7), Just(32), Just(90)];
    let actions = prop::collection::vec(action(), 1..12);
    (policy, prefill, chunk, actions).prop_map(|(policy, prefill, chunk, actions)| Case {
        policy,
        prefill,
        chunk,
        actions,
    })
}

impl Trial {
    fn new(case: &Case) -> Trial {
        let engine = ENGINE.clone();
        let policy = case.policy.parse().expect("a policy");
        let options = SessionOptions {
            prefill: case.prefill,
            chunk: case.chunk,
            ..with_policy(&engine, &policy, options(CONTEXT, "full"))
        };
        let session = session(&engine, options.clone());
        Trial {
            engine,
            options,
            session,
            history: Vec::new(),
            checkpoints: Vec::new(),
            is_mid_text: false,
            variant: 0,
        }
    }

    /// The text so far and at most `more` tokens.
    fn continued(&self, more: usize) -> Vec<u32> {
        let mut text = self.session.tokens().to_vec();
        let next = &REFERENCE.texts[self.variant][text.len()..];
        text.extend(&next[..more.min(next.len())]);
        text
    }

    fn act(&mut self, action: &Action) {
        let held = self.session.tokens().len();
        match *action {
            Action::Read { tokens } => self.sync(&self.continued(tokens)),
            Action::Steps { tokens } => {
                for token in &self.continued(tokens)[held..] {
                    self.session.push(*token).expect("a step");
                    self.history.push(Event::Step(*token));
                }
            }
            Action::Interrupted { tokens, operations } => self.interrupt(&self.continued(tokens), operations),
            Action::Undo { share } => {
                let text = self.session.tokens()[..(held * share).div_ceil(256)].to_vec();
                self.sync(&text);
                self.variant = 1 - self.variant;
            }
            Action::UndoSteps => {
                let end = self.checkpoints.last().map_or(0, |(tokens, _)| *tokens);
                let text = self.session.tokens()[..end].to_vec();
                self.sync(&text);
            }
            Action::SaveAndRestore => {
                self.session = restored(&self.session);
                self.checkpoints = vec![(held, self.history.len())];
                self.is_mid_text = false;
            }
            Action::Clear => {
                self.is_mid_text = false;
                self.session.clear().expect("cleared");
                self.history.clear();
                self.checkpoints.clear();
            }
        }
    }

    /// Makes `text` the session's text, and says from which checkpoint that begins.
    fn sync(&mut self, text: &[u32]) {
        let Some(cut) = text.len().checked_sub(1) else { return };
        self.forget_other(text);
        let (held, is_known) = (self.session.tokens().len(), !self.session.logits().is_empty());
        let is_prefix = text.len() < held || (text.len() == held && !is_known);
        let can_cut = self.session.can_truncate_to(cut);
        let computed = self.session.sync(text, &mut |_| ()).expect("the text is read");
        let kept = text.len() - computed;
        if computed == 0 && text.len() == held && is_known {
            return;
        }
        if is_prefix {
            self.is_mid_text = false;
            let found = self.checkpoints.iter().rposition(|(tokens, _)| *tokens == kept);
            match found {
                Some(number) => {
                    self.checkpoints.truncate(number + 1);
                    self.history.truncate(self.checkpoints[number].1);
                }
                None if kept == 0 => {
                    self.checkpoints.clear();
                    self.history.clear();
                }
                None => {
                    assert!(can_cut && kept == cut, "{kept} of {held} tokens are kept");
                    self.history.push(Event::Cut(text.to_vec()));
                    // The checkpoint after the cut cannot be told from the text that follows it.
                    self.checkpoints = vec![(text.len(), self.history.len())];
                    return;
                }
            }
        }
        if computed > 0 {
            self.begin_turn(kept);
            self.history.push(Event::Text(text.to_vec()));
            self.checkpoints.push((text.len(), self.history.len()));
        }
        self.is_mid_text = false;
    }

    /// A text that is read on after an interrupt is one turn.
    fn begin_turn(&mut self, kept: usize) {
        if self.is_mid_text {
            return;
        }
        self.checkpoints.clear();
        if kept > 0 {
            self.checkpoints.push((kept, self.history.len()));
        }
    }

    /// Forgets the half-read beginning of another text. If that went on, its chunks would be others than those of the text alone,
    /// and so would the last bits (`engine/unfinished.rs` tests that).
    fn forget_other(&mut self, text: &[u32]) {
        if self.session.first_text_share().is_some() && !self.session.is_reading(text) {
            self.session.clear().expect("it is cleared");
        }
    }

    fn interrupt(&mut self, text: &[u32], operations: usize) {
        let held = self.session.tokens().len();
        if text.len() == held {
            return;
        }
        self.forget_other(text);
        let backend = self.engine.backends().at(Place::Host);
        backend.interrupt_after(operations);
        let result = self.session.sync(text, &mut |_| ());
        backend.interrupt_after(usize::MAX);
        self.session.interrupt().clear();
        let now = self.session.tokens();
        assert!(text.starts_with(now) && now.len() >= held);
        assert_eq!(result.is_ok(), now.len() == text.len());
        // What a first text was interrupted in goes on in another session as in this one.
        if held == 0
            && result.is_err()
            && let Some(resumed) = resumed(&self.session, text)
        {
            self.session = resumed;
        }
        let now = self.session.tokens();
        if now.len() > held {
            let now = now.to_vec();
            self.begin_turn(held);
            self.history.push(match now.len() - held {
                1 if held > 0 && result.is_err() => Event::FirstToken(text.to_vec()),
                _ => Event::Text(now),
            });
            self.is_mid_text = result.is_err();
            if result.is_ok() {
                self.checkpoints.push((text.len(), self.history.len()));
            }
        }
    }

    /// A new session that does what survived.
    fn replay(&self) -> Session {
        let mut session = session(&self.engine, self.options.clone());
        for event in &self.history {
            match event {
                Event::Text(text) => _ = session.sync(text, &mut |_| ()).expect("the text is read"),
                Event::Step(token) => session.push(*token).expect("a step"),
                Event::FirstToken(text) => {
                    let flag = session.interrupt().clone();
                    let stop = &mut |_| flag.set();
                    session.sync(text, stop).expect_err("interrupted");
                    flag.clear();
                }
                Event::Cut(text) => {
                    // Without the checkpoints, to which it would go back.
                    session = restored(&session);
                    if session.tokens().len() == text.len() {
                        // Its logits are known here, so that nothing would be computed.
                        let mut other = text.clone();
                        other.iter_mut().last().into_iter().for_each(|token| *token ^= 1);
                        session.sync(&other, &mut |_| ()).expect("the text is read");
                    }
                    assert_eq!(session.sync(text, &mut |_| ()).expect("the text is read"), 1);
                }
            }
        }
        session
    }

    fn check(&self) {
        let replayed = self.replay();
        assert_eq!(self.session.tokens(), replayed.tokens());
        if self.session.first_text_share().is_some() {
            // Its store holds layers of a text that is not read yet.
            assert!(self.session.tokens().is_empty() && self.session.logits().is_empty());
            return;
        }
        assert!(
            self.session.store().contents().expect("the store")
                == replayed.store().contents().expect("the store"),
            "another store than that of {:?}",
            self.history
        );
        // Where a text was interrupted, the logits are not known.
        if !self.session.logits().is_empty() || self.history.is_empty() {
            assert!(
                self.session.logits() == replayed.logits(),
                "other logits than those of {:?}",
                self.history
            );
        }
        self.check_rows();
        self.check_rule();
    }

    /// The first layer's keys, values and sums.
    fn check_rows(&self) {
        let tokens = self.session.tokens();
        let head_dim = self.session.store().layout().heads[0].head_dim;
        for lane in first_layer(&self.session) {
            for (number, (head, contents)) in lane.kv_heads.iter().zip(&lane.heads).enumerate() {
                let HeadContents { positions, rows } = contents;
                assert_eq!(positions.len() + lane.evicted, tokens.len(), "rows are lost");
                let mut evicted: Vec<bool> = vec![true; tokens.len()];
                let mut sums = [vec![0.0; head_dim], vec![0.0; head_dim]];
                for (row, position) in positions.iter().enumerate() {
                    let position = *position as usize;
                    assert!(std::mem::take(&mut evicted[position]), "position {position} is held twice");
                    let expected = reference(*head, position, tokens[position]);
                    assert_close(&rows.keys[row], expected[0], 1e-4);
                    assert_close(&rows.values[row], expected[1], 1e-4);
                }
                for position in (0..tokens.len()).filter(|position| evicted[*position]) {
                    for (sum, row) in sums.iter_mut().zip(reference(*head, position, tokens[position])) {
                        sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
                    }
                }
                if let Some(found) = lane.sums.get(number) {
                    found.iter().zip(&sums).for_each(|(found, sum)| assert_close(found, sum, 1e-3));
                }
            }
        }
    }

    /// The positions that the policy's rule leaves, and accumulated attention.
    fn check_rule(&self) {
        let Some(mut lane) = LaneModel::new(self) else { return };
        for event in &self.history {
            match event {
                Event::Text(text) => lane.read(text, &self.options),
                Event::FirstToken(text) => lane.chunk(&text[..lane.tokens.len() + 1], lane.slack_of_chunks()),
                Event::Step(token) => {
                    let text = [&lane.tokens[..], &[*token]].concat();
                    lane.chunk(&text, lane.slack);
                }
                Event::Cut(text) => {
                    lane.tokens.truncate(text.len() - 1);
                    lane.heads.iter_mut().for_each(|head| head.rows.retain(|row| row.0 + 1 < text.len()));
                    lane.chunk(text, lane.slack);
                }
            }
        }
        if lane.is_ambiguous {
            return;
        }
        let layers = if lane.counts_attention() { 1 } else { self.engine.spec().n_layers };
        for layer in 0..layers {
            let held = self.session.store().positions(layer);
            for head in &lane.heads {
                let expected: Vec<u32> = head.rows.iter().map(|row| row.0 as u32).collect();
                assert_eq!(held[head.kv_head], expected, "{:?}", self.history);
            }
        }
        if lane.counts_attention() {
            let found = self.session.store().accumulated_attention(0).expect("attention");
            for head in &lane.heads {
                let expected: Vec<f32> = head.rows.iter().map(|row| row.1 as f32).collect();
                let found = found[head.kv_head].as_ref().expect("it accumulates attention");
                assert_close(found, &expected, 1e-3);
            }
        }
    }
}

/// The rule of a policy, as its paper says.
enum Rule {
    /// The first rows and the last ones.
    Recent { sinks: usize, window: usize },
    /// The rows that received the most attention from all queries so far, and the last ones.
    HeavyHitters { heavy: usize, recent: usize },
}

/// The heads of the first layer that a policy bounds, as plain vectors.
struct LaneModel {
    rule: Rule,
    /// Rows beyond the budget that may stay after a step.
    slack: usize,
    capacity: usize,
    shape: AttentionShape,
    heads: Vec<HeadModel>,
    tokens: Vec<u32>,
    /// Whether two rows competed whose attention differs too little to say which one stays.
    is_ambiguous: bool,
}

struct HeadModel {
    kv_head: usize,
    /// Position and accumulated attention of each row, by position.
    rows: Vec<(usize, f64)>,
}

impl LaneModel {
    /// `None` for other policies, and where an entry that stands for evicted rows receives attention too.
    fn new(trial: &Trial) -> Option<LaneModel> {
        let (policy, profile) = (&trial.options.policy, &trial.options.profile);
        let value = |name: &str| policy.value(name).map(|value| value as usize);
        let (rule, budget) = match policy.name() {
            "streaming" => (
                Rule::Recent { sinks: value("sinks")?, window: value("window")? },
                value("sinks")? + value("window")?,
            ),
            "razor" => (
                Rule::Recent { sinks: value("sinks")?, window: value("buffer")? },
                value("sinks")? + value("buffer")?,
            ),
            "h2o" if !policy.is_compensated() => {
                let (heavy, recent) = (value("heavy")?, value("recent")?);
                (Rule::HeavyHitters { heavy, recent }, heavy + recent)
            }
            _ => return None,
        };
        let slack = match (policy.value("slack")?, &rule) {
            (slack, Rule::Recent { window, .. }) if slack < 0.0 => (window / 8).clamp(1, 512),
            (slack, _) => slack as usize,
        };
        let reserve = (budget.min(CONTEXT) / 8).clamp(32, 512);
        let shape = trial.session.store().layout().heads[0];
        let is_bounded =
            |head: &usize| profile.as_ref().is_none_or(|profile| !profile.is_retrieval(0, *head));
        let heads = (0..shape.n_kv_heads).filter(is_bounded);
        Some(LaneModel {
            rule,
            slack,
            capacity: (budget + reserve.max(slack + 1)).min(CONTEXT),
            shape,
            heads: heads.map(|kv_head| HeadModel { kv_head, rows: Vec::new() }).collect(),
            tokens: Vec::new(),
            is_ambiguous: false,
        })
    }

    fn counts_attention(&self) -> bool {
        matches!(self.rule, Rule::HeavyHitters { .. })
    }

    fn slack_of_chunks(&self) -> usize {
        if self.counts_attention() { 0 } else { self.slack }
    }

    fn live(&self) -> usize {
        self.heads.first().map_or(0, |head| head.rows.len())
    }

    fn read(&mut self, text: &[u32], options: &SessionOptions) {
        match text.len() - self.tokens.len() {
            _ if self.tokens.is_empty() && options.prefill == Prefill::Exact => {
                self.append(text);
                self.evict(0);
            }
            1 if !self.tokens.is_empty() => self.chunk(text, self.slack),
            _ => {
                while self.tokens.len() < text.len() {
                    let end = text.len().min(self.tokens.len() + options.chunk);
                    self.chunk(&text[..end], self.slack_of_chunks());
                }
            }
        }
    }

    /// As many of the next tokens of `text` as there is room for; then rows beyond the slack are evicted.
    fn chunk(&mut self, text: &[u32], slack: usize) {
        let seen = self.tokens.len();
        if self.capacity - self.live() < text.len() - seen {
            self.evict(0);
        }
        self.append(&text[..text.len().min(seen + self.capacity - self.live())]);
        self.evict(slack);
    }

    /// Adds the rows of the new tokens of `text`, and the attention of their queries.
    fn append(&mut self, text: &[u32]) {
        let new = self.tokens.len()..text.len();
        self.tokens.extend_from_slice(&text[new.clone()]);
        let counts_attention = self.counts_attention();
        for head in &mut self.heads {
            head.rows.extend(new.clone().map(|position| (position, 0.0)));
            for query in new.clone().filter(|_| counts_attention) {
                let seen = head.rows.partition_point(|row| row.0 <= query);
                for member in 0..self.shape.group {
                    let q = reference_query(head.kv_head * self.shape.group + member, query, text[query]);
                    let logit = |row: &(usize, f64)| {
                        let [key, _] = reference(head.kv_head as u32, row.0, text[row.0]);
                        let product: f64 =
                            q.iter().zip(key).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum();
                        product * f64::from(self.shape.scale)
                    };
                    let weights: Vec<f64> = head.rows[..seen].iter().map(|row| logit(row).exp()).collect();
                    let sum: f64 = weights.iter().sum();
                    for (row, weight) in head.rows.iter_mut().zip(weights) {
                        row.1 += weight / sum / self.shape.group as f64;
                    }
                }
            }
        }
    }

    fn evict(&mut self, slack: usize) {
        let (seen, live) = (self.tokens.len(), self.live());
        match self.rule {
            Rule::Recent { sinks, window } if live > sinks.min(seen) + window + slack => {
                let stays = |row: &(usize, f64)| row.0 < sinks || row.0 >= seen - window;
                self.heads.iter_mut().for_each(|head| head.rows.retain(stays));
            }
            Rule::HeavyHitters { heavy, recent } if live > heavy + recent + slack => {
                for HeadModel { rows, .. } in &mut self.heads {
                    let last = rows.split_off(rows.partition_point(|row| row.0 < seen - recent));
                    rows.sort_by(|a, b| b.1.total_cmp(&a.1));
                    self.is_ambiguous |= rows[heavy - 1].1 - rows[heavy].1 < 1e-4;
                    rows.truncate(heavy);
                    rows.extend(last);
                    rows.sort_by_key(|row| row.0);
                }
            }
            _ => {}
        }
    }
}

/// The first layer's key and value of a token.
fn reference(head: u32, position: usize, token: u32) -> [&'static [f32]; 2] {
    let rows = &REFERENCE.rows[variant(position, token)][head as usize];
    [&rows.keys[position], &rows.values[position]]
}

/// The first layer's query of a token.
fn reference_query(head: usize, position: usize, token: u32) -> &'static [f32] {
    let AttentionShape { head_dim, n_kv_heads, group, .. } = REFERENCE.shape;
    let at = (position * n_kv_heads * group + head) * head_dim;
    &REFERENCE.queries[variant(position, token)][at..at + head_dim]
}

/// Which text has this token here.
fn variant(position: usize, token: u32) -> usize {
    REFERENCE.texts.iter().position(|text| text[position] == token).expect("a token of a text")
}

/// A GPU multiplies few tokens in TF32, also where cuBLAS may not.
fn assert_close(found: &[f32], expected: &[f32], tolerance: f32) {
    let tolerance = if is_gpu() { 1e-2 } else { tolerance };
    let difference = max_difference(found, expected);
    assert!(difference < tolerance, "{difference:e}");
}

/// The session, saved and restored.
fn restored(session: &Session) -> Session {
    let path: PathBuf = std::env::temp_dir().join(format!("longhand-sequences-{}", std::process::id()));
    snapshot::save(session, "", &path).expect("saved");
    let restored = Snapshot::open(&path).and_then(|saved| saved.restore(session.engine()));
    fs::remove_file(&path).expect("removed");
    restored.expect("restored")
}

/// A session that reads on a first text; `None` where nothing of it was read.
fn resumed(session: &Session, text: &[u32]) -> Option<Session> {
    let path = std::env::temp_dir().join(format!("longhand-sequences-part-{}", std::process::id()));
    snapshot::save_unfinished(session, text, &path).ok()?;
    let mut other = Session::new(session.engine(), session.options().clone()).expect("a session");
    snapshot::resume(&path, &mut other, text).expect("it goes on");
    fs::remove_file(&path).expect("removed");
    Some(other)
}

/// Rows that are appended where evicted ones were have no scores, and nothing of those.
#[test]
fn scores_of_evicted_rows_are_not_saved() {
    let _alone = alone();
    let case = Case {
        policy: "kvzip:capacity=16,recent=8,slack=2".into(),
        prefill: Prefill::Exact,
        chunk: 1,
        actions: vec![
            Action::Read { tokens: 1 },
            Action::Read { tokens: 40 },
            Action::SaveAndRestore,
            Action::Steps { tokens: 1 },
        ],
    };
    let mut trial = Trial::new(&case);
    for action in &case.actions {
        trial.act(action);
        trial.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_leaves_what_its_history_says(case in case()) {
        let _alone = alone();
        let mut trial = Trial::new(&case);
        for action in &case.actions {
            trial.act(action);
        }
        trial.check();
    }
}

//! What a service has done so far, for `/metrics`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts since the start.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    requests: AtomicU64,
    failures: AtomicU64,
    refused: AtomicU64,
    cached_tokens: AtomicU64,
    read_tokens: AtomicU64,
    reading_ms: AtomicU64,
    answer_tokens: AtomicU64,
    answering_ms: AtomicU64,
}

/// A count with its name and what it is.
pub(crate) struct Count {
    pub name: &'static str,
    pub help: &'static str,
    pub value: f64,
}

impl Counts {
    pub(super) fn began(&self) {
        add(&self.requests, 1);
    }

    pub(super) fn failed(&self) {
        add(&self.failures, 1);
    }

    pub(super) fn refused(&self) {
        add(&self.refused, 1);
    }

    /// A text was read, of which some tokens were there already.
    pub(super) fn read(&self, cached: usize, read: usize, elapsed: Duration) {
        add(&self.cached_tokens, cached as u64);
        add(&self.read_tokens, read as u64);
        add(&self.reading_ms, elapsed.as_millis() as u64);
    }

    /// Tokens of prompts that were read in a second, on average; 0 before the first.
    pub(super) fn read_per_second(&self) -> f64 {
        get(&self.read_tokens) as f64 / (get(&self.reading_ms).max(1) as f64 / 1e3)
    }

    pub(super) fn answered(&self, tokens: usize, elapsed: Duration) {
        add(&self.answer_tokens, tokens as u64);
        add(&self.answering_ms, elapsed.as_millis() as u64);
    }

    /// All of them.
    pub(crate) fn all(&self) -> [Count; 8] {
        let count = |name, help, value: &AtomicU64| Count { name, help, value: get(value) as f64 };
        let seconds = |name, help, value: &AtomicU64| Count { name, help, value: get(value) as f64 / 1e3 };
        [
            count("requests_total", "Requests that a session has begun to answer", &self.requests),
            count("failures_total", "Requests that ended with an error", &self.failures),
            count("refused_total", "Requests that found no place in the queue", &self.refused),
            count("cached_tokens_total", "Tokens of prompts that were not read again", &self.cached_tokens),
            count("prompt_tokens_total", "Tokens of prompts that were read", &self.read_tokens),
            seconds("prompt_seconds_total", "Time of reading them", &self.reading_ms),
            count("answer_tokens_total", "Tokens of answers", &self.answer_tokens),
            seconds("answer_seconds_total", "Time of writing them", &self.answering_ms),
        ]
    }
}

fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

fn get(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

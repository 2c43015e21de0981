//! Texts that grow until they have the length that was asked for, as RULER's scripts grow them. The state of this search
//! is part of the prompt: every draft draws random numbers, also one whose tokens are not counted.

use std::ops::{ControlFlow, Range};

use crate::{Sample, TaskError, places};

/// A prompt in one piece.
pub(super) struct DraftSample {
    pub(super) text: String,
    /// Where the question begins, in bytes.
    pub(super) question_start: usize,
    /// Where the beginning of the answer begins, in bytes.
    pub(super) answer_start: usize,
    pub(super) references: Vec<String>,
    /// As [`Sample::needles`].
    pub(super) needles: Vec<Range<usize>>,
}

impl DraftSample {
    pub(super) fn new(
        context: String,
        question: &str,
        answer_prefix: &str,
        references: Vec<String>,
    ) -> DraftSample {
        let question_start = context.len();
        let answer_start = question_start + question.len();
        let text = context + question + answer_prefix;
        DraftSample { text, question_start, answer_start, references, needles: Vec::new() }
    }

    /// The same with the places of right answers: those in these parts of the text.
    pub(super) fn with_answers_in(self, parts: impl IntoIterator<Item = Range<usize>>) -> DraftSample {
        let needles = parts.into_iter().flat_map(|part| places(&self.text, part, &self.references)).collect();
        DraftSample { needles, ..self }
    }

    pub(super) fn into_sample(mut self, tokens: usize) -> Sample {
        let answer_prefix = self.text.split_off(self.answer_start);
        let question = self.text.split_off(self.question_start);
        let DraftSample { text: context, references, needles, .. } = self;
        Sample { context, question, answer_prefix, references, needles, tokens }
    }
}

/// A task whose texts have a size: words, sentences or documents.
pub(super) trait Growing {
    /// The first size, and what sizes grow and shrink by.
    fn increment(&self) -> usize;

    /// The size to try after one that was too small, or the size to stop with.
    fn grow(&self, size: usize) -> ControlFlow<usize, usize> {
        ControlFlow::Continue(size + self.increment())
    }

    /// How often a sample that is too long is generated again before it is made smaller.
    fn attempts(&self) -> usize {
        1
    }

    /// A prompt. `None` if this size, or these random numbers, make none.
    fn draft(&mut self, sample: usize, size: usize) -> Option<DraftSample>;

    /// What is added to a prompt before its tokens are counted to choose the size.
    fn answer(&self, references: &[String]) -> String;

    /// Completes a prompt that fits.
    fn finish(&mut self, draft: DraftSample) -> DraftSample {
        draft
    }
}

/// What the tokens that were asked for are spent on.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    /// All tokens.
    pub(super) tokens: usize,
    /// Those of the answer, and of an example that is added to the prompt.
    pub(super) reserved: usize,
}

/// At the smallest size, a prompt that does not fit is generated this often: random numbers may make it shorter.
const MAX_ATTEMPTS: usize = 20;

/// Chooses a size by growing a first text, and generates samples of it. Samples that do not fit shrink.
pub(super) fn samples(
    task: &mut dyn Growing,
    samples: usize,
    budget: Budget,
    count: &dyn Fn(&str) -> usize,
) -> Result<Vec<Sample>, TaskError> {
    let mut counter = Counter::new(count);
    let size = choose_size(task, budget, &mut counter);
    (0..samples).map(|sample| fit(task, sample, size, budget, &mut counter)).collect()
}

/// The largest size whose text is not too long. 0 if the first one is too long.
fn choose_size(task: &mut dyn Growing, budget: Budget, counter: &mut Counter) -> usize {
    let limit = budget.tokens.saturating_sub(budget.reserved);
    let mut size = task.increment();
    let mut tokens = 0;
    while tokens < limit {
        // Without a draft the scripts fail here. Chance makes another one.
        let Some(draft) = (0..MAX_ATTEMPTS).find_map(|_| task.draft(0, size)) else { break };
        let text = draft.text + &task.answer(&draft.references);
        tokens = counter.count_if_needed(&text, limit);
        if tokens > limit {
            return size - task.increment();
        }
        match task.grow(size) {
            ControlFlow::Continue(next) => size = next,
            ControlFlow::Break(last) => return last,
        }
    }
    size
}

fn fit(
    task: &mut dyn Growing,
    sample: usize,
    mut size: usize,
    budget: Budget,
    counter: &mut Counter,
) -> Result<Sample, TaskError> {
    let mut attempts = 0;
    loop {
        if let Some(draft) = task.draft(sample, size) {
            let tokens = counter.count(&draft.text) + budget.reserved;
            if tokens <= budget.tokens {
                return Ok(task.finish(draft).into_sample(tokens));
            }
        }
        attempts += 1;
        if attempts >= task.attempts() && size > task.increment() {
            size -= task.increment();
            attempts = 0;
        } else if attempts == MAX_ATTEMPTS {
            let minimum = counter.fewest.saturating_add(budget.reserved).max(budget.tokens + 1);
            return Err(TaskError::TooShort { tokens: budget.tokens, minimum });
        }
    }
}

/// Counts tokens, but not those of texts that are far too short.
pub(super) struct Counter<'a> {
    count: &'a dyn Fn(&str) -> usize,
    /// Bytes and tokens of the text that was counted last.
    last: Option<(usize, usize)>,
    /// The fewest tokens of any text.
    pub(super) fewest: usize,
}

impl<'a> Counter<'a> {
    pub(super) fn new(count: &'a dyn Fn(&str) -> usize) -> Counter<'a> {
        Counter { count, last: None, fewest: usize::MAX }
    }

    /// The tokens of a text.
    pub(super) fn count(&mut self, text: &str) -> usize {
        let tokens = (self.count)(text);
        self.last = Some((text.len(), tokens));
        self.fewest = self.fewest.min(tokens);
        tokens
    }

    /// The tokens of a text, or 0 if they are surely fewer than `limit`. They are if those bytes that are more than
    /// in the last text do not have more than twice as many tokens each.
    ///
    /// A text with 32 bytes for each token of the limit counts as too long, whatever a counter says.
    pub(super) fn count_if_needed(&mut self, text: &str, limit: usize) -> usize {
        if text.len() / 32 > limit.max(1000) {
            return usize::MAX;
        }
        if let Some((bytes, tokens)) = self.last {
            let added = text.len().saturating_sub(bytes);
            let most = tokens as f64 * (1.0 + 2.0 * added as f64 / bytes.max(1) as f64);
            if added > 0 && tokens > 0 && most < limit as f64 {
                return 0;
            }
        }
        self.count(text)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_long_text_is_counted_a_few_times_only() {
        let calls = Cell::new(0);
        let count = |text: &str| {
            calls.set(calls.get() + 1);
            text.len() / 4
        };
        let mut counter = Counter::new(&count);
        let first_too_long =
            (1..).find(|&size| counter.count_if_needed(&"x".repeat(size * 40), 100_000) > 100_000);
        assert_eq!(first_too_long, Some(10_001));
        assert!(calls.get() < 30, "{}", calls.get());
    }
}

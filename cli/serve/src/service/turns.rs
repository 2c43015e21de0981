//! Who computes next. One piece of work is computed at a time: the next tokens of all answers, or a piece of a reading. What
//! follows a token, such as the eviction of rows, is short and needs no turn. After
//! each, the next is who has computed for the least time. Time spent on answers counts less, so that they keep more than half of
//! their speed beside a long reading.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use longhand::InterruptFlag;

/// How much of its time counts for answers. That of readings counts whole.
const OF_ANSWERS: f64 = 0.5;

/// How often one who waits looks whether its work was stopped.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// The order in which conversations compute.
#[derive(Default)]
pub(super) struct Turns {
    state: Mutex<TurnsState>,
    changed: Condvar,
}

#[derive(Default)]
struct TurnsState {
    is_taken: bool,
    /// Who waits: the time that each has used, in seconds, and its number.
    waiting: Vec<(f64, u64)>,
    /// What the one has used who computes, or who computed last. Who comes new has used as much.
    now: f64,
    /// What answers have used together.
    by_answers: f64,
    /// How many answers are written.
    answers: usize,
    numbers: u64,
}

/// An answer that is written.
pub(super) struct Answering<'a>(&'a Turns);

/// The right to read; dropping it lets the next one compute.
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    number: u64,
    /// Seconds.
    used: f64,
    since: Instant,
    /// False where its work was stopped while it waited.
    is_held: bool,
}

impl Turns {
    /// An answer begins. If it is the only one, answers have used as much as who comes new.
    pub(super) fn begin_answer(&self) -> Answering<'_> {
        let mut state = self.lock();
        if state.answers == 0 {
            state.by_answers = state.now;
        }
        state.answers += 1;
        Answering(self)
    }

    /// Waits until answers may compute, and computes.
    pub(super) fn compute_answers(&self, compute: &mut dyn FnMut()) {
        let turn = self.begin_with(|state| state.by_answers, &InterruptFlag::new());
        compute();
        self.lock().by_answers += turn.since.elapsed().as_secs_f64() * OF_ANSWERS;
    }

    /// Waits until it may read. Where the flag is set before, it returns at once, and must not compute.
    pub(super) fn begin(&self, stop: &InterruptFlag) -> Turn<'_> {
        self.begin_with(|state| state.now, stop)
    }

    /// Waits for a turn of one who has used so much.
    fn begin_with(&self, used: fn(&TurnsState) -> f64, stop: &InterruptFlag) -> Turn<'_> {
        let mut state = self.lock();
        state.numbers += 1;
        let (number, used) = (state.numbers, used(&state));
        let is_held = self.wait(state, number, used, stop);
        Turn { turns: self, number, used, since: Instant::now(), is_held }
    }

    fn lock(&self) -> MutexGuard<'_, TurnsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the turn. False where the flag was set first.
    fn wait(
        &self,
        mut state: MutexGuard<'_, TurnsState>,
        number: u64,
        used: f64,
        stop: &InterruptFlag,
    ) -> bool {
        state.waiting.push((used, number));
        loop {
            let is_next = state.next().is_some_and(|(_, next)| next == number);
            let is_stopped = stop.is_set();
            if is_stopped || !state.is_taken && is_next {
                state.waiting.retain(|(_, other)| *other != number);
                if !is_stopped {
                    (state.is_taken, state.now) = (true, used);
                }
                drop(state);
                // Another one may be next now.
                self.changed.notify_all();
                return !is_stopped;
            }
            state = self.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl TurnsState {
    /// Who has used the least, the first of those that have used as much.
    fn next(&self) -> Option<(f64, u64)> {
        self.waiting.iter().copied().min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))
    }
}

impl Turn<'_> {
    /// Lets others compute while this one does something that is no computation.
    pub(super) fn aside<T>(&mut self, stop: &InterruptFlag, work: impl FnOnce() -> T) -> T {
        if std::mem::take(&mut self.is_held) {
            self.turns.lock().is_taken = false;
            self.turns.changed.notify_all();
        }
        let result = work();
        // Others have computed meanwhile, and it does not catch up with them.
        self.used = self.used.max(self.turns.lock().now);
        self.is_held = self.turns.wait(self.turns.lock(), self.number, self.used, stop);
        self.since = Instant::now();
        result
    }

    /// Whether others wait for their turn.
    pub(super) fn is_wanted(&self) -> bool {
        !self.turns.lock().waiting.is_empty()
    }

    /// Ends a piece of a reading. Those go first that have used less. Returns when it may go on, or the flag is set.
    pub(super) fn piece_done(&mut self, stop: &InterruptFlag) {
        if !self.is_held {
            return;
        }
        self.used += self.since.elapsed().as_secs_f64();
        let mut state = self.turns.lock();
        if state.next().is_some_and(|(used, _)| used < self.used) {
            state.is_taken = false;
            self.turns.changed.notify_all();
            self.is_held = self.turns.wait(state, self.number, self.used, stop);
        } else {
            state.now = self.used;
        }
        self.since = Instant::now();
    }
}

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        self.0.lock().answers -= 1;
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.is_held {
            self.turns.lock().is_taken = false;
            self.turns.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_beside_a_reading_get_two_thirds_of_the_time() {
        // Seconds that a piece of each takes, and how much of it counts.
        let pieces = [(0.02, OF_ANSWERS), (2.0, 1.0)];
        let mut state = TurnsState { waiting: vec![(0.0, 0), (0.0, 1)], ..TurnsState::default() };
        let mut spent = [0.0, 0.0];
        while spent[0] + spent[1] < 600.0 {
            let (used, number) = state.next().expect("both wait");
            let (time, weight) = pieces[number as usize];
            spent[number as usize] += time;
            state.waiting.retain(|(_, other)| *other != number);
            state.waiting.push((used + time * weight, number));
        }
        let share = spent[0] / (spent[0] + spent[1]);
        assert!((0.65..0.68).contains(&share), "{share}");
    }

    #[test]
    fn the_first_answer_has_used_as_much_as_who_reads() {
        let (turns, stop) = (Turns::default(), InterruptFlag::new());
        turns.lock().now = 100.0;
        let answering = turns.begin_answer();
        let mut computed = 0;
        turns.compute_answers(&mut || computed += 1);
        let used = turns.lock().by_answers;
        assert!(used >= 100.0 && computed == 1);
        drop(turns.begin(&stop));
        turns.lock().now = 200.0;
        drop(turns.begin_answer());
        assert_eq!(turns.lock().by_answers, used, "another answer is written");
        drop(answering);
        drop(turns.begin_answer());
        assert_eq!(turns.lock().by_answers, 200.0);
    }

    #[test]
    fn nobody_waits_behind_one_that_has_left() {
        let (turns, stop) = (Turns::default(), InterruptFlag::new());
        let turn = turns.begin(&stop);
        let gone = InterruptFlag::new();
        gone.set();
        assert!(!turns.begin(&gone).is_held);
        drop(turn);
        assert!(turns.begin(&stop).is_held);
        assert!(turns.begin(&stop).is_held);
    }
}

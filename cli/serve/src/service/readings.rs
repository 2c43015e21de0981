//! What is being read now. Who comes later with the same beginning waits, and finds it on the disk instead of reading it a second
//! time.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use longhand::InterruptFlag;

use super::turns::LOOK;
use super::work::{Text, WORTH_KEEPING};

/// The texts that are read now.
pub(super) struct Readings {
    state: Mutex<OpenReadings>,
    changed: Condvar,
    /// Whether the beginning of a text that was read can be used for another text. Else only the whole text can, and its documents.
    keeps_beginnings: bool,
}

#[derive(Default)]
struct OpenReadings {
    begun: Vec<Begun>,
    /// How many readings were begun. Later ones have higher numbers.
    numbers: u64,
}

struct Begun {
    number: u64,
    tokens: Vec<u32>,
    documents: usize,
    /// How often something of it was kept on the disk.
    kept: u64,
    /// Whether another one waits for it.
    is_awaited: bool,
}

/// A text that is read; dropping it says that this has ended.
pub(super) struct Reading<'a> {
    readings: &'a Readings,
    number: u64,
}

impl Readings {
    pub(super) fn new(keeps_beginnings: bool) -> Readings {
        Readings { state: Mutex::default(), changed: Condvar::new(), keeps_beginnings }
    }

    /// A text is to be read.
    pub(super) fn begin(&self, text: &Text) -> Reading<'_> {
        let mut state = self.lock();
        state.numbers += 1;
        let number = state.numbers;
        let (tokens, documents) = (text.tokens.clone(), text.documents);
        state.begun.push(Begun { number, tokens, documents, kept: 0, is_awaited: false });
        Reading { readings: self, number }
    }

    /// Whether a text of which so much need not be read is read sooner if it waits for another one: until that one's documents
    /// are read, or all of it. What it has besides is read meanwhile, too.
    fn saves(&self, other: &Begun, tokens: &[u32], kept: usize) -> bool {
        let shared = other.tokens.iter().zip(tokens).take_while(|(one, other)| one == other).count();
        let has_documents = (kept + 1..=shared).contains(&other.documents);
        let until = if has_documents { other.documents } else { other.tokens.len() };
        let found = if self.keeps_beginnings || until <= shared { shared.min(until) } else { 0 };
        let (gain, besides) = (found.saturating_sub(kept), until - found);
        gain >= WORTH_KEEPING && besides <= gain
    }

    fn lock(&self) -> MutexGuard<'_, OpenReadings> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenReadings {
    /// How often something was kept of a reading; `None` if it has ended.
    fn kept_of(&self, number: u64) -> Option<u64> {
        self.begun.iter().find(|begun| begun.number == number).map(|begun| begun.kept)
    }
}

impl Reading<'_> {
    /// Waits where others that were begun before read most of what this one lacks. `kept` is how much it does not lack, and `found`
    /// tells that by what the disk has. Returns when there is nothing to wait for any more, or the flag is set.
    pub(super) fn wait_for_others<E>(
        &self,
        tokens: &[u32],
        mut kept: usize,
        found: impl Fn() -> Result<usize, E>,
        stop: &InterruptFlag,
    ) -> Result<(), E> {
        while let Some((other, before)) = self.await_other(tokens, kept) {
            let found = found()?;
            if found > kept {
                kept = found;
                continue;
            }
            let mut state = self.readings.lock();
            while state.kept_of(other) == Some(before) && !stop.is_set() {
                state =
                    self.readings.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
            }
            if stop.is_set() {
                break;
            }
        }
        Ok(())
    }

    /// The first reading that is worth waiting for, and how often something of it was kept. All of them are awaited now.
    fn await_other(&self, tokens: &[u32], kept: usize) -> Option<(u64, u64)> {
        let mut state = self.readings.lock();
        let mut first = None;
        for other in state.begun.iter_mut().filter(|other| other.number < self.number) {
            if self.readings.saves(other, tokens, kept) {
                other.is_awaited = true;
                first = first.or(Some((other.number, other.kept)));
            }
        }
        first
    }

    /// Whether another one waits for it.
    pub(super) fn is_awaited(&self) -> bool {
        self.readings.lock().begun.iter().any(|begun| begun.number == self.number && begun.is_awaited)
    }

    /// The disk has what was read so far.
    pub(super) fn was_kept(&self) {
        let mut state = self.readings.lock();
        state.begun.iter_mut().filter(|begun| begun.number == self.number).for_each(|begun| begun.kept += 1);
        drop(state);
        self.readings.changed.notify_all();
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.readings.lock().begun.retain(|other| other.number != self.number);
        self.readings.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// A text that begins with so many tokens that all of these texts have.
    fn text(shared: u32, own: u32, tokens: u32) -> Text {
        Text {
            tokens: (0..shared).chain((shared..tokens).map(|token| token + own)).collect(),
            documents: 0,
            names: Vec::new(),
            opening: String::new(),
            has_thinking: false,
            calls: None,
            stops: Vec::new(),
            sources: None,
        }
    }

    /// Waits, where the disk has so many tokens.
    fn wait(reading: &Reading, text: &Text, kept: &AtomicUsize, stop: &InterruptFlag) {
        let found = || Ok::<usize, ()>(kept.load(Ordering::Relaxed));
        reading.wait_for_others(&text.tokens, 0, found, stop).expect("no error");
    }

    #[test]
    fn who_lacks_what_is_read_waits_until_the_disk_has_it() {
        let (readings, stop, kept) = (Readings::new(true), InterruptFlag::new(), AtomicUsize::new(0));
        let first = readings.begin(&text(0, 0, 3000));
        let others = [text(2900, 9, 3000), text(2900, 10, 3000)];
        thread::scope(|scope| {
            let others = others.each_ref().map(|text| {
                let reading = readings.begin(text);
                let (stop, kept) = (&stop, &kept);
                scope.spawn(move || {
                    wait(&reading, text, kept, stop);
                    // It ends when the other one has returned, too.
                    reading
                })
            });
            while !first.is_awaited() {
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(Duration::from_millis(20));
            assert!(!others.iter().any(thread::ScopedJoinHandle::is_finished), "the first is still read");
            kept.store(2900, Ordering::Relaxed);
            first.was_kept();
            let _ended = others.map(|other| other.join().expect("no panic"));
        });
        assert!(readings.lock().begun.iter().map(|begun| begun.number).eq([1]));
    }

    #[test]
    fn nobody_waits_for_one_that_has_ended_without_keeping_anything() {
        let (readings, stop, kept) = (Readings::new(true), InterruptFlag::new(), AtomicUsize::new(0));
        let first = readings.begin(&text(0, 0, 3000));
        let second = readings.begin(&text(0, 0, 3000));
        thread::scope(|scope| {
            scope.spawn(|| wait(&second, &text(0, 0, 3000), &kept, &stop));
            while !first.is_awaited() {
                thread::sleep(Duration::from_millis(1));
            }
            drop(first);
        });
    }

    #[test]
    fn nobody_waits_for_more_than_is_saved_nor_who_has_left() {
        let (readings, stop, none) = (Readings::new(true), InterruptFlag::new(), AtomicUsize::new(0));
        let _long = readings.begin(&text(0, 0, 10_000));
        let begin =
            |text: &Text, kept: usize| wait(&readings.begin(text), text, &AtomicUsize::new(kept), &stop);
        begin(&text(1500, 9, 2000), 0);
        begin(&text(9000, 9, 9100), 8500);
        stop.set();
        let last = text(9000, 9, 9100);
        wait(&readings.begin(&last), &last, &none, &stop);
        // Where rows are evicted, only a whole text is of use, or its documents.
        let readings = Readings::new(false);
        let _documents = readings.begin(&Text { documents: 2500, ..text(0, 0, 3000) });
        let state = readings.lock();
        let saves = |text: &Text, kept: usize| readings.saves(&state.begun[0], &text.tokens, kept);
        assert!(!saves(&text(2400, 9, 3000), 0) && saves(&text(2600, 9, 3000), 0));
        assert!(saves(&text(3000, 9, 4000), 1000) && !saves(&text(2600, 9, 3000), 2000));
        drop(state);
        // Nobody waits for what comes after the documents.
        let readings = Readings::new(true);
        let _long = readings.begin(&Text { documents: 2000, ..text(0, 0, 10_000) });
        assert!(readings.saves(&readings.lock().begun[0], &text(2010, 9, 2100).tokens, 0));
    }
}

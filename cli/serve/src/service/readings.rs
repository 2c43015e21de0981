//! What is being read now. Who comes later with the same beginning waits, and finds it on the disk instead of reading it a second
//! time.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use longhand::InterruptFlag;

use super::turns::LOOK;
use super::work::{Text, WORTH_KEEPING};

/// The texts that are read now.
pub(super) struct Readings {
    state: Mutex<State>,
    changed: Condvar,
    /// Whether the beginning of a text that was read can be used for another text. Else only the whole text can, and its documents.
    keeps_beginnings: bool,
}

#[derive(Default)]
struct State {
    begun: Vec<Begun>,
    /// How many readings were begun. Later ones have higher numbers.
    numbers: u64,
    /// How often the disk has got something, or a reading has ended.
    news: u64,
}

struct Begun {
    number: u64,
    tokens: Vec<u32>,
    documents: usize,
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
        state.begun.push(Begun { number, tokens, documents, is_awaited: false });
        Reading { readings: self, number }
    }

    /// Whether a text of which so much need not be read is read sooner if it waits for another one. What that one has besides is
    /// read meanwhile, too.
    fn saves(&self, other: &Begun, tokens: &[u32], kept: usize) -> bool {
        let shared = other.tokens.iter().zip(tokens).take_while(|(one, other)| one == other).count();
        let found = match self.keeps_beginnings {
            true => shared,
            false => {
                [other.tokens.len(), other.documents].into_iter().find(|end| *end <= shared).unwrap_or(0)
            }
        };
        let (gain, besides) = (found.saturating_sub(kept), other.tokens.len() - found);
        gain >= WORTH_KEEPING && besides <= gain
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, mut state: MutexGuard<State>) {
        state.news += 1;
        drop(state);
        self.changed.notify_all();
    }
}

impl Reading<'_> {
    /// Waits where others that were begun before read most of what this one lacks. `kept` tells how much it does not lack, by
    /// what the disk has. Returns when there is nothing to wait for any more, or the flag is set.
    pub(super) fn wait_for_others<E>(
        &self,
        tokens: &[u32],
        kept: impl Fn() -> Result<usize, E>,
        stop: &InterruptFlag,
    ) -> Result<(), E> {
        loop {
            let news = self.readings.lock().news;
            let kept = kept()?;
            let mut state = self.readings.lock();
            let is_before = |other: &&mut Begun| other.number < self.number;
            let mut before = state.begun.iter_mut().filter(is_before);
            match before.find(|other| self.readings.saves(other, tokens, kept)) {
                None => return Ok(()),
                Some(other) => other.is_awaited = true,
            }
            while state.news == news && !stop.is_set() {
                state =
                    self.readings.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
            }
            if stop.is_set() {
                return Ok(());
            }
        }
    }

    /// Whether another one waits for it.
    pub(super) fn is_awaited(&self) -> bool {
        self.readings.lock().begun.iter().any(|begun| begun.number == self.number && begun.is_awaited)
    }

    /// The disk has what was read so far.
    pub(super) fn was_kept(&self) {
        self.readings.tell(self.readings.lock());
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let mut state = self.readings.lock();
        state.begun.retain(|other| other.number != self.number);
        self.readings.tell(state);
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
        let kept = || Ok::<usize, ()>(kept.load(Ordering::Relaxed));
        reading.wait_for_others(&text.tokens, kept, stop).expect("no error");
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
    }
}

//! What is typed, on its way from the thread that reads it to the chat that answers it.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::commands::chat::commands::Message;

/// Why a chat ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The user asked for it, or the input ended.
    Exit,
    /// Ctrl-C at the prompt, twice.
    Interrupt,
    /// This signal.
    Signal(i32),
}

/// What comes next in a chat.
pub enum Next {
    Message(Message),
    /// Ctrl-C, while work goes on behind the prompt.
    Stop,
    End(End),
}

/// A queue between threads. `T` is a key or a line.
pub struct Inbox<T> {
    state: Mutex<InboxState<T>>,
    changed: Condvar,
}

struct InboxState<T> {
    items: VecDeque<T>,
    end: Option<End>,
    /// Whether the chat waits at its prompt.
    at_prompt: bool,
}

impl<T> Inbox<T> {
    /// An empty queue.
    pub fn new() -> Inbox<T> {
        let state = InboxState { items: VecDeque::new(), end: None, at_prompt: false };
        Inbox { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Adds an item.
    pub fn push(&self, item: T) {
        self.lock().items.push_back(item);
        self.changed.notify_all();
    }

    /// Adds an item when the queue is empty. Waits for that.
    pub fn push_when_empty(&self, item: T) {
        let state = self.lock();
        let mut state = self
            .changed
            .wait_while(state, |state| !state.items.is_empty() && state.end.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        state.items.push_back(item);
        self.changed.notify_all();
    }

    /// Adds an item, unless the chat works and `is_urgent` holds: then returns it.
    pub fn offer(&self, item: T, is_urgent: impl Fn(&T) -> bool) -> Option<T> {
        let mut state = self.lock();
        if !state.at_prompt && is_urgent(&item) {
            return Some(item);
        }
        state.items.push_back(item);
        self.changed.notify_all();
        None
    }

    /// The chat waits at its prompt from now on.
    pub fn begin_prompt(&self) {
        self.lock().at_prompt = true;
        self.changed.notify_all();
    }

    /// Waits for an item while the chat works. False when it waits at its prompt, or the queue has ended.
    pub fn wait_in_work(&self) -> bool {
        let state = self.lock();
        let state = self
            .changed
            .wait_while(state, |state| !state.at_prompt && state.items.is_empty() && state.end.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        !state.at_prompt && state.end.is_none()
    }

    /// The next item, if the chat works and there is one.
    pub fn take_in_work(&self) -> Option<T> {
        let mut state = self.lock();
        match state.at_prompt {
            true => None,
            false => state.items.pop_front(),
        }
    }

    /// The chat works from now on. Removes and returns the items that are urgent.
    pub fn end_prompt(&self, is_urgent: impl Fn(&T) -> bool) -> Vec<T> {
        let mut state = self.lock();
        state.at_prompt = false;
        let (urgent, others) = state.items.drain(..).partition(is_urgent);
        state.items = others;
        urgent.into()
    }

    /// Ends the queue: at once if a signal ends it, else behind what it holds.
    pub fn end(&self, end: End) {
        let mut state = self.lock();
        if !matches!(state.end, Some(End::Signal(_))) {
            state.end = Some(end);
        }
        self.changed.notify_all();
    }

    /// Waits for the next item.
    ///
    /// # Errors
    /// Why there is none.
    pub fn next(&self) -> Result<T, End> {
        let state = self.lock();
        let mut state = self
            .changed
            .wait_while(state, |state| state.items.is_empty() && state.end.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(end @ End::Signal(_)) = state.end {
            return Err(end);
        }
        let item = state.items.pop_front().ok_or(state.end.unwrap_or(End::Exit));
        self.changed.notify_all();
        item
    }

    /// Whether there is nothing to wait for.
    pub fn is_ready(&self) -> bool {
        let state = self.lock();
        !state.items.is_empty() || state.end.is_some()
    }

    /// Waits this long for a signal that ends the queue. Returns whether it came.
    pub fn wait_for_end(&self, time: Duration) -> bool {
        let state = self.lock();
        let (state, _) = self
            .changed
            .wait_timeout_while(state, time, |state| !matches!(state.end, Some(End::Signal(_))))
            .unwrap_or_else(PoisonError::into_inner);
        matches!(state.end, Some(End::Signal(_)))
    }

    fn lock(&self) -> MutexGuard<'_, InboxState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_input_ends_behind_its_items_and_a_signal_at_once() {
        let inbox = Inbox::new();
        inbox.push(1);
        inbox.end(End::Exit);
        assert_eq!([inbox.next(), inbox.next()], [Ok(1), Err(End::Exit)]);
        inbox.push(2);
        inbox.end(End::Signal(15));
        inbox.end(End::Exit);
        assert_eq!([inbox.next(), inbox.next()], [Err(End::Signal(15)), Err(End::Signal(15))]);
    }

    #[test]
    fn urgent_items_wait_only_while_the_chat_is_at_its_prompt() {
        let (inbox, urgent) = (Inbox::new(), |item: &i32| *item < 0);
        assert_eq!(inbox.offer(-1, urgent), Some(-1));
        inbox.begin_prompt();
        for item in [1, -2, 2] {
            assert_eq!(inbox.offer(item, urgent), None);
        }
        assert_eq!(inbox.end_prompt(urgent), [-2]);
        assert_eq!([inbox.next(), inbox.next()], [Ok(1), Ok(2)]);
    }

    #[test]
    fn items_are_taken_in_work_and_left_for_the_prompt() {
        let inbox = Inbox::new();
        inbox.push(1);
        assert!(inbox.wait_in_work());
        assert_eq!([inbox.take_in_work(), inbox.take_in_work()], [Some(1), None]);
        inbox.push(2);
        inbox.begin_prompt();
        assert!(!inbox.wait_in_work() && inbox.take_in_work().is_none());
        assert_eq!(inbox.next(), Ok(2));
        // A prompt that begins ends the wait.
        inbox.end_prompt(|_| false);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| inbox.wait_in_work());
            inbox.begin_prompt();
            assert!(!waiting.join().expect("an answer"));
        });
    }

    #[test]
    fn lines_are_read_only_one_ahead() {
        let inbox = Inbox::new();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..3).for_each(|line| inbox.push_when_empty(line)));
            assert_eq!([inbox.next(), inbox.next(), inbox.next()], [Ok(0), Ok(1), Ok(2)]);
        });
    }
}

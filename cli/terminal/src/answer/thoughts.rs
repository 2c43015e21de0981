//! Shows what a model thinks before it answers: dim text, or how long it takes.

use std::time::{Duration, Instant};

use longhand::text::sanitize_for_terminal;

use crate::answer::rows::TextRows;
use crate::answer::style::Style;

/// Shows the thinking of one answer.
pub struct Thoughts {
    rows: TextRows,
    /// Whether something of it is shown.
    is_shown: bool,
    /// If it is hidden: since when, and for how long as it is shown.
    counter: Option<(Instant, Option<Duration>)>,
}

impl Thoughts {
    /// Nothing yet.
    pub fn new(hidden: bool) -> Thoughts {
        let counter = hidden.then(|| (Instant::now(), None));
        Thoughts { rows: TextRows::new(false), is_shown: false, counter }
    }

    /// Adds a piece. Returns what is shown.
    pub fn push(&mut self, piece: &str, columns: usize) -> String {
        if let Some((since, shown)) = &mut self.counter {
            let seconds = Duration::from_secs(since.elapsed().as_secs());
            self.is_shown = true;
            return match shown.replace(seconds) == Some(seconds) {
                true => String::new(),
                false => format!("\r{}thinking… {} s\x1b[0m\x1b[K", Style::DIM.sequence(), seconds.as_secs()),
            };
        }
        self.rows.set_columns(columns);
        self.is_shown |= !piece.is_empty();
        let text = piece.replace('\r', "");
        let text = sanitize_for_terminal(&text);
        for (i, line) in text.split('\n').enumerate() {
            if i > 0 {
                self.rows.end_line();
            }
            self.rows.push(Style::DIM, line);
        }
        self.rows.take()
    }

    /// Ends the thinking. Returns what is shown: the rest and an empty line; or what removes the time.
    pub fn finish(&mut self) -> String {
        if !std::mem::take(&mut self.is_shown) {
            return String::new();
        }
        if self.counter.is_some() {
            return "\r\x1b[K".to_owned();
        }
        self.rows.end_line();
        self.rows.end_line();
        self.rows.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinking_is_dim_and_ends_with_an_empty_line() {
        let mut thoughts = Thoughts::new(false);
        let shown = thoughts.push("one tw", 8) + &thoughts.push("o\nthree\x1b[2J", 8) + &thoughts.finish();
        let plain = shown.replace("\x1b[0;2m", "").replace("\x1b[0m", "");
        assert_eq!(plain, "one two\nthree␛[2J\n\n");
        assert!(shown.starts_with("\x1b[0;2mone\x1b[0m"), "{shown:?}");
        assert_eq!(Thoughts::new(false).finish(), "");
    }

    #[test]
    fn hidden_thinking_is_a_time_that_is_removed() {
        let mut thoughts = Thoughts::new(true);
        let shown = thoughts.push("secret", 80) + &thoughts.push(" secret", 80);
        assert!(shown.starts_with("\r\x1b[0;2mthinking… ") && !shown.contains("secret"), "{shown:?}");
        assert_eq!(thoughts.finish(), "\r\x1b[K");
        assert_eq!(thoughts.finish(), "");
    }
}

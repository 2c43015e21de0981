//! How often a server is asked again. Each attempt must bring something, and no server may let us wait for hours:
//! after that the download has failed.

use std::time::{Duration, SystemTime};

use chrono::DateTime;

/// Attempts one after the other that bring nothing.
const EMPTY_ATTEMPTS: u32 = 3;
/// Attempts one after the other that bring less than [`ENOUGH`].
const SHORT_ATTEMPTS: u32 = 20;
/// Bytes after which all attempts are forgotten.
const ENOUGH: u64 = 1 << 20;
/// The time between two attempts, times the number of those that brought nothing.
const PAUSE: Duration = Duration::from_millis(500);
/// Longest time that a server may ask to wait.
const MAX_WAIT: Duration = Duration::from_secs(5 * 60);
/// How often it may ask for that.
const WAITS: u32 = 8;

/// When a request that failed is made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// It would fail again.
    Never,
    /// After a moment.
    Soon,
    /// After a moment. What the attempt has brought does not count: it came too slowly.
    Stalled,
    /// After the time that the server asks for.
    After(Duration),
    /// Without a range: the server does not have what lies behind the bytes that are there.
    FromStart,
}

/// What is left of the patience with a server.
#[derive(Default)]
pub struct Patience {
    empty: u32,
    short: u32,
    waits: u32,
    restarts: u32,
}

impl Patience {
    /// The time to wait before the request is made again; `None` if the download has failed. `brought` are the bytes
    /// that the attempt has added to what was there.
    pub fn pause(&mut self, again: Again, brought: u64) -> Option<Duration> {
        if brought >= ENOUGH && again != Again::Stalled {
            (self.empty, self.short, self.waits) = (0, 0, 0);
        }
        match again {
            Again::Never => None,
            Again::FromStart => {
                self.restarts += 1;
                (self.restarts == 1).then_some(Duration::ZERO)
            }
            Again::After(time) => {
                self.waits += 1;
                (time <= MAX_WAIT && self.waits <= WAITS).then_some(time.max(PAUSE))
            }
            Again::Soon | Again::Stalled => {
                self.empty = if brought == 0 || again == Again::Stalled { self.empty + 1 } else { 0 };
                self.short += 1;
                let has_failed = self.empty == EMPTY_ATTEMPTS || self.short == SHORT_ATTEMPTS;
                (!has_failed).then_some(PAUSE * self.empty)
            }
        }
    }
}

/// The time that a header `Retry-After` asks to wait: seconds or a date. `now` is the header `Date`, the server's clock;
/// without one this machine's clock counts. `None` for another text.
pub fn retry_after(text: &str, now: Option<&str>) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    // Dates of HTTP have the form of those in mails.
    let date = |text: &str| DateTime::parse_from_rfc2822(text.trim()).ok().map(SystemTime::from);
    let now = now.and_then(date).unwrap_or_else(SystemTime::now);
    // A date that has passed asks for nothing.
    Some(date(text)?.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of attempts until the download fails.
    fn attempts(again: Again, brought: u64) -> usize {
        let mut patience = Patience::default();
        (1..10_000).find(|_| patience.pause(again, brought).is_none()).unwrap_or(usize::MAX)
    }

    #[test]
    fn attempts_that_bring_little_end() {
        assert_eq!(attempts(Again::Never, 1 << 30), 1);
        assert_eq!(attempts(Again::Soon, 0), 3);
        assert_eq!(attempts(Again::Soon, 1), 20);
        assert_eq!(attempts(Again::Soon, 1 << 20), usize::MAX);
        assert_eq!(attempts(Again::Stalled, 1 << 30), 3);
        assert_eq!(attempts(Again::After(Duration::from_secs(1)), 0), 9);
        assert_eq!(attempts(Again::After(Duration::from_secs(301)), 0), 1);
        assert_eq!(attempts(Again::FromStart, 1 << 30), 2);
        let mut patience = Patience::default();
        let pauses: Vec<_> = [0, 0, 5, 0, 0].map(|brought| patience.pause(Again::Soon, brought)).into();
        assert_eq!(pauses, [1, 2, 0, 1, 2].map(|times| Some(PAUSE * times)));
        assert_eq!(patience.pause(Again::Soon, 0), None);
    }

    #[test]
    fn a_server_asks_for_seconds_or_a_date() {
        let now = Some("Wed, 21 Oct 2015 07:28:00 GMT");
        for (text, seconds) in [
            ("120", Some(120)),
            (" 0 ", Some(0)),
            ("Wed, 21 Oct 2015 07:28:30 GMT", Some(30)),
            ("Wed, 21 Oct 2015 07:00:00 GMT", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            ("-1", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(retry_after(text, now), seconds.map(Duration::from_secs), "{text}");
        }
        let far = retry_after("Wed, 21 Oct 2099 07:28:00 GMT", None).expect("a date");
        assert!(far > Duration::from_secs(1 << 30));
    }
}

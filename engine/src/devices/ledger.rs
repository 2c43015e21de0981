//! Memory that is promised: what sessions were planned to take, and have not taken yet. The system counts it as free.
//! Without a ledger, two sessions that are planned at the same time would both get the last gigabyte.
//!
//! A session is promised its memory when it is planned, and keeps it until it is dropped. What of it is in use already is
//! no longer free, so it is not subtracted a second time. How much that is, is not known for each session, but for all:
//! it is what the process has taken since the first promise.

use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use super::memory::{FreeMemory, MemoryBound, Usage, free_beside_promised};

/// The main memory that sessions are promised. Clones share one account; the default is that of the process.
///
/// ```
/// use longhand::setup::Ledger;
/// use longhand::{Model, ModelSource, Setup, SetupOptions};
///
/// // All sessions with these options may take 100 MB together, besides the weights.
/// let options = SetupOptions { ledger: Ledger::with_limit(100_000_000), ..SetupOptions::default() };
/// let model = Model::open(ModelSource::Embedded)?;
/// let first = Setup::resolve(&model, &options, 1000, &mut ())?;
/// assert!(options.ledger.reserved() > 0);
/// drop(first);
/// assert_eq!(options.ledger.reserved(), 0);
/// # Ok::<(), longhand::EngineError>(())
/// ```
#[derive(Clone)]
pub struct Ledger {
    /// Bytes that may be promised; `None` for what is free.
    limit: Option<usize>,
    account: SharedAccount,
}

/// The memory of a device that the sessions of one engine are promised.
#[derive(Clone, Default)]
pub(crate) struct DeviceLedger(SharedAccount);

/// Bytes that are promised; dropping it gives them back.
pub(crate) struct Reservation {
    account: SharedAccount,
    bytes: usize,
    /// What is left of it when the first text is read.
    lasting: usize,
}

/// What is left to be promised.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    /// What is free, without what is promised to others.
    pub(crate) free: FreeMemory,
    /// Bytes promised to others.
    pub(crate) reserved: usize,
}

#[derive(Clone, Default)]
struct SharedAccount(Arc<Mutex<Account>>);

#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// Bytes promised now.
    promised: usize,
    /// What was in use before the first promise.
    before: Usage,
}

impl Account {
    /// Bytes that are promised and not in use yet, as a kind of memory of which so much was in use `before`, and is `now`.
    fn outstanding(&self, before: usize, now: usize) -> usize {
        self.promised.saturating_sub(now.saturating_sub(before))
    }

    fn promise(&mut self, bytes: usize, now: Usage) {
        if self.promised == 0 {
            self.before = now;
        }
        self.promised += bytes;
    }
}

impl SharedAccount {
    fn lock(&self) -> MutexGuard<'_, Account> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Promises `bytes`, if they are free. `instead` is given back before.
    fn reserve(
        &self,
        bytes: usize,
        now: Usage,
        instead: Option<Reservation>,
        free: impl FnOnce(&Account) -> Option<FreeMemory>,
    ) -> Result<Reservation, Left> {
        let mut account = self.lock();
        if let Some(mut other) = instead {
            account.promised -= std::mem::take(&mut other.bytes);
        }
        match free(&account) {
            Some(free) if bytes > free.bytes => Err(Left { free, reserved: account.promised }),
            _ => {
                account.promise(bytes, now);
                Ok(Reservation { account: self.clone(), bytes, lasting: bytes })
            }
        }
    }
}

impl Default for Ledger {
    fn default() -> Ledger {
        static PROCESS: LazyLock<Ledger> =
            LazyLock::new(|| Ledger { limit: None, account: SharedAccount::default() });
        PROCESS.clone()
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Ledger").field("limit", &self.limit).field("reserved", &self.reserved()).finish()
    }
}

impl Ledger {
    /// A ledger of its own, of which sessions may be promised `bytes` together, and not more than is free.
    pub fn with_limit(bytes: usize) -> Ledger {
        Ledger { limit: Some(bytes), account: SharedAccount::default() }
    }

    /// Bytes promised now.
    pub fn reserved(&self) -> usize {
        self.account.lock().promised
    }

    /// What is left, as far as that is known. `mapped` as for [`free_beside_promised`].
    pub(crate) fn left(&self, mapped: usize) -> Option<Left> {
        self.left_with(0, mapped)
    }

    /// The same for a session that may use `own` bytes that are promised already.
    pub(crate) fn left_with(&self, own: usize, mapped: usize) -> Option<Left> {
        let mut account = *self.account.lock();
        account.promised = account.promised.saturating_sub(own);
        Some(Left { free: self.free_of(&account, mapped)?, reserved: account.promised })
    }

    fn free_of(&self, account: &Account, mapped: usize) -> Option<FreeMemory> {
        let before = account.before;
        let free = free_beside_promised(mapped, |bound, now| match bound {
            MemoryBound::Machine | MemoryBound::ControlGroup => {
                account.outstanding(before.resident, now.resident)
            }
            MemoryBound::AddressSpace => account.outstanding(before.address_space, now.address_space),
            MemoryBound::Data => account.outstanding(before.data, now.data),
            MemoryBound::Ledger => 0,
        });
        let left = self.limit.map(|limit| FreeMemory {
            bytes: limit.saturating_sub(account.promised),
            bound: MemoryBound::Ledger,
        });
        free.into_iter().chain(left).min_by_key(|free| free.bytes)
    }

    /// Promises `bytes`, if they are free. `instead` is given back before.
    pub(crate) fn reserve(&self, bytes: usize, instead: Option<Reservation>) -> Result<Reservation, Left> {
        self.account.reserve(bytes, Usage::now(), instead, |account| self.free_of(account, 0))
    }
}

impl DeviceLedger {
    /// Promises `bytes` of a device of whose memory `used` bytes are in use, and `left` bytes are not.
    pub(crate) fn reserve(&self, bytes: usize, used: usize, left: usize) -> Result<Reservation, Left> {
        self.0.reserve(bytes, Usage { resident: used, ..Usage::default() }, None, |account| {
            let promised = account.outstanding(account.before.resident, used);
            Some(FreeMemory { bytes: left.saturating_sub(promised), bound: MemoryBound::Machine })
        })
    }
}

impl Reservation {
    /// How much is promised.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The same, of which only `bytes` are needed when the first text is read.
    pub(crate) fn with_lasting(mut self, bytes: usize) -> Reservation {
        self.lasting = bytes.min(self.bytes);
        self
    }

    /// Gives back what only reading the first text needed.
    pub(crate) fn first_text_is_read(&mut self) {
        self.shrink_to(self.lasting);
    }

    /// `bytes` of it are in use for longer than it lasts: they count as in use from now on.
    pub(crate) fn settle(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        let mut account = self.account.lock();
        account.promised -= bytes;
        let Usage { resident, address_space, data } = &mut account.before;
        [resident, address_space, data].into_iter().for_each(|used| *used += bytes);
        self.bytes -= bytes;
    }

    /// Gives back all but `bytes`.
    fn shrink_to(&mut self, bytes: usize) {
        if self.bytes > bytes {
            self.account.lock().promised -= self.bytes - bytes;
            self.bytes = bytes;
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_promised_cannot_be_promised_again() {
        let ledger = Ledger::with_limit(100);
        let first = ledger.reserve(60, None).map_err(|_| ()).expect("60 of 100");
        let Err(Left { free, reserved }) = ledger.reserve(50, None) else { panic!("only 40 are left") };
        assert_eq!((free.bytes, free.bound, reserved), (40, MemoryBound::Ledger, 60));
        let second = ledger.reserve(40, None).map_err(|_| ()).expect("40 are left");
        // Another size for the same session.
        let mut first = ledger.reserve(55, Some(first)).map_err(|_| ()).expect("60 were its own");
        first.shrink_to(10);
        assert_eq!((ledger.reserved(), ledger.left(0).map(|left| left.free.bytes)), (50, Some(50)));
        drop((first, second));
        assert_eq!(ledger.reserved(), 0);
    }

    #[test]
    fn what_is_in_use_is_not_subtracted_twice() {
        let mut account = Account::default();
        account.promise(100, Usage { resident: 1000, ..Usage::default() });
        let outstanding = |now| account.outstanding(account.before.resident, now);
        assert_eq!([1000, 1030, 1100, 5000, 900].map(outstanding), [100, 70, 0, 0, 100]);
    }
}

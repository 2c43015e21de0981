//! Memory that is promised: what sessions were planned to take, and have not taken yet. The system counts it as free.
//! Without a ledger, two sessions that are planned at the same time would both get the last gigabyte.
//!
//! A session is promised its memory when a setup plans it, and keeps that until it is dropped, but for what only reading
//! its first text needs: that is given back when the text is read, and not promised again for another first text. A session
//! that takes the place of another one, as after a change of its context or its policy, keeps what that one was promised.
//! Sessions that no setup has planned are promised nothing.
//!
//! What of a promise is in use already is no longer free, so it is not subtracted a second time. How much that is, is not
//! known for each session, but for all: it is what the process has taken since the first promise, without weights.

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

/// Weights that are copied in main memory. As long as this lives they count as in use before the first promise.
pub(crate) struct WeightsInUse {
    account: SharedAccount,
    bytes: usize,
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

    /// The same account without the promise of `own` bytes, of which so many may be in use.
    fn without(&self, own: usize, in_use: usize) -> Account {
        let mut before = self.before;
        before.change(|used| used.saturating_add(in_use));
        Account { promised: self.promised.saturating_sub(own), before }
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

    /// Promises `bytes`, if they are free. `instead` is given back before, to the account that promised it.
    fn reserve(
        &self,
        bytes: usize,
        now: Usage,
        instead: Option<Reservation>,
        free: impl FnOnce(&Account) -> Option<FreeMemory>,
    ) -> Result<Reservation, Left> {
        // What another account has promised is given back there, by dropping it.
        let own = instead.filter(|other| other.is_of(self));
        let mut account = self.lock();
        if let Some(mut own) = own {
            account.promised -= std::mem::take(&mut own.bytes);
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
        let account = *self.account.lock();
        Some(Left { free: self.free_of(&account, mapped)?, reserved: account.promised })
    }

    /// What is left for a session that was promised `own` and has taken nothing of it.
    pub(crate) fn left_for(&self, own: Option<&Reservation>) -> Option<Left> {
        self.left_without(own, 0)
    }

    /// What is left for one that takes the place of a session that was promised `own`. How much of it that one has taken is
    /// not known, so it is assumed to be all: only what is in use beyond that was promised to others.
    pub(crate) fn left_instead_of(&self, own: Option<&Reservation>) -> Option<Left> {
        self.left_without(own, usize::MAX)
    }

    fn left_without(&self, own: Option<&Reservation>, in_use: usize) -> Option<Left> {
        let own = own.filter(|own| own.is_of(&self.account)).map_or(0, Reservation::bytes);
        let account = self.account.lock().without(own, in_use.min(own));
        Some(Left { free: self.free_of(&account, 0)?, reserved: account.promised })
    }

    /// Notes that so many bytes of weights are in use: they were promised to no session.
    pub(crate) fn with_weights(&self, bytes: usize) -> WeightsInUse {
        self.account.lock().before.change(|used| used.saturating_add(bytes));
        WeightsInUse { account: self.account.clone(), bytes }
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

    /// Whether this account has promised it.
    fn is_of(&self, account: &SharedAccount) -> bool {
        Arc::ptr_eq(&self.account.0, &account.0)
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

    /// Gives back all but `bytes`.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
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

impl Drop for WeightsInUse {
    fn drop(&mut self) {
        let bytes = self.bytes;
        self.account.lock().before.change(|used| used.saturating_sub(bytes));
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

    /// One session was promised 40 bytes and has taken them, the other 40 and has taken nothing.
    #[test]
    fn what_a_session_has_taken_is_not_taken_for_the_promise_of_another() {
        let mut account = Account::default();
        let before = Usage { resident: 1000, ..Usage::default() };
        [40, 40].into_iter().for_each(|bytes| account.promise(bytes, before));
        let outstanding = |account: Account| account.outstanding(account.before.resident, 1040);
        assert_eq!(outstanding(account), 40);
        assert_eq!(outstanding(account.without(40, 40)), 40, "of the other");
        assert_eq!(outstanding(account.without(40, 0)), 0, "where the other has taken them");
    }

    #[test]
    fn a_promise_is_given_back_to_the_ledger_that_made_it() {
        let [first, second] = [Ledger::with_limit(100), Ledger::with_limit(100)];
        let of_first = first.reserve(60, None).map_err(|_| ()).expect("60 of 100");
        assert_eq!(second.left_for(Some(&of_first)).map(|left| left.free.bytes), Some(100));
        let of_second = second.reserve(30, Some(of_first)).map_err(|_| ()).expect("30 of 100");
        assert_eq!((first.reserved(), second.reserved()), (0, 30));
        drop(of_second);
        assert_eq!(second.reserved(), 0);
    }

    #[test]
    fn weights_are_not_taken_for_what_was_promised() {
        let ledger = Ledger::with_limit(100);
        let promised = ledger.reserve(60, None).map_err(|_| ()).expect("60 of 100");
        let before = || ledger.account.lock().before.resident;
        let first = before();
        let weights = ledger.with_weights(1000);
        assert_eq!(before(), first + 1000);
        drop(weights);
        assert_eq!((before(), promised.bytes()), (first, 60));
    }
}

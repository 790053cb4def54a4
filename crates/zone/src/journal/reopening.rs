//! Reopens the database when much data went through it, and opens it again after a failure.
//!
//! sled keeps in memory what it wrote and read, however small its cache is. It looks for pages to drop only after 64
//! accesses to one of the cache's 256 parts, and a zone of 26 MB has too few pages for that. So this module counts
//! the bytes of whole zones and large steps that go through the database: those loaded at start-up, and those written
//! by commits and snapshots. Reads of [`Reader`](super::Reader)s are not counted; the next reopening frees their
//! memory too.

use std::time::Duration;

use crate::journal::Journal;
use crate::journal::store::Renewal;

/// The database is reopened when this many bytes went through it, as soon as there is nothing else to do.
pub(super) const BULK_OCTETS: u64 = 4 << 20;
/// A larger database stays open: opening it would delay commits by more than a second.
pub(super) const RENEWED_OCTETS: u64 = 256 << 20;
/// The pause before the first new attempt after a failure; it doubles with each further failure.
const AGAIN_AFTER_MS: u64 = 1000;
/// It is doubled this often at most: 64 seconds.
const DOUBLED_MOST: u32 = 6;

#[derive(Debug)]
pub(super) struct Reopening {
    /// The bytes of whole zones and large steps that went through the database since it was opened.
    pub(super) bulk_octets: u64,
    /// The database is reopened above this many bytes.
    pub(super) bulk_octets_most: u64,
    /// The database is not reopened when it takes more bytes on the disk.
    pub(super) renewed_octets: u64,
    /// Whether it was logged that the database is too large.
    is_told: bool,
    /// How often in a row it did not open while nothing was written.
    failed: u32,
    /// The time of the next attempt, milliseconds since 1970 UTC.
    again_ms: u64,
}

impl Default for Reopening {
    fn default() -> Self {
        Self {
            bulk_octets: 0,
            bulk_octets_most: BULK_OCTETS,
            renewed_octets: RENEWED_OCTETS,
            is_told: false,
            failed: 0,
            again_ms: 0,
        }
    }
}

impl Reopening {
    fn fail(&mut self, now_ms: u64) {
        let pause = AGAIN_AFTER_MS << self.failed.min(DOUBLED_MOST);
        self.failed += 1;
        self.again_ms = now_ms.saturating_add(pause);
    }

    /// The time until the next attempt. A clock that was set back does not make it longer than the longest pause.
    fn pause(&self, now_ms: u64) -> Duration {
        let most = AGAIN_AFTER_MS << DOUBLED_MOST;
        Duration::from_millis(self.again_ms.saturating_sub(now_ms).min(most))
    }
}

impl Journal {
    /// Reopens the database if much data went through it.
    pub(super) fn renew(&mut self) {
        if self.store.is_poisoned() || self.reopening.bulk_octets <= self.reopening.bulk_octets_most
        {
            return;
        }
        self.reopening.bulk_octets = 0;
        match self.store.renew(self.reopening.renewed_octets) {
            Ok(Renewal::Done) => {}
            Ok(Renewal::TooLarge { octets }) => {
                if !std::mem::replace(&mut self.reopening.is_told, true) {
                    tracing::warn!(
                        octets,
                        "the database is too large to be reopened: its memory is not freed"
                    );
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot reopen the database; retrying");
                // The database was open, so earlier failures do not count.
                self.reopening.failed = 0;
                self.reopening.fail((self.clock)());
            }
        }
    }

    /// Tries to open a closed database, if the pause is over.
    pub(super) fn open_again(&mut self) {
        let now_ms = (self.clock)();
        if !self.reopening.pause(now_ms).is_zero() {
            return;
        }
        match self.heal() {
            Ok(()) => {
                self.reopening.failed = 0;
                tracing::warn!("the database is open again");
            }
            Err(error) => {
                if self.reopening.failed == 0 {
                    tracing::warn!(%error, "cannot open the database; retrying");
                }
                self.reopening.fail(now_ms);
            }
        }
    }

    /// Opens the database again after a failure, for a caller that reads before a commit. If it does not open, the
    /// commit reports it.
    pub fn prepare(&mut self) {
        if let Err(error) = self.heal() {
            tracing::debug!(%error, "the database still cannot be opened");
        }
    }

    /// The time to call [`Self::idle`] again although it had nothing to do, because the database is closed; `None` when
    /// it is open.
    #[must_use]
    pub fn again_after(&self) -> Option<Duration> {
        let is_closed = !self.store.is_open();
        is_closed.then(|| self.reopening.pause((self.clock)()))
    }
}

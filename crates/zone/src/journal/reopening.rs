//! The database is opened anew when much went through it, and opened again where it did not open.
//!
//! sled keeps what it wrote and read, whatever its cache should hold: it looks for what to let go of after 64 accesses
//! of one of the cache's 256 parts, which a zone of 26 MB is too few pages for. So the octets of whole zones and of
//! large steps that went through the database are counted: those that are loaded at the start, and those that commits
//! and snapshots write. What [`Reader`](super::Reader)s read for a question is not; the next time takes it along.

use std::time::Duration;

use crate::journal::Journal;
use crate::journal::store::Renewal;

/// When so many octets went through the database it is opened anew, once there is nothing else to do.
pub(super) const BULK_OCTETS: u64 = 4 << 20;
/// A database that takes more on the disk stays open: opening it would keep commits waiting for more than a second.
pub(super) const RENEWED_OCTETS: u64 = 256 << 20;
/// How long after a failure the database is tried again for the first time; each time later it is twice that.
const AGAIN_AFTER_MS: u64 = 1000;
/// It is doubled so often: 64 seconds at most.
const DOUBLED_MOST: u32 = 6;

/// What went through the database, and how it opens.
#[derive(Debug)]
pub(super) struct Reopening {
    /// The octets of whole zones and large steps that went through it since it was opened anew.
    pub(super) bulk_octets: u64,
    /// How many of them are too many to be kept in memory.
    pub(super) bulk_octets_most: u64,
    /// How much it may take on the disk to be opened anew.
    pub(super) renewed_octets: u64,
    /// Whether it was said that it takes more.
    is_told: bool,
    /// How often in a row it did not open while nobody wrote.
    failed: u32,
    /// When it is tried again, milliseconds since 1970 UTC.
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

    /// How long it is not tried; a clock that was set back does not make it longer than it may be.
    fn pause(&self, now_ms: u64) -> Duration {
        let most = AGAIN_AFTER_MS << DOUBLED_MOST;
        Duration::from_millis(self.again_ms.saturating_sub(now_ms).min(most))
    }
}

impl Journal {
    /// Opens the database anew where much went through it.
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
                        "the database is too large to be opened anew: more of it stays in memory"
                    );
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the database could not be opened anew; it is tried again");
                // It was open: earlier failures are over, whoever opened it.
                self.reopening.failed = 0;
                self.reopening.fail((self.clock)());
            }
        }
    }

    /// Tries to open a database that is closed, where it is time to.
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
                    tracing::warn!(%error, "the database does not open; it is tried again");
                }
                self.reopening.fail(now_ms);
            }
        }
    }

    /// Opens a database that failed, for whoever reads before a commit. One that does not open is left to the commit
    /// to say.
    pub fn prepare(&mut self) {
        if let Err(error) = self.heal() {
            tracing::debug!(%error, "the database does not open yet");
        }
    }

    /// When [`Self::idle`] wants to be called again though it had nothing to do: the database is closed. `None` where
    /// it is open.
    #[must_use]
    pub fn again_after(&self) -> Option<Duration> {
        let is_closed = !self.store.is_open();
        is_closed.then(|| self.reopening.pause((self.clock)()))
    }
}

//! The net differences that lead to one version, kept while secondaries ask for them.
//!
//! When a version is published, secondaries ask for it at the same moment, most from the same few serials:
//! each chain is condensed once, by the first; the others wait for it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use dns::Serial;

use crate::{Net, Step};

/// The most differences that are kept.
const MOST: usize = 32;
/// The most octets of one that is kept: what is larger is rarely asked for, and condensed anew.
const OCTETS: usize = 1 << 20;

/// One difference, made by the first who asks; `None` as for [`Net::of`].
type Made = Arc<OnceLock<Option<Arc<Net>>>>;

/// Differences with the serials they start from.
type Kept = Vec<(Serial, Made)>;

/// Net differences by the serial they start from, the latest asked for last. Clones share them.
#[derive(Clone, Default)]
pub(super) struct NetCache(Arc<Mutex<Kept>>);

impl fmt::Debug for NetCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NetCache(..)")
    }
}

impl NetCache {
    /// The net difference of these steps, which lead from this serial; `None` as for [`Net::of`].
    pub(super) fn net(&self, from: Serial, steps: &[Arc<Step>]) -> Option<Arc<Net>> {
        let made = self.made(from);
        // Not under the lock: others that ask for another serial do not wait.
        let net = made.get_or_init(|| Net::of(steps).map(Arc::new)).clone();
        let octets_of =
            |net: &Arc<Net>| net.removed.as_octets().len() + net.added.as_octets().len();
        if net.as_ref().is_some_and(|net| octets_of(net) > OCTETS) {
            self.lock().retain(|(serial, _)| *serial != from);
        }
        net
    }

    /// The place of the difference from a serial, as the last to go.
    fn made(&self, from: Serial) -> Made {
        let mut kept = self.lock();
        let known = kept.iter().position(|(serial, _)| *serial == from);
        let made = known.map_or_else(Made::default, |place| kept.remove(place).1);
        if kept.len() >= MOST {
            kept.remove(0);
        }
        kept.push((from, Arc::clone(&made)));
        made
    }

    /// What is kept. The lock is held to look and to put in.
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Caches the net differences that lead to one version while secondaries ask for them.
//!
//! When a version is published, its secondaries ask for it at the same moment, most of them from the same few
//! serials. The first request for a serial condenses its chain of steps; the others wait for the result.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use dns::Serial;

use crate::{Net, Step};

const MOST: usize = 32;
/// The largest difference that is cached, in bytes. Larger ones are rarely asked for and are computed again.
const OCTETS: usize = 1 << 20;

/// One difference, computed by the first request; `None` as for [`Net::of`].
type Made = Arc<OnceLock<Option<Arc<Net>>>>;

/// Differences with the serials they start from, the least recently used first.
type Kept = Vec<(Serial, Made)>;

/// Net differences by the serial they start from. Clones share them.
#[derive(Clone, Default)]
pub(super) struct NetCache(Arc<Mutex<Kept>>);

impl fmt::Debug for NetCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NetCache(..)")
    }
}

impl NetCache {
    /// The net difference of these steps, which start at serial `from`; `None` as for [`Net::of`].
    pub(super) fn net(&self, from: Serial, steps: &[Arc<Step>]) -> Option<Arc<Net>> {
        let made = self.made(from);
        // Not under the lock: requests for another serial do not wait.
        let net = made.get_or_init(|| Net::of(steps).map(Arc::new)).clone();
        let octets_of =
            |net: &Arc<Net>| net.removed.as_octets().len() + net.added.as_octets().len();
        if net.as_ref().is_some_and(|net| octets_of(net) > OCTETS) {
            self.lock().retain(|(serial, _)| *serial != from);
        }
        net
    }

    /// The entry for a serial, marked as the most recently used.
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

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! The net differences that lead to one version, kept while secondaries ask for them.
//!
//! When a version is published, secondaries ask for it at the same moment, most from the same few serials:
//! each chain is condensed once.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::dns::Serial;
use crate::zone::{Net, Step};

/// The most differences that are kept.
const MOST: usize = 32;
/// The most octets of one that is kept: what is larger is rarely asked for, and condensed anew.
const OCTETS: usize = 1 << 20;

/// Differences with the serials they start from.
type Kept = Vec<(Serial, Arc<Net>)>;

/// Net differences by the serial they start from, the latest asked for last. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Condensed(Arc<Mutex<Kept>>);

impl fmt::Debug for Condensed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Condensed(..)")
    }
}

impl Condensed {
    /// The net difference of these steps, which lead from this serial; `None` as for [`Net::of`].
    pub(super) fn net(&self, from: Serial, steps: &[Arc<Step>]) -> Option<Arc<Net>> {
        if let Some(known) = self.take(from) {
            self.keep(from, &known);
            return Some(known);
        }
        // Not under the lock: others that ask for another serial do not wait.
        let net = Arc::new(Net::of(steps)?);
        let octets = net.removed.as_octets().len() + net.added.as_octets().len();
        if octets <= OCTETS {
            self.keep(from, &net);
        }
        Some(net)
    }

    /// Takes one out.
    fn take(&self, from: Serial) -> Option<Arc<Net>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = kept.iter().position(|(serial, _)| *serial == from)?;
        Some(kept.remove(place).1)
    }

    /// Puts one in, as the last to go.
    fn keep(&self, from: Serial, net: &Arc<Net>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(serial, _)| *serial != from);
        if kept.len() >= MOST {
            kept.remove(0);
        }
        kept.push((from, Arc::clone(net)));
    }
}

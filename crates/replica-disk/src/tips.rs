//! Versions as the journal names them, and as replicas do.

use replicas::chain;
use zone::{Hash, journal};

/// A version of the journal as replicas name it.
pub(crate) const fn tip_of(tip: &journal::Tip) -> chain::Tip {
    chain::Tip {
        epoch: chain::Epoch(tip.epoch),
        seq: tip.seq,
        serial: tip.serial,
        hash: *tip.hash.as_octets(),
    }
}

/// A version of replicas as the journal names it.
pub(crate) const fn journal_tip(tip: &chain::Tip) -> journal::Tip {
    journal::Tip {
        epoch: tip.epoch.0,
        seq: tip.seq,
        serial: tip.serial,
        hash: Hash::from_octets(tip.hash),
    }
}

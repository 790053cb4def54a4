//! The settings of a zone that its directives may leave to defaults: timers, history, gate.

use std::num::NonZeroU64;

use directives::config::{Gate, History, Hold};
use dns::Ttl;
use zone::gate::GateSettings;
use zone::journal::Retention;

/// Seconds between a secondary's checks, unless configured: NOTIFY makes it a net only.
pub(crate) const REFRESH: Ttl = Ttl::decode(300);
/// Seconds between checks after a failed one, unless configured.
pub(crate) const RETRY: Ttl = Ttl::decode(30);
/// Seconds after which a secondary stops answering, unless configured.
pub(crate) const EXPIRE: Ttl = Ttl::decode(86_400);

/// The history that is kept, with the defaults.
pub(crate) fn retention(history: Option<&History>) -> Retention {
    let mut kept = Retention::DEFAULT;
    if let Some(history) = history {
        kept.keep = history.keep.unwrap_or(kept.keep);
        kept.versions = history.versions.map_or(kept.versions, NonZeroU64::get);
        kept.octets = history.size_bytes.map_or(kept.octets, NonZeroU64::get);
        kept.is_archived = history.archive.is_some();
    }
    kept
}

/// Which losses are held, with the defaults.
pub(crate) fn gate(gate: Option<&Gate>) -> Option<GateSettings> {
    let defaults = GateSettings::DEFAULT;
    let Some(gate) = gate else {
        return Some(defaults);
    };
    (!gate.is_off).then(|| GateSettings {
        shrink_percent: gate.shrink_percent.unwrap_or(defaults.shrink_percent),
        at_least: gate.at_least.unwrap_or(defaults.at_least),
        hold: match gate.hold {
            None => defaults.hold,
            Some(Hold::For(time)) => Some(time),
            Some(Hold::Forever) => None,
        },
    })
}

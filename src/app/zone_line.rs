//! What `status` says of a zone.

use std::sync::Arc;

use crate::audit::{HeldLine, HistoryLine, OrderLine, ZoneLine};
use crate::dns::Name;
use crate::zone::Zone;
use crate::zone::gate::{HeldChange, Why};
use crate::zone::journal::Reader;

/// How a zone stands.
pub(super) fn zone_line(zone: &Arc<Zone>) -> ZoneLine {
    let version = zone.current();
    ZoneLine {
        zone: zone.apex().to_string(),
        serial: version.as_ref().map(|version| version.serial.encode()),
        time_ms: version.as_ref().map(|version| version.time_ms),
        records: version
            .as_ref()
            .map_or(0, |version| version.contents.record_count()),
        stale_since_ms: zone.stale_since_ms(),
        hash: version
            .as_ref()
            .and_then(|version| version.link.map(|link| link.hash.to_string())),
        held: zone.held().map(|held| held_line(&held)),
        order: zone.pin().map(|pin| OrderLine {
            rolled_back_to: pin.rollback.map(|it| it.to.encode()),
            since_ms: pin.since_ms,
            until_ms: pin.until_ms,
            by: pin.by.to_string(),
        }),
        history: None,
    }
}

/// What the store keeps of a zone's history.
pub(super) fn history_line(reader: &Reader, apex: &Name) -> Option<HistoryLine> {
    let stored = reader.zone(apex)?;
    let (begins, begins_ms) = reader.moment(apex, stored.oldest).ok()?;
    Some(HistoryLine {
        begins: begins.encode(),
        begins_ms,
        versions: (stored.newest + 1).saturating_sub(stored.oldest),
        octets: stored.octets,
    })
}

/// A change that is held, for status.
fn held_line(held: &HeldChange) -> HeldLine {
    HeldLine {
        why: held.why.to_string(),
        since_ms: held.since_ms,
        until_ms: held.until_ms,
        is_releasable: match held.why {
            Why::Shrinks { .. } | Why::Pinned { .. } => true,
            Why::Unsound { .. } => false,
        },
        loses: held.why.loses(),
    }
}

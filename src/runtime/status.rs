//! What `status` says of a zone.

use std::sync::Arc;

use arc_swap::ArcSwap;
use dns::{Name, Serial};
use history::{HeldLine, HeldNamespaceLine, HistoryLine, ListenerLine, OrderLine, ZoneLine};
use zone::Zone;
use zone::gate::{HeldChange, HeldShare, Why};
use zone::journal::{ReadError, Reader, StoredZone};

/// The sockets on which the server listens.
pub(crate) type ListeningNow = Arc<ArcSwap<Vec<ListenerLine>>>;

/// How a zone stands.
pub(crate) fn zone_line(zone: &Arc<Zone>) -> ZoneLine {
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
        order: zone.hold().map(|hold| OrderLine {
            rolled_back_to: hold.rollback.map(|it| it.to.encode()),
            since_ms: hold.since_ms,
            until_ms: hold.until_ms,
            by: hold.by.to_string(),
        }),
        history: None,
        archive: None,
        ahead: None,
        reset: None,
    }
}

/// What the store keeps of a zone's history.
pub(crate) fn history_line(reader: &Reader, apex: &Name) -> Option<HistoryLine> {
    let read = read_history(&|| reader.zone(apex), &|seq| reader.moment(apex, seq));
    read.unwrap_or_else(|error| {
        tracing::warn!(zone = %apex, %error, "status cannot read the size of the history");
        None
    })
}

/// The same, from what gives a zone as the store has it now, and serial and time of one of its versions.
fn read_history(
    zone: &dyn Fn() -> Option<StoredZone>,
    moment: &dyn Fn(u64) -> Result<(Serial, u64), ReadError>,
) -> Result<Option<HistoryLine>, ReadError> {
    let Some(mut stored) = zone() else {
        return Ok(None);
    };
    let mut first = moment(stored.oldest);
    if first.is_err()
        && let Some(now) = zone()
    {
        // Its oldest version may have gone meanwhile.
        stored = now;
        first = moment(stored.oldest);
    }
    let (begins, begins_ms) = first?;
    Ok(Some(HistoryLine {
        begins: begins.encode(),
        begins_ms,
        versions: (stored.newest + 1).saturating_sub(stored.oldest),
        octets: stored.octets,
        dropped_early: stored.early.count,
        dropped_early_ms: Some(stored.early.last_ms).filter(|ms| *ms > 0),
    }))
}

/// A change that is held, for status.
fn held_line(held: &HeldChange) -> HeldLine {
    HeldLine {
        why: held.why.to_string(),
        since_ms: held.since_ms,
        until_ms: held.until_ms,
        is_releasable: match held.why {
            Why::Shrinks { .. } | Why::SharesShrink(_) | Why::OnHold { .. } => true,
            Why::Unsound { .. } => false,
        },
        loses: held.why.loses(),
        namespaces: match &held.why {
            Why::SharesShrink(shares) => shares.iter().map(namespace_line).collect(),
            Why::Shrinks { .. } | Why::Unsound { .. } | Why::OnHold { .. } => Vec::new(),
        },
    }
}

fn namespace_line(held: &HeldShare) -> HeldNamespaceLine {
    HeldNamespaceLine {
        namespace: held.share.as_str().to_owned(),
        loses: (held.loss.lost, held.loss.before),
        since_ms: held.since_ms,
        until_ms: held.until_ms,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use zone::journal::EarlyDrops;

    use super::*;

    #[test]
    fn a_history_whose_oldest_version_goes_meanwhile_is_read_once_more_and_no_oftener() {
        let apex: Name = "z.".parse().unwrap();
        let oldest = Cell::new(3);
        let zone = || {
            let stored = StoredZone {
                apex: apex.clone(),
                serial: Serial::decode(109),
                newest: 9,
                oldest: oldest.get(),
                octets: 10 - oldest.get(),
                early: EarlyDrops::default(),
            };
            oldest.set(oldest.get() + 2);
            Some(stored)
        };
        let gone = |seq| {
            Err(ReadError::NoVersion {
                apex: apex.clone(),
                seq,
                oldest: 5,
                newest: 9,
            })
        };
        let pruned = |seq: u64| match seq {
            5.. => Ok((Serial::decode(105), 1000)),
            _ => gone(seq),
        };
        let want = HistoryLine {
            begins: 105,
            begins_ms: 1000,
            versions: 5,
            octets: 5,
            dropped_early: 0,
            dropped_early_ms: None,
        };
        assert_eq!(read_history(&zone, &pruned).unwrap(), Some(want));
        assert!(read_history(&zone, &gone).is_err());
        assert_eq!(oldest.get(), 11, "twice each");
        assert_eq!(read_history(&|| None, &gone).unwrap(), None);
    }
}

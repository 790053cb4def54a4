//! What `status`, the metrics and `/ready` show of a replica.

use std::collections::BTreeMap;

use crate::ceiling::Ceiling;
use crate::chain::{Chains, Epoch, ReplicaId};
use crate::record::Record;
use crate::settings::{Boottime, Settings};

/// A replica at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Whether it may commit: `zonewright_leader`.
    pub is_leading: bool,
    /// The highest epoch that it has seen: `zonewright_epoch`.
    pub epoch: Epoch,
    /// The holder of the Lease, as last read.
    pub holder: Option<ReplicaId>,
    /// Where its followers find the holder, as last read; empty when it is not known.
    pub address: String,
    /// The in-sync set of the Lease, as last read: `zonewright_in_sync_replicas` is its size.
    pub in_sync: Vec<ReplicaId>,
    /// The ceiling of the Lease, as last read.
    pub ceiling: Ceiling,
    /// On a leader: versions that each follower lacks, over all zones: `zonewright_replica_lag_versions`.
    pub lags: BTreeMap<ReplicaId, u64>,
    /// Bytes on the way to followers; at most a window and one step for each.
    pub bytes_on_the_way: usize,
    /// Calls to the API server: `zonewright_lease_renewals_total`, by outcome.
    pub renewals: Renewals,
    /// Frames of a lower epoch: `zonewright_replication_frames_total{outcome="refused"}`.
    pub refused_frames: u64,
    /// Terms that began here: `zonewright_promotions_total`.
    pub promotions: u64,
    /// Whether it is behind by proof, for longer than the lag that is allowed: `/ready` is 503 then.
    pub is_behind: bool,
    /// Whether the Lease can be taken, but nobody who may take it does.
    pub lacks_eligible: bool,
}

/// Writes and reads of the Lease, by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Renewals {
    /// Renewals that were written.
    pub written: u64,
    /// Calls that failed or had no answer in time.
    pub failed: u64,
}

/// Since when a replica is behind the Lease.
#[derive(Debug, Default)]
pub struct Lag {
    /// Since when the Lease names a version that is not visible here.
    since: Option<Boottime>,
}

impl Lag {
    /// Looks at the Lease that the API server gave.
    pub fn look(&mut self, record: &Record, chains: &Chains, now: Boottime) {
        let is_behind = record.newest.iter().any(|(zone, newest)| {
            let shown = chains
                .get(zone)
                .and_then(|it| it.announced().known_serial());
            shown.is_none_or(|shown| newest.serial.is_after(shown))
        });
        if is_behind {
            self.since.get_or_insert(now);
        } else {
            self.since = None;
        }
    }

    /// Whether it is behind for too long, by proof: the API server has said so lately. Without proof a replica is ready, because
    /// otherwise one slow leader would take all out of service.
    #[must_use]
    pub fn is_proven(&self, read: Option<Boottime>, settings: &Settings, now: Boottime) -> bool {
        let is_recent = read.is_some_and(|read| now < read + settings.renew_deadline);
        let is_long = self.since.is_some_and(|since| since + settings.lag <= now);
        is_recent && is_long
    }
}

#[cfg(test)]
mod tests {
    use dns::Serial;
    use dns::testing::name;

    use std::time::Duration;

    use super::*;
    use crate::chain::{Chain, Tip};
    use crate::record::Newest;

    #[test]
    fn a_replica_is_not_ready_only_when_the_api_server_proves_that_it_is_behind() {
        let settings = Settings::default();
        let at = Duration::from_secs;
        let zone = name("a.");
        let tip = |serial| Tip {
            seq: 1,
            serial: Serial::decode(serial),
            ..Tip::NONE
        };
        let chains = |serial| Chains::from([(zone.clone(), Chain::new(tip(serial), Vec::new()))]);
        let mut record = Record::default();
        record.newest.insert(zone.clone(), Newest::from(&tip(7)));
        let mut lag = Lag::default();
        lag.look(&record, &chains(6), at(100));
        assert!(!lag.is_proven(Some(at(129)), &settings, at(129)));
        assert!(lag.is_proven(Some(at(130)), &settings, at(130)));
        // The API server does not answer any more: nothing is proven.
        assert!(!lag.is_proven(Some(at(130)), &settings, at(140)));
        assert!(!lag.is_proven(None, &settings, at(140)));
        lag.look(&record, &chains(7), at(141));
        assert!(!lag.is_proven(Some(at(141)), &settings, at(200)));
    }
}

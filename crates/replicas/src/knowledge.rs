//! What a replica knows, as it answers a new leader; and whether one replica knows more than another.

use dns::Name;

use std::collections::BTreeMap;

use crate::ceiling::Ceiling;
use crate::chain::{Epoch, ReplicaId, Tip};

/// What a replica keeps on disk beside the journal. It is durable before anything is answered that follows from it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Vow {
    /// The highest epoch that it has seen. It takes no frame of a lower one.
    pub epoch: Epoch,
    /// The epoch of the leader from which it last had all zones, or its own.
    pub branch: Epoch,
    /// The highest ceiling that it has seen.
    pub ceiling: Ceiling,
}

/// The versions of a zone that a replica has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    /// The announced one, as far as it knows.
    pub announced: Tip,
    /// The newest durable one.
    pub newest: Tip,
}

/// What a replica knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Knowledge {
    /// The replica.
    pub replica: ReplicaId,
    /// What it keeps on disk.
    pub vow: Vow,
    /// Its zones.
    pub zones: BTreeMap<Name, Versions>,
    /// Whether its store takes steps.
    pub is_store_ok: bool,
    /// Whether it leads.
    pub is_leading: bool,
}

impl Knowledge {
    /// Whether it should lead in place of the other one: it has everything that the other one has, and more; or it has announced
    /// versions that the other one lacks, which then has an older disk or Lease than it seems.
    ///
    /// A replica that last followed an older leader than the other one did is never ahead: what it has more was given up. What it knows as
    /// announced may be too little, because that mark is not synced; so all durable versions are compared, too.
    #[must_use]
    pub fn is_ahead_of(&self, other: &Self) -> bool {
        let newest = |it: Versions| it.newest;
        let shows_more =
            self.has_more(other, |it| it.announced) && !other.has_more(self, |it| it.announced);
        let has_all = self.has_more(other, newest) && !other.has_more(self, newest);
        self.vow.branch >= other.vow.branch && (shows_more || has_all)
    }

    /// Whether a version of it is newer than the newest one of the other.
    fn has_more(&self, other: &Self, version: impl Fn(Versions) -> Tip) -> bool {
        self.zones.iter().any(|(zone, own)| {
            let newest = other.zones.get(zone).map_or(Tip::NONE, |it| it.newest);
            version(*own).age() > newest.age()
        })
    }

    /// Raises a ceiling above everything that it knows to be in use.
    pub fn raise(&self, ceiling: &mut Ceiling) {
        ceiling.join(&self.vow.ceiling);
        for (zone, versions) in &self.zones {
            if let Some(serial) = versions.newest.known_serial() {
                ceiling.raise(zone, serial);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use dns::Serial;
    use dns::testing::name;

    use super::*;

    /// A replica that followed a leader, with the places of the announced and the newest version in two zones.
    fn known(branch: u64, zones: [(u64, u64); 2]) -> Knowledge {
        let tip = |seq: u64| Tip {
            epoch: Epoch(1),
            seq,
            serial: Serial::decode(1),
            hash: [0; 32],
        };
        let versions = zones.map(|(announced, newest)| Versions {
            announced: tip(announced),
            newest: tip(newest),
        });
        let names = ["a.", "b."].map(name);
        Knowledge {
            replica: ReplicaId::from("r"),
            vow: Vow {
                branch: Epoch(branch),
                ..Vow::default()
            },
            zones: names.into_iter().zip(versions).collect(),
            is_store_ok: true,
            is_leading: false,
        }
    }

    #[test]
    fn a_replica_is_ahead_that_lacks_nothing_and_has_more() {
        let own = known(3, [(5, 5), (5, 5)]);
        assert!(known(3, [(5, 6), (5, 5)]).is_ahead_of(&own));
        // It shows a version that is not here, and the one that it lacks is not announced here.
        assert!(known(3, [(6, 6), (5, 5)]).is_ahead_of(&known(3, [(5, 5), (5, 6)])));
        // It lacks a version that may be announced, and shows nothing that is announced and not here.
        assert!(!known(3, [(5, 6), (4, 4)]).is_ahead_of(&own));
        assert!(!own.is_ahead_of(&own));
        // Its leader was an older one: what it has more was given up.
        assert!(!known(2, [(9, 9), (9, 9)]).is_ahead_of(&own));
        // Each has announced what the other one lacks: neither is better.
        let other = known(3, [(6, 6), (4, 4)]);
        let third = known(3, [(4, 4), (6, 6)]);
        assert!(!other.is_ahead_of(&third) && !third.is_ahead_of(&other));
    }
}

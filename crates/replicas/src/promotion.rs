//! Who may take the Lease, when, and with what content.

use std::collections::BTreeSet;

use crate::chain::{Chains, ReplicaId};
use crate::fault::Fault;
use crate::knowledge::Knowledge;
use crate::record::{Newest, Record};
use crate::settings::{Boottime, Settings};

/// On what ground a replica may lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ground {
    /// It is in the in-sync set.
    Member,
    /// The Lease has a lower epoch than this replica has followed: it was restored from a backup.
    Restored,
    /// An operator accepted the loss.
    AcceptedLoss,
    /// Nobody eligible came for the orphan time.
    Orphaned,
    /// Nobody has held the Lease yet.
    Created,
}

/// What a replica looks at to know whether it may lead.
#[derive(Debug)]
pub struct Candidate<'a> {
    /// The Lease.
    pub record: &'a Record,
    /// What this replica knows.
    pub knowledge: &'a Knowledge,
    /// Since when the Lease is free to be taken.
    pub open_since: Option<Boottime>,
    /// Whether an operator accepted the loss.
    pub accepts_loss: bool,
}

impl Candidate<'_> {
    /// On what ground it may lead now, if at all.
    #[must_use]
    pub fn ground(&self, settings: &Settings, now: Boottime) -> Option<Ground> {
        let knowledge = self.knowledge;
        if knowledge.vow.branch > self.record.epoch {
            return Some(Ground::Restored);
        }
        let open_since = self.open_since?;
        let is_member = self.record.in_sync.contains(&knowledge.replica) && !self.is_behind();
        if is_member || settings.lacks(Fault::Eligibility) {
            return Some(Ground::Member);
        }
        if self.accepts_loss {
            return Some(Ground::AcceptedLoss);
        }
        (open_since + settings.orphan_wait <= now).then_some(Ground::Orphaned)
    }

    /// Whether the Lease names a version that this replica does not have: its disk is an old copy, although its name is in the set.
    fn is_behind(&self) -> bool {
        self.record.newest.iter().any(|(zone, newest)| {
            let own = self.knowledge.zones.get(zone);
            own.is_none_or(|own| {
                let has = own.newest.known_serial();
                let is_other = own.newest.serial == newest.serial
                    && Newest::from(&own.newest).hash != newest.hash;
                has.is_none_or(|has| newest.serial.is_after(has)) || is_other
            })
        })
    }

    /// The content with which it takes the Lease.
    #[must_use]
    pub fn bid(&self, ground: Ground, address: &str, settings: &Settings) -> Record {
        let knowledge = self.knowledge;
        let is_member = ground == Ground::Member;
        let highest = self.record.epoch.max(knowledge.vow.epoch);
        let mut ceiling = self.record.ceiling.clone();
        knowledge.raise(&mut ceiling);
        let mut in_sync = BTreeSet::from([knowledge.replica.clone()]);
        if is_member {
            in_sync.extend(self.record.in_sync.iter().cloned());
        }
        let own = { knowledge.zones.iter() }
            .filter(|(_, it)| it.announced.seq > 0)
            .map(|(zone, it)| (zone.clone(), Newest::from(&it.announced)));
        let is_same_epoch = settings.lacks(Fault::SameEpoch);
        Record {
            holder: Some(knowledge.replica.clone()),
            epoch: if is_same_epoch {
                highest
            } else {
                highest.next()
            },
            ceiling,
            in_sync,
            address: address.to_owned(),
            newest: if is_member {
                self.record.newest.clone()
            } else {
                own.collect()
            },
            must_publish: self.record.must_publish || !is_member,
        }
    }
}

/// The newest announced versions of all zones, for the Lease.
#[must_use]
pub fn newest_of(chains: &Chains, max: usize) -> std::collections::BTreeMap<dns::Name, Newest> {
    let announced = chains
        .iter()
        .map(|(zone, chain)| (zone, chain.announced()))
        .filter(|(_, tip)| tip.seq > 0);
    announced
        .take(max)
        .map(|(zone, tip)| (zone.clone(), Newest::from(tip)))
        .collect()
}

/// What came of the answers of the other replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Greeted {
    /// Nobody knows more.
    Well,
    /// Another replica has seen this higher epoch, or leads in the same one.
    HigherEpoch(crate::chain::Epoch),
    /// These have announced versions that this replica lacks.
    Behind(BTreeSet<ReplicaId>),
}

/// Judges the answers by what this replica knew before it took the Lease.
#[must_use]
pub fn judge(own: &Knowledge, epoch: crate::chain::Epoch, answers: &[Knowledge]) -> Greeted {
    // An API server that was restored from a backup gives an epoch away twice.
    let leads_too = |it: &Knowledge| it.is_leading && it.vow.epoch == epoch;
    if answers.iter().any(leads_too) {
        return Greeted::HigherEpoch(epoch);
    }
    let is_better = |it: &&Knowledge| it.is_store_ok && it.is_ahead_of(own);
    let better = answers.iter().filter(is_better);
    let better: BTreeSet<ReplicaId> = better.map(|it| it.replica.clone()).collect();
    let highest = answers.iter().map(|it| it.vow.epoch).max();
    match highest {
        _ if !better.is_empty() => Greeted::Behind(better),
        Some(highest) if highest > epoch => Greeted::HigherEpoch(highest),
        Some(_) | None => Greeted::Well,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::chain::Epoch;
    use crate::knowledge::Vow;

    /// The API server was restored from a backup: its Lease has forgotten who leads.
    #[test]
    fn an_epoch_in_which_another_replica_leads_is_given_up() {
        let knowledge = |replica: &str, is_leading| Knowledge {
            replica: ReplicaId::from(replica),
            vow: Vow {
                epoch: Epoch(2),
                ..Vow::default()
            },
            zones: BTreeMap::new(),
            is_store_ok: true,
            is_leading,
        };
        let own = knowledge("a", false);
        let judged = |other| judge(&own, Epoch(2), &[other]);
        assert_eq!(judged(knowledge("b", false)), Greeted::Well);
        assert_eq!(judged(knowledge("b", true)), Greeted::HigherEpoch(Epoch(2)));
        assert_eq!(
            judge(&own, Epoch(3), &[knowledge("b", true)]),
            Greeted::Well
        );
    }
}

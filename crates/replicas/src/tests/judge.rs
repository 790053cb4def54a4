//! What must hold at every moment, with the exceptions that the design names and no others.

use dns::Name;

use std::collections::{BTreeMap, BTreeSet};

use crate::chain::{Epoch, Hash, ReplicaId, Tip};
use crate::record::Record;
use crate::tests::content::Stored;
use crate::tests::disk::{Disk, ZoneFile};

/// An announced version.
#[derive(Debug, Clone)]
struct Announced {
    /// The version.
    tip: Tip,
    /// The epoch in which it was first announced; its own epoch may be lower.
    by: Epoch,
    /// The state of the source from which it was made.
    fact: u64,
}

/// The judge. The first violation is kept.
#[derive(Debug, Default)]
pub(super) struct Judge {
    /// The one content of each serial that anybody saw.
    contents: BTreeMap<(Name, u32), (Hash, u64)>,
    /// The epoch and content with which each serial was made, seen or not.
    makers: BTreeMap<(Name, u32), (Epoch, Hash)>,
    /// The line of announced versions.
    line: BTreeMap<Name, Vec<Announced>>,
    /// The hashes of versions that a leader has announced.
    shown: BTreeSet<(Name, Hash)>,
    /// The one leader of each epoch.
    leaders: BTreeMap<Epoch, ReplicaId>,
    /// Epochs that began with a loss: an operator's word, the orphan time, or a disk that was an old copy.
    losses: BTreeSet<Epoch>,
    /// The highest epoch for which each replica has answered.
    answered: BTreeMap<ReplicaId, Epoch>,
    /// Replicas whose disk is an old copy, and the epoch in which a leader has taken them in since.
    damaged: BTreeMap<ReplicaId, Epoch>,
    /// The first violation.
    pub(super) violation: Option<String>,
    /// Versions that were announced.
    pub(super) announced: u64,
}

impl Judge {
    /// Notes a violation.
    pub(super) fn blame(&mut self, text: String) {
        self.violation.get_or_insert(text);
    }

    /// A version is seen by somebody: its serial has one content for ever.
    fn see(&mut self, zone: &Name, stored: &Stored, who: &str) -> bool {
        let seen = (stored.tip.hash, stored.fact);
        let key = (zone.clone(), stored.tip.serial.encode());
        let known = *self.contents.entry(key).or_insert(seen);
        if known != seen {
            let serial = stored.tip.serial;
            self.blame(format!("{who}: {zone} {serial} has two contents"));
        }
        known == seen
    }

    /// A replica shows a version, and gives all before it to secondaries.
    pub(super) fn show(&mut self, who: &ReplicaId, zone: &Name, tip: &Tip, disk: &Disk) {
        let Some(file) = disk.folder.zones.get(zone) else {
            self.blame(format!("{who}: {zone} {tip:?} is visible and not on disk"));
            return;
        };
        let Some(place) = file.place(tip) else {
            self.blame(format!("{who}: {zone} {tip:?} is visible and not on disk"));
            return;
        };
        for stored in file.versions[..place].iter().rev() {
            let key = (zone.clone(), stored.tip.serial.encode());
            let is_known = self.contents.contains_key(&key);
            if !self.see(zone, stored, &who.to_string()) || is_known {
                break;
            }
        }
    }

    /// A follower shows a version: a leader has announced it.
    pub(super) fn follow(&mut self, who: &ReplicaId, zone: &Name, tip: &Tip) {
        if !self.shown.contains(&(zone.clone(), tip.hash)) {
            self.blame(format!(
                "{who}: {zone} {tip:?} is visible and not announced"
            ));
        }
    }

    /// A secondary has a version.
    pub(super) fn hold(&mut self, who: &str, zone: &Name, stored: &Stored) {
        self.see(zone, stored, who);
    }

    /// A leader gives its own step to its journal.
    pub(super) fn make(&mut self, zone: &Name, tip: &Tip) {
        let made = (tip.epoch, tip.hash);
        let key = (zone.clone(), tip.serial.encode());
        let known = *self.makers.entry(key).or_insert(made);
        if known != made {
            self.blame(format!("{zone} {tip:?}: epoch {} made it too", known.0));
        }
    }

    /// A replica takes commits.
    pub(super) fn lead(&mut self, who: &ReplicaId, epoch: Epoch) {
        let leader = self.leaders.entry(epoch).or_insert(who.clone()).clone();
        if leader != *who {
            self.blame(format!("{who} and {leader} lead in epoch {epoch}"));
        }
    }

    /// A replica answers for an epoch; never for a lower one than before.
    pub(super) fn answer(&mut self, who: &ReplicaId, epoch: Epoch) {
        let highest = self.answered.entry(who.clone()).or_default();
        if epoch < *highest {
            let text = format!("{who} answers for epoch {epoch} after {highest}");
            self.blame(text);
        } else {
            *highest = epoch;
        }
    }

    /// A disk is an old copy now.
    pub(super) fn damage(&mut self, who: &ReplicaId) {
        self.damaged.insert(who.clone(), Epoch(0));
        self.answered.remove(who);
    }

    /// A leader has taken a replica in. What the replica said before its disk was replaced is not believed any more: it may have been
    /// on its way.
    pub(super) fn align(&mut self, who: &ReplicaId, epoch: Epoch) {
        if let Some(aligned) = self.damaged.get_mut(who) {
            *aligned = epoch;
        }
    }

    /// A replica took the Lease.
    pub(super) fn take_over(&mut self, record: &Record, is_loss: bool) {
        let holder = record.holder.as_ref();
        if is_loss || holder.is_some_and(|it| self.damaged.contains_key(it)) {
            self.losses.insert(record.epoch);
        }
    }

    /// Whether a loss was accepted after one epoch and up to another.
    fn is_loss_between(&self, after: Epoch, until: Epoch) -> bool {
        after < until && self.losses.range(after.next()..=until).next().is_some()
    }

    /// A leader announces a version: it and everything announced before is on its disk.
    pub(super) fn announce(&mut self, epoch: Epoch, zone: &Name, tip: &Tip, file: &ZoneFile) {
        self.shown.insert((zone.clone(), tip.hash));
        let line = self.line.entry(zone.clone()).or_default();
        if line.iter().rev().any(|it| it.tip == *tip) {
            return;
        }
        let lost = line.last().filter(|it| file.place(&it.tip).is_none());
        if let Some(lost) = lost.cloned() {
            let is_late = lost.by > epoch && self.is_loss_between(epoch, lost.by);
            if is_late {
                // What a leader announces that was given up: its serials are its own, and nobody else has them.
                return;
            }
            if !self.is_loss_between(lost.by, epoch) {
                self.blame(format!(
                    "{zone} {tip:?}: announced in epoch {epoch} without {:?} of epoch {}",
                    lost.tip, lost.by
                ));
                return;
            }
        }
        let line = self.line.entry(zone.clone()).or_default();
        while line.last().is_some_and(|it| file.place(&it.tip).is_none()) {
            line.pop();
        }
        let known = line.last().and_then(|it| file.place(&it.tip));
        let end = file.place(tip).unwrap_or_default();
        for stored in &file.versions[known.unwrap_or_default().min(end)..end] {
            self.announced += 1;
            let before = line.last().map_or(0, |it| it.fact);
            if stored.fact < before {
                let text = format!(
                    "{zone} {:?}: fact {} after {before}",
                    stored.tip, stored.fact
                );
                self.violation.get_or_insert(text);
            }
            line.push(Announced {
                tip: stored.tip,
                by: epoch,
                fact: stored.fact,
            });
        }
    }

    /// The in-sync set of the Lease has everything that was announced.
    pub(super) fn check_in_sync<'a>(
        &mut self,
        record: &Record,
        disk_of: impl Fn(&ReplicaId) -> Option<&'a Disk>,
    ) {
        let mut lacking = None;
        let mut whole = Vec::new();
        for member in &record.in_sync {
            let Some(disk) = disk_of(member) else {
                continue;
            };
            let lacks = self.line.iter().find_map(|(zone, line)| {
                let last = line.last()?;
                let file = disk.folder.zones.get(zone);
                let has = file.is_some_and(|file| file.place(&last.tip).is_some());
                let is_excused = self.is_loss_between(last.by, record.epoch);
                (!has && !is_excused).then(|| (zone.clone(), last.tip))
            });
            match lacks {
                None => whole.push(member.clone()),
                Some(_) if self.damaged.contains_key(member) => {}
                Some((zone, tip)) => {
                    lacking.get_or_insert(format!(
                        "{member} is in sync in epoch {} without {zone} {tip:?}",
                        record.epoch
                    ));
                }
            }
        }
        for member in whole {
            let is_holder = record.holder.as_ref() == Some(&member);
            let aligned = self.damaged.get(&member);
            if is_holder || aligned == Some(&record.epoch) {
                self.damaged.remove(&member);
            }
        }
        if let Some(text) = lacking {
            self.blame(text);
        }
    }

    /// Whether a disk has every announced version.
    pub(super) fn is_whole(&self, disk: &Disk) -> bool {
        self.line.iter().all(|(zone, line)| {
            line.last().is_none_or(|last| {
                let file = disk.folder.zones.get(zone);
                file.is_some_and(|file| file.place(&last.tip).is_some())
            })
        })
    }
}

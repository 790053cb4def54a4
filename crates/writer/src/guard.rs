//! Checks and gate between the renderings of a zone and its versions.
//!
//! A draft that may pass costs what it changes. One that may not is kept, and the next renderings start from it, so a
//! change while something is held costs no more. A kept draft has the new contents and the owners that differ from the
//! served version. The difference is made when the draft is published. When the gate holds only some namespaces, the owners of the
//! others leave the draft with the next commit, and those of the held ones stay in it.

mod active_hold;
mod kept;
mod pace;
mod shares;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use self::active_hold::ActiveHold;
pub use self::active_hold::{HoldOrder, Restored, Target};
use self::kept::{Judged, Kept, Leaving, owners_of};
use self::pace::Pace;
use self::shares::ShareCounts;
pub(crate) use self::shares::{NameForm, ShareRule};
use crate::ahead::Ahead;
use crate::callers::{Released, answer};
use crate::corefile_cause::name_corefile;
use crate::notes::add_note;
use crate::zone_edit::ZoneDraft;
use dns::{RrList, Serial};
use provenance::{Cause, Operator};
use zone::check::{Fault, Findings, Warning, check};
use zone::gate::{
    GateSettings, HeldChange, HeldShare, Loss, Share, Shares, TOGETHER, Verdict, Why, counts, lost,
};
use zone::hold::Hold;
use zone::{Contents, Draft, MemoryLimits, Version, Zone};

type Key = Box<[u8]>;

/// Ends a hold whose time is over.
pub(crate) const CLOCK: &str = "the clock";

/// An event of the gate or of a hold, for logs and counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateEvent {
    /// A change is held.
    Held(HeldChange),
    /// An operator released it.
    Released {
        /// The operator.
        by: Operator,
    },
    /// The lost records are back, or the fault is fixed.
    Recovered {
        /// What was held.
        held: Option<Arc<HeldChange>>,
        /// The records that the zone would lose now.
        lost: usize,
    },
    /// Its time is over and it is published.
    Expired,
    /// A share is not held any more, though others are.
    ShareOut {
        /// The share.
        share: Share,
        /// What was held of it.
        held: Option<HeldShare>,
        /// Whether its time is over. Otherwise its records are back.
        is_expired: bool,
    },
    /// A hold began.
    OnHold(Hold),
    /// A hold ended.
    Resumed {
        /// The hold.
        hold: Hold,
        /// The operator that ended it, or the clock.
        by: Operator,
    },
}

impl GateEvent {
    /// The event as a label.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Held(_) => "held",
            Self::Released { by: _ } => "released",
            Self::Recovered { .. }
            | Self::ShareOut {
                is_expired: false, ..
            } => "recovered",
            Self::Expired
            | Self::ShareOut {
                is_expired: true, ..
            } => "expired",
            Self::OnHold(hold) => hold.as_str(),
            Self::Resumed { hold: _, by: _ } => "resumed",
        }
    }

    /// Whether a change is published that nobody let out.
    pub(super) const fn is_recovery(&self) -> bool {
        matches!(self, Self::Recovered { .. })
    }
}

/// The time on both clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) at: Instant,
    /// Milliseconds since 1970 UTC.
    pub(super) ms: u64,
    /// The versions that a namespace may cause without a pause; 0 is no limit.
    pub(super) burst: u32,
}

/// The losses of one version that passed, by share.
#[derive(Debug, Clone)]
struct Passed {
    at: Instant,
    /// With the records of the share before it.
    losses: BTreeMap<Option<Share>, Loss>,
}

/// The owners of a version, each with its share. The pace of versions counts them once it is published.
#[derive(Debug)]
struct Causing {
    now: Now,
    owners: Vec<(Key, Share)>,
}

impl Causing {
    fn new(owners: impl Iterator<Item = (Key, Share)>, now: Now) -> Self {
        let owners = owners.collect();
        Self { now, owners }
    }
}

/// A draft that may become a version.
pub(super) struct Ready {
    pub(super) zone: Arc<Zone>,
    /// The history that versions have in memory.
    pub(super) limits: MemoryLimits,
    pub(super) draft: ZoneDraft,
    /// The serial is not before this one.
    pub(super) wanted: Option<Serial>,
    /// The serial is above this one.
    pub(super) ahead: Option<Serial>,
    /// The draft is signed with the wanted serial, which is its own.
    pub(super) is_signed: bool,
}

/// What a zone would publish if it were released: its next contents, and the difference from what it serves.
#[derive(Debug, Clone)]
pub struct Waiting {
    /// The next contents.
    pub contents: Contents,
    /// Records that it would remove. Their tags name groups of causes.
    pub removed: RrList,
    /// Records that it would add.
    pub added: RrList,
    /// Groups of causes. Those that no record names are of the version as a whole.
    pub causes: Vec<Vec<Cause>>,
}

/// What a guard holds after a commit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Holds {
    /// Nothing.
    #[default]
    Nothing,
    /// These shares.
    Shares(BTreeSet<Share>),
    /// The whole zone.
    Zone,
}

impl Holds {
    /// What both hold.
    pub(super) fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::Zone, _) | (_, Self::Zone) => Self::Zone,
            (Self::Nothing, one) | (one, Self::Nothing) => one,
            (Self::Shares(mut one), Self::Shares(other)) => {
                one.extend(other);
                Self::Shares(one)
            }
        }
    }

    /// Whether something of a namespace is held.
    pub(super) fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::Shares(shares) => shares.contains(namespace),
            Self::Zone => true,
        }
    }
}

/// The guard of one zone.
#[derive(Debug, Default)]
pub(super) struct Guard {
    /// `None` holds nothing.
    pub(super) gate: Option<GateSettings>,
    /// Whose records the zone has.
    rule: ShareRule,
    /// How many of them each has.
    counts: ShareCounts,
    /// How many versions each of them has caused.
    pace: Pace,
    kept: Option<Kept>,
    active_hold: Option<ActiveHold>,
    passed: Vec<Passed>,
    /// The loss of the draft that is being committed.
    passing: Option<Passed>,
    /// What causes the version that is being committed.
    causing: Option<Causing>,
    /// Records that some secondaries refuse, by owner.
    warnings: BTreeMap<Key, Vec<Warning>>,
    /// Warnings that were not reported yet.
    news: Vec<Warning>,
    /// Whether the warnings differ from those reported last.
    differs: bool,
    /// Whether the whole zone was rendered and checked.
    is_checked: bool,
    /// Causes of the next version besides those of its records. Dropped when a whole rendering differs in nothing from the
    /// served version.
    pub(super) notes: Vec<Cause>,
    /// The serials that the next one must be above.
    pub(super) ahead: Ahead,
    /// Whether objects of lists are causes because they differ, not because they were read again.
    pub(super) lists_are_exact: bool,
    /// Why the kept draft cannot have its serial, if it is signed with it.
    pub(super) refused: Option<Fault>,
}

impl Guard {
    pub(super) fn new(gate: Option<GateSettings>, rule: ShareRule) -> Self {
        Self {
            gate,
            rule,
            ..Self::default()
        }
    }

    /// Takes the settings of another guard, which the same zone would have in its new place.
    pub(super) fn set_as(&mut self, other: &Self) {
        self.gate = other.gate;
        self.refused = None;
        if self.rule != other.rule {
            self.rule = other.rule.clone();
            self.counts.forget();
        }
    }

    /// Keeps notes until the whole zone is rendered.
    pub(super) fn await_rendering(&mut self) {
        self.is_checked = false;
    }

    /// Begins again with the objects of another source. What is held is of the old one and is dropped, unless a rollback leads
    /// back to it.
    pub(super) fn restart(&mut self, zone: &Zone) {
        self.await_rendering();
        self.passed.clear();
        self.passing = None;
        self.refused = None;
        if !self.has_rollback() {
            self.refuse_release(zone);
            self.kept = None;
            zone.set_held(None);
        }
    }

    /// Answers the callers that wait for a release.
    fn refuse_release(&mut self, zone: &Zone) {
        if let Some(kept) = &mut self.kept {
            answer(std::mem::take(&mut kept.asked), &is_changed(zone));
        }
    }

    /// Ends the guard of a removed zone. True if a hold ends with it.
    pub(super) fn dismiss(&mut self, zone: &Zone) -> bool {
        zone.set_held(None);
        zone.set_hold(None);
        self.refuse_release(zone);
        self.ahead.end(&is_changed(zone));
        let hold = self.active_hold.take();
        hold.is_some_and(|hold| {
            answer(hold.asked, &is_changed(zone));
            true
        })
    }

    /// The contents that a rendering starts from, if not the served version's.
    pub(super) fn base(&self) -> Option<&Contents> {
        self.kept.as_ref().map(|kept| &kept.contents)
    }

    /// What waits for the pace of versions, with what is held beside it.
    pub(super) fn waiting(&self) -> Holds {
        let kept = self.kept.as_ref();
        let waiting = kept.filter(|kept| kept.waits_until.is_some());
        waiting.map_or(Holds::Nothing, Kept::all_shares)
    }

    /// Publishes with the next commit what waits for the pace of versions.
    pub(super) fn wait_no_longer(&mut self) {
        if let Some(kept) = &mut self.kept {
            kept.wait_no_longer();
        }
    }

    /// What is held after this commit.
    pub(super) fn holds(&self) -> Holds {
        let Some(kept) = &self.kept else {
            return Holds::Nothing;
        };
        let nobody = BTreeSet::new();
        let over = match &kept.leaves {
            Some(Leaving::All(_)) => return Holds::Nothing,
            Some(Leaving::Part(over)) => over,
            None if kept.waits_until.is_some() => return kept.all_shares(),
            None if kept.is_rest => &nobody,
            None => return Holds::Zone,
        };
        Holds::Shares(kept.staying(over).map(|(share, _)| share.clone()).collect())
    }

    /// What would be published if all of it were let out. Costs what it changes.
    pub(super) fn waiting_draft(&mut self, zone: &Zone) -> Option<Waiting> {
        let current = zone.current();
        let notes: Vec<Cause> = self.notes.to_vec();
        let kept = self.kept.as_mut()?;
        let empty = Contents::empty(zone.apex(), kept.contents.soa().clone());
        let served = current.as_ref().map_or(&empty, |version| &version.contents);
        if !kept.is_different(served) {
            return None;
        }
        let mut draft = kept.draft(served);
        name_version(&mut draft, notes.into_iter(), self.lists_are_exact);
        let ZoneDraft { draft, causes } = draft;
        Some(Waiting {
            contents: draft.contents,
            removed: draft.removed,
            added: draft.added,
            causes,
        })
    }

    /// Adds a cause of the next version. A first version has none.
    pub(super) fn note(&mut self, cause: Cause) {
        add_note(&mut self.notes, cause);
    }

    /// When the kept draft is published by itself.
    pub(super) fn deadline(&self, now: Now) -> Option<Instant> {
        if let Some(hold) = self.standing() {
            let left = Duration::from_millis(hold.until_ms?.saturating_sub(now.ms));
            return now.at.checked_add(left);
        }
        let kept = self.kept.as_ref().filter(|kept| kept.faults.is_empty())?;
        let hold = self.gate.and_then(|gate| gate.hold);
        let of_gate = hold.and_then(|hold| kept.deadline(hold));
        of_gate.into_iter().chain(kept.waits_until).min()
    }

    /// Takes an operator's release of the kept draft.
    pub(super) fn release(&mut self, of: &Zone, by: Operator, asked: oneshot::Sender<Released>) {
        let (zone, zone_held) = (of.apex(), of.held());
        let Some(asked) = self.end_by(&by, asked) else {
            return;
        };
        let refusal = match &mut self.kept {
            None => format!("no version of {zone} is held"),
            Some(kept) if kept.waits_until.is_some() && zone_held.is_none() => {
                format!("no version of {zone} is held")
            }
            Some(kept) => match kept.faults.values().flatten().chain(&self.refused).next() {
                Some(fault) => {
                    format!(
                        "secondaries would refuse {zone}: {fault}; fix it, then it is published"
                    )
                }
                None => {
                    kept.released_by = Some(by);
                    return kept.asked.push(asked);
                }
            },
        };
        let _gone = asked.send(Err(refusal));
    }

    /// Takes a draft on top of [`Self::base`]. Gives the draft to publish now, if any.
    pub(super) fn take_in(&mut self, zone: &Zone, draft: ZoneDraft, now: Now) -> Option<ZoneDraft> {
        self.causing = None;
        let current = zone.current();
        let served = current.as_ref().map(|version| &version.contents);
        let faults = self.look_at(served, &draft.draft);
        let Some(contents) = served else {
            if self.kept.is_none() && faults.is_empty() && self.refused.is_none() {
                return Some(draft);
            }
            let empty = Contents::empty(zone.apex(), draft.draft.contents.soa().clone());
            return self.keep(&empty, zone, draft, faults, now);
        };
        let is_sound = faults.is_empty() && self.refused.is_none();
        if self.kept.is_some() || self.active_hold.is_some() || !is_sound {
            return self.keep(contents, zone, draft, faults, now);
        }
        let lost = self.losses(contents, &draft);
        let version = current.as_deref();
        self.forget_passed(now);
        if !lost.is_empty()
            && self
                .judge(version, &lost, &BTreeMap::new(), &draft.draft.contents)
                .verdict
                != Verdict::Passes
        {
            self.passing = None;
            return self.keep(contents, zone, draft, faults, now);
        }
        let changes = self.changes_of(contents, &draft.draft, now);
        if self.has_to_wait(&changes, &draft.draft, now) {
            self.passing = None;
            return self.keep(contents, zone, draft, faults, now);
        }
        self.passing = self.pass(lost, now);
        let is_due = !draft.draft.is_empty() || self.ahead.is_some();
        is_due.then(|| {
            let owned = changes.into_iter();
            let owned = owned.filter_map(|(key, share)| Some((key, share?)));
            self.causing = Some(Causing::new(owned, now));
            let mut draft = self.ahead.name(draft);
            self.name_version(&mut draft, self.notes.iter().cloned());
            draft
        })
    }

    /// The owners that a draft changes, each with its share. None where versions have no pace.
    fn changes_of(&self, served: &Contents, draft: &Draft, now: Now) -> Vec<(Key, Option<Share>)> {
        if now.burst == 0 || self.rule == ShareRule::None {
            return Vec::new();
        }
        let owners: BTreeSet<Key> = owners_of(draft).map(|(key, _)| key).collect();
        let with_share = |key: Key| {
            let (old, new) = (served.get(&key), draft.contents.get(&key));
            let share = self.rule.of_change(&key, old, new);
            (key, share)
        };
        owners.into_iter().map(with_share).collect()
    }

    /// Whether a draft has to wait, because none of its changes may cause a version now.
    fn has_to_wait(&self, changes: &[(Key, Option<Share>)], draft: &Draft, now: Now) -> bool {
        let is_due = |(key, share): &(Key, Option<Share>)| {
            self.pace.due(now.burst, key, share.as_ref(), now.at) <= now.at
        };
        !changes.is_empty()
            && !draft.soa_changed
            && !self.ahead.is_some()
            && !changes.iter().any(is_due)
    }

    /// Forgets losses that are too long ago to count together with new ones.
    fn forget_passed(&mut self, now: Now) {
        let is_together = |at: Instant| now.at.saturating_duration_since(at) < TOGETHER;
        self.passed.retain(|passed| is_together(passed.at));
    }

    /// Losses that pass with this commit, to be counted together with later ones. The served version was counted.
    fn pass(&self, lost: BTreeMap<Option<Share>, usize>, now: Now) -> Option<Passed> {
        let is_loss = !lost.is_empty();
        let losses = lost.into_iter().map(|(share, lost)| {
            let before = self.counts.of(&share);
            (share, Loss { lost, before })
        });
        is_loss.then(|| Passed {
            at: now.at,
            losses: losses.collect(),
        })
    }

    /// The losses that passed and still count, by share. Records that the share got since make up for them. The served version
    /// was counted.
    fn carried(&self) -> BTreeMap<Option<Share>, usize> {
        let mut carried: BTreeMap<Option<Share>, Loss> = BTreeMap::new();
        for (share, loss) in self.passed.iter().flat_map(|passed| &passed.losses) {
            let known = carried.entry(share.clone());
            known.or_insert(Loss { lost: 0, ..*loss }).lost += loss.lost;
        }
        let left = carried.into_iter().map(|(share, loss)| {
            let missing = loss.before.saturating_sub(self.counts.of(&share));
            (share, loss.lost.min(missing))
        });
        left.filter(|(_, lost)| *lost > 0).collect()
    }

    /// Judges a change that loses this, by share, together with what passed shortly before. `known` is what had passed when
    /// the change was first held. `next` is the content after it.
    fn judge(
        &mut self,
        served: Option<&Version>,
        lost: &BTreeMap<Option<Share>, usize>,
        known: &BTreeMap<Option<Share>, usize>,
        next: &Contents,
    ) -> Judged {
        let (Some(gate), Some(version), false) = (self.gate, served, lost.is_empty()) else {
            let (verdict, zone) = (Verdict::Passes, Loss::default());
            return Judged { verdict, zone };
        };
        self.counts.count(&self.rule, version);
        let mut carried = self.carried();
        for (share, lost) in known {
            let now = carried.entry(share.clone()).or_default();
            *now = (*now).max(*lost);
        }
        let all_carried: usize = carried.values().sum();
        let mut zone = Loss {
            lost: all_carried,
            before: version.contents.record_count() + all_carried,
        };
        let mut shares = carried;
        for (share, lost) in lost {
            zone.lost += lost;
            *shares.entry(share.clone()).or_default() += lost;
        }
        let losses = shares.into_iter().map(|(share, all)| {
            let own = lost.get(&share).copied().unwrap_or(0);
            let before = self.counts.of(&share) + all - own;
            (share, Loss { lost: all, before })
        });
        let losses = losses.collect();
        let all_lost: usize = lost.values().sum();
        // If other records came, the source is there.
        let is_emptied = next.record_count() + all_lost <= version.contents.record_count()
            && self.counts.are_all_lost(lost);
        let shares = Shares {
            count: self.counts.share_count(),
            are_emptied: is_emptied,
        };
        let verdict = match gate.judge(zone, &losses, shares) {
            Verdict::HoldsShares(mut held) => {
                // What has passed already cannot be held.
                held.retain(|share, _| lost.contains_key(&Some(share.clone())));
                match held.is_empty() {
                    true => Verdict::Passes,
                    false => Verdict::HoldsShares(held),
                }
            }
            verdict @ (Verdict::Passes | Verdict::HoldsZone) => verdict,
        };
        Judged { verdict, zone }
    }

    /// Keeps a draft, on top of the one that is kept already, unless it may be published.
    fn keep(
        &mut self,
        served: &Contents,
        zone: &Zone,
        draft: ZoneDraft,
        faults: BTreeMap<Key, Vec<Fault>>,
        now: Now,
    ) -> Option<ZoneDraft> {
        if self.kept.is_none() {
            self.forget_passed(now);
            if let Some(version) = zone.current().filter(|_| !self.passed.is_empty()) {
                self.counts.count(&self.rule, &version);
            }
            self.kept = Some(Kept::new(now, served.clone(), self.carried()));
        }
        if let Some(kept) = &mut self.kept {
            let due =
                |key: &Key, share: Option<&Share>| self.pace.due(now.burst, key, share, now.at);
            kept.absorb(served, draft, faults, &self.rule, due);
        }
        self.leave(zone, now)
    }

    /// The kept draft, if it may be published now. Also for a zone without a new draft.
    pub(super) fn leave(&mut self, zone: &Zone, now: Now) -> Option<ZoneDraft> {
        self.causing = None;
        self.end_in_time(now);
        if self.kept.is_none() && !self.ahead.is_some() {
            return None;
        }
        let current = zone.current();
        let served = current.as_ref().map(|version| &version.contents);
        if let Some(draft) = served.and_then(|served| self.roll_back(served)) {
            return Some(draft);
        }
        let leaving = self.kept.take().and_then(|mut kept| {
            let draft = self.leave_kept(zone, current.as_deref(), &mut kept, now);
            self.kept = Some(kept);
            draft
        });
        leaving.or_else(|| {
            // A signature has one serial.
            let may_repeat = |it: &&Contents| self.ahead.is_some() && !it.is_signed();
            let contents = served.filter(may_repeat)?;
            let draft = Draft::between(contents, contents.clone(), []);
            let causes = Vec::new();
            Some(self.ahead.name(ZoneDraft { draft, causes }))
        })
    }

    /// The part of a kept draft that may be published now.
    fn leave_kept(
        &mut self,
        zone: &Zone,
        version: Option<&Version>,
        kept: &mut Kept,
        now: Now,
    ) -> Option<ZoneDraft> {
        let served = version.map(|version| &version.contents);
        self.forget_passed(now);
        let judged = self.judge(version, &kept.losses(), &kept.carried, &kept.contents);
        let verdict = match self.is_on_hold() {
            true => Err(Why::OnHold {
                loses: judged.held_loss(),
            }),
            false => match &self.refused {
                Some(fault) => Err(Why::Unsound {
                    fault: fault.to_string(),
                    faults: 1,
                }),
                None => kept.decide(self.gate, &judged, now),
            },
        };
        let was_held = zone.held();
        kept.waits_until = None;
        if let (Ok(leaving), Some(served)) = (&verdict, served)
            && self.active_hold.is_none()
            && !self.ahead.is_some()
            && kept.contents.soa() == served.soa()
            && let Some(due) = kept.due(leaving).filter(|due| *due > now.at)
        {
            let held = match leaving {
                Leaving::All(_) => None,
                Leaving::Part(over) => Some(self.held_part(zone, kept, over, &judged)),
            };
            if was_held.as_deref() != held.as_ref() {
                zone.set_held(held);
            }
            kept.waits_until = Some(due);
            kept.leaves = None;
            kept.is_rest = false;
            return None;
        }
        let leaving = verdict.as_ref().ok();
        let causing = leaving.map(|leaving| {
            let owned = kept.leaving(leaving);
            let owned = owned.map(|(key, share)| (key.clone(), share.clone()));
            Causing::new(owned, now)
        });
        let draft = match verdict {
            Ok(Leaving::All(event)) => {
                let until = was_held.as_deref().and_then(|held| held.until_ms);
                let of_gate = kept.let_out(&event, until);
                if event.is_recovery() {
                    self.passing = self.pass(kept.losses(), now);
                }
                kept.leaves = Some(Leaving::All(event));
                let empty = Contents::empty(zone.apex(), kept.contents.soa().clone());
                let mut draft = kept.draft(served.unwrap_or(&empty));
                let of_order = self.active_hold.as_ref().and_then(ActiveHold::end);
                let noted = self.notes.iter().filter(|_| served.is_some()).cloned();
                let of_version = of_order.into_iter().chain(of_gate).chain(noted);
                self.name_version(&mut draft, of_version);
                let is_due = !draft.draft.is_empty() || served.is_none() || self.ahead.is_some();
                is_due.then(|| self.ahead.name(draft))
            }
            Ok(Leaving::Part(over)) => self.leave_part(zone, served?, kept, over, &judged, now),
            Err(why) => {
                self.stay(zone, kept, served, why);
                None
            }
        };
        self.causing = causing.filter(|_| draft.is_some());
        draft
    }

    /// The part of a kept draft that its held namespaces let out. `over`: namespaces whose hold is over.
    fn leave_part(
        &mut self,
        zone: &Zone,
        served: &Contents,
        kept: &mut Kept,
        over: BTreeSet<Share>,
        judged: &Judged,
        now: Now,
    ) -> Option<ZoneDraft> {
        self.passing = self.pass(kept.passing(&over), now);
        let of_gate = (!over.is_empty()).then(|| kept.name_shares(&over));
        let held = self.held_part(zone, kept, &over, judged);
        let apex = zone.apex();
        let refusal = Err(format!("{apex} is not as its sources: {}", held.why));
        answer(std::mem::take(&mut kept.asked), &refusal);
        if zone.held().as_deref() != Some(&held) {
            zone.set_held(Some(held));
        }
        let mut draft = kept.part(served, &over);
        kept.leaves = Some(Leaving::Part(over));
        let of_order = self.active_hold.as_ref().and_then(ActiveHold::end);
        let noted = of_order.into_iter().chain(self.notes.iter().cloned());
        let new: Vec<Cause> = noted.filter(|it| !kept.named[0].contains(it)).collect();
        self.name_version(&mut draft, new.iter().cloned().chain(of_gate));
        kept.named[1] = if draft.draft.is_empty() {
            Vec::new()
        } else {
            new
        };
        let is_due = !draft.draft.is_empty() || self.ahead.is_some();
        is_due.then(|| self.ahead.name(draft))
    }

    /// What the gate holds of a kept draft while the rest may leave. `over`: namespaces whose hold is over.
    fn held_part(
        &self,
        zone: &Zone,
        kept: &Kept,
        over: &BTreeSet<Share>,
        judged: &Judged,
    ) -> HeldChange {
        let held = kept.held_shares(over, self.gate, |share| {
            let subtrees = self.rule.subtrees(zone.apex(), share);
            (judged.loss_of(share), subtrees)
        });
        let since_ms = held.iter().map(|it| it.since_ms).min();
        HeldChange {
            since_ms: since_ms.unwrap_or(kept.since.ms),
            until_ms: held.iter().filter_map(|it| it.until_ms).min(),
            why: Why::SharesShrink(held),
        }
    }

    /// Nothing of a kept draft leaves.
    fn stay(&self, zone: &Zone, kept: &mut Kept, served: Option<&Contents>, why: Why) {
        kept.leaves = None;
        kept.is_rest = false;
        let refusal = Err(format!("{} stays as it is: {why}", zone.apex()));
        answer(std::mem::take(&mut kept.asked), &refusal);
        let is_on_hold = self.is_on_hold();
        let hold = self.gate.and_then(|gate| gate.hold);
        let hold = hold.filter(|_| kept.faults.is_empty());
        let since = match why {
            Why::Shrinks { .. } => kept.zone_since(),
            Why::SharesShrink(_) | Why::Unsound { .. } | Why::OnHold { .. } => kept.since,
        };
        let until_ms = match &self.active_hold {
            Some(active_hold) if is_on_hold => active_hold.hold.until_ms,
            Some(_) | None => hold.map(|hold| since.ms.saturating_add(millis_of(hold))),
        };
        let held = HeldChange {
            why,
            since_ms: since.ms,
            until_ms,
        };
        // A hold without a change holds nothing back.
        let differs = served.is_none_or(|served| kept.is_different(served));
        let held = (differs || !is_on_hold).then_some(held);
        if zone.held().as_deref() != held.as_ref() {
            zone.set_held(held);
        }
    }

    /// See [`name_version`].
    fn name_version(&self, draft: &mut ZoneDraft, causes: impl Iterator<Item = Cause>) {
        name_version(draft, causes, self.lists_are_exact);
    }

    /// The commit with this guard's draft worked. Gives each event once.
    pub(super) fn settle(&mut self, zone: &Zone) -> Vec<GateEvent> {
        if let Some(causing) = self.causing.take() {
            let owned = causing.owners.iter().map(|(key, share)| (key, share));
            self.pace.count(causing.now.burst, owned, causing.now.at);
        }
        let mut events = self.settle_gate(zone);
        self.settle_hold(zone, &mut events);
        if self.is_checked && self.kept.is_none() {
            self.notes.clear();
        }
        events
    }

    /// Gives the events of the gate.
    fn settle_gate(&mut self, zone: &Zone) -> Vec<GateEvent> {
        let is_on_hold = self.is_on_hold();
        self.ahead.settle(zone);
        self.passed.extend(self.passing.take());
        let Some(kept) = self.kept.as_mut() else {
            return Vec::new();
        };
        if kept.waits_until.is_some() {
            return Vec::new();
        }
        let event = match kept.leaves.take() {
            Some(Leaving::All(event)) => event,
            Some(Leaving::Part(over)) => return self.settle_part(zone, &over),
            None => {
                let Some(held) = zone.held().filter(|_| !is_on_hold) else {
                    return Vec::new();
                };
                let is_new = !std::mem::replace(&mut kept.is_told, true);
                kept.told = Some(Arc::clone(&held));
                let held = is_new.then(|| GateEvent::Held(HeldChange::clone(&held)));
                return held.into_iter().collect();
            }
        };
        let was_told = kept.is_told || !kept.told_shares.is_empty();
        let asked = std::mem::take(&mut kept.asked);
        if !event.is_recovery() {
            // An operator accepted the loss: it counts no longer.
            self.passed.clear();
        }
        self.kept = None;
        zone.set_held(None);
        if let Some(version) = zone.current() {
            answer(asked, &Ok(version.serial));
        }
        was_told.then_some(event).into_iter().collect()
    }

    /// A part of the kept draft was published, and the held shares stay. Gives the event of each share once.
    fn settle_part(&mut self, zone: &Zone, over: &BTreeSet<Share>) -> Vec<GateEvent> {
        let Some(kept) = self.kept.as_mut() else {
            return Vec::new();
        };
        kept.depart(over);
        kept.is_rest = true;
        kept.is_told = false;
        let named = std::mem::take(&mut kept.named[1]);
        kept.named[0].extend(named);
        for passed in &mut self.passed {
            let is_over = |share: &Share| over.contains(share);
            passed
                .losses
                .retain(|share, _| !share.as_ref().is_some_and(is_over));
        }
        let Some(held) = zone.held() else {
            return Vec::new();
        };
        let Why::SharesShrink(shares) = &held.why else {
            return Vec::new();
        };
        let now: BTreeSet<Share> = shares.iter().map(|it| it.share.clone()).collect();
        let was = std::mem::replace(&mut kept.told_shares, now);
        let told = kept.told.replace(Arc::clone(&held));
        let told = told.as_deref().map_or(&[][..], HeldChange::shares);
        let out = was.difference(&kept.told_shares).cloned();
        let mut events: Vec<GateEvent> = out
            .map(|share| GateEvent::ShareOut {
                is_expired: over.contains(&share),
                held: told.iter().find(|it| it.share == share).cloned(),
                share,
            })
            .collect();
        let new = shares.iter().filter(|it| !was.contains(&it.share));
        let new: Vec<_> = new.cloned().collect();
        if !new.is_empty() {
            let why = Why::SharesShrink(new);
            events.push(GateEvent::Held(HeldChange { why, ..*held }));
        }
        events
    }

    /// The records that a draft removes and that the gate counts, by share.
    fn losses(&self, served: &Contents, draft: &ZoneDraft) -> BTreeMap<Option<Share>, usize> {
        let mut losses = BTreeMap::new();
        let counted: Vec<bool> = draft.causes.iter().map(|group| counts(group)).collect();
        if self.gate.is_none() || !counted.contains(&true) {
            return losses;
        }
        let is_counted =
            |tag: u32| usize::try_from(tag).is_ok_and(|tag| counted.get(tag) == Some(&true));
        let draft = &draft.draft;
        let owners = owners_of(draft).filter(|(_, tag)| is_counted(*tag));
        let owners: BTreeSet<Key> = owners.map(|(key, _)| key).collect();
        for key in owners {
            let (old, new) = (served.get(&key), draft.contents.get(&key));
            let lost = lost(old, new);
            if lost > 0 {
                *losses
                    .entry(self.rule.of_change(&key, old, new))
                    .or_default() += lost;
            }
        }
        losses
    }

    /// Checks the changes of a draft, at first the whole zone. Gives the faults of each touched owner; the list is empty if
    /// there are none.
    fn look_at(&mut self, served: Option<&Contents>, draft: &Draft) -> BTreeMap<Key, Vec<Fault>> {
        let contents = &draft.contents;
        let apex = contents.apex();
        let mut faults = BTreeMap::new();
        let is_first = !std::mem::replace(&mut self.is_checked, true);
        if is_first {
            for node in contents.nodes() {
                let found = check(apex, node.key(), Some(node));
                // A fault that was published before is not held.
                if served.is_none() && !found.faults.is_empty() {
                    faults.insert(node.key().into(), found.faults);
                }
                self.warn(node.key(), found.warnings);
            }
        }
        let mut keys = BTreeSet::new();
        // A first version was checked as a whole.
        if !(is_first && served.is_none()) {
            keys.extend(owners_of(draft).map(|(key, _)| key));
        }
        // It may lack its top.
        if served.is_none() {
            keys.insert(Key::default());
        }
        for key in keys {
            let Findings {
                faults: found,
                warnings,
            } = check(apex, &key, contents.get(&key));
            if !found.is_empty()
                || self
                    .kept
                    .as_ref()
                    .is_some_and(|kept| kept.faults.contains_key(&key))
            {
                faults.insert(key.clone(), found);
            }
            self.warn(&key, warnings);
        }
        faults
    }

    fn warn(&mut self, key: &[u8], warnings: Vec<Warning>) {
        if warnings.is_empty() {
            self.differs |= self.warnings.remove(key).is_some();
            return;
        }
        let known = self.warnings.insert(key.into(), warnings.clone());
        let known = known.unwrap_or_default();
        self.differs |= known != warnings;
        let is_new = |new: &Warning| !known.iter().any(|old| old.is_about_the_same(new));
        self.news.extend(warnings.into_iter().filter(is_new));
    }

    /// The warnings if they differ from those reported last: all, and the new ones.
    pub(super) fn warnings(&mut self) -> Option<(Vec<Warning>, Vec<Warning>)> {
        std::mem::take(&mut self.differs).then(|| {
            let all = self.warnings.values().flatten().cloned().collect();
            (all, std::mem::take(&mut self.news))
        })
    }
}

/// The answer to callers that wait for a zone whose configuration changed.
fn is_changed(zone: &Zone) -> Released {
    let apex = zone.apex();
    Err(format!(
        "the configuration of {apex} changed meanwhile; look at it and try again"
    ))
}

/// Adds causes of a version, each in a group without a record, if the version differs from the one before. Causes of records
/// are not repeated. `lists_are_exact`: see [`Guard::lists_are_exact`].
pub(super) fn name_version(
    draft: &mut ZoneDraft,
    causes: impl Iterator<Item = Cause>,
    lists_are_exact: bool,
) {
    if draft.draft.is_empty() {
        return;
    }
    let causes: Vec<Cause> = causes.collect();
    let of_corefile = causes.iter().filter(|cause| cause.is_configured());
    let of_corefile: Vec<Cause> = of_corefile.cloned().collect();
    name_corefile(draft, &of_corefile, lists_are_exact);
    for cause in causes {
        if !draft.causes.iter().flatten().any(|known| *known == cause) {
            draft.causes.push(vec![cause]);
        }
    }
}

/// A duration in whole milliseconds.
fn millis_of(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

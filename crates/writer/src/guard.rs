//! Checks and gate between the renderings of a zone and its versions.
//!
//! A draft that may pass costs what it changes. One that may not is kept, and the next renderings start from it, so a
//! change while something is held costs no more. A kept draft has the new contents and the owners that differ from the
//! served version. The difference is made when the draft is published.

mod active_hold;
mod kept;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use self::active_hold::ActiveHold;
pub use self::active_hold::{HoldOrder, Restored, Target};
use self::kept::{Kept, owners_of};
use crate::ahead::Ahead;
use crate::callers::{Released, answer};
use crate::corefile_cause::name_corefile;
use crate::notes::add_note;
use crate::zone_edit::ZoneDraft;
use dns::{Name, Serial};
use provenance::Cause;
use zone::check::{Fault, Findings, Warning, check};
use zone::gate::{GateSettings, HeldChange, TOGETHER, Why, counts, lost};
use zone::hold::Hold;
use zone::{Contents, Draft, MemoryLimits, Zone};

type Key = Box<[u8]>;

/// An event of the gate or of a hold, for logs and counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateEvent {
    /// A change is held.
    Held(HeldChange),
    /// An operator released it.
    Released {
        /// The operator.
        by: Arc<str>,
    },
    /// The lost records are back, or the fault is fixed.
    Recovered,
    /// Its time is over and it is published.
    Expired,
    /// A hold began.
    OnHold(Hold),
    /// A hold ended.
    Resumed {
        /// The hold.
        hold: Hold,
        /// The operator that ended it, or the clock.
        by: Arc<str>,
    },
}

impl GateEvent {
    /// The event as a label.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Held(_) => "held",
            Self::Released { by: _ } => "released",
            Self::Recovered => "recovered",
            Self::Expired => "expired",
            Self::OnHold(hold) => hold.as_str(),
            Self::Resumed { hold: _, by: _ } => "resumed",
        }
    }
}

/// The time on both clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) at: Instant,
    /// Milliseconds since 1970 UTC.
    pub(super) ms: u64,
}

/// A loss that passed.
#[derive(Debug, Clone, Copy)]
struct Passed {
    at: Instant,
    lost: usize,
    /// The records of the zone before it.
    before: usize,
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
}

/// The guard of one zone.
#[derive(Debug, Default)]
pub(super) struct Guard {
    /// `None` holds nothing.
    pub(super) gate: Option<GateSettings>,
    kept: Option<Kept>,
    active_hold: Option<ActiveHold>,
    passed: Vec<Passed>,
    /// The loss of the draft that is being committed.
    passing: Option<Passed>,
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
}

impl Guard {
    pub(super) fn new(gate: Option<GateSettings>) -> Self {
        Self {
            gate,
            ..Self::default()
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

    /// Whether a kept draft stays after this commit.
    pub(super) fn holds(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.leaves.is_none())
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
        kept.since.at.checked_add(self.gate?.hold?)
    }

    /// Takes an operator's release of the kept draft.
    pub(super) fn release(&mut self, zone: &Name, by: &Arc<str>, asked: oneshot::Sender<Released>) {
        let Some(asked) = self.end_by(by, asked) else {
            return;
        };
        let refusal = match &mut self.kept {
            None => format!("no version of {zone} is held"),
            Some(kept) => match kept.faults.values().flatten().next() {
                Some(fault) => {
                    format!(
                        "secondaries would refuse {zone}: {fault}; fix it, then it is published"
                    )
                }
                None => {
                    kept.released_by = Some(Arc::clone(by));
                    return kept.asked.push(asked);
                }
            },
        };
        let _gone = asked.send(Err(refusal));
    }

    /// Takes a draft on top of [`Self::base`]. Gives the draft to publish now, if any.
    pub(super) fn take_in(&mut self, zone: &Zone, draft: ZoneDraft, now: Now) -> Option<ZoneDraft> {
        let current = zone.current();
        let served = current.as_ref().map(|version| &version.contents);
        let faults = self.look_at(served, &draft.draft);
        let Some(contents) = served else {
            if self.kept.is_none() && faults.is_empty() {
                return Some(draft);
            }
            let empty = Contents::empty(zone.apex(), draft.draft.contents.soa().clone());
            return self.keep(&empty, zone, draft, faults, now);
        };
        if self.kept.is_some() || self.active_hold.is_some() || !faults.is_empty() {
            return self.keep(contents, zone, draft, faults, now);
        }
        let is_together = |at: Instant| now.at.saturating_duration_since(at) < TOGETHER;
        self.passed.retain(|passed| is_together(passed.at));
        let lost = losses(contents, &draft);
        let carried = self.carried(contents);
        let before = contents.record_count() + carried;
        let stops = |gate: GateSettings| gate.stops(before, carried + lost);
        if lost > 0 && self.gate.is_some_and(stops) {
            self.passing = None;
            return self.keep(contents, zone, draft, faults, now);
        }
        self.passing = (lost > 0).then(|| Passed {
            at: now.at,
            lost,
            before: contents.record_count(),
        });
        let is_due = !draft.draft.is_empty() || self.ahead.is_some();
        is_due.then(|| {
            let mut draft = self.ahead.name(draft);
            name_version(&mut draft, self.notes.iter().cloned());
            draft
        })
    }

    /// The losses that passed and still count. Records that were added since make up for them.
    fn carried(&self, served: &Contents) -> usize {
        let lost: usize = self.passed.iter().map(|passed| passed.lost).sum();
        let before = self.passed.first().map_or(0, |passed| passed.before);
        lost.min(before.saturating_sub(served.record_count()))
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
        let carried = self.carried(served);
        let kept = self
            .kept
            .get_or_insert_with(|| Kept::new(now, served.clone(), carried));
        kept.absorb(served, draft, faults);
        self.leave(zone, now)
    }

    /// The kept draft, if it may be published now. Also for a zone without a new draft.
    pub(super) fn leave(&mut self, zone: &Zone, now: Now) -> Option<ZoneDraft> {
        self.end_in_time(now);
        if self.kept.is_none() && !self.ahead.is_some() {
            return None;
        }
        let current = zone.current();
        let served = current.as_ref().map(|version| &version.contents);
        if let Some(draft) = served.and_then(|served| self.roll_back(served)) {
            return Some(draft);
        }
        let is_on_hold = self.is_on_hold();
        let ahead = &self.ahead;
        let again = |contents: &Contents| {
            let draft = Draft::between(contents, contents.clone(), []);
            let causes = Vec::new();
            ahead.name(ZoneDraft { draft, causes })
        };
        let Some(kept) = &mut self.kept else {
            return served.filter(|_| ahead.is_some()).map(again);
        };
        let before = served.map_or(0, Contents::record_count) + kept.carried;
        let was_held = zone.held();
        let verdict = match is_on_hold {
            true => Err(Why::OnHold {
                loses: kept.stopped(self.gate, before),
            }),
            false => kept.why_not(self.gate, before, now),
        };
        match verdict {
            Ok(event) => {
                let until = was_held.as_deref().and_then(|held| held.until_ms);
                let of_gate = kept.let_out(&event, until);
                let of_order = self.active_hold.as_ref().and_then(ActiveHold::end);
                kept.leaves = Some(event);
                let empty = Contents::empty(zone.apex(), kept.contents.soa().clone());
                let mut draft = kept.draft(served.unwrap_or(&empty));
                let noted = self.notes.iter().filter(|_| served.is_some()).cloned();
                let of_version = of_order.into_iter().chain(of_gate).chain(noted);
                name_version(&mut draft, of_version);
                let is_due = !draft.draft.is_empty() || served.is_none() || ahead.is_some();
                is_due.then(|| ahead.name(draft))
            }
            Err(why) => {
                kept.leaves = None;
                let refusal = Err(format!("{} stays as it is: {why}", zone.apex()));
                answer(std::mem::take(&mut kept.asked), &refusal);
                let hold = self.gate.and_then(|gate| gate.hold);
                let hold = hold.filter(|_| kept.faults.is_empty());
                let until_ms = match &self.active_hold {
                    Some(active_hold) if is_on_hold => active_hold.hold.until_ms,
                    Some(_) | None => {
                        hold.map(|hold| kept.since.ms.saturating_add(millis_of(hold)))
                    }
                };
                let held = HeldChange {
                    why,
                    since_ms: kept.since.ms,
                    until_ms,
                };
                // A hold without a change holds nothing back.
                let differs = served.is_none_or(|served| kept.is_different(served));
                let held = (differs || !is_on_hold).then_some(held);
                if was_held.as_deref() != held.as_ref() {
                    zone.set_held(held);
                }
                served.filter(|_| ahead.is_some()).map(again)
            }
        }
    }

    /// The commit with this guard's draft worked. Gives each event once.
    pub(super) fn settle(&mut self, zone: &Zone) -> Vec<GateEvent> {
        let mut events = Vec::new();
        events.extend(self.settle_gate(zone));
        self.settle_hold(zone, &mut events);
        if self.is_checked && self.kept.is_none() {
            self.notes.clear();
        }
        events
    }

    /// Gives the event of the gate.
    fn settle_gate(&mut self, zone: &Zone) -> Option<GateEvent> {
        let is_on_hold = self.is_on_hold();
        self.ahead.settle(zone);
        self.passed.extend(self.passing.take());
        let kept = self.kept.as_mut()?;
        let Some(event) = kept.leaves.take() else {
            let held = zone.held().filter(|_| !is_on_hold)?;
            let is_new = !kept.is_told;
            kept.is_told = true;
            return is_new.then(|| GateEvent::Held(HeldChange::clone(&held)));
        };
        let was_told = kept.is_told;
        let asked = std::mem::take(&mut kept.asked);
        if event != GateEvent::Recovered {
            // An operator accepted the loss: it counts no longer.
            self.passed.clear();
        }
        self.kept = None;
        zone.set_held(None);
        if let Some(version) = zone.current() {
            answer(asked, &Ok(version.serial));
        }
        was_told.then_some(event)
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

/// The number of records that a draft removes and that the gate counts.
fn losses(served: &Contents, draft: &ZoneDraft) -> usize {
    let counted: Vec<bool> = draft.causes.iter().map(|group| counts(group)).collect();
    if !counted.contains(&true) {
        return 0;
    }
    let is_counted =
        |tag: u32| usize::try_from(tag).is_ok_and(|tag| counted.get(tag) == Some(&true));
    let draft = &draft.draft;
    let owners: BTreeMap<Key, u32> = owners_of(draft)
        .filter(|(_, tag)| is_counted(*tag))
        .collect();
    owners
        .keys()
        .map(|key| lost(served.get(key), draft.contents.get(key)))
        .sum()
}

/// Adds causes of a version, each in a group without a record, if the version differs from the one before. Causes of records
/// are not repeated.
pub(super) fn name_version(draft: &mut ZoneDraft, causes: impl Iterator<Item = Cause>) {
    if draft.draft.is_empty() {
        return;
    }
    let causes: Vec<Cause> = causes.collect();
    let of_corefile = causes.iter().filter(|cause| cause.is_configured());
    name_corefile(draft, &of_corefile.cloned().collect::<Vec<_>>());
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

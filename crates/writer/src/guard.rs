//! What stands between the renderings of a zone and its versions: the checks and the gate.
//!
//! A draft that may pass costs what it changes. One that may not is kept aside, and renderings go on on top of
//! it: so a change while something is held costs what the change costs, too. Kept are the contents to be
//! and which owners differ from the version that is served; the difference is made when it leaves.

mod active_hold;
mod kept;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use self::active_hold::ActiveHold;
pub use self::active_hold::{HoldOrder, Restored, Target};
use self::kept::{Kept, owners_of};
use crate::notes::add_note;
use crate::zone_edit::ZoneDraft;
use dns::{Name, Serial};
use provenance::{Cause, ObjectKey, Origin, Verb};
use zone::check::{Fault, Findings, Warning, check};
use zone::gate::{GateSettings, HeldChange, TOGETHER, Why, counts, lost};
use zone::hold::Hold;
use zone::{Contents, Draft, MemoryLimits, Zone};

type Key = Box<[u8]>;

/// What became of a request to let a held change out: the serial it has, or why it stays.
pub type Released = Result<Serial, String>;

/// What the gate did, for logs and counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateEvent {
    /// A change is held from now on.
    Held(HeldChange),
    /// It was let out by hand.
    Released {
        /// Who did.
        by: Arc<str>,
    },
    /// What was missing is back, or what was wrong is mended.
    Recovered,
    /// Nobody came: it is published.
    Expired,
    /// An operator's order holds from now on.
    OnHold(Hold),
    /// It is over.
    Resumed {
        /// The order.
        hold: Hold,
        /// Who ended it.
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

/// The time, as interval and as date.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) at: Instant,
    /// Milliseconds since 1970 UTC.
    pub(super) ms: u64,
}

/// A loss that was let through.
#[derive(Debug, Clone, Copy)]
struct Passed {
    at: Instant,
    /// The records that were lost.
    lost: usize,
    /// The records of the zone before.
    before: usize,
}

/// A draft that may become a version.
pub(super) struct Ready {
    pub(super) zone: Arc<Zone>,
    /// How much history its versions carry in memory.
    pub(super) limits: MemoryLimits,
    pub(super) draft: ZoneDraft,
    /// A serial that the version's should not be before.
    pub(super) wanted: Option<Serial>,
    /// A serial that the version's has to be above.
    pub(super) ahead: Option<Serial>,
}

/// The guard of one zone.
#[derive(Debug, Default)]
pub(super) struct Guard {
    /// What is held; `None` for nothing.
    pub(super) gate: Option<GateSettings>,
    kept: Option<Kept>,
    active_hold: Option<ActiveHold>,
    passed: Vec<Passed>,
    /// The loss of the draft that is being committed; `None` when it has none.
    passing: Option<Passed>,
    /// What some secondaries refuse, by owner.
    warnings: BTreeMap<Key, Vec<Warning>>,
    /// The warnings that nobody heard yet.
    news: Vec<Warning>,
    /// Whether the warnings differ from those last told.
    differs: bool,
    /// Whether the whole zone was looked at in this run.
    is_checked: bool,
    /// Causes of the next version that differs, beside those of its records: until it is out, or until what was
    /// rendered differs in nothing from what is served.
    pub(super) notes: Vec<Cause>,
    /// A serial that others have and the next has to be above; `None` when none is ahead.
    pub(super) ahead: Option<Serial>,
}

impl Guard {
    /// A guard with this gate.
    pub(super) fn new(gate: Option<GateSettings>) -> Self {
        Self {
            gate,
            ..Self::default()
        }
    }

    /// Begins again with the objects of another source: what is held was of the old one, apart from what an operator's rollback
    /// leads back to. Notes wait for the first rendering.
    pub(super) fn restart(&mut self, zone: &Zone) {
        self.is_checked = false;
        self.passed.clear();
        self.passing = None;
        if !self.has_rollback() {
            self.kept = None;
            zone.set_held(None);
        }
    }

    /// The zone is gone, or is followed no more. True when an operator's order ends with that.
    pub(super) fn dismiss(&mut self, zone: &Zone) -> bool {
        zone.set_held(None);
        zone.set_hold(None);
        self.standing().is_some()
    }

    /// The contents that a rendering starts from, where they are not the served version's.
    pub(super) fn base(&self) -> Option<&Contents> {
        self.kept.as_ref().map(|kept| &kept.contents)
    }

    /// Whether something is kept aside that does not leave with this commit.
    pub(super) fn holds(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.leaves.is_none())
    }

    /// The next version that differs has this cause, too; a first version needs none.
    pub(super) fn note(&mut self, cause: Cause) {
        add_note(&mut self.notes, cause);
    }

    /// When something that is kept aside leaves by itself.
    pub(super) fn deadline(&self, now: Now) -> Option<Instant> {
        if let Some(hold) = self.standing() {
            let left = Duration::from_millis(hold.until_ms?.saturating_sub(now.ms));
            return now.at.checked_add(left);
        }
        let kept = self.kept.as_ref().filter(|kept| kept.faults.is_empty())?;
        kept.since.at.checked_add(self.gate?.hold?)
    }

    /// Someone wants what is held to leave; whether there is something.
    pub(super) fn release(&mut self, zone: &Name, by: &Arc<str>, asked: oneshot::Sender<Released>) {
        let Some(asked) = self.unpin(by, asked) else {
            return;
        };
        let refusal = match &mut self.kept {
            None => format!("nothing of {zone} is held"),
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
        // Who asked may be gone.
        let _gone = asked.send(Err(refusal));
    }

    /// Takes in a draft on top of [`Self::base`]; gives what is to be published now, if anything is.
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
            let mut draft = with_cause(draft);
            name_version(&mut draft, self.notes.iter().cloned());
            draft
        })
    }

    /// The losses that passed and still count: what came in their place since then makes up for them.
    fn carried(&self, served: &Contents) -> usize {
        let lost: usize = self.passed.iter().map(|passed| passed.lost).sum();
        let before = self.passed.first().map_or(0, |passed| passed.before);
        lost.min(before.saturating_sub(served.record_count()))
    }

    /// Keeps a draft aside, on top of what is kept already, unless it may leave.
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

    /// What is kept aside, if it may leave now; for a zone without a new draft, too.
    pub(super) fn leave(&mut self, zone: &Zone, now: Now) -> Option<ZoneDraft> {
        self.end_in_time(now);
        if self.kept.is_none() && self.ahead.is_none() {
            return None;
        }
        let current = zone.current();
        let served = current.as_ref().map(|version| &version.contents);
        if let Some(draft) = served.and_then(|served| self.roll_back(served)) {
            return Some(draft);
        }
        let is_on_hold = self.is_on_hold();
        let again = |contents: &Contents| {
            let draft = Draft::between(contents, contents.clone(), []);
            with_cause(ZoneDraft {
                draft,
                causes: Vec::new(),
            })
        };
        let Some(kept) = &mut self.kept else {
            return served.filter(|_| self.ahead.is_some()).map(again);
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
                let is_due = !draft.draft.is_empty() || served.is_none() || self.ahead.is_some();
                is_due.then(|| with_cause(draft))
            }
            Err(why) => {
                kept.leaves = None;
                for asked in kept.asked.drain(..) {
                    // Who asked may be gone.
                    let _gone = asked.send(Err(format!("{} stays as it is: {why}", zone.apex())));
                }
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
                // An order alone holds nothing.
                let differs = served.is_none_or(|served| kept.is_different(served));
                let held = (differs || !is_on_hold).then_some(held);
                if was_held.as_deref() != held.as_ref() {
                    zone.set_held(held);
                }
                served.filter(|_| self.ahead.is_some()).map(again)
            }
        }
    }

    /// The commit that held what this guard gave out worked. Tells what came of it, once.
    pub(super) fn settle(&mut self, zone: &Zone) -> Vec<GateEvent> {
        let mut events = Vec::new();
        events.extend(self.settle_gate(zone));
        self.settle_hold(zone, &mut events);
        if self.is_checked && self.kept.is_none() {
            self.notes.clear();
        }
        events
    }

    /// Tells what the gate did.
    fn settle_gate(&mut self, zone: &Zone) -> Option<GateEvent> {
        let is_on_hold = self.is_on_hold();
        if let Some(version) = zone.current() {
            let is_above = |other: &Serial| version.serial.is_after(*other);
            if self.ahead.as_ref().is_some_and(is_above) {
                self.ahead = None;
            }
        }
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
            // What was let out was looked at: it is the new measure.
            self.passed.clear();
        }
        self.kept = None;
        zone.set_held(None);
        if let Some(version) = zone.current() {
            for asked in asked {
                // Who asked may be gone.
                let _gone = asked.send(Ok(version.serial));
            }
        }
        was_told.then_some(event)
    }

    /// Checks what a draft changes, and at first the whole zone; gives what is wrong at the owners it
    /// touches, an empty list where all is well.
    fn look_at(&mut self, served: Option<&Contents>, draft: &Draft) -> BTreeMap<Key, Vec<Fault>> {
        let contents = &draft.contents;
        let apex = contents.apex();
        let mut faults = BTreeMap::new();
        let is_first = !std::mem::replace(&mut self.is_checked, true);
        if is_first {
            for node in contents.nodes() {
                let found = check(apex, node.key(), Some(node));
                // What was published before stays so.
                if served.is_none() && !found.faults.is_empty() {
                    faults.insert(node.key().into(), found.faults);
                }
                self.warn(node.key(), found.warnings);
            }
        }
        let mut keys = BTreeSet::new();
        // All that a first version has was looked at above.
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

    /// Notes the warnings of an owner.
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

    /// The warnings, if they differ from those told last: all, and those that are new.
    pub(super) fn warnings(&mut self) -> Option<(Vec<Warning>, Vec<Warning>)> {
        std::mem::take(&mut self.differs).then(|| {
            let all = self.warnings.values().flatten().cloned().collect();
            (all, std::mem::take(&mut self.news))
        })
    }
}

/// The records that a draft takes away in a way that counts.
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

/// A draft, where nothing differs with the cause of a version nonetheless: others have a later serial.
pub(super) fn with_cause(mut draft: ZoneDraft) -> ZoneDraft {
    if draft.draft.is_empty() {
        draft.causes = vec![vec![Cause {
            verb: Verb::Restored,
            kind: None,
            key: ObjectKey::new("", "the secondaries"),
            origin: Origin::default(),
        }]];
    }
    draft
}

/// Adds causes of a version, each in a group that no record names, where it differs from the one before. What records
/// name already is not said twice.
pub(super) fn name_version(draft: &mut ZoneDraft, causes: impl Iterator<Item = Cause>) {
    if draft.draft.is_empty() {
        return;
    }
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

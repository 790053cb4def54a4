//! An operator's hold in the guard: the zone waits, or goes back to an old content, until the hold ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ops::TimeText;
use provenance::{Cause, Operator};
use tokio::sync::oneshot;
use zone::gate::Why;
use zone::hold::{Hold, Rollback, draft_to, resumed};
use zone::{Contents, Hash, Step, Version, Zone};

use super::{CLOCK, GateEvent, Guard, Kept, Key, Now};
use crate::callers::{Released, answer};
use crate::zone_edit::ZoneDraft;

/// The content of a rollback.
#[derive(Debug)]
pub struct Target {
    /// The old content.
    pub contents: Contents,
    /// The owners at which it differs from the version with the number `seen`.
    pub owners: BTreeSet<Key>,
    /// The number of a version that is or was served.
    pub seen: u64,
}

/// A hold and its progress.
#[derive(Debug)]
pub(super) struct ActiveHold {
    pub(super) hold: Hold,
    /// To be served with the next commit. `None` for a freeze, and after that commit.
    target: Option<Target>,
    /// The operator that ended it. The hold is over with the next commit.
    ended_by: Option<Operator>,
    /// Callers that wait for the next commit.
    pub(super) asked: Vec<oneshot::Sender<Released>>,
    is_told: bool,
}

/// A hold from before this run.
#[derive(Debug)]
pub struct Restored {
    /// The hold.
    pub hold: Hold,
    /// The content, if it is not served yet.
    pub target: Option<Target>,
    /// If the old content is served already: the content from the sources, and the owners that differ.
    pub base: Option<(Contents, BTreeSet<Key>)>,
}

impl ActiveHold {
    /// Its end as a cause of the next version; `None` while it holds. Records that changed during a rollback have causes of
    /// their own.
    pub(super) fn end(&self) -> Option<Cause> {
        let by = self.ended_by.as_ref()?;
        if let Some(rollback) = &self.hold.rollback {
            // The old content was never served.
            return self.is_told.then(|| rollback.end(by));
        }
        let Hold {
            since_ms,
            by: ordered_by,
            ..
        } = &self.hold;
        let since = TimeText(*since_ms);
        let what = format!("the freeze of {ordered_by} since {since}");
        Some(resumed(&what, by))
    }
}

impl Guard {
    /// Whether a hold is in force after this commit.
    pub(crate) fn is_on_hold(&self) -> bool {
        let active_hold = self.active_hold.as_ref();
        active_hold.is_some_and(|active_hold| active_hold.ended_by.is_none())
    }

    /// Whether there is a rollback.
    pub(crate) fn has_rollback(&self) -> bool {
        self.standing().is_some_and(|hold| hold.rollback.is_some())
    }

    /// Whether a hold ends with this commit.
    pub(crate) fn ends(&self) -> bool {
        self.active_hold.is_some() && !self.is_on_hold()
    }

    /// Begins a hold. The caller is answered after the next commit.
    pub(crate) fn hold(
        &mut self,
        zone: &Zone,
        hold: Hold,
        target: Option<Target>,
        asked: oneshot::Sender<Released>,
        now: Now,
    ) {
        zone.set_hold(Some(hold.clone()));
        if target.is_some()
            && let Some(version) = zone.current()
        {
            // The content from the sources is kept beside the served one.
            let kept = || Kept::new(now, version.contents.clone(), BTreeMap::new());
            self.kept.get_or_insert_with(kept);
        }
        let (mut waiting, mut target) = (Vec::new(), target);
        if let Some(old) = self.active_hold.take() {
            waiting = old.asked;
            // A freeze over a rollback that is not served yet keeps its content.
            if old.hold.rollback == hold.rollback {
                target = target.or(old.target);
            }
        }
        waiting.push(asked);
        self.active_hold = Some(ActiveHold {
            hold,
            target,
            ended_by: None,
            asked: waiting,
            is_told: false,
        });
    }

    /// Continues a hold from before this run.
    pub(crate) fn restore(&mut self, zone: &Zone, restored: Restored, now: Now) {
        let Restored { hold, target, base } = restored;
        zone.set_hold(Some(hold.clone()));
        if let (Some(rollback), Some(version)) = (hold.rollback, zone.current()) {
            let served = &version.contents;
            let (contents, owners) = base.unwrap_or_else(|| (served.clone(), BTreeSet::new()));
            let mut kept = Kept::new(now, contents, BTreeMap::new());
            kept.rebase(served, &owners, &rollback.end(CLOCK), &self.rule);
            self.kept = Some(kept);
        }
        self.active_hold = Some(ActiveHold {
            hold,
            target,
            ended_by: None,
            asked: Vec::new(),
            is_told: true,
        });
    }

    /// The current hold.
    pub(crate) fn standing(&self) -> Option<&Hold> {
        self.active_hold
            .as_ref()
            .map(|active_hold| &active_hold.hold)
    }

    /// Ends the hold. Gives the sender back if there is none.
    pub(super) fn end_by(
        &mut self,
        by: &Operator,
        asked: oneshot::Sender<Released>,
    ) -> Option<oneshot::Sender<Released>> {
        let Some(active_hold) = &mut self.active_hold else {
            return Some(asked);
        };
        active_hold.ended_by = Some(by.clone());
        active_hold.asked.push(asked);
        None
    }

    /// Ends a hold whose time is over. The time of the gate starts then.
    pub(super) fn end_in_time(&mut self, now: Now) {
        let Some(active_hold) = &mut self.active_hold else {
            return;
        };
        if active_hold.hold.is_over(now.ms) {
            active_hold.ended_by.get_or_insert_with(|| CLOCK.into());
        }
        let Some(by) = &active_hold.ended_by else {
            return;
        };
        active_hold.target = None;
        if let Some(kept) = &mut self.kept {
            kept.restart_time(now);
            if let Some(rollback) = &active_hold.hold.rollback {
                kept.name_end(&rollback.end(by));
            }
        }
    }

    /// The draft of a rollback, if it is due.
    pub(super) fn roll_back(&self, served: &Contents) -> Option<ZoneDraft> {
        let active_hold = self.active_hold.as_ref()?;
        let (target, rollback) = (active_hold.target.as_ref()?, active_hold.hold.rollback?);
        let draft = draft_to(served, &target.contents, &target.owners);
        let is_due = !draft.is_empty() || self.ahead.is_some();
        is_due.then(|| {
            let causes = Vec::new();
            let mut draft = self.ahead.name(ZoneDraft { draft, causes });
            // The records of the draft name the first group.
            let cause = rollback.cause(&active_hold.hold);
            draft.causes.insert(0, vec![cause]);
            draft
        })
    }

    /// The commit worked: gives each event of the hold once, and answers callers.
    pub(super) fn settle_hold(&mut self, zone: &Zone, events: &mut Vec<GateEvent>) {
        let (Some(active_hold), Some(version)) = (&mut self.active_hold, zone.current()) else {
            return;
        };
        if let (Some(target), Some(kept), Some(rollback)) = (
            active_hold.target.take(),
            &mut self.kept,
            active_hold.hold.rollback,
        ) {
            let clock = CLOCK.into();
            let end = rollback.end(active_hold.ended_by.as_ref().unwrap_or(&clock));
            kept.rebase(&version.contents, &target.owners, &end, &self.rule);
        }
        if !active_hold.is_told {
            active_hold.is_told = true;
            events.push(GateEvent::OnHold(active_hold.hold.clone()));
        }
        let mut result = Ok(version.serial);
        // A change that the gate still holds names the hold when it is published.
        let end = active_hold.end().filter(|_| self.kept.is_some());
        if let Some(by) = active_hold.ended_by.take() {
            if let Some(end) = end {
                self.note(end);
            }
            let ActiveHold { hold, asked, .. } =
                self.active_hold.take().expect("it was there a moment ago");
            zone.set_hold(None);
            if let Some(held) = zone.held() {
                let apex = zone.apex();
                let why = &held.why;
                let again = match why {
                    Why::Shrinks { .. } | Why::SharesShrink(_) => {
                        format!("; to publish it: zonewright release {apex}")
                    }
                    Why::Unsound { .. } | Why::OnHold { .. } => String::new(),
                };
                result = Err(format!(
                    "{apex} follows its sources again, but its version is held: {why}{again}"
                ));
            }
            events.push(GateEvent::Resumed { hold, by });
            answer(asked, &result);
        } else {
            answer(std::mem::take(&mut active_hold.asked), &result);
        }
    }
}

impl Target {
    /// Adds the owners that changed since the version `seen`. False if its steps are gone.
    pub(crate) fn catch_up(&mut self, version: &Version) -> bool {
        let is_new = |step: &&Arc<Step>| step.seq > self.seen;
        let steps: Vec<_> = version.history.iter().filter(is_new).cloned().collect();
        if steps.len() as u64 != version.seq - self.seen {
            return false;
        }
        for step in steps {
            let touched = step.touched(version.contents.apex());
            self.owners.extend(touched.map(Vec::into_boxed_slice));
        }
        self.seen = version.seq;
        true
    }
}

/// An operator's request for a hold.
#[derive(Debug)]
pub struct HoldOrder {
    /// The end, milliseconds since 1970 UTC. `None`: until it is released.
    pub until_ms: Option<u64>,
    /// The operator.
    pub by: Operator,
    /// For a rollback.
    pub rollback: Option<(Rollback, Target)>,
}

impl HoldOrder {
    /// The hold and its content, in the place of another; `found` is the served content.
    pub(crate) fn resolve(
        self,
        standing: Option<&Hold>,
        found: Hash,
        now: Now,
    ) -> (Hold, Option<Target>) {
        let Self {
            until_ms,
            by,
            rollback,
        } = self;
        let before = standing.and_then(|hold| hold.rollback);
        let (rollback, target) = match rollback {
            // A freeze of a zone that is rolled back extends the rollback.
            None => (before, None),
            Some((rollback, target)) => {
                let before = before.map_or(rollback.before, |it| it.before);
                (Some(Rollback { before, ..rollback }), Some(target))
            }
        };
        let hold = Hold {
            since_ms: now.ms,
            until_ms,
            by,
            rollback,
            found: Some(found),
        };
        (hold, target)
    }
}

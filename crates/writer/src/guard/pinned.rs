//! An operator's order in the guard: the zone waits, or goes back to an old content, until that is over.

use std::collections::BTreeSet;
use std::sync::Arc;

use ops::TimeText;
use provenance::Cause;
use tokio::sync::oneshot;
use zone::gate::Why;
use zone::pin::{Pin, Rollback, draft_to, resumed};
use zone::{Contents, Hash, Step, Version, Zone};

use super::{GateEvent, Guard, Kept, Key, Now, Released, with_cause};
use crate::zone_edit::ZoneDraft;

/// Who ends an order whose time is over.
const CLOCK: &str = "the clock";

/// An old content that is to be served.
#[derive(Debug)]
pub struct Target {
    /// The content.
    pub contents: Contents,
    /// The owners at which it differs from the version with the number `seen`.
    pub owners: BTreeSet<Key>,
    /// The number of a version that is or was served.
    pub seen: u64,
}

/// An order and how far it came.
#[derive(Debug)]
pub(super) struct Pinned {
    pub(super) pin: Pin,
    /// What is to be served with the next commit; `None` once it is, or where nothing is.
    target: Option<Target>,
    /// Who ended it: it is over with the next commit.
    ended_by: Option<Arc<str>>,
    /// Who waits for what the order does next.
    asked: Vec<oneshot::Sender<Released>>,
    is_told: bool,
}

/// An order that was made before this run.
#[derive(Debug)]
pub struct Restored {
    /// The order.
    pub pin: Pin,
    /// What is still to be served of it.
    pub target: Option<Target>,
    /// Where the old content is served already: what the sources led to, and where the two differ.
    pub base: Option<(Contents, BTreeSet<Key>)>,
}

impl Pinned {
    /// How it ended, as a cause of the version that follows it; `None` while it holds. Of a rollback records may say it
    /// themselves, and not all do: those that changed meanwhile name what changed them.
    pub(super) fn end(&self) -> Option<Cause> {
        let by = self.ended_by.as_deref()?;
        if let Some(rollback) = &self.pin.rollback {
            // One that was never served leads to nothing.
            return self.is_told.then(|| rollback.end(by));
        }
        let Pin {
            since_ms,
            by: ordered_by,
            ..
        } = &self.pin;
        let since = TimeText(*since_ms);
        let what = format!("the freeze of {ordered_by} since {since}");
        Some(resumed(&what, by))
    }
}

impl Guard {
    /// Whether an order holds and goes on to.
    pub(crate) fn is_pinned(&self) -> bool {
        let pinned = self.pinned.as_ref();
        pinned.is_some_and(|pinned| pinned.ended_by.is_none())
    }

    /// Whether an order is over with this commit.
    pub(crate) fn unpins(&self) -> bool {
        self.pinned.is_some() && !self.is_pinned()
    }

    /// Takes an order in. Whoever asked hears of it when it is carried out.
    pub(crate) fn pin(
        &mut self,
        zone: &Zone,
        pin: Pin,
        target: Option<Target>,
        asked: oneshot::Sender<Released>,
        now: Now,
    ) {
        zone.set_pin(Some(pin.clone()));
        if target.is_some()
            && let Some(version) = zone.current()
        {
            // What the sources lead to, from here on beside what is served.
            let kept = || Kept::new(now, version.contents.clone(), 0);
            self.kept.get_or_insert_with(kept);
        }
        let (mut waiting, mut target) = (Vec::new(), target);
        if let Some(old) = self.pinned.take() {
            waiting = old.asked;
            // A freeze over a rollback that is not served yet: that is still to be.
            if old.pin.rollback == pin.rollback {
                target = target.or(old.target);
            }
        }
        waiting.push(asked);
        self.pinned = Some(Pinned {
            pin,
            target,
            ended_by: None,
            asked: waiting,
            is_told: false,
        });
    }

    /// Goes on with an order from before this run.
    pub(crate) fn restore(&mut self, zone: &Zone, restored: Restored, now: Now) {
        let Restored { pin, target, base } = restored;
        zone.set_pin(Some(pin.clone()));
        if let (Some(rollback), Some(version)) = (pin.rollback, zone.current()) {
            let served = &version.contents;
            let (contents, owners) = base.unwrap_or_else(|| (served.clone(), BTreeSet::new()));
            let mut kept = Kept::new(now, contents, 0);
            kept.rebase(served, &owners, &rollback.end(CLOCK));
            self.kept = Some(kept);
        }
        self.pinned = Some(Pinned {
            pin,
            target,
            ended_by: None,
            asked: Vec::new(),
            is_told: true,
        });
    }

    /// The order that stands, to put another in its place.
    pub(crate) fn standing(&self) -> Option<&Pin> {
        self.pinned.as_ref().map(|pinned| &pinned.pin)
    }

    /// Someone ends the order; gives the sender back where there is none.
    pub(super) fn unpin(
        &mut self,
        by: &Arc<str>,
        asked: oneshot::Sender<Released>,
    ) -> Option<oneshot::Sender<Released>> {
        let Some(pinned) = &mut self.pinned else {
            return Some(asked);
        };
        pinned.ended_by = Some(Arc::clone(by));
        pinned.asked.push(asked);
        None
    }

    /// Ends an order whose time is over. From here on the gate counts how long it holds something.
    pub(super) fn end_in_time(&mut self, now: Now) {
        let Some(pinned) = &mut self.pinned else {
            return;
        };
        if pinned.pin.is_over(now.ms) {
            pinned.ended_by.get_or_insert_with(|| CLOCK.into());
        }
        let Some(by) = &pinned.ended_by else { return };
        pinned.target = None;
        if let Some(kept) = &mut self.kept {
            kept.since = now;
            if let Some(rollback) = &pinned.pin.rollback {
                kept.name_end(&rollback.end(by));
            }
        }
    }

    /// The old content, if it is to be served with this commit.
    pub(super) fn roll_back(&self, served: &Contents) -> Option<ZoneDraft> {
        let pinned = self.pinned.as_ref()?;
        let (target, rollback) = (pinned.target.as_ref()?, pinned.pin.rollback?);
        let draft = draft_to(served, &target.contents, &target.owners);
        let causes = vec![vec![rollback.cause(&pinned.pin)]];
        (!draft.is_empty() || self.ahead.is_some()).then(|| with_cause(ZoneDraft { draft, causes }))
    }

    /// The commit worked: what the order did is told, once, and who asked hears of it.
    pub(super) fn settle_pin(&mut self, zone: &Zone, events: &mut Vec<GateEvent>) {
        let (Some(pinned), Some(version)) = (&mut self.pinned, zone.current()) else {
            return;
        };
        if let (Some(target), Some(kept), Some(rollback)) =
            (pinned.target.take(), &mut self.kept, pinned.pin.rollback)
        {
            let end = rollback.end(pinned.ended_by.as_deref().unwrap_or(CLOCK));
            kept.rebase(&version.contents, &target.owners, &end);
        }
        if !pinned.is_told {
            pinned.is_told = true;
            events.push(GateEvent::Pinned(pinned.pin.clone()));
        }
        let mut answer = Ok(version.serial);
        // What waits on, for the gate or a fault, is told of the order when it leaves.
        let end = pinned.end().filter(|_| self.kept.is_some());
        if let Some(by) = pinned.ended_by.take() {
            if let Some(end) = end {
                self.note(end);
            }
            let Pinned { pin, asked, .. } = self.pinned.take().expect("it was there a moment ago");
            zone.set_pin(None);
            if let Some(held) = zone.held() {
                let apex = zone.apex();
                let why = &held.why;
                let again = match why {
                    Why::Shrinks { .. } => format!("; to publish it: zonewright release {apex}"),
                    Why::Unsound { .. } | Why::Pinned { .. } => String::new(),
                };
                answer = Err(format!(
                    "{apex} follows its sources again, but waits: {why}{again}"
                ));
            }
            events.push(GateEvent::Resumed { pin, by });
            tell(asked, &answer);
        } else {
            tell(std::mem::take(&mut pinned.asked), &answer);
        }
    }
}

fn tell(asked: Vec<oneshot::Sender<Released>>, answer: &Released) {
    for asked in asked {
        // Who asked may be gone.
        let _gone = asked.send(answer.clone());
    }
}

impl Target {
    /// Adds the owners that changed since the version that was seen; false when that is not known any more.
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

/// What an operator orders.
#[derive(Debug)]
pub struct PinOrder {
    /// Until when, milliseconds since 1970 UTC; `None`: until it is released.
    pub until_ms: Option<u64>,
    /// Who orders it.
    pub by: Arc<str>,
    /// The old content and what it was, for a rollback.
    pub rollback: Option<(Rollback, Target)>,
}

impl PinOrder {
    /// The order and its content, over one that stands, where this content is served.
    pub(crate) fn resolve(
        self,
        standing: Option<&Pin>,
        found: Hash,
        now: Now,
    ) -> (Pin, Option<Target>) {
        let Self {
            until_ms,
            by,
            rollback,
        } = self;
        let before = standing.and_then(|pin| pin.rollback);
        let (rollback, target) = match rollback {
            // A freeze of a zone that was rolled back makes that longer.
            None => (before, None),
            Some((rollback, target)) => {
                let before = before.map_or(rollback.before, |it| it.before);
                (Some(Rollback { before, ..rollback }), Some(target))
            }
        };
        let pin = Pin {
            since_ms: now.ms,
            until_ms,
            by,
            rollback,
            found: Some(found),
        };
        (pin, target)
    }
}

//! Holds of operators on their way to the guards: stored first, then carried out.

use std::sync::Arc;

use dns::Name;
use ops::millis;
use tokio::sync::oneshot;
use zone::Zone;
use zone::hold::Hold;

use crate::callers::Released;
use crate::guard::{Guard, HoldOrder, Now, Restored, Target};
use crate::{Pipeline, Store};

impl<S: Store> Pipeline<S> {
    pub(super) fn now(&self) -> Now {
        Now {
            at: self.clock.now(),
            ms: millis(self.clock.wall()),
            burst: self.batch.burst,
        }
    }

    /// Continues holds from before this run. Those of the zones in `over` are forgotten with the first commit.
    #[must_use]
    pub fn with_holds(mut self, restored: Vec<(Name, Restored)>, over: Vec<Name>) -> Self {
        self.over.extend(over.into_iter().map(|apex| (apex, false)));
        let now = self.now();
        for (apex, restored) in restored {
            if let Some((zone, guard)) = self.guard_of(&apex) {
                guard.restore(zone, restored, now);
            }
        }
        self
    }

    /// Takes a hold. The next commit carries it out.
    pub(super) fn hold(&mut self, apex: &Name, order: HoldOrder, asked: oneshot::Sender<Released>) {
        let answer = self.try_hold(apex, order);
        let now = self.now();
        match (answer, self.guard_of(apex)) {
            (Ok((hold, target)), Some((zone, guard))) => guard.hold(zone, hold, target, asked, now),
            (Ok(_), None) => drop(asked.send(Err(not_guarded(apex)))),
            (Err(why), _) => drop(asked.send(Err(why))),
        }
    }

    /// Makes a hold durable, or gives the reason for a refusal.
    fn try_hold(
        &mut self,
        apex: &Name,
        mut order: HoldOrder,
    ) -> Result<(Hold, Option<Target>), String> {
        let now = self.now();
        let (zone, guard) = self.guard_of(apex).ok_or_else(|| not_guarded(apex))?;
        let version = zone
            .current()
            .ok_or_else(|| format!("{apex} has no version yet"))?;
        if let Some((rollback, target)) = &mut order.rollback {
            if version.contents.is_signed() || target.contents.is_signed() {
                return Err(format!(
                    "{apex} is signed, and a signature has one serial: put the old file in its place, signed with a serial \
                     after {}",
                    version.serial
                ));
            }
            if !target.catch_up(&version) {
                return Err(format!("{apex} changed too much meanwhile; try again"));
            }
            rollback.from = version.serial;
            rollback.before = version.serial;
        }
        let (hold, target) = order.resolve(guard.standing(), version.content_hash(), now);
        if hold.is_over(now.ms) {
            return Err("that time is already over".to_owned());
        }
        self.store
            .save_hold(apex, Some(&hold))
            .map_err(|error| format!("the hold cannot be stored: {error}"))?;
        // An older entry is overwritten.
        self.over.remove(apex);
        Ok((hold, target))
    }

    /// A zone with its guard.
    pub(super) fn guard_of(&mut self, apex: &Name) -> Option<(&Arc<Zone>, &mut Guard)> {
        self.guarded().find(|(zone, _)| zone.apex() == apex)
    }

    /// Forgets holds that end with this commit, and those that could not be forgotten before. False if the store failed; the
    /// next commit tries again.
    pub(super) fn forget_holds(&mut self) -> bool {
        let over: Vec<Name> = self
            .guarded()
            .filter(|(_, guard)| guard.ends())
            .map(|(zone, _)| zone.apex().clone())
            .collect();
        for apex in over {
            self.over.entry(apex).or_default();
        }
        let (store, observer) = (&mut self.store, &self.observer);
        self.over
            .retain(|apex, is_said| match store.save_hold(apex, None) {
                Ok(()) => false,
                Err(error) => {
                    if !std::mem::replace(is_said, true) {
                        observer.not_forgotten(apex, &error.to_string());
                    }
                    true
                }
            });
        self.over.is_empty()
    }
}

/// The refusal for a name that is no zone of a cluster or a file.
pub(super) fn not_guarded(apex: &Name) -> String {
    format!("{apex} is not a zone of a cluster or a file")
}

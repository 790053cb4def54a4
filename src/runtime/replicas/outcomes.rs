//! What became of the versions that the writer proposed.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dns::{Name, Serial};
use replica_disk::commits::Outcome;
use zone::Journaled;

/// The versions that the writer waits for, and the way to it.
#[derive(Debug)]
pub(crate) struct Outcomes {
    /// Locked for one change, so that a version is either the writer's to publish or not.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// `None` once nothing is decided any more.
    sender: Option<Sender<Outcome>>,
    awaited: BTreeMap<Name, Serial>,
}

impl Outcomes {
    /// Nothing is awaited.
    pub(crate) fn new() -> (Arc<Self>, Receiver<Outcome>) {
        let (sender, outcomes) = channel();
        let state = Mutex::new(State {
            sender: Some(sender),
            awaited: BTreeMap::new(),
        });
        (Arc::new(Self { state }), outcomes)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The writer waits for a version from now on.
    pub(crate) fn expect(&self, zone: Name, serial: Serial) {
        self.state().awaited.insert(zone, serial);
    }

    /// A version is announced. Gives it back if the writer does not wait for it.
    pub(crate) fn shown(&self, version: Box<Journaled>) -> Option<Box<Journaled>> {
        let mut state = self.state();
        let serial = version.version().serial;
        if state.awaited.get(version.apex()) != Some(&serial) {
            return Some(version);
        }
        state.awaited.remove(version.apex());
        state.tell(Outcome::Shown(version));
        None
    }

    /// A version was declined.
    pub(crate) fn declined(&self, zone: &Name) {
        let mut state = self.state();
        if state.awaited.remove(zone).is_some() {
            state.tell(Outcome::Declined(zone.clone()));
        }
    }

    /// This replica leads no more.
    pub(crate) fn stopped(&self) {
        let mut state = self.state();
        if !std::mem::take(&mut state.awaited).is_empty() {
            state.tell(Outcome::Stopped);
        }
    }

    /// The replica has ended: nothing is decided any more.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.awaited.clear();
        state.sender = None;
    }
}

impl State {
    fn tell(&self, outcome: Outcome) {
        if let Some(sender) = &self.sender {
            // A writer that has ended waits for nothing.
            sender.send(outcome).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use dns::testing::name;

    use super::*;

    #[test]
    fn a_stop_ends_a_wait_and_is_not_left_for_the_next_one() {
        let (outcomes, told) = Outcomes::new();
        let zone = name("a.");
        outcomes.stopped();
        outcomes.declined(&zone);
        assert!(told.try_recv().is_err());
        outcomes.expect(zone.clone(), Serial::decode(1));
        outcomes.stopped();
        assert!(matches!(told.try_recv(), Ok(Outcome::Stopped)));
        outcomes.expect(zone.clone(), Serial::decode(2));
        outcomes.declined(&zone);
        assert!(matches!(told.try_recv(), Ok(Outcome::Declined(it)) if it == zone));
        outcomes.close();
        // The writer does not wait for ever.
        assert!(told.recv().is_err());
    }
}

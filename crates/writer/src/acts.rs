//! Acts of people and of the clock as entries of the history, also where no version follows.

use std::collections::VecDeque;

use dns::{Name, Serial};
use provenance::Operator;
use zone::Zone;
use zone::hold::Hold;
use zone::journal::Act;

use crate::guard::{CLOCK, GateEvent};
use crate::{Pipeline, Store};

/// So many acts may wait for a store that refuses them; the earliest go first.
const WAITING_MOST: usize = 256;

/// Acts that are not stored yet.
#[derive(Debug, Default)]
pub(super) struct WaitingActs {
    acts: VecDeque<(Name, Act)>,
    /// Whether it was reported that the store refuses them.
    is_said: bool,
}

impl WaitingActs {
    /// Adds the act behind an event, if it is one.
    pub(super) fn add(&mut self, zone: &Zone, event: &GateEvent, now_ms: u64) {
        let serial = zone.current().map(|version| version.serial);
        if let Some(act) = act_of(event, serial, now_ms) {
            if self.acts.len() == WAITING_MOST {
                self.acts.pop_front();
            }
            self.acts.push_back((zone.apex().clone(), act));
        }
    }
}

impl<S: Store> Pipeline<S> {
    /// Stores the acts that wait for it. False if the store refuses one; it is tried again.
    pub(super) fn note_acts(&mut self) -> bool {
        while let Some((zone, act)) = self.acts.acts.front() {
            if let Err(error) = self.store.note_act(zone, act) {
                if !std::mem::replace(&mut self.acts.is_said, true) {
                    let what = format!("{} of {zone}", act.what);
                    self.observer.not_noted(&what, &error.to_string());
                }
                return false;
            }
            self.acts.acts.pop_front();
            self.acts.is_said = false;
        }
        true
    }
}

/// The act behind an event of a guard; `None` for what the gate holds and lets out by itself.
fn act_of(event: &GateEvent, serial: Option<Serial>, now_ms: u64) -> Option<Act> {
    let (by, about): (Operator, String) = match event {
        GateEvent::OnHold(hold) => return Some(act_of_hold(hold, serial, now_ms)),
        GateEvent::Resumed { hold, by } => (by.clone(), standing_text(hold)),
        GateEvent::Released { by } => (by.clone(), String::new()),
        GateEvent::Expired => (CLOCK.into(), "for all that was held".to_owned()),
        GateEvent::ShareOut {
            share,
            is_expired: true,
        } => (CLOCK.into(), format!("for what was held of {share}")),
        GateEvent::Held(_)
        | GateEvent::Recovered
        | GateEvent::ShareOut {
            share: _,
            is_expired: false,
        } => return None,
    };
    Some(Act {
        number: 0,
        time_ms: now_ms,
        what: event.as_str().to_owned(),
        by,
        about,
        serial: serial.map_or(0, Serial::encode),
        until_ms: None,
    })
}

/// The act of an operator that holds a zone.
#[must_use]
pub fn act_of_hold(hold: &Hold, serial: Option<Serial>, time_ms: u64) -> Act {
    let to = hold.rollback.map(|it| format!("to serial {}", it.to));
    Act {
        number: 0,
        time_ms,
        what: hold.as_str().to_owned(),
        by: hold.by.clone(),
        about: to.unwrap_or_default(),
        serial: serial.map_or(0, Serial::encode),
        until_ms: hold.until_ms,
    }
}

/// After what the zone follows its sources again, and whose that was.
fn standing_text(hold: &Hold) -> String {
    let by = &hold.by;
    match hold.rollback {
        None => format!("after the freeze by {by}"),
        Some(rollback) => format!("after the rollback to serial {} by {by}", rollback.to),
    }
}

//! Acts of people, the clock, the gate and the Corefile as entries of the history, also where no version follows.

use std::collections::VecDeque;

use dns::{Name, Serial};
use ops::TimeText;
use provenance::Operator;
use zone::gate::{HeldChange, HeldShare, Why};
use zone::hold::Hold;
use zone::journal::{Act, KeptCorefile};
use zone::{Zone, ZoneSet};

use crate::guard::{CLOCK, GateEvent};
use crate::{Pipeline, Store};

/// So many acts may wait for a store that refuses them; the earliest go first.
const WAITING_MOST: usize = 4096;

/// How the Corefile is called where its digest is not known.
pub(super) const THE_COREFILE: &str = "the Corefile";
/// The Corefile is another.
const CONFIGURED: &str = "configured";
/// The Corefile has the zone no more.
const REMOVED: &str = "removed";
/// The Corefile has the zone again.
const RETURNED: &str = "returned";
/// Versions were lost, and the one that is served is the first after them.
const LOST: &str = "lost";

/// What was done and is not stored yet.
#[derive(Debug, Default)]
pub(super) struct Unnoted {
    acts: VecDeque<(Name, Act)>,
    /// The Corefile in use.
    pub(super) corefile: Option<KeptCorefile>,
    /// Whether it was reported that the store refuses it.
    is_said: bool,
}

impl Unnoted {
    /// Adds the act behind an event, if it is one.
    pub(super) fn add(&mut self, zone: &Zone, event: &GateEvent, now_ms: u64) {
        if let Some(act) = act_of(event) {
            self.push(zone, act, now_ms);
        }
    }

    /// Adds a change of the Corefile for all zones that have a version.
    pub(super) fn add_reload(&mut self, zones: &ZoneSet, change: &str, by: &Operator, now_ms: u64) {
        for zone in zones.all() {
            let act = NewAct::of(CONFIGURED, format!("from {change}"), by.clone());
            self.push(zone, act, now_ms);
        }
    }

    /// Adds that a change of the Corefile removed zones that have a version, or brought them back.
    /// `change` names the Corefile and who had it read.
    pub(super) fn add_presence(
        &mut self,
        (old, new): (&ZoneSet, &ZoneSet),
        change: &(String, Operator),
        now_ms: u64,
    ) {
        for (these, others, is_here) in [(old, new, false), (new, old, true)] {
            for zone in these.all() {
                if others.get(zone.apex()).is_none() {
                    self.push(zone, presence(is_here, "", change.clone()), now_ms);
                }
            }
        }
    }

    /// Adds that a zone's version is the first one after some that were lost, or may be.
    pub(super) fn add_loss(&mut self, zone: &Zone, what: &str, now_ms: u64) {
        self.push(zone, loss(what), now_ms);
    }

    /// Adds an act, if the zone has a version.
    fn push(&mut self, zone: &Zone, act: NewAct, now_ms: u64) {
        let Some(version) = zone.current() else {
            return;
        };
        if self.acts.len() == WAITING_MOST {
            self.acts.pop_front();
        }
        let act = act.done((version.serial, version.seq), now_ms.max(version.time_ms));
        self.acts.push_back((zone.apex().clone(), act));
    }
}

/// The act of a version with this serial and number that is the first one after some that were lost, or may be.
#[must_use]
pub fn loss_before(version: (Serial, u64), what: &str, time_ms: u64) -> Act {
    loss(what).done(version, time_ms)
}

fn loss(what: &str) -> NewAct {
    NewAct::of(LOST, what.to_owned(), Operator::default())
}

impl<S: Store> Pipeline<S> {
    /// Stores what waits for it. False if the store refuses it; it is tried again.
    pub(super) fn note(&mut self) -> bool {
        let Unnoted {
            acts,
            corefile,
            is_said,
        } = &mut self.unnoted;
        let first = acts.front().map(|(zone, act)| (&act.what, zone));
        let what = match (first, &corefile) {
            (None, None) => return true,
            (_, Some(_)) => "the Corefile".to_owned(),
            (Some((what, zone)), None) => format!("{what} of {zone}"),
        };
        match self.store.note(corefile.as_ref(), acts.make_contiguous()) {
            Ok(()) => {
                self.unnoted = Unnoted::default();
                true
            }
            Err(error) => {
                if !std::mem::replace(is_said, true) {
                    self.observer.not_noted(&what, &error.to_string());
                }
                false
            }
        }
    }
}

/// An act whose time and serial are not known yet.
struct NewAct {
    what: &'static str,
    about: String,
    by: Operator,
    until_ms: Option<u64>,
}

impl NewAct {
    const fn of(what: &'static str, about: String, by: Operator) -> Self {
        Self {
            what,
            about,
            by,
            until_ms: None,
        }
    }

    /// With the serial and the number of the version that is served after it.
    fn done(self, (serial, seq): (Serial, u64), time_ms: u64) -> Act {
        let Self {
            what,
            about,
            by,
            until_ms,
        } = self;
        Act {
            number: 0,
            time_ms,
            what: what.to_owned(),
            by,
            about,
            serial: serial.encode(),
            seq: Some(seq),
            until_ms,
        }
    }
}

/// The act behind an event of a guard; `None` where the gate begins to hold something.
fn act_of(event: &GateEvent) -> Option<NewAct> {
    let (by, about) = match event {
        GateEvent::OnHold(hold) => return Some(act_of_new_hold(hold)),
        GateEvent::Resumed { hold, by } => (by.clone(), standing_text(hold)),
        GateEvent::Released { by } => (by.clone(), String::new()),
        GateEvent::Expired => (CLOCK.into(), "for all that was held".to_owned()),
        GateEvent::ShareOut {
            share,
            held: _,
            is_expired: true,
        } => (CLOCK.into(), format!("for what was held of {share}")),
        GateEvent::Recovered { held, lost } => {
            (Operator::default(), recovery_text(held.as_deref(), *lost))
        }
        GateEvent::ShareOut {
            share,
            held,
            is_expired: false,
        } => {
            let since = held.as_ref().map(|HeldShare { loss, since_ms, .. }| {
                let (lost, before) = (loss.lost, loss.before);
                let since = TimeText(*since_ms);
                format!(" since {since} (it would lose {lost} of {before} records)")
            });
            let since = since.unwrap_or_default();
            let about =
                format!("by itself: the gate held {share}{since}, and now it would lose too few");
            (Operator::default(), about)
        }
        GateEvent::Held(_) => return None,
    };
    Some(NewAct::of(event.as_str(), about, by))
}

/// Why the gate holds a zone no more, though nobody released it. `lost`: the records that the zone would lose now.
fn recovery_text(held: Option<&HeldChange>, lost: usize) -> String {
    let Some(HeldChange { why, since_ms, .. }) = held else {
        return "by itself".to_owned();
    };
    let now = match (why, lost) {
        (Why::Unsound { .. }, _) => "the fault is fixed".to_owned(),
        (Why::Shrinks { .. } | Why::SharesShrink(_) | Why::OnHold { .. }, 0) => {
            "now it would lose none".to_owned()
        }
        (Why::Shrinks { .. } | Why::SharesShrink(_) | Why::OnHold { .. }, lost) => {
            format!("now it would lose {lost}, which is too few")
        }
    };
    let since = TimeText(*since_ms);
    format!("by itself: the gate held it since {since} ({why}), and {now}")
}

/// The act of an operator that holds a zone.
#[must_use]
pub fn act_of_hold(hold: &Hold, served: (Serial, u64), time_ms: u64) -> Act {
    act_of_new_hold(hold).done(served, time_ms)
}

fn act_of_new_hold(hold: &Hold) -> NewAct {
    let to = hold.rollback.map(|it| format!("to serial {}", it.to));
    NewAct {
        until_ms: hold.until_ms,
        ..NewAct::of(hold.as_str(), to.unwrap_or_default(), hold.by.clone())
    }
}

/// The act for a zone that the Corefile has since a start (`is_here`), or has not. `last`: the last act of the zone for which
/// [`tells_presence`] is true. `None` if that has not changed.
#[must_use]
pub fn act_of_start(
    is_here: bool,
    last: Option<&Act>,
    served: (Serial, u64),
    time_ms: u64,
) -> Option<Act> {
    let was_here = last.is_none_or(|act| act.what != REMOVED);
    let change = (THE_COREFILE.to_owned(), Operator::default());
    let act = || presence(is_here, ", as found at a start", change).done(served, time_ms);
    (is_here != was_here).then(act)
}

/// Whether an act tells whether the Corefile had its zone.
#[must_use]
pub fn tells_presence(act: &Act) -> bool {
    [CONFIGURED, REMOVED, RETURNED].contains(&&*act.what)
}

fn presence(is_here: bool, found: &str, (corefile, by): (String, Operator)) -> NewAct {
    let (what, word) = match is_here {
        true => (RETURNED, "to"),
        false => (REMOVED, "from"),
    };
    NewAct::of(what, format!("{word} {corefile}{found}"), by)
}

/// After what the zone follows its sources again, and whose that was.
fn standing_text(hold: &Hold) -> String {
    let by = &hold.by;
    match hold.rollback {
        None => format!("after the freeze by {by}"),
        Some(rollback) => format!("after the rollback to serial {} by {by}", rollback.to),
    }
}

//! What makes a version doubtful as the answer to a time: it stands beside the answer.

use dns::{Name, Serial};
use serde_json::{Value, json};
use zone::journal::{Act, Lost, SerialPlace};

use crate::error::AuditError;
use crate::moment::TimeText;
use crate::past::Past;
use crate::set_back::SetBack;

/// The words of acts, as the writer writes them.
pub(super) const LOST: &str = "lost";
const REMOVED: &str = "removed";
const RETURNED: &str = "returned";

/// What is to be said of the version that answers a time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Doubts {
    set_back: Option<SetBack>,
    /// Which versions after it may be lost.
    lost: Option<String>,
    /// The server did not have the zone then.
    absence: Option<Absence>,
    /// An older version with the serial that was asked for.
    twice: Option<Twice>,
}

/// An older version with the serial of a later one: its serial, and its time in milliseconds since 1970 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Twice {
    serial: Serial,
    time_ms: u64,
}

/// A time in which the server did not have a zone, milliseconds since 1970 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Absence {
    pub(super) from_ms: u64,
    /// `None` if it does not have it yet.
    pub(super) to_ms: Option<u64>,
    /// The version that was served before.
    pub(super) seq: Option<u64>,
}

impl Doubts {
    /// About the version that was current at a time; `is_now` if the present was asked for in words, which is no matter of clocks.
    /// A running server has no doubts about the present: what it serves is current.
    pub(super) fn of_time(
        past: &dyn Past,
        zone: &Name,
        seq: u64,
        (time_ms, is_now): (u64, bool),
    ) -> Result<Self, AuditError> {
        let set_back = match is_now {
            true => None,
            false => SetBack::find(past, zone, seq, time_ms)?,
        };
        let acts = past.acts(zone, 0)?.all;
        let is_certain = is_now && past.is_running();
        let lost = (!is_certain).then(|| lost_after(past, zone, seq, &acts));
        Ok(Self {
            set_back,
            lost: lost.flatten(),
            absence: Absence::all(&acts).find(|absence| absence.has(time_ms)),
            twice: None,
        })
    }

    /// About the version that is the newest one with its serial: an older one had it, too, if the serial was moved around the
    /// circle (RFC 1982).
    pub(super) fn of_serial(past: &dyn Past, zone: &Name, seq: u64) -> Result<Self, AuditError> {
        let (serial, _) = past.moment(zone, seq)?;
        let is_kept = past.range(zone).is_some_and(|(oldest, _)| oldest < seq);
        let place = is_kept.then(|| past.place_of(zone, serial, seq - 1));
        let older = match place.transpose()? {
            Some(SerialPlace::At(older)) => Some(older),
            Some(SerialPlace::Between(_) | SerialPlace::After | SerialPlace::Before) | None => {
                let archived = past.archived(zone);
                let older = archived.iter().filter(|entry| entry.seq < seq);
                let mut older = older.filter(|entry| entry.serial == serial);
                older.next_back().map(|entry| entry.seq)
            }
        };
        let moment = older.map(|older| past.moment(zone, older)).transpose()?;
        Ok(Self {
            twice: moment.map(|(serial, time_ms)| Twice { serial, time_ms }),
            ..Self::default()
        })
    }

    /// Whether they name this time in which the server did not have the zone.
    pub(super) fn name(&self, absence: &Absence) -> bool {
        self.absence.as_ref() == Some(absence)
    }

    /// For people, a line each, without a comment's sign.
    pub(super) fn lines(&self) -> Vec<String> {
        let set_back = self.set_back.as_ref().map(SetBack::text);
        let absence = self.absence.map(|Absence { from_ms, to_ms, .. }| {
            let from = TimeText(from_ms);
            match to_ms.map(TimeText) {
                Some(to) => format!(
                    "from {from} to {to} the server did not have the zone, so this was not served"
                ),
                None => {
                    format!("since {from} the server does not have the zone: this is not served")
                }
            }
        });
        let lost = self
            .lost
            .as_ref()
            .map(|what| format!("one of them may have been current then: {what}"));
        let twice = self.twice.map(|Twice { serial, time_ms }| {
            let time = TimeText(time_ms);
            format!(
                "an older version had serial {serial}, too: that of {time}; ask for it by its time"
            )
        });
        [set_back, absence, lost, twice]
            .into_iter()
            .flatten()
            .collect()
    }

    /// Adds them to an answer in JSON; the names of the fields begin with `of`.
    pub(super) fn add_to(&self, answer: &mut Value, of: &str) {
        let field = |name: &str| match of {
            "" => name.to_owned(),
            of => {
                let (first, rest) = name.split_at(1);
                format!("{of}{}{rest}", first.to_uppercase())
            }
        };
        if let Some(set_back) = &self.set_back {
            answer[field("clockSetBack")] = set_back.json();
        }
        if let Some(Absence { from_ms, to_ms, .. }) = self.absence {
            answer[field("notServed")] = json!({
                "from": TimeText(from_ms).to_string(),
                "fromMs": from_ms,
                "to": to_ms.map(|to_ms| TimeText(to_ms).to_string()),
                "toMs": to_ms,
            });
        }
        if let Some(lost) = &self.lost {
            answer[field("mayBeLost")] = lost.clone().into();
        }
        if let Some(Twice { serial: _, time_ms }) = self.twice {
            answer[field("alsoHadSerial")] = json!({
                "time": TimeText(time_ms).to_string(),
                "timeMs": time_ms,
            });
        }
    }
}

impl Absence {
    /// All of them, oldest first. The serving begins and ends with these acts.
    pub(super) fn all(acts: &[Act]) -> impl Iterator<Item = Self> {
        let is_of_serving = |act: &&Act| [REMOVED, RETURNED].contains(&&*act.what);
        let mut acts = acts.iter().filter(is_of_serving).peekable();
        std::iter::from_fn(move || {
            let removed = acts.find(|act| act.what == REMOVED)?;
            let returned = acts.peek().filter(|act| act.what == RETURNED);
            Some(Self {
                from_ms: removed.time_ms,
                to_ms: returned.map(|act| act.time_ms),
                seq: removed.seq,
            })
        })
    }

    /// Whether a time is in it.
    fn has(&self, time_ms: u64) -> bool {
        self.from_ms <= time_ms && self.to_ms.is_none_or(|to_ms| time_ms < to_ms)
    }
}

/// Which versions between this one and the next may be lost.
pub(super) fn lost_after(past: &dyn Past, zone: &Name, seq: u64, acts: &[Act]) -> Option<String> {
    let is_newest = past.range(zone).is_some_and(|(_, newest)| newest == seq);
    if is_newest && let Some(what) = past.doubt(zone) {
        return Some(what);
    }
    let next = acts
        .iter()
        .find(|act| act.what == LOST && act.seq == Some(seq + 1));
    // The act may be lost, too, or be of an older release; the version says it for good.
    let told = || {
        past.step(zone, seq + 1)
            .ok()
            .and_then(|step| Lost::before(&step))
    };
    next.map(|act| act.about.clone()).or_else(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use provenance::Operator;

    fn act(number: u64, what: &str) -> Act {
        Act {
            number,
            time_ms: 10 * number,
            what: what.to_owned(),
            by: Operator::default(),
            about: String::new(),
            serial: 1,
            seq: Some(1),
            until_ms: None,
        }
    }

    #[test]
    fn a_zone_is_absent_from_its_removal_to_its_return() {
        let acts = [
            act(1, REMOVED),
            act(2, "frozen"),
            act(3, RETURNED),
            act(4, REMOVED),
        ];
        let at = |time_ms| {
            let absence = Absence::all(&acts).find(|it| it.has(time_ms));
            absence.map(|it| (it.from_ms, it.to_ms))
        };
        for served in [0, 9, 30, 39] {
            assert_eq!(at(served), None, "{served}");
        }
        for absent in [10, 20, 29] {
            assert_eq!(at(absent), Some((10, Some(30))), "{absent}");
        }
        assert_eq!(at(99), Some((40, None)));
        assert_eq!(Absence::all(&acts[1..3]).next(), None);
    }
}

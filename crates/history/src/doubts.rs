//! What makes a version doubtful as the answer to a time: it stands beside the answer.

use dns::Name;
use serde_json::{Value, json};
use zone::journal::{Act, Lost};

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
}

/// A time in which the server did not have a zone, milliseconds since 1970 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Absence {
    from_ms: u64,
    /// `None` if it does not have it yet.
    to_ms: Option<u64>,
}

impl Doubts {
    /// About the version that was current at a time; `is_now` if the present was asked for in words, which is no matter of clocks.
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
        Ok(Self {
            set_back,
            lost: (!is_now)
                .then(|| lost_after(past, zone, seq, &acts))
                .flatten(),
            absence: Absence::at(&acts, time_ms),
        })
    }

    /// For people, a line each, without a comment's sign.
    pub(super) fn lines(&self) -> Vec<String> {
        let set_back = self.set_back.as_ref().map(SetBack::text);
        let absence = self.absence.map(|Absence { from_ms, to_ms }| {
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
        [set_back, absence, lost].into_iter().flatten().collect()
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
        if let Some(Absence { from_ms, to_ms }) = self.absence {
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
    }
}

impl Absence {
    /// The one that a time is in. The serving begins and ends with these acts.
    fn at(acts: &[Act], time_ms: u64) -> Option<Self> {
        let mut all = acts
            .iter()
            .filter(|act| [REMOVED, RETURNED].contains(&&*act.what));
        let next = all.clone().position(|act| act.time_ms > time_ms);
        let last = match next {
            Some(0) => None,
            Some(next) => all.nth(next - 1),
            None => all.next_back(),
        };
        let last = last.filter(|act| act.what == REMOVED)?;
        let returned = acts
            .iter()
            .find(|act| act.what == RETURNED && act.number > last.number);
        Some(Self {
            from_ms: last.time_ms,
            to_ms: returned.map(|act| act.time_ms),
        })
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
        let at = |time_ms| Absence::at(&acts, time_ms).map(|it| (it.from_ms, it.to_ms));
        for served in [0, 9, 30, 39] {
            assert_eq!(at(served), None, "{served}");
        }
        for absent in [10, 20, 29] {
            assert_eq!(at(absent), Some((10, Some(30))), "{absent}");
        }
        assert_eq!(at(99), Some((40, None)));
        assert_eq!(Absence::at(&acts[1..3], 15), None);
    }
}

//! The publish gate decides whether a change removes so much of a zone that a person should look at it first.
//!
//! Only losses through a list, a reload or a restart count: an API server with an empty store, half a cluster missing
//! from a list, a folder emptied by a broken mount. An object whose deletion we watched was deleted on purpose. A
//! record replaced by another of the same owner and type is not lost.

use std::time::Duration;

use provenance::{Cause, Verb};

use crate::Node;

/// Losses within this time are added up, because the kinds of a cluster are listed one after the other.
pub const TOGETHER: Duration = Duration::from_secs(60);

/// The settings of the publish gate: it holds a change that loses more than `shrink_percent` of the records and at
/// least `at_least` of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GateSettings {
    /// The gate holds a change only if it loses more than this percentage of the records,
    pub shrink_percent: u8,
    /// and at least this many records.
    pub at_least: usize,
    /// The longest time that a change is held; `None`: until an operator releases it.
    pub hold: Option<Duration>,
}

impl GateSettings {
    /// The settings when the configuration has none.
    pub const DEFAULT: Self = Self {
        shrink_percent: 30,
        at_least: 50,
        hold: Some(Duration::from_secs(3600)),
    };

    /// Whether the gate holds a change that loses `lost` of `before` records.
    #[must_use]
    pub const fn stops(&self, before: usize, lost: usize) -> bool {
        let shares = before.saturating_mul(self.shrink_percent as usize);
        lost > 0 && lost >= self.at_least && lost.saturating_mul(100) > shares
    }
}

/// The reason why a version is not published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// It loses too many records.
    Shrinks {
        /// The records that it loses.
        lost: usize,
        /// The records there were.
        before: usize,
    },
    /// Secondaries would refuse it.
    Unsound {
        /// The first fault.
        fault: String,
        /// The number of faults.
        faults: usize,
    },
    /// An operator froze the zone or rolled it back.
    OnHold {
        /// The loss that the gate would hold without the operator's hold: lost records and records before.
        loses: Option<(usize, usize)>,
    },
}

impl Why {
    /// Lost records and records before, if the gate holds the change for its loss, or would without an operator's
    /// hold.
    #[must_use]
    pub const fn loses(&self) -> Option<(usize, usize)> {
        match self {
            Self::Shrinks { lost, before } => Some((*lost, *before)),
            Self::Unsound { .. } => None,
            Self::OnHold { loses } => *loses,
        }
    }
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Shrinks { lost, before } => {
                write!(f, "it would lose {lost} of {before} records")
            }
            Self::Unsound { fault, faults: 1 } => write!(f, "secondaries would refuse it: {fault}"),
            Self::Unsound { fault, faults } => {
                let more = faults - 1;
                write!(f, "secondaries would refuse it: {fault} ({more} more)")
            }
            Self::OnHold { loses: None } => f.write_str("an operator holds the zone"),
            Self::OnHold {
                loses: Some((lost, before)),
            } => write!(
                f,
                "an operator holds the zone, and it would lose {lost} of {before} records"
            ),
        }
    }
}

/// A change that is held back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldChange {
    /// Why.
    pub why: Why,
    /// The time when it was first held, milliseconds since 1970 UTC.
    pub since_ms: u64,
    /// The time when it is published at the latest, milliseconds since 1970 UTC; `None`: when an operator releases it
    /// or its fault is fixed.
    pub until_ms: Option<u64>,
}

/// Whether a loss with these causes counts: a list, a reload or a restart took part in it, and we watched no
/// deletion.
#[must_use]
pub fn counts(causes: &[Cause]) -> bool {
    // Only objects from manifests have a place. Each reading of a folder is a reload.
    let is_reread = |cause: &Cause| cause.kind.is_some() && !cause.origin.place.is_empty();
    let unseen = |cause: &Cause| match cause.verb {
        Verb::Listed | Verb::Vanished | Verb::Configured => true,
        Verb::Applied | Verb::Deleted => is_reread(cause),
        Verb::Restored | Verb::RolledBack | Verb::Resumed => false,
    };
    let on_purpose =
        |cause: &Cause| cause.verb == Verb::Deleted && cause.kind.is_some() && !is_reread(cause);
    causes.iter().any(unseen) && !causes.iter().any(on_purpose)
}

/// The number of records that an owner loses, summed over the types that get fewer records.
#[must_use]
pub fn lost(before: Option<&Node>, after: Option<&Node>) -> usize {
    let rrsets = before.into_iter().flat_map(Node::rrsets);
    let less = rrsets.map(|rrset| {
        let left = after.and_then(|node| node.rrset(rrset.rtype));
        rrset
            .count
            .saturating_sub(left.map_or(0, |left| left.count))
    });
    less.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dns::{Name, Rdata, Rtype, Ttl};
    use provenance::{Kind, ObjectKey, Origin};

    /// A cause; of a manifest when it has a place.
    fn cause(verb: Verb, place: &str) -> Cause {
        Cause {
            verb,
            kind: Some(Kind::Service),
            key: ObjectKey::new("a", "s"),
            origin: Origin {
                place: place.into(),
                ..Origin::default()
            },
        }
    }

    #[test]
    fn a_change_is_stopped_above_the_share_and_from_the_number_on() {
        let gate = GateSettings::DEFAULT;
        for (before, lost, stops) in [
            (1000, 301, true),
            (1000, 300, false),
            (100, 50, true),
            (100, 49, false),
            (50, 50, true),
            (0, 0, false),
            (usize::MAX, usize::MAX, false),
        ] {
            assert_eq!(gate.stops(before, lost), stops, "{lost} of {before}");
        }
        let any = GateSettings {
            shrink_percent: 0,
            at_least: 1,
            hold: None,
        };
        assert!(any.stops(1000, 1) && !any.stops(1000, 0));
        let none = GateSettings {
            shrink_percent: 100,
            ..any
        };
        assert!(!none.stops(1000, 1000));
    }

    #[test]
    fn what_is_deleted_before_our_eyes_never_counts() {
        use Verb::{Applied, Configured, Deleted, Listed, Restored, Vanished};
        for (causes, want) in [
            (vec![cause(Deleted, "")], false),
            (vec![cause(Applied, "")], false),
            (vec![cause(Vanished, "")], true),
            (vec![cause(Listed, "")], true),
            (vec![cause(Configured, "")], true),
            (vec![cause(Restored, "")], false),
            // The objects of a deleted namespace are then missing from a list.
            (vec![cause(Deleted, ""), cause(Vanished, "")], false),
            (vec![cause(Applied, ""), cause(Vanished, "")], true),
            (vec![cause(Deleted, "a.yaml:1")], true),
            (vec![cause(Applied, "a.yaml:1")], true),
            (Vec::new(), false),
        ] {
            assert_eq!(counts(&causes), want, "{causes:?}");
        }
        // A line taken out of a zone file is meant.
        let of_file = Cause {
            kind: None,
            ..cause(Deleted, "db.z:7")
        };
        assert!(!counts(&[of_file]));
    }

    #[test]
    fn a_record_in_the_place_of_another_is_no_loss() {
        let apex: Name = "z.".parse().unwrap();
        let node = |addresses: &[&str]| {
            let part = |text: &&str| {
                let (rtype, rdata) = Rdata::address(text.parse().unwrap());
                (rtype, Ttl::decode(5), rdata)
            };
            Node::build(&apex, &apex, &mut addresses.iter().map(part).collect())
        };
        let before = node(&["10.0.0.1", "10.0.0.2", "fd00::1"]);
        assert!(before.as_ref().unwrap().rrset(Rtype::A).is_some());
        for (after, want) in [
            (node(&["10.0.0.3", "10.0.0.4", "fd00::1"]), 0),
            (node(&["10.0.0.3", "fd00::1", "fd00::2", "fd00::3"]), 1),
            (node(&["fd00::1"]), 2),
            (None, 3),
        ] {
            assert_eq!(lost(before.as_ref(), after.as_ref()), want, "{after:?}");
        }
        assert_eq!(lost(None, before.as_ref()), 0);
    }
}

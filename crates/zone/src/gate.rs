//! The publish gate decides whether a change removes so much of a zone that a person should look at it first.
//!
//! Only losses through a list, a reload or a restart count: an API server with an empty store, half a cluster missing
//! from a list, a folder emptied by a broken mount. An object whose deletion we watched was deleted on purpose. A
//! record replaced by another of the same owner and type is not lost.
//!
//! Losses count for the zone and for each share of it. A share is the part of a zone that one tenant can grow or empty, a
//! namespace. It is held alone when it loses too much, so a tenant can neither hold others' changes nor hide others' losses
//! behind many records of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dns::Name;
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

    /// Decides about a change that loses this of the zone and this of its shares. `None` is what is in no share.
    ///
    /// A share is held for itself when it loses more than the percentage of its records, and either it loses at least the
    /// number, or the whole zone loses too much, or nothing is left of any share: a source that is gone looks like that. The whole zone is held when the same happens to more than the percentage
    /// of the other shares too, or when what would be published still loses too much.
    #[must_use]
    pub fn judge(
        &self,
        zone: Loss,
        shares: &BTreeMap<Option<Share>, Loss>,
        all: Shares,
    ) -> Verdict {
        let percent = usize::from(self.shrink_percent);
        let is_above =
            |part: usize, whole: usize| part.saturating_mul(100) > whole.saturating_mul(percent);
        let is_much = |loss: &Loss| loss.lost > 0 && is_above(loss.lost, loss.before);
        let named = shares
            .iter()
            .filter_map(|(share, loss)| Some((share.as_ref()?, loss)));
        let losers: Vec<_> = named.filter(|(_, loss)| is_much(loss)).collect();
        let (others, all_others) = (losers.len().saturating_sub(1), all.count.saturating_sub(1));
        let lost: usize = losers.iter().map(|(_, loss)| loss.lost).sum();
        if lost >= self.at_least && is_above(others, all_others) {
            return Verdict::HoldsZone;
        }
        let is_zone_stopped = self.stops(zone.before, zone.lost);
        let held = losers.into_iter();
        let held: BTreeMap<Share, Loss> = held
            .filter(|(_, loss)| is_zone_stopped || all.are_emptied || loss.lost >= self.at_least)
            .map(|(share, loss)| (share.clone(), *loss))
            .collect();
        let lost_of_held: usize = held.values().map(|loss| loss.lost).sum();
        if self.stops(zone.before, zone.lost.saturating_sub(lost_of_held)) {
            return Verdict::HoldsZone;
        }
        match held.is_empty() {
            true => Verdict::Passes,
            false => Verdict::HoldsShares(held),
        }
    }
}

/// The namespace that a record belongs to. The zone does not know what it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share(Arc<str>);

impl Share {
    /// The share with a name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// Its name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for Share {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "namespace {}", self.0)
    }
}

/// The shares of a zone that have records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    /// How many they are.
    pub count: usize,
    /// Whether a change loses all their records, and no other record comes.
    pub are_emptied: bool,
}

/// The loss of a zone or a share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Loss {
    /// The records that it loses.
    pub lost: usize,
    /// The records there were.
    pub before: usize,
}

/// The decision about a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is published.
    Passes,
    /// These shares stay as they are, and the rest is published.
    HoldsShares(BTreeMap<Share, Loss>),
    /// Nothing is published.
    HoldsZone,
}

/// A share that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldShare {
    /// The share.
    pub share: Share,
    /// Its names are at or below these.
    pub subtrees: Vec<Name>,
    /// What it would lose.
    pub loss: Loss,
    /// The time when it was first held, milliseconds since 1970 UTC.
    pub since_ms: u64,
    /// The time when it is published at the latest, milliseconds since 1970 UTC; `None`: when an operator releases it.
    pub until_ms: Option<u64>,
}

/// The most shares that a text names.
const NAMED_SHARES: usize = 8;

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
    /// These shares lose too many records. The rest of the zone is published.
    SharesShrink(Vec<HeldShare>),
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
    /// hold. They are those of the held shares, if only these are held.
    #[must_use]
    pub fn loses(&self) -> Option<(usize, usize)> {
        match self {
            Self::Shrinks { lost, before } => Some((*lost, *before)),
            Self::SharesShrink(shares) => {
                let losses = shares.iter().map(|it| it.loss);
                Some(losses.fold((0, 0), |(lost, before), it| {
                    (lost + it.lost, before + it.before)
                }))
            }
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
            Self::SharesShrink(shares) => {
                for (place, held) in shares.iter().take(NAMED_SHARES).enumerate() {
                    let comma = if place > 0 { ", " } else { "" };
                    let (share, Loss { lost, before }) = (&held.share, held.loss);
                    write!(f, "{comma}{share} would lose {lost} of {before} records")?;
                }
                match shares.len().saturating_sub(NAMED_SHARES) {
                    0 => Ok(()),
                    more => write!(f, " ({more} more)"),
                }
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

impl HeldChange {
    /// Whether the zone is held as a whole.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        !matches!(self.why, Why::SharesShrink(_))
    }

    /// The shares that are held, if only these are.
    #[must_use]
    pub fn shares(&self) -> &[HeldShare] {
        match &self.why {
            Why::SharesShrink(shares) => shares,
            Why::Shrinks { .. } | Why::Unsound { .. } | Why::OnHold { .. } => &[],
        }
    }

    /// Whether something at a name in wire form is held.
    #[must_use]
    pub fn holds_name(&self, name: &[u8]) -> bool {
        match &self.why {
            Why::SharesShrink(shares) => {
                let mut subtrees = shares.iter().flat_map(|it| &it.subtrees);
                subtrees.any(|subtree| dns::wire_is_within(name, subtree.as_wire()))
            }
            Why::Shrinks { .. } | Why::Unsound { .. } | Why::OnHold { .. } => true,
        }
    }
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
    use dns::{Rdata, Rtype, Ttl};
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

    #[test]
    fn a_share_is_held_for_itself_and_many_hold_the_zone() {
        let gate = GateSettings::DEFAULT;
        let judge = |losses: &[(&str, usize, usize)], all: &[usize]| {
            let shares: BTreeMap<Option<Share>, Loss> = losses
                .iter()
                .map(|(name, lost, before)| {
                    let share = Some(*name).filter(|name| !name.is_empty()).map(Share::new);
                    let (lost, before) = (*lost, *before);
                    (share, Loss { lost, before })
                })
                .collect();
            let zone = Loss {
                lost: losses.iter().map(|(_, lost, _)| lost).sum(),
                before: all.iter().sum(),
            };
            let all = Shares {
                count: all.len(),
                are_emptied: false,
            };
            match gate.judge(zone, &shares, all) {
                Verdict::Passes => "passes".to_owned(),
                Verdict::HoldsZone => "the zone".to_owned(),
                Verdict::HoldsShares(held) => {
                    let names: Vec<_> = held.keys().map(Share::as_str).collect();
                    names.join(" ")
                }
            }
        };
        // Many records of one neither hide nor hold the others.
        assert_eq!(judge(&[("shop", 300, 300)], &[300, 5520]), "shop");
        assert_eq!(judge(&[("evil", 5520, 5520)], &[300, 5520]), "evil");
        let both = [("evil", 5520, 5520), ("shop", 1, 300)];
        assert_eq!(judge(&both, &[300, 5520]), "evil");
        assert_eq!(judge(&[("shop", 49, 49)], &[49, 5520]), "passes");
        // The zone loses too much: those that lose much are held, also below the number.
        let small = [("evil", 5520, 5520), ("shop", 40, 40)];
        assert_eq!(judge(&small, &[40, 100, 100, 100, 5520]), "evil shop");
        // Four of ten, with a big one that loses nothing.
        let some = ["a", "b", "c", "d"].map(|name| (name, 20, 20));
        let all = [vec![20; 9], vec![100_000]].concat();
        assert_eq!(judge(&some[..2], &all), "passes");
        assert_eq!(judge(&some[..3], &all), "passes", "two of the other nine");
        assert_eq!(judge(&some, &all), "the zone");
        // An empty store.
        assert_eq!(judge(&some, &[20; 4]), "the zone");
        // What is in no share is judged with the zone.
        assert_eq!(judge(&[("", 60, 60)], &[60, 60]), "the zone");
        let of_none = [("", 60, 60), ("evil", 600, 600)];
        assert_eq!(judge(&of_none, &[60, 60, 600]), "evil");
        assert_eq!(judge(&[], &[60]), "passes");
    }

    #[test]
    fn shares_of_which_nothing_is_left_are_held_however_small_they_are() {
        let loss = Loss { lost: 3, before: 3 };
        let shares = BTreeMap::from([(Some(Share::new("shop")), loss)]);
        let judge = |shrink_percent, are_emptied| {
            let gate = GateSettings {
                shrink_percent,
                ..GateSettings::DEFAULT
            };
            let all = Shares {
                count: 1,
                are_emptied,
            };
            gate.judge(Loss { lost: 3, before: 6 }, &shares, all)
        };
        let held = BTreeMap::from([(Share::new("shop"), loss)]);
        assert_eq!(judge(30, true), Verdict::HoldsShares(held));
        assert_eq!(judge(30, false), Verdict::Passes);
        assert_eq!(judge(100, true), Verdict::Passes);
    }
}

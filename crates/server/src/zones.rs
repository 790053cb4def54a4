//! The zones of a block: which one holds a name, and what answers beside it.

use std::collections::HashMap;

use dns::{Name, Rtype};
use zone::lookup::{Answer, LinkSet, lookup, lookup_beside, rrset_for};
use zone::{Node, Version, Zone, ZoneSet};

use crate::message::{CLASS_IN, Question};
use crate::names::{LiveAnswer, LiveNames};

/// EDE 3 (RFC 8914 section 5.2): the source is away or a change is held back, the data may be old.
pub const STALE: u16 = 3;
/// EDE 14: the zone has no version yet.
pub const NOT_READY: u16 = 14;

/// The zones of a block.
#[derive(Debug, Default)]
pub struct BlockZones {
    /// The zones.
    zones: ZoneSet,
    /// What answers for names that no version holds, by apex in lower case; most zones have none.
    live: HashMap<Name, LiveNames>,
    /// The names, and those below them, for which the next is asked when a zone has no such name; by apex
    /// in lower case.
    fallthrough: HashMap<Name, Vec<Name>>,
}

impl BlockZones {
    /// The zones of a block; `live` and `fallthrough` by apex.
    #[must_use]
    pub fn new(
        zones: ZoneSet,
        live: HashMap<Name, LiveNames>,
        fallthrough: HashMap<Name, Vec<Name>>,
    ) -> Self {
        Self {
            zones,
            live: lower_keys(live),
            fallthrough: lower_keys(fallthrough),
        }
    }

    /// What replies from them are said to be by.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        WORD
    }

    /// Whether others say the same: the same zones, with the same knowledge of other names.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let (all, others) = (self.zones.all(), other.zones.all());
        let mut pairs = all.iter().zip(others);
        let same_live =
            |apex: &Name, live: &LiveNames| other.live.get(apex).is_some_and(|it| live.is_same(it));
        all.len() == others.len()
            && pairs.all(|(zone, other)| std::sync::Arc::ptr_eq(zone, other))
            && self.live.len() == other.live.len()
            && self.live.iter().all(|(apex, live)| same_live(apex, live))
            && self.fallthrough == other.fallthrough
    }

    /// The zones.
    #[must_use]
    pub const fn set(&self) -> &ZoneSet {
        &self.zones
    }

    /// The zone a question belongs to: the longest, but a DS question for an apex goes to the zone above
    /// (RFC 4035 section 3.1.4.1).
    #[must_use]
    pub fn find(&self, lower: &[u8], qtype: Rtype) -> Option<&std::sync::Arc<Zone>> {
        let zone = self.zones.find(lower)?;
        if qtype == Rtype::DS && zone.apex().as_wire() == lower {
            let parent = lower.get(usize::from(lower[0]) + 1..);
            return Some(
                parent
                    .and_then(|parent| self.zones.find(parent))
                    .unwrap_or(zone),
            );
        }
        Some(zone)
    }

    /// Looks up a lower-case wire name that lies in the version's zone, in the version and in what is live.
    /// `key` is space to work in, `made` holds what was made for this answer. `None`: nothing can be said yet.
    pub fn look<'v>(
        &self,
        version: &'v Version,
        lower: &[u8],
        qtype: Rtype,
        key: &mut Vec<u8>,
        made: &'v mut Option<Node>,
    ) -> Option<Answer<'v>> {
        let live = (!self.live.is_empty()).then(|| self.live.get(version.contents.apex()));
        let Some(live) = live.flatten() else {
            return Some(lookup(version, lower, qtype, key));
        };
        // What was said of the last name that was asked about; asking costs.
        let mut said = None;
        let mut answer = lookup_beside(version, lower, qtype, key, |name| {
            let (_, answer) = said.insert((name, live.answer(version, name)));
            !matches!(answer, LiveAnswer::Missing)
        });
        if answer.exists {
            return Some(answer);
        }
        let end = answer.end().unwrap_or(lower);
        let of_end = said.filter(|(name, _)| *name == end);
        let of_end = of_end.map(|(_, answer)| answer);
        match of_end.unwrap_or_else(|| live.answer(version, end)) {
            LiveAnswer::Exists { node, .. } => {
                *made = node;
                let rrset = made.as_ref().and_then(|node| rrset_for(node, qtype));
                answer.complete(rrset.map(LinkSet::Rrset));
            }
            LiveAnswer::Missing => {}
            LiveAnswer::Unknown => return None,
        }
        Some(answer)
    }

    /// Whether a zone holds no such name and that is the answer; `goes_on` says whether something stands
    /// behind the zones. Names whose alias leads nowhere are not missing.
    #[must_use]
    pub fn is_missing(&self, question: &Question<'_>, goes_on: bool) -> bool {
        let zone = match self.find(question.name, question.qtype) {
            Some(zone) if question.qclass == CLASS_IN => zone,
            _ => return false,
        };
        let Some(version) = zone.current() else {
            return false;
        };
        let (mut key, mut made) = (Vec::with_capacity(64), None);
        let answer = self.look(&version, question.name, question.qtype, &mut key, &mut made);
        answer.is_some_and(|answer| !answer.exists && answer.end().is_none())
            && !(goes_on && self.falls_through(zone, question.name))
    }

    /// Whether a name that is missing in a zone is asked of the next; lower-case wire form.
    #[must_use]
    pub fn falls_through(&self, zone: &Zone, lower: &[u8]) -> bool {
        let below = self.fallthrough.get(zone.apex());
        below.is_some_and(|names| {
            names
                .iter()
                .any(|name| dns::wire_is_within(lower, name.as_wire()))
        })
    }
}

/// Keys in lower case.
fn lower_keys<T>(map: HashMap<Name, T>) -> HashMap<Name, T> {
    let pairs = map.into_iter();
    pairs
        .map(|(apex, value)| (apex.to_lower(), value))
        .collect()
}

/// What stands for the zones in logs and metrics.
pub const WORD: &str = "kubernetes";

/// The name at which an answer ends outside of its zone: the target of its last alias.
#[must_use]
pub fn elsewhere<'v>(answer: &Answer<'v>, qtype: Rtype) -> Option<&'v [u8]> {
    if answer.negative || answer.referral.is_some() || qtype == Rtype::CNAME {
        return None;
    }
    let last = answer.links().last()?;
    match last.set {
        LinkSet::Rrset(rrset) if rrset.rtype == Rtype::CNAME && qtype != Rtype::ANY => {
            let data = rrset.data().next()?;
            dns::Rdata::name_at(Rtype::CNAME, data)
        }
        LinkSet::Rrset(_) | LinkSet::Soa => None,
    }
}

//! The zones of a block: finds the zone of a name, and the answers beside its versions.

use std::collections::HashMap;
use std::sync::Arc;

use dns::{Name, Rtype};
use zone::{Version, Zone, ZoneSet};

use crate::synthesized::{Synthesized, SynthesizedNames};

/// EDE 3 (RFC 8914 section 5.2): the source is away or a change is held back, so the data may be old.
pub const STALE: u16 = 3;
/// EDE 14: the zone has no version yet.
pub const NOT_READY: u16 = 14;

/// The zones of a block.
#[derive(Debug, Default)]
pub struct BlockZones {
    zones: ZoneSet,
    /// For each of the zones, in their order.
    beside: Vec<Beside>,
}

/// The answers beside the versions of a zone.
#[derive(Debug, Default)]
pub struct Beside {
    /// The synthesized names, in their order.
    pub names: Vec<Arc<dyn SynthesizedNames>>,
    /// Missing names at and below these go to the next handler.
    pub fallthrough: Vec<Name>,
}

impl Beside {
    /// The name at or above a missing one for which the next handler is asked. `lower` is in wire form and lower case.
    pub(crate) fn falls_through(&self, lower: &[u8]) -> Option<&Name> {
        let mut names = self.fallthrough.iter();
        names.find(|name| dns::wire_is_within(lower, name.as_wire()))
    }

    /// The answer to a name that a version does not hold. The name is within the zone, in wire form and lower case.
    pub(crate) fn answer(&self, version: &Version, name: &[u8]) -> Synthesized {
        let answers = self.names.iter().map(|names| names.answer(version, name));
        let mut answers = answers.filter(|it| !matches!(it, Synthesized::Missing));
        answers.next().unwrap_or(Synthesized::Missing)
    }

    fn is_same(&self, other: &Self) -> bool {
        let mut pairs = self.names.iter().zip(&other.names);
        self.names.len() == other.names.len()
            && pairs.all(|(names, other)| names.is_same(&**other))
            && self.fallthrough == other.fallthrough
    }
}

impl BlockZones {
    /// The zones of a block, and the answers beside their versions, by apex.
    #[must_use]
    pub fn new(zones: ZoneSet, mut beside: HashMap<Name, Beside>) -> Self {
        let all = zones.all().iter();
        let beside = all.map(|zone| beside.remove(zone.apex()).unwrap_or_default());
        let beside = beside.collect();
        Self { zones, beside }
    }

    /// The word for the zones in the field `by` of replies.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        WORD
    }

    /// Whether both give the same answers: from the same zones and the same synthesized names.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let (all, others) = (self.zones.all(), other.zones.all());
        let mut pairs = all.iter().zip(others);
        let mut besides = self.beside.iter().zip(&other.beside);
        all.len() == others.len()
            && pairs.all(|(zone, other)| Arc::ptr_eq(zone, other))
            && besides.all(|(beside, other)| beside.is_same(other))
    }

    /// The zones.
    #[must_use]
    pub const fn set(&self) -> &ZoneSet {
        &self.zones
    }

    /// The zone of a question: the longest, but a DS question for an apex goes to the zone above (RFC 4035 section
    /// 3.1.4.1).
    #[must_use]
    pub fn find(&self, lower: &[u8], qtype: Rtype) -> Option<&Arc<Zone>> {
        self.find_with_beside(lower, qtype).map(|(zone, _)| zone)
    }

    /// The zone of a question, and the answers beside its versions.
    pub(crate) fn find_with_beside(
        &self,
        lower: &[u8],
        qtype: Rtype,
    ) -> Option<(&Arc<Zone>, &Beside)> {
        let place = self.zones.place(lower)?;
        let is_apex = || self.zones.all()[place].apex().as_wire() == lower;
        let above = if qtype == Rtype::DS && is_apex() {
            let parent = lower.get(usize::from(lower[0]) + 1..);
            parent.and_then(|parent| self.zones.place(parent))
        } else {
            None
        };
        let place = above.unwrap_or(place);
        Some((&self.zones.all()[place], &self.beside[place]))
    }
}

/// The word for the zones in logs and metrics.
pub const WORD: &str = "kubernetes";

//! Decides what the zones of a block answer to a question. Listeners, the handler, `cache` and `why` all use it.
//!
//! [`resolve`] borrows from the version that the [`View`] holds and allocates nothing for a name of the zone.

use std::cell::OnceCell;
use std::sync::Arc;

use arc_swap::Guard;
use dns::Name;
use zone::lookup::{Answer, End, lookup_with_synthesized, rrset_for};
use zone::{Node, Version, Zone};

use crate::message::{CLASS_IN, Question};
use crate::synthesized::Synthesized;
use crate::zones::{Beside, BlockZones};

/// What one question is answered from.
pub struct View<'b> {
    /// The zone that the question belongs to, and what is beside its versions.
    zone: Option<(&'b Arc<Zone>, &'b Beside)>,
    /// Its current version, for as long as the view is there.
    version: Option<Guard<Option<Arc<Version>>>>,
    has_next: bool,
    is_signed: bool,
    /// The records of the synthesized name of the answer.
    synthesized: OnceCell<Option<Node>>,
}

impl<'b> View<'b> {
    /// The view of the zones of a block on a question. `has_next` says whether handlers are behind the zones, `is_signed`
    /// whether a key of ours signed the question: then the answer is what a secondary holds, without synthesized names,
    /// and ends with the zone.
    #[must_use]
    pub fn new(
        zones: &'b BlockZones,
        question: &Question<'_>,
        has_next: bool,
        is_signed: bool,
    ) -> Self {
        let zone = zones.find_with_beside(question.name, question.qtype);
        let zone = zone.filter(|_| question.qclass == CLASS_IN);
        Self {
            zone,
            version: zone.map(|(zone, _)| zone.peek()),
            has_next,
            is_signed,
            synthesized: OnceCell::new(),
        }
    }

    /// The zone that the question belongs to.
    #[must_use]
    pub fn zone(&self) -> Option<&'b Arc<Zone>> {
        self.zone.map(|(zone, _)| zone)
    }

    /// The version that is looked at.
    #[must_use]
    pub fn version(&self) -> Option<&Version> {
        self.version.as_ref()?.as_deref()
    }
}

/// What the zones of a block say to a question.
#[derive(Debug)]
pub enum Resolution<'v> {
    /// The name is in none of them.
    NoZone,
    /// The zone has no version yet, or it is not known yet whether there is such a name.
    NotReady,
    /// The zone has no such name, and the next handler is asked for those at and below this one.
    FallThrough {
        /// The name.
        below: &'v Name,
    },
    /// The zone answers with an alias whose target may be looked for elsewhere.
    FollowAlias {
        /// The answer up to there.
        answer: ZoneAnswer<'v>,
        /// The target in wire form.
        target: &'v [u8],
    },
    /// The zone answers: with data, with nothing of the type, with no such name, or with where to ask instead.
    Answer(ZoneAnswer<'v>),
}

/// The answer of a version.
#[derive(Debug)]
pub struct ZoneAnswer<'v> {
    /// The version.
    pub version: &'v Version,
    /// What it says.
    pub answer: Answer<'v>,
    /// Whether the source is away or a change is held back.
    pub is_stale: bool,
    /// The last name, where it is synthesized.
    pub synthesized: Option<SynthesizedName<'v>>,
}

/// A name that no version holds.
#[derive(Debug, Clone, Copy)]
pub struct SynthesizedName<'v> {
    /// The words of the Corefile by which it is there.
    pub by: &'static str,
    /// Its records, of all types.
    pub node: Option<&'v Node>,
}

impl Resolution<'_> {
    /// Whether the zone answers that there is no such name. The target of an alias may be missing all the same.
    #[must_use]
    pub const fn is_missing(&self) -> bool {
        match self {
            Self::Answer(it) => matches!(it.answer.end, End::NxDomain { at: None }),
            Self::NoZone | Self::NotReady | Self::FallThrough { .. } | Self::FollowAlias { .. } => {
                false
            }
        }
    }
}

/// Says what the zones of a view have for the question that the view was made for. `key` is scratch space.
#[must_use]
pub fn resolve<'v>(
    view: &'v View<'_>,
    question: &Question<'_>,
    key: &mut Vec<u8>,
) -> Resolution<'v> {
    let Some((zone, beside)) = view.zone else {
        return Resolution::NoZone;
    };
    let Some(version) = view.version() else {
        return Resolution::NotReady;
    };
    let mut said = Synthesized::Missing;
    let mut answer = lookup_with_synthesized(version, question.name, question.qtype, key, |name| {
        if !view.is_signed {
            said = beside.answer(version, name);
        }
        !matches!(said, Synthesized::Missing)
    });
    let mut synthesized = None;
    match (answer.end, said) {
        (End::Synthesized { at }, Synthesized::Exists { node, by }) => {
            let node = view.synthesized.get_or_init(|| node).as_ref();
            answer.end_synthesized(at, node.and_then(|it| rrset_for(it, question.qtype)));
            synthesized = Some(SynthesizedName { by, node });
        }
        (End::Synthesized { .. }, _) => return Resolution::NotReady,
        (End::NxDomain { at: None }, _) if view.has_next && !view.is_signed => {
            if let Some(below) = beside.falls_through(question.name) {
                return Resolution::FallThrough { below };
            }
        }
        (_, _) => {}
    }
    let answer = ZoneAnswer {
        version,
        answer,
        is_stale: zone.may_be_old(),
        synthesized,
    };
    match answer.answer.end {
        End::Alias(target) if !view.is_signed => Resolution::FollowAlias { answer, target },
        End::Data
        | End::Alias(_)
        | End::NoData { .. }
        | End::NxDomain { .. }
        | End::Synthesized { .. }
        | End::Referral(_) => Resolution::Answer(answer),
    }
}

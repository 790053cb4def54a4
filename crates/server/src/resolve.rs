//! Decides on the answer of a block's zones to a question. Listeners, the handler, `cache` and `why` all use it.
//!
//! [`resolve`] borrows from the version that the [`View`] holds and allocates nothing for a name of the zone.

use std::cell::OnceCell;
use std::sync::Arc;

use arc_swap::Guard;
use dns::Name;
use zone::lookup::{Answer, End, Redirects, lookup_with_synthesized};
use zone::{Node, Version, Zone};

use crate::message::{CLASS_IN, Question};
use crate::synthesized::Synthesized;
use crate::zones::{Beside, BlockZones};

/// The zones and the version that answer one question.
pub struct View<'b> {
    /// The zone of the question, and the answers beside its versions.
    zone: Option<(&'b Arc<Zone>, &'b Beside)>,
    /// Its current version, which stays the same as long as the view lives.
    version: Option<Guard<Option<Arc<Version>>>>,
    has_next: bool,
    is_signed: bool,
    /// The records of the synthesized name in the answer.
    synthesized: OnceCell<Option<Node>>,
    /// The names that DNAMEs make in the answer.
    redirects: Redirects,
}

impl<'b> View<'b> {
    /// The view of a block's zones on a question. `has_next` says whether handlers come after the zones, `is_signed`
    /// whether one of our keys signed the question. If so, the answer is a secondary's: it has no synthesized names,
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
            redirects: Redirects::default(),
        }
    }

    /// The zone of the question.
    #[must_use]
    pub fn zone(&self) -> Option<&'b Arc<Zone>> {
        self.zone.map(|(zone, _)| zone)
    }

    /// The version that the view holds.
    #[must_use]
    pub fn version(&self) -> Option<&Version> {
        self.version.as_ref()?.as_deref()
    }
}

/// Why an answer is not ready, for `errors`.
pub(crate) const fn not_ready(has_version: bool) -> &'static str {
    if has_version {
        "the names of the cluster are not known yet"
    } else {
        "the zone has no version yet"
    }
}

/// The answer of a block's zones to a question.
#[derive(Debug)]
pub enum Resolution<'v> {
    /// No zone has the name.
    NoZone,
    /// The zone has no version yet, or cannot tell yet whether the name exists.
    NotReady,
    /// The zone lacks the name, and the next handler answers for missing names at and below `below`.
    FallThrough {
        /// The name.
        below: &'v Name,
    },
    /// The zone answers with an alias, and the target may be in another zone.
    FollowAlias {
        /// The answer up to the alias.
        answer: ZoneAnswer<'v>,
        /// The target in wire form.
        target: &'v [u8],
    },
    /// The zone answers: with data, NODATA, NXDOMAIN or a referral.
    Answer(ZoneAnswer<'v>),
}

/// The answer of a version.
#[derive(Debug)]
pub struct ZoneAnswer<'v> {
    /// The version.
    pub version: &'v Version,
    /// The answer's kind and records.
    pub answer: Answer<'v>,
    /// Whether the source is away or a change is held back.
    pub is_stale: bool,
    /// The last name of the answer, if it is synthesized.
    pub synthesized: Option<SynthesizedName<'v>>,
}

/// A name that no version holds.
#[derive(Debug, Clone, Copy)]
pub struct SynthesizedName<'v> {
    /// The words of the Corefile that make it exist.
    pub by: &'static str,
    /// Its records, of all types.
    pub node: Option<&'v Node>,
}

impl Resolution<'_> {
    /// Whether the zone answers NXDOMAIN. The target of an alias may still be missing.
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

/// The answer of the view's zones to its question. `key` is scratch space.
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
    // Nothing is beside or behind a zone that was signed as it is.
    let is_presigned = version.contents.is_signed();
    let mut said = Synthesized::Missing;
    let is_synthesized = |name: &[u8]| {
        if !view.is_signed && !is_presigned {
            said = beside.answer(version, name);
        }
        !matches!(said, Synthesized::Missing)
    };
    let (name, qtype, redirects) = (question.name, question.qtype, &view.redirects);
    let mut answer = lookup_with_synthesized(version, name, qtype, redirects, key, is_synthesized);
    let mut synthesized = None;
    match (answer.end, said) {
        (End::Synthesized { at }, Synthesized::Exists { node, by }) => {
            let node = view.synthesized.get_or_init(|| node).as_ref();
            answer.end_synthesized(at, node, qtype);
            synthesized = Some(SynthesizedName { by, node });
        }
        (End::Synthesized { .. }, _) => return Resolution::NotReady,
        (End::NxDomain { at: None }, _) if view.has_next && !view.is_signed && !is_presigned => {
            if let Some(below) = beside.falls_through(question.name) {
                return Resolution::FallThrough { below };
            }
        }
        (_, _) => {}
    }
    let answer = ZoneAnswer {
        version,
        answer,
        is_stale: zone.may_be_old(question.name),
        synthesized,
    };
    match answer.answer.end {
        End::Alias(target) if !view.is_signed => Resolution::FollowAlias { answer, target },
        End::Data
        | End::Alias(_)
        | End::NoData { .. }
        | End::NxDomain { .. }
        | End::Synthesized { .. }
        | End::TooLong { .. }
        | End::Referral(_) => Resolution::Answer(answer),
    }
}

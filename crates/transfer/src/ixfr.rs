//! Decides the answer to an IXFR: nothing, the differences, or the zone (RFC 1995).
//!
//! The decision comes first, bytes later. More than one step is condensed into its net effect: fewer
//! octets, and no secondary has to compare serials in between, which NSD does wrongly across 2^32.

use std::cmp::Ordering;
use std::sync::Arc;

use dns::{Rdata, RrList, RrRef, Rtype, Serial, Soa};
use zone::{Net, Step, Version};

/// The content of a reply.
#[derive(Debug, Clone)]
pub enum Decision {
    /// The current SOA alone: the secondary has this version, or a later one.
    UpToDate,
    /// The differences.
    Chain(Delta),
    /// The whole zone.
    FullZone(Reason),
}

/// The reason for sending the whole zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The request was AXFR.
    Asked,
    /// The history does not reach back to the secondary's serial, or never had it.
    UnknownSerial,
    /// The order of the serials is undefined (RFC 1982 section 3.2). Only the whole zone gets a secondary out of this
    /// state.
    UndefinedOrder,
    /// The differences take more octets than the zone.
    Larger,
}

impl Reason {
    /// The reason as a label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::UnknownSerial => "unknown serial",
            Self::UndefinedOrder => "undefined order",
            Self::Larger => "larger than the zone",
        }
    }
}

/// One step from the secondary's version to ours.
#[derive(Debug, Clone)]
pub enum Delta {
    /// A single step.
    Step(Arc<Step>),
    /// Several steps, condensed.
    Net(Arc<Net>),
}

impl Delta {
    /// Serial and SOA of the secondary's version, exactly as it has them.
    #[must_use]
    pub fn from(&self) -> Option<&(Serial, Soa)> {
        match self {
            Self::Step(step) => step.from.as_ref(),
            Self::Net(net) => Some(&net.from),
        }
    }

    /// The removed records.
    #[must_use]
    pub fn removed(&self) -> &RrList {
        match self {
            Self::Step(step) => &step.removed,
            Self::Net(net) => &net.removed,
        }
    }

    /// The added records.
    #[must_use]
    pub fn added(&self) -> &RrList {
        match self {
            Self::Step(step) => &step.added,
            Self::Net(net) => &net.added,
        }
    }

    /// The octets of its records uncompressed on the wire, SOAs not counted.
    fn wire_octets(&self) -> usize {
        [self.removed(), self.added()]
            .iter()
            // A list has a tag of four octets for each record, the wire a class of two.
            .map(|list| list.as_octets().len() - 2 * list.len())
            .sum()
    }
}

/// Decides the answer for a secondary with this serial. The cost follows the number of steps that it lacks.
#[must_use]
pub fn decide(version: &Version, client: Serial) -> Decision {
    match client.partial_cmp(&version.serial) {
        Some(Ordering::Equal | Ordering::Greater) => return Decision::UpToDate,
        None => return Decision::FullZone(Reason::UndefinedOrder),
        Some(Ordering::Less) => {}
    }
    let unknown = Decision::FullZone(Reason::UnknownSerial);
    let Some(steps) = version.steps_from(client) else {
        return unknown;
    };
    let delta = match steps.as_slice() {
        [step] if step.from.is_some() => Delta::Step(Arc::clone(step)),
        steps => match version.net_of(client, steps) {
            Some(net) => Delta::Net(net),
            None => return unknown,
        },
    };
    // The layouts differ by two SOAs (RFC 1995 section 4): sent with the differences, not with the zone.
    let soa_octets = version.soa_record().wire_len();
    if delta.wire_octets() + 2 * soa_octets > version.contents.wire_octets() {
        return Decision::FullZone(Reason::Larger);
    }
    Decision::Chain(delta)
}

/// The SOA data of the secondary's version, and its TTL.
pub(crate) fn old_soa(delta: &Delta) -> Option<(Rdata, dns::Ttl)> {
    let (serial, soa) = delta.from()?;
    Some((soa.rdata(*serial), soa.ttl))
}

/// The records of the reply in order (RFC 1995 section 4): new SOA, old SOA, removed records, new SOA, added records,
/// new SOA. `old` is the result of [`old_soa`].
pub(crate) fn sequence<'a>(
    version: &'a Version,
    delta: &'a Delta,
    old: &'a (Rdata, dns::Ttl),
) -> impl Iterator<Item = RrRef<'a>> {
    let new = version.soa_record();
    let old = RrRef {
        rtype: Rtype::SOA,
        ttl: old.1,
        data: old.0.as_octets(),
        ..new
    };
    [new, old]
        .into_iter()
        .chain(delta.removed().iter())
        .chain([new])
        .chain(delta.added().iter())
        .chain([new])
}

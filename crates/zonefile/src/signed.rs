//! Checks a zone that was signed before it came here: every signature, and the whole chain of NSEC or NSEC3.
//!
//! Such a zone is published as it is, so it has to be right as it is. A signature that is over, or not valid yet, is no
//! fault: clocks differ, and a zone that is gone is no better. It is a warning.

mod chain;
mod verify;

use dns::{Name, Rtype, Serial, Soa};
use ops::TimeText;
use zone::Node;

use self::chain::check_chain;
use self::verify::Verifier;
use super::reader::MOST_PROBLEMS;
use super::{FileProblem, Spot, ZoneFile};

/// The types that only signed zones have.
pub(super) const OF_SIGNED: [Rtype; 4] =
    [Rtype::RRSIG, Rtype::NSEC, Rtype::NSEC3, Rtype::NSEC3PARAM];

/// When each RRset of a zone has a valid signature, in seconds since 1970 UTC. With several signatures, as during a change
/// of keys, one that is valid is enough: the first begin and the last end of the RRset count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// The latest begin of an RRset, and what it is of.
    pub begins: (u32, String),
    /// The earliest end of an RRset, and what it is of.
    pub ends: (u32, String),
}

impl Signed {
    /// What is wrong with the signatures at a time.
    #[must_use]
    pub fn warning(&self, unix_seconds: u64) -> Option<String> {
        let text = |seconds: u32| TimeText(u64::from(seconds) * 1000);
        let ((begins, first), (ends, last)) = (&self.begins, &self.ends);
        if u64::from(*ends) < unix_seconds {
            Some(format!(
                "the signature of {last} ended at {}: resolvers that validate refuse it; sign the zone again",
                text(*ends)
            ))
        } else if u64::from(*begins) > unix_seconds {
            Some(format!(
                "the signature of {first} begins at {}: until then resolvers that validate refuse it",
                text(*begins)
            ))
        } else {
            None
        }
    }
}

/// The kind of an owner in a signed zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It belongs to the zone.
    Own,
    /// It is delegated.
    Cut,
    /// It is below a delegation.
    Glue,
    /// It is the hash of a name.
    Hash,
}

/// A zone that is checked.
struct Zone<'a> {
    apex: &'a Name,
    soa: &'a Soa,
    serial: Serial,
    nodes: Vec<(Kind, &'a Node)>,
    spots: &'a [Spot],
    problems: Vec<FileProblem>,
}

/// Checks a zone that is signed; `None` if it is not. Owners that are the same in `known`, which was checked, and has
/// the same keys, are not verified again.
pub(super) fn check(
    apex: &Name,
    (soa, serial): &(Soa, Serial),
    nodes: &[Node],
    spots: &[Spot],
    known: Option<&ZoneFile>,
) -> Result<Option<Signed>, Vec<FileProblem>> {
    let is_signed = |node: &Node| OF_SIGNED.iter().any(|it| node.rrset(*it).is_some());
    if !nodes.iter().any(is_signed) {
        return Ok(None);
    }
    let mut zone = Zone {
        apex,
        soa,
        serial: *serial,
        nodes: kinds(nodes),
        spots,
        problems: Vec::new(),
    };
    let known = known.filter(|known| known.signed.is_some());
    let signed = Verifier::new(&mut zone, known).and_then(|verifier| verifier.verify(&mut zone));
    if !zone.is_full() {
        check_chain(&mut zone);
    }
    zone.problems.truncate(MOST_PROBLEMS);
    match signed {
        Some(signed) if zone.problems.is_empty() => Ok(Some(signed)),
        Some(_) | None => Err(zone.problems),
    }
}

/// The kind of each owner.
fn kinds(nodes: &[Node]) -> Vec<(Kind, &Node)> {
    let mut cut: Option<&[u8]> = None;
    let kind = |node| {
        let kind = kind_of(node, cut);
        if kind == Kind::Cut {
            cut = Some(Node::key(node));
        }
        (kind, node)
    };
    nodes.iter().map(kind).collect()
}

fn kind_of(node: &Node, cut: Option<&[u8]>) -> Kind {
    if cut.is_some_and(|cut| node.key().starts_with(cut)) {
        Kind::Glue
    } else if node.is_cut() {
        Kind::Cut
    } else if node.rrset(Rtype::NSEC3).is_some() {
        Kind::Hash
    } else {
        Kind::Own
    }
}

impl<'a> Zone<'a> {
    /// Notes a problem of the owner at this place.
    fn note(&mut self, place: usize, message: String) {
        self.problems.push(self.spots[place].problem(message));
    }

    fn is_full(&self) -> bool {
        self.problems.len() >= MOST_PROBLEMS
    }

    fn owner(&self, node: &Node) -> Name {
        Name::from_wire(&node.owner_wire(self.apex)).unwrap_or_else(|_| self.apex.clone())
    }

    /// The place and node of the apex.
    fn top(&self) -> Option<&'a Node> {
        let (_, node) = self.nodes.first()?;
        node.key().is_empty().then_some(*node)
    }
}

/// The types of the zone at an owner, without the signatures.
fn own_types(kind: Kind, node: &Node) -> impl Iterator<Item = Rtype> {
    let soa = node.key().is_empty().then_some(Rtype::SOA);
    let types = node.rrsets().map(|rrset| rrset.rtype);
    let is_own = move |rtype: &Rtype| match kind {
        Kind::Own | Kind::Hash => *rtype != Rtype::RRSIG,
        // What else is there is the child's.
        Kind::Cut => matches!(*rtype, Rtype::DS | Rtype::NSEC),
        Kind::Glue => false,
    };
    types.filter(is_own).chain(soa)
}

#[cfg(test)]
mod tests;

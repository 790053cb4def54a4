//! Looks a name up in one version of a zone: pure, without allocation.
//!
//! The answer is the one of a secondary that holds the same records. A name that exists only because a name below it
//! exists is NODATA (RFC 8020). A CNAME answers every type and is followed within the zone. If its target is missing,
//! the answer is the CNAME with NXDOMAIN (RFC 6604 section 3); if its target is outside the zone, the CNAME alone. At
//! and below a zone cut the answer is a referral, except for DS at the cut itself (RFC 4035 section 3.1.4.1). A
//! wildcard answers for names that do not exist below its closest encloser (RFC 4592), unless the name is a
//! synthesized name.
//!
//! # Not implemented
//! DNAME: zone files that have it are refused.

use std::collections::HashSet;

use dns::{Rcode, Rdata, RrRef, Rtype, SortKey};

use crate::{Contents, Node, RrsetRef, Version};

/// The most aliases followed for one question.
pub const MAX_ALIASES: usize = 8;

/// The answer of a version to a question.
#[derive(Debug)]
pub struct Answer<'v> {
    /// The nodes whose CNAME was followed, in order.
    aliases: [Option<&'v Node>; MAX_ALIASES],
    /// The RRset of the requested type.
    data: Option<LinkSet<'v>>,
    /// The end of the answer.
    pub end: End<'v>,
}

/// The end of an answer. `at` is the last name that was looked up: the target of an alias, or `None` for the name in
/// the question.
#[derive(Debug, Clone, Copy)]
pub enum End<'v> {
    /// With an RRset of the requested type.
    Data,
    /// With an alias to this name, which is outside the zone or was followed already.
    Alias(&'v [u8]),
    /// With a name that has no records of the requested type.
    NoData {
        /// The last name.
        at: Option<&'v [u8]>,
    },
    /// With a name that does not exist.
    NxDomain {
        /// The last name.
        at: Option<&'v [u8]>,
    },
    /// With a synthesized name.
    Synthesized {
        /// The last name.
        at: Option<&'v [u8]>,
    },
    /// With a name at or below a zone cut.
    Referral(Referral<'v>),
}

/// The name servers of a zone cut.
#[derive(Debug, Clone, Copy)]
pub struct Referral<'v> {
    /// The name at or below the cut; `None` for the name in the question.
    pub below: Option<&'v [u8]>,
    /// The length of that name's labels below the cut, in bytes of its wire form.
    pub skip: usize,
    /// The NS records.
    pub servers: RrsetRef<'v>,
}

/// One RRset of an answer.
#[derive(Debug, Clone, Copy)]
pub struct Link<'v> {
    /// The owner; `None` for the name in the question.
    pub owner: Option<&'v [u8]>,
    /// The records.
    pub set: LinkSet<'v>,
}

/// The records of one RRset of an answer.
#[derive(Debug, Clone, Copy)]
pub enum LinkSet<'v> {
    /// An RRset of the zone.
    Rrset(RrsetRef<'v>),
    /// The zone's SOA.
    Soa,
}

/// The result of looking up one name.
enum Found<'v> {
    Node(&'v Node),
    /// No records, but names below it exist, or it is the apex.
    Empty,
    Missing,
    /// No records, but a synthesized name.
    Synthesized,
    /// A delegation: the length of the cut's key, and its NS.
    Cut(usize, RrsetRef<'v>),
}

impl<'v> Answer<'v> {
    /// The RRsets of the answer section in order: aliases, then the RRset of the requested type.
    pub fn links(&self) -> impl Iterator<Item = Link<'v>> {
        let nodes = self.aliases.iter().map_while(|node| *node);
        let aliases = nodes.filter_map(|node| node.rrset(Rtype::CNAME));
        let sets = aliases.map(LinkSet::Rrset).chain(self.data);
        sets.scan(None, |next, set| {
            let owner = std::mem::replace(next, set.alias_target());
            Some(Link { owner, set })
        })
    }

    /// The response code.
    #[must_use]
    pub const fn rcode(&self) -> Rcode {
        match self.end {
            End::NxDomain { .. } => Rcode::NXDOMAIN,
            End::Data
            | End::Alias(_)
            | End::NoData { .. }
            | End::Synthesized { .. }
            | End::Referral(_) => Rcode::NOERROR,
        }
    }

    /// Whether the SOA belongs in the authority section (RFC 2308 section 3).
    #[must_use]
    pub const fn is_negative(&self) -> bool {
        matches!(self.end, End::NoData { .. } | End::NxDomain { .. })
    }

    /// The delegation that ends the answer, if one does.
    #[must_use]
    pub const fn referral(&self) -> Option<&Referral<'v>> {
        match &self.end {
            End::Referral(referral) => Some(referral),
            End::Data
            | End::Alias(_)
            | End::NoData { .. }
            | End::NxDomain { .. }
            | End::Synthesized { .. } => None,
        }
    }

    /// Whether the answer is authoritative: a referral is not, unless an alias comes before it (RFC 1034 section
    /// 4.3.2).
    #[must_use]
    pub const fn is_authoritative(&self) -> bool {
        self.referral().is_none() || self.aliases[0].is_some()
    }

    /// Ends the answer at a synthesized name, with its RRset of the requested type if it has one.
    pub fn end_synthesized(&mut self, at: Option<&'v [u8]>, set: Option<RrsetRef<'v>>) {
        self.data = set.map(LinkSet::Rrset);
        self.end = match set {
            Some(_) => End::Data,
            None => End::NoData { at },
        };
    }

    /// Follows aliases from a name and returns how the answer ends.
    fn follow<'n>(
        &mut self,
        version: &'v Version,
        lower_name: &'n [u8],
        qtype: Rtype,
        key: &mut Vec<u8>,
        is_synthesized: &mut impl FnMut(&'n [u8]) -> bool,
    ) -> End<'v>
    where
        'v: 'n,
    {
        let contents = &version.contents;
        let apex = contents.apex().as_wire();
        let mut owner: Option<&'v [u8]> = None;
        for place in 0..=MAX_ALIASES {
            let name = owner.unwrap_or(lower_name);
            if !SortKey::write(name, apex, key) {
                return owner.map_or(End::Data, End::Alias);
            }
            if qtype == Rtype::SOA && key.is_empty() {
                return self.end_with(LinkSet::Soa);
            }
            let node = match find(contents, key, qtype, || is_synthesized(name)) {
                Found::Node(node) => node,
                Found::Cut(end, servers) => {
                    let labels = key[end..].iter().filter(|octet| **octet == 0).count();
                    return End::Referral(Referral {
                        below: owner,
                        skip: octets_of_labels(name, labels),
                        servers,
                    });
                }
                Found::Empty => return End::NoData { at: owner },
                Found::Missing => return End::NxDomain { at: owner },
                Found::Synthesized => return End::Synthesized { at: owner },
            };
            if let Some(rrset) = rrset_for(node, qtype) {
                return self.end_with(LinkSet::Rrset(rrset));
            }
            let Some(alias) = node.rrset(Rtype::CNAME) else {
                return End::NoData { at: owner };
            };
            let is_seen = |it: &Option<&Node>| it.is_some_and(|it| it.key() == node.key());
            if let Some(target) = owner
                && (place == MAX_ALIASES || self.aliases.iter().any(is_seen))
            {
                return End::Alias(target);
            }
            self.aliases[place] = Some(node);
            owner = LinkSet::Rrset(alias).alias_target();
            if owner.is_none() {
                return End::Data;
            }
        }
        End::Data
    }

    fn end_with(&mut self, set: LinkSet<'v>) -> End<'v> {
        self.data = Some(set);
        End::Data
    }
}

impl<'v> LinkSet<'v> {
    fn alias_target(&self) -> Option<&'v [u8]> {
        match self {
            Self::Rrset(rrset) if rrset.rtype == Rtype::CNAME => {
                Rdata::name_at(Rtype::CNAME, rrset.data().next()?)
            }
            Self::Rrset(_) | Self::Soa => None,
        }
    }
}

/// Looks up a type at a name of the zone. The name is in wire form and lower case; `key` is scratch space.
#[must_use]
pub fn lookup<'v>(
    version: &'v Version,
    lower_name: &[u8],
    qtype: Rtype,
    key: &mut Vec<u8>,
) -> Answer<'v> {
    lookup_with_synthesized(version, lower_name, qtype, key, |_| false)
}

/// Like [`lookup`], with synthesized names: `is_synthesized` says whether a name that the version does not hold is
/// one. Such a name takes precedence over a wildcard.
#[must_use]
pub fn lookup_with_synthesized<'n, 'v: 'n>(
    version: &'v Version,
    lower_name: &'n [u8],
    qtype: Rtype,
    key: &mut Vec<u8>,
    mut is_synthesized: impl FnMut(&'n [u8]) -> bool,
) -> Answer<'v> {
    let mut answer = Answer {
        aliases: [None; MAX_ALIASES],
        data: None,
        end: End::Data,
    };
    answer.end = answer.follow(version, lower_name, qtype, key, &mut is_synthesized);
    answer
}

/// Looks up a key. The key may grow when a wildcard is looked for.
fn find<'v>(
    contents: &'v Contents,
    key: &mut Vec<u8>,
    qtype: Rtype,
    is_synthesized: impl FnOnce() -> bool,
) -> Found<'v> {
    if contents.has_cuts()
        && let Some((end, servers)) = cut_above(contents, key)
        && !(qtype == Rtype::DS && end == key.len())
    {
        return Found::Cut(end, servers);
    }
    match contents.get(key) {
        Some(node) => Found::Node(node),
        None if contents.exists(key) => Found::Empty,
        None if is_synthesized() => Found::Synthesized,
        None if contents.has_wildcards() => wildcard(contents, key),
        None => Found::Missing,
    }
}

/// The ends of the keys of a name and of its ancestors below the apex, the highest ancestor first.
fn ends(key: &[u8]) -> impl DoubleEndedIterator<Item = usize> {
    let octets = key.iter().enumerate();
    octets
        .filter(|(_, octet)| **octet == 0)
        .map(|(at, _)| at + 1)
}

/// The highest zone cut at or above a key.
fn cut_above<'v>(contents: &'v Contents, key: &[u8]) -> Option<(usize, RrsetRef<'v>)> {
    ends(key).find_map(|end| {
        let servers = contents.get(&key[..end])?.rrset(Rtype::NS)?;
        Some((end, servers))
    })
}

/// Looks up the wildcard below the closest encloser of a missing name (RFC 4592 section 3.3.1).
fn wildcard<'v>(contents: &'v Contents, key: &mut Vec<u8>) -> Found<'v> {
    let encloser = ends(key)
        .rev()
        .skip(1)
        .find(|end| contents.exists(&key[..*end]));
    key.truncate(encloser.unwrap_or(0));
    key.extend_from_slice(b"*\0");
    match contents.get(key) {
        Some(node) => Found::Node(node),
        // RFC 4592 section 2.2.2: a wildcard that exists only because of names below it has no data.
        None if contents.exists(key) => Found::Empty,
        None => Found::Missing,
    }
}

/// The length of the first labels of a wire name.
fn octets_of_labels(name: &[u8], labels: usize) -> usize {
    (0..labels).fold(0, |at, _| {
        at + name.get(at).map_or(0, |length| usize::from(*length) + 1)
    })
}

/// The RRset that answers a type; for ANY the first one (RFC 8482 section 4.1).
#[must_use]
pub fn rrset_for(node: &Node, qtype: Rtype) -> Option<RrsetRef<'_>> {
    if qtype == Rtype::ANY {
        node.rrsets().next()
    } else {
        node.rrset(qtype)
    }
}

/// Calls `put` for the addresses of each name in the zone that an NS, SRV or MX RRset points to, once per name, until
/// it returns false. `scratch` is reused memory.
///
/// Returns whether `put` took all addresses.
pub fn each_additional(
    version: &Version,
    rrset: &RrsetRef<'_>,
    scratch: &mut Additionals,
    mut put: impl FnMut(RrRef<'_>) -> bool,
) -> bool {
    if !matches!(rrset.rtype, Rtype::NS | Rtype::SRV | Rtype::MX) {
        return true;
    }
    let apex = version.contents.apex().as_wire();
    scratch.seen.clear();
    for data in rrset.data() {
        let Some(target) = Rdata::name_at(rrset.rtype, data) else {
            continue;
        };
        if !SortKey::write(target, apex, &mut scratch.key) {
            continue;
        }
        let Some(node) = version.contents.get(&scratch.key) else {
            continue;
        };
        if rrset.count > 1 && !scratch.seen.insert(node.key().as_ptr() as usize) {
            continue;
        }
        for rtype in [Rtype::A, Rtype::AAAA] {
            let records = node.rrset(rtype).into_iter();
            for rr in records.flat_map(|addresses| addresses.records(target, 0)) {
                if !put(rr) {
                    return false;
                }
            }
        }
    }
    true
}

/// Memory that [`each_additional`] reuses.
#[derive(Debug, Default)]
pub struct Additionals {
    key: Vec<u8>,
    /// Nodes whose addresses were given already, by the address of their key.
    seen: HashSet<usize>,
}

#[cfg(test)]
mod tests;

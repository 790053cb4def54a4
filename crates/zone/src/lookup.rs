//! Looks a name up in one version of a zone: pure, without allocation.
//!
//! The answer is the one of a secondary that holds the same records. A name that exists only because a name below it
//! exists is NODATA (RFC 8020). A CNAME answers every type and is followed within the zone. If its target is missing,
//! the answer is the CNAME with NXDOMAIN (RFC 6604 section 3); if its target is outside the zone, the CNAME alone. At
//! and below a zone cut the answer is a referral, except for DS at the cut itself (RFC 4035 section 3.1.4.1). A
//! wildcard answers for names that do not exist below its closest encloser (RFC 4592), unless the name is a
//! synthesized name.
//!
//! A name below a DNAME is answered with the DNAME and a CNAME that is made from it (RFC 6672 section 3.2), which is
//! followed as any other: not if a CNAME is what the question asks for (RFC 1034 section 4.3.2). RFC 6672 does not repeat
//! that, but BIND, Knot and NSD do so. A DNAME at a wildcard answers for its own type alone (RFC 6672 section 3.3).

use std::cell::OnceCell;
use std::collections::HashSet;

use dns::{Rcode, Rdata, RrRef, Rtype, SortKey};

use crate::node::Rrsets;
use crate::{Contents, Node, RrsetRef, Version};

mod dnssec;

pub use dnssec::{Secured, SetAt, each_additional_signature, secure};

/// The most aliases followed for one question.
pub const MAX_ALIASES: usize = 8;

/// The answer of a version to a question.
#[derive(Debug)]
pub struct Answer<'v> {
    /// The nodes whose CNAME or DNAME was followed, in order.
    aliases: [Option<&'v Node>; MAX_ALIASES],
    /// The CNAMEs that were made from DNAMEs.
    redirects: &'v Redirects,
    /// The RRset of the requested type.
    data: Option<LinkSet<'v>>,
    /// More signatures where they are what was asked for: those that cover other types.
    more: Rrsets<'v>,
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
    /// With a DNAME that makes a name of more than 255 octets (RFC 6672 section 2.2).
    TooLong {
        /// The last name.
        at: Option<&'v [u8]>,
    },
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
    /// The name that was looked up; `None` for the name in the question.
    pub name: Option<&'v [u8]>,
    /// The length of that name's labels below the owner, in bytes of its wire form. Only the owner of a DNAME is not
    /// the name itself.
    pub skip: usize,
    /// The records.
    pub set: LinkSet<'v>,
}

impl<'v> Link<'v> {
    /// The owner, given the name in the question.
    #[must_use]
    pub fn owner<'n>(&self, question: &'n [u8]) -> &'n [u8]
    where
        'v: 'n,
    {
        self.name
            .unwrap_or(question)
            .get(self.skip..)
            .unwrap_or_default()
    }
}

/// The records of one RRset of an answer.
#[derive(Debug, Clone, Copy)]
pub enum LinkSet<'v> {
    /// An RRset of the zone.
    Rrset(RrsetRef<'v>),
    /// The zone's SOA.
    Soa,
}

/// The CNAMEs that are made from DNAMEs for one question. Without a DNAME they take no memory.
#[derive(Debug, Default)]
pub struct Redirects(OnceCell<Box<[OnceCell<Redirect>; MAX_ALIASES]>>);

/// A name below a DNAME.
#[derive(Debug)]
struct Redirect {
    /// The length of the name's labels below the DNAME, in bytes of its wire form.
    skip: usize,
    /// The data of the CNAME as [`RrsetRef`] has it; `None` if its name would be too long.
    data: Option<Box<[u8]>>,
}

impl Redirect {
    /// Replaces the end of a name (RFC 6672 section 2.2).
    fn new(name: &[u8], skip: usize, dname: &RrsetRef<'_>) -> Option<Self> {
        let target = Rdata::name_at(Rtype::DNAME, dname.data().next()?)?;
        let front = name.get(..skip)?;
        let length = u8::try_from(front.len() + target.len()).ok();
        let data = length.map(|length| [&[0, length], front, target].concat().into());
        Some(Self { skip, data })
    }
}

impl Redirects {
    /// The redirection at this place of the answer.
    fn at(&self, place: usize) -> Option<&Redirect> {
        self.0.get()?.get(place)?.get()
    }

    fn put(&self, place: usize, redirect: Redirect) -> Option<&Redirect> {
        let places = self.0.get_or_init(Box::default);
        Some(places.get(place)?.get_or_init(|| redirect))
    }
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
    /// A DNAME above the name: the length of its key, its node and RRset.
    Redirect(usize, &'v Node, RrsetRef<'v>),
}

impl<'v> Answer<'v> {
    /// The RRsets of the answer section in order: aliases, then the RRset of the requested type.
    pub fn links(&self) -> impl Iterator<Item = Link<'v>> {
        let nodes = self.aliases.iter().map_while(|node| *node).enumerate();
        let aliases = nodes.flat_map(|(place, node)| self.alias(place, node));
        let data = self.data.map(|set| (0, set));
        let more = self.more.clone();
        let more = more.take_while(|rrset| rrset.rtype == Rtype::RRSIG);
        let more = more.map(|rrset| (0, LinkSet::Rrset(rrset)));
        aliases
            .chain(data)
            .chain(more)
            .scan(None, |name, (skip, set)| {
                let link = Link {
                    name: *name,
                    skip,
                    set,
                };
                *name = set.alias_target().or(*name);
                Some(link)
            })
    }

    /// The RRsets of one alias, with the length of the labels that their owner lacks: a CNAME, or a DNAME with the
    /// CNAME that is made from it.
    fn alias(
        &self,
        place: usize,
        node: &'v Node,
    ) -> impl Iterator<Item = (usize, LinkSet<'v>)> + use<'v> {
        let redirect = self.redirects.at(place);
        let dname = redirect.and_then(|it| Some((it.skip, node.rrset(Rtype::DNAME)?)));
        let cname = match (redirect, dname) {
            (Some(redirect), Some((_, dname))) => redirect
                .data
                .as_deref()
                .map(|data| RrsetRef::of_one(Rtype::CNAME, dname.ttl, data)),
            (_, _) => node.rrset(Rtype::CNAME),
        };
        let sets = dname.into_iter().chain(cname.map(|cname| (0, cname)));
        sets.map(|(skip, set)| (skip, LinkSet::Rrset(set)))
    }

    /// The response code.
    #[must_use]
    pub const fn rcode(&self) -> Rcode {
        match self.end {
            End::NxDomain { .. } => Rcode::NXDOMAIN,
            End::TooLong { .. } => Rcode::YXDOMAIN,
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
            | End::Synthesized { .. }
            | End::TooLong { .. } => None,
        }
    }

    /// Whether the answer is authoritative: a referral is not, unless an alias comes before it (RFC 1034 section
    /// 4.3.2).
    #[must_use]
    pub const fn is_authoritative(&self) -> bool {
        self.referral().is_none() || self.aliases[0].is_some()
    }

    /// Ends the answer at a synthesized name, with its RRset of the requested type or its alias if it has one. The
    /// target of the alias is not looked up.
    pub fn end_synthesized(&mut self, at: Option<&'v [u8]>, node: Option<&'v Node>, qtype: Rtype) {
        let set = node.and_then(|node| rrset_for(node, qtype));
        self.data = set.map(LinkSet::Rrset);
        let alias = node.and_then(|node| node.rrset(Rtype::CNAME));
        let target = alias.and_then(|alias| LinkSet::Rrset(alias).alias_target());
        let place = self.aliases.iter_mut().find(|place| place.is_none());
        self.end = match (set, target, place) {
            (Some(_), _, _) => End::Data,
            (None, Some(target), Some(place)) => {
                *place = node;
                End::Alias(target)
            }
            (None, _, _) => End::NoData { at },
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
                Found::Redirect(end, node, dname) => {
                    if place == MAX_ALIASES {
                        return owner.map_or(End::Data, End::Alias);
                    }
                    let labels = key[end..].iter().filter(|octet| **octet == 0).count();
                    let skip = octets_of_labels(name, labels);
                    match self.redirect(place, name, skip, (node, dname)) {
                        Some(_) if qtype == Rtype::CNAME => return End::Data,
                        Some(target) if self.has_link_at(target, lower_name) => {
                            return End::Alias(target);
                        }
                        Some(target) => owner = Some(target),
                        None => return End::TooLong { at: owner },
                    }
                    continue;
                }
            };
            if let Some(rrset) = rrset_for(node, qtype) {
                if qtype == Rtype::RRSIG {
                    self.more = node.rrsets();
                    self.more.find(|rrset| rrset.rtype == Rtype::RRSIG);
                }
                return self.end_with(LinkSet::Rrset(rrset));
            }
            // RFC 4035 section 2.5: these are beside an alias, not behind it.
            let is_beside = contents.is_signed() && matches!(qtype, Rtype::RRSIG | Rtype::NSEC);
            let Some(alias) = node.rrset(Rtype::CNAME).filter(|_| !is_beside) else {
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

    /// Redirects a name below a DNAME, and returns its new name; `None` if that is too long.
    fn redirect(
        &mut self,
        place: usize,
        name: &[u8],
        skip: usize,
        (node, dname): (&'v Node, RrsetRef<'v>),
    ) -> Option<&'v [u8]> {
        self.aliases[place] = Some(node);
        let redirect = Redirect::new(name, skip, &dname)?;
        let data = self.redirects.put(place, redirect)?.data.as_deref()?;
        RrsetRef::of_one(Rtype::CNAME, dname.ttl, data)
            .data()
            .next()
    }

    /// Whether a name was looked up already.
    fn has_link_at(&self, name: &[u8], question: &[u8]) -> bool {
        let mut links = self.links();
        links.any(|link| name.eq_ignore_ascii_case(link.name.unwrap_or(question)))
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

/// Looks up a type at a name of the zone. The name is in wire form and lower case; `redirects` is new, `key` is scratch
/// space.
#[must_use]
pub fn lookup<'v>(
    version: &'v Version,
    lower_name: &[u8],
    qtype: Rtype,
    redirects: &'v Redirects,
    key: &mut Vec<u8>,
) -> Answer<'v> {
    lookup_with_synthesized(version, lower_name, qtype, redirects, key, |_| false)
}

/// Like [`lookup`], with synthesized names: `is_synthesized` says whether a name that the version does not hold is
/// one. Such a name takes precedence over a wildcard.
#[must_use]
pub fn lookup_with_synthesized<'n, 'v: 'n>(
    version: &'v Version,
    lower_name: &'n [u8],
    qtype: Rtype,
    redirects: &'v Redirects,
    key: &mut Vec<u8>,
    mut is_synthesized: impl FnMut(&'n [u8]) -> bool,
) -> Answer<'v> {
    let mut answer = Answer {
        aliases: [None; MAX_ALIASES],
        redirects,
        data: None,
        more: Rrsets::default(),
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
    if contents.has_cuts_or_dnames()
        && let Some(found) = above(contents, key, qtype)
    {
        return found;
    }
    let node = contents.get(key);
    match node.filter(|node| !(contents.has_hashes() && node.is_hash())) {
        Some(node) => Found::Node(node),
        None if contents.exists(key) => Found::Empty,
        None if is_synthesized() => Found::Synthesized,
        None if contents.has_wildcards() => wildcard(contents, key),
        None => Found::Missing,
    }
}

/// Whether a type at a zone cut is answered by the zone above it: DS and the NSEC that it has.
fn is_above_cut(node: &Node, qtype: Rtype) -> bool {
    qtype == Rtype::DS || (qtype == Rtype::NSEC && node.rrset(Rtype::NSEC).is_some())
}

/// The highest zone cut at or above a key, or DNAME above it. The DS of a cut is answered by the zone above it.
fn above<'v>(contents: &'v Contents, key: &[u8], qtype: Rtype) -> Option<Found<'v>> {
    [0].into_iter().chain(SortKey::ends(key)).find_map(|end| {
        let node = contents.get(&key[..end])?;
        if end > 0
            && !(end == key.len() && is_above_cut(node, qtype))
            && let Some(servers) = node.rrset(Rtype::NS)
        {
            return Some(Found::Cut(end, servers));
        }
        let dname = node.rrset(Rtype::DNAME).filter(|_| end < key.len())?;
        Some(Found::Redirect(end, node, dname))
    })
}

/// Looks up the wildcard below the closest encloser of a missing name (RFC 4592 section 3.3.1).
fn wildcard<'v>(contents: &'v Contents, key: &mut Vec<u8>) -> Found<'v> {
    let encloser = SortKey::ends(key)
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

/// The RRset that answers a type; for ANY the first one (RFC 8482 section 4.1), which is none of DNSSEC.
#[must_use]
fn rrset_for(node: &Node, qtype: Rtype) -> Option<RrsetRef<'_>> {
    if qtype == Rtype::ANY {
        let is_other = |rrset: &RrsetRef<'_>| !matches!(rrset.rtype, Rtype::RRSIG | Rtype::NSEC);
        let mut rrsets = node.rrsets();
        rrsets.find(is_other).or_else(|| node.rrsets().next())
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
    each_additional_node(&version.contents, rrset, scratch, |target, node| {
        let sets = [Rtype::A, Rtype::AAAA].into_iter();
        let sets = sets.filter_map(|rtype| node.rrset(rtype));
        let mut records = sets.flat_map(|addresses| addresses.records(target, 0));
        records.all(&mut put)
    })
}

/// Calls `take` for each name in the zone that an NS, SRV or MX RRset points to, and its node, once per name, until it
/// returns false.
fn each_additional_node(
    contents: &Contents,
    rrset: &RrsetRef<'_>,
    scratch: &mut Additionals,
    mut take: impl FnMut(&[u8], &Node) -> bool,
) -> bool {
    if !matches!(rrset.rtype, Rtype::NS | Rtype::SRV | Rtype::MX) {
        return true;
    }
    let apex = contents.apex().as_wire();
    scratch.seen.clear();
    for data in rrset.data() {
        let Some(target) = Rdata::name_at(rrset.rtype, data) else {
            continue;
        };
        if !SortKey::write(target, apex, &mut scratch.key) {
            continue;
        }
        let Some(node) = contents.get(&scratch.key) else {
            continue;
        };
        if rrset.count > 1 && !scratch.seen.insert(node.key().as_ptr() as usize) {
            continue;
        }
        if !take(target, node) {
            return false;
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

//! What a signed zone adds to an answer for a client that wants DNSSEC: the signatures of its RRsets, and NSEC or NSEC3
//! that prove what the zone lacks (RFC 4035 section 3.1, RFC 5155 section 7.2).
//!
//! All of it is in the version. It costs memory and lookups, only for clients that want DNSSEC and only in signed zones. In
//! a partly signed zone some proofs are missing; the check of files refuses such a zone before.

use dns::{RrRef, Rtype, SortKey, Ttl};

use super::{Additionals, Answer, End, LinkSet, above, octets_of_labels};
use crate::nsec3::Hashing;
use crate::{Contents, Node, RrsetRef, Version};

/// An RRset with its owner.
#[derive(Debug, Clone)]
pub struct SetAt<'v> {
    /// The owner in wire form.
    pub owner: Vec<u8>,
    /// The records.
    pub set: RrsetRef<'v>,
    /// Their TTL in this answer.
    pub ttl: Ttl,
}

impl<'v> SetAt<'v> {
    /// The records.
    pub fn records(&self) -> impl Iterator<Item = RrRef<'_>> {
        let ttl = self.ttl;
        let records = self.set.records(&self.owner, 0);
        records.map(move |rr| RrRef { ttl, ..rr })
    }
}

/// What DNSSEC adds to an answer.
#[derive(Debug, Default)]
pub struct Secured<'v> {
    /// Signatures for the answer section.
    pub answers: Vec<SetAt<'v>>,
    /// Signatures and proofs for the authority section.
    pub authority: Vec<SetAt<'v>>,
}

/// What DNSSEC adds to an answer of a version to a question for a name in lower case; nothing if the zone is not
/// signed.
#[must_use]
pub fn secure<'v>(version: &'v Version, lower_name: &[u8], answer: &Answer<'v>) -> Secured<'v> {
    let mut made = Made {
        contents: &version.contents,
        apex: version.contents.apex().as_wire(),
        all: Secured::default(),
    };
    if version.contents.is_signed() {
        made.sign_links(lower_name, answer);
        made.sign_end(lower_name, answer.end);
    }
    made.all
}

/// A section.
#[derive(Clone, Copy)]
enum To {
    Answers,
    Authority,
}

/// What was added so far.
struct Made<'v> {
    contents: &'v Contents,
    apex: &'v [u8],
    all: Secured<'v>,
}

impl<'v> Made<'v> {
    /// Signs the answer section (but no signatures), and proves of each wildcard that it applied (RFC 4035 section 3.1.3.3).
    fn sign_links(&mut self, question: &[u8], answer: &Answer<'v>) {
        // A CNAME that is made from a DNAME has no signature (RFC 6672 section 5.3.1).
        let mut is_made = false;
        for link in answer.links() {
            let owner = link.owner(question).to_vec();
            let rtype = match link.set {
                LinkSet::Soa => Rtype::SOA,
                LinkSet::Rrset(set) => set.rtype,
            };
            if std::mem::replace(&mut is_made, link.skip > 0) {
                continue;
            }
            let key = self.key_of(&owner);
            if let Some(node) = self.named(&key) {
                self.sign(To::Answers, node, &owner, rtype, None);
            } else if let Some(node) = self.wildcard_of(&key) {
                self.sign(To::Answers, node, &owner, rtype, None);
                match self.hashing() {
                    Some(hashing) => self.deny_closer(hashing, &owner, &key),
                    None => self.cover(&key),
                }
            }
        }
    }

    /// Signs the authority section, and proves what the end of the answer says.
    fn sign_end(&mut self, question: &[u8], end: End<'v>) {
        match end {
            End::NoData { at } => {
                self.sign_soa();
                self.prove_no_data(at.unwrap_or(question));
            }
            End::NxDomain { at } => {
                self.sign_soa();
                self.prove_missing(at.unwrap_or(question));
            }
            End::Referral(referral) => {
                let below = referral.below.unwrap_or(question);
                let cut = below.get(referral.skip..).unwrap_or_default().to_vec();
                self.prove_referral(&cut);
            }
            End::Data | End::Alias(_) | End::Synthesized { .. } | End::TooLong { .. } => {}
        }
    }

    fn sign_soa(&mut self) {
        let ttl = self.contents.soa().negative_ttl();
        if let Some(top) = self.contents.get(&[]) {
            let apex = self.apex;
            self.sign(To::Authority, top, apex, Rtype::SOA, Some(ttl));
        }
    }

    /// Proves that a name exists, or is covered by a wildcard, and lacks the type (RFC 4035 sections 3.1.3.1 and 3.1.3.4,
    /// RFC 5155 sections 7.2.3 to 7.2.5).
    fn prove_no_data(&mut self, name: &[u8]) {
        let key = self.key_of(name);
        let exists = self.contents.exists(&key);
        let wildcard = self.wildcard_key(&key);
        match self.hashing() {
            Some(hashing) if exists => {
                if !self.put_hash(&hashing.key_of(&self.lower(name))) {
                    self.deny_closer_with_encloser(hashing, name, &key);
                }
            }
            Some(hashing) => {
                self.deny_closer_with_encloser(hashing, name, &key);
                let owner = self.name_of(&wildcard);
                self.put_hash(&hashing.key_of(&owner));
            }
            None if exists => self.own_or_cover(&key),
            None => {
                self.cover(&key);
                self.own_or_cover(&wildcard);
            }
        }
    }

    /// Proves that neither a name exists nor a wildcard for it (RFC 4035 section 3.1.3.2, RFC 5155 section 7.2.2).
    fn prove_missing(&mut self, name: &[u8]) {
        let key = self.key_of(name);
        let wildcard = self.wildcard_key(&key);
        match self.hashing() {
            Some(hashing) => {
                let encloser = self.deny_closer_with_encloser(hashing, name, &key);
                let wildcard = [&key[..encloser], b"*\0"].concat();
                let owner = self.name_of(&wildcard);
                self.put_hash_before(&hashing.key_of(&owner));
            }
            None => {
                self.cover(&key);
                self.cover(&wildcard);
            }
        }
    }

    /// The DS of a cut, or the proof that it has none (RFC 4035 section 3.1.4, RFC 5155 section 7.2.7).
    fn prove_referral(&mut self, cut: &[u8]) {
        let key = self.key_of(cut);
        let Some(node) = self.contents.get(&key) else {
            return;
        };
        if let Some(signer) = node.rrset(Rtype::DS) {
            self.put(To::Authority, cut, signer, None);
            self.sign(To::Authority, node, cut, Rtype::DS, None);
            return;
        }
        match self.hashing() {
            Some(hashing) => {
                if !self.put_hash(&hashing.key_of(&self.lower(cut))) {
                    self.deny_closer_with_encloser(hashing, cut, &key);
                }
            }
            None => self.own_or_cover(&key),
        }
    }

    /// The NSEC of a name, or the one that covers it.
    fn own_or_cover(&mut self, key: &[u8]) {
        match self.contents.get(key) {
            Some(node) if node.rrset(Rtype::NSEC).is_some() => self.put_denial(node, Rtype::NSEC),
            Some(_) | None => self.cover(key),
        }
    }

    /// The NSEC before a name that has none.
    fn cover(&mut self, key: &[u8]) {
        let Some(before) = self.contents.at_or_before(key) else {
            return;
        };
        let node = match before.rrset(Rtype::NSEC) {
            Some(_) => Some(before),
            // What is below a cut has no NSEC; the cut has.
            None => self.cut_above(before.key()),
        };
        if let Some(node) = node {
            self.put_denial(node, Rtype::NSEC);
        }
    }

    fn cut_above(&self, key: &[u8]) -> Option<&'v Node> {
        let mut enclosers = SortKey::ends(key).filter_map(|end| self.contents.get(&key[..end]));
        enclosers.find(|node| node.is_cut())
    }

    /// Proves the closest encloser that has a hash, and that the name below it does not exist. Returns the end of the
    /// encloser's key.
    fn deny_closer_with_encloser(
        &mut self,
        hashing: Hashing<'v>,
        name: &[u8],
        key: &[u8],
    ) -> usize {
        let enclosers = [0].into_iter().chain(SortKey::ends(key)).rev().skip(1);
        for end in enclosers.collect::<Vec<_>>() {
            let encloser = self.ancestor(name, key, end);
            if self.contents.exists(&key[..end]) && self.put_hash(&hashing.key_of(&encloser)) {
                self.deny_below(hashing, name, key, end);
                return end;
            }
        }
        0
    }

    /// Proves that no name is closer than the wildcard that applied (RFC 5155 section 7.2.6).
    fn deny_closer(&mut self, hashing: Hashing<'v>, name: &[u8], key: &[u8]) {
        let encloser = self.wildcard_key(key).len() - 2;
        self.deny_below(hashing, name, key, encloser);
    }

    /// The NSEC3 that covers the name one label below an encloser.
    fn deny_below(&mut self, hashing: Hashing<'v>, name: &[u8], key: &[u8], encloser: usize) {
        if let Some(end) = SortKey::ends(key).find(|end| *end > encloser) {
            let closer = self.ancestor(name, key, end);
            self.put_hash_before(&hashing.key_of(&closer));
        }
    }

    /// Puts the NSEC3 of a hash. False if there is none.
    fn put_hash(&mut self, key: &[u8]) -> bool {
        let node = self.contents.get(key).filter(|node| node.is_hash());
        if let Some(node) = node {
            self.put_denial(node, Rtype::NSEC3);
        }
        node.is_some()
    }

    /// Puts the NSEC3 that covers a hash.
    fn put_hash_before(&mut self, key: &[u8]) {
        if let Some(node) = self.contents.hash_at_or_before(key) {
            self.put_denial(node, Rtype::NSEC3);
        }
    }

    /// Puts NSEC or NSEC3 of a node and its signatures, once.
    fn put_denial(&mut self, node: &'v Node, rtype: Rtype) {
        let owner = node.owner_wire(self.contents.apex());
        let is_known = |known: &SetAt<'_>| known.set.rtype == rtype && known.owner == owner;
        if self.all.authority.iter().any(is_known) {
            return;
        }
        if let Some(set) = node.rrset(rtype) {
            self.put(To::Authority, &owner, set, None);
            self.sign(To::Authority, node, &owner, rtype, None);
        }
    }

    fn sign(&mut self, to: To, node: &'v Node, owner: &[u8], rtype: Rtype, ttl: Option<Ttl>) {
        // Nothing covers a signature.
        if let Some(set) = node.signatures(rtype) {
            self.put(to, owner, set, ttl);
        }
    }

    fn put(&mut self, to: To, owner: &[u8], set: RrsetRef<'v>, ttl: Option<Ttl>) {
        let section = match to {
            To::Answers => &mut self.all.answers,
            To::Authority => &mut self.all.authority,
        };
        section.push(SetAt {
            owner: owner.to_vec(),
            set,
            ttl: ttl.unwrap_or(set.ttl),
        });
    }

    /// How owners are hashed, if they are.
    fn hashing(&self) -> Option<Hashing<'v>> {
        let top = self.contents.get(&[])?;
        let data = top.rrset(Rtype::NSEC3PARAM)?.data().next()?;
        Some(Hashing::read(data)?.0)
    }

    /// The node of a name that exists.
    fn named(&self, key: &[u8]) -> Option<&'v Node> {
        self.contents.get(key).filter(|node| !node.is_hash())
    }

    fn wildcard_of(&self, key: &[u8]) -> Option<&'v Node> {
        self.contents.get(&self.wildcard_key(key))
    }

    /// The key of the wildcard below the closest encloser of a name.
    fn wildcard_key(&self, key: &[u8]) -> Vec<u8> {
        let mut enclosers = SortKey::ends(key).rev().skip(1);
        let encloser = enclosers.find(|end| self.contents.exists(&key[..*end]));
        [&key[..encloser.unwrap_or(0)], b"*\0"].concat()
    }

    fn key_of(&self, name: &[u8]) -> Vec<u8> {
        let mut key = Vec::with_capacity(64);
        SortKey::write(name, self.apex, &mut key);
        key
    }

    /// The name of a key, in lower case.
    fn name_of(&self, key: &[u8]) -> Vec<u8> {
        let mut name = Vec::with_capacity(64);
        SortKey::write_wire(key, &mut name);
        name.extend_from_slice(self.apex);
        name
    }

    fn lower(&self, name: &[u8]) -> Vec<u8> {
        name.to_ascii_lowercase()
    }

    /// The ancestor of a name whose key ends here, in lower case.
    fn ancestor(&self, name: &[u8], key: &[u8], end: usize) -> Vec<u8> {
        let labels = key[end..].iter().filter(|octet| **octet == 0).count();
        let skip = octets_of_labels(name, labels);
        self.lower(name.get(skip..).unwrap_or_default())
    }
}

/// Calls `put` for the signatures of the addresses that [`super::each_additional`] gives, until it returns false.
pub fn each_additional_signature(
    version: &Version,
    rrset: &RrsetRef<'_>,
    scratch: &mut Additionals,
    mut put: impl FnMut(RrRef<'_>) -> bool,
) {
    if !version.contents.is_signed() {
        return;
    }
    let apex = version.contents.apex().as_wire();
    let contents = &version.contents;
    super::each_additional_node(contents, rrset, scratch, |target, node| {
        // Glue has no signatures.
        let is_ours = SortKey::of_wire(target, apex)
            .is_some_and(|key| above(contents, key.as_bytes(), Rtype::A).is_none());
        let signatures = [Rtype::A, Rtype::AAAA].into_iter();
        let signatures = signatures.filter_map(|rtype| node.signatures(rtype));
        let mut records = signatures.flat_map(|set| set.records(target, 0));
        !is_ours || records.all(&mut put)
    });
}

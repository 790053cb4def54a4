//! Catalog zones (RFC 9432): a zone that lists zones.
//!
//! A member's label is a digest of its name, so replicas and a restart with an empty disk give the same label. A
//! member that was removed and comes back gets another label, so that its secondaries discard their old state of the
//! zone (section 5.4). The number of times that a zone was removed is stored below `generation.ext`, a private
//! property (section 4.5) that no secondary reads. It is stored in the catalog, because nothing else is as durable as
//! the catalog.

use std::collections::{BTreeMap, HashMap, HashSet};

use dns::{Name, ParseError, Rdata, Record, Rtype, Ttl};
use ring::digest::{SHA256, digest};

/// The TTL of all records of a catalog. It has no meaning (RFC 9432 section 4).
pub const CATALOG_TTL: Ttl = Ttl::decode(0);
/// The bytes of the digest that become a label of twice as many characters.
const DIGEST_OCTETS: usize = 16;
/// The version of the specification (RFC 9432 section 4.2.1).
const VERSION: &str = "2";
/// The label of the private property.
const GENERATION: &str = "generation";

/// A zone that a catalog lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogMember {
    /// The zone.
    pub zone: Name,
    /// Its groups.
    pub groups: Vec<String>,
    /// The catalog it moves to.
    pub moves_to: Option<Name>,
}

/// The labels and removals that a published catalog records.
#[derive(Debug, Default)]
pub struct CatalogLabels {
    members: HashMap<Name, Vec<u8>>,
    /// The number of times that a zone was removed, by its first label.
    left: BTreeMap<Vec<u8>, u32>,
}

impl CatalogLabels {
    /// Reads one record of the last published catalog.
    pub fn note(&mut self, apex: &Name, owner: &Name, rtype: Rtype, data: &[u8]) {
        let labels: Vec<&[u8]> = owner.labels().collect();
        let own = labels.len().saturating_sub(apex.label_count());
        match (rtype, labels.get(..own)) {
            (Rtype::PTR, Some([label, b"zones"])) => {
                if let Ok(zone) = Name::from_wire(data) {
                    self.members.insert(zone.to_lower(), label.to_vec());
                }
            }
            (Rtype::TXT, Some([label, property, b"ext"])) if *property == GENERATION.as_bytes() => {
                let text = data
                    .get(1..)
                    .and_then(|text| std::str::from_utf8(text).ok());
                if let Some(count) = text.and_then(|text| text.parse().ok()) {
                    self.left.insert(label.to_vec(), count);
                }
            }
            _ => {}
        }
    }

    /// Whether a zone is listed.
    #[must_use]
    pub fn lists(&self, zone: &Name) -> bool {
        self.members.contains_key(zone)
    }

    /// The label of a member: its current one, or its next one.
    fn label(&self, zone: &Name) -> Vec<u8> {
        if let Some(label) = self.members.get(zone) {
            return label.clone();
        }
        let left = self.left.get(&label(zone, 0)).copied().unwrap_or(0);
        label(zone, left)
    }

    /// The number of times that each zone was removed when only `members` are left.
    fn left_after(&self, members: &[CatalogMember]) -> BTreeMap<Vec<u8>, u32> {
        let mut left = self.left.clone();
        let listed: HashSet<&Name> = members.iter().map(|member| &member.zone).collect();
        for zone in self.members.keys() {
            if !listed.contains(zone) {
                *left.entry(label(zone, 0)).or_insert(0) += 1;
            }
        }
        left
    }
}

/// The label of a zone that was removed this many times.
fn label(zone: &Name, left: u32) -> Vec<u8> {
    let mut octets = zone.to_lower().as_wire().to_vec();
    if left > 0 {
        octets.extend_from_slice(&left.to_be_bytes());
    }
    let digest = digest(&SHA256, &octets);
    let (half, _) = digest.as_ref().split_at(DIGEST_OCTETS);
    let hex = half.iter().map(|octet| format!("{octet:02x}"));
    hex.collect::<String>().into_bytes()
}

/// All records of a catalog without its SOA.
///
/// # Errors
/// When the catalog's name is too long for the names of its members.
pub fn catalog_records(
    apex: &Name,
    members: &[CatalogMember],
    labels: &CatalogLabels,
) -> Result<Vec<Record>, ParseError> {
    let mut records = Vec::new();
    let mut put = |owner: Name, rtype, rdata| {
        records.push(Record {
            owner,
            rtype,
            ttl: CATALOG_TTL,
            rdata,
        });
    };
    put(apex.clone(), Rtype::NS, Rdata::name(&invalid()));
    put(apex.child("version")?, Rtype::TXT, Rdata::txt(VERSION));
    let zones = apex.child("zones")?;
    for member in members {
        let owner = zones.child_octets(&labels.label(&member.zone))?;
        for group in &member.groups {
            put(owner.child("group")?, Rtype::TXT, Rdata::txt(group));
        }
        if let Some(to) = &member.moves_to {
            put(owner.child("coo")?, Rtype::PTR, Rdata::name(to));
        }
        put(owner, Rtype::PTR, Rdata::name(&member.zone));
    }
    let generations = apex.child("ext")?.child(GENERATION)?;
    for (label, left) in labels.left_after(members) {
        let owner = generations.child_octets(&label)?;
        put(owner, Rtype::TXT, Rdata::txt(&left.to_string()));
    }
    Ok(records)
}

/// The name server of a catalog, which is never queried (RFC 9432 section 4.1).
#[must_use]
pub fn invalid() -> Name {
    Name::parse("invalid.").expect("one label is a name")
}

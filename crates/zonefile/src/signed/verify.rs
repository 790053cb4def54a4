//! The keys of a zone, and its signatures.

use std::collections::BTreeSet;

use dns::{Name, Rtype};
use domain::base::iana::{Rtype as TheirRtype, SecurityAlgorithm};
use domain::base::rdata::{ComposeRecordData, ParseRecordData};
use domain::base::{ParsedName, ToName};
use domain::crypto::common::PublicKey;
use domain::dep::octseq::Parser;
use domain::rdata::{Dnskey, Rrsig, ZoneRecordData};
use zone::{Node, RrsetRef};

use super::{Kind, Signed, Zone, own_types};
use crate::ZoneFile;

/// The bit of a key that may sign a zone (RFC 4034 section 2.1.1).
const ZONE_KEY: u16 = 256;
/// The octets before the signer's name in the data of a signature.
const BEFORE_SIGNER: usize = 18;
/// RP, AFSDB, RT, PX, KX: their names are in lower case in what is signed (RFC 4034 section 6.2), and the library does
/// not know them. Each with the octets before its names.
const NAMES_AFTER: [(Rtype, usize); 5] = [
    (Rtype(17), 0),
    (Rtype(18), 2),
    (Rtype(21), 2),
    (Rtype(26), 2),
    (Rtype(36), 2),
];

type Signature<'a> = Rrsig<&'a [u8], ParsedName<&'a [u8]>>;

/// A key of the zone.
struct Key {
    tag: u16,
    algorithm: SecurityAlgorithm,
    /// `None` if the algorithm is not known here.
    key: Option<PublicKey>,
}

/// Verifies the signatures of a zone.
pub(super) struct Verifier<'k> {
    keys: Vec<Key>,
    /// A zone with the same keys that was verified.
    known: Option<&'k ZoneFile>,
    begins: (u32, String),
    ends: (u32, String),
}

impl<'k> Verifier<'k> {
    /// Reads the keys. `None` if there are none.
    pub(super) fn new(zone: &mut Zone<'_>, known: Option<&'k ZoneFile>) -> Option<Self> {
        let keys_of = |node: Option<&Node>| -> Vec<Vec<u8>> {
            let keys = node.and_then(|node| node.rrset(Rtype::DNSKEY));
            let data = keys.into_iter().flat_map(|keys| keys.data());
            data.map(<[u8]>::to_vec).collect()
        };
        let data = keys_of(zone.top());
        let keys: Vec<Key> = data.iter().filter_map(|data| read_key(data)).collect();
        if keys.is_empty() {
            let apex = zone.apex;
            let message =
                format!("{apex} is signed and has no DNSKEY that signs zones at its apex");
            zone.note(0, message);
            return None;
        }
        Some(Self {
            keys,
            known: known.filter(|known| keys_of(known.get(&[])) == data),
            begins: (0, String::new()),
            ends: (u32::MAX, String::new()),
        })
    }

    /// Verifies all signatures.
    pub(super) fn verify(mut self, zone: &mut Zone<'_>) -> Option<Signed> {
        for place in 0..zone.nodes.len() {
            if zone.is_full() {
                return None;
            }
            self.owner(zone, place);
        }
        let Self { begins, ends, .. } = self;
        Some(Signed { begins, ends })
    }

    /// Verifies the signatures of one owner.
    fn owner(&mut self, zone: &mut Zone<'_>, place: usize) {
        let (kind, node) = zone.nodes[place];
        let owner = zone.owner(node);
        let wanted: BTreeSet<Rtype> = own_types(kind, node).collect();
        let covered = node.rrsets().filter_map(|rrset| rrset.covered());
        for rtype in covered.filter(|rtype| !wanted.contains(rtype)) {
            let why = match kind {
                Kind::Glue => "it is below a delegation",
                Kind::Cut if node.rrset(rtype).is_some() => "it is delegated",
                Kind::Own | Kind::Cut | Kind::Hash => "there is no such record",
            };
            zone.note(place, format!("{owner} has a signature of {rtype}: {why}"));
        }
        let is_verified = !node.key().is_empty() && {
            let same = self.known.and_then(|known| known.get(node.key()));
            same.is_some_and(|same| same.as_octets() == node.as_octets())
        };
        for rtype in wanted {
            match node.signatures(rtype) {
                None => zone.note(place, format!("{owner} {rtype} has no signature (RRSIG)")),
                Some(signatures) => {
                    let what = What {
                        owner: &owner,
                        rtype,
                        node,
                    };
                    if let Err(message) = self.set(zone, &what, signatures, is_verified) {
                        zone.note(place, message);
                    }
                }
            }
        }
    }

    /// Verifies the signatures of one RRset.
    fn set(
        &mut self,
        zone: &Zone<'_>,
        what: &What<'_>,
        signatures: RrsetRef<'_>,
        is_verified: bool,
    ) -> Result<(), String> {
        let mut records = None;
        let mut valid: Option<(u32, u32)> = None;
        let mut unknown = None;
        for data in signatures.data() {
            let signature = read_signature(data)
                .ok_or_else(|| format!("{what} has a signature that cannot be read"))?;
            self.check_form(zone.apex, what, &signature)?;
            let (tag, algorithm) = (signature.key_tag(), signature.algorithm());
            let of_key = |key: &&Key| key.tag == tag && key.algorithm == algorithm;
            let mut keys = self.keys.iter().filter(of_key).peekable();
            if keys.peek().is_none() {
                unknown = Some(format!(
                    "key {tag}, algorithm {algorithm}, is not in the zone"
                ));
                continue;
            }
            let keys: Vec<_> = keys.filter_map(|key| key.key.as_ref()).collect();
            if keys.is_empty() {
                unknown = Some(format!(
                    "algorithm {algorithm} of key {tag} is not known here"
                ));
                continue;
            }
            if !is_verified {
                let records = records.get_or_insert_with(|| canonical(zone, what));
                let signed = to_be_signed(data, &signature, what.owner, records);
                let octets = signature.signature();
                if !keys.iter().any(|key| key.verify(&signed, octets).is_ok()) {
                    return Err(format!("the signature of {what} by key {tag} is wrong"));
                }
            }
            let begins = signature.inception().into_int();
            let ends = signature.expiration().into_int();
            // A resolver takes any signature that is valid (RFC 4035 section 5.3.3).
            valid = Some(valid.map_or((begins, ends), |(first, last)| {
                (first.min(begins), last.max(ends))
            }));
        }
        match (valid, unknown) {
            (Some(valid), _) => self.note(what, valid),
            (None, Some(why)) => {
                return Err(format!("no signature of {what} can be verified: {why}"));
            }
            (None, None) => {}
        }
        Ok(())
    }

    /// Notes when the signatures of an RRset begin and end to be valid.
    fn note(&mut self, what: &What<'_>, (begins, ends): (u32, u32)) {
        if begins >= self.begins.0 {
            self.begins = (begins, what.to_string());
        }
        if ends <= self.ends.0 {
            self.ends = (ends, what.to_string());
        }
    }

    /// Checks the fields of a signature (RFC 4035 section 5.3.1).
    fn check_form(
        &self,
        apex: &Name,
        what: &What<'_>,
        signature: &Signature<'_>,
    ) -> Result<(), String> {
        let signer: Vec<u8> = signature.signer_name().to_vec().into_octets();
        if !signer.eq_ignore_ascii_case(apex.as_wire()) {
            return Err(format!("a signature of {what} is by another zone"));
        }
        let is_wildcard = what.owner.labels().next() == Some(b"*");
        let labels = what.owner.label_count() - usize::from(is_wildcard);
        if usize::from(signature.labels()) != labels {
            return Err(format!(
                "a signature of {what} is for a name of {} labels",
                signature.labels()
            ));
        }
        Ok(())
    }
}

/// An RRset.
struct What<'a> {
    owner: &'a Name,
    rtype: Rtype,
    node: &'a Node,
}

impl std::fmt::Display for What<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.owner, self.rtype)
    }
}

fn read_key(data: &[u8]) -> Option<Key> {
    let ([high, low, protocol, algorithm], public) = data.split_first_chunk()?;
    let flags = u16::from_be_bytes([*high, *low]);
    if flags & ZONE_KEY == 0 || *protocol != 3 {
        return None;
    }
    let algorithm = SecurityAlgorithm::from_int(*algorithm);
    let key = Dnskey::new(flags, *protocol, algorithm, public).ok()?;
    Some(Key {
        tag: key.key_tag(),
        algorithm,
        key: PublicKey::from_dnskey(&key).ok(),
    })
}

fn read_signature(data: &[u8]) -> Option<Signature<'_>> {
    let mut parser = Parser::from_ref(data);
    let signature = Signature::parse(&mut parser).ok()?;
    (parser.remaining() == 0).then_some(signature)
}

/// The data of the records of an RRset, in canonical form and order (RFC 4034 sections 6.2 and 6.3).
fn canonical(zone: &Zone<'_>, what: &What<'_>) -> Vec<Vec<u8>> {
    let rtype = what.rtype;
    let mut all: Vec<Vec<u8>> = match what.node.rrset(rtype) {
        None => {
            let soa = zone.soa.rdata(zone.serial);
            vec![canonical_data(rtype, soa.as_octets())]
        }
        Some(set) => set.data().map(|data| canonical_data(rtype, data)).collect(),
    };
    all.sort_unstable();
    all.dedup();
    all
}

fn canonical_data(rtype: Rtype, data: &[u8]) -> Vec<u8> {
    let mut parser = Parser::from_ref(data);
    let theirs = TheirRtype::from_int(rtype.0);
    let read = ZoneRecordData::<&[u8], ParsedName<&[u8]>>::parse_rdata(theirs, &mut parser);
    let mut octets = Vec::with_capacity(data.len());
    if let Ok(Some(read)) = read
        && read.compose_canonical_rdata(&mut octets).is_ok()
        && octets.len() == data.len()
    {
        let names = NAMES_AFTER.iter().find(|(it, _)| *it == rtype);
        if let Some((_, at)) = names
            && let Some(names) = octets.get_mut(*at..)
        {
            // The length of a label is no letter.
            names.make_ascii_lowercase();
        }
        return octets;
    }
    data.to_vec()
}

/// What a signature signs (RFC 4034 section 3.1.8.1).
fn to_be_signed(
    data: &[u8],
    signature: &Signature<'_>,
    owner: &Name,
    records: &[Vec<u8>],
) -> Vec<u8> {
    let owner = owner.to_lower();
    let mut signed = data[..BEFORE_SIGNER].to_vec();
    let signer: Vec<u8> = signature.signer_name().to_vec().into_octets();
    signed.extend(signer.to_ascii_lowercase());
    for record in records {
        signed.extend_from_slice(owner.as_wire());
        signed.extend_from_slice(&data[..2]);
        signed.extend_from_slice(&[0, 1]);
        signed.extend_from_slice(&data[4..8]);
        let length = u16::try_from(record.len()).unwrap_or(u16::MAX);
        signed.extend_from_slice(&length.to_be_bytes());
        signed.extend_from_slice(record);
    }
    signed
}

//! Checks each owner of a zone before a version is published, so that secondaries accept it.
//!
//! A fault stops the version: every secondary would refuse it, or it would break a transfer. A warning names the
//! server that refuses the zone in its default configuration. Records outside the zone, duplicates and mixed TTLs
//! need no check: a [`Node`] cannot hold them. Nor do serials that go back: the journal cannot hold them.

use std::fmt;

use dns::{MAX_MESSAGE_OCTETS, Name, Rtype, Serial};

use crate::Node;

/// Bytes of a message besides its question and records: header (12), OPT without options (11).
const HEADER_AND_OPT: usize = 12 + 11;
/// The largest TSIG record: owner, type, class, TTL and length, algorithm, fixed fields, the MAC of the longest hash,
/// the server's time (RFC 8945 section 4.2).
const TSIG: usize = 255 + 10 + 13 + 16 + 64 + 6;
/// The most records of an RRset, and types of a name, that BIND 9.18.28 and later take: its
/// `max-records-per-type` and `max-types-per-name`.
const BIND_LIMIT: usize = 100;
/// The most records of an RRset that NSD holds.
const NSD_LIMIT: usize = 65_535;

/// A reason why every secondary would refuse the zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// A CNAME or DNAME beside other records (RFC 2181 section 10.1), or a CNAME at the apex.
    AliasBeside {
        /// The owner.
        owner: String,
        /// CNAME or DNAME.
        alias: Rtype,
    },
    /// A SOA below the apex.
    Soa {
        /// The owner.
        owner: String,
    },
    /// No NS at the apex (RFC 1034 section 4.2.1).
    NoNameServer {
        /// The zone.
        zone: String,
    },
    /// A signed zone whose serial is not after the one that is published (RFC 1982).
    SerialBehind {
        /// The zone.
        zone: String,
        /// Its serial.
        serial: Serial,
        /// The published one.
        published: Serial,
    },
    /// A record that does not fit into a message together with its question, OPT and TSIG.
    TooLarge {
        /// The owner.
        owner: String,
        /// The type.
        rtype: Rtype,
        /// The size of the record.
        octets: usize,
        /// The space that a message has for it.
        room: usize,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AliasBeside { owner, alias } => {
                write!(
                    f,
                    "{owner} has {alias} beside records that are not allowed there"
                )
            }
            Self::Soa { owner } => write!(f, "{owner} has a SOA of its own"),
            Self::NoNameServer { zone } => write!(f, "{zone} has no NS at its apex"),
            Self::SerialBehind {
                zone,
                serial,
                published,
            } => write!(
                f,
                "{zone} is signed with serial {serial}, which is not after {published}, the published one: raise it and \
                 sign again"
            ),
            Self::TooLarge {
                owner,
                rtype,
                octets,
                room,
            } => write!(
                f,
                "a {rtype} record of {owner} has {octets} bytes, but a message has room for {room}"
            ),
        }
    }
}

/// A reason why some secondaries refuse the zone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Warning {
    /// More records in an RRset than BIND or NSD takes.
    Records {
        /// The owner.
        owner: String,
        /// The type.
        rtype: Rtype,
        /// Their number.
        count: usize,
    },
    /// More types at an owner than BIND takes.
    Types {
        /// The owner.
        owner: String,
        /// Their number.
        count: usize,
    },
    /// A delegation at a wildcard (RFC 4592 section 4.2).
    WildcardCut {
        /// The owner.
        owner: String,
    },
}

impl Warning {
    /// Whether both are the same warning apart from its numbers. Such a warning is logged once.
    #[must_use]
    pub fn is_about_the_same(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Records {
                    owner,
                    rtype,
                    count,
                },
                Self::Records {
                    owner: other,
                    rtype: other_type,
                    count: other_count,
                },
            ) => {
                owner == other
                    && rtype == other_type
                    && (*count > NSD_LIMIT) == (*other_count > NSD_LIMIT)
            }
            (
                Self::Types { owner, count: _ },
                Self::Types {
                    owner: other,
                    count: _,
                },
            )
            | (Self::WildcardCut { owner }, Self::WildcardCut { owner: other }) => owner == other,
            (
                Self::Records { .. } | Self::Types { .. } | Self::WildcardCut { .. },
                Self::Records { .. } | Self::Types { .. } | Self::WildcardCut { .. },
            ) => false,
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Records {
                owner,
                rtype,
                count,
            } if *count > NSD_LIMIT => write!(
                f,
                "{owner} has {count} {rtype} records: NSD refuses the zone, it takes {NSD_LIMIT} at most; BIND \
                 does above {BIND_LIMIT} unless max-records-per-type is raised"
            ),
            Self::Records {
                owner,
                rtype,
                count,
            } => write!(
                f,
                "{owner} has {count} {rtype} records: BIND refuses the zone above {BIND_LIMIT} unless \
                 max-records-per-type is raised"
            ),
            Self::Types { owner, count } => write!(
                f,
                "{owner} has records of {count} types: BIND refuses the zone above {BIND_LIMIT} unless \
                 max-types-per-name is raised"
            ),
            Self::WildcardCut { owner } => write!(
                f,
                "{owner} is a wildcard with NS records: servers differ in how they treat it"
            ),
        }
    }
}

impl Fault {
    /// The fault of a record whose data has this size, if no message has room for it.
    #[must_use]
    pub fn of_size(apex: &Name, owner: &[u8], rtype: Rtype, data_octets: usize) -> Option<Self> {
        let room = usize::from(u16::MAX).min(MAX_MESSAGE_OCTETS)
            - (HEADER_AND_OPT + apex.as_wire().len() + 4 + TSIG);
        let octets = owner.len() + 10 + data_octets;
        (octets > room).then(|| Self::TooLarge {
            owner: text(owner),
            rtype,
            octets,
            room,
        })
    }
}

/// A name in wire form as text.
fn text(wire: &[u8]) -> String {
    Name::from_wire(wire).map_or_else(|_| wire.escape_ascii().to_string(), |it| it.to_string())
}

/// The faults and warnings of one owner.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Findings {
    /// Reasons why every secondary would refuse the zone.
    pub faults: Vec<Fault>,
    /// Reasons why some secondaries refuse it.
    pub warnings: Vec<Warning>,
}

/// Checks the records of one owner. `node` is `None` when the owner has none; `key` is its sort key. An apex without
/// records is checked too: it lacks its NS. Costs a pass over the owner's records.
#[must_use]
pub fn check(apex: &Name, key: &[u8], node: Option<&Node>) -> Findings {
    let mut findings = Findings::default();
    let has_servers = node.is_some_and(|node| node.rrset(Rtype::NS).is_some());
    if key.is_empty() && !has_servers {
        findings.faults.push(Fault::NoNameServer {
            zone: apex.to_string(),
        });
    }
    let Some(node) = node else { return findings };
    let wire = node.owner_wire(apex);
    let text = || text(&wire);
    let (mut types, mut beside_alias) = (0, 0);
    for rrset in node.rrsets() {
        types += 1;
        beside_alias += usize::from(matches!(rrset.rtype, Rtype::RRSIG | Rtype::NSEC));
        let longest = rrset.data().map(<[u8]>::len).max().unwrap_or_default();
        let too_large = Fault::of_size(apex, &wire, rrset.rtype, longest);
        findings.faults.extend(too_large);
        if rrset.count > BIND_LIMIT {
            findings.warnings.push(Warning::Records {
                owner: text(),
                rtype: rrset.rtype,
                count: rrset.count,
            });
        }
    }
    if types > BIND_LIMIT {
        findings.warnings.push(Warning::Types {
            owner: text(),
            count: types,
        });
    }
    let count = |rtype| node.rrset(rtype).map_or(0, |rrset| rrset.count);
    if count(Rtype::SOA) > 0 {
        findings.faults.push(Fault::Soa { owner: text() });
    }
    let stands_wrong = |alias| match alias {
        Rtype::CNAME => key.is_empty() || types - beside_alias > 1 || count(alias) > 1,
        // RFC 6672 section 2.4.
        _ => count(alias) > 1 || (!key.is_empty() && count(Rtype::NS) > 0),
    };
    for alias in [Rtype::CNAME, Rtype::DNAME] {
        if count(alias) > 0 && stands_wrong(alias) {
            findings.faults.push(Fault::AliasBeside {
                owner: text(),
                alias,
            });
        }
    }
    if wire.starts_with(b"\x01*") && count(Rtype::NS) > 0 {
        findings
            .warnings
            .push(Warning::WildcardCut { owner: text() });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use dns::{Rdata, Ttl};

    /// The findings for an owner with these records: type and number of records, each of this size in bytes.
    fn said(owner: &str, records: &[(u16, usize, usize)]) -> Vec<String> {
        let apex: Name = "z.".parse().unwrap();
        let owner: Name = owner.parse().unwrap();
        let mut parts = Vec::new();
        for (rtype, count, octets) in records {
            for number in 0..*count {
                let mut data = vec![0; *octets];
                let digits = u32::try_from(number).unwrap().to_be_bytes();
                data[..4].copy_from_slice(&digits);
                let rdata = Rdata::from_octets(&data).unwrap();
                parts.push((Rtype(*rtype), Ttl::decode(5), rdata));
            }
        }
        let key = owner.sort_key(&apex).unwrap();
        let node = Node::build(&owner, &apex, &mut parts);
        let found = check(&apex, key.as_bytes(), node.as_ref());
        let faults = found.faults.iter().map(ToString::to_string);
        let warnings = found.warnings.iter().map(ToString::to_string);
        faults.chain(warnings).collect()
    }

    #[test]
    fn what_no_secondary_takes_is_named() {
        for (owner, records, want) in [
            ("z.", &[(2, 1, 4)][..], None),
            ("z.", &[], Some("z. has no NS at its apex")),
            ("z.", &[(1, 1, 4)], Some("z. has no NS at its apex")),
            (
                "z.",
                &[(2, 1, 4), (5, 1, 4)],
                Some("z. has CNAME beside records that are not allowed there"),
            ),
            ("a.z.", &[(5, 1, 4)], None),
            (
                "a.z.",
                &[(5, 2, 4)],
                Some("a.z. has CNAME beside records that are not allowed there"),
            ),
            (
                "a.z.",
                &[(1, 1, 4), (5, 1, 4)],
                Some("a.z. has CNAME beside records that are not allowed there"),
            ),
            ("a.z.", &[(39, 1, 4), (1, 1, 4)], None),
            ("z.", &[(2, 1, 4), (39, 1, 4)], None),
            (
                "a.z.",
                &[(2, 1, 4), (39, 1, 4)],
                Some("a.z. has DNAME beside records that are not allowed there"),
            ),
            (
                "a.z.",
                &[(39, 2, 4)],
                Some("a.z. has DNAME beside records that are not allowed there"),
            ),
            ("a.z.", &[(6, 1, 4)], Some("a.z. has a SOA of its own")),
        ] {
            let said = said(owner, records);
            assert_eq!(
                said.first().map(String::as_str),
                want,
                "{owner} {records:?}"
            );
        }
    }

    #[test]
    fn a_record_has_to_leave_room_for_question_opt_and_tsig() {
        // 65 535 - 12 - 11 - (3 + 4) - 364 octets; the record is 5 + 10 and its data.
        let room = 65_535 - 12 - 11 - 7 - 364;
        assert!(said("a.z.", &[(16, 1, room - 15)]).is_empty());
        let too_large = said("a.z.", &[(16, 1, room - 14)]);
        assert_eq!(
            too_large,
            [format!(
                "a TXT record of a.z. has {} bytes, but a message has room for {room}",
                room + 1
            )]
        );
    }

    #[test]
    fn what_some_secondaries_refuse_is_a_warning_that_names_them() {
        assert!(said("a.z.", &[(1, 100, 4)]).is_empty());
        let many = said("a.z.", &[(1, 101, 4)]);
        assert!(
            many[0].starts_with("a.z. has 101 A records: BIND refuses"),
            "{many:?}"
        );
        let more = said("a.z.", &[(1, 65_536, 4)]);
        assert!(more[0].contains("NSD refuses"), "{more:?}");
        let types: Vec<_> = (1000..1101).map(|rtype| (rtype, 1, 4)).collect();
        assert!(said("a.z.", &types[..100]).is_empty());
        assert!(said("a.z.", &types)[0].contains("101 types"));
        assert!(said("*.z.", &[(2, 1, 4)])[0].contains("wildcard"));
    }
}

//! What a server has to answer that holds these zones and nothing else: RFC 1034 section 4.3.2, with
//! RFC 4592's wildcards, RFC 6672's DNAMEs and RFC 8020's names between names.

use std::collections::{BTreeMap, BTreeSet};

use super::wire::{CNAME, DNAME, Message, NS, Record, SOA};

/// How many aliases are followed.
const CHAIN: usize = 10;

/// The contents of some zones, as transferred.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    zones: BTreeSet<String>,
    rrsets: BTreeMap<(String, u16), BTreeSet<Record>>,
    nodes: BTreeSet<String>,
}

/// Response code and answers; an SOA of which zone in the authority section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub rcode: u16,
    pub answers: BTreeSet<Record>,
    pub soa: Option<String>,
}

impl Reply {
    /// What a message says.
    pub fn of(message: &Message) -> Self {
        let soa = message.authority.iter().find(|record| record.rtype == SOA);
        Self {
            rcode: message.rcode(),
            answers: message.answers.iter().cloned().collect(),
            soa: soa.map(|record| record.owner.clone()),
        }
    }
}

/// Whether a name is a zone or lies in it; both in lower case.
pub fn is_below(name: &str, zone: &str) -> bool {
    name == zone || name.ends_with(&format!(".{zone}"))
}

/// The name without its first label.
pub fn parent(name: &str) -> Option<&str> {
    let octets = name.as_bytes();
    let end = (0..octets.len())
        .find(|at| octets[*at] == b'.' && (*at == 0 || octets[*at - 1] != b'\\'))?;
    Some(&name[end + 1..]).filter(|rest| !rest.is_empty())
}

impl Contents {
    /// Adds a zone as it was transferred.
    pub fn add(&mut self, zone: &str, records: Vec<Record>) {
        self.zones.insert(zone.to_owned());
        self.nodes.insert(zone.to_owned());
        for record in records {
            let mut rest = record.owner.as_str();
            while rest.len() > zone.len() {
                self.nodes.insert(rest.to_owned());
                rest = parent(rest).expect("the zone is shorter");
            }
            let key = (record.owner.clone(), record.rtype);
            self.rrsets.entry(key).or_default().insert(record);
        }
    }

    /// All names with records, and all between them and their zones.
    pub fn nodes(&self) -> &BTreeSet<String> {
        &self.nodes
    }

    /// The longest zone above a name.
    pub fn zone_of(&self, name: &str) -> Option<&str> {
        let above = self.zones.iter().filter(|zone| is_below(name, zone));
        above.max_by_key(|zone| zone.len()).map(String::as_str)
    }

    /// Whether a name lies at or below a delegation: then the answer is not this zone's.
    pub fn is_delegated(&self, name: &str) -> bool {
        let zone = self.zone_of(name).unwrap_or(name);
        self.rrsets.keys().any(|(owner, rtype)| {
            *rtype == NS
                && owner.len() > zone.len()
                && is_below(owner, zone)
                && is_below(name, owner)
        })
    }

    /// The wildcard that stands for a name that is not there.
    fn wildcard(&self, name: &str) -> Option<String> {
        let mut rest = name;
        while !self.nodes.contains(rest) {
            rest = parent(rest)?;
        }
        Some(format!("*.{rest}")).filter(|star| rest != name && self.nodes.contains(star))
    }

    /// The answer.
    pub fn answer(&self, name: &str, qtype: u16) -> Reply {
        self.follow(name, qtype, 0)
    }

    /// The DNAME that redirects a name, and the CNAME that it makes.
    fn redirection(&self, name: &str) -> Option<[Record; 2]> {
        let zone = self.zone_of(name)?;
        let above = std::iter::successors(parent(name), |name| parent(name));
        let mut above = above.filter(|owner| is_below(owner, zone));
        let dname = above.find_map(|owner| self.rrsets.get(&(owner.to_owned(), DNAME)))?;
        let dname = dname.first().expect("an RRset is not empty").clone();
        let cname = Record {
            owner: name.to_owned(),
            rtype: CNAME,
            data: format!("{}{}", &name[..name.len() - dname.owner.len()], dname.data),
            ..dname.clone()
        };
        Some([dname, cname])
    }

    fn follow(&self, name: &str, qtype: u16, depth: usize) -> Reply {
        if let Some([dname, cname]) = self.redirection(name) {
            // A CNAME is the answer to a question for one.
            let mut reply = match qtype {
                CNAME => Reply {
                    rcode: 0,
                    answers: BTreeSet::new(),
                    soa: None,
                },
                _ => self.follow_alias(name, &cname.data, qtype, depth),
            };
            reply.answers.extend([dname, cname]);
            return reply;
        }
        let star = self.wildcard(name);
        let node = star.as_deref().unwrap_or(name);
        let rrset = |rtype: u16| -> Option<BTreeSet<Record>> {
            let records = self.rrsets.get(&(node.to_owned(), rtype))?;
            let named = |record: &Record| Record {
                owner: name.to_owned(),
                ..record.clone()
            };
            Some(records.iter().map(named).collect())
        };
        if let Some(answers) = rrset(qtype) {
            return Reply {
                rcode: 0,
                answers,
                soa: None,
            };
        }
        let Some(alias) = rrset(CNAME) else {
            return Reply {
                rcode: if self.nodes.contains(node) { 0 } else { 3 },
                answers: BTreeSet::new(),
                soa: self.zone_of(name).map(str::to_owned),
            };
        };
        let target = alias.first().expect("an RRset is not empty").data.clone();
        let mut reply = self.follow_alias(name, &target, qtype, depth);
        reply.answers.extend(alias);
        reply
    }

    /// The answer to the target of an alias, empty if the alias leaves its zone.
    fn follow_alias(&self, name: &str, target: &str, qtype: u16, depth: usize) -> Reply {
        if depth < CHAIN && self.zone_of(target) == self.zone_of(name) {
            return self.follow(target, qtype, depth + 1);
        }
        Reply {
            rcode: 0,
            answers: BTreeSet::new(),
            soa: None,
        }
    }
}

//! What zonewright has to answer, made of CoreDNS's answers and the table of differences.
//!
//! CoreDNS is asked everything first. Where it answers with records, those are the contents of the zone,
//! after the rules of the rows of `tests/differences` have changed them. What the zone answers follows from
//! its contents as RFC 1034 and RFC 8020 say, and from nothing of ours. Where that is not what CoreDNS
//! says, a difference has to give the reason.

use std::collections::{BTreeMap, BTreeSet};

use super::answer::{Answer, CD, DATA_TYPES, NOERROR, NXDOMAIN, Question};
use super::cluster::Cluster;
use super::options::{OptionSet, is_reverse};
use super::rules;
use super::shape::{Shape, clusterset_shape, external_shape, shape, zone_of};
use crate::differences::{self, Shown};
use crate::support::contents::is_below;
use crate::support::wire::{A, AAAA, ANY, CNAME, NS, PTR, Record, SOA, SRV};

/// How many aliases are followed.
const CHAIN: usize = 10;

/// The records of one name and type, and what goes with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Data {
    pub records: BTreeSet<Record>,
    pub additional: BTreeSet<Record>,
}

/// The contents of all zones of an option set.
pub struct Oracle<'a> {
    pub set: &'a OptionSet,
    pub cluster: &'a Cluster,
    pub zones: Vec<String>,
    /// By question in lower case.
    pub theirs: BTreeMap<Question, Answer>,
    pub data: BTreeMap<(String, u16), Data>,
    /// The differences that changed what stands at a name.
    pub changed: BTreeMap<String, BTreeSet<&'static str>>,
    /// Names with something at them or below.
    nodes: BTreeSet<String>,
}

/// An answer to expect; for ANY there may be several.
pub struct Expected {
    pub answers: Vec<Answer>,
    /// The differences that explain that CoreDNS's answer is another.
    pub because: BTreeSet<&'static str>,
}

impl<'a> Oracle<'a> {
    /// The contents by CoreDNS's answers.
    pub fn new(
        set: &'a OptionSet,
        cluster: &'a Cluster,
        theirs: BTreeMap<Question, Answer>,
    ) -> Self {
        let mut oracle = Self {
            set,
            cluster,
            zones: set.zone_names(),
            theirs,
            data: BTreeMap::new(),
            changed: BTreeMap::new(),
            nodes: BTreeSet::new(),
        };
        oracle.collect();
        rules::change(&mut oracle);
        oracle.find_nodes();
        rules::drop_pointers(&mut oracle);
        rules::owned_pointers(&mut oracle);
        oracle.find_nodes();
        oracle
    }

    /// The zone of a name; every name asked lies in one.
    pub fn zone_of(&self, name: &str) -> &str {
        zone_of(name, &self.zones).unwrap_or_else(|| panic!("{name} is in no zone"))
    }

    pub fn shape_of(&self, name: &str) -> Shape {
        let zone = self.zone_of(name);
        let found = if self.set.is_external(zone) {
            external_shape(name, zone, self.set.apex())
        } else if self.set.is_clusterset(zone) {
            clusterset_shape(name, zone)
        } else {
            shape(name, zone)
        };
        if found == Shape::Zonal && !self.set.says("zonal") {
            Shape::Other
        } else {
            found
        }
    }

    /// Notes that a difference changed what stands at a name.
    pub fn note(&mut self, name: &str, difference: &'static str) {
        let mut rows = differences::all();
        let is_known = rows.any(|it| it.id == difference && it.shown == Shown::Clusters);
        assert!(is_known, "no difference {difference}");
        self.changed
            .entry(name.to_owned())
            .or_default()
            .insert(difference);
    }

    /// Takes all records that CoreDNS answered with, by owner and type.
    fn collect(&mut self) {
        for (question, answer) in &self.theirs {
            let own: BTreeSet<Record> = answer
                .answers
                .iter()
                .filter(|record| record.owner == question.name)
                .cloned()
                .collect();
            for record in own {
                let wanted = DATA_TYPES.contains(&record.rtype)
                    && (record.rtype == question.qtype || record.rtype == CNAME);
                if wanted {
                    let key = (record.owner.clone(), record.rtype);
                    let data = self.data.entry(key).or_default();
                    data.records.insert(record.clone());
                    if record.rtype == question.qtype {
                        data.additional.clone_from(&answer.additional);
                    }
                }
            }
        }
    }

    /// Names with records, and all between them and their zones.
    fn find_nodes(&mut self) {
        let mut nodes: BTreeSet<String> = self.zones.iter().cloned().collect();
        // Names by topology zone are the live layer's, and exist without records.
        let live = self.theirs.iter().filter(|(question, answer)| {
            let zonal = question.qtype == A && self.shape_of(&question.name) == Shape::Zonal;
            zonal && !answer.is_nxdomain()
        });
        let live = live.map(|(question, _)| &question.name);
        for name in self.data.keys().map(|(name, _)| name).chain(live) {
            let zone = self.zone_of(name).to_owned();
            let mut rest = name.as_str();
            let zonal = self.shape_of(name) == Shape::Zonal;
            while rest.len() > zone.len() && (!zonal || rest.contains("_zone.")) {
                nodes.insert(rest.to_owned());
                rest = rest.split_once('.').expect("the zone is shorter").1;
            }
        }
        self.nodes = nodes;
    }

    /// Whether there is something at a name or below.
    pub fn exists(&self, name: &str) -> bool {
        self.nodes.contains(name)
    }

    /// The records of a name and type.
    pub fn records(&self, name: &str, qtype: u16) -> Option<&Data> {
        self.data.get(&(name.to_owned(), qtype))
    }

    /// Our SOA of a zone, serial aside.
    fn soa(&self, zone: &str) -> Record {
        let server = rules::name_server(self, zone);
        let ttl = self.set.ttl_of(zone);
        let apex = if self.set.is_external(zone) {
            format!("{}.", self.set.apex())
        } else {
            String::new()
        };
        Record {
            owner: zone.to_owned(),
            rtype: SOA,
            data: format!("{server} hostmaster.{apex}{zone} 0 300 30 86400 {ttl}"),
            ttl,
            class: 1,
        }
    }

    /// An answer without records.
    fn negative(&self, name: &str) -> Answer {
        let zone = self.zone_of(name);
        Answer {
            rcode: if self.exists(name) { NOERROR } else { NXDOMAIN },
            aa: true,
            authority: BTreeSet::from([self.soa(zone)]),
            ..Answer::default()
        }
    }

    /// An answer with records.
    fn positive(data: &Data) -> Answer {
        Answer {
            aa: true,
            answers: data.records.clone(),
            additional: data.additional.clone(),
            ..Answer::default()
        }
    }

    /// What the zones answer.
    fn resolve(&self, name: &str, qtype: u16, depth: usize) -> Answer {
        if qtype == SOA && self.zones.iter().any(|zone| zone == name) {
            return Self::positive(&Data {
                records: BTreeSet::from([self.soa(name)]),
                additional: BTreeSet::new(),
            });
        }
        if let Some(data) = self.records(name, qtype) {
            return Self::positive(data);
        }
        let Some(alias) = self.records(name, CNAME) else {
            return self.negative(name);
        };
        let target = alias
            .records
            .first()
            .expect("an RRset is not empty")
            .data
            .clone();
        let mut answer = Answer {
            aa: true,
            ..Answer::default()
        };
        if depth < CHAIN && zone_of(&target, &self.zones) == Some(self.zone_of(name)) {
            answer = self.resolve(&target, qtype, depth + 1);
        }
        answer.answers.extend(alias.records.iter().cloned());
        answer
    }

    /// What we must answer where CoreDNS answers so, and why it answers otherwise.
    ///
    /// # Errors
    /// When CoreDNS answers otherwise and no difference says why.
    pub fn expect(&self, question: &Question, theirs: &Answer) -> Result<Expected, String> {
        let name = question.lower();
        let folded = Question::new(&name, question.qtype);
        let answers = if question.qtype == ANY {
            self.any(&name)
        } else {
            vec![self.resolve(&name, question.qtype, 0)]
        };
        let plain = answers[0].clone().to(&folded);
        let mut because = self.explain(&folded, &self.theirs[&folded], &plain)?;
        let answers: Vec<Answer> = answers.into_iter().map(|it| it.to(question)).collect();
        if !self.theirs[&folded].same(theirs) {
            let zone = self.zone_of(&name);
            let tops = ["", "dns.", "ns.dns."].map(|label| format!("{label}{zone}"));
            if tops.contains(&name) || self.shape_of(&name) == Shape::NameServer {
                because.insert("case");
            } else if self.is_random(&name) {
                because.insert("fqdn");
            } else {
                let before = &self.theirs[&folded];
                return Err(format!("in small letters CoreDNS says\n{before}"));
            }
        }
        if !theirs.silent && theirs.spelled != answers[0].spelled && name != question.name {
            because.insert("capitals");
        }
        Ok(Expected { answers, because })
    }

    /// Whether CoreDNS's answers to equal questions for a name may differ: FQDN endpoints lead there.
    fn is_random(&self, name: &str) -> bool {
        let alias = self.records(name, CNAME).into_iter();
        let targets = alias.flat_map(|it| &it.records).map(|it| it.data.as_str());
        let names: Vec<&str> = targets.chain([name]).collect();
        let with_hosts = rules::names_with_hosts_of(self, |_| true);
        let mut with_hosts = with_hosts.iter();
        with_hosts.any(|host| names.iter().any(|name| is_below(name, host)))
    }

    /// The answers to ANY that are right.
    fn any(&self, name: &str) -> Vec<Answer> {
        let mut all: Vec<Answer> = DATA_TYPES
            .into_iter()
            .chain([NS])
            .filter_map(|qtype| self.records(name, qtype))
            .map(Self::positive)
            .collect();
        if self.zones.iter().any(|zone| zone == name) {
            all.push(self.resolve(name, SOA, 0));
        }
        if all.is_empty() {
            all.push(self.negative(name));
        }
        all
    }

    /// The differences between CoreDNS's answer and the one expected.
    fn explain(
        &self,
        question: &Question,
        theirs: &Answer,
        expected: &Answer,
    ) -> Result<BTreeSet<&'static str>, String> {
        let mut because = BTreeSet::new();
        let mut rest = theirs.clone();
        if rest.repeats {
            because.insert("repeats");
        }
        if rest.flags == expected.flags | CD {
            because.insert("checking-disabled");
            rest.flags = expected.flags;
        }
        if !rest.silent && (rest.flags, &rest.opt) != (expected.flags, &expected.opt) {
            return Err("no difference explains CoreDNS's flags or OPT".to_owned());
        }
        let answered = [true, false];
        for (section, is_answer) in [&mut rest.answers, &mut rest.authority]
            .into_iter()
            .zip(answered)
        {
            let own: Vec<Record> = section
                .iter()
                .filter(|it| it.rtype == SOA)
                .cloned()
                .collect();
            for record in own {
                section.remove(&record);
                let ours = self.soa(&record.owner);
                if is_answer && ours != record {
                    because.insert("soa");
                }
                section.insert(ours);
            }
        }
        if rest.same(expected) {
            return Ok(because);
        }
        let found = self.reason(question, &rest, expected);
        if found.is_empty() {
            return Err("no difference explains what CoreDNS says".to_owned());
        }
        because.extend(found);
        Ok(because)
    }

    /// Why CoreDNS's answer is not the expected one.
    fn reason(
        &self,
        question: &Question,
        theirs: &Answer,
        expected: &Answer,
    ) -> BTreeSet<&'static str> {
        let name = &question.name;
        let one = |difference| BTreeSet::from([difference]);
        let shape = self.shape_of(name);
        let reverse = is_reverse(self.zone_of(name));
        if theirs.silent || theirs.rcode == 2 {
            return rules::failure(self, question, theirs);
        }
        if question.qtype == ANY && !expected.is_negative() {
            return one("any");
        }
        if question.qtype == NS && shape == Shape::Apex {
            return one("ns");
        }
        let changed = self.changed.get(name).cloned().unwrap_or_default();
        if self.records(name, CNAME).is_some() {
            return self.reason_of_alias(question, theirs, expected);
        }
        if !theirs.is_negative() {
            // Records that a rule changed or dropped, here or at the targets.
            return changed;
        }
        match (theirs.is_nxdomain(), expected) {
            (_, expected) if !expected.is_negative() => changed,
            (true, expected) if expected.is_nodata() => {
                let own = DATA_TYPES
                    .iter()
                    .any(|qtype| self.records(name, *qtype).is_some());
                let asked = self.theirs.get(&Question::new(name, A));
                let known = asked.is_some_and(|answer| !answer.is_nxdomain());
                if shape == Shape::NameServer {
                    one("ns")
                } else if !own && !known && shape != Shape::Apex {
                    one("ent")
                } else {
                    one("types")
                }
            }
            (false, expected) if expected.is_nxdomain() => {
                if shape == Shape::NameServer {
                    one("ns")
                } else if reverse && shape == Shape::Other && question.qtype != SOA {
                    one("reverse")
                } else if !changed.is_empty() {
                    changed
                } else if shape == Shape::Level && question.qtype != SOA {
                    one("empty")
                } else if question.qtype == SOA {
                    one("types")
                } else {
                    rules::nodata(self, question)
                }
            }
            _ => BTreeSet::new(),
        }
    }

    /// Why CoreDNS's answer at an alias is not the expected one.
    fn reason_of_alias(
        &self,
        question: &Question,
        theirs: &Answer,
        expected: &Answer,
    ) -> BTreeSet<&'static str> {
        let name = &question.name;
        let one = |difference| BTreeSet::from([difference]);
        let address = [A, AAAA].contains(&question.qtype);
        if theirs.is_negative() && !address {
            return one("alias-types");
        }
        if theirs.is_nodata() && address {
            return one("alias-missing");
        }
        let target = &self.data[&(name.clone(), CNAME)]
            .records
            .first()
            .expect("an RRset is not empty")
            .data;
        if address && is_elsewhere(target, self.zone_of(name), &self.zones) {
            return one("alias-elsewhere");
        }
        // What stands at the target was changed.
        let targets = { expected.answers.iter() }.flat_map(|it| [&it.owner, &it.data]);
        targets
            .filter_map(|target| self.changed.get(target))
            .flatten()
            .copied()
            .collect()
    }
}

/// Whether a name lies in another of the zones.
fn is_elsewhere(name: &str, zone: &str, zones: &[String]) -> bool {
    zone_of(name, zones).is_some_and(|other| other != zone)
}

/// Whether a type's data leads to a name.
pub fn leads(rtype: u16) -> bool {
    [SRV, PTR, CNAME].contains(&rtype)
}

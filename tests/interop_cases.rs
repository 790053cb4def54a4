//! Every case of `zones/` loads in BIND, Knot, NSD, PowerDNS and Unbound, which then answer as we do.

use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::time::Duration;

use crate::support::cases::{Subject, cases, transferable};
use crate::support::contents::{Contents, Reply};
use crate::support::needs;
use crate::support::secondary::{Kind, Plan, Secondary};
use crate::support::wire::{self, Query, Record};

/// The time limit of a secondary for a zone.
const FOLLOW: Duration = Duration::from_secs(30);

/// The number of names of a case to ask for, spread over all.
const SAMPLES: usize = 40;

/// The types asked for each.
const TYPES: [u16; 7] = [
    wire::A,
    wire::AAAA,
    wire::SRV,
    wire::PTR,
    wire::TXT,
    wire::CNAME,
    wire::DNAME,
];

/// Words by which the servers complain about a record.
const DISLIKES: [&str; 6] = [
    "bad owner name",
    "bad name",
    "out of zone",
    "out-of-zone",
    "semantic",
    "too many records",
];

/// Names of the zones and between them, a spread of them, and one that is missing beside each.
fn samples(contents: &Contents) -> BTreeSet<String> {
    let nodes = contents.nodes();
    let step = nodes.len().div_ceil(SAMPLES).max(1);
    let some = nodes.iter().step_by(step);
    some.flat_map(|name| [name.clone(), format!("nothing.{name}")])
        .filter(|name| name.len() < 250 && !contents.is_delegated(name))
        .collect()
}

/// Without what follows an alias: Unbound gives the alias alone, without the NXDOMAIN of its target (RFC 6604). A CNAME that
/// it makes from a DNAME has the TTL 0.
fn up_to_alias((rcode, answers): (u16, BTreeSet<Record>), name: &str) -> (u16, BTreeSet<Record>) {
    let is_alias = |record: &&Record| record.rtype == wire::CNAME && record.owner == name;
    let Some(mut alias) = answers.iter().find(is_alias).cloned() else {
        return (rcode, answers);
    };
    let is_above = |it: &Record| name.ends_with(&format!(".{}", it.owner));
    let dname = (answers.into_iter()).find(|it| it.rtype == wire::DNAME && is_above(it));
    if dname.is_some() {
        alias.ttl = 0;
    }
    (0, dname.into_iter().chain([alias]).collect())
}

/// A secondary's answer, without additional records.
fn answer(server: std::net::SocketAddr, name: &str, qtype: u16) -> (u16, BTreeSet<Record>) {
    let query = Query::new(name, qtype).edns(1232);
    let reply = Reply::of(&wire::ask(server, &query).unwrap());
    (reply.rcode, reply.answers)
}

#[test]
fn every_case_loads_in_five_secondaries_that_answer_as_we_do() {
    if needs::lacks(&["bind", "knot", "nsd", "pdns", "unbound"]) {
        return;
    }
    for (folder, corefile, zones) in cases() {
        let subject = Subject::start(&transferable(&corefile), zones);
        let mut contents = Contents::default();
        for zone in &subject.zones {
            contents.add(zone, wire::axfr(subject.address, zone).unwrap());
        }
        let names = samples(&contents);
        let (subject, contents, names) = (&subject, &contents, &names);
        let what = &folder.display().to_string();
        std::thread::scope(|scope| {
            let checks = Kind::ALL
                .map(|kind| scope.spawn(move || check(kind, subject, contents, names, what)));
            for check in checks {
                check.join().unwrap_or_else(|panic| resume_unwind(panic));
            }
        });
        eprintln!("{}: {} names", folder.display(), names.len());
    }
}

/// Checks that a secondary takes all zones, has our contents, and gives our answers for these names.
fn check(
    kind: Kind,
    subject: &Subject,
    contents: &Contents,
    names: &BTreeSet<String>,
    folder: &str,
) {
    // For Unbound nothing is below `invalid` (RFC 6761 section 6.4), and it reads no catalogs.
    let takes = |zone: &&str| kind != Kind::Unbound || !zone.ends_with("invalid.");
    let zones = subject.zones.iter().map(String::as_str);
    let zones: Vec<&str> = zones.filter(takes).collect();
    let mut secondary = Secondary::start(kind, &Plan::new(subject.address, &zones));
    for zone in &zones {
        let records = wire::axfr(subject.address, zone).unwrap();
        let serial = records.iter().find_map(Record::serial).unwrap();
        secondary.wait_for_serial(zone, serial, FOLLOW);
        secondary.assert_holds(zone, &records);
    }
    let what = format!("{folder} at {kind:?}");
    let held = |name: &&String| {
        let zone = contents.zone_of(name).unwrap_or_default();
        zones.contains(&zone)
    };
    let names = names.iter().filter(held);
    for (name, qtype) in names.flat_map(|name| TYPES.map(|qtype| (name, qtype))) {
        let mut both =
            [secondary.address(), subject.address].map(|server| answer(server, name, qtype));
        if kind == Kind::Unbound {
            both = both.map(|reply| up_to_alias(reply, name));
        }
        let [theirs, ours] = both;
        assert_eq!(theirs, ours, "{what}: {name} {qtype}");
    }
    let log = secondary.log();
    let disliked = log
        .lines()
        // `--5` is the endpoint `::5`, as CoreDNS names it: no host name, but the zone is taken.
        .filter(|line| !line.contains(": --"))
        .find(|line| DISLIKES.iter().any(|word| line.contains(word)));
    assert_eq!(disliked, None, "{what}");
}

//! Tests that answers and transfers agree, on every case of `zones/` and on generated clusters.
//!
//! All zones are transferred by AXFR. Then a plain authoritative server of these zones is the measure. The questions
//! are for every name in the zones, for names between, beside and below these, and for every name that the objects
//! could mean, over UDP and TCP. Each answer must follow from the transfer alone. Synthesized names (insecure pods,
//! `zonal`) are left out.

use std::collections::BTreeSet;
use std::fs;

use serde_json::json;

use crate::comparison::cluster::generate;
use crate::comparison::names::names;
use crate::comparison::options::{OptionSet, SETS};
use crate::support::cases::{Subject, cases, transferable};
use crate::support::contents::{Contents, Reply, parent};
use crate::support::wire::{self, Connection, Message, Query};

/// The types asked.
const TYPES: [u16; 10] = [
    wire::A,
    wire::AAAA,
    wire::CNAME,
    wire::SRV,
    wire::TXT,
    wire::PTR,
    wire::NS,
    wire::SOA,
    wire::MX,
    wire::DNAME,
];

impl Subject {
    /// Asks over UDP and TCP, whose replies must be equal.
    fn ask(&self, connection: &mut Connection, name: &str, qtype: u16) -> Message {
        let query = Query::new(name, qtype);
        connection.send(&query.encode()).unwrap();
        let whole = Message::decode(&connection.receive().unwrap()).unwrap();
        let quick = wire::udp(self.address, &query).unwrap();
        if !quick.is_truncated() {
            assert_eq!(Reply::of(&quick), Reply::of(&whole), "{name} {qtype}");
        }
        whole
    }

    /// Compares answers and transfers, for these names and those of the zones. Returns the number of answers.
    fn check(
        &mut self,
        what: &str,
        others: BTreeSet<String>,
        live: &dyn Fn(&str) -> bool,
    ) -> usize {
        let mut contents = Contents::default();
        for zone in &self.zones {
            let records = wire::axfr(self.address, zone)
                .unwrap_or_else(|error| panic!("{what}: {zone}: {error}"));
            let texts: BTreeSet<String> = records.iter().map(wire::Record::text).collect();
            assert_eq!(texts.len(), records.len(), "{what}: {zone} repeats records");
            contents.add(zone, records);
        }
        let mut asked = others;
        for node in contents.nodes() {
            asked.insert(node.clone());
            asked.insert(format!("nothing.{node}"));
            if let Some(rest) = parent(node) {
                asked.insert(format!("nothing.{rest}"));
            }
        }
        asked.retain(|name| {
            let known = contents.zone_of(name).is_some() && !contents.is_delegated(name);
            known && name.len() < 250 && !live(name)
        });
        let mut connection = Connection::open(self.address).unwrap();
        for name in &asked {
            for qtype in TYPES {
                let message = self.ask(&mut connection, name, qtype);
                let (told, held) = (Reply::of(&message), contents.answer(name, qtype));
                assert_eq!(
                    told,
                    held,
                    "{what}: {name} {qtype}\n{}",
                    self.process.log_tail()
                );
                assert!(message.is_authoritative(), "{what}: {name} {qtype}");
            }
        }
        assert!(self.folder.path().exists() && !asked.is_empty(), "{what}");
        asked.len() * TYPES.len()
    }
}

/// Whether a name may be synthesized with this Corefile.
fn is_live(corefile: &str, name: &str) -> bool {
    (corefile.contains("insecure") && name.contains("pod."))
        || (corefile.contains("zonal") && name.contains("_zone."))
}

#[test]
fn every_case_answers_what_it_transfers() {
    let cases = cases();
    assert!(cases.len() > 10, "{cases:?}");
    for (folder, corefile, zones) in cases {
        let corefile = transferable(&corefile);
        let mut subject = Subject::start(&corefile, zones);
        let live = |name: &str| is_live(&corefile, name);
        let count = subject.check(&folder.display().to_string(), BTreeSet::new(), &live);
        eprintln!("{}: {count} answers", folder.display());
    }
}

/// Generated clusters as folders of manifests, each with some of the option sets.
#[test]
fn generated_clusters_answer_what_they_transfer() {
    let first = fuzz::seed();
    for seed in first..first + 12 {
        let cluster = generate(seed);
        let folder = tempfile::tempdir().unwrap();
        let items: Vec<_> = cluster.namespaces.iter().chain(&cluster.objects).collect();
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
        fs::write(folder.path().join("all.json"), list.to_string()).unwrap();
        let set: &OptionSet = &SETS[usize::try_from(seed).unwrap() * 7 % SETS.len()];
        let corefile = set.block_of(&format!("manifests {}", folder.path().display()), "PORT");
        let mut subject = Subject::start(&corefile, set.zone_names());
        let live = |name: &str| is_live(&corefile, name);
        let what = format!("seed {seed}, options \"{}\"", set.name);
        let count = subject.check(&what, names(&cluster, set), &live);
        eprintln!("{what}: {count} answers");
    }
}

/// Tests the measure: it sees an extra and a missing record.
#[test]
fn an_answer_that_was_not_transferred_is_seen() {
    let line = "a.b.example. 5 IN A 192.0.2.1";
    let soa = "example. 5 IN SOA ns.example. h.example. 1 2 3 4 5";
    let mut contents = Contents::default();
    let records = [soa, line].map(wire::Record::parse).to_vec();
    contents.add("example.", records);
    let held = contents.answer("a.b.example.", wire::A);
    assert_eq!(held.answers.len(), 1);
    assert_ne!(held, contents.answer("a.b.example.", wire::AAAA));
    assert_eq!(contents.answer("b.example.", wire::A).rcode, 0);
    assert_eq!(contents.answer("c.example.", wire::A).rcode, 3);
}

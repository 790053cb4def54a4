//! For tests: zones from lines of text.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "for tests: what fails here fails the test"
)]

use std::collections::HashMap;
use std::sync::Arc;

use dns::testing::{name, record, soa};
use dns::{Name, RecordText, Serial};

use crate::{Candidate, Contents, Edit, MemoryLimits, Node, Version, Zone};

/// Contents from lines of text.
pub fn contents(apex: &str, soa_ttl: u32, lines: &[&str]) -> Contents {
    let apex = name(apex);
    let mut contents = Contents::empty(&apex, soa(&apex, soa_ttl));
    let mut nodes: HashMap<Name, Vec<_>> = HashMap::new();
    for (owner, rest) in lines.iter().map(|line| record(line, &apex)) {
        nodes.entry(owner).or_default().push(rest);
    }
    for (owner, mut records) in nodes {
        contents.insert(Node::build(&owner, &apex, &mut records).unwrap());
    }
    contents
}

/// Publishes contents as the zone's next version.
pub fn publish(zone: &Zone, serial: u32, next: &Contents) -> Arc<Version> {
    let current = zone.current();
    let empty = Contents::empty(zone.apex(), next.soa().clone());
    let before = current.as_ref().map_or(&empty, |version| &version.contents);
    let mut edit = Edit::new(before);
    edit.set_soa(next.soa().clone());
    edit.replace_subtree(b"", next.nodes().map(|node| (node.clone(), 0)).collect(), 0);
    let limits = MemoryLimits {
        steps: 1000,
        octets: 1 << 26,
    };
    let draft = edit.finish();
    let (serial, time_ms) = (Serial::decode(serial), u64::from(serial));
    let candidate = Candidate::new(current.as_deref(), draft, serial, time_ms, vec![], limits);
    zone.publish(candidate.journaled())
}

/// A zone with one version.
pub fn zone(apex: &str, serial: u32, lines: &[&str]) -> Arc<Zone> {
    let zone = Arc::new(Zone::new(&name(apex)));
    publish(&zone, serial, &contents(apex, 60, lines));
    zone
}

/// All records of a version as text, SOA first.
pub fn lines_of(version: &Version) -> Vec<String> {
    let apex = version.contents.apex();
    let mut lines = vec![RecordText(version.soa_record()).to_string()];
    for node in version.contents.nodes() {
        let owner = node.owner_wire(apex);
        lines.extend(node.records(&owner, 0).map(|rr| RecordText(rr).to_string()));
    }
    lines
}

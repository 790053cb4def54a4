//! Tests that a zone packed from its nodes has the same octets as its records one by one.

use std::sync::Arc;

use dns::testing::{query, with_opt};
use dns::{Query, Rtype};
use futures_util::FutureExt;
use ops::testing::TestClock;
use proptest::prelude::*;
use zone::Zone;
use zone::testing::{contents, publish};

use super::*;
use crate::{Closed, Head};

#[derive(Default)]
struct Kept(Vec<Vec<u8>>);

impl Sink for Kept {
    async fn send(&mut self, message: Vec<u8>) -> Result<(), Closed> {
        self.0.push(message);
        Ok(())
    }

    async fn finish(&mut self, message: Vec<u8>) -> Result<(), Closed> {
        self.send(message).await
    }
}

/// The messages of a transfer of `z.`, packed from its nodes and record by record. `apex` has the letters of the
/// question.
fn both_ways(lines: &[String], apex: &str, octets: usize) -> [Vec<Vec<u8>>; 2] {
    let zone = Zone::new(&"z.".parse().unwrap());
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let version = publish(&zone, 1, &contents("z.", 60, &lines));
    let raw = with_opt(query(1, apex, Rtype::AXFR), 1232, 0, &[]);
    let packer = || {
        let head = Head::new(&Query::parse(&raw).unwrap(), 1232, None);
        Packer::new(head, octets, Arc::new(TestClock))
    };
    let (mut one, mut other) = (packer(), packer());
    let (mut nodes, mut records) = (Kept::default(), Kept::default());
    let sent = send_zone(&mut one, &version, &mut nodes).now_or_never();
    sent.unwrap().unwrap();
    nodes.0.push(one.message());
    let soa = version.soa_record();
    let owners: Vec<_> = version.contents.nodes().collect();
    let owners = owners
        .iter()
        .map(|node| (*node, node.owner_wire(version.contents.apex())));
    let owners: Vec<_> = owners.collect();
    let all = owners
        .iter()
        .flat_map(|(node, owner)| node.records(owner, 0));
    let all = [soa].into_iter().chain(all).chain([soa]);
    let sent = put(&mut other, &mut records, all).now_or_never();
    sent.unwrap().unwrap();
    records.0.push(other.message());
    assert_eq!((one.records, one.octets), (other.records, other.octets));
    [nodes.0, records.0]
}

/// Labels that share a start, differ only in case, or contain the octets that sort keys escape.
fn labels() -> impl Strategy<Value = String> {
    let label = prop::sample::select(vec![
        "a",
        "b",
        "ab",
        "abc",
        "B",
        "_tcp",
        "\\000",
        "\\001a",
        "a\\000",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
    ]);
    prop::collection::vec(label, 1..5).prop_map(|labels| labels.join("."))
}

/// A record, of a type whose data may or may not be compressed.
fn record() -> impl Strategy<Value = String> {
    let kind = prop::sample::select(vec!["A", "A", "A", "A", "SRV", "SRV", "TXT", "NS", "MX"]);
    (labels(), kind, labels(), any::<u8>()).prop_map(|(owner, kind, name, number)| match kind {
        "A" => format!("{owner} A 10.0.0.{number}"),
        "SRV" => format!("{owner} SRV 0 10 {number} {name}"),
        "TXT" => format!("{owner} TXT {number}"),
        "MX" => format!("{owner} MX {number} {name}"),
        _ => format!("{owner} NS {name}"),
    })
}

proptest! {
    #[test]
    fn a_zone_is_packed_as_its_records_are(
        lines in prop::collection::vec(record(), 1..200),
        octets in 100_usize..2000,
    ) {
        let [nodes, records] = both_ways(&lines, "z.", octets);
        prop_assert_eq!(nodes, records);
    }
}

/// Owners of records that are out of reach for pointers, and owners that are longer than a message should be.
#[test]
fn long_messages_are_packed_as_their_records_are() {
    let mut lines: Vec<String> = (0..3000)
        .map(|n| format!("a{n}.b.c SRV 0 0 1 a{n}.b.c"))
        .collect();
    lines.extend((0..300).map(|n| format!("b.c A 10.1.{}.{}", n / 256, n % 256)));
    lines.extend((0..3).map(|n| format!("x.b.c TYPE10 6000{n}")));
    lines.extend((0..3).map(|n| format!("y{n}.b.c TYPE10 20000")));
    for apex in ["z.", "Z."] {
        for octets in [512, 16_384, 65_535] {
            let [nodes, records] = both_ways(&lines, apex, octets);
            assert_eq!(nodes, records, "{apex} {octets}");
        }
    }
}

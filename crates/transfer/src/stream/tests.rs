//! Tests of whole transfers, compared with their contents; hickory reads the messages.
//!
//! Test names begin with the case's number in the transfer list (`tests/transfer_list.rs`).

mod steps;

use std::collections::BTreeSet;
use std::sync::Mutex;

use dns::testing::{answers, ixfr, key, name, query, with_opt};
use dns::tsig::{self, Verdict};
use dns::{MAX_MESSAGE_OCTETS, Query, Rtype};
use hickory_proto::op::Message;
use ops::testing::{NOW, TestClock};
use proptest::prelude::*;
use zone::Zone;
use zone::testing::{contents, lines_of, publish, zone};

use super::*;
use crate::Closed;

#[derive(Default)]
struct Kept(Arc<Mutex<Vec<Vec<u8>>>>);

impl Sink for Kept {
    async fn send(&mut self, message: Vec<u8>) -> Result<(), Closed> {
        self.0.lock().unwrap().push(message);
        Ok(())
    }

    async fn finish(&mut self, message: Vec<u8>) -> Result<(), Closed> {
        self.send(message).await
    }
}

/// The messages of the reply to a request, without their lengths.
fn reply(version: &Arc<Version>, raw: &[u8], client: Option<u32>, octets: usize) -> Vec<Vec<u8>> {
    let asked = Query::parse(raw).unwrap();
    let tsig = asked.tsig_at.map(|at| {
        let keys = tsig::Keys::new([key("k.")]);
        match tsig::verify(&keys, raw, at, NOW) {
            Verdict::Valid(session) => session,
            Verdict::Malformed | Verdict::Refused(_) => panic!("the request is signed"),
        }
    });
    let mut packer = Packer::new(Head::new(&asked, 1232, tsig), octets, Arc::new(TestClock));
    let decision = match client {
        None => Decision::FullZone(Reason::Asked),
        Some(serial) => decide(version, Serial::decode(serial)),
    };
    let mut kept = Kept::default();
    let messages = Arc::clone(&kept.0);
    let sent =
        futures_util::FutureExt::now_or_never(send(&mut packer, version, &decision, &mut kept));
    assert!(sent.expect("nothing to wait for").is_ok());
    let messages = std::mem::take(&mut *messages.lock().unwrap());
    messages
        .into_iter()
        .map(|message| {
            let length = usize::from(u16::from_be_bytes([message[0], message[1]]));
            assert_eq!(length, message.len() - 2);
            message[2..].to_vec()
        })
        .collect()
}

fn axfr_lines(version: &Arc<Version>, octets: usize) -> Vec<String> {
    answers(&reply(version, &query(1, "z.", Rtype::AXFR), None, octets))
}

/// A zone of many owners, as lines.
fn many(owners: usize) -> Vec<String> {
    (0..owners)
        .map(|n| format!("host{n}.some.level A 10.0.{}.{}", n / 256, n % 256))
        .collect()
}

/// Lines as contents of `z.`.
fn of(lines: &[String]) -> zone::Contents {
    contents(
        "z.",
        60,
        &lines.iter().map(String::as_str).collect::<Vec<_>>(),
    )
}

/// RFC 5936 section 3: cuts with their NS and glue, names hidden by a cut or a DNAME, wildcards, names below empty
/// non-terminals.
#[test]
fn a17_all_a_zone_holds_is_sent_below_cuts_too() {
    let lines = [
        "a.b.c A 10.0.0.1",
        "*.wild TXT t",
        "cut NS ns.cut",
        "ns.cut A 10.0.0.2",
        "below.cut A 10.0.0.3",
        "d DNAME e",
        "under.d A 10.0.0.4",
    ];
    let version = zone("z.", 5, &lines).current().unwrap();
    let sent = axfr_lines(&version, 16_384);
    assert_eq!(sent.len(), lines.len() + 2, "{sent:?}");
    for line in lines {
        let (owner, rest) = line.split_once(' ').unwrap();
        let (rtype, data) = rest.split_once(' ').unwrap();
        let start = format!("{owner}.z. 60 IN {rtype} ");
        let found = sent
            .iter()
            .any(|it| it.starts_with(&start) && it.contains(data));
        assert!(found, "{line}: {sent:?}");
    }
    assert!(
        sent.iter()
            .all(|line| line.split(' ').next().unwrap().ends_with("z."))
    );
}

/// RFC 5936 section 2.2: "the first message starts with the zone SOA, the last ends with it"; section 2.2.1:
/// header fields of each; section 2.2.2: the question.
#[test]
fn a2_axfr_has_the_form_of_rfc_5936() {
    let zone = Arc::new(Zone::new(&name("z.")));
    let mut lines = many(3000);
    lines.push("@ NS ns".to_owned());
    let version = publish(&zone, 5, &of(&lines));
    let raw = with_opt(query(0xabcd, "Z.", Rtype::AXFR), 1232, 0, &[]);
    let messages = reply(&version, &raw, None, 16_384);
    assert!(messages.len() > 2);
    for (number, octets) in messages.iter().enumerate() {
        assert!(octets.len() <= 16_384);
        assert_eq!(octets[..4], [0xab, 0xcd, 0x85, 0]);
        let message = Message::from_vec(octets).unwrap();
        let questions = if number == 0 { 1 } else { 0 };
        assert_eq!(message.queries.len(), questions);
        assert!(message.authorities.is_empty() && message.additionals.is_empty());
        assert_eq!(message.edns.unwrap().max_payload(), 1232);
        if number + 1 < messages.len() {
            assert!(
                octets.len() > 16_300,
                "message {number} is not full: {}",
                octets.len()
            );
        }
    }
    let mut expected = lines_of(&version);
    expected.push(expected[0].clone());
    assert_eq!(answers(&messages), expected);
    assert!(expected[1].starts_with("z. 60 IN NS "));
}

#[test]
fn a1_the_smallest_zone_is_one_message() {
    let zone = zone("z.", 0, &["@ NS ns"]);
    let messages = reply(
        &zone.current().unwrap(),
        &query(1, "z.", Rtype::AXFR),
        None,
        16_384,
    );
    assert_eq!(messages.len(), 1);
    assert_eq!(answers(&messages).len(), 3);
}

#[test]
fn a3_a_record_larger_than_a_message_should_be_stands_alone() {
    let zone = zone("z.", 1, &["a A 10.0.0.1", "b TYPE10 64000", "c A 10.0.0.3"]);
    let version = zone.current().unwrap();
    let messages = reply(&version, &query(1, "z.", Rtype::AXFR), None, 16_384);
    assert_eq!(messages.len(), 3);
    assert!(messages[1].len() > 64_000);
    assert_eq!(answers(&messages).len(), 5);
}

#[test]
fn a4_a_record_that_fits_no_message_ends_the_reply_with_an_error() {
    let zone = zone("z.", 1, &["b TYPE10 65520"]);
    let version = zone.current().unwrap();
    let raw = query(1, "z.", Rtype::AXFR);
    let head = Head::new(&Query::parse(&raw).unwrap(), 1232, None);
    let mut packer = Packer::new(head, 16_384, Arc::new(TestClock));
    let mut kept = Kept::default();
    let messages = Arc::clone(&kept.0);
    let decision = Decision::FullZone(Reason::Asked);
    let sent =
        futures_util::FutureExt::now_or_never(send(&mut packer, &version, &decision, &mut kept));
    assert_eq!(sent.unwrap(), Err(StreamError::TooLarge));
    let messages = messages.lock().unwrap();
    let last = Message::from_vec(&messages.last().unwrap()[2..]).unwrap();
    assert_eq!(u16::from(last.metadata.response_code), 2);
    assert_eq!((last.queries.len(), last.answers.len()), (1, 0));
}

/// Pointers have 14 bits (RFC 1035 section 4.1.4), so none leads beyond the first 16 KiB.
#[test]
fn a5_a8_large_messages_of_many_names_read_back() {
    let zone = Arc::new(Zone::new(&name("z.")));
    let lines: Vec<String> = (0..6000)
        .map(|n| format!("h{n}.n{} PTR h{n}.n{}", n % 7, n % 5))
        .collect();
    let version = publish(&zone, 5, &of(&lines));
    let mut expected = lines_of(&version);
    expected.push(expected[0].clone());
    assert_eq!(axfr_lines(&version, MAX_MESSAGE_OCTETS), expected);
}

/// Names keep their case: a pointer only leads to a name that is equal octet for octet.
#[test]
fn a6_letters_keep_their_case() {
    let lines = [
        "MiXed.n PTR mixed.N",
        "a PTR MiXed.n",
        "b PTR mixed.n",
        "c PTR MIXED.N",
    ];
    let zone = zone("z.", 1, &lines);
    let got = axfr_lines(&zone.current().unwrap(), 16_384);
    for want in [
        "MiXed.n.z. ",
        "PTR mixed.N.z.",
        "PTR MiXed.n.z.",
        "PTR mixed.n.z.",
        "PTR MIXED.N.z.",
    ] {
        assert!(
            got.iter().any(|line| line.contains(want)),
            "{want} {got:#?}"
        );
    }
}

/// RFC 3597 section 4: names in the data of SRV are not compressed, those of PTR may be.
#[test]
fn a7_names_in_srv_are_whole() {
    let target = b"\x04host\x04some\x05level\x01z\x00";
    let count = |lines: &[&str]| {
        let zone = zone("z.", 1, lines);
        let version = zone.current().unwrap();
        let messages = reply(&version, &query(1, "z.", Rtype::AXFR), None, 16_384);
        let octets = messages.concat();
        octets
            .windows(target.len())
            .filter(|at| at == target)
            .count()
    };
    let srv = ["a SRV 0 0 1 host.some.level", "b SRV 0 0 2 host.some.level"];
    assert_eq!(count(&srv), 2);
    assert!(count(&["a PTR host.some.level", "b PTR host.some.level"]) < 2);
}

#[test]
fn e02_every_message_of_a_signed_stream_is_signed_in_a_chain() {
    use hickory_proto::rr::TSigner;
    use hickory_proto::rr::rdata::tsig::TsigAlgorithm;
    let zone = Arc::new(Zone::new(&name("z.")));
    let version = publish(&zone, 1, &of(&many(16_000)));
    let mut raw = with_opt(query(9, "z.", Rtype::AXFR), 1232, 0, &[]);
    let mut previous = tsig::sign_request(&key("k."), &mut raw, NOW);
    let messages = reply(&version, &raw, None, 1024);
    assert!(messages.len() >= 300, "{}", messages.len());
    let secret = b"a secret of thirty-two octets...".to_vec();
    let key_name = hickory_proto::rr::Name::from_ascii("k.").unwrap();
    let signer = TSigner::new(secret, TsigAlgorithm::HmacSha256, key_name, 300).unwrap();
    for (number, octets) in messages.iter().enumerate() {
        assert!(octets.len() <= 1024);
        previous = signer
            .verify_message_byte(octets, Some(&previous), number == 0)
            .unwrap_or_else(|error| panic!("message {number}: {error}"))
            .0;
    }
}

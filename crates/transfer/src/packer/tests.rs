//! Tests of the packer's limits. The tests of whole transfers read its messages back.

use dns::testing::{query, with_opt};
use dns::{Rtype, Ttl};
use ops::testing::TestClock;

use super::*;

/// A packer for a reply with OPT.
fn packer(soft_limit: usize) -> Packer {
    let raw = with_opt(query(1, "z.", Rtype::AXFR), 1232, 0, &[]);
    let head = Head::new(&Query::parse(&raw).unwrap(), 1232, None);
    Packer::new(head, soft_limit, Arc::new(TestClock))
}

/// A record with this data.
fn record(data: &[u8]) -> RrRef<'_> {
    RrRef {
        owner: b"\x01z\x00",
        rtype: Rtype(10),
        ttl: Ttl::ZERO,
        data,
        tag: 0,
    }
}

#[test]
fn the_first_message_gets_a_second_record_however_long() {
    let mut packer = packer(100);
    assert_eq!(packer.push(record(&[1; 20])), Push::Taken);
    assert_eq!(packer.push(record(&[2; 500])), Push::Taken);
    assert_eq!(packer.push(record(&[3; 1])), Push::Full);
    assert!(packer.message().len() > 500);
    assert_eq!(packer.push(record(&[3; 500])), Push::Taken);
    assert_eq!(packer.push(record(&[4; 1])), Push::Full);
}

#[test]
fn messages_with_opt_keep_to_the_limit() {
    let mut packer = packer(200);
    for number in 0..200_u8 {
        let data = [number; 9];
        while packer.push(record(&data)) == Push::Full {
            let octets = packer.message().len();
            assert!((180..=202).contains(&octets), "{octets}");
        }
    }
    assert_eq!(packer.records, 200);
}

#[test]
fn a_record_for_no_message_is_too_large() {
    let mut packer = packer(200);
    let room = MAX_MESSAGE_OCTETS - 12 - 7 - 12 - 11;
    assert_eq!(packer.push(record(&vec![1; room + 1])), Push::TooLarge);
    assert_eq!(packer.push(record(&vec![1; room])), Push::Taken);
    assert_eq!(packer.message().len(), MAX_MESSAGE_OCTETS + 2);
}

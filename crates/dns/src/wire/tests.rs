//! Tests that read messages back with hickory's decoder, which shares no code with the writer.

use hickory_proto::op::Message;
use proptest::prelude::*;

use super::*;
use crate::flags;
use crate::testing::{line, name, record};
use crate::{RecordText, Ttl};

/// Writes records into one message. Returns it and the records' lines.
fn written(limit: usize, lines: &[&str]) -> (Vec<u8>, Vec<String>) {
    let mut writer = MessageWriter::new(9);
    writer.begin(false, limit, 7, flags::QR);
    writer.question(b"\x01q\x01z\x00\x00\x01\x00\x01");
    let mut taken = Vec::new();
    for text in lines {
        let (owner, (rtype, ttl, rdata)) = record(text, &name("z."));
        let rr = RrRef {
            owner: owner.as_wire(),
            rtype,
            ttl,
            data: rdata.as_octets(),
            tag: 0,
        };
        if writer.record(Section::Answer, rr) {
            taken.push(RecordText(rr).to_string());
        }
    }
    (writer.take(), taken)
}

/// The answer section as hickory reads it.
fn read(message: &[u8]) -> Vec<String> {
    let message = Message::from_vec(message).unwrap();
    message.answers.iter().map(line).collect()
}

/// The octets of a message with these records.
fn octets_of(lines: &[&str]) -> usize {
    written(MAX_MESSAGE_OCTETS, lines).0.len()
}

#[test]
fn repeated_owners_that_differ_in_digits_alone_all_become_pointers() {
    let mut writer = MessageWriter::new(13);
    writer.begin(false, 16_384, 7, flags::QR);
    let mut unpointed = Vec::new();
    // Ten endpoints of each of many Services, as in a cluster.
    for (service, endpoint) in (0..).flat_map(|service| (0..10).map(move |of| (service, of))) {
        let number: u32 = service * 9000 + endpoint;
        let address = format!(
            "10-{}-{}-{}",
            128 + (number >> 16),
            number >> 8 & 255,
            number & 255
        );
        let label = format!("{address}.service-{}.team-0.svc", service * 900);
        let (owner, (rtype, ttl, rdata)) = record(&format!("{label} A 10.0.0.1"), &name("z."));
        let rr = RrRef {
            owner: owner.as_wire(),
            rtype,
            ttl,
            data: rdata.as_octets(),
            tag: 0,
        };
        if !writer.record(Section::Answer, rr) {
            break;
        }
        let before = writer.len();
        // Pointer, type, class, TTL, length, address.
        if writer.record(Section::Answer, rr) && writer.len() != before + 16 {
            unpointed.push(label);
        }
    }
    assert!(writer.count(Section::Answer) > 500);
    assert_eq!(unpointed, Vec::<String>::new());
}

#[test]
fn records_read_back_as_written() {
    let (message, lines) = written(
        MAX_MESSAGE_OCTETS,
        &[
            "a 5 A 10.0.0.1",
            "a A 10.0.0.2",
            "b.a AAAA ::1",
            "c CNAME a",
            "m MX 10 mail.a",
            "s SRV 0 5 80 b.a",
            "t TXT text",
            "r PTR b.a",
        ],
    );
    assert_eq!(lines.len(), 8);
    assert_eq!(read(&message), lines);
}

/// RFC 3597 section 4: "Compression of domain names in RDATA ... only well-known types" of RFC 1035.
#[test]
fn only_data_of_rfc_1035_types_is_compressed() {
    // Owner and data as pointers: 2 + 10 + 2; SRV: 2 + 10 + 6 + the whole of www.z.
    let base = octets_of(&["www A 10.0.0.1"]);
    for (text, octets) in [
        ("www NS www", 14),
        ("www CNAME www", 14),
        ("www PTR www", 14),
        ("www MX 1 www", 16),
        ("www SRV 0 0 1 www", 12 + 6 + 7),
        ("www DNAME www", 12 + 7),
    ] {
        assert_eq!(
            octets_of(&["www A 10.0.0.1", text]) - base,
            octets,
            "{text}"
        );
    }
}

/// RFC 5936 section 3.4: the case of a name is kept, so only an equal name may be pointed to.
#[test]
fn a_name_in_other_case_is_not_pointed_to() {
    let (message, lines) = written(MAX_MESSAGE_OCTETS, &["MiXed A 10.0.0.1", "mixed PTR mIxed"]);
    assert_eq!(read(&message), lines);
    let same = octets_of(&["mixed A 10.0.0.1", "mixed PTR mixed"]);
    assert!(message.len() > same);
}

#[test]
fn what_does_not_fit_leaves_no_trace() {
    let limit = 12 + 9 + (2 + 2 + 10 + 4) * 2 + 5;
    let (message, lines) = written(
        limit,
        &[
            "a A 10.0.0.1",
            "this.is.too.long PTR this.is.too.long",
            "too.long A 10.0.0.2",
            "b A 10.0.0.2",
        ],
    );
    assert_eq!(lines.len(), 2);
    assert_eq!(read(&message), lines);
    assert!(message.len() <= limit);
}

#[test]
fn a_rolled_back_record_is_not_pointed_to() {
    let mut writer = MessageWriter::new(9);
    writer.begin(false, 512, 7, flags::QR);
    let rr = |owner: &'static [u8]| RrRef {
        owner,
        rtype: Rtype::A,
        ttl: Ttl::ZERO,
        data: &[1, 2, 3, 4],
        tag: 0,
    };
    let mark = writer.mark();
    assert!(writer.record(Section::Answer, rr(b"\x03abc\x03def\x00")));
    writer.rollback(mark);
    assert!(writer.record(Section::Answer, rr(b"\x01x\x03def\x00")));
    assert!(writer.record(Section::Answer, rr(b"\x03abc\x03def\x00")));
    let owners: Vec<_> = read(&writer.take())
        .iter()
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .collect();
    assert_eq!(owners, ["x.def.", "abc.def."]);
}

#[test]
fn opt_carries_the_upper_bits_of_the_response_code() {
    let mut writer = MessageWriter::new(5);
    writer.begin(true, 512, 7, flags::QR);
    let opt = OptReply {
        size: 1232,
        rcode: Rcode::BADVERS,
        dnssec_ok: true,
        options: &[0, 15, 0, 2, 0, 18],
    };
    assert!(writer.opt(&opt));
    let octets = writer.take();
    assert_eq!(octets.len(), 2 + 12 + opt.octets());
    let message = Message::from_vec(&octets[2..]).unwrap();
    let edns = message.edns.unwrap();
    assert_eq!(edns.max_payload(), 1232);
    assert_eq!(edns.rcode_high(), 1);
    assert!(edns.flags().dnssec_ok);
}

/// A name of few labels from few letters, so that suffixes are shared, in both cases.
fn names() -> impl Strategy<Value = String> {
    proptest::collection::vec("[aAbB]{1,2}", 1..6).prop_map(|labels| labels.join("."))
}

fn records() -> impl Strategy<Value = String> {
    (names(), names(), 0..8_usize, 0_u32..3).prop_map(|(owner, target, kind, ttl)| {
        let rest = match kind {
            0 => "A 10.1.2.3".to_owned(),
            1 => "AAAA 2001:db8::5".to_owned(),
            2 => format!("NS {target}"),
            3 => format!("CNAME {target}"),
            4 => format!("PTR {target}"),
            5 => format!("MX 9 {target}"),
            6 => format!("SRV 1 2 3 {target}"),
            _ => format!("TXT {target}"),
        };
        format!("{owner} {ttl} {rest}")
    })
}

proptest! {
    #[test]
    fn random_messages_read_back_as_written(
        lines in proptest::collection::vec(records(), 0..120),
        limit in 60_usize..4000,
    ) {
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        let (message, taken) = written(limit, &lines);
        prop_assert!(message.len() <= limit);
        prop_assert_eq!(read(&message), taken);
    }

    #[test]
    fn no_octets_make_the_reader_of_requests_panic(
        raw in proptest::collection::vec(any::<u8>(), 0..80),
        valid_start in any::<bool>(),
    ) {
        let mut raw = raw;
        if valid_start && raw.len() > 12 {
            raw[2] &= 0x7f;
            raw[4..12].copy_from_slice(&[0, 1, 0, 0, 0, 0, 0, 1]);
        }
        if let Ok(query) = crate::Query::parse(&raw) {
            prop_assert!(query.question.len() <= raw.len());
        }
    }
}

//! For tests: names and records from lines of text, requests as octets, messages read by an independent decoder.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "for tests: what fails here fails the test"
)]

use hickory_proto::op::Message;
use hickory_proto::rr::Record as HickoryRecord;
use hickory_proto::serialize::binary::{BinEncodable, BinEncoder, NameEncoding};

pub use crate::steps::count_steps;
use crate::tsig::{Algorithm, Key};
use crate::{Name, Rdata, RecordText, Rtype, Soa, Ttl};

/// A name from text.
pub fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// The SOA fields of test zones, with another TTL if wanted.
pub fn soa(apex: &Name, ttl: u32) -> Soa {
    Soa {
        mname: apex.child("ns").unwrap(),
        rname: apex.child("hostmaster").unwrap(),
        refresh: Ttl::decode(300),
        retry: Ttl::decode(30),
        expire: Ttl::decode(86_400),
        minimum: Ttl::decode(7),
        ttl: Ttl::decode(ttl),
    }
}

/// A record from `owner [ttl] type data`, names relative to the apex.
pub fn record(line: &str, apex: &Name) -> (Name, (Rtype, Ttl, Rdata)) {
    let mut words = line.split_whitespace().peekable();
    let owner = Name::parse_in(words.next().unwrap(), apex).unwrap();
    let ttl = words.peek().and_then(|word| word.parse().ok());
    if ttl.is_some() {
        words.next();
    }
    let rtype: Rtype = words.next().unwrap().parse().unwrap();
    let data: Vec<&str> = words.collect();
    let target = || Name::parse_in(data.last().unwrap(), apex).unwrap();
    let number = |at: usize| data[at].parse::<u16>().unwrap();
    let rdata = match rtype {
        Rtype::A | Rtype::AAAA => Rdata::address(data[0].parse().unwrap()).1,
        Rtype::SRV => Rdata::srv(number(0), number(1), number(2), &target()),
        Rtype::MX => {
            let mut octets = number(0).to_be_bytes().to_vec();
            octets.extend_from_slice(target().as_wire());
            Rdata::from_octets(&octets).unwrap()
        }
        Rtype::TXT => Rdata::txt(data[0]),
        Rtype::DS if data[0] == "1" => Rdata::from_octets(&[7]).unwrap(),
        Rtype(10) => Rdata::from_octets(&vec![7; usize::from(number(0))]).unwrap(),
        _ => Rdata::name(&target()),
    };
    (owner, (rtype, Ttl::decode(ttl.unwrap_or(60)), rdata))
}

/// The octets of a value, without compression of names.
fn plain(value: &impl BinEncodable) -> Vec<u8> {
    let mut octets = Vec::new();
    let mut encoder = BinEncoder::new(&mut octets);
    encoder.set_name_encoding(NameEncoding::Uncompressed);
    value.emit(&mut encoder).unwrap();
    octets
}

/// The line of text, in our form, of a record that hickory read.
pub fn line(record: &HickoryRecord) -> String {
    let octets = plain(record);
    let owner = crate::wire_name_len(&octets).unwrap();
    RecordText(crate::RrRef {
        owner: &octets[..owner],
        rtype: Rtype(record.record_type().into()),
        ttl: Ttl::decode(record.ttl),
        data: &octets[owner + 10..],
        tag: 0,
    })
    .to_string()
}

/// A query for a name and a type.
pub fn query(id: u16, qname: &str, qtype: Rtype) -> Vec<u8> {
    let mut octets = id.to_be_bytes().to_vec();
    octets.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    octets.extend_from_slice(name(qname).as_wire());
    octets.extend_from_slice(&qtype.0.to_be_bytes());
    octets.extend_from_slice(&[0, 1]);
    octets
}

/// Counts one more record in a section (1 to 3).
pub fn count(octets: &mut [u8], section: usize) {
    octets[5 + 2 * section] += 1;
}

/// Adds an OPT record.
pub fn with_opt(mut octets: Vec<u8>, size: u16, version: u8, options: &[u8]) -> Vec<u8> {
    count(&mut octets, 3);
    octets.extend_from_slice(&[0, 0, 41]);
    octets.extend_from_slice(&size.to_be_bytes());
    octets.extend_from_slice(&[0, version, 0x80, 0]);
    octets.extend_from_slice(&u16::try_from(options.len()).unwrap().to_be_bytes());
    octets.extend_from_slice(options);
    octets
}

/// An IXFR query: the SOA in the authority section has root names and TTL 0, as some secondaries send it.
pub fn ixfr(id: u16, apex: &str, serial: u32) -> Vec<u8> {
    let mut octets = query(id, apex, Rtype::IXFR);
    count(&mut octets, 2);
    octets.extend_from_slice(&[0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 0, 0, 22, 0, 0]);
    octets.extend_from_slice(&serial.to_be_bytes());
    octets.extend_from_slice(&[0; 16]);
    octets
}

/// Adds a record whose data is a chain of compression pointers, and as many records as fit whose owners begin at the end
/// of the chain.
pub fn chained_pointers(mut octets: Vec<u8>, most_octets: usize) -> Vec<u8> {
    let start = u16::try_from(octets.len() + 11).unwrap();
    let end = u16::try_from((most_octets / 2).min(16_380)).unwrap();
    let chain: Vec<u8> = (start..end)
        .step_by(2)
        .map(|at| if at == start { start - 11 } else { at - 2 })
        .flat_map(|at| (0xc000 | at).to_be_bytes())
        .collect();
    octets.extend_from_slice(&[0, 0xff, 0, 0, 1, 0, 0, 0, 0]);
    octets.extend_from_slice(&u16::try_from(chain.len()).unwrap().to_be_bytes());
    octets.extend_from_slice(&chain);
    let last = 0xc000 | u16::try_from(octets.len() - 2).unwrap();
    let owners = (most_octets - octets.len()) / 13;
    for _ in 0..owners {
        octets.extend_from_slice(&last.to_be_bytes());
        octets.extend_from_slice(&[0xff, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0]);
    }
    let records = u16::try_from(owners + 1).unwrap();
    octets[10..12].copy_from_slice(&records.to_be_bytes());
    octets
}

/// The key of tests.
pub fn key(name: &str) -> Key {
    Key::new(
        &self::name(name),
        Algorithm::Sha256,
        b"a secret of thirty-two octets...",
    )
}

/// Whether these records are a whole reply to AXFR or IXFR.
pub fn is_whole(lines: &[String]) -> bool {
    let is_soa = |line: &String| line.contains(" IN SOA ");
    let soas = lines.iter().filter(|line| **line == lines[0]).count();
    match (lines.first(), lines.get(1)) {
        (None, _) | (Some(_), None) => true,
        // Differences: the new SOA comes first, after the removed records, and last.
        (Some(_), Some(second)) if is_soa(second) && *second != lines[0] => soas == 3,
        (Some(_), Some(_)) => soas == 2,
    }
}

/// The records of the answer sections of messages.
pub fn answers(messages: &[Vec<u8>]) -> Vec<String> {
    messages
        .iter()
        .flat_map(|message| Message::from_vec(message).unwrap().answers)
        .map(|record| line(&record))
        .collect()
}

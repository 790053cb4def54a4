//! The master file form of records and zones (RFC 1035 section 5.1), for people and other servers.

use std::fmt;
use std::net::Ipv6Addr;

use domain::base::iana::Rtype as TheirRtype;
use domain::base::name::ParsedName;
use domain::base::rdata::ParseRecordData;
use domain::base::zonefile_fmt::{DisplayKind, ZonefileFmt};
use domain::dep::octseq::Parser;
use domain::rdata::ZoneRecordData;

use crate::name::WireText;
use crate::wire_name::wire_name_len;
use crate::{RrRef, Rtype, Ttl};

/// One record as a line of a master file: absolute owner, TTL, class, type, data.
#[derive(Debug, Clone, Copy)]
pub struct RecordText<'a>(pub RrRef<'a>);

impl fmt::Display for RecordText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_head(self.0, f)?;
        write_data(self.0, f)
    }
}

/// Lines of successive records. It does not format the owner, TTL and type again if the next record has the same.
#[derive(Debug, Default)]
pub struct RecordLines {
    /// The last line, up to the data.
    head: String,
    of: Option<(Vec<u8>, Rtype, Ttl)>,
}

impl RecordLines {
    /// Appends the line of a record, as [`RecordText`] has it.
    pub fn push(&mut self, rr: RrRef<'_>, text: &mut String) {
        let is_same = |(owner, rtype, ttl): &(Vec<u8>, Rtype, Ttl)| {
            (owner.as_slice(), *rtype, *ttl) == (rr.owner, rr.rtype, rr.ttl)
        };
        if !self.of.as_ref().is_some_and(is_same) {
            self.head.clear();
            write_head(rr, &mut self.head).expect("a string takes all");
            self.of = Some((rr.owner.to_vec(), rr.rtype, rr.ttl));
        }
        text.push_str(&self.head);
        write_data(rr, text).expect("a string takes all");
    }
}

fn write_head(rr: RrRef<'_>, out: &mut impl fmt::Write) -> fmt::Result {
    match whole_name(rr.owner) {
        Some(owner) => owner.write(out)?,
        None => out.write_str("<no name>")?,
    }
    write!(out, " {} IN {} ", rr.ttl, rr.rtype)
}

/// Data for people: in the form of its type if that is known, else in the form of RFC 3597 section 5.
fn write_data(rr: RrRef<'_>, out: &mut impl fmt::Write) -> fmt::Result {
    let RrRef { rtype, data, .. } = rr;
    // The common types of a zone are written directly, without an allocation.
    if let (Rtype::A, Ok(octets)) = (rtype, <[u8; 4]>::try_from(data)) {
        return write_ipv4(octets, out);
    }
    let is_name = matches!(rtype, Rtype::NS | Rtype::CNAME | Rtype::PTR | Rtype::DNAME);
    if let (true, Some(name)) = (is_name, whole_name(data)) {
        return name.write(out);
    }
    if let Some(text) = known_text(rtype, data) {
        return out.write_str(&text);
    }
    write!(out, "\\# {}", data.len())?;
    if !data.is_empty() {
        out.write_str(" ")?;
    }
    data.iter().try_for_each(|octet| write!(out, "{octet:02x}"))
}

/// An IPv4 address in one write, as it is the most common data of a zone.
fn write_ipv4(octets: [u8; 4], out: &mut impl fmt::Write) -> fmt::Result {
    let mut text = [0; 15];
    let mut length = 0;
    let mut push = |octet: u8| {
        text[length] = octet;
        length += 1;
    };
    for (place, octet) in octets.into_iter().enumerate() {
        if place > 0 {
            push(b'.');
        }
        if octet >= 100 {
            push(b'0' + octet / 100);
        }
        if octet >= 10 {
            push(b'0' + octet / 10 % 10);
        }
        push(b'0' + octet % 10);
    }
    out.write_str(str::from_utf8(&text[..length]).map_err(|_| fmt::Error)?)
}

/// The text of data of a known type; `None` for other types and for malformed data.
fn known_text(rtype: Rtype, data: &[u8]) -> Option<String> {
    match rtype {
        Rtype::AAAA => Some(Ipv6Addr::from(<[u8; 16]>::try_from(data).ok()?).to_string()),
        Rtype::MX => Some(format!(
            "{} {}",
            number(data, 0)?,
            whole_name(data.get(2..)?)?
        )),
        Rtype::SRV => {
            let target = whole_name(data.get(6..)?)?;
            Some(format!(
                "{} {} {} {target}",
                number(data, 0)?,
                number(data, 2)?,
                number(data, 4)?
            ))
        }
        Rtype::TXT => strings(data),
        Rtype::SOA => soa(data),
        other if AS_THE_LIBRARY.contains(&other) => library_text(other, data),
        _ => None,
    }
}

/// The types whose text is written by NLnet Labs' `domain`, which also reads it: HINFO, DS, SSHFP, RRSIG,
/// NSEC, DNSKEY, NSEC3, NSEC3PARAM, TLSA, CDS, CDNSKEY, CAA.
/// Not NAPTR, SVCB and HTTPS: it cannot read all names and keys that it writes.
const AS_THE_LIBRARY: [Rtype; 12] = [
    Rtype(13),
    Rtype(43),
    Rtype(44),
    Rtype::RRSIG,
    Rtype::NSEC,
    Rtype::DNSKEY,
    Rtype::NSEC3,
    Rtype::NSEC3PARAM,
    Rtype(52),
    Rtype(59),
    Rtype(60),
    Rtype(257),
];

/// The text of data of one of these types; `None` if it is malformed.
fn library_text(rtype: Rtype, data: &[u8]) -> Option<String> {
    let mut parser = Parser::from_ref(data);
    let rtype = TheirRtype::from_int(rtype.0);
    let read = ZoneRecordData::<&[u8], ParsedName<&[u8]>>::parse_rdata(rtype, &mut parser);
    let read = read.ok()??;
    let text = read.display_zonefile(DisplayKind::Simple).to_string();
    (parser.remaining() == 0).then_some(text)
}

/// The 16-bit number at a place.
fn number(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(data.get(at..at + 2)?.try_into().ok()?))
}

fn whole_name(data: &[u8]) -> Option<WireText<'_>> {
    (wire_name_len(data) == Some(data.len())).then_some(WireText(data))
}

fn strings(mut data: &[u8]) -> Option<String> {
    let mut text = String::new();
    if data.is_empty() {
        return None;
    }
    while let Some((length, rest)) = data.split_first() {
        let (string, rest) = rest.split_at_checked(usize::from(*length))?;
        if !text.is_empty() {
            text.push(' ');
        }
        text.push('"');
        for octet in string {
            match octet {
                b'"' | b'\\' => {
                    text.push('\\');
                    text.push(char::from(*octet));
                }
                0x20..=0x7e => text.push(char::from(*octet)),
                other => text.push_str(&format!("\\{other:03}")),
            }
        }
        text.push('"');
        data = rest;
    }
    Some(text)
}

fn soa(data: &[u8]) -> Option<String> {
    let mname_len = wire_name_len(data)?;
    let rname_len = wire_name_len(data.get(mname_len..)?)?;
    let numbers = data.get(mname_len + rname_len..)?;
    let numbers: [u8; 20] = numbers.try_into().ok()?;
    let mname = whole_name(&data[..mname_len])?;
    let rname = whole_name(&data[mname_len..mname_len + rname_len])?;
    let mut text = format!("{mname} {rname}");
    for chunk in numbers.chunks_exact(4) {
        let value = u32::from_be_bytes(chunk.try_into().ok()?);
        text.push_str(&format!(" {value}"));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Name, Rdata, Record, Serial, Soa, Ttl};

    fn line(owner: &str, rtype: Rtype, rdata: Rdata) -> String {
        let record = Record {
            owner: owner.parse().unwrap(),
            rtype,
            ttl: Ttl::decode(5),
            rdata,
        };
        RecordText(record.view()).to_string()
    }

    #[test]
    fn lines_that_follow_each_other_are_those_of_their_records() {
        let (name, other) = ("a.z.".parse().unwrap(), "b.z.".parse().unwrap());
        let address = |last: u8| Rdata::from_octets(&[10, 0, 0, last]).unwrap();
        let txt = Rdata::txt("10.0.0.1");
        let records: [(&Name, u32, Rtype, Rdata); 6] = [
            (&name, 5, Rtype::A, address(1)),
            (&name, 5, Rtype::A, address(200)),
            (&name, 6, Rtype::A, address(200)),
            (&other, 6, Rtype::A, address(13)),
            (&other, 6, Rtype::TXT, txt.clone()),
            (&name, 6, Rtype::TXT, txt),
        ];
        let (mut lines, mut text, mut wanted) =
            (RecordLines::default(), String::new(), String::new());
        for (owner, ttl, rtype, rdata) in records {
            let ttl = Ttl::decode(ttl);
            let owner = owner.clone();
            let record = Record {
                owner,
                rtype,
                ttl,
                rdata,
            };
            lines.push(record.view(), &mut text);
            wanted += &RecordText(record.view()).to_string();
        }
        assert_eq!(text, wanted);
    }

    #[test]
    fn records_read_as_a_master_file_wants_them() {
        let target: Name = "s.n.svc.z.".parse().unwrap();
        let soa = Soa {
            mname: target.clone(),
            rname: "hostmaster.z.".parse().unwrap(),
            refresh: Ttl::decode(300),
            retry: Ttl::decode(30),
            expire: Ttl::decode(86400),
            minimum: Ttl::decode(5),
            ttl: Ttl::decode(5),
        };
        for (got, want) in [
            (
                line("a.z.", Rtype::SRV, Rdata::srv(0, 10, 80, &target)),
                "a.z. 5 IN SRV 0 10 80 s.n.svc.z.",
            ),
            (
                line("a.z.", Rtype::TXT, Rdata::txt("1.1.0")),
                "a.z. 5 IN TXT \"1.1.0\"",
            ),
            (
                line("a.z.", Rtype::TXT, Rdata::txt("q\"\\\u{1}")),
                "a.z. 5 IN TXT \"q\\\"\\\\\\001\"",
            ),
            (
                line("z.", Rtype::SOA, soa.rdata(Serial::decode(7))),
                "z. 5 IN SOA s.n.svc.z. hostmaster.z. 7 300 30 86400 5",
            ),
            (
                line("a.z.", Rtype(65280), Rdata::from_octets(&[1, 255]).unwrap()),
                "a.z. 5 IN TYPE65280 \\# 2 01ff",
            ),
            (
                line("a.z.", Rtype::A, Rdata::from_octets(&[1]).unwrap()),
                "a.z. 5 IN A \\# 1 01",
            ),
        ] {
            assert_eq!(got, want);
        }
    }
}

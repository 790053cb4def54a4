//! The DNS client of the tests: hickory reads and writes its messages, so that the server is not checked with its own code.
//!
//! It sends queries by UDP and TCP, gives replies as plain records and follows zone transfers. Names are in lower case,
//! because servers differ in the case that they keep.
//!
//! # Not implemented
//! TSIG (use `dig -y`), TLS. RDATA of types that our zones do not use is shown as RFC 3597 section 5 says.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use hickory_proto::op::{self, Edns, MessageType, OpCode};
use hickory_proto::rr::rdata::{
    self,
    opt::{EdnsCode, EdnsOption},
};
use hickory_proto::rr::{self, DNSClass, Name, RData, RecordType};
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder, BinEncodable, BinEncoder};

pub use self::stream::{Increment, Step, apply, axfr, ixfr, transfer};

mod stream;

/// How long one exchange may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Record types by number.
pub const A: u16 = 1;
pub const NS: u16 = 2;
pub const CNAME: u16 = 5;
pub const SOA: u16 = 6;
pub const PTR: u16 = 12;
pub const MX: u16 = 15;
pub const TXT: u16 = 16;
pub const AAAA: u16 = 28;
pub const SRV: u16 = 33;
pub const DNAME: u16 = 39;
pub const OPT: u16 = 41;
pub const RRSIG: u16 = 46;
pub const IXFR: u16 = 251;
pub const AXFR: u16 = 252;
pub const ANY: u16 = 255;

/// A query.
#[derive(Clone, Debug)]
pub struct Query {
    pub name: String,
    pub qtype: u16,
    pub class: u16,
    pub id: u16,
    pub recursion_desired: bool,
    pub authentic_data: bool,
    pub checking_disabled: bool,
    /// The payload size of an OPT record, if one is sent.
    pub edns: Option<u16>,
    /// The DO bit of the OPT record.
    pub dnssec_ok: bool,
    /// Codes and data of the options in the OPT record.
    pub options: Vec<(u16, Vec<u8>)>,
    /// The serial of the SOA in the authority section, for IXFR.
    pub serial: Option<u32>,
}

impl Query {
    /// Class IN, no flags, no EDNS.
    pub fn new(name: &str, qtype: u16) -> Self {
        Self {
            name: name.to_owned(),
            qtype,
            class: 1,
            id: 0x5a57,
            recursion_desired: false,
            authentic_data: false,
            checking_disabled: false,
            edns: None,
            dnssec_ok: false,
            options: Vec::new(),
            serial: None,
        }
    }

    /// With an OPT record of this payload size.
    pub fn edns(mut self, payload: u16) -> Self {
        self.edns = Some(payload);
        self
    }

    /// The message in wire form.
    ///
    /// # Panics
    /// When the name has a label of more than 63 octets, or has more than 255 octets.
    pub fn encode(&self) -> Vec<u8> {
        self.message().to_vec().expect("a query can be encoded")
    }

    /// The message as hickory has it.
    pub fn message(&self) -> op::Message {
        let name = Name::from_labels(labels(&self.name)).expect("the name fits a message");
        let mut message = op::Message::new(self.id, MessageType::Query, OpCode::Query);
        message.metadata.recursion_desired = self.recursion_desired;
        message.metadata.authentic_data = self.authentic_data;
        message.metadata.checking_disabled = self.checking_disabled;
        let class = DNSClass::from(self.class);
        let mut question = op::Query::query(name.clone(), RecordType::from(self.qtype));
        question.set_query_class(class);
        message.add_query(question);
        if let Some(serial) = self.serial {
            let soa = rdata::SOA::new(Name::root(), Name::root(), serial, 0, 0, 0, 0);
            let mut soa = rr::Record::from_rdata(name, 0, RData::SOA(soa));
            soa.dns_class = class;
            message.add_authority(soa);
        }
        if let Some(payload) = self.edns {
            let mut edns = Edns::new();
            edns.set_dnssec_ok(self.dnssec_ok);
            for (code, data) in &self.options {
                let option = EdnsOption::Unknown(*code, data.clone());
                edns.options_mut().insert(option);
            }
            // `Edns` lifts the payload size to 512; as a record it keeps smaller ones.
            let mut opt = rr::Record::from(&edns);
            opt.dns_class = DNSClass::Unknown(payload);
            message.add_additional(opt);
        }
        message
    }
}

/// The labels of a name; a backslash stands before a plain character or the three decimal digits of an octet.
///
/// `Name::from_ascii` refuses such characters and reads the digits as octal ones.
fn labels(name: &str) -> Vec<Vec<u8>> {
    let mut labels = vec![Vec::new()];
    let mut octets = name.bytes();
    while let Some(octet) = octets.next() {
        let label = labels.last_mut().expect("there is always one");
        match octet {
            b'\\' => match octets.next() {
                Some(hundreds @ b'0'..=b'9') => {
                    let mut digit = || octets.next().expect("three digits follow") - b'0';
                    label.push((hundreds - b'0') * 100 + digit() * 10 + digit());
                }
                plain => label.extend(plain),
            },
            b'.' => labels.push(Vec::new()),
            other => label.push(other),
        }
    }
    labels.retain(|label| !label.is_empty());
    labels
}

/// A record as read. Ordered by owner, type and data.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Record {
    /// Absolute, lower case, with the closing dot.
    pub owner: String,
    pub rtype: u16,
    /// RDATA in master file form, names in lower case.
    pub data: String,
    pub ttl: u32,
    pub class: u16,
}

impl Record {
    /// A record that hickory has read.
    fn of(record: &rr::Record) -> Self {
        Self {
            owner: name_text(&record.name),
            rtype: record.record_type().into(),
            data: data_text(&record.data),
            ttl: record.ttl,
            class: record.dns_class.into(),
        }
    }

    /// Reads what [`text`](Self::text) writes.
    ///
    /// # Panics
    /// When the line is not `owner TTL IN TYPE data`, names absolute.
    pub fn parse(line: &str) -> Self {
        let parts: Vec<&str> = line.splitn(5, ' ').collect();
        let [owner, ttl, "IN", name, data] = parts[..] else {
            panic!("not `owner TTL IN TYPE data`: {line}");
        };
        let known = [A, NS, CNAME, SOA, PTR, MX, TXT, AAAA, SRV, DNAME];
        let rtype = known.into_iter().find(|rtype| type_name(*rtype) == name);
        let rtype = rtype
            .or_else(|| name.strip_prefix("TYPE")?.parse().ok())
            .unwrap_or_else(|| panic!("unknown type in: {line}"));
        let data = if rtype == TXT {
            data.to_owned()
        } else {
            data.to_lowercase()
        };
        let ttl = ttl.parse().unwrap_or_else(|_| panic!("TTL in: {line}"));
        Self {
            owner: owner.to_lowercase(),
            rtype,
            data,
            ttl,
            class: 1,
        }
    }

    /// One master file line: `owner TTL IN TYPE data`.
    pub fn text(&self) -> String {
        format!(
            "{} {} IN {} {}",
            self.owner,
            self.ttl,
            type_name(self.rtype),
            self.data
        )
    }

    /// The serial, if this is an SOA.
    pub fn serial(&self) -> Option<u32> {
        if self.rtype != SOA {
            return None;
        }
        self.data.split(' ').nth(2)?.parse().ok()
    }
}

/// The mnemonic of a type, `TYPEn` for those we do not know.
pub fn type_name(rtype: u16) -> String {
    let known = match rtype {
        A => "A",
        NS => "NS",
        CNAME => "CNAME",
        SOA => "SOA",
        PTR => "PTR",
        MX => "MX",
        TXT => "TXT",
        AAAA => "AAAA",
        SRV => "SRV",
        DNAME => "DNAME",
        OPT => "OPT",
        other => return format!("TYPE{other}"),
    };
    known.to_owned()
}

/// The texts of records, sorted: what zones are compared by.
pub fn texts<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<String> {
    let mut texts: Vec<String> = records.into_iter().map(Record::text).collect();
    texts.sort();
    texts
}

/// A reply as read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    pub id: u16,
    pub flags: u16,
    /// Name, type, class.
    pub questions: Vec<(String, u16, u16)>,
    pub answers: Vec<Record>,
    pub authority: Vec<Record>,
    /// Includes OPT, whose `class` is the payload size (512 at least) and whose `ttl` holds the flags, after the others,
    /// and TSIG after that.
    pub additional: Vec<Record>,
    /// Codes and data of the options in the OPT record.
    pub options: Vec<(u16, Vec<u8>)>,
    /// Octets on the wire.
    pub size: usize,
    /// The question's name, and then the records with capital letters in their names, with the letters that they have.
    pub spelled: Vec<String>,
}

impl Message {
    /// Reads a message.
    ///
    /// # Errors
    /// Says why hickory cannot read it, or how many octets follow its end.
    pub fn decode(octets: &[u8]) -> Result<Self, String> {
        let mut decoder = BinDecoder::new(octets);
        let message = op::Message::read(&mut decoder).map_err(|error| error.to_string())?;
        if !decoder.is_empty() {
            return Err(format!("{} octets after the end", decoder.len()));
        }
        let records = |records: &[rr::Record]| records.iter().map(Record::of).collect();
        let mut additional: Vec<Record> = records(&message.additionals);
        additional.extend(message.edns.iter().map(|edns| Record::of(&edns.into())));
        let signature = message.signature.clone().into_iter();
        additional.extend(signature.map(|it| Record::of(&it.into_record_of_rdata())));
        let question = |query: &op::Query| {
            let (qtype, class) = (query.query_type().into(), query.query_class().into());
            (name_text(query.name()), qtype, class)
        };
        let spelled_records = [&message.answers, &message.authorities, &message.additionals];
        let spelled = spelled_records.into_iter().flatten();
        let question_name = |query: &op::Query| spelled_name(query.name());
        let spelled: Vec<String> = { message.queries.iter().map(question_name) }
            .chain(spelled.filter_map(capitals))
            .collect();
        let options = message.edns.iter().flat_map(|edns| edns.options().as_ref());
        let option = |(code, option): &(EdnsCode, EdnsOption)| {
            let data = Vec::<u8>::try_from(option).map_err(|error| error.to_string())?;
            Ok((u16::from(*code), data))
        };
        Ok(Self {
            id: message.id,
            // From the octets: hickory drops the reserved bit.
            flags: u16::from_be_bytes([octets[2], octets[3]]),
            questions: message.queries.iter().map(question).collect(),
            answers: records(&message.answers),
            authority: records(&message.authorities),
            additional,
            options: options.map(option).collect::<Result<_, String>>()?,
            size: octets.len(),
            spelled,
        })
    }

    /// The response code without EDNS's upper bits.
    pub fn rcode(&self) -> u16 {
        self.flags & 15
    }

    pub fn is_authoritative(&self) -> bool {
        self.flags & 0x0400 != 0
    }

    pub fn is_truncated(&self) -> bool {
        self.flags & 0x0200 != 0
    }

    /// Records of all sections with this owner (lower case, closing dot) and type.
    pub fn matching(&self, owner: &str, rtype: u16) -> impl Iterator<Item = &Record> {
        let owner = owner.to_owned();
        [&self.answers, &self.authority, &self.additional]
            .into_iter()
            .flatten()
            .filter(move |record| record.owner == owner && record.rtype == rtype)
    }
}

/// A record with capital letters in its names: owner, type, and the names in its data, with the letters that they have.
fn capitals(record: &rr::Record) -> Option<String> {
    let names = std::iter::once(&record.name).chain(names_in(&record.data));
    let texts: Vec<String> = names.map(spelled_name).collect();
    let has_capitals = texts
        .iter()
        .flat_map(|text| text.bytes())
        .any(|it| it.is_ascii_uppercase());
    let rtype = type_name(record.record_type().into());
    has_capitals.then(|| format!("{} {rtype} {}", texts[0], texts[1..].join(" ")))
}

/// The names in RDATA.
#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "the types are hickory's, and most have no names"
)]
fn names_in(data: &RData) -> Vec<&Name> {
    match data {
        RData::NS(rdata::NS(name))
        | RData::CNAME(rdata::CNAME(name))
        | RData::PTR(rdata::PTR(name)) => vec![name],
        RData::MX(mx) => vec![&mx.exchange],
        RData::SRV(srv) => vec![&srv.target],
        RData::SOA(soa) => vec![&soa.mname, &soa.rname],
        _ => Vec::new(),
    }
}

/// A name as lower case text, absolute.
fn name_text(name: &Name) -> String {
    let mut text = spelled_name(name);
    text.make_ascii_lowercase();
    text
}

/// A name as text, absolute, with the letters that it has.
fn spelled_name(name: &Name) -> String {
    let mut text = String::new();
    for label in name {
        for octet in label {
            match *octet {
                octet @ (b'.' | b'\\' | b'"') => text.extend(['\\', char::from(octet)]),
                octet @ 33..=126 => text.push(char::from(octet)),
                other => write!(text, "\\{other:03}").expect("strings grow"),
            }
        }
        text.push('.');
    }
    if text.is_empty() {
        ".".to_owned()
    } else {
        text
    }
}

/// RDATA in master file form.
#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "the types are hickory's, and most have no form of their own here"
)]
fn data_text(data: &RData) -> String {
    match data {
        RData::A(address) => address.to_string(),
        RData::AAAA(address) => address.to_string(),
        RData::NS(rdata::NS(name))
        | RData::CNAME(rdata::CNAME(name))
        | RData::PTR(rdata::PTR(name)) => name_text(name),
        RData::MX(mx) => format!("{} {}", mx.preference, name_text(&mx.exchange)),
        RData::SRV(srv) => format!(
            "{} {} {} {}",
            srv.priority,
            srv.weight,
            srv.port,
            name_text(&srv.target)
        ),
        RData::SOA(soa) => {
            let names = format!("{} {}", name_text(&soa.mname), name_text(&soa.rname));
            // The times are unsigned on the wire.
            let [refresh, retry, expire] =
                [soa.refresh, soa.retry, soa.expire].map(i32::cast_unsigned);
            let (serial, minimum) = (soa.serial, soa.minimum);
            format!("{names} {serial} {refresh} {retry} {expire} {minimum}")
        }
        RData::TXT(txt) => {
            let strings: Vec<String> = txt.txt_data.iter().map(|it| quoted(it)).collect();
            strings.join(" ")
        }
        other => {
            let mut octets = Vec::new();
            other
                .emit(&mut BinEncoder::new(&mut octets))
                .expect("what was read can be written");
            if other.record_type() == RecordType::from(DNAME) {
                let name = Name::read(&mut BinDecoder::new(&octets));
                return name_text(&name.expect("a DNAME has a whole name"));
            }
            let hex: String = octets.iter().map(|octet| format!("{octet:02x}")).collect();
            format!("\\# {} {hex}", octets.len())
        }
    }
}

/// A character string in master file form.
fn quoted(octets: &[u8]) -> String {
    let mut text = String::from("\"");
    for octet in octets {
        match octet {
            b'"' | b'\\' => text.extend(['\\', char::from(*octet)]),
            32..=126 => text.push(char::from(*octet)),
            other => write!(text, "\\{other:03}").expect("strings grow"),
        }
    }
    text + "\""
}

/// Asks by UDP and returns the octets of the reply.
pub fn udp_octets(server: SocketAddr, query: &[u8]) -> io::Result<Vec<u8>> {
    let own = if server.is_ipv4() {
        "127.0.0.1:0"
    } else {
        "[::1]:0"
    };
    let socket = UdpSocket::bind(own)?;
    socket.connect(server)?;
    // Shorter than for TCP: a datagram to a server that is just starting is lost, not delayed.
    socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    socket.send(query)?;
    let mut buffer = vec![0; 65_536];
    let length = socket.recv(&mut buffer)?;
    buffer.truncate(length);
    Ok(buffer)
}

/// Asks by UDP.
pub fn udp(server: SocketAddr, query: &Query) -> io::Result<Message> {
    decoded(&udp_octets(server, &query.encode())?)
}

/// Asks by TCP, one message back.
pub fn tcp(server: SocketAddr, query: &Query) -> io::Result<Message> {
    let mut connection = Connection::open(server)?;
    connection.send(&query.encode())?;
    decoded(&connection.receive()?)
}

/// By UDP, and again by TCP when the reply is truncated.
pub fn ask(server: SocketAddr, query: &Query) -> io::Result<Message> {
    let reply = udp(server, query)?;
    if reply.is_truncated() {
        tcp(server, query)
    } else {
        Ok(reply)
    }
}

/// The serial of the zone at this server, if it answers with authority and an SOA.
pub fn serial(server: SocketAddr, zone: &str) -> Option<u32> {
    let reply = udp(server, &Query::new(zone, SOA)).ok()?;
    reply
        .answers
        .first()
        .filter(|_| reply.is_authoritative())?
        .serial()
}

/// [`Message::decode`] with an I/O error.
fn decoded(octets: &[u8]) -> io::Result<Message> {
    Message::decode(octets).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

/// A TCP connection that carries messages with their length before them.
#[derive(Debug)]
pub struct Connection(pub TcpStream);

impl Connection {
    pub fn open(server: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&server, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self(stream))
    }

    pub fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let length = u16::try_from(message.len()).expect("a message fits its length field");
        self.0.write_all(&[&length.to_be_bytes(), message].concat())
    }

    /// The next message; `UnexpectedEof` when the server closed the connection.
    pub fn receive(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 2];
        self.0.read_exact(&mut length)?;
        let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
        self.0.read_exact(&mut message)?;
        Ok(message)
    }
}

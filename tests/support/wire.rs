//! A minimal DNS client of the tests' own, so that they do not check the server with its own code.
//!
//! It builds queries, exchanges them by UDP and TCP, reads replies into plain records and follows
//! zone transfers. Names are folded to lower case, for servers differ in the case they keep.
//!
//! # Not implemented
//! TSIG (use `dig -y`), TLS, every RDATA form that our zones do not use (shown as RFC 3597 says).

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

pub use self::stream::{Increment, Step, Transfer, apply, axfr, ixfr, transfer};

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
pub const OPT: u16 = 41;
pub const IXFR: u16 = 251;
pub const AXFR: u16 = 252;
pub const ANY: u16 = 255;

/// What to ask.
#[derive(Clone, Debug)]
pub struct Query {
    pub name: String,
    pub qtype: u16,
    pub class: u16,
    pub id: u16,
    pub recursion_desired: bool,
    /// The payload size of an OPT record, if one is sent.
    pub edns: Option<u16>,
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
            edns: None,
            serial: None,
        }
    }

    /// With an OPT record of this payload size.
    pub fn edns(mut self, payload: u16) -> Self {
        self.edns = Some(payload);
        self
    }

    /// The message in wire form.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let counts = [
            1,
            0,
            u16::from(self.serial.is_some()),
            u16::from(self.edns.is_some()),
        ];
        push(&mut out, self.id);
        push(&mut out, u16::from(self.recursion_desired) << 8);
        counts.iter().for_each(|count| push(&mut out, *count));
        push_name(&mut out, &self.name);
        push(&mut out, self.qtype);
        push(&mut out, self.class);
        if let Some(serial) = self.serial {
            push_name(&mut out, &self.name);
            push(&mut out, SOA);
            push(&mut out, self.class);
            out.extend([0; 4]); // TTL
            push(&mut out, 22); // two root names and five numbers
            out.extend([0, 0]);
            out.extend(serial.to_be_bytes());
            out.extend([0; 16]);
        }
        if let Some(payload) = self.edns {
            out.push(0);
            push(&mut out, OPT);
            push(&mut out, payload);
            out.extend([0; 6]);
        }
        out
    }
}

/// Appends a number.
fn push(out: &mut Vec<u8>, number: u16) {
    out.extend(number.to_be_bytes());
}

/// Appends a name; a backslash keeps the next character's special meaning away, or three digits follow.
fn push_name(out: &mut Vec<u8>, name: &str) {
    let mut label = Vec::new();
    let mut octets = name.bytes().chain((!name.ends_with('.')).then_some(b'.'));
    while let Some(octet) = octets.next() {
        match octet {
            b'\\' => match octets.next() {
                Some(hundreds @ b'0'..=b'9') => {
                    let mut digit = || octets.next().expect("three digits follow") - b'0';
                    label.push((hundreds - b'0') * 100 + digit() * 10 + digit());
                }
                plain => label.extend(plain),
            },
            b'.' if label.is_empty() => {}
            b'.' => {
                out.push(u8::try_from(label.len()).expect("labels of tests are short"));
                out.append(&mut label);
            }
            other => label.push(other),
        }
    }
    out.push(0);
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
    /// Reads what [`text`](Self::text) writes.
    ///
    /// # Panics
    /// When the line is not `owner TTL IN TYPE data`, names absolute.
    pub fn parse(line: &str) -> Self {
        let parts: Vec<&str> = line.splitn(5, ' ').collect();
        let [owner, ttl, "IN", name, data] = parts[..] else {
            panic!("not `owner TTL IN TYPE data`: {line}");
        };
        let known = [A, NS, CNAME, SOA, PTR, MX, TXT, AAAA, SRV];
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
    /// Includes OPT, whose `class` is the payload size and whose `ttl` holds the flags.
    pub additional: Vec<Record>,
    /// Octets on the wire.
    pub size: usize,
}

impl Message {
    /// Reads a message; says what is wrong with it otherwise.
    pub fn decode(octets: &[u8]) -> Result<Self, String> {
        let mut reader = Reader { octets, at: 0 };
        let (id, flags) = (reader.number()?, reader.number()?);
        let mut counts = [0; 4];
        for count in &mut counts {
            *count = reader.number()?;
        }
        let mut message = Self {
            id,
            flags,
            size: octets.len(),
            ..Self::default()
        };
        for _ in 0..counts[0] {
            let name = reader.name()?;
            message
                .questions
                .push((name, reader.number()?, reader.number()?));
        }
        message.answers = reader.records(counts[1])?;
        message.authority = reader.records(counts[2])?;
        message.additional = reader.records(counts[3])?;
        if reader.at != octets.len() {
            return Err(format!("{} octets after the end", octets.len() - reader.at));
        }
        Ok(message)
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

/// A place in a message.
struct Reader<'a> {
    octets: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take(&mut self, count: usize) -> Result<&[u8], String> {
        let taken = self.octets.get(self.at..self.at + count);
        self.at += count;
        taken.ok_or_else(|| format!("message ends before octet {}", self.at))
    }

    fn octet(&mut self) -> Result<u8, String> {
        Ok(self.take(1)?[0])
    }

    fn number(&mut self) -> Result<u16, String> {
        let octets = self.take(2)?;
        Ok(u16::from_be_bytes([octets[0], octets[1]]))
    }

    fn long(&mut self) -> Result<u32, String> {
        let octets = self.take(4)?;
        Ok(u32::from_be_bytes(
            octets.try_into().expect("four octets were taken"),
        ))
    }

    /// A name, compressed or not, as lower case text.
    fn name(&mut self) -> Result<String, String> {
        let mut text = String::new();
        let mut back = None;
        loop {
            match self.octet()? {
                0 => break,
                length @ 1..=63 => {
                    for octet in self.take(usize::from(length))? {
                        match octet.to_ascii_lowercase() {
                            special @ (b'.' | b'\\' | b'"') => {
                                text.extend(['\\', char::from(special)]);
                            }
                            plain @ 33..=126 => text.push(char::from(plain)),
                            other => write!(text, "\\{other:03}").expect("strings grow"),
                        }
                    }
                    text.push('.');
                }
                high @ 192..=255 => {
                    let target = usize::from(high & 63) << 8 | usize::from(self.octet()?);
                    // A pointer points backwards, so that following it comes to an end.
                    if target >= self.at - 2 {
                        return Err(format!(
                            "compression pointer to {target} at {}",
                            self.at - 2
                        ));
                    }
                    back = back.or(Some(self.at));
                    self.at = target;
                }
                other => return Err(format!("label type {other:#x}")),
            }
            if text.len() > 1100 {
                return Err("a name without end".to_owned());
            }
        }
        self.at = back.unwrap_or(self.at);
        Ok(if text.is_empty() {
            ".".to_owned()
        } else {
            text
        })
    }

    fn records(&mut self, count: u16) -> Result<Vec<Record>, String> {
        (0..count).map(|_| self.record()).collect()
    }

    fn record(&mut self) -> Result<Record, String> {
        let owner = self.name()?;
        let (rtype, class, ttl) = (self.number()?, self.number()?, self.long()?);
        let end = usize::from(self.number()?) + self.at;
        let data = self.data(rtype, end)?;
        if self.at != end {
            return Err(format!(
                "RDATA of {owner} {} has another length",
                type_name(rtype)
            ));
        }
        Ok(Record {
            owner,
            rtype,
            data,
            ttl,
            class,
        })
    }

    /// RDATA up to `end` in master file form.
    fn data(&mut self, rtype: u16, end: usize) -> Result<String, String> {
        Ok(match rtype {
            A => Ipv4Addr::from(self.long()?).to_string(),
            AAAA => {
                let octets: [u8; 16] = self.take(16)?.try_into().expect("sixteen were taken");
                Ipv6Addr::from(octets).to_string()
            }
            NS | CNAME | PTR => self.name()?,
            MX => format!("{} {}", self.number()?, self.name()?),
            SRV => {
                let numbers = [self.number()?, self.number()?, self.number()?];
                format!(
                    "{} {} {} {}",
                    numbers[0],
                    numbers[1],
                    numbers[2],
                    self.name()?
                )
            }
            SOA => {
                let mut text = format!("{} {}", self.name()?, self.name()?);
                for _ in 0..5 {
                    write!(text, " {}", self.long()?).expect("strings grow");
                }
                text
            }
            TXT => {
                let mut strings = Vec::new();
                while self.at < end {
                    let length = usize::from(self.octet()?);
                    strings.push(quoted(self.take(length)?));
                }
                strings.join(" ")
            }
            _ => {
                let octets = self.take(end.saturating_sub(self.at))?;
                let hex: String = octets.iter().map(|octet| format!("{octet:02x}")).collect();
                format!("\\# {} {hex}", octets.len())
            }
        })
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

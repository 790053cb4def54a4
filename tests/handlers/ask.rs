//! Questions as text, and a server's replies in a form that can be compared.

use std::fmt::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use crate::support::wire::{self, Message, Query, Record};

/// How long a reply may take: more than the five seconds a forwarder has.
const PATIENCE: Duration = Duration::from_secs(8);
/// Seconds by which TTLs may differ: the servers are asked one after the other.
const TOLERANCE: u32 = 1;

/// What a server said.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Said {
    /// Everything but TTLs.
    pub text: String,
    pub ttls: Vec<u32>,
}

impl Said {
    /// Whether the two are one answer, TTLs a little apart.
    pub fn same(&self, other: &Self) -> bool {
        self.text == other.text
            && self.ttls.len() == other.ttls.len()
            && self
                .ttls
                .iter()
                .zip(&other.ttls)
                .all(|(a, b)| a.abs_diff(*b) <= TOLERANCE)
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = self.text.split("TTL");
        f.write_str(parts.next().unwrap_or_default())?;
        for (part, ttl) in parts.zip(&self.ttls) {
            write!(f, "{ttl}{part}")?;
        }
        Ok(())
    }
}

/// A question, ready to be sent.
#[derive(Debug, Clone)]
pub struct Ask {
    octets: Vec<u8>,
    is_tcp: bool,
    from: Ipv4Addr,
}

impl Ask {
    /// Reads `NAME TYPE [+tcp] [+do] [+e=SIZE] [+opt=CODE:HEX] [+cd] [+ad] [+nord] [+from=IP] [CH]`.
    pub fn parse(text: &str) -> Self {
        let mut words = text.split_whitespace();
        let name = words.next().expect("a name");
        let qtype = type_of(words.next().unwrap_or("A"));
        let mut query = Query::new(name, qtype);
        query.recursion_desired = true;
        let (mut is_tcp, mut from) = (false, Ipv4Addr::LOCALHOST);
        for word in words {
            match word {
                "+tcp" => is_tcp = true,
                "+do" => {
                    query.dnssec_ok = true;
                    query.edns = query.edns.or(Some(1232));
                }
                "+cd" => query.checking_disabled = true,
                "+ad" => query.authentic_data = true,
                "+nord" => query.recursion_desired = false,
                "CH" => query.class = 3,
                more => match more.split_once('=').expect("an option") {
                    ("+from", address) => from = address.parse().unwrap(),
                    ("+opt", option) => {
                        query.options.push(option_of(option));
                        query.edns = query.edns.or(Some(1232));
                    }
                    ("+e", size) => query.edns = Some(size.parse().unwrap()),
                    _ => panic!("{more}"),
                },
            }
        }
        Self {
            octets: query.encode(),
            is_tcp,
            from,
        }
    }

    /// Asks a server.
    pub fn send(&self, server: SocketAddr) -> Said {
        let reply = if self.is_tcp {
            self.stream(server)
        } else {
            self.datagram(server)
        };
        let said = reply.map_err(|error| error.to_string());
        let decoded = said.and_then(|(octets, port)| Ok((Message::decode(&octets)?, port)));
        match decoded {
            Ok((message, port)) => {
                let said = said_of(&message);
                // A server may tell our port, which is another each time.
                let text = said.text.replace(&format!(" {port} "), " PORT ");
                Said { text, ..said }
            }
            Err(error) => Said {
                text: format!("no reply: {error}"),
                ttls: Vec::new(),
            },
        }
    }

    /// The reply, and the port it came to.
    fn datagram(&self, server: SocketAddr) -> std::io::Result<(Vec<u8>, u16)> {
        let socket = UdpSocket::bind((self.from, 0))?;
        socket.connect(server)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.send(&self.octets)?;
        let mut buffer = vec![0; 65_536];
        let length = socket.recv(&mut buffer)?;
        buffer.truncate(length);
        Ok((buffer, socket.local_addr()?.port()))
    }

    /// The same over TCP.
    fn stream(&self, server: SocketAddr) -> std::io::Result<(Vec<u8>, u16)> {
        let mut connection = wire::Connection::open(server)?;
        connection.0.set_read_timeout(Some(PATIENCE))?;
        connection.send(&self.octets)?;
        Ok((connection.receive()?, connection.0.local_addr()?.port()))
    }
}

/// An EDNS option written as `CODE:HEX`.
fn option_of(text: &str) -> (u16, Vec<u8>) {
    let (code, data) = text.split_once(':').expect("CODE:HEX");
    let digit = |at: usize| u8::from_str_radix(&data[at..at + 2], 16).unwrap();
    let data = (0..data.len()).step_by(2).map(digit).collect();
    (code.parse().unwrap(), data)
}

/// The number of a type.
fn type_of(word: &str) -> u16 {
    match word {
        "A" => wire::A,
        "AAAA" => wire::AAAA,
        "NS" => wire::NS,
        "CNAME" => wire::CNAME,
        "SOA" => wire::SOA,
        "PTR" => wire::PTR,
        "MX" => wire::MX,
        "TXT" => wire::TXT,
        "SRV" => wire::SRV,
        "HTTPS" => 65,
        "DS" => 43,
        "HINFO" => 13,
        "ANY" => wire::ANY,
        other => panic!("type {other}"),
    }
}

/// A message as what is compared.
fn said_of(message: &Message) -> Said {
    let mut text = format!("rcode {}", message.rcode());
    let flags = [
        (0x400, "aa"),
        (0x200, "tc"),
        (0x100, "rd"),
        (0x80, "ra"),
        (0x20, "ad"),
        (0x10, "cd"),
    ];
    for (bit, name) in flags {
        if message.flags & bit != 0 {
            write!(text, " {name}").unwrap();
        }
    }
    for (name, qtype, class) in &message.questions {
        write!(text, " ? {name} {} {class}", wire::type_name(*qtype)).unwrap();
    }
    let mut ttls = Vec::new();
    let sections = [
        (" |", &message.answers),
        (" ;", &message.authority),
        (" +", &message.additional),
    ];
    for (mark, records) in sections {
        let mut records: Vec<&Record> = records.iter().filter(|it| it.rtype != wire::OPT).collect();
        records.sort();
        text += if records.is_empty() { "" } else { mark };
        for record in records {
            let Record {
                owner,
                rtype,
                data,
                class,
                ..
            } = record;
            write!(
                text,
                " {owner} TTL {class} {} {data}",
                wire::type_name(*rtype)
            )
            .unwrap();
            ttls.push(record.ttl);
        }
    }
    for opt in message.additional.iter().filter(|it| it.rtype == wire::OPT) {
        let high = opt.ttl >> 24;
        let dnssec_ok = opt.ttl & 0x8000 != 0;
        write!(text, " opt rcode+{high} do={dnssec_ok}").unwrap();
    }
    Said { text, ttls }
}

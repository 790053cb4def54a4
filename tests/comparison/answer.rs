//! An answer as it is compared: sets instead of lists, without what may differ in every reply.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use crate::support::wire::{self, Message, OPT, Query, Record, SOA, type_name};

/// No error.
pub const NOERROR: u16 = 0;
/// No such name.
pub const NXDOMAIN: u16 = 3;

/// Octets of a datagram from which on there may be more to say by TCP.
const LARGE: usize = 1000;

/// The types that hold data here.
pub const DATA_TYPES: [u16; 6] = [
    wire::A,
    wire::AAAA,
    wire::CNAME,
    wire::SRV,
    wire::TXT,
    wire::PTR,
];

/// All types that are asked.
pub const TYPES: [u16; 11] = [
    wire::A,
    wire::AAAA,
    wire::CNAME,
    wire::SRV,
    wire::TXT,
    wire::PTR,
    SOA,
    wire::NS,
    wire::ANY,
    wire::MX,
    // HTTPS
    65,
];

/// A question; the name is absolute, in the case in which it is sent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Question {
    pub name: String,
    pub qtype: u16,
}

impl Question {
    pub fn new(name: &str, qtype: u16) -> Self {
        Self {
            name: name.to_owned(),
            qtype,
        }
    }

    /// The name in lower case.
    pub fn lower(&self) -> String {
        self.name.to_lowercase()
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let qtype = match self.qtype {
            wire::ANY => "ANY".to_owned(),
            other => type_name(other),
        };
        write!(f, "{} {qtype}", self.name)
    }
}

/// An answer. The SOA's serial is no part of it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Answer {
    /// Nobody answered.
    pub silent: bool,
    pub rcode: u16,
    pub aa: bool,
    pub answers: BTreeSet<Record>,
    pub authority: BTreeSet<Record>,
    pub additional: BTreeSet<Record>,
    /// Whether a record stood twice in a section.
    pub repeats: bool,
}

impl Answer {
    /// The answer in a message.
    pub fn of(message: &Message) -> Self {
        let mut repeats = false;
        let mut set = |records: &[Record]| -> BTreeSet<Record> {
            let kept: Vec<Record> = records
                .iter()
                .filter(|record| record.rtype != OPT)
                .map(without_serial)
                .collect();
            let set: BTreeSet<Record> = kept.iter().cloned().collect();
            repeats |= set.len() != kept.len();
            set
        };
        let [answers, authority, additional] =
            [&message.answers, &message.authority, &message.additional].map(|section| set(section));
        Self {
            silent: false,
            rcode: message.rcode(),
            aa: message.is_authoritative(),
            answers,
            authority,
            additional,
            repeats,
        }
    }

    /// Whether it has no records but perhaps the SOA of a negative answer.
    pub fn is_negative(&self) -> bool {
        self.answers.is_empty()
    }

    /// NOERROR without an answer.
    pub fn is_nodata(&self) -> bool {
        self.rcode == NOERROR && self.answers.is_empty() && !self.silent
    }

    /// Whether it says that there is no such name.
    pub fn is_nxdomain(&self) -> bool {
        self.rcode == NXDOMAIN && self.answers.is_empty()
    }

    /// Equal but for repetitions.
    pub fn same(&self, other: &Self) -> bool {
        let plain = |answer: &Self| Self {
            repeats: false,
            ..answer.clone()
        };
        plain(self) == plain(other)
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.silent {
            return writeln!(f, "    silence");
        }
        writeln!(
            f,
            "    rcode {}{}{}",
            self.rcode,
            if self.aa { ", AA" } else { "" },
            if self.repeats { ", repeats" } else { "" }
        )?;
        for (section, records) in [
            ("answer", &self.answers),
            ("authority", &self.authority),
            ("additional", &self.additional),
        ] {
            for record in records {
                writeln!(f, "    {section}: {}", record.text())?;
            }
        }
        Ok(())
    }
}

/// An SOA with serial 0, anything else as it is.
fn without_serial(record: &Record) -> Record {
    let mut record = record.clone();
    if record.rtype == SOA {
        let mut parts: Vec<&str> = record.data.split(' ').collect();
        parts[2] = "0";
        record.data = parts.join(" ");
    }
    record
}

/// A socket that asks one server question after question.
pub struct Asker {
    socket: UdpSocket,
    server: SocketAddr,
    last: u16,
}

impl Asker {
    pub fn new(server: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(server).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(300)))
            .unwrap();
        Self {
            socket,
            server,
            last: 0,
        }
    }

    /// The answer by UDP, by TCP when it does not fit; silence when two tries bring nothing.
    pub fn ask(&mut self, question: &Question) -> Answer {
        for _ in 0..2 {
            if let Some(message) = self.exchange(question) {
                // What does not fit beside the answer is left out without a word.
                if message.is_truncated() || message.size > LARGE {
                    return self.ask_by_tcp(question).unwrap();
                }
                return Answer::of(&message);
            }
        }
        Answer {
            silent: true,
            ..Answer::default()
        }
    }

    /// The answer by TCP.
    pub fn ask_by_tcp(&self, question: &Question) -> io::Result<Answer> {
        let query = Query::new(&question.name, question.qtype);
        Ok(Answer::of(&wire::tcp(self.server, &query)?))
    }

    /// One datagram there and its reply.
    fn exchange(&mut self, question: &Question) -> Option<Message> {
        self.last = self.last.wrapping_add(1);
        let mut query = Query::new(&question.name, question.qtype).edns(4096);
        query.id = self.last;
        self.socket.send(&query.encode()).ok()?;
        let mut buffer = [0; 8192];
        loop {
            let length = self.socket.recv(&mut buffer).ok()?;
            let message = Message::decode(&buffer[..length])
                .unwrap_or_else(|error| panic!("{question} at {}: {error}", self.server));
            if message.id == self.last {
                return Some(message);
            }
        }
    }
}

//! A question as it is sent, and an answer as it is compared: sets instead of lists, without what may differ in every reply.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use crate::support::wire::{
    self, Connection, Message, OPT, Query, Record, SOA, SRV, TXT, type_name,
};

/// No error.
pub const NOERROR: u16 = 0;
/// No such name.
pub const NXDOMAIN: u16 = 3;

/// Octets of a datagram from which on there may be more to say by TCP, with EDNS and without.
const LARGE: [usize; 2] = [1000, 200];
/// How many questions are under way at once.
const WINDOW: usize = 64;
/// The flags that are compared beside AA: QR, the opcode, RD, RA, Z, AD, CD.
const FLAGS: u16 = 0xf9f0;
/// A reply.
pub const QR: u16 = 0x8000;
/// The flag RD.
const RD: u16 = 0x0100;
/// The flag CD.
pub const CD: u16 = 0x0010;
/// The flag DO, in the TTL of an OPT record.
const DO: u32 = 0x8000;

/// The types that hold data here.
pub const DATA_TYPES: [u16; 6] = [wire::A, wire::AAAA, wire::CNAME, SRV, TXT, wire::PTR];

/// All types that are asked.
pub const TYPES: [u16; 11] = [
    wire::A,
    wire::AAAA,
    wire::CNAME,
    SRV,
    TXT,
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

/// How a question is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    edns: bool,
    dnssec_ok: bool,
    recursion_desired: bool,
    pub checking_disabled: bool,
    authentic_data: bool,
}

impl Question {
    /// How it is sent: most of them plainly with EDNS, the others with one thing changed. The same for all letters.
    pub fn style(&self) -> Style {
        // FNV-1a.
        let octets = self.name.bytes().map(|it| it.to_ascii_lowercase());
        let hash = octets
            .chain(self.qtype.to_be_bytes())
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, octet| {
                (hash ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3)
            });
        let dice = (hash >> 32) % 24;
        Style {
            edns: dice > 1,
            dnssec_ok: [2, 6].contains(&dice),
            recursion_desired: [1, 3, 6].contains(&dice),
            checking_disabled: [4, 6].contains(&dice),
            authentic_data: [5, 6].contains(&dice),
        }
    }

    /// The question as a message.
    fn query(&self) -> Query {
        let style = self.style();
        let mut query = Query::new(&self.name, self.qtype);
        query.recursion_desired = style.recursion_desired;
        query.checking_disabled = style.checking_disabled;
        query.authentic_data = style.authentic_data;
        if style.edns {
            query.edns = Some(4096);
            query.dnssec_ok = style.dnssec_ok;
        }
        query
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

/// An answer. The SOA's serial is no part of it where it is the right one.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Answer {
    /// Nobody answered.
    pub silent: bool,
    pub rcode: u16,
    pub aa: bool,
    /// The other flags.
    pub flags: u16,
    /// The upper bits of the code, the version and the flags of the OPT record, and the codes of its options.
    pub opt: Option<(u32, Vec<u16>)>,
    pub answers: BTreeSet<Record>,
    pub authority: BTreeSet<Record>,
    pub additional: BTreeSet<Record>,
    /// Whether a record stood twice in a section.
    pub repeats: bool,
    /// The question's name and the records with capital letters, as they are spelled.
    pub spelled: BTreeSet<String>,
}

/// Which serials are right.
pub enum Serials {
    Any,
    /// By zone.
    Of(BTreeMap<String, String>),
}

impl Serials {
    /// An SOA with serial 0 if its serial is right, anything else as it is.
    fn without(&self, record: &Record) -> Record {
        let mut record = record.clone();
        if record.rtype == SOA {
            let mut parts: Vec<&str> = record.data.split(' ').collect();
            let is_right = match self {
                Self::Any => true,
                Self::Of(zones) => zones.get(&record.owner).is_some_and(|it| it == parts[2]),
            };
            if is_right {
                parts[2] = "0";
            }
            record.data = parts.join(" ");
        }
        record
    }
}

impl Answer {
    /// The answer in a message; silence when there is none.
    pub fn of(message: Option<&Message>, serials: &Serials) -> Self {
        let Some(message) = message else {
            return Self {
                silent: true,
                ..Self::default()
            };
        };
        let mut repeats = false;
        let mut set = |records: &[Record]| -> BTreeSet<Record> {
            let records: Vec<Record> = records
                .iter()
                .filter(|record| record.rtype != OPT)
                .map(|record| serials.without(record))
                .collect();
            let set: BTreeSet<Record> = records.iter().cloned().collect();
            repeats |= set.len() != records.len();
            set
        };
        let [answers, authority, additional] =
            [&message.answers, &message.authority, &message.additional].map(|section| set(section));
        let opt = message.additional.iter().find(|it| it.rtype == OPT);
        let codes = message.options.iter().map(|(code, _)| *code);
        Self {
            silent: false,
            rcode: message.rcode(),
            aa: message.is_authoritative(),
            flags: message.flags & FLAGS,
            opt: opt.map(|opt| (opt.ttl, codes.collect())),
            answers,
            authority,
            additional,
            repeats,
            spelled: message.spelled.iter().cloned().collect(),
        }
    }

    /// The same as the reply of ours to a question: flags and OPT are those that the question asks for, and owners of
    /// answers that are the question's name have its letters.
    pub fn to(mut self, question: &Question) -> Self {
        let style = question.style();
        self.flags = QR | if style.recursion_desired { RD } else { 0 };
        let opt_flags = if style.dnssec_ok { DO } else { 0 };
        self.opt = style.edns.then(|| (opt_flags, Vec::new()));
        self.spelled = BTreeSet::from([question.name.clone()]);
        let lower = question.lower();
        if lower != question.name {
            let own = self.answers.iter().filter(|record| record.owner == lower);
            self.spelled.extend(own.map(|record| {
                let names = match record.rtype {
                    SOA => record
                        .data
                        .splitn(3, ' ')
                        .take(2)
                        .collect::<Vec<_>>()
                        .join(" "),
                    SRV => record
                        .data
                        .rsplit(' ')
                        .next()
                        .unwrap_or_default()
                        .to_owned(),
                    TXT | wire::A | wire::AAAA => String::new(),
                    _ => record.data.clone(),
                };
                format!("{} {} {names}", question.name, type_name(record.rtype))
            }));
        }
        self
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

    /// Equal but for repetitions and letters.
    pub fn same(&self, other: &Self) -> bool {
        let plain = |answer: &Self| Self {
            repeats: false,
            spelled: BTreeSet::new(),
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
            "    rcode {}{}{}, flags {:04x}, OPT {:?}",
            self.rcode,
            if self.aa { ", AA" } else { "" },
            if self.repeats { ", repeats" } else { "" },
            self.flags,
            self.opt
        )?;
        let has_capitals = |text: &&String| text.bytes().any(|it| it.is_ascii_uppercase());
        for text in self.spelled.iter().filter(has_capitals) {
            writeln!(f, "    spelled: {text}")?;
        }
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

/// Sockets that ask one server many questions at once.
pub struct Asker {
    socket: UdpSocket,
    server: SocketAddr,
    connection: Option<Connection>,
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
            connection: None,
        }
    }

    /// The answers by UDP, by TCP where they do not fit; none where two tries bring nothing.
    pub fn ask_all(&mut self, questions: &[Question]) -> Vec<Option<Message>> {
        let mut replies = vec![None; questions.len()];
        for (chunk, replies) in questions.chunks(WINDOW).zip(replies.chunks_mut(WINDOW)) {
            for _ in 0..2 {
                self.ask_missing(chunk, replies);
            }
            for (question, reply) in chunk.iter().zip(replies) {
                let limit = LARGE[usize::from(!question.style().edns)];
                // What does not fit beside the answer is left out without a word.
                if reply
                    .as_ref()
                    .is_some_and(|it| it.is_truncated() || it.size > limit)
                {
                    *reply = Some(self.ask_by_tcp(question));
                }
            }
        }
        replies
    }

    /// Asks those that have no reply by UDP, all at once. They have their places as ids.
    fn ask_missing(&self, questions: &[Question], replies: &mut [Option<Message>]) {
        let mut missing = 0;
        for (place, question) in questions.iter().enumerate() {
            if replies[place].is_none() {
                let mut query = question.query();
                query.id = u16::try_from(place).unwrap();
                self.socket.send(&query.encode()).unwrap();
                missing += 1;
            }
        }
        let mut buffer = [0; 8192];
        while missing > 0 {
            let Ok(length) = self.socket.recv(&mut buffer) else {
                return;
            };
            let message = self.decoded(&buffer[..length]);
            let place = usize::from(message.id);
            // A late one of the questions before has another name.
            let is_asked = questions.get(place).is_some_and(|question| {
                let asked = message.questions.first();
                asked.is_some_and(|it| it.0 == question.lower() && it.1 == question.qtype)
            });
            if is_asked && replies[place].is_none() {
                replies[place] = Some(message);
                missing -= 1;
            }
        }
    }

    /// The answer by TCP.
    fn ask_by_tcp(&mut self, question: &Question) -> Message {
        let octets = question.query().encode();
        let server = self.server;
        let mut exchange = |connection: &mut Connection| {
            connection.send(&octets)?;
            connection.receive()
        };
        // The server may have closed it meanwhile.
        let kept = self.connection.as_mut().map(&mut exchange);
        let octets = kept.and_then(Result::ok).unwrap_or_else(|| {
            let mut fresh = Connection::open(server).unwrap();
            let octets = exchange(&mut fresh).unwrap();
            self.connection = Some(fresh);
            octets
        });
        self.decoded(&octets)
    }

    fn decoded(&self, octets: &[u8]) -> Message {
        Message::decode(octets).unwrap_or_else(|error| panic!("{}: {error}", self.server))
    }
}

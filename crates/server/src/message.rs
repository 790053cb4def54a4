//! A query and its reply in the form that handlers use: owned values that each handler may change.
//!
//! Other code handles the wire: `dispatch` reads the request, and `reply` writes the reply with the question as it
//! came, OPT, TSIG and truncation. A handler's change never touches a transfer or a signature.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use dns::{Name, Query, Rcode, Record, Rtype};

/// The error for a chain that ends without an answer, in CoreDNS's words.
pub(super) const END_OF_CHAIN: &str = "no next plugin found";

/// The largest request that is read from a datagram. A longer one is cut, and so malformed. On a connection, a longer
/// request is refused if its answer has to be waited for.
pub(crate) const REQUEST_OCTETS: usize = 4096;

/// The transport of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Proto {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
    /// DNS over TLS.
    Tls,
    /// An HTTP request over TLS.
    Https,
    /// An HTTP request over QUIC.
    Https3,
    /// A QUIC stream.
    Quic,
}

impl Proto {
    /// All transports, each with its name in metrics.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::Udp, "udp"),
        (Self::Tcp, "tcp"),
        (Self::Tls, "tls"),
        (Self::Https, "https"),
        (Self::Https3, "https3"),
        (Self::Quic, "quic"),
    ];

    /// Its name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Whether messages have a length before them, and may be of the largest size.
    #[must_use]
    pub const fn is_stream(self) -> bool {
        match self {
            Self::Udp => false,
            Self::Tcp | Self::Tls | Self::Https | Self::Https3 | Self::Quic => true,
        }
    }

    /// Whether it is encrypted.
    #[must_use]
    pub const fn is_encrypted(self) -> bool {
        match self {
            Self::Udp | Self::Tcp => false,
            Self::Tls | Self::Https | Self::Https3 | Self::Quic => true,
        }
    }

    /// Whether AXFR and IXFR are answered over it.
    #[must_use]
    pub const fn has_transfers(self) -> bool {
        match self {
            Self::Udp | Self::Tcp | Self::Tls => true,
            Self::Https | Self::Https3 | Self::Quic => false,
        }
    }

    /// Whether its packets are UDP, as CoreDNS counts and logs it.
    #[must_use]
    pub const fn is_over_udp(self) -> bool {
        match self {
            Self::Udp | Self::Https3 | Self::Quic => true,
            Self::Tcp | Self::Tls | Self::Https => false,
        }
    }

    /// The index in [`PROTOS`](crate::tally::PROTOS) under which it is counted and logged.
    pub(crate) fn counted_as(self) -> usize {
        usize::from(!self.is_over_udp())
    }
}

/// The class IN (RFC 1035 section 3.2.4).
pub const CLASS_IN: u16 = 1;
/// The class CH.
pub const CLASS_CHAOS: u16 = 3;

/// The question of a query, for a handler to decide whether it has to act. It is made for every query, so nothing here
/// is owned.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The name, in wire form and lower case.
    pub name: &'a [u8],
    /// The type.
    pub qtype: Rtype,
    /// The class.
    pub qclass: u16,
    /// Whether the client wants DNSSEC records.
    pub dnssec_ok: bool,
    /// The client's address.
    pub client: SocketAddr,
}

impl<'a> Question<'a> {
    /// A question of class IN from no particular client, for a name in wire form and lower case.
    #[must_use]
    pub const fn of(name: &'a [u8], qtype: Rtype) -> Self {
        Self {
            name,
            qtype,
            qclass: CLASS_IN,
            dnssec_ok: false,
            client: SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0),
        }
    }
}

/// The origin of a request. No handler changes it.
#[derive(Debug, Clone, Copy)]
pub struct Origin {
    /// The client's address.
    pub client: SocketAddr,
    /// Our address.
    pub local: SocketAddr,
    /// The transport.
    pub proto: Proto,
    /// The octets of the request.
    pub octets: usize,
}

/// The EDNS part of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edns {
    /// The largest datagram that the client accepts.
    pub size: u16,
    /// Whether the client wants DNSSEC records.
    pub dnssec_ok: bool,
    /// Its options in wire form.
    pub options: Vec<u8>,
}

/// The labels that handlers found for a query, with their values.
pub type Metadata = BTreeMap<Cow<'static, str>, String>;

/// A query on its way through a chain.
#[derive(Debug, Clone)]
pub struct Request {
    /// The message's ID.
    pub id: u16,
    /// Header flags; the reply has their RD, unless it has one of its own.
    pub flags: u16,
    /// The current name of the question, in its own case.
    pub name: Name,
    /// The type.
    pub qtype: Rtype,
    /// The class.
    pub qclass: u16,
    /// The EDNS part, if the client sent one.
    pub edns: Option<Edns>,
    /// Its origin.
    pub origin: Origin,
    /// The questions that led to this one, in lower case: the client's, those before each rewriting, the server's own,
    /// and the aliases that were followed.
    pub trail: Vec<(Name, Rtype)>,
    /// The number of the server's own questions that led to this one.
    pub depth: usize,
    /// The labels that handlers found, such as `kubernetes/service`.
    pub metadata: Metadata,
}

impl Request {
    /// The request of a query; `None` when it has no question.
    #[must_use]
    pub fn of(query: &Query<'_>, origin: Origin) -> Option<Self> {
        let name = Name::from_wire(query.name()).ok()?;
        Some(Self {
            id: query.id,
            flags: query.flags,
            trail: vec![(name.to_lower(), query.qtype())],
            depth: 0,
            name,
            qtype: query.qtype(),
            qclass: query.qclass(),
            edns: query.opt.map(|opt| Edns {
                size: opt.size,
                dnssec_ok: opt.dnssec_ok,
                options: opt.options.to_vec(),
            }),
            origin,
            metadata: BTreeMap::new(),
        })
    }

    /// The same client's question for another name or type.
    #[must_use]
    pub fn asking(&self, name: Name, qtype: Rtype) -> Self {
        Self {
            name,
            qtype,
            ..self.clone()
        }
    }

    /// The same client's question for the target of an alias. The alias is at the current name, which may differ from
    /// the client's and must not come again.
    #[must_use]
    pub fn following(&self, target: Name) -> Self {
        let mut asking = self.asking(target, self.qtype);
        let here = (self.name.to_lower(), self.qtype);
        if !asking.trail.contains(&here) {
            asking.trail.push(here);
        }
        asking
    }

    /// The question for handlers, with its name in lower case.
    #[must_use]
    pub fn question<'n>(&self, lower: &'n Name) -> Question<'n> {
        Question {
            name: lower.as_wire(),
            qtype: self.qtype,
            qclass: self.qclass,
            dnssec_ok: self.dnssec_ok(),
            client: self.origin.client,
        }
    }

    /// Whether the client wants DNSSEC records.
    #[must_use]
    pub fn dnssec_ok(&self) -> bool {
        self.edns.as_ref().is_some_and(|edns| edns.dnssec_ok)
    }
}

/// A chain's reply to a query: records and flags, without the question, OPT and TSIG.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reply {
    /// The response code.
    pub rcode: Rcode,
    /// The header flags AA, TC, RA, AD and CD.
    pub flags: u16,
    /// RD, where it is not that of the query.
    pub recursion_desired: Option<bool>,
    /// The answer.
    pub answers: Vec<Record>,
    /// Authority.
    pub authority: Vec<Record>,
    /// Additional, without OPT.
    pub additional: Vec<Record>,
    /// Extended errors (RFC 8914): code and text.
    pub extended: Vec<(u16, String)>,
    /// The handler that made it, by its word in the Corefile.
    pub by: &'static str,
}

impl Reply {
    /// A reply without records.
    #[must_use]
    pub fn empty(by: &'static str, rcode: Rcode, flags: u16) -> Self {
        Self {
            rcode,
            flags,
            by,
            ..Self::default()
        }
    }

    /// All records.
    pub fn records_mut(&mut self) -> impl Iterator<Item = &mut Record> {
        let sections = [&mut self.answers, &mut self.authority, &mut self.additional];
        sections.into_iter().flatten()
    }
}

/// The outcome of a chain. A failure is a code without a message: no handler wrote one, so none is cached or rewritten,
/// and the server writes the reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A message.
    Reply(Reply),
    /// A response code alone.
    Failed(Failure),
    /// No reply is sent.
    Dropped,
}

/// A response code without a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The code.
    pub rcode: Rcode,
    /// The handler that failed, by its word in the Corefile.
    pub by: &'static str,
    /// The error for `errors`; `None` is not logged.
    pub error: Option<String>,
    /// An extended error for the client (RFC 8914 section 4).
    pub extended: Option<u16>,
}

impl Failure {
    /// Whether the failure is only that no handler answers.
    #[must_use]
    pub fn is_end_of_chain(&self) -> bool {
        let error = self.error.as_deref();
        error.is_some_and(|error| error.ends_with(END_OF_CHAIN))
    }
}

impl Outcome {
    /// A failure that `errors` logs.
    pub fn failed(by: &'static str, rcode: Rcode, error: impl Into<String>) -> Self {
        Self::Failed(Failure {
            rcode,
            by,
            error: Some(error.into()),
            extended: None,
        })
    }

    /// Its response code; `None` when no reply is sent.
    #[must_use]
    pub const fn rcode(&self) -> Option<Rcode> {
        match self {
            Self::Reply(reply) => Some(reply.rcode),
            Self::Failed(failure) => Some(failure.rcode),
            Self::Dropped => None,
        }
    }
}

//! A query and its reply as the handlers of a chain see them: owned values that each may change.
//!
//! The wire is elsewhere: `serve` reads the request, and writes the reply with the question as it came,
//! OPT, TSIG and truncation. What a handler changes here never touches a transfer or a signature.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use dns::{Name, Query, Rcode, Record, Rtype};

/// The error when a handler needs a next one and there is none, in CoreDNS's words.
pub(super) const END_OF_CHAIN: &str = "no next plugin found";

/// The largest request in a datagram that we read; a longer one is cut, and then malformed. Nor is a longer one
/// of a connection kept while its answer is waited for.
pub(crate) const REQUEST_OCTETS: usize = 4096;

/// How a request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Proto {
    /// In a datagram.
    Udp,
    /// On a connection.
    Tcp,
    /// On a connection over TLS.
    Tls,
    /// In an HTTP request over TLS.
    Https,
    /// In an HTTP request over QUIC.
    Https3,
    /// In a stream of QUIC.
    Quic,
}

impl Proto {
    /// All of them, each with its name in metrics.
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

    /// Whether a message may be as large as messages get, and has its length in front.
    #[must_use]
    pub const fn is_stream(self) -> bool {
        match self {
            Self::Udp => false,
            Self::Tcp | Self::Tls | Self::Https | Self::Https3 | Self::Quic => true,
        }
    }

    /// Whether nobody on the way can read it.
    #[must_use]
    pub const fn is_encrypted(self) -> bool {
        match self {
            Self::Udp | Self::Tcp => false,
            Self::Tls | Self::Https | Self::Https3 | Self::Quic => true,
        }
    }

    /// Whether AXFR or IXFR is answered over it.
    #[must_use]
    pub const fn has_transfers(self) -> bool {
        match self {
            Self::Udp | Self::Tcp | Self::Tls => true,
            Self::Https | Self::Https3 | Self::Quic => false,
        }
    }

    /// Whether its packets are datagrams, as CoreDNS counts and logs it.
    #[must_use]
    pub const fn is_over_udp(self) -> bool {
        match self {
            Self::Udp | Self::Https3 | Self::Quic => true,
            Self::Tcp | Self::Tls | Self::Https => false,
        }
    }

    /// The place in [`PROTOS`](crate::tally::PROTOS) under which it is counted and logged.
    pub(crate) fn counted_as(self) -> usize {
        usize::from(!self.is_over_udp())
    }
}

/// The class IN (RFC 1035 section 3.2.4).
pub const CLASS_IN: u16 = 1;
/// The class CH.
pub const CLASS_CHAOS: u16 = 3;

/// What a handler looks at to know whether a query is its matter. Nothing here is owned: it is made for
/// every query.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The name, lower-case wire form.
    pub name: &'a [u8],
    /// The type.
    pub qtype: Rtype,
    /// The class.
    pub qclass: u16,
    /// Whether the client wants signatures.
    pub dnssec_ok: bool,
    /// Who asks.
    pub client: SocketAddr,
}

impl<'a> Question<'a> {
    /// The question of nobody in particular, of class IN, for a lower-case wire name.
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

/// Where a request came from, and how. No handler changes it.
#[derive(Debug, Clone, Copy)]
pub struct Origin {
    /// Who asks.
    pub client: SocketAddr,
    /// Where the request arrived.
    pub local: SocketAddr,
    /// Over what.
    pub proto: Proto,
    /// Octets of the request.
    pub octets: usize,
}

/// The EDNS part of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edns {
    /// The largest datagram that the client takes.
    pub size: u16,
    /// Whether it wants signatures.
    pub dnssec_ok: bool,
    /// Its options, as they stand in the record.
    pub options: Vec<u8>,
}

/// What handlers found out about a query, by label.
pub type Metadata = BTreeMap<Cow<'static, str>, String>;

/// A query on its way through a chain.
#[derive(Debug, Clone)]
pub struct Request {
    /// The message's ID.
    pub id: u16,
    /// Header flags; the reply has their RD.
    pub flags: u16,
    /// The name that is asked for now, letters as they came.
    pub name: Name,
    /// The type.
    pub qtype: Rtype,
    /// The class.
    pub qclass: u16,
    /// EDNS, if the client speaks it.
    pub edns: Option<Edns>,
    /// Where it came from.
    pub origin: Origin,
    /// What was asked for to get here, in lower case: by the client, before any rewriting, by the server itself, and the
    /// names that stand as aliases on the way.
    pub trail: Vec<(Name, Rtype)>,
    /// How many questions of the server itself led here.
    pub depth: usize,
    /// What handlers found out about it, by key, such as `kubernetes/service`.
    pub metadata: Metadata,
}

impl Request {
    /// A request as it came; `None` when it has no question.
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

    /// The same client's question for the target of an alias at the name that is asked for now, which may be another than
    /// the client's, and is not to come again.
    #[must_use]
    pub fn following(&self, target: Name) -> Self {
        let mut asking = self.asking(target, self.qtype);
        let here = (self.name.to_lower(), self.qtype);
        if !asking.trail.contains(&here) {
            asking.trail.push(here);
        }
        asking
    }

    /// What handlers look at, with its name in lower case.
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

    /// Whether the client wants signatures.
    #[must_use]
    pub fn dnssec_ok(&self) -> bool {
        self.edns.as_ref().is_some_and(|edns| edns.dnssec_ok)
    }
}

/// What a chain says to a query: records and flags, without the question, OPT and TSIG.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reply {
    /// The response code.
    pub rcode: Rcode,
    /// The header flags besides the response code, of AA, TC, RA, AD and CD.
    pub flags: u16,
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

/// How a chain ends. A failure is a code without a message: no handler wrote one, so none is cached or
/// rewritten, and the server writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A message.
    Reply(Reply),
    /// A code alone.
    Failed(Failure),
    /// Nothing is sent.
    Dropped,
}

/// A code without a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The code.
    pub rcode: Rcode,
    /// Which handler failed, by its word in the Corefile.
    pub by: &'static str,
    /// Why, for `errors`; nothing is not logged.
    pub error: Option<String>,
    /// An extended error for the client (RFC 8914 section 4).
    pub extended: Option<u16>,
}

impl Failure {
    /// Whether it only says that no handler answers.
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

    /// Its response code; `None` when nothing is sent.
    #[must_use]
    pub const fn rcode(&self) -> Option<Rcode> {
        match self {
            Self::Reply(reply) => Some(reply.rcode),
            Self::Failed(failure) => Some(failure.rcode),
            Self::Dropped => None,
        }
    }
}

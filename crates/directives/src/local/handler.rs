//! `local`: names of the machine itself, which no other server should be asked for (RFC 6761 section 6.3, RFC 6303).

use dns::{Name, Rcode, Rdata, Record, Rtype, Serial, Soa, Ttl, wire_is_within};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use prometheus_client::metrics::counter::Counter;
use server::chain::{Handler, Next};
use server::message::{Outcome, Question, Reply, Request};

use crate::handlers::tally::Counts;
use crate::local::metrics;

/// The TTL of all answers: a week, as in CoreDNS.
const TTL: Ttl = Ttl::decode(604_800);
/// `localhost`, as a label.
const LABEL: &[u8] = b"\x09localhost";
/// `localhost`, as a name.
const LOCALHOST: &[u8] = b"\x09localhost\x00";
/// The reverse zones.
const REVERSE: [&[u8]; 3] = [
    b"\x010\x07in-addr\x04arpa\x00",
    b"\x03127\x07in-addr\x04arpa\x00",
    b"\x03255\x07in-addr\x04arpa\x00",
];
/// The name of 127.0.0.1.
const LOOPBACK: &[u8] = b"\x011\x010\x010\x03127\x07in-addr\x04arpa\x00";

#[derive(Debug)]
pub(crate) struct LocalHandler {
    /// Whether names with the first label `localhost` are answered too.
    has_prefix: bool,
    /// Queries for names below localhost or like it.
    asked: Counter,
}

/// The kind of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Below localhost, or with `localhost` as its first label.
    Like,
    /// `localhost`, or the apex of a reverse zone.
    Top,
    /// The name of 127.0.0.1.
    Loopback,
    /// Another name in a reverse zone. The number is the octets of the zone's apex.
    Missing(usize),
}

impl LocalHandler {
    pub(crate) fn new(has_prefix: bool, counts: Counts<'_>) -> Self {
        Self {
            has_prefix,
            asked: counts.tally(metrics::LOCALHOST).counter(&[]),
        }
    }

    /// The kind of a name in wire form and lower case, if `local` answers it.
    fn kind(&self, name: &[u8]) -> Option<Kind> {
        if name == LOCALHOST {
            return Some(Kind::Top);
        }
        if wire_is_within(name, LOCALHOST) || (self.has_prefix && name.starts_with(LABEL)) {
            return Some(Kind::Like);
        }
        let zone = REVERSE.iter().find(|zone| wire_is_within(name, zone))?;
        Some(match name {
            name if name == *zone => Kind::Top,
            LOOPBACK => Kind::Loopback,
            _ => Kind::Missing(zone.len()),
        })
    }

    /// The reply to a question.
    fn reply(&self, kind: Kind, request: &Request) -> Reply {
        let name = &request.name;
        let lower = name.to_lower();
        let is_localhost = kind == Kind::Like || lower.as_wire() == LOCALHOST;
        let found = match (kind, request.qtype) {
            (Kind::Like | Kind::Top, Rtype::A) if is_localhost => {
                Some(Rdata::address([127, 0, 0, 1].into()))
            }
            (Kind::Like | Kind::Top, Rtype::AAAA) if is_localhost => {
                Some(Rdata::address(std::net::Ipv6Addr::LOCALHOST.into()))
            }
            (Kind::Top, Rtype::SOA) => Some((Rtype::SOA, soa())),
            (Kind::Top, Rtype::NS) => Some((Rtype::NS, Rdata::name(&localhost()))),
            (Kind::Loopback, Rtype::PTR) => Some((Rtype::PTR, Rdata::name(&localhost()))),
            _ => None,
        };
        let record = |owner: Name, rtype, rdata| Record {
            owner,
            rtype,
            ttl: TTL,
            rdata,
        };
        let mut reply = Reply::empty("local", Rcode::NOERROR, 0);
        match found {
            Some((rtype, rdata)) => reply.answers.push(record(name.clone(), rtype, rdata)),
            None => {
                // The apex of the zone that a name is in, in the case of the question.
                let octets = match kind {
                    Kind::Like | Kind::Top => name.as_wire().len(),
                    Kind::Loopback => REVERSE[1].len(),
                    Kind::Missing(octets) => octets,
                };
                let top = &name.as_wire()[name.as_wire().len() - octets..];
                let top = Name::from_wire(top).unwrap_or_else(|_| name.clone());
                reply.authority.push(record(top, Rtype::SOA, soa()));
                if let Kind::Missing(_) = kind {
                    reply.rcode = Rcode::NXDOMAIN;
                }
            }
        }
        reply
    }
}

fn localhost() -> Name {
    Name::from_wire(LOCALHOST).expect("it is one name")
}

fn soa() -> Rdata {
    let mname = localhost();
    let soa = Soa {
        rname: mname.child("root").unwrap_or_else(|_| mname.clone()),
        mname,
        refresh: Ttl::ZERO,
        retry: Ttl::ZERO,
        expire: Ttl::ZERO,
        minimum: TTL,
        ttl: TTL,
    };
    soa.rdata(Serial::decode(1))
}

impl Handler for LocalHandler {
    fn name(&self) -> &'static str {
        "local"
    }

    fn passes(&self, question: &Question<'_>) -> bool {
        self.kind(question.name).is_none()
    }

    fn answer<'a>(&'a self, request: &'a mut Request, next: Next) -> BoxFuture<'a, Outcome> {
        match self.kind(request.name.to_lower().as_wire()) {
            None => next.run(request),
            Some(kind) => {
                if kind == Kind::Like {
                    self.asked.inc();
                }
                std::future::ready(Outcome::Reply(self.reply(kind, request))).boxed()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::handler_metrics;
    use crate::handlers::testing::counts;
    use server::testing::{ask, chain};

    #[test]
    fn the_machine_itself_is_answered_for() {
        let soa = "604800 IN SOA localhost. root.localhost. 1 0 0 0 604800";
        let metrics = handler_metrics();
        let on = Arc::new(LocalHandler::new(true, counts(&metrics)));
        let server = chain(vec![on.clone()], vec![]);
        let next = "SERVFAIL: plugin/local: no next plugin found";
        for (question, want) in [
            (
                "localhost. A",
                "NOERROR | localhost. 604800 IN A 127.0.0.1".to_owned(),
            ),
            (
                "LocalHost. AAAA",
                "NOERROR | LocalHost. 604800 IN AAAA ::1".to_owned(),
            ),
            (
                "localhost. NS",
                "NOERROR | localhost. 604800 IN NS localhost.".to_owned(),
            ),
            ("localhost. SOA", format!("NOERROR | localhost. {soa}")),
            ("localhost. TXT", format!("NOERROR ; localhost. {soa}")),
            (
                "a.localhost. A",
                "NOERROR | a.localhost. 604800 IN A 127.0.0.1".to_owned(),
            ),
            ("a.localhost. NS", format!("NOERROR ; a.localhost. {soa}")),
            (
                "localhost.test. AAAA",
                "NOERROR | localhost.test. 604800 IN AAAA ::1".to_owned(),
            ),
            ("xlocalhost. A", next.to_owned()),
            (
                "1.0.0.127.in-addr.arpa. PTR",
                "NOERROR | 1.0.0.127.in-addr.arpa. 604800 IN PTR localhost.".to_owned(),
            ),
            (
                "1.0.0.127.in-addr.arpa. A",
                format!("NOERROR ; 127.in-addr.arpa. {soa}"),
            ),
            (
                "2.0.0.127.in-addr.arpa. PTR",
                format!("NXDOMAIN ; 127.in-addr.arpa. {soa}"),
            ),
            (
                "255.in-addr.arpa. A",
                format!("NOERROR ; 255.in-addr.arpa. {soa}"),
            ),
            (
                "0.in-addr.arpa. SOA",
                format!("NOERROR | 0.in-addr.arpa. {soa}"),
            ),
            ("1.in-addr.arpa. PTR", next.to_owned()),
        ] {
            assert_eq!(ask(&server, question), want, "{question}");
        }
        assert_eq!(on.asked.get(), 3);
        let without = chain(
            vec![Arc::new(LocalHandler::new(false, counts(&metrics)))],
            vec![],
        );
        assert_eq!(ask(&without, "localhost.test. A"), next);
    }
}

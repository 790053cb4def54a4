//! `whoami`: tells the client its own address, port and transport, whatever the question.

use corefile::parser::Statement;
use corefile::place::Report;
use dns::{Name, Rcode, Rdata, Record, Rtype, Ttl, flags};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use server::chain::{Handler, Next};
use server::message::{Outcome, Question, Reply, Request};

use crate::config::block::{Directive, Repeat, Role, ServerBlock};
use crate::handlers::chain::{BuildError, Chain};

/// The TTL of both records, as in CoreDNS.
const TTL: Ttl = Ttl::ZERO;

/// The directive, and its handler.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Whoami;

impl Directive for Whoami {
    const WORD: &'static str = "whoami";
    const USAGE: &'static str = "whoami";
    const SUMMARY: &'static str = "tells clients their own address, port and transport";
    const REPEAT: Repeat = Repeat::Joined(Some("once is the same"));
    const ROLE: Role = Role::Answers;

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        directive.refuse_all(report);
        Some(Self)
    }

    fn add_handlers(&self, _: &ServerBlock, chain: &mut Chain<'_>) -> Result<(), BuildError> {
        chain.add(*self);
        Ok(())
    }
}

/// The reply to a request: the address as A or AAAA, the port as SRV below the transport.
fn reply(request: &Request) -> Reply {
    let client = request.origin.client;
    let (rtype, rdata) = Rdata::address(client.ip().to_canonical());
    let transport = match request.origin.proto.is_over_udp() {
        true => "_udp",
        false => "_tcp",
    };
    let record = |owner, rtype, rdata| Record {
        owner,
        rtype,
        ttl: TTL,
        rdata,
    };
    let port = Rdata::srv(0, 0, client.port(), &Name::root());
    let below = request.name.child(transport);
    let mut reply = Reply::empty(Whoami::WORD, Rcode::NOERROR, flags::AA);
    reply.additional = vec![record(request.name.clone(), rtype, rdata)];
    // A name of full length has no names below it.
    let port = below.map(|owner| record(owner, Rtype::SRV, port));
    reply.additional.extend(port);
    reply
}

impl Handler for Whoami {
    fn name(&self) -> &'static str {
        Self::WORD
    }

    fn passes(&self, _: &Question<'_>) -> bool {
        false
    }

    fn answer<'a>(&'a self, request: &'a mut Request, _: Next) -> BoxFuture<'a, Outcome> {
        std::future::ready(Outcome::Reply(reply(request))).boxed()
    }
}

#[cfg(test)]
mod tests {
    use server::Proto;
    use server::testing::{request, text};

    use super::*;

    #[test]
    fn a_client_is_told_its_address_port_and_transport() {
        for (name, client, proto, want) in [
            (
                "Www.z.",
                "192.0.2.1:4000",
                Proto::Udp,
                "Www.z. 0 IN A 192.0.2.1 _udp.Www.z. 0 IN SRV 0 0 4000 .",
            ),
            (
                ".",
                "[::ffff:192.0.2.1]:5",
                Proto::Tls,
                ". 0 IN A 192.0.2.1 _tcp. 0 IN SRV 0 0 5 .",
            ),
            (
                "z.",
                "[2001:db8::1]:5",
                Proto::Quic,
                "z. 0 IN AAAA 2001:db8::1 _udp.z. 0 IN SRV 0 0 5 .",
            ),
        ] {
            let mut request = request(&format!("{name} TXT"));
            request.origin.client = client.parse().unwrap();
            request.origin.proto = proto;
            let reply = reply(&request);
            assert_eq!(reply.flags, flags::AA);
            let told = text(&Outcome::Reply(reply), 1);
            assert_eq!(told, format!("NOERROR + {want}"));
        }
    }
}

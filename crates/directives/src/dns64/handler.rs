//! `dns64`: makes IPv6 addresses from IPv4 addresses, for clients without IPv4 (RFC 6147).
//!
//! # Not implemented
//! CoreDNS lacks these too:
//!
//! - IPv6 addresses that do not count as such (RFC 6147 section 5.1.4);
//! - names of made addresses in `ip6.arpa` (section 5.3.1);
//! - DNSSEC (section 5.5).

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use dns::{Rcode, Rdata, Record, Rtype, Ttl, flags};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use server::chain::{Handler, Next};
use server::message::{CLASS_IN, Outcome, Question, Reply, Request};

use crate::dns64::Dns64;
use crate::dns64::metrics::TRANSLATED;
use crate::handlers::tally::{Counts, Tally};

/// The longest TTL if there is no SOA to limit it (RFC 6147 section 5.1.7).
const MOST_TTL: Ttl = Ttl::decode(600);

#[derive(Debug)]
pub(crate) struct Dns64Handler {
    dns64: Dns64,
    /// Replies with made addresses.
    translated: Tally,
}

impl Dns64Handler {
    pub(crate) fn new(dns64: Dns64, counts: Counts<'_>) -> Self {
        Self {
            dns64,
            translated: counts.tally(TRANSLATED),
        }
    }

    /// Whether the directive applies to a question.
    fn is_for(&self, qtype: Rtype, qclass: u16, client: SocketAddr) -> bool {
        let is_ipv6 = client.ip().to_canonical().is_ipv6();
        qtype == Rtype::AAAA && qclass == CLASS_IN && (is_ipv6 || self.dns64.allows_ipv4)
    }

    /// Whether a reply lacks the addresses that were asked for.
    fn is_lacking(&self, reply: &Reply) -> bool {
        // An alias to a missing name does not count as a missing name, as in CoreDNS.
        if reply.rcode == Rcode::NXDOMAIN && reply.answers.is_empty() {
            return false;
        }
        let mut answers = reply.answers.iter();
        self.dns64.translates_all || !answers.any(|it| it.rtype == Rtype::AAAA)
    }

    /// The IPv6 address made from an IPv4 address (RFC 6052 section 2.2): octet 8 is skipped.
    fn made(&self, address: Ipv4Addr) -> Ipv6Addr {
        let mut octets = self.dns64.prefix.octets();
        octets[self.dns64.prefix_octets..].fill(0);
        let places = (self.dns64.prefix_octets..octets.len()).filter(|place| *place != 8);
        for (place, octet) in places.zip(address.octets()) {
            octets[place] = octet;
        }
        octets.into()
    }

    /// The reply with made addresses, from the reply about IPv4.
    fn synthesize(&self, lacking: &Reply, other: Reply) -> Reply {
        let soa = lacking.authority.iter().rfind(|it| it.rtype == Rtype::SOA);
        let most = soa.map_or(MOST_TTL, |soa| soa.ttl);
        let made = |record: Record| {
            let octets: Option<[u8; 4]> = record.rdata.as_octets().try_into().ok();
            let Some(octets) = octets.filter(|_| record.rtype == Rtype::A) else {
                return record;
            };
            let (rtype, rdata) = Rdata::address(self.made(octets.into()).into());
            Record {
                owner: record.owner,
                rtype,
                ttl: Ttl::decode(record.ttl.seconds().min(most.seconds())),
                rdata,
            }
        };
        Reply {
            rcode: Rcode::NOERROR,
            flags: other.flags & flags::TC,
            recursion_desired: other.recursion_desired,
            answers: other.answers.into_iter().map(made).collect(),
            authority: other.authority,
            additional: other.additional,
            extended: Vec::new(),
            by: "dns64",
        }
    }

    /// Answers with the chain's reply about IPv6, or with addresses made from its reply about IPv4.
    async fn run(&self, request: &mut Request, next: Next) -> Outcome {
        let outcome = next.clone().run(request).await;
        let lacking = match outcome {
            Outcome::Reply(reply) if self.is_lacking(&reply) => reply,
            Outcome::Reply(_) | Outcome::Failed(_) | Outcome::Dropped => return outcome,
        };
        let mut asking = request.asking(request.name.clone(), Rtype::A);
        let other = match next.again(&mut asking).await {
            Outcome::Reply(reply) => reply,
            Outcome::Failed(failure) => Reply::empty(failure.by, failure.rcode, 0),
            Outcome::Dropped => return Outcome::Dropped,
        };
        self.translated.increase(&[]);
        Outcome::Reply(self.synthesize(&lacking, other))
    }
}

impl Handler for Dns64Handler {
    fn name(&self) -> &'static str {
        "dns64"
    }

    fn passes(&self, question: &Question<'_>) -> bool {
        !self.is_for(question.qtype, question.qclass, question.client)
    }

    fn answer<'a>(&'a self, request: &'a mut Request, next: Next) -> BoxFuture<'a, Outcome> {
        if !self.is_for(request.qtype, request.qclass, request.origin.client) {
            return next.run(request);
        }
        self.run(request, next).boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::handler_metrics;
    use crate::config::{Overrides, parse_text};
    use crate::handlers::testing::counts;
    use server::testing::{ask_request, chain_around, request};
    use zone::testing::zone;

    /// The answer to a client with an IPv6 or an IPv4 address.
    fn ask(directive: &str, question: &str, from: &str) -> String {
        let text = format!(". {{\n{directive}\n}}\n");
        let loaded = parse_text("Corefile", &text, &Overrides::default(), &|_| None).unwrap();
        let on: &Dns64 = loaded.config.servers[0].get().unwrap();
        let on = Dns64Handler::new(on.clone(), counts(&handler_metrics()));
        let lines = [
            "four A 192.0.2.33",
            "both A 192.0.2.1",
            "both AAAA fd00::1",
            "out CNAME four",
        ];
        let zones = vec![zone("z.", 1, &lines)];
        let server = chain_around(vec![Arc::new(on)], zones, vec![]);
        let mut request = request(question);
        request.origin.client = (from.parse::<std::net::IpAddr>().unwrap(), 4000).into();
        ask_request(&server, &mut request)
    }

    #[test]
    fn addresses_are_made_where_there_are_none() {
        for (directive, question, want) in [
            (
                "dns64",
                "four.z. AAAA",
                "NOERROR | four.z. 7 IN AAAA 64:ff9b::c000:221",
            ),
            ("dns64", "four.z. A", "NOERROR | four.z. 60 IN A 192.0.2.33"),
            (
                "dns64",
                "both.z. AAAA",
                "NOERROR | both.z. 60 IN AAAA fd00::1",
            ),
            (
                "dns64",
                "out.z. AAAA",
                "NOERROR | out.z. 60 IN CNAME four.z. four.z. 7 IN AAAA 64:ff9b::c000:221",
            ),
            (
                "dns64 {\n translate_all\n prefix 2001:db8::/32\n}",
                "both.z. AAAA",
                "NOERROR | both.z. 60 IN AAAA 2001:db8:c000:201::",
            ),
        ] {
            assert_eq!(
                ask(directive, question, "fd00::9"),
                want,
                "{directive} {question}"
            );
        }
        assert!(ask("dns64", "no.z. AAAA", "fd00::9").starts_with("NXDOMAIN ; z. "));
        assert!(ask("dns64", "four.z. AAAA", "192.0.2.9").starts_with("NOERROR ; z. "));
        let allowed = ask("dns64 {\n allow_ipv4\n}", "four.z. AAAA", "192.0.2.9");
        assert!(allowed.contains("64:ff9b::c000:221"), "{allowed}");
    }

    #[test]
    fn addresses_are_embedded_as_rfc_6052_section_2_4_shows() {
        for (prefix, want) in [
            ("2001:db8::/32", "2001:db8:c000:221::"),
            ("2001:db8:100::/40", "2001:db8:1c0:2:21::"),
            ("2001:db8:122::/48", "2001:db8:122:c000:2:2100::"),
            ("2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::"),
            ("2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::"),
            ("2001:db8:122:344::/96", "2001:db8:122:344::192.0.2.33"),
        ] {
            let said = ask(&format!("dns64 {prefix}"), "four.z. AAAA", "fd00::9");
            let address: Ipv6Addr = want.parse().unwrap();
            assert_eq!(
                said,
                format!("NOERROR | four.z. 7 IN AAAA {address}"),
                "{prefix}"
            );
        }
    }
}

//! `acl`: decides by name, type and client address which queries are answered.
//!
//! It decides without waiting, so it decides about transfers too. The address is the packet's.

use dns::{Name, Rcode, wire_is_within};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use prometheus_client::metrics::counter::Counter;
use server::chain::{Handler, Next};
use server::message::{Outcome, Question, Reply, Request};

use crate::acl::metrics as m;
use crate::acl::{Acl, AclAction, AclPolicy};
use crate::handlers::tally::{Counts, Tally};

/// EDE 15 (RFC 8914 section 4.16): the server's operator has blocked the query.
const BLOCKED: u16 = 15;
/// EDE 17 (RFC 8914 section 4.18): filtered as the client requested. CoreDNS sends it for `filter`.
const FILTERED: u16 = 17;

#[derive(Debug)]
pub(crate) struct AclHandler {
    rules: Vec<Acl>,
    /// Queries that the next handler got.
    allowed: Counter,
    /// Queries that were refused, answered without records, and not answered.
    stopped: [Tally; 3],
}

impl AclHandler {
    pub(crate) fn new(rules: Vec<Acl>, counts: Counts<'_>) -> Self {
        Self {
            rules,
            allowed: counts.tally(m::ALLOWED).counter(&[""]),
            stopped: [m::BLOCKED, m::FILTERED, m::DROPPED].map(|it| counts.tally(it)),
        }
    }

    /// The action for a query, and the zone of the directive that has it.
    fn decide(&self, question: &Question<'_>) -> (AclAction, Option<&Name>) {
        for rule in &self.rules {
            let Some(zone) = closest(&rule.zones, question.name) else {
                continue;
            };
            let mut policies = rule.policies.iter();
            match policies.find(|policy| fits(policy, question)) {
                None => {}
                Some(policy) => return (policy.action, Some(zone)),
            }
        }
        (AclAction::Allow, None)
    }

    /// The reply to a query that may not continue, which is counted.
    fn refuse(&self, question: &Question<'_>) -> Option<Outcome> {
        let (action, zone) = self.decide(question);
        let (tally, outcome) = match action {
            AclAction::Allow => return None,
            AclAction::Block => (&self.stopped[0], said(Rcode::REFUSED, BLOCKED)),
            AclAction::Filter => (&self.stopped[1], said(Rcode::NOERROR, FILTERED)),
            AclAction::Drop => (&self.stopped[2], Outcome::Dropped),
        };
        tally.increase(&[&zone.map(ToString::to_string).unwrap_or_default(), ""]);
        Some(outcome)
    }
}

/// The longest of some names that is this name or an ancestor of it.
pub(crate) fn closest<'n>(zones: &'n [Name], lower: &[u8]) -> Option<&'n Name> {
    let holding = zones
        .iter()
        .filter(|zone| wire_is_within(lower, zone.as_wire()));
    holding.max_by_key(|zone| zone.as_wire().len())
}

/// Whether a line applies to a query.
fn fits(policy: &AclPolicy, question: &Question<'_>) -> bool {
    let types = policy.types.as_ref();
    let nets = policy.nets.as_ref();
    types.is_none_or(|types| types.contains(&question.qtype))
        && nets.is_none_or(|nets| {
            let address = question.client.ip();
            nets.iter().any(|net| net.contains(address))
        })
}

/// A reply without records, with an extended error.
fn said(rcode: Rcode, extended: u16) -> Outcome {
    let mut reply = Reply::empty("acl", rcode, 0);
    reply.extended.push((extended, String::new()));
    Outcome::Reply(reply)
}

impl Handler for AclHandler {
    fn name(&self) -> &'static str {
        "acl"
    }

    fn passes(&self, question: &Question<'_>) -> bool {
        self.decide(question).0 == AclAction::Allow
    }

    fn guards_transfers(&self) -> bool {
        true
    }

    fn refusal(&self, question: &Question<'_>) -> Option<Outcome> {
        self.refuse(question)
    }

    fn passed(&self) -> Option<Counter> {
        Some(self.allowed.clone())
    }

    fn answer<'a>(&'a self, request: &'a mut Request, next: Next) -> BoxFuture<'a, Outcome> {
        let lower = request.name.to_lower();
        match self.refuse(&request.question(&lower)) {
            Some(outcome) => std::future::ready(outcome).boxed(),
            None => {
                self.allowed.inc();
                next.run(request)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::handler_metrics;
    use crate::config::{Overrides, parse_text};
    use crate::handlers::testing::counts;
    use server::testing::{Counting, ask_request, chain, request};

    fn acl(directives: &str) -> AclHandler {
        let text = format!(". {{\n{directives}\n}}\n");
        let loaded = parse_text("Corefile", &text, &Overrides::default(), &|_| None).unwrap();
        let rules = loaded.config.servers[0].all().cloned().collect();
        AclHandler::new(rules, counts(&handler_metrics()))
    }

    /// The reply to a question from an address.
    fn ask(directives: &str, question: &str, from: &str) -> String {
        let server = chain(
            vec![Arc::new(acl(directives))],
            vec![Arc::new(Counting::default())],
        );
        let mut request = request(question);
        request.origin.client = (from.parse::<std::net::IpAddr>().unwrap(), 4000).into();
        ask_request(&server, &mut request)
    }

    #[test]
    fn the_first_line_that_fits_decides() {
        let on = "acl {\n allow net 192.0.2.1\n block type A AAAA net 192.0.2.0/24 fd00::/8\n \
                  filter type TXT\n drop net 198.51.100.0/24\n}";
        for (question, from, want) in [
            (
                "a.test. A",
                "192.0.2.1",
                "NOERROR | a.test. 300 IN A 10.0.0.1",
            ),
            ("a.test. A", "192.0.2.2", "REFUSED"),
            ("a.test. A", "::ffff:192.0.2.2", "REFUSED"),
            ("a.test. AAAA", "fd00::1", "REFUSED"),
            (
                "a.test. MX",
                "fd00::1",
                "NOERROR | a.test. 300 IN A 10.0.0.1",
            ),
            ("a.test. TXT", "203.0.113.1", "NOERROR"),
            ("a.test. A", "198.51.100.9", "dropped"),
            ("a.test. TXT", "198.51.100.9", "NOERROR"),
        ] {
            assert_eq!(ask(on, question, from), want, "{question} from {from}");
        }
    }

    #[test]
    fn directives_are_tried_in_order_by_their_zones() {
        let on = "acl test {\n block net 10.0.0.0/8\n}\nacl a.test {\n allow type A\n drop\n}\n\
                  acl {\n filter\n}";
        for (question, from, want) in [
            ("a.test. A", "10.0.0.1", "REFUSED"),
            (
                "a.test. A",
                "192.0.2.1",
                "NOERROR | a.test. 300 IN A 10.0.0.1",
            ),
            ("a.test. MX", "192.0.2.1", "dropped"),
            ("b.test. MX", "192.0.2.1", "NOERROR"),
            ("atest. A", "10.0.0.1", "NOERROR"),
        ] {
            assert_eq!(ask(on, question, from), want, "{question} from {from}");
        }
    }

    #[test]
    fn it_passes_what_it_allows_and_forbids_transfers_of_the_rest() {
        let acl = acl("acl z {\n block type AXFR\n drop type IXFR\n}");
        let lower = "z.".parse::<Name>().unwrap();
        let ask = |text: &str| {
            let request = request(text);
            let question = request.question(&lower);
            (acl.passes(&question), acl.refusal(&question))
        };
        assert_eq!(ask("z. A"), (true, None));
        assert_eq!(ask("z. IXFR"), (false, Some(Outcome::Dropped)));
        let (passes, said) = ask("z. AXFR");
        assert!(!passes && acl.guards_transfers());
        let Some(Outcome::Reply(reply)) = said else {
            panic!("nothing is said");
        };
        assert_eq!(reply.rcode, Rcode::REFUSED);
        assert_eq!(reply.extended, [(15, String::new())]);
    }

    #[test]
    fn what_becomes_of_queries_is_counted() {
        let acl = Arc::new(acl(
            "acl z {\n block type A\n filter type MX\n drop type TXT\n}",
        ));
        let server = chain(vec![acl.clone()], vec![Arc::new(Counting::default())]);
        for question in ["z. A", "b.z. A", "z. MX", "z. TXT", "y. A", "z. SRV"] {
            ask_request(&server, &mut request(question));
        }
        let stopped: Vec<u64> = acl.stopped.iter().map(|it| it.get(&["z.", ""])).collect();
        assert_eq!((acl.allowed.get(), stopped), (2, vec![2, 1, 1]));
    }
}

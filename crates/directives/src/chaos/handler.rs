//! `chaos`: answers TXT queries of class CH about the server, such as `dig CH TXT version.bind`.

use dns::{Name, Rcode, Rdata, Record, Rtype, Ttl};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use server::chain::{Handler, Next};
use server::message::{CLASS_CHAOS, Outcome, Question, Reply, Request};

use crate::chaos::Chaos;

/// The default version.
const OWN_VERSION: &str = concat!("zonewright-", env!("CARGO_PKG_VERSION"));
/// The names for the version, in wire form.
const VERSION: [&[u8]; 2] = [b"\x07version\x04bind\x00", b"\x07version\x06server\x00"];
/// The name for the authors.
const AUTHORS: &[u8] = b"\x07authors\x04bind\x00";
/// The names for the name of the machine.
const HOST: [&[u8]; 2] = [b"\x08hostname\x04bind\x00", b"\x02id\x06server\x00"];

#[derive(Debug, Clone)]
pub(crate) struct ChaosHandler {
    chaos: Chaos,
    hostname: String,
}

impl ChaosHandler {
    pub(crate) fn new(chaos: Chaos, hostname: &str) -> Self {
        let hostname = hostname.to_owned();
        Self { chaos, hostname }
    }

    /// The texts that answer a name in lower case.
    fn texts(&self, name: &Name) -> Option<Vec<&str>> {
        let wire = name.as_wire();
        if VERSION.contains(&wire) {
            Some(vec![self.chaos.version.as_deref().unwrap_or(OWN_VERSION)])
        } else if HOST.contains(&wire) {
            Some(vec![&self.hostname])
        } else if wire == AUTHORS {
            Some(self.chaos.authors.iter().map(String::as_str).collect())
        } else {
            None
        }
    }
}

impl Handler for ChaosHandler {
    fn name(&self) -> &'static str {
        "chaos"
    }

    fn takes_all_classes(&self) -> bool {
        true
    }

    fn passes(&self, question: &Question<'_>) -> bool {
        question.qclass != CLASS_CHAOS
    }

    fn answer<'a>(&'a self, request: &'a mut Request, next: Next) -> BoxFuture<'a, Outcome> {
        let texts = self.texts(&request.name.to_lower());
        let (CLASS_CHAOS, Rtype::TXT, Some(texts)) = (request.qclass, request.qtype, texts) else {
            return next.run(request);
        };
        let mut reply = Reply::empty("chaos", Rcode::NOERROR, 0);
        reply.answers.extend(texts.into_iter().map(|text| Record {
            owner: request.name.clone(),
            rtype: Rtype::TXT,
            ttl: Ttl::ZERO,
            rdata: Rdata::txt(text),
        }));
        std::future::ready(Outcome::Reply(reply)).boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use corefile::place::Place;

    use super::*;
    use server::testing::{ask, chain};

    #[test]
    fn the_four_names_are_answered_in_their_class_alone() {
        let chaos = Chaos {
            place: Place::start_of("Corefile"),
            version: Some("one".into()),
            authors: vec!["a".into(), "b".into()],
        };
        let chaos = chain(vec![Arc::new(ChaosHandler::new(chaos, "node"))], vec![]);
        let none = "SERVFAIL: plugin/chaos: no next plugin found";
        for (question, want) in [
            (
                "version.bind. TXT CH",
                "NOERROR | version.bind. 0 CH TXT \"one\"",
            ),
            (
                "Version.Server. TXT CH",
                "NOERROR | Version.Server. 0 CH TXT \"one\"",
            ),
            (
                "id.server. TXT CH",
                "NOERROR | id.server. 0 CH TXT \"node\"",
            ),
            ("hostname.bind. A CH", none),
            ("version.bind. TXT", none),
            (
                "authors.bind. TXT CH",
                "NOERROR | authors.bind. 0 CH TXT \"a\" authors.bind. 0 CH TXT \"b\"",
            ),
        ] {
            assert_eq!(ask(&chaos, question), want, "{question}");
        }
    }
}

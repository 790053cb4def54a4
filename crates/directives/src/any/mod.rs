//! `any`: queries of type ANY get one record without meaning (RFC 8482 section 4.2).

use corefile::parser::Statement;
use corefile::place::Report;
use dns::{Name, Rcode, Rdata, Record, Rtype, Ttl};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use server::chain::{Handler, Next};
use server::message::{Outcome, Question, Reply, Request};

use crate::config::block::{Directive, Repeat, Role, ServerBlock};
use crate::handlers::chain::{BuildError, Chain};

/// CPU and OS of CoreDNS's answer, each a string with its length.
const DATA: &[u8] = b"\x0dANY obsoleted\x0cSee RFC 8482";
/// The TTL of CoreDNS's answer.
const TTL: Ttl = Ttl::decode(8482);

/// The directive, and its handler.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Any;

impl Directive for Any {
    const WORD: &'static str = "any";
    const USAGE: &'static str = "any";
    const SUMMARY: &'static str = "answers questions of type ANY with one empty HINFO record";
    const REPEAT: Repeat = Repeat::Joined(Some("once is the same"));
    const ROLE: Role = Role::Decides;

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        directive.refuse_all(report);
        Some(Self)
    }

    fn add_handlers(&self, _: &ServerBlock, chain: &mut Chain<'_>) -> Result<(), BuildError> {
        chain.add(Self);
        Ok(())
    }
}

impl Handler for Any {
    fn name(&self) -> &'static str {
        "any"
    }

    fn passes(&self, question: &Question<'_>) -> bool {
        question.qtype != Rtype::ANY
    }

    fn answer<'a>(&'a self, request: &'a mut Request, next: Next) -> BoxFuture<'a, Outcome> {
        if request.qtype != Rtype::ANY {
            return next.run(request);
        }
        let mut reply = Reply::empty("any", Rcode::NOERROR, 0);
        reply.answers.push(Record {
            owner: request.name.clone(),
            rtype: Rtype::HINFO,
            ttl: TTL,
            rdata: Rdata::from_octets(DATA).expect("two short strings"),
        });
        std::future::ready(Outcome::Reply(reply)).boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use server::testing::{ask, chain};

    #[test]
    fn any_gets_one_record_and_other_types_go_by() {
        let any = chain(vec![Arc::new(Any)], vec![]);
        let text = "NOERROR | x.test. 8482 IN HINFO \"ANY obsoleted\" \"See RFC 8482\"";
        assert_eq!(ask(&any, "x.test. ANY"), text);
        assert_eq!(
            ask(&any, "x.test. A"),
            "SERVFAIL: plugin/any: no next plugin found"
        );
    }

    #[test]
    fn a_chain_without_an_end_says_which_handler_was_the_last() {
        let server = chain(vec![Arc::new(Any)], vec![]);
        assert_eq!(
            ask(&server, "a. A"),
            "SERVFAIL: plugin/any: no next plugin found"
        );
    }
}

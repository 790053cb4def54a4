//! A request whose reply has to be waited for.

use std::sync::Arc;

use dns::{Query, Rcode};
use futures_util::FutureExt;
use ops::catch_panic;

use crate::exchange::{Answered, Asker, Exchange, Later, Outcome, Scratch};
use crate::message::REQUEST_OCTETS;
use crate::options::Extended;
use crate::shared::Shared;
use crate::{Next, Origin, Request};

impl Exchange<'_> {
    /// Runs the chain of a block for the request.
    pub(crate) fn later(self, scratch: &mut Scratch, block: usize) -> Outcome {
        // A copy is stored while the request waits for its answer, and a stranger may have many waiting. So it must not
        // be long.
        if self.query.raw.len() > REQUEST_OCTETS {
            return self.fail(scratch, Rcode::FORMERR);
        }
        let origin = Origin {
            client: self.asker.address,
            local: self.asker.local,
            proto: self.asker.proto,
            octets: self.query.raw.len(),
        };
        let Some(mut request) = Request::of(&self.query, origin) else {
            return self.fail(scratch, Rcode::FORMERR);
        };
        if let Some(edns) = &mut request.edns {
            // Handlers never ask for a larger reply than the client may get: an upstream would make space for it.
            let ours = match self.asker.proto.is_stream() {
                false => self.shared.settings.udp_octets,
                true => u16::MAX,
            };
            let most = self.shape_of(block).datagram_octets.unwrap_or(ours);
            edns.size = edns.size.min(most).min(ours);
        }
        let router = Arc::clone(&self.shared.router);
        let is_forbidden = || router.blocks()[block].forbids(&self.question(&scratch.lower));
        let next = if self.is_signed() && !is_forbidden() {
            Next::at_zones(router, block)
        } else {
            Next::start(router, block)
        };
        let stats = Arc::clone(&self.shared.stats);
        let answer = async move {
            let answered = catch_panic(next.run(&mut request)).await;
            let outcome = answered.unwrap_or_else(|text| {
                stats.panics.increase();
                crate::Outcome::failed("", Rcode::SERVFAIL, format!("panic: {text}"))
            });
            Answered {
                outcome,
                flags: request.flags,
                metadata: request.metadata,
            }
        };
        Outcome::Later(Box::new(Later {
            raw: self.query.raw.into(),
            address: self.asker.address,
            local: self.asker.local,
            proto: self.asker.proto,
            signer: self.signer,
            block,
            noted: scratch.noted,
            answer: answer.boxed(),
        }))
    }
}

impl Shared {
    /// Writes the reply to a request whose answer is ready.
    pub(crate) fn complete(
        &self,
        scratch: &mut Scratch,
        later: Later,
        answered: Answered,
    ) -> Outcome {
        scratch.error = None;
        scratch.metadata = answered.metadata;
        let Later {
            raw,
            address,
            local,
            proto,
            signer,
            block,
            noted,
            answer: _,
        } = later;
        let Ok(mut query) = Query::parse(&raw) else {
            return Outcome::Silent;
        };
        query.flags = answered.flags;
        let wishes = query.opt.and_then(|opt| opt.wishes()).unwrap_or_default();
        scratch.noted = noted;
        let exchange = Exchange {
            shared: self,
            query,
            asker: Asker {
                address,
                local,
                proto,
                tls: None,
            },
            wishes,
            signer,
        };
        match answered.outcome {
            crate::Outcome::Dropped => Outcome::Dropped,
            crate::Outcome::Failed(failure) => {
                scratch.error = failure.error;
                scratch.noted.by = failure.by;
                exchange.fail_with(scratch, failure.rcode, failure.extended.map(Extended))
            }
            crate::Outcome::Reply(reply) => {
                scratch.noted.by = reply.by;
                let shape = exchange.shape_of(block);
                exchange.write(scratch, reply, shape)
            }
        }
    }
}

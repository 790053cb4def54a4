//! A request whose reply has to be waited for.

use std::net::SocketAddr;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::dns::{Query, Rcode};
use crate::live::{self, Next, Origin, Request};
use crate::serve::Proto;
use crate::serve::dispatch::{Asker, Exchange, Outcome, Scratch, Shared};
use crate::serve::reply::{Extended, Signer};

/// What the chain of a block says in the end.
pub(crate) struct Answered {
    /// Its outcome.
    outcome: live::Outcome,
}

/// A request and the answer that is on its way.
pub(crate) struct Later {
    /// The octets of the request.
    raw: Box<[u8]>,
    /// Who asked.
    address: SocketAddr,
    /// To which address of ours.
    local: SocketAddr,
    /// Over what.
    proto: Proto,
    /// What signs the reply.
    signer: Signer,
    /// Whose chain it is.
    block: usize,
    /// The answer.
    answer: BoxFuture<'static, Answered>,
}

impl Later {
    /// Looks whether the answer is there already.
    pub(super) fn poll(mut self: Box<Self>) -> Result<(Box<Self>, Answered), Box<Self>> {
        match (&mut self.answer).now_or_never() {
            Some(answered) => Ok((self, answered)),
            None => Err(self),
        }
    }

    /// Waits for the answer.
    pub(crate) async fn wait(mut self: Box<Self>) -> (Box<Self>, Answered) {
        let answered = (&mut self.answer).await;
        (self, answered)
    }

    /// Who asked.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The octets of the request.
    pub(crate) fn raw(&self) -> &[u8] {
        &self.raw
    }
}

impl Exchange<'_> {
    /// Hands the request to the chain of a block.
    pub(super) fn later(self, scratch: &mut Scratch, block: usize) -> Outcome {
        let origin = Origin {
            client: self.asker.address,
            local: self.asker.local,
            proto: self.asker.proto,
            octets: self.query.raw.len(),
        };
        let Some(mut request) = Request::of(&self.query, origin) else {
            return self.fail(scratch, Rcode::FORMERR);
        };
        let shape = self.shared.router.blocks()[block].shape;
        if let (Some(edns), Some(most)) = (&mut request.edns, shape.datagram_octets) {
            edns.size = edns.size.min(most);
        }
        let next = Next::start(std::sync::Arc::clone(&self.shared.router), block);
        let answer = async move {
            let outcome = next.run(&mut request).await;
            Answered { outcome }
        };
        Outcome::Later(Box::new(Later {
            raw: self.query.raw.into(),
            address: self.asker.address,
            local: self.asker.local,
            proto: self.asker.proto,
            signer: self.signer,
            block,
            answer: answer.boxed(),
        }))
    }
}

impl Shared {
    /// Writes the reply to a request whose answer is there.
    pub(crate) fn complete(
        &self,
        scratch: &mut Scratch,
        later: Later,
        answered: Answered,
    ) -> Outcome {
        scratch.error = None;
        let Later {
            raw,
            address,
            local,
            proto,
            signer,
            block,
            answer: _,
        } = later;
        let Ok(query) = Query::parse(&raw) else {
            return Outcome::Silent;
        };
        let wishes = query.opt.and_then(|opt| opt.wishes()).unwrap_or_default();
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
            live::Outcome::Dropped => Outcome::Silent,
            live::Outcome::Failed(failure) => {
                scratch.error = failure.error;
                exchange.fail_with(scratch, failure.rcode, failure.extended.map(Extended))
            }
            live::Outcome::Reply(reply) => {
                let shape = self.router.blocks()[block].shape;
                exchange.write(scratch, reply, shape)
            }
        }
    }
}

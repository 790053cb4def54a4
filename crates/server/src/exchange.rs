//! A request on its way to its reply: who asks, the space to answer in, and what becomes of it.

use std::net::SocketAddr;

use dns::edns::Wishes;
use dns::tsig::{Refusal, Session};
use dns::{MessageWriter, Query};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use transfer::{Job, TlsPeer};
use zone::lookup::Additionals;

use crate::chain::Shape;
use crate::exchange_log::Findings;
use crate::message::{self, Metadata, Proto, Question};
use crate::shared::Shared;
use crate::shuffle::Dice;
use crate::tally::Noted;

/// Suffixes in the compression table of an answer, as a power of two.
const TABLE_BITS: u32 = 9;

/// Who asks, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker<'a> {
    /// From where.
    pub address: SocketAddr,
    /// To which address of ours.
    pub local: SocketAddr,
    /// Over what.
    pub proto: Proto,
    /// What TLS says of it.
    pub tls: Option<&'a TlsPeer>,
}

/// A request on its way to its reply.
pub(crate) struct Exchange<'a> {
    /// What all listeners share.
    pub shared: &'a Shared,
    /// The request.
    pub query: Query<'a>,
    /// Who asks, and how.
    pub asker: Asker<'a>,
    /// What its options ask for.
    pub wishes: Wishes<'a>,
    /// What signs the reply.
    pub signer: Signer,
}

/// What signs a reply.
pub(crate) enum Signer {
    /// Nothing.
    None,
    /// The key of the request.
    Session(Session),
    /// The refusal of the request's signature.
    Refusal(Box<Refusal>),
}

impl Exchange<'_> {
    /// What handlers look at.
    pub(crate) fn question<'q>(&self, lower: &'q [u8]) -> Question<'q> {
        Question {
            name: lower,
            qtype: self.query.qtype(),
            qclass: self.query.qclass(),
            dnssec_ok: self.query.opt.is_some_and(|opt| opt.dnssec_ok),
            client: self.asker.address,
        }
    }

    /// Whether the request is signed by a key of ours: its answer is what a secondary holds, without what is
    /// live, and no handler changes or completes it. Those that forbid are asked all the same.
    pub(crate) const fn is_signed(&self) -> bool {
        matches!(self.signer, Signer::Session(_))
    }

    /// What is done to the reply on its way out.
    pub(crate) fn shape_of(&self, block: usize) -> Shape {
        if self.is_signed() {
            return Shape::default();
        }
        self.shared.router.blocks()[block].shape
    }
}

/// Space to answer in; one for each socket and each connection.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// The reply.
    pub writer: MessageWriter,
    /// The EDNS options of the reply.
    pub options: Vec<u8>,
    /// The question's name in lower case.
    pub lower: Vec<u8>,
    /// A sort key.
    pub key: Vec<u8>,
    /// For additional records.
    pub additionals: Additionals,
    /// For the order of addresses.
    pub dice: Dice,
    /// Why the reply is no answer, for `errors`.
    pub error: Option<String>,
    /// What handlers found out about the query.
    pub metadata: Metadata,
    /// What is counted of the question and its reply.
    pub noted: Noted,
}

impl Scratch {
    /// New space.
    pub(crate) fn new() -> Self {
        Self {
            writer: MessageWriter::new(TABLE_BITS),
            options: Vec::new(),
            lower: Vec::with_capacity(255),
            key: Vec::with_capacity(255),
            additionals: Additionals::default(),
            dice: Dice::new(),
            error: None,
            metadata: Metadata::new(),
            noted: Noted::default(),
        }
    }
}

impl Scratch {
    /// What the log is told besides the messages.
    pub(crate) fn findings(&self) -> Findings<'_> {
        Findings {
            error: self.error.as_deref(),
            metadata: &self.metadata,
        }
    }
}

/// What becomes of a request.
pub(crate) enum Outcome {
    /// No reply is due.
    Silent,
    /// A handler wants no reply; the query counts all the same.
    Dropped,
    /// The reply is in the writer, signed if it must be.
    Reply,
    /// A transfer is to be run.
    Transfer(Box<Job>),
    /// The reply has to be waited for; see [`Shared::complete`].
    Later(Box<Later>),
}

/// A request and the answer that is on its way.
pub(crate) struct Later {
    /// The octets of the request.
    pub raw: Box<[u8]>,
    /// Who asked.
    pub address: SocketAddr,
    /// To which address of ours.
    pub local: SocketAddr,
    /// Over what.
    pub proto: Proto,
    /// What signs the reply.
    pub signer: Signer,
    /// Whose chain it is.
    pub block: usize,
    /// What is counted of it.
    pub noted: Noted,
    /// The answer.
    pub answer: BoxFuture<'static, Answered>,
}

impl Later {
    /// Looks whether the answer is there already.
    pub(crate) fn poll(mut self: Box<Self>) -> Result<(Box<Self>, Answered), Box<Self>> {
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

    /// The octets of the request.
    pub(crate) fn raw(&self) -> &[u8] {
        &self.raw
    }
}

/// What the chain of a block says in the end.
pub(crate) struct Answered {
    /// Its outcome.
    pub outcome: message::Outcome,
    /// The flags of the request, as handlers left them.
    pub flags: u16,
    /// What handlers found out.
    pub metadata: Metadata,
}

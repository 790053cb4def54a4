//! A request on its way to its reply: the client, the space for the answer, and the outcome.

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

/// The number of suffixes in the compression table of an answer, as a power of two.
const TABLE_BITS: u32 = 9;

/// The client of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker<'a> {
    /// Its address.
    pub address: SocketAddr,
    /// Our address.
    pub local: SocketAddr,
    /// The protocol.
    pub proto: Proto,
    /// The client's TLS session, if there is one.
    pub tls: Option<&'a TlsPeer>,
}

pub(crate) struct Exchange<'a> {
    /// The parts that all listeners share.
    pub shared: &'a Shared,
    pub query: Query<'a>,
    /// The client.
    pub asker: Asker<'a>,
    /// The options that the client asks for.
    pub wishes: Wishes<'a>,
    /// The signer of the reply.
    pub signer: Signer,
}

/// The signer of a reply.
pub(crate) enum Signer {
    /// No signature.
    None,
    /// The request's key.
    Session(Session),
    /// The refusal of the request's signature.
    Refusal(Box<Refusal>),
}

impl Exchange<'_> {
    /// The question, for handlers.
    pub(crate) fn question<'q>(&self, lower: &'q [u8]) -> Question<'q> {
        Question {
            name: lower,
            qtype: self.query.qtype(),
            qclass: self.query.qclass(),
            dnssec_ok: self.query.opt.is_some_and(|opt| opt.dnssec_ok),
            client: self.asker.address,
        }
    }

    /// Whether one of our keys signed the request. Its answer is the one that a secondary has, without synthesized
    /// names, and no handler changes or completes it. Handlers that forbid are still asked.
    pub(crate) const fn is_signed(&self) -> bool {
        matches!(self.signer, Signer::Session(_))
    }

    /// The form of the reply.
    pub(crate) fn shape_of(&self, block: usize) -> Shape {
        if self.is_signed() {
            return Shape::default();
        }
        self.shared.router.blocks()[block].shape
    }
}

/// Space to answer in. Each socket and each connection has its own.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub writer: MessageWriter,
    /// The EDNS options of the reply.
    pub options: Vec<u8>,
    pub lower: Vec<u8>,
    pub key: Vec<u8>,
    /// Collects additional records.
    pub additionals: Additionals,
    /// Chooses the order of addresses.
    pub dice: Dice,
    /// The error, for `errors`, if the reply is a failure.
    pub error: Option<String>,
    /// The labels that handlers found for the query.
    pub metadata: Metadata,
    /// The counted properties of the question and its reply.
    pub noted: Noted,
}

impl Scratch {
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
    /// The findings for the log.
    pub(crate) fn findings(&self) -> Findings<'_> {
        Findings {
            error: self.error.as_deref(),
            metadata: &self.metadata,
        }
    }
}

/// The outcome of a request.
pub(crate) enum Outcome {
    /// No reply is sent.
    Silent,
    /// A handler drops the query, which is counted all the same.
    Dropped,
    /// The reply is in the writer. It is signed if it must be.
    Reply,
    /// A transfer is to be run.
    Transfer(Box<Job>),
    /// The reply has to be waited for: see [`Shared::complete`].
    Later(Box<Later>),
}

pub(crate) struct Later {
    pub raw: Box<[u8]>,
    /// The client's address.
    pub address: SocketAddr,
    /// Our address.
    pub local: SocketAddr,
    /// The protocol.
    pub proto: Proto,
    /// The signer of the reply.
    pub signer: Signer,
    /// The index of the block whose chain runs.
    pub block: usize,
    /// The counted properties of the question and its reply.
    pub noted: Noted,
    pub answer: BoxFuture<'static, Answered>,
}

impl Later {
    /// Returns the answer if it is ready.
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

/// The result of a block's chain.
pub(crate) struct Answered {
    /// Its outcome.
    pub outcome: message::Outcome,
    /// The flags of the request after all handlers.
    pub flags: u16,
    /// The labels that handlers found.
    pub metadata: Metadata,
}

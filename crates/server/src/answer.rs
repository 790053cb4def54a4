//! Answers one request that has a reply of its own: in an HTTP exchange, or in a stream of QUIC.
//!
//! Transfers are not among them: they are refused before anything else is done.

use std::net::SocketAddr;
use std::sync::Arc;

use transfer::TlsPeer;

use crate::dispatch::{Asker, Outcome, Scratch};
use crate::{Answering, Proto};

/// The client of a connection whose requests come each on its own.
pub(crate) struct Client {
    /// Where it is.
    pub peer: SocketAddr,
    /// Which of our addresses it asks.
    pub local: SocketAddr,
    /// How it asks.
    pub proto: Proto,
    /// What TLS says of it.
    pub tls: TlsPeer,
}

/// The reply to a request, with its length in front; `None` when none is due.
pub(crate) async fn reply_to(
    answering: &Answering,
    client: &Client,
    request: &[u8],
) -> Option<Vec<u8>> {
    let shared = Arc::clone(&answering.now());
    let start = shared.start();
    let mut scratch = Scratch::new();
    let asker = Asker {
        address: client.peer,
        local: client.local,
        proto: client.proto,
        tls: Some(&client.tls),
    };
    let outcome = match shared.respond(&mut scratch, request, asker) {
        Outcome::Later(later) => {
            let (later, answered) = later.wait().await;
            shared.complete(&mut scratch, *later, answered)
        }
        at_once @ (Outcome::Silent | Outcome::Dropped | Outcome::Reply | Outcome::Transfer(_)) => {
            at_once
        }
    };
    let reply = match outcome {
        Outcome::Reply => Some(scratch.writer.take_signed()),
        Outcome::Dropped => None,
        Outcome::Silent | Outcome::Transfer(_) | Outcome::Later(_) => return None,
    };
    // The first two octets are the length.
    let message = reply.as_deref().and_then(|octets| octets.get(2..));
    shared.note(
        start,
        (request, message.unwrap_or_default()),
        &scratch,
        (client.peer, client.local),
        client.proto,
    );
    reply
}

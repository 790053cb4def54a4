//! The requests of a connection that has many at once, each with a reply of its own: in HTTP, or in streams of QUIC.
//!
//! Transfers are not among them: they are refused before access or zones are looked at.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use dns::Query;
use futures_util::FutureExt;
use http::StatusCode;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use transfer::TlsPeer;

use crate::activity::{Activity, InProgress, Leave};
use crate::doh::Carried;
use crate::exchange::{Asker, Outcome, Scratch};
use crate::{Answering, Count, Proto, Settings, TcpSettings};

/// The client of a connection.
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

/// The requests of a connection.
pub(crate) struct Requests {
    /// Who sends them.
    pub(crate) client: Client,
    /// What answers.
    answering: Answering,
    /// Those in progress.
    activity: Activity,
    /// Space of answered requests, for further ones. Locked for one look or one write.
    scratches: Mutex<Vec<Scratch>>,
}

/// The most space that a connection keeps: most have few requests at once.
const KEPT_SCRATCHES: usize = 4;

impl Requests {
    /// None yet.
    pub(crate) fn new(client: Client, answering: Answering) -> Self {
        Self {
            client,
            answering,
            activity: Activity::new(),
            scratches: Mutex::default(),
        }
    }

    /// Space to answer in.
    fn take_scratch(&self) -> Scratch {
        let mut scratches = self
            .scratches
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        scratches.pop().unwrap_or_else(Scratch::new)
    }

    /// Keeps space for further requests.
    fn keep_scratch(&self, scratch: Scratch) {
        let mut scratches = self
            .scratches
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if scratches.len() < KEPT_SCRATCHES {
            scratches.push(scratch);
        }
    }

    /// Notes a request that begins. Once the server ends, its connection goes with it.
    pub(crate) fn begin(&self) -> InProgress {
        if self.answering.now().draining.load(Ordering::Relaxed) {
            self.activity.end();
        }
        self.activity.begin()
    }

    /// Limits and times, as they are now.
    pub(crate) fn settings(&self) -> Settings {
        self.answering.now().settings
    }

    /// How long a request may take to be read.
    pub(crate) fn patience(&self) -> Duration {
        self.settings().tcp.first_request_timeout
    }

    /// How long a client may take nothing of its reply.
    pub(crate) fn stall(&self) -> Duration {
        self.settings().tcp.stall_timeout
    }

    /// Waits until the connection has to go; `timed_out` counts those whose client asks nothing.
    pub(crate) async fn leave(
        &self,
        settings: &TcpSettings,
        timed_out: &Count,
        cancel: &CancellationToken,
    ) {
        tokio::select! {
            () = cancel.cancelled() => {}
            leave = self.activity.over(settings) => if leave == Leave::Idle {
                timed_out.increase();
            },
        }
    }

    /// Counts a status of HTTP, or a code of QUIC.
    pub(crate) fn count_code(&self, code: u16) {
        self.answering.now().count_code(code);
    }

    /// The reply to the message of an HTTP request, or the status of a response without one. `body` reads the body.
    pub(crate) async fn reply_over_http(
        &self,
        carried: Result<Carried, StatusCode>,
        body: impl Future<Output = Result<Vec<u8>, StatusCode>>,
    ) -> Result<Bytes, StatusCode> {
        let body = timeout(self.patience(), body);
        let body = body.map(|read| read.unwrap_or(Err(StatusCode::REQUEST_TIMEOUT)));
        let message = match carried {
            Ok(Carried::InUri(message)) => message,
            Ok(Carried::InBody) => body.await?,
            Err(status) => {
                // A stream with an unread body is reset, and clients then report an error instead of the status.
                let _refused_anyway = body.await;
                return Err(status);
            }
        };
        if Query::parse(&message).is_err() {
            return Err(StatusCode::BAD_REQUEST);
        }
        // As CoreDNS has it, where a handler wants no reply.
        let reply = self.reply_to(&message).await;
        let reply = reply.ok_or(StatusCode::INTERNAL_SERVER_ERROR)?;
        Ok(Bytes::from(reply).slice(2..))
    }

    /// The reply to a request, with its length in front; `None` when none is due.
    pub(crate) async fn reply_to(&self, request: &[u8]) -> Option<Vec<u8>> {
        let client = &self.client;
        let shared = Arc::clone(&self.answering.now());
        let start = shared.start();
        let mut scratch = self.take_scratch();
        let asker = Asker {
            address: client.peer,
            local: client.local,
            proto: client.proto,
            tls: Some(&client.tls),
        };
        let outcome = match shared.respond(&mut scratch, request, asker) {
            Outcome::Later(later) => {
                self.keep_scratch(scratch);
                let (later, answered) = later.wait().await;
                scratch = self.take_scratch();
                shared.complete(&mut scratch, *later, answered)
            }
            at_once @ (Outcome::Silent
            | Outcome::Dropped
            | Outcome::Reply
            | Outcome::Transfer(_)) => at_once,
        };
        let reply = match outcome {
            Outcome::Reply => Some(scratch.writer.take_signed()),
            Outcome::Dropped => None,
            Outcome::Silent | Outcome::Transfer(_) | Outcome::Later(_) => {
                self.keep_scratch(scratch);
                return None;
            }
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
        self.keep_scratch(scratch);
        reply
    }
}

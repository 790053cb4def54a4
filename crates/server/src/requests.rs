//! The requests of a connection with many at once, each with its own reply: in HTTP, or in QUIC streams.
//!
//! Transfers are not among them: they are refused before access and zones are looked at.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use dns::Query;
use futures_util::FutureExt;
use http::StatusCode;
use ops::Usage;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use transfer::TlsPeer;

use crate::activity::{Activity, InProgress, Leave};
use crate::doh::Carried;
use crate::exchange::{Asker, Outcome, Scratch};
use crate::{Answering, Count, Proto, Settings, TcpSettings};

pub(crate) struct Client {
    /// Its address.
    pub peer: SocketAddr,
    /// Our address.
    pub local: SocketAddr,
    /// The transport.
    pub proto: Proto,
    /// Its TLS session.
    pub tls: TlsPeer,
}

pub(crate) struct Requests {
    /// The client that sends them.
    pub(crate) client: Client,
    answering: Answering,
    activity: Activity,
    /// Space of an answered request, for a further one: most connections have few at once. Locked for one look or one
    /// write.
    scratch: Mutex<Option<Scratch>>,
}

impl Requests {
    /// None yet. `usage`: of the connection's place.
    pub(crate) fn new(client: Client, answering: Answering, usage: Usage) -> Self {
        Self {
            client,
            answering,
            activity: Activity::new(usage),
            scratch: Mutex::default(),
        }
    }

    /// Space to answer in.
    fn take_scratch(&self) -> Scratch {
        let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        scratch.take().unwrap_or_else(Scratch::new)
    }

    /// Stores space for a further request.
    fn keep_scratch(&self, scratch: Scratch) {
        *self.scratch.lock().unwrap_or_else(PoisonError::into_inner) = Some(scratch);
    }

    /// Counts a request that begins. If the server ends, the connection is closed after it.
    pub(crate) fn begin(&self) -> InProgress {
        if self.answering.now().draining.load(Ordering::Relaxed) {
            self.activity.end();
        }
        self.activity.begin()
    }

    /// The current limits and times.
    pub(crate) fn settings(&self) -> Settings {
        self.answering.now().settings
    }

    /// The time limit for reading a request.
    pub(crate) fn patience(&self) -> Duration {
        self.settings().tcp.first_request_timeout
    }

    /// The time limit for sending a reply while the client takes nothing.
    pub(crate) fn stall(&self) -> Duration {
        self.settings().tcp.stall_timeout
    }

    /// Waits until the connection has to be closed, and returns the reason. `timed_out` counts those whose client sends no
    /// request.
    pub(crate) async fn leave(
        &self,
        settings: &TcpSettings,
        timed_out: &Count,
        cancel: &CancellationToken,
    ) -> Leave {
        tokio::select! {
            () = cancel.cancelled() => Leave::Enough,
            leave = self.activity.over(settings) => {
                if leave == Leave::Idle {
                    timed_out.increase();
                }
                leave
            }
        }
    }

    /// Counts an HTTP status or a QUIC code.
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
                // A stream with an unread body is reset. Clients then report an error instead of the status.
                let _refused_anyway = body.await;
                return Err(status);
            }
        };
        if Query::parse(&message).is_err() {
            return Err(StatusCode::BAD_REQUEST);
        }
        // If a handler drops the query, the status is CoreDNS's.
        let reply = self.reply_to(&message).await;
        let reply = reply.ok_or(StatusCode::INTERNAL_SERVER_ERROR)?;
        Ok(Bytes::from(reply).slice(2..))
    }

    /// The reply to a request, with its length before it; `None` when no reply is sent.
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
        let outcome = match shared.respond_or_fail(&mut scratch, request, asker) {
            Outcome::Later(later) => {
                self.keep_scratch(scratch);
                let (later, answered) = later.wait().await;
                scratch = self.take_scratch();
                shared.complete_or_fail(&mut scratch, request, *later, answered)
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

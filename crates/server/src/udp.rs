//! Datagrams: one task for each socket, several sockets for each address.
//!
//! The kernel spreads clients over the sockets (SO_REUSEPORT). A task takes the datagrams that wait, some
//! at a time, answers each, and sends what is ready together. Nothing is allocated for the answer to a plain
//! query; taking and giving datagrams in batches allocates the headers of each batch.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::net::UdpSocket;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::answering::Now;
use crate::batch::{BATCH, Inbox, Outbox};
use crate::exchange::{Answered, Asker, Later, Outcome, Scratch};
use crate::message::REQUEST_OCTETS;
use crate::way::{UNKNOWN, Way};
use crate::{Answering, Proto, Stats};

/// Requests of one socket that wait for an answer from elsewhere; more are dropped, and the client asks again.
const MAX_WAITING: usize = 4096;
/// Batches of datagrams answered before other tasks get their turn.
const BURST: usize = 2;

/// Answers what comes to a socket until told to stop.
pub(crate) async fn serve(answering: Answering, socket: UdpSocket, cancel: CancellationToken) {
    let local = socket.local_addr().unwrap_or(UNKNOWN);
    let mut worker = Worker {
        answering,
        scratch: Scratch::new(),
        inbox: Inbox::new(REQUEST_OCTETS, local.ip().is_unspecified()),
        outbox: Outbox::default(),
        local,
        waiting: FuturesUnordered::new(),
    };
    loop {
        tokio::select! {
            () = cancel.cancelled() => break,
            Some(finished) = worker.waiting.next() => {
                worker.finish(&socket, finished).await;
                continue;
            }
            ready = socket.readable() => if let Err(error) = ready {
                debug!(%error, "waiting for datagrams failed");
            },
        }
        for _ in 0..BURST {
            match worker.inbox.receive(&socket) {
                Ok(count) => worker.answer(&socket, count).await,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // An ICMP error for an earlier answer shows up here; it is that client's matter.
                Err(error) => debug!(%error, "receiving a datagram failed"),
            }
        }
        tokio::task::coop::consume_budget().await;
    }
    worker.drain(&socket).await;
}

/// A request whose answer has come: what it began with, when, which way it came, itself, the answer.
type Finished = (Arc<Now>, Option<Instant>, Way, Box<Later>, Answered);

/// What a task needs for its answers.
struct Worker {
    /// What answers.
    answering: Answering,
    /// Space to answer in.
    scratch: Scratch,
    /// Requests.
    inbox: Inbox,
    /// Replies that were not sent yet.
    outbox: Outbox,
    /// Our address, or the one that stands for all.
    local: SocketAddr,
    /// Requests that wait for an answer from elsewhere.
    waiting: FuturesUnordered<BoxFuture<'static, Finished>>,
}

impl Worker {
    /// Answers the requests that came.
    async fn answer(&mut self, socket: &UdpSocket, count: usize) {
        let shared = self.answering.now();
        for place in 0..count {
            self.respond(&shared, place);
        }
        send(&shared.stats, socket, &mut self.outbox).await;
    }

    /// Answers one of the requests that came: its reply is in the outbox, if it has one by now.
    fn respond(&mut self, shared: &Arc<Now>, place: usize) {
        let (raw, way) = self.inbox.get(place);
        let start = shared.start();
        let asker = Asker {
            address: way.peer,
            local: self.local,
            proto: Proto::Udp,
            tls: None,
        };
        match shared.respond(&mut self.scratch, raw, asker) {
            // Transfers begin on connections only.
            Outcome::Silent | Outcome::Transfer(_) => return,
            Outcome::Later(later) => {
                if self.waiting.len() < MAX_WAITING {
                    let shared = Arc::clone(shared);
                    self.waiting.push(Box::pin(async move {
                        let (later, answered) = later.wait().await;
                        (shared, start, way, later, answered)
                    }));
                } else {
                    shared.stats.udp_overload.increase();
                }
                return;
            }
            Outcome::Dropped => {
                let ends = (way.peer, self.local);
                shared.note(start, (raw, &[]), &self.scratch, ends, Proto::Udp);
                return;
            }
            Outcome::Reply => {}
        }
        let (reply, ends) = (self.scratch.writer.octets(), (way.peer, self.local));
        shared.note(start, (raw, reply), &self.scratch, ends, Proto::Udp);
        self.outbox.add(reply, way);
    }

    /// Answers a request whose answer has come.
    async fn finish(&mut self, socket: &UdpSocket, finished: Finished) {
        let (shared, start, way, later, answered) = finished;
        let raw: Box<[u8]> = later.raw().into();
        match shared.complete(&mut self.scratch, *later, answered) {
            Outcome::Silent | Outcome::Transfer(_) | Outcome::Later(_) => return,
            Outcome::Dropped => {
                let ends = (way.peer, self.local);
                shared.note(start, (&raw, &[]), &self.scratch, ends, Proto::Udp);
                return;
            }
            Outcome::Reply => {}
        }
        let (reply, ends) = (self.scratch.writer.octets(), (way.peer, self.local));
        shared.note(start, (&raw, reply), &self.scratch, ends, Proto::Udp);
        self.outbox.add(reply, way);
        send(&shared.stats, socket, &mut self.outbox).await;
    }

    /// Answers what has come already, for as long as an answer may take: nobody else would.
    async fn drain(mut self, socket: &UdpSocket) {
        let patience = self.answering.now().settings.tcp.drain_timeout;
        let waiting = async {
            // More than these came later.
            for _ in 0..MAX_WAITING / BATCH {
                match self.inbox.receive(socket) {
                    Ok(count) => self.answer(socket, count).await,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => debug!(%error, "receiving datagrams failed"),
                }
                tokio::task::coop::consume_budget().await;
            }
            while let Some(finished) = self.waiting.next().await {
                self.finish(socket, finished).await;
            }
        };
        if tokio::time::timeout(patience, waiting).await.is_err() {
            debug!("some answers did not come before the end");
        }
    }
}

/// Sends the replies that are ready.
async fn send(stats: &Stats, socket: &UdpSocket, outbox: &mut Outbox) {
    let failed = |peer, error| {
        stats.udp_send_errors.increase();
        debug!(%peer, %error, "sending a datagram failed");
    };
    outbox.send(socket, failed).await;
}

#[cfg(test)]
mod tests;

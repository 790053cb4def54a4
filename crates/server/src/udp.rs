//! Datagrams: one task for each socket, several sockets for each address.
//!
//! The kernel distributes clients over the sockets (SO_REUSEPORT). A task receives waiting datagrams in batches,
//! answers each, and sends the replies that are ready together. The answer to a plain query allocates nothing; each
//! batch allocates its headers.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
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
use crate::udp::shares::Shares;
use crate::way::{UNKNOWN, Way};
use crate::{Answering, Proto, Stats};

mod shares;

/// The most requests of one socket that wait for an answer from a handler. Each client has a share. More are dropped, and the
/// client asks again.
const MAX_WAITING: usize = 4096;
/// The batches of datagrams that are answered before other tasks get their turn.
const BURST: usize = 2;

/// Answers the requests on a socket until cancelled.
pub(crate) async fn serve(answering: Answering, socket: UdpSocket, cancel: CancellationToken) {
    let local = socket.local_addr().unwrap_or(UNKNOWN);
    let mut worker = Worker {
        answering,
        scratch: Scratch::new(),
        inbox: Inbox::new(REQUEST_OCTETS, local.ip().is_unspecified()),
        outbox: Outbox::default(),
        local,
        waiting: FuturesUnordered::new(),
        shares: Shares::new(MAX_WAITING),
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
                // This may be an ICMP error for an earlier reply, which is no fault of ours.
                Err(error) => debug!(%error, "receiving a datagram failed"),
            }
        }
        tokio::task::coop::consume_budget().await;
    }
    worker.drain(&socket).await;
}

/// A request whose answer is ready: the server at its time, the time at which it began, its path, itself, the answer.
type Finished = (Arc<Now>, Option<Instant>, Way, Box<Later>, Answered);

/// The state of a task.
struct Worker {
    answering: Answering,
    scratch: Scratch,
    /// Received requests.
    inbox: Inbox,
    /// Replies to send.
    outbox: Outbox,
    /// Our address, or the one that means all addresses.
    local: SocketAddr,
    /// Requests that wait for an answer from a handler.
    waiting: FuturesUnordered<BoxFuture<'static, Finished>>,
    /// Whose they are.
    shares: Shares,
}

impl Worker {
    /// Answers the received requests.
    async fn answer(&mut self, socket: &UdpSocket, count: usize) {
        let shared = self.answering.now();
        let mut begun = 0;
        while begun < count {
            // Around many datagrams: one by one it would cost each of them.
            let answering = catch_unwind(AssertUnwindSafe(|| {
                while begun < count {
                    begun += 1;
                    self.respond(&shared, begun - 1);
                }
            }));
            if let Err(panic) = answering {
                let (raw, way) = self.inbox.get(begun - 1);
                let outcome = shared.fail_after(&*panic, &mut self.scratch, raw, Proto::Udp);
                if matches!(outcome, Outcome::Reply) {
                    self.outbox.add(self.scratch.writer.octets(), way);
                }
            }
        }
        send(&shared.stats, socket, &mut self.outbox).await;
    }

    /// Answers a received request. Its reply is in the outbox, unless it has to be waited for.
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
            // Transfers over UDP do not begin.
            Outcome::Silent | Outcome::Transfer(_) => return,
            Outcome::Later(later) => {
                if self.shares.take(way.peer.ip()) {
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
        let ends = (way.peer, self.local);
        if !shared.limit_reply(&mut self.scratch, raw, asker) {
            shared.note(start, (raw, &[]), &self.scratch, ends, Proto::Udp);
            return;
        }
        let reply = self.scratch.writer.octets();
        shared.note(start, (raw, reply), &self.scratch, ends, Proto::Udp);
        self.outbox.add(reply, way);
    }

    /// Answers a request whose answer is ready.
    async fn finish(&mut self, socket: &UdpSocket, finished: Finished) {
        let (shared, start, way, later, answered) = finished;
        self.shares.give_back(way.peer.ip());
        let raw: Box<[u8]> = later.raw().into();
        match shared.complete_or_fail(&mut self.scratch, &raw, *later, answered) {
            Outcome::Silent | Outcome::Transfer(_) | Outcome::Later(_) => return,
            Outcome::Dropped => {
                let ends = (way.peer, self.local);
                shared.note(start, (&raw, &[]), &self.scratch, ends, Proto::Udp);
                return;
            }
            Outcome::Reply => {}
        }
        let ends = (way.peer, self.local);
        let asker = Asker {
            address: way.peer,
            local: self.local,
            proto: Proto::Udp,
            tls: None,
        };
        if !shared.limit_reply(&mut self.scratch, &raw, asker) {
            shared.note(start, (&raw, &[]), &self.scratch, ends, Proto::Udp);
            return;
        }
        let reply = self.scratch.writer.octets();
        shared.note(start, (&raw, reply), &self.scratch, ends, Proto::Udp);
        self.outbox.add(reply, way);
        send(&shared.stats, socket, &mut self.outbox).await;
    }

    /// Answers the requests in the socket's buffer, within the time of an answer: no other socket will get them.
    async fn drain(mut self, socket: &UdpSocket) {
        let patience = self.answering.now().settings.tcp.drain_timeout;
        let waiting = async {
            // Any more than these arrived later.
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
            debug!("some queries got no answer before the shutdown");
        }
    }
}

async fn send(stats: &Stats, socket: &UdpSocket, outbox: &mut Outbox) {
    let failed = |peer, error| {
        stats.udp_send_errors.increase();
        debug!(%peer, %error, "sending a datagram failed");
    };
    outbox.send(socket, failed).await;
}

#[cfg(test)]
mod tests;

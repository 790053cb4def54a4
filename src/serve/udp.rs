//! Datagrams: one task for each socket, several sockets for each address.
//!
//! The kernel spreads clients over the sockets (SO_REUSEPORT). A task takes all datagrams that wait and
//! answers each before the next; nothing is allocated for a plain query.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::net::UdpSocket;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::serve::dispatch::{Asker, Outcome, Scratch};
use crate::serve::later::{Answered, Later};
use crate::serve::listener::Now;
use crate::serve::{Answering, Proto, Stats};

/// The largest request in a datagram that we read; a longer one is cut, and then malformed.
const REQUEST_OCTETS: usize = 4096;
/// What stands for an address that the system does not tell.
const UNKNOWN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
/// Requests of one socket that wait for an answer from elsewhere; more are dropped, and the client asks again.
const MAX_WAITING: usize = 4096;
/// Datagrams answered before other tasks get their turn.
const BURST: usize = 64;

/// Answers what comes to a socket until told to stop.
pub(crate) async fn serve(answering: Answering, socket: UdpSocket, cancel: CancellationToken) {
    let mut worker = Worker {
        answering,
        scratch: Scratch::new(),
        request: vec![0; REQUEST_OCTETS].into_boxed_slice(),
        local: socket.local_addr().unwrap_or(UNKNOWN),
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
            match socket.try_recv_from(&mut worker.request) {
                Ok((octets, peer)) => worker.answer(&socket, octets, peer).await,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // An ICMP error for an earlier answer shows up here; it is that client's matter.
                Err(error) => debug!(%error, "receiving a datagram failed"),
            }
        }
        tokio::task::coop::consume_budget().await;
    }
    worker.drain(&socket).await;
}

/// A request whose answer has come: what it began with, when, itself, the answer.
type Finished = (Arc<Now>, Option<Instant>, Box<Later>, Answered);

/// What a task needs for its answers.
struct Worker {
    /// What answers.
    answering: Answering,
    /// Space to answer in.
    scratch: Scratch,
    /// The request.
    request: Box<[u8]>,
    /// Our address.
    local: SocketAddr,
    /// Requests that wait for an answer from elsewhere.
    waiting: FuturesUnordered<BoxFuture<'static, Finished>>,
}

impl Worker {
    /// Answers the request of so many octets.
    async fn answer(&mut self, socket: &UdpSocket, octets: usize, peer: SocketAddr) {
        let shared = self.answering.now();
        let raw = &self.request[..octets];
        let start = shared.start();
        let asker = Asker {
            address: peer,
            local: self.local,
            proto: Proto::Udp,
            tls: None,
        };
        match shared.respond(&mut self.scratch, raw, asker) {
            // Transfers begin on connections only.
            Outcome::Silent | Outcome::Transfer(_) => return,
            Outcome::Later(later) => {
                if self.waiting.len() < MAX_WAITING {
                    let shared = Arc::clone(&shared);
                    self.waiting.push(Box::pin(async move {
                        let (later, answered) = later.wait().await;
                        (shared, start, later, answered)
                    }));
                } else {
                    shared.stats.udp_overload.increase();
                }
                return;
            }
            Outcome::Reply => {}
        }
        let (reply, ends) = (self.scratch.writer.octets(), (peer, self.local));
        shared.note(start, (raw, reply), &self.scratch, ends, Proto::Udp);
        send(&shared.stats, socket, reply, peer).await;
    }

    /// Answers a request whose answer has come.
    async fn finish(&mut self, socket: &UdpSocket, (shared, start, later, answered): Finished) {
        let peer = later.address();
        let raw: Box<[u8]> = later.raw().into();
        match shared.complete(&mut self.scratch, *later, answered) {
            Outcome::Silent | Outcome::Transfer(_) | Outcome::Later(_) => return,
            Outcome::Reply => {}
        }
        let (reply, ends) = (self.scratch.writer.octets(), (peer, self.local));
        shared.note(start, (&raw, reply), &self.scratch, ends, Proto::Udp);
        send(&shared.stats, socket, reply, peer).await;
    }

    /// Answers what has come already, for as long as an answer may take: nobody else would.
    async fn drain(mut self, socket: &UdpSocket) {
        let patience = self.answering.now().settings.tcp.drain_timeout;
        let waiting = async {
            // More than these came later.
            for _ in 0..MAX_WAITING {
                match socket.try_recv_from(&mut self.request) {
                    Ok((octets, peer)) => self.answer(socket, octets, peer).await,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => debug!(%error, "receiving a datagram failed"),
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

/// Sends a reply.
async fn send(stats: &Stats, socket: &UdpSocket, reply: &[u8], peer: SocketAddr) {
    let sent = match socket.try_send_to(reply, peer) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => socket.send_to(reply, peer).await,
        other => other,
    };
    if let Err(error) = sent {
        stats.udp_send_errors.increase();
        debug!(%peer, %error, "sending a datagram failed");
    }
}

//! Connections: accepted within limits, their requests answered as they come, transfers beside them.
//!
//! One task reads a connection and answers plain queries directly. One task writes. Each transfer is a task that passes
//! messages to the writer through a short queue, and waits while it is full. So replies overtake transfers (RFC 7766
//! section 6.2.1.1), and a slow client slows only its own transfers.

mod under_way;

use std::io::{self, ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use dns::HEADER_OCTETS;
use ops::{Place, Places, Usage};
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, ReadHalf, WriteHalf,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};
use transfer::{Closed, Sink, TlsPeer};

use self::under_way::{UnderWay, is_sent};
use crate::answering::Now;
use crate::exchange::{Asker, Later, Outcome, Scratch};
use crate::own_tasks::log_end;
use crate::requests::{Client, Requests};
use crate::stats::Opened;
use crate::tls::{Shaken, is_revoked, shown};
use crate::{Answering, Proto, Stats, TlsIdentity, https};

/// The most messages in the queue of a connection's writer, which writes them at once.
const QUEUE: usize = 4;
/// The bytes that are read from a connection at once.
const READ_OCTETS: usize = 1024;
/// The pause in accepting connections when the process has no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections with `proto` until cancelled, then lets running transfers end within the drain time.
pub(crate) async fn serve(
    answering: Answering,
    listener: Arc<TcpListener>,
    proto: Proto,
    cancel: CancellationToken,
) {
    let stats = Arc::clone(&answering.now().stats);
    let places = Places::default();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = cancel.cancelled() => break,
            Some(ended) = connections.join_next() => log_end(ended),
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let limits = answering.now().settings.place_limits(proto);
                    let is_named = answering.now().names(peer.ip());
                    let Some(place) = places.take(peer.ip(), limits, is_named) else {
                        stats.tcp_refused.increase();
                        debug!(%peer, "too many connections");
                        continue;
                    };
                    stats.tcp_accepted.increase();
                    let connection = Connection {
                        answering: answering.clone(),
                        stats: Arc::clone(&stats),
                        peer,
                        local: stream.local_addr().unwrap_or(peer),
                        proto,
                        tls: None,
                        usage: place.usage().clone(),
                        cancel: cancel.clone(),
                    };
                    let tls = proto.is_encrypted().then(|| answering.now().tls.clone());
                    match tls {
                        None => connections.spawn(connection.run(stream, None, place)),
                        Some(Some(tls)) => {
                            connections.spawn(connection.run(stream, Some(tls), place))
                        }
                        // A TLS listener without a certificate cannot serve.
                        Some(None) => continue,
                    };
                }
                Err(error) => {
                    stats.tcp_accept_errors.increase();
                    if rests_after(&error) {
                        warn!(%error, "cannot accept connections; trying again shortly");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    } else {
                        debug!(%error, "accepting a connection failed");
                    }
                }
            },
        }
    }
    drop(listener);
    let drain = answering.now().settings.tcp.drain_timeout;
    let drained = async {
        while let Some(ended) = connections.join_next().await {
            log_end(ended)
        }
    };
    if timeout(drain, drained).await.is_err() {
        if proto.has_transfers() {
            warn!("transfers were ended before they finished");
        } else {
            debug!("requests over HTTPS are cut off");
        }
    }
}

/// Whether to pause after an error that is not this one connection's.
fn rests_after(error: &io::Error) -> bool {
    !matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted
    )
}

struct Outgoing {
    octets: Vec<u8>,
    /// Notified when it is written.
    written: Option<oneshot::Sender<()>>,
}

/// The queue for a transfer's messages.
struct Queue(mpsc::Sender<Outgoing>);

impl Sink for Queue {
    async fn send(&mut self, octets: Vec<u8>) -> Result<(), Closed> {
        let outgoing = Outgoing {
            octets,
            written: None,
        };
        self.0.send(outgoing).await.map_err(|_| Closed)
    }

    async fn finish(&mut self, octets: Vec<u8>) -> Result<(), Closed> {
        let (written, told) = oneshot::channel();
        let outgoing = Outgoing {
            octets,
            written: Some(written),
        };
        self.0.send(outgoing).await.map_err(|_| Closed)?;
        told.await.map_err(|_| Closed)
    }
}

pub(crate) struct Connection {
    pub answering: Answering,
    pub stats: Arc<Stats>,
    pub peer: SocketAddr,
    /// Our address.
    pub local: SocketAddr,
    /// Its protocol.
    pub proto: Proto,
    /// The client's TLS session.
    pub tls: Option<TlsPeer>,
    /// Notes whether it is in use.
    pub usage: Usage,
    /// Cancelled when reading has to stop.
    pub cancel: CancellationToken,
}

impl Connection {
    /// Serves an accepted connection to its end.
    async fn run(self, stream: TcpStream, tls: Option<Arc<TlsIdentity>>, place: Place) {
        if let Err(error) = stream.set_nodelay(true) {
            debug!(peer = %self.peer, %error, "a connection closed before it was served");
            return;
        }
        let (stats, peer) = (Arc::clone(&self.stats), self.peer);
        let _open = Opened::new(&stats, |it| &it.tcp_open);
        // What a connection needs later has its memory later: a thousand of them may only be open.
        let serving = async {
            match tls {
                None => Box::pin(self.serve(stream)).await,
                Some(tls) => {
                    if let Some(shaken) = Box::pin(self.handshake(stream, &tls)).await {
                        Box::pin(self.serve_shaken(shaken)).await;
                    }
                }
            }
        };
        if place.while_held(serving).await.is_none() {
            stats.tcp_refused.increase();
            debug!(%peer, "an idle connection was closed for a new one");
        }
    }

    /// Serves a connection after its handshake.
    async fn serve_shaken(mut self, shaken: Shaken) {
        let Shaken {
            stream,
            peer: tls,
            is_h2,
        } = shaken;
        if self.proto != Proto::Https {
            self.tls = Some(tls);
            return Box::pin(self.serve(stream)).await;
        }
        let client = Client {
            peer: self.peer,
            local: self.local,
            proto: self.proto,
            tls,
        };
        let requests = Requests::new(client, self.answering, self.usage);
        https::serve(requests, stream, is_h2, &self.stats, &self.cancel).await;
    }

    /// The TLS handshake, which has the time limit of a first request.
    async fn handshake(&self, stream: TcpStream, tls: &TlsIdentity) -> Option<Shaken> {
        let patience = self.answering.now().settings.tcp.first_request_timeout;
        tokio::select! {
            () = self.cancel.cancelled() => None,
            shaken = timeout(patience, tls.accept(stream, self.proto)) => {
                let error = match shaken {
                    Ok(Ok(done)) => return Some(done),
                    Ok(Err(error)) => error,
                    Err(late) => late.into(),
                };
                self.stats.tls_failed.increase();
                // A warning is due if a secondary cannot connect. There may be many strangers.
                let shared = self.answering.now();
                if is_revoked(&error) && shared.revoked.is_due(&(), shared.clock.now()) {
                    warn!(peer = %self.peer, %error, "a client is refused for its certificate, which is revoked or may be");
                } else if shared.secondaries.knows(self.peer) {
                    let error = shown(&error);
                    let reason = format!("TLS: {error}");
                    shared.secondaries.denied_all(self.peer, reason, shared.clock.wall());
                    warn!(peer = %self.peer, %error, "tls handshake failed");
                } else {
                    debug!(peer = %self.peer, error = %shown(&error), "tls handshake failed");
                }
                None
            }
        }
    }

    /// Serves a stream of any kind: answers its requests until the end, and then sends the remaining replies.
    pub(crate) async fn serve<S>(self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (reader, writer) = tokio::io::split(stream);
        let (queue, outgoing) = mpsc::channel(QUEUE);
        let stall = self.answering.now().settings.tcp.stall_timeout;
        let mut writing = JoinSet::new();
        writing.spawn(write_all(writer, outgoing, stall));
        let mut under_way = UnderWay::default();
        let this = Arc::new(self);
        tokio::select! {
            ended = this.read_all(reader, queue, &mut under_way) => match ended {
                // Requests may be over while answers are still due, on a half-closed connection.
                End::Finished => under_way.finish().await,
                End::Unfit => under_way.shutdown().await,
            },
            // The client takes nothing more, so its further requests do not matter.
            Some(written) = writing.join_next() => return this.note_written(written),
        }
        if let Some(written) = writing.join_next().await {
            this.note_written(written);
        }
    }

    /// Counts and logs the end of writing.
    fn note_written(&self, written: Result<io::Result<()>, tokio::task::JoinError>) {
        match written {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                if error.kind() == ErrorKind::TimedOut {
                    self.stats.tcp_timed_out.increase();
                }
                debug!(peer = %self.peer, %error, "writing to a connection failed");
            }
            Err(error) => log_end(Err(error)),
        }
    }

    /// Reads requests and answers them until the client closes the connection, or breaks the protocol.
    async fn read_all<S: AsyncRead>(
        self: &Arc<Self>,
        reader: ReadHalf<S>,
        queue: mpsc::Sender<Outgoing>,
        under_way: &mut UnderWay,
    ) -> End {
        let settings = self.answering.now().settings.tcp;
        let mut reader = BufReader::with_capacity(READ_OCTETS, reader);
        let mut request = Vec::new();
        let mut kept_scratch: Option<Box<Scratch>> = None;
        let mut patience = settings.first_request_timeout;
        let mut old = pin!(tokio::time::sleep(settings.max_age));
        let mut requests: u64 = 0;
        loop {
            tokio::select! {
                () = self.cancel.cancelled() => return End::Finished,
                is_whole = under_way.has_room(&settings) => if !is_whole {
                    return End::Unfit;
                },
            }
            let reading = read_request(&mut reader, &mut request);
            let read = self.read_while_under_way(reading, under_way, patience, old.as_mut());
            if let Err(end) = read.await {
                return end;
            }
            self.usage.work();
            let scratch = &mut **kept_scratch.get_or_insert_with(|| Box::new(Scratch::new()));
            patience = settings.idle_timeout;
            let shared = Arc::clone(&self.answering.now());
            let start = shared.start();
            match shared.respond_or_fail(scratch, &request, self.asker()) {
                Outcome::Silent => {}
                Outcome::Dropped => self.note_dropped((&shared, start), &request, scratch),
                Outcome::Transfer(job) => {
                    under_way.transfers.spawn(job.run(Queue(queue.clone())));
                }
                Outcome::Later(later) => {
                    let begun = (Arc::clone(&shared), start);
                    under_way
                        .answers
                        .spawn(Arc::clone(self).finish(begun, later, queue.clone()));
                }
                Outcome::Reply => {
                    if !self.send((&shared, start), &request, scratch, &queue).await {
                        return End::Unfit;
                    }
                }
            }
            if reader.buffer().is_empty() {
                // The next one may be long in coming.
                (kept_scratch, request) = (None, Vec::new());
            }
            requests += 1;
            let has_enough = settings.max_queries.is_some_and(|most| requests >= most);
            if has_enough || shared.draining.load(Ordering::Relaxed) {
                return End::Finished;
            }
        }
    }

    /// Reads a request while transfers and answers end; the error is how the connection ends instead.
    async fn read_while_under_way(
        &self,
        reading: impl Future<Output = io::Result<bool>>,
        under_way: &mut UnderWay,
        patience: Duration,
        mut old: Pin<&mut Sleep>,
    ) -> Result<(), End> {
        let mut reading = pin!(reading);
        let read = loop {
            if under_way.is_empty() {
                self.usage.rest();
            }
            tokio::select! {
                () = self.cancel.cancelled() => return Err(End::Finished),
                read = &mut reading => break read,
                Some(ended) = under_way.transfers.join_next() => if !is_sent(ended) {
                    return Err(End::Unfit);
                },
                Some(ended) = under_way.answers.join_next() => log_end(ended),
                () = tokio::time::sleep(patience), if under_way.is_empty() => {
                    self.stats.tcp_timed_out.increase();
                    return Err(End::Finished);
                }
                () = &mut old, if under_way.is_empty() => return Err(End::Finished),
            }
        };
        match read {
            Ok(true) => Ok(()),
            Ok(false) => Err(End::Finished),
            Err(error) => {
                debug!(peer = %self.peer, %error, "reading from a connection failed");
                Err(End::Unfit)
            }
        }
    }
}

impl Connection {
    fn asker(&self) -> Asker<'_> {
        Asker {
            address: self.peer,
            local: self.local,
            proto: self.proto,
            tls: self.tls.as_ref(),
        }
    }

    /// Logs a query that gets no reply.
    fn note_dropped(
        &self,
        (shared, start): (&Now, Option<Instant>),
        request: &[u8],
        scratch: &Scratch,
    ) {
        let ends = (self.peer, self.local);
        shared.note(start, (request, &[]), scratch, ends, self.proto);
    }

    /// Logs a reply and passes it to the writer. False when the writer has ended.
    async fn send(
        &self,
        (shared, start): (&Now, Option<Instant>),
        request: &[u8],
        scratch: &mut Scratch,
        queue: &mpsc::Sender<Outgoing>,
    ) -> bool {
        let octets = scratch.writer.take_signed();
        // The first two octets are the length.
        let reply = octets.get(2..).unwrap_or_default();
        let ends = (self.peer, self.local);
        shared.note(start, (request, reply), scratch, ends, self.proto);
        let written = None;
        queue.send(Outgoing { octets, written }).await.is_ok()
    }

    /// Waits for the answer to a request, and sends it.
    async fn finish(
        self: Arc<Self>,
        (shared, start): (Arc<Now>, Option<Instant>),
        later: Box<Later>,
        queue: mpsc::Sender<Outgoing>,
    ) {
        let (later, answered) = later.wait().await;
        let request: Box<[u8]> = later.raw().into();
        let mut scratch = Scratch::new();
        match shared.complete_or_fail(&mut scratch, &request, *later, answered) {
            Outcome::Silent | Outcome::Transfer(_) | Outcome::Later(_) => {}
            Outcome::Dropped => self.note_dropped((&shared, start), &request, &scratch),
            Outcome::Reply => {
                if !self
                    .send((&shared, start), &request, &mut scratch, &queue)
                    .await
                {
                    debug!(peer = %self.peer, "a connection closed before its answer");
                }
            }
        }
    }
}

/// The end of reading a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// No request will follow.
    Finished,
    /// The stream is broken or breaks the protocol: nothing more is sent.
    Unfit,
}

/// Reads one request; false at the end of the stream.
async fn read_request<R: AsyncRead + Unpin>(
    reader: &mut R,
    request: &mut Vec<u8>,
) -> io::Result<bool> {
    let length = match reader.read_u16().await {
        Ok(length) => usize::from(length),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(false),
        Err(error) => return Err(error),
    };
    if length < HEADER_OCTETS {
        return Err(io::Error::new(
            ErrorKind::InvalidData,
            "a message is shorter than its header",
        ));
    }
    // It gets memory as it comes: the length is the client's word, and may be all that it ever sends.
    request.clear();
    let mut rest = reader.take(u64::try_from(length).unwrap_or(u64::MAX));
    while request.len() < length {
        if rest.read_buf(request).await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(true)
}

/// Writes messages until all senders are gone. Waiting messages are written together, if the network takes them.
async fn write_all<S: AsyncWrite>(
    mut writer: WriteHalf<S>,
    mut outgoing: mpsc::Receiver<Outgoing>,
    stall: Duration,
) -> io::Result<()> {
    let mut batch = Vec::with_capacity(QUEUE);
    while outgoing.recv_many(&mut batch, QUEUE).await > 0 {
        if batch.len() == QUEUE {
            // A transfer fills the queue faster than this empties it, and now has room again. On an idle processor it
            // can pack while this writes.
            tokio::task::yield_now().await;
        }
        write_batch(&mut writer, &batch, stall).await?;
        timeout(stall, writer.flush()).await??;
        for written in batch.drain(..).filter_map(|it| it.written) {
            // The receiver may have been stopped.
            written.send(()).unwrap_or_default();
        }
    }
    timeout(stall, writer.shutdown()).await?
}

/// Writes messages one after the other, in as few calls as possible.
async fn write_batch<S: AsyncWrite>(
    writer: &mut WriteHalf<S>,
    batch: &[Outgoing],
    stall: Duration,
) -> io::Result<()> {
    let mut slices = [IoSlice::new(&[]); QUEUE];
    for (slice, message) in slices.iter_mut().zip(batch) {
        *slice = IoSlice::new(&message.octets);
    }
    let mut rest = &mut slices[..batch.len()];
    while !rest.is_empty() {
        let taken = timeout(stall, writer.write_vectored(rest)).await??;
        if taken == 0 {
            return Err(ErrorKind::WriteZero.into());
        }
        IoSlice::advance_slices(&mut rest, taken);
    }
    Ok(())
}

#[cfg(test)]
mod tests;

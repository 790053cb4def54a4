//! Connections: accepted within limits, their requests answered as they come, transfers beside them.
//!
//! One task reads a connection and answers plain queries at once; one task writes; each transfer is a
//! task that hands messages to the writer through a short queue and waits while it is full. So replies
//! overtake transfers (RFC 7766 section 6.2.1.1), and a slow client slows its own transfers only.

mod under_way;

use std::io::{self, ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use dns::HEADER_OCTETS;
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, ReadHalf, WriteHalf,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};
use transfer::{Closed, Sink, TlsPeer};

use self::under_way::{UnderWay, is_sent};
use crate::answering::Now;
use crate::exchange::{Asker, Later, Outcome, Scratch};
use crate::own_tasks::log_end;
use crate::places::{Place, Places};
use crate::requests::{Client, Requests};
use crate::stats::Opened;
use crate::tls::Shaken;
use crate::{Answering, Proto, Stats, TlsIdentity, https};

/// Messages that wait for the writer of a connection, and that it writes at once.
const QUEUE: usize = 4;
/// Octets read from a connection at once.
const READ_OCTETS: usize = 1024;
/// How long accepting rests when the process has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections until told to stop, then lets running transfers end within the drain time.
/// `proto`: what is spoken on them.
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
                    let settings = answering.now().settings;
                    let most = settings.stream_limits(proto).max_connections;
                    let most_of_client = settings.tcp.max_per_client;
                    let Some(place) = places.take(peer.ip(), most, most_of_client) else {
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
                        cancel: cancel.clone(),
                    };
                    let tls = proto.is_encrypted().then(|| answering.now().tls.clone());
                    match tls {
                        None => connections.spawn(connection.run(stream, None, place)),
                        Some(Some(tls)) => {
                            connections.spawn(connection.run(stream, Some(tls), place))
                        }
                        // A TLS listener without a certificate serves nobody.
                        Some(None) => continue,
                    };
                }
                Err(error) => {
                    stats.tcp_accept_errors.increase();
                    if rests_after(&error) {
                        warn!(%error, "accepting connections pauses");
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
        warn!("transfers are cut off");
    }
}

/// Whether accepting must rest: what failed was not this one connection.
fn rests_after(error: &io::Error) -> bool {
    !matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted
    )
}

/// A message on its way to the writer.
struct Outgoing {
    /// Length and message.
    octets: Vec<u8>,
    /// Told once it is written.
    written: Option<oneshot::Sender<()>>,
}

/// Where a transfer puts its messages.
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

/// One connection.
pub(crate) struct Connection {
    /// What answers.
    pub answering: Answering,
    /// Counts.
    pub stats: Arc<Stats>,
    /// The client.
    pub peer: SocketAddr,
    /// Our address.
    pub local: SocketAddr,
    /// What is spoken on it.
    pub proto: Proto,
    /// What TLS says of the client.
    pub tls: Option<TlsPeer>,
    /// Says when to stop reading.
    pub cancel: CancellationToken,
}

impl Connection {
    /// Serves an accepted connection to its end.
    async fn run(self, stream: TcpStream, tls: Option<Arc<TlsIdentity>>, place: Place) {
        if let Err(error) = stream.set_nodelay(true) {
            debug!(peer = %self.peer, %error, "a connection is gone already");
            return;
        }
        let _open = Opened::new(&self.stats, |it| &it.tcp_open);
        match tls {
            None => self.serve(stream).await,
            Some(tls) => {
                if let Some(shaken) = self.handshake(stream, &tls).await {
                    self.serve_shaken(shaken).await;
                }
            }
        }
        drop(place);
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
            return self.serve(stream).await;
        }
        let client = Client {
            peer: self.peer,
            local: self.local,
            proto: self.proto,
            tls,
        };
        let requests = Requests::new(client, self.answering);
        https::serve(requests, stream, is_h2, &self.stats, &self.cancel).await;
    }

    /// The handshake of TLS, which may take as long as a first request.
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
                // A secondary that cannot come in wants a look; of strangers there may be many.
                if self.answering.now().secondaries.knows(self.peer) {
                    warn!(peer = %self.peer, %error, "tls handshake failed");
                } else {
                    debug!(peer = %self.peer, %error, "tls handshake failed");
                }
                None
            }
        }
    }

    /// Serves a stream of any kind: requests until its end, then what is still to be sent.
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
                // Requests may be over while their answers are not (a half-closed connection).
                End::Finished => under_way.finish().await,
                End::Unfit => under_way.shutdown().await,
            },
            // The client takes nothing more: what it might still ask is moot.
            Some(written) = writing.join_next() => return this.note_written(written),
        }
        if let Some(written) = writing.join_next().await {
            this.note_written(written);
        }
    }

    /// Counts and logs how writing ended.
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

    /// Reads requests and sees to their answers until the client ends, or is unfit.
    async fn read_all<S: AsyncRead>(
        self: &Arc<Self>,
        reader: ReadHalf<S>,
        queue: mpsc::Sender<Outgoing>,
        under_way: &mut UnderWay,
    ) -> End {
        let settings = self.answering.now().settings.tcp;
        let mut reader = BufReader::with_capacity(READ_OCTETS, reader);
        let mut request = Vec::new();
        let mut scratch = Scratch::new();
        let mut patience = settings.first_request_timeout;
        let mut requests: u64 = 0;
        loop {
            tokio::select! {
                () = self.cancel.cancelled() => return End::Finished,
                is_whole = under_way.has_room(&settings) => if !is_whole {
                    return End::Unfit;
                },
            }
            let read = {
                let mut reading = pin!(read_request(&mut reader, &mut request));
                loop {
                    tokio::select! {
                        () = self.cancel.cancelled() => return End::Finished,
                        read = &mut reading => break read,
                        Some(ended) = under_way.transfers.join_next() => if !is_sent(ended) {
                            return End::Unfit;
                        },
                        Some(ended) = under_way.answers.join_next() => log_end(ended),
                        () = tokio::time::sleep(patience), if under_way.is_empty() => {
                            self.stats.tcp_timed_out.increase();
                            return End::Finished;
                        }
                    }
                }
            };
            match read {
                Ok(true) => {}
                Ok(false) => return End::Finished,
                Err(error) => {
                    debug!(peer = %self.peer, %error, "reading from a connection failed");
                    return End::Unfit;
                }
            }
            patience = settings.idle_timeout;
            let shared = Arc::clone(&self.answering.now());
            let start = shared.start();
            match shared.respond(&mut scratch, &request, self.asker()) {
                Outcome::Silent => {}
                Outcome::Dropped => self.note_dropped((&shared, start), &request, &scratch),
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
                    if !self
                        .send((&shared, start), &request, &mut scratch, &queue)
                        .await
                    {
                        return End::Unfit;
                    }
                }
            }
            requests += 1;
            let has_enough = settings.max_queries.is_some_and(|most| requests >= most);
            if has_enough || shared.draining.load(Ordering::Relaxed) {
                return End::Finished;
            }
        }
    }
}

impl Connection {
    /// The client, as requests are answered for it.
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

    /// Logs a reply and hands it to the writer; false when there is none any more.
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

    /// Answers a request whose answer has to be waited for.
    async fn finish(
        self: Arc<Self>,
        (shared, start): (Arc<Now>, Option<Instant>),
        later: Box<Later>,
        queue: mpsc::Sender<Outgoing>,
    ) {
        let (later, answered) = later.wait().await;
        let request: Box<[u8]> = later.raw().into();
        let mut scratch = Scratch::new();
        match shared.complete(&mut scratch, *later, answered) {
            Outcome::Silent | Outcome::Transfer(_) | Outcome::Later(_) => {}
            Outcome::Dropped => self.note_dropped((&shared, start), &request, &scratch),
            Outcome::Reply => {
                if !self
                    .send((&shared, start), &request, &mut scratch, &queue)
                    .await
                {
                    debug!(peer = %self.peer, "a connection ended before an answer came");
                }
            }
        }
    }
}

/// How the reading of a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// No request will follow.
    Finished,
    /// The stream makes no sense or is broken: nothing more is sent.
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
    request.resize(length, 0);
    reader.read_exact(request).await?;
    Ok(true)
}

/// Writes messages until no one has more, those that wait in one write if the network takes them.
async fn write_all<S: AsyncWrite>(
    mut writer: WriteHalf<S>,
    mut outgoing: mpsc::Receiver<Outgoing>,
    stall: Duration,
) -> io::Result<()> {
    let mut batch = Vec::with_capacity(QUEUE);
    while outgoing.recv_many(&mut batch, QUEUE).await > 0 {
        if batch.len() == QUEUE {
            // A transfer fills the queue faster than it empties, and now has room to go on: where a
            // processor has nothing else to do, it packs while this writes.
            tokio::task::yield_now().await;
        }
        write_batch(&mut writer, &batch, stall).await?;
        timeout(stall, writer.flush()).await??;
        for written in batch.drain(..).filter_map(|it| it.written) {
            // Who waits for this may have been stopped.
            written.send(()).unwrap_or_default();
        }
    }
    timeout(stall, writer.shutdown()).await?
}

/// Writes messages one behind the other, with as few calls as may be.
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

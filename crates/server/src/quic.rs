//! A socket of QUIC: connections accepted within limits, for DNS over QUIC or HTTP/3.
//!
//! The codec is quinn's, which hickory-server's listeners use too. Those wait for the handshake of one client before they
//! look at the next, and have no limit of connections.
//!
//! # Not implemented
//! Early data: it can be replayed (RFC 9250 section 4.5 leaves it to the server). Clients that change their address: the
//! one that was admitted stays.

mod doq;
pub(crate) mod https3;

use std::future::Future;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quinn::{
    Connecting, Endpoint, EndpointConfig, IdleTimeout, Incoming, ServerConfig, TransportConfig,
    VarInt,
};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error};

use crate::own_tasks::{OwnTasks, Starter, log_end};
use crate::places::{Place, Places};
use crate::requests::{Client, Requests};
use crate::stats::Opened;
use crate::{Answering, Proto, Settings, Stats, tls};

/// Octets that a client may send before they are read: in one stream, and in all of a connection.
const WINDOWS: [u32; 2] = [16 << 10, 128 << 10];
/// Octets that may be on their way to a client.
const SEND_OCTETS: u64 = 256 << 10;
/// Streams in one direction that HTTP/3 needs: control, two of QPACK, and one that means nothing (RFC 9114 section 6.2).
const ONE_WAY_STREAMS: u32 = 4;
/// The most connections that wait to be accepted.
const MAX_INCOMING: usize = 1024;
/// Octets that may come early for them.
const INCOMING_OCTETS: u64 = 4 << 20;

/// A connection that is accepted.
pub(crate) struct QuicConnection {
    /// Its streams.
    pub connection: quinn::Connection,
    /// Its requests.
    pub requests: Arc<Requests>,
    /// Limits and times.
    pub settings: Settings,
    /// Counts.
    pub stats: Arc<Stats>,
    /// Says when to end.
    pub cancel: CancellationToken,
}

/// A socket, as its connections are accepted.
struct Listening {
    /// What answers.
    answering: Answering,
    /// The protocol on it.
    proto: Proto,
    address: SocketAddr,
    /// The configuration of all connections, but for certificates and transport.
    base: ServerConfig,
    /// Counts.
    stats: Arc<Stats>,
    /// For connections.
    places: Places,
    /// For requests of DNS over QUIC, all connections together: so many. Locked to look, and to make others when a
    /// reload changes how many there are.
    workers: Mutex<(usize, Arc<Semaphore>)>,
    /// Says when to end.
    cancel: CancellationToken,
}

/// Accepts connections until told to stop, then lets requests end within the drain time.
pub(crate) async fn serve(
    answering: Answering,
    socket: UdpSocket,
    proto: Proto,
    cancel: CancellationToken,
) {
    // How many connections there may be is settled when the listener starts.
    let settings = answering.now().settings;
    let tasks = OwnTasks::default();
    let (listening, endpoint) = match open(answering, socket, proto, &cancel, tasks.starter()) {
        Ok(opened) => opened,
        Err(error) => {
            error!(%error, proto = proto.name(), "a socket cannot be served");
            return;
        }
    };
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = cancel.cancelled() => break,
            Some(ended) = connections.join_next() => log_end(ended),
            incoming = endpoint.accept() => match incoming {
                Some(incoming) => if let Some(connection) = listening.admit(incoming) {
                    connections.spawn(connection);
                },
                None => {
                    error!(address = %listening.address, "the socket of QUIC is broken");
                    return;
                }
            },
        }
    }
    // New connections are refused from here on.
    endpoint.set_server_config(None);
    let drained = async {
        while let Some(ended) = connections.join_next().await {
            log_end(ended);
        }
        endpoint.wait_idle().await;
    };
    if timeout(settings.tcp.drain_timeout, drained).await.is_err() {
        debug!("connections of QUIC are cut off");
    }
}

/// Makes an endpoint of a socket.
fn open(
    answering: Answering,
    socket: UdpSocket,
    proto: Proto,
    cancel: &CancellationToken,
    starter: Starter,
) -> io::Result<(Listening, Endpoint)> {
    let now = answering.now();
    let stats = Arc::clone(&now.stats);
    let tls = now
        .tls
        .clone()
        .ok_or_else(|| io::Error::other("there is no certificate"))?;
    drop(now);
    let mut base = ServerConfig::with_crypto(tls.quic(proto));
    base.migration(false)
        .max_incoming(MAX_INCOMING)
        .incoming_buffer_size_total(INCOMING_OCTETS);
    let listening = Listening {
        address: socket.local_addr()?,
        base: base.clone(),
        places: Places::default(),
        workers: Mutex::new((0, Arc::new(Semaphore::new(0)))),
        answering,
        proto,
        stats,
        cancel: cancel.clone(),
    };
    let endpoint = Endpoint::new(
        EndpointConfig::default(),
        Some(base),
        socket,
        Arc::new(starter),
    )?;
    Ok((listening, endpoint))
}

/// How connections are carried.
fn transport(settings: &Settings, proto: Proto) -> TransportConfig {
    // Longer than our own timeout, which is counted and says goodbye: this one is for clients that are gone.
    let idle = settings.tcp.unused_timeout();
    let idle = idle.saturating_add(settings.tcp.stall_timeout);
    let max_streams = settings.stream_limits(proto).max_streams;
    let one_way = if proto == Proto::Https3 {
        ONE_WAY_STREAMS
    } else {
        0
    };
    let mut transport = TransportConfig::default();
    transport
        // Longer ones than the wire has room for are none.
        .max_idle_timeout(IdleTimeout::try_from(idle).ok())
        .max_concurrent_bidi_streams(VarInt::from_u32(max_streams))
        .max_concurrent_uni_streams(VarInt::from_u32(one_way))
        .stream_receive_window(VarInt::from_u32(WINDOWS[0]))
        .receive_window(VarInt::from_u32(WINDOWS[1]))
        .send_window(SEND_OCTETS)
        .datagram_receive_buffer_size(None);
    transport
}

impl Listening {
    /// How a connection is accepted with the current certificates and settings; `None` without certificates.
    fn config(&self) -> Option<ServerConfig> {
        let now = self.answering.now();
        let tls = now.tls.as_ref()?;
        let mut config = self.base.clone();
        config.crypto = tls.quic(self.proto);
        config.transport_config(Arc::new(transport(&now.settings, self.proto)));
        Some(config)
    }

    /// Lets a connection in, if there is a place for it. Gives what serves it.
    fn admit(&self, incoming: Incoming) -> Option<impl Future<Output = ()> + Send + 'static> {
        let peer = incoming.remote_address();
        let settings = self.answering.now().settings;
        let most = settings.stream_limits(self.proto).max_connections;
        // Addresses are forged easily: once places are scarce each client has to show that it has its own (RFC 9000
        // section 8.1.2).
        if !incoming.remote_address_validated() && self.places.are_scarce(most) {
            if let Err(error) = incoming.retry() {
                debug!(%peer, %error, "a connection of QUIC cannot be tried again");
            }
            return None;
        }
        let most_of_client = settings.tcp.max_per_client;
        let Some(place) = self.places.take(peer.ip(), most, most_of_client) else {
            self.stats.quic_refused.increase();
            debug!(%peer, "too many connections");
            incoming.refuse();
            return None;
        };
        let config = self.config()?;
        let local = incoming.local_ip().unwrap_or(self.address.ip());
        match incoming.accept_with(Arc::new(config)) {
            Ok(connecting) => {
                self.stats.quic_accepted.increase();
                let local = SocketAddr::new(local, self.address.port());
                Some(self.connection(connecting, (peer, local), place))
            }
            Err(error) => {
                self.stats.tls_failed.increase();
                debug!(%peer, %error, "a connection of QUIC cannot begin");
                None
            }
        }
    }

    /// So many places for requests.
    fn workers(&self, most: usize) -> Arc<Semaphore> {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        if workers.0 != most {
            *workers = (
                most,
                Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))),
            );
        }
        Arc::clone(&workers.1)
    }

    /// Serves a connection to its end.
    fn connection(
        &self,
        connecting: Connecting,
        (peer, local): (SocketAddr, SocketAddr),
        place: Place,
    ) -> impl Future<Output = ()> + Send + 'static {
        let (answering, proto) = (self.answering.clone(), self.proto);
        let (stats, cancel) = (Arc::clone(&self.stats), self.cancel.clone());
        let workers = self.workers(answering.now().settings.quic_workers);
        async move {
            let _open = Opened::new(&stats, |it| &it.quic_open);
            let settings = answering.now().settings;
            let patience = settings.tcp.first_request_timeout;
            if let Some(connection) = shake(connecting, peer, patience, &stats, &cancel).await {
                let client = Client {
                    peer,
                    local,
                    proto,
                    tls: tls::quic_peer(&connection),
                };
                let connection = QuicConnection {
                    connection,
                    requests: Arc::new(Requests::new(client, answering)),
                    settings,
                    stats: Arc::clone(&stats),
                    cancel,
                };
                match proto {
                    Proto::Https3 => https3::serve(connection).await,
                    Proto::Udp | Proto::Tcp | Proto::Tls | Proto::Https | Proto::Quic => {
                        doq::serve(connection, workers).await;
                    }
                }
            }
            drop(place);
        }
    }
}

/// The handshake, which may take as long as a first request.
async fn shake(
    connecting: Connecting,
    peer: SocketAddr,
    patience: Duration,
    stats: &Stats,
    cancel: &CancellationToken,
) -> Option<quinn::Connection> {
    let shaken = tokio::select! {
        () = cancel.cancelled() => return None,
        shaken = timeout(patience, connecting) => shaken,
    };
    match shaken {
        Ok(Ok(connection)) => return Some(connection),
        Ok(Err(error)) => debug!(%peer, %error, "the handshake of QUIC failed"),
        Err(_) => debug!(%peer, "the handshake of QUIC takes too long"),
    }
    stats.tls_failed.increase();
    None
}

impl QuicConnection {
    /// Waits until the connection has to go.
    pub(crate) async fn leave(&self) {
        let timed_out = &self.stats.quic_timed_out;
        self.requests
            .leave(&self.settings.tcp, timed_out, &self.cancel)
            .await;
    }

    /// Waits for the end of what was asked, and says when that takes too long.
    pub(crate) async fn finish(&self, streams: &mut JoinSet<()>) {
        let finished = async {
            while let Some(ended) = streams.join_next().await {
                log_end(ended);
            }
        };
        if timeout(self.settings.tcp.stall_timeout, finished)
            .await
            .is_err()
        {
            // Any client can cause this.
            debug!(peer = %self.requests.client.peer, "requests over QUIC are cut off");
        }
    }
}

#[cfg(test)]
mod tests;

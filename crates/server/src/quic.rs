//! A socket of QUIC: connections accepted within limits, for DNS over QUIC or HTTP/3.
//!
//! The codec is quinn, as in hickory-server's listeners. Those wait for one client's handshake before they accept the
//! next client, and have no limit of connections.
//!
//! # Not implemented
//! - Early data: it can be replayed (RFC 9250 section 4.5 leaves it to the server).
//! - Clients that change their address: the admitted address stays.

mod doq;
pub(crate) mod https3;
mod workers;

use std::future::Future;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use ops::{Place, Places};
use quinn::{
    Connecting, Endpoint, EndpointConfig, IdleTimeout, Incoming, ServerConfig, TransportConfig,
    VarInt,
};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error};

use self::workers::Workers;
use crate::own_tasks::{OwnTasks, Starter, log_end};
use crate::requests::{Client, Requests};
use crate::stats::Opened;
use crate::{Answering, Proto, Settings, Stats, tls};

/// The bytes that a client may send before they are read: in one stream, and on the whole connection.
const WINDOWS: [u32; 2] = [16 << 10, 128 << 10];
/// The bytes that may be in transit to a client.
const SEND_OCTETS: u64 = 256 << 10;
/// The streams in one direction that HTTP/3 needs: control, two of QPACK, and one without meaning (RFC 9114 section
/// 6.2).
const ONE_WAY_STREAMS: u32 = 4;
/// The most connections that wait to be accepted.
const MAX_INCOMING: usize = 1024;
/// The early data that these connections may have sent, in bytes.
const INCOMING_OCTETS: u64 = 4 << 20;

/// An accepted connection.
pub(crate) struct QuicConnection {
    pub connection: quinn::Connection,
    pub requests: Arc<Requests>,
    pub settings: Settings,
    pub stats: Arc<Stats>,
    /// Cancelled when the connection has to end.
    pub cancel: CancellationToken,
}

/// A socket that accepts connections.
struct Listening {
    answering: Answering,
    proto: Proto,
    address: SocketAddr,
    /// The configuration of all connections, without certificates and transport.
    base: ServerConfig,
    stats: Arc<Stats>,
    /// Limits the connections.
    places: Places,
    /// Limits the requests of DNS over QUIC of all connections together.
    workers: Workers,
    cancel: CancellationToken,
}

/// Accepts connections until cancelled, then lets requests end within the drain time.
pub(crate) async fn serve(
    answering: Answering,
    socket: UdpSocket,
    proto: Proto,
    cancel: CancellationToken,
) {
    // The number of connections is fixed when the listener starts.
    let settings = answering.now().settings;
    let tasks = OwnTasks::default();
    let (listening, endpoint) = match open(answering, socket, proto, &cancel, tasks.starter()) {
        Ok(opened) => opened,
        Err(error) => {
            error!(%error, proto = proto.name(), "cannot serve a QUIC socket");
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
                    error!(address = %listening.address, "the QUIC socket failed");
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
        debug!("QUIC connections were closed before they finished");
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
        workers: Workers::new(),
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

/// The transport settings of connections.
fn transport(settings: &Settings, proto: Proto) -> TransportConfig {
    // It is longer than our own timeout, which is counted and closes the connection properly. This one is for clients
    // that are gone.
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
        // A time that is too long for the wire counts as none.
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
    /// The configuration of a new connection, with the current certificates and settings; `None` without certificates.
    fn config(&self) -> Option<ServerConfig> {
        let now = self.answering.now();
        let tls = now.tls.as_ref()?;
        let mut config = self.base.clone();
        config.crypto = tls.quic(self.proto);
        config.transport_config(Arc::new(transport(&now.settings, self.proto)));
        Some(config)
    }

    /// Accepts a connection if there is a place for it. Returns the task that serves it.
    fn admit(&self, incoming: Incoming) -> Option<impl Future<Output = ()> + Send + 'static> {
        let peer = incoming.remote_address();
        let limits = self.answering.now().settings.place_limits(self.proto);
        let most = limits.most;
        // Addresses are easily forged. When places are scarce, each client has to prove its own (RFC 9000 section
        // 8.1.2).
        if !incoming.remote_address_validated() && self.places.are_scarce(most) {
            if let Err(error) = incoming.retry() {
                debug!(%peer, %error, "cannot ask a QUIC client to prove its address");
            }
            return None;
        }
        let is_named = self.answering.now().names(peer.ip());
        let Some(place) = self.places.take(peer.ip(), limits, is_named) else {
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
                debug!(%peer, %error, "cannot accept a QUIC connection");
                None
            }
        }
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
        let workers = self.workers.clone();
        workers.resize(answering.now().settings.quic_workers);
        async move {
            let _open = Opened::new(&stats, |it| &it.quic_open);
            let usage = place.usage().clone();
            let serving = async {
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
                        requests: Arc::new(Requests::new(client, answering, usage)),
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
            };
            if place.while_held(serving).await.is_none() {
                stats.quic_refused.increase();
                debug!(%peer, "an idle connection was closed for a new one");
            }
        }
    }
}

/// The handshake, which has the time limit of a first request.
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
        Ok(Err(error)) => debug!(%peer, %error, "a QUIC handshake failed"),
        Err(_) => debug!(%peer, "a QUIC handshake took too long"),
    }
    stats.tls_failed.increase();
    None
}

impl QuicConnection {
    /// Waits until the connection has to be closed.
    pub(crate) async fn leave(&self) {
        let timed_out = &self.stats.quic_timed_out;
        let leave = self
            .requests
            .leave(&self.settings.tcp, timed_out, &self.cancel);
        leave.map(drop).await;
    }

    /// Waits for the end of the requests, and logs if that takes too long.
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
            // Any client can cause this, so it is no warning.
            debug!(peer = %self.requests.client.peer, "QUIC requests were ended before they finished");
        }
    }
}

#[cfg(test)]
mod tests;

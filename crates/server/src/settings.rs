//! Limits and times of the server, with their defaults.

use std::time::Duration;

use transfer::{NotifySettings, TransferSettings};

use crate::Proto;

/// Limits and times of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The largest datagram we send and announce (DNS flag day 2020: 1232).
    pub udp_octets: u16,
    /// Sockets for each UDP address.
    pub udp_sockets: usize,
    /// TCP. Its times, `max_per_client` and `max_queries` hold for all connections.
    pub tcp: TcpSettings,
    /// HTTPS.
    pub https: StreamLimits,
    /// HTTP/3.
    pub https3: StreamLimits,
    /// DNS over QUIC.
    pub quic: StreamLimits,
    /// The most requests of DNS over QUIC that one listener answers at once.
    pub quic_workers: usize,
    /// Transfers.
    pub transfer: TransferSettings,
    /// NOTIFY.
    pub notify: NotifySettings,
}

/// Limits and times of TCP connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpSettings {
    /// The most connections of one listener.
    pub max_connections: usize,
    /// The most connections from one address.
    pub max_per_client: usize,
    /// How long a connection may stay without its first request.
    pub first_request_timeout: Duration,
    /// How long it may stay without a further request, while none is being answered.
    pub idle_timeout: Duration,
    /// How long the client may take nothing of what we send.
    pub stall_timeout: Duration,
    /// The most requests of one connection; any number unless there is one.
    pub max_queries: Option<u64>,
    /// The most transfers at once on one connection.
    pub max_transfers: usize,
    /// The most queries of one connection that wait for an answer from elsewhere.
    pub max_waiting: usize,
    /// How long running transfers may go on once the server stops.
    pub drain_timeout: Duration,
}

/// Limits of connections that carry many requests at once, each in a stream of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamLimits {
    /// The most connections of one listener.
    pub max_connections: usize,
    /// The most requests of one connection at once.
    pub max_streams: u32,
}

impl StreamLimits {
    /// CoreDNS's defaults for HTTPS.
    const HTTPS: Self = Self {
        max_connections: 200,
        max_streams: 250,
    };
    /// The same for HTTP/3 and QUIC.
    const QUIC: Self = Self {
        max_connections: 200,
        max_streams: 256,
    };
}

impl Settings {
    /// The limits of the connections of a protocol. Over TCP and TLS a connection is a single stream.
    #[must_use]
    pub const fn stream_limits(&self, proto: Proto) -> StreamLimits {
        match proto {
            Proto::Udp | Proto::Tcp | Proto::Tls => StreamLimits {
                max_connections: self.tcp.max_connections,
                max_streams: 1,
            },
            Proto::Https => self.https,
            Proto::Https3 => self.https3,
            Proto::Quic => self.quic,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            udp_octets: 1232,
            udp_sockets: 2,
            tcp: TcpSettings::default(),
            https: StreamLimits::HTTPS,
            https3: StreamLimits::QUIC,
            quic: StreamLimits::QUIC,
            quic_workers: 1024,
            transfer: TransferSettings::default(),
            notify: NotifySettings::default(),
        }
    }
}

impl TcpSettings {
    /// The longest time that a connection may stay without a request, the first or a further one.
    pub(crate) fn unused_timeout(&self) -> Duration {
        self.idle_timeout.max(self.first_request_timeout)
    }
}

impl Default for TcpSettings {
    fn default() -> Self {
        Self {
            max_connections: 1000,
            max_per_client: 100,
            first_request_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(60),
            max_queries: None,
            max_transfers: 8,
            max_waiting: 128,
            drain_timeout: Duration::from_secs(5),
        }
    }
}

//! Limits and times of the server, with their defaults.

use std::time::Duration;

use ops::PlaceLimits;
use transfer::{NotifySettings, TransferSettings};

use crate::Proto;

/// One of so many places for connections is for peers that `transfer` names.
const RESERVED_SHARE: usize = 8;

/// Limits and times of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The largest datagram that we send and accept (DNS flag day 2020: 1232).
    pub udp_octets: u16,
    /// Sockets for each UDP address.
    pub udp_sockets: usize,
    /// TCP. Its times, `max_per_client` and `max_queries` apply to all connections.
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
    /// The most connections from one address, or from one IPv6 network of 64 bits.
    pub max_per_client: usize,
    /// The time for which a connection may stay without its first request.
    pub first_request_timeout: Duration,
    /// The time for which it may stay without a further request, while no answer is due.
    pub idle_timeout: Duration,
    /// The time for which a client may take nothing that we send.
    pub stall_timeout: Duration,
    /// The longest time of a connection. Requests in progress are answered first.
    pub max_age: Duration,
    /// The most requests of one connection; `None` is no limit.
    pub max_queries: Option<u64>,
    /// The most transfers at once on one connection.
    pub max_transfers: usize,
    /// The most queries of one connection that wait for an answer from a handler.
    pub max_waiting: usize,
    /// The time for which running transfers continue when the server stops.
    pub drain_timeout: Duration,
}

/// The limits of connections with many requests at once, each in a stream of its own.
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
    /// CoreDNS's defaults for HTTP/3 and QUIC.
    const QUIC: Self = Self {
        max_connections: 200,
        max_streams: 256,
    };
}

impl Settings {
    /// The limits of a protocol's connections. Over TCP and TLS a connection is a single stream.
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

impl Settings {
    /// The places for the connections of a protocol.
    pub(crate) const fn place_limits(&self, proto: Proto) -> PlaceLimits {
        let most = self.stream_limits(proto).max_connections;
        PlaceLimits {
            most,
            most_of_source: self.tcp.max_per_client,
            reserved: most / RESERVED_SHARE,
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
    /// The longest time for which a connection may stay without a first or further request.
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
            max_age: Duration::from_secs(2 * 3600),
            max_queries: Some(1_000_000),
            max_transfers: 8,
            max_waiting: 128,
            drain_timeout: Duration::from_secs(5),
        }
    }
}

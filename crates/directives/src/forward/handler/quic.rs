//! DNS over QUIC (RFC 9250) and over HTTP/3 towards an upstream: all queries share a connection, each in a stream of
//! its own.
//!
//! # Not implemented
//! - Early data: it can be replayed (RFC 9250 section 4.5).
//! - A fallback to an older version of HTTP when QUIC is blocked: write another TO for it.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use dns::Response;
use h3::client::SendRequest;
use http::Request;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connection, Endpoint, EndpointConfig, TransportConfig, VarInt};
use server::BoundedConnection;

use crate::forward::handler::https::{HEADER_OCTETS, Https, WINDOWS, check_status, decode, lost};
use crate::forward::handler::query::Message;
use crate::forward::handler::route::{Route, Secured, UpstreamTls};
use crate::forward::handler::stream;

/// The streams that an upstream may open in one direction. HTTP/3 has one for control, two for QPACK, and one without
/// meaning (RFC 9114 section 6.2).
const ONE_WAY_STREAMS: u32 = 4;
/// The most bytes of an HTTP/3 stream: header, message and frames.
const STREAM_OCTETS: usize = 128 << 10;

/// Opens the streams of a connection.
type Opener = <BoundedConnection as h3::quic::Connection<Bytes>>::OpenStreams;

#[derive(Clone)]
pub(super) struct QuicConnection {
    connection: Connection,
    /// Sends requests of HTTP/3, and their common parts.
    http3: Option<(SendRequest<Opener, Bytes>, Arc<Https>)>,
}

impl fmt::Debug for QuicConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QuicConnection({:?})", self.connection.stable_id())
    }
}

impl QuicConnection {
    /// Opens a connection. The route's tasks drive it.
    pub(super) async fn open(route: &Route, tls: &UpstreamTls) -> io::Result<Self> {
        let connection = connect(route, tls).await?;
        let http3 = match &tls.protocol {
            Secured::Tls | Secured::Https(_) | Secured::Quic => None,
            Secured::Https3(https) => {
                let bounded = BoundedConnection::new(connection.clone(), STREAM_OCTETS);
                let built = h3::client::builder()
                    .max_field_section_size(u64::from(HEADER_OCTETS))
                    .build(bounded)
                    .await;
                let (mut driver, sender) = built.map_err(lost)?;
                // A query notices by itself when the connection has ended.
                let driving = async move { drop(poll_fn(|cx| driver.poll_close(cx)).await) };
                route.tasks.starter().start(driving);
                Some((sender, Arc::clone(https)))
            }
        };
        Ok(Self { connection, http3 })
    }

    /// Whether it accepts one more query, as far as is known.
    pub(super) fn is_open(&self) -> bool {
        self.connection.close_reason().is_none()
    }

    /// Sends a query and receives its reply.
    pub(super) async fn exchange(&mut self, query: &Message, id: u16) -> io::Result<Response> {
        let Some((sender, https)) = &mut self.http3 else {
            let (mut send, mut receive) = self.connection.open_bi().await.map_err(lost)?;
            // The ID is 0 (RFC 9250 section 4.2.1).
            stream::write(&mut send, &query.without_id()).await?;
            send.finish().map_err(lost)?;
            let response = stream::read(&mut receive, 0).await?;
            return Ok(Response { id, ..response });
        };
        let (head, body) = https.request(query, &https.absolute_form)?.into_parts();
        let request = Request::from_parts(head, ());
        let mut exchange = sender.send_request(request).await.map_err(lost)?;
        if !body.is_empty() {
            exchange.send_data(body).await.map_err(lost)?;
        }
        exchange.finish().await.map_err(lost)?;
        check_status(exchange.recv_response().await.map_err(lost)?.status())?;
        let mut octets = Vec::new();
        while let Some(mut data) = exchange.recv_data().await.map_err(lost)? {
            octets.extend_from_slice(&data.copy_to_bytes(data.remaining()));
        }
        decode(&octets, id)
    }
}

/// Shakes hands with an upstream.
async fn connect(route: &Route, tls: &UpstreamTls) -> io::Result<Connection> {
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(ONE_WAY_STREAMS))
        .stream_receive_window(VarInt::from_u32(WINDOWS[0]))
        .receive_window(VarInt::from_u32(WINDOWS[1]))
        .datagram_receive_buffer_size(None);
    let crypto = QuicClientConfig::try_from(Arc::clone(&tls.config)).map_err(io::Error::other)?;
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(Arc::new(transport));
    let endpoint = Endpoint::new(
        EndpointConfig::default(),
        None,
        UdpSocket::bind(route.local_address())?,
        Arc::new(route.tasks.starter()),
    )?;
    let connecting = endpoint.connect_with(config, route.address, &tls.name.to_str());
    Ok(connecting.map_err(io::Error::other)?.await?)
}

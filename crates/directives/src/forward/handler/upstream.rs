//! One upstream: its connections, its health, and how it is asked.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dns::{Rcode, Response};
use ops::HandlerMetrics;
use prometheus_client::metrics::counter::Counter;
use rustls::pki_types::ServerName;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use crate::forward::handler::connection::{Connection, Transport};
use crate::forward::handler::failure::{AskError, Way};
use crate::forward::handler::https::Https;
use crate::forward::handler::query::Message;
use crate::forward::handler::sockets::UpstreamSockets;

/// How long it may take to send a query.
const SEND_LIMIT: Duration = Duration::from_secs(2);
/// The shortest and the longest that opening a connection may take.
const DIAL_LIMITS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];
/// The longest that opening a connection over TLS may take: half of what a query has in all.
const TLS_LIMIT: Duration = Duration::from_millis(2500);
/// What a new measure of opening counts against those before.
const DIAL_WEIGHT: u64 = 4;

/// How an upstream is asked over TLS.
#[derive(Clone)]
pub struct UpstreamTls {
    /// Makes connections.
    pub connector: TlsConnector,
    /// The name in its certificate.
    pub name: ServerName<'static>,
    /// How queries are put, if it is asked over HTTPS.
    pub https: Option<Https>,
}

impl fmt::Debug for UpstreamTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UpstreamTls({:?})", self.name)
    }
}

/// One upstream.
#[derive(Debug)]
pub struct Upstream {
    /// Where it is.
    pub(super) address: SocketAddr,
    /// Its address as text.
    label: String,
    /// How it is asked over TLS, if it is.
    pub(super) tls: Option<UpstreamTls>,
    /// Our address towards it.
    pub(super) source: Option<IpAddr>,
    /// Connections that wait for the next query, the oldest first, by transport. Held to take one or to put
    /// one back.
    idle: [Mutex<VecDeque<Connection>>; 4],
    /// Failed health checks since it was well.
    fails: AtomicU32,
    /// Whether its health is being checked.
    is_checked: AtomicBool,
    /// What opening a connection takes on average, in microseconds.
    dial_micros: AtomicU64,
    /// How long a reply may take.
    read_timeout: Duration,
    /// How long an idle connection is kept.
    expire: Duration,
    /// How long a connection lives; 0 is without end.
    max_age: Duration,
    /// Idle connections of each kind; 0 is without limit.
    max_idle: usize,
    /// Connections used again, by transport.
    hits: [Counter; 4],
    /// Connections made, by transport.
    misses: [Counter; 4],
    /// How many sockets there may be, in the process.
    sockets: UpstreamSockets,
    /// What else is counted.
    metrics: HandlerMetrics,
}

impl Upstream {
    /// An upstream of a `forward`.
    #[must_use]
    pub fn new(
        address: SocketAddr,
        tls: Option<UpstreamTls>,
        config: &crate::config::Forward,
        metrics: &HandlerMetrics,
    ) -> Self {
        let label = address.to_string();
        let labels = |transport: Transport| {
            let mut labels = labels(&label);
            labels.push(("proto", transport.name().to_owned()));
            labels
        };
        let counter = |family: &prometheus_client::metrics::family::Family<_, Counter>| {
            Transport::ALL.map(|transport| family.get_or_create(&labels(transport)).clone())
        };
        let [shortest, longest] = DIAL_LIMITS;
        debug_assert!(shortest < longest);
        let half = u64::try_from((longest / 2).as_micros()).unwrap_or(u64::MAX);
        Self {
            address,
            tls,
            source: config.source_address,
            idle: Default::default(),
            fails: AtomicU32::new(0),
            is_checked: AtomicBool::new(false),
            dial_micros: AtomicU64::new(half),
            read_timeout: config.read_timeout,
            expire: config.expire,
            max_age: config.max_age,
            max_idle: config.max_idle_conns,
            hits: counter(&metrics.connection_hits),
            misses: counter(&metrics.connection_misses),
            sockets: UpstreamSockets::default(),
            metrics: metrics.clone(),
            label,
        }
    }

    /// The same, its sockets being some of these.
    #[must_use]
    pub fn with_sockets(mut self, sockets: &UpstreamSockets) -> Self {
        self.sockets = sockets.clone();
        self
    }

    /// Its address as text.
    pub(super) fn label(&self) -> &str {
        &self.label
    }

    /// Whether more checks failed than may; with 0 it is never down.
    pub(super) fn is_down(&self, max_fails: u32) -> bool {
        max_fails > 0 && self.fails.load(Ordering::Relaxed) > max_fails
    }

    /// Marks it as being checked; false when it is already.
    pub(super) fn begin_check(&self) -> bool {
        !self.is_checked.swap(true, Ordering::AcqRel)
    }

    /// Notes a failed check.
    pub(super) fn note_failed_check(&self) {
        let labels = labels(&self.label);
        self.metrics
            .healthcheck_failures
            .get_or_create(&labels)
            .inc();
        let more = |fails: u32| fails.checked_add(1);
        // At the end of the numbers it stays there.
        let _before = self
            .fails
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok();
    }

    /// Notes that it is well.
    pub(super) fn note_well(&self) {
        self.fails.store(0, Ordering::Relaxed);
        self.is_checked.store(false, Ordering::Release);
    }

    /// Notes how long a reply took.
    pub(super) fn observe(&self, took: Duration, rcode: Rcode) {
        let mut labels = labels(&self.label);
        labels.push(("rcode", rcode.to_string()));
        let seconds = self.metrics.proxy_seconds.get_or_create(&labels);
        seconds.observe(took.as_secs_f64());
    }

    /// Over what it is asked: without TLS as is wanted.
    pub(super) fn transport(&self, wanted: Transport) -> Transport {
        match &self.tls {
            None => wanted,
            Some(UpstreamTls { https: None, .. }) => Transport::Tls,
            Some(UpstreamTls { https: Some(_), .. }) => Transport::Https,
        }
    }

    /// Asks, over a connection that is kept if there is one.
    pub(super) async fn ask(
        &self,
        query: &mut Message,
        transport: Transport,
    ) -> Result<Response, AskError> {
        let transport = self.transport(transport);
        let mut connection = self.connection(transport).await?;
        let id = query.renew_id();
        let way = Way {
            transport,
            from: connection.local_address(),
            to: self.address,
        };
        let is_used = connection.is_used;
        match timeout(SEND_LIMIT, connection.send(query)).await {
            Err(_) => return Err(AskError::WriteTimeout(way)),
            Ok(Err(error)) if is_used && is_closed(transport, &error) => {
                return Err(AskError::ClosedBefore);
            }
            Ok(Err(error)) => return Err(AskError::Write(way, error)),
            Ok(Ok(())) => {}
        }
        match timeout(self.read_timeout, connection.receive(query, id)).await {
            Err(_) => Err(AskError::ReadTimeout(way)),
            Ok(Err(error)) if is_used && is_closed(transport, &error) => {
                Err(AskError::ClosedBefore)
            }
            Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => Err(AskError::Closed),
            Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
                Err(AskError::Malformed(error))
            }
            Ok(Err(error)) => Err(AskError::Read(way, error)),
            Ok(Ok(response)) => {
                self.keep(connection, transport);
                Ok(response)
            }
        }
    }

    /// A connection: the oldest of those that are kept, or a new one.
    async fn connection(&self, transport: Transport) -> Result<Connection, AskError> {
        let place = transport.place();
        if let Some(connection) = self.kept(place) {
            self.hits[place].inc();
            return Ok(connection);
        }
        let permit = self.sockets.take().ok_or(AskError::NoSocket)?;
        self.misses[place].inc();
        let began = Instant::now();
        let limit = match transport {
            Transport::Udp | Transport::Tcp => self.dial_limit(),
            Transport::Tls | Transport::Https => self.dial_limit().min(TLS_LIMIT),
        };
        let open = Connection::open(
            self.address,
            self.source,
            transport,
            self.tls.as_ref(),
            Some(permit),
        );
        let opened = timeout(limit, open).await;
        self.note_dial(began.elapsed());
        let way = Way {
            transport,
            from: None,
            to: self.address,
        };
        match opened {
            Err(_) => Err(AskError::DialTimeout(way)),
            Ok(Err(error)) => Err(AskError::Dial(way, error)),
            Ok(Ok(connection)) => Ok(connection),
        }
    }

    /// The oldest connection that is still good.
    fn kept(&self, place: usize) -> Option<Connection> {
        let mut idle = self.idle[place]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        while let Some(connection) = idle.pop_front() {
            if self.is_good(&connection) {
                return Some(connection);
            }
        }
        None
    }

    /// Whether a connection is neither idle nor alive for too long.
    fn is_good(&self, connection: &Connection) -> bool {
        connection.used.elapsed() <= self.expire
            && (self.max_age.is_zero() || connection.created.elapsed() <= self.max_age)
    }

    /// Puts a connection back, if it is still open and there is room.
    fn keep(&self, mut connection: Connection, transport: Transport) {
        if !connection.is_open() {
            return;
        }
        connection.used = Instant::now();
        connection.is_used = true;
        let mut idle = self.idle[transport.place()]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let has_room = self.max_idle == 0 || idle.len() < self.max_idle;
        if has_room && self.sockets.has_plenty() {
            idle.push_back(connection);
        }
    }

    /// Closes the connections that are no longer good.
    pub(super) fn close_old(&self) {
        for idle in &self.idle {
            let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.retain(|connection| self.is_good(connection));
        }
    }

    /// How long opening may take: twice what it takes on average, within limits.
    pub(super) fn dial_limit(&self) -> Duration {
        let [shortest, longest] = DIAL_LIMITS;
        let average = Duration::from_micros(self.dial_micros.load(Ordering::Relaxed));
        if average < shortest {
            shortest
        } else {
            (2 * average).min(longest)
        }
    }

    /// Moves the average towards what opening took.
    pub(super) fn note_dial(&self, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let before = self.dial_micros.load(Ordering::Relaxed);
        let after = before - before / DIAL_WEIGHT + took / DIAL_WEIGHT;
        self.dial_micros.store(after, Ordering::Relaxed);
    }
}

/// Whether an error says that the other side has closed a connection.
fn is_closed(transport: Transport, error: &io::Error) -> bool {
    let kinds = [
        io::ErrorKind::UnexpectedEof,
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::BrokenPipe,
    ];
    transport != Transport::Udp && kinds.contains(&error.kind())
}

/// The labels of an upstream.
fn labels(to: &str) -> Vec<(&'static str, String)> {
    vec![("proxy_name", "forward".to_owned()), ("to", to.to_owned())]
}

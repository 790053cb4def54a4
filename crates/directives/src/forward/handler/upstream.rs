//! One upstream: its connections, its health, and how it is asked.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dns::{Rcode, Response};
use ops::HandlerMetrics;
use prometheus_client::metrics::counter::Counter;
use server::OwnTasks;
use tokio::time::{Instant, timeout};

use crate::forward::handler::connection::Connection;
use crate::forward::handler::failure::{AskError, Way};
use crate::forward::handler::query::Message;
use crate::forward::handler::route::{Route, Transport, UpstreamTls};
use crate::forward::handler::sockets::UpstreamSockets;
use crate::forward::metrics as m;

/// How long it may take to send a query.
const SEND_LIMIT: Duration = Duration::from_secs(2);
/// The shortest and the longest that opening a connection may take.
const DIAL_LIMITS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];
/// The longest that opening a connection over TLS may take: half of what a query has in all.
const TLS_LIMIT: Duration = Duration::from_millis(2500);
/// What a new measure of opening counts against those before.
const DIAL_WEIGHT: u64 = 4;

/// One upstream.
#[derive(Debug)]
pub(crate) struct Upstream {
    /// How it is reached.
    pub(super) route: Route,
    /// Its address as text.
    label: String,
    /// Connections that take another query, the oldest first, by transport. Locked to take one or to put one back.
    kept: [Mutex<VecDeque<Connection>>; Transport::ALL.len()],
    /// Held while a connection opens that other queries may share.
    opening: tokio::sync::Mutex<()>,
    /// Whether a connection carries one query at a time, as far as is known.
    is_alone: AtomicBool,
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
    hits: [Counter; Transport::ALL.len()],
    /// Connections made, by transport.
    misses: [Counter; Transport::ALL.len()],
    /// How many sockets there may be, in the process.
    sockets: UpstreamSockets,
    /// What else is counted.
    metrics: HandlerMetrics,
}

impl Upstream {
    /// An upstream of a `forward`.
    #[must_use]
    pub(crate) fn new(
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
        let route = Route {
            address,
            source: config.source_address,
            tls,
            tasks: OwnTasks::default(),
        };
        let may_share = match route.transport(Transport::Udp) {
            Transport::Udp | Transport::Tcp | Transport::Tls => false,
            Transport::Https | Transport::Https3 | Transport::Quic => true,
        };
        Self {
            route,
            kept: Default::default(),
            opening: tokio::sync::Mutex::default(),
            is_alone: AtomicBool::new(!may_share),
            fails: AtomicU32::new(0),
            is_checked: AtomicBool::new(false),
            dial_micros: AtomicU64::new(half),
            read_timeout: config.read_timeout,
            expire: config.expire,
            max_age: config.max_age,
            max_idle: config.max_idle_conns,
            hits: counter(&metrics.counter(m::PROXY_CONNECTION_HITS)),
            misses: counter(&metrics.counter(m::PROXY_CONNECTION_MISSES)),
            sockets: UpstreamSockets::default(),
            metrics: metrics.clone(),
            label,
        }
    }

    /// The same, its sockets being some of these.
    #[must_use]
    pub(crate) fn with_sockets(mut self, sockets: &UpstreamSockets) -> Self {
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
            .counter(m::PROXY_HEALTHCHECK_FAILURES)
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
        let seconds = self.metrics.histogram(m::PROXY_SECONDS);
        seconds.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// Asks, over a connection that is open if there is one.
    pub(super) async fn ask(
        &self,
        query: &mut Message,
        transport: Transport,
    ) -> Result<Response, AskError> {
        let transport = self.route.transport(transport);
        let mut connection = self.connection(transport).await?;
        let exchanged = self.exchange(&mut connection, query, transport).await;
        match &exchanged {
            Ok(_) => self.keep(connection, transport),
            Err(_) => self.give_up(&connection, transport),
        }
        exchanged
    }

    /// Sends a query and takes its reply.
    async fn exchange(
        &self,
        connection: &mut Connection,
        query: &mut Message,
        transport: Transport,
    ) -> Result<Response, AskError> {
        let id = query.renew_id();
        let way = Way {
            transport,
            from: connection.local_address(),
            to: self.route.address,
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
            Ok(Ok(response)) => Ok(response),
        }
    }

    /// A connection: the oldest of those that are kept, or a new one.
    async fn connection(&self, transport: Transport) -> Result<Connection, AskError> {
        if let Some(connection) = self.take(transport) {
            return Ok(connection);
        }
        let limit = if transport.is_encrypted() {
            self.dial_limit().min(TLS_LIMIT)
        } else {
            self.dial_limit()
        };
        let way = Way {
            transport,
            from: None,
            to: self.route.address,
        };
        let Ok(opened) = timeout(limit, self.open(way)).await else {
            self.note_dial(limit);
            return Err(AskError::DialTimeout(way));
        };
        opened
    }

    /// Opens a connection. Where queries may share one, the first query opens it and the others wait.
    async fn open(&self, way: Way) -> Result<Connection, AskError> {
        let transport = way.transport;
        let is_alone = self.is_alone.load(Ordering::Relaxed);
        let _turn = if is_alone {
            None
        } else {
            let turn = self.opening.lock().await;
            if let Some(connection) = self.take(transport) {
                return Ok(connection);
            }
            Some(turn)
        };
        let permit = self.sockets.take().ok_or(AskError::NoSocket)?;
        self.misses[transport.place()].inc();
        let began = Instant::now();
        let opened = Connection::open(&self.route, transport, Some(permit)).await;
        self.note_dial(began.elapsed());
        let connection = opened.map_err(|error| AskError::Dial(way, error))?;
        match connection.share() {
            Some(shared) => self.put(shared, &mut self.kept(transport)),
            None => self.is_alone.store(true, Ordering::Relaxed),
        }
        Ok(connection)
    }

    /// The oldest connection that is still good and takes another query.
    fn take(&self, transport: Transport) -> Option<Connection> {
        let mut kept = self.kept(transport);
        let mut place = 0;
        while let Some(connection) = kept.get(place) {
            if !self.is_good(connection) {
                kept.remove(place);
                continue;
            }
            if !connection.is_full() {
                self.hits[transport.place()].inc();
                return connection.share().or_else(|| kept.remove(place));
            }
            place += 1;
        }
        None
    }

    /// The connections that are kept.
    fn kept(&self, transport: Transport) -> MutexGuard<'_, VecDeque<Connection>> {
        let kept = self.kept[transport.place()].lock();
        kept.unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a connection is open, and neither idle nor alive for too long.
    fn is_good(&self, connection: &Connection) -> bool {
        connection.is_open()
            && connection.used.elapsed() <= self.expire
            && (self.max_age.is_zero() || connection.created.elapsed() <= self.max_age)
    }

    /// Keeps a connection after a reply.
    fn keep(&self, mut connection: Connection, transport: Transport) {
        connection.used = Instant::now();
        connection.is_used = true;
        let mut kept = self.kept(transport);
        let is_shared = connection.is_shared();
        match kept.iter_mut().find(|it| is_shared && it.is(&connection)) {
            Some(shared) => *shared = connection,
            None => self.put(connection, &mut kept),
        }
    }

    /// Puts a connection where the next query takes it, if it is still open and there is room.
    fn put(&self, connection: Connection, kept: &mut VecDeque<Connection>) {
        let has_room = self.max_idle == 0 || kept.len() < self.max_idle;
        if has_room && connection.is_open() && self.sockets.has_plenty() {
            kept.push_back(connection);
        }
    }

    /// Gives no further query to a connection: those that wait for its replies go on.
    fn give_up(&self, connection: &Connection, transport: Transport) {
        self.kept(transport).retain(|it| !it.is(connection));
    }

    /// Closes the connections that are no longer good.
    pub(super) fn close_old(&self) {
        for transport in Transport::ALL {
            self.kept(transport).retain(|it| self.is_good(it));
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
        io::ErrorKind::NotConnected,
        io::ErrorKind::BrokenPipe,
    ];
    transport != Transport::Udp && kinds.contains(&error.kind())
}

/// The labels of an upstream.
fn labels(to: &str) -> Vec<(&'static str, String)> {
    vec![("proxy_name", "forward".to_owned()), ("to", to.to_owned())]
}

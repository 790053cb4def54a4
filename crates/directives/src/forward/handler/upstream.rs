//! One upstream: its connections, its health, and queries to it.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dns::{Rcode, Response};
use ops::HandlerMetrics;
use prometheus_client::metrics::counter::Counter;
use server::{OwnTasks, Proto};
use tokio::time::{Instant, timeout};

use crate::forward::handler::connection::Connection;
use crate::forward::handler::failure::{AskError, Way};
use crate::forward::handler::https::is_reply;
use crate::forward::handler::query::Message;
use crate::forward::handler::route::{Route, UpstreamTls};
use crate::forward::handler::sockets::UpstreamSockets;
use crate::forward::metrics as m;

/// The time limit for sending a query.
const SEND_LIMIT: Duration = Duration::from_secs(2);
/// The shortest and the longest time limit for opening a connection.
const DIAL_LIMITS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];
/// The longest time for opening a connection over TLS: half of a query's budget.
const TLS_LIMIT: Duration = Duration::from_millis(2500);
/// The weight of the older measures against a new one, in the average time for opening.
const DIAL_WEIGHT: u64 = 4;

#[derive(Debug)]
pub(crate) struct Upstream {
    pub(super) route: Route,
    /// Its address as text, for labels.
    label: String,
    /// Connections that take another query, the oldest first, by transport: idle ones, and those that queries share.
    /// Locked to take one or to put one back.
    kept: [Mutex<VecDeque<Connection>>; Proto::ALL.len()],
    /// Held while a connection opens that other queries may share.
    opening: tokio::sync::Mutex<()>,
    /// Whether a connection carries only one query at a time, as far as is known.
    is_alone: AtomicBool,
    /// Failed health checks since its last success.
    fails: AtomicU32,
    /// Whether its health is being checked.
    is_checked: AtomicBool,
    /// The average time for opening a connection, in microseconds.
    dial_micros: AtomicU64,
    /// The time limit for a reply.
    read_timeout: Duration,
    /// The time after which an idle connection is closed.
    expire: Duration,
    /// The longest life of a connection; 0 is no limit.
    max_age: Duration,
    /// The most idle connections of each transport; 0 is no limit.
    max_idle: usize,
    /// Reused connections, by transport.
    hits: [Counter; Proto::ALL.len()],
    /// Opened connections, by transport.
    misses: [Counter; Proto::ALL.len()],
    sockets: UpstreamSockets,
    /// The other metrics.
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
        let labels = |transport: Proto| {
            let mut labels = labels(&label);
            let name = if transport == Proto::Tls {
                "tcp-tls"
            } else {
                transport.name()
            };
            labels.push(("proto", name.to_owned()));
            labels
        };
        let counter = |family: &prometheus_client::metrics::family::Family<_, Counter>| {
            Proto::ALL.map(|(transport, _)| family.get_or_create(&labels(transport)).clone())
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
        let may_share = match route.transport(Proto::Udp) {
            Proto::Udp | Proto::Tcp | Proto::Tls => false,
            Proto::Https | Proto::Https3 | Proto::Quic => true,
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

    /// The same upstream, with its sockets counted here.
    #[must_use]
    pub(crate) fn with_sockets(mut self, sockets: &UpstreamSockets) -> Self {
        self.sockets = sockets.clone();
        self
    }

    /// Its address as text.
    pub(super) fn label(&self) -> &str {
        &self.label
    }

    /// Whether more checks failed than `max_fails`. With 0 it is never down.
    pub(super) fn is_down(&self, max_fails: u32) -> bool {
        max_fails > 0 && self.fails.load(Ordering::Relaxed) > max_fails
    }

    /// Marks its health as being checked; false if it is already.
    pub(super) fn begin_check(&self) -> bool {
        !self.is_checked.swap(true, Ordering::AcqRel)
    }

    pub(super) fn note_failed_check(&self) {
        let labels = labels(&self.label);
        self.metrics
            .counter(m::PROXY_HEALTHCHECK_FAILURES)
            .get_or_create(&labels)
            .inc();
        let more = |fails: u32| fails.checked_add(1);
        // At its largest number the count stays.
        let _before = self
            .fails
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok();
    }

    pub(super) fn note_well(&self) {
        self.fails.store(0, Ordering::Relaxed);
        self.is_checked.store(false, Ordering::Release);
    }

    /// Measures the time of a reply.
    pub(super) fn observe(&self, took: Duration, rcode: Rcode) {
        let mut labels = labels(&self.label);
        labels.push(("rcode", rcode.to_string()));
        let seconds = self.metrics.histogram(m::PROXY_SECONDS);
        seconds.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// Sends a query, over an open connection if there is one.
    pub(super) async fn ask(
        &self,
        query: &mut Message,
        transport: Proto,
    ) -> Result<Response, AskError> {
        let transport = self.route.transport(transport);
        let mut connection = self.connection(transport).await?;
        let id = query.renew_id();
        let way = Way {
            transport,
            from: connection.local_address(),
            to: self.route.address,
        };
        // A connection that queries share is not good any more when it was silent for as long as a reply may take.
        match timeout(SEND_LIMIT, connection.send(query)).await {
            Err(_) => return Err(AskError::WriteTimeout(way)),
            Ok(Err(error)) => return Err(self.fault(connection, way, error, AskError::Write)),
            Ok(Ok(())) => {}
        }
        match timeout(self.read_timeout, connection.receive(query, id)).await {
            Err(_) => Err(AskError::ReadTimeout(way)),
            Ok(Err(error)) => Err(self.fault(connection, way, error, AskError::of_reading)),
            Ok(Ok(response)) => {
                self.keep(connection, transport);
                Ok(response)
            }
        }
    }

    /// The error for the query, made by `words`. Gives up the connection, unless the fault is of this query alone.
    fn fault(
        &self,
        connection: Connection,
        way: Way,
        error: io::Error,
        words: fn(Way, io::Error) -> AskError,
    ) -> AskError {
        if connection.is_shareable() && is_reply(&error) {
            self.keep(connection, way.transport);
        } else if self.give_up(&connection, way.transport)
            && connection.is_used
            && is_closed(way.transport, &error)
        {
            return AskError::ClosedBefore;
        }
        words(way, error)
    }

    /// A connection: the oldest one that can be reused, or a new one.
    pub(super) async fn connection(&self, transport: Proto) -> Result<Connection, AskError> {
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
        let is_alone = || self.is_alone.load(Ordering::Relaxed);
        let mut turn = None;
        if !is_alone() {
            let waited = self.opening.lock().await;
            if let Some(connection) = self.take(transport) {
                return Ok(connection);
            }
            // The one that opened meanwhile may show that queries share none.
            turn = Some(waited).filter(|_| !is_alone());
        }
        let permit = self.sockets.take().ok_or(AskError::NoSocket)?;
        self.misses[transport as usize].inc();
        let began = Instant::now();
        let opened = Connection::open(&self.route, transport, Some(permit)).await;
        self.note_dial(began.elapsed());
        let mut connection = opened.map_err(|error| AskError::Dial(way, error))?;
        let shared = connection.share();
        self.is_alone.store(shared.is_none(), Ordering::Relaxed);
        self.kept(transport).extend(shared);
        drop(turn);
        Ok(connection)
    }

    /// The oldest reusable connection that is still good.
    fn take(&self, transport: Proto) -> Option<Connection> {
        if transport == Proto::Udp {
            return None;
        }
        let mut kept = self.kept(transport);
        let mut place = 0;
        while let Some(connection) = kept.get_mut(place) {
            if !self.is_good(connection) {
                kept.remove(place);
                continue;
            }
            if !connection.is_full() {
                self.hits[transport as usize].inc();
                return connection.share().or_else(|| kept.remove(place));
            }
            place += 1;
        }
        None
    }

    fn kept(&self, transport: Proto) -> MutexGuard<'_, VecDeque<Connection>> {
        let kept = self.kept[transport as usize].lock();
        kept.unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a connection is open, and neither idle nor silent nor alive for too long.
    fn is_good(&self, connection: &Connection) -> bool {
        let silent_since = connection.silent_since;
        connection.is_open()
            && connection.used.elapsed() <= self.expire
            && silent_since.is_none_or(|since| since.elapsed() < self.read_timeout)
            && (self.max_age.is_zero() || connection.created.elapsed() <= self.max_age)
    }

    /// Puts a connection back after a reply. A shared connection is there already, unless it was given up. A UDP socket is
    /// not used again: each query leaves from a port that nobody can guess (RFC 5452 section 9.2).
    pub(super) fn keep(&self, mut connection: Connection, transport: Proto) {
        if transport == Proto::Udp {
            return;
        }
        let mut kept = self.kept(transport);
        if connection.is_shareable() {
            if let Some(shared) = kept.iter_mut().find(|it| it.is(&connection)) {
                shared.note_reply();
            }
            return;
        }
        connection.note_reply();
        let idle =
            |kept: &VecDeque<Connection>| kept.iter().filter(|it| !it.is_shareable()).count();
        let has_room = self.max_idle == 0 || idle(&kept) < self.max_idle;
        if has_room && connection.is_open() && self.sockets.has_plenty() {
            kept.push_back(connection);
        }
    }

    /// Gives no further query to a connection on which a query failed. Queries that wait for its replies continue. An open
    /// connection with a reply since that query was sent is good: false.
    pub(super) fn give_up(&self, connection: &Connection, transport: Proto) -> bool {
        if !connection.is_shareable() {
            return true;
        }
        let mut kept = self.kept(transport);
        let place = kept.iter().position(|it| it.is(connection));
        let replied = place.is_some_and(|place| kept[place].used > connection.taken);
        let is_good = replied && connection.is_open();
        if let Some(place) = place.filter(|_| !is_good) {
            kept.remove(place);
        }
        !is_good
    }

    /// Closes the connections that are idle or too old.
    pub(super) fn close_old(&self) {
        for (transport, _) in Proto::ALL {
            self.kept(transport).retain(|it| self.is_good(it));
        }
    }

    /// The time limit for opening: twice the average, within limits.
    pub(super) fn dial_limit(&self) -> Duration {
        let [shortest, longest] = DIAL_LIMITS;
        let average = Duration::from_micros(self.dial_micros.load(Ordering::Relaxed));
        if average < shortest {
            shortest
        } else {
            (2 * average).min(longest)
        }
    }

    /// Moves the average towards a new measure.
    pub(super) fn note_dial(&self, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let before = self.dial_micros.load(Ordering::Relaxed);
        let after = before - before / DIAL_WEIGHT + took / DIAL_WEIGHT;
        self.dial_micros.store(after, Ordering::Relaxed);
    }
}

/// Whether an error says that the other side has closed a connection.
fn is_closed(transport: Proto, error: &io::Error) -> bool {
    let kinds = [
        io::ErrorKind::UnexpectedEof,
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::NotConnected,
        io::ErrorKind::BrokenPipe,
    ];
    transport != Proto::Udp && kinds.contains(&error.kind())
}

fn labels(to: &str) -> Vec<(&'static str, String)> {
    vec![("proxy_name", "forward".to_owned()), ("to", to.to_owned())]
}

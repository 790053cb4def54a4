//! `forward`: sends queries for other names to other servers.
//!
//! A query has five seconds in all. Upstreams are tried in the order of the policy. If one fails, its health is checked
//! in the background until it answers. After enough failed checks it is skipped. When all are down, one of them is
//! tried anyway: then the checks are more likely wrong than all upstreams.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dns::{Rcode, Response, Rtype, flags, wire_is_within};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ops::HandlerMetrics;
use ops::metrics::Metric;
use server::Proto;
use server::chain::{Handler, Next};
use server::message::{Outcome, Question, Reply, Request};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::config::ForwardPolicy;
use crate::forward::metrics as m;

mod connection;
mod failure;
mod flights;
mod health;
mod https;
mod query;
mod quic;
mod resolve;
mod route;
pub(crate) mod sockets;
mod stream;
mod upstream;

pub(crate) use failure::AskError;
pub(crate) use https::Https;
pub use query::random_id;
pub(crate) use resolve::resolve;
pub(crate) use route::{Secured, UpstreamTls};
pub use sockets::UpstreamSockets;
pub(crate) use upstream::Upstream;

use self::flights::Flights;
use self::query::{Message, message};

/// The time limit of a query in all.
const BUDGET: Duration = Duration::from_secs(5);
const WORD: &str = "forward";
/// The metadata of the upstream that was asked.
const UPSTREAM: &str = "forward/upstream";

pub(crate) struct ForwardHandler {
    config: crate::config::Forward,
    upstreams: Vec<Arc<Upstream>>,
    /// Whether another `forward` is the next handler.
    has_next: bool,
    /// The place of the upstream that the next query begins with.
    turn: AtomicU32,
    /// Queries that wait for a reply.
    waiting: AtomicUsize,
    /// Queries to upstreams that are under way. The result names the upstream that was asked last.
    flights: Flights<(Asked, Option<String>)>,
    /// The places of upstreams whose health is to be checked.
    ill: mpsc::Sender<usize>,
    /// The queue's other end, until the background task takes it.
    ill_places: Mutex<Option<mpsc::Receiver<usize>>>,
    metrics: HandlerMetrics,
}

/// Counts a query while it lives.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Starts a check of an upstream when the query for it is dropped without a result.
struct Unanswered<'a> {
    handler: &'a ForwardHandler,
    number: usize,
    has_result: bool,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if !self.has_result {
            self.handler.check(self.number);
        }
    }
}

/// The result of asking upstreams.
#[derive(Debug, Clone)]
enum Asked {
    /// This is the outcome.
    Outcome(Outcome),
    /// The next `forward` is asked.
    Next,
}

impl ForwardHandler {
    /// `has_next` says whether another `forward` follows in the block.
    pub(crate) fn new(
        config: crate::config::Forward,
        upstreams: Vec<Upstream>,
        has_next: bool,
        metrics: &HandlerMetrics,
    ) -> Self {
        let upstreams: Vec<_> = upstreams.into_iter().map(Arc::new).collect();
        let (ill, places) = mpsc::channel(upstreams.len().max(1));
        Self {
            config,
            upstreams,
            has_next,
            turn: AtomicU32::new(0),
            waiting: AtomicUsize::new(0),
            flights: Flights::default(),
            ill,
            ill_places: Mutex::new(Some(places)),
            metrics: metrics.clone(),
        }
    }

    fn count(&self, metric: Metric) {
        let counter = self.metrics.counter(metric);
        counter.get_or_create(&Vec::new()).inc();
    }

    /// Whether a name in lower case is forwarded.
    fn takes(&self, lower: &[u8]) -> bool {
        let from = self.config.from.as_wire();
        let mut except = self.config.except.iter();
        wire_is_within(lower, from)
            && (lower == from || !except.any(|zone| wire_is_within(lower, zone.as_wire())))
    }

    /// The upstreams in the order of the policy, as places.
    fn order(&self) -> Vec<usize> {
        let count = self.upstreams.len();
        let mut order: Vec<usize> = (0..count).collect();
        match self.config.policy {
            ForwardPolicy::Sequential => {}
            ForwardPolicy::RoundRobin => {
                let turn = self.turn.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
                let first = usize::try_from(turn).unwrap_or(0) % count.max(1);
                order[..=first].rotate_right(1);
            }
            ForwardPolicy::Random => {
                for left in (1..count).rev() {
                    order.swap(left, below(left + 1));
                }
            }
        }
        order
    }

    /// Asks upstreams until there is a reply, or the time, the attempts or the upstreams run out.
    async fn ask(&self, request: &mut Request, query: &mut Message, end: Instant) -> Asked {
        let order = self.order();
        let most = self
            .config
            .max_connect_attempts
            .map_or(2 * order.len(), |most| {
                usize::try_from(most).unwrap_or(usize::MAX)
            });
        let (mut place, mut down, mut attempts, mut failovers) = (0, 0, 0, 0);
        let mut error = None;
        while Instant::now() < end && (most == 0 || attempts < most) {
            if place == order.len() {
                (place, down) = (0, 0);
            }
            let mut number = order[place];
            place += 1;
            if self.upstreams[number].is_down(self.config.max_fails) {
                down += 1;
                if down < order.len() {
                    continue;
                }
                self.count(m::FORWARD_HEALTHCHECK_BROKEN);
                if self.config.failfast {
                    break;
                }
                number = below(order.len());
            }
            // `cancel` and a client that goes end this at once.
            let mut unanswered = Unanswered {
                handler: self,
                number,
                has_result: false,
            };
            let asked = timeout_at(end, self.ask_one(number, request, query)).await;
            unanswered.has_result = true;
            let Ok(asked) = asked else {
                // The time left was too short to blame this upstream.
                error = Some(AskError::OutOfTime(BUDGET));
                break;
            };
            match asked {
                Ok(response) if !is_reply_to(&response, request) => {
                    let reply = Reply::empty(WORD, Rcode::FORMERR, 0);
                    return Asked::Outcome(Outcome::Reply(reply));
                }
                Ok(response) => {
                    failovers += usize::from(self.config.failover.contains(&response.rcode));
                    let fails = self.config.failover.contains(&response.rcode);
                    if !fails || failovers >= order.len() {
                        return self.said(response);
                    }
                }
                // The upstream is not to blame.
                Err(why @ AskError::NoSocket) => {
                    error = Some(why);
                    break;
                }
                Err(why) => {
                    self.check(number);
                    error = Some(why);
                    attempts += 1;
                    if down >= order.len() {
                        break;
                    }
                }
            }
        }
        let error = error.map_or_else(|| "no healthy proxies".to_owned(), |it| it.to_string());
        Asked::Outcome(Outcome::failed(WORD, Rcode::SERVFAIL, error))
    }

    /// Asks one upstream. If a reused connection was closed meanwhile, that does not count. With `prefer_udp`, a
    /// truncated reply is asked for again over TCP.
    async fn ask_one(
        &self,
        number: usize,
        request: &mut Request,
        query: &mut Message,
    ) -> Result<Response, AskError> {
        let upstream = &self.upstreams[number];
        let label = upstream.label().to_owned();
        request.metadata.insert(UPSTREAM.into(), label);
        let mut transport = self.transport(request);
        loop {
            let began = Instant::now();
            let said = upstream.ask(query, transport).await;
            match said {
                Err(AskError::ClosedBefore) => {}
                Err(error) => return Err(error),
                Ok(response) => {
                    upstream.observe(began.elapsed(), response.rcode);
                    let is_cut = response.flags & flags::TC != 0;
                    if !(is_cut && self.config.prefer_udp && transport == Proto::Udp) {
                        return Ok(response);
                    }
                    transport = Proto::Tcp;
                }
            }
        }
    }

    /// The transport of a client's question to the first upstream. A client over HTTP/3 or QUIC takes the largest message,
    /// and cannot ask again over TCP.
    const fn transport(&self, request: &Request) -> Proto {
        let is_stream = request.origin.proto.is_stream();
        if self.config.force_tcp || !self.config.prefer_udp && is_stream {
            Proto::Tcp
        } else {
            Proto::Udp
        }
    }

    /// The outcome of a reply.
    fn said(&self, response: Response) -> Asked {
        let Response {
            flags,
            rcode,
            sections: [answers, authority, additional],
            extended,
            id: _,
            question: _,
        } = response;
        let is_for_next = self.config.next.contains(&rcode)
            || self.config.next_on_nodata && rcode == Rcode::NOERROR && answers.is_empty();
        if self.has_next && is_for_next {
            return Asked::Next;
        }
        let kept = flags::AA | flags::TC | flags::RA | flags::AD | flags::CD;
        Asked::Outcome(Outcome::Reply(Reply {
            rcode,
            flags: flags & kept,
            recursion_desired: None,
            answers,
            authority,
            additional,
            extended,
            by: WORD,
        }))
    }

    /// Starts a check of an upstream's health, unless one runs or `max_fails` is 0.
    fn check(&self, number: usize) {
        if self.config.max_fails > 0 && self.upstreams[number].begin_check() {
            // The queue has room for each upstream once. Without the background task nothing is checked.
            let _told = self.ill.try_send(number).is_ok();
        }
    }

    /// Answers a query for a name that is forwarded.
    async fn answer_ours(&self, request: &mut Request, next: Next) -> Outcome {
        let most = self.config.max_concurrent;
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = Waiting(&self.waiting);
        if most > 0 && before >= most {
            self.count(m::FORWARD_CONCURRENT_REJECTS);
            let error = format!("concurrent queries exceeded maximum {most}");
            return Outcome::failed(WORD, Rcode::REFUSED, error);
        }
        let most_octets = next.block().shape.datagram_octets;
        let mut query = message(request, most_octets, &self.config);
        let mut key = query.key();
        key.push(self.transport(request) as u8);
        let end = Instant::now() + BUDGET;
        // The question of `loop` would wait for itself.
        let goes_round = request.qtype == Rtype::HINFO;
        let asking = async {
            let asked = self.ask(request, &mut query, end).await;
            (asked, request.metadata.get(UPSTREAM).cloned())
        };
        let (asked, upstream) = if goes_round {
            asking.await
        } else {
            self.flights.join(&key, asking).await
        };
        if let Some(upstream) = upstream {
            request.metadata.insert(UPSTREAM.into(), upstream);
        }
        match asked {
            Asked::Outcome(outcome) => outcome,
            Asked::Next => {
                let outcome = next.run(request).await;
                drop(waiting);
                outcome
            }
        }
    }
}

/// A random number below `count`, which must not be 0.
fn below(count: usize) -> usize {
    usize::from(random_id()) % count
}

/// Whether a response answers this question (RFC 5452 section 9.1).
fn is_reply_to(response: &Response, request: &Request) -> bool {
    let question = response.question.as_ref();
    response.flags & flags::QR != 0
        && question.is_some_and(|(name, qtype, class)| {
            *name == request.name && *qtype == request.qtype && *class == request.qclass
        })
}

impl Handler for ForwardHandler {
    fn name(&self) -> &'static str {
        WORD
    }

    fn passes(&self, question: &Question<'_>) -> bool {
        !self.takes(question.name)
    }

    fn takes_all_classes(&self) -> bool {
        true
    }

    fn same_as(&self, new: &dyn Handler) -> bool {
        let Some(new) = (new as &dyn Any).downcast_ref::<Self>() else {
            return false;
        };
        // Files and names may have changed, so the resulting targets are compared. Certificates count as changed.
        let config = crate::config::Forward {
            place: new.config.place.clone(),
            targets: new.config.targets.clone(),
            ..self.config.clone()
        };
        let addresses = |of: &Self| -> Vec<SocketAddr> {
            let upstreams = of.upstreams.iter();
            upstreams.map(|upstream| upstream.route.address).collect()
        };
        let is_tls = self
            .upstreams
            .iter()
            .any(|upstream| upstream.route.tls.is_some());
        !is_tls
            && config == new.config
            && self.has_next == new.has_next
            && addresses(self) == addresses(new)
    }

    fn answer<'a>(&'a self, request: &'a mut Request, next: Next) -> BoxFuture<'a, Outcome> {
        let is_transfer = matches!(request.qtype, Rtype::AXFR | Rtype::IXFR);
        if is_transfer || !self.takes(request.name.to_lower().as_wire()) {
            return next.run(request);
        }
        self.answer_ours(request, next).boxed()
    }

    fn background(self: Arc<Self>, cancel: CancellationToken) -> Option<BoxFuture<'static, ()>> {
        let places = &self.ill_places;
        let places = places
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()?;
        Some(self.look_after(places, cancel).boxed())
    }
}

#[cfg(test)]
mod tests;

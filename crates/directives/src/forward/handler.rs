//! `forward`: names that are not ours are asked of other servers.
//!
//! A query has five seconds in all. Upstreams are tried in the order of the policy; one that fails has its
//! health checked in the background until it answers, and is passed over once enough checks failed. When
//! all are down one of them is tried all the same: then it is likely that the checks are what is wrong.

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
use server::chain::{Handler, Next};
use server::message::{Outcome, Question, Reply, Request};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::config::ForwardPolicy;
use crate::forward::metrics as m;

mod connection;
mod failure;
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

use self::query::message;
use self::route::Transport;

/// How long a query has in all.
const BUDGET: Duration = Duration::from_secs(5);
/// The handler's word.
const WORD: &str = "forward";

/// The handler of one `forward`.
pub(crate) struct ForwardHandler {
    /// What the Corefile says.
    config: crate::config::Forward,
    /// Who is asked.
    upstreams: Vec<Arc<Upstream>>,
    /// Whether another `forward` is the next handler.
    has_next: bool,
    /// Where the next round begins.
    turn: AtomicU32,
    /// Queries that wait for a reply.
    waiting: AtomicUsize,
    /// Takes the places of upstreams whose health is to be checked.
    ill: mpsc::Sender<usize>,
    /// Gives them, until the background takes it.
    ill_places: Mutex<Option<mpsc::Receiver<usize>>>,
    /// What is counted.
    metrics: HandlerMetrics,
}

/// Counts a query as long as it lives.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What came of asking.
enum Asked {
    /// This is the outcome.
    Outcome(Outcome),
    /// The next `forward` is asked.
    Next,
}

impl ForwardHandler {
    /// The handler; `has_next` says whether another `forward` follows in the block.
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
            ill,
            ill_places: Mutex::new(Some(places)),
            metrics: metrics.clone(),
        }
    }

    /// Counts one more.
    fn count(&self, metric: Metric) {
        let counter = self.metrics.counter(metric);
        counter.get_or_create(&Vec::new()).inc();
    }

    /// Whether a name, lower-case wire form, is forwarded.
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

    /// Asks until there is a reply, or time, attempts or upstreams are used up.
    async fn ask(&self, request: &mut Request, most_octets: Option<u16>) -> Asked {
        let order = self.order();
        let end = Instant::now() + BUDGET;
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
            let asking = self.ask_one(number, request, most_octets);
            let Ok(asked) = timeout_at(end, asking).await else {
                // What is left of the time is too short for a fault to be this upstream's.
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
                // No fault of the upstream.
                Err(why @ AskError::NoSocket) => {
                    error = Some(why);
                    break;
                }
                Err(why) => {
                    if self.config.max_fails > 0 {
                        self.check(number);
                    }
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

    /// Asks one upstream. A connection that was kept and is closed by now does not count, and with
    /// `prefer_udp` a truncated reply is asked for again over TCP.
    async fn ask_one(
        &self,
        number: usize,
        request: &mut Request,
        most_octets: Option<u16>,
    ) -> Result<Response, AskError> {
        let upstream = &self.upstreams[number];
        let label = upstream.label().to_owned();
        request.metadata.insert("forward/upstream".into(), label);
        // A client over HTTP/3 or QUIC takes the largest message, and has no other way to ask for the rest.
        let is_stream =
            self.config.force_tcp || !self.config.prefer_udp && request.origin.proto.is_stream();
        let mut transport = if is_stream {
            Transport::Tcp
        } else {
            Transport::Udp
        };
        let mut query = message(request, most_octets);
        loop {
            let began = Instant::now();
            let said = upstream.ask(&mut query, transport).await;
            match said {
                Err(AskError::ClosedBefore) => {}
                Err(error) => return Err(error),
                Ok(response) => {
                    upstream.observe(began.elapsed(), response.rcode);
                    let is_cut = response.flags & flags::TC != 0;
                    if !(is_cut && self.config.prefer_udp && transport == Transport::Udp) {
                        return Ok(response);
                    }
                    transport = Transport::Tcp;
                }
            }
        }
    }

    /// What becomes of a reply.
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
            answers,
            authority,
            additional,
            extended,
            by: WORD,
        }))
    }

    /// Has the health of an upstream checked, unless it is.
    fn check(&self, number: usize) {
        if self.upstreams[number].begin_check() {
            // There is room for each upstream once; without background nothing is checked.
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
        let asked = self.ask(request, most_octets).await;
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

/// A random number below `count`, which is not 0.
fn below(count: usize) -> usize {
    usize::from(random_id()) % count
}

/// Whether a response is one to this question (RFC 5452 section 9.1).
fn is_reply_to(response: &Response, request: &Request) -> bool {
    let question = response.question.as_ref();
    response.flags & flags::QR != 0
        && question.is_some_and(|(name, qtype, _)| *name == request.name && *qtype == request.qtype)
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
        // Files and names may say something else than they did: what came of targets is compared, and
        // certificates are always new.
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

//! `cache`: stores the replies of the handlers after it, and answers from them.
//!
//! Answers of our own zones are not stored: they come from memory, as a secondary's would. If such a zone lacks a name
//! and lets it fall through, the next handler's reply is stored, but it is served only while the zone still lacks the
//! name. A cached reply is ready at the first poll.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use dns::edns::{self, CLIENT_SUBNET};
use dns::{Name, Rcode, Ttl, flags, wire_is_within};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ops::Clock;
use ops::metrics::Level;
use prometheus_client::metrics::counter::Counter;
use server::chain::{Handler, Next};
use server::message::{Outcome, Question, Reply, Request};
use server::{Resolution, resolve};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::cache::metrics as m;
use crate::cache::{Cache, Kept};
use crate::handlers::tally;

mod item;
mod kind;
mod refresh;
mod store;

use self::item::Item;
use self::kind::{Kind, judge, least_ttl};
use self::refresh::Refresh;
use self::store::{KEY_OCTETS, Store};

const WORD: &str = "cache";
/// The most refreshes in the queue.
const MOST_WAITING: usize = 1024;

pub(crate) struct CacheHandler {
    config: Cache,
    zones: Vec<Name>,
    /// Whether replies differ by the subnet of clients, which goes on to those that are asked.
    by_subnet: bool,
    success: Store,
    denial: Store,
    /// The queue of refreshes.
    refreshes: mpsc::Sender<Refresh>,
    /// The queue's other end, until the background task takes it.
    waiting: Mutex<Option<mpsc::Receiver<Refresh>>>,
    clock: Arc<dyn Clock>,
    counts: Counts,
}

struct Counts {
    /// Stored replies: answers, denials.
    entries: [Level; 2],
    requests: Counter,
    /// Questions that the cache answered: with an answer, with a denial.
    hits: [Counter; 2],
    /// Questions that it did not answer.
    misses: Counter,
    prefetches: Counter,
    /// Replies served after they expired.
    served_stale: Counter,
    /// Evicted replies: answers, denials.
    evictions: [Counter; 2],
}

impl Counts {
    /// The counts of a cache for these zones.
    fn new(counts: tally::Counts<'_>, zones: &[Name]) -> Self {
        let zones: Vec<String> = zones.iter().map(ToString::to_string).collect();
        let zones = zones.join(",");
        let plain = |metric| counts.tally(metric).counter(&[&zones, ""]);
        let kinds = ["success", "denial"];
        let each = |metric| kinds.map(|kind| counts.tally(metric).counter(&[kind, &zones, ""]));
        let entries = counts.metrics.gauge(m::ENTRIES);
        let gauge = |kind: &str| {
            let values = [counts.server, kind, &zones, ""].map(ToOwned::to_owned);
            let labels = m::ENTRIES.labels.iter().copied().zip(values).collect();
            entries.get_or_create_owned(&labels)
        };
        // Metrics that are never counted are exported as zeros, for dashboards of CoreDNS.
        drop(plain(m::DROPS));
        Self {
            entries: kinds.map(gauge),
            requests: plain(m::REQUESTS),
            hits: each(m::HITS),
            misses: plain(m::MISSES),
            prefetches: plain(m::PREFETCHES),
            served_stale: plain(m::SERVED_STALE),
            evictions: each(m::EVICTIONS),
        }
    }
}

/// The key of a question: its name in lower case, type, class, DO and CD, and the client's subnet where replies differ by it.
struct Key {
    octets: [u8; KEY_OCTETS],
    /// The length of the key in `octets`.
    length: usize,
}

impl Key {
    fn of(request: &Request, by_subnet: bool) -> Self {
        let name = request.name.as_wire();
        let mut octets = [0; KEY_OCTETS];
        octets[..name.len()].copy_from_slice(name);
        octets[..name.len()].make_ascii_lowercase();
        let wishes = u8::from(request.dnssec_ok()) | u8::from(request.flags & flags::CD != 0) << 1;
        let [a, b] = request.qtype.0.to_be_bytes();
        let [c, d] = request.qclass.to_be_bytes();
        let length = name.len() + 5;
        octets[name.len()..length].copy_from_slice(&[a, b, c, d, wishes]);
        let subnet = client_subnet(request).filter(|_| by_subnet);
        let (end, subnet) = (&mut octets[length..], subnet.unwrap_or_default());
        let most = subnet.len().min(end.len());
        end[..most].copy_from_slice(&subnet[..most]);
        Self {
            octets,
            length: length + most,
        }
    }

    fn as_octets(&self) -> &[u8] {
        &self.octets[..self.length]
    }
}

/// The subnet that a query names as its client's (RFC 7871 section 6).
fn client_subnet(request: &Request) -> Option<&[u8]> {
    let mut rest = &request.edns.as_ref()?.options[..];
    while let Some(((code, data), tail)) = edns::split(rest) {
        if code == CLIENT_SUBNET {
            return Some(data);
        }
        rest = tail;
    }
    None
}

/// A reply that the cache has seen.
struct Taken {
    /// The reply for the client.
    reply: Reply,
    /// The stored item, if it was stored.
    item: Option<Arc<Item>>,
    /// Whether it answers the question with records.
    is_answer: bool,
    kind: Kind,
}

impl CacheHandler {
    pub(crate) fn new(
        config: Cache,
        zones: Vec<Name>,
        by_subnet: bool,
        clock: Arc<dyn Clock>,
        counts: tally::Counts<'_>,
    ) -> Self {
        let (refreshes, waiting) = mpsc::channel(MOST_WAITING);
        Self {
            success: Store::new(config.success.capacity),
            denial: Store::new(config.denial.capacity),
            refreshes,
            waiting: Mutex::new(Some(waiting)),
            clock,
            counts: Counts::new(counts, &config.zones),
            config,
            zones,
            by_subnet,
        }
    }

    /// The key of a request.
    fn key(&self, request: &Request) -> Key {
        Key::of(request, self.by_subnet)
    }

    /// Whether a name in lower case is in the cache's zones.
    fn takes(&self, lower: &[u8]) -> bool {
        let mut zones = self.config.zones.iter();
        zones.any(|zone| wire_is_within(lower, zone.as_wire()))
    }

    /// Whether an item is fresh, or may be served after it expired. A failure says nothing that the client could miss
    /// (RFC 8767 section 4): when it has expired, the next handler is asked.
    fn is_usable(&self, item: &Item, now: Instant) -> bool {
        let left = item.left(now);
        if item.is_failure() {
            return left > 0;
        }
        let up_to = self.config.stale.map_or(0, |stale| stale.up_to.as_secs());
        left > 0 || left > -i64::try_from(up_to).unwrap_or(i64::MAX)
    }

    /// The item for a key, if it may be served.
    fn find(&self, key: &[u8], now: Instant) -> Option<Arc<Item>> {
        let hit = |place: usize| self.counts.hits[place].inc();
        let usable = |store: &Store, place: usize| {
            let item = store.get(key)?;
            if !self.is_usable(&item, now) {
                store.remove_this(key, &item);
                self.count_entries(store, place);
                return None;
            }
            Some(item)
        };
        self.counts.requests.inc();
        if self
            .config
            .stale
            .is_some_and(|stale| stale.prefers_positive)
        {
            let answer = self.success.get(key).and_then(|item| {
                if item.is_answer {
                    Some(item)
                } else {
                    item.last_answer.clone()
                }
            });
            if let Some(item) = answer.filter(|item| self.is_usable(item, now)) {
                hit(0);
                return Some(item);
            }
        }
        let denial = usable(&self.denial, 1);
        // A failure does not hide an answer that is still fresh.
        if denial.as_ref().is_none_or(|item| item.is_failure())
            && let Some(item) = usable(&self.success, 0)
        {
            hit(0);
            return Some(item);
        }
        if denial.is_some() {
            hit(1);
        } else {
            self.counts.misses.inc();
        }
        denial
    }

    /// Takes a reply from the next handler. Its TTLs become the time that it is cached for, and it is stored if it may
    /// be.
    fn take(&self, mut reply: Reply, request: &Request, is_refresh: bool) -> Taken {
        let wall = request.dnssec_ok().then(|| self.clock.wall());
        let judged = judge(&reply, &request.name, request.qtype, wall);
        let (success, denial) = (&self.config.success, &self.config.denial);
        let within = |kept: &Kept| {
            let least = least_ttl(&reply, judged.kind, kept.most_seconds);
            least.max(kept.least_seconds).min(kept.most_seconds)
        };
        let seconds = match judged.kind {
            Kind::Answer | Kind::Other => within(success),
            Kind::Denial => within(denial),
            Kind::Failure => u32::try_from(self.config.servfail.as_secs()).unwrap_or(u32::MAX),
        };
        for record in reply.records_mut() {
            record.ttl = Ttl::decode(seconds);
        }
        let mut item = None;
        // A failure may be cached for less than a second, which no TTL can say.
        if judged.is_kept
            && (seconds > 0 || judged.kind == Kind::Failure && !self.config.servfail.is_zero())
        {
            let name = request.name.to_lower();
            let disabled = if judged.kind == Kind::Answer {
                &success.disabled
            } else {
                &denial.disabled
            };
            let is_off = disabled.iter().any(|zone| name.is_within(zone));
            item = (!is_off).then(|| {
                self.put(
                    &reply,
                    request,
                    (judged.kind, judged.is_answer),
                    seconds,
                    is_refresh,
                )
            });
        }
        if !request.dnssec_ok() && !wants_ad(request) {
            reply.flags &= !flags::AD;
        }
        Taken {
            reply,
            item,
            is_answer: judged.is_answer,
            kind: judged.kind,
        }
    }

    fn put(
        &self,
        reply: &Reply,
        request: &Request,
        (kind, is_answer): (Kind, bool),
        seconds: u32,
        is_refresh: bool,
    ) -> Arc<Item> {
        let key = self.key(request);
        let key = key.as_octets();
        let mut item = Item::new(reply, is_answer, seconds, self.clock.now());
        let prefers = self
            .config
            .stale
            .is_some_and(|stale| stale.prefers_positive);
        let (store, place) = match kind {
            Kind::Answer => (&self.success, 0),
            Kind::Denial | Kind::Failure | Kind::Other => (&self.denial, 1),
        };
        if kind == Kind::Answer && prefers && !is_answer {
            let before = self.success.get(key);
            item.last_answer = before.and_then(|it| {
                if it.is_answer {
                    Some(it)
                } else {
                    it.last_answer.clone()
                }
            });
        }
        let item = Arc::new(item);
        self.counts.evictions[place].inc_by(store.put(key, Arc::clone(&item)));
        if kind == Kind::Answer && (is_refresh && !prefers || prefers && is_answer) {
            self.denial.remove(key);
            self.count_entries(&self.denial, 1);
        }
        self.count_entries(store, place);
        item
    }

    /// Sets the gauge of the replies of one kind.
    fn count_entries(&self, store: &Store, place: usize) {
        self.counts.entries[place].set(store.count().into());
    }

    /// Asks the next handler, and stores the reply.
    async fn miss(&self, request: &mut Request, next: Next) -> Outcome {
        let wanted = request.flags;
        request.flags |= flags::AD;
        let outcome = next.run(request).await;
        request.flags = request.flags & !flags::AD | wanted & flags::AD;
        match outcome {
            Outcome::Reply(reply) if is_of_zone(&reply) => Outcome::Reply(reply),
            Outcome::Reply(reply) => Outcome::Reply(self.take(reply, request, false).reply),
            Outcome::Failed(failure) => {
                // Clients that try again do not ask an upstream again that has just failed to answer.
                if failure.rcode == Rcode::SERVFAIL && failure.error.is_some() {
                    let reply = Reply::empty(WORD, Rcode::SERVFAIL, 0);
                    self.take(reply, request, true);
                }
                Outcome::Failed(failure)
            }
            Outcome::Dropped => Outcome::Dropped,
        }
    }

    /// The reply of a cached item.
    fn give(&self, item: &Item, request: &Request, now: Instant) -> Outcome {
        let left = item.left(now);
        let ttl = match self.config.stale {
            Some(stale) if left <= 0 => {
                self.counts.served_stale.inc();
                if self.config.keeps_ttl && stale.ttl_seconds == 0 {
                    item.seconds
                } else {
                    stale.ttl_seconds
                }
            }
            Some(_) | None if self.config.keeps_ttl => item.seconds,
            Some(_) | None => u32::try_from(left).unwrap_or(0),
        };
        Outcome::Reply(item.reply(request, ttl))
    }

    /// Whether an item is to be refreshed before it expires.
    fn is_due(&self, item: &Item, now: Instant) -> bool {
        self.config.prefetch.is_some_and(|prefetch| {
            let count = item.note_asked(prefetch.within, now);
            let threshold = u64::from(item.seconds) * u64::from(prefetch.percent);
            let threshold = i64::try_from(threshold.div_ceil(100)).unwrap_or(i64::MAX);
            count >= prefetch.amount && item.left(now) <= threshold
        })
    }

    /// Answers from the cache. `None` when the next handler has to be asked.
    async fn hit(&self, request: &Request, next: &Next) -> Option<Outcome> {
        let now = self.clock.now();
        let key = self.key(request);
        let item = self.find(key.as_octets(), now)?;
        if item.left(now) > 0 {
            if self.is_due(&item, now) {
                self.refresh_later(&item, request, next, now, false);
            }
            return Some(self.give(&item, request, now));
        }
        let stale = self.config.stale?;
        match stale.verify {
            None => self.refresh_later(&item, request, next, now, true),
            Some(limit) => {
                if let Some(outcome) = self.verify(&item, request, next, limit).await {
                    return Some(outcome);
                }
            }
        }
        Some(self.give(&item, request, now))
    }

    /// Whether a cached reply may be served for a name: not if a zone of the block has the name by now.
    fn may_keep(request: &Request, lower: &Name, next: &Next) -> bool {
        let question = request.question(lower);
        let view = next.block().view(&question, false);
        match resolve(&view, &question, &mut Vec::new()) {
            Resolution::NoZone | Resolution::FallThrough { .. } => true,
            Resolution::NotReady | Resolution::FollowAlias { .. } | Resolution::Answer(_) => false,
        }
    }

    /// Answers a question for a name in the cache's zones.
    async fn answer_ours(&self, request: &mut Request, lower: Name, next: Next) -> Outcome {
        if !Self::may_keep(request, &lower, &next) {
            return next.run(request).await;
        }
        match self.hit(request, &next).await {
            Some(outcome) => outcome,
            None => self.miss(request, next).await,
        }
    }
}

/// Whether a reply comes from one of our zones.
fn is_of_zone(reply: &Reply) -> bool {
    reply.by == server::zones::WORD
}

/// Whether a client wants to know if the answer is authentic (RFC 6840 section 5.7).
fn wants_ad(request: &Request) -> bool {
    request.flags & flags::AD != 0
}

impl Handler for CacheHandler {
    fn name(&self) -> &'static str {
        WORD
    }

    fn passes(&self, question: &Question<'_>) -> bool {
        let mut zones = self.zones.iter();
        zones.any(|zone| wire_is_within(question.name, zone.as_wire()))
            || !self.takes(question.name)
    }

    fn keeps_replies(&self) -> bool {
        true
    }

    fn same_as(&self, new: &dyn Handler) -> bool {
        let Some(new) = (new as &dyn Any).downcast_ref::<Self>() else {
            return false;
        };
        let config = Cache {
            place: new.config.place.clone(),
            ..self.config.clone()
        };
        config == new.config && self.zones == new.zones && self.by_subnet == new.by_subnet
    }

    fn answer<'a>(&'a self, request: &'a mut Request, next: Next) -> BoxFuture<'a, Outcome> {
        let is_transfer = matches!(request.qtype, dns::Rtype::AXFR | dns::Rtype::IXFR);
        let lower = request.name.to_lower();
        if is_transfer || !self.takes(lower.as_wire()) {
            return next.run(request);
        }
        self.answer_ours(request, lower, next).boxed()
    }

    fn background(self: Arc<Self>, cancel: CancellationToken) -> Option<BoxFuture<'static, ()>> {
        let waiting = &self.waiting;
        let waiting = waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()?;
        Some(self.refresh_all(waiting, cancel).boxed())
    }
}

/// The time limit of a refresh.
const REFRESH_LIMIT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests;

//! Refreshes cached replies: before they expire, and afterwards while the old reply is served.
//!
//! A refresh runs as a background task. The number of tasks is bounded, and an item has at most one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dns::{Rcode, flags};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use ops::catch_panic;
use server::chain::Next;
use server::message::{Outcome, Proto, Request};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::cache::handler::item::{Item, Refreshing};
use crate::cache::handler::kind::Kind;
use crate::cache::handler::{CacheHandler, REFRESH_LIMIT, is_of_zone};

/// The most refreshes at once.
const MOST_AT_ONCE: usize = 256;

pub(super) struct Refresh {
    /// The item to refresh.
    item: Arc<Item>,
    /// Marks the item as being refreshed. `None` where two refreshes at once do no harm.
    refreshing: Option<Refreshing>,
    request: Request,
    /// The handlers after the cache.
    next: Next,
    /// Whether the item has expired.
    is_stale: bool,
    told: Option<oneshot::Sender<Option<Outcome>>>,
}

impl CacheHandler {
    /// Queues a refresh of an item, unless one is under way or the queue is full.
    pub(super) fn refresh_later(
        &self,
        item: &Arc<Item>,
        request: &Request,
        next: &Next,
        now: Instant,
        is_stale: bool,
    ) {
        let Some(refreshing) = item.begin_refresh(now) else {
            return;
        };
        let mut request = request.clone();
        // No client waits for the reply, so it need not be truncated: it comes as over a connection.
        request.origin.proto = Proto::Tcp;
        let refresh = Refresh {
            item: Arc::clone(item),
            refreshing: Some(refreshing),
            request,
            next: next.clone(),
            is_stale,
            told: None,
        };
        self.counts.prefetches.inc();
        // If the queue is full, the refresh is dropped.
        let _queued = self.refreshes.try_send(refresh).is_ok();
    }

    /// Refreshes an expired item before it is served. `None` when the old reply is to be served.
    pub(super) async fn verify(
        &self,
        item: &Arc<Item>,
        request: &Request,
        next: &Next,
        limit: Option<Duration>,
    ) -> Option<Outcome> {
        let now = self.clock.now();
        let tracks = self
            .config
            .stale
            .is_some_and(|stale| !stale.recheck.is_zero());
        let refreshing = if tracks {
            Some(item.begin_refresh(now)?)
        } else {
            None
        };
        let (told, said) = oneshot::channel();
        let mut refresh = Refresh {
            item: Arc::clone(item),
            refreshing,
            request: request.clone(),
            next: next.clone(),
            is_stale: true,
            told: None,
        };
        match limit {
            None => self.refresh(refresh).await,
            Some(limit) => {
                refresh.told = Some(told);
                self.refreshes.try_send(refresh).ok()?;
                tokio::time::timeout(limit, said).await.ok()?.ok()?
            }
        }
    }

    /// Runs refreshes until cancelled.
    pub(super) async fn refresh_all(
        self: Arc<Self>,
        mut waiting: mpsc::Receiver<Refresh>,
        cancel: CancellationToken,
    ) {
        let mut running = FuturesUnordered::new();
        loop {
            tokio::select! {
                () = cancel.cancelled() => return,
                Some(()) = running.next() => {}
                Some(mut refresh) = waiting.recv(), if running.len() < MOST_AT_ONCE => {
                    let cache = Arc::clone(&self);
                    running.push(async move {
                        let told = refresh.told.take();
                        // A panic of a handler concerns one item only.
                        let refreshing = catch_panic(cache.refresh(refresh));
                        let refreshed = tokio::time::timeout(REFRESH_LIMIT, refreshing).await;
                        let said = refreshed.ok().and_then(Result::ok).flatten();
                        if let Some(told) = told {
                            // The waiting client may have got the old reply already.
                            let _heard = told.send(said).is_ok();
                        }
                    });
                }
            }
        }
    }

    /// Refreshes an item. Returns the reply for the client, or `None` if the old item stays.
    async fn refresh(&self, refresh: Refresh) -> Option<Outcome> {
        let Refresh {
            item,
            refreshing,
            mut request,
            next,
            is_stale,
            told: _,
        } = refresh;
        let wanted = request.flags;
        request.flags |= flags::AD;
        let outcome = next.run(&mut request).await;
        request.flags = request.flags & !flags::AD | wanted & flags::AD;
        let taken = match outcome {
            Outcome::Reply(reply) if is_stale && !self.replaces(&reply, &request) => None,
            Outcome::Reply(reply) => Some(self.take(reply, &request, true)),
            Outcome::Failed(_) | Outcome::Dropped => None,
        };
        let prefers = self
            .config
            .stale
            .is_some_and(|stale| stale.prefers_positive);
        let is_usable = |it: &crate::cache::handler::Taken| {
            !is_stale || !prefers || it.kind == Kind::Answer && it.is_answer
        };
        let taken = taken.filter(is_usable);
        if let Some(new) = taken.as_ref().and_then(|it| it.item.as_ref()) {
            new.inherit(&item);
        }
        let recheck = self
            .config
            .stale
            .map_or(Duration::ZERO, |stale| stale.recheck);
        let failed = is_stale && taken.is_none() && !recheck.is_zero();
        if let Some(refreshing) = refreshing {
            refreshing.end(failed.then(|| self.clock.now() + recheck));
        }
        taken.map(|it| Outcome::Reply(it.reply))
    }

    /// Whether a reply may replace an expired one (RFC 8767 section 4): it must be whole, and say that the records
    /// exist or that they do not.
    fn replaces(&self, reply: &server::message::Reply, request: &Request) -> bool {
        let is_whole = reply.flags & flags::TC == 0;
        if is_of_zone(reply) || !is_whole {
            return false;
        }
        if self
            .config
            .stale
            .is_some_and(|stale| stale.prefers_positive)
        {
            return true;
        }
        let judged = crate::cache::handler::judge(reply, &request.name, request.qtype, None);
        judged.kind != Kind::Other && [Rcode::NOERROR, Rcode::NXDOMAIN].contains(&reply.rcode)
    }
}

impl CacheHandler {
    /// The item for a request.
    #[cfg(test)]
    pub(super) fn kept(&self, request: &Request) -> Option<Arc<Item>> {
        let key = self.key(request);
        let denial = self.denial.get(key.as_octets());
        denial.or_else(|| self.success.get(key.as_octets()))
    }
}

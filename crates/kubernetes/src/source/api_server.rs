//! The API server as a source: lists and watches Services, EndpointSlices and Namespaces.
//!
//! This module implements the list and watch protocol itself, because kube's `watcher` hides things that are needed
//! here: whether a watch is open now, a 410 sent as an HTTP status, a server that closes every watch at once, and a
//! single unreadable object in a page. The client, its authentication and TLS are kube's.
//!
//! Each kind is followed on its own:
//!
//! ```text
//!           ┌──────────── 410, error event ────────────┐
//!           ▼                                          │
//!        list, page by page ──complete──▶ watch ───────┤
//!           ▲        │ broke off            ▲          │
//!           └ back off                      └ back off ┘ any other end
//! ```
//!
//! - A list is collected and sent as `Change::Listed` when its last page has arrived.
//! - A watch continues after the last event or bookmark. When the server ends it after a while, it is opened again at
//!   once. After any other end there is a pause, which doubles each time, up to a limit.
//! - A source that cannot watch a kind for longer than its patience is stale. It is fresh when every kind has an open
//!   watch again. ServiceImports are a separate part, because a cluster may not have their API: they are requested
//!   again and again, and their absence makes nothing else stale.

mod backoff;
mod config_map;
mod connection;
pub mod endpoints;
mod fault;
pub mod lease;
pub mod reviews;
mod throttle;
mod watch;
mod wire;

pub use config_map::{ConfigMapText, WriteError, apply_config_map};
pub use connection::{Auth, ConnectError, Tls};

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use self::connection::Connection;
use self::fault::Fault;
use self::throttle::Throttle;
use self::watch::KindWatch;
use super::liveness::{Liveness, Turn};
use super::{EventSink, SourceEvent, SourceStats, Wanted};
use crate::facts::{Kinds, Part};
use ops::Clock;
use provenance::Kind;

/// The settings for following an API server.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The number of objects in a page of a list.
    pub page_size: u32,
    /// The timeout for one page.
    pub page_timeout: Duration,
    /// The timeout for the answer to a watch request.
    pub watch_start_timeout: Duration,
    /// The duration in seconds after which the server is asked to end a watch.
    pub watch_seconds: u32,
    /// A watch that is silent for this much longer counts as dead.
    pub watch_slack: Duration,
    /// A watch that ends earlier than this without an event was closed at once.
    pub least_watch: Duration,
    /// The first pause after a failure.
    pub backoff_first: Duration,
    /// The longest pause after a failure.
    pub backoff_longest: Duration,
    /// After a watch of this length, pauses start again with the first one.
    pub good_watch: Duration,
    /// The time that a kind may be without a watch before the source is stale.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            page_size: 500,
            page_timeout: Duration::from_secs(60),
            watch_start_timeout: Duration::from_secs(30),
            watch_seconds: 60,
            watch_slack: Duration::from_secs(5),
            least_watch: Duration::from_secs(1),
            backoff_first: Duration::from_millis(200),
            backoff_longest: Duration::from_secs(5),
            good_watch: Duration::from_secs(10),
            patience: Duration::from_secs(10),
        }
    }
}

impl Settings {
    /// The longest time that a live watch can be silent.
    fn longest_silence(&self) -> Duration {
        Duration::from_secs(self.watch_seconds.into()) + self.watch_slack
    }
}

/// An API server to which no request was sent yet.
#[derive(Debug)]
pub struct KubernetesSource {
    shared: Shared,
}

#[derive(Debug)]
struct Shared {
    connection: Connection,
    /// Limits the requests of all kinds together.
    throttle: Throttle,
    wanted: Wanted,
    settings: Settings,
    clock: Arc<dyn Clock>,
    stats: Arc<SourceStats>,
    /// The connected kinds, for each part of the cluster.
    liveness: Mutex<Vec<(Part, Liveness)>>,
    /// Wakes the task that announces.
    changed: Notify,
}

/// The kinds that belong to a part.
fn kinds_of(part: Part, kinds: Kinds) -> Kinds {
    let others = kinds.iter().filter(|kind| Part::of(*kind) != part);
    others.fold(kinds, Kinds::without)
}

impl Shared {
    fn parts(&self) -> MutexGuard<'_, Vec<(Part, Liveness)>> {
        self.liveness.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Updates the liveness of a kind: the one of its part, with the kind's position there.
    fn with_liveness(&self, kind: Kind, tell: impl FnOnce(&mut Liveness, usize)) {
        let place = kinds_of(Part::of(kind), self.wanted.kinds).place_of(kind);
        let mut parts = self.parts();
        let own = parts.iter_mut().find(|(part, _)| *part == Part::of(kind));
        if let Some((_, liveness)) = own {
            tell(liveness, place);
        }
    }

    /// Records that a kind's watch is open.
    fn live(&self, kind: Kind) {
        self.with_liveness(kind, |liveness, place| liveness.live(place));
        self.changed.notify_one();
    }

    /// Records that a kind's list or watch failed.
    fn failed(&self, kind: Kind, fault: &Fault) {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let reason = fault.message(kind);
        self.stats.kind(kind).add_error(fault.class());
        self.with_liveness(kind, |liveness, place| {
            liveness.failed(place, now, wall, reason)
        });
        self.changed.notify_one();
    }

    /// Records a contact with the API server.
    fn heard(&self) {
        self.stats.touch(self.clock.wall());
    }

    /// Announces staleness and freshness until the receiver is gone.
    async fn announce(&self, tx: &impl EventSink) {
        loop {
            let now = self.clock.now();
            let mut turns = Vec::new();
            let mut due = None;
            for (part, liveness) in self.parts().iter_mut() {
                turns.extend(liveness.turn(now).map(|turn| (*part, turn)));
                due = [due, liveness.due()].into_iter().flatten().min();
            }
            for (part, turn) in turns {
                if part == Part::Cluster {
                    self.stats.set_stale(matches!(turn, Turn::Stale { .. }));
                }
                if tx.send(SourceEvent::of_turn(part, turn)).await.is_err() {
                    return;
                }
            }
            let wait = due.map(|due| due.saturating_duration_since(now));
            let sleep = async {
                match wait {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.changed.notified() => {}
                () = sleep => {}
            }
        }
    }
}

impl KubernetesSource {
    /// Reads the configuration and creates a client. Sends no request yet: an unavailable API server must not prevent
    /// the start.
    ///
    /// # Errors
    ///
    /// When the configuration, a certificate or a token cannot be read.
    pub async fn connect(
        auth: Auth,
        wanted: Wanted,
        settings: Settings,
        clock: Arc<dyn Clock>,
        stats: Arc<SourceStats>,
    ) -> Result<Self, ConnectError> {
        let connection = Connection::open(auth, &settings).await?;
        let (now, wall) = (clock.now(), clock.wall());
        let liveness_of = |part| {
            let count = kinds_of(part, wanted.kinds).count();
            let liveness = Liveness::new(count, settings.patience, now, wall);
            (count > 0).then_some((part, liveness))
        };
        let parts = [Part::Cluster, Part::Imports].into_iter();
        let liveness = Mutex::new(parts.filter_map(liveness_of).collect());
        let changed = Notify::new();
        Ok(Self {
            shared: Shared {
                connection,
                throttle: Throttle::new(wanted.limits),
                wanted,
                settings,
                clock,
                stats,
                liveness,
                changed,
            },
        })
    }

    /// Follows the API server until cancelled, or until the receiver is gone. Faults are sent as events and do not
    /// end it.
    pub async fn run(self, tx: impl EventSink, cancel: CancellationToken) {
        let Self { shared } = self;
        let watches = shared
            .wanted
            .kinds
            .iter()
            .map(|kind| KindWatch::new(kind, &shared, tx.clone()).run());
        tokio::select! {
            () = cancel.cancelled() => {}
            () = shared.announce(&tx) => {}
            _ = join_all(watches) => {}
        }
    }
}

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

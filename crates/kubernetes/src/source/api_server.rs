//! The API server as a source: lists and watches Services, EndpointSlices and Namespaces.
//!
//! The list and watch protocol is spoken here rather than by kube's `watcher`, for what that one
//! hides: whether a watch is open now, a 410 that comes as an HTTP status, a server that closes every
//! watch at once, and the one object in a page that does not read. The client, its authentication and
//! TLS are kube's.
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
//! - A list is collected aside and sent as `Change::Listed` when its last page has arrived.
//! - A watch goes on from the last event or bookmark. A server that ends it after a while is asked
//!   again at once; after anything else we wait, twice as long each time, up to a limit.
//! - A source that cannot watch a kind for longer than its patience is stale; it is fresh when every
//!   kind has an open watch again. ServiceImports are a part of their own, for a cluster may have none of
//!   their API: they are asked for again and again, and their absence makes nothing else stale.

mod backoff;
mod connection;
mod fault;
mod throttle;
mod watch;
mod wire;

pub use connection::{Auth, ConnectError, Tls};

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use self::connection::Connection;
use self::fault::Fault;
use self::throttle::Throttle;
use self::watch::KindWatch;
use super::liveness::{Liveness, Turn};
use super::{SourceEvent, SourceStats, Wanted};
use crate::facts::{Kinds, Part};
use ops::Clock;
use provenance::Kind;

/// What can be set about following an API server.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Objects in a page of a list.
    pub page_size: u32,
    /// How long one page may take.
    pub page_timeout: Duration,
    /// How long the answer to a watch request may take.
    pub watch_start_timeout: Duration,
    /// After how many seconds the server is asked to end a watch.
    pub watch_seconds: u32,
    /// A watch that is silent for so much longer is taken for dead.
    pub watch_slack: Duration,
    /// A watch that ends earlier than this without an event was closed at once.
    pub least_watch: Duration,
    /// The first wait after a failure.
    pub backoff_first: Duration,
    /// The longest wait after a failure.
    pub backoff_longest: Duration,
    /// After a watch of this length, a failure is the first one again.
    pub good_watch: Duration,
    /// How long a kind may be without a watch before the source is stale.
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
    /// How long a live watch can be silent.
    fn longest_silence(&self) -> Duration {
        Duration::from_secs(self.watch_seconds.into()) + self.watch_slack
    }
}

/// An API server, connected to but not yet asked anything.
#[derive(Debug)]
pub struct KubernetesSource {
    shared: Shared,
}

#[derive(Debug)]
struct Shared {
    connection: Connection,
    /// Lets requests through, of all kinds together.
    throttle: Throttle,
    wanted: Wanted,
    settings: Settings,
    clock: Arc<dyn Clock>,
    stats: Arc<SourceStats>,
    /// Which kinds are watched now: for each part of the cluster its kinds.
    liveness: Mutex<Vec<(Part, Liveness)>>,
    /// Wakes the one who announces.
    changed: Notify,
}

/// Those of the kinds that belong to a part.
fn kinds_of(part: Part, kinds: Kinds) -> Kinds {
    let others = kinds.iter().filter(|kind| Part::of(*kind) != part);
    others.fold(kinds, Kinds::without)
}

impl Shared {
    /// The liveness of the parts.
    fn parts(&self) -> MutexGuard<'_, Vec<(Part, Liveness)>> {
        self.liveness.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells about the liveness of a kind: the one of its part, and its place there.
    fn with_liveness(&self, kind: Kind, tell: impl FnOnce(&mut Liveness, usize)) {
        let place = kinds_of(Part::of(kind), self.wanted.kinds).place_of(kind);
        let mut parts = self.parts();
        let own = parts.iter_mut().find(|(part, _)| *part == Part::of(kind));
        if let Some((_, liveness)) = own {
            tell(liveness, place);
        }
    }

    /// A kind's watch is open.
    fn live(&self, kind: Kind) {
        self.with_liveness(kind, |liveness, place| liveness.live(place));
        self.changed.notify_one();
    }

    /// A kind's list or watch failed.
    fn failed(&self, kind: Kind, fault: &Fault) {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let reason = fault.message(kind);
        self.stats.kind(kind).add_error(fault.class());
        self.with_liveness(kind, |liveness, place| {
            liveness.failed(place, now, wall, reason)
        });
        self.changed.notify_one();
    }

    /// The API server was heard.
    fn heard(&self) {
        self.stats.touch(self.clock.wall());
    }

    /// Announces staleness and freshness for ever; ends when nobody listens.
    async fn announce(&self, tx: &mpsc::Sender<SourceEvent>) {
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
    /// Reads the configuration and makes a client. Does not speak to the API server yet: one that is
    /// away is no reason not to start.
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

    /// Follows the API server until cancelled, or until nobody listens any more. What goes wrong is
    /// told as events; nothing ends it.
    pub async fn run(self, tx: mpsc::Sender<SourceEvent>, cancel: CancellationToken) {
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

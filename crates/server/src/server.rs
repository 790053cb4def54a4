//! A server: the answers on listeners with the same server blocks, and the secondaries to notify.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use dns::Name;
use dns::tsig::KeyRing;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ipnet::IpNet;
use ops::Clock;
use tokio_util::sync::CancellationToken;
use transfer::{
    Access, AskedSecondary, Notifier, Secondary, SecondaryTable, Slots, TransferEvents,
};
use zone::{Zone, ZoneSet};

use crate::rate_limit::{RateLimit, ReplyRates};
use crate::seldom::Seldom;
use crate::shared::Shared;
use crate::tally::Tallies;
use crate::{ExchangeLog, Router};
use crate::{Identity, Settings, Stats, TlsIdentity};

/// The parts that all servers of a process share, whatever their configuration.
#[derive(Debug, Clone)]
pub struct Common {
    /// Counters.
    pub stats: Arc<Stats>,
    /// Whether clients should close their connections. Each gets one more reply.
    pub draining: Arc<AtomicBool>,
    /// The state of each secondary.
    pub secondaries: Arc<SecondaryTable>,
    /// The capacity for transfers.
    pub slots: Arc<Slots>,
    /// Counters of queries, for blocks that want them.
    pub tallies: Arc<Tallies>,
    /// The replies of the last seconds to limited networks.
    pub reply_rates: Arc<ReplyRates>,
}

impl Common {
    /// Begins with all counters at zero. `handlers` are the words of handlers that write replies.
    pub fn new(settings: &Settings, handlers: impl Iterator<Item = &'static str>) -> Self {
        Self {
            stats: Arc::default(),
            draining: Arc::default(),
            secondaries: Arc::default(),
            slots: Arc::new(Slots::new(&settings.transfer)),
            tallies: Arc::new(Tallies::new(handlers)),
            reply_rates: Arc::default(),
        }
    }
}

/// The parts of a server.
pub struct Parts {
    /// The zones.
    pub zones: Arc<ZoneSet>,
    /// The peers that may transfer each zone. Nobody may transfer a zone that is not here.
    pub access: HashMap<Name, Access>,
    /// The servers to notify of new versions.
    pub secondaries: Vec<Secondary>,
    /// The server blocks.
    pub router: Arc<Router>,
    /// The TSIG keys, which may change while it runs.
    pub keys: Arc<KeyRing>,
    /// The certificate and keys of TLS listeners, which may change while it runs.
    pub tls: Option<Arc<TlsIdentity>>,
    /// Its identity, for clients that ask.
    pub identity: Identity,
    /// Limits and times.
    pub settings: Settings,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The log of queries, if a block has one.
    pub query_log: Option<Arc<dyn ExchangeLog>>,
    /// The parts that all servers share.
    pub common: Common,
}

/// The answers on listeners with the same server blocks.
pub struct Server {
    /// The parts that all listeners share.
    pub shared: Arc<Shared>,
    /// The servers to notify of new versions.
    secondaries: Vec<Secondary>,
}

/// A task with its name. It ends only when cancelled.
pub type NamedTask = (String, BoxFuture<'static, ()>);

/// A secondary of a zone, with the task that notifies it of new versions.
pub struct Told {
    /// The secondary.
    pub secondary: Secondary,
    /// The zone.
    pub zone: Arc<Zone>,
    /// All keys, the secondary's among them.
    pub keys: Arc<KeyRing>,
    /// The notifier.
    notifier: Notifier,
}

impl Told {
    /// Whether another task for this secondary and zone may continue in its place.
    #[must_use]
    pub fn is_same(&self, secondary: &Secondary, zone: &Arc<Zone>, keys: &Arc<KeyRing>) -> bool {
        self.secondary == *secondary
            && Arc::ptr_eq(&self.zone, zone)
            && Arc::ptr_eq(&self.keys, keys)
    }

    /// The task, which runs until `cancel`.
    #[must_use]
    pub fn run(self, cancel: CancellationToken) -> NamedTask {
        let of = &self.secondary;
        let name = format!("notify {} {}", of.zone, of.target);
        (name, self.notifier.run(cancel).boxed())
    }
}

impl Server {
    /// A server of these parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts {
            zones,
            access,
            secondaries,
            router,
            keys,
            tls,
            identity,
            settings,
            clock,
            query_log,
            common,
        } = parts;
        let Common {
            stats,
            draining,
            secondaries: table,
            slots,
            tallies: _,
            reply_rates,
        } = common;
        let named: BTreeSet<IpNet> = access.values().flat_map(Access::networks).collect();
        Self {
            shared: Arc::new(Shared {
                named: named.into_iter().collect(),
                zones,
                access: access
                    .into_iter()
                    .map(|(zone, rules)| (zone.to_lower(), rules))
                    .collect(),
                router,
                keys,
                tls,
                identity,
                draining,
                settings,
                clock,
                query_log,
                stats,
                secondaries: table,
                slots,
                off_clocks: Seldom::default(),
                rate_limit: RateLimit::default(),
                reply_rates,
                revoked: Seldom::default(),
                panicked: Seldom::default(),
            }),
            secondaries,
        }
    }

    /// The server blocks.
    #[must_use]
    pub fn router(&self) -> &Arc<Router> {
        &self.shared.router
    }

    /// The background work of the query log, which runs as long as this server answers.
    pub fn log_tasks(&self, cancel: &CancellationToken) -> Vec<BoxFuture<'static, ()>> {
        let log = self.shared.query_log.as_ref();
        log.map_or_else(Vec::new, |log| log.background(&self.shared.clock, cancel))
    }

    /// The zones.
    #[must_use]
    pub fn zones(&self) -> &ZoneSet {
        &self.shared.zones
    }

    /// The TSIG keys.
    #[must_use]
    pub fn keys(&self) -> &Arc<KeyRing> {
        &self.shared.keys
    }

    /// The servers to notify of new versions.
    #[must_use]
    pub fn secondaries(&self) -> &[Secondary] {
        &self.secondaries
    }

    /// The servers to notify of new versions, each with its known keys. Its answer shows which of them it accepts.
    pub fn asked(&self) -> impl Iterator<Item = AskedSecondary> {
        let keys = self.shared.keys.current();
        self.secondaries.iter().map(move |secondary| {
            let known = secondary.keys.iter().filter_map(|key| keys.get(key));
            let mut ways: Vec<_> = known.map(|key| Some(Arc::clone(key))).collect();
            if secondary.keys.is_empty() {
                ways.push(None);
            }
            (secondary.clone(), ways)
        })
    }

    /// The servers to notify of new versions, each with its task.
    pub fn told(&self) -> impl Iterator<Item = Told> {
        let shared = &self.shared;
        self.secondaries.iter().filter_map(|secondary| {
            let zone = shared.zones.get(&secondary.zone)?;
            let notifier = Notifier {
                zone: Arc::clone(zone),
                keys: Arc::clone(&shared.keys),
                secondary: secondary.clone(),
                settings: shared.settings.notify,
                clock: Arc::clone(&shared.clock),
                events: Arc::clone(&shared.stats) as Arc<dyn TransferEvents>,
                table: Arc::clone(&shared.secondaries),
            };
            Some(Told {
                secondary: secondary.clone(),
                zone: Arc::clone(zone),
                keys: Arc::clone(&shared.keys),
                notifier,
            })
        })
    }
}

#[cfg(test)]
mod tests;

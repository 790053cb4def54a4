//! A server: what answers on listeners that have the same server blocks, and who is told of new versions.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use dns::Name;
use dns::tsig::KeyRing;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ops::Clock;
use tokio_util::sync::CancellationToken;
use transfer::{
    Access, AskedSecondary, Notifier, Secondary, SecondaryTable, Slots, TransferEvents,
};
use zone::{Zone, ZoneSet};

use crate::seldom::Seldom;
use crate::shared::Shared;
use crate::tally::Tallies;
use crate::{ExchangeLog, Router};
use crate::{Identity, Settings, Stats, TlsIdentity};

/// What all servers of a process share, whatever the configuration says.
#[derive(Debug, Clone)]
pub struct Common {
    /// Counts.
    pub stats: Arc<Stats>,
    /// Set to ask the clients of connections to go: each is answered once more.
    pub draining: Arc<AtomicBool>,
    /// Knows what each secondary has.
    pub secondaries: Arc<SecondaryTable>,
    /// Capacity for transfers.
    pub slots: Arc<Slots>,
    /// Counts queries, where a block wants it.
    pub tallies: Arc<Tallies>,
}

impl Common {
    /// Nothing counted, nothing known. `handlers` are the words of those that may write replies.
    pub fn new(settings: &Settings, handlers: impl Iterator<Item = &'static str>) -> Self {
        Self {
            stats: Arc::default(),
            draining: Arc::default(),
            secondaries: Arc::default(),
            slots: Arc::new(Slots::new(&settings.transfer)),
            tallies: Arc::new(Tallies::new(handlers)),
        }
    }
}

/// What a server is made of.
pub struct Parts {
    /// The zones.
    pub zones: Arc<ZoneSet>,
    /// Who may have which zone; a zone that is not here is nobody's.
    pub access: HashMap<Name, Access>,
    /// Who is told of new versions.
    pub secondaries: Vec<Secondary>,
    /// The server blocks: what answers which name.
    pub router: Arc<Router>,
    /// TSIG keys; they may change as it runs.
    pub keys: Arc<KeyRing>,
    /// What stands in front of the connections of TLS listeners; they may change as it runs.
    pub tls: Option<Arc<TlsIdentity>>,
    /// What it tells of itself.
    pub identity: Identity,
    /// Limits and times.
    pub settings: Settings,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Logs queries, where a block says so.
    pub query_log: Option<Arc<dyn ExchangeLog>>,
    /// What it shares with all others.
    pub common: Common,
}

/// What answers on listeners that have the same server blocks.
pub struct Server {
    /// What requests are answered from.
    pub shared: Arc<Shared>,
    /// Who is told of new versions.
    secondaries: Vec<Secondary>,
}

/// A task, by name; it ends only when told to.
pub type NamedTask = (String, BoxFuture<'static, ()>);

/// One secondary of one zone, and the task that tells it of new versions.
pub struct Told {
    /// Who is told.
    pub secondary: Secondary,
    /// The zone.
    pub zone: Arc<Zone>,
    /// The keys, that of the secondary among them.
    pub keys: Arc<KeyRing>,
    /// Tells it.
    notifier: Notifier,
}

impl Told {
    /// Whether telling goes on as it is with another's task.
    #[must_use]
    pub fn is_same(&self, secondary: &Secondary, zone: &Arc<Zone>, keys: &Arc<KeyRing>) -> bool {
        self.secondary == *secondary
            && Arc::ptr_eq(&self.zone, zone)
            && Arc::ptr_eq(&self.keys, keys)
    }

    /// The task, to be run until `cancel`.
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
        } = common;
        Self {
            shared: Arc::new(Shared {
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
            }),
            secondaries,
        }
    }

    /// The server blocks.
    #[must_use]
    pub fn router(&self) -> &Arc<Router> {
        &self.shared.router
    }

    /// What the log of queries has to run beside it, for as long as this server answers.
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

    /// Who is told of new versions.
    #[must_use]
    pub fn secondaries(&self) -> &[Secondary] {
        &self.secondaries
    }

    /// Who is told of new versions, each with those of its keys that are known: which of them it takes shows in its
    /// answer.
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

    /// Who is told of new versions, each with the task for it.
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

//! The parts that all listeners of a server share.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use dns::tsig::KeyRing;
use dns::{CookieSecrets, Name};
use ipnet::IpNet;
use ops::Clock;
use transfer::{Access, SecondaryTable, Slots};
use zone::ZoneSet;

use crate::chain::Router;
use crate::exchange_log::ExchangeLog;
use crate::rate_limit::{RateLimit, ReplyRates};
use crate::seldom::Seldom;
use crate::settings::Settings;
use crate::stats::Stats;
use crate::tls::TlsIdentity;

/// The parts that all listeners of a server share.
pub struct Shared {
    /// The networks of the peers that may have a zone, unless anybody may.
    pub(crate) named: Vec<IpNet>,
    /// The zones.
    pub zones: Arc<ZoneSet>,
    /// The peers that may transfer each zone.
    pub access: HashMap<Name, Access>,
    /// The server blocks.
    pub router: Arc<Router>,
    /// TSIG keys.
    pub keys: Arc<KeyRing>,
    /// The certificate and keys of TLS listeners.
    pub tls: Option<Arc<TlsIdentity>>,
    /// Limits and times.
    pub settings: Settings,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The log of queries, if a block has one.
    pub query_log: Option<Arc<dyn ExchangeLog>>,
    /// Counters.
    pub stats: Arc<Stats>,
    /// Our identity, for clients that ask.
    pub identity: Identity,
    /// Whether clients should close their connections.
    pub draining: Arc<AtomicBool>,
    /// The state of each secondary.
    pub secondaries: Arc<SecondaryTable>,
    /// Capacity for transfers.
    pub(crate) slots: Arc<Slots>,
    /// The keys of messages with a wrong time, as far as that was logged.
    pub(crate) off_clocks: Seldom<Name>,
    /// The limit on replies to queries that no block has a key for.
    pub(crate) rate_limit: RateLimit,
    /// The replies of the last seconds.
    pub(crate) reply_rates: Arc<ReplyRates>,
    /// The last client of a revoked certificate that was logged: a certificate can be shown by anybody who saw it.
    pub(crate) revoked: Seldom<()>,
    /// The last panic that was logged.
    pub(crate) panicked: Seldom<()>,
}

impl Shared {
    /// Whether `transfer` names an address.
    pub(crate) fn names(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.named.iter().any(|network| network.contains(&address))
    }
}

/// The identity of a server, for clients that ask.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Its name (RFC 5001); `None` is not sent.
    pub nsid: Option<Box<[u8]>>,
    /// The secret of its cookies.
    pub cookies: CookieSecrets,
}

//! What all listeners of a server share.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use dns::tsig::KeyRing;
use dns::{CookieSecret, Name};
use ops::Clock;
use transfer::{Access, SecondaryTable, Slots};
use zone::ZoneSet;

use crate::chain::Router;
use crate::exchange_log::ExchangeLog;
use crate::seldom::Seldom;
use crate::settings::Settings;
use crate::stats::Stats;
use crate::tls::TlsIdentity;

/// What all listeners of a server share.
pub struct Shared {
    /// The zones.
    pub zones: Arc<ZoneSet>,
    /// Who may have which zone.
    pub access: HashMap<Name, Access>,
    /// The server blocks: what answers which name.
    pub router: Arc<Router>,
    /// TSIG keys.
    pub keys: Arc<KeyRing>,
    /// What stands in front of the connections of TLS listeners.
    pub tls: Option<Arc<TlsIdentity>>,
    /// Limits and times.
    pub settings: Settings,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Logs queries, where a block says so.
    pub query_log: Option<Arc<dyn ExchangeLog>>,
    /// Counts.
    pub stats: Arc<Stats>,
    /// What we tell of ourselves to who asks.
    pub identity: Identity,
    /// Whether clients of connections are asked to go.
    pub draining: Arc<AtomicBool>,
    /// Knows what each secondary has.
    pub secondaries: Arc<SecondaryTable>,
    /// Capacity for transfers.
    pub(crate) slots: Arc<Slots>,
    /// The keys that were used with a clock that is off, as far as that was said.
    pub(crate) off_clocks: Seldom,
}

/// What a server tells of itself to who asks.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Its name (RFC 5001); none: not told.
    pub nsid: Option<Box<[u8]>>,
    /// Makes its cookies.
    pub cookies: CookieSecret,
}

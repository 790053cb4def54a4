//! What each configured secondary was told, asked for and took.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use arc_swap::ArcSwap;

use crate::dns::{Name, Rcode, Serial};

/// Who a request comes from: where, and signed by which key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecondaryId {
    /// The address of the request.
    pub address: SocketAddr,
    /// The key that signed it.
    pub key: Option<Name>,
}

/// How a version was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TransferKind {
    /// Whole, as asked.
    Axfr,
    /// Differences, or "up to date".
    Ixfr,
    /// Whole, though differences were asked for.
    IxfrAsAxfr,
}

impl TransferKind {
    /// All kinds, in the order of their counters.
    pub const ALL: [Self; 3] = [Self::Axfr, Self::Ixfr, Self::IxfrAsAxfr];

    /// The kind as a label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Axfr => "axfr",
            Self::Ixfr => "ixfr",
            Self::IxfrAsAxfr => "ixfr_as_axfr",
        }
    }
}

/// What a secondary asked for last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// The SOA.
    Soa,
    /// The zone.
    Axfr,
    /// The differences since a serial.
    Ixfr(Serial),
}

/// What is known of one secondary of one zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecondaryStatus {
    /// The zone.
    pub zone: Name,
    /// Where it is told.
    pub target: SocketAddr,
    /// The key its messages are signed with.
    pub key: Option<Name>,
    /// The serial of the last NOTIFY sent, and when.
    pub notified: Option<(Serial, SystemTime)>,
    /// The serial of the last NOTIFY it answered, with its answer, and when.
    pub acknowledged: Option<(Serial, Rcode, SystemTime)>,
    /// NOTIFYs given up so far.
    pub given_up: u64,
    /// What it asked for last, and when.
    pub asked: Option<(Asked, SystemTime)>,
    /// The serial it has, as far as we know: it was fully sent, or the secondary named it.
    pub serial: Option<Serial>,
    /// The number of the version that was fully sent last.
    pub version_seq: Option<u64>,
    /// The last transfer that was fully sent, and when.
    pub transfer: Option<(TransferKind, SystemTime)>,
}

impl SecondaryStatus {
    /// Nothing is known yet.
    const fn new(zone: Name, target: SocketAddr, key: Option<Name>) -> Self {
        Self {
            zone,
            target,
            key,
            notified: None,
            acknowledged: None,
            given_up: 0,
            asked: None,
            serial: None,
            version_seq: None,
            transfer: None,
        }
    }
}

/// What is known of all secondaries.
#[derive(Debug, Default)]
pub struct SecondaryTable {
    /// Addresses that are some secondary's: all others need no lock.
    addresses: ArcSwap<HashSet<IpAddr>>,
    /// By zone. The lock is held for a few field writes, or while the table is configured.
    zones: Mutex<HashMap<Name, Vec<SecondaryStatus>>>,
}

impl SecondaryTable {
    /// Takes a new list of secondaries, zone, target, key: of those that stay it is still known what they have.
    pub fn configure(
        &self,
        secondaries: impl IntoIterator<Item = (Name, SocketAddr, Option<Name>)>,
    ) {
        let mut zones = self.lock();
        let mut addresses = HashSet::new();
        let mut known: Vec<SecondaryStatus> = zones.drain().flat_map(|(_, all)| all).collect();
        for (zone, target, key) in secondaries {
            addresses.insert(target.ip().to_canonical());
            let is_it =
                |it: &SecondaryStatus| it.zone == zone && it.target == target && it.key == key;
            let status = match known.iter().position(is_it) {
                Some(place) => known.swap_remove(place),
                None => SecondaryStatus::new(zone.clone(), target, key),
            };
            zones.entry(zone).or_default().push(status);
        }
        self.addresses.store(Arc::new(addresses));
    }

    /// All of it, for people and metrics.
    #[must_use]
    pub fn snapshot(&self) -> Vec<SecondaryStatus> {
        let zones = self.lock();
        let mut all: Vec<_> = zones.values().flatten().cloned().collect();
        all.sort_by(|a, b| a.zone.cmp(&b.zone).then(a.target.cmp(&b.target)));
        all
    }

    /// Whether a target has shown that it has this serial or a later one.
    #[must_use]
    pub fn has(&self, zone: &Name, target: SocketAddr, serial: Serial) -> bool {
        let zones = self.lock();
        let of_zone = zones.get(zone).map_or(&[][..], Vec::as_slice);
        of_zone
            .iter()
            .filter(|status| status.target == target)
            .filter_map(|status| status.serial)
            .any(|has| has == serial || has.is_after(serial))
    }

    /// Whether a request from this address may be a secondary's.
    pub(crate) fn knows(&self, address: IpAddr) -> bool {
        self.addresses.load().contains(&address.to_canonical())
    }

    /// A secondary asked for something. An IXFR names the serial it has.
    pub(crate) fn asked(&self, zone: &Name, id: &SecondaryId, asked: Asked, now: SystemTime) {
        self.update(zone, id, |status| {
            status.asked = Some((asked, now));
            if let Asked::Ixfr(serial) = asked {
                status.serial = Some(serial);
            }
        });
    }

    /// A version, its serial and number, was fully sent.
    pub(crate) fn took(
        &self,
        zone: &Name,
        id: &SecondaryId,
        kind: TransferKind,
        (serial, seq): (Serial, u64),
        now: SystemTime,
    ) {
        self.update(zone, id, |status| {
            status.serial = Some(serial);
            status.version_seq = Some(seq);
            status.transfer = Some((kind, now));
        });
    }

    /// A NOTIFY left.
    pub(crate) fn notified(
        &self,
        zone: &Name,
        target: SocketAddr,
        serial: Serial,
        now: SystemTime,
    ) {
        self.update_target(zone, target, |status| status.notified = Some((serial, now)));
    }

    /// A NOTIFY was answered.
    pub(crate) fn acknowledged(
        &self,
        zone: &Name,
        target: SocketAddr,
        (serial, rcode): (Serial, Rcode),
        now: SystemTime,
    ) {
        self.update_target(zone, target, |status| {
            status.acknowledged = Some((serial, rcode, now));
        });
    }

    /// A NOTIFY was given up.
    pub(crate) fn given_up(&self, zone: &Name, target: SocketAddr) {
        self.update_target(zone, target, |status| status.given_up += 1);
    }

    /// Changes the entries a request may come from: by address, and by key where the secondary has one.
    fn update(&self, zone: &Name, id: &SecondaryId, mut change: impl FnMut(&mut SecondaryStatus)) {
        if !self.knows(id.address.ip()) {
            return;
        }
        let address = id.address.ip().to_canonical();
        let mut zones = self.lock();
        let mut here: Vec<_> = zones.get_mut(zone).into_iter().flatten().collect();
        here.retain(|status| status.target.ip().to_canonical() == address);
        // Who has a key is known by it; one without may sign all the same, unless the key is its neighbour's.
        let is_own = |status: &&mut SecondaryStatus| status.key == id.key;
        let is_neighbours = here.iter().any(|status| status.key == id.key);
        for status in here {
            if is_own(&status) || !is_neighbours && status.key.is_none() {
                change(status);
            }
        }
    }

    /// Changes the entry of a target.
    fn update_target(
        &self,
        zone: &Name,
        target: SocketAddr,
        change: impl Fn(&mut SecondaryStatus),
    ) {
        let mut zones = self.lock();
        let of_zone = zones.get_mut(zone).into_iter().flatten();
        for status in of_zone.filter(|status| status.target == target) {
            change(status);
        }
    }

    /// The zones' entries, whatever became of a thread that held them.
    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Vec<SecondaryStatus>>> {
        self.zones.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

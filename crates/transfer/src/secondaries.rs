//! The state of each configured secondary: its NOTIFYs, requests and transfers.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use dns::{Name, Rcode, Serial};
use ops::millis;
use zone::Version;

use crate::{Notices, PeerAddress, PeersAhead};

/// The source of a request: the address, and the key that signed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecondaryId {
    /// The address of the request.
    pub address: SocketAddr,
    /// The key that signed it.
    pub key: Option<Name>,
}

/// The form in which a version was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TransferKind {
    /// The whole zone, as requested.
    Axfr,
    /// Differences, or "up to date".
    Ixfr,
    /// The whole zone, though differences were requested.
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

/// The last request of a secondary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecondaryRequest {
    /// The SOA.
    Soa,
    /// The zone.
    Axfr,
    /// The differences since a serial.
    Ixfr(Serial),
}

/// The state of one secondary of one zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecondaryStatus {
    /// The zone.
    pub zone: Name,
    /// The address that is notified.
    pub target: SocketAddr,
    /// The keys its messages may be signed with.
    pub keys: Vec<Name>,
    /// The time since which it is configured.
    pub since: SystemTime,
    /// The serial and the time of the last NOTIFY.
    pub notified: Option<(Serial, SystemTime)>,
    /// The serial of the last NOTIFY with an answer, the answer, and its time.
    pub acknowledged: Option<(Serial, Rcode, SystemTime)>,
    /// NOTIFYs given up so far.
    pub given_up: u64,
    /// The last request and its time.
    pub request: Option<(SecondaryRequest, SystemTime)>,
    /// The key that signed it.
    pub request_key: Option<Name>,
    /// Why its last request for the zone was refused, and when; `None` since one was taken.
    pub denied: Option<(String, SystemTime)>,
    /// When it was first notified of a version that it lacks.
    behind_since: Option<SystemTime>,
    /// The serial that it has: the last one that was fully sent, or that its request named.
    pub serial: Option<Serial>,
    /// The number of the last version that was fully sent.
    pub version_seq: Option<u64>,
    /// The last transfer that was fully sent, and its time.
    pub transfer: Option<(TransferKind, SystemTime)>,
}

/// The distance of a secondary to the current version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lag {
    /// The number of versions that it lacks; `None` if its serial is not known or older than the history.
    pub versions: Option<u64>,
    /// The time at which the oldest of them was made, in milliseconds since 1970, as far as it is known. `None` when it
    /// lacks none.
    pub since_ms: Option<u64>,
}

impl Lag {
    /// The milliseconds by which it is behind at `now_ms`, in milliseconds since 1970.
    #[must_use]
    pub const fn ms(&self, now_ms: u64) -> u64 {
        match self.since_ms {
            Some(since) => now_ms.saturating_sub(since),
            None => 0,
        }
    }
}

impl SecondaryStatus {
    /// The distance to a version. A secondary without a version is behind since it was configured. If its version is
    /// older than the history, it is behind since it was first notified of a version that it lacks, if that is known, else since
    /// the start of the history or longer. The time before it was configured in this run does not count: it could not transfer
    /// anything then.
    #[must_use]
    pub fn lag(&self, version: &Version) -> Lag {
        let Some(serial) = self.serial else {
            return Lag {
                versions: None,
                since_ms: Some(millis(self.since)),
            };
        };
        let history = &version.history;
        let missing = version.behind(serial);
        let oldest = match missing {
            Some(missing) => history.get(history.len() - missing),
            None => history.front(),
        };
        let told_ms = self.behind_since.filter(|_| missing.is_none()).map(millis);
        let oldest_ms = oldest.map(|step| step.time_ms);
        let configured_ms = millis(self.since);
        let since_ms = [oldest_ms, told_ms].into_iter().flatten().min();
        let since_ms = since_ms.map(|since_ms| since_ms.max(configured_ms));
        Lag {
            versions: missing.map(|missing| missing as u64),
            since_ms: since_ms.or_else(|| missing.is_none().then_some(configured_ms)),
        }
    }

    /// The serial of the last NOTIFY that it answered, if it accepted that.
    #[must_use]
    pub fn accepted(&self) -> Option<Serial> {
        let (serial, rcode, _) = self.acknowledged?;
        (rcode == Rcode::NOERROR).then_some(serial)
    }

    /// The serial of the last NOTIFY and the response code, if the secondary refused it and does not have the version.
    #[must_use]
    pub fn refused(&self) -> Option<(Serial, Rcode)> {
        let (serial, rcode, _) = self.acknowledged?;
        let has = |it: Serial| it == serial || it.is_after(serial);
        let stands = rcode != Rcode::NOERROR && !self.serial.is_some_and(has);
        stands.then_some((serial, rcode))
    }

    /// Takes the serial that it has.
    fn has(&mut self, serial: Serial) {
        if self.serial.replace(serial) != Some(serial) {
            self.behind_since = None;
        }
    }

    const fn new(zone: Name, target: SocketAddr, keys: Vec<Name>, since: SystemTime) -> Self {
        Self {
            zone,
            target,
            keys,
            since,
            notified: None,
            acknowledged: None,
            given_up: 0,
            request: None,
            request_key: None,
            denied: None,
            behind_since: None,
            serial: None,
            version_seq: None,
            transfer: None,
        }
    }
}

/// The state of all secondaries.
#[derive(Debug, Default)]
pub struct SecondaryTable {
    /// The addresses of all secondaries. Requests from other addresses need no lock.
    addresses: ArcSwap<HashSet<PeerAddress>>,
    /// By zone. The lock is held for a few field writes, or while the table is configured.
    zones: Mutex<HashMap<Name, Vec<SecondaryStatus>>>,
    /// Requests of any zone that were refused, by the address of a secondary: anybody can write it into a datagram, so one costs
    /// no look at the zones.
    denied: Mutex<HashMap<PeerAddress, (String, SystemTime)>>,
    /// Peers with a later serial than ours, secondaries or not.
    pub ahead: PeersAhead,
    /// When secondaries are notified.
    pub notices: Notices,
}

impl SecondaryTable {
    /// Replaces the list of secondaries: zone, target, keys. A secondary that stays keeps its state, even if its keys
    /// changed.
    pub fn configure(
        &self,
        secondaries: impl IntoIterator<Item = (Name, SocketAddr, Vec<Name>)>,
        now: SystemTime,
    ) {
        let mut zones = self.lock();
        let mut addresses = HashSet::new();
        let mut known: Vec<SecondaryStatus> = zones.drain().flat_map(|(_, all)| all).collect();
        for (zone, target, keys) in secondaries {
            addresses.insert(target.into());
            let is_it = |it: &SecondaryStatus| it.zone == zone && it.target == target;
            let status = match known.iter().position(is_it) {
                Some(place) => SecondaryStatus {
                    keys,
                    ..known.swap_remove(place)
                },
                None => SecondaryStatus::new(zone.clone(), target, keys, now),
            };
            zones.entry(zone).or_default().push(status);
        }
        let mut denied = self.denied.lock().unwrap_or_else(PoisonError::into_inner);
        denied.retain(|address, _| addresses.contains(address));
        drop(denied);
        self.addresses.store(Arc::new(addresses));
    }

    /// A copy of the whole state, for people and metrics.
    #[must_use]
    pub fn snapshot(&self) -> Vec<SecondaryStatus> {
        let zones = self.lock();
        let mut all: Vec<_> = zones.values().flatten().cloned().collect();
        drop(zones);
        let denied = self.denied.lock().unwrap_or_else(PoisonError::into_inner);
        for status in &mut all {
            let of_address = denied.get(&PeerAddress::from(status.target));
            let is_newer = |(_, at): &&(String, SystemTime)| {
                status
                    .denied
                    .as_ref()
                    .is_none_or(|(_, of_zone)| of_zone < at)
            };
            if let Some(newer) = of_address.filter(is_newer) {
                status.denied = Some(newer.clone());
            }
        }
        drop(denied);
        all.sort_by(|a, b| a.zone.cmp(&b.zone).then(a.target.cmp(&b.target)));
        all
    }

    /// Whether a target has shown that it has this version or a later one.
    #[must_use]
    pub fn has(&self, target: SocketAddr, version: &Version) -> bool {
        let zones = self.lock();
        let of_zone = zones.get(version.contents.apex());
        let of_zone = of_zone.map_or(&[][..], Vec::as_slice);
        let is_there = |has: Serial| has == version.serial || has.is_after(version.serial);
        of_zone
            .iter()
            .filter(|status| status.target == target)
            .filter_map(|status| status.serial)
            .any(|has| is_there(has) && !version.leaves_behind(has))
    }

    /// Whether the zone of a version has secondaries, and each of them has shown that the reset of the serial does not leave
    /// it behind.
    #[must_use]
    pub fn have_followed(&self, version: &Version) -> bool {
        let zones = self.lock();
        let of_zone = zones.get(version.contents.apex());
        let has_followed =
            |status: &SecondaryStatus| status.serial.is_some_and(|has| !version.leaves_behind(has));
        of_zone.is_some_and(|all| !all.is_empty() && all.iter().all(has_followed))
    }

    /// Whether a request from this address may be a secondary's.
    pub fn knows(&self, address: SocketAddr) -> bool {
        self.addresses.load().contains(&address.into())
    }

    /// Notes a request of a secondary. An IXFR names the serial that it has.
    pub fn requested(
        &self,
        zone: &Name,
        id: &SecondaryId,
        asked: SecondaryRequest,
        now: SystemTime,
    ) {
        if asked != SecondaryRequest::Soa && self.knows(id.address) {
            let mut denied = self.denied.lock().unwrap_or_else(PoisonError::into_inner);
            denied.remove(&PeerAddress::from(id.address));
        }
        self.update(zone, id, |status| {
            status.request = Some((asked, now));
            status.request_key.clone_from(&id.key);
            match asked {
                // It may have the SOA and be refused the zone.
                SecondaryRequest::Soa => {}
                SecondaryRequest::Axfr => status.denied = None,
                SecondaryRequest::Ixfr(serial) => {
                    status.denied = None;
                    status.has(serial);
                }
            }
        });
    }

    /// Notes that requests of all zones from the address of a secondary are refused.
    pub fn denied_all(&self, address: SocketAddr, reason: String, now: SystemTime) {
        if self.knows(address) {
            let mut denied = self.denied.lock().unwrap_or_else(PoisonError::into_inner);
            denied.insert(address.into(), (reason, now));
        }
    }

    /// Notes that a request from the address of a secondary, or signed by its key, was refused.
    pub fn denied(&self, zone: &Name, id: &SecondaryId, reason: &str, now: SystemTime) {
        if !self.knows(id.address) && id.key.is_none() {
            return;
        }
        let address = PeerAddress::from(id.address);
        let is_of = |status: &SecondaryStatus| {
            PeerAddress::from(status.target) == address
                || id.key.as_ref().is_some_and(|key| status.keys.contains(key))
        };
        let mut zones = self.lock();
        let of_zone = zones.get_mut(zone).into_iter().flatten();
        for status in of_zone.filter(|it| is_of(it)) {
            status.denied = Some((reason.to_owned(), now));
        }
    }

    /// Notes that a version was fully sent, by its serial and number.
    pub fn took(
        &self,
        zone: &Name,
        id: &SecondaryId,
        kind: TransferKind,
        (serial, seq): (Serial, u64),
        now: SystemTime,
    ) {
        self.update(zone, id, |status| {
            status.has(serial);
            status.version_seq = Some(seq);
            status.transfer = Some((kind, now));
        });
    }

    /// Notes the serial that a secondary reported at startup, unless it has transferred since.
    pub fn heard(&self, zone: &Name, target: SocketAddr, serial: Serial) {
        self.update_target(zone, target, |status| {
            status.serial = status.serial.or(Some(serial));
        });
    }

    /// Notes a NOTIFY that was sent.
    pub fn notified(&self, zone: &Name, target: SocketAddr, serial: Serial, now: SystemTime) {
        self.update_target(zone, target, |status| {
            status.notified = Some((serial, now));
            if status.serial.is_none_or(|has| serial.is_after(has)) {
                status.behind_since.get_or_insert(now);
            }
        });
    }

    /// Notes the answer to a NOTIFY.
    pub fn acknowledged(
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

    /// Notes that a NOTIFY was given up.
    pub fn given_up(&self, zone: &Name, target: SocketAddr) {
        self.update_target(zone, target, |status| status.given_up += 1);
    }

    /// Changes the entries that a request may come from: by address, and by key if the secondary has one.
    fn update(&self, zone: &Name, id: &SecondaryId, mut change: impl FnMut(&mut SecondaryStatus)) {
        if !self.knows(id.address) {
            return;
        }
        let address = PeerAddress::from(id.address);
        let mut zones = self.lock();
        let mut here: Vec<_> = zones.get_mut(zone).into_iter().flatten().collect();
        here.retain(|status| PeerAddress::from(status.target) == address);
        // A secondary with keys is recognised by them. One without keys may sign with a key that is not another's at
        // this address.
        let has =
            |status: &SecondaryStatus| id.key.as_ref().is_some_and(|key| status.keys.contains(key));
        let is_known = here.iter().any(|status| has(status));
        here.retain(|status| has(status) || !is_known && status.keys.is_empty());
        for status in here {
            change(status);
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

    /// Locks the entries, even if a thread panicked while it held the lock.
    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Vec<SecondaryStatus>>> {
        self.zones.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use dns::testing::name;
    use zone::Zone;
    use zone::testing::{contents, publish, zone};

    /// A table of lines `(address, keys)`, all of zone `z.`.
    fn table(lines: &[(&str, &[&str])]) -> SecondaryTable {
        let table = SecondaryTable::default();
        configure(&table, lines);
        table
    }

    /// Configures these lines, five seconds after 1970, when [`publish`] makes its versions.
    fn configure(table: &SecondaryTable, lines: &[(&str, &[&str])]) {
        let lines = lines.iter().map(|(target, keys)| {
            let keys = keys.iter().map(|key| name(key)).collect();
            (name("z."), target.parse().unwrap(), keys)
        });
        table.configure(lines, SystemTime::UNIX_EPOCH + Duration::from_secs(5));
    }

    /// Notes a request from an address, with this key, that names serial 7.
    fn ask(table: &SecondaryTable, address: &str, key: Option<&str>) {
        let id = SecondaryId {
            address: address.parse().unwrap(),
            key: key.map(name),
        };
        let asked = SecondaryRequest::Ixfr(Serial::decode(7));
        table.requested(&name("z."), &id, asked, SystemTime::UNIX_EPOCH);
    }

    /// The targets whose known serial is 7.
    fn known(table: &SecondaryTable) -> Vec<String> {
        let mut all = table.snapshot();
        all.retain(|status| status.serial == Some(Serial::decode(7)));
        all.iter().map(|status| status.target.to_string()).collect()
    }

    #[test]
    fn of_two_at_one_address_the_key_tells_which_one_asked() {
        let lines: [(&str, &[&str]); 3] = [
            ("192.0.2.1:53", &["a."]),
            ("192.0.2.1:54", &["b."]),
            ("192.0.2.2:53", &["a."]),
        ];
        let of = table(&lines);
        ask(&of, "192.0.2.1:40000", Some("b."));
        assert_eq!(known(&of), ["192.0.2.1:54"]);
        ask(&of, "192.0.2.1:40000", Some("c."));
        ask(&of, "192.0.2.1:40000", None);
        assert_eq!(known(&of), ["192.0.2.1:54"], "a stranger's key, and none");
    }

    #[test]
    fn one_without_a_key_is_not_taken_for_its_neighbour() {
        let lines: [(&str, &[&str]); 2] = [("192.0.2.1:53", &["a."]), ("192.0.2.1:54", &[])];
        let of = table(&lines);
        ask(&of, "192.0.2.1:40000", Some("a."));
        assert_eq!(known(&of), ["192.0.2.1:53"]);
        let of = table(&lines);
        ask(&of, "192.0.2.1:40000", None);
        assert_eq!(known(&of), ["192.0.2.1:54"]);
        // It may sign its requests with a key of some other rule.
        let of = table(&lines);
        ask(&of, "192.0.2.1:40000", Some("c."));
        assert_eq!(known(&of), ["192.0.2.1:54"]);
    }

    #[test]
    fn one_with_two_keys_is_known_by_either_and_from_a_mapped_address() {
        for key in ["old.", "new."] {
            let of = table(&[("192.0.2.1:53", &["old.", "new."])]);
            ask(&of, "[::ffff:192.0.2.1]:40000", Some(key));
            assert_eq!(known(&of), ["192.0.2.1:53"], "{key}");
        }
    }

    #[test]
    fn of_two_links_with_one_address_only_the_one_that_asked_is_known() {
        let of = table(&[("[fe80::1%2]:53", &[]), ("[fe80::1%3]:53", &[])]);
        ask(&of, "[fe80::1%3]:40000", None);
        assert_eq!(known(&of), ["[fe80::1%3]:53"]);
        assert!(!of.knows("[fe80::1%4]:40000".parse().unwrap()));
    }

    #[test]
    fn what_is_known_outlives_an_exchange_of_keys_and_goes_with_the_line() {
        let of = table(&[("192.0.2.1:53", &["old."])]);
        ask(&of, "192.0.2.1:40000", Some("old."));
        configure(&of, &[("192.0.2.1:53", &["old.", "new."])]);
        configure(&of, &[("192.0.2.1:53", &["new."]), ("192.0.2.2:53", &[])]);
        assert_eq!(known(&of), ["192.0.2.1:53"]);
        configure(&of, &[("192.0.2.2:53", &[])]);
        configure(&of, &[("192.0.2.1:53", &["new."])]);
        assert_eq!(known(&of), [""; 0]);
    }

    /// The distance of the only secondary, with its milliseconds at second 60.
    fn lag(table: &SecondaryTable, zone: &Zone) -> (Option<u64>, u64) {
        let lag = table.snapshot()[0].lag(&zone.current().unwrap());
        (lag.versions, lag.ms(60_000))
    }

    #[test]
    fn one_that_took_nothing_is_behind_since_it_is_configured() {
        let zone = zone("z.", 1, &["a A 192.0.2.1"]);
        let of = table(&[("192.0.2.1:53", &[])]);
        assert_eq!(lag(&of, &zone), (None, 55_000));
    }

    #[test]
    fn what_one_has_counts_from_the_first_version_it_lacks() {
        let zone = zone("z.", 7, &["a A 192.0.2.1"]);
        let of = table(&[("192.0.2.1:53", &[])]);
        ask(&of, "192.0.2.1:40000", None);
        assert_eq!(lag(&of, &zone), (Some(0), 0));
        for serial in [8, 9] {
            let next = contents("z.", 60, &[&format!("a A 192.0.2.{serial}")]);
            publish(&zone, serial, &next);
        }
        // Version 8 was made before the secondary was configured: no server ran then.
        assert_eq!(lag(&of, &zone), (Some(2), 55_000));
        let current = zone.current().unwrap();
        for (has, lacks) in [(9, Some(0)), (8, Some(1)), (7, Some(2)), (6, None)] {
            assert_eq!(current.behind(Serial::decode(has)), lacks, "{has}");
        }
        let steps = current.steps_from(Serial::decode(7)).unwrap();
        let serials: Vec<Serial> = steps.iter().map(|step| step.serial).collect();
        assert_eq!(serials, [8, 9].map(Serial::decode), "oldest first");
    }

    #[test]
    fn one_that_lacks_more_than_the_history_is_behind_since_it_was_first_notified() {
        let zone = zone("z.", 7, &["a A 192.0.2.1"]);
        let of = table(&[("192.0.2.1:53", &[])]);
        ask(&of, "192.0.2.1:40000", None);
        let target = "192.0.2.1:53".parse().unwrap();
        let tell = |serial, second| {
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
            of.notified(&name("z."), target, Serial::decode(serial), now);
        };
        tell(7, 8);
        for serial in [20, 21] {
            tell(serial, u64::from(serial));
        }
        let version = zone.current().unwrap();
        let mut status = of.snapshot().remove(0);
        status.serial = Some(Serial::decode(3));
        let behind = status.lag(&version);
        assert_eq!((behind.versions, behind.ms(60_000)), (None, 40_000));
        // With another serial it is no more behind since then.
        of.took(
            &name("z."),
            &id("192.0.2.1:40000"),
            TransferKind::Ixfr,
            (Serial::decode(21), 2),
            SystemTime::UNIX_EPOCH,
        );
        assert_eq!(of.snapshot()[0].behind_since, None);
    }

    fn id(address: &str) -> SecondaryId {
        SecondaryId {
            address: address.parse().unwrap(),
            key: None,
        }
    }

    #[test]
    fn why_a_request_was_refused_is_known_until_one_is_taken() {
        let of = table(&[("192.0.2.1:53", &["a."]), ("192.0.2.2:53", &[])]);
        let denied = || {
            let all = of.snapshot();
            all.into_iter()
                .map(|it| it.denied.map(|(reason, _)| reason))
                .collect::<Vec<_>>()
        };
        let refuse = |address: &str, key: Option<&str>, reason: &str| {
            let id = SecondaryId {
                key: key.map(name),
                ..id(address)
            };
            of.denied(&name("z."), &id, reason, SystemTime::UNIX_EPOCH);
            of.denied(&name("other."), &id, "another zone", SystemTime::UNIX_EPOCH);
        };
        refuse("192.0.2.9:40000", None, "a stranger");
        refuse("192.0.2.9:40000", Some("b."), "a stranger's key");
        assert_eq!(denied(), [None, None]);
        refuse("192.0.2.2:40000", None, "no TLS");
        refuse("192.0.2.9:40000", Some("a."), "another address");
        assert_eq!(
            denied(),
            [
                Some("another address".to_owned()),
                Some("no TLS".to_owned())
            ]
        );
        ask(&of, "192.0.2.1:40000", Some("a."));
        assert_eq!(denied(), [None, Some("no TLS".to_owned())]);
        let address = "192.0.2.1:40000".parse().unwrap();
        let later = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        of.denied_all(
            "192.0.2.9:40000".parse().unwrap(),
            "a stranger".to_owned(),
            later,
        );
        of.denied_all(address, "BADKEY".to_owned(), later);
        assert_eq!(denied()[0].as_deref(), Some("BADKEY"));
        ask(&of, "192.0.2.1:40000", Some("a."));
        assert_eq!(denied()[0], None);
        let asked_with: Vec<_> = of.snapshot().into_iter().map(|it| it.request_key).collect();
        assert_eq!(asked_with, [Some(name("a.")), None]);
    }

    #[test]
    fn all_have_followed_a_reset_when_the_last_one_has_shown_a_serial_after_it() {
        let (old, reset) = (3_900_000_000, 1_752_516_351);
        let zone = zone("z.", old - 100, &["a A 192.0.2.1"]);
        for (serial, last) in [(old, 2), (reset, 3)] {
            publish(
                &zone,
                serial,
                &contents("z.", 60, &[&format!("a A 192.0.2.{last}")]),
            );
        }
        let current = zone.current().unwrap();
        assert!(!table(&[]).have_followed(&current), "nobody is known");
        let of = table(&[("192.0.2.1:53", &[]), ("192.0.2.2:53", &[])]);
        let has = |last: u8, serial: u32| {
            let target = format!("192.0.2.{last}:53").parse().unwrap();
            let id = SecondaryId {
                address: target,
                key: None,
            };
            let asked = SecondaryRequest::Ixfr(Serial::decode(serial));
            of.requested(&name("z."), &id, asked, SystemTime::UNIX_EPOCH);
            (of.have_followed(&current), of.has(target, &current))
        };
        assert_eq!(has(1, reset), (false, true), "the other one is unknown");
        // RFC 1982 takes the first of these for a later serial than ours.
        for before in [old - 100, old] {
            assert_eq!(has(2, before), (false, false), "{before}");
        }
        assert_eq!(has(2, reset), (true, true));
    }

    #[test]
    fn a_refusal_stands_until_the_version_is_taken() {
        let of = table(&[("192.0.2.1:53", &[])]);
        let target = "192.0.2.1:53".parse().unwrap();
        let refuse = |serial| {
            let told = (Serial::decode(serial), Rcode::REFUSED);
            of.acknowledged(&name("z."), target, told, SystemTime::UNIX_EPOCH);
            of.snapshot()[0].refused().map(|(serial, _)| serial)
        };
        assert_eq!(refuse(7), Some(Serial::decode(7)));
        ask(&of, "192.0.2.1:40000", None);
        assert_eq!(of.snapshot()[0].refused(), None, "it has 7");
        assert_eq!(refuse(8), Some(Serial::decode(8)));
        assert_eq!(of.snapshot()[0].accepted(), None);
    }

    #[test]
    fn what_one_said_when_it_was_asked_is_less_than_what_it_took() {
        let of = table(&[("192.0.2.1:53", &[])]);
        let target = "192.0.2.1:53".parse().unwrap();
        of.heard(&name("z."), target, Serial::decode(7));
        assert_eq!(known(&of), ["192.0.2.1:53"]);
        of.heard(&name("z."), target, Serial::decode(6));
        assert_eq!(known(&of), ["192.0.2.1:53"]);
        // A secondary that is ahead of us, or older than our history, lacks all known versions.
        let zone = zone("z.", 3, &["a A 192.0.2.1"]);
        assert_eq!(lag(&of, &zone), (None, 55_000));
    }
}

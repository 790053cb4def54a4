//! When secondaries are notified, if not of each version at once: of several replicas only the one that leads notifies them.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use dns::Name;
use tokio::sync::watch;
use zone::Zone;

/// What notifiers wait for. As long as [`Self::take_over`] was not called, that is each new version.
#[derive(Debug, Default)]
pub struct Notices {
    /// Counts the notices of each zone.
    zones: OnceLock<BTreeMap<Name, watch::Sender<u64>>>,
    is_leading: AtomicBool,
}

impl Notices {
    /// Secondaries of these zones are notified only when [`Self::notify`] says so. Called once, before there are notifiers.
    pub fn take_over(&self, zones: impl IntoIterator<Item = Name>) {
        let zones = zones
            .into_iter()
            .map(|zone| (zone.to_lower(), watch::Sender::new(0)));
        let is_first = self.zones.set(zones.collect()).is_ok();
        debug_assert!(is_first, "the zones of replicas do not change");
    }

    /// Has the secondaries of a zone notified of its current version.
    pub fn notify(&self, zone: &Name) {
        if let Some(count) = self.zones.get().and_then(|zones| zones.get(zone)) {
            count.send_modify(|count| *count += 1);
        }
    }

    /// This replica leads: it may be that nobody has notified the secondaries of the current versions.
    pub fn lead(&self) {
        self.is_leading.store(true, Ordering::Relaxed);
        for count in self.zones.get().into_iter().flat_map(BTreeMap::values) {
            count.send_modify(|count| *count += 1);
        }
    }

    /// Another replica leads.
    pub fn follow(&self) {
        self.is_leading.store(false, Ordering::Relaxed);
    }

    /// A receiver that wakes when the secondaries of a zone are to be notified; at once if its current version may not have been
    /// announced before a restart.
    pub(crate) fn of(&self, zone: &Zone) -> watch::Receiver<u64> {
        let own = self.zones.get().and_then(|zones| zones.get(zone.apex()));
        let (mut receiver, is_due) = match own {
            Some(count) => (count.subscribe(), self.is_leading.load(Ordering::Relaxed)),
            None => (zone.subscribe(), true),
        };
        if is_due {
            receiver.mark_changed();
        }
        receiver
    }
}

#[cfg(test)]
mod tests {
    use dns::testing::name;

    use super::*;

    /// Whether a notifier that begins now sends something, and whether it does after this.
    fn check(notices: &Notices, zone: &Zone, act: impl FnOnce(), want: (bool, bool)) {
        let mut waits = notices.of(zone);
        let at_once = waits.has_changed().unwrap();
        waits.mark_unchanged();
        act();
        assert_eq!((at_once, waits.has_changed().unwrap()), want);
    }

    #[test]
    fn only_a_leader_notifies_and_without_replicas_each_version_is_announced() {
        let zone = zone::testing::zone("a.", 1, &[]);
        let version = zone.current().unwrap();
        let publish = || zone.restore(zone::Version::clone(&version));
        let notices = Notices::default();
        check(&notices, &zone, publish, (true, true));
        notices.take_over([name("A.")]);
        check(&notices, &zone, publish, (false, false));
        check(&notices, &zone, || notices.lead(), (false, true));
        check(&notices, &zone, publish, (true, false));
        check(
            &notices,
            &zone,
            || notices.notify(&name("a.")),
            (true, true),
        );
        notices.follow();
        check(&notices, &zone, publish, (false, false));
    }
}

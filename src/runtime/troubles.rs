//! What is wrong now, for `status` and the metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use directives::config::{Config, Transfer};
use dns::{Name, Serial};
use zone::check::Warning;

/// A peer with a later serial than ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PeerAhead {
    /// The peer.
    pub(crate) peer: SocketAddr,
    /// Its serial.
    pub(crate) serial: Serial,
    /// Whether our next serial is above it.
    pub(crate) is_followed: bool,
}

/// What is wrong now. It outlasts a reload.
#[derive(Default)]
pub(crate) struct Troubles {
    /// Problems of objects.
    pub(crate) objects: Told<Vec<String>>,
    /// Why the last Corefile is not in use.
    pub(crate) refused: Told<Vec<String>>,
    /// Why the store does not take the last version.
    pub(crate) unstored: Told<Option<String>>,
    /// What some secondaries refuse, by zone. It concerns nobody while the zone is not given.
    warnings: Told<BTreeMap<Name, Vec<String>>>,
    /// The zones that somebody may transfer.
    given: Told<BTreeSet<Name>>,
    /// What keys of etcd lack, by zone.
    pub(crate) left_out: Told<BTreeMap<Name, Vec<String>>>,
    /// The last peer of each zone with a later serial than ours.
    pub(crate) peers: Told<BTreeMap<Name, PeerAhead>>,
}

impl Troubles {
    /// In sentences, in the order of the fields.
    pub(crate) fn texts(&self) -> Vec<String> {
        let refused = self.refused.lock().clone().into_iter();
        let unstored = self.unstored.lock().clone().into_iter();
        let mut texts = self.objects.lock().clone();
        texts.extend(refused.map(|why| format!("the last Corefile is not in use: {why}")));
        texts.extend(unstored.map(|why| format!("a version could not be stored: {why}")));
        let given = self.given.lock().clone();
        let warnings = self.warnings.lock();
        let of_given = warnings.iter().filter(|(zone, _)| given.contains(*zone));
        texts.extend(of_given.flat_map(|(_, texts)| texts.clone()));
        drop(warnings);
        texts.extend(self.left_out.lock().values().flatten().cloned());
        texts
    }

    /// Replaces the warnings of a zone. The new ones are logged if the zone is given.
    pub(crate) fn warn(&self, zone: &Name, all: &[Warning], new: &[Warning]) {
        let texts = all.iter().map(ToString::to_string).collect();
        // Before the zone is looked up: one that is given meanwhile finds them here.
        self.warnings.lock().insert(zone.clone(), texts);
        if self.given.lock().contains(zone) {
            for warning in new {
                tracing::warn!("{warning}");
            }
        }
    }

    /// The number of warnings of a zone that is given.
    pub(crate) fn warnings_of(&self, zone: &Name) -> usize {
        if !self.given.lock().contains(zone) {
            return 0;
        }
        self.warnings.lock().get(zone).map_or(0, Vec::len)
    }

    /// Replaces the zones that somebody may transfer. Logs the warnings of those that nobody could transfer before.
    pub(crate) fn give(&self, zones: BTreeSet<Name>) {
        let before = std::mem::replace(&mut *self.given.lock(), zones.clone());
        let warnings = self.warnings.lock();
        let new = zones.difference(&before);
        for warning in new.filter_map(|zone| warnings.get(zone)).flatten() {
            tracing::warn!("{warning}");
        }
    }
}

/// The zones that somebody may transfer.
pub(crate) fn given_zones(config: &Config) -> BTreeSet<Name> {
    let zones = config.servers.iter().flat_map(|block| {
        let zones = block.zones_written();
        zones.filter(|zone| block.for_zone::<Transfer>(zone).is_some())
    });
    zones.map(Name::to_lower).collect()
}

/// A value that one part tells and others read. The lock protects it for one change or one reading.
#[derive(Default)]
pub(crate) struct Told<T>(Mutex<T>);

impl<T> Told<T> {
    /// The value.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the value.
    pub(crate) fn set(&self, value: T) {
        *self.lock() = value;
    }
}

#[cfg(test)]
mod tests {
    use directives::config::{Overrides, parse_text};

    use super::*;

    fn given(text: &str) -> BTreeSet<Name> {
        let loaded = parse_text("Corefile", text, &Overrides::default(), &|_| None);
        given_zones(&loaded.unwrap_or_else(|why| panic!("{why}")).config)
    }

    /// A server in CoreDNS's place has no secondaries, and BIND's limits are nobody's.
    #[test]
    fn what_secondaries_refuse_is_said_of_zones_that_somebody_may_transfer() {
        let troubles = Troubles::default();
        let zone = |text: &str| text.parse::<Name>().unwrap();
        let warning = |owner: &str| Warning::WildcardCut {
            owner: owner.to_owned(),
        };
        for (name, owner) in [("a.test.", "*.a.test."), ("b.test.", "*.b.test.")] {
            let all = [warning(owner)];
            troubles.warn(&zone(name), &all, &all);
        }
        assert_eq!(troubles.texts(), Vec::<String>::new());
        assert_eq!(troubles.warnings_of(&zone("a.test.")), 0);
        let source = "kubernetes a.test b.test {\n manifests m\n }";
        troubles.give(given(&format!("a.test b.test {{\n {source}\n}}\n")));
        assert_eq!(troubles.texts(), Vec::<String>::new());
        let transfer = "transfer A.test {\n allow 192.0.2.1\n }";
        troubles.give(given(&format!(
            "a.test b.test {{\n {source}\n {transfer}\n}}\n"
        )));
        assert_eq!(troubles.texts(), [warning("*.a.test.").to_string()]);
        assert_eq!(troubles.warnings_of(&zone("a.test.")), 1);
        assert_eq!(troubles.warnings_of(&zone("b.test.")), 0);
    }
}

//! The pods of a cluster, by what their names are made of: namespace and address.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use crate::cluster::{ObjectKey, Origin, Pod, State};

/// An address in a namespace: what the name of a pod says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodAddress {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The address.
    pub address: IpAddr,
}

/// The pods. Several of a namespace may have one address: those of the host's network.
#[derive(Debug, Default)]
pub(super) struct Pods {
    /// Pods by key.
    by_key: HashMap<ObjectKey, Pod>,
    /// How many pods have each address.
    addresses: BTreeMap<PodAddress, u32>,
}

impl Pods {
    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.by_key.len()
    }

    /// Whether a pod of the namespace has the address.
    pub(super) fn has(&self, at: &PodAddress) -> bool {
        self.addresses.contains_key(at)
    }

    /// All addresses, by namespace.
    pub(super) fn addresses(&self) -> impl Iterator<Item = &PodAddress> {
        self.addresses.keys()
    }

    /// The addresses of a namespace.
    pub(super) fn addresses_in<'a>(
        &'a self,
        namespace: &Arc<str>,
    ) -> impl Iterator<Item = &'a PodAddress> {
        let namespace = Arc::clone(namespace);
        let first = PodAddress {
            namespace: Arc::clone(&namespace),
            // IPv4 comes before IPv6
            address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        };
        self.addresses
            .range(first..)
            .map(|(at, _)| at)
            .take_while(move |at| at.namespace == namespace)
    }

    /// Keys and origins of all.
    pub(super) fn origins(&self) -> Vec<(ObjectKey, Origin)> {
        let origin = |pod: &Pod| (pod.key.clone(), pod.origin.clone());
        self.by_key.values().map(origin).collect()
    }

    /// Puts a pod in; gives the addresses that it did not have or has no more, nothing when it says
    /// what it said.
    pub(super) fn put(&mut self, pod: Pod) -> Vec<PodAddress> {
        let key = pod.key.clone();
        let after = addresses_of(&pod);
        let before = self.by_key.insert(key, pod);
        let before = before.as_ref().map(addresses_of).unwrap_or_default();
        self.count_again(&before, &after)
    }

    /// Takes a pod out; gives its addresses, `None` when it was not there.
    pub(super) fn take(&mut self, key: &ObjectKey) -> Option<Vec<PodAddress>> {
        let before = addresses_of(&self.by_key.remove(key)?);
        Some(self.count_again(&before, &BTreeSet::new()))
    }

    /// Counts who has what after one pod changed; gives what changed.
    fn count_again(
        &mut self,
        before: &BTreeSet<PodAddress>,
        after: &BTreeSet<PodAddress>,
    ) -> Vec<PodAddress> {
        for gone in before.difference(after) {
            if let Some(count) = self.addresses.get_mut(gone) {
                *count -= 1;
                if *count == 0 {
                    self.addresses.remove(gone);
                }
            }
        }
        for new in after.difference(before) {
            *self.addresses.entry(new.clone()).or_default() += 1;
        }
        before.symmetric_difference(after).cloned().collect()
    }
}

impl State {
    /// Whether a pod of a namespace has an address.
    #[must_use]
    pub fn has_pod(&self, at: &PodAddress) -> bool {
        self.pods.has(at)
    }

    /// The addresses of all pods, by namespace.
    pub fn pods(&self) -> impl Iterator<Item = &PodAddress> {
        self.pods.addresses()
    }
}

/// The addresses of a pod.
fn addresses_of(pod: &Pod) -> BTreeSet<PodAddress> {
    let at = |address: &IpAddr| PodAddress {
        namespace: Arc::clone(&pod.key.namespace),
        address: *address,
    };
    pod.addresses.iter().map(at).collect()
}

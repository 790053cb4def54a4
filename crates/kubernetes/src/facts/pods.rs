//! The pods of a cluster as their names need them: by namespace and address.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use provenance::{ObjectKey, Origin};

use crate::facts::{Client, Pod, PodAddress};

/// The pods. Several pods of a namespace can have one address, when they use the host's network.
#[derive(Debug, Default)]
pub(super) struct Pods {
    by_key: HashMap<ObjectKey, Pod>,
    /// The names of the pods that have each address, sorted.
    addresses: BTreeMap<PodAddress, Box<[Arc<str>]>>,
    /// The number of namespaces that have a pod at each address.
    namespaces: HashMap<IpAddr, u32>,
}

impl Pods {
    pub(super) fn count(&self) -> usize {
        self.by_key.len()
    }

    /// Whether a pod of the namespace has the address.
    pub(super) fn has(&self, at: &PodAddress) -> bool {
        self.addresses.contains_key(at)
    }

    /// Whether a pod of any namespace has the address.
    pub(super) fn is_any_at(&self, address: IpAddr) -> bool {
        self.namespaces.contains_key(&address)
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = &PodAddress> {
        self.addresses.keys()
    }

    /// The addresses of pods in a namespace.
    pub(super) fn addresses_in<'a>(
        &'a self,
        namespace: &Arc<str>,
    ) -> impl Iterator<Item = &'a PodAddress> {
        let namespace = Arc::clone(namespace);
        let first = PodAddress {
            namespace: Arc::clone(&namespace),
            // IPv4 sorts before IPv6.
            address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        };
        self.addresses
            .range(first..)
            .map(|(at, _)| at)
            .take_while(move |at| at.namespace == namespace)
    }

    /// The keys and origins of all pods.
    pub(super) fn origins(&self) -> Vec<(ObjectKey, Origin)> {
        let origin = |pod: &Pod| (pod.key.clone(), pod.origin.clone());
        self.by_key.values().map(origin).collect()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.by_key.keys()
    }

    /// A pod.
    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Pod> {
        self.by_key.get(key)
    }

    /// The first pod of a namespace that has an address.
    pub(super) fn client(&self, at: &PodAddress) -> Option<Client> {
        let name = self.addresses.get(at)?.first()?;
        let key = ObjectKey {
            namespace: Arc::clone(&at.namespace),
            name: Arc::clone(name),
        };
        Some(Client {
            labels: self.by_key.get(&key)?.labels.clone(),
            namespace: key.namespace,
            name: key.name,
        })
    }

    /// Inserts a pod. Returns the addresses that it gained or lost; all its addresses when its labels changed; none
    /// when nothing changed.
    pub(super) fn put(&mut self, pod: Pod) -> Vec<PodAddress> {
        let key = pod.key.clone();
        let after = addresses_of(&pod);
        let labels = pod.labels.clone();
        let old = self.by_key.insert(key.clone(), pod);
        let before = old.as_ref().map(addresses_of).unwrap_or_default();
        let changed = self.name_again(&key.name, &before, &after);
        if old.is_some_and(|old| old.labels != labels) {
            return before.union(&after).cloned().collect();
        }
        changed
    }

    /// Removes a pod. Returns its addresses, or `None` when it did not exist.
    pub(super) fn take(&mut self, key: &ObjectKey) -> Option<Vec<PodAddress>> {
        let before = addresses_of(&self.by_key.remove(key)?);
        Some(self.name_again(&key.name, &before, &BTreeSet::new()))
    }

    /// Updates the names after one pod changed. Returns the changed addresses.
    fn name_again(
        &mut self,
        name: &Arc<str>,
        before: &BTreeSet<PodAddress>,
        after: &BTreeSet<PodAddress>,
    ) -> Vec<PodAddress> {
        for gone in before.difference(after) {
            if let Some(names) = self.addresses.get_mut(gone) {
                let others = names.iter().filter(|own| *own != name);
                *names = others.cloned().collect();
                if names.is_empty() {
                    self.addresses.remove(gone);
                    if let Entry::Occupied(mut count) = self.namespaces.entry(gone.address) {
                        *count.get_mut() -= 1;
                        if *count.get() == 0 {
                            count.remove();
                        }
                    }
                }
            }
        }
        for new in after.difference(before) {
            let names = self.addresses.entry(new.clone()).or_default();
            if names.is_empty() {
                *self.namespaces.entry(new.address).or_default() += 1;
            }
            let mut all: Vec<_> = names.iter().chain([name]).cloned().collect();
            all.sort();
            *names = all.into();
        }
        before.symmetric_difference(after).cloned().collect()
    }
}

fn addresses_of(pod: &Pod) -> BTreeSet<PodAddress> {
    let at = |address: &IpAddr| PodAddress {
        namespace: Arc::clone(&pod.key.namespace),
        address: *address,
    };
    pod.addresses.iter().map(at).collect()
}

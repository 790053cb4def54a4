//! The namespaces of pods by their addresses, for those who want to know who asks.

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use imbl::HashMap;

use crate::cluster::PodAddress;

/// The namespaces that have pods of one address, sorted. Pods of the host's network share theirs.
type Namespaces = Arc<[Arc<str>]>;

/// The pods that exist, by address. The writer publishes them with the versions; readers look without a
/// lock. A change of one pod costs one pod.
#[derive(Debug, Default)]
pub struct ClientNamespaces {
    /// The namespaces; `None` until the pods were listed for the first time.
    by_address: ArcSwapOption<HashMap<IpAddr, Namespaces>>,
}

impl ClientNamespaces {
    /// The namespace of the pod with an address: the first in order where several share it, `None` when
    /// there is no such pod, or nothing is known. An IPv4 address is the same when it comes mapped into IPv6.
    #[must_use]
    pub fn get(&self, address: IpAddr) -> Option<Arc<str>> {
        let all = self.by_address.load();
        let namespaces = all.as_ref()?.get(&address.to_canonical())?;
        namespaces.first().cloned()
    }

    /// These are all there are.
    pub fn publish_all<'a>(&self, all: impl Iterator<Item = &'a PodAddress>) {
        let mut map = HashMap::new();
        for at in all {
            set(&mut map, at, true);
        }
        self.by_address.store(Some(Arc::new(map)));
    }

    /// These have changed: each with whether it is there now.
    pub fn publish<'a>(&self, changed: impl Iterator<Item = (&'a PodAddress, bool)>) {
        let before = self.by_address.load_full().unwrap_or_default();
        let mut map = HashMap::clone(&before);
        for (at, is_there) in changed {
            set(&mut map, at, is_there);
        }
        self.by_address.store(Some(Arc::new(map)));
    }
}

/// Notes whether a pod of a namespace has an address.
fn set(map: &mut HashMap<IpAddr, Namespaces>, at: &PodAddress, is_there: bool) {
    let address = at.address.to_canonical();
    let now = map.get(&address).map_or(&[][..], |namespaces| namespaces);
    let others = now.iter().filter(|own| **own != at.namespace);
    let own = is_there.then_some(&at.namespace);
    let mut after: Vec<Arc<str>> = others.chain(own).cloned().collect();
    after.sort();
    if after.is_empty() {
        map.remove(&address);
    } else {
        map.insert(address, after.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pod's address in a namespace.
    fn at(namespace: &str, address: &str) -> PodAddress {
        PodAddress {
            namespace: namespace.into(),
            address: address.parse().unwrap(),
        }
    }

    #[test]
    fn changes_add_up_and_the_first_namespace_of_a_shared_address_counts() {
        let clients = ClientNamespaces::default();
        let get = |address: &str| clients.get(address.parse().unwrap());
        assert_eq!(get("10.0.0.1"), None);
        let all = [at("b", "10.0.0.1"), at("c", "10.0.0.2"), at("b", "fd00::1")];
        clients.publish_all(all.iter());
        assert_eq!(get("::ffff:10.0.0.1").as_deref(), Some("b"));
        assert_eq!(get("fd00::1").as_deref(), Some("b"));
        let [more, gone] = [at("a", "10.0.0.1"), at("c", "10.0.0.2")];
        clients.publish([(&more, true), (&gone, false)].into_iter());
        assert_eq!(get("10.0.0.1").as_deref(), Some("a"));
        assert_eq!(get("10.0.0.2"), None);
        clients.publish([(&more, false)].into_iter());
        assert_eq!(get("10.0.0.1").as_deref(), Some("b"));
    }
}

//! The pods of a cluster by address, to find out which pod sent a query.

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use imbl::HashMap;

use crate::facts::{PodAddress, PodLabels};

/// The pod that sent a query.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Client {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// The labels that are kept of it.
    pub labels: Option<PodLabels>,
}

/// The pods of one address, one per namespace, sorted. Pods on the host's network share their address.
type Sharing = Arc<[Client]>;

/// The existing pods by address. The writer publishes them with the versions; readers take no lock. A change of one
/// pod costs one pod.
#[derive(Debug, Default)]
pub struct ClientPods {
    /// `None` until the pods were listed for the first time.
    by_address: ArcSwapOption<HashMap<IpAddr, Sharing>>,
}

impl ClientPods {
    /// The pod with an address. If several share it, the first by namespace and name; `None` when there is no such
    /// pod, or the pods are not known yet. An IPv4 address mapped into IPv6 is the same address.
    #[must_use]
    pub fn get(&self, address: IpAddr) -> Option<Client> {
        let all = self.by_address.load();
        let sharing = all.as_ref()?.get(&address.to_canonical())?;
        sharing.first().cloned()
    }

    /// Replaces all pods. `all` has the first pod of each address in a namespace.
    pub fn publish_all<'a>(&self, all: impl Iterator<Item = (&'a PodAddress, Client)>) {
        let mut map = HashMap::new();
        for (at, pod) in all {
            set(&mut map, at, Some(pod));
        }
        self.by_address.store(Some(Arc::new(map)));
    }

    /// Updates pods. `changed` has the current first pod of each changed address.
    pub fn publish<'a>(&self, changed: impl Iterator<Item = (&'a PodAddress, Option<Client>)>) {
        let before = self.by_address.load_full().unwrap_or_default();
        let mut map = HashMap::clone(&before);
        for (at, pod) in changed {
            set(&mut map, at, pod);
        }
        self.by_address.store(Some(Arc::new(map)));
    }
}

/// Sets the pod of a namespace at an address.
fn set(map: &mut HashMap<IpAddr, Sharing>, at: &PodAddress, pod: Option<Client>) {
    let address = at.address.to_canonical();
    let now = map.get(&address).map_or(&[][..], |sharing| sharing);
    let others = now.iter().filter(|own| own.namespace != at.namespace);
    let mut after: Vec<Client> = others.cloned().chain(pod).collect();
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

    /// A pod's address in a namespace, and the pod.
    fn at(namespace: &str, address: &str) -> (PodAddress, Client) {
        let at = PodAddress {
            namespace: namespace.into(),
            address: address.parse().unwrap(),
        };
        let client = Client {
            namespace: namespace.into(),
            name: format!("{namespace}-0").into(),
            labels: None,
        };
        (at, client)
    }

    #[test]
    fn changes_add_up_and_the_first_namespace_of_a_shared_address_counts() {
        let clients = ClientPods::default();
        let get = |address: &str| {
            let found = clients.get(address.parse().unwrap())?;
            Some(format!("{}/{}", found.namespace, found.name))
        };
        assert_eq!(get("10.0.0.1"), None);
        let all = [at("b", "10.0.0.1"), at("c", "10.0.0.2"), at("b", "fd00::1")];
        clients.publish_all(all.iter().map(|(at, pod)| (at, pod.clone())));
        assert_eq!(get("::ffff:10.0.0.1").as_deref(), Some("b/b-0"));
        assert_eq!(get("fd00::1").as_deref(), Some("b/b-0"));
        let [(more, pod), (gone, _)] = [at("a", "10.0.0.1"), at("c", "10.0.0.2")];
        clients.publish([(&more, Some(pod)), (&gone, None)].into_iter());
        assert_eq!(get("10.0.0.1").as_deref(), Some("a/a-0"));
        assert_eq!(get("10.0.0.2"), None);
        clients.publish([(&more, None)].into_iter());
        assert_eq!(get("10.0.0.1").as_deref(), Some("b/b-0"));
    }
}

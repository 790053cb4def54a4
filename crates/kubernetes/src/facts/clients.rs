//! The pods of a cluster by their addresses, for those who want to know who asks.

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use imbl::HashMap;

use crate::facts::{PodAddress, PodLabels};

/// Who asks: a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Client {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Those of its labels that are kept.
    pub labels: Option<PodLabels>,
}

/// The pods of one address, one of each namespace, sorted. Pods of the host's network share theirs.
type Sharing = Arc<[Client]>;

/// The pods that exist, by address. The writer publishes them with the versions; readers look without a
/// lock. A change of one pod costs one pod.
#[derive(Debug, Default)]
pub struct ClientPods {
    /// The pods; `None` until they were listed for the first time.
    by_address: ArcSwapOption<HashMap<IpAddr, Sharing>>,
}

impl ClientPods {
    /// The pod with an address: the first in order of namespace and name where several share it, `None`
    /// when there is no such pod, or nothing is known. An IPv4 address is the same when it comes mapped
    /// into IPv6.
    #[must_use]
    pub fn get(&self, address: IpAddr) -> Option<Client> {
        let all = self.by_address.load();
        let sharing = all.as_ref()?.get(&address.to_canonical())?;
        sharing.first().cloned()
    }

    /// These are all there are: of each address in a namespace the first pod.
    pub fn publish_all<'a>(&self, all: impl Iterator<Item = (&'a PodAddress, Client)>) {
        let mut map = HashMap::new();
        for (at, pod) in all {
            set(&mut map, at, Some(pod));
        }
        self.by_address.store(Some(Arc::new(map)));
    }

    /// These have changed: each with the first pod that is there now.
    pub fn publish<'a>(&self, changed: impl Iterator<Item = (&'a PodAddress, Option<Client>)>) {
        let before = self.by_address.load_full().unwrap_or_default();
        let mut map = HashMap::clone(&before);
        for (at, pod) in changed {
            set(&mut map, at, pod);
        }
        self.by_address.store(Some(Arc::new(map)));
    }
}

/// Notes which pod of a namespace has an address.
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

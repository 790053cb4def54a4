//! An index from addresses to the Services that have them.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use provenance::ObjectKey;

/// The holders of one address: usually one Service, shared by all addresses of a slice.
#[derive(Debug)]
enum Keys {
    One(ObjectKey),
    Many(Vec<ObjectKey>),
}

impl Keys {
    fn as_slice(&self) -> &[ObjectKey] {
        match self {
            Self::One(key) => std::slice::from_ref(key),
            Self::Many(keys) => keys,
        }
    }
}

/// The holders of all addresses. There are as many addresses as endpoints, so each family has its own map, and an
/// entry is one pointer.
#[derive(Debug, Default)]
pub(super) struct Holders {
    v4: HashMap<Ipv4Addr, Arc<Keys>>,
    v6: HashMap<Ipv6Addr, Arc<Keys>>,
}

impl Holders {
    /// The holders of an address, sorted.
    pub(super) fn of(&self, address: IpAddr) -> &[ObjectKey] {
        let keys = match address {
            IpAddr::V4(v4) => self.v4.get(&v4),
            IpAddr::V6(v6) => self.v6.get(&v6),
        };
        keys.map_or(&[], |keys| keys.as_slice())
    }

    /// All addresses with a holder.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let v4 = self.v4.keys().copied().map(IpAddr::V4);
        v4.chain(self.v6.keys().copied().map(IpAddr::V6))
    }

    fn set(&mut self, address: IpAddr, keys: Option<Arc<Keys>>) {
        match (address, keys) {
            (IpAddr::V4(v4), Some(keys)) => drop(self.v4.insert(v4, keys)),
            (IpAddr::V4(v4), None) => drop(self.v4.remove(&v4)),
            (IpAddr::V6(v6), Some(keys)) => drop(self.v6.insert(v6, keys)),
            (IpAddr::V6(v6), None) => drop(self.v6.remove(&v6)),
        }
    }

    /// Adds a Service as a holder of these addresses.
    pub(super) fn hold<'a>(
        &mut self,
        key: &ObjectKey,
        addresses: impl Iterator<Item = &'a IpAddr>,
    ) {
        let mut own = None;
        for address in addresses {
            let holders = self.of(*address);
            let keys = if holders.is_empty() {
                Arc::clone(own.get_or_insert_with(|| Arc::new(Keys::One(key.clone()))))
            } else {
                let Err(place) = holders.binary_search(key) else {
                    continue;
                };
                let mut keys = holders.to_vec();
                keys.insert(place, key.clone());
                Arc::new(Keys::Many(keys))
            };
            self.set(*address, Some(keys));
        }
    }

    /// Removes a Service from the holders of an address.
    pub(super) fn release(&mut self, key: &ObjectKey, address: IpAddr) {
        let others = self.of(address).iter().filter(|holder| *holder != key);
        let mut keys: Vec<_> = others.cloned().collect();
        let keys = match keys.len() {
            0 => None,
            1 => Some(Keys::One(keys.swap_remove(0))),
            _ => Some(Keys::Many(keys)),
        };
        self.set(address, keys.map(Arc::new));
    }
}

//! Who holds which address: an index from addresses to the Services that have them.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::cluster::ObjectKey;

/// The holders of one address: most often one Service.
#[derive(Debug, Clone)]
enum Keys {
    /// Exactly one.
    One(ObjectKey),
    /// Several, sorted.
    Many(Vec<ObjectKey>),
}

impl Keys {
    /// The holders, sorted.
    fn as_slice(&self) -> &[ObjectKey] {
        match self {
            Self::One(key) => std::slice::from_ref(key),
            Self::Many(keys) => keys,
        }
    }
}

/// The holders of all addresses.
#[derive(Debug, Default)]
pub(super) struct Holders(HashMap<IpAddr, Keys>);

impl Holders {
    /// The holders of an address, sorted.
    pub(super) fn of(&self, address: IpAddr) -> &[ObjectKey] {
        self.0.get(&address).map_or(&[], Keys::as_slice)
    }

    /// All addresses that someone holds.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.0.keys().copied()
    }

    /// Notes that a Service holds an address.
    pub(super) fn hold(&mut self, key: &ObjectKey, address: IpAddr) {
        match self.0.get_mut(&address) {
            None => {
                self.0.insert(address, Keys::One(key.clone()));
            }
            Some(holders) => {
                let mut keys = holders.as_slice().to_vec();
                if let Err(place) = keys.binary_search(key) {
                    keys.insert(place, key.clone());
                    *holders = Keys::Many(keys);
                }
            }
        }
    }

    /// Notes that a Service holds an address no more.
    pub(super) fn release(&mut self, key: &ObjectKey, address: IpAddr) {
        let Some(holders) = self.0.get_mut(&address) else {
            return;
        };
        let mut keys: Vec<_> = holders
            .as_slice()
            .iter()
            .filter(|holder| *holder != key)
            .cloned()
            .collect();
        match keys.len() {
            0 => {
                self.0.remove(&address);
            }
            1 => *holders = Keys::One(keys.swap_remove(0)),
            _ => *holders = Keys::Many(keys),
        }
    }
}

//! Places for transfers. They are limited in all and for each peer, so that a slow peer leaves some to others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dns::Name;

use crate::{PeerAddress, SecondaryId, TransferSettings};

/// A peer: an address, or one key at it.
type Peer = (PeerAddress, Option<Name>);

/// The reason why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// All places are in use.
    #[error("too many transfers at once")]
    All,
    /// The peer has the most places that it may have.
    #[error("too many transfers at once by this peer")]
    Peer,
}

/// Places for transfers.
#[derive(Debug)]
pub struct Slots {
    most: usize,
    most_per_peer: usize,
    /// The number of places of each peer that has any.
    taken: Mutex<HashMap<Peer, usize>>,
}

/// One place, which is free again when this is dropped.
#[derive(Debug)]
pub struct Slot {
    peer: Peer,
    /// The places that it belongs to.
    slots: Arc<Slots>,
}

impl Slots {
    /// All places are free at the start.
    #[must_use]
    pub fn new(settings: &TransferSettings) -> Self {
        Self {
            most: settings.max_at_once,
            most_per_peer: settings.max_per_peer,
            taken: Mutex::default(),
        }
    }

    /// Takes a place for a peer.
    pub fn take(self: &Arc<Self>, peer: &SecondaryId) -> Result<Slot, Full> {
        let peer = (PeerAddress::from(peer.address), peer.key.clone());
        let mut taken = self.lock();
        if taken.values().sum::<usize>() >= self.most {
            return Err(Full::All);
        }
        let own = taken.get(&peer).copied().unwrap_or_default();
        if own >= self.most_per_peer {
            return Err(Full::Peer);
        }
        taken.insert(peer.clone(), own + 1);
        Ok(Slot {
            peer,
            slots: Arc::clone(self),
        })
    }

    /// The number of places in use.
    #[cfg(any(test, feature = "testing"))]
    pub fn taken(&self) -> usize {
        self.lock().values().sum()
    }

    /// Locks the counts, even if a thread panicked while it held the lock.
    fn lock(&self) -> MutexGuard<'_, HashMap<Peer, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.slots.lock();
        if let Some(own) = taken.get_mut(&self.peer) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use dns::testing::name;

    use super::*;

    fn peer(address: &str, key: Option<&str>) -> SecondaryId {
        SecondaryId {
            address: address.parse().unwrap(),
            key: key.map(name),
        }
    }

    /// Places, three in all, two a peer.
    fn slots() -> Arc<Slots> {
        Arc::new(Slots::new(&TransferSettings {
            max_at_once: 3,
            max_per_peer: 2,
            ..TransferSettings::default()
        }))
    }

    #[test]
    fn a_peer_has_its_share_and_another_finds_a_place() {
        let slots = slots();
        let greedy = peer("192.0.2.1:4000", None);
        let held = [slots.take(&greedy).unwrap(), slots.take(&greedy).unwrap()];
        let mapped = peer("[::ffff:192.0.2.1]:4001", None);
        assert_eq!(slots.take(&mapped).unwrap_err(), Full::Peer);
        // Several peers at one address are distinguished by their keys.
        let other = slots.take(&peer("192.0.2.1:4002", Some("k."))).unwrap();
        let third = peer("192.0.2.3:4000", None);
        assert_eq!(slots.take(&third).unwrap_err(), Full::All);
        drop((held, other));
        assert_eq!(slots.taken(), 0);
        assert!(slots.lock().is_empty(), "nobody who has none is remembered");
    }

    #[test]
    fn one_address_on_two_links_is_two_peers() {
        let slots = slots();
        let of = |address| peer(address, None);
        let held = ["[fe80::1%2]:4000", "[fe80::1%2]:4001"].map(|it| slots.take(&of(it)).unwrap());
        assert_eq!(slots.take(&of("[fe80::1%2]:4002")).unwrap_err(), Full::Peer);
        drop(slots.take(&of("[fe80::1%3]:4000")).unwrap());
        drop(held);
    }

    #[test]
    fn a_place_that_is_given_back_is_free() {
        let slots = slots();
        let one = peer("192.0.2.1:4000", None);
        let first = slots.take(&one).unwrap();
        let second = slots.take(&one).unwrap();
        drop(first);
        let third = slots.take(&one).unwrap();
        assert_eq!(slots.taken(), 2);
        drop((second, third));
    }
}

//! Replies by question, bounded by the memory that they take.
//!
//! `quick_cache` chooses the reply to evict (by S3-FIFO): replies with only one question go first. So a flood of new
//! names does not evict the replies that clients ask for again and again.

use std::hash::RandomState;
use std::sync::Arc;

use quick_cache::sync::Cache;
use quick_cache::{Lifecycle, OptionsBuilder, Weighter};

use crate::cache::handler::item::Item;

/// The parts of the cache, each with its own lock.
const SHARDS: usize = 16;
/// The fewest replies that fit, as in CoreDNS.
const LEAST: usize = 1024;
/// The bytes of a place: a reply takes one place, a larger one as many as it fills.
pub(super) const PLACE_BYTES: u64 = 2048;
/// The share of the places for replies that had a second question. New replies take the rest: the larger it is, the
/// longer a new reply stays until its second question.
const HOT_PART: f64 = 0.8;
/// The bytes that each reply takes in the cache's own tables.
const ENTRY_BYTES: usize = 64;
/// The longest key: a name, type, class, whether DO and CD are set, and a subnet.
pub(super) const KEY_OCTETS: usize = 255 + 2 + 2 + 1 + SUBNET_OCTETS;
/// The longest subnet: family, two lengths, an address of IPv6 (RFC 7871 section 6).
const SUBNET_OCTETS: usize = 2 + 1 + 1 + 16;

type Key = Box<[u8]>;

/// Weighs replies by the bytes of memory that they take.
#[derive(Debug, Clone)]
struct Bytes;

impl Weighter<Key, Arc<Item>> for Bytes {
    fn weight(&self, key: &Key, item: &Arc<Item>) -> u64 {
        let bytes = ENTRY_BYTES + key.len() + item.bytes();
        (bytes as u64).max(PLACE_BYTES)
    }
}

/// Collects the evicted replies, so that they are counted and freed while no lock is held.
#[derive(Debug, Clone)]
struct Collect;

impl Lifecycle<Key, Arc<Item>> for Collect {
    type RequestState = Vec<(Key, Arc<Item>)>;

    fn on_evict(&self, evicted: &mut Self::RequestState, key: Key, item: Arc<Item>) {
        evicted.push((key, item));
    }
}

/// The replies of one kind.
#[derive(Debug)]
pub(super) struct Store(Cache<Key, Arc<Item>, Bytes, RandomState, Collect>);

impl Store {
    /// A store with this number of places; at least 1024.
    pub(super) fn new(capacity: usize) -> Self {
        let capacity = capacity.max(LEAST);
        let options = OptionsBuilder::new()
            .shards(SHARDS)
            .hot_allocation(HOT_PART)
            .estimated_items_capacity(capacity)
            .weight_capacity((capacity as u64).saturating_mul(PLACE_BYTES))
            .build()
            .expect("both capacities are set");
        // Clients choose the keys, so the hash has a random secret.
        Self(Cache::with_options(
            options,
            Bytes,
            RandomState::new(),
            Collect,
        ))
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<Arc<Item>> {
        self.0.get(key)
    }

    /// Stores a reply, unless it is larger than a twentieth of the store. Returns the number of other replies that it
    /// evicted.
    pub(super) fn put(&self, key: &[u8], item: Arc<Item>) -> u64 {
        let mut evicted = Vec::new();
        self.0.insert_with_lifecycle(key.into(), item, &mut evicted);
        // `evicted` may also hold, under this reply's key, the reply that it replaced, or the reply itself if it was
        // too large.
        let others = evicted.iter().filter(|(other, _)| **other != *key);
        others.count() as u64
    }

    /// Removes a reply.
    pub(super) fn remove(&self, key: &[u8]) {
        self.0.remove(key);
    }

    /// Removes this reply, unless another one has replaced it.
    pub(super) fn remove_this(&self, key: &[u8], item: &Arc<Item>) {
        self.0.remove_if(key, |there| Arc::ptr_eq(there, item));
    }

    /// The number of replies.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    #[cfg(test)]
    pub(super) fn weight(&self) -> u64 {
        self.0.weight()
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use dns::{Name, Rcode, Rdata, Record, Rtype, Ttl};
    use server::message::Reply;

    /// A reply with this number of records.
    fn item(records: usize) -> Arc<Item> {
        let record = Record {
            owner: Name::root(),
            rtype: Rtype::TXT,
            ttl: Ttl::decode(60),
            rdata: Rdata::txt("x"),
        };
        let mut reply = Reply::empty("x", Rcode::NOERROR, 0);
        reply.answers = vec![record; records];
        #[allow(clippy::disallowed_methods, reason = "any moment will do")]
        Arc::new(Item::new(&reply, true, 1, std::time::Instant::now()))
    }

    #[test]
    fn there_are_never_more_than_there_may_be() {
        let store = Store::new(0);
        let mut gone = 0;
        for number in 0..5000_u32 {
            gone += store.put(&number.to_be_bytes(), item(1));
        }
        let kept = u64::from(store.count());
        assert!(kept <= 1024 && kept > 900, "{kept}");
        assert_eq!(kept + gone, 5000);
        assert_eq!(store.weight(), kept * PLACE_BYTES);
        let last = 4999_u32.to_be_bytes();
        let there = store.get(&last).unwrap();
        let other = item(1);
        let made_room = store.put(&last, Arc::clone(&other));
        assert_eq!(made_room, 0, "the same key needs no room");
        store.remove_this(&last, &there);
        assert!(store.get(&last).is_some_and(|it| Arc::ptr_eq(&it, &other)));
        store.remove_this(&last, &other);
        assert!(store.get(&last).is_none());
    }

    #[test]
    fn a_large_reply_takes_many_places_and_one_that_is_too_large_none() {
        let store = Store::new(1024);
        let bound = 1024 * PLACE_BYTES;
        let bytes = item(200).bytes() as u64;
        assert!(bytes > 4 * PLACE_BYTES, "{bytes}");
        for number in 0..2000_u16 {
            store.put(&number.to_be_bytes(), item(200));
        }
        let weight = store.weight();
        assert!(bound / 2 < weight && weight <= bound, "{weight}");
        let kept = u64::from(store.count());
        assert!(kept * bytes <= weight, "{kept}");
        let huge = item(2000);
        assert!(huge.bytes() as u64 > bound / 20);
        assert!(store.put(b"x", item(1)) <= 1);
        assert_eq!(store.put(b"x", huge), 0, "it makes no other go");
        assert!(store.get(b"x").is_none(), "nor does the old one stay");
    }
}

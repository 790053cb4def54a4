//! Replies by question, never more than a set number of them.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::handlers::cache::item::Item;

/// Parts with a lock of their own, as CoreDNS has.
const SHARDS: usize = 256;
/// The fewest replies of a part.
const LEAST: usize = 4;
/// The longest key: a name, type, class, and whether DO and CD are set.
pub(super) const KEY_OCTETS: usize = 255 + 2 + 2 + 1;

/// One part.
type Shard = Mutex<HashMap<Box<[u8]>, Arc<Item>>>;

/// The replies of one kind.
#[derive(Debug)]
pub(super) struct Store {
    /// Its parts. Each lock is held for one look.
    shards: Box<[Shard]>,
    /// The most replies of a part.
    most: usize,
    /// Chooses the part of a key.
    hasher: RandomState,
    /// How many there are.
    count: AtomicI64,
}

impl Store {
    /// A store for about so many replies; at least 1024.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            most: (capacity / SHARDS).max(LEAST),
            hasher: RandomState::new(),
            count: AtomicI64::new(0),
        }
    }

    /// The part of a key.
    fn shard(&self, key: &[u8]) -> MutexGuard<'_, HashMap<Box<[u8]>, Arc<Item>>> {
        let [first, ..] = self.hasher.hash_one(key).to_le_bytes();
        let shard = &self.shards[usize::from(first) % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reply for a key.
    pub(super) fn get(&self, key: &[u8]) -> Option<Arc<Item>> {
        self.shard(key).get(key).cloned()
    }

    /// Puts a reply; true when another one had to go.
    pub(super) fn put(&self, key: &[u8], item: Arc<Item>) -> bool {
        let mut shard = self.shard(key);
        let is_full = shard.len() >= self.most && !shard.contains_key(key);
        if is_full {
            // The order of the map is as good as random.
            let other = shard.keys().next().cloned();
            other.and_then(|other| shard.remove(&other));
        }
        let is_new = shard.insert(key.into(), item).is_none();
        if is_new && !is_full {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        is_full
    }

    /// Removes a reply.
    pub(super) fn remove(&self, key: &[u8]) {
        if self.shard(key).remove(key).is_some() {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> i64 {
        self.count.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dns::Rcode;
    use server::message::Reply;

    #[test]
    fn there_are_never_more_than_there_may_be() {
        let store = Store::new(0);
        let reply = Reply::empty("x", Rcode::NOERROR, 0);
        #[allow(clippy::disallowed_methods, reason = "any moment will do")]
        let item = Arc::new(Item::new(&reply, true, 1, std::time::Instant::now()));
        let mut gone = 0;
        for number in 0..5000_u32 {
            gone += i64::from(store.put(&number.to_be_bytes(), Arc::clone(&item)));
        }
        assert!(
            store.count() <= 1024 && store.count() > 900,
            "{}",
            store.count()
        );
        assert_eq!(store.count() + gone, 5000);
        let last = 4999_u32.to_be_bytes();
        assert!(store.get(&last).is_some());
        assert!(!store.put(&last, item), "the same key needs no room");
        store.remove(&last);
        assert!(store.get(&last).is_none());
    }
}

//! Places for connections, in all and for each source. A newcomer who finds all taken gets the place of the connection
//! that has been idle longest, so nobody keeps others out by connections that do nothing.
//!
//! A source is an IPv4 address, or an IPv6 network of 64 bits: whoever has one address of it has all.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// The last turn of a connection that is in use.
const IN_USE: u64 = u64::MAX;

/// How many places there are. It is an argument each time: a reload may change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaceLimits {
    /// The most connections.
    pub most: usize,
    /// The most connections of one source.
    pub most_of_source: usize,
    /// How many of all places only named clients may take.
    pub reserved: usize,
}

/// Places for connections.
#[derive(Debug, Clone, Default)]
pub struct Places(Arc<Mutex<Taken>>);

/// Locked for one look and one write; choosing who makes room looks at all connections.
#[derive(Debug, Default)]
struct Taken {
    next_id: u64,
    connections: HashMap<u64, Seated>,
    sources: HashMap<IpAddr, usize>,
    named: usize,
    /// Grows each time a connection becomes idle.
    turns: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Seated {
    source: IpAddr,
    is_named: bool,
    usage: Usage,
    evicted: CancellationToken,
}

/// Notes whether a connection is in use. Idle is one that has no request in progress, and none yet.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    /// The turn in which the connection became idle, or [`IN_USE`].
    idle_since: Arc<AtomicU64>,
    turns: Arc<AtomicU64>,
}

/// A place for one connection, while it lives.
#[derive(Debug)]
pub struct Place {
    taken: Arc<Mutex<Taken>>,
    id: u64,
    usage: Usage,
    evicted: CancellationToken,
}

/// The source that an address is counted as.
#[must_use]
pub fn source_of(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

fn lock(taken: &Mutex<Taken>) -> MutexGuard<'_, Taken> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Places {
    /// Whether fewer than half of so many are free.
    #[must_use]
    pub fn are_scarce(&self, most: usize) -> bool {
        lock(&self.0).connections.len() > most / 2
    }

    /// A place for a client, if it may have one: a free one, or that of an idle connection, which is evicted. Named clients
    /// are those that the configuration names; others take no reserved place and evict no named client.
    #[must_use]
    pub fn take(&self, client: IpAddr, limits: PlaceLimits, is_named: bool) -> Option<Place> {
        let mut taken = lock(&self.0);
        let source = source_of(client);
        let own = taken.sources.get(&source).copied().unwrap_or_default();
        if own >= limits.most_of_source {
            return None;
        }
        let all = taken.connections.len();
        let strangers = all - taken.named;
        let is_full = all >= limits.most
            || !is_named && strangers >= limits.most.saturating_sub(limits.reserved);
        if is_full {
            let loser = taken.loser(source, is_named)?;
            if let Some(seated) = taken.remove(loser) {
                seated.evicted.cancel();
            }
        }
        let turns = Arc::clone(&taken.turns);
        let idle_since = turns.fetch_add(1, Ordering::Relaxed);
        let usage = Usage {
            idle_since: Arc::new(AtomicU64::new(idle_since)),
            turns,
        };
        let evicted = CancellationToken::new();
        let id = taken.next_id;
        taken.next_id += 1;
        *taken.sources.entry(source).or_insert(0) += 1;
        taken.named += usize::from(is_named);
        let seated = Seated {
            source,
            is_named,
            usage: usage.clone(),
            evicted: evicted.clone(),
        };
        taken.connections.insert(id, seated);
        Some(Place {
            taken: Arc::clone(&self.0),
            id,
            usage,
            evicted,
        })
    }
}

impl Taken {
    /// The connection that makes room for a newcomer of a source: of the idle ones of the source with the most connections
    /// the longest idle one. The newcomer counts as one more of its source. `None` when all are in use, or belong to
    /// sources with fewer connections.
    fn loser(&self, source: IpAddr, is_named: bool) -> Option<u64> {
        let count = |of: &IpAddr| {
            let own = self.sources.get(of).copied().unwrap_or_default();
            own + usize::from(*of == source)
        };
        let least = count(&source);
        let rated = self.connections.iter().filter_map(|(id, seated)| {
            let idle_since = seated.usage.idle_since.load(Ordering::Relaxed);
            let may_go = idle_since != IN_USE && (is_named || !seated.is_named);
            let count = count(&seated.source);
            (may_go && count >= least).then_some((count, Reverse(idle_since), *id))
        });
        rated.max().map(|(_, _, id)| id)
    }

    fn remove(&mut self, id: u64) -> Option<Seated> {
        let seated = self.connections.remove(&id)?;
        self.named -= usize::from(seated.is_named);
        if let Some(count) = self.sources.get_mut(&seated.source) {
            *count -= 1;
            if *count == 0 {
                self.sources.remove(&seated.source);
            }
        }
        Some(seated)
    }
}

impl Usage {
    /// The connection has a request.
    pub fn work(&self) {
        self.idle_since.store(IN_USE, Ordering::Relaxed);
    }

    /// The connection has no request any more.
    pub fn rest(&self) {
        if self.idle_since.load(Ordering::Relaxed) != IN_USE {
            return;
        }
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        self.idle_since.store(turn, Ordering::Relaxed);
    }
}

impl Place {
    /// Where the connection notes whether it is in use.
    #[must_use]
    pub const fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Does the work of the connection until another gets the place; `None` then.
    pub async fn while_held<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.evicted.run_until_cancelled(work).await
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.taken).remove(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: PlaceLimits = PlaceLimits {
        most: 4,
        most_of_source: 3,
        reserved: 1,
    };

    fn take(places: &Places, client: &str) -> Option<Place> {
        places.take(client.parse().unwrap(), LIMITS, false)
    }

    /// security 9: "when full, close the longest idle of the address with most".
    #[test]
    fn the_longest_idle_connection_of_the_source_with_the_most_makes_room() {
        let places = Places::default();
        let taken = ["192.0.2.9", "192.0.2.1", "192.0.2.1"];
        let [other, first, second] = taken.map(|client| take(&places, client).unwrap());
        // The first was used after the second.
        first.usage().work();
        first.usage().rest();
        let newcomer = take(&places, "192.0.2.2").unwrap();
        let evicted = [&other, &first, &second].map(|place| place.evicted.is_cancelled());
        assert_eq!(evicted, [false, false, true]);
        // Now all have one: who comes as another's second one evicts its own.
        drop(second);
        let again = take(&places, "192.0.2.2").unwrap();
        assert!(newcomer.evicted.is_cancelled() && !other.evicted.is_cancelled());
        assert_eq!(lock(&places.0).connections.len(), 3);
        drop((other, first, newcomer, again));
        assert!(lock(&places.0).sources.is_empty());
    }

    #[test]
    fn connections_in_use_make_no_room() {
        let places = Places::default();
        let clients = ["192.0.2.1", "192.0.2.2", "192.0.2.3"];
        let taken = clients.map(|client| take(&places, client).unwrap());
        taken.iter().for_each(|place| place.usage().work());
        assert!(take(&places, "192.0.2.4").is_none());
        taken[1].usage().rest();
        assert!(take(&places, "192.0.2.4").is_some());
        assert!(taken[1].evicted.is_cancelled());
    }

    /// security 9: "one IPv6 /64" is one source, and an IPv4 address is the same if it is mapped.
    #[test]
    fn the_addresses_of_a_source_share_its_places() {
        let places = Places::default();
        let of_v6 = ["2001:db8::1", "2001:db8::2", "2001:db8:0:0:ffff::"];
        let _v6 = of_v6.map(|client| take(&places, client).unwrap());
        assert!(take(&places, "2001:db8::3").is_none());
        assert!(take(&places, "2001:db8:0:1::1").is_some());
        let places = Places::default();
        let of_v4 = ["192.0.2.1", "::ffff:192.0.2.1", "192.0.2.1"];
        let _v4 = of_v4.map(|client| take(&places, client).unwrap());
        assert!(take(&places, "192.0.2.1").is_none());
    }

    /// security 9: "reserve a share for `access` addresses".
    #[test]
    fn a_reserved_place_is_for_named_clients_and_nobody_else_takes_it() {
        let places = Places::default();
        let clients = ["192.0.2.1", "192.0.2.2", "192.0.2.3"];
        let strangers = clients.map(|client| take(&places, client).unwrap());
        strangers.iter().for_each(|place| place.usage().work());
        assert!(take(&places, "192.0.2.4").is_none());
        let friend = "192.0.2.5".parse().unwrap();
        let named = places.take(friend, LIMITS, true).unwrap();
        strangers[0].usage().rest();
        assert!(take(&places, "192.0.2.4").is_some());
        assert!(strangers[0].evicted.is_cancelled() && !named.evicted.is_cancelled());
    }
}

//! Response rate limiting: a network outside of the cluster gets only so many datagrams a second. Queries with a forged
//! source would else make this server send its answers, which are larger, to somebody who asked for nothing.
//!
//! Counted are replies to the networks of clients. Equal answers, denials of one zone, referrals and errors are counted
//! apart, so that one kind leaves room for the others. What is too much is dropped, or answered with TC: a client that
//! is really there asks again over TCP. Connections, signed requests and requests with a good cookie are not limited,
//! since their addresses are proven.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use dns::{Network, Rcode};

/// The number of counters, a power of two: 512 KiB.
const COUNTERS: usize = 1 << 16;
/// All positive answers to a network may be so many times the limit of equal ones.
const POSITIVE_IN_ALL: u32 = 10;
/// The highest limit that can be counted: [`POSITIVE_IN_ALL`] times this fits into a counter.
pub const MOST_PER_SECOND: u32 = 100_000;

/// The layout of a counter, from the top: the mark of its subject, a second, an average and a count.
const COUNT_BITS: u32 = 20;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;
const SECOND_BITS: u32 = 8;
/// Seconds after which an average is nothing.
const FORGOTTEN_AFTER: u64 = 20;

/// The limits of a server block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimit {
    /// The most equal replies to a network in a second; `None` is without limit.
    pub per_second: Option<u32>,
    /// Each reply of this number that is over the limit is sent with TC; 0 drops all.
    pub slip: u32,
    /// The length of the prefix that makes a network of IPv4 addresses, up to 32.
    pub ipv4_prefix: u8,
    /// The length of the prefix that makes a network of IPv6 addresses, up to 128.
    pub ipv6_prefix: u8,
    /// The networks without limit; `None` means private addresses.
    pub allowed: Option<Vec<Network>>,
}

impl Default for RateLimit {
    fn default() -> Self {
        Self {
            per_second: Some(200),
            slip: 2,
            ipv4_prefix: 24,
            ipv6_prefix: 56,
            allowed: None,
        }
    }
}

/// What happens to a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is sent.
    Send,
    /// An empty one with TC is sent.
    Slip,
    /// Nothing is sent.
    Drop,
}

/// The kind of a reply, with what tells equal replies from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind<'a> {
    /// Records for a name in lower case.
    Positive(&'a [u8]),
    /// Any records.
    AnyPositive,
    /// NODATA below a key.
    NoData(Option<usize>),
    /// NXDOMAIN below a key.
    Missing(Option<usize>),
    /// A referral below a key.
    Referral(Option<usize>),
    /// Another response code.
    Error(Rcode),
}

impl RateLimit {
    /// Whether replies to an address are limited.
    pub(crate) fn limits(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.per_second.is_some()
            && match &self.allowed {
                None => !is_private(address),
                Some(allowed) => !allowed.iter().any(|network| network.contains(address)),
            }
    }

    /// The network of an address.
    fn network(&self, address: IpAddr) -> Network {
        let address = address.to_canonical();
        let prefix = match address {
            IpAddr::V4(_) => self.ipv4_prefix,
            IpAddr::V6(_) => self.ipv6_prefix,
        };
        Network::new(address, prefix).unwrap_or_else(|| Network::of(address))
    }
}

/// Whether an address is of a private network (RFC 1918, 6598, 4193), of a link or of this machine.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            address.is_private()
                || address.is_loopback()
                || address.is_link_local()
                || (first, second & 0xc0) == (100, 64)
        }
        IpAddr::V6(address) => {
            address == Ipv6Addr::LOCALHOST
                || address.is_unique_local()
                || address.is_unicast_link_local()
        }
    }
}

/// The replies of the last seconds, by network and kind. It has a fixed size: two subjects that share a counter take it
/// from each other, and are then limited later.
#[derive(Debug, Default)]
pub struct ReplyRates {
    /// Made for the first network that is limited.
    counters: OnceLock<Box<[AtomicU64]>>,
    /// Secret, so that nobody can choose addresses or names that share a counter.
    hasher: RandomState,
}

impl ReplyRates {
    /// Counts a reply and judges it. `second` is the time.
    pub(crate) fn judge(
        &self,
        limit: &RateLimit,
        address: IpAddr,
        kind: Kind<'_>,
        second: u64,
    ) -> Verdict {
        let Some(most) = limit.per_second else {
            return Verdict::Send;
        };
        let network = limit.network(address);
        let in_all = matches!(kind, Kind::Positive(_)).then(|| {
            let most = most.saturating_mul(POSITIVE_IN_ALL);
            self.over((network, Kind::AnyPositive), most, second)
        });
        let equal = self.over((network, kind), most, second);
        match equal.or(in_all.flatten()) {
            None => Verdict::Send,
            Some(number) if limit.slip > 0 && number % limit.slip == 0 => Verdict::Slip,
            Some(_) => Verdict::Drop,
        }
    }

    /// Counts a reply. When there are more than `most` a second, returns its number in this second.
    fn over(&self, subject: (Network, Kind<'_>), most: u32, second: u64) -> Option<u32> {
        let counters = self
            .counters
            .get_or_init(|| (0..COUNTERS).map(|_| AtomicU64::new(0)).collect());
        let hash = self.hasher.hash_one(subject);
        let place = usize::try_from(hash % COUNTERS as u64).ok()?;
        let counter = counters.get(place)?;
        let next = |old| Some(counted(old, hash, second));
        // The closure never refuses.
        let old = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        let new = counted(old.unwrap_or_else(|old| old), hash, second);
        let count = new & COUNT_MASK;
        let average = new >> COUNT_BITS & COUNT_MASK;
        let number = u32::try_from(count).unwrap_or(u32::MAX);
        (count.max(average) > u64::from(most)).then_some(number)
    }
}

/// A counter with one reply more, for the subject with this hash.
fn counted(old: u64, hash: u64, second: u64) -> u64 {
    let mark = hash >> (2 * COUNT_BITS + SECOND_BITS);
    let second = second & ((1 << SECOND_BITS) - 1);
    let parts = |average: u64, count: u64| {
        let high = (mark << SECOND_BITS | second) << (2 * COUNT_BITS);
        high | average.min(COUNT_MASK) << COUNT_BITS | count.min(COUNT_MASK)
    };
    let (average, count) = (old >> COUNT_BITS & COUNT_MASK, old & COUNT_MASK);
    let since = old >> (2 * COUNT_BITS) & ((1 << SECOND_BITS) - 1);
    if old >> (2 * COUNT_BITS + SECOND_BITS) != mark {
        return parts(0, 1);
    }
    match second.wrapping_sub(since) & ((1 << SECOND_BITS) - 1) {
        0 => parts(average, count + 1),
        seconds if seconds <= FORGOTTEN_AFTER => parts((average + count) >> seconds, 1),
        _ => parts(0, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// How many of `count` replies in a second are sent, slipped and dropped.
    fn sent(
        rates: &ReplyRates,
        limit: &RateLimit,
        kind: Kind<'_>,
        count: u32,
        second: u64,
    ) -> [u32; 3] {
        let mut all = [0; 3];
        for _ in 0..count {
            let verdict = rates.judge(limit, address("198.51.100.7"), kind, second);
            all[verdict as usize] += 1;
        }
        all
    }

    fn limit(per_second: u32) -> RateLimit {
        RateLimit {
            per_second: Some(per_second),
            ..RateLimit::default()
        }
    }

    #[test]
    fn replies_above_the_limit_slip_every_second_time_or_are_dropped() {
        let kind = Kind::Positive(b"\x01a\x00");
        for (slip, want) in [(2, [10, 45, 45]), (1, [10, 90, 0]), (0, [10, 0, 90])] {
            let limit = RateLimit { slip, ..limit(10) };
            assert_eq!(sent(&ReplyRates::default(), &limit, kind, 100, 7), want);
        }
        let off = RateLimit {
            per_second: None,
            ..limit(10)
        };
        assert_eq!(
            sent(&ReplyRates::default(), &off, kind, 100, 7),
            [100, 0, 0]
        );
    }

    #[test]
    fn a_steady_rate_at_the_limit_is_sent_and_a_flood_is_remembered_for_seconds() {
        let (rates, limit) = (ReplyRates::default(), limit(10));
        let kind = Kind::Missing(Some(1));
        for second in 250..270 {
            assert_eq!(
                sent(&rates, &limit, kind, 10, second),
                [10, 0, 0],
                "{second}"
            );
        }
        sent(&rates, &limit, kind, 1000, 270);
        // 1000 in one second are an average of 500, 250 … in the next ones.
        for second in 271..277 {
            assert_eq!(sent(&rates, &limit, kind, 1, second)[0], 0, "{second}");
        }
        assert_eq!(sent(&rates, &limit, kind, 1, 280), [1, 0, 0]);
    }

    #[test]
    fn kinds_names_and_networks_are_counted_apart_and_positive_answers_in_all_too() {
        let (rates, limit) = (ReplyRates::default(), limit(10));
        let kinds = [
            Kind::Positive(b"\x01a\x00"),
            Kind::Positive(b"\x01b\x00"),
            Kind::NoData(Some(0)),
            Kind::NoData(Some(1)),
            Kind::Missing(Some(0)),
            Kind::Referral(Some(0)),
            Kind::Error(Rcode::REFUSED),
        ];
        for kind in kinds {
            assert_eq!(sent(&rates, &limit, kind, 10, 1), [10, 0, 0], "{kind:?}");
        }
        let verdict = |at: &str| rates.judge(&limit, address(at), kinds[2], 1);
        assert_ne!(verdict("198.51.100.250"), Verdict::Send, "one network");
        assert_eq!(verdict("198.51.101.7"), Verdict::Send, "another network");
        let rates = ReplyRates::default();
        let mut passed = 0;
        for name in 0..200_u8 {
            passed += sent(&rates, &limit, Kind::Positive(&[1, name, 0]), 1, 1)[0];
        }
        assert_eq!(passed, 100);
    }

    #[test]
    fn private_networks_are_not_limited_unless_others_are_named() {
        let usual = RateLimit::default();
        for private in [
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "127.0.0.1",
            "169.254.1.1",
            "100.64.0.1",
            "100.127.255.255",
            "::1",
            "fd00::1",
            "fe80::1",
            "::ffff:10.1.2.3",
        ] {
            assert!(!usual.limits(address(private)), "{private}");
        }
        for public in [
            "9.9.9.9",
            "100.63.0.1",
            "100.128.0.1",
            "2001:db8::1",
            "::ffff:9.9.9.9",
        ] {
            assert!(usual.limits(address(public)), "{public}");
        }
        let named = RateLimit {
            allowed: Some(vec!["198.51.100.0/24".parse().unwrap()]),
            ..usual
        };
        assert!(named.limits(address("10.1.2.3")));
        assert!(!named.limits(address("198.51.100.9")));
    }
}

//! Counts queries as CoreDNS does: by server, zone of the block, protocol, type, response code and handler.
//!
//! Counting a query allocates nothing, and locks only for the codes of HTTP and QUIC. Each counter has several shards,
//! so that threads of several sockets seldom write to the same memory. A scrape adds them up. Sizes are those on the
//! wire.

use std::collections::BTreeMap;
use std::iter;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use dns::{Rcode, Rtype};

use crate::stats::Count;
use crate::{Found, Proto};

/// The types with a counter of their own, as in CoreDNS. The last one is for all others.
pub const TYPES: [&str; 20] = [
    "A", "AAAA", "ANY", "AXFR", "CNAME", "DNSKEY", "DS", "HTTPS", "IXFR", "MX", "NS", "NSEC",
    "NSEC3", "PTR", "RRSIG", "SOA", "SRV", "SVCB", "TXT", "other",
];
/// Upper bounds of the duration in seconds: 0.25 ms, doubled fifteen times.
pub const DURATIONS: [f64; 16] = [
    0.000_25, 0.000_5, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024,
    2.048, 4.096, 8.192,
];
/// Upper bounds of sizes in octets.
pub const SIZES: [f64; 14] = [
    0.0, 100.0, 200.0, 300.0, 400.0, 511.0, 1023.0, 2047.0, 4095.0, 8291.0, 16e3, 32e3, 48e3, 64e3,
];
/// The number of response codes with a counter of their own.
const RCODES: usize = 24;

/// A histogram: the number of values in each bucket alone, and their sum.
#[derive(Debug)]
pub struct Buckets<const N: usize> {
    counts: [Count; N],
    above: Count,
    /// The sum, in the unit of the caller.
    sum: Count,
}

impl<const N: usize> Default for Buckets<N> {
    fn default() -> Self {
        Self {
            counts: std::array::from_fn(|_| Count::default()),
            above: Count::default(),
            sum: Count::default(),
        }
    }
}

impl<const N: usize> Buckets<N> {
    /// Counts a value, and adds `amount` to the sum.
    fn add(&self, bounds: &[f64; N], value: f64, amount: u64) {
        let place = bounds.iter().position(|bound| value <= *bound);
        let count = place.map_or(&self.above, |place| &self.counts[place]);
        count.increase();
        self.sum.add(amount);
    }
}

/// The counters of one protocol.
#[derive(Debug, Default)]
struct OfProto {
    /// Requests by family and type.
    requests: [[Count; TYPES.len()]; 2],
    /// Octets of requests.
    request: Buckets<{ SIZES.len() }>,
    /// Octets of replies.
    reply: Buckets<{ SIZES.len() }>,
}

/// One shard of all counters.
#[derive(Debug)]
struct Shard {
    /// UDP, then TCP.
    protos: [OfProto; 2],
    /// The times taken to answer; their sum is in nanoseconds.
    durations: Buckets<{ DURATIONS.len() }>,
    /// Requests with DO.
    dnssec_ok: Count,
    /// Replies by response code and handler.
    replies: Box<[Box<[Count]>]>,
}

impl Shard {
    /// All counters at zero, for this number of handlers.
    fn new(handlers: usize) -> Self {
        let by_handler = || (0..handlers).map(|_| Count::default()).collect();
        Self {
            protos: Default::default(),
            durations: Buckets::default(),
            dnssec_ok: Count::default(),
            replies: (0..=RCODES).map(|_| by_handler()).collect(),
        }
    }
}

/// The handlers that may have written a reply. The first one means the server itself and all others.
type Words = Arc<[&'static str]>;

/// The counters of one server and one zone.
#[derive(Debug)]
pub struct ZoneTally {
    handlers: Words,
    /// The shards. Each is made when it is first written to.
    shards: Box<[OnceLock<Box<Shard>>]>,
}

/// The counted properties of a query and its answer.
#[derive(Debug, Clone, Copy)]
pub struct Counted<'a> {
    /// The transport.
    pub proto: Proto,
    /// The client.
    pub peer: SocketAddr,
    /// The properties of the question.
    pub(crate) noted: Noted,
    /// Octets of the request.
    pub request: usize,
    /// The reply.
    pub reply: &'a [u8],
    /// The time taken to answer.
    pub took: Duration,
}

/// The counted properties of a question, set while it is answered.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Noted {
    /// The type, if it was read.
    pub qtype: Option<Rtype>,
    /// Whether DO is set.
    pub dnssec_ok: bool,
    /// The block and the key of the question.
    pub found: Option<Found>,
    /// The response code, with its upper bits from the OPT.
    pub rcode: Rcode,
    /// The handler that wrote the reply.
    pub by: &'static str,
}

/// A number of octets as a value.
#[expect(
    clippy::cast_precision_loss,
    reason = "messages have at most 2^16 octets"
)]
const fn octets(number: usize) -> f64 {
    number as f64
}

impl ZoneTally {
    /// All counters at zero, in this number of shards.
    fn new(shards: usize, handlers: &Words) -> Self {
        Self {
            handlers: Arc::clone(handlers),
            shards: (0..shards.max(1)).map(|_| OnceLock::new()).collect(),
        }
    }

    fn count(&self, counted: &Counted<'_>) {
        let Noted {
            qtype,
            dnssec_ok,
            found: _,
            rcode,
            by,
        } = counted.noted;
        // The port chooses the shard, which tells connections apart. Clients of one socket seldom change their shard.
        let place = usize::from(counted.peer.port()) % self.shards.len();
        let shard = self.shards[place].get_or_init(|| Box::new(Shard::new(self.handlers.len())));
        let of_proto = &shard.protos[counted.proto.counted_as()];
        let family = usize::from(counted.peer.ip().to_canonical().is_ipv6());
        of_proto.requests[family][type_place(qtype)].increase();
        let size = counted.request;
        of_proto.request.add(&SIZES, octets(size), size as u64);
        let size = counted.reply.len();
        of_proto.reply.add(&SIZES, octets(size), size as u64);
        let nanos = u64::try_from(counted.took.as_nanos()).unwrap_or(u64::MAX);
        let seconds = counted.took.as_secs_f64();
        shard.durations.add(&DURATIONS, seconds, nanos);
        if dnssec_ok {
            shard.dnssec_ok.increase();
        }
        let code = usize::from(rcode.0).min(RCODES);
        let by = self.handlers.iter().position(|known| *known == by);
        shard.replies[code][by.unwrap_or(0)].increase();
    }

    /// The sum of one counter over all shards.
    fn sum(&self, of: impl Fn(&Shard) -> u64) -> u64 {
        let shards = self.shards.iter().filter_map(OnceLock::get);
        shards.map(|shard| of(shard)).sum()
    }

    /// The number of requests by protocol, family (1 or 2) and type.
    pub fn requests(
        &self,
    ) -> impl Iterator<Item = (&'static str, &'static str, &'static str, u64)> {
        let places = (0..2).flat_map(|proto| (0..2).map(move |family| (proto, family)));
        places.flat_map(move |(proto, family)| {
            TYPES.iter().enumerate().filter_map(move |(at, name)| {
                let number = self.sum(|it| it.protos[proto].requests[family][at].get());
                (number > 0).then_some((PROTOS[proto], ["1", "2"][family], *name, number))
            })
        })
    }

    /// The number of replies by response code and handler.
    pub fn replies(&self) -> impl Iterator<Item = (String, &'static str, u64)> {
        (0..=RCODES).flat_map(move |code| {
            self.handlers
                .iter()
                .enumerate()
                .filter_map(move |(by, name)| {
                    let number = self.sum(|it| it.replies[code][by].get());
                    let rcode = Rcode(u16::try_from(code).unwrap_or(u16::MAX));
                    (number > 0).then(|| (rcode.to_string(), *name, number))
                })
        })
    }

    /// Requests with DO.
    pub fn dnssec_ok(&self) -> u64 {
        self.sum(|shard| shard.dnssec_ok.get())
    }

    /// The times taken to answer: the number in each bucket, with the last above all bounds, and their sum in seconds.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a sum in nanoseconds loses its last digits"
    )]
    pub fn durations(&self) -> (Vec<u64>, f64) {
        let (counts, sum) = self.buckets(|shard| &shard.durations);
        (counts, sum as f64 / 1e9)
    }

    /// The octets of a protocol's requests and replies, in the form of [`Self::durations`]. `place` is its index in
    /// [`PROTOS`].
    #[expect(
        clippy::cast_precision_loss,
        reason = "a sum of octets loses its last digits"
    )]
    pub fn sizes(&self, proto: usize) -> [(Vec<u64>, f64); 2] {
        let request = self.buckets(|shard| &shard.protos[proto].request);
        let reply = self.buckets(|shard| &shard.protos[proto].reply);
        [request, reply].map(|(counts, sum)| (counts, sum as f64))
    }

    /// A histogram over all shards.
    fn buckets<const N: usize>(&self, of: impl Fn(&Shard) -> &Buckets<N>) -> (Vec<u64>, u64) {
        let counts = (0..N).map(|at| self.sum(|shard| of(shard).counts[at].get()));
        let above = self.sum(|shard| of(shard).above.get());
        let sum = self.sum(|shard| of(shard).sum.get());
        (counts.chain([above]).collect(), sum)
    }
}

/// The protocols, as labels.
pub const PROTOS: [&str; 2] = ["udp", "tcp"];

/// The index of a type in [`TYPES`].
fn type_place(qtype: Option<Rtype>) -> usize {
    const OTHER: usize = TYPES.len() - 1;
    match qtype.map_or(0, |qtype| qtype.0) {
        1 => 0,
        28 => 1,
        255 => 2,
        252 => 3,
        5 => 4,
        48 => 5,
        43 => 6,
        65 => 7,
        251 => 8,
        15 => 9,
        2 => 10,
        47 => 11,
        50 => 12,
        12 => 13,
        46 => 14,
        6 => 15,
        33 => 16,
        64 => 17,
        16 => 18,
        _ => OTHER,
    }
}

/// The number of responses by HTTP status or QUIC code. Locked for one count or one scrape.
#[derive(Debug, Default)]
pub struct Codes(Mutex<BTreeMap<u16, u64>>);

impl Codes {
    fn count(&self, code: u16) {
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *codes.entry(code).or_default() += 1;
    }

    /// All counts.
    #[must_use]
    pub fn all(&self) -> Vec<(u16, u64)> {
        let codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        codes
            .iter()
            .map(|(code, number)| (*code, *number))
            .collect()
    }
}

/// The counters of all servers and zones. They outlast a configuration.
#[derive(Debug)]
pub struct Tallies {
    handlers: Words,
    /// The HTTP statuses and QUIC codes by server. Locked for one read or one scrape.
    codes: Mutex<BTreeMap<String, Arc<Codes>>>,
    /// The counters by server and zone. Locked for one read or one scrape.
    zones: Mutex<BTreeMap<(String, String), Arc<ZoneTally>>>,
    /// The words that take part in answers, by server and zone. Locked for one read or one write.
    words: Mutex<Vec<EnabledWord>>,
}

/// A server, a zone, and a word that takes part in its answers.
pub type EnabledWord = (String, String, &'static str);

impl Tallies {
    /// All counters at zero. `handlers` are the words of handlers that write replies.
    pub fn new(handlers: impl Iterator<Item = &'static str>) -> Self {
        let mut handlers: Vec<&str> = iter::once("").chain(handlers).collect();
        handlers.sort_unstable();
        Self {
            handlers: handlers.into(),
            codes: Mutex::default(),
            zones: Mutex::default(),
            words: Mutex::default(),
        }
    }

    fn zone(&self, server: &str, zone: &str) -> Arc<ZoneTally> {
        let mut zones = self.zones.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (server.to_owned(), zone.to_owned());
        let shards = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let new = || {
            let shards = shards.next_power_of_two().min(8);
            Arc::new(ZoneTally::new(shards, &self.handlers))
        };
        Arc::clone(zones.entry(key).or_insert_with(new))
    }

    fn codes_of(&self, server: &str) -> Arc<Codes> {
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(codes.entry(server.to_owned()).or_default())
    }

    /// The codes of all servers.
    #[must_use]
    pub fn codes(&self) -> Vec<(String, Arc<Codes>)> {
        let codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        let all = codes.iter();
        all.map(|(server, codes)| (server.clone(), Arc::clone(codes)))
            .collect()
    }

    /// Sets the words that take part in answers.
    pub fn set_words(&self, words: Vec<EnabledWord>) {
        *self.words.lock().unwrap_or_else(PoisonError::into_inner) = words;
    }

    /// The words that take part in answers.
    #[must_use]
    pub fn words(&self) -> Vec<EnabledWord> {
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        words.clone()
    }

    /// All counters, by server and zone.
    #[must_use]
    pub fn all(&self) -> Vec<(String, String, Arc<ZoneTally>)> {
        let zones = self.zones.lock().unwrap_or_else(PoisonError::into_inner);
        let all = zones.iter();
        all.map(|((server, zone), tally)| (server.clone(), zone.clone(), Arc::clone(tally)))
            .collect()
    }
}

/// The counters of one listener.
#[derive(Debug)]
pub struct Tally {
    /// The counters of each key of the router; `None` if the block does not want them.
    keys: Vec<Option<Arc<ZoneTally>>>,
    /// The counters of queries that are refused before they have a block.
    dropped: Arc<ZoneTally>,
    /// The counters of HTTP statuses and QUIC codes.
    codes: Arc<Codes>,
}

impl Tally {
    /// The counters of a listener with this name. `keys` are the zones of all keys, in the router's order, with `None`
    /// for those that are not counted. `None` when no key is counted.
    #[must_use]
    pub fn new(tallies: &Tallies, server: &str, keys: &[Option<String>]) -> Option<Self> {
        if keys.iter().all(Option::is_none) {
            return None;
        }
        let zone = |zone: &Option<String>| zone.as_ref().map(|zone| tallies.zone(server, zone));
        Some(Self {
            keys: keys.iter().map(zone).collect(),
            dropped: tallies.zone(server, "dropped"),
            codes: tallies.codes_of(server),
        })
    }

    /// Counts an HTTP status or a QUIC code.
    pub(crate) fn count_code(&self, code: u16) {
        self.codes.count(code);
    }

    /// Counts an answer.
    pub fn count(&self, counted: &Counted<'_>) {
        if counted.noted.qtype.is_none() {
            return;
        }
        let zone = match counted.noted.found {
            None => Some(&self.dropped),
            Some(found) => self.keys.get(found.key).and_then(Option::as_ref),
        };
        if let Some(zone) = zone {
            zone.count(counted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_in_their_places() {
        let tallies = Tallies::new(["cache", "kubernetes"].into_iter());
        let keys = [Some("a.".to_owned()), None];
        let tally = Tally::new(&tallies, "dns://:53", &keys).unwrap();
        let noted = |key| Noted {
            qtype: Some(Rtype::SRV),
            dnssec_ok: true,
            found: Option::map(key, |key| Found { block: 0, key }),
            rcode: Rcode::NXDOMAIN,
            by: "kubernetes",
        };
        for (key, port) in [(Some(0), 1), (Some(0), 2), (Some(1), 3), (None, 4)] {
            tally.count(&Counted {
                proto: Proto::Tcp,
                peer: ([127, 0, 0, 1], port).into(),
                noted: noted(key),
                request: 100,
                reply: &[0; 101],
                took: Duration::from_micros(600),
            });
        }
        let all = tallies.all();
        let zones: Vec<&str> = all.iter().map(|(_, zone, _)| zone.as_str()).collect();
        assert_eq!(zones, ["a.", "dropped"]);
        let of = &all[0].2;
        let requests: Vec<_> = of.requests().collect();
        assert_eq!(requests, [("tcp", "1", "SRV", 2)]);
        let replies: Vec<_> = of.replies().collect();
        assert_eq!(replies, [("NXDOMAIN".to_owned(), "kubernetes", 2)]);
        assert_eq!(of.dnssec_ok(), 2);
        let (durations, sum) = of.durations();
        assert_eq!((durations[2], durations[1]), (2, 0));
        assert!((sum - 0.0012).abs() < 1e-9, "{sum}");
        let [(request, _), (reply, octets)] = of.sizes(1);
        assert_eq!((request[1], reply[2]), (2, 2));
        assert!((octets - 202.0).abs() < 1e-9);
        assert!(Tally::new(&tallies, "dns://:53", &[None]).is_none());
        [200, 400, 200]
            .into_iter()
            .for_each(|code| tally.count_code(code));
        assert_eq!(tallies.codes()[0].1.all(), [(200, 2), (400, 1)]);
    }

    #[test]
    fn every_type_has_the_place_of_its_name() {
        for (place, name) in TYPES.iter().enumerate().take(TYPES.len() - 1) {
            let rtype: Rtype = name.parse().unwrap();
            assert_eq!(type_place(Some(rtype)), place, "{name}");
        }
    }
}

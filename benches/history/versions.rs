//! A zone that changes: the versions whose history is asked.

use std::sync::Arc;

use dns::{Name, Rdata, Serial, Soa, Ttl};
use provenance::{Cause, Kind, ObjectKey, Origin, Verb};
use serde::{Deserialize, Serialize};
use zone::journal::Journal;
use zone::{Candidate, Contents, Edit, MemoryLimits, Node, Version};

/// What stays in memory, as in the server.
pub(crate) const LIMITS: MemoryLimits = MemoryLimits {
    steps: 1000,
    octets: 16 << 20,
};
/// When the first version is made.
pub(crate) const START_MS: u64 = 1_700_000_000_000;
/// Between two versions.
pub(crate) const STEP_MS: u64 = 1000;
/// Records of an owner.
const EACH: u64 = 3;
/// Owners that half of the changes hit.
const BUSY: u64 = 64;
/// Owners of a version that changes many.
const WIDE: u64 = 2000;

/// Numbers without order, the same in every run (xorshift).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// The next, below a bound.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % bound
    }
}

/// The zone's name.
pub(crate) fn apex() -> Name {
    "cluster.local.".parse().unwrap()
}

/// The owners there are.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Names {
    /// How many.
    owners: u64,
}

impl Names {
    /// Their records.
    pub(crate) const fn records(&self) -> u64 {
        self.owners * EACH
    }

    /// One of all.
    pub(crate) fn any(&self, random: &mut Random) -> String {
        name_of(BUSY.min(self.owners - 1) + random.below(self.owners - BUSY.min(self.owners - 1)))
    }
}

/// The name of an owner.
fn name_of(owner: u64) -> String {
    format!(
        "service-{owner}.namespace-{}.svc.cluster.local.",
        owner % 100
    )
}

/// The zone and its newest version.
pub(crate) struct Zone {
    /// How many owners it has.
    owners: u64,
    /// The newest version.
    version: Version,
    /// Which owner changes next.
    random: Random,
}

impl Zone {
    /// The first version, in the journal.
    pub(crate) fn new(journal: &mut Journal, records: u64) -> Self {
        let soa = Soa {
            mname: "ns.dns.cluster.local.".parse().unwrap(),
            rname: "hostmaster.cluster.local.".parse().unwrap(),
            refresh: Ttl::decode(300),
            retry: Ttl::decode(30),
            expire: Ttl::decode(86400),
            minimum: Ttl::decode(30),
            ttl: Ttl::decode(30),
        };
        let owners = records / EACH;
        let empty = Contents::empty(&apex(), soa);
        let all: Vec<u64> = (0..owners).collect();
        let first = candidate(None, &empty, &all);
        let version = first.version().clone();
        journal.commit(vec![first]).unwrap();
        Self {
            owners,
            version,
            random: Random(0x9e37_79b9),
        }
    }

    /// The number of the newest version.
    pub(crate) const fn seq(&self) -> u64 {
        self.version.seq
    }

    /// The newest version.
    pub(crate) fn version(&self) -> Arc<Version> {
        Arc::new(self.version.clone())
    }

    /// The owners.
    pub(crate) const fn names(&self) -> Names {
        Names {
            owners: self.owners,
        }
    }

    /// The name of an owner that changes as others do.
    pub(crate) fn any_name(&self, random: &mut Random) -> String {
        self.names().any(random)
    }

    /// The name of one that changes a lot.
    pub(crate) fn busy_name(&self, random: &mut Random) -> String {
        name_of(random.below(BUSY.min(self.owners)))
    }

    /// The next version: one owner changes, or many.
    pub(crate) fn change(&mut self, wide: bool) -> Candidate {
        let random = &mut self.random;
        let owners = match (wide, random.below(2)) {
            (true, _) => {
                let first = random.below(self.owners);
                (first..first + WIDE.min(self.owners / 2))
                    .map(|owner| owner % self.owners)
                    .collect()
            }
            (false, 0) => vec![random.below(BUSY.min(self.owners))],
            (false, _) => vec![random.below(self.owners)],
        };
        let next = candidate(Some(&self.version), &self.version.contents, &owners);
        self.version = next.version().clone();
        next
    }
}

/// The version in which these owners are new, each caused by its object.
fn candidate(before: Option<&Version>, contents: &Contents, owners: &[u64]) -> Candidate {
    let seq = before.map_or(1, |version| version.seq + 1);
    let mut edit = Edit::new(contents);
    let mut causes = Vec::new();
    for (tag, owner) in (0..).zip(owners) {
        let name: Name = name_of(*owner).parse().unwrap();
        let mut records = (0..EACH)
            .map(|place| {
                let number = u32::try_from((seq * 4 + place) % 0x00ff_ffff).unwrap();
                let (rtype, rdata) = Rdata::address(
                    std::net::Ipv4Addr::from(0x0a00_0000_u32.wrapping_add(number)).into(),
                );
                (rtype, Ttl::decode(30), rdata)
            })
            .collect();
        edit.set(Node::build(&name, &apex(), &mut records).unwrap(), tag);
        let key = ObjectKey::new(
            &format!("namespace-{}", owner % 100),
            &format!("service-{owner}-x7k2p"),
        );
        causes.push(vec![Cause {
            verb: Verb::Applied,
            kind: Some(Kind::EndpointSlice),
            key,
            origin: Origin {
                uid: format!("6d1f1c1e-0000-4000-8000-{owner:012}").into(),
                resource_version: seq.to_string().into(),
                manager: "kube-controller-manager".into(),
                operation: "Update".into(),
                place: "".into(),
            },
        }]);
    }
    let serial = before.map_or(Serial::decode(1), |version| version.serial.next(1));
    let time = START_MS + seq * STEP_MS;
    Candidate::new(before, edit.finish(), serial, time, causes, LIMITS)
}

//! The versions of a zone as replication knows them: a chain of steps, each with the hash of what it leads to.

use dns::{Name, Serial};

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A replica together with its state folder: the pod's uid and the folder's own id. A folder that was wiped has another id, so a replica
/// without its disk is not in the in-sync set.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaId(Arc<str>);

impl fmt::Debug for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for ReplicaId {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

/// The number of a term of leadership: 1 for the first leader, greater by at least 1 for the next. 0 is no leader.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch after it.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The hash of a version: of its content and of the version before it.
pub type Hash = [u8; 32];

/// A version of a zone, without its content.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Tip {
    /// The epoch of the leader that made it.
    pub epoch: Epoch,
    /// Its place in the chain: 1 for the first version of the zone. 0 is no version.
    pub seq: u64,
    /// Its serial.
    pub serial: Serial,
    /// Its hash.
    pub hash: Hash,
}

impl Tip {
    /// Before the first version.
    pub const NONE: Self = Self {
        epoch: Epoch(0),
        seq: 0,
        serial: Serial::decode(0),
        hash: [0; 32],
    };

    /// Its serial; `None` before the first version.
    #[must_use]
    pub fn known_serial(&self) -> Option<Serial> {
        (self.seq > 0).then_some(self.serial)
    }

    /// What orders versions of one zone by age: the epoch first, because a later leader may have dropped steps of an earlier one.
    #[must_use]
    pub const fn age(&self) -> (Epoch, u64) {
        (self.epoch, self.seq)
    }
}

impl fmt::Debug for Tip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, ..] = self.hash;
        let (epoch, seq, serial) = (self.epoch, self.seq, self.serial);
        write!(f, "{epoch}/{seq}:{serial}#{a:02x}{b:02x}")
    }
}

/// One step of a zone's journal, from a version to the next. What it holds is known to the journal alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The zone.
    pub zone: Name,
    /// The version that it leads to.
    pub tip: Tip,
    /// The hash of the version that it starts from.
    pub previous: Hash,
    /// Records, causes, time and whatever else the journal stores, as far as they were not in parts before it.
    pub payload: Arc<[u8]>,
}

impl Step {
    /// Whether it starts from this version.
    #[must_use]
    pub fn follows(&self, tip: &Tip) -> bool {
        self.previous == tip.hash && self.tip.seq == tip.seq + 1
    }
}

/// A part of a step or snapshot that is too large for one payload. Parts come in order, before the step or snapshot itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The zone.
    pub zone: Name,
    /// The version that the step or snapshot leads to.
    pub tip: Tip,
    /// Its number, from 0. With 0 all begins again.
    pub number: u32,
    /// What it holds, known to the journal alone.
    pub payload: Arc<[u8]>,
}

/// A zone at the oldest version that the leader has with a hash. The history after it comes as steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The zone.
    pub zone: Name,
    /// The version.
    pub tip: Tip,
    /// What is left after its parts, known to the journal alone.
    pub payload: Arc<[u8]>,
}

/// The chains of all configured zones.
pub type Chains = BTreeMap<Name, Chain>;

/// What is durable of a zone here: the announced version, and later ones that are not announced as far as this replica knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The version that is visible here.
    announced: Tip,
    /// Later ones, in order.
    unannounced: Vec<Tip>,
}

impl Default for Chain {
    fn default() -> Self {
        Self::new(Tip::NONE, Vec::new())
    }
}

impl Chain {
    /// What a journal holds after it was opened.
    #[must_use]
    pub const fn new(announced: Tip, unannounced: Vec<Tip>) -> Self {
        Self {
            announced,
            unannounced,
        }
    }

    /// The version that is visible.
    #[must_use]
    pub const fn announced(&self) -> &Tip {
        &self.announced
    }

    /// Durable versions after it, in order.
    #[must_use]
    pub fn unannounced(&self) -> &[Tip] {
        &self.unannounced
    }

    /// The newest durable version.
    #[must_use]
    pub fn newest(&self) -> &Tip {
        self.unannounced.last().unwrap_or(&self.announced)
    }

    /// The announced version and all after it.
    #[must_use]
    pub fn tips(&self) -> Vec<Tip> {
        let announced = std::iter::once(self.announced);
        announced.chain(self.unannounced.iter().copied()).collect()
    }

    /// Adds a version that is durable now.
    pub fn push(&mut self, tip: Tip) {
        self.unannounced.push(tip);
    }

    /// Leaves out what follows a version; says whether it knows that version.
    pub fn truncate(&mut self, tip: &Tip) -> bool {
        let place = self.place(tip);
        if let Some(place) = place {
            self.unannounced.truncate(place);
        }
        place.is_some()
    }

    /// Takes a durable version as announced, with all before it; says whether that was news.
    pub fn announce(&mut self, tip: &Tip) -> bool {
        let place = self.place(tip).unwrap_or_default();
        if let Some(last) = self.unannounced.drain(..place).next_back() {
            self.announced = last;
        }
        place > 0
    }

    /// Takes a snapshot in place of everything. The leader has not said yet that its version is announced.
    pub fn replace(&mut self, tip: Tip) {
        *self = Self::new(Tip::NONE, vec![tip]);
    }

    /// How many unannounced versions there are up to one that it knows.
    fn place(&self, tip: &Tip) -> Option<usize> {
        self.tips().iter().position(|it| it == tip)
    }
}

//! A machine with a disk, clocks and perhaps a process.

use dns::Name;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::chain::{Epoch, ReplicaId, Tip};
use crate::knowledge::Knowledge;
use crate::replica::{Replica, Token};
use crate::settings::Now;
use crate::tests::disk::{Disk, Folder};

/// Microseconds of the simulation.
pub(super) type Micros = u64;

/// A question to the other replicas.
#[derive(Debug)]
pub(super) struct Question {
    /// Its number.
    pub(super) token: Token,
    /// Answers so far.
    pub(super) answers: Vec<Knowledge>,
}

/// A proof of freshness that is due.
#[derive(Debug)]
pub(super) struct Proof {
    /// The epoch.
    pub(super) epoch: Epoch,
    /// The state of the source when it was asked; `None` until the API server answers.
    pub(super) revision: Option<u64>,
}

/// A machine.
#[derive(Debug)]
pub(super) struct Host {
    /// The replica's name.
    pub(super) id: ReplicaId,
    /// The process.
    pub(super) replica: Option<Replica>,
    /// How often a process started or died here: events of an earlier one are dropped.
    pub(super) life: u64,
    /// How often the disk was replaced by an empty one.
    pub(super) wipes: u64,
    /// The disk.
    pub(super) disk: Disk,
    /// A copy of the disk of some time ago, and when it was made.
    pub(super) copy: Option<Folder>,
    /// The time since the start of the machine, and when it was that.
    boot: (Duration, Micros),
    /// How fast the clock is, in thousandths.
    rate: u64,
    /// How far the wall clock is off.
    pub(super) wall_offset: i64,
    /// Until when the process stands still.
    pub(super) paused_until: Micros,
    /// Until when the API server is not reached.
    pub(super) cut_until: Micros,
    /// Until when the own watch stands still.
    pub(super) stale_until: Micros,
    /// Until when syncs are slow.
    pub(super) slow_until: Micros,
    /// The state of the source, as the own watch has it, and its revision.
    pub(super) facts: BTreeMap<Name, u64>,
    /// The revision of `facts`.
    pub(super) revision: u64,
    /// What is visible.
    pub(super) visible: BTreeMap<Name, Tip>,
    /// The epoch in which it replicates as a leader.
    pub(super) term: Option<Epoch>,
    /// The epoch in which it takes commits.
    pub(super) lead: Option<Epoch>,
    /// Zones that need a new version.
    pub(super) must: BTreeSet<Name>,
    /// A question to the other replicas.
    pub(super) question: Option<Question>,
    /// A proof that is due.
    pub(super) proof: Option<Proof>,
    /// Whether the process ends as soon as it does not lead.
    pub(super) is_leaving: bool,
}

impl Host {
    /// A machine with an empty disk.
    pub(super) fn new(index: usize, random: &mut fastrand::Rng, rates: (u64, u64)) -> Self {
        Self {
            id: name(index, 0),
            replica: None,
            life: 0,
            wipes: 0,
            disk: Disk::default(),
            copy: None,
            boot: (Duration::from_secs(random.u64(..1_000_000)), 0),
            rate: random.u64(rates.0..=rates.1),
            wall_offset: random.i64(-2..=2),
            paused_until: 0,
            cut_until: 0,
            stale_until: 0,
            slow_until: 0,
            facts: BTreeMap::new(),
            revision: 0,
            visible: BTreeMap::new(),
            term: None,
            lead: None,
            must: BTreeSet::new(),
            question: None,
            proof: None,
            is_leaving: false,
        }
    }

    /// What its clocks say.
    pub(super) fn now(&self, time: Micros, random: u32) -> Now {
        let (boot, since) = self.boot;
        let passed = Duration::from_micros((time - since) * self.rate / 1000);
        let wall = i64::from(START) + i64::try_from(time / 1_000_000).expect("it is short");
        let wall = u32::try_from(wall + self.wall_offset).expect("it is this century");
        Now {
            boot: boot + passed,
            wall,
            random,
        }
    }

    /// Sets how fast its clock is.
    pub(super) fn set_rate(&mut self, rate: u64, time: Micros) {
        self.boot = (self.now(time, 0).boot, time);
        self.rate = rate;
    }

    /// The time in which its clock runs for this long.
    pub(super) fn lasts(&self, time: Micros) -> Micros {
        time * 1000 / self.rate
    }

    /// The process is gone.
    pub(super) fn stop(&mut self, random: &mut fastrand::Rng) {
        self.life += 1;
        self.replica = None;
        self.disk.crash(random);
        self.visible.clear();
        (self.term, self.lead) = (None, None);
        self.must.clear();
        self.question = None;
        self.proof = None;
        self.is_leaving = false;
    }

    /// The disk is replaced by an empty one; the name is another one then.
    pub(super) fn wipe(&mut self, index: usize, keeps_name: bool) {
        self.wipes += u64::from(!keeps_name);
        self.id = name(index, self.wipes);
        self.disk = Disk::default();
        self.copy = None;
    }
}

/// The wall clock when a simulation begins.
const START: u32 = 1_795_000_000;

/// The name of a replica.
fn name(index: usize, wipes: u64) -> ReplicaId {
    ReplicaId::from(format!("h{index}.{wipes}").as_str())
}

//! What a seed decides: how many replicas and zones, which mishaps, how fast the clocks.

use std::time::Duration;

use crate::fault::Fault;
use crate::settings::Settings;

/// A kind of mishap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mishap {
    /// A process dies and starts again, perhaps to die again while it starts.
    Crash,
    /// A process stands still, as with SIGSTOP or a paused machine.
    Pause,
    /// Two replicas do not hear each other, or one does not hear the other.
    Partition,
    /// A replica hears no other one.
    Isolation,
    /// A replica does not reach the API server, or its answers do not come back.
    CutFromApi,
    /// Nobody reaches the API server.
    ApiDown,
    /// The API server needs seconds to answer.
    ApiSlow,
    /// A connection breaks.
    LinkCut,
    /// A disk takes nothing.
    DiskFull,
    /// A sync fails.
    DiskError,
    /// A disk needs seconds for a sync.
    DiskSlow,
    /// A disk is empty, as that of a new pod.
    Wipe,
    /// An old copy of a disk is put back.
    OldCopy,
    /// The wall clock jumps.
    ClockJump,
    /// The Lease is deleted.
    LeaseDeleted,
    /// The API server's store is restored from a backup.
    Restore,
    /// A planned end with a handover.
    Leave,
    /// An operator accepts a loss.
    AcceptLoss,
    /// A replica's own watch stands still.
    WatchStale,
    /// A step is damaged on its way.
    Damage,
}

/// All mishaps, with how often each happens compared with others.
const MISHAPS: [(Mishap, u32); 20] = [
    (Mishap::Crash, 10),
    (Mishap::Pause, 8),
    (Mishap::Partition, 8),
    (Mishap::Isolation, 4),
    (Mishap::CutFromApi, 8),
    (Mishap::ApiDown, 2),
    (Mishap::ApiSlow, 3),
    (Mishap::LinkCut, 6),
    (Mishap::DiskFull, 4),
    (Mishap::DiskError, 4),
    (Mishap::DiskSlow, 4),
    (Mishap::Wipe, 3),
    (Mishap::OldCopy, 3),
    (Mishap::ClockJump, 3),
    (Mishap::LeaseDeleted, 2),
    (Mishap::Restore, 1),
    (Mishap::Leave, 6),
    (Mishap::AcceptLoss, 3),
    (Mishap::WatchStale, 6),
    (Mishap::Damage, 2),
];

/// What a seed decides.
#[derive(Debug)]
pub(super) struct Plan {
    /// Replicas.
    pub(super) replicas: usize,
    /// Zones.
    pub(super) zones: usize,
    /// Secondaries.
    pub(super) secondaries: usize,
    /// The mishaps that happen, each as often as it is named.
    pub(super) mishaps: Vec<Mishap>,
    /// Mean time between two mishaps.
    pub(super) mishap_every: Duration,
    /// Mean time between two changes of the source.
    pub(super) change_every: Duration,
    /// When mishaps end.
    pub(super) end: Duration,
    /// How fast clocks may be, in thousandths.
    pub(super) rates: (u64, u64),
    /// Times and limits.
    pub(super) settings: Settings,
}

impl Plan {
    /// The plan of a seed.
    pub(super) fn new(random: &mut fastrand::Rng, fault: Option<Fault>) -> Self {
        let mut mishaps = Vec::new();
        // Each seed has its own mixture: what happens seldom alone happens often somewhere.
        for (mishap, weight) in MISHAPS {
            if random.u32(..3) > 0 {
                let weight = weight * (1 + random.u32(..3));
                mishaps.extend(std::iter::repeat_n(mishap, weight as usize));
            }
        }
        let replicas = 2 + random.usize(..4);
        let orphan_wait = Duration::from_secs(if random.bool() { 600 } else { 60 });
        let min_in_sync = if random.u32(..4) == 0 { 2 } else { 1 };
        let window_bytes = if random.bool() { 1 << 20 } else { 2048 };
        let rates = [(1000, 1000), (900, 1100), (500, 2000)][random.usize(..3)];
        Self {
            replicas,
            zones: 1 + random.usize(..3),
            secondaries: 1 + random.usize(..3),
            mishaps,
            mishap_every: Duration::from_millis(500 + random.u64(..5000)),
            change_every: Duration::from_millis(50 + random.u64(..800)),
            end: Duration::from_secs(30 + random.u64(..90)),
            rates,
            settings: Settings {
                orphan_wait,
                min_in_sync,
                window_bytes,
                fault,
                ..Settings::default()
            },
        }
    }
}

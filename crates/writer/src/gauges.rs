//! What others may read of a cluster while the writer works.

use std::sync::atomic::{AtomicU64, Ordering};

use kubernetes::facts::Kinds;
use provenance::Kind;

/// What status and metrics read of a cluster; written by the writer alone.
#[derive(Debug, Default)]
pub struct ClusterGauges {
    /// 1 once everything was listed.
    pub synced: AtomicU64,
    /// Milliseconds since 1970 UTC at which the source went away; 0 while it is there.
    pub stale_since_ms: AtomicU64,
    /// The same for its ServiceImports alone.
    pub imports_stale_since_ms: AtomicU64,
    /// The kinds that are watched.
    pub kinds: Kinds,
    /// Objects by kind, in the order of [`Kind::ALL`].
    pub objects: [AtomicU64; Kind::ALL.len()],
    /// When a change was last taken in, milliseconds since 1970 UTC.
    pub last_change_ms: AtomicU64,
}

impl ClusterGauges {
    /// Each watched kind with how many objects there are.
    pub fn counts(&self) -> impl Iterator<Item = (Kind, u64)> {
        let count = |kind: Kind| (kind, self.objects[kind.place()].load(Ordering::Relaxed));
        self.kinds.iter().map(count)
    }
}

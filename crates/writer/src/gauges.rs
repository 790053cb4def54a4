//! What others may read of a cluster while the writer works.

use std::sync::atomic::{AtomicU64, Ordering};

use kubernetes::facts::Kinds;
use provenance::Kind;

/// What status and metrics read of a cluster; written by the writer alone.
#[derive(Debug, Default)]
pub struct ClusterGauges {
    /// 1 after all objects are listed.
    pub synced: AtomicU64,
    /// When the source went away, milliseconds since 1970 UTC; 0 while it is there.
    pub stale_since_ms: AtomicU64,
    /// The same for its ServiceImports alone.
    pub imports_stale_since_ms: AtomicU64,
    /// The kinds that are watched.
    pub kinds: Kinds,
    /// Objects by kind, in the order of [`Kind::ALL`].
    pub objects: [AtomicU64; Kind::ALL.len()],
    /// When the last change came, milliseconds since 1970 UTC.
    pub last_change_ms: AtomicU64,
}

impl ClusterGauges {
    /// The number of objects of each watched kind.
    pub fn counts(&self) -> impl Iterator<Item = (Kind, u64)> {
        let count = |kind: Kind| (kind, self.objects[kind.place()].load(Ordering::Relaxed));
        self.kinds.iter().map(count)
    }
}

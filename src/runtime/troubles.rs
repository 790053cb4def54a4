//! What is wrong now, for `status` and the metrics.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dns::{Name, Serial};

/// A peer with a later serial than ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PeerAhead {
    /// The peer.
    pub(crate) peer: SocketAddr,
    /// Its serial.
    pub(crate) serial: Serial,
    /// Whether our next serial is above it.
    pub(crate) is_followed: bool,
}

/// What is wrong now. It outlasts a reload.
#[derive(Default)]
pub(crate) struct Troubles {
    /// Problems of objects.
    pub(crate) objects: Told<Vec<String>>,
    /// Why the last Corefile is not in use.
    pub(crate) refused: Told<Vec<String>>,
    /// Why the store does not take the last version.
    pub(crate) unstored: Told<Option<String>>,
    /// What some secondaries refuse, by zone.
    pub(crate) warnings: Told<BTreeMap<Name, Vec<String>>>,
    /// What keys of etcd lack, by zone.
    pub(crate) left_out: Told<BTreeMap<Name, Vec<String>>>,
    /// The last peer of each zone with a later serial than ours.
    pub(crate) peers: Told<BTreeMap<Name, PeerAhead>>,
}

impl Troubles {
    /// In sentences, in the order of the fields.
    pub(crate) fn texts(&self) -> Vec<String> {
        let refused = self.refused.lock().clone().into_iter();
        let unstored = self.unstored.lock().clone().into_iter();
        let of_zones = [&self.warnings, &self.left_out].map(|of_zones| {
            let texts: Vec<String> = of_zones.lock().values().flatten().cloned().collect();
            texts
        });
        let mut texts = self.objects.lock().clone();
        texts.extend(refused.map(|why| format!("the last Corefile is not in use: {why}")));
        texts.extend(unstored.map(|why| format!("a version could not be stored: {why}")));
        texts.extend(of_zones.into_iter().flatten());
        texts
    }
}

/// A value that one part tells and others read. The lock protects it for one change or one reading.
#[derive(Default)]
pub(crate) struct Told<T>(Mutex<T>);

impl<T> Told<T> {
    /// The value.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the value.
    pub(crate) fn set(&self, value: T) {
        *self.lock() = value;
    }
}

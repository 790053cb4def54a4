//! Whether this replica makes versions now, and who does so otherwise.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use replica_links::driver::Handle;
use replicas::chain::Epoch;
use replicas::status::Status;

/// The role of this replica.
#[derive(Debug, Default)]
pub(crate) struct Role {
    /// The epoch in which it leads; 0 while it does not.
    epoch: AtomicU64,
    /// The replica, once it runs.
    handle: OnceLock<Handle>,
}

impl Role {
    /// The replica runs.
    pub(crate) fn run(&self, handle: Handle) {
        let is_first = self.handle.set(handle).is_ok();
        debug_assert!(is_first, "a process is one replica");
    }

    /// It leads.
    pub(crate) fn lead(&self, epoch: Epoch) {
        self.epoch.store(epoch.0, Ordering::SeqCst);
    }

    /// It does not lead any more.
    pub(crate) fn stop(&self) {
        self.epoch.store(0, Ordering::SeqCst);
    }

    /// The epoch in which it leads.
    pub(crate) fn leads(&self) -> Option<Epoch> {
        Some(Epoch(self.epoch.load(Ordering::SeqCst))).filter(|epoch| epoch.0 > 0)
    }

    /// What the replica shows of itself, once it runs.
    pub(crate) fn status(&self) -> Option<Status> {
        self.handle.get().map(Handle::status)
    }

    /// Why an operator cannot change anything here, while another replica leads.
    pub(crate) fn refusal(&self) -> String {
        let status = self.status();
        let leader = status.as_ref().and_then(|it| {
            let holder = it.holder.as_ref().map(ToString::to_string);
            let address = Some(it.address.clone()).filter(|it| !it.is_empty());
            match (holder.filter(|it| !it.is_empty()), address) {
                (None, None) => None,
                (Some(holder), None) => Some(holder),
                (None, Some(address)) => Some(format!("the replica at {address}")),
                (Some(holder), Some(address)) => Some(format!("{holder} at {address}")),
            }
        });
        match leader {
            Some(leader) => format!("this replica does not lead: ask {leader}"),
            None => "this replica does not lead, and no other one does now: try again".to_owned(),
        }
    }
}

//! Whether this replica makes versions now, and who does so otherwise.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use dns::Serial;
use history::{FollowerLine, ReplicaLine};
use provenance::Operator;
use replica_links::driver::Handle;
use replicas::chain::{Epoch, ReplicaId};
use replicas::status::Status;

/// The role of this replica.
#[derive(Debug, Default)]
pub(crate) struct Role {
    /// The epoch in which it leads; 0 while it does not.
    epoch: AtomicU64,
    /// The replica and its name, once it runs.
    handle: OnceLock<(ReplicaId, Handle)>,
}

impl Role {
    /// The replica runs.
    pub(crate) fn run(&self, me: ReplicaId, handle: Handle) {
        let is_first = self.handle.set((me, handle)).is_ok();
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

    /// The replica's name and what it shows of itself, once it runs.
    pub(crate) fn status(&self) -> Option<(&ReplicaId, Status)> {
        let (me, handle) = self.handle.get()?;
        Some((me, handle.status()))
    }

    /// The line of `status`, once the replica runs.
    pub(crate) fn line(&self) -> Option<ReplicaLine> {
        let (me, status) = self.status()?;
        let follower = |(replica, lag_versions): (&ReplicaId, &u64)| FollowerLine {
            replica: replica.to_string(),
            lag_versions: *lag_versions,
        };
        Some(ReplicaLine {
            replica: me.to_string(),
            leads: status.is_leading,
            epoch: status.epoch.0,
            leader: leader(&status),
            address: Some(status.address).filter(|it| !it.is_empty()),
            in_sync: status.in_sync.iter().map(ToString::to_string).collect(),
            ceiling: status.ceiling.common.map(Serial::encode),
            followers: status.lags.iter().map(follower).collect(),
            is_behind: status.is_behind,
            lacks_eligible: status.lacks_eligible,
        })
    }

    /// Lets this replica lead although announced versions may be lost: an operator says so.
    ///
    /// # Errors
    /// Why it may not: nothing needs to be lost.
    pub(crate) async fn promote(&self, by: &Operator) -> Result<(), String> {
        let Some((_, handle)) = self.handle.get() else {
            return Err("this replica does not run yet: try again".to_owned());
        };
        let status = handle.status();
        if !status.lacks_eligible {
            return Err(match (status.is_leading, leader(&status)) {
                (true, _) => "this replica leads already".to_owned(),
                (false, Some(leader)) => {
                    format!(
                        "{leader} leads, or its Lease has not expired yet: nothing needs to be lost"
                    )
                }
                (false, None) => {
                    "a replica that has every version can lead: nothing needs to be lost".to_owned()
                }
            });
        }
        tracing::warn!(%by, "this replica may lead: an operator accepts that announced versions may be lost");
        let told = handle.accept_loss().await;
        told.map_err(|_| "the server is shutting down".to_owned())
    }

    /// Why an operator cannot change anything here, while another replica leads.
    pub(crate) fn refusal(&self) -> String {
        let status = self.status().map(|(_, status)| status);
        let leader = status.and_then(|status| {
            let address = Some(&status.address).filter(|it| !it.is_empty());
            match (leader(&status), address) {
                (None, None) => None,
                (Some(leader), None) => Some(leader),
                (None, Some(address)) => Some(format!("the replica at {address}")),
                (Some(leader), Some(address)) => Some(format!("{leader} at {address}")),
            }
        });
        match leader {
            Some(leader) => format!("this replica does not lead: ask {leader}"),
            None => "this replica does not lead, and no other one does now: try again".to_owned(),
        }
    }
}

/// The replica that leads, as far as another one knows.
fn leader(status: &Status) -> Option<String> {
    let holder = status.holder.as_ref().map(ToString::to_string);
    holder.filter(|it| !it.is_empty())
}

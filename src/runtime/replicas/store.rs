//! The writer's store on a replica: a commit returns when its versions are on all replicas that count.

use std::sync::Arc;

use dns::{Name, RrRef, Serial};
use provenance::Cause;
use replica_disk::commits::{Commits, CommitsError, Replica};
use replica_links::driver::{Handle, Refused};
use replicas::chain::{Epoch, Step};
use replicas::term::{Permit, Wait};
use writer::Store;
use zone::hold::Hold;
use zone::journal::{Act, KeptCorefile, Reader, Retention};
use zone::{Candidate, Journaled};

use crate::runtime::origins::Origins;
use crate::runtime::replicas::outcomes::Outcomes;
use crate::runtime::replicas::role::Role;

/// The loop of the replica as the writer's thread uses it.
#[derive(Debug)]
pub(crate) struct Loop {
    /// The replica.
    pub(crate) handle: Handle,
    /// The runtime on which it runs.
    pub(crate) runtime: tokio::runtime::Handle,
    /// What became of versions.
    pub(crate) outcomes: Arc<Outcomes>,
}

impl Replica for Loop {
    fn permit(&mut self, zone: &Name, least: Serial) -> Result<Permit, Wait> {
        let asking = self.handle.permit_from(zone.clone(), Some(least));
        self.runtime.block_on(asking).map_err(|error| match error {
            Refused::NotLeading | Refused::Replaced | Refused::Gone(_) => Wait::NotLeading,
            Refused::Store => Wait::Store,
        })
    }

    fn propose(&mut self, step: Step) {
        // Before it is proposed: it may be declined at once.
        self.outcomes.expect(step.zone.clone(), step.tip.serial);
        if self.runtime.block_on(self.handle.propose(step)).is_err() {
            self.outcomes.close();
        }
    }
}

/// The store.
pub(crate) struct ReplicaStore {
    commits: Commits<Loop>,
    /// Causes of records of old versions.
    origins: Origins,
    /// Who leads.
    role: Arc<Role>,
    /// The epoch in which the writer makes versions.
    begun: Option<Epoch>,
}

impl ReplicaStore {
    /// A store of a writer that makes no versions yet.
    pub(crate) fn new(commits: Commits<Loop>, reader: Reader, role: Arc<Role>) -> Self {
        Self {
            commits,
            origins: Origins::new(reader),
            role,
            begun: None,
        }
    }
}

/// Why something did not become durable.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplicaStoreError {
    /// A version.
    #[error(transparent)]
    Commit(#[from] CommitsError),
    /// A freeze or a rollback: another leader would not know of it.
    #[error("freezes and rollbacks do not work together with `replicas` yet")]
    Hold,
}

impl Store for ReplicaStore {
    type Error = ReplicaStoreError;

    fn commit(&mut self, candidates: Vec<Candidate>) -> Result<Vec<Journaled>, Self::Error> {
        self.origins.forget();
        Ok(self.commits.commit(candidates)?)
    }

    fn follows(&self) -> bool {
        let leads = self.role.leads();
        leads.is_none() || leads != self.begun
    }

    fn refusal(&self) -> String {
        self.role.refusal()
    }

    fn lead(&mut self) {
        self.begun = self.role.leads();
    }

    fn serial(&mut self, apex: &Name, least: Serial) -> Serial {
        self.commits.serial(apex, least)
    }

    fn floor(&self, apex: &Name) -> Option<Serial> {
        self.commits.floor(apex)
    }

    fn lost(&self, apex: &Name) -> Option<Cause> {
        self.commits.lost(apex)
    }

    fn origin(&mut self, apex: &Name, record: RrRef<'_>) -> Vec<Cause> {
        self.origins.of(apex, record)
    }

    fn take_early(&mut self) -> Vec<(Name, u64)> {
        self.commits.take_early()
    }

    fn save_hold(&mut self, _apex: &Name, hold: Option<&Hold>) -> Result<(), Self::Error> {
        match hold {
            Some(_) => Err(ReplicaStoreError::Hold),
            None => Ok(()),
        }
    }

    fn note(
        &mut self,
        corefile: Option<&KeptCorefile>,
        acts: &[(Name, Act)],
    ) -> Result<(), Self::Error> {
        self.commits.note(corefile, acts);
        Ok(())
    }

    fn set_retention(&mut self, apex: &Name, retention: Retention) {
        self.commits.set_retention(apex, retention);
    }

    fn idle(&mut self) -> bool {
        // The journal's thread does it.
        false
    }
}

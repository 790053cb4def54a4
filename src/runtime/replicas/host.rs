//! What the loop of the replica wants of the program: to lead and to stop, to notify secondaries, to prove that facts are fresh.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dns::{Name, Serial};
use ops::{Clock, Tasks};
use replica_links::driver::Handle;
use replica_links::host::Host;
use replicas::chain::{Epoch, Tip};
use replicas::lease::Loss;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use transfer::{AskSettings, AskedSecondary, SecondaryTable, ask_serials};
use writer::Input;
use zone::ZoneSet;

use crate::runtime::deployment::Deployment;
use crate::runtime::replicas::outcomes::Outcomes;
use crate::runtime::replicas::role::Role;

/// How long a NOTIFY waits for its version to be current: the writer is about to publish it.
const PUBLISHED_WITHIN: Duration = Duration::from_secs(1);
/// How often it is looked whether all sources were listed.
const LOOK: Duration = Duration::from_millis(20);

/// What is done besides by tasks, because the loop may not wait.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// The writer begins.
    Lead {
        /// Whether each zone gets a version.
        must_publish: bool,
    },
    /// Secondaries are notified of this version.
    Notify(Name, Serial),
}

/// The program.
pub(crate) struct Program {
    pub(crate) role: Arc<Role>,
    pub(crate) outcomes: Arc<Outcomes>,
    pub(crate) table: Arc<SecondaryTable>,
    pub(crate) wanted: mpsc::UnboundedSender<Wanted>,
    pub(crate) proofs: mpsc::UnboundedSender<Epoch>,
}

impl Program {
    /// Has a task do something. A task that has ended ends the process.
    fn want(&self, wanted: Wanted) {
        self.wanted.send(wanted).ok();
    }
}

impl Host for Program {
    fn show(&mut self, _zone: &Name, _tip: &Tip) {
        // The journal's thread gives it to the zone, after its mark.
    }

    fn notify(&mut self, zone: &Name, serial: Serial) {
        self.want(Wanted::Notify(zone.clone(), serial));
    }

    fn prove(&mut self, epoch: Epoch) {
        self.proofs.send(epoch).ok();
    }

    fn lead(&mut self, epoch: Epoch, must_publish: bool) {
        self.role.lead(epoch);
        self.table.notices.lead();
        self.want(Wanted::Lead { must_publish });
    }

    fn stop(&mut self, _loss: Loss) {
        self.role.stop();
        self.table.notices.follow();
        self.outcomes.stopped();
    }

    fn declined(&mut self, zone: &Name) {
        self.outcomes.declined(zone);
    }
}

/// What the tasks need.
pub(crate) struct Surroundings {
    pub(crate) zones: Arc<ZoneSet>,
    pub(crate) table: Arc<SecondaryTable>,
    pub(crate) inputs: mpsc::WeakSender<Input>,
    pub(crate) deployment: Arc<Deployment>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The secondaries of all zones. Locked to read or replace them.
    pub(crate) secondaries: Arc<Mutex<Vec<AskedSecondary>>>,
}

/// Starts the tasks.
pub(crate) fn start(
    around: Surroundings,
    handle: Handle,
    wanted: mpsc::UnboundedReceiver<Wanted>,
    proofs: mpsc::UnboundedReceiver<Epoch>,
    tasks: &mut Tasks,
) {
    let around = Arc::new(around);
    let cancel = tasks.cancel().clone();
    let serving = serve(Arc::clone(&around), wanted);
    let cancelled = cancel.clone();
    tasks.spawn("replica", async move {
        tokio::select! {
            () = serving => {}
            () = cancelled.cancelled() => {}
        }
        Ok::<_, Infallible>(())
    });
    let proving = prove_all(around, handle, proofs);
    tasks.spawn("proofs of a replica", async move {
        tokio::select! {
            () = proving => {}
            () = cancel.cancelled() => {}
        }
        Ok::<_, Infallible>(())
    });
}

/// Does what the loop wants, one after the other.
async fn serve(around: Arc<Surroundings>, mut wanted: mpsc::UnboundedReceiver<Wanted>) {
    while let Some(wanted) = wanted.recv().await {
        match wanted {
            Wanted::Lead { must_publish } => {
                if let Some(inputs) = around.inputs.upgrade() {
                    // A writer that is gone has said why.
                    inputs.send(Input::Lead { must_publish }).await.ok();
                }
            }
            Wanted::Notify(zone, serial) => around.notify(&zone, serial).await,
        }
    }
    // The loop has ended, and says why.
    std::future::pending().await
}

/// Proves what is asked for, one after the other.
async fn prove_all(
    around: Arc<Surroundings>,
    handle: Handle,
    mut proofs: mpsc::UnboundedReceiver<Epoch>,
) {
    while let Some(epoch) = proofs.recv().await {
        let serials = around.prove().await;
        if handle.proven(epoch, serials).await.is_err() {
            break;
        }
    }
    // The loop has ended, and says why.
    std::future::pending().await
}

impl Surroundings {
    /// Notifies secondaries of a version, once it is current.
    async fn notify(&self, apex: &Name, serial: Serial) {
        let Some(zone) = self.zones.get(apex) else {
            return;
        };
        let mut published = zone.subscribe();
        let is_current = || {
            let current = zone.current();
            current.is_some_and(|it| it.serial == serial || it.serial.is_after(serial))
        };
        let current = async {
            while !is_current() {
                if published.changed().await.is_err() {
                    return;
                }
            }
        };
        if timeout(PUBLISHED_WITHIN, current).await.is_err() {
            tracing::warn!(zone = %apex, %serial, "a version is announced, but not current in time");
        }
        self.table.notices.notify(apex);
    }

    /// Waits until all sources were listed, and asks the secondaries for their serials.
    async fn prove(&self) -> BTreeMap<Name, Serial> {
        let asked = self.secondaries.lock();
        let mut asked = asked.unwrap_or_else(PoisonError::into_inner).clone();
        // A reload may have removed some.
        asked.retain(|(secondary, _)| self.table.knows(secondary.target));
        let (serials, ()) = tokio::join!(
            ask_serials(asked, AskSettings::default(), Arc::clone(&self.clock)),
            self.await_sources(),
        );
        let unix_seconds = ops::millis(self.clock.wall()) / 1000;
        let mut latest: BTreeMap<Name, Serial> = BTreeMap::new();
        for reported in serials {
            self.table
                .heard(&reported.zone, reported.peer, reported.serial);
            let own = self.zones.get(&reported.zone);
            let own = own.and_then(|zone| zone.current()).map(|it| it.serial);
            if !reported.counts(own, unix_seconds) {
                continue;
            }
            let serial = latest.entry(reported.zone).or_insert(reported.serial);
            *serial = serial.later(reported.serial);
        }
        latest
    }

    /// Waits until everything was listed once. A leader without facts has nothing to publish.
    async fn await_sources(&self) {
        let clusters = || self.deployment.plan.clusters.iter();
        let is_listed = || {
            clusters().all(|cluster| {
                let gauges = &self.deployment.cluster(cluster).handles.gauges;
                gauges.synced.load(Ordering::Relaxed) == 1
            })
        };
        while !is_listed() {
            sleep(LOOK).await;
        }
    }
}

//! The writer's store on a replica that leads: a commit returns when its versions are announced.
//!
//! The methods are those of the writer's trait for stores, which the program implements with this and its file of holds.
//!
//! Acts and Corefiles that the writer notes go with the next version of their zone, so that all replicas have them. Until then they
//! are in memory alone, and are lost with the process.

use dns::{Name, Serial};
use provenance::Cause;
use replicas::chain::{Part, Step};
use replicas::term::{Permit, Wait};
use zone::journal::{Act, Attached, Beside, Journal, KeptCorefile, Portion, Retention};
use zone::{Candidate, Journaled};

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::thread::Request;
use crate::tips::tip_of;

/// So many acts may wait for a version; the earliest go first.
const ACTS_MOST: usize = 4096;

/// The replica as the writer sees it. Each call waits for the loop that drives the replica.
pub trait Replica: Send {
    /// Asks for the right to make the next version of a zone, with at least this serial.
    ///
    /// # Errors
    /// [`Wait`] when there is none now.
    fn permit(&mut self, zone: &Name, least: Serial) -> Result<Permit, Wait>;

    /// Proposes a step for which there is a permit.
    fn propose(&mut self, step: Step);
}

/// What became of a proposed version.
#[derive(Debug)]
pub enum Outcome {
    /// It is announced.
    Shown(Box<Journaled>),
    /// It is not in the journal, and its serial is not used.
    Declined(Name),
    /// This replica leads no more. Whoever leads next announces or drops what is not announced.
    Stopped,
}

/// Why a commit failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitsError {
    /// There is no right to make the version now.
    #[error("zone {zone}: no version can be made now ({wait:?}); the last version is served")]
    Wait {
        /// The zone.
        zone: Name,
        /// What is missing.
        wait: Wait,
    },
    /// The version has another serial than the one that it may have.
    #[error("zone {zone}: serial {serial} cannot be used, only {permitted} or later")]
    Serial {
        /// The zone.
        zone: Name,
        /// Its serial.
        serial: Serial,
        /// The serial that it may have.
        permitted: Serial,
    },
    /// It was declined.
    #[error("zone {0}: the version was declined; the last version is served")]
    Declined(Name),
    /// This replica leads no more.
    #[error("another replica leads")]
    Stopped,
    /// The journal's thread has ended.
    #[error("the journal is closed")]
    Closed,
    /// The journal refuses.
    #[error("{0}")]
    Journal(String),
}

/// The store of the writer.
pub struct Commits<R> {
    replica: R,
    requests: SyncSender<Request>,
    /// What became of proposed versions.
    outcomes: Receiver<Outcome>,
    /// Publishes a version of a commit that failed for another zone.
    publish: Box<dyn FnMut(Journaled) + Send>,
    /// Permits for the versions that are being made, and why there is none.
    permits: BTreeMap<Name, Result<Permit, Wait>>,
    /// What goes with the next version of a zone.
    waiting: BTreeMap<Name, Attached>,
    /// The Corefile that goes with the next version.
    corefile: Option<KeptCorefile>,
}

impl<R> std::fmt::Debug for Commits<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Commits").finish_non_exhaustive()
    }
}

impl<R: Replica> Commits<R> {
    /// A store of a replica that leads. `publish` makes a version the current one of its zone.
    #[must_use]
    pub fn new(
        replica: R,
        requests: SyncSender<Request>,
        outcomes: Receiver<Outcome>,
        publish: Box<dyn FnMut(Journaled) + Send>,
    ) -> Self {
        Self {
            replica,
            requests,
            outcomes,
            publish,
            permits: BTreeMap::new(),
            waiting: BTreeMap::new(),
            corefile: None,
        }
    }

    /// What the program keeps with the next version of a zone, such as its holds: at most 1 MiB.
    pub fn keep(&mut self, apex: &Name, state: Vec<u8>) {
        self.waiting.entry(apex.to_lower()).or_default().state = state;
    }

    /// Uses the journal on its thread.
    fn ask<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Journal) -> T + Send + 'static,
    ) -> Result<T, CommitsError> {
        let (tx, rx) = sync_channel(1);
        let call = Box::new(move |journal: &mut Journal| {
            // The caller may be gone.
            drop(tx.send(call(journal)));
        });
        self.send(Request::Call(call))?;
        rx.recv().map_err(|_| CommitsError::Closed)
    }

    fn send(&self, request: Request) -> Result<(), CommitsError> {
        let sent = self.requests.send(request);
        sent.map_err(|_| CommitsError::Closed)
    }

    /// The permit for a candidate.
    fn permit_of(&mut self, candidate: &Candidate) -> Result<Permit, CommitsError> {
        let zone = candidate.version().contents.apex();
        let serial = candidate.version().serial;
        let permit = self.permits.remove(zone);
        let permit = permit.unwrap_or_else(|| self.replica.permit(zone, serial));
        let zone = zone.clone();
        let permit = permit.map_err(|wait| {
            let zone = zone.clone();
            CommitsError::Wait { zone, wait }
        })?;
        let permitted = permit.serial;
        match permitted == serial {
            true => Ok(permit),
            false => Err(CommitsError::Serial {
                zone,
                serial,
                permitted,
            }),
        }
    }

    /// Proposes a candidate: its parts go to the journal first.
    fn propose(&mut self, candidate: &Candidate, permit: &Permit) -> Result<(), CommitsError> {
        let zone = permit.zone.clone();
        let mut attached = self.waiting.get(&zone).cloned().unwrap_or_default();
        attached.corefile = self.corefile.clone();
        let mut parcel = Journal::parcel_of(candidate, permit.epoch.0, attached);
        let tip = tip_of(parcel.tip());
        let mut number = 0;
        let payload = loop {
            match parcel.next_portion() {
                Portion::Last(payload) => break payload.into(),
                Portion::Part(payload) => {
                    let part = Part {
                        zone: zone.clone(),
                        tip,
                        number,
                        payload: payload.into(),
                    };
                    self.send(Request::Prepare(part))?;
                    number += 1;
                }
            }
        };
        let previous = *parcel.previous().as_octets();
        self.replica.propose(Step {
            zone,
            tip,
            previous,
            payload,
        });
        Ok(())
    }

    /// Waits until each zone's version is announced or not.
    fn wait(&mut self, mut zones: Vec<Name>) -> Result<Vec<Journaled>, CommitsError> {
        let mut shown = Vec::new();
        let mut failed = None;
        let order = zones.clone();
        while !zones.is_empty() {
            let outcome = self.outcomes.recv().map_err(|_| CommitsError::Closed)?;
            match outcome {
                Outcome::Shown(version) => {
                    let place = zones.iter().position(|zone| zone == version.apex());
                    match place {
                        Some(place) => {
                            zones.swap_remove(place);
                            shown.push(*version);
                        }
                        None => (self.publish)(*version),
                    }
                }
                Outcome::Declined(zone) => {
                    zones.retain(|it| *it != zone);
                    failed = Some(CommitsError::Declined(zone));
                }
                Outcome::Stopped => {
                    zones.clear();
                    failed = Some(CommitsError::Stopped);
                }
            }
        }
        for version in &shown {
            self.waiting.remove(version.apex());
            self.corefile = None;
        }
        if let Some(error) = failed {
            // What is announced is current, whatever became of the others.
            shown.into_iter().for_each(&mut self.publish);
            return Err(error);
        }
        shown.sort_by_key(|version| order.iter().position(|zone| zone == version.apex()));
        Ok(shown)
    }
}

impl<R: Replica> Commits<R> {
    /// One version of each zone. All of them are asked for before the first is proposed; if one is declined all the same, those
    /// that are announced are published and the commit fails.
    ///
    /// # Errors
    /// [`CommitsError`] when a version is not announced.
    pub fn commit(&mut self, candidates: Vec<Candidate>) -> Result<Vec<Journaled>, CommitsError> {
        let permits: Result<Vec<Permit>, _> =
            candidates.iter().map(|it| self.permit_of(it)).collect();
        self.permits.clear();
        let mut zones = Vec::new();
        for (candidate, permit) in candidates.iter().zip(permits?) {
            self.propose(candidate, &permit)?;
            zones.push(permit.zone);
        }
        self.wait(zones)
    }

    /// The serial of the next version of a zone, of which at least `least` is needed. The permit for it is used by the next commit.
    pub fn serial(&mut self, apex: &Name, least: Serial) -> Serial {
        let permit = self.replica.permit(apex, least);
        let serial = permit.as_ref().map_or(least, |permit| permit.serial);
        self.permits.insert(apex.clone(), permit);
        serial
    }

    /// A serial that the zone's next one must be above, as far as this disk knows.
    #[must_use]
    pub fn floor(&self, apex: &Name) -> Option<Serial> {
        let apex = apex.clone();
        self.ask(move |journal| journal.floor(&apex)).ok()?
    }

    /// Versions that were lost here, as a cause of the next one.
    #[must_use]
    pub fn lost(&self, apex: &Name) -> Option<Cause> {
        let apex = apex.clone();
        let lost = self.ask(move |journal| journal.lost(&apex)).ok()?;
        lost.map(|lost| lost.cause())
    }

    /// Has acts go with the next version of their zones, and a Corefile with the next version of any.
    pub fn note(&mut self, corefile: Option<&KeptCorefile>, acts: &[(Name, Act)]) {
        self.corefile = corefile.cloned().or(self.corefile.take());
        for (zone, act) in acts {
            let waiting = &mut self.waiting.entry(zone.to_lower()).or_default().acts;
            waiting.push(act.clone());
            let excess = waiting.len().saturating_sub(ACTS_MOST);
            waiting.drain(..excess);
        }
    }

    /// Sets how much history of a zone is kept here.
    pub fn set_retention(&mut self, apex: &Name, retention: Retention) {
        let apex = apex.clone();
        let set = self.ask(move |journal| journal.set_retention(&apex, retention));
        if let Err(error) = set {
            tracing::debug!(%error, "the limits of a history are not set");
        }
    }

    /// Writes entries beside the versions of a zone, on this disk alone.
    ///
    /// # Errors
    /// [`CommitsError`] when the journal refuses or is closed.
    pub fn put_beside(&mut self, apex: &Name, entries: &[Beside]) -> Result<(), CommitsError> {
        let (apex, entries) = (apex.clone(), entries.to_vec());
        let put = self.ask(move |journal| journal.put_beside(&apex, &entries))?;
        put.map_err(|error| CommitsError::Journal(error.to_string()))
    }

    /// Removes the entries beside the versions of a zone from this disk.
    ///
    /// # Errors
    /// [`CommitsError`] when the journal refuses or is closed.
    pub fn forget_beside(&mut self, apex: &Name) -> Result<(), CommitsError> {
        let apex = apex.clone();
        let done = self.ask(move |journal| journal.forget_beside(&apex))?;
        done.map_err(|error| CommitsError::Journal(error.to_string()))
    }

    /// Takes the numbers of versions that were dropped here before their time, each with its zone.
    #[must_use]
    pub fn take_early(&mut self) -> Vec<(Name, u64)> {
        self.ask(Journal::take_early).unwrap_or_default()
    }
}

//! The Lease of an installation at its API server: carries out calls, and gives what the watch says.

use kubernetes::source::api_server::lease::{LeaseClient, LeaseFault, LeaseObject};
use ops::Clock;
use replicas::lease::{Answer, Call};
use replicas::record::{Record, Seen};

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::annotations::{self, AnnotationError, Written};

/// The Lease.
#[derive(Debug)]
pub struct LeaseEdge {
    client: LeaseClient,
    clock: Arc<dyn Clock>,
    lease_duration: Duration,
    /// Locked to read or replace it.
    state: Mutex<State>,
}

/// Where a Lease comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The answer to a request.
    Request,
    /// The watch, which may be late.
    Watch,
}

/// What is remembered between calls.
#[derive(Debug, Default)]
struct State {
    /// The Lease as the API server last gave it: a write keeps its labels and the annotations of others, and names its uid.
    last: LeaseObject,
    /// Why it could not be read; logged once.
    unreadable: Option<AnnotationError>,
}

impl LeaseEdge {
    /// The Lease that this client reads and writes. `lease_duration` is written for people.
    #[must_use]
    pub fn new(client: LeaseClient, clock: Arc<dyn Clock>, lease_duration: Duration) -> Self {
        Self {
            client,
            clock,
            lease_duration,
            state: Mutex::default(),
        }
    }

    /// Carries out a call with one request.
    pub async fn call(&self, call: Call) -> Answer {
        let is_read = matches!(call, Call::Get);
        let outcome = match call {
            Call::Get => self.client.get().await,
            Call::Put { version, record } => {
                let base = self.base(version);
                self.client.replace(self.lease(&record, &base)).await
            }
            Call::Create(record) => {
                let base = LeaseObject::default();
                self.client.create(self.lease(&record, &base)).await
            }
        };
        match outcome.map(|object| self.read(object, Origin::Request)) {
            Ok(Some(seen)) if is_read => Answer::Read(seen),
            Ok(Some(seen)) => Answer::Written(seen),
            Ok(None) => Answer::Failed,
            Err(LeaseFault::NotFound) => Answer::NotFound,
            Err(LeaseFault::Conflict) => Answer::Conflict,
            Err(LeaseFault::Failed(reason)) => {
                tracing::debug!(%reason, "a call about the Lease failed");
                Answer::Failed
            }
        }
    }

    /// Gives what the watch has, as long as it is polled.
    pub async fn follow(&self, mut take: impl FnMut(Seen)) {
        let follow = |object| {
            if let Some(seen) = self.read(object, Origin::Watch) {
                take(seen);
            }
        };
        self.client.follow(follow).await;
    }

    /// The Lease with this version, as far as it is known. If the last known one has another version, the write is about to be refused.
    fn base(&self, version: String) -> LeaseObject {
        let last = self.state().last.clone();
        if last.resource_version == version {
            last
        } else {
            LeaseObject {
                resource_version: version,
                uid: last.uid,
                ..LeaseObject::default()
            }
        }
    }

    fn lease(&self, record: &Record, base: &LeaseObject) -> LeaseObject {
        let written = Written {
            now: self.clock.wall(),
            lease_duration: self.lease_duration,
        };
        annotations::write(record, base, &written)
    }

    /// What the API server gave; `None` if it cannot be read.
    fn read(&self, object: LeaseObject, from: Origin) -> Option<Seen> {
        let read = annotations::read(&object);
        let mut state = self.state();
        match read {
            Ok(seen) => {
                if from == Origin::Request || object.is_newer_than(&state.last) {
                    state.last = object;
                }
                state.unreadable = None;
                Some(seen)
            }
            Err(error) => {
                if state.unreadable.as_ref() != Some(&error) {
                    tracing::error!(%error, "the Lease cannot be used; correct or delete it");
                }
                state.unreadable = Some(error);
                None
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

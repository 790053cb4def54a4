//! The keys that a change of facts makes dirty, with the object that caused it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use provenance::{Cause, FactKey, ObjectKey, Origin, Verb};

use crate::facts::{Concern, Concerns, PodAddress};

/// From this number of causes on, a new cause of an object replaces its previous one. While a store refuses versions,
/// objects continue to change; this limits the causes to this number plus one per object.
const CAUSES_MOST: usize = 65_536;

/// The keys to render again, with their causes.
#[derive(Debug, Default)]
pub struct Dirty {
    /// All causes since the last rendering, in the order of their arrival; see [`CAUSES_MOST`].
    pub causes: Vec<Cause>,
    /// What causes concern, where that is not all of an object.
    pub concerns: Concerns,
    /// The number of changes with a cause.
    pub changes: u64,
    /// The position of each object's last cause; empty until there are [`CAUSES_MOST`] causes.
    last: HashMap<FactKey, u32>,
    /// The position of the configuration, if it is a cause.
    configured: Option<u32>,
    /// Services, each with the positions of its causes in `causes`.
    pub services: BTreeMap<ObjectKey, BTreeSet<u32>>,
    /// ServiceImports, likewise.
    pub imports: BTreeMap<ObjectKey, BTreeSet<u32>>,
    /// Addresses whose PTRs may differ, with the positions of their causes.
    pub addresses: BTreeMap<IpAddr, BTreeSet<u32>>,
    /// What Services and ServiceImports had before. It is gone, and still concerns who changes them further.
    lost: BTreeMap<FactKey, Lost>,
    /// Names of pods that may have been added or removed, with the positions of their causes.
    pub pods: BTreeMap<PodAddress, BTreeSet<u32>>,
    /// Namespaces that were added or removed.
    pub namespaces: BTreeSet<Arc<str>>,
}

/// Addresses that a Service or ServiceImport had before.
#[derive(Debug, Default)]
struct Lost {
    /// Its own.
    own: BTreeSet<IpAddr>,
    /// Those of its endpoints.
    endpoints: BTreeSet<IpAddr>,
}

impl Dirty {
    /// Whether there is nothing to render.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.services.is_empty()
            && self.imports.is_empty()
            && self.addresses.is_empty()
            && self.pods.is_empty()
            && self.namespaces.is_empty()
    }

    /// Adds a cause and returns its position.
    pub(super) fn cause(&mut self, verb: Verb, key: FactKey, origin: Origin) -> u32 {
        self.changes += 1;
        let next = u32::try_from(self.causes.len()).expect("fewer than 2^32 causes in one batch");
        let place = match self.causes.len() >= CAUSES_MOST {
            true => *self.last_places().entry(key.clone()).or_insert(next),
            false => next,
        };
        let cause = Cause {
            verb,
            kind: Some(key.kind),
            key: key.key,
            origin,
        };
        match usize::try_from(place)
            .ok()
            .and_then(|place| self.causes.get_mut(place))
        {
            Some(before) => {
                *before = cause;
                self.concerns.forget(place);
            }
            None => self.causes.push(cause),
        }
        place
    }

    /// Notes what a cause that was just added concerns.
    pub(super) fn concern(&mut self, cause: u32, concern: Concern) {
        let last = self.causes.last().filter(|it| it.kind.is_some());
        let is_last = usize::try_from(cause).is_ok_and(|place| place + 1 == self.causes.len());
        if last.is_some() && is_last && self.causes.len() < CAUSES_MOST {
            self.concerns.note(cause, concern);
        }
    }

    /// The position of the configuration as a cause; `source` is what it reads.
    pub(super) fn configuration(&mut self, source: &str) -> u32 {
        self.changes += 1;
        if let Some(known) = self.configured {
            return known;
        }
        let place = u32::try_from(self.causes.len()).expect("fewer than 2^32 causes in one batch");
        self.causes.push(Cause::of(Verb::Configured, source));
        self.configured = Some(place);
        place
    }

    /// The position of each object's last cause.
    fn last_places(&mut self) -> &mut HashMap<FactKey, u32> {
        if self.last.is_empty() {
            for (place, cause) in (0..).zip(&self.causes) {
                if let Some(kind) = cause.kind {
                    let key = cause.key.clone();
                    self.last.insert(FactKey { kind, key }, place);
                }
            }
        }
        &mut self.last
    }

    pub(super) fn service(&mut self, key: &ObjectKey, cause: u32) {
        self.services.entry(key.clone()).or_default().insert(cause);
    }

    pub(super) fn import(&mut self, key: &ObjectKey, cause: u32) {
        self.imports.entry(key.clone()).or_default().insert(cause);
    }

    pub(super) fn address(&mut self, address: IpAddr, cause: u32) {
        self.addresses.entry(address).or_default().insert(cause);
    }

    pub(super) fn addresses<'a>(&mut self, all: impl IntoIterator<Item = &'a IpAddr>, cause: u32) {
        for address in all {
            self.address(*address, cause);
        }
    }

    /// Notes own addresses that a Service or ServiceImport does not have any more.
    pub(super) fn lose_own(&mut self, of: FactKey, addresses: impl Iterator<Item = IpAddr>) {
        self.lost.entry(of).or_default().own.extend(addresses);
    }

    /// Notes endpoints' addresses that a Service or ServiceImport does not have any more.
    pub(super) fn lose_endpoints(&mut self, of: FactKey, addresses: impl Iterator<Item = IpAddr>) {
        self.lost.entry(of).or_default().endpoints.extend(addresses);
    }

    /// Marks the own addresses that a Service or ServiceImport had before: a slice empties or fills it.
    pub(super) fn lost_own(&mut self, of: &FactKey, cause: u32) {
        let addresses = self.lost.get(of).map(|lost| lost.own.clone());
        self.addresses(&addresses.unwrap_or_default(), cause);
    }

    /// Marks the endpoints' addresses that a Service or ServiceImport had before: it changes itself.
    pub(super) fn lost_endpoints(&mut self, of: &FactKey, cause: u32) {
        let addresses = self.lost.get(of).map(|lost| lost.endpoints.clone());
        self.addresses(&addresses.unwrap_or_default(), cause);
    }

    pub(super) fn pods(&mut self, pods: impl IntoIterator<Item = PodAddress>, cause: u32) {
        for at in pods {
            self.pods.entry(at).or_default().insert(cause);
        }
    }
}

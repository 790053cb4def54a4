//! What a change of facts makes due for rendering, and which object caused it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use provenance::{Cause, FactKey, ObjectKey, Origin, Verb};

use crate::facts::PodAddress;

/// From so many causes on, a change of an object that is among them takes the place of the one before: while a
/// store refuses versions objects go on changing, and there are no more causes than this and one for each object.
const CAUSES_MOST: usize = 65_536;

/// What has to be rendered again, and why.
#[derive(Debug, Default)]
pub struct Dirty {
    /// All causes since the last rendering, in order of arrival; see [`CAUSES_MOST`].
    pub causes: Vec<Cause>,
    /// How many changes had a cause.
    pub changes: u64,
    /// The place of the last cause of each object; empty before there are so many.
    last: HashMap<FactKey, u32>,
    /// Services, each with the places of its causes in `causes`.
    pub services: BTreeMap<ObjectKey, BTreeSet<u32>>,
    /// ServiceImports, likewise.
    pub imports: BTreeMap<ObjectKey, BTreeSet<u32>>,
    /// Addresses whose PTRs may differ, with the places of their causes.
    pub addresses: BTreeMap<IpAddr, BTreeSet<u32>>,
    /// Names of pods that may have come or gone, with the places of their causes.
    pub pods: BTreeMap<PodAddress, BTreeSet<u32>>,
    /// Namespaces that came or went.
    pub namespaces: BTreeSet<Arc<str>>,
}

impl Dirty {
    /// Whether nothing has to be done.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.services.is_empty()
            && self.imports.is_empty()
            && self.addresses.is_empty()
            && self.pods.is_empty()
            && self.namespaces.is_empty()
    }

    /// Notes a cause; gives its place.
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
            Some(before) => *before = cause,
            None => self.causes.push(cause),
        }
        place
    }

    /// The place of the last cause of each object.
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

    pub(super) fn pods(&mut self, pods: impl IntoIterator<Item = PodAddress>, cause: u32) {
        for at in pods {
            self.pods.entry(at).or_default().insert(cause);
        }
    }
}

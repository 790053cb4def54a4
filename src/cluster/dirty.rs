//! What a change of facts makes due for rendering, and which object caused it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use crate::cluster::{Cause, FactKey, ObjectKey, Origin, PodAddress, Verb};

/// What has to be rendered again, and why.
#[derive(Debug, Default)]
pub struct Dirty {
    /// All causes since the last rendering, in order of arrival.
    pub causes: Vec<Cause>,
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
        let place = u32::try_from(self.causes.len()).expect("fewer than 2^32 causes in one batch");
        self.causes.push(Cause {
            verb,
            kind: Some(key.kind),
            key: key.key,
            origin,
        });
        place
    }

    /// Marks a Service.
    pub(super) fn service(&mut self, key: &ObjectKey, cause: u32) {
        self.services.entry(key.clone()).or_default().insert(cause);
    }

    /// Marks a ServiceImport.
    pub(super) fn import(&mut self, key: &ObjectKey, cause: u32) {
        self.imports.entry(key.clone()).or_default().insert(cause);
    }

    /// Marks an address.
    pub(super) fn address(&mut self, address: IpAddr, cause: u32) {
        self.addresses.entry(address).or_default().insert(cause);
    }

    /// Marks names of pods.
    pub(super) fn pods(&mut self, pods: impl IntoIterator<Item = PodAddress>, cause: u32) {
        for at in pods {
            self.pods.entry(at).or_default().insert(cause);
        }
    }
}

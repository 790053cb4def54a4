//! What of a Service or ServiceImport a change concerns, where that is not all of it.
//!
//! Several changes of one Service may come in one batch. Its records are rendered once, and each one that differs is to name
//! the changes that made it differ: not the slice that has another endpoint.

use std::collections::{HashMap, HashSet};

use crate::facts::{Endpoint, EndpointSlice};

/// The most endpoints of one batch that are noted. Changes beyond are named for all records of their Services.
const ENDPOINTS_MOST: usize = 16_384;

/// What of a Service or ServiceImport a change concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Concern {
    /// The records of these endpoints.
    Endpoints {
        /// Those that came, went or changed.
        endpoints: Vec<Endpoint>,
        /// Whether the slice has its first or last endpoint by this, which can show or hide all records.
        refills: bool,
    },
    /// The SRV records.
    Ports,
}

impl Concern {
    /// What the change of a slice concerns; `None`: all records.
    pub(super) fn of_slice(
        old: Option<&EndpointSlice>,
        new: Option<&EndpointSlice>,
    ) -> Option<Self> {
        let set = |slice: Option<&EndpointSlice>| -> HashSet<Endpoint> {
            let endpoints = slice.map(|slice| slice.endpoints.iter().cloned());
            endpoints.into_iter().flatten().collect()
        };
        let (before, after) = (set(old), set(new));
        let is_same = |old: &EndpointSlice, new: &EndpointSlice| {
            old.service == new.service
                && old.import == new.import
                && old.form == new.form
                && old.ports == new.ports
        };
        let differing: Vec<Endpoint> = match (old, new) {
            (Some(old), Some(new)) if is_same(old, new) => {
                before.symmetric_difference(&after).cloned().collect()
            }
            _ => before.union(&after).cloned().collect(),
        };
        // The alias of a whole Service may depend on a host name.
        let has_alias = differing.iter().any(|it| it.fqdn().is_some());
        let owners = |slice: Option<&EndpointSlice>| {
            let filled = slice.filter(|slice| !slice.endpoints.is_empty());
            filled.map(|slice| (slice.service.clone(), slice.import.clone()))
        };
        (!has_alias).then(|| Self::Endpoints {
            endpoints: differing,
            refills: owners(old) != owners(new),
        })
    }
}

/// The concerns of one batch.
#[derive(Debug, Default)]
pub struct Concerns {
    by_cause: HashMap<u32, Concern>,
    /// The number of endpoints noted.
    endpoints: usize,
}

impl Concerns {
    /// Notes the concern of the cause at this position.
    pub(super) fn note(&mut self, cause: u32, concern: Concern) {
        let count = match &concern {
            Concern::Endpoints { endpoints, .. } => endpoints.len(),
            Concern::Ports => 0,
        };
        if self.endpoints + count <= ENDPOINTS_MOST {
            self.endpoints += count;
            self.by_cause.insert(cause, concern);
        }
    }

    /// Says that the cause at this position concerns more.
    pub(super) fn forget(&mut self, cause: u32) {
        self.by_cause.remove(&cause);
    }

    /// All concerns, with the positions of their causes.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Concern)> {
        self.by_cause
            .iter()
            .map(|(cause, concern)| (*cause, concern))
    }
}

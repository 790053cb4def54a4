//! EndpointSlices: their owners (a Service, an import), and the keys that a change of one makes dirty.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use provenance::{Kind, ObjectKey};

use super::{State, cluster_ips};
use crate::facts::{Concern, Dirty, Endpoint, EndpointSlice};

/// The names of the slices of each owner, sorted, whether the owner exists or not. Most owners have one.
#[derive(Debug, Default)]
pub(super) struct SliceNames(HashMap<ObjectKey, Vec<Arc<str>>>);

impl SliceNames {
    /// The keys of an owner's slices, by name.
    pub(super) fn of<'a>(
        &'a self,
        owner: &'a ObjectKey,
    ) -> impl Iterator<Item = ObjectKey> + Clone + 'a {
        let names = self.0.get(owner).into_iter().flatten();
        names.map(|name| ObjectKey {
            namespace: owner.namespace.clone(),
            name: name.clone(),
        })
    }

    /// Adds a slice to an owner.
    pub(super) fn link(&mut self, owner: &ObjectKey, slice: &EndpointSlice) {
        let names = self.0.entry(owner.clone()).or_default();
        if let Err(place) = names.binary_search(&slice.key.name) {
            names.reserve_exact(1);
            names.insert(place, slice.key.name.clone());
        }
    }

    /// Removes a slice from an owner.
    pub(super) fn unlink(&mut self, owner: &ObjectKey, slice: &EndpointSlice) {
        if let Some(names) = self.0.get_mut(owner) {
            names.retain(|name| *name != slice.key.name);
            if names.is_empty() {
                self.0.remove(owner);
            }
        }
    }
}

/// The owners of a slice before and after a change.
pub(super) struct Owners {
    pub(super) before: Option<ObjectKey>,
    pub(super) after: Option<ObjectKey>,
    /// Owners for which the slice has endpoints only before or only after the change. Losing the last endpoint can
    /// hide an owner, and gaining the first can show it.
    pub(super) refilled: Vec<ObjectKey>,
}

impl Owners {
    /// Compares the owners of a slice before and after a change; `owner` finds the owner.
    pub(super) fn of(
        old: Option<&EndpointSlice>,
        new: Option<&EndpointSlice>,
        owner: impl Fn(&EndpointSlice) -> Option<ObjectKey>,
    ) -> Self {
        let (before, after) = (old.and_then(&owner), new.and_then(&owner));
        let filler = |owner: &Option<ObjectKey>, slice: Option<&EndpointSlice>| {
            let is_filled = slice.is_some_and(|slice| !slice.endpoints.is_empty());
            owner.clone().filter(|_| is_filled)
        };
        let (filled, fills) = (filler(&before, old), filler(&after, new));
        let refilled = match filled == fills {
            true => Vec::new(),
            false => filled.into_iter().chain(fills).collect(),
        };
        Self {
            before,
            after,
            refilled,
        }
    }
}

pub(super) fn endpoints<'a>(
    old: Option<&'a EndpointSlice>,
    new: &'a EndpointSlice,
) -> [HashSet<&'a Endpoint>; 2] {
    let old = old.map(|old| old.endpoints.iter().collect());
    [old.unwrap_or_default(), new.endpoints.iter().collect()]
}

impl State {
    /// Notes which endpoints the change of a slice concerns. Before the first list it is not known which ones it had.
    pub(super) fn note_concern(
        &self,
        cause: u32,
        old: Option<&EndpointSlice>,
        new: Option<&EndpointSlice>,
        dirty: &mut Dirty,
    ) {
        let is_known = self.is_recalled || self.is_listed(Kind::EndpointSlice);
        if let Some(concern) = Concern::of_slice(old, new).filter(|_| is_known) {
            dirty.concern(cause, concern);
        }
    }

    /// Applies the change of a slice that was added, removed or changed.
    pub(super) fn slice_changed(
        &mut self,
        old: Option<&EndpointSlice>,
        new: Option<&EndpointSlice>,
        cause: u32,
        dirty: &mut Dirty,
    ) {
        let Owners {
            before,
            after,
            refilled,
        } = Owners::of(old, new, owning_service);
        for key in &refilled {
            let service = self.service(key);
            dirty.addresses(service.map(cluster_ips).unwrap_or_default(), cause);
            dirty.lost_own(&Kind::Service.of(key), cause);
        }
        if let (Some(service), Some(slice)) = (&before, old)
            && before != after
        {
            self.slices_of.unlink(service, slice);
            let addresses: BTreeSet<IpAddr> = slice_addresses(slice).collect();
            let of = Kind::Service.of(service);
            dirty.lose_endpoints(of, addresses.iter().copied());
            self.reindex(service, &addresses, &BTreeSet::new());
            dirty.service(service, cause);
            dirty.addresses(&addresses, cause);
        }
        let (Some(service), Some(slice)) = (after, new) else {
            return;
        };
        self.slices_of.link(&service, slice);
        let old = old.filter(|_| before.as_ref() == Some(&service));
        let [known, now] = endpoints(old, slice);
        for endpoint in known.symmetric_difference(&now) {
            dirty.addresses(endpoint.addresses.iter(), cause);
        }
        let gone = known.difference(&now);
        let gone = gone.flat_map(|it| it.addresses.iter().copied());
        dirty.lose_endpoints(Kind::Service.of(&service), gone);
        let before = old.into_iter().flat_map(slice_addresses).collect();
        self.reindex(&service, &before, &slice_addresses(slice).collect());
        dirty.service(&service, cause);
    }
}

/// All addresses of a slice's endpoints.
pub(super) fn slice_addresses(slice: &EndpointSlice) -> impl Iterator<Item = IpAddr> + '_ {
    slice
        .endpoints
        .iter()
        .flat_map(|endpoint| endpoint.addresses.iter().copied())
}

/// The key of a slice's Service.
fn owning_service(slice: &EndpointSlice) -> Option<ObjectKey> {
    let name = slice.service.clone()?;
    Some(ObjectKey {
        namespace: slice.key.namespace.clone(),
        name,
    })
}

/// Whether two slices are equal apart from their origins.
pub(super) fn same_slice(old: &EndpointSlice, new: &EndpointSlice) -> bool {
    let EndpointSlice {
        key,
        service,
        import,
        form,
        ports,
        endpoints,
        created_s,
        origin: _,
    } = new;
    old.key == *key
        && old.service == *service
        && old.import == *import
        && old.form == *form
        && old.ports == *ports
        && old.endpoints == *endpoints
        && old.created_s == *created_s
}

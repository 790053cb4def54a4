//! EndpointSlices: which Service one belongs to, and what it dirties.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;

use super::{State, cluster_ips};
use crate::cluster::{Dirty, EndpointSlice, ObjectKey};

impl State {
    /// A slice came, went or changed.
    pub(super) fn slice_changed(
        &mut self,
        old: Option<&EndpointSlice>,
        new: Option<&EndpointSlice>,
        cause: u32,
        dirty: &mut Dirty,
    ) {
        let service_of = |slice: Option<&EndpointSlice>| slice.and_then(owning_service);
        let (before, after) = (service_of(old), service_of(new));
        // A Service whose last endpoint went, or whose first came, may be hidden or shown.
        let filler = |service: &Option<ObjectKey>, slice: Option<&EndpointSlice>| {
            let is_filled = slice.is_some_and(|slice| !slice.endpoints.is_empty());
            service.clone().filter(|_| is_filled)
        };
        let (filled, fills) = (filler(&before, old), filler(&after, new));
        if filled != fills {
            for key in [filled, fills].iter().flatten() {
                let addresses = self.service(key).map(cluster_ips);
                for address in addresses.unwrap_or_default() {
                    dirty.address(*address, cause);
                }
            }
        }
        if let (Some(service), Some(slice)) = (&before, old)
            && before != after
        {
            self.unlink(service, slice);
            let addresses = slice_addresses(slice).collect();
            self.reindex(service, &addresses, &BTreeSet::new());
            dirty.service(service, cause);
            addresses
                .iter()
                .for_each(|address| dirty.address(*address, cause));
        }
        let (Some(service), Some(slice)) = (after, new) else {
            return;
        };
        let names = self.slices_of.entry(service.clone()).or_default();
        if let Err(place) = names.binary_search(&slice.key.name) {
            names.reserve_exact(1);
            names.insert(place, slice.key.name.clone());
        }
        let old = old.filter(|_| before.as_ref() == Some(&service));
        let known: HashSet<_> = old
            .map(|old| old.endpoints.iter().collect())
            .unwrap_or_default();
        let now: HashSet<_> = slice.endpoints.iter().collect();
        for endpoint in known.symmetric_difference(&now) {
            endpoint
                .addresses
                .iter()
                .for_each(|address| dirty.address(*address, cause));
        }
        let before = old
            .map(|old| slice_addresses(old).collect())
            .unwrap_or_default();
        self.reindex(&service, &before, &slice_addresses(slice).collect());
        dirty.service(&service, cause);
    }

    /// Forgets that a Service has a slice.
    fn unlink(&mut self, service: &ObjectKey, slice: &EndpointSlice) {
        if let Some(names) = self.slices_of.get_mut(service) {
            names.retain(|name| *name != slice.key.name);
            if names.is_empty() {
                self.slices_of.remove(service);
            }
        }
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

/// Whether two slices say the same, origins aside.
pub(super) fn same_slice(old: &EndpointSlice, new: &EndpointSlice) -> bool {
    let EndpointSlice {
        key,
        service,
        import,
        form,
        ports,
        endpoints,
        origin: _,
    } = new;
    old.key == *key
        && old.service == *service
        && old.import == *import
        && old.form == *form
        && old.ports == *ports
        && old.endpoints == *endpoints
}

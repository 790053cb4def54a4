//! The ServiceImports of a cluster: Services of a set of clusters.
//!
//! An import relates to its slices as a Service does to its own: they name it by label, arrive in any order, and make
//! it dirty. A slice can belong to an import and, by another label, to a Service.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use provenance::{FactKey, Kind, ObjectKey};

use super::recall::Event;
use super::slices::{Owners, SliceNames, endpoints};
use super::{State, slice_addresses};
use crate::facts::holders::Holders;
use crate::facts::{Dirty, EndpointSlice, ImportForm, ServiceImport};

#[derive(Debug, Default)]
pub(super) struct Imports {
    /// Imports by key, so that those of a namespace are adjacent.
    pub(super) by_key: BTreeMap<ObjectKey, ServiceImport>,
    /// The slices of each import.
    slices_of: SliceNames,
    /// The imports that hold each address, as their own or by an endpoint.
    holders: Holders,
}

impl State {
    /// Whether the imports were listed. Before that, an absent import may exist.
    #[must_use]
    pub fn has_imports(&self) -> bool {
        self.listed.contains(&Kind::ServiceImport)
    }

    /// An import.
    #[must_use]
    pub fn import(&self, key: &ObjectKey) -> Option<&ServiceImport> {
        self.imports.by_key.get(key)
    }

    /// All imports, by namespace and name.
    pub fn imports(&self) -> impl Iterator<Item = &ServiceImport> {
        self.imports.by_key.values()
    }

    /// The slices of an import, by name.
    pub fn slices_of_import<'a>(
        &'a self,
        import: &'a ObjectKey,
    ) -> impl Iterator<Item = &'a EndpointSlice> + Clone {
        let keys = self.imports.slices_of.of(import);
        keys.filter_map(|key| self.slices.get(&key).map(Box::as_ref))
    }

    /// The imports that hold an address, sorted.
    #[must_use]
    pub fn import_holders(&self, address: IpAddr) -> &[ObjectKey] {
        self.imports.holders.of(address)
    }

    /// All addresses that an import holds.
    pub fn import_addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.imports.holders.addresses()
    }

    pub(super) fn put_import(
        &mut self,
        import: &ServiceImport,
        event: Event,
        key: FactKey,
        dirty: &mut Dirty,
    ) {
        let old = self
            .imports
            .by_key
            .insert(import.key.clone(), import.clone());
        if old.as_ref().is_some_and(|old| same_import(old, import)) {
            return;
        }
        let cause = self.cause(key, event, dirty);
        self.import_changed(&import.key, [old.as_ref(), Some(import)], cause, dirty);
    }

    pub(super) fn take_import(&mut self, key: &FactKey, event: Event, dirty: &mut Dirty) {
        if let Some(old) = self.imports.by_key.remove(&key.key) {
            let cause = self.cause(key.clone(), event, dirty);
            self.import_changed(&key.key, [Some(&old), None], cause, dirty);
        }
    }

    /// Marks the imports of a namespace that was added or removed.
    pub(super) fn mark_imports(&self, namespace: &Arc<str>, cause: u32, dirty: &mut Dirty) {
        let first = ObjectKey {
            namespace: namespace.clone(),
            name: "".into(),
        };
        let inside = self
            .imports
            .by_key
            .range(first..)
            .take_while(|(key, _)| key.namespace == *namespace);
        for (key, _) in inside {
            self.mark_import(key, cause, dirty);
        }
    }

    /// Marks an import and all its addresses.
    pub(super) fn mark_import(&self, key: &ObjectKey, cause: u32, dirty: &mut Dirty) {
        dirty.import(key, cause);
        let own = own_addresses(self.import(key)).iter().copied();
        let all = own.chain(self.slices_of_import(key).flat_map(slice_addresses));
        all.for_each(|address| dirty.address(address, cause));
    }

    /// Marks the keys that depend on an import which was added, removed or changed.
    fn import_changed(
        &mut self,
        key: &ObjectKey,
        [old, new]: [Option<&ServiceImport>; 2],
        cause: u32,
        dirty: &mut Dirty,
    ) {
        dirty.import(key, cause);
        let set = |import| own_addresses(import).iter().copied().collect();
        let (before, after): (BTreeSet<IpAddr>, BTreeSet<IpAddr>) = (set(old), set(new));
        dirty.addresses(before.symmetric_difference(&after), cause);
        let of = Kind::ServiceImport.of(key);
        dirty.lose_own(of.clone(), before.difference(&after).copied());
        self.reindex_import(key, &before, &after);
        // Endpoints have PTRs only under a headless import. The oldest import at an address owns it.
        let points = |import: Option<&ServiceImport>| {
            import.map(|import| (import.form == ImportForm::Headless, import.created_s))
        };
        if points(old) != points(new) {
            let own = own_addresses(new).iter().copied();
            for address in own.chain(self.slices_of_import(key).flat_map(slice_addresses)) {
                dirty.address(address, cause);
            }
            dirty.lost_endpoints(&of, cause);
        }
    }

    /// Marks the import of a slice that was added, removed or changed.
    pub(super) fn import_slice_changed(
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
        } = Owners::of(old, new, owning_import);
        for key in &refilled {
            dirty.addresses(own_addresses(self.imports.by_key.get(key)), cause);
            dirty.lost_own(&Kind::ServiceImport.of(key), cause);
        }
        if let (Some(import), Some(slice)) = (&before, old)
            && before != after
        {
            self.imports.slices_of.unlink(import, slice);
            let addresses: BTreeSet<IpAddr> = slice_addresses(slice).collect();
            let of = Kind::ServiceImport.of(import);
            dirty.lose_endpoints(of, addresses.iter().copied());
            self.reindex_import(import, &addresses, &BTreeSet::new());
            dirty.import(import, cause);
            dirty.addresses(&addresses, cause);
        }
        let (Some(import), Some(slice)) = (after, new) else {
            return;
        };
        self.imports.slices_of.link(&import, slice);
        let old = old.filter(|_| before.as_ref() == Some(&import));
        let moved = old.is_some_and(|old| old.import != slice.import);
        let [known, now] = endpoints(old, slice);
        let all = known.union(&now).filter(|_| moved);
        for endpoint in known.symmetric_difference(&now).chain(all) {
            dirty.addresses(endpoint.addresses.iter(), cause);
        }
        let gone = known.difference(&now);
        let gone = gone.flat_map(|it| it.addresses.iter().copied());
        dirty.lose_endpoints(Kind::ServiceImport.of(&import), gone);
        let before = old.into_iter().flat_map(slice_addresses).collect();
        self.reindex_import(&import, &before, &slice_addresses(slice).collect());
        dirty.import(&import, cause);
    }

    /// Updates the holders of the addresses that one part of an import (its own, one slice) had before and after a
    /// change. The facts themselves are already changed.
    fn reindex_import(
        &mut self,
        key: &ObjectKey,
        before: &BTreeSet<IpAddr>,
        after: &BTreeSet<IpAddr>,
    ) {
        let gone: Vec<IpAddr> = before.difference(after).copied().collect();
        if !gone.is_empty() {
            let own = own_addresses(self.imports.by_key.get(key)).iter().copied();
            let held: HashSet<IpAddr> = own
                .chain(self.slices_of_import(key).flat_map(slice_addresses))
                .collect();
            for address in gone.iter().filter(|address| !held.contains(address)) {
                self.imports.holders.release(key, *address);
            }
        }
        self.imports.holders.hold(key, after.difference(before));
    }
}

/// The addresses of an import itself.
fn own_addresses(import: Option<&ServiceImport>) -> &[IpAddr] {
    match import.map(|import| &import.form) {
        Some(ImportForm::ClusterSetIp(addresses)) => addresses,
        Some(ImportForm::Headless) | None => &[],
    }
}

/// The key of a slice's import.
fn owning_import(slice: &EndpointSlice) -> Option<ObjectKey> {
    let import = slice.import.as_ref()?;
    Some(ObjectKey {
        namespace: slice.key.namespace.clone(),
        name: import.service.clone(),
    })
}

/// Whether two imports are equal apart from their origins.
fn same_import(old: &ServiceImport, new: &ServiceImport) -> bool {
    let ServiceImport {
        key,
        form,
        ports,
        created_s,
        origin: _,
    } = new;
    old.key == *key && old.form == *form && old.ports == *ports && old.created_s == *created_s
}

//! The facts of an earlier run: with them the first lists tell what was done to which object meanwhile.

use std::collections::BTreeSet;
use std::mem::take;
use std::sync::Arc;

use provenance::{FactKey, Kind, Origin, Verb};

use super::State;
use crate::facts::{Dirty, Fact};

/// So many facts are recalled before the marks that they leave are thrown away.
const MARKS_MOST: usize = 1024;

/// The source reads other objects than in the earlier run, or reads them in another way: a difference of the first lists
/// may be of the configuration instead of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reselected {
    /// What the configuration reads.
    pub source: Arc<str>,
    /// Whether nothing else happened between the two. Otherwise it is not known whether an object that is missing was
    /// deleted or is hidden.
    pub is_alone: bool,
}

/// What happened to an object.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) verb: Verb,
    pub(super) origin: Origin,
    /// The origin of the fact before; `None` if there was none.
    pub(super) before: Option<Origin>,
}

impl Reselected {
    /// Whether a difference of the first lists is of the configuration.
    fn explains(&self, event: &Event) -> bool {
        let Event {
            verb,
            origin,
            before,
        } = event;
        let Some(before) = before.as_ref().filter(|_| *verb == Verb::Listed) else {
            return self.is_alone;
        };
        match before.resource_version.is_empty() {
            // A manifest does not say whether it changed.
            true => self.is_alone,
            false => {
                (&before.uid, &before.resource_version) == (&origin.uid, &origin.resource_version)
            }
        }
    }
}

impl State {
    /// Takes in facts of an earlier run, of kinds that are watched, before anything was listed.
    pub fn recall(&mut self, facts: impl IntoIterator<Item = Fact>) {
        self.is_recalled = true;
        let mut marks = Dirty::default();
        for fact in facts {
            self.put(fact, Verb::Listed, &mut marks);
            if marks.causes.len() >= MARKS_MOST {
                marks = Dirty::default();
            }
        }
        self.touched.clear();
    }

    /// Says that the source reads other objects than when the recalled facts were read.
    pub fn reselect(&mut self, reselected: Reselected) {
        self.reselected = Some(reselected);
    }

    /// Whether a kind was listed.
    #[must_use]
    pub fn is_listed(&self, kind: Kind) -> bool {
        self.listed.contains(&kind)
    }

    /// The fact of an object.
    #[must_use]
    pub fn fact(&self, FactKey { kind, key }: &FactKey) -> Option<Fact> {
        match kind {
            Kind::Namespace => self.namespaces.get(&key.name).cloned().map(Fact::Namespace),
            Kind::Service => self.service(key).cloned().map(Fact::Service),
            Kind::EndpointSlice => {
                let slice = self.slices.get(key);
                slice.map(|slice| Fact::EndpointSlice((**slice).clone()))
            }
            Kind::Pod => self.pods.get(key).cloned().map(Fact::Pod),
            Kind::ServiceImport => self.import(key).cloned().map(Fact::ServiceImport),
        }
    }

    /// The objects whose facts, origins included, changed since this was asked last.
    pub fn take_touched(&mut self) -> BTreeSet<FactKey> {
        take(&mut self.touched)
    }

    /// All objects.
    pub fn objects(&self) -> impl Iterator<Item = FactKey> {
        let namespaces = self.namespaces.values();
        let namespaces = namespaces.map(|it| Kind::Namespace.of(&it.key));
        let services = self.services.keys().map(|key| Kind::Service.of(key));
        let slices = self.slices.keys().map(|key| Kind::EndpointSlice.of(key));
        let pods = self.pods.keys().map(|key| Kind::Pod.of(key));
        let imports = self.imports().map(|it| Kind::ServiceImport.of(&it.key));
        let all = namespaces.chain(services).chain(slices);
        all.chain(pods).chain(imports)
    }

    /// Notes an object if its fact, its origin included, changes. Gives its origin before.
    pub(super) fn note(&mut self, key: &FactKey, new: Option<&Fact>) -> Option<Origin> {
        let before = self.fact(key);
        if before.as_ref() != new {
            self.touched.insert(key.clone());
        }
        before.map(|fact| fact.origin().clone())
    }

    /// The position of the cause of a change.
    pub(super) fn cause(&self, key: FactKey, event: Event, dirty: &mut Dirty) -> u32 {
        let of_list = matches!(event.verb, Verb::Listed | Verb::Vanished);
        let is_first = of_list && !self.is_listed(key.kind);
        let reselected = self.reselected.as_ref().filter(|_| is_first);
        match reselected.filter(|it| it.explains(&event)) {
            Some(it) => dirty.configuration(&it.source),
            None => dirty.cause(event.verb, key, event.origin),
        }
    }
}

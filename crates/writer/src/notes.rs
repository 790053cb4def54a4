//! What is to be named by versions that are still to come, beside the objects of their records: at the start of a
//! writer, and what it leaves to the next.

use dns::Name;
use provenance::{Cause, ObjectKey, Origin, Verb};

use crate::{Pipeline, Store};

/// So many causes may wait for a version of a zone; the earliest go first. One comes with each change of the Corefile
/// while a zone is frozen.
const NOTES_MOST: usize = 64;

/// Causes of the next version of each zone that differs, beside those of its records.
pub type Notes = Vec<(Name, Vec<Cause>)>;

/// What a writer leaves.
#[derive(Debug)]
pub struct Ended<S> {
    /// Where versions become durable.
    pub store: S,
    /// What no version named yet, for [`Pipeline::with_notes`] of the next writer.
    pub notes: Notes,
}

impl<S: Store> Pipeline<S> {
    /// Goes on with what an earlier writer left for versions to name. After the files and the catalogs were given, and
    /// before [`Self::with_change`].
    #[must_use]
    pub fn with_notes(mut self, notes: Notes) -> Self {
        for (apex, causes) in notes {
            if let Some((_, guard)) = self.guard_of(&apex) {
                causes.into_iter().for_each(|cause| guard.note(cause));
                continue;
            }
            let mut catalogs = self.catalogs.iter_mut();
            if let Some(catalog) = catalogs.find(|it| *it.zone.apex() == apex) {
                catalog.notes = causes;
            }
        }
        self
    }

    /// The plans come with a change of the configuration: a cause of what the first rendering of each zone changes,
    /// whenever that leaves. After the files and the catalogs were given.
    #[must_use]
    pub fn with_change(mut self, change: Option<&str>) -> Self {
        let Some(what) = change else { return self };
        let cause = Cause {
            verb: Verb::Configured,
            kind: None,
            key: ObjectKey::new("", what),
            origin: Origin::default(),
        };
        for (_, guard) in self.guarded() {
            guard.note(cause.clone());
        }
        for catalog in &mut self.catalogs {
            add_note(&mut catalog.notes, cause.clone());
        }
        self
    }

    pub(super) fn end(mut self) -> Ended<S> {
        let of_guards = self.guarded().map(|(zone, guard)| (zone, guard.notes()));
        let mut notes: Notes = of_guards
            .map(|(zone, notes)| (zone.apex().clone(), notes.to_vec()))
            .collect();
        let of_catalogs = self.catalogs.iter();
        notes.extend(of_catalogs.map(|it| (it.zone.apex().clone(), it.notes.clone())));
        notes.retain(|(_, causes)| !causes.is_empty());
        Ended {
            store: self.store,
            notes,
        }
    }
}

/// Adds a cause of the next version that differs.
pub(super) fn add_note(notes: &mut Vec<Cause>, cause: Cause) {
    if notes.contains(&cause) {
        return;
    }
    if notes.len() == NOTES_MOST {
        notes.remove(0);
    }
    notes.push(cause);
}

//! Objects for records that a restart finds gone: nobody saw them go, but the history knows who brought them.

use std::collections::BTreeMap;

use crate::cluster::{Cause, Kind, Verb};
use crate::dns::{Name, RrList};
use crate::pipeline::Store;
use crate::pipeline::render::ZoneDraft;

/// The most records of one version that are looked up: the writer must not wait long for a whole zone that is
/// gone. The others name the source that lacks them.
const LOOKED_UP: usize = 1000;

/// Names for records that go because a source lacks them the objects that brought them.
pub(super) fn name_vanished(store: &impl Store, apex: &Name, draft: &mut ZoneDraft) {
    let is_unnamed = |group: &Vec<Cause>| {
        let mut causes = group.iter();
        causes.all(|cause| cause.verb == Verb::Vanished && cause.kind.is_none())
    };
    let unnamed: Vec<bool> = draft.causes.iter().map(is_unnamed).collect();
    if !unnamed.contains(&true) {
        return;
    }
    let is_unnamed =
        |tag: u32| usize::try_from(tag).is_ok_and(|tag| unnamed.get(tag) == Some(&true));
    let mut tags: BTreeMap<Vec<String>, u32> = BTreeMap::new();
    let mut removed = RrList::with_capacity(draft.draft.removed.as_octets().len());
    let mut looked_up = 0;
    for mut rr in &draft.draft.removed {
        if is_unnamed(rr.tag) && looked_up < LOOKED_UP {
            looked_up += 1;
            let causes = vanished(store.origin(apex, rr));
            if !causes.is_empty() {
                let key: Vec<String> = causes.iter().map(|cause| format!("{cause:?}")).collect();
                rr.tag = *tags.entry(key).or_insert_with(|| {
                    draft.causes.push(causes);
                    u32::try_from(draft.causes.len() - 1).unwrap_or(0)
                });
            }
        }
        removed.push(rr);
    }
    removed.shrink();
    draft.draft.removed = removed;
    forget_unused(draft);
}

/// The objects behind a record, as what is gone; its namespace only where nothing else is known.
fn vanished(causes: Vec<Cause>) -> Vec<Cause> {
    let is_own = |cause: &Cause| cause.kind.is_some_and(|kind| kind != Kind::Namespace);
    let has_own = causes.iter().any(is_own);
    let objects = causes.into_iter().filter(|cause| cause.kind.is_some());
    let objects = objects.filter(|cause| is_own(cause) || !has_own);
    let gone = |cause| Cause {
        verb: Verb::Vanished,
        ..cause
    };
    objects.map(gone).collect()
}

/// Takes out groups of causes that no record names.
fn forget_unused(draft: &mut ZoneDraft) {
    let records = draft.draft.removed.iter().chain(draft.draft.added.iter());
    let mut new: BTreeMap<u32, u32> = records.map(|rr| (rr.tag, 0)).collect();
    for (place, tag) in (0..).zip(new.values_mut()) {
        *tag = place;
    }
    let kept = new.keys().filter_map(|tag| usize::try_from(*tag).ok());
    let kept = kept.filter_map(|tag| draft.causes.get(tag).cloned());
    let kept: Vec<Vec<Cause>> = kept.collect();
    let new_tag = |tag: u32| new.get(&tag).copied().unwrap_or(0);
    draft.draft.removed.retag(new_tag);
    draft.draft.added.retag(new_tag);
    draft.causes = kept;
}

//! The Corefile as the cause of the records that it changed.

use std::collections::HashSet;

use dns::{RrList, RrRef, Ttl};
use provenance::{Cause, Verb};

use crate::attribute::{forget_unused, is_of_no_object};
use crate::zone_edit::ZoneDraft;

/// How a change of the Corefile is named, by the digests of the new one and of the one before.
#[must_use]
pub fn change_of_corefile(new: &str, old: &str) -> String {
    format!("the Corefile, digest {new:.16}…, before {old:.16}…")
}

/// Names changes of the Corefile as the causes of records. They take the place of the source, for records of the
/// configuration, and of objects, for records whose TTL alone changed: no object has a TTL.
/// For other records whose objects were only read again, or were missing then, they come first, unless it is known that these
/// objects differ (`lists_are_exact`). Then no object is missing where none is named: such records go because of the Corefile.
pub(super) fn name_corefile(draft: &mut ZoneDraft, changes: &[Cause], lists_are_exact: bool) {
    if changes.is_empty() {
        return;
    }
    let is_read = |group: &Vec<Cause>| !group.is_empty() && group.iter().all(is_of_list);
    let read: Vec<bool> = draft.causes.iter().map(is_read).collect();
    let is_missing = |group: &[Cause]| lists_are_exact && group.iter().all(is_of_no_object);
    // A key of etcd, which has a TTL, is of no kind.
    let is_object =
        |group: &Vec<Cause>| !group.is_empty() && group.iter().all(|cause| cause.kind.is_some());
    let objects: Vec<bool> = draft.causes.iter().map(is_object).collect();
    if objects.contains(&true) {
        let of_object =
            |tag: u32| usize::try_from(tag).is_ok_and(|tag| objects.get(tag) == Some(&true));
        let of_ttl = u32::try_from(draft.causes.len()).unwrap_or(0);
        let (removed, added) = (&draft.draft.removed, &draft.draft.added);
        let both =
            [removed, added].map(|list| list.iter().map(without_ttl).collect::<HashSet<_>>());
        let retagged = |list: &RrList| {
            let mut new = RrList::with_capacity(list.as_octets().len());
            for mut rr in list {
                let is_ttl = || both.iter().all(|it| it.contains(&without_ttl(rr)));
                if of_object(rr.tag) && is_ttl() {
                    rr.tag = of_ttl;
                }
                new.push(rr);
            }
            new.shrink();
            new
        };
        let lists = (retagged(removed), retagged(added));
        (draft.draft.removed, draft.draft.added) = lists;
    }
    for (group, is_read) in draft.causes.iter_mut().zip(read) {
        let is_source = group.iter().any(Cause::is_configured);
        if !group.is_empty() && is_missing(group) {
            changes.clone_into(group);
        } else if is_source || (is_read && !lists_are_exact) {
            group.retain(|cause| !cause.is_configured());
            group.splice(0..0, changes.iter().cloned());
        }
    }
    let of_ttl = u32::try_from(draft.causes.len()).unwrap_or(0);
    let mut records = draft.draft.removed.iter().chain(draft.draft.added.iter());
    if records.any(|rr| rr.tag == of_ttl) {
        draft.causes.push(changes.to_vec());
    }
    forget_unused(draft);
}

/// Whether a cause is only that an object was read again, or was missing then.
fn is_of_list(cause: &Cause) -> bool {
    cause.kind.is_some() && matches!(cause.verb, Verb::Listed | Verb::Vanished)
}

/// A record without its TTL and its causes.
pub(super) fn without_ttl(rr: RrRef<'_>) -> RrRef<'_> {
    RrRef {
        ttl: Ttl::ZERO,
        ..rr.untagged()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dns::{Name, Rdata};
    use provenance::{Kind, ObjectKey, Origin};
    use zone::Edit;
    use zone::testing::contents;

    /// A cause without an object, or of a Service.
    fn cause(verb: Verb, kind: Option<Kind>, name: &str) -> Cause {
        Cause {
            verb,
            kind,
            key: ObjectKey::new("", name),
            origin: Origin::default(),
        }
    }

    /// Records: owner, TTL, group.
    fn list(records: &[(&str, u32, u32)]) -> RrList {
        let mut list = RrList::default();
        for (owner, ttl, tag) in records {
            let owner: Name = format!("{owner}.z.example.").parse().unwrap();
            let (rtype, data) = Rdata::address([192, 0, 2, 1].into());
            list.push(RrRef {
                owner: owner.as_wire(),
                rtype,
                ttl: Ttl::decode(*ttl),
                data: data.as_octets(),
                tag: *tag,
            });
        }
        list
    }

    /// The causes of removed and added records of a change of the Corefile beside objects of lists.
    fn named(lists_are_exact: bool) -> [Vec<String>; 2] {
        let service = |verb, name| cause(verb, Some(Kind::Service), name);
        let mut inner = Edit::new(&contents("z.example.", 5, &[])).finish();
        inner.removed = list(&[
            ("ttl", 5, 0),
            ("ns", 5, 1),
            ("gone", 5, 2),
            ("again", 5, 3),
            ("hidden", 5, 4),
        ]);
        inner.added = list(&[
            ("ttl", 9, 0),
            ("ns", 9, 1),
            ("new", 9, 0),
            ("own", 9, 3),
            ("again", 9, 3),
        ]);
        let mut draft = ZoneDraft {
            draft: inner,
            causes: vec![
                vec![service(Verb::Listed, "web")],
                vec![cause(Verb::Configured, None, "a folder")],
                vec![service(Verb::Vanished, "away")],
                vec![service(Verb::Applied, "web")],
                vec![cause(Verb::Vanished, None, "a folder")],
            ],
        };
        let corefile = cause(Verb::Configured, None, "the Corefile");
        name_corefile(&mut draft, std::slice::from_ref(&corefile), lists_are_exact);
        [&draft.draft.removed, &draft.draft.added].map(|list| {
            let text = |rr: RrRef<'_>| {
                let group = &draft.causes[usize::try_from(rr.tag).unwrap()];
                let names: Vec<&str> = group.iter().map(|cause| &*cause.key.name).collect();
                names.join("+")
            };
            list.iter().map(text).collect()
        })
    }

    #[test]
    fn a_change_of_the_corefile_is_named_for_what_it_changed_and_no_object_beside_it() {
        let [removed, added] = named(false);
        let corefile = "the Corefile";
        let away = "the Corefile+away";
        assert_eq!(removed, [corefile, corefile, away, corefile, "a folder"]);
        let want = [corefile, corefile, "the Corefile+web", "web", corefile];
        assert_eq!(added, want);
    }

    #[test]
    fn an_object_that_is_known_to_differ_is_named_alone() {
        let [removed, added] = named(true);
        let corefile = "the Corefile";
        // No object is missing for a record of which none is named.
        assert_eq!(removed, [corefile, corefile, "away", corefile, corefile]);
        assert_eq!(added, [corefile, corefile, "web", "web", corefile]);
    }
}

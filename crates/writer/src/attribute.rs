//! Objects for records that a restart finds gone: nobody saw them go, but the history knows who brought them.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use dns::{Name, RrList};
use ops::Clock;
use provenance::{Cause, FactKey, Kind, Verb};

use crate::Store;
use crate::zone_edit::ZoneDraft;

/// The most records of one commit that are looked up, and how long that may take: the writer must not wait for
/// whole zones that are gone. The others name the source that lacks them.
const LOOKED_UP: usize = 1000;
/// See [`LOOKED_UP`]: less than what secondaries and people notice.
const LOOKED_UP_WITHIN: Duration = Duration::from_millis(200);

/// What is left of one commit for looking up, whatever the number of its zones.
pub(super) struct Budget<'a> {
    clock: &'a dyn Clock,
    /// Records that may still be looked up. 0 once the time is over.
    left: usize,
    /// The end of the time; `None` before the first record.
    end: Option<Instant>,
}

impl<'a> Budget<'a> {
    pub(super) fn new(clock: &'a dyn Clock) -> Self {
        Self {
            clock,
            left: LOOKED_UP,
            end: None,
        }
    }

    /// Takes one record, if one more may be looked up.
    fn take(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        let now = self.clock.now();
        let end = *self.end.get_or_insert(now + LOOKED_UP_WITHIN);
        if now >= end {
            self.left = 0;
            return false;
        }
        self.left -= 1;
        true
    }
}

/// Names for records that go because a source lacks them the objects that brought them. An object that is still there
/// (`is_there`) did not vanish: if the Corefile changed, that is the cause.
pub(super) fn name_vanished(
    store: &mut impl Store,
    budget: &mut Budget<'_>,
    apex: &Name,
    draft: &mut ZoneDraft,
    is_there: &dyn Fn(&FactKey) -> bool,
) {
    let is_unnamed = |group: &Vec<Cause>| group.iter().all(is_of_no_object);
    let unnamed: Vec<bool> = draft.causes.iter().map(is_unnamed).collect();
    if !unnamed.contains(&true) {
        return;
    }
    let is_corefile = |group: &&Vec<Cause>| group.iter().all(Cause::is_configured);
    let mut groups = draft.causes.iter().filter(|group| !group.is_empty());
    let of_corefile = groups.find(is_corefile).cloned().unwrap_or_default();
    let is_unnamed =
        |tag: u32| usize::try_from(tag).is_ok_and(|tag| unnamed.get(tag) == Some(&true));
    let mut tags: HashMap<Vec<Cause>, u32> = HashMap::new();
    let mut removed = RrList::with_capacity(draft.draft.removed.as_octets().len());
    for mut rr in &draft.draft.removed {
        if is_unnamed(rr.tag) && budget.take() {
            let (there, gone): (Vec<_>, Vec<_>) = { store.origin(apex, rr).into_iter() }
                .filter(is_object)
                .partition(|cause| is_kept(cause, is_there));
            let causes = match (gone.is_empty(), there.is_empty()) {
                (true, false) => of_corefile.clone(),
                (_, _) => vanished(gone),
            };
            if !causes.is_empty() {
                rr.tag = *tags.entry(causes).or_insert_with_key(|causes| {
                    draft.causes.push(causes.clone());
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

/// Whether a cause says that the source does not have what a record came from, and names no object.
pub(super) fn is_of_no_object(cause: &Cause) -> bool {
    cause.verb == Verb::Vanished && !is_object(cause)
}

/// Whether a cause is an object or a key of etcd.
fn is_object(cause: &Cause) -> bool {
    cause.kind.is_some() || !cause.origin.resource_version.is_empty()
}

/// Whether the object of a cause is still there.
fn is_kept(cause: &Cause, is_there: &dyn Fn(&FactKey) -> bool) -> bool {
    cause
        .kind
        .is_some_and(|kind| is_there(&kind.of(&cause.key)))
}

/// The objects behind a record, as what is gone; its namespace only where nothing else is known.
fn vanished(causes: Vec<Cause>) -> Vec<Cause> {
    let is_own = |cause: &Cause| cause.kind.is_some_and(|kind| kind != Kind::Namespace);
    let has_own = causes.iter().any(is_own);
    let objects = causes.into_iter().filter(|cause| is_own(cause) || !has_own);
    let gone = |cause| Cause {
        verb: Verb::Vanished,
        ..cause
    };
    objects.map(gone).collect()
}

/// Takes out groups of causes that no record names and that are not of the version.
pub(super) fn forget_unused(draft: &mut ZoneDraft) {
    let records = draft.draft.removed.iter().chain(draft.draft.added.iter());
    let mut new: BTreeMap<u32, u32> = records.map(|rr| (rr.tag, 0)).collect();
    let groups = (0..).zip(&draft.causes);
    let of_version = groups.filter(|(_, group)| group.iter().all(Cause::is_of_version));
    new.extend(of_version.map(|(tag, _)| (tag, 0)));
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use dns::{Rdata, RrRef, Serial, Ttl};
    use ops::HandClock;
    use provenance::{ObjectKey, Origin};
    use zone::testing::contents;
    use zone::{Candidate, Contents, Edit, Journaled};

    /// A store that needs a second to find the cause of a record.
    struct Slow {
        clock: Arc<HandClock>,
    }

    /// A cause of a kind.
    fn cause(verb: Verb, kind: Option<Kind>) -> Cause {
        Cause {
            verb,
            kind,
            key: ObjectKey::new("a", "s"),
            origin: Origin::default(),
        }
    }

    impl Store for Slow {
        type Error = String;

        fn commit(&mut self, _: Vec<Candidate>) -> Result<Vec<Journaled>, String> {
            Err("nothing is committed here".to_owned())
        }

        fn floor(&self, _: &Name) -> Option<Serial> {
            None
        }

        fn origin(&mut self, _: &Name, _: RrRef<'_>) -> Vec<Cause> {
            self.clock.advance(1);
            vec![cause(Verb::Applied, Some(Kind::Service))]
        }

        fn idle(&mut self) -> bool {
            false
        }
    }

    /// A draft that takes five records away which its source lacks.
    fn emptied(contents: &Contents) -> ZoneDraft {
        let mut draft = Edit::new(contents).finish();
        let (rtype, data) = Rdata::address([192, 0, 2, 1].into());
        for number in 0..5 {
            let owner: Name = format!("n{number}.z.example.").parse().unwrap();
            draft.removed.push(RrRef {
                owner: owner.as_wire(),
                rtype,
                ttl: Ttl::ZERO,
                data: data.as_octets(),
                tag: 0,
            });
        }
        let causes = vec![vec![cause(Verb::Vanished, None)]];
        ZoneDraft { draft, causes }
    }

    #[test]
    fn who_brought_a_record_is_looked_up_only_for_so_long_in_all_zones_of_a_commit() {
        let contents = contents("z.example.", 5, &[]);
        let clock = HandClock::at(1_000);
        let mut store = Slow {
            clock: Arc::clone(&clock),
        };
        let mut budget = Budget::new(&*clock);
        let mut kinds_of_next = || {
            let mut draft = emptied(&contents);
            name_vanished(
                &mut store,
                &mut budget,
                contents.apex(),
                &mut draft,
                &|_| false,
            );
            let named = |tag: u32| draft.causes[usize::try_from(tag).unwrap()][0].kind;
            let removed = draft.draft.removed.iter();
            removed.map(|rr| named(rr.tag)).collect::<Vec<_>>()
        };
        assert_eq!(
            kinds_of_next(),
            [Some(Kind::Service), None, None, None, None]
        );
        assert_eq!(kinds_of_next(), [None; 5]);
    }

    #[test]
    fn an_object_that_is_still_there_did_not_vanish() {
        let contents = contents("z.example.", 5, &[]);
        let clock = HandClock::at(1_000);
        let mut store = Slow {
            clock: Arc::clone(&clock),
        };
        let corefile = Cause::of(Verb::Configured, "the Corefile, digest 2…, before 1…");
        let mut named = |changes: &[Cause], is_there: bool| {
            let mut draft = emptied(&contents);
            draft
                .causes
                .extend(changes.iter().map(|it| vec![it.clone()]));
            let mut budget = Budget::new(&*clock);
            let apex = contents.apex();
            name_vanished(&mut store, &mut budget, apex, &mut draft, &|_| is_there);
            let first = draft.draft.removed.iter().next().expect("five go");
            draft.causes[usize::try_from(first.tag).unwrap()].clone()
        };
        let changes = std::slice::from_ref(&corefile);
        assert_eq!(named(changes, true), changes);
        let gone = cause(Verb::Vanished, Some(Kind::Service));
        assert_eq!(named(changes, false), [gone]);
        // Without a change of the Corefile no more is known than that the source lacks it.
        assert_eq!(named(&[], true), [cause(Verb::Vanished, None)]);
    }
}

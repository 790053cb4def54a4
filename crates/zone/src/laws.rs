//! Laws of zone algebra, tried on random histories, and the generator of those histories.

use std::collections::BTreeMap;
use std::sync::Arc;

use dns::{Name, Rdata, RecordText, RrList, Rtype, Serial, Soa, SortKey, Ttl};
use proptest::prelude::*;
use provenance::{Cause, Kind, ObjectKey, Origin, Verb};

use crate::{Candidate, Contents, Draft, Edit, MemoryLimits, Net, Node, Step, Version};

/// What one edit does to one owner: its index, whether it is spelled in capitals, its TTL, and which
/// of some addresses it has (none: the owner goes).
#[derive(Debug, Clone)]
pub(super) struct Touch {
    owner: u8,
    capitals: bool,
    /// The TTL of its addresses.
    ttl: u8,
    /// A bit per address; the highest bit adds a text.
    set: u8,
}

/// One edit: owners touched one after the other, and whether the SOA's fields change.
#[derive(Debug, Clone)]
pub(super) struct EditPlan {
    touches: Vec<Touch>,
    refresh: u8,
}

pub(super) fn any_edit() -> impl Strategy<Value = EditPlan> {
    let touch = (0..12_u8, prop::bool::weighted(0.1), 1..3_u8, any::<u8>()).prop_map(
        |(owner, capitals, ttl, set)| Touch {
            owner,
            capitals,
            ttl,
            set: if set < 64 { 0 } else { set },
        },
    );
    let refresh = prop_oneof![9 => Just(0), 1 => 1..3_u8];
    (prop::collection::vec(touch, 0..6), refresh)
        .prop_map(|(touches, refresh)| EditPlan { touches, refresh })
}

pub(super) fn any_history(most: usize) -> impl Strategy<Value = Vec<EditPlan>> {
    prop::collection::vec(any_edit(), 1..most)
}

/// A history that is the same in every run.
pub(super) fn fixed_history(edits: usize) -> Vec<EditPlan> {
    edits_of(proptest::test_runner::TestRunner::deterministic(), edits)
}

/// The history of a seed.
pub(super) fn seeded_history(seed: u64, edits: usize) -> Vec<EditPlan> {
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed.to_be_bytes(); 4].concat());
    edits_of(TestRunner::new_with_rng(Config::default(), random), edits)
}

fn edits_of(mut runner: proptest::test_runner::TestRunner, edits: usize) -> Vec<EditPlan> {
    use proptest::strategy::ValueTree;
    (0..edits)
        .map(|_| any_edit().new_tree(&mut runner).unwrap().current())
        .collect()
}

/// The zone the histories are about.
pub(super) fn apex() -> Name {
    "z.example.".parse().unwrap()
}

pub(super) fn soa(refresh: u8) -> Soa {
    Soa {
        mname: "ns.z.example.".parse().unwrap(),
        rname: "hostmaster.z.example.".parse().unwrap(),
        refresh: Ttl::decode(u32::from(refresh)),
        retry: Ttl::decode(2),
        expire: Ttl::decode(3),
        minimum: Ttl::decode(4),
        ttl: Ttl::decode(5),
    }
}

pub(super) fn empty() -> Contents {
    Contents::empty(&apex(), soa(0))
}

impl EditPlan {
    pub(super) fn run(&self, before: &Contents) -> Draft {
        let mut edit = Edit::new(before);
        if self.refresh > 0 {
            edit.set_soa(soa(self.refresh));
        }
        for (tag, touch) in (0..).zip(&self.touches) {
            touch.run(&mut edit, tag);
        }
        edit.finish()
    }

    /// A group of causes per touch.
    pub(super) fn causes(&self) -> Vec<Vec<Cause>> {
        let cause = |touch: &Touch| Cause {
            verb: if touch.set == 0 {
                Verb::Deleted
            } else {
                Verb::Applied
            },
            kind: Some(Kind::ALL[usize::from(touch.owner) % Kind::ALL.len()])
                .filter(|_| touch.ttl > 1),
            key: ObjectKey::new("default", &format!("object-{}", touch.owner)),
            origin: Origin {
                uid: format!("uid-{}", touch.owner).into(),
                resource_version: touch.set.to_string().into(),
                manager: "kubectl".into(),
                operation: "Apply".into(),
                place: "".into(),
            },
        };
        self.touches
            .iter()
            .map(|touch| vec![cause(touch)])
            .collect()
    }
}

impl Touch {
    /// The owner: the apex, names below it, names below those.
    fn name(&self) -> Name {
        let text = match self.owner {
            0 => "z.example.".to_owned(),
            n @ 1..8 => format!("n{n}.z.example."),
            n => format!("x.n{}.z.example.", n - 7),
        };
        let text = if self.capitals {
            text.replace('n', "N")
        } else {
            text
        };
        text.parse().unwrap()
    }

    /// Sets or removes the owner.
    fn run(&self, edit: &mut Edit, tag: u32) {
        let (name, apex) = (self.name(), apex());
        let mut records: Vec<_> = (0..7)
            .filter(|bit| self.set & (1 << bit) != 0)
            .map(|bit| {
                let (rtype, rdata) = Rdata::address([10, 0, 0, bit].into());
                (rtype, Ttl::decode(u32::from(self.ttl)), rdata)
            })
            .collect();
        if self.set & 0x80 != 0 {
            records.push((Rtype::TXT, Ttl::decode(9), Rdata::txt("text")));
        }
        match Node::build(&name, &apex, &mut records) {
            Some(node) => edit.set(node, tag),
            None => edit.remove(name.sort_key(&apex).unwrap().as_bytes(), tag),
        }
    }
}

/// No limits on history in memory.
pub(super) const UNLIMITED: MemoryLimits = MemoryLimits {
    steps: usize::MAX,
    octets: usize::MAX,
};

/// The version after an edit, unless it changes nothing.
pub(super) fn candidate(
    previous: Option<&Version>,
    plan: &EditPlan,
    serial: Serial,
    time_ms: u64,
) -> Option<Candidate> {
    let before = previous.map_or_else(empty, |version| version.contents.clone());
    let draft = plan.run(&before);
    (!draft.is_empty())
        .then(|| Candidate::new(previous, draft, serial, time_ms, plan.causes(), UNLIMITED))
}

/// All versions of a history, from the empty zone on; serials from 1.
fn versions(history: &[EditPlan]) -> (Vec<Contents>, Vec<Arc<Step>>) {
    let mut contents = vec![empty()];
    let mut steps: Vec<Arc<Step>> = Vec::new();
    for plan in history {
        let before = contents.last().unwrap();
        let draft = plan.run(before);
        if draft.is_empty() {
            continue;
        }
        let seq = contents.len() as u64;
        let serial = Serial::from_wall(seq);
        steps.push(Arc::new(Step {
            seq,
            time_ms: 0,
            from: Some((Serial::from_wall(seq - 1), before.soa().clone())),
            serial,
            soa: draft.contents.soa().clone(),
            removed: draft.removed,
            added: draft.added,
            causes: Vec::new(),
            records: draft.contents.record_count(),
            link: None,
        }));
        contents.push(draft.contents);
    }
    (contents, steps)
}

/// Each record of a zone, as text.
pub(super) fn lines(contents: &Contents) -> Vec<String> {
    let mut lines = vec![format!("{:?}", contents.soa())];
    for node in contents.nodes() {
        let owner = node.owner_wire(contents.apex());
        lines.extend(node.records(&owner, 0).map(|rr| RecordText(rr).to_string()));
    }
    lines
}

/// Each record of a list, as text.
fn list_lines(list: &RrList) -> Vec<String> {
    list.iter().map(|rr| RecordText(rr).to_string()).collect()
}

fn removed_of(step: &Step) -> &RrList {
    &step.removed
}

fn added_of(step: &Step) -> &RrList {
    &step.added
}

/// Records as a set with counts: what is there how often.
fn counted(lines: Vec<String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in lines {
        *counts.entry(line).or_default() += 1;
    }
    counts
}

proptest! {
    #[test]
    fn a_step_applied_gives_the_version_after_and_reverted_the_one_before(history in any_history(12)) {
        let (contents, steps) = versions(&history);
        for (step, pair) in steps.iter().zip(contents.windows(2)) {
            let after = step.apply(&pair[0]).unwrap();
            prop_assert_eq!(lines(&after), lines(&pair[1]));
            prop_assert!(after.same_as(&pair[1]));
            prop_assert_eq!(after.wire_octets(), pair[1].wire_octets());
            let before = step.revert(&pair[1]).unwrap();
            prop_assert!(before.same_as(&pair[0]));
            prop_assert_eq!(lines(&before), lines(&pair[0]));
        }
    }

    #[test]
    fn a_step_removes_only_what_is_there_and_adds_only_what_is_not(history in any_history(12)) {
        let (contents, steps) = versions(&history);
        for (step, pair) in steps.iter().zip(contents.windows(2)) {
            let before = counted(lines(&pair[0]));
            for line in list_lines(&step.removed) {
                prop_assert!(before.contains_key(&line), "absent: {}", line);
            }
            let mut left = before;
            for line in list_lines(&step.removed) {
                left.remove(&line);
            }
            for line in list_lines(&step.added) {
                prop_assert!(!left.contains_key(&line), "present: {}", line);
            }
        }
    }

    #[test]
    fn steps_condensed_lead_where_they_lead_one_by_one(history in any_history(12), cut in any::<prop::sample::Index>()) {
        let (contents, steps) = versions(&history);
        prop_assume!(!steps.is_empty());
        let start = cut.index(steps.len());
        let net = Net::of(&steps[start..]).unwrap();
        let mut result = counted(lines(&contents[start]));
        let mut end = counted(lines(contents.last().unwrap()));
        // The SOA stands beside the lists.
        result.retain(|line, _| !line.starts_with("Soa"));
        end.retain(|line, _| !line.starts_with("Soa"));
        for line in list_lines(&net.removed) {
            prop_assert!(!end.contains_key(&line), "removed and there at the end: {}", line);
            prop_assert!(result.remove(&line).is_some(), "removed and not there: {}", line);
        }
        for line in list_lines(&net.added) {
            prop_assert!(result.insert(line, 1).is_none(), "added and there");
        }
        prop_assert_eq!(result, end);
        prop_assert_eq!(&net.to.1, contents.last().unwrap().soa());
        prop_assert_eq!(&net.from.1, contents[start].soa());
    }

    #[test]
    fn security_07_condensed_steps_are_a_step_with_the_causes_of_the_last_change(
        history in any_history(12),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut all: Vec<Candidate> = Vec::new();
        for (number, plan) in (1..).zip(&history) {
            let previous = all.last().map(Candidate::version);
            let next = candidate(previous, plan, Serial::decode(number), u64::from(number));
            all.extend(next);
        }
        prop_assume!(all.len() > 1);
        let start = cut.index(all.len() - 1);
        let (before, chain) = (all[start].version(), &all[start + 1..]);
        let steps: Vec<Arc<Step>> = chain.iter().map(|it| Arc::clone(it.step())).collect();
        let (condensed, end) = (Step::condensed(&steps).unwrap(), all.last().unwrap().version());
        let after = condensed.apply(&before.contents).unwrap();
        prop_assert!(after.same_as(&end.contents));
        prop_assert_eq!(lines(&after), lines(&end.contents));
        prop_assert!(condensed.revert(&end.contents).unwrap().same_as(&before.contents));
        let link = condensed.link.unwrap();
        prop_assert_eq!(Some(link.previous), before.link.map(|it| it.hash));
        prop_assert_eq!(Some(link.hash), end.link.map(|it| it.hash));
        prop_assert_eq!((condensed.seq, condensed.serial), (end.seq, end.serial));
        let ways = [removed_of as fn(&Step) -> &RrList, added_of];
        for (list, of) in [&condensed.removed, &condensed.added].into_iter().zip(ways) {
            for rr in list {
                let is_it = |it: &dns::RrRef<'_>| (it.owner, it.rtype, it.ttl, it.data) == (rr.owner, rr.rtype, rr.ttl, rr.data);
                let last = steps.iter().rev().find_map(|step| {
                    let found = of(step).iter().find(is_it)?;
                    Some(step.causes_of(found.tag).to_vec())
                });
                prop_assert_eq!(Some(condensed.causes_of(rr.tag).to_vec()), last);
            }
        }
    }

    #[test]
    fn an_edit_that_undoes_itself_is_empty(history in any_history(6), edit in any_edit()) {
        let (contents, _) = versions(&history);
        let before = contents.last().unwrap();
        let mut undone = Edit::new(before);
        for (tag, touch) in (0..).zip(&edit.touches) {
            touch.run(&mut undone, tag);
        }
        let keys: Vec<Vec<u8>> = undone.touched().map(|(key, _)| key.to_vec()).collect();
        for key in keys {
            match before.get(&key) {
                Some(node) => undone.set(node.clone(), 99),
                None => undone.remove(&key, 99),
            }
        }
        let draft = undone.finish();
        prop_assert!(draft.is_empty(), "{:?} {:?}", draft.removed, draft.added);
        prop_assert!(draft.contents.same_as(before));
    }

    #[test]
    fn delta_lists_stand_in_canonical_order(history in any_history(12)) {
        let (_, steps) = versions(&history);
        for list in steps.iter().flat_map(|step| [&step.removed, &step.added]) {
            let keys: Vec<_> = list
                .iter()
                .map(|rr| {
                    let key = SortKey::of_wire(rr.owner, apex().as_wire()).unwrap();
                    (key.as_bytes().to_vec(), rr.rtype, rr.data.to_vec())
                })
                .collect();
            prop_assert!(keys.is_sorted(), "{:?}", list);
        }
    }

    #[test]
    fn nodes_in_order_make_the_zone_they_came_from(history in any_history(8)) {
        let (contents, _) = versions(&history);
        let last = contents.last().unwrap();
        let again = Contents::from_sorted(last.apex(), last.soa().clone(), last.nodes().cloned());
        let equal = again
            .is_some_and(|again| again.same_as(last) && again.wire_octets() == last.wire_octets());
        prop_assert!(equal);
        if last.owner_count() > 1 {
            let reversed: Vec<_> = last.nodes().cloned().collect();
            let reversed = reversed.into_iter().rev();
            prop_assert!(Contents::from_sorted(last.apex(), last.soa().clone(), reversed).is_none());
        }
    }
}

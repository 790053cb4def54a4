//! Large steps: searches read their lists, not them.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use dns::{Rdata, Ttl};

use super::*;
use crate::journal::codec::{FILTER, LARGE};
use crate::journal::large_steps;
use crate::{Edit, Node};

/// A version in which these owners have another address.
pub(super) fn with_owners(
    previous: Option<&Version>,
    owners: std::ops::Range<u32>,
    turn: u32,
) -> Candidate {
    let before = previous.map_or_else(laws::empty, |version| version.contents.clone());
    let mut edit = Edit::new(&before);
    for number in owners {
        let (rtype, rdata) = Rdata::address(std::net::Ipv4Addr::from(turn).into());
        let mut records = vec![(rtype, Ttl::ZERO, rdata)];
        edit.set(
            Node::build(&owner(number), &apex(), &mut records).unwrap(),
            0,
        );
    }
    finished(previous, edit, Serial::decode(turn))
}

/// A store with so many versions, of which 1 and 3 are large, 2 and 4 are not.
fn bench(versions: usize) -> Bench {
    let mut bench = Bench::new();
    let owners = [0..3000, 7..8, 1000..3000, 2000..2001];
    for (turn, owners) in (1..).zip(owners).take(versions) {
        let candidate = with_owners(bench.version.as_ref(), owners, turn);
        bench.put(candidate);
    }
    bench
}

/// The versions that a search for an owner looks at, newest first.
fn found(bench: &mut Bench, number: u32) -> Vec<u64> {
    found_among(bench, number, 0..=u64::MAX)
}

fn found_among(bench: &mut Bench, number: u32, seqs: RangeInclusive<u64>) -> Vec<u64> {
    let mut found = Vec::new();
    let reader = bench.journal().reader();
    reader
        .find(&apex(), Topic::name(&owner(number)), seqs, |seq| {
            found.push(seq);
            Ok::<_, ReadError>(true)
        })
        .unwrap();
    found
}

#[test]
fn a_large_step_is_looked_at_where_its_list_says_so_and_always_without_one() {
    let mut bench = bench(3);
    assert_eq!(found(&mut bench, 7), [3, 2, 1]);
    bench.settle();
    let candidate = with_owners(bench.version.as_ref(), 2000..2001, 4);
    bench.put(candidate);
    for (number, wanted) in [
        (7, vec![2, 1]),
        (8, vec![1]),
        (999, vec![1]),
        (1000, vec![3, 1]),
        (2000, vec![4, 3, 1]),
        (2999, vec![3, 1]),
        (3000, vec![]),
    ] {
        assert_eq!(found(&mut bench, number), wanted, "{number}");
    }
    for (seqs, wanted) in [
        (3..=3, vec![3]),
        (2..=4, vec![4, 3]),
        (0..=3, vec![3, 1]),
        (5..=9, vec![]),
        (RangeInclusive::new(3, 2), vec![]),
    ] {
        assert_eq!(
            found_among(&mut bench, 2000, seqs.clone()),
            wanted,
            "{seqs:?}"
        );
    }
    let named = (0..4000).filter(|number| found(&mut bench, *number).contains(&3));
    assert!((2000..2003).contains(&named.count()));
    assert_eq!(
        bench
            .journal()
            .reader()
            .verify(&apex(), &[])
            .unwrap()
            .faults,
        []
    );
}

#[test]
fn what_a_large_step_does_to_a_name_has_the_causes_of_the_version_too() {
    use provenance::{Cause, ObjectKey, Origin, Verb};

    let cause = |verb, what: &str| Cause {
        verb,
        kind: None,
        key: ObjectKey::new("", what),
        origin: Origin::default(),
    };
    let groups = vec![
        vec![cause(Verb::Applied, "the file")],
        vec![cause(Verb::Configured, "the source")],
        vec![cause(Verb::Restored, "the store")],
        vec![cause(Verb::Configured, "the Corefile")],
    ];
    let mut bench = Bench::new();
    for turn in 1..3 {
        let before = (bench.version.as_ref()).map_or_else(laws::empty, |it| it.contents.clone());
        let mut edit = Edit::new(&before);
        for number in 0..3000 {
            let (rtype, rdata) = Rdata::address(std::net::Ipv4Addr::from(turn).into());
            let mut records = vec![(rtype, Ttl::ZERO, rdata)];
            let node = Node::build(&owner(number), &apex(), &mut records).unwrap();
            edit.set(node, u32::from(number == 0));
        }
        let (draft, causes) = (edit.finish(), groups.clone());
        let previous = bench.version.as_ref();
        let serial = Serial::decode(turn);
        let next = Candidate::new(previous, draft, serial, 1_000_000, causes, UNLIMITED);
        bench.put(next);
    }
    bench.settle();
    let reader = bench.journal().reader();
    // All records of a first version have causes: its configured ones are of records.
    for (seq, number, want) in [
        (1, 7, vec![0, 2]),
        (1, 0, vec![1, 2]),
        (2, 7, vec![0, 2, 3]),
        (2, 0, vec![1, 2, 3]),
    ] {
        let part = reader.step_of(&apex(), seq, &owner(number)).unwrap();
        assert!(!part.is_whole());
        let causes = part.step.causes.iter().enumerate();
        let told = causes.filter(|(_, group)| !group.is_empty());
        let told: Vec<usize> = told.map(|(tag, _)| tag).collect();
        assert_eq!(told, want, "{seq} {number}");
    }
}

#[test]
fn a_list_that_was_not_finished_is_made_after_the_next_open() {
    let mut bench = bench(3);
    assert_eq!(bench.open(), Vec::<String>::new());
    assert_eq!(found(&mut bench, 7), [3, 2, 1]);
    bench.settle();
    assert_eq!(found(&mut bench, 7), [2, 1]);
}

#[test]
fn a_damaged_list_rules_nothing_out_and_is_seen() {
    let mut bench = bench(4);
    bench.settle();
    let journal = bench.journal();
    let id = journal.zones()[&apex()].id;
    let key = codec::part_key(FILTER, id, 3, 0);
    let mut value = journal.store.get(&key).unwrap().unwrap().to_vec();
    value[9] ^= 1;
    let mut batch = Batch::default();
    batch.put(&key, value);
    journal.store.write(batch).unwrap();
    let parts = large_steps::entry(&journal.store, id, 3).unwrap().unwrap();
    assert!(parts > 1);
    let looked_at = (0..1000).filter(|number| found(&mut bench, *number).contains(&3));
    assert!(looked_at.count() > 10);
    let faults = bench
        .journal()
        .reader()
        .verify(&apex(), &[])
        .unwrap()
        .faults;
    assert!(faults.iter().any(|fault| fault.seq == 3), "{faults:?}");
}

/// The numbers of the steps that have entries of a kind.
fn with_entries(journal: &Journal, kind: u8) -> BTreeSet<u64> {
    let found = journal.store.range(&[kind], &[kind + 1], usize::MAX);
    let keys = found.unwrap();
    keys.iter()
        .filter_map(|(key, _)| codec::seq_of(key))
        .collect()
}

#[test]
fn a_large_step_that_leaves_takes_its_list_along() {
    let mut bench = bench(4);
    bench.settle();
    for kind in [LARGE, FILTER, STEP] {
        let have = with_entries(bench.journal(), kind);
        assert!(have.is_superset(&[1, 3].into()), "{kind}: {have:?}");
    }
    let retention = Retention {
        versions: 2,
        ..Retention::DEFAULT
    };
    bench.journal().set_retention(&apex(), retention);
    // The base has to go past them: so much that a snapshot is due, and more than once.
    for turn in 5..70 {
        let candidate = bulky(bench.version.as_ref(), turn);
        bench.put(candidate);
        bench.settle();
    }
    let head = bench.journal().zones()[&apex()].head.clone();
    assert_eq!(head.oldest, 68);
    assert!(head.base.snapshot && head.base.seq > 4, "{head:?}");
    for kind in [LARGE, FILTER, STEP] {
        let left = with_entries(bench.journal(), kind);
        assert!(left.first().is_none_or(|seq| *seq > 4), "{kind}: {left:?}");
    }
    assert_eq!(
        bench
            .journal()
            .reader()
            .verify(&apex(), &[])
            .unwrap()
            .faults,
        []
    );
}

/// A bench with five large steps that nothing was done for yet; two of them may be kept at hand.
fn waiting() -> Bench {
    let mut bench = Bench::new();
    for turn in 1..6 {
        let candidate = with_owners(bench.version.as_ref(), 0..3000, turn);
        let version = candidate.version().clone();
        // The first only adds, the others take as much away.
        bench.journal().lists_in_memory_bytes = 2 * candidate.step().octets();
        bench.journal().write(&[candidate]).unwrap();
        bench.version = Some(version);
    }
    bench
}

/// Whether the step of each list that is due is at hand.
fn in_memory(bench: &mut Bench) -> Vec<bool> {
    let lists = bench.journal().lists.iter();
    lists.map(|job| job.step.is_some()).collect()
}

#[test]
fn large_steps_stay_in_memory_until_their_lists_are_made_as_far_as_they_fit() {
    let mut bench = waiting();
    assert_eq!(in_memory(&mut bench), [true, true, false, false, false]);
    bench.settle();
    assert!(bench.journal().lists.is_empty());
    let journal = bench.journal();
    let id = journal.zones()[&apex()].id;
    for seq in 1..6 {
        assert!(
            large_steps::entry(&journal.store, id, seq).unwrap() > Some(0),
            "{seq}"
        );
    }
}

#[test]
fn a_commit_reads_no_wide_step() {
    let mut bench = waiting();
    for turn in 6..100 {
        let candidate = with_owners(bench.version.as_ref(), 7..8, turn);
        bench.put(candidate);
    }
    // Those at hand are done, the others wait for a time with nothing else to do.
    assert_eq!(in_memory(&mut bench), [false; 3]);
    bench.journal().idle();
    assert_eq!(in_memory(&mut bench), [true, false, false]);
}

#[test]
fn a_commit_takes_away_as_much_as_it_brings() {
    let mut bench = Bench::new();
    let [low, high] = [
        [STEP, 0xff, 0xff, 0xff, 0xfe],
        [STEP, 0xff, 0xff, 0xff, 0xff],
    ];
    let mut batch = Batch::default();
    for number in 0..2000_u32 {
        batch.put(&[&low[..], &number.to_be_bytes()].concat(), Vec::new());
    }
    bench.journal().store.write(batch).unwrap();
    let garbage = Garbage {
        low: low.to_vec(),
        high: high.to_vec(),
    };
    bench.journal().garbage.push_back(garbage);
    let mut left = 2000;
    let turns = [
        (0..1, COMMIT_PORTION..=COMMIT_PORTION),
        (0..50, COMMIT_PORTION + 1..=COMMIT_PORTION_MOST - 1),
        (0..40_000, COMMIT_PORTION_MOST..=COMMIT_PORTION_MOST),
    ];
    for (serial, (owners, wanted)) in (5..).zip(turns) {
        let candidate = with_owners(bench.version.as_ref(), owners, serial);
        let before = bench.journal().store.keys_written();
        bench.put(candidate);
        let found = bench.journal().store.range(&low, &high, usize::MAX);
        let removed = left - found.unwrap().len();
        let written = bench.journal().store.keys_written() - before - removed;
        left -= removed;
        assert!(wanted.contains(&removed), "{removed} after {written}");
        let due = COMMIT_PORTION.max(2 * written).min(COMMIT_PORTION_MOST);
        assert_eq!(removed, due, "{written}");
        assert_eq!(
            *wanted.end() == COMMIT_PORTION_MOST && removed == COMMIT_PORTION_MOST,
            written > BATCH_ENTRIES,
            "{written}"
        );
    }
}

#[test]
fn what_a_large_step_does_to_one_name_is_read_without_the_rest() {
    let mut bench = bench(4);
    let reader = bench.journal().reader();
    for seq in 1..=4 {
        let whole = reader.step(&apex(), seq).unwrap();
        for number in [0, 7, 999, 1000, 2000, 2999, 3000] {
            let part = reader.step_of(&apex(), seq, &owner(number)).unwrap();
            let totals = (whole.removed.len(), whole.added.len());
            assert_eq!((part.removed, part.added), totals);
            let wire = owner(number);
            let of_name = |list: &dns::RrList| -> Vec<_> {
                let same = |rr: &dns::RrRef<'_>| rr.owner == wire.as_wire();
                list.iter().filter(same).map(|rr| rr.to_record()).collect()
            };
            assert_eq!(of_name(&part.step.removed), of_name(&whole.removed));
            assert_eq!(of_name(&part.step.added), of_name(&whole.added));
            let large = seq == 1 || seq == 3;
            let of_others = part.step.added.len() - of_name(&whole.added).len();
            assert!(!large || of_others == 0, "{of_others} in {seq}");
        }
    }
}

#[test]
fn a_store_that_was_filled_or_read_at_once_is_opened_anew_and_holds_what_it_held() {
    let mut bench = Bench::new();
    let reader = bench.journal().reader();
    bench.journal().reopening.bulk_octets_most = 9000;
    let openings = |bench: &mut Bench| bench.journal().store.openings();
    assert_eq!(openings(&mut bench), 1);
    let large = with_owners(None, 0..3000, 1);
    bench.put(large);
    assert!(bench.journal().reopening.bulk_octets > 9000);
    bench.settle();
    assert_eq!(bench.journal().reopening.bulk_octets, 0);
    assert_eq!(openings(&mut bench), 2);
    assert_eq!(reader.step(&apex(), 1).unwrap().added.len(), 3000);
    let narrow = with_owners(bench.version.as_ref(), 7..8, 2);
    bench.put(narrow);
    let bulk = bench.journal().reopening.bulk_octets;
    assert_eq!(bulk, 0, "a step is not the zone");
    bench.settle();
    assert_eq!(openings(&mut bench), 2);
    assert_eq!(found(&mut bench, 7), [2, 1]);
    let known = bench.version.clone();
    assert_eq!(bench.open(), Vec::<String>::new());
    bench.journal().reopening.bulk_octets_most = 9000;
    let bulk = bench.journal().reopening.bulk_octets;
    assert!(bulk > 9000, "it was read");
    bench.settle();
    assert_eq!(openings(&mut bench), 2);
    assert!(same(bench.version.as_ref(), known.as_ref()));
    assert_eq!(found(&mut bench, 7), [2, 1]);
}

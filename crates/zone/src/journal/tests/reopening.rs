//! The database is opened anew, or again: when it is, when it is not, and what becomes of it when it does not open.

use super::large_steps::with_owners;
use super::*;

/// A store of a zone with 3000 names, with a limit of 9000 octets, to be opened anew.
fn due() -> Bench {
    let mut bench = Bench::new();
    bench.journal().reopening.bulk_octets_most = 9000;
    let large = with_owners(None, 0..3000, 1);
    bench.put(large);
    assert!(bench.journal().reopening.bulk_octets > 9000);
    bench
}

/// The number of times that the database was opened.
fn openings(bench: &mut Bench) -> usize {
    bench.journal().store.openings()
}

#[test]
fn a_store_that_does_not_open_anew_is_tried_again_without_a_commit() {
    let mut bench = due();
    let reader = bench.journal().reader();
    assert_eq!(bench.journal().again_after(), None);
    bench.journal().store.refuse_openings(3);
    bench.settle();
    assert!(reader.step(&apex(), 1).is_err(), "it is closed");
    for seconds in [1, 2, 4] {
        let after = bench.journal().again_after().unwrap();
        assert_eq!(after.as_secs(), seconds);
        let before = bench.journal().store.openings();
        bench.settle();
        assert_eq!(bench.journal().again_after(), Some(after), "too early");
        assert_eq!(openings(&mut bench), before);
        bench.now.fetch_add(seconds * 1000, Ordering::Relaxed);
        bench.settle();
    }
    assert_eq!(bench.journal().again_after(), None);
    assert_eq!(reader.step(&apex(), 1).unwrap().added.len(), 3000);
    let next = with_owners(bench.version.as_ref(), 7..8, 2);
    bench.put(next);
}

#[test]
fn a_closed_store_is_opened_before_a_commit_asks_who_brought_a_record() {
    let mut bench = due();
    bench.journal().store.refuse_openings(1);
    bench.settle();
    let reader = bench.journal().reader();
    assert!(reader.step(&apex(), 1).is_err(), "it is closed");
    bench.journal().prepare();
    assert_eq!(reader.step(&apex(), 1).unwrap().added.len(), 3000);
}

#[test]
fn the_pauses_between_tries_grow_to_a_minute_and_a_clock_set_back_makes_none_longer() {
    let mut bench = due();
    bench.journal().store.refuse_openings(usize::MAX);
    bench.settle();
    for _ in 0..20 {
        let after = bench.journal().again_after().unwrap();
        let after = u64::try_from(after.as_millis()).unwrap();
        bench.now.fetch_add(after, Ordering::Relaxed);
        bench.settle();
    }
    let most = bench.journal().again_after().unwrap();
    assert_eq!(most.as_secs(), 64);
    bench.now.store(0, Ordering::Relaxed);
    assert_eq!(bench.journal().again_after(), Some(most));
    bench.journal().store.refuse_openings(0);
}

#[test]
fn the_pauses_begin_anew_when_a_commit_opened_the_store() {
    let mut bench = due();
    bench.journal().store.refuse_openings(3);
    bench.settle();
    for seconds in [1, 2] {
        bench.now.fetch_add(seconds * 1000, Ordering::Relaxed);
        bench.settle();
    }
    bench.journal().prepare();
    assert_eq!(bench.journal().again_after(), None, "it is open");
    let large = with_owners(bench.version.as_ref(), 0..3000, 2);
    bench.put(large);
    bench.journal().store.refuse_openings(1);
    bench.settle();
    let after = bench.journal().again_after().unwrap();
    assert_eq!(after.as_secs(), 1);
}

#[test]
fn a_store_that_is_too_large_stays_open() {
    let mut bench = due();
    bench.journal().reopening.renewed_octets = 1;
    bench.settle();
    assert_eq!(openings(&mut bench), 1);
    let reader = bench.journal().reader();
    assert_eq!(reader.step(&apex(), 1).unwrap().added.len(), 3000);
}

#[test]
fn large_steps_and_snapshots_count_as_what_went_through_the_store() {
    let mut bench = due();
    bench.settle();
    assert_eq!(openings(&mut bench), 2);
    let large = with_owners(bench.version.as_ref(), 0..3000, 2);
    bench.put(large);
    assert!(bench.journal().reopening.bulk_octets > 9000, "a large step");
    bench.settle();
    assert_eq!(openings(&mut bench), 3);
    let version = bench.version.clone().unwrap();
    let id = bench.journal().zones()[&apex()].id;
    let job = upkeep::snapshot_job(id, &version);
    bench.journal().jobs.push_back(job);
    bench.settle();
    assert_eq!(openings(&mut bench), 4, "a snapshot");
}

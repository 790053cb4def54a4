//! The Corefiles that were in use come back, each once, and the oldest go.

use super::super::beside::{Place, part_key};
use super::super::codec::COREFILE;
use super::*;

fn corefile(since_ms: u64, digest: &str, text: &str) -> KeptCorefile {
    KeptCorefile {
        since_ms,
        digest: digest.into(),
        text: text.into(),
    }
}

fn kept(bench: &mut Bench) -> Vec<KeptCorefile> {
    let all = bench.journal().reader().corefiles().unwrap();
    all.into_iter().flatten().collect()
}

#[test]
fn each_corefile_is_kept_once_with_the_time_since_when_it_was_in_use() {
    let mut bench = Bench::new();
    assert_eq!(kept(&mut bench), []);
    // Larger than a part, and empty.
    let all = [
        corefile(1, "a", &"x".repeat(9000)),
        corefile(2, "b", ""),
        corefile(3, "a", "x"),
    ];
    for one in &all {
        bench.journal().note(Some(one), &[]).unwrap();
        let again = KeptCorefile {
            since_ms: 99,
            ..one.clone()
        };
        bench.journal().note(Some(&again), &[]).unwrap();
    }
    bench.open();
    assert_eq!(kept(&mut bench), all);
}

#[test]
fn the_oldest_corefiles_go_and_times_do_not_go_back() {
    let mut bench = Bench::new();
    for (number, since_ms) in [1, 2, 9, 4, 5, 12].into_iter().enumerate() {
        let one = corefile(since_ms, &number.to_string(), "x");
        let mut batch = Batch::default();
        bench.journal().put_corefile(&mut batch, &one, 4).unwrap();
        bench.journal().store.write(batch).unwrap();
    }
    let times: Vec<u64> = kept(&mut bench).iter().map(|it| it.since_ms).collect();
    assert_eq!(times, [9, 9, 9, 12]);
}

/// A later Corefile that cannot be read must not make an earlier one look as if it had been in use until now.
#[test]
fn a_damaged_or_missing_corefile_has_its_place_and_verify_names_it() {
    let one = |number: u64| corefile(number, &number.to_string(), &"x".repeat(9000));
    for (number, part, is_removed) in [(2, 0, false), (2, 0, true), (2, 2, true), (4, 1, false)] {
        let mut bench = Bench::new();
        bench.put(large_steps::with_owners(None, 0..3, 1));
        for number in 1..=4 {
            bench.journal().note(Some(&one(number)), &[]).unwrap();
        }
        assert_eq!(faults(&mut bench), Vec::<String>::new());
        let place = Place::of(COREFILE, &Name::root());
        let key = part_key(&place.entry(&u64::to_be_bytes(number)), part);
        let mut batch = Batch::default();
        match is_removed {
            true => batch.delete(&key),
            false => batch.put(&key, vec![0]),
        }
        bench.journal().store.write(batch).unwrap();
        let wanted: Vec<_> = (1..=4).map(|it| (it != number).then(|| one(it))).collect();
        let all = bench.journal().reader().corefiles().unwrap();
        assert_eq!(all, wanted, "{number} {part} {is_removed}");
        let [found] = &faults(&mut bench)[..] else {
            panic!("{number} {part} {is_removed}");
        };
        assert!(found.starts_with("1 of the Corefiles"), "{found}");
        // One that follows has the number after it, and none is written over.
        bench.journal().note(Some(&one(5)), &[]).unwrap();
        let all = bench.journal().reader().corefiles().unwrap();
        assert_eq!(all.last(), Some(&Some(one(5))));
        assert_eq!(all.len(), 5);
    }
}

fn faults(bench: &mut Bench) -> Vec<String> {
    let verdict = bench.journal().reader().verify(&apex(), &[]).unwrap();
    verdict.faults.into_iter().map(|it| it.what).collect()
}

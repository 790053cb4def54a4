//! What the writer keeps beside the versions: it comes back as it was, or not at all.

use std::collections::BTreeMap;

use super::super::codec::{BESIDE, PART_OCTETS};
use super::*;

type All = BTreeMap<Vec<u8>, Vec<u8>>;

/// What is beside a zone; `None` if it is damaged.
fn read(bench: &mut Bench, apex: &Name) -> Option<All> {
    let mut all = All::new();
    let each = |key: &[u8], value: &[u8]| drop(all.insert(key.to_vec(), value.to_vec()));
    let done = bench.journal().read_beside(apex, each).unwrap();
    done.map(|()| all)
}

/// A value of so many octets.
fn value(octets: usize) -> Option<Vec<u8>> {
    let number = |at: usize| u8::try_from(at % 251).unwrap();
    Some((0..octets).map(number).collect())
}

#[test]
fn entries_of_any_length_come_back_as_they_were_written_last() {
    let mut bench = Bench::new();
    let other: Name = "other.example.".parse().unwrap();
    // A name that begins with the labels of another.
    let longer: Name = "z.example.example.".parse().unwrap();
    let sizes = [0, 1, PART_OCTETS, PART_OCTETS + 1, 3 * PART_OCTETS, 7];
    for round in 0..sizes.len() {
        let mut want = All::new();
        for (zone, shift) in [(apex(), 0), (other.clone(), 1), (longer.clone(), 2)] {
            let size = sizes[(round + shift) % sizes.len()];
            // One key begins with the other, and octets of 0 follow.
            let keys: [&[u8]; 3] = [b"a", b"a\0\0", b""];
            let entries = keys.map(|key| (key.to_vec(), value(size)));
            bench.journal().put_beside(&zone, &entries).unwrap();
            if shift == 0 {
                want = entries
                    .into_iter()
                    .map(|(key, it)| (key, it.unwrap()))
                    .collect();
            }
        }
        assert_eq!(read(&mut bench, &apex()), Some(want.clone()));
        assert_eq!(bench.open(), Vec::<String>::new());
        assert_eq!(read(&mut bench, &apex()), Some(want));
    }
    let gone = [(b"a".to_vec(), None), (b"never".to_vec(), None)];
    bench.journal().put_beside(&apex(), &gone).unwrap();
    let left = read(&mut bench, &apex()).unwrap();
    assert_eq!(left.into_keys().collect::<Vec<_>>(), [&b""[..], b"a\0\0"]);
    assert_eq!(read(&mut bench, &other).unwrap().len(), 3);
    let upper: Name = "OTHER.example.".parse().unwrap();
    assert_eq!(read(&mut bench, &upper).unwrap().len(), 3);
}

#[test]
fn one_damaged_or_missing_part_makes_all_of_the_zone_unknown() {
    let written = || {
        let mut bench = Bench::new();
        let entries = [
            (b"a".to_vec(), value(3 * PART_OCTETS)),
            (b"b".to_vec(), value(5)),
        ];
        bench.journal().put_beside(&apex(), &entries).unwrap();
        bench
    };
    let keys = |bench: &mut Bench| {
        let all = bench.journal().store.range(&[BESIDE], &[BESIDE + 1], 100);
        all.unwrap()
    };
    for place in 0..4 {
        for (damage, wanted) in [(false, place == 3), (true, false)] {
            let mut bench = written();
            let all = keys(&mut bench);
            assert_eq!(all.len(), 4);
            let (key, old) = &all[place];
            let mut batch = Batch::default();
            match damage {
                true => {
                    let mut new = old.to_vec();
                    new[0] ^= 1;
                    batch.put(key, new);
                }
                false => batch.delete(key),
            }
            bench.journal().store.write(batch).unwrap();
            let known = read(&mut bench, &apex()).is_some();
            assert_eq!(known, wanted, "{place} {damage}");
        }
    }
}

#[test]
fn entries_of_a_commit_are_written_with_it_or_not_at_all() {
    let mut bench = Bench::new();
    let entry = |text: &[u8]| vec![(b"a".to_vec(), Some(text.to_vec()))];
    bench.journal().put_beside_next(&apex(), entry(b"one"));
    assert_eq!(read(&mut bench, &apex()), Some(All::new()));
    let first = large_steps::with_owners(None, 0..3, 1);
    bench.put(first);
    let want = |text: &[u8]| Some(All::from([(b"a".to_vec(), text.to_vec())]));
    assert_eq!(read(&mut bench, &apex()), want(b"one"));
    let next = large_steps::with_owners(bench.version.as_ref(), 1..2, 2);
    bench.journal().put_beside_next(&apex(), entry(b"two"));
    bench.journal().store.refuse_next();
    assert!(bench.journal().commit(vec![next]).is_err());
    // The database is opened again after a failed write.
    let is_back = (0..3).any(|_| {
        let next = large_steps::with_owners(bench.version.as_ref(), 1..2, 2);
        bench.journal().commit(vec![next]).is_ok()
    });
    assert!(is_back);
    assert_eq!(read(&mut bench, &apex()), want(b"one"));
}

//! Versions far apart, and single names in them: what is found from snapshots is what all steps say.

use dns::{Rdata, RrList, Rtype, Ttl};
use ops::times_yielded;

use super::*;
use crate::journal::codec::{self, PartWriter, SNAPSHOT, STEP};
use crate::journal::store::{Batch, Store};
use crate::journal::{difference, load, stream_seek};
use crate::{Edit, Net, Node};

/// Owners that come and go.
const OWNERS: u32 = 300;

/// A version that changes about 15 owners: some have records that fill several parts, some go.
fn changed(previous: Option<&Version>, turn: u32) -> Candidate {
    let before = previous.map_or_else(laws::empty, |version| version.contents.clone());
    let mut edit = Edit::new(&before);
    let places = if turn == 1 { OWNERS } else { 15 };
    for place in 0..places {
        let number = if turn == 1 {
            place
        } else {
            (turn.wrapping_mul(2_654_435_761) >> 7).wrapping_add(place * place * 13) % OWNERS
        };
        let name = owner(number);
        if (turn + place).is_multiple_of(7) {
            let key = name.sort_key(&apex()).unwrap();
            edit.remove(key.as_bytes(), 0);
            continue;
        }
        let mut records = (0..if number % 3 == 0 { 60 } else { 2 })
            .map(|part| {
                let text = format!("{} {part} {}", turn / 3, "x".repeat(200));
                (Rtype::TXT, Ttl::ZERO, Rdata::txt(&text))
            })
            .collect();
        edit.set(Node::build(&name, &apex(), &mut records).unwrap(), 0);
    }
    finished(previous, edit, Serial::decode(turn))
}

/// A store with several snapshots of such versions.
fn bench(versions: u32) -> Bench {
    let mut bench = Bench::new();
    for turn in 1..=versions {
        let candidate = changed(bench.version.as_ref(), turn);
        bench.put(candidate);
        bench.journal().idle();
    }
    bench.settle();
    let older = bench.journal().zones()[&apex()].head.older.len();
    assert!(older > 1, "{older} older snapshots");
    bench
}

/// The records of a list in an order that only they decide.
fn sorted(list: &RrList) -> Vec<String> {
    let mut all: Vec<_> = list
        .iter()
        .map(|rr| dns::RecordText(rr).to_string())
        .collect();
    all.sort_unstable();
    all
}

/// Whether a list's owners stand in canonical order.
fn is_canonical(list: &RrList) -> bool {
    list.iter()
        .map(|rr| rr.to_record().owner.sort_key(&apex()).unwrap())
        .is_sorted()
}

#[test]
fn versions_far_apart_differ_in_the_net_of_all_steps_between() {
    let mut bench = bench(120);
    let stored = bench.journal().zones()[&apex()].clone();
    let store = bench.journal().store.clone();
    for (older, newer) in [
        (1, 2),
        (1, 120),
        (2, 119),
        (30, 90),
        (47, 111),
        (59, 60),
        (5, 64),
    ] {
        let place = |seq: u64| usize::try_from(seq).unwrap();
        let wanted = Net::of(&bench.steps[place(older)..place(newer)]).unwrap();
        for near in [None, bench.version.as_ref()] {
            let found = difference::net(&store, &stored, (older, newer), near, 0).unwrap();
            assert_eq!((&found.from, &found.to), (&wanted.from, &wanted.to));
            if stored.head.nearest(older) != stored.head.nearest(newer) {
                assert!(is_canonical(&found.removed) && is_canonical(&found.added));
            }
            assert_eq!(
                sorted(&found.removed),
                sorted(&wanted.removed),
                "{older} {newer}"
            );
            assert_eq!(
                sorted(&found.added),
                sorted(&wanted.added),
                "{older} {newer}"
            );
        }
    }
}

#[test]
fn who_reads_history_lets_others_go_first_at_each_read() {
    let mut bench = bench(120);
    let reader = bench.journal().reader();
    let read = || drop(reader.contents_at(&apex(), 60, None).unwrap());
    let steps = 60_u64.abs_diff(reader.stored(&apex()).unwrap().head.nearest(60).seq);
    let times = times_yielded(read) as u64;
    assert!(times > steps, "{times} for {steps} steps and a snapshot");
}

#[test]
fn parts_of_a_longer_step_that_was_written_over_are_not_read() {
    let mut bench = bench(120);
    let stored = bench.journal().zones()[&apex()].clone();
    let store = bench.journal().store.clone();
    let wanted = Net::of(&bench.steps[9..30]).unwrap();
    let steps = bench.steps[9..30].to_vec();
    let mut left_over = Batch::default();
    for seq in 10..=30 {
        // Far behind its last part, and right behind it.
        let low = codec::part_key(STEP, stored.id, seq, 0);
        let high = codec::part_key(STEP, stored.id, seq, u32::MAX);
        let parts = u32::try_from(store.range(&low, &high, usize::MAX).unwrap().len()).unwrap();
        for part in [parts, parts + 40] {
            let key = codec::part_key(STEP, stored.id, seq, part);
            left_over.put(&key, codec::seal(&key, vec![0; 50]));
        }
    }
    store.write(left_over).unwrap();
    let read = load::read_steps(&store, &stored, 10..=30, true).unwrap();
    assert_eq!(read, steps);
    let found = difference::net(&store, &stored, (9, 30), None, u64::MAX).unwrap();
    assert_eq!(found, wanted);
}

/// Writes a snapshot as those of old were: its parts do not say where records begin.
fn write_as_of_old(store: &Store, id: u32, seq: u64) {
    let low = codec::part_key(SNAPSHOT, id, seq, 0);
    let high = codec::part_key(SNAPSHOT, id, seq, u32::MAX);
    let (mut batch, mut entries) = (Batch::default(), Vec::new());
    let mut writer = PartWriter::new(SNAPSHOT, id, seq);
    for (key, value) in store.range(&low, &high, usize::MAX).unwrap() {
        batch.delete(&key);
        writer.push(&value[1..value.len() - 4], &mut entries);
    }
    writer.finish(&mut entries);
    for (key, value) in entries {
        batch.put(&key, value);
    }
    store.write(batch).unwrap();
    assert!(!stream_seek::can_seek(store, SNAPSHOT, id, seq).unwrap());
}

#[test]
fn snapshots_that_cannot_be_sought_in_give_the_same_difference() {
    let mut bench = bench(120);
    let stored = bench.journal().zones()[&apex()].clone();
    let store = bench.journal().store.clone();
    let (start, end) = (stored.head.nearest(40), stored.head.nearest(111));
    assert!(start.snapshot && end.snapshot && start != end);
    let found = || difference::net(&store, &stored, (40, 111), None, 0).unwrap();
    let wanted = found();
    assert_eq!(
        sorted(&wanted.added),
        sorted(&Net::of(&bench.steps[40..111]).unwrap().added)
    );
    write_as_of_old(&store, stored.id, end.seq);
    assert_eq!(found(), wanted, "the newer one");
    write_as_of_old(&store, stored.id, start.seq);
    assert_eq!(found(), wanted, "both");
}

#[test]
fn a_snapshot_that_lacks_a_part_gives_no_difference() {
    let mut bench = bench(120);
    let stored = bench.journal().zones()[&apex()].clone();
    let store = bench.journal().store.clone();
    let base = stored.head.nearest(30);
    let stream = (SNAPSHOT, stored.id, base.seq);
    assert!(base.snapshot && stream_seek::middle(&store, stream).unwrap().is_some());
    let parts = {
        let low = codec::part_key(SNAPSHOT, stored.id, base.seq, 0);
        let high = codec::part_key(SNAPSHOT, stored.id, base.seq, u32::MAX);
        store.range(&low, &high, usize::MAX).unwrap()
    };
    assert!(parts.len() > 20, "{} parts", parts.len());
    for (part, (key, value)) in parts.iter().enumerate() {
        let mut batch = Batch::default();
        batch.delete(key);
        store.write(batch).unwrap();
        let found = difference::net(&store, &stored, (30, 119), None, 0);
        assert!(found.is_err(), "part {part} of {}", parts.len());
        let mut batch = Batch::default();
        batch.put(key, value.to_vec());
        store.write(batch).unwrap();
    }
    difference::net(&store, &stored, (30, 119), None, 0).unwrap();
}

#[test]
fn a_name_is_read_out_of_snapshots_as_the_version_has_it() {
    let mut bench = bench(120);
    let reader = bench.journal().reader();
    for seq in [1, 2, 29, 60, 61, 100, 120] {
        let all = reader.contents_at(&apex(), seq, None).unwrap();
        for number in (0..OWNERS + 2).step_by(7) {
            let name = owner(number);
            let key = name.sort_key(&apex()).unwrap();
            for near in [None, bench.version.as_ref()] {
                let one = reader.contents_of(&apex(), seq, &name, near).unwrap();
                assert_eq!(one.soa(), all.soa());
                let octets = |contents: &Contents| {
                    let node = contents.get(key.as_bytes());
                    node.map(|node| node.as_octets().to_vec())
                };
                assert_eq!(octets(&one), octets(&all), "{name} in {seq}");
            }
        }
    }
    assert_eq!(reader.verify(&apex(), &[]).unwrap().faults, Vec::new());
}

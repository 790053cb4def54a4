//! Acts come back in order, and what was done to them shows.

use super::super::codec::{ACT, seal, unseal};
use super::*;

fn act(number: u64) -> Act {
    Act {
        number,
        time_ms: number,
        what: "frozen".into(),
        by: "someone".into(),
        about: String::new(),
        serial: 7,
        until_ms: None,
    }
}

/// A store with so many acts.
fn with_acts(count: u64) -> Bench {
    let mut bench = Bench::new();
    for number in 1..=count {
        bench.journal().note_act(&apex(), &act(number)).unwrap();
    }
    bench
}

fn acts(bench: &mut Bench) -> Acts {
    bench.journal().reader().acts(&apex(), 0).unwrap()
}

#[test]
fn acts_come_back_in_order_and_those_of_other_zones_apart() {
    let mut bench = with_acts(3);
    let other: Name = "Other.example.".parse().unwrap();
    bench.journal().note_act(&other, &act(1)).unwrap();
    bench.open();
    let all = acts(&mut bench);
    assert_eq!(all.all, [act(1), act(2), act(3)]);
    assert_eq!(all.faults, Vec::<String>::new());
    let later = bench.journal().reader().acts(&apex(), 2).unwrap();
    assert_eq!((later.all, later.faults), (vec![act(3)], Vec::new()));
    let lower = bench.journal().reader().acts(&other.to_lower(), 0).unwrap();
    assert_eq!(lower.all, [act(1)]);
}

/// An older release has only the text of an operator, with his reason.
#[test]
fn an_act_of_an_older_release_is_read_and_one_of_this_release_by_an_older_one() {
    #[derive(serde::Serialize, serde::Deserialize, PartialEq, Debug)]
    struct Older {
        time_ms: u64,
        what: String,
        by: String,
        about: String,
        serial: u32,
        until_ms: Option<u64>,
    }
    let mut bench = with_acts(1);
    let all = bench.journal().store.range(&[ACT], &[ACT + 1], 1).unwrap();
    let (key, value) = (all[0].0.to_vec(), all[0].1.to_vec());
    let payload = unseal(&key, &value).unwrap();
    let (before, octets) = payload.split_at(32);
    let mut older: Older = postcard::from_bytes(octets).unwrap();
    assert_eq!((&*older.by, older.serial), ("someone", 7));
    older.by = "uid 0 (root), reason: x, ordered by uid 1".into();
    let payload = [before, &postcard::to_allocvec(&older).unwrap()].concat();
    let mut batch = Batch::default();
    let sealed = seal(&key, payload);
    batch.put(&key, sealed);
    bench.journal().store.write(batch).unwrap();
    let user = provenance::SocketUser {
        uid: 0,
        name: "root".into(),
        process: Some(7),
        command: "zonewright freeze z".into(),
    };
    let newer = Act {
        by: provenance::Operator::from(user).with_reason("x"),
        ..act(2)
    };
    bench.journal().note_act(&apex(), &newer).unwrap();
    let all = acts(&mut bench);
    let by = (&*older.by).into();
    assert_eq!(all.all, [Act { by, ..act(1) }, newer]);
    assert_eq!(all.faults, Vec::<String>::new());
}

#[test]
fn a_changed_act_shows_and_a_missing_one() {
    let keys = |bench: &mut Bench| {
        let all = bench.journal().store.range(&[ACT], &[ACT + 1], 100);
        let all = all.unwrap().into_iter();
        all.map(|(key, value)| (key.to_vec(), value.to_vec()))
            .collect::<Vec<_>>()
    };
    // A value with a right checksum, as somebody writes it who can write the store.
    let mut bench = with_acts(4);
    let (key, value) = keys(&mut bench)[1].clone();
    let mut payload = unseal(&key, &value).unwrap().to_vec();
    let place = payload.windows(7).position(|it| it == b"someone").unwrap();
    payload[place] = b'S';
    let mut batch = Batch::default();
    let sealed = seal(&key, payload);
    batch.put(&key, sealed);
    bench.journal().store.write(batch).unwrap();
    let all = acts(&mut bench);
    assert_eq!(all.all[1].by, "Someone".into());
    assert_eq!(all.faults, ["act 2 was changed, or act 3"]);
    // The checksum alone is wrong.
    let mut bench = with_acts(4);
    let (key, mut value) = keys(&mut bench)[1].clone();
    value[40] ^= 1;
    let mut batch = Batch::default();
    batch.put(&key, value);
    bench.journal().store.write(batch).unwrap();
    let all = acts(&mut bench);
    assert_eq!(
        (all.all.len(), all.faults),
        (3, vec!["act 2 is damaged".to_owned()])
    );
    for (gone, fault) in [(0, "1 to 1"), (1, "2 to 2"), (2, "3 to 3")] {
        let mut bench = with_acts(4);
        let (key, _) = keys(&mut bench)[gone].clone();
        let mut batch = Batch::default();
        batch.delete(&key);
        bench.journal().store.write(batch).unwrap();
        let all = acts(&mut bench);
        assert_eq!(all.faults, [format!("the acts from {fault} are missing")]);
    }
}

#[test]
fn the_oldest_acts_go_and_are_not_missed() {
    let mut bench = Bench::new();
    for number in 1..=7 {
        let act = act(number);
        bench.journal().note_act_of(&apex(), &act, 3).unwrap();
    }
    let all = acts(&mut bench);
    assert_eq!(all.all, [act(5), act(6), act(7)]);
    // Here so many more would be kept that their absence shows.
    assert_eq!(all.faults, ["the acts from 1 to 4 are missing"]);
}

#[test]
fn an_act_is_written_after_the_database_was_closed() {
    let mut bench = with_acts(1);
    bench.journal().store.close();
    bench.journal().note_act(&apex(), &act(2)).unwrap();
    assert_eq!(acts(&mut bench).all, [act(1), act(2)]);
}

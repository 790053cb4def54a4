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
        seq: Some(3),
        until_ms: None,
    }
}

fn note(bench: &mut Bench, apex: Name, act: Act) {
    bench.journal().note(None, &[(apex, act)]).unwrap();
}

/// A store with so many acts.
fn with_acts(count: u64) -> Bench {
    let mut bench = Bench::new();
    for number in 1..=count {
        note(&mut bench, apex(), act(number));
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
    note(&mut bench, other.clone(), act(1));
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
    note(&mut bench, apex(), newer.clone());
    let all = acts(&mut bench);
    let by = (&*older.by).into();
    let seq = None;
    assert_eq!(all.all, [Act { by, seq, ..act(1) }, newer]);
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
    let place = payload.windows(7).rposition(|it| it == b"someone").unwrap();
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
        let acts = [(apex(), act(number))];
        let mut batch = Batch::default();
        bench.journal().put_acts(&mut batch, &acts, 3).unwrap();
        bench.journal().store.write(batch).unwrap();
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
    note(&mut bench, apex(), act(2));
    assert_eq!(acts(&mut bench).all, [act(1), act(2)]);
}

/// A Corefile and what was done with it are written together, and acts of one zone follow each other there.
#[test]
fn acts_of_several_zones_and_a_corefile_are_written_at_once() {
    let mut bench = with_acts(1);
    let other: Name = "other.example.".parse().unwrap();
    let corefile = KeptCorefile {
        since_ms: 2,
        digest: "a".into(),
        text: "x".into(),
    };
    let many = [(apex(), act(2)), (other.clone(), act(1)), (apex(), act(3))];
    bench.journal().note(Some(&corefile), &many).unwrap();
    bench.open();
    let all = acts(&mut bench);
    assert_eq!(all.all, [act(1), act(2), act(3)]);
    assert_eq!(all.faults, Vec::<String>::new());
    let reader = bench.journal().reader();
    assert_eq!(reader.acts(&other, 0).unwrap().all, [act(1)]);
    assert_eq!(reader.corefiles().unwrap(), [Some(corefile)]);
}

#[test]
fn the_times_of_acts_do_not_go_back_with_the_clock() {
    let mut bench = Bench::new();
    for time_ms in [5, 3, 9] {
        note(&mut bench, apex(), Act { time_ms, ..act(1) });
    }
    let later = [4, 12].map(|time_ms| (apex(), Act { time_ms, ..act(1) }));
    bench.journal().note(None, &later).unwrap();
    let times: Vec<u64> = acts(&mut bench).all.iter().map(|it| it.time_ms).collect();
    assert_eq!(times, [5, 5, 9, 9, 12]);
}

#[test]
fn the_newest_act_of_a_kind_is_found_behind_many_others() {
    let mut bench = with_acts(600);
    let reader = bench.journal().reader();
    for number in [1, 300, 600] {
        let found = reader.last_act(&apex(), |act| act.time_ms == number);
        assert_eq!(found.unwrap(), Some(act(number)));
    }
    assert_eq!(reader.last_act(&apex(), |_| false).unwrap(), None);
}

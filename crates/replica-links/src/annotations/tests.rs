//! Tests of the Lease's form.

use dns::testing::name;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;

use std::collections::BTreeSet;
use std::time::UNIX_EPOCH;

use super::*;

fn names() -> impl Strategy<Value = Name> {
    // All bytes: a backslash, a quote and a dot within a label need escapes of zone files and of JSON.
    let label = vec(any::<u8>(), 1..=9);
    vec(label, 0..=4).prop_map(|labels| {
        let mut wire = Vec::new();
        for label in labels {
            wire.push(u8::try_from(label.len()).expect("it is short"));
            wire.extend(label);
        }
        wire.push(0);
        Name::from_wire(&wire).expect("it is a name")
    })
}

fn serials() -> impl Strategy<Value = Serial> {
    any::<u32>().prop_map(Serial::decode)
}

fn replicas() -> impl Strategy<Value = ReplicaId> {
    "\\PC{1,30}".prop_map(|text| ReplicaId::from(&*text))
}

prop_compose! {
    fn records()(
        holder in proptest::option::of(replicas()),
        epoch in any::<u64>(),
        common in proptest::option::of(serials()),
        above in btree_map(names(), serials(), 0..4),
        in_sync in btree_set(replicas(), 0..4),
        address in "\\PC{0,30}",
        newest in btree_map(names(), (serials(), any::<HashStart>()), 0..4),
        must_publish in any::<bool>(),
    ) -> Record {
        let newest = newest.into_iter();
        Record {
            holder,
            epoch: Epoch(epoch),
            ceiling: Ceiling { common, above },
            in_sync,
            address,
            newest: newest.map(|(zone, (serial, hash))| (zone, Newest { serial, hash })).collect(),
            must_publish,
        }
    }
}

fn written(seconds: u64) -> Written {
    Written {
        now: UNIX_EPOCH + Duration::from_secs(seconds),
        lease_duration: Duration::from_secs(15),
    }
}

proptest! {
    #[test]
    fn a_record_is_read_as_it_was_written(record in records()) {
        let base = LeaseObject {
            uid: "u".to_owned(),
            resource_version: "7".to_owned(),
            ..LeaseObject::default()
        };
        let seen = read(&write(&record, &base, &written(1)));
        let (uid, version) = ("u".to_owned(), "7".to_owned());
        prop_assert_eq!(seen, Ok(Seen { uid, version, record }));
    }
}

fn record() -> Record {
    Record {
        holder: Some("a1".into()),
        epoch: Epoch(7),
        ceiling: Ceiling {
            common: Some(Serial::decode(1_795_286_912)),
            above: BTreeMap::from([(name("example.org."), Serial::decode(2_026_112_405))]),
        },
        in_sync: BTreeSet::from(["a1".into(), "b2".into()]),
        address: "10.244.1.7:5380".to_owned(),
        newest: BTreeMap::from([(
            name("cluster.local."),
            Newest {
                serial: Serial::decode(1_795_286_656),
                hash: [0x9c, 0x1f, 0x03, 0xab],
            },
        )]),
        must_publish: false,
    }
}

#[test]
fn a_lease_is_written_as_the_design_says() {
    let object = write(&record(), &LeaseObject::default(), &written(10));
    let texts: Vec<String> = { object.annotations.iter() }
        .map(|(key, text)| format!("{key} {text}"))
        .collect();
    let wanted = [
        r#"zonewright.dev/above {"example.org.":2026112405}"#,
        "zonewright.dev/address 10.244.1.7:5380",
        "zonewright.dev/ceiling 1795286912",
        "zonewright.dev/epoch 7",
        "zonewright.dev/format 1",
        r#"zonewright.dev/in-sync ["a1","b2"]"#,
        "zonewright.dev/must-publish false",
        r#"zonewright.dev/newest {"cluster.local.":[1795286656,"9c1f03ab"]}"#,
    ];
    assert_eq!(texts, wanted);
    let spec = (
        object.duration_seconds,
        object.transitions,
        object.holder.as_deref(),
    );
    assert_eq!(spec, (Some(15), Some(7), Some("a1")));
}

#[test]
fn an_annotation_that_is_missing_or_wrong_is_named() {
    let good = write(&record(), &LeaseObject::default(), &written(10));
    let keys: Vec<String> = good.annotations.keys().cloned().collect();
    assert_eq!(keys.len(), 8);
    for key in keys {
        let mut bad = good.clone();
        bad.annotations.remove(&key);
        let error = read(&bad)
            .expect_err("an annotation is missing")
            .to_string();
        assert_eq!(error, format!("the Lease has no annotation {key}"));
        if key.ends_with("/address") {
            continue;
        }
        bad.annotations.insert(key.clone(), "?".to_owned());
        let error = read(&bad).expect_err("an annotation is wrong").to_string();
        assert!(error.contains(&key), "{error}");
    }
    for (key, text) in [
        ("newest", r#"{"a.":[1,"9c1f03a"]}"#),
        ("newest", r#"{"a.":[1,"+c1f03ab"]}"#),
        ("newest", r#"{"a.":[4294967296,"9c1f03ab"]}"#),
        ("above", r#"{"a..":1}"#),
        ("above", r#"{"a.":1,"A.":2}"#),
        ("ceiling", "-1"),
        ("ceiling", ""),
        ("epoch", "18446744073709551616"),
        ("in-sync", "a1"),
    ] {
        let mut bad = good.clone();
        bad.annotations
            .insert(format!("{PREFIX}{key}"), text.to_owned());
        let error = read(&bad).expect_err("an annotation is wrong").to_string();
        assert!(
            error.contains(&format!("{PREFIX}{key} ")),
            "{text}: {error}"
        );
    }
}

#[test]
fn labels_and_annotations_of_others_stay_and_a_term_has_one_begin() {
    let mut base = write(&record(), &LeaseObject::default(), &written(10));
    base.labels.insert("team".to_owned(), "dns".to_owned());
    base.annotations
        .insert("example.com/note".to_owned(), "x".to_owned());
    base.annotations
        .insert(format!("{PREFIX}later"), "gone".to_owned());
    base.resource_version = "12".to_owned();
    base.uid = "u".to_owned();
    let renewed = write(&record(), &base, &written(12));
    assert_eq!(renewed.labels, base.labels);
    assert_eq!(
        renewed
            .annotations
            .get("example.com/note")
            .map(String::as_str),
        Some("x")
    );
    assert!(!renewed.annotations.contains_key("zonewright.dev/later"));
    assert_eq!((&*renewed.uid, &*renewed.resource_version), ("u", "12"));
    let at = |seconds| Some(UNIX_EPOCH + Duration::from_secs(seconds));
    assert_eq!((renewed.acquired, renewed.renewed), (at(10), at(12)));

    let mut next = record();
    next.epoch = Epoch(8);
    let taken = write(&next, &renewed, &written(20));
    assert_eq!((taken.acquired, taken.renewed), (at(20), at(20)));
    next.holder = None;
    let released = write(&next, &taken, &written(30));
    let spec = (
        released.holder,
        released.duration_seconds,
        released.acquired,
    );
    assert_eq!(spec, (None, Some(1), at(30)));
}

#[test]
fn a_lease_with_the_longest_names_has_room_for_its_annotations() {
    let mut record = record();
    for number in 0..replicas::record::NEWEST_MAX {
        // Each octet of the name is four characters of text, and five of JSON.
        let mut wire = vec![3, b'0', b'0', b'0'];
        wire[1..4].copy_from_slice(format!("{number:03}").as_bytes());
        for octets in [63_u8, 63, 63, 57] {
            wire.push(octets);
            wire.extend(vec![1; octets.into()]);
        }
        wire.push(0);
        let zone = Name::from_wire(&wire).expect("it is a name");
        let newest = Newest {
            serial: Serial::decode(u32::MAX),
            hash: [255; 4],
        };
        record.newest.insert(zone, newest);
    }
    let object = write(&record, &LeaseObject::default(), &written(1));
    let bytes: usize = { object.annotations.iter() }
        .map(|(key, text)| key.len() + text.len())
        .sum();
    assert!(bytes < 200 << 10, "{bytes}");
    let seen = read(&object).expect("it can be read");
    assert!(!seen.record.newest.is_empty() && seen.record.newest.len() < record.newest.len());
}

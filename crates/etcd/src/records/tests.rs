//! Tests of the records of names, as text, and of the law of lists and events.

use dns::RecordText;
use proptest::prelude::*;

use super::*;
use crate::key::Layout;
use crate::tree::{Change, Dirty, KeyValue};

const SETTINGS: Settings = Settings {
    min_lease_ttl: 30,
    max_lease_ttl: 86_400,
    no_apex_fallback: false,
};

fn kv(key: &str, value: &str, revision: i64) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: value.as_bytes().to_vec(),
        revision,
        lease_seconds: None,
    }
}

fn tree(zone: &str, keys: &[(&str, &str)]) -> Tree {
    let layout = Layout::new("skydns", &zone.parse().unwrap());
    let prefix = layout.prefix().to_owned();
    let mut tree = Tree::new(layout);
    let keys = (1..).zip(keys);
    let keys = keys.map(|(revision, (key, value))| kv(&format!("{prefix}{key}"), value, revision));
    tree.replace(keys.collect(), &mut Dirty::default());
    tree
}

fn lines(rendered: &Rendered) -> Vec<String> {
    let records = rendered.records.iter();
    let mut lines: Vec<_> = records
        .map(|record| RecordText(record.view()).to_string().replace('\t', " "))
        .collect();
    lines.sort();
    lines.dedup();
    lines
}

/// All records of a tree.
fn all(tree: &Tree) -> Vec<String> {
    let names = tree.names();
    let mut all: Vec<_> = names
        .iter()
        .flat_map(|name| lines(&tree.render(name, &SETTINGS)))
        .collect();
    all.sort();
    all
}

#[track_caller]
fn check(zone: &str, keys: &[(&str, &str)], name: &str, want: &[&str]) {
    let rendered = tree(zone, keys).render(&name.parse().unwrap(), &SETTINGS);
    assert_eq!(lines(&rendered), want, "{:?}", rendered.problems);
}

#[test]
fn a_name_has_the_records_of_all_keys_below_it() {
    let keys = [
        ("web/a", r#"{"host":"192.0.2.1","port":80,"ttl":60}"#),
        ("web/b", r#"{"host":"2001:db8::1","priority":5,"weight":7}"#),
        // Not looked at while there are keys below it.
        ("web", r#"{"host":"192.0.2.9"}"#),
    ];
    let want = [
        "web.z. 300 IN AAAA 2001:db8::1",
        "web.z. 300 IN SRV 5 7 0 b.web.z.",
        "web.z. 60 IN A 192.0.2.1",
        "web.z. 60 IN SRV 10 100 80 a.web.z.",
    ];
    check("z", &keys, "web.z", &want);
    let own = [
        "a.web.z. 60 IN A 192.0.2.1",
        "a.web.z. 60 IN SRV 10 100 80 a.web.z.",
    ];
    check("z", &keys, "a.web.z", &own);
}

#[test]
fn a_host_name_without_a_port_is_an_alias_where_nothing_else_is() {
    let keys = [("www/x", r#"{"host":"lb.test"}"#)];
    check("z", &keys, "www.z", &["www.z. 300 IN CNAME lb.test."]);
    let port = [("s", r#"{"host":"lb.test","port":80}"#)];
    check("z", &port, "s.z", &["s.z. 300 IN SRV 10 100 80 lb.test."]);
    // The zone itself cannot be an alias.
    check("z", &keys, "z", &["z. 300 IN SRV 10 100 0 lb.test."]);
    let beside = [
        ("a", r#"{"host":"lb.test"}"#),
        ("a/b", r#"{"host":"192.0.2.1"}"#),
    ];
    let rendered = tree("z", &beside).render(&"a.z".parse().unwrap(), &SETTINGS);
    assert!(
        rendered.problems[0].contains("/skydns/z/a: its host is a name"),
        "{rendered:?}"
    );
}

#[test]
fn texts_mail_and_stripped_targets() {
    let text = [
        ("t/1", r#"{"text":"one"}"#),
        ("t/2", r#"{"text":"two","host":"x.test"}"#),
    ];
    check(
        "z",
        &text,
        "t.z",
        &["t.z. 300 IN TXT \"one\"", "t.z. 300 IN TXT \"two\""],
    );
    let mail = [("m", r#"{"host":"mx.test","mail":true,"port":-1}"#)];
    check("z", &mail, "m.z", &["m.z. 300 IN MX 10 mx.test."]);
    let strip = [("a/b", r#"{"host":"192.0.2.1","targetstrip":1}"#)];
    let want = ["a.b.z. 300 IN A 192.0.2.1"];
    assert!(
        !lines(&tree("z", &strip).render(&"a.z".parse().unwrap(), &SETTINGS))
            .contains(&want[0].to_owned())
    );
    let want = ["a.z. 300 IN A 192.0.2.1", "a.z. 300 IN SRV 10 100 0 a.z."];
    check("z", &strip, "a.z", &want);
}

#[test]
fn the_shortest_key_with_a_group_decides() {
    let keys = [
        ("g/a", r#"{"host":"192.0.2.1","group":"one","port":-1}"#),
        ("g/b/c", r#"{"host":"192.0.2.2","group":"two","port":-1}"#),
        ("g/b/d", r#"{"host":"192.0.2.3","port":-1}"#),
    ];
    check(
        "z",
        &keys,
        "g.z",
        &["g.z. 300 IN A 192.0.2.1", "g.z. 300 IN A 192.0.2.3"],
    );
    let disagree = [
        ("g/a", r#"{"host":"192.0.2.1","group":"one","port":-1}"#),
        ("g/b", r#"{"host":"192.0.2.2","group":"two","port":-1}"#),
    ];
    check(
        "z",
        &disagree,
        "g.z",
        &["g.z. 300 IN A 192.0.2.1", "g.z. 300 IN A 192.0.2.2"],
    );
}

/// Found by the generated trees of `tests/compare_etcd.rs`.
#[test]
fn a_shorter_key_without_a_group_ends_the_look_for_disagreement() {
    let keys = [
        ("g/a/x", r#"{"host":"192.0.2.1","group":"one","port":-1}"#),
        ("g/b", r#"{"host":"192.0.2.2","port":-1}"#),
        ("g/c/x", r#"{"host":"192.0.2.3","group":"two","port":-1}"#),
    ];
    let want = ["g.z. 300 IN A 192.0.2.1", "g.z. 300 IN A 192.0.2.2"];
    check("z", &keys, "g.z", &want);
}

#[test]
fn the_apex_has_the_addresses_below_dns_apex_else_all() {
    let keys = [
        ("a", r#"{"host":"192.0.2.1","port":-1}"#),
        ("dns/apex/x", r#"{"host":"192.0.2.2","port":-1}"#),
        ("dns/ns/x", r#"{"host":"192.0.2.3","port":-1,"ttl":60}"#),
    ];
    check("z", &keys, "z", &["z. 300 IN A 192.0.2.2"]);
    check("z", &keys[..1], "z", &["z. 300 IN A 192.0.2.1"]);
    let none = Settings {
        no_apex_fallback: true,
        ..SETTINGS
    };
    let rendered = tree("z", &keys[..1]).render(&"z".parse().unwrap(), &none);
    assert_eq!(rendered, Rendered::default());
    let servers = tree("z", &keys).name_servers(&SETTINGS);
    let names: Vec<String> = servers.keys().map(ToString::to_string).collect();
    assert_eq!(names, ["x.ns.dns.z."]);
}

#[test]
fn a_reverse_zone_has_pointers_of_its_own_keys() {
    let keys = [
        ("0/0/7", r#"{"host":"a.z."}"#),
        ("0/0/8", r#"{"host":"192.0.2.1"}"#),
    ];
    let zone = "10.in-addr.arpa";
    check(
        zone,
        &keys,
        "7.0.0.10.in-addr.arpa",
        &["7.0.0.10.in-addr.arpa. 300 IN PTR a.z."],
    );
    check(zone, &keys, "8.0.0.10.in-addr.arpa", &[]);
    check(zone, &keys, "0.0.10.in-addr.arpa", &[]);
}

#[test]
fn a_lease_bounds_the_ttl() {
    for (lease, own, want) in [
        (10, 0, 30),
        (60, 0, 60),
        (60, 20, 20),
        (1_000_000, 0, 86_400),
    ] {
        let mut tree = Tree::new(Layout::new("skydns", &"z".parse().unwrap()));
        let value = format!(r#"{{"host":"192.0.2.1","port":-1,"ttl":{own}}}"#);
        let kv = KeyValue {
            lease_seconds: Some(lease),
            ..kv("/skydns/z/a", &value, 1)
        };
        tree.apply(Change::Put(kv), &mut Dirty::default());
        let rendered = tree.render(&"a.z".parse().unwrap(), &SETTINGS);
        assert_eq!(rendered.records[0].ttl.seconds(), want);
    }
}

#[test]
fn too_many_keys_below_a_name_are_reported_and_left_out() {
    let keys: Vec<String> = (0..=MOST_BELOW).map(|at| format!("a/{at}")).collect();
    let keys: Vec<_> = keys
        .iter()
        .map(|key| (key.as_str(), r#"{"host":"192.0.2.1"}"#))
        .collect();
    let rendered = tree("z", &keys).render(&"a.z".parse().unwrap(), &SETTINGS);
    assert!(rendered.records.is_empty());
    assert!(
        rendered.problems[0].contains("more than 500 keys"),
        "{rendered:?}"
    );
    let some = tree("z", &keys[1..]).render(&"a.z".parse().unwrap(), &SETTINGS);
    assert!(!some.records.is_empty());
}

#[test]
fn a_bad_value_is_reported_and_hides_no_other() {
    let keys = [
        ("a/x", "nonsense"),
        ("a/y", r#"{"host":"192.0.2.1","port":-1}"#),
    ];
    check("z", &keys, "a.z", &["a.z. 300 IN A 192.0.2.1"]);
    let problems = tree("z", &keys).problems().collect::<Vec<_>>();
    assert!(
        problems[0].starts_with("/skydns/z/a/x: not a service"),
        "{problems:?}"
    );
}

/// A restored store counts from an earlier revision: the list decides, and what is seen after it, whatever was known.
#[test]
fn a_list_of_a_restored_store_is_believed() {
    let host = |last: u8| format!(r#"{{"host":"192.0.2.{last}","port":-1}}"#);
    let mut tree = tree("z", &[]);
    let list = |all: &[(&str, u8, i64)]| {
        let kv = |(key, last, revision): &(&str, u8, i64)| {
            kv(&format!("/skydns/z/{key}"), &host(*last), *revision)
        };
        all.iter().map(kv).collect::<Vec<_>>()
    };
    let mut known = Dirty::default();
    tree.replace(
        list(&[("a", 1, 50), ("b", 2, 51), ("c", 3, 52)]),
        &mut known,
    );
    let mut dirty = Dirty::default();
    // The same revision with another value, an earlier one, and a key that is gone.
    tree.replace(list(&[("a", 11, 50), ("b", 12, 7)]), &mut dirty);
    let want = ["a.z. 300 IN A 192.0.2.11", "b.z. 300 IN A 192.0.2.12"];
    let own = |tree: &Tree| {
        let mut all = all(tree);
        all.retain(|line| !line.starts_with("z. "));
        all
    };
    assert_eq!(own(&tree), want);
    let names: Vec<String> = dirty.names.keys().map(ToString::to_string).collect();
    assert_eq!(names, ["z.", "a.z.", "b.z.", "c.z."]);
    tree.apply(Change::Put(list(&[("b", 22, 8)]).remove(0)), &mut dirty);
    let key = "/skydns/z/a".to_owned();
    tree.apply(Change::Deleted { key, revision: 51 }, &mut dirty);
    assert_eq!(own(&tree), ["b.z. 300 IN A 192.0.2.22"]);
}

/// A step of a history: a key, and its value or nothing.
fn steps() -> impl Strategy<Value = Vec<(usize, Option<usize>)>> {
    proptest::collection::vec(
        (0..KEYS.len(), proptest::option::of(0..VALUES.len())),
        0..40,
    )
}

const KEYS: [&str; 7] = ["a", "a/b", "a/b/c", "a-b", "d", "dns/apex/x", "dns/ns/y"];
const VALUES: [&str; 6] = [
    r#"{"host":"192.0.2.1"}"#,
    r#"{"host":"2001:db8::1","port":80,"group":"g"}"#,
    r#"{"host":"lb.test"}"#,
    r#"{"host":"lb.test","group":"h","mail":true}"#,
    r#"{"text":"t","ttl":9}"#,
    "nonsense",
];

proptest! {
    #[test]
    fn a_list_and_events_are_a_list_of_the_end_state(steps in steps(), cut in 0..40_usize) {
        let layout = || Layout::new("skydns", &"z".parse().unwrap());
        let key = |at: usize| format!("/skydns/z/{}", KEYS[at]);
        let mut state: BTreeMap<String, KeyValue> = BTreeMap::new();
        let mut followed = Tree::new(layout());
        let mut records: BTreeMap<Name, Vec<String>> = BTreeMap::new();
        let mut before: Vec<Change> = Vec::new();
        for (at, (revision, (place, value))) in (1..).zip(&steps).enumerate() {
            let key = key(*place);
            let mut dirty = Dirty::default();
            let change = match value {
                Some(value) => {
                    let kv = kv(&key, VALUES[*value], revision);
                    state.insert(key, kv.clone());
                    Change::Put(kv)
                }
                None => {
                    state.remove(&key);
                    Change::Deleted { key, revision }
                }
            };
            before.push(change.clone());
            if at == cut {
                followed.replace(state.values().cloned().collect(), &mut dirty);
                // Events from before the list come late. Of a key that is gone nothing is known.
                for late in before.drain(..) {
                    let (Change::Put(KeyValue { key, .. }) | Change::Deleted { key, .. }) = &late;
                    if state.contains_key(key) {
                        followed.apply(late, &mut dirty);
                    }
                }
            } else {
                followed.apply(change, &mut dirty);
            }
            // What is dirty is enough.
            for name in dirty.names.keys() {
                let new = lines(&followed.render(name, &SETTINGS));
                records.insert(name.clone(), new);
            }
        }
        let mut listed = Tree::new(layout());
        listed.replace(state.into_values().collect(), &mut Dirty::default());
        prop_assert_eq!(all(&followed), all(&listed));
        let mut kept: Vec<String> = records.into_values().flatten().collect();
        kept.sort();
        prop_assert_eq!(kept, all(&listed));
    }
}

//! Which addresses are bound, and which zones are transferred there.

use directives::config::{Overrides, parse_text};
use transfer::Requester;

use super::*;
use crate::plan::model::Plan;
use ops::RequestMetrics;

#[test]
fn an_address_that_is_excepted_of_an_interface_is_not_bound() {
    let local = |_: Option<&str>| {
        ["192.0.2.1", "192.0.2.2"]
            .map(|it| it.parse().unwrap())
            .into()
    };
    let bound = |lines: &str| -> Vec<String> {
        let text = format!("z:53 {{\n{lines}\n}}\n");
        let loaded = parse_text("Corefile", &text, &Overrides::default(), &|_| None).unwrap();
        let listeners = loaded.config.listeners().into_iter();
        let all = listeners
            .flat_map(|(listener, blocks)| addresses_of(&listener, &blocks, &local).unwrap());
        all.map(|address| address.to_string()).collect()
    };
    assert_eq!(bound("bind eth0"), ["192.0.2.1:53", "192.0.2.2:53"]);
    let lines = "bind eth0 {\n except 192.0.2.2\n}";
    assert_eq!(bound(lines), ["192.0.2.1:53"]);
}

/// The zones that are transferred on each listener of a Corefile, and those that a peer may transfer.
fn given(text: &str) -> Vec<(String, usize)> {
    let loaded = parse_text("Corefile", text, &Overrides::default(), &|_| None).unwrap();
    let plan = Plan::new(&loaded.config, &|_| Vec::new());
    let deployment = Deployment::new(plan, &RequestMetrics::default(), &Deployment::default());
    let of = |(listener, blocks): (Listener, Vec<&ServerBlock>)| {
        let here = std::slice::from_ref(&listener);
        let transfers = transfers((&blocks, here), &deployment, &mut BTreeSet::new());
        let zones = transfers.zones.iter().map(|zone| zone.apex().to_string());
        let zones = format!("{}: {}", listener.port, zones.collect::<Vec<_>>().join(" "));
        (zones, transfers.access.len())
    };
    loaded.config.listeners().into_iter().map(of).collect()
}

#[test]
fn a_zone_is_given_away_by_the_block_that_has_its_questions() {
    let cluster = "kubernetes cluster.local {\nmanifests .\n}\ntransfer {\nallow 192.0.2.1\n}\n";
    let check = |text: &str, wanted: &[(&str, usize)]| {
        let wanted = wanted
            .iter()
            .map(|(zones, access)| ((*zones).to_owned(), *access));
        assert_eq!(given(text), wanted.collect::<Vec<_>>(), "{text}");
    };
    check(
        &format!(".:53 {{\n{cluster}}}\n"),
        &[("53: cluster.local.", 1)],
    );
    let other = "forward . 192.0.2.53\nacl {\nblock\n}\n";
    check(
        &format!(".:53 .:54 {{\n{cluster}}}\ncluster.local:53 {{\n{other}}}\n"),
        &[("53: ", 0), ("54: cluster.local.", 1)],
    );
    // A catalog below no key is on all listeners but those where another block has its questions.
    let both = cluster.replace("transfer", "transfer cluster.local c.invalid");
    let catalog = format!("cluster.local:53 cluster.local:54 {{\n{both}catalog c.invalid\n}}\n");
    check(
        &format!("{catalog}.:54 {{\n{other}}}\n"),
        &[
            ("53: cluster.local. c.invalid.", 2),
            ("54: cluster.local.", 1),
        ],
    );
}

#[test]
fn one_who_may_have_a_zone_by_its_link_may_not_by_another() {
    let lines = "to fe80::1%7\n allow fe80::2%9 fe80::3 ::ffff:192.0.2.1 ::ffff:10.0.0.0/104";
    let text = format!("z {{\n file db\n transfer {{\n {lines}\n }}\n}}\n");
    let loaded = parse_text("Corefile", &text, &Overrides::default(), &|_| None).unwrap();
    let access = access_of(loaded.config.servers[0].get().unwrap());
    let zone = Arc::new(Zone::new(&"z.".parse().unwrap()));
    for (address, wanted) in [
        ("[fe80::1%7]:4000", true),
        ("[fe80::1%8]:4000", false),
        ("[fe80::1%9]:4000", false),
        ("[fe80::2%9]:4000", true),
        ("[fe80::2%7]:4000", false),
        ("[fe80::3%7]:4000", true),
        ("192.0.2.1:4000", true),
        ("[::ffff:192.0.2.1]:4000", true),
        ("192.0.2.2:4000", false),
        ("10.9.8.7:4000", true),
    ] {
        let who = Requester {
            address: address.parse().unwrap(),
            key: None,
            tls: None,
        };
        assert_eq!(access.permit(&zone, who).is_ok(), wanted, "{address}");
    }
}

#[test]
fn an_interface_without_address_is_told_with_its_place() {
    let text = "z:53 {\n file db\n bind nowhere0\n}\n";
    let loaded = parse_text("Corefile", text, &Overrides::default(), &|_| None).unwrap();
    let (listener, blocks) = loaded.config.listeners().remove(0);
    let said = addresses_of(&listener, &blocks, &|_| vec![]).unwrap_err();
    let want = "Corefile:3:2: bind: interface nowhere0 has no address";
    assert!(said.to_string().starts_with(want), "{said}");
}

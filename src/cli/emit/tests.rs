//! The settings of a secondary, from the Corefile.

use directives::config::{Overrides, parse_text};

use super::*;
use crate::emit::Software;

/// The output of `emit` for this software and secondary.
fn printed(lines: &str, software: Software, secondary: Option<&str>) -> Result<Feed, String> {
    let text = format!(
        "cluster.local:5300 10.in-addr.arpa:5300 catalog.invalid:5300 {{\nbind \
         192.0.2.1\nkubernetes\ntsig {{\n secret k. c2VjcmV0\n secret other. b3RoZXI=\n}}\n{lines}\n}}\n"
    );
    let loaded = parse_text("Corefile", &text, &Overrides::default(), &|_| None).unwrap();
    let emission = Emission {
        software,
        secondary: secondary.map(ToOwned::to_owned),
        primary: Vec::new(),
        with_secrets: false,
        no_catalog: false,
        zones_only: false,
        dir: None,
        tls_name: None,
    };
    feed_of(&loaded.config, &emission)
}

/// Names as text.
fn texts(names: &[Name]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn a_secondary_follows_the_zones_whose_transfer_names_it() {
    let lines = "transfer {\n to 192.0.2.9 key k.\n source 192.0.2.2\n}";
    let feed = printed(lines, Software::Bind, None).unwrap();
    assert_eq!(feed.listen, "192.0.2.9:53".parse().unwrap());
    assert_eq!(feed.primaries, ["192.0.2.1:5300".parse().unwrap()]);
    assert_eq!(feed.notifiers, ["192.0.2.2".parse::<IpAddr>().unwrap()]);
    let zones = ["cluster.local.", "catalog.invalid.", "10.in-addr.arpa."];
    assert_eq!(texts(&feed.zones), zones);
    assert_eq!(feed.key.unwrap().secret, PLACEHOLDER);
}

#[test]
fn zones_of_a_catalog_are_left_to_it_where_the_software_reads_it() {
    let lines = "catalog catalog.invalid 10.0.0.0/8\ntransfer {\n to 192.0.2.9 key k.\n}";
    let of = |software| {
        let feed = printed(lines, software, None).unwrap();
        (texts(&feed.catalogs), texts(&feed.zones))
    };
    let own = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    let by_catalog = (own(&["catalog.invalid."]), own(&["cluster.local."]));
    let one_by_one = (own(&[]), own(&["cluster.local.", "10.in-addr.arpa."]));
    assert_eq!(of(Software::Bind), by_catalog);
    assert_eq!(of(Software::Knot), by_catalog);
    assert_eq!(of(Software::Pdns), one_by_one, "with a key");
    assert_eq!(of(Software::Nsd), one_by_one);
}

#[test]
fn who_is_meant_has_to_be_clear() {
    let two = "transfer {\n to 192.0.2.9 key k.\n to 192.0.2.8\n}";
    let of =
        |secondary| printed(two, Software::Bind, secondary).map(|feed| feed.listen.to_string());
    let unclear = of(None).unwrap_err();
    assert!(
        unclear.contains("--secondary") && unclear.contains("192.0.2.8:53"),
        "{unclear}"
    );
    assert_eq!(of(Some("192.0.2.8")).unwrap(), "192.0.2.8:53");
    assert!(
        of(Some("192.0.2.7"))
            .unwrap_err()
            .contains("no secondary 192.0.2.7")
    );
    let of_link = ["[fe80::1%1]:16404", "[fe80::1%7]:16404"].map(|it| it.parse().unwrap());
    let meant = chosen(&of_link, Some("[fe80::1%lo]:16404"));
    assert_eq!(meant, Ok(of_link[0]), "as the Corefile has it");
    let nobody = "transfer {\n allow 192.0.2.9\n}";
    assert!(
        printed(nobody, Software::Bind, None)
            .unwrap_err()
            .contains("names no secondary")
    );
}

#[test]
fn a_coredns_that_no_to_names_gets_the_zones_that_it_may_transfer_without_a_key() {
    let allowed = "catalog catalog.invalid 10.0.0.0/8\ntransfer cluster.local catalog.invalid {\n allow 10.0.0.0/8\n}\n\
                   transfer 10.in-addr.arpa {\n allow 10.0.0.0/8 key k.\n}";
    let feed = printed(allowed, Software::Coredns, None).unwrap();
    assert_eq!(texts(&feed.zones), ["cluster.local."]);
    let text = feed.configuration(Software::Coredns);
    let want = "cluster.local:53 {\n    secondary {\n        transfer from 192.0.2.1:5300\n    }\n    errors\n}\n";
    assert!(text.ends_with(want), "{text}");
    let one = printed(allowed, Software::Coredns, Some("10.0.0.9:5353")).unwrap();
    let text = one.configuration(Software::Coredns);
    assert!(
        text.contains("cluster.local:5353 {\n    bind 10.0.0.9\n"),
        "{text}"
    );
    let stranger = printed(allowed, Software::Coredns, Some("192.0.2.7"));
    assert!(stranger.unwrap_err().contains("names no secondary"));
    // One that `to` names is not asked about by others.
    let both = "transfer {\n to 192.0.2.9\n allow 10.0.0.0/8\n}";
    let named = printed(both, Software::Coredns, None).unwrap();
    assert_eq!(named.listen, "192.0.2.9:53".parse().unwrap());
    let beside = printed(both, Software::Coredns, Some("10.0.0.9")).unwrap();
    assert_eq!(beside.listen, "10.0.0.9:53".parse().unwrap());
}

#[test]
fn a_corefile_without_secondaries_is_told_what_to_add_where() {
    let why = |lines, software| printed(lines, software, None).unwrap_err();
    assert_eq!(
        why("transfer {\n allow 192.0.2.9\n}", Software::Bind),
        "the Corefile names no secondary: add `to ADDRESS key NAME` (or without a key `to ADDRESS`) to transfer in Corefile:8:1"
    );
    assert_eq!(
        why("", Software::Coredns),
        "the Corefile names no secondary: add `transfer { }` to the block in Corefile:1:1, with `to ADDRESS`, or `allow CIDR` for a \
         CoreDNS with changing addresses"
    );
    let keyed = why("transfer {\n allow 10.0.0.0/8 key k.\n}", Software::Coredns);
    assert!(
        keyed.contains("`allow CIDR`") && keyed.ends_with("Corefile:8:1"),
        "{keyed}"
    );
}

#[test]
fn one_secondary_has_one_key() {
    let lines = "transfer cluster.local {\n to 192.0.2.9 key k.\n}\ntransfer 10.in-addr.arpa {\n to \
                 192.0.2.9 key other.\n}";
    let refused = printed(lines, Software::Bind, None).unwrap_err();
    assert!(refused.contains("different keys"), "{refused}");
}

#[test]
fn the_port_is_that_of_the_listener_that_has_the_zone_for_such_transfers() {
    let feed = |keys: &str, to: &str, software, tls_name: Option<&str>| {
        let text = format!(
            "{keys} {{\nbind 192.0.2.1\nkubernetes cluster.local\ntls a b c {{\n client_auth verify_if_given\n}}\ntransfer {{\n to 192.0.2.9 {to}\n}}\n}}\n"
        );
        let loaded = parse_text("Corefile", &text, &Overrides::default(), &|_| None).unwrap();
        let emission = Emission {
            software,
            secondary: None,
            primary: Vec::new(),
            with_secrets: false,
            no_catalog: false,
            zones_only: false,
            dir: None,
            tls_name: tls_name.map(ToOwned::to_owned),
        };
        feed_of(&loaded.config, &emission).map(|feed| (feed.primaries, feed.tls))
    };
    let at = |port| vec![SocketAddr::new([192, 0, 2, 1].into(), port)];
    let over = |own: Option<&str>| {
        let own = own.map(ToOwned::to_owned);
        let name = "ns.example".to_owned();
        Some(FeedTls { name, own })
    };
    let mixed = "tls://cluster.local:853 example.org:54 cluster.local:5300";
    let alone = "tls://cluster.local:853";
    let (bind, name) = (Software::Bind, Some("ns.example"));
    assert_eq!(feed(mixed, "", bind, None), Ok((at(5300), None)));
    assert_eq!(feed(mixed, "tls", bind, name), Ok((at(853), over(None))));
    assert_eq!(feed(alone, "", bind, name), Ok((at(853), over(None))));
    let named = feed(mixed, "tls friend.example", Software::Nsd, name);
    assert_eq!(named, Ok((at(853), over(Some("friend.example")))));
    let elsewhere = "tls://example.org:853 cluster.local:5300";
    let refused = feed(elsewhere, "tls", bind, name).unwrap_err();
    assert!(
        refused.contains("no key with tls:// matches it"),
        "{refused}"
    );
    for (software, name, why) in [
        (bind, None, "--tls-name"),
        (
            Software::Knot,
            name,
            "which emit cannot write for Knot DNS: no version that the tests run can do it",
        ),
        (Software::Unbound, name, "it sends no ALPN token"),
    ] {
        for (keys, to) in [(mixed, "tls"), (alone, "")] {
            let error = feed(keys, to, software, name).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}

//! Tests of the keys of server blocks, and of listeners.

use dns::Name;

use crate::config::tests::{check_problems, config, keys, warnings};
use crate::config::{Overrides, parse_text};

#[test]
fn the_port_belongs_to_its_own_key() {
    assert_eq!(
        keys("a b:5353 dns://C.Org:54 {\n}\n"),
        [["a.:53", "b.:5353", "c.org.:54"]]
    );
}

#[test]
fn a_written_port_is_not_overridden() {
    let overrides = Overrides { default_port: 1053 };
    let loaded = parse_text("Corefile", "a b:53", &overrides, &|_| None).unwrap();
    let ports: Vec<_> = loaded.config.servers[0]
        .zones
        .iter()
        .map(|key| key.port)
        .collect();
    assert_eq!(ports, [1053, 53]);
}

#[test]
fn what_is_no_zone_is_refused() {
    for (key, want) in [
        ("foo:", "'foo:' has no port after its last colon; "),
        (
            ".:abc",
            "the port of '.:abc' is not a number from 0 to 65535; ",
        ),
        (
            ".:70000",
            "the port of '.:70000' is not a number from 0 to 65535; ",
        ),
        (":53", "not a domain name: a name is missing; "),
        ("a..b", "not a domain name: \"a..b\" has an empty label; "),
        // CoreDNS makes forward zones of these ranges.
        (
            "10.0.0.0/33",
            "'10.0.0.0/33' is not an address range such as 10.0.0.0/8",
        ),
        (
            "10.0.0/8:53",
            "'10.0.0/8:53' is not an address range such as 10.0.0.0/8",
        ),
        ("http://.:1053", "unknown scheme in 'http://.:1053'; "),
        // CoreDNS accepts it and serves nothing.
        (
            "unix:///run/x",
            "unix://: not supported: queries are answered over UDP, TCP, TLS, HTTPS and QUIC; ",
        ),
        (
            "tls://.",
            "tls:// needs a certificate; write in this block: tls CERT KEY",
        ),
        (
            "https://example.org:443",
            "https:// needs a certificate; write in this block: tls CERT KEY",
        ),
        (
            "quic://.",
            "quic:// needs a certificate; write in this block: tls CERT KEY",
        ),
        ("::/0", "invalid range '::/0'; "),
        ("0::/4", "invalid range '0::/4'; "),
    ] {
        check_problems(
            &format!("{key} {{\n}}\n"),
            &[&format!("Corefile:1:1: {want}")],
        );
    }
}

#[test]
fn the_longest_name_is_the_longest_key() {
    let labels = [
        &"a".repeat(63)[..],
        &"b".repeat(63),
        &"c".repeat(63),
        &"d".repeat(61),
    ];
    let long = labels.join(".");
    assert_eq!(long.len(), 253);
    assert_eq!(keys(&long), [[format!("{long}.:53")]]);
    check_problems(&format!("{long}d"), &["Corefile:1:1: not a domain name: "]);
}

#[test]
fn odd_names_are_served_with_a_warning() {
    assert_eq!(keys("foo_bar.test"), [["foo_bar.test.:53"]]);
    assert_eq!(keys("@"), [["\\@.:53"]]);
    assert_eq!(
        keys("0/25.2.0.192.in-addr.arpa"),
        [["0/25.2.0.192.in-addr.arpa.:53"]]
    );
    assert_eq!(
        warnings("foo_bar.test"),
        [
            "Corefile:1:1: 'foo_bar.test' has characters other than letters, digits and hyphens; check that it is intended (RFC 1035 section 2.3.1)"
        ]
    );
    assert_eq!(warnings("10.0.0.0").len(), 1);
    assert_eq!(warnings("a-1.example.org . 10.in-addr.arpa"), [""; 0]);
}

#[test]
fn ranges_become_reverse_zones() {
    for (key, want) in [
        (
            "10.0.0.0/15",
            vec!["0.10.in-addr.arpa.:53", "1.10.in-addr.arpa.:53"],
        ),
        ("0.0.0.0/0:54", vec!["in-addr.arpa.:54"]),
        ("192.0.2.1/32", vec!["1.2.0.192.in-addr.arpa.:53"]),
        ("2001:db8::/32:5353", vec!["8.b.d.0.1.0.0.2.ip6.arpa.:5353"]),
        (
            "2001:db8::/31",
            vec![
                "8.b.d.0.1.0.0.2.ip6.arpa.:53",
                "9.b.d.0.1.0.0.2.ip6.arpa.:53",
            ],
        ),
    ] {
        assert_eq!(keys(key), [want], "{key}");
    }
    assert_eq!(keys("10.0.0.0/17")[0].len(), 128);
    assert_eq!(keys("10.1.2.0/27")[0].len(), 32);
}

#[test]
fn a_process_has_one_state_folder() {
    check_problems("a {\n state /s\n}\nb {\n state /s\n}\n", &[]);
    check_problems(
        "a {\n state /s\n}\nb {\n state /t\n}\n",
        &[
            "Corefile:5:2: state: /t is named here, and /s in Corefile:2:2; name one folder: the process has one",
        ],
    );
    let config = config("a {\n log\n}\nb {\n state /s\n}\n");
    assert_eq!(config.state_folder(), Some(std::path::Path::new("/s")));
}

#[test]
fn a_zone_stands_once_on_a_listener() {
    check_problems(
        ". {\n}\n.:53 {\n}\n",
        &[
            "Corefile:3:1: .:53 is already served, see Corefile:1; remove one, or bind the two blocks",
        ],
    );
    check_problems(
        "a A {\n}\n",
        &["Corefile:1:3: a.:53 is already served, see Corefile:1; "],
    );
    check_problems(
        "10.0.0.0/15 1.10.in-addr.arpa",
        &["Corefile:1:13: 1.10.in-addr.arpa.:53 is already served, see Corefile:1; "],
    );
    check_problems(
        ". {\n bind 127.0.0.1\n}\n. {\n bind 127.0.0.2 127.0.0.1\n}\n",
        &["Corefile:4:1: .:53 on 127.0.0.1 is already served, see Corefile:1; "],
    );
}

#[test]
fn a_zone_is_not_both_bound_and_unbound() {
    check_problems(
        ".:1053 {\n bind 127.0.0.1\n}\n.:1053 {\n}\n",
        &["Corefile:4:1: .:1053 is already served on one address, see Corefile:1; "],
    );
    check_problems(
        ". {\n}\n. {\n bind 127.0.0.1\n}\n",
        &["Corefile:3:1: .:53 on 127.0.0.1 is already served on all addresses, see Corefile:1; "],
    );
}

#[test]
fn a_zone_may_stand_on_other_addresses_and_ports() {
    let text = "a {\n bind 127.0.0.1\n}\na {\n bind 127.0.0.2 lo\n}\na:54 b {\n}\n";
    let config = config(text);
    let shown: Vec<_> = config
        .listeners()
        .iter()
        .map(|(listener, blocks)| {
            let host = listener
                .host
                .as_ref()
                .map_or("*".to_owned(), ToString::to_string);
            format!("{host}:{} {}", listener.port, blocks.len())
        })
        .collect();
    assert_eq!(
        shown,
        [
            "127.0.0.1:53 1",
            "127.0.0.2:53 1",
            "lo:53 1",
            "*:54 1",
            "*:53 1"
        ]
    );
}

#[test]
fn blocks_of_one_listener_stand_together() {
    let config = config("a {\n}\nb:53 c:54 {\n}\n");
    let listeners = config.listeners();
    let blocks: Vec<_> = listeners
        .iter()
        .map(|(l, blocks)| (l.port, blocks.len()))
        .collect();
    assert_eq!(blocks, [(53, 2), (54, 1)]);
}

#[test]
fn a_zone_has_one_content() {
    let first = "a {\n kubernetes {\n ttl 7\n }\n}\n";
    check_problems(
        &format!("{first}a:54 {{\n kubernetes\n}}\n"),
        &[
            "Corefile:7:2: the kubernetes at Corefile:2:2 writes a. differently; a zone has one content",
        ],
    );
    let config = config(&format!(
        "{first}a:54 {{\n kubernetes {{\n ttl 7\n }}\n}}\nb\n"
    ));
    assert_eq!(config.blocks_of(&Name::parse("A.").unwrap()).count(), 2);
    assert_eq!(config.blocks_of(&Name::parse("b.").unwrap()).count(), 0);
}

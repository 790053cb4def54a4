//! Tests of `hosts`: names and addresses, patterns, files that change.

use std::path::Path;
use std::sync::Arc;

use server::testing::{Counting, ask, chain};

use super::*;
use crate::config::handler_metrics;

/// The handler of a block `{ hosts FILE { LINES } }`.
fn hosts(file: &Path, lines: &str) -> HostsHandler {
    let text = format!(
        "t u ip6.arpa {{\n hosts {} t u {{\n{lines}\n }}\n forward . 192.0.2.1\n}}\n",
        file.display()
    );
    let overrides = crate::config::Overrides::default();
    let loaded = crate::config::parse_text("Corefile", &text, &overrides, &|_| None).unwrap();
    let block = &loaded.config.servers[0];
    HostsHandler::new(block.get::<Hosts>().unwrap().clone(), &handler_metrics())
}

#[test]
fn names_and_addresses_are_answered_both_ways() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hosts");
    let text = "10.0.0.1 a.t b.t other.v # c.t\nfe80::1%eth0 a.t\n\nnonsense x.t\n10.0.0.9 *.w.t\n";
    std::fs::write(&file, text).unwrap();
    let server = chain(
        vec![Arc::new(hosts(&file, "10.0.0.2 A.t\nttl 60"))],
        vec![Arc::new(Counting::default())],
    );
    for (question, want) in [
        (
            "A.t. A",
            "NOERROR | A.t. 60 IN A 10.0.0.1 A.t. 60 IN A 10.0.0.2",
        ),
        ("a.t. AAAA", "NOERROR | a.t. 60 IN AAAA fe80::1"),
        ("b.t. AAAA", "NOERROR"),
        ("b.t. TXT", "NOERROR"),
        ("c.t. A", "SERVFAIL: -"),
        ("x.w.t. A", "NOERROR | x.w.t. 60 IN A 10.0.0.9"),
        ("y.x.w.t. A", "SERVFAIL: -"),
        (
            "1.0.0.10.in-addr.arpa. PTR",
            "NOERROR | 1.0.0.10.in-addr.arpa. 60 IN PTR a.t. 1.0.0.10.in-addr.arpa. 60 IN PTR b.t.",
        ),
        (
            "9.0.0.10.in-addr.arpa. PTR",
            "NOERROR | 9.0.0.10.in-addr.arpa. 300 IN A 10.0.0.1",
        ),
        ("other.v. A", "NOERROR | other.v. 300 IN A 10.0.0.2"),
    ] {
        assert_eq!(ask(&server, question), want, "{question}");
    }
}

#[test]
fn unknown_names_and_types_go_on_where_it_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let none = folder.path().join("none");
    let lines = "10.0.0.1 a.t\nfallthrough t\nfallthrough_unsupported\nno_reverse";
    let server = chain(
        vec![Arc::new(hosts(&none, lines))],
        vec![Arc::new(Counting::default())],
    );
    for (question, want) in [
        ("x.t. A", "NOERROR | x.t. 300 IN A 10.0.0.1"),
        ("x.u. A", "SERVFAIL: -"),
        ("a.t. TXT", "NOERROR | a.t. 300 IN A 10.0.0.2"),
        ("a.t. AAAA", "NOERROR"),
        (
            "1.0.0.10.in-addr.arpa. PTR",
            "NOERROR | 1.0.0.10.in-addr.arpa. 300 IN A 10.0.0.3",
        ),
    ] {
        assert_eq!(ask(&server, question), want, "{question}");
    }
}

#[test]
fn a_file_that_changes_is_read_again_and_one_that_goes_stays() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hosts");
    let hosts = hosts(&file, "");
    let name: Name = "a.t.".parse().unwrap();
    assert!(hosts.addresses(name.as_wire(), false).is_empty());
    std::fs::write(&file, "10.0.0.1 a.t\n").unwrap();
    hosts.look();
    assert_eq!(hosts.addresses(name.as_wire(), false).len(), 1);
    std::fs::write(&file, "10.0.0.1 a.t\n10.0.0.22 a.t\n").unwrap();
    hosts.look();
    assert_eq!(hosts.addresses(name.as_wire(), false).len(), 2);
    std::fs::remove_file(&file).unwrap();
    hosts.look();
    assert_eq!(hosts.addresses(name.as_wire(), false).len(), 2);
}

#[test]
fn a_name_that_no_table_has_passes_where_it_falls_through() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hosts");
    std::fs::write(&file, "10.0.0.1 a.t\n10.0.0.9 *.w.t\n").unwrap();
    let passes = |hosts: &HostsHandler, name: &str| {
        let name: Name = name.parse().unwrap();
        hosts.passes(&Question {
            name: name.to_lower().as_wire(),
            qtype: Rtype::A,
            qclass: CLASS_IN,
            dnssec_ok: false,
            client: "192.0.2.1:1".parse().unwrap(),
        })
    };
    let through = hosts(&file, "10.0.0.2 b.t\nfallthrough t");
    for (name, want) in [
        ("A.t.", false),
        ("b.t.", false),
        ("x.w.t.", false),
        ("y.x.w.t.", true),
        ("w.t.", true),
        ("c.t.", true),
        ("c.u.", false),
        ("c.v.", true),
    ] {
        assert_eq!(passes(&through, name), want, "{name}");
    }
    assert!(!passes(&hosts(&file, ""), "c.t."));
}

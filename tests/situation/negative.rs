//! Situations 38 to 56: what is not there, other types, the apex, pods.

use super::site::{Site, objects};
use crate::support::wire::{self, Query};

#[test]
fn s38_levels_of_names_are_nodata() {
    let site = Site::with("pods verified");
    site.check_all(
        &[
            "svc.cluster.local. A",
            "pod.cluster.local. A",
            "testns.svc.cluster.local. A",
        ],
        "NODATA",
    );
    // Nothing is below these, so that a secondary cannot know them.
    site.check_meant("empty", "nsnoservices.svc.cluster.local. A", "NXDOMAIN");
    Site::plain().check_meant("empty", "pod.cluster.local. A", "NXDOMAIN");
}

#[test]
fn s39_ns_at_levels_of_names_is_nodata() {
    Site::plain().check_all(
        &["svc.cluster.local. NS", "testns.svc.cluster.local. NS"],
        "NODATA",
    );
}

#[test]
fn s40_ns_at_names_that_are_not_there_is_nxdomain() {
    Site::plain().check_all(
        &["foo.cluster.local. NS", "foo.svc.cluster.local. NS"],
        "NXDOMAIN",
    );
}

#[test]
fn s41_soa_at_a_service_is_nodata() {
    let site = Site::plain();
    site.check("svc1 SOA", "NODATA");
    site.check_meant("types", "bogusservice SOA", "NXDOMAIN");
}

#[test]
fn s42_the_version_of_the_specification() {
    let site = Site::plain();
    site.check(
        "dns-version.cluster.local. TXT",
        "dns-version.cluster.local. 28800 TXT \"1.1.0\"",
    );
    site.check_meant("types", "dns-version.cluster.local. A", "NODATA");
    site.check_meant("reverse", "dns-version.10.in-addr.arpa. TXT", "NXDOMAIN");
}

#[test]
fn s43_txt_at_a_service_and_at_nothing() {
    let site = Site::plain();
    site.check_all(&["svc1 TXT", "hdls1 TXT"], "NODATA");
    site.check("bogusservice TXT", "NXDOMAIN");
    site.check_meant("types", "svc.cluster.local. TXT", "NODATA");
    site.check_meant(
        "alias-types",
        "external TXT",
        "external CNAME ext.interwebs.test.",
    );
}

#[test]
fn s44_the_apex_has_soa_and_no_addresses() {
    let site = Site::plain();
    let reply = site.ask("cluster.local. SOA");
    let words: Vec<&str> = reply.answers[0].data.split(' ').collect();
    assert_eq!(
        words[..2],
        ["ns.dns.cluster.local.", "hostmaster.cluster.local."]
    );
    // The difference `soa`: CoreDNS has 7200 and 1800.
    assert_eq!(words[3..], ["300", "30", "86400", "5"]);
    let questions =
        ["HINFO", "A", "AAAA", "SRV", "TXT"].map(|qtype| format!("cluster.local. {qtype}"));
    for question in questions {
        site.check(&question, "NODATA");
    }
}

#[test]
fn s45_without_a_service_in_front_the_name_server_is_ns_dns() {
    let wanted = "cluster.local. NS ns.dns.cluster.local.\n+ ns.dns.cluster.local. A 127.0.0.1";
    Site::plain().check_meant("ns", "cluster.local. NS", wanted);
}

#[test]
fn s49_ns_dns_has_the_families_we_listen_on() {
    let site = Site::plain();
    site.check(
        "ns.dns.cluster.local. A",
        "ns.dns.cluster.local. A 127.0.0.1",
    );
    site.check("ns.dns.cluster.local. AAAA", "NODATA");
    let zones = "cluster.local";
    let both = Site::of(zones, &objects(), "", "bind 127.0.0.1 ::1");
    both.check(
        "ns.dns.cluster.local. AAAA",
        "ns.dns.cluster.local. AAAA ::1",
    );
}

/// The reply says the question's name as it was asked: owners are compressed to it.
#[test]
fn s50_the_case_of_the_question_stays() {
    let site = Site::plain();
    let ask = |name: &str, qtype: u16| {
        wire::udp_octets(site.address, &Query::new(name, qtype).encode()).unwrap()
    };
    let has = |octets: &[u8], label: &str| {
        octets
            .windows(label.len())
            .any(|part| part == label.as_bytes())
    };
    for (name, qtype, label) in [
        ("SvC1.TeStNs.SvC.cLuStEr.LoCaL", wire::A, "SvC1"),
        ("bOgUs.TeStNs.SvC.cLuStEr.LoCaL", wire::A, "bOgUs"),
        (
            "_HtTp._TcP.sVc1.TeStNs.SvC.cLuStEr.LoCaL",
            wire::SRV,
            "_HtTp",
        ),
        ("cLuStEr.LoCaL", wire::SOA, "cLuStEr"),
    ] {
        assert!(has(&ask(name, qtype), label), "{name}");
    }
    site.check("SvC1.TeStNs.SvC.cLuStEr.LoCaL. A", "svc1 A 10.0.0.1");
    let wanted = "cluster.local. NS ns.dns.cluster.local.\n+ ns.dns.cluster.local. A 127.0.0.1";
    site.check_meant("case", "cLuStEr.LoCaL. NS", wanted);
}

/// An API server that nobody is: nothing was ever listed.
#[test]
fn s51_before_everything_was_listed_a_name_is_servfail() {
    let nobody = crate::support::ports::free_address();
    let mut site = Site::unsynced(&format!("endpoint http://{nobody}"));
    site.wait("an answer", |view| {
        wire::udp(view.address, &Query::new("cluster.local", wire::A))
            .ok()
            .map(|_| ())
    });
    // The difference `unsynced`: CoreDNS adds an SOA.
    site.check_meant("unsynced", "svc1 A", "SERVFAIL");
    let reply = site.ask("bogusservice A");
    assert!(reply.authority.is_empty(), "{reply:?}");
}

#[test]
fn s52_pods_disabled() {
    Site::plain().check_all(
        &[
            "10-240-0-1.testns.pod.cluster.local. A",
            "testns.pod.cluster.local. A",
        ],
        "NXDOMAIN",
    );
}

#[test]
fn s53_pods_insecure_answer_for_any_address() {
    let site = Site::with("pods insecure");
    for (label, address) in [("10-240-0-1", "10.240.0.1"), ("172-0-0-2", "172.0.0.2")] {
        let name = format!("{label}.testns.pod.cluster.local.");
        site.check(&format!("{name} A"), &format!("{name} A {address}"));
    }
}

#[test]
fn s54_pods_insecure_know_no_other_names() {
    let site = Site::with("pods insecure");
    for qtype in ["A", "AAAA", "HINFO"] {
        site.check(
            &format!("blah.testns.pod.cluster.local. {qtype}"),
            "NXDOMAIN",
        );
    }
    site.check("10-240-0-1.bogusns.pod.cluster.local. A", "NXDOMAIN");
}

#[test]
fn s55_a_namespace_of_pods_is_nodata() {
    for mode in ["insecure", "verified"] {
        Site::with(&format!("pods {mode}")).check("testns.pod.cluster.local. A", "NODATA");
    }
}

#[test]
fn s56_pods_verified_answer_for_pods() {
    let site = Site::with("pods verified");
    let name = "10-240-0-1.testns.pod.cluster.local.";
    site.check(&format!("{name} A"), &format!("{name} A 10.240.0.1"));
    site.check_meant("pod-srv", &format!("{name} SRV"), "NODATA");
    site.check_meant("lenient", &format!("x.{name} A"), "NXDOMAIN");
    site.check_all(
        &[
            "172-0-0-2.testns.pod.cluster.local. A",
            "10-240-0-1.bogusns.pod.cluster.local. A",
        ],
        "NXDOMAIN",
    );
}

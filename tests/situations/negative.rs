//! Situations 38 to 56: missing names, other types, the apex, pods.

use super::site::{Site, objects, rendered, service, slice};
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

/// A Service of the namespace `kube-system` that leads to 192.0.2.1, of this name, and its slice.
fn front(name: &str, spec: &str) -> String {
    let text = service(
        name,
        &format!("{spec}, ports: [{{name: dns, protocol: UDP, port: 53}}]"),
    ) + &slice(
        &format!("{name}-1"),
        name,
        "IPv4",
        "{addresses: [192.0.2.1]}",
        "{name: dns, protocol: UDP, port: PORT}",
    );
    text.replace("namespace: testns", "namespace: kube-system")
}

/// The namespace of Services in front of us.
const SYSTEM: &str = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: kube-system}\n";

/// The NS of the zone and of a reverse zone, and the records at these names.
fn front_of(more: &str) -> Vec<String> {
    let zones = "cluster.local 10.in-addr.arpa";
    let objects = objects() + SYSTEM + more;
    let mut lines = rendered(zones, &objects, zones, "");
    lines.retain(|line| {
        line.contains(" IN NS ") || line.starts_with("ns.dns.") || line.contains(".kube-system.")
    });
    lines.retain(|line| !line.contains(" IN SRV ") && !line.contains(" IN PTR "));
    lines
}

#[test]
fn s46_the_service_in_front_is_the_name_server() {
    let name = "kube-dns.kube-system.svc.cluster.local.";
    let found = front_of(&front("kube-dns", "clusterIPs: [10.0.0.10]"));
    for wanted in [
        format!("cluster.local. 5 IN NS {name}"),
        format!("{name} 5 IN A 10.0.0.10"),
        "ns.dns.cluster.local. 5 IN A 10.0.0.10".to_owned(),
        // The difference `ns`: CoreDNS names one that does not exist.
        format!("10.in-addr.arpa. 5 IN NS {name}"),
    ] {
        assert!(found.contains(&wanted), "{wanted}: {found:#?}");
    }
    assert_eq!(
        found.iter().filter(|line| line.contains(" IN NS ")).count(),
        2,
        "{found:#?}"
    );
}

#[test]
fn s47_three_services_in_front_are_three_name_servers() {
    let found = front_of(
        &(front("dns-four", "clusterIPs: [10.0.6.1]")
            + &front("dns-crowd", "clusterIP: None")
            + &front("dns-six", "clusterIPs: [\"fd00::53\"]")),
    );
    for (label, address) in [
        ("dns-four", "A 10.0.6.1"),
        ("192-0-2-1.dns-crowd", "A 192.0.2.1"),
        ("dns-six", "AAAA fd00::53"),
    ] {
        let name = format!("{label}.kube-system.svc.cluster.local.");
        for wanted in [
            format!("cluster.local. 5 IN NS {name}"),
            format!("{name} 5 IN {address}"),
        ] {
            assert!(found.contains(&wanted), "{wanted}: {found:#?}");
        }
    }
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

/// The reply has the question's name in its own letters: owners are compressed to it.
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

/// No API server is at this address, so nothing was ever listed.
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

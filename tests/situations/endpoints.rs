//! Situations 21 to 37: headless Services, endpoints, aliases.

use super::site::{HTTP, Site, objects, service, slice};
use crate::support::upstream::Upstream;
use crate::support::wire::{self, Message, Query, Record};

#[test]
fn s21_a_headless_service_has_its_endpoints_addresses() {
    let site = Site::plain();
    let wanted = "hdls1 A 172.0.0.2\nhdls1 A 172.0.0.3\nhdls1 A 172.0.0.4\nhdls1 A 172.0.0.5";
    site.check("hdls1 A", wanted);
    site.check(
        "hdls1 AAAA",
        "hdls1 AAAA 5678:abcd::1\nhdls1 AAAA 5678:abcd::2",
    );
}

#[test]
fn s22_a_headless_service_without_ports_has_addresses() {
    let site = Site::plain();
    site.check("hdlsprtls A", "hdlsprtls A 172.0.0.20");
    site.check(
        "172-0-0-20.hdlsprtls A",
        "172-0-0-20.hdlsprtls A 172.0.0.20",
    );
    site.check("hdlsprtls SRV", "NODATA");
}

#[test]
fn s23_an_endpoint_is_called_after_its_ipv4_address() {
    Site::plain().check("172-0-0-2.hdls1 A", "172-0-0-2.hdls1 A 172.0.0.2");
}

#[test]
fn s24_an_endpoint_is_called_after_its_ipv6_address() {
    Site::plain().check(
        "5678-abcd--1.hdls1 AAAA",
        "5678-abcd--1.hdls1 AAAA 5678:abcd::1",
    );
}

#[test]
fn s25_endpoints_of_one_host_name_share_it() {
    Site::plain().check(
        "dup-name.hdls1 A",
        "dup-name.hdls1 A 172.0.0.4\ndup-name.hdls1 A 172.0.0.5",
    );
}

#[test]
fn s26_an_unknown_endpoint_is_nxdomain() {
    Site::plain().check_all(
        &[
            "bogus.hdls1 A",
            "bogus.bogusservice A",
            "172-0-0-99.hdls1 A",
        ],
        "NXDOMAIN",
    );
}

#[test]
fn s27_endpoints_of_a_cluster_ip_service_have_names() {
    Site::plain().check("ep1a.svc1 A", "ep1a.svc1 A 172.0.0.1");
}

#[test]
fn s28_a_headless_service_without_ready_endpoints_is_nxdomain() {
    Site::plain().check_all(&["hdlsunready A", "172-0-0-30.hdlsunready A"], "NXDOMAIN");
}

#[test]
fn s29_without_endpoints_headless_services_are_nxdomain() {
    let site = Site::with("noendpoints");
    site.check_all(&["hdls1 A", "dup-name.hdls1 A"], "NXDOMAIN");
    site.check("svc1 A", "svc1 A 10.0.0.1");
}

/// Endpoints with and without host name and pod name, one with an address that ends in `::`.
fn named() -> String {
    let pod = |name: &str| format!("targetRef: {{kind: Pod, namespace: testns, name: {name}}}");
    let long = "p".repeat(64);
    let v4 = format!(
        "{{addresses: [172.0.1.1]}}, {{addresses: [172.0.1.2], hostname: host, {}}}, {{addresses: [172.0.1.3], {}}}, \
         {{addresses: [172.0.1.4], {}}}",
        pod("unused"),
        pod("pod-3"),
        pod(&long)
    );
    service("named", &format!("clusterIP: None, ports: [{HTTP}]"))
        + &slice("named-1", "named", "IPv4", &v4, HTTP)
        + &slice(
            "named-2",
            "named",
            "IPv6",
            "{addresses: [\"fd00:6666::\"]}",
            HTTP,
        )
}

#[test]
fn s30_host_name_before_pod_name_before_address() {
    let site = Site::and(&named());
    for (label, address) in [
        ("172-0-1-1", "172.0.1.1"),
        ("host", "172.0.1.2"),
        ("172-0-1-3", "172.0.1.3"),
    ] {
        site.check(
            &format!("{label}.named A"),
            &format!("{label}.named A {address}"),
        );
    }
    site.check(
        "fd00-6666--0.named AAAA",
        "fd00-6666--0.named AAAA fd00:6666::",
    );
    site.check_all(
        &["172-0-1-2.named A", "unused.named A", "pod-3.named A"],
        "NXDOMAIN",
    );
}

/// With `endpoint_pod_names`.
fn with_pod_names() -> Site {
    let zones = "cluster.local 172.in-addr.arpa";
    Site::of(zones, &(objects() + &named()), "endpoint_pod_names", "")
}

#[test]
fn s31_endpoints_are_called_after_their_pods() {
    let site = with_pod_names();
    site.check("pod-3.named A", "pod-3.named A 172.0.1.3");
    site.check("host.named A", "host.named A 172.0.1.2");
    let targets = site.ask("_http._tcp.named SRV");
    let name = " pod-3.named.testns.svc.cluster.local.";
    assert!(
        targets
            .answers
            .iter()
            .any(|record| record.data.ends_with(name)),
        "{targets:?}"
    );
    assert!(
        targets
            .additional
            .iter()
            .any(|record| record.data == "172.0.1.3"),
        "{targets:?}"
    );
}

#[test]
fn s32_a_pod_s_name_that_is_no_label_gives_way_to_the_address() {
    let site = with_pod_names();
    site.check("172-0-1-4.named A", "172-0-1-4.named A 172.0.1.4");
    site.check("172-0-1-3.named A", "NXDOMAIN");
}

#[test]
fn s33_an_alias_is_a_cname() {
    Site::plain().check("external CNAME", "external CNAME ext.interwebs.test.");
}

#[test]
fn s35_an_alias_of_a_service_brings_its_address() {
    let wanted = "external-to-service CNAME svc1\nsvc1 A 10.0.0.1";
    Site::plain().check("external-to-service A", wanted);
}

/// The objects and an alias that leads out of the cluster, which an upstream knows.
fn with_upstream(target: &str) -> (Site, Upstream) {
    let upstream = Upstream::start(1, "ok");
    let spec = format!("type: ExternalName, externalName: {target}");
    let objects = objects() + &service("away", &spec);
    let beside = format!(
        "bind 127.0.0.1\n}}\n.:PORT {{\n bind 127.0.0.1\n forward . {}",
        upstream.address
    );
    (Site::of("cluster.local", &objects, "", &beside), upstream)
}

#[test]
fn s34_a_truncated_answer_of_the_upstream_is_truncated_with_the_alias() {
    let (site, _upstream) = with_upstream("tcset.test");
    let query = Query::new("away.testns.svc.cluster.local.", wire::A);
    let texts = |reply: &Message| reply.answers.iter().map(Record::text).collect::<Vec<_>>();
    let alias = "away.testns.svc.cluster.local. 5 IN CNAME tcset.test.";
    let quick = wire::udp(site.address, &query).unwrap();
    let wanted = [alias, "tcset.test. 300 IN A 10.1.2.8"];
    assert_eq!(
        (texts(&quick), quick.is_truncated()),
        (wanted.map(str::to_owned).into(), true)
    );
    let whole = wire::tcp(site.address, &query).unwrap();
    let wanted = [alias, "tcset.test. 300 IN A 10.1.2.9"];
    assert_eq!(
        (texts(&whole), whole.is_truncated()),
        (wanted.map(str::to_owned).into(), false)
    );
}

#[test]
fn s37_an_alias_that_leads_out_stands_before_the_address() {
    let (site, _upstream) = with_upstream("a.test");
    let reply = site.ask("away A");
    let texts: Vec<String> = reply.answers.iter().map(Record::text).collect();
    let alias = "away.testns.svc.cluster.local. 5 IN CNAME a.test.";
    assert_eq!(texts, [alias, "a.test. 300 IN A 10.1.2.3"]);
}

#[test]
fn s36_nothing_is_below_an_alias() {
    Site::plain().check_all(&["ep.external A", "_http._tcp.external SRV"], "NXDOMAIN");
}

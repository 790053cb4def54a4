//! Situations 1 to 20: addresses and SRV of Services.

use super::site::{HTTP, Site, service, slice};

#[test]
fn s01_a_service_has_its_cluster_ip() {
    Site::plain().check("svc1 A", "svc1 A 10.0.0.1");
}

#[test]
fn s02_a_service_without_endpoints_has_its_cluster_ip() {
    Site::plain().check("svcempty A", "svcempty A 10.0.0.2");
}

#[test]
fn s03_a_service_of_the_other_family_is_nodata() {
    Site::plain().check("svc1 AAAA", "NODATA");
}

#[test]
fn s04_an_ipv6_service_has_its_cluster_ip() {
    Site::plain().check("svc6 AAAA", "svc6 AAAA 1234:abcd::1");
}

#[test]
fn s05_a_dual_stack_service_has_each_family_by_itself() {
    let site = Site::plain();
    site.check("svc-dual-stack A", "svc-dual-stack A 10.0.0.3");
    site.check("svc-dual-stack AAAA", "svc-dual-stack AAAA 10::3");
}

#[test]
fn s06_an_unknown_service_is_nxdomain() {
    Site::plain().check_all(&["bogusservice A", "bogusservice AAAA"], "NXDOMAIN");
}

#[test]
fn s07_a_service_in_an_unknown_namespace_is_nxdomain() {
    Site::plain().check("svc1.bogusns.svc.cluster.local. A", "NXDOMAIN");
}

#[test]
fn s08_a_namespace_that_is_allowed_and_absent_is_nxdomain() {
    let site = Site::with("namespaces testns absent");
    site.check_all(
        &[
            "svc1.absent.svc.cluster.local. A",
            "absent.svc.cluster.local. A",
        ],
        "NXDOMAIN",
    );
    site.check("svc1 A", "svc1 A 10.0.0.1");
}

#[test]
fn s09_without_namespaces_all_answer() {
    let site = Site::plain();
    site.check("svc1 A", "svc1 A 10.0.0.1");
    let other = "svc1.unexposed.svc.cluster.local.";
    site.check(&format!("{other} A"), &format!("{other} A 10.0.1.1"));
}

#[test]
fn s10_a_service_made_later_appears_with_its_endpoints() {
    let mut site = Site::plain();
    site.check("later A", "NXDOMAIN");
    let text = service("later", &format!("clusterIPs: [10.0.0.9], ports: [{HTTP}]"))
        + &slice("later-1", "later", "IPv4", "{addresses: [172.0.0.9]}", HTTP);
    site.write("later.yaml", &text);
    site.wait_for("172-0-0-9.later A");
    site.check("later A", "later A 10.0.0.9");
    site.check("172-0-0-9.later A", "172-0-0-9.later A 172.0.0.9");
}

#[test]
fn s11_an_empty_service_that_is_ignored_is_nxdomain() {
    let site = Site::with("ignore empty_service");
    site.check("svcempty A", "NXDOMAIN");
    site.check("svc1 A", "svc1 A 10.0.0.1");
}

#[test]
fn s12_an_alias_is_not_empty() {
    let site = Site::with("ignore empty_service");
    site.check("external CNAME", "external CNAME ext.interwebs.test.");
}

#[test]
fn s13_srv_at_the_service_s_name() {
    Site::plain().check("svc1 SRV", "svc1 SRV 0 100 80 svc1\n+ svc1 A 10.0.0.1");
}

#[test]
fn s14_srv_of_a_service_without_endpoints() {
    let site = Site::plain();
    site.check(
        "svcempty SRV",
        "svcempty SRV 0 100 80 svcempty\n+ svcempty A 10.0.0.2",
    );
    let wanted = "_http._tcp.svcempty SRV 0 100 80 svcempty\n+ svcempty A 10.0.0.2";
    site.check("_http._tcp.svcempty SRV", wanted);
}

#[test]
fn s15_srv_of_an_ipv6_service() {
    let site = Site::plain();
    site.check(
        "svc6 SRV",
        "svc6 SRV 0 100 80 svc6\n+ svc6 AAAA 1234:abcd::1",
    );
    let wanted = "_http._tcp.svc6 SRV 0 100 80 svc6\n+ svc6 AAAA 1234:abcd::1";
    site.check("_http._tcp.svc6 SRV", wanted);
}

#[test]
fn s16_srv_at_the_port_s_name() {
    let wanted = "_http._tcp.svc1 SRV 0 100 80 svc1\n+ svc1 A 10.0.0.1";
    Site::plain().check("_http._tcp.svc1 SRV", wanted);
}

#[test]
fn s17_srv_of_a_dual_stack_service_stands_once() {
    let wanted = "svc-dual-stack SRV 0 100 80 svc-dual-stack\n+ svc-dual-stack A 10.0.0.3\n+ svc-dual-stack AAAA 10::3";
    Site::plain().check_meant("weight", "svc-dual-stack SRV", wanted);
}

#[test]
fn s18_srv_of_two_ports() {
    let wanted =
        "twoports SRV 0 100 80 twoports\ntwoports SRV 0 100 443 twoports\n+ twoports A 10.0.0.4";
    Site::plain().check_meant("weight", "twoports SRV", wanted);
}

#[test]
fn s19_srv_of_a_headless_service_names_five_targets_with_six_addresses() {
    let targets = [
        "172-0-0-2",
        "172-0-0-3",
        "dup-name",
        "5678-abcd--1",
        "5678-abcd--2",
    ];
    let mut wanted: String = targets
        .iter()
        .map(|target| format!("_http._tcp.hdls1 SRV 0 100 80 {target}.hdls1\n"))
        .collect();
    wanted += "+ 172-0-0-2.hdls1 A 172.0.0.2\n+ 172-0-0-3.hdls1 A 172.0.0.3\n+ dup-name.hdls1 A 172.0.0.4\n\
               + dup-name.hdls1 A 172.0.0.5\n+ 5678-abcd--1.hdls1 AAAA 5678:abcd::1\n+ 5678-abcd--2.hdls1 AAAA 5678:abcd::2";
    Site::plain().check_meant("weight", "_http._tcp.hdls1 SRV", &wanted);
}

/// An empty label cannot be asked for; `_._tcp`, with an empty port, can.
#[test]
fn s20_an_empty_port_names_nothing() {
    let site = Site::plain();
    site.check_meant(
        "weight",
        "_http._tcp.svc1 SRV",
        "_http._tcp.svc1 SRV 0 100 80 svc1\n+ svc1 A 10.0.0.1",
    );
    site.check_meant("lenient", "_._tcp.svc1 SRV", "NXDOMAIN");
}

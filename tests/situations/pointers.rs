//! Situations 57 to 68: reverse zones, the ways into a cluster.

use super::site::{HTTP, Site, View, objects, service, slice};
use crate::support::apiserver::{Access, ApiServer};
use crate::support::needs;
use crate::support::wire::{self, Query};

#[test]
fn s57_a_cluster_ip_points_to_its_service() {
    Site::plain().check(
        "1.0.0.10.in-addr.arpa. PTR",
        "1.0.0.10.in-addr.arpa. PTR svc1",
    );
}

#[test]
fn s58_an_endpoint_of_two_slices_has_one_ptr() {
    let twice = slice("hdls1-3", "hdls1", "IPv4", "{addresses: [172.0.0.2]}", HTTP);
    Site::and(&twice).check(
        "2.0.0.172.in-addr.arpa. PTR",
        "2.0.0.172.in-addr.arpa. PTR 172-0-0-2.hdls1",
    );
}

#[test]
fn s59_an_endpoint_of_two_services_has_two_ptrs() {
    let other = service("other", "clusterIP: None")
        + &slice("other-1", "other", "IPv4", "{addresses: [172.0.0.2]}", "");
    let name = "2.0.0.172.in-addr.arpa.";
    let wanted = format!("{name} PTR 172-0-0-2.hdls1\n{name} PTR 172-0-0-2.other");
    Site::and(&other).check(&format!("{name} PTR"), &wanted);
}

#[test]
fn s60_ipv6_endpoints_with_runs_of_zeros() {
    let all = "{addresses: [\"1234:abcd::\"], hostname: a}, {addresses: [\"1234:0:0:1::\"]}, {addresses: [\"::5:0:0:1\"], hostname: c}";
    let site =
        Site::and(&(service("six", "clusterIP: None") + &slice("six-1", "six", "IPv6", all, "")));
    for (address, target) in [
        ("1234:abcd::", "a"),
        ("1234:0:0:1::", "1234-0-0-1--0"),
        ("::5:0:0:1", "c"),
    ] {
        let address: std::net::Ipv6Addr = address.parse().unwrap();
        let nibbles = address.octets().into_iter().rev();
        let name: String = nibbles
            .map(|octet| format!("{:x}.{:x}.", octet & 15, octet >> 4))
            .collect();
        let name = name + "ip6.arpa.";
        site.check(&format!("{name} PTR"), &format!("{name} PTR {target}.six"));
        // The difference `lenient`: CoreDNS answers this too.
        site.check_meant("lenient", &format!("x.{name} PTR"), "NXDOMAIN");
    }
}

#[test]
fn s61_an_unknown_address_is_nxdomain_with_the_reverse_zone_s_soa() {
    let site = Site::plain();
    site.check("99.0.0.10.in-addr.arpa. PTR", "NXDOMAIN");
    let reply = site.ask("99.0.0.10.in-addr.arpa. PTR");
    assert_eq!(reply.authority[0].owner, "10.in-addr.arpa.");
}

#[test]
fn s62_ptr_at_forward_names() {
    let site = Site::plain();
    site.check("bogusservice PTR", "NXDOMAIN");
    site.check("svc1 PTR", "NODATA");
    site.check("1.0.0.10.in-addr.arpa.cluster.local. PTR", "NXDOMAIN");
}

#[test]
fn s63_forward_names_in_a_reverse_zone_are_nxdomain() {
    let site = Site::plain();
    site.check("svc1.testns.svc.10.in-addr.arpa. A", "NXDOMAIN");
    site.check_meant("reverse", "svc.10.in-addr.arpa. A", "NXDOMAIN");
}

#[test]
fn s64_addresses_of_hidden_namespaces_have_no_ptr() {
    let name = "1.1.0.10.in-addr.arpa.";
    let shown = format!("{name} PTR svc1.unexposed.svc.cluster.local.");
    Site::plain().check(&format!("{name} PTR"), &shown);
    Site::with("namespaces testns").check(&format!("{name} PTR"), "NXDOMAIN");
    // CoreDNS hides it by `namespaces` alone.
    let labelled = objects().replace("{name: testns}", "{name: testns, labels: {shown: \"yes\"}}");
    let zones = "cluster.local 10.in-addr.arpa";
    let site = Site::of(zones, &labelled, "namespace_labels shown=yes", "");
    site.check("svc1 A", "svc1 A 10.0.0.1");
    site.check_meant("hidden-ptr", &format!("{name} PTR"), "NXDOMAIN");
}

/// The objects with a zone file under the cluster, for the names that `fallthrough` passes on.
fn with_file(fallthrough: &str) -> Site {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("db");
    let text = "$ORIGIN cluster.local.\n@ 60 SOA ns.example.net. h.example.net. 1 2 3 4 5\n@ 60 NS ns.example.net.\n\
                extra 5 A 192.0.2.7\nextra.testns.svc 5 A 192.0.2.8\nsvc1.testns.svc 5 A 192.0.2.9\n";
    std::fs::write(&file, text).unwrap();
    let beside = format!("file {} cluster.local", file.display());
    Site::of("cluster.local", &objects(), fallthrough, &beside)
}

#[test]
fn s65_a_name_that_only_a_file_has_is_the_file_s() {
    let site = with_file("fallthrough");
    site.check("extra.cluster.local. A", "extra.cluster.local. A 192.0.2.7");
    site.check("extra A", "extra A 192.0.2.8");
    site.check("svc1 A", "svc1 A 10.0.0.1");
    // The difference `overlay`: one zone has one SOA, where CoreDNS gives the file's.
    site.check("nothing.cluster.local. A", "NXDOMAIN");
    assert!(
        site.ask("nothing.cluster.local. A").authority[0]
            .data
            .starts_with("ns.dns.cluster.local. ")
    );
}

#[test]
fn s66_fallthrough_of_some_names_lets_no_others_through() {
    let site = with_file("fallthrough svc.cluster.local");
    site.check("extra A", "extra A 192.0.2.8");
    site.check("extra.cluster.local. A", "NXDOMAIN");
}

/// A kubeconfig leads to the API server. The listed objects are still served when the server is gone, even after a
/// reload.
#[test]
fn s67_s68_a_kubeconfig_leads_to_the_cluster_and_neither_reloads_nor_its_end_harm_anybody() {
    if needs::lacks(&["apiserver", "openssl"]) {
        return;
    }
    let mut server = ApiServer::start();
    let created = server.create(&serde_json::json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "namespace": "default", "name": "web" },
        "spec": { "clusterIP": "10.96.0.80", "ports": [{ "port": 80 }] },
    }));
    assert!(created["metadata"]["uid"].is_string(), "{created}");
    let source = format!("kubeconfig {}", server.kubeconfig(Access::Admin).display());
    let mut site = Site::unsynced(&source);
    let name = "web.default.svc.cluster.local.";
    site.wait_for(&format!("{name} A"));
    // A reload while the cluster is there, and one while it is not: a TTL counts without it.
    site.reload(&format!("{source}\n ttl 7"));
    let ttl = |view: &View| {
        let reply = wire::udp(view.address, &Query::new(name, wire::A)).ok()?;
        Some(reply.answers.first()?.ttl)
    };
    site.wait("the new TTL", |view| (ttl(view)? == 7).then_some(()));
    server.kill();
    site.check(&format!("{name} A"), &format!("{name} 7 A 10.96.0.80"));
    site.reload(&format!("{source}\n ttl 9"));
    site.wait("the next TTL", |view| (ttl(view)? == 9).then_some(()));
    site.check(&format!("{name} A"), &format!("{name} 9 A 10.96.0.80"));
    site.check("nothing.default.svc.cluster.local. A", "NXDOMAIN");
    assert!(site.process.ended().is_none());
}

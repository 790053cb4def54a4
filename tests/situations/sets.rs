//! Situations 69 to 77: names by topology zone, and sets of clusters.

use super::site::{HTTP, Site, objects, service, slice};

/// A headless Service with one endpoint in zone `a`, two in `b`, and a Service with a cluster IP.
fn zonal(options: &str) -> Site {
    let endpoints = "{addresses: [172.0.2.1], zone: a}, {addresses: [172.0.2.2], zone: b}, {addresses: [172.0.2.3], zone: b}";
    let more = service("spread", &format!("clusterIP: None, ports: [{HTTP}]"))
        + &slice("spread-1", "spread", "IPv4", endpoints, HTTP)
        + &service("elsewhere", &format!("clusterIP: None, ports: [{HTTP}]"))
        + &slice(
            "elsewhere-1",
            "elsewhere",
            "FQDN",
            "{addresses: [host.example.org], zone: a}",
            HTTP,
        );
    let mut site = Site::of("cluster.local", &(objects() + &more), options, "");
    // The live layer has the facts a moment after the zone is published, and is SERVFAIL until then.
    if !options.is_empty() {
        site.wait_for("a.prefer._zone.spread A");
    }
    site
}

/// The A records of a name.
fn addresses(name: &str, all: &[u8]) -> String {
    all.iter()
        .map(|last| format!("{name} A 172.0.2.{last}\n"))
        .collect()
}

#[test]
fn s69_pin_gives_the_endpoints_of_a_zone() {
    let site = zonal("zonal");
    for (zone, all) in [("a", &[1][..]), ("b", &[2, 3])] {
        let name = format!("{zone}.pin._zone.spread");
        site.check(&format!("{name} A"), &addresses(&name, all));
    }
    site.check("empty.pin._zone.spread A", "NODATA");
}

#[test]
fn s70_prefer_gives_all_where_a_zone_has_none() {
    let site = zonal("zonal");
    for (zone, all) in [("a", &[1][..]), ("empty", &[1, 2, 3])] {
        let name = format!("{zone}.prefer._zone.spread");
        site.check(&format!("{name} A"), &addresses(&name, all));
    }
}

/// The alias of a Service whose one endpoint is a host answers every type.
#[test]
fn s70_prefer_gives_the_alias_of_a_service_that_has_no_addresses() {
    let site = zonal("zonal");
    for zone in ["a", "empty"] {
        let name = format!("{zone}.prefer._zone.elsewhere");
        for rtype in ["CNAME", "A", "AAAA"] {
            site.check(
                &format!("{name} {rtype}"),
                &format!("{name} CNAME host.example.org.\n"),
            );
        }
        site.check(&format!("{zone}.pin._zone.elsewhere A"), "NODATA");
    }
}

#[test]
fn s71_srv_by_zone_has_the_endpoints_own_names() {
    let site = zonal("zonal");
    for (name, all) in [
        ("b.pin._zone.spread", &[2, 3][..]),
        ("none.prefer._zone.spread", &[1, 2, 3]),
    ] {
        let wanted: String = all
            .iter()
            .map(|last| format!("{name} SRV 0 100 80 172-0-2-{last}.spread\n+ 172-0-2-{last}.spread A 172.0.2.{last}\n"))
            .collect();
        site.check_meant("weight", &format!("{name} SRV"), &wanted);
    }
}

#[test]
fn s72_other_names_by_zone_are_not_there() {
    let site = zonal("zonal");
    site.check("a.pin._zone.spread TXT", "NODATA");
    site.check_all(
        &[
            "a.pin._zone.bogusservice A",
            "a.bogus._zone.spread A",
            "a.pin._zone.svc1 A",
        ],
        "NXDOMAIN",
    );
    zonal("").check("a.pin._zone.spread A", "NXDOMAIN");
}

/// A set of clusters: an import with an address, a headless one of two clusters, one without ports.
fn set_of_clusters() -> Site {
    let import = |name: &str, spec: &str| {
        format!(
            "---\napiVersion: multicluster.x-k8s.io/v1alpha1\nkind: ServiceImport\n\
             metadata: {{name: {name}, namespace: testns}}\nspec: {{{spec}}}\n"
        )
    };
    let part = |name: &str,
                service: &str,
                cluster: &str,
                family: &str,
                endpoints: &str,
                ports: &str| {
        format!(
            "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: {name}, namespace: testns, labels: \
             {{multicluster.kubernetes.io/service-name: {service}, multicluster.kubernetes.io/source-cluster: {cluster}}}}}\n\
             addressType: {family}\nendpoints: [{endpoints}]\nports: [{ports}]\n"
        )
    };
    let text = objects()
        + &import(
            "svc1",
            &format!("type: ClusterSetIP, ips: [10.9.0.1], ports: [{HTTP}]"),
        )
        + &import(
            "svc6",
            &format!("type: ClusterSetIP, ips: [\"1234:abcd::9\"], ports: [{HTTP}]"),
        )
        + &import("hdls1", &format!("type: Headless, ports: [{HTTP}]"))
        + &import("hdlsprtls", "type: Headless, ports: []")
        + &part(
            "in-1",
            "hdls1",
            "cluster1",
            "IPv4",
            "{addresses: [172.9.0.2]}, {addresses: [172.9.0.4], hostname: dup-name}, {addresses: [172.9.0.5], hostname: dup-name}",
            HTTP,
        )
        + &part(
            "in-2",
            "hdls1",
            "cluster2",
            "IPv6",
            "{addresses: [\"5678:abcd::1\"]}",
            HTTP,
        )
        + &part(
            "in-3",
            "hdlsprtls",
            "cluster1",
            "IPv4",
            "{addresses: [172.9.0.20]}",
            "",
        );
    let zones = "cluster.local clusterset.local 10.in-addr.arpa";
    Site::of(zones, &text, "multicluster clusterset.local", "")
}

/// A name of the set of clusters.
fn there(label: &str) -> String {
    format!("{label}.testns.svc.clusterset.local.")
}

#[test]
fn s73_a_set_of_clusters_answers_like_a_cluster() {
    let site = set_of_clusters();
    let (one, six) = (there("svc1"), there("svc6"));
    site.check(&format!("{one} A"), &format!("{one} A 10.9.0.1"));
    site.check(&format!("{one} AAAA"), "NODATA");
    site.check(&format!("{six} AAAA"), &format!("{six} AAAA 1234:abcd::9"));
    let port = format!("_http._tcp.{one}");
    site.check(
        &format!("{one} SRV"),
        &format!("{one} SRV 0 100 80 {one}\n+ {one} A 10.9.0.1"),
    );
    site.check(
        &format!("{port} SRV"),
        &format!("{port} SRV 0 100 80 {one}\n+ {one} A 10.9.0.1"),
    );
    site.check("svc1 A", "svc1 A 10.0.0.1");
    for missing in ["bogusservice", "svcempty", "external"] {
        site.check(&format!("{} A", there(missing)), "NXDOMAIN");
    }
    site.check("foo.clusterset.local. NS", "NXDOMAIN");
    let version = "dns-version.clusterset.local.";
    site.check_meant(
        "clusterset",
        &format!("{version} TXT"),
        &format!("{version} 28800 TXT \"1.0.0\""),
    );
    let pointer = "1.0.9.10.in-addr.arpa.";
    site.check_meant(
        "clusterset",
        &format!("{pointer} PTR"),
        &format!("{pointer} PTR {one}"),
    );
}

#[test]
fn s74_srv_of_a_headless_import_names_endpoints_with_their_clusters() {
    let site = set_of_clusters();
    let name = there("hdls1");
    let targets = [
        "172-9-0-2.cluster1",
        "dup-name.cluster1",
        "5678-abcd--1.cluster2",
    ];
    let mut wanted: String = targets
        .iter()
        .map(|it| format!("{name} SRV 0 100 80 {it}.{name}\n"))
        .collect();
    wanted += &format!(
        "+ 172-9-0-2.cluster1.{name} A 172.9.0.2\n+ dup-name.cluster1.{name} A 172.9.0.4\n\
         + dup-name.cluster1.{name} A 172.9.0.5\n+ 5678-abcd--1.cluster2.{name} AAAA 5678:abcd::1"
    );
    site.check_meant("weight", &format!("{name} SRV"), &wanted);
}

#[test]
fn s75_endpoints_of_a_headless_import() {
    let site = set_of_clusters();
    let name = there("hdls1");
    let own = |label: &str| format!("{label}.{name}");
    site.check(
        &format!("{} A", own("172-9-0-2.cluster1")),
        &format!("{} A 172.9.0.2", own("172-9-0-2.cluster1")),
    );
    let six = own("5678-abcd--1.cluster2");
    site.check(&format!("{six} AAAA"), &format!("{six} AAAA 5678:abcd::1"));
    let dup = own("dup-name.cluster1");
    site.check(
        &format!("{dup} A"),
        &format!("{dup} A 172.9.0.4\n{dup} A 172.9.0.5"),
    );
    let portless = there("hdlsprtls");
    site.check(
        &format!("{portless} A"),
        &format!("{portless} A 172.9.0.20"),
    );
}

#[test]
fn s76_an_endpoint_without_its_cluster_is_not_there() {
    let site = set_of_clusters();
    site.check(&format!("{} A", there("172-9-0-2.hdls1")), "NXDOMAIN");
    // Endpoints are below the cluster's label, so that it is passed through.
    site.check_meant("ent", &format!("{} A", there("cluster1.hdls1")), "NODATA");
}

#[test]
fn s77_an_unknown_endpoint_of_a_known_cluster_is_not_there() {
    set_of_clusters().check(&format!("{} A", there("bogus.cluster1.hdls1")), "NXDOMAIN");
}

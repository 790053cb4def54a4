//! Situations 91 to 99: names outside the cluster, and the options.

use std::fs;
use std::process::Command;

use super::site::{HTTP, Site, objects, service, slice};
use crate::support::needs;

/// Services with an address, two families, a host name, and a headless one with endpoints.
fn outside(options: &str) -> Site {
    let balanced = |name: &str, ip: u8, ingress: &str| {
        format!(
            "{}status: {{loadBalancer: {{ingress: [{ingress}]}}}}\n",
            service(
                name,
                &format!("type: LoadBalancer, clusterIPs: [10.0.5.{ip}], ports: [{HTTP}]")
            )
        )
    };
    let text = objects()
        + &service(
            "out",
            &format!("clusterIPs: [10.0.5.1], externalIPs: [203.0.113.1], ports: [{HTTP}]"),
        )
        + &service(
            "six",
            &format!("clusterIPs: [\"1234::5\"], externalIPs: [\"2001:db8::1\"], ports: [{HTTP}]"),
        )
        + &balanced("lb", 3, "{ip: 203.0.113.3}")
        + &balanced("named", 4, "{hostname: lb.example.net}")
        + &service("crowd", &format!("clusterIP: None, ports: [{HTTP}]"))
        + &slice(
            "crowd-1",
            "crowd",
            "IPv4",
            "{addresses: [172.0.6.1], hostname: one}, {addresses: [172.0.6.2]}",
            HTTP,
        );
    Site::of(
        "cluster.local example.com 113.0.203.in-addr.arpa",
        &text,
        "ZONES cluster.local\n",
        &format!("k8s_external example.com 113.0.203.in-addr.arpa {{\nexternal_ips\n{options}\n}}"),
    )
}

fn name(label: &str) -> String {
    format!("{label}.testns.example.com.")
}

#[test]
fn s91_names_outside() {
    let site = outside("headless");
    let (out, six, lb, named, crowd) = (
        name("out"),
        name("six"),
        name("lb"),
        name("named"),
        name("crowd"),
    );
    site.check(&format!("{out} A"), &format!("{out} A 203.0.113.1"));
    site.check(&format!("{out} AAAA"), "NODATA");
    site.check(&format!("{six} AAAA"), &format!("{six} AAAA 2001:db8::1"));
    let port = format!("_http._tcp.{out}");
    site.check(
        &format!("{out} SRV"),
        &format!("{out} SRV 0 100 80 {out}\n+ {out} A 203.0.113.1"),
    );
    site.check(
        &format!("{port} SRV"),
        &format!("{port} SRV 0 100 80 {out}\n+ {out} A 203.0.113.1"),
    );
    site.check(&format!("{lb} A"), &format!("{lb} A 203.0.113.3"));
    site.check(
        &format!("{named} A"),
        &format!("{named} CNAME lb.example.net."),
    );
    let port = format!("_http._tcp.{named}");
    site.check(
        &format!("{port} SRV"),
        &format!("{port} SRV 0 100 80 lb.example.net."),
    );
    // CoreDNS has SRV beside the CNAME.
    site.check_meant(
        "external-alias",
        &format!("{named} SRV"),
        &format!("{named} CNAME lb.example.net."),
    );
    site.check(
        &format!("{crowd} A"),
        &format!("{crowd} A 172.0.6.1\n{crowd} A 172.0.6.2"),
    );
    site.check(
        &format!("one.{crowd} A"),
        &format!("one.{crowd} A 172.0.6.1"),
    );
}

#[test]
fn srv_to_a_host_that_hosts_knows_has_no_address_beside_it() {
    let text = format!(
        "{}status: {{loadBalancer: {{ingress: [{{hostname: lb.example.net}}]}}}}\n",
        service(
            "named",
            &format!("type: LoadBalancer, clusterIPs: [10.0.5.4], ports: [{HTTP}]")
        )
    );
    let site = Site::of(
        "cluster.local example.com",
        &(objects() + &text),
        "ZONES cluster.local\n",
        "k8s_external example.com\nhosts {\n 192.0.2.80 lb.example.net\n fallthrough\n}",
    );
    let port = format!("_http._tcp.{}", name("named"));
    let wanted = format!("{port} SRV 0 100 80 lb.example.net.");
    site.check_meant("external-hosts", &format!("{port} SRV"), &wanted);
}

#[test]
fn s92_an_unknown_protocol_outside_is_nxdomain() {
    outside("").check(
        &format!("*._not-udp-or-tcp.{} SRV", name("out")),
        "NXDOMAIN",
    );
}

#[test]
fn s93_pointers_outside() {
    let site = outside("");
    let pointer = "1.113.0.203.in-addr.arpa.";
    site.check(
        &format!("{pointer} PTR"),
        &format!("{pointer} PTR {}", name("out")),
    );
    site.check(&format!("{} PTR", name("out")), "NODATA");
    site.check(&format!("{} PTR", name("bogus")), "NXDOMAIN");
}

#[test]
fn s94_the_apex_outside() {
    let site = outside("");
    let reply = site.ask("example.com. SOA");
    let start = "ns1.dns.example.com. hostmaster.dns.example.com. ";
    assert!(reply.answers[0].data.starts_with(start), "{reply:?}");
    let glue = "ns1.dns.example.com. A 127.0.0.1";
    site.check(
        "example.com. NS",
        &format!("example.com. NS ns1.dns.example.com.\n+ {glue}"),
    );
    site.check("ns1.dns.example.com. A", glue);
    site.check_all(
        &[
            "example.com. SRV",
            "dns.example.com. A",
            "dns.example.com. SRV",
            "ns1.dns.example.com. SRV",
            "ns1.dns.example.com. TXT",
        ],
        "NODATA",
    );
    site.check("x.dns.example.com. A", "NXDOMAIN");
}

/// Whether `check` accepts a block of `kubernetes`, and its messages.
fn checked(options: &str) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("Corefile");
    let text = format!(
        "cluster.local:5300 10.in-addr.arpa:5300 {{\n bind 127.0.0.1\n kubernetes {options}\n}}\n"
    );
    fs::write(&file, text).unwrap();
    let output = Command::new(needs::zonewright())
        .arg("check")
        .arg("--corefile")
        .arg(&file)
        .output()
        .unwrap();
    let told = [output.stdout, output.stderr]
        .map(|text| String::from_utf8(text).unwrap())
        .concat();
    (output.status.success(), told)
}

#[test]
fn s98_wrong_options_are_refused() {
    let (right, told) = checked(
        "cluster.local 10.in-addr.arpa {\n endpoint http://127.0.0.1:1\n pods verified\n ttl 3600\n}",
    );
    assert!(right, "{told}");
    for options in [
        "10.in-addr.arpa",
        "{\n endpoint\n}",
        "{\n endpoint http://127.0.0.1:1\n tls a b\n}",
        "{\n kubeconfig\n}",
        "{\n kubeconfig a b c\n}",
        "{\n apiserver_qps\n}",
        "{\n apiserver_qps x\n}",
        "{\n apiserver_qps -1\n}",
        "{\n apiserver_burst 1.5\n}",
        "{\n apiserver_burst -1\n}",
        "{\n apiserver_max_inflight x\n}",
        "{\n apiserver_max_inflight -1\n}",
        "{\n namespaces\n}",
        "{\n namespace_labels\n}",
        "{\n namespace_labels a in ()(\n}",
        "{\n namespaces a\n namespace_labels a=b\n}",
        "{\n labels\n}",
        "{\n labels a in (\n}",
        "{\n pods\n}",
        "{\n pods sometimes\n}",
        "{\n endpoint_pod_names yes\n}",
        "{\n ttl\n}",
        "{\n ttl x\n}",
        "{\n ttl -1\n}",
        "{\n ttl 3601\n}",
        "{\n noendpoints yes\n}",
        "{\n ignore everything\n}",
        "{\n multicluster other.example\n}",
        "{\n zonal yes\n}",
        "{\n zonal\n noendpoints\n}",
        "{\n startup_timeout\n}",
        "{\n startup_timeout soon\n}",
        "{\n upstream\n}",
        "{\n resyncperiod 5s\n}",
        "{\n federation a b\n}",
        "{\n bogus\n}",
    ] {
        let (right, told) = checked(options);
        assert!(!right && told.contains("Corefile:"), "{options}: {told}");
    }
}

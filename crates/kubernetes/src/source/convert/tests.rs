//! Objects in, facts out, in a compact text.

mod slices;

use std::time::Duration;

use super::*;
use crate::facts::Selector;

/// Everything there is to keep.
const ALL: Keep = Keep {
    pod_names: true,
    zones: true,
    pod_labels: None,
};

/// Reads an object from YAML, and once more from JSON; both must say the same.
fn both(kind: Kind, yaml: &str) -> Reading {
    let value: Value = serde_saphyr::from_str(yaml).expect("the test's YAML");
    let json = RawValue::from_string(value.to_string()).expect("a value is JSON");
    let mut interner = Interner::default();
    let setting = Setting::api_server(ALL);
    let of_value = read(kind, Object::Value(&value), &setting, &mut interner);
    let of_json = read(kind, Object::Json(&json), &setting, &mut interner);
    assert_eq!(of_value.fact, of_json.fact);
    assert_eq!(of_value.key, of_json.key);
    of_value
}

/// A fact and its problems, a line each.
fn told(reading: &Reading) -> String {
    let mut lines = Vec::new();
    match &reading.fact {
        None => lines.push("nothing".to_owned()),
        Some(Fact::Namespace(namespace)) => lines.push(format!("namespace {}", namespace.key)),
        Some(Fact::Service(service)) => {
            lines.push(format!("{} {:?}", service.key, service.form));
            for port in &*service.ports {
                lines.push(format!(
                    "port {:?} {:?} {}",
                    port.name, port.protocol, port.number
                ));
            }
            if let Some(external) = &service.external {
                lines.push(format!(
                    "outside {:?}, external IPs {:?}, {:?}",
                    external.addresses, external.external_ips, external.hosts
                ));
            }
        }
        Some(Fact::ServiceImport(import)) => {
            lines.push(format!("{} {:?}", import.key, import.form));
            lines.extend(
                import
                    .ports
                    .iter()
                    .map(|port| format!("port {:?}", port.number)),
            );
        }
        Some(Fact::Pod(pod)) => lines.push(format!("pod {} {:?}", pod.key, pod.addresses)),
        Some(Fact::EndpointSlice(slice)) => {
            let service = slice.service.as_deref().unwrap_or("-");
            lines.push(format!("{} of {service} {:?}", slice.key, slice.form));
            if let Some(import) = &slice.import {
                lines.push(format!("import {} of {:?}", import.service, import.cluster));
            }
            for port in &*slice.ports {
                lines.push(format!(
                    "port {:?} {:?} {:?}",
                    port.name, port.protocol, port.number
                ));
            }
            for endpoint in &*slice.endpoints {
                let parts = [
                    endpoint.hostname(),
                    endpoint.fqdn(),
                    endpoint.pod(),
                    endpoint.zone(),
                ];
                let parts: Vec<&str> = parts
                    .iter()
                    .map(|part| part.map_or("-", |it| &**it))
                    .collect();
                let addresses: Vec<String> =
                    endpoint.addresses.iter().map(ToString::to_string).collect();
                lines.push(format!("[{}] {}", addresses.join(" "), parts.join(" ")));
            }
        }
    }
    lines.extend(
        reading
            .problems
            .iter()
            .map(|problem| format!("! {problem}")),
    );
    lines.join("\n")
}

/// A Service `web` in `shop` with this `spec`, in YAML flow style.
fn service(spec: &str) -> String {
    let yaml = format!("metadata: {{name: web, namespace: shop}}\nspec: {spec}\n");
    told(&both(Kind::Service, &yaml))
}

#[test]
fn cluster_ips_are_kept_in_their_order_in_both_families() {
    assert_eq!(
        service("{clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1, 'fd00::1']}"),
        "shop/web ClusterIp([10.0.0.1, fd00::1])"
    );
}

#[test]
fn without_cluster_ips_the_single_one_counts() {
    assert_eq!(
        service("{clusterIP: 10.0.0.1}"),
        "shop/web ClusterIp([10.0.0.1])"
    );
    assert_eq!(
        service("{clusterIP: 10.0.0.1, clusterIPs: []}"),
        "shop/web ClusterIp([10.0.0.1])"
    );
    assert_eq!(
        service("{clusterIP: 10.0.0.1, clusterIPs: null}"),
        "shop/web ClusterIp([10.0.0.1])"
    );
}

#[test]
fn none_as_first_address_is_headless_whatever_the_type() {
    assert_eq!(service("{clusterIP: None}"), "shop/web Headless");
    assert_eq!(
        service("{type: LoadBalancer, clusterIPs: [None]}"),
        "shop/web Headless"
    );
}

#[test]
fn a_service_without_address_is_pending() {
    assert_eq!(service("{type: ClusterIP}"), "shop/web Pending");
    assert_eq!(service("{clusterIP: ''}"), "shop/web Pending");
    assert_eq!(service("null"), "shop/web Pending");
}

#[test]
fn addresses_that_are_none_are_left_out_and_reported() {
    assert_eq!(
        service("{clusterIPs: [10.0.0.256, '::ffff:10.0.0.1', 10.0.0.1]}"),
        "shop/web ClusterIp([10.0.0.1])\n\
         ! Service shop/web: clusterIP \"10.0.0.256\" left out: not an IP address\n\
         ! Service shop/web: clusterIP \"::ffff:10.0.0.1\" left out: an IPv4 address written as IPv6"
    );
    assert_eq!(
        service("{clusterIPs: [bad]}"),
        "shop/web Pending\n! Service shop/web: clusterIP \"bad\" left out: not an IP address"
    );
}

#[test]
fn external_names_are_host_names() {
    let spec = |host| format!("{{type: ExternalName, externalName: {host}}}");
    assert_eq!(
        service(&spec("a.example")),
        "shop/web ExternalName(\"a.example\")"
    );
    assert_eq!(
        service(&spec("a.example.")),
        "shop/web ExternalName(\"a.example.\")"
    );
    for none in ["''", "null", "\".\""] {
        assert_eq!(
            service(&spec(none)),
            "shop/web ExternalName(\"\")\n! Service shop/web: ExternalName without a host name in externalName: \
             it has no record"
        );
    }
    for host in ["192.0.2.1", "192.0.2.1.", "\"2001:db8::1\""] {
        let told = service(&spec(host));
        assert!(
            told.starts_with("shop/web ExternalName(\"\")\n! Service shop/web: externalName "),
            "{told}"
        );
    }
}

#[test]
fn an_external_name_on_another_type_is_not_looked_at() {
    assert_eq!(
        service("{type: ClusterIP, externalName: a.example, clusterIP: 10.0.0.1}"),
        "shop/web ClusterIp([10.0.0.1])"
    );
}

#[test]
fn ports_have_tcp_as_default_and_bad_ones_are_left_out() {
    assert_eq!(
        service(
            "{clusterIP: None, ports: [{port: 80}, {name: dns, protocol: UDP, port: 53}, {name: s, \
             protocol: SCTP, port: 1}, {name: neg, port: -1}, {name: big, port: 65536}, {name: zero, \
             port: 0}, {name: word, port: http}, {name: none}, {name: odd, protocol: QUIC, port: 1}]}"
        ),
        "shop/web Headless\n\
         port \"\" Tcp 80\n\
         port \"dns\" Udp 53\n\
         port \"s\" Sctp 1\n\
         ! Service shop/web: port \"neg\" left out: -1 is not in 1 to 65535\n\
         ! Service shop/web: port \"big\" left out: 65536 is not in 1 to 65535\n\
         ! Service shop/web: port \"zero\" left out: 0 is not in 1 to 65535\n\
         ! Service shop/web: port \"word\" left out: \"http\" is not a number\n\
         ! Service shop/web: port \"none\" left out: it has no number\n\
         ! Service shop/web: port \"odd\" left out: unknown protocol \"QUIC\""
    );
}

#[test]
fn a_pod_has_its_addresses_until_it_has_ended() {
    let pod = |status: &str| {
        let text = format!("metadata: {{name: p, namespace: ns}}\nstatus: {{{status}}}");
        told(&both(Kind::Pod, &text))
    };
    assert_eq!(pod(""), "pod ns/p []");
    assert_eq!(
        pod("phase: Running, podIP: 10.1.0.1, podIPs: [{ip: 10.1.0.1}, {ip: 'fd00::1'}]"),
        "pod ns/p [10.1.0.1, fd00::1]"
    );
    assert_eq!(
        pod("phase: Pending, podIP: 10.1.0.1"),
        "pod ns/p [10.1.0.1]"
    );
    for phase in ["Succeeded", "Failed", "Unknown"] {
        assert_eq!(pod(&format!("phase: {phase}, podIP: 10.1.0.1")), "nothing");
    }
    assert_eq!(
        pod("podIP: x, podIPs: [{ip: '::ffff:10.1.0.1'}, {}]"),
        "pod ns/p []\n! Pod ns/p: podIP \"x\" left out: not an IP address\n\
         ! Pod ns/p: podIP \"::ffff:10.1.0.1\" left out: an IPv4 address written as IPv6"
    );
}

/// CoreDNS knows such a pod only if it started before the deletion.
#[test]
fn a_pod_that_is_being_deleted_has_its_address() {
    let text = "metadata: {name: p, namespace: ns, deletionTimestamp: '2026-01-01T00:00:00Z'}\n\
                status: {phase: Running, podIP: 10.1.0.1}";
    assert_eq!(told(&both(Kind::Pod, text)), "pod ns/p [10.1.0.1]");
}

#[test]
fn s97_a_pod_keeps_the_labels_that_are_asked_for() {
    let value: Value = serde_saphyr::from_str(
        "metadata: {name: p, namespace: ns, labels: {app: web, tier: front, bare: null}}",
    )
    .unwrap();
    let labels = |keys: &[&str]| {
        let keys = keys.iter().map(ToString::to_string).collect();
        let setting = Setting::api_server(Keep {
            pod_labels: Some(Arc::new(keys)),
            ..ALL
        });
        let object = Object::Value(&value);
        let read = read(Kind::Pod, object, &setting, &mut Interner::default());
        let Some(Fact::Pod(pod)) = read.fact else {
            panic!("a pod");
        };
        let labels = pod.labels?;
        let texts = labels.iter().map(|(key, value)| format!("{key}={value}"));
        Some(texts.collect::<Vec<_>>().join(" "))
    };
    assert_eq!(
        labels(&["tier", "app", "x"]).as_deref(),
        Some("app=web tier=front")
    );
    assert_eq!(labels(&["bare"]).as_deref(), Some("bare="));
    assert_eq!(labels(&["x"]), None);
}

#[test]
fn labels_are_looked_at_in_every_form() {
    let selector = Selector::parse("app=web,!old,tier=").unwrap();
    for (labels, want) in [
        ("{app: web, tier: ''}", true),
        ("{app: web, tier: }", true),
        ("{app: web}", false),
        ("{app: web, tier: '', old: 'yes'}", false),
        ("", false),
    ] {
        let text = format!("metadata: {{name: s, labels: {labels}}}");
        let value: Value = serde_saphyr::from_str(&text).unwrap();
        let json = RawValue::from_string(value.to_string()).unwrap();
        assert_eq!(
            is_selected(&selector, Object::Value(&value)),
            want,
            "{labels}"
        );
        assert_eq!(
            is_selected(&selector, Object::Json(&json)),
            want,
            "{labels}"
        );
    }
}

#[test]
fn the_manager_is_the_one_of_the_latest_time() {
    let reading = both(
        Kind::Namespace,
        "metadata:\n  name: shop\n  uid: u-1\n  resourceVersion: '42'\n  managedFields:\n\
         \x20 - {manager: old, time: '2026-01-01T00:00:00Z', fieldsV1: {'f:metadata': {}}}\n\
         \x20 - {manager: new, time: '2026-03-01T00:00:00Z', fieldsV1: {'f:metadata': {}}}\n\
         \x20 - {manager: mid, time: '2026-02-01T00:00:00Z'}\n\
         \x20 - {manager: timeless}\n",
    );
    assert_eq!(told(&reading), "namespace shop");
    let origin = &reading.origin;
    assert_eq!(
        (
            &*origin.uid,
            &*origin.resource_version,
            &*origin.manager,
            &*origin.place
        ),
        ("u-1", "42", "new", "")
    );
}

#[test]
fn an_object_that_does_not_read_gives_its_name_and_the_reason() {
    let reading = both(
        Kind::Service,
        "metadata: {name: web, namespace: shop, uid: u}\nspec: {ports: none at all}",
    );
    assert_eq!(&*reading.origin.uid, "u");
    let told = told(&reading);
    assert!(
        told.starts_with("nothing\n! Service shop/web: left out: "),
        "{told}"
    );
}

#[test]
fn an_object_without_a_readable_name_is_reported_without_one() {
    for yaml in [
        "metadata: {namespace: shop}",
        "metadata: [1]",
        "just text",
        "metadata: {name: 1}",
    ] {
        let reading = both(Kind::Service, yaml);
        assert_eq!((&reading.key, &reading.fact), (&None, &None), "{yaml}");
        let told = told(&reading);
        assert!(
            told.starts_with("nothing\n! a Service: left out: "),
            "{told}"
        );
    }
}

#[test]
fn only_a_manifest_may_leave_its_namespace_out() {
    let value: Value = serde_saphyr::from_str("metadata: {name: web}").unwrap();
    let mut interner = Interner::default();
    let setting = Setting::api_server(ALL);
    let of_server = read(
        Kind::Service,
        Object::Value(&value),
        &setting,
        &mut interner,
    );
    assert_eq!(
        told(&of_server),
        "nothing\n! a Service: left out: it has no metadata.namespace"
    );
    let setting = Setting::manifest("a.yaml:1".into(), ALL, &mut interner);
    let of_manifest = read(
        Kind::Service,
        Object::Value(&value),
        &setting,
        &mut interner,
    );
    assert_eq!(told(&of_manifest), "default/web Pending");
    assert_eq!(&*of_manifest.origin.place, "a.yaml:1");
}

#[test]
fn what_is_outside_a_service_is_sorted_and_once() {
    let yaml = "metadata: {name: web, namespace: shop}\nspec: {clusterIP: 10.0.0.1, externalIPs: \
                [192.0.2.9, 192.0.2.1, x, '']}\nstatus: {loadBalancer: {ingress: [{ip: 192.0.2.1, \
                hostname: unused.example}, {ip: '::ffff:192.0.2.3'}, {hostname: b.example}, {hostname: \
                192.0.2.4}, {hostname: a.example}, {}]}}\n";
    assert_eq!(
        told(&both(Kind::Service, yaml)),
        "shop/web ClusterIp([10.0.0.1])\noutside [192.0.2.1, 192.0.2.4], external IPs [192.0.2.9], [\"a.example\", \
         \"b.example\"]\n! Service shop/web: externalIP \"x\" left out: not an IP address\n! Service \
         shop/web: load balancer address \"::ffff:192.0.2.3\" left out: an IPv4 address written as IPv6"
    );
    let nothing = "metadata: {name: web, namespace: shop}\nspec: {externalIPs: null}\nstatus: \
                   {loadBalancer: {}}\n";
    assert_eq!(told(&both(Kind::Service, nothing)), "shop/web Pending");
}

#[test]
fn imports_are_read_and_what_is_no_import_is_left_out() {
    let import = |spec: &str| {
        let yaml = format!("metadata: {{name: web, namespace: shop}}\nspec: {spec}\n");
        told(&both(Kind::ServiceImport, &yaml))
    };
    for (spec, want) in [
        (
            "{type: ClusterSetIP, ips: [10.42.0.1, 'fd00::1', x], ports: [{port: 80}, {port: 0}]}",
            "shop/web ClusterSetIp([10.42.0.1, fd00::1])\nport 80\n! ServiceImport shop/web: ip \"x\" \
             left out: not an IP address\n! ServiceImport shop/web: port \"\" left out: 0 is not in 1 \
             to 65535",
        ),
        ("{type: ClusterSetIP}", "shop/web ClusterSetIp([])"),
        ("{type: Headless, ips: [10.42.0.1]}", "shop/web Headless"),
        (
            "{type: Other}",
            "nothing\n! ServiceImport shop/web: left out: unknown type \"Other\"",
        ),
        (
            "{}",
            "nothing\n! ServiceImport shop/web: left out: it has no spec.type",
        ),
    ] {
        assert_eq!(import(spec), want, "{spec}");
    }
}

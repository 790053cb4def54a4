//! The cluster that is measured: Services, a third of them headless, each with a slice of endpoints.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use serde_json::{Value, json};

/// Namespaces.
const NAMESPACES: u32 = 100;
/// Endpoints of a Service.
pub(crate) const ENDPOINTS: u32 = 10;

/// How many Services; smaller to try the measurement itself.
pub(crate) fn services() -> u32 {
    let wanted = std::env::var("BENCH_SERVICES").ok();
    wanted.map_or(10_000, |text| text.parse().expect("a number of Services"))
}

/// The namespace of a Service.
fn namespace(index: u32) -> String {
    format!("team-{}", index % NAMESPACES)
}

/// Whether a Service is headless.
const fn is_headless(index: u32) -> bool {
    index.is_multiple_of(3)
}

/// The name of a Service in the zone.
pub(crate) fn name(index: u32) -> String {
    format!("service-{index}.{}.svc.cluster.local", namespace(index))
}

/// All Namespaces.
pub(crate) fn namespaces() -> Vec<Value> {
    let object = |index| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace(index) } });
    (0..NAMESPACES).map(object).collect()
}

/// A Service as people write them.
pub(crate) fn service(index: u32) -> Value {
    let app = format!("service-{index}");
    let mut spec = json!({
        "selector": { "app": app },
        "ports": [
            { "name": "http", "port": 80, "targetPort": 8080 },
            { "name": "metrics", "port": 9090, "targetPort": 9090 },
        ],
    });
    if is_headless(index) {
        spec["clusterIP"] = json!("None");
    }
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "namespace": namespace(index), "name": app, "labels": { "app": app } },
        "spec": spec,
    })
}

/// The address of an endpoint.
fn address(index: u32, number: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a80_0000 + index * ENDPOINTS + number)
}

/// The slice of a Service as the endpoint slice controller writes them.
pub(crate) fn slice(index: u32) -> Value {
    let app = format!("service-{index}");
    let endpoint = |number: u32| {
        json!({
            "addresses": [address(index, number)],
            "conditions": { "ready": true, "serving": true, "terminating": false },
            "nodeName": format!("node-{}", (index + number) % 500),
            "zone": format!("zone-{}", number % 3),
            "targetRef": {
                "kind": "Pod", "namespace": namespace(index),
                "name": format!("{app}-7c5ddbdf54-{number:05}"),
                "uid": format!("00000000-0000-4000-8000-{:012}", index * ENDPOINTS + number),
            },
        })
    };
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {
            "namespace": namespace(index), "name": format!("{app}-x7k2p"),
            "labels": {
                "kubernetes.io/service-name": app,
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            },
        },
        "endpoints": (0..ENDPOINTS).map(endpoint).collect::<Vec<_>>(),
        "ports": [
            { "name": "http", "port": 8080, "protocol": "TCP" },
            { "name": "metrics", "port": 9090, "protocol": "TCP" },
        ],
    })
}

/// Questions for dnsperf: 70 % A, 10 % AAAA, 10 % names that do not exist, 10 % SRV, in mixed order.
pub(crate) fn questions(count: u32) -> String {
    let mut text = String::new();
    for number in 0..count {
        let index = number.wrapping_mul(7919) % services();
        let name = name(index);
        let done = match number % 10 {
            0..=6 => writeln!(text, "{name} A"),
            7 => writeln!(text, "{name} AAAA"),
            8 => writeln!(text, "missing-{number}.{name} A"),
            _ => writeln!(text, "_http._tcp.{name} SRV"),
        };
        done.expect("text grows");
    }
    text
}

//! The examples of CoreDNS's plugin documentation that need a cluster or an etcd, with CoreDNS and zonewright: the same
//! answers. `tests/examples/coredns.txt` has them.
//!
//! They find the API server as a pod does, and an etcd at its usual port. So the test runs in namespaces of its own.

use serde_json::{Value, json};

use crate::comparison::servers::define_imports;
use crate::examples::{UPSTREAM, cases_in_cluster};
use crate::handlers::run;
use crate::support::apiserver::{ApiServer, object_path};
use crate::support::etcd::Etcd;
use crate::support::{namespaces, needs};

/// The test, which starts itself again.
const TEST: &str =
    "compare_examples::examples_with_a_cluster_or_an_etcd_are_answered_as_by_coredns";
/// The port of an etcd that nobody names.
const ETCD_PORT: u16 = 2379;

#[test]
fn examples_with_a_cluster_or_an_etcd_are_answered_as_by_coredns() {
    if needs::lacks(&["apiserver", "coredns", "openssl", "namespaces"]) {
        return;
    }
    if !namespaces::is_inside(TEST) {
        return;
    }
    let api = ApiServer::start();
    define_imports(&api);
    fill(&api);
    namespaces::write_account(&api);
    let etcd = Etcd::start_at(ETCD_PORT);
    fill_etcd(&etcd);
    let folder = tempfile::tempdir().unwrap();
    api.copy_certificates(folder.path(), UPSTREAM);
    let words = [
        ("CERTS", folder.path().display().to_string()),
        ("APISERVER", api.address().to_string()),
        ("ETCD", etcd.url()),
    ];
    run::run_all_with(&cases_in_cluster(), &words);
}

fn object(kind: &str, version: &str, (namespace, name): (&str, &str), rest: Value) -> Value {
    let mut object = rest;
    object["apiVersion"] = version.into();
    object["kind"] = kind.into();
    object["metadata"]["name"] = name.into();
    object["metadata"]["namespace"] = namespace.into();
    object
}

/// Three namespaces with a Service each; in one a load balancer, a headless Service, an import, and two pods, one of them at
/// the address 127.0.1.7 that asks.
fn fill(api: &ApiServer) {
    let ports = json!([{ "name": "http", "port": 80, "protocol": "TCP" }]);
    for (number, namespace) in [(7, "shop"), (8, "stage"), (9, "other")] {
        let name = json!({ "name": namespace });
        api.create(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": name }));
        let spec = json!({ "spec": {
            "type": "LoadBalancer", "ports": ports, "clusterIP": format!("10.96.7.{number}"),
        } });
        let web = object("Service", "v1", (namespace, "web"), spec);
        api.create(&web);
        let ingress = json!([{ "ip": format!("203.0.113.{number}") }]);
        api.patch(
            &format!("{}/status", object_path(&web)),
            &json!({ "status": { "loadBalancer": { "ingress": ingress } } }),
        );
    }
    let db = json!({ "spec": { "ports": ports, "clusterIP": "None" } });
    api.create(&object("Service", "v1", ("shop", "db"), db));
    let slice = json!({
        "metadata": { "labels": { "kubernetes.io/service-name": "db" } },
        "addressType": "IPv4",
        "endpoints": [
            { "addresses": ["10.0.1.6"], "hostname": "db-0", "conditions": { "ready": true } },
        ],
        "ports": ports,
    });
    let version = "discovery.k8s.io/v1";
    api.create(&object("EndpointSlice", version, ("shop", "db-1"), slice));
    let import =
        json!({ "spec": { "type": "ClusterSetIP", "ips": ["10.97.0.7"], "ports": ports } });
    let version = "multicluster.x-k8s.io/v1alpha1";
    api.create(&object("ServiceImport", version, ("shop", "web"), import));
    for (name, address) in [("asker", "127.0.1.7"), ("other", "10.0.1.5")] {
        let spec = json!({ "spec": { "containers": [{ "name": "c", "image": "none" }] } });
        let pod = object("Pod", "v1", ("shop", name), spec);
        api.create(&pod);
        let status = json!({ "phase": "Running", "podIP": address, "podIPs": [{ "ip": address }] });
        api.patch(
            &format!("{}/status", object_path(&pod)),
            &json!({ "status": status }),
        );
    }
}

/// The same keys in three zones, and one of a reverse zone.
fn fill_etcd(etcd: &Etcd) {
    let lease = etcd.lease(7200);
    for number in 1..4 {
        let key = |name: &str| format!("/skydns/test/sky{number}/{name}");
        etcd.put(&key("a"), r#"{"host":"192.0.2.1","port":80,"ttl":60}"#);
        etcd.put(&key("b"), r#"{"host":"192.0.2.2"}"#);
        etcd.put(&key("both/x"), r#"{"host":"192.0.2.3"}"#);
        etcd.put(&key("both/y"), r#"{"text":"two"}"#);
        etcd.put(
            &key("mail"),
            r#"{"host":"192.0.2.4","mail":true,"port":-1}"#,
        );
        etcd.put_with(&key("leased"), r#"{"host":"192.0.2.5"}"#, lease);
    }
    let pointer = r#"{"host":"a.sky3.test"}"#;
    etcd.put("/skydns/arpa/in-addr/10/0/0/7", pointer);
}

//! ServiceImports of a real API server: their API is missing, appears, is used and disappears.

use std::time::Duration;

use crate::support::apiserver::{Access, ApiServer, object_path};
use crate::support::needs;
use crate::support::rbac;
use crate::support::service_imports::definition;
use crate::support::wire;
use crate::support::zonewright::Zonewright;
use serde_json::{Value, json};

const ZONES: [&str; 3] = ["cluster.local", "clusterset.local", "10.in-addr.arpa"];

/// The time limit of each wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// The text of `status` while the API has no ServiceImports.
const ABSENT: &str = "the cluster has no serviceimports in multicluster.x-k8s.io";

/// An import with this address.
fn import(name: &str, address: &str) -> Value {
    json!({
        "apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport",
        "metadata": { "namespace": "blue", "name": name },
        "spec": { "type": "ClusterSetIP", "ips": [address], "ports": [{ "name": "http", "port": 80 }] },
    })
}

/// A headless import and the slice of it that comes from another cluster.
fn headless() -> [Value; 2] {
    let mut import = import("db", "");
    import["spec"] = json!({ "type": "Headless", "ports": [] });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": { "namespace": "blue", "name": "db-east", "labels": {
            "multicluster.kubernetes.io/service-name": "db",
            "multicluster.kubernetes.io/source-cluster": "east",
        } },
        "endpoints": [{ "addresses": ["10.77.0.1"], "hostname": "db-0" }],
        "ports": [{ "name": "postgres", "port": 5432 }],
    });
    [import, slice]
}

/// Creates a Service and waits until it is in `cluster.local`.
fn check_the_rest(server: &ApiServer, zonewright: &mut Zonewright, name: &str) {
    let service = server.create(&json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "namespace": "blue", "name": name },
        "spec": { "ports": [{ "name": "http", "port": 80 }] },
    }));
    let address = service["spec"]["clusterIP"].as_str().unwrap();
    wait_for(
        zonewright,
        &format!("{name}.blue.svc.cluster.local"),
        &[address],
    );
}

/// Waits until a name has these addresses.
fn wait_for(zonewright: &mut Zonewright, name: &str, wanted: &[&str]) {
    let server = zonewright.address();
    let what = format!("{name} has {wanted:?}");
    zonewright.wait_for(&what, PATIENCE, || {
        let found = crate::support::zonewright::addresses(server, name)?;
        (found == wanted).then_some(())
    });
}

/// Waits until `status` names the missing API, or no longer does.
fn wait_for_absence(zonewright: &Zonewright, is_absent: bool) {
    let found = crate::support::process::poll_for(
        crate::support::process::now() + PATIENCE,
        Duration::from_millis(50),
        || {
            let problems = zonewright.status()["problems"].to_string();
            (problems.contains(ABSENT) == is_absent).then_some(())
        },
    );
    assert!(found.is_some(), "{}", zonewright.status());
}

/// The response code for the SOA of a zone.
fn rcode(zonewright: &Zonewright, zone: &str) -> u16 {
    let query = wire::Query::new(zone, wire::SOA);
    wire::udp(zonewright.address(), &query).unwrap().rcode()
}

/// Imports are names, PTRs and causes.
fn check_use(server: &ApiServer, zonewright: &mut Zonewright) {
    server.create(&import("web", "10.42.0.1"));
    wait_for(zonewright, "web.blue.svc.clusterset.local", &["10.42.0.1"]);
    headless().iter().for_each(|object| {
        server.create(object);
    });
    wait_for(
        zonewright,
        "db-0.east.db.blue.svc.clusterset.local",
        &["10.77.0.1"],
    );
    let reverse = zonewright.served("10.in-addr.arpa").join("\n");
    for target in [
        "web.blue.svc.clusterset.local.",
        "db-0.east.db.blue.svc.clusterset.local.",
    ] {
        assert!(reverse.contains(target), "{reverse}");
    }
    let versions = zonewright.versions("clusterset.local");
    let causes: Vec<String> = versions.iter().map(|it| it["causes"].to_string()).collect();
    let by = |kind: &str| causes.iter().any(|text| text.contains(kind));
    assert!(by("ServiceImport") && by("EndpointSlice"), "{causes:?}");
}

#[test]
fn imports_come_and_go_with_their_api_and_the_rest_goes_on() {
    if needs::lacks(&["apiserver", "openssl"]) {
        return;
    }
    let server = ApiServer::start();
    server.create(&json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "blue" },
    }));
    rbac::grant(&server, &["multicluster"]);
    let mut zonewright = Zonewright::prepare(&ZONES);
    zonewright.configure(&format!(
        "    kubernetes {{\n        kubeconfig {}\n        multicluster \
         clusterset.local\n    }}\n    transfer {{\n        allow 127.0.0.1\n    }}\n",
        server.kubeconfig(Access::Limited).display()
    ));
    zonewright.spawn();

    // The API is missing: the cluster's own zones are served, and soon nothing waits for the others.
    check_the_rest(&server, &mut zonewright, "first");
    wait_for_absence(&zonewright, true);
    assert_eq!(
        rcode(&zonewright, "clusterset.local"),
        2,
        "no data is not \"no such name\""
    );
    let ready = crate::support::process::poll_for(
        crate::support::process::now() + PATIENCE,
        Duration::from_millis(50),
        || zonewright.ready().filter(|(code, _)| *code == 200),
    );
    assert!(ready.is_some(), "{:?}", zonewright.ready());

    // The API appears.
    server.create(&definition());
    let address = zonewright.address();
    zonewright.wait_for("a version of clusterset.local", PATIENCE, || {
        wire::serial(address, "clusterset.local")
    });
    wait_for_absence(&zonewright, false);

    check_use(&server, &mut zonewright);

    // It disappears with its objects.
    server.delete(&object_path(&definition()));
    wait_for_absence(&zonewright, true);
    check_the_rest(&server, &mut zonewright, "second");
    assert_eq!(
        rcode(&zonewright, "clusterset.local"),
        0,
        "the last version stands"
    );
    assert_eq!(zonewright.ready().map(|(code, _)| code), Some(200));

    // It appears again.
    let created = crate::support::process::poll_for(
        crate::support::process::now() + PATIENCE,
        Duration::from_millis(200),
        || server.get(&object_path(&definition())).err(),
    );
    assert!(created.is_some(), "the definition is gone");
    server.create(&definition());
    wait_for_absence(&zonewright, false);
    check_the_rest(&server, &mut zonewright, "third");
}

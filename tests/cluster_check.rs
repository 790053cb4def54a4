//! Proves the API server harness, on which the tests of the Kubernetes source depend.

use crate::support::apiserver::{Access, ApiServer, object_path};
use crate::support::needs;
use crate::support::process::now;
use serde_json::json;

/// One server for all steps, as each start takes seconds.
#[test]
fn api_server_does_what_cluster_tests_need() {
    if needs::lacks(&["apiserver", "openssl"]) {
        return;
    }
    let mut server = ApiServer::start();
    check_objects(&server);
    check_roles(&server);
    check_many(&server);
    check_history_can_be_lost(&mut server);
}

/// Created, applied, merged, deleted objects.
fn check_objects(server: &ApiServer) {
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "namespace": "default", "name": "web" },
        "spec": { "type": "LoadBalancer", "ipFamilyPolicy": "PreferDualStack",
                  "ports": [{ "name": "http", "port": 80 }] },
    });
    let created = server.create(&service);
    assert_eq!(
        created["spec"]["clusterIPs"].as_array().unwrap().len(),
        2,
        "{created}"
    );
    let path = object_path(&service);
    let change = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }] } } });
    let patched = server.patch(&format!("{path}/status"), &change);
    assert_eq!(
        patched["status"]["loadBalancer"]["ingress"][0]["ip"],
        "192.0.2.1"
    );
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": { "namespace": "default", "name": "web-1",
                      "labels": { "kubernetes.io/service-name": "web" } },
        "endpoints": [{ "addresses": ["10.0.0.1"] }], "ports": [{ "name": "http", "port": 8080 }],
    });
    let applied = server.apply(&slice, "tests");
    assert_eq!(applied["metadata"]["managedFields"][0]["manager"], "tests");
    assert!(
        server
            .kubectl(&["get", "endpointslices", "-A", "-o", "name"])
            .contains("web-1")
    );
    server.delete(&path);
    assert_eq!(server.get(&path).unwrap_err().code, 404);
}

/// The limited user has no rights at first, and then those of a role.
fn check_roles(server: &ApiServer) {
    let list = || server.request(Access::Limited, http::Method::GET, "/api/v1/services", None);
    assert_eq!(list().unwrap_err().code, 403);
    let rbac = "rbac.authorization.k8s.io";
    server.create(&json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": { "name": "reader" },
        "rules": [{ "apiGroups": [""], "resources": ["services"], "verbs": ["list", "watch"] }],
    }));
    server.create(&json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding",
        "metadata": { "name": "reader" },
        "roleRef": { "apiGroup": rbac, "kind": "ClusterRole", "name": "reader" },
        "subjects": [{ "apiGroup": rbac, "kind": "User", "name": Access::Limited.user() }],
    }));
    server.wait_for(
        "the role is in force",
        std::time::Duration::from_secs(10),
        || list().ok(),
    );
}

/// Many objects at once.
fn check_many(server: &ApiServer) {
    let namespaces: Vec<_> = (0..200)
        .map(|number| {
            json!({ "apiVersion": "v1", "kind": "Namespace",
                              "metadata": { "name": format!("many-{number}") } })
        })
        .collect();
    let start = now();
    server.create_all(&namespaces, 16);
    eprintln!("200 namespaces in {:?}", now() - start);
    let list = server.get("/api/v1/namespaces").unwrap();
    assert!(list["items"].as_array().unwrap().len() > 200);
}

/// A watch from before a compaction is answered with 410 once the server's own memory is gone; a
/// stopped server refuses, and comes back on the same port.
fn check_history_can_be_lost(server: &mut ApiServer) {
    let old = server.resource_version();
    server.create(
        &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "later" } }),
    );
    let watch = format!("/api/v1/namespaces?watch=1&timeoutSeconds=1&resourceVersion={old}");
    let text = |server: &ApiServer| {
        let request = http::Request::get(&watch).body(Vec::new()).unwrap();
        server.block_on(server.client(Access::Admin).request_text(request))
    };
    assert!(text(server).unwrap().contains("later"));
    server.expire_watches();
    let answer = text(server);
    let lines = format!("{answer:?}");
    assert!(
        lines.contains("410") || lines.contains("too old resource version"),
        "{lines}"
    );
    server.kill();
    assert_eq!(server.get("/api/v1/namespaces").unwrap_err().code, 0);
    server.resume();
    assert!(server.get("/api/v1/namespaces/later").is_ok());
}

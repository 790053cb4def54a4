//! Signed notes in a ConfigMap of a real API server, with the rights of `deploy/components/notes` and no others.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::support::apiserver::{Access, ApiServer};
use crate::support::evidence::{check_with_openssl_in, make_keys_in};
use crate::support::zonewright::Zonewright;
use crate::support::{needs, process, rbac};

/// The time limit of each wait.
const PATIENCE: Duration = Duration::from_secs(60);
/// The namespace of the role in the file.
const NAMESPACE: &str = "kube-system";
/// The ConfigMap that the role names.
const CONFIG_MAP: &str = "/api/v1/namespaces/kube-system/configmaps/zonewright-notes";

/// Binds the Role of the component to the limited user; its path.
fn grant_notes(server: &ApiServer) -> String {
    let text = fs::read_to_string("deploy/components/notes/rbac.yaml").expect("it is there");
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).expect("it is YAML");
    let mut binding = Value::Null;
    for mut object in documents {
        assert_eq!(object["metadata"]["namespace"], NAMESPACE);
        if object["kind"] == "RoleBinding" {
            object["subjects"] = json!([{
                "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": Access::Limited.user(),
            }]);
            binding = object.clone();
        }
        server.create(&object);
    }
    crate::support::apiserver::object_path(&binding)
}

/// The note in the ConfigMap: its text, and its signature in base64.
fn note_of(server: &ApiServer) -> Option<(String, String)> {
    let object = server.get(CONFIG_MAP).ok()?;
    let text = object["data"]["note.json"].as_str()?.to_owned();
    let signature = object["binaryData"]["note.json.sig"].as_str()?.to_owned();
    Some((text, signature))
}

#[test]
fn a_config_map_has_the_newest_note_and_the_server_may_write_no_other() {
    if needs::lacks(&["apiserver", "openssl"]) {
        return;
    }
    let server = ApiServer::start();
    rbac::grant(&server, &[]);
    server.create(&json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "namespace": "default", "name": "web" },
        "spec": { "clusterIP": "10.96.0.70", "ports": [{ "name": "http", "port": 80 }] },
    }));
    let mut zonewright = Zonewright::prepare(&["cluster.local"]);
    make_keys_in(zonewright.folder());
    let kubeconfig = server.kubeconfig(Access::Limited);
    zonewright.configure(&format!(
        "    kubernetes {{\n        kubeconfig {}\n    }}\n    history {{\n        sign {}\n        \
         note configmap {NAMESPACE}/zonewright-notes\n        note_every 1s\n    }}\n",
        kubeconfig.display(),
        zonewright.folder().join("key.pem").display()
    ));
    zonewright.start();
    let failing = |zonewright: &Zonewright| {
        let line = zonewright.status()["notes"][0].clone();
        assert_eq!(line["to"], "configmap kube-system/zonewright-notes");
        line["error"].as_str().map(ToOwned::to_owned)
    };
    // Without the right nothing else is missing.
    let error = wait(&zonewright, "the error", || failing(&zonewright));
    let fix = "give the account create and patch on the ConfigMap zonewright-notes in kube-system";
    assert!(error.contains(fix), "{error}");
    assert!(zonewright.serial("cluster.local").is_some());
    let binding = grant_notes(&server);
    let newest = |zonewright: &Zonewright| {
        let serial = zonewright.serial("cluster.local")?;
        let (text, signature) = note_of(&server)?;
        let note: Value = serde_json::from_str(&text).expect("it is JSON");
        let has_it = note["zones"][0]["serial"] == serial;
        has_it.then_some((text, signature))
    };
    let first = wait(&zonewright, "a note", || newest(&zonewright));
    check(&zonewright, &first);
    // It is changed with the zone.
    let service = "/api/v1/namespaces/default/services/web";
    let ports = json!({ "spec": { "ports": [{ "name": "https", "port": 443 }] } });
    let before = zonewright.serial("cluster.local");
    server.patch(service, &ports);
    wait(&zonewright, "a version", || {
        (zonewright.serial("cluster.local") != before).then_some(())
    });
    let second = wait(&zonewright, "its note", || newest(&zonewright));
    assert_ne!(first.0, second.0);
    check(&zonewright, &second);
    assert_eq!(failing(&zonewright), None);
    check_rights(&server);
    // The right is lost, and comes back.
    server.delete(&binding);
    wait(&zonewright, "the error", || failing(&zonewright));
    zonewright.stop();
}

/// Waits until a condition gives a value.
fn wait<T>(zonewright: &Zonewright, what: &str, condition: impl FnMut() -> Option<T>) -> T {
    process::wait_for(what, PATIENCE, || zonewright.log(), condition)
}

/// Checks a note with openssl and with the history.
fn check(zonewright: &Zonewright, (text, signature): &(String, String)) {
    let folder = zonewright.folder();
    check_with_openssl_in(folder, &text.replace("z", "y"), signature, false);
    check_with_openssl_in(folder, text, signature, true);
    let file = |name: &str| folder.join(name).display().to_string();
    let said = zonewright.command(&[
        "verify",
        "--note",
        &file("note.json"),
        "--key",
        &file("public.pem"),
    ]);
    assert!(said.contains("good; notes: 1, "), "{said}");
    assert!(said.contains("nothing was changed since"), "{said}");
}

/// The account may neither read this ConfigMap nor write another, and used no other verb than `patch`.
fn check_rights(server: &ApiServer) {
    let body = json!({ "data": { "a": "b" } });
    let patch = Some(("application/merge-patch+json", &body));
    for (method, path, body) in [
        (Method::GET, CONFIG_MAP.to_owned(), None),
        (Method::DELETE, CONFIG_MAP.to_owned(), None),
        (Method::PATCH, format!("{CONFIG_MAP}-other"), patch),
        (
            Method::PATCH,
            CONFIG_MAP.replace("kube-system", "default"),
            patch,
        ),
    ] {
        let refused = server.request(Access::Limited, method.clone(), &path, body);
        assert_eq!(
            refused.expect_err("it is refused").code,
            403,
            "{method} {path}"
        );
    }
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "namespace": NAMESPACE, "name": "other" },
    });
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let json = Some(("application/json", &object));
    let refused = server.request(Access::Limited, Method::POST, &path, json);
    assert_eq!(refused.expect_err("it is refused").code, 403);
    let used: BTreeSet<String> = server
        .limited_requests()
        .into_iter()
        .filter(|(_, kind)| kind == "configmaps")
        .map(|(verb, _)| verb)
        .collect();
    assert!(used.contains("patch"), "{used:?}");
}

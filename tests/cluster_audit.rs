//! Who asked the API server for a change: the history beside the audit log of a real kube-apiserver.

use std::process::Command;
use std::time::Duration;

use crate::support::apiserver::{Access, ApiServer, object_path};
use crate::support::zonewright::{Zonewright, addresses};
use crate::support::{needs, process};
use serde_json::{Value, json};

/// The time limit of each wait.
const PATIENCE: Duration = Duration::from_secs(60);
/// Namespaces whose writes are in the audit log: with their answers, and without.
const NAMESPACES: [&str; 2] = ["audited", "audited-briefly"];

fn service(namespace: &str, host: u8) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "namespace": namespace, "name": "web" },
        "spec": { "clusterIP": format!("10.96.0.{host}"), "ports": [{ "name": "http", "port": 80 }] },
    })
}

/// The requests of all causes in lines of JSON, as `cause verb: user verb proven`.
fn requests(lines: &str) -> Vec<String> {
    fn collect(json: &Value, found: &mut Vec<String>) {
        match json {
            Value::Array(values) => values.iter().for_each(|value| collect(value, found)),
            Value::Object(fields) if fields.contains_key("verb") => {
                let request = &json["request"];
                assert!(
                    request.is_null() || request["sourceIps"] == json!(["127.0.0.1"]),
                    "{json}"
                );
                let text = |value: &Value| value.to_string().replace('"', "");
                found.push(format!(
                    "{} {}: {} {} {}",
                    text(&json["verb"]),
                    text(&json["kind"]),
                    text(&request["user"]),
                    text(&request["verb"]),
                    text(&request["proven"]),
                ));
            }
            Value::Object(fields) => fields.values().for_each(|value| collect(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut found = Vec::new();
    for line in lines.lines() {
        collect(&serde_json::from_str(line).unwrap(), &mut found);
    }
    found.dedup();
    found
}

/// Waits for a version that a change causes.
fn change(zonewright: &Zonewright, change: impl FnOnce()) {
    let versions = || zonewright.versions("cluster.local").len();
    let before = versions();
    change();
    let end = process::now() + PATIENCE;
    let found = process::poll_for(end, Duration::from_millis(50), || {
        (versions() > before).then_some(())
    });
    assert!(found.is_some(), "{}", zonewright.log());
}

/// An API server with a Service in each namespace, and a zonewright that has them.
fn site() -> (ApiServer, Zonewright) {
    let server = ApiServer::start();
    for (namespace, host) in NAMESPACES.into_iter().zip([70, 71]) {
        server.create(&json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace },
        }));
        server.apply(&service(namespace, host), "carol");
    }
    let mut zonewright = Zonewright::prepare(&["cluster.local"]);
    let kubeconfig = server.kubeconfig(Access::Admin);
    zonewright.configure(&format!(
        "    kubernetes {{\n        kubeconfig {}\n    }}\n",
        kubeconfig.display()
    ));
    zonewright.start();
    let address = zonewright.address();
    zonewright.wait_for("the names", PATIENCE, || {
        let is_there = |namespace| {
            let name = format!("web.{namespace}.svc.cluster.local");
            addresses(address, &name).is_some_and(|found| !found.is_empty())
        };
        NAMESPACES.into_iter().all(is_there).then_some(())
    });
    (server, zonewright)
}

#[test]
fn the_audit_log_names_the_user_of_each_change_proven_where_it_has_the_answers() {
    if needs::lacks(&["apiserver"]) {
        return;
    }
    let (server, zonewright) = site();
    let log = server.audit_log();
    let log = log.to_str().unwrap();
    for (namespace, proven) in NAMESPACES.into_iter().zip(["true", "false"]) {
        let name = format!("web.{namespace}.svc.cluster.local");
        let asked = |arguments: &[&str]| {
            let rest = ["--output", "json", "--audit-log", log];
            requests(&zonewright.command(&[arguments, &rest].concat()))
        };
        // What made the newest version that changed the name.
        let newest = || asked(&["log", "cluster.local", "--name", &name, "-n", "1"]);
        let listed = format!("listed Service: admin patch {proven}");
        assert_eq!(asked(&["blame", "cluster.local", &name]), [listed]);

        let path = object_path(&service(namespace, 0));
        let port = json!({ "spec": { "ports": [{ "name": "https", "port": 443 }] } });
        change(&zonewright, || drop(server.patch(&path, &port)));
        let patched = format!("applied Service: admin patch {proven}");
        assert_eq!(newest(), [patched]);

        change(&zonewright, || server.delete(&path));
        let deleted = format!("deleted Service: admin delete {proven}");
        assert_eq!(newest(), [deleted]);
    }
    let text = zonewright.command(&["log", "cluster.local", "-n", "1", "--audit-log", log]);
    assert!(
        text.contains("\n        probably requested by admin from 127.0.0.1 at "),
        "{text}"
    );
    // A file that is no audit log.
    let refused = Command::new(needs::zonewright())
        .args([
            "blame",
            "cluster.local",
            "--audit-log",
            "Corefile",
            "--state",
        ])
        .arg(zonewright.state())
        .current_dir(zonewright.folder())
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(
        error.starts_with("Corefile:1: this is no event of an audit log"),
        "{error}"
    );
}

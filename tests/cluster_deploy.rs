//! `deploy/` in a cluster: a real API server takes what kustomize renders, and zonewright runs with the rights it gives.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::apiserver::{Access, ApiServer, Refusal};
use crate::support::needs;
use crate::support::process::{now, poll_for};
use crate::support::product::copy_folder;
use crate::support::zonewright::Zonewright;

const OVERLAYS: [&str; 3] = ["cluster-dns", "beside-coredns", "hidden-primary"];
const COMPONENTS: [&str; 4] = [
    "pods-verified",
    "multicluster",
    "network-policy",
    "monitoring",
];

/// The objects of an overlay with components, as kustomize renders them.
fn render(overlay: &str, components: &[&str]) -> String {
    // What kustomize includes must be below, so the copy of `deploy` is, too.
    let folder = tempfile::tempdir().expect("a folder");
    copy_folder(Path::new("deploy"), &folder.path().join("deploy"));
    let components: Vec<String> = components
        .iter()
        .map(|it| format!("deploy/components/{it}"))
        .collect();
    let kustomization = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "resources": [format!("deploy/overlays/{overlay}")], "components": components,
    });
    let file = folder.path().join("kustomization.yaml");
    fs::write(file, kustomization.to_string()).expect("the folder can be written");
    let output = Command::new(needs::program("kubectl"))
        .arg("kustomize")
        .arg(folder.path())
        .output()
        .expect("kubectl runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("YAML is text")
}

fn objects(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).expect("kustomize writes YAML")
}

/// The pod of the overlay's Deployment, in a namespace of its own.
fn pod_of(text: &str, namespace: &str) -> Value {
    let objects = objects(text);
    let deployment = objects
        .iter()
        .find(|it| it["kind"] == "Deployment")
        .expect("a Deployment");
    let mut pod = deployment["spec"]["template"].clone();
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!("zonewright");
    pod["metadata"]["namespace"] = json!(namespace);
    // Its account and priority belong to other namespaces.
    let spec = pod["spec"].as_object_mut().expect("a spec");
    spec.remove("serviceAccountName");
    spec.remove("priorityClassName");
    pod
}

fn create(server: &ApiServer, object: &Value) -> Result<Value, Refusal> {
    let namespace = object["metadata"]["namespace"]
        .as_str()
        .expect("a namespace");
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let body = Some(("application/json", object));
    server.request(Access::Admin, http::Method::POST, &path, body)
}

#[test]
fn a_cluster_takes_each_overlay_twice_and_the_second_time_nothing_differs() {
    if needs::lacks(&["apiserver", "openssl", "crds"]) {
        return;
    }
    let server = ApiServer::start();
    let crds = needs::program("kubectl").with_file_name("crds");
    let crds = crds.to_str().expect("a path is text");
    server.kubectl(&["apply", "--server-side", "-f", crds]);
    let folder = tempfile::tempdir().expect("a folder");
    for overlay in OVERLAYS {
        for components in [&[][..], &COMPONENTS, &["noendpoints"]] {
            let file = folder.path().join("objects.yaml");
            fs::write(&file, render(overlay, components)).expect("the folder can be written");
            let apply = |file: &Path| {
                let file = file.to_str().expect("a path is text");
                let apply = [
                    "apply",
                    "--server-side",
                    "--force-conflicts",
                    "--validate=strict",
                    "-f",
                    file,
                ];
                server.kubectl(&apply);
                // Fails when there is a difference.
                server.kubectl(&["diff", "--server-side", "-f", file]);
            };
            // The kinds of the operator are known a moment after their definitions.
            let limit = now() + Duration::from_secs(30);
            let is_known = poll_for(limit, Duration::from_millis(200), || {
                let kinds = server.kubectl(&["api-resources", "-o", "name"]);
                kinds.contains("prometheusrules").then_some(())
            });
            assert!(is_known.is_some(), "the definitions count");
            apply(&file);
            apply(&file);
        }
    }
}

#[test]
fn pods_are_allowed_where_only_restricted_pods_are() {
    if needs::lacks(&["apiserver", "openssl"]) {
        return;
    }
    let server = ApiServer::start();
    let namespace = "strict";
    server.create(&json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": namespace, "labels": { "pod-security.kubernetes.io/enforce": "restricted" } },
    }));
    server.create(&json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default", "namespace": namespace },
    }));
    for overlay in OVERLAYS {
        let pod = pod_of(&render(overlay, &[]), namespace);
        let created = create(&server, &pod);
        assert!(created.is_ok(), "{overlay}: {created:?}");
        server.delete(&format!("/api/v1/namespaces/{namespace}/pods/zonewright"));
        let mut planted = pod;
        let container = &mut planted["spec"]["containers"][0];
        container["securityContext"]["capabilities"]["add"] = json!(["NET_ADMIN"]);
        let refused = create(&server, &planted).expect_err("a capability");
        assert!(refused.message.contains("restricted"), "{refused:?}");
    }
}

/// Verb and kind of each right that a rendered role gives.
fn rights(text: &str) -> BTreeSet<(String, String)> {
    let texts = |value: &Value| -> Vec<String> {
        let values = value.as_array().expect("a list").iter();
        values
            .map(|it| it.as_str().expect("a text").to_owned())
            .collect()
    };
    let mut found = BTreeSet::new();
    for role in objects(text)
        .iter()
        .filter(|it| it["kind"] == "ClusterRole")
    {
        for rule in role["rules"].as_array().expect("a list of rules") {
            for resource in texts(&rule["resources"]) {
                let pairs = texts(&rule["verbs"])
                    .into_iter()
                    .map(|verb| (verb, resource.clone()));
                found.extend(pairs);
            }
        }
    }
    found
}

#[test]
fn the_server_uses_each_right_of_its_role_and_needs_no_other() {
    if needs::lacks(&["apiserver", "openssl"]) {
        return;
    }
    for (components, options) in [
        (&[][..], ""),
        (&["pods-verified"], "pods verified"),
        (&["noendpoints"], "noendpoints"),
    ] {
        let server = ApiServer::start();
        let text = render("hidden-primary", components);
        for object in objects(&text) {
            match object["kind"].as_str() {
                Some("ClusterRole") => drop(server.create(&object)),
                Some("ClusterRoleBinding") => {
                    let mut bound = object;
                    bound["subjects"] = json!([{
                        "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": Access::Limited.user(),
                    }]);
                    server.create(&bound);
                }
                _ => {}
            }
        }
        let mut zonewright = Zonewright::prepare(&["cluster.local"]);
        let kubeconfig = server.kubeconfig(Access::Limited);
        zonewright.configure(&format!(
            "    kubernetes {{\n        kubeconfig {}\n        {options}\n    }}\n",
            kubeconfig.display()
        ));
        zonewright.start();
        let limit = now() + Duration::from_secs(30);
        let used = poll_for(limit, Duration::from_millis(100), || {
            let used: BTreeSet<_> = server.limited_requests().into_iter().collect();
            (used == rights(&text)).then_some(())
        });
        assert!(used.is_some(), "{options}: {:?}", server.limited_requests());
        assert_eq!(zonewright.status()["problems"], json!([]), "{options}");
        zonewright.stop();
    }
}

//! `deploy/` in a cluster: a real API server takes what kustomize renders, and zonewright runs with the rights it gives.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::apiserver::{Access, ApiServer, Refusal};
use crate::support::needs;
use crate::support::process::{now, poll_for};
use crate::support::product::copy_folder;
use crate::support::service_imports::definition;
use crate::support::zonewright::Zonewright;

const CHART: &str = "deploy/chart/zonewright";
const OVERLAYS: [&str; 3] = ["cluster-dns", "beside-coredns", "hidden-primary"];
const COMPONENTS: [&str; 7] = [
    "history-api",
    "multicluster",
    "notes",
    "pods-verified",
    "replicas",
    "network-policy",
    "monitoring",
];

/// The namespace of an overlay, and the values with which the chart renders it.
fn chart_of(overlay: &str) -> (&'static str, &'static [&'static str]) {
    match overlay {
        "hidden-primary" => ("zonewright", &[]),
        "cluster-dns" => ("kube-system", &["cluster-dns.yaml"]),
        "beside-coredns" => ("kube-system", &["beside-coredns.yaml"]),
        other => panic!("no overlay {other}"),
    }
}

/// The setting of the chart that stands for a component.
fn setting_of(component: &str) -> &'static str {
    match component {
        "pods-verified" => "rbac.podsVerified=true",
        "multicluster" => "rbac.multicluster=true",
        "noendpoints" => "rbac.noendpoints=true",
        "notes" => "rbac.notes=true",
        "history-api" => "rbac.historyApi=true",
        "replicas" => "rbac.replicas=true",
        "network-policy" => "networkPolicy.enabled=true",
        "monitoring" => "monitoring.enabled=true",
        other => panic!("no component {other}"),
    }
}

/// Runs Helm 3 or 4 with the chart.
fn helm(program: &str, command: &[&str], arguments: &[String]) -> String {
    let home = tempfile::tempdir().expect("a folder");
    let output = Command::new(needs::program(program))
        .envs(["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"].map(|it| (it, home.path())))
        .args(command)
        .args(arguments)
        .output()
        .expect("helm runs");
    assert!(
        output.status.success(),
        "{program} {command:?} {arguments:?}: {output:?}"
    );
    String::from_utf8(output.stdout).expect("YAML is text")
}

/// The objects of the chart that stand for an overlay with components.
fn chart(program: &str, overlay: &str, components: &[&str], more: &[String]) -> String {
    let (namespace, files) = chart_of(overlay);
    let mut arguments = vec!["--namespace".to_owned(), namespace.to_owned()];
    for file in files {
        arguments.extend(["--values".to_owned(), format!("{CHART}/{file}")]);
    }
    for component in components {
        arguments.extend(["--set".to_owned(), setting_of(component).to_owned()]);
    }
    arguments.extend(more.iter().cloned());
    helm(program, &["template", "zonewright", CHART], &arguments)
}

/// The sets of components that are tried with each overlay.
const COMPONENT_SETS: [&[&str]; 3] = [&[], &COMPONENTS, &["noendpoints"]];

/// The objects of an overlay with components, as kustomize renders them.
fn render(overlay: &str, components: &[&str]) -> String {
    render_beside(overlay, components, &[])
}

/// As [`render`], with objects of the user in the same kustomization.
fn render_beside(overlay: &str, components: &[&str], others: &[Value]) -> String {
    // What kustomize includes must be below, so the copy of `deploy` is, too.
    let folder = tempfile::tempdir().expect("a folder");
    copy_folder(Path::new("deploy"), &folder.path().join("deploy"));
    let components: Vec<String> = components
        .iter()
        .map(|it| format!("deploy/components/{it}"))
        .collect();
    let mut resources = vec![format!("deploy/overlays/{overlay}")];
    for (number, object) in others.iter().enumerate() {
        let file = format!("other-{number}.yaml");
        fs::write(folder.path().join(&file), object.to_string())
            .expect("the folder can be written");
        resources.push(file);
    }
    let kustomization = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        // As in docs/install.md: the components are in the overlay's namespace.
        "namespace": chart_of(overlay).0,
        "resources": resources, "components": components,
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

/// Objects by kind, namespace and name.
fn by_name(text: &str) -> BTreeMap<String, Value> {
    let named = objects(text).into_iter().map(|it| {
        let metadata = &it["metadata"];
        let name = format!(
            "{} {} {}",
            it["kind"], metadata["namespace"], metadata["name"]
        );
        (name, it)
    });
    named.collect()
}

#[test]
fn the_chart_and_kustomize_render_the_same_objects() {
    if needs::lacks(&["apiserver", "helm"]) {
        return;
    }
    let skip_tests = ["--skip-tests".to_owned()];
    for overlay in OVERLAYS {
        for components in COMPONENT_SETS {
            let mut wanted = by_name(&render(overlay, components));
            // Helm makes the namespace of a release by itself.
            wanted.retain(|name, _| !name.starts_with("\"Namespace\""));
            for program in ["helm3", "helm4"] {
                let found = by_name(&chart(program, overlay, components, &skip_tests));
                let names = |all: &BTreeMap<String, Value>| all.keys().cloned().collect::<Vec<_>>();
                assert_eq!(
                    names(&found),
                    names(&wanted),
                    "{program} {overlay} {components:?}"
                );
                for (name, object) in &wanted {
                    assert_eq!(
                        &found[name], object,
                        "{program} {overlay} {components:?} {name}"
                    );
                }
            }
        }
    }
    for program in ["helm3", "helm4"] {
        helm(program, &["lint", "--strict", CHART], &[]);
    }
    let planted = ["--set".to_owned(), "replicaCount=3".to_owned()];
    let changed = by_name(&chart("helm4", "cluster-dns", &[], &planted));
    let wanted = by_name(&render("cluster-dns", &[]));
    let name = r#""Deployment" "kube-system" "zonewright""#;
    assert_ne!(changed[name], wanted[name]);
}

#[test]
fn the_chart_refuses_values_of_which_one_would_be_ignored() {
    if needs::lacks(&["helm"]) {
        return;
    }
    let render = |program: &str, values: &[&str]| {
        let home = tempfile::tempdir().expect("a folder");
        let output = Command::new(needs::program(program))
            .envs(
                ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"]
                    .map(|it| (it, home.path())),
            )
            .args(["template", "zonewright", CHART])
            .args(values.iter().flat_map(|value| ["--set", value]))
            .output()
            .expect("helm runs");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        output.status.success().then_some(()).ok_or(error)
    };
    let servers = "servers[0].plugins[0].name=health,servers[0].plugins[1].name=ready";
    let one = "the Corefile comes from one of existingConfigMap, corefile and servers";
    for program in ["helm3", "helm4"] {
        for (values, why) in [
            (&["existingConfigMap=a", "corefile=b"][..], one),
            (&["corefile=b", servers], "corefile and servers are set"),
            (&["existingConfigMap=a", servers], one),
            (
                &["replicaCount=2"],
                "set replicaCount to 1, or persistence.enabled to false",
            ),
        ] {
            let refused = render(program, values);
            let error = refused.expect_err("the values contradict each other");
            assert!(error.contains(why), "{program} {values:?}: {error}");
        }
        for values in [
            &["existingConfigMap=a"][..],
            &[servers],
            &["replicaCount=2", "persistence.enabled=false"],
            &["replicaCount=0"],
        ] {
            assert_eq!(render(program, values), Ok(()), "{program} {values:?}");
        }
    }
}

/// A pod without them is never ready, and is restarted for ever.
#[test]
fn the_chart_refuses_a_corefile_without_what_the_probes_ask() {
    if needs::lacks(&["helm"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let render = |program: &str, corefile: &str, more: &[&str]| {
        let file = folder.path().join("Corefile");
        fs::write(&file, corefile).expect("the folder can be written");
        let output = Command::new(needs::program(program))
            .envs(
                ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"]
                    .map(|it| (it, folder.path())),
            )
            .args(["template", "zonewright", CHART, "--set-file"])
            .arg(format!("corefile={}", file.display()))
            .args(more.iter().flat_map(|value| ["--set", value]))
            .output()
            .expect("helm runs");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        output.status.success().then_some(()).ok_or(error)
    };
    let probe = |name: &str| format!("{name}.httpGet.port=1");
    let [live, start, ready] = ["livenessProbe", "startupProbe", "readinessProbe"].map(probe);
    for program in ["helm3", "helm4"] {
        for (corefile, more, why) in [
            (". {\n    ready\n}\n", &[][..], "corefile lacks `health`"),
            (". {\n    health\n}\n", &[], "corefile lacks `ready`"),
            (
                ". {\n    # health\n    ready\n}\n",
                &[],
                "corefile lacks `health`",
            ),
            (
                ". {\n    ready\n}\n",
                &[live.as_str()],
                "which the startupProbe of the pod asks",
            ),
        ] {
            let error = render(program, corefile, more).expect_err(why);
            assert!(error.contains(why), "{program} {corefile}: {error}");
        }
        for (corefile, more) in [
            (
                ". {\n    health {\n        lameduck 5s\n    }\n    ready\n}\n",
                &[][..],
            ),
            (". {\n    import more/*.conf\n}\n", &[]),
            (". {\n    ready\n}\n", &[live.as_str(), start.as_str()]),
            (". {\n    health\n}\n", &[ready.as_str()]),
        ] {
            assert_eq!(
                render(program, corefile, more),
                Ok(()),
                "{program} {corefile}"
            );
        }
    }
}

/// It was nearly hidden-primary: nothing said that it is for after cluster-dns.yaml.
#[test]
fn the_values_beside_coredns_are_the_same_alone_and_after_those_of_cluster_dns() {
    if needs::lacks(&["helm"]) {
        return;
    }
    let after = ["--values".to_owned(), format!("{CHART}/cluster-dns.yaml")];
    let own = [
        "--values".to_owned(),
        format!("{CHART}/beside-coredns.yaml"),
    ];
    let both = [after, own.clone()].concat();
    for program in ["helm3", "helm4"] {
        let render = |values: &[String]| helm(program, &["template", "zonewright", CHART], values);
        let alone = render(&own);
        assert_eq!(alone, render(&both), "{program}");
        assert!(alone.contains("k8s-app: kube-dns"), "{alone}");
    }
}

#[test]
fn components_change_no_role_but_that_of_the_overlay() {
    if needs::lacks(&["apiserver"]) {
        return;
    }
    let role = |name: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": name },
            "rules": [
                { "apiGroups": [""], "resources": ["nodes"], "verbs": ["get"] },
                { "apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["get"] },
            ],
        })
    };
    let own = ["zonewright-audit", "my-zonewright", "zonewrights"].map(role);
    for overlay in OVERLAYS {
        for components in COMPONENT_SETS {
            let rendered = by_name(&render_beside(overlay, components, &own));
            for role in &own {
                let name = format!("\"ClusterRole\" null {}", role["metadata"]["name"]);
                assert_eq!(
                    rendered[&name]["rules"], role["rules"],
                    "{overlay} {components:?}"
                );
            }
        }
    }
}

/// A value for each setting of the chart; each text and number is found again in what it renders.
fn all_values() -> Value {
    json!({
        "image": {
            "repository": "zw-repository", "tag": "zw-tag", "pullPolicy": "Always", "pullSecrets": [{ "name": "zw-pull" }],
        },
        // With `persistence` there is one; several are below.
        "replicaCount": 1,
        "rollingUpdate": { "maxUnavailable": 4102, "maxSurge": 4103 },
        "terminationGracePeriodSeconds": 4104,
        "priorityClassName": "zw-priority",
        "podDisruptionBudget": { "maxUnavailable": 4105 },
        "existingConfigMap": "",
        "corefile": "zw-corefile.example",
        "servers": [],
        "configPath": "/zw-path",
        "secondaries": { "configMapName": "zw-secondaries", "secretName": "zw-keys" },
        "persistence": { "enabled": true, "size": "4106Gi", "storageClass": "zw-class" },
        "transferService": {
            "enabled": true, "type": "LoadBalancer", "loadBalancerIP": "192.0.2.41", "loadBalancerClass": "zw.example/balancer",
            "annotations": { "zw.example/service": "zw-service" },
        },
        "resources": { "limits": { "memory": "4107Mi" } },
        "livenessProbe": { "httpGet": { "path": "/zw-live", "port": 4108 } },
        "readinessProbe": { "httpGet": { "path": "/zw-ready", "port": 4109 } },
        "startupProbe": { "httpGet": { "path": "/zw-start", "port": 4110 } },
        "podSecurityContext": { "runAsUser": 4111 },
        "securityContext": { "runAsGroup": 4112 },
        "nodeSelector": { "zw.example/node": "zw-node" },
        "tolerations": [{ "key": "zw-toleration", "operator": "Exists" }],
        "affinity": { "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 41, "podAffinityTerm": { "topologyKey": "zw.example/host" },
        }] } },
        "topologySpreadConstraints": [{
            "maxSkew": 4113, "topologyKey": "zw.example/zone", "whenUnsatisfiable": "ScheduleAnyway",
        }],
        "env": [{ "name": "ZW_VARIABLE", "value": "zw-value" }],
        "initContainers": [{ "name": "zw-init", "image": "zw-init-image" }],
        "extraContainers": [{ "name": "zw-extra", "image": "zw-extra-image" }],
        "extraVolumes": [{ "name": "zw-volume", "emptyDir": {} }],
        "extraVolumeMounts": [{ "name": "zw-volume", "mountPath": "/zw-mount" }],
        "podAnnotations": { "zw.example/pod": "zw-annotation" },
        "podLabels": { "zw.example/label": "zw-label" },
        "customLabels": { "zw.example/all": "zw-all-labels" },
        "customAnnotations": { "zw.example/note": "zw-all-annotations" },
        "serviceAccount": { "create": true, "name": "zw-account", "annotations": { "zw.example/account": "zw-of-account" } },
        "rbac": { "create": true, "podsVerified": true, "multicluster": true, "noendpoints": false, "notes": true, "historyApi": true, "replicas": true },
        "clusterRole": { "nameOverride": "zw-role" },
        "monitoring": { "enabled": true },
        "networkPolicy": { "enabled": true },
    })
}

/// The texts and numbers in a value that can be found again.
fn marks(value: &Value) -> Vec<String> {
    match value {
        Value::Object(fields) => fields.values().flat_map(marks).collect(),
        Value::Array(items) => items.iter().flat_map(marks).collect(),
        Value::String(text) => vec![text.trim_end().to_owned()],
        Value::Number(number) => vec![number.to_string()],
        Value::Null | Value::Bool(_) => Vec::new(),
    }
}

#[test]
fn each_value_of_the_chart_is_in_its_objects_and_a_cluster_takes_them() {
    if needs::lacks(&["apiserver", "openssl", "crds", "helm"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let write = |name: &str, text: &str| {
        fs::write(folder.path().join(name), text).expect("the folder can be written");
    };
    let values = all_values();
    let schema = fs::read_to_string(format!("{CHART}/values.schema.json")).expect("it is there");
    let schema: Value = serde_json::from_str(&schema).expect("it is JSON");
    let keys = |value: &Value| value.as_object().map(|it| it.keys().cloned().collect());
    let mut known: BTreeSet<String> = keys(&schema["properties"]).expect("it has some");
    known.remove("global");
    assert_eq!(
        Some(known),
        keys(&values),
        "each value of the schema is tried"
    );

    write("all.yaml", &values.to_string());
    let servers = json!({
        "replicaCount": 4101,
        "persistence": { "enabled": false },
        "servers": [{
            "zones": [{ "scheme": "tls://", "zone": "zw-zone.example" }], "port": 4114,
            "plugins": [
                { "name": "health" }, { "name": "ready" },
                { "name": "kubernetes", "parameters": "10.41.0.0/16", "configBlock": "ttl 41" },
            ],
        }],
    });
    write("servers.yaml", &servers.to_string());
    let server = ApiServer::start();
    server.create(&json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "zonewright" },
    }));
    install_definitions(&server);
    for program in ["helm3", "helm4"] {
        for (values_file, values) in [("all.yaml", &values), ("servers.yaml", &servers)] {
            let more = [
                "--skip-tests".to_owned(),
                "--values".to_owned(),
                file(values_file),
            ];
            let text = chart(program, "hidden-primary", &[], &more);
            let wanted = marks(values).into_iter().filter(|it| !it.is_empty());
            let lost: Vec<String> = wanted.filter(|it| !text.contains(it.as_str())).collect();
            assert!(lost.is_empty(), "{program} {values_file}: {lost:?}\n{text}");
            write("objects.yaml", &text);
            let objects = file("objects.yaml");
            server.kubectl(&[
                "apply",
                "--dry-run=server",
                "--validate=strict",
                "-f",
                &objects,
            ]);
        }
        // A value that no template reads is refused.
        let unknown = Command::new(needs::program(program))
            .args(["template", "zonewright", CHART, "--set", "replicas=1"])
            .output()
            .expect("helm runs");
        assert!(!unknown.status.success(), "{unknown:?}");
    }
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

/// Teaches the server the kinds of the Prometheus operator.
pub fn install_definitions(server: &ApiServer) {
    let crds = needs::program("kubectl").with_file_name("crds");
    let crds = crds.to_str().expect("a path is text");
    server.kubectl(&["apply", "--server-side", "-f", crds]);
    // They are known a moment after their definitions.
    let limit = now() + Duration::from_secs(30);
    let is_known = poll_for(limit, Duration::from_millis(200), || {
        let kinds = server.kubectl(&["api-resources", "-o", "name"]);
        kinds.contains("prometheusrules").then_some(())
    });
    assert!(is_known.is_some(), "the definitions count");
}

#[test]
fn a_cluster_takes_each_overlay_twice_and_the_second_time_nothing_differs() {
    if needs::lacks(&["apiserver", "openssl", "crds"]) {
        return;
    }
    let server = ApiServer::start();
    install_definitions(&server);
    let folder = tempfile::tempdir().expect("a folder");
    for overlay in OVERLAYS {
        for components in COMPONENT_SETS {
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
            apply(&file);
            apply(&file);
        }
    }
}

#[test]
fn pods_are_allowed_where_only_restricted_pods_are() {
    if needs::lacks(&["apiserver", "openssl", "helm"]) {
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
        let only = ["--show-only", "templates/test.yaml"].map(ToOwned::to_owned);
        let mut test = objects(&chart("helm4", overlay, &[], &only)).remove(0);
        test["metadata"]["namespace"] = json!(namespace);
        let created = create(&server, &test);
        assert!(created.is_ok(), "helm test of {overlay}: {created:?}");
        server.delete(&format!(
            "/api/v1/namespaces/{namespace}/pods/zonewright-test"
        ));
    }
}

#[test]
fn the_plugin_of_kubectl_runs_a_command_in_the_pod() {
    if needs::lacks(&["apiserver", "openssl"]) {
        return;
    }
    let server = ApiServer::start();
    let folder = tempfile::tempdir().expect("a folder");
    // There is no kubelet: what would be run in the pod is printed.
    let kubectl = folder.path().join("kubectl");
    let real = needs::program("kubectl");
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in\n*\" exec \"*) printf '<%s>' \"$@\" ;;\n*) exec {} \"$@\" ;;\nesac\n",
        real.display()
    );
    fs::write(&kubectl, script).expect("the folder can be written");
    fs::set_permissions(&kubectl, Permissions::from_mode(0o755)).expect("it is ours");
    let path = std::env::var("PATH").unwrap_or_default();
    let kubeconfig = server.kubeconfig(Access::Admin);
    let plugin = |arguments: &[&str]| {
        Command::new("deploy/kubectl-zonewright")
            .env("PATH", format!("{}:{path}", folder.path().display()))
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .args(arguments)
            .output()
            .expect("it runs")
    };
    let nobody = plugin(&["status"]);
    let errors = String::from_utf8_lossy(&nobody.stderr);
    assert_eq!(nobody.status.code(), Some(1), "{errors}");
    assert!(errors.contains("no pod"), "{errors}");

    server.create(&json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default", "namespace": "default" },
    }));
    create_pod(&server, "a-gone", "Succeeded");
    create_pod(&server, "b-runs", "Running");
    let config = kubeconfig.display();
    for options in [&[][..], &["-n", "default"], &["--namespace=default"]] {
        let output = plugin(&[options, &["log", "-n", "5", "two words"]].concat());
        let said = String::from_utf8_lossy(&output.stdout);
        let wanted = format!(
            "<--kubeconfig={config}><exec><--stdin><--namespace=default><--container=zonewright><b-runs><--></zonewright><log><-n><5><two words>"
        );
        assert_eq!(said, wanted, "{options:?}: {output:?}");
    }
    let elsewhere = plugin(&["-n", "kube-system", "status"]);
    assert_eq!(elsewhere.status.code(), Some(1), "{elsewhere:?}");
    create_pod(&server, "c-runs", "Running");
    check_plugin_of_several_pods(&config.to_string(), &plugin);
}

/// A pod with the labels of ours, in this phase.
fn create_pod(server: &ApiServer, name: &str, phase: &str) {
    server.create(&json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "default", "labels": { "app.kubernetes.io/name": "zonewright" } },
        "spec": { "containers": [{ "name": "zonewright", "image": "zonewright" }] },
    }));
    let path = format!("/api/v1/namespaces/default/pods/{name}/status");
    server.patch(&path, &json!({ "status": { "phase": phase } }));
}

/// With two pods, `b-runs` and `c-runs`: which command is run in which.
fn check_plugin_of_several_pods(config: &str, plugin: &dyn Fn(&[&str]) -> Output) {
    let exec = |pod: &str, arguments: &str| {
        format!(
            "<--kubeconfig={config}><exec><--stdin><--namespace=default><--container=zonewright><{pod}><--></zonewright>{arguments}"
        )
    };
    let both = |arguments: &str| {
        let [one, other] = ["b-runs", "c-runs"].map(|pod| exec(pod, arguments));
        format!("==> default/b-runs <==\n{one}==> default/c-runs <==\n{other}")
    };
    let alone = "this is for pod b-runs of default alone. 1 more run";
    for (arguments, wanted, warning) in [
        (&["status"][..], both("<status>"), ""),
        (&["--all", "log"], both("<log>"), ""),
        (&["--all", "freeze", "z."], both("<freeze><z.>"), ""),
        (&["log"], exec("b-runs", "<log>"), ""),
        (
            &["--pod", "c-runs", "status"],
            exec("c-runs", "<status>"),
            "",
        ),
        (
            &["status", "--watch"],
            exec("b-runs", "<status><--watch>"),
            "",
        ),
        (&["freeze", "z."], exec("b-runs", "<freeze><z.>"), alone),
        (&["reload"], exec("b-runs", "<reload>"), alone),
    ] {
        let output = plugin(arguments);
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            wanted,
            "{output:?}"
        );
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains(warning), "{errors}");
        assert_eq!(errors.is_empty(), warning.is_empty(), "{errors}");
    }
    // What a program reads has no headings.
    let output = plugin(&["status", "-o", "json"]);
    assert!(
        !String::from_utf8_lossy(&output.stdout).contains("==>"),
        "{output:?}"
    );
    let output = plugin(&["--pod=c-runs", "--all", "status"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let output = plugin(&["--pod=a-gone", "status"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
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
        (&["multicluster"], "multicluster clusterset.local"),
    ] {
        let server = ApiServer::start();
        server.create(&definition());
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
        let mut zonewright = Zonewright::prepare(match components {
            ["multicluster"] => &["cluster.local", "clusterset.local"],
            _ => &["cluster.local"],
        });
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
        let used: BTreeSet<_> = server.limited_requests().into_iter().collect();
        assert_eq!(used, rights(&text), "{options}: no other until the end");
    }
}

//! The options of `kubernetes` with a real API server: selectors select the same as the API's, and records follow
//! labels, namespaces and pods.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use crate::support::apiserver::{Access, ApiServer, object_path};
use crate::support::needs;
use crate::support::proxy::Proxy;
use crate::support::rbac;
use crate::support::wire::{self, Query};
use crate::support::zonewright::Zonewright;
use kubernetes::facts::Selector;
use rustix::process::Signal;
use serde_json::{Value, json};

/// The time limit of each wait.
const PATIENCE: Duration = Duration::from_secs(30);

/// An object of `v1` with labels (`a=1,b=`).
fn object(kind: &str, namespace: Option<&str>, name: &str, labels: &str) -> Value {
    let labels: BTreeMap<&str, &str> = labels
        .split(',')
        .filter_map(|label| label.split_once('='))
        .collect();
    let mut object = json!({
        "apiVersion": "v1", "kind": kind, "metadata": { "name": name, "labels": labels },
    });
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object
}

/// A Service in `blue`.
fn service(name: &str, labels: &str) -> Value {
    let mut service = object("Service", Some("blue"), name, labels);
    service["spec"] = json!({ "ports": [{ "name": "http", "port": 80 }] });
    service
}

/// A Pod in `blue`, with an address from its status on.
fn pod(server: &ApiServer, name: &str, labels: &str, addresses: &[&str]) -> String {
    let mut pod = object("Pod", Some("blue"), name, labels);
    pod["spec"] = json!({ "containers": [{ "name": "c", "image": "none" }] });
    server.create(&pod);
    let path = object_path(&pod);
    let ips: Vec<Value> = addresses.iter().map(|ip| json!({ "ip": ip })).collect();
    let status = json!({ "status": { "phase": "Running", "podIP": addresses[0], "podIPs": ips } });
    server.patch(&format!("{path}/status"), &status);
    path
}

/// Waits until the name has these addresses of a type; with none it does not exist.
fn wait_for(zonewright: &mut Zonewright, name: &str, rtype: u16, wanted: &[&str]) {
    let address = zonewright.address();
    let wanted: BTreeSet<&str> = wanted.iter().copied().collect();
    zonewright.wait_for(&format!("{name} has {wanted:?}"), PATIENCE, || {
        let reply = wire::udp(address, &Query::new(name, rtype)).ok()?;
        let rcode = if wanted.is_empty() { 3 } else { 0 };
        let found: BTreeSet<&str> = reply.answers.iter().map(|it| it.data.as_str()).collect();
        (reply.rcode() == rcode && found == wanted).then_some(())
    });
}

/// The address that the API server gave a Service of `blue`.
fn address_of(server: &ApiServer, name: &str) -> String {
    let path = object_path(&service(name, ""));
    let found = server.get(&path).unwrap();
    found["spec"]["clusterIP"].as_str().unwrap().to_owned()
}

/// A selector as part of a URL.
fn encoded(text: &str) -> String {
    text.bytes().map(|octet| format!("%{octet:02X}")).collect()
}

/// The labels of the objects that selectors are tried on.
const LABELS: [&str; 10] = [
    "", "a=", "a=1", "a=2", "a=in", "b=1", "a=1,b=1", "a=2,b=", "in=1", "x.y/a=1",
];

/// The parts of expressions.
const WORDS: [&str; 27] = [
    "a",
    "b",
    "in",
    "notin",
    "x.y/a",
    "1",
    "2",
    "-1",
    "A_b.c",
    "a b",
    "X.y/a",
    "=",
    "==",
    "!=",
    "!",
    ",",
    "(",
    ")",
    " in (1,2)",
    " notin (1)",
    " in ()",
    "=1",
    "!=1",
    "=,",
    " in (,1)",
    " ",
    "a,b",
];

/// The Services that the API server selects; `None` when it refuses the expression.
fn selected_by_api(server: &ApiServer, text: &str) -> Option<BTreeSet<String>> {
    let expression = encoded(text);
    let path = format!("/api/v1/namespaces/blue/services?labelSelector={expression}");
    let list = server.get(&path).ok()?;
    let name = |item: &Value| item["metadata"]["name"].as_str().unwrap().to_owned();
    Some(list["items"].as_array().unwrap().iter().map(name).collect())
}

/// The Services that we select; `None` when we refuse the expression.
fn selected_by_us(text: &str) -> Option<BTreeSet<String>> {
    let selector = Selector::parse(text).ok()?;
    let is_selected = |labels: &str| {
        let pairs = labels.split(',').filter_map(|label| label.split_once('='));
        let labels: BTreeMap<&str, &str> = pairs.collect();
        selector.matches(|key| labels.get(key).copied())
    };
    let selected = LABELS.iter().enumerate();
    let selected = selected.filter(|(_, labels)| is_selected(labels));
    Some(selected.map(|(number, _)| format!("s-{number}")).collect())
}

#[test]
fn selectors_select_what_the_api_selects_and_are_refused_where_it_refuses() {
    if needs::lacks(&["apiserver", "openssl"]) {
        return;
    }
    let server = ApiServer::start();
    server.create(&object("Namespace", None, "blue", ""));
    for (number, labels) in LABELS.iter().enumerate() {
        server.create(&service(&format!("s-{number}"), labels));
    }
    let mut random = fastrand::Rng::with_seed(fuzz::seed());
    let mut next = |below: usize| random.usize(..below);
    let mut good = 0;
    for _ in 0..1500 {
        let length = 1 + next(4);
        let text: String = (0..length).map(|_| WORDS[next(WORDS.len())]).collect();
        let theirs = selected_by_api(&server, &text);
        assert_eq!(selected_by_us(&text), theirs, "{text:?}");
        good += usize::from(theirs.is_some());
    }
    assert!((200..1400).contains(&good), "{good} of 1500 are selectors");
}

/// Two clusters, here the same one, each with options of its own and very few requests at a time. The first is for
/// `cluster.local`, the second for `other.example`.
fn two_clusters(server: &ApiServer) -> Zonewright {
    let zones = ["cluster.local", "other.example"];
    let mut zonewright = Zonewright::prepare(&zones);
    let text = |options: &str| {
        format!(
            "    kubernetes {{\n        kubeconfig {}\n        apiserver_max_inflight 1\n        \
             apiserver_qps 20\n        apiserver_burst 2\n{options}    }}\n",
            server.kubeconfig(Access::Limited).display()
        )
    };
    let one = "        labels app in (web, db), !hidden\n        namespace_labels dns=yes\n        pods \
               verified\n        endpoint_pod_names\n        zonal\n";
    let other = "        noendpoints\n        ttl 60\n        pods insecure\n";
    zonewright.configure(&text(one));
    // The second zone moves from the one block to one of its own.
    let port = zonewright.address().port();
    let both = fs::read_to_string(zonewright.corefile()).unwrap();
    let first = both.replace(&format!(" {}:{port}", zones[1]), "");
    let second = format!(
        "{}:{port} {{\n    bind 127.0.0.1\n{}}}\n",
        zones[1],
        text(other)
    );
    fs::write(zonewright.corefile(), format!("{first}{second}")).unwrap();
    zonewright.start();
    zonewright
}

/// Records of a Service go and come with its labels and with those of its namespace.
fn check_labels(server: &ApiServer, zonewright: &mut Zonewright) {
    let web = "web.blue.svc.cluster.local";
    let address = &address_of(server, "web");
    wait_for(zonewright, web, wire::A, &[address]);
    wait_for(zonewright, "other.blue.svc.cluster.local", wire::A, &[]);
    let path = object_path(&service("web", ""));
    let label = |name: &str, value: Value| json!({ "metadata": { "labels": { name: value } } });
    server.patch(&path, &label("hidden", json!("")));
    wait_for(zonewright, web, wire::A, &[]);
    server.patch(&path, &label("hidden", Value::Null));
    wait_for(zonewright, web, wire::A, &[address]);
    let blue = object_path(&object("Namespace", None, "blue", ""));
    server.patch(&blue, &label("dns", json!("no")));
    wait_for(zonewright, web, wire::A, &[]);
    server.patch(&blue, &label("dns", json!("yes")));
    wait_for(zonewright, web, wire::A, &[address]);
}

/// Pods that are selected have names until they end.
fn check_verified_pods(server: &ApiServer, zonewright: &mut Zonewright) {
    let first = pod(server, "p", "app=web", &["10.9.0.1", "fd00:9::1"]);
    pod(server, "q", "app=no", &["10.9.0.2"]);
    let v4 = "10-9-0-1.blue.pod.cluster.local";
    wait_for(zonewright, v4, wire::A, &["10.9.0.1"]);
    wait_for(
        zonewright,
        "fd00-9--1.blue.pod.cluster.local",
        wire::AAAA,
        &["fd00:9::1"],
    );
    wait_for(zonewright, "10-9-0-2.blue.pod.cluster.local", wire::A, &[]);
    let ended = json!({ "status": { "phase": "Succeeded" } });
    server.patch(&format!("{first}/status"), &ended);
    wait_for(zonewright, v4, wire::A, &[]);
}

/// Endpoints have the names of their pods, and are separate by topology zone.
fn check_endpoints(server: &ApiServer, zonewright: &mut Zonewright) {
    let mut db = service("db", "app=db");
    db["spec"]["clusterIP"] = json!("None");
    server.create(&db);
    let mut slice = object(
        "EndpointSlice",
        Some("blue"),
        "db-1",
        "app=db,kubernetes.io/service-name=db",
    );
    slice["apiVersion"] = json!("discovery.k8s.io/v1");
    slice["addressType"] = json!("IPv4");
    slice["ports"] = json!([{ "name": "http", "port": 80 }]);
    let endpoint = |name: &str, address: &str, zone: &str| {
        json!({ "addresses": [address], "zone": zone, "conditions": { "ready": true },
                "targetRef": { "kind": "Pod", "name": name } })
    };
    slice["endpoints"] = json!([
        endpoint("db-a", "10.9.1.1", "eu-1a"),
        endpoint("db-b", "10.9.1.2", "us.2"),
    ]);
    server.create(&slice);
    let base = "db.blue.svc.cluster.local";
    let (a, b) = ("10.9.1.1", "10.9.1.2");
    wait_for(zonewright, base, wire::A, &[a, b]);
    wait_for(zonewright, &format!("db-a.{base}"), wire::A, &[a]);
    for (name, addresses) in [
        ("eu-1a.pin", &[a][..]),
        ("US.2.pin", &[b]),
        ("ap.prefer", &[a, b]),
        ("ap.other", &[]),
    ] {
        let name = format!("{name}._zone.{base}");
        wait_for(zonewright, &name, wire::A, addresses);
    }
}

/// Names of pods that need no pod exist in namespaces that exist.
fn check_insecure_pods(server: &ApiServer, zonewright: &mut Zonewright) {
    let red = "192-0-2-1.red.pod.other.example";
    let (blue, address) = ("192-0-2-1.blue.pod.other.example", ["192.0.2.1"]);
    wait_for(zonewright, blue, wire::A, &address);
    wait_for(zonewright, red, wire::A, &[]);
    server.create(&object("Namespace", None, "red", ""));
    wait_for(zonewright, red, wire::A, &address);
}

#[test]
fn records_come_and_go_with_labels_namespaces_and_pods() {
    if needs::lacks(&["apiserver", "openssl"]) {
        return;
    }
    let server = ApiServer::start();
    rbac::grant(&server, &["pods-verified"]);
    server.create(&object("Namespace", None, "blue", "dns=yes"));
    server.create(&service("web", "app=web"));
    server.create(&service("other", ""));
    let mut zonewright = two_clusters(&server);
    for name in ["web", "other"] {
        let address = address_of(&server, name);
        let name = format!("{name}.blue.svc.other.example");
        wait_for(&mut zonewright, &name, wire::A, &[&address]);
    }
    check_labels(&server, &mut zonewright);
    check_verified_pods(&server, &mut zonewright);
    check_endpoints(&server, &mut zonewright);
    check_insecure_pods(&server, &mut zonewright);
    zonewright.stop();
}

/// The role for `noendpoints` has exactly the rights that it needs.
#[test]
fn without_endpoints_no_right_to_see_them_is_needed() {
    if needs::lacks(&["apiserver", "openssl"]) {
        return;
    }
    let server = ApiServer::start();
    rbac::grant(&server, &["noendpoints"]);
    server.create(&object("Namespace", None, "blue", ""));
    server.create(&service("web", ""));
    let mut zonewright = Zonewright::prepare(&["cluster.local"]);
    zonewright.configure(&format!(
        "    kubernetes {{\n        kubeconfig {}\n        noendpoints\n    }}\n",
        server.kubeconfig(Access::Limited).display()
    ));
    zonewright.start();
    let (web, address) = ("web.blue.svc.cluster.local", address_of(&server, "web"));
    wait_for(&mut zonewright, web, wire::A, &[&address]);
    assert_eq!(zonewright.status()["problems"], json!([]));
    zonewright.stop();
    // Nothing of the role can be left out: it is missed, and named.
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/zonewright";
    let rules = server.get(role).unwrap()["rules"].clone();
    assert_eq!(rules.as_array().map(Vec::len), Some(1), "{rules}");
    let parts = |of: &str| rules[0][of].as_array().unwrap().clone().into_iter();
    let resources = parts("resources").map(|part| ("resources", part));
    for (of, part) in resources.chain(parts("verbs").map(|part| ("verbs", part))) {
        let name = part.as_str().unwrap();
        let missed = &match of {
            "verbs" => format!("may not {name} services"),
            _ => format!("may not list {name}"),
        };
        let mut fewer = rules.clone();
        fewer[0][of]
            .as_array_mut()
            .unwrap()
            .retain(|it| *it != part);
        server.patch(role, &json!({ "rules": fewer }));
        zonewright.spawn();
        let log = zonewright.folder().join("log");
        zonewright.wait_for(missed, PATIENCE, || {
            let log = fs::read_to_string(&log).ok()?;
            log.contains(missed).then_some(())
        });
        zonewright.kill();
        fs::write(&log, "").unwrap();
    }
}

/// The known namespaces survive a reload that restarts the source, which may be unavailable then.
#[test]
fn a_reload_while_the_api_server_is_away_forgets_no_namespace() {
    if needs::lacks(&["apiserver", "openssl"]) {
        return;
    }
    let server = ApiServer::start();
    server.create(&object("Namespace", None, "blue", ""));
    let proxy = Proxy::start(server.address());
    let mut zonewright = Zonewright::prepare(&["cluster.local"]);
    let file = zonewright.folder().join("kubeconfig");
    server.kubeconfig_at(Access::Admin, proxy.address, &file);
    let configure = |zonewright: &Zonewright, ttl: u32| {
        zonewright.configure(&format!(
            "    kubernetes {{\n        kubeconfig {}\n        pods insecure\n        ttl {ttl}\n        \
             apiserver_qps {}\n    }}\n",
            file.display(),
            // Another number starts the source again.
            10 * ttl
        ));
    };
    configure(&zonewright, 5);
    zonewright.start();
    let pod = "192-0-2-1.blue.pod.cluster.local";
    wait_for(&mut zonewright, pod, wire::A, &["192.0.2.1"]);
    let serial = zonewright.serial("cluster.local");
    proxy.close();
    configure(&zonewright, 6);
    zonewright.signal(Signal::USR1);
    let log = zonewright.folder().join("log");
    zonewright.wait_for("the reload", PATIENCE, || {
        let log = fs::read_to_string(&log).ok()?;
        log.contains("Reloading complete").then_some(())
    });
    assert_eq!(
        zonewright.addresses(pod),
        Some(vec!["192.0.2.1".to_owned()])
    );
    assert_eq!(zonewright.serial("cluster.local"), serial);
    proxy.open();
    // The new TTL is a new version.
    let address = zonewright.address();
    zonewright.wait_for("a new version", PATIENCE, || {
        (wire::serial(address, "cluster.local.") != serial).then_some(())
    });
    wait_for(&mut zonewright, pod, wire::A, &["192.0.2.1"]);
    zonewright.stop();
}

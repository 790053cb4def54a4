//! A story with a real API server: who changed which record, as `log`, `blame`, `diff` and `why` print it.
//!
//! Three people change a Service by server-side apply, endpoints are scaled, and a namespace is deleted. One Service is
//! deleted while the API server is unavailable, another while zonewright is stopped. The output of the commands, with
//! masked serials, times and ids, is a page of the manual. `UPDATE_DOCS=1` writes it there.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::support::apiserver::{Access, ApiServer, object_path};
use crate::support::needs;
use crate::support::proxy::Proxy;
use crate::support::zonewright::{Zonewright, addresses};
use http::Method;
use serde_json::{Value, json};

/// The zone of the story, and its reverse zone.
const ZONES: [&str; 2] = ["cluster.local", "10.in-addr.arpa"];
/// The time limit of each wait.
const PATIENCE: Duration = Duration::from_secs(60);
/// The line of the page before the story.
const MARK: &str =
    "<!-- the story of tests/cluster_story.rs; UPDATE_DOCS=1 writes it -->\n\n```text\n";
/// The name that three people change.
const WEB: &str = "web.shop.svc.cluster.local";
/// The name whose endpoints are scaled.
const DB: &str = "db.shop.svc.cluster.local";

/// A Service in a namespace, as one manager wants it.
fn service(namespace: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "namespace": namespace, "name": name },
        "spec": spec,
    })
}

/// Ports with names.
fn ports(ports: &[(&str, u16)]) -> Value {
    let port =
        |(name, port): &(&str, u16)| json!({ "name": name, "port": port, "protocol": "TCP" });
    json!({ "ports": ports.iter().map(port).collect::<Vec<_>>() })
}

/// The slice of `shop/db` with so many endpoints.
fn slice(endpoints: u8) -> Value {
    let endpoints: Vec<Value> = (1..=endpoints)
        .map(|host| json!({ "addresses": [format!("10.244.0.{host}")], "conditions": { "ready": true } }))
        .collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": { "namespace": "shop", "name": "db-1", "labels": { "kubernetes.io/service-name": "db" } },
        "endpoints": endpoints,
        "ports": [{ "name": "sql", "port": 5432, "protocol": "TCP" }],
    })
}

/// The servers of the story.
struct Stage {
    server: ApiServer,
    /// The proxy between it and zonewright.
    proxy: Proxy,
    zonewright: Zonewright,
}

impl Stage {
    /// The API server with two namespaces, zonewright behind a proxy.
    fn set() -> Self {
        let server = ApiServer::start();
        for name in ["shop", "staging"] {
            let namespace =
                json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
            server.apply(&namespace, "dana");
        }
        let mut old = ports(&[("http", 80)]);
        old["clusterIP"] = json!("10.96.0.70");
        server.apply(&service("shop", "old", old.clone()), "alice");
        old["clusterIP"] = json!("10.96.0.71");
        server.apply(&service("staging", "api", old.clone()), "bob");
        old["clusterIP"] = json!("10.96.0.72");
        server.apply(&service("shop", "cache", old), "carol");
        let mut db = ports(&[("sql", 5432)]);
        db["clusterIP"] = json!("None");
        server.apply(&service("shop", "db", db), "alice");
        server.apply(&slice(1), "scaler");
        let proxy = Proxy::start(server.address());
        let zonewright = Zonewright::prepare(&ZONES);
        let file = zonewright.folder().join("kubeconfig");
        server.kubeconfig_at(Access::Admin, proxy.address, &file);
        zonewright.configure(&format!(
            "    kubernetes {{\n        kubeconfig {}\n    }}\n",
            file.display()
        ));
        Self {
            server,
            proxy,
            zonewright,
        }
    }

    /// Waits until a name has these addresses.
    fn wait(&mut self, name: &str, wanted: &[&str]) {
        let address = self.zonewright.address();
        self.zonewright
            .wait_for(&format!("{name} has {wanted:?}"), PATIENCE, || {
                let mut found = addresses(address, name)?;
                found.sort();
                (found == wanted).then_some(())
            });
    }

    /// Waits for a new version of the zone.
    fn wait_for_version(&mut self, before: usize) {
        let zone = ZONES[0];
        let ask = |it: &Zonewright| it.versions(zone).len();
        let end = crate::support::process::now() + PATIENCE;
        let found = crate::support::process::poll_for(end, Duration::from_millis(50), || {
            (ask(&self.zonewright) > before).then_some(())
        });
        assert!(found.is_some(), "{}", self.zonewright.log());
    }

    /// The number of versions.
    fn versions(&self) -> usize {
        self.zonewright.versions(ZONES[0]).len()
    }

    /// Applies a Service as a manager, and waits for a version.
    fn apply(&mut self, object: &Value, manager: &str) {
        let before = self.versions();
        self.server.apply(object, manager);
        self.wait_for_version(before);
    }

    /// Deletes a namespace as its controller does.
    fn delete_namespace(&mut self, name: &str) {
        let namespace =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        let path = object_path(&namespace);
        let before = self.versions();
        self.server.delete(&path);
        let mut terminating = self.server.get(&path).unwrap();
        terminating["spec"]["finalizers"] = json!([]);
        let body = Some(("application/json", &terminating));
        let path = format!("{path}/finalize");
        self.server
            .request(Access::Admin, Method::PUT, &path, body)
            .unwrap();
        self.wait_for_version(before);
    }
}

/// Plays the story.
fn play() -> Stage {
    let mut stage = Stage::set();
    stage.zonewright.start();
    stage.wait(DB, &["10.244.0.1"]);
    let mut web = ports(&[("http", 80)]);
    web["clusterIP"] = json!("10.96.0.80");
    stage.apply(&service("shop", "web", web), "alice");
    stage.apply(&service("shop", "web", ports(&[("https", 443)])), "bob");
    stage.apply(&service("shop", "web", ports(&[("www", 80)])), "carol");
    stage.apply(&slice(3), "scaler");
    stage.delete_namespace("staging");

    // A Service is deleted while the API server is unavailable, and the server forgets the event meanwhile.
    stage.proxy.close();
    let before = stage.versions();
    stage.server.delete("/api/v1/namespaces/shop/services/old");
    stage.server.expire_watches();
    stage.proxy.open();
    stage.wait_for_version(before);

    // A Service and endpoints are deleted while zonewright is stopped.
    stage.zonewright.stop();
    stage
        .server
        .delete("/api/v1/namespaces/shop/services/cache");
    stage.server.apply(&slice(2), "scaler");
    stage.zonewright.start();
    stage.wait(DB, &["10.244.0.1", "10.244.0.2"]);
    stage
}

/// The causes of the records that a version added or removed at a name, as `verb kind key manager`, with `last` before one that
/// only changed it before it was gone.
fn causes_at(version: &Value, list: &str, name: &str) -> Vec<String> {
    let records = version[list].as_array().unwrap();
    let of_name = records
        .iter()
        .filter(|it| it["record"].as_str().unwrap().starts_with(name));
    let mut found: Vec<String> = of_name
        .flat_map(|record| {
            let group = usize::try_from(record["cause"].as_u64().unwrap()).unwrap();
            version["causes"][group].as_array().unwrap().clone()
        })
        .map(|cause| {
            let text = |field: &str| cause[field].as_str().unwrap_or("-").to_owned();
            let key = [text("namespace"), text("name")].join("/");
            let by = match &*text("lastManager") {
                "" => text("manager"),
                last => format!("last {last}"),
            };
            [text("verb"), text("kind"), key, by].join(" ")
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Checks that each record of the story has its object and its manager.
fn check(stage: &Stage) {
    let mut versions = stage.zonewright.versions(ZONES[0]);
    versions.reverse();
    assert_eq!(versions.len(), 8, "{versions:#?}");
    for (place, list, name, want) in [
        (0, "added", "old.shop", "listed Service shop/old alice"),
        (0, "added", "api.staging", "listed Service staging/api bob"),
        (
            0,
            "added",
            "10-244-0-1.db",
            "listed EndpointSlice shop/db-1 scaler",
        ),
        (1, "added", "web.shop", "applied Service shop/web alice"),
        (
            2,
            "added",
            "_https._tcp.web",
            "applied Service shop/web bob",
        ),
        (
            3,
            "added",
            "_www._tcp.web",
            "applied Service shop/web carol",
        ),
        (
            3,
            "removed",
            "_http._tcp.web",
            "applied Service shop/web carol",
        ),
        (
            4,
            "added",
            "10-244-0-3.db",
            "applied EndpointSlice shop/db-1 scaler",
        ),
        (5, "removed", "api.staging", "deleted Namespace /staging "),
        (
            6,
            "removed",
            "old.shop",
            "vanished Service shop/old last alice",
        ),
        (
            7,
            "removed",
            "10-244-0-3.db",
            "listed EndpointSlice shop/db-1 scaler",
        ),
        (
            7,
            "removed",
            "cache.shop",
            "vanished Service shop/cache last carol",
        ),
    ] {
        let version = &versions[place];
        let found = causes_at(version, list, name);
        let fits = found.iter().any(|it| it.starts_with(want));
        assert!(fits, "version {place}, {list} {name}: {found:?}");
    }
    check_that_each_has_an_object(&versions);
}

/// Every record has an object, except those of the configuration.
fn check_that_each_has_an_object(versions: &[Value]) {
    for version in versions {
        for list in ["added", "removed"] {
            for record in version[list].as_array().unwrap() {
                let name = record["record"].as_str().unwrap();
                let found = causes_at(version, list, name);
                assert!(!found.is_empty(), "{name} in {version}");
            }
        }
    }
}

/// Replaces serials, times and ids by fixed ones in the same order.
fn masked(text: &str) -> String {
    let is_time = |word: &str| word.len() == 24 && word.ends_with('Z') && word.contains('T');
    let is_serial = |word: &str| word.len() == 10 && word.bytes().all(|it| it.is_ascii_digit());
    let mut serials: BTreeMap<String, String> = BTreeMap::new();
    let mut times: BTreeMap<String, String> = BTreeMap::new();
    let word_of = |word: &str| {
        let end = |c: char| ",;:()".contains(c);
        word.trim_start_matches('(')
            .trim_end_matches(end)
            .to_owned()
    };
    for word in text.split_whitespace().map(word_of) {
        if is_time(&word) {
            times.insert(word, String::new());
        } else if is_serial(&word) {
            serials.insert(word, String::new());
        }
    }
    for (place, (_, mask)) in serials.iter_mut().enumerate() {
        *mask = format!("{}", 1_795_269_600 + 60 * place);
    }
    for (place, (_, mask)) in times.iter_mut().enumerate() {
        *mask = format!("2026-11-21T14:{place:02}:00.000Z");
    }
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut line = line.to_owned();
        for (word, mask) in serials.iter().chain(&times) {
            line = line.replace(word.as_str(), mask);
        }
        lines.push(mask_ids(&line));
    }
    lines.join("\n") + "\n"
}

/// Replaces uids and resourceVersions by short ids.
fn mask_ids(line: &str) -> String {
    let mut out = line.to_owned();
    for (before, mask) in [("uid ", "8f1c…"), ("resourceVersion ", "…")] {
        let mut from = 0;
        while let Some(at) = out[from..].find(before).map(|at| from + at + before.len()) {
            let end = out[at..]
                .find([',', ')', ' '])
                .map_or(out.len(), |end| at + end);
            out.replace_range(at..end, mask);
            from = at + mask.len();
        }
    }
    out
}

/// The output of the commands, one after the other.
fn told(stage: &Stage) -> String {
    let serial_of = |place: usize| {
        let versions = stage.zonewright.versions(ZONES[0]);
        versions[versions.len() - 1 - place]["serial"].to_string()
    };
    let (first, third) = (serial_of(1), serial_of(3));
    let mut text = String::new();
    for command in [
        vec!["log", "cluster.local", "--since", &first],
        vec![
            "blame",
            "cluster.local",
            "_https._tcp.web.shop.svc.cluster.local",
        ],
        vec!["blame", "cluster.local", DB],
        vec!["diff", "cluster.local", &first, &third],
        vec!["why", WEB],
        vec!["why", "old.shop.svc.cluster.local"],
        vec![
            "log",
            "cluster.local",
            "--name",
            "cache.shop.svc.cluster.local",
        ],
        vec!["why", "api.staging.svc.cluster.local"],
    ] {
        let said = stage.zonewright.command(&command);
        text.push_str(&format!("$ zonewright {}\n{said}\n", command.join(" ")));
    }
    masked(text.trim_end())
}

#[test]
fn the_story_is_right_and_in_the_manual() {
    if needs::lacks(&["apiserver"]) {
        return;
    }
    let stage = play();
    check(&stage);
    let told = told(&stage);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/story.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, after) = page.split_once(MARK).expect("the page has its place");
    let (known, after) = after.split_once("```").expect("the block ends");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, format!("{before}{MARK}{told}```{after}")).unwrap();
        return;
    }
    assert_eq!(known, told, "UPDATE_DOCS=1 writes it");
}

//! A tenant with the role `edit` in one namespace does whatever the API server lets it do, by a generator with a printed
//! seed. Meanwhile another namespace changes at a slow known rate. Nothing of the other namespace may differ from what it
//! would be without the tenant: its records, its versions, how soon they are out; and NSD, Knot and BIND with their
//! default limits take every version.
//!
//! No controller runs, so the test plays their part as the administrator: pods get addresses, Services get
//! EndpointSlices. `TENANTS_SECONDS` says for how long the tenant is at it (60 unless given).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use fastrand::Rng;
use http::Method;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use ops::{Clock as _, SystemClock};
use serde_json::{Value, json};

use crate::support::apiserver::{Access, ApiServer, Refusal, object_path, paths, request};
use crate::support::fleet::{Fleet, Places};
use crate::support::needs;
use crate::support::process::{let_pass, now};
use crate::support::secondary::Kind;
use crate::support::wire::Record;
use crate::support::zonewright::Zonewright;

/// The zones: names, addresses, names and addresses outside.
const ZONES: [&str; 4] = [
    "cluster.local",
    "10.in-addr.arpa",
    "lb.example.org",
    "203.in-addr.arpa",
];
/// The time limit of each wait.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often the other namespace changes: less often than the pace of versions allows for all others together.
const BEAT: Duration = Duration::from_secs(2);
/// How long a change of the other namespace may take from the API server to an answer. Without the tenant it takes some
/// 100 ms; the machine is shared with the API server and three secondaries.
const LAG: Duration = Duration::from_secs(3);
/// How far a secondary may be behind.
const BEHIND: Duration = Duration::from_secs(20);
/// How far a serial may be ahead of the clock.
const AHEAD_S: u32 = 60;
/// The tenant's namespace.
const EVIL: &str = "evil";
/// The names that the tenant may have in the zones of names.
const OF_EVIL: [&str; 3] = [
    ".evil.svc.cluster.local.",
    ".evil.pod.cluster.local.",
    ".evil.lb.example.org.",
];

/// An object of a namespace.
fn object(version: &str, kind: &str, namespace: &str, name: &str) -> Value {
    json!({ "apiVersion": version, "kind": kind, "metadata": { "namespace": namespace, "name": name } })
}

/// A slice of a Service.
fn slice(namespace: &str, service: &str, addresses: &[String], ports: &Value) -> Value {
    let mut slice = object(
        "discovery.k8s.io/v1",
        "EndpointSlice",
        namespace,
        &format!("{service}-1"),
    );
    slice["metadata"]["labels"] = json!({ "kubernetes.io/service-name": service });
    slice["addressType"] = json!("IPv4");
    let endpoint =
        |address: &String| json!({ "addresses": [address], "conditions": { "ready": true } });
    slice["endpoints"] = addresses.iter().map(endpoint).collect();
    slice["ports"] = ports.clone();
    slice
}

/// The namespace that minds its own business: two Services that stay, and one whose endpoint changes with each beat.
fn shop(server: &ApiServer) {
    let port = json!([{ "name": "http", "port": 80, "protocol": "TCP" }]);
    for (name, addresses) in [
        (
            "web",
            vec!["10.244.1.1".to_owned(), "10.244.1.2".to_owned()],
        ),
        ("beat", vec![address_of_beat(0)]),
    ] {
        let mut service = object("v1", "Service", "shop", name);
        service["spec"] = json!({ "clusterIP": "None", "ports": port });
        server.create(&service);
        server.create(&slice("shop", name, &addresses, &port));
    }
    let mut front = object("v1", "Service", "shop", "front");
    front["spec"] = json!({
        "type": "LoadBalancer", "clusterIP": "10.96.1.1", "ports": port,
    });
    let front = server.create(&front);
    let ingress = json!([{ "ip": "203.0.113.1" }]);
    let status = json!({ "status": { "loadBalancer": { "ingress": ingress } } });
    server.patch(
        &format!("{}/status", object_path(&typed(front, "Service"))),
        &status,
    );
}

/// An object of the core group as it came from the server, with its kind.
fn typed(mut object: Value, kind: &str) -> Value {
    object["apiVersion"] = json!("v1");
    object["kind"] = json!(kind);
    object
}

/// The address of the changing Service after so many beats. No two are equal.
fn address_of_beat(beat: u32) -> String {
    format!("10.244.{}.{}", 2 + beat / 250, 1 + beat % 250)
}

/// Gives the tenant a service account with the rights of `edit` in its namespace, and a client for it. Nobody fills the
/// aggregated role here, so the roles of which it consists are bound.
fn tenant(server: &ApiServer) -> Client {
    for name in [EVIL, "shop"] {
        server.create(
            &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }),
        );
    }
    server.create(&object("v1", "ServiceAccount", EVIL, "tenant"));
    let group = "rbac.authorization.k8s.io";
    for role in ["system:aggregate-to-edit", "system:aggregate-to-view"] {
        let mut binding = object(
            &format!("{group}/v1"),
            "RoleBinding",
            EVIL,
            &role.replace(':', "-"),
        );
        binding["roleRef"] = json!({ "apiGroup": group, "kind": "ClusterRole", "name": role });
        binding["subjects"] =
            json!([{ "kind": "ServiceAccount", "namespace": EVIL, "name": "tenant" }]);
        server.create(&binding);
    }
    let path = "/api/v1/namespaces/evil/serviceaccounts/tenant/token";
    let wanted =
        json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {} });
    let body = Some(("application/json", &wanted));
    let token = server
        .request(Access::Admin, Method::POST, path, body)
        .unwrap();
    let text = std::fs::read_to_string(server.kubeconfig(Access::Admin)).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    config["users"][0]["user"]["token"] = token["status"]["token"].clone();
    server.block_on(async {
        let file = Kubeconfig::from_yaml(&config.to_string()).unwrap();
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
        Client::try_from(config.unwrap()).unwrap()
    })
}

/// What the tenant does, and what came of it.
struct Tenant<'a> {
    server: &'a ApiServer,
    client: Client,
    random: Rng,
    /// How often the server did what was asked, and how often it refused, by verb and kind.
    done: BTreeMap<String, u32>,
    refused: BTreeMap<String, u32>,
}

impl Tenant<'_> {
    /// One request as the tenant.
    fn ask(
        &mut self,
        method: Method,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<Value, Refusal> {
        let what = format!("{method} {}", kind_of(path));
        let request = request(method, path, body);
        let answer = self
            .server
            .block_on(self.client.request::<Value>(request))
            .map_err(Refusal::from);
        let counts = match &answer {
            Ok(_) => &mut self.done,
            Err(_) => &mut self.refused,
        };
        *counts.entry(what).or_default() += 1;
        answer
    }

    /// Something that the role does not allow is refused.
    fn try_forbidden(&mut self) {
        let port = json!([{ "name": "dns", "port": 53, "protocol": "UDP" }]);
        let addresses = ["10.244.1.1".to_owned()];
        let (method, path, body) = match self.random.u8(..6) {
            0 => {
                let slice = slice(EVIL, "web", &addresses, &port);
                (Method::POST, paths(&slice).0, slice)
            }
            1 => {
                let mut endpoints = object("v1", "Endpoints", EVIL, "web");
                endpoints["subsets"] =
                    json!([{ "addresses": [{ "ip": addresses[0] }], "ports": port }]);
                (
                    Method::POST,
                    "/api/v1/namespaces/evil/endpoints".to_owned(),
                    endpoints,
                )
            }
            2 => {
                let status = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": "203.0.113.1" }] } } });
                (
                    Method::PATCH,
                    "/api/v1/namespaces/evil/services/s0/status".to_owned(),
                    status,
                )
            }
            3 => {
                let status = json!({ "status": { "podIP": addresses[0] } });
                (
                    Method::PATCH,
                    "/api/v1/namespaces/evil/pods/p0/status".to_owned(),
                    status,
                )
            }
            4 => {
                let mut service = object("v1", "Service", "shop", "web");
                service["spec"] = json!({ "type": "ExternalName", "externalName": "evil.example" });
                (
                    Method::POST,
                    "/api/v1/namespaces/shop/services".to_owned(),
                    service,
                )
            }
            _ => {
                let name = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "svc" } });
                (Method::POST, "/api/v1/namespaces".to_owned(), name)
            }
        };
        let kind = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let refusal = self
            .ask(method, &path, Some((kind, &body)))
            .expect_err(&path);
        assert_eq!(refusal.code, 403, "{path}: {refusal:?}");
    }

    /// A name: mostly one of a few, so that objects change; some are at the limits.
    fn name(&mut self) -> String {
        match self.random.u8(..20) {
            0 => "n".repeat(63),
            1 => "svc".to_owned(),
            2 => "ns".to_owned(),
            3 => "kube-dns".to_owned(),
            _ => format!("s{}", self.random.u8(..12)),
        }
    }

    /// A label by which Services select pods.
    fn app(&mut self) -> &'static str {
        ["a", "b", "c"][self.random.usize(..3)]
    }

    /// The `spec` of a Service of any type.
    fn service_spec(&mut self) -> Value {
        let count = match self.random.u8(..6) {
            0 => self.random.u16(20..120),
            1 => 0,
            _ => self.random.u16(1..4),
        };
        let port = |number: u16| {
            let protocol = ["TCP", "UDP", "SCTP"][usize::from(number % 3)];
            let name = match number % 7 {
                0 => format!("p{number}{}", "x".repeat(50)),
                _ => format!("p{number}"),
            };
            json!({ "name": name, "port": 1000 + number, "protocol": protocol })
        };
        let ports: Vec<Value> = (0..count).map(port).collect();
        let mut spec = json!({ "ports": ports });
        if self.random.u8(..5) > 0 {
            spec["selector"] = json!({ "app": self.app() });
        }
        match self.random.u8(..8) {
            0 | 1 => spec["clusterIP"] = json!("None"),
            2 => spec["type"] = json!("NodePort"),
            3 => spec["type"] = json!("LoadBalancer"),
            4 => {
                let hosts = [
                    "web.shop.svc.cluster.local",
                    "s1.evil.svc.cluster.local",
                    "example.com",
                    "a.very.long.name.of.somebody.else.example.net",
                ];
                spec["type"] = json!("ExternalName");
                spec["externalName"] = json!(hosts[self.random.usize(..hosts.len())]);
            }
            // Somebody's address: the server refuses it while it is taken.
            5 => spec["clusterIP"] = json!("10.96.1.1"),
            _ => {}
        }
        if self.random.u8(..3) == 0 {
            let claimed = [
                "10.96.1.1",
                "10.244.1.1",
                "203.0.113.1",
                "203.0.113.99",
                "192.0.2.10",
            ];
            let count = self.random.usize(1..claimed.len());
            spec["externalIPs"] = json!(claimed[..count]);
        }
        if self.random.u8(..4) == 0 {
            spec["publishNotReadyAddresses"] = json!(true);
        }
        spec
    }

    /// A Service of any type, with labels and annotations that mean something elsewhere.
    fn service(&mut self) -> Value {
        let name = self.name();
        let mut service = object("v1", "Service", EVIL, &name);
        service["spec"] = self.service_spec();
        if self.random.bool() {
            service["metadata"]["labels"] = json!({
                "kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": "me",
                "service.kubernetes.io/headless": "", "multicluster.kubernetes.io/service-name": "web",
            });
            service["metadata"]["annotations"] = json!({
                "endpoints.kubernetes.io/last-change-trigger-time": "1970-01-01T00:00:00Z",
                "external-dns.alpha.kubernetes.io/hostname": "web.shop.svc.cluster.local",
            });
        }
        service
    }

    /// A pod, whose labels and host name are its author's.
    fn pod(&mut self) -> Value {
        let mut pod = object("v1", "Pod", EVIL, &format!("p{}", self.random.u8(..40)));
        pod["metadata"]["labels"] = json!({ "app": self.app() });
        let host = ["web", "shared", "ns", "beat"][self.random.usize(..4)];
        pod["spec"] = json!({
            "hostname": host, "subdomain": format!("s{}", self.random.u8(..12)),
            "containers": [{ "name": "c", "image": "none" }],
        });
        pod
    }

    /// One random act.
    fn act(&mut self) {
        match self.random.u8(..24) {
            0..=2 => self.try_forbidden(),
            3..=9 => {
                let service = self.service();
                let (collection, own) = paths(&service);
                let body = Some(("application/json", &service));
                if self.ask(Method::POST, &collection, body).is_err() {
                    let change =
                        json!({ "metadata": service["metadata"], "spec": service["spec"] });
                    let body = Some(("application/merge-patch+json", &change));
                    let _may_be_refused = self.ask(Method::PATCH, &own, body);
                }
            }
            10..=13 => {
                let service = object("v1", "Service", EVIL, &self.name());
                let _may_be_absent = self.ask(Method::DELETE, &object_path(&service), None);
            }
            14..=20 => {
                let pod = self.pod();
                let (collection, own) = paths(&pod);
                let body = Some(("application/json", &pod));
                if self.ask(Method::POST, &collection, body).is_err() {
                    let change = json!({ "metadata": { "labels": pod["metadata"]["labels"] } });
                    let body = Some(("application/merge-patch+json", &change));
                    let _may_be_refused = self.ask(Method::PATCH, &own, body);
                }
            }
            _ => {
                let pod = self.pod();
                let path = format!("{}?gracePeriodSeconds=0", object_path(&pod));
                let _may_be_absent = self.ask(Method::DELETE, &path, None);
            }
        }
    }
}

/// The kind that a path names last.
fn kind_of(path: &str) -> &str {
    let kinds = [
        "services",
        "pods",
        "endpointslices",
        "endpoints",
        "namespaces",
    ];
    let named = path.rsplit('/').find(|part| kinds.contains(part));
    named.unwrap_or("other")
}

/// Plays the controllers for the tenant's namespace: each pod gets an address of its own, each Service with a selector a
/// slice of the pods that it selects.
struct Controllers<'a> {
    server: &'a ApiServer,
    /// How many addresses were given.
    given: u16,
    /// The slices that are there, by Service.
    slices: BTreeMap<String, Value>,
}

impl Controllers<'_> {
    fn act(&mut self) {
        let list = |path: &str| {
            let list = self.server.get(path).unwrap();
            list["items"].as_array().unwrap().clone()
        };
        let pods = list("/api/v1/namespaces/evil/pods");
        let services = list("/api/v1/namespaces/evil/services");
        let mut addresses: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pod in &pods {
            let app = pod["metadata"]["labels"]["app"]
                .as_str()
                .unwrap_or_default();
            let known = pod["status"]["podIP"].as_str().map(str::to_owned);
            let address = known.unwrap_or_else(|| {
                self.given += 1;
                let address = format!("10.245.{}.{}", self.given / 250, 1 + self.given % 250);
                let status = json!({ "status": {
                    "phase": "Running", "podIP": address, "podIPs": [{ "ip": address }],
                } });
                let path = format!("{}/status", object_path(&typed(pod.clone(), "Pod")));
                let body = Some(("application/merge-patch+json", &status));
                // The tenant may have deleted it meanwhile.
                let _gone = self
                    .server
                    .request(Access::Admin, Method::PATCH, &path, body);
                address
            });
            addresses.entry(app.to_owned()).or_default().push(address);
        }
        let mut wanted = BTreeMap::new();
        for service in &services {
            let name = service["metadata"]["name"].as_str().unwrap();
            let is_alias = service["spec"]["type"] == "ExternalName";
            if let Some(app) = service["spec"]["selector"]["app"]
                .as_str()
                .filter(|_| !is_alias)
            {
                let ports = service["spec"]["ports"].as_array().into_iter().flatten();
                let port = |port: &Value| json!({ "name": port["name"], "port": port["port"], "protocol": port["protocol"] });
                // The API takes 100 ports at most.
                let ports: Vec<Value> = ports.map(port).take(100).collect();
                let own = addresses.get(app).cloned().unwrap_or_default();
                wanted.insert(name.to_owned(), slice(EVIL, name, &own, &json!(ports)));
            }
        }
        for (name, slice) in &wanted {
            if self.slices.get(name) != Some(slice) {
                self.server.apply(slice, "endpointslice-controller");
            }
        }
        for (name, slice) in &self.slices {
            if !wanted.contains_key(name) {
                self.server.delete(&object_path(slice));
            }
        }
        self.slices = wanted;
    }
}

/// The records that are none of the tenant's, as text. The changing Service's are left out: they are followed by their own.
fn of_others(zone: &str, records: &[Record]) -> Vec<String> {
    let is_evil = |record: &Record| {
        let is_its = |name: &str| OF_EVIL.iter().any(|own| name.ends_with(own));
        // A PTR of an address that the tenant has.
        let is_pointer =
            zone.ends_with(".arpa") && is_its(&record.data) && is_address_of_evil(&record.owner);
        is_its(&record.owner) || is_pointer
    };
    let others = records.iter().filter(|record| !is_evil(record));
    let lines = others.map(Record::text);
    lines
        .filter(|line| !line.contains(" IN SOA ") && !line.contains("beat.shop."))
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

/// Whether the reverse name of an address is one of the tenant's pods, or a cluster IP that nobody else has.
fn is_address_of_evil(owner: &str) -> bool {
    let parts: Vec<&str> = owner.split('.').take(4).collect();
    let [_, _, third, fourth] = parts[..] else {
        return false;
    };
    let is_pod = third == "245";
    let is_cluster_ip = third
        .parse()
        .is_ok_and(|octet: u8| (96..=111).contains(&octet));
    fourth == "10" && (is_pod || (is_cluster_ip && !owner.starts_with("1.1.96.10.")))
}

/// What was found of the other namespace while the tenant was at it.
#[derive(Default)]
struct Watched {
    /// How long each beat took to be answered.
    lags: Vec<Duration>,
    beats: u32,
    /// What was wrong, with its time.
    wrong: Vec<String>,
}

impl Watched {
    /// One beat: changes the endpoint of `beat`, and waits for the answer.
    fn beat(&mut self, server: &ApiServer, zonewright: &Zonewright) {
        self.beats += 1;
        let address = address_of_beat(self.beats);
        let change =
            json!({ "endpoints": [{ "addresses": [address], "conditions": { "ready": true } }] });
        let path = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/beat-1";
        server.patch(path, &change);
        let start = now();
        let wanted = Some(vec![address]);
        while zonewright.addresses("beat.shop.svc.cluster.local") != wanted {
            if now() - start > PATIENCE {
                self.wrong
                    .push(format!("beat {} was never answered", self.beats));
                return;
            }
            let_pass(Duration::from_millis(10));
        }
        let lag = now() - start;
        self.lags.push(lag);
        let_pass(BEAT.saturating_sub(lag));
    }

    /// The longest and the middle lag.
    fn lag(&mut self) -> (Duration, Duration) {
        self.lags.sort();
        let middle = self.lags.get(self.lags.len() / 2);
        (
            self.lags.last().copied().unwrap_or_default(),
            middle.copied().unwrap_or_default(),
        )
    }
}

/// The serials of our zones with their times, to know how far a secondary is behind.
#[derive(Default)]
struct Followed {
    /// For each zone: serials with the time of the look.
    ours: BTreeMap<&'static str, Vec<(Instant, u32)>>,
    most: BTreeMap<&'static str, Duration>,
}

impl Followed {
    /// Notes ours, and how far each secondary is behind.
    fn look(&mut self, zonewright: &Zonewright, fleet: &Fleet) {
        for zone in ZONES {
            let at = now();
            let Some(serial) = zonewright.serial(zone) else {
                continue;
            };
            let ours = self.ours.entry(zone).or_default();
            if ours.last().is_none_or(|(_, last)| *last != serial) {
                ours.push((at, serial));
            }
            for member in &fleet.members {
                let Some(theirs) = member.serial(zone) else {
                    continue;
                };
                // The first serial of ours that it lacks, in serial arithmetic.
                let is_after = |serial: u32| serial.wrapping_sub(theirs).cast_signed() > 0;
                let missing = ours.iter().find(|(_, serial)| is_after(*serial));
                let behind = missing.map_or(Duration::ZERO, |(since, _)| at - *since);
                let most = self.most.entry(member.kind.name()).or_default();
                *most = behind.max(*most);
            }
        }
    }
}

/// The number of seconds by which a serial is ahead of the clock.
fn ahead_of_clock(serial: u32) -> u32 {
    let clock = SystemClock
        .wall()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let clock = u32::try_from(clock & u64::from(u32::MAX)).unwrap();
    u32::try_from(serial.wrapping_sub(clock).cast_signed()).unwrap_or(0)
}

/// A server that follows the cluster and hands its zones to the three.
fn serve(server: &ApiServer, places: &Places) -> Zonewright {
    let mut zonewright = Zonewright::prepare(&ZONES);
    zonewright.is_paced = true;
    let transfer = places.corefile().replace(
        "    transfer {\n",
        "    transfer {\n        allow 127.0.0.1\n",
    );
    zonewright.configure(&format!(
        "    kubernetes cluster.local 10.in-addr.arpa {{\n        kubeconfig {}\n        pods verified\n    }}\n    \
         k8s_external lb.example.org 203.in-addr.arpa\n    gate {{\n        shrink 30\n        at_least 20\n    }}\n{transfer}",
        server.kubeconfig(Access::Admin).display(),
    ));
    zonewright.start();
    zonewright
}

/// The records of others in each zone, some of which are known.
fn records_of_others(zonewright: &Zonewright) -> Vec<Vec<String>> {
    let before: Vec<Vec<String>> = { ZONES.iter() }
        .map(|zone| of_others(zone, &zonewright.zone(zone)))
        .collect();
    assert!(
        before[0]
            .iter()
            .any(|line| line.starts_with("web.shop.svc.cluster.local."))
    );
    assert!(
        before[1]
            .iter()
            .any(|line| line.contains("PTR 10-244-1-1.web.shop.")),
        "{before:#?}"
    );
    assert!(
        before[3]
            .iter()
            .any(|line| line.contains("PTR front.shop.")),
        "{before:#?}"
    );
    before
}

/// Takes down what differs from the records of others before.
fn look_at_others(
    zonewright: &Zonewright,
    before: &[Vec<String>],
    at: Duration,
    watched: &mut Watched,
) {
    for (zone, before) in ZONES.iter().zip(before) {
        let after = of_others(zone, &zonewright.zone(zone));
        if after != *before {
            let gone = before.iter().filter(|line| !after.contains(line));
            let come = after.iter().filter(|line| !before.contains(line));
            let text = format!(
                "{zone} after {:?}: gone {:?}, come {:?}",
                at,
                gone.collect::<Vec<_>>(),
                come.collect::<Vec<_>>()
            );
            watched.wrong.push(text);
        }
    }
}

/// What came of a tenant.
struct Outcome {
    done: BTreeMap<String, u32>,
    refused: BTreeMap<String, u32>,
    followed: Followed,
    /// Seconds by which a serial was ahead of the clock, at most.
    ahead: u32,
}

/// Lets the tenant act for some seconds.
fn act(
    server: &ApiServer,
    client: Client,
    (zonewright, fleet): (&Zonewright, &Fleet),
    before: &[Vec<String>],
    watched: &mut Watched,
    seconds: u64,
) -> Outcome {
    let seed = fuzz::seed();
    let end = AtomicBool::new(false);
    let mut followed = Followed::default();
    let mut ahead = 0;
    let (done, refused) = std::thread::scope(|scope| {
        let end = &end;
        let acting = scope.spawn(move || {
            let mut tenant = Tenant {
                server,
                client,
                random: Rng::with_seed(seed),
                done: BTreeMap::new(),
                refused: BTreeMap::new(),
            };
            while !end.load(Ordering::Relaxed) {
                tenant.act();
                let_pass(Duration::from_millis(tenant.random.u64(..40)));
            }
            (tenant.done, tenant.refused)
        });
        let controlling = scope.spawn(move || {
            let mut controllers = Controllers {
                server,
                given: 0,
                slices: BTreeMap::new(),
            };
            while !end.load(Ordering::Relaxed) {
                controllers.act();
                let_pass(Duration::from_millis(200));
            }
        });
        let start = now();
        while now() - start < Duration::from_secs(seconds) && !acting.is_finished() {
            watched.beat(server, zonewright);
            look_at_others(zonewright, before, now() - start, watched);
            followed.look(zonewright, fleet);
            let serials = ZONES.iter().filter_map(|zone| zonewright.serial(zone));
            ahead = serials.map(ahead_of_clock).chain([ahead]).max().unwrap();
        }
        end.store(true, Ordering::Relaxed);
        controlling.join().expect("the controllers end well");
        acting.join().expect("the tenant ends well")
    });
    Outcome {
        done,
        refused,
        followed,
        ahead,
    }
}

/// What was measured, and whether it is as it should be.
fn judge(
    zonewright: &Zonewright,
    watched: &mut Watched,
    (longest_alone, middle_alone): (Duration, Duration),
    outcome: &Outcome,
) {
    let Outcome {
        done,
        refused,
        followed,
        ahead,
    } = outcome;
    let (longest, middle) = watched.lag();
    let versions = zonewright.versions(ZONES[0]);
    let of_beat = |version: &&Value| {
        let text = version["causes"].to_string();
        text.contains("\"beat-1\"")
    };
    let beats = versions.iter().filter(of_beat).count();
    let mut report = String::new();
    writeln!(report, "the tenant: done {done:?}, refused {refused:?}").unwrap();
    writeln!(
        report,
        "lag alone: longest {longest_alone:?}, middle {middle_alone:?}"
    )
    .unwrap();
    writeln!(
        report,
        "lag beside it: longest {longest:?}, middle {middle:?}"
    )
    .unwrap();
    writeln!(
        report,
        "{} versions, {beats} of {} beats; the serial was {ahead} s ahead of the clock",
        versions.len(),
        watched.beats
    )
    .unwrap();
    writeln!(report, "behind at most: {:?}", followed.most).unwrap();
    eprintln!("{report}");
    let wrong = &watched.wrong;
    assert!(
        wrong.is_empty(),
        "{} times: {:#?}\n{report}",
        wrong.len(),
        &wrong[..wrong.len().min(3)]
    );
    assert!(done.values().sum::<u32>() > 20, "{report}");
    // The gate held nothing of anybody.
    let held = zonewright
        .metric("zonewright_gate_total", "outcome=\"held\"")
        .unwrap_or(0.0);
    assert!(held == 0.0, "the gate held {held} times\n{report}");
    // Each change of the other namespace is in the history, each in its turn.
    assert!(beats >= usize::try_from(watched.beats).unwrap(), "{report}");
    assert!(longest < LAG, "{report}");
    assert!(
        followed.most.values().all(|behind| *behind < BEHIND),
        "{report}"
    );
    assert!(*ahead <= AHEAD_S, "{report}");
}

#[test]
fn a_tenant_with_edit_in_its_namespace_changes_nothing_of_anybody_else() {
    if needs::lacks(&["apiserver", "openssl", "bind", "knot", "nsd"]) {
        return;
    }
    let seconds = std::env::var("TENANTS_SECONDS").map_or(60, |text| {
        text.parse().expect("TENANTS_SECONDS is a number")
    });
    let server = ApiServer::start();
    let client = tenant(&server);
    shop(&server);
    let places = Places::of(&[Kind::Bind, Kind::Knot, Kind::Nsd]);
    let zonewright = serve(&server, &places);
    let fleet = places.start(&zonewright);
    fleet.wait_until_equal(&zonewright, PATIENCE);

    // Alone, to know what is usual.
    let mut watched = Watched::default();
    let quiet = now();
    while now() - quiet < Duration::from_secs(u64::min(seconds / 6 + 3, 15)) {
        watched.beat(&server, &zonewright);
    }
    let alone = watched.lag();
    watched.lags.clear();
    let before = records_of_others(&zonewright);
    let subject = (&zonewright, &fleet);
    let outcome = act(&server, client, subject, &before, &mut watched, seconds);
    fleet.wait_until_equal(&zonewright, PATIENCE);
    fleet.assert_equal(&zonewright);
    judge(&zonewright, &mut watched, alone, &outcome);
}

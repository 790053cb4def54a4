//! A generated cluster: the same objects for the same seed, with everything in them that the API server
//! takes and DNS has an opinion about.

use serde_json::{Value, json};

/// The labels that name the Service of a slice.
pub const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// The label that names the ServiceImport of a slice.
pub const IMPORT_LABEL: &str = "multicluster.kubernetes.io/service-name";
/// The label that names the cluster a slice is from.
const CLUSTER_LABEL: &str = "multicluster.kubernetes.io/source-cluster";

/// A label of 63 octets, the most DNS and the API hold.
pub fn long_label(first: char) -> String {
    format!("{first}{}", "x".repeat(62))
}

/// The objects of a cluster, in the order in which they are created.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    pub namespaces: Vec<Value>,
    /// Services, EndpointSlices, Pods, ServiceImports; their `status` is patched afterwards.
    pub objects: Vec<Value>,
}

impl Cluster {
    /// The objects of a kind.
    pub fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.objects
            .iter()
            .filter(move |object| object["kind"] == kind)
    }

    /// The names of the namespaces.
    pub fn namespace_names(&self) -> impl Iterator<Item = &str> {
        self.namespaces.iter().map(name_of)
    }
}

pub fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

pub fn namespace_of(object: &Value) -> &str {
    object["metadata"]["namespace"].as_str().unwrap()
}

/// Small, seeded, the same everywhere and in each release (SplitMix64).
struct Random(u64);

impl Random {
    /// A number below `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// The cluster of a seed.
pub fn generate(seed: u64) -> Cluster {
    let mut maker = Maker {
        random: Random(seed.wrapping_mul(0x9e37_79b9).wrapping_add(17)),
        cluster: Cluster::default(),
        addresses: Vec::new(),
        fresh: 0,
    };
    maker.namespaces();
    maker.pods();
    let services = 10 + maker.random.below(8);
    for number in 0..services {
        maker.service(number);
    }
    maker.orphans();
    maker.imports();
    maker.oddities();
    maker.cluster
}

struct Maker {
    random: Random,
    cluster: Cluster,
    /// IPv4 and IPv6 addresses of endpoints so far, to be shared.
    addresses: Vec<(String, bool)>,
    fresh: u16,
}

impl Maker {
    fn one_in(&mut self, count: u64) -> bool {
        self.random.below(count) == 0
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        let place = self.random.below(from.len() as u64);
        from[usize::try_from(place).unwrap()].clone()
    }

    fn next(&mut self) -> u16 {
        self.fresh += 1;
        self.fresh
    }

    /// Namespaces: two ordinary ones, one of the longest name, one with nothing in it.
    fn namespaces(&mut self) {
        for name in ["blue", "green", &long_label('n'), "empty"] {
            let team = self.pick(&["a", "b", "c"]);
            let mut labels = json!({ "team": team });
            if self.one_in(2) {
                labels["expose"] = json!("yes");
            }
            self.cluster.namespaces.push(json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": { "name": name, "labels": labels },
            }));
        }
    }

    /// One of the namespaces that hold something.
    fn namespace(&mut self) -> String {
        self.pick(&[
            "blue".into(),
            "blue".into(),
            "green".into(),
            long_label('n'),
        ])
    }

    fn labels(&mut self) -> Value {
        let tier = self.pick(&["web", "db", "web"]);
        json!({ "tier": tier })
    }

    /// Pods of all phases, some on the host's network, some with two families.
    fn pods(&mut self) {
        for number in 0..8_u16 {
            let phase = self.pick(&["Running", "Running", "Pending", "Succeeded", "Failed"]);
            let host = self.one_in(5);
            let first = if host {
                "10.0.0.7".to_owned()
            } else {
                format!("10.244.9.{}", number + 1)
            };
            let mut addresses = vec![json!({ "ip": first })];
            if self.one_in(2) && !host {
                let round = format!("fd00:10:244:9{number}::");
                let plain = format!("fd00:10:244:9::{:x}", number + 1);
                let address = self.pick(&[plain.clone(), plain, round]);
                addresses.push(json!({ "ip": address }));
            }
            if self.one_in(6) {
                addresses.reverse();
            }
            let mut status = json!({ "phase": phase });
            if !self.one_in(8) {
                status["podIP"] = addresses[0]["ip"].clone();
                status["podIPs"] = json!(addresses);
            }
            let (namespace, labels) = (self.namespace(), self.labels());
            self.cluster.objects.push(json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": { "namespace": namespace, "name": format!("pod-{number}"), "labels": labels },
                "spec": { "hostNetwork": host, "containers": [{ "name": "c", "image": "none" }] },
                "status": status,
            }));
        }
    }

    /// Ports of a Service: named and unnamed, doubled over protocols, SCTP, at the limits.
    fn ports(&mut self) -> Vec<Value> {
        let port = |name: &str, protocol: &str, number: u16| json!({ "name": name, "protocol": protocol, "port": number });
        match self.random.below(8) {
            0 => vec![json!({ "protocol": "TCP", "port": 80 })],
            1 => vec![port("dns", "UDP", 53), port("dns-tcp", "TCP", 53)],
            2 => vec![
                port("http", "TCP", 80),
                port("https", "TCP", 443),
                port("quic", "UDP", 443),
            ],
            3 => vec![port("m3ua", "SCTP", 2905), port("http", "TCP", 80)],
            4 => vec![port(&long_label('p'), "TCP", 7000), port("http", "TCP", 80)],
            5 => vec![port(&"y".repeat(62), "UDP", 7001)],
            _ => vec![port("http", "TCP", 80)],
        }
    }

    /// A Service of any sort, with its slices.
    fn service(&mut self, number: u64) {
        let name = match self.random.below(10) {
            0 => long_label('s'),
            1 => format!("{number}digit"),
            _ => format!("svc-{number}"),
        };
        let namespace = self.namespace();
        let taken = self
            .cluster
            .of("Service")
            .any(|other| name_of(other) == name && namespace_of(other) == namespace);
        if taken {
            return;
        }
        let dice = self.random.below(12);
        let mut ports = self.ports();
        let low = self.next();
        let (v4, v6) = (
            format!("10.96.{}.{low}", 64 + low % 4),
            format!("fd00:10:96::{low:x}"),
        );
        let mut status = Value::Null;
        let mut spec = match dice {
            0..=5 => self.clustered(&v4, &v6),
            6..=9 => {
                if self.one_in(4) {
                    ports.clear();
                }
                json!({ "clusterIP": "None" })
            }
            _ => {
                let host = self.alias_target();
                json!({ "type": "ExternalName", "externalName": host })
            }
        };
        if dice == 4 {
            spec["type"] = json!("NodePort");
        }
        if dice == 5 {
            spec["type"] = json!("LoadBalancer");
            let ingress = self.pick(&[
                json!([{ "ip": format!("203.0.113.{low}") }]),
                json!([{ "ip": format!("203.0.113.{low}") }, { "ip": format!("2001:db8::{low:x}") }]),
                json!([{ "hostname": "lb.example.net" }]),
                json!([{ "hostname": "lb.example.net" }, { "ip": format!("203.0.113.{low}") }]),
                json!([]),
            ]);
            status = json!({ "loadBalancer": { "ingress": ingress } });
        }
        if dice < 10 && self.one_in(5) {
            spec["externalIPs"] = json!([format!("198.51.100.{low}")]);
        }
        if dice < 10 && self.one_in(3) {
            spec["publishNotReadyAddresses"] = json!(true);
        }
        spec["ports"] = json!(ports);
        let labels = self.labels();
        self.cluster.objects.push(json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "namespace": namespace, "name": name, "labels": labels },
            "spec": spec, "status": status,
        }));
        if dice < 10 {
            let sorts = self.random.below(4);
            for part in 0..sorts {
                self.slice(&namespace, Some(&name), &format!("{low}-{part}"), &ports);
            }
        }
    }

    /// The addresses of a Service with cluster IPs.
    fn clustered(&mut self, v4: &str, v6: &str) -> Value {
        match self.random.below(4) {
            0 => json!({ "ipFamilies": ["IPv6"], "ipFamilyPolicy": "SingleStack",
                         "clusterIP": v6, "clusterIPs": [v6] }),
            1 => json!({ "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack",
                         "clusterIP": v4, "clusterIPs": [v4, v6] }),
            _ => json!({ "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
                         "clusterIP": v4, "clusterIPs": [v4] }),
        }
    }

    /// Where an alias leads: elsewhere, to Services that are there or not, to itself, to no name.
    fn alias_target(&mut self) -> String {
        self.pick(&[
            "db.example.com",
            "db.example.com.",
            "svc-0.blue.svc.cluster.local",
            "svc-1.green.svc.cluster.local",
            "svc-2.blue.svc.cluster.local",
            "nothing.blue.svc.cluster.local",
            "192.0.2.80",
        ])
        .to_owned()
    }

    /// A slice of one family, or of host names.
    fn slice(&mut self, namespace: &str, service: Option<&str>, name: &str, ports: &[Value]) {
        let family = match self.random.below(16) {
            0 => "FQDN",
            1..=5 => "IPv6",
            _ => "IPv4",
        };
        let count = self.random.below(5);
        let endpoints: Vec<Value> = (0..count)
            .map(|_| self.endpoint(namespace, family))
            .collect();
        let mut labels = self.labels();
        if let Some(service) = service {
            labels[SERVICE_LABEL] = json!(service);
        }
        let ports = self.slice_ports(ports);
        self.cluster.objects.push(json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family,
            "metadata": { "namespace": namespace, "name": format!("slice-{name}"), "labels": labels },
            "endpoints": endpoints, "ports": ports,
        }));
    }

    /// Ports of a slice: those of the Service with the pods' numbers, none, or one without a number.
    fn slice_ports(&mut self, ports: &[Value]) -> Vec<Value> {
        match self.random.below(12) {
            0 => Vec::new(),
            1 => vec![json!({ "name": "numberless", "protocol": "TCP" })],
            2 => vec![json!({ "port": 9999 })],
            _ => ports
                .iter()
                .map(|port| {
                    let mut port = port.clone();
                    let number = port["port"].as_u64().unwrap();
                    // Two ports of a Service may lead to one of the pod.
                    port["port"] = json!(if number == 443 { 8080 } else { number + 8000 });
                    port
                })
                .collect(),
        }
    }

    fn endpoint(&mut self, namespace: &str, family: &str) -> Value {
        let number = self.next();
        let address = match family {
            "FQDN" => format!("host-{number}.example.org"),
            family => {
                let v6 = family == "IPv6";
                let known: Vec<String> = self
                    .addresses
                    .iter()
                    .filter(|(_, other)| *other == v6)
                    .map(|(address, _)| address.clone())
                    .collect();
                if !known.is_empty() && self.one_in(4) {
                    self.pick(&known)
                } else {
                    let fresh = if v6 {
                        let forms = [
                            format!("fd00:10:244::{number:x}"),
                            format!("fd00:10:244:{number:x}::"),
                            format!("fd00:10:244:0:1::{number:x}"),
                        ];
                        self.pick(&forms)
                    } else {
                        format!("10.244.{}.{}", number % 3, number)
                    };
                    self.addresses.push((fresh.clone(), v6));
                    fresh
                }
            }
        };
        // One address is in one place.
        let place = address.bytes().map(u64::from).sum::<u64>() % 4;
        let mut endpoint = json!({ "addresses": [address] });
        let ready = [json!(true), json!(true), json!(true), json!(false)];
        if !self.one_in(5) {
            let (ready, terminating) = (self.pick(&ready), self.one_in(6));
            endpoint["conditions"] = json!({
                "ready": ready, "serving": ready.as_bool().unwrap() || terminating,
                "terminating": terminating,
            });
        }
        if self.one_in(3) {
            let shared = self.one_in(4);
            endpoint["hostname"] = json!(if shared {
                "shared".to_owned()
            } else {
                format!("host-{number}")
            });
        }
        if self.one_in(2) {
            let name = self.pick(&[
                format!("pod-{number}"),
                format!("pod-{number}"),
                format!("dotted.pod-{number}"),
                format!("pod-{number}-{}", "z".repeat(64)),
            ]);
            endpoint["targetRef"] = json!({ "kind": "Pod", "namespace": namespace, "name": name });
        }
        if place < 2 {
            endpoint["zone"] = json!(["zone-a", "Zone-B"][usize::from(place == 1)]);
        }
        endpoint
    }

    /// Slices of Services that are not there, of aliases, and of nobody.
    fn orphans(&mut self) {
        let ports = [json!({ "name": "http", "protocol": "TCP", "port": 80 })];
        if self.one_in(2) {
            self.slice("blue", Some("ghost"), "ghost", &ports);
        }
        if self.one_in(2) {
            self.slice("green", None, "nobody", &ports);
        }
        let alias = self
            .cluster
            .of("Service")
            .find(|service| service["spec"]["type"] == "ExternalName")
            .map(|service| {
                (
                    namespace_of(service).to_owned(),
                    name_of(service).to_owned(),
                )
            });
        if let Some((namespace, name)) = alias {
            self.slice(&namespace, Some(&name), "of-an-alias", &ports);
        }
    }

    /// ServiceImports of both types, with slices from two clusters.
    fn imports(&mut self) {
        for number in 0..4_u16 {
            let namespace = self.namespace();
            let name = format!("import-{number}");
            let ports = if self.one_in(4) {
                Vec::new()
            } else {
                self.ports()
            };
            let headless = self.one_in(2);
            let mut spec = json!({ "type": "Headless", "ports": ports });
            if !headless {
                let (v4, v6) = (
                    format!("10.9.0.{}", number + 1),
                    format!("fd00:10:9::{number:x}"),
                );
                let addresses = self.pick(&[json!([v4]), json!([v4, v6]), json!([v6])]);
                spec = json!({ "type": "ClusterSetIP", "ports": ports, "ips": addresses });
            }
            self.cluster.objects.push(json!({
                "apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport",
                "metadata": { "namespace": namespace, "name": name }, "spec": spec,
            }));
            for part in 0..self.random.below(3) {
                let place = self.cluster.objects.len();
                // The controller of the set adopts them so.
                let derived = format!("derived-{number}");
                self.slice(
                    &namespace,
                    Some(&derived),
                    &format!("in-{number}-{part}"),
                    &ports,
                );
                let cluster = self.pick(&["east", "west"]);
                let labels = &mut self.cluster.objects[place]["metadata"]["labels"];
                labels[IMPORT_LABEL] = json!(name);
                labels[CLUSTER_LABEL] = json!(cluster);
            }
        }
    }

    /// What is seldom by chance: aliases of themselves and in a circle, hosts beside addresses, an import without
    /// addresses, Services with host names outside. Half of it is in each cluster.
    fn oddities(&mut self) {
        let ports = [json!({ "name": "http", "protocol": "TCP", "port": 80 })];
        let alias = |name: &str, target: &str| {
            let host = format!("{target}.blue.svc.cluster.local");
            json!({
                "apiVersion": "v1", "kind": "Service", "metadata": { "namespace": "blue", "name": name },
                "spec": { "type": "ExternalName", "externalName": host },
            })
        };
        for [name, target] in [
            ["itself", "itself"],
            ["ring-a", "ring-b"],
            ["ring-b", "ring-a"],
        ] {
            if self.one_in(2) {
                self.cluster.objects.push(alias(name, target));
            }
        }
        if self.one_in(2) {
            let labels = self.labels();
            self.cluster.objects.push(json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": { "namespace": "blue", "name": "mixed", "labels": labels },
                "spec": { "clusterIP": "None", "ports": ports },
            }));
            for (family, address) in [("IPv4", "10.244.200.1"), ("FQDN", "host.example.org")] {
                self.cluster.objects.push(json!({
                    "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family,
                    "metadata": { "namespace": "blue", "name": format!("mixed-{}", family.to_lowercase()),
                                  "labels": { SERVICE_LABEL: "mixed", "tier": labels["tier"] } },
                    "endpoints": [{ "addresses": [address], "zone": format!("zone-{}", if family == "IPv4" { "a" } else { "b" }) }],
                    "ports": ports,
                }));
            }
        }
        if self.one_in(2) {
            self.cluster.objects.push(json!({
                "apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport",
                "metadata": { "namespace": "blue", "name": "import-nowhere" },
                "spec": { "type": "ClusterSetIP", "ports": ports, "ips": [] },
            }));
        }
        for (number, ingress) in [
            json!([{ "hostname": "lb.example.net" }]),
            json!([{ "hostname": "lb.example.net" }, { "ip": "203.0.113.250" }]),
        ]
        .into_iter()
        .enumerate()
        {
            if self.one_in(2) {
                let (namespace, ports, labels) = (self.namespace(), self.ports(), self.labels());
                self.cluster.objects.push(json!({
                    "apiVersion": "v1", "kind": "Service",
                    "metadata": { "namespace": namespace, "name": format!("balanced-{number}"), "labels": labels },
                    "spec": { "type": "LoadBalancer", "clusterIP": format!("10.96.68.{}", number + 1),
                              "clusterIPs": [format!("10.96.68.{}", number + 1)], "ports": ports },
                    "status": { "loadBalancer": { "ingress": ingress } },
                }));
            }
        }
    }
}

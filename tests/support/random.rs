//! A cluster that changes at random, the same way for the same seed.
//!
//! Every change is one that the forward zone shows, in one or more versions.

use std::collections::BTreeMap;

use fastrand::Rng;
use serde_json::{Value, json};

/// A step of a change.
#[derive(Clone, Debug)]
pub enum Act {
    /// The object is there, like this.
    Put(Value),
    /// The object is gone.
    Delete(Value),
}

/// What sort of Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Clustered,
    Headless,
    External,
}

/// A Service and its slices.
#[derive(Clone, Debug)]
struct Entry {
    sort: Sort,
    service: Value,
    /// By address family, `IPv4` or `IPv6`.
    slices: BTreeMap<&'static str, Value>,
}

#[derive(Debug)]
pub struct Cluster {
    random: Rng,
    /// By name; all live in the namespaces [`NAMESPACES`].
    entries: BTreeMap<String, Entry>,
    /// Counts what must be new each time: names, addresses, ports.
    fresh: u16,
}

/// The namespaces that hold the Services.
pub const NAMESPACES: [&str; 2] = ["blue", "green"];

impl Cluster {
    /// An empty cluster.
    pub fn new(seed: u64) -> Self {
        Self {
            random: Rng::with_seed(seed),
            entries: BTreeMap::new(),
            fresh: 0,
        }
    }

    /// The next random change: creates, changes or deletes a Service or slices of one.
    pub fn change(&mut self) -> Vec<Act> {
        // From ten Services on as many go as come, so that the zone neither empties nor grows.
        let count = self.entries.len() as u64;
        let dice = self.random.u64(..10);
        match dice {
            0..=3 if count < 60 => self.create(),
            4 if count > 10 => self.delete(),
            _ if count > 0 => self.update(),
            _ => self.create(),
        }
    }

    /// Something that was not there before, or long ago: addresses are made of it.
    fn next_fresh(&mut self) -> u16 {
        self.fresh = self.fresh % 40_000 + 1;
        self.fresh
    }

    /// A new Service, with its slices if it has endpoints.
    pub fn create(&mut self) -> Vec<Act> {
        let number = self.next_fresh();
        let (high, low) = (number >> 8, number & 255);
        let namespace = NAMESPACES[usize::from(number % 2)];
        let name = format!("service-{number}");
        let sort = match self.random.u64(..4) {
            0 => Sort::External,
            1 => Sort::Headless,
            _ => Sort::Clustered,
        };
        let port = json!({ "name": "http", "port": 80, "protocol": "TCP" });
        let dual = json!(["IPv4", "IPv6"]);
        let spec = match sort {
            Sort::Clustered => json!({
                "type": "ClusterIP", "ipFamilyPolicy": "RequireDualStack", "ipFamilies": dual,
                "clusterIP": format!("10.96.{}.{low}", high + 64),
                "clusterIPs": [format!("10.96.{}.{low}", high + 64), format!("fd00:10:96::{number:x}")],
                "ports": [port],
            }),
            Sort::Headless => json!({
                "type": "ClusterIP", "ipFamilyPolicy": "RequireDualStack", "ipFamilies": dual,
                "clusterIP": "None", "clusterIPs": ["None"], "ports": [port],
            }),
            Sort::External => {
                json!({ "type": "ExternalName", "externalName": format!("v{number}.example.com") })
            }
        };
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "namespace": namespace, "name": name }, "spec": spec,
        });
        let mut entry = Entry {
            sort,
            service,
            slices: BTreeMap::new(),
        };
        let mut acts = vec![Act::Put(entry.service.clone())];
        if sort != Sort::External {
            for family in ["IPv4", "IPv6"] {
                let slice = self.slice(&entry, family);
                acts.push(Act::Put(slice.clone()));
                entry.slices.insert(family, slice);
            }
        }
        self.entries.insert(name, entry);
        acts
    }

    /// A slice of new endpoints.
    fn slice(&mut self, entry: &Entry, family: &str) -> Value {
        let (namespace, name) = (
            &entry.service["metadata"]["namespace"],
            entry.service["metadata"]["name"].as_str().unwrap(),
        );
        let count = 1 + self.random.u64(..5);
        let mut endpoints = Vec::new();
        for _ in 0..count {
            let number = self.next_fresh();
            let address = match family {
                "IPv4" => format!("10.244.{}.{}", number >> 8, number & 255),
                _ => format!("fd00:10:244::{number:x}"),
            };
            let mut endpoint = json!({ "addresses": [address], "conditions": { "ready": true } });
            if self.random.u64(..3) == 0 {
                endpoint["hostname"] = json!(format!("pod-{number}"));
            }
            endpoints.push(endpoint);
        }
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family,
            "metadata": {
                "namespace": namespace, "name": format!("{name}-{}", family.to_lowercase()),
                "labels": { "kubernetes.io/service-name": name },
            },
            "endpoints": endpoints,
            "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
        })
    }

    /// A Service goes, with its slices.
    fn delete(&mut self) -> Vec<Act> {
        let name = self.any();
        let entry = self.entries.remove(&name).expect("it is one of them");
        let slices = entry.slices.into_values().map(Act::Delete);
        std::iter::once(Act::Delete(entry.service))
            .chain(slices)
            .collect()
    }

    /// The name of one of the Services.
    fn any(&mut self) -> String {
        let place = self.random.u64(..self.entries.len() as u64);
        let place = usize::try_from(place).expect("there are few");
        self.entries
            .keys()
            .nth(place)
            .expect("below the count")
            .clone()
    }

    /// A Service has other ports or another target, or its endpoints are others, or one family of
    /// them goes or comes.
    fn update(&mut self) -> Vec<Act> {
        let name = self.any();
        let mut entry = self.entries[&name].clone();
        let number = self.next_fresh();
        let family = ["IPv4", "IPv6"][usize::from(self.random.u64(..2) == 0)];
        let act = match (entry.sort, self.random.u64(..3)) {
            (Sort::External, _) => {
                entry.service["spec"]["externalName"] = json!(format!("v{number}.example.com"));
                Act::Put(entry.service.clone())
            }
            (Sort::Clustered, 0) => {
                // A port of its own number always differs from the one it had.
                let port = 1000 + number;
                entry.service["spec"]["ports"] = json!([
                    { "name": "http", "port": 80, "protocol": "TCP" },
                    { "name": "metrics", "port": port, "protocol": "TCP" },
                ]);
                Act::Put(entry.service.clone())
            }
            (_, 1) if entry.slices.len() == 2 => {
                Act::Delete(entry.slices.remove(family).expect("both are there"))
            }
            _ => {
                let slice = self.slice(&entry, family);
                entry.slices.insert(family, slice.clone());
                Act::Put(slice)
            }
        };
        self.entries.insert(name, entry);
        vec![act]
    }
}

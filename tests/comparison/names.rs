//! The names that are asked: all that the objects could mean, what lies between, beside and below them,
//! and names that mean nothing.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::Value;

use super::cluster::{Cluster, IMPORT_LABEL, SERVICE_LABEL, name_of, namespace_of};
use super::options::{OptionSet, is_reverse};
use crate::support::contents::is_below;

/// All names for one option set, in lower case, absolute.
pub fn names(cluster: &Cluster, set: &OptionSet) -> BTreeSet<String> {
    let mut names = Names {
        cluster,
        set,
        out: BTreeSet::new(),
    };
    for zone in set.forward_zones() {
        if set.is_external(&zone) {
            names.outside(&zone);
        } else {
            names.forward(&zone);
            names.zonal(&zone);
        }
        if set.is_clusterset(&zone) {
            names.imports(&zone);
        }
    }
    for zone in set.zone_names().iter().filter(|zone| is_reverse(zone)) {
        names.reverse(zone);
    }
    names.out.into_iter().filter(|name| is_name(name)).collect()
}

/// Whether DNS can hold it.
fn is_name(name: &str) -> bool {
    let labels = name.strip_suffix('.').unwrap_or(name).split('.');
    name.len() <= 254 && labels.clone().all(|label| (1..=63).contains(&label.len()))
}

/// The addresses of endpoints, Services and pods.
fn addresses(cluster: &Cluster) -> BTreeSet<IpAddr> {
    let mut texts: Vec<&Value> = Vec::new();
    for service in cluster.of("Service") {
        texts.extend(
            service["spec"]["clusterIPs"]
                .as_array()
                .into_iter()
                .flatten(),
        );
        texts.extend(
            service["spec"]["externalIPs"]
                .as_array()
                .into_iter()
                .flatten(),
        );
        let ingress = &service["status"]["loadBalancer"]["ingress"];
        texts.extend(
            ingress
                .as_array()
                .into_iter()
                .flatten()
                .map(|one| &one["ip"]),
        );
    }
    for import in cluster.of("ServiceImport") {
        texts.extend(import["spec"]["ips"].as_array().into_iter().flatten());
    }
    for slice in cluster.of("EndpointSlice") {
        for endpoint in slice["endpoints"].as_array().unwrap() {
            texts.extend(endpoint["addresses"].as_array().unwrap());
        }
    }
    for pod in cluster.of("Pod") {
        let all = pod["status"]["podIPs"].as_array().into_iter().flatten();
        texts.extend(all.map(|one| &one["ip"]));
    }
    texts
        .into_iter()
        .filter_map(|text| text.as_str()?.parse().ok())
        .collect()
}

/// The owner of the PTRs of an address.
pub fn pointer_name(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa.")
        }
        IpAddr::V6(address) => {
            let nibbles = address.octets().into_iter().rev();
            let text: String = nibbles
                .map(|octet| format!("{:x}.{:x}.", octet & 15, octet >> 4))
                .collect();
            format!("{text}ip6.arpa.")
        }
    }
}

/// Collects.
struct Names<'a> {
    cluster: &'a Cluster,
    set: &'a OptionSet,
    out: BTreeSet<String>,
}

impl Names<'_> {
    fn add(&mut self, name: String) {
        self.out.insert(name.to_lowercase());
    }

    fn forward(&mut self, zone: &str) {
        for label in [
            "",
            "svc.",
            "pod.",
            "dns.",
            "ns.dns.",
            "x.ns.dns.",
            "dns-version.",
            "x.dns-version.",
            "nothing.",
            "nothing.svc.",
            "nothing.pod.",
            "a.nothing.svc.",
            "*.",
            "any.",
            "_tcp.",
            "_http._tcp.",
            "*.svc.",
            "svc.svc.",
            "pod.svc.",
        ] {
            self.add(format!("{label}{zone}"));
        }
        let namespaces: Vec<&str> = self.cluster.namespace_names().chain(["missing"]).collect();
        for namespace in namespaces {
            self.add(format!("{namespace}.svc.{zone}"));
            self.add(format!("nothing.{namespace}.svc.{zone}"));
            self.add(format!("*.{namespace}.svc.{zone}"));
            self.add(format!("{namespace}.{zone}"));
            self.pods(&format!("{namespace}.pod.{zone}"));
        }
        for service in self.cluster.of("Service") {
            let base = format!("{}.{}.svc.{zone}", name_of(service), namespace_of(service));
            self.service(&base);
            self.ports(&base, &service["spec"]["ports"]);
        }
        for slice in self.cluster.of("EndpointSlice") {
            let Some(service) = slice["metadata"]["labels"][SERVICE_LABEL].as_str() else {
                continue;
            };
            let base = format!("{service}.{}.svc.{zone}", namespace_of(slice));
            self.service(&base);
            self.ports(&base, &slice["ports"]);
            for endpoint in slice["endpoints"].as_array().unwrap() {
                self.endpoint(&base, endpoint);
            }
        }
    }

    /// Names of `k8s_external`: those of the cluster without `svc`.
    fn outside(&mut self, zone: &str) {
        let before = std::mem::take(&mut self.out);
        self.forward("outside.");
        let inside = std::mem::replace(&mut self.out, before);
        for name in inside {
            if let Some(rest) = name.strip_suffix("svc.outside.") {
                self.add(format!("{rest}{zone}"));
            }
        }
        for label in [
            "",
            "dns.",
            "ns1.dns.",
            "x.dns.",
            "x.ns1.dns.",
            "names.",
            "ns1.names.",
            "svc.",
            "dns-version.",
        ] {
            self.add(format!("{label}{zone}"));
        }
    }

    /// Names by topology zone.
    fn zonal(&mut self, zone: &str) {
        if !self.set.says("zonal") {
            return;
        }
        for service in self.cluster.of("Service") {
            let base = format!("{}.{}.svc.{zone}", name_of(service), namespace_of(service));
            for label in [
                "zone-a.pin",
                "zone-b.pin",
                "zone-c.pin",
                "a.b.pin",
                "zone-a.prefer",
                "zone-b.prefer",
                "zone-c.prefer",
                "zone-a.nothing",
                "pin",
                "prefer",
            ] {
                self.add(format!("{label}._zone.{base}"));
            }
            self.add(format!("_zone.{base}"));
        }
    }

    /// Names of imports and their endpoints, with and without their clusters.
    fn imports(&mut self, zone: &str) {
        for import in self.cluster.of("ServiceImport") {
            let base = format!("{}.{}.svc.{zone}", name_of(import), namespace_of(import));
            self.service(&base);
            self.ports(&base, &import["spec"]["ports"]);
        }
        for slice in self.cluster.of("EndpointSlice") {
            let labels = &slice["metadata"]["labels"];
            let Some(service) = labels[IMPORT_LABEL].as_str() else {
                continue;
            };
            let base = format!("{service}.{}.svc.{zone}", namespace_of(slice));
            self.service(&base);
            self.ports(&base, &slice["ports"]);
            for cluster in ["east", "west", "nowhere"] {
                let base = format!("{cluster}.{base}");
                self.add(base.clone());
                for endpoint in slice["endpoints"].as_array().unwrap() {
                    self.endpoint(&base, endpoint);
                }
            }
            for endpoint in slice["endpoints"].as_array().unwrap() {
                self.endpoint(&base, endpoint);
            }
        }
    }

    /// A Service's name and what is around it.
    fn service(&mut self, base: &str) {
        for label in [
            "",
            "nothing.",
            "_tcp.",
            "_udp.",
            "_sctp.",
            "tcp.",
            "_nothing._tcp.",
            "_._tcp.",
            "a.b.c.",
        ] {
            self.add(format!("{label}{base}"));
        }
    }

    fn ports(&mut self, base: &str, ports: &Value) {
        for port in ports.as_array().into_iter().flatten() {
            let protocol = port["protocol"].as_str().unwrap_or("TCP").to_lowercase();
            let Some(name) = port["name"].as_str().filter(|name| !name.is_empty()) else {
                continue;
            };
            for label in [
                format!("_{name}._{protocol}."),
                format!("{name}.{protocol}."),
                format!("_{name}."),
                format!("_{name}._nothing."),
                format!("x._{name}._{protocol}."),
            ] {
                self.add(format!("{label}{base}"));
            }
        }
    }

    /// The names an endpoint might have, each with one below it.
    fn endpoint(&mut self, base: &str, endpoint: &Value) {
        let mut labels: Vec<String> = Vec::new();
        labels.extend(endpoint["hostname"].as_str().map(str::to_owned));
        labels.extend(endpoint["targetRef"]["name"].as_str().map(str::to_owned));
        for address in endpoint["addresses"].as_array().unwrap() {
            let dashed = address.as_str().unwrap().replace(['.', ':'], "-");
            labels.push(if dashed.ends_with('-') {
                format!("{dashed}0")
            } else {
                dashed
            });
        }
        for label in labels {
            self.add(format!("{label}.{base}"));
            self.add(format!("_{label}.{base}"));
            self.add(format!("x.{label}.{base}"));
        }
    }

    /// Names of pods, and names that look like some, in one namespace.
    fn pods(&mut self, base: &str) {
        self.add(base.to_owned());
        for label in [
            "blah",
            "1-2-3-4",
            "1-2-3-4-5",
            "010-1-1-1",
            "256-1-1-1",
            "1-2--4",
            "--1",
            "fd00--5",
            "fd00-0-0-0-0-0-0-5",
            "x.1-2-3-4",
            "_x._y.1-2-3-4",
            "a.b.c.1-2-3-4",
            "--",
            "fd00-10-244-9--",
            "ffff-1-2-3",
            "0-0-0-0",
            "--ffff-1-2",
        ] {
            self.add(format!("{label}.{base}"));
        }
        for pod in self.cluster.of("Pod") {
            self.add(format!("{}.{base}", name_of(pod)));
            for one in pod["status"]["podIPs"].as_array().into_iter().flatten() {
                let dashed = one["ip"].as_str().unwrap().replace(['.', ':'], "-");
                self.add(format!("{dashed}.{base}"));
                self.add(format!("x.{dashed}.{base}"));
                if dashed.ends_with('-') {
                    self.add(format!("{dashed}0.{base}"));
                }
            }
        }
    }

    fn reverse(&mut self, zone: &str) {
        for label in [
            "",
            "nothing.",
            "svc.",
            "pod.",
            "dns-version.",
            "ns.dns.",
            "blue.svc.",
            "300.",
        ] {
            self.add(format!("{label}{zone}"));
        }
        for service in self.cluster.of("Service").take(2) {
            let base = format!("{}.{}", name_of(service), namespace_of(service));
            self.add(format!("{base}.svc.{zone}"));
        }
        let inside: Vec<String> = addresses(self.cluster)
            .into_iter()
            .map(pointer_name)
            .filter(|name| name.ends_with(&format!(".{zone}")))
            .collect();
        for (number, name) in inside.into_iter().enumerate() {
            // All names between this one and the zone, but of some only.
            if number % 4 == 0 {
                let mut rest = name.as_str();
                while rest.len() > zone.len() {
                    self.add(rest.to_owned());
                    rest = rest.split_once('.').unwrap().1;
                }
                for label in ["x", "x.y", "x.y.z", "x.y.z.z", "007"] {
                    self.add(format!("{label}.{name}"));
                }
            }
            let (first, rest) = name.split_once('.').unwrap();
            let neighbour = if first == "9" {
                "8".to_owned()
            } else {
                format!("0{first}")
            };
            self.add(format!("{neighbour}.{rest}"));
            self.add(name);
        }
        if zone.ends_with("in-addr.arpa.") {
            self.add("254.255.96.10.in-addr.arpa.".to_owned());
        }
        self.out.retain(|name| {
            self.set
                .zone_names()
                .iter()
                .any(|zone| is_below(name, zone))
        });
    }
}

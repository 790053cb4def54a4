//! The rules: each makes what we have of what CoreDNS answers, and gives the difference's name.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::Value;

use super::answer::{Answer, Question};
use super::cluster::{IMPORT_LABEL, SERVICE_LABEL, name_of, namespace_of};
use super::names::pointer_name;
use super::options::is_reverse;
use super::oracle::{Data, Oracle};
use super::shape::{Shape, zone_of};
use crate::support::contents::is_below;
use crate::support::wire::{A, AAAA, CNAME, NS, PTR, Record, SRV, TXT};

/// The weight of all our SRV records.
const WEIGHT: &str = "100";

/// A record with the zones' TTL.
fn record(oracle: &Oracle<'_>, owner: &str, rtype: u16, data: &str) -> Record {
    Record {
        owner: owner.to_owned(),
        rtype,
        data: data.to_owned(),
        ttl: oracle.set.ttl_of(oracle.zone_of(owner)),
        class: 1,
    }
}

/// The name server of a zone: its own in a forward zone, the first forward zone's in a reverse one.
pub fn name_server(oracle: &Oracle<'_>, zone: &str) -> String {
    if let Some(main) = oracle.set.external.filter(|_| oracle.set.is_external(zone)) {
        format!("ns1.{}.{main}", oracle.set.apex())
    } else if is_reverse(zone) || oracle.set.is_clusterset(zone) {
        format!("ns.dns.{}", oracle.set.forward_zones()[0])
    } else {
        format!("ns.dns.{zone}")
    }
}

/// All rules that need no other name's contents.
pub fn change(oracle: &mut Oracle<'_>) {
    drop_by_shape(oracle);
    external_ips(oracle);
    names_outside(oracle);
    times_outside(oracle);
    aliases_of_themselves(oracle);
    set_of_clusters(oracle);
    round_pods(oracle);
    rename_dotted_pods(oracle);
    hosts_by_zone(oracle);
    equal_weights(oracle);
    addresses_before_hosts(oracle);
    whole_targets(oracle);
    lone_aliases(oracle);
    name_servers(oracle);
    pointers_of_silence(oracle);
}

/// CoreDNS answers nothing about an address that is also in a slice of nobody: what it is called elsewhere
/// says what leads there.
fn pointers_of_silence(oracle: &mut Oracle<'_>) {
    let silent: Vec<String> = oracle
        .theirs
        .iter()
        .filter(|(question, answer)| answer.silent && question.qtype == PTR)
        .map(|(question, _)| question.name.clone())
        .collect();
    let main = oracle.set.forward_zones()[0].clone();
    for name in silent {
        let targets: Vec<String> = oracle
            .data
            .iter()
            .filter(|((owner, rtype), _)| {
                [A, AAAA].contains(rtype)
                    && is_below(owner, &main)
                    && oracle.shape_of(owner) == Shape::Endpoint
            })
            .filter(|(_, data)| {
                let addresses = data.records.iter().filter_map(|one| one.data.parse().ok());
                addresses.map(pointer_name).any(|pointer| pointer == name)
            })
            .map(|((owner, _), _)| owner.clone())
            .collect();
        for target in targets {
            let pointer = record(oracle, &name, PTR, &target);
            insert(oracle, pointer, BTreeSet::new());
        }
        oracle.note(&name, "hidden-ptr");
    }
}

/// What CoreDNS answers at names that are none, and at names that have other types.
fn drop_by_shape(oracle: &mut Oracle<'_>) {
    let keys: Vec<(String, u16)> = oracle.data.keys().cloned().collect();
    for (name, rtype) in keys {
        let address = [A, AAAA].contains(&rtype);
        let reverse = is_reverse(oracle.zone_of(&name));
        let difference = match oracle.shape_of(&name) {
            Shape::PortLike | Shape::PodLike | Shape::PointerLike => "lenient",
            Shape::Port if address || rtype == CNAME => {
                let numberless = !oracle.data.contains_key(&(name.clone(), SRV));
                if numberless {
                    "numberless"
                } else {
                    "port-address"
                }
            }
            Shape::Pod if rtype == SRV => "pod-srv",
            Shape::NameServer => "ns",
            _ if reverse && rtype != PTR => "reverse",
            Shape::Apex
            | Shape::Level
            | Shape::Service
            | Shape::Endpoint
            | Shape::Port
            | Shape::Pod
            | Shape::Pointer
            | Shape::Version
            | Shape::Zonal
            | Shape::Other => continue,
        };
        oracle.data.remove(&(name.clone(), rtype));
        oracle.note(&name, difference);
    }
}

/// `externalIPs`, which the author of a Service chooses, have no names and no PTRs unless the configuration says so.
fn external_ips(oracle: &mut Oracle<'_>) {
    let Some(zone) = oracle
        .set
        .external
        .filter(|_| !oracle.set.publishes_external_ips())
    else {
        return;
    };
    let services: Vec<Value> = oracle.cluster.of("Service").cloned().collect();
    for service in services {
        let base = format!("{}.{}.{zone}", name_of(&service), namespace_of(&service));
        let written = service["spec"]["externalIPs"].as_array();
        let mut gone: BTreeSet<IpAddr> = { written.into_iter().flatten() }
            .map(|address| address.as_str().unwrap().parse().unwrap())
            .collect();
        let ingress = service["status"]["loadBalancer"]["ingress"].as_array();
        let ingress = ingress.map(Vec::as_slice).unwrap_or_default();
        let balanced: BTreeSet<IpAddr> = { ingress.iter() }
            .filter_map(|one| one["ip"].as_str()?.parse().ok())
            .collect();
        gone.retain(|address| !balanced.contains(address));
        if gone.is_empty() {
            continue;
        }
        let texts: BTreeSet<String> = gone.iter().map(ToString::to_string).collect();
        let pointers: Vec<String> = gone.iter().map(|it| pointer_name(*it)).collect();
        let to_base = format!(" {base}");
        let leaves = |key: &(String, u16), one: &Record| {
            let is_pointer = pointers.contains(&key.0) && one.data == base;
            let is_its = is_below(&key.0, &base);
            let leads_back = key.1 == SRV && one.data.ends_with(&to_base);
            is_pointer
                || (is_its
                    && (ingress.is_empty()
                        || texts.contains(&one.data)
                        || (balanced.is_empty() && leads_back)))
        };
        let keys: Vec<(String, u16)> = oracle.data.keys().cloned().collect();
        for key in keys {
            let data = oracle.data.get_mut(&key).expect("it is one of them");
            let before = data.records.len();
            data.records.retain(|one| !leaves(&key, one));
            if data.records.len() == before {
                continue;
            }
            if data.records.is_empty() {
                oracle.data.remove(&key);
            }
            oracle.note(&key.0, "external-ips");
        }
        // Names that only lead to these.
        let below: Vec<String> = { oracle.theirs.keys() }
            .filter(|question| is_below(&question.name, &base))
            .map(|question| question.name.clone())
            .collect();
        for name in below {
            oracle.note(&name, "external-ips");
        }
    }
}

/// A PTR leads to an endpoint in the namespace to which its address belongs: that of the oldest object that holds it.
pub fn owned_pointers(oracle: &mut Oracle<'_>) {
    let pointers = oracle.data.iter().filter(|((_, rtype), _)| *rtype == PTR);
    let several = pointers.filter(|(_, data)| data.records.len() > 1);
    let several: Vec<((String, u16), Data)> = several
        .map(|(key, data)| (key.clone(), data.clone()))
        .collect();
    for (key, data) in several {
        let owners: Vec<(String, String, &Record)> = { data.records.iter() }
            .filter_map(|record| {
                let object = object_of(oracle, &record.data)?;
                let created = object["metadata"]["creationTimestamp"].as_str()?;
                let age = format!("{created} {}", namespace_of(object));
                // A name in a namespace is compared as a whole: "a" is before "a-b".
                Some((age, name_of(object).to_owned(), record))
            })
            .collect();
        let Some((_, _, oldest)) = owners.iter().min() else {
            continue;
        };
        let namespace = |record: &Record| {
            object_of(oracle, &record.data).map(|object| namespace_of(object).to_owned())
        };
        let owner = namespace(oldest);
        let kept: BTreeSet<Record> = { data.records.iter() }
            .filter(|record| namespace(record) == owner)
            .cloned()
            .collect();
        if kept.len() < data.records.len() {
            oracle.note(&key.0, "foreign-ptr");
            let additional = BTreeSet::new();
            oracle.data.insert(
                key,
                Data {
                    records: kept,
                    additional,
                },
            );
        }
    }
}

/// The Service or ServiceImport at or above a name in a zone of names of the cluster.
fn object_of<'a>(oracle: &Oracle<'a>, name: &str) -> Option<&'a Value> {
    let zone = zone_of(name, &oracle.zones)?;
    let kind = if oracle.set.is_clusterset(zone) {
        "ServiceImport"
    } else {
        "Service"
    };
    let labels = name.strip_suffix(&format!(".svc.{zone}"))?;
    let mut labels = labels.rsplit('.');
    let (namespace, service) = (labels.next()?, labels.next()?);
    let is_it = |it: &&Value| name_of(it) == service && namespace_of(it) == namespace;
    oracle.cluster.of(kind).find(is_it)
}

/// Outside, all records have the TTL of the zone.
fn times_outside(oracle: &mut Oracle<'_>) {
    let zones: Vec<String> = { oracle.zones.iter() }
        .filter(|zone| oracle.set.is_external(zone))
        .cloned()
        .collect();
    let keys: Vec<(String, u16)> = oracle
        .data
        .keys()
        .filter(|(name, _)| zones.iter().any(|zone| is_below(name, zone)))
        .cloned()
        .collect();
    for key in keys {
        let ttl = oracle.set.ttl_of(oracle.zone_of(&key.0));
        let data = oracle.data.get_mut(&key).expect("it is one of them");
        let before = data.records.clone();
        data.records = before
            .iter()
            .cloned()
            .map(|one| Record { ttl, ..one })
            .collect();
        if data.records != before {
            oracle.note(&key.0, "external-ttl");
        }
    }
}

/// An alias of itself is left out.
fn aliases_of_themselves(oracle: &mut Oracle<'_>) {
    let keys: Vec<(String, u16)> = oracle
        .data
        .iter()
        .filter(|((name, rtype), data)| {
            *rtype == CNAME && data.records.iter().any(|one| one.data == *name)
        })
        .map(|(key, _)| key.clone())
        .collect();
    for key in keys {
        oracle.note(&key.0, "external-itself");
        oracle.data.remove(&key);
    }
}

/// Outside, nothing but `_port._proto` stands in front of a Service that is reached, and a CNAME stands alone
/// where there is no address.
fn names_outside(oracle: &mut Oracle<'_>) {
    let Some(zone) = oracle.set.external else {
        return;
    };
    let reached: BTreeSet<String> = oracle
        .cluster
        .of("Service")
        .filter(|service| is_reached(service, oracle.set.publishes_external_ips()))
        .map(|service| format!("{}.{}.{zone}", name_of(service), namespace_of(service)))
        .collect();
    let aliases: BTreeSet<String> = oracle
        .cluster
        .of("Service")
        .filter(|service| service["spec"]["type"] == "ExternalName")
        .map(|service| format!("{}.{}.{zone}", name_of(service), namespace_of(service)))
        .collect();
    let keys: Vec<(String, u16)> = oracle
        .data
        .keys()
        .filter(|key| is_below(&key.0, zone))
        .cloned()
        .collect();
    for key in keys {
        let (name, rtype) = key.clone();
        let service = name.split_once('.').expect("a name has labels").1;
        let shape = oracle.shape_of(&name);
        let below_alias =
            shape != Shape::Service && aliases.iter().any(|alias| is_below(&name, alias));
        let junk = shape == Shape::Endpoint && (reached.contains(service) || name.starts_with('_'));
        let has = |wanted: u16| oracle.data.contains_key(&(name.clone(), wanted));
        let has_address = has(A) || has(AAAA);
        let beside = match rtype {
            CNAME => has_address,
            _ => has(CNAME) && !has_address,
        };
        let is_reached = reached.iter().any(|service| is_below(&name, service));
        if rtype == SRV {
            // Where there is an address, the host beside it has the ports' names alone; hosts of FQDN
            // endpoints have none.
            let own = format!(" {name}");
            let data = oracle.data.get_mut(&key).expect("it is one of them");
            let before = data.records.len();
            if is_reached && has_address && shape == Shape::Service {
                data.records.retain(|one| one.data.ends_with(&own));
            } else if !is_reached {
                data.records.retain(|one| one.data.ends_with(zone));
            }
            if data.records.len() < before {
                oracle.note(&name, "external-ports");
            }
        }
        if junk {
            oracle.note(&name, "lenient");
        } else if beside {
            oracle.note(&name, "external-alias");
        } else if below_alias || oracle.data[&key].records.is_empty() {
            oracle.note(&name, "external-ports");
        } else {
            continue;
        }
        oracle.data.remove(&key);
    }
}

/// Whether a Service is reached from outside, by its `externalIPs` only if they are published.
fn is_reached(service: &Value, with_external_ips: bool) -> bool {
    let some = |list: &Value| list.as_array().is_some_and(|list| !list.is_empty());
    (with_external_ips && some(&service["spec"]["externalIPs"]))
        || some(&service["status"]["loadBalancer"]["ingress"])
}

/// In the zone of a set of clusters the specification has another version, imports have their addresses also
/// without ports, and addresses have PTRs.
fn set_of_clusters(oracle: &mut Oracle<'_>) {
    let Some(zone) = oracle.set.clusterset else {
        return;
    };
    let version = format!("dns-version.{zone}");
    let text = Record {
        ttl: 28_800,
        ..record(oracle, &version, TXT, "\"1.0.0\"")
    };
    oracle.data.remove(&(version.clone(), TXT));
    insert(oracle, text, BTreeSet::new());
    oracle.note(&version, "clusterset");
    for import in oracle.cluster.of("ServiceImport") {
        let name = format!("{}.{}.svc.{zone}", name_of(import), namespace_of(import));
        let portless = import["spec"]["ports"]
            .as_array()
            .is_some_and(Vec::is_empty);
        for address in import["spec"]["ips"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|_| portless)
        {
            let address: IpAddr = address.as_str().unwrap().parse().unwrap();
            let rtype = if address.is_ipv6() { AAAA } else { A };
            let own = record(oracle, &name, rtype, &address.to_string());
            insert(oracle, own, BTreeSet::new());
            oracle.note(&name, "clusterset");
        }
    }
    let pointers = pointers_of_imports(oracle, zone);
    for (pointer, name) in pointers {
        let own = record(oracle, &pointer, PTR, &name);
        insert(oracle, own, BTreeSet::new());
        oracle.note(&pointer, "clusterset");
    }
}

/// The PTRs that addresses of imports have: where no Service of the cluster has the address, to the import
/// whose own it is, else to the endpoints of headless imports.
fn pointers_of_imports(oracle: &Oracle<'_>, zone: &str) -> BTreeSet<(String, String)> {
    let mut own = BTreeSet::new();
    let mut of_endpoints = BTreeSet::new();
    for import in oracle.cluster.of("ServiceImport") {
        let base = format!("{}.{}.svc.{zone}", name_of(import), namespace_of(import));
        let headless = import["spec"]["type"] == "Headless";
        let below = oracle.data.iter().filter(|((owner, rtype), _)| {
            let endpoint =
                owner.ends_with(&format!(".{base}")) && oracle.shape_of(owner) == Shape::Endpoint;
            [A, AAAA].contains(rtype) && (if headless { endpoint } else { *owner == base })
        });
        for ((owner, _), data) in below {
            let addresses = data.records.iter().filter_map(|one| one.data.parse().ok());
            let found = addresses.map(|address| (pointer_name(address), owner.clone()));
            if headless {
                of_endpoints.extend(found);
            } else {
                own.extend(found);
            }
        }
    }
    let has_address = |name: &str| {
        [A, AAAA]
            .iter()
            .any(|it| oracle.records(name, *it).is_some())
    };
    let local = |pointer: &str| {
        let known = oracle.records(pointer, PTR);
        known.is_some_and(|data| data.records.iter().any(|one| has_address(&one.data)))
    };
    of_endpoints.retain(|(pointer, _)| !own.iter().any(|(other, _)| other == pointer));
    own.into_iter()
        .chain(of_endpoints)
        .filter(|(pointer, _)| zone_of(pointer, &oracle.zones).is_some() && !local(pointer))
        .collect()
}

/// No label of a zone ends in a dash.
fn round_pods(oracle: &mut Oracle<'_>) {
    let insecure = oracle.set.says("insecure");
    let keys: Vec<(String, u16)> = oracle
        .data
        .keys()
        .filter(|(name, _)| {
            let label = name.split('.').next().unwrap_or_default();
            !insecure && label.ends_with('-') && oracle.shape_of(name) == Shape::Pod
        })
        .cloned()
        .collect();
    for key in keys {
        let data = oracle.data.remove(&key).expect("it is one of them");
        let round = key.0.replacen("-.", "-0.", 1);
        for one in data.records {
            let owner = round.clone();
            insert(oracle, Record { owner, ..one }, BTreeSet::new());
        }
        oracle.note(&key.0, "pod-zero");
        oracle.note(&round, "pod-zero");
    }
}

/// A pod whose name has a dot is called by its address.
fn rename_dotted_pods(oracle: &mut Oracle<'_>) {
    if !oracle.set.says("endpoint_pod_names") {
        return;
    }
    for pod in dotted_pods(oracle) {
        let keys: Vec<(String, u16)> = oracle.data.keys().cloned().collect();
        for key in keys {
            let data = oracle.data.get_mut(&key).expect("it is one of them");
            let before = data.clone();
            let named = |one: &Record| renamed(one, &pod.dotted, &pod.dashed);
            data.records = before.records.iter().map(named).collect();
            data.additional = before.additional.iter().map(named).collect();
            if *data != before {
                oracle.note(&key.0, "dotted-pod");
            }
        }
        oracle.note(&pod.dashed, "dotted-pod");
        if pod.is_host() {
            let own = record(oracle, &pod.dashed, CNAME, &format!("{}.", pod.address));
            insert(oracle, own, BTreeSet::new());
            continue;
        }
        let rtype = if pod.address.contains(':') { AAAA } else { A };
        let own = record(oracle, &pod.dashed, rtype, &pod.address);
        insert(oracle, own.clone(), BTreeSet::new());
        for port in pod.ports {
            let data = format!("0 {WEIGHT} {port} {}", pod.dashed);
            let service = record(oracle, &pod.dashed, SRV, &data);
            insert(oracle, service, BTreeSet::from([own.clone()]));
        }
    }
}

/// Adds a record, and what goes with it.
fn insert(oracle: &mut Oracle<'_>, record: Record, additional: BTreeSet<Record>) {
    let data = oracle
        .data
        .entry((record.owner.clone(), record.rtype))
        .or_default();
    data.records.insert(record);
    data.additional.extend(additional);
}

/// A record that leads to the one name leads to the other.
fn renamed(record: &Record, from: &str, to: &str) -> Record {
    let data = match record.rtype {
        SRV => record
            .data
            .strip_suffix(from)
            .filter(|rest| rest.ends_with(' '))
            .map(|rest| format!("{rest}{to}")),
        PTR if record.data == from => Some(to.to_owned()),
        _ => None,
    };
    let owner = if record.owner == from {
        to
    } else {
        &record.owner
    };
    Record {
        owner: owner.to_owned(),
        data: data.unwrap_or_else(|| record.data.clone()),
        ..record.clone()
    }
}

/// An endpoint called after a pod whose name has a dot, in one forward zone.
struct DottedPod {
    dotted: String,
    dashed: String,
    address: String,
    ports: Vec<u64>,
}

impl DottedPod {
    /// Whether its address is the name of a host.
    fn is_host(&self) -> bool {
        self.address.parse::<IpAddr>().is_err()
    }
}

fn dotted_pods(oracle: &Oracle<'_>) -> Vec<DottedPod> {
    let mut found = Vec::new();
    for slice in oracle.cluster.of("EndpointSlice") {
        let Some(service) = slice["metadata"]["labels"][SERVICE_LABEL].as_str() else {
            continue;
        };
        for endpoint in slice["endpoints"].as_array().unwrap() {
            let pod = endpoint["targetRef"]["name"].as_str().unwrap_or_default();
            let (named, ready) = (
                endpoint["hostname"].is_string(),
                &endpoint["conditions"]["ready"],
            );
            if named || !pod.contains('.') || pod.len() > 63 || *ready == false {
                continue;
            }
            let text = endpoint["addresses"][0].as_str().unwrap();
            let address = text
                .parse()
                .map_or(text.to_owned(), |address: IpAddr| address.to_string());
            let mut label = address.replace(['.', ':'], "-");
            if label.ends_with('-') {
                label.push('0');
            }
            let ports: Vec<u64> = slice["ports"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|port| port["port"].as_u64())
                .collect();
            // Nothing is below an alias.
            let is_alias = oracle.cluster.of("Service").any(|it| {
                it["spec"]["type"] == "ExternalName"
                    && name_of(it) == service
                    && namespace_of(it) == namespace_of(slice)
            });
            for zone in oracle.set.forward_zones().into_iter().filter(|_| !is_alias) {
                let base = format!("{service}.{}.svc.{zone}", namespace_of(slice));
                found.push(DottedPod {
                    dotted: format!("{pod}.{base}"),
                    dashed: format!("{label}.{base}"),
                    address: address.clone(),
                    ports: ports.clone(),
                });
            }
        }
    }
    // Of Services that CoreDNS shows. Without ports no SRV leads to the pod, and its address may lead to another one, or
    // nowhere as it is in a slice of nobody, too.
    let silent = |address: &str| {
        let address = address.parse::<IpAddr>().ok();
        let question = address.map(|it| Question::new(&pointer_name(it), PTR));
        let answer = question.and_then(|question| oracle.theirs.get(&question));
        answer.is_some_and(|answer| answer.silent)
    };
    let targets: BTreeSet<&str> = oracle
        .data
        .values()
        .flat_map(|data| &data.records)
        .filter(|record| [SRV, PTR].contains(&record.rtype))
        .filter_map(|record| record.data.rsplit(' ').next())
        .collect();
    found.retain(|pod| {
        let service = pod.dashed.split_once('.').expect("a name has labels").1;
        let shown = oracle.theirs.get(&Question::new(service, A));
        shown.is_some_and(|answer| !answer.is_nxdomain())
            && (pod.is_host()
                || pod.ports.is_empty()
                || targets.contains(pod.dotted.as_str())
                || silent(&pod.address))
    });
    found
}

/// All weights are the same.
fn equal_weights(oracle: &mut Oracle<'_>) {
    let keys: Vec<(String, u16)> = oracle
        .data
        .keys()
        .filter(|key| key.1 == SRV)
        .cloned()
        .collect();
    for key in keys {
        let data = oracle.data.get_mut(&key).expect("it is one of them");
        let before = data.records.clone();
        data.records = before
            .iter()
            .map(|one| {
                let mut parts: Vec<&str> = one.data.split(' ').collect();
                parts[1] = WEIGHT;
                Record {
                    data: parts.join(" "),
                    ..one.clone()
                }
            })
            .collect();
        if data.records != before {
            oracle.note(&key.0, "weight");
        }
    }
}

/// What goes with an SRV record is all addresses of its target.
fn whole_targets(oracle: &mut Oracle<'_>) {
    let keys: Vec<(String, u16)> = oracle
        .data
        .keys()
        .filter(|key| key.1 == SRV)
        .cloned()
        .collect();
    for key in keys {
        let data = &oracle.data[&key];
        let targets = data
            .records
            .iter()
            .filter_map(|one| one.data.rsplit(' ').next());
        let additional: BTreeSet<Record> = targets
            .flat_map(|target| [A, AAAA].map(|rtype| oracle.records(target, rtype)))
            .flatten()
            .flat_map(|addresses| addresses.records.iter().cloned())
            .collect();
        if additional != data.additional {
            let data = oracle.data.get_mut(&key).expect("it is one of them");
            data.additional = additional;
            oracle.note(&key.0, "additional");
        }
    }
}

/// The headless names with FQDN endpoints: beside addresses CoreDNS answers with them or not, at random.
fn names_with_hosts(oracle: &Oracle<'_>) -> BTreeSet<String> {
    let is_headless =
        |it: &Value| it["spec"]["clusterIP"] == "None" || it["spec"]["type"] == "Headless";
    names_with_hosts_of(oracle, is_headless)
}

/// The names with FQDN endpoints of these Services and ServiceImports. Names of endpoints below them are answered at random,
/// whether they are headless or not.
pub fn names_with_hosts_of(
    oracle: &Oracle<'_>,
    is_wanted: impl Fn(&Value) -> bool,
) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let slices = oracle
        .cluster
        .of("EndpointSlice")
        .filter(|slice| slice["addressType"] == "FQDN");
    for slice in slices {
        for (label, kind) in [(SERVICE_LABEL, "Service"), (IMPORT_LABEL, "ServiceImport")] {
            let Some(name) = slice["metadata"]["labels"][label].as_str() else {
                continue;
            };
            let namespace = namespace_of(slice);
            let wanted = oracle
                .cluster
                .of(kind)
                .filter(|it| name_of(it) == name && namespace_of(it) == namespace)
                .any(&is_wanted);
            let zones = oracle.set.forward_zones().into_iter().filter(|zone| {
                wanted && (kind == "ServiceImport") == oracle.set.is_clusterset(zone)
            });
            found.extend(zones.map(|zone| match oracle.set.is_external(&zone) {
                true => format!("{name}.{namespace}.{zone}"),
                false => format!("{name}.{namespace}.svc.{zone}"),
            }));
        }
    }
    found
}

/// Names by topology zone have the endpoints with addresses alone.
fn hosts_by_zone(oracle: &mut Oracle<'_>) {
    if !oracle.set.says("zonal") {
        return;
    }
    for base in names_with_hosts(oracle) {
        let below = format!("._zone.{base}");
        let names: BTreeSet<String> = { oracle.theirs.keys() }
            .map(|question| question.name.clone())
            .filter(|name| name.ends_with(&below) && oracle.shape_of(name) == Shape::Zonal)
            .collect();
        for name in names {
            let labels = name.strip_suffix(&below).expect("it ends so");
            let (topology, mode) = labels.rsplit_once('.').expect("a zone and a mode");
            let mut addresses = addresses_of(oracle, &base, Some(topology));
            let mut services = oracle.records(&name, SRV).cloned().unwrap_or_default();
            let mut alias = None;
            if mode == "prefer" && addresses.is_empty() {
                addresses = addresses_of(oracle, &base, None);
                // A Service with one host and no address is an alias.
                alias = oracle
                    .records(&base, CNAME)
                    .cloned()
                    .filter(|data| addresses.is_empty() && data.records.len() == 1);
                // No endpoint is in this one.
                let of_all = oracle.records(&format!("zone-c.prefer{below}"), SRV);
                services = of_all.cloned().unwrap_or_default();
            }
            let before: Vec<Option<Data>> = [A, AAAA, CNAME, SRV]
                .into_iter()
                .map(|rtype| oracle.data.remove(&(name.clone(), rtype)))
                .collect();
            for address in addresses {
                let rtype = if address.is_ipv6() { AAAA } else { A };
                let own = record(oracle, &name, rtype, &address.to_string());
                insert(oracle, own, BTreeSet::new());
            }
            for one in alias
                .unwrap_or_default()
                .records
                .into_iter()
                .chain(services.records)
            {
                let owner = name.clone();
                insert(oracle, Record { owner, ..one }, BTreeSet::new());
            }
            let after = [A, AAAA, CNAME, SRV].map(|rtype| oracle.records(&name, rtype));
            let records = |data: Option<&Data>| data.map(|it| it.records.clone());
            let is_same = { before.iter().zip(after) }
                .all(|(before, after)| records(before.as_ref()) == records(after));
            if !is_same {
                oracle.note(&name, "zonal-fqdn");
            }
        }
    }
}

/// The addresses of the ready endpoints of a headless Service, all or those in a topology zone.
fn addresses_of(oracle: &Oracle<'_>, base: &str, topology: Option<&str>) -> BTreeSet<IpAddr> {
    let mut labels = base.split('.');
    let [service, namespace] = [labels.next(), labels.next()];
    let is_it = |object: &Value, name: Option<&str>| {
        name == service && Some(namespace_of(object)) == namespace
    };
    let slices = oracle.cluster.of("EndpointSlice");
    slices
        .filter(|it| is_it(it, it["metadata"]["labels"][SERVICE_LABEL].as_str()))
        .flat_map(|slice| slice["endpoints"].as_array().unwrap())
        .filter(|it| it["conditions"]["ready"] != false)
        .filter(|it| {
            let zone = it["zone"].as_str().unwrap_or_default();
            topology.is_none_or(|topology| zone.eq_ignore_ascii_case(topology))
        })
        .flat_map(|endpoint| endpoint["addresses"].as_array().unwrap())
        .filter_map(|address| address.as_str()?.parse().ok())
        .collect()
}

/// Where hosts and addresses would share a name, the addresses have it.
fn addresses_before_hosts(oracle: &mut Oracle<'_>) {
    for name in names_with_hosts(oracle) {
        let below = format!(".{name}");
        let addresses: BTreeSet<Record> = oracle
            .data
            .iter()
            .filter(|((owner, rtype), _)| {
                let endpoint = owner.ends_with(&below) && oracle.shape_of(owner) == Shape::Endpoint;
                endpoint && [A, AAAA].contains(rtype)
            })
            .flat_map(|(_, data)| data.records.iter().cloned())
            .collect();
        let shown = oracle.theirs.get(&Question::new(&name, A));
        if addresses.is_empty() || shown.is_none_or(Answer::is_nxdomain) {
            continue;
        }
        oracle.data.remove(&(name.clone(), CNAME));
        for address in addresses {
            let owner = name.clone();
            insert(oracle, Record { owner, ..address }, BTreeSet::new());
        }
        oracle.note(&name, "fqdn");
    }
}

/// An alias stands alone and has one target.
fn lone_aliases(oracle: &mut Oracle<'_>) {
    let keys: Vec<(String, u16)> = oracle
        .data
        .keys()
        .filter(|key| key.1 == CNAME)
        .cloned()
        .collect();
    for key in keys {
        let beside = [A, AAAA]
            .iter()
            .any(|it| oracle.records(&key.0, *it).is_some());
        if oracle.data[&key].records.len() > 1 || beside {
            oracle.data.remove(&key);
            oracle.note(&key.0, "fqdn");
        }
    }
}

/// Every zone has a name server with an address.
fn name_servers(oracle: &mut Oracle<'_>) {
    for zone in oracle.zones.clone() {
        let server = name_server(oracle, &zone);
        let own = record(oracle, &zone, NS, &server);
        let glue = record(oracle, &server, A, "127.0.0.1");
        // Glue that is not of the zone itself is for others to give.
        let beside = if !is_below(&server, &zone) {
            BTreeSet::new()
        } else {
            BTreeSet::from([glue.clone()])
        };
        insert(oracle, own, beside);
        insert(oracle, glue, BTreeSet::new());
        oracle.note(&zone, "ns");
        oracle.note(&server, "ns");
    }
}

/// No PTR to a name that does not exist.
pub fn drop_pointers(oracle: &mut Oracle<'_>) {
    let keys: Vec<(String, u16)> = oracle
        .data
        .keys()
        .filter(|key| key.1 == PTR)
        .cloned()
        .collect();
    for key in keys {
        let data = &oracle.data[&key];
        let kept: BTreeSet<Record> = data
            .records
            .iter()
            .filter(|one| oracle.exists(&one.data))
            .cloned()
            .collect();
        if kept.len() < data.records.len() {
            if kept.is_empty() {
                oracle.data.remove(&key);
            } else {
                oracle.data.insert(
                    key.clone(),
                    Data {
                        records: kept,
                        additional: BTreeSet::new(),
                    },
                );
            }
            oracle.note(&key.0, "hidden-ptr");
        }
    }
}

/// Why CoreDNS fails where we do not.
pub fn failure(
    oracle: &Oracle<'_>,
    question: &Question,
    theirs: &Answer,
) -> BTreeSet<&'static str> {
    let one = |difference| BTreeSet::from([difference]);
    if theirs.rcode == 2 && oracle.set.says("fallthrough") {
        return one("end-of-chain");
    }
    let unlabelled = oracle
        .cluster
        .of("EndpointSlice")
        .filter(|slice| slice["metadata"]["labels"][SERVICE_LABEL].is_null())
        .flat_map(|slice| slice["endpoints"].as_array().unwrap())
        .flat_map(|endpoint| endpoint["addresses"].as_array().unwrap())
        .filter_map(|address: &Value| address.as_str()?.parse().ok())
        .any(|address| question.name.ends_with(&pointer_name(address)));
    if theirs.silent && unlabelled && question.qtype == PTR {
        return one("hidden-ptr");
    }
    BTreeSet::new()
}

/// Why CoreDNS says NODATA where there is no name.
pub fn nodata(oracle: &Oracle<'_>, question: &Question) -> BTreeSet<&'static str> {
    let Some(zone) = oracle.set.clusterset else {
        return BTreeSet::new();
    };
    let empty = oracle
        .cluster
        .of("ServiceImport")
        .filter(|import| import["spec"]["ips"].as_array().is_some_and(Vec::is_empty));
    let mut names = empty.map(|it| format!("{}.{}.svc.{zone}", name_of(it), namespace_of(it)));
    let is_of_one = names.any(|name| is_below(&question.name, &name));
    is_of_one.then_some("import-empty").into_iter().collect()
}

//! Every name that the schema writes is parsed back to the object that it was written for.

use std::collections::HashSet;

use dns::Record;
use kubernetes::schema::{
    Below, Branch, ObjectName, ParsedName, endpoint_label, parse_name, pod_address, pod_record,
    pointers, render_external, render_import, render_service,
};

use super::worlds::any_fact;
use super::*;

const TTL: Ttl = Ttl::ZERO;
const LIMITS: RecordLimits = RecordLimits::DEFAULT;

/// What a name parses to, in text.
type Parsed = (Branch, String, String, String);

/// The object of a name, and the labels below it as the schema writes them.
fn parsed(form: ZoneForm, zone: &Name, owner: &Name) -> Result<Parsed, String> {
    let lower = owner.to_lower();
    let ParsedName::Object(ObjectName {
        branch,
        namespace,
        name,
        below,
    }) = parse_name(form, zone, lower.as_wire())
    else {
        return Err(format!("{owner} is no object's"));
    };
    let text = |label: &[u8]| String::from_utf8(label.to_vec()).expect("it was text");
    let below = match below {
        Below::Nothing => String::new(),
        Below::Endpoint(label) => text(label),
        Below::ClusterEndpoint { cluster, endpoint } => {
            format!("{}.{}", text(endpoint), text(cluster))
        }
        Below::Port { port, protocol } => format!("_{}._{}", text(port), text(protocol)),
        Below::Protocol(_) | Below::BarePort { .. } | Below::Topology { .. } | Below::Other(_) => {
            return Err(format!("{owner} has {below:?}"));
        }
    };
    Ok((branch, text(namespace), text(name), below))
}

/// The labels that may be below an object with these ports and slices.
fn labels_below<'a>(
    ports: &[Port],
    slices: impl Iterator<Item = &'a EndpointSlice>,
    by_cluster: bool,
) -> HashSet<String> {
    let port = |name: &str, protocol: Protocol| format!("_{name}.{}", protocol.label());
    let mut labels = HashSet::from([String::new()]);
    labels.extend(ports.iter().map(|it| port(&it.name, it.protocol)));
    for slice in slices {
        labels.extend(slice.ports.iter().map(|it| port(&it.name, it.protocol)));
        let cluster = slice
            .import
            .as_ref()
            .map(|import| import.cluster.to_string());
        let cluster = cluster.filter(|id| by_cluster && !id.is_empty());
        for endpoint in slice.endpoints.iter() {
            let addresses = endpoint.addresses.iter();
            let mut own: Vec<String> = addresses.map(|it| endpoint_label(endpoint, *it)).collect();
            if let Some(fqdn) = endpoint.fqdn() {
                let hostname = endpoint.hostname().map(ToString::to_string);
                own.push(hostname.unwrap_or_else(|| fqdn.replace('.', "-")));
            }
            labels.extend(own.into_iter().map(|label| match &cluster {
                Some(cluster) => format!("{label}.{cluster}"),
                None => label,
            }));
        }
    }
    labels
}

/// Whether all owners parse to a Service or an import with this key, with something that it has below.
fn check_owners(
    (form, zone): (ZoneForm, &Name),
    records: &[Record],
    key: &ObjectKey,
    below: &HashSet<String>,
) -> Result<(), TestCaseError> {
    for record in records {
        let (branch, namespace, name, found) =
            parsed(form, zone, &record.owner).map_err(TestCaseError::fail)?;
        prop_assert_eq!(branch, Branch::Services);
        prop_assert_eq!((&*namespace, &*name), (&*key.namespace, &*key.name));
        prop_assert!(below.contains(&found), "{} has {found}", record.owner);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn names_that_the_schema_writes_are_parsed_back_to_their_objects(
        facts in prop::collection::vec(any_fact(), 1..12),
    ) {
        let zone: Name = "cluster.local.".parse().unwrap();
        let settings = ExternalSettings { apex_label: "dns".into(), ttl: TTL, headless: true, external_ips: true };
        let slices: Vec<&EndpointSlice> = facts
            .iter()
            .filter_map(|fact| match fact {
                Fact::EndpointSlice(slice) => Some(slice),
                Fact::Service(_) | Fact::Pod(_) | Fact::Namespace(_) | Fact::ServiceImport(_) => {
                    None
                }
            })
            .collect();
        for fact in &facts {
            let key = fact.key();
            let here = slices.iter().copied().filter(|it| it.key.namespace == key.namespace);
            match fact {
                Fact::Service(service) => {
                    let own = here.filter(|it| it.service.as_ref() == Some(&key.name));
                    let below = labels_below(&service.ports, own.clone(), false);
                    let out = render_service(service, own.clone(), &zone, TTL, &LIMITS);
                    check_owners((ZoneForm::Forward, &zone), &out.records, key, &below)?;
                    let out = render_external(service, own.clone(), &zone, &[], &settings, &LIMITS);
                    check_owners((ZoneForm::External, &zone), &out.records, key, &below)?;
                    for address in own.clone().flat_map(|it| it.endpoints.iter()) {
                        for address in address.addresses.iter() {
                            let holders = [(service, own.clone())];
                            for record in pointers(*address, &holders, |_| true, &zone, TTL, &LIMITS) {
                                let owner = record.owner.as_wire();
                                let arpa: Name = "arpa.".parse().unwrap();
                                let found = parse_name(ZoneForm::Reverse, &arpa, owner);
                                prop_assert_eq!(found, ParsedName::Address(*address));
                            }
                        }
                    }
                }
                Fact::ServiceImport(import) => {
                    let is_its = |it: &&EndpointSlice| {
                        it.import.as_ref().is_some_and(|import| import.service == key.name)
                    };
                    let own = here.filter(is_its);
                    let below = labels_below(&import.ports, own.clone(), true);
                    let out = render_import(import, own, &zone, TTL, &LIMITS);
                    check_owners((ZoneForm::Clusterset, &zone), &out.records, key, &below)?;
                }
                Fact::Pod(pod) => {
                    for address in pod.addresses.iter() {
                        let record = pod_record(&key.namespace, *address, &zone, TTL).unwrap();
                        let (branch, namespace, name, below) =
                            parsed(ZoneForm::Forward, &zone, &record.owner)
                                .map_err(TestCaseError::fail)?;
                        prop_assert_eq!(branch, Branch::Pods);
                        prop_assert_eq!((&*namespace, &*below), (&*key.namespace, ""));
                        prop_assert_eq!(pod_address(name.as_bytes()), Some(*address));
                    }
                }
                Fact::EndpointSlice(_) | Fact::Namespace(_) => {}
            }
        }
    }
}

//! Small clusters of any kind, and what may happen to them.

use super::*;

/// The objects of a small cluster.
pub(super) type Objects = BTreeMap<FactKey, Fact>;

/// What may happen to it.
#[derive(Debug, Clone)]
pub(super) enum Event {
    Apply(Fact),
    Delete(FactKey),
    /// A kind is listed anew after objects changed unseen.
    Relist(Kind, Vec<Fact>, Vec<FactKey>),
    /// What is waiting is committed.
    Commit,
}

/// One of a few addresses, so that they are shared.
fn any_address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        (1u8..6).prop_map(|last| IpAddr::from([10, 0, 0, last])),
        (1u16..3).prop_map(|last| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, last])),
        Just("192.168.0.1".parse().unwrap()),
    ]
}

/// One of a few keys.
fn any_key() -> impl Strategy<Value = ObjectKey> {
    (
        prop_oneof![Just("a"), Just("b")],
        prop_oneof![Just("s"), Just("t"), Just("u")],
    )
        .prop_map(|(namespace, name)| ObjectKey::new(namespace, name))
}

/// Any Service of a few.
fn any_service() -> impl Strategy<Value = Fact> {
    let form = prop_oneof![
        3 => prop::collection::vec(any_address(), 1..3)
            .prop_map(|addresses| ServiceForm::ClusterIp(addresses.into())),
        3 => Just(ServiceForm::Headless),
        1 => prop_oneof![Just("s.b.svc.cluster.local"), Just("example.org."), Just("t.a.svc.cluster.local")]
            .prop_map(|host| ServiceForm::ExternalName(host.into())),
        1 => Just(ServiceForm::Pending),
    ];
    let port = (
        prop_oneof![Just(""), Just("http"), Just("dns")],
        any::<bool>(),
        80u16..82,
    )
        .prop_map(|(name, tcp, number)| Port {
            name: name.into(),
            protocol: if tcp { Protocol::Tcp } else { Protocol::Udp },
            number,
        });
    let ports = prop::collection::vec(port, 0..3);
    (any_key(), form, ports, any_external(), 0..3_u64).prop_map(
        |(key, form, ports, external, created_s)| {
            Fact::Service(Service {
                key,
                form,
                ports: ports.into(),
                external: external.map(Arc::new),
                created_s,
                origin: Origin::default(),
            })
        },
    )
}

/// Any import of a few.
fn any_import() -> impl Strategy<Value = Fact> {
    let form = prop_oneof![
        prop::collection::vec(any_address(), 0..3)
            .prop_map(|addresses| ImportForm::ClusterSetIp(addresses.into())),
        Just(ImportForm::Headless),
    ];
    let number = prop::option::of(80u16..82);
    (any_key(), form, number, 0..3_u64).prop_map(|(key, form, number, created_s)| {
        let port = |number| Port {
            name: "http".into(),
            protocol: Protocol::Tcp,
            number,
        };
        Fact::ServiceImport(ServiceImport {
            key,
            form,
            ports: number.into_iter().map(port).collect(),
            created_s,
            origin: Origin::default(),
        })
    })
}

/// What a Service has outside, if anything.
fn any_external() -> impl Strategy<Value = Option<External>> {
    let outer = (1u8..4).prop_map(|last| IpAddr::from([192, 168, 0, last]));
    let outer_too = (3u8..6).prop_map(|last| IpAddr::from([192, 168, 0, last]));
    let host = prop_oneof![
        Just("lb.example.net"),
        Just("b..c"),
        Just("s.a.example.org.")
    ];
    let external = (
        prop::collection::btree_set(outer, 0..3),
        prop::collection::btree_set(outer_too, 0..2),
        prop::collection::btree_set(host, 0..3),
    )
        .prop_map(|(addresses, external_ips, hosts)| External {
            external_ips: external_ips.difference(&addresses).copied().collect(),
            addresses: addresses.into_iter().collect(),
            hosts: hosts.into_iter().map(Into::into).collect(),
        });
    prop::option::of(external)
}

/// The import of a slice, if it has one.
fn any_import_of_slice() -> impl Strategy<Value = Option<Arc<ImportOfSlice>>> {
    let names = prop_oneof![Just("s"), Just("t")];
    let clusters = prop_oneof![Just("east"), Just("west"), Just("")];
    prop::option::of((names, clusters).prop_map(|(service, cluster)| {
        Arc::new(ImportOfSlice {
            service: service.into(),
            cluster: cluster.into(),
        })
    }))
}

/// Any slice of a few, of any Service or of none.
fn any_slice() -> impl Strategy<Value = Fact> {
    let hostname = prop_oneof![3 => Just(None), 1 => Just(Some("pod-0")), 1 => Just(Some("a.b"))];
    let endpoint =
        (prop::collection::vec(any_address(), 0..3), hostname).prop_map(|(addresses, hostname)| {
            Endpoint::new(
                addresses,
                EndpointNames {
                    hostname: hostname.map(Into::into),
                    ..EndpointNames::default()
                },
            )
        });
    let port = (
        prop_oneof![Just(""), Just("http")],
        prop::option::of(80u16..82),
    )
        .prop_map(|(name, number)| SlicePort {
            name: name.into(),
            protocol: Protocol::Tcp,
            number,
        });
    let service = prop_oneof![
        Just(None),
        Just(Some("s")),
        Just(Some("t")),
        Just(Some("gone"))
    ];
    (
        (
            prop_oneof![Just("a"), Just("b")],
            prop_oneof![Just("x"), Just("y"), Just("z")],
        ),
        service,
        any_import_of_slice(),
        prop::collection::vec(endpoint, 0..3),
        prop::collection::vec(port, 0..2),
        any::<bool>(),
    )
        .prop_map(
            |((namespace, name), service, import, endpoints, ports, fqdn)| {
                let host = |endpoint: Endpoint| {
                    let names = EndpointNames {
                        hostname: endpoint.hostname().cloned(),
                        fqdn: Some("host.example.org".into()),
                        ..EndpointNames::default()
                    };
                    Endpoint::new([], names)
                };
                let fqdn = fqdn && endpoints.len() == 1;
                Fact::EndpointSlice(EndpointSlice {
                    key: ObjectKey::new(namespace, name),
                    service: service.map(Into::into),
                    import,
                    form: if fqdn {
                        SliceForm::Fqdn
                    } else {
                        SliceForm::Ipv4
                    },
                    ports: ports.into(),
                    endpoints: if fqdn {
                        endpoints.into_iter().map(host).collect()
                    } else {
                        endpoints.into()
                    },
                    created_s: 0,
                    origin: Origin::default(),
                })
            },
        )
}

/// Any pod of a few; some share an address.
fn any_pod() -> impl Strategy<Value = Fact> {
    let addresses = prop::collection::vec(any_address(), 0..3);
    (any_key(), addresses).prop_map(|(key, addresses)| {
        Fact::Pod(Pod {
            key,
            addresses: addresses.into(),
            labels: None,
            origin: Origin::default(),
        })
    })
}

/// Any options; the kinds that are watched follow from them.
pub(super) fn any_options() -> impl Strategy<Value = ClusterPlan> {
    let namespaces = prop_oneof![
        3 => Just(None),
        1 => prop_oneof![Just("a"), Just("c")].prop_map(|name| Some(BTreeSet::from([name.to_owned()]))),
    ];
    let bools = any::<(bool, bool, bool, bool, bool, bool)>();
    let limits = prop_oneof![
        Just(RecordLimits::DEFAULT),
        (1..4_usize, 1..12_usize, 1..30_usize).prop_map(|(rrset, service, namespace)| {
            RecordLimits {
                rrset,
                service,
                namespace,
            }
        }),
    ];
    (bools, namespaces, limits).prop_map(
        |(
            (
                with_pods,
                without_slices,
                hides_empty_services,
                with_imports,
                with_front,
                external_ips,
            ),
            namespaces,
            limits,
        )| {
            let mut kinds = Kinds::BASE;
            if with_imports {
                kinds = kinds.with(Kind::ServiceImport);
            }
            if with_pods {
                kinds = kinds.with(Kind::Pod);
            }
            if without_slices {
                kinds = kinds.without(Kind::EndpointSlice);
            }
            let mut front = Front::default();
            if with_front {
                front.addresses = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "fd00::1"]
                    .map(|it| it.parse().unwrap())
                    .into();
                front.ports = [80, 81].into();
                front.trusted = Trusted::In("a".into());
                front.zones = [0, 1, 2].into();
            }
            let mut external = plan().plan.external;
            external[0].settings.external_ips = external_ips;
            ClusterPlan {
                front,
                external,
                kinds,
                namespaces,
                hides_empty_services,
                limits,
                publishes_namespaces: true,
                publishes_headless: true,
                ..plan().plan
            }
        },
    )
}

/// Any object of a few.
pub(super) fn any_fact() -> impl Strategy<Value = Fact> {
    prop_oneof![
        4 => any_service(),
        4 => any_slice(),
        3 => any_pod(),
        3 => any_import(),
        1 => prop_oneof![Just("a"), Just("b")].prop_map(namespace),
    ]
}

pub(super) fn key_of(fact: &Fact) -> FactKey {
    FactKey {
        kind: fact.kind(),
        key: fact.key().clone(),
    }
}

pub(super) fn any_event() -> impl Strategy<Value = Event> {
    let kind = prop::sample::select(Kind::ALL.to_vec());
    prop_oneof![
        6 => any_fact().prop_map(Event::Apply),
        3 => any_fact().prop_map(|fact| Event::Delete(key_of(&fact))),
        1 => (
            kind,
            prop::collection::vec(any_fact(), 0..4),
            prop::collection::vec(any_fact().prop_map(|fact| key_of(&fact)), 0..4),
        ).prop_map(|(kind, applied, deleted)| Event::Relist(kind, applied, deleted)),
        3 => Just(Event::Commit),
    ]
}

/// The list of a kind as an API server would give it.
pub(super) fn list(objects: &Objects, kind: Kind) -> Change {
    Change::Listed(
        kind,
        objects
            .values()
            .filter(|fact| fact.kind() == kind)
            .cloned()
            .collect(),
    )
}

/// The same options for zones of their own.
pub(super) fn same_options(options: &ClusterPlan) -> World {
    let with_imports = options.kinds.contains(Kind::ServiceImport);
    let plan = if with_imports {
        plan_with_imports
    } else {
        plan
    };
    World::new(ClusterPlan {
        front: options.front.clone(),
        external: options.external.clone(),
        kinds: options.kinds,
        namespaces: options.namespaces.clone(),
        hides_empty_services: options.hides_empty_services,
        limits: options.limits,
        publishes_namespaces: true,
        publishes_headless: true,
        ..plan().plan
    })
}

/// The zones of a writer that sees these objects for the first time, and what it shows beside them.
pub(super) fn fresh(
    options: &ClusterPlan,
    told: Kinds,
    objects: &Objects,
) -> (Vec<Contents>, Beside) {
    let (plan, _) = fresh_writer(options, told, objects);
    (contents(&plan), seen(&plan))
}

/// A writer that sees these objects for the first time.
pub(super) fn fresh_writer(
    options: &ClusterPlan,
    told: Kinds,
    objects: &Objects,
) -> (World, Pipeline<NoStore>) {
    let plan = same_options(options);
    let mut pipeline = pipeline(plan.clone());
    for kind in told.iter() {
        feed(&mut pipeline, list(objects, kind));
    }
    assert!(pipeline.commit());
    (plan, pipeline)
}

/// What is said of all objects.
pub(super) fn problems(pipeline: &Pipeline<NoStore>) -> Vec<String> {
    let all = pipeline.clusters[0].all_problems();
    let mut all: Vec<String> = all.map(ToString::to_string).collect();
    all.sort();
    all
}

/// What is published beside the zones: which of a few namespaces are seen, and which headless Services,
/// with their endpoints.
pub(super) type Beside = ([Option<bool>; 3], Vec<SeenService>);

/// What is published beside the zones.
pub(super) fn seen(plan: &World) -> Beside {
    let seen = plan.handles.live.seen.as_ref().unwrap();
    let headless = plan.handles.live.headless.as_ref().unwrap();
    let keys = ["a", "b"]
        .into_iter()
        .flat_map(|namespace| ["s", "t", "u"].map(|name| ObjectKey::new(namespace, name)));
    (
        ["a", "b", "c"].map(|name| seen.contains(name)),
        keys.map(|key| headless.get(&key)).collect(),
    )
}

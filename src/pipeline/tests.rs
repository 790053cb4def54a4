//! Laws of the writer: what it does bit by bit is what it would do at once, and no more than it must.

mod apex;
mod catalog;
mod files;
mod gate;
mod imports;
mod situations;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Mutex;

use proptest::prelude::*;

use super::*;
use crate::cluster::{
    Endpoint, EndpointSlice, External, Fact, FactKey, ImportForm, ImportOfSlice, Kinds, Namespace,
    ObjectKey, Origin, Pod, Port, Protocol, SeenNamespaces, SeenService, Service, ServiceForm,
    ServiceImport, SliceForm, SlicePort,
};
use crate::dns::{RecordText, Ttl};
use crate::schema::{ApexSettings, ExternalSettings, Front, NameServer, ZoneForm};
use crate::zone::journal::next_serial;
use crate::zone::{Contents, MemoryLimits, Zone};

/// A clock that stands still unless told.
#[derive(Debug)]
struct StillClock {
    /// Where intervals start.
    start: Instant,
    /// Seconds since 1970.
    wall: Mutex<u64>,
}

impl StillClock {
    /// A clock at the given second.
    #[allow(clippy::disallowed_methods, reason = "the start is any instant at all")]
    fn at(seconds: u64) -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            wall: Mutex::new(seconds),
        })
    }
}

impl Clock for StillClock {
    fn now(&self) -> Instant {
        self.start
    }

    fn wall(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(*self.wall.lock().unwrap())
    }
}

/// A store that keeps nothing, and fails when told.
#[derive(Default)]
struct NoStore {
    /// How many commits are refused before one works.
    refusals: usize,
    /// How many commits worked.
    commits: usize,
}

impl Store for NoStore {
    type Error = String;

    fn commit(&mut self, candidates: Vec<Candidate>) -> Result<Vec<Journaled>, String> {
        if self.refusals > 0 {
            self.refusals -= 1;
            return Err("disk full".into());
        }
        self.commits += 1;
        Ok(candidates.into_iter().map(Candidate::journaled).collect())
    }

    fn floor(&self, _: &Name) -> Option<Serial> {
        None
    }

    fn idle(&mut self) -> bool {
        false
    }
}

/// An observer that hears nothing.
struct Deaf;

impl Observer for Deaf {
    fn published(&self, _: &Version, _: usize, _: usize) {}
    fn committed(&self, _: Duration, _: &[Duration]) {}
    fn failed(&self, _: &str) {}
    fn problems(&self, _: &mut dyn Iterator<Item = &Problem>, _: &[Problem]) {}
    fn synced(&self, _: usize) {}
}

/// The plan of `cluster.local` with two reverse zones, and of a set of clusters.
fn plan_with_imports() -> ClusterPlan {
    let plan = plan();
    let own = &plan.forward[0];
    let apex: Name = "clusterset.local.".parse().unwrap();
    ClusterPlan {
        clusterset: vec![ZonePlan {
            zone: Arc::new(Zone::new(&apex)),
            apex: ApexSettings {
                form: ZoneForm::Clusterset,
                ..own.apex.clone()
            },
            limits: own.limits,
            gate: own.gate,
        }],
        kinds: plan.kinds.with(Kind::ServiceImport),
        ..plan
    }
}

/// The plan of `cluster.local` with two reverse zones.
fn plan() -> ClusterPlan {
    let zone_plan = |apex: &str, form: ZoneForm| {
        let server = match form {
            ZoneForm::Forward | ZoneForm::Clusterset | ZoneForm::Reverse => "ns.dns.cluster.local.",
            ZoneForm::External => "ns1.a.example.org.",
        };
        let apex: Name = apex.parse().unwrap();
        ZonePlan {
            zone: Arc::new(Zone::new(&apex)),
            apex: ApexSettings {
                name_servers: vec![NameServer {
                    name: server.parse().unwrap(),
                    addresses: vec!["10.0.0.10".parse().unwrap()],
                }],
                mbox: "hostmaster.cluster.local.".parse().unwrap(),
                refresh: Ttl::decode(300),
                retry: Ttl::decode(30),
                expire: Ttl::decode(86400),
                minimum: Ttl::decode(5),
                ttl: Ttl::decode(5),
                form,
            },
            limits: MemoryLimits {
                steps: 100,
                octets: 1 << 20,
            },
            gate: None,
        }
    };
    ClusterPlan {
        source: "test".into(),
        forward: vec![zone_plan("cluster.local.", ZoneForm::Forward)],
        reverse: vec![
            zone_plan("10.in-addr.arpa.", ZoneForm::Reverse),
            zone_plan("ip6.arpa.", ZoneForm::Reverse),
        ],
        front: Front::default(),
        clusterset: Vec::new(),
        external: vec![ExternalPlan {
            forward: vec![zone_plan("example.org.", ZoneForm::External)],
            reverse: vec![zone_plan("168.192.in-addr.arpa.", ZoneForm::Reverse)],
            settings: ExternalSettings {
                apex_label: "t".into(),
                ttl: Ttl::decode(7),
                headless: true,
            },
        }],
        kinds: Kinds::BASE,
        ttl: Ttl::decode(5),
        namespaces: None,
        hides_empty_services: false,
        seen: None,
        headless: None,
    }
}

/// A writer over nothing.
fn pipeline(plan: ClusterPlan) -> Pipeline<NoStore> {
    Pipeline::new(
        vec![plan],
        NoStore::default(),
        StillClock::at(1_000),
        Box::new(Deaf),
    )
}

/// The contents of all zones of a plan.
fn contents(plan: &ClusterPlan) -> Vec<Contents> {
    plan.zones()
        .filter_map(|p| p.zone.current())
        .map(|v| v.contents.clone())
        .collect()
}

/// Contents as lines.
fn lines(contents: &[Contents]) -> Vec<String> {
    let mut lines = Vec::new();
    for zone in contents {
        for node in zone.nodes() {
            let owner = node.owner_wire(zone.apex());
            lines.extend(node.records(&owner, 0).map(|rr| RecordText(rr).to_string()));
        }
    }
    lines
}

/// A namespace.
fn namespace(name: &str) -> Fact {
    Fact::Namespace(Namespace {
        key: ObjectKey::new("", name),
        origin: Origin::default(),
    })
}

/// Feeds one change.
fn feed(pipeline: &mut Pipeline<NoStore>, change: Change) {
    let seen = pipeline.clock.now();
    pipeline.take(Input::Change {
        cluster: 0,
        change,
        seen,
    });
}

/// The objects of a small cluster.
type Objects = BTreeMap<FactKey, Fact>;

/// What may happen to it.
#[derive(Debug, Clone)]
enum Event {
    /// An object is applied.
    Apply(Fact),
    /// An object is deleted.
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
    (any_key(), form, ports, any_external()).prop_map(|(key, form, ports, external)| {
        Fact::Service(Service {
            key,
            form,
            ports: ports.into(),
            external: external.map(Arc::new),
            origin: Origin::default(),
        })
    })
}

/// Any import of a few.
fn any_import() -> impl Strategy<Value = Fact> {
    let form = prop_oneof![
        prop::collection::vec(any_address(), 0..3)
            .prop_map(|addresses| ImportForm::ClusterSetIp(addresses.into())),
        Just(ImportForm::Headless),
    ];
    let number = prop::option::of(80u16..82);
    (any_key(), form, number).prop_map(|(key, form, number)| {
        let port = |number| Port {
            name: "http".into(),
            protocol: Protocol::Tcp,
            number,
        };
        Fact::ServiceImport(ServiceImport {
            key,
            form,
            ports: number.into_iter().map(port).collect(),
            origin: Origin::default(),
        })
    })
}

/// What a Service has outside, if anything.
fn any_external() -> impl Strategy<Value = Option<External>> {
    let outer = (1u8..4).prop_map(|last| IpAddr::from([192, 168, 0, last]));
    let host = prop_oneof![
        Just("lb.example.net"),
        Just("b..c"),
        Just("s.a.example.org.")
    ];
    let external = (
        prop::collection::btree_set(outer, 0..3),
        prop::collection::btree_set(host, 0..3),
    )
        .prop_map(|(addresses, hosts)| External {
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
            Endpoint {
                addresses: addresses.into(),
                hostname: hostname.map(Into::into),
                fqdn: None,
                pod: None,
                zone: None,
            }
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
                let host = |endpoint: Endpoint| Endpoint {
                    addresses: [].into(),
                    fqdn: Some("host.example.org".into()),
                    ..endpoint
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
            origin: Origin::default(),
        })
    })
}

/// Any options; the kinds that are watched follow from them.
fn any_options() -> impl Strategy<Value = ClusterPlan> {
    let namespaces = prop_oneof![
        3 => Just(None),
        1 => prop_oneof![Just("a"), Just("c")].prop_map(|name| Some(BTreeSet::from([name.to_owned()]))),
    ];
    let bools = any::<(bool, bool, bool, bool, bool)>();
    (bools, namespaces).prop_map(
        |(
            (with_pods, without_slices, hides_empty_services, with_imports, with_front),
            namespaces,
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
                front.zones = [0, 1, 2].into();
            }
            ClusterPlan {
                front,
                kinds,
                namespaces,
                hides_empty_services,
                seen: Some(Arc::default()),
                headless: Some(Arc::default()),
                ..plan()
            }
        },
    )
}

/// Any object of a few.
fn any_fact() -> impl Strategy<Value = Fact> {
    prop_oneof![
        4 => any_service(),
        4 => any_slice(),
        3 => any_pod(),
        3 => any_import(),
        1 => prop_oneof![Just("a"), Just("b")].prop_map(namespace),
    ]
}

/// Key of a fact.
fn key_of(fact: &Fact) -> FactKey {
    FactKey {
        kind: fact.kind(),
        key: fact.key().clone(),
    }
}

/// Any event.
fn any_event() -> impl Strategy<Value = Event> {
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
fn list(objects: &Objects, kind: Kind) -> Change {
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
fn same_options(options: &ClusterPlan) -> ClusterPlan {
    let with_imports = options.kinds.contains(Kind::ServiceImport);
    let plan = if with_imports {
        plan_with_imports
    } else {
        plan
    };
    ClusterPlan {
        front: options.front.clone(),
        kinds: options.kinds,
        namespaces: options.namespaces.clone(),
        hides_empty_services: options.hides_empty_services,
        seen: Some(Arc::default()),
        headless: Some(Arc::default()),
        ..plan()
    }
}

/// The zones of a writer that sees these objects for the first time, and what it shows beside them.
fn fresh(options: &ClusterPlan, told: Kinds, objects: &Objects) -> (Vec<Contents>, Beside) {
    let plan = same_options(options);
    let mut pipeline = pipeline(plan.clone());
    for kind in told.iter() {
        feed(&mut pipeline, list(objects, kind));
    }
    assert!(pipeline.commit());
    (contents(&plan), seen(&plan))
}

/// What is published beside the zones: which of a few namespaces are seen, and which headless Services,
/// with their endpoints.
type Beside = ([Option<bool>; 3], Vec<SeenService>);

/// What is published beside the zones.
fn seen(plan: &ClusterPlan) -> Beside {
    let seen = plan.seen.as_ref().unwrap();
    let headless = plan.headless.as_ref().unwrap();
    let keys = ["a", "b"]
        .into_iter()
        .flat_map(|namespace| ["s", "t", "u"].map(|name| ObjectKey::new(namespace, name)));
    (
        ["a", "b", "c"].map(|name| seen.contains(name)),
        keys.map(|key| headless.get(&key)).collect(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// The law of the pipeline: rendering dirty keys one by one gives what rendering all gives; the
    /// steps between the versions lead from each to the next.
    #[test]
    fn incremental_rendering_equals_full_rendering(
        plan in any_options(),
        events in prop::collection::vec(any_event(), 1..40),
    ) {
        let plan = same_options(&plan);
        let mut pipeline = pipeline(plan.clone());
        let mut objects: Objects =
            ["a", "b"].map(namespace).into_iter().map(|fact| (key_of(&fact), fact)).collect();
        // imports are listed when they are, the others at the start
        let mut told = plan.kinds.without(Kind::ServiceImport);
        for kind in told.iter() {
            feed(&mut pipeline, list(&objects, kind));
        }
        prop_assert!(pipeline.commit());
        let current = |plan: &ZonePlan| plan.zone.current().map(|version| version.contents.clone());
        let mut before: Vec<Option<Contents>> = plan.zones().map(current).collect();
        for event in events {
            match event {
                // a source that is not asked for a kind says nothing of it
                Event::Apply(fact) if !told.contains(fact.kind()) => {}
                Event::Delete(key) if !told.contains(key.kind) => {}
                Event::Relist(kind, ..) if !plan.kinds.contains(kind) => {}
                Event::Apply(fact) => {
                    objects.insert(key_of(&fact), fact.clone());
                    feed(&mut pipeline, Change::Applied(fact));
                }
                Event::Delete(key) => {
                    objects.remove(&key);
                    feed(&mut pipeline, Change::Deleted(key, Origin::default()));
                }
                Event::Relist(kind, applied, deleted) => {
                    for key in deleted.iter().filter(|key| key.kind == kind) {
                        objects.remove(key);
                    }
                    for fact in applied.into_iter().filter(|fact| fact.kind() == kind) {
                        objects.insert(key_of(&fact), fact);
                    }
                    told = told.with(kind);
                    feed(&mut pipeline, list(&objects, kind));
                }
                Event::Commit => {
                    prop_assert!(pipeline.commit());
                    let now = contents(&plan);
                    let (want, want_seen) = fresh(&plan, told, &objects);
                    prop_assert_eq!(lines(&now), lines(&want));
                    prop_assert_eq!(seen(&plan), want_seen);
                    for (plan, before) in plan.zones().zip(&before) {
                        let (Some(version), Some(before)) = (plan.zone.current(), before) else {
                            continue;
                        };
                        if let Some(step) = version.history.last()
                            && step.seq == version.seq
                        {
                            let start = if version.contents.same_as(before) {
                                continue
                            } else {
                                step.apply(before).unwrap()
                            };
                            prop_assert!(start.same_as(&version.contents));
                            prop_assert!(step.revert(&version.contents).unwrap().same_as(before));
                        }
                    }
                    before = plan.zones().map(current).collect();
                }
            }
        }
    }
}

/// A headless Service with so many endpoints, and a few others, in the first namespace.
fn busy_cluster(others: usize) -> Pipeline<NoStore> {
    let mut pipeline = pipeline(plan());
    let service = |index: usize| {
        Fact::Service(Service {
            key: ObjectKey::new("a", &format!("s{index}")),
            form: ServiceForm::ClusterIp(
                [IpAddr::from(
                    (0x0a01_0000 + u32::try_from(index).unwrap()).to_be_bytes(),
                )]
                .into(),
            ),
            ports: [].into(),
            external: None,
            origin: Origin::default(),
        })
    };
    feed(
        &mut pipeline,
        Change::Listed(Kind::Namespace, vec![namespace("a")]),
    );
    feed(
        &mut pipeline,
        Change::Listed(Kind::Service, (0..others).map(service).collect()),
    );
    feed(
        &mut pipeline,
        Change::Listed(Kind::EndpointSlice, Vec::new()),
    );
    assert!(pipeline.commit());
    pipeline
}

#[test]
fn one_change_renders_one_service_however_many_there_are() {
    for others in [10, 1000] {
        let mut pipeline = busy_cluster(others);
        let key = ObjectKey::new("a", "new");
        feed(
            &mut pipeline,
            Change::Applied(Fact::Service(Service {
                key,
                form: ServiceForm::ClusterIp(["10.9.9.9".parse().unwrap()].into()),
                ports: [].into(),
                external: None,
                origin: Origin::default(),
            })),
        );
        let cluster = &pipeline.clusters[0];
        let rendering = render_dirty(&cluster.state, &cluster.plan, &cluster.dirty, false);
        assert_eq!(
            (rendering.services_rendered, rendering.addresses_rendered),
            (1, 1)
        );
    }
}

#[test]
fn a_refused_commit_shows_nothing_and_is_made_up_for() {
    let mut pipeline = busy_cluster(1);
    let zone = Arc::clone(&pipeline.clusters[0].plan.forward[0].zone);
    let serial = zone.current().unwrap().serial;
    pipeline.store.refusals = 1;
    feed(&mut pipeline, Change::Listed(Kind::Service, Vec::new()));
    assert!(!pipeline.commit());
    assert_eq!(zone.current().unwrap().serial, serial);
    assert!(pipeline.commit());
    assert!(zone.current().unwrap().serial.is_after(serial));
    assert!(
        !lines(&contents(&pipeline.clusters[0].plan))
            .iter()
            .any(|line| line.contains("s0.a"))
    );
}

#[test]
fn a_change_without_effect_makes_no_version() {
    let mut pipeline = busy_cluster(1);
    let commits = pipeline.store.commits;
    feed(&mut pipeline, Change::Applied(namespace("elsewhere")));
    assert!(pipeline.commit());
    assert_eq!(pipeline.store.commits, commits);
}

#[test]
fn nothing_is_published_before_every_kind_is_listed() {
    let plan = plan();
    let mut pipeline = pipeline(plan.clone());
    feed(
        &mut pipeline,
        Change::Listed(Kind::Namespace, vec![namespace("a")]),
    );
    feed(&mut pipeline, Change::Listed(Kind::Service, Vec::new()));
    assert!(pipeline.commit());
    assert!(plan.forward[0].zone.current().is_none());
    feed(
        &mut pipeline,
        Change::Listed(Kind::EndpointSlice, Vec::new()),
    );
    assert!(pipeline.commit());
    assert!(plan.forward[0].zone.current().is_some());
}

/// Notes what the live layer knows of the namespace `a` when a version is shown.
struct Watching(Arc<SeenNamespaces>, Arc<Mutex<Vec<Option<bool>>>>);

impl Observer for Watching {
    fn published(&self, _: &Version, _: usize, _: usize) {
        self.1.lock().unwrap().push(self.0.contains("a"));
    }
    fn committed(&self, _: Duration, _: &[Duration]) {}
    fn failed(&self, _: &str) {}
    fn problems(&self, _: &mut dyn Iterator<Item = &Problem>, _: &[Problem]) {}
    fn synced(&self, _: usize) {}
}

#[test]
fn the_live_layer_knows_the_namespaces_before_the_first_version_is_shown() {
    let (seen, told) = (Arc::new(SeenNamespaces::default()), Arc::default());
    let plan = ClusterPlan {
        seen: Some(Arc::clone(&seen)),
        ..plan()
    };
    let observer = Box::new(Watching(seen, Arc::clone(&told)));
    let clock = StillClock::at(1_000);
    let mut pipeline = Pipeline::new(vec![plan], NoStore::default(), clock, observer);
    for kind in Kinds::BASE.iter() {
        let known = (kind == Kind::Namespace).then(|| namespace("a"));
        feed(
            &mut pipeline,
            Change::Listed(kind, known.into_iter().collect()),
        );
    }
    assert!(pipeline.commit());
    let told = told.lock().unwrap();
    assert!(!told.is_empty() && told.iter().all(|known| *known == Some(true)));
}

#[test]
fn what_an_earlier_run_published_stays_stale_until_this_one_has_rendered() {
    let plan = plan();
    let apex = &plan.forward[0].zone;
    apex.set_stale_since_ms(Some(5));
    let mut pipeline = pipeline(plan.clone());
    let (cluster, part) = (0, Part::Cluster);
    for kind in Kinds::BASE.iter() {
        feed(&mut pipeline, Change::Listed(kind, Vec::new()));
    }
    pipeline.take(Input::Fresh { cluster, part });
    assert_eq!(apex.stale_since_ms(), Some(5));
    pipeline.store.refusals = 1;
    assert!(!pipeline.commit());
    assert_eq!(apex.stale_since_ms(), Some(5));
    assert!(pipeline.commit());
    assert_eq!(apex.stale_since_ms(), None);
}

/// Notes how many latencies each commit tells.
struct Counting(Arc<Mutex<Vec<usize>>>);

impl Observer for Counting {
    fn published(&self, _: &Version, _: usize, _: usize) {}
    fn committed(&self, _: Duration, latencies: &[Duration]) {
        self.0.lock().unwrap().push(latencies.len());
    }
    fn failed(&self, _: &str) {}
    fn problems(&self, _: &mut dyn Iterator<Item = &Problem>, _: &[Problem]) {}
    fn synced(&self, _: usize) {}
}

#[test]
fn a_latency_is_told_of_what_changed_something_and_once() {
    let told = Arc::default();
    let observer = Box::new(Counting(Arc::clone(&told)));
    let clock = StillClock::at(1_000);
    let mut pipeline = Pipeline::new(vec![plan()], NoStore::default(), clock, observer);
    for kind in Kinds::BASE.iter() {
        feed(&mut pipeline, Change::Listed(kind, Vec::new()));
    }
    assert!(pipeline.commit());
    feed(&mut pipeline, Change::Applied(namespace("a")));
    assert!(pipeline.commit());
    told.lock().unwrap().clear();
    for _ in 0..5 {
        feed(&mut pipeline, Change::Applied(namespace("a")));
        assert!(pipeline.commit());
    }
    assert_eq!(pipeline.seen.len(), 0);
    feed(&mut pipeline, Change::Applied(namespace("a")));
    feed(
        &mut pipeline,
        Change::Applied(files::at_address("10.0.0.1")),
    );
    assert!(pipeline.commit());
    assert_eq!(*told.lock().unwrap(), [1]);
}

#[test]
fn serials_follow_the_clock_and_never_go_back() {
    let serial = Serial::decode;
    assert_eq!(next_serial(None, None, 1_000), serial(1_000));
    assert_eq!(next_serial(Some(serial(1_000)), None, 1_000), serial(1_001));
    assert_eq!(next_serial(Some(serial(5_000)), None, 1_000), serial(5_001));
    assert_eq!(
        next_serial(Some(serial(1_000)), Some(serial(7_000)), 2_000),
        serial(7_001)
    );
    assert_eq!(next_serial(None, Some(serial(7_000)), 2_000), serial(7_001));
}

#[test]
fn a_store_that_refuses_does_not_end_the_writer() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let plan = plan();
    let zone = Arc::clone(&plan.forward[0].zone);
    let mut pipeline = pipeline(plan);
    pipeline.store.refusals = 1;
    let seen = pipeline.clock.now();
    let (tx, mut inputs) = mpsc::channel(8);
    for kind in Kinds::BASE.iter() {
        let change = Change::Listed(kind, Vec::new());
        tx.try_send(Input::Change {
            cluster: 0,
            change,
            seen,
        })
        .unwrap();
    }
    let mut published = zone.subscribe();
    // As in the server: a thread that is not the runtime's.
    let writer = std::thread::spawn(move || pipeline.run(&mut inputs));
    let wait = async { tokio::time::timeout(Duration::from_secs(30), published.changed()).await };
    let told = runtime.block_on(wait);
    drop(tx);
    let store = writer.join().expect("the writer goes on after a refusal");
    assert!(told.is_ok(), "the version came after the refusal");
    assert_eq!((store.refusals, store.commits), (0, 1));
}

/// What is at a name below `cluster.local.` or in a reverse zone, as lines.
fn at(plan: &ClusterPlan, owner: &str) -> Vec<String> {
    let all = lines(&contents(plan));
    let owner = format!("{owner} ");
    all.into_iter()
        .filter(|line| line.starts_with(&owner))
        .collect()
}

/// A Service with a cluster IP, its slice with so many endpoints, and the namespace `a`.
fn one_service(plan: &ClusterPlan, endpoints: u8) -> Pipeline<NoStore> {
    let mut pipeline = pipeline(plan.clone());
    let service = Fact::Service(Service {
        key: ObjectKey::new("a", "s"),
        form: ServiceForm::ClusterIp(["10.9.9.9".parse().unwrap()].into()),
        ports: [].into(),
        external: None,
        origin: Origin::default(),
    });
    feed(
        &mut pipeline,
        Change::Listed(Kind::Namespace, vec![namespace("a")]),
    );
    feed(&mut pipeline, Change::Listed(Kind::Service, vec![service]));
    feed(
        &mut pipeline,
        Change::Listed(Kind::EndpointSlice, vec![slice_of(endpoints)]),
    );
    assert!(pipeline.commit());
    pipeline
}

/// The slice of the Service `a/s` with so many endpoints.
fn slice_of(endpoints: u8) -> Fact {
    let endpoint = |last| Endpoint {
        addresses: [IpAddr::from([10, 1, 0, last])].into(),
        hostname: None,
        fqdn: None,
        pod: None,
        zone: None,
    };
    Fact::EndpointSlice(EndpointSlice {
        key: ObjectKey::new("a", "s-x"),
        service: Some("s".into()),
        import: None,
        form: SliceForm::Ipv4,
        ports: [].into(),
        endpoints: (0..endpoints).map(endpoint).collect(),
        origin: Origin::default(),
    })
}

#[test]
fn s11_an_empty_service_that_is_ignored_has_no_name_and_no_pointer() {
    let plan = ClusterPlan {
        hides_empty_services: true,
        ..plan()
    };
    let mut pipeline = one_service(&plan, 0);
    let names = ["s.a.svc.cluster.local.", "9.9.9.10.in-addr.arpa."];
    let found = |plan: &ClusterPlan| names.map(|name| at(plan, name).len());
    assert_eq!(found(&plan), [0, 0]);
    feed(&mut pipeline, Change::Applied(slice_of(1)));
    assert!(pipeline.commit());
    assert_eq!(found(&plan), [1, 1]);
    feed(&mut pipeline, Change::Applied(slice_of(0)));
    assert!(pipeline.commit());
    assert_eq!(found(&plan), [0, 0]);
}

#[test]
fn s2_an_empty_service_has_its_address_by_default() {
    let plan = plan();
    one_service(&plan, 0);
    assert_eq!(at(&plan, "s.a.svc.cluster.local.").len(), 1);
}

/// A pod with addresses.
fn pod(name: &str, addresses: &[&str]) -> Fact {
    Fact::Pod(Pod {
        key: ObjectKey::new("a", name),
        addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
        origin: Origin::default(),
    })
}

#[test]
fn s56_pods_of_one_address_are_one_name_until_the_last_is_gone() {
    let plan = ClusterPlan {
        kinds: Kinds::BASE.with(Kind::Pod),
        ..plan()
    };
    let mut pipeline = pipeline(plan.clone());
    for kind in Kinds::BASE.iter() {
        let facts = Vec::from_iter((kind == Kind::Namespace).then(|| namespace("a")));
        feed(&mut pipeline, Change::Listed(kind, facts));
    }
    let pods = vec![pod("p", &["10.1.0.1", "fd00::1"]), pod("q", &["10.1.0.1"])];
    feed(&mut pipeline, Change::Listed(Kind::Pod, pods));
    assert!(pipeline.commit());
    let (v4, v6) = (
        "10-1-0-1.a.pod.cluster.local.",
        "fd00--1.a.pod.cluster.local.",
    );
    assert_eq!(at(&plan, v4), [format!("{v4} 5 IN A 10.1.0.1")]);
    assert_eq!(at(&plan, v6), [format!("{v6} 5 IN AAAA fd00::1")]);
    let key = |name| FactKey {
        kind: Kind::Pod,
        key: ObjectKey::new("a", name),
    };
    feed(&mut pipeline, Change::Deleted(key("p"), Origin::default()));
    assert!(pipeline.commit());
    assert_eq!((at(&plan, v4).len(), at(&plan, v6).len()), (1, 0));
    // s90: changed and gone in one batch
    feed(&mut pipeline, Change::Applied(pod("q", &["10.1.0.2"])));
    feed(&mut pipeline, Change::Deleted(key("q"), Origin::default()));
    assert!(pipeline.commit());
    assert!(
        !lines(&contents(&plan))
            .iter()
            .any(|line| line.contains(".pod."))
    );
}

#[test]
fn s87_a_pod_that_keeps_its_address_makes_no_version() {
    let plan = ClusterPlan {
        kinds: Kinds::BASE.with(Kind::Pod),
        ..plan()
    };
    let mut pipeline = pipeline(plan.clone());
    for kind in plan.kinds.iter() {
        let facts = Vec::from_iter((kind == Kind::Namespace).then(|| namespace("a")));
        feed(&mut pipeline, Change::Listed(kind, facts));
    }
    feed(&mut pipeline, Change::Applied(pod("p", &["10.1.0.1"])));
    assert!(pipeline.commit());
    let commits = pipeline.store.commits;
    feed(&mut pipeline, Change::Applied(pod("p", &["10.1.0.1"])));
    assert!(pipeline.commit());
    assert_eq!(pipeline.store.commits, commits);
    feed(&mut pipeline, Change::Applied(pod("p", &["10.1.0.2"])));
    let cluster = &pipeline.clusters[0];
    let rendering = render_dirty(&cluster.state, &cluster.plan, &cluster.dirty, false);
    assert_eq!(
        (rendering.services_rendered, rendering.pods_rendered),
        (0, 2)
    );
    assert!(pipeline.commit());
    assert_eq!(pipeline.store.commits, commits + 1);
}

#[test]
fn a_namespace_that_goes_and_comes_costs_what_is_in_it() {
    let mut pipeline = busy_cluster(1000);
    let inside = |index: u8| {
        Fact::Service(Service {
            key: ObjectKey::new("small", &format!("s{index}")),
            form: ServiceForm::ClusterIp([IpAddr::from([10, 200, 0, index])].into()),
            ports: [].into(),
            external: None,
            origin: Origin::default(),
        })
    };
    feed(&mut pipeline, Change::Applied(namespace("small")));
    for index in 0..3 {
        feed(&mut pipeline, Change::Applied(inside(index)));
    }
    assert!(pipeline.commit());
    let records = |pipeline: &Pipeline<NoStore>| {
        let zone = &pipeline.clusters[0].plan.forward[0].zone;
        zone.current().unwrap().contents.record_count()
    };
    let before = records(&pipeline);
    let key = key_of(&namespace("small"));
    for (change, gone) in [
        (Change::Deleted(key, Origin::default()), 3),
        (Change::Applied(namespace("small")), 0),
    ] {
        feed(&mut pipeline, change);
        let cluster = &pipeline.clusters[0];
        let rendering = render_dirty(&cluster.state, &cluster.plan, &cluster.dirty, false);
        let work = (rendering.services_rendered, rendering.addresses_rendered);
        assert_eq!(work, (3, 3));
        assert!(pipeline.commit());
        assert_eq!(records(&pipeline), before - gone);
    }
}

//! Laws of the writer: what it does bit by bit is what it would do at once, and no more than it must.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Mutex;

use proptest::prelude::*;

use super::*;
use crate::cluster::{
    Endpoint, EndpointSlice, External, Fact, FactKey, Namespace, Origin, Port, Protocol, Service,
    ServiceForm, SliceForm, SlicePort,
};
use crate::dns::{RecordText, Ttl};
use crate::schema::{ApexSettings, ExternalSettings, NameServer, ZoneForm};
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
        }
    };
    ClusterPlan {
        source: "test".into(),
        forward: vec![zone_plan("cluster.local.", ZoneForm::Forward)],
        reverse: vec![
            zone_plan("10.in-addr.arpa.", ZoneForm::Reverse),
            zone_plan("ip6.arpa.", ZoneForm::Reverse),
        ],
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
        prop::collection::vec(endpoint, 0..3),
        prop::collection::vec(port, 0..2),
        any::<bool>(),
    )
        .prop_map(|((namespace, name), service, endpoints, ports, fqdn)| {
            let host = |endpoint: Endpoint| Endpoint {
                addresses: [].into(),
                fqdn: Some("host.example.org".into()),
                ..endpoint
            };
            let fqdn = fqdn && endpoints.len() == 1;
            Fact::EndpointSlice(EndpointSlice {
                key: ObjectKey::new(namespace, name),
                service: service.map(Into::into),
                import: None,
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
        })
}

/// Any object of a few.
fn any_fact() -> impl Strategy<Value = Fact> {
    prop_oneof![
        4 => any_service(),
        4 => any_slice(),
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
    let kind = prop_oneof![
        Just(Kind::Namespace),
        Just(Kind::Service),
        Just(Kind::EndpointSlice)
    ];
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

/// The zones of a writer that sees these objects for the first time.
fn fresh(objects: &Objects) -> Vec<Contents> {
    let plan = plan();
    let mut pipeline = pipeline(plan.clone());
    for kind in Kind::ALL {
        feed(&mut pipeline, list(objects, kind));
    }
    assert!(pipeline.commit());
    contents(&plan)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// The law of the pipeline: rendering dirty keys one by one gives what rendering all gives; the
    /// steps between the versions lead from each to the next.
    #[test]
    fn incremental_rendering_equals_full_rendering(
        events in prop::collection::vec(any_event(), 1..40),
    ) {
        let plan = plan();
        let mut pipeline = pipeline(plan.clone());
        let mut objects: Objects =
            ["a", "b"].map(namespace).into_iter().map(|fact| (key_of(&fact), fact)).collect();
        for kind in Kind::ALL {
            feed(&mut pipeline, list(&objects, kind));
        }
        prop_assert!(pipeline.commit());
        let mut before = contents(&plan);
        for event in events {
            match event {
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
                    feed(&mut pipeline, list(&objects, kind));
                }
                Event::Commit => {
                    prop_assert!(pipeline.commit());
                    let now = contents(&plan);
                    prop_assert_eq!(lines(&now), lines(&fresh(&objects)));
                    for (plan, before) in plan.zones().zip(&before) {
                        let version = plan.zone.current().unwrap();
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
                    before = now;
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
        let rendering = render_dirty(&cluster.state, &cluster.plan, &cluster.dirty);
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
    for kind in Kind::ALL {
        let change = Change::Listed(kind, Vec::new());
        tx.try_send(Input::Change {
            cluster: 0,
            change,
            seen,
        })
        .unwrap();
    }
    let handle = runtime.handle().clone();
    let mut published = zone.subscribe();
    // As in the server: a thread that is not the runtime's.
    let writer = std::thread::spawn(move || pipeline.run(&mut inputs, &handle));
    let wait = async { tokio::time::timeout(Duration::from_secs(30), published.changed()).await };
    let told = runtime.block_on(wait);
    drop(tx);
    let store = writer.join().expect("the writer goes on after a refusal");
    assert!(told.is_ok(), "the version came after the refusal");
    assert_eq!((store.refusals, store.commits), (0, 1));
}

//! Laws of the writer: what it does bit by bit is what it would do at once, and no more than it must.

mod told;
mod triggered;
mod worlds;

mod apex;
mod catalog;
mod configure;
mod files;
mod follow;
mod gate;
mod imports;
mod laws;
mod meanwhile;
mod moves;
mod pace;
mod parsed_names;
mod situations;
mod tenants;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use dns::{RecordText, Ttl};
use kubernetes::facts::{
    Change, Endpoint, EndpointNames, EndpointSlice, External, Fact, ImportForm, ImportOfSlice,
    Kinds, Namespace, Part, Pod, Port, Protocol, SeenNamespaces, SeenService, Service, ServiceForm,
    ServiceImport, SliceForm, SlicePort,
};
use kubernetes::schema::{
    ApexSettings, ExternalSettings, Front, NameServer, RecordLimits, Trusted, ZoneForm,
};
use ops::HandClock;
use proptest::prelude::*;
use provenance::{FactKey, Kind, ObjectKey, Origin};
use worlds::{
    Event, Objects, any_event, any_options, fresh, fresh_writer, key_of, list, problems,
    same_options, seen,
};
use zone::journal::Retention;
use zone::next_serial;
use zone::{Contents, Proof};

use super::*;
use crate::render::{Rendering, render_dirty};

/// A hundred versions.
const RETENTION: Retention = Retention {
    versions: 100,
    octets: 1 << 20,
    ..Retention::DEFAULT
};

/// A serial that a peer has.
fn reported(zone: &Name, serial: u32, proof: Proof) -> PeerSerial {
    PeerSerial {
        zone: zone.clone(),
        peer: "192.0.2.1:53".parse().unwrap(),
        serial: Serial::decode(serial),
        proof,
    }
}

/// What is kept beside the versions of each zone.
type AllBeside = Arc<Mutex<BTreeMap<Name, BTreeMap<Vec<u8>, Vec<u8>>>>>;

/// A store that keeps no version, and fails when told.
#[derive(Default)]
struct NoStore {
    /// What is kept beside the versions, for the next run too.
    beside: AllBeside,
    /// What the next commit writes of it.
    beside_next: Vec<(Name, Vec<Beside>)>,
    /// How many commits are refused before one works.
    refusals: usize,
    commits: usize,
    /// The orders that are kept.
    holds: BTreeMap<Name, Hold>,
    /// What was done.
    acts: Vec<(Name, Act)>,
    /// The digests of the Corefiles that were in use.
    corefiles: Vec<String>,
    /// Whether neither is stored.
    refuses_acts: bool,
    /// Which other replica leads.
    leader: Option<String>,
}

impl Store for NoStore {
    type Error = String;

    fn commit(&mut self, candidates: Vec<Candidate>) -> Result<Vec<Journaled>, String> {
        let beside = std::mem::take(&mut self.beside_next);
        if self.refusals > 0 {
            self.refusals -= 1;
            return Err("disk full".into());
        }
        self.commits += 1;
        for (apex, entries) in beside {
            self.put_beside(&apex, &entries)?;
        }
        Ok(candidates.into_iter().map(Candidate::journaled).collect())
    }

    fn follows(&self) -> bool {
        self.leader.is_some()
    }

    fn refusal(&self) -> String {
        self.leader.clone().unwrap_or_default()
    }

    fn floor(&self, _: &Name) -> Option<Serial> {
        None
    }

    fn save_hold(&mut self, apex: &Name, hold: Option<&Hold>) -> Result<(), String> {
        if self.refusals > 0 {
            return Err("disk full".into());
        }
        match hold {
            Some(hold) => self.holds.insert(apex.clone(), hold.clone()),
            None => self.holds.remove(apex),
        };
        Ok(())
    }

    fn note(
        &mut self,
        corefile: Option<&KeptCorefile>,
        acts: &[(Name, Act)],
    ) -> Result<(), String> {
        if self.refuses_acts {
            return Err("disk full".into());
        }
        self.corefiles.extend(corefile.map(|it| it.digest.clone()));
        self.acts.extend_from_slice(acts);
        Ok(())
    }

    fn read_beside(&mut self, apex: &Name, each: &mut dyn FnMut(&[u8], &[u8])) -> bool {
        let all = self.beside.lock().unwrap();
        for (key, value) in all.get(apex).into_iter().flatten() {
            each(key, value);
        }
        true
    }

    fn put_beside(&mut self, apex: &Name, entries: &[Beside]) -> Result<(), String> {
        if self.refusals > 0 {
            return Err("disk full".into());
        }
        let mut all = self.beside.lock().unwrap();
        let zone = all.entry(apex.clone()).or_default();
        for (key, value) in entries.iter().cloned() {
            match value {
                Some(value) => zone.insert(key, value),
                None => zone.remove(&key),
            };
        }
        Ok(())
    }

    fn put_beside_next(&mut self, apex: &Name, entries: Vec<Beside>) {
        self.beside_next.push((apex.clone(), entries));
    }

    fn forget_beside(&mut self, apex: &Name) -> Result<(), String> {
        self.beside.lock().unwrap().remove(apex);
        Ok(())
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
    fn synced(&self, _: &str) {}
}

/// A plan with its zones, and with what is published beside them. Clones share these.
#[derive(Debug, Clone)]
pub(crate) struct World {
    /// The plan.
    pub(crate) plan: ClusterPlan,
    /// Its zones, in its order.
    zones: Arc<ZoneSet>,
    /// What others read.
    handles: ClusterHandles,
}

impl World {
    /// Zones without a version.
    fn new(plan: ClusterPlan) -> Self {
        let zones = plan.zones().map(|plan| Arc::new(Zone::new(&plan.name)));
        Self {
            zones: Arc::new(ZoneSet::new(zones.collect())),
            handles: ClusterHandles::new(SourceId(0), &plan),
            plan,
        }
    }

    /// The same zones under another plan.
    fn replanned(self, plan: ClusterPlan) -> Self {
        let handles = ClusterHandles::new(SourceId(0), &plan);
        Self {
            plan,
            handles,
            ..self
        }
    }

    /// A zone, by its name.
    fn zone(&self, name: &str) -> &Arc<Zone> {
        self.zones.get(&name.parse().unwrap()).unwrap()
    }
}

impl std::ops::Deref for World {
    type Target = ClusterPlan;

    fn deref(&self) -> &ClusterPlan {
        &self.plan
    }
}

/// A writer of these clusters.
fn writer<S: Store>(
    worlds: &[World],
    store: S,
    clock: Arc<dyn Clock>,
    observer: Box<dyn Observer>,
) -> Pipeline<S> {
    let zones = worlds.iter().flat_map(|world| world.zones.all()).cloned();
    let zones = Arc::new(ZoneSet::new(zones.collect()));
    let clusters = (0..).zip(worlds).map(|(source, world)| {
        let source = SourceId(source);
        let handles = world.handles.clone();
        (world.plan.clone(), ClusterHandles { source, ..handles })
    });
    let pipeline = Pipeline::new(zones, clusters.collect(), store, clock, observer);
    pipeline.with_batch(unpaced())
}

/// Versions at any pace: the clocks of most tests stand still.
fn unpaced() -> BatchSettings {
    BatchSettings {
        burst: 0,
        ..BatchSettings::default()
    }
}

/// The plan of `cluster.local` with two reverse zones, and of a set of clusters.
fn plan_with_imports() -> World {
    let plan = plan().plan;
    let own = &plan.forward[0];
    World::new(ClusterPlan {
        clusterset: vec![ZonePlan {
            name: "clusterset.local.".parse().unwrap(),
            apex: ApexSettings {
                form: ZoneForm::Clusterset,
                ..own.apex.clone()
            },
            ..own.clone()
        }],
        kinds: plan.kinds.with(Kind::ServiceImport),
        ..plan
    })
}

/// The plan of `cluster.local` with two reverse zones.
pub(crate) fn plan() -> World {
    let zone_plan = |apex: &str, form: ZoneForm| {
        let server = match form {
            ZoneForm::Forward | ZoneForm::Clusterset | ZoneForm::Reverse => "ns.dns.cluster.local.",
            ZoneForm::External => "ns1.a.example.org.",
        };
        ZonePlan {
            name: apex.parse().unwrap(),
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
            retention: RETENTION,
            gate: None,
        }
    };
    World::new(ClusterPlan {
        source: "test".into(),
        selection: "all".into(),
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
                external_ips: true,
            },
        }],
        kinds: Kinds::BASE,
        ttl: Ttl::decode(5),
        namespaces: None,
        hides_empty_services: false,
        limits: RecordLimits::DEFAULT,
        publishes_namespaces: false,
        publishes_headless: false,
        publishes_clients: false,
    })
}

fn pipeline(plan: World) -> Pipeline<NoStore> {
    let clock = HandClock::at(1_000);
    writer(&[plan], NoStore::default(), clock, Box::new(Deaf))
}

/// Acts as lines, oldest first.
fn act_lines(acts: &[(Name, Act)]) -> Vec<String> {
    let line = |(zone, act): &(Name, Act)| {
        let (what, about, by) = (&act.what, &act.about, &act.by);
        format!("{zone} {what} {about} ({by})")
    };
    acts.iter().map(line).collect()
}

/// The Corefile with this digest is in use from now on.
fn use_corefile<S: Store>(pipeline: &mut Pipeline<S>, digest: &str, by: Operator) {
    let corefile = KeptCorefile {
        since_ms: 0,
        digest: digest.into(),
        text: String::new(),
    };
    pipeline.take(Input::Corefile { corefile, by });
}

/// The contents of all zones of a plan.
fn contents(plan: &World) -> Vec<Contents> {
    contents_of(&plan.zones)
}

/// The contents of zones.
fn contents_of(zones: &ZoneSet) -> Vec<Contents> {
    let versions = zones.all().iter().filter_map(|zone| zone.current());
    versions.map(|version| version.contents.clone()).collect()
}

/// Renders what is dirty in the only cluster.
fn rendering_of(pipeline: &Pipeline<NoStore>) -> Rendering {
    let cluster = &pipeline.clusters[0];
    render_dirty(
        cluster.seen(),
        &cluster.dirty,
        &cluster.dirty_tops,
        false,
        &cluster.zones,
    )
}

/// Applies changes of the configuration: the zones and clusters of a world are all that there are.
fn configure(
    pipeline: &mut Pipeline<NoStore>,
    world: &World,
    changes: Vec<PlanChange>,
    cause: Option<&str>,
) {
    let home = world.plan.home().clone();
    let zones = world.zones.all().iter();
    let (done, mut result) = oneshot::channel();
    pipeline.take(Input::Configure(Box::new(Configure {
        changes,
        zones: Arc::clone(&world.zones),
        unmoved: zones.map(|zone| zone.apex().clone()).collect(),
        clusters: [(home, world.handles.clone())].into(),
        files: BTreeMap::new(),
        cause: cause.map(str::to_owned),
        awaits_secondaries: None,
        done,
    })));
    assert_eq!(result.try_recv(), Ok(Ok(())));
}

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

fn namespace(name: &str) -> Fact {
    Fact::Namespace(Namespace {
        key: ObjectKey::new("", name),
        origin: Origin::default(),
    })
}

fn feed<S: Store>(pipeline: &mut Pipeline<S>, change: Change) {
    let seen = pipeline.clock.now();
    pipeline.take(of_first(seen_at(change, seen)));
}

/// A change without a time of its own.
fn seen_at(change: Change, seen: Instant) -> SourceEvent {
    SourceEvent::Changed {
        change,
        seen,
        triggered: None,
    }
}

/// An event of the source of the first cluster.
fn of_first(event: SourceEvent) -> Input {
    let source = SourceId(0);
    Input::Source { source, event }
}

/// The end of the first asking of secondaries.
fn secondaries(serials: Vec<PeerSerial>) -> Input {
    let ask = AskId(0);
    Input::Secondaries { ask, serials }
}

/// A source that lost a part of its cluster.
fn lost(part: Part, since: SystemTime) -> Input {
    let reason = "it does not answer".to_owned();
    of_first(SourceEvent::Stale {
        part,
        since,
        reason,
    })
}

/// A source that has a part of its cluster again.
fn found(part: Part) -> Input {
    of_first(SourceEvent::Fresh(part))
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
            created_s: 0,
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
                created_s: 0,
                origin: Origin::default(),
            })),
        );
        assert_eq!(rendering_of(&pipeline).work[..2], [1, 1]);
    }
}

#[test]
fn a_refused_commit_shows_nothing_and_is_made_up_for() {
    let mut pipeline = busy_cluster(1);
    let zone = Arc::clone(&pipeline.zones.all()[0]);
    let serial = zone.current().unwrap().serial;
    pipeline.store.refusals = 1;
    feed(&mut pipeline, Change::Listed(Kind::Service, Vec::new()));
    assert!(!pipeline.commit());
    assert_eq!(zone.current().unwrap().serial, serial);
    assert!(pipeline.commit());
    assert!(zone.current().unwrap().serial.is_after(serial));
    assert!(
        !lines(&contents_of(&pipeline.zones))
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
    assert!(plan.zone("cluster.local.").current().is_none());
    feed(
        &mut pipeline,
        Change::Listed(Kind::EndpointSlice, Vec::new()),
    );
    assert!(pipeline.commit());
    assert!(plan.zone("cluster.local.").current().is_some());
}

#[test]
fn what_an_earlier_run_published_stays_stale_until_this_one_has_rendered() {
    let plan = plan();
    let apex = plan.zone("cluster.local.");
    apex.set_stale_since_ms(Some(5));
    let mut pipeline = pipeline(plan.clone());
    for kind in Kinds::BASE.iter() {
        feed(&mut pipeline, Change::Listed(kind, Vec::new()));
    }
    pipeline.take(found(Part::Cluster));
    assert_eq!(apex.stale_since_ms(), Some(5));
    pipeline.store.refusals = 1;
    assert!(!pipeline.commit());
    assert_eq!(apex.stale_since_ms(), Some(5));
    assert!(pipeline.commit());
    assert_eq!(apex.stale_since_ms(), None);
}

#[test]
fn serials_follow_the_clock_and_never_go_back() {
    let serial = Serial::decode;
    assert_eq!(next_serial(None, None, None, 1_000), serial(1_000));
    assert_eq!(
        next_serial(Some(serial(1_000)), None, None, 1_000),
        serial(1_001)
    );
    assert_eq!(
        next_serial(Some(serial(5_000)), None, None, 1_000),
        serial(5_001)
    );
    assert_eq!(
        next_serial(Some(serial(1_000)), Some(serial(7_000)), None, 2_000),
        serial(7_001)
    );
    assert_eq!(
        next_serial(None, Some(serial(7_000)), None, 2_000),
        serial(7_001)
    );
}

#[test]
fn a_store_that_refuses_does_not_end_the_writer() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let plan = plan();
    let zone = Arc::clone(plan.zone("cluster.local."));
    let mut pipeline = pipeline(plan);
    pipeline.store.refusals = 1;
    let seen = pipeline.clock.now();
    let (tx, mut inputs) = mpsc::channel(8);
    for kind in Kinds::BASE.iter() {
        let change = Change::Listed(kind, Vec::new());
        tx.try_send(of_first(seen_at(change, seen))).unwrap();
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
fn at(plan: &World, owner: &str) -> Vec<String> {
    let all = lines(&contents(plan));
    let owner = format!("{owner} ");
    all.into_iter()
        .filter(|line| line.starts_with(&owner))
        .collect()
}

/// A Service with a cluster IP, its slice with so many endpoints, and the namespace `a`.
fn one_service(plan: &World, endpoints: u8) -> Pipeline<NoStore> {
    let mut pipeline = pipeline(plan.clone());
    let service = Fact::Service(Service {
        key: ObjectKey::new("a", "s"),
        form: ServiceForm::ClusterIp(["10.9.9.9".parse().unwrap()].into()),
        ports: [].into(),
        external: None,
        created_s: 0,
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
    let endpoint = |last| Endpoint::at([IpAddr::from([10, 1, 0, last])]);
    Fact::EndpointSlice(EndpointSlice {
        key: ObjectKey::new("a", "s-x"),
        service: Some("s".into()),
        import: None,
        form: SliceForm::Ipv4,
        ports: [].into(),
        endpoints: (0..endpoints).map(endpoint).collect(),
        created_s: 0,
        origin: Origin::default(),
    })
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
            created_s: 0,
            origin: Origin::default(),
        })
    };
    feed(&mut pipeline, Change::Applied(namespace("small")));
    for index in 0..3 {
        feed(&mut pipeline, Change::Applied(inside(index)));
    }
    assert!(pipeline.commit());
    let records = |pipeline: &Pipeline<NoStore>| {
        let zone = &pipeline.zones.all()[0];
        zone.current().unwrap().contents.record_count()
    };
    let before = records(&pipeline);
    let key = key_of(&namespace("small"));
    for (change, gone) in [
        (Change::Deleted(key, Origin::default()), 3),
        (Change::Applied(namespace("small")), 0),
    ] {
        feed(&mut pipeline, change);
        assert_eq!(rendering_of(&pipeline).work[..2], [3, 3]);
        assert!(pipeline.commit());
        assert_eq!(records(&pipeline), before - gone);
    }
}

#[test]
fn an_outer_address_that_no_service_has_is_named_as_such_however_short_its_zone_is() {
    let mut pipeline = busy_cluster(1);
    let name = |text: &str| text.parse::<Name>().unwrap();
    let reasons = pipeline.why(
        &name("168.192.in-addr.arpa."),
        &name("7.9.168.192.in-addr.arpa."),
    );
    let reasons: Vec<_> = reasons.iter().map(|it| (it.code, &*it.text)).collect();
    let text = "no Service with the outer address 192.168.9.7 is seen";
    assert_eq!(reasons, [("no-holder", text)]);
}

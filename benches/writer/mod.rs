//! A cluster, its writer and its store, without sockets: what the measurements of changes share.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dns::{Name, Serial, Ttl};
use kubernetes::facts::{
    Change, Endpoint, EndpointSlice, Fact, Kinds, Namespace, Port, Protocol, Service, ServiceForm,
    SliceForm, SlicePort,
};
use kubernetes::schema::{ApexSettings, Front, NameServer, Problem, RecordLimits, ZoneForm};
use kubernetes::source::SourceEvent;
use ops::{Clock, SystemClock, millis};
use provenance::{Kind, ObjectKey, Origin};
use tokio::sync::mpsc;
use writer::{ClusterHandles, ClusterPlan, Input, Observer, Pipeline, SourceId, Store, ZonePlan};
use zone::journal::{CommitError, Journal, Retention};
use zone::{Candidate, Journaled, Version, Zone, ZoneSet};

/// Endpoints of each Service.
const ENDPOINTS: u32 = 10;

struct JournalStore(Journal);

impl Store for JournalStore {
    type Error = CommitError;
    fn commit(&mut self, candidates: Vec<Candidate>) -> Result<Vec<Journaled>, CommitError> {
        self.0.commit(candidates).map_err(|(error, _)| error)
    }
    fn floor(&self, apex: &Name) -> Option<Serial> {
        self.0.floor(apex)
    }
    fn idle(&mut self) -> bool {
        self.0.idle()
    }
}

struct Deaf;

impl Observer for Deaf {
    fn published(&self, _: &Version, _: usize, _: usize) {}
    fn committed(&self, _: Duration, _: &[Duration]) {}
    fn failed(&self, error: &str) {
        panic!("{error}");
    }
    fn problems(&self, _: &mut dyn Iterator<Item = &Problem>, _: &[Problem]) {}
    fn synced(&self, _: &str) {}
}

/// A cluster in a store of its own, with a writer on its own thread.
pub(crate) struct Subject {
    pub(crate) zone: Arc<Zone>,
    inputs: mpsc::Sender<Input>,
    pub(crate) records: usize,
    _folder: tempfile::TempDir,
}

fn zone_plan(apex: &str, forward: bool) -> ZonePlan {
    let server = "ns.dns.cluster.local.".parse().unwrap();
    ZonePlan {
        name: apex.parse().unwrap(),
        apex: ApexSettings {
            name_servers: vec![NameServer {
                name: server,
                addresses: vec![Ipv4Addr::LOCALHOST.into()],
            }],
            mbox: "hostmaster.cluster.local.".parse().unwrap(),
            refresh: Ttl::decode(300),
            retry: Ttl::decode(30),
            expire: Ttl::decode(86_400),
            minimum: Ttl::decode(30),
            ttl: Ttl::decode(30),
            form: if forward {
                ZoneForm::Forward
            } else {
                ZoneForm::Reverse
            },
        },
        retention: Retention::DEFAULT,
        gate: None,
    }
}

/// A Namespace.
pub(crate) fn namespace(name: &str) -> Fact {
    Fact::Namespace(Namespace {
        key: ObjectKey::new("", name),
        origin: Origin::default(),
    })
}

/// A headless Service.
pub(crate) fn service(index: u32) -> Fact {
    Fact::Service(Service {
        key: key_of(index),
        form: ServiceForm::Headless,
        ports: [Port {
            name: "http".into(),
            protocol: Protocol::Tcp,
            number: 80,
        }]
        .into(),
        external: None,
        created_s: 0,
        origin: Origin::default(),
    })
}

pub(crate) fn key_of(index: u32) -> ObjectKey {
    ObjectKey::new(&format!("ns-{}", index % 100), &format!("service-{index}"))
}

/// The slice of a Service; `round` moves its first endpoint.
pub(crate) fn slice(index: u32, round: u32) -> Fact {
    let endpoint = |number: u32| {
        let moved = if number == 0 { (round % 2) << 23 } else { 0 };
        let address = Ipv4Addr::from(0x0a00_0000 + moved + index * ENDPOINTS + number);
        Endpoint::at([IpAddr::from(address)])
    };
    Fact::EndpointSlice(EndpointSlice {
        key: key_of(index),
        service: Some(key_of(index).name),
        import: None,
        form: SliceForm::Ipv4,
        ports: [SlicePort {
            name: "http".into(),
            protocol: Protocol::Tcp,
            number: Some(8080),
        }]
        .into(),
        endpoints: (0..ENDPOINTS).map(endpoint).collect(),
        created_s: 0,
        origin: Origin::default(),
    })
}

impl Subject {
    /// So many headless Services, `ENDPOINTS` each; all addresses in one reverse zone.
    pub(crate) fn new(services: u32, runtime: &tokio::runtime::Runtime) -> Self {
        Self::with(services, vec!["10.in-addr.arpa.".to_owned()], runtime)
    }

    /// The same with these reverse zones.
    pub(crate) fn with(
        services: u32,
        reverse: Vec<String>,
        runtime: &tokio::runtime::Runtime,
    ) -> Self {
        // On the disk the project lies on: a temporary folder may be memory.
        let folder = tempfile::tempdir_in("target").unwrap();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let wall = Arc::clone(&clock);
        let (journal, _) =
            Journal::open(folder.path(), Arc::new(move || millis(wall.wall()))).unwrap();
        let plan = ClusterPlan {
            source: "bench".into(),
            selection: String::new(),
            forward: vec![zone_plan("cluster.local.", true)],
            reverse: reverse.iter().map(|apex| zone_plan(apex, false)).collect(),
            front: Front::default(),
            clusterset: Vec::new(),
            external: Vec::new(),
            kinds: Kinds::BASE,
            ttl: Ttl::decode(30),
            namespaces: None,
            hides_empty_services: false,
            limits: RecordLimits::DEFAULT,
            publishes_namespaces: false,
            publishes_headless: false,
            publishes_clients: false,
        };
        let all: Vec<Arc<Zone>> = plan
            .zones()
            .map(|plan| Arc::new(Zone::new(&plan.name)))
            .collect();
        let zone = Arc::clone(&all[0]);
        let zones = Arc::new(ZoneSet::new(all.clone()));
        let handles = ClusterHandles::new(SourceId(0), &plan);
        let clusters = vec![(plan, handles)];
        let store = JournalStore(journal);
        let pipeline = Pipeline::new(zones, clusters, store, clock, Box::new(Deaf));
        let (inputs, mut waiting) = mpsc::channel(1024);
        std::thread::spawn(move || pipeline.run(&mut waiting));
        let mut subject = Self {
            zone,
            inputs,
            records: 0,
            _folder: folder,
        };
        subject.send(Change::Listed(
            Kind::Namespace,
            (0..100)
                .map(|number| namespace(&format!("ns-{number}")))
                .collect(),
        ));
        subject.send(Change::Listed(
            Kind::Service,
            (0..services).map(service).collect(),
        ));
        let slices = (0..services).map(|index| slice(index, 0)).collect();
        let mut published = subject.zone.subscribe();
        subject.send(Change::Listed(Kind::EndpointSlice, slices));
        runtime.block_on(published.changed()).unwrap();
        let count = |zone: &Zone| zone.current().map_or(0, |it| it.contents.record_count());
        while all.iter().any(|zone| count(zone) == 0) {
            std::thread::yield_now();
        }
        subject.records = all.iter().map(|zone| count(zone)).sum();
        subject
    }

    /// Tells the writer.
    pub(crate) fn send(&self, change: Change) {
        let seen = Instant::now();
        self.inputs
            .blocking_send(Input::Source {
                source: SourceId(0),
                event: SourceEvent::Changed {
                    change,
                    seen,
                    triggered: None,
                },
            })
            .unwrap();
    }

    /// One change of a Service, from the event to the published version.
    pub(crate) fn change(
        &self,
        index: u32,
        round: u32,
        runtime: &tokio::runtime::Runtime,
    ) -> Duration {
        self.changes([Change::Applied(slice(index, round))], runtime)
    }

    /// Changes that come together, from the first event to the first version published after it.
    pub(crate) fn changes(
        &self,
        changes: impl IntoIterator<Item = Change>,
        runtime: &tokio::runtime::Runtime,
    ) -> Duration {
        let mut published = self.zone.subscribe();
        published.mark_unchanged();
        let start = Instant::now();
        for change in changes {
            self.send(change);
        }
        runtime.block_on(published.changed()).unwrap();
        start.elapsed()
    }
}

/// Median and 99th percentile, in microseconds.
pub(crate) fn quantiles(mut times: Vec<Duration>) -> (f64, f64) {
    times.sort_unstable();
    let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1e6;
    (at(50), at(99))
}

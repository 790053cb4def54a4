//! One Service's change, from the event to the durable, published and announced version, in a zone of
//! 1 000 and in one of 1 000 000 records, against this disk's own append and fdatasync in the same run.
//!
//! `cargo bench --bench change` prints a table. Absolute times mean little on a shared machine; the
//! ratios are what counts.
#![allow(
    missing_docs,
    clippy::missing_docs_in_private_items,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measurement: it prints, reads the clock, and fails loudly"
)]

use std::fs::File;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use zonewright::cluster::{
    Change, Endpoint, EndpointSlice, Fact, Kind, Kinds, Namespace, ObjectKey, Origin, Port,
    Protocol, Service, ServiceForm, SliceForm, SlicePort,
};
use zonewright::dns::{CookieSecret, Name, Serial, Ttl};
use zonewright::ops::{Clock, SystemClock};
use zonewright::pipeline::{ClusterPlan, Input, Observer, Pipeline, Store, ZonePlan, millis};
use zonewright::schema::{ApexSettings, NameServer, Problem, ZoneForm};
use zonewright::serve::{Identity, Parts, Server, Settings};
use zonewright::transfer::Secondary;
use zonewright::zone::journal::{CommitError, Journal};
use zonewright::zone::{Candidate, Journaled, MemoryLimits, Version, Zone, ZoneSet};

/// Changes that are measured one after the other.
const CHANGES: usize = 2_000;
/// Changes whose NOTIFY is measured; they are apart from each other.
const NOTIFIED: usize = 150;
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
    fn synced(&self, _: usize) {}
}

/// A cluster of so many headless Services in a store of its own, with a writer on its own thread.
struct Subject {
    zone: Arc<Zone>,
    inputs: mpsc::Sender<Input>,
    records: usize,
    _folder: tempfile::TempDir,
}

fn zone_plan(apex: &str, forward: bool) -> ZonePlan {
    let apex: Name = apex.parse().unwrap();
    let server = "ns.dns.cluster.local.".parse().unwrap();
    ZonePlan {
        zone: Arc::new(Zone::new(&apex)),
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
        limits: MemoryLimits {
            steps: 10_000,
            octets: 16 << 20,
        },
    }
}

fn service(index: u32) -> Fact {
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
        origin: Origin::default(),
    })
}

fn key_of(index: u32) -> ObjectKey {
    ObjectKey::new(&format!("ns-{}", index % 100), &format!("service-{index}"))
}

/// The slice of a Service; `round` moves its first endpoint.
fn slice(index: u32, round: u32) -> Fact {
    let endpoint = |number: u32| {
        let moved = if number == 0 { (round % 2) << 23 } else { 0 };
        let address = Ipv4Addr::from(0x0a00_0000 + moved + index * ENDPOINTS + number);
        Endpoint {
            addresses: [IpAddr::from(address)].into(),
            hostname: None,
            fqdn: None,
            pod: None,
            zone: None,
        }
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
        origin: Origin::default(),
    })
}

impl Subject {
    fn new(services: u32, runtime: &tokio::runtime::Runtime) -> Self {
        // On the disk the project lies on: a temporary folder may be memory.
        let folder = tempfile::tempdir_in("target").unwrap();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let wall = Arc::clone(&clock);
        let (journal, _) =
            Journal::open(folder.path(), Arc::new(move || millis(wall.wall()))).unwrap();
        let plan = ClusterPlan {
            source: "bench".into(),
            forward: vec![zone_plan("cluster.local.", true)],
            reverse: vec![zone_plan("10.in-addr.arpa.", false)],
            clusterset: Vec::new(),
            external: Vec::new(),
            kinds: Kinds::BASE,
            ttl: Ttl::decode(30),
            namespaces: None,
            hides_empty_services: false,
            seen: None,
            headless: None,
        };
        let zone = Arc::clone(&plan.forward[0].zone);
        let reverse = Arc::clone(&plan.reverse[0].zone);
        let pipeline = Pipeline::new(vec![plan], JournalStore(journal), clock, Box::new(Deaf));
        let (inputs, mut waiting) = mpsc::channel(1024);
        std::thread::spawn(move || pipeline.run(&mut waiting));
        let namespace = |number: u32| {
            let key = ObjectKey::new("", &format!("ns-{number}"));
            Fact::Namespace(Namespace {
                key,
                origin: Origin::default(),
            })
        };
        let mut subject = Self {
            zone,
            inputs,
            records: 0,
            _folder: folder,
        };
        subject.send(Change::Listed(
            Kind::Namespace,
            (0..100).map(namespace).collect(),
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
        while count(&reverse) == 0 {
            std::thread::yield_now();
        }
        subject.records = count(&subject.zone) + count(&reverse);
        subject
    }

    fn send(&self, change: Change) {
        let seen = Instant::now();
        self.inputs
            .blocking_send(Input::Change {
                cluster: 0,
                change,
                seen,
            })
            .unwrap();
    }

    /// One change, from the event to the published version.
    fn change(&self, index: u32, round: u32, runtime: &tokio::runtime::Runtime) -> Duration {
        let mut published = self.zone.subscribe();
        published.mark_unchanged();
        let start = Instant::now();
        self.send(Change::Applied(slice(index, round)));
        runtime.block_on(published.changed()).unwrap();
        start.elapsed()
    }
}

/// Median and 99th percentile, in microseconds.
fn quantiles(mut times: Vec<Duration>) -> (f64, f64) {
    times.sort_unstable();
    let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1e6;
    (at(50), at(99))
}

/// Notify times of single changes: from the event to the datagram at a secondary that answers.
fn notify_times(subject: &Subject, runtime: &tokio::runtime::Runtime) -> Vec<Duration> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = socket.local_addr().unwrap();
    let (told, hears) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut octets = [0_u8; 1500];
        while let Ok((length, peer)) = socket.recv_from(&mut octets) {
            if told.send(Instant::now()).is_err() {
                return;
            }
            octets[2] |= 0x80;
            socket.send_to(&octets[..length], peer).unwrap();
        }
    });
    let zone = Arc::clone(&subject.zone);
    let _guard = runtime.enter();
    let server = Server::new(Parts {
        live: std::collections::HashMap::new(),
        zones: Arc::new(ZoneSet::new(vec![Arc::clone(&zone)])),
        access: std::collections::HashMap::new(),
        secondaries: vec![Secondary {
            zone: zone.apex().clone(),
            target: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), target.port()),
            key: None,
            source: None,
        }],
        keys: Arc::default(),
        identity: Identity {
            nsid: None,
            cookies: CookieSecret::new([0; 16]),
        },
        settings: Settings::default(),
        clock: Arc::new(SystemClock),
        query_log: None,
    });
    let cancel = CancellationToken::new();
    for (_, task) in server.run(&cancel) {
        runtime.spawn(task);
    }
    hears.recv().unwrap();
    // What was measured before may have left the slice as the first change below makes it.
    subject.send(Change::Applied(slice(7, 0)));
    let mut times = Vec::new();
    for round in 0..NOTIFIED {
        // Apart from each other, so that each change is told at once.
        std::thread::sleep(Duration::from_millis(120));
        while hears.try_recv().is_ok() {}
        let start = Instant::now();
        subject.send(Change::Applied(slice(7, u32::try_from(round).unwrap() + 1)));
        let heard = hears.recv_timeout(Duration::from_secs(5)).unwrap();
        times.push(heard.saturating_duration_since(start));
    }
    cancel.cancel();
    times
}

/// Appends 230 octets and waits for the disk.
fn append(file: &mut File) -> Duration {
    let start = Instant::now();
    file.write_all(&[7; 230]).unwrap();
    file.sync_data().unwrap();
    start.elapsed()
}

fn main() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let small = Subject::new(17, &runtime);
    let large = Subject::new(16_650, &runtime);
    let folder = tempfile::tempdir_in("target").unwrap();
    let mut file = File::create(folder.path().join("append")).unwrap();
    let (mut of_small, mut of_large, mut of_disk) = (Vec::new(), Vec::new(), Vec::new());
    let changes = u32::try_from(CHANGES).unwrap();
    for number in 0..changes {
        // In turn, so that what else the machine does meets all alike.
        of_small.push(small.change(number % 17, number / 17 + 1, &runtime));
        of_large.push(large.change(number % 16_650, number / 16_650 + 1, &runtime));
        of_disk.push(append(&mut file));
    }
    let (small_50, small_99) = quantiles(of_small);
    let (large_50, large_99) = quantiles(of_large);
    let (disk_50, disk_99) = quantiles(of_disk);
    println!("event to durable, published version; {CHANGES} changes each, µs");
    println!("| zone | p50 | p99 |\n|---|---|---|");
    println!(
        "| {} records | {small_50:.0} | {small_99:.0} |",
        small.records
    );
    println!(
        "| {} records | {large_50:.0} | {large_99:.0} |",
        large.records
    );
    println!("| this disk: append 230 octets, fdatasync | {disk_50:.0} | {disk_99:.0} |");
    println!(
        "ratio large/small: p50 {:.2}, p99 {:.2}",
        large_50 / small_50,
        large_99 / small_99
    );
    println!(
        "p99 of the large zone over p99 of the disk: {:.1}",
        large_99 / disk_99
    );
    let (small_50, small_99) = quantiles(notify_times(&small, &runtime));
    let (large_50, large_99) = quantiles(notify_times(&large, &runtime));
    println!("event to NOTIFY at the secondary; {NOTIFIED} changes each, µs");
    println!("| zone | p50 | p99 |\n|---|---|---|");
    println!(
        "| {} records | {small_50:.0} | {small_99:.0} |",
        small.records
    );
    println!(
        "| {} records | {large_50:.0} | {large_99:.0} |",
        large.records
    );
    println!("ratio large/small: p50 {:.2}", large_50 / small_50);
}

//! A long time with everything that can go wrong at once: random changes by a real API server reach BIND,
//! Knot, NSD, PowerDNS and Unbound, over TCP, signed, and over TLS where the version in Debian 12 can,
//! while each of them, zonewright and the API server are killed and come back.
//!
//! `SOAK_SECONDS` says how long (180 unless it does), `ZW_SEED` (printed) what happens when. `make soak` takes
//! half an hour.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::apiserver::{Access, ApiServer, paths, request};
use crate::support::certificates::Certificates;
use crate::support::fleet::Fleet;
use crate::support::process::{let_pass, now};
use crate::support::random::{Act, Cluster, NAMESPACES};
use crate::support::recorder::Recorder;
use crate::support::secondary::{Key, Kind, Plan, Secondary};
use crate::support::zonewright::Zonewright;
use crate::support::{needs, ports};
use fastrand::Rng;
use http::Method;
use kube::Client;
use serde_json::{Value, json};

/// Names, and addresses of both families.
const ZONES: [&str; 3] = [
    "cluster.local",
    "10.in-addr.arpa",
    "0.1.0.0.0.0.d.f.ip6.arpa",
];
/// Services that never change, so that what differs is less than the zone.
const FILLING: usize = 1500;
/// Writes to the API a second.
const RATE: u64 = 50;
/// How long a version, or the slowest secondary, may take once all is quiet.
const FOLLOW: Duration = Duration::from_secs(60);
/// Mishaps between two looks at everything.
const MISHAPS: usize = 4;

/// Who follows, and how.
struct Place {
    kind: Kind,
    port: u16,
    key: Option<Key>,
    /// Its name in its certificate; Knot 3.2, PowerDNS 4.7 and Unbound 1.17 take no zones over TLS that they authenticate so.
    name: Option<String>,
}

/// All five.
fn places() -> Vec<Place> {
    let place = |kind: Kind| Place {
        kind,
        port: ports::free(),
        key: kind.knows_tsig().then(|| Key {
            name: format!("{}.key", kind.name()),
            ..Key::example()
        }),
        name: matches!(kind, Kind::Bind | Kind::Nsd).then(|| format!("{}.example", kind.name())),
    };
    Kind::ALL.map(place).into()
}

/// `tsig` and `transfer` for the Corefile.
fn directives(places: &[Place]) -> String {
    let (mut keys, mut to) = (String::new(), String::new());
    for place in places {
        write!(to, "        to 127.0.0.1:{}", place.port).unwrap();
        if let Some(key) = &place.key {
            writeln!(
                keys,
                "        secret {} {} {}",
                key.name, key.secret, key.algorithm
            )
            .unwrap();
            write!(to, " key {}", key.name).unwrap();
        }
        if let Some(name) = &place.name {
            write!(to, " tls {name}").unwrap();
        }
        to += "\n";
    }
    format!("    tsig {{\n{keys}    }}\n    transfer {{\n{to}        allow 127.0.0.1\n    }}\n")
}

/// A Service of the filling.
fn filling(number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "namespace": NAMESPACES[number % 2], "name": format!("many-{number}") },
        "spec": {
            "ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"],
            "ports": [{ "name": "http", "port": 80, "protocol": "TCP" }],
        },
    })
}

/// Writes changes at a steady rate until told to end; holds while it is told to.
struct Changes {
    end: AtomicBool,
    hold: AtomicBool,
    is_held: AtomicBool,
    written: AtomicU64,
    refused: AtomicU64,
}

impl Changes {
    /// Writes one object, again and again while the server is away.
    async fn write(&self, client: &Client, act: &Act) {
        while !self.end.load(Ordering::Relaxed) {
            let request = match act {
                Act::Put(object) => request(
                    Method::PATCH,
                    &format!("{}?fieldManager=soak&force=true", paths(object).1),
                    Some(("application/apply-patch+yaml", object)),
                ),
                Act::Delete(object) => request(
                    Method::DELETE,
                    &format!("{}?gracePeriodSeconds=0", paths(object).1),
                    None,
                ),
            };
            match client.request::<Value>(request).await {
                Ok(_) => {
                    self.written.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                // An address or a name that another object has: such a change does not happen.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409 | 422) => {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    /// Goes on until the end.
    async fn run(&self, client: Client, mut cluster: Cluster) {
        let mut ticks = tokio::time::interval(Duration::from_micros(1_000_000 / RATE));
        while !self.end.load(Ordering::Relaxed) {
            let hold = self.hold.load(Ordering::Relaxed);
            self.is_held.store(hold, Ordering::Relaxed);
            if hold {
                tokio::time::sleep(Duration::from_millis(5)).await;
                continue;
            }
            for act in cluster.change() {
                ticks.tick().await;
                self.write(&client, &act).await;
            }
        }
    }
}

/// Everything.
struct World {
    server: ApiServer,
    zonewright: Zonewright,
    fleet: Fleet,
    changes: Arc<Changes>,
    recorder: Arc<Mutex<Recorder>>,
    /// How often each was killed.
    kills: BTreeMap<&'static str, usize>,
    marks: usize,
    /// How often BIND had given up when it was looked at last.
    bind_gave_up: usize,
}

impl World {
    /// Starts everything; all hold all zones.
    fn start() -> Self {
        let server = ApiServer::start();
        for name in NAMESPACES {
            server.create(
                &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }),
            );
        }
        let all: Vec<Value> = (0..FILLING).map(filling).collect();
        server.create_all(&all, 16);
        let mut zonewright = Zonewright::prepare(&ZONES);
        let certificates = Certificates::new(zonewright.folder().to_owned());
        certificates.write("ns.example");
        let places = places();
        for name in places.iter().filter_map(|place| place.name.as_ref()) {
            certificates.write(name);
        }
        let tls_port = ports::free();
        let keys: Vec<String> = ZONES
            .iter()
            .map(|zone| format!("tls://{zone}:{tls_port}"))
            .collect();
        zonewright.configure_with_keys(
            &keys.join(" "),
            &format!(
                "    kubernetes {{\n        kubeconfig {}\n    }}\n{}{}",
                server.kubeconfig(Access::Admin).display(),
                certificates.line(),
                directives(&places)
            ),
        );
        zonewright.start();
        let members = places.into_iter().map(|place| {
            let mut plan = Plan::new(zonewright.address(), &ZONES);
            plan.nsd_keeps_ixfr = false;
            plan.key = place.key;
            plan.tls = place
                .name
                .map(|name| certificates.of_secondary(&name, tls_port));
            Secondary::start_on(place.kind, &plan, place.port)
        });
        let fleet = Fleet::new(members.collect());
        fleet.wait_until_equal(&zonewright, FOLLOW);
        let changes = Changes {
            end: AtomicBool::new(false),
            hold: AtomicBool::new(false),
            is_held: AtomicBool::new(false),
            written: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        };
        Self {
            server,
            zonewright,
            fleet,
            changes: Arc::new(changes),
            recorder: Arc::default(),
            kills: BTreeMap::new(),
            marks: 0,
            bind_gave_up: 0,
        }
    }

    /// Kills something and brings it back.
    fn mishap(&mut self, random: &mut Rng) {
        let away = Duration::from_millis(random.u64(..1500));
        let who = match random.u64(..8) {
            0..5 => {
                let place = usize::try_from(random.u64(..5)).unwrap();
                let member = &mut self.fleet.members[place];
                member.kill();
                let_pass(away);
                member.resume();
                member.kind.name()
            }
            5 | 6 => {
                self.zonewright.kill();
                let_pass(away / 4);
                self.zonewright.start();
                "zonewright"
            }
            _ => {
                self.server.kill();
                let_pass(away);
                self.server.resume();
                "kube-apiserver"
            }
        };
        *self.kills.entry(who).or_default() += 1;
        self.nobody_is_ahead();
    }

    /// No secondary has a serial that we do not have yet.
    fn nobody_is_ahead(&self) {
        for member in &self.fleet.members {
            for zone in ZONES {
                // In this order: ours may only grow meanwhile.
                let (theirs, ours) = (member.serial(zone), self.zonewright.serial(zone));
                if let (Some(theirs), Some(ours)) = (theirs, ours) {
                    let is_ahead = theirs != ours && theirs.wrapping_sub(ours) < 1 << 31;
                    assert!(
                        !is_ahead,
                        "{:?} has {theirs} of {zone}, we {ours}",
                        member.kind
                    );
                }
            }
        }
    }

    /// Holds the changes, waits until all is followed, and compares everything.
    fn checkpoint(&mut self) {
        self.changes.hold.store(true, Ordering::Relaxed);
        crate::support::process::wait_for(
            "the changes hold",
            FOLLOW,
            || "a write does not end".to_owned(),
            || self.changes.is_held.load(Ordering::Relaxed).then_some(()),
        );
        self.marks += 1;
        let (name, host) = (format!("mark-{}", self.marks), self.marks % 250 + 1);
        let address = format!("10.77.{}.{host}", self.marks / 250);
        for object in mark(&name, &address) {
            self.server.create(&object);
        }
        // Both watches have brought all that came before.
        let full = format!("{name}.{}.svc.cluster.local", NAMESPACES[0]);
        let server = self.zonewright.address();
        self.zonewright.wait_for(&full, FOLLOW, || {
            let found = crate::support::zonewright::addresses(server, &full)?;
            (found == [address.clone()]).then_some(())
        });
        self.free_bind();
        let took = self.fleet.wait_until_equal(&self.zonewright, FOLLOW);
        self.fleet.assert_equal(&self.zonewright);
        for zone in ZONES {
            let mut recorder = self.recorder.lock().unwrap();
            assert!(recorder.take_full(server, zone));
            assert!(recorder.violations.is_empty(), "{:#?}", recorder.violations);
        }
        self.only_lost_states_took_zones_whole();
        eprintln!(
            "checkpoint {}: {} writes, {} refused, equal after {:?}, killed {:?}, {:?}",
            self.marks,
            self.changes.written.load(Ordering::Relaxed),
            self.changes.refused.load(Ordering::Relaxed),
            took.last().unwrap().1,
            self.kills,
            self.fleet.transfers(&self.zonewright)
        );
        self.changes.hold.store(false, Ordering::Relaxed);
    }

    /// BIND takes a primary it could not connect to for dead during ten minutes, whatever it is told
    /// meanwhile, and says so; a restart makes it forget that.
    fn free_bind(&mut self) {
        const SAYS: &str = "is unreachable (cached)";
        let zonewright = &self.zonewright;
        let known = self.bind_gave_up;
        let bind = self.fleet.member(Kind::Bind);
        let gave_up = || bind.log().matches(SAYS).count();
        let has_all = || {
            ZONES
                .iter()
                .all(|zone| bind.serial(zone) == zonewright.serial(zone))
        };
        crate::support::process::wait_for(
            "BIND follows or gives up",
            FOLLOW,
            || bind.log(),
            || (has_all() || gave_up() > known).then_some(()),
        );
        if !has_all() {
            bind.restart();
        }
        self.bind_gave_up = self.fleet.member(Kind::Bind).log().matches(SAYS).count();
    }

    /// We never gave a zone whole to whoever asked for differences; and whoever was not killed asked for
    /// no zone twice.
    fn only_lost_states_took_zones_whole(&self) {
        let log = self.zonewright.log();
        assert!(!log.contains("panicked"));
        let fallbacks: Vec<&str> = log
            .lines()
            .filter(|line| line.contains("kind=\"ixfr_as_axfr\""))
            .collect();
        assert!(fallbacks.is_empty(), "{}", fallbacks.join("\n"));
        for (kind, transfers) in self.fleet.transfers(&self.zonewright) {
            let kills = self.kills.get(kind.name()).copied().unwrap_or_default();
            let most = ZONES.len() * (1 + kills) + self.fleet.own_restarts(kind);
            assert!(
                transfers.axfr <= most,
                "{kind:?} {transfers:?}, killed {kills} times"
            );
        }
    }
}

/// A headless Service with an endpoint: its address is there once both are known.
fn mark(name: &str, address: &str) -> [Value; 2] {
    let namespace = NAMESPACES[0];
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "namespace": namespace, "name": name },
        "spec": { "clusterIP": "None", "ports": [{ "name": "http", "port": 80 }] },
    });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {
            "namespace": namespace, "name": format!("{name}-1"),
            "labels": { "kubernetes.io/service-name": name },
        },
        "endpoints": [{ "addresses": [address], "conditions": { "ready": true } }],
        "ports": [{ "name": "http", "port": 80, "protocol": "TCP" }],
    });
    [service, slice]
}

#[test]
fn k1_k2_k3_secondaries_follow_while_everything_is_killed() {
    if needs::lacks(&[
        "apiserver",
        "openssl",
        "bind",
        "knot",
        "nsd",
        "pdns",
        "unbound",
    ]) {
        return;
    }
    let seconds = std::env::var("SOAK_SECONDS")
        .map_or(180, |text| text.parse().expect("SOAK_SECONDS is a number"));
    let seed = fuzz::seed();
    let mut world = World::start();
    let mut random = Rng::with_seed(seed);
    let (changes, client) = (
        Arc::clone(&world.changes),
        world.server.client(Access::Admin),
    );
    let writing = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(changes.run(client, Cluster::new(seed)));
    });
    let (changes, recorder) = (Arc::clone(&world.changes), Arc::clone(&world.recorder));
    let address = world.zonewright.address();
    let recording = std::thread::spawn(move || {
        while !changes.end.load(Ordering::Relaxed) {
            for zone in ZONES {
                recorder.lock().unwrap().ask_serial(address, zone);
            }
            let_pass(Duration::from_millis(20));
        }
    });
    let start = now();
    while now() - start < Duration::from_secs(seconds) {
        for _ in 0..MISHAPS {
            let_pass(Duration::from_millis(500 + random.u64(..3000)));
            world.mishap(&mut random);
        }
        world.checkpoint();
    }
    world.changes.end.store(true, Ordering::Relaxed);
    writing.join().expect("the changes end well");
    recording.join().expect("the recorder ends well");
    let recorder = world.recorder.lock().unwrap();
    assert!(recorder.violations.is_empty(), "{:#?}", recorder.violations);
    let written = world.changes.written.load(Ordering::Relaxed);
    eprintln!(
        "{written} writes in {:?}, {:?}",
        now() - start,
        recorder.counts
    );
    // The API server is away at times, and a busy machine is slower: the rate is what is wanted, not judged.
    assert!(written > seconds * RATE / 10, "only {written} writes");
}

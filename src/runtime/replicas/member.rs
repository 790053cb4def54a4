//! Starts the replica of this process.
//!
//! The journal is opened first, so that what was announced is served at once. Then the loop runs, and the writer waits until it leads.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, anyhow};
use directives::config::{Config, ReplicaTls, Replicas, Source};
use dns::Name;
use ops::metrics::Metrics;
use ops::{Clock, HandlerMetrics, Tasks};
use replica_disk::commits::{Commits, Outcome};
use replica_disk::disk::{Disk, DiskError, Found};
use replica_disk::thread::{DiskThread, Request};
use replica_links::clock::SystemClocks;
use replica_links::driver::{Driver, DriverError, Handle, Parts};
use replica_links::identity::Identity;
use replica_links::limits::LinkLimits;
use replica_links::links::Listener;
use replicas::chain::ReplicaId;
use replicas::settings::Settings;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use server::{TlsClients, TlsMaterial};
use tokio::sync::mpsc;
use transfer::{AskedSecondary, SecondaryTable};
use writer::Input;
use zone::journal::{Journal, Reader};
use zone::{MemoryLimits, ZoneSet};

use crate::failure::one_line;
use crate::runtime::deployment::Deployment;
use crate::runtime::followed_files::{self, Contents, Reload};
use crate::runtime::listeners::hostname;
use crate::runtime::replicas::counts;
use crate::runtime::replicas::disk::{Orders, Publisher, Reads, ends};
use crate::runtime::replicas::edges::Edges;
use crate::runtime::replicas::host::{Program, Surroundings, start};
use crate::runtime::replicas::outcomes::Outcomes;
use crate::runtime::replicas::role::Role;
use crate::runtime::replicas::store::{Loop, ReplicaStore};

/// Requests that wait for the journal's thread.
const WAITING_REQUESTS: usize = 1024;
/// How long the end of the process waits until another replica may lead.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);
/// The bytes of the number of a state folder.
const FOLDER_OCTETS: usize = 8;

/// The replica as the other parts of the process speak to it.
#[derive(Clone)]
pub(crate) struct Member {
    /// Who leads.
    pub(crate) role: Arc<Role>,
    handle: Handle,
    /// The secondaries that a new leader asks.
    secondaries: Arc<Mutex<Vec<AskedSecondary>>>,
    /// The zones, which do not change until the next start.
    zones: Arc<[Name]>,
    replicas: Arc<Replicas>,
}

/// What the replica is made of.
pub(crate) struct MemberParts<'a> {
    pub(crate) replicas: &'a Replicas,
    /// The API server with the Lease.
    pub(crate) api: Option<&'a Source>,
    pub(crate) deployment: &'a Arc<Deployment>,
    /// The journal, open.
    pub(crate) journal: Journal,
    /// Whether its folder is a copy.
    pub(crate) is_copy: bool,
    pub(crate) clock: &'a Arc<dyn Clock>,
    pub(crate) metrics: &'a Arc<Metrics>,
    /// The counters of directives.
    pub(crate) handlers: &'a HandlerMetrics,
    pub(crate) table: &'a Arc<SecondaryTable>,
    pub(crate) inputs: mpsc::WeakSender<Input>,
}

/// What the writer's thread gets.
pub(crate) struct WriterSide {
    pub(crate) store: ReplicaStore,
    pub(crate) reader: Reader,
    /// The journal's thread: it ends after the writer and the loop.
    pub(crate) disk: JoinHandle<Result<Journal, DiskError>>,
}

impl Member {
    /// The directive of a configuration.
    pub(crate) fn wanted(config: &Config) -> Option<&Replicas> {
        Self::wanted_at(config).map(|(replicas, _)| replicas)
    }

    /// The directive, with the API server of its block.
    pub(crate) fn wanted_at(config: &Config) -> Option<(&Replicas, Option<&Source>)> {
        let mut blocks = config.servers.iter();
        blocks.find_map(|block| Some((block.get::<Replicas>()?, block.api_server())))
    }

    /// Starts the replica. It leads or follows as soon as its loop runs.
    pub(crate) async fn start(
        parts: MemberParts<'_>,
        tasks: &mut Tasks,
    ) -> anyhow::Result<(Self, WriterSide)> {
        let MemberParts {
            replicas,
            api,
            deployment,
            journal,
            is_copy,
            clock,
            metrics,
            handlers,
            table,
            inputs,
        } = parts;
        let zones = Arc::clone(&deployment.zones);
        let names: Arc<[Name]> = zones.all().iter().map(|it| it.apex().clone()).collect();
        let network = Network::open(replicas, api, clock, &names, tasks).await?;
        let reader = journal.reader();
        let (disk, found) = open_disk((journal, is_copy), deployment, &names).await?;
        restore(&zones, &found, ops::millis(clock.wall()));
        table.notices.take_over(names.iter().cloned());
        let publisher = Publisher {
            zones: Arc::clone(&zones),
            metrics: Arc::clone(metrics),
        };
        let (disk, orders, reads) = DiskSide::start(disk, clock, &publisher)?;
        let role = Arc::new(Role::default());
        let (wanted, all_wanted) = mpsc::unbounded_channel();
        let (proofs, all_proofs) = mpsc::unbounded_channel();
        let program = Program {
            role: Arc::clone(&role),
            outcomes: Arc::clone(&disk.outcomes),
            table: Arc::clone(table),
            wanted,
            proofs,
        };
        let (driver, handle) = Driver::new(network.join(found, program, orders, reads))?;
        role.run(driver.id().clone(), handle.clone());
        let secondaries: Arc<Mutex<Vec<AskedSecondary>>> = Arc::default();
        let around = Surroundings {
            zones,
            table: Arc::clone(table),
            inputs,
            deployment: Arc::clone(deployment),
            clock: Arc::clone(clock),
            secondaries: Arc::clone(&secondaries),
        };
        start(around, handle.clone(), all_wanted, all_proofs, tasks);
        counts::start(&role, handlers, tasks);
        run(driver, &disk.outcomes, tasks);
        let side = disk.for_writer(handle.clone(), publisher, reader, &role);
        let member = Self {
            role,
            handle,
            secondaries,
            zones: names,
            replicas: Arc::new(replicas.clone()),
        };
        Ok((member, side))
    }

    /// Has a new leader ask these secondaries, too.
    pub(crate) fn ask_also(&self, asked: &[AskedSecondary]) {
        let all = self.secondaries.lock();
        let mut all = all.unwrap_or_else(PoisonError::into_inner);
        // A secondary that comes back after a reload replaces itself, perhaps with other keys.
        let is_it = |one: &AskedSecondary, other: &AskedSecondary| {
            (&one.0.zone, one.0.target) == (&other.0.zone, other.0.target)
        };
        all.retain(|known| !asked.iter().any(|new| is_it(known, new)));
        all.extend(asked.iter().cloned());
    }

    /// Why another configuration cannot be taken into use without a restart.
    pub(crate) fn refuses(&self, config: &Config, deployment: &Deployment) -> Option<String> {
        let zones = deployment.zones.all().iter().map(|it| it.apex());
        let why = if !zones.eq(self.zones.iter()) {
            "the zones of replicas change with a restart only"
        } else if Self::wanted(config).is_none_or(|it| !self.is_same(it)) {
            "`replicas` changes with a restart only"
        } else {
            return None;
        };
        Some(why.to_owned())
    }

    /// Whether another directive says the same.
    fn is_same(&self, other: &Replicas) -> bool {
        let place = self.replicas.place.clone();
        let other = other.clone();
        Replicas { place, ..other } == *self.replicas
    }

    /// Hands over to another replica, because the process is about to end.
    pub(crate) async fn leave(&self) {
        let led = self.role.leads().is_some();
        match tokio::time::timeout(LEAVE_WITHIN, self.handle.leave()).await {
            Ok(Ok(())) if led => tracing::info!("another replica may lead"),
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "this replica cannot hand over"),
            Err(_) => tracing::warn!("this replica could not hand over in time"),
        }
    }
}

/// What a replica has towards the others.
struct Network {
    /// The name of this replica, without the number of its folder.
    id: String,
    /// Where the others connect.
    address: String,
    settings: Settings,
    edges: Edges,
    listener: Listener,
    identity: Arc<Identity>,
}

impl Network {
    async fn open(
        replicas: &Replicas,
        api: Option<&Source>,
        clock: &Arc<dyn Clock>,
        names: &[Name],
        tasks: &mut Tasks,
    ) -> anyhow::Result<Self> {
        let identity = identity(replicas, tasks)?;
        let (listener, bound) = bind(replicas).await?;
        let settings = settings(replicas, names);
        let advertised = replicas.advertise.clone();
        Ok(Self {
            id: replicas.id.clone().unwrap_or_else(hostname),
            address: advertised.unwrap_or_else(|| bound.to_string()),
            edges: Edges::open(replicas, api, clock, &settings).await?,
            settings,
            listener,
            identity,
        })
    }

    /// The replica, with what its journal has.
    fn join(self, found: Found, host: Program, orders: Orders, reads: Reads) -> Parts<Program> {
        let me = format!("{}/{}", self.id, found.kept.folder);
        Parts {
            me: ReplicaId::from(&*me),
            address: self.address,
            chains: found.chains,
            vow: found.kept.vow,
            settings: self.settings,
            role: self.edges.role,
            clocks: Arc::new(SystemClocks::new()),
            host,
            disk: Box::new(orders),
            reader: Box::new(reads),
            listener: self.listener,
            identity: self.identity,
            limits: LinkLimits::default(),
            roster: self.edges.roster,
        }
    }
}

/// The journal's thread, and what the writer needs of it.
struct DiskSide {
    requests: SyncSender<Request>,
    outcomes: Arc<Outcomes>,
    heard: Receiver<Outcome>,
    thread: JoinHandle<Result<Journal, DiskError>>,
}

impl DiskSide {
    /// Starts the thread. Gives the ends for the loop, too.
    fn start(
        disk: Disk,
        clock: &Arc<dyn Clock>,
        publisher: &Publisher,
    ) -> anyhow::Result<(Self, Orders, Reads)> {
        let (requests, requested) = sync_channel(WAITING_REQUESTS);
        let (outcomes, heard) = Outcomes::new();
        let (orders, reads, answers) = ends(&requests, &outcomes, publisher.clone());
        let answer = Box::new(move |answer| answers.take(answer));
        let disk = DiskThread::new(disk, Arc::clone(clock), answer);
        let thread = std::thread::Builder::new()
            .name("journal".into())
            .spawn(move || disk.run(&requested))
            .context("the journal's thread cannot start")?;
        let side = Self {
            requests,
            outcomes,
            heard,
            thread,
        };
        Ok((side, orders, reads))
    }

    /// The writer's store.
    fn for_writer(
        self,
        handle: Handle,
        publisher: Publisher,
        reader: Reader,
        role: &Arc<Role>,
    ) -> WriterSide {
        let replica = Loop {
            handle,
            runtime: tokio::runtime::Handle::current(),
            outcomes: self.outcomes,
        };
        let publish = Box::new(move |version| publisher.publish(version));
        let commits = Commits::new(replica, self.requests, self.heard, publish);
        WriterSide {
            store: ReplicaStore::new(commits, reader.clone(), Arc::clone(role)),
            reader,
            disk: self.thread,
        }
    }
}

/// Binds the address for the other replicas.
async fn bind(replicas: &Replicas) -> anyhow::Result<(Listener, SocketAddr)> {
    let (place, address) = (&replicas.place, replicas.listen);
    let listener = Listener::bind(address).await;
    let listener = listener.with_context(|| format!("{place}: cannot listen on {address}"))?;
    let bound = listener.address().context("the address of a socket")?;
    tracing::info!(address = %bound, scheme = "replicas", transports = "tcp", "listening");
    Ok((listener, bound))
}

/// Reads the journal. A copy of another folder gets a number of its own.
async fn open_disk(
    (mut journal, is_copy): (Journal, bool),
    deployment: &Deployment,
    names: &Arc<[Name]>,
) -> anyhow::Result<(Disk, Found)> {
    for (name, retention) in deployment.retentions() {
        journal.set_retention(name, retention);
    }
    let (limits, drawn, names) = (limits_of(deployment), draw()?, Arc::clone(names));
    let open = move || Disk::open(journal, &names, limits, is_copy, || drawn);
    Ok(tokio::task::spawn_blocking(open).await??)
}

/// Runs the loop. When it ends, nobody waits for it.
fn run(driver: Driver<Program>, outcomes: &Arc<Outcomes>, tasks: &mut Tasks) {
    let (cancel, outcomes) = (tasks.cancel().clone(), Arc::clone(outcomes));
    tasks.spawn("loop of the replica", async move {
        let ended = driver.run(cancel).await;
        outcomes.close();
        ended.map_err(|error: DriverError| Box::new(error) as ops::TaskError)
    });
}

/// Puts what was announced into the zones. It is stale until the sources were listed.
fn restore(zones: &ZoneSet, found: &Found, now_ms: u64) {
    for note in &found.notes {
        tracing::warn!("{note}");
    }
    for version in &found.announced {
        if let Some(zone) = zones.get(version.contents.apex()) {
            tracing::info!(
                zone = %zone.apex(),
                serial = %version.serial,
                records = version.contents.record_count(),
                "version restored from the store"
            );
            zone.restore(version.clone());
            zone.set_stale_since_ms(Some(now_ms));
        }
    }
}

/// The history in memory of all zones: that of the zone that has the most.
fn limits_of(deployment: &Deployment) -> MemoryLimits {
    let all = deployment.retentions().map(|(_, it)| it.memory_limits());
    let largest = all.reduce(|one, other| MemoryLimits {
        steps: one.steps.max(other.steps),
        octets: one.octets.max(other.octets),
    });
    largest.unwrap_or_else(|| zone::journal::Retention::DEFAULT.memory_limits())
}

/// Times and limits.
fn settings(replicas: &Replicas, zones: &[Name]) -> Settings {
    let usual = Settings::default();
    Settings {
        min_in_sync: replicas.min_in_sync,
        orphan_wait: replicas.orphan_wait.unwrap_or(usual.orphan_wait),
        digest: digest_of(zones),
        ..usual
    }
}

/// What the configurations of all replicas have in common: the names of their zones. A change of anything else does not keep
/// replicas apart while it is rolled out.
fn digest_of(zones: &[Name]) -> u64 {
    let mut names: Vec<&[u8]> = zones.iter().map(Name::as_wire).collect();
    names.sort_unstable();
    let sum = digest(&SHA256, &names.concat());
    let first = sum.as_ref().first_chunk().expect("a sum has 32 bytes");
    u64::from_be_bytes(*first)
}

/// The certificates. They are read again when their files change.
fn identity(replicas: &Replicas, tasks: &mut Tasks) -> anyhow::Result<Arc<Identity>> {
    let ReplicaTls {
        certificate,
        key,
        authorities,
    } = replicas.tls.clone();
    let files = vec![certificate, key, authorities];
    // Before they are read, so that a change meanwhile is seen.
    let seen = Contents::of(&files);
    let place = format!("{}: replicas", replicas.place);
    let identity = Identity::new(&material(replicas)?, &replicas.name);
    let identity = Arc::new(identity.with_context(|| place.clone())?);
    let (used, replicas) = (Arc::clone(&identity), replicas.clone());
    let take = move || {
        let taken = material(&replicas).and_then(|material| {
            used.replace(&material).with_context(|| place.clone())?;
            Ok(())
        });
        taken.map_err(|error| vec![one_line(&error)])
    };
    let reload = Reload::new("certificates of replicas", files, seen, Box::new(take));
    let following = followed_files::run(vec![reload], tasks.cancel().clone());
    tasks.spawn("certificates of replicas", following);
    Ok(identity)
}

/// What is in the files of the certificates.
fn material(replicas: &Replicas) -> anyhow::Result<TlsMaterial> {
    let ReplicaTls {
        certificate,
        key,
        authorities,
    } = &replicas.tls;
    let contents = |file: &PathBuf| {
        let place = &replicas.place;
        std::fs::read(file).with_context(|| format!("{place}: cannot read {}", file.display()))
    };
    Ok(TlsMaterial {
        certificates: contents(certificate)?,
        key: contents(key)?,
        clients: Some(TlsClients {
            authorities: contents(authorities)?,
            revoked: None,
            is_required: true,
        }),
    })
}

/// The number of a new state folder.
fn draw() -> anyhow::Result<String> {
    let mut octets = [0; FOLDER_OCTETS];
    let drawn = SystemRandom::new().fill(&mut octets);
    drawn.map_err(|_| anyhow!("the system has no random numbers"))?;
    Ok(octets.iter().map(|octet| format!("{octet:02x}")).collect())
}

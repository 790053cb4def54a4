//! Replicas of one installation in one process, on loopback.

use dns::testing::name;
use dns::{Name, Serial};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use kubernetes::source::api_server::Auth;
use kubernetes::source::api_server::lease::{LeaseClient, LeaseName};
use ops::SystemClock;
use replicas::chain::{Epoch, ReplicaId, Tip};
use replicas::lease::Loss;
use replicas::settings::Settings;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::authority::Authority;
use super::journal::{MemoryJournal, step_after};
use crate::clock::SystemClocks;
use crate::driver::{Driver, DriverError, Handle, Parts, Refused, Role};
use crate::host::Host;
use crate::identity::Identity;
use crate::lease_client::LeaseEdge;
use crate::limits::LinkLimits;
use crate::links::{LinkStats, Listener};
use crate::roster::Roster;

/// The name that all replicas of tests have in their certificates.
const NAME: &str = "replicas.example";
/// How long a test waits for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the replicas of an installation share.
#[derive(Debug)]
pub struct Installation {
    /// The API server.
    pub auth: Auth,
    /// The Lease.
    pub lease: LeaseName,
    /// The authority of the certificates.
    pub authority: Authority,
    /// Times and limits.
    pub settings: Settings,
    /// Limits of connections.
    pub limits: LinkLimits,
    /// The zones.
    pub zones: Vec<Name>,
    /// The addresses of all replicas that were started.
    addresses: Arc<Mutex<Vec<String>>>,
}

/// The list of replicas as all of them see it now.
#[derive(Debug)]
struct SharedRoster(Arc<Mutex<Vec<String>>>);

impl Roster for SharedRoster {
    fn addresses(&self) -> BoxFuture<'_, io::Result<Vec<String>>> {
        let addresses = self.0.lock().unwrap().clone();
        async move { Ok(addresses) }.boxed()
    }
}

/// What a replica told its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// Lead, in this epoch, and whether each zone needs a version.
    Lead(Epoch, bool),
    /// Do not lead.
    Stop(Loss),
    /// A version is visible.
    Show(Name, Tip),
    /// NOTIFY is due.
    Notify(Name, Serial),
    /// A step was declined.
    Declined(Name),
}

/// A running replica.
#[derive(Debug)]
pub struct Member {
    /// Its name.
    pub id: ReplicaId,
    /// Where it listens.
    pub address: String,
    /// The way to it.
    pub handle: Handle,
    /// Its journal.
    pub journal: MemoryJournal,
    /// Counts of refused connections.
    pub link_stats: Arc<LinkStats>,
    log: Arc<Log>,
    cancel: CancellationToken,
    driver: JoinSet<Option<DriverError>>,
    _prover: JoinSet<()>,
}

/// What a host was told so far.
#[derive(Debug, Default)]
struct Log {
    told: Mutex<Vec<Told>>,
    news: Notify,
}

/// A host that writes down what it is told, and proves at once.
struct TestHost {
    log: Arc<Log>,
    proofs: mpsc::UnboundedSender<Epoch>,
}

impl TestHost {
    fn tell(&self, told: Told) {
        self.log.told.lock().unwrap().push(told);
        self.log.news.notify_waiters();
    }
}

impl Host for TestHost {
    fn show(&mut self, zone: &Name, tip: &Tip) {
        self.tell(Told::Show(zone.clone(), *tip));
    }

    fn notify(&mut self, zone: &Name, serial: Serial) {
        self.tell(Told::Notify(zone.clone(), serial));
    }

    fn prove(&mut self, epoch: Epoch) {
        self.proofs.send(epoch).ok();
    }

    fn lead(&mut self, epoch: Epoch, must_publish: bool) {
        self.tell(Told::Lead(epoch, must_publish));
    }

    fn stop(&mut self, loss: Loss) {
        self.tell(Told::Stop(loss));
    }

    fn declined(&mut self, zone: &Name) {
        self.tell(Told::Declined(zone.clone()));
    }
}

/// Proves at once what is asked for.
async fn prove(handle: Handle, mut epochs: mpsc::UnboundedReceiver<Epoch>) {
    while let Some(epoch) = epochs.recv().await {
        handle.proven(epoch, BTreeMap::new()).await.ok();
    }
}

/// Waits for at most a minute.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let done = timeout(PATIENCE, future).await;
    done.unwrap_or_else(|_| panic!("this did not come in time: {what}"))
}

impl Installation {
    /// An installation at an API server, with short times and the zones `a.` and `b.`.
    #[must_use]
    pub fn new(auth: Auth) -> Self {
        let millis = Duration::from_millis;
        let settings = Settings {
            lease_duration: millis(3000),
            renew_deadline: millis(2000),
            retry_period: millis(400),
            call_timeout: millis(1000),
            lease_margin: millis(200),
            ..Settings::default()
        };
        Self {
            auth,
            lease: LeaseName {
                namespace: "default".to_owned(),
                name: "zonewright".to_owned(),
            },
            authority: Authority::new(),
            settings,
            limits: LinkLimits::default(),
            zones: ["a.", "b."].map(name).to_vec(),
            addresses: Arc::default(),
        }
    }

    /// An identity with a certificate of the authority.
    #[must_use]
    pub fn identity(&self) -> Arc<Identity> {
        let material = self.authority.material(NAME);
        Arc::new(Identity::new(&material, NAME).unwrap())
    }

    /// Starts a replica with a journal.
    pub async fn start(&self, id: &str, journal: &MemoryJournal) -> Member {
        let role = self.lease_role().await;
        self.start_as(id, journal, role).await
    }

    /// The role that the Lease gives.
    pub async fn lease_role(&self) -> Role {
        let client = LeaseClient::open(
            self.auth.clone(),
            self.lease.clone(),
            self.settings.call_timeout,
        );
        let client = client.await.unwrap();
        let clock = Arc::new(SystemClock);
        let lease = LeaseEdge::new(client, clock, self.settings.lease_duration);
        Role::Lease(Arc::new(lease))
    }

    /// Starts a replica with a journal and a role.
    pub async fn start_as(&self, id: &str, journal: &MemoryJournal, role: Role) -> Member {
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).await;
        let listener = listener.unwrap();
        let address = listener.address().unwrap().to_string();
        self.start_at(id, journal, role, listener, address)
    }

    /// Starts a replica that the others reach at this address.
    #[must_use]
    pub fn start_at(
        &self,
        id: &str,
        journal: &MemoryJournal,
        role: Role,
        listener: Listener,
        address: String,
    ) -> Member {
        self.addresses.lock().unwrap().push(address.clone());
        let (chains, vow) = journal.open(&self.zones);
        let log = Arc::new(Log::default());
        let (proofs, to_prove) = mpsc::unbounded_channel();
        let id = ReplicaId::from(id);
        let parts = Parts {
            me: id.clone(),
            address: address.clone(),
            chains,
            vow,
            settings: self.settings.clone(),
            role,
            clocks: Arc::new(SystemClocks::new()),
            host: TestHost {
                log: Arc::clone(&log),
                proofs,
            },
            disk: Box::new(journal.clone()),
            reader: Box::new(journal.clone()),
            listener,
            identity: self.identity(),
            limits: self.limits,
            roster: Arc::new(SharedRoster(Arc::clone(&self.addresses))),
        };
        let (driver, handle) = Driver::new(parts).unwrap();
        let link_stats = driver.link_stats();
        let cancel = CancellationToken::new();
        let mut running = JoinSet::new();
        let run = driver.run(cancel.clone());
        running.spawn(async move { run.await.err() });
        let mut prover = JoinSet::new();
        prover.spawn(prove(handle.clone(), to_prove));
        Member {
            id,
            address,
            handle,
            journal: journal.clone(),
            link_stats,
            log,
            cancel,
            driver: running,
            _prover: prover,
        }
    }

    /// A replica is gone for good: nobody asks it any more.
    pub fn forget(&self, member: &Member) {
        self.addresses
            .lock()
            .unwrap()
            .retain(|it| *it != member.address);
    }
}

impl Member {
    /// What it told its host so far.
    #[must_use]
    pub fn told(&self) -> Vec<Told> {
        self.log.told.lock().unwrap().clone()
    }

    /// Waits until something holds of what it told.
    pub async fn until<T>(&self, what: &str, holds: impl Fn(&[Told]) -> Option<T>) -> T {
        let waiting = async {
            loop {
                let mut news = std::pin::pin!(self.log.news.notified());
                news.as_mut().enable();
                if let Some(found) = holds(&self.told()) {
                    return found;
                }
                news.await;
            }
        };
        let what = format!("{}: {what}", self.id);
        soon(&what, waiting).await
    }

    /// Waits until it leads in an epoch above this one; gives its epoch.
    pub async fn until_leading(&self, above: Epoch) -> Epoch {
        let leads = |told: &[Told]| {
            let epochs = told.iter().filter_map(|it| match it {
                Told::Lead(epoch, _) => Some(*epoch),
                Told::Stop(_) | Told::Show(..) | Told::Notify(..) | Told::Declined(_) => None,
            });
            epochs.max().filter(|epoch| *epoch > above)
        };
        self.until("it leads", leads).await
    }

    /// Waits until a version is visible.
    pub async fn until_shown(&self, zone: &Name, tip: Tip) {
        let shown = Told::Show(zone.clone(), tip);
        let is_shown = |told: &[Told]| told.contains(&shown).then_some(());
        self.until("a version is shown", is_shown).await;
    }

    /// The newest visible version of each zone.
    #[must_use]
    pub fn visible(&self) -> BTreeMap<Name, Tip> {
        let shown = self.told().into_iter().filter_map(|it| match it {
            Told::Show(zone, tip) => Some((zone, tip)),
            Told::Lead(..) | Told::Stop(_) | Told::Notify(..) | Told::Declined(_) => None,
        });
        shown.collect()
    }

    /// Makes a version, and waits until it is visible here.
    ///
    /// # Errors
    /// When there is no permit.
    pub async fn publish(&self, zone: &Name, content: &[u8]) -> Result<Tip, Refused> {
        let permit = self.handle.permit(zone.clone()).await?;
        let step = step_after(&permit, content);
        let tip = step.tip;
        self.handle.propose(step).await?;
        self.until_shown(zone, tip).await;
        Ok(tip)
    }

    /// Waits until the in-sync set of the Lease has so many members, as this replica sees it.
    pub async fn until_in_sync(&self, count: usize) {
        let waiting = async {
            while self.handle.status().in_sync.len() != count {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let what = format!("{}: {count} replicas in sync", self.id);
        soon(&what, waiting).await;
    }

    /// Ends it at once, as when the process is killed.
    pub async fn kill(mut self) {
        self.driver.shutdown().await;
    }

    /// Ends it in order; gives the error that it ended with.
    pub async fn end(mut self) -> Option<DriverError> {
        self.cancel.cancel();
        self.ended().await
    }

    /// Waits until it ends by itself; gives its error.
    pub async fn ended(&mut self) -> Option<DriverError> {
        let joined = soon("the replica ends", self.driver.join_next()).await;
        joined.unwrap().unwrap()
    }
}

//! The loop that drives a replica: takes one event at a time, and carries out the actions of each in order before the next.
//!
//! Nothing is decided here. Disk, links, Lease and questions have tasks and threads of their own; what they say comes through channels. A [`Handle`] is
//! for the writer and for the program: it asks for permits, proposes steps, and hands over before the process ends.

mod handle;

use ops::{TaskEnd, Tasks};
use replicas::ceiling::Ceiling;
use replicas::chain::{Chains, Epoch, ReplicaId};
use replicas::fixed::FixedRole;
use replicas::frame::{Frame, LinkId};
use replicas::knowledge::{Knowledge, Vow};
use replicas::lease::{Call, CallId, LeaseEvent};
use replicas::replica::{Action, Event, Replica, Token};
use replicas::settings::Settings;
use replicas::term::Wait;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Interval, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use self::handle::{Asking, Input};
use crate::clock::Clocks;
use crate::disk::{Disk, DiskAnswer, DiskAnswers, DiskReader, DiskThreads};
use crate::greeting::{Question, ask_all};
use crate::host::Host;
use crate::identity::Identity;
use crate::lease_client::LeaseEdge;
use crate::limits::LinkLimits;
use crate::links::{Attempt, LinkEvent, LinkHandle, LinkStats, Listener, Shared, accept, dial};
use crate::roster::Roster;

pub use handle::{Gone, Handle, Refused};

/// The time between two ticks: ten a second.
const TICK: Duration = Duration::from_millis(100);
/// Events of links that the loop has not taken yet. When it is full, links are not read.
const LINK_EVENTS: usize = 64;
/// Answers of the API server and of other replicas that the loop has not taken yet.
const ANSWERS: usize = 64;

/// Who says which replica leads.
#[derive(Debug)]
pub enum Role {
    /// The Lease.
    Lease(Arc<LeaseEdge>),
    /// The configuration.
    Fixed(FixedRole),
}

/// What a replica is made of.
pub struct Parts<H> {
    /// Its name.
    pub me: ReplicaId,
    /// Where the others connect to it, as it is written to the Lease.
    pub address: String,
    /// What its journal holds, with an entry for each configured zone.
    pub chains: Chains,
    /// The vow of its journal.
    pub vow: Vow,
    /// Times and limits.
    pub settings: Settings,
    /// Who says which replica leads.
    pub role: Role,
    /// Its clocks.
    pub clocks: Arc<dyn Clocks>,
    /// What it is part of.
    pub host: H,
    /// Its journal, for orders.
    pub disk: Box<dyn Disk>,
    /// Its journal, for followers.
    pub reader: Box<dyn DiskReader>,
    /// Where it listens.
    pub listener: Listener,
    /// Its certificates.
    pub identity: Arc<Identity>,
    /// Limits of connections.
    pub limits: LinkLimits,
    /// The other replicas.
    pub roster: Arc<dyn Roster>,
}

impl<H> fmt::Debug for Parts<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("me", &self.me)
            .finish_non_exhaustive()
    }
}

/// The reason why a loop ended. The process has to end, too.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The threads of the disk could not be started.
    #[error("cannot start the threads of the disk: {0}")]
    Threads(#[source] io::Error),
    /// A sync failed: nothing is known of the disk.
    #[error("the journal of a replica cannot be synced: {0}")]
    Disk(#[source] io::Error),
    /// A thread of the disk ended.
    #[error("a thread of the disk ended")]
    DiskThread,
    /// A task ended.
    #[error(transparent)]
    Task(#[from] TaskEnd),
    /// A task of a link or a call panicked.
    #[error("a task of a replica failed: {0}")]
    Panicked(#[source] tokio::task::JoinError),
}

/// A replica with its edges.
pub struct Driver<H> {
    replica: Replica,
    settings: Settings,
    address: String,
    clocks: Arc<dyn Clocks>,
    host: H,
    lease: Option<Arc<LeaseEdge>>,
    roster: Arc<dyn Roster>,
    shared: Arc<Shared>,
    listener: Option<Listener>,
    disk: DiskThreads,
    /// Links that are open.
    links: BTreeMap<LinkId, LinkHandle>,
    /// The attempt to open a link to a leader.
    attempt: Option<(Attempt, AbortHandle)>,
    last_attempt: Attempt,
    /// Questions of other replicas that are not answered yet.
    questions: BTreeMap<Token, oneshot::Sender<Knowledge>>,
    last_question: Token,
    /// Permits that wait for an announcement or for the ceiling.
    permits: Vec<Asking>,
    /// Those who wait until the replica has left.
    leavers: Vec<oneshot::Sender<()>>,
    /// Events that actions caused.
    follow_ups: VecDeque<Event>,
    /// Calls, questions and own links.
    work: JoinSet<()>,
    answers: mpsc::Sender<Event>,
    status: watch::Sender<replicas::status::Status>,
    inbox: Option<Inbox>,
}

impl<H> fmt::Debug for Driver<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("me", self.replica.id())
            .finish_non_exhaustive()
    }
}

/// Where events come from.
struct Inbox {
    disk: DiskAnswers,
    answers: mpsc::Receiver<Event>,
    links: mpsc::Receiver<LinkEvent>,
    inputs: mpsc::Receiver<Input>,
    tick: Interval,
}

/// What came.
enum Turn {
    Event(Event),
    Disk(DiskAnswer),
    Link(LinkEvent),
    Input(Input),
}

impl<H: Host> Driver<H> {
    /// A replica that is about to run, and what others speak to it with.
    ///
    /// # Errors
    /// [`DriverError::Threads`].
    pub fn new(parts: Parts<H>) -> Result<(Self, Handle), DriverError> {
        let (me, address) = (parts.me, parts.address);
        let settings = parts.settings;
        let mut replica = Replica::new(
            me,
            address.clone(),
            parts.chains,
            parts.vow,
            settings.clone(),
        );
        let lease = match parts.role {
            Role::Lease(lease) => Some(lease),
            Role::Fixed(role) => {
                replica = replica.with_fixed_role(role);
                None
            }
        };
        let (disk, disk_answers) =
            DiskThreads::start(parts.disk, parts.reader).map_err(DriverError::Threads)?;
        let (link_events, links) = mpsc::channel(LINK_EVENTS);
        let (answers, answered) = mpsc::channel(ANSWERS);
        let shared = Arc::new(Shared::new(parts.identity, parts.limits, link_events));
        let status = replica.status(parts.clocks.now().boot);
        let (status, status_seen) = watch::channel(status);
        let (handle, inputs) = Handle::new(status_seen);
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let inbox = Inbox {
            disk: disk_answers,
            answers: answered,
            links,
            inputs,
            tick,
        };
        let this = Self {
            replica,
            settings,
            address,
            clocks: parts.clocks,
            host: parts.host,
            lease,
            roster: parts.roster,
            shared,
            listener: Some(parts.listener),
            disk,
            links: BTreeMap::new(),
            attempt: None,
            last_attempt: 0,
            questions: BTreeMap::new(),
            last_question: 0,
            permits: Vec::new(),
            leavers: Vec::new(),
            follow_ups: VecDeque::new(),
            work: JoinSet::new(),
            answers,
            status,
            inbox: Some(inbox),
        };
        Ok((this, handle))
    }

    /// The name of the replica.
    #[must_use]
    pub fn id(&self) -> &ReplicaId {
        self.replica.id()
    }

    /// Counts of connections that were refused.
    #[must_use]
    pub fn link_stats(&self) -> Arc<LinkStats> {
        Arc::clone(&self.shared.stats)
    }

    /// Runs the replica until the token is cancelled. All links are closed at once then. Orders that are not answered
    /// may be carried out or not.
    ///
    /// # Errors
    /// [`DriverError`]. The process has to end.
    pub async fn run(mut self, cancel: CancellationToken) -> Result<(), DriverError> {
        let mut tasks = Tasks::new(CancellationToken::new());
        self.start_tasks(&mut tasks);
        let mut inbox = self.inbox.take().expect("a driver runs once");
        let result = loop {
            let turn = tokio::select! {
                () = cancel.cancelled() => break Ok(()),
                turn = inbox.next() => match turn {
                    Some(turn) => turn,
                    None => break Err(DriverError::DiskThread),
                },
                Some(end) = tasks.next_end() => match end {
                    Ok(()) => continue,
                    Err(end) => break Err(end.into()),
                },
                Some(end) = self.work.join_next(), if !self.work.is_empty() => match end {
                    Err(error) if error.is_panic() => break Err(DriverError::Panicked(error)),
                    Ok(()) | Err(_) => continue,
                },
            };
            if let Err(error) = self.take(turn) {
                break Err(error);
            }
        };
        drop(inbox);
        self.work.abort_all();
        let disk = self.disk;
        if tokio::task::spawn_blocking(move || disk.finish())
            .await
            .is_err()
        {
            tracing::error!("the threads of the disk did not end");
        }
        result
    }

    /// The tasks that run as long as the loop.
    fn start_tasks(&mut self, tasks: &mut Tasks) {
        if let Some(listener) = self.listener.take() {
            let accepting = accept(listener, Arc::clone(&self.shared));
            tasks.spawn("listener of replicas", async move {
                accepting.await;
                Ok::<(), io::Error>(())
            });
        }
        if let Some(lease) = self.lease.clone() {
            let answers = self.answers.clone();
            tasks.spawn("watch of the Lease", async move {
                let take = |seen| {
                    // The watch only saves time: without room its event is left out.
                    answers
                        .try_send(Event::Lease(LeaseEvent::Watched(seen)))
                        .ok();
                };
                lease.follow(take).await;
                Ok::<(), io::Error>(())
            });
        }
    }

    /// Takes what came.
    fn take(&mut self, turn: Turn) -> Result<(), DriverError> {
        match turn {
            Turn::Event(event) => self.step(event),
            Turn::Disk(DiskAnswer::Event(event)) => self.step(event),
            Turn::Disk(DiskAnswer::Unread(link)) => self.lose(link),
            Turn::Disk(DiskAnswer::Lost(error)) => return Err(DriverError::Disk(error)),
            Turn::Link(event) => self.take_link_event(event),
            Turn::Input(input) => self.take_input(input),
        }
        while let Some(event) = self.follow_ups.pop_front() {
            self.step(event);
        }
        self.retry_permits();
        if self.replica.has_left() {
            for leaver in self.leavers.drain(..) {
                // It may have given up.
                leaver.send(()).ok();
            }
        }
        Ok(())
    }

    /// Gives the replica an event, and carries out what it wants.
    fn step(&mut self, event: Event) {
        let is_tick = event == Event::Tick;
        let now = self.clocks.now();
        for action in self.replica.step(event, now) {
            self.act(action);
        }
        if is_tick {
            self.status.send_replace(self.replica.status(now.boot));
        }
    }

    /// Takes what a link says. After [`Action::Close`] nothing of the link is taken any more.
    fn take_link_event(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Accepted(link, handle) => {
                self.links.insert(link, handle);
            }
            LinkEvent::Connected(attempt, link, handle) => {
                if self.attempt.take_if(|it| it.0 == attempt).is_some() {
                    self.links.insert(link, handle);
                    self.step(Event::Connected(link));
                }
            }
            LinkEvent::Failed(attempt) => {
                if self.attempt.take_if(|it| it.0 == attempt).is_some() {
                    self.step(Event::Closed(None));
                }
            }
            LinkEvent::Frame(link, frame) => {
                if self.links.contains_key(&link) {
                    self.step(Event::Frame(link, frame));
                }
            }
            LinkEvent::Closed(link) => {
                if self.unlink(link).is_some() {
                    self.step(Event::Closed(Some(link)));
                }
            }
            LinkEvent::Question(epoch, ceiling, reply) => {
                self.questions.retain(|_, it| !it.is_closed());
                self.last_question += 1;
                self.questions.insert(self.last_question, reply);
                self.step(Event::Greeting(self.last_question, epoch, ceiling));
            }
        }
    }

    /// Takes what the program says.
    fn take_input(&mut self, input: Input) {
        match input {
            Input::Event(event) => self.step(event),
            Input::Permit(asking) => {
                // Only the last one that asks for a zone is answered.
                self.permits.retain(|it| it.zone != asking.zone);
                self.permits.push(asking);
                self.retry_permits();
                if !self.permits.is_empty() {
                    // The ceiling is raised by the next step.
                    self.step(Event::Tick);
                }
            }
            Input::Leave(reply) => {
                self.leavers.push(reply);
                self.step(Event::Leave);
            }
        }
    }

    /// Asks again for the permits that wait.
    fn retry_permits(&mut self) {
        if self.permits.is_empty() {
            return;
        }
        let now = self.clocks.now();
        for asking in std::mem::take(&mut self.permits) {
            let permit = self.replica.permit_from(&asking.zone, asking.least, now);
            let result = match permit {
                Ok(permit) => Ok(permit),
                Err(Wait::NotLeading) => Err(Refused::NotLeading),
                Err(Wait::Store) => Err(Refused::Store),
                Err(Wait::Unannounced | Wait::Ceiling) => {
                    self.permits.push(asking);
                    continue;
                }
            };
            // The writer may have ended. A permit that is not used costs a serial.
            asking.reply.send(result).ok();
        }
    }

    /// Carries out an action.
    fn act(&mut self, action: Action) {
        match action {
            Action::Lease(id, call) => self.call(id, call),
            Action::Connect(address) => self.connect(address),
            Action::Close(link) => drop(self.unlink(link)),
            Action::Send(link, frame) => self.send(link, frame),
            Action::Order(order) => self.disk.order(order),
            Action::Fetch(fetch) => self.disk.fetch(fetch),
            Action::Show(zone, tip) => {
                self.host.show(&zone, &tip);
                self.disk.mark(zone, tip);
            }
            Action::Notify(zone, serial) => self.host.notify(&zone, serial),
            Action::Greet(token, epoch, ceiling) => self.greet(token, epoch, ceiling),
            Action::Answer(token, knowledge) => {
                if let Some(reply) = self.questions.remove(&token) {
                    // The other side may be gone.
                    reply.send(knowledge).ok();
                }
            }
            Action::Prove(epoch) => self.host.prove(epoch),
            Action::Lead {
                epoch,
                must_publish,
            } => {
                tracing::info!(%epoch, must_publish, "this replica leads");
                self.host.lead(epoch, must_publish);
            }
            Action::Declined(zone) => self.host.declined(&zone),
            Action::Stop(loss) => {
                tracing::info!(?loss, "this replica does not lead any more");
                self.host.stop(loss);
            }
        }
    }

    /// Calls the API server.
    fn call(&mut self, id: CallId, call: Call) {
        if let Some(lease) = self.lease.clone() {
            let answers = self.answers.clone();
            self.work.spawn(async move {
                let answer = lease.call(call).await;
                let event = Event::Lease(LeaseEvent::Answered(id, answer));
                // The loop may have ended.
                answers.send(event).await.ok();
            });
        }
    }

    /// Opens a link. An earlier attempt is given up: its link would be taken for this one.
    fn connect(&mut self, address: String) {
        self.last_attempt += 1;
        let dialling = dial(Arc::clone(&self.shared), self.last_attempt, address);
        let task = self.work.spawn(dialling);
        if let Some((_, earlier)) = self.attempt.replace((self.last_attempt, task)) {
            earlier.abort();
        }
    }

    /// Sends a frame. A link that takes none is lost.
    fn send(&mut self, link: LinkId, frame: Frame) {
        let is_sent = self.links.get(&link).is_none_or(|it| it.send(frame));
        if !is_sent {
            self.shared.stats.overflown.fetch_add(1, Ordering::Relaxed);
            self.lose(link);
        }
    }

    /// Closes a link and says so to the replica.
    fn lose(&mut self, link: LinkId) {
        if self.unlink(link).is_some() {
            self.follow_ups.push_back(Event::Closed(Some(link)));
        }
    }

    /// Takes a link out. Nothing is read for it any more.
    fn unlink(&mut self, link: LinkId) -> Option<LinkHandle> {
        let handle = self.links.remove(&link);
        if handle.is_some() {
            self.disk.forget(link);
        }
        handle
    }

    /// Asks all other replicas.
    fn greet(&mut self, token: Token, epoch: Epoch, ceiling: Ceiling) {
        let (shared, roster) = (Arc::clone(&self.shared), Arc::clone(&self.roster));
        let (me, address) = (self.replica.id().clone(), self.address.clone());
        let wait = self.settings.greeting_wait;
        let answers = self.answers.clone();
        self.work.spawn(async move {
            let question = Question {
                me: &me,
                address: &address,
                token,
                epoch,
                ceiling: &ceiling,
                wait,
            };
            let event = ask_all(&shared, &*roster, question).await;
            // The loop may have ended.
            answers.send(event).await.ok();
        });
    }
}

impl Inbox {
    /// What comes next; `None` when a thread of the disk has ended.
    async fn next(&mut self) -> Option<Turn> {
        tokio::select! {
            answer = self.disk.next() => answer.map(Turn::Disk),
            _ = self.tick.tick() => Some(Turn::Event(Event::Tick)),
            Some(event) = self.answers.recv() => Some(Turn::Event(event)),
            Some(event) = self.links.recv() => Some(Turn::Link(event)),
            Some(input) = self.inputs.recv() => Some(Turn::Input(input)),
        }
    }
}

#[cfg(test)]
mod tests;

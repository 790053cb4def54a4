//! One replica: takes what happened, gives what is to be done.
//!
//! It joins the parts: the [`Lease`] says who leads, a [`Term`] is what a leader does, the [`Follower`] is what everybody else does,
//! and the [`Store`] is what is durable here.

use dns::{Name, Serial};

use std::collections::{BTreeMap, BTreeSet};

use crate::candidacy::{Candidacy, Intent, View};
use crate::ceiling::Ceiling;
use crate::chain::{Chains, Epoch, ReplicaId, Step, Tip};
use crate::fault::Fault;
use crate::fixed::{Fixed, FixedRole};
use crate::follower::{Follower, FollowerAction, Target};
use crate::frame::{Body, Frame, Hello, LinkId};
use crate::knowledge::{Knowledge, Vow};
use crate::leader::{Fetch, Fetched, LeaderAction};
use crate::lease::{Call, CallId, Lease, LeaseAction, LeaseEvent, Loss, Renewal, Wish};
use crate::promotion::{Greeted, judge};
use crate::record::Record;
use crate::settings::{Boottime, Now, Settings};
use crate::status::{Lag, Renewals, Status};
use crate::store::{Order, Refusal, Store};
use crate::term::{Notice, Permit, Phase, Term, Wait};

/// The number of a question to the other replicas, with which their answers come back.
pub type Token = u64;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Time went by. At least ten times a second.
    Tick,
    /// The Lease was answered or watched.
    Lease(LeaseEvent),
    /// The link that [`Action::Connect`] asked for is open.
    Connected(LinkId),
    /// A link is closed; `None` for one that could not be opened.
    Closed(Option<LinkId>),
    /// A frame came.
    Frame(LinkId, Frame),
    /// The oldest order to the journal was carried out or refused.
    Ordered(Result<(), Refusal>),
    /// The journal was read.
    Fetched(LinkId, Name, Fetched),
    /// The store takes steps again.
    StoreOk,
    /// The own watch works, or does not.
    WatchOk(bool),
    /// Another replica leads in this epoch, above this ceiling; or it asks before it takes a blank Lease, with epoch 0.
    Greeting(Token, Epoch, Ceiling),
    /// The other replicas answered, or did not in time.
    Greeted {
        /// The question.
        token: Token,
        /// Their answers.
        answers: Vec<Knowledge>,
        /// Whether every replica of the installation answered.
        is_complete: bool,
    },
    /// The own watch is as new as the API server was when [`Action::Prove`] asked; with the serials that the secondaries have.
    Proven(Epoch, BTreeMap<Name, Serial>),
    /// The writer made the step for a permit.
    Propose(Step),
    /// The process is about to end.
    Leave,
    /// An operator accepts that announced versions are lost, and wants this replica to lead.
    AcceptLoss,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Call the API server.
    Lease(CallId, Call),
    /// Open a link to a leader.
    Connect(String),
    /// Close a link.
    Close(LinkId),
    /// Send a frame.
    Send(LinkId, Frame),
    /// Order something of the journal.
    Order(Order),
    /// Read the journal for a follower.
    Fetch(Fetch),
    /// Show this version and all before it.
    Show(Name, Tip),
    /// Send NOTIFY for this version.
    Notify(Name, Serial),
    /// Tell every other replica the epoch and the ceiling that the first serials of it are above, ask what it knows, and wait for
    /// [`Settings::greeting_wait`].
    Greet(Token, Epoch, Ceiling),
    /// Answer a replica that asked.
    Answer(Token, Knowledge),
    /// Prove that the own watch is fresh, and ask the secondaries for their serials.
    Prove(Epoch),
    /// Commits are taken from now on, in this epoch.
    Lead {
        /// The epoch.
        epoch: Epoch,
        /// Whether each zone needs a new version, even with the same content.
        must_publish: bool,
    },
    /// A step was declined: it is not in the journal, and its serial is not used.
    Declined(Name),
    /// No commits any more.
    Stop(Loss),
}

/// One replica.
#[derive(Debug)]
pub struct Replica {
    /// Its name.
    me: ReplicaId,
    /// Where its followers connect to.
    address: String,
    /// Times and limits.
    settings: Settings,
    /// The Lease.
    lease: Lease,
    /// What answers for the API server when roles are fixed.
    fixed: Option<Fixed>,
    /// What is durable.
    store: Store,
    /// The link to a leader.
    follower: Follower,
    /// What it does as a leader.
    term: Option<Term>,
    /// When it tries to lead.
    candidacy: Candidacy,
    /// The number of the last question.
    last_token: Token,
    /// Greetings to be answered once their epoch is durable.
    greetings: Vec<(Token, Epoch)>,
    /// Whether the own watch works.
    is_watch_ok: bool,
    /// Whether the process is about to end.
    is_leaving: bool,
    /// Since when it is behind.
    lag: Lag,
    /// The highest ceiling that it has seen.
    ceiling: Ceiling,
    /// Counts.
    renewals: u64,
    /// Terms that began here.
    promotions: u64,
    /// What is to be done.
    out: Vec<Action>,
}

impl Replica {
    /// A replica with what its journal holds. `chains` has an entry for each configured zone.
    #[must_use]
    pub fn new(
        me: ReplicaId,
        address: String,
        chains: Chains,
        vow: Vow,
        settings: Settings,
    ) -> Self {
        Self {
            lease: Lease::new(me.clone(), settings.clone()),
            follower: Follower::new(settings.clone()),
            store: Store::new(chains, vow),
            me,
            address,
            settings,
            fixed: None,
            term: None,
            candidacy: Candidacy::default(),
            last_token: 0,
            greetings: Vec::new(),
            is_watch_ok: true,
            is_leaving: false,
            lag: Lag::default(),
            ceiling: Ceiling::default(),
            renewals: 0,
            promotions: 0,
            out: Vec::new(),
        }
    }

    /// The same without an API server: the role is what the configuration says.
    #[must_use]
    pub fn with_fixed_role(mut self, role: FixedRole) -> Self {
        let knowledge = self.knowledge(false);
        self.fixed = Some(Fixed::new(role, &knowledge));
        self
    }

    /// Takes an event; gives what is to be done, in order.
    pub fn step(&mut self, event: Event, now: Now) -> Vec<Action> {
        let mut lease_event = LeaseEvent::Tick;
        match event {
            Event::Tick => {}
            Event::Lease(event) => lease_event = event,
            Event::Connected(link) => self.connected(link, now.boot),
            Event::Closed(link) => self.closed(link, now.boot),
            Event::Frame(link, frame) => self.take_frame(link, frame, now.boot),
            Event::Ordered(result) => self.settle(result, now.boot),
            Event::Fetched(link, zone, fetched) => self.fetched(link, &zone, fetched, now.boot),
            Event::StoreOk => self.store.is_ok = true,
            Event::WatchOk(is_ok) => self.is_watch_ok = is_ok,
            Event::Greeting(token, epoch, ceiling) => {
                self.greeted_by(token, epoch, &ceiling, now.boot);
            }
            Event::Greeted {
                token,
                answers,
                is_complete,
            } => self.take_answers(token, &answers, is_complete, now),
            Event::Proven(epoch, serials) => self.proven(epoch, &serials),
            Event::Propose(step) => self.propose(step, now.boot),
            Event::Leave => self.leave(now.boot),
            Event::AcceptLoss => self.candidacy.accept_loss(),
        }
        self.step_lease(lease_event, now);
        self.advance(now.boot);
        std::mem::take(&mut self.out)
    }

    /// The right to make the next version of a zone, with its serial.
    ///
    /// # Errors
    /// [`Wait`] says what is missing. After [`Wait::Ceiling`] and [`Wait::Unannounced`] ask again after the next step.
    pub fn permit(&mut self, zone: &Name, now: Now) -> Result<Permit, Wait> {
        self.permit_from(zone, None, now)
    }

    /// The same with a serial of at least `least`: an operator, a secondary or the zone's file asks for it.
    ///
    /// # Errors
    /// As [`Self::permit`].
    pub fn permit_from(
        &mut self,
        zone: &Name,
        least: Option<Serial>,
        now: Now,
    ) -> Result<Permit, Wait> {
        let Some(term) = self.term.as_mut().filter(|it| it.phase == Phase::Open) else {
            return Err(Wait::NotLeading);
        };
        if !self.lease.is_mine(now.boot) {
            return Err(Wait::NotLeading);
        }
        if !self.store.is_ok {
            return Err(Wait::Store);
        }
        let chain = self.store.chains.entry(zone.clone()).or_default();
        if !chain.unannounced().is_empty() || self.store.is_busy(zone) {
            return Err(Wait::Unannounced);
        }
        let previous = *self.store.chains[zone].newest();
        let serial = term.next_serial(zone, &previous, now.wall, &self.settings);
        let serial = least.map_or(serial, |least| serial.later(least));
        let ceiling = self.lease.ceiling();
        let is_covered = ceiling.is_some_and(|it| it.covers(zone, serial));
        if !is_covered && !self.settings.lacks(Fault::Ceiling) {
            term.need(zone, serial);
            return Err(Wait::Ceiling);
        }
        term.permitted.insert(zone.clone(), serial);
        Ok(Permit {
            zone: zone.clone(),
            epoch: term.epoch,
            previous,
            serial,
        })
    }

    /// Whether it was told to leave and holds no Lease any more, nor is about to get one: the process may end.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.is_leaving && self.term.is_none() && !self.lease.is_acquiring()
    }

    /// What is durable of each zone.
    #[must_use]
    pub const fn chains(&self) -> &Chains {
        &self.store.chains
    }

    /// Bytes on the way to followers.
    #[must_use]
    pub fn bytes_on_the_way(&self) -> usize {
        let term = self.term.as_ref();
        term.map_or(0, |it| it.leader.bytes_on_the_way())
    }

    /// Its name.
    #[must_use]
    pub const fn id(&self) -> &ReplicaId {
        &self.me
    }

    /// What it shows of itself.
    #[must_use]
    pub fn status(&self, now: Boottime) -> Status {
        let record = self.lease.record();
        let term = self.term.as_ref();
        let empty = |it: &Record| it.in_sync.iter().cloned().collect();
        Status {
            is_leading: self.is_open() && self.lease.is_mine(now),
            epoch: self.store.vow.epoch,
            holder: record.and_then(|it| it.holder.clone()),
            address: record.map_or_else(String::new, |it| it.address.clone()),
            in_sync: record.map_or_else(Vec::new, empty),
            ceiling: record.map_or_else(Ceiling::default, |it| it.ceiling.clone()),
            lags: term.map_or_else(BTreeMap::new, |it| it.leader.lags(&self.store.chains)),
            bytes_on_the_way: self.bytes_on_the_way(),
            renewals: Renewals {
                written: self.renewals,
                failed: self.lease.failures(),
            },
            refused_frames: self.follower.refused_frames(),
            promotions: self.promotions,
            is_behind: self
                .lag
                .is_proven(self.lease.last_read(), &self.settings, now),
            lacks_eligible: self.lacks_eligible(now),
        }
    }

    /// What it knows.
    fn knowledge(&self, is_leading: bool) -> Knowledge {
        let mut knowledge = self.store.knowledge(&self.me, is_leading);
        // A step that is on its way to the disk has a serial below this.
        knowledge.vow.ceiling.join(&self.ceiling);
        knowledge
    }

    /// Whether commits are taken.
    fn is_open(&self) -> bool {
        self.term.as_ref().is_some_and(|it| it.phase == Phase::Open)
    }

    /// Whether the Lease is free for a lease duration, and nobody took it.
    fn lacks_eligible(&self, now: Boottime) -> bool {
        let since = self.lease.open_since(now).or(self.lease.missing_since());
        let duration = self.settings.lease_duration;
        self.term.is_none() && since.is_some_and(|since| since + duration <= now)
    }

    /// A link to a leader is open: says what is here.
    fn connected(&mut self, link: LinkId, now: Boottime) {
        let zones = self.store.chains.iter();
        let hello = Hello {
            digest: self.settings.digest,
            zones: zones.map(|(zone, it)| (zone.clone(), it.tips())).collect(),
            knowledge: self.knowledge(false),
        };
        let mut out = Vec::new();
        self.follower.open(link, hello, now, &mut out);
        self.follow_up(out);
    }

    /// A link ended.
    fn closed(&mut self, link: Option<LinkId>, now: Boottime) {
        if let (Some(term), Some(link)) = (&mut self.term, link) {
            term.leader.close(link, now);
        }
        self.follower.close(link, now);
    }

    /// Takes a frame, as a leader or as a follower.
    fn take_frame(&mut self, link: LinkId, frame: Frame, now: Boottime) {
        match &frame.body {
            Body::Hello(hello) => {
                let knowledge = hello.knowledge.clone();
                self.greet_follower(link, frame, &knowledge, now);
            }
            Body::Refused(ceiling) => self.outranked(frame.epoch, ceiling, now),
            Body::Stored(..)
            | Body::Staged(..)
            | Body::Shown(..)
            | Body::Alive { .. }
            | Body::Aligned => {
                self.take_as_leader(link, frame, now);
            }
            Body::Continue(..)
            | Body::Part(_)
            | Body::Step(_)
            | Body::Snapshot(_)
            | Body::Align
            | Body::Visible(..)
            | Body::Ping => {
                let mut out = Vec::new();
                self.follower
                    .take(link, frame, &mut self.store, now, &mut out);
                self.follow_up(out);
            }
        }
    }

    /// Takes a follower in, unless it knows more, or this replica does not lead.
    fn greet_follower(&mut self, link: LinkId, frame: Frame, knowledge: &Knowledge, now: Boottime) {
        if let Some(term) = &mut self.term
            && term.is_replicating()
            && !term.has_made()
            && knowledge.is_ahead_of(&term.before)
        {
            term.phase = Phase::Yielding(BTreeSet::from([knowledge.replica.clone()]));
        }
        self.outranked(knowledge.vow.epoch, &knowledge.vow.ceiling, now);
        if self.term.as_ref().is_some_and(Term::is_replicating) {
            self.take_as_leader(link, frame, now);
        } else {
            self.out.push(Action::Close(link));
        }
    }

    /// Takes a follower's frame.
    fn take_as_leader(&mut self, link: LinkId, frame: Frame, now: Boottime) {
        let mut out = Vec::new();
        if let Some(term) = &mut self.term {
            term.leader.take(link, frame, now, &mut out);
        }
        self.lead_up(out);
    }

    /// The journal was read for a follower.
    fn fetched(&mut self, link: LinkId, zone: &Name, fetched: Fetched, now: Boottime) {
        let mut out = Vec::new();
        if let Some(term) = &mut self.term {
            term.leader.take_fetched(link, zone, fetched, now, &mut out);
        }
        self.lead_up(out);
    }

    /// Another replica has seen this epoch and this ceiling: a term of a lower epoch is over. No epoch is taken note of without its ceiling,
    /// because whoever knows the last epoch may be asked which serials were used in it.
    fn outranked(&mut self, epoch: Epoch, ceiling: &Ceiling, now: Boottime) {
        self.ceiling.join(ceiling);
        if self.term.as_ref().is_some_and(|it| it.epoch < epoch) {
            self.give_way(epoch, now);
        }
    }

    /// Ends the term. The next one is above this epoch.
    fn give_way(&mut self, epoch: Epoch, now: Boottime) {
        if !self.settings.lacks(Fault::LowerEpoch) {
            self.lease.surrender();
            self.end_term(Loss::Taken, now);
            self.vow(epoch);
        }
    }

    /// Keeps an epoch before anything follows from it.
    fn vow(&mut self, epoch: Epoch) {
        self.keep(epoch, Epoch(0));
    }

    /// Keeps an epoch and a branch, if they are higher than what is kept. A store that takes nothing is asked again later.
    fn keep(&mut self, epoch: Epoch, branch: Epoch) {
        let next = self.store.next_vow();
        if epoch <= next.epoch && branch <= next.branch || !self.store.is_ok {
            return;
        }
        let mut vow = next.clone();
        vow.epoch = vow.epoch.max(epoch);
        vow.branch = vow.branch.max(branch);
        vow.ceiling.join(&self.ceiling);
        if self.settings.lacks(Fault::EpochInMemory) {
            self.store.vow = vow;
        } else {
            self.order(Order::Keep(vow));
        }
    }

    /// Gives an order to the journal.
    fn order(&mut self, order: Order) {
        self.store.expect(&order, None);
        self.out.push(Action::Order(order));
    }

    /// The oldest order was carried out or refused.
    fn settle(&mut self, result: Result<(), Refusal>, now: Boottime) {
        let Some(pending) = self.store.settle(result) else {
            return;
        };
        if result == Err(Refusal::Store) {
            self.store.is_ok = false;
        }
        let mut out = Vec::new();
        self.follower
            .settle(&pending, result, &mut self.store, now, &mut out);
        self.follow_up(out);
        if result.is_err()
            && let crate::store::Effect::Append(zone, _) = pending.effect
            && pending.link.is_none()
        {
            self.out.push(Action::Declined(zone));
        }
    }

    /// Another replica leads or asks: answers once its epoch is durable here.
    fn greeted_by(&mut self, token: Token, epoch: Epoch, ceiling: &Ceiling, now: Boottime) {
        self.outranked(epoch, ceiling, now);
        self.vow(epoch);
        self.greetings.push((token, epoch));
    }

    /// The other replicas answered.
    fn take_answers(&mut self, token: Token, answers: &[Knowledge], is_complete: bool, now: Now) {
        if token != self.last_token {
            return;
        }
        if self.candidacy.is_asking() {
            let knowledge = self.knowledge(false);
            let (view, candidacy) = self.candidate(&knowledge);
            candidacy.take_answers(&view, answers, is_complete, now);
            return;
        }
        let Some(term) = &mut self.term else {
            return;
        };
        if !matches!(term.phase, Phase::Greeting(_)) {
            return;
        }
        for answer in answers {
            answer.raise(&mut term.floor);
        }
        self.ceiling.join(&term.floor);
        match judge(&term.before, term.epoch, answers) {
            Greeted::Well => self.prove(now.boot),
            Greeted::Behind(better) => term.phase = Phase::Yielding(better),
            Greeted::HigherEpoch(epoch) => self.give_way(epoch, now.boot),
        }
    }

    /// Serves followers and asks for the proof of freshness.
    fn prove(&mut self, now: Boottime) {
        let Some(term) = &mut self.term else {
            return;
        };
        term.phase = Phase::Proving;
        term.leader.begin(now);
        let epoch = term.epoch;
        self.out.push(Action::Prove(epoch));
        // Only now: a term that is given up must not look newer than what it was given up for.
        self.keep(epoch, epoch);
        if self.settings.lacks(Fault::Freshness) {
            self.proven(epoch, &BTreeMap::new());
        }
        if self.settings.lacks(Fault::DropOwn) {
            for (zone, chain) in self.store.chains.clone() {
                self.order(Order::Truncate(zone, *chain.announced()));
            }
        }
    }

    /// The own watch is fresh: commits are taken.
    fn proven(&mut self, epoch: Epoch, serials: &BTreeMap<Name, Serial>) {
        let Some(term) = &mut self.term else {
            return;
        };
        if term.epoch == epoch && term.phase == Phase::Proving {
            for (zone, serial) in serials {
                term.floor.raise(zone, *serial);
                let own = self.store.chains.get(zone);
                let own = own.and_then(|it| it.newest().known_serial());
                // A secondary has a version that is lost: it takes only a later one.
                term.must_publish |= own.is_none_or(|own| serial.is_after(own));
            }
            term.phase = Phase::Open;
            let must_publish = term.must_publish;
            self.out.push(Action::Lead {
                epoch,
                must_publish,
            });
        }
    }

    /// The writer made a version.
    fn propose(&mut self, step: Step, now: Boottime) {
        let zone = &step.zone;
        let is_permitted = self.term.as_ref().is_some_and(|term| {
            term.phase == Phase::Open
                && term.epoch == step.tip.epoch
                && term.permitted.get(zone) == Some(&step.tip.serial)
        });
        let chain = self.store.chains.get(zone);
        let is_next = chain.is_some_and(|it| step.follows(it.newest()));
        if is_permitted && is_next && self.lease.is_mine(now) && !self.store.is_busy(zone) {
            if self.settings.lacks(Fault::VisibleFirst) {
                self.out.push(Action::Show(step.zone.clone(), step.tip));
            }
            self.order(Order::Append(step));
        } else {
            self.out.push(Action::Declined(step.zone));
        }
    }

    /// The process is about to end, or the store does not work: hands over.
    fn leave(&mut self, now: Boottime) {
        self.is_leaving = true;
        self.begin_release(now);
    }

    /// Takes no more commits; the Lease is released when all is announced.
    fn begin_release(&mut self, now: Boottime) {
        if let Some(term) = &mut self.term
            && term.is_replicating()
            && !matches!(term.phase, Phase::Releasing(_))
        {
            term.phase = Phase::Releasing(now + self.settings.silence);
        }
    }

    /// Moves everything that needs no event of its own.
    fn advance(&mut self, now: Boottime) {
        if let Some(record) = self.lease.record() {
            self.lag.look(record, &self.store.chains, now);
            if !self.ceiling.contains(&record.ceiling) {
                self.ceiling.join(&record.ceiling);
            }
        }
        self.answer_greetings();
        self.advance_term(now);
        self.announce(now);
        self.notify(now);
        let mut out = Vec::new();
        if let Some(term) = self.term.as_mut().filter(|it| it.is_replicating()) {
            term.leader.pump(&self.store.chains, now, &mut out);
        }
        self.lead_up(out);
        let target = self.target();
        if let Some(target) = &target {
            self.vow(target.epoch);
        }
        let mut out = Vec::new();
        self.follower.aim(target, &self.store, now, &mut out);
        self.follow_up(out);
    }

    /// Answers greetings whose epoch is durable.
    fn answer_greetings(&mut self) {
        if let Some(epoch) = self.greetings.iter().map(|it| it.1).max() {
            self.vow(epoch);
        }
        let durable = self.store.vow.epoch;
        let due = self
            .greetings
            .extract_if(.., |(_, epoch)| *epoch <= durable);
        let due: Vec<(Token, Epoch)> = due.collect();
        for (token, _) in due {
            // A Lease that it is about to hold may be deleted already: whoever asks has to wait until that is known here.
            let is_leading = self.term.is_some() || self.lease.is_acquiring();
            let knowledge = self.knowledge(is_leading);
            self.out.push(Action::Answer(token, knowledge));
        }
    }

    /// Moves a term to its next phase.
    fn advance_term(&mut self, now: Boottime) {
        let Some(term) = &mut self.term else {
            return;
        };
        match term.phase {
            Phase::Vowing | Phase::Greeting(_) if !self.store.is_ok => {
                let others = self.lease.record().map(|it| it.in_sync.clone());
                let mut others = others.unwrap_or_default();
                others.remove(&self.me);
                if others.is_empty() {
                    self.lease.surrender();
                    self.end_term(Loss::Released, now);
                } else {
                    term.phase = Phase::Yielding(others);
                }
            }
            Phase::Vowing if self.store.vow.epoch >= term.epoch => {
                term.phase = Phase::Greeting(now);
                self.last_token += 1;
                let ceiling = term.floor.clone();
                self.out
                    .push(Action::Greet(self.last_token, term.epoch, ceiling));
            }
            // The edge answers after the wait; this is for an edge that does not.
            Phase::Greeting(since) if since + 2 * self.settings.greeting_wait <= now => {
                self.prove(now);
            }
            Phase::Open | Phase::Proving if !self.store.is_ok => {
                let others = |it: &Record| it.in_sync.len() > 1;
                if self.lease.record().is_some_and(others) {
                    self.begin_release(now);
                }
            }
            Phase::Vowing
            | Phase::Greeting(_)
            | Phase::Proving
            | Phase::Open
            | Phase::Releasing(_)
            | Phase::Yielding(_) => {}
        }
        if self.is_leaving {
            self.begin_release(now);
        }
        if let Some(term) = self.term.as_ref().filter(|it| it.is_replicating()) {
            self.keep(term.epoch, term.epoch);
        }
    }

    /// Announces what every in-sync replica has.
    fn announce(&mut self, now: Boottime) {
        let Some(term) = self.term.as_mut().filter(|it| it.is_replicating()) else {
            return;
        };
        if self.store.vow.branch < term.epoch {
            return;
        }
        let Some(record) = self.lease.record().filter(|_| self.lease.is_mine(now)) else {
            return;
        };
        let mut required = self.lease.required();
        required.remove(&self.me);
        if self.settings.lacks(Fault::SilenceBeforeSwap) {
            required = term.leader.in_sync(&required, &self.store.chains, now);
        }
        if self.settings.lacks(Fault::AckWait) {
            required.clear();
        }
        if record.in_sync.len() < self.settings.min_in_sync {
            return;
        }
        for (zone, chain) in &mut self.store.chains {
            let is_ready = |tip: &&Tip| {
                let ceiling = &record.ceiling;
                let is_covered =
                    ceiling.covers(zone, tip.serial) || self.settings.lacks(Fault::Ceiling);
                is_covered && term.leader.is_stored(zone, tip, &required)
            };
            let ready = chain.unannounced().iter().take_while(is_ready).last();
            if let Some(tip) = ready.copied() {
                chain.announce(&tip);
                self.out.push(Action::Show(zone.clone(), tip));
                term.notices
                    .insert(zone.clone(), Notice { tip, since: now });
            }
        }
    }

    /// Sends NOTIFY for versions that the in-sync followers show, or that waited long enough.
    fn notify(&mut self, now: Boottime) {
        let Some(term) = &mut self.term else {
            return;
        };
        let mut required = self.lease.required();
        required.remove(&self.me);
        let wait = self.settings.notify_wait;
        let leader = &term.leader;
        let out = &mut self.out;
        term.notices.retain(|zone, notice| {
            let is_due =
                notice.since + wait <= now || leader.is_shown(zone, &notice.tip, &required);
            if is_due {
                out.push(Action::Notify(zone.clone(), notice.tip.serial));
            }
            !is_due
        });
    }

    /// The leader to follow.
    fn target(&self) -> Option<Target> {
        if self.term.is_some() || self.is_leaving {
            return None;
        }
        let record = self.lease.record()?;
        if record.holder.is_none() || record.holder.as_ref() == Some(&self.me) {
            return None;
        }
        let learned = self.fixed.as_ref().map(|_| self.follower.heard_epoch());
        let epoch = record.epoch.max(learned.unwrap_or_default());
        let epoch = match self.fixed {
            Some(_) => epoch.max(self.store.vow.epoch),
            None => epoch,
        };
        let is_low = epoch < self.store.vow.epoch && !self.settings.lacks(Fault::LowerEpoch);
        (!is_low).then(|| Target {
            epoch,
            address: record.address.clone(),
        })
    }

    /// Lets the lease take an event, and makes the next call.
    fn step_lease(&mut self, event: LeaseEvent, now: Now) {
        for action in self.lease.take(event, now.boot) {
            self.take_lease_action(action, now.boot);
        }
        if self.lease.is_waiting() {
            return;
        }
        let wish = self.wish(now);
        if wish != Wish::Observe {
            // From the moment in which the Lease may be its own it stores nothing for another leader.
            let mut out = Vec::new();
            self.follower.hang_up(now.boot, &mut out);
            self.follow_up(out);
        }
        let renewal = self.renewal(now);
        let Some((id, call)) = self.lease.call(wish, renewal, now.boot) else {
            return;
        };
        let answer = self.fixed.as_mut().map(|fixed| fixed.answer(call.clone()));
        match answer {
            Some(answer) => self.step_lease(LeaseEvent::Answered(id, answer), now),
            None => self.out.push(Action::Lease(id, call)),
        }
    }

    /// What the holder wants to be written.
    fn renewal(&mut self, now: Now) -> Option<Renewal> {
        let term = self.term.as_mut()?;
        let chains = &self.store.chains;
        let (record, is_urgent) = term.renewal(self.lease.record()?, chains, now);
        if let Phase::Releasing(end) = term.phase {
            let is_announced = chains.values().all(|it| it.unannounced().is_empty());
            if self.store.is_idle() && is_announced || end <= now.boot {
                let record = Term::release(&record, chains);
                let is_urgent = true;
                return Some(Renewal { record, is_urgent });
            }
        }
        Some(Renewal { record, is_urgent })
    }

    /// Takes what the lease says.
    fn take_lease_action(&mut self, action: LeaseAction, now: Boottime) {
        match action {
            LeaseAction::Acquired(record) => self.begin_term(&record, now),
            LeaseAction::Lost(loss) => self.end_term(loss, now),
            LeaseAction::Renewed => {
                self.renewals += 1;
                if let (Some(term), Some(record)) = (&mut self.term, self.lease.record()) {
                    term.renewed(&record.ceiling);
                }
            }
        }
    }

    /// The Lease is held: first the epoch goes to the own disk.
    fn begin_term(&mut self, record: &Record, now: Boottime) {
        self.promotions += 1;
        self.candidacy = Candidacy::default();
        let before = self.knowledge(false);
        self.term = Some(Term::new(record, before, &self.settings, now));
        self.ceiling.join(&record.ceiling);
        self.vow(record.epoch);
    }

    /// The Lease is not held any more.
    fn end_term(&mut self, loss: Loss, now: Boottime) {
        let Some(term) = self.term.take() else {
            return;
        };
        for link in term.leader.links() {
            self.out.push(Action::Close(link));
        }
        let mut out = Vec::new();
        self.follower.hang_up(now, &mut out);
        self.follow_up(out);
        self.out.push(Action::Stop(loss));
    }

    /// What it wants of the Lease when it does not hold it.
    fn wish(&mut self, now: Now) -> Wish {
        let may_bid = self.term.is_none() && !self.is_leaving && self.store.is_ok;
        let only_follows = self.fixed.as_ref().is_some_and(Fixed::only_follows);
        let branch = self.store.vow.branch;
        let is_restored = { self.lease.record() }.is_some_and(|record| branch > record.epoch);
        let is_free = is_restored
            || self.lease.missing_since().is_some()
            || self.lease.open_since(now.boot).is_some();
        if !may_bid || only_follows || !self.store.is_idle() || !is_free {
            return Wish::Observe;
        }
        let knowledge = self.knowledge(false);
        let (view, candidacy) = self.candidate(&knowledge);
        match candidacy.intent(&view, now) {
            Intent::Wish(wish) => wish,
            Intent::Ask => {
                self.last_token += 1;
                let ceiling = Ceiling::default();
                self.out
                    .push(Action::Greet(self.last_token, Epoch(0), ceiling));
                Wish::Observe
            }
        }
    }

    /// What this replica looks at as a candidate.
    fn candidate<'a>(&'a mut self, knowledge: &'a Knowledge) -> (View<'a>, &'a mut Candidacy) {
        let view = View {
            lease: &self.lease,
            knowledge,
            address: &self.address,
            is_watch_ok: self.is_watch_ok,
            settings: &self.settings,
        };
        (view, &mut self.candidacy)
    }

    /// Takes what the follower's side wants.
    fn follow_up(&mut self, actions: Vec<FollowerAction>) {
        self.out.extend(actions.into_iter().map(|it| match it {
            FollowerAction::Connect(address) => Action::Connect(address),
            FollowerAction::Close(link) => Action::Close(link),
            FollowerAction::Send(link, frame) => Action::Send(link, frame),
            FollowerAction::Order(order) => Action::Order(order),
            FollowerAction::Show(zone, tip) => Action::Show(zone, tip),
        }));
    }

    /// Takes what the leader's side wants.
    fn lead_up(&mut self, actions: Vec<LeaderAction>) {
        let epoch = self.term.as_ref().map_or(Epoch(0), |it| it.epoch);
        self.out.extend(actions.into_iter().map(|it| match it {
            LeaderAction::Send(link, body) => Action::Send(link, Frame { epoch, body }),
            LeaderAction::Close(link) => Action::Close(link),
            LeaderAction::Fetch(fetch) => Action::Fetch(fetch),
        }));
    }
}

//! The whole system in one process: machines, network, API server, source and secondaries, and one order of events from one seed.

use dns::Name;
use dns::testing::name;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::ceiling::Ceiling;
use crate::chain::Epoch;
use crate::fault::Fault;
use crate::frame::LinkId;
use crate::knowledge::Knowledge;
use crate::leader::Fetch;
use crate::lease::{Answer, Call, CallId, LeaseEvent};
use crate::record::Seen;
use crate::replica::{Event, Replica, Token};
use crate::tests::api::Api;
use crate::tests::host::{Host, Micros};
use crate::tests::judge::Judge;
use crate::tests::network::{End, Network};
use crate::tests::plan::Plan;
use crate::tests::secondary::Secondary;

/// What is going to happen.
#[derive(Debug)]
pub(super) enum Due {
    /// A process starts.
    Start(End),
    /// A process looks at the clock.
    Tick(End),
    /// The writer of a process looks for changes.
    Write(End),
    /// A call arrives at the API server.
    Call(End, CallId, Call),
    /// Its answer arrives.
    Answer(End, CallId, Answer),
    /// A watch event arrives.
    Watch(End, Seen),
    /// The first frame of a link and direction arrives.
    Deliver(LinkId, usize),
    /// A link that was asked for is open, or cannot be opened.
    Connect(End, usize),
    /// The oldest order of a disk is carried out.
    Disk(End),
    /// A process that stood still learns of something.
    Report(End, Box<Event>),
    /// The journal was read.
    Fetch(End, Fetch),
    /// A question of a replica arrives at another one.
    Question(End, Token, usize, Epoch, Ceiling),
    /// An answer arrives.
    Reply(End, Token, Box<Knowledge>),
    /// The time for answers is over.
    QuestionEnd(End, Token),
    /// The own watches move.
    Watches,
    /// The source changes.
    Change,
    /// A secondary asks.
    Refresh(usize, Option<usize>),
    /// Something happens.
    Mishap,
    /// A process that stood still goes on.
    Resume(usize),
    /// A process dies.
    Kill(End, Micros),
    /// The API server's store is restored.
    Restore,
    /// Mishaps end.
    Heal,
    /// An operator looks whether somebody leads.
    Operator,
}

/// The system.
pub(super) struct World {
    /// What the seed decides at the start.
    pub(super) plan: Plan,
    /// What it decides later.
    pub(super) random: fastrand::Rng,
    /// What decides which calls to the API server arrive long after their end. Few seeds have it, and it is apart, so that the others
    /// have the same history as without it.
    pub(super) late: Option<fastrand::Rng>,
    /// The time.
    pub(super) time: Micros,
    /// What is due, in order.
    queue: BTreeMap<(Micros, u64), Due>,
    /// Things that were put into the queue.
    count: u64,
    /// Machines.
    pub(super) hosts: Vec<Host>,
    /// What is due for a machine that stands still.
    pub(super) parked: Vec<Vec<Due>>,
    /// The network.
    pub(super) network: Network,
    /// The API server.
    pub(super) api: Api,
    /// Until when nobody reaches it.
    pub(super) api_down_until: Micros,
    /// Until when it is slow.
    pub(super) api_slow_until: Micros,
    /// Whether its store was restored and nobody has led since.
    pub(super) is_restored: bool,
    /// Until when the Lease may name a replica that is not in sync, because it was restored.
    pub(super) doubted_until: Micros,
    /// Until when nothing else may happen.
    pub(super) calm_until: Micros,
    /// The state of the source.
    pub(super) source: BTreeMap<Name, u64>,
    /// Its revision.
    pub(super) revision: u64,
    /// Secondaries.
    pub(super) secondaries: Vec<Secondary>,
    /// The judge.
    pub(super) judge: Judge,
    /// Questions on the way: who asked, with which number.
    pub(super) questions: BTreeMap<Token, (End, Token)>,
    /// The number of the last of them.
    pub(super) last_question: Token,
    /// Steps that will be damaged on their way.
    pub(super) damages: u32,
    /// Bytes of the largest step or snapshot.
    pub(super) largest: usize,
    /// Whether mishaps are over.
    pub(super) is_healed: bool,
    /// Whether everything is printed.
    pub(super) is_traced: bool,
}

/// What a run did.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Report {
    /// Events.
    pub(super) events: u64,
    /// Announced versions.
    pub(super) announced: u64,
    /// Epochs.
    pub(super) epochs: u64,
    /// Writes of the Lease.
    pub(super) writes: u64,
    /// Transfers of a difference, and of a whole zone.
    pub(super) transfers: (u64, u64),
}

impl Report {
    /// The sum of two.
    pub(super) const fn plus(&self, other: &Self) -> Self {
        let (one, two) = (self.transfers, other.transfers);
        Self {
            events: self.events + other.events,
            announced: self.announced + other.announced,
            epochs: self.epochs + other.epochs,
            writes: self.writes + other.writes,
            transfers: (one.0 + two.0, one.1 + two.1),
        }
    }
}

/// One seed of so many has calls that arrive late.
const LATE_CALLS: u64 = 8;

/// Time for the system to become equal after the last mishap.
const QUIET: Duration = Duration::from_secs(60);

/// Microseconds of a duration.
pub(super) fn micros(duration: Duration) -> Micros {
    u64::try_from(duration.as_micros()).expect("it is short")
}

impl World {
    /// The system of a seed.
    pub(super) fn new(seed: u64, fault: Option<Fault>, is_traced: bool) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let plan = Plan::new(&mut random, fault);
        let hosts = (0..plan.replicas).map(|index| Host::new(index, &mut random, plan.rates));
        let hosts: Vec<Host> = hosts.collect();
        let zones = (0..plan.zones).map(|it| (name(&format!("z{it}.")), 1));
        let secondaries = (0..plan.secondaries).map(|_| Secondary::default());
        let mut world = Self {
            source: zones.collect(),
            secondaries: secondaries.collect(),
            parked: hosts.iter().map(|_| Vec::new()).collect(),
            hosts,
            plan,
            random,
            late: seed
                .is_multiple_of(LATE_CALLS)
                .then(|| fastrand::Rng::with_seed(!seed)),
            time: 0,
            queue: BTreeMap::new(),
            count: 0,
            network: Network::default(),
            api: Api::default(),
            api_down_until: 0,
            api_slow_until: 0,
            is_restored: false,
            doubted_until: 0,
            calm_until: 0,
            revision: 1,
            judge: Judge::default(),
            questions: BTreeMap::new(),
            last_question: 0,
            damages: 0,
            largest: 0,
            is_healed: false,
            is_traced,
        };
        if world.is_traced {
            println!("{:?}", world.plan);
        }
        for index in 0..world.hosts.len() {
            let delay = world.random.u64(..2_000_000);
            world.after(
                delay,
                Due::Start(End {
                    host: index,
                    life: 0,
                }),
            );
        }
        for index in 0..world.secondaries.len() {
            world.after(0, Due::Refresh(index, None));
        }
        world.after(0, Due::Watches);
        world.after(0, Due::Change);
        world.after(0, Due::Mishap);
        let end = micros(world.plan.end);
        world.after(end, Due::Heal);
        for wait in [20, 28, 36] {
            world.after(end + wait * 1_000_000, Due::Operator);
        }
        world
    }

    /// Runs to the end.
    pub(super) fn run(mut self) -> Result<Report, String> {
        let end = micros(self.plan.end + QUIET);
        let mut events = 0;
        while let Some(((time, _), due)) = self.queue.pop_first() {
            if time > end {
                break;
            }
            self.time = time;
            events += 1;
            self.happen(due);
            if let Some(violation) = &self.judge.violation {
                let seconds = Duration::from_micros(self.time).as_secs_f64();
                return Err(format!("after {seconds:.3} s: {violation}"));
            }
        }
        self.check_equal()?;
        let sum = |of: fn(&Secondary) -> u64| self.secondaries.iter().map(of).sum();
        Ok(Report {
            events,
            announced: self.judge.announced,
            epochs: self.api.lease.as_ref().map_or(0, |it| it.record.epoch.0),
            writes: self.api.writes,
            transfers: (sum(|it| it.incremental), sum(|it| it.full)),
        })
    }

    /// Puts something into the queue.
    pub(super) fn after(&mut self, delay: Micros, due: Due) {
        self.count += 1;
        self.queue.insert((self.time + delay, self.count), due);
    }

    /// Calls on their way to the API server are lost.
    pub(super) fn forget_calls(&mut self) {
        self.queue.retain(|_, due| !matches!(due, Due::Call(..)));
    }

    /// The process that runs on a machine.
    pub(super) fn end_of(&self, host: usize) -> End {
        let life = self.hosts[host].life;
        End { host, life }
    }

    /// Whether a process still runs.
    pub(super) fn runs(&self, end: End) -> bool {
        let host = &self.hosts[end.host];
        host.life == end.life && host.replica.is_some()
    }

    /// Something happens, unless it is for a process that is gone or stands still.
    fn happen(&mut self, due: Due) {
        if let Some(end) = self.process_of(&due) {
            if !self.runs(end) && !matches!(due, Due::Deliver(..)) {
                return;
            }
            if self.hosts[end.host].paused_until > self.time {
                self.parked[end.host].push(due);
                return;
            }
        }
        match due {
            Due::Start(end) => self.start(end),
            Due::Tick(end) => self.tick(end),
            Due::Write(end) => self.write(end),
            Due::Call(end, id, call) => self.call(end, id, call),
            Due::Answer(end, id, answer) => {
                let event = LeaseEvent::Answered(id, answer);
                self.step(end.host, Event::Lease(event));
            }
            Due::Watch(end, seen) => {
                self.step(end.host, Event::Lease(LeaseEvent::Watched(seen)));
            }
            Due::Deliver(link, side) => self.deliver(link, side),
            Due::Connect(end, to) => self.connect(end, to),
            Due::Disk(end) => self.sync(end),
            Due::Report(end, event) => self.step(end.host, *event),
            Due::Fetch(end, fetch) => self.fetch(end, fetch),
            Due::Question(from, token, to, epoch, ceiling) => {
                self.question(from, token, to, epoch, ceiling);
            }
            Due::Reply(end, token, knowledge) => self.reply(end, token, *knowledge),
            Due::QuestionEnd(end, token) => self.end_question(end, token),
            Due::Watches => self.move_watches(),
            Due::Change => self.change(),
            Due::Refresh(secondary, host) => self.refresh(secondary, host),
            Due::Mishap => self.mishap(),
            Due::Resume(host) => self.resume(host),
            Due::Kill(end, rest) => {
                let host = &self.hosts[end.host];
                // The second death of a crash is a mishap, the end of a process that leaves is none.
                let may_die = !self.is_healed || host.is_leaving;
                if host.life == end.life && may_die {
                    self.kill(end.host, rest);
                }
            }
            Due::Restore => self.restore(),
            Due::Heal => {
                self.is_healed = true;
                self.heal();
                for host in &mut self.hosts {
                    host.set_rate(1000, self.time);
                }
            }
            Due::Operator => self.operate(),
        }
    }

    /// The process for which something is.
    fn process_of(&self, due: &Due) -> Option<End> {
        match due {
            Due::Tick(end)
            | Due::Write(end)
            | Due::Answer(end, ..)
            | Due::Watch(end, _)
            | Due::Connect(end, _)
            | Due::Report(end, _)
            | Due::Fetch(end, _)
            | Due::Reply(end, ..)
            | Due::QuestionEnd(end, _) => Some(*end),
            Due::Deliver(link, side) => {
                let link = self.network.links.get(link)?;
                Some(link.ends[1 - side])
            }
            Due::Question(_, _, to, ..) => Some(self.end_of(*to)),
            Due::Start(_)
            | Due::Call(..)
            | Due::Disk(_)
            | Due::Watches
            | Due::Change
            | Due::Refresh(..)
            | Due::Mishap
            | Due::Resume(_)
            | Due::Kill(..)
            | Due::Restore
            | Due::Heal
            | Due::Operator => None,
        }
    }

    /// A process starts: it reads the journal.
    fn start(&mut self, end: End) {
        let host = &mut self.hosts[end.host];
        if host.life != end.life || host.replica.is_some() {
            return;
        }
        let zones: Vec<Name> = self.source.keys().cloned().collect();
        let (chains, vow) = host.disk.open(&zones);
        for (zone, chain) in &chains {
            let announced = *chain.announced();
            if announced.seq > 0 {
                host.visible.insert(zone.clone(), announced);
                self.judge.show(&host.id, zone, &announced, &host.disk);
            }
        }
        let (id, settings) = (host.id.clone(), self.plan.settings.clone());
        let address = end.host.to_string();
        host.replica = Some(Replica::new(id, address, chains, vow, settings));
        if self.is_traced {
            println!(
                "{} {} starts with {:?}",
                self.time, end.host, self.hosts[end.host].disk.folder.vow
            );
        }
        self.after(0, Due::Tick(end));
    }

    /// A process looks at the clock, and tries its store again.
    fn tick(&mut self, end: End) {
        let next = self.hosts[end.host].lasts(100_000);
        self.after(next, Due::Tick(end));
        self.step(end.host, Event::Tick);
        let disk = &mut self.hosts[end.host].disk;
        disk.is_full &= disk.full_until > self.time;
        if !disk.is_full && self.random.u32(..10) == 0 {
            self.step(end.host, Event::StoreOk);
        }
        self.check_memory(end.host);
    }

    /// A slow follower costs a window and one step.
    fn check_memory(&mut self, host: usize) {
        let Some(replica) = &self.hosts[host].replica else {
            return;
        };
        let bytes = replica.bytes_on_the_way();
        // The window, and the largest step or snapshot.
        let most = self.plan.settings.window_bytes + self.largest;
        if bytes > most * (self.plan.replicas - 1) {
            self.judge.blame(format!("{bytes} bytes are on the way"));
        }
    }

    /// All replicas and secondaries have the same, and what the source has.
    fn check_equal(&self) -> Result<(), String> {
        for (zone, fact) in &self.source {
            let first = self.hosts[0].visible.get(zone);
            for host in &self.hosts {
                let tip = host.visible.get(zone);
                let file = host.disk.folder.zones.get(zone);
                let shown = tip.and_then(|tip| {
                    let file = file?;
                    file.versions.iter().rev().find(|it| it.tip == *tip)
                });
                let has = shown.map(|it| it.fact);
                if has != Some(*fact) || tip != first {
                    let lease = &self.api.lease;
                    let roles: Vec<_> = { self.hosts.iter() }
                        .map(|it| (it.id.clone(), it.term, it.lead, it.visible.get(zone)))
                        .collect();
                    return Err(format!(
                        "not equal in the end: {} shows {tip:?} of fact {has:?}, wanted {fact}; \
                         {lease:?} {roles:?}",
                        host.id
                    ));
                }
            }
            for (place, secondary) in self.secondaries.iter().enumerate() {
                let has = secondary.zones.get(zone).map(|it| it.tip);
                if has.as_ref() != first {
                    return Err(format!("secondary {place} has {has:?}, replicas {first:?}"));
                }
            }
        }
        Ok(())
    }
}

//! The edges of a replica in the simulation: they carry out its actions on the models of disk, network and API server.

use dns::Name;

use crate::ceiling::Ceiling;
use crate::chain::Epoch;
use crate::chain::Tip;
use crate::fault::Fault;
use crate::frame::{Body, Frame, LinkId};
use crate::knowledge::Knowledge;
use crate::leader::{Fetch, Fetched};
use crate::lease::{Answer, Call, CallId};
use crate::record::{Record, Seen};
use crate::replica::{Action, Event, Token};
use crate::settings::Settings;
use crate::store::Order;
use crate::tests::content::Stored;
use crate::tests::host::{Micros, Proof, Question};
use crate::tests::network::End;
use crate::tests::world::{Due, World, micros};

/// After a restore a leader needs this long to find out which members of the in-sync set are not in sync: it waits a second for their
/// connections, and then writes.
const DOUBT: Micros = 4_000_000;

/// The longest time that a call needs which arrives late: it is longer than a lease.
const LATE_MOST: Micros = 40_000_000;

impl World {
    /// Gives an event to a process and carries out what it wants.
    pub(super) fn step(&mut self, host: usize, event: Event) {
        let now = self.hosts[host].now(self.time, self.random.u32(..));
        let Some(replica) = &mut self.hosts[host].replica else {
            return;
        };
        if self.is_traced && event != Event::Tick {
            println!("{} {host} <- {event:?}", self.time);
        }
        let actions = replica.step(event, now);
        for action in actions {
            if self.is_traced {
                println!("{} {host} -> {action:?}", self.time);
            }
            self.act(host, action);
        }
    }

    /// Carries out an action.
    fn act(&mut self, host: usize, action: Action) {
        let end = self.end_of(host);
        match action {
            Action::Lease(id, call) => self.send_call(end, id, call),
            Action::Connect(address) => {
                let to = address.parse().expect("an address is a number");
                let delay = self.delay();
                self.after(delay, Due::Connect(end, to));
            }
            Action::Close(link) => self.send(end, link, None),
            Action::Send(link, frame) => {
                let id = self.hosts[host].id.clone();
                if is_answer(&frame.body) {
                    self.judge.answer(&id, frame.epoch);
                }
                if matches!(frame.body, Body::Aligned) {
                    self.judge.align(&id, frame.epoch);
                }
                self.send(end, link, Some(frame));
            }
            Action::Order(order) => self.order(end, order),
            Action::Fetch(fetch) => {
                let delay = self.random.u64(100..2000);
                self.after(delay, Due::Fetch(end, fetch));
            }
            Action::Show(zone, tip) => self.show(host, &zone, &tip),
            Action::Notify(..) => {
                for secondary in 0..self.secondaries.len() {
                    if self.random.u32(..4) > 0 {
                        let delay = self.delay();
                        self.after(delay, Due::Refresh(secondary, Some(host)));
                    }
                }
            }
            Action::Greet(token, epoch, ceiling) => self.ask(end, token, epoch, &ceiling),
            Action::Answer(token, knowledge) => self.give_answer(end, token, knowledge),
            Action::Prove(epoch) => {
                self.hosts[host].term = Some(epoch);
                let revision = None;
                self.hosts[host].proof = Some(Proof { epoch, revision });
            }
            Action::Lead {
                epoch,
                must_publish,
            } => {
                let zones = self.source.keys().filter(|_| must_publish).cloned();
                let machine = &mut self.hosts[host];
                machine.lead = Some(epoch);
                machine.must = zones.collect();
                self.judge.lead(&machine.id.clone(), epoch);
                self.after(1000, Due::Write(end));
            }
            Action::Declined(_) => {}
            Action::Stop(_) => {
                let machine = &mut self.hosts[host];
                (machine.term, machine.lead) = (None, None);
                machine.must.clear();
                machine.proof = None;
                if machine.is_leaving {
                    let rest = self.random.u64(100_000..3_000_000);
                    self.after(0, Due::Kill(end, rest));
                }
            }
        }
    }

    /// How long a message needs.
    pub(super) fn delay(&mut self) -> Micros {
        match self.random.u32(..100) {
            0 => self.random.u64(10_000..500_000),
            _ => self.random.u64(100..2000),
        }
    }

    /// Sends a frame, or closes a link.
    pub(super) fn send(&mut self, end: End, link: LinkId, frame: Option<Frame>) {
        if let Some(side) = self.network.send(end, link, frame) {
            let delay = self.delay();
            self.after(delay, Due::Deliver(link, side));
        }
        self.network.tidy(link);
    }

    /// The first frame of a link arrives, if it gets through.
    pub(super) fn deliver(&mut self, id: LinkId, side: usize) {
        let Some(link) = self.network.links.get_mut(&id) else {
            return;
        };
        let (from, to) = (link.ends[side], link.ends[1 - side]);
        if self.network.is_blocked(from.host, to.host, self.time) {
            // TCP tries again.
            self.after(50_000, Due::Deliver(id, side));
            return;
        }
        let Some(link) = self.network.links.get_mut(&id) else {
            return;
        };
        let Some(frame) = link.queues[side].pop_front() else {
            return;
        };
        let is_open = std::mem::replace(&mut link.is_open[1 - side], true);
        link.is_open[1 - side] = is_open && frame.is_some();
        if !self.runs(to) {
            // Nobody is there: the sender learns that.
            self.network.cut(id, &mut self.random);
            self.after(1000, Due::Deliver(id, 1 - side));
            return;
        }
        if !is_open {
            self.network.tidy(id);
            return;
        }
        let event = match frame {
            Some(frame) => Event::Frame(id, self.damaged(frame)),
            None => Event::Closed(Some(id)),
        };
        self.step(to.host, event);
        self.network.tidy(id);
    }

    /// A frame, perhaps damaged.
    fn damaged(&mut self, mut frame: Frame) -> Frame {
        if let Body::Step(step) = &mut frame.body
            && self.damages > 0
        {
            self.damages -= 1;
            let mut payload = step.payload.to_vec();
            payload[0] ^= 1;
            step.payload = payload.into();
        }
        frame
    }

    /// A follower connects.
    pub(super) fn connect(&mut self, end: End, to: usize) {
        let leader = self.end_of(to);
        let time = self.time;
        let blocked = |from, to| self.network.is_blocked(from, to, time);
        let is_reached = to < self.hosts.len() && !blocked(end.host, to) && !blocked(to, end.host);
        if is_reached && self.runs(leader) {
            let link = self.network.open(end, leader);
            self.step(end.host, Event::Connected(link));
        } else {
            self.step(end.host, Event::Closed(None));
        }
    }

    /// Gives an order to the journal.
    fn order(&mut self, end: End, order: Order) {
        if let (Order::Append(step), Some(epoch)) = (&order, self.hosts[end.host].lead) {
            self.judge.make(&step.zone, &step.tip);
            let ceiling = self.api.ceilings.get(&epoch);
            if !ceiling.is_some_and(|it| it.covers(&step.zone, step.tip.serial)) {
                let text = format!("{:?} is above the ceiling of epoch {epoch}", step.tip);
                self.judge.blame(text);
            }
        }
        let is_first = self.hosts[end.host].disk.pending.is_empty();
        self.hosts[end.host].disk.pending.push_back(order);
        if is_first {
            let delay = self.sync_time(end.host);
            self.after(delay, Due::Disk(end));
        }
    }

    /// How long a sync takes.
    fn sync_time(&mut self, host: usize) -> Micros {
        if self.hosts[host].slow_until > self.time {
            return self.random.u64(50_000..3_000_000);
        }
        self.random.u64(200..3000)
    }

    /// The oldest order of a disk is durable, or is refused.
    pub(super) fn sync(&mut self, end: End) {
        let host = &mut self.hosts[end.host];
        if host.life != end.life || host.disk.pending.is_empty() {
            return;
        }
        if std::mem::take(&mut host.disk.fails) {
            // After a sync that failed nothing is known of the disk: the process ends.
            let rest = self.random.u64(100_000..3_000_000);
            self.kill(end.host, rest);
            return;
        }
        match host.disk.carry_out() {
            Ok(result) => {
                if !host.disk.pending.is_empty() {
                    let delay = self.sync_time(end.host);
                    self.after(delay, Due::Disk(end));
                }
                self.report(end, Event::Ordered(result));
            }
            Err(text) => {
                let id = host.id.clone();
                self.judge.blame(format!("{id}: {text}"));
            }
        }
    }

    /// Gives an event to a process, when it does not stand still.
    fn report(&mut self, end: End, event: Event) {
        if self.hosts[end.host].paused_until > self.time {
            self.parked[end.host].push(Due::Report(end, Box::new(event)));
        } else {
            self.step(end.host, event);
        }
    }

    /// The journal was read.
    pub(super) fn fetch(&mut self, end: End, fetch: Fetch) {
        if let Some(fetched) = self.hosts[end.host].disk.fetch(&fetch) {
            let bytes = match &fetched {
                Fetched::Steps { steps, .. } => steps.iter().map(|it| it.payload.len()).max(),
                Fetched::Snapshot(snapshot) => Some(snapshot.payload.len()),
                Fetched::Parts(parts) => parts.iter().map(|it| it.payload.len()).max(),
            };
            self.largest = self.largest.max(bytes.unwrap_or_default());
            let event = Event::Fetched(fetch.link, fetch.zone, fetched);
            self.step(end.host, event);
        }
    }

    /// A version is visible.
    fn show(&mut self, host: usize, zone: &Name, tip: &Tip) {
        let machine = &mut self.hosts[host];
        machine.visible.insert(zone.clone(), *tip);
        self.judge.show(&machine.id, zone, tip, &machine.disk);
        if machine.lead == Some(tip.epoch) {
            machine.must.remove(zone);
        }
        machine.disk.mark(zone, tip);
        if machine.term.is_none() {
            self.judge.follow(&machine.id, zone, tip);
        }
        let (Some(epoch), Some(file)) = (machine.term, machine.disk.folder.zones.get(zone)) else {
            return;
        };
        self.judge.announce(epoch, zone, tip, file);
        self.check_in_sync(Some(epoch));
    }

    /// The Lease's in-sync set has everything; not asked while the Lease is older than the leader.
    fn check_in_sync(&mut self, epoch: Option<Epoch>) {
        let Some(lease) = &self.api.lease else {
            return;
        };
        let is_doubted = self.is_restored || self.doubted_until > self.time;
        if is_doubted || epoch.is_some_and(|epoch| epoch > lease.record.epoch) {
            return;
        }
        let hosts = &self.hosts;
        self.judge.check_in_sync(&lease.record, |id| {
            { hosts.iter() }
                .find(|host| host.id == *id)
                .map(|host| &host.disk)
        });
    }

    /// Whether a machine does not reach the API server.
    pub(super) fn is_cut(&self, host: usize) -> bool {
        self.hosts[host].cut_until > self.time || self.api_down_until > self.time
    }

    /// How long a call to the API server is on its way, one way.
    fn call_time(&mut self) -> Micros {
        if self.api_slow_until > self.time {
            self.random.u64(1000..4_000_000)
        } else {
            self.random.u64(500..10_000)
        }
    }

    /// Sends a call to the API server. It may be lost, or only its answer is.
    fn send_call(&mut self, end: End, id: CallId, call: Call) {
        if self.is_cut(end.host) && self.random.bool() {
            return;
        }
        let delay = self.call_time() + self.late_time();
        self.after(delay, Due::Call(end, id, call));
    }

    /// How much later a call arrives: the kernel sends it until it gets through, also when the process has given it up or is gone.
    fn late_time(&mut self) -> Micros {
        let Some(late) = &mut self.late else {
            return 0;
        };
        // After a restore resource versions come again: a write that is late until its own one does is accepted.
        let is_late = late.u32(..4) == 0 && !self.is_healed && !self.is_restored;
        if is_late { late.u64(..LATE_MOST) } else { 0 }
    }

    /// A call arrives at the API server, also that of a process that is gone.
    pub(super) fn call(&mut self, end: End, id: CallId, call: Call) {
        let before = self.api.lease.clone();
        let answer = self.api.answer(call, &mut self.random);
        if let Answer::Written(seen) = &answer {
            self.written(end, before.as_ref(), &seen.record);
            self.spread(&seen.clone());
        }
        let delay = self.call_time();
        if !self.is_cut(end.host) {
            self.after(delay, Due::Answer(end, id, answer));
        }
    }

    /// The Lease was written.
    fn written(&mut self, end: End, before: Option<&Seen>, record: &Record) {
        let host = &self.hosts[end.host];
        if let Some(before) = before.filter(|it| it.record.epoch > record.epoch)
            && !self.is_restored
        {
            let text = format!("epoch {} overwrites {}", record.epoch, before.record.epoch);
            self.judge.blame(text);
        }
        let is_new = before.is_none_or(|it| it.record.epoch != record.epoch);
        let holder = record.holder.as_ref();
        if is_new && let Some(holder) = holder {
            let branch = host.disk.folder.vow.branch;
            let before = before.filter(|it| !it.record.is_blank());
            let is_loss = before.map_or(record.must_publish, |before| {
                let is_member = before.record.in_sync.contains(holder);
                record.must_publish && !is_member && branch <= before.record.epoch
            });
            self.judge.take_over(record, is_loss);
        }
        if host.term == Some(record.epoch) && host.life == end.life {
            if std::mem::take(&mut self.is_restored) {
                self.doubted_until = self.time + DOUBT;
            }
            self.check_in_sync(None);
        }
    }

    /// The watch gives the Lease to everybody that it reaches.
    fn spread(&mut self, seen: &Seen) {
        for host in 0..self.hosts.len() {
            if !self.is_cut(host) && self.random.u32(..10) > 0 {
                let delay = self.call_time();
                let end = self.end_of(host);
                self.after(delay, Due::Watch(end, seen.clone()));
            }
        }
    }

    /// A replica asks all others what they know.
    fn ask(&mut self, end: End, token: Token, epoch: Epoch, ceiling: &Ceiling) {
        let answers = Vec::new();
        self.hosts[end.host].question = Some(Question { token, answers });
        for to in 0..self.hosts.len() {
            if to != end.host && !self.network.is_blocked(end.host, to, self.time) {
                let delay = self.delay();
                self.after(delay, Due::Question(end, token, to, epoch, ceiling.clone()));
            }
        }
        let wait = micros(self.plan.settings.greeting_wait);
        let wait = self.hosts[end.host].lasts(wait);
        self.after(wait, Due::QuestionEnd(end, token));
    }

    /// A question arrives.
    pub(super) fn question(
        &mut self,
        from: End,
        token: Token,
        to: usize,
        epoch: Epoch,
        ceiling: Ceiling,
    ) {
        self.last_question += 1;
        let number = self.last_question;
        self.questions.insert(number, (from, token));
        self.step(to, Event::Greeting(number, epoch, ceiling));
    }

    /// A replica answers a question.
    fn give_answer(&mut self, end: End, number: Token, knowledge: Knowledge) {
        self.judge.answer(&knowledge.replica, knowledge.vow.epoch);
        let Some((asker, token)) = self.questions.remove(&number) else {
            return;
        };
        if !self.network.is_blocked(end.host, asker.host, self.time) {
            let delay = self.delay();
            self.after(delay, Due::Reply(asker, token, Box::new(knowledge)));
        }
    }

    /// An answer arrives.
    pub(super) fn reply(&mut self, end: End, token: Token, knowledge: Knowledge) {
        let others = self.hosts.len() - 1;
        let Some(question) = &mut self.hosts[end.host].question else {
            return;
        };
        if question.token == token {
            question.answers.push(knowledge);
            if question.answers.len() == others {
                self.end_question(end, token);
            }
        }
    }

    /// The time for answers is over, or all are there.
    pub(super) fn end_question(&mut self, end: End, token: Token) {
        let others = self.hosts.len() - 1;
        let host = &mut self.hosts[end.host];
        if let Some(question) = host.question.take_if(|it| it.token == token) {
            let is_complete = question.answers.len() == others;
            let answers = question.answers;
            self.step(
                end.host,
                Event::Greeted {
                    token,
                    answers,
                    is_complete,
                },
            );
        }
    }

    /// The writer makes versions of what its watch says.
    pub(super) fn write(&mut self, end: End) {
        if self.hosts[end.host].lead.is_none() {
            return;
        }
        self.after(20_000, Due::Write(end));
        let zones: Vec<Name> = self.source.keys().cloned().collect();
        for zone in zones {
            let now = self.hosts[end.host].now(self.time, 0);
            let host = &mut self.hosts[end.host];
            let Some(fact) = host.facts.get(&zone).copied() else {
                continue;
            };
            let file = host.disk.folder.zones.get(&zone);
            let newest = file.and_then(|it| it.versions.last());
            let is_new = newest.is_none_or(|it| it.fact != fact) || host.must.contains(&zone);
            let Some(replica) = host.replica.as_mut().filter(|_| is_new) else {
                continue;
            };
            if let Ok(permit) = replica.permit(&zone, now) {
                let version = Stored::after(&permit.previous, permit.epoch, permit.serial, fact);
                self.step(end.host, Event::Propose(version.step(&zone)));
            }
        }
    }

    /// Own watches move to the state of the source; proofs of freshness are given.
    pub(super) fn move_watches(&mut self) {
        self.after(50_000, Due::Watches);
        let serials = self.secondary_serials();
        for index in 0..self.hosts.len() {
            let is_cut = self.is_cut(index);
            let (time, revision) = (self.time, self.revision);
            let host = &mut self.hosts[index];
            if host.paused_until > time || host.replica.is_none() || is_cut {
                continue;
            }
            let target = match &mut host.proof {
                Some(proof) => *proof.revision.get_or_insert(revision),
                None => u64::MAX,
            };
            if host.stale_until <= time {
                host.revision = revision;
                host.facts = self.source.clone();
            }
            if host.revision >= target
                && let Some(proof) = host.proof.take()
            {
                self.step(index, Event::Proven(proof.epoch, serials.clone()));
            }
        }
    }

    /// Times and limits.
    pub(super) fn settings(&self) -> &Settings {
        &self.plan.settings
    }

    /// Whether a fault is planted.
    pub(super) fn lacks(&self, fault: Fault) -> bool {
        self.settings().lacks(fault)
    }
}

/// Whether a frame is a follower's answer for an epoch.
fn is_answer(body: &Body) -> bool {
    match body {
        Body::Hello(_)
        | Body::Stored(..)
        | Body::Staged(..)
        | Body::Shown(..)
        | Body::Alive { .. }
        | Body::Aligned => true,
        Body::Refused(_)
        | Body::Continue(..)
        | Body::Part(_)
        | Body::Step(_)
        | Body::Snapshot(_)
        | Body::Align
        | Body::Visible(..)
        | Body::Ping => false,
    }
}

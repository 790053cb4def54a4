//! The leader's side of replication: which follower has what, who is late, who may join the in-sync set.
//!
//! Steps are read from the journal when there is room on the way to a follower, one read at a time for each follower. New steps
//! and old ones take the same path, so a slow follower costs at most a window and one read of memory.

use dns::Name;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::chain::{Chain, Chains, Epoch, Part, ReplicaId, Snapshot, Step, Tip};
use crate::fault::Fault;
use crate::frame::{Body, Frame, Hello, LinkId};
use crate::settings::{Boottime, Settings};

/// A read of the journal for a follower.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    /// The follower's link, which comes back with the answer.
    pub link: LinkId,
    /// The zone.
    pub zone: Name,
    /// Versions that the follower has, the oldest first: the answer continues from the last one that is in the journal.
    pub known: Vec<Tip>,
    /// How many parts of the next step or snapshot were sent: the answer continues with the part of this number, or begins
    /// again with 0.
    pub parts: u32,
    /// Bytes of steps or parts that are wanted; at least one step or part is.
    pub max_bytes: usize,
}

/// What the journal gave for a [`Fetch`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetched {
    /// Steps in order, from a version that the follower has.
    Steps {
        /// The version.
        from: Tip,
        /// The steps.
        steps: Vec<Step>,
    },
    /// Some parts of the next step or snapshot, in order. The rest is read with the next [`Fetch`].
    Parts(Vec<Part>),
    /// No version of the follower is in the journal: the zone at the oldest version from which the journal has all steps,
    /// announced or not.
    Snapshot(Snapshot),
}

/// What the leader's side wants to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaderAction {
    /// Send this on a link.
    Send(LinkId, Body),
    /// Close a link.
    Close(LinkId),
    /// Read the journal.
    Fetch(Fetch),
}

/// A zone of a follower.
#[derive(Debug, Default)]
struct Progress {
    /// What it said that it has, until the journal has found where to continue.
    known: Vec<Tip>,
    /// Whether it was said where to continue.
    is_continued: bool,
    /// How many parts of the next step or snapshot were sent.
    parts: u32,
    /// The newest version that was sent, or that it had.
    sent: Option<Tip>,
    /// The newest version that it stored.
    stored: Option<Tip>,
    /// The version that it was last said to show.
    visible: Option<Tip>,
    /// The version that it last showed.
    shown: Option<Tip>,
}

/// A payload that is not acknowledged.
#[derive(Debug)]
struct OnTheWay {
    /// The zone.
    zone: Name,
    /// The place in the chain that it leads to.
    seq: u64,
    /// The number of the part; `None` for a step or snapshot.
    part: Option<u32>,
    /// Its bytes.
    bytes: usize,
}

/// A follower.
#[derive(Debug)]
struct Peer {
    /// Its name.
    replica: ReplicaId,
    /// Its zones.
    zones: BTreeMap<Name, Progress>,
    /// What is on the way.
    on_the_way: VecDeque<OnTheWay>,
    /// The zone that is being read.
    fetching: Option<Name>,
    /// When it last said something.
    heard: Boottime,
    /// Since when it owes an acknowledgement.
    owes: Option<Boottime>,
    /// Whether it was said that all zones are there.
    is_align_sent: bool,
    /// Whether it has taken note of that.
    is_aligned: bool,
    /// Whether its store takes steps.
    is_store_ok: bool,
    /// When it was last pinged.
    pinged: Boottime,
}

/// The followers of one term.
#[derive(Debug)]
pub struct Leader {
    /// The epoch.
    epoch: Epoch,
    /// Times and limits.
    settings: Settings,
    /// Followers by link.
    peers: BTreeMap<LinkId, Peer>,
    /// When a replica without a link was last connected, or when the term began.
    absent: BTreeMap<ReplicaId, Boottime>,
    /// When a replica left the in-sync set.
    left: BTreeMap<ReplicaId, Boottime>,
    /// When the term began.
    start: Boottime,
}

impl Leader {
    /// No followers yet.
    #[must_use]
    pub const fn new(epoch: Epoch, settings: Settings, now: Boottime) -> Self {
        Self {
            epoch,
            settings,
            peers: BTreeMap::new(),
            absent: BTreeMap::new(),
            left: BTreeMap::new(),
            start: now,
        }
    }

    /// Followers are taken from now on.
    pub const fn begin(&mut self, now: Boottime) {
        self.start = now;
    }

    /// The links that are open.
    pub fn links(&self) -> impl Iterator<Item = LinkId> {
        self.peers.keys().copied()
    }

    /// A link ended.
    pub fn close(&mut self, link: LinkId, now: Boottime) {
        if let Some(peer) = self.peers.remove(&link) {
            self.absent.insert(peer.replica, now);
        }
    }

    /// Takes a follower's frame.
    pub fn take(&mut self, link: LinkId, frame: Frame, now: Boottime, out: &mut Vec<LeaderAction>) {
        if let Body::Hello(hello) = frame.body {
            self.greet(link, frame.epoch, hello, now, out);
            return;
        }
        let is_current = frame.epoch == self.epoch;
        let Some(peer) = self.peers.get_mut(&link).filter(|_| is_current) else {
            return;
        };
        peer.heard = now;
        match frame.body {
            Body::Stored(zone, tip) => peer.take_stored(&zone, tip, now),
            Body::Staged(zone, tip, part) => peer.take_staged(&zone, tip, part, now),
            Body::Shown(zone, tip) => peer.zones.entry(zone).or_default().shown = Some(tip),
            Body::Alive { is_store_ok } => peer.is_store_ok = is_store_ok,
            Body::Aligned => peer.is_aligned = true,
            Body::Refused(_)
            | Body::Hello(_)
            | Body::Continue(..)
            | Body::Part(_)
            | Body::Step(_)
            | Body::Snapshot(_)
            | Body::Align
            | Body::Visible(..)
            | Body::Ping => {}
        }
    }

    /// Takes a new follower in, unless it is of another installation or another epoch.
    fn greet(
        &mut self,
        link: LinkId,
        epoch: Epoch,
        hello: Hello,
        now: Boottime,
        out: &mut Vec<LeaderAction>,
    ) {
        if epoch < self.epoch {
            // With fixed roles a follower learns the epoch from this.
            out.push(LeaderAction::Send(link, Body::Ping));
        }
        if epoch != self.epoch || hello.digest != self.settings.digest {
            out.push(LeaderAction::Close(link));
            return;
        }
        // A new connection of a replica replaces the old one, which may not have noticed yet that it is dead.
        let is_same = |(_, peer): &(&LinkId, &Peer)| peer.replica == hello.knowledge.replica;
        let old: Vec<LinkId> = { self.peers.iter().filter(is_same) }
            .map(|(link, _)| *link)
            .collect();
        for link in old {
            self.peers.remove(&link);
            out.push(LeaderAction::Close(link));
        }
        let start = |known: Vec<Tip>| Progress {
            known,
            ..Progress::default()
        };
        let zones = hello.zones.into_iter();
        let peer = Peer {
            replica: hello.knowledge.replica,
            zones: zones.map(|(zone, known)| (zone, start(known))).collect(),
            on_the_way: VecDeque::new(),
            fetching: None,
            heard: now,
            owes: None,
            is_align_sent: false,
            is_aligned: false,
            is_store_ok: true,
            pinged: now,
        };
        self.peers.insert(link, peer);
    }

    /// Takes what the journal gave.
    pub fn take_fetched(
        &mut self,
        link: LinkId,
        zone: &Name,
        fetched: Fetched,
        now: Boottime,
        out: &mut Vec<LeaderAction>,
    ) {
        let Some(peer) = self.peers.get_mut(&link) else {
            return;
        };
        if peer.fetching.as_ref() != Some(zone) {
            return;
        }
        peer.fetching = None;
        if let Fetched::Parts(parts) = fetched {
            let parts = parts.into_iter().map(|part| (part.tip, Body::Part(part)));
            peer.send(link, zone, parts.collect(), now, out);
            return;
        }
        let mut bodies = Vec::new();
        let progress = peer.zones.entry(zone.clone()).or_default();
        match fetched {
            Fetched::Steps { from, steps } => {
                if !progress.is_continued {
                    bodies.push((from, Body::Continue(zone.clone(), from)));
                    progress.stored = Some(from);
                }
                progress.sent.get_or_insert(from);
                bodies.extend(steps.into_iter().map(|it| (it.tip, Body::Step(it))));
            }
            Fetched::Snapshot(snapshot) => {
                progress.stored = None;
                bodies.push((snapshot.tip, Body::Snapshot(snapshot)));
            }
            Fetched::Parts(_) => {}
        }
        progress.is_continued = true;
        progress.known = Vec::new();
        progress.parts = 0;
        progress.sent = bodies.last().map(|(tip, _)| *tip).or(progress.sent);
        peer.send(link, zone, bodies, now, out);
    }

    /// Sends what there is room for, asks for more, and pings.
    pub fn pump(&mut self, chains: &Chains, now: Boottime, out: &mut Vec<LeaderAction>) {
        for (link, peer) in &mut self.peers {
            for zone in chains.keys() {
                peer.zones.entry(zone.clone()).or_default();
            }
            peer.fetch(*link, chains, &self.settings, out);
            peer.show(*link, chains, out);
            if peer.pinged + self.settings.heartbeat <= now {
                peer.pinged = now;
                out.push(LeaderAction::Send(*link, Body::Ping));
            }
        }
    }

    /// Whether all of these replicas have stored a version of a zone.
    #[must_use]
    pub fn is_stored(&self, zone: &Name, tip: &Tip, replicas: &BTreeSet<ReplicaId>) -> bool {
        let has = |replica: &ReplicaId| {
            let peer = self.peer(replica);
            peer.is_some_and(|peer| peer.has_stored(zone, tip))
        };
        replicas.iter().all(has)
    }

    /// Whether all of these replicas show a version of a zone.
    #[must_use]
    pub fn is_shown(&self, zone: &Name, tip: &Tip, replicas: &BTreeSet<ReplicaId>) -> bool {
        let shows = |replica: &ReplicaId| {
            let zone = self.peer(replica).and_then(|peer| peer.zones.get(zone));
            zone.and_then(|it| it.shown)
                .is_some_and(|shown| shown.seq >= tip.seq)
        };
        replicas.iter().all(shows)
    }

    /// The in-sync set that the Lease should have beside the leader: members that are not late, and followers that have everything.
    pub fn in_sync(
        &mut self,
        members: &BTreeSet<ReplicaId>,
        chains: &Chains,
        now: Boottime,
    ) -> BTreeSet<ReplicaId> {
        let settings = &self.settings;
        let silence = settings.silence;
        let mut set = BTreeSet::new();
        for member in members {
            let is_late = match self.peer(member) {
                // A member that lacks something has an old copy of its disk, or the Lease is an old one.
                Some(peer) => {
                    peer.is_late(silence, now) || peer.is_aligned && !peer.has_all(chains)
                }
                None => self.absent_since(member) + silence <= now,
            };
            if is_late {
                self.left.insert(member.clone(), now);
            } else {
                set.insert(member.clone());
            }
        }
        let settings = &self.settings;
        for peer in self.peers.values() {
            let rejoins = { self.left.get(&peer.replica) }
                .is_none_or(|left| *left + settings.rejoin_wait <= now);
            let has_all = peer.has_all(chains) || settings.lacks(Fault::EarlyJoin);
            // The leader is a member, too.
            let has_room = set.len() + 1 < settings.max_in_sync;
            if rejoins && has_all && has_room && !peer.is_late(silence, now) {
                set.insert(peer.replica.clone());
            }
        }
        set
    }

    /// How many versions each follower lacks, over all zones.
    #[must_use]
    pub fn lags(&self, chains: &Chains) -> BTreeMap<ReplicaId, u64> {
        let lag = |peer: &Peer| {
            let lacks = |(zone, chain): (&Name, &Chain)| {
                let stored = peer.zones.get(zone).and_then(|it| it.stored);
                let stored = stored.map_or(0, |tip| tip.seq);
                chain.newest().seq.saturating_sub(stored)
            };
            chains.iter().map(lacks).sum()
        };
        let peers = self.peers.values();
        peers
            .map(|peer| (peer.replica.clone(), lag(peer)))
            .collect()
    }

    /// Bytes on the way to followers.
    #[must_use]
    pub fn bytes_on_the_way(&self) -> usize {
        self.peers.values().map(Peer::bytes).sum()
    }

    /// The follower with this name.
    fn peer(&self, replica: &ReplicaId) -> Option<&Peer> {
        self.peers.values().find(|peer| peer.replica == *replica)
    }

    /// Since when a replica is not connected.
    fn absent_since(&self, replica: &ReplicaId) -> Boottime {
        self.absent.get(replica).copied().unwrap_or(self.start)
    }
}

impl Peer {
    /// Sends what was read of a zone.
    fn send(
        &mut self,
        link: LinkId,
        zone: &Name,
        bodies: Vec<(Tip, Body)>,
        now: Boottime,
        out: &mut Vec<LeaderAction>,
    ) {
        for (tip, body) in bodies {
            let mut number = None;
            if let Body::Part(part) = &body {
                number = Some(part.number);
                self.zones.entry(zone.clone()).or_default().parts = part.number + 1;
            }
            if !matches!(body, Body::Continue(..)) {
                self.on_the_way.push_back(OnTheWay {
                    zone: zone.clone(),
                    seq: tip.seq,
                    part: number,
                    bytes: body.payload_bytes(),
                });
                self.owes.get_or_insert(now);
            }
            out.push(LeaderAction::Send(link, body));
        }
    }

    /// Takes the acknowledgement of parts.
    fn take_staged(&mut self, zone: &Name, tip: Tip, part: u32, now: Boottime) {
        let is_there = |it: &OnTheWay| {
            it.zone == *zone && it.seq == tip.seq && it.part.is_some_and(|own| own <= part)
        };
        self.on_the_way.retain(|it| !is_there(it));
        self.owes = (!self.on_the_way.is_empty()).then_some(now);
    }

    /// Takes an acknowledgement.
    fn take_stored(&mut self, zone: &Name, tip: Tip, now: Boottime) {
        let Some(progress) = self.zones.get_mut(zone) else {
            return;
        };
        if !progress.is_continued {
            return;
        }
        progress.stored = Some(tip);
        self.on_the_way
            .retain(|it| it.zone != *zone || it.seq > tip.seq);
        self.owes = (!self.on_the_way.is_empty()).then_some(now);
    }

    /// Asks for the next steps of a zone that has some, if there is room.
    fn fetch(
        &mut self,
        link: LinkId,
        chains: &Chains,
        settings: &Settings,
        out: &mut Vec<LeaderAction>,
    ) {
        let room = settings.window_bytes.saturating_sub(self.bytes());
        if self.fetching.is_some() || room == 0 {
            return;
        }
        let lacks = |(zone, chain): &(&Name, &Chain)| {
            let newest = chain.newest();
            let progress = self.zones.get(zone);
            newest.seq > 0
                && progress.is_none_or(|it| !it.is_continued || it.sent.as_ref() != Some(newest))
        };
        if let Some((zone, _)) = chains.iter().find(lacks) {
            let progress = self.zones.get(zone);
            let sent = progress.and_then(|it| it.sent);
            let known = sent.map_or_else(
                || progress.map_or_else(Vec::new, |it| it.known.clone()),
                |sent| vec![sent],
            );
            self.fetching = Some(zone.clone());
            out.push(LeaderAction::Fetch(Fetch {
                link,
                zone: zone.clone(),
                known,
                parts: progress.map_or(0, |it| it.parts),
                max_bytes: room,
            }));
        } else if !self.is_align_sent {
            self.is_align_sent = true;
            out.push(LeaderAction::Send(link, Body::Align));
        }
    }

    /// Says which versions are announced, once the follower has them.
    fn show(&mut self, link: LinkId, chains: &Chains, out: &mut Vec<LeaderAction>) {
        for (zone, chain) in chains {
            let announced = chain.announced();
            let Some(progress) = self.zones.get_mut(zone) else {
                continue;
            };
            let has = progress.stored.is_some_and(|it| it.seq >= announced.seq);
            let news = announced.seq > 0 && progress.visible.as_ref() != Some(announced);
            if has && news {
                progress.visible = Some(*announced);
                out.push(LeaderAction::Send(
                    link,
                    Body::Visible(zone.clone(), *announced),
                ));
            }
        }
    }

    /// Whether it has stored a version, or a later one of the same chain.
    fn has_stored(&self, zone: &Name, tip: &Tip) -> bool {
        let stored = self.zones.get(zone).and_then(|it| it.stored);
        stored.is_some_and(|it| it.seq >= tip.seq)
    }

    /// Whether it has every announced version, and has noted whom it follows.
    fn has_all(&self, chains: &Chains) -> bool {
        let mut zones = chains.iter();
        self.is_aligned
            && zones.all(|(zone, chain)| {
                chain.announced().seq == 0 || self.has_stored(zone, chain.announced())
            })
    }

    /// Whether it was silent, or stored nothing, for too long.
    fn is_late(&self, silence: Boottime, now: Boottime) -> bool {
        let owes = self.owes.is_some_and(|since| since + silence <= now);
        !self.is_store_ok || owes || self.heard + silence <= now
    }

    /// Bytes on the way.
    fn bytes(&self) -> usize {
        self.on_the_way.iter().map(|it| it.bytes).sum()
    }
}

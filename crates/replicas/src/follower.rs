//! The follower's side of replication: whom it follows, which frames it takes, what it acknowledges and when it shows a version.

use dns::Name;

use std::collections::{BTreeMap, BTreeSet};

use crate::chain::{Epoch, Tip};
use crate::fault::Fault;
use crate::frame::{Body, Frame, Hello, LinkId};
use crate::knowledge::Vow;
use crate::settings::{Boottime, Settings};
use crate::store::{Effect, Order, Pending, Refusal, Store};

/// The time before a lost link is tried again, and a tenth of the time after which a link without frames is given up.
const RETRY: Boottime = Boottime::from_millis(200);

/// The leader that a replica follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its epoch.
    pub epoch: Epoch,
    /// Where it listens.
    pub address: String,
}

/// What the follower's side wants to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FollowerAction {
    /// Open a link to this address.
    Connect(String),
    /// Close a link.
    Close(LinkId),
    /// Send this on a link.
    Send(LinkId, Frame),
    /// Give this order to the journal.
    Order(Order),
    /// Show this version: it is announced, and durable here.
    Show(Name, Tip),
}

/// A link to a leader, or the attempt to have one.
#[derive(Debug)]
struct Session {
    /// The leader.
    target: Target,
    /// The link, once it is open.
    link: Option<LinkId>,
    /// Whether Hello was sent.
    is_greeted: bool,
    /// The version of each zone to which the next step belongs.
    heads: BTreeMap<Name, Tip>,
    /// What the leader said to show.
    visible: BTreeMap<Name, Tip>,
    /// When the leader last said something.
    heard: Boottime,
}

/// The follower's side of a replica.
#[derive(Debug)]
pub struct Follower {
    /// Times and limits.
    settings: Settings,
    /// The link to the leader.
    session: Option<Session>,
    /// When a link may be opened.
    retry: Boottime,
    /// Zones whose steps had a wrong hash: they come as a snapshot.
    suspects: BTreeSet<Name>,
    /// Frames of a lower epoch.
    refused: u64,
    /// The highest epoch that a leader named on a link.
    heard_epoch: Epoch,
}

impl Follower {
    /// Follows nobody.
    #[must_use]
    pub const fn new(settings: Settings) -> Self {
        Self {
            settings,
            session: None,
            retry: Boottime::ZERO,
            suspects: BTreeSet::new(),
            refused: 0,
            heard_epoch: Epoch(0),
        }
    }

    /// Frames of a lower epoch that were refused.
    #[must_use]
    pub const fn refused_frames(&self) -> u64 {
        self.refused
    }

    /// The highest epoch that a leader named on a link. Fixed roles learn the epoch from it.
    #[must_use]
    pub const fn heard_epoch(&self) -> Epoch {
        self.heard_epoch
    }

    /// Whether a link to a leader is open and the leader took it.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.session.as_ref().is_some_and(|it| it.is_greeted)
    }

    /// Follows this leader, or nobody.
    pub fn aim(
        &mut self,
        target: Option<Target>,
        store: &Store,
        now: Boottime,
        out: &mut Vec<FollowerAction>,
    ) {
        let is_other = |it: &Session| Some(&it.target) != target.as_ref();
        let is_dead = |it: &Session| it.heard + 10 * RETRY <= now;
        if self
            .session
            .as_ref()
            .is_some_and(|it| is_other(it) || is_dead(it))
        {
            self.hang_up(now, out);
        }
        let may_start = store.is_idle() && store.is_ok && self.retry <= now;
        if let Some(target) = target
            && self.session.is_none()
            && may_start
            && target.epoch == store.vow.epoch
        {
            out.push(FollowerAction::Connect(target.address.clone()));
            self.session = Some(Session {
                target,
                link: None,
                is_greeted: false,
                heads: BTreeMap::new(),
                visible: BTreeMap::new(),
                heard: now,
            });
        }
    }

    /// Ends the link and waits a moment.
    pub fn hang_up(&mut self, now: Boottime, out: &mut Vec<FollowerAction>) {
        if let Some(link) = self.session.take().and_then(|it| it.link) {
            out.push(FollowerAction::Close(link));
        }
        self.retry = now + RETRY;
    }

    /// The link that was asked for is open.
    pub fn open(
        &mut self,
        link: LinkId,
        hello: Hello,
        now: Boottime,
        out: &mut Vec<FollowerAction>,
    ) {
        let Some(session) = self.session.as_mut().filter(|it| it.link.is_none()) else {
            out.push(FollowerAction::Close(link));
            return;
        };
        session.link = Some(link);
        session.heard = now;
        session.is_greeted = true;
        let mut hello = hello;
        let newest = |tips: &Vec<Tip>| tips.last().copied().unwrap_or(Tip::NONE);
        session.heads = { hello.zones.iter() }
            .map(|(zone, tips)| (zone.clone(), newest(tips)))
            .collect();
        hello.zones.retain(|zone, _| !self.suspects.contains(zone));
        let (epoch, body) = (session.target.epoch, Body::Hello(hello));
        out.push(FollowerAction::Send(link, Frame { epoch, body }));
    }

    /// A link ended.
    pub fn close(&mut self, link: Option<LinkId>, now: Boottime) {
        if self.session.as_ref().is_some_and(|it| it.link == link) {
            self.session = None;
            self.retry = now + RETRY;
        }
    }

    /// Takes a leader's frame.
    pub fn take(
        &mut self,
        link: LinkId,
        frame: Frame,
        store: &mut Store,
        now: Boottime,
        out: &mut Vec<FollowerAction>,
    ) {
        let Some(session) = self.session.as_mut().filter(|it| it.link == Some(link)) else {
            return;
        };
        let vow = store.vow.epoch;
        self.heard_epoch = self.heard_epoch.max(frame.epoch);
        if frame.epoch < vow && !self.settings.lacks(Fault::LowerEpoch) {
            self.refused += 1;
            out.push(FollowerAction::Send(link, refusal(&store.vow)));
            self.hang_up(now, out);
            return;
        }
        if frame.epoch != session.target.epoch {
            self.hang_up(now, out);
            return;
        }
        session.heard = now;
        if let Err(OutOfOrder) = self.take_body(link, frame.body, store, out) {
            self.hang_up(now, out);
        }
    }

    /// Takes what a frame says.
    fn take_body(
        &mut self,
        link: LinkId,
        body: Body,
        store: &mut Store,
        out: &mut Vec<FollowerAction>,
    ) -> Result<(), OutOfOrder> {
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        let epoch = session.target.epoch;
        match body {
            Body::Continue(zone, tip) => {
                session.heads.insert(zone.clone(), tip);
                let chain = store.chains.get(&zone);
                let has_more = chain.is_none_or(|chain| *chain.newest() != tip);
                if has_more && !self.settings.lacks(Fault::KeepExtra) {
                    give(Order::Truncate(zone, tip), Some(link), store, out);
                }
            }
            Body::Part(part) => give(Order::Stage(part), Some(link), store, out),
            Body::Step(step) => {
                let zone = step.zone.clone();
                let head = session.heads.get(&zone).copied().unwrap_or(Tip::NONE);
                if !step.follows(&head) {
                    return Err(OutOfOrder);
                }
                session.heads.insert(zone.clone(), step.tip);
                if self.settings.lacks(Fault::AckBeforeSync) {
                    let body = Body::Stored(zone, step.tip);
                    out.push(FollowerAction::Send(link, Frame { epoch, body }));
                }
                give(Order::Append(step), Some(link), store, out);
            }
            Body::Snapshot(snapshot) => {
                let zone = snapshot.zone.clone();
                session.heads.insert(zone, snapshot.tip);
                give(Order::Replace(snapshot), Some(link), store, out);
            }
            Body::Align => {
                let mut vow = store.next_vow().clone();
                vow.branch = epoch;
                give(Order::Keep(vow), Some(link), store, out);
            }
            Body::Visible(zone, tip) => {
                session.visible.insert(zone.clone(), tip);
                self.show(&zone, store, out);
            }
            Body::Ping => {
                let body = Body::Alive {
                    is_store_ok: store.is_ok,
                };
                out.push(FollowerAction::Send(link, Frame { epoch, body }));
            }
            Body::Hello(_)
            | Body::Stored(..)
            | Body::Staged(..)
            | Body::Shown(..)
            | Body::Alive { .. }
            | Body::Aligned
            | Body::Refused(_) => {}
        }
        Ok(())
    }

    /// Takes an order that the journal carried out or refused; acknowledges it on the link that waits for it.
    pub fn settle(
        &mut self,
        pending: &Pending,
        result: Result<(), Refusal>,
        store: &mut Store,
        now: Boottime,
        out: &mut Vec<FollowerAction>,
    ) {
        if result == Err(Refusal::WrongHash)
            && let Effect::Append(zone, _) | Effect::Replace(zone, _) | Effect::Stage(zone, ..) =
                &pending.effect
        {
            self.suspects.insert(zone.clone());
        }
        let session = self.session.as_ref();
        let Some(session) = session.filter(|it| it.link.is_some() && it.link == pending.link)
        else {
            return;
        };
        if result.is_err() {
            self.hang_up(now, out);
            return;
        }
        let (epoch, link) = (session.target.epoch, pending.link);
        let mut send = |body| {
            let frame = Frame { epoch, body };
            out.extend(link.map(|link| FollowerAction::Send(link, frame)));
        };
        match &pending.effect {
            Effect::Append(zone, tip) | Effect::Replace(zone, tip) => {
                if matches!(pending.effect, Effect::Replace(..)) {
                    self.suspects.remove(zone);
                }
                send(Body::Stored(zone.clone(), *tip));
                if self.settings.lacks(Fault::ShowUnannounced) {
                    let session = self.session.as_mut();
                    session.map(|it| it.visible.insert(zone.clone(), *tip));
                }
                self.show(&zone.clone(), store, out);
            }
            Effect::Stage(zone, tip, part) => send(Body::Staged(zone.clone(), *tip, *part)),
            Effect::Keep(vow) if vow.branch == epoch => send(Body::Aligned),
            Effect::Keep(_) | Effect::Truncate(..) => {}
        }
    }

    /// Shows what the leader announced, once it is durable here.
    fn show(&self, zone: &Name, store: &mut Store, out: &mut Vec<FollowerAction>) {
        let Some(session) = &self.session else {
            return;
        };
        let (Some(tip), Some(link)) = (session.visible.get(zone), session.link) else {
            return;
        };
        let chain = store.chains.entry(zone.clone()).or_default();
        if chain.announce(tip) {
            out.push(FollowerAction::Show(zone.clone(), *tip));
        }
        if chain.announced() == tip {
            let epoch = session.target.epoch;
            let body = Body::Shown(zone.clone(), *tip);
            out.push(FollowerAction::Send(link, Frame { epoch, body }));
        }
    }
}

/// A frame that does not belong after the ones before it.
struct OutOfOrder;

/// Gives an order.
fn give(order: Order, link: Option<LinkId>, store: &mut Store, out: &mut Vec<FollowerAction>) {
    store.expect(&order, link);
    out.push(FollowerAction::Order(order));
}

/// The answer to a frame of a lower epoch.
fn refusal(vow: &Vow) -> Frame {
    Frame {
        epoch: vow.epoch,
        body: Body::Refused(vow.ceiling.clone()),
    }
}

//! What this replica has on disk, and the orders to the journal that are not answered yet.

use dns::Name;

use std::collections::VecDeque;

use crate::chain::{Chains, Part, ReplicaId, Snapshot, Step, Tip};
use crate::frame::LinkId;
use crate::knowledge::{Knowledge, Versions, Vow};

/// An order to the journal. The edge carries orders out in order, and answers each when it is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Keep this in place of the last one.
    Keep(Vow),
    /// Hold this in memory until the step or snapshot comes. Parts of a version that never comes are forgotten with the first
    /// part of another one of the zone.
    Stage(Part),
    /// Add a step. It is refused if it does not follow the newest version of its zone.
    Append(Step),
    /// Drop what follows a version of a zone.
    Truncate(Name, Tip),
    /// Take this in place of a zone.
    Replace(Snapshot),
}

/// Why an order was not carried out. Nothing of it is on disk.
///
/// After a sync that failed nothing is known of the disk: the edge ends the process then, and the journal is read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The disk is full, or the journal takes no writes for another reason.
    Store,
    /// The step or snapshot does not lead to the hash that it names.
    WrongHash,
}

/// An order that is not answered yet.
#[derive(Debug)]
pub struct Pending {
    /// The order, without its payload.
    pub effect: Effect,
    /// The link that waits for it.
    pub link: Option<LinkId>,
}

/// What an order changes.
#[derive(Debug)]
pub enum Effect {
    /// The vow.
    Keep(Vow),
    /// Nothing yet: a part of a version is there.
    Stage(Name, Tip, u32),
    /// The zone gets a version.
    Append(Name, Tip),
    /// The zone loses versions.
    Truncate(Name, Tip),
    /// The zone begins with a version.
    Replace(Name, Tip),
}

impl From<&Order> for Effect {
    fn from(order: &Order) -> Self {
        match order {
            Order::Keep(vow) => Self::Keep(vow.clone()),
            Order::Stage(part) => Self::Stage(part.zone.clone(), part.tip, part.number),
            Order::Append(step) => Self::Append(step.zone.clone(), step.tip),
            Order::Truncate(zone, tip) => Self::Truncate(zone.clone(), *tip),
            Order::Replace(snapshot) => Self::Replace(snapshot.zone.clone(), snapshot.tip),
        }
    }
}

/// What is on disk.
#[derive(Debug)]
pub struct Store {
    /// Durable versions of all configured zones.
    pub chains: Chains,
    /// The durable vow.
    pub vow: Vow,
    /// Orders in order.
    pending: VecDeque<Pending>,
    /// Whether it takes steps.
    pub is_ok: bool,
}

impl Store {
    /// What was read when the journal was opened.
    #[must_use]
    pub const fn new(chains: Chains, vow: Vow) -> Self {
        Self {
            chains,
            vow,
            pending: VecDeque::new(),
            is_ok: true,
        }
    }

    /// Whether every order is answered.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Whether an order for a zone is not answered.
    #[must_use]
    pub fn is_busy(&self, zone: &Name) -> bool {
        let is_of = |pending: &Pending| match &pending.effect {
            Effect::Keep(_) => false,
            Effect::Stage(of, ..)
            | Effect::Append(of, _)
            | Effect::Truncate(of, _)
            | Effect::Replace(of, _) => of == zone,
        };
        self.pending.iter().any(is_of)
    }

    /// Notes an order that is given now.
    pub fn expect(&mut self, order: &Order, link: Option<LinkId>) {
        let effect = Effect::from(order);
        self.pending.push_back(Pending { effect, link });
    }

    /// Takes the answer to the oldest order; gives that order.
    pub fn settle(&mut self, result: Result<(), Refusal>) -> Option<Pending> {
        let pending = self.pending.pop_front()?;
        if result.is_ok() {
            self.apply(&pending.effect);
        }
        Some(pending)
    }

    /// Takes what is durable now.
    fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::Keep(vow) => self.vow = vow.clone(),
            Effect::Stage(..) => {}
            Effect::Append(zone, tip) => self.chains.entry(zone.clone()).or_default().push(*tip),
            Effect::Truncate(zone, tip) => {
                self.chains.entry(zone.clone()).or_default().truncate(tip);
            }
            Effect::Replace(zone, tip) => {
                self.chains.entry(zone.clone()).or_default().replace(*tip);
            }
        }
    }

    /// The vow as it will be when all orders are carried out.
    #[must_use]
    pub fn next_vow(&self) -> &Vow {
        let vow = |pending: &'_ Pending| matches!(pending.effect, Effect::Keep(_));
        let last = self.pending.iter().rev().find(|it| vow(it));
        match last.map(|it| &it.effect) {
            Some(Effect::Keep(vow)) => vow,
            Some(
                Effect::Stage(..) | Effect::Append(..) | Effect::Truncate(..) | Effect::Replace(..),
            )
            | None => &self.vow,
        }
    }

    /// What this replica knows.
    #[must_use]
    pub fn knowledge(&self, replica: &ReplicaId, is_leading: bool) -> Knowledge {
        let zones = self.chains.iter().map(|(zone, chain)| {
            let versions = Versions {
                announced: *chain.announced(),
                newest: *chain.newest(),
            };
            (zone.clone(), versions)
        });
        Knowledge {
            replica: replica.clone(),
            vow: self.vow.clone(),
            zones: zones.collect(),
            is_store_ok: self.is_ok,
            is_leading,
        }
    }
}

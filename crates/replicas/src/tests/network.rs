//! Connections between replicas: frames arrive in order or not at all, and each end learns later that the other one is gone.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::frame::{Frame, LinkId};
use crate::tests::host::Micros;

/// One end of a link: a machine, and which of its processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    /// The machine.
    pub(super) host: usize,
    /// The life of its process.
    pub(super) life: u64,
}

/// A link. End 0 is the follower's, end 1 the leader's.
#[derive(Debug)]
pub(super) struct Link {
    /// Its ends.
    pub(super) ends: [End; 2],
    /// Frames that each end sent; `None` says that it closed the link.
    pub(super) queues: [VecDeque<Option<Frame>>; 2],
    /// Whether each end has the link open.
    pub(super) is_open: [bool; 2],
    /// Whether frames that are sent now are lost.
    pub(super) is_cut: bool,
}

/// All links, and who does not hear whom.
#[derive(Debug, Default)]
pub(super) struct Network {
    /// Links.
    pub(super) links: BTreeMap<LinkId, Link>,
    /// The number of the last link.
    last: LinkId,
    /// From whom to whom nothing arrives, until when.
    blocked: BTreeMap<(usize, usize), Micros>,
}

impl Network {
    /// A new link.
    pub(super) fn open(&mut self, follower: End, leader: End) -> LinkId {
        self.last += 1;
        let link = Link {
            ends: [follower, leader],
            queues: [VecDeque::new(), VecDeque::new()],
            is_open: [true, true],
            is_cut: false,
        };
        self.links.insert(self.last, link);
        self.last
    }

    /// Puts a frame on its way; says in which direction.
    pub(super) fn send(&mut self, end: End, id: LinkId, frame: Option<Frame>) -> Option<usize> {
        let link = self.links.get_mut(&id)?;
        let side = link.ends.iter().position(|it| *it == end)?;
        if !link.is_open[side] || link.is_cut {
            return None;
        }
        link.is_open[side] = frame.is_some();
        link.queues[side].push_back(frame);
        Some(side)
    }

    /// The links of a process.
    pub(super) fn links_of(&self, end: End) -> Vec<LinkId> {
        let is_own = |(_, link): &(&LinkId, &Link)| link.ends.contains(&end);
        self.links
            .iter()
            .filter(is_own)
            .map(|(id, _)| *id)
            .collect()
    }

    /// Cuts a link: of what is on the way a part arrives.
    pub(super) fn cut(&mut self, id: LinkId, random: &mut fastrand::Rng) {
        if let Some(link) = self.links.get_mut(&id).filter(|link| !link.is_cut) {
            link.is_cut = true;
            for queue in &mut link.queues {
                queue.truncate(random.usize(..=queue.len()));
                queue.push_back(None);
            }
        }
    }

    /// Forgets a link that both ends closed.
    pub(super) fn tidy(&mut self, id: LinkId) {
        let is_over = |link: &Link| link.is_open == [false, false];
        if self.links.get(&id).is_some_and(is_over) {
            self.links.remove(&id);
        }
    }

    /// Nothing arrives from one machine at another one.
    pub(super) fn block(&mut self, from: usize, to: usize, until: Micros) {
        let end = self.blocked.entry((from, to)).or_default();
        *end = until.max(*end);
    }

    /// Whether nothing arrives.
    pub(super) fn is_blocked(&self, from: usize, to: usize, time: Micros) -> bool {
        { self.blocked.get(&(from, to)) }.is_some_and(|until| *until > time)
    }

    /// Everything arrives again.
    pub(super) fn heal(&mut self) {
        self.blocked.clear();
    }

    /// Links that are not cut.
    pub(super) fn whole(&self) -> BTreeSet<LinkId> {
        let whole = self.links.iter().filter(|(_, link)| !link.is_cut);
        whole.map(|(id, _)| *id).collect()
    }
}

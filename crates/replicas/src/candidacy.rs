//! When a replica that does not lead tries to: which wait it has chosen, and what it asked when there was no Lease.

use dns::Serial;

use crate::chain::{Epoch, ReplicaId};
use crate::fault::Fault;
use crate::knowledge::Knowledge;
use crate::lease::{Lease, Wish};
use crate::promotion::{Candidate, Ground};
use crate::record::Record;
use crate::settings::{Boottime, Now, Settings};

/// Serials that are added to a floor when the Lease is gone: the last leader may have reserved more than anybody else has seen. It is
/// a day of changes, at one a second.
const UNKNOWN_CEILING: u32 = 86_400;
/// Epochs that are left out when the Lease is gone and not every replica could be asked: one of those may have seen a higher epoch.
const UNKNOWN_EPOCHS: u64 = 1 << 20;
/// How much longer a candidate waits whose watch does not work.
const UNWELL_WAIT: Boottime = Boottime::from_secs(2);
/// The part of the random wait after a release, when everybody learns at once that the Lease is free.
const RELEASED_PART: u32 = 10;

/// What a candidate looks at.
#[derive(Debug)]
pub struct View<'a> {
    /// The Lease.
    pub lease: &'a Lease,
    /// What this replica knows.
    pub knowledge: &'a Knowledge,
    /// Where its followers would connect to.
    pub address: &'a str,
    /// Whether its own watch works.
    pub is_watch_ok: bool,
    /// Times and limits.
    pub settings: &'a Settings,
}

/// What a candidate wants.
#[derive(Debug)]
pub enum Intent {
    /// This of the Lease.
    Wish(Wish),
    /// To ask all other replicas what they know.
    Ask,
}

/// A wait that was chosen.
#[derive(Debug)]
struct Bid {
    /// The epoch of the Lease for which it was chosen.
    epoch: Epoch,
    /// Not before.
    after: Boottime,
}

/// What a replica that misses the Lease has asked.
#[derive(Debug)]
struct Inquiry {
    /// When.
    since: Boottime,
    /// With this the Lease may be made.
    record: Option<Record>,
}

/// The candidacy of a replica.
#[derive(Debug, Default)]
pub struct Candidacy {
    /// The wait.
    bid: Option<Bid>,
    /// The question.
    inquiry: Option<Inquiry>,
    /// Whether an operator accepted a loss.
    accepts_loss: bool,
}

impl Candidacy {
    /// An operator accepted a loss: it counts until this replica leads.
    pub const fn accept_loss(&mut self) {
        self.accepts_loss = true;
    }

    /// Whether the answers to a question are for a Lease that is missing.
    #[must_use]
    pub const fn is_asking(&self) -> bool {
        self.inquiry.is_some()
    }

    /// What it wants now.
    pub fn intent(&mut self, view: &View<'_>, now: Now) -> Intent {
        if view.lease.missing_since().is_some() {
            return self.intend_without_lease(view, now);
        }
        self.inquiry = None;
        let wish = view
            .lease
            .record()
            .and_then(|record| self.bid(record, view, now));
        Intent::Wish(wish.unwrap_or(Wish::Observe))
    }

    /// The wish to take the Lease, when its time has come.
    fn bid(&mut self, record: &Record, view: &View<'_>, now: Now) -> Option<Wish> {
        let candidate = Candidate {
            record,
            knowledge: view.knowledge,
            open_since: view.lease.open_since(now.boot),
            accepts_loss: self.accepts_loss,
        };
        let Some(ground) = candidate.ground(view.settings, now.boot) else {
            self.bid = None;
            return None;
        };
        let epoch = record.epoch;
        if self.bid.as_ref().is_none_or(|it| it.epoch != epoch) {
            let after = now.boot + wait_of(record.holder.as_ref(), view, now.random);
            self.bid = Some(Bid { epoch, after });
        }
        let is_due = self.bid.as_ref().is_some_and(|it| it.after <= now.boot);
        is_due.then(|| Wish::Take(candidate.bid(ground, view.address, view.settings)))
    }

    /// What it wants when there is no Lease: to make it, once the other replicas were asked.
    fn intend_without_lease(&mut self, view: &View<'_>, now: Now) -> Intent {
        if view.settings.lacks(Fault::CreateAlone) {
            let record = creation(view, &[], true, now);
            return Intent::Wish(record.map_or(Wish::Observe, Wish::Create));
        }
        let again = 2 * view.settings.greeting_wait;
        let is_old = |it: &Inquiry| it.since + again <= now.boot;
        if self.inquiry.as_ref().is_none_or(is_old) {
            let (since, record) = (now.boot, None);
            self.inquiry = Some(Inquiry { since, record });
            return Intent::Ask;
        }
        let record = self.inquiry.as_ref().and_then(|it| it.record.clone());
        let missing = view.lease.missing_since();
        let orphan_wait = view.settings.orphan_wait;
        let is_orphan = missing.is_some_and(|since| since + orphan_wait <= now.boot);
        let may_lose = is_orphan || self.accepts_loss;
        let record = record.filter(|record| !record.must_publish || may_lose);
        Intent::Wish(record.map_or(Wish::Observe, Wish::Create))
    }

    /// Takes the answers of the other replicas about a Lease that is missing.
    pub fn take_answers(
        &mut self,
        view: &View<'_>,
        answers: &[Knowledge],
        is_complete: bool,
        now: Now,
    ) {
        if let Some(inquiry) = &mut self.inquiry {
            inquiry.record = creation(view, answers, is_complete, now);
        }
    }
}

/// How long a candidate waits after it may take the Lease.
fn wait_of(holder: Option<&ReplicaId>, view: &View<'_>, random: u32) -> Boottime {
    let wait = view.settings.candidate_wait * (random % 1024) / 1024;
    let wait = match holder {
        Some(holder) if *holder == view.knowledge.replica => return Boottime::ZERO,
        Some(_) => wait,
        None => wait / RELEASED_PART,
    };
    if view.is_watch_ok {
        wait
    } else {
        wait + UNWELL_WAIT
    }
}

/// The Lease that a replica may make, if no other one knows more or leads. With `must_publish` it may be made only after the orphan
/// time or at an operator's word, because not every replica could be asked.
fn creation(view: &View<'_>, answers: &[Knowledge], is_complete: bool, now: Now) -> Option<Record> {
    let own = view.knowledge;
    let is_better = |it: &Knowledge| it.is_leading || it.is_store_ok && it.is_ahead_of(own);
    if answers.iter().any(is_better) {
        return None;
    }
    let empty = Record::default();
    let candidate = Candidate {
        record: &empty,
        knowledge: own,
        open_since: None,
        accepts_loss: false,
    };
    let mut record = candidate.bid(Ground::Created, view.address, view.settings);
    for answer in answers {
        answer.raise(&mut record.ceiling);
        record.epoch = record.epoch.max(answer.vow.epoch.next());
    }
    record.must_publish = !is_complete;
    if !is_complete {
        record.epoch.0 += UNKNOWN_EPOCHS;
        let clock = Serial::decode(now.wall);
        let common = record.ceiling.common.unwrap_or(clock);
        record.ceiling.common = Some(common.later(clock));
    }
    // The first Lease of an installation has nothing to be above of.
    if record.epoch > Epoch(1) {
        record.ceiling.add(UNKNOWN_CEILING);
    }
    Some(record)
}

//! When a replica that does not lead tries to: which wait it has chosen, and what it asked when there was no Lease.

use dns::Serial;

use crate::chain::{Epoch, ReplicaId};
use crate::fault::Fault;
use crate::knowledge::Knowledge;
use crate::lease::{Lease, Wish};
use crate::promotion::{Candidate, Ground};
use crate::record::Record;
use crate::settings::{Boottime, Now, Settings};

/// Serials that are added to a floor after the Lease was gone: the last leader may have reserved more than anybody else has seen. It is
/// a day of changes, at one a second.
const UNKNOWN_CEILING: u32 = 86_400;
/// Epochs that are left out after the Lease was gone if not every replica could be asked: one of those may have seen a higher epoch. A
/// random number is added, because one of those may have left out as many.
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

/// What a replica has asked that found a blank Lease.
#[derive(Debug)]
struct Inquiry {
    /// The uid of that Lease.
    uid: String,
    /// When.
    since: Boottime,
    /// With this the Lease may be taken.
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

    /// Whether the answers to a question are for a blank Lease.
    #[must_use]
    pub const fn is_asking(&self) -> bool {
        self.inquiry.is_some()
    }

    /// What it wants now.
    pub fn intent(&mut self, view: &View<'_>, now: Now) -> Intent {
        let lease = view.lease;
        match (lease.record(), lease.uid()) {
            (Some(record), Some(uid)) if record.is_blank() => self.claim(uid, view, now),
            (Some(record), _) => {
                self.inquiry = None;
                let wish = self.bid(record, view, now);
                Intent::Wish(wish.unwrap_or(Wish::Observe))
            }
            (None, _) if lease.missing_since().is_some() => Intent::Wish(Wish::Create),
            (None, _) => Intent::Wish(Wish::Observe),
        }
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

    /// What it wants of a blank Lease: to take it, once the other replicas were asked.
    fn claim(&mut self, uid: &str, view: &View<'_>, now: Now) -> Intent {
        if view.settings.lacks(Fault::CreateAlone) {
            let record = first_record(view, &[], true, now);
            return Intent::Wish(record.map_or(Wish::Observe, Wish::Take));
        }
        let again = 2 * view.settings.greeting_wait;
        let is_of_now = |it: &&mut Inquiry| it.uid == uid && now.boot < it.since + again;
        let Some(inquiry) = self.inquiry.as_mut().filter(is_of_now) else {
            self.inquiry = Some(Inquiry {
                uid: uid.to_owned(),
                since: now.boot,
                record: None,
            });
            return Intent::Ask;
        };
        let since = view.lease.open_since(now.boot);
        let orphan_wait = view.settings.orphan_wait;
        let is_orphan = since.is_some_and(|since| since + orphan_wait <= now.boot);
        let may_lose = is_orphan || self.accepts_loss;
        let record = inquiry.record.clone();
        let record = record.filter(|record| !record.must_publish || may_lose);
        Intent::Wish(record.map_or(Wish::Observe, Wish::Take))
    }

    /// Takes the answers of the other replicas about a blank Lease.
    pub fn take_answers(
        &mut self,
        view: &View<'_>,
        answers: &[Knowledge],
        is_complete: bool,
        now: Now,
    ) {
        if let Some(inquiry) = &mut self.inquiry {
            inquiry.record = first_record(view, answers, is_complete, now);
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

/// With what a replica may take a blank Lease, if no other one knows more, or leads. With `must_publish` it may take it only after the orphan
/// time or at an operator's word, because not every replica could be asked.
fn first_record(
    view: &View<'_>,
    answers: &[Knowledge],
    is_complete: bool,
    now: Now,
) -> Option<Record> {
    let own = view.knowledge;
    let is_better = |it: &Knowledge| it.is_leading || it.is_store_ok && it.is_ahead_of(own);
    if answers.iter().any(is_better) {
        return None;
    }
    // A replica that knows more, but cannot store anything now.
    let is_loss = answers.iter().any(|it| it.is_ahead_of(own));
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
    record.must_publish = !is_complete || is_loss;
    let clock = Serial::decode(now.wall);
    if !is_complete {
        record.epoch.0 += UNKNOWN_EPOCHS + u64::from(now.random >> 8);
        let common = record.ceiling.common.unwrap_or(clock);
        record.ceiling.common = Some(common.later(clock));
    }
    // The first Lease of an installation has nothing to be above of.
    if record.epoch > Epoch(1) {
        // Whoever led may have lost its disk before anybody else heard of its ceiling.
        record.ceiling.common.get_or_insert(clock);
        record.ceiling.add(UNKNOWN_CEILING);
    }
    Some(record)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dns::testing::name;

    use super::*;
    use crate::chain::Tip;
    use crate::knowledge::{Versions, Vow};
    use crate::lease::{Answer, LeaseEvent};
    use crate::record::Seen;

    fn at(seconds: u64) -> Now {
        Now {
            boot: Duration::from_secs(seconds),
            wall: 7,
            random: 0,
        }
    }

    fn view<'a>(lease: &'a Lease, knowledge: &'a Knowledge, settings: &'a Settings) -> View<'a> {
        View {
            lease,
            knowledge,
            address: "192.0.2.1:1",
            is_watch_ok: true,
            settings,
        }
    }

    /// A replica that has seen this epoch, and that has so many versions of a zone.
    fn knowledge(replica: &str, epoch: u64, versions: Option<u32>) -> Knowledge {
        let tip = versions.map(|seq| Tip {
            seq: seq.into(),
            serial: Serial::decode(seq),
            ..Tip::NONE
        });
        let zone = tip.map(|tip| {
            let versions = Versions {
                announced: tip,
                newest: tip,
            };
            (name("a."), versions)
        });
        Knowledge {
            replica: ReplicaId::from(replica),
            vow: Vow {
                epoch: Epoch(epoch),
                ..Vow::default()
            },
            zones: zone.into_iter().collect(),
            is_store_ok: true,
            is_leading: false,
        }
    }

    #[test]
    fn a_replica_that_knows_more_but_stores_nothing_makes_the_claim_a_loss() {
        let (settings, own) = (Settings::default(), knowledge("a", 0, None));
        let lease = Lease::new(own.replica.clone(), settings.clone());
        let claim = |answer: Knowledge| {
            first_record(&view(&lease, &own, &settings), &[answer], true, at(10))
        };
        let other = knowledge("b", 0, Some(4));
        assert_eq!(claim(other.clone()), None, "it may lead itself");
        let full = Knowledge {
            is_store_ok: false,
            ..other
        };
        assert!(claim(full).is_some_and(|record| record.must_publish));
        let empty = claim(knowledge("b", 0, None));
        assert!(empty.is_some_and(|record| !record.must_publish));
    }

    #[test]
    fn after_an_unknown_leader_serials_begin_a_day_above_the_clock() {
        let (settings, own) = (Settings::default(), knowledge("a", 0, None));
        let lease = Lease::new(own.replica.clone(), settings.clone());
        let ceiling = |answer: Knowledge| {
            let view = view(&lease, &own, &settings);
            let record = first_record(&view, &[answer], true, at(10));
            record.expect("nobody knows more").ceiling.common
        };
        assert_eq!(ceiling(knowledge("b", 0, None)), None, "nobody has led");
        let above = Serial::decode(at(10).wall + UNKNOWN_CEILING);
        assert_eq!(ceiling(knowledge("b", 1, None)), Some(above));
    }

    /// What another Lease led to says nothing of this one: it may have been held, and be deleted.
    #[test]
    fn answers_about_a_blank_lease_are_for_that_one_alone() {
        let settings = Settings::default();
        let knowledge = knowledge("a", 0, None);
        let blank = |uid: &str, version: &str| Seen {
            uid: uid.to_owned(),
            version: version.to_owned(),
            record: Record::default(),
        };
        let mut lease = Lease::new(knowledge.replica.clone(), settings.clone());
        let (id, _) = lease
            .call(Wish::Observe, None, at(10).boot)
            .expect("it reads");
        let read = Answer::Read(blank("first", "1"));
        lease.take(LeaseEvent::Answered(id, read), at(10).boot);
        let mut candidacy = Candidacy::default();
        let asks = candidacy.intent(&view(&lease, &knowledge, &settings), at(10));
        assert!(matches!(asks, Intent::Ask));
        candidacy.take_answers(&view(&lease, &knowledge, &settings), &[], true, at(10));
        let takes = candidacy.intent(&view(&lease, &knowledge, &settings), at(10));
        assert!(matches!(takes, Intent::Wish(Wish::Take(_))));
        lease.take(LeaseEvent::Watched(blank("second", "2")), at(11).boot);
        let asks = candidacy.intent(&view(&lease, &knowledge, &settings), at(11));
        assert!(matches!(asks, Intent::Ask));
    }
}

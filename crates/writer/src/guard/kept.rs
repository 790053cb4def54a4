//! A kept draft: its contents, and the owners that differ from the served version.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dns::{Name, RrList, RrRef};
use ops::TimeText;
use provenance::{Cause, Operator, Verb};
use tokio::sync::oneshot;
use zone::check::Fault;
use zone::gate::{GateSettings, HeldChange, HeldShare, Loss, Share, Verdict, Why, counts, lost};
use zone::hold::resumed;
use zone::{Contents, Draft, Edit, Node, difference};

use super::shares::ShareRule;
use super::{CLOCK, GateEvent, Holds, Key, Now, millis_of};
use crate::callers::Released;
use crate::corefile_cause::without_ttl;
use crate::zone_edit::ZoneDraft;

/// An owner that differs from the served version.
#[derive(Debug, Clone)]
struct Touched {
    tags: Tags,
    /// Its lost records that count.
    lost: usize,
    /// Whose owner it is.
    share: Option<Share>,
}

/// The groups of causes of the records that differ at an owner, by place.
#[derive(Debug, Clone)]
enum Tags {
    /// All have the same.
    One(u32),
    /// The removed and the added records, each with its own.
    Each(Box<[RrList; 2]>),
}

/// Records that differ, each with its group. The first number is 0 for removed ones and 1 for added ones.
type Tagged<'a> = HashMap<(usize, RrRef<'a>), u32>;

impl Tags {
    /// The groups of the records that differ between two nodes.
    fn of(
        apex: &Name,
        [old, new]: [Option<&Node>; 2],
        mut tag_of: impl FnMut(usize, RrRef<'_>) -> u32,
    ) -> Self {
        let mut sides = difference(apex, old, new);
        let mut used = BTreeSet::new();
        for (side, list) in sides.iter_mut().enumerate() {
            list.retag_each(|rr| {
                let tag = tag_of(side, rr.untagged());
                used.insert(tag);
                tag
            });
        }
        match used.len() {
            0 | 1 => Self::One(used.first().copied().unwrap_or(0)),
            _ => Self::Each(Box::new(sides)),
        }
    }

    /// The group of all records; `None` where they differ.
    const fn one(&self) -> Option<u32> {
        match self {
            Self::One(tag) => Some(*tag),
            Self::Each(_) => None,
        }
    }

    /// The records with groups of their own.
    fn each(&self) -> Tagged<'_> {
        match self {
            Self::One(_) => Tagged::new(),
            Self::Each(sides) => tagged(&**sides).collect(),
        }
    }

    /// All groups.
    fn used(&self) -> BTreeSet<u32> {
        match self {
            Self::One(tag) => BTreeSet::from([*tag]),
            Self::Each(sides) => sides.iter().flatten().map(|rr| rr.tag).collect(),
        }
    }

    fn retag(&mut self, new: impl Fn(u32) -> u32) {
        match self {
            Self::One(tag) => *tag = new(*tag),
            Self::Each(sides) => sides.iter_mut().for_each(|list| list.retag(&new)),
        }
    }
}

/// The records of a list of removed ones and of one of added ones, with their tags.
fn tagged<'a>(
    sides: impl IntoIterator<Item = &'a RrList>,
) -> impl Iterator<Item = ((usize, RrRef<'a>), u32)> {
    let sides = sides.into_iter().enumerate();
    sides.flat_map(|(side, list)| list.iter().map(move |rr| ((side, rr.untagged()), rr.tag)))
}

/// The group of a record, of the tags of its owner and those that records have of their own.
fn known_of(each: &Tagged<'_>, tags: &Tags, side: usize, rr: RrRef<'_>) -> Option<u32> {
    each.get(&(side, rr)).copied().or(tags.one())
}

/// The groups of a draft's records, for owners at which something waits already.
#[derive(Default)]
struct News<'a> {
    /// The place of its first group among those that are kept.
    first: u32,
    causes: &'a [Vec<Cause>],
    of_records: Tagged<'a>,
    /// The groups of its removed records, whatever their TTL.
    gone: HashMap<RrRef<'a>, u32>,
    /// Two groups that some records have, and the place of the group of both.
    both: BTreeMap<[u32; 2], u32>,
}

impl<'a> News<'a> {
    fn of(draft: &'a Draft, causes: &'a [Vec<Cause>], first: u32) -> Self {
        let of_records = tagged([&draft.removed, &draft.added]);
        let gone = { draft.removed.iter() }.map(|rr| (without_ttl(rr), first + rr.tag));
        Self {
            first,
            causes,
            of_records: of_records.map(|(rr, tag)| (rr, first + tag)).collect(),
            gone: gone.collect(),
            both: BTreeMap::new(),
        }
    }

    /// The groups of what differs at an owner, between what is served and what is wanted now. `known` are those of what
    /// differed from what was wanted before.
    fn tags(
        &mut self,
        apex: &Name,
        [served, before, wanted]: [Option<&Node>; 3],
        known: &Tags,
        tag: u32,
    ) -> Tags {
        let each = known.each();
        let of_known = |side: usize, rr: RrRef<'_>| known_of(&each, known, side, rr);
        let [_, waiting] = difference(apex, served, before);
        let waiting: HashMap<_, _> = { waiting.iter() }
            .map(|rr| (without_ttl(rr), rr.untagged()))
            .collect();
        let [_, added] = difference(apex, served, wanted);
        let added: HashSet<_> = added.iter().map(without_ttl).collect();
        Tags::of(apex, [served, wanted], |side, rr| {
            let bare = without_ttl(rr);
            let new = self.of_records.get(&(side, rr)).copied();
            let waits = waiting.get(&bare).filter(|_| side == 1);
            match new {
                // A record that waits would not be there without its own causes, whoever gave it another TTL.
                Some(new) if !self.names_object(new) => {
                    let known = waits.and_then(|waits| of_known(1, *waits));
                    known.map_or(new, |known| self.both(new, known))
                }
                Some(new) => new,
                // What goes may be served with a TTL that it has nowhere else any more.
                None if side == 0 && !added.contains(&bare) => {
                    let gone = self.gone.get(&bare).copied();
                    gone.or_else(|| of_known(side, rr)).unwrap_or(tag)
                }
                None => of_known(side, rr).unwrap_or(tag),
            }
        })
    }

    /// Whether a group of the draft names an object.
    fn names_object(&self, tag: u32) -> bool {
        let place = tag.checked_sub(self.first);
        let group = place.and_then(|place| self.causes.get(usize::try_from(place).ok()?));
        group.is_some_and(|group| group.iter().any(|cause| cause.kind.is_some()))
    }

    /// The group of the causes of two.
    fn both(&mut self, new: u32, known: u32) -> u32 {
        let next = self.first as usize + self.causes.len() + self.both.len();
        let next = u32::try_from(next).expect("fewer than 2^32 groups are held");
        *self.both.entry([new, known]).or_insert(next)
    }

    /// The groups of both, in the order of their places.
    fn joined(self, kept: &[Vec<Cause>]) -> Vec<Vec<Cause>> {
        let group = |tag: u32| {
            let place = usize::try_from(tag).unwrap_or(usize::MAX);
            let new = || self.causes.get(place - kept.len());
            kept.get(place).or_else(new).cloned().unwrap_or_default()
        };
        let mut both: Vec<_> = self.both.iter().collect();
        both.sort_by_key(|(_, place)| **place);
        let joined = both.into_iter().map(|([new, known], _)| {
            let mut causes = group(*new);
            let others = group(*known).into_iter();
            let others: Vec<Cause> = others.filter(|it| !causes.contains(it)).collect();
            causes.extend(others);
            causes
        });
        joined.collect()
    }
}

/// Gives the records of a draft the groups that they have of their own.
fn retag(draft: &mut Draft, of: &Tagged<'_>) {
    if of.is_empty() {
        return;
    }
    for (side, list) in [&mut draft.removed, &mut draft.added]
        .into_iter()
        .enumerate()
    {
        list.retag_each(|rr| of.get(&(side, rr.untagged())).copied().unwrap_or(rr.tag));
    }
}

/// The owners of a share that differ from the served version.
#[derive(Debug, Default)]
struct Group {
    /// The sum of their losses.
    lost: usize,
    owners: BTreeSet<Key>,
    /// When one of them may cause a version; `None`: at once.
    due: Option<Instant>,
}

/// The way in which a kept draft, or a part of it, leaves with the next commit.
#[derive(Debug)]
pub(super) enum Leaving {
    /// All of it.
    All(GateEvent),
    /// All but the held shares. These are let out because their time is over.
    Part(BTreeSet<Share>),
}

/// What the gate would do with a change.
pub(super) struct Judged {
    pub(super) verdict: Verdict,
    /// What the zone loses.
    pub(super) zone: Loss,
}

impl Judged {
    /// What a held share loses.
    pub(super) fn loss_of(&self, share: &Share) -> Loss {
        match &self.verdict {
            Verdict::HoldsShares(held) => held.get(share).copied().unwrap_or_default(),
            Verdict::Passes | Verdict::HoldsZone => Loss::default(),
        }
    }

    /// Lost records and records before of what would be held.
    pub(super) fn held_loss(&self) -> Option<(usize, usize)> {
        match &self.verdict {
            Verdict::Passes => None,
            Verdict::HoldsZone => Some((self.zone.lost, self.zone.before)),
            Verdict::HoldsShares(held) => {
                let sum = |(lost, before), it: &Loss| (lost + it.lost, before + it.before);
                Some(held.values().fold((0, 0), sum))
            }
        }
    }
}

/// A draft that is not published yet.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) contents: Contents,
    /// The served contents from which it differs.
    base: Contents,
    /// The owners that differ from the served version.
    touched: BTreeMap<Key, Touched>,
    /// The same owners, by share.
    groups: BTreeMap<Option<Share>, Group>,
    /// Groups of causes, by tag.
    causes: Vec<Vec<Cause>>,
    /// Faults by owner.
    pub(super) faults: BTreeMap<Key, Vec<Fault>>,
    /// Losses that passed shortly before and count too, by share.
    pub(super) carried: BTreeMap<Option<Share>, usize>,
    pub(super) since: Now,
    /// Since when the gate holds the whole zone.
    zone_since: Option<Now>,
    /// Since when it holds single shares.
    shares_since: BTreeMap<Share, Now>,
    /// Whether the gate has decided about it.
    is_judged: bool,
    /// The lost records that the gate holds.
    held_records: usize,
    /// When the pace of versions lets out what the gate lets out.
    pub(super) waits_until: Option<Instant>,
    /// What leaves with the next commit.
    pub(super) leaves: Option<Leaving>,
    /// The operator that released it.
    pub(super) released_by: Option<Operator>,
    /// Callers that wait for the release.
    pub(super) asked: Vec<oneshot::Sender<Released>>,
    /// Whether it was reported as held as a whole.
    pub(super) is_told: bool,
    /// What was held at the last commit.
    pub(super) told: Option<Arc<HeldChange>>,
    /// The shares that were reported as held.
    pub(super) told_shares: BTreeSet<Share>,
    /// Whether the rest of it has left.
    pub(super) is_rest: bool,
    /// Causes of a version that an earlier part has named already, and those that the leaving part names.
    pub(super) named: [Vec<Cause>; 2],
}

impl Kept {
    /// No change yet to the served contents.
    pub(super) fn new(
        since: Now,
        contents: Contents,
        carried: BTreeMap<Option<Share>, usize>,
    ) -> Self {
        Self {
            base: contents.clone(),
            contents,
            touched: BTreeMap::new(),
            groups: BTreeMap::new(),
            causes: Vec::new(),
            faults: BTreeMap::new(),
            carried,
            since,
            zone_since: None,
            shares_since: BTreeMap::new(),
            is_judged: false,
            held_records: 0,
            waits_until: None,
            leaves: None,
            released_by: None,
            asked: Vec::new(),
            is_told: false,
            told: None,
            told_shares: BTreeSet::new(),
            is_rest: false,
            named: [Vec::new(), Vec::new()],
        }
    }

    /// Removes an owner from those that differ.
    fn forget(&mut self, key: &Key) -> Option<Touched> {
        let known = self.touched.remove(key)?;
        if let Some(group) = self.groups.get_mut(&known.share) {
            group.lost -= known.lost;
            group.owners.remove(key);
            if group.owners.is_empty() {
                self.groups.remove(&known.share);
            }
        }
        Some(known)
    }

    /// Adds an owner that differs, and may cause a version at this time; `None`: at once.
    fn touch(&mut self, key: Key, touched: Touched, due: Option<Instant>) {
        let group = self.groups.entry(touched.share.clone()).or_default();
        group.due = match group.owners.is_empty() {
            true => due,
            false => group.due.min(due),
        };
        group.lost += touched.lost;
        group.owners.insert(key.clone());
        self.touched.insert(key, touched);
    }

    /// Goes on to the contents of a draft. `faults` holds what is wrong at owners where that may differ.
    pub(super) fn absorb(
        &mut self,
        served: &Contents,
        draft: ZoneDraft,
        faults: BTreeMap<Key, Vec<Fault>>,
        rule: &ShareRule,
        due: impl Fn(&Key, Option<&Share>) -> Instant,
    ) {
        let ZoneDraft { draft, causes } = draft;
        let first = u32::try_from(self.causes.len()).expect("fewer than 2^32 groups are held");
        // Where nothing differed before, an owner has the causes of the draft.
        let is_first = self.touched.is_empty();
        let mut news = match is_first {
            true => News::default(),
            false => News::of(&draft, &causes, first),
        };
        let mut owners: BTreeMap<Key, Vec<u32>> = BTreeMap::new();
        for (key, tag) in owners_of(&draft) {
            owners.entry(key).or_default().push(tag);
        }
        for (key, tags) in owners {
            let known = self.forget(&key);
            let before = known.as_ref().map_or(0, |known| known.lost);
            let (old, new) = (served.get(&key), draft.contents.get(&key));
            if old.map(Node::as_octets) == new.map(Node::as_octets) {
                continue;
            }
            let group_of = |tag: &u32| causes.get(usize::try_from(*tag).ok()?);
            let mut groups = tags.iter().filter_map(group_of);
            let is_counted = before > 0 || groups.any(|group| counts(group));
            let tag = first + tags[0];
            let lost = if is_counted { lost(old, new) } else { 0 };
            let known = known.map_or(Tags::One(tag), |known| known.tags);
            let nodes = [old, self.contents.get(&key), new];
            let tags = match is_first {
                true => known,
                false => news.tags(served.apex(), nodes, &known, tag),
            };
            let share = rule.of_change(&key, old, new);
            let due = due(&key, share.as_ref());
            self.touch(key, Touched { tags, lost, share }, Some(due));
        }
        let joined = news.joined(&self.causes);
        self.base = served.clone();
        self.contents = draft.contents;
        self.causes.extend(causes);
        self.causes.extend(joined);
        for (key, found) in faults {
            if found.is_empty() {
                self.faults.remove(&key);
            } else {
                self.faults.insert(key, found);
            }
        }
        self.compact_if_many();
    }

    /// The served content is another now; it differs from the one before at these owners. Records that differ only for that
    /// reason get this cause, and do not count as lost where nothing was lost before.
    pub(super) fn rebase(
        &mut self,
        served: &Contents,
        owners: &BTreeSet<Key>,
        cause: &Cause,
        rule: &ShareRule,
    ) {
        let group = u32::try_from(self.causes.len()).expect("fewer than 2^32 groups are held");
        self.causes.push(vec![cause.clone()]);
        for key in owners {
            let known = self.forget(key);
            let (old, new) = (served.get(key), self.contents.get(key));
            if old.map(Node::as_octets) == new.map(Node::as_octets) {
                continue;
            }
            let lost = match &known {
                Some(known) if known.lost > 0 => lost(old, new),
                Some(_) | None => 0,
            };
            let tags = known.map_or(Tags::One(group), |known| {
                // What differed before has its causes.
                let before = difference(served.apex(), self.base.get(key), new);
                let before: Tagged<'_> = tagged(&before).collect();
                let each = known.tags.each();
                Tags::of(served.apex(), [old, new], |side, rr| {
                    let is_known = before.contains_key(&(side, rr));
                    let own = known_of(&each, &known.tags, side, rr);
                    own.filter(|_| is_known).unwrap_or(group)
                })
            });
            let share = rule.of_change(key, old, new);
            self.touch(key.clone(), Touched { tags, lost, share }, None);
        }
        self.base = served.clone();
    }

    /// Begins the time of the gate again.
    pub(super) fn restart_time(&mut self, now: Now) {
        self.since = now;
        self.zone_since = None;
        self.shares_since.clear();
        self.is_judged = false;
    }

    /// The lost records by share, without those that passed before.
    pub(super) fn losses(&self) -> BTreeMap<Option<Share>, usize> {
        let groups = self.groups.iter();
        let losing = groups.filter(|(_, group)| group.lost > 0);
        losing
            .map(|(share, group)| (share.clone(), group.lost))
            .collect()
    }

    /// Says how an order ended, where that is the cause.
    pub(super) fn name_end(&mut self, cause: &Cause) {
        let causes = self.causes.iter_mut().flatten();
        for known in causes.filter(|known| known.verb == Verb::Resumed) {
            known.clone_from(cause);
        }
    }

    /// Whether something differs from what is served.
    pub(super) fn is_different(&self, served: &Contents) -> bool {
        !self.touched.is_empty() || self.contents.soa() != served.soa()
    }

    /// Forgets groups of causes that no owner names any more. Where no owner differs the first stays: a change of
    /// the SOA alone has it.
    fn compact(&mut self) {
        let mut used: BTreeSet<u32> = (self.touched.values())
            .flat_map(|it| it.tags.used())
            .collect();
        if used.is_empty() {
            used.insert(0);
        }
        let places: BTreeMap<u32, u32> = (0..).zip(&used).map(|(new, old)| (*old, new)).collect();
        for owner in self.touched.values_mut() {
            owner
                .tags
                .retag(|tag| places.get(&tag).copied().unwrap_or(0));
        }
        let mut place = 0;
        self.causes.retain(|_| {
            place += 1;
            used.contains(&(place - 1))
        });
    }

    /// As [`Self::compact`], but not at each change: owners change again and again while something is held, and their earlier
    /// causes are of no use.
    fn compact_if_many(&mut self) {
        if self.causes.len() > 2 * self.touched.len() + 64 {
            self.compact();
        }
    }

    /// Whether all of it may leave, or a part, or why not.
    pub(super) fn decide(
        &mut self,
        gate: Option<GateSettings>,
        judged: &Judged,
        now: Now,
    ) -> Result<Leaving, Why> {
        let mut faults = self.faults.values().flatten();
        if let Some(fault) = faults.next() {
            return Err(Why::Unsound {
                fault: fault.to_string(),
                faults: 1 + faults.count(),
            });
        }
        if let Some(by) = self.released_by.as_ref().filter(|_| !self.asked.is_empty()) {
            return Ok(Leaving::All(GateEvent::Released { by: by.clone() }));
        }
        let first = if self.is_judged { now } else { self.since };
        self.is_judged = true;
        let hold = gate.and_then(|gate| gate.hold);
        let is_over = |since: Now| {
            let held = now.at.saturating_duration_since(since.at);
            hold.is_some_and(|hold| held >= hold)
        };
        match &judged.verdict {
            Verdict::Passes => {
                self.zone_since = None;
                self.shares_since.clear();
                Ok(Leaving::All(GateEvent::Recovered {
                    held: self.told.clone(),
                    lost: judged.zone.lost,
                }))
            }
            Verdict::HoldsZone => {
                let Loss { lost, before } = judged.zone;
                self.held_records = lost;
                let since = *self.zone_since.get_or_insert(first);
                match is_over(since) {
                    true => Ok(Leaving::All(GateEvent::Expired)),
                    false => Err(Why::Shrinks { lost, before }),
                }
            }
            Verdict::HoldsShares(held) => {
                self.held_records = held.values().map(|loss| loss.lost).sum();
                self.zone_since = None;
                self.shares_since
                    .retain(|share, _| held.contains_key(share));
                for share in held.keys() {
                    self.shares_since.entry(share.clone()).or_insert(first);
                }
                let shares = self.shares_since.iter();
                let over = shares.filter(|(_, since)| is_over(**since));
                let over: BTreeSet<Share> = over.map(|(share, _)| share.clone()).collect();
                if over.len() == held.len() {
                    return Ok(Leaving::All(GateEvent::Expired));
                }
                let is_held = |share: &Option<Share>| {
                    share
                        .as_ref()
                        .is_some_and(|it| held.contains_key(it) && !over.contains(it))
                };
                self.carried.retain(|share, _| is_held(share));
                Ok(Leaving::Part(over))
            }
        }
    }

    /// Whether a share stays when a part leaves.
    fn stays(&self, share: &Option<Share>, over: &BTreeSet<Share>) -> bool {
        let known = share.as_ref();
        known.is_some_and(|it| self.shares_since.contains_key(it) && !over.contains(it))
    }

    /// The shares that stay when a part leaves, each with the time since when.
    pub(super) fn staying(&self, over: &BTreeSet<Share>) -> impl Iterator<Item = (&Share, &Now)> {
        let held = self.shares_since.iter();
        held.filter(|(share, _)| !over.contains(*share))
    }

    /// The shares that stay when a part leaves, with what they lose and the subtrees that they have.
    pub(super) fn held_shares(
        &self,
        over: &BTreeSet<Share>,
        gate: Option<GateSettings>,
        of: impl Fn(&Share) -> (Loss, Vec<Name>),
    ) -> Vec<HeldShare> {
        let hold = gate.and_then(|gate| gate.hold);
        let held = self.staying(over).map(|(share, since)| {
            let (loss, subtrees) = of(share);
            HeldShare {
                share: share.clone(),
                subtrees,
                loss,
                since_ms: since.ms,
                until_ms: hold.map(|hold| since.ms.saturating_add(millis_of(hold))),
            }
        });
        held.collect()
    }

    /// Since when the gate holds the whole zone, or was asked for the first time.
    pub(super) fn zone_since(&self) -> Now {
        self.zone_since.unwrap_or(self.since)
    }

    /// When something of it is let out by itself.
    pub(super) fn deadline(&self, hold: Duration) -> Option<Instant> {
        let of_shares = self.shares_since.values().map(|since| since.at).min();
        let first = self.zone_since.map(|since| since.at).or(of_shares);
        first?.checked_add(hold)
    }

    /// Lets changes cause a version at once.
    pub(super) fn wait_no_longer(&mut self) {
        for group in self.groups.values_mut() {
            group.due = None;
        }
    }

    /// All shares of it.
    pub(super) fn all_shares(&self) -> Holds {
        let shares: Option<BTreeSet<Share>> = self.groups.keys().cloned().collect();
        shares.map_or(Holds::Zone, Holds::Shares)
    }

    /// The groups that leave.
    fn groups_of<'a>(
        &'a self,
        leaving: &'a Leaving,
    ) -> impl Iterator<Item = (&'a Option<Share>, &'a Group)> {
        let is_leaving = move |share: &Option<Share>| match leaving {
            Leaving::All(_) => true,
            Leaving::Part(over) => !self.stays(share, over),
        };
        self.groups
            .iter()
            .filter(move |(share, _)| is_leaving(share))
    }

    /// When what leaves may cause a version. `None`: now, because an operator or the clock lets it out, or nothing leaves.
    pub(super) fn due(&self, leaving: &Leaving) -> Option<Instant> {
        let is_let_out = match leaving {
            Leaving::All(event) => !event.is_recovery(),
            Leaving::Part(over) => !over.is_empty(),
        };
        if is_let_out {
            return None;
        }
        self.groups_of(leaving)
            .map(|(_, group)| group.due)
            .min()
            .flatten()
    }

    /// The owners that leave, each with its share.
    pub(super) fn leaving<'a>(
        &'a self,
        leaving: &'a Leaving,
    ) -> impl Iterator<Item = (&'a Key, &'a Share)> {
        let groups = self.groups_of(leaving);
        let named = groups.filter_map(|(share, group)| Some((share.as_ref()?, group)));
        named.flat_map(|(share, group)| group.owners.iter().map(move |key| (key, share)))
    }

    /// The loss of the part that leaves, by share, without shares whose time is over.
    pub(super) fn passing(&self, over: &BTreeSet<Share>) -> BTreeMap<Option<Share>, usize> {
        let mut losses = self.losses();
        let is_over = |share: &Option<Share>| share.as_ref().is_some_and(|it| over.contains(it));
        losses.retain(|share, _| !self.stays(share, over) && !is_over(share));
        losses
    }

    /// The difference of the part that leaves from what is served. Costs what that part costs.
    pub(super) fn part(&self, served: &Contents, over: &BTreeSet<Share>) -> ZoneDraft {
        let mut edit = Edit::new(served);
        edit.set_soa(self.contents.soa().clone());
        let mut places: BTreeMap<u32, u32> = BTreeMap::new();
        let mut causes = Vec::new();
        let mut place_of = |tag: u32| {
            *places.entry(tag).or_insert_with(|| {
                let known = usize::try_from(tag).ok();
                let group = known.and_then(|tag| self.causes.get(tag));
                causes.push(group.cloned().unwrap_or_default());
                u32::try_from(causes.len() - 1).unwrap_or(0)
            })
        };
        let mut of_records = Tagged::new();
        let leaving = self
            .groups
            .iter()
            .filter(|(share, _)| !self.stays(share, over));
        for key in leaving.flat_map(|(_, group)| &group.owners) {
            let Some(touched) = self.touched.get(key) else {
                continue;
            };
            let each = touched.tags.each().into_iter();
            of_records.extend(each.map(|(record, tag)| (record, place_of(tag))));
            let tag = touched.tags.one().map_or(0, &mut place_of);
            match self.contents.get(key) {
                Some(node) => edit.set(node.clone(), tag),
                None => edit.remove(key, tag),
            }
        }
        let mut draft = edit.finish();
        retag(&mut draft, &of_records);
        if causes.is_empty() && draft.soa_changed {
            // A change of the SOA alone came with the newest draft.
            causes.extend(self.causes.last().cloned());
        }
        ZoneDraft { draft, causes }
    }

    /// A part has left.
    pub(super) fn depart(&mut self, over: &BTreeSet<Share>) {
        let groups = self.groups.keys().filter(|share| !self.stays(share, over));
        for share in groups.cloned().collect::<Vec<_>>() {
            for key in self
                .groups
                .remove(&share)
                .into_iter()
                .flat_map(|it| it.owners)
            {
                self.touched.remove(&key);
            }
        }
        self.shares_since.retain(|share, _| !over.contains(share));
        self.compact_if_many();
    }

    /// Who let it out of the gate, as a cause of the version; `None` where nothing was let out.
    pub(super) fn let_out(&self, event: &GateEvent, until_ms: Option<u64>) -> Option<Cause> {
        let by: Operator = match event {
            GateEvent::Released { by } => by.clone(),
            GateEvent::Expired => CLOCK.into(),
            GateEvent::Held(_)
            | GateEvent::Recovered { .. }
            | GateEvent::ShareOut { .. }
            | GateEvent::OnHold(_)
            | GateEvent::Resumed { .. } => return None,
        };
        let lost = self.held_records;
        let shares = self.shares_since.values();
        let first = shares.chain(&self.zone_since).map(|since| since.ms).min();
        let since = TimeText(first.unwrap_or(self.since.ms));
        let until = until_ms.map(|until| format!(" until {} at most", TimeText(until)));
        let until = until.unwrap_or_default();
        let what = format!("the gate held {lost} lost records since {since}{until}");
        Some(resumed(&what, by))
    }

    /// The clock lets shares out of the gate, as a cause of the version.
    pub(super) fn name_shares(&self, over: &BTreeSet<Share>) -> Cause {
        let groups = self.groups.iter();
        let leaving =
            groups.filter(|(share, _)| share.as_ref().is_some_and(|it| over.contains(it)));
        let lost: usize = leaving.map(|(_, group)| group.lost).sum();
        let since = over.iter().filter_map(|share| self.shares_since.get(share));
        let since = TimeText(since.map(|since| since.ms).min().unwrap_or(self.since.ms));
        let mut named = over.iter();
        let name = named.next().map(ToString::to_string).unwrap_or_default();
        let more = match named.count() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let what = format!("the gate held {lost} lost records of {name}{more} since {since}");
        resumed(&what, "the clock")
    }

    /// The difference from what is served.
    pub(super) fn draft(&mut self, served: &Contents) -> ZoneDraft {
        self.compact();
        let owners = self.touched.iter();
        let owners = owners.map(|(key, touched)| (&**key, touched.tags.one().unwrap_or(0)));
        let mut draft = Draft::between(served, self.contents.clone(), owners);
        let each = self.touched.values().flat_map(|it| it.tags.each());
        retag(&mut draft, &each.collect());
        ZoneDraft {
            draft,
            causes: self.causes.clone(),
        }
    }
}

/// The owners that a draft touches, each with the tag of its records; one that is in both lists comes twice.
pub(super) fn owners_of(draft: &Draft) -> impl Iterator<Item = (Key, u32)> {
    let apex = draft.contents.apex();
    let mut last: &[u8] = &[];
    let records = draft.removed.iter().chain(draft.added.iter());
    records.filter_map(move |rr| {
        if rr.owner == last {
            return None;
        }
        last = rr.owner;
        let key = Name::from_wire(rr.owner).ok()?.sort_key(apex)?;
        Some((key.as_bytes().into(), rr.tag))
    })
}

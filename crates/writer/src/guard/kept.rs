//! A kept draft: its contents, and the owners that differ from the served version.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dns::Name;
use ops::TimeText;
use provenance::{Cause, Verb};
use tokio::sync::oneshot;
use zone::check::Fault;
use zone::gate::{GateSettings, Why, counts, lost};
use zone::hold::resumed;
use zone::{Contents, Draft, Node};

use super::{GateEvent, Key, Now};
use crate::callers::Released;
use crate::zone_edit::ZoneDraft;

/// An owner that differs from the served version.
#[derive(Debug, Clone, Copy)]
struct Touched {
    tag: u32,
    /// Its lost records that count.
    lost: usize,
}

/// A draft that is not published yet.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) contents: Contents,
    /// The owners that differ from the served version.
    touched: BTreeMap<Key, Touched>,
    /// The sum of their losses.
    lost: usize,
    /// Groups of causes, by tag.
    causes: Vec<Vec<Cause>>,
    /// Faults by owner.
    pub(super) faults: BTreeMap<Key, Vec<Fault>>,
    /// Losses that passed shortly before and count too.
    pub(super) carried: usize,
    pub(super) since: Now,
    /// The event that publishes it with the next commit.
    pub(super) leaves: Option<GateEvent>,
    /// The operator that released it.
    pub(super) released_by: Option<Arc<str>>,
    /// Callers that wait for the release.
    pub(super) asked: Vec<oneshot::Sender<Released>>,
    /// Whether it was reported as held.
    pub(super) is_told: bool,
}

impl Kept {
    /// No change yet to the served contents.
    pub(super) const fn new(since: Now, contents: Contents, carried: usize) -> Self {
        Self {
            contents,
            touched: BTreeMap::new(),
            lost: 0,
            causes: Vec::new(),
            faults: BTreeMap::new(),
            carried,
            since,
            leaves: None,
            released_by: None,
            asked: Vec::new(),
            is_told: false,
        }
    }

    /// Goes on to the contents of a draft. `faults` holds what is wrong at owners where that may differ.
    pub(super) fn absorb(
        &mut self,
        served: &Contents,
        draft: ZoneDraft,
        faults: BTreeMap<Key, Vec<Fault>>,
    ) {
        let ZoneDraft { draft, causes } = draft;
        let first = u32::try_from(self.causes.len()).expect("fewer than 2^32 groups are held");
        for (key, tag) in owners_of(&draft) {
            let known = self.touched.remove(&key);
            let before = known.map_or(0, |known| known.lost);
            self.lost -= before;
            let (old, new) = (served.get(&key), draft.contents.get(&key));
            if old.map(Node::as_octets) == new.map(Node::as_octets) {
                continue;
            }
            let group = usize::try_from(tag).ok().and_then(|tag| causes.get(tag));
            let is_counted = before > 0 || group.is_some_and(|group| counts(group));
            let lost = if is_counted { lost(old, new) } else { 0 };
            self.lost += lost;
            let tag = first + tag;
            self.touched.insert(key, Touched { tag, lost });
        }
        self.contents = draft.contents;
        self.causes.extend(causes);
        for (key, found) in faults {
            if found.is_empty() {
                self.faults.remove(&key);
            } else {
                self.faults.insert(key, found);
            }
        }
        // Owners change again and again while something is held: their earlier causes are of no use.
        if self.causes.len() > 2 * self.touched.len() + 64 {
            self.compact();
        }
    }

    /// Goes on beside another content that is served: it differs from the last at these owners. What is
    /// different for no other reason has this cause, and is no loss.
    pub(super) fn rebase(&mut self, served: &Contents, owners: &BTreeSet<Key>, cause: &Cause) {
        let group = u32::try_from(self.causes.len()).expect("fewer than 2^32 groups are held");
        self.causes.push(vec![cause.clone()]);
        for key in owners {
            let known = self.touched.remove(key);
            self.lost -= known.map_or(0, |known| known.lost);
            let (old, new) = (served.get(key), self.contents.get(key));
            if old.map(Node::as_octets) == new.map(Node::as_octets) {
                continue;
            }
            let lost = match known {
                Some(known) if known.lost > 0 => lost(old, new),
                Some(_) | None => 0,
            };
            self.lost += lost;
            let tag = known.map_or(group, |known| known.tag);
            self.touched.insert(key.clone(), Touched { tag, lost });
        }
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
        let mut used: BTreeSet<u32> = self.touched.values().map(|it| it.tag).collect();
        if used.is_empty() {
            used.insert(0);
        }
        let places: BTreeMap<u32, u32> = (0..).zip(&used).map(|(new, old)| (*old, new)).collect();
        for owner in self.touched.values_mut() {
            owner.tag = places.get(&owner.tag).copied().unwrap_or(0);
        }
        let mut place = 0;
        self.causes.retain(|_| {
            place += 1;
            used.contains(&(place - 1))
        });
    }

    /// Why it may leave, or why not.
    pub(super) fn why_not(
        &self,
        gate: Option<GateSettings>,
        before: usize,
        now: Now,
    ) -> Result<GateEvent, Why> {
        let mut faults = self.faults.values().flatten();
        if let Some(fault) = faults.next() {
            return Err(Why::Unsound {
                fault: fault.to_string(),
                faults: 1 + faults.count(),
            });
        }
        if let Some(by) = self.released_by.as_ref().filter(|_| !self.asked.is_empty()) {
            return Ok(GateEvent::Released { by: Arc::clone(by) });
        }
        let Some((lost, before)) = self.stopped(gate, before) else {
            return Ok(GateEvent::Recovered);
        };
        let held = now.at.saturating_duration_since(self.since.at);
        if gate
            .and_then(|gate| gate.hold)
            .is_some_and(|hold| held >= hold)
        {
            return Ok(GateEvent::Expired);
        }
        Err(Why::Shrinks { lost, before })
    }

    /// The records that it loses and those there were, where the gate does not let that pass.
    pub(super) fn stopped(
        &self,
        gate: Option<GateSettings>,
        before: usize,
    ) -> Option<(usize, usize)> {
        let lost = self.lost + self.carried;
        let stops = |gate: GateSettings| self.lost > 0 && gate.stops(before, lost);
        gate.is_some_and(stops).then_some((lost, before))
    }

    /// Who let it out of the gate, as a cause of the version; `None` where nothing was let out.
    pub(super) fn let_out(&self, event: &GateEvent, until_ms: Option<u64>) -> Option<Cause> {
        let by = match event {
            GateEvent::Released { by } => &**by,
            GateEvent::Expired => "the clock",
            GateEvent::Held(_)
            | GateEvent::Recovered
            | GateEvent::OnHold(_)
            | GateEvent::Resumed { .. } => return None,
        };
        let lost = self.lost + self.carried;
        let since = TimeText(self.since.ms);
        let until = until_ms.map(|until| format!(" until {} at most", TimeText(until)));
        let until = until.unwrap_or_default();
        let what = format!("the gate held {lost} lost records since {since}{until}");
        Some(resumed(&what, by))
    }

    /// The difference from what is served.
    pub(super) fn draft(&mut self, served: &Contents) -> ZoneDraft {
        self.compact();
        let owners = self.touched.iter();
        let owners = owners.map(|(key, touched)| (&**key, touched.tag));
        ZoneDraft {
            draft: Draft::between(served, self.contents.clone(), owners),
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

//! The facts of the last version, kept beside it in the store: so the first lists of the next run tell what was done to
//! which object meanwhile.
//!
//! They are written a second after a change at the earliest, in portions, when the writer has nothing else to do, and only
//! while nothing of the cluster's zones is held: what waits is not published, so its objects are news for the next run, too.
//! A crash may lose the last second of them. Then an object that changed in it counts as changed meanwhile; its records
//! do not differ for that, so it is named nowhere.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use kubernetes::facts::stored::{FORM, decode, encode, stored_key};
use kubernetes::facts::{Fact, Reselected, State};
use provenance::FactKey;

use crate::cluster::Cluster;
use crate::cluster::zone::ClusterZone;
use crate::guard::Holds;
use crate::{Pipeline, Store};

/// The facts of one write.
const PORTION: usize = 256;
/// The time between two writes of a cluster's facts.
const PAUSE: Duration = Duration::from_secs(1);
/// The key of the entry that says which facts these are. It comes first.
const HEADER: &[u8] = b"";

/// What the store knows of a cluster's facts.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Whether the store was asked for those of the last run.
    is_asked: bool,
    /// The objects whose facts differ from the store's.
    unsaved: BTreeSet<FactKey>,
    /// Whether the store has all others, with a header.
    is_whole: bool,
    /// When facts may be written again.
    next: Option<Instant>,
    /// Whether the source was restarted by a change of the configuration when the store had all facts.
    pub(super) is_restart: bool,
}

impl Memory {
    /// The memory of a cluster whose source was restarted by a change of the configuration. `is_saved`: the store has all
    /// its facts.
    pub(super) fn restarted(is_saved: bool) -> Self {
        Self {
            is_restart: is_saved,
            ..Self::default()
        }
    }
}

/// The header of facts that were read so.
fn header(selection: &str) -> Vec<u8> {
    format!("{FORM} {selection}").into_bytes()
}

/// The facts of the last run, with what was read then; `None` if they are not known.
fn read<S: Store>(store: &mut S, cluster: &Cluster) -> Option<(State, String)> {
    let mut header = None;
    let mut state = State::new(cluster.plan.kinds);
    let mut facts: Vec<Fact> = Vec::new();
    let mut is_sound = true;
    let done = store.read_beside(cluster.plan.home(), &mut |key, value| {
        if key == HEADER {
            header = std::str::from_utf8(value).ok().map(str::to_owned);
            return;
        }
        match decode(value) {
            Some(fact) => facts.push(fact),
            None => is_sound = false,
        }
        if facts.len() >= PORTION {
            state.recall(facts.drain(..));
        }
    });
    state.recall(facts);
    let header = header?;
    let (form, selection) = header.split_once(' ')?;
    let is_ours = is_sound && done && form == FORM.to_string();
    is_ours.then(|| (state, selection.to_owned()))
}

impl Cluster {
    /// Writes all facts again, because they belong beside another zone now.
    pub(super) fn remember_anew(&mut self) {
        self.memory = Memory {
            is_asked: true,
            ..Memory::default()
        };
        self.state.touch_all();
    }

    /// Whether there are facts to write, unless something is held.
    fn has_unsaved(&self) -> bool {
        !self.memory.unsaved.is_empty() || self.state.is_touched()
    }

    /// Takes in the facts of the last run, before the first list.
    pub(super) fn recall<S: Store>(&mut self, store: &mut S) {
        if std::mem::replace(&mut self.memory.is_asked, true) {
            return;
        }
        let home = self.plan.home().clone();
        let Some((state, selection)) = read(store, self) else {
            if let Err(error) = store.forget_beside(&home) {
                tracing::debug!(zone = %home, %error, "the facts of an earlier run cannot be removed");
            }
            return;
        };
        self.state = state;
        let is_same = selection == self.plan.selection;
        if !is_same || self.memory.is_restart {
            self.state.reselect(Reselected {
                source: self.plan.source.as_str().into(),
                is_alone: self.memory.is_restart,
            });
        }
        self.memory.is_whole = is_same;
        self.is_exact = is_same || self.memory.is_restart;
    }

    /// Whether the facts are those of the published versions: nothing waits or is held.
    fn is_published(&self) -> bool {
        let is_free = |zone: &ClusterZone| {
            zone.guard.holds() == Holds::Nothing && zone.guard.standing().is_none()
        };
        self.state.is_synced() && !self.is_due() && self.zones.iter().all(is_free)
    }

    /// The next facts for the store; `None` if there are none to write now.
    fn portion(&mut self) -> Option<Portion> {
        if !self.is_published() {
            return None;
        }
        self.memory.unsaved.append(&mut self.state.take_touched());
        let due = self.memory.unsaved.iter().take(PORTION);
        let due: Vec<FactKey> = due.cloned().collect();
        if due.is_empty() && self.memory.is_whole {
            return None;
        }
        let is_last = due.len() == self.memory.unsaved.len();
        let entry = |key: &FactKey| {
            let fact = self.state.fact(key);
            (stored_key(key), fact.as_ref().and_then(encode))
        };
        let mut entries: Vec<_> = due.iter().map(entry).collect();
        if is_last && !self.memory.is_whole {
            entries.push((HEADER.to_vec(), Some(header(&self.plan.selection))));
        }
        Some(Portion {
            due,
            entries,
            is_last,
        })
    }

    /// Writes the next facts. Whether there are more to write at once.
    fn save<S: Store>(&mut self, store: &mut S, now: Instant) -> bool {
        let Some(portion) = self.portion() else {
            return false;
        };
        if let Err(error) = store.put_beside(self.plan.home(), &portion.entries) {
            tracing::debug!(zone = %self.plan.home(), %error, "the facts beside the versions cannot be written");
            self.memory.next = Some(now + PAUSE);
            return false;
        }
        for key in &portion.due {
            self.memory.unsaved.remove(key);
        }
        self.memory.is_whole |= portion.is_last;
        if portion.is_last {
            self.memory.next = Some(now + PAUSE);
        }
        !portion.is_last
    }

    /// Writes all facts that the store lacks. Whether it has all of them then.
    pub(super) fn save_all<S: Store>(&mut self, store: &mut S, now: Instant) -> bool {
        while self.save(store, now) {}
        self.memory.is_whole && self.is_published() && self.memory.unsaved.is_empty()
    }
}

/// What is written at once.
struct Portion {
    due: Vec<FactKey>,
    entries: Vec<zone::journal::Beside>,
    /// Whether the store has all facts then.
    is_last: bool,
}

impl<S: Store> Pipeline<S> {
    /// Writes facts that the store lacks, where it is time to. Whether there are more to write at once.
    pub(super) fn save_facts(&mut self) -> bool {
        let now = self.clock.now();
        let is_time = |it: &&mut Cluster| it.memory.next.is_none_or(|next| next <= now);
        let due = self.clusters.iter_mut().filter(is_time);
        let mut more = false;
        for cluster in due {
            more |= cluster.save(&mut self.store, now);
        }
        more
    }

    /// When there may be facts to write; `None`: not before the next input.
    pub(super) fn facts_due(&self) -> Option<Instant> {
        let waiting = self.clusters.iter().filter(|it| it.has_unsaved());
        waiting.filter_map(|cluster| cluster.memory.next).min()
    }

    /// Writes all facts that the store lacks, because the writer ends.
    pub(super) fn save_all_facts(&mut self) {
        let now = self.clock.now();
        for cluster in &mut self.clusters {
            cluster.save_all(&mut self.store, now);
        }
    }
}

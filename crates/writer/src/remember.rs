//! The facts of the last version, kept beside it in the store: so the first lists of the next run tell what was done to
//! which object meanwhile.
//!
//! What a commit publishes is written with it, unless it is much. The rest, as after a first list, is written in portions, a
//! second after the last ones at the earliest, when the writer has nothing else to do. Nothing is written while something of the cluster's
//! zones is held: what waits is not published, so its objects are news for the next run, too. A crash may lose the last
//! second of changes that made no version. Such an object counts as changed meanwhile; its records do not differ for that.

use std::time::{Duration, Instant};

use dns::Name;
use kubernetes::facts::stored::{FORM, decode, encode, stored_key};
use kubernetes::facts::{Fact, Reselected, State};
use provenance::{Cause, FactKey, Kind, Verb};

use crate::cluster::Cluster;
use crate::cluster::zone::ClusterZone;
use crate::corefile_cause::change_of_corefile;
use crate::guard::Holds;
use crate::memory::{Memory, Portion, Since};
use crate::{Pipeline, Store};

/// The most facts of one write.
const PORTION: usize = 256;
/// The size of the facts after which a write has no more of them.
const PORTION_OCTETS: usize = 512 << 10;
/// So many objects may differ from the store's facts, besides twice as many as there are. While something is held, objects
/// come and go.
const UNSAVED_MOST: usize = 1 << 17;
/// The time between two writes of a cluster's facts.
const PAUSE: Duration = Duration::from_secs(1);
/// The key of the entry that says which facts these are. It comes first.
const HEADER: &[u8] = b"";

/// What the facts of the last run were.
struct Remembered {
    state: State,
    /// The digest of the Corefile by which they were published.
    corefile: String,
    /// What was read.
    selection: String,
    /// Objects of kinds that are not watched any more.
    unwatched: Vec<FactKey>,
}

/// The facts of the last run; `None` if they are not known.
fn read<S: Store>(store: &mut S, cluster: &Cluster) -> Option<Remembered> {
    let mut header = None;
    let mut state = State::new(cluster.plan.kinds);
    let mut facts: Vec<Fact> = Vec::new();
    let mut unwatched = Vec::new();
    let mut is_sound = true;
    let done = store.read_beside(cluster.plan.home(), &mut |key, value| {
        if key == HEADER {
            header = std::str::from_utf8(value).ok().map(str::to_owned);
            return;
        }
        match decode(value) {
            Some(fact) if !cluster.plan.kinds.contains(fact.kind()) => {
                unwatched.push(fact.kind().of(fact.key()));
            }
            Some(fact) => facts.push(fact),
            None => is_sound = false,
        }
        if facts.len() >= PORTION {
            state.recall(facts.drain(..));
        }
    });
    state.recall(facts);
    let header = header?;
    let (form, rest) = header.split_once(' ')?;
    let (corefile, selection) = rest.split_once(' ')?;
    let is_ours = is_sound && done && form == FORM.to_string();
    is_ours.then(|| Remembered {
        state,
        corefile: corefile.to_owned(),
        selection: selection.to_owned(),
        unwatched,
    })
}

/// Has the store forget all facts of a cluster. False if it refuses.
fn forget<S: Store>(store: &mut S, home: &Name) -> bool {
    let forgotten = store.forget_beside(home);
    if let Err(error) = &forgotten {
        tracing::debug!(zone = %home, %error, "facts beside the versions cannot be removed");
    }
    forgotten.is_ok()
}

impl Cluster {
    /// Writes all facts again, because the store has none of them.
    pub(super) fn remember_anew(&mut self) {
        self.memory = Memory {
            is_asked: true,
            unsaved: self.state.objects().collect(),
            ..Memory::default()
        };
    }

    /// Whether there are facts to write, unless something is held.
    fn has_unsaved(&self) -> bool {
        let memory = &self.memory;
        let is_known = memory.is_asked && (memory.is_header_due || memory.is_overrun);
        is_known || !memory.unsaved.is_empty()
    }

    /// Takes in the facts of the last run, before the first list. `corefile`: the digest of the one in use.
    pub(super) fn recall<S: Store>(&mut self, store: &mut S, corefile: &str) {
        if std::mem::replace(&mut self.memory.is_asked, true) {
            return;
        }
        let home = self.plan.home().clone();
        let Some(remembered) = read(store, self) else {
            forget(store, &home);
            return;
        };
        self.state = remembered.state;
        // A restarted source has the changes that wait in its guards.
        if self.memory.since == Since::Start {
            self.name_waiting_corefile(corefile, &remembered.corefile);
        }
        let is_alone = self.memory.since == Since::Restart { is_saved: true };
        let is_same = remembered.selection == self.plan.selection;
        if !is_same || is_alone {
            self.state.reselect(Reselected {
                source: self.plan.source.as_str().into(),
                is_alone,
            });
        }
        self.memory.is_whole = is_same;
        self.memory.is_header_due = remembered.corefile != corefile;
        self.memory.unsaved.extend(remembered.unwatched);
        self.is_exact = is_same || is_alone;
    }

    /// Names the change from the Corefile by which the facts were published to the one in use, which may have waited over
    /// several runs, in place of what is known of the last run's.
    fn name_waiting_corefile(&mut self, new: &str, old: &str) {
        let change =
            (new != old).then(|| Cause::of(Verb::Configured, &change_of_corefile(new, old)));
        for zone in &mut self.zones {
            zone.guard.notes.retain(|note| !note.is_configured());
            if let Some(cause) = &change {
                zone.guard.note(cause.clone());
            }
        }
    }

    /// Whether nothing of the zones waits, is held, or lacks its file after this commit.
    fn is_free(&self) -> bool {
        let is_free = |ClusterZone { guard, overlay, .. }: &ClusterZone| {
            let is_read = overlay
                .as_ref()
                .is_none_or(|overlay| overlay.file.is_some());
            is_read && guard.holds() == Holds::Nothing && !guard.is_on_hold()
        };
        self.state.is_synced() && self.zones.iter().all(is_free)
    }

    /// Whether the facts are those of the published versions.
    fn is_published(&self) -> bool {
        !self.is_due() && self.is_free()
    }

    /// Takes down which objects changed.
    pub(super) fn note_changed(&mut self) {
        self.memory.unsaved.append(&mut self.state.take_touched());
        let objects: usize = Kind::ALL.map(|kind| self.state.count(kind)).iter().sum();
        if self.memory.unsaved.len() > UNSAVED_MOST + 2 * objects {
            self.memory.unsaved.clear();
            self.memory.is_overrun = true;
        }
    }

    /// The facts that a commit publishes, if they are few and all that the store lacks.
    pub(super) fn portion_of_commit(&mut self, corefile: &str) -> Option<Portion> {
        let is_few = self.memory.unsaved.len() <= PORTION && !self.memory.is_overrun;
        let portion = (is_few && self.is_free()).then(|| self.portion(corefile))?;
        portion.filter(|portion| portion.is_last)
    }

    /// The next facts for the store; `None` if there are none.
    fn portion(&self, corefile: &str) -> Option<Portion> {
        let Memory {
            unsaved,
            is_whole,
            is_header_due,
            ..
        } = &self.memory;
        let has_header = !is_whole || *is_header_due;
        if unsaved.is_empty() && !has_header {
            return None;
        }
        let (mut due, mut entries, mut octets) = (Vec::new(), Vec::new(), 0);
        for key in unsaved.iter().take(PORTION) {
            let fact = self.state.fact(key);
            let fact = fact.as_ref().and_then(encode);
            octets += fact.as_ref().map_or(0, Vec::len);
            entries.push((stored_key(key), fact));
            due.push(key.clone());
            if octets >= PORTION_OCTETS {
                break;
            }
        }
        let is_last = due.len() == unsaved.len();
        if is_last && has_header {
            let header = format!("{FORM} {corefile} {}", self.plan.selection);
            entries.push((HEADER.to_vec(), Some(header.into_bytes())));
        }
        Some(Portion {
            due,
            entries,
            is_last,
        })
    }

    /// Writes the next facts. Whether there are more to write at once.
    fn save<S: Store>(&mut self, store: &mut S, corefile: &str, now: Instant) -> bool {
        if !self.is_published() {
            return false;
        }
        if self.memory.is_overrun && forget(store, self.plan.home()) {
            self.remember_anew();
        }
        let Some(portion) = self.portion(corefile) else {
            return false;
        };
        if let Err(error) = store.put_beside(self.plan.home(), &portion.entries) {
            tracing::debug!(zone = %self.plan.home(), %error, "the facts beside the versions cannot be written");
            self.memory.next = Some(now + PAUSE);
            return false;
        }
        self.saved(&portion, now);
        !portion.is_last
    }

    /// The store has these facts now.
    pub(super) fn saved(&mut self, portion: &Portion, now: Instant) {
        for key in &portion.due {
            self.memory.unsaved.remove(key);
        }
        if portion.is_last {
            self.memory.is_whole = true;
            self.memory.is_header_due = false;
            self.memory.next = Some(now + PAUSE);
        }
    }

    /// Writes all facts that the store lacks. Whether it has all of them then.
    pub(super) fn save_all<S: Store>(
        &mut self,
        store: &mut S,
        corefile: &str,
        now: Instant,
    ) -> bool {
        while self.save(store, corefile, now) {}
        self.memory.is_whole && self.is_published() && self.memory.unsaved.is_empty()
    }
}

impl<S: Store> Pipeline<S> {
    /// Has the store forget the facts of a cluster that is gone, or has another home.
    pub(super) fn forget_facts(&mut self, home: &Name) {
        forget(&mut self.store, home);
    }

    /// Writes facts that the store lacks, where it is time to. Whether there are more to write at once.
    pub(super) fn save_facts(&mut self) -> bool {
        let now = self.clock.now();
        let is_time = |it: &&mut Cluster| it.memory.next.is_none_or(|next| next <= now);
        let due = self.clusters.iter_mut().filter(is_time);
        let mut more = false;
        for cluster in due {
            more |= cluster.save(&mut self.store, &self.in_use, now);
        }
        more
    }

    /// When there may be facts to write; `None`: not before the next input.
    pub(super) fn facts_due(&self) -> Option<Instant> {
        // What is held is not written, however long that takes.
        let is_due = |it: &&Cluster| it.has_unsaved() && it.is_published();
        let waiting = self.clusters.iter().filter(is_due);
        waiting.filter_map(|cluster| cluster.memory.next).min()
    }

    /// Writes all facts that the store lacks, because the writer ends.
    pub(super) fn save_all_facts(&mut self) {
        let now = self.clock.now();
        for cluster in &mut self.clusters {
            cluster.save_all(&mut self.store, &self.in_use, now);
        }
    }
}

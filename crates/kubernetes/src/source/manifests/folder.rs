//! The content of a folder of manifests, and what changed since it was last read.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use ops::watch::Inode;
use provenance::{FactKey, Kind, ObjectKey, Origin};

use super::parse::{Unparsable, parse};
use super::walk::{Stamp, walk};
use crate::facts::{Change, Fact, Namespace};
use crate::source::problem::Reported;
use crate::source::{About, Interner, Problem, SourceStats, Wanted};

#[derive(Debug, Default)]
struct File {
    /// The file's stamp when it was read.
    stamp: Stamp,
    /// Whether every later change must show in the stamp.
    settled: bool,
    facts: HashMap<FactKey, Held>,
    /// The number of objects of other kinds.
    ignored: usize,
    /// The time when the file was first found missing or empty.
    missing_since: Option<Instant>,
}

/// A fact in a file.
#[derive(Debug, Clone)]
struct Held {
    fact: Fact,
    /// Whether it is a Namespace that objects of the file only name.
    implied: bool,
    /// Whether the selector matches. A fact that does not match still hides those of other files.
    is_shown: bool,
}

/// The subject of a problem.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Owner {
    File(Arc<str>),
    /// An object that is in several files.
    Object(FactKey),
    /// A folder that cannot be read.
    Folder(String),
}

/// The result of reading the folder.
#[derive(Debug, Default)]
pub(super) struct Reread {
    /// The complete list of each kind at first, single changes later.
    pub(super) changes: Vec<Change>,
    /// New problems.
    pub(super) problems: Vec<Problem>,
    /// The time to read again in any case: a file is missing, perhaps because an editor is writing it.
    pub(super) again: Option<Duration>,
    /// The reason why the folder, or one below it, cannot be read.
    pub(super) unreadable: Option<String>,
    /// The number of files that were read; the others have not changed.
    pub(super) files_read: usize,
    /// The folders to watch.
    pub(super) folders: BTreeMap<PathBuf, Inode>,
}

/// A reading in progress.
#[derive(Debug)]
struct Pass {
    /// The current time, for the grace period.
    now: Instant,
    /// The time of day, to compare with the times of files.
    wall: SystemTime,
    /// The keys whose fact may have changed.
    dirty: BTreeSet<FactKey>,
    out: Reread,
}

#[derive(Debug)]
pub(super) struct Folder {
    root: PathBuf,
    wanted: Wanted,
    /// The time that a file may be missing before its objects are removed.
    grace: Duration,
    /// The files by their path below the root.
    files: BTreeMap<Arc<str>, File>,
    /// The files that contain each object.
    owners: HashMap<FactKey, BTreeSet<Arc<str>>>,
    told: HashMap<FactKey, Fact>,
    /// Whether the complete lists were sent.
    listed: bool,
    interner: Interner,
    reported: Reported<Owner>,
    stats: Arc<SourceStats>,
}

impl Folder {
    pub(super) fn new(
        root: PathBuf,
        wanted: Wanted,
        grace: Duration,
        stats: Arc<SourceStats>,
    ) -> Self {
        Self {
            root,
            wanted,
            grace,
            files: BTreeMap::new(),
            owners: HashMap::new(),
            told: HashMap::new(),
            listed: false,
            interner: Interner::default(),
            reported: Reported::on(stats.board()),
            stats,
        }
    }

    /// Reads the changed files. Costs one look at each file's stamp, and the objects of the changed files.
    pub(super) fn reread(&mut self, now: Instant, wall: SystemTime) -> Reread {
        let found = walk(&self.root);
        let out = Reread {
            folders: found.folders,
            ..Reread::default()
        };
        let mut pass = Pass {
            now,
            wall,
            dirty: BTreeSet::new(),
            out,
        };
        for (name, (path, stamp)) in &found.files {
            if !self.is_current(name, stamp) {
                self.read_file(name, path, *stamp, &mut pass);
            }
        }
        let covered = |name: &str| {
            found.unreadable.iter().any(|(below, _)| {
                let rest = name.strip_prefix(below.as_str());
                below.is_empty() || rest.is_some_and(|rest| rest.starts_with('/'))
            })
        };
        let is_lost = |name: &&Arc<str>| !found.files.contains_key(*name) && !covered(name);
        let lost: Vec<Arc<str>> = self.files.keys().filter(is_lost).cloned().collect();
        for name in lost {
            self.lose_file(&name, &mut pass);
        }
        let rootless = found.unreadable.iter().any(|(below, _)| below.is_empty());
        self.note_unreadable(found.unreadable, &mut pass.out);
        if self.listed || !rootless {
            self.tell(pass.dirty, &mut pass.out);
        }
        self.stats
            .set_ignored(self.files.values().map(|file| file.ignored).sum());
        pass.out
    }

    /// Whether a file has not changed since it was read.
    fn is_current(&self, name: &str, stamp: &Stamp) -> bool {
        self.files.get(name).is_some_and(|file| {
            file.settled && file.stamp == *stamp && file.missing_since.is_none()
        })
    }

    /// Reads a file. If it cannot be read or parsed, its last good content is kept.
    fn read_file(&mut self, name: &Arc<str>, path: &Path, stamp: Stamp, pass: &mut Pass) {
        pass.out.files_read += 1;
        let text = match std::fs::read(path) {
            Ok(bytes) => String::from_utf8(bytes)
                .map_err(|error| format!("not UTF-8 at byte {}", error.utf8_error().valid_up_to())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return self.lose_file(name, pass);
            }
            Err(error) => Err(error.to_string()),
        };
        if text.as_ref().is_ok_and(|text| text.trim().is_empty()) && self.holds_facts(name) {
            // Editors empty a file before they write it.
            return self.lose_file(name, pass);
        }
        let parsed = text
            .map_err(|message| Unparsable {
                line: None,
                message,
            })
            .and_then(|text| parse(name, &text, &self.wanted, &mut self.interner));
        let settled = stamp.is_settled(pass.wall);
        let file = self.file(name);
        (file.stamp, file.settled, file.missing_since) = (stamp, settled, None);
        let problems = match parsed {
            Ok(parsed) => {
                file.ignored = parsed.ignored;
                for kind in parsed.left_out {
                    self.stats.kind(kind).add_left_out();
                }
                let facts = with_namespaces(
                    parsed.facts,
                    &parsed.hidden,
                    &self.wanted,
                    &mut self.interner,
                );
                self.replace(name, facts, &mut pass.dirty);
                parsed.problems
            }
            Err(Unparsable { line, message }) => {
                let place = match line {
                    Some(line) => format!("{name}:{line}").into(),
                    None => Arc::clone(name),
                };
                let kept = if self.holds_facts(name) {
                    "; its last good content is kept"
                } else {
                    ""
                };
                let message = format!("{message}{kept}");
                vec![Problem {
                    about: About::File,
                    place,
                    message,
                }]
            }
        };
        pass.out
            .problems
            .extend(self.reported.now(Owner::File(Arc::clone(name)), problems));
    }

    fn holds_facts(&self, name: &str) -> bool {
        self.files
            .get(name)
            .is_some_and(|file| !file.facts.is_empty())
    }

    /// Replaces the facts of a file.
    fn replace(
        &mut self,
        name: &Arc<str>,
        facts: HashMap<FactKey, Held>,
        dirty: &mut BTreeSet<FactKey>,
    ) {
        for key in facts.keys() {
            self.owners
                .entry(key.clone())
                .or_default()
                .insert(Arc::clone(name));
            dirty.insert(key.clone());
        }
        let before = std::mem::take(&mut self.file(name).facts);
        for key in before.into_keys() {
            if !facts.contains_key(&key)
                && let Some(owners) = self.owners.get_mut(&key)
            {
                owners.remove(name);
                if owners.is_empty() {
                    self.owners.remove(&key);
                }
                dirty.insert(key);
            }
        }
        self.file(name).facts = facts;
    }

    /// The entry of a file, created if necessary.
    fn file(&mut self, name: &Arc<str>) -> &mut File {
        self.files.entry(Arc::clone(name)).or_default()
    }

    /// Handles a missing or empty file. Its objects are removed when it stays so for the grace period.
    fn lose_file(&mut self, name: &Arc<str>, pass: &mut Pass) {
        let Some(file) = self.files.get_mut(name) else {
            return;
        };
        let since = *file.missing_since.get_or_insert(pass.now);
        let away = pass.now.saturating_duration_since(since);
        if away < self.grace {
            let left = self.grace - away;
            pass.out.again = Some(pass.out.again.map_or(left, |again| again.min(left)));
            return;
        }
        self.replace(name, HashMap::new(), &mut pass.dirty);
        self.files.remove(name);
        pass.out
            .problems
            .extend(self.reported.now(Owner::File(Arc::clone(name)), Vec::new()));
    }

    /// Reports unreadable folders. Their content is kept.
    fn note_unreadable(&mut self, unreadable: Vec<(String, String)>, out: &mut Reread) {
        for (below, reason) in unreadable {
            let folder = if below.is_empty() {
                self.root.clone()
            } else {
                self.root.join(&below)
            };
            let message = format!("folder {} cannot be read: {reason}", folder.display());
            let about = About::Source;
            let problem = Problem {
                about,
                place: "".into(),
                message: message.clone(),
            };
            out.problems
                .extend(self.reported.now(Owner::Folder(below), vec![problem]));
            out.unreadable = Some(message);
        }
        if out.unreadable.is_none() {
            self.reported
                .forget(|owner| matches!(owner, Owner::Folder(_)));
        }
    }

    /// The fact that counts for a key: that of the last file by name that contains the object; otherwise that of the
    /// first that implies it; none when the selector does not match.
    fn winner(&self, key: &FactKey) -> Option<&Fact> {
        let held = |name| {
            self.files
                .get(name)
                .and_then(|file: &File| file.facts.get(key))
        };
        let owners = self.owners.get(key)?;
        let explicit = owners
            .iter()
            .rev()
            .filter_map(held)
            .find(|held| !held.implied);
        explicit
            .or_else(|| owners.iter().find_map(held))
            .filter(|held| held.is_shown)
            .map(|held| &held.fact)
    }

    /// Adds the changes of the dirty keys.
    fn tell(&mut self, mut dirty: BTreeSet<FactKey>, out: &mut Reread) {
        if !self.listed {
            dirty.extend(self.owners.keys().cloned());
        }
        let mut lists: BTreeMap<Kind, Vec<Fact>> = BTreeMap::new();
        for key in dirty {
            self.note_rivals(&key, out);
            let now = self.winner(&key).cloned();
            let before = self.told.get(&key);
            match (before, now) {
                (Some(before), None) => {
                    out.changes
                        .push(Change::Deleted(key.clone(), before.origin().clone()));
                    self.told.remove(&key);
                }
                (before, Some(now)) => {
                    if !self.listed {
                        lists.entry(key.kind).or_default().push(now.clone());
                    } else if !before.is_some_and(|before| same_content(before, &now)) {
                        out.changes.push(Change::Applied(now.clone()));
                    }
                    // Also when only its origin changed.
                    self.told.insert(key, now);
                }
                (None, None) => {}
            }
        }
        if self.listed {
            for change in &out.changes {
                let kind = match change {
                    Change::Applied(fact) => fact.kind(),
                    Change::Deleted(key, _) => key.kind,
                    Change::Listed(kind, _) => *kind,
                };
                self.stats.kind(kind).add_event();
            }
            return;
        }
        self.listed = true;
        for kind in self.wanted.kinds.iter() {
            self.stats.kind(kind).add_list();
            out.changes.push(Change::Listed(
                kind,
                lists.remove(&kind).unwrap_or_default(),
            ));
        }
    }

    /// Reports an object in several files. Namespaces may be, because only their name counts.
    fn note_rivals(&mut self, key: &FactKey, out: &mut Reread) {
        let rivals = match (key.kind, self.owners.get(key)) {
            (Kind::Namespace, _) | (_, None) => None,
            (
                Kind::Service | Kind::EndpointSlice | Kind::Pod | Kind::ServiceImport,
                Some(owners),
            ) => Some(owners).filter(|owners| owners.len() > 1),
        };
        let Some(rivals) = rivals else {
            self.reported.now(Owner::Object(key.clone()), Vec::new());
            return;
        };
        let place = |name: &Arc<str>| {
            self.files
                .get(name)?
                .facts
                .get(key)
                .map(|held| Arc::clone(&held.fact.origin().place))
        };
        let mut places: Vec<Arc<str>> = rivals.iter().filter_map(place).collect();
        let Some(place) = places.pop() else { return };
        let others = places.join(", ");
        let message = format!("is also in {others}; the last file by name counts");
        let problem = Problem {
            about: About::Object(key.clone()),
            place,
            message,
        };
        out.problems
            .extend(self.reported.now(Owner::Object(key.clone()), vec![problem]));
    }
}

/// The facts of a file, and a Namespace for each namespace that its objects name.
fn with_namespaces(
    facts: HashMap<FactKey, Fact>,
    hidden: &HashSet<FactKey>,
    wanted: &Wanted,
    interner: &mut Interner,
) -> HashMap<FactKey, Held> {
    let mut named: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
    for fact in facts.values().filter(|fact| fact.kind() != Kind::Namespace) {
        let place = &fact.origin().place;
        let first = named
            .entry(Arc::clone(&fact.key().namespace))
            .or_insert_with(|| place.clone());
        // Both are in the same file, so the shorter line number is the smaller one.
        if (place.len(), place) < (first.len(), &*first) {
            *first = Arc::clone(place);
        }
    }
    let explicit = |(key, fact): (FactKey, Fact)| {
        let is_shown = !hidden.contains(&key);
        let held = Held {
            fact,
            implied: false,
            is_shown,
        };
        (key, held)
    };
    let mut held: HashMap<FactKey, Held> = facts.into_iter().map(explicit).collect();
    // An implied Namespace has no labels.
    let selector = wanted.selector(Kind::Namespace);
    let is_shown = selector.is_none_or(|selector| selector.matches(|_| None));
    for (name, place) in named {
        let key = ObjectKey {
            namespace: interner.get(""),
            name,
        };
        let empty = interner.get("");
        // No manifest has it: it comes with the first object in it, and goes with the last one.
        let place = interner.get(&format!("{place}, implied"));
        let origin = Origin {
            uid: Arc::clone(&empty),
            resource_version: Arc::clone(&empty),
            manager: Arc::clone(&empty),
            operation: empty,
            place,
        };
        let fact_key = FactKey {
            kind: Kind::Namespace,
            key: key.clone(),
        };
        let fact = Fact::Namespace(Namespace { key, origin });
        held.entry(fact_key).or_insert(Held {
            fact,
            implied: true,
            is_shown,
        });
    }
    held
}

/// Whether two facts are equal apart from their origins.
fn same_content(one: &Fact, other: &Fact) -> bool {
    let bare = |fact: &Fact| {
        let mut fact = fact.clone();
        match &mut fact {
            Fact::Namespace(namespace) => namespace.origin = Origin::default(),
            Fact::Service(service) => service.origin = Origin::default(),
            Fact::EndpointSlice(slice) => slice.origin = Origin::default(),
            Fact::ServiceImport(import) => import.origin = Origin::default(),
            Fact::Pod(pod) => pod.origin = Origin::default(),
        }
        fact
    };
    bare(one) == bare(other)
}

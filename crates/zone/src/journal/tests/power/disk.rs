//! What a disk may hold after the power was lost, or after the process was killed.
//!
//! A file's octets are as at its last sync, and each write since then may have reached the disk or not,
//! sector by sector, in any order. Names are made, changed and removed in their order, folder by folder, up
//! to any point at or after the folder's last sync. A sync counts once it has ended, for what had
//! ended before it began. A file that was synced while its name was not may be lost: only a sync of the
//! folder keeps names.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use fastrand::Rng;

use super::trace::{Call, Effect};

/// Octets that a disk writes as one.
const SECTOR: usize = 512;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// It is killed: all it did stands.
    Kill,
    Power,
    /// The power is lost, and nothing was ever synced: what a store without syncs would risk. For trying
    /// the check.
    PowerWithoutSyncs,
}

/// Names a file whatever it is called.
type Id = usize;

/// A change of a name.
#[derive(Debug, Clone)]
enum NameChange {
    /// A file or (without an id) a folder.
    Add(PathBuf, Option<Id>),
    Move(PathBuf, PathBuf),
    /// A file or a folder.
    Drop(PathBuf),
}

/// A change of octets that is not synced yet.
#[derive(Debug, Clone)]
struct Pending {
    end: usize,
    /// What it does: octets at a place, or a new length.
    octets: Option<Vec<u8>>,
    at: usize,
}

impl Pending {
    fn apply(&self, file: &mut Vec<u8>) {
        match &self.octets {
            Some(octets) => {
                let end = self.at + octets.len();
                if file.len() < end {
                    file.resize(end, 0);
                }
                file[self.at..end].copy_from_slice(octets);
            }
            None => file.resize(self.at, 0),
        }
    }
}

#[derive(Debug, Clone, Default)]
struct FileState {
    synced: Vec<u8>,
    pending: Vec<Pending>,
}

/// The disk, call by call.
#[derive(Debug, Default)]
pub(super) struct Disk {
    files: Vec<FileState>,
    /// What each name is while the process runs.
    names: HashMap<PathBuf, Option<Id>>,
    /// All changes of names, each with the folder it is in and when it ended.
    changes: Vec<(PathBuf, usize, NameChange)>,
    /// How many of a folder's changes are certain.
    certain: BTreeMap<PathBuf, usize>,
    /// Syncs that have begun and not ended, as far as was played.
    syncs: Vec<(usize, usize, PathBuf)>,
    deaf: bool,
}

impl Disk {
    /// An empty one; its top folder is there.
    pub(super) fn new(end: End) -> Self {
        Self {
            deaf: end == End::PowerWithoutSyncs,
            ..Self::default()
        }
    }

    /// Plays a call that began before the cut; those with an earlier begin were played before.
    pub(super) fn play(&mut self, call: &Call) {
        self.end_syncs(call.begin);
        match &call.effect {
            Effect::Create(path) => {
                if !self.names.contains_key(path) {
                    let id = self.files.len();
                    self.files.push(FileState::default());
                    self.names.insert(path.clone(), Some(id));
                    self.change(path, call, NameChange::Add(path.clone(), Some(id)));
                }
            }
            Effect::MakeDir(path) => {
                self.names.insert(path.clone(), None);
                self.change(path, call, NameChange::Add(path.clone(), None));
            }
            Effect::Rename(from, to) => {
                assert_eq!(from.parent(), to.parent(), "renamed within its folder");
                let id = self.names.remove(from).expect("what is renamed is there");
                self.names.insert(to.clone(), id);
                self.change(from, call, NameChange::Move(from.clone(), to.clone()));
            }
            Effect::Remove(path) => {
                self.names.remove(path);
                self.change(path, call, NameChange::Drop(path.clone()));
            }
            Effect::Write(path, at, octets) => {
                self.pending(path, call, *at, Some(octets.clone()));
            }
            Effect::Resize(path, length) => self.pending(path, call, *length, None),
            Effect::Sync(path) => self.syncs.push((call.begin, call.end, path.clone())),
        }
    }

    /// A change of a name.
    fn change(&mut self, path: &Path, call: &Call, change: NameChange) {
        let folder = path.parent().unwrap().to_owned();
        self.changes.push((folder, call.end, change));
    }

    fn pending(&mut self, path: &Path, call: &Call, at: usize, octets: Option<Vec<u8>>) {
        let id = self.names.get(path).copied().flatten();
        let id = id.unwrap_or_else(|| panic!("{} was opened before", path.display()));
        let end = call.end;
        self.files[id].pending.push(Pending { end, octets, at });
    }

    /// Counts the syncs that ended before a line.
    pub(super) fn end_syncs(&mut self, line: usize) {
        let (done, open) = std::mem::take(&mut self.syncs)
            .into_iter()
            .partition(|(_, end, _)| *end < line);
        self.syncs = open;
        for (begin, _, path) in Vec::from_iter::<Vec<(usize, usize, PathBuf)>>(done) {
            if self.deaf {
                continue;
            }
            match self.names.get(&path) {
                Some(Some(id)) => self.files[*id].sync(begin),
                // A folder, the top one too.
                _ => {
                    let in_it = self.changes.iter().filter(|(folder, ..)| *folder == path);
                    let count = in_it.take_while(|(_, end, _)| *end < begin).count();
                    let certain = self.certain.entry(path).or_default();
                    *certain = count.max(*certain);
                }
            }
        }
    }

    /// Writes what may be there to `to`; `top` is the folder it was in.
    pub(super) fn lay_out(&self, top: &Path, to: &Path, end: End, dice: &mut Rng) {
        let mut kept: BTreeMap<&Path, usize> = BTreeMap::new();
        for (folder, ..) in &self.changes {
            *kept.entry(folder).or_default() += 1;
        }
        if end != End::Kill {
            for (folder, count) in &mut kept {
                let certain = self.certain.get(*folder).copied().unwrap_or_default();
                *count = certain + dice.usize(..=*count - certain);
            }
        }
        let mut names: BTreeMap<&Path, Option<Id>> = BTreeMap::from([(top, None)]);
        for (folder, _, change) in &self.changes {
            let Some(left) = kept.get_mut(folder.as_path()).filter(|left| **left > 0) else {
                continue;
            };
            *left -= 1;
            if !names.contains_key(folder.as_path()) {
                continue;
            }
            match change {
                NameChange::Add(path, id) => {
                    names.insert(path, *id);
                }
                NameChange::Move(from, at) => {
                    if let Some(id) = names.remove(from.as_path()) {
                        names.insert(at, id);
                    }
                }
                NameChange::Drop(path) => {
                    names.remove(path.as_path());
                }
            }
        }
        for (path, id) in names {
            let target = to.join(path.strip_prefix(top).unwrap());
            match id {
                None => std::fs::create_dir_all(target).unwrap(),
                Some(id) => {
                    let octets = self.files[id].after(end, dice);
                    std::fs::create_dir_all(target.parent().unwrap()).unwrap();
                    std::fs::write(target, octets).unwrap();
                }
            }
        }
    }
}

impl FileState {
    /// What ended before this line is certain.
    fn sync(&mut self, line: usize) {
        // Writes that overlap keep their order, so a later one that ended waits for an earlier one.
        let count = self.pending.iter().take_while(|it| it.end < line).count();
        for pending in self.pending.drain(..count) {
            pending.apply(&mut self.synced);
        }
    }

    /// What the disk may have of it.
    fn after(&self, end: End, dice: &mut Rng) -> Vec<u8> {
        // What the process saw, and what the disk has.
        let (mut seen, mut disk) = (self.synced.clone(), self.synced.clone());
        let mood = if end == End::Kill { 0 } else { dice.u8(..5) };
        for pending in &self.pending {
            pending.apply(&mut seen);
            let arrives = match mood {
                0 => true,
                1 => false,
                _ => dice.bool(),
            };
            match &pending.octets {
                _ if !arrives => {}
                None => disk.resize(pending.at, 0),
                Some(octets) => {
                    // Torn: a part of its sectors, each as it was seen last.
                    let is_torn = mood > 2 && dice.bool();
                    let last = (pending.at + octets.len()).div_ceil(SECTOR);
                    for sector in pending.at / SECTOR..last {
                        if is_torn && dice.bool() {
                            continue;
                        }
                        let from = sector * SECTOR;
                        let to = seen.len().min(from + SECTOR);
                        if disk.len() < to {
                            disk.resize(to, 0);
                        }
                        disk[from..to].copy_from_slice(&seen[from..to]);
                    }
                }
            }
        }
        // The length may be on the disk before the octets.
        if mood == 4 && disk.len() < seen.len() {
            disk.resize(seen.len(), 0);
        }
        disk
    }
}

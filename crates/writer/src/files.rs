//! Zone files in the writer: zones of their own, and what lies under the zones of clusters.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use dns::{Name, Serial};
use ops::millis;
use provenance::Verb;
use zone::{Contents, Edit, MemoryLimits, Node, Zone};
use zonefile::ZoneFile;

use crate::commit::Ready;
use crate::guard::{Guard, Now};
use crate::overlay::{FileCauses, Overlay};
use crate::render::{ZoneDraft, ZoneEdit, draft_of};
use crate::{Pipeline, Store};

/// What a file is to the writer.
#[derive(Debug, Clone)]
pub enum FilePlan {
    /// A zone of its own.
    Zone {
        /// The zone as readers know it.
        zone: Arc<Zone>,
        /// How much history its versions carry in memory.
        limits: MemoryLimits,
    },
    /// It lies under the zone of a cluster.
    Overlay {
        /// Which cluster, by place in the configuration.
        cluster: usize,
        /// Which of its zones, by place in the plan.
        zone: usize,
    },
}

impl FilePlan {
    /// The zone, where it is one of its own.
    #[must_use]
    pub const fn zone(&self) -> Option<&Arc<Zone>> {
        match self {
            Self::Zone { zone, limits: _ } => Some(zone),
            Self::Overlay {
                cluster: _,
                zone: _,
            } => None,
        }
    }
}

/// A file as the writer holds it.
#[derive(Debug)]
pub(super) struct HeldFile {
    plan: FilePlan,
    /// What it said last, and whether that is to be published.
    content: Option<(Arc<ZoneFile>, bool)>,
    /// Since when it cannot be used; `None` while it can. Milliseconds since 1970 UTC.
    bad_since_ms: Option<u64>,
    /// What looks at its drafts. An edited file is meant: there is no gate.
    guard: Guard,
}

impl HeldFile {
    /// What looks at its drafts.
    pub(super) const fn guard(&self) -> &Guard {
        &self.guard
    }

    /// The zone, where it is one of its own, with its guard.
    pub(super) fn guarded(&mut self) -> Option<(&Arc<Zone>, &mut Guard)> {
        match &self.plan {
            FilePlan::Zone { zone, limits: _ } => Some((zone, &mut self.guard)),
            FilePlan::Overlay {
                cluster: _,
                zone: _,
            } => None,
        }
    }
}

/// What a follower of a file tells the writer.
#[derive(Debug)]
pub enum FileInput {
    /// The file was read and is sound.
    Read {
        /// What it says.
        content: Arc<ZoneFile>,
        /// When it was seen.
        seen: Instant,
    },
    /// The file cannot be used: what it said last still stands.
    Bad {
        /// Since when.
        since: SystemTime,
    },
}

impl<S: Store> Pipeline<S> {
    /// Has these files, too; inputs name them by their place here.
    #[must_use]
    pub fn with_files(mut self, files: Vec<FilePlan>) -> Self {
        for plan in &files {
            match plan {
                FilePlan::Zone { zone: _, limits: _ } => {}
                FilePlan::Overlay { cluster, zone } => {
                    if let Some(cluster) = self.clusters.get_mut(*cluster) {
                        cluster.overlays.insert(*zone, Overlay::new());
                    }
                }
            }
        }
        let held = |plan| HeldFile {
            plan,
            content: None,
            bad_since_ms: None,
            guard: Guard::default(),
        };
        self.files = files.into_iter().map(held).collect();
        self
    }

    /// Takes in what became of a file.
    pub(super) fn take_file(&mut self, file: usize, input: FileInput) {
        let Some(held) = self.files.get_mut(file) else {
            return;
        };
        match (input, &held.plan) {
            (FileInput::Read { content, seen }, FilePlan::Zone { zone: _, limits: _ }) => {
                held.content = Some((content, true));
                held.bad_since_ms = None;
                self.seen.push(seen);
            }
            (FileInput::Read { content, seen }, FilePlan::Overlay { cluster, zone }) => {
                if let Some(cluster) = self.clusters.get_mut(*cluster)
                    && let Some(overlay) = cluster.overlays.get_mut(zone)
                {
                    // What was not begun is rendered from nothing.
                    cluster.all_dirty |= overlay.file.is_none();
                    overlay.file = Some(content);
                    overlay.bad_since_ms = None;
                }
                self.seen.push(seen);
            }
            (FileInput::Bad { since }, FilePlan::Zone { zone, limits: _ }) => {
                held.bad_since_ms.get_or_insert(millis(since));
                if zone.stale_since_ms().is_none() {
                    zone.set_stale_since_ms(held.bad_since_ms);
                }
            }
            (FileInput::Bad { since }, FilePlan::Overlay { cluster, zone }) => {
                if let Some(cluster) = self.clusters.get_mut(*cluster)
                    && let Some(overlay) = cluster.overlays.get_mut(zone)
                {
                    overlay.bad_since_ms.get_or_insert(millis(since));
                    cluster.tell_stale();
                }
            }
        }
    }

    /// Adds what may be published of the zones that are files.
    pub(super) fn file_drafts(&mut self, now: Now, ready: &mut Vec<Ready>) {
        for held in &mut self.files {
            let FilePlan::Zone { zone, limits } = &held.plan else {
                continue;
            };
            let served = zone.current();
            let served = served.as_ref().map(|version| &version.contents);
            let current = held.guard.base().or(served);
            let read = held.content.as_ref().filter(|(_, is_new)| *is_new);
            let read = read.and_then(|(content, _)| file_draft(zone.apex(), current, content));
            let (draft, wanted) = match read {
                Some((draft, serial)) => (held.guard.take_in(zone, draft, now), Some(serial)),
                None => (held.guard.leave(zone, now), None),
            };
            ready.extend(draft.map(|draft| Ready {
                zone: Arc::clone(zone),
                limits: *limits,
                draft,
                wanted,
                ahead: held.guard.ahead,
            }));
        }
    }

    /// Notes that what the files say is durable.
    pub(super) fn settle_files(&mut self) {
        for held in &mut self.files {
            if let (FilePlan::Zone { zone, limits: _ }, Some((_, due @ true))) =
                (&held.plan, &mut held.content)
            {
                *due = false;
                zone.set_stale_since_ms(held.bad_since_ms);
            }
        }
    }
}

/// The draft of a zone that is a file, and the file's own serial; `None` without a SOA, which no file of a
/// zone lacks.
fn file_draft(
    apex: &Name,
    current: Option<&Contents>,
    file: &ZoneFile,
) -> Option<(ZoneDraft, Serial)> {
    let (soa, serial) = file.soa.clone()?;
    let empty = Contents::empty(apex, soa.clone());
    let mut zone = ZoneEdit::new(Edit::new(current.unwrap_or(&empty)));
    zone.edit.set_soa(soa);
    let mut causes = Vec::new();
    let mut of_file = FileCauses::new(&mut causes, &file.path);
    let mut nodes: Vec<(Node, u32)> = Vec::with_capacity(file.nodes().len());
    for node in file.nodes() {
        let known = zone.edit.contents().get(node.key());
        let is_same = known.is_some_and(|known| known.as_octets() == node.as_octets());
        // The tag of what does not differ is never read.
        let tag = if is_same {
            0
        } else {
            let cause = of_file.of_owner(file, node.key());
            zone.tag(&BTreeSet::from([cause]))
        };
        nodes.push((node.clone(), tag));
    }
    let gone = BTreeSet::from([of_file.whole(Verb::Deleted)]);
    let whole = of_file.whole(Verb::Applied);
    let gone = zone.tag(&gone);
    zone.edit.replace_subtree(&[], nodes, gone);
    let mut draft = draft_of(zone, &causes);
    if draft.causes.is_empty() || draft.causes.iter().all(Vec::is_empty) {
        let of_soa = causes.get(whole as usize).cloned();
        draft.causes = vec![of_soa.into_iter().collect()];
    }
    Some((draft, serial))
}

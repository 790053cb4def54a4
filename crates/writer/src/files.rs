//! Zone files in the writer: zones of their own, and files under the zones of clusters.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use dns::{Name, Serial};
use etcd::source::EtcdEvent;
use ops::millis;
use provenance::Verb;
use zone::check::Fault;
use zone::journal::Retention;
use zone::{Contents, Edit, Node, Version, Zone};
use zonefile::ZoneFile;
use zonefile::follow::FileEvent;

use crate::cluster::Cluster;
use crate::etcd_zone::EtcdZone;
use crate::guard::{Guard, Now, Ready};
use crate::overlay::{FileCauses, Overlay};
use crate::plan::FilePlan;
use crate::sender::SourceId;
use crate::sources::note_seen;
use crate::zone_edit::{ZoneDraft, ZoneEdit, draft_of};
use crate::{Pipeline, Store};

/// A file as the writer holds it.
#[derive(Debug)]
pub(super) enum HeldFile {
    /// A zone of its own.
    Zone(Box<FileZone>),
    /// A file under this zone of a cluster.
    Overlay(Name),
    /// A zone from etcd.
    Etcd(Box<EtcdZone>),
}

/// A zone that is a file.
#[derive(Debug)]
pub(super) struct FileZone {
    /// The zone that readers share.
    pub(super) zone: Arc<Zone>,
    pub(super) retention: Retention,
    /// The last content, and whether it is still to be published.
    content: Option<(Arc<ZoneFile>, bool)>,
    compared: Compared,
    /// Since when the file is bad, milliseconds since 1970 UTC.
    bad_since_ms: Option<u64>,
    /// Without a gate: a file is edited on purpose.
    pub(super) guard: Guard,
}

/// The last comparison of a signed file with a version. It costs a pass over both, and each commit asks for it.
#[derive(Debug, Default)]
pub(super) struct Compared {
    /// What was compared. It may be freed, but nothing else gets its address.
    pair: Option<(Weak<ZoneFile>, Weak<Version>)>,
    is_same: bool,
}

impl Compared {
    /// Whether the two have the same content: `compare` says it, unless they were the last that were compared.
    pub(super) fn is_same(
        &mut self,
        file: &Arc<ZoneFile>,
        version: &Arc<Version>,
        compare: impl FnOnce() -> bool,
    ) -> bool {
        let is_known = self.pair.as_ref().is_some_and(|(known, other)| {
            known.as_ptr() == Arc::as_ptr(file) && other.as_ptr() == Arc::as_ptr(version)
        });
        if !is_known {
            self.is_same = compare();
            self.pair = Some((Arc::downgrade(file), Arc::downgrade(version)));
        }
        self.is_same
    }
}

impl HeldFile {
    /// The zone of the file, or the zone above it.
    pub(super) fn zone(&self) -> &Name {
        match self {
            Self::Zone(own) => own.zone.apex(),
            Self::Overlay(zone) => zone,
            Self::Etcd(own) => own.zone.apex(),
        }
    }

    /// The guard, if it is a zone of its own.
    pub(super) fn guard(&self) -> Option<&Guard> {
        match self {
            Self::Zone(own) => Some(&own.guard),
            Self::Etcd(own) => Some(&own.guard),
            Self::Overlay(_) => None,
        }
    }

    /// The zone with its guard, if it is one of its own.
    pub(super) fn guarded(&mut self) -> Option<(&Arc<Zone>, &mut Guard)> {
        match self {
            Self::Zone(own) => Some((&own.zone, &mut own.guard)),
            Self::Etcd(own) => Some((&own.zone, &mut own.guard)),
            Self::Overlay(_) => None,
        }
    }
}

impl FileZone {
    /// The file was read, and another replica makes its versions.
    pub(super) fn follow(&self) {
        if self.content.is_some() {
            self.zone.set_stale_since_ms(self.bad_since_ms);
        }
    }

    /// Has the next commit compare the file with the current version.
    pub(super) fn publish_anew(&mut self) {
        if let Some((_, is_new)) = &mut self.content {
            *is_new = true;
        }
    }
}

impl<S: Store> Pipeline<S> {
    /// Adds files with the numbers of their followers.
    #[must_use]
    pub fn with_files(mut self, files: impl IntoIterator<Item = (SourceId, FilePlan)>) -> Self {
        for (source, plan) in files {
            self.add_file(source, plan);
        }
        self
    }

    /// Adds a file that was not read yet.
    pub(super) fn add_file(&mut self, source: SourceId, plan: FilePlan) {
        let held = match plan {
            FilePlan::Zone { zone, retention } => HeldFile::Zone(Box::new(FileZone {
                zone: Arc::clone(self.zones.get(&zone).expect("a plan comes with its zones")),
                retention,
                content: None,
                compared: Compared::default(),
                bad_since_ms: None,
                guard: Guard::default(),
            })),
            FilePlan::Overlay { zone } => {
                if let Some((cluster, place)) = self.cluster_of(&zone) {
                    cluster.zones[place].overlay = Some(Overlay::new());
                }
                HeldFile::Overlay(zone)
            }
            FilePlan::Etcd(plan) => HeldFile::Etcd(Box::new(EtcdZone::new(*plan, &self.zones))),
        };
        self.files.push((source, held));
    }

    /// The cluster of a zone, and the zone's place there.
    pub(super) fn cluster_of(&mut self, apex: &Name) -> Option<(&mut Cluster, usize)> {
        self.clusters.iter_mut().find_map(|cluster| {
            let mut zones = cluster.zones.iter();
            let place = zones.position(|it| it.zone.apex() == apex)?;
            Some((cluster, place))
        })
    }

    /// Takes a reading of a file.
    pub(super) fn take_file(&mut self, source: SourceId, event: FileEvent) {
        let mut files = self.files.iter_mut();
        let held = files.find(|(known, _)| *known == source);
        match (event, held.map(|(_, held)| held)) {
            (_, None | Some(HeldFile::Etcd(_))) => {}
            (FileEvent::Read { content, seen }, Some(HeldFile::Zone(own))) => {
                own.content = Some((content, true));
                own.bad_since_ms = None;
                note_seen(&mut self.seen, seen);
            }
            (FileEvent::Read { content, seen }, Some(HeldFile::Overlay(apex))) => {
                let apex = apex.clone();
                if let Some((cluster, place)) = self.cluster_of(&apex)
                    && let Some(overlay) = &mut cluster.zones[place].overlay
                {
                    // A zone that waited for its file is rendered from nothing.
                    cluster.all_dirty |= overlay.file.is_none();
                    overlay.file = Some(content);
                    overlay.bad_since_ms = None;
                }
                note_seen(&mut self.seen, seen);
            }
            (FileEvent::Bad { since }, Some(HeldFile::Zone(own))) => {
                own.bad_since_ms.get_or_insert(millis(since));
                if own.zone.stale_since_ms().is_none() {
                    own.zone.set_stale_since_ms(own.bad_since_ms);
                }
            }
            (FileEvent::Bad { since }, Some(HeldFile::Overlay(apex))) => {
                let apex = apex.clone();
                if let Some((cluster, place)) = self.cluster_of(&apex)
                    && let own = &mut cluster.zones[place]
                    && let Some(overlay) = &mut own.overlay
                {
                    overlay.bad_since_ms.get_or_insert(millis(since));
                    // The cluster's names do not wait for a file that was never good.
                    if overlay.file.is_none() && own.zone.current().is_none() {
                        overlay.file = Some(Arc::new(ZoneFile::empty()));
                        cluster.all_dirty = true;
                    }
                    cluster.tell_stale();
                }
            }
        }
    }

    /// Takes an event of etcd.
    pub(super) fn take_etcd(&mut self, source: SourceId, event: EtcdEvent) {
        let mut files = self.files.iter_mut();
        let held = files.find(|(known, _)| *known == source);
        if let Some((_, HeldFile::Etcd(own))) = held
            && let Some(seen) = own.take(event)
        {
            note_seen(&mut self.seen, seen);
        }
    }

    /// Adds drafts of zones that are files.
    pub(super) fn file_drafts(&mut self, now: Now, ready: &mut Vec<Ready>) {
        let store = &self.store;
        for (_, held) in &mut self.files {
            let own = match held {
                HeldFile::Zone(own) => own,
                HeldFile::Etcd(own) => {
                    ready.extend(own.render(now));
                    continue;
                }
                HeldFile::Overlay(_) => continue,
            };
            let FileZone {
                zone,
                retention,
                content,
                compared,
                bad_since_ms: _,
                guard,
            } = &mut **own;
            let signed = content.as_ref().map(|(content, _)| content);
            let signed = signed.filter(|content| content.signed.is_some());
            if signed.is_some() {
                let refusal = format!("{} is signed: its serial is the file's", zone.apex());
                match zone.current() {
                    Some(_) => guard.ahead.end(&Err(refusal)),
                    None => guard.ahead.refuse(refusal),
                }
            }
            // After a lost store only the secondaries know what was published.
            let known = [store.floor(zone.apex()), guard.ahead.serial()];
            let known = known.into_iter().flatten().reduce(Serial::later);
            guard.refused = signed.and_then(|it| serial_fault(zone, known, it, compared));
            let of_signed = signed.and_then(|content| content.soa.as_ref());
            let of_signed = of_signed.map(|(_, serial)| *serial);
            let served = zone.current();
            let served = served.as_ref().map(|version| &version.contents);
            let current = guard.base().or(served);
            let read = content.as_ref().filter(|(_, is_new)| *is_new);
            let read = read.and_then(|(content, _)| file_draft(zone.apex(), current, content));
            let (draft, wanted) = match read {
                Some((draft, serial)) => (guard.take_in(zone, draft, now), Some(serial)),
                None => (guard.leave(zone, now), of_signed),
            };
            ready.extend(draft.map(|draft| Ready {
                zone: Arc::clone(zone),
                limits: retention.memory_limits(),
                is_signed: draft.draft.contents.is_signed(),
                draft,
                wanted,
                ahead: guard.ahead.serial(),
            }));
        }
    }

    /// Notes that the contents of files are durable.
    pub(super) fn settle_files(&mut self) {
        for (_, held) in &mut self.files {
            if let HeldFile::Zone(own) = held
                && let Some((_, due @ true)) = &mut own.content
            {
                *due = false;
                own.zone.set_stale_since_ms(own.bad_since_ms);
            }
            if let HeldFile::Etcd(own) = held
                && let apex = own.zone.apex().clone()
                && let Some(all) = own.settle()
            {
                self.observer.left_out(&apex, all);
            }
        }
    }
}

/// Why a signed file cannot be published with its serial: secondaries may have other content under that serial, or a
/// later serial. `known` is the latest serial that is known of a zone without a version.
fn serial_fault(
    zone: &Zone,
    known: Option<Serial>,
    file: &Arc<ZoneFile>,
    compared: &mut Compared,
) -> Option<Fault> {
    let (soa, serial) = file.soa.as_ref()?;
    let current = zone.current();
    let published = current.as_ref().map(|version| version.serial).or(known)?;
    let mut is_same = || match &current {
        None => true,
        Some(version) => compared.is_same(file, version, || {
            let (contents, nodes) = (&version.contents, file.nodes());
            let mut both = contents.nodes().zip(nodes);
            contents.soa() == soa
                && contents.owner_count() == nodes.len()
                && both.all(|(one, other)| one.as_octets() == other.as_octets())
        }),
    };
    let fits = serial.is_after(published) || (*serial == published && is_same());
    (!fits).then(|| Fault::SerialBehind {
        zone: zone.apex().to_string(),
        serial: *serial,
        published,
    })
}

/// The draft of a zone that is a file, and the file's serial. `None` without a SOA, which every file of a zone has.
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
        // The tag of an unchanged node is never read.
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

//! A cluster's zone over a zone file: names that the cluster does not have are the file's.
//!
//! Two layers, one zone. The cluster's layer is kept apart, beside the zone that is shown: a name of the
//! file stands while the cluster has no such name, not even as an empty non-terminal (NODATA does not
//! fall through). Names below are looked at on their own. The apex is always the cluster's. When a
//! name of the cluster comes or goes, the file is looked at again for it and for the names above it,
//! which may have become or ceased to be non-terminals; nothing else can differ.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use provenance::{Cause, Origin, Verb};
use zone::{Contents, Edit, Node};
use zonefile::ZoneFile;

use crate::zone_edit::ZoneEdit;

/// The most owners of one reading whose lines are named in the history. Others name the file.
const LINES_NAMED: usize = 1000;

/// A file under one zone of a cluster.
#[derive(Debug)]
pub(super) struct Overlay {
    /// Its content; `None` until it was read.
    pub(super) file: Option<Arc<ZoneFile>>,
    /// The content in the last rendering.
    pub(super) shown: Option<Arc<ZoneFile>>,
    /// The cluster's names of the last rendering.
    pub(super) layer: Option<Contents>,
    /// Since when it is bad, milliseconds since 1970 UTC.
    pub(super) bad_since_ms: Option<u64>,
}

impl Overlay {
    /// A file that was not read yet.
    pub(super) const fn new() -> Self {
        Self {
            file: None,
            shown: None,
            layer: None,
            bad_since_ms: None,
        }
    }

    /// Whether the content differs from the last rendering.
    pub(super) fn is_due(&self) -> bool {
        match (&self.file, &self.shown) {
            (Some(file), Some(shown)) => !Arc::ptr_eq(file, shown),
            (file, shown) => file.is_some() != shown.is_some(),
        }
    }
}

/// The state of a zone with a file under it, for the next rendering.
#[derive(Debug)]
pub(super) struct Layer {
    /// The place of the zone.
    pub(super) zone: usize,
    pub(super) layer: Contents,
    pub(super) shown: Option<Arc<ZoneFile>>,
}

/// The causes from one reading of a file.
pub(super) struct FileCauses<'a> {
    /// All causes of the batch.
    causes: &'a mut Vec<Cause>,
    file: &'a str,
    /// How many lines were named.
    named: usize,
    /// The file as a whole: for new records, and for removed ones.
    whole: [Option<u32>; 2],
}

impl<'a> FileCauses<'a> {
    /// Causes of a file, which go to the end of `causes`.
    pub(super) const fn new(causes: &'a mut Vec<Cause>, file: &'a str) -> Self {
        Self {
            causes,
            file,
            named: 0,
            whole: [None; 2],
        }
    }

    fn push(&mut self, verb: Verb, place: &str) -> u32 {
        let at = u32::try_from(self.causes.len()).expect("fewer than 2^32 causes in one batch");
        let origin = Origin {
            place: place.into(),
            ..Origin::default()
        };
        self.causes.push(Cause {
            origin,
            ..Cause::of(verb, self.file)
        });
        at
    }

    /// The file as a whole.
    pub(super) fn whole(&mut self, verb: Verb) -> u32 {
        let slot = usize::from(verb == Verb::Deleted);
        if let Some(known) = self.whole[slot] {
            return known;
        }
        let place = self.push(verb, "");
        self.whole[slot] = Some(place);
        place
    }

    /// The line of an owner, or the file if the owner is gone.
    pub(super) fn of_owner(&mut self, file: &ZoneFile, key: &[u8]) -> u32 {
        match file.spot(key) {
            None => self.whole(Verb::Deleted),
            Some(_) if self.named == LINES_NAMED => self.whole(Verb::Applied),
            Some(spot) => {
                self.named += 1;
                self.push(Verb::Applied, &spot.line_text())
            }
        }
    }
}

/// What stands at a key in a zone of two layers.
fn shown_at<'a>(layer: &'a Contents, file: Option<&'a ZoneFile>, key: &[u8]) -> Option<&'a Node> {
    match layer.get(key) {
        Some(node) => Some(node),
        None if layer.exists(key) => None,
        None => file?.get(key),
    }
}

/// Puts the file under the cluster's layer, as far as it may differ from `current`; all of it when `gone`
/// says what the cause is of that which neither layer has.
pub(super) fn merge(
    zone: usize,
    rendered: ZoneEdit,
    overlay: &Overlay,
    current: &Contents,
    gone: Option<&BTreeSet<u32>>,
    causes: &mut Vec<Cause>,
) -> (ZoneEdit, Layer) {
    let ZoneEdit { edit, tags } = rendered;
    let touched: Vec<(Vec<u8>, u32)> = edit
        .touched()
        .map(|(key, tag)| (key.to_vec(), tag))
        .collect();
    let layer = edit.into_contents();
    let mut merged = ZoneEdit {
        edit: Edit::new(current),
        tags,
    };
    merged.edit.set_soa(layer.soa().clone());
    let file = overlay.file.as_deref();
    match gone {
        Some(gone) => replace_all(&mut merged, &layer, file, &touched, gone, causes),
        None => update(&mut merged, &layer, overlay, &touched, causes),
    }
    let kept = Layer {
        zone,
        layer,
        shown: overlay.file.clone(),
    };
    (merged, kept)
}

/// Sets all of a zone from its two layers.
fn replace_all(
    merged: &mut ZoneEdit,
    layer: &Contents,
    file: Option<&ZoneFile>,
    touched: &[(Vec<u8>, u32)],
    gone: &BTreeSet<u32>,
    causes: &mut Vec<Cause>,
) {
    let mut nodes: Vec<(Node, u32)> = touched
        .iter()
        .filter_map(|(key, tag)| Some((layer.get(key)?.clone(), *tag)))
        .collect();
    if let Some(file) = file {
        let mut of_file = FileCauses::new(causes, &file.path);
        for node in file.nodes() {
            if layer.exists(node.key()) {
                continue;
            }
            let known = merged.edit.contents().get(node.key());
            let is_same = known.is_some_and(|known| known.as_octets() == node.as_octets());
            // The tag of an unchanged node is never read.
            let tag = if is_same {
                0
            } else {
                let cause = of_file.of_owner(file, node.key());
                merged.tag(&BTreeSet::from([cause]))
            };
            nodes.push((node.clone(), tag));
        }
    }
    nodes.sort_by(|(a, _), (b, _)| a.cmp(b));
    let gone = merged.tag(gone);
    merged.edit.replace_subtree(&[], nodes, gone);
}

/// The key of a name, and those of the names above it.
fn with_names_above(key: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = key.iter().enumerate().filter(|(_, octet)| **octet == 0);
    let ends = ends.map(|(at, _)| at + 1);
    ends.chain(key.is_empty().then_some(0))
        .map(|end| &key[..end])
}

/// Sets what may differ: where the cluster's layer was touched and above, and what the file says otherwise.
fn update(
    merged: &mut ZoneEdit,
    layer: &Contents,
    overlay: &Overlay,
    touched: &[(Vec<u8>, u32)],
    causes: &mut Vec<Cause>,
) {
    let file = overlay.file.as_deref();
    let path = file.map_or("", |file| &file.path);
    let mut of_file = FileCauses::new(causes, path);
    let mut groups: Option<HashMap<u32, BTreeSet<u32>>> = None;
    for (key, tag) in touched {
        for key in with_names_above(key) {
            let want = shown_at(layer, file, key);
            let known = merged.edit.contents().get(key);
            let is_changed = known.map(Node::as_octets) != want.map(Node::as_octets);
            let mut tag = *tag;
            // What shows as the cluster's name goes has two causes: that, and its line in the file.
            if let (Some(file), Some(_)) = (file, want)
                && is_changed
                && !layer.exists(key)
            {
                let groups = groups.get_or_insert_with(|| merged.groups());
                let mut group = groups.get(&tag).cloned().unwrap_or_default();
                group.insert(of_file.of_owner(file, key));
                tag = merged.tag(&group);
            }
            set(merged, key, want, tag);
        }
    }
    let Some(file) = file.filter(|_| overlay.is_due()) else {
        return;
    };
    let old = overlay.shown.as_deref().map_or(&[][..], ZoneFile::nodes);
    for node in old.iter().chain(file.nodes()) {
        let key = node.key();
        let want = shown_at(layer, Some(file), key);
        let known = merged.edit.contents().get(key);
        if known.map(Node::as_octets) != want.map(Node::as_octets) {
            let cause = of_file.of_owner(file, key);
            let tag = merged.tag(&BTreeSet::from([cause]));
            set(merged, key, want, tag);
        }
    }
}

/// Sets one owner, or takes it away.
fn set(merged: &mut ZoneEdit, key: &[u8], want: Option<&Node>, tag: u32) {
    match want {
        Some(node) => merged.edit.set(node.clone(), tag),
        None => merged.edit.remove(key, tag),
    }
}

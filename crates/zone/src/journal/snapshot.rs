//! Writes a snapshot, the whole contents of one version, in portions between commits.

use dns::{Name, Serial};

use crate::Contents;
use crate::journal::codec::{Entry, PartWriter, SNAPSHOT};
use crate::journal::step;

/// A snapshot that is being written. It holds its version's contents, so commits do not wait for it.
#[derive(Debug)]
pub(super) struct SnapshotJob {
    pub(super) apex: Name,
    pub(super) id: u32,
    pub(super) seq: u64,
    contents: Contents,
    /// The stream; `None` when it is complete.
    parts: Option<PartWriter>,
    /// Whether parts say where records begin. Those of the previous layout do not.
    begins: bool,
    /// The key of the last owner written; `None` before the first.
    last: Option<Box<[u8]>>,
    /// The bytes of the stream so far.
    pub(super) octets: u64,
    /// The size of the steps since the zone's base when the snapshot was started.
    pub(super) since_base: u64,
}

impl SnapshotJob {
    pub(super) fn new(
        id: u32,
        seq: u64,
        (serial, time_ms): (Serial, u64),
        contents: Contents,
        begins: bool,
    ) -> Self {
        let mut parts = PartWriter::new(SNAPSHOT, id, seq);
        let head = step::snapshot_head(&contents, serial, time_ms);
        if begins {
            parts.begin(head.len(), &mut Vec::new());
        }
        // The head is much smaller than a part, so no part is complete yet.
        parts.push(&head, &mut Vec::new());
        Self {
            apex: contents.apex().clone(),
            id,
            seq,
            contents,
            parts: Some(parts),
            begins,
            last: None,
            octets: 0,
            since_base: 0,
        }
    }

    /// Whether all parts were returned.
    pub(super) const fn is_complete(&self) -> bool {
        self.parts.is_none()
    }

    /// Returns the next parts: at least `parts` of them, fewer at the end.
    pub(super) fn portion(&mut self, parts: usize) -> Vec<Entry> {
        let mut out = Vec::new();
        let Some(mut writer) = self.parts.take() else {
            return out;
        };
        let mut octets = Vec::new();
        let mut last = None;
        let full = {
            let mut write = |node: &crate::Node| {
                octets.clear();
                step::put_node(&mut octets, node);
                if self.begins {
                    writer.begin(octets.len(), &mut out);
                }
                writer.push(&octets, &mut out);
                last = Some(node.key().into());
                out.len() >= parts
            };
            match &self.last {
                None => self.contents.nodes().any(&mut write),
                Some(key) => self.contents.nodes_after(key).any(&mut write),
            }
        };
        self.octets = writer.octets();
        if last.is_some() {
            self.last = last;
        }
        if full {
            self.parts = Some(writer);
        } else {
            writer.finish(&mut out);
        }
        out
    }
}

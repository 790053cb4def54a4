//! Copies the readable part of a damaged database into an empty one.
//!
//! It copies only what heads name, entry by entry, each stream up to its first unreadable entry. It does not check
//! the contents: loading checks every part and removes what is damaged.

use crate::journal::BATCH_ENTRIES;
use crate::journal::codec::{
    self, ACT, ARCHIVE, ARCHIVED, COREFILE, HEAD, KEPT, OLDER, REPLICA, SEGMENT, SNAPSHOT, STEP,
    ZONE,
};
use crate::journal::head::{Head, read_older};
use crate::journal::store::{Batch, Entries, Store, StoreError, paged};

const PAGE: usize = 32;

/// Copies what is readable. An error of the damaged database ends the current stream; an error of the new one ends
/// the copy.
pub(super) fn copy_readable(from: &Store, to: &Store) -> Result<(), StoreError> {
    let mut copy = Copy {
        from,
        to,
        batch: Batch::default(),
    };
    let names = paged(from, &codec::zone_key(ZONE, 0), &[ZONE + 1], PAGE);
    for (key, _) in names.map_while(Result::ok) {
        if let Some(id) = codec::id_of(&key) {
            copy.zone(id)?;
        }
    }
    copy.all(ACT)?;
    copy.all(COREFILE)?;
    copy.all(KEPT)?;
    let Copy { batch, .. } = copy;
    to.write(batch)?;
    to.sync()
}

struct Copy<'a> {
    from: &'a Store,
    to: &'a Store,
    batch: Batch,
}

impl Copy<'_> {
    /// Copies a zone: its base, its steps, then its name and head.
    fn zone(&mut self, id: u32) -> Result<(), StoreError> {
        let key = codec::zone_key(HEAD, id);
        let Ok(Some(value)) = self.from.get(&key) else {
            return Ok(());
        };
        let Some(mut head) = Head::decode(&key, &value) else {
            return Ok(());
        };
        if let Ok(older) = read_older(self.from, id) {
            for base in older.iter() {
                self.stream(SNAPSHOT, id, base.seq, base.seq)?;
            }
            self.stream(OLDER, id, 0, u64::MAX)?;
        }
        if head.base.snapshot {
            self.stream(SNAPSHOT, id, head.base.seq, head.base.seq)?;
        }
        self.stream(STEP, id, head.first_needed(), head.seq)?;
        for kind in [ARCHIVE, ARCHIVED, SEGMENT, REPLICA] {
            self.stream(kind, id, 0, u64::MAX)?;
        }
        // The indexes are not copied, so searches read the copied steps one by one.
        head.indexed = head.seq + 1;
        self.batch.put(&key, head.encode(&key));
        let name = codec::zone_key(ZONE, id);
        if let Ok(Some(value)) = self.from.get(&name) {
            self.batch.put(&name, value.to_vec());
        }
        Ok(())
    }

    /// Copies all entries of a kind, up to the first unreadable one.
    fn all(&mut self, kind: u8) -> Result<(), StoreError> {
        let entries = paged(self.from, &[kind], &[kind + 1], PAGE);
        for (key, value) in entries.map_while(Result::ok) {
            self.batch.put(&key, value.to_vec());
            if self.batch.keys() >= BATCH_ENTRIES {
                self.to.write(std::mem::take(&mut self.batch))?;
            }
        }
        Ok(())
    }

    /// Copies the parts of some versions. After an unreadable part it continues with the next version.
    fn stream(&mut self, kind: u8, id: u32, first: u64, last: u64) -> Result<(), StoreError> {
        let end = codec::part_key(kind, id, last, u32::MAX);
        let mut from = codec::part_key(kind, id, first, 0).to_vec();
        loop {
            let Ok(page) = self.from.range(&from, &end, PAGE) else {
                let Some(seq) = codec::seq_of(&from).filter(|seq| *seq < last) else {
                    return Ok(());
                };
                from = codec::part_key(kind, id, seq + 1, 0).to_vec();
                continue;
            };
            let Some((key, _)) = page.last() else {
                return Ok(());
            };
            from = key.to_vec();
            from.push(0);
            for (key, value) in &page {
                self.batch.put(key, value.to_vec());
            }
            if self.batch.keys() >= BATCH_ENTRIES {
                self.to.write(std::mem::take(&mut self.batch))?;
            }
        }
    }
}

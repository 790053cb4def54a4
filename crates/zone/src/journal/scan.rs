//! Scans the database when it is opened: zones, heads and left-over entries.

use std::collections::BTreeMap;
use std::sync::Arc;

use dns::Name;

use crate::journal::codec::{self, HEAD, MANY, SNAPSHOT, ZONE};
use crate::journal::garbage::Garbage;
use crate::journal::head::{Head, read_older};
use crate::journal::large_steps::{self, LargeStepJob};
use crate::journal::replica_entries::{Announced, Replicated};
use crate::journal::store::{Entries, Store, StoreError, paged};
use crate::journal::{BATCH_ENTRIES, EarlyDrops, Stored, Zones, archive, load, segment, step};

/// The findings of a scan.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) zones: Zones,
    /// The id for the next new zone.
    pub(super) next_id: u32,
    /// Large steps without a list.
    pub(super) lists: Vec<LargeStepJob>,
    pub(super) garbage: Vec<Garbage>,
    pub(super) notes: Vec<String>,
}

pub(super) fn scan(store: &Store) -> Result<Scan, StoreError> {
    let mut scan = Scan::default();
    let mut ids = BTreeMap::new();
    for entry in paged(store, &codec::zone_key(ZONE, 0), &[ZONE + 1], BATCH_ENTRIES) {
        let (key, value) = entry?;
        let Some(id) = codec::id_of(&key) else {
            continue;
        };
        scan.next_id = scan.next_id.max(id + 1);
        match codec::unseal(&key, &value).and_then(|wire| Name::from_wire(wire).ok()) {
            Some(apex) => drop(ids.insert(id, apex)),
            None => scan
                .notes
                .push(format!("the name of zone {id} in the database is damaged")),
        }
    }
    for (id, apex) in ids {
        let key = codec::zone_key(HEAD, id);
        let head = store
            .get(&key)?
            .and_then(|value| Head::decode(&key, &value));
        let Some(mut head) = head else {
            scan.notes.push(format!(
                "zone {apex}: its head is damaged, all its versions are lost"
            ));
            continue;
        };
        head.older = read_older(store, id)?;
        let first_stored = load::first_stored(store, id)?.unwrap_or(head.oldest);
        let (segments, left) = segment::read(store, id)?.joined((head.oldest, head.seq));
        scan.notes.extend(left.first().map(|_| {
            format!("zone {apex}: segments of the archive do not join its history and are not read")
        }));
        let begins = segments
            .first()
            .map_or(head.oldest, |first| first.min(head.oldest));
        let archive = archive::read(store, id)?.joined(begins);
        let first = archive.first().unwrap_or(begins);
        scan.garbage.extend(archive::garbage_before(id, first));
        let stored = Stored {
            apex: apex.clone(),
            id,
            head,
            first_stored,
            oldest_size: None,
            early: EarlyDrops::default(),
            archive,
            segments,
            replica: None,
        };
        let stored = with_replica(store, stored)?;
        // Ids ascend: the lower one of the same name is left from a failed commit.
        if let Some(older) = scan.zones.insert(apex, stored) {
            for kind in [ZONE, HEAD] {
                scan.garbage.push(Garbage {
                    low: codec::zone_key(kind, older.id).to_vec(),
                    high: codec::zone_key(kind, older.id + 1).to_vec(),
                });
            }
        }
    }
    for stored in scan.zones.values() {
        let due = large_steps::without_list(store, stored.id)?;
        let jobs = due
            .into_iter()
            .map(|seq| LargeStepJob::new(stored.id, seq, None));
        scan.lists.extend(jobs);
    }
    find_garbage(store, &mut scan)?;
    Ok(scan)
}

/// Adds what replicas know of a zone.
fn with_replica(store: &Store, mut stored: Stored) -> Result<Stored, StoreError> {
    let Some((seq, epochs)) = Replicated::read(store, stored.id)? else {
        return Ok(stored);
    };
    let head = Announced::of(&stored.head);
    let announced = if seq >= head.seq {
        head
    } else {
        // One that cannot be read is not known to be announced.
        let version = step::peek_version(store, stored.id, seq).ok();
        let link = step::peek_link(store, stored.id, seq).ok();
        match version.zip(link) {
            Some(((serial, ..), link)) if seq > 0 => Announced {
                seq,
                serial,
                hash: link.map(|link| link.hash),
            },
            Some(_) | None => Announced::NONE,
        }
    };
    stored.replica = Some(Replicated {
        announced,
        epochs: Arc::new(epochs),
    });
    Ok(stored)
}

/// Finds entries of ids and snapshots that no head names. Costs one read per id and snapshot, not per entry.
fn find_garbage(store: &Store, scan: &mut Scan) -> Result<(), StoreError> {
    let known: BTreeMap<u32, Head> = scan
        .zones
        .values()
        .map(|stored| (stored.id, stored.head.clone()))
        .collect();
    for kind in MANY {
        let mut from = codec::zone_key(kind, 0).to_vec();
        loop {
            let page = store.range(&from, &[kind + 1], 1)?;
            let Some((Some(id), seq)) = page
                .first()
                .map(|(key, _)| (codec::id_of(key), codec::seq_of(key)))
            else {
                break;
            };
            scan.next_id = scan.next_id.max(id + 1);
            let of_id = codec::zone_key(kind, id + 1).to_vec();
            let seq = seq.unwrap_or(0);
            let of_seq = codec::part_key(kind, id, seq, u32::MAX).to_vec();
            match known.get(&id) {
                None => scan.garbage.push(Garbage {
                    low: codec::zone_key(kind, id).to_vec(),
                    high: of_id.clone(),
                }),
                Some(head) if kind == SNAPSHOT => {
                    let is_base = head.base.snapshot && head.base.seq == seq;
                    if !is_base && head.older.iter().all(|base| base.seq != seq) {
                        scan.garbage.push(Garbage {
                            low: codec::part_key(kind, id, seq, 0).to_vec(),
                            high: of_seq.clone(),
                        });
                    }
                    from = of_seq;
                    continue;
                }
                Some(_) => {}
            }
            from = of_id;
        }
    }
    Ok(())
}

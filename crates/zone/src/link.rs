//! Links a version to the one before it: a chain of SHA-256 hashes.
//!
//! # Definition
//!
//! The hash of a version is `H(0x03 | …)` over the following fields in this order. Numbers are big-endian and have 8
//! bytes, or 4 where the field says `(4)`. A *text* is its length (4) and its bytes; a *record* is its uncompressed
//! wire form.
//!
//! 1. the hash of the version before (32 bytes, zeros for the first)
//! 2. the content's hash ([`crate::ContentTree`]), 32 bytes
//! 3. the version's number in the zone's history; its time in milliseconds since 1970 UTC; its number of records,
//!    including the SOA
//! 4. the number 1 (4) and the SOA of the version before, as a record; or the number 0 (4) when there is none
//! 5. the SOA of this version, as a record
//! 6. the number of groups of causes (4); for each group its number of causes (4); for each cause the texts verb,
//!    kind, namespace, name, uid, resourceVersion, manager, operation, place (empty when unknown)
//! 7. the number of removed records (4); for each the number of its group (4) and the record
//! 8. the number of added records (4); likewise
//!
//! So a person who noted one hash of the chain, printed, logged or exported some day, can tell whether any version up
//! to it was altered since, in content, time or cause.

use dns::{Name, RrList, RrRef, Rtype, Serial, Soa};
use provenance::{Cause, Kind, ObjectKey, Origin};

use crate::Step;
use crate::digest::{Hash, Hasher, Link};

/// The first byte of the data that a version's hash covers.
const VERSION: u8 = 3;

impl Link {
    /// Computes the link of the version that a step leads to. `step.link` is ignored.
    #[must_use]
    pub fn of(step: &Step, apex: &Name, previous: Hash, content: Hash) -> Self {
        let mut hasher = Hasher::new(VERSION);
        hasher.update(previous.as_octets());
        hasher.update(content.as_octets());
        for number in [step.seq, step.time_ms, step.records as u64] {
            hasher.update(&number.to_be_bytes());
        }
        put_count(&mut hasher, usize::from(step.from.is_some()));
        if let Some((serial, soa)) = &step.from {
            put_soa(&mut hasher, apex, soa, *serial);
        }
        put_soa(&mut hasher, apex, &step.soa, step.serial);
        put_count(&mut hasher, step.causes.len());
        for group in &step.causes {
            put_count(&mut hasher, group.len());
            for cause in group {
                put_cause(&mut hasher, cause);
            }
        }
        for list in [&step.removed, &step.added] {
            put_list(&mut hasher, list);
        }
        Self {
            previous,
            content,
            hash: hasher.finish(),
        }
    }
}

fn put_count(hasher: &mut Hasher, count: usize) {
    let count = u32::try_from(count).expect("a version has fewer than 2^32 records and causes");
    hasher.update(&count.to_be_bytes());
}

fn put_soa(hasher: &mut Hasher, apex: &Name, soa: &Soa, serial: Serial) {
    let data = soa.rdata(serial);
    hasher.record(RrRef {
        owner: apex.as_wire(),
        rtype: Rtype::SOA,
        ttl: soa.ttl,
        data: data.as_octets(),
        tag: 0,
    });
}

fn put_cause(hasher: &mut Hasher, cause: &Cause) {
    let Cause {
        verb,
        kind,
        key: ObjectKey { namespace, name },
        origin:
            Origin {
                uid,
                resource_version,
                manager,
                operation,
                place,
            },
    } = cause;
    for text in [
        verb.as_str(),
        kind.map_or("", Kind::as_str),
        namespace,
        name,
        uid,
        resource_version,
        manager,
        operation,
        place,
    ] {
        put_count(hasher, text.len());
        hasher.update(text.as_bytes());
    }
}

/// Adds the number of records, then each record with the number of its group.
fn put_list(hasher: &mut Hasher, list: &RrList) {
    put_count(hasher, list.len());
    for rr in list {
        hasher.update(&rr.tag.to_be_bytes());
        hasher.record(rr);
    }
}

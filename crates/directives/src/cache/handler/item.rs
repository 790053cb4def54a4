//! One reply that is kept.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use dns::{Rcode, Record, Ttl, flags};
use server::message::{Reply, Request};

/// A reply that is kept.
#[derive(Debug)]
pub(super) struct Item {
    /// Its code.
    rcode: Rcode,
    /// Its flags; of them AA, AD and RA are given again.
    flags: u16,
    /// Its records, in the order of sections.
    sections: [Box<[Record]>; 3],
    /// The bytes of memory that it takes, without `last_answer`.
    own_bytes: usize,
    /// Whether it answers its question with records.
    pub(super) is_answer: bool,
    /// The answer that it took the place of, where answers come before denials.
    pub(super) last_answer: Option<Arc<Item>>,
    /// For how many seconds it is good.
    pub(super) seconds: u32,
    /// Since when.
    pub(super) stored: Instant,
    /// How often it was asked for, with no longer pause than is set, and when it was last.
    asked: Mutex<Asked>,
    /// Whether it is being asked for again.
    is_refreshing: AtomicBool,
    /// Until when it is not asked for again, as that failed.
    retry_after: Mutex<Option<Instant>>,
}

/// How often an item was asked for.
#[derive(Debug, Clone, Copy)]
struct Asked {
    /// How often.
    count: u32,
    /// When it was last.
    last: Option<Instant>,
}

/// About how many bytes of memory a record takes. The allocator rounds its owner and its data up to multiples of 16.
fn bytes_of(record: &Record) -> usize {
    let owner = record.owner.as_wire().len();
    let data = record.rdata.as_octets().len();
    size_of::<Record>() + owner.next_multiple_of(16) + data.next_multiple_of(16)
}

/// Locks for a few instructions.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Item {
    /// What is kept of a reply.
    pub(super) fn new(reply: &Reply, is_answer: bool, seconds: u32, now: Instant) -> Self {
        let sections = [&reply.answers, &reply.authority, &reply.additional];
        let bytes_of_records = sections.into_iter().flatten().map(bytes_of).sum::<usize>();
        Self {
            own_bytes: size_of::<Self>() + bytes_of_records,
            rcode: reply.rcode,
            flags: reply.flags,
            sections: sections.map(|section| section.as_slice().into()),
            is_answer,
            last_answer: None,
            seconds,
            stored: now,
            asked: Mutex::new(Asked {
                count: 0,
                last: None,
            }),
            is_refreshing: AtomicBool::new(false),
            retry_after: Mutex::new(None),
        }
    }

    /// About how many bytes of memory it takes.
    pub(super) fn bytes(&self) -> usize {
        let last = self.last_answer.as_ref();
        self.own_bytes + last.map_or(0, |last| last.bytes())
    }

    /// Whether it says that a server failed or cannot, and so nothing of the name.
    pub(super) fn is_failure(&self) -> bool {
        [Rcode::SERVFAIL, Rcode::NOTIMP].contains(&self.rcode)
    }

    /// The seconds it is still good; below zero it is not since so many.
    pub(super) fn left(&self, now: Instant) -> i64 {
        let age = now.saturating_duration_since(self.stored).as_secs();
        i64::from(self.seconds) - i64::try_from(age).unwrap_or(i64::MAX)
    }

    /// The reply to a question for it.
    pub(super) fn reply(&self, request: &Request, ttl: u32) -> Reply {
        let ttl = Ttl::decode(ttl);
        let [answers, authority, additional] = &self.sections;
        let copy = |section: &[Record]| {
            let with_ttl = |record: &Record| Record {
                ttl,
                ..record.clone()
            };
            section.iter().map(with_ttl).collect()
        };
        let mut flags = self.flags & (flags::AA | flags::RA) | request.flags & flags::CD;
        if request.dnssec_ok() || request.flags & flags::AD != 0 {
            flags |= self.flags & flags::AD;
        }
        Reply {
            rcode: self.rcode,
            flags,
            answers: copy(answers),
            authority: copy(authority),
            additional: copy(additional),
            extended: Vec::new(),
            by: crate::cache::handler::WORD,
        }
    }

    /// Notes that it was asked for; gives how often it was, a pause longer than `within` begins anew.
    pub(super) fn note_asked(&self, within: Duration, now: Instant) -> u32 {
        let mut asked = lock(&self.asked);
        let goes_on = asked
            .last
            .is_none_or(|last| now.saturating_duration_since(last) <= within);
        asked.count = if goes_on && asked.last.is_some() {
            asked.count.saturating_add(1)
        } else {
            1
        };
        asked.last = Some(now);
        asked.count
    }

    /// Takes over how often another was asked for.
    pub(super) fn inherit(&self, other: &Self) {
        let theirs = *lock(&other.asked);
        *lock(&self.asked) = theirs;
    }

    /// Begins to ask for it again; nothing when that is under way or failed lately.
    pub(super) fn begin_refresh(self: &Arc<Self>, now: Instant) -> Option<Refreshing> {
        let waits = lock(&self.retry_after).is_some_and(|after| now < after);
        let begins = !waits && !self.is_refreshing.swap(true, Ordering::AcqRel);
        begins.then(|| Refreshing(Arc::clone(self)))
    }
}

/// An item is being asked for: until this is dropped, wherever that is.
#[derive(Debug)]
pub(super) struct Refreshing(Arc<Item>);

impl Refreshing {
    /// Ends it; if it failed the item is not asked for until then.
    pub(super) fn end(self, retry_after: Option<Instant>) {
        *lock(&self.0.retry_after) = retry_after;
    }
}

impl Drop for Refreshing {
    fn drop(&mut self) {
        self.0.is_refreshing.store(false, Ordering::Release);
    }
}

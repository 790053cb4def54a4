//! One cached reply.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use dns::{Rcode, Record, Ttl, flags};
use server::message::{Reply, Request};

#[derive(Debug)]
pub(super) struct Item {
    rcode: Rcode,
    /// Its flags. The cache answers with AA, AD and RA of them.
    flags: u16,
    sections: [Box<[Record]>; 3],
    /// The bytes of memory that it takes, without `last_answer`.
    own_bytes: usize,
    /// Whether it answers its question with records.
    pub(super) is_answer: bool,
    /// The answer that this denial replaced. It is stored if answers are preferred to denials.
    pub(super) last_answer: Option<Arc<Item>>,
    /// The seconds for which it is fresh.
    pub(super) seconds: u32,
    /// The time at which it was stored.
    pub(super) stored: Instant,
    /// The number of questions for it, without pauses that are longer than `prefetch` allows, and the time of the last
    /// one.
    asked: Mutex<Asked>,
    /// Whether a refresh of it is under way.
    is_refreshing: AtomicBool,
    /// The end of the time without refreshes, after a refresh failed.
    retry_after: Mutex<Option<Instant>>,
}

/// The questions for an item.
#[derive(Debug, Clone, Copy)]
struct Asked {
    /// Their number.
    count: u32,
    /// The time of the last one.
    last: Option<Instant>,
}

/// The octets of the smallest record in a message: a pointer, type, class, TTL and the length of its data.
const RECORD_OCTETS_LEAST: usize = 12;

/// The most records of a section that can fit into a reply to this client. A section with more does not fit as a whole, and
/// neither do so many.
fn most_records(request: &Request) -> usize {
    let octets = match &request.edns {
        _ if request.origin.proto.is_stream() => u16::MAX,
        Some(edns) => edns.size.max(512),
        None => 512,
    };
    usize::from(octets) / RECORD_OCTETS_LEAST + 1
}

/// About how many bytes of memory a record takes. The allocator rounds its owner and its data up to multiples of 16.
fn bytes_of(record: &Record) -> usize {
    let owner = record.owner.as_wire().len();
    let data = record.rdata.as_octets().len();
    size_of::<Record>() + owner.next_multiple_of(16) + data.next_multiple_of(16)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Item {
    /// A copy of the reply's records.
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

    /// The approximate bytes of memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        let last = self.last_answer.as_ref();
        self.own_bytes + last.map_or(0, |last| last.bytes())
    }

    /// Whether it is a server failure, which says nothing about the name.
    pub(super) fn is_failure(&self) -> bool {
        [Rcode::SERVFAIL, Rcode::NOTIMP].contains(&self.rcode)
    }

    /// The seconds for which it is still fresh. Below zero, it expired that many seconds ago.
    pub(super) fn left(&self, now: Instant) -> i64 {
        let age = now.saturating_duration_since(self.stored).as_secs();
        i64::from(self.seconds) - i64::try_from(age).unwrap_or(i64::MAX)
    }

    /// The reply to a question, with `ttl` in its records. Of a section that is too large for the client it has as many as
    /// show that.
    pub(super) fn reply(&self, request: &Request, ttl: u32) -> Reply {
        let ttl = Ttl::decode(ttl);
        let most = most_records(request);
        let [answers, authority, additional] = &self.sections;
        let copy = |section: &[Record]| {
            let with_ttl = |record: &Record| Record {
                ttl,
                ..record.clone()
            };
            let kept = section.iter().take(most);
            kept.map(with_ttl).collect()
        };
        let mut flags = self.flags & (flags::AA | flags::RA) | request.flags & flags::CD;
        if request.dnssec_ok() || request.flags & flags::AD != 0 {
            flags |= self.flags & flags::AD;
        }
        Reply {
            rcode: self.rcode,
            flags,
            recursion_desired: None,
            answers: copy(answers),
            authority: copy(authority),
            additional: copy(additional),
            extended: Vec::new(),
            by: crate::cache::handler::WORD,
        }
    }

    /// Counts a question for it and returns the count. After a pause longer than `within` the count restarts.
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

    /// Takes over the count of another item.
    pub(super) fn inherit(&self, other: &Self) {
        let theirs = *lock(&other.asked);
        *lock(&self.asked) = theirs;
    }

    /// Begins a refresh. `None` if one is under way or failed lately.
    pub(super) fn begin_refresh(self: &Arc<Self>, now: Instant) -> Option<Refreshing> {
        let waits = lock(&self.retry_after).is_some_and(|after| now < after);
        let begins = !waits && !self.is_refreshing.swap(true, Ordering::AcqRel);
        begins.then(|| Refreshing(Arc::clone(self)))
    }
}

/// Marks the refresh of an item as under way until it is dropped.
#[derive(Debug)]
pub(super) struct Refreshing(Arc<Item>);

impl Refreshing {
    /// Ends the refresh. If it failed, the item is not refreshed before `retry_after`.
    pub(super) fn end(self, retry_after: Option<Instant>) {
        *lock(&self.0.retry_after) = retry_after;
    }
}

impl Drop for Refreshing {
    fn drop(&mut self) {
        self.0.is_refreshing.store(false, Ordering::Release);
    }
}

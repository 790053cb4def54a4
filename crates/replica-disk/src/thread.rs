//! The thread that owns the journal of a replica.
//!
//! Orders that wait when the thread looks share a sync. What is not an order is done as it comes: it concerns only what is durable
//! already.

use dns::Name;
use ops::Clock;
use replicas::chain::{Part, Tip};
use replicas::frame::LinkId;
use replicas::leader::{Fetch, Fetched};
use replicas::store::{Order, Refusal};
use zone::Journaled;
use zone::journal::Journal;

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use crate::disk::{Disk, DiskError};

/// The most requests that are looked at before orders are carried out.
const AT_ONCE: usize = 256;
/// The time between two small writes to a store that refuses orders.
const TRY_EVERY: Duration = Duration::from_secs(1);

/// A use of the journal.
pub type Call = Box<dyn FnOnce(&mut Journal) + Send>;

/// What the thread is asked to do.
pub enum Request {
    /// Orders, which share a sync.
    Orders(Vec<Order>),
    /// A read for a follower.
    Fetch(Fetch),
    /// A version is announced.
    Show(Name, Tip),
    /// A link is closed.
    Forget(LinkId),
    /// A part of a version that this replica is about to propose. It is not answered: if it is refused, so is the version.
    Prepare(Part),
    /// Something else that is done with the journal.
    Call(Call),
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Orders(orders) => f.debug_tuple("Orders").field(orders).finish(),
            Self::Fetch(fetch) => f.debug_tuple("Fetch").field(fetch).finish(),
            Self::Show(zone, tip) => f.debug_tuple("Show").field(zone).field(tip).finish(),
            Self::Forget(link) => f.debug_tuple("Forget").field(link).finish(),
            Self::Prepare(part) => f.debug_tuple("Prepare").field(&part.number).finish(),
            Self::Call(_) => f.write_str("Call"),
        }
    }
}

/// What the thread answers.
#[derive(Debug)]
pub enum Answer {
    /// The oldest order that is not answered was carried out and is durable, or was refused.
    Ordered(Result<(), Refusal>),
    /// The journal was read.
    Fetched(LinkId, Name, Fetched),
    /// The journal cannot be read for this follower: its link is closed.
    Unread(LinkId),
    /// This version is announced. It is published by the writer that waits for it, or by the receiver of this.
    Shown(Box<Journaled>),
    /// The store takes orders again.
    StoreOk,
}

/// The thread's work.
pub struct DiskThread {
    disk: Disk,
    clock: Arc<dyn Clock>,
    /// Receives the answers. It may not wait for the thread.
    answer: Box<dyn FnMut(Answer) + Send>,
    /// When a store that refuses orders is tried again.
    next_try: Option<Instant>,
}

impl fmt::Debug for DiskThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskThread")
            .field("disk", &self.disk)
            .finish_non_exhaustive()
    }
}

impl DiskThread {
    /// A thread that gives its answers to `answer`, which may not wait.
    #[must_use]
    pub fn new(disk: Disk, clock: Arc<dyn Clock>, answer: Box<dyn FnMut(Answer) + Send>) -> Self {
        Self {
            disk,
            clock,
            answer,
            next_try: None,
        }
    }

    /// Works until all senders are gone, then gives the journal back. For a thread of its own.
    ///
    /// # Errors
    /// [`DiskError`] when the process has to end, because nothing is known of the disk.
    pub fn run(mut self, requests: &Receiver<Request>) -> Result<Journal, DiskError> {
        while let Some(first) = self.next(requests)? {
            let mut orders = Vec::new();
            let mut next = Some(first);
            let mut room = AT_ONCE;
            while let Some(request) = next.take() {
                orders.extend(self.take(request));
                room -= 1;
                if room > 0 {
                    next = requests.try_recv().ok();
                }
            }
            self.carry_out(orders)?;
        }
        Ok(self.disk.into_journal())
    }

    /// The next request; the journal does its upkeep until it comes. `None` when no more will come.
    fn next(&mut self, requests: &Receiver<Request>) -> Result<Option<Request>, DiskError> {
        loop {
            match requests.try_recv() {
                Ok(request) => return Ok(Some(request)),
                Err(TryRecvError::Disconnected) => return Ok(None),
                Err(TryRecvError::Empty) => {}
            }
            self.try_again()?;
            if !self.disk.is_refusing() && self.disk.journal().idle() {
                continue;
            }
            let Some(wait) = self.wait() else {
                return Ok(requests.recv().ok());
            };
            match requests.recv_timeout(wait) {
                Ok(request) => return Ok(Some(request)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// How long to wait for a request; `None` for as long as it takes.
    fn wait(&mut self) -> Option<Duration> {
        let now = self.clock.now();
        let next_try = self.next_try.map(|at| at.saturating_duration_since(now));
        let again = self.disk.journal().again_after();
        next_try.into_iter().chain(again).min()
    }

    /// Takes a request; gives the orders in it.
    fn take(&mut self, request: Request) -> Vec<Order> {
        match request {
            Request::Orders(orders) => return orders,
            Request::Fetch(fetch) => {
                let fetched = self.disk.fetch(&fetch);
                let Fetch { link, zone, .. } = fetch;
                let answer = match fetched {
                    Some(fetched) => Answer::Fetched(link, zone, fetched),
                    None => Answer::Unread(link),
                };
                (self.answer)(answer);
            }
            Request::Show(zone, tip) => {
                for version in self.disk.show(&zone, &tip) {
                    (self.answer)(Answer::Shown(Box::new(version)));
                }
            }
            Request::Forget(link) => self.disk.forget(link),
            Request::Prepare(part) => {
                // The version that it belongs to is refused then.
                let _is_taken = self.disk.prepare(&part);
            }
            Request::Call(call) => call(self.disk.journal()),
        }
        Vec::new()
    }

    /// Carries out orders and answers them.
    fn carry_out(&mut self, orders: Vec<Order>) -> Result<(), DiskError> {
        if orders.is_empty() {
            return Ok(());
        }
        let was_refusing = self.disk.is_refusing();
        for result in self.disk.carry_out(orders)? {
            (self.answer)(Answer::Ordered(result));
        }
        if self.disk.is_refusing() && !was_refusing {
            self.next_try = Some(self.clock.now() + TRY_EVERY);
        }
        Ok(())
    }

    /// Tries a store again that refuses orders, if it is time.
    fn try_again(&mut self) -> Result<(), DiskError> {
        let now = self.clock.now();
        if self.next_try.is_none_or(|at| now < at) {
            return Ok(());
        }
        self.next_try = Some(now + TRY_EVERY);
        if self.disk.try_again()? {
            self.next_try = None;
            (self.answer)(Answer::StoreOk);
        }
        Ok(())
    }
}

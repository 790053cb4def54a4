//! The disk of a replica, on two threads of its own: one carries out orders, the other one reads for followers.
//!
//! Reading has a thread of its own because a snapshot of a large zone takes longer than a follower may owe an acknowledgement.

use dns::Name;
use replicas::chain::Tip;
use replicas::frame::LinkId;
use replicas::leader::{Fetch, Fetched};
use replicas::replica::Event;
use replicas::store::{Order, Refusal};
use tokio::sync::mpsc as events;

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How often a store that refused an order is tried.
const PROBE: Duration = Duration::from_secs(1);
/// The most orders that share one sync.
const BATCH: usize = 256;
/// Answers that the loop has not taken yet.
const ANSWERS: usize = 1024;

/// A journal that takes orders.
pub trait Disk: Send {
    /// Carries out orders one after the other, each atomically, and gives a result for each. When it returns, what was carried
    /// out is durable, and what was refused has left nothing behind. They may share one sync.
    ///
    /// An append that does not follow the newest version of its zone is refused, and so is every order for a zone behind a
    /// refused one.
    ///
    /// # Errors
    /// A sync failed: nothing is known of the disk, and the process has to end.
    fn carry_out(&mut self, orders: Vec<Order>) -> io::Result<Vec<Result<(), Refusal>>>;

    /// Marks a version as announced, without a sync.
    fn mark(&mut self, zone: &Name, tip: &Tip);

    /// Tries a small write; says whether it is durable.
    fn probe(&mut self) -> bool;
}

/// The journal as it is read for followers. It has what is durable.
pub trait DiskReader: Send {
    /// Reads steps or a snapshot; `None` if neither can be read.
    fn fetch(&mut self, fetch: &Fetch) -> Option<Fetched>;

    /// A link is closed: what was being read for it is forgotten.
    fn forget(&mut self, link: LinkId) {
        let _link = link;
    }
}

/// A request to the thread that reads.
#[derive(Debug)]
enum Read {
    Fetch(Fetch),
    Forget(LinkId),
}

/// What a disk says to the loop.
#[derive(Debug)]
pub(crate) enum DiskAnswer {
    /// An event for the replica.
    Event(Event),
    /// A read that had no result: its link is closed.
    Unread(LinkId),
    /// A sync failed.
    Lost(io::Error),
}

/// The answers of both threads.
#[derive(Debug)]
pub(crate) struct DiskAnswers {
    written: events::Receiver<DiskAnswer>,
    read: events::Receiver<DiskAnswer>,
}

impl DiskAnswers {
    /// The next one; `None` when a thread has ended.
    pub(crate) async fn next(&mut self) -> Option<DiskAnswer> {
        tokio::select! {
            answer = self.written.recv() => answer,
            answer = self.read.recv() => answer,
        }
    }
}

/// A request to the thread that writes.
#[derive(Debug)]
enum Request {
    Order(Order),
    Mark(Name, Tip),
}

/// The threads of a disk. They end when this is dropped, after what was ordered.
#[derive(Debug)]
pub(crate) struct DiskThreads {
    // Unbounded: a window of a leader bounds what a follower orders, and one step of each zone what a leader does.
    requests: Sender<Request>,
    fetches: Sender<Read>,
    threads: [JoinHandle<()>; 2],
}

impl DiskThreads {
    /// Starts them.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub(crate) fn start(
        disk: Box<dyn Disk>,
        mut reader: Box<dyn DiskReader>,
    ) -> io::Result<(Self, DiskAnswers)> {
        let (answers, written) = events::channel(ANSWERS);
        let (to_loop, read_answers) = events::channel(ANSWERS);
        let (requests, requested) = mpsc::channel();
        let (fetches, fetched) = mpsc::channel::<Read>();
        let read = move || {
            for read in fetched {
                let fetch = match read {
                    Read::Fetch(fetch) => fetch,
                    Read::Forget(link) => {
                        reader.forget(link);
                        continue;
                    }
                };
                let answer = match reader.fetch(&fetch) {
                    Some(found) => DiskAnswer::Event(Event::Fetched(fetch.link, fetch.zone, found)),
                    None => DiskAnswer::Unread(fetch.link),
                };
                if to_loop.blocking_send(answer).is_err() {
                    return;
                }
            }
        };
        let mut writer = Writer {
            disk,
            requested,
            answers,
            orders: Vec::new(),
            refused: None,
        };
        let start = |name: &str, work: Box<dyn FnOnce() + Send>| {
            Builder::new().name(name.to_owned()).spawn(work)
        };
        let threads = [
            start("replica-disk", Box::new(move || writer.run()))?,
            start("replica-read", Box::new(read))?,
        ];
        let this = Self {
            requests,
            fetches,
            threads,
        };
        let answers = DiskAnswers {
            written,
            read: read_answers,
        };
        Ok((this, answers))
    }

    /// Gives an order. A thread that has ended says so by the end of its answers.
    pub(crate) fn order(&self, order: Order) {
        self.requests.send(Request::Order(order)).ok();
    }

    /// Marks a version as announced, after the orders before it.
    pub(crate) fn mark(&self, zone: Name, tip: Tip) {
        self.requests.send(Request::Mark(zone, tip)).ok();
    }

    /// Reads for a follower.
    pub(crate) fn fetch(&self, fetch: Fetch) {
        self.fetches.send(Read::Fetch(fetch)).ok();
    }

    /// A link is closed.
    pub(crate) fn forget(&self, link: LinkId) {
        self.fetches.send(Read::Forget(link)).ok();
    }

    /// Waits until the threads have ended. Orders that are not answered may be carried out or not. The receiver of the answers has to
    /// be dropped first.
    pub(crate) fn finish(self) {
        let Self {
            requests,
            fetches,
            threads,
        } = self;
        drop((requests, fetches));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the disk failed");
            }
        }
    }
}

/// The thread that writes.
struct Writer {
    disk: Box<dyn Disk>,
    requested: Receiver<Request>,
    answers: events::Sender<DiskAnswer>,
    /// Orders that share the next sync.
    orders: Vec<Order>,
    /// When the store last refused an order or a probe.
    refused: Option<Duration>,
}

/// The loop has ended, or must end.
struct Ended;

impl Writer {
    fn run(&mut self) {
        while self.turn().is_ok() {}
    }

    /// Takes what waits, and carries it out.
    fn turn(&mut self) -> Result<(), Ended> {
        let first = match self.refused {
            None => self.requested.recv().map_err(|_| Ended)?,
            Some(since) => {
                let wait = (since + PROBE).saturating_sub(ops::boottime());
                match self.requested.recv_timeout(wait) {
                    Ok(request) => request,
                    Err(RecvTimeoutError::Timeout) => return self.probe(),
                    Err(RecvTimeoutError::Disconnected) => return Err(Ended),
                }
            }
        };
        let mut next = Some(first);
        while let Some(request) = next {
            match request {
                Request::Order(order) => self.orders.push(order),
                Request::Mark(zone, tip) => {
                    self.carry_out()?;
                    self.disk.mark(&zone, &tip);
                }
            }
            next = if self.orders.len() < BATCH {
                self.requested.try_recv().ok()
            } else {
                None
            };
        }
        self.carry_out()
    }

    /// Carries out the orders that wait.
    fn carry_out(&mut self) -> Result<(), Ended> {
        let orders = std::mem::take(&mut self.orders);
        if orders.is_empty() {
            return Ok(());
        }
        let count = orders.len();
        let results = match self.disk.carry_out(orders) {
            Ok(results) => results,
            Err(error) => {
                self.answer(DiskAnswer::Lost(error))?;
                return Err(Ended);
            }
        };
        assert_eq!(results.len(), count, "a disk answers each order");
        for result in results {
            if result == Err(Refusal::Store) {
                self.refused = Some(ops::boottime());
            }
            self.answer(DiskAnswer::Event(Event::Ordered(result)))?;
        }
        Ok(())
    }

    /// Tries whether the store takes something again.
    fn probe(&mut self) -> Result<(), Ended> {
        if self.disk.probe() {
            self.refused = None;
            return self.answer(DiskAnswer::Event(Event::StoreOk));
        }
        self.refused = Some(ops::boottime());
        Ok(())
    }

    fn answer(&self, answer: DiskAnswer) -> Result<(), Ended> {
        self.answers.blocking_send(answer).map_err(|_| Ended)
    }
}

#[cfg(test)]
mod tests;

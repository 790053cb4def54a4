//! The journal's thread, as the loop of a replica uses it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};

use dns::Name;
use ops::metrics::Metrics;
use replica_disk::thread::{Answer, Request};
use replica_links::disk::{Disk, DiskReader};
use replicas::chain::Tip;
use replicas::frame::LinkId;
use replicas::leader::{Fetch, Fetched};
use replicas::store::{Order, Refusal};
use zone::{Journaled, ZoneSet};

use crate::runtime::replicas::outcomes::Outcomes;

/// Gives orders and waits for what became of them.
#[derive(Debug)]
pub(crate) struct Orders {
    requests: SyncSender<Request>,
    results: Receiver<Result<(), Refusal>>,
    /// Whether the store took a small write since it refused something.
    is_ok_again: Arc<AtomicBool>,
}

/// Reads for followers.
#[derive(Debug)]
pub(crate) struct Reads {
    requests: SyncSender<Request>,
    fetched: Receiver<Option<Fetched>>,
}

/// What takes the answers of the journal's thread.
pub(crate) struct Answers {
    results: Sender<Result<(), Refusal>>,
    fetched: Sender<Option<Fetched>>,
    is_ok_again: Arc<AtomicBool>,
    outcomes: Arc<Outcomes>,
    publisher: Publisher,
}

/// The ends of the journal's thread.
pub(crate) fn ends(
    requests: &SyncSender<Request>,
    outcomes: &Arc<Outcomes>,
    publisher: Publisher,
) -> (Orders, Reads, Answers) {
    let (results, all_results) = channel();
    let (fetched, all_fetched) = channel();
    let is_ok_again = Arc::new(AtomicBool::new(false));
    let orders = Orders {
        requests: requests.clone(),
        results: all_results,
        is_ok_again: Arc::clone(&is_ok_again),
    };
    let reads = Reads {
        requests: requests.clone(),
        fetched: all_fetched,
    };
    let answers = Answers {
        results,
        fetched,
        is_ok_again,
        outcomes: Arc::clone(outcomes),
        publisher,
    };
    (orders, reads, answers)
}

impl Answers {
    /// Takes an answer. Does not wait.
    pub(crate) fn take(&self, answer: Answer) {
        // Where nobody listens any more, the replica ends.
        match answer {
            Answer::Ordered(result) => drop(self.results.send(result)),
            Answer::Fetched(_, _, fetched) => drop(self.fetched.send(Some(fetched))),
            Answer::Unread(_) => drop(self.fetched.send(None)),
            Answer::Shown(version) => {
                if let Some(version) = self.outcomes.shown(version) {
                    self.publisher.publish(*version);
                }
            }
            Answer::StoreOk => self.is_ok_again.store(true, Ordering::SeqCst),
        }
    }
}

impl Disk for Orders {
    fn carry_out(&mut self, orders: Vec<Order>) -> io::Result<Vec<Result<(), Refusal>>> {
        let ended = || io::Error::other("the journal's thread ended");
        let count = orders.len();
        self.is_ok_again.store(false, Ordering::SeqCst);
        let sent = self.requests.send(Request::Orders(orders));
        sent.map_err(|_| ended())?;
        let results = (0..count).map(|_| self.results.recv().map_err(|_| ended()));
        results.collect()
    }

    fn mark(&mut self, zone: &Name, tip: &Tip) {
        // A thread that has ended is found by the next order.
        self.requests.send(Request::Show(zone.clone(), *tip)).ok();
    }

    fn probe(&mut self) -> bool {
        // The journal's thread tries by itself.
        self.is_ok_again.swap(false, Ordering::SeqCst)
    }
}

impl DiskReader for Reads {
    fn fetch(&mut self, fetch: &Fetch) -> Option<Fetched> {
        self.requests.send(Request::Fetch(fetch.clone())).ok()?;
        self.fetched.recv().ok()?
    }

    fn forget(&mut self, link: LinkId) {
        self.requests.send(Request::Forget(link)).ok();
    }
}

/// Makes versions current that no writer waits for: those of another replica.
#[derive(Clone)]
pub(crate) struct Publisher {
    pub(crate) zones: Arc<ZoneSet>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Publisher {
    /// Makes a version current.
    pub(crate) fn publish(&self, version: Journaled) {
        let Some(zone) = self.zones.get(version.apex()) else {
            return;
        };
        let before = zone.current();
        let version = zone.publish(version);
        let is_first = before.is_none();
        let steps = before.and_then(|before| version.steps_from(before.serial));
        let steps = steps.unwrap_or_default();
        let added = match is_first {
            true => version.contents.record_count(),
            false => steps.iter().map(|step| step.added.len()).sum(),
        };
        let removed = steps.iter().map(|step| step.removed.len()).sum();
        let apex = zone.apex().to_string();
        tracing::info!(
            zone = apex,
            serial = %version.serial,
            records = version.contents.record_count(),
            added,
            removed,
            hash = version.link.map(|link| link.hash.to_string()),
            "version of the leader published"
        );
        self.metrics.count_version(&apex, added, removed);
    }
}

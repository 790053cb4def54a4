//! Counters of a source, read by metrics and `status`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ops::RequestMetrics;
use provenance::Kind;

use crate::source::problem::Board;

/// The most problems in `status`.
const SHOWN_PROBLEMS: usize = 100;

/// Classes of faults, with the labels of the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorClass {
    /// No connection, or it broke, or it was silent for too long.
    Transport,
    /// The watch position is no longer valid (HTTP 410 and the like), so the kind is listed again.
    Gone,
    /// 401: the credentials were refused.
    Unauthorized,
    /// 403: a permission is missing.
    Forbidden,
    /// Any other error status.
    Status,
    /// An answer that violates the API.
    Malformed,
    /// A watch that was closed as soon as it was opened.
    Closed,
}

impl ErrorClass {
    /// All classes.
    pub const ALL: [Self; 7] = [
        Self::Transport,
        Self::Gone,
        Self::Unauthorized,
        Self::Forbidden,
        Self::Status,
        Self::Malformed,
        Self::Closed,
    ];

    /// The label in metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Transport => "transport",
            Self::Gone => "gone",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::Status => "status",
            Self::Malformed => "malformed",
            Self::Closed => "closed",
        }
    }

    /// Its position in [`ErrorClass::ALL`].
    const fn index(self) -> usize {
        match self {
            Self::Transport => 0,
            Self::Gone => 1,
            Self::Unauthorized => 2,
            Self::Forbidden => 3,
            Self::Status => 4,
            Self::Malformed => 5,
            Self::Closed => 6,
        }
    }
}

/// A counter that only goes up.
#[derive(Debug, Default)]
struct Counter(AtomicU64);

impl Counter {
    fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters of one kind.
#[derive(Debug, Default)]
pub struct KindStats {
    events: Counter,
    lists: Counter,
    watches: Counter,
    left_out: Counter,
    errors: [Counter; ErrorClass::ALL.len()],
}

impl KindStats {
    /// Objects applied or deleted one by one.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events.get()
    }

    /// Lists completed.
    #[must_use]
    pub fn lists(&self) -> u64 {
        self.lists.get()
    }

    /// Watches opened. All but the first one are restarts.
    #[must_use]
    pub fn watches(&self) -> u64 {
        self.watches.get()
    }

    /// Objects left out because they could not be read.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out.get()
    }

    /// Faults of a class.
    #[must_use]
    pub fn errors(&self, class: ErrorClass) -> u64 {
        self.errors[class.index()].get()
    }

    pub(super) fn add_event(&self) {
        self.events.add();
    }

    pub(super) fn add_list(&self) {
        self.lists.add();
    }

    pub(super) fn add_watch(&self) {
        self.watches.add();
    }

    /// Counts an object that was left out.
    pub(super) fn add_left_out(&self) {
        self.left_out.add();
    }

    pub(super) fn add_error(&self, class: ErrorClass) {
        self.errors[class.index()].add();
    }
}

/// Counters of a source. The source counts, metrics read.
#[derive(Debug, Default)]
pub struct SourceStats {
    /// In the order of [`Kind::ALL`].
    kinds: [KindStats; Kind::ALL.len()],
    /// Objects of other kinds in the manifests, at the last reading.
    ignored: AtomicU64,
    /// Time of the last contact, in milliseconds since 1970; 0 for never.
    last_contact: AtomicU64,
    /// 1 while the source is stale.
    stale: AtomicU64,
    board: Board,
    /// Counters of requests to API servers, shared by all sources.
    requests: RequestMetrics,
}

impl SourceStats {
    /// Counters that start at zero, with shared counters of requests.
    #[must_use]
    pub fn counting(requests: RequestMetrics) -> Self {
        Self {
            requests,
            ..Self::default()
        }
    }

    pub(super) const fn requests(&self) -> &RequestMetrics {
        &self.requests
    }

    /// Counters of a kind.
    #[must_use]
    pub const fn kind(&self, kind: Kind) -> &KindStats {
        &self.kinds[kind.place()]
    }

    /// The current problems, in order, a hundred at most.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        self.board.first(SHOWN_PROBLEMS)
    }

    /// The number of current problems.
    #[must_use]
    pub fn problem_count(&self) -> usize {
        self.board.count()
    }

    pub(super) fn board(&self) -> Board {
        self.board.clone()
    }

    /// The number of objects of other kinds in the manifests.
    #[must_use]
    pub fn ignored(&self) -> u64 {
        self.ignored.load(Ordering::Relaxed)
    }

    /// The time of the last contact with the source.
    #[must_use]
    pub fn last_contact(&self) -> Option<SystemTime> {
        match self.last_contact.load(Ordering::Relaxed) {
            0 => None,
            millis => Some(UNIX_EPOCH + Duration::from_millis(millis)),
        }
    }

    /// Whether the source is stale now.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Relaxed) != 0
    }

    pub(super) fn set_ignored(&self, count: usize) {
        self.ignored
            .store(u64::try_from(count).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Records a contact with the source.
    pub(super) fn touch(&self, wall: SystemTime) {
        let since = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.last_contact.store(
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            Ordering::Relaxed,
        );
    }

    pub(super) fn set_stale(&self, stale: bool) {
        self.stale.store(u64::from(stale), Ordering::Relaxed);
    }
}

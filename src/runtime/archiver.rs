//! Writes versions to the archives before they leave the store.
//!
//! Publishing never waits for an archive, dropping does: the journal keeps what no archive has. A segment is written, read
//! back, compared, and only then noted by the writer.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use archive::Address;
use directives::config::{Config, History};
use dns::Name;
use history::ArchiveLine;
use ops::{Clock, Tasks, millis};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use writer::Input;
use zone::journal::{CutLimits, ReadError, Reader, Retention, Segment};

use crate::plan::zone_settings::retention;

/// How often it is seen whether a segment is due.
const LOOK: Duration = Duration::from_secs(1);
/// After a failure it is tried again after this time, and after twice as long each time.
const AGAIN: Duration = Duration::from_secs(5);
/// The longest time until it is tried again.
const AGAIN_MOST: Duration = Duration::from_secs(300);
/// A segment is due when versions of this part of the limits are in none.
const PART: u64 = 4;
/// A segment is due when its first version is as old, at the latest.
const AGE_MOST: Duration = Duration::from_secs(86_400);
/// The most octets of a segment's object: it is in memory while it is written.
const OBJECT_OCTETS: usize = 16 << 20;
/// The most versions of a segment.
const SEGMENT_VERSIONS: u64 = 10_000;
/// How long the writer may take to note a segment.
const NOTED_WITHIN: Duration = Duration::from_secs(60);

/// The archive of a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ZoneArchive {
    url: Arc<str>,
    retention: Retention,
}

/// The zones with an archive.
pub(crate) type Archives = BTreeMap<Name, ZoneArchive>;

/// How the archives stand, by zone.
pub(crate) type ArchiveStates = Arc<Mutex<BTreeMap<Name, ArchiveState>>>;

/// How the archive of a zone stands.
#[derive(Debug, Clone, Default)]
pub(crate) struct ArchiveState {
    /// For `status`.
    pub(crate) line: ArchiveLine,
    /// Segments that were written since the start.
    pub(crate) segments: u64,
    /// Failures since the start.
    pub(crate) failures: u64,
    /// Failures since the last success.
    failures_in_a_row: u32,
    /// Not to be tried before, milliseconds since 1970 UTC.
    not_before_ms: u64,
}

/// The zones of a configuration with an archive.
pub(crate) fn archives(config: &Config) -> Archives {
    let mut archives = Archives::new();
    for block in &config.servers {
        for zone in block.zones_written() {
            let history = block.for_zone::<History>(zone);
            if let Some(url) = history.and_then(|history| history.archive.clone()) {
                let retention = retention(history);
                archives.insert(zone.to_lower(), ZoneArchive { url, retention });
            }
        }
    }
    archives
}

/// The folders among the archives of a configuration.
pub(crate) fn archive_folders(config: &Config) -> Vec<PathBuf> {
    let archives = archives(config);
    let addresses = archives
        .values()
        .filter_map(|it| Address::parse(&it.url).ok());
    let folders = addresses.filter_map(|it| it.folder().map(PathBuf::from));
    let mut folders: Vec<_> = folders.collect();
    folders.sort();
    folders.dedup();
    folders
}

/// What the archiver needs.
pub(crate) struct Archiver {
    pub(crate) reader: Reader,
    pub(crate) inputs: mpsc::WeakSender<Input>,
    pub(crate) archives: Arc<ArcSwap<Archives>>,
    pub(crate) states: ArchiveStates,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Why a segment was not moved.
#[derive(Debug, thiserror::Error)]
enum NotMoved {
    #[error(transparent)]
    NotPut(#[from] io::Error),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the store cannot note it: {0}")]
    NotNoted(String),
}

impl Archiver {
    /// Starts it.
    pub(crate) fn start(self, tasks: &mut Tasks) {
        let stop = tasks.cancel().clone();
        let archiver = Arc::new(self);
        let cancelled = stop.clone();
        tasks.spawn_until("archive", &stop, async move {
            loop {
                tokio::select! {
                    () = tokio::time::sleep(LOOK) => {}
                    () = cancelled.cancelled() => return Ok::<_, Infallible>(()),
                }
                if archiver.archives.load().is_empty() {
                    continue;
                }
                let (archiver, stop) = (Arc::clone(&archiver), cancelled.clone());
                let turn = move || archiver.turn(&stop);
                // A panic in it is reported there, and it is tried again.
                tokio::task::spawn_blocking(turn).await.ok();
            }
        });
    }

    /// Moves what is due of all zones.
    fn turn(&self, stop: &CancellationToken) {
        let archives = Arc::clone(&self.archives.load());
        self.lock().retain(|zone, _| archives.contains_key(zone));
        // A zone does not wait for the failure of each other one with the same archive.
        let mut failing = BTreeSet::new();
        for (zone, archive) in archives.iter() {
            let not_before_ms = self.lock().get(zone).map_or(0, |state| state.not_before_ms);
            let now_ms = millis(self.clock.wall());
            if now_ms >= not_before_ms && !failing.contains(&archive.url) {
                while !stop.is_cancelled() && self.is_due(zone, archive) {
                    let moved = self.move_some(zone, archive);
                    if moved.is_err() {
                        failing.insert(Arc::clone(&archive.url));
                    }
                    let goes_on = matches!(moved, Ok(true));
                    self.note(zone, moved);
                    if !goes_on {
                        break;
                    }
                }
            }
            self.describe(zone, archive);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Name, ArchiveState>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a segment of a zone is due.
    fn is_due(&self, zone: &Name, archive: &ZoneArchive) -> bool {
        let Some((first, newest)) = self.reader.unarchived(zone) else {
            return false;
        };
        let waiting = (newest + 1).saturating_sub(first);
        if waiting == 0 {
            return false;
        }
        let Retention {
            keep,
            versions,
            octets,
            ..
        } = archive.retention;
        let is_large = self.reader.unarchived_octets(zone) >= octets / PART;
        if waiting >= (versions / PART).clamp(1, SEGMENT_VERSIONS) || is_large {
            return true;
        }
        let parts = u32::try_from(PART).unwrap_or(1);
        let age = u64::try_from((keep / parts).min(AGE_MOST).as_millis()).unwrap_or(u64::MAX);
        let since = self.reader.moment(zone, first).map(|(_, time_ms)| time_ms);
        since.is_ok_and(|since| millis(self.clock.wall()).saturating_sub(since) >= age)
    }

    /// Moves one segment. False when there was none, or it is not the next one any more.
    fn move_some(&self, zone: &Name, archive: &ZoneArchive) -> Result<bool, NotMoved> {
        let limits = CutLimits {
            versions: SEGMENT_VERSIONS,
            octets: OBJECT_OCTETS,
        };
        let Some(cut) = self.reader.cut(zone, &archive.url, limits)? else {
            return Ok(false);
        };
        let segment = self.reader.put(cut)?;
        let (serial, place) = (segment.serial, segment.place.clone());
        let versions = segment.last - segment.first + 1;
        let is_noted = self.noted(zone, segment)?;
        if is_noted {
            tracing::info!(%zone, %serial, versions, %place, "versions were archived");
        }
        Ok(is_noted)
    }

    /// Has the writer note a segment. False when the history has changed meanwhile: then the next one is another.
    fn noted(&self, zone: &Name, segment: Segment) -> Result<bool, NotMoved> {
        let (asked, answer) = oneshot::channel();
        let input = Input::Archived {
            zone: zone.clone(),
            segment: Box::new(segment),
            asked,
        };
        let asks = async {
            self.inputs.upgrade()?.send(input).await.ok()?;
            answer.await.ok()
        };
        let waits = async { tokio::time::timeout(NOTED_WITHIN, asks).await };
        match tokio::runtime::Handle::current().block_on(waits) {
            Ok(Some(noted)) => noted.map_err(NotMoved::NotNoted),
            Ok(None) => Err(NotMoved::NotNoted("the server is ending".to_owned())),
            Err(_) => Err(NotMoved::NotNoted("the writer is busy".to_owned())),
        }
    }

    /// Notes how it went, also in the log when that is new.
    fn note(&self, zone: &Name, moved: Result<bool, NotMoved>) {
        let mut states = self.lock();
        let state = states.entry(zone.clone()).or_default();
        match moved {
            Ok(is_moved) => {
                state.segments += u64::from(is_moved);
                state.failures_in_a_row = 0;
                state.not_before_ms = 0;
                if state.line.error.take().is_some() {
                    tracing::info!(%zone, "the archive can be written again");
                }
            }
            Err(error) => {
                let error = error.to_string();
                if state.line.error.as_ref() != Some(&error) {
                    tracing::error!(%zone, error, "versions cannot be archived; none is dropped until they can");
                }
                let wait = AGAIN
                    .saturating_mul(1 << state.failures_in_a_row.min(16))
                    .min(AGAIN_MOST);
                state.failures += 1;
                state.failures_in_a_row += 1;
                let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
                state.not_before_ms = millis(self.clock.wall()).saturating_add(wait);
                state.line.error = Some(error);
            }
        }
    }

    /// Describes the archive for `status`.
    fn describe(&self, zone: &Name, archive: &ZoneArchive) {
        let unarchived = self.reader.unarchived(zone);
        let waiting = unarchived.map_or(0, |(first, newest)| (newest + 1).saturating_sub(first));
        let last = self.reader.archived_until(zone);
        let mut states = self.lock();
        let line = &mut states.entry(zone.clone()).or_default().line;
        line.url = archive.url.to_string();
        line.waiting = waiting;
        line.serial = last.map(|(serial, _)| serial.encode());
        line.time_ms = last.map(|(_, time_ms)| time_ms);
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::time::{Instant, SystemTime, UNIX_EPOCH};

    use dns::Serial;
    use zone::journal::{Journal, ObjectPlace, Objects};
    use zone::testing::contents;
    use zone::{Candidate, Edit, MemoryLimits};

    use super::*;

    /// Objects in memory, which may be away.
    #[derive(Default)]
    struct Away {
        is_away: AtomicBool,
        tries: AtomicU64,
        objects: Mutex<BTreeMap<ObjectPlace, Vec<u8>>>,
    }

    impl Objects for Away {
        fn read(&self, place: &ObjectPlace, range: Range<u64>) -> io::Result<Vec<u8>> {
            let objects = self.objects.lock().unwrap();
            let at = |offset| usize::try_from(offset).unwrap();
            let object = objects.get(place).ok_or(io::ErrorKind::NotFound)?;
            Ok(object[at(range.start)..at(range.end)].to_vec())
        }

        fn write(&self, place: &ObjectPlace, octets: Vec<u8>) -> io::Result<()> {
            self.tries.fetch_add(1, Ordering::Relaxed);
            if self.is_away.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            self.objects.lock().unwrap().insert(place.clone(), octets);
            Ok(())
        }
    }

    /// Milliseconds since 1970 UTC, as a test sets them.
    #[derive(Debug, Default)]
    struct Hand(AtomicU64);

    impl Clock for Hand {
        fn now(&self) -> Instant {
            tokio::time::Instant::now().into_std()
        }

        fn wall(&self) -> SystemTime {
            UNIX_EPOCH + Duration::from_millis(self.0.load(Ordering::Relaxed))
        }
    }

    fn first_version(apex: &str) -> Candidate {
        let draft = Edit::new(&contents(apex, 5, &[])).finish();
        let limits = MemoryLimits {
            steps: 1,
            octets: 1 << 10,
        };
        Candidate::new(None, draft, Serial::decode(7), 0, Vec::new(), limits)
    }

    const APEXES: [&str; 2] = ["a.example.", "b.example."];

    /// An archiver of two zones with a version each, and the journal that notes what it moves.
    fn archiver(
        state: &std::path::Path,
        tx: &mpsc::Sender<Input>,
    ) -> (Archiver, Journal, Arc<Away>, Arc<Hand>) {
        let (objects, clock) = (Arc::new(Away::default()), Arc::new(Hand::default()));
        let (mut journal, _) = Journal::open(state, Arc::new(|| 0)).unwrap();
        journal.set_objects(Arc::<Away>::clone(&objects));
        journal.commit(APEXES.map(first_version).into()).unwrap();
        let retention = Retention {
            versions: 4,
            ..Retention::DEFAULT
        };
        let archive = ZoneArchive {
            url: "memory://a".into(),
            retention,
        };
        let zones = APEXES.map(|apex| (apex.parse().unwrap(), archive.clone()));
        let archiver = Archiver {
            reader: journal.reader(),
            inputs: tx.downgrade(),
            archives: Arc::new(ArcSwap::from_pointee(zones.into())),
            states: ArchiveStates::default(),
            clock: Arc::<Hand>::clone(&clock),
        };
        (archiver, journal, objects, clock)
    }

    #[tokio::test]
    async fn an_archive_that_is_away_is_tried_again_after_a_while_and_once_for_all_its_zones() {
        let state = tempfile::tempdir().unwrap();
        let (tx, mut inputs) = mpsc::channel(8);
        let (archiver, mut journal, objects, clock) = archiver(state.path(), &tx);
        let writer = std::thread::spawn(move || {
            while let Some(input) = inputs.blocking_recv() {
                let Input::Archived {
                    zone,
                    segment,
                    asked,
                } = input
                else {
                    panic!("another input");
                };
                let noted = journal.note_segment(&zone, *segment);
                asked
                    .send(noted.map_err(|error| error.to_string()))
                    .unwrap();
            }
        });
        let archiver = Arc::new(archiver);
        let turn = async || {
            let archiver = Arc::clone(&archiver);
            let stop = CancellationToken::new();
            tokio::task::spawn_blocking(move || archiver.turn(&stop))
                .await
                .unwrap();
        };
        let tries = || objects.tries.load(Ordering::Relaxed);
        objects.is_away.store(true, Ordering::Relaxed);
        for (wanted, why) in [
            (1, "the second zone does not wait for the same failure"),
            (2, "only the second zone is tried"),
            (2, "none is"),
        ] {
            turn().await;
            assert_eq!(tries(), wanted, "{why}");
        }
        let states = || archiver.lock().values().cloned().collect::<Vec<_>>();
        for state in states() {
            assert_eq!((state.failures, state.line.waiting), (1, 1));
            assert!(state.line.error.unwrap().contains("memory://a"));
        }
        objects.is_away.store(false, Ordering::Relaxed);
        let again = u64::try_from(AGAIN.as_millis()).unwrap();
        clock.0.store(again - 1, Ordering::Relaxed);
        turn().await;
        assert_eq!(tries(), 2, "it is too early");
        clock.0.store(again, Ordering::Relaxed);
        turn().await;
        turn().await;
        assert_eq!(tries(), 4, "each zone has its segment, and nothing is left");
        for state in states() {
            assert_eq!((state.segments, state.line.waiting), (1, 0));
            assert_eq!((state.line.serial, state.line.error), (Some(7), None));
        }
        drop((tx, archiver));
        writer.join().unwrap();
    }
}

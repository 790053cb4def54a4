//! Signed notes of the newest hashes: written at the start, in a fixed rhythm and at an orderly end, to places where
//! somebody else keeps them.
//!
//! A note never holds up anything else: the zones are read as any reader reads them, each place has a time limit, and an
//! error is a state of the place, in the log once, in `status` and in the metrics.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use arc_swap::ArcSwap;
use directives::config::Config;
use futures_util::future::join_all;
use history::{Note, NotedZone, SignedNote};
use ops::{Clock, Tasks, millis};
use tokio_util::sync::CancellationToken;
use zone::signing::SigningKey;
use zone::{Hash, Zone, ZoneSet};

use crate::plan::notes::{PlannedNotes, plan_notes};
use crate::runtime::followed_files::{self, Contents, Reload};
use crate::runtime::note_board::NoteBoard;
use crate::runtime::note_places::NotePlace;

/// How long writing to a place may take.
const WITHIN: Duration = Duration::from_secs(10);
/// How long it may take at the end of the process.
const LAST_WITHIN: Duration = Duration::from_secs(5);

/// All notes of the process.
pub(crate) struct Notebooks {
    /// The notes that are written, each with its end.
    running: Vec<(Arc<Notebook>, CancellationToken)>,
    /// What is known of their places.
    pub(crate) board: Arc<NoteBoard>,
    clock: Arc<dyn Clock>,
    /// The name of this machine or pod.
    server: String,
}

/// Notes with one key, one rhythm and the same places.
pub(crate) struct Notebook {
    planned: PlannedNotes,
    zones: Vec<Arc<Zone>>,
    /// The key in use: its file is followed.
    key: ArcSwap<SigningKey>,
    places: Vec<(String, NotePlace)>,
    board: Arc<NoteBoard>,
    clock: Arc<dyn Clock>,
    server: String,
}

/// Notes that can be taken into use.
pub(crate) struct PreparedNotes {
    notebook: Arc<Notebook>,
    /// Follows the file of the key.
    follow: Reload,
}

impl Notebooks {
    /// No notes yet.
    pub(crate) fn new(clock: &Arc<dyn Clock>, server: String) -> Self {
        Self {
            running: Vec::new(),
            board: Arc::default(),
            clock: Arc::clone(clock),
            server,
        }
    }

    /// Makes the notes of a configuration; nothing that is in use changes.
    ///
    /// # Errors
    /// When a key cannot be used.
    pub(crate) fn prepare(
        &self,
        config: &Config,
        zones: &ZoneSet,
    ) -> anyhow::Result<Vec<PreparedNotes>> {
        let all = plan_notes(config).into_iter();
        all.map(|planned| self.prepare_one(planned, zones))
            .collect()
    }

    fn prepare_one(&self, planned: PlannedNotes, zones: &ZoneSet) -> anyhow::Result<PreparedNotes> {
        let files = vec![planned.sign.clone()];
        // Before it is read, so that a change meanwhile is seen.
        let seen = Contents::of(&files);
        let key = read_key(&planned.sign)?;
        let its = planned.zones.iter().filter_map(|zone| zones.get(zone));
        let places = planned.places.iter();
        let places = places.map(|place| (place.target.to_string(), NotePlace::new(place)));
        let notebook = Arc::new(Notebook {
            zones: its.cloned().collect(),
            key: ArcSwap::from_pointee(key),
            places: places.collect(),
            board: Arc::clone(&self.board),
            clock: Arc::clone(&self.clock),
            server: self.server.clone(),
            planned,
        });
        let used = Arc::clone(&notebook);
        let take = move || {
            let key = read_key(&used.planned.sign).map_err(|error| vec![format!("{error:#}")])?;
            used.key.store(Arc::new(key));
            Ok(())
        };
        let follow = Reload::new("signing key", files, seen, Box::new(take));
        Ok(PreparedNotes { notebook, follow })
    }

    /// Takes notes into use. Those that stay as they are go on in their rhythm.
    pub(crate) fn take(&mut self, prepared: Vec<PreparedNotes>, tasks: &mut Tasks) {
        let mut old = std::mem::take(&mut self.running);
        for PreparedNotes { notebook, follow } in prepared {
            let known = old.iter().position(|(it, _)| it.is_same(&notebook));
            if let Some(place) = known {
                self.running.push(old.swap_remove(place));
                continue;
            }
            let stop = CancellationToken::new();
            let following = followed_files::run(vec![follow], stop.clone());
            tasks.spawn_until("signing key", &stop, following);
            let writing = Arc::clone(&notebook).run(stop.clone());
            tasks.spawn_until("notes", &stop, writing);
            self.running.push((notebook, stop));
        }
        old.iter().for_each(|(_, stop)| stop.cancel());
        let running = self.running.iter();
        let places = running.flat_map(|(notebook, _)| {
            let key = notebook.key.load().id();
            notebook.places.iter().map(move |(name, _)| (&**name, key))
        });
        self.board.set_current(places);
    }

    /// Ends the rhythm.
    pub(crate) fn stop(&self) {
        self.running.iter().for_each(|(_, stop)| stop.cancel());
    }

    /// Writes the last notes.
    pub(crate) async fn write_last(&self) {
        let all = self.running.iter().map(|(it, _)| it.write(LAST_WITHIN));
        join_all(all).await;
    }
}

/// Reads a key.
fn read_key(file: &Path) -> anyhow::Result<SigningKey> {
    SigningKey::read(file).with_context(|| format!("sign {}", file.display()))
}

impl Notebook {
    /// Whether both write the same notes to the same places.
    fn is_same(&self, other: &Self) -> bool {
        let mut zones = self.zones.iter().zip(&other.zones);
        self.planned == other.planned
            && self.zones.len() == other.zones.len()
            && zones.all(|(one, two)| Arc::ptr_eq(one, two))
    }

    /// Writes notes until cancelled: the first one when all zones have a version, or after the first interval.
    async fn run(self: Arc<Self>, cancel: CancellationToken) -> Result<(), Infallible> {
        let every = self.planned.every;
        tokio::select! {
            () = cancel.cancelled() => return Ok(()),
            () = self.all_have_versions() => {}
            () = tokio::time::sleep(every) => {}
        }
        loop {
            let write_and_wait = async {
                self.write(WITHIN).await;
                tokio::time::sleep(every).await;
            };
            tokio::select! {
                () = cancel.cancelled() => return Ok(()),
                () = write_and_wait => {}
            }
        }
    }

    /// Waits until each zone has a version.
    async fn all_have_versions(&self) {
        for zone in &self.zones {
            let mut published = zone.subscribe();
            while zone.current().is_none() {
                if published.changed().await.is_err() {
                    return;
                }
            }
        }
    }

    /// Writes a note to all places, if a zone has a version.
    async fn write(&self, within: Duration) {
        let key = self.key.load_full();
        let now_ms = millis(self.clock.wall());
        let zones: Vec<NotedZone> = self.zones.iter().filter_map(|it| newest_of(it)).collect();
        if zones.is_empty() {
            return;
        }
        let note = Note {
            server: self.server.clone(),
            time_ms: now_ms,
            key: key.id(),
            zones,
        };
        let signature = key.sign(note.text().as_bytes());
        let signed = SignedNote { note, signature };
        let writes = self.places.iter().map(|(name, place)| async {
            let done = place.write(&signed, within).await;
            self.board.note(name, key.id(), now_ms, done);
        });
        join_all(writes).await;
    }
}

/// The newest version of a zone; `None` when there is none, or none with a hash.
fn newest_of(zone: &Zone) -> Option<NotedZone> {
    let version = zone.current()?;
    let hash: Hash = version.link?.hash;
    Some(NotedZone {
        zone: zone.apex().clone(),
        version: version.seq,
        serial: version.serial,
        time_ms: version.time_ms,
        hash,
    })
}

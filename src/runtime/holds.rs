//! The file `orders` in the state folder: what operators ordered, so that it holds over a restart.
//!
//! It is written before a version is, and loses a line after the version that ends the order. What a crash
//! leaves between is told apart by the version that is served: an old content that is not there yet is
//! published, one that was followed by another content is over.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dns::{Name, Serial};
use provenance::Operator;
use serde::{Deserialize, Serialize};
use writer::{Restored, Target};
use zone::hold::{Hold, Rollback, differing};
use zone::journal::serial_files::{sum, write_durably};
use zone::journal::{Damage, FileFinding, Reader};
use zone::{ContentTree, Contents, Version, Zone};

/// The file's name.
const FILE: &str = "orders";
/// Where it is written before it is renamed.
const NEXT: &str = "orders.next";
/// What is before the checksum at the end of a line. Lines of older releases have none.
const SUM: &str = r#","sum":""#;

/// A line of the file: an order in JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    /// The zone.
    zone: String,
    /// Since when, milliseconds since 1970 UTC.
    since_ms: u64,
    /// Until when.
    until_ms: Option<u64>,
    /// Who ordered it, as text: all that older releases write and read.
    by: String,
    /// The old content.
    rollback: Option<RollbackLine>,
    /// The hash of the content that was served when it was ordered.
    #[serde(default)]
    found: Option<String>,
    /// Who ordered it.
    #[serde(default)]
    operator: Option<Operator>,
}

/// An old content.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RollbackLine {
    /// The serial that it had.
    to: u32,
    /// The hash of the content.
    content: String,
    /// The serial that was served when it was ordered.
    from: u32,
    /// The serial of the last version that followed the sources.
    before: u32,
}

impl Line {
    /// The line of an order.
    fn of(zone: &Name, hold: &Hold) -> Self {
        let Hold {
            since_ms,
            until_ms,
            by,
            rollback,
            found,
        } = hold;
        let rollback = rollback.map(|rollback| RollbackLine {
            to: rollback.to.encode(),
            content: rollback.content.to_string(),
            from: rollback.from.encode(),
            before: rollback.before.encode(),
        });
        Self {
            zone: zone.to_string(),
            since_ms: *since_ms,
            until_ms: *until_ms,
            by: by.to_string(),
            rollback,
            found: found.map(|hash| hash.to_string()),
            operator: Some(by.clone()),
        }
    }

    /// The line as text, with its checksum.
    fn text(&self) -> io::Result<String> {
        let text = serde_json::to_string(self)?;
        Ok(with_sum(text.strip_suffix('}').unwrap_or(&text)))
    }

    /// The order of a line; `None` when it is none, or not as it was written.
    fn read(text: &str) -> Option<(Name, Hold)> {
        let is_whole = text
            .rsplit_once(SUM)
            .is_none_or(|(body, _)| with_sum(body) == text);
        let line: Self = serde_json::from_str(text).ok().filter(|_| is_whole)?;
        let rollback = match line.rollback {
            None => None,
            Some(it) => Some(Rollback {
                to: Serial::decode(it.to),
                content: it.content.parse().ok()?,
                from: Serial::decode(it.from),
                before: Serial::decode(it.before),
            }),
        };
        let found = match line.found {
            None => None,
            Some(hash) => Some(hash.parse().ok()?),
        };
        let hold = Hold {
            since_ms: line.since_ms,
            until_ms: line.until_ms,
            by: line.operator.unwrap_or_else(|| Operator::from(&*line.by)),
            rollback,
            found,
        };
        Some((Name::parse(&line.zone).ok()?.to_lower(), hold))
    }
}

/// A line that begins so, with its checksum and its end.
fn with_sum(body: &str) -> String {
    format!(r#"{body}{SUM}{}"}}"#, sum(body))
}

/// The text of the file.
fn read_text(dir: &Path) -> io::Result<String> {
    match fs::read(dir.join(FILE)) {
        Ok(octets) => Ok(String::from_utf8_lossy(&octets).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error),
    }
}

/// Checks the file for an auditor.
pub(crate) fn check(dir: &Path) -> io::Result<Option<FileFinding>> {
    let text = read_text(dir)?;
    let damaged = text.lines().filter(|line| Line::read(line).is_none());
    let lines = damaged.count();
    Ok((lines > 0).then(|| FileFinding {
        file: FILE,
        damage: Some(Damage::Changed),
        what: format!(
            "lines of it are damaged ({lines}). The next start ignores these lines: their freezes and rollbacks end"
        ),
    }))
}

/// What became of orders over a restart.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    /// Those that go on.
    pub(crate) going_on: Vec<(Name, Restored)>,
    /// The zones of the others: they are still to be forgotten.
    pub(crate) over: Vec<Name>,
}

/// The orders, in memory and on disk.
#[derive(Debug)]
pub(crate) struct Holds {
    /// The state folder.
    dir: PathBuf,
    /// By lower-case name.
    holds: BTreeMap<Name, Hold>,
}

impl Holds {
    /// Reads the file; a line that does not read is said and left out.
    pub(crate) fn read(dir: &Path) -> io::Result<Self> {
        let text = read_text(dir)?;
        let mut holds = BTreeMap::new();
        for line in text.lines() {
            match Line::read(line) {
                Some((zone, hold)) => drop(holds.insert(zone, hold)),
                None => tracing::error!(
                    line,
                    "a line of the file {FILE} is damaged: its zone is not held, and follows its source"
                ),
            }
        }
        let dir = dir.to_owned();
        Ok(Self { dir, holds })
    }

    /// Keeps an order, or that there is none any more.
    pub(crate) fn set(&mut self, zone: &Name, hold: Option<&Hold>) -> io::Result<()> {
        let mut holds = self.holds.clone();
        match hold {
            Some(hold) => holds.insert(zone.clone(), hold.clone()),
            None => holds.remove(zone),
        };
        let mut text = String::new();
        for (zone, hold) in &holds {
            text.push_str(&Line::of(zone, hold).text()?);
            text.push('\n');
        }
        write_durably(&self.dir, FILE, NEXT, text.as_bytes())?;
        self.holds = holds;
        Ok(())
    }

    /// What becomes of the orders, as the store has the contents of these zones. An order about a zone that is not
    /// among them, or has no version, is over: it must not come back with a content that is there by chance.
    pub(crate) fn restore<'a>(
        &self,
        zones: impl Iterator<Item = &'a Arc<Zone>>,
        reader: &Reader,
    ) -> Orders {
        let versions: BTreeMap<&Name, Arc<Version>> = zones
            .filter_map(|zone| Some((zone.apex(), zone.current()?)))
            .collect();
        let mut orders = Orders::default();
        for (apex, hold) in &self.holds {
            let restored = match versions.get(apex) {
                Some(version) => restore(hold, version, reader),
                None => {
                    tracing::warn!(
                        zone = %apex, order = hold.as_str(),
                        "a freeze or rollback ended: its zone has no version here"
                    );
                    None
                }
            };
            match restored {
                Some(restored) => orders.going_on.push((apex.clone(), restored)),
                None => orders.over.push(apex.clone()),
            }
        }
        orders
    }
}

/// An order as it goes on; `None` when the version that ended it was published already.
fn restore(hold: &Hold, version: &Version, reader: &Reader) -> Option<Restored> {
    let apex = version.contents.apex();
    let going_on = |target, base| {
        let by = &hold.by;
        tracing::warn!(zone = %apex, order = hold.as_str(), %by, "a freeze or rollback continues");
        let hold = hold.clone();
        Some(Restored { hold, target, base })
    };
    let Some(rollback) = hold.rollback else {
        // A frozen zone keeps its content: where another is served the order was over, and a crash came before
        // that was noted. A serial would not tell, for it rises where a secondary is ahead.
        if hold
            .found
            .is_some_and(|found| found != version.content_hash())
        {
            tracing::info!(zone = %apex, "the freeze is over");
            return None;
        }
        return going_on(None, None);
    };
    if version.content_hash() == rollback.content {
        let base = contents_of(rollback.before, version, reader);
        if base.is_none() {
            tracing::warn!(
                zone = %apex, serial = %rollback.before,
                "the version before the rollback is no longer kept: the gate checks the end of the rollback"
            );
        }
        let base = base.map(|base| {
            let owners = differing(&version.contents, &base);
            (base, owners)
        });
        return going_on(None, base);
    }
    if version.serial != rollback.from {
        tracing::info!(zone = %apex, "the rollback is over");
        return None;
    }
    let Some(contents) = contents_of(rollback.to, version, reader) else {
        tracing::error!(zone = %apex, to = %rollback.to, "the zone cannot be rolled back: the version is no longer kept");
        return None;
    };
    going_on(Some(target_of(contents, version)), None)
}

/// The contents of the version with a serial.
fn contents_of(serial: Serial, version: &Version, reader: &Reader) -> Option<Contents> {
    let apex = version.contents.apex();
    let seq = reader.seq_of(apex, serial).ok().flatten()?;
    reader.contents_at(apex, seq, Some(version)).ok()
}

/// The content of an old version as something to go to.
pub(crate) fn target_of(contents: Contents, served: &Version) -> Target {
    Target {
        owners: differing(&served.contents, &contents),
        contents,
        seen: served.seq,
    }
}

/// What a rollback goes to, before the writer fills in what is served.
pub(crate) fn rollback_to(to: Serial, contents: &Contents, served: &Version) -> Rollback {
    Rollback {
        to,
        content: ContentTree::of(contents).content_hash(contents),
        from: served.serial,
        before: served.serial,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zone::journal::{Journal, WallClock};
    use zone::testing::contents;
    use zone::{Candidate, Edit, Hash, MemoryLimits};

    /// The zone's name.
    const APEX: &str = "z.example.";

    /// The version that follows one, with this serial and the same content.
    fn next(previous: Option<&Version>, serial: u32) -> Version {
        let before = previous.map_or_else(|| contents(APEX, 5, &[]), |it| it.contents.clone());
        let draft = Edit::new(&before).finish();
        let serial = Serial::decode(serial);
        let limits = MemoryLimits {
            steps: 0,
            octets: 0,
        };
        let next = Candidate::new(previous, draft, serial, 1_000, Vec::new(), limits);
        next.version().clone()
    }

    #[test]
    fn a_freeze_goes_on_after_a_restart_only_where_its_content_is_still_served() {
        let state = tempfile::tempdir().unwrap();
        let wall: WallClock = Arc::new(|| 1_000);
        let (journal, _) = Journal::open(state.path(), wall).unwrap();
        let found = next(None, 7);
        let apex: Name = APEX.parse().unwrap();
        let zone = Arc::new(Zone::new(&apex));
        let mut holds = Holds::read(state.path()).unwrap();
        let freeze = |found| Hold {
            since_ms: 1,
            until_ms: None,
            by: "someone".into(),
            rollback: None,
            found,
        };
        let other = Hash::from_octets([7; 32]);
        // The serial alone rises where a secondary is ahead of a frozen zone.
        zone.restore(next(Some(&found), 9));
        for (found, goes_on) in [
            (Some(found.content_hash()), true),
            (Some(other), false),
            // As an older release wrote it.
            (None, true),
        ] {
            holds.set(&apex, Some(&freeze(found))).unwrap();
            let read = Holds::read(state.path()).unwrap();
            assert_eq!(read.holds, holds.holds);
            let orders = read.restore([&zone].into_iter(), &journal.reader());
            assert_eq!(orders.going_on.len(), usize::from(goes_on), "{found:?}");
            // What does not go on is to be forgotten, or it would where that content comes again.
            assert_eq!(orders.over.is_empty(), goes_on, "{found:?}");
        }
        // A zone that is gone, or has no version, does not bring its order back one day.
        let without = Arc::new(Zone::new(&apex));
        for zones in [Vec::new(), vec![&without]] {
            let orders = holds.restore(zones.into_iter(), &journal.reader());
            assert_eq!(
                (orders.going_on.len(), &*orders.over),
                (0, &[apex.clone()][..])
            );
        }
    }

    #[test]
    fn an_order_of_an_older_release_reads() {
        let line = r#"{"zone":"z.","sinceMs":5,"untilMs":null,"by":"me","rollback":null}"#;
        let (zone, hold) = Line::read(line).unwrap();
        assert_eq!(
            (zone, hold.since_ms, hold.found),
            ("z.".parse().unwrap(), 5, None)
        );
    }
}

//! The file `serials` beside the database: for each zone a ceiling, at or above every serial announced.
//!
//! It is written (to a new file, synced, renamed, folder synced) before a serial above the ceiling is
//! published, and then some way ahead, so that it is rarely written. When the database is lost, wholly
//! or at its end, the next serial starts above the ceiling. Text, so that a person can read it: a head
//! line, then `NAME CEILING CHECK` per zone, each line with its own check, so that a damaged line costs
//! one zone.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use dns::{Name, Serial};

const FILE: &str = "serials";
/// Where it is written before it is renamed.
const NEXT: &str = "serials.next";
/// The file that says what is newest.
const NEWEST: &str = "newest";
const HEAD_LINE: &str = "zonewright serials 1";
/// How far above a serial its ceiling is set: serials follow the clock, so the file is written at most
/// once in so many seconds, and a crash costs at most so many serials.
const AHEAD: u32 = 256;

/// The ceilings, in memory and on disk.
#[derive(Debug)]
pub(super) struct Serials {
    dir: PathBuf,
    /// By lower-case name: the ceiling as it is on disk.
    ceilings: BTreeMap<Name, Serial>,
}

/// What was found on disk.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) serials: Serials,
    /// What is wrong with the file, in words.
    pub(super) notes: Vec<String>,
    /// Whether there is a file.
    pub(super) present: bool,
}

impl Serials {
    pub(super) fn read(dir: &Path) -> io::Result<Found> {
        let mut found = Found {
            serials: Self {
                dir: dir.to_owned(),
                ceilings: BTreeMap::new(),
            },
            notes: Vec::new(),
            present: true,
        };
        let octets = match fs::read(dir.join(FILE)) {
            Ok(octets) => octets,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                found.present = false;
                return Ok(found);
            }
            Err(error) => return Err(error),
        };
        let mut lines = octets.split(|octet| *octet == b'\n');
        let mut bad = usize::from(lines.next() != Some(HEAD_LINE.as_bytes()));
        for line in lines.filter(|line| !line.is_empty()) {
            match read_line(line) {
                Some((apex, ceiling)) => {
                    found.serials.ceilings.insert(apex, ceiling);
                }
                None => bad += 1,
            }
        }
        // A truncated file may have lost whole lines without a trace but for this.
        if !octets.ends_with(b"\n") {
            bad = bad.max(1);
        }
        if bad > 0 {
            found.notes.push(format!(
                "the file {FILE} is damaged ({bad} lines): serials go on from the database"
            ));
        }
        Ok(found)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&Name, Serial)> {
        self.ceilings.iter().map(|(apex, ceiling)| (apex, *ceiling))
    }

    /// Makes sure that the ceilings on disk are at or above these serials.
    pub(super) fn cover(&mut self, serials: &[(Name, Serial)]) -> io::Result<()> {
        let mut next = self.ceilings.clone();
        let mut changed = false;
        for (apex, serial) in serials {
            let low = next
                .get(apex)
                .is_none_or(|ceiling| ceiling != serial && !ceiling.is_after(*serial));
            if low {
                next.insert(apex.clone(), serial.next(AHEAD));
                changed = true;
            }
        }
        if changed { self.replace(next) } else { Ok(()) }
    }

    /// Sets ceilings to exactly these serials: for a clean end, when nothing above was announced.
    pub(super) fn settle(&mut self, serials: &[(Name, Serial)]) -> io::Result<()> {
        let mut next = self.ceilings.clone();
        for (apex, serial) in serials {
            next.insert(apex.clone(), *serial);
        }
        if next == self.ceilings {
            return Ok(());
        }
        self.replace(next)
    }

    fn replace(&mut self, next: BTreeMap<Name, Serial>) -> io::Result<()> {
        let mut text = format!("{HEAD_LINE}\n");
        for (apex, ceiling) in &next {
            text.push_str(&write_line(apex, *ceiling));
        }
        write_durably(&self.dir, FILE, NEXT, text.as_bytes())?;
        self.ceilings = next;
        Ok(())
    }
}

/// One line of the file.
fn write_line(apex: &Name, ceiling: Serial) -> String {
    let body = format!("{apex} {ceiling}");
    let sum = crc32fast::hash(body.as_bytes());
    format!("{body} {sum:08x}\n")
}

/// Reads one line; `None` when it is damaged.
fn read_line(line: &[u8]) -> Option<(Name, Serial)> {
    let line = std::str::from_utf8(line).ok()?;
    let (body, sum) = line.rsplit_once(' ')?;
    if format!("{:08x}", crc32fast::hash(body.as_bytes())) != sum {
        return None;
    }
    let (apex, ceiling) = body.rsplit_once(' ')?;
    let apex: Name = apex.parse().ok()?;
    Some((apex.to_lower(), Serial::decode(ceiling.parse().ok()?)))
}

/// The file `newest`: the serial and number of each zone's newest version, written in place with each
/// commit and not synced. It promises nothing; when it is whole and ahead of the database, it tells what
/// was lost. While the machine was not started anew since, it is exact: then nothing is lost where it
/// agrees with the database, and no serial has to be passed over. A line that begins with [`UNSURE`] is of a zone
/// of which nothing is left, and nobody knows what there was; one that begins with [`NOT_SINCE`] tells of no more than
/// was found after the machine was started, so that later serials may have been announced before.
#[derive(Debug)]
pub(super) struct Newest {
    file: File,
    len: u64,
    /// Names this start of the machine; empty where the system does not tell.
    boot: String,
}

/// What stands before the line of a zone that may have lost all its versions, with the highest serial that they may
/// have had.
const UNSURE: &[u8] = b"? ";
/// What stands before the line of a zone without a commit since a start that did not know what was announced.
const NOT_SINCE: &[u8] = b"+ ";

/// What is newest of a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) apex: Name,
    /// Its newest serial that is known.
    pub(super) serial: Serial,
    /// Whether no later one was announced.
    pub(super) is_newest: bool,
}

/// What the file `newest` said.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) serials: Vec<Line>,
    /// Zones that may have lost all they had, with the highest serial that it may have been.
    pub(super) unsure: Vec<(Name, Serial)>,
    /// Whether it was written since the machine was started, so that nothing of it can be lost.
    pub(super) is_exact: bool,
}

/// Reads one line of what is newest; `None` when it is damaged.
fn read_newest(line: &[u8]) -> Option<Line> {
    let rest = line.strip_prefix(NOT_SINCE);
    let (apex, serial) = read_line(rest.unwrap_or(line))?;
    let is_newest = rest.is_none();
    Some(Line {
        apex,
        serial,
        is_newest,
    })
}

/// What names this start of the machine on Linux.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

impl Newest {
    /// Opens the file and reads what it says; nothing when it is torn or new.
    pub(super) fn open(dir: &Path) -> io::Result<(Self, Known)> {
        let boot = fs::read_to_string(BOOT_ID)
            .unwrap_or_default()
            .trim()
            .to_owned();
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(dir.join(NEWEST))?;
        let mut octets = Vec::new();
        file.read_to_end(&mut octets)?;
        let mut lines = octets
            .split(|octet| *octet == b'\n')
            .filter(|line| !line.is_empty());
        let written = lines.next().and_then(|line| line.strip_prefix(b"boot "));
        let (unsure, sure): (Vec<_>, Vec<_>) = lines.partition(|line| line.starts_with(UNSURE));
        let sure: Option<Vec<_>> = sure.into_iter().map(read_newest).collect();
        let unsure = unsure
            .into_iter()
            .map(|line| read_line(&line[UNSURE.len()..]));
        let unsure: Option<Vec<_>> = unsure.collect();
        let is_exact = !boot.is_empty() && written == Some(boot.as_bytes());
        let known = sure.zip(unsure).map(|(serials, unsure)| Known {
            serials,
            unsure,
            is_exact,
        });
        let known = known.unwrap_or_default();
        let len = octets.len() as u64;
        Ok((Self { file, len, boot }, known))
    }

    /// Writes what is newest, and what may be lost.
    pub(super) fn write(&mut self, serials: &[Line], unsure: &[(Name, Serial)]) -> io::Result<()> {
        let mut text = format!("boot {}\n", self.boot).into_bytes();
        for line in serials {
            if !line.is_newest {
                text.extend_from_slice(NOT_SINCE);
            }
            text.extend_from_slice(write_line(&line.apex, line.serial).as_bytes());
        }
        for (apex, serial) in unsure {
            text.extend_from_slice(UNSURE);
            text.extend_from_slice(write_line(apex, *serial).as_bytes());
        }
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&text)?;
        let len = text.len() as u64;
        if len < self.len {
            self.file.set_len(len)?;
        }
        self.len = len;
        Ok(())
    }
}

/// Replaces a file so that after a crash it has its old or its new content, whole.
pub fn write_durably(dir: &Path, name: &str, next: &str, octets: &[u8]) -> io::Result<()> {
    let aside = dir.join(next);
    let mut file = File::create(&aside)?;
    file.write_all(octets)?;
    file.sync_all()?;
    drop(file);
    fs::rename(&aside, dir.join(name))?;
    sync_dir(dir)
}

/// Brings a folder's entries to the disk.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

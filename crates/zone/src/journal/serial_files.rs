//! The file `serials` beside the database holds a ceiling for each zone, at or above every published serial.
//!
//! The file is written (to a new file, synced, renamed, folder synced) before a serial above the ceiling is
//! published. The new ceiling is some way ahead, so that the file is rarely written. When the database is lost,
//! completely or at its end, the next serial is above the ceiling. The file is text, so that an operator can read it:
//! a first line, then `NAME CEILING CHECKSUM` per zone. Each line has its own checksum, so that a damaged line
//! affects one zone only.
//!
//! A ceiling is exact after a clean end. After a crash it is some way ahead: the serials up to it were reserved, and
//! only the file `newest` shows which of them were announced.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use dns::{Name, Serial};

pub(super) const SERIALS: &str = "serials";
/// The name under which it is written before it is renamed.
const NEXT: &str = "serials.next";
/// The file with the newest serials.
pub(super) const NEWEST: &str = "newest";
const HEAD_LINE: &str = "zonewright serials 1";
/// How far a ceiling is set above the serial. Serials follow the clock, so the file is written at most once in as
/// many seconds, and a crash skips at most as many serials.
const AHEAD: u32 = 256;

#[derive(Debug)]
pub(super) struct Serials {
    dir: PathBuf,
    /// The ceilings on disk, by lower-case name.
    ceilings: BTreeMap<Name, Serial>,
}

#[derive(Debug)]
pub(super) struct Found {
    pub(super) serials: Serials,
    /// The number of damaged lines.
    pub(super) damaged: usize,
    /// Whether the file exists.
    pub(super) present: bool,
}

impl Found {
    /// The problem of the file, in a sentence for an operator.
    pub(super) fn note(&self) -> Option<String> {
        (self.damaged > 0).then(|| {
            let lines = self.damaged;
            format!(
                "the file {SERIALS} is damaged ({lines} lines): serials continue from the database"
            )
        })
    }
}

impl Serials {
    pub(super) fn read(dir: &Path) -> io::Result<Found> {
        let mut found = Found {
            serials: Self {
                dir: dir.to_owned(),
                ceilings: BTreeMap::new(),
            },
            damaged: 0,
            present: true,
        };
        let octets = match fs::read(dir.join(SERIALS)) {
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
        // Only this shows that a truncated file lost whole lines.
        if !octets.ends_with(b"\n") {
            bad = bad.max(1);
        }
        found.damaged = bad;
        Ok(found)
    }

    pub(super) fn has(&self, apex: &Name) -> bool {
        self.ceilings.contains_key(apex)
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

    /// Sets ceilings to exactly these serials, on shutdown, when nothing above them was published.
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
        write_durably(&self.dir, SERIALS, NEXT, text.as_bytes())?;
        self.ceilings = next;
        Ok(())
    }
}

fn write_line(apex: &Name, ceiling: Serial) -> String {
    format!("{}\n", with_sum(&format!("{apex} {ceiling}")))
}

/// The checksum of a text or of octets: their CRC-32, in eight digits.
#[must_use]
pub fn sum(octets: impl AsRef<[u8]>) -> String {
    format!("{:08x}", crc32fast::hash(octets.as_ref()))
}

/// A line with its checksum at its end, without the end of the line.
#[must_use]
pub fn with_sum(body: &str) -> String {
    format!("{body} {}", sum(body))
}

/// A line without its checksum; `None` when it does not have the right one.
#[must_use]
pub fn without_sum(line: &str) -> Option<&str> {
    let (body, _) = line.rsplit_once(' ')?;
    (with_sum(body) == line).then_some(body)
}

/// Parses a line; `None` when it is damaged.
fn read_line(line: &[u8]) -> Option<(Name, Serial)> {
    let body = without_sum(std::str::from_utf8(line).ok()?)?;
    let (apex, ceiling) = body.rsplit_once(' ')?;
    let apex: Name = apex.parse().ok()?;
    Some((apex.to_lower(), Serial::decode(ceiling.parse().ok()?)))
}

/// The file `newest`: the serial of each zone's newest version, written in place with each commit and not synced.
///
/// No serial relies on it: when it is undamaged and ahead of the database, it shows which versions were lost. As long
/// as the machine was not rebooted, it is exact: if it agrees with the database, nothing is lost and no serial has to
/// be skipped. A line that begins with [`UNSURE`] is for a zone that may have lost versions, with an unknown history. A
/// line that begins with [`NOT_SINCE`] is for a zone without a commit since the boot; later serials may have been
/// published before.
#[derive(Debug)]
pub(super) struct Newest {
    path: PathBuf,
    /// The file; `None` until something is written to it.
    file: Option<File>,
    len: u64,
    /// Identifies this boot of the machine; empty when the system does not say.
    boot: String,
}

/// The prefix of the first line.
const BOOT: &str = "boot ";
/// The length of the identity of a boot. Older releases wrote it without a checksum.
const BOOT_OCTETS: usize = 36;
/// The prefix of the line of a zone that may have lost versions, with the highest serial that they can have had.
const UNSURE: &[u8] = b"? ";
/// The prefix of the line of a zone without a commit since a start that did not know the newest published serial.
const NOT_SINCE: &[u8] = b"+ ";

/// The newest serial of a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) apex: Name,
    /// The newest known serial.
    pub(super) serial: Serial,
    /// Whether no later serial was published.
    pub(super) is_newest: bool,
}

/// What is wrong with the file `newest`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NewestFault {
    Missing,
    /// A loss of power can leave it so, as it is not synced.
    Empty,
    Damaged,
}

impl NewestFault {
    /// The words after the file's name.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "is missing",
            Self::Empty => "is empty",
            Self::Damaged => "is damaged",
        }
    }
}

/// The contents of the file `newest`.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) serials: Vec<Line>,
    /// Zones that may have lost versions, with the highest serial that they can have had.
    pub(super) unsure: Vec<(Name, Serial)>,
    /// Whether the file was written since the machine was booted, so that it is complete.
    pub(super) is_exact: bool,
    /// What is wrong with it. Lines that are whole are known all the same.
    pub(super) fault: Option<NewestFault>,
}

impl Known {
    /// Whether the file says which version of a zone is the newest.
    pub(super) fn has(&self, apex: &Name) -> bool {
        self.serials.iter().any(|line| line.apex == *apex)
    }

    /// Reads the file, as far as it is there.
    pub(super) fn read(dir: &Path) -> io::Result<Self> {
        match fs::read(dir.join(NEWEST)) {
            Ok(octets) => Ok(Self::of(&octets, &boot())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self {
                fault: Some(NewestFault::Missing),
                ..Self::default()
            }),
            Err(error) => Err(error),
        }
    }

    fn of(octets: &[u8], boot: &str) -> Self {
        let mut known = Self::default();
        if octets.is_empty() {
            known.fault = Some(NewestFault::Empty);
            return known;
        }
        let mut lines = octets.split(|octet| *octet == b'\n');
        let written = lines.next().and_then(read_boot);
        let mut is_whole = written.is_some() && octets.ends_with(b"\n");
        for line in lines.filter(|line| !line.is_empty()) {
            match line.strip_prefix(UNSURE) {
                Some(rest) => match read_line(rest) {
                    Some(unsure) => known.unsure.push(unsure),
                    None => is_whole = false,
                },
                None => match read_newest(line) {
                    Some(line) => known.serials.push(line),
                    None => is_whole = false,
                },
            }
        }
        known.is_exact = is_whole && !boot.is_empty() && written == Some(boot);
        known.fault = (!is_whole).then_some(NewestFault::Damaged);
        known
    }
}

/// Parses the first line; `None` when it is damaged.
fn read_boot(line: &[u8]) -> Option<&str> {
    let line = std::str::from_utf8(line).ok()?;
    let boot = without_sum(line).unwrap_or(line).strip_prefix(BOOT)?;
    let is_old = line.len() == BOOT.len() || line.len() == BOOT.len() + BOOT_OCTETS;
    (is_old || without_sum(line).is_some()).then_some(boot)
}

/// Parses a line; `None` when it is damaged.
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

/// Identifies the current boot on Linux.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

fn boot() -> String {
    let boot = fs::read_to_string(BOOT_ID).unwrap_or_default();
    boot.trim().to_owned()
}

impl Newest {
    /// The file of a folder. Nothing is written yet.
    pub(super) fn of(dir: &Path) -> Self {
        Self {
            path: dir.join(NEWEST),
            file: None,
            len: 0,
            boot: boot(),
        }
    }

    /// Writes the newest serials, and the zones that may have lost versions.
    pub(super) fn write(&mut self, serials: &[Line], unsure: &[(Name, Serial)]) -> io::Result<()> {
        let first = with_sum(&format!("{BOOT}{}", self.boot));
        let mut text = format!("{first}\n").into_bytes();
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
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let mut options = OpenOptions::new();
                let file = options.write(true).create(true).truncate(false);
                let file = file.open(&self.path)?;
                self.len = file.metadata()?.len();
                self.file.insert(file)
            }
        };
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&text)?;
        let len = text.len() as u64;
        if len < self.len {
            file.set_len(len)?;
        }
        self.len = len;
        Ok(())
    }
}

/// Replaces a file so that after a crash it has its old or its new content, never a part.
pub fn write_durably(dir: &Path, name: &str, next: &str, octets: &[u8]) -> io::Result<()> {
    let aside = dir.join(next);
    let mut file = File::create(&aside)?;
    file.write_all(octets)?;
    file.sync_all()?;
    drop(file);
    fs::rename(&aside, dir.join(name))?;
    sync_dir(dir)
}

/// Syncs a folder, so that the names in it are on disk.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

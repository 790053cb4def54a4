//! The file `serials` beside the database holds a ceiling for each zone, at or above every published serial.
//!
//! The file is written (to a new file, synced, renamed, folder synced) before a serial above the ceiling is
//! published. The new ceiling is some way ahead, so that the file is rarely written. When the database is lost,
//! completely or at its end, the next serial is above the ceiling. The file is text, so that an operator can read it:
//! a first line, then `NAME CEILING CHECKSUM` per zone. Each line has its own checksum, so that a damaged line
//! affects one zone only.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use dns::{Name, Serial};

const FILE: &str = "serials";
/// The name under which it is written before it is renamed.
const NEXT: &str = "serials.next";
/// The file with the newest serials.
const NEWEST: &str = "newest";
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
    /// The problem of the file, in sentences for an operator.
    pub(super) notes: Vec<String>,
    /// Whether the file exists.
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
        // Only this shows that a truncated file lost whole lines.
        if !octets.ends_with(b"\n") {
            bad = bad.max(1);
        }
        if bad > 0 {
            found.notes.push(format!(
                "the file {FILE} is damaged ({bad} lines): serials continue from the database"
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
        write_durably(&self.dir, FILE, NEXT, text.as_bytes())?;
        self.ceilings = next;
        Ok(())
    }
}

fn write_line(apex: &Name, ceiling: Serial) -> String {
    let body = format!("{apex} {ceiling}");
    let sum = crc32fast::hash(body.as_bytes());
    format!("{body} {sum:08x}\n")
}

/// Parses a line; `None` when it is damaged.
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

/// The file `newest`: the serial and number of each zone's newest version, written in place with each commit and not
/// synced.
///
/// Nothing relies on it: when it is undamaged and ahead of the database, it shows which versions were lost. As long
/// as the machine was not rebooted, it is exact: if it agrees with the database, nothing is lost and no serial has to
/// be skipped. A line that begins with [`UNSURE`] is for a zone that lost everything, with an unknown history. A line
/// that begins with [`NOT_SINCE`] is for a zone without a commit since the boot; later serials may have been
/// published before.
#[derive(Debug)]
pub(super) struct Newest {
    file: File,
    len: u64,
    /// Identifies this boot of the machine; empty when the system does not say.
    boot: String,
}

/// The prefix of the line of a zone that may have lost all its versions, with the highest serial that they can have
/// had.
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

/// The contents of the file `newest`.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) serials: Vec<Line>,
    /// Zones that may have lost all versions, with the highest serial that they can have had.
    pub(super) unsure: Vec<(Name, Serial)>,
    /// Whether the file was written since the machine was booted, so that it is complete.
    pub(super) is_exact: bool,
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

impl Newest {
    /// Opens the file and reads it. A damaged or new file has no contents.
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

    /// Writes the newest serials, and the zones that may have lost all versions.
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

//! `log --follow` and `export --follow`: the versions after those already sent, oldest first, a page at a time.
//!
//! The last line of a page tells the client where to continue. So a stream survives a restart of the server. A stream
//! that was cut off continues where it stopped, after the last serial that the client saw.

use std::collections::BTreeMap;
use std::io;
use std::ops::RangeInclusive;

use dns::{Name, Serial};
use serde::{Deserialize, Serialize};
use serde_json::json;
use zone::journal::{Acts, SerialPlace};

use crate::error::{AuditError, Output, SCHEMA};
use crate::page::Room;
use crate::past::{Past, last_version};
use crate::remark::Remark;
use crate::{act, export, log};

/// How many pages of versions are searched at a time, from the oldest on. A page has no room for more, and the index
/// finds versions in descending order.
const PAGES_SEARCHED: u64 = 10;

/// The position of a stream: the last version sent of each zone.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cursor {
    /// By zone. A zone that is missing here starts at its oldest version.
    pub given: BTreeMap<String, Given>,
    /// The number of the last act sent of each zone.
    #[serde(default)]
    pub acts: BTreeMap<String, u64>,
    /// Whether more versions may be available now.
    pub is_more: bool,
}

/// A version that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// Its number.
    pub seq: u64,
    /// Its serial. When a zone's store was lost, wholly or at its end, the numbers come again, but serials do not.
    pub serial: u32,
}

/// The number of an unknown version; real numbers begin at 1.
const UNKNOWN: u64 = 0;

impl Given {
    /// A version that was sent some time ago and is no longer kept.
    pub(super) const fn unknown(serial: u32) -> Self {
        Self {
            seq: UNKNOWN,
            serial,
        }
    }
}

#[derive(Debug)]
pub(super) struct Followed<'a> {
    pub(super) zones: &'a [Name],
    /// Selects versions, ignoring their time.
    pub(super) filter: &'a log::Filter,
    /// Whether each line has everything needed to check the hashes.
    pub(super) is_whole: bool,
}

impl Cursor {
    /// The position after the newest version of each zone.
    pub(super) fn at_newest(past: &dyn Past, zones: &[Name]) -> Result<Self, AuditError> {
        Self::behind(past, zones, &|_| true)
    }

    /// The position after each zone's versions from before a time, milliseconds since 1970 UTC.
    pub(super) fn before(
        past: &dyn Past,
        zones: &[Name],
        since_ms: u64,
    ) -> Result<Self, AuditError> {
        Self::behind(past, zones, &|time_ms| time_ms < since_ms)
    }

    /// The numbers of the last acts for whose times `holds` is true, which it is for all earlier ones.
    pub(super) fn acts_until(
        past: &dyn Past,
        zones: &[Name],
        holds: &dyn Fn(u64) -> bool,
    ) -> Result<BTreeMap<String, u64>, AuditError> {
        let last = |zone: &Name| {
            let acts = past.acts(zone, 0)?.all;
            let last = acts.iter().rfind(|act| holds(act.time_ms));
            Ok((zone.to_string(), last.map_or(0, |act| act.number)))
        };
        zones.iter().map(last).collect()
    }

    /// The position after the last version of each zone for which `holds` is true.
    fn behind(
        past: &dyn Past,
        zones: &[Name],
        holds: &dyn Fn(u64) -> bool,
    ) -> Result<Self, AuditError> {
        let mut cursor = Self {
            acts: Self::acts_until(past, zones, holds)?,
            ..Self::default()
        };
        for zone in zones {
            let Some(range) = past.range(zone) else {
                continue;
            };
            let last = last_version(past, zone, range, &|(_, time_ms)| holds(time_ms))?;
            if last >= range.0 {
                cursor
                    .given
                    .insert(zone.to_string(), given(past, zone, last)?);
            }
        }
        Ok(cursor)
    }
}

fn given(past: &dyn Past, zone: &Name, seq: u64) -> Result<Given, AuditError> {
    let (serial, _) = past.moment(zone, seq)?;
    let serial = serial.encode();
    Ok(Given { seq, serial })
}

/// Writes a page and the position to continue from.
pub(super) fn write(
    past: &dyn Past,
    followed: &Followed<'_>,
    cursor: Cursor,
    mut room: Room,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let window = (room.versions as u64).saturating_mul(PAGES_SEARCHED);
    let mut next = Cursor {
        is_more: false,
        ..cursor
    };
    for zone in followed.zones {
        let Some((oldest, newest)) = past.range(zone) else {
            continue;
        };
        if !room.is_left() {
            // This zone was not searched; the next page does.
            next.is_more = true;
            break;
        }
        let first = match next.given.get(&zone.to_string()) {
            None => {
                // Numbers begin at 1.
                let lost = if oldest > 1 {
                    Lost::Unknown
                } else {
                    Lost::None
                };
                write_gap(zone, lost, output, out)?;
                oldest
            }
            Some(given) => {
                let (first, lost) = first_after(past, zone, *given, (oldest, newest))?;
                write_gap(zone, lost, output, out)?;
                first
            }
        };
        let each = |seq: u64, out: &mut dyn io::Write| one(past, zone, followed, seq, output, out);
        let (mut rest, mut from) = (None, first);
        while rest.is_none() && from <= newest {
            let to = newest.min(from.saturating_add(window - 1));
            let seqs = wanted(past, zone, followed.filter, from..=to)?;
            rest = room.fill(seqs, &each, out)?;
            from = to + 1;
        }
        next.is_more |= rest.is_some();
        let last = rest.map_or(newest, |rest| rest - 1);
        let last = given(past, zone, last)?;
        next.given.insert(zone.to_string(), last);
        if rest.is_none() && !followed.is_whole && !followed.filter.is_of_changes() {
            write_acts(past, zone, &mut next, output, out)?;
        }
    }
    let line = serde_json::to_string(&next).map_err(io::Error::other)?;
    Ok(writeln!(out, "{line}")?)
}

/// Writes the acts that were not sent yet.
fn write_acts(
    past: &dyn Past,
    zone: &Name,
    cursor: &mut Cursor,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let sent = cursor.acts.entry(zone.to_string()).or_default();
    let Acts { all, faults } = past.acts(zone, *sent)?;
    // A fault comes with the next act that can be read: once.
    for fault in faults.iter().filter(|_| !all.is_empty()) {
        Remark::act_fault(zone, fault).write(zone, output, out)?;
    }
    for act in all {
        act::write(zone, &act, output, out)?;
        *sent = act.number;
    }
    Ok(())
}

/// The versions in this range that may be selected, oldest first.
fn wanted(
    past: &dyn Past,
    zone: &Name,
    filter: &log::Filter,
    seqs: RangeInclusive<u64>,
) -> Result<Box<dyn Iterator<Item = u64>>, AuditError> {
    let Some(topic) = filter.topic() else {
        return Ok(Box::new(seqs));
    };
    let mut found = Vec::new();
    past.find(zone, topic, seqs, &mut |seq| {
        found.push(seq);
        Ok(true)
    })?;
    Ok(Box::new(found.into_iter().rev()))
}

/// Writes a version if it is selected.
fn one(
    past: &dyn Past,
    zone: &Name,
    followed: &Followed<'_>,
    seq: u64,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    if !followed.is_whole {
        log::write_version(past, zone, (seq, None), followed.filter, output, out)?;
        return Ok(());
    }
    let step = past.step(zone, seq)?;
    if followed.filter.fits(&step) {
        writeln!(out, "{}", export::version_json(zone, &step))?;
    }
    Ok(())
}

/// The versions missing between the last one sent and those that follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lost {
    None,
    /// This many versions left the history.
    Versions(u64),
    /// Unknown, because the version sent last is not in this history.
    Unknown,
}

/// The version to continue with.
fn first_after(
    past: &dyn Past,
    zone: &Name,
    given: Given,
    (oldest, newest): (u64, u64),
) -> Result<(u64, Lost), AuditError> {
    let serial = Serial::decode(given.serial);
    if (oldest..=newest).contains(&given.seq) {
        let (known, _) = past.moment(zone, given.seq)?;
        if known == serial {
            return Ok((given.seq + 1, Lost::None));
        }
    }
    let last = match past.place_of(zone, serial, newest)? {
        SerialPlace::At(seq) | SerialPlace::Between(seq) => seq,
        SerialPlace::After => newest,
        SerialPlace::Before => oldest - 1,
    };
    let lost = match oldest.checked_sub(given.seq.saturating_add(1)) {
        _ if given.seq == UNKNOWN && last < oldest => {
            let first = past.step(zone, oldest)?;
            match &first.from {
                Some((before, _)) if *before == serial => Lost::None,
                Some(_) | None => Lost::Unknown,
            }
        }
        _ if last >= oldest => Lost::Unknown,
        None => Lost::Unknown,
        Some(0) => Lost::None,
        Some(lost) => Lost::Versions(lost),
    };
    Ok((last + 1, lost))
}

/// Writes that versions left the history before they were sent.
fn write_gap(
    zone: &Name,
    lost: Lost,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let lost = match lost {
        Lost::None => return Ok(()),
        Lost::Versions(lost) => Some(lost),
        Lost::Unknown => None,
    };
    match (output, lost) {
        (Output::Text, Some(lost)) => {
            writeln!(out, "{zone}: {lost} versions are no longer kept")?;
        }
        (Output::Text, None) => writeln!(
            out,
            "{zone}: part of its history was lost; versions may be missing here"
        )?,
        (Output::Json, lost) => {
            let line = json!({ "schema": SCHEMA, "type": "gap", "zone": zone.to_string(), "versions": lost });
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

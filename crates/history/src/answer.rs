//! Questions about the past, and which command answers them.

use std::io;

use dns::{Name, Serial};
use serde::{Deserialize, Serialize};

use crate::error::{AuditError, Output};
use crate::follow::{self, Cursor, Given};
use crate::moment::{Moment, TimeText};
use crate::order::{carry_out, until_ms};
use crate::page::Room;
use crate::past::{Order, Past, begins, last_version};
use crate::{blame, diff, export, log, show, status, verify, why};

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// Versions, newest first.
    Log {
        /// Only of this zone.
        zone: Option<String>,
        /// Only from this time on.
        since: Option<String>,
        /// Only up to this time.
        until: Option<String>,
        /// Only those that changed this name.
        name: Option<String>,
        /// Only those this object caused: `KIND/NAMESPACE/NAME`.
        object: Option<String>,
    },
    /// Versions after those that were given last, oldest first.
    Follow(Follow),
    /// A version as a master file.
    Show {
        /// `ZONE[@SERIAL|@TIME]`.
        zone: String,
        /// Only this name.
        name: Option<String>,
    },
    /// What differs between two versions.
    Diff {
        /// The zone.
        zone: String,
        /// Serial or time.
        from: String,
        /// Serial or time; now when absent.
        to: Option<String>,
    },
    /// Why the records of a version are there.
    Blame {
        /// `ZONE[@SERIAL|@TIME]`.
        zone: String,
        /// Only this name.
        name: Option<String>,
    },
    /// Whether the history is as it was written.
    Verify {
        /// Only of this zone.
        zone: Option<String>,
    },
    /// The history with all hashes, a page at a time.
    History {
        /// The zone.
        zone: String,
        /// The number of the version that was given last; the beginning when absent.
        after: Option<u64>,
    },
    /// How things stand.
    Status,
    /// The same, but for what the store keeps: nothing is read.
    Standing,
    /// Why a name has the answer that it has.
    Why {
        /// The name.
        name: String,
        /// The type; A when absent.
        rtype: Option<String>,
    },
    /// What is held of a zone is to be published.
    Release {
        /// The zone.
        zone: String,
    },
    /// A zone is to stay as it is.
    Freeze {
        /// The zone.
        zone: String,
        /// For how long; until it is released when absent.
        time: Option<String>,
    },
    /// A zone is to have an old content again.
    Rollback {
        /// The zone.
        zone: String,
        /// Serial or time.
        to: String,
        /// For how long.
        time: String,
    },
}

impl Request {
    /// Whether much of the store may be read for it.
    pub(super) const fn reads_much(&self) -> bool {
        match self {
            Self::Log { .. }
            | Self::Show { .. }
            | Self::Diff { .. }
            | Self::Blame { .. }
            | Self::Verify { .. }
            | Self::History { .. } => true,
            // A little of it at most; a follower comes again and again.
            Self::Follow(_)
            | Self::Status
            | Self::Standing
            | Self::Why { .. }
            | Self::Release { .. }
            | Self::Freeze { .. }
            | Self::Rollback { .. } => false,
        }
    }
}

/// Which versions are to follow.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Follow {
    /// Only of this zone.
    pub zone: Option<String>,
    /// Only from this time on, or after this serial; without it only what is new.
    pub since: Option<String>,
    /// Only those that changed this name.
    pub name: Option<String>,
    /// Only those this object caused.
    pub object: Option<String>,
    /// Whether each line has all that a check of the hashes needs.
    pub is_whole: bool,
    /// Where the answer before ended.
    pub cursor: Option<Cursor>,
}

/// A request and how its answer is to look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// What is asked.
    pub request: Request,
    /// How the answer looks.
    pub output: Output,
}

/// Writes the answer to a question that someone asks.
///
/// # Errors
/// [`AuditError`]; part of the answer may be written already.
pub fn answer(
    question: &Question,
    past: &dyn Past,
    asker: &str,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let output = question.output;
    match &question.request {
        Request::Log {
            zone,
            since,
            until,
            name,
            object,
        } => {
            let zones = zones_of(past, zone)?;
            let filter = log::Filter {
                since_ms: since_of(past, zone, since)?.map(|since| since.time_ms()),
                until_ms: time_of(past, until)?,
                ..filter_of(&zones, name, object)?
            };
            log::write(past, &zones, &filter, output, out)
        }
        Request::Follow(followed) => answer_follow(past, followed, Room::PAGE, output, out),
        Request::Show { zone, name } => {
            let (zone, moment) = zone_and_moment(past, zone)?;
            let name = name_in(std::slice::from_ref(&zone), name)?;
            let seq = version_at(past, &zone, moment)?;
            show::write(past, &zone, seq, name.as_ref(), output, out)
        }
        Request::Diff { zone, from, to } => {
            let zone = known_zone(past, zone)?;
            let from = Moment::parse(from, past.now_ms())?;
            let to = to
                .as_deref()
                .map(|to| Moment::parse(to, past.now_ms()))
                .transpose()?;
            let from = version_at(past, &zone, Some(from))?;
            let to = version_at(past, &zone, to)?;
            diff::write(past, &zone, from, to, output, out)
        }
        Request::Blame { zone, name } => {
            let (zone, moment) = zone_and_moment(past, zone)?;
            let name = name_in(std::slice::from_ref(&zone), name)?;
            let seq = version_at(past, &zone, moment)?;
            blame::write(past, &zone, seq, name.as_ref(), output, out)
        }
        Request::Verify { zone } => verify::write(past, &verified(past, zone)?, output, out),
        Request::History { zone, after } => {
            export::write(past, &known_zone(past, zone)?, *after, out)
        }
        Request::Status => status::write(&status_with_histories(past)?, output, out),
        Request::Standing => {
            let status = past.status().ok_or(AuditError::NoServer)?;
            status::write(&status, output, out)
        }
        Request::Why { name, rtype } => {
            let rtype = rtype.as_deref().unwrap_or("A").parse()?;
            why::write(past, &Name::parse(name)?, rtype, output, out)
        }
        Request::Release { zone } => {
            let zone = Name::parse(zone)?.to_lower();
            carry_out(past, &zone, (Order::Release, asker), output, out)
        }
        Request::Freeze { zone, time } => {
            let zone = Name::parse(zone)?.to_lower();
            let until_ms = time.as_deref().map(|time| until_ms(past, time));
            let until_ms = until_ms.transpose()?;
            let order = Order::Freeze { until_ms };
            carry_out(past, &zone, (order, asker), output, out)
        }
        Request::Rollback { zone, to, time } => {
            let (zone, order) = rollback_of(past, zone, to, time)?;
            carry_out(past, &zone, (order, asker), output, out)
        }
    }
}

/// How things stand, with what is kept of histories.
fn status_with_histories(past: &dyn Past) -> Result<status::Status, AuditError> {
    let mut status = past.status().ok_or(AuditError::NoServer)?;
    for line in &mut status.zones {
        line.history = past.history(&Name::parse(&line.zone)?);
    }
    Ok(status)
}

/// Writes the versions that follow, as many as there is room for.
pub(super) fn answer_follow(
    past: &dyn Past,
    followed: &Follow,
    room: Room,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let Follow {
        zone,
        since,
        name,
        object,
        is_whole,
        cursor,
    } = followed;
    let zones = zones_of(past, zone)?;
    let start = match cursor {
        // A stream that began goes on, though its beginning may have left the history.
        Some(cursor) => cursor.clone(),
        None => match since_followed(past, zone, since)? {
            None => Cursor::at_newest(past, &zones)?,
            Some(Since::Time(since_ms)) => Cursor::before(past, &zones, since_ms)?,
            // What has this serial was seen.
            Some(Since::Version { given, time_ms: _ }) => Cursor {
                given: zones.iter().map(|it| (it.to_string(), given)).collect(),
                is_more: false,
            },
        },
    };
    // Where no zone is named, others may come.
    let named = if zone.is_some() { &zones[..] } else { &[] };
    let filter = filter_of(named, name, object)?;
    let followed = follow::Followed {
        zones: &zones,
        filter: &filter,
        is_whole: *is_whole,
    };
    follow::write(past, &followed, start, room, output, out)
}

/// A time that is named.
fn time_of(past: &dyn Past, text: &Option<String>) -> Result<Option<u64>, AuditError> {
    let time = |text| Moment::parse_time(text, past.now_ms());
    Ok(text.as_deref().map(time).transpose()?)
}

/// The order to go back to an old content.
fn rollback_of(
    past: &dyn Past,
    zone: &str,
    to: &str,
    time: &str,
) -> Result<(Name, Order), AuditError> {
    let zone = known_zone(past, zone)?;
    let seq = version_at(past, &zone, Some(Moment::parse(to, past.now_ms())?))?;
    let (serial, _) = past.moment(&zone, seq).map_err(AuditError::Store)?;
    let until_ms = until_ms(past, time)?;
    let order = Order::Rollback {
        seq,
        serial,
        until_ms,
    };
    Ok((zone, order))
}

/// Which names and objects are wanted.
fn filter_of(
    zones: &[Name],
    name: &Option<String>,
    object: &Option<String>,
) -> Result<log::Filter, AuditError> {
    let object = object.as_deref().map(log::ObjectFilter::parse);
    Ok(log::Filter {
        name: name_in(zones, name)?,
        object: object.transpose()?,
        ..log::Filter::default()
    })
}

/// A name that is asked for in some zones, in any where none is given; elsewhere nothing is known of it, which is not to read as if it were absent.
fn name_in(zones: &[Name], name: &Option<String>) -> Result<Option<Name>, AuditError> {
    let name = name.as_deref().map(Name::parse).transpose()?;
    match name {
        Some(name) if !zones.is_empty() && !zones.iter().any(|zone| name.is_within(zone)) => {
            let zones = zones.to_vec();
            Err(AuditError::Outside { name, zones })
        }
        name => Ok(name),
    }
}

enum Since {
    /// A time, milliseconds since 1970 UTC.
    Time(u64),
    /// A version that is named by its serial.
    Version { given: Given, time_ms: u64 },
}

impl Since {
    /// The time, milliseconds since 1970 UTC.
    const fn time_ms(&self) -> u64 {
        match self {
            Self::Time(time_ms) | Self::Version { given: _, time_ms } => *time_ms,
        }
    }
}

fn since_of(
    past: &dyn Past,
    zone: &Option<String>,
    since: &Option<String>,
) -> Result<Option<Since>, AuditError> {
    let Some(since) = since else { return Ok(None) };
    let moment = Moment::parse(since, past.now_ms())?;
    Ok(Some(match moment {
        Moment::Time(ms) => Since::Time(ms),
        Moment::Serial(serial) => {
            let zone = zone.as_ref().ok_or(AuditError::WhoseSerial(serial))?;
            let zone = known_zone(past, zone)?;
            let seq = version_at(past, &zone, Some(moment))?;
            let (_, time_ms) = past.moment(&zone, seq).map_err(AuditError::Store)?;
            let given = Given { seq, serial };
            Since::Version { given, time_ms }
        }
    }))
}

/// Reads from when on a stream is wanted: what a serial named that is not kept any more was seen, nevertheless.
fn since_followed(
    past: &dyn Past,
    zone: &Option<String>,
    since: &Option<String>,
) -> Result<Option<Since>, AuditError> {
    match since_of(past, zone, since) {
        Err(AuditError::NoSerial { serial, .. }) => Ok(Some(Since::Version {
            given: Given::unknown(serial),
            time_ms: 0,
        })),
        since => since,
    }
}

/// The zone that is named, or all.
fn zones_of(past: &dyn Past, zone: &Option<String>) -> Result<Vec<Name>, AuditError> {
    match zone {
        Some(zone) => Ok(vec![known_zone(past, zone)?]),
        None => Ok(past.zones()),
    }
}

/// What is to be verified: also zones of which nothing is left.
fn verified(past: &dyn Past, zone: &Option<String>) -> Result<Vec<Name>, AuditError> {
    let lost = past.lost();
    if let Some(zone) = zone {
        let name = Name::parse(zone)?.to_lower();
        if lost.contains(&name) {
            return Ok(vec![name]);
        }
    }
    let mut zones = zones_of(past, zone)?;
    if zone.is_none() {
        zones.extend(lost);
        zones.sort();
    }
    if zones.is_empty() {
        return Err(AuditError::NothingStored);
    }
    Ok(zones)
}

/// A zone that is in the store.
fn known_zone(past: &dyn Past, text: &str) -> Result<Name, AuditError> {
    let zone = Name::parse(text)?.to_lower();
    let known = past.zones();
    if known.contains(&zone) {
        Ok(zone)
    } else {
        Err(AuditError::NoZone { zone, known })
    }
}

/// `ZONE[@SERIAL|@TIME]`.
fn zone_and_moment(past: &dyn Past, text: &str) -> Result<(Name, Option<Moment>), AuditError> {
    match text.split_once('@') {
        None => Ok((known_zone(past, text)?, None)),
        Some((zone, moment)) => Ok((
            known_zone(past, zone)?,
            Some(Moment::parse(moment, past.now_ms())?),
        )),
    }
}

/// The number of the version that is meant; the newest for `None`. Costs a binary search, for serials and
/// times rise with numbers.
fn version_at(past: &dyn Past, zone: &Name, moment: Option<Moment>) -> Result<u64, AuditError> {
    let (oldest, newest) = past.range(zone).ok_or_else(|| AuditError::NoZone {
        zone: zone.clone(),
        known: past.zones(),
    })?;
    let at = |seq| past.moment(zone, seq).map_err(AuditError::Store);
    let last =
        |holds: &dyn Fn((Serial, u64)) -> bool| last_version(past, zone, (oldest, newest), holds);
    match moment {
        None => Ok(newest),
        Some(Moment::Serial(number)) => {
            let serial = Serial::decode(number);
            let seq = last(&|(at, _)| !at.is_after(serial))?;
            if seq >= oldest && at(seq)?.0 == serial {
                return Ok(seq);
            }
            let (last, last_ms) = at(newest)?;
            let ends = match serial.is_after(last) {
                true => format!("the newest is serial {last}, {}", TimeText(last_ms)),
                false => format!("history begins at {}", begins(past, zone)?),
            };
            Err(AuditError::NoSerial {
                zone: zone.clone(),
                serial: number,
                ends,
            })
        }
        Some(Moment::Time(ms)) => {
            let seq = last(&|(_, time_ms)| time_ms <= ms)?;
            if seq < oldest {
                return Err(AuditError::TooEarly {
                    zone: zone.clone(),
                    begins: begins(past, zone)?,
                });
            }
            Ok(seq)
        }
    }
}

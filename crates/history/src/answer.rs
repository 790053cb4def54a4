//! Answers questions about the past: finds the zones, versions and names that a question means, and runs its command.

use std::io;

use dns::{Name, Serial};
use provenance::Operator;
use serde::{Deserialize, Serialize};
use zone::Hash;
use zone::journal::{Archived, SerialPlace};

use crate::doubts::{Doubts, lost_after};
use crate::error::{AuditError, Output};
use crate::follow::{self, Cursor, Given};
use crate::moment::{Moment, Present, TimeText};
use crate::order::{ZoneOrder, until_ms};
use crate::page::Room;
use crate::past::{Order, Past, begins, last_version};
use crate::set_back::SetBack;
use crate::show::{Asked, Point};
use crate::verify::{Anchors, Noted};
use crate::{
    blame, corefile, diff, export, group, log, parts, process, show, status, verify, waiting, why,
};

/// The end of `ZONE@held`.
const HELD: &str = "@held";

/// A question about the past, or a command for the running server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// Lists versions, newest first.
    Log {
        /// Only this zone.
        zone: Option<String>,
        /// Only versions from this time on.
        since: Option<String>,
        /// Only versions up to this time.
        until: Option<String>,
        /// Only versions that changed this name.
        name: Option<String>,
        /// Only versions caused by this object: `KIND/NAMESPACE/NAME`.
        object: Option<String>,
        /// No more than this many versions.
        count: Option<u64>,
    },
    /// Lists the versions after those already sent, oldest first.
    Follow(Follow),
    /// Prints a version as a master file.
    Show {
        /// `ZONE[@SERIAL|@TIME]`.
        zone: String,
        /// Only this name.
        name: Option<String>,
    },
    /// Compares two versions.
    Diff {
        /// The zone.
        zone: String,
        /// Serial or time.
        from: String,
        /// Serial or time; the newest version when absent.
        to: Option<String>,
    },
    /// Compares what is served with what waits to be published.
    Waiting {
        /// The zone.
        zone: String,
    },
    /// Prints the Corefile of a version.
    Corefile {
        /// `ZONE[@SERIAL|@TIME]`.
        zone: String,
    },
    /// Compares the Corefiles of two versions.
    Corefiles {
        /// The zone.
        zone: String,
        /// Serial or time.
        from: String,
        /// Serial or time; the newest version when absent.
        to: Option<String>,
    },
    /// Explains why the records of a version exist.
    Blame {
        /// `ZONE[@SERIAL|@TIME]`.
        zone: String,
        /// Only this name.
        name: Option<String>,
    },
    /// Verifies that the history is as it was written.
    Verify {
        /// Only this zone.
        zone: Option<String>,
        /// Hashes that were noted elsewhere, as `HASH` or `ZONE=HASH`.
        #[serde(default)]
        anchors: Vec<String>,
        /// Versions that signed notes name.
        #[serde(default)]
        noted: Vec<Noted>,
    },
    /// Lists the parts of histories that can be verified one by one.
    Parts {
        /// Only this zone.
        zone: Option<String>,
    },
    /// Verifies a part of a history.
    Part {
        /// The zone.
        zone: String,
        /// The first version of a segment; absent for what is stored here.
        first: Option<u64>,
        /// The hashes to look for.
        anchors: Vec<Hash>,
    },
    /// Exports the history with all hashes, a page at a time.
    History {
        /// The zone.
        zone: String,
        /// The number of the last version already sent; absent for the first page.
        after: Option<u64>,
    },
    /// Reports zones, sources and secondaries, with the extent of stored histories.
    Status,
    /// Like `Status`, without the stored histories: reads nothing from the store.
    Standing,
    /// Explains the answer that a name gets.
    Why {
        /// The name, or an address in place of its name in the reverse zone.
        name: String,
        /// The type. When absent, A, and PTR for an address.
        rtype: Option<String>,
    },
    /// Reads the Corefile again and puts it into use.
    Reload,
    /// Ends the server.
    Stop,
    /// Lets this replica lead although announced versions may be lost with it.
    Promote,
    /// Notifies the secondaries of a zone of its current version.
    Notify {
        /// The zone.
        zone: String,
    },
    /// Gives an order about a zone.
    Order {
        /// The zone.
        zone: String,
        /// What to do.
        order: OrderText,
        /// The operator's reason, which is recorded with the order.
        reason: Option<String>,
        /// Whether the order is about the zone's reverse zones, too.
        #[serde(default)]
        with_reverse: bool,
    },
}

/// An operator's order, with times and serials as they were typed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OrderText {
    /// Publishes the change that is held back in a zone, or ends its hold.
    Release,
    /// Freezes a zone.
    Freeze {
        /// How long; until it is released when absent.
        time: Option<String>,
    },
    /// Publishes a zone again, with a serial above this one.
    Advance {
        /// The serial.
        serial: u32,
    },
    /// Rolls a zone back to an old version.
    Rollback {
        /// Serial or time.
        to: String,
        /// How long.
        time: String,
    },
}

impl Request {
    /// Whether the answer may read much of the store.
    pub(super) const fn reads_much(&self) -> bool {
        match self {
            Self::Log { .. }
            | Self::Show { .. }
            | Self::Diff { .. }
            | Self::Waiting { .. }
            | Self::Blame { .. }
            | Self::Verify { .. }
            | Self::Part { .. }
            | Self::History { .. }
            | Self::Follow(_)
            | Self::Corefile { .. }
            | Self::Corefiles { .. }
            | Self::Why { .. } => true,
            Self::Parts { .. }
            | Self::Status
            | Self::Standing
            | Self::Reload
            | Self::Stop
            | Self::Promote
            | Self::Notify { .. }
            | Self::Order { .. } => false,
        }
    }

    /// Whether the request changes something, so that a reader may not make it.
    pub(super) const fn has_power(&self) -> bool {
        match self {
            Self::Reload
            | Self::Stop
            | Self::Promote
            | Self::Notify { .. }
            | Self::Order { .. } => true,
            Self::Log { .. }
            | Self::Follow(_)
            | Self::Show { .. }
            | Self::Diff { .. }
            | Self::Waiting { .. }
            | Self::Corefile { .. }
            | Self::Corefiles { .. }
            | Self::Blame { .. }
            | Self::Verify { .. }
            | Self::Parts { .. }
            | Self::Part { .. }
            | Self::History { .. }
            | Self::Status
            | Self::Standing
            | Self::Why { .. } => false,
        }
    }
}

/// A request for the versions that follow.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Follow {
    /// Only this zone.
    pub zone: Option<String>,
    /// Only versions from this time on, or after this serial. When absent, only new versions.
    pub since: Option<String>,
    /// Only versions that changed this name.
    pub name: Option<String>,
    /// Only versions caused by this object.
    pub object: Option<String>,
    /// Whether each line has everything needed to check the hashes.
    pub is_whole: bool,
    /// The position at the end of the previous answer.
    pub cursor: Option<Cursor>,
}

/// A request and its output format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The request.
    pub request: Request,
    /// The format of the answer.
    pub output: Output,
}

/// Writes the answer to a question. `asker` is recorded as the operator of a hold or release.
///
/// # Errors
/// [`AuditError`]; part of the answer may be written already.
pub fn answer(
    question: &Question,
    past: &dyn Past,
    asker: &Operator,
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
            count,
        } => {
            let zones = zones_of(past, zone)?;
            let filter = log::Filter {
                since_ms: since_of(past, zone, since)?.map(|since| since.time_ms()),
                until_ms: time_of(past, &zones, until)?,
                count: *count,
                ..filter_of(&zones, name, object)?
            };
            log::write(past, &with_name(zones, &filter), &filter, output, out)
        }
        Request::Follow(followed) => answer_follow(past, followed, Room::PAGE, output, out),
        Request::Show { zone, name } => answer_show(past, zone, name, output, out),
        Request::Waiting { zone } => waiting::diff(past, &known_zone(past, zone)?, output, out),
        Request::Diff { zone, from, to } => {
            answer_diff(past, (zone, from, to.as_deref()), output, out)
        }
        Request::Corefile { zone } => answer_corefile(past, zone, output, out),
        Request::Corefiles { zone, from, to } => {
            answer_corefiles(past, (zone, from, to.as_deref()), output, out)
        }
        Request::Blame { zone, name } => answer_blame(past, zone, name, output, out),
        Request::Verify {
            zone,
            anchors,
            noted,
        } => answer_verify(past, zone, anchors, noted, output, out),
        Request::Parts { zone } => answer_parts(past, zone, out),
        Request::Part {
            zone,
            first,
            anchors,
        } => {
            let zone = Name::parse(zone)?.to_lower();
            parts::write_part(past, &zone, *first, anchors, out)
        }
        Request::History { zone, after } => {
            export::write(past, &known_zone(past, zone)?, *after, out)
        }
        Request::Status => status::write(&status_with_histories(past)?, output, out),
        Request::Standing => status::write(&standing(past)?, output, out),
        Request::Why { name, rtype } => {
            let (name, rtype) = why::parse(name, rtype.as_deref())?;
            why::write(past, &name, rtype, output, out)
        }
        Request::Reload => process::reload(past, asker, output, out),
        Request::Stop => process::stop(past, asker, output, out),
        Request::Promote => process::promote(past, asker, output, out),
        Request::Notify { zone } => {
            let zone = Name::parse(zone)?.to_lower();
            process::notify(past, &zone, asker, output, out)
        }
        Request::Order {
            zone,
            order,
            reason,
            with_reverse,
        } => {
            let orders = orders_of(past, Name::parse(zone)?.to_lower(), order, *with_reverse)?;
            group::carry_out_all(past, orders, (asker, reason.as_deref()), output, out)
        }
    }
}

/// The zones that can have the name of a filter. Of zones within each other, each may have had it. What others keep says
/// nothing of it.
fn with_name(mut zones: Vec<Name>, filter: &log::Filter) -> Vec<Name> {
    let name = filter.name.as_ref();
    zones.retain(|zone| name.is_none_or(|name| name.is_within(zone)));
    zones
}

/// Verifies histories, with hashes that persons and signed notes have.
fn answer_verify(
    past: &dyn Past,
    zone: &Option<String>,
    anchors: &[String],
    noted: &[Noted],
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let mut anchors = Anchors::parse(anchors, noted)?;
    let zones = match verified(past, zone) {
        // All zones of the notes are gone.
        Err(AuditError::NothingStored) if zone.is_none() && !noted.is_empty() => Vec::new(),
        known => known?,
    };
    if let (Some(_), [zone]) = (zone, &*zones) {
        anchors = anchors.about(zone)?;
    }
    verify::write(past, &zones, &anchors, output, out)
}

/// Lists the parts of histories. Without a zone, nothing stored is no error: notes may be of zones that are gone.
fn answer_parts(
    past: &dyn Past,
    zone: &Option<String>,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    match verified(past, zone) {
        Err(AuditError::NothingStored) => Ok(()),
        zones => parts::write_parts(past, &zones?, out),
    }
}

/// Explains the records of a version.
fn answer_blame(
    past: &dyn Past,
    zone: &str,
    name: &Option<String>,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    blame::write(past, &asked_of(past, zone, name)?, output, out)
}

/// Prints the Corefile of a version.
fn answer_corefile(
    past: &dyn Past,
    zone: &str,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    corefile::show(past, &asked_of(past, zone, &None)?, output, out)
}

/// Compares the Corefiles of two versions of a zone.
fn answer_corefiles(
    past: &dyn Past,
    (zone, from, to): (&str, &str, Option<&str>),
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let zone = known_zone(past, zone)?;
    let ends = range_of(past, &zone, from, to)?;
    corefile::diff(past, &zone, &ends, output, out)
}

/// Prints a version, or what waits to be one.
fn answer_show(
    past: &dyn Past,
    zone: &str,
    name: &Option<String>,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    if let Some(zone) = zone.strip_suffix(HELD) {
        let zone = known_zone(past, zone)?;
        let name = name_in(std::slice::from_ref(&zone), name)?;
        return waiting::show(past, &zone, name.as_ref(), output, out);
    }
    show::write(past, &asked_of(past, zone, name)?, output, out)
}

/// The version that `ZONE[@SERIAL|@TIME]` names, or a name of it.
fn asked_of(past: &dyn Past, text: &str, name: &Option<String>) -> Result<Asked, AuditError> {
    let (zone, moment) = match text.split_once('@') {
        None => (text, None),
        Some((zone, moment)) => (zone, Some(moment)),
    };
    let zone = known_zone(past, zone)?;
    let present = present(past, std::slice::from_ref(&zone))?;
    let asked = asked_at(past, &zone, moment, present)?;
    let name = name_in(std::slice::from_ref(&zone), name)?;
    Ok(Asked { name, ..asked })
}

/// The version that a text means; the newest when absent.
fn asked_at(
    past: &dyn Past,
    zone: &Name,
    text: Option<&str>,
    present: Present,
) -> Result<Asked, AuditError> {
    let moment = text.map(|text| Moment::parse(text, present)).transpose()?;
    let seq = version_at(past, zone, moment)?;
    let point = match moment {
        None => Point::Now,
        Some(Moment::Time(_)) if text == Some(Moment::NOW) => Point::Now,
        Some(Moment::Time(ms)) => Point::Time(ms),
        Some(Moment::Serial(_)) => Point::Version,
    };
    let doubts = match point {
        Point::Version => Doubts::of_serial(past, zone, seq)?,
        Point::Time(ms) => Doubts::of_time(past, zone, seq, (ms, false))?,
        Point::Now => Doubts::of_time(past, zone, seq, (past.now_ms(), true))?,
    };
    Ok(Asked {
        zone: zone.clone(),
        seq,
        name: None,
        point,
        doubts,
    })
}

/// Compares two versions of a zone.
fn answer_diff(
    past: &dyn Past,
    (zone, from, to): (&str, &str, Option<&str>),
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let zone = known_zone(past, zone)?;
    let ends = range_of(past, &zone, from, to)?;
    diff::write(past, &ends, output, out)
}

/// Two versions of a zone; the newest where the second is not given.
fn range_of(
    past: &dyn Past,
    zone: &Name,
    from: &str,
    to: Option<&str>,
) -> Result<[Asked; 2], AuditError> {
    let present = present(past, std::slice::from_ref(zone))?;
    let from = asked_at(past, zone, Some(from), present)?;
    let to = asked_at(past, zone, to, present)?;
    Ok([from, to])
}

/// The status, without the stored histories.
fn standing(past: &dyn Past) -> Result<status::Status, AuditError> {
    past.status().ok_or(AuditError::NoServer)
}

/// The status, with the extent of the stored histories.
fn status_with_histories(past: &dyn Past) -> Result<status::Status, AuditError> {
    let mut status = standing(past)?;
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
        // A stream that was started continues, even if its start has left the history.
        Some(cursor) => cursor.clone(),
        None => match since_followed(past, zone, since)? {
            None => Cursor::at_newest(past, &zones)?,
            Some(Since::Time(since_ms)) => Cursor::before(past, &zones, since_ms)?,
            // The version with this serial is known to the caller.
            Some(Since::Version { given, time_ms }) => Cursor {
                given: zones.iter().map(|it| (it.to_string(), given)).collect(),
                acts: Cursor::acts_until(past, &zones, &|act_ms| act_ms <= time_ms)?,
                is_more: false,
            },
        },
    };
    // Without a zone in the request, new zones can appear.
    let named = if zone.is_some() { &zones[..] } else { &[] };
    let filter = filter_of(named, name, object)?;
    let followed = follow::Followed {
        zones: &zones,
        filter: &filter,
        is_whole: *is_whole,
    };
    follow::write(past, &followed, start, room, output, out)
}

/// The present of some zones.
fn present(past: &dyn Past, zones: &[Name]) -> Result<Present, AuditError> {
    let mut newest_ms = 0;
    for zone in zones {
        if let Some((_, newest)) = past.range(zone) {
            newest_ms = past.moment(zone, newest)?.1.max(newest_ms);
        }
    }
    let clock_ms = past.now_ms();
    Ok(Present {
        clock_ms,
        newest_ms,
    })
}

fn time_of(
    past: &dyn Past,
    zones: &[Name],
    text: &Option<String>,
) -> Result<Option<u64>, AuditError> {
    let Some(text) = text else { return Ok(None) };
    Ok(Some(Moment::parse_time(text, present(past, zones)?)?))
}

/// The order that a text means.
fn order_of(past: &dyn Past, zone: &Name, order: &OrderText) -> Result<ZoneOrder, AuditError> {
    let order = match order {
        OrderText::Release => Order::Release,
        OrderText::Freeze { time } => {
            let until_ms = time.as_deref().map(|time| until_ms(past.now_ms(), time));
            Order::Freeze {
                until_ms: until_ms.transpose()?,
            }
        }
        OrderText::Advance { serial } => Order::Advance {
            serial: Serial::decode(*serial),
        },
        OrderText::Rollback { to, time } => {
            let zone = known_zone(past, &zone.to_string())?;
            let present = present(past, std::slice::from_ref(&zone))?;
            return rollback_to(past, &zone, Moment::parse(to, present)?, time);
        }
    };
    Ok(ZoneOrder {
        zone: zone.clone(),
        order,
        doubts: Doubts::default(),
    })
}

/// The rollback to the version that `moment` means.
fn rollback_to(
    past: &dyn Past,
    zone: &Name,
    moment: Moment,
    time: &str,
) -> Result<ZoneOrder, AuditError> {
    let seq = version_at(past, zone, Some(moment))?;
    let (serial, _) = past.moment(zone, seq)?;
    let doubts = match moment {
        // An archive that is away stops no order.
        Moment::Time(ms) => Doubts::of_time(past, zone, seq, (ms, false)).unwrap_or_default(),
        Moment::Serial(_) => Doubts::of_serial(past, zone, seq).unwrap_or_default(),
    };
    let order = Order::Rollback {
        seq,
        serial,
        until_ms: until_ms(past.now_ms(), time)?,
    };
    Ok(ZoneOrder {
        zone: zone.clone(),
        order,
        doubts,
    })
}

/// The orders about a zone, and about its reverse zones if these are meant, too, that a text means.
fn orders_of(
    past: &dyn Past,
    zone: Name,
    order: &OrderText,
    with_reverse: bool,
) -> Result<Vec<ZoneOrder>, AuditError> {
    let own = order_of(past, &zone, order)?;
    if !with_reverse {
        return Ok(vec![own]);
    }
    // The reverse zones go back to the time of the version, under serials of their own.
    let back = match (order, own.order) {
        (OrderText::Rollback { to: _, time }, Order::Rollback { seq, .. }) => {
            let (_, time_ms) = past.moment(&zone, seq)?;
            Some((Moment::Time(time_ms), time))
        }
        _ => None,
    };
    let reverse = past.reverse_of(&zone);
    if reverse.is_empty() {
        return Err(AuditError::Refused(format!(
            "{zone} has no reverse zones here; leave --with-reverse out"
        )));
    }
    let reverse = reverse.into_iter().map(|zone| match back {
        Some((moment, time)) => {
            let zone = known_zone(past, &zone.to_string())?;
            rollback_to(past, &zone, moment, time)
        }
        None => order_of(past, &zone, order),
    });
    std::iter::once(Ok(own)).chain(reverse).collect()
}

fn filter_of(
    zones: &[Name],
    name: &Option<String>,
    object: &Option<String>,
) -> Result<log::Filter, AuditError> {
    let object = object.as_deref().map(log::parse_object);
    Ok(log::Filter {
        name: name_in(zones, name)?,
        object: object.transpose()?,
        ..log::Filter::default()
    })
}

/// Parses a name and checks that it is in one of these zones. For a name elsewhere, an empty answer would look as if
/// the name did not exist. With no zones, any name is accepted.
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
    /// In milliseconds since 1970 UTC.
    Time(u64),
    /// The version with a serial.
    Version { given: Given, time_ms: u64 },
}

impl Since {
    /// In milliseconds since 1970 UTC.
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
    let moment = Moment::parse_bound(since, present(past, &zones_of(past, zone)?)?)?;
    Ok(Some(match moment {
        Moment::Time(ms) => Since::Time(ms),
        Moment::Serial(serial) => {
            let zone = zone.as_ref().ok_or(AuditError::WhoseSerial(serial))?;
            let zone = known_zone(past, zone)?;
            let seq = version_at(past, &zone, Some(moment))?;
            let (_, time_ms) = past.moment(&zone, seq)?;
            let given = Given { seq, serial };
            Since::Version { given, time_ms }
        }
    }))
}

/// Finds the start of a stream. If a serial is no longer kept, its version counts as sent.
fn since_followed(
    past: &dyn Past,
    zone: &Option<String>,
    since: &Option<String>,
) -> Result<Option<Since>, AuditError> {
    match since_of(past, zone, since) {
        Err(AuditError::NoSerial { serial, .. } | AuditError::NeverSerial { serial, .. }) => {
            Ok(Some(Since::Version {
                given: Given::unknown(serial),
                time_ms: 0,
            }))
        }
        since => since,
    }
}

/// The zone with this name, or all zones.
fn zones_of(past: &dyn Past, zone: &Option<String>) -> Result<Vec<Name>, AuditError> {
    match zone {
        Some(zone) => Ok(vec![known_zone(past, zone)?]),
        None => Ok(past.zones()),
    }
}

/// The zones to verify, including zones that lost all versions.
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

/// A zone of the store.
pub(super) fn known_zone(past: &dyn Past, text: &str) -> Result<Name, AuditError> {
    let zone = Name::parse(text)?.to_lower();
    let known = past.zones();
    if known.contains(&zone) {
        Ok(zone)
    } else if past.lost().contains(&zone) {
        Err(AuditError::LostZone(zone))
    } else {
        Err(AuditError::NoZone { zone, known })
    }
}

/// The number of the version that `moment` means; the newest for `None`, and of several with the serial. Costs a binary
/// search.
fn version_at(past: &dyn Past, zone: &Name, moment: Option<Moment>) -> Result<u64, AuditError> {
    let (oldest, newest) = past.range(zone).ok_or_else(|| AuditError::NoZone {
        zone: zone.clone(),
        known: past.zones(),
    })?;
    match moment {
        None => Ok(newest),
        Some(Moment::Serial(number)) => {
            let place = past.place_of(zone, Serial::decode(number), newest)?;
            if let SerialPlace::At(seq) = place {
                return Ok(seq);
            }
            match archived_at(past, zone, Moment::Serial(number))? {
                Some(seq) => Ok(seq),
                None => Err(without_serial(past, zone, number, place, newest)?),
            }
        }
        Some(Moment::Time(ms)) => {
            let is_before = |(_, time_ms): (Serial, u64)| time_ms <= ms;
            let seq = last_version(past, zone, (oldest, newest), &is_before)?;
            if seq < oldest {
                if let Some(seq) = archived_at(past, zone, Moment::Time(ms))? {
                    return Ok(seq);
                }
                let set_back = SetBack::before_all(past, zone, ms)?;
                let set_back = set_back.map(|it| format!("; {}", it.text()));
                return Err(AuditError::TooEarly {
                    zone: zone.clone(),
                    begins: begins(past, zone)? + &set_back.unwrap_or_default(),
                });
            }
            Ok(seq)
        }
    }
}

/// Says why no version has a serial.
fn without_serial(
    past: &dyn Past,
    zone: &Name,
    serial: u32,
    place: SerialPlace,
    newest: u64,
) -> Result<AuditError, AuditError> {
    let text = |seq, between| {
        let moment = past.moment(zone, seq)?;
        Ok::<_, AuditError>(format!("{}{between}{}", moment.0, TimeText(moment.1)))
    };
    let ends = match place {
        SerialPlace::Between(seq) | SerialPlace::At(seq) => {
            let acts = past.acts(zone, 0)?.all;
            if let Some(lost) = lost_after(past, zone, seq, &acts) {
                return Ok(AuditError::MayBeLost(format!(
                    "whether {zone} had serial {serial} is not known: {lost}"
                )));
            }
            return Ok(AuditError::NeverSerial {
                zone: zone.clone(),
                serial,
                older: text(seq, " of ")?,
                newer: text(seq + 1, " of ")?,
            });
        }
        SerialPlace::After => {
            if let Some(lost) = lost_after(past, zone, newest, &[]) {
                return Ok(AuditError::MayBeLost(format!(
                    "whether {zone} had serial {serial} is not known: {lost}"
                )));
            }
            format!("the newest is serial {}", text(newest, ", ")?)
        }
        SerialPlace::Before => format!("history begins at {}", begins(past, zone)?),
    };
    Ok(AuditError::NoSerial {
        zone: zone.clone(),
        serial,
        ends,
    })
}

/// The number of the archived version that `moment` means; `None` when there is none.
///
/// # Errors
/// [`AuditError::Condensed`] when the version was condensed with later ones.
fn archived_at(past: &dyn Past, zone: &Name, moment: Moment) -> Result<Option<u64>, AuditError> {
    let archived = past.archived(zone);
    let condensed = |entry: &Archived, what| {
        Err(AuditError::Condensed {
            zone: zone.clone(),
            what,
            versions: entry.versions(),
            serial: entry.serial,
            last: TimeText(entry.time_ms),
        })
    };
    match moment {
        Moment::Serial(number) => {
            let serial = Serial::decode(number);
            if let Some(found) = archived.iter().rfind(|entry| entry.serial == serial) {
                return Ok(Some(found.seq));
            }
            // What is before the first entry is not known.
            let within = archived.windows(2).rev().find_map(|pair| {
                let [before, entry] = pair else { return None };
                let is_before = before.serial.up_to(serial) < before.serial.up_to(entry.serial);
                let is_within = entry.versions() > 1 && is_before;
                is_within.then_some(entry)
            });
            match within {
                Some(entry) => condensed(entry, format!("serial {number}")),
                None => Ok(None),
            }
        }
        Moment::Time(ms) => {
            let is_before = |entry: &&Archived| entry.time_ms <= ms;
            let place = archived.iter().take_while(is_before).count();
            match archived.get(place).filter(|entry| entry.first_ms <= ms) {
                Some(entry) => condensed(entry, format!("the version at {}", TimeText(ms))),
                None => Ok(place.checked_sub(1).map(|it| archived[it].seq)),
            }
        }
    }
}

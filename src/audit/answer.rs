//! Questions about the past, and which command answers them.

use std::io;

use serde::{Deserialize, Serialize};

use crate::audit::moment::{Moment, TimeText};
use crate::audit::past::{AuditError, Output, Past, step_of};
use crate::audit::{diff, log, show, status};
use crate::dns::{Name, Serial};

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
    /// How things stand.
    Status,
    /// What is held of a zone is to be published.
    Release {
        /// The zone.
        zone: String,
    },
}

/// A request and how its answer is to look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// What is asked.
    pub request: Request,
    /// How the answer looks.
    pub output: Output,
}

/// Writes the answer to a question.
///
/// # Errors
/// [`AuditError`]; part of the answer may be written already.
pub fn answer(
    question: &Question,
    past: &dyn Past,
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
            let time = |text: &Option<String>| {
                text.as_deref()
                    .map(|text| Moment::parse_time(text, past.now_ms()))
                    .transpose()
            };
            let filter = log::Filter {
                since_ms: time(since)?,
                until_ms: time(until)?,
                name: name.as_deref().map(Name::parse).transpose()?,
                object: object
                    .as_deref()
                    .map(log::ObjectFilter::parse)
                    .transpose()?,
            };
            let zones = match zone {
                Some(zone) => vec![known_zone(past, zone)?],
                None => past.zones(),
            };
            log::write(past, &zones, &filter, output, out)
        }
        Request::Show { zone, name } => {
            let (zone, moment) = zone_and_moment(past, zone)?;
            let name = name.as_deref().map(Name::parse).transpose()?;
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
        Request::Status => {
            let status = past.status().ok_or(AuditError::NoServer)?;
            status::write(&status, output, out)
        }
        Request::Release { zone } => {
            let zone = Name::parse(zone)?.to_lower();
            let serial = past.release(&zone)?;
            status::write_released(&zone, serial, output, out)
        }
    }
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

/// The number of the version that is meant; the newest for `None`. Costs a binary search for a time, a
/// walk over the kept versions for a serial.
fn version_at(past: &dyn Past, zone: &Name, moment: Option<Moment>) -> Result<u64, AuditError> {
    let (oldest, newest) = past.range(zone).ok_or_else(|| AuditError::NoZone {
        zone: zone.clone(),
        known: past.zones(),
    })?;
    let begins = || -> Result<String, AuditError> {
        let first = step_of(past, zone, oldest)?;
        Ok(format!(
            "serial {}, {}",
            first.serial,
            TimeText(first.time_ms)
        ))
    };
    match moment {
        None => Ok(newest),
        Some(Moment::Serial(serial)) => {
            for seq in (oldest..=newest).rev() {
                if step_of(past, zone, seq)?.serial == Serial::decode(serial) {
                    return Ok(seq);
                }
            }
            Err(AuditError::NoSerial {
                zone: zone.clone(),
                serial,
                begins: begins()?,
            })
        }
        Some(Moment::Time(ms)) => {
            // The last version made at or before the time; times rise with numbers.
            let (mut low, mut high) = (oldest, newest + 1);
            while low < high {
                let middle = low + (high - low) / 2;
                if step_of(past, zone, middle)?.time_ms <= ms {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            if low == oldest {
                return Err(AuditError::TooEarly {
                    zone: zone.clone(),
                    begins: begins()?,
                });
            }
            Ok(low - 1)
        }
    }
}

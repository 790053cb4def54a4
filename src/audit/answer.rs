//! Questions about the past and where their answers come from.

use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::audit::moment::{Moment, MomentError};
use crate::audit::{diff, log, show, status};
use crate::dns::{Name, ParseError, Serial};
use crate::zone::{Contents, Step};

/// How an answer looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Output {
    /// For people.
    Text,
    /// For machines: one JSON object a line.
    Json,
}

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
}

/// A request and how its answer is to look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// What is asked.
    pub request: Request,
    /// How the answer looks.
    pub output: Output,
}

/// Where answers come from.
pub trait Past {
    /// The zones there are, in order.
    fn zones(&self) -> Vec<Name>;
    /// Numbers of the oldest and the newest version whose step is kept.
    fn range(&self, zone: &Name) -> Option<(u64, u64)>;
    /// The step that led to a version.
    ///
    /// # Errors
    /// When the store cannot read it, with the reason.
    fn step(&self, zone: &Name, seq: u64) -> Result<Option<Arc<Step>>, String>;
    /// The contents of a version.
    ///
    /// # Errors
    /// When the store cannot read it, with the reason.
    fn contents(&self, zone: &Name, seq: u64) -> Result<Contents, String>;
    /// How things stand; `None` when no server runs.
    fn status(&self) -> Option<status::Status>;
    /// The time, milliseconds since 1970 UTC.
    fn now_ms(&self) -> u64;
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// A name is none.
    #[error(transparent)]
    Name(#[from] ParseError),
    /// A moment is none.
    #[error(transparent)]
    Moment(#[from] MomentError),
    /// The zone is not in the store.
    #[error("no zone {zone} here; there {are}", are = there_are(.known))]
    NoZone {
        /// The zone asked for.
        zone: Name,
        /// The zones there are.
        known: Vec<Name>,
    },
    /// No version has the serial.
    #[error("no version of {zone} with serial {serial} is kept: history begins at {begins}")]
    NoSerial {
        /// The zone.
        zone: Name,
        /// The serial asked for.
        serial: u32,
        /// Serial and time of the oldest version.
        begins: String,
    },
    /// The time is before the history.
    #[error("nothing is kept of {zone} at that time: history begins at {begins}")]
    TooEarly {
        /// The zone.
        zone: Name,
        /// Serial and time of the oldest version.
        begins: String,
    },
    /// An object was not written as it should.
    #[error("\"{0}\" names no object; write KIND/NAMESPACE/NAME, such as Service/shop/web")]
    Object(String),
    /// The store failed.
    #[error("the store cannot be read: {0}")]
    Store(String),
    /// The answer could not be written.
    #[error("the answer cannot be written: {0}")]
    Write(#[from] io::Error),
    /// A server is needed.
    #[error("no server runs on this state folder; start one with `zonewright run`")]
    NoServer,
}

impl AuditError {
    /// Whether the question is at fault: it names what is not there, or nothing that can be named.
    #[must_use]
    pub const fn is_the_question(&self) -> bool {
        match self {
            Self::Name(_)
            | Self::Moment(_)
            | Self::NoZone { .. }
            | Self::NoSerial { .. }
            | Self::TooEarly { .. }
            | Self::Object(_) => true,
            Self::Store(_) | Self::Write(_) | Self::NoServer => false,
        }
    }
}

/// The zones there are, in words.
fn there_are(known: &[Name]) -> String {
    if known.is_empty() {
        return "are none yet".to_owned();
    }
    let names: Vec<String> = known.iter().map(ToString::to_string).collect();
    format!("are {}", names.join(", "))
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
            let name = name
                .as_deref()
                .map(|name| Name::parse_in(name, &zone))
                .transpose()?;
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

/// A step that must be there.
pub(super) fn step_of(past: &dyn Past, zone: &Name, seq: u64) -> Result<Arc<Step>, AuditError> {
    past.step(zone, seq)
        .map_err(AuditError::Store)?
        .ok_or_else(|| AuditError::Store(format!("version {seq} of {zone} is missing")))
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
            super::moment::TimeText(first.time_ms)
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

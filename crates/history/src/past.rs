//! Where answers about the past come from, how they look, and why there is none.

use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;

use dns::{Name, ParseError, Serial, UnknownType};
use serde::{Deserialize, Serialize};
use zone::journal::{PartStep, ReadError, Topic, Verdict, last_of};
use zone::{Contents, Net, Step};

use crate::moment::{MomentError, TimeText};
use crate::order::Order;
use crate::status;
use crate::why::Grounds;

/// How an answer looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Output {
    /// For people.
    Text,
    /// For machines: one JSON object a line.
    Json,
}

/// Where answers come from.
pub trait Past {
    /// The zones there are, in order.
    fn zones(&self) -> Vec<Name>;
    /// The zones of which all that was announced is lost.
    fn lost(&self) -> Vec<Name> {
        Vec::new()
    }
    /// Numbers of the oldest and the newest version whose step is kept.
    fn range(&self, zone: &Name) -> Option<(u64, u64)>;
    /// The step that led to a version.
    ///
    /// # Errors
    /// When the store cannot read it, with the reason.
    fn step(&self, zone: &Name, seq: u64) -> Result<Option<Arc<Step>>, String>;
    /// The steps that led to these versions, as far as they are kept, the oldest first.
    ///
    /// # Errors
    /// When the store cannot read one, with the reason.
    fn steps(&self, zone: &Name, seqs: RangeInclusive<u64>) -> Result<Vec<Arc<Step>>, String>;
    /// What the step that led to a version does to one name; more of it may be there.
    ///
    /// # Errors
    /// When the store cannot read it, with the reason.
    fn step_of(&self, zone: &Name, seq: u64, name: &Name) -> Result<PartStep, String>;
    /// Serial and time of a version whose step is kept, milliseconds since 1970 UTC.
    ///
    /// # Errors
    /// When the store cannot read it, with the reason.
    fn moment(&self, zone: &Name, seq: u64) -> Result<(Serial, u64), String>;
    /// Calls with the numbers of the kept versions among these that may concern a topic, falling, until it gives
    /// false or an error.
    ///
    /// # Errors
    /// What the call gives, or that the store cannot be read.
    fn find(
        &self,
        zone: &Name,
        topic: Topic,
        seqs: RangeInclusive<u64>,
        call: &mut dyn FnMut(u64) -> Result<bool, AuditError>,
    ) -> Result<(), AuditError>;
    /// The contents of a version.
    ///
    /// # Errors
    /// When the store cannot read it, with the reason.
    fn contents(&self, zone: &Name, seq: u64) -> Result<Contents, String>;
    /// As [`Self::contents`], of which only the records at one name have to be there.
    ///
    /// # Errors
    /// When the store cannot read it, with the reason.
    fn contents_of(&self, zone: &Name, seq: u64, name: &Name) -> Result<Contents, String>;
    /// What two versions differ in, the older one first; `None` when they are one.
    ///
    /// # Errors
    /// When the store cannot read it, with the reason.
    fn difference(&self, zone: &Name, older: u64, newer: u64) -> Result<Option<Net>, String>;
    /// Goes through all that is kept of a zone.
    ///
    /// # Errors
    /// When the store cannot be read, with the reason; damage is no error.
    fn verify(&self, zone: &Name) -> Result<Verdict, String>;
    /// How things stand, but for what is kept of histories; `None` when no server runs.
    fn status(&self) -> Option<status::Status>;
    /// What is kept of a zone's history; `None` when nothing is stored, or it cannot be read.
    fn history(&self, zone: &Name) -> Option<status::HistoryLine>;
    /// Has an order about a zone carried out that someone gives; gives the serial that is served then.
    ///
    /// # Errors
    /// When no server runs, or when it cannot be carried out.
    fn order(&self, zone: &Name, order: Order, by: &str) -> Result<Serial, AuditError>;
    /// What is known about a name beside its records.
    ///
    /// # Errors
    /// When no server runs.
    fn grounds(&self, name: &Name) -> Result<Grounds, AuditError>;
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
    /// There is nothing to verify.
    #[error("no zone is stored here")]
    NothingStored,
    /// No version has the serial.
    #[error("no version of {zone} with serial {serial} is kept: {ends}")]
    NoSerial {
        /// The zone.
        zone: Name,
        /// The serial asked for.
        serial: u32,
        /// Where the history begins, or what is newest.
        ends: String,
    },
    /// A serial without a zone.
    #[error("serial {0} of which zone? write: log ZONE --since {0}")]
    WhoseSerial(u32),
    /// The time is before the history.
    #[error("nothing is kept of {zone} at that time: history begins at {begins}")]
    TooEarly {
        /// The zone.
        zone: Name,
        /// Serial and time of the oldest version.
        begins: String,
    },
    /// The version has no record at the name.
    #[error("{name} has no record in the version with serial {serial}")]
    NoName {
        /// The name asked for.
        name: Name,
        /// The serial of the version.
        serial: u32,
    },
    /// A name that is asked for is not one of the zone's.
    #[error("{name} is not a name of {}", .zones.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or "))]
    Outside {
        /// The name asked for.
        name: Name,
        /// The zones asked for.
        zones: Vec<Name>,
    },
    /// An object was not written as it should.
    #[error("\"{0}\" names no object; write KIND/NAMESPACE/NAME, such as Service/shop/web")]
    Object(String),
    /// The history is not as it was written; what was found is written already.
    #[error("the history of {} is not as it was written", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Broken(Vec<Name>),
    /// The store failed.
    #[error("the store cannot be read: {0}")]
    Store(String),
    /// The answer could not be written.
    #[error("the answer cannot be written: {0}")]
    Write(#[from] io::Error),
    /// What is ordered cannot be.
    #[error("{0}")]
    Refused(String),
    /// A type is none.
    #[error(transparent)]
    Type(#[from] UnknownType),
    /// A time is none.
    #[error("\"{0}\" is no time up to 3650d; write 90s, 30m, 2h or 1d")]
    Time(String),
    /// A server is needed.
    #[error(
        "no server runs on this state folder; name its folder with --state, or start one with `zonewright run`"
    )]
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
            | Self::NothingStored
            | Self::NoSerial { .. }
            | Self::TooEarly { .. }
            | Self::WhoseSerial(_)
            | Self::NoName { .. }
            | Self::Outside { .. }
            | Self::Refused(_)
            | Self::Time(_)
            | Self::Type(_)
            | Self::Object(_) => true,
            Self::Broken(_) | Self::Store(_) | Self::Write(_) | Self::NoServer => false,
        }
    }
}

impl From<ReadError> for AuditError {
    fn from(error: ReadError) -> Self {
        Self::Store(error.to_string())
    }
}

/// Where the history of a zone begins, in words.
pub(super) fn begins(past: &dyn Past, zone: &Name) -> Result<String, AuditError> {
    let (oldest, _) = past.range(zone).ok_or_else(|| AuditError::NoZone {
        zone: zone.clone(),
        known: past.zones(),
    })?;
    let (serial, time_ms) = past.moment(zone, oldest).map_err(AuditError::Store)?;
    Ok(format!("serial {serial}, {}", TimeText(time_ms)))
}

/// The last version of a zone for whose serial and time this holds; the one before the oldest when it holds
/// for none. Costs a binary search: both rise with numbers, so it holds for all before it, too.
pub(super) fn last_version(
    past: &dyn Past,
    zone: &Name,
    range: (u64, u64),
    holds: &dyn Fn((Serial, u64)) -> bool,
) -> Result<u64, AuditError> {
    last_of(range, |seq| {
        let moment = past.moment(zone, seq).map_err(AuditError::Store)?;
        Ok(holds(moment))
    })
}

/// The zones there are, in words.
fn there_are(known: &[Name]) -> String {
    if known.is_empty() {
        return "are none yet".to_owned();
    }
    let names: Vec<String> = known.iter().map(ToString::to_string).collect();
    format!("are {}", names.join(", "))
}

/// A step that must be there.
pub(super) fn step_of(past: &dyn Past, zone: &Name, seq: u64) -> Result<Arc<Step>, AuditError> {
    past.step(zone, seq)
        .map_err(AuditError::Store)?
        .ok_or_else(|| AuditError::Store(format!("version {seq} of {zone} is missing")))
}

/// Steps that must be there, the oldest first.
pub(super) fn steps_of(
    past: &dyn Past,
    zone: &Name,
    seqs: RangeInclusive<u64>,
) -> Result<Vec<Arc<Step>>, AuditError> {
    let steps = past.steps(zone, seqs.clone()).map_err(AuditError::Store)?;
    if !steps.iter().map(|step| step.seq).eq(seqs.clone()) {
        let (first, last) = (seqs.start(), seqs.end());
        let error =
            format!("of versions {first} to {last} of {zone} some left the history meanwhile");
        return Err(AuditError::Store(error));
    }
    Ok(steps)
}

/// A version's records: all, or those that a name needs.
pub(super) fn contents_at(
    past: &dyn Past,
    zone: &Name,
    seq: u64,
    name: Option<&Name>,
) -> Result<Contents, AuditError> {
    match name {
        Some(name) => past.contents_of(zone, seq, name),
        None => past.contents(zone, seq),
    }
    .map_err(AuditError::Store)
}

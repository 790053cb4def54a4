//! Where answers about the past come from, how they look, and why there is none.

use std::ops::RangeInclusive;
use std::sync::Arc;

use dns::{Name, Rtype, Serial};
use server::BlockZones;
use writer::Reason;
use zone::journal::{PartialStep, Topic, Verdict, last_of};
use zone::{Contents, Net, Step};

use crate::error::AuditError;
use crate::moment::TimeText;
use crate::status;

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
    fn step_of(&self, zone: &Name, seq: u64, name: &Name) -> Result<PartialStep, String>;
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
    fn grounds(&self, name: &Name, rtype: Rtype) -> Result<Grounds, AuditError>;
    /// The time, milliseconds since 1970 UTC.
    fn now_ms(&self) -> u64;
}

/// What is ordered about a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// What waits is to be published, and the zone is to follow its source.
    Release,
    /// The zone is to stay as it is.
    Freeze {
        /// Until when, milliseconds since 1970 UTC; `None`: until it is released.
        until_ms: Option<u64>,
    },
    /// The zone is to have an old content again.
    Rollback {
        /// The number of the version that had it.
        seq: u64,
        /// The serial of that version.
        serial: Serial,
        /// Until when, milliseconds since 1970 UTC.
        until_ms: u64,
    },
}

/// What is known about a name beside the records.
#[derive(Debug, Default)]
pub struct Grounds {
    /// The block where it is asked; one without keys where no block has a key for it.
    pub block: BlockLine,
    /// What the facts say.
    pub reasons: Vec<Reason>,
}

/// A block of the Corefile, as far as it decides who answers a name.
#[derive(Debug, Clone, Default)]
pub struct BlockLine {
    /// Its place in the Corefile.
    pub place: String,
    /// Its keys.
    pub keys: Vec<Name>,
    /// Handlers that may answer, change or refuse a question before the zones see it.
    pub before: Vec<&'static str>,
    /// Its zones.
    pub zones: Arc<BlockZones>,
    /// The handlers that answer names that no zone has.
    pub after: Vec<String>,
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

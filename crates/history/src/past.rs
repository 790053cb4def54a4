//! The source of answers about the past, and helpers that read it.

use std::ops::RangeInclusive;
use std::sync::Arc;

use dns::{Name, Rtype, Serial};
use provenance::Operator;
use server::BlockZones;
use writer::{Reason, Waiting};
use zone::journal::{
    Acts, Archived, KeptCorefile, PartVerdict, PartialStep, SegmentPart, SerialPlace, Topic,
    Verdict, last_of_known,
};
use zone::{Contents, Hash, Net, Step};

use crate::error::AuditError;
use crate::moment::TimeText;
use crate::old_part::begin_text;
use crate::status;

/// The source of answers about the past: the store, or a running server.
pub trait Past {
    /// The zones in the store, in order.
    fn zones(&self) -> Vec<Name>;
    /// The zones that lost all their published versions.
    fn lost(&self) -> Vec<Name> {
        Vec::new()
    }
    /// Which versions after the newest one may be lost; `None` if none are known to be, or a version has recorded the loss.
    fn doubt(&self, _zone: &Name) -> Option<String> {
        None
    }
    /// The numbers of the oldest and the newest version whose step is kept.
    fn range(&self, zone: &Name) -> Option<(u64, u64)>;
    /// The versions from before the oldest one of [`Self::range`] that are kept, whole or condensed, oldest first.
    fn archived(&self, _zone: &Name) -> Vec<Archived> {
        Vec::new()
    }
    /// What people and the clock did to a zone, whether or not a version followed: the acts with a number above `after`.
    ///
    /// # Errors
    /// [`AuditError::Store`] when the store cannot read it.
    fn acts(&self, _zone: &Name, _after: u64) -> Result<Acts, AuditError> {
        Ok(Acts::default())
    }
    /// The Corefiles that are known, oldest first; `None` for those that cannot be read.
    ///
    /// # Errors
    /// [`AuditError::Store`] when the store cannot read them.
    fn corefiles(&self) -> Result<Vec<Option<KeptCorefile>>, AuditError> {
        Ok(Vec::new())
    }
    /// The step that leads to a version.
    ///
    /// # Errors
    /// [`AuditError::Store`] when the store cannot read it.
    fn step(&self, zone: &Name, seq: u64) -> Result<Arc<Step>, AuditError>;
    /// The kept steps that lead to these versions, oldest first.
    ///
    /// # Errors
    /// [`AuditError::Store`] when the store cannot read one.
    fn steps(&self, zone: &Name, seqs: RangeInclusive<u64>) -> Result<Vec<Arc<Step>>, AuditError>;
    /// What the step that leads to a version does to one name. It may contain more than that.
    ///
    /// # Errors
    /// [`AuditError::Store`] when the store cannot read it.
    fn step_of(&self, zone: &Name, seq: u64, name: &Name) -> Result<PartialStep, AuditError>;
    /// The place of a serial among the versions of [`Self::range`], up to one of them.
    ///
    /// # Errors
    /// [`AuditError::NoZone`], or [`AuditError::Store`] when the store cannot read it.
    fn place_of(&self, zone: &Name, serial: Serial, newest: u64)
    -> Result<SerialPlace, AuditError>;
    /// The serial and time (milliseconds since 1970 UTC) of a version whose step is kept.
    ///
    /// # Errors
    /// [`AuditError::Store`] when the store cannot read it.
    fn moment(&self, zone: &Name, seq: u64) -> Result<(Serial, u64), AuditError>;
    /// Calls `call` with the numbers of the kept versions in this range that may concern a topic, in descending
    /// order, until it returns false or an error.
    ///
    /// # Errors
    /// The error of `call`, or [`AuditError::Store`].
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
    /// [`AuditError::Store`] when the store cannot read it.
    fn contents(&self, zone: &Name, seq: u64) -> Result<Contents, AuditError>;
    /// Like [`Self::contents`]; only the records at one name are required.
    ///
    /// # Errors
    /// [`AuditError::Store`] when the store cannot read it.
    fn contents_of(&self, zone: &Name, seq: u64, name: &Name) -> Result<Contents, AuditError>;
    /// The difference between two versions, the older one first; `None` when they are the same.
    ///
    /// # Errors
    /// [`AuditError::Store`] when the store cannot read it.
    fn difference(&self, zone: &Name, older: u64, newer: u64) -> Result<Option<Net>, AuditError>;
    /// Verifies the kept history of a zone, and finds the versions with these hashes.
    ///
    /// # Errors
    /// [`AuditError::Store`] when the store cannot be read. Damage is no error.
    fn verify(&self, zone: &Name, anchors: &[Hash]) -> Result<Verdict, AuditError>;
    /// The number of the oldest version that is here, not only in an archive.
    fn oldest_here(&self, zone: &Name) -> Option<u64> {
        self.range(zone).map(|(oldest, _)| oldest)
    }
    /// Like [`Self::verify`], without the segments of an archive.
    ///
    /// # Errors
    /// [`AuditError::Store`] when the store cannot be read. Damage is no error.
    fn verify_here(&self, zone: &Name, anchors: &[Hash]) -> Result<PartVerdict, AuditError>;
    /// The segments of a zone in the archive, oldest first.
    fn segment_parts(&self, _zone: &Name) -> Vec<SegmentPart> {
        Vec::new()
    }
    /// Like [`Self::verify`], of the segment that begins with a version.
    ///
    /// # Errors
    /// [`AuditError::Store`] when there is no such segment, or the archive cannot be reached. Damage is no error.
    fn verify_segment(
        &self,
        zone: &Name,
        first: u64,
        anchors: &[Hash],
    ) -> Result<PartVerdict, AuditError>;
    /// Whether this is the past of a running server.
    fn is_running(&self) -> bool {
        false
    }
    /// The status without the stored histories; `None` when no server is running.
    fn status(&self) -> Option<status::Status>;
    /// The extent of a zone's stored history; `None` when nothing is stored or it cannot be read.
    fn history(&self, zone: &Name) -> Option<status::HistoryLine>;
    /// The reverse zones whose PTRs lead into a zone of names.
    fn reverse_of(&self, _zone: &Name) -> Vec<Name> {
        Vec::new()
    }
    /// Whether orders about a zone need a reason.
    fn requires_reason(&self, _zone: &Name) -> bool {
        false
    }
    /// Carries out an operator's order about a zone. Returns the serial that is served afterwards.
    ///
    /// # Errors
    /// When no server is running, or the order is not possible.
    fn order(&self, zone: &Name, order: Order, by: &Operator) -> Result<Serial, AuditError>;
    /// Reads the Corefile again and puts it into use.
    ///
    /// # Errors
    /// When no server is running, or the Corefile has a problem.
    fn reload(&self, _by: &Operator) -> Result<(), AuditError> {
        Err(AuditError::NoServer)
    }
    /// Ends the server.
    ///
    /// # Errors
    /// When no server is running.
    fn stop(&self, _by: &Operator) -> Result<(), AuditError> {
        Err(AuditError::NoServer)
    }
    /// Lets this replica lead although announced versions may be lost with it.
    ///
    /// # Errors
    /// When no server is running, it is not one of several replicas, or one that lost nothing leads or can lead.
    fn promote(&self, _by: &Operator) -> Result<(), AuditError> {
        Err(AuditError::NoServer)
    }
    /// Notifies the secondaries of a zone of its current version. Returns their addresses.
    ///
    /// # Errors
    /// When no server is running.
    fn notify(&self, _zone: &Name, _by: &Operator) -> Result<Vec<String>, AuditError> {
        Err(AuditError::NoServer)
    }
    /// What a zone would publish if it were released; `None` where nothing waits.
    ///
    /// # Errors
    /// When no server is running.
    fn waiting(&self, _zone: &Name) -> Result<Option<Waiting>, AuditError> {
        Err(AuditError::NoServer)
    }
    /// Everything about a name that its records do not show.
    ///
    /// # Errors
    /// When no server is running.
    fn grounds(&self, name: &Name, rtype: Rtype) -> Result<Grounds, AuditError>;
    /// The current time, milliseconds since 1970 UTC.
    fn now_ms(&self) -> u64;
}

/// An operator's order about a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// End a hold, or publish the change that the gate holds.
    Release,
    /// Freeze the zone.
    Freeze {
        /// The end of the freeze, milliseconds since 1970 UTC; `None`: until it is released.
        until_ms: Option<u64>,
    },
    /// Publish the zone again, with a serial above this one.
    Advance {
        /// The serial.
        serial: Serial,
    },
    /// Serve an old version again.
    Rollback {
        /// The number of that version.
        seq: u64,
        /// The serial of that version.
        serial: Serial,
        /// The end of the rollback, milliseconds since 1970 UTC.
        until_ms: u64,
    },
}

impl Order {
    /// The end of a hold, milliseconds since 1970 UTC.
    pub(super) const fn until_ms(self) -> Option<u64> {
        match self {
            Self::Release | Self::Advance { serial: _ } => None,
            Self::Freeze { until_ms } => until_ms,
            Self::Rollback { until_ms, .. } => Some(until_ms),
        }
    }

    /// The serial of the version that is served again.
    pub(super) const fn rolled_back_to(self) -> Option<Serial> {
        match self {
            Self::Release | Self::Advance { serial: _ } | Self::Freeze { until_ms: _ } => None,
            Self::Rollback { serial, .. } => Some(serial),
        }
    }
}

/// Everything about a name that its records do not show.
#[derive(Debug, Default)]
pub struct Grounds {
    /// The server block that answers the name. It has no keys when no block is configured for the name.
    pub block: BlockLine,
    /// The reasons found in the cluster's facts.
    pub reasons: Vec<Reason>,
}

/// The parts of a server block that decide which handler answers a name.
#[derive(Debug, Clone, Default)]
pub struct BlockLine {
    /// Its position in the Corefile.
    pub place: String,
    /// Its keys.
    pub keys: Vec<Name>,
    /// Handlers that may answer, change or refuse a question before the zones.
    pub before: Vec<&'static str>,
    /// Its zones.
    pub zones: Arc<BlockZones>,
    /// Handlers that answer names outside all zones.
    pub after: Vec<String>,
}

/// Describes where the history of a zone begins.
pub(super) fn begins(past: &dyn Past, zone: &Name) -> Result<String, AuditError> {
    let (oldest, _) = past.range(zone).ok_or_else(|| AuditError::NoZone {
        zone: zone.clone(),
        known: past.zones(),
    })?;
    if let Some(entry) = past.archived(zone).first() {
        return Ok(begin_text(entry));
    }
    let (serial, time_ms) = past.moment(zone, oldest)?;
    Ok(format!("serial {serial}, {}", TimeText(time_ms)))
}

/// The archived versions after the last one without records, newest first: older ones do not say what later versions changed.
pub(super) fn recorded(archived: &[Archived]) -> impl Iterator<Item = &Archived> {
    let newest_first = archived.iter().rev();
    newest_first.take_while(|entry| entry.has_records)
}

/// The versions of a zone whose serial and time are known without a look into the archive, among those that are there: the
/// ends of its segments, in ascending order.
pub(super) fn segment_ends(past: &dyn Past, zone: &Name) -> Vec<u64> {
    let parts = past.segment_parts(zone).into_iter();
    let mut ends: Vec<_> = parts.flat_map(|part| [part.first, part.until]).collect();
    ends.dedup();
    ends
}

/// The last version of a zone for whose serial and time `holds` is true; the one before the oldest when there is
/// none. Costs a binary search: serials and times ascend, so `holds` is true for all earlier versions too. Of an archive
/// it reads no more than one segment.
pub(super) fn last_version(
    past: &dyn Past,
    zone: &Name,
    range: (u64, u64),
    holds: &dyn Fn((Serial, u64)) -> bool,
) -> Result<u64, AuditError> {
    last_of_known(range, &segment_ends(past, zone), |seq| {
        Ok::<_, AuditError>(holds(past.moment(zone, seq)?))
    })
}

/// Steps, oldest first, with those of the archive; their absence is an error.
pub(super) fn steps_of(
    past: &dyn Past,
    zone: &Name,
    seqs: RangeInclusive<u64>,
) -> Result<Vec<Arc<Step>>, AuditError> {
    let (first, last) = (*seqs.start(), *seqs.end());
    let oldest = past.range(zone).map_or(first, |(oldest, _)| oldest);
    let archived = if first < oldest {
        past.archived(zone)
    } else {
        Vec::new()
    };
    let begins = archived.first().map_or(oldest, |entry| entry.first);
    let among = archived.iter().filter(|entry| seqs.contains(&entry.seq));
    let mut steps = among
        .map(|entry| past.step(zone, entry.seq))
        .collect::<Result<Vec<_>, _>>()?;
    let kept = first.max(oldest)..=last;
    let later = past.steps(zone, kept.clone())?;
    let is_whole = later.iter().map(|step| step.seq).eq(kept);
    steps.extend(later);
    if !is_whole || first < begins {
        let error =
            format!("of versions {first} to {last} of {zone} some left the history meanwhile");
        return Err(AuditError::Gone(error));
    }
    Ok(steps)
}

/// A version's records, at least those of `name`.
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
}

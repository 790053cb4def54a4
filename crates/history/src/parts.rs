//! `verify` in parts: each segment of the archive by itself, and what is stored here. The client asks for one part at a time,
//! so that it can tell how far it is, and go on where it was interrupted.

use std::io;

use dns::Name;
use serde::{Deserialize, Serialize};
use zone::Hash;
use zone::journal::SegmentPart;

use crate::error::AuditError;
use crate::past::Past;

/// The parts of a zone's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneParts {
    /// The zone.
    pub zone: String,
    /// The number of its oldest version; 0 for a zone that lost all of them.
    pub oldest: u64,
    /// The number of its newest version.
    pub newest: u64,
    /// The number of its oldest version that is here, not only in segments.
    pub here: u64,
    /// Its segments, oldest first.
    pub segments: Vec<SegmentPart>,
}

impl ZoneParts {
    /// The number of its versions.
    #[must_use]
    pub const fn versions(&self) -> u64 {
        match self.oldest {
            0 => 0,
            oldest => self.newest + 1 - oldest,
        }
    }
}

/// Writes the parts of each zone, a line of JSON.
pub(super) fn write_parts(
    past: &dyn Past,
    zones: &[Name],
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    for zone in zones {
        let (oldest, newest) = past.range(zone).unwrap_or_default();
        let parts = ZoneParts {
            zone: zone.to_string(),
            oldest,
            newest,
            segments: past.segment_parts(zone),
            // Later than the list of segments: what has left meanwhile is in a segment that is listed next.
            here: past.oldest_here(zone).unwrap_or_default(),
        };
        writeln!(out, "{}", serde_json::json!(parts))?;
    }
    Ok(())
}

/// Verifies the segment that begins with a version, or what is stored here. Writes the verdict, a line of JSON.
pub(super) fn write_part(
    past: &dyn Past,
    zone: &Name,
    first: Option<u64>,
    anchors: &[Hash],
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let verdict = match first {
        Some(first) => past.verify_segment(zone, first, anchors)?,
        None => past.verify_here(zone, anchors)?,
    };
    Ok(writeln!(out, "{}", serde_json::json!(verdict))?)
}

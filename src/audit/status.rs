//! `status`: zones, sources, secondaries and how they stand.

use std::io;

use serde::{Deserialize, Serialize};

use crate::audit::moment::TimeText;
use crate::audit::past::{AuditError, Output};

/// How things stand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The version of the program.
    pub version: String,
    /// The zones.
    pub zones: Vec<ZoneLine>,
    /// The sources.
    pub sources: Vec<SourceLine>,
    /// The secondaries, by zone.
    pub secondaries: Vec<SecondaryLine>,
    /// What objects asked for and DNS cannot hold.
    pub problems: Vec<String>,
}

/// A zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ZoneLine {
    /// Its name.
    pub zone: String,
    /// Its serial; absent before the first version.
    pub serial: Option<u32>,
    /// When the version was made, milliseconds since 1970 UTC.
    pub time_ms: Option<u64>,
    /// Its records.
    pub records: usize,
    /// Since when its source is away, milliseconds since 1970 UTC.
    pub stale_since_ms: Option<u64>,
}

/// A source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceLine {
    /// Its name.
    pub source: String,
    /// Whether everything was listed in this run.
    pub synced: bool,
    /// Since when it is away, milliseconds since 1970 UTC.
    pub stale_since_ms: Option<u64>,
    /// Objects by kind.
    pub objects: Vec<(String, u64)>,
}

/// A secondary of one zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecondaryLine {
    /// The zone.
    pub zone: String,
    /// Its address.
    pub secondary: String,
    /// The serial it was last told.
    pub told: Option<u32>,
    /// The serial it acknowledged.
    pub acknowledged: Option<u32>,
    /// The serial it last took.
    pub took: Option<u32>,
    /// How it took it.
    pub by: Option<String>,
    /// Versions it is behind; absent when unknown.
    pub lag_versions: Option<u64>,
    /// Seconds since the oldest version that it lacks; absent when unknown.
    pub lag_seconds: Option<u64>,
}

/// Writes how things stand.
pub(super) fn write(
    status: &Status,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    if output == Output::Json {
        let text = serde_json::to_string(status).map_err(io::Error::other)?;
        return Ok(writeln!(out, "{text}")?);
    }
    writeln!(out, "zonewright {}", status.version)?;
    for line in &status.sources {
        let state = match (line.synced, line.stale_since_ms) {
            (_, Some(since)) => format!("STALE since {}", TimeText(since)),
            (true, None) => "in sync".to_owned(),
            (false, None) => "not listed yet".to_owned(),
        };
        let counts: Vec<String> = line
            .objects
            .iter()
            .map(|(kind, count)| format!("{count} {kind}"))
            .collect();
        writeln!(
            out,
            "source {}: {state} ({})",
            line.source,
            counts.join(", ")
        )?;
    }
    for line in &status.zones {
        match (line.serial, line.time_ms) {
            (Some(serial), Some(time)) => {
                let stale = if line.stale_since_ms.is_some() {
                    ", STALE"
                } else {
                    ""
                };
                let (zone, records) = (&line.zone, line.records);
                let time = TimeText(time);
                writeln!(
                    out,
                    "zone {zone} serial {serial} of {time}, {records} records{stale}"
                )?;
            }
            _ => writeln!(out, "zone {} has no version yet", line.zone)?,
        }
        for line in status
            .secondaries
            .iter()
            .filter(|secondary| secondary.zone == line.zone)
        {
            writeln!(out, "    {}", secondary_text(line))?;
        }
    }
    for problem in &status.problems {
        writeln!(out, "problem {problem}")?;
    }
    Ok(())
}

/// A secondary for people.
fn secondary_text(line: &SecondaryLine) -> String {
    let serial = |serial: Option<u32>| serial.map_or("nothing".to_owned(), |s| s.to_string());
    let lag = match (line.lag_versions, line.lag_seconds) {
        (Some(0), _) => "up to date".to_owned(),
        (Some(lag), Some(seconds)) => format!("{lag} versions behind, for {seconds} s"),
        (Some(lag), None) => format!("{lag} versions behind"),
        (None, _) => "lag unknown".to_owned(),
    };
    let by = line
        .by
        .as_deref()
        .map(|by| format!(" by {by}"))
        .unwrap_or_default();
    format!(
        "secondary {}: told {}, acknowledged {}, took {}{by}, {lag}",
        line.secondary,
        serial(line.told),
        serial(line.acknowledged),
        serial(line.took)
    )
}

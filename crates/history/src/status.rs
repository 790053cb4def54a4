//! `status`: the state of zones, sources and secondaries.

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{AuditError, Output, SCHEMA};
use crate::moment::TimeText;
use crate::printable::printable;

/// The state of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The version of the program.
    pub version: String,
    /// What the process may no longer do; absent when the server does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxLine>,
    /// What it is among several replicas; absent when it is the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<ReplicaLine>,
    /// The sockets on which it listens.
    #[serde(default)]
    pub listeners: Vec<ListenerLine>,
    /// The zones.
    pub zones: Vec<ZoneLine>,
    /// The sources.
    pub sources: Vec<SourceLine>,
    /// The secondaries, by zone.
    pub secondaries: Vec<SecondaryLine>,
    /// Objects whose wishes cannot be expressed in DNS.
    pub problems: Vec<String>,
    /// The places that get signed notes of the newest hashes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<NoteLine>,
}

/// A place that gets signed notes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NoteLine {
    /// The place, as in the Corefile: `file PATH`, `log` or `configmap NAMESPACE/NAME`.
    pub to: String,
    /// The SHA-256 of the public key, hexadecimal.
    pub key: String,
    /// The time of the last note that arrived there, milliseconds since 1970 UTC; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_ms: Option<u64>,
    /// The time since when notes do not arrive there, milliseconds since 1970 UTC; absent while they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_since_ms: Option<u64>,
    /// The reason; absent while notes arrive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One of several replicas.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaLine {
    /// Its name.
    pub replica: String,
    /// Whether it makes versions.
    pub leads: bool,
    /// The highest epoch that it has seen.
    pub epoch: u64,
    /// The replica that leads, as far as this one knows; absent when none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    /// Where the others connect to the leader; absent when it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The replicas that have every version that was published.
    pub in_sync: Vec<String>,
    /// The serial above which the leader may publish nothing; absent without a Lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<u32>,
    /// The other replicas that are connected to a leader.
    pub followers: Vec<FollowerLine>,
    /// Whether it is behind the leader, as the API server proves.
    pub is_behind: bool,
    /// Whether nobody leads, and nobody has every version that was published.
    pub lacks_eligible: bool,
}

/// A replica that follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FollowerLine {
    /// Its name.
    pub replica: String,
    /// The number of versions that it lacks, over all zones.
    pub lag_versions: u64,
}

/// What the kernel keeps the server from doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxLine {
    /// Writing outside of its folders, and starting programs.
    pub landlock: RestrictionLine,
    /// System calls that a DNS server does not need.
    pub seccomp: RestrictionLine,
}

/// A part of the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestrictionLine {
    /// Whether it is in force.
    pub is_in_force: bool,
    /// What the kernel has of it, or the reason why it is not in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl fmt::Display for SandboxLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "landlock {}, seccomp {}", self.landlock, self.seccomp)
    }
}

impl fmt::Display for RestrictionLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.is_in_force {
            true => "in force",
            false => "NOT in force",
        })?;
        match &self.detail {
            Some(detail) => write!(f, " ({detail})"),
            None => Ok(()),
        }
    }
}

/// The sockets of an address on which the server listens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerLine {
    /// Its address and port.
    pub address: String,
    /// `udp` and `tcp`.
    pub transports: Vec<String>,
    /// The scheme of a key (`dns`, `tls`, `https`, `https3`, `quic`), or `http`.
    pub scheme: String,
    /// The directives that have an endpoint there, with `http`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<String>,
}

/// The state of a zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ZoneLine {
    /// Its name.
    pub zone: String,
    /// Its serial; absent before the first version.
    pub serial: Option<u32>,
    /// The time when the version was made, milliseconds since 1970 UTC.
    pub time_ms: Option<u64>,
    /// Its records.
    pub records: usize,
    /// The time when its source was lost, milliseconds since 1970 UTC; absent while it is connected.
    pub stale_since_ms: Option<u64>,
    /// The hash of the version, hexadecimal. It covers the whole history up to this version.
    pub hash: Option<String>,
    /// A change that is held back.
    pub held: Option<HeldLine>,
    /// The freeze or rollback by an operator.
    pub order: Option<OrderLine>,
    /// The extent of its stored history; absent when nothing is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<HistoryLine>,
    /// How its archive stands; absent when it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<ArchiveLine>,
    /// A peer with a later serial than ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<AheadLine>,
    /// A reset of the serial that secondaries have to follow before the serial takes the clock again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset: Option<ResetLine>,
}

/// How the archive of a zone stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArchiveLine {
    /// Its address.
    pub url: String,
    /// The serial of the last version in it; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<u32>,
    /// The time of that version, milliseconds since 1970 UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<u64>,
    /// The number of versions that are not in it yet.
    pub waiting: u64,
    /// Why versions cannot be written to it; absent when they can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A reset of a zone's serial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResetLine {
    /// The serial before it.
    pub from: u32,
    /// The serial after it.
    pub to: u32,
    /// The time when copies with the serial before it have expired, milliseconds since 1970 UTC.
    pub until_ms: u64,
}

/// A peer with a later serial than ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AheadLine {
    /// Its serial.
    pub serial: u32,
    /// Its address.
    pub peer: String,
    /// Whether our next serial is above it. Otherwise it may be forged, and an operator decides.
    pub is_followed: bool,
}

/// The extent of a zone's stored history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryLine {
    /// The serial of the oldest version whose changes are kept.
    pub begins: u32,
    /// The time of that version, milliseconds since 1970 UTC.
    pub begins_ms: u64,
    /// The number of versions from that one on.
    pub versions: u64,
    /// Their size in the store in bytes, without the indexes.
    pub octets: u64,
    /// The number of versions that were dropped since the start although they were younger than `keep`.
    #[serde(default)]
    pub dropped_early: u64,
    /// The time when the last of them was dropped, milliseconds since 1970 UTC; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_early_ms: Option<u64>,
}

/// A freeze or rollback by an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderLine {
    /// The serial whose content is served again; absent for a freeze.
    pub rolled_back_to: Option<u32>,
    /// The time when it began, milliseconds since 1970 UTC.
    pub since_ms: u64,
    /// The time when it ends, milliseconds since 1970 UTC; absent: when it is released.
    pub until_ms: Option<u64>,
    /// The operator.
    pub by: String,
}

/// A change that is held back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldLine {
    /// The reason.
    pub why: String,
    /// The time when it was first held, milliseconds since 1970 UTC.
    pub since_ms: u64,
    /// The time when it is published at the latest, milliseconds since 1970 UTC; absent: when it is released or fixed.
    pub until_ms: Option<u64>,
    /// Whether it can be released. Otherwise it must be fixed.
    pub is_releasable: bool,
    /// The number of lost records and of records before, if the gate holds the change for its loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loses: Option<(usize, usize)>,
    /// The namespaces that are held alone; empty if the whole zone is held.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<HeldNamespaceLine>,
}

/// A namespace that is held alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldNamespaceLine {
    /// Its name.
    pub namespace: String,
    /// The number of its lost records and of its records before.
    pub loses: (usize, usize),
    /// The time when it was first held, milliseconds since 1970 UTC.
    pub since_ms: u64,
    /// The time when its changes are published at the latest, milliseconds since 1970 UTC; absent: when they are released.
    pub until_ms: Option<u64>,
}

/// The state of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceLine {
    /// Its name.
    pub source: String,
    /// Whether all objects are listed since the start.
    pub synced: bool,
    /// The time when it was lost, milliseconds since 1970 UTC; absent while it is connected.
    pub stale_since_ms: Option<u64>,
    /// The number of objects by kind.
    pub objects: Vec<(String, u64)>,
}

/// The state of a secondary for one zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecondaryLine {
    /// The zone.
    pub zone: String,
    /// Its address.
    pub secondary: String,
    /// The serial it was last notified of.
    pub told: Option<u32>,
    /// The serial it last acknowledged.
    pub acknowledged: Option<u32>,
    /// The serial and response code of its last answer, if it refused the notification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The serial it last transferred.
    pub took: Option<u32>,
    /// The kind of that transfer.
    pub by: Option<String>,
    /// The number of versions that it is behind; absent when unknown.
    pub lag_versions: Option<u64>,
    /// The seconds since the oldest version that it lacks; absent when unknown.
    pub lag_seconds: Option<u64>,
    /// The seconds since it asked for the SOA or a transfer; absent before it asks.
    #[serde(default)]
    pub asked_seconds: Option<u64>,
    /// The key that signed this request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_with: Option<String>,
    /// Why its last request was refused; absent once one for a transfer was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied: Option<String>,
    /// The seconds since then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied_seconds: Option<u64>,
}

/// Adds to each time in milliseconds, `NAMEMs`, the same in RFC 3339 as `NAME`. `beginsMs` is beside a serial `begins`, so
/// its text is `beginsTime`.
fn add_times(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(add_times),
        Value::Object(fields) => {
            fields.values_mut().for_each(add_times);
            let time_of = |(name, value): (&String, &Value)| {
                let bare = name.strip_suffix("Ms")?;
                let text = value.as_u64().map(|ms| TimeText(ms).to_string());
                let name = if fields.contains_key(bare) {
                    format!("{bare}Time")
                } else {
                    bare.to_owned()
                };
                Some((name, text.into()))
            };
            let times: Vec<(String, Value)> = fields.iter().filter_map(time_of).collect();
            fields.extend(times);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

pub(super) fn write(
    status: &Status,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    if output == Output::Json {
        let mut line = serde_json::to_value(status).map_err(io::Error::other)?;
        add_times(&mut line);
        line["schema"] = SCHEMA.into();
        return Ok(writeln!(out, "{line}")?);
    }
    Ok(write_text(status, &|_| None, out)?)
}

/// Writes it for people. `in_place` gives what is written in place of a zone's own lines; `None` where these are.
pub(super) fn write_text(
    status: &Status,
    in_place: &dyn Fn(&str) -> Option<String>,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    writeln!(out, "zonewright {}", status.version)?;
    if let Some(sandbox) = &status.sandbox {
        writeln!(out, "sandbox: {sandbox}")?;
    }
    if let Some(line) = &status.replica {
        writeln!(out, "{}", replica_text(line))?;
    }
    for line in &status.listeners {
        writeln!(out, "{}", listener_text(line))?;
    }
    for line in &status.sources {
        let state = source_state(line);
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
        match in_place(&line.zone) {
            Some(text) => out.write_all(text.as_bytes())?,
            None => write_zone(line, status, out)?,
        }
    }
    for line in &status.notes {
        writeln!(out, "{}", note_text(line))?;
    }
    for problem in &status.problems {
        writeln!(out, "problem {}", printable(problem))?;
    }
    Ok(())
}

/// How a source stands, in words.
fn source_state(line: &SourceLine) -> String {
    match (line.synced, line.stale_since_ms) {
        (true, Some(since)) => format!("STALE since {}", TimeText(since)),
        (true, None) => "in sync".to_owned(),
        (false, Some(since)) => format!("not listed yet, FAILS since {}", TimeText(since)),
        (false, None) => "not listed yet".to_owned(),
    }
}

/// The lines of a zone, with those of its secondaries.
fn write_zone(line: &ZoneLine, status: &Status, out: &mut dyn io::Write) -> io::Result<()> {
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
    if let Some(hash) = &line.hash {
        writeln!(out, "    hash {hash}")?;
    }
    if let Some(history) = &line.history {
        writeln!(out, "    {}", history_text(history))?;
    }
    if let Some(archive) = &line.archive {
        writeln!(out, "    {}", archive_text(archive))?;
    }
    if let Some(order) = &line.order {
        writeln!(out, "    {}", order_text(line, order))?;
    } else if let Some(held) = &line.held {
        writeln!(out, "    {}", held_text(&line.zone, held))?;
    }
    if let Some(ahead) = &line.ahead {
        writeln!(out, "    {}", ahead_text(&line.zone, ahead))?;
    }
    if let Some(reset) = &line.reset {
        writeln!(out, "    {}", reset_text(reset))?;
    }
    for line in status
        .secondaries
        .iter()
        .filter(|secondary| secondary.zone == line.zone)
    {
        writeln!(out, "    {}", secondary_text(line))?;
    }
    Ok(())
}

fn note_text(line: &NoteLine) -> String {
    let NoteLine {
        to,
        key: _,
        written_ms,
        failing_since_ms,
        error,
    } = line;
    let last = match written_ms {
        Some(written) => format!("last written {}", TimeText(*written)),
        None => "none written yet".to_owned(),
    };
    let failing = failing_since_ms.map(|since| {
        let why = printable(error.as_deref().unwrap_or("unknown error"));
        format!("FAILING since {}: {why}; ", TimeText(since))
    });
    let (to, failing) = (printable(to), failing.unwrap_or_default());
    format!("notes to {to}: {failing}{last}")
}

fn replica_text(line: &ReplicaLine) -> String {
    let ReplicaLine {
        replica,
        leads,
        epoch,
        leader,
        address,
        in_sync,
        ceiling,
        followers,
        is_behind,
        lacks_eligible,
    } = line;
    let state = match (leads, leader, address) {
        (true, _, _) => "LEADS".to_owned(),
        (false, Some(leader), Some(address)) => {
            format!("follows {} at {}", printable(leader), printable(address))
        }
        (false, Some(one), None) | (false, None, Some(one)) => {
            format!("follows {}", printable(one))
        }
        (false, None, None) => "NO LEADER".to_owned(),
    };
    let behind = is_behind.then_some(", BEHIND").unwrap_or_default();
    let lost = "\n    NOBODY MAY LEAD: the replicas that have every version are away; if none comes back, another one leads after some minutes";
    let lost = lacks_eligible.then_some(lost).unwrap_or_default();
    let ceiling = ceiling.map(|top| format!(", serials up to {top}"));
    let (replica, ceiling) = (printable(replica), ceiling.unwrap_or_default());
    let mut text = format!("replica {replica} {state}{behind}, epoch {epoch}{ceiling}{lost}");
    if !in_sync.is_empty() {
        let names: Vec<_> = in_sync.iter().map(|it| printable(it)).collect();
        text += &format!("\n    in sync: {}", names.join(", "));
    }
    for FollowerLine {
        replica,
        lag_versions,
    } in followers
    {
        let replica = printable(replica);
        text += &format!("\n    follower {replica}: lacks {lag_versions} versions");
    }
    text
}

fn listener_text(line: &ListenerLine) -> String {
    let ListenerLine {
        address,
        transports,
        scheme,
        endpoints,
    } = line;
    let endpoints = match endpoints.is_empty() {
        true => String::new(),
        false => format!(" for {}", endpoints.join(", ")),
    };
    let transports = transports.join(" and ");
    format!("listening on {address}, {transports}, {scheme}{endpoints}")
}

fn history_text(history: &HistoryLine) -> String {
    let HistoryLine {
        begins,
        begins_ms,
        versions,
        octets,
        dropped_early,
        dropped_early_ms,
    } = history;
    let (time, kib) = (TimeText(*begins_ms), octets.div_ceil(1024));
    let early = dropped_early_ms.map(|last| {
        let last = TimeText(last);
        format!(
            "\n    HISTORY SHORT: {dropped_early} versions younger than `keep` were dropped since the start, the last at {last}: \
             set more `versions` or `size` of `history`"
        )
    });
    let early = early.unwrap_or_default();
    format!("history begins at serial {begins}, {time}; versions: {versions}, {kib} KiB{early}")
}

fn archive_text(archive: &ArchiveLine) -> String {
    let ArchiveLine {
        url,
        serial,
        time_ms,
        waiting,
        error,
    } = archive;
    let until = match (serial, time_ms) {
        (Some(serial), Some(time_ms)) => format!("has serial {serial}, {}", TimeText(*time_ms)),
        (None, _) | (_, None) => "has no version yet".to_owned(),
    };
    let error = { error.as_ref() }
        .map(|error| format!("\n    ARCHIVE FAILS: {error}; no version is dropped until it works"))
        .unwrap_or_default();
    format!("archive {url} {until}; versions that are not in it: {waiting}{error}")
}

fn order_text(line: &ZoneLine, order: &OrderLine) -> String {
    let OrderLine {
        rolled_back_to,
        since_ms,
        until_ms,
        by,
    } = order;
    let what = match rolled_back_to {
        Some(serial) => format!("ROLLED BACK to serial {serial}"),
        None => "FROZEN".to_owned(),
    };
    let until = until_ms.map(|until| format!("until {}, or ", TimeText(until)));
    let until = until.unwrap_or_default();
    let waits = match &line.held {
        Some(held) => waits_text(held.loses),
        None => String::new(),
    };
    let (since, zone) = (TimeText(*since_ms), &line.zone);
    format!("{what} since {since} by {by}, {until}until: zonewright release {zone}{waits}")
}

/// Describes the changes that wait for the end of a hold, with the loss that the gate would report.
fn waits_text(loses: Option<(usize, usize)>) -> String {
    match loses {
        Some((lost, before)) => {
            format!("; changes wait: they would lose {lost} of {before} records")
        }
        None => "; changes wait".to_owned(),
    }
}

fn held_text(zone: &str, held: &HeldLine) -> String {
    let HeldLine {
        why,
        since_ms,
        until_ms,
        is_releasable,
        loses: _,
        namespaces,
    } = held;
    let why = printable(why);
    let what = match namespaces.is_empty() {
        true => "HELD",
        false => "PARTLY HELD",
    };
    let since = TimeText(*since_ms);
    let release = format!("by: zonewright release {zone}");
    match (until_ms, is_releasable) {
        (Some(until), true) => {
            let until = TimeText(*until);
            format!("{what} since {since}: {why}; published at {until}, or {release}")
        }
        (Some(until), false) => {
            format!(
                "{what} since {since}: {why}; published at {}",
                TimeText(*until)
            )
        }
        (None, true) => format!("{what} since {since}: {why}; published {release}"),
        (None, false) => format!("{what} since {since}: {why}"),
    }
}

fn ahead_text(zone: &str, ahead: &AheadLine) -> String {
    let AheadLine {
        serial,
        peer,
        is_followed,
    } = ahead;
    match is_followed {
        true => format!("PEER AHEAD: {peer} has serial {serial}; the next one is above it"),
        false => format!(
            "PEER AHEAD: {peer} says that it has serial {serial}, without proof; if it is true: zonewright advance {zone} {serial}"
        ),
    }
}

fn reset_text(reset: &ResetLine) -> String {
    let ResetLine { from, to, until_ms } = reset;
    let until = TimeText(*until_ms);
    format!(
        "SERIAL RESET from {from} to {to}: serials rise by one until the secondaries have followed, at the latest until {until}"
    )
}

fn secondary_text(line: &SecondaryLine) -> String {
    let serial = |serial: Option<u32>| serial.map_or("nothing".to_owned(), |s| s.to_string());
    let versions = |lag| if lag == 1 { "version" } else { "versions" };
    let lag = match (line.lag_versions, line.lag_seconds) {
        (Some(0), _) => "up to date".to_owned(),
        (Some(lag), Some(seconds)) => format!("{lag} {} behind, for {seconds} s", versions(lag)),
        (Some(lag), None) => format!("{lag} {} behind", versions(lag)),
        (None, Some(seconds)) => {
            format!("behind by an unknown number of versions, for {seconds} s")
        }
        (None, None) => "lag unknown".to_owned(),
    };
    let by = line
        .by
        .as_deref()
        .map(|by| format!(" by {by}"))
        .unwrap_or_default();
    let answer = match &line.refused {
        Some(refused) => format!("REFUSED {refused}"),
        None => format!("acknowledged {}", serial(line.acknowledged)),
    };
    let asked = match line.asked_seconds {
        Some(seconds) => {
            let key = line.asked_with.as_deref();
            let key = key.map(|key| format!(" with the key {key}"));
            format!("asked {seconds} s ago{}", key.unwrap_or_default())
        }
        None => "has not asked since this server started".to_owned(),
    };
    let denied = match (&line.denied, line.denied_seconds) {
        (Some(reason), Some(seconds)) => format!(", WE REFUSED IT {seconds} s ago: {reason}"),
        (Some(_) | None, _) => String::new(),
    };
    format!(
        "secondary {}: notified of {}, {answer}, transferred {}{by}, {lag}, {asked}{denied}",
        line.secondary,
        serial(line.told),
        serial(line.took)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_is_ahead_without_proof_comes_with_the_command_that_follows_it() {
        let text = |is_followed| {
            let peer = "192.0.2.1:53".to_owned();
            let ahead = AheadLine {
                serial: 9,
                peer,
                is_followed,
            };
            ahead_text("z.", &ahead)
        };
        assert_eq!(
            text(true),
            "PEER AHEAD: 192.0.2.1:53 has serial 9; the next one is above it"
        );
        let unproven = text(false);
        assert!(unproven.ends_with("zonewright advance z. 9"), "{unproven}");
    }

    #[test]
    fn notes_that_do_not_arrive_say_since_when_and_why() {
        let mut line = NoteLine {
            to: "log".to_owned(),
            key: "ab".repeat(32),
            written_ms: None,
            failing_since_ms: None,
            error: None,
        };
        assert_eq!(note_text(&line), "notes to log: none written yet");
        line.failing_since_ms = Some(0);
        line.error = Some("why\n".to_owned());
        line.written_ms = Some(1);
        assert_eq!(
            note_text(&line),
            "notes to log: FAILING since 1970-01-01T00:00:00.000Z: why\\n; last written 1970-01-01T00:00:00.001Z"
        );
    }

    #[test]
    fn a_reset_names_both_serials_and_its_end() {
        let reset = ResetLine {
            from: 3_900_000_000,
            to: 1_752_516_351,
            until_ms: 0,
        };
        assert_eq!(
            reset_text(&reset),
            "SERIAL RESET from 3900000000 to 1752516351: serials rise by one until the secondaries have followed, \
             at the latest until 1970-01-01T00:00:00.000Z"
        );
    }

    #[test]
    fn an_order_says_what_the_changes_that_wait_would_lose() {
        let order = OrderLine {
            rolled_back_to: None,
            since_ms: 0,
            until_ms: None,
            by: "someone".into(),
        };
        let text = |loses| {
            let held = HeldLine {
                why: "an operator holds the zone".into(),
                since_ms: 0,
                until_ms: None,
                is_releasable: true,
                loses,
                namespaces: Vec::new(),
            };
            let line = ZoneLine {
                archive: None,
                zone: "z.".into(),
                history: None,
                ahead: None,
                reset: None,
                serial: None,
                time_ms: None,
                records: 42,
                stale_since_ms: None,
                hash: None,
                held: Some(held),
                order: None,
            };
            order_text(&line, &order)
        };
        assert!(text(None).ends_with("release z.; changes wait"));
        let loses = "; changes wait: they would lose 23 of 42 records";
        assert!(text(Some((23, 42))).ends_with(loses));
    }

    #[test]
    fn what_an_older_server_says_of_a_held_change_is_understood() {
        let text = r#"{"why":"w","sinceMs":1,"untilMs":null,"isReleasable":true}"#;
        let held: HeldLine = serde_json::from_str(text).unwrap();
        assert_eq!(held.loses, None);
        assert_eq!(serde_json::to_string(&held).unwrap(), text);
    }

    #[test]
    fn what_is_held_for_ever_says_how_it_is_released() {
        let held = |until_ms, is_releasable| HeldLine {
            why: "it would lose 9 of 10 records".into(),
            since_ms: 0,
            until_ms,
            is_releasable,
            loses: Some((9, 10)),
            namespaces: Vec::new(),
        };
        let release = "by: zonewright release z.";
        let ends = |line: &HeldLine, end: &str| held_text("z.", line).ends_with(end);
        assert!(ends(
            &held(None, true),
            &format!("records; published {release}")
        ));
        assert!(ends(&held(Some(1), true), &format!(", or {release}")));
        assert!(ends(&held(None, false), "records"));
        let partly = HeldLine {
            why: "namespace shop would lose 9 of 10 records".into(),
            namespaces: vec![HeldNamespaceLine {
                namespace: "shop".into(),
                loses: (9, 10),
                since_ms: 0,
                until_ms: None,
            }],
            ..held(None, true)
        };
        assert_eq!(
            held_text("z.", &partly),
            format!(
                "PARTLY HELD since 1970-01-01T00:00:00.000Z: {}; published {release}",
                partly.why
            )
        );
    }
}

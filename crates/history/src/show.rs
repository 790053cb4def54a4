//! `show`: a version as a master file.

use std::io;

use dns::{Name, RecordText, RrRef, Rtype, Serial};
use serde_json::{Value, json};
use zone::{Contents, Hash};

use crate::doubts::Doubts;
use crate::error::{AuditError, Output, SCHEMA};
use crate::moment::TimeText;
use crate::past::{Past, contents_at};

/// A version of a zone, or one name of it, as a question means it.
pub(super) struct Asked {
    pub(super) zone: Name,
    /// The number of the version.
    pub(super) seq: u64,
    /// Only this name.
    pub(super) name: Option<Name>,
    /// Which Corefile is meant.
    pub(super) point: Point,
    /// What makes the version doubtful, if the question has a time.
    pub(super) doubts: Doubts,
}

/// How a question names a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Point {
    /// By its serial.
    Version,
    /// By a time, milliseconds since 1970 UTC.
    Time(u64),
    /// The present.
    Now,
}

impl Asked {
    /// Writes what makes the version doubtful, as a comment that begins with this sign.
    pub(super) fn write_doubt(&self, sign: char, out: &mut dyn io::Write) -> io::Result<()> {
        let mut lines = self.doubts.lines().into_iter();
        lines.try_for_each(|line| writeln!(out, "{sign} {line}"))
    }
}

/// Writes a version, or the records of one name.
pub(super) fn write(
    past: &dyn Past,
    asked: &Asked,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let (zone, name) = (&asked.zone, asked.name.as_ref());
    let contents = contents_at(past, zone, asked.seq, name)?;
    if let Some(name) = name.filter(|name| !has_records(&contents, name)) {
        return write_absence(past, asked, name, output, out);
    }
    let shown = Shown::version(past, asked, output)?;
    if output == Output::Text {
        let (serial, time) = (shown.serial, TimeText(shown.time_ms));
        match name {
            None => {
                let records = contents.record_count();
                writeln!(out, "; {zone} serial {serial} of {time}, {records} records")?;
            }
            Some(_) => writeln!(out, "; {zone} serial {serial} of {time}")?,
        }
        asked.write_doubt(';', out)?;
    }
    write_each(&contents, &shown, name, output, out)
}

/// The version whose records are written.
pub(super) struct Shown<'a> {
    pub(super) zone: &'a Name,
    pub(super) serial: Serial,
    /// Milliseconds since 1970 UTC.
    pub(super) time_ms: u64,
    /// `None` where it has no hashes, and for a text.
    pub(super) hash: Option<Hash>,
    /// Whether it waits to be a version: serial and time are those of the served version and of the answer.
    pub(super) is_waiting: bool,
    /// What makes the version doubtful.
    pub(super) doubts: Option<&'a Doubts>,
}

impl<'a> Shown<'a> {
    /// A version of the history, of which all or one name is shown. The text has no hash, and none is looked up for it.
    pub(super) fn version(
        past: &dyn Past,
        asked: &'a Asked,
        output: Output,
    ) -> Result<Self, AuditError> {
        let Asked {
            zone,
            seq,
            name,
            doubts,
            point: _,
        } = asked;
        let (serial, time_ms) = past.moment(zone, *seq)?;
        let link = match output {
            Output::Text => None,
            Output::Json => {
                past.step_of(zone, *seq, name.as_ref().unwrap_or(zone))?
                    .step
                    .link
            }
        };
        Ok(Self {
            zone,
            serial,
            time_ms,
            hash: link.map(|link| link.hash),
            is_waiting: false,
            doubts: Some(doubts),
        })
    }

    /// A record of it.
    pub(super) fn json(&self, record: &str) -> Value {
        let mut json = json!({
            "schema": SCHEMA,
            "record": record,
            "zone": self.zone.to_string(),
            "serial": self.serial.encode(),
            "time": TimeText(self.time_ms).to_string(),
            "timeMs": self.time_ms,
            "hash": self.hash.map(|hash| hash.to_string()),
        });
        if self.is_waiting {
            json["waiting"] = true.into();
        }
        if let Some(doubts) = self.doubts {
            doubts.add_to(&mut json, "");
        }
        json
    }
}

/// Writes the records of a version, or those of one name.
pub(super) fn write_each(
    contents: &Contents,
    shown: &Shown<'_>,
    name: Option<&Name>,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    each_record(contents, shown.serial, |rr| {
        let wanted = name.is_none_or(|name| rr.owner.eq_ignore_ascii_case(name.as_wire()));
        match output {
            _ if !wanted => Ok(()),
            Output::Text => writeln!(out, "{}", RecordText(rr)),
            Output::Json => {
                writeln!(out, "{}", shown.json(&RecordText(rr).to_string()))
            }
        }
    })?;
    Ok(())
}

/// Whether there is a record at a name.
pub(super) fn has_records(contents: &Contents, name: &Name) -> bool {
    let apex = contents.apex();
    let key = name.sort_key(apex);
    name == apex || key.is_some_and(|key| contents.get(key.as_bytes()).is_some())
}

/// Writes that a version has no record at a name, with the hashes that prove it.
pub(super) fn write_absence(
    past: &dyn Past,
    asked: &Asked,
    name: &Name,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let zone = &asked.zone;
    let part = past.step_of(zone, asked.seq, name)?;
    let (serial, time, link) = (
        part.step.serial,
        TimeText(part.step.time_ms),
        part.step.link,
    );
    match output {
        Output::Text => {
            let hash = link.map(|link| format!(", content hash {}", link.content));
            let hash = hash.unwrap_or_default();
            writeln!(
                out,
                "; {name} has no record in {zone} serial {serial} of {time}{hash}"
            )?;
            asked.write_doubt(';', out)?;
        }
        Output::Json => {
            let mut absence = json!({
                "schema": SCHEMA,
                "type": "absent",
                "name": name.to_string(),
                "zone": zone.to_string(),
                "serial": serial.encode(),
                "time": time.to_string(),
                "timeMs": time.0,
                "hash": link.map(|link| link.hash.to_string()),
                "contentHash": link.map(|link| link.content.to_string()),
            });
            asked.doubts.add_to(&mut absence, "");
            writeln!(out, "{absence}")?;
        }
    }
    Ok(())
}

/// Calls `each` for each record of a version: the SOA, then the others in canonical order.
pub fn each_record<E>(
    contents: &Contents,
    serial: Serial,
    mut call: impl FnMut(RrRef<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let soa = contents.soa().rdata(serial);
    call(RrRef {
        owner: contents.apex().as_wire(),
        rtype: Rtype::SOA,
        ttl: contents.soa().ttl,
        data: soa.as_octets(),
        tag: 0,
    })?;
    for node in contents.nodes() {
        let owner = node.owner_wire(contents.apex());
        for rr in node.records(&owner, 0) {
            call(rr)?;
        }
    }
    Ok(())
}

//! `export --history`: the whole history of a zone, so that a third party can check it without zonewright.
//!
//! The output is JSON, one object per line: first the zone, then the records from before the oldest kept version,
//! then the versions, oldest first. `wire` and `soa` are records in uncompressed wire form, hexadecimal, as they are
//! hashed ([`zone::Link`], [`zone::digest`]).
//!
//! The client asks for one page at a time, so that neither side holds the whole history.

use std::io;

use dns::{Name, RecordText, RrList, RrRef, Rtype, Serial, Soa};
use serde_json::{Value, json};
use zone::Step;
use zone::digest::record_wire;

use crate::error::AuditError;
use crate::log::hashed_cause_json;
use crate::moment::TimeText;
use crate::page::Room;
use crate::past::Past;
use crate::show::each_record;

/// The format that the first line names.
pub(super) const FORM: &str = "zonewright history 1";

/// Writes the beginning, or some of the versions after this number; nothing when there are none.
pub(super) fn write(
    past: &dyn Past,
    zone: &Name,
    after: Option<u64>,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let Some((oldest, newest)) = past.range(zone) else {
        return Ok(());
    };
    let Some(after) = after else {
        return write_beginning(past, zone, oldest, out);
    };
    let one = |seq: u64, out: &mut dyn io::Write| -> Result<(), AuditError> {
        let line = version_json(zone, &*past.step(zone, seq)?);
        Ok(writeln!(out, "{line}")?)
    };
    // Versions that left the history since the previous page are missing. The numbers show this.
    let first = after.saturating_add(1).max(oldest);
    let mut room = Room::PAGE;
    // The client continues after the last version that it received.
    let _rest = room.fill(first..=newest, &one, out)?;
    Ok(())
}

/// Writes the whole history of a zone as it is now.
pub(super) fn write_whole(
    past: &dyn Past,
    zone: &Name,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let Some((oldest, newest)) = past.range(zone) else {
        return Ok(());
    };
    write_beginning(past, zone, oldest, out)?;
    for seq in oldest..=newest {
        writeln!(out, "{}", version_json(zone, &*past.step(zone, seq)?))?;
    }
    Ok(())
}

/// Writes the zone and the records from before its oldest version.
fn write_beginning(
    past: &dyn Past,
    zone: &Name,
    oldest: u64,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let first = past.step(zone, oldest)?;
    let before = match &first.from {
        None => None,
        Some((serial, _)) => {
            let contents = past.contents(zone, oldest - 1)?;
            Some((*serial, contents))
        }
    };
    let count = before
        .as_ref()
        .map_or(0, |(_, contents)| contents.record_count() - 1);
    writeln!(out, "{}", zone_line(zone, oldest - 1, count as u64))?;
    if let Some((serial, contents)) = before {
        each_record(&contents, serial, |rr| {
            if rr.rtype == Rtype::SOA {
                return Ok(());
            }
            writeln!(out, "{}", record_line(rr))
        })?;
    }
    Ok(())
}

/// The first line.
pub(super) fn zone_line(zone: &Name, after: u64, records_before: u64) -> String {
    let head = json!({
        "type": "zone",
        "form": FORM,
        "zone": zone.to_string(),
        "after": after,
        "recordsBefore": records_before,
    });
    head.to_string()
}

/// The line of a record from before the oldest version.
pub(super) fn record_line(rr: RrRef<'_>) -> String {
    let mut line = record_json(rr);
    line["type"] = "record".into();
    line.to_string()
}

fn hex(octets: &[u8]) -> String {
    const DIGITS: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
    ];
    let digits = octets.iter().flat_map(|octet| [octet >> 4, octet & 15]);
    digits.map(|digit| DIGITS[usize::from(digit)]).collect()
}

fn record_json(rr: RrRef<'_>) -> Value {
    json!({ "record": RecordText(rr).to_string(), "wire": hex(&record_wire(rr)) })
}

fn soa_hex(zone: &Name, soa: &Soa, serial: Serial) -> String {
    let data = soa.rdata(serial);
    hex(&record_wire(RrRef {
        owner: zone.as_wire(),
        rtype: Rtype::SOA,
        ttl: soa.ttl,
        data: data.as_octets(),
        tag: 0,
    }))
}

/// A version as JSON, with everything that is hashed.
pub(super) fn version_json(zone: &Name, step: &Step) -> Value {
    let records = |list: &RrList| -> Vec<Value> {
        let line = |rr: RrRef<'_>| {
            let mut record = record_json(rr);
            record["cause"] = rr.tag.into();
            record
        };
        list.iter().map(line).collect()
    };
    let causes: Vec<Vec<Value>> = step
        .causes
        .iter()
        .map(|group| group.iter().map(hashed_cause_json).collect())
        .collect();
    let from = step.from.as_ref();
    let link = step.link.as_ref();
    json!({
        "type": "version",
        "zone": zone.to_string(),
        "version": step.seq,
        "serial": step.serial.encode(),
        "previous": from.map(|(serial, _)| serial.encode()),
        "time": TimeText(step.time_ms).to_string(),
        "timeMs": step.time_ms,
        "records": step.records,
        "previousSoa": from.map(|(serial, soa)| soa_hex(zone, soa, *serial)),
        "soa": soa_hex(zone, &step.soa, step.serial),
        "previousHash": link.map(|link| link.previous.to_string()),
        "contentHash": link.map(|link| link.content.to_string()),
        "hash": link.map(|link| link.hash.to_string()),
        "causes": causes,
        "removed": records(&step.removed),
        "added": records(&step.added),
    })
}

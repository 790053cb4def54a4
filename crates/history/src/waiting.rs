//! `show ZONE@held`, `diff ZONE --held`, `release ZONE --dry-run`: what a release would publish.

use std::collections::BTreeSet;
use std::io;

use dns::{Name, RecordText, RrList, Serial};
use provenance::Cause;
use serde_json::{Value, json};
use writer::Waiting;

use crate::diff::{OF_VERSIONS, of_no_record, write_causes, write_list};
use crate::error::{AuditError, Output, SCHEMA};
use crate::log::cause_json;
use crate::moment::TimeText;
use crate::past::Past;
use crate::show::{Shown, has_records, write_each};

/// Serial and time of the served version.
fn served(past: &dyn Past, zone: &Name) -> Result<(Serial, u64), AuditError> {
    let (_, newest) = past.range(zone).ok_or_else(|| AuditError::NoZone {
        zone: zone.clone(),
        known: past.zones(),
    })?;
    past.moment(zone, newest)
}

/// Why it waits.
fn why(past: &dyn Past, zone: &Name) -> String {
    let status = past.status();
    let zone = zone.to_string();
    let mut lines = status.iter().flat_map(|status| &status.zones);
    let line = lines.find(|line| line.zone == zone);
    match line.map(|line| (&line.order, &line.held)) {
        Some((Some(order), _)) => match order.rolled_back_to {
            Some(serial) => format!("rolled back to serial {serial} by {}", order.by),
            None => format!("frozen by {}", order.by),
        },
        Some((None, Some(held))) => format!("held: {}", held.why),
        Some((None, None)) | None => "it is published within seconds".to_owned(),
    }
}

/// Writes the contents that wait, with the serial that is served, or the records of one name.
pub(super) fn show(
    past: &dyn Past,
    zone: &Name,
    name: Option<&Name>,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let (serial, time_ms) = served(past, zone)?;
    let Some(waiting) = past.waiting(zone)? else {
        return write_nothing(zone, (serial, time_ms), output, out);
    };
    if let Some(name) = name.filter(|name| !has_records(&waiting.contents, name)) {
        let why = why(past, zone);
        return match output {
            Output::Text => Ok(writeln!(
                out,
                "; {name} has no record in {zone} as it waits; {why}"
            )?),
            Output::Json => {
                let json = json!({
                    "schema": SCHEMA,
                    "type": "absent",
                    "name": name.to_string(),
                    "zone": zone.to_string(),
                    "serial": serial.encode(),
                    "time": TimeText(past.now_ms()).to_string(),
                    "timeMs": past.now_ms(),
                    "hash": null,
                    "contentHash": null,
                    "waiting": true,
                });
                Ok(writeln!(out, "{json}")?)
            }
        };
    }
    if output == Output::Text {
        let records = waiting.contents.record_count();
        let why = why(past, zone);
        writeln!(out, "; {zone} as it waits, {records} records; {why}")?;
    }
    let shown = Shown {
        zone,
        serial,
        time_ms: past.now_ms(),
        hash: None,
        is_waiting: true,
        doubts: None,
    };
    write_each(&waiting.contents, &shown, name, output, out)
}

/// Writes that nothing waits.
fn write_nothing(
    zone: &Name,
    (serial, time_ms): (Serial, u64),
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    match output {
        Output::Text => writeln!(
            out,
            "; nothing of {zone} waits: serial {serial} is as its sources"
        )?,
        Output::Json => {
            let none = json!({
                "schema": SCHEMA,
                "type": "none",
                "zone": zone.to_string(),
                "serial": serial.encode(),
                "time": TimeText(time_ms).to_string(),
                "timeMs": time_ms,
            });
            writeln!(out, "{none}")?;
        }
    }
    Ok(())
}

/// Writes what a release would remove and add, with the causes.
pub(super) fn diff(
    past: &dyn Past,
    zone: &Name,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let (serial, time_ms) = served(past, zone)?;
    let Some(waiting) = past.waiting(zone)? else {
        return write_nothing(zone, (serial, time_ms), output, out);
    };
    if output == Output::Json {
        let json = json_of(zone, (serial, past.now_ms()), why(past, zone), &waiting);
        return Ok(writeln!(out, "{json}")?);
    }
    writeln!(out, "--- {zone} {serial} {}", TimeText(time_ms))?;
    writeln!(out, "+++ {zone} as it waits; {}", why(past, zone))?;
    for (sign, list) in [('-', &waiting.removed), ('+', &waiting.added)] {
        write_list(sign, list, |_, rr| causes_of(&waiting, rr.tag), out)?;
    }
    let mut text = String::new();
    write_causes(&of_version(&waiting), &mut text);
    if !text.is_empty() {
        write!(out, "{OF_VERSIONS}{text}")?;
    }
    Ok(())
}

/// The causes of the version as a whole, which no record names.
fn of_version(waiting: &Waiting) -> Vec<Cause> {
    let records = waiting.removed.iter().chain(waiting.added.iter());
    let named: BTreeSet<u32> = records.map(|rr| rr.tag).collect();
    of_no_record(&named, &waiting.causes).cloned().collect()
}

/// The causes of a group.
fn causes_of(waiting: &Waiting, tag: u32) -> Option<&[Cause]> {
    let place = usize::try_from(tag).ok()?;
    waiting.causes.get(place).map(Vec::as_slice)
}

/// What a release would remove and add.
fn json_of(zone: &Name, (serial, now_ms): (Serial, u64), why: String, waiting: &Waiting) -> Value {
    let records = |side: fn(&Waiting) -> &RrList| -> (Vec<String>, Vec<Value>) {
        let each = side(waiting).iter().map(|rr| {
            let group = causes_of(waiting, rr.tag).unwrap_or_default();
            let causes: Vec<Value> = group.iter().map(cause_json).collect();
            (RecordText(rr).to_string(), json!({ "causes": causes }))
        });
        each.unzip()
    };
    let (removed, removed_why) = records(|waiting| &waiting.removed);
    let (added, added_why) = records(|waiting| &waiting.added);
    json!({
        "schema": SCHEMA,
        "type": "waiting",
        "zone": zone.to_string(),
        "serial": serial.encode(),
        "time": TimeText(now_ms).to_string(),
        "timeMs": now_ms,
        "why": why,
        "removed": removed,
        "added": added,
        "removedWhy": removed_why,
        "addedWhy": added_why,
        "versionWhy": of_version(waiting).iter().map(cause_json).collect::<Vec<_>>(),
    })
}

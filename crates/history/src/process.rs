//! `reload`, `stop`, `promote`, `notify`: what a caller asks of the running server itself.

use std::io;

use dns::Name;
use provenance::Operator;
use serde_json::json;

use crate::error::{AuditError, Output, SCHEMA};
use crate::past::Past;

/// `reload`.
pub(super) fn reload(
    past: &dyn Past,
    by: &Operator,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    past.reload(by)?;
    write_done("the Corefile is read and in use", "reloaded", output, out)
}

/// `stop`.
pub(super) fn stop(
    past: &dyn Past,
    by: &Operator,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    past.stop(by)?;
    write_done("the server ends", "stopping", output, out)
}

/// `promote`.
pub(super) fn promote(
    past: &dyn Past,
    by: &Operator,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    past.promote(by)?;
    write_done(
        "this replica may lead: it takes the Lease, and `zonewright status` shows when it leads",
        "mayLead",
        output,
        out,
    )
}

/// Writes that something is done: the field of JSON is true.
fn write_done(
    text: &str,
    field: &str,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    match output {
        Output::Text => writeln!(out, "{text}")?,
        Output::Json => writeln!(out, "{}", json!({ "schema": SCHEMA, field: true }))?,
    }
    Ok(())
}

/// `notify`.
pub(super) fn notify(
    past: &dyn Past,
    zone: &Name,
    by: &Operator,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let status = past.status().ok_or(AuditError::NoServer)?;
    let mut lines = status.zones.iter();
    let line = lines.find(|line| line.zone == zone.to_string());
    let known = || {
        status
            .zones
            .iter()
            .filter_map(|line| Name::parse(&line.zone).ok())
    };
    let line = line.ok_or_else(|| AuditError::NoZone {
        zone: zone.clone(),
        known: known().collect(),
    })?;
    let serial = line.serial.ok_or_else(|| {
        AuditError::Refused(format!("{zone} has no version yet, so nobody is notified"))
    })?;
    let notified = past.notify(zone, by)?;
    if notified.is_empty() {
        let why =
            format!("{zone} has no secondary to notify: `transfer {{ to ADDRESS }}` names one");
        return Err(AuditError::Refused(why));
    }
    match output {
        Output::Text => writeln!(
            out,
            "{zone} serial {serial}: NOTIFY to {}; `zonewright status` shows the answers",
            notified.join(", ")
        )?,
        Output::Json => {
            let zone = zone.to_string();
            let line =
                json!({ "schema": SCHEMA, "zone": zone, "serial": serial, "notified": notified });
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

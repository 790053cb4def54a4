//! `show`: a version as a master file.

use std::io;

use dns::{Name, RecordText, RrRef, Rtype, Serial};
use serde_json::json;
use zone::Contents;

use crate::error::{AuditError, Output};
use crate::moment::TimeText;
use crate::past::{Past, contents_at};

/// Writes a version, or the records of one name.
pub(super) fn write(
    past: &dyn Past,
    zone: &Name,
    seq: u64,
    name: Option<&Name>,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let (serial, time_ms) = past.moment(zone, seq)?;
    let contents = contents_at(past, zone, seq, name)?;
    if output == Output::Text {
        let time = TimeText(time_ms);
        match name {
            None => {
                let records = contents.record_count();
                writeln!(out, "; {zone} serial {serial} of {time}, {records} records")?;
            }
            Some(_) => writeln!(out, "; {zone} serial {serial} of {time}")?,
        }
    }
    let mut found = name.is_none();
    each_record(&contents, serial, |rr| {
        let wanted = name.is_none_or(|name| rr.owner.eq_ignore_ascii_case(name.as_wire()));
        found |= wanted;
        match output {
            _ if !wanted => Ok(()),
            Output::Text => writeln!(out, "{}", RecordText(rr)),
            Output::Json => writeln!(out, "{}", json!({ "record": RecordText(rr).to_string() })),
        }
    })?;
    match name {
        Some(name) if !found => Err(AuditError::NoName {
            name: name.clone(),
            serial: serial.encode(),
        }),
        _ => Ok(()),
    }
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

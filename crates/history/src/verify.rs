//! `verify`: checks that the history is as it was written, zone by zone.

use std::io;

use dns::Name;
use serde_json::{Value, json};
use zone::journal::{Fault, Verdict};

use crate::error::{AuditError, Output};
use crate::moment::TimeText;
use crate::past::Past;

/// The most faults in the text.
const FAULTS_SHOWN: usize = 5;

/// Verifies the zones and writes the results.
///
/// # Errors
/// [`AuditError::Broken`] after everything was written, when a history is damaged.
pub(super) fn write(
    past: &dyn Past,
    zones: &[Name],
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let mut broken = Vec::new();
    for zone in zones {
        let verdict = past.verify(zone)?;
        match output {
            Output::Text => write_text(zone, &verdict, out)?,
            Output::Json => writeln!(out, "{}", verdict_json(zone, &verdict))?,
        }
        if !verdict.faults.is_empty() {
            broken.push(zone.clone());
        }
    }
    if broken.is_empty() {
        Ok(())
    } else {
        Err(AuditError::Broken(broken))
    }
}

fn head_text(verdict: &Verdict) -> String {
    verdict
        .head
        .map_or_else(|| "none yet".to_owned(), |hash| hash.to_string())
}

fn write_text(zone: &Name, verdict: &Verdict, out: &mut dyn io::Write) -> Result<(), AuditError> {
    let Verdict {
        oldest: (oldest, first_serial, since_ms),
        newest: (_, newest),
        versions,
        unhashed,
        anchor: _,
        head: _,
        faults,
    } = verdict;
    let since = TimeText(*since_ms);
    if let Some(first) = faults.first() {
        writeln!(out, "{zone}: BROKEN at {}", fault_text(first))?;
        for fault in faults.iter().take(FAULTS_SHOWN).skip(1) {
            writeln!(out, "    also {}", fault_text(fault))?;
        }
        if faults.len() > FAULTS_SHOWN {
            writeln!(out, "    and more: --output json lists them")?;
        }
        return Ok(());
    }
    writeln!(
        out,
        "{zone}: good; {versions} versions since {since}, newest serial {newest}, hash {}",
        head_text(verdict)
    )?;
    if let (Some(serial), 2..) = (first_serial, oldest) {
        writeln!(
            out,
            "    history begins at serial {serial}, {since}: older versions were dropped by the limits of `history`"
        )?;
    }
    if *unhashed > 0 {
        writeln!(
            out,
            "    the oldest {unhashed} were stored before there were hashes: only their form can be checked"
        )?;
    }
    Ok(())
}

fn fault_text(fault: &Fault) -> String {
    let Fault { seq, serial, what } = fault;
    match serial {
        // For a version that does not exist.
        Some(serial) if *seq == 0 => format!("serial {serial}: {what}"),
        Some(serial) => format!("serial {serial} (version {seq}): {what}"),
        None => format!("version {seq}: {what}"),
    }
}

fn verdict_json(zone: &Name, verdict: &Verdict) -> Value {
    let Verdict {
        oldest: (_, oldest, since_ms),
        newest: (_, newest),
        versions,
        unhashed,
        anchor,
        head,
        faults,
    } = verdict;
    let faults: Vec<Value> = faults
        .iter()
        .map(
            |Fault { seq, serial, what }| json!({ "version": seq, "serial": serial, "what": what }),
        )
        .collect();
    json!({
        "zone": zone.to_string(),
        "good": faults.is_empty(),
        "versions": versions,
        "unhashed": unhashed,
        "oldest": oldest.map(dns::Serial::encode),
        "since": TimeText(*since_ms).to_string(),
        "newest": newest.encode(),
        "before": anchor.to_string(),
        "hash": head.map(|hash| hash.to_string()),
        "faults": faults,
    })
}

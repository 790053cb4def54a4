//! `diff`: what changed between two versions, and why.

use std::collections::BTreeSet;
use std::io;
use std::ops::RangeInclusive;

use serde_json::json;

use crate::audit::log::{cause_text, version_json};
use crate::audit::moment::TimeText;
use crate::audit::past::{AuditError, Output, Past, step_of};
use crate::dns::{Name, RecordText, Rtype};
use crate::zone::Step;

/// The most causes that are named.
const CAUSES_SHOWN: usize = 50;
/// The most versions between whose causes are looked at, the newest first: two versions may be a million apart.
const VERSIONS_SHOWN: u64 = 1000;

/// Writes the net difference between two versions, the later one second, whichever way they are given.
pub(super) fn write(
    past: &dyn Past,
    zone: &Name,
    from: u64,
    to: u64,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let (older, newer) = (from.min(to), from.max(to));
    let net = past
        .difference(zone, older, newer)
        .map_err(AuditError::Store)?;
    let Some(net) = net else {
        return same_version(past, zone, older, output, out);
    };
    let first_shown = (older + 1).max(newer.saturating_sub(VERSIONS_SHOWN - 1));
    let (back, (minus, plus)) = if from <= to {
        (false, (&net.removed, &net.added))
    } else {
        (true, (&net.added, &net.removed))
    };
    if output == Output::Json {
        let lines = |list: &crate::dns::RrList| -> Vec<String> {
            list.iter().map(|rr| RecordText(rr).to_string()).collect()
        };
        let (first, last) = if back {
            (net.to.0, net.from.0)
        } else {
            (net.from.0, net.to.0)
        };
        let versions = (first_shown..=newer)
            .map(|seq| Ok(version_json(zone, &*step_of(past, zone, seq)?)))
            .collect::<Result<Vec<_>, AuditError>>()?;
        let answer = json!({
            "zone": zone.to_string(),
            "from": first.encode(),
            "to": last.encode(),
            "removed": lines(minus),
            "added": lines(plus),
            "versionCount": newer - older,
            "versions": versions,
        });
        return Ok(writeln!(out, "{answer}")?);
    }
    let old = step_of(past, zone, older)?;
    let new = step_of(past, zone, newer)?;
    let (first, last) = if back { (&new, &old) } else { (&old, &new) };
    writeln!(
        out,
        "--- {zone} {} {}",
        first.serial,
        TimeText(first.time_ms)
    )?;
    writeln!(out, "+++ {zone} {} {}", last.serial, TimeText(last.time_ms))?;
    let soa = |step: &Step| {
        let data = step.soa.rdata(step.serial);
        let rr = crate::dns::RrRef {
            owner: zone.as_wire(),
            rtype: Rtype::SOA,
            ttl: step.soa.ttl,
            data: data.as_octets(),
            tag: 0,
        };
        RecordText(rr).to_string()
    };
    writeln!(out, "-{}\n+{}", soa(first), soa(last))?;
    for (sign, list) in [('-', minus), ('+', plus)] {
        for rr in list {
            writeln!(out, "{sign}{}", RecordText(rr))?;
        }
    }
    let all_shown = first_shown == older + 1;
    write_causes(past, zone, (first_shown..=newer, all_shown), out)
}

/// What to say when both versions are one.
fn same_version(
    past: &dyn Past,
    zone: &Name,
    seq: u64,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let serial = step_of(past, zone, seq)?.serial;
    match output {
        Output::Text => writeln!(out, "; both are {zone} serial {serial}")?,
        Output::Json => {
            let serial = serial.encode();
            let none: [&str; 0] = [];
            let answer = json!({
                "zone": zone.to_string(), "from": serial, "to": serial,
                "removed": none, "added": none, "versionCount": 0, "versions": none,
            });
            writeln!(out, "{answer}")?;
        }
    }
    Ok(())
}

/// The objects behind these versions, each once.
fn write_causes(
    past: &dyn Past,
    zone: &Name,
    (seqs, all): (RangeInclusive<u64>, bool),
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let mut seen = BTreeSet::new();
    for seq in seqs {
        let step = step_of(past, zone, seq)?;
        for cause in step.causes.iter().flatten() {
            let text = cause_text(cause);
            if seen.len() < CAUSES_SHOWN && !seen.contains(&text) {
                writeln!(out, "; {text}")?;
                seen.insert(text);
            }
        }
        if seen.len() == CAUSES_SHOWN {
            break;
        }
    }
    if !all || seen.len() == CAUSES_SHOWN {
        writeln!(out, "; and maybe more: `log` names all")?;
    }
    Ok(())
}

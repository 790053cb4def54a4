//! `diff`: what changed between two versions, and why.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::audit::blame::{Reason, one_by_one};

use crate::audit::log::{cause_text, version_json};
use crate::audit::moment::TimeText;
use crate::audit::past::{AuditError, Output, Past, step_of};
use crate::cluster::Cause;
use crate::dns::{Name, RecordText, RrList, RrRef, Rtype};
use crate::zone::{Net, Step};

/// The most versions between that are looked at for the causes of many records, the newest first: two versions may be a
/// million apart.
const VERSIONS_SHOWN: u64 = 1000;
/// So many are looked at where all records have their causes: for what is of a version and of no record.
const VERSIONS_SEEN: u64 = 50;
/// So many records are looked up each by the index, however far the versions lie apart.
const FEW: usize = 64;

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
        let lines = |list: &RrList| -> Vec<String> {
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
        let reasons = reasons(past, zone, &net, (older, first_shown..=newer))?;
        let answer = json!({
            "zone": zone.to_string(),
            "from": first.encode(),
            "to": last.encode(),
            "removed": lines(minus),
            "added": lines(plus),
            "removedWhy": reasons.json(!back, minus),
            "addedWhy": reasons.json(back, plus),
            "versionCount": newer - older,
            "versions": versions,
        });
        return Ok(writeln!(out, "{answer}")?);
    }
    let ends = if back { (newer, older) } else { (older, newer) };
    write_head(past, zone, ends, out)?;
    let lists = [('-', !back, minus), ('+', back, plus)];
    let reasons = reasons(past, zone, &net, (older, first_shown..=newer))?;
    write_records(lists, &reasons, out)
}

/// Writes which versions are compared, and their SOAs.
fn write_head(
    past: &dyn Past,
    zone: &Name,
    (first, last): (u64, u64),
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let (first, last) = (step_of(past, zone, first)?, step_of(past, zone, last)?);
    writeln!(
        out,
        "--- {zone} {} {}",
        first.serial,
        TimeText(first.time_ms)
    )?;
    writeln!(out, "+++ {zone} {} {}", last.serial, TimeText(last.time_ms))?;
    let soa = |step: &Step| {
        let data = step.soa.rdata(step.serial);
        let rr = RrRef {
            owner: zone.as_wire(),
            rtype: Rtype::SOA,
            ttl: step.soa.ttl,
            data: data.as_octets(),
            tag: 0,
        };
        RecordText(rr).to_string()
    };
    writeln!(out, "-{}\n+{}", soa(&first), soa(&last))?;
    Ok(())
}

/// Writes what goes and comes, each with its causes; then the causes that no record has.
fn write_records(
    lists: [(char, bool, &RrList); 2],
    reasons: &Reasons<'_>,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let mut is_known = reasons.is_all;
    for (sign, is_removed, list) in lists {
        let mut list = list.iter().peekable();
        while let Some(rr) = list.next() {
            writeln!(out, "{sign}{}", RecordText(rr))?;
            let reason = reasons.of(is_removed, rr);
            is_known &= reason.is_some();
            let causes = reason.map_or(&[][..], Reason::causes);
            let next = list.peek().and_then(|rr| reasons.of(is_removed, *rr));
            if list.peek().is_none() || next.map_or(&[][..], Reason::causes) != causes {
                write_causes(causes, out)?;
            }
        }
    }
    write_causes(&reasons.of_versions, out)?;
    if !is_known {
        writeln!(out, "; and maybe more: `log` names all")?;
    }
    Ok(())
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
                "removed": none, "added": none, "removedWhy": none, "addedWhy": none, "versionCount": 0, "versions": none,
            });
            writeln!(out, "{answer}")?;
        }
    }
    Ok(())
}

/// Who made the difference: for each record of it the last version that took or brought it.
struct Reasons<'a> {
    /// Where that of a record lies that went (`true`) or came.
    places: HashMap<(bool, RrRef<'a>), usize>,
    /// As far as they are known.
    found: Vec<Option<Reason>>,
    /// Causes that no record has.
    of_versions: Vec<Cause>,
    /// Whether all versions between were looked at for them.
    is_all: bool,
}

impl Reasons<'_> {
    /// That of a record that went or came.
    fn of(&self, is_removed: bool, rr: RrRef<'_>) -> Option<&Reason> {
        let place = self.places.get(&(is_removed, rr.untagged()))?;
        self.found[*place].as_ref()
    }

    /// Those of a list, for machines.
    fn json(&self, is_removed: bool, list: &RrList) -> Vec<Value> {
        let json = |rr| self.of(is_removed, rr).map_or(Value::Null, Reason::json);
        list.iter().map(json).collect()
    }
}

/// Looks the causes of a difference up, of many records by going back through these versions.
fn reasons<'a>(
    past: &dyn Past,
    zone: &Name,
    net: &'a Net,
    (older, seqs): (u64, RangeInclusive<u64>),
) -> Result<Reasons<'a>, AuditError> {
    let records =
        |is_removed, list: &'a RrList| list.iter().map(move |rr| (is_removed, rr.untagged()));
    let all = records(true, &net.removed).chain(records(false, &net.added));
    let places: HashMap<_, usize> = all.zip(0..).collect();
    let mut found: Vec<Option<Reason>> = Vec::new();
    if places.len() <= FEW {
        let all = older + 1..=*seqs.end();
        let list = |list: &RrList| list.iter().map(|rr| rr.to_record()).collect::<Vec<_>>();
        let removed = list(&net.removed);
        found = one_by_one(past, zone, all.clone(), &removed, |step| &step.removed)?;
        let added = list(&net.added);
        found.extend(one_by_one(past, zone, all, &added, |step| &step.added)?);
    }
    found.resize_with(places.len(), || None);
    let mut open = found.iter().filter(|it| it.is_none()).count();
    let mut of_versions: Vec<Cause> = Vec::new();
    let mut is_all = *seqs.start() == older + 1;
    for (seen, seq) in (0..).zip(seqs.rev()) {
        if open == 0 && seen >= VERSIONS_SEEN {
            is_all = false;
            break;
        }
        let step = step_of(past, zone, seq)?;
        let mut tags = BTreeSet::new();
        for (is_removed, list) in [(true, &step.removed), (false, &step.added)] {
            for rr in list {
                tags.insert(rr.tag);
                let place = places.get(&(is_removed, rr.untagged()));
                if let Some(place @ None) = place.map(|place| &mut found[*place]) {
                    let (step, tag) = (Arc::clone(&step), rr.tag);
                    *place = Some(Reason { step, tag });
                    open -= 1;
                }
            }
        }
        let groups = (0..).zip(&step.causes);
        let others = groups.filter(|(tag, _)| !tags.contains(tag));
        for cause in others.flat_map(|(_, group)| group) {
            if !of_versions.contains(cause) {
                of_versions.push(cause.clone());
            }
        }
    }
    Ok(Reasons {
        places,
        found,
        of_versions,
        is_all,
    })
}

/// Some causes, each on a line.
fn write_causes(causes: &[Cause], out: &mut dyn io::Write) -> Result<(), AuditError> {
    for cause in causes {
        writeln!(out, "; {}", cause_text(cause))?;
    }
    Ok(())
}

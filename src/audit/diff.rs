//! `diff`: what changed between two versions, and why.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::Arc;

use foldhash::fast::RandomState;
use serde_json::{Value, json};

use crate::audit::blame::{Reason, one_by_one};

use crate::audit::log::{cause_text, version_json};
use crate::audit::moment::TimeText;
use crate::audit::past::{AuditError, Output, Past, step_of};
use crate::cluster::Cause;
use crate::dns::{Name, RecordText, RrList, RrRef, Rtype};
use crate::ops::at_once;
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
        let reasons = reasons(past, zone, &net, (older, newer), VERSIONS_SHOWN)?;
        let versions = reasons.steps.iter().rev();
        let versions: Vec<Value> = versions.map(|step| version_json(zone, step)).collect();
        let answer = json!({
            "zone": zone.to_string(),
            "from": first.encode(),
            "to": last.encode(),
            "removed": lines(minus),
            "added": lines(plus),
            "removedWhy": reasons.json(!back),
            "addedWhy": reasons.json(back),
            "versionCount": newer - older,
            "versions": versions,
        });
        return Ok(writeln!(out, "{answer}")?);
    }
    let ends = if back { (newer, older) } else { (older, newer) };
    write_head(past, zone, ends, out)?;
    let lists = [('-', !back, minus), ('+', back, plus)];
    let reasons = reasons(past, zone, &net, (older, newer), VERSIONS_SEEN)?;
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

/// The causes of a record, as far as they are known.
fn causes(reason: &Option<Reason>) -> &[Cause] {
    reason.as_ref().map_or(&[], Reason::causes)
}

/// Writes what goes and comes, each with its causes; then the causes that no record has.
fn write_records(
    lists: [(char, bool, &RrList); 2],
    reasons: &Reasons,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let [first, second] = lists.map(|(sign, is_removed, list)| {
        let reasons = reasons.of(is_removed);
        move |out: &mut dyn io::Write| write_list(sign, list, reasons, out)
    });
    let aside = || {
        let mut text = Vec::new();
        second(&mut text).map(|()| text)
    };
    let (text, written) = at_once(aside, || first(out));
    written?;
    out.write_all(&text?)?;
    write_causes(&reasons.of_versions, out)?;
    if !reasons.is_all || reasons.found.iter().any(Option::is_none) {
        writeln!(out, "; and maybe more: `log` names all")?;
    }
    Ok(())
}

/// Writes a list, each record with its causes, which stand once under those that share them.
fn write_list(
    sign: char,
    list: &RrList,
    reasons: &[Option<Reason>],
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let mut records = list.iter().zip(reasons).peekable();
    while let Some((rr, reason)) = records.next() {
        writeln!(out, "{sign}{}", RecordText(rr))?;
        let causes_here = causes(reason);
        if records
            .peek()
            .is_none_or(|(_, next)| causes(next) != causes_here)
        {
            write_causes(causes_here, out)?;
        }
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
struct Reasons {
    /// Those of the records that go, then of those that come, as far as they are known.
    found: Vec<Option<Reason>>,
    /// How many go.
    removed: usize,
    /// What was looked at for them, the newest first.
    steps: Vec<Arc<Step>>,
    /// Causes that no record has.
    of_versions: Vec<Cause>,
    /// Whether all versions between were looked at for them.
    is_all: bool,
}

impl Reasons {
    /// Those of the records that go, or come, in the order of their list.
    fn of(&self, is_removed: bool) -> &[Option<Reason>] {
        let (removed, added) = self.found.split_at(self.removed);
        if is_removed { removed } else { added }
    }

    /// The same, for machines.
    fn json(&self, is_removed: bool) -> Vec<Value> {
        let json = |reason: &Option<Reason>| reason.as_ref().map_or(Value::Null, Reason::json);
        self.of(is_removed).iter().map(json).collect()
    }
}

/// Looks the causes of a difference up, of many records by going back from its newest version: through at least so many
/// versions, for what is of a version and of no record.
fn reasons(
    past: &dyn Past,
    zone: &Name,
    net: &Net,
    (older, newest): (u64, u64),
    at_least: u64,
) -> Result<Reasons, AuditError> {
    let all = || {
        let removed = net.removed.iter().map(|rr| (true, rr.untagged()));
        removed.chain(net.added.iter().map(|rr| (false, rr.untagged())))
    };
    let removed = net.removed.len();
    let count = removed + net.added.len();
    let mut found: Vec<Option<Reason>> = Vec::new();
    if count <= FEW {
        let all = older + 1..=newest;
        let list = |list: &RrList| list.iter().map(|rr| rr.to_record()).collect::<Vec<_>>();
        let removed = list(&net.removed);
        found = one_by_one(past, zone, all.clone(), &removed, |step| &step.removed)?;
        let added = list(&net.added);
        found.extend(one_by_one(past, zone, all, &added, |step| &step.added)?);
    }
    found.resize_with(count, || None);
    let seen = match found.iter().any(Option::is_none) {
        true => VERSIONS_SHOWN,
        false => at_least,
    };
    let first = newest.saturating_sub(seen - 1).max(older + 1);
    let steps: Vec<Arc<Step>> = (first..=newest)
        .rev()
        .map(|seq| step_of(past, zone, seq))
        .collect::<Result<_, _>>()?;
    let (last, of_versions) = last_changes(&steps);
    for (found, record) in found.iter_mut().zip(all()) {
        if found.is_none() {
            *found = last.get(&record).map(|(step, tag)| Reason {
                step: Arc::clone(step),
                tag: *tag,
            });
        }
    }
    Ok(Reasons {
        found,
        removed,
        of_versions,
        steps,
        is_all: first == older + 1,
    })
}

/// Records that went (`true`) or came: each with the step that did it last, and its group of causes.
type Changes<'a> = HashMap<(bool, RrRef<'a>), (&'a Arc<Step>, u32), RandomState>;

/// The last change of each record that some steps name, the newest first; and the causes that no record has.
fn last_changes(steps: &[Arc<Step>]) -> (Changes<'_>, Vec<Cause>) {
    let mut last = Changes::default();
    let mut of_versions: Vec<Cause> = Vec::new();
    for step in steps {
        let mut tags = BTreeSet::new();
        for (is_removed, list) in [(true, &step.removed), (false, &step.added)] {
            for rr in list {
                tags.insert(rr.tag);
                let change = last.entry((is_removed, rr.untagged()));
                change.or_insert((step, rr.tag));
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
    (last, of_versions)
}

/// Some causes, each on a line.
fn write_causes(causes: &[Cause], out: &mut dyn io::Write) -> io::Result<()> {
    for cause in causes {
        writeln!(out, "; {}", cause_text(cause))?;
    }
    Ok(())
}

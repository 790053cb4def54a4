//! `diff`: the changes between two versions, and their causes.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::Arc;

use dns::{Name, RecordLines, RecordText, RrList, RrRef};
use foldhash::fast::RandomState;
use ops::{in_parallel, yield_to_others};
use provenance::Cause;
use serde_json::{Value, json};
use zone::journal::Archived;
use zone::{Net, Step};

use crate::blame::{Reason, one_by_one};
use crate::error::{AuditError, Output, SCHEMA};
use crate::log::{cause_text, soa_text, version_json};
use crate::moment::TimeText;
use crate::old_part::condensed_at;
use crate::past::{Past, steps_of};
use crate::pieces::Pieces;
use crate::show::Asked;

/// The most versions that are searched for the causes of many records, newest first: there may be a million versions
/// in between.
const VERSIONS_SHOWN: u64 = 1000;
/// The number of versions searched when all records have their causes, for causes of whole versions.
const VERSIONS_SEEN: u64 = 50;
/// Bytes of text that are collected before they are written.
const WRITTEN_AT_ONCE: usize = 32 << 10;
/// The text before the causes of no single record.
pub(super) const OF_VERSIONS: &str = "; of the versions as a whole:\n";
/// The text for records whose cause was not found in the searched versions.
const NOT_FOUND: &str = "; by a version older than those searched: `log --name` finds its cause\n";
/// Up to this many records are looked up in the index one by one, however far apart the versions are.
const FEW: usize = 64;

/// Writes the net difference of two versions, the later one second, in whichever order they are given.
pub(super) fn write(
    past: &dyn Past,
    [from, to]: &[Asked; 2],
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let (zone, doubts) = (&from.zone, [from, to]);
    let (from, to) = (from.seq, to.seq);
    let (older, newer) = (from.min(to), from.max(to));
    let net = past.difference(zone, older, newer)?;
    let Some(net) = net else {
        return same_version(past, doubts, output, out);
    };
    let (back, (minus, plus)) = if from <= to {
        (false, (&net.removed, &net.added))
    } else {
        (true, (&net.added, &net.removed))
    };
    let is_json = output == Output::Json;
    let few = Few::of(past, zone, &net, (older, newer))?;
    let looked_at = match (few.is_all, is_json) {
        (true, false) => VERSIONS_SEEN,
        _ => VERSIONS_SHOWN,
    };
    let first = newer.saturating_sub(looked_at - 1).max(older + 1);
    let steps = steps_of(past, zone, first..=newer)?;
    let (last, of_versions) = last_changes(&steps);
    let mut reasons = Reasons {
        few,
        last,
        of_versions: Vec::new(),
        archived: past.archived(zone),
        is_all: first == older + 1,
    };
    let lists = [('-', !back, minus), ('+', back, plus)];
    reasons.of_versions = reasons.not_shown(of_versions, lists);
    if is_json {
        let (first, last) = (&net.from, &net.to);
        let (from, to) = if back { (last, first) } else { (first, last) };
        let versions = steps.iter().map(|step| {
            let condensed = condensed_at(&reasons.archived, step.seq);
            version_json(zone, step, condensed)
        });
        let mut answer = json_of(lists, &reasons);
        answer["schema"] = SCHEMA.into();
        answer["zone"] = zone.to_string().into();
        answer["from"] = from.0.encode().into();
        answer["to"] = to.0.encode().into();
        answer["fromSoa"] = soa_text(zone, &from.1, from.0).into();
        answer["toSoa"] = soa_text(zone, &to.1, to.0).into();
        answer["versionCount"] = (newer - older).into();
        answer["versions"] = versions.collect();
        add_doubts(doubts, &mut answer);
        return Ok(writeln!(out, "{answer}")?);
    }
    let ends = if back { (newer, older) } else { (older, newer) };
    write_head(past, zone, ends, out)?;
    write_between(zone, newer - older, out)?;
    write_doubts(doubts, ';', out)?;
    write_records(lists, &reasons, out)?;
    write_ends(&net, &reasons, out)
}

/// The removed and added records with their causes, as JSON.
fn json_of([minus, plus]: [(char, bool, &RrList); 2], reasons: &Reasons<'_>) -> Value {
    let lines = |list: &RrList| -> Vec<String> {
        list.iter().map(|rr| RecordText(rr).to_string()).collect()
    };
    json!({
        "removed": lines(minus.2),
        "added": lines(plus.2),
        "removedWhy": reasons.json(minus.1, minus.2),
        "addedWhy": reasons.json(plus.1, plus.2),
    })
}

/// Writes which versions are compared, and their SOAs.
fn write_head(
    past: &dyn Past,
    zone: &Name,
    (first, last): (u64, u64),
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let (first, last) = (past.step(zone, first)?, past.step(zone, last)?);
    writeln!(
        out,
        "--- {zone} {} {}",
        first.serial,
        TimeText(first.time_ms)
    )?;
    writeln!(out, "+++ {zone} {} {}", last.serial, TimeText(last.time_ms))?;
    let soa = |step: &Step| soa_text(zone, &step.soa, step.serial);
    writeln!(out, "-{}\n+{}", soa(&first), soa(&last))?;
    Ok(())
}

/// Writes the removed and added records with their causes.
fn write_records(
    lists: [(char, bool, &RrList); 2],
    reasons: &Reasons<'_>,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let [first, second] = lists.map(|(sign, is_removed, list)| {
        move |out: &mut dyn io::Write| {
            let causes = |at, rr: RrRef<'_>| {
                let (step, tag) = reasons.of(is_removed, at, rr)?;
                Some(step.causes_of(tag))
            };
            write_list(sign, list, causes, out)
        }
    });
    let aside = || {
        let mut text = Pieces::default();
        second(&mut text).map(|()| text)
    };
    let (aside, written) = in_parallel(aside, || first(out));
    written?;
    Ok(aside?.write_to(out)?)
}

/// Writes that the records are the same, and the causes of whole versions.
fn write_ends(net: &Net, reasons: &Reasons<'_>, out: &mut dyn io::Write) -> Result<(), AuditError> {
    let mut text = String::new();
    if net.removed.is_empty() && net.added.is_empty() {
        // The serials always differ.
        let besides = match net.from.1 == net.to.1 {
            true => "",
            false => " besides the SOA",
        };
        text.push_str(&format!("; both have the same records{besides}\n"));
    }
    if !reasons.of_versions.is_empty() {
        text.push_str(OF_VERSIONS);
    }
    write_causes(&reasons.of_versions, &mut text);
    if !reasons.is_all {
        text.push_str("; there may be more: `log` lists all\n");
    }
    Ok(out.write_all(text.as_bytes())?)
}

/// Writes that more than one version leads from one end to the other: a change and its undoing are not in the difference.
fn write_between(zone: &Name, versions: u64, out: &mut dyn io::Write) -> Result<(), AuditError> {
    if versions > 1 {
        writeln!(
            out,
            "; {versions} versions lead from one to the other: what was changed and changed back is not here, `log {zone}` lists it"
        )?;
    }
    Ok(())
}

/// Writes a list of records with their causes. Consecutive records with the same causes share one text. Unknown
/// causes are reported, so that no record seems to have those of another.
pub(super) fn write_list<'a>(
    sign: char,
    list: &RrList,
    causes_of: impl Fn(usize, RrRef<'_>) -> Option<&'a [Cause]>,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let (mut lines, mut text) = (RecordLines::default(), String::new());
    let mut last: Option<Option<&[Cause]>> = None;
    for (place, rr) in list.iter().enumerate() {
        let causes = causes_of(place, rr);
        if last.is_some_and(|last| last != causes) {
            write_reason(last.flatten(), &mut text);
        }
        last = Some(causes);
        if text.len() > WRITTEN_AT_ONCE {
            yield_to_others();
            out.write_all(text.as_bytes())?;
            text.clear();
        }
        text.push(sign);
        lines.push(rr, &mut text);
        text.push('\n');
    }
    if let Some(last) = last {
        write_reason(last, &mut text);
    }
    out.write_all(text.as_bytes())
}

/// Writes the causes of records, each on a line, or that they are not known.
fn write_reason(causes: Option<&[Cause]>, text: &mut String) {
    match causes {
        None => text.push_str(NOT_FOUND),
        Some([]) => text.push_str("; no cause is stored\n"),
        Some(causes) => write_causes(causes, text),
    }
}

/// Writes that both versions are the same.
fn same_version(
    past: &dyn Past,
    ends: [&Asked; 2],
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let Asked { zone, seq, .. } = ends[0];
    let step = past.step(zone, *seq)?;
    let serial = step.serial;
    match output {
        Output::Text => {
            writeln!(out, "; both are {zone} serial {serial}")?;
            write_doubts(ends, ';', out)?;
        }
        Output::Json => {
            let soa = soa_text(zone, &step.soa, serial);
            let serial = serial.encode();
            let none: [&str; 0] = [];
            let mut answer = json!({
                "schema": SCHEMA, "zone": zone.to_string(), "from": serial, "to": serial, "fromSoa": soa, "toSoa": soa,
                "removed": none, "added": none, "removedWhy": none, "addedWhy": none, "versionCount": 0, "versions": none,
            });
            add_doubts(ends, &mut answer);
            writeln!(out, "{answer}")?;
        }
    }
    Ok(())
}

/// Writes what makes the ends doubtful, each once.
pub(super) fn write_doubts(
    [from, to]: [&Asked; 2],
    sign: char,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    from.write_doubt(sign, out)?;
    match from.doubts == to.doubts {
        true => Ok(()),
        false => to.write_doubt(sign, out),
    }
}

/// Adds what makes the ends doubtful.
pub(super) fn add_doubts([from, to]: [&Asked; 2], answer: &mut Value) {
    from.doubts.add_to(answer, "from");
    to.doubts.add_to(answer, "to");
}

/// The step that added or removed a record, and the group of its causes.
type Brought<'a> = (&'a Arc<Step>, u32);

/// The causes of a difference: for each record the last version that added or removed it.
struct Reasons<'a> {
    few: Few,
    /// The changes of the newest versions.
    last: Changes<'a>,
    /// Causes of whole versions.
    of_versions: Vec<Cause>,
    /// The old part of the history.
    archived: Vec<Archived>,
    /// Whether all versions in between were searched.
    is_all: bool,
}

impl Reasons<'_> {
    /// The reason of a removed or added record at this position of its list; `None` when it is not known.
    fn of(&self, is_removed: bool, place: usize, rr: RrRef<'_>) -> Option<Brought<'_>> {
        let few = if is_removed {
            &self.few.removed
        } else {
            &self.few.added
        };
        let found = few.get(place).and_then(Option::as_ref);
        let found = found.map(Reason::brought);
        found.or_else(|| self.last.get(&(is_removed, rr.untagged())).copied())
    }

    /// The causes that stand under none of the records.
    fn not_shown(&self, mut causes: Vec<Cause>, lists: [(char, bool, &RrList); 2]) -> Vec<Cause> {
        let records = { lists.iter() }.flat_map(|(_, is_removed, list)| {
            let records = list.iter().enumerate();
            records.map(|(at, rr)| (*is_removed, at, rr))
        });
        let mut last = None;
        for (is_removed, at, rr) in records {
            if causes.is_empty() {
                break;
            }
            let brought = self.of(is_removed, at, rr);
            // Neighbours mostly have the same causes.
            let place = brought.map(|(step, tag)| (step.seq, tag));
            if place == last {
                continue;
            }
            last = place;
            let shown = brought.map_or(&[][..], |(step, tag)| step.causes_of(tag));
            causes.retain(|cause| !shown.contains(cause));
        }
        causes
    }

    fn json(&self, is_removed: bool, list: &RrList) -> Vec<Value> {
        let json = |(place, rr)| {
            let (step, tag) = self.of(is_removed, place, rr)?;
            Some(Reason::new(step, tag, &self.archived).json())
        };
        let records = list.iter().enumerate();
        records.map(|it| json(it).unwrap_or(Value::Null)).collect()
    }
}

/// The reasons of few records, found through the index.
struct Few {
    /// For the removed records, in the order of their list; empty if there are many.
    removed: Vec<Option<Reason>>,
    /// For the added records.
    added: Vec<Option<Reason>>,
    is_all: bool,
}

impl Few {
    fn of(
        past: &dyn Past,
        zone: &Name,
        net: &Net,
        (older, newest): (u64, u64),
    ) -> Result<Self, AuditError> {
        let mut few = Self {
            removed: Vec::new(),
            added: Vec::new(),
            is_all: false,
        };
        if net.removed.len() + net.added.len() <= FEW {
            let all = older + 1..=newest;
            let list = |list: &RrList| list.iter().map(|rr| rr.to_record()).collect::<Vec<_>>();
            let (removed, added) = (list(&net.removed), list(&net.added));
            few.removed = one_by_one(past, zone, all.clone(), &removed, |step| &step.removed)?;
            few.added = one_by_one(past, zone, all, &added, |step| &step.added)?;
            few.is_all = few.removed.iter().chain(&few.added).all(Option::is_some);
        }
        Ok(few)
    }
}

/// Removed (`true`) or added records, each with the last step that changed it and its group of causes.
type Changes<'a> = HashMap<(bool, RrRef<'a>), Brought<'a>, RandomState>;

/// The last change of each record in some steps, given oldest first; and the causes of whole versions, newest first. What people
/// did is among them even if records name it: a later change of the same records hides it.
fn last_changes(steps: &[Arc<Step>]) -> (Changes<'_>, Vec<Cause>) {
    let mut last = Changes::default();
    let mut of_versions: Vec<Cause> = Vec::new();
    for step in steps.iter().rev() {
        let mut tags = BTreeSet::new();
        for (is_removed, list) in [(true, &step.removed), (false, &step.added)] {
            for rr in list {
                tags.insert(rr.tag);
                let change = last.entry((is_removed, rr.untagged()));
                change.or_insert((step, rr.tag));
            }
        }
        let people = step.causes.iter().flatten();
        let people = people.filter(|cause| cause.is_of_version());
        for cause in of_no_record(&tags, &step.causes).chain(people) {
            if !of_versions.contains(cause) {
                of_versions.push(cause.clone());
            }
        }
    }
    (last, of_versions)
}

/// The causes in groups that no record names by these tags.
pub(super) fn of_no_record<'a>(
    tags: &BTreeSet<u32>,
    groups: &'a [Vec<Cause>],
) -> impl Iterator<Item = &'a Cause> {
    let groups = (0..).zip(groups);
    let others = groups.filter(|(tag, _)| !tags.contains(tag));
    others.flat_map(|(_, group)| group)
}

pub(super) fn write_causes(causes: &[Cause], text: &mut String) {
    for cause in causes {
        text.push_str("; ");
        text.push_str(&cause_text(cause));
        text.push('\n');
    }
}

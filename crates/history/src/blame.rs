//! `blame`: for each record, the version that added it, and its causes.

use std::collections::HashMap;
use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;

use dns::{Name, Record, RecordText, RrList, RrRef, Rtype};
use provenance::Cause;
use serde_json::{Value, json};
use zone::Step;
use zone::journal::{Archived, StepCache, Topic};

use crate::doubts::{Absence, Doubts, LOST};
use crate::error::{AuditError, Output};
use crate::log::{cause_json, cause_text};
use crate::moment::TimeText;
use crate::old_part::{begin_text, condensed_at, condensed_json, within_text};
use crate::past::{Past, contents_at, recorded};
use crate::remark::Remark;
use crate::show::{Asked, Shown, each_record, has_records, write_absence};

/// Writes the reasons of a version's records, or of those at one name. The SOA is left out, because every version
/// changes it.
pub(super) fn write(
    past: &dyn Past,
    asked: &Asked,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let (zone, seq, name) = (&asked.zone, asked.seq, asked.name.as_ref());
    let shown = Shown::version(past, asked, output)?;
    let contents = contents_at(past, zone, seq, name)?;
    let mut records = Vec::new();
    each_record(&contents, shown.serial, |rr| {
        let wanted = name.is_none_or(|name| rr.owner.eq_ignore_ascii_case(name.as_wire()));
        if wanted && rr.rtype != Rtype::SOA {
            records.push(rr.to_record());
        }
        Ok::<_, AuditError>(())
    })?;
    if let Some(name) = name.filter(|name| !has_records(&contents, name)) {
        return write_absence(past, asked, name, output, out);
    }
    let reasons = match name {
        Some(_) => one_by_one(past, zone, 0..=seq, &records, |step| &step.added)?,
        None => all_at_once(past, zone, seq, &records)?,
    };
    if output == Output::Text {
        let (serial, time) = (shown.serial, TimeText(shown.time_ms));
        writeln!(out, "; {zone} serial {serial} of {time}")?;
        asked.write_doubt(';', out)?;
    }
    let told = (&asked.doubts, reasons.iter().map(Option::as_ref));
    let remarks = younger(past, zone, seq, told)?;
    let begins = recorded_since(past, zone)?;
    for (record, reason) in records.iter().zip(reasons) {
        let text = RecordText(record.view()).to_string();
        match output {
            Output::Text => write_text(&text, reason.as_ref(), &begins, out)?,
            Output::Json => {
                let mut json = shown.json(&text);
                json["since"] = reason.map_or(Value::Null, |reason| reason.json());
                writeln!(out, "{json}")?;
            }
        }
    }
    for remark in remarks {
        remark.write(zone, output, out)?;
    }
    Ok(())
}

/// Says where records of a version may be younger than their reasons: a removal and the addition after it do not show within
/// condensed versions, nor within versions that may be lost. And when the zone was not served since, unless the doubts about the
/// version say so.
fn younger<'a>(
    past: &dyn Past,
    zone: &Name,
    seq: u64,
    (doubts, reasons): (&Doubts, impl Iterator<Item = Option<&'a Reason>>),
) -> Result<Vec<Remark>, AuditError> {
    let earliest = reasons.map(|reason| reason.map_or(0, |reason| reason.step.seq));
    let Some(earliest) = earliest.min() else {
        return Ok(Vec::new());
    };
    let is_later = |at: u64| earliest < at && at <= seq;
    let archived = past.archived(zone);
    let later = recorded(&archived).filter(|entry| is_later(entry.seq));
    let mut remarks = Vec::from_iter(Remark::condensed(zone, later));
    let acts = past.acts(zone, 0)?.all;
    // What the first version after a loss added may have been there before.
    let is_since = |at: u64| earliest <= at && at <= seq;
    let lost = { acts.iter() }.filter(|act| act.what == LOST && act.seq.is_some_and(is_since));
    remarks.extend(lost.map(|act| Remark::lost(zone, act)));
    // What was served before the zone went is named by its last version.
    let absences = Absence::all(&acts)
        .filter(|absence| absence.seq.is_some_and(is_since) && !doubts.name(absence));
    remarks.extend(absences.map(|absence| Remark::not_served(zone, &absence)));
    Ok(remarks)
}

/// The step that added a record, or removed it.
pub(super) struct Reason {
    step: Arc<Step>,
    tag: u32,
    /// The versions among which it was, if the step stands for several.
    condensed: Option<Archived>,
}

impl Reason {
    /// The reason of a record with this tag in a step; `archived` are the entries of the old part of the history.
    pub(super) fn new(step: &Arc<Step>, tag: u32, archived: &[Archived]) -> Self {
        Self {
            step: Arc::clone(step),
            tag,
            condensed: condensed_at(archived, step.seq).cloned(),
        }
    }

    /// The step and the group of its causes.
    pub(super) const fn brought(&self) -> (&Arc<Step>, u32) {
        (&self.step, self.tag)
    }

    pub(super) fn causes(&self) -> &[Cause] {
        self.step.causes_of(self.tag)
    }

    pub(super) fn json(&self) -> Value {
        let causes: Vec<Value> = self.causes().iter().map(cause_json).collect();
        let mut json = json!({
            "serial": self.step.serial.encode(),
            "time": TimeText(self.step.time_ms).to_string(),
            "timeMs": self.step.time_ms,
            "hash": self.step.link.map(|link| link.hash.to_string()),
            "causes": causes,
        });
        if let Some(entry) = &self.condensed {
            json["condensed"] = condensed_json(entry);
        }
        json
    }
}

/// The reasons of some records in a version, and what they do not say.
pub(super) fn since(
    past: &dyn Past,
    zone: &Name,
    seq: u64,
    records: &[Record],
) -> Result<(Vec<Since>, Vec<Remark>), AuditError> {
    let begins = recorded_since(past, zone)?;
    let reasons = one_by_one(past, zone, 0..=seq, records, |step| &step.added)?;
    let told = (&Doubts::default(), reasons.iter().map(Option::as_ref));
    let remarks = younger(past, zone, seq, told)?;
    let since = |reason| Since {
        reason,
        begins: begins.clone(),
    };
    Ok((reasons.into_iter().map(since).collect(), remarks))
}

/// The reason of a record, or the start of the history if the reason is older.
pub(super) struct Since {
    /// `None` when the step is no longer kept.
    reason: Option<Reason>,
    begins: String,
}

impl Since {
    pub(super) fn json(&self) -> Value {
        self.reason.as_ref().map_or(Value::Null, Reason::json)
    }

    pub(super) fn write_text(&self, out: &mut dyn io::Write) -> Result<(), AuditError> {
        write_reason(self.reason.as_ref(), &self.begins, out)
    }
}

/// Looks up each record in the index and finds the last of these steps that has it among `records_of`. For few
/// records.
pub(super) fn one_by_one(
    past: &dyn Past,
    zone: &Name,
    seqs: RangeInclusive<u64>,
    records: &[Record],
    records_of: impl Fn(&Step) -> &RrList,
) -> Result<Vec<Option<Reason>>, AuditError> {
    let mut cache = StepCache::default();
    let mut reasons = Vec::with_capacity(records.len());
    for record in records {
        let (mut reason, topic) = (None, Topic::record(record.view()));
        past.find(zone, topic, seqs.clone(), &mut |seq| {
            let owner = &record.owner;
            let step = cache.get(owner, seq, || past.step_of(zone, seq, owner))?;
            let tag = records_of(&step).tag_of(record.view());
            reason = tag.map(|tag| Reason::new(&step, tag, &[]));
            Ok(reason.is_none())
        })?;
        reasons.push(reason);
    }
    let archived = past.archived(zone);
    for entry in recorded(&archived) {
        if reasons.iter().all(Option::is_some) {
            break;
        }
        if !seqs.contains(&entry.seq) {
            continue;
        }
        let step = past.step(zone, entry.seq)?;
        for (record, reason) in records.iter().zip(&mut reasons) {
            if let (None, Some(tag)) = (&reason, records_of(&step).tag_of(record.view())) {
                *reason = Some(Reason::new(&step, tag, &archived));
            }
        }
    }
    Ok(reasons)
}

/// Where the part of the history begins in which all changes are known.
fn recorded_since(past: &dyn Past, zone: &Name) -> Result<String, AuditError> {
    match recorded(&past.archived(zone)).last() {
        Some(entry) => Ok(begin_text(entry)),
        None => {
            let oldest = past.range(zone).map_or(1, |(oldest, _)| oldest);
            let (serial, time_ms) = past.moment(zone, oldest)?;
            Ok(format!("serial {serial}, {}", TimeText(time_ms)))
        }
    }
}

/// Goes back through the history until every record is explained. For whole zones.
fn all_at_once(
    past: &dyn Past,
    zone: &Name,
    seq: u64,
    records: &[Record],
) -> Result<Vec<Option<Reason>>, AuditError> {
    let mut open = records.len();
    let places: HashMap<RrRef<'_>, usize> = records.iter().map(Record::view).zip(0..).collect();
    let mut reasons: Vec<Option<Reason>> = Vec::new();
    reasons.resize_with(records.len(), || None);
    let oldest = past.range(zone).map_or(1, |(oldest, _)| oldest);
    let archived = past.archived(zone);
    let older = recorded(&archived).map(|entry| entry.seq);
    let older = older.filter(|older| *older <= seq);
    for seq in (oldest..=seq).rev().chain(older) {
        if open == 0 {
            break;
        }
        let step = past.step(zone, seq)?;
        for rr in &step.added {
            let place = places.get(&rr.untagged()).map(|place| &mut reasons[*place]);
            if let Some(place @ None) = place {
                *place = Some(Reason::new(&step, rr.tag, &archived));
                open -= 1;
            }
        }
    }
    Ok(reasons)
}

fn write_text(
    record: &str,
    reason: Option<&Reason>,
    begins: &str,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    writeln!(out, "{record}")?;
    write_reason(reason, begins, out)
}

/// Writes a reason as text.
fn write_reason(
    reason: Option<&Reason>,
    begins: &str,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let Some(reason) = reason else {
        return Ok(writeln!(
            out,
            "    from before the kept history, which begins at {begins}"
        )?);
    };
    let step = &reason.step;
    match &reason.condensed {
        Some(entry) => writeln!(out, "    {}", within_text(entry))?,
        None => writeln!(out, "    since {} {}", step.serial, TimeText(step.time_ms))?,
    }
    for cause in reason.causes() {
        writeln!(out, "    {}", cause_text(cause))?;
    }
    Ok(())
}

//! `log`: versions, newest first, with their changes and causes.

use std::collections::BTreeSet;
use std::io;

use dns::{Name, RecordText, RrList, RrRef};
use provenance::{Cause, Kind, ObjectKey, Verb};
use serde_json::{Value, json};
use zone::Step;
use zone::journal::Topic;

use crate::error::{AuditError, Output};
use crate::moment::TimeText;
use crate::past::{Past, begins, last_version};
use crate::printable::printable;

/// The most causes in a line of text.
const CAUSES_SHOWN: usize = 5;
/// The most records in a version's JSON. For a larger version, the number of omitted records is given.
const RECORDS_SHOWN: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Filter {
    /// In milliseconds since 1970 UTC.
    pub(super) since_ms: Option<u64>,
    pub(super) until_ms: Option<u64>,
    /// Only versions that changed a record at this name.
    pub(super) name: Option<Name>,
    pub(super) object: Option<ObjectFilter>,
}

/// An object as users name it.
#[derive(Debug)]
pub(super) struct ObjectFilter {
    kind: String,
    /// Empty for a Namespace.
    namespace: String,
    name: String,
}

impl ObjectFilter {
    /// Parses `KIND/NAMESPACE/NAME`, or `KIND/NAME` for objects without a namespace.
    pub(super) fn parse(text: &str) -> Result<Self, AuditError> {
        let parts: Vec<&str> = text.split('/').collect();
        let (kind, namespace, name) = match parts[..] {
            [kind, namespace, name] => (kind, namespace, name),
            [kind, name] => (kind, "", name),
            _ => return Err(AuditError::Object(text.to_owned())),
        };
        if kind.is_empty() || name.is_empty() {
            return Err(AuditError::Object(text.to_owned()));
        }
        Ok(Self {
            kind: kind.into(),
            namespace: namespace.into(),
            name: name.into(),
        })
    }

    fn fits(&self, cause: &Cause) -> bool {
        cause
            .kind
            .is_some_and(|kind| kind.as_str().eq_ignore_ascii_case(&self.kind))
            && *cause.key.namespace == *self.namespace
            && *cause.key.name == *self.name
    }
}

impl Filter {
    /// The topic that finds these versions in the index.
    pub(super) fn topic(&self) -> Option<Topic> {
        let by_object = || {
            let ObjectFilter {
                kind,
                namespace,
                name,
            } = self.object.as_ref()?;
            let same = |known: &Kind| known.as_str().eq_ignore_ascii_case(kind);
            let kind = Kind::ALL.into_iter().find(same)?;
            Some(Topic::object(Some(kind), &ObjectKey::new(namespace, name)))
        };
        self.name.as_ref().map(Topic::name).or_else(by_object)
    }

    /// Whether a step is selected, ignoring its time.
    pub(super) fn fits(&self, step: &Step) -> bool {
        let by_name = self.name.as_ref().is_none_or(|name| {
            let at = |list: &RrList| {
                list.iter()
                    .any(|rr| rr.owner.eq_ignore_ascii_case(name.as_wire()))
            };
            at(&step.added) || at(&step.removed)
        });
        let by_object = self
            .object
            .as_ref()
            .is_none_or(|object| step.causes.iter().flatten().any(|cause| object.fits(cause)));
        by_name && by_object
    }
}

/// Writes the selected versions, zone by zone.
pub(super) fn write(
    past: &dyn Past,
    zones: &[Name],
    filter: &Filter,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let mut is_any = false;
    for zone in zones {
        let Some((oldest, newest)) = past.range(zone) else {
            continue;
        };
        let mut one = |seq: u64| -> Result<bool, AuditError> {
            let (_, time_ms) = past.moment(zone, seq)?;
            if filter.since_ms.is_some_and(|since| time_ms < since) {
                return Ok(false);
            }
            if filter.until_ms.is_some_and(|until| time_ms > until) {
                return Ok(true);
            }
            is_any |= write_version(past, zone, seq, filter, output, out)?;
            Ok(true)
        };
        let high = match filter.until_ms {
            Some(until) => last_version(past, zone, (oldest, newest), &|(_, time_ms)| {
                time_ms <= until
            })?,
            None => newest,
        };
        match filter.topic() {
            Some(topic) => past.find(zone, topic, oldest..=high, &mut one)?,
            None => {
                for seq in (oldest..=high).rev() {
                    if !one(seq)? {
                        break;
                    }
                }
            }
        }
        if output == Output::Text && oldest > 1 {
            write_beginning(past, zone, oldest, filter, out)?;
        }
    }
    if output == Output::Text && !is_any {
        writeln!(out, "; no version matches")?;
    }
    Ok(())
}

/// Writes where the history begins, if older versions could have been selected.
fn write_beginning(
    past: &dyn Past,
    zone: &Name,
    oldest: u64,
    filter: &Filter,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let (_, time_ms) = past.moment(zone, oldest)?;
    if filter.since_ms.is_none_or(|since| since <= time_ms) {
        let begins = begins(past, zone)?;
        writeln!(out, "; the history of {zone} begins at {begins}")?;
    }
    Ok(())
}

/// Writes a version if it is selected, ignoring its time. Returns whether it was.
pub(super) fn write_version(
    past: &dyn Past,
    zone: &Name,
    seq: u64,
    filter: &Filter,
    output: Output,
    out: &mut dyn io::Write,
) -> Result<bool, AuditError> {
    let name = filter.name.as_ref();
    if let (Some(name), None, Output::Text) = (name, &filter.object, output) {
        let part = past.step_of(zone, seq, name)?;
        let is_wanted = filter.fits(&part.step);
        if is_wanted {
            write_text(
                zone,
                (&part.step, part.added, part.removed),
                Some(name),
                out,
            )?;
        }
        return Ok(is_wanted);
    }
    let step = past.step(zone, seq)?;
    let is_wanted = filter.fits(&step);
    if is_wanted {
        match output {
            Output::Text => {
                let counts = (&*step, step.added.len(), step.removed.len());
                write_text(zone, counts, name, out)?;
            }
            Output::Json => writeln!(out, "{}", version_json(zone, &step))?,
        }
    }
    Ok(is_wanted)
}

/// Writes one version as text, with the number of removed and added records.
fn write_text(
    zone: &Name,
    (step, added, removed): (&Step, usize, usize),
    name: Option<&Name>,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    writeln!(
        out,
        "{zone} {} {} +{} -{} ({} records)",
        step.serial,
        TimeText(step.time_ms),
        added,
        removed,
        step.records
    )?;
    let is_shown =
        |rr: &RrRef<'_>| name.is_some_and(|name| rr.owner.eq_ignore_ascii_case(name.as_wire()));
    let records = || step.removed.iter().chain(&step.added);
    let shown: BTreeSet<u32> = records().filter(is_shown).map(|rr| rr.tag).collect();
    let named: BTreeSet<u32> = records().map(|rr| rr.tag).collect();
    // Causes that no record names belong to the whole version, and so to all its records.
    let is_of_version =
        |tag: &u32, group: &[Cause]| !named.contains(tag) && group.iter().all(Cause::is_of_version);
    let groups = (0..).zip(&step.causes);
    let groups = groups
        .filter(|(tag, group)| name.is_none() || shown.contains(tag) || is_of_version(tag, group));
    let mut causes: Vec<&Cause> = Vec::new();
    for cause in groups.flat_map(|(_, group)| group) {
        if !causes.contains(&cause) && causes.len() <= CAUSES_SHOWN {
            causes.push(cause);
        }
    }
    for cause in causes.iter().take(CAUSES_SHOWN) {
        writeln!(out, "    {}", cause_text(cause))?;
    }
    if causes.len() > CAUSES_SHOWN {
        writeln!(out, "    and more: --output json lists all")?;
    }
    if name.is_some() {
        for (sign, list) in [('-', &step.removed), ('+', &step.added)] {
            for rr in list.iter().filter(is_shown) {
                writeln!(out, "    {sign} {}", RecordText(rr))?;
            }
        }
    }
    Ok(())
}

pub(super) fn cause_text(cause: &Cause) -> String {
    let Cause {
        verb,
        kind,
        key,
        origin,
    } = cause;
    let mut text = match kind {
        Some(kind) => format!("{} {kind} {key}", verb.as_str()),
        None => match verb {
            Verb::RolledBack => format!("rolled back to {key}"),
            Verb::Resumed => format!("resumed after {key}"),
            Verb::Applied
            | Verb::Deleted
            | Verb::Listed
            | Verb::Vanished
            | Verb::Configured
            | Verb::Restored => format!("{} from {key}", verb.as_str()),
        },
    };
    let mut known = Vec::new();
    if !origin.place.is_empty() {
        known.push(origin.place.to_string());
    }
    if !origin.uid.is_empty() {
        known.push(format!("uid {}", origin.uid));
    }
    if !origin.resource_version.is_empty() {
        known.push(format!("resourceVersion {}", origin.resource_version));
    }
    if !origin.manager.is_empty() {
        let done = match &*origin.operation {
            "" => String::new(),
            operation => format!(", {operation}"),
        };
        known.push(format!("by {}{done}", origin.manager));
    }
    if !known.is_empty() {
        text.push_str(&format!(" ({})", known.join(", ")));
    }
    printable(&text).into_owned()
}

pub(super) fn cause_json(cause: &Cause) -> Value {
    let Cause {
        verb,
        kind,
        key,
        origin,
    } = cause;
    json!({
        "verb": verb.as_str(),
        "kind": kind.map(Kind::as_str),
        "namespace": &*key.namespace,
        "name": &*key.name,
        "uid": &*origin.uid,
        "resourceVersion": &*origin.resource_version,
        "manager": &*origin.manager,
        "operation": &*origin.operation,
        "place": &*origin.place,
    })
}

pub(super) fn version_json(zone: &Name, step: &Step) -> Value {
    let records = |list: &RrList| -> Vec<Value> {
        let record =
            |rr: RrRef<'_>| json!({ "record": RecordText(rr).to_string(), "cause": rr.tag });
        list.iter().take(RECORDS_SHOWN).map(record).collect()
    };
    let causes: Vec<Vec<Value>> = step
        .causes
        .iter()
        .map(|group| group.iter().map(cause_json).collect())
        .collect();
    json!({
        "zone": zone.to_string(),
        "serial": step.serial.encode(),
        "previous": step.from.as_ref().map(|(serial, _)| serial.encode()),
        "time": TimeText(step.time_ms).to_string(),
        "records": step.records,
        "hash": step.link.map(|link| link.hash.to_string()),
        "contentHash": step.link.map(|link| link.content.to_string()),
        "addedCount": step.added.len(),
        "removedCount": step.removed.len(),
        "causes": causes,
        "added": records(&step.added),
        "removed": records(&step.removed),
    })
}

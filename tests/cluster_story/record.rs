//! The record of a story: what the test really did, and what each zone had before and after it, by AXFR.
//!
//! Nothing here comes from the commands that are checked. A time is known as the step in which it lies: the windows of two
//! steps have no millisecond in common.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::apiserver::PERSON_AGENT;
use regex::{Captures, Regex};
use serde_json::{Value, json};

/// The version of the form of all JSON.
const SCHEMA: u8 = 1;
/// The time of the holds that end by themselves, in milliseconds: longer than the story.
const HOUR_MS: u64 = 3_600_000;

/// The text of the clock as an operator.
pub const CLOCK: &str = "the clock";

/// An object of the cluster in one of its states, as the API server returned it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Object {
    pub kind: &'static str,
    /// Empty for a Namespace.
    pub namespace: String,
    pub name: String,
    /// The name at and below which its records are.
    pub names: String,
    pub uid: String,
    pub resource_version: String,
    /// The manager of the fields that records depend on; empty for a Namespace, which has none.
    pub manager: String,
    pub operation: &'static str,
    /// The request that gave it this state.
    pub request: Request,
}

/// A request to the API server, in the namespaces of which the audit log has the answers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    pub person: String,
    pub verb: &'static str,
    pub audit_id: String,
    pub step: usize,
}

impl Request {
    fn text(&self) -> String {
        let Self {
            person,
            verb,
            audit_id,
            step,
        } = self;
        let time = time_of(*step);
        format!(
            "requested by admin as {person} from 127.0.0.1 at {time}: {verb} (audit id {audit_id})"
        )
    }

    fn json(&self) -> Value {
        let time = time_of(self.step);
        json!({
            "verb": self.verb, "user": "admin", "actedAs": self.person, "sourceIps": ["127.0.0.1"],
            "userAgent": PERSON_AGENT, "time": time, "timeMs": time, "auditId": self.audit_id, "proven": true,
        })
    }
}

/// The cause of a change of records.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// An object in the state that counts, and the request that was made for it.
    Object {
        verb: &'static str,
        object: Box<Object>,
        request: Request,
    },
    /// Something that is no object: the Corefile, a hold, the gate. `by` is empty for the Corefile.
    Other {
        verb: &'static str,
        what: String,
        by: String,
    },
}

impl Cause {
    /// The line that text has.
    pub fn text(&self) -> String {
        match self {
            Self::Object { verb, object, .. } => {
                let by = match *verb {
                    "deleted" | "vanished" => "last changed by",
                    _ => "by",
                };
                let (key, uid, version) = (object.key(), &object.uid, &object.resource_version);
                let by = match &*object.manager {
                    "" => String::new(),
                    manager => format!(", {by} {manager}, {}", object.operation),
                };
                let kind = object.kind;
                format!("{verb} {kind} {key} (uid {uid}, resourceVersion {version}{by})")
            }
            Self::Other { verb, what, by } => {
                let word = match *verb {
                    "rolled back" => "to",
                    "resumed" => "after",
                    _ => "from",
                };
                let by = match &**by {
                    "" => String::new(),
                    by => format!(" (by {by})"),
                };
                format!("{verb} {word} {what}{by}")
            }
        }
    }

    /// The line below it that text has with an audit log; an object alone has one.
    pub fn request_text(&self) -> Option<String> {
        match self {
            Self::Object { request, .. } => Some(request.text()),
            Self::Other { .. } => None,
        }
    }

    /// Its JSON, with its request or without.
    pub fn json(&self, is_audited: bool) -> Value {
        let mut json = match self {
            Self::Object { verb, object, .. } => {
                let (manager, last_manager) = match *verb {
                    "deleted" | "vanished" => ("", &*object.manager),
                    _ => (&*object.manager, ""),
                };
                json!({
                    "verb": verb, "kind": object.kind, "namespace": object.namespace, "name": object.name,
                    "uid": object.uid, "resourceVersion": object.resource_version, "manager": manager,
                    "lastManager": last_manager, "operation": object.operation, "place": "",
                })
            }
            Self::Other { verb, what, by } => json!({
                "verb": verb, "kind": null, "namespace": "", "name": what, "uid": "", "resourceVersion": "",
                "manager": by, "lastManager": "", "operation": "", "place": "",
            }),
        };
        if is_audited {
            json["request"] = match self {
                Self::Object { request, .. } => request.json(),
                Self::Other { .. } => Value::Null,
            };
        }
        json
    }
}

impl Object {
    /// Namespace and name.
    pub fn key(&self) -> String {
        match &*self.namespace {
            "" => self.name.clone(),
            namespace => format!("{namespace}/{}", self.name),
        }
    }

    /// Whether a record is one of its own: by its owner or its target.
    pub fn concerns(&self, record: &str) -> bool {
        let is_own = |word: &str| {
            let before = word.strip_suffix(&*self.names);
            before.is_some_and(|it| it.is_empty() || it.ends_with('.'))
        };
        record.split(' ').any(is_own)
    }
}

/// A zone as it was transferred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    pub serial: u32,
    pub soa: String,
    /// The other records.
    pub records: BTreeSet<String>,
}

/// Records, each with its causes.
pub type Changes = BTreeMap<String, BTreeSet<Cause>>;

/// A version that a step brought.
#[derive(Clone, Debug)]
pub struct Version {
    pub step: usize,
    pub content: Content,
    /// The serial before.
    pub previous: Option<u32>,
    pub removed: Changes,
    pub added: Changes,
    /// The causes that no single record has.
    pub of_version: BTreeSet<Cause>,
}

impl Version {
    /// The number of its records, with its SOA.
    pub fn record_count(&self) -> usize {
        self.content.records.len() + 1
    }

    /// The causes of its records.
    pub fn causes(&self) -> BTreeSet<Cause> {
        let each = self.removed.values().chain(self.added.values()).flatten();
        each.cloned().collect()
    }
}

/// Who did something: as text, and the fields of JSON.
#[derive(Clone, Debug)]
pub struct Operator {
    pub text: String,
    pub fields: Value,
}

impl Operator {
    /// A user whose process had this command line.
    pub fn user((uid, name): (u32, &str), process: u32, command: &str) -> Self {
        Self {
            text: format!(
                "uid {uid} ({name}), process {process} (\"{command}\") over the control socket"
            ),
            fields: json!({
                "uid": uid, "user": name, "process": process, "command": command, "reason": null,
            }),
        }
    }

    /// The operator with a reason.
    pub fn with_reason(mut self, reason: &str) -> Self {
        self.text += &format!(", reason: \"{reason}\"");
        self.fields["reason"] = reason.into();
        self
    }

    /// Who does what no person does.
    pub fn clock() -> Self {
        Self {
            text: CLOCK.to_owned(),
            fields: json!({
                "uid": null, "user": null, "process": null, "command": null, "reason": null,
            }),
        }
    }
}

/// What a person or the clock did to a zone.
#[derive(Clone, Debug)]
pub struct Act {
    pub step: usize,
    /// The serial that was served then.
    pub serial: u32,
    pub what: &'static str,
    pub about: String,
    pub by: Operator,
    /// Whether it ends by itself after an hour.
    pub is_for_an_hour: bool,
}

/// A line of the log.
#[derive(Clone, Debug)]
pub enum Entry {
    Version(Version),
    Act(Act),
}

/// A time that lies in a step, in place of the real one.
pub fn time_of(step: usize) -> String {
    format!("<step {step}>")
}

/// An hour after a time that lies in a step.
pub fn hour_after(step: usize) -> String {
    format!("<an hour after step {step}>")
}

/// A step of the story: what happens, and its first and its last millisecond since 1970.
#[derive(Debug)]
pub struct Step {
    pub what: &'static str,
    pub begin_ms: u64,
    pub end_ms: u64,
}

/// The whole record.
#[derive(Debug, Default)]
pub struct Record {
    pub steps: Vec<Step>,
    /// The entries of each zone, oldest first.
    pub zones: BTreeMap<&'static str, Vec<Entry>>,
}

impl Record {
    /// The versions of a zone, oldest first.
    pub fn versions(&self, zone: &str) -> Vec<&Version> {
        let of_zone = self.zones.get(zone).into_iter().flatten();
        of_zone
            .filter_map(|entry| match entry {
                Entry::Version(version) => Some(version),
                Entry::Act(_) => None,
            })
            .collect()
    }

    /// The act that put a zone on hold last, up to a step.
    pub fn hold(&self, zone: &str, step: usize) -> &Act {
        let entries = self.zones.get(zone).into_iter().flatten().rev();
        let mut holds = entries.filter_map(|entry| match entry {
            Entry::Act(act) if matches!(act.what, "frozen" | "rolled_back") => Some(act),
            Entry::Act(_) | Entry::Version(_) => None,
        });
        holds.find(|act| act.step <= step).expect("it was held")
    }

    /// The version that was served after a step.
    pub fn served(&self, zone: &str, step: usize) -> &Version {
        let mut versions = self.versions(zone).into_iter().rev();
        versions
            .find(|it| it.step <= step)
            .expect("there was a version")
    }

    /// The version that is served.
    pub fn newest(&self, zone: &str) -> &Version {
        self.versions(zone).last().expect("there is a version")
    }

    /// All names that ever had a record.
    pub fn names(&self, zone: &str) -> BTreeSet<String> {
        let versions = self.versions(zone);
        let records = versions.iter().flat_map(|it| &it.content.records);
        records.map(|record| owner(record).to_owned()).collect()
    }

    /// The version that last added a record that was served after a step, and the causes then.
    pub fn added(&self, zone: &str, record: &str, step: usize) -> (&Version, &BTreeSet<Cause>) {
        let mut versions = self.versions(zone).into_iter().rev();
        let found =
            versions.find_map(|it| Some((it, it.added.get(record)?)).filter(|_| it.step <= step));
        found.unwrap_or_else(|| panic!("{record} never came"))
    }

    /// The step in which a time lies, and by how many hours it is later.
    pub fn step(&self, ms: u64) -> Option<(usize, u8)> {
        let step_of = |ms: u64| {
            let mut steps = self.steps.iter();
            steps.position(|it| (it.begin_ms..=it.end_ms).contains(&ms))
        };
        let of_hold = || Some((step_of(ms.checked_sub(HOUR_MS)?)?, 1));
        step_of(ms).map(|step| (step, 0)).or_else(of_hold)
    }

    /// The text of a time.
    fn label(&self, ms: u64) -> String {
        match self.step(ms) {
            Some((step, 0)) => time_of(step),
            Some((step, _)) => hour_after(step),
            None => format!("<{ms}, in no step>"),
        }
    }

    /// A text with the steps in place of its times.
    pub fn labelled(&self, text: &str) -> String {
        let time = Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z").unwrap();
        let label = |found: &Captures<'_>| {
            let time: jiff::Timestamp = found[0].parse().unwrap();
            self.label(u64::try_from(time.as_millisecond()).unwrap())
        };
        time.replace_all(text, label).into_owned()
    }

    /// JSON with the steps in place of its times, also those in milliseconds.
    pub fn labelled_json(&self, json: &Value) -> Value {
        match json {
            Value::String(text) => self.labelled(text).into(),
            Value::Array(values) => values.iter().map(|it| self.labelled_json(it)).collect(),
            Value::Object(fields) => {
                let each = fields.iter().map(|(name, value)| {
                    let is_ms = name.ends_with("Ms");
                    let value = match value.as_u64().filter(|_| is_ms) {
                        Some(ms) => self.label(ms).into(),
                        None => self.labelled_json(value),
                    };
                    (name.clone(), value)
                });
                Value::Object(each.collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => json.clone(),
        }
    }
}

/// The owner of a record.
pub fn owner(record: &str) -> &str {
    record.split(' ').next().expect("a record has an owner")
}

/// The type of a record.
pub fn rtype(record: &str) -> &str {
    record.split(' ').nth(3).expect("a record has a type")
}

/// An answer in JSON that has these fields beside those of the form.
pub fn answer(mut fields: Value) -> Value {
    fields["schema"] = SCHEMA.into();
    fields
}

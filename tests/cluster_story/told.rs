//! What the commands tell, in a form that can be compared with the record: times as steps, hashes checked and left out.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use regex::Regex;
use serde_json::Value;

use super::record::{Cause, Version, time_of};
use super::stage::Stage;

/// A line of text without indent, and the lines below it, sorted. A line that is indented deeper than the one before is a part
/// of that.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Block {
    pub head: String,
    pub lines: Vec<String>,
}

impl Block {
    /// A block of lines in any order.
    pub fn of(head: String, lines: impl IntoIterator<Item = String>) -> Self {
        let mut lines: Vec<String> = lines.into_iter().collect();
        lines.sort();
        Self { head, lines }
    }
}

/// The blocks of a text.
pub fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start_matches(' ').len();
        match (indent, blocks.last_mut()) {
            (4, Some(block)) => block.lines.push(line.trim_start().to_owned()),
            (8, Some(block)) => {
                let last = block.lines.last_mut().expect("there is a line above");
                last.push_str(line);
            }
            (0, _) => blocks.push(Block::of(line.to_owned(), [])),
            (_, _) => panic!("{line:?} in:\n{text}"),
        }
    }
    for block in &mut blocks {
        block.lines.sort();
    }
    blocks
}

/// The hashes of a version and of its content, by zone and serial.
type Hashes = BTreeMap<(String, u64), BTreeMap<String, String>>;

/// What the answers have told.
#[derive(Debug, Default)]
pub struct Findings {
    hashes: RefCell<Hashes>,
    /// The differences between what is told and what was done.
    pub faults: RefCell<Vec<String>>,
}

/// Asks the commands, with the audit log or without.
pub struct Teller<'a> {
    pub stage: &'a Stage,
    pub is_audited: bool,
    pub findings: &'a Findings,
}

impl Teller<'_> {
    /// The answer as it is.
    fn ask(&self, arguments: &[&str]) -> String {
        let log = self.stage.server.audit_log();
        let log = ["--audit-log", log.to_str().unwrap()];
        let more = if self.is_audited { &log[..] } else { &[] };
        self.stage.zonewright.command(&[arguments, more].concat())
    }

    /// Compares what is told with what the record knows. The first difference of each answer is reported at the end.
    pub fn expect_equal<T: PartialEq + Debug>(&self, what: &str, told: &[T], known: &[T]) {
        let is_audited = self.is_audited;
        let what = format!("{what} (audit log: {is_audited})");
        let different = told.iter().zip(known).find(|(told, known)| told != known);
        let (more, less) = (told.get(known.len()..), known.get(told.len()..));
        let fault = match different {
            Some((told, known)) => format!("{what}\n{}", lines_between(told, known)),
            None if told.len() == known.len() => return,
            None => format!("{what}\ntold and not done {more:#?}\ndone and not told {less:#?}"),
        };
        self.findings.faults.borrow_mut().push(fault);
    }

    /// An answer in text.
    pub fn text(&self, arguments: &[&str]) -> String {
        self.text_of(&self.ask(arguments))
    }

    /// A text with steps in place of times, and without hashes.
    pub fn text_of(&self, text: &str) -> String {
        let text = self.stage.record.labelled(text);
        let hash = Regex::new("hash [0-9a-f]{64}").unwrap();
        hash.replace_all(&text, "hash …").into_owned()
    }

    /// The lines of an answer in JSON, about a zone.
    pub fn json(&self, zone: &str, arguments: &[&str]) -> Vec<Value> {
        let text = self.ask(&[arguments, &["--output", "json"]].concat());
        self.json_of(zone, &text)
    }

    /// Lines of JSON with steps in place of times, and without hashes. All that tell a hash of a version tell the same.
    pub fn json_of(&self, zone: &str, text: &str) -> Vec<Value> {
        let lines = text.lines().map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            self.take_hashes(zone, &mut line);
            self.stage.record.labelled_json(&line)
        });
        lines.collect()
    }

    /// Takes the hashes out.
    fn take_hashes(&self, zone: &str, json: &mut Value) {
        match json {
            Value::Array(values) => values.iter_mut().for_each(|it| self.take_hashes(zone, it)),
            Value::Object(fields) => {
                let serial = fields.get("serial").and_then(Value::as_u64);
                let zone = fields.get("zone").and_then(Value::as_str).unwrap_or(zone);
                let zone = zone.to_owned();
                for name in ["hash", "contentHash"] {
                    if let Some(hash) = fields.remove(name) {
                        let hash = hash.as_str().expect("a hash is text").to_owned();
                        assert_eq!(hash.len(), 64, "{fields:?}");
                        let key = (zone.clone(), serial.expect("it is of a version"));
                        let mut hashes = self.findings.hashes.borrow_mut();
                        let known = hashes.entry(key).or_default();
                        let known = known.entry(name.to_owned()).or_insert_with(|| hash.clone());
                        assert_eq!(*known, hash, "{name}: {fields:?}");
                    }
                }
                fields
                    .values_mut()
                    .for_each(|it| self.take_hashes(&zone, it));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// The line of a cause, with its request where the audit log is asked.
    pub fn line(&self, cause: &Cause) -> String {
        let request = cause.request_text().filter(|_| self.is_audited);
        let request = request.map(|it| format!("        {it}"));
        cause.text() + &request.unwrap_or_default()
    }

    /// Causes as JSON.
    pub fn causes(&self, causes: &BTreeSet<Cause>) -> Value {
        sorted(causes.iter().map(|it| it.json(self.is_audited)))
    }

    /// The lines below a record: since when, and why.
    pub fn since(&self, version: &Version, causes: &BTreeSet<Cause>) -> Vec<String> {
        let serial = version.content.serial;
        let since = format!("since {serial} {}", time_of(version.step));
        let causes = causes.iter().map(|it| self.line(it));
        [since].into_iter().chain(causes).collect()
    }

    /// The same as JSON.
    pub fn since_json(&self, version: &Version, causes: &BTreeSet<Cause>) -> Value {
        let time = time_of(version.step);
        serde_json::json!({
            "serial": version.content.serial, "time": time, "timeMs": time,
            "causes": self.causes(causes),
        })
    }
}

/// The lines that one of two values has alone, below the first line of both.
fn lines_between<T: Debug>(told: &T, known: &T) -> String {
    let [told, known] = [told, known].map(|it| format!("{it:#?}"));
    let own = |word: &str, text: &str, other: &str| -> String {
        let other: BTreeSet<&str> = other.lines().collect();
        let own = text.lines().filter(|line| !other.contains(line));
        own.map(|line| format!("{word} {line}\n")).collect()
    };
    own("told", &told, &known) + &own("done", &known, &told)
}

/// Values in the order of their text: a list whose order says nothing.
pub fn sorted(values: impl IntoIterator<Item = Value>) -> Value {
    let mut values: Vec<Value> = values.into_iter().collect();
    values.sort_by_key(Value::to_string);
    values.into()
}

/// Sorts a list within JSON.
pub fn sort_at(json: &mut Value, pointer: &str) {
    if let Some(Value::Array(values)) = json.pointer_mut(pointer) {
        values.sort_by_key(Value::to_string);
    }
}

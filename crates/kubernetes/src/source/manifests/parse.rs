//! Parses the text of a manifest file into readings, each with its line.

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fmt;

use provenance::{FactKey, Kind};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use serde_saphyr::{Options, Spanned};

use crate::facts::Fact;
use crate::source::convert::{self, Object, Setting};
use crate::source::{About, Interner, Problem, Wanted};

/// The deepest nesting of collections in YAML.
const DEEPEST: usize = 128;

#[derive(Debug, Default)]
pub(super) struct Parsed {
    /// Its facts; of two with one key, the later.
    pub(super) facts: HashMap<FactKey, Fact>,
    /// The facts that the selector does not match.
    pub(super) hidden: HashSet<FactKey>,
    /// The parts of objects that were left out.
    pub(super) problems: Vec<Problem>,
    /// The number of objects of other kinds.
    pub(super) ignored: usize,
    /// The kinds of objects without a fact.
    pub(super) left_out: Vec<Kind>,
}

/// A file that cannot be parsed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unparsable {
    /// The line, from 1, if known.
    pub(super) line: Option<u64>,
    pub(super) message: String,
}

/// Parses a file; as JSON when its name says so, otherwise as YAML.
pub(super) fn parse(
    file: &str,
    text: &str,
    wanted: &Wanted,
    interner: &mut Interner,
) -> Result<Parsed, Unparsable> {
    let mut taker = Taker {
        file,
        wanted,
        interner,
        parsed: Parsed::default(),
    };
    if file.ends_with(".json") {
        json(text, &mut taker)?;
    } else {
        yaml(text, &mut taker)?;
    }
    Ok(taker.parsed)
}

/// The sort of an object, by `apiVersion` and `kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    /// An object of a watched kind.
    Object(Kind),
    /// A list. It may give the kind of its items.
    List(Option<Kind>),
    Other,
}

fn sort(version: Option<&str>, kind: Option<&str>) -> Sort {
    match (version, kind) {
        (Some("v1"), Some("Service")) => Sort::Object(Kind::Service),
        (Some("v1"), Some("Namespace")) => Sort::Object(Kind::Namespace),
        (Some("v1"), Some("Pod")) => Sort::Object(Kind::Pod),
        (Some("discovery.k8s.io/v1"), Some("EndpointSlice")) => Sort::Object(Kind::EndpointSlice),
        (Some("multicluster.x-k8s.io/v1beta1" | "multicluster.x-k8s.io/v1alpha1"), Some(kind)) => {
            match kind {
                "ServiceImport" => Sort::Object(Kind::ServiceImport),
                "ServiceImportList" => Sort::List(Some(Kind::ServiceImport)),
                _ => Sort::Other,
            }
        }
        (Some("v1"), Some("List")) => Sort::List(None),
        (Some("v1"), Some("ServiceList")) => Sort::List(Some(Kind::Service)),
        (Some("v1"), Some("NamespaceList")) => Sort::List(Some(Kind::Namespace)),
        (Some("v1"), Some("PodList")) => Sort::List(Some(Kind::Pod)),
        (Some("discovery.k8s.io/v1"), Some("EndpointSliceList")) => {
            Sort::List(Some(Kind::EndpointSlice))
        }
        (_, _) => Sort::Other,
    }
}

/// The kind of an item of a list.
fn item_kind(list: Option<Kind>, version: Option<&str>, kind: Option<&str>) -> Option<Kind> {
    match (kind, list) {
        (None, Some(of_list)) => Some(of_list),
        (Some(_), _) | (None, None) => match sort(version, kind) {
            Sort::Object(kind) => Some(kind),
            Sort::List(_) | Sort::Other => None,
        },
    }
}

/// Collects objects as they are found.
struct Taker<'a> {
    file: &'a str,
    wanted: &'a Wanted,
    interner: &'a mut Interner,
    parsed: Parsed,
}

impl Taker<'_> {
    /// Adds an object of a watched kind.
    fn take(&mut self, kind: Kind, object: Object<'_>, line: u64) {
        if !self.wanted.kinds.contains(kind) {
            self.ignore();
            return;
        }
        let place = format!("{}:{line}", self.file);
        let setting = Setting::manifest(
            place.as_str().into(),
            self.wanted.keep.clone(),
            self.interner,
        );
        let read = convert::read(kind, object, &setting, self.interner);
        let is_whole = read.problems.is_empty();
        self.parsed.problems.extend(read.problems);
        let (Some(key), Some(fact)) = (read.key, read.fact) else {
            if !is_whole {
                self.parsed.left_out.push(kind);
            }
            return;
        };
        let selector = self.wanted.selector(kind);
        if selector.is_none_or(|selector| convert::is_selected(selector, object)) {
            self.parsed.hidden.remove(&key);
        } else {
            self.parsed.hidden.insert(key.clone());
        }
        match self.parsed.facts.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(fact);
            }
            Entry::Occupied(mut entry) => {
                let before = entry.insert(fact).origin().place.clone();
                let message = format!("is also in {before}; the later one counts");
                let about = About::Object(entry.key().clone());
                self.parsed.problems.push(Problem {
                    about,
                    place: setting.place,
                    message,
                });
            }
        }
    }

    /// Counts an object of another kind.
    fn ignore(&mut self) {
        self.parsed.ignored += 1;
    }
}

// ---- JSON ----

/// An object or a list, in JSON.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonObject<'a> {
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    items: Option<&'a RawValue>,
}

/// Reads a JSON file: one object or several, one after the other.
fn json(text: &str, taker: &mut Taker<'_>) -> Result<(), Unparsable> {
    let wrong = |error: serde_json::Error| Unparsable {
        line: u64::try_from(error.line()).ok().filter(|line| *line > 0),
        message: error.to_string(),
    };
    let mut lines = Lines {
        text,
        at: 0,
        line: 1,
    };
    for object in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
        let object = object.map_err(wrong)?;
        let line = lines.line_of(object.get());
        let Ok(head) = serde_json::from_str::<JsonObject<'_>>(object.get()) else {
            taker.ignore();
            continue;
        };
        match sort(Some(&head.api_version), Some(&head.kind)) {
            Sort::Object(kind) => taker.take(kind, Object::Json(object), line),
            Sort::Other => taker.ignore(),
            Sort::List(of) => {
                let items = head.items.map_or("null", RawValue::get);
                let items: Option<Vec<&RawValue>> =
                    serde_json::from_str(items).map_err(|error| Unparsable {
                        line: Some(line),
                        message: error.to_string(),
                    })?;
                for item in items.unwrap_or_default() {
                    json_item(of, item, lines.line_of(item.get()), taker);
                }
            }
        }
    }
    Ok(())
}

/// Adds an item of a JSON list.
fn json_item(of: Option<Kind>, item: &RawValue, line: u64, taker: &mut Taker<'_>) {
    let head = serde_json::from_str::<JsonObject<'_>>(item.get()).ok();
    let said = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let (version, kind) = match head {
        Some(head) => (said(&head.api_version), said(&head.kind)),
        None => (None, None),
    };
    match item_kind(of, version.as_deref(), kind.as_deref()) {
        Some(kind) => taker.take(kind, Object::Json(item), line),
        None => taker.ignore(),
    }
}

/// Counts lines up to parts of a text, which must come in order.
struct Lines<'a> {
    text: &'a str,
    /// The position up to which lines were counted.
    at: usize,
    line: u64,
}

impl Lines<'_> {
    /// The line on which `part`, a part of the text, begins.
    fn line_of(&mut self, part: &str) -> u64 {
        let offset = (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        if let Some(between) = self.text.as_bytes().get(self.at..offset) {
            let newlines = between.iter().filter(|byte| **byte == b'\n').count();
            self.line += u64::try_from(newlines).unwrap_or(0);
            self.at = offset;
        }
        self.line
    }
}

// ---- YAML ----

/// A document of a YAML file: its members, with the items of a list apart, each with its line.
#[derive(Debug, Default)]
struct Document {
    /// All members but `items`.
    members: Map<String, Value>,
    items: Vec<Spanned<Value>>,
}

/// `items`: a list of values with their lines. Anything else is skipped.
struct Items(Vec<Spanned<Value>>);

impl<'de> Deserialize<'de> for Items {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Items;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of objects")
            }

            fn visit_unit<E>(self) -> Result<Items, E> {
                Ok(Items(Vec::new()))
            }

            fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<Items, E> {
                self.visit_unit()
            }

            fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<Items, E> {
                self.visit_unit()
            }

            fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<Items, E> {
                self.visit_unit()
            }

            fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<Items, E> {
                self.visit_unit()
            }

            fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<Items, E> {
                self.visit_unit()
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Items, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Items(items))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Items, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Items(Vec::new()))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Document;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a Kubernetes object (a map with apiVersion and kind)")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document, A::Error> {
                let mut document = Document::default();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "items" {
                        document.items = map.next_value::<Items>()?.0;
                    } else {
                        document.members.insert(name, map.next_value()?);
                    }
                }
                Ok(document)
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// Limits for YAML. Dumps of whole clusters are large, so their size is not limited. Nesting and aliases are, because
/// they can cost more than the file's size.
fn options() -> Options {
    let mut options = Options::default();
    // A Service may be named `no` or `y`.
    options.strict_booleans = true;
    if let Some(budget) = &mut options.budget {
        budget.max_events = usize::MAX;
        budget.max_nodes = usize::MAX;
        budget.max_total_scalar_bytes = usize::MAX;
        budget.max_total_comment_bytes = usize::MAX;
        budget.max_documents = usize::MAX;
        budget.max_buffered_comment_events = usize::MAX;
        budget.max_depth = DEEPEST;
    }
    options
}

fn yaml(text: &str, taker: &mut Taker<'_>) -> Result<(), Unparsable> {
    let documents: Vec<Spanned<Document>> =
        serde_saphyr::from_multiple_with_options(text, options()).map_err(|error| {
            let line = error.location().map(|location| location.line());
            let message = error.without_snippet().to_string();
            let message = message.lines().next().unwrap_or_default().to_owned();
            Unparsable { line, message }
        })?;
    for Spanned {
        value: Document { members, items },
        referenced,
        ..
    } in documents
    {
        let text = |name: &str| members.get(name).and_then(Value::as_str);
        match sort(text("apiVersion"), text("kind")) {
            Sort::Object(kind) => {
                taker.take(
                    kind,
                    Object::Value(&Value::Object(members)),
                    referenced.line(),
                );
            }
            Sort::Other => taker.ignore(),
            Sort::List(of) => {
                for item in items {
                    let text = |name: &str| item.value.get(name).and_then(Value::as_str);
                    match item_kind(of, text("apiVersion"), text("kind")) {
                        Some(kind) => {
                            let line = item.referenced.line();
                            taker.take(kind, Object::Value(&item.value), line);
                        }
                        None => taker.ignore(),
                    }
                }
            }
        }
    }
    Ok(())
}

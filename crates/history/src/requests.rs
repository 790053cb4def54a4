//! Requests in an audit log of the API server (`audit.k8s.io/v1`): who made an object what a cause names.

use std::collections::HashMap;
use std::io;

use jiff::Timestamp;
use provenance::{Cause, FactKey, Kind, ObjectKey, Verb};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::Output;
use crate::evidence::CauseLine;
use crate::log::cause_text;
use crate::moment::TimeText;
use crate::printable::printable;

/// By how much the clocks of the API server and of this server may differ, in milliseconds.
const CLOCKS_DIFFER_MS: u64 = 2000;

/// A line of an audit log, as far as it is used.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    api_version: String,
    #[serde(rename = "auditID")]
    audit_id: String,
    stage: String,
    verb: String,
    user: User,
    impersonated_user: Option<User>,
    #[serde(rename = "sourceIPs", default)]
    source_ips: Vec<String>,
    #[serde(default)]
    user_agent: String,
    #[serde(default, rename = "requestURI")]
    request_uri: String,
    object_ref: Option<ObjectRef>,
    response_status: Option<ResponseStatus>,
    request_received_timestamp: Timestamp,
    /// The body. Only logged from level Request on.
    request_object: Option<Value>,
    /// Only logged at level RequestResponse.
    response_object: Option<ResponseObject>,
}

impl Event {
    /// Whether the request changed nothing, as `--dry-run=server` asks.
    fn is_dry_run(&self, is_deletion: bool) -> bool {
        // For a deletion with a body the API server does not read the query. The body of another request is an object,
        // in which the user writes what he likes.
        let body = self.request_object.as_ref().filter(|_| is_deletion);
        if let Some(options) = body {
            let dry_run = options.get("dryRun").and_then(Value::as_array);
            return dry_run.is_some_and(|stages| !stages.is_empty());
        }
        let (_, query) = self.request_uri.split_once('?').unwrap_or_default();
        let mut parameters = query.split('&');
        parameters
            .any(|it| matches!(it.split_once('='), Some(("dryRun", value)) if !value.is_empty()))
    }
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Deserialize)]
struct ObjectRef {
    #[serde(default)]
    resource: String,
    #[serde(default)]
    namespace: String,
    /// Empty for a whole collection.
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}

/// An object, or the `Status` of a deletion.
#[derive(Deserialize)]
struct ResponseObject {
    #[serde(default)]
    metadata: Metadata,
    details: Option<Details>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    resource_version: String,
}

#[derive(Deserialize)]
struct Details {
    #[serde(default)]
    uid: String,
}

/// A request that was found.
#[derive(Debug)]
struct Requested {
    verb: String,
    user: String,
    /// Whom that user acted as.
    acted_as: Option<String>,
    source_ips: Vec<String>,
    user_agent: String,
    time_ms: u64,
    audit_id: String,
    /// Whether the log has the resourceVersion or uid that this request gave the object. Otherwise it is the last
    /// one before the version that changed or deleted an object of this name.
    is_proven: bool,
}

impl Requested {
    /// Whether this request explains a cause better than another.
    fn is_better(&self, other: &Self) -> bool {
        match (self.is_proven, other.is_proven) {
            // A request that changes nothing gives the resourceVersion of the one before.
            (true, true) => self.time_ms < other.time_ms,
            (false, false) => self.time_ms >= other.time_ms,
            (is_proven, _) => is_proven,
        }
    }

    fn text(&self) -> String {
        let probably = if self.is_proven { "" } else { "probably " };
        let acted_as = match &self.acted_as {
            Some(other) => format!(" as {other}"),
            None => String::new(),
        };
        let text = format!(
            "{probably}requested by {}{acted_as} from {} at {}: {} (audit id {})",
            self.user,
            self.source_ips.join(", "),
            TimeText(self.time_ms),
            self.verb,
            self.audit_id
        );
        printable(&text).into_owned()
    }

    fn json(&self) -> Value {
        json!({
            "verb": self.verb,
            "user": self.user,
            "actedAs": self.acted_as,
            "sourceIps": self.source_ips,
            "userAgent": self.user_agent,
            "time": TimeText(self.time_ms).to_string(),
            "timeMs": self.time_ms,
            "auditId": self.audit_id,
            "proven": self.is_proven,
        })
    }
}

/// A cause whose request is sought.
#[derive(Debug)]
struct Sought {
    cause: Cause,
    /// The time of the earliest version that names it, in milliseconds since 1970 UTC.
    seen_ms: u64,
    request: Option<Requested>,
}

/// Says that there is no request.
fn missing(cause: &Cause) -> &'static str {
    if cause.verb == Verb::Deleted {
        "the audit log has no such request: it may also have lost its label"
    } else {
        "the audit log has no such request"
    }
}

/// The cause that a JSON object says.
fn cause_of_json(json: &Value) -> Option<Cause> {
    CauseLine::deserialize(json).ok()?.cause()
}

/// Calls `each` for each cause in an answer, with the time of the version that names it, in milliseconds since 1970 UTC.
fn each_cause(
    json: &mut Value,
    time_ms: Option<u64>,
    each: &mut impl FnMut(&mut Value, Option<u64>),
) {
    match json {
        Value::Array(values) => {
            for value in values {
                each_cause(value, time_ms, each);
            }
        }
        Value::Object(fields) if fields.contains_key("verb") => each(json, time_ms),
        Value::Object(fields) => {
            let time_ms = fields.get("timeMs").and_then(Value::as_u64).or(time_ms);
            for value in fields.values_mut() {
                each_cause(value, time_ms, each);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Requests for the causes of an answer of `blame`, `log` or `diff`.
#[derive(Debug, Default)]
pub struct Requests {
    sought: Vec<Sought>,
    places: HashMap<Cause, usize>,
    of_object: HashMap<FactKey, Vec<usize>>,
    /// Causes as text.
    of_text: HashMap<String, usize>,
}

impl Requests {
    /// Seeks the requests of the causes in a line of JSON.
    pub fn seek(&mut self, line: &str) {
        if let Ok(mut line) = serde_json::from_str::<Value>(line) {
            each_cause(&mut line, None, &mut |json, seen_ms| {
                if let (Some(cause), Some(seen_ms)) = (cause_of_json(json), seen_ms) {
                    self.seek_cause(cause, seen_ms);
                }
            });
        }
    }

    /// Seeks the request of a cause that a version of this time names.
    fn seek_cause(&mut self, cause: Cause, seen_ms: u64) {
        // A file or an etcd has no audit log.
        let Some(kind) = cause.kind.filter(|_| cause.origin.place.is_empty()) else {
            return;
        };
        if let Some(place) = self.places.get(&cause) {
            let seen = &mut self.sought[*place].seen_ms;
            *seen = seen_ms.min(*seen);
            return;
        }
        let place = self.sought.len();
        let of_object = self.of_object.entry(kind.of(&cause.key)).or_default();
        of_object.push(place);
        self.of_text.insert(cause_text(&cause), place);
        self.places.insert(cause.clone(), place);
        self.sought.push(Sought {
            cause,
            seen_ms,
            request: None,
        });
    }

    /// Takes a line of an audit log. False if it is none.
    pub fn take(&mut self, line: &[u8]) -> bool {
        let Ok(event) = serde_json::from_slice::<Event>(line) else {
            return false;
        };
        if !event.api_version.starts_with("audit.k8s.io/") {
            return false;
        }
        let is_done = event.stage == "ResponseComplete"
            && (event.response_status.as_ref()).is_some_and(|it| (200..300).contains(&it.code));
        let Some(of) = event.object_ref.as_ref().filter(|_| is_done) else {
            return true;
        };
        let Some(kind) = Kind::named(&of.resource) else {
            return true;
        };
        let is_deletion = match &*event.verb {
            "create" | "update" | "patch" => false,
            "delete" | "deletecollection" => true,
            _ => return true,
        };
        if event.is_dry_run(is_deletion) {
            return true;
        }
        let response = event.response_object.as_ref();
        // `generateName`: the name is in the answer alone.
        let name = match &*of.name {
            "" => response.map_or("", |it| &it.metadata.name),
            name => name,
        };
        let places: Vec<usize> = if event.verb == "deletecollection" {
            let is_of = |it: &Sought| {
                it.cause.kind == Some(kind) && *it.cause.key.namespace == *of.namespace
            };
            let sought = self.sought.iter().enumerate();
            sought
                .filter_map(|(place, it)| is_of(it).then_some(place))
                .collect()
        } else {
            let namespace = if kind.has_namespace() {
                &*of.namespace
            } else {
                ""
            };
            let object = kind.of(&ObjectKey::new(namespace, name));
            self.of_object.get(&object).cloned().unwrap_or_default()
        };
        for place in places {
            self.consider(place, &event, is_deletion);
        }
        true
    }

    /// Keeps an event for a cause, if it explains it better than what is known.
    fn consider(&mut self, place: usize, event: &Event, is_deletion: bool) {
        let sought = &mut self.sought[place];
        let cause = &sought.cause;
        // A change that takes a label away ends an object for those who select it by the label.
        let may_unlabel = cause.verb == Verb::Deleted && !is_deletion;
        if cause.verb.ends_object() != is_deletion && !may_unlabel {
            return;
        }
        let response = event.response_object.as_ref();
        let same = |ours: &str, theirs: &str| !ours.is_empty() && ours == theirs;
        let has_uid = response.is_some_and(|it| {
            let of_status = it.details.as_ref().map_or("", |it| &*it.uid);
            same(&cause.origin.uid, &it.metadata.uid) || same(&cause.origin.uid, of_status)
        });
        let has_version = response.is_some_and(|it| {
            same(
                &cause.origin.resource_version,
                &it.metadata.resource_version,
            )
        });
        let is_proven = has_uid && (is_deletion || has_version);
        let time_ms = u64::try_from(event.request_received_timestamp.as_millisecond());
        let time_ms = time_ms.unwrap_or(0);
        // With its answer in the log, a request that gave another object or version is not the one.
        let is_other = response.is_some() && !is_proven && !event.verb.ends_with("collection");
        // Without its answer, a change before a deletion does not look like the cause of it.
        let is_other = is_other || may_unlabel;
        let is_late = time_ms > sought.seen_ms.saturating_add(CLOCKS_DIFFER_MS);
        if !is_proven && (is_other || is_late) {
            return;
        }
        let request = Requested {
            verb: event.verb.clone(),
            user: event.user.username.clone(),
            acted_as: event
                .impersonated_user
                .as_ref()
                .map(|it| it.username.clone()),
            source_ips: event.source_ips.clone(),
            user_agent: event.user_agent.clone(),
            time_ms,
            audit_id: event.audit_id.clone(),
            is_proven,
        };
        let known = sought.request.as_ref();
        if known.is_none_or(|known| request.is_better(known)) {
            sought.request = Some(request);
        }
    }

    /// Writes a line of the answer, with the requests of its causes.
    ///
    /// # Errors
    /// When writing fails.
    pub fn write_line(
        &self,
        line: &str,
        output: Output,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        match output {
            Output::Text => {
                writeln!(out, "{line}")?;
                // `diff` writes causes as comments.
                let text = line.trim_start_matches([' ', ';']);
                let Some(place) = self.of_text.get(text) else {
                    return Ok(());
                };
                let indent = &line[..line.len() - text.len()];
                match &self.sought[*place].request {
                    Some(request) => writeln!(out, "{indent}    {}", request.text()),
                    None => writeln!(out, "{indent}    {}", missing(&self.sought[*place].cause)),
                }
            }
            Output::Json => {
                let Ok(mut json) = serde_json::from_str::<Value>(line) else {
                    return writeln!(out, "{line}");
                };
                each_cause(&mut json, None, &mut |json, _| {
                    let place = cause_of_json(json).and_then(|cause| self.places.get(&cause));
                    let request = place.and_then(|place| self.sought[*place].request.as_ref());
                    json["request"] = request.map_or(Value::Null, Requested::json);
                });
                writeln!(out, "{json}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of `blame` with one cause: verb, namespace, name, uid, resourceVersion.
    fn line(cause: [&str; 5]) -> String {
        let [verb, namespace, name, uid, version] = cause;
        let cause = json!({
            "verb": verb, "kind": "Service", "namespace": namespace, "name": name, "uid": uid,
            "resourceVersion": version, "manager": "", "lastManager": "", "operation": "", "place": "",
        });
        json!({ "record": "r", "since": { "timeMs": 56_000, "causes": [cause] } }).to_string()
    }

    /// A line of an audit log: user, verb, object, seconds, answer.
    fn event(user: &str, verb: &str, name: &str, second: u32, answer: Value) -> Value {
        json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "RequestResponse",
            "auditID": format!("id-{user}"), "stage": "ResponseComplete", "verb": verb,
            "user": { "username": user, "groups": ["g"] }, "sourceIPs": ["192.0.2.1"],
            "userAgent": "kubectl", "responseStatus": { "code": 200 },
            "objectRef": { "resource": "services", "namespace": "shop", "name": name },
            "requestReceivedTimestamp": format!("1970-01-01T00:00:{second:02}.000000Z"),
            "responseObject": answer,
        })
    }

    fn object(uid: &str, version: &str) -> Value {
        json!({ "metadata": { "name": "web", "uid": uid, "resourceVersion": version } })
    }

    /// The user that is named for a cause, with `?` if that is not proven.
    fn named(cause: [&str; 5], events: &[Value]) -> Option<String> {
        let mut requests = Requests::default();
        requests.seek(&line(cause));
        for event in events {
            assert!(requests.take(event.to_string().as_bytes()));
        }
        let mut out = Vec::new();
        requests
            .write_line(&line(cause), Output::Json, &mut out)
            .unwrap();
        let json: Value = serde_json::from_slice(&out).unwrap();
        let request = &json["since"]["causes"][0]["request"];
        let doubt = if request["proven"] == true { "" } else { "?" };
        Some(format!("{}{doubt}", request["user"].as_str()?))
    }

    const APPLIED: [&str; 5] = ["applied", "shop", "web", "u1", "7"];
    const DELETED: [&str; 5] = ["deleted", "shop", "web", "u1", "9"];

    #[test]
    fn the_request_that_gave_an_object_its_version_is_named() {
        let right = event("carol", "patch", "web", 50, object("u1", "7"));
        for (others, why) in [
            (vec![], "alone"),
            (
                vec![
                    event("eve", "patch", "web", 49, object("u1", "6")),
                    event("eve", "update", "web", 51, object("u1", "8")),
                ],
                "beside the versions before and after it",
            ),
            (
                vec![event("eve", "update", "web", 55, object("u1", "7"))],
                "before one that changed nothing",
            ),
            (
                vec![event("eve", "create", "web", 40, object("u0", "7"))],
                "beside another object of this name",
            ),
            (
                vec![event("eve", "patch", "web", 55, Value::Null)],
                "beside one whose answer was not logged",
            ),
            (
                vec![event("eve", "delete", "web", 55, object("u1", "7"))],
                "beside a deletion",
            ),
        ] {
            for turned in [false, true] {
                let mut events = others.clone();
                events.push(right.clone());
                if turned {
                    events.reverse();
                }
                assert_eq!(named(APPLIED, &events).as_deref(), Some("carol"), "{why}");
            }
        }
    }

    #[test]
    fn without_answers_in_the_log_the_last_request_before_the_version_is_probable() {
        let bare = |user, verb, name, second| event(user, verb, name, second, Value::Null);
        let events = [
            bare("alice", "patch", "web", 10),
            bare("carol", "patch", "web", 55),
            bare("late", "patch", "web", 59),
            bare("other", "patch", "db", 55),
            bare("reader", "get", "web", 55),
            bare("gone", "delete", "web", 54),
        ];
        assert_eq!(named(APPLIED, &events).as_deref(), Some("carol?"));
        assert_eq!(named(DELETED, &events).as_deref(), Some("gone?"));
        // A clock may be a little ahead of the other.
        let ahead = [bare("carol", "patch", "web", 57)];
        assert_eq!(named(APPLIED, &ahead).as_deref(), Some("carol?"));
        // The answer says that it was another version.
        let other = [event("eve", "patch", "web", 55, object("u1", "8"))];
        assert_eq!(named(APPLIED, &other), None);
    }

    #[test]
    fn a_request_that_failed_or_is_not_done_or_of_elsewhere_is_not_named() {
        let made = event("carol", "patch", "web", 50, object("u1", "7"));
        for (pointer, value) in [
            ("/responseStatus/code", json!(403)),
            ("/responseStatus/code", json!(409)),
            ("/stage", json!("RequestReceived")),
            ("/verb", json!("list")),
            ("/objectRef/resource", json!("configmaps")),
            ("/objectRef/namespace", json!("other")),
            ("/objectRef/name", json!("other")),
        ] {
            let mut event = made.clone();
            *event.pointer_mut(pointer).unwrap() = value;
            assert_eq!(named(APPLIED, &[event]), None, "{pointer}");
        }
    }

    #[test]
    fn a_deletion_is_proven_by_the_uid_and_one_of_a_collection_is_probable() {
        let status = json!({ "kind": "Status", "metadata": {}, "details": { "uid": "u1" } });
        for answer in [status, object("u1", "9")] {
            let events = [event("dana", "delete", "web", 50, answer)];
            assert_eq!(named(DELETED, &events).as_deref(), Some("dana"));
        }
        let other = [event("dana", "delete", "web", 50, object("u0", "9"))];
        assert_eq!(named(DELETED, &other), None);
        let all = event(
            "dana",
            "deletecollection",
            "",
            50,
            json!({ "metadata": {} }),
        );
        assert_eq!(named(DELETED, &[all]).as_deref(), Some("dana?"));
    }

    /// The audit log of a dry run is that of the request itself.
    #[test]
    fn a_request_that_changes_nothing_is_not_named() {
        let with = |user, verb, query: &str, body: Value| {
            let status = json!({ "kind": "Status", "metadata": {}, "details": { "uid": "u1" } });
            let answer = if verb == "delete" {
                status
            } else {
                object("u1", "7")
            };
            let mut event = event(user, verb, "web", 40, answer);
            event["requestURI"] = json!(format!("/api/v1/namespaces/shop/services/web{query}"));
            event["requestObject"] = body;
            event
        };
        let options = |dry_run: Value| json!({ "kind": "DeleteOptions", "dryRun": dry_run });
        let mut done = with("dana", "delete", "?gracePeriodSeconds=0", Value::Null);
        done["requestReceivedTimestamp"] = json!("1970-01-01T00:00:50Z");
        for dry in [
            with("eve", "delete", "?dryRun=All", Value::Null),
            with("eve", "delete", "?a=b&dryRun=All&c", Value::Null),
            with("eve", "delete", "", options(json!(["All"]))),
        ] {
            assert_eq!(named(DELETED, std::slice::from_ref(&dry)), None);
            assert_eq!(
                named(DELETED, &[dry, done.clone()]).as_deref(),
                Some("dana")
            );
        }
        let dry = with("eve", "patch", "?fieldManager=x&dryRun=All", Value::Null);
        assert_eq!(named(APPLIED, &[dry]), None);
        // The API server reads the options in the body, and those in the query only without one.
        for (verb, cause, query, body) in [
            ("delete", DELETED, "?dryRun=All", options(Value::Null)),
            ("delete", DELETED, "?dryRun=", Value::Null),
            (
                "patch",
                APPLIED,
                "?fieldManager=dryRun",
                options(json!(["All"])),
            ),
        ] {
            let events = [with("dana", verb, query, body)];
            assert_eq!(
                named(cause, &events).as_deref(),
                Some("dana"),
                "{verb} {query}"
            );
        }
    }

    #[test]
    fn an_object_that_lost_its_label_names_the_change_that_took_it() {
        let unlabelled = event("carol", "patch", "web", 50, object("u1", "9"));
        let older = event("eve", "patch", "web", 49, object("u1", "8"));
        let later = event("dana", "delete", "web", 58, object("u1", "12"));
        let events = [older.clone(), unlabelled.clone(), later];
        assert_eq!(named(DELETED, &events).as_deref(), Some("carol"));
        assert_eq!(named(DELETED, &[older]), None);
        // What vanished has the version that it had before.
        let vanished = ["vanished", "shop", "web", "u1", "9"];
        assert_eq!(named(vanished, &[unlabelled]), None);
        // Without answers, a change is not taken for the deletion.
        let bare = event("carol", "patch", "web", 50, Value::Null);
        assert_eq!(named(DELETED, &[bare]), None);
    }

    #[test]
    fn a_created_object_whose_name_the_server_made_is_found() {
        let events = [event("carol", "create", "", 50, object("u1", "7"))];
        assert_eq!(named(APPLIED, &events).as_deref(), Some("carol"));
    }

    #[test]
    fn text_has_the_request_below_its_cause() {
        let mut requests = Requests::default();
        requests.seek(&line(APPLIED));
        let text = |requests: &Requests, line: &str| {
            let mut out = Vec::new();
            requests.write_line(line, Output::Text, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let cause = "    applied Service shop/web (uid u1, resourceVersion 7)";
        let none = format!("{cause}\n        the audit log has no such request\n");
        assert_eq!(text(&requests, cause), none);
        let mut made = event("admin\u{1b}", "patch", "web", 50, object("u1", "7"));
        made["impersonatedUser"] = json!({ "username": "carol" });
        requests.take(made.to_string().as_bytes());
        let found = "requested by admin\\u{1b} as carol from 192.0.2.1 at 1970-01-01T00:00:50.000Z: patch (audit id id-admin\\u{1b})";
        assert_eq!(
            text(&requests, cause),
            format!("{cause}\n        {found}\n")
        );
        // As `diff` has it.
        assert_eq!(
            text(&requests, &format!("; {}", cause.trim_start())),
            format!("; {}\n;     {found}\n", cause.trim_start())
        );
        assert_eq!(
            text(&requests, "web. 5 IN A 192.0.2.1"),
            "web. 5 IN A 192.0.2.1\n"
        );
    }

    #[test]
    fn what_is_no_event_is_refused() {
        let mut requests = Requests::default();
        for line in ["", "{}", "x", "[1]", r#"{"apiVersion":"v1"}"#] {
            assert!(!requests.take(line.as_bytes()), "{line}");
        }
        let mut other = event("carol", "patch", "web", 50, Value::Null);
        other["apiVersion"] = json!("v1");
        assert!(!requests.take(other.to_string().as_bytes()));
    }
}

//! The JSON of every command is what `docs/schema` says, and every form of a line occurs: each alternative at the top of
//! a schema. Optional fields, null and the values of an `enum` need not occur.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::evidence::make_keys;
use crate::support::needs::{self, zonewright};
use crate::support::process::Process;
use crate::support::product::{CHANGE, START, Site, headless};
use crate::support::wire;
use provenance::Verb;
use regex::Regex;
use serde_json::{Value, json};

/// The part of JSON Schema that our schemas use. Another keyword is an error, so that nothing goes unchecked.
mod validator {
    use super::*;

    /// Checks a value; `root` has the definitions.
    pub(super) fn check(schema: &Value, root: &Value, value: &Value) -> Result<(), String> {
        let fail = |what: &str| Err(format!("{what}: {value}"));
        for (keyword, rule) in schema.as_object().expect("a schema is an object") {
            match keyword.as_str() {
                "$schema" | "title" | "description" | "$defs" => {}
                "$ref" => {
                    let path = rule.as_str().expect("it is text").trim_start_matches('#');
                    check(root.pointer(path).expect("it is defined"), root, value)?;
                }
                "const" if value != rule => return fail(&format!("it is not {rule}")),
                "enum" if !list(rule).contains(value) => return fail(&format!("none of {rule}")),
                "const" | "enum" => {}
                "type" if !has_type(rule, value) => return fail(&format!("no {rule}")),
                "type" => {}
                "oneOf" => {
                    let fits = matching(rule, root, value);
                    if fits.len() != 1 {
                        return fail(&format!("{} alternatives fit", fits.len()));
                    }
                }
                "properties" => {
                    for (name, field) in value.as_object().into_iter().flatten() {
                        if let Some(schema) = rule.get(name) {
                            check(schema, root, field).map_err(|why| format!("{name}: {why}"))?;
                        }
                    }
                }
                "required" | "additionalProperties" => fields(keyword, schema, value)?,
                "items" => {
                    for item in value.as_array().into_iter().flatten() {
                        check(rule, root, item)?;
                    }
                }
                "minimum" | "maximum" | "pattern" if !is_within(keyword, rule, value) => {
                    return fail(&format!("{keyword} {rule}"));
                }
                "minimum" | "maximum" | "pattern" => {}
                other => return Err(format!("{other} is not checked here")),
            }
        }
        Ok(())
    }

    /// Checks that an object has the fields that it must have, and no other than it may have.
    fn fields(keyword: &str, schema: &Value, value: &Value) -> Result<(), String> {
        let Some(fields) = value.as_object() else {
            return Ok(());
        };
        if keyword == "required" {
            let names = list(&schema[keyword]).iter().filter_map(Value::as_str);
            let mut missing = names.filter(|name| !fields.contains_key(*name));
            return missing
                .next()
                .map_or(Ok(()), |name| Err(format!("{name} is missing: {value}")));
        }
        assert_eq!(schema[keyword], json!(false));
        let mut more = fields
            .keys()
            .filter(|name| schema["properties"].get(name).is_none());
        more.next().map_or(Ok(()), |name| {
            Err(format!("{name} is in no schema: {value}"))
        })
    }

    /// Whether a number is not too small or too large, or a text is like a pattern. Other values are.
    fn is_within(keyword: &str, rule: &Value, value: &Value) -> bool {
        let number = |limit: &Value| limit.as_u64().expect("it is a number");
        match (keyword, value) {
            ("minimum", Value::Number(_)) => value.as_u64().is_some_and(|it| it >= number(rule)),
            ("maximum", Value::Number(_)) => value.as_u64().is_some_and(|it| it <= number(rule)),
            ("pattern", Value::String(text)) => {
                let pattern = rule.as_str().expect("it is text");
                Regex::new(pattern).expect("it is a pattern").is_match(text)
            }
            _ => true,
        }
    }

    fn list(rule: &Value) -> &Vec<Value> {
        rule.as_array().expect("it is a list")
    }

    fn has_type(rule: &Value, value: &Value) -> bool {
        let is = |name: &Value| match name.as_str().expect("a type is text") {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "integer" => value.is_u64() || value.is_i64(),
            "boolean" => value.is_boolean(),
            "null" => value.is_null(),
            other => panic!("no type {other} here"),
        };
        rule.as_array()
            .map_or_else(|| is(rule), |all| all.iter().any(is))
    }

    /// The places of the alternatives that fit.
    pub(super) fn matching(alternatives: &Value, root: &Value, value: &Value) -> Vec<usize> {
        let all = list(alternatives).iter().enumerate();
        let fits = all.filter(|(_, schema)| check(schema, root, value).is_ok());
        fits.map(|(place, _)| place).collect()
    }
}

/// The schemas, and which of their alternatives occurred.
struct Seen {
    met: BTreeSet<(String, usize)>,
}

/// Forms that only several replicas have: `cluster_failover` checks them.
const ELSEWHERE: [(&str, usize); 1] = [("process", 1)];

/// Checks lines against the schema of a command.
pub fn check_lines(name: &str, text: &str) {
    let mut seen = Seen {
        met: BTreeSet::new(),
    };
    seen.lines(name, text);
}

fn schema(name: &str) -> Value {
    let path = format!("{}/docs/schema/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(path).expect("it is there");
    serde_json::from_str(&text).expect("it is JSON")
}

impl Seen {
    /// Checks each line, and that there is one.
    fn lines(&mut self, name: &str, text: &str) {
        assert!(!text.is_empty(), "{name}: nothing was written");
        for line in text.lines() {
            let value =
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            self.value(name, &value);
        }
    }

    fn value(&mut self, name: &str, value: &Value) {
        let schema = schema(name);
        validator::check(&schema, &schema, value)
            .unwrap_or_else(|why| panic!("{name}: {why}\n{value}"));
        let alternatives = schema.get("oneOf");
        let places = alternatives.map_or(vec![0], |all| validator::matching(all, &schema, value));
        self.met
            .extend(places.into_iter().map(|place| (name.to_owned(), place)));
    }

    /// All alternatives of all schemas.
    fn all() -> BTreeSet<(String, usize)> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schema");
        let files = fs::read_dir(folder).expect("it is there");
        let names = files.map(|file| {
            let name = file.expect("it can be read").file_name();
            name.to_string_lossy().trim_end_matches(".json").to_owned()
        });
        let alternatives = |name: String| {
            let count = schema(&name)["oneOf"].as_array().map_or(1, Vec::len);
            (0..count).map(move |place| (name.clone(), place))
        };
        names.flat_map(alternatives).collect()
    }
}

const ZONE: &str = "cluster.local.";

/// What a command about the site prints as JSON.
fn answer(site: &Site, args: &[&str]) -> String {
    let output = site.run(&[args, &["--state", "state", "--output", "json"]].concat());
    String::from_utf8(output.stdout).expect("answers are UTF-8")
}

impl Seen {
    /// Asks what can be asked with and without a server.
    fn ask_about_past(&mut self, site: &Site, older: &str, newer: &str) {
        let gone = "gone.test.svc.cluster.local";
        for (name, args) in [
            ("log", &["log"][..]),
            (
                "log",
                &["log", ZONE, "--object", "endpointslice/test/web-1"],
            ),
            (
                "log",
                &["log", "96.10.in-addr.arpa", "--object", "svc/test/never"],
            ),
            ("log", &["log", ZONE, "--name", ZONE, "--since", older]),
            ("show", &["show", ZONE]),
            ("show", &["show", ZONE, gone]),
            ("blame", &["blame", ZONE]),
            ("blame", &["blame", ZONE, gone]),
            ("diff", &["diff", ZONE, older, newer]),
            ("diff", &["diff", ZONE, newer, newer]),
            ("corefile", &["show", ZONE, "--corefile"]),
            ("corefile", &["diff", ZONE, older, newer, "--corefile"]),
            ("verify", &["verify"]),
            ("export", &["export", ZONE, "--to", "out"]),
            ("export", &["export", ZONE, "--history", "--to", "out"]),
        ] {
            self.lines(name, &answer(site, args));
        }
    }

    /// Asks a running server, and gives it orders.
    fn ask_server(&mut self, site: &Site, older: &str) {
        for (name, args) in [
            ("why", &["why", "s1.test.svc.cluster.local"][..]),
            ("why", &["why", "gone.test.svc.cluster.local", "AAAA"]),
            ("status", &["status"]),
            ("show", &["show", "cluster.local.@held"]),
            ("order", &["freeze", ZONE, "--for", "1h"]),
            ("status", &["status"]),
            ("diff", &["diff", ZONE, "--held"]),
            ("order", &["rollback", ZONE, older, "--for", "1h"]),
            ("status", &["status"]),
            ("diff", &["release", ZONE, "--dry-run"]),
            ("show", &["show", "cluster.local.@held"]),
            (
                "show",
                &["show", "cluster.local.@held", "gone.test.svc.cluster.local"],
            ),
            ("order", &["release", ZONE]),
            ("process", &["reload"]),
            ("process", &["notify", ZONE]),
        ] {
            self.lines(name, &answer(site, args));
        }
    }

    /// Asks about the Corefile: one that is good, one with a mistake, and one with a missing file.
    fn ask_about_configuration(&mut self, site: &Site, other: &UdpSocket) {
        let said = |args: &[&str]| {
            let output = site.run(&[args, &["-o", "json"]].concat());
            String::from_utf8(output.stdout).expect("answers are UTF-8")
        };
        let listen = other.local_addr().expect("it is bound").to_string();
        site.write("bad", "z {\n    nonsense\n}\n");
        site.write(
            "gone",
            "z:5300 {\n    bind nowhere0\n    file gone.zone\n}\n",
        );
        site.write("elsewhere", "z:5300 {\n    bind nowhere0\n    any\n}\n");
        for (name, args) in [
            ("version", &["version"][..]),
            ("check", &["check"]),
            ("check", &["check", "--explain"]),
            ("check", &["check", "bad"]),
            ("check", &["check", "gone"]),
            ("check", &["check", "elsewhere"]),
            ("render", &["render"]),
            ("emit", &["emit", "bind", "--secondary", &listen]),
            ("doctor", &["doctor", "--state", "state"]),
        ] {
            self.lines(name, &said(args));
        }
        let checked = |file| -> Value {
            serde_json::from_str(&said(&["check", file])).expect("it is a line")
        };
        let [good, bad, gone, elsewhere] = ["Corefile", "bad", "gone", "elsewhere"].map(checked);
        let goods = [&good, &bad, &gone, &elsewhere].map(|it| it["good"] == true);
        assert_eq!(goods, [true, false, false, true]);
        let error = &bad["errors"][0];
        assert_eq!((&error["file"], &error["line"]), (&json!("bad"), &json!(2)));
        assert_eq!(gone["errors"][0]["file"], Value::Null);
        assert_eq!(elsewhere["warnings"].as_array().map(Vec::len), Some(1));
    }

    /// Follows a stream whose beginning is gone.
    fn follow(&mut self, site: &Site, first: u32) {
        let args = [
            "log", ZONE, "--follow", "--output", "json", "--state", "state", "--since",
        ];
        let mut follow = Command::new(zonewright())
            .args(args)
            .arg(first.to_string())
            .current_dir(site.path(""))
            .stdout(Stdio::piped())
            .spawn()
            .expect("it can be run");
        let mut lines = BufReader::new(follow.stdout.take().expect("it was asked for")).lines();
        let line = lines.next().expect("there is one").expect("it can be read");
        self.lines("log", &line);
        follow.kill().expect("it is ours");
        follow.wait().expect("it ends");
    }

    /// Checks notes, as they are and damaged.
    fn check_notes(&mut self, site: &Site, server: &mut Process) {
        let file = site.path("notes.ndjson");
        server.wait_for("a note", CHANGE, || file.exists().then_some(()));
        let text = fs::read_to_string(&file).expect("it is there");
        self.lines("note", &text);
        let verify = ["verify", "--note", "notes.ndjson", "--key", "public.pem"];
        self.lines("verify", &answer(site, &verify));
        site.write(
            "gone.ndjson",
            &text.replace("cluster.local.", "gone.local."),
        );
        let gone = answer(site, &["verify", "--note", "gone.ndjson"]);
        assert!(gone.contains("the zone is not there"), "{gone}");
        self.lines("verify", &gone);
        site.write("notes.ndjson", &text.replace("\"serial\":", "\"serial\":1"));
        self.lines("verify", &answer(site, &verify));
        let status = answer(site, &["status"]);
        self.lines("status", &status);
        let status: Value = serde_json::from_str(&status).expect("it is JSON");
        assert_eq!(status["notes"].as_array().map(Vec::len), Some(2));
    }

    /// Checks an export, as it is and damaged.
    fn check_export(&mut self, site: &Site) {
        let history = site.path("out/cluster.local.ndjson");
        let text = fs::read_to_string(&history).expect("it is there");
        self.lines("history", &text);
        let manifest = fs::read_to_string(site.path("out/manifest.json")).expect("it is there");
        self.value(
            "manifest",
            &serde_json::from_str(&manifest).expect("it is JSON"),
        );
        self.lines("verify", &answer(site, &["verify", "out/manifest.json"]));
        let changed = text.replacen("\"serial\":", "\"serial\":1", 1);
        site.write("out/cluster.local.ndjson", &changed);
        self.lines("verify", &answer(site, &["verify", "out/manifest.json"]));
        fs::remove_file(history).expect("it was there");
        self.lines("verify", &answer(site, &["verify", "out/manifest.json"]));
    }
}

#[test]
fn the_json_of_every_command_is_what_its_schema_says() {
    if needs::lacks(&["openssl"]) {
        return;
    }
    let mut seen = Seen {
        met: BTreeSet::new(),
    };
    let site = Site::new();
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    let secondary = socket.local_addr().expect("it is bound");
    let to = format!("to {secondary}\n        allow 127.0.0.1");
    make_keys(&site);
    // Notes are written once, at the start, and one place takes none.
    let history = "history {
        versions 4
        sign key.pem
        note file notes.ndjson
        note file gone/notes
        note_every 24h
    }";
    let corefile = site.corefile(history);
    site.write("Corefile", &corefile.replace("allow 127.0.0.1", &to));
    let pair = |namespace: &str, host: u8| {
        let text = headless("pair", 2, &[host]);
        let text = text.replace("namespace: test", &format!("namespace: {namespace}"));
        site.manifest(&format!("{namespace}.yaml"), &text);
    };
    pair("one", 100);
    pair("other", 100);
    let (mut server, serials) = site.start_with_history(3);
    let [older, newer] = [serials[4], serials[6]].map(|it| it.to_string());
    seen.check_notes(&site, &mut server);
    seen.ask_about_past(&site, &older, &newer);
    seen.check_export(&site);
    seen.ask_server(&site, &older);
    seen.ask_about_configuration(&site, &socket);
    // Versions of two namespaces in turn are not condensed, so the first one is gone after some.
    let mut last = wire::serial(site.dns, "cluster.local.").expect("it answers");
    for host in 101..105 {
        for namespace in ["one", "other"] {
            pair(namespace, host);
            last = site.new_serial(&mut server, "cluster.local.", last);
        }
    }
    seen.follow(&site, serials[0]);
    for hosts in [&[5][..], &[5, 6]] {
        site.manifest("web.yaml", &headless("web", 1, hosts));
        last = site.new_serial(&mut server, "cluster.local.", last);
    }
    seen.lines("process", &answer(&site, &["stop"]));
    server.terminate(START);
    // The orders made versions, too, and older ones were dropped.
    let log = answer(&site, &["log", ZONE, "-n", "2"]);
    let serials: Vec<String> = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("it is JSON")["serial"].to_string())
        .collect();
    seen.ask_about_past(&site, &serials[1], &serials[0]);
    let is_elsewhere = |(name, form): &(String, usize)| ELSEWHERE.contains(&(name, *form));
    let all = Seen::all();
    let wanted: BTreeSet<_> = all.into_iter().filter(|it| !is_elsewhere(it)).collect();
    assert_eq!(seen.met, wanted, "every form of a line occurs");
}

#[test]
fn a_line_with_another_field_or_without_one_does_not_fit_its_schema() {
    let log = schema("log");
    let hash = "ab".repeat(32);
    let line = json!({ "schema": 1, "type": "absent", "name": "a.z.", "zone": "z.", "serial": 7,
        "time": "2026-11-21T14:00:00.000Z", "timeMs": 1_795_269_600_000_u64, "hash": hash, "contentHash": null });
    let show = schema("show");
    assert_eq!(validator::check(&show, &show, &line), Ok(()));
    assert!(validator::check(&log, &log, &line).is_err());
    for (field, value) in [
        ("more", json!(1)),
        ("time", json!("yesterday")),
        ("serial", json!(4_294_967_296_u64)),
        ("serial", json!(-1)),
        ("hash", json!("AB")),
        ("schema", json!(2)),
        ("zone", Value::Null),
    ] {
        let mut wrong = line.clone();
        wrong[field] = value;
        assert!(validator::check(&show, &show, &wrong).is_err(), "{field}");
    }
    let mut without = line.clone();
    without.as_object_mut().expect("it is one").remove("timeMs");
    assert!(validator::check(&show, &show, &without).is_err());
}

#[test]
fn the_schemas_know_the_verbs_of_causes() {
    let verbs: Vec<&str> = Verb::ALL.iter().map(|verb| verb.as_str()).collect();
    for name in ["log", "blame", "diff", "why", "history"] {
        let known = &schema(name)["$defs"]["cause"]["properties"]["verb"]["enum"];
        assert_eq!(*known, json!(verbs), "{name}");
    }
}

//! Signed notes of the newest hashes: in a file and in the log, kept elsewhere, and compared with the history later.

use std::fs;
use std::process::Output;

use serde_json::{Value, json};

use crate::support::evidence::{check_with_openssl, make_keys, said};
use crate::support::needs;
use crate::support::process::Process;
use crate::support::product::{CHANGE, START, Site, headless};
use crate::support::wire;

/// What a site's `history` says.
const HISTORY: &str = "history {
        sign key.pem
        note file kept/notes.ndjson
        note log
        note_every 1s
    }";

/// A site with keys, a folder for notes, and this `history`.
fn site_with(history: &str) -> Site {
    let site = Site::new();
    make_keys(&site);
    fs::create_dir(site.path("kept")).expect("a folder can be made");
    site.write("Corefile", &site.corefile(history));
    site.manifest("web.yaml", &headless("web", 1, &[1]));
    site
}

/// The notes in the file so far.
fn notes(site: &Site) -> Vec<Value> {
    let text = fs::read_to_string(site.path("kept/notes.ndjson")).unwrap_or_default();
    let whole = text.lines().filter(|_| text.ends_with('\n'));
    whole
        .map(|line| serde_json::from_str(line).expect("a line is JSON"))
        .collect()
}

/// The serial of the zone in a note.
fn noted_serial(line: &Value, zone: &str) -> Option<u64> {
    let zones = line["note"]["zones"].as_array().expect("a list");
    let found = zones.iter().find(|it| it["zone"] == zone)?;
    found["serial"].as_u64()
}

/// Waits for a note with this serial of `cluster.local`.
fn wait_for_note(site: &Site, server: &mut Process, serial: u32) {
    server.wait_for("a note", CHANGE, || {
        let found = notes(site);
        let mut serials = found.iter().map(|it| noted_serial(it, "cluster.local."));
        serials
            .any(|it| it == Some(u64::from(serial)))
            .then_some(())
    });
}

fn verify(site: &Site, args: &[&str]) -> Output {
    let state = ["verify", "--state", "state"];
    site.run(&[&state, args].concat())
}

/// Checks the exit code and a part of the text of `verify`.
fn check_verify(site: &Site, args: &[&str], code: i32, want: &str) {
    let output = verify(site, args);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
    assert!(text.contains(want), "{args:?}: {want} in\n{text}");
}

const WITH_NOTES: [&str; 4] = ["--note", "kept/notes.ndjson", "--key", "public.pem"];

#[test]
fn notes_come_at_the_start_in_their_rhythm_and_after_the_last_version() {
    if needs::lacks(&["openssl"]) {
        return;
    }
    let site = site_with(HISTORY);
    let mut server = site.start_answering();
    let first = wire::serial(site.dns, "cluster.local.").expect("it answers");
    wait_for_note(&site, &mut server, first);
    site.manifest("web.yaml", &headless("web", 1, &[1, 2]));
    let second = site.new_serial(&mut server, "cluster.local.", first);
    wait_for_note(&site, &mut server, second);
    check_verify(&site, &WITH_NOTES, 0, "is that of serial");
    let status: Value = serde_json::from_str(&site.ask(&["status", "--output", "json"])).unwrap();
    let places = status["notes"].as_array().expect("it has notes");
    let names: Vec<&Value> = places.iter().map(|it| &it["to"]).collect();
    assert_eq!(names, ["file kept/notes.ndjson", "log"]);
    assert!(places[0]["written"].is_string() && places[0]["error"].is_null());
    let metrics = site.metrics();
    for metric in [
        "zonewright_notes_total{to=\"log\",outcome=\"written\"}",
        "zonewright_note_timestamp_seconds{to=\"file kept/notes.ndjson\"}",
    ] {
        assert!(metrics.contains(metric), "{metric} in\n{metrics}");
    }
    // The log has the same note.
    let log = server.log();
    let line = log.lines().rfind(|line| line.contains("newest hashes"));
    assert!(
        line.is_some_and(|it| it.contains("zonewright note 1")),
        "{log}"
    );

    // From now on there is none in the usual rhythm.
    site.write(
        "Corefile",
        &site.corefile(&HISTORY.replace("every 1s", "every 24h")),
    );
    site.ask(&["reload"]);
    let before = notes(&site).len();
    site.manifest("web.yaml", &headless("web", 1, &[1, 2, 3]));
    let last = site.new_serial(&mut server, "cluster.local.", second);
    server.terminate(START);
    let found = notes(&site);
    assert!(found.len() > before);
    let newest = found.last().expect("there are notes");
    assert_eq!(noted_serial(newest, "cluster.local."), Some(last.into()));
    assert_eq!(newest["note"]["zones"].as_array().map(Vec::len), Some(3));
    // Also without a server, and for what was exported.
    check_verify(&site, &WITH_NOTES, 0, "signed with this key");
    site.ask(&["export", "cluster.local", "--history", "--to", "out"]);
    let exported = [&["out/cluster.local.ndjson"][..], &WITH_NOTES].concat();
    check_verify(&site, &exported, 0, "is that of serial");
    check_signed_export(&site, &exported);
    check_openssl(&site, newest);
}

/// The key of the notes checks the signature of an export, too.
fn check_signed_export(site: &Site, exported: &[&str]) {
    let sign = ["--history", "--sign", "key.pem", "--to", "out"];
    site.ask(&[&["export", "cluster.local"][..], &sign].concat());
    check_verify(
        site,
        exported,
        0,
        "manifest.json: good; signed with this key",
    );
    site.write("out/manifest.json.sig", &"x".repeat(64));
    check_verify(site, exported, 1, "manifest.json.sig is not the signature");
    let how = "zonewright verify --note kept/notes.ndjson";
    check_verify(site, &["kept/notes.ndjson"], 2, how);
}

/// Takes a line apart as the manual says, and has openssl check it. A changed text is found.
fn check_openssl(site: &Site, line: &Value) {
    // Sorted keys and no spaces, as `jq -cj .note` prints them.
    let text = line["note"].to_string();
    let signature = line["signature"].as_str().expect("it is text");
    check_with_openssl(site, &text, signature, true);
    let planted = text.replacen("\"serial\":", "\"serial\":1", 1);
    check_with_openssl(site, &planted, signature, false);
    site.write("note.json", &text);
    let single = ["--note", "note.json", "--key", "public.pem"];
    check_verify(site, &single, 0, "note.json: good; notes: 1, ");
    site.write("note.json", &planted);
    check_verify(site, &single, 1, "note.json: BROKEN, changed bytes: line 1");
}

#[test]
fn a_note_that_was_changed_and_a_history_that_lacks_a_noted_version_are_found() {
    if needs::lacks(&["openssl"]) {
        return;
    }
    let site = site_with(&HISTORY.replace("        note log\n", ""));
    let mut server = site.start_answering();
    let first = wire::serial(site.dns, "cluster.local.").expect("it answers");
    wait_for_note(&site, &mut server, first);
    server.terminate(START);
    let path = site.path("kept/notes.ndjson");
    let good = fs::read(&path).expect("there are notes");
    let mut random = fastrand::Rng::with_seed(fuzz::seed());
    for round in 0..20 {
        let (at, bit) = (random.usize(..good.len()), random.u8(..8));
        let mut flipped = good.clone();
        flipped[at] ^= 1 << bit;
        fs::write(&path, flipped).expect("it can be written");
        let output = verify(&site, &WITH_NOTES);
        let what = format!("round {round}, byte {at}, bit {bit}: {}", said(&output));
        assert_eq!(output.status.code(), Some(1), "{what}");
        assert!(said(&output).contains("notes.ndjson: BROKEN"), "{what}");
    }
    fs::write(&path, &good).expect("it can be written");
    check_verify(&site, &WITH_NOTES, 0, "good");

    // Another history with the same serials: a store that somebody made anew.
    fs::rename(site.state(), site.path("old")).expect("it can be moved");
    let mut server = site.start_answering();
    wire::serial(site.dns, "cluster.local.").expect("it answers");
    server.terminate(START);
    let both = fs::read(&path).expect("there are notes");
    let others = both.strip_prefix(&good[..]).expect("notes are added");
    fs::write(site.path("kept/others.ndjson"), others).expect("it can be written");
    fs::write(&path, &good).expect("it can be written");
    check_verify(&site, &WITH_NOTES, 1, "does not have the hash");
    // The old one, with a note of a version that it never had.
    fs::remove_dir_all(site.state()).expect("it was there");
    fs::rename(site.path("old"), site.state()).expect("it can be moved");
    check_verify(&site, &WITH_NOTES, 0, "good");
    // The notes of both in one file, as after a restore.
    let other = fs::read(site.path("kept/others.ndjson")).expect("it was kept");
    fs::write(&path, [&good[..], &other].concat()).expect("it can be written");
    check_verify(
        &site,
        &WITH_NOTES,
        1,
        "the notes are of two histories: version ",
    );
    let text = said(&verify(&site, &WITH_NOTES));
    assert!(
        !text.contains("notes.ndjson: not as it was written"),
        "{text}"
    );
    fs::write(&path, &good).expect("it can be written");
    check_other_key(&site);
    check_verify(
        &site,
        &WITH_NOTES[..2],
        0,
        "the signatures were not checked",
    );
    let about = ["cluster.local", "--note", "kept/notes.ndjson"];
    check_verify(&site, &about, 0, "cluster.local.: good");
    fs::write(&path, "").expect("it can be written");
    check_verify(&site, &WITH_NOTES[..2], 1, "there is no note in it");
}

/// With another key than the one of the notes: nothing was changed, and it is said once.
fn check_other_key(site: &Site) {
    make_keys(site);
    let output = verify(site, &WITH_NOTES);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let other = "kept/notes.ndjson: notes: ";
    assert_eq!(text.matches(other).count(), 1, "{text}");
    assert!(
        text.contains(", signed with another key than --key: with "),
        "{text}"
    );
    for word in ["changed bytes", "not as it was written"] {
        assert!(!text.contains(word), "{text}");
    }
}

#[test]
fn a_place_that_takes_no_notes_stops_nothing_and_is_told_once() {
    if needs::lacks(&["openssl"]) {
        return;
    }
    let site = site_with(&HISTORY.replace("note log", "note file gone/notes"));
    let checked = said(&site.run(&["check"]));
    assert!(checked.contains("gone: this folder of `note file` does not exist"));
    let mut server = site.start_answering();
    let first = wire::serial(site.dns, "cluster.local.").expect("it answers");
    let failing = || {
        let status = site.ask(&["status"]);
        status.contains("notes to file gone/notes: FAILING since")
    };
    server.wait_for("it is told", CHANGE, || failing().then_some(()));
    // Versions and the other notes go on.
    site.manifest("web.yaml", &headless("web", 1, &[1, 2]));
    let second = site.new_serial(&mut server, "cluster.local.", first);
    wait_for_note(&site, &mut server, second);
    let failed = |least: f64| {
        let metrics = site.metrics();
        let name = "zonewright_notes_total{to=\"file gone/notes\",outcome=\"failed\"} ";
        let count = metrics.lines().find_map(|line| line.strip_prefix(name));
        count
            .and_then(|count| count.parse().ok())
            .filter(|count: &f64| *count >= least)
    };
    server.wait_for("two more failures", CHANGE, || failed(3.0));
    let told = |log: &str, what: &str| log.matches(what).count();
    let error = "a note of the newest hashes cannot be written";
    assert_eq!(told(&server.log(), error), 1, "{}", server.log());
    // A folder that appears later is closed to the server by its sandbox, where the kernel has that.
    fs::create_dir(site.path("gone")).expect("a folder can be made");
    if site.ask(&["status"]).contains("landlock in force") {
        server.wait_for("it is told why", CHANGE, || {
            let status = site.ask(&["status"]);
            status
                .contains("restart the server if the folder")
                .then_some(())
        });
        assert!(!site.path("gone/notes").exists());
    }
    server.terminate(START);
    fs::remove_dir_all(site.path("gone")).expect("it was made");
    // Without a sandbox nothing more is needed than the folder.
    let mut server = site.start_with(&["--no-sandbox"]);
    site.wait_until_answering(&mut server);
    server.wait_for("it fails", CHANGE, || failing().then_some(()));
    fs::create_dir(site.path("gone")).expect("a folder can be made");
    server.wait_for("it works", CHANGE, || (!failing()).then_some(()));
    assert_eq!(told(&server.log(), "notes arrive again"), 1);
    server.terminate(START);
}

#[test]
fn a_key_that_is_replaced_is_used_and_a_bad_one_is_refused() {
    if needs::lacks(&["openssl"]) {
        return;
    }
    let site = site_with(HISTORY);
    let mut server = site.start_answering();
    let first = wire::serial(site.dns, "cluster.local.").expect("it answers");
    wait_for_note(&site, &mut server, first);
    let key_of = |line: &Value| line["note"]["key"].clone();
    let old = key_of(&notes(&site)[0]);
    let secret = fs::read_to_string(site.path("key.pem")).expect("it is there");
    // A file that becomes wrong changes nothing.
    site.write(
        "key.pem",
        &secret.replace("PRIVATE KEY-----\nMC4C", "PRIVATE KEY-----\nMC4D"),
    );
    server.wait_for("the log has it", CHANGE, || {
        let log = server_log(&site);
        log.contains("changed files have errors").then_some(())
    });
    assert!(server_log(&site).contains("signing key"));
    let output = site.run(&["check"]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.contains("sign 'key.pem': ") && text.contains("openssl genpkey"),
        "{text}"
    );
    let output = site.run(&["reload", "--state", "state"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    // Another key is used without a reload.
    make_keys(&site);
    server.wait_for("a note with the new key", CHANGE, || {
        let last = notes(&site).pop()?;
        (key_of(&last) != old).then_some(())
    });
    let body = secret.lines().nth(1).expect("a key has a line");
    let shown = [server_log(&site), text, site.ask(&["status"])].concat();
    assert!(!shown.contains(&body[20..40]), "no part of a key is shown");
    server.terminate(START);
}

/// The log of the site's server.
fn server_log(site: &Site) -> String {
    fs::read_to_string(site.path("log")).expect("there is a log")
}

#[test]
fn an_export_is_signed_with_the_key_of_a_corefile() {
    if needs::lacks(&["openssl"]) {
        return;
    }
    let site = site_with("history cluster.local 10.96.0.0/16 {\n        sign key.pem\n    }");
    let mut server = site.start_answering();
    let export = |zones: &[&str]| {
        let rest = [
            "--history",
            "--to",
            "out",
            "-c",
            "Corefile",
            "--state",
            "state",
        ];
        site.run(&[&["export"], zones, &rest].concat())
    };
    let output = export(&["cluster.local", "96.10.in-addr.arpa"]);
    assert!(output.status.success(), "{}", said(&output));
    let checked = ["verify", "out/manifest.json", "--key", "public.pem"];
    let text = said(&site.run(&checked));
    assert!(
        text.starts_with("out/manifest.json: good; signed with this key"),
        "{text}"
    );
    let output = export(&["cluster.local", "244.10.in-addr.arpa"]);
    assert_eq!(output.status.code(), Some(2));
    let want = "the history of 244.10.in-addr.arpa. has no sign";
    assert!(said(&output).contains(want), "{}", said(&output));
    server.terminate(START);
}

/// A line with a note of one version. Its signature is none.
fn unsigned_line(version: u64, serial: u64, hash: &str) -> String {
    let time = "1970-01-01T00:00:00.000Z";
    let zone = json!({
        "zone": "cluster.local.", "version": version, "serial": serial, "time": time, "timeMs": 0, "hash": hash,
    });
    let note = json!({
        "form": "zonewright note 1", "key": "ab".repeat(32), "server": "s", "time": time, "timeMs": 0, "zones": [zone],
    });
    let signature = format!("{}==", "A".repeat(86));
    format!("{{\"note\":{note},\"signature\":\"{signature}\"}}\n")
}

#[test]
fn more_versions_than_a_question_takes_are_refused_with_the_fix() {
    let site = Site::new();
    site.write("Corefile", &site.corefile(""));
    let mut server = site.start_answering();
    let hash = "ab".repeat(32);
    let lines = (1..2000).map(|version| unsigned_line(version, version, &hash));
    site.write("notes", &lines.collect::<String>());
    let output = site.run(&["verify", "--note", "notes", "--state", "state"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("split -l"), "{}", said(&output));
    server.terminate(START);
}

/// Versions of two namespaces in turn, more than are kept: adjacent ones of one namespace would be condensed.
#[test]
fn noted_versions_of_the_old_part_of_the_history_are_looked_for() {
    let site = Site::new();
    site.write(
        "Corefile",
        &site.corefile("history {\n        versions 8\n    }"),
    );
    let twin =
        |hosts: &[u8]| headless("twin", 2, hosts).replace("namespace: test", "namespace: twin");
    site.manifest("web.yaml", &headless("web", 1, &[1]));
    site.manifest("twin.yaml", &twin(&[1]));
    let mut server = site.start_answering();
    let mut serial = wire::serial(site.dns, "cluster.local.").expect("it answers");
    let mut notes = String::new();
    let mut noted = Vec::new();
    for host in 2..16 {
        match host % 2 {
            0 => site.manifest("web.yaml", &headless("web", 1, &[1, host])),
            _ => site.manifest("twin.yaml", &twin(&[1, host])),
        }
        serial = site.new_serial(&mut server, "cluster.local.", serial);
        let newest = site.ask(&["log", "cluster.local", "-n", "1", "-o", "json"]);
        let newest: Value = serde_json::from_str(&newest).expect("a line is JSON");
        let hash = newest["hash"].as_str().expect("a version has one");
        // Each change makes one version.
        let (version, serial) = (u64::from(host), u64::from(serial));
        notes += &unsigned_line(version, serial, hash);
        noted.push((version, serial));
    }
    site.write("notes", &notes);
    let verdict = || {
        let output = verify(&site, &["cluster.local", "--note", "notes", "-o", "json"]);
        let text = String::from_utf8(output.stdout.clone()).expect("it is text");
        let mut lines = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"));
        let found = lines.find(|line| line.get("zone").is_some());
        (
            output.status.code(),
            found.unwrap_or_else(|| panic!("no zone in {}", said(&output))),
        )
    };
    let is_anchored = |zone: &Value, version: u64| {
        let all = zone["anchored"].as_array().expect("a list");
        all.iter().any(|it| it["version"] == version)
    };
    let (code, zone) = verdict();
    assert_eq!(code, Some(0), "{zone}");
    let oldest = noted
        .iter()
        .position(|(_, serial)| zone["oldest"] == *serial);
    // The oldest version of the history names the hash before it. So look further back.
    let oldest = oldest.expect("the history begins with one of them");
    let (old, _) = noted[oldest - 2];
    assert!(is_anchored(&zone, old), "{zone}");
    assert!(zone["archived"].as_u64() >= Some(2), "{zone}");
    server.terminate(START);
    let (code, zone) = verdict();
    assert_eq!(code, Some(0), "{zone}");
    assert!(is_anchored(&zone, old), "{zone}");
}

//! Holds by operators, over the control socket: `freeze`, `rollback`, `release`. They survive kill -9.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use crate::support::process::{Process, let_pass, now};
use crate::support::product::{START, Site, copy_folder, headless};
use crate::support::wire;
use serde_json::Value;

const ZONE: &str = "cluster.local.";
/// A name that changes.
const NAME: &str = "web.test.svc.cluster.local";

/// The addresses of [`NAME`].
fn addresses(site: &Site) -> Vec<String> {
    let mut found = crate::support::zonewright::addresses(site.dns, NAME).unwrap_or_default();
    found.sort();
    found
}

/// What `status` says of the zone.
fn status(site: &Site) -> Value {
    let status = site.ask(&["status", "--output", "json"]);
    let status: Value = serde_json::from_str(&status).expect("it is JSON");
    let zones = status["zones"].as_array().expect("it is a list");
    let zone = zones.iter().find(|zone| zone["zone"] == ZONE);
    zone.expect("the zone is served").clone()
}

/// A metric of the zone's holds.
fn ordered(site: &Site, order: &str) -> bool {
    let want = format!("zonewright_zone_ordered{{zone=\"{ZONE}\",order=\"{order}\"}} 1");
    site.metrics().contains(&want)
}

/// Answers of a command in JSON.
fn ask(site: &Site, args: &[&str]) -> Value {
    let text = site.ask(&[args, &["--output", "json"]].concat());
    serde_json::from_str(text.trim()).expect("it is one JSON object")
}

/// Asks over the control socket; gives the connection, on which nothing was read.
fn asked(site: &Site, request: &Value) -> UnixStream {
    let mut stream = UnixStream::connect(site.state().join("control.sock")).expect("it listens");
    stream
        .set_read_timeout(Some(START))
        .expect("it takes a time");
    let question = serde_json::json!({ "request": request, "output": "text" });
    let question = serde_json::json!({ "zonewright": 2, "question": question });
    stream
        .write_all(format!("{question}\n").as_bytes())
        .expect("it reads");
    stream
}

#[test]
fn readers_that_do_not_read_hold_no_order_up() {
    // security 15: sixteen of them stopped every `freeze` for as long as they liked.
    let site = Site::new();
    site.write("Corefile", &site.corefile(""));
    let hosts: Vec<u8> = (1..=250).collect();
    let many: Vec<String> = (1..=10)
        .map(|number| headless(&format!("web-{number}"), number, &hosts))
        .collect();
    site.manifest("web.yaml", &many.join("---\n"));
    let mut server = site.start_answering();
    let show = serde_json::json!({ "show": { "zone": ZONE, "name": null } });
    let mut head = [0; 13];
    let mut readers = Vec::new();
    for _ in 0..16 {
        let mut reader = asked(&site, &show);
        reader.read_exact(&mut head).expect("the answer begins");
        assert_eq!(&head, b"zonewright 2\n");
        readers.push(reader);
    }
    let mut said = String::new();
    asked(&site, &show)
        .read_to_string(&mut said)
        .expect("it is refused");
    assert!(said.contains("try again"), "{said}");
    let freeze = serde_json::json!({ "zone": ZONE, "order": { "freeze": { "time": null } }, "reason": null });
    let freeze = serde_json::json!({ "order": freeze });
    said.clear();
    asked(&site, &freeze)
        .read_to_string(&mut said)
        .expect("it is answered");
    assert!(said.contains("is frozen with serial"), "{said}");
    let by = status(&site)["order"]["by"].clone();
    let by = by.as_str().expect("it says who");
    assert!(
        by.contains(&format!("process {} (", std::process::id())),
        "{by}"
    );
    server.kill();
}

#[test]
fn a_zone_continues_above_the_serial_of_a_peer_and_of_an_operator() {
    let site = Site::new();
    site.write("Corefile", &site.corefile(""));
    let mut server = site.start_answering();
    let serial = || wire::serial(site.dns, ZONE).expect("it answers");
    let theirs = serial() + 1000;
    let query = wire::Query {
        serial: Some(theirs),
        ..wire::Query::new(ZONE, wire::IXFR)
    };
    wire::tcp(site.dns, &query).expect("it answers");
    server.wait_for("a version above the peer's", START, || {
        (serial() == theirs + 1).then_some(())
    });
    assert!(site.metrics().contains("zonewright_peers_ahead_total"));
    let wanted = (theirs + 500).to_string();
    let said = site.ask(&["advance", ZONE, &wanted, "--reason", "an old primary"]);
    assert_eq!(serial(), theirs + 501, "{said}");
    let log = site.ask(&["log", ZONE]);
    for cause in ["the secondaries", "reason: \"an old primary\""] {
        assert!(log.contains(cause), "{cause}: {log}");
    }
    server.kill();
}

#[test]
fn the_socket_for_readers_answers_questions_and_takes_no_orders() {
    let site = Site::new();
    site.write(
        "Corefile",
        &site.corefile("history {\n        require_reason\n    }"),
    );
    let socket = site.path("read.sock");
    let group = std::fs::metadata(site.path("manifests"))
        .expect("it is ours")
        .gid()
        .to_string();
    let path = socket.to_str().expect("it is UTF-8");
    let options = ["--read-socket", path, "--read-group", &group];
    let mut server = site.start_with(&options);
    site.wait_until_answering(&mut server);
    let metadata = std::fs::metadata(&socket).expect("it listens");
    assert_eq!(metadata.mode() & 0o777, 0o660);
    assert_eq!(metadata.gid().to_string(), group);
    let read = |args: &[&str]| {
        let output = site.run(&[args, &["--state", path]].concat());
        let text = [output.stdout, output.stderr].concat();
        (
            output.status.code(),
            String::from_utf8(text).expect("it is text"),
        )
    };
    for question in [
        &["log", ZONE][..],
        &["show", ZONE],
        &["blame", ZONE],
        &["why", NAME],
        &["verify"],
        &["status"],
    ] {
        let (code, text) = read(question);
        assert_eq!(code, Some(0), "{question:?}: {text}");
    }
    for order in [
        &["freeze", ZONE][..],
        &["release", ZONE],
        &["rollback", ZONE, "2001-01-01", "--for", "1h"],
        &["advance", ZONE, "1"],
    ] {
        let (code, text) = read(&[order, &["--reason", "a test"]].concat());
        assert_eq!(code, Some(2), "{order:?}: {text}");
        assert!(text.contains("this socket takes no orders"), "{text}");
    }
    let refused = site.run(&["freeze", ZONE, "--state", "state"]);
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("add --reason TEXT"), "{said}");
    site.ask(&["freeze", ZONE, "--reason", "moving the shop"]);
    let by = status(&site)["order"]["by"].clone();
    let by = by.as_str().expect("it says who");
    assert!(by.ends_with("reason: \"moving the shop\""), "{by}");
    site.manifest("web.yaml", &headless("web", 1, &[1]));
    server.wait_for("the change to wait", START, || {
        read(&["status"]).1.contains("changes wait").then_some(())
    });
    site.ask(&["release", ZONE, "--reason", "moved"]);
    let (_, log) = read(&["log", ZONE]);
    for reason in ["reason: \"moving the shop\"", "reason: \"moved\""] {
        assert!(log.contains(reason), "{reason}: {log}");
    }
    assert!(server.terminate(START).success());
    assert!(!socket.exists());
}

#[test]
fn a_state_folder_is_its_owners_alone() {
    // security, further findings: 0755 and 0644, so others read all history.
    let site = Site::new();
    site.write("Corefile", &site.corefile(""));
    let mut server = site.start_answering();
    assert!(server.terminate(START).success());
    let db = site.state().join("db");
    for (path, mode) in [(site.state(), 0o755), (db.join("db"), 0o644)] {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("it is ours");
    }
    let mut server = site.start_answering();
    let log = server.log();
    assert!(log.contains("the rights of 2 were corrected"), "{log}");
    let mut folders = vec![site.state()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("it can be read") {
            let entry = entry.expect("it can be read");
            let found = entry.metadata().expect("it is there");
            assert_eq!(found.permissions().mode() & 0o077, 0, "{:?}", entry.path());
            if found.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    server.kill();
}

#[test]
fn a_rollback_holds_over_kill_9_and_ends_by_itself() {
    let site = Site::new();
    site.write("Corefile", &site.corefile(""));
    site.manifest("web.yaml", &headless("web", 1, &[1]));
    let mut server = site.start_answering();
    let old = wire::serial(site.dns, ZONE).expect("it answers");
    site.manifest("web.yaml", &headless("web", 1, &[1, 2]));
    let new = site.new_serial(&mut server, ZONE, old);

    let done = ask(&site, &["rollback", ZONE, &old.to_string(), "--for", "20s"]);
    let rolled = wire::serial(site.dns, ZONE).expect("it answers");
    assert!(rolled > new, "{rolled} {new}");
    assert_eq!(done["serial"], rolled);
    assert_eq!(addresses(&site), ["10.244.1.1"]);
    assert_eq!(status(&site)["order"]["rolledBackTo"], old);
    assert!(ordered(&site, "rolled_back") && !ordered(&site, "frozen"));
    let log = site.ask(&["log", ZONE]);
    let want = format!("rolled back to serial {old} until ");
    assert!(
        log.contains(&want) && log.contains("over the control socket"),
        "{log}"
    );
    site.manifest("web.yaml", &headless("web", 1, &[1, 2, 3]));
    server.wait_for("the change to wait", START, || {
        site.ask(&["status"]).contains("changes wait").then_some(())
    });

    server.kill();
    let mut server = site.start_answering();
    assert_eq!(wire::serial(site.dns, ZONE), Some(rolled));
    assert_eq!(addresses(&site), ["10.244.1.1"]);
    assert!(status(&site)["order"]["by"].is_string());
    server.wait_for("the end of the rollback", START, || {
        (addresses(&site).len() == 3).then_some(())
    });
    server.wait_for("no hold in status", START, || {
        let zone = status(&site);
        (zone["order"].is_null() && zone["held"].is_null()).then_some(())
    });
    let log = site.ask(&["log", ZONE]);
    let want = format!("resumed after the rollback to serial {old} (by the clock)");
    assert!(log.contains(&want), "{log}");
    assert!(site.ask(&["verify", ZONE]).contains("good; 4 versions"));

    server.kill();
    let mut server = site.start_answering();
    assert!(status(&site)["order"].is_null(), "what is over stays over");
    server.terminate(START);
}

/// Begins a rollback of the zone to a serial, for an hour.
fn begin_rollback(site: &Site, to: u32) -> Child {
    Command::new(crate::support::needs::zonewright())
        .args(["rollback", ZONE, &to.to_string(), "--for", "1h", "--state"])
        .arg(site.state())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("zonewright starts")
}

/// Whether a rollback is in force after a restart. If so, the old content is served by a version of the rollback; if
/// not, neither is the case. Work that a kill interrupted is finished soon.
fn is_whole(site: &Site, server: &mut Process, round: u32) -> bool {
    let ordered = server.wait_for("all of the order or nothing", START, || {
        let ordered = !status(site)["order"].is_null();
        let want = if ordered { 1 } else { 2 };
        (addresses(site).len() == want).then_some(ordered)
    });
    let log = site.ask(&["log", ZONE]);
    assert_eq!(is_last_rolled_back(&log), ordered, "round {round}: {log}");
    ordered
}

/// Kills the server during the command: nothing is lost or half done at any moment, and a confirmed rollback stays.
#[test]
fn a_kill_while_a_rollback_is_ordered_leaves_it_whole_or_not_at_all() {
    const ROUNDS: u32 = 8;
    let site = Site::new();
    site.write("Corefile", &site.corefile(""));
    site.manifest("web.yaml", &headless("web", 1, &[1]));
    let mut server = site.start_answering();
    let first = wire::serial(site.dns, ZONE).expect("it answers");
    site.manifest("web.yaml", &headless("web", 1, &[1, 2]));
    site.new_serial(&mut server, ZONE, first);
    let begun = now();
    assert!(begin_rollback(&site, first).wait().unwrap().success());
    let took = now() - begun;
    let mut is_ordered = true;
    for round in 0..=ROUNDS {
        if is_ordered {
            site.ask(&["release", ZONE]);
        }
        server.wait_for("the content before the order", START, || {
            (addresses(&site).len() == 2).then_some(())
        });
        let mut order = begin_rollback(&site, first);
        let mut succeeded = None;
        if round < ROUNDS {
            let_pass(took * round / ROUNDS);
        } else {
            succeeded = Some(order.wait().expect("it ends"));
        }
        let newest = wire::serial(site.dns, ZONE).expect("it answers");
        assert!(!server.kill().success());
        let succeeded = succeeded.unwrap_or_else(|| order.wait().expect("it ends"));
        site.ask(&["verify", ZONE]);
        server = site.start_answering();
        let after = wire::serial(site.dns, ZONE).expect("it answers");
        assert!(after >= newest, "round {round}: {after} after {newest}");
        is_ordered = is_whole(&site, &mut server, round);
        let is_kept = is_ordered || !succeeded.success();
        assert!(is_kept, "round {round}: what was answered is not there");
    }
    assert!(is_ordered, "the last order was waited for");
    server.terminate(START);
}

/// Whether the newest version of a log, which comes first, is a rollback.
fn is_last_rolled_back(log: &str) -> bool {
    let newest = log.split(&format!("\n{ZONE} ")).next();
    newest.is_some_and(|version| version.contains("rolled back to serial"))
}

#[test]
fn a_frozen_zone_stays_over_a_restart_until_it_is_released() {
    let site = Site::new();
    site.write("Corefile", &site.corefile(""));
    site.manifest("web.yaml", &headless("web", 1, &[1]));
    let server = site.start_answering();
    let serial = wire::serial(site.dns, ZONE).expect("it answers");
    assert_eq!(ask(&site, &["freeze", ZONE])["serial"], serial);
    site.manifest("web.yaml", &headless("web", 1, &[2]));
    drop(server);
    let mut server = site.start_answering();
    server.wait_for("the change to wait", START, || {
        site.ask(&["status"]).contains("changes wait").then_some(())
    });
    assert_eq!(addresses(&site), ["10.244.1.1"]);
    assert!(ordered(&site, "frozen"));
    let released = ask(&site, &["release", ZONE]);
    assert_eq!(addresses(&site), ["10.244.1.2"]);
    assert_eq!(
        released["serial"],
        wire::serial(site.dns, ZONE).expect("it answers")
    );
    assert!(!ordered(&site, "frozen"));
    for (wrong, code, says) in [
        (
            &["release", ZONE][..],
            2,
            "no version of cluster.local. is held",
        ),
        (
            &["freeze", "example.com"],
            2,
            "example.com. is not a zone of a cluster",
        ),
        (
            &["rollback", ZONE, "1", "--for", "1h"],
            3,
            "no version of cluster.local. with serial 1",
        ),
        (
            &["rollback", ZONE, "1970-01-02", "--for", "1h"],
            3,
            "history begins at",
        ),
        (
            &["rollback", ZONE, "soon", "--for", "1h"],
            2,
            "is neither a serial nor a time",
        ),
        (
            &["freeze", ZONE, "--for", "soon"],
            2,
            "\"soon\" is not a time",
        ),
    ] {
        let output = site.run(&[wrong, &["--state", "state"]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{wrong:?}: {said}");
        assert!(said.contains(says), "{wrong:?}: {said}");
    }
    server.terminate(START);
    let output = site.run(&["freeze", ZONE, "--state", "state"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no server runs"));
}

#[test]
fn an_order_with_the_reverse_zones_holds_and_releases_all_of_them() {
    const REVERSE: &str = "244.10.in-addr.arpa.";
    let site = Site::new();
    let all = [ZONE, "96.10.in-addr.arpa.", REVERSE];
    site.write("Corefile", &site.corefile(""));
    site.manifest("web.yaml", &headless("web", 1, &[1]));
    let mut server = site.start_answering();
    let first = wire::serial(site.dns, ZONE).expect("it answers");
    let zones = |answers: String| -> Vec<String> {
        let lines = answers
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        let zone = |line: Value| line["zone"].as_str().unwrap().to_owned();
        lines.map(zone).collect()
    };
    let json = ["--with-reverse", "--output", "json"];
    let order = |args: &[&str]| zones(site.ask(&[args, &json].concat()));
    // Nothing is held: what is said is about the zone.
    let refused = site.run(&["release", ZONE, "--with-reverse", "--state", "state"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        said.contains("no version of cluster.local. is held"),
        "{said}"
    );
    assert_eq!(order(&["freeze", ZONE]), all);
    assert_eq!(order(&["release", ZONE]), all);
    // Only one of them is frozen.
    site.ask(&["freeze", REVERSE]);
    assert_eq!(order(&["release", ZONE]), [REVERSE]);
    site.manifest("web.yaml", &headless("web", 1, &[2]));
    server.wait_for("both zones to change", START, || {
        let has_pointer = site
            .ask(&["show", REVERSE])
            .contains("\n2.1.244.10.in-addr.arpa.");
        (has_pointer && addresses(&site) == ["10.244.1.2"]).then_some(())
    });
    let back = ["rollback", ZONE, &first.to_string(), "--for", "1h"];
    assert_eq!(order(&back), all);
    assert_eq!(addresses(&site), ["10.244.1.1"]);
    let log = site.ask(&["log", REVERSE, "-n", "2"]);
    assert!(log.contains("rolled back to serial"), "{log}");
    assert_eq!(order(&["release", ZONE]), all);
    assert_eq!(addresses(&site), ["10.244.1.2"]);
    server.terminate(START);
}

#[test]
fn causes_12_a_freeze_and_its_end_without_a_version_are_in_the_history() {
    let site = Site::new();
    site.write("Corefile", &site.corefile(""));
    site.manifest("web.yaml", &headless("web", 1, &[1]));
    let mut server = site.start_answering();
    let serial = wire::serial(site.dns, ZONE).expect("it answers");
    let freeze = ["freeze", ZONE, "--for", "1h", "--reason", "ticket 4711"];
    assert_eq!(ask(&site, &freeze)["serial"], serial);
    let release = ["release", ZONE, "--reason", "done"];
    assert_eq!(ask(&site, &release)["serial"], serial);
    let acts = |log: String| -> Vec<Value> {
        let lines = log.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.filter(|line: &Value| line["type"] == "act").collect()
    };
    let log = ["log", ZONE, "--output", "json"];
    let online = acts(site.ask(&log));
    let [resumed, frozen] = &online[..] else {
        panic!("{online:?}");
    };
    assert_eq!(frozen["act"], "frozen");
    assert_eq!(resumed["act"], "resumed");
    for (act, reason) in [(frozen, "ticket 4711"), (resumed, "done")] {
        assert_eq!(act["serial"], serial);
        let by = act["by"].as_str().unwrap();
        assert!(by.ends_with(&format!("reason: \"{reason}\"")), "{by}");
        assert_eq!(act["reason"], *reason);
        let command = act["command"].as_str().unwrap();
        assert!(command.contains("zonewright"), "{command}");
        let (uid, process) = (&act["uid"], &act["process"]);
        assert!(by.starts_with(&format!("uid {uid} (")), "{by}");
        assert!(by.contains(&format!(", process {process} (")), "{by}");
    }
    assert!(frozen["untilMs"].as_u64() > frozen["timeMs"].as_u64());
    assert!(resumed["about"].as_str().unwrap().contains("ticket 4711"));
    // A name's own versions have none of them.
    assert!(acts(site.ask(&[&log[..], &["--name", NAME]].concat())).is_empty());
    // A freeze whose entry was lost in a crash is noted at the next start, and only once.
    let (database, before) = (site.state().join("db"), site.path("before"));
    server.terminate(START);
    copy_folder(&database, &before);
    let mut server = site.start_answering();
    ask(&site, &["freeze", ZONE, "--reason", "again"]);
    server.terminate(START);
    std::fs::remove_dir_all(&database).unwrap();
    std::fs::rename(&before, &database).unwrap();
    for _ in 0..2 {
        site.start_answering().terminate(START);
        let state = site.run(&[&log[..], &["--state", "state"]].concat());
        let offline = acts(String::from_utf8(state.stdout).unwrap());
        assert_eq!(offline.len(), 3, "{offline:?}");
        assert_eq!(offline[1..], online[..]);
    }
    let verify = site.run(&["verify", ZONE, "--state", "state"]);
    assert_eq!(verify.status.code(), Some(0));
}

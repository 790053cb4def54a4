//! Commands that an operator gives to a running server: `reload`, `notify`, `stop`, and the question before an order.

use std::fs;
use std::io::Write;
use std::net::UdpSocket;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::support::needs::{self, zonewright};
use crate::support::process::{Process, wait_for};
use crate::support::product::{CHANGE, START, Site, cluster_ip};
use crate::support::wire;
use serde_json::Value;

const ZONE: &str = "cluster.local.";

/// A command, its exit code and what it wrote.
fn told(site: &Site, args: &[&str]) -> (Option<i32>, String) {
    let output = site.run(&[args, &["--state", "state"]].concat());
    (output.status.code(), text_of(&output))
}

fn text_of(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    format!("{out}{err}")
}

#[test]
fn a_corefile_is_reloaded_when_an_operator_says_so_and_a_bad_one_is_refused_with_its_place() {
    let site = Site::new();
    site.manifest("web.yaml", &cluster_ip("web", 1, 80));
    let mut server = site.start_answering();
    let old = wire::serial(site.dns, ZONE).expect("it answers");
    let good = site.corefile("");
    site.write("Corefile", &good.replace("ttl 5", "ttl 17"));
    let (code, text) = told(&site, &["reload"]);
    assert_eq!(
        (code, text.as_str()),
        (Some(0), "the Corefile is read and in use\n")
    );
    site.new_serial(&mut server, ZONE, old);
    assert!(site.ask(&["show", ZONE]).contains(" 17 IN A "));
    site.write(
        "Corefile",
        &good.replace("ttl 5", "ttl 17\n        nonsense\n        more"),
    );
    let (code, text) = told(&site, &["reload"]);
    assert_eq!(code, Some(2), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with("Corefile:6:9: ") && lines[1].starts_with("Corefile:7:9: "),
        "{text}"
    );
    assert_eq!(lines[2..], ["The configuration before it stays in use"]);
    let status = site.ask(&["status"]);
    assert!(
        status.contains("the last Corefile is not in use: Corefile:6:9: "),
        "{status}"
    );
    assert!(wire::serial(site.dns, ZONE).is_some(), "it goes on");
    site.write("Corefile", &good);
    let json = site.ask(&["reload", "--output", "json"]);
    assert_eq!(json, "{\"reloaded\":true,\"schema\":1}\n");
    assert!(!site.ask(&["status"]).contains("not in use"));
    assert!(
        server.log().contains("over the control socket"),
        "{}",
        server.log()
    );
    server.terminate(START);
    let (code, text) = told(&site, &["reload"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("no server runs"), "{text}");
}

/// Answers each NOTIFY; gives the number of those that came until none came for a while.
fn answer_notifies(secondary: &UdpSocket, quiet: Duration) -> usize {
    let mut count = 0;
    secondary.set_read_timeout(Some(quiet)).expect("it is set");
    let mut message = [0; 1500];
    while let Ok((octets, from)) = secondary.recv_from(&mut message) {
        let is_notify = message[2] >> 3 & 15 == 4;
        count += usize::from(is_notify);
        message[2] |= 0x80;
        secondary
            .send_to(&message[..octets], from)
            .expect("it can be sent");
    }
    count
}

#[test]
fn secondaries_are_notified_again_when_an_operator_says_so() {
    let site = Site::new();
    let secondary = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    let address = secondary.local_addr().expect("it is bound");
    site.manifest("web.yaml", &cluster_ip("web", 1, 80));
    let (code, text) = told(&site, &["notify", ZONE]);
    assert_eq!(code, Some(1), "{text}");
    let mut server = site.start_answering();
    let (code, text) = told(&site, &["notify", ZONE]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("has no secondary to notify"), "{text}");
    let to = format!("to {address}\n        allow 127.0.0.1");
    site.write(
        "Corefile",
        &site.corefile("").replace("allow 127.0.0.1", &to),
    );
    site.ask(&["reload"]);
    let quiet = Duration::from_secs(2);
    assert!(answer_notifies(&secondary, quiet) >= 3, "one for each zone");
    let serial = wire::serial(site.dns, ZONE).expect("it answers");
    let line: Value =
        serde_json::from_str(&site.ask(&["notify", "Cluster.Local", "--output", "json"]))
            .expect("it is JSON");
    assert_eq!(line["serial"], serial);
    assert_eq!(line["notified"][0], address.to_string());
    assert_eq!(answer_notifies(&secondary, quiet), 1);
    let (code, text) = told(&site, &["notify", "other.example"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("no zone other.example. here"), "{text}");
    server.terminate(START);
}

#[test]
fn a_server_ends_when_its_operator_says_so_and_no_reader_can_end_it() {
    use std::os::unix::fs::MetadataExt;
    let site = Site::new();
    let group = fs::metadata(site.path("manifests"))
        .expect("it is ours")
        .gid()
        .to_string();
    let socket = site.path("read.sock");
    let path = socket.to_str().expect("it is UTF-8");
    let mut server = site.start_with(&["--read-socket", path, "--read-group", &group]);
    site.wait_until_answering(&mut server);
    for order in [&["stop"][..], &["reload"], &["notify", ZONE]] {
        let output = site.run(&[order, &["--state", path]].concat());
        assert_eq!(output.status.code(), Some(2), "{order:?}");
        assert!(
            text_of(&output).contains("this socket takes no orders"),
            "{order:?}"
        );
    }
    let (code, text) = told(&site, &["stop"]);
    assert_eq!((code, text.as_str()), (Some(0), "the server ends\n"));
    let ended = wait_for("the end", CHANGE, String::new, || server.ended());
    assert!(ended.success());
    let (code, text) = told(&site, &["stop"]);
    assert_eq!(code, Some(1), "{text}");
}

/// Gives a command on a terminal, with this typed.
fn on_terminal(site: &Site, line: &str, typed: &str) -> (Option<i32>, String) {
    let line = format!("{} {line} --state state", zonewright().display());
    let mut child = Command::new(needs::program("script"))
        .args(["-qec", &line, "/dev/null"])
        .current_dir(site.path(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it can be run");
    let mut input = child.stdin.take().expect("it was asked for");
    input.write_all(typed.as_bytes()).expect("it is read");
    let output = child.wait_with_output().expect("it ends");
    drop(input);
    (output.status.code(), text_of(&output))
}

#[test]
fn an_order_about_many_records_is_confirmed_on_a_terminal() {
    let site = Site::new();
    let services: Vec<String> = (0..40_u8)
        .map(|number| cluster_ip(&format!("s{number}"), number, 80))
        .collect();
    site.manifest("many.yaml", &services.join("---\n"));
    let mut server = site.start_answering();
    let is_frozen = || site.ask(&["status"]).contains("FROZEN");
    let (code, text) = on_terminal(&site, "freeze cluster.local", "n\n");
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("without an end? [y/N]") && text.contains("nothing was done"),
        "{text}"
    );
    assert!(!is_frozen());
    let (code, text) = on_terminal(&site, "freeze cluster.local --for 1h", "y\n");
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("for 1h? [y/N]"), "{text}");
    assert!(is_frozen());
    let (code, text) = on_terminal(&site, "release cluster.local --yes", "");
    assert_eq!(code, Some(0), "{text}");
    assert!(!text.contains("[y/N]") && !is_frozen(), "{text}");
    // Without a terminal nobody is asked, and a freeze without an end warns.
    let text = site.ask(&["freeze", "cluster.local"]);
    assert!(
        text.contains("warning: this freeze does not end by itself"),
        "{text}"
    );
    let text = site.ask(&["freeze", "cluster.local", "--for", "1h"]);
    assert!(!text.contains("warning"), "{text}");
    server.terminate(START);
}

#[test]
fn a_log_on_one_line_each_has_all_versions_and_acts() {
    let site = Site::new();
    site.manifest("web.yaml", &cluster_ip("web", 1, 80));
    let mut server = site.start_answering();
    let serial = site.new_serial(&mut server, ZONE, 0);
    site.manifest("db.yaml", &cluster_ip("db", 2, 80));
    site.new_serial(&mut server, ZONE, serial);
    site.ask(&["freeze", ZONE, "--for", "1h", "--reason", "ticket 7"]);
    let entries = site.ask(&["log", ZONE, "--output", "json"]);
    let text = site.ask(&["log", ZONE, "--oneline"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), entries.lines().count(), "{text}");
    assert!(
        lines[0].contains(" frozen") && lines[0].ends_with("reason: \"ticket 7\""),
        "{text}"
    );
    assert!(
        lines[1].contains(" records): applied Service test/db ("),
        "{text}"
    );
    let (code, text) = told(&site, &["log", ZONE, "--oneline", "--output", "json"]);
    assert_eq!(code, Some(2), "{text}");
    server.terminate(START);
}

#[test]
fn a_status_that_is_watched_goes_on_over_a_restart_of_the_server() {
    let site = Site::new();
    let (code, text) = told(&site, &["status", "--watch"]);
    assert_eq!(code, Some(1), "{text}");
    let mut server = site.start_answering();
    let mut command = Command::new(zonewright());
    command
        .current_dir(site.path(""))
        .args(["status", "--watch", "1", "--state", "state"]);
    let log = site.path("watched");
    let mut watched = Process::spawn("status", &mut command, &log);
    let shown = |word: &str| {
        let text = fs::read_to_string(&log).expect("it is there");
        text.matches(word).count()
    };
    let zone = "zone cluster.local. serial";
    watched.wait_for("two reports", START, || (shown(zone) >= 2).then_some(()));
    server.terminate(START);
    watched.wait_for("the end", START, || {
        (shown("no server runs") >= 1).then_some(())
    });
    let before = shown(zone);
    let mut server = site.start_answering();
    watched.wait_for("another report", START, || {
        (shown(zone) > before).then_some(())
    });
    watched.kill();
    server.terminate(START);
}

#[test]
fn a_secondary_that_never_asks_is_behind_in_its_zones_and_silent_but_not_in_a_catalog() {
    const CATALOG: &str = "catalog.invalid.";
    let site = Site::new();
    site.manifest("web.yaml", &cluster_ip("web", 1, 80));
    let port = site.dns.port();
    let corefile = site
        .corefile("catalog catalog.invalid")
        .replace("allow 127.0.0.1", "to 127.0.0.2:1")
        .replacen(
            "cluster.local:",
            &format!("catalog.invalid:{port} cluster.local:"),
            1,
        );
    site.write("Corefile", &corefile);
    let mut server = site.start_answering();
    server.wait_for("the catalog", START, || wire::serial(site.dns, CATALOG));
    // The names of its metrics, and its line of `status`.
    let of = |zone: &str| -> (String, Value) {
        let labels = format!("{{zone=\"{zone}\",secondary=\"127.0.0.2:1\"}}");
        let metrics = site.metrics();
        let lines = metrics.lines();
        let names = lines.filter_map(|line| Some(line.split_once(&labels)?.0));
        let status: Value =
            serde_json::from_str(&site.ask(&["status", "--output", "json"])).unwrap();
        let mut secondaries = status["secondaries"].as_array().unwrap().iter();
        let line = secondaries.find(|line| line["zone"] == zone).unwrap();
        (Vec::from_iter(names).join(" "), line.clone())
    };
    let (metrics, line) = of(ZONE);
    assert_eq!(
        metrics,
        "zonewright_secondary_lag_seconds zonewright_secondary_silent_seconds"
    );
    assert!(
        line["lagSeconds"].is_u64() && line["askedSeconds"].is_null(),
        "{line}"
    );
    let (metrics, line) = of(CATALOG);
    assert_eq!(metrics, "");
    assert!(line["lagSeconds"].is_null(), "{line}");
    let secondary = UdpSocket::bind("127.0.0.2:0").unwrap();
    let query = wire::Query::new(ZONE, wire::SOA).encode();
    secondary.send_to(&query, site.dns).unwrap();
    server.wait_for("it is heard", START, || of(ZONE).1["askedSeconds"].as_u64());
    server.terminate(START);
}

#[test]
fn a_store_that_refuses_versions_is_in_the_status_until_it_takes_them() {
    let site = Site::new();
    site.manifest("web.yaml", &cluster_ip("web", 1, 80));
    let mut server = site.start_answering();
    let old = wire::serial(site.dns, ZONE).expect("it answers");
    server.terminate(START);
    // After a clean end the file of serials is written anew before the next version, and now it cannot be.
    let obstacle = site.path("state/serials.next");
    fs::create_dir(&obstacle).expect("the state folder is there");
    site.manifest("web.yaml", &cluster_ip("web", 2, 80));
    let mut server = site.start_answering();
    const TROUBLE: &str = "a version could not be stored: ";
    let status = server.wait_for("the trouble in the status", CHANGE, || {
        let status = site.ask(&["status"]);
        status.contains(TROUBLE).then_some(status)
    });
    assert!(status.contains("the last version is served"), "{status}");
    assert_eq!(wire::serial(site.dns, ZONE), Some(old));
    fs::remove_dir(&obstacle).expect("it is empty");
    site.new_serial(&mut server, ZONE, old);
    assert!(!site.ask(&["status"]).contains(TROUBLE));
    server.terminate(START);
}

//! What operators order, over the control socket: `freeze`, `rollback`, `release`; it holds over kill -9.

use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::support::process::{Process, now};
use crate::support::product::{START, Site, headless};
use crate::support::wire;
use serde_json::Value;

/// The zone.
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

/// A metric of the zone's orders.
fn ordered(site: &Site, order: &str) -> bool {
    let want = format!("zonewright_zone_ordered{{zone=\"{ZONE}\",order=\"{order}\"}} 1");
    site.metrics().contains(&want)
}

/// Answers of a command in JSON.
fn ask(site: &Site, args: &[&str]) -> Value {
    let text = site.ask(&[args, &["--output", "json"]].concat());
    serde_json::from_str(text.trim()).expect("it is one JSON object")
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
    assert!(status(&site)["order"].is_null() && status(&site)["held"].is_null());
    let log = site.ask(&["log", ZONE]);
    let want = format!("resumed after the rollback to serial {old} (by the clock)");
    assert!(log.contains(&want), "{log}");
    assert!(site.ask(&["verify", ZONE]).contains("good; 4 versions"));

    server.kill();
    let mut server = site.start_answering();
    assert!(status(&site)["order"].is_null(), "what is over stays over");
    server.terminate(START);
}

/// Lets a time pass. Nothing is awaited: the moment itself is what the test is about.
fn let_pass(time: Duration) {
    let (_keep, never) = channel::<()>();
    assert_eq!(never.recv_timeout(time), Err(RecvTimeoutError::Timeout));
}

/// Begins to order the zone back to a serial, for an hour.
fn begin_rollback(site: &Site, to: u32) -> Child {
    Command::new(crate::support::needs::zonewright())
        .args(["rollback", ZONE, &to.to_string(), "--for", "1h", "--state"])
        .arg(site.state())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("zonewright starts")
}

/// Whether an order stands after a restart: then the old content is served, by a version that says so, and otherwise
/// neither. What a kill left to be done is done soon.
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

/// The server dies while the order is given: at no moment is anything lost or half done, and what was answered holds.
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
    for (wrong, says) in [
        (&["release", ZONE][..], "nothing of cluster.local. is held"),
        (&["freeze", "example.com"], "there is no zone example.com."),
        (
            &["rollback", ZONE, "1", "--for", "1h"],
            "no version of cluster.local. with serial 1",
        ),
        (
            &["rollback", ZONE, "1970-01-02", "--for", "1h"],
            "history begins at",
        ),
        (
            &["rollback", ZONE, "now", "--for", "1h"],
            "is neither a serial nor a time",
        ),
        (&["freeze", ZONE, "--for", "soon"], "\"soon\" is not a time"),
    ] {
        let output = site.run(&[wrong, &["--state", "state"]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {said}");
        assert!(said.contains(says), "{wrong:?}: {said}");
    }
    server.terminate(START);
    let output = site.run(&["freeze", ZONE, "--state", "state"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no server runs"));
}

//! `log --follow`: each version once, in order, over restarts of the server, and on from the serial seen last.

use std::process::Command;

use crate::support::process::Process;
use crate::support::product::{START, Site, headless};
use crate::support::wire;
use serde_json::Value;

/// What a stream says.
const FILE: &str = "stream";
const ZONE: &str = "cluster.local.";

/// Starts a stream; what it says is in a file.
fn stream(site: &Site, args: &[&str]) -> Process {
    std::fs::write(site.path(FILE), "").expect("a file can be written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_zonewright"));
    command
        .current_dir(site.path("."))
        .args(args)
        .args(["--state", "state"]);
    Process::spawn("stream", &mut command, &site.path(FILE))
}

/// What the stream said so far.
fn said(site: &Site) -> String {
    std::fs::read_to_string(site.path(FILE)).expect("it was made")
}

/// The serials that the stream gave so far.
fn serials(site: &Site) -> Vec<u64> {
    let text = said(site);
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let line = |line: &str| -> Value { serde_json::from_str(line).expect("each line is JSON") };
    let serial = |line: Value| line["serial"].as_u64().expect("it has a serial");
    whole.lines().map(line).map(serial).collect()
}

/// Makes a version; gives its serial.
fn change(site: &Site, server: &mut Process, host: u8) -> u64 {
    let old = wire::serial(site.dns, ZONE).expect("it answers");
    site.manifest("web.yaml", &headless("web", 1, &[host]));
    site.new_serial(server, ZONE, old).into()
}

#[test]
fn a_stream_gives_each_version_once_over_restarts_and_goes_on_where_it_stopped() {
    let site = Site::new();
    site.manifest("web.yaml", &headless("web", 1, &[1]));
    let mut server = site.start_answering();
    let first = u64::from(wire::serial(site.dns, ZONE).expect("it answers"));
    let json = ["--follow", "--output", "json"];
    let since = first.to_string();
    let args = [&["log", ZONE, "--since", &since][..], &json].concat();
    let mut live = stream(&site, &args);
    let mut made: Vec<u64> = (2..5)
        .map(|host| change(&site, &mut server, host))
        .collect();
    live.wait_for("three versions", START, || {
        (serials(&site) == made).then_some(())
    });
    server.kill();
    let mut server = site.start_answering();
    made.push(change(&site, &mut server, 5));
    live.wait_for("one more", START, || (serials(&site) == made).then_some(()));
    drop(live);

    // On from the second.
    let since = made[1].to_string();
    let args = [&["log", ZONE, "--since", &since][..], &json].concat();
    let mut again = stream(&site, &args);
    made.push(change(&site, &mut server, 6));
    again.wait_for("the rest", START, || {
        (serials(&site) == made[2..]).then_some(())
    });
    drop(again);
    let mut whole = stream(&site, &["export", ZONE, "--follow", "--since", &since]);
    whole.wait_for("the rest", START, || {
        let done = serials(&site) == made[2..];
        (done && said(&site).contains("\"previousHash\"")).then_some(())
    });
    drop(whole);
    // From one that is not kept: what was missed is said, and all that is there follows.
    let args = [&["log", ZONE, "--since", "7"][..], &json].concat();
    let mut late = stream(&site, &args);
    let gap = late.wait_for("a gap", START, || {
        let text = said(&site);
        let line = text.lines().next().map(ToOwned::to_owned);
        line.filter(|_| text.lines().count() > made.len() + 1)
    });
    assert!(gap.contains("\"type\":\"gap\""), "{gap}");
    drop(late);

    for (args, says) in [
        (
            &["log", "--follow", "--since", "7"][..],
            "serial 7 of which zone?",
        ),
        (
            &["log", "example.com", "--follow"],
            "no zone example.com. here",
        ),
    ] {
        let output = site.run(&[args, &["--state", "state"]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(says), "{args:?}: {said}");
    }
    let from = site.ask(&["log", ZONE, "--since", &since]);
    assert_eq!(
        from.matches(ZONE).count() - from.matches(".cluster.local.").count(),
        4,
        "{from}"
    );
    let plain = site.ask(&["diff", ZONE, &since]);
    assert!(!plain.contains('\u{1b}'), "no terminal, no colours");
    let coloured = site.ask(&["diff", ZONE, &since, "--color", "always"]);
    assert!(coloured.contains("\u{1b}[31m-"), "{coloured}");
    server.terminate(START);
}

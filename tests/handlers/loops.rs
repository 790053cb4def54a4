//! `loop`: both servers end when their forwarder is themselves, and go on when it is not.

use std::path::Path;
use std::time::Duration;

use super::run::spawn;
use crate::support::ports;
use crate::support::process::{Process, now, poll_for};
use crate::support::upstream::Upstream;
use crate::support::wire;

/// How long a start or an end may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a question that is asked once is waited for a second time.
const AGAIN: Duration = Duration::from_secs(2);

/// A server with `loop` whose forwarder is at this port.
fn start(is_ours: bool, folder: &Path, port: u16, to: u16) -> Process {
    let corefile = folder.join(format!("Corefile.{port}"));
    let text = format!(
        ".:{port} {{\n    bind 127.0.0.1\n    errors\n    loop\n    forward . 127.0.0.1:{to}\n}}\n"
    );
    std::fs::write(&corefile, text).unwrap();
    spawn(is_ours, &corefile, folder)
}

/// What ends with a loop must end, with the text that is looked for.
pub fn check_loops() {
    for is_ours in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let port = ports::free();
        let mut process = start(is_ours, folder.path(), port, port);
        let state = format!("{is_ours}");
        let ended =
            crate::support::process::wait_for("the end", PATIENCE, || state, || process.ended());
        assert!(!ended.success(), "{ended}");
        let log = process.log();
        for part in [
            "plugin/loop: Loop (127.0.0.1:",
            &format!(
                " -> 127.0.0.1:{port}) detected for zone \".\", see https://coredns.io/plugins/loop#troubleshooting. Query: \"HINFO "
            ),
        ] {
            assert!(log.replace("\\\"", "\"").contains(part), "{part} in\n{log}");
        }
        // Once in the log, and once as the reason of the end.
        let times = log.matches("detected for zone").count();
        assert!(times <= 2, "{log}");
    }
}

/// Without a loop the server goes on, and the question is seen once.
pub fn check_no_loop() {
    for is_ours in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (port, upstream) = (ports::free(), Upstream::start(1, "ok"));
        let to = upstream.address.port();
        let mut process = start(is_ours, folder.path(), port, to);
        process.wait_for("the question", PATIENCE, || {
            (upstream.seen()[0] > 0).then_some(())
        });
        let again = || (upstream.seen()[0] > 1).then_some(());
        let seen = poll_for(now() + AGAIN, Duration::from_millis(50), again);
        assert!(seen.is_none(), "the question was asked again");
        let query = wire::Query::new("a.test", wire::A);
        let reply = process.wait_for("an answer", PATIENCE, || {
            wire::udp(ports::loopback(port), &query).ok()
        });
        assert_eq!(reply.answers.len(), 1);
        assert!(process.ended().is_none());
    }
}

//! A zone is given away where it is asked for, and nowhere else.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a helper of a test that fails fails the test"
)]

use std::fs;
use std::process::Command;
use std::time::Duration;

use support::process::Process;
use support::{needs, ports, wire};

mod support;

/// How long a start may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// One block with a zone on each of two ports: each is transferred on its own port alone. What is no key of a listener
/// passes by what the block says of its questions.
#[test]
fn a_zone_of_another_port_of_its_block_is_not_transferred() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let (one, other) = (ports::free_address(), ports::free_address());
    for zone in ["one.example", "other.example"] {
        let text = format!(
            "$ORIGIN {zone}.\n$TTL 60\n@ SOA ns hm 1 300 30 86400 5\n@ NS ns\nns A 192.0.2.1\n"
        );
        write(zone, &text);
    }
    write(
        "Corefile",
        &format!(
            "one.example:{} other.example:{} {{\n bind 127.0.0.1\n file one.example one.example\n \
             file other.example other.example\n transfer {{\n  allow 127.0.0.1\n }}\n}}\n",
            one.port(),
            other.port()
        ),
    );
    let mut command = Command::new(needs::zonewright());
    command
        .args(["run", "--corefile", "Corefile", "--state", "state"])
        .current_dir(folder.path());
    let log = folder.path().join("log");
    let mut process = Process::spawn("zonewright", &mut command, &log);
    for (address, zone) in [(one, "one.example"), (other, "other.example")] {
        let taken = process.wait_for("its zone", PATIENCE, || wire::axfr(address, zone).ok());
        assert_eq!(taken.len(), 3, "{zone}");
    }
    for (address, zone) in [(one, "other.example"), (other, "one.example")] {
        assert_eq!(wire::serial(address, zone), None, "{zone}");
        let refused = wire::axfr(address, zone).unwrap_err().to_string();
        assert!(refused.contains('9'), "NOTAUTH, not {refused}");
    }
}

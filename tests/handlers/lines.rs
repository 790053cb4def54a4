//! What our log says of questions that the server asks itself, and of transfers. CoreDNS has lines of queries for both.

use std::time::Duration;

use super::run::spawn;
use crate::support::ports;
use crate::support::upstream::Upstream;
use crate::support::wire::{self, Query};

/// How long a start may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The lines of a log that name the zone.
pub fn lines_of_a_zone() -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::start(1, "ok");
    let server = ports::free_address();
    let text = format!(
        ".:{} {{\n bind 127.0.0.1\n log . \"{{name}} {{type}}\"\n file db z.test\n transfer z.test {{\n  to *\n }}\n forward . {}\n}}\n",
        server.port(),
        upstream.address
    );
    let zone = "$TTL 5\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\nalias CNAME target.test.\n";
    std::fs::write(folder.path().join("db"), zone).unwrap();
    let corefile = folder.path().join("Corefile");
    std::fs::write(&corefile, text).unwrap();
    let mut process = spawn(true, &corefile, folder.path());
    process.wait_for("a listener", PATIENCE, || {
        std::net::TcpStream::connect(server).ok()
    });
    process.wait_for("the zone", PATIENCE, || wire::serial(server, "z.test"));
    let reply = wire::udp(server, &Query::new("alias.z.test.", wire::A)).unwrap();
    assert_eq!(reply.answers.len(), 2, "the target is looked up: {reply:?}");
    wire::axfr(server, "z.test.").unwrap();
    wire::udp(server, &Query::new("end.test.", wire::A)).unwrap();
    process.wait_for("the line of the last question", PATIENCE, || {
        process_has(folder.path(), "end.test. A").then_some(())
    });
    let log = process.log();
    let lines = log.lines().filter(|line| line.contains(".test"));
    lines.map(ToOwned::to_owned).collect()
}

/// Whether our log has this.
fn process_has(folder: &std::path::Path, text: &str) -> bool {
    let log = std::fs::read_to_string(folder.join("log.zonewright"));
    log.is_ok_and(|log| log.contains(text))
}

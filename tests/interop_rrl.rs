//! The same flood from a forged source, to NSD with its limit of replies and to us with ours: the victim gets no more
//! octets from us, and a resolver in the same network is answered over TCP.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use crate::support::needs;
use crate::support::ports;
use crate::support::process::{Process, now, wait_for};
use crate::support::product::{START, Site};
use crate::support::wire::{self, Query};

/// Replies of one kind that a network gets in a second.
const LIMIT: usize = 20;
/// The queries of the flood, spread over these seconds.
const QUERIES: u32 = 3000;
const SECONDS: u32 = 3;

const ZONE: &str = "@ 300 SOA ns hostmaster 1 300 30 86400 30\n@ 300 NS ns\nns 300 A 127.0.0.1\n";

/// The octets that come back from a flood of one question.
fn flood(server: SocketAddr, name: &str) -> usize {
    let victim = UdpSocket::bind("127.0.0.1:0").unwrap();
    victim.set_nonblocking(true).unwrap();
    let query = Query::new(name, wire::TXT).edns(1232).encode();
    let (mut octets, mut buffer) = (0, [0; 4096]);
    let mut receive = || {
        while let Ok(length) = victim.recv(&mut buffer) {
            octets += length;
        }
    };
    let start = now();
    for number in 0..QUERIES {
        let due = start + Duration::from_secs(1) * number * SECONDS / QUERIES;
        while now() < due {
            receive();
        }
        victim.send_to(&query, server).unwrap();
    }
    let end = now() + Duration::from_millis(500);
    while now() < end {
        receive();
    }
    octets
}

#[test]
fn a_flood_from_a_forged_source_gets_no_more_from_us_than_from_nsd() {
    if needs::lacks(&["nsd"]) {
        return;
    }
    let site = Site::new();
    // A reply of some size, and one that says no.
    let text = format!("{ZONE}big 300 TXT {}\n", "\"0123456789abcdef\" ".repeat(60));
    fs::write(site.path("db"), text).unwrap();
    let nsd = ports::free_address();
    let configuration = format!(
        "server:\n  ip-address: 127.0.0.1@{port}\n  port: {port}\n  username: \"\"\n  chroot: \"\"\n  database: \"\"\n  \
         zonesdir: \".\"\n  pidfile: \"\"\n  zonelistfile: \"zone.list\"\n  xfrdfile: \"xfrd.state\"\n  xfrdir: \".\"\n  \
         server-count: 1\n  rrl-ratelimit: {LIMIT}\n  rrl-slip: 2\nremote-control:\n  control-enable: no\n\
         zone:\n  name: \"example.org\"\n  zonefile: \"db\"\n",
        port = nsd.port()
    );
    fs::write(site.path("nsd.conf"), configuration).unwrap();
    let mut command = Command::new(needs::program("nsd"));
    command
        .args(["-d", "-c", "nsd.conf"])
        .current_dir(site.path("."));
    let _nsd = Process::spawn("nsd", &mut command, &site.path("nsd.log"));
    let (dns, db) = (site.dns, site.path("db"));
    site.write(
        "Corefile",
        &format!(
            "example.org:{} {{\n    bind 127.0.0.1\n    file {}\n    rrl {{\n        responses_per_second {LIMIT}\n        \
             allow none\n    }}\n}}\n",
            dns.port(),
            db.display()
        ),
    );
    let mut server = site.start();
    for address in [nsd, dns] {
        server.wait_for("an SOA", START, || wire::serial(address, "example.org"));
    }
    for name in ["big.example.org", "missing.example.org"] {
        let theirs = flood(nsd, name);
        let ours = flood(dns, name);
        eprintln!("{name}: {ours} octets from us, {theirs} from NSD, for {QUERIES} queries");
        assert!(theirs > 0 && ours > 0, "{name}: some are answered");
        assert!(
            ours <= theirs + theirs / 20,
            "{name}: {ours} octets, {theirs} from NSD"
        );
    }
    // A resolver in the same network: its datagram may be dropped, TC sends it to TCP.
    let query = Query::new("big.example.org", wire::TXT);
    let said = wait_for("TC or an answer", START, String::new, || {
        wire::udp(dns, &query).ok()
    });
    assert!(said.is_truncated() || !said.answers.is_empty());
    assert_eq!(wire::tcp(dns, &query).unwrap().answers.len(), 1);
    server.kill();
}

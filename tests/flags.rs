//! CoreDNS's flags start the server, which then prints, logs and counts as CoreDNS does.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::needs::zonewright;
use crate::support::process::Process;
use crate::support::product::{CHANGE, START, Site, ZONES, cluster_ip};
use crate::support::wire::{self, Connection, Query};
use socket2::{Domain, Socket, Type};

/// A command in the folder of a site.
fn command(site: &Site, args: &[&str]) -> Command {
    let mut command = Command::new(zonewright());
    let state = site.state();
    command
        .current_dir(state.parent().expect("it lies in the folder"))
        .args(args);
    command
}

#[test]
fn flags_of_coredns_start_what_looks_like_it() {
    let site = Site::new();
    site.manifest("web.yaml", &cluster_ip("web", 1, 80));
    let (with_port, port) = (
        site.corefile("log\n    errors"),
        site.dns.port().to_string(),
    );
    site.write("Corefile", &with_port.replace(&format!(":{port} "), " "));
    let args = [
        "-conf",
        "Corefile",
        "-dns.port",
        &port,
        "-pidfile",
        "pid",
        "--state",
        "state",
    ];
    let log = site.path("log");
    let mut server = Process::spawn("zonewright", &mut command(&site, &args), &log);
    server.wait_for("an answer", START, || wire::serial(site.dns, ZONES[0]));
    let pid = fs::read_to_string(site.path("pid")).expect("it is there");
    assert_eq!(pid, format!("{}\n", server.id()));
    let name = "web.test.svc.cluster.local.";
    wire::udp(site.dns, &Query::new(name, 1)).expect("it answers");
    wire::tcp(site.dns, &Query::new("no.test.svc.cluster.local.", 28)).expect("it answers");
    wire::udp(site.dns, &Query::new("example.org.", 1)).expect("it answers");
    let said = server.log();
    for line in [
        format!("cluster.local.:{port} on 127.0.0.1\n"),
        format!("96.10.in-addr.arpa.:{port} on 127.0.0.1\n"),
        format!("zonewright-{}\nlinux/", env!("CARGO_PKG_VERSION")),
        "[INFO] started".to_owned(),
        format!("\"A IN {name} udp 44 false 512\" NOERROR qr,aa"),
    ] {
        assert!(said.contains(&line), "no {line:?} in\n{said}");
    }
    let count = site.metrics();
    let at = format!("server=\"dns://127.0.0.1:{port}\",zone=\"cluster.local.\",view=\"\"");
    for line in [
        format!("coredns_dns_requests_total{{{at},proto=\"udp\",family=\"1\",type=\"A\"}} 1.0"),
        format!("coredns_dns_requests_total{{{at},proto=\"tcp\",family=\"1\",type=\"AAAA\"}} 1.0"),
        format!("coredns_dns_responses_total{{{at},rcode=\"NXDOMAIN\",plugin=\"kubernetes\"}} 1.0"),
        format!("coredns_dns_request_duration_seconds_bucket{{le=\"8.192\",{at}}}"),
        format!("coredns_dns_request_size_bytes_count{{{at},proto=\"tcp\"}} 1"),
        format!("coredns_plugin_enabled{{{at},name=\"kubernetes\"}} 1.0"),
        "zone=\"dropped\",view=\"\",rcode=\"REFUSED\",plugin=\"\"} 1.0".to_owned(),
        "coredns_panics_total 0.0".to_owned(),
    ] {
        assert!(count.contains(&line), "no {line:?} in\n{count}");
    }
    // Asked by itself every second.
    server.wait_for("its own health", CHANGE, || {
        let count = site.metrics();
        let none = "coredns_health_request_duration_seconds_count 0\n";
        (!count.contains(none)).then_some(())
    });
    assert!(server.terminate(START).success());
    assert!(!site.path("pid").exists());
}

#[test]
fn json_lines_have_the_line_of_a_query() {
    let site = Site::new();
    site.manifest("web.yaml", &cluster_ip("web", 1, 80));
    site.write("Corefile", &site.corefile("log . \"{name} {rcode}\""));
    let args = ["-conf", "Corefile", "-log-format=json", "--state", "state"];
    let mut command = command(&site, &args);
    let mut server = Process::spawn("zonewright", &mut command, &site.path("log"));
    server.wait_for("an answer", START, || wire::serial(site.dns, ZONES[0]));
    let name = "web.test.svc.cluster.local.";
    wire::udp(site.dns, &Query::new(name, 1)).expect("it answers");
    let log = server.log();
    let line = log.lines().find(|line| line.contains(name));
    let line: serde_json::Value = serde_json::from_str(line.expect("the query is logged")).unwrap();
    assert_eq!(line["message"], format!("{name} NOERROR"));
    assert_eq!(line["level"], "INFO");
    assert!(line["timestamp"].is_string());
    assert!(server.terminate(START).success());
}

#[test]
fn a_corefile_may_be_piped_in() {
    let site = Site::new();
    let run = |args: &[&str], input: &str| {
        let mut child = command(&site, args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("zonewright starts");
        let mut pipe = child.stdin.take().expect("it was asked for");
        pipe.write_all(input.as_bytes()).expect("it reads");
        drop(pipe);
        child.wait_with_output().expect("it ends")
    };
    let output = run(
        &["check", "--corefile", "-", "--explain"],
        &site.corefile(""),
    );
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    for line in [
        "stdin:1:1: dns://cluster.local.:",
        "transferred to 127.0.0.1/32",
        "the rest    REFUSED",
    ] {
        assert!(said.contains(line), "no {line:?} in\n{said}");
    }
    let output = run(&["-conf", "stdin"], ". {\n nonsense\n}\n");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("stdin:2:2"), "{said}");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn version_and_directives_are_printed() {
    let site = Site::new();
    let said = |args: &[&str]| {
        let output = site.run(args);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("it is text")
    };
    assert!(said(&["-version"]).starts_with("zonewright-"));
    assert!(said(&["--plugins"]).contains("\n  dns.kubernetes\n"));
    let output = site.run(&["-conf", "Corefile", "more"]);
    assert_eq!(output.status.code(), Some(2));
}

/// Begins to take a zone, from a host of the loopback network, and then reads no more: the RCODE of the first message.
fn begin_to_take(host: u8, site: &Site, zone: &str) -> (Connection, u8) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    // Little fits between the two, so that the transfer stays unfinished.
    socket.set_recv_buffer_size(4096).expect("it may be small");
    let from: std::net::SocketAddr = ([127, 0, 0, host], 0).into();
    socket.bind(&from.into()).expect("it is free");
    socket.connect(&site.dns.into()).expect("it listens");
    let stream = TcpStream::from(socket);
    let patience = Some(Duration::from_secs(30));
    stream.set_read_timeout(patience).expect("it is set");
    let mut connection = Connection(stream);
    let request = Query::new(zone, wire::AXFR).encode();
    connection.send(&request).expect("it takes the request");
    let first = connection.receive().expect("it answers");
    (connection, first[3] & 15)
}

#[test]
fn the_operator_says_how_many_transfers_there_are_at_once() {
    let site = Site::new();
    let port = site.dns.port();
    let text = "t".repeat(200);
    site.write(
        "big.zone",
        &format!("@ 60 SOA ns hostmaster 1 300 30 86400 60\n@ 60 NS ns\nns 60 A 192.0.2.1\n$GENERATE 1-60000 h$ TXT {text}\n"),
    );
    site.write(
        "Corefile",
        &format!("big.example:{port} {{\n    bind 127.0.0.1\n    file big.zone\n    transfer {{\n        allow 127.0.0.0/8\n    }}\n}}\n"),
    );
    let args = [
        "run",
        "--state",
        "state",
        "--transfers",
        "2",
        "--transfers-per-peer",
        "1",
    ];
    let log = site.path("log");
    let mut server = Process::spawn("zonewright", &mut command(&site, &args), &log);
    server.wait_for("the zone", START, || wire::serial(site.dns, "big.example."));
    let take = |host| begin_to_take(host, &site, "big.example.");
    let (first, code) = take(2);
    assert_eq!(code, 0);
    assert_eq!(take(2).1, 2, "the peer has its one");
    let (_second, code) = take(3);
    assert_eq!(code, 0);
    assert_eq!(take(4).1, 2, "there are two");
    drop(first);
    server.wait_for("its place is given to another", CHANGE, || {
        (take(4).1 == 0).then_some(())
    });
}

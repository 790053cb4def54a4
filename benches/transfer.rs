//! One large zone as zonewright, NSD, Knot and BIND give it away, in one run.
//!
//! `cargo bench --bench transfer` prints tables in Markdown; `benches/README.md` keeps the last ones. The three are secondaries
//! of zonewright here, so all four have the same zone; a client that counts octets and does no more takes it
//! from each, in turn. `BENCH_RECORDS=20000` takes a smaller zone.
//!
//! Then Knot follows single changes of a small zone, given to us through an API server.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a measurement: it prints, reads the clock, and fails loudly"
)]
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures for people"
)]

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use socket2::{Domain, Socket, Type};

use self::sink::{KEY, Taken, take};
use crate::support::apiserver::{Access, ApiServer, object_path};
use crate::support::process::Process;
use crate::support::secondary::{Key, Kind, Plan, Secondary};
use crate::support::wire::{self, Query};
use crate::support::{needs, ports};

#[path = "cluster/machine.rs"]
mod machine;
#[path = "cluster/sink.rs"]
mod sink;
#[allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    unused_imports,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a measurement uses a part of what the tests share"
)]
#[path = "../tests/support/mod.rs"]
mod support;

/// The zone.
const ZONE: &str = "cluster.local";
/// How long a server may take for anything.
const PATIENCE: Duration = Duration::from_secs(300);
/// Transfers of each kind; the median counts.
const RUNS: usize = 5;
/// Streams at once.
const STREAMS: usize = 4;
/// Readers that hardly read, and for how long they are watched.
const SLOW: usize = 100;
/// Changes that Knot follows, and how far apart they are: Knot refreshes a zone once a second.
const CHANGES: usize = 60;
const APART: Duration = Duration::from_millis(1300);

/// How many records.
fn wanted_records() -> usize {
    let wanted = std::env::var("BENCH_RECORDS").ok();
    wanted.map_or(2_000_000, |text| text.parse().expect("a number of records"))
}

/// Writes the zone: headless Services of ten endpoints with two ports, 40 records each.
fn write_zone(file: &Path) {
    let mut out = BufWriter::new(File::create(file).unwrap());
    writeln!(
        out,
        "$ORIGIN {ZONE}.\n$TTL 30\n@ SOA ns.dns hostmaster 1 7200 1800 86400 30\n@ NS ns.dns\nns.dns A 10.0.0.10"
    )
    .unwrap();
    for service in 0..wanted_records() / 40 {
        let below = format!("service-{service}.team-{}.svc", service % 100);
        for endpoint in 0..10 {
            let number = u32::try_from(service * 10 + endpoint).unwrap();
            let [_, b, c, d] = number.to_be_bytes();
            let host = format!("10-{b}-{c}-{d}.{below}");
            writeln!(out, "{below} A 10.{b}.{c}.{d}\n{host} A 10.{b}.{c}.{d}").unwrap();
            for (port, number) in [("http", 8080), ("metrics", 9090)] {
                writeln!(out, "_{port}._tcp.{below} SRV 0 10 {number} {host}").unwrap();
            }
        }
    }
    out.flush().unwrap();
}

/// Ours, with a `kubernetes` or a `file`.
fn zonewright(folder: &Path, source: &str, more: &str) -> (Process, SocketAddr) {
    let port = ports::free();
    let (name, secret) = KEY;
    let text = format!(
        "{ZONE}:{port} {{\n bind 127.0.0.1\n {source}\n tsig {{\n secret {name}. {secret}\n }}\n \
         transfer {{\n to *\n {more}\n }}\n}}\n"
    );
    let file = folder.join("Corefile");
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(needs::zonewright());
    command.arg("run").arg("--corefile").arg(&file);
    command.arg("--state").arg(folder.join("state"));
    command.args(["--transfers", &SLOW.to_string()]);
    let mut process = Process::spawn("zonewright", &mut command, &folder.join("log"));
    let address = ports::loopback(port);
    process.wait_for("the zone", PATIENCE, || wire::serial(address, ZONE));
    (process, address)
}

/// The middle one by speed.
fn median(mut all: Vec<Taken>) -> Taken {
    all.sort_by(|a, b| a.records_per_second().total_cmp(&b.records_per_second()));
    all[all.len() / 2]
}

/// A row of the table for one server.
struct Row {
    name: &'static str,
    plain: Taken,
    signed: Taken,
    /// Records a second of all streams together.
    streams: f64,
}

/// Takes the zone from a server in every way.
fn measure(name: &'static str, server: SocketAddr) -> Row {
    let runs = |signed| median((0..RUNS).map(|_| take(server, ZONE, signed)).collect());
    let (plain, signed) = (runs(false), runs(true));
    assert!(signed.signed, "{name} signed nothing");
    let start = Instant::now();
    let threads: Vec<_> = (0..STREAMS)
        .map(|_| std::thread::spawn(move || take(server, ZONE, false)))
        .collect();
    let records: u64 = threads
        .into_iter()
        .map(|it| it.join().unwrap().records)
        .sum();
    let streams = records as f64 / start.elapsed().as_secs_f64();
    eprintln!(
        "{name}: {:.2} M records/s",
        plain.records_per_second() / 1e6
    );
    Row {
        name,
        plain,
        signed,
        streams,
    }
}

/// A server's memory while many readers take next to nothing, all of them served.
fn slow_readers(server: &Process, address: SocketAddr) {
    let before = machine::rss(server.id());
    let request = Query::new(ZONE, wire::AXFR).encode();
    let mut framed = u16::try_from(request.len()).unwrap().to_be_bytes().to_vec();
    framed.extend(request);
    let mut readers: Vec<TcpStream> = (0..SLOW)
        .map(|at| {
            // From four addresses, for one may not have all places.
            let source = SocketAddr::from(([127, 0, 0, 2 + (at % 4) as u8], 0));
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.bind(&source.into()).unwrap();
            socket.connect(&address.into()).unwrap();
            let mut stream = TcpStream::from(socket);
            stream.write_all(&framed).unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(5)))
                .unwrap();
            stream
        })
        .collect();
    let mut served = vec![false; SLOW];
    for _ in 0..20 {
        for (reader, served) in readers.iter_mut().zip(&mut served) {
            let mut octets = [0; 64];
            // Who is refused gets 31 octets, and then nothing.
            let came = reader.read(&mut octets).unwrap_or_default();
            *served |= came == octets.len();
            reader
                .set_read_timeout(Some(Duration::from_millis(1)))
                .unwrap();
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let during = machine::rss(server.id());
    let served = served.into_iter().filter(|it| *it).count();
    assert_eq!(served, SLOW, "all may be served");
    println!(
        "{SLOW} readers of 64 octets now and then, all served; \
         memory {before:.0} MB before, {during:.0} MB meanwhile\n"
    );
}

/// Changes that an API server tells, until Knot answers with them.
fn follow(folder: &Path) {
    let server = ApiServer::start();
    let meta = |kind, version, name| {
        json!({ "apiVersion": version, "kind": kind, "metadata": { "namespace": "default", "name": name,
            "labels": { "kubernetes.io/service-name": "web" } } })
    };
    let mut service = meta("Service", "v1", "web");
    service["spec"] = json!({ "clusterIP": "None", "ports": [{ "name": "http", "port": 80 }] });
    server.create(&service);
    let mut slice = meta("EndpointSlice", "discovery.k8s.io/v1", "web-1");
    slice["addressType"] = json!("IPv4");
    slice["ports"] = json!([{ "name": "http", "port": 80, "protocol": "TCP" }]);
    slice["endpoints"] = json!([{ "addresses": ["10.1.0.1"], "conditions": { "ready": true } }]);
    server.create(&slice);
    let port = ports::free();
    let kubeconfig = server.kubeconfig(Access::Admin);
    let source = format!(
        "kubernetes {ZONE} {{\n kubeconfig {}\n }}",
        kubeconfig.display()
    );
    let (_zonewright, address) =
        zonewright(folder, &source, &format!("to {}", ports::loopback(port)));
    let mut knot = Secondary::start_on(Kind::Knot, &Plan::new(address, &[ZONE]), port);
    let serial = wire::serial(address, ZONE).unwrap();
    knot.wait_for_serial(ZONE, serial, PATIENCE);
    let path = object_path(&slice);
    let mut times: Vec<Duration> = (0..CHANGES)
        .map(|change| {
            std::thread::sleep(APART);
            let (high, low) = (change / 250 + 2, change % 250 + 1);
            let ip = format!("10.1.{high}.{low}");
            slice["endpoints"][0]["addresses"][0] = json!(ip);
            let change = json!({ "endpoints": slice["endpoints"] });
            server.patch(&path, &change);
            let start = Instant::now();
            let name = format!("{}.web.default.svc.{ZONE}", ip.replace('.', "-"));
            let query = Query::new(&name, wire::A);
            loop {
                let reply = wire::udp(knot.address(), &query).unwrap();
                if !reply.answers.is_empty() {
                    return start.elapsed();
                }
                assert!(start.elapsed() < PATIENCE, "Knot did not follow");
                std::thread::sleep(Duration::from_micros(200));
            }
        })
        .collect();
    times.sort();
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "{CHANGES} changes, {} ms apart, from the API server's word to Knot's answer: {:.1} ms (p50), {:.1} ms (p90), {:.1} ms (most)",
        APART.as_millis(),
        millis(times[times.len() / 2]),
        millis(times[times.len() * 9 / 10]),
        millis(times[times.len() - 1]),
    );
}

fn main() {
    // On the disk the project lies on: a temporary folder may be memory.
    let folder = tempfile::tempdir_in("target").unwrap();
    let file = folder.path().join("zone");
    write_zone(&file);
    let source = format!("file {}", file.display());
    let (server, address) = zonewright(folder.path(), &source, "");
    let serial = wire::serial(address, ZONE).unwrap();
    println!("{}\n", machine::describe());
    let mut rows = vec![measure("zonewright", address)];
    let mut plan = Plan::new(address, &[ZONE]).key(Key {
        name: KEY.0.to_owned(),
        algorithm: "hmac-sha256".to_owned(),
        secret: KEY.1.to_owned(),
    });
    plan.nsd_keeps_ixfr = false;
    for (name, kind) in [
        ("NSD", Kind::Nsd),
        ("Knot", Kind::Knot),
        ("BIND", Kind::Bind),
    ] {
        let mut other = Secondary::start(kind, &plan);
        other.wait_for_serial(ZONE, serial, PATIENCE);
        rows.push(measure(name, other.address()));
    }
    println!(
        "| AXFR | records | M records/s | octets/record | with TSIG, M records/s | octets/record | {STREAMS} streams, M records/s |\n\
         |---|---|---|---|---|---|---|"
    );
    for row in &rows {
        println!(
            "| {} | {} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} |",
            row.name,
            row.plain.records,
            row.plain.records_per_second() / 1e6,
            row.plain.octets_per_record(),
            row.signed.records_per_second() / 1e6,
            row.signed.octets_per_record(),
            row.streams / 1e6
        );
    }
    println!();
    slow_readers(&server, address);
    let folder = tempfile::tempdir_in("target").unwrap();
    follow(folder.path());
}

//! The cluster of 10 000 Services and 100 000 endpoints in a real API server: zonewright beside CoreDNS.
//!
//! `cargo bench --bench cluster` prints a table in Markdown; `benches/README.md` keeps the last one. The
//! API server, CoreDNS, NSD and dnsperf must be there (`make bench` sees to it). Absolute figures mean
//! little on a shared machine: both servers are measured in turn, and what they compute is counted beside
//! what the clock says.
//!
//! - `BENCH_SERVICES=500` takes a smaller cluster.
//! - `-- hold` fills the cluster, says where its kubeconfig is, and waits for a line on standard input:
//!   for looking at one server with other tools.
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

use std::fmt::Write as _;
use std::io::BufRead;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;

use self::sink::{KEY, Taken, take};
use self::subject::{PATIENCE, SETTLE, Subject, fill};
use self::udp::{Udp, median};
use crate::support::apiserver::{Access, ApiServer};
use crate::support::process::wait_for;
use crate::support::secondary::{Kind, Plan, Secondary};
use crate::support::wire;

#[path = "cluster/machine.rs"]
mod machine;
#[path = "cluster/objects.rs"]
mod objects;
#[path = "cluster/sink.rs"]
mod sink;
#[path = "cluster/subject.rs"]
mod subject;
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
#[path = "cluster/udp.rs"]
mod udp;

/// The zones of both servers: names, and the PTRs of Services and endpoints.
const ZONES: [&str; 2] = ["cluster.local", "10.in-addr.arpa"];
/// Transfers of each kind; the median counts.
const TRANSFERS: usize = 7;
/// Runs of dnsperf for each server; the median counts.
const UDP_RUNS: usize = 3;
/// Different questions.
const QUESTIONS: u32 = 20_000;

/// The Corefile of either server.
fn corefile(kubeconfig: &Path, port: u16, metrics: u16) -> String {
    let keys = ZONES.map(|zone| format!("{zone}:{port}")).join(" ");
    let (name, secret) = KEY;
    format!(
        "{keys} {{\n bind 127.0.0.1\n kubernetes {zones} {{\n kubeconfig {file}\n ttl 30\n }}\n \
         tsig {{\n secret {name}. {secret}\n }}\n transfer {{\n to *\n }}\n prometheus 127.0.0.1:{metrics}\n}}\n",
        zones = ZONES.join(" "),
        file = kubeconfig.display(),
    )
}

/// What memory was, in MB.
struct Memory {
    synced: f64,
    after_axfr: f64,
    peak: f64,
    steady: f64,
    relist_peak: f64,
}

impl Memory {
    fn after_start(subject: &Subject) -> Self {
        std::thread::sleep(SETTLE);
        let synced = subject.rss();
        for zone in ZONES {
            take(subject.address, zone, false);
        }
        Self {
            synced,
            after_axfr: subject.rss(),
            peak: subject.peak(),
            steady: 0.0,
            relist_peak: 0.0,
        }
    }
}

/// Makes both servers list everything again and notes the peaks.
fn relist(server: &mut ApiServer, subjects: &mut [(Subject, Memory)]) {
    std::thread::sleep(SETTLE);
    for (subject, memory) in &mut *subjects {
        memory.steady = subject.rss();
        machine::forget_peak(subject.process.id());
    }
    let lists = subjects[0].0.lists();
    // Nobody hears what happens meanwhile, so that all watches fall behind what is forgotten.
    for (subject, _) in &mut *subjects {
        subject.process.signal(Signal::STOP);
    }
    server.create(&json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "meanwhile" },
    }));
    // Not in order: a server that is asked to end waits for those who watch.
    server.compact();
    server.kill();
    server.resume();
    for (subject, _) in &mut *subjects {
        subject.process.signal(Signal::CONT);
    }
    server.create(&json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "namespace": "default", "name": "after-the-relist" },
        "spec": { "ports": [{ "port": 80 }] },
    }));
    let zonewright = &mut subjects[0].0;
    let metrics = || zonewright.process.log_tail();
    wait_for("a second list of all slices", PATIENCE, metrics, || {
        (zonewright.lists() > lists).then_some(())
    });
    for (subject, memory) in subjects {
        subject.wait_for_service("after-the-relist.default.svc.cluster.local");
        std::thread::sleep(SETTLE);
        memory.relist_peak = subject.peak();
    }
}

/// The transfers of one server in one way.
struct Transfers {
    what: &'static str,
    address: SocketAddr,
    signed: bool,
    id: Option<u32>,
    taken: Vec<Taken>,
    computed: Duration,
}

impl Transfers {
    fn new(what: &'static str, subject: &Subject, signed: bool) -> Self {
        Self {
            what,
            address: subject.address,
            signed,
            id: Some(subject.process.id()),
            taken: Vec::new(),
            computed: Duration::ZERO,
        }
    }

    fn go(&mut self) {
        let before = self.id.map(machine::computed);
        let taken = take(self.address, ZONES[0], self.signed);
        assert_eq!(taken.signed, self.signed, "{}", self.what);
        self.taken.push(taken);
        if let (Some(id), Some(before)) = (self.id, before) {
            self.computed += machine::computed(id) - before;
        }
    }

    fn rate(&self) -> f64 {
        median(self.taken.iter().map(Taken::records_per_second).collect())
    }

    /// Nanoseconds the server computed for a record.
    fn cost(&self) -> f64 {
        let records: u64 = self.taken.iter().map(|taken| taken.records).sum();
        self.computed.as_nanos() as f64 / records as f64
    }
}

/// All kinds of transfer in turn, so that what else the machine does meets all alike.
fn transfers(zonewright: &Subject, coredns: &Subject) -> Vec<Transfers> {
    let plan = Plan::new(zonewright.address, &ZONES[..1]);
    let serial = wire::serial(zonewright.address, ZONES[0]).expect("a serial");
    let mut nsd = Secondary::start(Kind::Nsd, &plan);
    nsd.wait_for_serial(ZONES[0], serial, PATIENCE);
    let mut all = vec![
        Transfers::new("zonewright, TSIG", zonewright, true),
        Transfers::new("zonewright", zonewright, false),
        Transfers::new("CoreDNS, TSIG", coredns, true),
        Transfers::new("CoreDNS", coredns, false),
        Transfers {
            what: "NSD",
            address: nsd.address(),
            signed: false,
            id: None,
            taken: Vec::new(),
            computed: Duration::ZERO,
        },
    ];
    for _ in 0..TRANSFERS {
        all.iter_mut().for_each(Transfers::go);
    }
    all
}

/// Prints the memory's rows.
fn memory_rows(table: &mut String, zonewright: &Memory, coredns: &Memory) {
    let mut row = |what: &str, ours: f64, theirs: f64| {
        writeln!(
            table,
            "| {what} | {ours:.0} MB | {theirs:.0} MB | {:.2} |",
            ours / theirs
        )
        .unwrap();
    };
    row(
        "RSS, 10 s after the first answer",
        zonewright.synced,
        coredns.synced,
    );
    row(
        "RSS, after AXFR of both zones",
        zonewright.after_axfr,
        coredns.after_axfr,
    );
    row("highest RSS since the start", zonewright.peak, coredns.peak);
    row(
        "RSS, before the API server forgets its past",
        zonewright.steady,
        coredns.steady,
    );
    row(
        "highest RSS while everything is listed again",
        zonewright.relist_peak,
        coredns.relist_peak,
    );
    writeln!(
        table,
        "| the same over what it was before | {:.2} | {:.2} | |",
        zonewright.relist_peak / zonewright.steady,
        coredns.relist_peak / coredns.steady
    )
    .unwrap();
}

/// Prints the transfers' rows.
fn transfer_table(all: &[Transfers]) -> String {
    let mut table = String::from(
        "| AXFR of cluster.local | records | M records/s | octets/record | messages | ns computed/record |\n\
         |---|---|---|---|---|---|\n",
    );
    for one in all {
        let taken = &one.taken[0];
        let cost = one.id.map_or("-".into(), |_| format!("{:.0}", one.cost()));
        writeln!(
            table,
            "| {} | {} | {:.2} | {:.2} | {} | {cost} |",
            one.what,
            taken.records,
            one.rate() / 1e6,
            taken.octets_per_record(),
            taken.messages,
        )
        .unwrap();
    }
    table
}

fn main() {
    let mut server = ApiServer::start();
    fill(&server);
    let kubeconfig = server.kubeconfig(Access::Admin);
    if std::env::args().any(|argument| argument == "hold") {
        println!("{}", kubeconfig.display());
        let wait = std::io::stdin().lock().lines().next();
        assert!(wait.is_none_or(|line| line.is_ok()), "standard input");
        return;
    }
    // On the disk the project lies on: a temporary folder may be memory.
    let folder = tempfile::tempdir_in("target").unwrap();
    let report = measure(&mut server, &kubeconfig, &folder);
    println!("{report}");
}

/// Everything, one after the other; the report.
fn measure(server: &mut ApiServer, kubeconfig: &Path, folder: &TempDir) -> String {
    let folder = folder.path();
    let corefile = |port, metrics| corefile(kubeconfig, port, metrics);
    let coredns = Subject::coredns(folder, None, corefile);
    let coredns_memory = Memory::after_start(&coredns);
    let zonewright = Subject::zonewright(folder, None, corefile);
    let zonewright_memory = Memory::after_start(&zonewright);
    let first = [zonewright.first_answer, coredns.first_answer];
    let transferred = transfers(&zonewright, &coredns);
    let mut subjects = [(zonewright, zonewright_memory), (coredns, coredns_memory)];
    relist(server, &mut subjects);
    let [
        (zonewright, zonewright_memory),
        (mut coredns, coredns_memory),
    ] = subjects;

    let mut table = format!(
        "{} Services, {} endpoints. {}.\n\n| | zonewright | CoreDNS 1.15.0 | ratio |\n|---|---|---|---|\n",
        objects::services(),
        objects::services() * objects::ENDPOINTS,
        machine::describe()
    );
    memory_rows(&mut table, &zonewright_memory, &coredns_memory);
    zonewright.end();
    coredns.process.kill();

    let questions = folder.join("questions");
    std::fs::write(&questions, objects::questions(QUESTIONS)).unwrap();
    let zonewright = Subject::zonewright(folder, Some(0), corefile);
    let coredns = Subject::coredns(folder, Some(0), corefile);
    let restarted = zonewright.first_answer;
    std::thread::sleep(SETTLE);
    let (mut ours, mut theirs) = (Udp::new(&zonewright), Udp::new(&coredns));
    for _ in 0..UDP_RUNS {
        ours.ask(&questions);
        theirs.ask(&questions);
    }
    zonewright.end();
    table += &udp::rows("UDP on one core", &ours, &theirs);
    let [ours, theirs] = first.map(|time| time.as_millis());
    writeln!(
        table,
        "| start to first answer | {ours} ms | {theirs} ms | |"
    )
    .unwrap();
    let restarted = restarted.as_millis();
    writeln!(
        table,
        "| the same with a store (on one core) | {restarted} ms | | |"
    )
    .unwrap();
    table.push('\n');
    table += &transfer_table(&transferred);
    let ratio = |ours: usize, theirs: usize| transferred[ours].rate() / transferred[theirs].rate();
    writeln!(
        table,
        "\nzonewright with TSIG over CoreDNS: {:.1} x with TSIG, {:.1} x without",
        ratio(0, 2),
        ratio(0, 3)
    )
    .unwrap();
    table
}

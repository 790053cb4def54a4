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
    clippy::missing_docs_in_private_items,
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
use std::io::{BufRead, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;

use self::sink::{KEY, Taken, take};
use crate::support::apiserver::{Access, ApiServer};
use crate::support::process::{Process, wait_for};
use crate::support::secondary::{Kind, Plan, Secondary};
use crate::support::wire::{self, Query};
use crate::support::{needs, ports};

#[path = "cluster/machine.rs"]
mod machine;
#[path = "cluster/objects.rs"]
mod objects;
#[path = "cluster/sink.rs"]
mod sink;
#[path = "../tests/support/mod.rs"]
mod support;

/// The zones of both servers: names, and the PTRs of Services and endpoints.
const ZONES: [&str; 2] = ["cluster.local", "10.in-addr.arpa"];
/// How long a server may take for anything.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long memory may settle before it is looked at.
const SETTLE: Duration = Duration::from_secs(10);
/// Transfers of each kind; the median counts.
const TRANSFERS: usize = 7;
/// Runs of dnsperf for each server; the median counts.
const UDP_RUNS: usize = 3;
/// Different questions.
const QUESTIONS: u32 = 20_000;

/// A server that is measured.
struct Subject {
    name: &'static str,
    process: Process,
    address: SocketAddr,
    /// From the start of the process to the first answer about the last Service.
    first_answer: Duration,
    /// Where it tells its metrics.
    metrics: u16,
}

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

/// A command, on one core when `core` says which.
fn command(program: &Path, core: Option<u32>) -> Command {
    let Some(core) = core else {
        return Command::new(program);
    };
    let mut command = Command::new("taskset");
    command.arg("-c").arg(core.to_string()).arg(program);
    command
}

impl Subject {
    fn coredns(folder: &Path, kubeconfig: &Path, core: Option<u32>) -> Self {
        let (port, metrics) = (ports::free(), ports::free());
        let file = folder.join("Corefile.coredns");
        std::fs::write(&file, corefile(kubeconfig, port, metrics)).unwrap();
        let mut command = command(&needs::program("coredns"), core);
        command.arg("-conf").arg(&file);
        Self::start("CoreDNS", command, folder, (port, metrics))
    }

    fn zonewright(folder: &Path, kubeconfig: &Path, core: Option<u32>) -> Self {
        let (port, metrics) = (ports::free(), ports::free());
        let file = folder.join("Corefile.zonewright");
        std::fs::write(&file, corefile(kubeconfig, port, metrics)).unwrap();
        let mut command = command(&needs::zonewright(), core);
        command.arg("run").arg("--corefile").arg(&file);
        command.arg("--state").arg(folder.join("state"));
        Self::start("zonewright", command, folder, (port, metrics))
    }

    fn start(
        name: &'static str,
        mut command: Command,
        folder: &Path,
        (port, metrics): (u16, u16),
    ) -> Self {
        let address = ports::loopback(port);
        let start = Instant::now();
        let mut process = Process::spawn(name, &mut command, &folder.join(name));
        let last = Query::new(&objects::name(objects::services() - 1), wire::A);
        process.wait_for("the first answer", PATIENCE, || answers(address, &last));
        let first_answer = start.elapsed();
        Self {
            name,
            process,
            address,
            first_answer,
            metrics,
        }
    }

    /// Waits until it answers the name of this new Service.
    fn wait_for_service(&mut self, name: &str) {
        let query = Query::new(name, wire::A);
        let address = self.address;
        self.process
            .wait_for("the new Service", PATIENCE, || answers(address, &query));
    }

    /// How often all slices were listed; none for CoreDNS, which does not say.
    fn lists(&self) -> f64 {
        let mut stream = TcpStream::connect(ports::loopback(self.metrics)).unwrap();
        let request = b"GET /metrics HTTP/1.0\r\n\r\n";
        stream.write_all(request).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text.lines()
            .find(|line| {
                line.starts_with("zonewright_source_lists") && line.contains("EndpointSlice")
            })
            .map_or(0.0, |line| {
                line.rsplit(' ').next().unwrap().parse().unwrap()
            })
    }

    fn rss(&self) -> f64 {
        machine::rss(self.process.id())
    }

    fn peak(&self) -> f64 {
        machine::peak(self.process.id())
    }
}

/// Something when the answer has a record.
fn answers(address: SocketAddr, query: &Query) -> Option<()> {
    let reply = wire::udp(address, query).ok()?;
    (!reply.answers.is_empty()).then_some(())
}

/// The middle one.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
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

/// Fills the server.
fn fill(server: &ApiServer) {
    let start = Instant::now();
    server.create_all(&objects::namespaces(), 8);
    for first in (0..objects::services()).step_by(1000) {
        let all = first..objects::services().min(first + 1000);
        let objects: Vec<_> = all
            .flat_map(|index| [objects::service(index), objects::slice(index)])
            .collect();
        server.create_all(&objects, 32);
    }
    eprintln!("the cluster is filled, {:?}", start.elapsed());
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

/// What dnsperf counts at one server.
struct Udp {
    name: &'static str,
    address: SocketAddr,
    id: u32,
    rates: Vec<f64>,
    answered: f64,
    computed: Duration,
}

impl Udp {
    fn new(subject: &Subject) -> Self {
        Self {
            name: subject.name,
            address: subject.address,
            id: subject.process.id(),
            rates: Vec::new(),
            answered: 0.0,
            computed: Duration::ZERO,
        }
    }

    /// Asks for five seconds from the other core.
    fn ask(&mut self, questions: &Path) {
        let before = machine::computed(self.id);
        let output = Command::new("taskset")
            .args(["-c", "1"])
            .arg(needs::program("dnsperf"))
            .args(["-s", "127.0.0.1", "-p", &self.address.port().to_string()])
            .args(["-c", "32", "-T", "1", "-q", "256", "-l", "5", "-d"])
            .arg(questions)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}");
        let figure = |head: &str| {
            text.lines()
                .find_map(|line| line.trim().strip_prefix(head))
                .and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok())
                .unwrap_or_else(|| panic!("no {head}\n{text}"))
        };
        self.rates.push(figure("Queries per second:"));
        self.answered += figure("Queries completed:");
        self.computed += machine::computed(self.id) - before;
        eprintln!(
            "{}: {:.0} queries/s",
            self.name,
            figure("Queries per second:")
        );
    }

    fn cost(&self) -> f64 {
        self.computed.as_nanos() as f64 / self.answered
    }
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
    let coredns = Subject::coredns(folder, kubeconfig, None);
    let coredns_memory = Memory::after_start(&coredns);
    let zonewright = Subject::zonewright(folder, kubeconfig, None);
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
    end(zonewright);
    coredns.process.kill();

    let questions = folder.join("questions");
    std::fs::write(&questions, objects::questions(QUESTIONS)).unwrap();
    let zonewright = Subject::zonewright(folder, kubeconfig, Some(0));
    let coredns = Subject::coredns(folder, kubeconfig, Some(0));
    let restarted = zonewright.first_answer;
    std::thread::sleep(SETTLE);
    let (mut ours, mut theirs) = (Udp::new(&zonewright), Udp::new(&coredns));
    for _ in 0..UDP_RUNS {
        ours.ask(&questions);
        theirs.ask(&questions);
    }
    end(zonewright);
    udp_rows(&mut table, &ours, &theirs);
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

/// Prints the rows of queries.
fn udp_rows(table: &mut String, ours: &Udp, theirs: &Udp) {
    let (fast, slow) = (median(ours.rates.clone()), median(theirs.rates.clone()));
    writeln!(
        table,
        "| UDP on one core, queries/s | {fast:.0} | {slow:.0} | {:.1} |",
        fast / slow
    )
    .unwrap();
    let (fast, slow) = (ours.cost() / 1e3, theirs.cost() / 1e3);
    writeln!(
        table,
        "| the same, computed for a query | {fast:.1} µs | {slow:.1} µs | {:.2} |",
        fast / slow
    )
    .unwrap();
}

/// Ends a server in order; it must succeed.
fn end(mut subject: Subject) {
    let status = subject.process.terminate(PATIENCE);
    let state = || subject.process.log_tail();
    wait_for("a clean end", PATIENCE, state, || {
        status.success().then_some(())
    });
}

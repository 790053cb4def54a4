//! The stock Corefile of kubeadm on one core, with the cluster of `cluster.rs`: zonewright beside CoreDNS.
//!
//! `cargo bench --bench corefile` prints a table in Markdown; `benches/README.md` keeps the last one. Both servers run on
//! one core in turn, dnsperf on the other. Their forwarder asks a small server of this process, whose answers they keep.
//!
//! - `BENCH_SERVICES=500` takes a smaller cluster.
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
use std::path::{Path, PathBuf};

use self::subject::{SETTLE, Subject, fill};
use self::udp::{Udp, rows};
use crate::support::apiserver::{Access, ApiServer};
use crate::support::ports;
use crate::support::upstream::Upstream;

#[path = "cluster/machine.rs"]
mod machine;
#[path = "cluster/objects.rs"]
mod objects;
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

/// The Corefile as kubeadm writes it.
const STOCK: &str = include_str!("../tests/stock/kubeadm.Corefile");
/// Runs of dnsperf for each server and kind of question; the median counts.
const RUNS: usize = 5;
/// Different questions about the cluster.
const QUESTIONS: u32 = 20_000;
/// Different names elsewhere: both caches hold them all.
const NAMES: u32 = 2_000;

/// The stock Corefile with ports of this machine, the API server's credentials, and our upstream.
fn corefile(kubeconfig: &Path, upstream: &Upstream, port: u16, metrics: u16) -> String {
    let mut text = STOCK.to_owned();
    let (health, ready) = (ports::free_address(), ports::free_address());
    for (stock, ours) in [
        (".:53 {\n", format!(".:{port} {{\n    bind 127.0.0.1\n")),
        ("    health {", format!("    health {health} {{")),
        ("    ready\n", format!("    ready {ready}\n")),
        (
            "       pods insecure\n",
            format!(
                "       kubeconfig {}\n       pods insecure\n",
                kubeconfig.display()
            ),
        ),
        (":9153", format!("127.0.0.1:{metrics}")),
        ("/etc/resolv.conf", upstream.address.to_string()),
        ("lameduck 5s", "lameduck 0s".to_owned()),
    ] {
        assert_eq!(text.matches(stock).count(), 1, "{stock}");
        text = text.replace(stock, &ours);
    }
    text
}

/// Questions for dnsperf about names elsewhere that are there.
fn names() -> String {
    let mut text = String::new();
    for number in 0..NAMES {
        writeln!(text, "a.host-{number}.example.org A").expect("text grows");
    }
    text
}

/// Asks both in turn as fast as they can, then as often as CoreDNS could answer half of the time; the rows.
fn measure(what: &str, questions: &Path, zonewright: &Subject, coredns: &Subject) -> String {
    let (mut ours, mut theirs) = (Udp::new(zonewright), Udp::new(coredns));
    for _ in 0..RUNS {
        ours.ask(questions);
        theirs.ask(questions);
    }
    let mut table = rows(what, &ours, &theirs);
    let mut waits = |load: &str, [fast, slow]: [f64; 2]| {
        let (mut fasts, mut slows) = (Vec::new(), Vec::new());
        let mut lost = [0, 0];
        for _ in 0..3 {
            let waited = [
                ours.ask_gently(questions, fast),
                theirs.ask_gently(questions, slow),
            ];
            fasts.push(waited[0].p99);
            slows.push(waited[1].p99);
            lost = [lost[0] + waited[0].lost, lost[1] + waited[1].lost];
        }
        let (fast, slow) = (udp::median(fasts), udp::median(slows));
        writeln!(
            table,
            "| {what}, p99 at {load} | {fast:.0} µs, {} lost | {slow:.0} µs, {} lost | {:.2} |",
            lost[0],
            lost[1],
            fast / slow
        )
        .unwrap();
    };
    let halves = [ours.rate() / 2.0, theirs.rate() / 2.0];
    waits("half of CoreDNS's rate", [halves[1]; 2]);
    waits("half of its own rate", halves);
    table
}

/// A file of questions.
fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let file = folder.join(name);
    std::fs::write(&file, text).unwrap();
    file
}

fn main() {
    let server = ApiServer::start();
    fill(&server);
    let kubeconfig = server.kubeconfig(Access::Admin);
    let upstream = Upstream::start(1, "ok");
    // On the disk the project lies on: a temporary folder may be memory.
    let folder = tempfile::tempdir_in("target").unwrap();
    let folder = folder.path();
    let corefile = |port, metrics| corefile(&kubeconfig, &upstream, port, metrics);
    let coredns = Subject::coredns(folder, Some(0), corefile);
    let zonewright = Subject::zonewright(folder, Some(0), corefile);
    std::thread::sleep(SETTLE);
    let mut table = format!(
        "{} Services, {} endpoints, kubeadm's Corefile, one core. {}.\n\n\
         | | zonewright | CoreDNS 1.15.0 | ratio |\n|---|---|---|---|\n",
        objects::services(),
        objects::services() * objects::ENDPOINTS,
        machine::describe()
    );
    let memory = |what: &str, [ours, theirs]: [f64; 2]| {
        format!(
            "| {what} | {ours:.0} MB | {theirs:.0} MB | {:.2} |\n",
            ours / theirs
        )
    };
    table += &memory(
        "RSS, 10 s after the first answer",
        [zonewright.rss(), coredns.rss()],
    );
    let inside = write(folder, "inside", &objects::questions(QUESTIONS));
    table += &measure("cluster names", &inside, &zonewright, &coredns);
    let outside = write(folder, "outside", &names());
    let asked = upstream.seen()[0];
    table += &measure("cached external names", &outside, &zonewright, &coredns);
    eprintln!(
        "the upstream was asked {} times",
        upstream.seen()[0] - asked
    );
    table += &memory("RSS, after all queries", [zonewright.rss(), coredns.rss()]);
    table += &memory(
        "highest RSS since the start",
        [zonewright.peak(), coredns.peak()],
    );
    zonewright.end();
    println!("{table}");
}

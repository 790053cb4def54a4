//! A zone of 100 000 keys in a real etcd: the start, memory, and the time from a change to its NOTIFY.
//!
//! `cargo bench --bench etcd` prints a table in Markdown; `benches/README.md` keeps the last one. etcd must be there (`make
//! bench` sees to it). `BENCH_KEYS=5000` takes fewer keys. etcd does not wait for its disk (`--unsafe-no-fsync`), so a change
//! costs what zonewright's own commit and the two connections cost.
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
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use crate::support::etcd::Etcd;
use crate::support::process::Process;
use crate::support::wire::{self, Query};
use crate::support::{needs, ports};

#[path = "cluster/machine.rs"]
mod machine;
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

const ZONE: &str = "example.org";
/// Keys below one name, which has the records of all of them.
const GROUP: u32 = 100;
/// Changes whose NOTIFY is measured; they are further apart than `--notify-interval`.
const CHANGES: u32 = 500;
/// Keys that are put at once.
const BURST: u32 = 1000;
/// How long a server may take for anything.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long memory may settle before it is looked at.
const SETTLE: Duration = Duration::from_secs(10);

fn keys() -> u32 {
    std::env::var("BENCH_KEYS").map_or(100_000, |keys| keys.parse().unwrap())
}

fn key(number: u32) -> String {
    format!("/skydns/org/example/g{}/k{number}", number / GROUP)
}

fn name(number: u32) -> String {
    format!("k{number}.g{}.{ZONE}", number / GROUP)
}

fn value(number: u32, round: u32) -> String {
    let [_, a, b, c] = number.to_be_bytes();
    let port = 1000 + round % 60_000;
    format!(r#"{{"host":"10.{a}.{b}.{c}","port":{port},"ttl":60}}"#)
}

/// A secondary that acknowledges each NOTIFY and tells when it came, and its serial.
fn secondary() -> (SocketAddr, Receiver<(Instant, u32)>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let (notified, hears) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = [0_u8; 1500];
        while let Ok((length, peer)) = socket.recv_from(&mut bytes) {
            let now = Instant::now();
            let message = wire::Message::decode(&bytes[..length]).unwrap();
            // It is also asked for its SOA, which it does not have.
            let serial = message.answers.iter().find_map(wire::Record::serial);
            if let Some(serial) = serial
                && notified.send((now, serial)).is_err()
            {
                return;
            }
            bytes[2] |= 0x80;
            socket.send_to(&bytes[..length], peer).unwrap();
        }
    });
    (address, hears)
}

/// zonewright, on ports of its own.
struct Subject {
    folder: PathBuf,
    corefile: PathBuf,
    address: SocketAddr,
}

impl Subject {
    fn new(folder: &Path, etcd: &Etcd, secondary: SocketAddr) -> Self {
        let address = ports::free_address();
        let corefile = folder.join("Corefile");
        let text = format!(
            "{ZONE}:{} {{\n bind 127.0.0.1\n etcd {{\n endpoint {}\n }}\n transfer {{\n to {secondary}\n allow *\n }}\n}}\n",
            address.port(),
            etcd.url()
        );
        std::fs::write(&corefile, text).unwrap();
        Self {
            folder: folder.to_owned(),
            corefile,
            address,
        }
    }

    /// Starts it; gives the time until it answers the name of the last key.
    fn start(&self) -> (Process, Duration) {
        let mut command = Command::new(needs::zonewright());
        command.arg("run").arg("--corefile").arg(&self.corefile);
        command.arg("--state").arg(self.folder.join("state"));
        let start = Instant::now();
        let mut process = Process::spawn("zonewright", &mut command, &self.folder.join("log"));
        process.wait_for("the first answer", PATIENCE, || self.port(keys() - 1));
        (process, start.elapsed())
    }

    /// The port in the SRV record of a key.
    fn port(&self, number: u32) -> Option<u32> {
        let reply = wire::udp(self.address, &Query::new(&name(number), wire::SRV)).ok()?;
        let data = &reply.answers.first()?.data;
        data.split(' ').nth(2)?.parse().ok()
    }

    /// Waits until a key has the port of a round.
    fn wait(&self, process: &mut Process, number: u32, round: u32) {
        process.wait_for("the change", PATIENCE, || {
            (self.port(number)? == 1000 + round).then_some(())
        });
    }
}

/// The times from a put to its NOTIFY: from the request to etcd, and from etcd's reply. Each put is a version.
fn notify_times(
    etcd: &Etcd,
    hears: &Receiver<(Instant, u32)>,
    mut last: u32,
) -> [Vec<Duration>; 2] {
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..CHANGES {
        std::thread::sleep(Duration::from_millis(120));
        let number = round * 997 % keys();
        let value = value(number, 1 + round);
        let start = Instant::now();
        etcd.put(&key(number), &value);
        let stored = Instant::now();
        // A NOTIFY of an earlier version may come late or again.
        let heard = loop {
            let (heard, serial) = hears.recv_timeout(PATIENCE).unwrap();
            if serial > last {
                last = serial;
                break heard;
            }
        };
        times[0].push(heard.saturating_duration_since(start));
        times[1].push(heard.saturating_duration_since(stored));
    }
    times
}

/// A part of sorted times, in milliseconds.
fn at(times: &[Duration], part: f64) -> f64 {
    let last = times.len() - 1;
    times[(last as f64 * part).round() as usize].as_secs_f64() * 1e3
}

fn main() {
    let mut etcd = Etcd::start();
    let all: Vec<(String, String)> = (0..keys()).map(|at| (key(at), value(at, 0))).collect();
    etcd.put_all(&all);
    eprintln!("etcd has {} keys", all.len());
    // On the disk the project is on: a temporary folder may be memory.
    let folder = tempfile::tempdir_in("target").unwrap();
    let (secondary, hears) = secondary();
    let subject = Subject::new(folder.path(), &etcd, secondary);
    let mut table = String::from("| | |\n|---|---|\n");
    let mut row = |what: &str, value: String| writeln!(table, "| {what} | {value} |").unwrap();

    let (mut process, first) = subject.start();
    let ms = |time: Duration| format!("{} ms", time.as_millis());
    row("start to first answer, without a store", ms(first));
    std::thread::sleep(SETTLE);
    let megabytes = |value: f64| format!("{value:.0} MB");
    row(
        "RSS, 10 s after the first answer",
        megabytes(machine::rss(process.id())),
    );
    row(
        "highest RSS since the start",
        megabytes(machine::peak(process.id())),
    );
    let records = wire::axfr(subject.address, ZONE).unwrap().len();
    row("records of the zone", records.to_string());

    let serial = wire::serial(subject.address, ZONE).unwrap();
    let [mut of_request, mut of_reply] = notify_times(&etcd, &hears, serial);
    of_request.sort();
    of_reply.sort();
    for (what, times) in [
        ("change to NOTIFY, from the request to etcd", &of_request),
        ("the same, from etcd's reply", &of_reply),
    ] {
        let [p50, p99, most] = [0.5, 0.99, 1.0].map(|part| at(times, part));
        row(
            what,
            format!("p50 {p50:.1} ms, p99 {p99:.1} ms, at most {most:.1} ms"),
        );
    }

    let burst: Vec<(String, String)> = (0..BURST.min(keys()))
        .map(|at| (key(at), value(at, 5000)))
        .collect();
    let start = Instant::now();
    etcd.put_all(&burst);
    subject.wait(&mut process, BURST.min(keys()) - 1, 5000);
    row(
        &format!(
            "{} keys changed at once, until the last is answered",
            burst.len()
        ),
        ms(start.elapsed()),
    );

    machine::forget_peak(process.id());
    etcd.kill();
    etcd.start_again();
    etcd.put(&key(0), &value(0, 6000));
    subject.wait(&mut process, 0, 6000);
    row(
        "highest RSS while all keys are listed again",
        megabytes(machine::peak(process.id())),
    );

    assert!(process.terminate(PATIENCE).success());
    let (mut process, again) = subject.start();
    row("start to first answer, with the store", ms(again));
    assert!(process.terminate(PATIENCE).success());
    etcd.kill();
    let (mut process, away) = subject.start();
    row("the same, without etcd", ms(away));
    assert!(process.terminate(PATIENCE).success());
    println!("{} keys. {}.\n\n{table}", keys(), machine::describe());
}

//! zonewright itself as a child of a test: started from a Corefile, asked by its commands and its
//! HTTP ends, stopped, killed and started again on the same ports and the same state.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use super::process::Process;
use super::secondary::{FOLDER, Kind};
use super::wire::{self, Query, Record};
use super::{needs, ports};

/// How long a start or an end may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The EDNS option of extended errors (RFC 8914).
const EXTENDED_ERROR: u16 = 15;

/// A server; dropping it kills it.
#[derive(Debug)]
pub struct Zonewright {
    /// None while it is stopped. Before `folder`, so that it ends before its files go.
    process: Option<Process>,
    folder: TempDir,
    zones: Vec<String>,
    port: u16,
    metrics_port: u16,
    ready_port: u16,
    /// The file that says by how much its clock is off, once it may be.
    clock: Option<PathBuf>,
    /// Whether versions have the pace that they have in a cluster. Most tests change one name more often in a second.
    pub is_paced: bool,
}

/// A transfer that it finished, as its log tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transferred {
    /// The name of the key; none without one.
    pub key: Option<String>,
    /// `tls`, or the name of the certificate; none without TLS.
    pub tls: Option<String>,
    /// Of what sort: `axfr`, `ixfr` or `ixfr_as_axfr`.
    pub kind: String,
    /// How many records.
    pub records: u32,
}

impl Transferred {
    /// Of a line of the log, if it says so.
    fn read(line: &str) -> Option<Self> {
        line.contains("transfer finished").then_some(())?;
        let value = |name: &str| {
            let name = format!(" {name}=");
            let value = line.split_once(&name)?.1.split(' ').next()?;
            Some(value.trim_matches('"').to_owned())
        };
        Some(Self {
            key: value("key"),
            tls: value("tls"),
            kind: value("kind").expect("it says of what sort"),
            records: value("records")?.parse().expect("a number"),
        })
    }
}

impl Zonewright {
    /// Makes its folder and chooses its ports, but starts nothing: what follows it wants its address
    /// first.
    pub fn prepare(zones: &[&str]) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("zw-server-")
            .tempdir()
            .unwrap();
        Self {
            process: None,
            folder,
            zones: zones.iter().map(|zone| (*zone).to_owned()).collect(),
            port: ports::free(),
            metrics_port: ports::free(),
            ready_port: ports::free(),
            clock: None,
            is_paced: false,
        }
    }

    /// Writes the Corefile: one block of all zones with these lines, with metrics and readiness.
    pub fn configure(&self, lines: &str) {
        self.configure_with_keys("", lines);
    }

    /// As [`configure`](Self::configure), with more keys for the block.
    pub fn configure_with_keys(&self, more: &str, lines: &str) {
        let Self {
            zones,
            port,
            metrics_port,
            ready_port,
            ..
        } = self;
        let keys: Vec<String> = zones.iter().map(|zone| format!("{zone}:{port}")).collect();
        let text = format!(
            "{} {more} {{\n    bind 127.0.0.1\n    prometheus 127.0.0.1:{metrics_port}\n    \
             ready 127.0.0.1:{ready_port}\n    errors\n{lines}}}\n",
            keys.join(" ")
        );
        std::fs::write(self.corefile(), text).unwrap();
    }

    /// The Corefile.
    pub fn corefile(&self) -> PathBuf {
        self.folder.path().join("Corefile")
    }

    /// The state folder.
    pub fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// A folder for whatever the test wants to lay beside it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Where it answers.
    pub fn address(&self) -> SocketAddr {
        ports::loopback(self.port)
    }

    /// Its zones.
    pub fn zones(&self) -> Vec<&str> {
        self.zones.iter().map(String::as_str).collect()
    }

    /// Other zones, for the next [`configure`](Self::configure).
    pub fn set_zones(&mut self, zones: &[&str]) {
        self.zones = zones.iter().map(|zone| (*zone).to_owned()).collect();
    }

    /// What `emit` prints for the secondary there, secrets too; [`FOLDER`] stands for its folder.
    pub fn emitted(&self, kind: Kind, secondary: SocketAddr) -> String {
        let secondary = secondary.to_string();
        self.command(&[
            "emit",
            kind.name(),
            "--secondary",
            &secondary,
            "--with-secrets",
            "--dir",
            FOLDER,
        ])
    }

    /// Sets its clock off by so much (`-400d`), with libfaketime: from the next start on, and then at once.
    pub fn set_clock(&mut self, offset: &str) {
        let file = self.folder.path().join("clock");
        let aside = file.with_extension("next");
        std::fs::write(&aside, offset).unwrap();
        std::fs::rename(&aside, &file).unwrap();
        self.clock = Some(file);
    }

    /// Starts the process and returns at once.
    pub fn spawn(&mut self) {
        let mut command = Command::new(needs::zonewright());
        if let Some(file) = &self.clock {
            command
                .env("LD_PRELOAD", needs::faketime_library())
                .env("FAKETIME_TIMESTAMP_FILE", file)
                .env("FAKETIME_NO_CACHE", "1")
                .env("DONT_FAKE_MONOTONIC", "1");
        }
        command
            .arg("run")
            .arg("--corefile")
            .arg(self.corefile())
            .arg("--state")
            .arg(self.state())
            .current_dir(self.folder.path());
        if !self.is_paced {
            command.args(["--version-burst", "0"]);
        }
        let log = self.folder.path().join("log");
        self.process = Some(Process::spawn("zonewright", &mut command, &log));
    }

    /// Starts it and waits until every zone has a version.
    pub fn start(&mut self) {
        self.spawn();
        for zone in self.zones.clone() {
            let address = self.address();
            self.wait_for(&format!("a version of {zone}"), PATIENCE, || {
                wire::serial(address, &zone)
            });
        }
    }

    /// The process, for signals.
    ///
    /// # Panics
    /// When it is stopped.
    pub fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("zonewright runs")
    }

    /// SIGTERM, and waits for the end, which must be a good one.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let status = process.terminate(PATIENCE);
            assert!(status.success(), "{status}\n{}", process.log_tail());
        }
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// A signal to it.
    pub fn signal(&mut self, signal: Signal) {
        self.process().signal(signal);
    }

    /// Waits until `condition` gives a value.
    ///
    /// # Panics
    /// When it does not in time, or zonewright ends: with the end of its log.
    pub fn wait_for<T>(
        &mut self,
        what: &str,
        limit: Duration,
        condition: impl FnMut() -> Option<T>,
    ) -> T {
        self.process().wait_for(what, limit, condition)
    }

    /// All it logged, over all starts.
    pub fn log(&self) -> String {
        let octets = std::fs::read(self.folder.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&octets).into_owned()
    }

    /// The transfers that it says it finished, over all starts.
    pub fn transfers(&self) -> Vec<Transferred> {
        self.log().lines().filter_map(Transferred::read).collect()
    }

    /// The serial it serves.
    pub fn serial(&self, zone: &str) -> Option<u32> {
        wire::serial(self.address(), zone)
    }

    /// The serials of all its zones, in their order.
    pub fn serials(&self) -> Vec<Option<u32>> {
        self.zones.iter().map(|zone| self.serial(zone)).collect()
    }

    /// The zone by AXFR.
    ///
    /// # Panics
    /// When it is refused.
    pub fn zone(&self, zone: &str) -> Vec<Record> {
        wire::axfr(self.address(), zone).unwrap_or_else(|error| panic!("AXFR of {zone}: {error}"))
    }

    /// The addresses of a name by UDP; nothing when there is no answer.
    pub fn addresses(&self, name: &str) -> Option<Vec<String>> {
        addresses(self.address(), name)
    }

    /// The extended error of a reply to a query with EDNS, if it has one.
    pub fn extended_error(&self, zone: &str) -> Option<u16> {
        let reply = wire::udp(self.address(), &Query::new(zone, wire::SOA).edns(1232)).ok()?;
        let (_, data) = reply.options.iter().find(|it| it.0 == EXTENDED_ERROR)?;
        Some(u16::from_be_bytes(*data.first_chunk()?))
    }

    /// What a command prints; commands that look at the state are given the state folder.
    ///
    /// # Panics
    /// When it fails.
    pub fn command(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(needs::zonewright());
        command.args(arguments).current_dir(self.folder.path());
        match arguments.first() {
            Some(&("render" | "check" | "emit")) => command.arg("--corefile").arg(self.corefile()),
            _ => command.arg("--state").arg(self.state()),
        };
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The records of a zone as a whole rendering of the source gives them, sorted, without the SOA.
    pub fn rendered(&self, zone: &str) -> Vec<String> {
        let text = self.command(&["render", zone]);
        let words = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>());
        let records =
            words.filter(|words| words.get(2) == Some(&"IN") && words.get(3) != Some(&"SOA"));
        let mut texts: Vec<String> = records
            .map(|words| Record::parse(&words.join(" ")).text())
            .collect();
        texts.sort();
        texts
    }

    /// The records it serves, as [`rendered`](Self::rendered) gives them.
    pub fn served(&self, zone: &str) -> Vec<String> {
        let mut texts = wire::texts(&self.zone(zone));
        texts.retain(|line| !line.contains(" IN SOA "));
        texts
    }

    /// The versions of a zone, newest first, as `log --output json` tells them.
    pub fn versions(&self, zone: &str) -> Vec<Value> {
        let mut lines = self.log_lines(zone);
        lines.retain(|line| line["type"] != "act");
        lines
    }

    /// As [`Self::versions`], with the acts.
    pub fn log_lines(&self, zone: &str) -> Vec<Value> {
        let lines = self.command(&["log", zone, "--output", "json"]);
        lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// How things stand, as `status --output json` tells.
    pub fn status(&self) -> Value {
        serde_json::from_str(&self.command(&["status", "--output", "json"])).unwrap()
    }

    /// Status code and body of `/ready`.
    pub fn ready(&self) -> Option<(u16, String)> {
        http(self.ready_port, "/ready")
    }

    /// The sum of a metric over all its label sets that contain `labels`; none when there is none.
    pub fn metric(&self, name: &str, labels: &str) -> Option<f64> {
        let (_, text) = http(self.metrics_port, "/metrics")?;
        let values: Vec<f64> = text
            .lines()
            .filter_map(|line| {
                let rest = line.strip_prefix(name)?;
                let (found, value) = rest.rsplit_once(' ')?;
                let is_this = found.is_empty() || found.starts_with('{');
                (is_this && found.contains(labels)).then(|| value.parse().unwrap())
            })
            .collect();
        (!values.is_empty()).then(|| values.iter().sum())
    }
}

/// A GET by HTTP: status code and body; none when nobody answers.
pub fn http(port: u16, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(ports::loopback(port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let code = head.split(' ').nth(1)?.parse().ok()?;
    Some((code, body.to_owned()))
}

/// The IPv4 addresses of a name at a server, sorted; empty when it has none, none without an answer
/// with authority.
pub fn addresses(server: SocketAddr, name: &str) -> Option<Vec<String>> {
    let reply = wire::udp(server, &Query::new(name, wire::A)).ok()?;
    if !reply.is_authoritative() || !matches!(reply.rcode(), 0 | 3) {
        return None;
    }
    let mut found: Vec<String> = reply
        .answers
        .iter()
        .filter(|record| record.rtype == wire::A)
        .map(|record| record.data.clone())
        .collect();
    found.sort();
    Some(found)
}

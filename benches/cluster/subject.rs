//! The servers that are measured, and the cluster they watch.
#![allow(dead_code, reason = "each measurement uses its own part")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::{machine, objects};
use crate::support::apiserver::ApiServer;
use crate::support::process::{Process, wait_for};
use crate::support::wire::{self, Query};
use crate::support::{needs, ports};

/// How long a server may take for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// How long memory may settle before it is looked at.
pub(crate) const SETTLE: Duration = Duration::from_secs(10);

/// A server that is measured.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    /// From the start of the process to the first answer about the last Service.
    pub(crate) first_answer: Duration,
    /// Where it tells its metrics.
    metrics: u16,
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
    /// CoreDNS with the Corefile that `corefile` makes for a port and one for metrics.
    pub(crate) fn coredns(
        folder: &Path,
        core: Option<u32>,
        corefile: impl FnOnce(u16, u16) -> String,
    ) -> Self {
        let (port, metrics) = (ports::free(), ports::free());
        let file = folder.join("Corefile.coredns");
        std::fs::write(&file, corefile(port, metrics)).unwrap();
        let mut command = command(&needs::program("coredns"), core);
        command.arg("-conf").arg(&file);
        Self::start("CoreDNS", command, folder, (port, metrics))
    }

    /// The same for zonewright; its state stays in the folder.
    pub(crate) fn zonewright(
        folder: &Path,
        core: Option<u32>,
        corefile: impl FnOnce(u16, u16) -> String,
    ) -> Self {
        let (port, metrics) = (ports::free(), ports::free());
        let file = folder.join("Corefile.zonewright");
        std::fs::write(&file, corefile(port, metrics)).unwrap();
        let mut command = command(&needs::zonewright(), core);
        command.arg("run").arg("--corefile").arg(&file);
        command.arg("--state").arg(folder.join("state"));
        // What is measured is the work for a change, not the wait of a namespace that changes all the time.
        command.args(["--version-burst", "0"]);
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
    pub(crate) fn wait_for_service(&mut self, name: &str) {
        let query = Query::new(name, wire::A);
        let address = self.address;
        self.process
            .wait_for("the new Service", PATIENCE, || answers(address, &query));
    }

    /// How often all slices were listed; none for CoreDNS, which does not say.
    pub(crate) fn lists(&self) -> f64 {
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

    /// Resident memory, MB.
    pub(crate) fn rss(&self) -> f64 {
        machine::rss(self.process.id())
    }

    /// The most of it so far, MB.
    pub(crate) fn peak(&self) -> f64 {
        machine::peak(self.process.id())
    }

    /// Ends it in order; that must succeed.
    pub(crate) fn end(mut self) {
        let status = self.process.terminate(PATIENCE);
        let state = || self.process.log_tail();
        wait_for("a clean end", PATIENCE, state, || {
            status.success().then_some(())
        });
    }
}

/// Something when the answer has a record.
fn answers(address: SocketAddr, query: &Query) -> Option<()> {
    let reply = wire::udp(address, query).ok()?;
    (!reply.answers.is_empty()).then_some(())
}

/// Fills the API server with the cluster.
pub(crate) fn fill(server: &ApiServer) {
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

//! zonewright itself as a child: a folder with its manifests, its Corefile, its state and its log.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use tempfile::TempDir;

use super::needs::zonewright;
use super::ports;
use super::process::Process;
use super::wire;

/// How long a start may take on a machine that has other things to do.
pub const START: Duration = Duration::from_secs(30);
/// How long a change may take to be answered.
pub const CHANGE: Duration = Duration::from_secs(20);

/// The zones of [`Site::corefile`].
pub const ZONES: [&str; 3] = [
    "cluster.local.",
    "96.10.in-addr.arpa.",
    "244.10.in-addr.arpa.",
];

/// Where one zonewright lives.
#[derive(Debug)]
pub struct Site {
    folder: TempDir,
    /// Where it answers DNS.
    pub dns: SocketAddr,
    /// Where it answers `/metrics`, `/health` and `/ready`.
    pub metrics: SocketAddr,
    pub health: SocketAddr,
    pub ready: SocketAddr,
}

impl Site {
    /// What `/metrics` says.
    pub fn metrics(&self) -> String {
        let said = super::zonewright::http(self.metrics.port(), "/metrics");
        said.expect("it answers").1
    }

    /// A new folder with an empty `manifests`, and ports of its own.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        fs::create_dir(folder.path().join("manifests")).expect("a folder can be made");
        let site = Self {
            folder,
            dns: ports::free_address(),
            metrics: ports::free_address(),
            health: ports::free_address(),
            ready: ports::free_address(),
        };
        site.write(
            "Corefile",
            &site.corefile("history {\n        versions 300\n    }"),
        );
        site
    }

    /// A Corefile for the three [`ZONES`], with `more` in its block.
    pub fn corefile(&self, more: &str) -> String {
        let (port, manifests) = (self.dns.port(), self.path("manifests"));
        let Self {
            metrics,
            health,
            ready,
            ..
        } = self;
        format!(
            "cluster.local:{port} 10.96.0.0/16:{port} 10.244.0.0/16:{port} {{
    bind 127.0.0.1
    kubernetes {{
        manifests {}
        ttl 5
    }}
    apex {{
        ns ns1.dns.cluster.local 127.0.0.1
    }}
    transfer {{
        allow 127.0.0.1
    }}
    prometheus {metrics}
    health {health} {{
        lameduck 0s
    }}
    ready {ready}
    {more}
}}
",
            manifests.display()
        )
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The state folder.
    pub fn state(&self) -> PathBuf {
        self.path("state")
    }

    /// Writes a file of the folder as editors do: beside it, then renamed.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        let aside = path.with_extension("next");
        fs::write(&aside, text).expect("a file can be written");
        fs::rename(&aside, &path).expect("a file can be renamed");
    }

    /// Writes a file of the manifests folder.
    pub fn manifest(&self, name: &str, text: &str) {
        self.write(&format!("manifests/{name}"), text);
    }

    /// Starts `run`; its log is appended to `log`.
    pub fn start(&self) -> Process {
        self.start_with(&[])
    }

    /// Starts `run` with these options, too.
    pub fn start_with(&self, options: &[&str]) -> Process {
        let mut command = Command::new(zonewright());
        command.current_dir(self.folder.path()).args([
            "run",
            "--corefile",
            "Corefile",
            "--state",
            "state",
        ]);
        if !options.contains(&"--version-burst") {
            // Tests change one name more often in a second than a cluster does.
            command.args(["--version-burst", "0"]);
        }
        command.args(options);
        Process::spawn("zonewright", &mut command, &self.path("log"))
    }

    /// Starts `run` and waits until every one of [`ZONES`] answers.
    pub fn start_answering(&self) -> Process {
        let mut server = self.start();
        self.wait_until_answering(&mut server);
        server
    }

    /// Waits until every one of [`ZONES`] answers.
    pub fn wait_until_answering(&self, server: &mut Process) {
        server.wait_for("an SOA of every zone", START, || {
            ZONES
                .iter()
                .all(|zone| wire::serial(self.dns, zone).is_some())
                .then_some(())
        });
    }

    /// Runs one command to its end.
    pub fn run(&self, args: &[&str]) -> Output {
        Command::new(zonewright())
            .current_dir(self.folder.path())
            .args(args)
            .output()
            .expect("zonewright starts")
    }

    /// What a reading command prints about this site's state.
    ///
    /// # Panics
    /// When it fails.
    pub fn ask(&self, args: &[&str]) -> String {
        let output = self.run(&[args, &["--state", "state"]].concat());
        assert!(
            output.status.success(),
            "{args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("answers are UTF-8")
    }

    /// Starts the server with this many Services with cluster IPs, and changes a headless one until `cluster.local` has
    /// had seven versions. Gives their serials, oldest first.
    pub fn start_with_history(&self, services: u8) -> (Process, Vec<u32>) {
        let services: Vec<String> = (0..services)
            .map(|number| cluster_ip(&format!("s{number}"), number, 80))
            .collect();
        self.manifest("many.yaml", &services.join("---\n"));
        self.manifest("web.yaml", &headless("web", 1, &[1]));
        let mut server = self.start_answering();
        let mut serial = wire::serial(self.dns, ZONES[0]).expect("it answers");
        let mut serials = vec![serial];
        for hosts in [&[1, 2][..], &[2], &[2, 3, 4], &[], &[5], &[5, 6]] {
            self.manifest("web.yaml", &headless("web", 1, hosts));
            serial = self.new_serial(&mut server, ZONES[0], serial);
            serials.push(serial);
        }
        (server, serials)
    }

    /// Waits until the zone answers a serial other than `old`; gives it.
    pub fn new_serial(&self, server: &mut Process, zone: &str, old: u32) -> u32 {
        server.wait_for("a new serial", CHANGE, || {
            wire::serial(self.dns, zone).filter(|serial| *serial != old)
        })
    }
}

/// Copies a folder with all below it, sockets aside.
pub fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder can be made");
    for entry in fs::read_dir(from).expect("the folder can be read") {
        let entry = entry.expect("the folder can be read");
        let (kind, target) = (
            entry.file_type().expect("a file has a type"),
            to.join(entry.file_name()),
        );
        if kind.is_dir() {
            copy_folder(&entry.path(), &target);
        } else if kind.is_file() {
            fs::copy(entry.path(), target).expect("a file can be copied");
        } else if kind.is_symlink() {
            let named = fs::read_link(entry.path()).expect("a link can be read");
            std::os::unix::fs::symlink(named, target).expect("a link can be made");
        }
    }
}

/// A Service with a cluster IP `10.96.NUMBER.1`.
pub fn cluster_ip(name: &str, number: u8, port: u16) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: test}}\nspec:\n  \
         clusterIPs: [10.96.{number}.1]\n  ports: [{{name: http, port: {port}, protocol: TCP}}]\n"
    )
}

/// A headless Service with endpoints `10.244.NUMBER.HOST`.
pub fn headless(name: &str, number: u8, hosts: &[u8]) -> String {
    let endpoints: Vec<String> = hosts
        .iter()
        .map(|host| {
            format!("  - {{addresses: [10.244.{number}.{host}], conditions: {{ready: true}}}}\n")
        })
        .collect();
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: test}}\nspec:\n  \
         clusterIP: None\n  ports: [{{name: web, port: 80, protocol: TCP}}]\n---\n\
         apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: {name}-1\n  \
         namespace: test\n  labels: {{kubernetes.io/service-name: {name}}}\naddressType: IPv4\n\
         endpoints:{}\n{}ports: [{{name: web, port: 8080, protocol: TCP}}]\n",
        if hosts.is_empty() { " []" } else { "" },
        endpoints.concat()
    )
}

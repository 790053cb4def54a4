//! A Debian that systemd has booted, in a container with a network of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use regex::Regex;
use tempfile::TempDir;

use super::needs;
use super::process::{Process, now, poll_for};
use super::tree::run;

/// How long a start may take.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with the files of a Debian.
pub fn debian() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let tar = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools/debian.tar");
    run(Command::new("tar")
        .arg("-xf")
        .arg(tar)
        .arg("-C")
        .arg(folder.path()));
    folder
}

/// A booted Debian with a network of its own; ended when dropped.
pub struct Machine {
    process: Process,
    pub root: TempDir,
    _log: TempDir,
}

impl Machine {
    pub fn boot() -> Self {
        let (root, log) = (debian(), tempfile::tempdir().expect("a folder"));
        let mut command = Command::new(needs::program("systemd-nspawn"));
        command.args([
            "--quiet",
            "--register=no",
            "--keep-unit",
            "--private-network",
            "--console=pipe",
            "--boot",
            "--directory",
        ]);
        command.arg(root.path());
        let process = Process::spawn("systemd", &mut command, &log.path().join("log"));
        let machine = Self {
            process,
            root,
            _log: log,
        };
        let is_up = poll_for(now() + PATIENCE, Duration::from_millis(200), || {
            let said = machine.output(&["systemctl", "is-system-running"])?;
            (said.stdout == b"running\n").then_some(())
        });
        assert!(is_up.is_some(), "{}", machine.process.log());
        machine
    }

    /// The id of its first process, outside of it.
    pub fn init(&self) -> Option<String> {
        let id = self.process.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
        Some(children.split_whitespace().next()?.to_owned())
    }

    /// A program in it, with few variables.
    ///
    /// # Panics
    /// When the machine has ended.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let target = self.init().expect("it runs");
        let mut command = Command::new(needs::program("nsenter"));
        command.args(["--target", &target]).args([
            "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root", "--wd",
        ]);
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.arg("--").args(arguments);
        command
    }

    /// Runs a program in it; nothing when the machine has ended.
    pub fn output(&self, arguments: &[&str]) -> Option<Output> {
        self.init()?;
        let output = self.command(arguments).output();
        Some(output.expect("nsenter runs"))
    }

    /// Runs a program that has to succeed.
    pub fn run(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments).expect("it runs");
        let log = || self.output(&["journalctl", "--no-pager", "-n", "30", "-u", "zonewright"]);
        assert!(
            output.status.success(),
            "{arguments:?}: {output:?}\n{:?}",
            log()
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a program that has to fail: what it says.
    pub fn fail(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments).expect("it runs");
        assert!(!output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Installs a package, over another one or not.
    pub fn install(&self, package: &Path) -> String {
        fs::copy(package, self.path("root/it.deb")).expect("it can be copied");
        self.run(&["dpkg", "--install", "/root/it.deb"])
    }

    /// The serial that the server answers, once it does.
    pub fn serial(&self) -> u32 {
        let answers = poll_for(now() + PATIENCE, Duration::from_millis(100), || {
            let zonewright = ["zonewright", "status", "--state", "/var/lib/zonewright"];
            let said = self.output(&zonewright)?;
            let text = String::from_utf8_lossy(&said.stdout).into_owned();
            let serial = Regex::new(r"zone cluster\.local\. serial (\d+)").expect("a pattern");
            serial.captures(&text)?[1].parse().ok()
        });
        answers.unwrap_or_else(|| panic!("{}", self.run(&["systemctl", "status", "zonewright"])))
    }

    /// A property of the unit.
    pub fn property(&self, name: &str) -> String {
        let text = self.run(&["systemctl", "show", "--value", "-p", name, "zonewright"]);
        text.trim().to_owned()
    }

    /// What a program outside says in its network.
    pub fn beside(&self, arguments: &[&str]) -> String {
        let target = self.init().expect("it runs");
        run(Command::new(needs::program("nsenter"))
            .args(["--target", &target, "--net", "--"])
            .args(arguments))
    }
}

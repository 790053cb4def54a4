//! The packages in a Debian: installed, started by systemd, upgraded, removed; the RPM by rpm in the same files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use regex::Regex;

use crate::support::machine::{Machine, PATIENCE, debian};
use crate::support::needs;
use crate::support::process::{now, poll_for};
use crate::support::product::copy_folder;
use crate::support::tree::run;

/// Another release of the same program.
const LATER: &str = "99.0.0";
/// A Corefile with the example cluster in place of an API server.
const COREFILE: &str = "cluster.local 10.96.0.0/12 {
    bind 127.0.0.1
    kubernetes {
        manifests /etc/zonewright/cluster
    }
    prometheus 127.0.0.1:9153
}
";

/// Builds a package of the binary under test, of this release or of another.
fn build(kind: &str, version: Option<&str>, folder: &Path) -> PathBuf {
    let mut script = Command::new("deploy/package/build");
    script.arg(kind).arg(needs::zonewright()).arg(folder);
    script.envs(version.map(|it| ("ZW_PACKAGE_VERSION", it)));
    run(&mut script);
    let files = fs::read_dir(folder).expect("a folder");
    let mut files = files.map(|it| it.expect("an entry").path());
    let is_package = |it: &PathBuf| it.extension().is_some_and(|end| end == kind);
    files.find(is_package).expect("there is a package")
}

/// The files and folders below a folder, as paths from there, but for those that every program changes.
fn files(root: &Path) -> BTreeSet<PathBuf> {
    const OTHERS: [&str; 11] = [
        "dev",
        "proc",
        "root",
        "run",
        "sys",
        "tmp",
        "var/cache",
        "var/lib/dpkg",
        "var/lib/rpm",
        // systemd makes it for the first service with a user of its own.
        "var/lib/private",
        "var/log",
    ];
    let mut found = BTreeSet::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(root).expect("it is below").to_owned();
            if OTHERS.iter().any(|it| name == Path::new(it)) {
                continue;
            }
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            }
            found.insert(name);
        }
    }
    found
}

#[test]
fn the_debian_package_installs_starts_upgrades_and_leaves_nothing() {
    if needs::lacks(&["debian", "nfpm", "image", "dig", "curl"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let [first, again] =
        ["first", "again"].map(|name| build("deb", None, &folder.path().join(name)));
    let later = build("deb", Some(LATER), &folder.path().join("later"));
    let content = |package| fs::read(package).expect("it can be read");
    assert!(content(&first) == content(&again), "the builds differ");

    let machine = Machine::boot();
    let before = files(machine.root.path());
    let groups = machine.run(&["getent", "group"]);
    let said = machine.install(&first);
    assert!(said.contains("not started yet"), "{said}");
    assert_eq!(machine.property("ActiveState"), "inactive");
    assert_eq!(machine.property("UnitFileState"), "disabled");
    machine.run(&["systemd-analyze", "verify", "zonewright.service"]);
    // Tenths: at most 2.0.
    machine.run(&[
        "systemd-analyze",
        "security",
        "--threshold=20",
        "zonewright.service",
    ]);
    check_pages(&machine);

    // The packaged Corefile says where the kubeconfig is missing.
    let check = ["zonewright", "check", "/etc/zonewright/Corefile"];
    let said = machine.fail(&check);
    assert!(said.contains("/etc/zonewright/kubeconfig"), "{said}");
    machine.run(&["systemctl", "start", "zonewright"]);
    let has_failed = poll_for(now() + PATIENCE, Duration::from_millis(100), || {
        (machine.property("ActiveState") == "failed").then_some(())
    });
    assert!(has_failed.is_some(), "it is not started again and again");

    copy_folder(
        Path::new("zones/quickstart/cluster"),
        &machine.path("etc/zonewright/cluster"),
    );
    fs::write(machine.path("etc/zonewright/Corefile"), COREFILE).expect("a file");
    machine.run(&check);
    check_service(&machine);
    check_reload(&machine);
    check_upgrade(&machine, &first, &later);

    machine.run(&["dpkg", "--remove", "zonewright"]);
    assert_eq!(machine.property("LoadState"), "not-found");
    assert!(machine.path("var/lib/private/zonewright").exists());
    let kept = fs::read_to_string(machine.path("etc/zonewright/Corefile")).expect("it is kept");
    assert_eq!(kept, COREFILE);
    fs::remove_dir_all(machine.path("etc/zonewright/cluster")).expect("it is ours");
    machine.run(&["dpkg", "--purge", "zonewright"]);
    let after = files(machine.root.path());
    let left: Vec<_> = after.difference(&before).collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(!machine.path("var/lib/private/zonewright").exists());
    assert_eq!(machine.run(&["getent", "group"]), groups);
}

/// There is a manual page for each command, and completions.
fn check_pages(machine: &Machine) {
    let pages = fs::read_dir(machine.path("usr/share/man/man1")).expect("a folder");
    let names = pages.map(|it| it.expect("an entry").file_name());
    let pages: BTreeSet<String> = names
        .map(|it| it.to_string_lossy().into_owned())
        .filter(|it| it.starts_with("zonewright"))
        .collect();
    let commands = fs::read_dir("docs/commands").expect("a folder");
    let commands = commands.map(|it| it.expect("an entry").path());
    let mut wanted: BTreeSet<String> = commands
        .map(|it| {
            it.file_stem()
                .expect("a name")
                .to_string_lossy()
                .into_owned()
        })
        .map(|name| format!("zonewright-{name}.1.gz"))
        .collect();
    wanted.insert("zonewright.1.gz".to_owned());
    assert_eq!(pages, wanted);
    let script =
        "source /usr/share/bash-completion/completions/zonewright && complete -p zonewright";
    machine.run(&["bash", "-c", script]);
}

/// It runs as a user of its own on port 53, in its sandbox, and has the metrics that alerts ask for.
fn check_service(machine: &Machine) {
    machine.run(&["systemctl", "enable", "--now", "zonewright"]);
    machine.serial();
    let id = machine.property("MainPID");
    let owner = machine.run(&["stat", "-c", "%u", &format!("/proc/{id}")]);
    let owner: u32 = owner.trim().parse().expect("a number");
    assert!((61184..=65519).contains(&owner), "a dynamic user: {owner}");
    let status = [
        "zonewright",
        "status",
        "--state",
        "/var/lib/zonewright",
        "-o",
        "json",
    ];
    let status = machine.run(&status);
    let sandbox = Regex::new(r#""seccomp":\{[^}]*"isInForce":true"#).expect("a pattern");
    assert!(sandbox.is_match(&status), "{status}");
    let dig = ["dig", "@127.0.0.1", "web.shop.svc.cluster.local", "AAAA"];
    let answer = machine.beside(&[&dig[..], &["+short"]].concat());
    assert_eq!(answer, "fd00:10:96::12:34\n");
    let metrics = machine.beside(&["curl", "-s", "http://127.0.0.1:9153/metrics"]);
    for metric in ["process_start_time_seconds ", "process_open_fds "] {
        assert!(metrics.contains(metric), "{metric}: {metrics}");
    }
}

/// `systemctl reload` loads a change, or fails and the server stays as it was.
fn check_reload(machine: &Machine) {
    let (file, id) = (
        machine.path("etc/zonewright/Corefile"),
        machine.property("MainPID"),
    );
    fs::write(&file, COREFILE.replace("bind", "bond")).expect("a file");
    machine.fail(&["systemctl", "reload", "zonewright"]);
    let log = machine.run(&["journalctl", "--no-pager", "-u", "zonewright"]);
    assert!(log.contains("Corefile:2:5"), "{log}");
    machine.serial();
    fs::write(&file, COREFILE).expect("a file");
    machine.run(&["systemctl", "reload", "zonewright"]);
    assert_eq!(machine.property("MainPID"), id);
}

/// An upgrade starts the new program with the old Corefile and state; with a Corefile that it refuses the old one runs on.
fn check_upgrade(machine: &Machine, first: &Path, later: &Path) {
    let (file, id, serial) = (
        machine.path("etc/zonewright/Corefile"),
        machine.property("MainPID"),
        machine.serial(),
    );
    fs::write(&file, COREFILE.replace("bind", "bond")).expect("a file");
    machine.install(later);
    assert_eq!(machine.property("MainPID"), id);
    fs::write(&file, COREFILE).expect("a file");
    machine.install(first);
    assert_ne!(machine.property("MainPID"), id);
    assert_eq!(machine.serial(), serial, "nothing has changed");
    assert_eq!(machine.property("UnitFileState"), "enabled");
    assert_eq!(fs::read_to_string(&file).expect("it is kept"), COREFILE);
}

#[test]
fn the_rpm_package_installs_upgrades_and_leaves_only_what_was_changed() {
    if needs::lacks(&["debian", "nfpm", "image", "rpm"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let [first, again] =
        ["first", "again"].map(|name| build("rpm", None, &folder.path().join(name)));
    let later = build("rpm", Some(LATER), &folder.path().join("later"));
    let content = |package| fs::read(package).expect("it can be read");
    assert!(content(&first) == content(&again), "the builds differ");
    let root = debian();
    let before = files(root.path());
    let rpm = |arguments: &[&str], package: Option<&Path>| {
        let mut command = Command::new(needs::program("rpm"));
        command.arg("--root").arg(root.path()).args(arguments);
        run(command.args(package))
    };
    rpm(&["--initdb"], None);
    // What it depends on is there, but not as RPMs.
    rpm(&["--install", "--nodeps"], Some(&first));
    let requires = rpm(&["--query", "--requires", "zonewright"], None);
    assert!(requires.contains("glibc >= 2."), "{requires}");
    assert_eq!(rpm(&["--verify", "--nodeps", "zonewright"], None), "");
    let corefile = root.path().join("etc/zonewright/Corefile");
    fs::write(&corefile, COREFILE).expect("a file");
    rpm(&["--upgrade", "--nodeps"], Some(&later));
    let version = rpm(&["--query", "--qf", "%{VERSION}", "zonewright"], None);
    assert_eq!(version, LATER);
    assert_eq!(fs::read_to_string(&corefile).expect("it is kept"), COREFILE);
    rpm(&["--erase", "zonewright"], None);
    let after = files(root.path());
    let left: Vec<_> = after.difference(&before).collect();
    let kept = [
        "etc/zonewright",
        "etc/zonewright/Corefile.rpmsave",
        // Folders that other packages have where there are RPMs.
        "usr/share/fish",
        "usr/share/fish/vendor_completions.d",
        "usr/share/licenses",
        "usr/share/zsh/site-functions",
    ];
    assert_eq!(left, kept.map(Path::new));
}

//! The server in its sandbox: what is in force in its process, that `status` and the log say it, and that reloads go on
//! opening what they name. What the sandbox forbids is shown beside its code, in `src/runtime/sandbox.rs`.

use std::fs;

use crate::support::ports;
use crate::support::process::{Process, wait_for};
use crate::support::product::{CHANGE, Site};
use crate::support::wire;
use rustix::process::Signal;
use serde_json::Value;

/// A number that the kernel says of each thread of a process; 0 where it does not.
fn of_each_thread(id: u32, what: &str) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{id}/task")).expect("it runs");
    let number = |folder: std::path::PathBuf| {
        // A thread may end meanwhile.
        let text = fs::read_to_string(folder.join("status")).ok()?;
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(what)?.strip_prefix(':'));
        Some(value.map_or(0, |value| value.trim().parse().expect("a number")))
    };
    tasks
        .filter_map(|task| number(task.expect("it can be read").path()))
        .collect()
}

/// How many filters of system calls each thread has, more than we have.
fn filters(server: &Process) -> Vec<u32> {
    let ours = of_each_thread(std::process::id(), "Seccomp_filters")[0];
    let all = of_each_thread(server.id(), "Seccomp_filters").into_iter();
    all.map(|filters| filters - ours).collect()
}

/// The sandbox as `status --output json` has it.
fn sandbox(site: &Site) -> Value {
    let status: Value = serde_json::from_str(&site.ask(&["status", "--output", "json"])).unwrap();
    status["sandbox"].clone()
}

#[test]
fn all_threads_are_in_the_sandbox_and_status_and_the_log_say_what_is_in_force() {
    let site = Site::new();
    fs::create_dir(site.path("run")).unwrap();
    let mut server = site.start_with(&["--pidfile", "run/pid"]);
    site.wait_until_answering(&mut server);
    let (said, text) = (sandbox(&site), site.ask(&["status"]));
    let line = text
        .lines()
        .find(|line| line.starts_with("sandbox: "))
        .expect("it says it");
    assert!(server.log().contains(line), "{line}: {}", server.log());
    for part in ["landlock", "seccomp"] {
        let is_in_force = said[part]["isInForce"] == true;
        assert!(
            line.contains(&format!("{part} in force")) == is_in_force,
            "{line}"
        );
        assert!(is_in_force || said[part]["detail"].is_string(), "{said}");
    }
    if said["seccomp"]["isInForce"] == true {
        let filters = filters(&server);
        assert!(
            filters.len() > 3 && filters.iter().all(|filters| *filters == 2),
            "{filters:?}"
        );
    }
    let privileges = of_each_thread(server.id(), "NoNewPrivs");
    let is_any = said.to_string().contains("\"isInForce\":true");
    assert!(
        privileges.iter().all(|it| *it == u32::from(is_any)),
        "{privileges:?}"
    );
    let status = server.terminate(CHANGE);
    assert!(status.success(), "{}", server.log_tail());
    assert!(!site.path("run/pid").exists() && !site.path("state/control.sock").exists());
    assert!(!server.log().contains("denied"), "{}", server.log());
}

#[test]
fn a_reload_opens_ports_and_files_that_the_start_did_not_know() {
    let site = Site::new();
    let mut server = site.start_answering();
    let other = ports::free_address();
    fs::create_dir_all(site.path("new/folder")).unwrap();
    let zone = "$TTL 5\n@ SOA ns h 1 300 30 86400 5\n@ NS ns\nns A 192.0.2.53\n";
    fs::write(site.path("new/folder/zone"), zone).unwrap();
    let block = format!(
        "new.test:{} {{\n bind 127.0.0.1\n file new/folder/zone\n}}\n",
        other.port()
    );
    let before = fs::read_to_string(site.path("Corefile")).unwrap();
    site.write("Corefile", &(before + &block));
    server.signal(Signal::USR1);
    server.wait_for("the new zone", CHANGE, || wire::serial(other, "new.test"));
    fs::write(
        site.path("new/folder/zone"),
        zone.replace("h 1 ", "h 2 ").replace("53\n", "54\n"),
    )
    .unwrap();
    wait_for(
        "the changed zone",
        CHANGE,
        || server.log_tail(),
        || {
            let found = crate::support::zonewright::addresses(other, "ns.new.test")?;
            (found == ["192.0.2.54"]).then_some(())
        },
    );
}

#[test]
fn without_the_sandbox_nothing_is_given_up_and_status_says_so() {
    let site = Site::new();
    let mut server = site.start_with(&["--no-sandbox"]);
    site.wait_until_answering(&mut server);
    let said = sandbox(&site);
    for part in ["landlock", "seccomp"] {
        assert_eq!(said[part]["isInForce"], false);
        assert_eq!(said[part]["detail"], "--no-sandbox");
    }
    assert!(filters(&server).iter().all(|filters| *filters == 0));
    let ours = of_each_thread(std::process::id(), "NoNewPrivs")[0];
    assert!(
        of_each_thread(server.id(), "NoNewPrivs")
            .iter()
            .all(|it| *it == ours)
    );
}

#[test]
fn a_kubeconfig_that_starts_a_program_is_refused_with_the_way_out() {
    let site = Site::new();
    let kubeconfig = "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: c\n  cluster: {server: \"http://127.0.0.1:1\"}\n\
        contexts:\n- name: c\n  context: {cluster: c, user: u}\nusers:\n- name: u\n  user:\n    exec: {apiVersion: \
        client.authentication.k8s.io/v1, command: /bin/true, interactiveMode: Never}\n";
    site.write("kubeconfig", kubeconfig);
    let port = site.dns.port();
    site.write(
        "Corefile",
        &format!(
            "z.test:{port} {{\n bind 127.0.0.1\n kubernetes {{\n  kubeconfig kubeconfig\n }}\n}}\n"
        ),
    );
    let server = site.start();
    wait_for(
        "the reason",
        CHANGE,
        || server.log_tail(),
        || {
            let log = server.log();
            (log.contains("the sandbox starts no programs") && log.contains("run --no-sandbox"))
                .then_some(())
        },
    );
    // Without it the program runs, and gives no credentials.
    drop(server);
    let server = site.start_with(&["--no-sandbox"]);
    wait_for(
        "another reason",
        CHANGE,
        || server.log_tail(),
        || {
            server
                .log()
                .contains("exec-plugin response did not contain a status")
                .then_some(())
        },
    );
}

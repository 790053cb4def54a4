//! Tests of the command line: wrong input gives a message with a fix, the reading commands answer the same with and
//! without a server, and the server ends on a signal.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Output;
use std::time::Duration;

use crate::support::process::{Process, now, wait_for};
use crate::support::product::{CHANGE, START, Site, ZONES, cluster_ip, headless};
use crate::support::wire;
use directives::config::directives;
use directives::config::replica_metrics::METRICS as REPLICAS;
use ops::metrics::{METRICS, MetricKind};
use rustix::process::Signal;

/// The messages of a command that has ended, from standard error.
fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a command that has to fail with this code and exactly these lines, each with all of its words.
fn refused(site: &Site, args: &[&str], code: i32, lines: &[&[&str]]) {
    let output = site.run(args);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
    assert!(output.stdout.is_empty(), "{args:?} prints an answer");
    let got: Vec<&str> = text
        .lines()
        .filter(|line| !line.contains(" INFO "))
        .collect();
    assert_eq!(got.len(), lines.len(), "{args:?}:\n{text}");
    for (line, words) in got.iter().zip(lines) {
        for word in *words {
            assert!(line.contains(word), "{args:?}: no {word:?} in: {line}");
        }
    }
}

/// Runs `run`, which has to fail.
fn run_refused(site: &Site, code: i32, lines: &[&[&str]]) {
    let args = ["run", "--corefile", "Corefile", "--state", "state"];
    refused(site, &args, code, lines);
}

/// A site with two Services.
fn shop() -> Site {
    let site = Site::new();
    let both = [cluster_ip("web", 1, 80), headless("set", 1, &[1, 2])];
    site.manifest("shop.yaml", &both.join("---\n"));
    site
}

/// An HTTP answer: status and body.
fn http(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let status = answer.split(' ').nth(1)?.parse().ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    Some((status, body.to_owned()))
}

#[test]
fn a_corefile_with_five_mistakes_lists_five_places() {
    let site = Site::new();
    site.write(
        "Corefile",
        "cluster.local:53x {\n    kubernetes {\n        manifests manifests\n        ttl many\n    }\n    \
         bind 300.0.0.1\n    prometeus :9153\n    transfer {\n        allow 10.0.0.0/40\n    }\n}\n",
    );
    for command in ["run", "check", "render"] {
        refused(
            &site,
            &[command, "--corefile", "Corefile"],
            2,
            &[
                &["Corefile:1:", "53x"],
                &["Corefile:4:13:", "many"],
                &["Corefile:6:10:", "300.0.0.1"],
                &["Corefile:7:5:", "prometeus"],
                &["Corefile:9:15:", "10.0.0.0/40"],
            ],
        );
    }
}

#[test]
fn a_missing_corefile_says_so() {
    let site = Site::new();
    refused(
        &site,
        &["check", "--corefile", "nowhere"],
        2,
        &[&["nowhere"]],
    );
}

#[test]
fn a_kubeconfig_that_cannot_be_read_is_named() {
    let site = Site::new();
    let corefile = site.corefile("").replace(
        &format!("manifests {}", site.path("manifests").display()),
        "kubeconfig no-such-file",
    );
    site.write("Corefile", &corefile);
    run_refused(&site, 2, &[&["kubeconfig", "no-such-file"]]);
    site.write("no-such-file", "clusters: [not: what, it: is\n");
    run_refused(&site, 2, &[&["kubeconfig", "no-such-file"]]);
}

#[test]
fn what_this_machine_does_not_have_is_named_with_its_place() {
    let site = Site::new();
    let interface = ["Corefile:2:5: bind: interface nowhere0 has no address"];
    site.write(
        "Corefile",
        "z:5300 {\n    bind nowhere0\n    forward . no.such.host.invalid\n}\n",
    );
    // The Corefile may be for another machine.
    let output = site.run(&["check", "--corefile", "Corefile"]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let upstream = "Corefile:3:5: forward: no address of no.such.host.invalid";
    for want in [interface[0], upstream] {
        assert!(text.contains(want), "{want} in {text}");
    }
    site.write("Corefile", "z:5300 {\n    bind nowhere0\n    any\n}\n");
    run_refused(&site, 2, &[&interface]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let text = format!("z:{port} {{\n    bind 127.0.0.1\n    any\n}}\n");
    site.write("Corefile", &text);
    run_refused(&site, 2, &[&["Corefile:2:5: cannot listen on 127.0.0.1"]]);
}

#[test]
fn a_zone_file_that_cannot_be_used_is_named_with_its_lines() {
    let site = Site::new();
    site.write("Corefile", "z:5300 {\n    file db\n}\n");
    let missing: &[&[&str]] = &[&["db: cannot be read"], &["Corefile:2:5"]];
    let soa = "@ 5 SOA ns h 1 2 3 4 5\n";
    site.write("bad", &format!("{soa}a A x\nb.y. 5 A 192.0.2.1\n"));
    // `run` serves everything else: tests/followed.rs.
    for command in ["check", "render"] {
        let args = [command, "--corefile", "Corefile"];
        refused(&site, &args, 2, missing);
    }
    site.write("Corefile", "z:5300 {\n    file bad\n}\n");
    refused(
        &site,
        &["check", "--corefile", "Corefile"],
        2,
        &[
            &["bad:2:5", "IPv4"],
            &["bad:3:1", "b.y. is not in the zone z."],
            &["Corefile:2:5"],
        ],
    );
}

#[test]
fn a_missing_manifests_folder_is_named() {
    let site = Site::new();
    fs::remove_dir(site.path("manifests")).expect("it is empty");
    run_refused(&site, 2, &[&["manifests", "name a folder that exists"]]);
}

#[test]
fn a_busy_port_is_named() {
    let site = shop();
    let port = site.dns.port().to_string();
    let holder = UdpSocket::bind(site.dns).expect("the port is free");
    run_refused(&site, 2, &[&["cannot listen", &port, "another port"]]);
    drop(holder);
    let holder = TcpListener::bind(site.dns).expect("the port is free");
    run_refused(&site, 2, &[&["cannot listen", &port, "another port"]]);
    drop(holder);
    for (address, what) in [
        (site.metrics, "prometheus"),
        (site.health, "health"),
        (site.ready, "ready"),
    ] {
        let holder = TcpListener::bind(address).expect("the port is free");
        run_refused(
            &site,
            2,
            &[&["cannot listen", &address.to_string(), what, "another port"]],
        );
        drop(holder);
    }
}

#[test]
fn an_address_of_another_machine_is_named() {
    let site = shop();
    let corefile = site.path("Corefile");
    let text = fs::read_to_string(&corefile).expect("the site has one");
    // RFC 5737: nobody's.
    fs::write(&corefile, text.replace("bind 127.0.0.1", "bind 192.0.2.1")).expect("it is ours");
    run_refused(
        &site,
        2,
        &[&["cannot listen on 192.0.2.1", "no such address", "`bind`"]],
    );
}

#[test]
fn a_state_folder_in_use_is_named_with_its_holder() {
    let site = shop();
    let mut server = site.start_answering();
    // The same folder, other ports.
    let other = Site::new();
    let state = site.state();
    let state = state.to_str().expect("test paths are UTF-8");
    let holder = server.id().to_string();
    refused(
        &other,
        &["run", "--corefile", "Corefile", "--state", state],
        2,
        &[&["in use by", &holder, "--state"]],
    );
    assert!(server.terminate(START).success());
}

#[test]
fn a_state_folder_of_others_is_left_alone() {
    let site = shop();
    fs::create_dir(site.state()).expect("a folder can be made");
    fs::write(site.state().join("diary.txt"), "mine").expect("a file can be written");
    run_refused(&site, 2, &[&["holds other files", "diary.txt", "--state"]]);
    let left: Vec<_> = fs::read_dir(site.state())
        .expect("it is there")
        .map(|entry| entry.expect("it can be read").file_name())
        .collect();
    assert_eq!(left, ["diary.txt"]);
}

#[test]
fn a_state_folder_that_cannot_be_one_is_named() {
    let site = shop();
    File::create(site.state()).expect("a file can be made");
    run_refused(&site, 2, &[&["is a file, not a state folder", "--state"]]);
    fs::remove_file(site.state()).expect("it is there");
    // /proc takes no new folders, even from root, whom permissions would not stop.
    refused(
        &site,
        &[
            "run",
            "--corefile",
            "Corefile",
            "--state",
            "/proc/zonewright",
        ],
        2,
        &[
            &["`transfer` in Corefile:", "hands out what is in it"],
            &["state folder /proc/zonewright cannot be used", "--state"],
        ],
    );
}

#[test]
fn a_broken_manifest_costs_only_itself() {
    let site = shop();
    let mut server = site.start_answering();
    let old = wire::serial(site.dns, ZONES[0]).expect("it answers");
    site.manifest(
        "broken.yaml",
        "apiVersion: v1\nkind: Service\nmetadata: {name: [\n",
    );
    site.manifest("more.yaml", &cluster_ip("more", 2, 80));
    site.new_serial(&mut server, ZONES[0], old);
    let place = "broken.yaml:3";
    let log = server.log();
    assert!(
        log.lines()
            .any(|line| line.contains(" WARN ") && line.contains(place)),
        "{log}"
    );
    assert!(site.ask(&["status"]).contains(&format!("problem {place}")));
    // A corrected manifest is no longer a problem.
    site.manifest("broken.yaml", &cluster_ip("mended", 3, 80));
    server.wait_for("a status without problems", CHANGE, || {
        (!site.ask(&["status"]).contains("problem ")).then_some(())
    });
    server.wait_for("a version with both", CHANGE, || {
        let shown = site.ask(&["show", ZONES[0]]);
        let both = shown.contains("mended.test.svc") && shown.contains("more.test.svc");
        both.then_some(())
    });
    assert!(server.terminate(START).success());
}

#[test]
fn questions_without_an_answer_say_why() {
    let site = shop();
    let asked = |args: &[&str], code: i32, words: &[&str]| {
        let args = [args, &["--state", "state"]].concat();
        refused(&site, &args, code, &[words]);
    };
    asked(
        &["show", "cluster.local"],
        2,
        &["there is no state folder", "--state"],
    );
    asked(&["status"], 1, &["no server runs", "zonewright run"]);
    let mut server = site.start_answering();
    for running in [true, false] {
        if !running {
            assert!(server.terminate(START).success());
            asked(&["status"], 1, &["no server runs", "zonewright run"]);
        }
        for command in ["show", "log"] {
            asked(
                &[command, "example.org"],
                2,
                &["no zone example.org", "cluster.local."],
            );
        }
        asked(
            &["diff", "example.org", "1"],
            2,
            &["no zone example.org", "cluster.local."],
        );
        asked(
            &["show", "cluster.local@7"],
            3,
            &["serial 7", "history begins at serial"],
        );
        asked(
            &["diff", "cluster.local", "7"],
            3,
            &["serial 7", "history begins at serial"],
        );
        asked(
            &["show", "cluster.local@2020-01-01"],
            3,
            &["history begins at serial"],
        );
        asked(
            &["show", "cluster.local@yesterday"],
            3,
            &["history begins at serial"],
        );
        asked(&["log", "--since", "soon"], 2, &["soon", "2 hours ago"]);
        asked(&["log", "--object", "web"], 2, &["web", "Service, "]);
    }
}

#[test]
fn render_equals_what_run_transfers() {
    let site = shop();
    let manifests = std::env::current_dir()
        .expect("there is one")
        .join("zones/quickstart/cluster");
    let corefile = site.corefile("").replace(
        &site.path("manifests").display().to_string(),
        &manifests.display().to_string(),
    );
    site.write("Corefile", &corefile);
    let mut server = site.start_answering();
    for zone in ZONES {
        let rendered = site.run(&["render", "--corefile", "Corefile", zone]);
        let rendered = String::from_utf8(rendered.stdout).expect("zones are UTF-8");
        let lines = |text: &str| -> Vec<String> {
            let mut lines: Vec<String> = text
                .lines()
                .filter(|line| !line.contains(" IN SOA ") && !line.starts_with(';'))
                .map(str::to_lowercase)
                .collect();
            lines.sort();
            lines
        };
        let transferred = wire::texts(&wire::axfr(site.dns, zone).expect("it transfers"));
        assert!(rendered.lines().count() > 2, "{rendered}");
        assert_eq!(lines(&rendered), lines(&transferred.join("\n")), "{zone}");
        assert_eq!(
            lines(&rendered),
            lines(&site.ask(&["show", zone])),
            "{zone}"
        );
    }
    assert!(server.terminate(START).success());
}

#[test]
fn the_past_is_told_alike_with_and_without_a_server() {
    let site = shop();
    let mut server = site.start_answering();
    let first = wire::serial(site.dns, ZONES[0]).expect("it answers");
    site.manifest("shop.yaml", &cluster_ip("web", 1, 81));
    let second = site.new_serial(&mut server, ZONES[0], first);
    let (first, second) = (first.to_string(), second.to_string());
    let at_first = format!("{}@{first}", ZONES[0]);
    let questions: Vec<Vec<&str>> = vec![
        vec!["log"],
        vec![
            "log",
            "cluster.local",
            "--name",
            "web.test.svc.cluster.local",
        ],
        vec!["log", "--object", "Service/test/web"],
        vec!["show", "cluster.local"],
        vec!["show", &at_first],
        vec!["show", &at_first, "web.test.svc.cluster.local."],
        vec!["diff", "cluster.local", &first],
        vec!["diff", "cluster.local", &second, &first],
    ];
    let ask_all = || -> Vec<String> {
        let asked = questions.iter().flat_map(|question| {
            ["text", "json"].map(|form| site.ask(&[question, &["--output", form][..]].concat()))
        });
        asked.collect()
    };
    let running = ask_all();
    assert!(server.terminate(START).success());
    // Commands that read the store wait for each other.
    let stopped = std::thread::scope(|scope| {
        let beside = scope.spawn(ask_all);
        let stopped = ask_all();
        assert_eq!(beside.join().expect("every command is answered"), stopped);
        stopped
    });
    for ((running, stopped), question) in running.chunks(2).zip(stopped.chunks(2)).zip(&questions) {
        assert!(
            !running[0].is_empty() && !running[1].is_empty(),
            "{question:?}"
        );
        assert_eq!(running, stopped, "{question:?}");
        for line in running[1].lines() {
            assert!(
                line.starts_with('{') && line.ends_with('}'),
                "{question:?}: {line}"
            );
        }
    }
    assert!(
        running[0].contains(&second) && running[0].contains("shop.yaml:"),
        "{}",
        running[0]
    );
}

#[test]
fn flags_of_coredns_start_the_server() {
    let site = shop();
    let port = site.dns.port();
    let write = |state: &str| {
        let corefile = site.corefile(&format!("    state {state}\n"));
        site.write("Corefile", &corefile.replace(&format!(":{port}"), ""));
    };
    write("kept");
    let mut command = std::process::Command::new(crate::support::needs::zonewright());
    let port = port.to_string();
    let flags = ["-conf", "Corefile", "-dns.port", &port];
    command.current_dir(site.path("")).args(flags);
    let mut server = Process::spawn("zonewright", &mut command, &site.path("log"));
    server.wait_for("an answer", START, || wire::serial(site.dns, ZONES[0]));
    assert!(site.path("kept/serials").exists());
    write("elsewhere");
    server.signal(Signal::USR1);
    server.wait_for("a warning", START, || {
        server_log(&site)
            .contains("`state` changed: the folder stays until the next start")
            .then_some(())
    });
    assert!(server.terminate(START).success());
    assert!(!site.path("elsewhere").exists());
}

#[test]
fn a_signal_ends_after_the_lame_duck_time_and_a_second_one_at_once() {
    let site = shop();
    let slow = |seconds: u32| {
        let corefile = site
            .corefile("")
            .replace("lameduck 0s", &format!("lameduck {seconds}s"));
        site.write("Corefile", &corefile);
    };
    slow(1);
    let mut server = site.start_answering();
    assert_eq!(
        http(site.ready, "/ready").map(|(status, _)| status),
        Some(200)
    );
    let start = now();
    server.signal(Signal::TERM);
    server.wait_for("unready while it still answers", START, || {
        http(site.ready, "/ready").filter(|(status, _)| *status == 503)
    });
    assert!(wire::serial(site.dns, ZONES[0]).is_some());
    let ended = wait_for("the end", START, String::new, || server.ended());
    assert_eq!(ended.code(), Some(0));
    assert!(
        start.elapsed() >= Duration::from_secs(1),
        "{:?}",
        start.elapsed()
    );

    slow(600);
    let mut server = site.start_answering();
    server.signal(Signal::TERM);
    server.wait_for("the shutdown", START, || {
        server_log(&site)
            .contains("Going into lameduck mode for 10m0s")
            .then_some(())
    });
    server.signal(Signal::TERM);
    let ended = wait_for("the end", START, String::new, || server.ended());
    assert_eq!(ended.code(), Some(1));
    assert!(
        server.log().contains("ended by a second signal"),
        "{}",
        server.log()
    );
    // Its history is still there.
    assert!(site.ask(&["log"]).contains(ZONES[0]));
}

/// The log file of a site.
fn server_log(site: &Site) -> String {
    fs::read_to_string(site.path("log")).unwrap_or_default()
}

#[test]
fn the_http_ends_tell_how_it_stands() {
    let site = shop();
    // No API server: nothing is listed, so nothing is ready.
    let dead = crate::support::ports::free_address();
    let corefile = site.corefile("").replace(
        &format!("manifests {}", site.path("manifests").display()),
        &format!("endpoint http://{dead}"),
    );
    site.write("Corefile", &corefile);
    let mut server = site.start();
    server.wait_for("not ready", START, || {
        http(site.ready, "/ready").filter(|(status, body)| *status == 503 && body == "kubernetes")
    });
    assert!(server.log().contains(ZONES[0]), "{}", server.log());
    assert_eq!(http(site.health, "/health"), Some((200, "OK".into())));
    assert!(server.terminate(START).success());

    site.write("Corefile", &site.corefile(""));
    let mut server = site.start_answering();
    assert_eq!(http(site.ready, "/ready"), Some((200, "OK".into())));
    let (status, text) = http(site.metrics, "/metrics").expect("metrics are answered");
    assert_eq!(status, 200);
    assert!(
        text.contains("\n# TYPE zonewright_queries_total counter\n"),
        "{text}"
    );
    // Of metrics with labels, only those with a count are listed.
    let has = |name: String| text.contains(&format!("# HELP {name} "));
    let named = |name: &str| has(name.to_owned()) || has(format!("{name}_total"));
    let missing: Vec<&str> = METRICS
        .iter()
        .chain(directives().flat_map(|it| it.metrics))
        .filter(|metric| metric.labels.is_empty() || metric.kind == MetricKind::Gauge)
        .filter(|metric| !metric.name.contains("_secondary_"))
        // Metrics of handlers that this Corefile does not have.
        .filter(|metric| metric.labels.is_empty() || !metric.name.starts_with("coredns_"))
        .map(|metric| metric.name)
        // Absent before the first reload, as in CoreDNS, and without a signed zone, notes or an archive.
        .filter(|name| *name != "coredns_reload_version_info")
        .filter(|name| *name != "zonewright_zone_signatures_end_timestamp_seconds")
        .filter(|name| *name != "zonewright_note_timestamp_seconds")
        .filter(|name| *name != "zonewright_archive_waiting_versions")
        // Those of `replicas`.
        .filter(|name| !REPLICAS.iter().any(|it| it.name == *name))
        .filter(|name| !named(name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}\n{text}");
    let serial = wire::serial(site.dns, ZONES[0]).expect("it answers");
    for want in [
        format!("zonewright_zone_serial{{zone=\"{}\"}} {serial}", ZONES[0]),
        format!("zonewright_versions_total{{zone=\"{}\"}} 1", ZONES[0]),
        "zonewright_queries_total{".into(),
    ] {
        assert!(text.contains(&want), "no {want} in\n{text}");
    }
    assert!(server.terminate(START).success());
}

#[test]
fn an_export_to_standard_output_is_no_folder() {
    let site = Site::new();
    let output = site.run(&["export", "cluster.local.", "--to", "-", "--state", "state"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("show ZONE@SERIAL"), "{text}");
    assert!(!site.path("-").exists());
}

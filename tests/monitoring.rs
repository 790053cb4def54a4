//! A real Prometheus scrapes a server: what alerts and the dashboard ask for is there, and their queries have an answer.

use std::collections::BTreeSet;
use std::fs;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use directives::config::replica_metrics::METRICS as REPLICAS;
use regex::Regex;
use serde_json::{Value, json};

use crate::deploy::{alerts, groups};
use crate::support::evidence::make_keys;
use crate::support::needs;
use crate::support::ports;
use crate::support::process::{Process, now, poll_for};
use crate::support::product::{Site, ZONES, cluster_ip, headless};
use crate::support::wire::{self, Connection, Query};
use crate::support::zonewright::http;

const PATIENCE: Duration = Duration::from_secs(30);
const A: u16 = 1;

/// A running Prometheus that scrapes a site each second.
struct Prometheus {
    process: Process,
    port: u16,
}

impl Prometheus {
    fn start(site: &Site) -> Self {
        let port = ports::free();
        let config = json!({
            "global": { "scrape_interval": "1s", "evaluation_interval": "1s" },
            "rule_files": ["rules.yaml"],
            "scrape_configs": [{ "job_name": "zonewright", "static_configs": [{ "targets": [site.metrics] }] }],
        });
        site.write("prometheus.yaml", &config.to_string());
        site.write("rules.yaml", &json!({ "groups": groups() }).to_string());
        let mut command = Command::new(needs::program("prometheus"));
        command
            .current_dir(site.path(""))
            .args([
                "--config.file=prometheus.yaml",
                "--storage.tsdb.path=prometheus",
            ])
            .arg(format!("--web.listen-address=127.0.0.1:{port}"));
        let process = Process::spawn("prometheus", &mut command, &site.path("prometheus.log"));
        Self { process, port }
    }

    /// The data of an answer of its API.
    fn ask(&self, path: &str) -> Option<Value> {
        let (status, body) = http(self.port, path)?;
        let answer: Value = serde_json::from_str(&body).ok()?;
        assert!(
            status == 200 && answer["status"] == "success",
            "{path}: {body}"
        );
        Some(answer["data"].clone())
    }

    /// The series of a query.
    fn series(&self, query: &str) -> Vec<Value> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answer = self.ask(&format!("/api/v1/query?query={encoded}"));
        let answer = answer.expect("it answers");
        answer["result"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until a query has an answer.
    fn wait_for(&self, query: &str) -> bool {
        let found = poll_for(now() + PATIENCE, Duration::from_millis(300), || {
            (!self.series(query).is_empty()).then_some(())
        });
        found.is_some()
    }
}

/// A site whose server has done everything once.
fn busy_site() -> (Site, Process) {
    let site = Site::new();
    // It answers no NOTIFY, and takes no version.
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    let to = silent.local_addr().expect("it is bound");
    make_keys(&site);
    let archive = site.path("archive");
    fs::create_dir(&archive).expect("a folder can be made");
    let history = format!(
        "history {{\n        sign key.pem\n        note log\n        archive file://{}\n    }}",
        archive.display()
    );
    let corefile = site.corefile(&format!("cache\n    reload 2s\n    {history}"));
    let corefile = corefile.replace(
        "allow 127.0.0.1\n",
        &format!("allow 127.0.0.1\n        to {to}\n"),
    );
    site.write("Corefile", &corefile);
    site.manifest("web.yaml", &cluster_ip("web", 1, 80));
    let mut server = site.start_answering();
    let old = wire::serial(site.dns, ZONES[0]).expect("it answers");
    site.manifest("set.yaml", &headless("set", 1, &[1, 2]));
    site.new_serial(&mut server, ZONES[0], old);
    for _ in 0..2 {
        wire::udp(site.dns, &Query::new("web.test.svc.cluster.local.", A)).expect("it answers");
        let mut connection = Connection::open(site.dns).expect("it listens");
        let request = Query::new(ZONES[0], wire::AXFR).encode();
        connection.send(&request).expect("it takes the request");
        connection.receive().expect("it answers");
    }
    site.ask(&["freeze", ZONES[0], "--for", "1h", "--yes"]);
    (site, server)
}

/// The metrics that a text asks for; those of the kubelet are not ours.
fn metrics_of(text: &str) -> BTreeSet<String> {
    let word = Regex::new(r"\b(?:zonewright|coredns|process)_[a-z0-9_]+\b").expect("a pattern");
    word.find_iter(text)
        .map(|it| it.as_str().to_owned())
        .collect()
}

/// The queries of a dashboard's panels, as Grafana sends them.
fn queries(panels: &Value) -> Vec<String> {
    let panels = panels.as_array().into_iter().flatten();
    let mut found = Vec::new();
    for panel in panels {
        found.extend(queries(&panel["panels"]));
        for target in panel["targets"].as_array().into_iter().flatten() {
            found.push(as_sent(target["expr"].as_str().expect("a query")));
        }
    }
    found
}

/// A query with Grafana's variables replaced.
fn as_sent(query: &str) -> String {
    let query = query
        .replace("$__rate_interval", "4s")
        .replace("$__interval", "4s");
    query.replace("$instance", ".*")
}

#[test]
fn a_prometheus_that_scrapes_us_answers_each_query_of_the_dashboard_and_judges_each_alert() {
    if needs::lacks(&["promtool"]) {
        return;
    }
    let (site, mut server) = busy_site();
    let prometheus = Prometheus::start(&site);
    let is_up = poll_for(now() + PATIENCE, Duration::from_millis(200), || {
        let (status, _) = http(prometheus.port, "/-/ready")?;
        (status == 200).then_some(())
    });
    assert!(is_up.is_some(), "{}", prometheus.process.log());
    assert!(prometheus.wait_for("up{job=\"zonewright\"} == 1"));

    let text = |file| {
        let path = format!("deploy/components/monitoring/{file}");
        fs::read_to_string(path).expect("it is there")
    };
    let (rules, dashboard) = (text("rules.yaml"), text("zonewright.json"));
    let asked = metrics_of(&(rules + &dashboard));
    assert!(asked.len() > 20, "{asked:?}");
    // `tests/interop_signed.rs` has a signed zone, and this metric.
    let of_signed = "zonewright_zone_signatures_end_timestamp_seconds";
    // `tests/replicas.rs` has those of replicas.
    let is_of_replicas = |name: &str| REPLICAS.iter().any(|it| name.starts_with(it.name));
    let missing: Vec<&String> = { asked.iter().filter(|it| *it != of_signed) }
        .filter(|it| !is_of_replicas(it))
        .filter(|it| !prometheus.wait_for(it))
        .collect();
    assert!(missing.is_empty(), "no series of {missing:?}");
    assert!(!prometheus.series("zonewright_zone_held == 0").is_empty());
    assert!(
        prometheus.series("zonewright_zone_hold").is_empty(),
        "a metric that is not there has no series"
    );

    let dashboard: Value = serde_json::from_str(&dashboard).expect("it is JSON");
    let mut all = queries(&dashboard["panels"]);
    for annotation in dashboard["annotations"]["list"].as_array().expect("a list") {
        // The comparison may leave nothing.
        let query = annotation["expr"].as_str().expect("a query");
        all.push(as_sent(query.split('>').next().expect("a query")));
    }
    assert!(all.len() > 15, "{all:?}");
    let silent: Vec<&String> = all.iter().filter(|it| !prometheus.wait_for(it)).collect();
    assert!(silent.is_empty(), "no answer to {silent:?}");

    let judged = poll_for(now() + PATIENCE, Duration::from_millis(300), || {
        let answer = prometheus.ask("/api/v1/rules")?;
        let groups = answer["groups"].as_array()?.iter();
        let rules = groups.flat_map(|it| it["rules"].as_array().into_iter().flatten());
        let rules: Vec<Value> = rules.cloned().collect();
        let is_judged = |rule: &Value| rule["health"] == "ok";
        (rules.len() == alerts().len() && rules.iter().all(is_judged)).then_some(rules)
    });
    let judged = judged.unwrap_or_else(|| panic!("{:?}", prometheus.ask("/api/v1/rules")));
    let state = |name: &str| {
        let rule = judged.iter().find(|it| it["name"] == name);
        rule.expect("it is there")["state"].clone()
    };
    // The freeze waits for its 24 hours.
    assert_eq!(state("ZonewrightOrderStands"), "pending");
    assert_eq!(state("ZonewrightDown"), "inactive");
    server.terminate(PATIENCE);
}

//! `deploy/` without a cluster: alerts, the dashboard and the Corefile fit the program and the manual.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use directives::config::directives;
use ops::metrics::{METRICS, MetricKind};
use regex::Regex;
use serde_json::Value;

use crate::support::lists::rust_files;
use crate::support::needs;

const MONITORING: &str = "deploy/components/monitoring";

fn text_of(file: &str) -> String {
    fs::read_to_string(file).expect("the file is there")
}

/// The groups of rules, as the Prometheus operator hands them to Prometheus.
pub fn groups() -> Value {
    let rules: Value = serde_saphyr::from_str(&text_of(&format!("{MONITORING}/rules.yaml")))
        .expect("the rules are YAML");
    rules["spec"]["groups"].clone()
}

pub fn alerts() -> Vec<Value> {
    let groups = groups();
    let groups = groups.as_array().expect("a list of groups");
    let rules = groups.iter().map(|it| it["rules"].as_array());
    rules.flatten().flatten().cloned().collect()
}

/// The series that a metric has in a scrape.
fn series(name: &str, kind: MetricKind) -> Vec<String> {
    let endings: &[&str] = match kind {
        MetricKind::Counter => &["_total"],
        MetricKind::Gauge => &[""],
        MetricKind::Histogram => &["_bucket", "_sum", "_count"],
    };
    endings.iter().map(|end| format!("{name}{end}")).collect()
}

#[test]
fn each_alert_has_its_section_of_the_manual_and_no_other_is_there() {
    let alerts = alerts();
    let named: BTreeSet<String> = alerts
        .iter()
        .map(|it| it["alert"].as_str().expect("a name").to_owned())
        .collect();
    let manual = text_of("docs/alerts.md");
    let sections = manual.lines().filter_map(|line| line.strip_prefix("## "));
    assert_eq!(named, sections.map(str::to_owned).collect());
    for alert in &alerts {
        let name = alert["alert"].as_str().expect("a name").to_lowercase();
        let runbook = format!("docs/alerts.md#{name}");
        assert_eq!(alert["annotations"]["runbook"], runbook.as_str());
    }
}

#[test]
fn alerts_and_the_dashboard_ask_for_series_that_a_scrape_has() {
    let of_handlers = directives().flat_map(|it| it.metrics);
    let ours: BTreeSet<String> = METRICS
        .iter()
        .chain(of_handlers)
        .flat_map(|it| series(it.name, it.kind))
        .collect();
    let word = Regex::new(r"\b(?:zonewright|coredns|process)_[a-z0-9_]+\b").expect("a pattern");
    for file in ["rules.yaml", "rules.test.yaml", "zonewright.json"] {
        let text = text_of(&format!("{MONITORING}/{file}"));
        let asked: BTreeSet<String> = word
            .find_iter(&text)
            .map(|it| it.as_str().to_owned())
            .collect();
        assert!(asked.len() > 10, "{file} names metrics");
        let unknown: Vec<_> = asked.difference(&ours).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?}");
    }
}

#[test]
fn each_alert_fires_when_it_must_and_is_silent_when_all_is_well() {
    let cases = text_of(&format!("{MONITORING}/rules.test.yaml"));
    for alert in alerts() {
        let name = alert["alert"].as_str().expect("a name");
        let silent =
            Regex::new(&format!(r"alertname: {name}, .*exp_alerts: \[\]")).expect("a pattern");
        let firing =
            Regex::new(&format!(r"alertname: {name}\n.*\n +exp_alerts:\n")).expect("a pattern");
        assert!(
            silent.is_match(&cases),
            "{name} has no case without an alert"
        );
        assert!(firing.is_match(&cases), "{name} has no case with an alert");
    }
    if needs::lacks(&["promtool"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let groups = serde_json::json!({ "groups": groups() }).to_string();
    fs::write(folder.path().join("groups.yaml"), groups).expect("the folder can be written");
    let test = |cases: &str| {
        let file = folder.path().join("rules.test.yaml");
        fs::write(&file, cases).expect("the folder can be written");
        Command::new(needs::program("promtool"))
            .args(["test", "rules"])
            .arg(file)
            .output()
            .expect("promtool runs")
    };
    let output = test(&cases);
    assert!(output.status.success(), "{output:?}");
    let planted = cases.replace("zonewright_zone_held{", "zonewright_zone_hold{");
    assert!(
        !test(&planted).status.success(),
        "another metric fires nothing"
    );
}

#[test]
fn the_corefile_of_the_hidden_primary_is_good_with_and_without_its_secondaries() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    fs::copy("deploy/overlays/hidden-primary/Corefile", path("Corefile")).expect("it is there");
    let check = || {
        Command::new(needs::zonewright())
            .args(["check", "--explain"])
            .current_dir(folder.path())
            .output()
            .expect("zonewright runs")
    };
    let alone = check();
    assert!(alone.status.success(), "{alone:?}");
    let secondaries = "transfer {\n    to 192.0.2.53 key transfer.example.\n}\n";
    fs::write(path("secondaries.conf"), secondaries).expect("the folder can be written");
    assert!(!check().status.success(), "the key is missing");
    let keys = "tsig {\n    secret transfer.example. c2l4dGVlbiBieXRlcyBhbmQgMTYgbW9yZSBvZiB0aGVt hmac-sha256\n}\n";
    fs::write(path("keys.conf"), keys).expect("the folder can be written");
    let whole = check();
    assert!(whole.status.success(), "{whole:?}");
    let text = String::from_utf8_lossy(&whole.stdout);
    assert!(text.contains("192.0.2.53"), "{text}");
}

#[test]
fn the_threat_model_names_tests_that_exist() {
    let manual = text_of("docs/threat-model.md");
    let name = Regex::new(r"`([a-z0-9]+(?:_[a-z0-9]+){3,})`").expect("a pattern");
    let files = ["crates", "src", "tests"].map(rust_files).concat();
    let texts = files
        .iter()
        .map(|it| fs::read_to_string(it).expect("a file"));
    let sources: String = texts.collect();
    let mut count = 0;
    for found in name.captures_iter(&manual) {
        // A law has arguments.
        let function = format!("fn {}(", &found[1]);
        assert!(
            sources.contains(&function),
            "no test is called {}",
            &found[1]
        );
        count += 1;
    }
    assert!(count > 10, "{count}");
}

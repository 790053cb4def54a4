//! What handlers count: names, labels and values as in CoreDNS after the same questions.

use std::collections::BTreeMap;
use std::time::Duration;

use super::ask::Ask;
use super::run::spawn;
use crate::support::ports;
use crate::support::upstream::Upstream;
use crate::support::zonewright::http;

/// How long a start may take.
const PATIENCE: Duration = Duration::from_secs(30);
const QUESTIONS: &[&str] = &[
    "a.test A",
    "a.test A",
    "a.test A +tcp",
    "b.test A +tcp",
    "b.test A",
    "nx.test A",
    "nx.test A",
    "servfail.test A",
    "host.test A",
    "host.test A",
    "1.0.0.10.in-addr.arpa PTR",
];
/// The metrics that are compared.
const COMPARED: &[&str] = &[
    "coredns_cache_",
    "coredns_forward_",
    "coredns_hosts_entries",
    "coredns_proxy_conn_cache_hits",
    "coredns_proxy_conn_cache_misses",
    "coredns_proxy_healthcheck_failures",
    "coredns_proxy_request_duration_seconds_count",
];

/// The compared metrics of a server.
fn metrics_of(is_ours: bool) -> BTreeMap<String, f64> {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::start(1, "ok");
    let (port, scraped) = (ports::free(), ports::free());
    std::fs::write(
        folder.path().join("hosts"),
        "10.0.0.1 host.test host2.test\n",
    )
    .unwrap();
    let text = format!(
        ".:{port} {{\n bind 127.0.0.1\n prometheus 127.0.0.1:{scraped}\n cache 30\n hosts {}/hosts {{\n  10.0.0.2 host3.test\n  fallthrough\n }}\n \
         forward . {} {{\n  policy sequential\n }}\n}}\n",
        folder.path().display(),
        upstream.address
    );
    let corefile = folder.path().join("Corefile");
    std::fs::write(&corefile, text).unwrap();
    let mut process = spawn(is_ours, &corefile, folder.path());
    let server = ports::loopback(port);
    process.wait_for("a listener", PATIENCE, || {
        std::net::TcpStream::connect(server).ok()
    });
    process.wait_for("metrics", PATIENCE, || http(scraped, "/metrics"));
    for question in QUESTIONS {
        Ask::parse(question).send(server);
    }
    let names = [
        (port.to_string(), "PORT"),
        (upstream.address.port().to_string(), "UPSTREAM"),
        (folder.path().display().to_string(), "FOLDER"),
    ];
    scrape(scraped, COMPARED, &names)
}

/// The metrics at a port that begin with one of these words: name and sorted labels with other words for what differs
/// between the servers, and the value. Those that are 0 are left out: vectors of ours begin with zeros.
pub fn scrape(port: u16, prefixes: &[&str], names: &[(String, &str)]) -> BTreeMap<String, f64> {
    let (_, text) = http(port, "/metrics").expect("metrics");
    let lines = text
        .lines()
        .filter(|line| prefixes.iter().any(|it| line.starts_with(it)));
    let mut found = BTreeMap::new();
    for line in lines {
        let (name, value) = line.rsplit_once(' ').unwrap();
        let mut name = name.to_owned();
        for (text, word) in names {
            name = name.replace(text, word);
        }
        let (name, labels) = name.split_once('{').unwrap_or((&name, ""));
        let mut labels: Vec<&str> = labels.trim_end_matches('}').split("\",").collect();
        labels
            .iter_mut()
            .for_each(|label| *label = label.trim_end_matches('"'));
        labels.sort_unstable();
        // Who answered: a difference that is declared ("plugin").
        labels.retain(|label| !label.starts_with("plugin="));
        let value: f64 = value.parse().unwrap();
        if value != 0.0 {
            *found
                .entry(format!("{name} {}", labels.join(" ")))
                .or_default() += value;
        }
    }
    found
}

/// With each datagram from a new port: the difference "port".
fn from_new_ports(found: BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let mut counted = BTreeMap::new();
    for (mut name, value) in found {
        if name.contains("proto=\"udp") {
            name = name.replace("conn_cache_hits", "conn_cache_misses");
        }
        *counted.entry(name).or_default() += value;
    }
    counted
}

/// The two have the same numbers.
pub fn check_metrics() {
    let (theirs, ours) = (metrics_of(false), metrics_of(true));
    assert!(theirs.len() > 10, "{theirs:?}");
    assert_eq!(from_new_ports(theirs), ours);
}

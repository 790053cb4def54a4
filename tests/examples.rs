//! The Corefiles in the examples of CoreDNS's plugin documentation: each is accepted or refused with its reason, and
//! those that are accepted are answered as by a real CoreDNS. `tests/examples/coredns.txt` lists them.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;

use crate::handlers::case::Case;
use crate::handlers::run;
use crate::support::certificates::Certificates;
use crate::support::upstream::Upstream;
use crate::support::{doh, needs, ports};

/// The file.
const LIST: &str = "tests/examples/coredns.txt";
/// The name in the certificate of upstreams.
pub const UPSTREAM: &str = "upstream.test";

/// What happens to an example.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// Accepted; these steps are compared.
    Compared(String),
    /// Accepted; these steps are compared with a cluster and an etcd, by `tests/compare_examples.rs`.
    InCluster(String),
    /// Refused, with this in the message.
    Refused(&'static str),
}

/// An example.
#[derive(Debug)]
struct Example {
    name: &'static str,
    keys: &'static str,
    lines: String,
    upstreams: &'static str,
    files: Vec<(&'static str, &'static str)>,
    fate: Option<Fate>,
}

impl Example {
    /// Its fate.
    fn fate(&self) -> &Fate {
        self.fate.as_ref().expect("each example has a fate")
    }

    /// A case for the comparison with these steps.
    fn case(&self, steps: &str) -> Case {
        let file = |(name, text): &(&'static str, &'static str)| {
            let text: &'static str = text.replace("\\n", "\n").leak();
            (*name, text)
        };
        let files: Vec<_> = self.files.iter().map(file).collect();
        Case {
            name: self.name,
            zones: self.keys,
            lines: self.lines.clone().leak(),
            upstreams: self.upstreams,
            files: files.leak(),
            script: steps.to_owned().leak(),
        }
    }
}

/// Reads the list.
fn examples() -> Vec<Example> {
    let list: &'static str = std::fs::read_to_string(LIST).unwrap().leak();
    let mut all: Vec<Example> = Vec::new();
    for line in list.lines().skip_while(|line| !line.starts_with("= ")) {
        if let Some(title) = line.strip_prefix("= ") {
            let (name, keys) = title.split_once(" | ").unwrap_or((title, "."));
            all.push(Example {
                name,
                keys,
                lines: String::new(),
                upstreams: "",
                files: Vec::new(),
                fate: None,
            });
            continue;
        }
        let example = all.last_mut().expect("the list begins with a title");
        let (mark, rest) = line.split_at(line.len().min(2));
        match mark {
            "- " | "+ " => match &mut example.fate {
                Some(Fate::Compared(steps) | Fate::InCluster(steps)) => {
                    steps.push('\n');
                    steps.push_str(rest);
                }
                _ if mark == "- " => example.fate = Some(Fate::Compared(rest.to_owned())),
                _ => example.fate = Some(Fate::InCluster(rest.to_owned())),
            },
            "! " => example.fate = Some(Fate::Refused(rest)),
            "@ " => example.upstreams = rest,
            "> " => example.files.extend(rest.split_once(' ')),
            _ => {
                example.lines.push_str(line);
                example.lines.push('\n');
            }
        }
    }
    all
}

/// The examples of each plugin are numbered without a gap, so that one that is missing is seen.
#[test]
fn the_examples_of_each_plugin_are_numbered() {
    let mut last: BTreeMap<&str, usize> = BTreeMap::new();
    for example in examples() {
        let (number, what) = example.name.split_once(": ").expect("PLUGIN N: WHAT");
        let (plugin, number) = number.split_once(' ').expect("PLUGIN N");
        let last = last.entry(plugin).or_default();
        *last += 1;
        assert_eq!(number, last.to_string(), "{plugin}: {what}");
    }
    assert_eq!(last.values().sum::<usize>(), examples().len());
}

/// Fills in the words of an example for `check`.
fn fill(text: &str, folder: &str) -> String {
    let mut text = text.replace("DIR", folder).replace("CERTS", folder);
    text = text.replace("DOH", "127.0.0.1:443");
    text = text.replace("APISERVER", "127.0.0.1:8443");
    text = text.replace("ETCD", "http://127.0.0.1:2380");
    for number in 1..4 {
        let address = ports::free_address();
        text = text.replace(&format!("UPORT{number}"), &address.port().to_string());
        text = text.replace(&format!("UP{number}"), &address.to_string());
        text = text.replace(&format!("PORT{number}"), &address.port().to_string());
    }
    text
}

#[test]
fn every_example_of_coredns_is_accepted_or_refused_with_its_reason() {
    let mut wrong = String::new();
    for example in examples() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display().to_string();
        if example.lines.contains("CERTS") {
            Certificates::new(folder.path().to_owned()).write(UPSTREAM);
        }
        for (name, text) in &example.files {
            let text = fill(&text.replace("\\n", "\n"), &path);
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let text = format!("{} {{\n{}\n}}\n", example.keys, example.lines);
        std::fs::write(folder.path().join("Corefile"), fill(&text, &path)).unwrap();
        let output = Command::new(needs::zonewright())
            .args(["check", "--corefile", "Corefile"])
            .current_dir(folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let is_right = match example.fate() {
            Fate::Compared(_) | Fate::InCluster(_) => output.status.success(),
            Fate::Refused(text) => output.status.code() == Some(2) && said.contains(text),
        };
        if !is_right {
            wrong += &format!("{}: {}: {said}\n", example.name, output.status);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    let [mut compared, mut in_cluster, mut refused] = [0; 3];
    for example in examples() {
        match example.fate() {
            Fate::Compared(_) => compared += 1,
            Fate::InCluster(_) => in_cluster += 1,
            Fate::Refused(_) => refused += 1,
        }
    }
    eprintln!(
        "{compared} examples are compared, {in_cluster} with a cluster and an etcd, {refused} are refused"
    );
}

#[test]
fn accepted_examples_of_coredns_are_answered_as_by_coredns() {
    if needs::lacks(&["coredns"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::new(folder.path().to_owned());
    certificates.write(UPSTREAM);
    let upstream = Arc::new(Upstream::start(9, "ok"));
    let doh = doh::start(&certificates, UPSTREAM, upstream);
    let words = [
        ("CERTS", folder.path().display().to_string()),
        ("DOH", doh.to_string()),
    ];
    let examples = examples();
    let cases: Vec<Case> = examples
        .iter()
        .filter_map(|example| match example.fate() {
            Fate::Compared(steps) => Some(example.case(steps)),
            Fate::InCluster(_) | Fate::Refused(_) => None,
        })
        .collect();
    run::run_all_with(&cases, &words);
}

/// The cases of the examples that need a cluster or an etcd. `APISERVER` is the API server's address, `ETCD` the URL of
/// an etcd; `CERTS` has the certificate [`UPSTREAM`] of a client of the API server.
pub fn cases_in_cluster() -> Vec<Case> {
    let examples = examples();
    let cases = examples.iter().filter_map(|example| match example.fate() {
        Fate::InCluster(steps) => Some(example.case(steps)),
        Fate::Compared(_) | Fate::Refused(_) => None,
    });
    cases.collect()
}

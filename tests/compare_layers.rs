//! Which of its directives answers for a name, beside CoreDNS: `hosts`, `k8s_external`, `kubernetes`, `file` and `forward`
//! in one block, with each choice of `fallthrough`.

use std::fmt::Write as _;
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::comparison::answer::Answer;
use crate::support::apiserver::{Access, ApiServer};
use crate::support::process::Process;
use crate::support::upstream::Upstream;
use crate::support::wire::{self, Query, SOA};
use crate::support::{needs, ports};

/// How long a start may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The code of a failure.
const SERVFAIL: u16 = 2;

/// The zones of a block: of the cluster, and of what is outside of it.
const ZONES: [&str; 2] = ["in.test", "out.test"];

/// What one directive of a block says of `fallthrough`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Layer {
    Absent,
    Ends,
    FallsThrough,
    /// Only below the label `some` of each zone.
    FallsThroughBelow,
}

use Layer::{Absent, Ends, FallsThrough, FallsThroughBelow};

/// The layers of `hosts`, `k8s_external`, `kubernetes` and `file`.
type Layers = [Layer; 4];

impl Layer {
    /// The line in the block of the directive; `number` is that of the server block.
    fn line(self, number: usize) -> String {
        match self {
            Absent | Ends => String::new(),
            FallsThrough => "fallthrough".to_owned(),
            FallsThroughBelow => {
                let below = ZONES.map(|zone| format!("some.b{number}.{zone}"));
                format!("fallthrough {}", below.join(" "))
            }
        }
    }
}

/// Every choice of layers.
fn all_layers() -> Vec<Layers> {
    let mut all = Vec::new();
    for hosts in [Absent, FallsThrough, FallsThroughBelow] {
        for external in [Absent, Ends, FallsThrough, FallsThroughBelow] {
            for cluster in [Ends, FallsThrough, FallsThroughBelow] {
                for file in [Absent, Ends, FallsThrough, FallsThroughBelow] {
                    // Every pair of neighbours is there; `hosts` is the same for all behind it.
                    if hosts != FallsThroughBelow || external == cluster {
                        all.push([hosts, external, cluster, file]);
                    }
                }
            }
        }
    }
    all
}

/// A server block.
fn block(number: usize, layers: Layers, port: u16, kubeconfig: &str, upstream: &str) -> String {
    let [hosts, external, cluster, file] = layers;
    let [inner, outer] = ZONES.map(|zone| format!("b{number}.{zone}"));
    let mut text = format!(
        "{inner}:{port} {outer}:{port} {{\n bind 127.0.0.1\n kubernetes {inner} {{\n kubeconfig {kubeconfig}\n {}\n }}\n",
        cluster.line(number)
    );
    if hosts != Absent {
        let names = [&inner, &outer]
            .map(|zone| format!("listed.{zone}"))
            .join(" ");
        writeln!(
            text,
            " hosts {{\n 192.0.2.10 {names}\n {}\n }}",
            hosts.line(number)
        )
        .unwrap();
    }
    if external != Absent {
        writeln!(
            text,
            " k8s_external {outer} {{\n {}\n }}",
            external.line(number)
        )
        .unwrap();
    }
    if file != Absent {
        writeln!(
            text,
            " file db {inner} {outer} {{\n {}\n }}",
            file.line(number)
        )
        .unwrap();
    }
    writeln!(text, " forward . {upstream}\n}}").unwrap();
    text
}

/// The names that are asked in each zone.
const NAMES: [&str; 9] = [
    "web.shop.svc",
    "web.shop",
    "listed",
    "filed",
    "filed.some",
    "a.nothing",
    "a.some",
    "a.b.some",
    "a.web.shop.svc",
];

/// What answers: the code, whether it is ours to say, the addresses, and the zone of a denial.
fn answer(server: std::net::SocketAddr, name: &str) -> String {
    let reply = wire::udp(server, &Query::new(name, wire::A)).unwrap();
    let answer = Answer::of(&reply);
    let denied_by = answer
        .authority
        .iter()
        .filter(|it| it.rtype == SOA && answer.is_negative());
    let denied_by: Vec<&str> = denied_by.map(|it| it.owner.as_str()).collect();
    let records = wire::texts(&answer.answers);
    format!(
        "{} aa={} {records:?} {denied_by:?}",
        answer.rcode, answer.aa
    )
}

/// conformance 1
#[test]
fn a_name_is_answered_by_the_directive_that_answers_it_in_coredns() {
    if needs::lacks(&["apiserver", "coredns", "openssl"]) {
        return;
    }
    let api = ApiServer::start();
    api.create(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } }));
    api.create(&json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web", "namespace": "shop" },
        "spec": { "ports": [{ "name": "http", "port": 80 }], "clusterIP": "10.96.7.7",
                  "externalIPs": ["203.0.113.7"] },
    }));
    let kubeconfig = api.kubeconfig(Access::Admin).display().to_string();
    let upstream = Upstream::start(1, "ok");
    let folder = tempfile::tempdir().unwrap();
    let db = "$TTL 5\n@ SOA ns host 1 1 1 1 5\n@ NS ns\nns A 192.0.2.1\nfiled A 192.0.2.2\nfiled.some A 192.0.2.3\n";
    std::fs::write(folder.path().join("db"), db).unwrap();
    let all = all_layers();
    let start = |program: &std::path::Path, word: &str| {
        let server = ports::free_address();
        let blocks = all.iter().enumerate().map(|(number, layers)| {
            block(
                number,
                *layers,
                server.port(),
                &kubeconfig,
                &upstream.address.to_string(),
            )
        });
        let corefile = folder.path().join(word);
        std::fs::write(&corefile, blocks.collect::<String>()).unwrap();
        let mut command = Command::new(program);
        command
            .arg("-conf")
            .arg(&corefile)
            .current_dir(folder.path());
        command.env("STATE_DIRECTORY", folder.path().join("state"));
        let log = folder.path().join(format!("log.{word}"));
        let mut process = Process::spawn(word, &mut command, &log);
        for number in 0..all.len() {
            // It is the cluster's, or goes to `forward`: SERVFAIL until the cluster is known.
            let name = format!("a.some.b{number}.in.test.");
            process.wait_for(&name, PATIENCE, || {
                let reply = wire::udp(server, &Query::new(&name, wire::A)).ok()?;
                (reply.rcode() != SERVFAIL).then_some(())
            });
        }
        (server, process)
    };
    let (theirs, _coredns) = start(&needs::program("coredns"), "coredns");
    let (ours, _zonewright) = start(&needs::zonewright(), "zonewright");
    let (mut compared, mut wrong) = (0, Vec::new());
    for (number, layers) in all.iter().enumerate() {
        for (zone, label) in ZONES
            .iter()
            .flat_map(|zone| NAMES.map(|label| (zone, label)))
        {
            let name = format!("{label}.b{number}.{zone}.");
            let (theirs, ours) = (answer(theirs, &name), answer(ours, &name));
            compared += 1;
            if theirs != ours {
                wrong.push(format!(
                    "{layers:?} {name}\n  CoreDNS    {theirs}\n  zonewright {ours}"
                ));
            }
        }
    }
    eprintln!("{compared} answers compared, {} wrong", wrong.len());
    wrong.truncate(20);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

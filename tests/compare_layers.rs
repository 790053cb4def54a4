//! Which of its directives answers for a name, beside CoreDNS: `hosts`, `k8s_external`, `kubernetes`, `file` and `forward`
//! in one block, with each choice of `fallthrough`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::comparison::answer::{Answer, Asker, CD, Question, Serials};
use crate::differences::{Shown, shown_by};
use crate::support::apiserver::{Access, ApiServer};
use crate::support::process::Process;
use crate::support::upstream::Upstream;
use crate::support::wire::{self, NS, Query, Record, SOA};
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

/// The differences between what CoreDNS says and what we say; none if there is one that is not meant.
fn explain(question: &Question, theirs: &Answer, ours: &Answer) -> Option<BTreeSet<&'static str>> {
    let mut because = BTreeSet::new();
    let mut rest = theirs.clone();
    if rest.flags == ours.flags | CD && question.style().checking_disabled {
        because.insert("checking-disabled");
        rest.flags = ours.flags;
    }
    // The file has a SOA of its own, CoreDNS's `kubernetes` and `k8s_external` one with the timers of CoreDNS.
    let soas: Vec<Record> = { rest.authority.iter() }
        .filter(|it| it.rtype == SOA)
        .cloned()
        .collect();
    for soa in soas {
        let same_zone = |it: &&Record| it.rtype == SOA && it.owner == soa.owner && **it != soa;
        if let Some(own) = ours.authority.iter().find(same_zone) {
            let is_of_file = soa.data.ends_with(" 0 1 1 1 5");
            because.insert(if is_of_file { "overlay" } else { "soa" });
            rest.authority.remove(&soa);
            rest.authority.insert(own.clone());
        }
    }
    if !rest.is_negative() && rest.authority.iter().any(|it| it.rtype == NS) {
        because.insert("file-authority");
        rest.authority.retain(|it| it.rtype != NS);
    }
    rest.same(ours).then_some(because)
}

/// What both servers are given.
struct Site<'a> {
    layers: &'a [Layers],
    folder: &'a Path,
    kubeconfig: &'a str,
    upstream: SocketAddr,
}

impl Site<'_> {
    /// Starts a server, and waits until each of its blocks answers.
    fn start(&self, program: &Path, word: &str) -> (SocketAddr, Process) {
        let server = ports::free_address();
        let upstream = self.upstream.to_string();
        let blocks = self.layers.iter().enumerate().map(|(number, layers)| {
            block(number, *layers, server.port(), self.kubeconfig, &upstream)
        });
        let corefile = self.folder.join(word);
        std::fs::write(&corefile, blocks.collect::<String>()).unwrap();
        let mut command = Command::new(program);
        command.arg("-conf").arg(&corefile).current_dir(self.folder);
        command.env("STATE_DIRECTORY", self.folder.join("state"));
        let log = self.folder.join(format!("log.{word}"));
        let mut process = Process::spawn(word, &mut command, &log);
        for number in 0..self.layers.len() {
            // It is the cluster's, or goes to `forward`: SERVFAIL until the cluster is known.
            let name = format!("a.some.b{number}.in.test.");
            process.wait_for(&name, PATIENCE, || {
                let reply = wire::udp(server, &Query::new(&name, wire::A)).ok()?;
                (reply.rcode() != SERVFAIL).then_some(())
            });
        }
        (server, process)
    }
}

/// Compares the replies to these questions.
fn compare(questions: &[Question], [theirs, ours]: [SocketAddr; 2], layers: &[Layers]) {
    let [theirs, ours] = [theirs, ours].map(|server| Asker::new(server).ask_all(questions));
    let (mut met, mut wrong) = (BTreeSet::new(), Vec::new());
    for ((question, theirs), ours) in questions.iter().zip(&theirs).zip(&ours) {
        let [theirs, ours] = [theirs, ours].map(|it| Answer::of(it.as_ref(), &Serials::Any));
        match explain(question, &theirs, &ours) {
            Some(because) => met.extend(because),
            None => wrong.push(format!(
                "{question}\n  CoreDNS\n{theirs}  zonewright\n{ours}"
            )),
        }
    }
    let (count, faults) = (questions.len(), wrong.len());
    eprintln!("{count} answers compared, {faults} wrong, {met:?}");
    wrong.truncate(20);
    assert!(wrong.is_empty(), "{layers:#?}\n{}", wrong.join("\n"));
    let mut rows = shown_by(Shown::Layers);
    rows.retain(|id| !met.contains(id));
    assert!(rows.is_empty(), "no answer needs the differences {rows:?}");
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
        "spec": { "type": "LoadBalancer", "ports": [{ "name": "http", "port": 80 }], "clusterIP": "10.96.7.7" },
    }));
    let ingress = json!([{ "ip": "203.0.113.7" }]);
    api.patch(
        "/api/v1/namespaces/shop/services/web/status",
        &json!({ "status": { "loadBalancer": { "ingress": ingress } } }),
    );
    let kubeconfig = api.kubeconfig(Access::Admin).display().to_string();
    let upstream = Upstream::start(1, "ok");
    let folder = tempfile::tempdir().unwrap();
    let db = "$TTL 5\n@ SOA ns host 1 1 1 1 5\n@ NS ns\nns A 192.0.2.1\nfiled A 192.0.2.2\nfiled.some A 192.0.2.3\n";
    std::fs::write(folder.path().join("db"), db).unwrap();
    let all = all_layers();
    let site = Site {
        layers: &all,
        folder: folder.path(),
        kubeconfig: &kubeconfig,
        upstream: upstream.address,
    };
    let (theirs, _coredns) = site.start(&needs::program("coredns"), "coredns");
    let (ours, _zonewright) = site.start(&needs::zonewright(), "zonewright");
    let questions: Vec<Question> = { 0..all.len() }
        .flat_map(|number| ZONES.map(|zone| format!("b{number}.{zone}.")))
        .flat_map(|zone| NAMES.map(|label| format!("{label}.{zone}")))
        .map(|name| Question::new(&name, wire::A))
        .collect();
    compare(&questions, [theirs, ours], &all);
}

/// The oracle is tried: another code, another address, another zone of a denial.
#[test]
fn an_answer_of_another_directive_is_seen() {
    let question = Question::new("a.in.test.", wire::A);
    let record = |line: &str| BTreeSet::from([Record::parse(line)]);
    let found = Answer {
        answers: record("a.in.test. 5 IN A 192.0.2.1"),
        ..Answer::default()
    };
    let denied = Answer {
        rcode: 3,
        authority: record("in.test. 5 IN SOA ns.in.test. host.in.test. 0 1 1 1 5"),
        ..Answer::default()
    };
    assert!(explain(&question, &found, &found).is_some());
    for wrong in [
        Answer {
            rcode: 5,
            ..found.clone()
        },
        Answer {
            aa: true,
            ..found.clone()
        },
        Answer {
            answers: record("a.in.test. 5 IN A 192.0.2.2"),
            ..found.clone()
        },
        denied.clone(),
    ] {
        assert_eq!(explain(&question, &found, &wrong), None, "{wrong}");
    }
    let elsewhere = record("out.test. 5 IN SOA ns.in.test. host.in.test. 0 1 1 1 5");
    let wrong = Answer {
        authority: elsewhere,
        ..denied.clone()
    };
    assert_eq!(explain(&question, &denied, &wrong), None, "{wrong}");
}

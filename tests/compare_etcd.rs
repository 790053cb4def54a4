//! Generated trees of keys in one real etcd, read by a real CoreDNS and by zonewright: the same answers.
//!
//! `COMPARE_TREES` sets the number of trees. Weights and TTLs are left out (`etcd-weight`, `etcd-ttl`), and so are addresses
//! and texts of names that have an alias with others (`etcd-alias`). Names of reverse zones that only have keys below them
//! exist here (`ent`).

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fastrand::Rng;

use crate::handlers::case::{Case, case};
use crate::handlers::run;
use crate::support::etcd::Etcd;
use crate::support::process::{Process, wait_for};
use crate::support::wire::{self, Query, Record};
use crate::support::{needs, ports};

/// How long a start or a change may take.
const PATIENCE: Duration = Duration::from_secs(60);
const ZONES: [&str; 3] = ["example.org", "10.in-addr.arpa", "8.b.d.0.1.0.0.2.ip6.arpa"];
const TYPES: [u16; 5] = [wire::A, wire::AAAA, wire::SRV, wire::TXT, wire::MX];

/// Key and value.
type Keys = BTreeMap<String, String>;

/// A tree. Its aliases are at names of their own.
fn generate(rng: &mut Rng) -> Keys {
    let mut keys = Keys::new();
    let labels = ["a", "b", "c-d", "e", "_tcp"];
    for number in 0..rng.u8(10..60) {
        let depth = rng.usize(1..4);
        let path: Vec<&str> = (0..depth)
            .map(|_| *rng.choice(labels.iter()).unwrap())
            .collect();
        let last = match rng.u8(0..3) {
            0 => String::new(),
            _ => format!("/x{number}"),
        };
        keys.insert(format!("example/{}{last}", path.join("/")), service(rng));
    }
    if rng.bool() {
        let address = format!(r#"{{"host":"10.9.0.{}"}}"#, rng.u8(1..9));
        keys.insert("example/dns/ns/x".to_owned(), address.clone());
        keys.insert("example/dns/apex/y".to_owned(), address);
    }
    keys.insert(
        "example/target/z".to_owned(),
        r#"{"host":"10.9.9.9"}"#.to_owned(),
    );
    keys.insert(
        "example/alias/z".to_owned(),
        r#"{"host":"z.target.example.org"}"#.to_owned(),
    );
    keys
}

/// A value.
fn service(rng: &mut Rng) -> String {
    let mut fields = Vec::new();
    let number = rng.u8(1..9);
    match rng.u8(0..6) {
        0 => fields.push(format!(r#""text":"text {number}""#)),
        1 => fields.push(format!(r#""host":"2001:db8::{number}""#)),
        2 => {
            fields.push(format!(r#""host":"elsewhere{number}.test""#));
            fields.push(format!(r#""port":{}"#, 1000 + u16::from(number)));
        }
        _ => fields.push(format!(r#""host":"10.0.0.{number}""#)),
    }
    let mut maybe = |text: String| {
        if rng.u8(0..4) == 0 {
            fields.push(text);
        }
    };
    maybe(r#""mail":true"#.to_owned());
    maybe(format!(r#""ttl":{number}"#));
    maybe(format!(r#""weight":{number}"#));
    maybe(r#""targetstrip":1"#.to_owned());
    let group = format!(r#""group":"g{}""#, number % 2);
    maybe(group);
    format!("{{{}}}", fields.join(","))
}

/// The names of a tree and above, with some that it lacks.
fn names(keys: &Keys) -> BTreeSet<String> {
    let mut names = BTreeSet::from([
        "missing.example.org".to_owned(),
        "missing.a.example.org".to_owned(),
    ]);
    for key in keys.keys() {
        let labels: Vec<&str> = key.split('/').collect();
        for end in 1..=labels.len() {
            let reversed: Vec<&str> = labels[..end].iter().rev().copied().collect();
            names.insert(format!("{}.org", reversed.join(".")));
        }
    }
    names
}

/// Whether an alias or a host name has part in a name's addresses and texts.
fn has_host_name(keys: &Keys, name: &str) -> bool {
    let path: Vec<&str> = name.trim_end_matches(".org").split('.').rev().collect();
    let path = path.join("/");
    let below = format!("{path}/");
    let of_name = |value: &String| value.contains(".test\"") || value.contains(".example.org\"");
    let mut keys = keys.iter();
    keys.any(|(key, value)| (*key == path || key.starts_with(&below)) && of_name(value))
}

/// An answer: its code and its records without TTL and weight.
fn answer(server: SocketAddr, name: &str, rtype: u16) -> (u16, BTreeSet<String>) {
    let reply = wire::tcp(server, &Query::new(name, rtype)).unwrap();
    let text = |record: &Record| {
        let mut data: Vec<&str> = record.data.split(' ').collect();
        if record.rtype == wire::SRV {
            data[1] = "weight";
        }
        format!(
            "{} {} {}",
            record.owner,
            wire::type_name(record.rtype),
            data.join(" ")
        )
    };
    (reply.rcode(), reply.answers.iter().map(text).collect())
}

/// The keys of reverse zones: each with its name. The first two of a tree tell that both zones were read.
fn pointers(rng: &mut Rng, tree: u32) -> Vec<(String, String, String)> {
    let mut all = Vec::new();
    for number in 0..rng.u32(3..12) {
        let host = format!("n{}.example.org", rng.u8(0..9));
        let value = match rng.u8(0..4) {
            0 if number > 1 => format!(r#"{{"host":"{host}","text":"text"}}"#),
            1 if number > 1 => format!(r#"{{"host":"{host}.","ttl":7,"group":"g"}}"#),
            _ => format!(r#"{{"host":"{host}"}}"#),
        };
        let mut labels: Vec<String> = match number % 2 {
            0 => ["in-addr", "10", "0"].map(ToOwned::to_owned).to_vec(),
            _ => "ip6.2.0.0.1.0.d.b.8.0.0"
                .split('.')
                .map(ToOwned::to_owned)
                .collect(),
        };
        // Each tree has names of its own. Some keys are below others.
        labels.push(format!("t{tree}"));
        labels.push(format!("x{number}"));
        if number > 1 && rng.bool() {
            labels.push("below".to_owned());
        }
        let key = format!("/skydns/arpa/{}", labels.join("/"));
        labels.reverse();
        all.push((key, value, format!("{}.arpa", labels.join("."))));
    }
    all
}

/// Whether a name of a reverse zone has no key but those below it (`ent`).
fn is_above(pointers: &[(String, String, String)], name: &str) -> bool {
    let below = format!(".{name}");
    let mut names = pointers.iter().map(|(_, _, name)| name);
    names.clone().all(|own| own != name) && names.any(|own| own.ends_with(&below))
}

/// Starts a server for all zones.
fn start(program: &Path, word: &str, folder: &Path, url: &str) -> (SocketAddr, Process) {
    let server = ports::free_address();
    let port = server.port();
    let keys = ZONES.map(|zone| format!("{zone}:{port}")).join(" ");
    let text =
        format!("{keys} {{\n    bind 127.0.0.1\n    etcd {{\n        endpoint {url}\n    }}\n}}\n");
    let corefile = folder.join(word);
    std::fs::write(&corefile, text).unwrap();
    let mut command = Command::new(program);
    command.arg("-conf").arg(&corefile).current_dir(folder);
    command.env("STATE_DIRECTORY", folder.join("state"));
    let log = folder.join(format!("log.{word}"));
    let mut process = Process::spawn(word, &mut command, &log);
    process.wait_for("it answers", PATIENCE, || {
        let reply = wire::udp(server, &Query::new(ZONES[0], wire::SOA)).ok()?;
        (reply.rcode() == 0).then_some(())
    });
    (server, process)
}

/// The questions about a tree, of which each side is expected to have the same answer.
fn questions(keys: &Keys, pointers: &[(String, String, String)]) -> Vec<(String, u16)> {
    let mut questions: Vec<(String, u16)> = Vec::new();
    for name in names(keys) {
        let host_names = has_host_name(keys, &name);
        let is_alias = name == "alias.example.org" || name == "z.alias.example.org";
        let types = TYPES.into_iter().filter(|rtype| match *rtype {
            wire::A => !host_names || is_alias,
            wire::AAAA | wire::TXT => !host_names,
            _ => !is_alias,
        });
        questions.extend(types.map(|rtype| (name.clone(), rtype)));
    }
    if keys.contains_key("example/dns/ns/x") {
        questions.push((ZONES[0].to_owned(), wire::NS));
    }
    for (_, _, name) in pointers {
        questions.push((name.clone(), wire::PTR));
        // The name above, which has no key but those below it, and one that does not exist.
        let (_, above) = name.split_once('.').unwrap();
        questions.push((above.to_owned(), wire::PTR));
        questions.push((format!("missing.{above}"), wire::PTR));
    }
    questions
}

/// Writes a tree in the place of the one before.
fn write(etcd: &Etcd, keys: &Keys, pointers: &[(String, String, String)]) {
    etcd.delete("/skydns/");
    let keys = keys.iter();
    let mut all: Vec<(String, String)> = keys
        .map(|(key, value)| (format!("/skydns/org/{key}"), value.clone()))
        .collect();
    let pointers = pointers.iter();
    all.extend(pointers.map(|(key, value, _)| (key.clone(), value.clone())));
    etcd.put_all(&all);
}

/// Waits until both servers have read a tree. Each zone has a watch of its own.
fn wait_until_read(
    servers: [SocketAddr; 2],
    etcd: &Etcd,
    pointers: &[(String, String, String)],
    tree: u32,
) {
    let wait = |name: &str, rtype: u16| {
        let show = || format!("{name} is missing");
        wait_for(name, PATIENCE, show, || {
            let [a, b] = servers.map(|server| answer(server, name, rtype));
            (a == b && a.1.len() == 1).then_some(())
        });
    };
    etcd.put(
        &format!("/skydns/org/example/marker{tree}"),
        r#"{"text":"here","port":-1}"#,
    );
    wait(&format!("marker{tree}.example.org"), wire::TXT);
    for (_, _, name) in &pointers[..2] {
        wait(name, wire::PTR);
    }
}

#[test]
fn generated_trees_have_the_same_answers() {
    if needs::lacks(&["apiserver", "coredns"]) {
        return;
    }
    let trees = std::env::var("COMPARE_TREES").ok();
    let trees: u32 = trees.map_or(8, |trees| trees.parse().unwrap());
    let mut rng = Rng::with_seed(fuzz::seed());
    let etcd = Etcd::start();
    let folder = tempfile::tempdir().unwrap();
    let (theirs, _coredns) = start(
        &needs::program("coredns"),
        "coredns",
        folder.path(),
        &etcd.url(),
    );
    let (ours, _own) = start(
        &needs::zonewright(),
        "zonewright",
        folder.path(),
        &etcd.url(),
    );
    let (mut wrong, mut compared, mut answered) = (Vec::new(), 0, 0);
    for tree in 0..trees {
        let keys = generate(&mut rng);
        let pointers = pointers(&mut rng, tree);
        write(&etcd, &keys, &pointers);
        wait_until_read([theirs, ours], &etcd, &pointers, tree);
        for (name, rtype) in questions(&keys, &pointers) {
            let [a, b] = [theirs, ours].map(|server| answer(server, &name, rtype));
            compared += 1;
            answered += usize::from(!a.1.is_empty());
            if is_above(&pointers, &name) {
                assert!(a.0 == 3 && b == (0, BTreeSet::new()), "{name}: {a:?} {b:?}");
                continue;
            }
            if a != b {
                let rtype = wire::type_name(rtype);
                wrong.push(format!(
                    "tree {tree}, {name} {rtype}\n  CoreDNS:    {a:?}\n  zonewright: {b:?}"
                ));
            }
        }
    }
    eprintln!("{trees} trees, {compared} answers compared, {answered} with records");
    assert!(
        wrong.is_empty(),
        "{} of {compared}:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(10)].join("\n")
    );
    assert!(answered > compared / 4, "too few answers have records");
}

/// Names that etcd lacks, another path, and the addresses of the zone itself.
const CASES: &[Case] = &[
    case(
        "some names go on",
        "etcd {\n endpoint ETCD\n fallthrough some.sky1.test\n}\nforward . UP1",
        "until a.sky1.test A\na.sky1.test A\na.some.sky1.test A\nnx.some.sky1.test A\n\
         answers a.other.sky1.test A\nanswers a.sky1.test TXT\nsky1.test A",
    )
    .zones("sky1.test"),
    case(
        "all names go on",
        "etcd {\n endpoint ETCD\n fallthrough\n}\nforward . UP1",
        "until a.sky2.test A\na.sky2.test A\na.other.sky2.test A",
    )
    .zones("sky2.test"),
    case(
        "another path, and no addresses for the zone itself",
        "etcd {\n path other/path\n endpoint ETCD\n no_apex_fallback\n}",
        "until b.sky3.test A\nb.sky3.test A\nanswers a.sky3.test A\nanswers sky3.test A != ent: rcode 0 aa rd ? sky3.test. A 1",
    )
    .zones("sky3.test"),
    case(
        "the addresses below dns/apex",
        "etcd {\n path other/path\n endpoint ETCD\n}",
        "until b.sky4.test A\nsky4.test A",
    )
    .zones("sky4.test"),
];

#[test]
fn options_mean_what_they_mean_in_coredns() {
    if needs::lacks(&["apiserver", "coredns"]) {
        return;
    }
    let etcd = Etcd::start();
    for number in 1..5 {
        let of = |last: u8| format!(r#"{{"host":"192.0.2.{last}","port":-1}}"#);
        etcd.put(&format!("/skydns/test/sky{number}/a"), &of(1));
        etcd.put(&format!("/other/path/test/sky{number}/b"), &of(2));
    }
    let apex = r#"{"host":"192.0.2.3","port":-1}"#;
    etcd.put("/other/path/test/sky4/dns/apex/x", apex);
    run::run_all_with(CASES, &[("ETCD", etcd.url())]);
}

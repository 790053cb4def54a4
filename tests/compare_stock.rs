//! The Corefiles that installers ship, unchanged, with CoreDNS and then with zonewright: the same answers,
//! health and metrics.
//!
//! A stock Corefile names port 53, `/etc/resolv.conf` and the account of its pod. So the whole test runs in
//! network and mount namespaces of its own (`tests/stock/enter.sh`): it starts itself again in there.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::apiserver::ApiServer;
use crate::support::process::{Process, wait_for};
use crate::support::wire::{self, Query};
use crate::support::{namespaces, needs};
use hickory_proto::op::{Message, OpCode, ResponseCode};
use hickory_proto::rr::rdata::{A, PTR, SOA};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use serde_json::json;
use socket2::{Domain, Socket, Type};

/// The test, which starts itself again.
const TEST: &str = "compare_stock::stock_corefiles_run_unchanged_and_answer_as_with_coredns";
/// How long a start may take.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn stock_corefiles_run_unchanged_and_answer_as_with_coredns() {
    if needs::lacks(&["apiserver", "coredns", "openssl", "namespaces"]) {
        return;
    }
    if namespaces::is_inside(TEST) {
        compare_all();
    }
}

/// What a server said.
#[derive(Debug, PartialEq, Eq)]
pub struct Said {
    /// Each question with its answer.
    pub answers: Vec<(String, String)>,
    /// `/health` and `/ready`.
    pub http: Vec<String>,
    /// The families of metrics that begin with `coredns_`.
    metrics: BTreeSet<String>,
}

/// A Corefile and where it answers.
pub struct Stock {
    name: String,
    server: SocketAddr,
    health: Option<&'static str>,
    ready: bool,
    metrics: &'static str,
}

/// All of them, by both servers.
fn compare_all() {
    let api = ApiServer::start();
    fill(&api);
    namespaces::write_account(&api);
    fs::write("/etc/coredns/NodeHosts", "10.1.0.7 node1.test\n").unwrap();
    fs::write("/etc/coredns/hosts", "10.1.0.8 listed.corp.example\n").unwrap();
    let own = "own.test:53 {\n    forward . 127.0.0.54\n}\n";
    fs::write("/etc/coredns/custom/own.server", own).unwrap();
    fs::write("/etc/coredns/custom/log.override", "log\n").unwrap();
    start_upstream();
    let questions = questions();
    let (mut wrong, mut compared) = (String::new(), 0);
    let mut names: Vec<String> = fs::read_dir("tests/stock")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".Corefile").map(str::to_owned))
        .collect();
    // The last one has its upstream by TCP, which would be in the way of those that listen everywhere.
    names.sort_by_key(|name| (name == "nodelocal", name.clone()));
    assert_eq!(names.len(), 12, "{names:?}");
    for name in names {
        fs::copy(
            format!("tests/stock/{name}.Corefile"),
            "/etc/coredns/Corefile",
        )
        .unwrap();
        if name == "nodelocal" {
            start_upstream_by_tcp();
        }
        let stock = stock(&name);
        let [theirs, ours] = [needs::program("coredns"), needs::zonewright()].map(|program| {
            let mut command = Command::new(program);
            command.args(["-conf", "/etc/coredns/Corefile"]);
            run(&stock, &questions, &mut command)
        });
        for (one, other) in theirs.answers.iter().zip(&ours.answers) {
            compared += 1;
            if one != other {
                wrong += &format!(
                    "{name}: {}\n  CoreDNS:    {}\n  zonewright: {}\n",
                    one.0, one.1, other.1
                );
            }
        }
        if theirs.http != ours.http {
            wrong += &format!("{name}: {:?} and {:?}\n", theirs.http, ours.http);
        }
        let missing: Vec<&String> = theirs.metrics.difference(&ours.metrics).collect();
        if !missing.is_empty() {
            wrong += &format!("{name}: no metric {missing:?}\n");
        }
    }
    eprintln!("{compared} answers compared");
    assert!(wrong.is_empty(), "{wrong}");
}

/// Where a Corefile answers.
pub fn stock(name: &str) -> Stock {
    let (server, metrics) = match name {
        "nodelocal" => ("169.254.20.10:53", "127.0.0.1:9253"),
        "openshift" => ("127.0.0.1:5353", "127.0.0.1:9153"),
        "gardener" => ("127.0.0.1:8053", "127.0.0.1:9153"),
        _ => ("127.0.0.1:53", "127.0.0.1:9153"),
    };
    Stock {
        name: name.to_owned(),
        server: server.parse().unwrap(),
        health: Some(match name {
            "nodelocal" => "169.254.20.10:8080",
            _ => "127.0.0.1:8080",
        }),
        ready: name != "nodelocal",
        metrics,
    }
}

pub fn fill(api: &ApiServer) {
    let object = |kind: &str, version: &str, namespace: Option<&str>, name: &str, rest| {
        let mut object: serde_json::Value = rest;
        object["apiVersion"] = version.into();
        object["kind"] = kind.into();
        object["metadata"]["name"] = name.into();
        if let Some(namespace) = namespace {
            object["metadata"]["namespace"] = namespace.into();
        }
        api.create(&object);
    };
    object("Namespace", "v1", None, "shop", json!({}));
    let ports = json!([{ "name": "http", "port": 80, "protocol": "TCP" }]);
    let web = json!({ "spec": { "ports": ports, "clusterIP": "10.96.7.7" } });
    object("Service", "v1", Some("shop"), "web", web);
    let db = json!({ "spec": { "ports": ports, "clusterIP": "None" } });
    object("Service", "v1", Some("shop"), "db", db);
    let out = json!({ "spec": { "type": "ExternalName", "externalName": "api.test.example" } });
    object("Service", "v1", Some("shop"), "out", out);
    let slice = json!({
        "metadata": { "labels": { "kubernetes.io/service-name": "db" } },
        "addressType": "IPv4",
        "endpoints": [
            { "addresses": ["10.244.1.5"], "hostname": "db-0", "conditions": { "ready": true } },
            { "addresses": ["10.244.1.6"], "hostname": "db-1", "conditions": { "ready": true } },
        ],
        "ports": [{ "name": "http", "port": 80, "protocol": "TCP" }],
    });
    object(
        "EndpointSlice",
        "discovery.k8s.io/v1",
        Some("shop"),
        "db-1",
        slice,
    );
}

pub fn questions() -> Vec<(&'static str, u16, u16)> {
    vec![
        ("kubernetes.default.svc.cluster.local.", wire::A, 1),
        ("web.shop.svc.cluster.local.", wire::A, 1),
        ("web.shop.svc.cluster.local.", wire::AAAA, 1),
        ("WEB.Shop.svc.cluster.local.", wire::A, 1),
        ("web.shop.svc.cluster.local.svc.cluster.local.", wire::A, 1),
        ("_http._tcp.web.shop.svc.cluster.local.", wire::SRV, 1),
        ("db.shop.svc.cluster.local.", wire::A, 1),
        ("db-0.db.shop.svc.cluster.local.", wire::A, 1),
        ("out.shop.svc.cluster.local.", wire::A, 1),
        ("no.shop.svc.cluster.local.", wire::A, 1),
        ("10-1-2-3.shop.pod.cluster.local.", wire::A, 1),
        ("dns-version.cluster.local.", wire::TXT, 1),
        ("7.7.96.10.in-addr.arpa.", wire::PTR, 1),
        ("5.1.244.10.in-addr.arpa.", wire::PTR, 1),
        ("9.9.9.9.in-addr.arpa.", wire::PTR, 1),
        ("api.test.example.", wire::A, 1),
        ("api.test.example.", wire::AAAA, 1),
        ("api.test.example.", wire::TXT, 1),
        ("nx.test.example.", wire::A, 1),
        ("node1.test.", wire::A, 1),
        ("host.minikube.internal.", wire::A, 1),
        ("www.corp.example.", wire::A, 1),
        ("listed.corp.example.", wire::A, 1),
        ("a.own.test.", wire::A, 1),
        ("one.two.three.four.internal.cloudapp.net.", wire::A, 1),
        ("x.reddog.microsoft.com.", wire::A, 1),
        ("hostname.bind.", wire::TXT, 3),
    ]
}

/// Starts a server with the Corefile, asks it, and ends it.
pub fn run(stock: &Stock, questions: &[(&str, u16, u16)], command: &mut Command) -> Said {
    let folder = tempfile::tempdir().unwrap();
    command
        .envs(namespaces::variables())
        .env("STATE_DIRECTORY", folder.path().join("state"))
        .current_dir(folder.path());
    let program = Path::new(command.get_program()).file_name().unwrap();
    let label = format!("{} with {}", program.to_string_lossy(), stock.name);
    let mut process = Process::spawn(&label, command, &folder.path().join("log"));
    let server = stock.server;
    let first = Query::new("web.shop.svc.cluster.local.", wire::A);
    process.wait_for("a first answer", PATIENCE, || {
        let reply = wire::udp(server, &first).ok()?;
        (reply.rcode() == 0).then_some(())
    });
    let answers = questions
        .iter()
        .map(|(name, qtype, class)| {
            let text = answer(server, name, *qtype, *class);
            (format!("{name} {} {class}", wire::type_name(*qtype)), text)
        })
        .collect();
    let mut http = Vec::new();
    if let Some(address) = stock.health {
        http.push(get(address, "/health"));
    }
    if stock.ready {
        wait_for("ready", PATIENCE, String::new, || {
            get("127.0.0.1:8181", "/ready")
                .starts_with("200")
                .then_some(())
        });
        http.push(get("127.0.0.1:8181", "/ready"));
    }
    let text = get(stock.metrics, "/metrics");
    let metrics = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .filter_map(|line| line.split(' ').next())
        .filter(|name| name.starts_with("coredns_") && !is_not_ours(name))
        // Of counters the one format names the family, the other what is counted.
        .map(|name| name.strip_suffix("_total").unwrap_or(name).to_owned())
        .collect();
    process.kill();
    Said {
        answers,
        http,
        metrics,
    }
}

/// Families of parts of CoreDNS that zonewright does not have, empty in the stock Corefiles.
fn is_not_ours(name: &str) -> bool {
    let of = ["https", "quic", "grpc", "dnssec", "route53"];
    of.iter().any(|part| name.contains(part))
}

/// An answer as text: code, flags, and the records of all sections, of SOAs without their numbers. It is asked for once:
/// nothing is lost on the way, however busy the machine is.
fn answer(server: SocketAddr, name: &str, qtype: u16, class: u16) -> String {
    let mut query = Query::new(name, qtype);
    query.class = class;
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.send(&query.encode()).unwrap();
    let mut octets = [0; 4096];
    let length = socket.recv(&mut octets).expect("an answer");
    let reply = wire::Message::decode(&octets[..length]).unwrap();
    let beside = |records: &[wire::Record]| -> BTreeSet<String> {
        let shown = records.iter().map(|record| {
            let data: Vec<&str> = record.data.split(' ').collect();
            let is_soa = record.rtype == wire::SOA;
            let data = &data[..if is_soa { 2 } else { data.len() }];
            let rtype = wire::type_name(record.rtype);
            format!("{} {rtype} {}", record.owner, data.join(" "))
        });
        shown.collect()
    };
    let (authority, additional) = (beside(&reply.authority), beside(&reply.additional));
    let flags = [(0x0400, "aa"), (0x0200, "tc"), (0x0080, "ra")];
    let flags: Vec<&str> = flags
        .iter()
        .filter(|(bit, _)| reply.flags & bit != 0)
        .map(|(_, name)| *name)
        .collect();
    let mut answers = reply.answers.clone();
    if name.ends_with("cluster.local.") {
        // The difference `zones-uncached`: what `cache` does to times of names in zones.
        answers.iter_mut().for_each(|record| record.ttl = 0);
    }
    let answers = wire::texts(&answers).join(", ");
    format!(
        "{} {flags:?} {answers} {authority:?} {additional:?}",
        reply.rcode()
    )
}

/// Code and body of an HTTP request.
fn get(address: &str, path: &str) -> String {
    let Ok(mut stream) = TcpStream::connect(address) else {
        return "no connection".to_owned();
    };
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let code = text.split(' ').nth(1).unwrap_or("").to_owned();
    let body = text.split("\r\n\r\n").nth(1).unwrap_or("").to_owned();
    format!("{code} {body}")
}

/// An upstream server by UDP on 127.0.0.54.
pub fn start_upstream() {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
    // Beside servers that listen on all addresses: the more specific one gets the datagrams.
    socket.set_reuse_port(true).unwrap();
    socket.set_reuse_address(true).unwrap();
    let address: SocketAddr = "127.0.0.54:53".parse().unwrap();
    socket.bind(&address.into()).unwrap();
    let socket: UdpSocket = socket.into();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        loop {
            let (length, peer) = socket.recv_from(&mut buffer).unwrap();
            socket.send_to(&reply(&buffer[..length]), peer).unwrap();
        }
    });
}

/// An upstream server by TCP on 127.0.0.53.
fn start_upstream_by_tcp() {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_reuse_port(true).unwrap();
    let address: SocketAddr = "127.0.0.53:53".parse().unwrap();
    socket.bind(&address.into()).unwrap();
    socket.listen(64).unwrap();
    let listener: TcpListener = socket.into();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            std::thread::spawn(move || serve_stream(stream));
        }
    });
}

/// Answers what comes on a connection until its end.
fn serve_stream(mut stream: TcpStream) {
    let mut length = [0; 2];
    while stream.read_exact(&mut length).is_ok() {
        let mut request = vec![0; usize::from(u16::from_be_bytes(length))];
        if stream.read_exact(&mut request).is_err() {
            return;
        }
        let reply = reply(&request);
        let mut framed = u16::try_from(reply.len()).unwrap().to_be_bytes().to_vec();
        framed.extend(reply);
        if stream.write_all(&framed).is_err() {
            return;
        }
    }
}

/// The upstream's answer: A and PTR for all names but those that begin with `nx` and `no` and for 9.9.9.9.
fn reply(request: &[u8]) -> Vec<u8> {
    let request = Message::from_vec(request).unwrap();
    let question = request.queries[0].clone();
    let (asked, qtype) = (question.name().clone(), question.query_type());
    let text = asked.to_lowercase().to_ascii();
    let mut reply = Message::response(request.id, OpCode::Query);
    reply.metadata.recursion_desired = true;
    reply.metadata.recursion_available = true;
    let is_missing = text.starts_with("nx.") || text.starts_with("no.") || text.starts_with("9.9.");
    if is_missing || qtype == RecordType::HINFO {
        reply.metadata.response_code = ResponseCode::NXDomain;
    }
    let name = |text: &str| Name::from_ascii(text).unwrap();
    let known = [
        (RecordType::A, RData::A(A::new(192, 0, 2, 80))),
        (RecordType::PTR, RData::PTR(PTR(name("host.test.")))),
    ];
    let found = known.into_iter().find(|it| it.0 == qtype && !is_missing);
    match found.map(|(_, data)| data) {
        Some(data) => {
            reply.add_answer(Record::from_rdata(asked, 300, data));
        }
        None => {
            let soa = SOA::new(name("ns."), name("hm."), 1, 7200, 1800, 86400, 60);
            let mut soa = Record::from_rdata(name("test."), 60, RData::SOA(soa));
            soa.dns_class = question.query_class();
            reply.add_authority(soa);
        }
    }
    reply.add_query(question);
    reply.to_vec().unwrap()
}

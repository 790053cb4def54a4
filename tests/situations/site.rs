//! zonewright with the objects of the situations, and what it says.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use rustix::process::Signal;

use crate::differences;
use crate::support::process::Process;
use crate::support::wire::{self, Message, OPT, Query, Record, SOA, type_name};
use crate::support::{needs, ports};

/// How long a start or a change may take.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// What names without a closing dot are relative to.
const ORIGIN: &str = "testns.svc.cluster.local.";

/// The zones of [`Site::plain`].
const ZONES: &str = "cluster.local 10.in-addr.arpa 172.in-addr.arpa ip6.arpa";

/// A running zonewright.
pub struct Site {
    pub process: Process,
    pub address: SocketAddr,
    folder: tempfile::TempDir,
}

/// A Service, in YAML.
pub fn service(name: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: testns}}\nspec: {{{spec}}}\n"
    )
}

/// An EndpointSlice of a Service, in YAML: its endpoints as a list, its ports as a list.
pub fn slice(name: &str, service: &str, family: &str, endpoints: &str, ports: &str) -> String {
    format!(
        "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: {name}, namespace: testns, \
         labels: {{kubernetes.io/service-name: {service}}}}}\naddressType: {family}\nendpoints: [{endpoints}]\n\
         ports: [{ports}]\n"
    )
}

/// One port named `http`.
pub const HTTP: &str = "{name: http, protocol: TCP, port: 80}";

/// The objects of the list.
pub fn objects() -> String {
    let ports = format!("ports: [{HTTP}]");
    let mut text = String::new();
    for name in ["testns", "nsnoservices", "unexposed"] {
        text += &format!("---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n");
    }
    for (name, spec) in [
        ("svc1", "clusterIPs: [10.0.0.1]"),
        ("svcempty", "clusterIPs: [10.0.0.2]"),
        ("svc-dual-stack", "clusterIPs: [10.0.0.3, \"10::3\"]"),
        ("svc6", "clusterIPs: [\"1234:abcd::1\"]"),
        ("hdls1", "clusterIP: None"),
        ("hdlsprtls", "clusterIP: None"),
        ("hdlsunready", "clusterIP: None"),
    ] {
        let all = if name == "hdlsprtls" {
            spec.to_owned()
        } else {
            format!("{spec}, {ports}")
        };
        text += &service(name, &all);
    }
    text += &service(
        "twoports",
        "clusterIPs: [10.0.0.4], ports: [{name: a, port: 80}, {name: b, port: 443}]",
    );
    text += &service(
        "external",
        "type: ExternalName, externalName: ext.interwebs.test",
    );
    let target = "svc1.testns.svc.cluster.local";
    text += &service(
        "external-to-service",
        &format!("type: ExternalName, externalName: {target}"),
    );
    text += &slices();
    text += "---\napiVersion: v1\nkind: Service\nmetadata: {name: svc1, namespace: unexposed}\n\
             spec: {clusterIPs: [10.0.1.1], ports: [{name: http, port: 80}]}\n";
    text += "---\napiVersion: v1\nkind: Pod\nmetadata: {name: pod1, namespace: testns}\n\
             status: {phase: Running, podIP: 10.240.0.1, podIPs: [{ip: 10.240.0.1}, {ip: \"fd00:240::1\"}]}\n";
    text
}

/// The slices of the list.
fn slices() -> String {
    let mut text = String::new();
    text += &slice(
        "svc1-1",
        "svc1",
        "IPv4",
        "{addresses: [172.0.0.1], hostname: ep1a}",
        HTTP,
    );
    text += &slice(
        "dual-1",
        "svc-dual-stack",
        "IPv4",
        "{addresses: [172.0.0.6]}",
        HTTP,
    );
    text += &slice(
        "svc6-1",
        "svc6",
        "IPv6",
        "{addresses: [\"172:0::1\"], hostname: ep1a}",
        HTTP,
    );
    let first = "{addresses: [172.0.0.2]}, {addresses: [172.0.0.3]}, {addresses: [172.0.0.4], hostname: dup-name}, \
                 {addresses: [172.0.0.5], hostname: dup-name}";
    text += &slice("hdls1-1", "hdls1", "IPv4", first, HTTP);
    text += &slice(
        "hdls1-2",
        "hdls1",
        "IPv6",
        "{addresses: [\"5678:abcd::1\"]}, {addresses: [\"5678:abcd::2\"]}",
        HTTP,
    );
    text += &slice(
        "hdlsprtls-1",
        "hdlsprtls",
        "IPv4",
        "{addresses: [172.0.0.20]}",
        "",
    );
    text += &slice(
        "unready-1",
        "hdlsunready",
        "IPv4",
        "{addresses: [172.0.0.30], conditions: {ready: false}}",
        HTTP,
    );
    text
}

impl Site {
    /// The objects, without options.
    pub fn plain() -> Self {
        Self::with("")
    }

    /// The objects, with these options of `kubernetes`.
    pub fn with(options: &str) -> Self {
        Self::of(ZONES, &objects(), options, "")
    }

    /// The objects and more.
    pub fn and(more: &str) -> Self {
        Self::of(ZONES, &(objects() + more), "", "")
    }

    /// These zones, objects, options of `kubernetes`, and lines beside it. The zones of `kubernetes` are
    /// all, unless the options begin with `ZONES` and those it has. `PORT` is ours in objects and lines.
    pub fn of(zones: &str, objects: &str, options: &str, beside: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("objects")).unwrap();
        let address = ports::free_address();
        let [objects, beside] =
            [objects, beside].map(|text| text.replace("PORT", &address.port().to_string()));
        fs::write(folder.path().join("objects/all.yaml"), objects).unwrap();
        let own = match options.strip_prefix("ZONES ") {
            Some(rest) => rest.split_once('\n').unwrap_or((rest, "")),
            None => (zones, options),
        };
        let (own, options) = own;
        let keys: Vec<String> = zones
            .split(' ')
            .map(|zone| format!("{zone}:{}", address.port()))
            .collect();
        let bind = if beside.contains("bind ") {
            ""
        } else {
            "bind 127.0.0.1"
        };
        let transfer = if beside.contains("transfer ") {
            ""
        } else {
            "transfer {\n to *\n }"
        };
        let text = format!(
            "{} {{\n {bind}\n kubernetes {own} {{\n manifests objects\n{options}\n }}\n {transfer}\n \
             {beside}\n}}\n",
            keys.join(" ")
        );
        fs::write(folder.path().join("Corefile"), &text).unwrap();
        let process = Self::spawn(folder.path());
        let mut site = Self {
            process,
            address,
            folder,
        };
        let all: Vec<&str> = zones.split(' ').collect();
        site.wait("an SOA of every zone", |view| {
            let answered = |zone: &&str| wire::serial(view.address, zone).is_some();
            all.iter().all(answered).then_some(())
        });
        site
    }

    /// One that follows this source, and does not wait for it.
    pub fn unsynced(source: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = ports::free_address();
        let text = from_source(address, source);
        fs::write(folder.path().join("Corefile"), text).unwrap();
        let process = Self::spawn(folder.path());
        Self {
            process,
            address,
            folder,
        }
    }

    /// Has an unsynced one take a Corefile with another source, or the same with other options.
    pub fn reload(&mut self, source: &str) {
        let done = |view: &View| view.log.matches("Reloading complete").count();
        let before = self.wait("the log", |view| Some(done(view)));
        let text = from_source(self.address, source);
        fs::write(self.folder.path().join("Corefile"), text).unwrap();
        self.process.signal(Signal::USR1);
        self.wait("a reload", |view| (done(view) > before).then_some(()));
    }

    /// Starts the process.
    fn spawn(folder: &Path) -> Process {
        let mut command = Command::new(needs::zonewright());
        command
            .args(["run", "--corefile", "Corefile", "--state", "state"])
            // Situations change one name more often in a second than a cluster does.
            .args(["--version-burst", "0"])
            .current_dir(folder);
        Process::spawn("zonewright", &mut command, &folder.join("log"))
    }

    /// Writes a further file of objects.
    pub fn write(&self, file: &str, text: &str) {
        let aside = self.folder.path().join("aside");
        fs::write(&aside, text).unwrap();
        fs::rename(&aside, self.folder.path().join("objects").join(file)).unwrap();
    }

    /// Writes a file of objects and waits for the answer to a question, which comes with a new serial of the zone.
    pub fn write_and_see(&mut self, file: &str, text: &str, question: &str, zone: &str) {
        let before = wire::serial(self.address, zone);
        self.write(file, text);
        self.wait_for(question);
        assert_ne!(wire::serial(self.address, zone), before, "{question}");
    }

    /// Takes a file of objects away.
    pub fn remove(&self, file: &str) {
        fs::remove_file(self.folder.path().join("objects").join(file)).unwrap();
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Waits until a condition gives a value.
    pub fn wait<T>(&mut self, what: &str, condition: impl Fn(&View) -> Option<T>) -> T {
        let (address, file) = (self.address, self.folder.path().join("log"));
        self.process.wait_for(what, PATIENCE, || {
            let log = fs::read_to_string(&file).unwrap_or_default();
            condition(&View { address, log })
        })
    }

    /// Waits until a name has an answer.
    pub fn wait_for(&mut self, question: &str) {
        let (name, qtype) = asked(question);
        self.wait(question, |view| {
            let reply = wire::udp(view.address, &Query::new(&name, qtype)).ok()?;
            (!reply.answers.is_empty()).then_some(())
        });
    }

    /// The reply, which is the same by UDP and by TCP.
    pub fn ask(&self, question: &str) -> Message {
        let (name, qtype) = asked(question);
        // Room for what goes with the answer.
        let query = Query::new(&name, qtype).edns(1232);
        let [quick, whole] = [
            wire::ask(self.address, &query),
            wire::tcp(self.address, &query),
        ]
        .map(|reply| reply.unwrap_or_else(|error| panic!("{question}: {error}")));
        assert_eq!(told(&quick), told(&whole), "{question}");
        whole
    }

    /// The answer is this: `NODATA`, `NXDOMAIN` or another code, or records, one a line (`OWNER TYPE DATA`,
    /// with a TTL before the type when it is not 5), those beside the answer with `+` before them.
    pub fn check(&self, question: &str, wanted: &str) {
        let wanted: BTreeSet<String> = wanted
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .map(line)
            .collect();
        assert_eq!(told(&self.ask(question)), wanted, "{question}");
    }

    /// The same for several questions with one answer.
    pub fn check_all(&self, questions: &[&str], wanted: &str) {
        assert!(!questions.is_empty(), "nothing is asked");
        for question in questions {
            self.check(question, wanted);
        }
    }

    /// The answer is this, and CoreDNS's is another for the reason that the difference of this id gives.
    pub fn check_meant(&self, difference: &str, question: &str, wanted: &str) {
        assert!(
            differences::all().any(|it| it.id == difference),
            "no difference {difference}"
        );
        self.check(question, wanted);
    }

    /// A zone as transferred: texts without SOAs.
    pub fn zone(&self, zone: &str) -> Vec<String> {
        let records =
            wire::axfr(self.address, zone).unwrap_or_else(|error| panic!("{zone}: {error}"));
        let mut texts = wire::texts(&records);
        texts.retain(|text| !text.contains(" IN SOA "));
        texts
    }

    /// How many versions the first zone has had.
    pub fn versions(&self) -> usize {
        let output = self.run(&[
            "log",
            "cluster.local",
            "--state",
            "state",
            "--output",
            "json",
        ]);
        String::from_utf8(output.stdout).unwrap().lines().count()
    }

    /// Runs a command to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(needs::zonewright());
        command
            .args(arguments)
            .current_dir(self.folder())
            .output()
            .unwrap()
    }
}

/// A Corefile for one zone of a source.
fn from_source(address: SocketAddr, source: &str) -> String {
    let port = address.port();
    format!("cluster.local:{port} {{\n bind 127.0.0.1\n kubernetes {{\n {source}\n }}\n}}\n")
}

/// The zones of these objects as `render` writes them, for a server at 192.0.2.1:5300, which no test can be.
pub fn rendered(zones: &str, objects: &str, own: &str, beside: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("objects")).unwrap();
    fs::write(
        folder.path().join("objects/all.yaml"),
        objects.replace("PORT", "5300"),
    )
    .unwrap();
    let keys: Vec<String> = zones
        .split(' ')
        .map(|zone| format!("{zone}:5300"))
        .collect();
    let text = format!(
        "{} {{\n bind 192.0.2.1\n kubernetes {own} {{\n manifests objects\n }}\n{beside}\n}}\n",
        keys.join(" ")
    );
    fs::write(folder.path().join("Corefile"), text).unwrap();
    let mut command = Command::new(needs::zonewright());
    command
        .args(["render", "--corefile", "Corefile"])
        .env("POD_NAMESPACE", "kube-system")
        .current_dir(folder.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Where a site answers, and what it logged so far.
pub struct View {
    pub address: SocketAddr,
    pub log: String,
}

/// An absolute name: relative ones lie in [`ORIGIN`].
fn absolute(name: &str) -> String {
    if name.ends_with('.') {
        name.to_owned()
    } else {
        format!("{name}.{ORIGIN}")
    }
}

/// Name and type of `NAME TYPE`.
fn asked(question: &str) -> (String, u16) {
    let (name, qtype) = question.split_once(' ').unwrap();
    let types = [
        wire::A,
        wire::AAAA,
        wire::NS,
        wire::CNAME,
        SOA,
        wire::PTR,
        wire::MX,
        wire::TXT,
        wire::SRV,
    ];
    let number = types.into_iter().find(|number| type_name(*number) == qtype);
    let number = number.or_else(|| (qtype == "HINFO").then_some(13));
    (
        absolute(name),
        number.unwrap_or_else(|| panic!("type {qtype}")),
    )
}

/// A line of an expectation in full.
fn line(text: &str) -> String {
    let (mark, rest) = match text.strip_prefix("+ ") {
        Some(rest) => ("+ ", rest),
        None => ("", text),
    };
    let mut parts: Vec<String> = rest.split(' ').map(str::to_owned).collect();
    if parts.len() == 1 {
        return rest.to_owned();
    }
    if parts[1].parse::<u32>().is_err() {
        parts.insert(1, "5".to_owned());
    }
    let last = parts.len() - 1;
    let is_name = !parts[last].starts_with('"') && parts[last].parse::<IpAddr>().is_err();
    if is_name {
        parts[last] = absolute(&parts[last]);
    }
    parts[0] = absolute(&parts[0]).to_lowercase();
    parts.insert(2, "IN".to_owned());
    format!("{mark}{}", parts.join(" "))
}

/// A reply as the lines of an expectation.
fn told(message: &Message) -> BTreeSet<String> {
    let beside = message
        .additional
        .iter()
        .filter(|record| record.rtype != OPT);
    let mut lines: BTreeSet<String> = message
        .answers
        .iter()
        .map(Record::text)
        .chain(beside.map(|record| format!("+ {}", record.text())))
        .collect();
    let authority = message.authority.iter().any(|record| record.rtype == SOA);
    let code = match (message.rcode(), message.answers.is_empty()) {
        (0, false) => "",
        (0, true) if authority => "NODATA",
        (0, true) => "NODATA-WITHOUT-SOA",
        (3, _) if authority => "NXDOMAIN",
        (3, _) => "NXDOMAIN-WITHOUT-SOA",
        (2, _) => "SERVFAIL",
        (5, _) => "REFUSED",
        (9, _) => "NOTAUTH",
        (_, _) => "another code",
    };
    lines.extend((!code.is_empty()).then(|| code.to_owned()));
    lines.extend(
        (!message.is_authoritative() && message.rcode() != 5 && message.rcode() != 2)
            .then(|| "without AA".to_owned()),
    );
    lines
}

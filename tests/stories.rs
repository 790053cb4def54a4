//! Stories by chance: objects change, the Corefile changes, people hold and release zones, the server is stopped, killed and
//! away. The test keeps a record of what it did. Each version names objects to which something was done since the version
//! before, and of each record only those of its own Service; where the Corefile alone changed, the Corefile; where a
//! person put an old content back, that.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::support::process::Process;
use crate::support::product::{CHANGE, START, Site};
use crate::support::wire;
use fastrand::Rng;
use serde_json::Value;

const ZONE: &str = "cluster.local.";
/// The number of things that happen in a story.
const STEPS: usize = 200;
/// The names of Services.
const SERVICES: [&str; 3] = ["db", "web", "mail"];

/// A Service's slices, by number, each with the hosts of its endpoints.
type Slices = BTreeMap<u8, BTreeSet<u8>>;

/// A story as it goes on.
struct Story {
    site: Site,
    random: Rng,
    /// The server; `None` while it is away.
    server: Option<Process>,
    /// The Services that are there.
    services: BTreeMap<&'static str, Slices>,
    ttl: u32,
    /// Whether the zone is frozen or rolled back.
    is_held: bool,
    /// The objects to which something was done since the last version, as `Kind name`.
    done: BTreeSet<String>,
    /// Those of the last step.
    of_step: BTreeSet<String>,
    /// Whether the Corefile changed since then.
    is_configured: bool,
    /// Whether a rollback began or ended since then.
    is_rolled: bool,
    /// The serials that were looked at.
    seen: BTreeSet<u64>,
    /// What happened, for the report of a failure.
    told: Vec<String>,
}

/// A Corefile without a gate: what is told here is told of versions.
fn corefile(site: &Site) -> String {
    site.corefile("history {\n        versions 300\n    }\n    gate {\n        shrink 100\n    }")
}

impl Story {
    fn begin(seed: u64) -> Self {
        let site = Site::new();
        site.write("Corefile", &corefile(&site));
        site.manifest(
            "namespace.yaml",
            "apiVersion: v1\nkind: Namespace\nmetadata: {name: test}\n",
        );
        let mut story = Self {
            site,
            random: Rng::with_seed(seed),
            server: None,
            services: BTreeMap::new(),
            ttl: 5,
            is_held: false,
            done: BTreeSet::new(),
            of_step: BTreeSet::new(),
            is_configured: false,
            is_rolled: false,
            seen: BTreeSet::new(),
            told: vec![format!("seed {seed}")],
        };
        for service in SERVICES {
            story.add(service);
        }
        story.start();
        // All objects of a first start are new.
        story.look(false);
        story.of_step.clear();
        story.forget();
        story
    }

    /// Something happens.
    fn step(&mut self) {
        let is_away = self.server.is_none();
        match self.random.u8(..14) {
            0..=4 => self.change(),
            5 => {
                self.ttl = self.random.u32(5..60);
                self.is_configured = true;
                self.tell("the ttl changes");
                self.configure();
            }
            6..=9 if is_away => self.start(),
            6 => self.end(false),
            7 => self.end(true),
            8 if !is_away && !self.is_held => {
                self.tell("freeze");
                self.site.ask(&["freeze", ZONE, "--for", "1h"]);
                self.is_held = true;
            }
            9 if !is_away && !self.is_held => self.roll_back(),
            10..=12 if !is_away && self.is_held => {
                self.tell("release");
                self.site.ask(&["release", ZONE]);
                self.is_held = false;
            }
            _ => self.change(),
        }
        if self.server.is_some() {
            self.settle();
            if self.look(true) && !self.is_held {
                self.forget();
            }
        }
        self.of_step.clear();
    }

    /// Something was done to an object.
    fn note(&mut self, object: String) {
        self.done.insert(object.clone());
        self.of_step.insert(object);
    }

    fn tell(&mut self, what: &str) {
        self.told.push(what.to_owned());
    }

    /// What was done is published. The files of several objects are read one after the other, so that the last of them may
    /// come after the version.
    fn forget(&mut self) {
        self.done = match self.of_step.len() {
            0 | 1 => BTreeSet::new(),
            _ => std::mem::take(&mut self.of_step),
        };
        self.is_configured = false;
        self.is_rolled = false;
    }

    /// An object changes, comes or goes.
    fn change(&mut self) {
        let service = SERVICES[self.random.usize(..SERVICES.len())];
        let Some(slices) = self.services.get(service) else {
            return self.add(service);
        };
        if self.random.u8(..6) == 0 {
            return self.remove(service);
        }
        let number = self.random.u8(1..4);
        let mut hosts = slices.get(&number).cloned();
        match &mut hosts {
            Some(_) if self.random.u8(..4) == 0 => hosts = None,
            hosts => {
                let host = self.random.u8(1..20);
                let hosts = hosts.get_or_insert_default();
                if !hosts.remove(&host) {
                    hosts.insert(host);
                }
            }
        }
        self.put_slice(service, number, hosts);
    }

    /// A Service comes, with a slice.
    fn add(&mut self, service: &'static str) {
        self.services.insert(service, Slices::new());
        self.tell(&format!("add Service {service}"));
        self.note(format!("Service {service}"));
        self.put_slice(service, 1, Some([1].into()));
        let text = format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: {service}, namespace: test}}\nspec:\n  clusterIP: None\n  \
             ports: [{{name: web, port: 80, protocol: TCP}}]\n"
        );
        self.site.manifest(&format!("{service}.yaml"), &text);
    }

    /// A Service goes, and its slices stay, as they do for a moment in a cluster.
    fn remove(&mut self, service: &'static str) {
        self.tell(&format!("remove Service {service}"));
        self.note(format!("Service {service}"));
        let path = self.site.path(&format!("manifests/{service}.yaml"));
        fs::remove_file(path).expect("it was there");
        for (number, _) in self.services.remove(service).expect("it was there") {
            self.put_slice(service, number, None);
        }
    }

    /// A slice has these endpoints from now on, or is gone.
    fn put_slice(&mut self, service: &'static str, number: u8, hosts: Option<BTreeSet<u8>>) {
        let name = format!("{service}-{number}");
        self.tell(&format!("slice {name}: {hosts:?}"));
        self.note(format!("EndpointSlice {name}"));
        let file = format!("{name}.yaml");
        let slices = self.services.get_mut(service);
        let Some(hosts) = hosts else {
            slices.map(|slices| slices.remove(&number));
            return fs::remove_file(self.site.path(&format!("manifests/{file}"))).unwrap_or(());
        };
        let place = SERVICES.iter().position(|it| *it == service);
        let net = 10 * place.expect("it is one of them") + usize::from(number);
        let endpoint = |host: &u8| format!("{{addresses: [10.244.{net}.{host}]}}");
        let endpoints: Vec<String> = hosts.iter().map(endpoint).collect();
        let text = format!(
            "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: {name}\n  namespace: test\n  \
             labels: {{kubernetes.io/service-name: {service}}}\naddressType: IPv4\nendpoints: [{}]\n\
             ports: [{{name: web, port: 8080, protocol: TCP}}]\n",
            endpoints.join(", ")
        );
        slices.map(|slices| slices.insert(number, hosts));
        self.site.manifest(&file, &text);
    }

    /// Writes the Corefile, and has a server read it.
    fn configure(&mut self) {
        let corefile = corefile(&self.site);
        let ttl = format!("ttl {}", self.ttl);
        self.site
            .write("Corefile", &corefile.replace("ttl 5", &ttl));
        if self.server.is_some() {
            self.site.ask(&["reload"]);
        }
    }

    fn start(&mut self) {
        self.tell("start");
        self.server = Some(self.site.start_answering());
    }

    /// The server ends, in good order or not.
    fn end(&mut self, is_killed: bool) {
        self.tell(if is_killed { "kill" } else { "stop" });
        let mut server = self.server.take().expect("it is there");
        match is_killed {
            true => server.kill(),
            false => server.terminate(START),
        };
    }

    /// The content of an old version is served again.
    fn roll_back(&mut self) {
        let serials: Vec<u64> = self.seen.iter().copied().collect();
        let to = serials[self.random.usize(..serials.len())].to_string();
        self.tell(&format!("rollback to {to}"));
        self.site.ask(&["rollback", ZONE, &to, "--for", "1h"]);
        self.is_held = true;
        self.is_rolled = true;
    }

    /// Waits until what the sources say is served, or waits.
    fn settle(&mut self) {
        let (site, is_held) = (&self.site, self.is_held);
        let content = |output: std::process::Output| -> Vec<String> {
            let text = String::from_utf8(output.stdout).expect("it is UTF-8");
            let lines = text.lines().filter(|line| !line.contains(" IN SOA "));
            let records = lines.filter(|line| !line.is_empty() && !line.starts_with(['$', ';']));
            let mut records: Vec<String> = records.map(str::to_owned).collect();
            records.sort();
            records
        };
        let ask = |args: &[&str]| site.run(&[args, &["--state", "state"]].concat());
        let told = self.told.join("\n");
        let server = self.server.as_mut().expect("it is there");
        server.wait_for(
            &format!("what was done to be seen:\n{told}\n"),
            CHANGE,
            || {
                let want = content(site.run(&["render", ZONE, "--corefile", "Corefile"]));
                assert!(!want.is_empty());
                let waits = content(ask(&["show", &format!("{ZONE}@held")]));
                let now = match is_held && !waits.is_empty() {
                    true => waits,
                    false => content(ask(&["show", ZONE])),
                };
                (now == want).then_some(())
            },
        );
    }

    /// Looks at the versions that are new. Whether there are some.
    fn look(&mut self, is_checked: bool) -> bool {
        let log = self.site.ask(&["log", ZONE, "--output", "json"]);
        let lines = log
            .lines()
            .map(|line| serde_json::from_str(line).expect("it is JSON"));
        let versions = lines.filter(|line: &Value| line["type"].is_null());
        let mut versions: Vec<Value> = versions.collect();
        versions.reverse();
        let before = self.seen.len();
        for version in versions {
            let serial = version["serial"].as_u64().expect("it is a number");
            if self.seen.insert(serial) && is_checked {
                self.check(&version);
            }
        }
        self.seen.len() > before
    }

    /// Checks each record of a version.
    fn check(&self, version: &Value) {
        let list = |name: &str| version[name].as_array().expect("it is a list").clone();
        let causes = list("causes");
        let without_ttl = |record: &Value| {
            let text = record["record"].as_str().expect("it is text");
            let words: Vec<&str> = text.split(' ').collect();
            [&words[..1], &words[2..]].concat().join(" ")
        };
        let [removed, added] = ["removed", "added"].map(list);
        let texts = |list: &[Value]| list.iter().map(without_ttl).collect::<BTreeSet<_>>();
        let [gone, new] = [texts(&removed), texts(&added)];
        let both: BTreeSet<String> = gone.intersection(&new).cloned().collect();
        for record in removed.iter().chain(&added) {
            let text = without_ttl(record);
            let cause = record["cause"].as_u64().expect("it is a number");
            let group = causes[usize::try_from(cause).expect("it is small")].as_array();
            let group = group.expect("it is a list");
            let fail = |why: &str| -> ! {
                panic!("{why}: {record} {group:?}\n{}", self.told.join("\n"));
            };
            if group.is_empty() {
                fail("nothing is named");
            }
            for cause in group {
                let verb = cause["verb"].as_str().expect("it is text");
                let name = cause["name"].as_str().expect("it is text");
                let Some(kind) = cause["kind"].as_str() else {
                    let is_true = match verb {
                        "configured" => self.is_configured && name.contains("the Corefile"),
                        "rolled back" | "resumed" => self.is_rolled,
                        _ => false,
                    };
                    if !is_true {
                        fail("that was not done");
                    }
                    continue;
                };
                if !self.done.contains(&format!("{kind} {name}")) {
                    fail("nothing was done to that");
                }
                let service = name.split('-').next().expect("there is a part");
                if !text.contains(&format!("{service}.test.svc.")) {
                    fail("that is of another Service");
                }
                if both.contains(&text) && !self.is_rolled {
                    fail("no object has a TTL");
                }
            }
        }
    }
}

#[test]
fn each_version_names_what_was_really_done() {
    let seed = fuzz::seed();
    let mut story = Story::begin(seed);
    for _ in 0..STEPS {
        story.step();
    }
    if story.server.is_none() {
        story.start();
        story.settle();
        story.look(true);
    }
    assert!(wire::serial(story.site.dns, ZONE).is_some());
    assert!(story.seen.len() > STEPS / 10, "{:?}", story.told);
}
